//! A training state as one file that is always whole.
//!
//! `state.safetensors` holds the tensors `parameters`, `adamw.mean`, `adamw.square` and
//! `ema.shadow`, with Muon `muon.momentum`, each flat, and the scalars as decimal strings in `__metadata__`; decimals of f64
//! are the shortest that read back to the same bits. The header is written here and not by the
//! `safetensors` crate, whose metadata has no fixed order: equal states are equal files.
//!
//! A file is streamed to a temporary name beside its place, fsynced, renamed, and the directory
//! fsynced. A kill at any moment leaves the previous state or the new one. The temporary name is
//! always the same, so what a kill left behind is overwritten and does not pile up; one directory
//! is one run's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde_json::{Map, Value, json};

use super::{Settings, TrainState, read};
use crate::Real;

/// The file's name in the run's directory.
pub const FILE: &str = "state.safetensors";

pub(super) const FORMAT: &str = "fewstep-train-state";
pub(super) const VERSION: &str = "1";
/// The header's length comes first, in this many bytes.
pub(super) const PREFIX: usize = 8;
/// Bytes converted at a time.
pub(super) const BLOCK: usize = 1 << 20;

/// Why a state could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file could not be written; the previous one is still there.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Parts of the state are not in the file.
    #[error("{} lacks {}; it is no complete training state", file.display(), names.join(", "))]
    Missing {
        /// The file.
        file: PathBuf,
        /// Everything that is missing.
        names: Vec<String>,
    },
    /// The file does not hold a state that this program can go on from.
    #[error("{} is not a usable training state: {reason}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Numbers that can be stored.
pub trait Stored: Real {
    /// Their name in the file.
    const DTYPE: Dtype;
    /// Bytes of one.
    const SIZE: usize;
    /// Writes values as little-endian bytes; `bytes` has their length.
    fn encode(values: &[Self], bytes: &mut [u8]);
    /// Appends the values of little-endian bytes.
    fn decode(bytes: &[u8], values: &mut Vec<Self>);
}

macro_rules! stored {
    ($type:ty, $dtype:expr) => {
        impl Stored for $type {
            const DTYPE: Dtype = $dtype;
            const SIZE: usize = size_of::<$type>();
            fn encode(values: &[Self], bytes: &mut [u8]) {
                for (bytes, value) in bytes.chunks_exact_mut(Self::SIZE).zip(values) {
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
            }
            fn decode(bytes: &[u8], values: &mut Vec<Self>) {
                let (numbers, _) = bytes.as_chunks();
                values.extend(numbers.iter().map(|bytes| Self::from_le_bytes(*bytes)));
            }
        }
    };
}
stored!(f32, Dtype::F32);
stored!(f64, Dtype::F64);

impl<T: Stored> TrainState<T> {
    /// Replaces the state in `dir` by this one, all or nothing.
    pub fn save(&self, dir: &Path) -> Result<(), StateError> {
        let file = dir.join(FILE);
        self.replace(dir, &file)
            .map_err(|source| StateError::Write { file, source })
    }

    fn replace(&self, dir: &Path, file: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let partial = dir.join(format!("{FILE}.partial"));
        let written = self
            .write(&partial)
            .and_then(|()| fs::rename(&partial, file));
        if written.is_err() {
            // Best effort: the reason above is what the caller needs.
            let _ = fs::remove_file(&partial);
        }
        written?;
        sync_directory(dir)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let tensors = self.tensors();
        let mut header = Map::new();
        header.insert("__metadata__".into(), Value::Object(self.scalars()));
        let mut end = 0;
        for (name, values) in &tensors {
            let start = end;
            end += values.len() * T::SIZE;
            let info = json!({
                "dtype": T::DTYPE,
                "shape": [values.len()],
                "data_offsets": [start, end],
            });
            header.insert((*name).into(), info);
        }
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(PREFIX), b' ');
        let mut file = File::create(path)?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        let mut bytes = vec![0; BLOCK];
        for (_, values) in tensors {
            for values in values.chunks(BLOCK / T::SIZE) {
                let bytes = &mut bytes[..values.len() * T::SIZE];
                T::encode(values, bytes);
                file.write_all(bytes)?;
            }
        }
        file.sync_all()
    }

    fn tensors(&self) -> Vec<(&'static str, &[T])> {
        let mut tensors = vec![
            ("parameters", &self.parameters[..]),
            ("adamw.mean", &self.optimizer.mean),
            ("adamw.square", &self.optimizer.square),
        ];
        let momentum = self
            .muon
            .iter()
            .map(|muon| ("muon.momentum", &muon.momentum[..]));
        tensors.extend(momentum);
        tensors.extend(self.ema.iter().map(|ema| ("ema.shadow", &ema.shadow[..])));
        tensors
    }

    fn scalars(&self) -> Map<String, Value> {
        let Settings {
            beta1,
            beta2,
            eps,
            weight_decay,
        } = self.optimizer.settings;
        let ranges = self.trainable.ranges().iter();
        let ranges: Vec<String> = ranges.map(|r| format!("{}..{}", r.start, r.end)).collect();
        let mut scalars = vec![
            ("format", FORMAT.into()),
            ("version", VERSION.into()),
            ("step", self.step.to_string()),
            ("seed", self.seed.to_string()),
            ("trainable", ranges.join(",")),
            ("adamw.updates", self.optimizer.updates.to_string()),
            ("adamw.beta1", beta1.to_string()),
            ("adamw.beta2", beta2.to_string()),
            ("adamw.eps", eps.to_string()),
            ("adamw.weight_decay", weight_decay.to_string()),
        ];
        if let Some(muon) = &self.muon {
            let matrices = muon.matrices.iter();
            let matrices = matrices.map(|m| format!("{}:{}x{}", m.start, m.rows, m.cols));
            let matrices: Vec<String> = matrices.collect();
            scalars.extend([
                ("muon.beta", muon.beta.to_string()),
                ("muon.matrices", matrices.join(",")),
            ]);
        }
        if let Some(ema) = &self.ema {
            scalars.extend([
                ("ema.updates", ema.updates.to_string()),
                ("ema.decay", ema.averaging.decay.to_string()),
                ("ema.warm_up", ema.averaging.warm_up.to_string()),
            ]);
        }
        let scalars = scalars.into_iter();
        scalars.map(|(k, v)| (k.into(), Value::String(v))).collect()
    }

    /// The state in `dir`.
    pub fn load(dir: &Path) -> Result<Self, StateError> {
        read::state(&dir.join(FILE))
    }
}

