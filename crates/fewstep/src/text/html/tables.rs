//! The tables of the page.

use super::super::compare::{Reference, reference};
use super::super::curve::{CONTROLS, Curve, curves, ks, mean, nats};
use super::super::frontier::averaged;
use super::super::svg::style;
use super::super::{Findings, Marginal, Matched, Point, Training, best};
use super::cell;
use crate::report::html::{MISSING, grid, spread, table};
use crate::report::svg::legend::swatch;
use crate::report::terminal::shortened;
use crate::report::{escape, four_decimals};

const HEAD: &str = "<th>chain, method</th>";
/// What each of [`CONTROLS`] says in a table of distances.
const CONTROL_NAMES: [&str; 3] = ["data, the sampling noise", "bigram", "unigram"];
/// Characters of a sample that are shown.
const SAMPLE: usize = 240;

/// A row whose name is markup already.
fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.collect();
    format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>\n")
}

/// A curve's name, marked as in the charts.
fn name(curve: Curve<'_>) -> String {
    swatch(&style(curve)) + &escape(&curve.label())
}

/// The likelihoods at temperature and gain 1.
pub fn plain(findings: &Findings) -> String {
    let ks = ks(findings);
    let line = |curve: Curve<'_>| {
        let cells = ks.iter().map(|&k| {
            let seeds = curve.plain_nlls(findings, k);
            match mean(&seeds) {
                None => MISSING.into(),
                value => cell(value, false, &spread(&seeds)),
            }
        });
        row(&name(curve), cells)
    };
    let rows = curves(findings).into_iter().map(line).collect();
    grid(HEAD, &ks, rows)
}

/// Accelerated methods at the entropy of the best base.
pub fn matched(findings: &Findings) -> String {
    let (curves, ks) = (curves(findings), ks(findings));
    let references: Vec<Option<Reference<'_>>> = ks
        .iter()
        .map(|&k| reference(findings, &curves, None, k))
        .collect();
    let line = |name: &str, tell: &dyn Fn(&Reference<'_>) -> String| {
        let missing = || MISSING.to_string();
        let cells = references
            .iter()
            .map(|base| base.as_ref().map_or_else(missing, tell));
        row(name, cells)
    };
    let mut rows = line("closest base", &|base| {
        let chain = escape(base.curve.chain);
        format!(
            "<td>{chain}<small>T {}</small></td>",
            base.point.temperature
        )
    });
    rows += &line("its entropy", &|base| {
        cell(Some(base.point.quality.entropy), false, "nats")
    });
    rows += &line("its NLL", &|base| {
        cell(Some(base.nll), false, "nats a symbol")
    });
    for &curve in curves.iter().filter(|c| c.accelerated()) {
        rows += &line(&name(curve), &|base| match base.matched(findings, curve) {
            Matched::Nll(nll) => {
                let hint = format!("{:+.3} against the base", nll - base.nll);
                cell(Some(nll), nll < base.nll, &hint)
            }
            Matched::NotReached(most) => {
                format!("<td><small>up to {}</small></td>", nats(Some(most)))
            }
            Matched::Nothing => MISSING.into(),
        });
    }
    grid(HEAD, &ks, rows)
}

/// The lowest total variation of pairs, beside the controls.
pub fn closest(findings: &Findings) -> String {
    let (curves, ks) = (curves(findings), ks(findings));
    let at = |curve: Curve<'_>, k: usize| best(findings, curve.chain, curve.method, k);
    let lowest = |k: usize| {
        let all = curves.iter().filter_map(|&curve| at(curve, k));
        all.map(|p| p.quality.bigram).reduce(f64::min)
    };
    let lowest: Vec<Option<f64>> = ks.iter().map(|&k| lowest(k)).collect();
    let tell = |curve: Curve<'_>, point: Point, lowest: Option<f64>| {
        let tv = point.quality.bigram;
        let value = match lowest {
            Some(least) if tv <= least => format!("<b>{}</b>", four_decimals(tv)),
            _ => four_decimals(tv),
        };
        let gain = if curve.accelerated() {
            format!(", gain {}", point.gain)
        } else {
            String::new()
        };
        format!(
            "<td>{value}<small>T {}{gain}</small></td>",
            point.temperature
        )
    };
    let mut rows = String::new();
    for (control, name) in CONTROLS.iter().zip(CONTROL_NAMES) {
        let values = averaged(findings, "", control, 0);
        let values: Vec<f64> = values.iter().map(|p| p.quality.bigram).collect();
        let cell = mean(&values).map_or_else(
            || MISSING.into(),
            |tv| format!("<td>{}</td>", four_decimals(tv)),
        );
        rows += &row(name, ks.iter().map(|_| cell.clone()));
    }
    for &curve in &curves {
        let cells = ks.iter().zip(&lowest).map(|(&k, &lowest)| {
            at(curve, k).map_or_else(|| MISSING.into(), |point| tell(curve, point, lowest))
        });
        rows += &row(&name(curve), cells);
    }
    grid(HEAD, &ks, rows)
}

