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
//! training on it is no more than training on generated data; a latent that the sequence carries
//! (as [`di4c`](super::di4c) adds) gives the coupling something to hold on to.

use std::ops::Range;

use fewstep_ctmc::{
    Grid, Path, Space,
    divergence::total_correlation,
    random::{Key, Purpose, index},
};
use fewstep_nn::{Network, Real};

use crate::sequence::{
    Examples,
    sampler::{Decoding, Latent, State, sample},
};

/// Pairs of where sequences began and what became of them, `[M, L]` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coupling {
    /// Positions `L`, those that carry a latent included.
    pub length: usize,
    /// The last positions, which carry a latent.
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
    /// with `done` told how many there are after each. A pair depends on its number and the seed.
    pub fn generate<T: Real, N: Network<T>>(
        network: &N,
        (path, grid): (&Path, &Grid),
        (length, carried): (usize, usize),
        (numbers, batch): (Range<usize>, usize),
        seed: u64,
        mut done: impl FnMut(usize),
    ) -> Self {
        let mut coupling = Self::empty(length, carried);
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
            let mut state = State::carrying(path, here, (length, carried), seed);
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
