//! LayerNorm without bias, then the adaLN modulation, in one pass over the rows:
//! `y = w xhat (1 + scale) + shift`, `xhat = (x - mean) / sqrt(var + eps)`.
//!
//! `scale` and `shift` are rows of a modulation array `[B, M]`, one row a sequence of `L` rows.
//!
//! - tangent: `y' = w (1 + scale) xhat' + w xhat scale' + shift'` with
//!   `xhat' = rstd (x' - <x'> - xhat <x' xhat>)`, `<.>` the mean over channels;
//! - backward: with `g = w (1 + scale) dy`, `dx = rstd (g - <g> - xhat <g xhat>)`; the sums over a
//!   sequence of `dy` and of `dy xhat` give `dshift`, `dscale` and `dw`.

use rayon::prelude::*;

use crate::{Real, kernel::least, simd};

/// What is added to the variance, as PyTorch does without a word.
pub const EPS: f64 = 1e-5;
/// Rows of one task. A sum over a sequence adds the tasks' sums in order.
const ROWS: usize = 32;
const LANES: usize = 16;

/// Where the modulation of one norm lies.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a, T> {
    /// `w [C]`.
    pub weight: &'a [T],
    /// Modulation rows `[B, M]`.
    pub modulation: &'a [T],
    /// Length `M` of such a row.
    pub stride: usize,
    /// Where `shift [C]` starts in it; `scale [C]` follows.
    pub at: usize,
    /// Rows `L` of a sequence.
    pub length: usize,
    /// What is added to the variance.
    pub eps: f64,
}

/// Mean and reciprocal deviation of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats<T> {
    mean: T,
    rstd: T,
}

