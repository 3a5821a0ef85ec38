//! Fitting a language to sequences by expectation-maximisation (Baum-Welch).

use rayon::prelude::*;

use super::{
    Language, check_sizes, draw::dirichlet, matrix_times, multiply, normalise, times_matrix,
};
use crate::{
    Error, Matrix,
    random::{Key, Purpose},
};

/// What to fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Symbols `S` of the corpus.
    pub symbols: usize,
    /// Hidden states `H`.
    pub states: usize,
    /// Rounds of expectation and maximisation.
    pub iterations: usize,
    /// Added to every expected count: above zero, no sequence becomes impossible.
    pub smoothing: f64,
    /// Of the random start.
    pub seed: u64,
}

impl Fit {
    /// Fifty rounds with a smoothing of 0.01 from seed 0.
    pub fn new(symbols: usize, states: usize) -> Self {
        Self {
            symbols,
            states,
            iterations: 50,
            smoothing: 0.01,
            seed: 0,
        }
    }

    fn check(&self, corpus: &[impl AsRef<[usize]>]) -> Result<(), Error> {
        check_sizes(self.symbols, self.states)?;
        if !(self.smoothing.is_finite() && self.smoothing >= 0.0) {
            let range = "finite and at least 0";
            return Err(Error::range("the smoothing", self.smoothing, range));
        }
        let mut tokens = corpus.iter().flat_map(AsRef::as_ref);
        if let Some(symbol) = tokens.clone().find(|s| **s >= self.symbols) {
            let range = "below the number of symbols";
            return Err(Error::range("a symbol of the corpus", symbol, range));
        }
        if tokens.next().is_none() {
            let what = "the number of symbols in the corpus";
            return Err(Error::range(what, 0, "at least 1"));
        }
        Ok(())
    }
}

impl Language {
    /// Fits a language to a corpus of independent sequences. Returns it with the log-likelihood
    /// of the corpus in nats a symbol at the start and after each round; `progress` is shown
    /// each of them, with the number of rounds done.
    ///
    /// A round replaces each table by its expected counts, plus the smoothing `c`, normalised. It
    /// never lowers `ln p(corpus) + c sum ln(entries)`, which without smoothing is the likelihood.
    /// What it climbs to is a local optimum: of several seeds, the best trace tells the best fit.
    /// The result does not depend on the number of threads.
    pub fn fit<X: AsRef<[usize]> + Sync>(
        corpus: &[X],
        fit: Fit,
        mut progress: impl FnMut(usize, f64),
    ) -> Result<(Self, Vec<f64>), Error> {
        fit.check(corpus)?;
        let tokens: usize = corpus.iter().map(|x| x.as_ref().len()).sum();
        let mut language = Self::start(corpus, fit);
        let mut trace = Vec::with_capacity(fit.iterations + 1);
        for round in 0..=fit.iterations {
            let counts = Counts::expected(&language, corpus);
            trace.push(counts.log_likelihood / tokens as f64);
            progress(round, trace[round]);
            if round < fit.iterations {
                language = counts.maximise(language, fit.smoothing);
            }
        }
        Ok((language, trace))
    }

    /// A start without symmetry: random transitions, and for each state the frequencies of the
    /// corpus, every one times an exponential draw.
    fn start(corpus: &[impl AsRef<[usize]>], fit: Fit) -> Self {
        let key = Key::new(fit.seed, Purpose::Init);
        let mut frequencies = vec![fit.smoothing; fit.symbols];
        for &symbol in corpus.iter().flat_map(AsRef::as_ref) {
            frequencies[symbol] += 1.0;
        }
        let flat = |rng: &mut _| dirichlet(rng, fit.states, fit.states as f64);
        let transition = (0..fit.states as u64).flat_map(|z| flat(&mut key.at(1, z)));
        let emission = (0..fit.states as u64).flat_map(|z| {
            let mut row = dirichlet(&mut key.at(2, z), fit.symbols, fit.symbols as f64);
            multiply(&mut row, &frequencies);
            normalise(&mut row);
            row
        });
        Self {
            initial: flat(&mut key.at(0, 0)),
            transition: Matrix::from_data(fit.states, fit.states, transition.collect()),
            emission: Matrix::from_data(fit.states, fit.symbols, emission.collect()),
        }
    }
}

/// Expected counts given a corpus.
struct Counts {
    log_likelihood: f64,
    /// Of first states, `[H]`.
    initial: Vec<f64>,
    /// Of transitions, each over its probability, `[H, H]`.
    transition: Vec<f64>,
    /// Of symbols and their states, `[S, H]`.
    emission: Vec<f64>,
}

