//! A language known exactly: a hidden Markov model, whose likelihoods and posteriors cost
//! `O(D H (H + S))` at any length.
//!
//! Hidden states `z_1 -> z_2 -> ...` over `0..H` follow a transition table `A`, and each shows one
//! symbol by an emission table `B`:
//!
//! `p(x, z) = pi(z_1) B(z_1, x_1) prod_{d > 1} A(z_{d-1}, z_d) B(z_d, x_d)`.
//!
//! Such a language serves three times: as data of any amount, as the exact denoiser
//! `p(x_1^d = s | x_t)` that a network can at best equal, and as a judge of generated sequences
//! that cannot be fooled, because it gives their true likelihood.

mod draw;
mod entropy;
mod fit;
mod posterior;

pub use draw::Concentration;
pub use fit::Fit;

use crate::{
    Error, Matrix,
    path::check_distribution,
    random::{Rng, categorical},
};

/// A hidden Markov language over `S` symbols with `H` hidden states.
#[derive(Clone, Debug, PartialEq)]
pub struct Language {
    initial: Vec<f64>,
    transition: Matrix,
    emission: Matrix,
}

impl Language {
    /// The language with these tables: the law of the first state `[H]`, the transitions
    /// `[H, H]` and the emissions `[H, S]`, by rows.
    pub fn new(initial: Vec<f64>, transition: Matrix, emission: Matrix) -> Result<Self, Error> {
        let states = initial.len();
        check_sizes(emission.cols(), states)?;
        let size = |m: &Matrix| format!("{} x {}", m.rows(), m.cols());
        if (transition.rows(), transition.cols()) != (states, states) {
            let range = "states x states, as many as the initial law has";
            return Err(Error::range(
                "the transition table",
                size(&transition),
                range,
            ));
        }
        if emission.rows() != states {
            let range = "states x symbols, with the states of the initial law";
            return Err(Error::range("the emission table", size(&emission), range));
        }
        check_distribution("the law of the first state", &initial, states)?;
        check_rows("the transition table", &transition)?;
        check_rows("the emission table", &emission)?;
        Ok(Self {
            initial,
            transition,
            emission,
        })
    }

    /// Symbols `S`.
    pub fn symbols(&self) -> usize {
        self.emission.cols()
    }

    /// Hidden states `H`.
    pub fn states(&self) -> usize {
        self.initial.len()
    }

    /// `pi(z)`, the law of the first state.
    pub fn initial(&self) -> &[f64] {
        &self.initial
    }

    /// `A(z, z')`.
    pub fn transition(&self) -> &Matrix {
        &self.transition
    }

    /// `B(z, s)`.
    pub fn emission(&self) -> &Matrix {
        &self.emission
    }

    /// The long-run law of the state, `lim pi ((I + A)/2)^n`, by repeated squaring. Half a step of
    /// rest makes the limit exist for periodic chains too and leaves it as it is for others.
    pub fn stationary(&self) -> Vec<f64> {
        let states = self.states();
        let mut power = self.transition.clone();
        for z in 0..states {
            let row = &mut power.data_mut()[z * states..(z + 1) * states];
            row[z] += 1.0;
            normalise(row);
        }
        // 2^64 steps mix whatever f64 can tell from a chain that falls apart.
        for _ in 0..64 {
            let mut square = power.product(&power);
            square.data_mut().chunks_exact_mut(states).for_each(|row| {
                normalise(row);
            });
            let done = square == power;
            power = square;
            if done {
                break;
            }
        }
        let mut law = vec![0.0; states];
        times_matrix(&self.initial, &power, &mut law);
        law
    }

    /// A sequence of the language.
    pub fn sample(&self, length: usize, rng: &mut impl Rng) -> Vec<usize> {
        let mut law = self.initial.as_slice();
        (0..length)
            .map(|_| {
                let state = categorical(rng, law);
                law = self.transition.row(state);
                categorical(rng, self.emission.row(state))
            })
            .collect()
    }

    /// `ln p(x)`, by the forward algorithm; `-inf` for an impossible sequence.
    pub fn log_likelihood(&self, x: &[usize]) -> f64 {
        self.conditionals(x).iter().sum()
    }

