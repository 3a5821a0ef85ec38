//! GroupNorm, with the swish that follows it in the same pass: `y = f(w xhat + b)`,
//! `xhat = (x - mean) / sqrt(var + eps)`, `f` the identity or `h sigma(h)`.
//!
//! Mean and variance are of a picture's group of `C / groups` neighbouring channels at all pixels.
//! They are summed over chunks of pixels, each about its own mean, and joined in f64 in order, so
//! that neither large means nor the number of threads show.
//!
//! Backward: `gh = f'(h) gy` with `h = w xhat + b`; `db = sum gh`, `dw = sum gh xhat`; with
//! `g = w gh`, `dx = rstd (g - <g> - xhat <g xhat>)`, `<.>` the mean over the group.

use rayon::prelude::*;

use super::picture::Pictures;
use crate::{Real, simd};

/// Pixels of a chunk.
const CHUNK: usize = 256;

/// A norm over groups of channels.
#[derive(Clone, Copy, Debug)]
pub struct GroupNorm<'a, T> {
    /// `w [C]`.
    pub weight: &'a [T],
    /// `b [C]`.
    pub bias: &'a [T],
    /// Number of groups.
    pub groups: usize,
    /// What is added to the variance.
    pub eps: f64,
    /// Whether swish follows.
    pub swish: bool,
}

/// `xhat = scale x + shift` of every picture and channel, `[B, C]` each.
#[derive(Clone, Debug, Default)]
pub struct Scales<T> {
    scale: Vec<T>,
    shift: Vec<T>,
}

impl<T: Real> GroupNorm<'_, T> {
    /// `y` from `x`, both `[B, H, W, C]`.
    pub fn forward(&self, pictures: Pictures, x: &[T], y: &mut [T]) -> Scales<T> {
        let scales = self.scales(pictures, x);
        let c = pictures.channels;
        let affine = self.affine(&scales);
        y.par_chunks_mut(pictures.one())
            .zip(x.par_chunks(pictures.one()))
            .enumerate()
            .for_each(|(b, (y, x))| {
                let (gain, offset) = (&affine.0[b * c..][..c], &affine.1[b * c..][..c]);
                y.par_chunks_mut(CHUNK * c)
                    .zip(x.par_chunks(CHUNK * c))
                    .for_each(|pair| self.apply(gain, offset, pair));
            });
        scales
    }

    /// `w scale` and `w shift + b`.
    fn affine(&self, scales: &Scales<T>) -> (Vec<T>, Vec<T>) {
        let weight = self.weight.iter().cycle();
        let gain = scales.scale.iter().zip(weight.clone());
        let offset = scales
            .shift
            .iter()
            .zip(weight.zip(self.bias.iter().cycle()));
        (
            gain.map(|(s, w)| *s * *w).collect(),
            offset.map(|(s, (w, b))| *s * *w + *b).collect(),
        )
    }

    fn apply(&self, gain: &[T], offset: &[T], pair: (&mut [T], &[T])) {
        let c = gain.len();
        let swish = self.swish;
        simd::run(
            pair,
            #[inline(always)]
            |(y, x): (&mut [T], &[T])| {
                for (y, x) in y.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
                    let (gain, offset) = (&gain[..c], &offset[..c]);
                    if swish {
                        for j in 0..c {
                            let h = gain[j] * x[j] + offset[j];
                            y[j] = h / (T::of(1.0) + (-h).exp());
                        }
                    } else {
                        for j in 0..c {
                            y[j] = gain[j] * x[j] + offset[j];
                        }
                    }
                }
            },
        );
    }

    fn scales(&self, pictures: Pictures, x: &[T]) -> Scales<T> {
        let c = pictures.channels;
        assert_eq!(x.len(), pictures.size());
        assert!(self.weight.len() == c && c.is_multiple_of(self.groups));
        let wide = c / self.groups;
        let mut scales = Scales {
            scale: Vec::with_capacity(pictures.count * c),
            shift: Vec::with_capacity(pictures.count * c),
        };
        for x in x.chunks_exact(pictures.one().max(1)) {
            let chunks: Vec<Vec<T>> = x.par_chunks(CHUNK * c).map(|x| moments(x, c)).collect();
            for group in 0..self.groups {
                let (mean, variance) =
                    joined(&chunks, x.len() / c, group * wide..(group + 1) * wide);
                let rstd = 1.0 / (variance + self.eps).sqrt();
                for _ in 0..wide {
                    scales.scale.push(T::of(rstd));
                    scales.shift.push(T::of(-mean * rstd));
                }
            }
        }
        scales
    }

    /// `gx` from `gy`; adds to `gweight` and `gbias`.
    pub fn backward(
        &self,
        pictures: Pictures,
        (x, scales): (&[T], &Scales<T>),
        gy: &[T],
        gx: &mut [T],
        (gweight, gbias): (&mut [T], &mut [T]),
    ) {
        let (c, one) = (pictures.channels, pictures.one());
        let wide = c / self.groups;
        let affine = self.affine(scales);
        for b in 0..pictures.count {
            let (x, gy) = (&x[b * one..][..one], &gy[b * one..][..one]);
            let at = b * c..(b + 1) * c;
            let (scale, shift) = (&scales.scale[at.clone()], &scales.shift[at.clone()]);
            let (gain, offset) = (&affine.0[at.clone()], &affine.1[at]);
            let gx = &mut gx[b * one..][..one];
            // First the gradient in h, and its sums.
            let parts: Vec<Vec<T>> = gx
                .par_chunks_mut(CHUNK * c)
                .zip(x.par_chunks(CHUNK * c).zip(gy.par_chunks(CHUNK * c)))
                .map(|(gx, (x, gy))| {
                    let mut sums = vec![T::of(0.0); 2 * c];
                    let (sum, with_hat) = sums.split_at_mut(c);
                    let rows = gx.chunks_exact_mut(c).zip(x.chunks_exact(c));
                    for ((gx, x), gy) in rows.zip(gy.chunks_exact(c)) {
                        for j in 0..c {
                            let slope = self.slope(gain[j] * x[j] + offset[j]);
                            gx[j] = slope * gy[j];
                            sum[j] += gx[j];
                            with_hat[j] += gx[j] * (scale[j] * x[j] + shift[j]);
                        }
                    }
                    sums
                })
                .collect();
            let mut sums = vec![0.0; 2 * c];
            for part in &parts {
                sums.iter_mut().zip(part).for_each(|(s, p)| *s += p.widen());
            }
            let (sum, with_hat) = sums.split_at(c);
            for j in 0..c {
                gbias[j] += T::of(sum[j]);
                gweight[j] += T::of(with_hat[j]);
            }
            let count = (one / self.groups) as f64;
            let mean = |of: &[f64], group: usize| {
                let at = group * wide..(group + 1) * wide;
                let weighted = self.weight[at.clone()].iter().zip(&of[at]);
                weighted.map(|(w, s)| w.widen() * s).sum::<f64>() / count
            };
            let means: Vec<[T; 2]> = (0..self.groups)
                .map(|group| [sum, with_hat].map(|of| T::of(mean(of, group))))
                .collect();
            gx.par_chunks_mut(CHUNK * c)
                .zip(x.par_chunks(CHUNK * c))
                .for_each(|(gx, x)| {
                    for (gx, x) in gx.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
                        for j in 0..c {
                            let [plain, hat] = means[j / wide];
                            let xhat = scale[j] * x[j] + shift[j];
                            gx[j] = scale[j] * (self.weight[j] * gx[j] - plain - xhat * hat);
                        }
                    }
                });
        }
    }

    /// `f'(h)`.
    #[inline(always)]
    fn slope(&self, h: T) -> T {
        let one = T::of(1.0);
        if !self.swish {
            return one;
        }
        let sigma = one / (one + (-h).exp());
        sigma * (one + h * (one - sigma))
    }
}

