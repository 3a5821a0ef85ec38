//! Quality against diversity: what a method can have of one for how much of the other.
//!
//! Cooling always lowers the likelihood's cost of few steps and always costs entropy, so a number
//! for one of the two says nothing. Methods are compared at the same entropy, on the lower envelope
//! of what each reaches over its temperatures and gains.

use serde::{Deserialize, Serialize};

use super::{Findings, Point};

/// The points of a chain and method at `k` steps that no other point of theirs beats in both
/// entropy (more) and likelihood (less), by rising entropy. Seeds are averaged first.
pub fn frontier(findings: &Findings, chain: &str, method: &str, k: usize) -> Vec<Point> {
    let mut means = averaged(findings, chain, method, k);
    means.sort_by(|a, b| b.quality.entropy.total_cmp(&a.quality.entropy));
    let mut kept: Vec<Point> = Vec::new();
    for point in means {
        if kept
            .last()
            .is_none_or(|last| point.quality.nll < last.quality.nll)
        {
            kept.push(point);
        }
    }
    kept.reverse();
    kept
}

/// The points of a chain and method at `k` steps, each the mean over its seeds.
fn averaged(findings: &Findings, chain: &str, method: &str, k: usize) -> Vec<Point> {
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
    /// Between two of its points.
    Nll(f64),
    /// The frontier ends at this smaller entropy.
    NotReached(f64),
    /// There are no points.
    Nothing,
}

/// The negative log-likelihood of a frontier at `entropy`, by straight lines between its points; at
/// less entropy than its first point has, that point's own, since it has more of both.
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
        Some(pair) => {
            let (a, b) = (&pair[0].quality, &pair[1].quality);
            let share = (entropy - a.entropy) / (b.entropy - a.entropy);
            Matched::Nll(a.nll + share * (b.nll - a.nll))
        }
    }
}
