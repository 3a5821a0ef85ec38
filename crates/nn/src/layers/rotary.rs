//! Rotary positions (half-split, as GPT-NeoX), while a product's rows are taken apart into heads.
//!
//! Channel `j < d/2` of a head is paired with `j + d/2`; the pair at position `l` is turned by
//! `l f_j`, `f_j = 10000^{-2j/d}`. A rotation is linear, so the tangent of `q` is turned like `q`,
//! and a gradient is turned back.
//!
//! In a picture the first half of the pairs is turned by the row and the other by the column, each with
//! frequencies `100^{-j/n}`: the longest way there is some dozens of cells, not thousands of symbols.

use rayon::prelude::*;

use crate::{Real, kernel::least, simd};

/// Cosine and sine of every angle, `[L, d/2]` each.
#[derive(Clone, Debug, Default)]
pub struct Angles<T> {
    half: usize,
    cos: Vec<T>,
    sin: Vec<T>,
}

impl<T: Real> Angles<T> {
    /// Angles of positions `0..length` for heads of `width` channels.
    pub fn new(length: usize, width: usize) -> Self {
        let half = width / 2;
        Self::by(length, half, |l, j| {
            l as f64 * 10_000f64.powf(-(j as f64) / half as f64)
        })
    }

    /// Angles of the cells of rows of `columns`, one row after the other.
    pub fn grid(length: usize, width: usize, columns: usize) -> Self {
        let half = width / 2;
        let upper = half.div_ceil(2);
        Self::by(length, half, |l, j| {
            let (at, j, n) = match j.checked_sub(upper) {
                None => (l / columns, j, upper),
                Some(j) => (l % columns, j, half - upper),
            };
            at as f64 * 100f64.powf(-(j as f64) / n as f64)
        })
    }

    /// The angle of each pair at each position.
    fn by(length: usize, half: usize, of: impl Fn(usize, usize) -> f64) -> Self {
        let angle = |i: usize| of(i / half, i % half);
        Self {
            half,
            cos: (0..length * half).map(|i| T::of(angle(i).cos())).collect(),
            sin: (0..length * half).map(|i| T::of(angle(i).sin())).collect(),
        }
    }

    /// No turning at all, for networks that know their positions otherwise.
    pub fn still(length: usize, width: usize) -> Self {
        let half = width / 2;
        Self {
            half,
            cos: vec![T::of(1.0); length * half],
            sin: vec![T::of(0.0); length * half],
        }
    }

    /// Positions there are angles for.
    pub fn length(&self) -> usize {
        self.cos.len() / self.half.max(1)
    }

    #[inline(always)]
    fn turn<const FORTH: bool>(&self, position: usize, from: &[T], to: &mut [T]) {
        let half = self.half;
        let angles = position * half..(position + 1) * half;
        let (cos, sin) = (&self.cos[angles.clone()], &self.sin[angles]);
        let ((a, b), (x, y)) = (from.split_at(half), to.split_at_mut(half));
        let (b, y) = (&b[..half], &mut y[..half]);
        for j in 0..half {
            let sin = if FORTH { sin[j] } else { -sin[j] };
            x[j] = a[j] * cos[j] - b[j] * sin;
            y[j] = a[j] * sin + b[j] * cos[j];
        }
    }
}

/// Rows of one task.
const ROWS: usize = 32;

/// A head's channels are few: copied in pieces of known length, which are a few moves each and not a call.
#[inline(always)]
fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    let ((whole, rest), (into, last)) = (from.as_chunks::<8>(), to.as_chunks_mut::<8>());
    for (to, from) in into.iter_mut().zip(whole) {
        *to = *from;
    }
    last.copy_from_slice(rest);
}

/// Takes rows `qkv [B L, 3 C]` apart into turned `q`, turned `k` and `v`, each `[B, H, L, d]`.
pub fn split<T: Real>(
    angles: &Angles<T>,
    (length, heads): (usize, usize),
    qkv: &[T],
    parts: [&mut [T]; 3],
) {
    let width = 2 * angles.half;
    let channels = heads * width;
    for (part, out) in parts.into_iter().enumerate() {
        out.par_chunks_mut(length * width)
            .enumerate()
            .with_min_len(least())
            .for_each(|(task, out)| {
                let (b, h) = (task / heads, task % heads);
                simd::run(
                    out,
                    #[inline(always)]
                    |out| {
                        for (l, to) in out.chunks_exact_mut(width).enumerate() {
                            let row = (b * length + l) * 3 * channels;
                            let start = row + part * channels + h * width;
                            let from = &qkv[start..start + width];
                            if part < 2 {
                                angles.turn::<true>(l, from, to);
                            } else {
                                copy(from, to);
                            }
                        }
                    },
                );
            });
    }
}

