//! Symbols to files of bounded size.
//!
//! A shard is written under a temporary name, synced and renamed when it is full. What is written
//! of the last one can be synced too and continued after a crash, from the number of symbols that
//! was noted then: more than that may be there, and is cut off.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Error, Shard, Split, scan::hex};

/// What a temporary name ends with.
const UNFINISHED: &str = ".part";

/// What is on the disk for certain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub shards: Vec<Shard>,
    /// Symbols of the unfinished shard.
    pub tail: u64,
}

/// Writes the symbols of a split.
pub(super) struct Writer {
    directory: PathBuf,
    split: Split,
    symbol_bytes: usize,
    most: u64,
    shards: Vec<Shard>,
    tail: Option<Tail>,
}

struct Tail {
    file: BufWriter<File>,
    hash: Sha256,
    tokens: u64,
}

impl Writer {
    /// Continues after what is written.
    pub fn open(
        directory: &Path,
        split: Split,
        (symbol_bytes, most): (usize, u64),
        written: Written,
    ) -> Result<Self, Error> {
        for shard in &written.shards {
            let path = directory.join(&shard.file);
            check_size(&path, shard.tokens * symbol_bytes as u64)?;
        }
        let mut writer = Self {
            directory: directory.to_owned(),
            split,
            symbol_bytes,
            most,
            shards: written.shards,
            tail: None,
        };
        if written.tail > 0 {
            writer.tail = Some(writer.reopen(written.tail)?);
        }
        Ok(writer)
    }

    /// Appends symbols.
    pub fn push(&mut self, ids: &[u32]) -> Result<(), Error> {
        let mut rest = ids;
        while !rest.is_empty() {
            let path = self.unfinished();
            let mut tail = match self.tail.take() {
                Some(tail) => tail,
                None => self.create()?,
            };
            let room = usize::try_from(self.most - tail.tokens).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(room));
            let symbol = |id: &u32| id.to_le_bytes().into_iter().take(self.symbol_bytes);
            let bytes: Vec<u8> = now.iter().flat_map(symbol).collect();
            tail.hash.update(&bytes);
            tail.file.write_all(&bytes).map_err(Error::write(&path))?;
            tail.tokens += now.len() as u64;
            rest = later;
            let full = tail.tokens == self.most;
            self.tail = Some(tail);
            if full {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Makes sure that all symbols are on the disk, and says how many.
    pub fn sync(&mut self) -> Result<Written, Error> {
        let path = self.unfinished();
        if let Some(tail) = &mut self.tail {
            tail.file.flush().map_err(Error::write(&path))?;
            tail.file
                .get_ref()
                .sync_data()
                .map_err(Error::write(&path))?;
        }
        Ok(Written {
            shards: self.shards.clone(),
            tail: self.tail.as_ref().map_or(0, |tail| tail.tokens),
        })
    }

    /// Closes the last shard, and names all.
    pub fn finish(mut self) -> Result<Vec<Shard>, Error> {
        self.close()?;
        Ok(self.shards)
    }

    /// How many shards are finished.
    pub fn finished(&self) -> usize {
        self.shards.len()
    }

    fn name(&self) -> String {
        format!("{}-{:05}.bin", self.split.name(), self.shards.len())
    }

    fn unfinished(&self) -> PathBuf {
        self.directory.join(self.name() + UNFINISHED)
    }

    fn create(&self) -> Result<Tail, Error> {
        let path = self.unfinished();
        let file = File::create(&path).map_err(Error::write(&path))?;
        Ok(Tail {
            file: BufWriter::with_capacity(1 << 18, file),
            hash: Sha256::new(),
            tokens: 0,
        })
    }

    /// The unfinished shard as far as it was noted. If it was finished after that, it is no more.
    fn reopen(&self, tokens: u64) -> Result<Tail, Error> {
        let path = self.unfinished();
        let finished = self.directory.join(self.name());
        if !path.exists() && finished.exists() {
            fs::rename(&finished, &path).map_err(Error::write(&path))?;
        }
        let bytes = tokens * self.symbol_bytes as u64;
        let (mut file, mut hash) = (open_to_continue(&path, bytes)?, Sha256::new());
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = file.read(&mut buffer).map_err(Error::read(&path))?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
        }
        file.seek(SeekFrom::End(0)).map_err(Error::read(&path))?;
        Ok(Tail {
            file: BufWriter::with_capacity(1 << 18, file),
            hash,
            tokens,
        })
    }

    fn close(&mut self) -> Result<(), Error> {
        let path = self.unfinished();
        let Some(tail) = self.tail.take() else {
            return Ok(());
        };
        let file = self.name();
        let keep = || {
            let done = tail
                .file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?;
            done.sync_all()?;
            fs::rename(&path, self.directory.join(&file))?;
            // Makes the rename itself last.
            #[cfg(unix)]
            File::open(&self.directory)?.sync_all()?;
            Ok(())
        };
        keep().map_err(Error::write(&path))?;
        self.shards.push(Shard {
            file,
            tokens: tail.tokens,
            sha256: hex(tail.hash),
        });
        Ok(())
    }
}

/// Cuts a file to its first bytes and opens it there for reading and writing.
fn open_to_continue(path: &Path, bytes: u64) -> Result<File, Error> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(Error::read(path))?;
    let there = file.metadata().map_err(Error::read(path))?.len();
    if there < bytes {
        return Err(size_differs(path, there, bytes));
    }
    file.set_len(bytes).map_err(Error::write(path))?;
    Ok(file)
}

/// Compares a file's size with what it must be.
pub(super) fn check_size(path: &Path, bytes: u64) -> Result<(), Error> {
    let there = fs::metadata(path).map_err(Error::read(path))?.len();
    if there == bytes {
        Ok(())
    } else {
        Err(size_differs(path, there, bytes))
    }
}

fn size_differs(path: &Path, there: u64, bytes: u64) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        why: format!("it has {there} bytes and should have {bytes}"),
    }
}

/// Removes the shards in a directory, finished or not, that are not to be kept.
pub(super) fn remove_shards(directory: &Path, keep: &[&Written]) -> Result<(), Error> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for entry in entries.map_err(Error::read(directory))? {
        let name = entry.file_name();
        let Some((split, number)) = name.to_str().and_then(parse) else {
            continue;
        };
        let kept = |written: &&Written| {
            let same = |shard: &Shard| parse(&shard.file) == Some((split, number));
            let tail = written.tail > 0 && number == written.shards.len();
            written.shards.iter().any(same) || tail
        };
        let of_split = keep.get(usize::from(split == Split::Validation.name()));
        if !of_split.is_some_and(kept) {
            fs::remove_file(entry.path()).map_err(Error::write(&entry.path()))?;
        }
    }
    Ok(())
}

/// The split and the number in the name of a shard.
fn parse(name: &str) -> Option<(&str, usize)> {
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    let (split, number) = name.strip_suffix(".bin")?.split_once('-')?;
    let ours = [Split::Train, Split::Validation]
        .map(Split::name)
        .contains(&split);
    let number = number.parse().ok().filter(|_| number.len() >= 5 && ours)?;
    Some((split, number))
}
