//! The trunk's evaluation, and its way back.

use std::sync::{Mutex, PoisonError, RwLock};

use super::{
    Block, Dit,
    correction::Corrected,
    frame::Framed,
    linear::{Slots, affine, affine_tangent},
    matrices::{Matrices, Piece, Way},
    pipeline::{MATRICES, Pipeline, Work},
    time::Time,
    towers::Towers,
    trunk::{BlockPass, Kept, Scratch, Sizes, Sums, sized},
};
use crate::{
    Adaptation, Batch, Real, Soft, Want,
    layers::norm::{EPS, Norm, Stats},
};

/// An evaluation: the features of every position, and what a backward pass needs. Its arrays are
/// used again by the next evaluation.
#[derive(Clone, Debug, Default)]
pub struct Pass<T> {
    pub(super) sizes: Sizes,
    /// The way back it was kept for.
    pub(super) back: Option<Adaptation>,
    /// The rows that can be shown, if not all.
    pub(super) rows: Option<Vec<usize>>,
    pub(super) time: Time<T>,
    /// The symbol of each position, or several, and their weights.
    tokens: Vec<usize>,
    weights: Vec<T>,
    /// `gain (r - t)` of each sequence.
    pub(super) steps: Vec<f64>,
    parts: Vec<Part<T>>,
    rooms: Rooms<T>,
    pub(super) x: Vec<T>,
    pub(super) dx: Vec<T>,
    stats: Vec<Stats<T>>,
    modulation: Vec<T>,
    pub(super) correction: Corrected<T>,
    pub(super) features: Vec<T>,
    pub(super) tangents: Vec<T>,
    framed: Framed<T>,
    pub(super) towers: Towers<T>,
    /// In the features, of the rows descended from.
    pub(super) gfeatures: Vec<T>,
    pub(super) begun: bool,
    pub(super) descended: bool,
}

/// Room for the packed matrices of two blocks.
type Rooms<T> = [[Vec<T>; MATRICES]; 2];

/// A few sequences that go through the trunk together. Parts are independent, so threads take one
/// each, and small enough for what passes between two operations to stay in a core's cache.
#[derive(Clone, Debug, Default)]
struct Part<T> {
    sizes: Sizes,
    kept: Vec<Kept<T>>,
    scratch: Scratch<T>,
}

/// Numbers of a state `[positions, C]` that a part has at least, unless there are no more. A part that
/// comes back is the same whatever the number of threads, and so is the order of every sum.
const PART: usize = 1 << 15;

impl<T: Real> Dit<T> {
    /// The trunk on whole sequences, or the towers.
    pub(super) fn run(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        match &self.layout.join {
            None => self.run_trunk((batch, None), want, pass),
            Some(join) => self.run_towers(join, batch, want, pass),
        }
    }

