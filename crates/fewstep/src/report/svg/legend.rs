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

/// The drawn legend and how far it reaches.
pub struct Legend {
    pub body: String,
    pub right: f64,
    pub bottom: f64,
}

impl Legend {
    /// One entry per series from `(x, y)` downwards, with a gap between families.
    pub fn new(series: &[Series<'_, Row>], styles: &[Style], (x, mut y): (f64, f64)) -> Self {
        let mut body = String::new();
        let mut longest = SHORTEST;
        for (i, (one, style)) in series.iter().zip(styles).enumerate() {
            if i > 0 && series[i - 1].family != one.family {
                y += STEP / 3.0;
            }
            body += &sample(style, x, y);
            body += &text(x + SAMPLE + 9.0, y + 4.0, "", &one.label);
            y += STEP;
            longest = longest.max(one.label.chars().count());
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
    let swatch = |style: Style| {
        let sample = sample(&style, 3.0, 8.0);
        format!(
            r#"<svg viewBox="0 0 46 16" width="46" height="16" aria-hidden="true">{sample}</svg>"#
        )
    };
    Style::of(series).into_iter().map(swatch).collect()
}

/// A short piece of the series' line with its marker.
fn sample(style: &Style, x: f64, y: f64) -> String {
    style.line(&[(x, y), (x + SAMPLE, y)]) + &style.marker(x + SAMPLE / 2.0, y, false, "")
}

#[cfg(test)]
mod tests {
    use super::super::super::Report;
    use super::super::super::tests::{row, sample as report};
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
        let table: Vec<Row> = (0..30)
            .map(|i| row("dag", &format!("{i:030}"), "", 2, 0.1))
            .collect();
        let report = Report {
            table,
            ..Report::default()
        };
        let series = report.series();
        let legend = Legend::new(&series, &Style::of(&series), (100.0, 50.0));
        assert_eq!(legend.bottom, 50.0 + 30.5 * 23.0);
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
