//! What a MaskGIT has around the blocks: learned positions and an MLP before them, an MLP after them
//! instead of a last norm, and a head that is the embedding again, with a bias for every position.
//!
//! Time does not enter here. So nothing moves before the blocks, and the tangent only passes through
//! the last MLP.

use std::ops::Range;

use super::{
    linear::{Slots, add_to_rows, forward},
    trunk::{Sizes, sized},
};
use crate::{
    Real,
    layers::{
        gelu::{self, Form},
        norm::{Norm, Stats},
    },
    layout::Affine,
};

/// Of the norms outside of the blocks.
const EPS: f64 = 1e-12;

/// `norm(gelu(linear(norm(x))))`, the common part of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The norm of what comes in.
    pub before: Affine,
    /// `[C, C]`.
    pub linear: Affine,
    /// The norm of what comes out.
    pub after: Affine,
}

/// Where the tensors around the blocks lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `[1, L, C]`.
    pub positions: Range<usize>,
    /// Before the blocks, where a linear layer follows it.
    pub first: Edge,
    /// That layer, `[C, C]`.
    pub entry: Affine,
    /// After the blocks.
    pub last: Edge,
    /// `[L, vocabulary]`.
    pub biases: Range<usize>,
    /// Symbols that are predicted, which are the first of the vocabulary.
    pub symbols: usize,
}

/// What an evaluation keeps of it.
#[derive(Clone, Debug, Default)]
pub struct Framed<T> {
    entered: Vec<T>,
    first: Kept<T>,
    out: Vec<T>,
    last: Kept<T>,
}

#[derive(Clone, Debug, Default)]
struct Kept<T> {
    stats: [Vec<Stats<T>>; 2],
    normed: Vec<T>,
    hidden: Vec<T>,
    active: Vec<T>,
}

/// A norm with a bias, which is the shift of a modulation that all rows have in common.
struct Biased<'a, T> {
    weight: &'a [T],
    modulation: Vec<T>,
    rows: usize,
}

impl<'a, T: Real> Biased<'a, T> {
    fn new(parameters: &'a [T], at: &Affine, rows: usize) -> Self {
        let mut modulation = parameters[at.bias.clone()].to_vec();
        modulation.resize(2 * at.bias.len(), T::of(0.0));
        Self {
            weight: &parameters[at.weight.clone()],
            modulation,
            rows,
        }
    }

    fn norm(&self) -> Norm<'_, T> {
        Norm {
            weight: self.weight,
            modulation: &self.modulation,
            stride: self.modulation.len(),
            at: 0,
            length: self.rows,
            eps: EPS,
        }
    }

    /// Adds `dx` to `gx` and the gradients of weight and bias to theirs.
    fn backward(
        &self,
        at: &Affine,
        (x, stats): (&[T], &[Stats<T>]),
        gy: &[T],
        gx: &mut [T],
        gradient: &mut Slots<T>,
    ) {
        let mut gmodulation = vec![T::of(0.0); self.modulation.len()];
        let gweight = gradient.at(&at.weight);
        self.norm()
            .backward((x, stats), gy, gx, &mut gmodulation, gweight);
        let gbias = gradient.at(&at.bias).iter_mut();
        gbias.zip(&gmodulation).for_each(|(b, g)| *b += *g);
    }
}

impl Edge {
    fn forward<T: Real>(&self, p: &[T], x: &[T], y: &mut [T], kept: &mut Kept<T>) {
        let (n, c) = (x.len(), self.before.bias.len());
        let rows = n / c;
        let [stats1, stats2] = &mut kept.stats;
        let normed = sized(&mut kept.normed, n);
        let before = Biased::new(p, &self.before, rows);
        before.norm().forward(x, normed, sized(stats1, rows));
        let (hidden, active) = (sized(&mut kept.hidden, n), sized(&mut kept.active, n));
        forward(&p[self.linear.weight.clone()], c, normed, hidden);
        gelu::forward(Form::Exact, hidden, &p[self.linear.bias.clone()], active);
        let after = Biased::new(p, &self.after, rows);
        after.norm().forward(active, y, sized(stats2, rows));
    }

