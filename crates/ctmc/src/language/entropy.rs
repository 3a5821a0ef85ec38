//! The exact laws of short stretches of a language, and how predictable it is.

use rayon::prelude::*;

use super::Language;
use crate::{
    Error, Matrix,
    random::{Key, Purpose},
};

/// Most entries of a table of stretches: 128 megabytes.
const MAX_STRETCHES: usize = 1 << 24;

impl Language {
    /// The stationary law of one symbol, `[S]`.
    pub fn unigram(&self) -> Vec<f64> {
        self.stretches(self.stationary(), 1)
    }

    /// The stationary law of two successive symbols, `[S, S]`.
    pub fn bigram(&self) -> Vec<f64> {
        self.stretches(self.stationary(), 2)
    }

    /// The stationary law of two symbols `gap` positions apart, `[S, S]`.
    pub fn skipgram(&self, gap: usize) -> Vec<f64> {
        let (symbols, states) = (self.symbols(), self.states());
        let stationary = self.stationary();
        let mut table = Matrix::zeros(symbols, states);
        for (i, p) in table.data_mut().iter_mut().enumerate() {
            let z = i % states;
            *p = stationary[z] * self.emission.at(z, i / states);
        }
        for _ in 0..gap {
            table = table.product(&self.transition);
        }
        table.product(&self.emission).into_data()
    }

    /// The stationary law of three successive symbols, `[S, S, S]`, if that fits.
    pub fn trigram(&self) -> Result<Vec<f64>, Error> {
        self.check_stretches(3)?;
        Ok(self.stretches(self.stationary(), 3))
    }

    /// Bounds of the entropy rate in nats a symbol, lower and upper, from all stretches of `n`
    /// symbols of the stationary language: `H(X_n | X_1 .. X_{n-1}, Z_1)` and
    /// `H(X_n | X_1 .. X_{n-1})`. They close in on the rate as `n` grows.
    ///
    /// The upper bound is the best that a model with a context of `n - 1` symbols can reach.
    pub fn entropy_rate_bounds(&self, n: usize) -> Result<(f64, f64), Error> {
        if n < 1 {
            return Err(Error::range("the length of a stretch", n, "at least 1"));
        }
        self.check_stretches(n)?;
        let last = |law: Vec<f64>| {
            let shorter: Vec<f64> = law
                .chunks_exact(self.symbols())
                .map(|c| c.iter().sum())
                .collect();
            entropy(&law) - entropy(&shorter)
        };
        let stationary = self.stationary();
        let upper = last(self.stretches(stationary.clone(), n));
        let lower = (0..self.states())
            .map(|z| {
                let mut start = vec![0.0; self.states()];
                start[z] = 1.0;
                stationary[z] * last(self.stretches(start, n))
            })
            .sum();
        Ok((lower, upper))
    }

    /// The entropy of sequences of this length in nats a symbol, `E[-ln p(x)]/D`, estimated from
    /// `samples` of them: mean and standard error. No model has a lower expected loss.
    pub fn entropy(&self, length: usize, samples: usize, seed: u64) -> (f64, f64) {
        self.surprise(length, samples, seed, 0)
    }

    /// The entropy rate `lim H(X_1 .. X_D)/D` in nats a symbol, estimated from the later half of
    /// the positions of `samples` sequences: mean and standard error.
    ///
    /// There the start is forgotten, which otherwise adds a term in `1/D`; what is left of the
    /// bias is between the bounds of [`entropy_rate_bounds`](Self::entropy_rate_bounds) for
    /// `n = D/2`.
    pub fn entropy_rate(&self, length: usize, samples: usize, seed: u64) -> (f64, f64) {
        self.surprise(length, samples, seed, length / 2)
    }

    /// Mean and standard error of `-ln p(x^d | x^{<d})` over the positions from `first` on.
    fn surprise(&self, length: usize, samples: usize, seed: u64, first: usize) -> (f64, f64) {
        let key = Key::new(seed, Purpose::Check);
        let means: Vec<f64> = (0..samples as u64)
            .into_par_iter()
            .map(|i| {
                let x = self.sample(length, &mut key.at(0, i));
                let later = &self.conditionals(&x)[first..];
                -later.iter().sum::<f64>() / later.len() as f64
            })
            .collect();
        let n = samples as f64;
        let mean = means.iter().sum::<f64>() / n;
        let squares: f64 = means.iter().map(|m| (m - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0) / n).sqrt())
    }

    /// The law of the first `n` symbols from the law `start` of the state, first symbol most
    /// significant. The rows of a table are `p(x_1 .. x_k, z_{k+1} = .)`.
    fn stretches(&self, start: Vec<f64>, n: usize) -> Vec<f64> {
        let (symbols, states) = (self.symbols(), self.states());
        let mut table = Matrix::from_data(1, states, start);
        for _ in 1..n {
            let mut seen = Matrix::zeros(table.rows() * symbols, states);
            for (i, row) in seen.data_mut().chunks_exact_mut(states).enumerate() {
                let before = table.row(i / symbols);
                for (z, p) in row.iter_mut().enumerate() {
                    *p = before[z] * self.emission.at(z, i % symbols);
                }
            }
            table = seen.product(&self.transition);
        }
        table.product(&self.emission).into_data()
    }

    fn check_stretches(&self, n: usize) -> Result<(), Error> {
        let symbols = self.symbols();
        let entries = u32::try_from(n).ok().and_then(|n| symbols.checked_pow(n));
        match entries {
            Some(entries) if entries <= MAX_STRETCHES => Ok(()),
            _ => Err(Error::TooManyStates {
                symbols,
                coords: n,
                limit: MAX_STRETCHES,
            }),
        }
    }
}

