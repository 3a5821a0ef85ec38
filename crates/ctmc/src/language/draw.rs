//! Languages at random.

use rand::RngExt;
use rand_distr::Gamma;

use super::{Language, check_sizes, normalise};
use crate::{
    Error, Matrix,
    random::{Key, Purpose, Rng, uniform},
};

/// How varied the rows of a random language are: the sum of a row's Dirichlet parameters, spread
/// evenly over its entries.
///
/// A row of many entries with concentration `c` has an expected entropy of `psi(1 + c) + 0.577`
/// nats whatever its length: 0.61 for `c = 0.5`, 1 for 1, 1.5 for 2, 2.3 for 5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Concentration {
    /// Of the next state given a state.
    pub transition: f64,
    /// Of the symbol given a state.
    pub emission: f64,
}

impl Default for Concentration {
    /// A state has about two successors and four or five symbols, so that there is much to
    /// predict; but a symbol is shown by several states, so that it takes a context to do so.
    fn default() -> Self {
        Self {
            transition: 0.5,
            emission: 2.0,
        }
    }
}

/// The share of every row of a random language that is spread over all its entries. It keeps each
/// sequence possible, so that a bad one costs finitely many nats and every posterior exists.
const SPREAD: f64 = 1e-3;

impl Language {
    /// A random language: Dirichlet rows, started from its stationary law.
    pub fn random(
        symbols: usize,
        states: usize,
        seed: u64,
        concentration: Concentration,
    ) -> Result<Self, Error> {
        check_sizes(symbols, states)?;
        for c in [concentration.transition, concentration.emission] {
            if !(1e-6..=1e6).contains(&c) {
                let range = "between 1e-6 and 1e6";
                return Err(Error::range("the concentration of a row", c, range));
            }
        }
        let key = Key::new(seed, Purpose::Target);
        let table = |step, entries, c| {
            let rows = (0..states).flat_map(|row| {
                let row = dirichlet(&mut key.at(step, row as u64), entries, c);
                row.into_iter()
                    .map(move |p| (1.0 - SPREAD) * p + SPREAD / entries as f64)
            });
            Matrix::from_data(states, entries, rows.collect())
        };
        let mut language = Self {
            initial: vec![1.0 / states as f64; states],
            transition: table(2, states, concentration.transition),
            emission: table(3, symbols, concentration.emission),
        };
        language.initial = language.stationary();
        Ok(language)
    }

    /// [`random`](Self::random) with the default [`Concentration`].
    ///
    /// As many states as symbols are a good choice. Over 64 symbols a symbol then has an entropy
    /// of 3.8 nats alone, 2.8 given the one before, 2.3 given two, and 2.1 given all.
    pub fn default_with(symbols: usize, states: usize, seed: u64) -> Result<Self, Error> {
        Self::random(symbols, states, seed, Concentration::default())
    }
}

/// A draw from the Dirichlet law with `entries` equal parameters that sum to `concentration`.
/// In logarithms, `Gamma(a) = Gamma(a + 1) U^{1/a}`: small parameters do not underflow to a row
/// of zeros.
pub(super) fn dirichlet(rng: &mut impl Rng, entries: usize, concentration: f64) -> Vec<f64> {
    let shape = concentration / entries as f64;
    let gamma = Gamma::new(shape + 1.0, 1.0).expect("a positive shape");
    let mut row: Vec<f64> = (0..entries)
        .map(|_| rng.sample(gamma).ln() + (1.0 - uniform(rng)).ln() / shape)
        .collect();
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter_mut().for_each(|v| *v = (*v - top).exp());
    normalise(&mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::check_distribution;

    #[test]
    fn extreme_concentrations_give_distributions() {
        for c in [1e-6, 1e-2, 1e6] {
            let row = dirichlet(&mut Key::new(1, Purpose::Check).at(0, 0), 3, c);
            check_distribution("a row", &row, 3).unwrap();
        }
    }

    #[test]
    fn bad_concentrations_are_refused() {
        for c in [0.0, -1.0, 1e-300, f64::NAN, f64::INFINITY] {
            let concentration = Concentration {
                transition: c,
                emission: 1.0,
            };
            assert!(Language::random(4, 4, 0, concentration).is_err());
        }
    }
}
