//! Convolution: `y[b, i, j, o] = bias[o] + sum_{u, v, c} w[o, u, v, c] x[b, s i + u - p, s j + v - q, c]`.
//!
//! A weight is `[O, kh, kw, I]`, the order in which a window lies in memory; [`arranged`] brings
//! PyTorch's `[O, I, kh, kw]` into it.
//!
//! - forward, stride 1: a band of lines is copied with its border; a line of every window is then a
//!   run of `kw I` numbers, `I` apart from its neighbour's. That is a matrix as it lies, so the band
//!   is `kh` products and no window is ever written out. The `kw - 1` places between two lines are
//!   computed for nothing.
//! - forward, stride 1, a window of 3 x 3 over many channels: by [`super::winograd`].
//! - other strides, and backward: the windows of a band are written out. `gw = gy^T windows`,
//!   `gwindows = gy w`, which is added back to the pixels it came from.
//!
//! No array is larger than a band. Bands are the threads' tasks, or, where there are too few, take
//! all threads one after the other; the results are the same.

use rayon::prelude::*;

use super::{
    gate::add_column_sums,
    picture::{Pictures, Window},
    winograd,
};
use crate::{
    Real,
    kernel::{self, View, aligned, matmul},
};

/// Pixels of the result in a band.
const BAND: usize = 1024;
/// Numbers of windows that are written out at a time.
const WINDOWS: usize = 1 << 20;

/// A convolution of pictures.
#[derive(Clone, Copy, Debug)]
pub struct Conv<'a, T> {
    /// How its window moves.
    pub window: Window,
    /// `[O, kh, kw, I]`.
    pub weight: &'a [T],
    /// `[O]`, or nothing.
    pub bias: &'a [T],
    /// `I`.
    pub inputs: usize,
    /// `O`.
    pub outputs: usize,
}

/// `[O, I, kh, kw]` as `[O, kh, kw, I]`.
pub fn arranged<T: Real>(weight: &mut [T], [outputs, inputs, height, width]: [usize; 4]) {
    let (one, area) = (inputs * height * width, height * width);
    let mut from = vec![T::of(0.0); one];
    for filter in weight.chunks_exact_mut(one.max(1)).take(outputs) {
        from.copy_from_slice(filter);
        for (at, line) in filter.chunks_exact_mut(inputs).enumerate() {
            for (c, w) in line.iter_mut().enumerate() {
                *w = from[c * area + at];
            }
        }
    }
}