    /// `ln p(x^d | x^{<d})` of each position, which sum to [`log_likelihood`](Self::log_likelihood).
    /// From the first impossible symbol on they are `-inf`.
    ///
    /// The forward algorithm keeps `p(z_d | x^{<d})`, which never underflows.
    pub fn conditionals(&self, x: &[usize]) -> Vec<f64> {
        let mut predicted = self.initial.clone();
        let mut filtered = vec![0.0; self.states()];
        x.iter()
            .map(|&symbol| {
                self.column(symbol, &mut filtered);
                multiply(&mut filtered, &predicted);
                let p = normalise(&mut filtered);
                times_matrix(&filtered, &self.transition, &mut predicted);
                p.ln()
            })
            .collect()
    }

    /// `B(., symbol)`.
    fn column(&self, symbol: usize, out: &mut [f64]) {
        let symbols = self.symbols();
        assert!(symbol < symbols, "symbol {symbol} of {symbols}");
        for (z, b) in out.iter_mut().enumerate() {
            *b = self.emission.at(z, symbol);
        }
    }
}

fn check_sizes(symbols: usize, states: usize) -> Result<(), Error> {
    if symbols < 2 {
        return Err(Error::range("the number of symbols", symbols, "at least 2"));
    }
    if states < 1 {
        let what = "the number of hidden states";
        return Err(Error::range(what, states, "at least 1"));
    }
    Ok(())
}

fn check_rows(what: &'static str, table: &Matrix) -> Result<(), Error> {
    for i in 0..table.rows() {
        check_distribution(what, table.row(i), table.cols()).map_err(|error| match error {
            Error::Distribution { what, detail } => Error::Distribution {
                what,
                detail: format!("of row {i}, {detail}"),
            },
            other => other,
        })?;
    }
    Ok(())
}

/// Scales to sum one, unless all is zero; gives the former sum.
fn normalise(v: &mut [f64]) -> f64 {
    let total: f64 = v.iter().sum();
    if total > 0.0 {
        v.iter_mut().for_each(|v| *v /= total);
    }
    total
}

/// `a *= b`, entry by entry.
fn multiply(a: &mut [f64], b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a *= b;
    }
}

/// `out = v m`.
fn times_matrix(v: &[f64], m: &Matrix, out: &mut [f64]) {
    out.fill(0.0);
    for (i, &a) in v.iter().enumerate() {
        for (o, b) in out.iter_mut().zip(m.row(i)) {
            *o += a * b;
        }
    }
}

/// `out = m v`.
fn matrix_times(m: &Matrix, v: &[f64], out: &mut [f64]) {
    for (i, o) in out.iter_mut().enumerate() {
        *o = dot(m.row(i), v);
    }
}

