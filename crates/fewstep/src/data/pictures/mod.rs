//! Pictures as training data: files of pictures to shards of pixels with labels.
//!
//! A picture is cropped at its centre to the proportions that are asked for, resized, and written as one
//! block: a symbol for each pixel, row by row, and one for its class, behind the pixels' symbols. Shards
//! and manifest are those of text, and so is what reads them. Everything is decoded before the manifest
//! is written, without which there are no data: a file that is no picture leaves nothing behind.

mod binary;
mod codes;
mod decode;
mod folder;
mod gaps;

pub use codes::prepare_codes;
pub use gaps::gaps;

use std::{
    fs,
    path::{Path, PathBuf},
};

use fewstep_ctmc::random::{Key, Purpose, uniform};
use image::{
    RgbImage,
    imageops::{self, FilterType},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Description, Documents, Error, Manifest, Packing, Part, Prepared, Settings, Source, Split,
    manifest,
    prepare::{lock, refuse_difference, remove, write_json},
    scan::hex,
    shard::{Writer, Written, remove_shards},
};
use crate::image::Format;

/// The most bytes of a file.
const FILE_BYTES: u64 = 1 << 30;
/// Pixels of a side that are taken.
const SIDE: u32 = 1 << 14;

/// Pixels as symbols, and the names of the classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    /// Size and symbols.
    pub format: Format,
    /// The names, in their order.
    pub classes: Vec<String>,
    /// Whether training pictures are there mirrored, too.
    pub flipped: bool,
    /// How many codes there are in the place of pixels, if the symbols are codes of the tokenizer beside
    /// the shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codes: Option<usize>,
}

impl Pictures {
    /// Symbols of a picture, classes not counted.
    pub fn symbols(&self) -> usize {
        self.codes.unwrap_or_else(|| self.format.symbols())
    }
}

/// What to prepare, from what, and where.
#[derive(Clone, Debug)]
pub struct PictureOptions {
    /// A directory of IDX files (MNIST and kin), of CIFAR's binary files, or of PNG and JPEG files in a
    /// folder for each class, with `train` and `val` above them or without.
    pub input: PathBuf,
    /// The directory of the data.
    pub out: PathBuf,
    /// Size and symbols.
    pub format: Format,
    /// Whether training pictures are mirrored, too.
    pub flip: bool,
    /// The fraction that is kept aside, where the files do not say what is.
    pub validation: f64,
    /// Which those are.
    pub seed: u64,
    /// Whether to begin anew where there are data.
    pub overwrite: bool,
}

/// One picture, as it was found.
struct Raw {
    pixels: RgbImage,
    class: usize,
    /// Where it belongs, if its file says so.
    split: Option<Split>,
}

/// Files of pictures, to be read one after the other.
enum Found {
    Binary(binary::Files),
    Folder(folder::Files),
}

impl Found {
    fn classes(&self) -> Vec<String> {
        match self {
            Self::Binary(files) => files.classes.clone(),
            Self::Folder(files) => files.classes.clone(),
        }
    }

    /// Shows every picture, and names the files.
    fn each(&self, show: impl FnMut(Raw) -> Result<(), Error>) -> Result<Vec<Source>, Error> {
        match self {
            Self::Binary(files) => files.each(show),
            Self::Folder(files) => files.each(show),
        }
    }
}

/// The pictures of a directory: IDX files, CIFAR's, or PNG and JPEG files.
fn find(input: &Path) -> Result<Found, Error> {
    Ok(match binary::find(input)? {
        Some(files) => Found::Binary(files),
        None => Found::Folder(folder::find(input)?),
    })
}

/// Shows every picture of a directory as it is, with its class, in the order of its files, and names these.
pub fn each_picture(
    input: &Path,
    mut show: impl FnMut(&RgbImage, usize) -> Result<(), Error>,
) -> Result<Vec<Source>, Error> {
    find(input)?.each(|raw| show(&raw.pixels, raw.class))
}

/// Prepares pictures, or finds that nothing is to be done.
pub fn prepare_pictures(options: &PictureOptions) -> Result<Prepared, Error> {
    if let Some(fault) = options.format.fault() {
        return Err(Error::Option(fault));
    }
    let (out, length) = (options.out.as_path(), options.format.length());
    let settings = Settings {
        tokenizer: "pixels".into(),
        packing: Packing::Whole { length: length + 1 },
        validation: options.validation,
        seed: options.seed,
        documents: Documents::File,
        ..Settings::default()
    };
    settings.check()?;
    let found = find(&options.input)?;
    let pictures = Pictures {
        format: options.format,
        classes: found.classes(),
        flipped: options.flip,
        codes: None,
    };
    let description = Description::Pictures(pictures.clone());
    fs::create_dir_all(out).map_err(Error::write(out))?;
    let _lock = lock(out)?;
    if out.join(manifest::FILE).exists() && !options.overwrite {
        let manifest = Manifest::read(out)?;
        refuse_difference(out, manifest.settings.differences(&settings))?;
        let other = manifest.tokenizer != description;
        refuse_difference(out, if other { "other pictures" } else { "" }.into())?;
        return Ok(Prepared {
            manifest,
            already: true,
        });
    }
    remove(&out.join(manifest::FILE))?;
    remove_shards(out, &[])?;
    let written = write(out, &found, options, &settings);
    if written.is_err() {
        remove_shards(out, &[])?;
    }
    let (sources, [train, validation]) = written?;
    let (format, version) = Manifest::format();
    let manifest = Manifest {
        format,
        version,
        settings,
        vocabulary: pictures.symbols() + pictures.classes.len(),
        tokenizer: description,
        eos: None,
        symbol_bytes: 2,
        split: match found {
            Found::Binary(_) => "as the files say".into(),
            Found::Folder(_) => format!("as the folders say, else {} of all", options.validation),
        },
        sources,
        train,
        validation,
    };
    write_json(&out.join(manifest::FILE), &manifest)?;
    Ok(Prepared {
        manifest,
        already: false,
    })
}

