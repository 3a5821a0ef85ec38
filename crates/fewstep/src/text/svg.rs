//! The charts: likelihood against steps, and likelihood against entropy.
//!
//! Colour is the chain; line and marker are the method, so that no curve hangs on colour alone.

mod panels;

use super::Findings;
use super::curve::{Curve, curves, ks, language_entropy, mean, measured, nats};
use crate::report::escape;
use crate::report::svg::FRAME;
use crate::report::svg::draw::document;
use crate::report::svg::legend::{Entry, Legend};
use crate::report::svg::scale::Linear;
use crate::report::svg::style::{MARKERS, Style};

pub use panels::frontier_charts;

const TITLE: &str = "Exact negative log-likelihood against steps, temperature 1";
const LAW: &str = "entropy of the language";

/// The look of the language's own entropy.
const LEVEL: Style = Style {
    colour: "#222222",
    width: 1.2,
    dash: "6 4",
    marker: MARKERS[0],
    size: 0.0,
};

/// The look of a curve, from hues that stay apart under colour blindness.
pub(super) fn style(curve: Curve<'_>) -> Style {
    let colour = match curve.chain {
        "masked" => "#0072b2",
        "stochastic-mask" => "#56b4e9",
        "uniform" => "#d55e00",
        "uniform-state" => "#009e73",
        _ => "#aa4499",
    };
    // Curves that coincide still show: the later drawn has the smaller marker.
    let (width, dash, marker, size) = match curve.method {
        "base" => (2.0, "", MARKERS[1], 4.6),
        "linear" => (2.0, "8 4", MARKERS[2], 4.2),
        "paper" => (2.0, "9 3 2 3", MARKERS[3], 3.8),
        "exact" => (1.2, "2 3", MARKERS[0], 3.4),
        _ => (2.0, "14 4", MARKERS[5], 3.8),
    };
    Style {
        colour,
        width,
        dash,
        marker,
        size,
    }
}

/// Names and looks of `curves`, with a gap between chains.
fn entries<'a>(curves: &'a [(Curve<'_>, String, Style)]) -> impl Iterator<Item = Entry<'a>> {
    let entry = |(i, (curve, label, style)): (usize, &'a (Curve<'_>, String, Style))| Entry {
        label,
        style,
        apart: i > 0 && curves[i - 1].0.chain != curve.chain,
    };
    curves.iter().enumerate().map(entry)
}

fn looks<'a>(curves: Vec<Curve<'a>>) -> Vec<(Curve<'a>, String, Style)> {
    let look = |curve: Curve<'a>| (curve, curve.label(), style(curve));
    curves.into_iter().map(look).collect()
}

fn law_entry(apart: bool) -> Entry<'static> {
    Entry {
        label: LAW,
        style: &LEVEL,
        apart,
    }
}

/// The exact negative log-likelihood against the number of steps, as the networks sample without
/// cooling or gain; one line for each chain and method, means over seeds.
pub fn quality_chart(findings: &Findings) -> String {
    let findings = &measured(findings);
    let ks = ks(findings);
    let points = |curve: Curve<'_>| -> Vec<(usize, f64)> {
        let value = |&k| mean(&curve.plain_nlls(findings, k)).map(|nll| (k, nll));
        ks.iter().filter_map(value).collect()
    };
    let shown = curves(findings).into_iter();
    let curves = looks(shown.filter(|&curve| !points(curve).is_empty()).collect());
    let law = language_entropy(findings);

    let values = curves.iter().flat_map(|(curve, ..)| points(*curve));
    let values = values.map(|(_, nll)| nll).chain(law);
    let (x, y) = (
        FRAME.steps(&ks),
        Linear::around(values, 8, (FRAME.bottom, FRAME.top)),
    );
    let ticks = ks.iter().map(|&k| (x.at(k as f64), k.to_string()));
    let mut body = FRAME.draw(ticks, y.ticks(), ("steps K", "nats a symbol"));
    if let Some(law) = law {
        body += &LEVEL.line(&[(FRAME.left, y.at(law)), (FRAME.right, y.at(law))]);
    }
    for (curve, label, style) in &curves {
        let place = |&(k, nll): &(usize, f64)| (x.at(k as f64), y.at(nll));
        let values = points(*curve);
        body += &style.line(&values.iter().map(place).collect::<Vec<_>>());
        for value in &values {
            let ((x, y), (k, nll)) = (place(value), value);
            let tooltip = format!("{label}, K = {k}: {}", nats(Some(*nll)));
            let tooltip = format!("<title>{}</title>", escape(&tooltip));
            body += &style.marker(x, y, false, &tooltip);
        }
        body += "\n";
    }
    if curves.is_empty() {
        body += &FRAME.say("no values yet");
    }
    let entries = entries(&curves).chain(law.map(|_| law_entry(true)));
    let legend = Legend::new(entries, FRAME.beside());
    let height = legend.bottom.max(FRAME.below());
    document(legend.right, height, TITLE, &(body + &legend.body))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{empty, point, sample};
    use super::*;
    use crate::report::tests::assert_balanced;

    #[test]
    fn every_curve_has_a_line_its_points_and_a_name() {
        let svg = quality_chart(&sample());
        assert_balanced(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        // Lines of six curves and of the law, twice with the legend.
        assert_eq!(svg.matches("<polyline").count(), 2 * 7);
        assert_eq!(svg.matches("<title>").count(), 6 * 4);
        assert!(svg.contains("<title>uniform, base, K = 2: 3.000</title>"));
        assert!(svg.contains(">uniform, exact denoiser</text>"));
        assert!(svg.contains(">entropy of the language</text>"));
    }

    #[test]
    fn seeds_are_averaged_and_cooled_points_left_out() {
        let mut findings = empty();
        for (temperature, nll) in [(1.0, 2.0), (1.0, 3.0), (0.5, 9.0)] {
            let values = (nll, 2.0, 0.1);
            let one = point("a & b", "base", 4, (temperature, 1.0), values);
            findings.points.push(one);
        }
        let svg = quality_chart(&findings);
        assert_balanced(&svg);
        assert!(svg.contains("<title>a &amp; b, base, K = 4: 2.500</title>"));
        assert_eq!(svg.matches("<title>").count(), 1);
        assert!(!svg.contains("entropy of the language"));
    }

    #[test]
    fn nothing_is_said() {
        let mut findings = empty();
        assert!(quality_chart(&findings).contains(">no values yet</text>"));
        let nan = point("masked", "base", 4, (1.0, 1.0), (f64::NAN, 2.0, 0.1));
        findings.points.push(nan);
        findings.entropy.0 = f64::NAN;
        let svg = quality_chart(&findings);
        assert!(svg.contains(">no values yet</text>") && !svg.contains("NaN"));
    }

    #[test]
    fn chains_differ_in_colour_and_methods_in_line_and_marker() {
        let of = |chain, method| style(Curve { chain, method });
        let chains = ["masked", "uniform", "uniform-state", "new"];
        let methods = ["base", "linear", "paper", "exact", "new"];
        for (i, chain) in chains.iter().enumerate() {
            for other in &chains[..i] {
                assert_ne!(of(chain, "base").colour, of(other, "base").colour);
            }
        }
        for (i, method) in methods.iter().enumerate() {
            for other in &methods[..i] {
                let (one, other) = (of("masked", method), of("masked", other));
                assert!(one.dash != other.dash && one.marker != other.marker);
            }
        }
    }
}
