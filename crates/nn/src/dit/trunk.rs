//! One block: `x += g1 attn_out(attention(qkv(mod(norm1 x))))`, `x += g2 mlp(mod(norm2 x))`.
//!
//! The modulation row of a sequence is shift1, scale1, g1, shift2, scale2, g2. Of the forward pass
//! a block keeps what is dear to compute again: its input, q, k, v, the attention's output, the
//! MLP's hidden layer before GELU, and both branches' outputs, 11 numbers a channel. Norms, GELU
//! and the state between the branches are recomputed on the way back.

use std::ops::Range;

use super::{
    Block,
    linear::{Slots, add_to_rows, affine, affine_tangent, times},
    matrices::{Matrices, Piece},
};
use crate::{
    Real,
    kernel::{View, matmul},
    layers::{
        attention::{self, Shape},
        gate::{Gate, add_column_sums},
        gelu::{self, Form},
        norm::{EPS, Norm, Stats},
        rotary::{self, Angles},
    },
};

/// Sizes of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Positions `L`.
    pub length: usize,
    /// Heads `H`.
    pub heads: usize,
    /// Channels `C`.
    pub channels: usize,
    /// Channels of the conditioning vector.
    pub conditioning: usize,
    /// Sequences `B`.
    pub batch: usize,
    /// The first sequences, which also have a tangent.
    pub moving: usize,
    /// Whether a position sees none behind it.
    pub causal: bool,
    /// Whether GELU is the exact one.
    pub exact: bool,
}

impl Sizes {
    /// Attention of the first `sequences`, which is asked about the positions of `few`.
    fn shape(&self, sequences: usize, few: &Self) -> Shape {
        Shape {
            heads: sequences * self.heads,
            length: self.length,
            queries: few.length,
            width: self.channels / self.heads,
            causal: self.causal,
        }
    }

    fn form(&self) -> Form {
        if self.exact { Form::Exact } else { Form::Tanh }
    }

    fn parts(&self) -> (usize, usize, usize) {
        (self.length, self.heads, self.channels / self.heads)
    }

    /// Those of some rows of a single sequence, or of all.
    fn only(&self, rows: Option<&[usize]>) -> Self {
        let Some(rows) = rows else { return *self };
        assert_eq!(self.batch, 1, "rows are chosen from one sequence");
        Self {
            length: rows.len(),
            ..*self
        }
    }

    /// Where `rows` of a single sequence are in an array that is sorted by heads.
    fn in_heads(&self, rows: &[usize]) -> Vec<usize> {
        let head = |h: usize| rows.iter().map(move |row| h * self.length + row);
        (0..self.heads).flat_map(head).collect()
    }

    /// Entries of a state `[N, C]`.
    pub fn state(&self) -> usize {
        self.batch * self.length * self.channels
    }

    /// Entries of its tangent.
    pub fn moved(&self) -> usize {
        self.moving * self.length * self.channels
    }
}

/// What a block keeps for its backward pass: of queries and what comes after them only `rows`, if these
/// are not all.
#[derive(Clone, Debug, Default)]
pub struct Kept<T> {
    x: Vec<T>,
    qkv: [Vec<T>; 3],
    o: Vec<T>,
    lse: Vec<T>,
    attended: Vec<T>,
    hidden: Vec<T>,
    out: Vec<T>,
    modulation: Vec<T>,
    stats: [Vec<Stats<T>>; 2],
    rows: Option<Vec<usize>>,
}

/// Arrays that are used again for every block.
#[derive(Clone, Debug, Default)]
pub struct Scratch<T> {
    narrow: [Vec<T>; 7],
    three: [Vec<T>; 2],
    wide: [Vec<T>; 2],
    stats: Vec<Stats<T>>,
}

/// `vec` as `n` entries, whatever they are.
pub fn sized<T: Copy + Default>(vec: &mut Vec<T>, n: usize) -> &mut [T] {
    vec.resize(n, T::default());
    vec
}

/// Rows of `width`, one after the other.
fn gather<T: Copy>(width: usize, rows: &[usize], from: &[T], to: &mut Vec<T>) {
    to.clear();
    for &row in rows {
        to.extend_from_slice(&from[row * width..(row + 1) * width]);
    }
}

