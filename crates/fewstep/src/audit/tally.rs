//! Counts of draws against their laws, summed over any number of laws, and what follows from them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gamma::{chi_square_above, poisson};

/// Draws are rejected when their p-value is below this.
pub const LEVEL: f64 = 1e-4;

/// The least expected count of a cell.
const LEAST: f64 = 5.0;

/// The probabilities of the tails. A tail has at most a hundredth, so that its count is nearly
/// Poisson's, and never wider.
const SHARES: [f64; 5] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6];

/// A sum of squared deviations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChiSquare {
    /// The sum of `(observed - expected)^2 / expected`.
    pub statistic: f64,
    /// Degrees of freedom.
    pub freedom: u64,
    /// The probability of at least this statistic.
    pub p: f64,
}

/// Draws among the rarest symbols.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// The most probability that the symbols of a law may have together.
    pub share: f64,
    /// Expected draws.
    pub expected: f64,
    /// Draws.
    pub observed: u64,
    /// Two-sided.
    pub p: f64,
}

/// What the tests say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Laws that were drawn from.
    pub laws: u64,
    /// Draws of all of them.
    pub draws: u64,
    /// Draws of symbols that have no probability at all.
    pub impossible: u64,
    /// Every symbol against its expectation, if there are draws enough.
    pub chi_square: Option<ChiSquare>,
    /// Symbols of nearly the same probability (a factor of two) together, over several laws. Laws
    /// that differ make the statistic smaller than its chi-square, never larger.
    pub bands: Option<ChiSquare>,
    /// The rarest symbols, the wider tail first.
    pub tails: Vec<Tail>,
    /// The smallest of these p-values times their number (Bonferroni), at most 1; 0 after an
    /// impossible draw.
    pub p: f64,
    /// Whether that is below [`LEVEL`].
    pub rejected: bool,
}

/// A cell: expected and observed count.
type Cell = (f64, u64);

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    laws: u64,
    draws: u64,
    impossible: u64,
    statistic: f64,
    freedom: u64,
    bands: BTreeMap<i32, Cell>,
    tails: [Cell; SHARES.len()],
}

impl Tally {
    /// Adds the counts of a law's symbols. The probabilities `p` sum to one.
    pub fn add(&mut self, p: &[f64], counts: &[u64]) {
        let mut order: Vec<usize> = (0..p.len().min(counts.len())).collect();
        let impossible: u64 = order
            .iter()
            .filter(|&&i| p[i] <= 0.0)
            .map(|&i| counts[i])
            .sum();
        order.retain(|&i| p[i] > 0.0);
        order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
        let possible: u64 = order.iter().map(|&i| counts[i]).sum();
        self.laws += 1;
        self.draws += possible + impossible;
        self.impossible += impossible;
        let n = possible as f64;
        let (statistic, freedom) = pooled(order.iter().map(|&i| (n * p[i], counts[i])));
        self.statistic += statistic;
        self.freedom += freedom;
        for (tail, share) in self.tails.iter_mut().zip(SHARES) {
            let mut mass = 0.0;
            for &i in &order {
                mass += p[i];
                // A sum that is the share but for rounding is the share.
                if mass > share * (1.0 + 1e-9) {
                    break;
                }
                *tail = (tail.0 + n * p[i], tail.1 + counts[i]);
            }
        }
        for &i in &order {
            let band = self.bands.entry(p[i].log2().floor() as i32).or_default();
            *band = (band.0 + n * p[i], band.1 + counts[i]);
        }
    }

