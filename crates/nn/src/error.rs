//! What can be wrong with a network's description.

/// Why a network could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Sizes that no network can have.
    #[error("{0}")]
    Config(String),
}
