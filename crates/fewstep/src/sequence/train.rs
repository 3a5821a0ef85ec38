//! The trainer: one loop for denoisers and for accelerations.
//!
//! A run is a directory: `run.json` (the setting), `model.safetensors` and `config.json` (the
//! averaged weights, in the layout of Hugging Face), `state.safetensors` (the training state) and
//! `metrics.jsonl`, with an event file for TensorBoard. Every draw is addressed by the number of its step, so a run that was killed and
//! resumed ends with the bits of one that was not.

mod look;
mod step;

use std::{
    cell::OnceCell,
    path::{Path as FilePath, PathBuf},
    time::{Duration, Instant},
};

use fewstep_ctmc::Path;
use fewstep_nn::{
    Adaptation, Learner, Network, TrainState, checkpoint,
    dit::{Config, Dit, Step},
    optim::{Averaging, Decay, FILE, MOMENTUM, Schedule, Settings, Trainable},
};
use serde_json::json;

use super::{
    Acceleration, Accelerator, Corpus, Denoiser, Matching, Optimizer, Prediction, RunError,
    Setting, Sizes, Use, average::Passes, metrics::Metrics, model::load,
};
use crate::{
    lab::Monitor,
    method::{dcd, di4c, dimo, law, redi::Coupling},
};

/// Steps between two lines of metrics.
const REPORT_EVERY: u64 = 50;

/// Where a rectification keeps its pairs.
const COUPLING: &str = "coupling";

/// What a network of a run leaves, and the evaluations of a mixture student.
type DenoiserPass = <Denoiser<Dit<f32>> as Network<f32>>::Pass;
type MixturePasses = di4c::Passes<DenoiserPass, DenoiserPass>;

/// A run in progress.
pub struct Trainer {
    dir: PathBuf,
    setting: Setting,
    path: Path,
    corpus: Corpus,
    network: Denoiser<Dit<f32>>,
    /// The denoiser that a full adaptation started from.
    frozen: Option<Denoiser<Dit<f32>>>,
    /// The pairs of a rectification, once they are made.
    coupling: Option<Coupling>,
    /// The times of a consistency distillation, or of a curriculum.
    clock: OnceCell<dcd::Clock>,
    adaptation: Adaptation,
    state: TrainState<f32>,
    /// The conditionals that law matching learns beside the kernel, or the denoiser that Di[M]O learns
    /// beside the generator.
    second: Option<Second>,
    /// The kernel with the average of its weights, which law matching follows, and its rate as a share of
    /// the highest.
    held: Option<(Denoiser<Dit<f32>>, f64)>,
    metrics: Metrics,
}

/// A second network in training.
struct Second {
    network: Denoiser<Dit<f32>>,
    state: TrainState<f32>,
}

/// What the steps of a run use again.
#[derive(Default)]
struct Work {
    passes: Passes<DenoiserPass>,
    mixture: MixturePasses,
    matching: law::Passes<DenoiserPass, <Dit<f32> as Network<f32>>::Pass>,
    generator: dimo::Passes<DenoiserPass, DenoiserPass>,
    /// The gradient of a second network.
    second: Vec<f32>,
    /// What law matching found, summed since the last line of metrics.
    found: Option<law::Found>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Steps taken in all.
    pub steps: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// The bound on the validation's negative log-likelihood a symbol, in nats, at rest.
    pub bound: f64,
    /// What the exact denoiser reaches on the same sequences, where the law of the data is known.
    /// Only masked and uniform-state chains reach the entropy: the Markov chain with the marginals
    /// of the uniform mixture path is not the mixture of its bridges.
    pub exact: Option<f64>,
    /// Seconds of training, over all interruptions.
    pub seconds: f64,
}