impl Counts {
    /// Most partial sums, whatever the number of threads.
    const PARTS: usize = 64;

    fn zeros(states: usize, symbols: usize) -> Self {
        Self {
            log_likelihood: 0.0,
            initial: vec![0.0; states],
            transition: vec![0.0; states * states],
            emission: vec![0.0; symbols * states],
        }
    }

    /// The counts of a corpus: parts side by side, added in order.
    fn expected<X: AsRef<[usize]> + Sync>(language: &Language, corpus: &[X]) -> Self {
        let zeros = || Self::zeros(language.states(), language.symbols());
        let parts: Vec<Self> = corpus
            .par_chunks(corpus.len().div_ceil(Self::PARTS))
            .map(|sequences| {
                let mut part = zeros();
                for x in sequences {
                    part.observe(language, x.as_ref());
                }
                part
            })
            .collect();
        let mut total = zeros();
        for part in &parts {
            total.log_likelihood += part.log_likelihood;
            add(&mut total.initial, 1.0, &part.initial);
            add(&mut total.transition, 1.0, &part.transition);
            add(&mut total.emission, 1.0, &part.emission);
        }
        total
    }

    /// Adds one sequence, by forward-backward: with `a_d = p(z_d | x^{<=d})`,
    /// `c_d = p(x^d | x^{<d})` and `g_{d-1} = A (b_d g_d)/c_d`, the state at `d` has the law
    /// `a_d g_d` and the transition into it `a_{d-1} A (b_d g_d)/c_d`.
    fn observe(&mut self, language: &Language, x: &[usize]) {
        let states = language.states();
        let mut filtered = vec![0.0; x.len() * states];
        let mut scales = Vec::with_capacity(x.len());
        let mut message = language.initial.clone();
        for (&symbol, a) in x.iter().zip(filtered.chunks_exact_mut(states)) {
            language.column(symbol, a);
            multiply(a, &message);
            scales.push(normalise(a));
            times_matrix(a, &language.transition, &mut message);
        }
        self.log_likelihood += scales.iter().map(|c| c.ln()).sum::<f64>();

        message.fill(1.0);
        let mut work = vec![0.0; states];
        for d in (0..x.len()).rev() {
            work.copy_from_slice(&filtered[d * states..(d + 1) * states]);
            multiply(&mut work, &message);
            add(&mut self.emission[x[d] * states..][..states], 1.0, &work);
            if d == 0 {
                add(&mut self.initial, 1.0, &work);
            } else {
                language.column(x[d], &mut work);
                multiply(&mut work, &message);
                let before = &filtered[(d - 1) * states..d * states];
                for (row, a) in self.transition.chunks_exact_mut(states).zip(before) {
                    add(row, a / scales[d], &work);
                }
                matrix_times(&language.transition, &work, &mut message);
                message.iter_mut().for_each(|g| *g /= scales[d]);
            }
        }
    }

    /// The language with these counts as tables. A state that never occurred keeps its rows.
    fn maximise(mut self, mut language: Language, smoothing: f64) -> Language {
        let (states, symbols) = (language.states(), language.symbols());
        multiply(&mut self.transition, language.transition.data());
        let emission: Vec<f64> = (0..states * symbols)
            .map(|i| self.emission[i % symbols * states + i / symbols])
            .collect();
        let replace = |table: &mut [f64], counts: &[f64], width: usize| {
            let rows = table.chunks_exact_mut(width);
            for (row, counts) in rows.zip(counts.chunks_exact(width)) {
                let mut new: Vec<f64> = counts.iter().map(|c| c + smoothing).collect();
                if normalise(&mut new) > 0.0 {
                    row.copy_from_slice(&new);
                }
            }
        };
        replace(&mut language.initial, &self.initial, states);
        replace(language.transition.data_mut(), &self.transition, states);
        replace(language.emission.data_mut(), &emission, symbols);
        language
    }
}

