//! Statistics from an `.npz` file, as the FID tools keep them: `mu` and `sigma`.
//!
//! An archive of arrays. Each says its type and shape in a line that looks like Python and is taken apart,
//! not executed. Sizes are compared with the bytes that are there.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use super::{MetricError, Statistics};

/// The most entries of an array.
const MOST: usize = 1 << 26;

impl Statistics {
    /// The statistics in a file.
    pub fn read(path: &Path) -> Result<Self, MetricError> {
        let bad = |why: String| MetricError::File {
            file: path.display().to_string(),
            why,
        };
        let file = File::open(path).map_err(|e| bad(e.to_string()))?;
        let mut archive = zip::ZipArchive::new(BufReader::new(file))
            .map_err(|e| bad(format!("no archive of arrays ({e})")))?;
        let mut array = |name: &str| {
            let mut entry = archive
                .by_name(&format!("{name}.npy"))
                .map_err(|e| bad(format!("no array {name} ({e})")))?;
            let mut bytes = Vec::new();
            let most = 16 + 8 * MOST as u64;
            let read = entry.by_ref().take(most).read_to_end(&mut bytes);
            read.map_err(|e| bad(format!("{name}: {e}")))?;
            parse(&bytes).map_err(|why| bad(format!("{name}: {why}")))
        };
        let (shape, mean) = array("mu")?;
        let (square, covariance) = array("sigma")?;
        if shape.len() != 1 || square != [shape[0], shape[0]] || mean.is_empty() {
            return Err(bad(format!(
                "mu of {shape:?} and sigma of {square:?} do not fit"
            )));
        }
        Ok(Self { mean, covariance })
    }
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
