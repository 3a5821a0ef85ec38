//! SiLU: `y = x s(x)` with `s(x) = 1 / (1 + exp(-x))`. Any shape.
//!
//! `y' = s (1 + x (1 - s))`. An entry depends on its own input alone, so backward and tangent both
//! multiply by `y'`.

use burn::tensor::Tensor;

/// `s(x)`. Written out: the sigmoid that burn gives a device without one of its own is f32.
fn sigmoid<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    (x.clone().neg().exp() + 1.0).recip()
}

/// `y = x s(x)`.
pub fn forward<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    x.clone() * sigmoid(x)
}

/// `y'`.
pub fn slope<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    let s = sigmoid(x);
    s.clone() * (x.clone() * (s.neg() + 1.0) + 1.0)
}

/// `gx = gy y'`.
pub fn backward<const D: usize>(x: &Tensor<D>, gy: &Tensor<D>) -> Tensor<D> {
    gy.clone() * slope(x)
}

/// `dy = dx y'`.
pub fn tangent<const D: usize>(x: &Tensor<D>, dx: &Tensor<D>) -> Tensor<D> {
    dx.clone() * slope(x)
}