    /// The trunk on the symbols of a batch, or on combinations of some in their place.
    pub(super) fn run_trunk(
        &self,
        (batch, soft): (Batch, Option<Soft>),
        want: Want,
        pass: &mut Pass<T>,
    ) {
        let count = batch.t.len();
        assert!(count > 0 && batch.r.len() == count && batch.x.len().is_multiple_of(count));
        let length = batch.x.len() / count;
        assert!(
            (1..=self.config.length).contains(&length),
            "sequences of {length} for a network of {}",
            self.config.length
        );
        let (layout, p, c) = (&self.layout, &self.parameters[..], self.config.width);
        let sizes = Sizes {
            length,
            heads: self.config.heads,
            channels: c,
            conditioning: self.config.conditioning,
            batch: count,
            moving: want.moving.min(count),
            causal: self.layout.join.is_some(),
            exact: self.layout.frame.is_some(),
        };
        pass.sizes = sizes;
        pass.back = want.back;
        pass.rows = want.rows.map(<[usize]>::to_vec);
        pass.begun = false;
        pass.descended = false;
        let about = (&self.config, layout);
        pass.time = Time::new(about, p, (batch.t, batch.r), sizes.moving);
        pass.tokens.clear();
        pass.weights.clear();
        match soft {
            None => pass.tokens.extend_from_slice(batch.x),
            Some(Soft { symbols, weights }) => {
                assert!(symbols.len() == weights.len() && symbols.len() >= batch.x.len());
                assert!(symbols.len().is_multiple_of(batch.x.len()));
                pass.tokens.extend_from_slice(symbols);
                pass.weights.extend(weights.iter().map(|w| T::of(*w)));
            }
        }
        pass.steps.clear();
        let steps = batch.t.iter().zip(batch.r);
        pass.steps.extend(steps.map(|(t, r)| self.gain * (r - t)));

        let embedding = &p[layout.embedding.clone()];
        let x = sized(&mut pass.x, sizes.state());
        let (several, of) = (pass.tokens.len() / batch.x.len(), |token: usize| {
            &embedding[token * c..(token + 1) * c]
        });
        let rows = x.chunks_exact_mut(c).zip(pass.tokens.chunks_exact(several));
        if pass.weights.is_empty() {
            rows.for_each(|(row, token)| row.copy_from_slice(of(token[0])));
        } else {
            for ((row, tokens), weights) in rows.zip(pass.weights.chunks_exact(several)) {
                row.fill(T::of(0.0));
                for (&token, w) in tokens.iter().zip(weights) {
                    let parts = row.iter_mut().zip(of(token));
                    parts.for_each(|(x, e)| *x += *w * *e);
                }
            }
        }
        if let Some(positions) = &layout.positions {
            // A sequence may be shorter than the grid, or go on behind it.
            for sequence in x.chunks_exact_mut(length * c) {
                let cells = sequence.iter_mut().zip(&p[positions.clone()]);
                cells.for_each(|(x, p)| *x += *p);
            }
        }
        if let Some(frame) = &layout.frame {
            frame.enter(p, sizes, x, &mut pass.framed);
        }
        pass.dx.clear();
        let dx = sized(&mut pass.dx, sizes.moved());
        let every = if want.back == Some(Adaptation::Full) {
            layout.blocks.len()
        } else {
            1
        };
        let together = match want.back {
            Some(_) => part_of(length, c),
            None => part_of(length, c).min(share_of(count)),
        };
        let parts = count.div_ceil(together);
        pass.parts.resize_with(parts, Part::default);
        for (i, part) in pass.parts.iter_mut().enumerate() {
            let first = i * together;
            part.sizes = Sizes {
                batch: together.min(count - first),
                moving: sizes.moving.saturating_sub(first).min(together),
                ..sizes
            };
            part.kept.resize_with(every, Kept::default);
        }
        let last = layout.blocks.len() - 1;
        let chunk = together * length * c;
        let mut moved = dx.chunks_mut(chunk);
        let states = pass.parts.iter_mut().zip(x.chunks_mut(chunk));
        let states: Vec<_> = states
            .map(|(part, x)| Mutex::new((part, x, moved.next().unwrap_or_default())))
            .collect();
        let (trunk, e) = (&pass.time.trunk, together * sizes.conditioning);
        let shared = Shared::new(&mut pass.rooms, (p, c), Way::There);
        let pipeline = Pipeline {
            blocks: layout.blocks.len(),
            parts,
            packs: parts > 1,
            pieces: 0,
        };
        pipeline.run(
            parts >= rayon::current_num_threads(),
            |work, _| match work {
                Work::Pack { at, matrix } => shared.pack(at, &layout.blocks[at], matrix),
                Work::Part { at, part: i } => {
                    let mut state = held(states[i].lock());
                    let (part, x, dx) = &mut *state;
                    let value = chunk_of(&trunk.value, i, e);
                    let tangent = chunk_of(&trunk.tangent, i, e);
                    // Of several sequences that go together all rows are computed.
                    let chosen = want.rows.filter(|_| at == last && part.sizes.batch == 1);
                    let chosen = chosen.map(|rows| rows_of(rows, i * together * length, length));
                    let rows = chosen.as_deref().filter(|rows| rows.len() < length);
                    let Part {
                        sizes,
                        kept,
                        scratch,
                    } = &mut **part;
                    let about = (*sizes, p, &layout.blocks[at], &self.angles);
                    let kept = &mut kept[at.min(every - 1)];
                    shared.with(at, &layout.blocks[at], parts > 1, |matrices| {
                        let mut here = BlockPass::new(about, matrices, scratch);
                        here.forward((value, tangent), (x, dx), rows, kept);
                    });
                }
                Work::Piece { .. } => unreachable!("no gradient is summed on the way there"),
            },
        );
        drop(states);
        self.finish(pass);
    }

