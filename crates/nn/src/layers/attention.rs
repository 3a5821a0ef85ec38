//! Attention, `o = softmax(q k^T / sqrt(d)) v`, in memory linear in the length.
//!
//! Arrays are head-major `[heads, L, d]`, where `heads` counts the heads of all sequences; each is
//! one task. There may be fewer queries than keys: those of the positions that anybody asks about.
//! Scores are computed for a panel of queries at a time and laid out with the queries as
//! columns, `s [L keys, queries]`: that is at once what the kernel writes, what a softmax over keys
//! does best (all queries of a register side by side, no sum across one), and the packed operand of
//! the second product. Only `lse = ln sum exp` of each query is kept for the other two passes,
//! which compute the scores again.
//!
//! With `p = exp(s - lse)` and `<.>` the sum over keys:
//! - backward: `dp = v do^T`, `ds = p (dp - <do, o>)`, `dq = ds^T k`, `dk = ds q`, `dv = p do`;
//! - tangent: `s' = q' k^T + q k'^T`, `o' = (p s') v + p v' - <p s'> o`.

use rayon::prelude::*;

use crate::{
    Real,
    kernel::{Left, Micro, Task, View, aligned, least, multiply, pack},
    simd,
};

/// Number of tasks, length of a sequence, channels of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Heads of all sequences.
    pub heads: usize,
    /// Positions `L`: keys and values.
    pub length: usize,
    /// Queries, and rows of the result.
    pub queries: usize,
    /// Channels `d` of one head.
    pub width: usize,
    /// Whether a query sees no key behind its own.
    pub causal: bool,
}

impl Shape {
    /// Numbers of a head's keys, and of its queries.
    fn one(&self) -> (usize, usize) {
        assert!(!self.causal || self.queries == self.length);
        (self.length * self.width, self.queries * self.width)
    }

    fn scale<T: Real>(&self) -> T {
        T::of(1.0 / (self.width as f64).sqrt())
    }

    /// Takes from a panel of scores, whose queries begin at `first`, the keys that they do not see.
    fn hide<T: Real>(&self, first: usize, cols: usize, scores: &mut [T]) {
        if !self.causal {
            return;
        }
        for (key, row) in scores.chunks_exact_mut(cols).enumerate().skip(first + 1) {
            row[..(key - first).min(cols)].fill(T::of(f64::NEG_INFINITY));
        }
    }
}

/// `o [heads, queries, d]` and `lse [heads, queries]`.
pub fn forward<T: Real>(shape: Shape, [q, k, v]: [&[T]; 3], o: &mut [T], lse: &mut [T]) {
    T::dispatch(Forward {
        shape,
        q,
        k,
        v,
        o,
        lse,
    });
}

/// `o'` from the derivatives `dq`, `dk`, `dv` of the inputs, and the outcome of [`forward`].
pub fn tangent<T: Real>(
    shape: Shape,
    [q, k, v]: [&[T]; 3],
    [dq, dk, dv]: [&[T]; 3],
    (o, lse): (&[T], &[T]),
    out: &mut [T],
) {
    T::dispatch(Tangent {
        shape,
        primal: [q, k, v],
        moved: [dq, dk, dv],
        o,
        lse,
        out,
    });
}

/// Gradients in `q`, `k`, `v` from the gradient `go` in `o`, and the outcome of [`forward`].
pub fn backward<T: Real>(
    shape: Shape,
    [q, k, v]: [&[T]; 3],
    (o, lse): (&[T], &[T]),
    go: &[T],
    [gq, gk, gv]: [&mut [T]; 3],
) {
    T::dispatch(Backward {
        shape,
        primal: [q, k, v],
        o,
        lse,
        go,
        gradient: [gq, gk, gv],
    });
}

struct Forward<'a, T> {
    shape: Shape,
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    o: &'a mut [T],
    lse: &'a mut [T],
}

