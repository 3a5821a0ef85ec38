//! The TV chart, written by hand as a standalone SVG.
//!
//! Both axes are logarithmic: an error that falls like a power of the number of steps is a
//! straight line, and the factor between two methods is the same distance everywhere. The
//! picture brings its own white background, so it reads the same in light and dark viewers.

mod scale;
mod split;
mod style;

use super::{Report, Row, Series, escape, four_decimals};
use scale::{Log, tick_above, tick_below};
pub(super) use split::nats;
pub use split::split_chart;
use style::Style;

const LEFT: f64 = 74.0;
const RIGHT: f64 = 660.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 500.0;
/// Room between the frame and the first and last number of steps.
const INSET: f64 = 24.0;
const LEGEND: f64 = RIGHT + 28.0;
const LEGEND_STEP: f64 = 23.0;
/// A generous width of one character at the font size of the charts.
const CHARACTER: f64 = 6.9;
/// Values below this are rounding noise of the enumeration, not a measured distance.
const FLOOR: f64 = 1e-6;
/// Tick labels closer than this would touch.
const LABEL_GAP: f64 = 18.0;

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
    lines.sort_by_key(|(series, _)| (series.family == super::Family::Recipe, std::cmp::Reverse(series.family)));
    let lines: String = lines.into_iter().map(|(series, style)| axes.line(series, style)).collect();

    let longest = series.iter().map(|series| series.label.chars().count()).max().unwrap_or(0);
    let width = LEGEND + 46.0 + CHARACTER * longest.max(8) as f64;
    let legend = legend(&series, &styles);
    let height = legend.bottom.max(BOTTOM + 62.0);
    let body = [axes.grid(&ks), lines, legend.body, axes.remark(&report.table)].concat();
    document(width, height, &format!("{}: total variation to the target", report.title), &body)
}

