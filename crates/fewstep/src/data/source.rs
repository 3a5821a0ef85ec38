//! Documents out of files, a bounded piece at a time.
//!
//! A text file that is one document comes in pieces of fixed size, cut where the tokenizer does
//! not mind; all other documents come whole and may not be longer than a limit. The pieces depend
//! on the file and not on where reading began, so a reader can be opened anew at its [`Place`].

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    Documents, Error, Settings, json,
    tokenizer::{PIECE, cut},
};

/// A byte that no UTF-8 text has.
const NO_TEXT: u8 = 0xff;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The files that inputs stand for: themselves, and of a folder all text files in it, by name.
pub(super) fn files(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for input in inputs {
        let is_folder = fs::metadata(input).map_err(Error::read(input))?.is_dir();
        if is_folder {
            let before = files.len();
            descend(input, &mut files)?;
            if files.len() == before {
                return Err(Error::NoFiles(input.clone()));
            }
        } else {
            files.push(input.clone());
        }
    }
    Ok(files)
}

fn descend(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = entries.map_err(Error::read(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // Links to folders are not followed: they may lead back.
        if entry.file_type().map_err(Error::read(&path))?.is_dir() {
            descend(&path, files)?;
        } else if matches!(extension(&path), "txt" | "md" | "jsonl" | "parquet") && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or("")
}

/// How files are read.
pub(super) struct Rules<'a> {
    pub settings: &'a Settings,
    /// Whether the tokenizer takes a document in parts.
    pub parts: bool,
    /// The most bytes of a document that comes whole.
    pub limit: usize,
}

/// How far a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Bytes, in a Parquet file rows.
    pub offset: u64,
    /// Lines, in a Parquet file rows.
    pub line: u64,
}

/// A document or a part of one.
pub(super) struct Piece {
    pub text: String,
    /// Whether the document ends here.
    pub end: bool,
}

/// Reads one file.
pub(super) struct Reader<'a> {
    path: &'a Path,
    rules: &'a Rules<'a>,
    place: Place,
    input: Input,
}

enum Input {
    /// One document.
    Text {
        file: BufReader<File>,
        ahead: Vec<u8>,
    },
    /// A document a group of lines.
    Groups(BufReader<File>),
    /// A document a line.
    Json(BufReader<File>),
    #[cfg(feature = "parquet")]
    Parquet(super::parquet::Rows),
}

impl<'a> Reader<'a> {
    pub fn open(path: &'a Path, rules: &'a Rules, place: Place) -> Result<Self, Error> {
        let mut file = BufReader::new(File::open(path).map_err(Error::read(path))?);
        let mut place = place;
        let input = if extension(path) == "parquet" {
            parquet(path, rules, place)?
        } else {
            if place.offset == 0
                && file
                    .fill_buf()
                    .map_err(Error::read(path))?
                    .starts_with(BYTE_ORDER_MARK)
            {
                place.offset = BYTE_ORDER_MARK.len() as u64;
            }
            let start = SeekFrom::Start(place.offset);
            file.seek(start).map_err(Error::read(path))?;
            match (extension(path), &rules.settings.documents) {
                ("jsonl", _) => Input::Json(file),
                (_, Documents::File) => Input::Text {
                    file,
                    ahead: Vec::new(),
                },
                _ => Input::Groups(file),
            }
        };
        Ok(Self {
            path,
            rules,
            place,
            input,
        })
    }

    /// Where to open the file again for what comes next.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Bytes read, as far as is known.
    pub fn bytes(&self) -> u64 {
        match self.input {
            #[cfg(feature = "parquet")]
            Input::Parquet(_) => 0,
            _ => self.place.offset,
        }
    }

    /// The next piece of text.
    pub fn next(&mut self) -> Result<Option<Piece>, Error> {
        match &mut self.input {
            Input::Text { .. } => self.next_part(),
            Input::Groups(_) => self.next_group(),
            Input::Json(_) => self.next_record(),
            #[cfg(feature = "parquet")]
            Input::Parquet(rows) => {
                let text = rows.next(self.path, self.place.line, self.rules.limit)?;
                let step = u64::from(text.is_some());
                self.place.offset += step;
                self.place.line += step;
                Ok(text.map(|text| Piece { text, end: true }))
            }
        }
    }

    fn next_part(&mut self) -> Result<Option<Piece>, Error> {
        let Input::Text { file, ahead } = &mut self.input else {
            return Ok(None);
        };
        let most = if self.rules.parts {
            PIECE
        } else {
            self.rules.limit
        };
        // One byte more tells whether this is the end.
        let missing = (most + 1).saturating_sub(ahead.len());
        let read = file.take(missing as u64).read_to_end(ahead);
        read.map_err(Error::read(self.path))?;
        if ahead.is_empty() {
            return Ok(None);
        }
        if self.rules.settings.lossy {
            mark_nuls(ahead);
        }
        let end = ahead.len() <= most;
        if !end && !self.rules.parts {
            return Err(self.too_long(1));
        }
        let raw = if end {
            &ahead[..]
        } else {
            whole(&ahead[..most])
        };
        let text = decode(raw, self.path, self.place.offset, self.rules.settings.lossy)?;
        let (text, used) = if end {
            (text.into_owned(), raw.len())
        } else {
            // Cut even if there is as much text as may be, unlike a text that ends here.
            let at = cut(&text, text.len() - 1);
            (text[..at].to_owned(), bytes_of(raw, at))
        };
        ahead.drain(..used);
        self.place.offset += used as u64;
        Ok(Some(Piece { text, end }))
    }