    /// The last norm, and the correction.
    fn finish(&self, pass: &mut Pass<T>) {
        let (layout, p, s) = (&self.layout, &self.parameters[..], pass.sizes);
        let rows = s.batch * s.length;
        if let Some(frame) = &layout.frame {
            let features = sized(&mut pass.features, s.state());
            let tangents = sized(&mut pass.tangents, s.moved());
            let states = (&pass.x[..], &pass.dx[..]);
            frame.leave(p, s, states, (features, tangents), &mut pass.framed);
            return self.correct(pass);
        }
        let trunk = &pass.time.trunk;
        pass.modulation = affine(p, &layout.modulation, s.conditioning, &trunk.value);
        let dmodulation = affine_tangent(p, &layout.modulation, s.conditioning, &trunk.tangent);
        let norm = self.norm(&p[layout.norm.clone()], &pass.modulation, s);
        let features = sized(&mut pass.features, s.state());
        norm.forward(&pass.x, features, sized(&mut pass.stats, rows));
        let tangents = sized(&mut pass.tangents, s.moved());
        norm.tangent((&pass.x, &pass.stats), (&pass.dx, &dmodulation), tangents);
        self.correct(pass);
    }

    pub(super) fn norm<'a>(&self, weight: &'a [T], modulation: &'a [T], s: Sizes) -> Norm<'a, T> {
        Norm {
            weight,
            modulation,
            stride: 2 * s.channels,
            at: 0,
            length: s.length,
            eps: EPS,
        }
    }

    pub(super) fn back_trunk(
        &self,
        pass: &mut Pass<T>,
        gfeatures: &[T],
        full: bool,
        gradient: &mut Slots<T>,
    ) {
        let (layout, p, s) = (&self.layout, &self.parameters[..], pass.sizes);
        let mut gx = vec![T::of(0.0); if full { s.state() } else { 0 }];
        let gcorrection = layout
            .correction
            .as_ref()
            .map(|at| self.back_correction(pass, at, gfeatures, &mut gx, gradient));
        let mut gtrunk = None;
        if full {
            let mut gc = vec![T::of(0.0); pass.time.trunk.value.len()];
            let c = pass.time.trunk.value.clone();
            if let Some(frame) = &layout.frame {
                frame.back_leave(p, &pass.framed, (&pass.x, gfeatures), &mut gx, gradient);
            } else {
                let norm = self.norm(&p[layout.norm.clone()], &pass.modulation, s);
                let mut gmods = vec![T::of(0.0); pass.modulation.len()];
                let gweight = gradient.at(&layout.norm);
                norm.backward(
                    (&pass.x, &pass.stats),
                    gfeatures,
                    &mut gx,
                    &mut gmods,
                    gweight,
                );
                let inner = (s.conditioning, &c[..]);
                gradient.affine(p, &layout.modulation, inner, &gmods, Some(&mut gc));
            }
            let blocks = self.back_blocks(pass, &mut gx, gradient);
            for (block, sums) in layout.blocks.iter().rev().zip(blocks) {
                let mut gmods = Vec::new();
                for sums in sums {
                    sums.add(block, gradient);
                    gmods.extend(sums.modulation);
                }
                let inner = (s.conditioning, &c[..]);
                gradient.affine(p, &block.modulation, inner, &gmods, Some(&mut gc));
            }
            if let Some(frame) = &layout.frame {
                frame.back_enter(p, s, &pass.framed, &mut gx, gradient);
            }
            if let Some(positions) = &layout.positions {
                let gpositions = gradient.at(positions);
                for sequence in gx.chunks_exact(s.length * s.channels) {
                    let cells = gpositions.iter_mut().zip(sequence);
                    cells.for_each(|(p, g)| *p += *g);
                }
            }
            let gembedding = gradient.at(&layout.embedding);
            let several = pass.tokens.len() / (s.batch * s.length);
            for (i, &token) in pass.tokens.iter().enumerate() {
                let at = i / several * s.channels;
                let g = &gx[at..at + s.channels];
                let to = &mut gembedding[token * s.channels..(token + 1) * s.channels];
                match pass.weights.get(i) {
                    None => to.iter_mut().zip(g).for_each(|(t, g)| *t += *g),
                    Some(w) => to.iter_mut().zip(g).for_each(|(t, g)| *t += *w * *g),
                }
            }
            gtrunk = Some(gc);
        }
        let about = (&self.config, layout);
        pass.time.backward(about, p, gtrunk, gcorrection, gradient);
    }