fn columns(heads: &[&str]) -> String {
    heads
        .iter()
        .map(|head| format!("<th scope=\"col\">{head}</th>"))
        .collect()
}

/// Learned marginals against the exact chain's.
pub fn marginals(findings: &Findings) -> String {
    let heads = columns(&[
        "seed",
        "steps of the grid",
        "base",
        "learned",
        "exact denoiser",
        "own state moved",
        "denoiser’s error",
        "noise",
    ]);
    let line = |marginal: &Marginal| {
        let curve = Curve {
            chain: &marginal.chain,
            method: &marginal.method,
        };
        let found = &marginal.found;
        let values = [
            found.base,
            found.learned,
            found.posterior,
            found.own,
            found.denoiser,
            found.noise,
        ]
        .map(|v| format!("{v:.4}"));
        let cells = [marginal.seed.to_string(), marginal.k.to_string()]
            .into_iter()
            .chain(values);
        row(&name(curve), cells.map(|cell| format!("<td>{cell}</td>")))
    };
    let rows: String = findings.marginals.iter().map(line).collect();
    table("grid", &(HEAD.to_string() + &heads), &rows)
}

/// One row for each training.
pub fn trainings(findings: &Findings) -> String {
    let heads = columns(&[
        "seed",
        "steps",
        "bound",
        "exact bound",
        "seconds",
        "parameters",
    ]);
    let line = |training: &Training| {
        let curve = Curve {
            chain: &training.chain,
            method: &training.method,
        };
        let seconds = Some(training.seconds).filter(|s| s.is_finite());
        let cells = [
            training.seed.to_string(),
            training.steps.to_string(),
            nats(Some(training.bound)),
            nats(training.exact_bound),
            seconds.map_or_else(|| "–".into(), |s| format!("{s:.0}")),
            training.parameters.to_string(),
        ];
        let cells = cells.into_iter().map(|cell| format!("<td>{cell}</td>"));
        row(&name(curve), cells)
    };
    let rows: String = findings.trainings.iter().map(line).collect();
    table("grid", &(HEAD.to_string() + &heads), &rows)
}

/// The beginning of a sample.
fn text(sample: &str) -> String {
    format!("<td>{}</td>", escape(&shortened(sample, SAMPLE)))
}

