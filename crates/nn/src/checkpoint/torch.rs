//! Files of `torch.save`: a zip archive with one pickle and the storages of its tensors.
//!
//! The pickle is read symbolically, see [`super::pickle`]. A tensor is the call that would rebuild
//! it: a storage outside the pickle, an offset, a shape and strides. Only tensors of the weights
//! are looked at; the rest of a training checkpoint stays unread.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

use zip::{CompressionMethod, ZipArchive};

use super::dtype::Dtype;
use super::error::{Error, plain};
use super::facts::Facts;
use super::pickle::{self, Id, Pickle, Value};
use super::reader::{Blob, Place, Reader};
use super::stored::{Average, Checkpoint, Stored};

/// Without its tensors a checkpoint has a few megabytes at most.
const LARGEST_PICKLE: u64 = 1 << 26;
/// Names of a state dict, and their length.
const MOST_TENSORS: usize = 100_000;
const LONGEST_NAME: usize = 512;
const MOST_AXES: usize = 8;

type Archive = ZipArchive<BufReader<File>>;

/// Opens an archive of `bytes` bytes.
pub fn open(path: PathBuf, file: File, bytes: u64) -> Result<Checkpoint, Error> {
    let fail = |what: String| Error::format(&path, what);
    let archive = ZipArchive::new(BufReader::new(file));
    let mut archive = archive.map_err(|error| fail(format!("its archive is broken: {error}")))?;
    let (prefix, text) = pickle_of(&mut archive).map_err(fail)?;
    let pickle = pickle::parse(&text).map_err(fail)?;
    drop(text);
    let contents = Contents {
        archive: &archive,
        pickle: &pickle,
        prefix,
        bytes,
    };
    let root = pickle.root;
    if pickle.pairs(root).is_none() {
        return Err(fail("its pickle holds no dict of tensors".into()));
    }
    let weights = ["state_dict", "model_state_dict"];
    let weights = weights.iter().find_map(|key| pickle.get(root, key));
    let tensors = contents.named(weights.unwrap_or(root)).map_err(fail)?;
    let average = pickle.get(root, "ema");
    let average = average.filter(|&ema| !matches!(pickle.value(ema), Value::None));
    let average = average.map(|ema| contents.average(ema));
    let facts = match pickle.get(root, "hyper_parameters") {
        Some(settings) => {
            let json = pickle.json(settings, 12, &mut 20_000);
            // Settings that cannot be read say nothing; the caller is asked for the family then.
            Facts::new(&json, "hyper_parameters").unwrap_or_default()
        }
        None => Facts::default(),
    };
    Ok(Checkpoint {
        path,
        format: "torch archive",
        bytes,
        tensors,
        average,
        facts,
        reader: Reader::Archive {
            archive: Box::new(archive),
            checked: HashSet::new(),
        },
    })
}

/// The pickle of an archive, and the folder it lies in.
fn pickle_of(archive: &mut Archive) -> Result<(String, Vec<u8>), String> {
    if archive.has_duplicate_names() {
        return Err("its archive has two entries of one name".into());
    }
    let broken = |error: &dyn std::fmt::Display| format!("its archive is broken: {error}");
    let names = archive.file_names().filter_map(Result::ok);
    let name = names
        .filter(|name| name.split('/').next_back() == Some("data.pkl"))
        .min_by_key(|name| name.len())
        .map(|name| name.into_owned())
        .ok_or("it is a zip archive, but not one of torch: it has no data.pkl")?;
    let prefix = name.trim_end_matches("data.pkl").to_owned();
    let mut order = String::new();
    if let Ok(entry) = archive.by_name(&format!("{prefix}byteorder")) {
        let read = entry.take(16).read_to_string(&mut order);
        read.map_err(|error| broken(&error))?;
        if order != "little" {
            return Err(format!("its byte order is {}", plain(&order)));
        }
    }
    let entry = archive.by_name(&name).map_err(|error| broken(&error))?;
    if entry.size() > LARGEST_PICKLE {
        return Err(format!(
            "its pickle has {} bytes, more than the {LARGEST_PICKLE} that are read",
            entry.size()
        ));
    }
    let mut text = Vec::new();
    let read = entry.take(LARGEST_PICKLE + 1).read_to_end(&mut text);
    read.map_err(|error| format!("its pickle cannot be read: {error}"))?;
    Ok((prefix, text))
}

struct Contents<'a> {
    archive: &'a Archive,
    pickle: &'a Pickle,
    prefix: String,
    bytes: u64,
}

