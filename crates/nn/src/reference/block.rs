//! One transformer block: attention, then an MLP at each position, both normalised and modulated
//! by the conditioning vector before and gated by it after.
//!
//! ```text
//! shift1, scale1, gate1, shift2, scale2, gate2 = c Wm^T + bm      six times [B, C]
//! z1 = norm(x; shift1, scale1)
//! q, k, v = heads(z1 Wqkv^T)          q, k = rotary(q), rotary(k)
//! o = attention(q, k, v)              x1 = x + gate1 (o Wout^T)
//! z2 = norm(x1; shift2, scale2)       u = z2 Wup^T + bup
//! y = x1 + gate2 (gelu(u) Wdown^T + bdown)
//! ```
//!
//! `x, y [N, C]`, `c [B, E]`, `u [N, 4C]`.

use burn::tensor::Tensor;

use super::{Gelu, Gradient, Parameters, attention, chunks, gate, linear, norm, rotary};
use crate::dit::Block;

/// What the forward pass keeps, named as above.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The fields are the letters of the formulas.
pub struct Kept {
    pub x: Tensor<2>,
    pub c: Tensor<2>,
    /// Shift, scale and gate of the attention, then of the MLP.
    pub modulation: [Tensor<2>; 6],
    pub z1: Tensor<2>,
    /// Turned.
    pub q: Tensor<4>,
    /// Turned.
    pub k: Tensor<4>,
    pub v: Tensor<4>,
    /// `[N, C]`, the heads side by side.
    pub o: Tensor<2>,
    /// `o Wout^T`.
    pub h1: Tensor<2>,
    pub x1: Tensor<2>,
    pub z2: Tensor<2>,
    pub u: Tensor<2>,
    /// `gelu(u) Wdown^T + bdown`.
    pub h2: Tensor<2>,
}

/// `y`.
pub fn forward(
    p: &Parameters,
    block: &Block,
    heads: usize,
    x: &Tensor<2>,
    c: &Tensor<2>,
) -> (Tensor<2>, Kept) {
    let modulation = chunks(&p.forward(&block.modulation, c));
    let [shift1, scale1, gate1, shift2, scale2, gate2] = &modulation;

    let z1 = norm::forward(x, &p.vector(&block.norm1), shift1, scale1);
    let qkv = linear::forward(&z1, &p.matrix(&block.qkv), None);
    let [q, k, v] = attention::split_heads(&qkv, c.dims()[0], heads);
    let (q, k) = (rotary::forward(&q), rotary::forward(&k));
    let o = attention::from_heads(&attention::forward(&q, &k, &v));
    let h1 = linear::forward(&o, &p.matrix(&block.out), None);
    let x1 = gate::forward(x, gate1, &h1);

    let z2 = norm::forward(&x1, &p.vector(&block.norm2), shift2, scale2);
    let u = p.forward(&block.up, &z2);
    let h2 = p.forward(&block.down, &Gelu::Tanh.forward(&u));
    let y = gate::forward(&x1, gate2, &h2);

    let (x, c) = (x.clone(), c.clone());
    let kept = Kept {
        x,
        c,
        modulation,
        z1,
        q,
        k,
        v,
        o,
        h1,
        x1,
        z2,
        u,
        h2,
    };
    (y, kept)
}

/// `(gx, gc)`: the forward pass read from its last line to its first. Where a value is used
/// twice, as `x` and `x1` are, the gradients of both uses add.
pub fn backward(
    p: &Parameters,
    block: &Block,
    kept: &Kept,
    gy: &Tensor<2>,
    gradient: &mut Gradient,
) -> (Tensor<2>, Tensor<2>) {
    let [_, scale1, gate1, _, scale2, gate2] = &kept.modulation;
    let (sequences, heads) = (kept.c.dims()[0], kept.q.dims()[1]);

    let (gx1, ggate2, gh2) = gate::backward(gate2, &kept.h2, gy);
    let activation = Gelu::Tanh.forward(&kept.u);
    let gactivation = p.backward(&block.down, &activation, &gh2, gradient);
    let gu = Gelu::Tanh.backward(&kept.u, &gactivation);
    let gz2 = p.backward(&block.up, &kept.z2, &gu, gradient);
    let weight = p.vector(&block.norm2);
    let (through, gw, gshift2, gscale2) = norm::backward(&kept.x1, &weight, scale2, &gz2);
    gradient.add(&block.norm2, gw);
    let gx1 = gx1 + through;

    let (gx, ggate1, gh1) = gate::backward(gate1, &kept.h1, &gx1);
    let (go, gw, _) = linear::backward(&kept.o, &p.matrix(&block.out), &gh1);
    gradient.add(&block.out, gw);
    let go = attention::to_heads(&go, sequences, heads);
    let (gq, gk, gv) = attention::backward(&kept.q, &kept.k, &kept.v, &go);
    let gqkv = attention::join_heads([&rotary::backward(&gq), &rotary::backward(&gk), &gv]);
    let (gz1, gw, _) = linear::backward(&kept.z1, &p.matrix(&block.qkv), &gqkv);
    gradient.add(&block.qkv, gw);
    let weight = p.vector(&block.norm1);
    let (through, gw, gshift1, gscale1) = norm::backward(&kept.x, &weight, scale1, &gz1);
    gradient.add(&block.norm1, gw);
    let gx = gx + through;

    let gmodulation = vec![gshift1, gscale1, ggate1, gshift2, gscale2, ggate2];
    let gmodulation = Tensor::cat(gmodulation, 1);
    let gc = p.backward(&block.modulation, &kept.c, &gmodulation, gradient);
    (gx, gc)
}

/// `dy`, from `dx` and `dc`.
pub fn tangent(
    p: &Parameters,
    block: &Block,
    kept: &Kept,
    dx: &Tensor<2>,
    dc: &Tensor<2>,
) -> Tensor<2> {
    let [_, scale1, gate1, _, scale2, gate2] = &kept.modulation;
    let (sequences, heads) = (kept.c.dims()[0], kept.q.dims()[1]);
    let [dshift1, dscale1, dgate1, dshift2, dscale2, dgate2] =
        &chunks(&p.tangent(&block.modulation, dc));

    let weight = p.vector(&block.norm1);
    let dz1 = norm::tangent(&kept.x, &weight, scale1, dx, dshift1, dscale1);
    let dqkv = linear::tangent(&p.matrix(&block.qkv), &dz1);
    let [dq, dk, dv] = attention::split_heads(&dqkv, sequences, heads);
    let (dq, dk) = (rotary::tangent(&dq), rotary::tangent(&dk));
    let d_o = attention::tangent([&kept.q, &kept.k, &kept.v], [&dq, &dk, &dv]);
    let dh1 = linear::tangent(&p.matrix(&block.out), &attention::from_heads(&d_o));
    let dx1 = gate::tangent(gate1, &kept.h1, dx, dgate1, &dh1);

    let weight = p.vector(&block.norm2);
    let dz2 = norm::tangent(&kept.x1, &weight, scale2, &dx1, dshift2, dscale2);
    let du = p.tangent(&block.up, &dz2);
    let dh2 = p.tangent(&block.down, &Gelu::Tanh.tangent(&kept.u, &du));
    gate::tangent(gate2, &kept.h2, &dx1, dgate2, &dh2)
}
