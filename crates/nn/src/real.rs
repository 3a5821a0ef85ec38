//! The two precisions, and the one place that calls the matrix-product kernel.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// f32 or f64.
pub trait Real:
    Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + std::fmt::Debug
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// Rounds from f64.
    fn of(value: f64) -> Self;
    /// Widens to f64.
    fn widen(self) -> f64;
    /// `e^self`; branch-free in f32, so that loops over it vectorise.
    fn exp(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
}

impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
}

impl Real for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
    fn widen(self) -> f64 {
        f64::from(self)
    }

    /// `2^n e^f` with `n = round(x / ln 2)` and a polynomial for `|f| <= ln 2 / 2`; relative error
    /// below 2e-7, saturating outside `[-87, 88]`.
    #[inline(always)]
    fn exp(self) -> Self {
        const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer.
        let x = self.clamp(-87.0, 88.0);
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        // ln 2 in two parts, so that the remainder is exact.
        let f = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
        let p = 1.987_569_1e-4;
        let p = p * f + 1.398_2e-3;
        let p = p * f + 8.333_452e-3;
        let p = p * f + 4.166_579_6e-2;
        let p = p * f + 1.666_666_5e-1;
        let p = p * f + 0.5;
        let p = p * f * f + f + 1.0;
        // The low bits of `shifted` hold n; moved into the exponent they are 2^n.
        p * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
}

/// How an operand of [`product`] is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As the product wants it.
    Plain,
    /// Transposed in memory.
    Transposed,
}

/// `out [m, n] = a [m, k] * b [k, n]`, added to `out` if `accumulate`.
///
/// Single-threaded on purpose: callers split rows over threads, which keeps each thread's working
/// set in its own cache and the order of every sum independent of the thread count.
pub fn product<T: Real>(
    (m, n, k): (usize, usize, usize),
    (a, a_layout): (&[T], Layout),
    (b, b_layout): (&[T], Layout),
    out: &mut [T],
    accumulate: bool,
) {
    assert!(a.len() == m * k && b.len() == k * n && out.len() == m * n);
    // (column stride, row stride) of a matrix whose rows would have `cols` entries.
    let strides = |layout, rows: usize, cols: usize| match layout {
        Layout::Plain => (1, cols as isize),
        Layout::Transposed => (rows as isize, 1),
    };
    let (a_cs, a_rs) = strides(a_layout, m, k);
    let (b_cs, b_rs) = strides(b_layout, k, n);
    // SAFETY: the assertion above makes every index that these sizes and strides reach valid, and
    // `out` is borrowed exclusively.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            accumulate,
            a.as_ptr(),
            a_cs,
            a_rs,
            b.as_ptr(),
            b_cs,
            b_rs,
            T::of(1.0),
            T::of(1.0),
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_over_its_range() {
        let mut x = -87.0f32;
        while x < 88.0 {
            let exact = f64::from(x).exp();
            let error = (f64::from(Real::exp(x)) - exact).abs() / exact;
            assert!(error < 2e-7, "exp({x}) is off by {error:e}");
            x += 0.0137;
        }
        assert!(Real::exp(-1e30f32) < 1.7e-38);
        assert!(Real::exp(1e30f32).is_finite());
        assert_eq!(Real::exp(0.0f32), 1.0);
    }

    #[test]
    fn products_in_all_layouts() {
        let (m, n, k) = (3, 5, 4);
        let a: Vec<f64> = (0..m * k).map(|i| (i as f64).sin()).collect();
        let b: Vec<f64> = (0..k * n).map(|i| (i as f64).cos()).collect();
        let transpose = |v: &[f64], rows: usize, cols: usize| -> Vec<f64> {
            (0..cols * rows)
                .map(|i| v[i % rows * cols + i / rows])
                .collect()
        };
        let (at, bt) = (transpose(&a, m, k), transpose(&b, k, n));
        for (a_used, a_layout) in [(&a, Layout::Plain), (&at, Layout::Transposed)] {
            for (b_used, b_layout) in [(&b, Layout::Plain), (&bt, Layout::Transposed)] {
                let mut out = vec![1.0; m * n];
                product(
                    (m, n, k),
                    (a_used, a_layout),
                    (b_used, b_layout),
                    &mut out,
                    true,
                );
                for i in 0..m {
                    for j in 0..n {
                        let plain: f64 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
                        assert!((out[i * n + j] - 1.0 - plain).abs() < 1e-14);
                    }
                }
            }
        }
    }
}
