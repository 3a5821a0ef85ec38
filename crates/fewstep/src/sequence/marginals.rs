//! What the average generator is to learn, by simulation: per-coordinate marginals of the exact
//! chain over a step, to hold learned ones against.
//!
//! On the mixture path a coordinate that moves in `[t, r]` shows the symbol of its last jump, drawn
//! at a time `s` from `p_{1|s}(. | x_s)`. So the average posterior, with `P_{t->r} = (1 - omega) delta
//! + omega p~_{t,r}` at each coordinate, is
//!
//! `p~_{t,r}(z | x) = E[ int_t^r w(s) p_{1|s}(z | x_s) ds ]`, with `w(s)` the law of the last jump,
//! `lambda_s (1 - kappa_r)/(1 - kappa_s)/omega`.
//!
//! The chain is simulated finely with the exact posterior and whole laws are averaged instead of
//! the symbols that come out, which takes most of the noise away.

use fewstep_ctmc::{
    Language, OwnStep, Path, Process,
    random::{Key, Purpose, quantile, uniform},
};
use fewstep_nn::{Batch, Network, Real, Rows, Want, softmax};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Examples, own_logit};
use crate::objective::Pair;

/// How finely the chain is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// States for each step of the grid.
    pub states: usize,
    /// Trajectories from each.
    pub trajectories: usize,
    /// Parts that a step is cut into.
    pub parts: usize,
}

/// Mean total variation, a coordinate, to the exact average posterior over the steps of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marginals {
    /// Of the prediction at rest, which a sampler without correction uses.
    pub base: f64,
    /// Of the prediction that is told the step.
    pub learned: f64,
    /// Of the exact posterior at the start of the step: what a correction could remove.
    pub posterior: f64,
    /// Of the same with the own state moved along the step ([`OwnStep`]) and what the others say held: what
    /// is left of it to learn.
    pub own: f64,
    /// From the prediction at rest to that posterior: the denoiser's own error, which no correction
    /// removes.
    pub denoiser: f64,
    /// Of the simulation itself: half the distance between its two halves.
    pub noise: f64,
}

/// Where no time is left to cut.
const LAST: f64 = 1.0 - 1e-3;

/// Holds a network's marginals on the mixture path against the chain of `language`.
pub fn marginals<T: Real, N: Network<T>>(
    network: &N,
    (language, path): (&Language, &Path),
    (k, length): (usize, usize),
    simulation: Simulation,
    seed: u64,
) -> Marginals {
    assert!(
        matches!(path.process(), Process::Mixture(_)),
        "the mixture path"
    );
    let corpus = Key::new(seed, Purpose::Check);
    let at = |i: usize| i as f64 / k as f64;
    let pairs: Vec<Pair> = (0..k * simulation.states)
        .map(|i| Pair::new(path.schedule(), at(i % k), at(i % k + 1)))
        .collect();
    let x1: Vec<usize> = (0..pairs.len() as u64)
        .flat_map(|i| language.sample(length, &mut corpus.at(0, i)))
        .collect();
    let examples = Examples::corrupt(path, &x1, &pairs, (seed, 0));
    let rows = examples.active(path);
    let told = predictions(network, examples.all(), &rows);
    let batch = examples.all();
    let at_rest = predictions(
        network,
        Batch {
            r: batch.t,
            ..batch
        },
        &rows,
    );
    let exact: Vec<[Vec<f64>; 2]> = examples
        .pairs
        .par_iter()
        .zip(examples.x.par_chunks(length))
        .enumerate()
        .map(|(i, (pair, x))| {
            let half = |which: u64| {
                let key = Key::new(seed.wrapping_add(which + 1), Purpose::Check);
                let count = simulation.trajectories / 2;
                let streams = (0..count as u64).map(|j| key.at(i as u64 + 1, j));
                let parts = simulation.parts;
                average((language, path), x, (pair.t, pair.r), streams, parts)
            };
            [half(0), half(1)]
        })
        .collect();
    let symbols = language.symbols();
    let starts = examples.pairs.par_iter().zip(examples.x.par_chunks(length));
    let starts: Vec<Vec<f64>> = starts
        .map(|(pair, x)| {
            let mut law = vec![0.0; length * symbols];
            language.denoise(path, path.schedule().level(pair.t), x, &mut law);
            law
        })
        .collect();
    let mut sums = [0.0; 6];
    for ((&row, told), at_rest) in rows.iter().zip(&told).zip(&at_rest) {
        let place = row % length * symbols..(row % length + 1) * symbols;
        let [a, b] = exact[row / length].each_ref().map(|e| &e[place.clone()]);
        let mean: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect();
        let start = &starts[row / length][place];
        let found = [
            distance(at_rest, &mean),
            distance(told, &mean),
            distance(start, &mean),
            distance(
                &along(path, &examples.pairs[row / length], examples.x[row], start),
                &mean,
            ),
            distance(at_rest, start),
            distance(a, b) / 2.0,
        ];
        sums.iter_mut().zip(found).for_each(|(sum, d)| *sum += d);
    }
    let [base, learned, posterior, own, denoiser, noise] = sums.map(|sum| sum / rows.len() as f64);
    Marginals {
        base,
        learned,
        posterior,
        own,
        denoiser,
        noise,
    }
}

