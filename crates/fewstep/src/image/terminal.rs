//! The findings as plain text.

use super::{Findings, Quality};
use crate::report::terminal::{Line, aligned, shortened};

const CELL: usize = 8;
const LABEL_MAX: usize = 40;

/// Class accuracy and the distance of the attributes' law, where pictures can be read back.
pub fn table(findings: &Findings) -> String {
    let (ks, labels) = (findings.ks(), findings.labels());
    let read = findings.points.iter().any(|p| p.quality.is_some());
    let tokenizer = match &findings.reconstruction {
        Some(found) => format!("tokenizer: {}\n\n", found.words()),
        None => String::new(),
    };
    if !read || ks.is_empty() {
        return format!("{tokenizer}the pictures cannot be read back; see the report\n");
    }
    let rows = |see: &dyn Fn(&Quality) -> f64| -> Vec<Line> {
        let line = |label: &String| Line {
            label: shortened(label, LABEL_MAX),
            cells: ks
                .iter()
                .map(|&k| match findings.mean(label, k, see) {
                    Some(value) => format!("{value:.3}"),
                    None => "-".into(),
                })
                .collect(),
            apart: false,
        };
        labels.iter().map(line).collect()
    };
    let mut lines = aligned("class accuracy at K =", &ks, rows(&|q| q.accuracy), CELL);
    lines.push(String::new());
    lines.extend(aligned(
        "TV of attributes at K =",
        &ks,
        rows(&|q| q.tv),
        CELL,
    ));
    if let Some(noise) = findings.mean("data", 0, |q| q.tv) {
        lines.push(format!(
            "{} pictures of the law itself: {noise:.3}",
            findings.samples
        ));
    }
    tokenizer + &lines.join("\n") + "\n"
}
