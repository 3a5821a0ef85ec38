//! AdamW with PyTorch's numerics and defaults.
//!
//! In step `n`, with the gradient `g` (already times the clip factor) and the rate `lr`:
//!
//! ```text
//! p <- p (1 - lr weight_decay)
//! m <- beta1 m + (1 - beta1) g
//! v <- beta2 v + (1 - beta2) g^2
//! p <- p - lr / (1 - beta1^n) m / (sqrt(v) / sqrt(1 - beta2^n) + eps)
//! ```
//!
//! With `weight_decay = 0` this is Adam. The factors are worked out in f64, the state has the
//! parameters' precision.

use rayon::prelude::*;

use super::Trainable;
use crate::{Error, Real};

/// What does not change from step to step. The default is PyTorch's `torch.optim.AdamW`, whose
/// learning rate is that of the default [`Schedule`](super::Schedule).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much of the mean of the gradients is kept in a step.
    pub beta1: f64,
    /// How much of the mean of their squares is kept in a step.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub eps: f64,
    /// The part of a parameter that is lost in a step, per unit of the learning rate.
    pub weight_decay: f64,
}

impl Settings {
    /// `torch.optim.Adam`: no weight decay.
    pub const ADAM: Self = Self {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
    };

    /// Whether an optimizer can work with these.
    pub fn check(&self) -> Result<(), Error> {
        let share = |name, value: f64| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} is {value}; it must be in [0, 1)")),
        };
        let size = |name, value: f64| match value >= 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(format!(
                "{name} is {value}; it must be finite and not negative"
            )),
        };
        share("beta1", self.beta1)
            .and_then(|()| share("beta2", self.beta2))
            .and_then(|()| size("eps", self.eps))
            .and_then(|()| size("weight_decay", self.weight_decay))
            .map_err(Error::Config)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            weight_decay: 1e-2,
            ..Self::ADAM
        }
    }
}

/// The optimizer's state over a flat parameter vector.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW<T> {
    pub(super) settings: Settings,
    pub(super) trainable: Trainable,
    /// Means of the gradients, packed.
    pub(super) mean: Vec<T>,
    /// Means of their squares, packed.
    pub(super) square: Vec<T>,
    pub(super) updates: u64,
}

/// The factors of one update.
#[derive(Clone, Copy)]
struct Factors<T> {
    keep: T,
    scale: T,
    beta1: T,
    beta2: T,
    /// `1 - beta1`, `1 - beta2`.
    new1: T,
    new2: T,
    /// `lr / (1 - beta1^n)`.
    rate: T,
    /// `1 / sqrt(1 - beta2^n)`.
    root: T,
    eps: T,
}

impl<T: Real> AdamW<T> {
    /// A fresh state for all of `parameters` parameters.
    pub fn new(parameters: usize, settings: Settings) -> Self {
        Self::restricted(Trainable::all(parameters), settings)
    }

    /// A fresh state for the trained parameters alone; the others never change.
    pub fn restricted(trainable: Trainable, settings: Settings) -> Self {
        let count = trainable.count();
        Self {
            settings,
            trainable,
            mean: vec![T::of(0.0); count],
            square: vec![T::of(0.0); count],
            updates: 0,
        }
    }

    /// The hyper-parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is trained.
    pub fn trainable(&self) -> &Trainable {
        &self.trainable
    }

    /// One update with learning rate `rate`. Both slices are of all parameters.
    pub fn update(&mut self, parameters: &mut [T], gradient: &[T], rate: f64) {
        self.update_scaled(parameters, gradient, rate, 1.0);
    }

    /// One update with `scale` times the gradient, which is read once: [`super::clip`] gives the
    /// scale.
    pub fn update_scaled(&mut self, parameters: &mut [T], gradient: &[T], rate: f64, scale: f64) {
        self.updates += 1;
        let factors = self.factors(rate, scale);
        let work: Vec<_> = self
            .trainable
            .pieces_mut(parameters)
            .into_iter()
            .zip(self.trainable.pieces(gradient))
            .zip(self.trainable.packed_pieces_mut(&mut self.mean))
            .zip(self.trainable.packed_pieces_mut(&mut self.square))
            .collect();
        work.into_par_iter()
            .for_each(|(((p, g), m), v)| update_piece(factors, p, g, m, v));
    }

