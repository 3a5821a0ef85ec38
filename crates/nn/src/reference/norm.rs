//! Layer normalisation, then the shift and scale of the time: adaptive LayerNorm (adaLN).
//!
//! ```text
//! m_n = mean_c x_nc          s_n = sqrt(mean_c (x_nc - m_n)^2 + 1e-5)
//! u_nc = (x_nc - m_n) / s_n
//! y_nc = u_nc w_c (1 + scale_bc) + shift_bc        with b the sequence of row n
//! ```
//!
//! `x, y [N, C]`, `w [C]`, `shift, scale [B, C]`. No bias: the shift takes its place.
//!
//! The Jacobian of `u` in `x` is `(I - 1 1^T / C - u u^T / C) / s`: it removes the mean, then what
//! points along `u`, because moving `x` in those directions does not change `u` (but for the
//! 1e-5). It is symmetric, so backward and tangent apply the same map.

use burn::tensor::Tensor;

use super::{collect, spread};

/// Added to the variance, as in the published models.
pub const EPSILON: f64 = 1e-5;

/// `u [N, C]` and `s [N, 1]`.
fn normalise(x: &Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let centred = x.clone() - x.clone().mean_dim(1);
    let variance = (centred.clone() * centred.clone()).mean_dim(1);
    let s = (variance + EPSILON).sqrt();
    (centred / s.clone(), s)
}

/// The Jacobian of `u`, symmetric, times `a`: `(a - mean a - u mean(u a)) / s`.
fn jacobian(u: &Tensor<2>, s: &Tensor<2>, a: Tensor<2>) -> Tensor<2> {
    let along = u.clone() * (u.clone() * a.clone()).mean_dim(1);
    (a.clone() - a.mean_dim(1) - along) / s.clone()
}

/// `y = u w (1 + scale) + shift`.
pub fn forward(
    x: &Tensor<2>,
    weight: &Tensor<1>,
    shift: &Tensor<2>,
    scale: &Tensor<2>,
) -> Tensor<2> {
    let rows = x.dims()[0];
    let (u, _) = normalise(x);
    let w = weight.clone().unsqueeze();
    u * w * (spread(scale, rows) + 1.0) + spread(shift, rows)
}

/// `gu = gy w (1 + scale)` and `gx` from it, `gw = sum_n gy u (1 + scale)`, and summed over each
/// sequence `gshift = sum gy`, `gscale = sum gy u w`; returned as `(gx, gw, gshift, gscale)`.
pub fn backward(
    x: &Tensor<2>,
    weight: &Tensor<1>,
    scale: &Tensor<2>,
    gy: &Tensor<2>,
) -> (Tensor<2>, Tensor<1>, Tensor<2>, Tensor<2>) {
    let (rows, sequences) = (x.dims()[0], scale.dims()[0]);
    let (u, s) = normalise(x);
    let w = weight.clone().unsqueeze();
    let scaled = gy.clone() * (spread(scale, rows) + 1.0);
    let gx = jacobian(&u, &s, scaled.clone() * w.clone());
    let gw = (scaled * u.clone()).sum_dim(0).squeeze_dim(0);
    let gshift = collect(gy, sequences);
    let gscale = collect(&(gy.clone() * u * w), sequences);
    (gx, gw, gshift, gscale)
}

/// `dy = du w (1 + scale) + u w dscale + dshift`.
pub fn tangent(
    x: &Tensor<2>,
    weight: &Tensor<1>,
    scale: &Tensor<2>,
    dx: &Tensor<2>,
    dshift: &Tensor<2>,
    dscale: &Tensor<2>,
) -> Tensor<2> {
    let rows = x.dims()[0];
    let (u, s) = normalise(x);
    let w = weight.clone().unsqueeze();
    let du = jacobian(&u, &s, dx.clone());
    (du * (spread(scale, rows) + 1.0) + u * spread(dscale, rows)) * w + spread(dshift, rows)
}
