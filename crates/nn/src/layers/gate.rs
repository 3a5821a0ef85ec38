//! The residual stream and the gates of adaLN: `x += g (y + bias)`, `g` one row `[C]` a sequence.
//!
//! - tangent: `x' += g y' + g' (y + bias)`;
//! - backward: `dy = g dx`, `dg = sum over the sequence of dx (y + bias)`, `dbias = sum of dy`.

use rayon::prelude::*;

use crate::{Real, kernel::least, simd};

/// Rows of one task. A sum over a sequence adds the tasks' sums in order.
const ROWS: usize = 32;

/// Where the gate lies in the modulation rows.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a, T> {
    /// Modulation rows `[B, M]`.
    pub modulation: &'a [T],
    /// Length `M` of such a row.
    pub stride: usize,
    /// Where `g [C]` starts in it.
    pub at: usize,
    /// Rows `L` of a sequence.
    pub length: usize,
    /// Channels.
    pub channels: usize,
}

impl<T: Real> Gate<'_, T> {
    fn of<'m>(&self, modulation: &'m [T], b: usize) -> &'m [T] {
        &modulation[b * self.stride + self.at..][..self.channels]
    }

    /// Adds `bias` (or nothing) to the rows of `y`, then `g y` to `x`.
    pub fn forward(&self, y: &mut [T], bias: Option<&[T]>, x: &mut [T]) {
        let c = self.channels;
        x.par_chunks_mut(ROWS * c)
            .zip(y.par_chunks_mut(ROWS * c))
            .enumerate()
            .with_min_len(least())
            .for_each(|(task, pair)| {
                simd::run(
                    pair,
                    #[inline(always)]
                    |(x, y): (&mut [T], &mut [T])| {
                        let rows = x.chunks_exact_mut(c).zip(y.chunks_exact_mut(c));
                        for (i, (x, y)) in rows.enumerate() {
                            let b = (task * ROWS + i) / self.length;
                            let gate = self.of(self.modulation, b);
                            if let Some(bias) = bias {
                                y.iter_mut().zip(bias).for_each(|(y, b)| *y += *b);
                            }
                            for ((x, y), g) in x.iter_mut().zip(y).zip(gate) {
                                *x += *g * *y;
                            }
                        }
                    },
                );
            });
    }

    /// Adds to `dx` of the first rows; `y` has its bias.
    pub fn tangent(&self, y: &[T], (dy, dmodulation): (&[T], &[T]), dx: &mut [T]) {
        let c = self.channels;
        dx.par_chunks_mut(ROWS * c)
            .zip(y.par_chunks(ROWS * c))
            .zip(dy.par_chunks(ROWS * c))
            .enumerate()
            .with_min_len(least())
            .for_each(|(task, ((dx, y), dy))| {
                simd::run(
                    dx,
                    #[inline(always)]
                    |dx| {
                        let rows = dx.chunks_exact_mut(c).zip(y.chunks_exact(c));
                        for (i, ((dx, y), dy)) in rows.zip(dy.chunks_exact(c)).enumerate() {
                            let b = (task * ROWS + i) / self.length;
                            let gate = self.of(self.modulation, b);
                            let dgate = self.of(dmodulation, b);
                            let (dx, y, dy) = (&mut dx[..c], &y[..c], &dy[..c]);
                            for i in 0..c {
                                dx[i] += gate[i] * dy[i] + dgate[i] * y[i];
                            }
                        }
                    },
                );
            });
    }

    /// `gy = g gx`; writes `dg` into the rows of `gmodulation` and adds to `gbias`.
    pub fn backward(
        &self,
        y: &[T],
        gx: &[T],
        gy: &mut [T],
        gmodulation: &mut [T],
        gbias: Option<&mut [T]>,
    ) {
        let (c, one) = (self.channels, self.length * self.channels);
        let tasks = self.length.div_ceil(ROWS);
        let parts: Vec<Vec<T>> = gy
            .par_chunks_mut(one)
            .enumerate()
            .with_min_len(least())
            .flat_map(|(b, gy)| {
                let tasks = gy.par_chunks_mut(ROWS * c).enumerate();
                let tasks = tasks.with_min_len(least());
                tasks.map(move |(task, gy)| (b, task, gy))
            })
            .map(|(b, task, gy)| {
                let gate = self.of(self.modulation, b);
                let at = b * one + task * ROWS * c;
                let (y, gx) = (&y[at..at + gy.len()], &gx[at..at + gy.len()]);
                let mut sums = vec![T::of(0.0); c];
                simd::run(
                    (gy, &mut sums),
                    #[inline(always)]
                    |(gy, sums): (&mut [T], &mut Vec<T>)| {
                        let rows = gy.chunks_exact_mut(c).zip(y.chunks_exact(c));
                        for ((gy, y), gx) in rows.zip(gx.chunks_exact(c)) {
                            let (gy, sums) = (&mut gy[..c], &mut sums[..c]);
                            let (y, gx) = (&y[..c], &gx[..c]);
                            for i in 0..c {
                                gy[i] = gate[i] * gx[i];
                                sums[i] += gx[i] * y[i];
                            }
                        }
                    },
                );
                sums
            })
            .collect();
        for (b, parts) in parts.chunks(tasks).enumerate() {
            let sums = &mut gmodulation[b * self.stride + self.at..][..c];
            sums.fill(T::of(0.0));
            for part in parts {
                sums.iter_mut().zip(part).for_each(|(s, p)| *s += *p);
            }
        }
        if let Some(gbias) = gbias {
            add_column_sums(gy, gbias);
        }
    }
}

/// Adds the sum over the rows of `v [N, C]` to `out [C]`, the same way on any number of threads.
pub fn add_column_sums<T: Real>(v: &[T], out: &mut [T]) {
    let c = out.len();
    let parts: Vec<Vec<T>> = v
        .par_chunks(ROWS * c)
        .with_min_len(least())
        .map(|rows| {
            let mut sum = vec![T::of(0.0); c];
            simd::run(
                &mut sum,
                #[inline(always)]
                |sum: &mut Vec<T>| {
                    for row in rows.chunks_exact(c) {
                        sum.iter_mut().zip(row).for_each(|(s, v)| *s += *v);
                    }
                },
            );
            sum
        })
        .collect();
    for part in parts {
        out.iter_mut().zip(&part).for_each(|(o, p)| *o += *p);
    }
}
