//! Residual with a gate of the time: `y = x + g h`.
//!
//! `x, h, y [N, C]`, `g [B, C]`, one row per sequence. With `g = 0`, where training starts, a block
//! does nothing.

use burn::tensor::Tensor;

use super::{collect, spread};

/// `y = x + g h`.
pub fn forward(x: &Tensor<2>, g: &Tensor<2>, h: &Tensor<2>) -> Tensor<2> {
    x.clone() + spread(g, h.dims()[0]) * h.clone()
}

/// `gx = gy`, `gg = sum over the sequence's positions of gy h`, `gh = gy g`; returned as
/// `(gx, gg, gh)`.
pub fn backward(g: &Tensor<2>, h: &Tensor<2>, gy: &Tensor<2>) -> (Tensor<2>, Tensor<2>, Tensor<2>) {
    let [rows, sequences] = [h.dims()[0], g.dims()[0]];
    let gg = collect(&(gy.clone() * h.clone()), sequences);
    let gh = gy.clone() * spread(g, rows);
    (gy.clone(), gg, gh)
}

/// `dy = dx + dg h + g dh`.
pub fn tangent(
    g: &Tensor<2>,
    h: &Tensor<2>,
    dx: &Tensor<2>,
    dg: &Tensor<2>,
    dh: &Tensor<2>,
) -> Tensor<2> {
    let rows = h.dims()[0];
    dx.clone() + spread(dg, rows) * h.clone() + spread(g, rows) * dh.clone()
}
