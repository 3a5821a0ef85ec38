//! What can be wrong with texts, with prepared data and with what was asked for. Each message says
//! what it is, where, and what to do.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Why data could not be prepared or read.
#[derive(Debug, Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Option(String),
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// `read`, `write`.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A folder without a text.
    #[error("{}: no .txt, .md, .jsonl or .parquet file in it; name the files one by one", .0.display())]
    NoFiles(PathBuf),
    /// A source without text.
    #[error("{}: it holds no text; leave it out", .0.display())]
    Empty(PathBuf),
    /// Bytes that are no UTF-8.
    #[error("{}: no UTF-8 at byte {offset}; convert the file or pass --lossy to replace bad bytes", path.display())]
    NotUtf8 {
        /// The source.
        path: PathBuf,
        /// Where in it.
        offset: u64,
    },
    /// A NUL byte, which no text has.
    #[error("{}: a NUL at byte {offset}, so it is no text; leave the file out or pass --lossy to replace bad bytes", path.display())]
    Binary {
        /// The source.
        path: PathBuf,
        /// Where in it.
        offset: u64,
    },
    /// A document that must be held in memory and is too long for that.
    #[error("{}, line {line}: a document of more than {limit} bytes; split it or leave it out", path.display())]
    TooLong {
        /// The source.
        path: PathBuf,
        /// Where the document begins, from 1.
        line: u64,
        /// The most it may have.
        limit: usize,
    },
    /// A line or a row that holds no text under the expected name.
    #[error("{}, line {line}: {why}", path.display())]
    Record {
        /// The source.
        path: PathBuf,
        /// Which, from 1.
        line: u64,
        /// What is wrong and what to do.
        why: String,
    },
    /// A source that this program was built without.
    #[error("{}: this program was built without Parquet; build it with --features parquet", .0.display())]
    NoParquet(PathBuf),
    /// A Parquet file that cannot be read.
    #[error("{}: {why}", path.display())]
    Parquet {
        /// The source.
        path: PathBuf,
        /// What its reader said.
        why: String,
    },
    /// A file that is no picture, or none that is taken.
    #[error("{}: {why}", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// A source that was written to while it was read.
    #[error(
        "the sources changed while they were read; run the command again when they are at rest"
    )]
    Changed,
    /// Nothing to train on.
    #[error(
        "no training symbols came out: there is too little text for this length or this validation fraction; lower one of them"
    )]
    NoTokens,
    /// Someone else is at work there.
    #[error("{}: data are being prepared there by another process; wait for it or choose another directory", .0.display())]
    Busy(PathBuf),
    /// The directory holds data that were prepared in another way.
    #[error("{} was prepared otherwise: {what}; choose another directory or pass --overwrite", directory.display())]
    Different {
        /// The directory.
        directory: PathBuf,
        /// Each difference.
        what: String,
    },
    /// A manifest that is not ours.
    #[error("{}: no manifest of prepared data ({why}); name a directory that `fewstep data` made, or another one", path.display())]
    NoManifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Prepared data that are not as their manifest says.
    #[error("{}: {why}; prepare the data again with --overwrite", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Blocks that the data do not have.
    #[error("{0}")]
    Block(String),
    /// A tokenizer that cannot be made or does not encode.
    #[error("tokenizer {name}: {why}")]
    Tokenizer {
        /// Its name or path.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A character that the table of a corpus does not have.
    #[error(
        "the character {0:?} does not occur in the data; leave it out or use another tokenizer"
    )]
    Character(char),
    /// Stopped from outside, to be continued.
    #[error("stopped; the same command continues")]
    Stopped,
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::file("read", path)
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::file("write", path)
    }

    fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}
