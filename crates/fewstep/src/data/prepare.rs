//! From sources to shards, and on again after an interruption.
//!
//! Now and then the shards are synced and a note says how far they and the sources are. A run that
//! finds such a note continues there and ends with the bytes of a run that was not interrupted:
//! the pieces of text do not depend on where reading began, nor the symbols on how many pieces
//! are encoded at once.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    Characters, Error, Manifest, Packing, Part, Settings, Source, Split, Tokenizer, manifest,
    scan::{Aside, Scan, scan},
    shard::remove_shards,
    source::{Piece, Place, Reader, Rules, files},
    stream::{State, Stream},
    tokenizer::Description,
};

/// The note of an unfinished preparation.
const NOTE: &str = "progress.json";
/// Text that each thread encodes between two looks at the clock.
const BATCH: usize = 1 << 20;
/// Text between two notes if no shard is finished.
const NOTE_EVERY: u64 = 64 << 20;

/// What to prepare, from what, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Text files, `.jsonl` and `.parquet` files, and folders of them.
    pub inputs: Vec<PathBuf>,
    /// The directory of the data.
    pub out: PathBuf,
    /// What determines the data.
    pub settings: Settings,
    /// Whether to begin anew where there are data.
    pub overwrite: bool,
    /// The most bytes of a document that is held in memory.
    pub document_bytes: usize,
}

impl Options {
    /// With the default settings.
    pub fn new(inputs: Vec<PathBuf>, out: PathBuf) -> Self {
        Self {
            inputs,
            out,
            settings: Settings::default(),
            overwrite: false,
            document_bytes: 64 << 20,
        }
    }
}

/// Watches a preparation.
pub trait Watch: Sync {
    /// A pass over so many bytes begins.
    fn begin(&self, stage: &str, bytes: u64);
    /// So many of them are done.
    fn advance(&self, bytes: u64);
    /// The pass has ended.
    fn end(&self);
    /// Whether to stop here, to be continued.
    fn stopped(&self) -> bool;
}

/// Watches nothing and never stops.
impl Watch for () {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
    fn stopped(&self) -> bool {
        false
    }
}

/// What came of a preparation.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// What the directory holds.
    pub manifest: Manifest,
    /// Whether it did so before.
    pub already: bool,
}

/// How far an unfinished preparation is.
#[derive(Serialize, Deserialize)]
struct Note {
    settings: Settings,
    tokenizer: Description,
    sources: Vec<Source>,
    cursor: Cursor,
    train: State,
    validation: State,
}

/// How far the sources are read.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Cursor {
    source: usize,
    place: Place,
    documents: u64,
    text: u64,
}

