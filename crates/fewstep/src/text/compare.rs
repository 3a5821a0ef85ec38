//! Accelerated against base at the same entropy: the comparison that cooling cannot win alone.
//!
//! The entropy is that of the base at its best temperature, the one whose neighbours are closest to
//! the language's. Both sides are read off their frontiers there.

use super::curve::{Curve, curves, ks};
use super::{Findings, Matched, Point, best, frontier, matched};

/// The base that others are held against.
pub struct Reference<'a> {
    /// Its chain.
    pub curve: Curve<'a>,
    /// Its point closest to the law; its entropy is the one to match.
    pub point: Point,
    /// What its frontier has at that entropy.
    pub nll: f64,
}

impl Reference<'_> {
    /// What `curve` has at the reference's entropy.
    pub fn matched(&self, findings: &Findings, curve: Curve<'_>) -> Matched {
        let frontier = frontier(findings, curve.chain, curve.method, self.point.k);
        matched(&frontier, self.point.quality.entropy)
    }
}

/// The base closest to the law at `k` steps, of one chain or of all.
pub fn reference<'a>(
    findings: &Findings,
    curves: &[Curve<'a>],
    chain: Option<&str>,
    k: usize,
) -> Option<Reference<'a>> {
    let bases = curves
        .iter()
        .filter(|c| c.method == "base" && chain.is_none_or(|chain| c.chain == chain));
    let points = bases.filter_map(|&c| Some((c, best(findings, c.chain, c.method, k)?)));
    let (curve, point) =
        points.min_by(|(_, a), (_, b)| a.quality.bigram.total_cmp(&b.quality.bigram))?;
    let mut reference = Reference {
        nll: point.quality.nll,
        curve,
        point,
    };
    if let Matched::Nll(nll) = reference.matched(findings, curve) {
        reference.nll = nll;
    }
    Some(reference)
}

/// An accelerated method minus the base of its chain.
pub struct Difference<'a> {
    /// The accelerated method.
    pub curve: Curve<'a>,
    /// Nats a symbol at matched entropy, for each number of steps where both have them.
    pub values: Vec<f64>,
    /// Numbers of steps at which the method has no samples of that much entropy.
    pub not_reached: usize,
}

/// The differences of all accelerated methods.
pub fn differences(findings: &Findings) -> Vec<Difference<'_>> {
    let (curves, ks) = (curves(findings), ks(findings));
    let difference = |&curve: &Curve<'_>| {
        let (mut values, mut not_reached) = (Vec::new(), 0);
        for &k in &ks {
            let Some(base) = reference(findings, &curves, Some(curve.chain), k) else {
                continue;
            };
            match base.matched(findings, curve) {
                Matched::Nll(nll) => values.push(nll - base.nll),
                Matched::NotReached(_) => not_reached += 1,
                Matched::Nothing => {}
            }
        }
        (values, not_reached)
    };
    let accelerated = curves.iter().filter(|c| c.accelerated());
    accelerated
        .map(|curve| {
            let (values, not_reached) = difference(curve);
            Difference {
                curve: *curve,
                values,
                not_reached,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{empty, point};
    use super::*;

    /// A base with two temperatures on two chains, and one correction.
    fn findings() -> Findings {
        let mut findings = empty();
        findings.points = vec![
            point("masked", "base", 4, (1.0, 1.0), (3.0, 2.0, 0.3)),
            point("masked", "base", 4, (0.8, 1.0), (2.5, 1.5, 0.2)),
            point("uniform", "base", 4, (0.8, 1.0), (2.4, 1.6, 0.1)),
            point("masked", "linear", 4, (1.0, 1.0), (2.6, 2.0, 0.2)),
            point("masked", "linear", 4, (0.8, 1.0), (2.2, 1.0, 0.2)),
        ];
        findings
    }

    #[test]
    fn the_reference_is_the_base_closest_to_the_law() {
        let findings = findings();
        let curves = curves(&findings);
        let of = |chain| reference(&findings, &curves, chain, 4).expect("a base");
        assert_eq!(of(None).curve.chain, "uniform");
        assert_eq!(of(None).point.quality.entropy, 1.6);
        assert_eq!(of(Some("masked")).point.temperature, 0.8);
        assert_eq!(of(Some("masked")).nll, 2.5);
        assert!(reference(&findings, &curves, None, 8).is_none());
    }

    #[test]
    fn a_reference_is_held_to_its_own_frontier() {
        let mut findings = findings();
        let better = point("uniform", "base", 4, (0.7, 1.0), (2.1, 1.6, 0.4));
        findings.points.push(better);
        let base = reference(&findings, &curves(&findings), None, 4).expect("a base");
        assert_eq!((base.point.temperature, base.nll), (0.8, 2.1));
    }

    #[test]
    fn a_difference_is_taken_at_the_entropy_of_its_chain() {
        // Half way between 2.2 and 2.6 is 2.4, and the base has 2.5 there.
        let mut findings = findings();
        let differences_of = |findings: &Findings| {
            let all = differences(findings);
            assert_eq!(all.len(), 1);
            (all[0].values.clone(), all[0].not_reached)
        };
        let (values, not_reached) = differences_of(&findings);
        assert!((values[0] + 0.1).abs() < 1e-12);
        assert_eq!((values.len(), not_reached), (1, 0));

        findings.points[3].quality.entropy = 1.2;
        assert_eq!(differences_of(&findings), (vec![], 1));
        findings.points[3].quality.entropy = 2.0;
        findings.points.retain(|p| p.method != "base");
        assert_eq!(differences_of(&findings), (vec![], 0));
    }
}
