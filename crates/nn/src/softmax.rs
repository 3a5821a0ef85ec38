//! Softmax over the last axis.
//!
//! [`forward`] and [`tangent`] are in f64 whatever the network's precision: the lab's `D x S`
//! numbers a row are few, and its objectives divide by them. [`in_place`], [`log_sum_exp`] and
//! [`mean`] work on one row of a vocabulary in the network's precision; their sums run in parallel
//! lanes and end in f64.

use crate::{Real, simd};

const LANES: usize = 16;

/// `p = softmax(logits / temperature)` over rows of `symbols` entries.
pub fn forward(logits: &[f64], symbols: usize, temperature: f64) -> Vec<f64> {
    let mut p = Vec::with_capacity(logits.len());
    for row in logits.chunks_exact(symbols) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let start = p.len();
        p.extend(row.iter().map(|l| ((l - top) / temperature).exp()));
        let total: f64 = p[start..].iter().sum();
        p[start..].iter_mut().for_each(|v| *v /= total);
    }
    p
}

/// `dp = p (dl - sum p dl)` (temperature one).
pub fn tangent(p: &[f64], logits_tangent: &[f64], symbols: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(p.len());
    for (p, dl) in p
        .chunks_exact(symbols)
        .zip(logits_tangent.chunks_exact(symbols))
    {
        let mean: f64 = p.iter().zip(dl).map(|(p, d)| p * d).sum();
        out.extend(p.iter().zip(dl).map(|(p, d)| p * (d - mean)));
    }
    out
}

/// Logits so far below the largest have no probability, which would be below 2e-28: as a gradient it
/// would soon leave the normal range of f32, where every operation takes a hundred times as long.
const FAR: f64 = -64.0;

/// Turns a row of logits into probabilities and returns `ln sum exp`.
pub fn in_place<T: Real>(row: &mut [T]) -> f64 {
    let (top, total) = exponentials(row);
    scale(row, T::of(1.0 / total));
    top.widen() + total.ln()
}

/// Turns logits into `exp(l - top)` and returns `top`, the largest, and their sum.
pub fn exponentials<T: Real>(row: &mut [T]) -> (T, f64) {
    simd::run(
        row,
        #[inline(always)]
        |row| {
            let (top, zero, far) = (top(row), T::of(0.0), T::of(FAR));
            row.iter_mut().for_each(|l| {
                let below = *l - top;
                let p = below.exp();
                *l = if below > far { p } else { zero };
            });
            let total = sum(
                row.len(),
                #[inline(always)]
                |i| row[i],
            );
            (top, total)
        },
    )
}

/// Exponentials times a factor that makes probabilities of them; what is too small becomes zero.
pub fn scale<T: Real>(row: &mut [T], factor: T) {
    let least = T::of(FAR.exp());
    simd::run(
        row,
        #[inline(always)]
        |row: &mut [T]| {
            row.iter_mut().for_each(|p| {
                let scaled = *p * factor;
                *p = if scaled > least { scaled } else { T::of(0.0) };
            });
        },
    )
}

/// `ln sum exp` of a row.
pub fn log_sum_exp<T: Real>(row: &[T]) -> f64 {
    simd::run(
        row,
        #[inline(always)]
        |row| {
            let top = top(row);
            top.widen()
                + sum(
                    row.len(),
                    #[inline(always)]
                    |i| (row[i] - top).exp(),
                )
                .ln()
        },
    )
}

/// `sum p d`: the derivative of a probability is `p (d - mean)`.
pub fn mean<T: Real>(p: &[T], d: &[T]) -> f64 {
    let d = &d[..p.len()];
    simd::run(
        (p, d),
        #[inline(always)]
        |(p, d)| {
            sum(
                p.len(),
                #[inline(always)]
                |i| p[i] * d[i],
            )
        },
    )
}

#[inline(always)]
fn top<T: Real>(row: &[T]) -> T {
    let lowest = T::of(f64::NEG_INFINITY);
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut tops = [lowest; LANES];
    for chunk in chunks {
        for (top, &l) in tops.iter_mut().zip(chunk) {
            *top = if l > *top { l } else { *top };
        }
    }
    let all = tops.iter().chain(rest);
    all.fold(lowest, |top, &l| if l > top { l } else { top })
}

#[inline(always)]
fn sum<T: Real>(n: usize, f: impl Fn(usize) -> T) -> f64 {
    let mut sums = [T::of(0.0); LANES];
    let whole = n / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += f(start + i);
        }
    }
    let lanes: f64 = sums.iter().map(|s| s.widen()).sum();
    lanes + (whole..n).map(|i| f(i).widen()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sum_to_one_and_tangents_to_zero() {
        let logits = [800.0, 799.0, -5.0, 0.0, 0.5, 1.0];
        let direction = [1.0, -2.0, 0.3, 0.7, 0.1, -1.0];
        let p = forward(&logits, 3, 1.0);
        let dp = tangent(&p, &direction, 3);
        for (p, dp) in p.chunks_exact(3).zip(dp.chunks_exact(3)) {
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-15);
            assert!(dp.iter().sum::<f64>().abs() < 1e-15);
        }
        let moved = |h: f64| {
            let l: Vec<f64> = logits
                .iter()
                .zip(direction)
                .map(|(l, d)| l + h * d)
                .collect();
            forward(&l, 3, 1.0)
        };
        for (i, (a, b)) in moved(1e-6).iter().zip(moved(-1e-6)).enumerate() {
            assert!(((a - b) / 2e-6 - dp[i]).abs() < 1e-8);
        }
    }

    #[test]
    fn temperature_is_a_power() {
        let p = forward(&[0.1, 0.7], 2, 1.0);
        let cold = forward(&[0.1, 0.7], 2, 0.5);
        assert!((cold[0] / cold[1] - (p[0] / p[1]).powi(2)).abs() < 1e-14);
    }

    #[test]
    fn a_row_in_place_is_the_plain_softmax() {
        for n in [1, 5, 16, 77] {
            let wide: Vec<f64> = (0..n).map(|i| 3.0 * (i as f64 * 1.3).sin()).collect();
            let p = forward(&wide, n, 1.0);
            let direction: Vec<f64> = wide.iter().map(|l| l * l).collect();
            let dp = tangent(&p, &direction, n);
            let mut row = wide.clone();
            let lse = log_sum_exp(&row);
            assert!((in_place(&mut row) - lse).abs() < 1e-13);
            let exact = wide.iter().map(|l| l.exp()).sum::<f64>().ln();
            assert!((lse - exact).abs() < 1e-13);
            let mean = mean(&row, &direction);
            let mut narrow: Vec<f32> = wide.iter().map(|&l| l as f32).collect();
            in_place(&mut narrow);
            for i in 0..n {
                assert!((row[i] - p[i]).abs() < 1e-14);
                assert!((row[i] * (direction[i] - mean) - dp[i]).abs() < 1e-13);
                assert!((f64::from(narrow[i]) - p[i]).abs() < 1e-6);
            }
        }
    }
}
