//! `silu(z) = z sigmoid(z)`, with its derivative `sigma (1 + z (1 - sigma))` kept for the backward
//! and tangent passes, which both multiply by it.
//!
//! With libm's scalar exponential this layer costs more than the matrix products around it; the
//! loop here is compiled for the widest vectors the machine has and chosen at run time.

use crate::{Real, simd};

/// Replaces `z` by `silu(z)` and writes `silu'(z)`.
pub fn forward<T: Real>(z: &mut [T], slope: &mut [T]) {
    assert_eq!(z.len(), slope.len());
    simd::run(
        (z, slope),
        #[inline(always)]
        |(z, slope): (&mut [T], &mut [T])| {
            for (z, slope) in z.iter_mut().zip(slope) {
                let sigma = T::of(1.0) / (T::of(1.0) + (-*z).exp());
                *slope = sigma * (T::of(1.0) + *z * (T::of(1.0) - sigma));
                *z = *z * sigma;
            }
        },
    );
}

/// `v * silu'(z)` in place: the tangent `da = silu'(z) dz` and the backward `g_z = silu'(z) g_a`.
pub fn chain<T: Real>(slope: &[T], v: &mut [T]) {
    for (v, slope) in v.iter_mut().zip(slope) {
        *v = *v * *slope;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_slopes_in_both_precisions() {
        let points: Vec<f64> = (-400..400).map(|i| f64::from(i) * 0.05).collect();
        let silu = |z: f64| z / (1.0 + (-z).exp());
        let (mut wide, mut wide_slope) = (points.clone(), vec![0.0; points.len()]);
        forward(&mut wide, &mut wide_slope);
        let mut narrow: Vec<f32> = points.iter().map(|&z| z as f32).collect();
        let mut narrow_slope = vec![0.0; points.len()];
        forward(&mut narrow, &mut narrow_slope);
        for (i, &z) in points.iter().enumerate() {
            let numeric = (silu(z + 1e-5) - silu(z - 1e-5)) / 2e-5;
            assert!((wide[i] - silu(z)).abs() < 1e-14);
            assert!((wide_slope[i] - numeric).abs() < 1e-9);
            assert!((f64::from(narrow[i]) - silu(z)).abs() < 2e-6);
            assert!((f64::from(narrow_slope[i]) - numeric).abs() < 2e-6);
        }
    }
}
