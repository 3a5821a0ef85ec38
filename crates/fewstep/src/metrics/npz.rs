//! `.npz` files: statistics as the FID tools keep them, `mu` and `sigma`, and features as we do,
//! `features [N, D]` and perhaps `logits [N, C]`.
//!
//! An archive of arrays. Each says its type and shape in a line that looks like Python and is taken apart,
//! not executed. Sizes are compared with the bytes that are there.

use std::{
    fs::File,
    io::{BufReader, Cursor, Read, Write},
    path::Path,
};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{Features, MetricError, Statistics};

/// The most entries of an array.
const MOST: usize = 1 << 28;

/// What a file holds of pictures.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Every picture's features.
    Features(Features),
    /// Their statistics alone.
    Statistics(Statistics),
}

fn bad(path: &Path, why: impl std::fmt::Display) -> MetricError {
    MetricError::File {
        file: path.display().to_string(),
        why: why.to_string(),
    }
}

/// An open archive.
struct Arrays<'a> {
    path: &'a Path,
    archive: ZipArchive<BufReader<File>>,
}

impl<'a> Arrays<'a> {
    fn open(path: &'a Path) -> Result<Self, MetricError> {
        let file = File::open(path).map_err(|e| bad(path, e))?;
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|e| bad(path, format!("no archive of arrays ({e})")))?;
        Ok(Self { path, archive })
    }

    fn has(&self, name: &str) -> bool {
        self.archive
            .index_for_name(&format!("{name}.npy"))
            .is_some()
    }

    fn array(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f64>), MetricError> {
        let path = self.path;
        let mut entry = self
            .archive
            .by_name(&format!("{name}.npy"))
            .map_err(|e| bad(path, format!("no array {name} ({e})")))?;
        let mut bytes = Vec::new();
        let most = 16 + 8 * MOST as u64;
        let read = entry.by_ref().take(most).read_to_end(&mut bytes);
        read.map_err(|e| bad(path, format!("{name}: {e}")))?;
        parse(&bytes).map_err(|why| bad(path, format!("{name}: {why}")))
    }

    /// A matrix whose rows are pictures.
    fn rows(&mut self, name: &str) -> Result<(usize, usize, Vec<f64>), MetricError> {
        let (shape, values) = self.array(name)?;
        match shape[..] {
            [rows, width] if width > 0 => Ok((rows, width, values)),
            _ => Err(bad(self.path, format!("{name} of {shape:?} are no rows"))),
        }
    }

    fn features(&mut self) -> Result<Features, MetricError> {
        let (count, dimensions, values) = self.rows("features")?;
        let logits = match self.has("logits") {
            true => Some(self.rows("logits")?),
            false => None,
        };
        if let Some((rows, _, _)) = logits.as_ref().filter(|(rows, _, _)| *rows != count) {
            let why = format!("{rows} rows of logits for {count} of features");
            return Err(bad(self.path, why));
        }
        Ok(Features {
            dimensions,
            values,
            logits: logits.map(|(_, classes, logits)| (classes, logits)),
        })
    }

    fn statistics(&mut self) -> Result<Statistics, MetricError> {
        let (shape, mean) = self.array("mu")?;
        let (square, covariance) = self.array("sigma")?;
        if shape.len() != 1 || square != [shape[0], shape[0]] || mean.is_empty() {
            let why = format!("mu of {shape:?} and sigma of {square:?} do not fit");
            return Err(bad(self.path, why));
        }
        Ok(Statistics { mean, covariance })
    }
}

impl Kept {
    /// What a file holds: features if it has them.
    pub fn read(path: &Path) -> Result<Self, MetricError> {
        let mut arrays = Arrays::open(path)?;
        if arrays.has("features") {
            return Ok(Self::Features(arrays.features()?));
        }
        if !arrays.has("mu") {
            let why = "neither features nor mu and sigma; save one of them with numpy.savez";
            return Err(bad(path, why));
        }
        Ok(Self::Statistics(arrays.statistics()?))
    }
}

impl Statistics {
    /// The statistics in a file.
    pub fn read(path: &Path) -> Result<Self, MetricError> {
        Arrays::open(path)?.statistics()
    }
}