/// `a += c b`.
fn add(a: &mut [f64], c: f64, b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += c * b;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::unsettled;
    use super::*;
    use proptest::prelude::*;

    fn corpus(language: &Language, sequences: u64, length: usize, seed: u64) -> Vec<Vec<usize>> {
        let key = Key::new(seed, Purpose::Data);
        (0..sequences)
            .map(|i| language.sample(length, &mut key.at(0, i)))
            .collect()
    }

    fn per_token(language: &Language, corpus: &[Vec<usize>]) -> f64 {
        let tokens: usize = corpus.iter().map(Vec::len).sum();
        corpus
            .iter()
            .map(|x| language.log_likelihood(x))
            .sum::<f64>()
            / tokens as f64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn a_round_never_lowers_the_objective(seed in any::<u64>(), smoothing in 0.0..2.0f64) {
            let mut corpus = corpus(&unsettled(5, 3, seed), 10, 12, seed);
            corpus[3].truncate(1);
            corpus[4].clear();
            let fit = Fit { iterations: 30, smoothing: 0.0, seed, ..Fit::new(6, 4) };
            let mut seen = Vec::new();
            let (language, trace) =
                Language::fit(&corpus, fit, |round, value| seen.push((round, value))).unwrap();
            prop_assert!(trace.windows(2).all(|w| w[1] >= w[0] - 1e-12), "{:?}", trace);
            prop_assert_eq!(seen, trace.iter().copied().enumerate().collect::<Vec<_>>());
            prop_assert!((trace[30] - per_token(&language, &corpus)).abs() < 1e-12);
            let tables = |l: &Language| {
                let all = l.initial.iter().chain(l.transition.data()).chain(l.emission.data());
                all.map(|p| p.ln()).sum::<f64>()
            };
            let mut best = f64::NEG_INFINITY;
            for iterations in 0..10 {
                let fit = Fit { iterations, smoothing: smoothing + 1e-3, ..fit };
                let (language, _) = Language::fit(&corpus, fit, |_, _| ()).unwrap();
                let likelihood: f64 = corpus.iter().map(|x| language.log_likelihood(x)).sum();
                let objective = likelihood + fit.smoothing * tables(&language);
                prop_assert!(objective >= best - 1e-9, "{objective} after {best}");
                best = objective;
                let Language { initial, transition, emission } = language;
                prop_assert!(Language::new(initial, transition, emission).is_ok());
            }
        }
    }

    /// Three states that keep to themselves and prefer different symbols.
    #[test]
    fn an_easy_language_is_recovered() {
        let stay = |on: f64, off: f64| vec![on, off, off, off, on, off, off, off, on];
        let truth = Language::new(
            vec![1.0 / 3.0; 3],
            Matrix::from_data(3, 3, stay(0.9, 0.05)),
            Matrix::from_data(3, 3, stay(0.8, 0.1)),
        )
        .unwrap();
        let (train, held_out) = (corpus(&truth, 200, 100, 1), corpus(&truth, 200, 100, 2));
        // Some starts end in a local optimum that merges two states.
        let fits = (0..4).map(|seed| {
            let fit = Fit {
                seed,
                ..Fit::new(3, 3)
            };
            Language::fit(&train, fit, |_, _| ()).unwrap()
        });
        let (language, trace) = fits.max_by(|a, b| a.1[50].total_cmp(&b.1[50])).unwrap();
        assert!(trace[50] > per_token(&truth, &train) - 1e-3);
        let (fitted, exact) = (
            per_token(&language, &held_out),
            per_token(&truth, &held_out),
        );
        assert!((fitted - exact).abs() < 2e-3, "{fitted} against {exact}");
        // Without the dependence the symbols are uniform.
        assert!(exact > -(3f64.ln()) + 0.1);
    }

    #[test]
    fn the_result_does_not_depend_on_threads() {
        let corpus = corpus(&unsettled(5, 3, 0), 150, 10, 0);
        let fit = Fit {
            iterations: 3,
            ..Fit::new(5, 3)
        };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            pool.install(|| Language::fit(&corpus, fit, |_, _| ()).unwrap())
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn bad_requests_are_refused() {
        let message = |corpus: &[Vec<usize>], fit| {
            let error = Language::fit(corpus, fit, |_, _| ()).unwrap_err();
            error.to_string()
        };
        let fit = Fit::new(3, 2);
        assert!(message(&[vec![0, 3]], fit).contains("a symbol of the corpus is 3"));
        assert!(message(&[], fit).contains("symbols in the corpus is 0"));
        assert!(message(&[vec![]], fit).contains("symbols in the corpus is 0"));
        assert!(message(&[vec![0]], Fit::new(3, 0)).contains("hidden states"));
        assert!(message(&[vec![0]], Fit::new(1, 2)).contains("number of symbols"));
        for smoothing in [-1.0, f64::NAN] {
            assert!(message(&[vec![0]], Fit { smoothing, ..fit }).contains("smoothing"));
        }
    }
}