    /// Turns the gradient `gx` in the blocks' output into that in their input, and gives those of their
    /// matrices to `gradient`: for each block from the last on, each part's gradients of vectors.
    fn back_blocks(
        &self,
        pass: &mut Pass<T>,
        gx: &mut [T],
        gradient: &mut Slots<T>,
    ) -> Vec<Vec<Sums<T>>> {
        let (layout, p, c) = (&self.layout, &self.parameters[..], self.config.width);
        let (blocks, parts) = (layout.blocks.len(), pass.parts.len());
        let chunk = part_of(pass.sizes.length, c) * pass.sizes.length * c;
        let states: Vec<_> = pass.parts.iter_mut().zip(gx.chunks_mut(chunk)).collect();
        let states: Vec<_> = states.into_iter().map(RwLock::new).collect();
        let alone = parts >= rayon::current_num_threads();
        let backwards = layout.blocks.iter().rev();
        let pieces: Vec<_> = backwards.map(|block| Piece::all(block, c, alone)).collect();
        let accumulate = gradient.accumulate;
        let mut all: Vec<(usize, &Piece)> = pieces.iter().flatten().enumerate().collect();
        all.sort_by_key(|(_, piece)| piece.range.start);
        let ranges = all.iter().map(|(_, piece)| piece.range.clone());
        let mut slices: Vec<_> = all
            .iter()
            .map(|(i, _)| *i)
            .zip(gradient.split(ranges))
            .collect();
        slices.sort_by_key(|(i, _)| *i);
        let slices: Vec<_> = slices
            .into_iter()
            .map(|(_, slice)| Mutex::new(slice))
            .collect();
        let sums = Mutex::new((0..blocks).map(|_| Vec::new()).collect::<Vec<_>>());
        let shared = Shared::new(&mut pass.rooms, (p, c), Way::Back);
        let pipeline = Pipeline {
            blocks,
            parts,
            packs: parts > 1,
            pieces: pieces[0].len(),
        };
        pipeline.run(alone, |work, board| match work {
            Work::Pack { at, matrix } => shared.pack(at, &layout.blocks[blocks - 1 - at], matrix),
            Work::Part { at, part: i } => {
                let block = &layout.blocks[blocks - 1 - at];
                let mut state = held(states[i].write());
                let (part, gx) = &mut *state;
                let about = (part.sizes, p, block, &self.angles);
                let kept = &part.kept[blocks - 1 - at];
                let found = shared.with(at, block, parts > 1, |matrices| {
                    BlockPass::new(about, matrices, &mut part.scratch).backward(kept, gx)
                });
                held(sums.lock())[at].push((i, found));
            }
            Work::Piece { at, piece } => {
                let mut slice = held(slices[at * pieces[0].len() + piece].lock());
                for (i, state) in states.iter().enumerate() {
                    board.wait_for_part(at, i);
                    let (part, _) = &*held(state.read());
                    let scratch = &part.scratch;
                    scratch.piece(&pieces[at][piece], &mut slice, accumulate || i > 0);
                    board.had(at, piece);
                }
            }
        });
        let mut sums = held(sums.into_inner());
        let sorted = sums.iter_mut().map(|block| {
            block.sort_by_key(|(i, _)| *i);
            block.drain(..).map(|(_, sums)| sums).collect()
        });
        sorted.collect()
    }
}

