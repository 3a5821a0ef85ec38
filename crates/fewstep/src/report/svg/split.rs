//! The split chart: what the error is made of.
//!
//! One panel per number of steps, one bar per series. The divergence falls by orders of
//! magnitude with the number of steps, and stacked bars only make sense on a linear axis.
//! So every panel has its own linear scale: methods are compared inside a panel, and the
//! printed totals compare the panels.

use super::super::{Report, Series, Split};
use super::draw::{CHARACTER, document, rectangle, rule, text};
use super::scale::tick_above;

const SERIES: usize = 6;
const COLUMNS: usize = 3;
const PANEL: f64 = 180.0;
/// Room right of a bar for its total, and between two panels.
const GUTTER: f64 = 74.0;
const TOP: f64 = 104.0;
const BAR: f64 = 15.0;
const BAR_STEP: f64 = 21.0;
/// A panel's heading and tick labels, and the air around them.
const PANEL_MARGIN: f64 = 62.0;
const MARGINAL: &str = "#0072b2";
const DEPENDENCE: &str = "#e69f00";

/// Stacked bars of the marginal and the dependence part, for the first six series.
pub fn split_chart(report: &Report) -> String {
    let series = report.split_series();
    let shown = &series[..series.len().min(SERIES)];
    let ks = report.split_ks();
    let title = format!("{}: what the error is made of", report.title);
    if ks.is_empty() {
        return document(640.0, 90.0, &title, &text(20.0, 62.0, "", "no values yet"));
    }

    let longest = shown
        .iter()
        .map(|series| series.label.chars().count())
        .max()
        .unwrap_or(0);
    let left = 32.0 + CHARACTER * longest as f64;
    let panel_height = PANEL_MARGIN + BAR_STEP * shown.len() as f64;
    let width = left + (PANEL + GUTTER) * COLUMNS as f64;
    let height = TOP + panel_height * ks.len().div_ceil(COLUMNS) as f64 - 24.0;

    let mut body = key(20.0, 58.0);
    for (i, &k) in ks.iter().enumerate() {
        let (row, column) = (i / COLUMNS, i % COLUMNS);
        let x = left + (PANEL + GUTTER) * column as f64;
        let y = TOP + panel_height * row as f64;
        if column == 0 {
            body += &names(shown, left - 10.0, y);
        }
        body += &panel(shown, k, x, y);
    }
    if series.len() > SERIES {
        let remark = format!("{} more in the table", series.len() - SERIES);
        body += &text(
            width - 20.0,
            58.0,
            r#"text-anchor="end" font-style="italic""#,
            &remark,
        );
    }
    document(width, height, &title, &body)
}

/// The two colours, explained.
fn key(x: f64, y: f64) -> String {
    let square = |x: f64, colour: &str| rectangle(x, y - 10.0, 12.0, 12.0, colour);
    [
        square(x, MARGINAL),
        text(x + 18.0, y, "", "wrong marginals"),
        square(x + 140.0, DEPENDENCE),
        text(x + 158.0, y, "", "coordinates updated independently"),
        text(
            x + 390.0,
            y,
            "",
            "nats, summed over the K steps; each panel has its own scale",
        ),
    ]
    .concat()
}

