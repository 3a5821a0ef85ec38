//! The two tables that matter as plain text, for the terminal and for logs.

use super::compare::{Reference, reference};
use super::curve::{Curve, curves, ks, mean, measured, nats};
use super::{Findings, Matched};
use crate::report::terminal::{Line, aligned, shortened};

const CELL: usize = 8;
const LABEL_MAX: usize = 40;
const KEY: &str = "* lower than the closest base; H<2: no samples of more entropy than 2";

/// The likelihoods at temperature 1, and those at matched entropy.
///
/// The last line explains the signs.
pub fn table(findings: &Findings) -> String {
    let findings = &measured(findings);
    let (curves, ks) = (curves(findings), ks(findings));
    if curves.is_empty() {
        return "no values yet\n".into();
    }
    let plain = curves.iter().enumerate().map(|(i, curve)| Line {
        label: shortened(&curve.label(), LABEL_MAX),
        cells: ks
            .iter()
            .map(|&k| ascii(nats(mean(&curve.plain_nlls(findings, k)))))
            .collect(),
        apart: i > 0 && curves[i - 1].chain != curve.chain,
    });
    let mut lines = aligned("NLL, T = 1, at K =", &ks, plain.collect(), CELL);
    lines.push(String::new());
    lines.extend(at_matched_entropy(findings, &curves, &ks));
    lines.push(KEY.into());
    lines.join("\n") + "\n"
}

fn at_matched_entropy(findings: &Findings, curves: &[Curve<'_>], ks: &[usize]) -> Vec<String> {
    let references: Vec<Option<Reference<'_>>> = ks
        .iter()
        .map(|&k| reference(findings, curves, None, k))
        .collect();
    let line = |label: &str, apart, cell: &dyn Fn(&Reference<'_>) -> String| Line {
        label: shortened(label, LABEL_MAX),
        cells: references
            .iter()
            .map(|base| base.as_ref().map_or_else(|| "-".into(), cell))
            .collect(),
        apart,
    };
    let mut rows = vec![
        line("entropy to match", false, &|base| {
            nats(Some(base.point.quality.entropy))
        }),
        line("closest base: its T", false, &|base| {
            base.point.temperature.to_string()
        }),
        line("closest base: its NLL", false, &|base| nats(Some(base.nll))),
    ];
    for curve in curves.iter().filter(|c| c.accelerated()) {
        let cell = |base: &Reference<'_>| match base.matched(findings, *curve) {
            Matched::Nll(nll) if nll < base.nll => format!("*{nll:.3}"),
            Matched::Nll(nll) => nats(Some(nll)),
            Matched::NotReached(entropy) => format!("H<{entropy:.2}"),
            Matched::Nothing => "-".into(),
        };
        rows.push(line(&curve.label(), rows.len() == 3, &cell));
    }
    aligned("NLL, same entropy, at K =", ks, rows, CELL)
}

/// A dash that every terminal has.
fn ascii(cell: String) -> String {
    cell.replace('–', "-")
}

#[cfg(test)]
mod tests {
    use super::super::sample::{empty, point};
    use super::*;

    #[test]
    fn the_tables_read_as_expected() {
        let mut findings = empty();
        findings.points = vec![
            point("masked", "base", 2, (1.0, 1.0), (3.0, 2.0, 0.3)),
            point("masked", "base", 8, (0.9, 1.0), (2.5, 2.0, 0.3)),
            point("masked", "linear", 2, (1.0, 1.0), (2.75, 2.0, 0.3)),
            point("masked", "linear", 8, (1.0, 1.0), (2.25, 1.5, 0.3)),
            point("uniform", "paper", 2, (1.0, 1.0), (3.25, 2.5, 0.3)),
        ];
        let expected = "\
NLL, T = 1, at K =       2       8
----------------------------------
masked, base         3.000       -
masked, linear       2.750   2.250

uniform, paper       3.250       -

NLL, same entropy, at K =       2       8
-----------------------------------------
entropy to match            2.000   2.000
closest base: its T             1     0.9
closest base: its NLL       3.000   2.500

masked, linear             *2.750  H<1.50
uniform, paper              3.250       -
* lower than the closest base; H<2: no samples of more entropy than 2
";
        assert_eq!(table(&findings), expected);
    }

    #[test]
    fn nothing_is_said_plainly() {
        assert_eq!(table(&empty()), "no values yet\n");
    }
}
