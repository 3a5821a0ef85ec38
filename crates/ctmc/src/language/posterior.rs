//! The exact denoiser of a language.

use super::{Language, matrix_times, multiply, normalise, times_matrix};
use crate::{Level, Path};

impl Language {
    /// `p(x^d = s | evidence) ~ sum_{x: x^d = s} p(x) prod_e w_e(x^e)` for all positions and
    /// symbols, by forward-backward in `O(D H (H + S))`. `evidence(d, s)` is `w_d(s)`, the
    /// likelihood of what is known of position `d` if it holds `s`; `out` is `[length, S]`.
    ///
    /// Returns the logarithm of the evidence, `ln sum_x p(x) prod_d w_d(x^d)`. If no sequence agrees
    /// with it that is `-inf`, and `out` is zero.
    pub fn posterior(
        &self,
        evidence: impl Fn(usize, usize) -> f64,
        length: usize,
        out: &mut [f64],
    ) -> f64 {
        let symbols = self.symbols();
        assert_eq!(out.len(), length * symbols, "entries of the posterior");
        for (d, row) in out.chunks_exact_mut(symbols).enumerate() {
            for (s, w) in row.iter_mut().enumerate() {
                *w = evidence(d, s);
            }
        }
        let (log_evidence, cavities) = self.cavities(length, |d, local| {
            matrix_times(&self.emission, &out[d * symbols..(d + 1) * symbols], local);
        });
        let mut prior = vec![0.0; symbols];
        let cavities = cavities.chunks_exact(self.states());
        for (row, cavity) in out.chunks_exact_mut(symbols).zip(cavities) {
            times_matrix(cavity, &self.emission, &mut prior);
            multiply(row, &prior);
            normalise(row);
        }
        log_evidence
    }

    /// The exact denoiser `p_{1|t}(x_1^d = s | x_t = x)` of a path at a noise level: the
    /// [`posterior`](Self::posterior) given [`Path::likelihood_at`]. `out` is `[D, S]`.
    ///
    /// The likelihood of a noised symbol takes two values, so that its sum over the emissions of
    /// a state is `floor + (peak - floor) B(z, x^d)`, and a position that must be data costs
    /// nothing more. The result is the logarithm of the evidence, as there.
    pub fn denoise(&self, path: &Path, level: Level, x: &[usize], out: &mut [f64]) -> f64 {
        let symbols = self.symbols();
        assert_eq!(path.symbols(), symbols, "symbols of the path");
        assert_eq!(out.len(), x.len() * symbols, "entries of the posterior");
        let spikes: Vec<Spike> = x
            .iter()
            .enumerate()
            .map(|(d, &x)| Spike::new(path, level, d, x))
            .collect();
        let (log_evidence, cavities) = self.cavities(x.len(), |d, local| {
            let Spike { at, peak, floor } = spikes[d];
            self.column(at, local);
            for b in local {
                *b = floor + (peak - floor) * *b;
            }
        });
        let rows = out.chunks_exact_mut(symbols).zip(&spikes);
        for ((row, spike), cavity) in rows.zip(cavities.chunks_exact(self.states())) {
            if spike.floor == 0.0 && log_evidence > f64::NEG_INFINITY {
                row.fill(0.0);
                row[spike.at] = 1.0;
            } else {
                times_matrix(cavity, &self.emission, row);
                let peak = spike.peak * row[spike.at];
                row.iter_mut().for_each(|p| *p *= spike.floor);
                row[spike.at] = peak;
                normalise(row);
            }
        }
        log_evidence
    }

