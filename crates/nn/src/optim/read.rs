//! Reads a training state back, trusting nothing in the file.
//!
//! Sizes are compared with the file's length before anything of that size is allocated. Whatever
//! is missing is listed at once.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use safetensors::tensor::Metadata;

use super::file::{BLOCK, FORMAT, PREFIX, VERSION};
use super::{
    AdamW, Averaging, Ema, Matrix, Muon, Settings, StateError, Stored, TrainState, Trainable,
};

/// A longer header is not one of ours.
const MAX_HEADER: u64 = 1 << 24;

/// What can be wrong, before the file is named.
enum Problem {
    Io(io::Error),
    Missing(Vec<String>),
    Invalid(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A problem with the file's contents.
fn invalid(reason: impl Display) -> Problem {
    Problem::Invalid(reason.to_string())
}

/// The state in the file at `path`.
pub(super) fn state<T: Stored>(path: &Path) -> Result<TrainState<T>, StateError> {
    let file = path.to_path_buf();
    read(path).map_err(|problem| match problem {
        Problem::Io(source) => StateError::Read { file, source },
        Problem::Missing(names) => StateError::Missing { file, names },
        Problem::Invalid(reason) => StateError::Invalid { file, reason },
    })
}

fn read<T: Stored>(path: &Path) -> Result<TrainState<T>, Problem> {
    let mut reader = Reader::open(path)?;
    let Parts {
        with_ema,
        with_muon,
    } = reader.find_all()?;
    let total = reader.length::<T>("parameters")?;
    let ranges = ranges(&reader.scalars["trainable"])?;
    let trainable = Trainable::new(total, &ranges).map_err(invalid)?;
    let settings = Settings {
        beta1: reader.scalar("adamw.beta1")?,
        beta2: reader.scalar("adamw.beta2")?,
        eps: reader.scalar("adamw.eps")?,
        weight_decay: reader.scalar("adamw.weight_decay")?,
    };
    settings.check().map_err(invalid)?;
    let count = trainable.count();
    let mut adamw = trainable.clone();
    let muon = match with_muon {
        false => None,
        true => {
            let matrices = matrices(&reader.scalars["muon.matrices"])?;
            let beta = reader.scalar("muon.beta")?;
            // Nothing of the promised size is allocated before it is known to be trained.
            let ranges: Option<Vec<_>> = matrices.iter().map(Matrix::checked_range).collect();
            let ranges = ranges.ok_or_else(|| invalid("muon.matrices are beyond memory"))?;
            adamw = trainable.without(&ranges).map_err(invalid)?;
            let mut muon = Muon::new(total, matrices, beta).map_err(invalid)?;
            muon.momentum = reader.values("muon.momentum", count - adamw.count())?;
            Some(muon)
        }
    };
    let ema = match with_ema {
        false => None,
        true => {
            let averaging = Averaging {
                decay: reader.scalar("ema.decay")?,
                warm_up: reader.scalar("ema.warm_up")?,
            };
            averaging.check().map_err(invalid)?;
            Some(Ema {
                averaging,
                trainable: trainable.clone(),
                shadow: reader.values("ema.shadow", count)?,
                updates: reader.scalar("ema.updates")?,
            })
        }
    };
    Ok(TrainState {
        step: reader.scalar("step")?,
        seed: reader.scalar("seed")?,
        parameters: reader.values("parameters", total)?,
        optimizer: AdamW {
            settings,
            mean: reader.values("adamw.mean", adamw.count())?,
            square: reader.values("adamw.square", adamw.count())?,
            updates: reader.scalar("adamw.updates")?,
            trainable: adamw,
        },
        trainable,
        muon,
        ema,
    })
}

/// The ranges `a..b,c..d` of text.
fn ranges(text: &str) -> Result<Vec<Range<usize>>, Problem> {
    let range = |text: &str| {
        let (start, end) = text.split_once("..")?;
        Some(start.parse().ok()?..end.parse().ok()?)
    };
    let parts = text.split(',').filter(|_| !text.is_empty());
    parts
        .map(|part| range(part).ok_or_else(|| invalid(format!("trainable is {text:?}"))))
        .collect()
}

/// The matrices `start:rowsxcols,...` of text.
fn matrices(text: &str) -> Result<Vec<Matrix>, Problem> {
    let matrix = |text: &str| {
        let (start, sizes) = text.split_once(':')?;
        let (rows, cols) = sizes.split_once('x')?;
        Some(Matrix {
            start: start.parse().ok()?,
            rows: rows.parse().ok()?,
            cols: cols.parse().ok()?,
        })
    };
    let parts = text.split(',').filter(|_| !text.is_empty());
    parts
        .map(|part| matrix(part).ok_or_else(|| invalid(format!("muon.matrices is {text:?}"))))
        .collect()
}

/// What a file has beside the parameters and AdamW's state.
struct Parts {
    with_ema: bool,
    with_muon: bool,
}

/// An open file whose header fits its length.
struct Reader {
    file: File,
    /// Where the tensors begin.
    start: u64,
    header: Metadata,
    scalars: HashMap<String, String>,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, Problem> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        if length < PREFIX as u64 {
            return Err(invalid(format!("it is {length} bytes long")));
        }
        let mut prefix = [0; PREFIX];
        file.read_exact(&mut prefix)?;
        let size = u64::from_le_bytes(prefix);
        if size > MAX_HEADER.min(length - PREFIX as u64) {
            return Err(invalid(format!(
                "a header of {size} bytes does not fit a file of {length} bytes"
            )));
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header)?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| invalid(format!("its header does not parse: {error}")))?;
        let start = PREFIX as u64 + size;
        let (promised, present) = (header.data_len() as u64, length - start);
        if promised != present {
            return Err(invalid(format!(
                "its header promises {promised} bytes of tensors and {present} are there"
            )));
        }
        let scalars = header.metadata().clone().unwrap_or_default();
        Ok(Self {
            file,
            start,
            header,
            scalars,
        })
    }

