//! GELU: `y = x Phi(x)` with `Phi` the normal distribution function, exactly or by its old
//! approximation with a tanh. Any shape; the DiT uses the tanh form.
//!
//! ```text
//! exact   y = x/2 (1 + erf(x / sqrt 2))        y' = (1 + erf(x / sqrt 2)) / 2 + x phi(x)
//! tanh    y = x/2 (1 + tanh a)                 y' = (1 + tanh a) / 2 + x/2 (1 - tanh^2 a) a'
//!         a = sqrt(2/pi) (x + 0.044715 x^3)    a' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
//! ```
//!
//! with `phi(x) = exp(-x^2 / 2) / sqrt(2 pi)`. An entry depends on its own input alone, so backward
//! and tangent both multiply by `y'`.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::tensor::Tensor;

/// `sqrt(2 / pi)`.
const ROOT: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
/// The published fit, exact as written.
const CUBIC: f64 = 0.044_715;

/// The two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// With tanh, as in the DiT.
    Tanh,
    /// With the error function.
    Exact,
}

impl Gelu {
    /// `y`.
    pub fn forward<const D: usize>(self, x: &Tensor<D>) -> Tensor<D> {
        x.clone() * self.distribution(x)
    }

    /// `y'`.
    pub fn slope<const D: usize>(self, x: &Tensor<D>) -> Tensor<D> {
        let phi = self.distribution(x);
        let square = x.clone() * x.clone();
        let density = match self {
            // d/dx (1 + tanh a) / 2 = (1 - tanh^2 a) a' / 2, and with phi = (1 + tanh a) / 2
            // the bracket is 4 phi (1 - phi).
            Self::Tanh => {
                let slope = (square * (3.0 * CUBIC) + 1.0) * ROOT;
                phi.clone() * (phi.clone().neg() + 1.0) * 2.0 * slope
            }
            Self::Exact => (square * -0.5).exp() * (ROOT / 2.0),
        };
        phi + x.clone() * density
    }

    /// `gx = gy y'`.
    pub fn backward<const D: usize>(self, x: &Tensor<D>, gy: &Tensor<D>) -> Tensor<D> {
        gy.clone() * self.slope(x)
    }

    /// `dy = dx y'`.
    pub fn tangent<const D: usize>(self, x: &Tensor<D>, dx: &Tensor<D>) -> Tensor<D> {
        dx.clone() * self.slope(x)
    }

    /// `Phi(x)` or its approximation.
    fn distribution<const D: usize>(self, x: &Tensor<D>) -> Tensor<D> {
        let odd = match self {
            Self::Tanh => {
                let cube = x.clone() * x.clone() * x.clone();
                ((x.clone() + cube * CUBIC) * ROOT).tanh()
            }
            Self::Exact => (x.clone() * FRAC_1_SQRT_2).erf(),
        };
        (odd + 1.0) * 0.5
    }
}
