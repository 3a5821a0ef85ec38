//! DUO's diffusion transformation: the noise level of the discrete chain under a Gaussian one.
//!
//! A one-hot vector over `K` symbols with Gaussian noise, `w = a 1_x + b eps` with `a^2 = sigmoid(-gamma)`
//! and `b^2 = sigmoid(gamma)`, shows the symbol of its largest entry. It is the right one with
//! probability `p(gamma) = int phi(z - e^{-gamma/2}) Phi(z)^{K-1} dz` and any other with the same
//! probability as the rest, which is a uniform-state corruption that keeps the symbol with
//! probability `alpha(gamma) = (K p - 1)/(K - 1)`.
//!
//! DUO looks `p` up in a table of 100,000 integrals per vocabulary; here it is computed.

use std::f64::consts::{SQRT_2, TAU};

/// Half the width of the interval that is integrated over, in deviations of `phi`.
const WIDTH: f64 = 10.0;
/// Intervals of the trapezoidal rule, which converges faster than any power on such an integrand.
const PIECES: usize = 400;

/// `1 - p(gamma)`, which keeps its digits near data.
fn miss(symbols: usize, gamma: f64) -> f64 {
    let shift = (-0.5 * gamma).exp();
    let others = symbols as f64 - 1.0;
    let h = 2.0 * WIDTH / PIECES as f64;
    (0..=PIECES)
        .map(|i| {
            let y = i as f64 * h - WIDTH;
            let density = (-0.5 * y * y).exp() / TAU.sqrt();
            // 1 - Phi^{K-1} = -expm1((K - 1) ln(1 - tail)).
            let tail = 0.5 * libm::erfc((y + shift) / SQRT_2);
            -h * density * (others * (-tail).ln_1p()).exp_m1()
        })
        .sum()
}

/// The probability with which a symbol is kept.
pub fn alpha(symbols: usize, gamma: f64) -> f64 {
    let k = symbols as f64;
    1.0 - k * miss(symbols, gamma) / (k - 1.0)
}

/// The `gamma` at which a symbol is kept with probability `alpha` in `(0, 1)`.
pub fn gamma(symbols: usize, alpha: f64) -> f64 {
    assert!(alpha > 0.0 && alpha < 1.0, "alpha {alpha}");
    let (mut near, mut far) = (-12.0, 40.0);
    // alpha falls in gamma; halved to the last digits of f64.
    for _ in 0..80 {
        let middle = 0.5 * (near + far);
        if self::alpha(symbols, middle) > alpha {
            near = middle;
        } else {
            far = middle;
        }
    }
    0.5 * (near + far)
}

/// The number that a standard normal one exceeds with probability `q` in `(0, 1)`.
///
/// A rational start that is right to 5e-4, then Halley's steps on the tail, which keep the digits of
/// small `q`.
pub fn exceeded(q: f64) -> f64 {
    if q > 0.5 {
        return -exceeded(1.0 - q);
    }
    let q = q.max(f64::MIN_POSITIVE);
    let s = (-2.0 * q.ln()).sqrt();
    let over = 2.515_517 + s * (0.802_853 + s * 0.010_328);
    let under = 1.0 + s * (1.432_788 + s * (0.189_269 + s * 0.001_308));
    let mut z = s - over / under;
    for _ in 0..2 {
        let density = (-0.5 * z * z).exp() / TAU.sqrt();
        let off = (0.5 * libm::erfc(z / SQRT_2) - q) / density;
        z += off / (1.0 - 0.5 * z * off);
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Key, Purpose, normal};

    /// Values that DUO's own table holds for GPT-2's vocabulary: 100,000 of them between -5 and -1, of
    /// which the nearest is taken. At -3 that is half a step off, which alone makes 1.7e-5.
    #[test]
    fn the_published_values_come_out() {
        for (gamma, expected) in [
            (-4.0, 0.998_694),
            (-3.55, 0.945_470),
            (-3.5, 0.928_342),
            (-3.0, 0.596_236),
            (-2.5, 0.237_973),
            (-2.0, 0.072_031_7),
            (-1.85, 0.049_318_7),
            (-1.75, 0.038_282_7),
            (-1.0, 0.006_186_31),
        ] {
            let nearest = ((gamma + 5.0) / 4.0 * 99_999.0f64).round();
            let found = alpha(50257, -5.0 + 4.0 * nearest / 99_999.0);
            assert!((found - expected).abs() < 1e-6, "{gamma}: {found}");
            let exact = alpha(50257, gamma);
            assert!((exact - expected).abs() < 2e-5, "{gamma}: {exact}");
        }
        let p = 1.0 - miss(50257, -5.0);
        assert!((p - 0.999_999_999_999_824_4).abs() < 1e-14, "{p}");
        let p = 1.0 - miss(50257, -1.0);
        assert!((p - 0.006_206_083_097_848_983_5).abs() < 1e-12, "{p}");
    }

    #[test]
    fn the_exceeded_number_is_exceeded_so_often() {
        for q in [
            1e-300,
            1e-20,
            1e-5,
            0.02275013194817921,
            0.3,
            0.5,
            0.7,
            1.0 - 1e-9,
        ] {
            let back = 0.5 * libm::erfc(exceeded(q) / SQRT_2);
            assert!((back - q).abs() < 1e-12 * q, "{q}: {back}");
        }
        assert!((exceeded(0.02275013194817921) - 2.0).abs() < 1e-14);
    }

    #[test]
    fn gamma_is_the_inverse() {
        for symbols in [2, 4, 257, 50257] {
            for kept in [0.001, 0.1, 0.5, 0.9, 0.999] {
                let back = alpha(symbols, gamma(symbols, kept));
                assert!((back - kept).abs() < 1e-9, "{symbols}, {kept}: {back}");
            }
        }
    }

    /// Against draws, for few symbols, where no table exists.
    #[test]
    fn draws_agree() {
        let (symbols, at, n) = (3, 0.5, 200_000);
        let shift = (-0.5f64 * at).exp();
        let key = Key::new(4, Purpose::Check);
        let hits = (0..n)
            .filter(|&i| {
                let mut rng = key.at(0, i);
                let own = shift + normal(&mut rng);
                (1..symbols).all(|_| normal(&mut rng) < own)
            })
            .count();
        let p = hits as f64 / n as f64;
        let kept = (symbols as f64 * p - 1.0) / (symbols as f64 - 1.0);
        assert!((kept - alpha(symbols, at)).abs() < 0.007, "{kept}");
    }
}