/// The same in place, with `rows` in ascending order: they come first.
fn gather_here<T: Copy>(width: usize, rows: &[usize], all: &mut [T]) {
    for (i, &row) in rows.iter().enumerate() {
        all.copy_within(row * width..(row + 1) * width, i * width);
    }
}

/// Puts rows back where they were gathered.
fn scatter<T: Copy>(width: usize, rows: &[usize], from: &[T], to: &mut [T]) {
    for (row, from) in rows.iter().zip(from.chunks_exact(width)) {
        to[row * width..(row + 1) * width].copy_from_slice(from);
    }
}

fn norm<'a, T>(sizes: &Sizes, weight: &'a [T], modulation: &'a [T], which: usize) -> Norm<'a, T> {
    Norm {
        weight,
        modulation,
        stride: 6 * sizes.channels,
        at: which * 3 * sizes.channels,
        length: sizes.length,
        eps: EPS,
    }
}

fn gate<'a, T>(sizes: &Sizes, modulation: &'a [T], which: usize) -> Gate<'a, T> {
    Gate {
        modulation,
        stride: 6 * sizes.channels,
        at: (which * 3 + 2) * sizes.channels,
        length: sizes.length,
        channels: sizes.channels,
    }
}

/// A block of the network, with the tools of a pass.
pub struct BlockPass<'a, T> {
    sizes: Sizes,
    parameters: &'a [T],
    block: &'a Block,
    matrices: Matrices<'a, T>,
    angles: &'a Angles<T>,
    scratch: &'a mut Scratch<T>,
}

