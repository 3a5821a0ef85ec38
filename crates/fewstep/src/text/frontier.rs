//! Quality against diversity: what a method can have of one for how much of the other.
//!
//! Cooling always lowers the likelihood's cost of few steps and always costs entropy, so a number
//! for one of the two says nothing. Methods are compared at the same entropy, on the lower convex hull
//! of what each reaches over its temperatures and gains. The hull is no interpolation: who draws each
//! sequence in one of two ways, by a coin, has the coin's mixture of their mean likelihoods and of their mean
//! entropies, so every point of a line between two points can be had.

use serde::{Deserialize, Serialize};

use super::{Findings, Point};

/// The points of a chain and method at `k` steps that no other point of theirs, nor a mixture of two, beats in
/// both entropy (more) and likelihood (less), by rising entropy. Seeds are averaged first.
pub fn frontier(findings: &Findings, chain: &str, method: &str, k: usize) -> Vec<Point> {
    let mut means = averaged(findings, chain, method, k);
    means.sort_by(|a, b| b.quality.entropy.total_cmp(&a.quality.entropy));
    let mut kept: Vec<Point> = Vec::new();
    for point in means {
        if kept
            .last()
            .is_some_and(|last| point.quality.nll >= last.quality.nll)
        {
            continue;
        }
        // The last one has no more entropy than this one has, or is above the line over it.
        kept.pop_if(|last| last.quality.entropy <= point.quality.entropy);
        while let [.., before, last] = &kept[..]
            && between(before, &point, last.quality.entropy) <= last.quality.nll
        {
            kept.pop();
        }
        kept.push(point);
    }
    kept.reverse();
    kept
}

/// The likelihood at `entropy` of the mixture of two points.
fn between(a: &Point, b: &Point, entropy: f64) -> f64 {
    let (a, b) = (&a.quality, &b.quality);
    let share = (entropy - a.entropy) / (b.entropy - a.entropy);
    a.nll + share * (b.nll - a.nll)
}

/// The points of a chain and method at `k` steps, each the mean over its seeds.
pub(super) fn averaged(findings: &Findings, chain: &str, method: &str, k: usize) -> Vec<Point> {
    let mut means: Vec<(Point, f64)> = Vec::new();
    let mine = |p: &&Point| p.chain == chain && p.method == method && p.k == k;
    for point in findings.points.iter().filter(mine) {
        let same =
            |(m, _): &&mut (Point, f64)| m.temperature == point.temperature && m.gain == point.gain;
        match means.iter_mut().find(same) {
            None => means.push((point.clone(), 1.0)),
            Some((mean, n)) => {
                *n += 1.0;
                let q = &point.quality;
                let move_to = |at: &mut f64, v: f64| *at += (v - *at) / *n;
                move_to(&mut mean.quality.nll, q.nll);
                move_to(&mut mean.quality.entropy, q.entropy);
                move_to(&mut mean.quality.bigram, q.bigram);
                move_to(&mut mean.quality.distinct, q.distinct);
            }
        }
    }
    means.into_iter().map(|(mean, _)| mean).collect()
}

/// The point of a chain and method at `k` steps whose neighbours are closest to the language's: a
/// distance to the law, which cooling cannot game.
pub fn best(findings: &Findings, chain: &str, method: &str, k: usize) -> Option<Point> {
    averaged(findings, chain, method, k)
        .into_iter()
        .min_by(|a, b| a.quality.bigram.total_cmp(&b.quality.bigram))
}

/// A frontier's likelihood at an entropy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Matched {
    /// Of one of its points or a mixture of two.
    Nll(f64),
    /// The frontier ends at this smaller entropy.
    NotReached(f64),
    /// There are no points.
    Nothing,
}