impl Trainer {
    /// A new run in `dir`, or the one there continued if `resume`.
    pub fn open(dir: &FilePath, setting: Setting, resume: bool) -> Result<Self, RunError> {
        let setting = setting.checked()?;
        let started = dir.join(FILE).exists();
        if started && !resume {
            return Err(RunError::Refused(format!(
                "{} holds a run; continue it with --resume or choose another directory",
                dir.display()
            )));
        }
        if started {
            let there = Setting::load(dir)?;
            if there != setting {
                return Err(RunError::Refused(format!(
                    "{} holds a run with another setting; give the same options, or another \
                     directory",
                    dir.display()
                )));
            }
        }
        let corpus = Corpus::open(&setting.data)?;
        // Too little data is found out now and not at the end.
        for what in [Use::Training(0, 0), Use::Validation] {
            corpus.sequences(what, 1, setting.sizes.length)?;
        }
        let seed = setting.optimization.seed;
        let (network, path, frozen, adaptation) = match &setting.acceleration {
            None => {
                let (network, path) = match &setting.start {
                    Some(start) => load(start, setting.chain, &corpus)?,
                    None => {
                        let path = setting.chain.path(corpus.symbols())?;
                        let config = Config {
                            positions: corpus.positions(),
                            ..setting.sizes.config(&path, corpus.labels())
                        };
                        (Dit::new(config, seed)?, path)
                    }
                };
                (network, path, None, Adaptation::Full)
            }
            Some(Acceleration { from, method }) => {
                let (base, path) = load(from, setting.chain, &corpus)?;
                if Setting::of(from)?.paired()?
                    && !matches!(method, Accelerator::Dag(_) | Accelerator::Redi { .. })
                {
                    return Err(RunError::Refused(format!(
                        "{} belongs to the pairs it was trained on, and {} does not train on them; \
                         use it before redi, not after",
                        from.display(),
                        method.name()
                    )));
                }
                let adaptation = method.adaptation();
                let frozen = (adaptation == Adaptation::Full).then(|| base.clone());
                let network = match method {
                    Accelerator::Dag(average) => {
                        let width = average.correction;
                        base.adapted(Step::Correction { width }, seed)?
                    }
                    Accelerator::Law(matching) => {
                        let width = matching.correction;
                        let whole = setting.sizes.length + corpus.given() + setting.carried;
                        let base = longer(base, whole)?;
                        match base.config().step {
                            Step::None => base.adapted(Step::Correction { width }, seed)?,
                            _ => base,
                        }
                    }
                    _ if base.config().step != Step::None => {
                        return Err(RunError::Refused(format!(
                            "{} has a correction, which {} does not know; start from what it \
                             corrects",
                            from.display(),
                            method.name()
                        )));
                    }
                    Accelerator::Di4c { carried, .. } | Accelerator::Dimo { carried, .. } => {
                        longer(base, setting.sizes.length + corpus.given() + carried)?
                    }
                    _ => base,
                };
                (network, path, frozen, adaptation)
            }
        };
        let meant = |network| Denoiser::new(network, setting.prediction, &path);
        let (network, frozen) = (meant(network), frozen.map(meant));
        let range = network.trainable(adaptation);
        let mut matrices = network.network.layout().matrices();
        matrices.retain(|m| range.start <= m.start && m.range().end <= range.end);
        let trainable = Trainable::new(network.parameters().len(), &[range])?;
        let state = if started {
            TrainState::load(dir)?
        } else {
            let averaging = Averaging {
                decay: setting.optimization.ema,
                warm_up: true,
            };
            let parameters = network.parameters().to_vec();
            let state =
                TrainState::new(seed, parameters, trainable, Settings::ADAM, Some(averaging));
            match setting.optimization.optimizer {
                Optimizer::Adam => state,
                Optimizer::Muon => state.orthogonalising(matrices, MOMENTUM)?,
            }
        };
        let method = setting.acceleration.as_ref().map(|a| &a.method);
        let second = match (method, &frozen) {
            (Some(Accelerator::Law(matching)), _) => {
                let sizes = Sizes {
                    length: setting.sizes.length,
                    ..matching.conditionals
                };
                let network = Dit::new(sizes.conditionals(&path, corpus.labels()), seed)?;
                Some(Denoiser::new(network, Prediction::Posterior, &path))
            }
            (Some(Accelerator::Dimo { .. }), Some(teacher)) => Some(teacher.clone()),
            _ => None,
        };
        let second = match second {
            Some(network) => {
                let all = Trainable::all(network.parameters().len());
                let parameters = network.parameters().to_vec();
                let state = match started {
                    true => state.load_second(dir)?,
                    false => TrainState::new(seed, parameters, all, Settings::ADAM, None),
                };
                Some(Second { network, state })
            }
            None => None,
        };
        let mut trainer = Self {
            dir: dir.to_path_buf(),
            setting,
            path,
            corpus,
            network,
            frozen,
            coupling: None,
            clock: OnceCell::new(),
            adaptation,
            metrics: Metrics::open(dir, state.step())?,
            state,
            second,
            held: None,
        };
        if let Some(Accelerator::Law(Matching { follow: true, .. })) = trainer.method() {
            trainer.held = Some((trainer.network.clone(), 0.0));
        }
        let fits =
            |state: &TrainState<f32>, parameters: usize| state.parameters().len() == parameters;
        let fits = fits(&trainer.state, trainer.network.parameters().len())
            && (trainer.second.iter()).all(|s| fits(&s.state, s.network.parameters().len()));
        if !fits {
            return Err(RunError::Refused(format!(
                "the training state in {} is of another network",
                dir.display()
            )));
        }
        trainer.follow();
        if !started {
            trainer.setting.save(dir)?;
            trainer.save()?;
        }
        Ok(trainer)
    }

