//! Samplers that no one would want, and the data: what a measure says of them says what it is worth.

use fewstep_ctmc::{
    Language,
    random::{Key, Purpose, quantile, uniform},
};

/// Sequences that come from no chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The language itself.
    Data,
    /// Symbols by their frequency, each on its own.
    Unigram,
    /// Symbols by the frequency of neighbours.
    Bigram,
}

/// All of them.
pub const CONTROLS: [Control; 3] = [Control::Data, Control::Unigram, Control::Bigram];

impl Control {
    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Unigram => "unigram",
            Self::Bigram => "bigram",
        }
    }
}

/// `count` sequences of `length`, one after the other.
pub fn control(
    language: &Language,
    of: Control,
    (count, length): (usize, usize),
    seed: u64,
) -> Vec<usize> {
    let key = Key::new(seed, Purpose::Check);
    let (single, pairs) = (language.unigram(), language.bigram());
    let symbols = language.symbols();
    let mut all = Vec::with_capacity(count * length);
    for i in 0..count as u64 {
        let mut rng = key.at(of as u64, i);
        if of == Control::Data {
            all.extend(language.sample(length, &mut rng));
            continue;
        }
        let mut last = None;
        for _ in 0..length {
            let level = uniform(&mut rng);
            let symbol = match (of, last) {
                (Control::Bigram, Some(last)) => {
                    let row = &pairs[last * symbols..(last + 1) * symbols];
                    let total: f64 = row.iter().sum();
                    let law: Vec<f64> = row.iter().map(|p| p / total).collect();
                    quantile(&law, level)
                }
                _ => quantile(&single, level),
            };
            all.push(symbol);
            last = Some(symbol);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::evaluate::quality;

    /// Each knows what it should know: neighbours are right for data and bigrams, not for unigrams,
    /// and only data have the language's likelihood.
    #[test]
    fn controls_know_what_they_should() {
        let language = Language::default_with(16, 16, 1).unwrap();
        let [data, unigram, bigram] = CONTROLS.map(|of| {
            let x = control(&language, of, (2000, 12), 3);
            quality(&language, &x, 12)
        });
        assert!(data.bigram < 0.05 && bigram.bigram < 0.05, "{bigram:?}");
        assert!(unigram.bigram > 0.1, "{unigram:?}");
        assert!(data.nll < bigram.nll - 0.01 && bigram.nll < unigram.nll - 0.1);
    }
}
