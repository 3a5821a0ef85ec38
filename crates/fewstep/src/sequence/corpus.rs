//! Where training and validation sequences come from.

use fewstep_ctmc::{
    Language,
    language::Fit,
    random::{Key, Purpose, index},
};

use super::{Data, RunError};
use crate::data::{Dataset, Split, Tokenizer};

/// A language is fitted to data of at most so many symbols, with so many hidden states, on so much
/// of the training text, in so many rounds.
const FITTED_SYMBOLS: usize = 512;
const FITTED_STATES: usize = 48;
const FITTED_TOKENS: usize = 50_000;
const FITTED_ROUNDS: usize = 25;

/// How the symbols of a small built-in language are shown.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";

/// Sequences by number: training never ends, validation is the same every time.
pub enum Corpus {
    /// The built-in language; every sequence is new.
    Language(Language),
    /// Blocks of token shards.
    Shards(Box<Dataset>),
    /// No sequences: so many symbols, and how they are read.
    Nothing(usize, Option<Tokenizer>),
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
            Data::Nothing { symbols, tokenizer } => {
                let tokenizer = tokenizer.as_deref().map(Tokenizer::named).transpose()?;
                Ok(Self::Nothing(*symbols, tokenizer))
            }
        }
    }

    /// Data symbols.
    pub fn symbols(&self) -> usize {
        match self {
            Self::Language(language) => language.symbols(),
            Self::Shards(dataset) => dataset.tokenizer().vocabulary(),
            Self::Nothing(symbols, _) => *symbols,
        }
    }

    /// The law of the data, where it is known.
    pub fn language(&self) -> Option<&Language> {
        match self {
            Self::Language(language) => Some(language),
            Self::Shards(_) | Self::Nothing(..) => None,
        }
    }

    /// A language to judge samples of `length` by: the law of the data, or one fitted to them if they
    /// have few symbols; and whether it is the law.
    pub fn judge(&self, length: usize) -> Result<Option<(Language, bool)>, RunError> {
        if let Some(language) = self.language() {
            return Ok(Some((language.clone(), true)));
        }
        let dataset = match self {
            Self::Shards(dataset) if self.symbols() <= FITTED_SYMBOLS => dataset,
            _ => return Ok(None),
        };
        let symbols = dataset.tokenizer().vocabulary();
        let count = FITTED_TOKENS.div_ceil(length);
        let all = self.sequences(Use::Training(u64::MAX, 0), count, length)?;
        let sequences: Vec<&[usize]> = all.chunks_exact(length).collect();
        let fit = Fit {
            iterations: FITTED_ROUNDS,
            ..Fit::new(symbols, FITTED_STATES)
        };
        let (language, _) = Language::fit(&sequences, fit, |_, _| {})?;
        Ok(Some((language, false)))
    }

    /// The tokenizer, where the data are text.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        match self {
            Self::Language(_) => None,
            Self::Shards(dataset) => Some(dataset.tokenizer()),
            Self::Nothing(_, tokenizer) => tokenizer.as_ref(),
        }
    }

    /// A sequence as a person reads it: text, or letters for the symbols, or their numbers.
    pub fn show(&self, sequence: &[usize]) -> String {
        match self.tokenizer() {
            Some(tokenizer) => {
                let tokens: Vec<u32> = sequence.iter().map(|&s| s as u32).collect();
                tokenizer.decode(&tokens)
            }
            None if self.has_letters() => {
                let letter = |&s: &usize| LETTERS.get(s).map_or('?', |&b| char::from(b));
                sequence.iter().map(letter).collect()
            }
            None => {
                let numbers: Vec<String> = sequence.iter().map(usize::to_string).collect();
                numbers.join(" ")
            }
        }
    }

    fn has_letters(&self) -> bool {
        self.symbols() <= LETTERS.len()
    }

    /// What stands between two symbols that are shown: numbers need a space, text does not.
    pub fn separator(&self) -> &'static str {
        if self.tokenizer().is_some() || self.has_letters() {
            ""
        } else {
            " "
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
            Self::Nothing(..) => Err(RunError::Refused(
                "the checkpoint came without data; give --data".into(),
            )),
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
