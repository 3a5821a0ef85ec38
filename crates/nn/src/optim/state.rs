//! Everything a training run needs to go on, and one step of it.
//!
//! A state is [saved](TrainState::save) to one file and read back bit for bit, so a run that was
//! killed and resumed ends with the bits of one that was not, as long as a step's data depend on
//! the seed and the step alone (`fewstep_ctmc::random`).
//!
//! A gradient over several micro-batches is the caller's sum: each is scaled by its share of all
//! rows where the loss is taken, and added.

use super::{
    AdamW, Averaging, Ema, Matrix, Muon, NonFiniteNorm, Schedule, Settings, Trainable, clip,
};
use crate::{Error, Real};

/// The state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState<T> {
    pub(super) step: u64,
    pub(super) seed: u64,
    pub(super) parameters: Vec<T>,
    pub(super) trainable: Trainable,
    /// Of what no other optimizer trains.
    pub(super) optimizer: AdamW<T>,
    /// Of matrices, if they have their own.
    pub(super) muon: Option<Muon<T>>,
    pub(super) ema: Option<Ema<T>>,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The step, counted from 0.
    pub step: u64,
    /// Its learning rate.
    pub rate: f64,
    /// The norm of the gradient before it was clipped.
    pub norm: f64,
    /// What the gradient was multiplied by.
    pub scale: f64,
}

/// A step that was not taken, because its numbers are not finite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "in step {step} {what}; the state is left as it was before the step. Lower the learning rate, \
     clip the gradient to a smaller norm, or look at the data of that step"
)]
pub struct NonFinite {
    /// The step, counted from 0.
    pub step: u64,
    /// What was not finite.
    pub what: Quantity,
}

/// What can be not finite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Quantity {
    /// The loss, with its value.
    #[error("the loss is {0}")]
    Loss(f64),
    /// The gradient.
    #[error(transparent)]
    Gradient(NonFiniteNorm),
}

impl<T: Real> TrainState<T> {
    /// The state before the first step; with `averaging`, an average of the weights is kept.
    pub fn new(
        seed: u64,
        parameters: Vec<T>,
        trainable: Trainable,
        settings: Settings,
        averaging: Option<Averaging>,
    ) -> Self {
        assert_eq!(parameters.len(), trainable.total(), "parameters");
        let ema = averaging.map(|averaging| Ema::new(&parameters, &trainable, averaging));
        Self {
            step: 0,
            seed,
            parameters,
            optimizer: AdamW::restricted(trainable.clone(), settings),
            trainable,
            muon: None,
            ema,
        }
    }

    /// The same with these trained matrices left to [`Muon`], before the first step.
    pub fn orthogonalising(mut self, matrices: Vec<Matrix>, beta: f64) -> Result<Self, Error> {
        assert_eq!(self.step, 0, "before the first step");
        let muon = Muon::new(self.parameters.len(), matrices, beta)?;
        let rest = self.trainable.without(muon.trainable.ranges())?;
        self.optimizer = AdamW::restricted(rest, self.optimizer.settings);
        self.muon = Some(muon);
        Ok(self)
    }

    /// Steps taken: the number of the next one, counted from 0.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The run's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// All parameters, frozen ones included.
    pub fn parameters(&self) -> &[T] {
        &self.parameters
    }

    /// All parameters, to change those that no gradient moves.
    pub fn parameters_mut(&mut self) -> &mut [T] {
        &mut self.parameters
    }

    /// The optimizer of what is not left to another.
    pub fn optimizer(&self) -> &AdamW<T> {
        &self.optimizer
    }

    /// The average of the weights, if one is kept.
    pub fn ema(&self) -> Option<&Ema<T>> {
        self.ema.as_ref()
    }

    /// All parameters with the average in the place of the trained ones, if one is kept.
    pub fn averaged(&self) -> Vec<T> {
        let mut parameters = self.parameters.clone();
        if let Some(ema) = &self.ema {
            ema.write_to(&mut parameters);
        }
        parameters
    }

    /// Takes one step along `gradient`, of all parameters, clipped to `max_norm` if there is one.
    ///
    /// If `loss` or the gradient is not finite, nothing changes.
    pub fn apply(
        &mut self,
        gradient: &[T],
        loss: f64,
        schedule: &Schedule,
        max_norm: Option<f64>,
    ) -> Result<StepReport, NonFinite> {
        let step = self.step;
        if !loss.is_finite() {
            let what = Quantity::Loss(loss);
            return Err(NonFinite { step, what });
        }
        let norm = clip::norm(gradient, &self.trainable).map_err(|norm| NonFinite {
            step,
            what: Quantity::Gradient(norm),
        })?;
        let rate = schedule.rate(step);
        let scale = max_norm.map_or(1.0, |max| clip::clip_factor(norm, max));
        self.optimizer
            .update_scaled(&mut self.parameters, gradient, rate, scale);
        if let Some(muon) = &mut self.muon {
            muon.update_scaled(&mut self.parameters, gradient, rate, scale);
        }
        if let Some(ema) = &mut self.ema {
            ema.update(&self.parameters);
        }
        self.step += 1;
        Ok(StepReport {
            step,
            rate,
            norm,
            scale,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> TrainState<f32> {
        let some = Trainable::new(4, &[1..2, 2..4]).unwrap();
        let averaging = Some(Averaging::default());
        TrainState::new(7, vec![1.0; 4], some, Settings::default(), averaging)
    }

    #[test]
    fn a_step_clips_updates_and_averages() {
        let mut state = state();
        let schedule = Schedule::cosine(0.1, 2, 10);
        let gradient = [100.0, 3.0, 0.0, -4.0];
        let report = state.apply(&gradient, 0.5, &schedule, Some(1.0)).unwrap();
        assert_eq!((report.step, report.norm), (0, 5.0));
        assert_eq!(report.rate, 0.05);
        assert_eq!(report.scale, 1.0 / 5.000001);
        assert_eq!(state.step(), 1);
        let p = state.parameters();
        assert!(p[0] == 1.0 && p[1] < 0.96 && p[3] > 1.04, "{p:?}");
        let average = state.averaged();
        assert!(average[0] == 1.0 && average[1] > p[1] && average[1] < 1.0);
        let free = state.apply(&gradient, 0.5, &schedule, None).unwrap();
        assert_eq!((free.step, free.scale), (1, 1.0));
    }

    #[test]
    fn what_is_not_finite_changes_nothing() {
        let mut state = state();
        let schedule = Schedule::default();
        state.apply(&[0.1; 4], 1.0, &schedule, None).unwrap();
        let before = state.clone();
        let loss = state.apply(&[0.1; 4], f64::NAN, &schedule, None);
        let message = loss.unwrap_err().to_string();
        assert!(
            message.starts_with("in step 1 the loss is NaN; "),
            "{message}"
        );
        assert!(message.contains("Lower the learning rate"), "{message}");
        let gradient = [0.1, f32::INFINITY, 0.1, 0.1];
        let error = state.apply(&gradient, 1.0, &schedule, Some(1.0));
        let message = error.unwrap_err().to_string();
        let start = "in step 1 the gradient's norm is inf, first at parameter 1; ";
        assert!(message.starts_with(start), "{message}");
        assert_eq!(state, before);
        // Frozen entries have no say.
        let gradient = [f32::NAN, 0.1, 0.1, 0.1];
        assert!(state.apply(&gradient, 1.0, &schedule, Some(1.0)).is_ok());
    }
}
