//! IDX files (MNIST and kin) and CIFAR's binary files.
//!
//! IDX: two zero bytes, the type of the numbers, how many dimensions, their sizes, big-endian, then the
//! numbers. CIFAR: 3073 bytes a picture (3074 in CIFAR-100), its label first, then 32 x 32 pixels of each
//! colour. Files must have exactly the size that they say.

use std::path::{Path, PathBuf};

use image::{Rgb, RgbImage};

use super::{Raw, SIDE, bad, names, read, source};
use crate::data::{Error, Source, Split};

/// Pixels of a side of CIFAR's pictures.
const CIFAR: usize = 32;
/// The names of CIFAR-10's classes, in their order.
const CIFAR_10: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];

/// Files of pictures.
pub struct Files {
    pub classes: Vec<String>,
    files: Vec<(Kind, Split)>,
}

enum Kind {
    /// Pictures and labels.
    Idx(PathBuf, PathBuf),
    /// A file whose pictures have so many labels each, the last of which counts.
    Cifar(PathBuf, usize),
}

/// The files in a directory, if there are such.
pub fn find(directory: &Path) -> Result<Option<Files>, Error> {
    let inside = names(directory)?;
    let (mut files, mut cifar) = (Vec::new(), 0);
    for (name, path) in &inside {
        let split = match name.starts_with("t10k") || name.starts_with("test") {
            true => Split::Validation,
            false => Split::Train,
        };
        if name.contains("idx3-ubyte") {
            if name.ends_with(".gz") {
                return Err(bad(path, "it is compressed; unpack it with gunzip"));
            }
            let labels = name.replace("idx3", "idx1").replace("images", "labels");
            let labels = directory.join(labels);
            if !labels.exists() {
                return Err(bad(
                    path,
                    format!("its labels {} are missing", labels.display()),
                ));
            }
            files.push((Kind::Idx(path.clone(), labels), split));
        } else if name == "test_batch.bin"
            || name.starts_with("data_batch") && name.ends_with(".bin")
        {
            cifar = 10;
            files.push((Kind::Cifar(path.clone(), 1), split));
        } else if name == "train.bin" || name == "test.bin" {
            cifar = 100;
            files.push((Kind::Cifar(path.clone(), 2), split));
        }
    }
    if files.is_empty() {
        return Ok(None);
    }
    let classes = match cifar {
        10 => CIFAR_10.map(String::from).to_vec(),
        100 => (0..100).map(|class: usize| class.to_string()).collect(),
        _ => {
            let mut most = 0;
            for (kind, _) in &files {
                if let Kind::Idx(_, labels) = kind {
                    let all = idx(labels, &read(labels)?, 1)?.1;
                    most = most.max(all.into_iter().max().unwrap_or(0));
                }
            }
            (0..=most).map(|class| class.to_string()).collect()
        }
    };
    Ok(Some(Files { classes, files }))
}

impl Files {
    /// Shows every picture.
    pub fn each(
        &self,
        mut show: impl FnMut(Raw) -> Result<(), Error>,
    ) -> Result<Vec<Source>, Error> {
        let mut sources = Vec::new();
        for (kind, split) in &self.files {
            let split = Some(*split);
            match kind {
                Kind::Idx(path, labels) => {
                    let (bytes, labelled) = (read(path)?, read(labels)?);
                    let (sizes, pixels) = idx(path, &bytes, 3)?;
                    let (_, classes) = idx(labels, &labelled, 1)?;
                    let (count, h, w) = (sizes[0], sizes[1], sizes[2]);
                    if count != classes.len() {
                        let why = format!("{} labels for {count} pictures", classes.len());
                        return Err(bad(labels, why));
                    }
                    for (grey, class) in pixels.chunks_exact((w * h).max(1)).zip(&classes) {
                        let colour = |x: u32, y: u32| Rgb([grey[y as usize * w + x as usize]; 3]);
                        show(Raw {
                            pixels: RgbImage::from_fn(w as u32, h as u32, colour),
                            class: usize::from(*class),
                            split,
                        })?;
                    }
                    sources.push(source(path, &bytes, count as u64));
                    sources.push(source(labels, &labelled, 0));
                }
                Kind::Cifar(path, labels) => {
                    let bytes = read(path)?;
                    let plane = CIFAR * CIFAR;
                    let each = labels + 3 * plane;
                    if bytes.is_empty() || !bytes.len().is_multiple_of(each) {
                        let why = format!("{} bytes are not {each} for each picture", bytes.len());
                        return Err(bad(path, why));
                    }
                    for (number, record) in bytes.chunks_exact(each).enumerate() {
                        let (label, planes) = (usize::from(record[labels - 1]), &record[*labels..]);
                        if label >= self.classes.len() {
                            let why = format!(
                                "picture {number} has label {label} of {}",
                                self.classes.len()
                            );
                            return Err(bad(path, why));
                        }
                        let colour = |x: u32, y: u32| {
                            let at = y as usize * CIFAR + x as usize;
                            Rgb([planes[at], planes[plane + at], planes[2 * plane + at]])
                        };
                        show(Raw {
                            pixels: RgbImage::from_fn(CIFAR as u32, CIFAR as u32, colour),
                            class: label,
                            split,
                        })?;
                    }
                    sources.push(source(path, &bytes, (bytes.len() / each) as u64));
                }
            }
        }
        Ok(sources)
    }
}

/// The sizes and the bytes of an IDX file of so many dimensions.
fn idx(path: &Path, bytes: &[u8], dimensions: usize) -> Result<(Vec<usize>, Vec<u8>), Error> {
    let head = 4 + 4 * dimensions;
    let right = bytes.len() >= head && bytes[..2] == [0, 0] && bytes[3] == dimensions as u8;
    if !right || bytes[2] != 8 {
        let why = format!("no IDX file of bytes in {dimensions} dimensions");
        return Err(bad(path, why));
    }
    let (sizes, _) = bytes[4..head].as_chunks();
    let sizes: Vec<usize> = sizes
        .iter()
        .map(|size| u32::from_be_bytes(*size) as usize)
        .collect();
    let total = sizes
        .iter()
        .try_fold(1usize, |all, size| all.checked_mul(*size));
    if total != Some(bytes.len() - head) {
        let why = format!(
            "it says {sizes:?} and has {} bytes; it is cut off or damaged",
            bytes.len() - head
        );
        return Err(bad(path, why));
    }
    if sizes.contains(&0) || sizes[1..].iter().any(|&size| size > SIDE as usize) {
        return Err(bad(
            path,
            format!("pictures of {sizes:?}; 1 to {SIDE} pixels a side are taken"),
        ));
    }
    Ok((sizes, bytes[head..].to_vec()))
}
