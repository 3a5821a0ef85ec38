//! Features of a number: `concat(cos(s f_j), sin(s f_j))`, `f_j = exp(-ln(10000) j / half)`,
//! `j = 0 .. half-1`, half the features each.
//!
//! `s [B]`, `y [B, F]`. Frequencies from 1 down to nearly 1e-4 let a linear map see both the
//! number and small changes of it. Cosines come first, and `s` is not scaled, as in the published
//! models. A number given from outside has no gradient, so there is no backward.

use burn::tensor::{Tensor, TensorData};

/// Ratio of the largest frequency to the (missing) last one.
pub const PERIOD: f64 = 10_000.0;

/// `f [1, half]`, of the precision and on the device of `like`.
fn frequencies(features: usize, like: &Tensor<1>) -> Tensor<2> {
    let half = features / 2;
    let values: Vec<f64> = (0..half)
        .map(|j| (-PERIOD.ln() * j as f64 / half as f64).exp())
        .collect();
    let data = TensorData::new(values, [1, half]);
    Tensor::from_data(data, (&like.device(), like.dtype()))
}

/// `y = concat(cos(s f), sin(s f))`.
pub fn forward(s: &Tensor<1>, features: usize) -> Tensor<2> {
    let angle = s.clone().unsqueeze_dim::<2>(1) * frequencies(features, s);
    Tensor::cat(vec![angle.clone().cos(), angle.sin()], 1)
}

/// `dy = concat(-sin(s f), cos(s f)) f ds`.
pub fn tangent(s: &Tensor<1>, ds: &Tensor<1>, features: usize) -> Tensor<2> {
    let f = frequencies(features, s);
    let angle = s.clone().unsqueeze_dim::<2>(1) * f.clone();
    let speed = ds.clone().unsqueeze_dim::<2>(1) * f;
    Tensor::cat(
        vec![
            angle.clone().sin().neg() * speed.clone(),
            angle.cos() * speed,
        ],
        1,
    )
}