impl Features {
    /// Writes them to a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), MetricError> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let stored = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        let features = ("features", self.dimensions, &self.values);
        let logits = self
            .logits
            .as_ref()
            .map(|(classes, l)| ("logits", *classes, l));
        for (name, width, values) in [features].into_iter().chain(logits) {
            let shape = format!("({}, {width})", values.len() / width);
            archive
                .start_file(format!("{name}.npy"), stored)
                .map_err(|e| bad(path, e))?;
            let numbers = values.iter().flat_map(|&v| (v as f32).to_le_bytes());
            let bytes: Vec<u8> = header(&shape).into_iter().chain(numbers).collect();
            archive.write_all(&bytes).map_err(|e| bad(path, e))?;
        }
        let bytes = archive.finish().map_err(|e| bad(path, e))?.into_inner();
        fewstep_nn::replace(path, |out| out.write_all(&bytes)).map_err(|e| bad(path, e))
    }
}

/// What stands before the numbers of an array of f4.
fn header(shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    // The numbers begin at a multiple of 64 bytes.
    let width = (10 + text.len() + 1).next_multiple_of(64) - 11;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((width as u16 + 1).to_le_bytes());
    bytes.extend(format!("{text:<width$}\n").bytes());
    bytes
}

/// The shape and the numbers of an array of f4 or f8, little-endian, row by row.
fn parse(bytes: &[u8]) -> Result<(Vec<usize>, Vec<f64>), String> {
    let magic = bytes.strip_prefix(b"\x93NUMPY").ok_or("no NumPy array")?;
    let (head, rest) = match magic {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err("an unknown version".into()),
    };
    let text = rest.get(..head).ok_or("it is cut off")?;
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    let after = |key: &str| {
        let found = text.split_once(&format!("'{key}':"));
        found
            .map(|(_, after)| after.trim_start())
            .ok_or(format!("no {key}"))
    };
    let width = match after("descr")? {
        t if t.starts_with("'<f8'") => 8,
        t if t.starts_with("'<f4'") => 4,
        _ => return Err("numbers that are neither f4 nor f8, little-endian".into()),
    };
    if !after("fortran_order")?.starts_with("False") {
        return Err("columns first; save it row by row".into());
    }
    let inside = after("shape")?
        .strip_prefix('(')
        .and_then(|t| t.split_once(')'));
    let (inside, _) = inside.ok_or("no shape")?;
    let sizes = inside
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty());
    let shape: Vec<usize> = sizes
        .map(|size| size.parse().map_err(|_| format!("a size {size:?}")))
        .collect::<Result<_, _>>()?;
    let count = shape
        .iter()
        .try_fold(1usize, |all, size| all.checked_mul(*size));
    let count = count
        .filter(|&count| count <= MOST)
        .ok_or("a shape that is too large")?;
    let data = &rest[head..];
    if data.len() != count * width {
        return Err(format!(
            "{} bytes for {count} numbers of {width}",
            data.len()
        ));
    }
    let number = |bytes: &[u8]| match *bytes {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    };
    Ok((shape, data.chunks_exact(width).map(number).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = header("(1, 2)")
            .into_iter()
            .chain([1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()))
            .collect();
        assert_eq!((bytes.len() - 8) % 64, 0);
        assert_eq!(parse(&bytes), Ok((vec![1, 2], vec![1.5, -2.0])));
    }

    #[test]
    fn arrays_are_read_and_bad_ones_refused() {
        let data: Vec<u8> = [1.5f64, -2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let good = array("<f8", "False", "(2,)", &data);
        assert_eq!(parse(&good), Ok((vec![2], vec![1.5, -2.0])));
        let small: Vec<u8> = [1.5f32, -2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let single = array("<f4", "False", "(1, 2)", &small);
        assert_eq!(parse(&single), Ok((vec![1, 2], vec![1.5, -2.0])));
        for bad in [
            &good[..good.len() - 1],
            &good[..12],
            b"\x93NUMPY\x09\x00",
            b"",
            &array(">f8", "False", "(2,)", &data),
            &array("<f8", "True", "(2,)", &data),
            &array("<f8", "False", "(3,)", &data),
            &array("<f8", "False", "(99999999999, 99999999999)", &data),
            &array("<f8", "False", "(-2,)", &data),
            &array("|O", "False", "(2,)", &data),
        ] {
            assert!(parse(bad).is_err());
        }
    }
}
