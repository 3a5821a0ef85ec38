//! A checkpoint as it lies in its file: tensors by name and place, and what is said about them.
//!
//! Both formats are brought into this form by reading headers only; from here on nothing depends
//! on the format but the reader.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::dtype::Dtype;
use super::error::Error;
use super::facts::Facts;
use super::reader::{Place, Reader};
use super::{header, torch};

/// A tensor in a file.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its name there.
    pub name: String,
    /// What its elements are.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where it lies, or why it cannot be read.
    pub place: Result<Place, String>,
}

/// The averaged weights of a training run, in the order of the network's parameters.
#[derive(Debug)]
pub struct Average {
    /// Decay of the average.
    pub decay: Option<f64>,
    /// Updates it has seen.
    pub updates: Option<usize>,
    /// The tensors, or why they cannot be read.
    pub tensors: Result<Vec<Stored>, String>,
}

/// A checkpoint whose headers were read.
pub struct Checkpoint {
    /// The file with the weights.
    pub path: PathBuf,
    /// Its format, for people.
    pub format: &'static str,
    /// Its size.
    pub bytes: u64,
    /// The weights.
    pub tensors: Vec<Stored>,
    /// The averaged weights, if there are any.
    pub average: Option<Average>,
    /// What is said about the network.
    pub facts: Facts,
    /// Reads the tensors.
    pub reader: Reader,
}

/// The largest `config.json` that is read.
const LARGEST_CONFIG: u64 = 1 << 20;

impl Checkpoint {
    /// Opens a directory with `model.safetensors`, or a file of either format, told apart by
    /// their first bytes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let about = std::fs::metadata(path).map_err(Error::io(path))?;
        let path = if about.is_dir() {
            let inner = path.join("model.safetensors");
            if !inner.is_file() {
                return Err(Error::format(
                    path,
                    "the directory holds no model.safetensors",
                ));
            }
            inner
        } else {
            path.to_owned()
        };
        let mut file = File::open(&path).map_err(Error::io(&path))?;
        let about = file.metadata().map_err(Error::io(&path))?;
        if !about.is_file() {
            return Err(Error::format(&path, "it is no ordinary file"));
        }
        let mut start = Vec::new();
        let first = file.by_ref().take(16).read_to_end(&mut start);
        first.map_err(Error::io(&path))?;
        // The number 0x1950a86a20f9469cfc6c as a pickle of protocol 2.
        const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19";
        if start.starts_with(b"PK\x03\x04") {
            return torch::open(path, file, about.len());
        }
        if start.starts_with(LEGACY) {
            return Err(Error::format(
                &path,
                "it is in the format of torch before 1.6; load it there and save it again",
            ));
        }
        let torch = ["ckpt", "pth", "pt"].map(Some);
        if torch.contains(&path.extension().and_then(|e| e.to_str())) {
            return Err(Error::format(
                &path,
                "it is no zip archive, which torch files are; is it complete?",
            ));
        }
        let tensors = header::read(&mut file, about.len());
        Ok(Self {
            tensors: tensors.map_err(|what| Error::format(&path, what))?,
            facts: beside(&path),
            path,
            format: "safetensors",
            bytes: about.len(),
            average: None,
            reader: Reader::Plain(file),
        })
    }
}

/// What the `config.json` beside a file says, if there is one.
fn beside(path: &Path) -> Facts {
    match settings(&path.with_file_name("config.json")) {
        Ok(json) => Facts::new(&json, "config.json").unwrap_or_else(broken),
        Err(why) => why.map_or_else(Facts::default, broken),
    }
}

fn broken(why: String) -> Facts {
    Facts {
        broken: Some(format!("config.json: {why}")),
        ..Facts::default()
    }
}

/// The JSON of a file, or why there is none; nothing if there is no file.
fn settings(path: &Path) -> Result<serde_json::Value, Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(None),
        Err(error) => return Err(Some(error.to_string())),
    };
    let mut text = Vec::new();
    let read = file.take(LARGEST_CONFIG + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST_CONFIG {
        return Err(Some("it is larger than 1 MiB".into()));
    }
    let json = serde_json::from_slice(&text);
    json.map_err(|error| Some(format!("it is no JSON: {error}")))
}
