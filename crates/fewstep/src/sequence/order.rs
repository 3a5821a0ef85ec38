//! Which masked coordinates a step writes.
//!
//! The path leaves it to chance: each coordinate has its own time, and the law of the sequence is
//! then that of the chain. The rules here look at the predictions instead, as MaskGIT and its
//! successors do. They need no training; what they write first is what the network is sure of, so
//! that few steps cost less in likelihood and the law is another one, of lower entropy. Compare them
//! at matched entropy.

use std::f64::consts::FRAC_PI_2;

/// How the coordinates of a step are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Order {
    /// Each on its own by the path's kernel.
    #[default]
    Chance,
    /// Those that rank highest, in numbers that are known before.
    Ranked {
        /// What ranks them.
        by: Ranking,
        /// How many a step.
        tokens: Tokens,
        /// Gumbel noise on the rank, falling to nothing in the last step.
        noise: f64,
    },
    /// All whose likeliest symbol has at least this probability, and the likeliest of all if there
    /// is none (Fast-dLLM's parallel decoding); in the last step the rest.
    Threshold(f64),
}

/// What makes a coordinate rank high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// The log probability of the symbol that was drawn (MaskGIT).
    Confidence,
    /// Little entropy of its law.
    Entropy,
    /// A likeliest symbol far above the next.
    Margin,
}

/// How many coordinates each of `K` steps writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// In proportion to `arccos` from 1 to 0 at the steps, as MaskGIT's first release and ReDi. One
    /// step, for which that is not defined, writes all.
    Arccos,
    /// The differences of the rounded `arccos`, as Di4C and later releases.
    Differences,
    /// As many in each.
    Even,
}

impl Tokens {
    /// How many of `positions` each of `steps` writes; they add up to `positions`.
    pub fn counts(self, positions: usize, steps: usize) -> Vec<usize> {
        let n = positions as f64;
        let at = |share: f64| share.clamp(0.0, 1.0).acos() / FRAC_PI_2;
        // Still masked after so many steps.
        let ends: Vec<f64> = match self {
            Self::Arccos if steps > 1 => {
                let last = steps as f64 - 1.0;
                let weights: Vec<f64> = (0..steps).map(|i| at(1.0 - i as f64 / last)).collect();
                let total: f64 = weights.iter().sum();
                let mut left = n;
                let ends = weights.iter().map(|w| {
                    left = (left - (n * w / total).round_ties_even().max(1.0)).max(0.0);
                    left
                });
                ends.collect()
            }
            Self::Differences => (1..=steps)
                .map(|i| (n * at(i as f64 / steps as f64)).round_ties_even())
                .collect(),
            Self::Arccos | Self::Even => (1..=steps)
                .map(|i| (n * (1.0 - i as f64 / steps as f64)).round())
                .collect(),
        };
        let mut left = positions;
        let mut counts: Vec<usize> = ends
            .into_iter()
            .map(|end| {
                let count = left - (end as usize).min(left);
                left -= count;
                count
            })
            .collect();
        if let Some(last) = counts.last_mut() {
            *last += left;
        }
        counts
    }
}

impl Ranking {
    /// The rank of a coordinate with law `p` where `symbol` was drawn.
    fn rank(self, p: &[f64], symbol: usize) -> f64 {
        match self {
            Self::Confidence => p[symbol].ln(),
            Self::Entropy => p.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum(),
            Self::Margin => {
                let (first, second) =
                    p.iter().fold(
                        (0.0f64, 0.0f64),
                        |(a, b), &p| {
                            if p > a { (p, a) } else { (a, b.max(p)) }
                        },
                    );
                first - second
            }
        }
    }
}

/// A step of a generation: its number of all, counted from 0.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its number.
    pub step: usize,
    /// Of so many.
    pub steps: usize,
}