/// A legend sample as an SVG of its own, to mark a series outside the chart.
pub(super) fn swatches(series: &[Series<'_, Row>]) -> Vec<String> {
    let swatch = |style: Style| {
        let sample = sample(&style, 2.0, 8.0);
        format!(r#"<svg viewBox="0 0 36 16" width="36" height="16" aria-hidden="true">{sample}</svg>"#)
    };
    Style::of(series).into_iter().map(swatch).collect()
}

/// The two scales of the chart.
struct Axes {
    x: Log,
    y: Log,
}

impl Axes {
    fn new(ks: &[usize], rows: &[Row]) -> Self {
        let k = |k: Option<&usize>| k.map_or(1.0, |&k| k as f64);
        let x = Log { low: k(ks.first()), high: k(ks.last()), start: LEFT + INSET, end: RIGHT - INSET };

        let (below, shown): (Vec<f64>, Vec<f64>) = drawn(rows).map(|row| row.tv).partition(|&tv| tv < FLOOR);
        let least = shown.iter().copied().fold(1.0, f64::min);
        let most = shown.iter().copied().reduce(f64::max).unwrap_or(1.0);
        let high = tick_above(most).value();
        // A decade at least, or small differences would look large.
        let mut low = tick_below(least.min(high / 10.0)).value();
        if !below.is_empty() {
            // One more tick keeps clipped values clear of the smallest shown one.
            low = tick_below(low * 0.9).value();
        }
        Self { x, y: Log { low, high, start: BOTTOM, end: TOP } }
    }

    fn line(&self, series: &Series<'_, Row>, style: &Style) -> String {
        let rows: Vec<&Row> = drawn(series.cells.iter().copied()).collect();
        let place = |row: &Row| (self.x.at(row.k as f64), self.y.at(row.tv.max(self.y.low)));
        let points: Vec<_> = rows.iter().map(|row| place(row)).collect();
        let markers = rows.iter().zip(&points).map(|(row, &(x, y))| {
            let tooltip = format!("{}, K = {}: {}", escape(&series.label), row.k, four_decimals(row.tv));
            style.marker(x, y, row.tv < FLOOR, &tooltip)
        });
        format!("<g>{}{}</g>\n", style.line(&points), markers.collect::<String>())
    }

    fn grid(&self, ks: &[usize]) -> String {
        let mut grid = String::new();
        for tick in self.y.ticks() {
            let y = self.y.at(tick.value());
            grid += &rule((LEFT, y), (RIGHT, y), "#e4e4e4");
            grid += &text(LEFT - 9.0, y + 4.0, r#"text-anchor="end""#, &tick.label());
        }
        let mut labelled = f64::NEG_INFINITY;
        for &k in ks {
            let x = self.x.at(k as f64);
            grid += &rule((x, TOP), (x, BOTTOM), "#f0f0f0");
            grid += &rule((x, BOTTOM), (x, BOTTOM + 5.0), "#444444");
            if x - labelled >= LABEL_GAP {
                grid += &text(x, BOTTOM + 20.0, r#"text-anchor="middle""#, &k.to_string());
                labelled = x;
            }
        }
        let (middle, centre) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        let turned = format!(r#"text-anchor="middle" font-size="13" transform="rotate(-90 20 {centre})""#);
        grid += &format!(
            r##"<rect x="{LEFT}" y="{TOP}" width="{}" height="{}" fill="none" stroke="#444444"/>"##,
            RIGHT - LEFT,
            BOTTOM - TOP
        );
        grid += &text(middle, BOTTOM + 42.0, r#"text-anchor="middle" font-size="13""#, "steps K");
        grid += &text(20.0, centre, &turned, "total variation");
        grid + "\n"
    }

    /// What the reader must know about missing or clipped points.
    fn remark(&self, rows: &[Row]) -> String {
        if drawn(rows).next().is_none() {
            let attributes = r##"text-anchor="middle" font-size="16" fill="#777777""##;
            return text((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0, attributes, "no values yet");
        }
        if drawn(rows).all(|row| row.tv >= FLOOR) {
            return String::new();
        }
        let edge = tick_below(self.y.low).label();
        let remark = format!("hollow: below 1e-6, drawn at {edge}");
        text(RIGHT, BOTTOM + 42.0, r#"text-anchor="end" font-style="italic""#, &remark)
    }
}

/// The rows a logarithmic chart can place, zero included.
fn drawn<'a>(rows: impl IntoIterator<Item = &'a Row>) -> impl Iterator<Item = &'a Row> {
    rows.into_iter().filter(|row| row.k > 0 && row.tv.is_finite())
}

struct Legend {
    body: String,
    bottom: f64,
}

/// The names of the series, right of the frame, with a gap between families.
fn legend(series: &[Series<'_, Row>], styles: &[Style]) -> Legend {
    let mut body = String::new();
    let mut y = TOP + 10.0;
    for (i, (one, style)) in series.iter().zip(styles).enumerate() {
        if i > 0 && series[i - 1].family != one.family {
            y += LEGEND_STEP / 3.0;
        }
        body += &sample(style, LEGEND, y);
        body += &text(LEGEND + 41.0, y + 4.0, "", &one.label);
        y += LEGEND_STEP;
    }
    Legend { body: body + "\n", bottom: y + LEGEND_STEP / 2.0 }
}

/// A short piece of the series' line with its marker.
fn sample(style: &Style, x: f64, y: f64) -> String {
    style.line(&[(x, y), (x + 32.0, y)]) + &style.marker(x + 16.0, y, false, "")
}

fn rule((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) -> String {
    format!(r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#)
}

fn text(x: f64, y: f64, attributes: &str, body: &str) -> String {
    format!(r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape(body))
}

fn document(width: f64, height: f64, title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="{title}" font-family="sans-serif" font-size="12" fill="#222222">
<rect width="{width:.0}" height="{height:.0}" fill="#ffffff"/>
<text x="20" y="32" font-size="16" font-weight="bold">{title}</text>
{body}
</svg>
"##
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_balanced, row, sample};
    use super::*;

    fn chart(table: Vec<Row>) -> String {
        let svg = tv_chart(&Report { table, ..Report::default() });
        assert_balanced(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        svg
    }

    fn base(values: &[(usize, f64)]) -> Vec<Row> {
        values.iter().map(|&(k, tv)| row("base", "", "", k, tv)).collect()
    }

    #[test]
    fn points_are_where_the_logarithms_say() {
        // x: 98 to 636 over four doublings. y: 500 to 58 over two decades.
        let svg = chart(base(&[(2, 1.0), (8, 0.1), (32, 0.01)]));
        assert!(svg.contains(r#"points="98.0,58.0 367.0,279.0 636.0,500.0""#));
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
        assert!(svg.contains(r#"636.0,500.0" fill="none""#));
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

    #[test]
    fn every_series_is_in_the_legend_right_of_the_frame() {
        let svg = tv_chart(&sample());
        assert_balanced(&svg);
        for label in ["paper, baseline", "dag linear, exact C", "base, T = 0.9", "recipe"] {
            let entry = svg.split("<text ").find(|t| t.contains(&format!(">{label}</text>")));
            assert!(entry.is_some_and(|t| t.starts_with(r#"x="729.0""#)), "{label}");
        }
    }
}