    /// `dy` of the first rows from `dx`.
    fn tangent<T: Real>(&self, p: &[T], x: &[T], dx: &[T], dy: &mut [T], kept: &Kept<T>) {
        let (n, c) = (dx.len(), self.before.bias.len());
        let rows = x.len() / c;
        let still = vec![T::of(0.0); 2 * c];
        let (mut normed, mut hidden) = (vec![T::of(0.0); n], vec![T::of(0.0); n]);
        let before = Biased::new(p, &self.before, rows);
        let primal = (x, &kept.stats[0][..]);
        before.norm().tangent(primal, (dx, &still), &mut normed);
        forward(&p[self.linear.weight.clone()], c, &normed, &mut hidden);
        gelu::chain(Form::Exact, &kept.hidden[..n], &mut hidden);
        let after = Biased::new(p, &self.after, rows);
        let primal = (&kept.active[..], &kept.stats[1][..]);
        after.norm().tangent(primal, (&hidden, &still), dy);
    }

    /// Adds `dx` to `gx`.
    fn backward<T: Real>(
        &self,
        p: &[T],
        (x, kept): (&[T], &Kept<T>),
        gy: &[T],
        gx: &mut [T],
        gradient: &mut Slots<T>,
    ) {
        let (n, c) = (x.len(), self.before.bias.len());
        let mut g = vec![T::of(0.0); n];
        let [stats1, stats2] = &kept.stats;
        let after = Biased::new(p, &self.after, n / c);
        after.backward(&self.after, (&kept.active, stats2), gy, &mut g, gradient);
        gelu::chain(Form::Exact, &kept.hidden, &mut g);
        let mut gnormed = Vec::new();
        gradient.affine(p, &self.linear, (c, &kept.normed), &g, Some(&mut gnormed));
        let before = Biased::new(p, &self.before, n / c);
        before.backward(&self.before, (x, stats1), &gnormed, gx, gradient);
    }
}

impl Frame {
    /// Whether gradients are added to this tensor, so that it has to be cleared before.
    pub(super) fn adds(&self, range: &Range<usize>) -> bool {
        *range == self.positions || *range == self.biases
    }

    /// Brings embedded symbols `x [N, C]` to where the blocks begin.
    pub(super) fn enter<T: Real>(&self, p: &[T], s: Sizes, x: &mut [T], kept: &mut Framed<T>) {
        let positions = &p[self.positions.clone()][..s.length * s.channels];
        for sequence in x.chunks_exact_mut(positions.len()) {
            sequence
                .iter_mut()
                .zip(positions)
                .for_each(|(x, p)| *x += *p);
        }
        kept.entered.clear();
        kept.entered.extend_from_slice(x);
        let out = sized(&mut kept.out, x.len());
        self.first.forward(p, &kept.entered, out, &mut kept.first);
        forward(&p[self.entry.weight.clone()], s.channels, out, x);
        add_to_rows(x, &p[self.entry.bias.clone()]);
    }

    /// Features, and their tangents, of the state behind the blocks.
    pub(super) fn leave<T: Real>(
        &self,
        p: &[T],
        s: Sizes,
        (x, dx): (&[T], &[T]),
        (features, tangents): (&mut [T], &mut [T]),
        kept: &mut Framed<T>,
    ) {
        self.last.forward(p, x, features, &mut kept.last);
        if s.moving > 0 {
            self.last.tangent(p, x, dx, tangents, &kept.last);
        }
    }

    /// The way back of [`leave`](Self::leave): adds to `gx`.
    pub(super) fn back_leave<T: Real>(
        &self,
        p: &[T],
        kept: &Framed<T>,
        (x, gfeatures): (&[T], &[T]),
        gx: &mut [T],
        gradient: &mut Slots<T>,
    ) {
        self.last
            .backward(p, (x, &kept.last), gfeatures, gx, gradient);
    }

    /// The way back of [`enter`](Self::enter): `gx` becomes the gradient in embedded symbols.
    pub(super) fn back_enter<T: Real>(
        &self,
        p: &[T],
        s: Sizes,
        kept: &Framed<T>,
        gx: &mut [T],
        gradient: &mut Slots<T>,
    ) {
        let mut gout = Vec::new();
        let inner = (s.channels, &kept.out[..]);
        gradient.affine(p, &self.entry, inner, gx, Some(&mut gout));
        gx.fill(T::of(0.0));
        let primal = (&kept.entered[..], &kept.first);
        self.first.backward(p, primal, &gout, gx, gradient);
        let gpositions = gradient.at(&self.positions);
        for sequence in gx.chunks_exact(s.length * s.channels) {
            let to = gpositions.iter_mut();
            to.zip(sequence).for_each(|(p, g)| *p += *g);
        }
    }
}
