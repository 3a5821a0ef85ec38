//! What can be wrong with a request to this crate. A message says what and what to do.

/// An invalid request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The state space cannot be enumerated.
    #[error(
        "{symbols}^{coords} states are too many to enumerate (at most {limit}); \
         use fewer symbols or fewer coordinates"
    )]
    TooManyStates {
        /// State symbols, the mask included.
        symbols: usize,
        /// Coordinates.
        coords: usize,
        /// Most states of this kind of table.
        limit: usize,
    },
    /// A number is outside the range where it means something.
    #[error("{what} is {value}; it must be {range}")]
    OutOfRange {
        /// The quantity.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// A sampling grid is not `0 = tau_0 < ... < tau_K = 1`.
    #[error("the grid must increase strictly from 0 to 1, but {detail}")]
    Grid {
        /// Where it fails.
        detail: String,
    },
    /// A distribution does not sum to one or has a negative or non-finite entry.
    #[error("{what} is not a probability distribution: {detail}")]
    Distribution {
        /// The quantity.
        what: &'static str,
        /// Where it fails.
        detail: String,
    },
}

impl Error {
    /// An [`Error::OutOfRange`] for `value`.
    pub fn range(what: &'static str, value: impl ToString, range: &'static str) -> Self {
        Self::OutOfRange {
            what,
            value: value.to_string(),
            range,
        }
    }
}
