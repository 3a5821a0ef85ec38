//! The codebook: codes are moving averages of the vectors that choose them, and come back to life.
//!
//! After a step in which code `k` was chosen by `n_k` vectors of sum `s_k`,
//!
//! ```text
//! N_k <- g N_k + (1 - g) n_k      m_k <- g m_k + (1 - g) s_k      e_k = m_k / N_k
//! ```
//!
//! A code with `N_k` below a threshold is dead: no one has chosen it for long. It takes the place of a
//! vector of the batch, drawn in proportion to the squared distance from its nearest code (as k-means++
//! does), so that codes go where they are missing and not where most vectors are. All codes are dead at
//! first, so that is also how a codebook begins.

use fewstep_ctmc::random::{ChaCha8Rng, categorical};
use rayon::prelude::*;

use crate::Real;

/// What is kept of an average in a step. Codes must follow the encoder quickly: with 0.99 they lag so far
/// behind that kinds of patches fall together.
const DECAY: f64 = 0.95;
/// Chosen less often than this a step, a code is dead.
const DEAD: f64 = 0.01;
/// What a code that comes to life again counts.
const ALIVE: f64 = 1.0;
/// Vectors whose distances one thread computes at a time.
const ROWS: usize = 256;

/// The codes of a tokenizer, in the parameters.
#[derive(Debug)]
pub struct Codebook<'a, T> {
    /// `e [K, E]`.
    pub vectors: &'a mut [T],
    /// `N [K]`.
    pub counts: &'a mut [T],
    /// `m [K, E]`.
    pub sums: &'a mut [T],
}

impl<T: Real> Codebook<'_, T> {
    fn channels(&self) -> usize {
        self.vectors.len() / self.counts.len()
    }

    /// Lets dead codes take the place of vectors `z [N, E]`; how many did.
    pub fn revive(&mut self, z: &[T], rng: &mut ChaCha8Rng) -> usize {
        let e = self.channels();
        let dead = |k: &usize| self.counts[*k].widen() < DEAD;
        let dead: Vec<usize> = (0..self.counts.len()).filter(dead).collect();
        if dead.is_empty() || z.is_empty() {
            return 0;
        }
        // Dead codes are nobody's nearest.
        let alive: Vec<usize> = (0..self.counts.len())
            .filter(|k| dead.binary_search(k).is_err())
            .collect();
        let nearest = |row: &[T]| {
            let code = |&k: &usize| distance(row, &self.vectors[k * e..(k + 1) * e]);
            alive.iter().map(code).fold(f64::INFINITY, f64::min)
        };
        let mut apart: Vec<f64> = z.par_chunks_exact(e).map(nearest).collect();
        for &k in &dead {
            // With no code alive all are equally far; where none is away from its code, any will do.
            let flat = apart[0].is_infinite() || apart.iter().all(|d| *d <= 0.0);
            let chosen = match flat {
                true => categorical(rng, &vec![1.0; apart.len()]),
                false => categorical(rng, &apart),
            };
            let row = &z[chosen * e..(chosen + 1) * e];
            self.vectors[k * e..(k + 1) * e].copy_from_slice(row);
            self.sums[k * e..(k + 1) * e].copy_from_slice(row);
            self.counts[k] = T::of(ALIVE);
            let rows = apart.par_iter_mut().zip(z.par_chunks_exact(e));
            rows.with_min_len(ROWS)
                .for_each(|(apart, z)| *apart = apart.min(distance(z, row)));
        }
        dead.len()
    }

    /// Moves codes towards the vectors `z [N, E]` that chose them.
    pub fn follow(&mut self, z: &[T], codes: &[usize]) {
        let e = self.channels();
        let mut chosen = vec![0.0; self.counts.len()];
        let mut sums = vec![0.0; self.sums.len()];
        for (row, &k) in z.chunks_exact(e).zip(codes) {
            chosen[k] += 1.0;
            let sum = &mut sums[k * e..(k + 1) * e];
            sum.iter_mut().zip(row).for_each(|(s, z)| *s += z.widen());
        }
        let average = |old: T, new: f64| T::of(DECAY * old.widen() + (1.0 - DECAY) * new);
        for (k, &n) in chosen.iter().enumerate() {
            self.counts[k] = average(self.counts[k], n);
            let count = self.counts[k].widen().max(f64::MIN_POSITIVE);
            for i in k * e..(k + 1) * e {
                self.sums[i] = average(self.sums[i], sums[i]);
                self.vectors[i] = T::of(self.sums[i].widen() / count);
            }
        }
    }
}

/// `|a - b|^2`.
fn distance<T: Real>(a: &[T], b: &[T]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| (*a - *b).widen().powi(2)).sum()
}

/// The code nearest to each vector `[N, E]`, by squared distance; of equals the first.
pub(super) fn nearest<T: Real>(vectors: &[T], e: usize, z: &[T]) -> Vec<usize> {
    let one = |row: &[T]| {
        let apart = vectors.chunks_exact(e).map(|code| distance(row, code));
        let least = apart.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        least.map_or(0, |(k, _)| k)
    };
    z.par_chunks_exact(e).with_min_len(ROWS).map(one).collect()
}

/// `exp(H)` of how often codes were chosen: the number of codes that, equally frequent, would say as
/// much.
pub fn perplexity(counts: &[u64]) -> f64 {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    let shares = counts.iter().filter(|n| **n > 0).map(|&n| n as f64 / total);
    shares.map(|p| -p * p.ln()).sum::<f64>().exp()
}
