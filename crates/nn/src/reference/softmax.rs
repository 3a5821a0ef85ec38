//! Softmax over the last axis: `p_i = exp x_i / sum_j exp x_j`.
//!
//! The Jacobian is `diag(p) - p p^T`, symmetric: backward and tangent are the same map.

use burn::tensor::Tensor;

/// `p`; the largest entry is subtracted first, which changes nothing but the range of `exp`.
pub fn forward<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    let e = (x.clone() - x.clone().max_dim(D - 1)).exp();
    e.clone() / e.sum_dim(D - 1)
}

/// `gx = p (gp - sum p gp)`.
pub fn backward<const D: usize>(p: &Tensor<D>, gp: &Tensor<D>) -> Tensor<D> {
    jacobian(p, gp)
}

/// `dp = p (dx - sum p dx)`.
pub fn tangent<const D: usize>(p: &Tensor<D>, dx: &Tensor<D>) -> Tensor<D> {
    jacobian(p, dx)
}

fn jacobian<const D: usize>(p: &Tensor<D>, a: &Tensor<D>) -> Tensor<D> {
    let mean = (p.clone() * a.clone()).sum_dim(D - 1);
    p.clone() * (a.clone() - mean)
}
