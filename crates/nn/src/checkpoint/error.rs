//! Why a checkpoint could not be read or written.
//!
//! Every message names the file. What is wrong with single tensors is collected and told at once,
//! one line each: a user who fixes names one error at a time learns nothing about the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::dtype::Dtype;

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not what its format wants it to be.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No network of this program has these sizes, or the file contradicts itself.
    #[error("{}: {}", path.display(), what.join("; "))]
    Config {
        /// The file.
        path: PathBuf,
        /// One or more contradictions.
        what: Vec<String>,
    },
    /// Tensors are missing, unexpected, of the wrong shape or type, or damaged.
    #[error("{}: {} of its tensors do not fit:{}", path.display(), problems.len(), lines(problems))]
    Unfit {
        /// The file.
        path: PathBuf,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// Nothing in the file tells what the network was told of time.
    #[error(
        "{}: family unknown: nothing in it says whether it is MDLM, SDTT or DUO; name the family",
        path.display()
    )]
    Family {
        /// The file.
        path: PathBuf,
    },
    /// The file has the latent token of Di4C.
    #[error(
        "{}: it has Di4C's latent token (latent_projection), which this network does not evaluate; \
         it can only be loaded without it, as a different network",
        path.display()
    )]
    Latent {
        /// The file.
        path: PathBuf,
    },
    /// Averaged weights were asked for and there are none.
    #[error("{}: it has no averaged (EMA) weights", path.display())]
    NoAverage {
        /// The file.
        path: PathBuf,
    },
    /// Weights that are infinite or not a number.
    #[error("{}: weights are not finite:{}", path.display(), lines(tensors))]
    NonFinite {
        /// The file.
        path: PathBuf,
        /// The tensors that have them.
        tensors: Vec<NonFinite>,
    },
    /// No file, and nothing to be had under this name.
    #[error("{name}: {what}")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Where it was looked for and what to do.
        what: String,
    },
}

impl Error {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }

    pub(super) fn format(path: &Path, what: impl Into<String>) -> Self {
        Self::Format {
            path: path.into(),
            what: what.into(),
        }
    }

    pub(crate) fn config(path: &Path, what: impl Into<String>) -> Self {
        Self::Config {
            path: path.into(),
            what: vec![what.into()],
        }
    }
}

/// A tensor with weights that are infinite or not a number.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NonFinite {
    /// Its name in the network.
    pub name: String,
    /// How many of its values.
    pub count: usize,
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} values", self.name, self.count)
    }
}

/// What is wrong with one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The network needs it and the file does not have it.
    Missing {
        /// Its name in the network.
        name: String,
        /// The shape it should have.
        shape: Vec<usize>,
    },
    /// The file has it and the network has no place for it.
    Unexpected {
        /// Its name in the file.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// It has another shape than the network's.
    Shape {
        /// Its name in the file.
        name: String,
        /// Its shape in the file.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// Its values are not floating-point numbers this program reads.
    Dtype {
        /// Its name in the file.
        name: String,
        /// What they are.
        dtype: Dtype,
    },
    /// Two tensors have the same name once the prefixes are gone.
    Clash {
        /// The common name.
        name: String,
        /// The two names in the file.
        files: [String; 2],
    },
    /// It cannot be read.
    Broken {
        /// Its name in the file.
        name: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, shape } => write!(f, "missing {} {shape:?}", plain(name)),
            Self::Unexpected { name, shape } => {
                write!(f, "unexpected {} {shape:?}", plain(name))
            }
            Self::Shape {
                name,
                found,
                expected,
            } => write!(
                f,
                "wrong shape {}: {found:?} where {expected:?} belongs",
                plain(name)
            ),
            Self::Dtype { name, dtype } => write!(
                f,
                "wrong dtype {}: {dtype}; weights are F16, BF16, F32 or F64",
                plain(name)
            ),
            Self::Clash {
                name,
                files: [a, b],
            } => write!(
                f,
                "twice {}: as {} and as {}",
                plain(name),
                plain(a),
                plain(b)
            ),
            Self::Broken { name, why } => write!(f, "unreadable {}: {why}", plain(name)),
        }
    }
}

/// A name out of a file as it may be printed: without control characters, which a terminal obeys.
pub(super) fn plain(name: &str) -> String {
    const MOST: usize = 200;
    let short: String = name.chars().take(MOST).collect();
    let mark = if short.len() < name.len() { "..." } else { "" };
    format!("{}{mark}", short.escape_debug())
}

fn lines<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("\n  {item}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_tensor_and_the_file_first() {
        let error = Error::Unfit {
            path: "some/model.ckpt".into(),
            problems: vec![
                Problem::Missing {
                    name: "a.weight".into(),
                    shape: vec![2, 3],
                },
                Problem::Unexpected {
                    name: "b\u{1b}[2J".into(),
                    shape: vec![],
                },
            ],
        };
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("some/model.ckpt: 2 "));
        assert_eq!(lines[1], "  missing a.weight [2, 3]");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(plain(&"x".repeat(1000)).len(), 203);
        assert_eq!(plain("x"), "x");
    }
}
