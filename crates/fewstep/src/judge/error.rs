//! Why a text could not be judged.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a text could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold a judge.
    #[error("{} cannot judge: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// What was asked cannot be done.
    #[error("{0}")]
    Refused(String),
    /// Whoever watched said to stop.
    #[error("stopped")]
    Stopped,
}

#[cfg_attr(not(feature = "judge"), expect(dead_code))]
impl JudgeError {
    /// Of a file that was read.
    pub(super) fn read(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_path_buf();
        |source| Self::Read { file, source }
    }

    /// Of a file that does not hold what it should. A message of many lines, as candle's with a
    /// backtrace, is cut to its first.
    pub(super) fn file(file: &Path, why: impl ToString) -> Self {
        let why = why.to_string();
        Self::File {
            file: file.to_path_buf(),
            why: why.lines().next().unwrap_or_default().into(),
        }
    }
}

#[cfg(feature = "judge")]
impl From<candle_core::Error> for JudgeError {
    fn from(error: candle_core::Error) -> Self {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        Self::Refused(format!("the judge could not read the samples: {line}"))
    }
}
