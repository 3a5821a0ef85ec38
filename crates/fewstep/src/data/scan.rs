//! The first pass over the sources: is it all text, how much, and which documents are kept aside.

use std::{fs::File, io::Read, path::Path};

use sha2::{Digest, Sha256};

use super::{
    Error, Settings, Source, Split, Watch,
    source::{Piece, Place, Reader, Rules},
    tokenizer::cut_after,
};

/// What the sources hold.
pub(super) struct Scan {
    pub sources: Vec<Source>,
    pub documents: u64,
    pub text_bytes: u64,
    /// Every character that occurs.
    pub characters: Vec<char>,
}

/// Reads all sources.
pub(super) fn scan(
    paths: &[impl AsRef<Path>],
    rules: &Rules,
    watch: &dyn Watch,
) -> Result<Scan, Error> {
    let mut scan = Scan {
        sources: Vec::new(),
        documents: 0,
        text_bytes: 0,
        characters: Vec::new(),
    };
    let mut seen = vec![false; char::MAX as usize + 1];
    let mut total = 0;
    for path in paths {
        let path = path.as_ref();
        total += path.metadata().map_err(Error::read(path))?.len();
    }
    watch.begin("checking", total);
    let mut done = 0;
    for path in paths {
        let path = path.as_ref();
        let (bytes, sha256) = fingerprint(path)?;
        let mut source = Source {
            path: path.display().to_string(),
            bytes,
            sha256,
            documents: 0,
        };
        let before = scan.text_bytes;
        let mut reader = Reader::open(path, rules, Place::default())?;
        while let Some(piece) = reader.next()? {
            scan.text_bytes += piece.text.len() as u64;
            source.documents += u64::from(piece.end);
            if rules.settings.tokenizer == "char" {
                piece.text.chars().for_each(|c| seen[c as usize] = true);
            }
            watch.advance(done + reader.bytes());
            if watch.stopped() {
                return Err(Error::Stopped);
            }
        }
        if scan.text_bytes == before {
            return Err(Error::Empty(path.to_owned()));
        }
        done += bytes;
        scan.documents += source.documents;
        scan.sources.push(source);
    }
    watch.end();
    let all = '\0'..=char::MAX;
    scan.characters = all.filter(|&c| seen[c as usize]).collect();
    Ok(scan)
}

/// The size and the SHA-256 of a file.
fn fingerprint(path: &Path) -> Result<(u64, String), Error> {
    let mut file = File::open(path).map_err(Error::read(path))?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer).map_err(Error::read(path))?;
        if read == 0 {
            return Ok((bytes, hex(hash)));
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}

/// A hash as it is written.
pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Which text is kept aside.
#[derive(Debug, PartialEq)]
pub(super) enum Aside {
    /// Documents whose draw is below a bound.
    Documents { seed: u64, bound: u64 },
    /// Of the only document, what comes after so many bytes.
    Tail { after: u64 },
}

impl Aside {
    pub fn new(settings: &Settings, documents: u64, text_bytes: u64) -> Self {
        let (fraction, seed) = (settings.validation, settings.seed);
        if documents == 1 {
            let after = (text_bytes as f64 * (1.0 - fraction)).round() as u64;
            return Self::Tail { after };
        }
        let mut bound = (fraction * 2f64.powi(64)) as u64;
        if fraction > 0.0 {
            // Few documents may all draw more; then it is the one with the smallest draw.
            let least = (0..documents).map(|document| draw(seed, document)).min();
            bound = bound.max(least.unwrap_or(0).saturating_add(1));
        }
        Self::Documents { seed, bound }
    }

    /// In words, for the manifest.
    pub fn words(&self) -> String {
        match self {
            Self::Documents { .. } => "whole documents, drawn by seed and number".into(),
            Self::Tail { .. } => "the only document's end is kept aside".into(),
        }
    }

    /// Where a piece of text belongs: `text` bytes of text and `document` documents came before.
    pub fn divide(&self, piece: Piece, document: u64, text: u64) -> Vec<(Split, Piece)> {
        match *self {
            Self::Documents { seed, bound } if draw(seed, document) < bound => {
                vec![(Split::Validation, piece)]
            }
            Self::Documents { .. } => vec![(Split::Train, piece)],
            Self::Tail { after } if text >= after && text > 0 => vec![(Split::Validation, piece)],
            Self::Tail { after } if text + (piece.text.len() as u64) < after => {
                vec![(Split::Train, piece)]
            }
            Self::Tail { after } => {
                let at = cut_after(&piece.text, (after - text) as usize);
                let (first, rest) = piece.text.split_at(at);
                let kept = |text: &str, end| Piece {
                    text: text.to_owned(),
                    end,
                };
                let mut parts = vec![(Split::Train, kept(first, true))];
                if !rest.is_empty() {
                    parts.push((Split::Validation, kept(rest, piece.end)));
                }
                parts
            }
        }
    }
}

/// Uniform on 64 bits: the finaliser of SplitMix64, over the seed and then the document.
fn draw(seed: u64, document: u64) -> u64 {
    let mix = |x: u64| {
        let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(seed) ^ document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str) -> Piece {
        Piece {
            text: text.into(),
            end: true,
        }
    }

    #[test]
    fn the_fraction_is_kept_and_never_nothing() {
        let settings = Settings {
            validation: 0.1,
            ..Settings::default()
        };
        let aside = |documents| {
            let rule = Aside::new(&settings, documents, 0);
            let kept = |&n: &u64| rule.divide(piece("a"), n, 0)[0].0 == Split::Validation;
            (0..documents).filter(kept).count()
        };
        assert!((9_700..10_300).contains(&aside(100_000)));
        assert!((2..6).all(|documents| aside(documents) >= 1));
        let none = Settings {
            validation: 0.0,
            ..settings
        };
        let rule = Aside::new(&none, 1000, 0);
        assert!((0..1000).all(|n| rule.divide(piece("a"), n, 0)[0].0 == Split::Train));
    }

    #[test]
    fn an_only_document_is_cut_after_a_word() {
        let rule = Aside::Tail { after: 5 };
        let parts = rule.divide(piece("one two three"), 0, 0);
        let texts: Vec<&str> = parts.iter().map(|(_, part)| part.text.as_str()).collect();
        assert_eq!(texts, ["one two", " three"]);
        assert!(parts.iter().all(|(_, part)| part.end));
        assert_eq!(
            Aside::Tail { after: 13 }
                .divide(piece("one two three"), 0, 0)
                .len(),
            1
        );
    }
}
