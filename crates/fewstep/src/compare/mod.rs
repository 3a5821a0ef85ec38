//! Every method on the same base, with the same budget, measured exactly.
//!
//! On an enumerable target a denoiser is trained once a seed. Each [`Combination`] of methods then
//! starts from it and may spend the same number of network evaluations, counted and not assumed;
//! those that chain several methods share it between them. The law of every sampler is computed by
//! enumeration, as in the [`lab`](crate::lab).
//!
//! ```text
//! plan -> base (once a seed) -> link -> link -> ... -> evaluate -> report
//!                                (TrainState on disk)   (exact)
//! ```
//!
//! What is on disk is not done again: the training states of every link, and what was measured.

mod evaluate;
mod link;
mod matching;
mod plan;
mod report;
mod stage;

pub use crate::method::Method;
pub use plan::{Combination, Plan};

use std::{path::Path as FilePath, time::Instant};

use fewstep_ctmc::Chain;
use fewstep_nn::Conditioned;
use serde::{Deserialize, Serialize};

use crate::{
    lab::{Config, Monitor, base},
    report::Report,
    sequence::{RunError, json},
};
use evaluate::{Exact, Measured};
use link::Student;
use stage::Stage;

/// What was found of one combination with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Outcome {
    method: String,
    seed: u64,
    /// Network evaluations that training took.
    evaluations: u64,
    seconds: f64,
    /// `E_{x_0} TC(x_1 | x_0)` of the sampler with the most steps, in nats, where it is known.
    conditional_correlation: Option<f64>,
    points: Vec<Measured>,
}

/// What the trainings of one seed share.
struct Context<'a> {
    plan: &'a Plan,
    config: &'a Config,
    chain: &'a Chain,
    seed: u64,
    exact: &'a Exact<'a>,
    dir: &'a FilePath,
    monitor: &'a dyn Monitor,
}

/// Carries out what is missing of a plan in `dir`. If it is stopped, the report says that it is
/// partial.
pub fn run(
    dir: &FilePath,
    plan: &Plan,
    resume: bool,
    monitor: &dyn Monitor,
) -> Result<Report, RunError> {
    let config = plan.config()?;
    begin(dir, plan, resume)?;
    let mut outcomes = Vec::new();
    'all: for &seed in &config.options().seeds {
        let chain = config.chain(seed)?;
        let exact = Exact::new(&chain, config.grids())?;
        let context = Context {
            plan,
            config: &config,
            chain: &chain,
            exact: &exact,
            seed,
            dir,
            monitor,
        };
        outcomes.extend(context.oracles()?);
        let Some(base) = context.base()? else {
            break;
        };
        for combination in &plan.combinations() {
            match context.outcome(combination, &base)? {
                Some(outcome) => outcomes.push(outcome),
                None => break 'all,
            }
        }
    }
    Ok(report::report(&config, plan, &outcomes, monitor.stopped()))
}

/// Takes possession of the directory.
fn begin(dir: &FilePath, plan: &Plan, resume: bool) -> Result<(), RunError> {
    let file = dir.join("plan.json");
    if !file.exists() {
        std::fs::create_dir_all(dir).map_err(RunError::write(dir))?;
        return json::write(&file, &plan.describe());
    }
    let refuse = |what: &str| Err(RunError::Refused(format!("{} {what}", dir.display())));
    if !resume {
        return refuse("holds a comparison; continue it with --resume or choose another directory");
    }
    // More methods or seeds may be asked for later; what makes two results comparable may not change.
    if json::read::<serde_json::Value>(&file)? != plan.describe() {
        return refuse("holds another comparison; give the same options, or another directory");
    }
    Ok(())
}

impl Context<'_> {
    /// What needs no network.
    fn oracles(&self) -> Result<Vec<Outcome>, RunError> {
        let dir = self.dir.join("runs");
        let file = dir.join(format!("exact-{}.json", self.seed));
        if !file.exists() {
            let outcome = |(method, points): (&str, Vec<Measured>)| Outcome {
                method: method.into(),
                seed: self.seed,
                evaluations: 0,
                seconds: 0.0,
                conditional_correlation: None,
                points,
            };
            let found: Vec<Outcome> = self.exact.oracles().into_iter().map(outcome).collect();
            std::fs::create_dir_all(&dir).map_err(RunError::write(&dir))?;
            json::write(&file, &found)?;
        }
        json::read(&file)
    }

    /// The denoiser that all start from, unless stopped.
    fn base(&self) -> Result<Option<Conditioned<f32>>, RunError> {
        let dir = self.dir.join("runs").join(format!("base-{}", self.seed));
        let stage = Stage::new(&dir, self.seed);
        let o = self.config.options();
        if let Some(parameters) = stage.finished()? {
            let mut net = Conditioned::new(
                fewstep_nn::Conditioning::Instant,
                base::shape(self.chain),
                &vec![o.width; o.depth],
                self.seed,
            );
            stage.check(parameters.len(), net.parameters().len())?;
            net.parameters_mut().copy_from_slice(&parameters);
            return Ok(Some(net));
        }
        let net = base::train(self.config, self.chain, self.seed, self.monitor)?;
        if self.monitor.stopped() {
            return Ok(None);
        }
        stage.keep(net.parameters())?;
        Ok(Some(net))
    }

    /// A combination trained and measured, unless stopped.
    fn outcome(
        &self,
        combination: &Combination,
        base: &Conditioned<f32>,
    ) -> Result<Option<Outcome>, RunError> {
        let name = format!("{}-{}", combination.name(), self.seed);
        let file = self.dir.join("runs").join(&name).join("outcome.json");
        if file.exists() {
            return json::read(&file).map(Some);
        }
        let start = Instant::now();
        let mut student = Student::new(base.clone());
        let links = combination.0.len().max(1) as u64;
        for (number, method) in combination.0.iter().enumerate() {
            let dir = self.dir.join("runs").join(&name);
            let dir = dir.join(format!("{number}-{}", method.name()));
            let budget = self.plan.budget / links;
            match self.link(*method, student, budget, &dir)? {
                Some(next) => student = next,
                None => return Ok(None),
            }
        }
        let outcome = Outcome {
            method: combination.name(),
            seed: self.seed,
            evaluations: student.evaluations,
            seconds: start.elapsed().as_secs_f64(),
            conditional_correlation: self.exact.conditional_correlation(&student),
            points: self.exact.measure(&student, self.plan),
        };
        let parent = self.dir.join("runs").join(&name);
        std::fs::create_dir_all(&parent).map_err(RunError::write(&parent))?;
        json::write(&file, &outcome)?;
        Ok(Some(outcome))
    }
}