    fn factors(&self, rate: f64, scale: f64) -> Factors<T> {
        let Settings {
            beta1,
            beta2,
            eps,
            weight_decay,
        } = self.settings;
        let n = self.updates.min(i32::MAX as u64) as i32;
        Factors {
            keep: T::of(1.0 - rate * weight_decay),
            scale: T::of(scale),
            beta1: T::of(beta1),
            beta2: T::of(beta2),
            new1: T::of(1.0 - beta1),
            new2: T::of(1.0 - beta2),
            rate: T::of(rate / (1.0 - beta1.powi(n))),
            root: T::of((1.0 - beta2.powi(n)).sqrt().recip()),
            eps: T::of(eps),
        }
    }
}

fn update_piece<T: Real>(f: Factors<T>, p: &mut [T], g: &[T], m: &mut [T], v: &mut [T]) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let state = m.iter_mut().zip(v.iter_mut());
            for ((p, g), (m, v)) in p.iter_mut().zip(g).zip(state) {
                let g = f.scale * *g;
                *m = settled(f.beta1 * *m + f.new1 * g);
                *v = settled(f.beta2 * *v + f.new2 * g * g);
                *p = f.keep * *p - f.rate * *m / (v.sqrt() * f.root + f.eps);
            }
        },
    );
}

/// A moment, or zero where it is too small to move a weight: the moments of weights without a
/// gradient would fade out of the format's normal range, where the machine is very slow.
#[inline(always)]
fn settled<T: Real>(moment: T) -> T {
    let tiny = T::of(1e-34);
    if moment > tiny || moment < -tiny {
        moment
    } else {
        T::of(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three steps of torch.optim.Adam(lr=0.1) on two parameters with fixed gradients, worked by
    /// the definition in plain f64.
    #[test]
    fn three_steps_by_the_definition() {
        let gradients = [[0.5, -2.0], [0.1, 0.0], [-1.0, 3.0]];
        let mut adam = AdamW::<f64>::new(2, Settings::ADAM);
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

    /// Pieces, vectors and the factors of one change nothing: the plain loop gives the same bits.
    #[test]
    fn adam_is_the_plain_loop_bit_for_bit() {
        let size = 40_000;
        let start = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 64.0;
        let mut p: Vec<f32> = (0..size).map(start).collect();
        let mut expected = p.clone();
        let (mut m, mut v) = (vec![0.0f32; size], vec![0.0f32; size]);
        let mut adam = AdamW::new(size, Settings::ADAM);
        for n in 1..=5 {
            let g: Vec<f32> = (0..size)
                .map(|i| (i as f32 * 0.1 + n as f32).sin())
                .collect();
            adam.update(&mut p, &g, 3e-4);
            let rate = (3e-4 / (1.0 - 0.9f64.powi(n))) as f32;
            let root = (1.0 - 0.999f64.powi(n)).sqrt().recip() as f32;
            let (new1, new2) = ((1.0 - 0.9f64) as f32, (1.0 - 0.999f64) as f32);
            for i in 0..size {
                m[i] = 0.9 * m[i] + new1 * g[i];
                v[i] = 0.999 * v[i] + new2 * g[i] * g[i];
                expected[i] -= rate * m[i] / (v[i].sqrt() * root + 1e-8);
            }
            assert_eq!(p, expected, "step {n}");
        }
    }

    #[test]
    fn what_is_frozen_stays_and_what_is_trained_goes_as_before() {
        let size = 50;
        let some = Trainable::new(size, &[3..10, 40..50]).unwrap();
        let mut head = AdamW::<f64>::restricted(some.clone(), Settings::default());
        let mut all = AdamW::<f64>::new(size, Settings::default());
        assert_eq!(head.mean.len(), 17);
        let start: Vec<f64> = (0..size).map(|i| (i as f64).cos()).collect();
        let (mut p, mut q) = (start.clone(), start.clone());
        for n in 0..4 {
            let mut g: Vec<f64> = (0..size).map(|i| ((i + n) as f64).sin()).collect();
            all.update_scaled(&mut q, &g, 0.01, 0.5);
            // Not even read: its gradient may be anything.
            g[20] = f64::NAN;
            head.update_scaled(&mut p, &g, 0.01, 0.5);
        }
        let mut expected = start;
        some.unpack(&some.pack(&q), &mut expected);
        assert_eq!(p, expected);
    }

    #[test]
    fn wrong_settings_are_named() {
        assert!(Settings::default().check().is_ok());
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(with(|s| s.beta2 = 1.0), "beta2 is 1; it must be in [0, 1)");
        assert!(with(|s| s.eps = f64::NAN).starts_with("eps is NaN"));
        assert!(with(|s| s.weight_decay = -0.1).starts_with("weight_decay is -0.1"));
    }
}