impl<T: Real> Norm<'_, T> {
    fn channels(&self) -> usize {
        self.weight.len()
    }

    fn shift_scale<'m>(&self, modulation: &'m [T], b: usize) -> (&'m [T], &'m [T]) {
        let c = self.channels();
        let (shift, scale) = modulation[b * self.stride + self.at..][..2 * c].split_at(c);
        (shift, &scale[..c])
    }

    /// `y [N, C]` and the rows' statistics.
    pub fn forward(&self, x: &[T], y: &mut [T], stats: &mut [Stats<T>]) {
        let c = self.channels();
        y.par_chunks_mut(ROWS * c)
            .zip(x.par_chunks(ROWS * c))
            .zip(stats.par_chunks_mut(ROWS))
            .enumerate()
            .with_min_len(least())
            .for_each(|(task, ((y, x), stats))| {
                simd::run(
                    (y, stats),
                    #[inline(always)]
                    |(y, stats)| {
                        let rows = y.chunks_exact_mut(c).zip(x.chunks_exact(c)).zip(stats);
                        for (i, ((y, x), stats)) in rows.enumerate() {
                            let b = (task * ROWS + i) / self.length;
                            let (shift, scale) = self.shift_scale(self.modulation, b);
                            *stats = statistics(x, self.eps);
                            let Stats { mean, rstd } = *stats;
                            // Lengths that are plainly equal leave no checks in the loop, and it runs in vectors.
                            let (weight, x, y) = (&self.weight[..c], &x[..c], &mut y[..c]);
                            for j in 0..c {
                                let gain = weight[j] * (T::of(1.0) + scale[j]);
                                y[j] = (x[j] - mean) * rstd * gain + shift[j];
                            }
                        }
                    },
                );
            });
    }

    /// `y'` of the first rows, from `x'` and the modulation's derivative.
    pub fn tangent(
        &self,
        (x, stats): (&[T], &[Stats<T>]),
        (dx, dmodulation): (&[T], &[T]),
        dy: &mut [T],
    ) {
        let c = self.channels();
        dy.par_chunks_mut(ROWS * c)
            .enumerate()
            .with_min_len(least())
            .for_each(|(task, dy)| {
                simd::run(
                    dy,
                    #[inline(always)]
                    |dy| {
                        for (i, dy) in dy.chunks_exact_mut(c).enumerate() {
                            let row = task * ROWS + i;
                            let at = row * c..(row + 1) * c;
                            let (x, dx) = (&x[at.clone()], &dx[at]);
                            let b = row / self.length;
                            let (_, scale) = self.shift_scale(self.modulation, b);
                            let (dshift, dscale) = self.shift_scale(dmodulation, b);
                            let Stats { mean, rstd } = stats[row];
                            let (mean_d, mean_p) = means(x, dx, stats[row]);
                            let (weight, dy) = (&self.weight[..c], &mut dy[..c]);
                            let (x, dx) = (&x[..c], &dx[..c]);
                            for j in 0..c {
                                let hat = (x[j] - mean) * rstd;
                                let dhat = rstd * (dx[j] - mean_d - hat * mean_p);
                                let gained = (T::of(1.0) + scale[j]) * dhat + hat * dscale[j];
                                dy[j] = weight[j] * gained + dshift[j];
                            }
                        }
                    },
                );
            });
    }

    /// Adds `dx` to `gx`; writes `dshift` and `dscale` into the rows of `gmodulation` and adds `dw`
    /// to `gweight`.
    pub fn backward(
        &self,
        (x, stats): (&[T], &[Stats<T>]),
        gy: &[T],
        gx: &mut [T],
        gmodulation: &mut [T],
        gweight: &mut [T],
    ) {
        let c = self.channels();
        let tasks = self.length.div_ceil(ROWS);
        let parts: Vec<Vec<T>> = gx
            .par_chunks_mut(self.length * c)
            .enumerate()
            .with_min_len(least())
            .flat_map(|(b, gx)| {
                gx.par_chunks_mut(ROWS * c)
                    .enumerate()
                    .with_min_len(least())
                    .map(move |(task, gx)| (b, task, gx))
            })
            .map(|(b, task, gx)| {
                let row = b * self.length + task * ROWS;
                let (shift, scale) = self.shift_scale(self.modulation, b);
                debug_assert_eq!(shift.len(), c);
                let mut sums = vec![T::of(0.0); 2 * c];
                let mut gained = vec![T::of(0.0); c];
                simd::run(
                    (gx, &mut sums, &mut gained),
                    #[inline(always)]
                    |(gx, sums, gained): (&mut [T], &mut Vec<T>, &mut Vec<T>)| {
                        let (sum, sum_hat) = sums.split_at_mut(c);
                        let (sum_hat, gained) = (&mut sum_hat[..c], &mut gained[..c]);
                        let (weight, scale) = (&self.weight[..c], &scale[..c]);
                        for (i, gx) in gx.chunks_exact_mut(c).enumerate() {
                            let at = (row + i) * c..(row + i + 1) * c;
                            let (x, gy) = (&x[at.clone()][..c], &gy[at][..c]);
                            let gx = &mut gx[..c];
                            let stats = stats[row + i];
                            for j in 0..c {
                                sum[j] += gy[j];
                                sum_hat[j] += gy[j] * (x[j] - stats.mean) * stats.rstd;
                                gained[j] = gy[j] * weight[j] * (T::of(1.0) + scale[j]);
                            }
                            let (mean_g, mean_p) = means(x, gained, stats);
                            for j in 0..c {
                                let hat = (x[j] - stats.mean) * stats.rstd;
                                gx[j] += stats.rstd * (gained[j] - mean_g - hat * mean_p);
                            }
                        }
                    },
                );
                sums
            })
            .collect();
        for (b, parts) in parts.chunks(tasks).enumerate() {
            let (_, scale) = self.shift_scale(self.modulation, b);
            let row = &mut gmodulation[b * self.stride + self.at..][..2 * c];
            row.fill(T::of(0.0));
            for part in parts {
                row.iter_mut().zip(part).for_each(|(r, p)| *r += *p);
            }
            for (j, sum) in row[c..].iter_mut().enumerate() {
                gweight[j] += *sum * (T::of(1.0) + scale[j]);
                *sum = *sum * self.weight[j];
            }
        }
    }
}

/// `sum f(v, x)` over two rows, in `LANES` parallel sums.
#[inline(always)]
fn sum_of<T: Real>(v: &[T], x: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut sums = [T::of(0.0); LANES];
    let (mut vs, mut xs) = (v.chunks_exact(LANES), x.chunks_exact(LANES));
    for (v, x) in (&mut vs).zip(&mut xs) {
        for i in 0..LANES {
            sums[i] += f(v[i], x[i]);
        }
    }
    let mut total = T::of(0.0);
    for sum in sums {
        total += sum;
    }
    for (v, x) in vs.remainder().iter().zip(xs.remainder()) {
        total += f(*v, *x);
    }
    total
}

#[inline(always)]
fn statistics<T: Real>(x: &[T], eps: f64) -> Stats<T> {
    let count = T::of(1.0 / x.len() as f64);
    let mean = sum_of(x, x, |v, _| v) * count;
    let variance = sum_of(x, x, |v, _| (v - mean) * (v - mean)) * count;
    Stats {
        mean,
        rstd: T::of(1.0) / (variance + T::of(eps)).sqrt(),
    }
}

/// `<v>` and `<v xhat>`.
#[inline(always)]
fn means<T: Real>(x: &[T], v: &[T], Stats { mean, rstd }: Stats<T>) -> (T, T) {
    let count = T::of(1.0 / v.len() as f64);
    let plain = sum_of(v, x, |v, _| v) * count;
    let hat = sum_of(v, x, |v, x| v * (x - mean)) * rstd * count;
    (plain, hat)
}
