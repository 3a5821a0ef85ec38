//! Which curves the views have, in which order and under which names.
//!
//! The charts and the tables all show the same curves in the same order, so the grouping lives here
//! once. What is not a number is left out here once, too: a view never sees it.

use super::{Findings, Method, Point};

/// The methods that sample no network, by falling knowledge of the language.
pub const CONTROLS: [&str; 3] = ["data", "bigram", "unigram"];

const CHAINS: [&str; 4] = ["masked", "stochastic-mask", "uniform", "uniform-state"];

/// A chain and a method: one line of a chart, one row of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve<'a> {
    /// As in [`Point::chain`].
    pub chain: &'a str,
    /// As in [`Point::method`].
    pub method: &'a str,
}

impl<'a> Curve<'a> {
    /// The name to show.
    pub fn label(&self) -> String {
        let method = match self.method {
            "exact" => "exact denoiser",
            method => method,
        };
        format!("{}, {method}", self.chain)
    }

    /// Whether it has a correction of the denoiser.
    pub fn accelerated(&self) -> bool {
        !matches!(self.method, "base" | "exact")
    }

    /// The points at `k` steps as the network gives them: temperature 1 and, where there is a
    /// correction, gain 1. One for each seed.
    pub fn plain<'f>(self, findings: &'f Findings, k: usize) -> impl Iterator<Item = &'f Point>
    where
        'a: 'f,
    {
        findings.points.iter().filter(move |p| {
            (p.chain == self.chain && p.method == self.method && p.k == k)
                && p.temperature == 1.0
                && (p.gain == 1.0 || !self.accelerated())
        })
    }

    /// The likelihoods of [`Curve::plain`].
    pub fn plain_nlls(self, findings: &Findings, k: usize) -> Vec<f64> {
        self.plain(findings, k).map(|p| p.quality.nll).collect()
    }
}

/// The findings without the points that are not numbers.
pub fn measured(findings: &Findings) -> Findings {
    let finite = |p: &Point| {
        let q = &p.quality;
        let values = [q.nll, q.entropy, q.bigram, p.temperature, p.gain];
        values.iter().all(|v| v.is_finite())
    };
    Findings {
        points: findings
            .points
            .iter()
            .filter(|p| finite(p))
            .cloned()
            .collect(),
        ..findings.clone()
    }
}

/// The curves: by chain, then by method, those of no known name last.
pub fn curves(findings: &Findings) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for point in findings.points.iter().filter(|p| sampled(p)) {
        let curve = Curve {
            chain: &point.chain,
            method: &point.method,
        };
        if !curves.contains(&curve) {
            curves.push(curve);
        }
    }
    let rank = |names: &[&str], name: &str| {
        let found = names.iter().position(|known| *known == name);
        found.unwrap_or(names.len())
    };
    let known = Method::all().into_iter().map(Method::name);
    let methods: Vec<&str> = ["base"].into_iter().chain(known).chain(["exact"]).collect();
    // Chains of no known name stay together.
    curves.sort_by_key(|c| (rank(&CHAINS, c.chain), c.chain, rank(&methods, c.method)));
    curves
}

/// The numbers of steps, rising.
pub fn ks(findings: &Findings) -> Vec<usize> {
    let points = findings.points.iter().filter(|p| sampled(p));
    let mut ks: Vec<usize> = points.map(|p| p.k).collect();
    ks.sort_unstable();
    ks.dedup();
    ks
}

fn sampled(point: &Point) -> bool {
    point.k > 0 && !CONTROLS.contains(&point.method.as_str())
}

/// The entropy of the language, if it is known.
pub fn language_entropy(findings: &Findings) -> Option<f64> {
    Some(findings.entropy.0).filter(|h| h.is_finite() && *h > 0.0)
}

/// The mean, if there is one.
pub fn mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// Nats, with three decimals.
pub fn nats(value: Option<f64>) -> String {
    match value.filter(|v| v.is_finite()) {
        Some(value) => format!("{value:.3}"),
        None => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{empty, point, sample};
    use super::*;

    #[test]
    fn curves_are_in_order_and_controls_are_none() {
        let findings = sample();
        let labels: Vec<_> = curves(&findings).iter().map(Curve::label).collect();
        assert_eq!(
            labels,
            [
                "masked, base",
                "masked, linear",
                "uniform, base",
                "uniform, linear",
                "uniform, paper",
                "uniform, exact denoiser"
            ]
        );
        assert_eq!(ks(&findings), [2, 4, 8, 32]);
    }

    #[test]
    fn plain_is_temperature_and_gain_one_but_a_base_has_no_gain() {
        let mut findings = empty();
        findings.points = vec![
            point("masked", "base", 2, (1.0, 0.0), (3.0, 2.0, 0.1)),
            point("masked", "base", 2, (0.8, 0.0), (2.0, 1.0, 0.1)),
            point("masked", "linear", 2, (1.0, 1.0), (2.5, 2.0, 0.1)),
            point("masked", "linear", 2, (1.0, 2.0), (2.2, 2.0, 0.1)),
        ];
        let nlls = |method| {
            let chain = "masked";
            Curve { chain, method }.plain_nlls(&findings, 2)
        };
        assert_eq!(nlls("base"), [3.0]);
        assert_eq!(nlls("linear"), [2.5]);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut findings = empty();
        findings.points = vec![
            point("masked", "base", 2, (1.0, 1.0), (f64::NAN, 2.0, 0.1)),
            point("masked", "base", 2, (1.0, 1.0), (2.0, 2.0, f64::INFINITY)),
            point("masked", "base", 4, (1.0, 1.0), (2.0, 2.0, 0.1)),
        ];
        assert_eq!(ks(&measured(&findings)), [4]);
        assert_eq!(language_entropy(&findings), None);
        assert_eq!((nats(None), nats(Some(f64::NAN))), ("–".into(), "–".into()));
        assert_eq!(mean(&[]), None);
    }
}
