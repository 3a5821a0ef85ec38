//! Corrupted sequences: `x_t ~ p_{t|1}(. | x_1)` at the pairs of a training step.

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, index, uniform},
};
use fewstep_nn::Batch;

use crate::objective::Pair;

/// Corrupted sequences, those with a step to correct first.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    /// Positions `L`.
    pub length: usize,
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
        assert!(!pairs.is_empty(), "sequences");
        assert!(path.fixed_coords().is_none(), "masked or uniform noise");
        assert!(x1.len().is_multiple_of(pairs.len()), "whole sequences");
        let length = x1.len() / pairs.len();
        let key = Key::new(seed, Purpose::Data);
        let still = |i: &usize| pairs[*i].r <= pairs[*i].t;
        let (at_rest, moving): (Vec<usize>, Vec<usize>) = (0..pairs.len()).partition(still);
        let mut examples = Self {
            length,
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
            for &symbol in &x1[i * length..(i + 1) * length] {
                let noisy = uniform(&mut rng) >= kappa;
                examples.x1.push(symbol);
                examples.x.push(match (noisy, path.mask()) {
                    (false, _) => symbol,
                    (true, Some(mask)) => mask,
                    (true, None) => index(&mut rng, path.symbols()),
                });
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
        let moves = |row: &usize| path.mask().is_none_or(|mask| self.x[*row] == mask);
        (0..self.x.len()).filter(moves).collect()
    }
}
