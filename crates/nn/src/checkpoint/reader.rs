//! The bytes of tensors, read in chunks straight from the file.
//!
//! A tensor lies in a *blob*: a run of the file itself, or a stored entry of a zip archive. An
//! entry that is read as a whole is read through its checksum, which is the usual case; one that
//! several tensors share is checked once and then read in parts. No tensor is ever held twice,
//! save the span of one that is not contiguous.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use zip::ZipArchive;

use super::dtype::Dtype;
use crate::Real;

const CHUNK: usize = 1 << 18;

/// Where bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blob {
    /// In the file itself.
    Plain {
        /// First byte.
        start: u64,
        /// Their number.
        len: u64,
    },
    /// In an entry of the archive.
    Entry {
        /// Its number.
        index: usize,
        /// Its size.
        len: u64,
    },
}

impl Blob {
    fn len(&self) -> u64 {
        match *self {
            Self::Plain { len, .. } | Self::Entry { len, .. } => len,
        }
    }
}

/// Where the elements of a tensor lie in a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    blob: Blob,
    /// First element.
    offset: usize,
    /// Elements from the first to the last, both included.
    span: usize,
    /// Steps between neighbours along each axis, unless contiguous.
    strides: Option<Vec<usize>>,
    /// Bytes that reading it costs.
    pub bytes: u64,
}

impl Place {
    /// Checks that a tensor lies within its blob; `strides` and `offset` count elements. A tensor
    /// may not have more elements than its blob: overlapping strides would make a small file
    /// a huge tensor.
    pub fn new(
        blob: Blob,
        dtype: &Dtype,
        shape: &[usize],
        offset: usize,
        strides: Option<&[usize]>,
    ) -> Result<Self, String> {
        let size = dtype.bytes().unwrap_or(1);
        let room = usize::try_from(blob.len() / size as u64).unwrap_or(usize::MAX);
        let product = |all: usize, &n: &usize| all.checked_mul(n);
        let count = shape.iter().try_fold(1, product);
        let count = count.ok_or("its shape multiplies to more than memory can address")?;
        let mut strides = strides.map(<[usize]>::to_vec);
        let span = match &mut strides {
            None => count,
            Some(strides) if strides.len() != shape.len() => {
                return Err("it has another number of strides than of axes".into());
            }
            Some(_) if count == 0 => 0,
            Some(strides) => {
                let mut last = 0usize;
                for (stride, &n) in strides.iter_mut().zip(shape) {
                    // The stride of a single element is never taken and may be anything.
                    *stride = if n == 1 { 0 } else { *stride };
                    last = (n - 1)
                        .checked_mul(*stride)
                        .and_then(|far| last.checked_add(far))
                        .ok_or("its strides leave its storage")?;
                }
                last.checked_add(1).ok_or("its strides leave its storage")?
            }
        };
        if offset.checked_add(span).is_none_or(|end| end > room) {
            return Err(format!(
                "it needs {span} elements from element {offset} on, its storage has {room}"
            ));
        }
        if count > room {
            return Err(format!(
                "it has {count} elements, more than the {room} of its storage"
            ));
        }
        let strides = strides.filter(|strides| count > 0 && !contiguous(shape, strides));
        Ok(Self {
            blob,
            offset,
            span,
            strides,
            bytes: (span.max(count) * size) as u64,
        })
    }
}

fn contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(&n, &stride)| {
        let fits = n == 1 || stride == expected;
        expected *= n;
        fits
    })
}

/// A file, open for reading.
pub enum Reader {
    /// Blobs are runs of the file.
    Plain(File),
    /// Blobs are stored entries of an archive.
    Archive {
        /// The archive.
        archive: Box<ZipArchive<BufReader<File>>>,
        /// Entries whose checksum was right.
        checked: HashSet<usize>,
    },
}

impl Reader {
    /// Reads a tensor in row-major order, in pieces.
    pub fn read<T: Real>(
        &mut self,
        place: &Place,
        dtype: &Dtype,
        shape: &[usize],
        mut each: impl FnMut(&[T]),
    ) -> io::Result<()> {
        let size = dtype.bytes().unwrap_or(1);
        let (start, len) = ((place.offset * size) as u64, (place.span * size) as u64);
        let mut piece = Vec::new();
        let mut give = |bytes: &[u8]| {
            piece.clear();
            dtype.decode(bytes, &mut piece);
            each(&piece);
        };
        match &place.strides {
            None => self.bytes(&place.blob, start, len, &mut give),
            Some(strides) => {
                let mut span = Vec::with_capacity(place.span * size);
                self.bytes(&place.blob, start, len, &mut |bytes| {
                    span.extend_from_slice(bytes);
                })?;
                gather(&span, size, shape, strides, give);
                Ok(())
            }
        }
    }