/// `-sum p ln p`.
fn entropy(law: &[f64]) -> f64 {
    let terms = law.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln());
    terms.sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{by_paths, unsettled};
    use super::*;
    use crate::Space;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn laws_of_stretches_are_those_of_enumeration(
            seed in any::<u64>(), symbols in 2..5usize, states in 1..4usize,
        ) {
            let mut language = unsettled(symbols, states, seed);
            language.initial = language.stationary();
            let laws = [language.unigram(), language.bigram(), language.trigram().unwrap()];
            for (n, law) in laws.iter().enumerate() {
                let space = Space::new(symbols, n + 1).unwrap();
                prop_assert_eq!(space.len(), law.len());
                for (x, p) in law.iter().enumerate() {
                    let exact = by_paths(&language, &space.decode(x));
                    prop_assert!((p - exact).abs() < 1e-13);
                }
            }
        }

        #[test]
        fn bounds_close_in(seed in any::<u64>()) {
            let language = unsettled(3, 3, seed);
            let bounds: Vec<_> = (1..8).map(|n| language.entropy_rate_bounds(n).unwrap()).collect();
            for pair in bounds.windows(2) {
                prop_assert!(pair[0].0 <= pair[1].0 + 1e-12 && pair[1].1 <= pair[0].1 + 1e-12);
                prop_assert!(pair[1].0 <= pair[1].1 + 1e-12);
            }
        }
    }

    #[test]
    fn estimates_agree_with_enumeration() {
        let language = unsettled(3, 2, 4);
        let (lower, upper) = language.entropy_rate_bounds(12).unwrap();
        assert!(upper - lower < 1e-3, "{lower} to {upper}");
        let (rate, error) = language.entropy_rate(200, 2000, 1);
        assert!(error < 2e-3, "{error}");
        assert!(
            rate > lower - 4.0 * error && rate < upper + 4.0 * error,
            "{rate} +- {error}"
        );
        let space = Space::new(3, 6).unwrap();
        let law: Vec<f64> = (0..space.len())
            .map(|x| by_paths(&language, &space.decode(x)))
            .collect();
        let (mean, error) = language.entropy(6, 20_000, 2);
        assert!(
            (mean - entropy(&law) / 6.0).abs() < 4.0 * error,
            "{mean} +- {error}"
        );
    }

    /// How predictable the default language over 64 symbols is, in nats; `ln 64 = 4.16`.
    ///
    /// | states | seed | one symbol | given one | given two | rate |
    /// |---|---|---|---|---|---|
    /// | 32 | 0 | 3.46 | 2.33 | 1.96 | 1.87 |
    /// | 32 | 1 | 3.59 | 2.35 | 2.02 | 1.95 |
    /// | 64 | 0 | 3.80 | 2.80 | 2.26 | 2.08 |
    /// | 64 | 1 | 3.90 | 2.85 | 2.27 | 2.08 |
    /// | 128 | 0 | 4.00 | 3.13 | 2.37 | 2.03 |
    #[test]
    fn the_default_language_takes_context_to_predict() {
        for states in [32, 64] {
            for seed in 0..3 {
                let language = Language::default_with(64, states, seed).unwrap();
                let one = entropy(&language.unigram());
                let (_, two) = language.entropy_rate_bounds(2).unwrap();
                let (rate, error) = language.entropy_rate(512, 64, seed);
                assert!(error < 0.02, "{error}");
                assert!(one > rate + 1.3 && two > rate + 0.3, "{one} {two} {rate}");
            }
        }
    }

    /// Two symbols from each of 40,000 independent sequences against the stationary law.
    #[test]
    fn samples_follow_the_bigram_law() {
        let language = unsettled(4, 3, 8);
        let law = language.bigram();
        let key = Key::new(9, Purpose::Data);
        let n = 40_000;
        let mut counts = [0u32; 16];
        for i in 0..n {
            let x = language.sample(30, &mut key.at(0, i));
            counts[4 * x[28] + x[29]] += 1;
        }
        let chi: f64 = law
            .iter()
            .zip(counts)
            .map(|(p, c)| (f64::from(c) - p * n as f64).powi(2) / (p * n as f64))
            .sum();
        // The 0.9999 quantile for 15 degrees of freedom.
        assert!(chi < 44.3, "chi-square {chi}, counts {counts:?}");
    }

    /// Neighbours are one apart; two apart is what a stretch of three says of its ends.
    #[test]
    fn skipgrams_are_stretches_with_the_middle_summed_out() {
        let language = unsettled(4, 3, 8);
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-15);
        assert!(close(&language.skipgram(1), &language.bigram()));
        let three = language.trigram().unwrap();
        let mut ends = vec![0.0; 16];
        for (i, p) in three.iter().enumerate() {
            ends[i / 16 * 4 + i % 4] += p;
        }
        assert!(close(&language.skipgram(2), &ends));
    }

    #[test]
    fn too_long_stretches_are_refused() {
        let language = Language::default_with(300, 2, 0).unwrap();
        let message = language.trigram().unwrap_err().to_string();
        assert!(message.contains("300^3"), "{message}");
        assert!(language.entropy_rate_bounds(0).is_err());
        assert!(language.entropy_rate_bounds(usize::MAX).is_err());
    }
}
