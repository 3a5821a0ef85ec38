//! Numbers about generated sequences: how likely they are under a language, known or fitted to the
//! data, and how varied they are. A low likelihood alone can be bought by repeating oneself, so the
//! two belong together.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use fewstep_ctmc::Language;
use serde::{Deserialize, Serialize};

/// What is measured of a set of sequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Exact negative log-likelihood a symbol under the language, in nats.
    pub nll: f64,
    /// Its standard error.
    pub nll_error: f64,
    /// Entropy of a sequence's own symbol frequencies, in nats, mean over sequences (DUO's).
    pub entropy: f64,
    /// Total variation between the pairs of neighbours and the language's.
    pub bigram: f64,
    /// The same of three neighbours, where a table of them fits. With few sequences most of it is
    /// that they are few: compare with as many sequences of the language itself.
    #[serde(default)]
    pub trigram: Option<f64>,
    /// The same of symbols [`SKIP`] positions apart.
    #[serde(default)]
    pub skipgram: f64,
    /// The share of pairs of neighbours that are different from all others.
    pub distinct: f64,
}

/// How far apart the symbols of a skip-gram are.
pub const SKIP: usize = 4;

/// How varied a set of sequences is; needs no judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diversity {
    /// Entropy of a sequence's own symbol frequencies, in nats, mean over sequences (DUO's).
    pub entropy: f64,
    /// The share of runs of one, two and three symbols that are different from all others.
    pub distinct: [f64; 3],
    /// The share of runs of four symbols that stood in the same sequence before.
    pub repetition: f64,
}

/// The variety of sequences of `length`, one after the other.
pub fn diversity(sequences: &[usize], length: usize) -> Diversity {
    let each = || sequences.chunks_exact(length);
    let count = each().len().max(1) as f64;
    let share = |new: usize, all: usize| new as f64 / all.max(1) as f64;
    let distinct = [1, 2, 3].map(|n| {
        let runs = || each().flat_map(move |x| x.windows(n));
        let kinds: HashSet<&[usize]> = runs().collect();
        share(kinds.len(), runs().count())
    });
    let (mut again, mut all) = (0, 0);
    for x in each() {
        let mut seen = HashSet::new();
        for run in x.windows(4) {
            again += usize::from(!seen.insert(run));
            all += 1;
        }
    }
    Diversity {
        entropy: each().map(unigram_entropy).sum::<f64>() / count,
        distinct,
        repetition: share(again, all),
    }
}

/// Measures sequences of `length`, one after the other.
pub fn quality(language: &Language, sequences: &[usize], length: usize) -> Quality {
    let each = || sequences.chunks_exact(length);
    let count = sequences.len() / length;
    let nlls: Vec<f64> = each()
        .map(|x| -language.log_likelihood(x) / length as f64)
        .collect();
    let mean = nlls.iter().sum::<f64>() / count as f64;
    let variance = nlls.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let spread = (variance / (count.max(2) - 1) as f64 / count as f64).sqrt();
    let entropy = each().map(unigram_entropy).sum::<f64>() / count as f64;
    let symbols = language.symbols();
    // The total variation between a law of symbols at some places and how often they are there.
    let apart = |law: &[f64], places: &[usize]| {
        let mut counts = vec![0.0; law.len()];
        let last = places[places.len() - 1];
        for x in each() {
            for first in 0..length.saturating_sub(last) {
                let at = |i, place: &usize| i * symbols + x[first + place];
                counts[places.iter().fold(0, at)] += 1.0;
            }
        }
        let total: f64 = counts.iter().sum::<f64>().max(1.0);
        let sum: f64 = law
            .iter()
            .zip(&counts)
            .map(|(p, c)| (p - c / total).abs())
            .sum();
        (
            sum / 2.0,
            counts.iter().filter(|c| **c > 0.0).count() as f64 / total,
        )
    };
    let (bigram, distinct) = apart(&language.bigram(), &[0, 1]);
    Quality {
        nll: mean,
        nll_error: spread,
        entropy,
        bigram,
        trigram: language.trigram().ok().map(|law| apart(&law, &[0, 1, 2]).0),
        skipgram: apart(&language.skipgram(SKIP), &[0, SKIP]).0,
        distinct,
    }
}

/// The entropy of a sequence's own symbol frequencies, in nats.
pub fn unigram_entropy(x: &[usize]) -> f64 {
    entropy(x)
}

/// The entropy of the frequencies of things, in nats.
pub(crate) fn entropy<S: Hash + Eq>(seen: impl IntoIterator<Item = S>) -> f64 {
    let (mut counts, mut n) = (HashMap::new(), 0.0);
    for thing in seen {
        *counts.entry(thing).or_insert(0usize) += 1;
        n += 1.0;
    }
    // Summed in order: a hash map has none, and the last bits would differ.
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable();
    counts
        .iter()
        .map(|&c| -(c as f64 / n) * (c as f64 / n).ln())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variety_is_counted() {
        let x = [1, 2, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8];
        let found = diversity(&x, 6);
        // 8 symbols of 12, 7 pairs of 10, 6 triples of 8; of six runs of four, 1212 comes again.
        assert_eq!(found.distinct, [8.0 / 12.0, 7.0 / 10.0, 6.0 / 8.0]);
        assert_eq!(found.repetition, 1.0 / 6.0);
        let wanted = (2f64.ln() + 6f64.ln()) / 2.0;
        assert!((found.entropy - wanted).abs() < 1e-12);
    }
}
