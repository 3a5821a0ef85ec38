//! A running average of the weights, which samples better than the weights themselves.
//!
//! At update `n = 1, 2, ...` with the weights `w`, as `torch_ema` and DUO do it:
//!
//! ```text
//! d <- min(decay, (1 + n)/(10 + n))      or d <- decay without the warm-up
//! shadow <- shadow - (1 - d) (shadow - w)
//! ```
//!
//! The warm-up forgets the initial weights quickly. Frozen weights are their own average and have
//! no shadow.

use rayon::prelude::*;

use super::Trainable;
use crate::{Error, Real};

/// How weights are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaging {
    /// How much of the average is kept in a step.
    pub decay: f64,
    /// Whether less of it is kept in the first steps.
    pub warm_up: bool,
}

impl Averaging {
    /// Whether an average can be had with these.
    pub fn check(&self) -> Result<(), Error> {
        if (0.0..=1.0).contains(&self.decay) {
            return Ok(());
        }
        let decay = self.decay;
        Err(Error::Config(format!(
            "the average's decay is {decay}; it must be in [0, 1]"
        )))
    }
}

/// The setting of MDLM and DUO: 0.9999, with the warm-up.
impl Default for Averaging {
    fn default() -> Self {
        Self {
            decay: 0.9999,
            warm_up: true,
        }
    }
}

/// The average of the trained weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Ema<T> {
    pub(super) averaging: Averaging,
    pub(super) trainable: Trainable,
    /// The average, packed.
    pub(super) shadow: Vec<T>,
    pub(super) updates: u64,
}

impl<T: Real> Ema<T> {
    /// An average that starts at these weights.
    pub fn new(parameters: &[T], trainable: &Trainable, averaging: Averaging) -> Self {
        Self {
            averaging,
            shadow: trainable.pack(parameters),
            trainable: trainable.clone(),
            updates: 0,
        }
    }

    /// How the weights are averaged.
    pub fn averaging(&self) -> &Averaging {
        &self.averaging
    }

    /// Takes the weights after a step into the average.
    pub fn update(&mut self, parameters: &[T]) {
        self.updates += 1;
        let Averaging { decay, warm_up } = self.averaging;
        let n = self.updates as f64;
        let early = if warm_up { (1.0 + n) / (10.0 + n) } else { 1.0 };
        let share = T::of(1.0 - decay.min(early));
        let shadows = self.trainable.packed_pieces_mut(&mut self.shadow);
        let work: Vec<_> = shadows
            .into_iter()
            .zip(self.trainable.pieces(parameters))
            .collect();
        work.into_par_iter().for_each(|(shadow, weights)| {
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    for (s, w) in shadow.iter_mut().zip(weights) {
                        *s = *s - share * (*s - *w);
                    }
                },
            );
        });
    }

    /// Puts the average in the place of the trained weights.
    pub fn write_to(&self, parameters: &mut [T]) {
        self.trainable.unpack(&self.shadow, parameters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(averaging: Averaging) -> Vec<f64> {
        let mut ema = Ema::new(&[1.0], &Trainable::all(1), averaging);
        let step = |w: &f64| {
            ema.update(&[*w]);
            ema.shadow[0]
        };
        [0.0, 0.0, 2.0].iter().map(step).collect()
    }

    #[test]
    fn the_first_updates_keep_less() {
        let averaging = Averaging::default();
        let expected: [f64; 2] = [2.0 / 11.0, 2.0 / 11.0 * 3.0 / 12.0];
        let values = follow(averaging);
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-15, "{values:?}");
        }
        let last = expected[1] * 4.0 / 13.0 + 2.0 * 9.0 / 13.0;
        assert!((values[2] - last).abs() < 1e-15, "{values:?}");
    }

    #[test]
    fn without_the_warm_up_the_decay_is_constant() {
        let averaging = Averaging {
            decay: 0.75,
            warm_up: false,
        };
        assert_eq!(follow(averaging), [0.75, 0.5625, 0.75 * 0.5625 + 0.5]);
    }

    #[test]
    fn frozen_weights_are_left_as_they_are() {
        let some = Trainable::new(4, &[1..2, 2..3]).unwrap();
        let mut ema = Ema::new(&[1.0f32; 4], &some, Averaging::default());
        ema.update(&[f32::NAN, 2.0, 3.0, f32::NAN]);
        let mut weights = [9.0; 4];
        ema.write_to(&mut weights);
        assert_eq!((weights[0], weights[3]), (9.0, 9.0));
        assert!(weights[1] > 1.8 && weights[2] > 2.6, "{weights:?}");
        assert!(
            Averaging {
                decay: 1.1,
                warm_up: true
            }
            .check()
            .is_err()
        );
    }
}
