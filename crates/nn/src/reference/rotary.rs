//! Rotary positions: query and key are turned by an angle that grows with the position, so that
//! their product depends on the distance of two positions alone.
//!
//! Channel `j < d/2` of a head is paired with channel `j + d/2` (the half-split layout of
//! GPT-NeoX, not neighbours), and at position `l = 0 .. L-1` the pair is turned by `a = l f_j`,
//! `f_j = 10000^(-2j/d)`:
//!
//! ```text
//! y_j       = x_j cos a - x_{j+d/2} sin a
//! y_{j+d/2} = x_j sin a + x_{j+d/2} cos a
//! ```
//!
//! `x, y [B, H, L, d]`. The map is linear and orthogonal: the tangent is turned like the value,
//! and backward turns by `-a`.

use burn::tensor::{Tensor, TensorData};

/// Base of the frequencies.
pub const BASE: f64 = 10_000.0;

/// `y`, each pair turned by its angle.
pub fn forward(x: &Tensor<4>) -> Tensor<4> {
    rotate(x, 1.0)
}

/// `gx`, each pair turned back.
pub fn backward(gy: &Tensor<4>) -> Tensor<4> {
    rotate(gy, -1.0)
}

/// `dy`, turned like the value.
pub fn tangent(dx: &Tensor<4>) -> Tensor<4> {
    rotate(dx, 1.0)
}

fn rotate(x: &Tensor<4>, sign: f64) -> Tensor<4> {
    let [.., l, d] = x.dims();
    let half = d / 2;
    // The angles are computed in f64: at long distances f32 would lose digits of `l f_j`.
    let table = |f: fn(f64) -> f64| -> Tensor<4> {
        let values: Vec<f64> = (0..l * half)
            .map(|i| {
                let (l, j) = (i / half, i % half);
                f(l as f64 * BASE.powf(-(j as f64) / half as f64))
            })
            .collect();
        let data = TensorData::new(values, [1, 1, l, half]);
        Tensor::from_data(data, (&x.device(), x.dtype()))
    };
    let (cos, sin) = (table(f64::cos), table(f64::sin) * sign);
    let first = x.clone().narrow(3, 0, half);
    let second = x.clone().narrow(3, half, half);
    Tensor::cat(
        vec![
            first.clone() * cos.clone() - second.clone() * sin.clone(),
            first * sin + second * cos,
        ],
        3,
    )
}
