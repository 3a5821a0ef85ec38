//! Fourier features of the times a network is conditioned on, with their derivative in `t`.
//!
//! Each scalar `u` gives `[u, sin(pi u/2), cos(pi u/2), sin(pi u), cos(pi u)]`. Two octaves on
//! purpose: the method differentiates the network in `t`, and every further octave doubles the
//! slope that initialisation noise gets there. Measured on the Potts model, eight octaves leave
//! the total variation at 0.1 to 0.3; two train.

use std::f64::consts::FRAC_PI_2;

/// Frequencies per scalar.
const OCTAVES: usize = 2;

/// Features per scalar.
pub const WIDTH: usize = 1 + 2 * OCTAVES;

/// `-log(1 - t)` is divided by this, so that its useful range is about that of `t`.
const LOG_SCALE: f64 = 4.0;

/// `(u, du/dt)` of the scalars that describe a time: `t` and `-log(1 - t)`.
pub fn instant(t: f64) -> [(f64, f64); 2] {
    [
        (t, 1.0),
        (-(-t).ln_1p() / LOG_SCALE, 1.0 / (LOG_SCALE * (1.0 - t))),
    ]
}

/// The scalars that describe a step: `t`, `r`, `r - t` and `-log(1 - t)`, at fixed `r`.
pub fn interval(t: f64, r: f64) -> [(f64, f64); 4] {
    let [time, log] = instant(t);
    [time, (r, 0.0), (r - t, -1.0), log]
}

/// Appends the features of the scalars, and their derivatives in `t` if wanted.
pub fn extend(scalars: &[(f64, f64)], values: &mut Vec<f64>, mut tangents: Option<&mut Vec<f64>>) {
    for &(u, du) in scalars {
        values.push(u);
        if let Some(out) = tangents.as_deref_mut() {
            out.push(du);
        }
        for octave in 0..OCTAVES {
            let frequency = FRAC_PI_2 * f64::from(1u32 << octave);
            let (sin, cos) = (frequency * u).sin_cos();
            values.extend([sin, cos]);
            if let Some(out) = tangents.as_deref_mut() {
                out.extend([frequency * du * cos, -frequency * du * sin]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tangents_are_derivatives_at_fixed_r() {
        let at = |t: f64| {
            let (mut values, mut tangents) = (Vec::new(), Vec::new());
            extend(&interval(t, 0.9), &mut values, Some(&mut tangents));
            (values, tangents)
        };
        let (values, tangents) = at(0.35);
        assert_eq!(values.len(), 4 * WIDTH);
        let (up, down) = (at(0.35 + 1e-6).0, at(0.35 - 1e-6).0);
        for i in 0..values.len() {
            assert!(
                ((up[i] - down[i]) / 2e-6 - tangents[i]).abs() < 1e-8,
                "feature {i}"
            );
        }
    }
}