/// The language's own sequence, then base and accelerations side by side for each number of steps.
pub fn samples(findings: &Findings) -> String {
    let curves: Vec<Curve<'_>> = curves(findings)
        .into_iter()
        .filter(|curve| curve.method == "base" || curve.accelerated())
        .collect();
    let (mut methods, mut chains): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for curve in &curves {
        if !methods.contains(&curve.method) {
            methods.push(curve.method);
        }
        if !chains.contains(&curve.chain) {
            chains.push(curve.chain);
        }
    }
    let mut rows = String::new();
    if let Some(data) = averaged(findings, "", "data", 0).first() {
        let across = format!("<td colspan=\"{}\">", methods.len().max(1));
        let cell = text(&data.sample).replacen("<td>", &across, 1);
        rows += &row("data", std::iter::once(cell));
    }
    for k in ks(findings) {
        for &chain in &chains {
            let cells: Vec<Option<&Point>> = methods
                .iter()
                .map(|&method| Curve { chain, method }.plain(findings, k).next())
                .collect();
            if cells.iter().any(Option::is_some) {
                let cells = cells
                    .into_iter()
                    .map(|p| p.map_or_else(|| MISSING.into(), |p| text(&p.sample)));
                let name = format!("<i>K</i> = {k}, {}", escape(chain));
                rows += &row(&name, cells);
            }
        }
    }
    let heads: String = methods
        .iter()
        .map(|method| format!("<th>{}</th>", escape(method)))
        .collect();
    table(
        "samples",
        &("<th scope=\"row\"></th>".to_string() + &heads),
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{empty, point, sample};
    use super::*;

    /// The cells of the row that belongs to `label`.
    fn cells<'a>(table: &'a str, label: &str) -> &'a str {
        let row = table
            .lines()
            .find(|line| line.contains(&format!("{label}</th>")));
        row.and_then(|row| row.split_once("</th>"))
            .expect("a row of that name")
            .1
    }

    fn findings() -> Findings {
        let mut findings = empty();
        findings.points = vec![
            point("masked", "base", 2, (1.0, 1.0), (3.0, 2.0, 0.3)),
            point("masked", "base", 2, (0.9, 1.0), (2.5, 1.5, 0.2)),
            point("masked", "linear", 2, (1.0, 1.0), (2.75, 2.0, 0.4)),
            point("masked", "linear", 2, (0.9, 2.0), (2.25, 1.0, 0.1)),
            point("masked", "linear", 4, (1.0, 1.0), (2.6, 1.0, 0.1)),
            point("uniform", "paper", 2, (1.0, 1.0), (2.2, 1.25, 0.5)),
            point("", "data", 0, (1.0, 1.0), (2.0, 2.0, 0.05)),
        ];
        findings
    }

    #[test]
    fn plain_values_have_their_spread_and_gaps_are_dashes() {
        let mut findings = findings();
        let other = point("masked", "base", 2, (1.0, 1.0), (3.2, 2.0, 0.3));
        findings.points.push(other);
        let table = plain(&findings);
        assert_eq!(
            cells(&table, "masked, base"),
            "<td title=\"2 seeds: 3.0000..3.2000\">3.100</td><td>–</td></tr>"
        );
    }

    #[test]
    fn matched_values_are_bold_where_lower_and_say_what_is_not_reached() {
        // The base is best at T = 0.9, where its entropy is 1.5: half way along the linear line.
        let table = matched(&findings());
        let cells = |label| cells(&table, label);
        assert_eq!(
            cells("closest base"),
            "<td>masked<small>T 0.9</small></td><td>–</td></tr>"
        );
        assert!(cells("its entropy").contains(">1.500<"));
        assert!(cells("its NLL").contains(">2.500<"));
        assert!(cells("masked, linear").contains(">2.500<"));
        assert!(!cells("masked, linear").contains("<b>"));
        assert!(cells("uniform, paper").contains("up to 1.250"));

        let mut better = findings();
        better.points[2].quality.nll = 2.7;
        let table = matched(&better);
        assert!(table.contains("<td title=\"-0.025 against the base\"><b>2.475</b></td>"));
    }

    #[test]
    fn the_closest_names_its_setting_beside_the_noise() {
        let table = closest(&findings());
        assert!(cells(&table, "the sampling noise").starts_with("<td>.0500</td><td>.0500</td>"));
        assert!(
            cells(&table, "masked, linear")
                .starts_with("<td><b>.1000</b><small>T 0.9, gain 2</small></td>")
        );
        assert!(cells(&table, "masked, base").contains("<td>.2000<small>T 0.9</small></td>"));
        assert!(cells(&table, ">unigram").starts_with("<td>–</td>"));
        let mut silent = findings();
        silent.points.pop();
        assert!(cells(&closest(&silent), "the sampling noise").starts_with("<td>–</td>"));
    }

    #[test]
    fn marginals_are_shown_to_four_places() {
        let table = marginals(&sample());
        assert_eq!(
            cells(&table, "uniform, linear"),
            "<td>0</td><td>8</td><td>0.1200</td><td>0.0340</td><td>0.1000</td><td>0.0600</td>\
             <td>0.0300</td><td>0.0050</td></tr>"
        );
    }

    #[test]
    fn trainings_show_a_dash_for_no_exact_bound() {
        let table = trainings(&sample());
        assert_eq!(
            cells(&table, "masked, base"),
            "<td>0</td><td>4000</td><td>2.345</td><td>2.300</td><td>75</td><td>123456</td></tr>"
        );
        assert!(cells(&table, "uniform, linear").contains("<td>2.345</td><td>–</td>"));
    }

    #[test]
    fn samples_stand_side_by_side_and_long_ones_are_cut() {
        let mut findings = findings();
        findings.points[2].sample = "ab".repeat(SAMPLE);
        let table = samples(&findings);
        assert!(table.contains("<th>base</th><th>linear</th><th>paper</th>"));
        assert!(cells(&table, ">data").starts_with("<td colspan=\"3\">"));
        let cells = cells(&table, "<i>K</i> = 2, masked");
        assert!(cells.starts_with("<td>masked base 2 the cat"));
        assert!(cells.contains("aba…</td><td>–</td>"));
    }
}
