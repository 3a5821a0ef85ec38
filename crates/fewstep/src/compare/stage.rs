//! One training: an optimizer's state in a directory, from where it was to the end of its budget.

use std::{
    cell::RefCell,
    path::{Path as FilePath, PathBuf},
    time::{Duration, Instant},
};

use fewstep_nn::{
    Adaptation, Gradient, Learner, TrainState,
    optim::{Averaging, Decay, FILE, Schedule, Settings, Trainable},
};

use crate::{
    lab::{Metric, Monitor},
    method::Counted,
    sequence::RunError,
};

/// Time between two saved states.
const SAVING: Duration = Duration::from_secs(20);
/// Steps between two lines of metrics.
const REPORT_EVERY: u64 = 100;
/// The norm gradients are clipped to.
const CLIP: f64 = 1.0;

/// What is trained: its parameters in one row.
pub trait Trained {
    /// A copy of them.
    fn parameters(&self) -> Vec<f32>;
    /// Takes them back.
    fn set(&mut self, parameters: &[f32]);
    /// How many of them, the last, are a second network's, which has an optimizer of its own.
    fn second(&self) -> usize {
        0
    }
    /// Before a step: the average of the first network's weights, and its rate as a share of the highest.
    fn hold(&mut self, _averaged: &[f32], _rate: f64) {}
}

impl<N: Learner<f32>> Trained for Counted<N> {
    fn parameters(&self) -> Vec<f32> {
        Learner::parameters(self).to_vec()
    }

    fn set(&mut self, parameters: &[f32]) {
        self.parameters_mut().copy_from_slice(parameters);
    }
}

/// Two networks that are trained together.
impl<A: Trained, B: Trained> Trained for (A, B) {
    fn parameters(&self) -> Vec<f32> {
        [self.0.parameters(), self.1.parameters()].concat()
    }

    fn set(&mut self, parameters: &[f32]) {
        let (a, b) = parameters.split_at(self.0.parameters().len());
        self.0.set(a);
        self.1.set(b);
    }

    fn second(&self) -> usize {
        self.1.parameters().len()
    }
}

/// A training and where it is kept.
pub struct Stage {
    dir: PathBuf,
    seed: u64,
}

/// How a training is done.
pub struct Course<'a> {
    /// What it is called.
    pub name: String,
    /// Evaluations it may spend.
    pub budget: u64,
    /// The peak learning rate.
    pub rate: f64,
    /// That of a second network, and the share of the steps in which the first one's rate rises.
    pub second: (f64, f64),
    /// The share of its peak at which the second one's rate ends.
    pub floor: f64,
    /// The share of the old average of the first one's weights that is kept each step, if it is their
    /// average that is wanted.
    pub averaging: Option<f64>,
    /// Who watches.
    pub monitor: &'a dyn Monitor,
    /// What a step has to say, for the next line of metrics.
    pub said: RefCell<Option<serde_json::Value>>,
}

impl Stage {
    /// In `dir`.
    pub fn new(dir: &FilePath, seed: u64) -> Self {
        Self {
            dir: dir.to_path_buf(),
            seed,
        }
    }

    /// The parameters of a training that was kept whole with [`keep`](Self::keep).
    pub fn finished(&self) -> Result<Option<Vec<f32>>, RunError> {
        if !self.dir.join(FILE).exists() {
            return Ok(None);
        }
        Ok(Some(TrainState::load(&self.dir)?.parameters().to_vec()))
    }

    /// Keeps parameters that were trained elsewhere.
    pub fn keep(&self, parameters: &[f32]) -> Result<(), RunError> {
        Ok(self.fresh(parameters, None).save(&self.dir)?)
    }

    /// Refuses kept parameters that are not as many as a network has.
    pub fn check(&self, kept: usize, wanted: usize) -> Result<(), RunError> {
        if kept != wanted {
            return Err(RunError::Refused(format!(
                "the training state in {} is of another network",
                self.dir.display()
            )));
        }
        Ok(())
    }