/// Makes the rename itself last.
#[cfg(unix)]
fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Averaging, Schedule, Trainable};
    use super::*;

    fn trained<T: Stored>(averaging: Option<Averaging>) -> TrainState<T> {
        let size = BLOCK / 4 + 11;
        let start = (0..size).map(|i| T::of((i as f64).sin())).collect();
        let some = Trainable::new(size, &[2..5, 9..size]).unwrap();
        let settings = Settings {
            eps: 1.234_567_890_123_456_7e-9,
            ..Settings::default()
        };
        let mut state = TrainState::new(u64::MAX, start, some, settings, averaging);
        for n in 0..3 {
            let gradient: Vec<T> = (0..size).map(|i| T::of((i + n) as f64)).collect();
            let schedule = Schedule::default();
            state.apply(&gradient, 1.0, &schedule, Some(1.0)).unwrap();
        }
        state
    }

    fn reads_back<T: Stored>(averaging: Option<Averaging>) {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("new/a"), dir.path().join("b"));
        let state = trained::<T>(averaging);
        state.save(&first).unwrap();
        let read = TrainState::load(&first).unwrap();
        assert_eq!(read, state);
        read.save(&second).unwrap();
        let bytes = |dir: &Path| fs::read(dir.join(FILE)).unwrap();
        assert_eq!(bytes(&first), bytes(&second));
        assert_eq!(fs::read_dir(&first).unwrap().count(), 1);
    }

    #[test]
    fn a_state_reads_back_as_it_was() {
        reads_back::<f32>(Some(Averaging::default()));
        reads_back::<f64>(None);
    }

    #[test]
    fn any_reader_of_safetensors_can_open_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = trained::<f32>(None);
        state.save(dir.path()).unwrap();
        let bytes = fs::read(dir.path().join(FILE)).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let last = tensors.tensor("parameters").unwrap().data();
        let last = last.last_chunk().unwrap();
        assert_eq!(Some(&f32::from_le_bytes(*last)), state.parameters().last());
    }

    #[test]
    fn what_a_kill_left_behind_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{FILE}.partial"));
        fs::write(&left, vec![1; 9_000_000]).unwrap();
        let state = trained::<f32>(None);
        state.save(dir.path()).unwrap();
        assert_eq!(TrainState::load(dir.path()).unwrap(), state);
        assert!(!left.exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("run");
        fs::create_dir_all(place.join(FILE).join("inner")).unwrap();
        let error = trained::<f32>(None).save(&place).unwrap_err();
        let message = error.to_string();
        let start = format!("cannot write {}: ", place.join(FILE).display());
        assert!(message.starts_with(&start), "{message}");
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    }
}
