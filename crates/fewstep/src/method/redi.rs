//! Rectified discrete flow (ReDi): train again on pairs that the sampler itself has made.
//!
//! A sampler with many steps takes noise `x_0` to a sequence `x_1`; the pairs are a coupling
//! `pi(x_0, x_1)`. The same denoiser's objective is then trained on the same mixture path, but with
//! each sequence's own source in place of fresh noise ([`Examples::between`]). Given where the chain
//! stands, less of `x_1` is open, so coordinates that are drawn independently err less: what falls
//! is the conditional total correlation `E_{x_0} KL(pi(. | x_0) || prod_d pi^d(. | x_0))`
//! ([`conditional_total_correlation`]). Rounds repeat it with the rectified network.
//!
//! On the masked path every sequence begins alike. A coupling then says nothing of its source, and
//! training on it is no more than training on generated data. ReDi's image models therefore begin in
//! masks among noise, [`Source::StochasticMask`](fewstep_ctmc::Source): with probability `m = 0.3` a
//! mask, else a uniform symbol, `p_0(s) = m 1[s = mask] + (1 - m)/S 1[s != mask]`. It is a mixture path
//! like the others; a masked denoiser learns it first, by its bound, since now a symbol that is shown
//! need not be data. A latent that the sequence carries (as [`di4c`](super::di4c) adds) is another
//! thing to hold on to.
//!
//! # Conditional total correlation where nothing can be enumerated
//!
//! ReDi's estimate ([`plug_in`]): the sampler goes several times from each source, and frequencies
//! stand for the law, `sum_d H^(x_1^d | x_0) - H^(x_1 | x_0)`. It is biased upwards. From `R` walks
//! that could end in `M` sequences, `M_d` symbols at `d`, by `[(M - 1) - sum_d (M_d - 1)]/(2 R)` to
//! first order, which is small only if `R` is much larger than `M`. On long sequences no two walks end
//! alike, `H^` is `ln R` whatever the law, and what is left measures how much is open and not how much
//! of it depends. So the same number is taken of walks whose symbols were exchanged at each position
//! ([`Correlation::exchanged`]), which keeps the frequencies and takes the dependence away: the two
//! agree in the mean if there is none, and always do where all walks end apart.

use std::ops::Range;

use fewstep_ctmc::{
    Grid, Path, Space,
    divergence::total_correlation,
    random::{Key, Purpose, index},
};
use fewstep_nn::{Network, Real};

use crate::sequence::{
    Examples,
    evaluate::entropy,
    sampler::{Decoding, Latent, State, sample},
};

/// Pairs of where sequences began and what became of them, `[M, L]` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coupling {
    /// Positions `L`, those that carry a label or a latent included.
    pub length: usize,
    /// The last positions, which carry a label or a latent: the same at both ends.
    pub carried: usize,
    /// Where they began.
    pub x0: Vec<usize>,
    /// What became of them.
    pub x1: Vec<usize>,
}

impl Coupling {
    /// No pairs of sequences of `length` with `carried` behind them.
    pub fn empty(length: usize, carried: usize) -> Self {
        Self {
            length: length + carried,
            carried,
            x0: Vec::new(),
            x1: Vec::new(),
        }
    }

    /// The pairs with numbers from `first` to `end` of a network's sampler, in batches of `batch`,
    /// with `done` told how many there are after each. A pair depends on its number and the seed; `labels`
    /// are given in turn, if there are any.
    pub fn generate<T: Real, N: Network<T>>(
        network: &N,
        (path, grid): (&Path, &Grid),
        (length, carried, labels): (usize, usize, &[usize]),
        (numbers, batch): (Range<usize>, usize),
        seed: u64,
        mut done: impl FnMut(usize),
    ) -> Self {
        let mut coupling = Self::empty(length, carried + usize::from(!labels.is_empty()));
        // A denoiser's prediction, whose times are those of the steps' starts.
        let decoding = Decoding {
            steps: false,
            latent: Latent {
                carried,
                stays: true,
            },
            ..Decoding::default()
        };
        for first in numbers.clone().step_by(batch) {
            let here = (first as u64, batch.min(numbers.end - first));
            let state = State::carrying(path, here, (length, carried), seed);
            let mut state = state.labelled(labels);
            coupling.x0.extend_from_slice(&state.x);
            sample(network, path, grid, &decoding, &mut state, seed, |_, _| {});
            coupling.x1.extend_from_slice(&state.x);
            done(first - numbers.start + here.1);
        }
        coupling
    }

