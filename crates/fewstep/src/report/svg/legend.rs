//! The legend: which line is which series.
//!
//! It stands outside the frame, so it never covers a line, and the picture grows with it.

use super::super::{Row, Series};
use super::draw::{CHARACTER, text};
use super::style::Style;

/// Distance between two entries.
const STEP: f64 = 23.0;
/// Length of a sample: long enough for one period of every dash.
const SAMPLE: f64 = 40.0;
/// Room for names of this many characters at least keeps small pictures in proportion.
const SHORTEST: usize = 24;

/// A series by its name.
pub struct Entry<'a> {
    pub label: &'a str,
    pub style: &'a Style,
    /// Leaves a gap above it: another family begins.
    pub apart: bool,
}

/// The drawn legend and how far it reaches.
pub struct Legend {
    pub body: String,
    pub right: f64,
    pub bottom: f64,
}

impl Legend {
    /// The entries from `(x, y)` downwards.
    pub fn new<'a>(entries: impl IntoIterator<Item = Entry<'a>>, (x, mut y): (f64, f64)) -> Self {
        let mut body = String::new();
        let mut longest = SHORTEST;
        for Entry {
            label,
            style,
            apart,
        } in entries
        {
            if apart {
                y += STEP / 3.0;
            }
            body += &sample(style, x, y);
            body += &text(x + SAMPLE + 9.0, y + 4.0, "", label);
            y += STEP;
            longest = longest.max(label.chars().count());
        }
        let right = x + SAMPLE + 12.0 + CHARACTER * longest as f64;
        Self {
            body,
            right,
            bottom: y + STEP / 2.0,
        }
    }
}

/// The samples as SVGs of their own, to mark the series outside the chart.
pub fn swatches(series: &[Series<'_, Row>]) -> Vec<String> {
    Style::of(series).iter().map(swatch).collect()
}

/// A sample as an SVG of its own.
pub fn swatch(style: &Style) -> String {
    let sample = sample(style, 3.0, 8.0);
    format!(r#"<svg viewBox="0 0 46 16" width="46" height="16" aria-hidden="true">{sample}</svg>"#)
}

/// A short piece of the series' line with its marker.
fn sample(style: &Style, x: f64, y: f64) -> String {
    style.line(&[(x, y), (x + SAMPLE, y)]) + &style.marker(x + SAMPLE / 2.0, y, false, "")
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::sample as report;
    use super::super::tv_chart;
    use super::*;

    #[test]
    fn every_series_is_named_right_of_the_frame() {
        let svg = tv_chart(&report());
        for label in [
            "paper, baseline",
            "dag linear, exact C",
            "base, T = 0.9",
            "recipe",
        ] {
            let entry = svg
                .split("<text ")
                .find(|t| t.contains(&format!(">{label}</text>")));
            assert!(
                entry.is_some_and(|t| t.starts_with(r#"x="737.0""#)),
                "{label}"
            );
        }
    }

    #[test]
    fn it_grows_with_the_names_and_their_number() {
        let report = report();
        let style = &Style::of(&report.series())[0];
        let label = &"x".repeat(34);
        let entries = (0..30).map(|i| Entry {
            label,
            style,
            apart: i % 10 == 9,
        });
        let legend = Legend::new(entries, (100.0, 50.0));
        assert_eq!(legend.bottom, 50.0 + 31.5 * 23.0);
        assert!((legend.right - (152.0 + 34.0 * 6.9)).abs() < 1e-9);
    }

    #[test]
    fn swatches_follow_the_series() {
        let report = report();
        let swatches = swatches(&report.series());
        assert_eq!(swatches.len(), 6);
        assert!(swatches[0].contains(r#"stroke-dasharray="6 4""#));
        assert!(swatches[5].contains(r#"stroke-width="4""#));
    }
}