/// Prepares data, continues to, or finds that nothing is to be done.
pub fn prepare(options: &Options, watch: &dyn Watch) -> Result<Prepared, Error> {
    let (settings, out) = (&options.settings, options.out.as_path());
    settings.check()?;
    let named = match settings.tokenizer.as_str() {
        "char" => None,
        name => Some(Tokenizer::named(name)?),
    };
    let paths = files(&options.inputs)?;
    if paths.is_empty() {
        return Err(Error::Option(
            "no input; name a text file or a folder".into(),
        ));
    }
    fs::create_dir_all(out).map_err(Error::write(out))?;
    let _lock = lock(out)?;
    let there = out.join(manifest::FILE).exists();
    let done = there.then(|| Manifest::read(out)).transpose()?;
    let note = if options.overwrite {
        None
    } else {
        read_note(out)?
    };
    let earlier = done.as_ref().map(|done| &done.settings);
    let earlier = earlier.or(note.as_ref().map(|note| &note.settings));
    if let Some(earlier) = earlier.filter(|_| !options.overwrite) {
        refuse_difference(out, earlier.differences(settings))?;
    }

    let rules = Rules {
        settings,
        parts: named.as_ref().is_none_or(Tokenizer::takes_parts),
        limit: options.document_bytes,
    };
    let scan = scan(&paths, &rules, watch)?;
    let tokenizer = named.unwrap_or_else(|| {
        let eos = scan.documents > 1 || settings.packing != Packing::Plain;
        Tokenizer::Characters(Characters::new(scan.characters.iter().copied(), eos))
    });
    if tokenizer.eos().is_none() && settings.packing != Packing::Plain {
        return Err(Error::Option(format!(
            "tokenizer {} has no symbol for the end of a document, which wrapped packing needs",
            settings.tokenizer
        )));
    }
    let description = tokenizer.description();
    if !options.overwrite {
        let made_of = |tokenizer: &Description, sources: &[Source]| {
            refuse_difference(out, other_sources(sources, &scan.sources))?;
            let other = *tokenizer != description;
            refuse_difference(
                out,
                if other { "another tokenizer.json" } else { "" }.into(),
            )
        };
        if let Some(manifest) = done {
            made_of(&manifest.tokenizer, &manifest.sources)?;
            remove(&out.join(NOTE))?;
            return Ok(Prepared {
                manifest,
                already: true,
            });
        }
        if let Some(note) = &note {
            made_of(&note.tokenizer, &note.sources)?;
        }
    }
    remove(&out.join(manifest::FILE))?;
    if note.is_none() {
        remove(&out.join(NOTE))?;
    }
    let note = note.unwrap_or_else(|| Note {
        settings: settings.clone(),
        tokenizer: description,
        sources: scan.sources.clone(),
        cursor: Cursor::default(),
        train: State::default(),
        validation: State::default(),
    });
    remove_shards(out, &[&note.train.written, &note.validation.written])?;
    let manifest = write(out, &paths, (&rules, &tokenizer), &scan, note, watch)?;
    Ok(Prepared {
        manifest,
        already: false,
    })
}

/// The second pass.
fn write(
    out: &Path,
    paths: &[PathBuf],
    (rules, tokenizer): (&Rules, &Tokenizer),
    scan: &Scan,
    mut note: Note,
    watch: &dyn Watch,
) -> Result<Manifest, Error> {
    let settings = rules.settings;
    let aside = Aside::new(settings, scan.documents, scan.text_bytes);
    // A mask must fit, too.
    let symbol_bytes = if tokenizer.vocabulary() < 65535 { 2 } else { 4 };
    let open = |split, state: &State| {
        let packing = (settings.packing, tokenizer.eos());
        let sizes = (symbol_bytes, settings.shard_tokens);
        Stream::open(out, split, packing, sizes, state.clone())
    };
    let mut train = open(Split::Train, &note.train)?;
    let mut validation = open(Split::Validation, &note.validation)?;
    let most = BATCH * rayon::current_num_threads();
    let mut noted = (note.cursor.text, train.finished() + validation.finished());
    let mut cursor = note.cursor;
    watch.begin(
        "encoding",
        scan.sources.iter().map(|source| source.bytes).sum(),
    );
    let mut before: u64 = scan.sources[..cursor.source]
        .iter()
        .map(|source| source.bytes)
        .sum();
    while cursor.source < paths.len() {
        let mut reader = Reader::open(&paths[cursor.source], rules, cursor.place)?;
        let mut more = true;
        while more {
            let mut batch: Vec<(Split, Piece)> = Vec::new();
            let mut size = 0;
            while size < most {
                let Some(piece) = reader.next()? else {
                    more = false;
                    break;
                };
                let (length, end) = (piece.text.len(), piece.end);
                batch.extend(aside.divide(piece, cursor.documents, cursor.text));
                cursor.text += length as u64;
                cursor.documents += u64::from(end);
                size += length;
            }
            cursor.place = reader.place();
            let encode = |(_, piece): &(Split, Piece)| {
                let mut ids = Vec::new();
                tokenizer.encode(&piece.text, &mut ids).map(|()| ids)
            };
            let encoded: Vec<Vec<u32>> = batch.par_iter().map(encode).collect::<Result<_, _>>()?;
            for ((split, piece), ids) in batch.iter().zip(&encoded) {
                let stream = match split {
                    Split::Train => &mut train,
                    Split::Validation => &mut validation,
                };
                stream.push(ids, piece.text.len(), piece.end)?;
            }
            watch.advance(before + reader.bytes());
            let shards = train.finished() + validation.finished();
            let stopped = watch.stopped();
            if stopped || shards > noted.1 || cursor.text - noted.0 >= NOTE_EVERY {
                note.cursor = cursor;
                note.train = train.sync()?;
                note.validation = validation.sync()?;
                write_json(&out.join(NOTE), &note)?;
                noted = (cursor.text, shards);
            }
            if stopped {
                return Err(Error::Stopped);
            }
        }
        before += scan.sources[cursor.source].bytes;
        cursor.source += 1;
        cursor.place = Place::default();
    }
    watch.end();
    if (cursor.documents, cursor.text) != (scan.documents, scan.text_bytes) {
        return Err(Error::Changed);
    }
    let parts = [train.finish()?, validation.finish()?];
    finish(
        out,
        (settings, symbol_bytes),
        tokenizer,
        (note, aside),
        parts,
    )
}

