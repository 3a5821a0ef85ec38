//! The head that adds the correction of a step `t -> r` to the hidden state before the logits.
//!
//! ```text
//! shift, scale = c Wm^T + bm               c sees both t and r - t
//! z = norm(h; shift, scale)                u = z Wup^T + bup
//! delta = gelu(u) Wdown^T + bdown          y = gain (r - t) delta
//! ```
//!
//! `h, z, delta, y [N, C]`, `c [B, E]`, `gap = gain (r - t) [B, 1]`. At `r = t` the correction is
//! zero by construction, and with `Wdown = 0`, `bdown = 0`, where training starts, it is zero
//! everywhere.

use burn::tensor::Tensor;

use super::{Gelu, Gradient, Parameters, chunks, norm, spread};
use crate::dit::Correction;

/// What the forward pass keeps, named as above.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The fields are the letters of the formulas.
pub struct Kept {
    pub h: Tensor<2>,
    pub c: Tensor<2>,
    pub gap: Tensor<2>,
    pub scale: Tensor<2>,
    pub z: Tensor<2>,
    pub u: Tensor<2>,
    pub delta: Tensor<2>,
}

/// `y`.
pub fn forward(
    p: &Parameters,
    head: &Correction,
    h: &Tensor<2>,
    c: &Tensor<2>,
    gap: &Tensor<2>,
) -> (Tensor<2>, Kept) {
    let [shift, scale] = chunks(&p.forward(&head.modulation, c));
    let z = norm::forward(h, &p.vector(&head.norm), &shift, &scale);
    let u = p.forward(&head.up, &z);
    let delta = p.forward(&head.down, &Gelu::Tanh.forward(&u));
    let y = spread(gap, h.dims()[0]) * delta.clone();
    let kept = Kept {
        h: h.clone(),
        c: c.clone(),
        gap: gap.clone(),
        scale,
        z,
        u,
        delta,
    };
    (y, kept)
}

/// `(gh, gc)`, from `gdelta = gap gy`; the gap comes from outside and needs no gradient.
pub fn backward(
    p: &Parameters,
    head: &Correction,
    kept: &Kept,
    gy: &Tensor<2>,
    gradient: &mut Gradient,
) -> (Tensor<2>, Tensor<2>) {
    let gdelta = spread(&kept.gap, gy.dims()[0]) * gy.clone();
    let activation = Gelu::Tanh.forward(&kept.u);
    let gactivation = p.backward(&head.down, &activation, &gdelta, gradient);
    let gu = Gelu::Tanh.backward(&kept.u, &gactivation);
    let gz = p.backward(&head.up, &kept.z, &gu, gradient);
    let weight = p.vector(&head.norm);
    let (gh, gw, gshift, gscale) = norm::backward(&kept.h, &weight, &kept.scale, &gz);
    gradient.add(&head.norm, gw);
    let gmodulation = Tensor::cat(vec![gshift, gscale], 1);
    let gc = p.backward(&head.modulation, &kept.c, &gmodulation, gradient);
    (gh, gc)
}

/// `dy = dgap delta + gap ddelta`, with `dgap = -gain` at fixed `r`.
pub fn tangent(
    p: &Parameters,
    head: &Correction,
    kept: &Kept,
    dh: &Tensor<2>,
    dc: &Tensor<2>,
    dgap: &Tensor<2>,
) -> Tensor<2> {
    let rows = dh.dims()[0];
    let [dshift, dscale] = chunks(&p.tangent(&head.modulation, dc));
    let weight = p.vector(&head.norm);
    let dz = norm::tangent(&kept.h, &weight, &kept.scale, dh, &dshift, &dscale);
    let du = p.tangent(&head.up, &dz);
    let ddelta = p.tangent(&head.down, &Gelu::Tanh.tangent(&kept.u, &du));
    spread(dgap, rows) * kept.delta.clone() + spread(&kept.gap, rows) * ddelta
}
