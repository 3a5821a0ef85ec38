//! Times and pairs of a training step.

use std::f64::consts::FRAC_PI_2;

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, index, normal, uniform},
};

use super::Pairs;
use crate::objective::Pair;

/// The latest time that a network is shown: the bound's weight grows without limit towards data.
pub const LAST: f64 = 1.0 - 1e-3;

/// The fractional part of the golden ratio: multiples of it cover `[0, 1)` evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Times without steps, spread evenly within a step and over the steps, and what each counts.
///
/// The bound is a mean over uniform times of `1 - t` noisy coordinates that weigh `1/(1 - t)`, so
/// that near data few coordinates weigh much. Their mean squares ask for times with the density
/// `1/(2 sqrt(1 - t))`: `t = 1 - v^2` with `v` uniform, each counting `2 v`.
pub fn instants(path: &Path, count: usize, (seed, step): (u64, u64)) -> (Vec<Pair>, Vec<f64>) {
    let offset = uniform(&mut Key::new(seed, Purpose::Time).at(0, 0));
    (0..count as u64)
        .map(|i| {
            let v = (offset + (step * count as u64 + i) as f64 * GOLDEN).fract();
            let v = v.max((1.0 - LAST).sqrt());
            let t = 1.0 - v * v;
            (Pair::new(path.schedule(), t, t), 2.0 * v)
        })
        .unzip()
}

/// MaskGIT's times without steps, `arccos(u)/(pi/2)` of the coordinates being masked with `u` uniform.
pub fn arccos(path: &Path, count: usize, (seed, step): (u64, u64)) -> Vec<Pair> {
    let offset = uniform(&mut Key::new(seed, Purpose::Time).at(0, 0));
    (0..count as u64)
        .map(|i| {
            let u = (offset + (step * count as u64 + i) as f64 * GOLDEN).fract();
            let t = (1.0 - u.acos() / FRAC_PI_2).min(LAST);
            Pair::new(path.schedule(), t, t)
        })
        .collect()
}

/// Times without steps, spread evenly, that all count alike.
pub fn even(path: &Path, count: usize, (seed, step): (u64, u64)) -> Vec<Pair> {
    let offset = uniform(&mut Key::new(seed, Purpose::Time).at(0, 0));
    (0..count as u64)
        .map(|i| {
            let t = LAST * (offset + (step * count as u64 + i) as f64 * GOLDEN).fract();
            Pair::new(path.schedule(), t, t)
        })
        .collect()
}

/// The share of Di4C's times that are near data.
const NEAR_SHARE: f64 = 0.3;

/// Times without steps for Di4C: a share of them within `near` of data, the others before.
pub fn near_and_far(path: &Path, near: f64, count: usize, (seed, step): (u64, u64)) -> Vec<Pair> {
    let key = Key::new(seed, Purpose::Time);
    (0..count as u64)
        .map(|i| {
            let mut rng = key.at(step + 1, i);
            let close = uniform(&mut rng) < NEAR_SHARE;
            let v = uniform(&mut rng);
            let t = match close {
                true => (1.0 - near * v).min(LAST),
                false => (1.0 - near) * v,
            };
            Pair::new(path.schedule(), t, t)
        })
        .collect()
}

/// Whole steps of uniform grids, one of these sizes each.
pub fn steps(path: &Path, grids: &[usize], count: usize, (seed, step): (u64, u64)) -> Vec<Pair> {
    let key = Key::new(seed, Purpose::Time);
    (0..count as u64)
        .map(|i| {
            let mut rng = key.at(step + 1, i);
            let k = grids[index(&mut rng, grids.len())];
            let first = index(&mut rng, k) as f64;
            let at = |position: f64| position / k as f64;
            Pair::new(path.schedule(), at(first).min(LAST), at(first + 1.0))
        })
        .collect()
}

/// Pairs of an acceleration, a share of them at rest.
pub fn pairs(
    path: &Path,
    pairs: &Pairs,
    at_rest: f64,
    count: usize,
    (seed, step): (u64, u64),
) -> Vec<Pair> {
    let key = Key::new(seed, Purpose::Time);
    (0..count as u64)
        .map(|i| {
            let mut rng = key.at(step + 1, i);
            let rest = uniform(&mut rng) < at_rest;
            let (t, r) = match pairs {
                Pairs::LogitNormal { start, end } => {
                    let mut noise = |(mean, deviation): (f64, f64)| {
                        1.0 / (1.0 + (-(mean + deviation * normal(&mut rng))).exp())
                    };
                    let (a, b) = (noise(*start), noise(*end));
                    (1.0 - a.max(b), 1.0 - a.min(b))
                }
                Pairs::Arccos => {
                    let start = uniform(&mut rng).acos() / FRAC_PI_2;
                    let end = 1.0 / (1.0 + (3.0 - 2.0 * normal(&mut rng)).exp());
                    (1.0 - start, 1.0 - end.min(start))
                }
                Pairs::Grids(grids) => {
                    let k = grids[index(&mut rng, grids.len())];
                    let first = index(&mut rng, k);
                    let inside = uniform(&mut rng);
                    let at = |position: f64| position / k as f64;
                    (at(first as f64 + inside), at(first as f64 + 1.0))
                }
            };
            let t = t.min(LAST);
            Pair::new(path.schedule(), t, if rest { t } else { r.max(t) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Process, Schedule, Source};

    use super::*;

    /// The mean mask ratio of MaskGIT is `E arccos(u) 2/pi = 2/pi`.
    #[test]
    fn arccos_masks_as_maskgit() {
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Masked), 5).unwrap();
        let pairs = arccos(&path, 10_000, (3, 0));
        let mean = pairs.iter().map(|pair| 1.0 - pair.t).sum::<f64>() / 1e4;
        assert!((mean - std::f64::consts::FRAC_2_PI).abs() < 1e-3, "{mean}");
        assert!(pairs.iter().all(|pair| pair.t <= LAST));
        for pair in self::pairs(&path, &Pairs::Arccos, 0.0, 1000, (3, 1)) {
            assert!(0.0 <= pair.t && pair.t <= pair.r && pair.r <= 1.0);
        }
    }
}
