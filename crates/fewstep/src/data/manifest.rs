//! The manifest of prepared data: what was asked for, what it was made of, what came out.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Error, tokenizer::Description};

/// Its file.
pub(super) const FILE: &str = "manifest.json";
/// What says that a manifest is one of these.
const FORMAT: &str = "fewstep-data";
const VERSION: u32 = 1;

/// Which part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// What is trained on.
    Train,
    /// What is kept aside.
    Validation,
}

impl Split {
    /// As in the names of shards.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }
}

/// How documents become one sequence of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// One after the other, the end symbol between them.
    Plain,
    /// As DUO and MDLM pack OpenWebText: of every 1000 documents, each with an end symbol, pieces
    /// of `length - 2` symbols between two end symbols; what remains is dropped.
    Wrapped {
        /// Symbols of a block.
        length: usize,
    },
    /// Each is a block of its own: pictures.
    Whole {
        /// Symbols of a block.
        length: usize,
    },
}

/// What a document is in a text file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Documents {
    /// The whole file.
    File,
    /// Lines without a blank line between them.
    BlankLines,
    /// What stands between lines that are exactly this.
    Separator(String),
}

/// What determines the prepared data, the sources apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `byte`, `char`, `gpt2` or the path of a `tokenizer.json`.
    pub tokenizer: String,
    /// How documents are put together.
    pub packing: Packing,
    /// The fraction of documents that is kept aside.
    pub validation: f64,
    /// Which documents these are.
    pub seed: u64,
    /// What a document is in a text file.
    pub documents: Documents,
    /// The field of a JSON line and the column of a Parquet file that holds the text.
    pub field: String,
    /// Whether bytes that are no text are replaced.
    pub lossy: bool,
    /// The most symbols of a shard.
    pub shard_tokens: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tokenizer: "gpt2".into(),
            packing: Packing::Plain,
            validation: 0.05,
            seed: 0,
            documents: Documents::File,
            field: "text".into(),
            lossy: false,
            shard_tokens: 64 << 20,
        }
    }
}

impl Settings {
    /// Finds what makes no sense.
    pub(super) fn check(&self) -> Result<(), Error> {
        if !(0.0..1.0).contains(&self.validation) {
            return Err(Error::Option(format!(
                "a validation fraction of {}; it must be at least 0 and less than 1",
                self.validation
            )));
        }
        if matches!(self.packing, Packing::Wrapped { length: ..3 }) {
            return Err(Error::Option(
                "wrapped blocks need a length of at least 3".into(),
            ));
        }
        if self.shard_tokens == 0 {
            return Err(Error::Option("shards need at least one symbol".into()));
        }
        Ok(())
    }

    /// Each difference from what is asked for now, in words; empty if there is none.
    pub(super) fn differences(&self, asked: &Self) -> String {
        let (old, new) = (serde_json::to_value(self), serde_json::to_value(asked));
        let (Ok(old), Ok(new)) = (old, new) else {
            return "unknown settings".into();
        };
        let fields = old.as_object().into_iter().flatten();
        let differences: Vec<String> = fields
            .filter(|(name, value)| new[name.as_str()] != **value)
            .map(|(name, value)| format!("{name} {value}, not {}", new[name.as_str()]))
            .collect();
        differences.join(", ")
    }
}

/// A file that text came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// As it was given or found.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// Documents in it.
    pub documents: u64,
}

/// A file of symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its name in the directory.
    pub file: String,
    /// Symbols in it.
    pub tokens: u64,
    /// Its SHA-256.
    pub sha256: String,
}

/// What is in a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Documents; of an only document each split has a part.
    pub documents: u64,
    /// Symbols.
    pub tokens: u64,
    /// Bytes of the text they were made of.
    pub text_bytes: u64,
    /// The files, in their order.
    pub shards: Vec<Shard>,
}

/// What prepared data are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub(super) format: String,
    pub(super) version: u32,
    /// What was asked for.
    pub settings: Settings,
    /// The tokenizer.
    pub tokenizer: Description,
    /// The number of symbols, a mask not counted.
    pub vocabulary: usize,
    /// The symbol for the end of a document.
    pub eos: Option<u32>,
    /// Bytes of a symbol in a shard, 2 or 4, little-endian.
    pub symbol_bytes: usize,
    /// How documents were divided between training and validation, in words.
    pub split: String,
    /// Where the text came from.
    pub sources: Vec<Source>,
    /// The training split.
    pub train: Part,
    /// The validation split.
    pub validation: Part,
}

impl Manifest {
    pub(super) fn format() -> (String, u32) {
        (FORMAT.into(), VERSION)
    }

    /// The manifest in a directory.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let refuse = |why: String| Error::NoManifest {
            path: path.clone(),
            why,
        };
        let text = std::fs::read_to_string(&path).map_err(|e| refuse(e.to_string()))?;
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let head: Head = serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
        if (head.format.as_str(), head.version) != (FORMAT, VERSION) {
            return Err(refuse(format!(
                "format {:?}, version {}; this program reads {FORMAT:?}, version {VERSION}",
                head.format, head.version
            )));
        }
        serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))
    }

    /// What is in a split.
    pub fn part(&self, split: Split) -> &Part {
        match split {
            Split::Train => &self.train,
            Split::Validation => &self.validation,
        }
    }
}
