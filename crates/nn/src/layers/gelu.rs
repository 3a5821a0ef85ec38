//! GELU in its two forms, with the bias before it added on the way.
//!
//! - tanh form: `u sigma(2 z)` with `z = sqrt(2/pi) (u + 0.044715 u^3)`, which is the same as
//!   `u (1 + tanh z) / 2` with one exponential; the form of the DiT's blocks;
//! - exact form: `u Phi(u)`, with `erf`; the form of Di4C's latent map and of MaskGIT.
//!
//! Backward and tangent both multiply by the slope.

use rayon::prelude::*;

use crate::{Real, kernel::least, simd};

const CHUNK: usize = 16 * 1024;
/// `sqrt(8/pi)`: `2 z = SCALE (u + CUBIC u^3)`.
const SCALE: f64 = 1.595_769_121_605_731;
const CUBIC: f64 = 0.044_715;

/// `exp(-2 z)` beyond which the tail is zero. It would be 1e-14 there, and its products with gradients
/// would soon be outside the normal range of f32, where every operation takes a hundred times as
/// long.
const FAR: f64 = 1e15;
/// A gradient below this is zero, for the same reason.
const TINY: f64 = 1e-30;

/// Which GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With `tanh`.
    Tanh,
    /// With `erf`.
    Exact,
}

impl Form {
    /// `gelu(u)` and `gelu'(u)`.
    #[inline(always)]
    pub fn at<T: Real>(self, u: T) -> (T, T) {
        let one = T::of(1.0);
        match self {
            Self::Tanh => {
                let (scale, cubic) = (T::of(SCALE), T::of(CUBIC));
                let square = u * u;
                let z = scale * u * (one + cubic * square);
                let e = (-z).exp();
                let sigma = if e < T::of(FAR) {
                    one / (one + e)
                } else {
                    T::of(0.0)
                };
                let dz = scale * (one + T::of(3.0) * cubic * square);
                // 1 - sigma, without cancellation on one side and overflow on the other.
                let rest = if e > one { one - sigma } else { e * sigma };
                (u * sigma, sigma * (one + u * rest * dz))
            }
            Self::Exact => {
                let (phi, density) = u.normal();
                (u * phi, phi + u * density)
            }
        }
    }
}

/// Adds `bias [F]` to the rows of `u [N, F]` and writes `out = gelu(u)`.
pub fn forward<T: Real>(form: Form, u: &mut [T], bias: &[T], out: &mut [T]) {
    let rows = (CHUNK / bias.len()).max(1) * bias.len();
    u.par_chunks_mut(rows)
        .zip(out.par_chunks_mut(rows))
        .with_min_len(least())
        .for_each(|(u, out)| {
            add_bias(u, bias);
            value(form, u, out);
        });
}

/// As [`forward`], and `v = gelu'(u) v` of a `v` as large: the curve is worked out once for both.
pub fn forward_chain<T: Real>(form: Form, u: &mut [T], bias: &[T], out: &mut [T], v: &mut [T]) {
    let rows = (CHUNK / bias.len()).max(1) * bias.len();
    u.par_chunks_mut(rows)
        .zip(out.par_chunks_mut(rows))
        .zip(v.par_chunks_mut(rows))
        .with_min_len(least())
        .for_each(|((u, out), v)| {
            add_bias(u, bias);
            value_chain(form, u, out, v);
        });
}

fn add_bias<T: Real>(u: &mut [T], bias: &[T]) {
    simd::run(
        u,
        #[inline(always)]
        |u: &mut [T]| {
            for u in u.chunks_exact_mut(bias.len()) {
                u.iter_mut().zip(bias).for_each(|(u, b)| *u += *b);
            }
        },
    );
}

/// `out = gelu(u)`, of a `u` that has its bias.
pub fn value<T: Real>(form: Form, u: &[T], out: &mut [T]) {
    each(
        form,
        u,
        out,
        #[inline(always)]
        |(value, _), out| *out = value,
    );
}

/// `v = gelu'(u) v`: the tangent, and the gradient in `u` from that in `gelu(u)`.
pub fn chain<T: Real>(form: Form, u: &[T], v: &mut [T]) {
    each(
        form,
        u,
        v,
        #[inline(always)]
        |(_, slope), v| times(slope, v),
    );
}

/// [`value`] and [`chain`] with the curve worked out once.
pub fn value_chain<T: Real>(form: Form, u: &[T], out: &mut [T], v: &mut [T]) {
    u.par_chunks(CHUNK)
        .zip(out.par_chunks_mut(CHUNK))
        .zip(v.par_chunks_mut(CHUNK))
        .with_min_len(least())
        .for_each(|all| {
            simd::run(
                all,
                #[inline(always)]
                |((u, out), v): ((&[T], &mut [T]), &mut [T])| {
                    let lines = u.iter().zip(out).zip(v);
                    match form {
                        Form::Tanh => {
                            for ((u, out), v) in lines {
                                both(Form::Tanh.at(*u), out, v);
                            }
                        }
                        Form::Exact => {
                            for ((u, out), v) in lines {
                                both(Form::Exact.at(*u), out, v);
                            }
                        }
                    }
                },
            );
        });
}

#[inline(always)]
fn both<T: Real>((value, slope): (T, T), out: &mut T, v: &mut T) {
    *out = value;
    times(slope, v);
}

/// `v = slope v`, or zero where that is nearly so.
#[inline(always)]
fn times<T: Real>(slope: T, v: &mut T) {
    let (product, tiny) = (*v * slope, T::of(TINY));
    let seen = product > tiny || product < -tiny;
    *v = if seen { product } else { T::of(0.0) };
}

/// `f((gelu(u), gelu'(u)), v)` of every pair, with the form settled outside of the loop.
fn each<T: Real>(form: Form, u: &[T], v: &mut [T], f: impl Fn((T, T), &mut T) + Copy + Sync) {
    u.par_chunks(CHUNK)
        .zip(v.par_chunks_mut(CHUNK))
        .with_min_len(least())
        .for_each(|pair| {
            simd::run(
                pair,
                #[inline(always)]
                |(u, v): (&[T], &mut [T])| match form {
                    Form::Tanh => {
                        for (u, v) in u.iter().zip(v) {
                            f(Form::Tanh.at(*u), v);
                        }
                    }
                    Form::Exact => {
                        for (u, v) in u.iter().zip(v) {
                            f(Form::Exact.at(*u), v);
                        }
                    }
                },
            );
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far out on both sides the curve is a line and a constant, in both precisions.
    #[test]
    fn the_ends_are_finite() {
        for form in [Form::Tanh, Form::Exact] {
            for u in [-1e4f64, -60.0, -12.0, 12.0, 60.0, 1e4] {
                let (wide, narrow) = (form.at(u), form.at(u as f32));
                let line = if u > 0.0 { (u, 1.0) } else { (0.0, 0.0) };
                assert!((wide.0 - line.0).abs() < 1e-12 && (wide.1 - line.1).abs() < 1e-12);
                assert!((f64::from(narrow.0) - line.0).abs() < 1e-6 * (1.0 + line.0));
                assert!(
                    (f64::from(narrow.1) - line.1).abs() < 1e-6,
                    "{form:?} {u}: {narrow:?}"
                );
            }
        }
    }
}
