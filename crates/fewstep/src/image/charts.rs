//! The curves: what is measured against the number of steps, and against the scale of guidance as in the
//! paper's ablation.

use std::collections::BTreeSet;

use super::{
    Findings, Point,
    metric::{ACCURACY, DENSITY, FID, LAW, Metric, PRECISION, RECALL, SCORE},
};
use crate::report::{
    escape,
    svg::{
        draw::{document, text},
        frame::{COLUMNS, Frame},
        legend::{Entry, Legend},
        scale::{Linear, Log},
        style::Style,
    },
};

/// What is drawn against the number of steps.
const AGAINST_STEPS: [&[&Metric]; 3] = [&[&FID], &[&ACCURACY], &[&LAW]];
/// What is drawn against guidance, the paper's three panels first.
const AGAINST_GUIDANCE: [&[&Metric]; 5] = [
    &[&PRECISION, &RECALL],
    &[&FID],
    &[&SCORE, &DENSITY],
    &[&ACCURACY],
    &[&LAW],
];
/// The line of a panel's second metric.
const SECOND: &str = "6 4";

/// The numbers along the bottom.
enum Across<'a> {
    Steps(&'a [usize]),
    Guidance(&'a [f64]),
}

impl Across<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Steps(_) => "steps K",
            Self::Guidance(_) => "guidance w",
        }
    }

    /// Its ticks in a frame, and where values are.
    fn scale(&self, frame: &Frame) -> (Vec<(f64, String)>, Scale) {
        match self {
            Self::Steps(ks) => {
                let axis = frame.steps(ks);
                let ticks = ks.iter().map(|&k| (axis.at(k as f64), k.to_string()));
                (ticks.collect(), Scale::Log(axis))
            }
            Self::Guidance(ws) => {
                let ends = (frame.left, frame.right);
                let axis = Linear::around(ws.iter().copied(), 6, ends);
                (axis.ticks().collect(), Scale::Linear(axis))
            }
        }
    }
}

/// Steps double, guidance adds.
enum Scale {
    Log(Log),
    Linear(Linear),
}

impl Scale {
    /// The pixel of a value.
    fn at(&self, value: f64) -> f64 {
        match self {
            Self::Log(axis) => axis.at(value),
            Self::Linear(axis) => axis.at(value),
        }
    }
}

/// A curve of every panel: the points at each place across, one a seed.
struct Curve<'a> {
    label: String,
    points: Vec<(f64, Vec<&'a Point>)>,
}

impl Curve<'_> {
    /// The means of a metric, where it could be had.
    fn values(&self, metric: &Metric) -> Vec<(f64, f64)> {
        let points = self.points.iter();
        points
            .filter_map(|(at, points)| Some((*at, metric.mean(points)?)))
            .collect()
    }
}

/// Each sampler's FID, class accuracy and distance of the attributes' law against the number of steps, of
/// what there is; nothing if there is none of it.
pub fn against_steps(findings: &Findings) -> Option<String> {
    let ks = findings.ks();
    let curve = |label: String| Curve {
        points: ks
            .iter()
            .map(|&k| (k as f64, findings.at(&label, k)))
            .collect(),
        label,
    };
    let curves: Vec<Curve> = findings.labels().into_iter().map(curve).collect();
    let title = "Pictures against steps";
    chart(title, Across::Steps(&ks), &AGAINST_STEPS, &curves)
}

/// For each chain and method with several scales of guidance, uncooled and with gain 1, the paper's panels
/// against the scale, a curve for each number of steps. What is below 0 has no place in them.
pub fn against_guidance(findings: &Findings) -> Vec<String> {
    let plain = |p: &&Point| {
        (p.way.temperature, p.way.gain) == (1.0, 1.0) && p.way.k > 0 && p.way.guidance >= 0.0
    };
    let points: Vec<&Point> = findings.points.iter().filter(plain).collect();
    let names: BTreeSet<(&str, &str)> = points
        .iter()
        .map(|p| (p.chain.as_str(), p.method.as_str()))
        .collect();
    let one = |(chain, method): (&str, &str)| {
        let mine = |p: &&Point| (p.chain.as_str(), p.method.as_str()) == (chain, method);
        let mine: Vec<&Point> = points.iter().copied().filter(mine).collect();
        let mut ws: Vec<f64> = mine.iter().map(|p| p.way.guidance).collect();
        ws.sort_by(f64::total_cmp);
        ws.dedup();
        let at = |k: usize, w: f64| {
            let here = |p: &&Point| (p.way.k, p.way.guidance) == (k, w);
            (w, mine.iter().copied().filter(here).collect())
        };
        let ks = findings.ks().into_iter();
        let curves: Vec<Curve> = ks
            .map(|k| Curve {
                label: format!("K = {k}"),
                points: ws.iter().map(|&w| at(k, w)).collect(),
            })
            .collect();
        let title = format!("{chain}, {method} against guidance");
        let several = (ws.len() > 1).then_some(Across::Guidance(&ws))?;
        chart(&title, several, &AGAINST_GUIDANCE, &curves)
    };
    names.into_iter().filter_map(one).collect()
}

