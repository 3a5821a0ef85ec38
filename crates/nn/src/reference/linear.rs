//! Linear layer: `y = x W^T + b`.
//!
//! `x [N, I]`, `W [O, I]`, `b [O]`, `y [N, O]`. The weight is stored as the published checkpoints
//! have it, one row per output.

use burn::tensor::Tensor;

/// `y = x W^T + b`, without `b` where there is none.
pub fn forward(x: &Tensor<2>, weight: &Tensor<2>, bias: Option<&Tensor<1>>) -> Tensor<2> {
    let y = x.clone().matmul(weight.clone().transpose());
    match bias {
        Some(bias) => y + bias.clone().unsqueeze(),
        None => y,
    }
}

/// `gx = gy W`, `gW = gy^T x`, `gb_o = sum_n gy_no`.
pub fn backward(
    x: &Tensor<2>,
    weight: &Tensor<2>,
    gy: &Tensor<2>,
) -> (Tensor<2>, Tensor<2>, Tensor<1>) {
    let gx = gy.clone().matmul(weight.clone());
    let gw = gy.clone().transpose().matmul(x.clone());
    let gb = gy.clone().sum_dim(0).squeeze_dim(0);
    (gx, gw, gb)
}

/// `dy = dx W^T`: the parameters do not move with `t`.
pub fn tangent(weight: &Tensor<2>, dx: &Tensor<2>) -> Tensor<2> {
    forward(dx, weight, None)
}
