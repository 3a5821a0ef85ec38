//! DUO's Gaussian-guided curriculum: a denoiser of uniform noise that first sees softly what it will
//! see sharply.
//!
//! Under the discrete chain lies a Gaussian one ([`gaussian`]): with `w = a 1_{x_1} + b eps`, where
//! `a^2 = sigmoid(-gamma_t)`, `b^2 = sigmoid(gamma_t)` and `alpha(gamma_t) = kappa_t`, the symbol
//! `x_t = argmax w` has the law `p_{t|1}`. In the curriculum the loss stays the bound at `x_t`, but the
//! network reads the combination `softmax(w/tau)` of symbols in place of `x_t`. At `tau > 0` that says
//! more of `x_1` than `x_t` does, so that the early gradients have less variance, and the loss is no
//! bound; as `tau` falls the combination tends to `x_t` and the loss to the plain one, with which the
//! training ends.
//!
//! # Few of many symbols
//!
//! Of `S` entries all but the largest weigh nothing when `tau` is small. The `k` largest of the
//! `S - 1` that are not `x_1` are drawn as what they are, order statistics of normal numbers: the
//! uniform ones fall by factors `V^{1/n}`, `n = S - 1, S - 2, ...`, and the symbols they belong to are
//! distinct and uniform. So a coordinate costs `k` draws and not `S`, and `x_t` is exact whatever `k`.
//! What is left out is the weight of the rest; how much that is stands in `docs/rivals.md`.

use fewstep_ctmc::{
    Path, gaussian,
    random::{ChaCha8Rng, Key, Purpose, distinct, normal, uniform},
};
use fewstep_nn::Soft;
use serde::{Deserialize, Serialize};

use super::{Chain, Examples};
use crate::{method::dcd::Clock, objective::Pair};

/// The settings of a curriculum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curriculum {
    /// The share of the steps that it takes; the others are plain.
    pub share: f64,
    /// `tau` in its first and in its last step, by a constant factor from one to the next.
    pub tau: (f64, f64),
    /// Symbols beside `x_1` that a combination has.
    pub symbols: usize,
}

impl Curriculum {
    /// `tau` in a step of a training, while the curriculum lasts.
    pub fn tau(&self, step: u64, steps: u64) -> Option<f64> {
        let end = (self.share * steps as f64).round() as u64;
        let (first, last) = self.tau;
        let along = step as f64 / end.saturating_sub(1).max(1) as f64;
        (step < end).then(|| first * (last / first).powf(along))
    }

    /// Why it cannot be used on a chain, if it cannot.
    pub(super) fn fault(&self, chain: Chain) -> Option<&'static str> {
        let positive = |tau: f64| tau > 0.0 && tau.is_finite();
        if matches!(chain, Chain::Masked | Chain::StochasticMask) {
            return Some(
                "the curriculum needs a chain from uniform noise: no Gaussian shows a mask",
            );
        }
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Some("the curriculum's share of the steps must be above 0 and at most 1");
        }
        if !(positive(self.tau.0) && positive(self.tau.1)) {
            return Some("the curriculum's temperatures must be above 0");
        }
        (self.symbols == 0).then_some("the curriculum needs at least 1 symbol beside the data's")
    }
}

/// The ends of the Gaussian's clock, as `alpha`: beyond them a time is taken for the end.
const ENDS: (f64, f64) = (1.0 - 5e-4, 1e-4);

/// The clock of a curriculum over `symbols`.
pub fn clock(symbols: usize) -> Clock {
    Clock::between(symbols, ENDS)
}

/// Corrupted sequences, and what is read in place of their symbols.
#[derive(Clone, Debug)]
pub struct Softened {
    /// The sequences.
    pub examples: Examples,
    symbols: Vec<usize>,
    weights: Vec<f64>,
}

impl Softened {
    /// What is read.
    pub fn soft(&self) -> Soft<'_> {
        Soft {
            symbols: &self.symbols,
            weights: &self.weights,
        }
    }
}

