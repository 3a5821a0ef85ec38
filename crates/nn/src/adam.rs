//! Adam with PyTorch's numerics and defaults, and a learning rate that falls along a cosine.

use crate::Real;

/// The optimizer's state over a flat parameter vector.
#[derive(Clone, Debug)]
pub struct Adam<T> {
    mean: Vec<T>,
    square: Vec<T>,
    step: u64,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

impl<T: Real> Adam<T> {
    /// A fresh state for `parameters` parameters.
    pub fn new(parameters: usize) -> Self {
        Self {
            mean: vec![T::of(0.0); parameters],
            square: vec![T::of(0.0); parameters],
            step: 0,
        }
    }

    /// One update with learning rate `rate`.
    pub fn update(&mut self, parameters: &mut [T], gradient: &[T], rate: f64) {
        assert_eq!(parameters.len(), gradient.len());
        self.step += 1;
        let steps = self.step.min(i32::MAX as u64) as i32;
        let rate = T::of(rate / (1.0 - BETA1.powi(steps)));
        let root = T::of((1.0 - BETA2.powi(steps)).sqrt().recip());
        let (b1, b2, eps) = (T::of(BETA1), T::of(BETA2), T::of(EPS));
        let (c1, c2) = (T::of(1.0 - BETA1), T::of(1.0 - BETA2));
        let (mean, square) = (&mut self.mean[..], &mut self.square[..]);
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                for (((p, g), m), v) in parameters
                    .iter_mut()
                    .zip(gradient)
                    .zip(mean.iter_mut())
                    .zip(square.iter_mut())
                {
                    *m = b1 * *m + c1 * *g;
                    *v = b2 * *v + c2 * *g * *g;
                    *p = *p - rate * *m / (v.sqrt() * root + eps);
                }
            },
        );
    }
}

/// The learning rate of step `step` (from 0) of `steps`: a linear warm-up, then a cosine to zero.
pub fn cosine_rate(peak: f64, warmup: u64, step: u64, steps: u64) -> f64 {
    let ramp = ((step + 1) as f64 / warmup.max(1) as f64).min(1.0);
    let progress = step as f64 / steps.max(1) as f64;
    peak * ramp * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three steps of torch.optim.Adam(lr=0.1) on two parameters with fixed gradients, worked by
    /// the definition in plain f64.
    #[test]
    fn three_steps_by_the_definition() {
        let gradients = [[0.5, -2.0], [0.1, 0.0], [-1.0, 3.0]];
        let mut adam = Adam::<f64>::new(2);
        let mut p = [1.0, -1.0];
        let mut expected = [1.0f64, -1.0];
        let (mut m, mut v) = ([0.0f64; 2], [0.0f64; 2]);
        for (k, g) in gradients.iter().enumerate() {
            adam.update(&mut p, g, 0.1);
            let n = (k + 1) as i32;
            for i in 0..2 {
                m[i] = 0.9 * m[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                let (mh, vh) = (
                    m[i] / (1.0 - 0.9f64.powi(n)),
                    v[i] / (1.0 - 0.999f64.powi(n)),
                );
                expected[i] -= 0.1 * mh / (vh.sqrt() + 1e-8);
            }
        }
        for i in 0..2 {
            assert!((p[i] - expected[i]).abs() < 1e-14, "{p:?} {expected:?}");
        }
    }

    #[test]
    fn the_rate_warms_up_and_falls_to_zero() {
        assert_eq!(cosine_rate(1.0, 10, 0, 100), 0.1);
        assert!(cosine_rate(1.0, 10, 50, 100) - 0.5 < 1e-12);
        assert!(cosine_rate(1.0, 10, 99, 100) < 0.001);
    }
}
