//! Documents to one sequence of symbols, a split each.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    Error, Packing, Part, Split,
    shard::{Writer, Written},
};

/// Documents that are packed together by [`Packing::Wrapped`], as in the peers' pipelines.
const BATCH: u64 = 1000;

/// What a stream needs to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Documents that have ended.
    pub documents: u64,
    pub text_bytes: u64,
    /// Whether a document has begun that has not ended.
    open: bool,
    /// Symbols of a block that is not full.
    pending: Vec<u32>,
    pub written: Written,
}

/// Packs the documents of a split and writes them.
pub(super) struct Stream {
    state: State,
    packing: Packing,
    eos: Option<u32>,
    writer: Writer,
}

impl Stream {
    /// Continues after `state`.
    pub fn open(
        directory: &Path,
        split: Split,
        (packing, eos): (Packing, Option<u32>),
        sizes: (usize, u64),
        state: State,
    ) -> Result<Self, Error> {
        Ok(Self {
            writer: Writer::open(directory, split, sizes, state.written.clone())?,
            state,
            packing,
            eos,
        })
    }

    /// Appends symbols of the current document, made of `text_bytes` of text.
    pub fn push(&mut self, ids: &[u32], text_bytes: usize, end: bool) -> Result<(), Error> {
        self.state.text_bytes += text_bytes as u64;
        let begins = !self.state.open;
        self.state.open = !end;
        self.state.documents += u64::from(end);
        let eos = self.eos.as_slice();
        match self.packing {
            Packing::Whole { .. } => self.writer.push(ids),
            Packing::Plain => {
                let earlier = self.state.documents - u64::from(end);
                if begins && earlier > 0 {
                    self.writer.push(eos)?;
                }
                self.writer.push(ids)
            }
            Packing::Wrapped { length } => {
                let pending = &mut self.state.pending;
                pending.extend(ids);
                if end {
                    pending.extend(eos);
                }
                let blocks = pending.chunks_exact(length - 2);
                let rest = blocks.remainder().to_vec();
                for block in blocks {
                    self.writer.push(&[eos, block, eos].concat())?;
                }
                *pending = rest;
                if end && self.state.documents.is_multiple_of(BATCH) {
                    pending.clear();
                }
                Ok(())
            }
        }
    }

    /// How many shards are finished.
    pub fn finished(&self) -> usize {
        self.writer.finished()
    }

    /// What is on the disk for certain, and what is needed to go on from there.
    pub fn sync(&mut self) -> Result<State, Error> {
        self.state.written = self.writer.sync()?;
        Ok(self.state.clone())
    }

    /// Closes the last shard.
    pub fn finish(self) -> Result<Part, Error> {
        let shards = self.writer.finish()?;
        Ok(Part {
            documents: self.state.documents,
            tokens: shards.iter().map(|shard| shard.tokens).sum(),
            text_bytes: self.state.text_bytes,
            shards,
        })
    }
}