/// What a lock holds. Locks only tell the compiler what the order of work guarantees: nobody waits
/// for one, and after a panic nobody goes on.
fn held<G>(lock: Result<G, PoisonError<G>>) -> G {
    lock.unwrap_or_else(PoisonError::into_inner)
}

/// The matrices of the blocks, packed for all parts where they are shared.
struct Shared<'a, T> {
    rooms: [[RwLock<&'a mut Vec<T>>; MATRICES]; 2],
    parameters: &'a [T],
    channels: usize,
    way: Way,
}

impl<'a, T: Real> Shared<'a, T> {
    fn new(rooms: &'a mut Rooms<T>, (parameters, channels): (&'a [T], usize), way: Way) -> Self {
        Self {
            rooms: rooms
                .each_mut()
                .map(|room| room.each_mut().map(RwLock::new)),
            parameters,
            channels,
            way,
        }
    }

    /// Packs a matrix of the block reached as the `at`-th.
    fn pack(&self, at: usize, block: &Block, matrix: usize) {
        let mut room = held(self.rooms[at % 2][matrix].write());
        let about = (self.parameters, block, self.channels);
        Matrices::pack(about, self.way, matrix, &mut room);
    }

    /// `f` with the matrices of the block reached as the `at`-th.
    fn with<R>(
        &self,
        at: usize,
        block: &Block,
        packed: bool,
        f: impl FnOnce(Matrices<T>) -> R,
    ) -> R {
        let about = (self.parameters, block, self.channels);
        if !packed {
            return f(Matrices::new(about, self.way, None));
        }
        let room = self.rooms[at % 2].each_ref().map(|room| held(room.read()));
        let packed = room.each_ref().map(|room| &room[..]);
        f(Matrices::new(about, self.way, Some(packed)))
    }
}

/// Sequences of a part. It has half as many rows as channels at least: with fewer, every part would
/// read matrices from memory that it has little to do with.
fn part_of(length: usize, channels: usize) -> usize {
    PART.max(channels * channels / 2)
        .div_ceil(length * channels)
}

/// Sequences of a part if every thread is to have one, where they suffice for that. Without a way back
/// nothing is summed over parts, so they may differ by the number of threads; and threads that meet after
/// every product wait there longer than it takes to read a matrix once more.
fn share_of(count: usize) -> usize {
    match count / rayon::current_num_threads() {
        0 => count,
        share => share,
    }
}

/// The rows of the sequence that begins at row `start`, counted from there; its first one if there
/// are none, so that no product is empty.
fn rows_of(rows: &[usize], start: usize, length: usize) -> Vec<usize> {
    let rows = &rows[rows.partition_point(|&row| row < start)..];
    let rows = &rows[..rows.partition_point(|&row| row < start + length)];
    match rows {
        [] => vec![0],
        rows => rows.iter().map(|row| row - start).collect(),
    }
}

/// Chunk `i` of `size` entries, or what there is of it.
fn chunk_of<T>(all: &[T], i: usize, size: usize) -> &[T] {
    let end = all.len().min((i + 1) * size);
    &all[end.min(i * size)..end]
}
