//! Draws from known laws: by this program's own draw, and by the Gumbel trick in f32.

use fewstep_ctmc::random::{Key, Purpose, Rng, quantile, uniform};
use rayon::prelude::*;
use serde::Serialize;

use super::{Outcome, Tally};

/// Symbols of the wide laws: the vocabulary of GPT-2.
const WIDE: usize = 50257;

/// The law on which draws in f32 must be found out.
pub const PEAKED: &str = "peaked";

/// Symbols whose Gumbel noise is looked at together.
const BLOCK: usize = 64;

/// How symbols are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Method {
    /// The inverse of the cumulative sum in f64, as the sampler draws.
    #[serde(rename = "ours")]
    Exact,
    /// The largest of `log p - log(-log u)` with all of it in f32, `u` of 24 bits.
    #[serde(rename = "f32 gumbel")]
    Gumbel32,
}

/// A law, drawn from and tested.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The law.
    pub law: &'static str,
    /// Its symbols.
    pub symbols: usize,
    /// How it was drawn from.
    pub method: Method,
    /// What the tests say.
    pub outcome: Outcome,
}

impl Check {
    /// Whether it came out as it must: the own draw is not rejected, and draws in f32 are where it
    /// can be seen. Elsewhere they may do as they like.
    pub fn as_it_must(&self) -> bool {
        match self.method {
            Method::Exact => !self.outcome.rejected,
            Method::Gumbel32 => self.outcome.rejected || self.law != PEAKED,
        }
    }
}

/// The laws, the likeliest symbol first, with the number of draws.
fn laws() -> [(&'static str, Vec<f64>, u64); 4] {
    let total: f64 = (1..=WIDE).map(|i| 1.0 / i as f64).sum();
    let zipf = (1..=WIDE).map(|i| 1.0 / i as f64 / total);
    let mut peaked = vec![1e-8; 101];
    peaked[0] = 1.0 - 1e-6;
    [
        ("uniform", vec![1.0 / WIDE as f64; WIDE], 20_000),
        ("zipf", zipf.collect(), 20_000),
        // A tail of one in a million, of a hundred symbols: twenty draws of it are expected.
        (PEAKED, peaked, 20_000_000),
        ("two-point", vec![0.999, 0.001], 1_000_000),
    ]
}

/// Draws from all laws in both ways and tests them; `seen` is told how many are done of how many.
pub fn own(seed: u64, mut seen: impl FnMut(usize, usize)) -> Vec<Check> {
    let (laws, methods) = (laws(), [Method::Exact, Method::Gumbel32]);
    let total = laws.len() * methods.len();
    let mut checks = Vec::with_capacity(total);
    for (number, (law, p, draws)) in laws.iter().enumerate() {
        for method in methods {
            seen(checks.len(), total);
            let mut tally = Tally::default();
            tally.add(p, &counts(p, method, *draws, (seed, number as u64)));
            checks.push(Check {
                law,
                symbols: p.len(),
                method,
                outcome: tally.outcome(),
            });
        }
    }
    checks
}

/// The counts of `draws` symbols of the law `p`, whose likeliest symbol is first, addressed by
/// `(seed, number)`.
pub fn counts(p: &[f64], method: Method, draws: u64, (seed, number): (u64, u64)) -> Vec<u64> {
    let key = Key::new(seed, Purpose::Check);
    let stream = 2 * number + u64::from(method == Method::Gumbel32);
    let logits: Vec<f32> = p.iter().map(|p| p.ln() as f32).collect();
    // Enough chunks for the threads, and enough work in each.
    let chunk = (10_000_000 / p.len() as u64).clamp(64, 1 << 17);
    let count = |mut counts: Vec<u64>, at: u64| {
        let mut rng = key.at(stream, at);
        for _ in 0..chunk.min(draws - at * chunk) {
            let symbol = match method {
                Method::Exact => quantile(p, uniform(&mut rng)),
                Method::Gumbel32 => gumbel_max(&logits, &mut rng),
            };
            counts[symbol] += 1;
        }
        counts
    };
    let none = || vec![0; p.len()];
    (0..draws.div_ceil(chunk))
        .into_par_iter()
        .fold(none, count)
        .reduce(none, |mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        })
}

/// `-log(-log(level / 2^24))` in f32.
fn gumbel(level: u32) -> f32 {
    let u = level as f32 / (1 << 24) as f32;
    -(-u.ln()).ln()
}

/// The symbol with the largest `logit + gumbel`, logits descending. A block in which even the first
/// logit with the largest noise is no match is passed over: the same symbol wins without its
/// logarithms.
fn gumbel_max(logits: &[f32], rng: &mut impl Rng) -> usize {
    let mut draw = || rng.next_u32() >> 8;
    let (mut best, mut winner) = (logits[0] + gumbel(draw()), 0);
    let mut levels = [0; BLOCK];
    for (block, logits) in logits[1..].chunks(BLOCK).enumerate() {
        let levels = &mut levels[..logits.len()];
        levels.iter_mut().for_each(|level| *level = draw());
        let most = levels.iter().copied().max().unwrap_or(0);
        if logits[0] + gumbel(most) <= best {
            continue;
        }
        for (i, (logit, &level)) in logits.iter().zip(&*levels).enumerate() {
            let value = logit + gumbel(level);
            if value > best {
                (best, winner) = (value, 1 + block * BLOCK + i);
            }
        }
    }
    winner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_laws_with_the_likeliest_symbol_first() {
        for (name, p, _) in laws() {
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}");
            assert!(p.windows(2).all(|w| w[0] >= w[1]), "{name}");
        }
    }

    /// Passing over blocks changes no winner.
    #[test]
    fn blocks_that_are_passed_over_have_no_winner() {
        let logits: Vec<f32> = (0..300).map(|i| -0.02 * i as f32).collect();
        let key = Key::new(1, Purpose::Check);
        for i in 0..2000 {
            let mut rng = key.at(0, i);
            let plain = logits.iter().map(|l| l + gumbel(rng.next_u32() >> 8));
            let plain: Vec<f32> = plain.collect();
            let most = plain.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let winner = gumbel_max(&logits, &mut key.at(0, i));
            assert_eq!(plain[winner], most);
        }
    }

    /// Where the law is flat, f32 is good enough: the test does not reject what is right.
    #[test]
    fn gumbel_draws_of_likely_symbols_pass() {
        let p = [0.4, 0.3, 0.2, 0.1];
        let mut tally = Tally::default();
        tally.add(&p, &counts(&p, Method::Gumbel32, 200_000, (0, 0)));
        assert!(!tally.outcome().rejected, "{:?}", tally.outcome());
    }
}