/// The reverse of [`split`] for gradients: turned back and joined into `[B L, 3 C]`.
pub fn join<T: Real>(
    angles: &Angles<T>,
    (length, heads): (usize, usize),
    parts: [&[T]; 3],
    qkv: &mut [T],
) {
    let width = 2 * angles.half;
    let channels = heads * width;
    qkv.par_chunks_mut(ROWS * 3 * channels)
        .enumerate()
        .with_min_len(least())
        .for_each(|(task, out)| {
            simd::run(
                out,
                #[inline(always)]
                |out| {
                    for (i, out) in out.chunks_exact_mut(3 * channels).enumerate() {
                        let row = task * ROWS + i;
                        let (b, l) = (row / length, row % length);
                        for (part, out) in out.chunks_exact_mut(channels).enumerate() {
                            for (h, to) in out.chunks_exact_mut(width).enumerate() {
                                let start = ((b * heads + h) * length + l) * width;
                                let from = &parts[part][start..start + width];
                                if part < 2 {
                                    angles.turn::<false>(l, from, to);
                                } else {
                                    copy(from, to);
                                }
                            }
                        }
                    }
                },
            );
        });
}

/// Heads `[B, H, L, d]` side by side as rows `[B L, C]`.
pub fn merge<T: Real>((length, heads, width): (usize, usize, usize), from: &[T], rows: &mut [T]) {
    rows.par_chunks_mut(heads * width)
        .enumerate()
        .with_min_len(least())
        .for_each(|(row, out)| {
            let (b, l) = (row / length, row % length);
            for (h, to) in out.chunks_exact_mut(width).enumerate() {
                let start = ((b * heads + h) * length + l) * width;
                copy(&from[start..start + width], to);
            }
        });
}

/// The reverse of [`merge`].
pub fn divide<T: Real>((length, heads, width): (usize, usize, usize), rows: &[T], to: &mut [T]) {
    to.par_chunks_mut(length * width)
        .enumerate()
        .with_min_len(least())
        .for_each(|(task, out)| {
            let (b, h) = (task / heads, task % heads);
            for (l, to) in out.chunks_exact_mut(width).enumerate() {
                let start = (b * length + l) * heads * width + h * width;
                copy(&rows[start..start + width], to);
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much a query at each cell sees of a key at each other, if all have the same channels.
    fn scores(angles: &Angles<f64>, width: usize) -> Vec<Vec<f64>> {
        let length = angles.length();
        let channel = |i: usize| ((i % (3 * width)) as f64 * 0.9 + 0.3).sin();
        let qkv: Vec<f64> = (0..length * 3 * width).map(channel).collect();
        let mut parts = [0; 3].map(|_| vec![0.0; length * width]);
        split(
            angles,
            (length, 1),
            &qkv,
            parts.each_mut().map(|p| &mut p[..]),
        );
        let [q, k, _] = parts;
        let dot = |q: &[f64], k: &[f64]| q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>();
        let row = |q: &[f64]| -> Vec<f64> { k.chunks_exact(width).map(|k| dot(q, k)).collect() };
        q.chunks_exact(width).map(row).collect()
    }

    /// In a grid a score is that of the way between two cells, in rows and in columns; also if the pairs
    /// of channels do not divide evenly.
    #[test]
    fn rows_and_columns_are_two_directions() {
        let (rows, columns) = (4, 5);
        for width in [6, 8] {
            let grid = scores(&Angles::grid(rows * columns, width, columns), width);
            let cell = |row: usize, column: usize| row * columns + column;
            for (row, column) in (0..rows - 1).flat_map(|r| (0..columns - 1).map(move |c| (r, c))) {
                let here = cell(row, column);
                for (down, right) in [(0, 1), (1, 0), (1, 1)] {
                    let way = grid[here][cell(row + down, column + right)];
                    assert!((way - grid[0][cell(down, right)]).abs() < 1e-12);
                }
            }
            let (beside, below) = (grid[0][1], grid[0][columns]);
            assert!((beside - below).abs() > 1e-2, "{beside} {below}");
            // The end of a row is far from where the next begins, which on a line it is not.
            let (end, begin) = (cell(0, columns - 1), cell(1, 0));
            assert!((grid[end][begin] - beside).abs() > 1e-2);
            let line = scores(&Angles::new(rows * columns, width), width);
            assert!((line[end][begin] - line[0][1]).abs() < 1e-12);
        }
    }
}