/// Writes the manifest, after which the note is of no use.
fn finish(
    out: &Path,
    (settings, symbol_bytes): (&Settings, usize),
    tokenizer: &Tokenizer,
    (note, aside): (Note, Aside),
    [train, validation]: [Part; 2],
) -> Result<Manifest, Error> {
    if train.tokens == 0 {
        // Nothing of it is worth to be continued.
        remove(&out.join(NOTE))?;
        remove_shards(out, &[])?;
        return Err(Error::NoTokens);
    }
    let (format, version) = Manifest::format();
    let manifest = Manifest {
        format,
        version,
        settings: settings.clone(),
        tokenizer: note.tokenizer,
        vocabulary: tokenizer.vocabulary(),
        eos: tokenizer.eos(),
        symbol_bytes,
        split: aside.words(),
        sources: note.sources,
        train,
        validation,
    };
    write_json(&out.join(manifest::FILE), &manifest)?;
    remove(&out.join(NOTE))?;
    Ok(manifest)
}

pub(super) fn refuse_difference(directory: &Path, what: String) -> Result<(), Error> {
    if what.is_empty() {
        return Ok(());
    }
    Err(Error::Different {
        directory: directory.to_owned(),
        what,
    })
}

/// How sources differ, in words; empty if they do not.
fn other_sources(old: &[Source], new: &[Source]) -> String {
    if old.len() != new.len() {
        return format!("{} sources, not {}", old.len(), new.len());
    }
    let mut pairs = old.iter().zip(new);
    let Some((old, new)) = pairs.find(|(old, new)| old != new) else {
        return String::new();
    };
    if old.path == new.path {
        format!("{} has changed since", new.path)
    } else {
        format!("source {}, not {}", old.path, new.path)
    }
}

fn read_note(out: &Path) -> Result<Option<Note>, Error> {
    let path = out.join(NOTE);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
    let note = serde_json::from_str(&text).map_err(|e| Error::Damaged {
        path,
        why: e.to_string(),
    })?;
    Ok(Some(note))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    fewstep_nn::replace(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
    .map_err(Error::write(path))
}

pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::write(path)(e)),
        _ => Ok(()),
    }
}

/// Keeps others from preparing data in the same directory at the same time.
pub(super) fn lock(directory: &Path) -> Result<Option<fs::File>, Error> {
    if cfg!(not(unix)) {
        // Only there can a directory be opened like a file.
        return Ok(None);
    }
    let file = fs::File::open(directory).map_err(Error::read(directory))?;
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy(directory.to_owned())),
        // A file system without locks is no reason to refuse.
        _ => Ok(Some(file)),
    }
}