/// Sequences `x1 [B, L]` at the times of `pairs`, with combinations at `tau` of `x_1` and `others`
/// symbols each. The last `given` coordinates are what they are, at all times and alone. Randomness is
/// addressed by `(seed, step, example)`.
pub fn soften(
    (path, clock): (&Path, &Clock),
    (x1, given): (&[usize], usize),
    pairs: &[Pair],
    (tau, others): (f64, usize),
    (seed, step): (u64, u64),
) -> Softened {
    let length = x1.len() / pairs.len();
    let others = others.min(path.symbols() - 1);
    let key = Key::new(seed, Purpose::Data);
    let (mut x, mut symbols, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (i, pair) in pairs.iter().enumerate() {
        let mut rng = key.at(step, i as u64);
        let gamma = clock.gamma(path.schedule().kappa(pair.t));
        let (own, behind) = x1[i * length..(i + 1) * length].split_at(length - given);
        for &data in own {
            let (seen, entries) = entries((gamma, path.symbols()), data, others, &mut rng);
            let largest = entries.iter().copied().fold(f64::MIN, f64::max);
            let scaled = entries.iter().map(|w| ((w - largest) / tau).exp());
            let scaled: Vec<f64> = scaled.collect();
            let total: f64 = scaled.iter().sum();
            weights.extend(scaled.iter().map(|w| w / total));
            x.push(if entries[0] == largest { data } else { seen[1] });
            symbols.extend(seen);
        }
        for &label in behind {
            x.push(label);
            symbols.extend(vec![label; 1 + others]);
            weights.push(1.0);
            weights.extend(vec![0.0; others]);
        }
    }
    Softened {
        examples: Examples::shown(path, (x1, &x), pairs).giving(given),
        symbols,
        weights,
    }
}

/// The data's symbol and the `others` with the largest entries of `w`, falling, and those entries.
fn entries(
    (gamma, symbols): (f64, usize),
    data: usize,
    others: usize,
    rng: &mut ChaCha8Rng,
) -> (Vec<usize>, Vec<f64>) {
    let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
    let (a, b) = (sigmoid(-gamma).sqrt(), sigmoid(gamma).sqrt());
    let (mut seen, mut entries) = (vec![data], vec![a + b * normal(rng)]);
    let mut log_below = 0.0;
    for i in 0..others {
        let left = (symbols - 1 - i) as f64;
        log_below += uniform(rng).max(f64::MIN_POSITIVE).ln() / left;
        entries.push(b * gaussian::exceeded(-f64::exp_m1(log_below)));
    }
    let around = distinct(rng, others, symbols - 1);
    seen.extend(around.into_iter().map(|z| z + usize::from(z >= data)));
    (seen, entries)
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Process, Schedule, Source};

    use super::*;

    const SYMBOLS: usize = 6;

    fn path() -> Path {
        Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), SYMBOLS).unwrap()
    }

    fn drawn(t: f64, tau: f64, others: usize, count: usize) -> Softened {
        let path = path();
        let pairs = vec![Pair::new(Schedule::Linear, t, t); count];
        let clock = clock(SYMBOLS);
        soften(
            (&path, &clock),
            (&vec![2; count], 0),
            &pairs,
            (tau, others),
            (3, 0),
        )
    }

    /// What is shown has the law of the path, and what is read the mean and mean square of the dense
    /// combination, drawn entry by entry.
    #[test]
    fn draws_are_those_of_the_gaussian() {
        let (count, t, tau) = (40_000, 0.35, 0.2);
        let found = drawn(t, tau, SYMBOLS - 1, count);
        let mut shown = [0.0; SYMBOLS];
        found.examples.x.iter().for_each(|&x| shown[x] += 1.0);
        let chi: f64 = (0..SYMBOLS)
            .map(|z| {
                let p = (1.0 - t) / SYMBOLS as f64 + if z == 2 { t } else { 0.0 };
                (shown[z] - count as f64 * p).powi(2) / (count as f64 * p)
            })
            .sum();
        // The 0.9999 quantile of five degrees of freedom.
        assert!(chi < 25.7, "{chi}");
        let moments = |each: &mut dyn FnMut(usize) -> [f64; 2]| {
            let mut sums = [0.0; 4];
            for i in 0..count {
                let [own, other] = each(i);
                for (s, v) in sums.iter_mut().zip([own, own * own, other, other * other]) {
                    *s += v / count as f64;
                }
            }
            sums
        };
        let weight = |i: usize, symbol: usize| {
            let at = i * SYMBOLS..(i + 1) * SYMBOLS;
            let place = found.symbols[at.clone()].iter().position(|z| *z == symbol);
            found.weights[at][place.unwrap()]
        };
        let ours = moments(&mut |i| [weight(i, 2), weight(i, 4)]);
        let gamma = gaussian::gamma(SYMBOLS, t);
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let (a, b) = (sigmoid(-gamma).sqrt(), sigmoid(gamma).sqrt());
        let key = Key::new(8, Purpose::Check);
        let dense = moments(&mut |i| {
            let mut rng = key.at(0, i as u64);
            let w: Vec<f64> = (0..SYMBOLS)
                .map(|z| {
                    let signal = if z == 2 { a } else { 0.0 };
                    ((signal + b * normal(&mut rng)) / tau).exp()
                })
                .collect();
            let total: f64 = w.iter().sum();
            [w[2] / total, w[4] / total]
        });
        for (ours, dense) in ours.iter().zip(dense) {
            assert!((ours - dense).abs() < 0.01, "{ours} {dense}");
        }
    }

    /// The symbol that is shown weighs most, weights sum to one, and fewer symbols show the same.
    #[test]
    fn what_is_shown_weighs_most() {
        for others in [1, 2, 5, 50] {
            let found = drawn(0.4, 0.05, others, 500);
            let several = others.min(SYMBOLS - 1) + 1;
            let each = found
                .symbols
                .chunks(several)
                .zip(found.weights.chunks(several));
            for ((symbols, weights), x) in each.zip(&found.examples.x) {
                let total: f64 = weights.iter().sum();
                assert!((total - 1.0).abs() < 1e-12);
                let most = weights.iter().copied().fold(0.0, f64::max);
                let place = symbols.iter().position(|z| z == x).unwrap();
                assert_eq!(weights[place], most);
                let mut sorted = symbols.to_vec();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), several);
            }
        }
    }

    /// A label behind a sequence is shown and read as it is, and the sequence as it would be without it.
    #[test]
    fn a_label_is_read_alone() {
        let (path, clock, label) = (path(), clock(SYMBOLS), SYMBOLS + 3);
        let pair = [Pair::new(Schedule::Linear, 0.4, 0.4)];
        let read =
            |x1: &[usize], given| soften((&path, &clock), (x1, given), &pair, (0.05, 2), (3, 0));
        let (told, untold) = (read(&[2, 5, label], 1), read(&[2, 5], 0));
        assert_eq!(told.examples.x[..2], untold.examples.x);
        assert_eq!(told.examples.x[2], label);
        assert_eq!(told.examples.active(&path), [0, 1]);
        assert_eq!(told.symbols[..6], untold.symbols);
        assert_eq!(told.weights[..6], untold.weights);
        assert_eq!(told.symbols[6..], [label; 3]);
        assert_eq!(told.weights[6..], [1.0, 0.0, 0.0]);
    }

    #[test]
    fn tau_falls_by_a_factor_and_ends() {
        let curriculum = Curriculum {
            share: 0.5,
            tau: (0.1, 0.001),
            symbols: 4,
        };
        let at = |step| curriculum.tau(step, 42);
        assert_eq!(at(0), Some(0.1));
        assert!((at(10).unwrap() - 0.01).abs() < 1e-12);
        assert!((at(20).unwrap() - 0.001).abs() < 1e-12);
        assert_eq!(at(21), None);
        assert!(curriculum.fault(Chain::Masked).is_some());
        assert!(curriculum.fault(Chain::UniformState).is_none());
    }
}
