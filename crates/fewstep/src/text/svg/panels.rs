//! Likelihood against entropy, one panel for each of a few numbers of steps.
//!
//! Cooling moves a sampler to the lower left; only what lies below another's line is better at the
//! same diversity. The controls are in every panel: a unigram sampler has all of the entropy and a
//! bad likelihood, so neither number means anything alone. All panels have the same axes.

use super::super::curve::{CONTROLS, Curve, curves, ks, language_entropy, measured};
use super::super::frontier::averaged;
use super::super::{Findings, Point, frontier};
use super::{LEVEL, entries, law_entry, looks};
use crate::report::svg::draw::{document, text};
use crate::report::svg::frame::{COLUMNS, Frame};
use crate::report::svg::legend::{Entry, Legend};
use crate::report::svg::scale::Linear;
use crate::report::svg::style::{MARKERS, Style};
use crate::report::{escape, four_decimals};

const STEPS: [usize; 5] = [2, 4, 8, 16, 32];

const TITLE: &str = "Likelihood against diversity";
const REMARK: &str = "at the same entropy lower is better; filled: on the line, hollow: another temperature or gain \
    of the same method is better in both";

fn control_style(control: &str) -> Style {
    let marker = match control {
        "data" => MARKERS[5],
        "bigram" => MARKERS[6],
        _ => MARKERS[9],
    };
    Style {
        colour: "#222222",
        width: 0.0,
        dash: "",
        marker,
        size: 5.2,
    }
}

/// A panel for each of 2, 4, 8, 16 and 32 steps that was measured: the points of each chain and
/// method over its temperatures and gains, means over seeds, and their frontier as a line.
pub fn frontier_charts(findings: &Findings) -> String {
    let findings = &measured(findings);
    let steps: Vec<usize> = ks(findings)
        .into_iter()
        .filter(|k| STEPS.contains(k))
        .collect();
    if steps.is_empty() {
        return document(640.0, 90.0, TITLE, &text(20.0, 62.0, "", "no values yet"));
    }
    let has_steps = |curve: &Curve<'_>| {
        let mine = |p: &Point| p.chain == curve.chain && p.method == curve.method;
        findings
            .points
            .iter()
            .any(|p| mine(p) && steps.contains(&p.k))
    };
    let curves = looks(curves(findings).into_iter().filter(has_steps).collect());
    let controls: Vec<(&str, Style, Vec<Point>)> = CONTROLS
        .iter()
        .map(|&control| {
            (
                control,
                control_style(control),
                averaged(findings, "", control, 0),
            )
        })
        .filter(|(.., points)| !points.is_empty())
        .collect();
    let law = language_entropy(findings);

    let shown: Vec<&Point> = findings
        .points
        .iter()
        .filter(|p| steps.contains(&p.k))
        .chain(controls.iter().flat_map(|(.., points)| points))
        .collect();
    let mut body = text(20.0, 56.0, r##"fill="#555555""##, REMARK);
    for (i, &k) in steps.iter().enumerate() {
        let frame = Frame::panel(i);
        let entropies = shown.iter().map(|p| p.quality.entropy);
        let nlls = shown.iter().map(|p| p.quality.nll).chain(law);
        let panel = Panel {
            x: Linear::around(entropies, 5, (frame.left, frame.right)),
            y: Linear::around(nlls, 10, (frame.bottom, frame.top)),
        };
        let y_name = if i % COLUMNS == 0 {
            "nats a symbol"
        } else {
            ""
        };
        let names = ("entropy of a sequence’s symbols, nats", y_name);
        body += &frame.draw(panel.x.ticks(), panel.y.ticks(), names);
        body += &frame.heading(&format!("K = {k}"));
        if let Some(law) = law {
            let y = panel.y.at(law);
            body += &LEVEL.line(&[(frame.left, y), (frame.right, y)]);
        }
        for (curve, label, style) in &curves {
            body += &panel.curve(findings, *curve, (label, style), k);
        }
        // On top: the curves are many and the controls few.
        for (control, style, points) in &controls {
            for point in points {
                body += &panel.mark(style, point, false, control);
            }
        }
        body += "\n";
    }
    // The legend takes the next place, where nothing is below it.
    let corner = Frame::panel(steps.len());
    let names = controls.iter().enumerate();
    let names = names.map(|(i, (control, style, _))| Entry {
        label: control,
        style,
        apart: i == 0,
    });
    let entries = entries(&curves)
        .chain(names)
        .chain(law.map(|_| law_entry(false)));
    let legend = Legend::new(entries, (corner.left - 20.0, corner.top + 10.0));
    let last = Frame::panel(steps.len() - 1);
    let right = Frame::panel((steps.len() - 1).min(COLUMNS - 1)).right + 24.0;
    document(
        legend.right.max(right),
        legend.bottom.max(last.bottom + 62.0),
        TITLE,
        &(body + &legend.body),
    )
}

