//! The findings as files.

use std::path::Path;

use super::{Findings, frontier_charts, html, quality_chart};
use crate::report::WriteError;
use crate::report::write::write_views;

/// Writes `report.html`, `quality.svg`, `frontier.svg` and `report.json`, each all or nothing.
pub fn write(findings: &Findings, dir: &Path) -> Result<(), WriteError> {
    let views = [
        ("quality.svg", quality_chart(findings)),
        ("frontier.svg", frontier_charts(findings)),
        ("report.html", html(findings)),
    ];
    write_views(dir, &views, findings)
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn findings_are_four_files_and_their_json_reads_back() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let out = dir.path().join("new/out");
        write(&sample(), &out).expect("writes");
        let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("reads");
        let findings: Findings = serde_json::from_str(&read("report.json")).expect("parses");
        assert_eq!(findings.trainings, sample().trainings);
        for (one, other) in findings.points.iter().zip(&sample().points) {
            // The parser may miss the last bit of a number.
            assert!((one.quality.nll - other.quality.nll).abs() < 1e-12);
            assert_eq!((&one.sample, one.k), (&other.sample, other.k));
        }
        assert_eq!(findings.points.len(), sample().points.len());
        assert_eq!(read("quality.svg"), quality_chart(&sample()));
        assert_eq!(read("frontier.svg"), frontier_charts(&sample()));
        assert_eq!(read("report.html"), html(&sample()));
    }
}
