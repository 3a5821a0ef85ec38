//! Attention: every position averages the values of all positions, by how well its query fits
//! their keys. No mask: a denoiser looks both ways.
//!
//! ```text
//! S = q k^T / sqrt(d)      P = softmax(S)      o = P v
//! ```
//!
//! `q, k, v, o [B, H, L, d]`, `S, P [B, H, L, L]`; heads and sequences do not see each other.

use burn::tensor::Tensor;

use super::{chunks, softmax};

/// `1 / sqrt(d)`.
fn scale(q: &Tensor<4>) -> f64 {
    1.0 / (q.dims()[3] as f64).sqrt()
}

/// `a b^T` over the last two axes.
fn outer(a: &Tensor<4>, b: &Tensor<4>) -> Tensor<4> {
    a.clone().matmul(b.clone().transpose())
}

/// `P`.
fn weights(q: &Tensor<4>, k: &Tensor<4>) -> Tensor<4> {
    softmax::forward(&(outer(q, k) * scale(q)))
}

/// `o = P v`.
pub fn forward(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Tensor<4> {
    weights(q, k).matmul(v.clone())
}

/// `gP = go v^T`, `gS` by the softmax, then `(gq, gk, gv)` with
/// `gq = gS k / sqrt(d)`, `gk = gS^T q / sqrt(d)`, `gv = P^T go`.
pub fn backward(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    go: &Tensor<4>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let p = weights(q, k);
    let gs = softmax::backward(&p, &outer(go, v)) * scale(q);
    let gq = gs.clone().matmul(k.clone());
    let gk = gs.transpose().matmul(q.clone());
    let gv = p.transpose().matmul(go.clone());
    (gq, gk, gv)
}

/// `dS = (dq k^T + q dk^T) / sqrt(d)`, `dP` by the softmax, `do = dP v + P dv`.
pub fn tangent([q, k, v]: [&Tensor<4>; 3], [dq, dk, dv]: [&Tensor<4>; 3]) -> Tensor<4> {
    let p = weights(q, k);
    let ds = (outer(dq, k) + outer(q, dk)) * scale(q);
    let dp = softmax::tangent(&p, &ds);
    dp.matmul(v.clone()) + p.matmul(dv.clone())
}

/// `[N, 3C] -> q, k, v [B, H, L, d]`. The channels are ordered q, k, v, in each of them head by
/// head.
pub fn split_heads(qkv: &Tensor<2>, sequences: usize, heads: usize) -> [Tensor<4>; 3] {
    chunks(qkv).map(|x| to_heads(&x, sequences, heads))
}

/// `q, k, v [B, H, L, d] -> [N, 3C]`: the inverse of [`split_heads`], and its transpose.
pub fn join_heads(parts: [&Tensor<4>; 3]) -> Tensor<2> {
    Tensor::cat(parts.map(from_heads).to_vec(), 1)
}

/// `[N, C] -> [B, H, L, d]`.
pub fn to_heads(x: &Tensor<2>, sequences: usize, heads: usize) -> Tensor<4> {
    let [n, c] = x.dims();
    x.clone()
        .reshape([sequences, n / sequences, heads, c / heads])
        .swap_dims(1, 2)
}

/// `[B, H, L, d] -> [N, C]`: the inverse of [`to_heads`], and its transpose.
pub fn from_heads(x: &Tensor<4>) -> Tensor<2> {
    let [b, h, l, d] = x.dims();
    x.clone().swap_dims(1, 2).reshape([b * l, h * d])
}