/// The exact posterior of a coordinate that shows `x`, with its own state moved along the step.
fn along(path: &Path, pair: &Pair, x: usize, posterior: &[f64]) -> Vec<f64> {
    if path.mask().is_some() {
        return posterior.to_vec();
    }
    let (schedule, s) = (path.schedule(), path.source(0, 0).recip());
    let mut logits: Vec<f64> = posterior.iter().map(|p| p.ln()).collect();
    let shown = Some(x).filter(|&x| x < path.symbols());
    if let Some(x) = shown {
        logits[x] -= own_logit((schedule, s), pair.t).0;
    }
    OwnStep::new(schedule, s, pair.t, pair.r).tell(&mut logits, &mut [], shown);
    softmax::in_place(&mut logits);
    logits
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

fn predictions<T: Real, N: Network<T>>(network: &N, batch: Batch, rows: &[usize]) -> Vec<Vec<f64>> {
    let mut pass = N::Pass::default();
    network.evaluate(batch, Want::default(), &mut pass);
    network.visit(&pass, Rows::plain(rows), |_, logits| {
        softmax::in_place(logits.value);
        logits.value.iter().map(|p| p.widen()).collect()
    })
}

/// The exact average posterior `[L, S]` from `x` over `(t, r)`, by trajectories.
pub fn average<R: fewstep_ctmc::random::Rng>(
    (language, path): (&Language, &Path),
    x: &[usize],
    (t, r): (f64, f64),
    streams: impl Iterator<Item = R>,
    parts: usize,
) -> Vec<f64> {
    let symbols = language.symbols();
    let end = r.min(LAST);
    // Parts of equal jump probability: even in the logarithm of what has not jumped.
    let schedule = path.schedule();
    let (from, to) = (schedule.level(t), schedule.level(end));
    let survival =
        |i: usize| from.survival * (to.survival / from.survival).powf(i as f64 / parts as f64);
    let times: Vec<f64> = (0..=parts)
        .map(|i| schedule.inverse(1.0 - survival(i)))
        .collect();
    let mut sum = vec![0.0; x.len() * symbols];
    let mut law = vec![0.0; x.len() * symbols];
    let mut count = 0.0;
    for mut rng in streams {
        let mut x = x.to_vec();
        count += 1.0;
        for i in 0..parts {
            language.denoise(path, schedule.level(times[i]), &x, &mut law);
            // The last jump is in this part if one is and none comes later.
            let keep = survival(i + 1) / survival(i);
            let weight = (1.0 - keep) * to.survival / survival(i + 1);
            sum.iter_mut().zip(&law).for_each(|(s, p)| *s += weight * p);
            for (x, law) in x.iter_mut().zip(law.chunks_exact(symbols)) {
                let level = uniform(&mut rng);
                if path.mask().is_none_or(|mask| *x == mask) && level >= keep {
                    *x = quantile(law, (level - keep) / (1.0 - keep));
                }
            }
        }
    }
    let omega = 1.0 - to.survival / from.survival;
    sum.iter_mut().for_each(|s| *s /= count * omega);
    sum
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Chain, Schedule, Source, propagator};

    use super::*;

    /// With the exact denoiser in the network's place there is no error but the step's.
    #[test]
    fn an_exact_denoiser_has_no_error_of_its_own() {
        let language = Language::default_with(5, 4, 2).unwrap();
        let process = Process::Mixture(Source::Uniform);
        let path = Path::new(Schedule::Linear, process, 5).unwrap();
        let oracle = crate::sequence::Oracle {
            law: language.clone(),
            path: path.clone(),
        };
        let simulation = Simulation {
            states: 2,
            trajectories: 16,
            parts: 8,
        };
        let found = marginals(&oracle, (&language, &path), (2, 6), simulation, 1);
        assert!(found.denoiser < 1e-12, "{}", found.denoiser);
        assert!((found.base - found.posterior).abs() < 1e-12 && found.base > 0.01);
        assert!((found.learned - found.base).abs() < 1e-12, "never told r");
        assert!(found.own < found.base, "{} of {}", found.own, found.base);
    }

    /// Against the propagator of the enumerated chain, and against the posterior at the start, which
    /// is not the average.
    #[test]
    fn the_simulated_average_is_the_propagators() {
        let language = Language::default_with(3, 3, 2).unwrap();
        let process = Process::Mixture(Source::Uniform);
        let path = Path::new(Schedule::Linear, process, 3).unwrap();
        let law: Vec<f64> = (0..27)
            .map(|i| language.log_likelihood(&[i / 9, i / 3 % 3, i % 3]).exp())
            .collect();
        let chain = Chain::new(path.clone(), 3, law).unwrap();
        let (t, r, x) = (0.2, 0.7, [2, 0, 1]);
        let state = chain.states().encode(&x);
        let exact = propagator::marginals(&chain, t, r).unwrap();
        let omega = path.schedule().omega(t, r);
        let wanted: Vec<f64> = (0..9)
            .map(|i| {
                let stays = if x[i / 3] == i % 3 { 1.0 - omega } else { 0.0 };
                (exact[state * 9 + i] - stays) / omega
            })
            .collect();
        let key = Key::new(3, Purpose::Check);
        let streams = (0..4000).map(|i| key.at(0, i));
        let found = average((&language, &path), &x, (t, r), streams, 200);
        let mut start = vec![0.0; 9];
        language.denoise(&path, path.schedule().level(t), &x, &mut start);
        let (off, base) = (distance(&found, &wanted), distance(&start, &wanted));
        assert!(off < 0.01 && base > 5.0 * off, "{off} against {base}");
    }
}