    /// Checks that all parts are there, and which of those that may be missing are among them.
    fn find_all(&self) -> Result<Parts, Problem> {
        let format = self.scalars.get("format").map_or("", String::as_str);
        if format != FORMAT {
            return Err(invalid(format!(
                "its format is {format:?}, expected {FORMAT:?}"
            )));
        }
        let version = self.scalars.get("version").map_or("", String::as_str);
        if version != VERSION {
            return Err(invalid(format!(
                "its version is {version:?}, and this program reads version {VERSION}"
            )));
        }
        let mut tensors = vec!["parameters", "adamw.mean", "adamw.square"];
        let mut scalars = vec![
            "step",
            "seed",
            "trainable",
            "adamw.updates",
            "adamw.beta1",
            "adamw.beta2",
            "adamw.eps",
            "adamw.weight_decay",
        ];
        let ema = ["ema.updates", "ema.decay", "ema.warm_up"];
        let muon = ["muon.beta", "muon.matrices"];
        let has = |tensor: &str, scalars: &[&str]| {
            self.header.info(tensor).is_some()
                || scalars.iter().any(|name| self.scalars.contains_key(*name))
        };
        let with_ema = has("ema.shadow", &ema);
        if with_ema {
            tensors.push("ema.shadow");
            scalars.extend(ema);
        }
        let with_muon = has("muon.momentum", &muon);
        if with_muon {
            tensors.push("muon.momentum");
            scalars.extend(muon);
        }
        tensors.retain(|name| self.header.info(name).is_none());
        scalars.retain(|name| !self.scalars.contains_key(*name));
        let tensors = tensors.iter().map(|name| format!("the tensor {name}"));
        let scalars = scalars.iter().map(|name| format!("the value {name}"));
        let missing: Vec<String> = tensors.chain(scalars).collect();
        match missing.is_empty() {
            true => Ok(Parts {
                with_ema,
                with_muon,
            }),
            false => Err(Problem::Missing(missing)),
        }
    }

    /// A scalar that [`Self::find_all`] has found.
    fn scalar<V: FromStr>(&self, name: &str) -> Result<V, Problem> {
        let text = &self.scalars[name];
        let wrong = |_| invalid(format!("{name} is {text:?}"));
        text.parse().map_err(wrong)
    }

    /// The length of a tensor, which must be flat and of the right type.
    fn length<T: Stored>(&self, name: &str) -> Result<usize, Problem> {
        let info = self.header.info(name).ok_or_else(|| invalid(name))?;
        if info.dtype != T::DTYPE {
            let (found, expected) = (info.dtype, T::DTYPE);
            return Err(invalid(format!(
                "the tensor {name} is of {found}, expected {expected}"
            )));
        }
        match info.shape[..] {
            [length] => Ok(length),
            _ => Err(invalid(format!(
                "the tensor {name} has the shape {:?}, expected one dimension",
                info.shape
            ))),
        }
    }

    /// A tensor of `expected` numbers.
    fn values<T: Stored>(&mut self, name: &str, expected: usize) -> Result<Vec<T>, Problem> {
        let length = self.length::<T>(name)?;
        if length != expected {
            return Err(invalid(format!(
                "the tensor {name} has {length} numbers, expected {expected}"
            )));
        }
        let offset = self.header.info(name).map_or(0, |info| info.data_offsets.0);
        self.file
            .seek(SeekFrom::Start(self.start + offset as u64))?;
        let mut values = Vec::with_capacity(length);
        let mut bytes = vec![0; BLOCK.min(length * T::SIZE)];
        while values.len() < length {
            let count = (length - values.len()).min(BLOCK / T::SIZE);
            let bytes = &mut bytes[..count * T::SIZE];
            self.file.read_exact(bytes)?;
            T::decode(bytes, &mut values);
        }
        Ok(values)
    }
}