impl<T: Real> Task<T> for Forward<'_, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        let Shape {
            length,
            queries: count,
            width,
            ..
        } = self.shape;
        let ((one, few), scale) = (self.shape.one(), self.shape.scale());
        let heads = self.o.par_chunks_mut(few);
        let heads = heads.zip(self.lse.par_chunks_mut(count));
        let heads = heads.enumerate().with_min_len(least());
        heads.for_each(|(head, (o, lse))| {
            let at = head * one..(head + 1) * one;
            let (q, k, v) = (
                &self.q[head * few..(head + 1) * few],
                &self.k[at.clone()],
                &self.v[at],
            );
            let mut buffer = T::take();
            let [values, queries, scores, out] = carve(
                &mut buffer,
                [
                    pack::lhs_len::<T, M>(width, length),
                    M::COLS * width,
                    M::COLS * length,
                    M::COLS * width,
                ],
            );
            let keys = Left::rows(k, width);
            let values = columns_of(micro, (v, width), values);
            for first in (0..count).step_by(M::COLS) {
                let count = M::COLS.min(count - first);
                let rows = first * width..(first + count) * width;
                queries_of(micro, (&q[rows.clone()], width), scale, queries);
                scores_of(micro, (length, width), keys, queries, scores, false);
                self.shape.hide(first, M::COLS, scores);
                let mut columns = Columns::default();
                columns.softmax(M::COLS, scores);
                scores_of(micro, (width, length), values, scores, out, false);
                for (lse, i) in lse[first..first + count].iter_mut().zip(0..) {
                    let sum = columns.sum[i];
                    *lse = columns.top[i] + T::of(sum.widen().ln());
                    columns.sum[i] = T::of(1.0) / sum;
                }
                for (i, row) in o[rows].chunks_exact_mut(width).enumerate() {
                    for (o, out) in row.iter_mut().zip(out.chunks_exact(M::COLS)) {
                        *o = out[i] * columns.sum[i];
                    }
                }
            }
            T::give(buffer);
        });
    }
}

struct Tangent<'a, T> {
    shape: Shape,
    primal: [&'a [T]; 3],
    moved: [&'a [T]; 3],
    o: &'a [T],
    lse: &'a [T],
    out: &'a mut [T],
}

impl<'a, T: Real> Task<T> for Tangent<'a, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        let Shape {
            length,
            queries: count,
            width,
            ..
        } = self.shape;
        let ((one, few), scale) = (self.shape.one(), self.shape.scale());
        self.out
            .par_chunks_mut(few)
            .enumerate()
            .with_min_len(least())
            .for_each(|(head, result)| {
                let (asked, at) = (head * few..(head + 1) * few, head * one..(head + 1) * one);
                let own =
                    |[q, k, v]: [&'a [T]; 3]| [&q[asked.clone()], &k[at.clone()], &v[at.clone()]];
                let ([q, k, v], [dq, dk, dv]) = (own(self.primal), own(self.moved));
                let (o, lse) = (&self.o[asked.clone()], &self.lse[head * count..]);
                let mut buffer = T::take();
                let cols_len = pack::lhs_len::<T, M>(width, length);
                let (panel, tile) = (M::COLS * length, M::COLS * width);
                let [values, dvalues, queries, dqueries, p, ds, out] = carve(
                    &mut buffer,
                    [cols_len, cols_len, tile, tile, panel, panel, tile],
                );
                let (keys, dkeys) = (Left::rows(k, width), Left::rows(dk, width));
                let values = columns_of(micro, (v, width), values);
                let dvalues = columns_of(micro, (dv, width), dvalues);
                for first in (0..count).step_by(M::COLS) {
                    let count = M::COLS.min(count - first);
                    let rows = first * width..(first + count) * width;
                    queries_of(micro, (&q[rows.clone()], width), scale, queries);
                    queries_of(micro, (&dq[rows.clone()], width), scale, dqueries);
                    scores_of(micro, (length, width), keys, queries, p, false);
                    scores_of(micro, (length, width), keys, dqueries, ds, false);
                    scores_of(micro, (length, width), dkeys, queries, ds, true);
                    self.shape.hide(first, M::COLS, p);
                    let mut columns = Columns::default();
                    columns.top[..count].copy_from_slice(&lse[first..first + count]);
                    columns.moved(M::COLS, p, ds);
                    scores_of(micro, (width, length), values, ds, out, false);
                    scores_of(micro, (width, length), dvalues, p, out, true);
                    let result = result[rows.clone()].chunks_exact_mut(width);
                    for (i, (row, o)) in result.zip(o[rows].chunks_exact(width)).enumerate() {
                        for ((r, o), out) in row.iter_mut().zip(o).zip(out.chunks_exact(M::COLS)) {
                            *r = out[i] - columns.sum[i] * *o;
                        }
                    }
                }
                T::give(buffer);
            });
    }
}