    /// Trains to the end, or until the monitor says stop; what is done is saved every `saving`, and
    /// looked at every `every` steps: the bound, the residual of the identity, a few samples.
    pub fn run(
        mut self,
        monitor: &dyn Monitor,
        (saving, every): (Duration, u64),
    ) -> Result<Outcome, RunError> {
        let every = every.max(1);
        let o = self.setting.optimization;
        let mut schedule = Schedule::cosine(o.rate, o.warmup, o.steps);
        let mut second_schedule = schedule;
        match self.method() {
            Some(Accelerator::Law(matching)) => {
                let rise = (matching.rise * o.steps as f64) as u64;
                schedule = Schedule::cosine(o.rate, o.warmup.max(rise), o.steps);
                second_schedule = Schedule::cosine(matching.conditionals_rate, o.warmup, o.steps);
                if matching.follow {
                    second_schedule.decay = Decay::Cosine {
                        steps: o.steps,
                        floor: 0.3 * matching.conditionals_rate,
                    };
                }
            }
            Some(Accelerator::Dimo { denoiser_rate, .. }) => {
                second_schedule = Schedule::cosine(*denoiser_rate, o.warmup, o.steps);
            }
            _ => {}
        }
        let stage = match &self.setting.acceleration {
            None => format!("{} denoiser", self.setting.chain.name()),
            Some(acceleration) => {
                format!(
                    "{} {}",
                    self.setting.chain.name(),
                    acceleration.method.name()
                )
            }
        };
        let range = self.network.trainable(self.adaptation);
        let mut gradient = vec![0f32; self.network.parameters().len()];
        let mut work = Work::default();
        if !self.couple(monitor)? {
            return self.outcome(true);
        }
        let (mut sum, mut since, mut saved) = (0.0, Instant::now(), Instant::now());
        let mut counted = 0;
        monitor.begin(&stage, o.steps);
        while self.state.step() < o.steps && !monitor.stopped() {
            let step = self.state.step();
            if let Some((kernel, left)) = &mut self.held {
                kernel
                    .parameters_mut()
                    .copy_from_slice(&self.state.averaged());
                *left = schedule.rate(step) / schedule.peak;
            }
            let loss = self.one(step, &mut work, &mut gradient[range.clone()])?;
            let report = self.state.apply(&gradient, loss, &schedule, Some(o.clip))?;
            if let Some(second) = &mut self.second {
                let clip = Some(o.clip);
                second
                    .state
                    .apply(&work.second, loss, &second_schedule, clip)?;
            }
            self.follow();
            sum += loss;
            counted += 1;
            let done = step + 1;
            if done.is_multiple_of(REPORT_EVERY) || done == o.steps {
                let tokens = counted * (o.batch * self.setting.sizes.length) as u64;
                let seconds = since.elapsed().as_secs_f64();
                let mut line = json!({
                    "step": done,
                    "seconds": seconds,
                    "loss": sum / counted as f64,
                    "rate": report.rate,
                    "norm": report.norm,
                    "tokens_per_second": tokens as f64 / seconds,
                });
                if let Some(found) = work.found.take() {
                    // Their difference is how much easier the kernel's draws are to tell than data.
                    line["conditionals_made"] = json!(found.made / counted as f64);
                    if let Some(real) = found.real {
                        line["conditionals_real"] = json!(real / counted as f64);
                    }
                }
                self.metrics.add(line)?;
                (sum, counted, since) = (0.0, 0, Instant::now());
            }
            if done.is_multiple_of(every) && done < o.steps {
                self.look(done)?;
            }
            if saved.elapsed() >= saving {
                self.save()?;
                saved = Instant::now();
            }
            monitor.advance(&stage, done);
        }
        monitor.end(&stage);
        let stopped = self.state.step() < o.steps;
        self.save()?;
        self.outcome(stopped)
    }

    /// Brings the network to the state.
    fn follow(&mut self) {
        let parameters = self.network.parameters_mut();
        parameters.copy_from_slice(self.state.parameters());
        if let Some(Second { network, state }) = &mut self.second {
            network.parameters_mut().copy_from_slice(state.parameters());
        }
    }

    /// The method of an acceleration.
    fn method(&self) -> Option<&Accelerator> {
        let acceleration = self.setting.acceleration.as_ref();
        acceleration.map(|acceleration| &acceleration.method)
    }

    /// The averaged weights, then the state, which says how far the run is.
    fn save(&self) -> Result<(), RunError> {
        checkpoint::save(
            &self.dir,
            self.network.network.config(),
            &self.state.averaged(),
        )?;
        let second = self.second.as_ref().map(|second| &second.state);
        Ok(self.state.save_with(second, &self.dir)?)
    }
}

/// The network with room for sequences of `length`; angles have no weights, so none is new.
fn longer(network: Dit<f32>, length: usize) -> Result<Dit<f32>, RunError> {
    let config = Config {
        length: network.config().length.max(length),
        ..network.config().clone()
    };
    Ok(Dit::from_parameters(config, network.parameters().to_vec())?)
}