/// A panel for each group of metrics of which there is any: the first with a solid line and its numbers on
/// the left, the second dashed and on the right. Filled is the best of a curve.
fn chart(
    title: &str,
    across: Across,
    groups: &[&[&'static Metric]],
    curves: &[Curve],
) -> Option<String> {
    let there = |metric: &&&Metric| curves.iter().any(|c| !c.values(metric).is_empty());
    let panels = groups
        .iter()
        .map(|group| group.iter().filter(there).copied().collect());
    let panels: Vec<Vec<&Metric>> = panels.filter(|p: &Vec<_>| !p.is_empty()).collect();
    let last = panels.len().checked_sub(1)?;
    let styles: Vec<Style> = (0..curves.len()).map(Style::numbered).collect();
    let remark = "filled: the best of its curve";
    let mut body = text(20.0, 56.0, r##"fill="#555555""##, remark);
    for (i, metrics) in panels.iter().enumerate() {
        body += &panel(Frame::panel(i), &across, metrics, (curves, &styles));
    }
    let entries = curves.iter().zip(&styles).map(|(curve, style)| Entry {
        label: &curve.label,
        style,
        apart: false,
    });
    let corner = Frame::panel(last);
    let legend = Legend::new(entries, (corner.right + 62.0, corner.top + 10.0));
    let right = Frame::panel(last.min(COLUMNS - 1)).right + 62.0;
    let (width, height) = (legend.right.max(right), legend.bottom.max(corner.below()));
    Some(document(width, height, title, &(body + &legend.body)))
}

fn panel(
    frame: Frame,
    across: &Across,
    metrics: &[&Metric],
    (curves, styles): (&[Curve], &[Style]),
) -> String {
    let (ticks, x) = across.scale(&frame);
    let axis = |metrics: &[&Metric]| {
        let values = metrics.iter().flat_map(|metric| {
            let all = curves.iter().flat_map(|curve| curve.values(metric));
            all.map(|(_, value)| value)
        });
        Linear::around(values, 8, (frame.bottom, frame.top))
    };
    // Precision and recall are shares of the same kind; a score and a density are not.
    let (first, second) = metrics.split_at(1);
    let apart = first.iter().any(|metric| metric.name == SCORE.name) && !second.is_empty();
    let left = axis(if apart { first } else { metrics });
    let right = if apart { axis(second) } else { left };
    let mut body = frame.draw(ticks.into_iter(), left.ticks(), (across.name(), ""));
    if apart {
        body += &frame.right_ticks(right.ticks());
    }
    body += &frame.heading(&match metrics {
        [one, other] if apart => format!("{} (left), {} (dashed, right)", one.name, other.name),
        [one, other] => format!("{}, {} (dashed)", one.name, other.name),
        _ => metrics.iter().map(|metric| metric.name).collect(),
    });
    for (number, metric) in metrics.iter().enumerate() {
        let (y, dash) = [(left, ""), (right, SECOND)][number.min(1)];
        for (curve, style) in curves.iter().zip(styles) {
            let values = curve.values(metric);
            let style = Style {
                dash,
                ..style.clone()
            };
            let better = |a: f64, b: f64| if metric.lower { a.min(b) } else { a.max(b) };
            let best = values.iter().map(|(_, value)| *value).reduce(better);
            let place = |&(at, value): &(f64, f64)| (x.at(at), y.at(value));
            body += &style.line(&values.iter().map(place).collect::<Vec<_>>());
            for value in &values {
                let (label, name, shown) = (&curve.label, metric.name, metric.show(value.1));
                let tooltip = escape(&format!("{label}, {}: {name} {shown}", value.0));
                let (x, y) = place(value);
                let open = best != Some(value.1);
                body += &style.marker(x, y, open, &format!("<title>{tooltip}</title>"));
            }
        }
    }
    body + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Way};
    use super::*;
    use crate::{
        metrics::{Measured, Neighbourhood},
        report::tests::assert_balanced,
    };

    fn point(method: &str, k: usize, guidance: f64, fid: f64, scored: bool) -> Point {
        Point {
            chain: "uniform".into(),
            method: method.into(),
            seed: 0,
            nfe: k,
            way: Way {
                k,
                temperature: 1.0,
                gain: 1.0,
                guidance,
            },
            quality: None,
            measured: Some(Measured {
                fid,
                score: scored.then_some((3.0 + guidance, 0.1)),
                neighbours: Some(Neighbourhood {
                    precision: 0.5 + 0.1 * guidance,
                    recall: 0.5 - 0.1 * guidance,
                    density: 0.8,
                    coverage: 0.7,
                }),
                notes: vec!["few & small".into()],
            }),
            pictures: Vec::new(),
        }
    }

    fn findings(points: Vec<Point>) -> Findings {
        Findings {
            version: "0".into(),
            setting: String::new(),
            format: Format::FIGURES,
            classes: vec!["a".into()],
            samples: 9,
            reconstruction: None,
            trainings: Vec::new(),
            points,
        }
    }

    fn guided(scored: bool) -> Findings {
        let fids = [(1, [9.0, 7.0, 8.0]), (4, [5.0, 5.5, 6.0])];
        let at = |(k, fids): (usize, [f64; 3])| {
            let ws = [0.0, 1.0, 3.0].into_iter().zip(fids);
            ws.map(move |(w, fid)| point("base", k, w, fid, scored))
        };
        let mut points: Vec<Point> = fids.into_iter().flat_map(at).collect();
        points.push(point("exact", 4, 0.0, 1.0, scored));
        findings(points)
    }

    #[test]
    fn every_sampler_has_a_curve_against_steps() {
        let svg = against_steps(&guided(true)).unwrap();
        assert_balanced(&svg);
        assert!(!svg.contains("NaN"));
        // Four samplers in one panel and in the legend; the exact denoiser has one value.
        assert_eq!(svg.matches("<polyline").count(), 4 + 4);
        assert_eq!(svg.matches("<title>").count(), 3 * 2 + 1);
        assert!(svg.contains("<title>uniform, base, guidance 3, 4: FID 6.00</title>"));
        assert!(svg.contains(">FID</text>") && !svg.contains("accuracy"));
        assert_eq!(against_steps(&findings(Vec::new())), None);
    }

    /// The paper's three panels, a curve for each number of steps, and the best scale of each filled.
    #[test]
    fn guidance_has_the_papers_panels() {
        let charts = against_guidance(&guided(true));
        // The exact denoiser has no guidance.
        assert_eq!(charts.len(), 1);
        let svg = &charts[0];
        assert_balanced(svg);
        for words in [
            "uniform, base against guidance",
            ">precision, recall (dashed)</text>",
            ">Inception Score (left), density (dashed, right)</text>",
            "<title>K = 1, 1: FID 7.00</title>",
            "<title>K = 4, 3: precision 0.800</title>",
        ] {
            assert!(svg.contains(words), "{words}");
        }
        // Two curves of five metrics, and the legend.
        assert_eq!(svg.matches("<polyline").count(), 2 * 5 + 2);
        assert_eq!(svg.matches("<title>").count(), 3 * 2 * 5);
        let filled = |words: &str| {
            let marker = svg.split(words).next().unwrap();
            let marker = marker.rsplit('<').next().unwrap();
            !marker.contains(r##"fill="#ffffff""##)
        };
        assert!(filled("<title>K = 1, 1: FID") && !filled("<title>K = 1, 0: FID"));
        assert!(filled("<title>K = 4, 0: FID") && filled("<title>K = 4, 3: precision"));
    }

    #[test]
    fn what_is_not_there_has_no_panel() {
        let svg = &against_guidance(&guided(false))[0];
        assert!(svg.contains(">density</text>") && !svg.contains("Score"));
        let mut one = guided(true);
        one.points.retain(|p| p.way.guidance == 0.0);
        assert!(against_guidance(&one).is_empty());
    }
}