fn names(series: &[Series<'_, Split>], x: f64, y: f64) -> String {
    let name = |(i, series): (usize, &Series<'_, Split>)| {
        text(
            x,
            y + BAR_STEP * i as f64 + 12.0,
            r#"text-anchor="end""#,
            &series.label,
        )
    };
    series.iter().enumerate().map(name).collect()
}

/// The bars at `k` steps, with the panel's upper left corner at `(x, y)`.
fn panel(series: &[Series<'_, Split>], k: usize, x: f64, y: f64) -> String {
    let cells: Vec<Option<&Split>> = series.iter().map(|series| series.at(k)).collect();
    let largest = cells
        .iter()
        .flatten()
        .map(|split| length(split.marginal) + length(split.dependence));
    let largest = largest.fold(f64::MIN_POSITIVE, f64::max);
    let pixels = |nats: f64| nats / largest * PANEL;
    let bottom = y + BAR_STEP * series.len() as f64;

    let mut body = text(
        x,
        y - 8.0,
        r#"font-size="13" font-weight="bold""#,
        &format!("K = {k}"),
    );
    let step = tick_above(largest / 5.0);
    for tick in (0..=5)
        .map(|n| step.times(n))
        .filter(|tick| tick.value() <= largest)
    {
        let at = x + pixels(tick.value());
        body += &rule(
            (at, y - 2.0),
            (at, bottom),
            if at > x { "#e4e4e4" } else { "#444444" },
        );
        body += &text(
            at,
            bottom + 13.0,
            r##"text-anchor="middle" font-size="10" fill="#666666""##,
            &tick.label(),
        );
    }
    for (i, split) in cells.iter().enumerate() {
        let top = y + BAR_STEP * i as f64;
        let Some(split) = split else { continue };
        let (marginal, dependence) = (
            pixels(length(split.marginal)),
            pixels(length(split.dependence)),
        );
        body += &rectangle(x, top, marginal, BAR, MARGINAL);
        body += &rectangle(x + marginal, top, dependence, BAR, DEPENDENCE);
        body += &text(
            x + marginal + dependence + 5.0,
            top + 12.0,
            r#"font-size="11""#,
            &nats(split.total()),
        );
    }
    body + "\n"
}

/// The part of a bar: rounding may leave a divergence a hair below zero, and what is not
/// finite has no length; the printed total tells.
fn length(nats: f64) -> f64 {
    if nats.is_finite() { nats.max(0.0) } else { 0.0 }
}

/// A divergence with two to four significant digits.
pub(in super::super) fn nats(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v < 0.001 => format!("{value:.1e}"),
        v if v < 0.1 => format!("{value:.4}"),
        v if v < 10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}").to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{assert_balanced, sample, split};
    use super::*;

    fn chart(split: Vec<Split>) -> String {
        let svg = split_chart(&Report {
            split,
            ..Report::default()
        });
        assert_balanced(&svg);
        assert!(!svg.contains("NaN"));
        svg
    }

    #[test]
    fn bars_stack_to_the_panel_in_proportion() {
        // `dag linear, exact C` has 19 characters: the first panel starts at 32 + 19 · 6.9.
        let svg = split_chart(&sample());
        assert_balanced(&svg);
        let bar =
            |x: &str, w: &str| format!(r#"<rect x="{x}" y="104.0" width="{w}" height="15.0""#);
        assert!(svg.contains(&bar("163.1", "36.0")));
        assert!(svg.contains(&bar("199.1", "144.0")));
        assert!(svg.contains(">0.500</text>"));
        // The second panel has a scale of its own and fills it too.
        assert!(svg.contains(&bar("417.1", "60.0")));
        assert!(svg.contains(&bar("477.1", "120.0")));
    }

    #[test]
    fn panels_have_a_heading_and_round_ticks() {
        let svg = split_chart(&sample());
        for label in ["K = 2", "K = 8", "0", "0.1", "0.5", "0.05", "0.10", "0.15"] {
            assert!(svg.contains(&format!(">{label}</text>")), "no {label}");
        }
    }

    #[test]
    fn seven_series_are_six_and_a_remark() {
        let splits = (0..7).map(|i| Split {
            objective: format!("o{i}"),
            ..split(2, 0.1, 0.1)
        });
        let svg = chart(splits.collect());
        assert!(svg.contains("dag o5, exact C") && !svg.contains("dag o6, exact C"));
        assert!(svg.contains(">1 more in the table</text>"));
    }

    #[test]
    fn odd_values_are_drawn_without_length() {
        let svg = chart(vec![
            split(2, f64::NAN, 0.4),
            split(4, -1e-18, 0.0),
            split(8, f64::INFINITY, 0.1),
        ]);
        assert!(svg.contains(">nan</text>") && svg.contains(">inf</text>"));
        assert!(!svg.contains(r#"width="-"#));
        assert!(chart(Vec::new()).contains(">no values yet</text>"));
    }

    #[test]
    fn nats_keep_their_digits() {
        let printed = [0.0, 0.000_123_4, 0.012_34, 0.1234, 1.2345, 12.345].map(nats);
        assert_eq!(printed, ["0", "1.2e-4", "0.0123", "0.123", "1.234", "12.3"]);
    }
}