impl Contents<'_> {
    /// The entries of a state dict.
    fn named(&self, dict: Id) -> Result<Vec<Stored>, String> {
        let pairs = self.pickle.pairs(dict).unwrap_or_default();
        if pairs.len() > MOST_TENSORS {
            return Err(format!("its state dict has {} entries", pairs.len()));
        }
        let entries = pairs.iter().map(|&(key, value)| {
            let name = self.pickle.text(key);
            match name.filter(|name| name.len() <= LONGEST_NAME) {
                Some(name) => Ok(self.stored(name.into(), value)),
                None => Err("a key of its state dict is no name".into()),
            }
        });
        entries.collect()
    }

    fn average(&self, ema: Id) -> Average {
        let number = |key: &str| self.pickle.get(ema, key).map(|id| self.pickle.value(id));
        let shadow = self.pickle.get(ema, "shadow_params");
        let shadow = shadow.and_then(|list| self.pickle.items(list));
        let tensors = match shadow {
            None => Err("it has no list shadow_params".into()),
            Some(list) if list.len() > MOST_TENSORS => Err("its list is too long".into()),
            Some(list) => {
                let named = |(i, &value)| self.stored(format!("shadow_params[{i}]"), value);
                Ok(list.iter().enumerate().map(named).collect())
            }
        };
        Average {
            decay: match number("decay") {
                Some(&Value::Float(decay)) => Some(decay),
                _ => None,
            },
            updates: match number("num_updates") {
                Some(&Value::Int(n)) => n.try_into().ok(),
                _ => None,
            },
            tensors,
        }
    }

    fn stored(&self, name: String, value: Id) -> Stored {
        let tensor = self.rebuilt(value);
        let (dtype, shape, place) = tensor.unwrap_or_else(|why| {
            let nothing = Dtype::Other("no tensor".into());
            (nothing, Vec::new(), Err(why))
        });
        Stored {
            name,
            dtype,
            shape,
            place,
        }
    }

    /// What the call that rebuilds a tensor says.
    fn rebuilt(&self, mut value: Id) -> Result<Parts, String> {
        // A parameter is a call on a tensor.
        for _ in 0..3 {
            let Value::Call(call) = self.pickle.value(value) else {
                break;
            };
            let (module, name) = self.pickle.global(call.callable).unwrap_or_default();
            let arguments = self.pickle.items(call.arguments).unwrap_or_default();
            match (module, name, arguments) {
                (
                    "torch._utils",
                    "_rebuild_parameter" | "_rebuild_parameter_with_state",
                    &[tensor, ..],
                ) => value = tensor,
                (
                    "torch._utils",
                    "_rebuild_tensor" | "_rebuild_tensor_v2",
                    &[storage, offset, shape, strides, ..],
                ) => return self.tensor(storage, offset, shape, strides),
                _ => {
                    return Err(format!(
                        "it is no tensor but a call of {}.{}",
                        plain(module),
                        plain(name)
                    ));
                }
            }
        }
        Err("it is no tensor".into())
    }

    fn tensor(&self, storage: Id, offset: Id, shape: Id, strides: Id) -> Result<Parts, String> {
        let natural = |id: &Id| self.pickle.natural(*id);
        let sizes = |id: Id| {
            let items = self.pickle.items(id)?;
            let items = (items.len() <= MOST_AXES).then_some(items)?;
            items.iter().map(natural).collect::<Option<Vec<_>>>()
        };
        let shape = sizes(shape).ok_or("its shape is no list of sizes")?;
        let Value::Persistent(id) = self.pickle.value(storage) else {
            return Err("it has no storage".into());
        };
        let (class, key, elements) = match self.pickle.items(*id) {
            Some(&[tag, class, key, _, elements, ..])
                if self.pickle.text(tag) == Some("storage") =>
            {
                (class, key, elements)
            }
            _ => return Err("its storage is not one of torch".into()),
        };
        let (_, class) = self.pickle.global(class).unwrap_or_default();
        let dtype = Dtype::of_storage(class);
        let place = match dtype.bytes() {
            None => Err(format!("its type {dtype} is no weight's")),
            Some(size) => self.blob(key, natural(&elements), size).and_then(|blob| {
                let offset = natural(&offset).ok_or("its offset is no size")?;
                let strides = sizes(strides).ok_or("its strides are no list of sizes")?;
                Place::new(blob, &dtype, &shape, offset, Some(&strides))
            }),
        };
        Ok((dtype, shape, place))
    }

    /// The entry of a storage, if it is as large as the pickle says.
    fn blob(&self, key: Id, elements: Option<usize>, size: usize) -> Result<Blob, String> {
        let key = self.pickle.text(key).filter(|key| key.len() <= 64);
        let name = format!("data/{}", key.ok_or("its storage has no name")?);
        let shown = plain(&name);
        let index = self
            .archive
            .index_for_name(&format!("{}{name}", self.prefix));
        let index = index.ok_or_else(|| format!("its storage {shown} is not in the archive"))?;
        let entry = self.archive.by_index_data(index);
        let entry = entry.map_err(|error| format!("its storage {shown}: {error}"))?;
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            return Err(format!("its storage {shown} is compressed or encrypted"));
        }
        let len = entry.size();
        if len != entry.compressed_size() || len > self.bytes {
            return Err(format!("its storage {shown} has a wrong size"));
        }
        let needed = elements.and_then(|n| n.checked_mul(size));
        if needed.is_none_or(|needed| needed as u64 > len) {
            return Err(format!("its storage {shown} has only {len} bytes"));
        }
        Ok(Blob::Entry { index, len })
    }
}

type Parts = (Dtype, Vec<usize>, Result<Place, String>);