/// The two scales of one panel.
struct Panel {
    x: Linear,
    y: Linear,
}

impl Panel {
    fn at(&self, point: &Point) -> (f64, f64) {
        (
            self.x.at(point.quality.entropy),
            self.y.at(point.quality.nll),
        )
    }

    /// The frontier as a line, and every point.
    fn curve(
        &self,
        findings: &Findings,
        curve: Curve<'_>,
        (label, style): (&str, &Style),
        k: usize,
    ) -> String {
        let line = frontier(findings, curve.chain, curve.method, k);
        let on_line = |p: &Point| {
            line.iter()
                .any(|q| q.temperature == p.temperature && q.gain == p.gain)
        };
        let places: Vec<_> = line.iter().map(|p| self.at(p)).collect();
        let mut body = style.line(&places);
        let style = Style {
            size: 0.75 * style.size,
            ..style.clone()
        };
        for point in averaged(findings, curve.chain, curve.method, k) {
            let gain = if curve.accelerated() {
                format!(", gain {}", point.gain)
            } else {
                String::new()
            };
            let name = format!("{label}, T = {}{gain}", point.temperature);
            body += &self.mark(&style, &point, !on_line(&point), &name);
        }
        body
    }

    fn mark(&self, style: &Style, point: &Point, open: bool, name: &str) -> String {
        let (x, y) = self.at(point);
        let q = &point.quality;
        let tooltip = format!(
            "{name}: {:.3} nats a symbol, entropy {:.3}, TV of pairs {}",
            q.nll,
            q.entropy,
            four_decimals(q.bigram)
        );
        let tooltip = format!("<title>{}</title>", escape(&tooltip));
        style.marker(x, y, open, &tooltip)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{empty, point, sample};
    use super::*;
    use crate::report::tests::assert_balanced;

    #[test]
    fn there_is_a_panel_for_each_measured_number_of_steps() {
        let mut findings = sample();
        let odd = point("masked", "base", 3, (1.0, 1.0), (3.0, 2.0, 0.1));
        findings.points.push(odd);
        let svg = frontier_charts(&findings);
        assert_balanced(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        for k in [2, 4, 8, 32] {
            assert!(svg.contains(&format!(">K = {k}</text>")), "{k}");
        }
        assert!(!svg.contains(">K = 16</text>") && !svg.contains(">K = 3</text>"));
        // Six curves and the law in four panels and in the legend.
        assert_eq!(svg.matches("<polyline").count(), 7 * 4 + 7);
    }

    #[test]
    fn every_point_and_control_says_its_numbers() {
        let svg = frontier_charts(&sample());
        // Nine curves' worth of four temperatures, and three controls, in four panels.
        assert_eq!(svg.matches("<title>").count(), 4 * (9 * 4 + 3));
        let control =
            "<title>unigram: 3.410 nats a symbol, entropy 2.740, TV of pairs .3500</title>";
        assert_eq!(svg.matches(control).count(), 4);
        assert!(svg.contains("<title>uniform, linear, T = 0.9, gain 2: "));
        assert!(svg.contains("<title>masked, base, T = 0.9: "));
    }

    #[test]
    fn a_beaten_point_is_hollow_and_off_the_line() {
        let mut findings = empty();
        findings.points = vec![
            point("masked", "base", 2, (1.0, 1.0), (3.0, 2.0, 0.1)),
            point("masked", "base", 2, (0.9, 1.0), (2.0, 1.5, 0.1)),
            point("masked", "base", 2, (0.8, 1.0), (2.5, 1.0, 0.1)),
        ];
        let svg = frontier_charts(&findings);
        let hollow = svg.matches(r##"fill="#ffffff" stroke="#0072b2""##).count();
        assert_eq!(hollow, 1);
        let line = svg.split("<polyline points=\"").nth(1).expect("a line");
        let line = line.split('"').next().expect("its points");
        assert_eq!(line.split(' ').count(), 2);
    }

    #[test]
    fn nothing_is_said() {
        let svg = frontier_charts(&empty());
        assert_balanced(&svg);
        assert!(svg.contains(">no values yet</text>"));
    }
}