    /// Reads `len` bytes of a blob from `start` on, in pieces of whole elements.
    fn bytes(
        &mut self,
        blob: &Blob,
        start: u64,
        len: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        match (self, blob) {
            (Self::Plain(file), Blob::Plain { start: blob, .. }) => {
                file.seek(SeekFrom::Start(blob + start))?;
                pieces(file, len, each)
            }
            (Self::Archive { archive, checked }, &Blob::Entry { index, len: whole }) => {
                if len == whole {
                    let mut entry = archive.by_index(index)?;
                    pieces(&mut entry, len, each)?;
                    at_end(&mut entry)?;
                    checked.insert(index);
                    return Ok(());
                }
                if !checked.contains(&index) {
                    let mut entry = archive.by_index(index)?;
                    pieces(&mut entry, whole, &mut |_| ())?;
                    at_end(&mut entry)?;
                    checked.insert(index);
                }
                let mut entry = archive.by_index_seek(index)?;
                entry.seek(SeekFrom::Start(start))?;
                pieces(&mut entry, len, each)
            }
            _ => Err(io::Error::other("a tensor of another file")),
        }
    }
}

/// The checksum is compared when the end is met.
fn at_end(entry: &mut impl Read) -> io::Result<()> {
    match entry.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::other("an entry is longer than it says")),
    }
}

fn pieces(source: &mut impl Read, len: u64, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut left = len;
    let mut buffer = vec![0; CHUNK.min(usize::try_from(len).unwrap_or(CHUNK))];
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        source.read_exact(&mut buffer[..n])?;
        each(&buffer[..n]);
        left -= n as u64;
    }
    Ok(())
}

/// Brings the elements of a strided tensor into row-major order, a chunk at a time.
fn gather(
    span: &[u8],
    size: usize,
    shape: &[usize],
    strides: &[usize],
    mut each: impl FnMut(&[u8]),
) {
    let count: usize = shape.iter().product();
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    let mut chunk = Vec::with_capacity(CHUNK.min(count * size));
    for _ in 0..count {
        chunk.extend_from_slice(&span[at * size..][..size]);
        if chunk.len() >= CHUNK {
            each(&chunk);
            chunk.clear();
        }
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    each(&chunk);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(shape: &[usize], offset: usize, strides: &[usize]) -> Result<Place, String> {
        let blob = Blob::Plain { start: 0, len: 48 };
        Place::new(blob, &Dtype::F32, shape, offset, Some(strides))
    }

    #[test]
    fn tensors_stay_in_their_storage() {
        assert_eq!(place(&[3, 4], 0, &[4, 1]).unwrap().strides, None);
        assert_eq!(place(&[1, 12], 0, &[usize::MAX, 1]).unwrap().strides, None);
        assert!(place(&[4, 3], 0, &[1, 4]).unwrap().strides.is_some());
        assert!(place(&[0, 5], 0, &[9, 9]).is_ok());
        for (shape, offset, strides) in [
            (&[3, 4][..], 1, &[4, 1][..]),
            (&[3, 4], 0, &[5, 1]),
            (&[13], 0, &[1]),
            (&[2], usize::MAX, &[1]),
            (&[2, 2], 0, &[usize::MAX, 1]),
            (&[usize::MAX, 2], 0, &[0, 0]),
            (&[1 << 40], 0, &[0]),
            (&[3, 4], 0, &[4]),
        ] {
            assert!(place(shape, offset, strides).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn strides_are_gathered() {
        let span: Vec<u8> = (0..12).collect();
        for (shape, strides) in [([4, 3], [1, 4]), ([2, 3], [1, 2]), ([1, 3], [0, 5])] {
            let mut found: Vec<u8> = Vec::new();
            gather(&span, 1, &shape, &strides, |bytes| found.extend(bytes));
            let mut expected = Vec::new();
            for i in 0..shape[0] {
                for j in 0..shape[1] {
                    expected.push((i * strides[0] + j * strides[1]) as u8);
                }
            }
            assert_eq!(found, expected);
        }
    }
}