struct Backward<'a, T> {
    shape: Shape,
    primal: [&'a [T]; 3],
    o: &'a [T],
    lse: &'a [T],
    go: &'a [T],
    gradient: [&'a mut [T]; 3],
}

impl<T: Real> Task<T> for Backward<'_, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        let Shape {
            length,
            queries: count,
            width,
            ..
        } = self.shape;
        let ((one, few), scale) = (self.shape.one(), self.shape.scale::<T>());
        let [gq, gk, gv] = self.gradient;
        let heads = gq.par_chunks_mut(few).zip(gk.par_chunks_mut(one));
        let heads = heads.zip(gv.par_chunks_mut(one));
        let heads = heads.enumerate().with_min_len(least());
        heads.for_each(|(head, ((gq, gk), gv))| {
            let (asked, at) = (head * few..(head + 1) * few, head * one..(head + 1) * one);
            let [q, k, v] = self.primal;
            let (q, k, v) = (&q[asked.clone()], &k[at.clone()], &v[at]);
            let (o, go) = (&self.o[asked.clone()], &self.go[asked]);
            let lse = &self.lse[head * count..];
            let mut buffer = T::take();
            let (panel, tile) = (M::COLS * length, M::COLS * width);
            let [keys_t, queries, gout, p, ds, out, lines] = carve(
                &mut buffer,
                [
                    pack::lhs_len::<T, M>(width, length),
                    tile,
                    tile,
                    panel,
                    panel,
                    tile,
                    pack::rhs_len::<T, M>(M::COLS, width),
                ],
            );
            let (keys, values) = (Left::rows(k, width), Left::rows(v, width));
            let keys_t = columns_of(micro, (k, width), keys_t);
            gk.fill(T::of(0.0));
            gv.fill(T::of(0.0));
            for first in (0..count).step_by(M::COLS) {
                let count = M::COLS.min(count - first);
                let rows = first * width..(first + count) * width;
                let (q, o, go) = (&q[rows.clone()], &o[rows.clone()], &go[rows.clone()]);
                queries_of(micro, (q, width), scale, queries);
                queries_of(micro, (go, width), T::of(1.0), gout);
                scores_of(micro, (length, width), keys, queries, p, false);
                scores_of(micro, (length, width), values, gout, ds, false);
                self.shape.hide(first, M::COLS, p);
                let mut columns = Columns::default();
                columns.top[..count].copy_from_slice(&lse[first..first + count]);
                let pairs = o.chunks_exact(width).zip(go.chunks_exact(width));
                for (sum, (o, go)) in columns.sum.iter_mut().zip(pairs) {
                    *sum = dot(o, go);
                }
                columns.back(M::COLS, p, ds);
                scores_of(micro, (width, length), keys_t, ds, out, false);
                for (i, row) in gq[rows].chunks_exact_mut(width).enumerate() {
                    for (g, out) in row.iter_mut().zip(out.chunks_exact(M::COLS)) {
                        *g = out[i] * scale;
                    }
                }
                // dv += p do and dk += ds q: sums over the queries of this panel.
                for (scores, right, result) in [(&*p, go, &mut *gv), (&*ds, q, &mut *gk)] {
                    let lines = &mut lines[..pack::rhs_len::<T, M>(count, width)];
                    pack::rhs(micro, View::new(right, count, width), lines);
                    multiply(
                        micro,
                        (length, width, count),
                        Left::rows(scores, M::COLS),
                        lines,
                        result,
                        width,
                        true,
                    );
                }
            }
            gk.iter_mut().for_each(|g| *g = *g * scale);
            T::give(buffer);
        });
    }
}

/// Splits one aligned buffer into parts that each start at a cache line.
fn carve<T: Real, const N: usize>(buffer: &mut Vec<T>, sizes: [usize; N]) -> [&mut [T]; N] {
    let padded = sizes.map(|size| size.next_multiple_of(16));
    let mut rest = aligned(buffer, padded.iter().sum());
    std::array::from_fn(|i| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(padded[i]);
        rest = after;
        &mut part[..sizes[i]]
    })
}

/// Packs rows of queries as columns, times `scale`; columns beyond the last are zero.
fn queries_of<T: Real, M: Micro<T>>(
    micro: M,
    (rows, width): (&[T], usize),
    scale: T,
    out: &mut [T],
) {
    pack::rhs_panel(
        micro,
        View::new(rows, rows.len() / width, width).t(),
        0,
        out,
    );
    if scale != T::of(1.0) {
        simd::run(
            out,
            #[inline(always)]
            |out| out.iter_mut().for_each(|v| *v = *v * scale),
        );
    }
}

/// The columns of `rows [L, d]` as a left operand `[d, L]`.
fn columns_of<'a, T: Real, M: Micro<T>>(
    micro: M,
    (rows, width): (&[T], usize),
    out: &'a mut [T],
) -> Left<'a, T> {
    let length = rows.len() / width;
    pack::lhs(micro, View::new(rows, length, width).t(), out);
    Left::packed::<M>(out, length)
}

