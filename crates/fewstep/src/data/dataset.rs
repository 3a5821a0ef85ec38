//! Prepared data, mapped into memory and read in blocks.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use super::{Error, Manifest, Packing, Pictures, Split, Tokenizer, shard::check_size};
use crate::image::Coder;

/// A directory of prepared data.
#[derive(Debug)]
pub struct Dataset {
    manifest: Manifest,
    tokenizer: Tokenizer,
    /// What made codes of pictures.
    coder: Option<Box<Coder>>,
    train: Vec<Mapped>,
    validation: Vec<Mapped>,
}

#[derive(Debug)]
struct Mapped {
    path: PathBuf,
    map: Mmap,
    tokens: usize,
}

impl Dataset {
    /// Maps the shards of a directory, after a look at their sizes.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let manifest = Manifest::read(directory)?;
        let tokenizer = Tokenizer::described(&manifest.tokenizer)?;
        let refuse = |why: &str| Error::NoManifest {
            path: directory.join(super::manifest::FILE),
            why: why.into(),
        };
        if !matches!(manifest.symbol_bytes, 2 | 4) {
            return Err(refuse("symbols of neither 2 nor 4 bytes"));
        }
        if manifest.vocabulary != tokenizer.vocabulary() {
            return Err(refuse("a vocabulary that is not its tokenizer's"));
        }
        let map = |split| {
            let part = manifest.part(split);
            let tokens = part
                .shards
                .iter()
                .try_fold(0u64, |sum, shard| sum.checked_add(shard.tokens));
            if tokens != Some(part.tokens) {
                return Err(refuse("shards that do not add up"));
            }
            part.shards
                .iter()
                .map(|shard| Mapped::open(directory, shard, manifest.symbol_bytes))
                .collect::<Result<Vec<_>, _>>()
        };
        let coder = match &tokenizer {
            Tokenizer::Pictures(Pictures {
                codes: Some(codes),
                format,
                ..
            }) => {
                let coder = Coder::open(directory)?;
                if (coder.codes(), coder.format()) != (*codes, *format) {
                    return Err(refuse(
                        "codes of another tokenizer than the one beside them",
                    ));
                }
                Some(Box::new(coder))
            }
            _ => None,
        };
        Ok(Self {
            train: map(Split::Train)?,
            validation: map(Split::Validation)?,
            manifest,
            tokenizer,
            coder,
        })
    }

    /// What the data are.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The tokenizer they were made with.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What made codes of pictures, if the symbols are such.
    pub fn coder(&self) -> Option<&Coder> {
        self.coder.as_deref()
    }

    /// Symbols of a split.
    pub fn tokens(&self, split: Split) -> usize {
        self.shards(split).iter().map(|shard| shard.tokens).sum()
    }

    /// Whole blocks of `length` symbols of a split. Wrapped data have blocks of one length only.
    pub fn blocks(&self, split: Split, length: usize) -> Result<usize, Error> {
        match self.manifest.settings.packing {
            Packing::Wrapped { length: packed } | Packing::Whole { length: packed }
                if length != packed =>
            {
                Err(Error::Block(format!(
                    "blocks of {length} symbols of data that were packed for {packed}; use that length or prepare the data for this one"
                )))
            }
            _ if length == 0 => Err(Error::Block(
                "blocks of no symbols; use a length of at least 1".into(),
            )),
            _ => Ok(self.tokens(split) / length),
        }
    }

    /// Copies block `i` of a split to `symbols [length]`.
    pub fn block(
        &self,
        split: Split,
        length: usize,
        i: usize,
        symbols: &mut [usize],
    ) -> Result<(), Error> {
        let blocks = self.blocks(split, length)?;
        if i >= blocks || symbols.len() != length {
            return Err(Error::Block(format!(
                "block {i} into {} symbols; there are {blocks} blocks of {length}",
                symbols.len()
            )));
        }
        let (mut start, mut rest) = (i * length, symbols);
        for shard in self.shards(split) {
            if start >= shard.tokens {
                start -= shard.tokens;
                continue;
            }
            let here = rest.len().min(shard.tokens - start);
            let (now, later) = rest.split_at_mut(here);
            shard.copy(start, now, &self.manifest)?;
            (start, rest) = (0, later);
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn shards(&self, split: Split) -> &[Mapped] {
        match split {
            Split::Train => &self.train,
            Split::Validation => &self.validation,
        }
    }
}

impl Mapped {
    fn open(directory: &Path, shard: &super::Shard, symbol_bytes: usize) -> Result<Self, Error> {
        let path = directory.join(&shard.file);
        let damaged = |why: &str| Error::Damaged {
            path: path.clone(),
            why: why.into(),
        };
        let bytes = shard.tokens.checked_mul(symbol_bytes as u64);
        let bytes = bytes.filter(|&bytes| bytes > 0 && usize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or_else(|| damaged("a shard of an impossible size"))?;
        check_size(&path, bytes)?;
        let file = File::open(&path).map_err(Error::read(&path))?;
        // SAFETY: shards are never written to once they have their name; whoever cuts one by other
        // means while it is read ends the reading process, not its soundness elsewhere.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(Error::read(&path))?;
        let tokens = map.len() / symbol_bytes;
        Ok(Self { path, map, tokens })
    }

    fn copy(&self, start: usize, symbols: &mut [usize], manifest: &Manifest) -> Result<(), Error> {
        let bytes = manifest.symbol_bytes;
        let raw = &self.map[start * bytes..(start + symbols.len()) * bytes];
        for (symbol, raw) in symbols.iter_mut().zip(raw.chunks_exact(bytes)) {
            *symbol = raw
                .iter()
                .rev()
                .fold(0, |high, &byte| high << 8 | usize::from(byte));
            if *symbol >= manifest.vocabulary {
                return Err(Error::Damaged {
                    path: self.path.clone(),
                    why: format!("symbol {symbol} of a vocabulary of {}", manifest.vocabulary),
                });
            }
        }
        Ok(())
    }
}
