//! Where training and validation sequences come from.

use fewstep_ctmc::{
    Language,
    language::{Concentration, Fit},
    random::{Key, Purpose, index, uniform},
};
use fewstep_nn::dit::Positions;

use super::{Data, RunError};
use crate::{
    data::{Dataset, Pictures, Split, Tokenizer},
    image::{Attributes, Coder, Figures, Format, SHAPES},
};

/// A language is fitted to data of at most so many symbols, with so many hidden states, on so much
/// of the training text, in so many rounds.
const FITTED_SYMBOLS: usize = 512;
const FITTED_STATES: usize = 48;
const FITTED_TOKENS: usize = 50_000;
const FITTED_ROUNDS: usize = 25;

/// One in so many training pictures does not say its class, so that the network knows pictures of no class
/// too, which guidance asks for.
const UNSAID: usize = 10;

/// How the symbols of a small built-in language are shown.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";

/// Sequences by number: training never ends, validation is the same every time.
pub enum Corpus {
    /// The built-in language; every sequence is new.
    Language(Language),
    /// The built-in pictures, in pixels or in a tokenizer's codes; every draw is new.
    Figures(Box<Figures>, Option<Box<Coder>>),
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
                transition,
                emission,
            } => {
                let concentration = Concentration {
                    transition: *transition,
                    emission: *emission,
                };
                let language = Language::random(*symbols, *states, *seed, concentration)?;
                Ok(Self::Language(language))
            }
            Data::Figures => Ok(Self::Figures(Box::default(), None)),
            Data::Shards(dir) => Ok(match Coder::of_figures(dir)? {
                Some(coder) => {
                    let figures = Figures::default().coded(&coder);
                    Self::Figures(Box::new(figures), Some(Box::new(coder)))
                }
                None => Self::Shards(Box::new(Dataset::open(dir)?)),
            }),
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
            Self::Figures(_, None) => Format::FIGURES.symbols(),
            Self::Figures(_, Some(coder)) => coder.codes(),
            Self::Shards(dataset) => match dataset.tokenizer() {
                Tokenizer::Pictures(pictures) => pictures.symbols(),
                tokenizer => tokenizer.vocabulary(),
            },
            Self::Nothing(symbols, _) => *symbols,
        }
    }

    /// What pixels look like, where the data are pictures.
    pub fn format(&self) -> Option<Format> {
        match self {
            Self::Figures(..) => Some(Format::FIGURES),
            _ => self.pictures().map(|pictures| pictures.format),
        }
    }

    /// What made codes of the pictures, if they are codes.
    pub fn coder(&self) -> Option<&Coder> {
        match self {
            Self::Figures(_, coder) => coder.as_deref(),
            Self::Shards(dataset) => dataset.coder(),
            _ => None,
        }
    }

    /// The cells of a picture, where the data are pictures: pixels, or patches with a code. Rows and
    /// columns.
    fn cells(&self) -> Option<(usize, usize)> {
        match self.coder().map(Coder::cells) {
            Some(cells) => Some((cells.rows, cells.columns)),
            None => self.format().map(|format| (format.height, format.width)),
        }
    }

    /// The length of a picture's sequence, where the data are pictures.
    pub fn length(&self) -> Option<usize> {
        self.cells().map(|(rows, columns)| rows * columns)
    }

    /// The pixels of sequences of pictures, one after the other; what is masked is no pixel's symbol.
    pub fn pixels(&self, sequences: &[usize]) -> Vec<usize> {
        match self.coder() {
            Some(coder) => coder.decode(sequences),
            None => sequences.to_vec(),
        }
    }

    /// At most `count` pictures of the validation, in pixels and in no order, of which none is taken twice: as
    /// they are in the data, or as their codes show them where the data have no pixels.
    pub fn validation_pictures(&self, count: usize) -> Result<Vec<usize>, RunError> {
        let key = Key::new(u64::MAX, Purpose::Corpus);
        match self {
            Self::Figures(figures, _) => {
                let one = |i| figures.picture(figures.sample(&mut key.at(0, i))).iter();
                Ok((0..count as u64).flat_map(one).copied().collect())
            }
            Self::Shards(dataset) => {
                let length = self.length().unwrap_or(1);
                let mut block = vec![0; length + self.given()];
                let mut left: Vec<usize> =
                    (0..dataset.blocks(Split::Validation, block.len())?).collect();
                let (mut rng, mut all) = (key.at(0, 0), Vec::new());
                for _ in 0..count.min(left.len()) {
                    let next = left.swap_remove(index(&mut rng, left.len()));
                    dataset.block(Split::Validation, block.len(), next, &mut block)?;
                    all.extend_from_slice(&block[..length]);
                }
                Ok(self.pixels(&all))
            }
            Self::Language(_) | Self::Nothing(..) => {
                Err(RunError::Refused("the data are no pictures".into()))
            }
        }
    }

    /// How a network tells positions apart: those of pictures are cells.
    pub fn positions(&self) -> Positions {
        self.cells()
            .map_or(Positions::Line, |(rows, columns)| Positions::Grid {
                rows,
                columns,
            })
    }

    /// What the shards hold, if they hold pictures.
    fn pictures(&self) -> Option<&Pictures> {
        match self {
            Self::Shards(dataset) => match dataset.tokenizer() {
                Tokenizer::Pictures(pictures) => Some(pictures),
                _ => None,
            },
            _ => None,
        }
    }

    /// The names of the classes; none if the data have none.
    pub fn classes(&self) -> Vec<String> {
        match self {
            Self::Figures(..) => SHAPES.map(String::from).to_vec(),
            _ => self
                .pictures()
                .map_or_else(Vec::new, |pictures| pictures.classes.clone()),
        }
    }

    /// Labels: the classes and that none is said; 0 if the data have no classes.
    pub fn labels(&self) -> usize {
        match self.classes().len() {
            0 => 0,
            classes => classes + 1,
        }
    }

    /// The symbol of a label: behind the data's symbols and the place of a mask. The label after the
    /// last class says none.
    pub fn label(&self, label: usize) -> usize {
        self.symbols() + 1 + label
    }

    /// The symbols of all classes.
    pub fn class_labels(&self) -> Vec<usize> {
        let classes = 0..self.classes().len();
        classes.map(|class| self.label(class)).collect()
    }

    /// Labels in turn, one in so many of which says no class, as in training: for the sequences that a method
    /// makes itself. None if the data have no classes.
    pub fn labels_in_turn(&self) -> Vec<usize> {
        let classes = self.class_labels();
        let turn = |i: usize| match (i + 1) % UNSAID {
            0 => self.label(classes.len()),
            _ => classes[(i - i / UNSAID) % classes.len()],
        };
        (0..UNSAID * classes.len()).map(turn).collect()
    }

    /// Symbols that are given behind a sequence: its label.
    pub fn given(&self) -> usize {
        usize::from(self.labels() > 0)
    }

    /// The law of the data, where it is known.
    pub fn language(&self) -> Option<&Language> {
        match self {
            Self::Language(language) => Some(language),
            _ => None,
        }
    }

    /// A language to judge samples of `length` by: the law of the data, or one fitted to them if they
    /// have few symbols; and whether it is the law.
    pub fn judge(&self, length: usize) -> Result<Option<(Language, bool)>, RunError> {
        if let Some(language) = self.language() {
            return Ok(Some((language.clone(), true)));
        }
        let dataset = match self {
            Self::Shards(dataset)
                if self.symbols() <= FITTED_SYMBOLS && self.format().is_none() =>
            {
                dataset
            }
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
            _ if self.format().is_some() => None,
            Self::Language(_) | Self::Figures(..) => None,
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

    /// Whether pictures are of this length.
    fn check(&self, length: usize) -> Result<(), RunError> {
        match self.length().filter(|&wanted| wanted != length) {
            Some(wanted) => Err(RunError::Refused(format!(
                "the pictures have {wanted} {}, not {length}",
                if self.coder().is_some() {
                    "codes"
                } else {
                    "pixels"
                },
            ))),
            None => Ok(()),
        }
    }

    /// `count` sequences of `length`, one after the other, each with its label behind it where the data
    /// have classes.
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
            Self::Figures(figures, _) => {
                self.check(length)?;
                let one = |i: u64| {
                    let mut rng = key.at(step, i);
                    let number = figures.sample(&mut rng);
                    let unsaid = uniform(&mut rng) < 1.0 / UNSAID as f64 && split == Split::Train;
                    let class = Attributes::numbered(number).shape;
                    let label = self.label(if unsaid { SHAPES.len() } else { class });
                    let sequence = figures.sequence(number).iter().copied();
                    sequence.chain([label]).collect::<Vec<usize>>()
                };
                Ok((0..count as u64).flat_map(one).collect())
            }
            Self::Nothing(..) => Err(RunError::Refused(
                "the checkpoint came without data; give --data".into(),
            )),
            Self::Shards(dataset) => {
                let given = self.given();
                self.check(length)?;
                let length = length + given;
                let blocks = dataset.blocks(split, length)?;
                if blocks == 0 {
                    return Err(RunError::Refused(format!(
                        "the {split:?} split has fewer than {length} symbols; train with a shorter \
                         --length or prepare more data"
                    )));
                }
                let mut all = vec![0; count * length];
                for (i, out) in all.chunks_exact_mut(length).enumerate() {
                    let mut rng = key.at(step, i as u64);
                    let block = index(&mut rng, blocks);
                    dataset.block(split, length, block, out)?;
                    if let (1, Some(label)) = (given, out.last_mut()) {
                        let unsaid =
                            uniform(&mut rng) < 1.0 / UNSAID as f64 && split == Split::Train;
                        let class = label.saturating_sub(self.symbols());
                        *label = self.label(if unsaid { self.labels() - 1 } else { class });
                    }
                }
                Ok(all)
            }
        }
    }
}