/// `out [m, COLS] (+)= left right`, for one panel on the right.
fn scores_of<T: Real, M: Micro<T>>(
    micro: M,
    (m, k): (usize, usize),
    left: Left<T>,
    right: &[T],
    out: &mut [T],
    accumulate: bool,
) {
    multiply(
        micro,
        (m, M::COLS, k),
        left,
        right,
        out,
        M::COLS,
        accumulate,
    );
}

fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut sum = T::of(0.0);
    for (a, b) in a.iter().zip(b) {
        sum += *a * *b;
    }
    sum
}

/// `e^s`, or zero where it would not change a sum near one. Attention that has learnt to look at one
/// key leaves numbers at the edge of the format at all others; products of those leave its normal
/// range, where the machine computes a hundred times slower.
#[inline(always)]
fn weight<T: Real>(s: T) -> T {
    let w = s.exp();
    if s > T::of(-46.0) { w } else { T::of(0.0) }
}

/// Widest panel of a kernel.
const WIDEST: usize = 64;

/// A number per query of a panel `[L, COLS]` of scores, and the loops over such panels.
struct Columns<T> {
    /// The largest score, or `lse`.
    top: [T; WIDEST],
    /// A sum over keys.
    sum: [T; WIDEST],
}

impl<T: Real> Default for Columns<T> {
    fn default() -> Self {
        Self {
            top: [T::of(0.0); WIDEST],
            sum: [T::of(0.0); WIDEST],
        }
    }
}

/// Calls a method for the width of the panels, as a constant.
macro_rules! by_width {
    ($cols:expr, $self:ident . $method:ident ( $($argument:ident),* )) => {
        simd::run(
            ($self, $($argument),*),
            #[inline(always)]
            |(this, $($argument),*)| match $cols {
                16 => this.$method::<16>($($argument),*),
                64 => this.$method::<64>($($argument),*),
                other => unreachable!("no kernel has panels of {other}"),
            },
        )
    };
}

impl<T: Real> Columns<T> {
    /// Replaces scores by `exp(s - top)` and sums them.
    fn softmax(&mut self, cols: usize, scores: &mut [T]) {
        by_width!(cols, self.softmax_in(scores));
    }

    /// Replaces scores by `p` and `s'` by `p s'`, and sums the latter; `top` is `lse`.
    fn moved(&mut self, cols: usize, scores: &mut [T], moved: &mut [T]) {
        by_width!(cols, self.moved_in(scores, moved));
    }

    /// Replaces scores by `p` and `dp` by `ds = p (dp - sum)`; `top` is `lse`.
    fn back(&mut self, cols: usize, scores: &mut [T], gradient: &mut [T]) {
        by_width!(cols, self.back_in(scores, gradient));
    }

    #[inline(always)]
    fn softmax_in<const W: usize>(&mut self, scores: &mut [T]) {
        let (rows, _) = scores.as_chunks_mut::<W>();
        let (mut top, mut sum) = ([T::of(f64::NEG_INFINITY); W], [T::of(0.0); W]);
        for row in rows.iter() {
            for i in 0..W {
                top[i] = if row[i] > top[i] { row[i] } else { top[i] };
            }
        }
        for row in rows {
            for i in 0..W {
                row[i] = weight(row[i] - top[i]);
                sum[i] += row[i];
            }
        }
        self.top[..W].copy_from_slice(&top);
        self.sum[..W].copy_from_slice(&sum);
    }

    #[inline(always)]
    fn moved_in<const W: usize>(&mut self, scores: &mut [T], moved: &mut [T]) {
        let ((rows, _), (moved, _)) = (scores.as_chunks_mut::<W>(), moved.as_chunks_mut::<W>());
        let (mut lse, mut sum) = ([T::of(0.0); W], [T::of(0.0); W]);
        lse.copy_from_slice(&self.top[..W]);
        for (row, moved) in rows.iter_mut().zip(moved) {
            for i in 0..W {
                row[i] = weight(row[i] - lse[i]);
                moved[i] = row[i] * moved[i];
                sum[i] += moved[i];
            }
        }
        self.sum[..W].copy_from_slice(&sum);
    }

    #[inline(always)]
    fn back_in<const W: usize>(&mut self, scores: &mut [T], gradient: &mut [T]) {
        let (rows, _) = scores.as_chunks_mut::<W>();
        let (gradient, _) = gradient.as_chunks_mut::<W>();
        let (mut lse, mut sum) = ([T::of(0.0); W], [T::of(0.0); W]);
        lse.copy_from_slice(&self.top[..W]);
        sum.copy_from_slice(&self.sum[..W]);
        for (row, gradient) in rows.iter_mut().zip(gradient) {
            for i in 0..W {
                row[i] = weight(row[i] - lse[i]);
                gradient[i] = row[i] * (gradient[i] - sum[i]);
            }
        }
    }
}
