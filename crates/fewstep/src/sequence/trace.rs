//! A generation as it went: what each step left of noise, kept to be shown.
//!
//! A [`Recording`] is fed by the sampler's `seen` and keeps symbols, not text, so that looking on
//! costs a copy. [`Frame::texts`] makes text of it: one piece a position, or one for several
//! positions where a character is spread over them. The same pieces are what a terminal shows
//! while a text forms and what the [page](Recording::page) replays.

mod page;

use fewstep_ctmc::{Grid, Path};
use serde::{Deserialize, Serialize};

pub use page::{Cell, Change, Replay};

use super::{Corpus, sampler::State};

/// Sequences of a batch that are kept; a page with more is no longer read by anyone.
pub const KEPT: usize = 8;

/// Stands for a position that is masked.
pub const MASK: &str = "\u{2592}";

/// What is known of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A prediction was drawn there.
    Drawn,
    /// It is masked.
    Masked,
    /// It has not moved since it was noise.
    Noise,
    /// It was given and never moves.
    Given,
}

/// One sequence after one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Symbols, the mask included.
    pub symbols: Vec<usize>,
    /// What is known of each.
    pub kinds: Vec<Kind>,
}

/// A batch after one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Steps done.
    pub step: usize,
    /// The time reached.
    pub t: f64,
    /// Evaluations of the network so far.
    pub evaluations: usize,
    /// The first sequences.
    pub frames: Vec<Frame>,
}

/// A generation, moment by moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    points: Vec<f64>,
    mask: Option<usize>,
    moments: Vec<Moment>,
}

impl Frame {
    /// The `number`-th sequence of a state.
    fn of(state: &State, number: usize, mask: Option<usize>) -> Option<Self> {
        let symbols = state.sequences().nth(number)?.to_vec();
        let start = number * state.length();
        let kind = |(i, symbol): (usize, &usize)| {
            if state.fixed[start + i] {
                Kind::Given
            } else if mask == Some(*symbol) {
                Kind::Masked
            } else if state.drawn[start + i] {
                Kind::Drawn
            } else {
                Kind::Noise
            }
        };
        let kinds = symbols.iter().enumerate().map(kind).collect();
        Some(Self { symbols, kinds })
    }

    /// The text of each position. A character of several positions stands at the first, the others
    /// are empty; a masked position has [`MASK`].
    pub fn texts(&self, corpus: &Corpus) -> Vec<String> {
        let mut texts = vec![String::new(); self.symbols.len()];
        let mut i = 0;
        while i < texts.len() {
            if self.kinds[i] == Kind::Masked {
                texts[i] = MASK.into();
                i += 1;
                continue;
            }
            let masked = |kind: &Kind| *kind == Kind::Masked;
            let run = self.kinds[i..].iter().position(masked);
            let most = run.unwrap_or(texts.len() - i).min(4);
            // No character has more than four bytes.
            let whole = (1..=most)
                .map(|n| (n, corpus.show(&self.symbols[i..i + n])))
                .find(|(_, text)| corpus.tokenizer().is_none() || !text.contains('\u{fffd}'));
            let (n, text) = whole.unwrap_or_else(|| (1, corpus.show(&self.symbols[i..=i])));
            texts[i] = text;
            i += n;
        }
        texts
    }

    /// The sequence as a person reads it, masks included.
    pub fn text(&self, corpus: &Corpus) -> String {
        self.texts(corpus).join(corpus.separator())
    }
}

impl Recording {
    /// Nothing yet, of a generation on `grid`.
    pub fn new(path: &Path, grid: &Grid) -> Self {
        Self {
            points: grid.points().to_vec(),
            mask: path.mask_symbol(),
            moments: Vec::new(),
        }
    }

    /// Keeps a state after `done` steps and shows what was kept. Only the first batch is kept: the
    /// next one begins again at 0 steps, and what does not follow on the last moment is passed
    /// over.
    pub fn see(&mut self, done: usize, state: &State) -> Option<&Moment> {
        if done != self.moments.len() {
            return None;
        }
        let moment = Moment {
            step: done,
            t: *self.points.get(done)?,
            evaluations: state.evaluations,
            frames: (0..KEPT)
                .map_while(|number| Frame::of(state, number, self.mask))
                .collect(),
        };
        self.moments.push(moment);
        self.moments.last()
    }

    /// What was kept so far.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// The steps of the grid.
    pub fn steps(&self) -> usize {
        self.points.len() - 1
    }

    /// Whether the `position` of a sequence was changed by the step that led to a moment.
    pub fn changed(&self, moment: usize, sequence: usize, position: usize) -> bool {
        let symbol = |moment: usize| {
            let frame = self.moments.get(moment)?.frames.get(sequence)?;
            frame.symbols.get(position)
        };
        moment > 0 && symbol(moment) != symbol(moment - 1)
    }
}