impl<'a, T: Real> BlockPass<'a, T> {
    /// Of given sizes, parameters, block and rotary angles, with the block's matrices for the way it
    /// is gone through, to work in `scratch`.
    pub fn new(
        (sizes, parameters, block, angles): (Sizes, &'a [T], &'a Block, &'a Angles<T>),
        matrices: Matrices<'a, T>,
        scratch: &'a mut Scratch<T>,
    ) -> Self {
        Self {
            sizes,
            parameters,
            block,
            matrices,
            angles,
            scratch,
        }
    }

    /// Moves the state `x [N, C]` through the block, and the tangent of its first sequences. If only
    /// some `rows` of a single sequence are wanted, the others say what they have to say to these, and
    /// stay as they are.
    pub fn forward(
        &mut self,
        (c, dc): (&[T], &[T]),
        (x, dx): (&mut [T], &mut [T]),
        rows: Option<&[usize]>,
        kept: &mut Kept<T>,
    ) {
        let (s, p, b) = (self.sizes, self.parameters, self.block);
        kept.modulation = affine(p, &b.modulation, s.conditioning, c);
        kept.rows = rows.map(<[usize]>::to_vec);
        let dmodulation = affine_tangent(p, &b.modulation, s.conditioning, dc);
        self.attend(&dmodulation, (x, dx), kept);
        let Some(rows) = rows else {
            self.feed(s, &dmodulation, (x, dx), kept);
            return;
        };
        let l = s.only(Some(rows));
        let [_, _, _, some, dsome, ..] = &mut self.scratch.narrow;
        let (mut some, mut dsome) = (std::mem::take(some), std::mem::take(dsome));
        gather(s.channels, rows, x, &mut some);
        gather(s.channels, &rows[..l.moving * rows.len()], dx, &mut dsome);
        self.feed(l, &dmodulation, (&mut some, &mut dsome), kept);
        scatter(s.channels, rows, &some, x);
        scatter(s.channels, rows, &dsome, dx);
        let [_, _, _, kept_some, kept_dsome, ..] = &mut self.scratch.narrow;
        (*kept_some, *kept_dsome) = (some, dsome);
    }

    /// What attention says to the rows that are wanted, and its tangent: in the first two narrow arrays.
    fn attend(&mut self, dmodulation: &[T], (x, dx): (&[T], &[T]), kept: &mut Kept<T>) {
        let (s, p, b) = (self.sizes, self.parameters, self.block);
        let (n, m, width) = (s.state(), s.moved(), s.channels);
        let few = s.only(kept.rows.as_deref());
        let wanted = kept.rows.as_deref().map(|rows| s.in_heads(rows));
        let scratch = &mut *self.scratch;
        let [h, dh, moved, ..] = &mut scratch.narrow;
        let (h, dh, moved) = (sized(h, n), sized(dh, m), sized(moved, few.moved()));
        kept.x.clear();
        kept.x.extend_from_slice(x);
        let rows = n / width;
        let stats = sized(&mut kept.stats[0], rows);
        let norm = norm(&s, &p[b.norm1.clone()], &kept.modulation, 0);
        norm.forward(&kept.x, h, stats);
        let three = sized(&mut scratch.three[0], 3 * n);
        times(self.matrices.qkv, h, three);
        if let Some(bias) = &b.qkv_bias {
            add_to_rows(three, &p[bias.clone()]);
        }
        let [q, k, v] = &mut kept.qkv;
        let parts = [sized(q, n), sized(k, n), sized(v, n)];
        rotary::split(self.angles, (s.length, s.heads), three, parts);
        if let Some(wanted) = &wanted {
            gather_here(width / s.heads, wanted, q);
            q.truncate(few.state());
        }
        let o = sized(&mut kept.o, few.state());
        let lse = sized(&mut kept.lse, few.state() / width * s.heads);
        attention::forward(s.shape(s.batch, &few), [q, k, v], o, lse);
        rotary::merge(few.parts(), o, &mut h[..few.state()]);
        if m > 0 {
            norm.tangent((&kept.x, stats), (dx, dmodulation), dh);
            let three = &mut three[..3 * m];
            times(self.matrices.qkv, dh, three);
            let dparts = &mut sized(&mut scratch.wide[0], 3 * m)[..];
            let (dq, rest) = dparts.split_at_mut(m);
            let (dk, dv) = rest.split_at_mut(m);
            let dparts = [&mut *dq, &mut *dk, &mut *dv];
            rotary::split(self.angles, (s.length, s.heads), three, dparts);
            if let Some(wanted) = &wanted {
                gather_here(width / s.heads, wanted, dq);
            }
            let (shape, asked) = (s.shape(s.moving, &few), few.moved());
            attention::tangent(
                shape,
                [&q[..asked], &k[..m], &v[..m]],
                [&dq[..asked], dk, dv],
                (&o[..asked], &lse[..asked / width * s.heads]),
                moved,
            );
            rotary::merge(few.parts(), moved, &mut dh[..asked]);
        }
    }

    /// What each row does by itself: it takes up what attention says, and goes through the MLP.
    fn feed(
        &mut self,
        s: Sizes,
        dmodulation: &[T],
        (x, dx): (&mut [T], &mut [T]),
        kept: &mut Kept<T>,
    ) {
        let (p, b) = (self.parameters, self.block);
        let (n, m, width) = (s.state(), s.moved(), s.channels);
        let scratch = &mut *self.scratch;
        let [h, dh, moved, ..] = &mut scratch.narrow;
        let (h, dh, moved) = (sized(h, n), sized(dh, m), sized(moved, m));
        let [wide, dwide] = &mut scratch.wide;
        let mods = &kept.modulation[..];
        let attended = sized(&mut kept.attended, n);
        times(self.matrices.out, h, attended);
        let gate1 = gate(&s, mods, 0);
        let bias = b.out_bias.as_ref().map(|bias| &p[bias.clone()]);
        gate1.forward(attended, bias, x);
        if m > 0 {
            times(self.matrices.out, dh, moved);
            gate1.tangent(&attended[..m], (moved, dmodulation), dx);
        }

        let stats = sized(&mut kept.stats[1], n / width);
        let norm2 = norm(&s, &p[b.norm2.clone()], mods, 1);
        norm2.forward(x, h, stats);
        if m > 0 {
            norm2.tangent((x, stats), (dx, dmodulation), dh);
        }
        let hidden = sized(&mut kept.hidden, 4 * n);
        let (active, dwide) = (sized(wide, 4 * n), sized(dwide, 4 * m));
        times(self.matrices.up, h, hidden);
        times(self.matrices.up, dh, dwide);
        let bias = &p[b.up.bias.clone()];
        let ((moving, still), (to, rest)) =
            (hidden.split_at_mut(4 * m), active.split_at_mut(4 * m));
        gelu::forward_chain(s.form(), moving, bias, to, dwide);
        gelu::forward(s.form(), still, bias, rest);
        let out = sized(&mut kept.out, n);
        times(self.matrices.down, active, out);
        let gate2 = gate(&s, mods, 1);
        gate2.forward(out, Some(&p[b.down.bias.clone()]), x);
        if m > 0 {
            times(self.matrices.down, dwide, moved);
            gate2.tangent(&out[..m], (moved, dmodulation), dx);
        }
    }

    /// Turns the gradient `gx` in the block's output into that in its input. What the gradients of
    /// the matrices need is left in the scratch arrays for [`Scratch::piece`]; those of
    /// vectors are returned. Rows that the forward pass was not asked for have no gradient.
    pub fn backward(&mut self, kept: &Kept<T>, gx: &mut [T]) -> Sums<T> {
        let (s, b, width) = (self.sizes, self.block, self.sizes.channels);
        let mut sums = Sums {
            modulation: vec![T::of(0.0); kept.modulation.len()],
            norms: [0, 1].map(|_| vec![T::of(0.0); width]),
            up: vec![T::of(0.0); 4 * width],
            down: vec![T::of(0.0); width],
            qkv: vec![T::of(0.0); b.qkv_bias.as_ref().map_or(0, Range::len)],
            out: vec![T::of(0.0); b.out_bias.as_ref().map_or(0, Range::len)],
        };
        match &kept.rows {
            None => self.feed_back(s, kept, gx, &mut sums),
            Some(rows) => {
                let mut some = Vec::new();
                gather(width, rows, gx, &mut some);
                self.feed_back(s.only(Some(rows)), kept, &mut some, &mut sums);
                scatter(width, rows, &some, gx);
            }
        }
        self.attend_back(kept, gx, &mut sums);
        sums
    }

    /// The way back of [`feed`](Self::feed): the gradient in what attention said is left in the last
    /// narrow array.
    fn feed_back(&mut self, s: Sizes, kept: &Kept<T>, gx: &mut [T], sums: &mut Sums<T>) {
        let (p, b) = (self.parameters, self.block);
        let (n, width) = (s.state(), s.channels);
        let scratch = &mut *self.scratch;
        let [_, h2, gy1, gy2, merged, middle, gh] = &mut scratch.narrow;
        let [h2, gy1, gy2, gh] = [h2, gy1, gy2, gh].map(|v| sized(v, n));
        let [active, gwide] = scratch.wide.each_mut().map(|v| sized(v, 4 * n));
        let mods = &kept.modulation[..];
        let gmods = &mut sums.modulation;
        let gate2 = gate(&s, mods, 1);
        gate2.backward(&kept.out, gx, gy2, gmods, Some(&mut sums.down));
        times(self.matrices.down, gy2, gwide);
        gelu::value_chain(s.form(), &kept.hidden, active, gwide);
        add_column_sums(gwide, &mut sums.up);
        // The state between the branches, by the operations of the forward pass.
        let gate1 = gate(&s, mods, 0);
        rotary::merge(s.parts(), &kept.o, sized(merged, n));
        match &kept.rows {
            None => middle.clone_from(&kept.x),
            Some(rows) => gather(width, rows, &kept.x, middle),
        }
        gh.copy_from_slice(&kept.attended);
        gate1.forward(gh, None, middle);
        let norm2 = norm(&s, &p[b.norm2.clone()], mods, 1);
        norm2.forward(middle, h2, sized(&mut scratch.stats, n / width));
        times(self.matrices.up, gwide, gh);
        let state = (&middle[..], &scratch.stats[..]);
        norm2.backward(state, gh, gx, gmods, &mut sums.norms[1]);

        let gbias = b.out_bias.is_some().then_some(&mut sums.out[..]);
        gate1.backward(&kept.attended, gx, gy1, gmods, gbias);
        times(self.matrices.out, gy1, gh);
    }

    /// The way back of [`attend`](Self::attend).
    fn attend_back(&mut self, kept: &Kept<T>, gx: &mut [T], sums: &mut Sums<T>) {
        let (s, p, b) = (self.sizes, self.parameters, self.block);
        let (n, width) = (s.state(), s.channels);
        let scratch = &mut *self.scratch;
        let few = s.only(kept.rows.as_deref());
        let [h1, .., go, gh] = &mut scratch.narrow;
        let [h1, go, gh] = [(h1, n), (go, few.state()), (gh, n)].map(|(v, n)| sized(v, n));
        let [three, gparts] = scratch.three.each_mut().map(|v| sized(v, 3 * n));
        rotary::divide(few.parts(), &gh[..few.state()], go);
        let (gq, rest) = gparts.split_at_mut(n);
        let (gk, gv) = rest.split_at_mut(n);
        let [q, k, v] = &kept.qkv;
        let asked = match &kept.rows {
            None => &mut *gq,
            Some(_) => &mut gh[..few.state()],
        };
        attention::backward(
            s.shape(s.batch, &few),
            [q, k, v],
            (&kept.o, &kept.lse),
            go,
            [asked, gk, gv],
        );
        if let Some(rows) = &kept.rows {
            gq.fill(T::of(0.0));
            scatter(width / s.heads, &s.in_heads(rows), &gh[..few.state()], gq);
        }
        rotary::join(self.angles, (s.length, s.heads), [gq, gk, gv], three);
        if b.qkv_bias.is_some() {
            add_column_sums(three, &mut sums.qkv);
        }
        let norm1 = norm(&s, &p[b.norm1.clone()], &kept.modulation, 0);
        let stats = sized(&mut scratch.stats, n / width);
        norm1.forward(&kept.x, h1, stats);
        times(self.matrices.qkv, three, gh);
        let (gmods, gweight) = (&mut sums.modulation, &mut sums.norms[0]);
        norm1.backward((&kept.x, stats), gh, gx, gmods, gweight);
    }
}

impl<T: Real> Scratch<T> {
    /// A piece of the gradient of a block's matrices, after [`BlockPass::backward`]: `gy^T x`, added if
    /// `accumulate`.
    pub fn piece(&self, piece: &Piece, gradient: &mut [T], accumulate: bool) {
        let [h1, h2, gy1, gy2, merged, ..] = &self.narrow;
        let ([active, gwide], [three, _]) = (&self.wide, &self.three);
        let (x, gy) = [(h1, three), (merged, gy1), (h2, gwide), (active, gy2)][piece.matrix];
        let n = x.len() / piece.inner;
        let (first, count) = (piece.rows.start, piece.rows.len());
        let gy = View::new(gy, n, gy.len() / n).part((0, first), (n, count));
        matmul(gy.t(), View::new(x, n, piece.inner), gradient, accumulate);
    }
}

/// Gradients of the vectors of a block.
#[derive(Debug)]
pub struct Sums<T> {
    /// In the modulation rows `[B, 6 C]`.
    pub modulation: Vec<T>,
    norms: [Vec<T>; 2],
    up: Vec<T>,
    down: Vec<T>,
    qkv: Vec<T>,
    out: Vec<T>,
}

impl<T: Real> Sums<T> {
    /// Adds those of parameters.
    pub fn add(&self, block: &Block, gradient: &mut Slots<T>) {
        for (range, sum) in [
            (&block.norm1, &self.norms[0]),
            (&block.norm2, &self.norms[1]),
            (&block.up.bias, &self.up),
            (&block.down.bias, &self.down),
        ] {
            let to = gradient.at(range);
            to.iter_mut().zip(sum).for_each(|(t, s)| *t += *s);
        }
        let biases = [(&block.qkv_bias, &self.qkv), (&block.out_bias, &self.out)];
        for (range, sum) in biases {
            if let Some(range) = range {
                let to = gradient.at(range);
                to.iter_mut().zip(sum).for_each(|(t, s)| *t += *s);
            }
        }
    }
}
