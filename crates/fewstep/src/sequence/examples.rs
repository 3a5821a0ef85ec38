//! Corrupted sequences: `x_t ~ p_{t|1}(. | x_1)` at the pairs of a training step.

use fewstep_ctmc::{
    Path,
    random::{ChaCha8Rng, Key, Purpose, index, uniform},
};
use fewstep_nn::Batch;

use crate::objective::Pair;

/// A symbol of the path's source.
pub fn noise(path: &Path, rng: &mut ChaCha8Rng) -> usize {
    match (path.mask(), path.mask_symbol()) {
        (Some(mask), _) => mask,
        (None, Some(mask)) if uniform(rng) < path.source(0, mask) => mask,
        _ => index(rng, path.symbols()),
    }
}

/// Corrupted sequences, those with a step to correct first.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// Positions `L`, those that carry a latent included.
    pub length: usize,
    /// The last positions, which carry a class or a latent: given, never noisy, never predicted.
    pub carried: usize,
    /// The first of these, which were [given](Self::giving): a class, which any network may know.
    pub given: usize,
    /// Data `[B, L]`.
    pub x1: Vec<usize>,
    /// States `[B, L]`.
    pub x: Vec<usize>,
    /// The pair of each.
    pub pairs: Vec<Pair>,
    /// What each counts.
    pub weights: Vec<f64>,
    /// The first sequences, whose steps are not empty.
    pub moving: usize,
    t: Vec<f64>,
    r: Vec<f64>,
}

impl Examples {
    /// Replaces each coordinate of `x1 [B, L]` by noise with probability `1 - kappa_t`. Randomness
    /// is addressed by `(seed, step, example)`, whatever the order.
    pub fn corrupt(path: &Path, x1: &[usize], pairs: &[Pair], (seed, step): (u64, u64)) -> Self {
        assert!(path.fixed_coords().is_none(), "masked or uniform noise");
        Self::build(
            (path, x1, pairs),
            (seed, step),
            |_, kappa, symbol, rng| match uniform(rng) < kappa {
                true => symbol,
                false => noise(path, rng),
            },
        )
    }

    /// Between a given source and its data, both `[B, L]`: each coordinate shows `x1` if its switch
    /// time has come, `kappa_t` being the chance of it. The switch times are addressed by
    /// `(seed, step, example)` alone, so two calls at different times give two points of the same
    /// trajectories. The last `carried` coordinates are the source's at all times.
    pub fn between(
        path: &Path,
        (x0, x1): (&[usize], &[usize]),
        carried: usize,
        pairs: &[Pair],
        address: (u64, u64),
    ) -> Self {
        assert_eq!(x0.len(), x1.len(), "a source for each coordinate");
        let length = x1.len() / pairs.len();
        let mut examples = Self::build((path, x1, pairs), address, |at, kappa, symbol, rng| {
            let switched = uniform(rng) < kappa;
            if switched && at % length < length - carried {
                symbol
            } else {
                x0[at]
            }
        });
        examples.carried = carried;
        examples
    }

    /// The same with the last `given` coordinates as they are in the data: what a sequence is asked
    /// to be, which is known at all times.
    pub fn giving(mut self, given: usize) -> Self {
        let length = self.length;
        for row in (0..self.x.len()).filter(|row| row % length >= length - given) {
            self.x[row] = self.x1[row];
        }
        self.carried += given;
        self.given += given;
        self
    }

    /// Sequences that show `x` at given times without steps, both `[B, L]`.
    pub fn shown(path: &Path, (x1, x): (&[usize], &[usize]), pairs: &[Pair]) -> Self {
        assert_eq!(x.len(), x1.len(), "a state for each coordinate");
        Self::build((path, x1, pairs), (0, 0), |at, _, _, _| x[at])
    }

    /// The same with `carried` uniform symbols behind each sequence.
    pub fn carrying(self, (path, carried): (&Path, usize), (seed, step): (u64, u64)) -> Self {
        if carried == 0 {
            return self;
        }
        let mut rng = Key::new(seed, Purpose::Latent).at(step, 0);
        let (mut x, mut x1) = (Vec::new(), Vec::new());
        let sequences = self.x.chunks(self.length).zip(self.x1.chunks(self.length));
        for (state, data) in sequences {
            let latent: Vec<usize> = (0..carried)
                .map(|_| index(&mut rng, path.symbols()))
                .collect();
            x.extend([state, &latent].concat());
            x1.extend([data, &latent].concat());
        }
        Self {
            length: self.length + carried,
            carried: self.carried + carried,
            x,
            x1,
            ..self
        }
    }

    /// `state(place, kappa, data symbol, generator)` is what a coordinate shows.
    fn build(
        (path, x1, pairs): (&Path, &[usize], &[Pair]),
        (seed, step): (u64, u64),
        state: impl Fn(usize, f64, usize, &mut ChaCha8Rng) -> usize,
    ) -> Self {
        assert!(!pairs.is_empty(), "sequences");
        assert!(x1.len().is_multiple_of(pairs.len()), "whole sequences");
        let length = x1.len() / pairs.len();
        let key = Key::new(seed, Purpose::Data);
        let still = |i: &usize| pairs[*i].r <= pairs[*i].t;
        let (at_rest, moving): (Vec<usize>, Vec<usize>) = (0..pairs.len()).partition(still);
        let mut examples = Self {
            length,
            carried: 0,
            given: 0,
            x1: Vec::with_capacity(x1.len()),
            x: Vec::with_capacity(x1.len()),
            pairs: Vec::new(),
            weights: vec![1.0; pairs.len()],
            moving: moving.len(),
            t: Vec::new(),
            r: Vec::new(),
        };
        for i in moving.into_iter().chain(at_rest) {
            let mut rng = key.at(step, i as u64);
            let kappa = path.schedule().kappa(pairs[i].t);
            for at in i * length..(i + 1) * length {
                examples.x1.push(x1[at]);
                examples.x.push(state(at, kappa, x1[at], &mut rng));
            }
            examples.pairs.push(pairs[i]);
            examples.t.push(pairs[i].t);
            examples.r.push(pairs[i].r);
        }
        examples
    }

    /// With what each counts, in the order of the pairs, none of which has a step.
    pub fn weighing(mut self, weights: Vec<f64>) -> Self {
        assert_eq!((self.moving, self.weights.len()), (0, weights.len()));
        self.weights = weights;
        self
    }

    /// Coordinates that are predicted: those that carry a latent do not count.
    pub fn coordinates(&self) -> usize {
        self.pairs.len() * (self.length - self.carried)
    }

    /// The first sequences as a batch.
    pub fn first(&self, sequences: usize) -> Batch<'_> {
        Batch {
            x: &self.x[..sequences * self.length],
            t: &self.t[..sequences],
            r: &self.r[..sequences],
        }
    }

    /// All of them.
    pub fn all(&self) -> Batch<'_> {
        self.first(self.t.len())
    }

    /// The coordinates that can still move: on the masked path the masked ones.
    pub fn active(&self, path: &Path) -> Vec<usize> {
        let moves = |row: &usize| {
            let predicted = row % self.length < self.length - self.carried;
            predicted && path.mask().is_none_or(|mask| self.x[*row] == mask)
        };
        (0..self.x.len()).filter(moves).collect()
    }
}
