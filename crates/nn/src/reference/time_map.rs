//! From a number to a conditioning vector: sinusoid, linear, SiLU, linear.
//!
//! ```text
//! f = sinusoid(s)      a = f W0^T + b0      y = silu(a) W2^T + b2
//! ```
//!
//! `s [B]`, `f [B, F]`, `a, y [B, E]`. One such map reads the time (`sigma_map`), another, where
//! there is one, the length `r - t` of the step (`step_map`).

use burn::tensor::Tensor;

use super::{Gradient, Parameters, silu, sinusoid};
use crate::dit::{Affine, FEATURES};

/// What the forward pass keeps.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The numbers.
    pub s: Tensor<1>,
    /// `f`.
    pub features: Tensor<2>,
    /// `a`.
    pub hidden: Tensor<2>,
}

/// `y`.
pub fn forward(p: &Parameters, map: &[Affine; 2], s: &Tensor<1>) -> (Tensor<2>, Kept) {
    let features = sinusoid::forward(s, FEATURES);
    let hidden = p.forward(&map[0], &features);
    let y = p.forward(&map[1], &silu::forward(&hidden));
    let kept = Kept {
        s: s.clone(),
        features,
        hidden,
    };
    (y, kept)
}

/// The gradients of the two layers; the numbers come from outside and need none.
pub fn backward(
    p: &Parameters,
    map: &[Affine; 2],
    kept: &Kept,
    gy: &Tensor<2>,
    gradient: &mut Gradient,
) {
    let gactivation = p.backward(&map[1], &silu::forward(&kept.hidden), gy, gradient);
    let ghidden = silu::backward(&kept.hidden, &gactivation);
    p.backward(&map[0], &kept.features, &ghidden, gradient);
}

/// `dy`, from `ds`.
pub fn tangent(p: &Parameters, map: &[Affine; 2], kept: &Kept, ds: &Tensor<1>) -> Tensor<2> {
    let dfeatures = sinusoid::tangent(&kept.s, ds, FEATURES);
    let dhidden = p.tangent(&map[0], &dfeatures);
    p.tangent(&map[1], &silu::tangent(&kept.hidden, &dhidden))
}