/// The negative log-likelihood of a frontier at `entropy`; at less entropy than its first point has, that
/// point's own, since it has more of both.
pub fn matched(frontier: &[Point], entropy: f64) -> Matched {
    let (Some(first), Some(last)) = (frontier.first(), frontier.last()) else {
        return Matched::Nothing;
    };
    if entropy <= first.quality.entropy {
        return Matched::Nll(first.quality.nll);
    }
    let above = frontier
        .windows(2)
        .find(|pair| entropy <= pair[1].quality.entropy);
    match above {
        None => Matched::NotReached(last.quality.entropy),
        Some(pair) => Matched::Nll(between(&pair[0], &pair[1], entropy)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{empty, point};
    use super::*;

    /// Findings of one base at four steps, of (temperature, likelihood, entropy).
    fn findings(values: &[(f64, f64, f64)]) -> Findings {
        let mut findings = empty();
        let point = |&(temperature, nll, entropy): &(f64, f64, f64)| {
            point(
                "masked",
                "base",
                4,
                (temperature, 1.0),
                (nll, entropy, nll / 10.0),
            )
        };
        findings.points = values.iter().map(point).collect();
        findings
    }

    fn temperatures(points: &[Point]) -> Vec<f64> {
        points.iter().map(|p| p.temperature).collect()
    }

    fn of(findings: &Findings) -> Vec<Point> {
        frontier(findings, "masked", "base", 4)
    }

    #[test]
    fn beaten_points_are_no_part_of_the_envelope() {
        // 0.8 has less entropy than 0.9 and a worse likelihood; 0.7 is better in one of the two.
        let all = findings(&[
            (0.8, 2.8, 1.5),
            (1.0, 3.0, 2.5),
            (0.7, 2.0, 1.0),
            (0.9, 2.5, 2.0),
        ]);
        assert_eq!(temperatures(&of(&all)), [0.7, 0.9, 1.0]);
        let hot = findings(&[(1.0, 2.0, 2.5), (0.9, 2.5, 2.0), (0.8, 2.2, 1.5)]);
        assert_eq!(temperatures(&of(&hot)), [1.0]);
    }

    #[test]
    fn what_a_mixture_beats_is_no_part_of_the_hull() {
        // Half of each of the outer ones has the entropy 1.5 and 2.5 nats.
        let outer = [(1.0, 3.0, 2.0), (0.8, 2.0, 1.0)];
        let with = |nll| of(&findings(&[outer[0], (0.9, nll, 1.5), outer[1]]));
        assert_eq!(temperatures(&with(2.6)), [0.8, 1.0]);
        assert_eq!(temperatures(&with(2.4)), [0.8, 0.9, 1.0]);
        let Matched::Nll(nll) = matched(&with(2.6), 1.5) else {
            panic!("reached")
        };
        assert!((nll - 2.5).abs() < 1e-12, "{nll}");
        // One that is beaten only once a later one has come.
        let late = [(1.0, 3.0, 2.0), (0.9, 2.9, 1.8), (0.85, 2.7, 1.6), outer[1]];
        assert_eq!(temperatures(&of(&findings(&late))), [0.8, 1.0]);
        let same = [(1.0, 3.0, 2.0), (0.9, 2.8, 2.0), outer[1]];
        assert_eq!(temperatures(&of(&findings(&same))), [0.8, 0.9]);
    }

    #[test]
    fn only_the_chain_the_method_and_the_steps_asked_for_count() {
        let mut all = findings(&[(1.0, 3.0, 2.0)]);
        for (chain, method, k) in [
            ("uniform", "base", 4),
            ("masked", "linear", 4),
            ("masked", "base", 8),
        ] {
            let other = point(chain, method, k, (1.0, 1.0), (1.0, 9.0, 0.0));
            all.points.push(other);
        }
        assert_eq!(of(&all), [all.points[0].clone()]);
        assert_eq!(best(&all, "masked", "base", 4), Some(all.points[0].clone()));
        assert_eq!(best(&all, "masked", "base", 2), None);
    }

    #[test]
    fn seeds_are_averaged_before_they_are_compared() {
        // The lucky seed of 0.9 would beat 1.0; their mean does not.
        let all = findings(&[
            (0.9, 1.0, 2.0),
            (1.0, 2.5, 2.5),
            (0.9, 5.0, 1.0),
            (0.9, 3.0, 1.8),
        ]);
        let frontier = of(&all);
        assert_eq!(temperatures(&frontier), [1.0]);
        let mean = &averaged(&all, "masked", "base", 4)[0].quality;
        assert!((mean.nll - 3.0).abs() < 1e-12 && (mean.entropy - 1.6).abs() < 1e-12);
        assert!((mean.bigram - 0.3).abs() < 1e-12);
    }

    #[test]
    fn gains_are_points_of_their_own() {
        let mut all = findings(&[(1.0, 3.0, 2.0), (1.0, 2.0, 1.0)]);
        all.points[1].gain = 2.0;
        assert_eq!(of(&all).len(), 2);
    }

    #[test]
    fn the_best_is_the_closest_to_the_law_not_the_likeliest() {
        let mut all = findings(&[(1.0, 3.0, 2.0), (0.5, 1.0, 0.5)]);
        all.points[0].quality.bigram = 0.01;
        let best = best(&all, "masked", "base", 4).expect("a point");
        assert_eq!(best.temperature, 1.0);
    }

    #[test]
    fn between_two_points_lies_a_straight_line() {
        let line = of(&findings(&[
            (0.8, 2.0, 1.0),
            (0.9, 2.4, 1.5),
            (1.0, 3.4, 2.0),
        ]));
        let at = |entropy| match matched(&line, entropy) {
            Matched::Nll(nll) => nll,
            other => panic!("{other:?}"),
        };
        for (entropy, nll) in [(1.0, 2.0), (1.25, 2.2), (1.5, 2.4), (1.9, 3.2), (2.0, 3.4)] {
            assert!(
                (at(entropy) - nll).abs() < 1e-12,
                "{entropy}: {}",
                at(entropy)
            );
        }
    }

    #[test]
    fn less_entropy_than_the_first_point_costs_no_more_than_it() {
        let line = of(&findings(&[(0.8, 2.0, 1.0), (0.9, 2.4, 1.5)]));
        assert_eq!(matched(&line, 0.1), Matched::Nll(2.0));
    }

    #[test]
    fn more_entropy_than_the_last_point_is_not_reached() {
        let line = of(&findings(&[(0.8, 2.0, 1.0), (0.9, 2.4, 1.5)]));
        assert_eq!(matched(&line, 1.6), Matched::NotReached(1.5));
        assert_eq!(matched(&line[..1], 1.5), Matched::NotReached(1.0));
        assert_eq!(matched(&[], 1.5), Matched::Nothing);
    }
}