/// Decodes everything into shards.
fn write(
    out: &Path,
    found: &Found,
    options: &PictureOptions,
    settings: &Settings,
) -> Result<(Vec<Source>, [Part; 2]), Error> {
    let symbols = options.format.symbols();
    if symbols + found.classes().len() > usize::from(u16::MAX) {
        return Err(Error::Option(format!(
            "{symbols} symbols and {} classes are too many",
            found.classes().len()
        )));
    }
    let open = |split| Writer::open(out, split, (2, settings.shard_tokens), Written::default());
    let mut writers = [open(Split::Train)?, open(Split::Validation)?];
    let mut counts = [(0u64, 0u64); 2];
    let key = Key::new(options.seed, Purpose::Corpus);
    let mut number = 0;
    let sources = found.each(|raw| {
        let aside = uniform(&mut key.at(0, number)) < options.validation;
        number += 1;
        let split = raw.split.unwrap_or(match aside {
            true => Split::Validation,
            false => Split::Train,
        });
        let at = usize::from(split == Split::Validation);
        let size = (options.format.width, options.format.height);
        let fitted = fit(&raw.pixels, size);
        let mut versions = vec![fitted];
        if options.flip && split == Split::Train {
            versions.push(imageops::flip_horizontal(&versions[0]));
        }
        for pixels in versions {
            let colours = pixels.pixels().map(|pixel| options.format.symbol(pixel.0));
            let block = colours.chain([symbols + raw.class]);
            let block: Vec<u32> = block.map(|symbol| symbol as u32).collect();
            writers[at].push(&block)?;
            counts[at].0 += 1;
            counts[at].1 += block.len() as u64;
        }
        Ok(())
    })?;
    if counts.iter().any(|(pictures, _)| *pictures == 0) {
        return Err(Error::Option(format!(
            "{}: {} pictures to train on and {} to keep aside; both are needed: more pictures, or another \
             --validation",
            options.input.display(),
            counts[0].0,
            counts[1].0
        )));
    }
    let [train, validation] = writers;
    let part = |writer: Writer, (documents, tokens): (u64, u64)| {
        Ok::<_, Error>(Part {
            documents,
            tokens,
            text_bytes: tokens,
            shards: writer.finish()?,
        })
    };
    let parts = [part(train, counts[0])?, part(validation, counts[1])?];
    Ok((sources, parts))
}

/// The largest part around the centre that has the proportions, resized.
pub fn fit(pixels: &RgbImage, (width, height): (usize, usize)) -> RgbImage {
    let (w, h) = pixels.dimensions();
    let (to_w, to_h) = (width as u32, height as u32);
    if (w, h) == (to_w, to_h) {
        return pixels.clone();
    }
    let scaled = |side: u32, by: u32, over: u32| {
        (u64::from(side) * u64::from(by) / u64::from(over)).clamp(1, u64::from(u32::MAX)) as u32
    };
    let (cut_w, cut_h) = (w.min(scaled(h, to_w, to_h)), h.min(scaled(w, to_h, to_w)));
    let (left, top) = ((w - cut_w) / 2, (h - cut_h) / 2);
    let cut = imageops::crop_imm(pixels, left, top, cut_w, cut_h).to_image();
    imageops::resize(&cut, to_w, to_h, FilterType::Triangle)
}

/// A file's bytes, if they are not too many.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = fs::metadata(path).map_err(Error::read(path))?.len();
    if bytes > FILE_BYTES {
        return Err(bad(
            path,
            format!("{bytes} bytes; at most {FILE_BYTES} are read"),
        ));
    }
    fs::read(path).map_err(Error::read(path))
}

fn source(path: &Path, bytes: &[u8], pictures: u64) -> Source {
    let mut hash = Sha256::new();
    hash.update(bytes);
    Source {
        path: path.display().to_string(),
        bytes: bytes.len() as u64,
        sha256: hex(hash),
        documents: pictures,
    }
}

fn bad(path: &Path, why: impl Into<String>) -> Error {
    Error::Picture {
        path: path.to_owned(),
        // What a decoder says may have several lines.
        why: why.into().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// The names in a directory, in their order.
fn names(directory: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(Error::read(directory))?;
    let mut names: Vec<(String, PathBuf)> = entries
        .into_iter()
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .filter(|(name, _)| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}
