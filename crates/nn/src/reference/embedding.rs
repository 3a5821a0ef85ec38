//! Embedding: row `n` of the output is row `id_n` of a table.
//!
//! `table [V, C]`, `ids [N]`, `y [N, C]`. The same as a linear layer on one-hot rows, without the
//! zeros. The ids do not move with `t`, so the tangent of the output is zero.

use burn::tensor::{IndexingUpdateOp, Int, Tensor};

/// `y_n = table_{id_n}`.
pub fn forward(table: &Tensor<2>, ids: &Tensor<1, Int>) -> Tensor<2> {
    table.clone().select(0, ids.clone())
}

/// `gtable_v = sum over n with id_n = v of gy_n`.
pub fn backward(table: &Tensor<2>, ids: &Tensor<1, Int>, gy: &Tensor<2>) -> Tensor<2> {
    table
        .zeros_like()
        .select_assign(0, ids.clone(), gy.clone(), IndexingUpdateOp::Add)
}

/// `dy = 0`.
pub fn tangent(y: &Tensor<2>) -> Tensor<2> {
    y.zeros_like()
}