    /// For each position the law of its state given the evidence everywhere else, up to a factor,
    /// `[length, H]`, and the logarithm of all evidence. `local(d, b)` sets `b(z)` to the
    /// likelihood of the evidence at `d` in state `z`.
    ///
    /// Forward, `f_{d+1} ~ (f_d b_d) A`; backward, `g_{d-1} ~ A (b_d g_d)`; the cavity is `f_d g_d`.
    /// Messages are scaled to sum one, so that nothing underflows at any length.
    fn cavities(&self, length: usize, local: impl Fn(usize, &mut [f64])) -> (f64, Vec<f64>) {
        let states = self.states();
        let mut locals = vec![0.0; length * states];
        let mut cavities = vec![0.0; length * states];
        let mut message = self.initial.clone();
        let mut product = vec![0.0; states];
        let mut log_evidence = 0.0;
        let fs = cavities.chunks_exact_mut(states);
        for (d, (f, b)) in fs.zip(locals.chunks_exact_mut(states)).enumerate() {
            local(d, b);
            f.copy_from_slice(&message);
            product.copy_from_slice(b);
            multiply(&mut product, f);
            log_evidence += normalise(&mut product).ln();
            times_matrix(&product, &self.transition, &mut message);
        }
        message.fill(1.0);
        let fs = cavities.chunks_exact_mut(states);
        for (f, b) in fs.zip(locals.chunks_exact_mut(states)).rev() {
            multiply(f, &message);
            multiply(b, &message);
            matrix_times(&self.transition, b, &mut message);
            normalise(&mut message);
        }
        (log_evidence, cavities)
    }
}

/// The likelihood of one noised symbol: `peak` if the data symbol is `at`, else `floor`.
struct Spike {
    at: usize,
    peak: f64,
    floor: f64,
}