impl Order {
    /// The rank of a coordinate, given Gumbel noise for it.
    pub(super) fn rank(self, place: Place, p: &[f64], symbol: usize, gumbel: f64) -> f64 {
        match self {
            Self::Chance => 0.0,
            Self::Ranked { by, noise, .. } => {
                let last = place.steps.saturating_sub(1).max(1) as f64;
                let left = 1.0 - place.step as f64 / last;
                by.rank(p, symbol) + noise * left * gumbel
            }
            Self::Threshold(_) => p.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Which of one sequence's open coordinates are written, by their ranks; `all` is how many were
    /// open in the beginning.
    pub(super) fn chosen(self, place: Place, ranks: &[f64], all: usize) -> Vec<bool> {
        let last = place.step + 1 == place.steps;
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]));
        let count = match self {
            _ if last => ranks.len(),
            Self::Chance => 0,
            Self::Ranked { tokens, .. } => {
                let counts = tokens.counts(all, place.steps);
                // Up to here in all, so that what is known already counts.
                let due: usize = counts[..=place.step].iter().sum();
                due.saturating_sub(all - ranks.len()).min(ranks.len())
            }
            Self::Threshold(level) => ranks.iter().filter(|r| **r >= level).count().max(1),
        };
        let mut chosen = vec![false; ranks.len()];
        order.into_iter().take(count).for_each(|i| chosen[i] = true);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the published programs, for 256 positions.
    #[test]
    fn counts_are_the_published_ones() {
        let first = |steps| Tokens::Arccos.counts(256, steps);
        assert_eq!(first(2), [1, 255]);
        assert_eq!(first(3), [1, 102, 153]);
        assert_eq!(first(4), [1, 59, 87, 109]);
        assert_eq!(first(6), [1, 29, 42, 52, 62, 70]);
        assert_eq!(first(8), [1, 18, 26, 32, 38, 43, 48, 50]);
        assert_eq!(first(12), [1, 9, 13, 17, 19, 22, 24, 26, 28, 30, 32, 35]);
        assert_eq!(first(1), [256]);
        let second = |steps| Tokens::Differences.counts(256, steps);
        assert_eq!(second(1), [256]);
        assert_eq!(second(2), [85, 171]);
        assert_eq!(second(4), [41, 44, 53, 118]);
        assert_eq!(second(8), [20, 21, 22, 22, 25, 28, 36, 82]);
        assert_eq!(second(12), [14, 13, 14, 14, 15, 15, 17, 17, 19, 23, 28, 67]);
        assert_eq!(Tokens::Even.counts(10, 4), [2, 3, 2, 3]);
    }

    #[test]
    fn counts_add_up_whatever_the_sizes() {
        for tokens in [Tokens::Arccos, Tokens::Differences, Tokens::Even] {
            for positions in [0, 1, 2, 7, 64, 1024] {
                for steps in [1, 2, 3, 16, 100] {
                    let counts = tokens.counts(positions, steps);
                    assert_eq!(counts.len(), steps);
                    assert_eq!(counts.iter().sum::<usize>(), positions, "{tokens:?}");
                }
            }
        }
    }

    #[test]
    fn ranks_are_what_they_are_named_after() {
        let p = [0.5, 0.3, 0.2];
        let place = Place { step: 1, steps: 3 };
        let of = |by| Order::Ranked {
            by,
            tokens: Tokens::Even,
            noise: 0.0,
        };
        assert_eq!(of(Ranking::Confidence).rank(place, &p, 1, 9.0), 0.3f64.ln());
        assert!((of(Ranking::Margin).rank(place, &p, 1, 9.0) - 0.2).abs() < 1e-15);
        let entropy = -of(Ranking::Entropy).rank(place, &p, 1, 9.0);
        assert!((entropy - 1.029_653_014_064_501).abs() < 1e-12, "{entropy}");
        assert_eq!(Order::Threshold(0.9).rank(place, &p, 1, 9.0), 0.5);
        let noisy = Order::Ranked {
            by: Ranking::Confidence,
            tokens: Tokens::Even,
            noise: 4.0,
        };
        // Half of it in the middle step, none in the last.
        assert_eq!(noisy.rank(place, &p, 1, 1.5), 0.3f64.ln() + 4.0 * 0.5 * 1.5);
        let end = Place { step: 2, steps: 3 };
        assert_eq!(noisy.rank(end, &p, 1, 1.5), 0.3f64.ln());
    }

    #[test]
    fn the_highest_ranks_are_chosen() {
        let ranked = Order::Ranked {
            by: Ranking::Margin,
            tokens: Tokens::Even,
            noise: 0.0,
        };
        let first = Place { step: 0, steps: 2 };
        let ranks = [0.1, 0.9, 0.3, 0.8];
        assert_eq!(ranked.chosen(first, &ranks, 4), [false, true, false, true]);
        // Two of six were known: one more is due.
        let known = ranked.chosen(first, &ranks, 6);
        assert_eq!(known, [false, true, false, false]);
        let sure = Order::Threshold(0.85);
        assert_eq!(sure.chosen(first, &ranks, 4), [false, true, false, false]);
        let none = Order::Threshold(0.95);
        assert_eq!(none.chosen(first, &ranks, 4), [false, true, false, false]);
        let last = Place { step: 1, steps: 2 };
        assert_eq!(sure.chosen(last, &ranks, 4), [true; 4]);
    }
}