    /// Pairs.
    pub fn len(&self) -> usize {
        self.x0.len() / self.length.max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.x0.is_empty()
    }

    /// As many pairs as `pairs` has, drawn with an address, between source and data.
    pub fn drawn(
        &self,
        path: &Path,
        pairs: &[crate::objective::Pair],
        address: (u64, u64),
    ) -> Examples {
        let (seed, step) = address;
        let mut rng = Key::new(seed, Purpose::Corpus).at(step, 0);
        let numbers: Vec<usize> = pairs.iter().map(|_| index(&mut rng, self.len())).collect();
        self.examples(path, &numbers, pairs, address)
    }

    /// The pairs with these numbers, between source and data at `pairs`.
    pub fn examples(
        &self,
        path: &Path,
        numbers: &[usize],
        pairs: &[crate::objective::Pair],
        address: (u64, u64),
    ) -> Examples {
        let pick = |of: &[usize]| -> Vec<usize> {
            let one = |&n: &usize| of[n * self.length..(n + 1) * self.length].to_vec();
            numbers.iter().flat_map(one).collect()
        };
        let ends = (&pick(&self.x0)[..], &pick(&self.x1)[..]);
        Examples::between(path, ends, self.carried, pairs, address)
    }
}

/// `E_{x_0} TC(pi(. | x_0))` in nats, for sources of law `p0` and the rows `pi(x_0, .)` over the
/// states of `space`.
pub fn conditional_total_correlation<'a>(
    space: &Space,
    p0: &[f64],
    rows: impl Fn(usize) -> &'a [f64],
) -> f64 {
    let weighed = |(x0, &mass): (usize, &f64)| match mass > 0.0 {
        true => mass * total_correlation(space, rows(x0)),
        false => 0.0,
    };
    p0.iter().enumerate().map(weighed).sum()
}

/// An estimated conditional total correlation, in nats.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Correlation {
    /// From frequencies, mean over the sources.
    pub plug_in: f64,
    /// The same of walks with symbols exchanged among them at each position.
    pub exchanged: f64,
    /// Sources.
    pub sources: usize,
    /// Walks from each.
    pub walks: usize,
}

/// The conditional total correlation of a network's sampler from `walks` walks of each of `sources`
/// sources, estimated. A latent that stays is part of the source, and so is a label, of which they are given
/// `labels` in turn.
pub fn plug_in<T: Real, N: Network<T>>(
    network: &N,
    (path, grid, decoding): (&Path, &Grid, &Decoding),
    (length, labels): (usize, &[usize]),
    (sources, walks): (usize, usize),
    seed: u64,
) -> Correlation {
    let (mut found, mut exchanged) = (0.0, 0.0);
    let key = Key::new(seed, Purpose::Check);
    for first in (0..sources).step_by(PLUG_IN_BATCH) {
        let here = (first as u64, PLUG_IN_BATCH.min(sources - first));
        let ends: Vec<Vec<usize>> = (0..walks as u64)
            .map(|walk| {
                let sizes = (length, decoding.latent.carried);
                let mut state = State::carrying(path, here, sizes, seed).labelled(labels);
                let walk = seed.wrapping_add(walk + 1);
                sample(network, path, grid, decoding, &mut state, walk, |_, _| {});
                state.sequences().flatten().copied().collect()
            })
            .collect();
        for i in 0..here.1 {
            let of = |end: &Vec<usize>| end[i * length..(i + 1) * length].to_vec();
            let mut x: Vec<Vec<usize>> = ends.iter().map(of).collect();
            found += sample_correlation(&x);
            let mut rng = key.at(here.0, i as u64);
            for d in 0..length {
                for last in (1..walks).rev() {
                    let other = index(&mut rng, last + 1);
                    let symbol = x[last][d];
                    x[last][d] = x[other][d];
                    x[other][d] = symbol;
                }
            }
            exchanged += sample_correlation(&x);
        }
    }
    Correlation {
        plug_in: found / sources as f64,
        exchanged: exchanged / sources as f64,
        sources,
        walks,
    }
}

/// Sources whose walks are made together.
const PLUG_IN_BATCH: usize = 64;

/// `sum_d H^(x^d) - H^(x)` by the frequencies in some sequences, in nats.
pub fn sample_correlation(sequences: &[Vec<usize>]) -> f64 {
    let length = sequences.first().map_or(0, Vec::len);
    let each = |d: usize| entropy(sequences.iter().map(|x| x[d]));
    (0..length).map(each).sum::<f64>() - entropy(sequences.iter())
}