impl<T: Real> Conv<'_, T> {
    fn depth(&self) -> usize {
        self.window.area() * self.inputs
    }

    fn check(&self, pictures: Pictures, x: &[T], y: &[T]) -> Pictures {
        let out = self.window.out(pictures, self.outputs);
        assert_eq!(pictures.channels, self.inputs, "channels of a convolution");
        assert_eq!(self.weight.len(), self.outputs * self.depth(), "its weight");
        assert_eq!((x.len(), y.len()), (pictures.size(), out.size()));
        out
    }

    /// `y`, or `y += ` if `add`.
    pub fn forward(&self, pictures: Pictures, x: &[T], y: &mut [T], add: bool) {
        let out = self.check(pictures, x, y);
        if self.window == Window::same(1, 1) {
            // Pixels are rows as they lie.
            y.par_chunks_mut(BAND * self.outputs)
                .for_each(|y| self.start(y, add));
            return self.product(View::new(x, pictures.pixels(), self.inputs), 0, y);
        }
        if winograd::suits(self, out) {
            return winograd::forward(*self, pictures, x, y, add);
        }
        let lines = match self.window.stride {
            1 => BAND / (out.width + self.window.size[1]),
            _ => WINDOWS / (out.width * self.depth()).max(1),
        };
        bands(out, lines.max(1), y, |(picture, line), y| {
            let x = &x[picture * pictures.one()..][..pictures.one()];
            if self.window.stride == 1 {
                self.band(pictures, x, line, y, add);
            } else {
                self.start(y, add);
                let mut buffer = T::take();
                let rows = y.len() / self.outputs;
                let windows = aligned(&mut buffer, rows * self.depth());
                self.write_out(pictures, x, line, windows);
                self.product(View::new(windows, rows, self.depth()), 0, y);
                T::give(buffer);
            }
        });
    }

    /// What a sum begins with.
    fn start(&self, y: &mut [T], add: bool) {
        match (add, self.bias.is_empty()) {
            (true, true) => {}
            (true, false) => {
                for row in y.chunks_exact_mut(self.outputs) {
                    row.iter_mut().zip(self.bias).for_each(|(y, b)| *y += *b);
                }
            }
            (false, true) => y.fill(T::of(0.0)),
            (false, false) => {
                for row in y.chunks_exact_mut(self.outputs) {
                    row.copy_from_slice(self.bias);
                }
            }
        }
    }

    /// Adds the products with the inputs from `first` on of every filter.
    fn product(&self, x: View<T>, first: usize, y: &mut [T]) {
        let (depth, here) = (self.depth(), x.cols());
        let weight = View::strided(&self.weight[first..], (self.outputs, here), depth);
        matmul(x, weight.t(), y, true);
    }

    /// Lines of the result from `line` on, without writing windows out.
    fn band(&self, pictures: Pictures, x: &[T], line: usize, y: &mut [T], add: bool) {
        let Window {
            size: [height, width],
            before: [top, left],
            after: [_, right],
            ..
        } = self.window;
        let (inputs, outputs) = (self.inputs, self.outputs);
        let pitch = pictures.width + left + right;
        let across = pitch + 1 - width;
        let lines = y.len() / (across * outputs);
        let (mut buffer, mut sums) = (T::take(), T::take());
        let bordered = aligned(&mut buffer, (lines + height - 1) * pitch * inputs);
        for (i, to) in bordered.chunks_exact_mut(pitch * inputs).enumerate() {
            let from = (line + i).checked_sub(top);
            match from.filter(|&from| from < pictures.height) {
                None => to.fill(T::of(0.0)),
                Some(from) => {
                    let one = pictures.width * inputs;
                    let (before, rest) = to.split_at_mut(left * inputs);
                    let (inside, after) = rest.split_at_mut(one);
                    before.fill(T::of(0.0));
                    inside.copy_from_slice(&x[from * one..][..one]);
                    after.fill(T::of(0.0));
                }
            }
        }
        let places = lines * pitch + 1 - width;
        let sums_here = aligned(&mut sums, places * outputs);
        self.start(sums_here, false);
        for u in 0..height {
            let rows = &bordered[u * pitch * inputs..];
            let rows = View::strided(rows, (places, width * inputs), inputs);
            self.product(rows, u * width * inputs, sums_here);
        }
        let lines = sums_here.chunks(pitch * outputs);
        for (from, to) in lines.zip(y.chunks_exact_mut(across * outputs)) {
            if add {
                to.iter_mut().zip(from).for_each(|(y, s)| *y += *s);
            } else {
                to.copy_from_slice(&from[..across * outputs]);
            }
        }
        T::give(sums);
        T::give(buffer);
    }

    /// Calls `f(place in the windows, place in the picture, length)` for every run of numbers that
    /// windows of the lines from `line` on have in common with a picture.
    fn runs(
        &self,
        pictures: Pictures,
        (line, count): (usize, usize),
        mut f: impl FnMut(usize, usize, usize),
    ) {
        let across = self.window.out(pictures, 1).width;
        let [_, width] = self.window.size;
        for i in 0..count {
            let (y, high, above) = self.window.seen(0, pictures.height, line + i);
            for j in 0..across {
                let (x, wide, before) = self.window.seen(1, pictures.width, j);
                let window = (i * across + j) * self.window.area();
                for u in 0..high {
                    let to = window + (above + u) * width + before;
                    let from = (y + u) * pictures.width + x;
                    f(to * self.inputs, from * self.inputs, wide * self.inputs);
                }
            }
        }
    }

    /// The windows of the lines from `line` on, `[places, kh kw I]`.
    fn write_out(&self, pictures: Pictures, x: &[T], line: usize, windows: &mut [T]) {
        let across = self.window.out(pictures, 1).width;
        let lines = windows.len() / (across * self.depth());
        windows.fill(T::of(0.0));
        self.runs(pictures, (line, lines), |to, from, n| {
            windows[to..to + n].copy_from_slice(&x[from..from + n]);
        });
    }

    /// Adds `dw` to `gweight` and `db` to `gbias`, if there is one, from the gradient `gy`.
    pub fn backward_weight(
        &self,
        pictures: Pictures,
        (x, gy): (&[T], &[T]),
        gweight: &mut [T],
        gbias: Option<&mut [T]>,
    ) {
        let out = self.check(pictures, x, gy);
        if let Some(gbias) = gbias {
            add_column_sums(gy, gbias);
        }
        let lines = (WINDOWS / (out.width * self.depth()).max(1)).max(1);
        let mut buffer = T::take();
        for (x, gy) in x
            .chunks_exact(pictures.one())
            .zip(gy.chunks_exact(out.one()))
        {
            let bands = gy.chunks(lines * out.width * self.outputs);
            for (i, gy) in bands.enumerate() {
                let rows = gy.len() / self.outputs;
                let windows = aligned(&mut buffer, rows * self.depth());
                self.write_out(pictures, x, i * lines, windows);
                let windows = View::new(windows, rows, self.depth());
                matmul(
                    View::new(gy, rows, self.outputs).t(),
                    windows,
                    gweight,
                    true,
                );
            }
        }
        T::give(buffer);
    }

    /// `gx` from the gradient `gy`.
    pub fn backward_input(&self, pictures: Pictures, gy: &[T], gx: &mut [T]) {
        let out = self.check(pictures, gx, gy);
        let lines = (WINDOWS / (out.width * self.depth()).max(1)).max(1);
        let one = |(gx, gy): (&mut [T], &[T])| {
            gx.fill(T::of(0.0));
            let mut buffer = T::take();
            let bands = gy.chunks(lines * out.width * self.outputs);
            for (i, gy) in bands.enumerate() {
                let rows = gy.len() / self.outputs;
                let windows = aligned(&mut buffer, rows * self.depth());
                let weight = View::new(self.weight, self.outputs, self.depth());
                matmul(View::new(gy, rows, self.outputs), weight, windows, false);
                let count = rows / out.width;
                self.runs(pictures, (i * lines, count), |at, to, n| {
                    let pixels = gx[to..to + n].iter_mut();
                    pixels.zip(&windows[at..at + n]).for_each(|(g, w)| *g += *w);
                });
            }
            T::give(buffer);
        };
        let alone = pictures.count >= rayon::current_num_threads();
        let pairs = gx.par_chunks_exact_mut(pictures.one());
        let pairs = pairs.zip(gy.par_chunks_exact(out.one()));
        if alone {
            pairs.for_each(|pair| kernel::alone(true, || one(pair)));
        } else {
            gx.chunks_exact_mut(pictures.one())
                .zip(gy.chunks_exact(out.one()))
                .for_each(one);
        }
    }
}

/// Calls `f((picture, first line), lines)` for bands of `lines` of every picture of `y`, over all
/// threads if there are enough bands, else one after the other with all threads to each.
pub(super) fn bands<T: Real>(
    out: Pictures,
    lines: usize,
    y: &mut [T],
    f: impl Fn((usize, usize), &mut [T]) + Sync,
) {
    let threads = rayon::current_num_threads();
    let line = (out.width * out.channels).max(1);
    let parts: Vec<_> = y
        .chunks_mut(out.one().max(1))
        .enumerate()
        .flat_map(|(picture, y)| {
            let parts = y.chunks_mut(lines * line).enumerate();
            parts.map(move |(i, y)| ((picture, i * lines), y))
        })
        .collect();
    if threads > 1 && parts.len() >= 2 * threads {
        let parts = parts.into_par_iter().with_max_len(1);
        parts.for_each(|(at, y)| kernel::alone(true, || f(at, y)));
    } else {
        parts.into_iter().for_each(|(at, y)| f(at, y));
    }
}