    fn fresh(&self, parameters: &[f32], averaging: Option<f64>) -> TrainState<f32> {
        let all = Trainable::all(parameters.len());
        let averaging = averaging.map(|decay| Averaging {
            decay,
            warm_up: true,
        });
        TrainState::new(
            self.seed,
            parameters.to_vec(),
            all,
            Settings::ADAM,
            averaging,
        )
    }

    /// Trains to the end of the budget and says how many evaluations that took, unless stopped. `one`
    /// is the loss of a step and its gradient, `spent` the evaluations so far: a step's cost is
    /// counted on the first one, which is like all others.
    pub fn run<N: Trained>(
        &self,
        course: &Course,
        student: &mut N,
        spent: impl Fn(&N) -> u64,
        mut one: impl FnMut(&N, u64, &mut Gradient<f32>) -> f64,
    ) -> Result<Option<u64>, RunError> {
        let mut data = vec![0f32; student.parameters().len()];
        let mut step = |student: &N, number: u64, data: &mut [f32]| {
            let mut gradient = Gradient {
                data,
                adaptation: Adaptation::Full,
                accumulate: false,
            };
            one(student, number, &mut gradient)
        };
        let before = spent(student);
        step(student, 0, &mut data);
        let cost = (spent(student) - before).max(1);
        let steps = (course.budget / cost).max(1);
        let warm = (steps / 20).clamp(1, 100);
        let (second_rate, rise) = course.second;
        let rising = ((steps as f64 * rise) as u64).max(warm);
        let schedule = Schedule::cosine(course.rate, rising, steps);
        let second_schedule = Schedule {
            decay: Decay::Cosine {
                steps,
                floor: course.floor * second_rate,
            },
            ..Schedule::cosine(second_rate, warm, steps)
        };
        let begin = student.parameters();
        let (mine, other) = begin.split_at(begin.len() - student.second());
        let (mut state, mut second) = match self.dir.join(FILE).exists() {
            true => {
                let state = TrainState::load(&self.dir)?;
                let second = match other {
                    [] => None,
                    _ => Some(state.load_second(&self.dir)?),
                };
                (state, second)
            }
            false => {
                let second = (!other.is_empty()).then(|| self.fresh(other, None));
                (self.fresh(mine, course.averaging), second)
            }
        };
        self.check(state.parameters().len(), mine.len())?;
        let found = second.as_ref().map_or(0, |s| s.parameters().len());
        self.check(found, other.len())?;
        let first = mine.len();
        let set = |student: &mut N, mine: &[f32], second: &Option<TrainState<f32>>| {
            let second = second.as_ref().map_or(&[][..], TrainState::parameters);
            student.set(&[mine, second].concat());
        };
        set(student, state.parameters(), &second);
        let (mut saved, mut mean, mut counted) = (Instant::now(), 0.0, 0);
        course.monitor.begin(&course.name, steps);
        while state.step() < steps && !course.monitor.stopped() {
            let number = state.step();
            student.hold(&state.averaged(), schedule.rate(number) / schedule.peak);
            let loss = step(student, number, &mut data);
            let report = state.apply(&data[..first], loss, &schedule, Some(CLIP))?;
            if let Some(second) = &mut second {
                second.apply(&data[first..], loss, &second_schedule, Some(CLIP))?;
            }
            set(student, state.parameters(), &second);
            mean += loss;
            counted += 1;
            if state.step().is_multiple_of(REPORT_EVERY) {
                course.monitor.metric(&Metric {
                    stage: course.name.clone(),
                    seed: self.seed,
                    step: state.step(),
                    rate: report.rate,
                    loss: mean / f64::from(counted),
                    identity_residual: None,
                    more: course.said.take(),
                });
                (mean, counted) = (0.0, 0);
            }
            if saved.elapsed() >= SAVING {
                state.save_with(second.as_ref(), &self.dir)?;
                saved = Instant::now();
            }
            course.monitor.advance(&course.name, state.step());
        }
        course.monitor.end(&course.name);
        set(student, &state.averaged(), &second);
        state.save_with(second.as_ref(), &self.dir)?;
        Ok((state.step() >= steps).then_some(cost * steps))
    }
}
