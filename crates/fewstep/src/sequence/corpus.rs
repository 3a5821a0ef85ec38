//! Where training and validation sequences come from.

use fewstep_ctmc::{
    Language,
    random::{Key, Purpose, index},
};

use super::{Data, RunError};
use crate::data::{Dataset, Split, Tokenizer};

/// Sequences by number: training never ends, validation is the same every time.
pub enum Corpus {
    /// The built-in language; every sequence is new.
    Language(Language),
    /// Blocks of token shards.
    Shards(Box<Dataset>),
}

/// What the sequences are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Training, by `(seed, step)`.
    Training(u64, u64),
    /// Validation.
    Validation,
}

impl Corpus {
    /// Opens the data of a run.
    pub fn open(data: &Data) -> Result<Self, RunError> {
        match data {
            Data::Language {
                symbols,
                states,
                seed,
            } => Ok(Self::Language(Language::default_with(
                *symbols, *states, *seed,
            )?)),
            Data::Shards(dir) => Ok(Self::Shards(Box::new(Dataset::open(dir)?))),
        }
    }

    /// Data symbols.
    pub fn symbols(&self) -> usize {
        match self {
            Self::Language(language) => language.symbols(),
            Self::Shards(dataset) => dataset.tokenizer().vocabulary(),
        }
    }

    /// The law of the data, where it is known.
    pub fn language(&self) -> Option<&Language> {
        match self {
            Self::Language(language) => Some(language),
            Self::Shards(_) => None,
        }
    }

    /// The tokenizer, where the data are text.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        match self {
            Self::Language(_) => None,
            Self::Shards(dataset) => Some(dataset.tokenizer()),
        }
    }

    /// A sequence as a person reads it: text, or the numbers of symbols.
    pub fn show(&self, sequence: &[usize]) -> String {
        match self.tokenizer() {
            Some(tokenizer) => {
                let tokens: Vec<u32> = sequence.iter().map(|&s| s as u32).collect();
                tokenizer.decode(&tokens)
            }
            None => {
                let numbers: Vec<String> = sequence.iter().map(usize::to_string).collect();
                numbers.join(" ")
            }
        }
    }

    /// `count` sequences of `length`, one after the other.
    pub fn sequences(
        &self,
        what: Use,
        count: usize,
        length: usize,
    ) -> Result<Vec<usize>, RunError> {
        let (seed, step, split) = match what {
            Use::Training(seed, step) => (seed, step, Split::Train),
            Use::Validation => (u64::MAX, 0, Split::Validation),
        };
        let key = Key::new(seed, Purpose::Corpus);
        match self {
            Self::Language(language) => Ok((0..count as u64)
                .flat_map(|i| language.sample(length, &mut key.at(step, i)))
                .collect()),
            Self::Shards(dataset) => {
                let blocks = dataset.blocks(split, length)?;
                if blocks == 0 {
                    return Err(RunError::Refused(format!(
                        "the {split:?} split has fewer than {length} symbols; train with a shorter \
                         --length or prepare more data"
                    )));
                }
                let mut all = vec![0; count * length];
                for (i, out) in all.chunks_exact_mut(length).enumerate() {
                    let block = index(&mut key.at(step, i as u64), blocks);
                    dataset.block(split, length, block, out)?;
                }
                Ok(all)
            }
        }
    }
}