/// Mean and sum of squares about it of every channel of a chunk, `[2 C]`.
fn moments<T: Real>(x: &[T], c: usize) -> Vec<T> {
    let mut out = vec![T::of(0.0); 2 * c];
    simd::run(
        (x, &mut out),
        #[inline(always)]
        |(x, out): (&[T], &mut Vec<T>)| {
            let (mean, squares) = out.split_at_mut(c);
            for row in x.chunks_exact(c) {
                mean.iter_mut().zip(row).for_each(|(m, v)| *m += *v);
            }
            let each = T::of(c as f64 / x.len() as f64);
            mean.iter_mut().for_each(|m| *m = *m * each);
            for row in x.chunks_exact(c) {
                for ((s, m), v) in squares.iter_mut().zip(&*mean).zip(row) {
                    *s += (*v - *m) * (*v - *m);
                }
            }
        },
    );
    out
}

/// Mean and variance of some channels, from the chunks' of `pixels` in all.
fn joined<T: Real>(
    chunks: &[Vec<T>],
    pixels: usize,
    channels: std::ops::Range<usize>,
) -> (f64, f64) {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for (i, chunk) in chunks.iter().enumerate() {
        let here = CHUNK.min(pixels - i * CHUNK) as f64;
        let half = chunk.len() / 2;
        for j in channels.clone() {
            let distance = chunk[j].widen() - mean;
            let all = count + here;
            mean += distance * here / all;
            squares += chunk[half + j].widen() + distance * distance * count * here / all;
            count = all;
        }
    }
    (mean, squares / count)
}
