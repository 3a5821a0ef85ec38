//! Pictures as codes: a NumPy file of rows of `u2`, the codes of a picture row by row and its class behind them.

use std::{
    fs,
    io::{self, Write},
    path::Path as FilePath,
};

use fewstep_nn::{checkpoint::Options, layers::picture::Pictures, replace, vqgan::Vqgan};

use super::PaintError;
use crate::data::{each_picture, fit};

/// What a file begins with, before its shape.
const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// Pictures as codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes {
    /// Codes of a picture and its class.
    pub length: usize,
    rows: Vec<u16>,
}

impl Codes {
    /// The codes of the pictures in a directory, each cut at its centre to a square and brought to `pixels`
    /// a side; a folder is a class, in the order of names. `watch(done)` is called on the way.
    pub fn encode(
        input: &FilePath,
        vqgan: &FilePath,
        pixels: usize,
        mut watch: impl FnMut(u64),
    ) -> Result<Self, PaintError> {
        let file = |e: fewstep_nn::checkpoint::Error| PaintError::File(e.to_string());
        let net = Vqgan::<f32>::load(vqgan, &Options::default()).map_err(file)?;
        let (factor, codes) = (net.config().factor(), net.config().codes);
        if pixels == 0 || !pixels.is_multiple_of(factor) || codes > usize::from(u16::MAX) {
            return Err(PaintError::Refused(format!(
                "{pixels} pixels a side are no multiple of the VQGAN's {factor}, or its {codes} codes too many"
            )));
        }
        let length = (pixels / factor).pow(2) + 1;
        let (mut rows, mut done, mut fault) = (Vec::new(), 0, None);
        let of = Pictures {
            count: 1,
            height: pixels,
            width: pixels,
            channels: 3,
        };
        each_picture(input, |picture, class| {
            let fitted = fit(picture, (pixels, pixels));
            let scaled = fitted.iter().map(|&b| f32::from(b) / 127.5 - 1.0);
            match net.encode(of, &scaled.collect::<Vec<f32>>()) {
                Ok(codes) => rows.extend(codes.into_iter().chain([class]).map(|c| c as u16)),
                Err(e) => {
                    fault.get_or_insert(e.to_string());
                }
            }
            done += 1;
            watch(done);
            Ok(())
        })
        .map_err(|e| PaintError::File(e.to_string()))?;
        match fault {
            Some(why) => Err(PaintError::Refused(why)),
            None => Ok(Self { length, rows }),
        }
    }

    /// Pictures.
    pub fn count(&self) -> usize {
        self.rows.len() / self.length
    }

    /// Codes and class of a picture.
    pub fn row(&self, number: usize) -> &[u16] {
        &self.rows[number * self.length..][..self.length]
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &FilePath) -> Result<(), PaintError> {
        let shape = format!("({}, {})", self.count(), self.length);
        let text = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': {shape}, }}");
        let width = (text.len() + 11).next_multiple_of(64) - 11;
        let fill = |out: &mut dyn Write| -> io::Result<()> {
            out.write_all(MAGIC)?;
            out.write_all(&(width as u16 + 1).to_le_bytes())?;
            out.write_all(format!("{text:<width$}\n").as_bytes())?;
            self.rows
                .iter()
                .try_for_each(|c| out.write_all(&c.to_le_bytes()))
        };
        replace(path, fill).map_err(|e| PaintError::File(format!("{}: {e}", path.display())))
    }

    /// The codes of a file that [`write`](Self::write) made.
    pub fn read(path: &FilePath) -> Result<Self, PaintError> {
        let bad = |why: &str| PaintError::File(format!("{}: {why}", path.display()));
        let bytes = fs::read(path).map_err(|e| bad(&e.to_string()))?;
        let not = || bad("no codes of `fewstep maskgit encode`");
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(not)?;
        let (size, rest) = rest.split_first_chunk().ok_or_else(not)?;
        let head = usize::from(u16::from_le_bytes(*size));
        let text = rest
            .get(..head)
            .and_then(|text| std::str::from_utf8(text).ok());
        let text = text.filter(|text| text.contains("'<u2'")).ok_or_else(not)?;
        let shape = text.split_once('(').and_then(|(_, t)| t.split_once(')'));
        let sizes = shape.and_then(|(inside, _)| inside.split_once(", "));
        let sizes = sizes.and_then(|(n, l)| Some((n.parse().ok()?, l.parse().ok()?)));
        let (count, length): (usize, usize) = sizes.ok_or_else(not)?;
        let data = &rest[head..];
        let whole = count.checked_mul(length).and_then(|n| n.checked_mul(2));
        if length < 2 || count == 0 || whole != Some(data.len()) {
            return Err(bad("it is empty or cut off; encode the pictures again"));
        }
        let (pairs, _) = data.as_chunks();
        let rows = pairs.iter().map(|&pair| u16::from_le_bytes(pair)).collect();
        Ok(Self { length, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back_and_damage_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("codes.npy");
        let codes = Codes {
            length: 5,
            rows: (0..15).map(|i| i * 700).collect(),
        };
        codes.write(&file).unwrap();
        assert_eq!(Codes::read(&file).unwrap(), codes);
        assert_eq!((codes.count(), codes.row(1)[0]), (3, 3500));
        let bytes = fs::read(&file).unwrap();
        for damaged in [
            &bytes[..bytes.len() - 1],
            &bytes[..20],
            b"",
            b"\x93NUMPY\x01\x00",
        ] {
            fs::write(&file, damaged).unwrap();
            let error = Codes::read(&file).unwrap_err().to_string();
            assert!(error.contains("codes.npy"), "{error}");
        }
    }
}
