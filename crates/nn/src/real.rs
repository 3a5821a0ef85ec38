//! The two precisions.

use std::{
    ops::{Add, AddAssign, Div, Mul, Neg, Sub},
    thread::LocalKey,
};

use crate::kernel::{self, Buffers, Portable, Task};

thread_local! {
    static NARROW: Buffers<f32> = const { Buffers::new(Vec::new()) };
    static WIDE: Buffers<f64> = const { Buffers::new(Vec::new()) };
}

/// `1 / sqrt(2 pi)`.
const DENSITY: f64 = 0.398_942_280_401_432_7;

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
    /// The normal distribution function and its density; branch-free in f32, to within 2e-7.
    fn normal(self) -> (Self, Self);
    /// Runs `task` with the machine's best kernel for this precision.
    fn dispatch<K: Task<Self>>(task: K) -> K::Output;
    /// The buffers of this thread that nobody uses now.
    fn buffers() -> &'static LocalKey<Buffers<Self>>;

    /// One of them, of any length; [`give`](Self::give) puts it back.
    fn take() -> Vec<Self> {
        let mut kept = Self::buffers().take();
        let buffer = kept.pop().unwrap_or_default();
        Self::buffers().set(kept);
        buffer
    }

    /// Puts a buffer back.
    fn give(buffer: Vec<Self>) {
        let mut kept = Self::buffers().take();
        kept.push(buffer);
        Self::buffers().set(kept);
    }
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
    fn normal(self) -> (Self, Self) {
        let phi = 0.5 * libm::erfc(-self * std::f64::consts::FRAC_1_SQRT_2);
        (phi, (-0.5 * self * self).exp() * DENSITY)
    }
    fn dispatch<K: Task<Self>>(task: K) -> K::Output {
        task.run(Portable)
    }
    fn buffers() -> &'static LocalKey<Buffers<Self>> {
        &WIDE
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

    /// Abramowitz and Stegun 7.1.26: `erfc(z) = p(1 / (1 + c z)) exp(-z^2)` for `z >= 0`.
    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        // Beyond eight deviations nothing is left but numbers outside of the normal range of f32.
        let square = self * self;
        let e = Real::exp(-0.5 * square);
        let e = if square < 69.0 { e } else { 0.0 };
        let t = 1.0 / (1.0 + 0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2 * self.abs());
        let p = 1.061_405_4;
        let p = p * t - 1.453_152;
        let p = p * t + 1.421_413_7;
        let p = p * t - 0.284_496_74;
        let p = p * t + 0.254_829_6;
        let tail = 0.5 * p * t * e;
        let phi = if self > 0.0 { 1.0 - tail } else { tail };
        (phi, e * DENSITY as f32)
    }
    fn dispatch<K: Task<Self>>(task: K) -> K::Output {
        kernel::dispatch_f32(task)
    }
    fn buffers() -> &'static LocalKey<Buffers<Self>> {
        &NARROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_in_both_precisions() {
        let mut x = -12.0f32;
        while x < 12.0 {
            let (phi, density) = f64::from(x).normal();
            let (narrow, slope) = x.normal();
            assert!((f64::from(narrow) - phi).abs() < 2e-7, "{x}: {narrow}");
            assert!((f64::from(slope) - density).abs() < 2e-7, "{x}: {slope}");
            let h = 1e-5;
            let numeric = (f64::from(x) + h).normal().0 - (f64::from(x) - h).normal().0;
            assert!((numeric / (2.0 * h) - density).abs() < 1e-9);
            x += 0.0137;
        }
    }

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
}