    fn next_group(&mut self) -> Result<Option<Piece>, Error> {
        let Input::Groups(file) = &mut self.input else {
            return Ok(None);
        };
        let (path, limit) = (self.path, self.rules.limit);
        let mut start = self.place;
        let mut document = Vec::new();
        loop {
            let before = document.len();
            let read = read_line(file, &mut document, limit).map_err(Error::read(path))?;
            self.place.offset += read as u64;
            self.place.line += u64::from(read > 0);
            if document.len() > limit {
                return Err(self.too_long(start.line + 1));
            }
            let ends = match &self.rules.settings.documents {
                Documents::Separator(separator) => {
                    document[before..].trim_ascii_end() == separator.as_bytes()
                }
                _ => document[before..].trim_ascii().is_empty(),
            };
            if read > 0 && !ends {
                continue;
            }
            document.truncate(before);
            if document.is_empty() && read > 0 {
                start = self.place;
                continue;
            }
            break;
        }
        if document.is_empty() {
            return Ok(None);
        }
        if self.rules.settings.lossy {
            mark_nuls(&mut document);
        }
        let text = decode(&document, path, start.offset, self.rules.settings.lossy)?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
        Ok(Some(Piece { text, end: true }))
    }

    fn next_record(&mut self) -> Result<Option<Piece>, Error> {
        let Input::Json(file) = &mut self.input else {
            return Ok(None);
        };
        let (path, limit) = (self.path, self.rules.limit);
        let mut line = Vec::new();
        loop {
            line.clear();
            let start = self.place.offset;
            let read = read_line(file, &mut line, limit).map_err(Error::read(path))?;
            if read == 0 {
                return Ok(None);
            }
            self.place.offset += read as u64;
            self.place.line += 1;
            if line.len() > limit {
                return Err(self.too_long(self.place.line));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            if self.rules.settings.lossy {
                mark_nuls(&mut line);
            }
            let text = decode(&line, path, start, self.rules.settings.lossy)?;
            let text = json::field(&text, &self.rules.settings.field);
            let text = text.map_err(|why| Error::Record {
                path: path.to_owned(),
                line: self.place.line,
                why,
            })?;
            return Ok(Some(Piece { text, end: true }));
        }
    }

    fn too_long(&self, line: u64) -> Error {
        Error::TooLong {
            path: self.path.to_owned(),
            line,
            limit: self.rules.limit,
        }
    }
}

#[cfg(feature = "parquet")]
fn parquet(path: &Path, rules: &Rules, place: Place) -> Result<Input, Error> {
    let rows = super::parquet::Rows::open(path, &rules.settings.field, place.offset)?;
    Ok(Input::Parquet(rows))
}

#[cfg(not(feature = "parquet"))]
fn parquet(path: &Path, _: &Rules, _: Place) -> Result<Input, Error> {
    Err(Error::NoParquet(path.to_owned()))
}

/// Appends a line, but no more than is needed to see that there are more than `limit` bytes.
fn read_line(
    file: &mut BufReader<File>,
    into: &mut Vec<u8>,
    limit: usize,
) -> std::io::Result<usize> {
    let most = (limit + 1).saturating_sub(into.len());
    file.take(most as u64).read_until(b'\n', into)
}

/// The bytes without the beginning of a character at their end.
fn whole(raw: &[u8]) -> &[u8] {
    let Some(last) = raw.utf8_chunks().last() else {
        return raw;
    };
    let unfinished = std::str::from_utf8(last.invalid()).is_err_and(|e| e.error_len().is_none());
    let extra = if unfinished { last.invalid().len() } else { 0 };
    &raw[..raw.len() - extra]
}

/// Bytes as text; `offset` is where in the file they are.
fn decode<'b>(raw: &'b [u8], path: &Path, offset: u64, lossy: bool) -> Result<Cow<'b, str>, Error> {
    if lossy {
        return Ok(String::from_utf8_lossy(raw));
    }
    if let Some(at) = raw.iter().position(|&byte| byte == 0) {
        return Err(Error::Binary {
            path: path.to_owned(),
            offset: offset + at as u64,
        });
    }
    let text = std::str::from_utf8(raw).map_err(|e| Error::NotUtf8 {
        path: path.to_owned(),
        offset: offset + e.valid_up_to() as u64,
    })?;
    Ok(text.into())
}

/// Makes NULs bytes that are replaced like all that is no text.
fn mark_nuls(raw: &mut [u8]) {
    for byte in raw.iter_mut().filter(|byte| **byte == 0) {
        *byte = NO_TEXT;
    }
}

/// How many of the bytes became the first `length` bytes of text.
fn bytes_of(raw: &[u8], length: usize) -> usize {
    let (mut used, mut made) = (0, 0);
    for chunk in raw.utf8_chunks() {
        let valid = chunk.valid().len();
        if made + valid >= length {
            return used + length - made;
        }
        used += valid + chunk.invalid().len();
        made += valid + '\u{fffd}'.len_utf8();
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_behind_replaced_text() {
        let mut raw = *b"a\xff\xe4\x00 b\xc3\xa4";
        mark_nuls(&mut raw);
        let text = decode(&raw, Path::new("x"), 0, true).unwrap();
        assert_eq!(text, "a\u{fffd}\u{fffd}\u{fffd} b\u{e4}");
        let ends = text.char_indices().map(|(i, c)| i + c.len_utf8());
        let used: Vec<usize> = ends.map(|end| bytes_of(&raw, end)).collect();
        assert_eq!(used, [1, 2, 3, 4, 5, 6, 8]);
    }

    #[test]
    fn an_unfinished_character_is_left_for_later() {
        assert_eq!(whole("ab\u{20ac}".as_bytes()), "ab\u{20ac}".as_bytes());
        assert_eq!(whole(b"ab\xe2\x82"), b"ab");
        assert_eq!(whole(b"a\xffb\xe2"), b"a\xffb");
        assert_eq!(whole(b"ab\xff"), b"ab\xff");
    }
}
