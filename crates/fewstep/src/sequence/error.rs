//! Why a run could not be done.

use std::{
    io,
    path::{Path, PathBuf},
};

use fewstep_nn::optim::{NonFinite, StateError};

/// Why a run could not be done.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What was asked cannot be run.
    #[error("{0}")]
    Refused(String),
    /// A file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of a run could not be understood.
    #[error("{} is not what a run writes there: {reason}", file.display())]
    Setting {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// An impossible path or language.
    #[error(transparent)]
    Process(#[from] fewstep_ctmc::Error),
    /// Data that could not be read.
    #[error(transparent)]
    Data(#[from] crate::data::Error),
    /// An impossible network.
    #[error(transparent)]
    Network(#[from] fewstep_nn::Error),
    /// A checkpoint that could not be read or written.
    #[error(transparent)]
    Checkpoint(#[from] fewstep_nn::checkpoint::Error),
    /// A training state that could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// Training ran away.
    #[error(transparent)]
    NonFinite(#[from] NonFinite),
    /// Pictures that could not be measured.
    #[error(transparent)]
    Metric(#[from] crate::metrics::MetricError),
    /// The lab could not do its part.
    #[error(transparent)]
    Lab(#[from] crate::lab::LabError),
}

impl RunError {
    /// Of a file that was read.
    pub fn read(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_path_buf();
        |source| Self::Read { file, source }
    }

    /// Of a file that does not hold what it should.
    pub fn setting(file: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        let file = file.to_path_buf();
        move |error| Self::Setting {
            file,
            reason: error.to_string(),
        }
    }

    /// Of a file that was written.
    pub fn write(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_path_buf();
        |source| Self::Write { file, source }
    }
}