    /// What the tests say of everything that was added.
    pub fn outcome(&self) -> Outcome {
        let chi = |(statistic, freedom): (f64, u64)| {
            (freedom > 0).then(|| ChiSquare {
                statistic,
                freedom,
                p: chi_square_above(statistic, freedom as f64),
            })
        };
        let chi_square = chi((self.statistic, self.freedom));
        // Of one law they are its symbols once more, only coarser.
        let bands = (self.laws > 1).then(|| pooled(self.bands.values().copied()));
        let bands = bands.and_then(chi);
        let mut tails: Vec<Tail> = Vec::new();
        for (&(expected, observed), share) in self.tails.iter().zip(SHARES) {
            match tails.last_mut() {
                // The same symbols.
                Some(last) if last.expected == expected => last.share = share,
                _ if expected > 0.0 => tails.push(Tail {
                    share,
                    expected,
                    observed,
                    p: poisson(observed, expected),
                }),
                _ => {}
            }
        }
        let all = [chi_square, bands].into_iter().flatten().map(|test| test.p);
        let all: Vec<f64> = all.chain(tails.iter().map(|tail| tail.p)).collect();
        let least = all.iter().copied().fold(1.0, f64::min);
        let p = if self.impossible > 0 {
            0.0
        } else {
            (least * all.len().max(1) as f64).min(1.0)
        };
        Outcome {
            laws: self.laws,
            draws: self.draws,
            impossible: self.impossible,
            chi_square,
            bands,
            tails,
            p,
            rejected: p < LEVEL,
        }
    }
}

impl Outcome {
    /// Whether there were draws enough for any test.
    pub fn tested(&self) -> bool {
        self.impossible > 0
            || self.chi_square.is_some()
            || self.bands.is_some()
            || self.tails.iter().any(|tail| tail.expected >= 1.0)
    }

    /// The tail that says most against the draws.
    pub fn worst_tail(&self) -> Option<&Tail> {
        self.tails.iter().min_by(|a, b| a.p.total_cmp(&b.p))
    }
}

/// The statistic and the degrees of freedom of cells, the rarest first, pooled until they have
/// [`LEAST`] expected.
fn pooled(cells: impl Iterator<Item = Cell>) -> (f64, u64) {
    let (mut done, mut open): (Vec<Cell>, Cell) = (Vec::new(), (0.0, 0));
    for (expected, observed) in cells {
        open = (open.0 + expected, open.1 + observed);
        if open.0 >= LEAST {
            done.push(std::mem::take(&mut open));
        }
    }
    match done.last_mut() {
        Some(last) => *last = (last.0 + open.0, last.1 + open.1),
        None => return (0.0, 0),
    }
    let deviation = |(expected, observed): &Cell| (*observed as f64 - expected).powi(2) / expected;
    let statistic = done.iter().map(deviation).sum();
    (statistic, done.len() as u64 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_cells_are_pooled_and_none_is_lost() {
        // 1, 2 and 3 make a cell of 6; 2 is left over and joins the last.
        let cells = [(1.0, 0), (2.0, 1), (3.0, 8), (10.0, 12), (2.0, 1)];
        let (statistic, freedom) = pooled(cells.into_iter());
        assert_eq!(freedom, 1);
        assert!((statistic - (9.0 / 6.0 + 1.0 / 12.0)).abs() < 1e-12);
        assert_eq!(pooled([(1.0, 1), (2.0, 2)].into_iter()), (0.0, 0));
    }

    #[test]
    fn a_tail_is_what_the_rarest_symbols_have() {
        let p = [0.99, 0.009, 0.0009, 0.0001];
        let mut tally = Tally::default();
        tally.add(&p, &[9_900, 95, 4, 1]);
        let outcome = tally.outcome();
        let tails: Vec<(f64, u64)> = outcome
            .tails
            .iter()
            .map(|t| (t.share, t.observed))
            .collect();
        assert_eq!(tails, [(1e-2, 100), (1e-3, 5), (1e-4, 1)]);
        assert!((outcome.tails[1].expected - 10.0).abs() < 1e-9);
        assert!(outcome.bands.is_none() && !outcome.rejected);
    }

    #[test]
    fn what_has_no_probability_must_not_be_drawn() {
        let mut tally = Tally::default();
        tally.add(&[0.5, 0.5, 0.0], &[5, 5, 1]);
        let outcome = tally.outcome();
        assert_eq!((outcome.impossible, outcome.p), (1, 0.0));
        assert!(outcome.rejected);
    }

    #[test]
    fn without_draws_nothing_is_said() {
        let mut tally = Tally::default();
        assert!(!tally.outcome().tested());
        tally.add(&[0.5, 0.5], &[1, 0]);
        let outcome = tally.outcome();
        assert!(!outcome.tested() && !outcome.rejected && outcome.p == 1.0);
    }
}
