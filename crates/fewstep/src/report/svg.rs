//! The TV chart, written by hand as a standalone SVG.
//!
//! Both axes are logarithmic: an error that falls like a power of the number of steps is a
//! straight line, and the factor between two methods is the same distance everywhere. The
//! picture brings its own white background, so it reads the same in light and dark viewers.

pub(crate) mod draw;
pub(crate) mod frame;
pub(crate) mod legend;
pub(crate) mod scale;
mod split;
pub(crate) mod style;

use super::{Family, Report, Row, Series, escape, four_decimals};
use draw::{document, text};
use frame::Frame;
pub(super) use legend::swatches;
use legend::{Entry, Legend};
use scale::{Log, tick_above, tick_below};
pub(super) use split::nats;
pub use split::split_chart;
use std::cmp::Reverse;
use style::Style;

/// Where a chart that fills the picture has its frame.
pub(crate) const FRAME: Frame = Frame {
    left: 74.0,
    right: 660.0,
    top: 58.0,
    bottom: 540.0,
};
/// Values below this are rounding noise of the enumeration, not a measured distance.
const FLOOR: f64 = 1e-6;

/// The chart of total variation against the number of steps, one line per series.
///
/// Values that are not finite are left out. A value of zero is drawn hollow on the lower
/// edge, and a remark under the axis says so.
pub fn tv_chart(report: &Report) -> String {
    let series = report.series();
    let styles = Style::of(&series);
    let ks: Vec<usize> = report.ks().into_iter().filter(|&k| k > 0).collect();
    let axes = Axes::new(&ks, &report.table);

    let mut lines: Vec<_> = series.iter().zip(&styles).collect();
    // The recipe is drawn over everything; below it the thinner line lies over the thicker.
    lines.sort_by_key(|(series, _)| (series.family == Family::Recipe, Reverse(series.family)));
    let lines: String = lines
        .into_iter()
        .map(|(series, style)| axes.line(series, style))
        .collect();

    let entries = series.iter().zip(&styles).enumerate();
    let entries = entries.map(|(i, (one, style))| Entry {
        label: &one.label,
        style,
        apart: i > 0 && series[i - 1].family != one.family,
    });
    let legend = Legend::new(entries, FRAME.beside());
    let height = legend.bottom.max(FRAME.below());
    let body = [
        axes.grid(&ks),
        lines,
        legend.body,
        axes.remark(&report.table),
    ]
    .concat();
    document(
        legend.right,
        height,
        &format!("{}: total variation to the target", report.title),
        &body,
    )
}

/// The two scales of the chart.
struct Axes {
    x: Log,
    y: Log,
}

impl Axes {
    fn new(ks: &[usize], rows: &[Row]) -> Self {
        let (below, shown): (Vec<f64>, Vec<f64>) =
            drawn(rows).map(|row| row.tv).partition(|&tv| tv < FLOOR);
        let least = shown.iter().copied().fold(1.0, f64::min);
        let most = shown.iter().copied().reduce(f64::max).unwrap_or(1.0);
        let high = tick_above(most).value();
        // A decade at least, or small differences would look large.
        let mut low = tick_below(least.min(high / 10.0)).value();
        if !below.is_empty() {
            // One more tick keeps clipped values clear of the smallest shown one.
            low = tick_below(low * 0.9).value();
        }
        Self {
            x: FRAME.steps(ks),
            y: Log {
                low,
                high,
                start: FRAME.bottom,
                end: FRAME.top,
            },
        }
    }

    fn line(&self, series: &Series<'_, Row>, style: &Style) -> String {
        let rows: Vec<&Row> = drawn(series.cells.iter().copied()).collect();
        let place = |row: &Row| (self.x.at(row.k as f64), self.y.at(row.tv.max(self.y.low)));
        let points: Vec<_> = rows.iter().map(|row| place(row)).collect();
        let markers = rows.iter().zip(&points).map(|(row, &(x, y))| {
            let tooltip = format!(
                "<title>{}, K = {}: {}</title>",
                escape(&series.label),
                row.k,
                four_decimals(row.tv)
            );
            style.marker(x, y, row.tv < FLOOR, &tooltip)
        });
        format!(
            "<g>{}{}</g>\n",
            style.line(&points),
            markers.collect::<String>()
        )
    }

