//! The findings as plain text.

use super::{
    Findings,
    metric::{ACCURACY, FID, LAW, Metric, SCORE},
};
use crate::report::terminal::{Line, aligned, shortened};

const CELL: usize = 8;
const LABEL_MAX: usize = 40;

/// What is shown in the terminal, where it could be had; the report has the rest.
const SHOWN: [&Metric; 4] = [&ACCURACY, &LAW, &FID, &SCORE];

/// Class accuracy and the distance of the attributes' law, where pictures can be read back; FID and Inception
/// Score, where a network looked at them.
pub fn table(findings: &Findings) -> String {
    let (ks, labels) = (findings.ks(), findings.labels());
    let tokenizer = match &findings.reconstruction {
        Some(found) => format!("tokenizer: {}\n\n", found.words()),
        None => String::new(),
    };
    let shown: Vec<&Metric> = SHOWN.into_iter().filter(|m| findings.has(m)).collect();
    if shown.is_empty() || ks.is_empty() {
        return format!("{tokenizer}the pictures cannot be read back; see the report\n");
    }
    let block = |metric: &Metric| {
        let line = |label: &String| Line {
            label: shortened(label, LABEL_MAX),
            cells: ks
                .iter()
                .map(|&k| match findings.mean(label, k, metric) {
                    Some(value) => metric.show(value),
                    None => "-".into(),
                })
                .collect(),
            apart: false,
        };
        let heading = format!("{} at K =", metric.name);
        let mut lines = aligned(&heading, &ks, labels.iter().map(line).collect(), CELL);
        let noise = findings.mean("data", 0, metric).filter(|_| metric.lower);
        lines.extend(noise.map(|noise| {
            let noise = metric.show(noise);
            format!("{} pictures of the law itself: {noise}", findings.samples)
        }));
        lines.join("\n") + "\n"
    };
    let blocks: Vec<String> = shown.into_iter().map(block).collect();
    let notes = findings.notes().into_iter();
    let notes: String = notes.map(|note| format!("note: {note}\n")).collect();
    tokenizer + &blocks.join("\n") + &notes
}
