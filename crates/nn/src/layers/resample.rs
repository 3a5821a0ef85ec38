//! Pictures in other sizes: nearest-neighbour doubling, pooling, and TensorFlow's bilinear resize.

use rayon::prelude::*;

use super::{
    conv::bands,
    picture::{Pictures, Window},
};
use crate::Real;

/// Every pixel becomes four: `y[2 i + u, 2 j + v] = x[i, j]`.
pub fn double<T: Real>(pictures: Pictures, x: &[T], y: &mut [T]) {
    let (c, line) = (pictures.channels, pictures.width * pictures.channels);
    assert_eq!((x.len(), y.len()), (pictures.size(), 4 * pictures.size()));
    y.par_chunks_mut(4 * line)
        .zip(x.par_chunks(line))
        .for_each(|(y, x)| {
            let (first, second) = y.split_at_mut(2 * line);
            for (to, from) in first.chunks_exact_mut(2 * c).zip(x.chunks_exact(c)) {
                to[..c].copy_from_slice(from);
                to[c..].copy_from_slice(from);
            }
            second.copy_from_slice(first);
        });
}

/// The way back of [`double`]: `gx[i, j]` is the sum of its four gradients.
pub fn double_backward<T: Real>(pictures: Pictures, gy: &[T], gx: &mut [T]) {
    let (c, line) = (pictures.channels, pictures.width * pictures.channels);
    assert_eq!((gx.len(), gy.len()), (pictures.size(), 4 * pictures.size()));
    gx.par_chunks_mut(line)
        .zip(gy.par_chunks(4 * line))
        .for_each(|(gx, gy)| {
            let (first, second) = gy.split_at(2 * line);
            let pairs = first.chunks_exact(2 * c).zip(second.chunks_exact(2 * c));
            for (to, (a, b)) in gx.chunks_exact_mut(c).zip(pairs) {
                for j in 0..c {
                    to[j] = a[j] + a[c + j] + b[j] + b[c + j];
                }
            }
        });
}

/// What a window makes of the pixels it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Their mean; what lies outside of a picture does not count.
    Mean,
    /// The largest of each channel.
    Largest,
}

/// Pooling: one pixel for every place of the window.
pub fn pool<T: Real>(how: Pool, window: Window, pictures: Pictures, x: &[T], y: &mut [T]) {
    let (c, out) = (pictures.channels, window.out(pictures, pictures.channels));
    assert_eq!((x.len(), y.len()), (pictures.size(), out.size()));
    bands(out, 1, y, |(picture, line), y| {
        let x = &x[picture * pictures.one()..][..pictures.one()];
        let (top, high, _) = window.seen(0, pictures.height, line);
        for (j, y) in y.chunks_exact_mut(c).enumerate() {
            let (left, wide, _) = window.seen(1, pictures.width, j);
            y.fill(T::of(match how {
                Pool::Mean => 0.0,
                Pool::Largest => f64::NEG_INFINITY,
            }));
            for u in top..top + high {
                let run = &x[(u * pictures.width + left) * c..][..wide * c];
                for pixel in run.chunks_exact(c) {
                    match how {
                        Pool::Mean => y.iter_mut().zip(pixel).for_each(|(y, x)| *y += *x),
                        Pool::Largest => y.iter_mut().zip(pixel).for_each(|(y, x)| {
                            *y = if *x > *y { *x } else { *y };
                        }),
                    }
                }
            }
            if how == Pool::Mean {
                let share = T::of(1.0 / (high * wide) as f64);
                y.iter_mut().for_each(|y| *y = *y * share);
            }
        }
    });
}

/// The resize of TensorFlow 1 that the FID's network was fed by: pixel `i` of `n` takes from place
/// `i m / n` of `m`, without centring pixels and without averaging when the picture shrinks.
pub fn bilinear<T: Real>(pictures: Pictures, x: &[T], (height, width): (usize, usize)) -> Vec<T> {
    let c = pictures.channels;
    let out = Pictures {
        height,
        width,
        ..pictures
    };
    let place = |i: usize, n: usize, m: usize| {
        let at = i as f32 * (m as f32 / n as f32);
        let low = (at as usize).min(m - 1);
        (low, (low + 1).min(m - 1), T::of(f64::from(at - low as f32)))
    };
    let mut y = vec![T::of(0.0); out.size()];
    bands(out, 1, &mut y, |(picture, line), y| {
        let x = &x[picture * pictures.one()..][..pictures.one()];
        let (top, bottom, down) = place(line, height, pictures.height);
        for (j, y) in y.chunks_exact_mut(c).enumerate() {
            let (left, right, along) = place(j, width, pictures.width);
            let at = |u: usize, v: usize, k: usize| x[(u * pictures.width + v) * c + k];
            for (k, y) in y.iter_mut().enumerate() {
                let above = at(top, left, k) + (at(top, right, k) - at(top, left, k)) * along;
                let below =
                    at(bottom, left, k) + (at(bottom, right, k) - at(bottom, left, k)) * along;
                *y = above + (below - above) * down;
            }
        }
    });
    y
}