    fn grid(&self, ks: &[usize]) -> String {
        let ticks = self.y.ticks();
        let y = ticks
            .iter()
            .map(|tick| (self.y.at(tick.value()), tick.label()));
        FRAME.draw(
            ks.iter().map(|&k| (self.x.at(k as f64), k.to_string())),
            y,
            ("steps K", "total variation"),
        )
    }

    /// What the reader must know about missing or clipped points.
    fn remark(&self, rows: &[Row]) -> String {
        if drawn(rows).next().is_none() {
            return FRAME.say("no values yet");
        }
        if drawn(rows).all(|row| row.tv >= FLOOR) {
            return String::new();
        }
        let edge = tick_below(self.y.low).label();
        let remark = format!("hollow: below 1e-6, drawn at {edge}");
        text(
            FRAME.right,
            FRAME.bottom + 42.0,
            r#"text-anchor="end" font-style="italic""#,
            &remark,
        )
    }
}

/// The rows a logarithmic chart can place, zero included.
fn drawn<'a>(rows: impl IntoIterator<Item = &'a Row>) -> impl Iterator<Item = &'a Row> {
    rows.into_iter()
        .filter(|row| row.k > 0 && row.tv.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_balanced, row};
    use super::*;

    fn chart(table: Vec<Row>) -> String {
        let svg = tv_chart(&Report {
            table,
            ..Report::default()
        });
        assert_balanced(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        svg
    }

    fn base(values: &[(usize, f64)]) -> Vec<Row> {
        values
            .iter()
            .map(|&(k, tv)| row("base", "", "", k, tv))
            .collect()
    }

    #[test]
    fn points_are_where_the_logarithms_say() {
        // x: 98 to 636 over four doublings. y: 540 to 58 over two decades.
        let svg = chart(base(&[(2, 1.0), (8, 0.1), (32, 0.01)]));
        assert!(svg.contains(r#"points="98.0,58.0 367.0,299.0 636.0,540.0""#));
    }

    #[test]
    fn ticks_are_at_the_ks_and_at_one_two_five() {
        let svg = chart(base(&[(2, 0.9), (3, 0.3), (32, 0.03)]));
        for label in ["2", "3", "32", "0.02", "0.05", "0.1", "0.2", "0.5", "1"] {
            assert!(svg.contains(&format!(">{label}</text>")), "no tick {label}");
        }
        for label in ["4", "8", "0.01", "0.03"] {
            assert!(!svg.contains(&format!(">{label}</text>")), "tick {label}");
        }
    }

    #[test]
    fn zero_is_hollow_on_the_edge_and_said_so() {
        let svg = chart(base(&[(2, 0.1), (4, 0.0)]));
        assert!(svg.contains(r#"636.0,540.0" fill="none""#));
        assert!(svg.contains(r##"fill="#ffffff" stroke="#0072b2""##));
        assert!(svg.contains("hollow: below 1e-6, drawn at 0.005"));
        assert!(!chart(base(&[(2, 0.1)])).contains("hollow"));
    }

    #[test]
    fn nan_is_skipped_and_one_k_is_centred() {
        let svg = chart(base(&[(2, f64::NAN), (4, 0.1), (8, 0.1)]));
        assert_eq!(svg.matches("<title>base").count(), 2);
        assert!(chart(base(&[(4, 0.1)])).contains(r#"points="367.0,"#));
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(chart(Vec::new()).contains(">no values yet</text>"));
        assert!(chart(base(&[(2, f64::NAN)])).contains(">no values yet</text>"));
    }
}