/// `sum_i a_i b_i`, in eight interleaved sums that need not wait for each other.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a * b);
    sums.into_iter().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Space,
        random::{Key, Purpose},
    };
    use proptest::prelude::*;

    /// A random language that does not start from its stationary law.
    pub(super) fn unsettled(symbols: usize, states: usize, seed: u64) -> Language {
        let varied = Concentration {
            transition: 2.0,
            emission: 2.0,
        };
        let mut language = Language::random(symbols, states, seed, varied).unwrap();
        let mut rng = Key::new(seed, Purpose::Check).at(0, 0);
        language.initial = draw::dirichlet(&mut rng, states, states as f64);
        language
    }

    /// `p(x)` by its definition, summed over all hidden paths.
    pub(super) fn by_paths(language: &Language, x: &[usize]) -> f64 {
        let states = language.states();
        (0..states.pow(x.len() as u32))
            .map(|mut path| {
                let mut p = 1.0;
                let mut before = None;
                for &symbol in x {
                    let z = path % states;
                    path /= states;
                    p *= before.map_or(language.initial[z], |y| language.transition.at(y, z));
                    p *= language.emission.at(z, symbol);
                    before = Some(z);
                }
                p
            })
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn likelihoods_are_sums_over_paths_and_sum_to_one(
            seed in any::<u64>(), symbols in 2..4usize, states in 1..4usize, length in 1..6usize,
        ) {
            let language = unsettled(symbols, states, seed);
            let space = Space::new(symbols, length).unwrap();
            let mut total = 0.0;
            for state in 0..space.len() {
                let x = space.decode(state);
                let p = language.log_likelihood(&x).exp();
                prop_assert!((p / by_paths(&language, &x) - 1.0).abs() < 1e-11);
                total += p;
            }
            prop_assert!((total - 1.0).abs() < 1e-12);
        }

        #[test]
        fn conditionals_are_ratios_of_likelihoods(seed in any::<u64>(), length in 2..40usize) {
            let language = Language::default_with(7, 5, seed).unwrap();
            let x = language.sample(length, &mut Key::new(seed, Purpose::Data).at(0, 0));
            for (d, ln_p) in language.conditionals(&x).into_iter().enumerate() {
                let ratio = language.log_likelihood(&x[..=d]) - language.log_likelihood(&x[..d]);
                prop_assert!((ln_p - ratio).abs() < 1e-9);
            }
        }

        #[test]
        fn the_stationary_law_is_stationary(seed in any::<u64>(), states in 1..20usize) {
            let language = unsettled(3, states, seed);
            let law = language.stationary();
            prop_assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mut next = vec![0.0; states];
            times_matrix(&law, &language.transition, &mut next);
            for (a, b) in law.iter().zip(next) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }

    /// A cycle of two states, and two that never meet.
    #[test]
    fn periodic_and_divided_chains_have_a_long_run_law() {
        let language = |initial: [f64; 2], transition: [f64; 4]| {
            let transition = Matrix::from_data(2, 2, transition.to_vec());
            let emission = Matrix::from_data(2, 2, vec![1.0, 0.0, 0.0, 1.0]);
            Language::new(initial.to_vec(), transition, emission).unwrap()
        };
        let cycle = language([1.0, 0.0], [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(cycle.stationary(), [0.5, 0.5]);
        assert_eq!(cycle.log_likelihood(&[0, 1, 0]), 0.0);
        let ln_p = cycle.conditionals(&[0, 0, 1]);
        assert_eq!(ln_p, [0.0, f64::NEG_INFINITY, f64::NEG_INFINITY]);
        let divided = language([0.25, 0.75], [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(divided.stationary(), [0.25, 0.75]);
    }

    #[test]
    fn long_sequences_do_not_underflow() {
        let language = Language::default_with(64, 32, 0).unwrap();
        let key = Key::new(0, Purpose::Data);
        let x = language.sample(20_000, &mut key.at(0, 0));
        let ln_p = language.log_likelihood(&x);
        assert!(ln_p.is_finite() && ln_p < -10_000.0);
        assert_eq!(x, language.sample(20_000, &mut key.at(0, 0)));
        assert_eq!(language, Language::default_with(64, 32, 0).unwrap());
        assert_ne!(language, Language::default_with(64, 32, 1).unwrap());
    }

    #[test]
    fn bad_tables_are_refused() {
        let half = || vec![0.5; 2];
        let matrix = |rows: usize, data: &[f64]| {
            Matrix::from_data(rows, data.len() / rows.max(1), data.to_vec())
        };
        let good = || matrix(2, &[0.5, 0.5, 0.25, 0.75]);
        assert!(Language::new(half(), good(), good()).is_ok());
        let message = |initial, transition, emission| {
            let error = Language::new(initial, transition, emission).unwrap_err();
            error.to_string()
        };
        let sums = message(half(), matrix(2, &[0.5, 0.5, 0.5, 0.6]), good());
        assert_eq!(
            sums,
            "the transition table is not a probability distribution: of row 1, it sums to 1.1"
        );
        let nan = message(half(), good(), matrix(2, &[f64::NAN, 0.5, 0.5, 0.5]));
        assert!(nan.contains("emission table") && nan.contains("row 0") && nan.contains("NaN"));
        let negative = message(vec![-0.5, 1.5], good(), good());
        assert!(negative.contains("first state") && negative.contains("-0.5"));
        let wide = message(
            half(),
            matrix(2, &[0.5, 0.25, 0.25, 0.5, 0.25, 0.25]),
            good(),
        );
        assert!(wide.contains("transition table is 2 x 3"));
        let long = message(half(), good(), matrix(3, &[0.5; 6]));
        assert!(long.contains("emission table is 3 x 2"));
        let single = message(half(), good(), matrix(2, &[1.0, 1.0]));
        assert!(single.contains("number of symbols is 1"));
        let empty = message(vec![], matrix(0, &[]), Matrix::zeros(0, 2));
        assert!(empty.contains("number of hidden states is 0"));
    }
}
