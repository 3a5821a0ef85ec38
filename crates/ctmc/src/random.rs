//! Randomness by address, not by stream.
//!
//! A generator is keyed by (seed, purpose) and positioned by (step, example), so that a draw
//! depends on what it is for and not on what was drawn before: the same seed gives the same
//! result whatever the thread count, the batch layout or a resume in between.

pub use rand::{Rng, rngs::ChaCha8Rng};
use rand::{RngExt, SeedableRng};

/// What a draw is for. Different purposes never share random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The perturbation or parameters of a target law.
    Target = 1,
    /// Initial network parameters.
    Init = 2,
    /// Times `t` and pairs `(t, r)`.
    Time = 3,
    /// Data and its corruption.
    Data = 4,
    /// Jumps `(e, s)` of the transport estimator.
    Jump = 5,
    /// Instances of numerical checks.
    Check = 6,
    /// Generated sequences.
    Sample = 7,
    /// Sequences of a language.
    Corpus = 8,
    /// Steps of a teacher.
    Teacher = 9,
    /// Latents of a mixture.
    Latent = 10,
}

/// A family of generators for one seed and purpose.
#[derive(Clone, Debug)]
pub struct Key {
    seed: [u8; 32],
}

impl Key {
    /// The key of `(seed, purpose)`.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        Self { seed: bytes }
    }

    /// The generator at an address: 2^36 words apart for different examples.
    pub fn at(&self, step: u64, example: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::from_seed(self.seed);
        rng.set_stream(step);
        rng.set_word_pos(u128::from(example as u32) << 36);
        rng
    }
}

/// Uniform on `[0, 1)`.
pub fn uniform(rng: &mut impl Rng) -> f64 {
    rng.random::<f64>()
}

/// Uniform on `0..n`.
pub fn index(rng: &mut impl Rng, n: usize) -> usize {
    rng.random_range(0..n)
}

/// `count` different numbers below `n`, each order as likely as every other.
pub fn distinct(rng: &mut impl Rng, count: usize, n: usize) -> Vec<usize> {
    rand::seq::index::sample(rng, n, count).into_vec()
}

/// Standard normal.
pub fn normal(rng: &mut impl Rng) -> f64 {
    rng.sample(rand_distr::StandardNormal)
}

/// An index with probability proportional to `weights`, exactly: the inverse of the cumulative
/// sum in f64. The weights must be non-negative with a positive sum.
pub fn categorical(rng: &mut impl Rng, weights: &[f64]) -> usize {
    quantile(weights, uniform(rng))
}

/// The index at `level` in `[0, 1)` of the cumulative sum of `weights`.
pub fn quantile(weights: &[f64], level: f64) -> usize {
    let total: f64 = weights.iter().sum();
    let u = level * total;
    let mut sum = 0.0;
    let mut last = 0;
    for (i, &w) in weights.iter().enumerate() {
        if w > 0.0 {
            sum += w;
            last = i;
            if u < sum {
                return i;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_value() {
        let draw = |seed, purpose, step, example| {
            uniform(&mut Key::new(seed, purpose).at(step, example)).to_bits()
        };
        let here = draw(7, Purpose::Time, 3, 5);
        assert_eq!(here, draw(7, Purpose::Time, 3, 5));
        for other in [
            draw(8, Purpose::Time, 3, 5),
            draw(7, Purpose::Data, 3, 5),
            draw(7, Purpose::Time, 4, 5),
            draw(7, Purpose::Time, 3, 6),
        ] {
            assert_ne!(here, other);
        }
    }

    /// Chi-square of 200,000 draws against the weights, five degrees of freedom.
    #[test]
    fn categorical_draws_follow_the_weights() {
        let weights = [0.5, 0.0, 3.0, 0.001, 1.0, 0.25, 2.0];
        let n = 200_000;
        let mut counts = [0usize; 7];
        let key = Key::new(1, Purpose::Check);
        for i in 0..n {
            counts[categorical(&mut key.at(0, i), &weights)] += 1;
        }
        assert_eq!(counts[1], 0);
        let total: f64 = weights.iter().sum();
        let chi: f64 = weights
            .iter()
            .zip(counts)
            .filter(|(w, _)| **w > 0.0)
            .map(|(w, c)| {
                let expected = w / total * n as f64;
                (c as f64 - expected).powi(2) / expected
            })
            .sum();
        // The 0.9999 quantile.
        assert!(chi < 25.7, "chi-square {chi}, counts {counts:?}");
    }
}