impl Spike {
    fn new(path: &Path, level: Level, d: usize, x: usize) -> Self {
        let (symbols, known) = (path.symbols(), path.state_symbols());
        assert!(x < known, "symbol {x} of {known}");
        // All data symbols explain a mask equally well.
        let at = if x < symbols { x } else { 0 };
        Self {
            at,
            peak: path.likelihood_at(level, d, x, at),
            floor: path.likelihood_at(level, d, x, (at + 1) % symbols),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{by_paths, unsettled};
    use super::*;
    use crate::{
        Matrix, Process, Schedule, Source, Space,
        random::{Key, Purpose, index},
    };
    use proptest::prelude::*;

    /// The posterior and the evidence by enumeration of all data.
    fn brute(
        language: &Language,
        length: usize,
        evidence: impl Fn(usize, usize) -> f64,
    ) -> (f64, Vec<f64>) {
        let symbols = language.symbols();
        let space = Space::new(symbols, length).unwrap();
        let mut out = vec![0.0; length * symbols];
        let mut total = 0.0;
        for state in 0..space.len() {
            let x = space.decode(state);
            let weights = x.iter().enumerate().map(|(d, &s)| evidence(d, s));
            let p = by_paths(language, &x) * weights.product::<f64>();
            x.iter()
                .enumerate()
                .for_each(|(d, s)| out[d * symbols + s] += p);
            total += p;
        }
        out.iter_mut().for_each(|p| *p /= total);
        (total, out)
    }

    fn paths(symbols: usize, length: usize) -> Vec<Path> {
        let mut row = vec![1.0 / (symbols - 1) as f64; symbols];
        row[0] = 0.0;
        [
            Process::Mixture(Source::Masked),
            Process::Mixture(Source::Uniform),
            Process::UniformState,
            Process::Mixture(Source::Custom(vec![row; length])),
        ]
        .map(|process| Path::new(Schedule::Cosine, process, symbols).unwrap())
        .to_vec()
    }

    fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < tolerance, "{a} against {b}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn posteriors_are_those_of_enumeration(
            seed in any::<u64>(), symbols in 2..4usize, states in 1..4usize, length in 1..5usize,
            t in 0.01..0.99f64,
        ) {
            let language = unsettled(symbols, states, seed);
            let mut rng = Key::new(seed, Purpose::Check).at(1, 0);
            let mut out = vec![0.0; length * symbols];
            for path in paths(symbols, length) {
                let n = path.state_symbols();
                let random: Vec<usize> = (0..length).map(|_| index(&mut rng, n)).collect();
                for x in [random, vec![n - 1; length]] {
                    for t in [0.0, t, 1.0 - 1e-12, 1.0] {
                        let level = path.schedule().level(t);
                        let w = |d: usize, s| path.likelihood_at(level, d, x[d], s);
                        let (total, exact) = brute(&language, length, w);
                        let log = language.posterior(w, length, &mut out);
                        assert_close(&out, &exact, 1e-10);
                        prop_assert!((log - total.ln()).abs() < 1e-10 * (1.0 + log.abs()));
                        let fast = language.denoise(&path, level, &x, &mut out);
                        assert_close(&out, &exact, 1e-10);
                        prop_assert!((fast - log).abs() < 1e-10 * (1.0 + log.abs()));
                    }
                }
            }
        }

        /// Weights of no structure, and of scales that a product over positions would not hold.
        #[test]
        fn any_evidence_will_do(seed in any::<u64>(), scale in -200..200i32) {
            let language = unsettled(3, 3, seed);
            let key = Key::new(seed, Purpose::Check);
            let w = |d: usize, s: usize| crate::random::uniform(&mut key.at(d as u64, s as u64));
            let (total, exact) = brute(&language, 4, w);
            let mut out = vec![0.0; 12];
            let factor = 10f64.powi(scale);
            let log = language.posterior(|d, s| factor * w(d, s), 4, &mut out);
            assert_close(&out, &exact, 1e-10);
            prop_assert!((log - total.ln() - 4.0 * factor.ln()).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_known_gives_the_marginal_law() {
        let language = Language::default_with(9, 6, 3).unwrap();
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Masked), 9).unwrap();
        let mut out = vec![0.0; 9 * 40];
        let log = language.denoise(&path, path.schedule().level(0.4), &[9; 40], &mut out);
        assert!(log.abs() < 1e-12);
        // The language starts from its stationary law.
        for row in out.chunks_exact(9) {
            assert_close(row, &language.unigram(), 1e-12);
        }
    }

    /// A long sequence: data stay, and a hole between them is filled as the likelihoods say.
    #[test]
    fn one_hole_in_a_long_sequence() {
        let language = Language::default_with(16, 8, 1).unwrap();
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Masked), 16).unwrap();
        let mut x = language.sample(3000, &mut Key::new(1, Purpose::Data).at(0, 0));
        let hole = 1500;
        let ln_p: Vec<f64> = (0..16)
            .map(|s| {
                x[hole] = s;
                language.log_likelihood(&x)
            })
            .collect();
        x[hole] = 16;
        let mut out = vec![0.0; 16 * x.len()];
        let log = language.denoise(&path, path.schedule().level(0.5), &x, &mut out);
        let exact: Vec<f64> = ln_p.iter().map(|l| (l - log).exp()).collect();
        assert_close(&out[hole * 16..(hole + 1) * 16], &exact, 1e-8);
        for (d, row) in out.chunks_exact(16).enumerate().filter(|(d, _)| *d != hole) {
            assert_eq!(row[x[d]], 1.0);
            assert_eq!(row.iter().sum::<f64>(), 1.0);
        }
    }

    #[test]
    fn contradictory_evidence_has_no_posterior() {
        let swap = Matrix::from_data(2, 2, vec![0.0, 1.0, 1.0, 0.0]);
        let identity = Matrix::from_data(2, 2, vec![1.0, 0.0, 0.0, 1.0]);
        let language = Language::new(vec![0.5; 2], swap, identity).unwrap();
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Masked), 2).unwrap();
        let level = path.schedule().level(0.5);
        let mut out = [1.0; 6];
        let mut denoise = |x| (language.denoise(&path, level, x, &mut out), out);
        assert_eq!(denoise(&[0, 0, 2]), (f64::NEG_INFINITY, [0.0; 6]));
        let (log, filled) = denoise(&[2, 2, 1]);
        assert!((log - 0.5f64.ln()).abs() < 1e-15);
        assert_eq!(filled, [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    }
}
