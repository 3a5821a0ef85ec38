//! What an experiment on sequences consists of.

use std::path::Path as FilePath;

use fewstep_ctmc::language::Concentration;
use serde::{Deserialize, Serialize};

use crate::{
    method::{self, Divergence, sdtt::Spacing},
    sequence::{
        Acceleration, Accelerator, Average, Chain, Data, Loss, Matching, Optimization, Optimizer,
        Pairs, Prediction, RunError, Setting, Sizes, Target,
    },
};

/// From this many steps on, points are only taken at the plain setting and a few temperatures: they
/// cost most and differ least.
pub const FEW: usize = 16;

/// A method on top of a denoiser, in points and tables by its name; the average generator by that of
/// its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Method {
    /// The average generator.
    Average(Target),
    /// Another one.
    Rival(method::Method),
}

impl Method {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let rivals = method::Method::ALL.into_iter();
        let rivals = rivals.filter(|m| *m != method::Method::Dag);
        [Target::Linear, Target::Shifted]
            .map(Self::Average)
            .into_iter()
            .chain(rivals.map(Self::Rival))
            .collect()
    }

    /// The name in options, points, tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average(Target::Linear) => "linear",
            Self::Average(Target::Shifted) => "paper",
            Self::Rival(method) => method.name(),
        }
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Average(Target::Linear) => "The average generator with the linear target",
            Self::Average(Target::Shifted) => "The average generator with the paper's objective",
            Self::Rival(method) => method.about(),
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::all().into_iter().find(|m| m.name() == name);
        found.ok_or_else(|| format!("'{name}' is no method of an experiment on sequences"))
    }

    /// Whether it is a correction on a denoiser that stays as it is.
    pub fn corrects(self) -> bool {
        matches!(self, Self::Average(_))
    }

    /// Whether it can be run on a chain.
    pub fn fits(self, chain: Chain) -> bool {
        use method::Method::{Dcd, Law, Redi};
        let Self::Rival(method) = self else {
            return true;
        };
        match chain {
            Chain::Masked => !matches!(method, Dcd | Redi),
            Chain::StochasticMask => !matches!(method, Dcd | Law),
            Chain::Uniform | Chain::UniformState => true,
        }
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.name().into()
    }
}

impl TryFrom<String> for Method {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name)
    }
}

/// Rounds of SDTT and DCD, in each of which the step doubles. SDTT's last student is meant to do in
/// one step what two of an eighth of the time do.
const ROUNDS: i32 = 3;
/// The learning rate of methods that train the denoiser itself, as a share of the correction's: at
/// the same rate it forgets more than it learns.
const GENTLY: f64 = 0.3;
/// Pairs that a rectification generates, and its sampling steps.
const PAIRS: usize = 1024;
const PAIR_STEPS: usize = 32;
/// Latents a state in Di4C's losses, and the teacher's step and the border near data in them.
const LATENTS: usize = 8;
const TEACHER_STEP: f64 = 1.0 / 64.0;
const NEAR: f64 = 0.02;

/// The trainings and the points of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The chains, each with its denoiser.
    pub chains: Vec<Chain>,
    /// The methods on top of each, where they fit.
    pub methods: Vec<Method>,
    /// Seeds of trainings and draws.
    pub seeds: Vec<u64>,
    /// The data: the built-in language, or token shards with few symbols, to which one is fitted.
    pub data: Data,
    /// The network.
    pub sizes: Sizes,
    /// The denoiser's training; the seed is replaced by each of the seeds.
    pub base: Optimization,
    /// The training of the average generator. Others are given as many network evaluations.
    pub accelerated: Optimization,
    /// Width of the correction's hidden layer.
    pub correction: usize,
    /// Grids whose steps the pairs are drawn from.
    pub grids: Vec<usize>,
    /// Numbers of steps to sample with.
    pub steps: Vec<usize>,
    /// Temperatures up to [`FEW`] steps.
    pub temperatures: Vec<f64>,
    /// Temperatures beyond; of an acceleration, the first.
    pub many_temperatures: Vec<f64>,
    /// Gains on the correction up to [`FEW`] steps, on chains where the exact one is not zero; beyond,
    /// and on others, the first.
    pub gains: Vec<f64>,
    /// Sequences behind each point.
    pub samples: usize,
}

impl Plan {
    /// An experiment of minutes on two cores: over 64 symbols with 8 hidden states and 64 positions, so
    /// that a small network comes close to the exact denoiser, and what is seen is what few steps do and
    /// not what the denoiser lacks.
    pub fn tiny() -> Self {
        let varied = Concentration::default();
        let base = Optimization {
            steps: 5000,
            batch: 64,
            rate: 4e-3,
            warmup: 100,
            ema: 0.999,
            clip: 1.0,
            seed: 0,
            optimizer: Optimizer::Muon,
        };
        Self {
            chains: vec![Chain::Uniform],
            methods: vec![Method::Average(Target::Linear)],
            seeds: vec![0],
            data: Data::Language {
                symbols: 64,
                states: 8,
                seed: 0,
                transition: varied.transition,
                emission: varied.emission,
            },
            sizes: Sizes {
                length: 64,
                width: 64,
                blocks: 3,
                heads: 4,
            },
            base,
            accelerated: Optimization {
                steps: 3000,
                batch: 32,
                rate: 1e-3,
                optimizer: Optimizer::Adam,
                ..base
            },
            correction: 256,
            grids: vec![2, 4, 8, 16, 32],
            steps: vec![1, 2, 4, 8, 16, 32, 64, 128],
            temperatures: vec![1.0, 1.1, 0.9, 0.8, 0.7],
            many_temperatures: vec![1.0, 0.9],
            gains: vec![1.0, 2.0, 4.0],
            samples: 256,
        }
    }

    /// The paper's chains with both objectives of the average generator.
    pub fn matrix(self) -> Self {
        Self {
            chains: vec![Chain::Masked, Chain::Uniform, Chain::UniformState],
            methods: [Target::Linear, Target::Shifted]
                .map(Method::Average)
                .to_vec(),
            ..self
        }
    }

    /// The setting of a chain's denoiser.
    pub fn base(&self, chain: Chain, seed: u64) -> Setting {
        Setting {
            chain,
            data: self.data.clone(),
            sizes: self.sizes,
            prediction: Prediction::Others,
            optimization: Optimization { seed, ..self.base },
            start: None,
            curriculum: None,
            acceleration: None,
            carried: 0,
            loss: chain.loss(),
        }
    }

    /// The training of the average generator.
    fn average(&self, target: Target) -> Accelerator {
        Accelerator::Dag(Average {
            target,
            head_only: true,
            correction: self.correction,
            pairs: Pairs::Grids(self.grids.clone()),
            at_rest: 0.0,
            draws: 1,
        })
    }

    /// The rounds of a method: what each does, and its training. All together cost as many network
    /// evaluations as the average generator's training.
    pub fn rounds(&self, method: Method, chain: Chain) -> Vec<(Accelerator, Optimization)> {
        use method::Method::{Dag, Dcd, Di4c, Dimo, Law, Redi, Sdtt};
        let o = self.accelerated;
        let divergence = Divergence::default();
        let halves = |round: i32| 0.5f64.powi(2 + ROUNDS - round);
        let named = match method {
            Method::Average(target) => return vec![(self.average(target), o)],
            Method::Rival(named) => named,
        };
        let rounds: Vec<Accelerator> = match named {
            Dag => vec![self.average(Target::Linear)],
            Sdtt => (0..ROUNDS)
                .map(|round| Accelerator::Sdtt {
                    size: halves(round),
                    count: 2,
                    spacing: Spacing::Even,
                    divergence,
                })
                .collect(),
            Dcd => (0..ROUNDS)
                .map(|round| Accelerator::Dcd {
                    // The last is DUO's last, a thirty-second of its time.
                    distance: halves(round) / 4.0,
                    divergence,
                })
                .collect(),
            Redi => vec![Accelerator::Redi {
                pairs: PAIRS,
                steps: PAIR_STEPS,
            }],
            Law => vec![Accelerator::Law(Matching {
                head_only: false,
                correction: self.correction,
                grids: self.grids.clone(),
                conditionals: self.sizes,
                conditionals_rate: o.rate,
                rise: 0.1,
                trust: false,
                follow: false,
                // From masks alone there is nothing else that a first step could carry dependence with.
                carried: if chain == Chain::Masked {
                    Matching::CARRIED
                } else {
                    0
                },
            })],
            Di4c => vec![Accelerator::Di4c {
                latents: LATENTS,
                carried: 1,
                step: TEACHER_STEP,
                near: NEAR,
            }],
            Dimo => vec![Accelerator::Dimo {
                // From masks alone no position could know of another.
                carried: usize::from(chain == Chain::Masked),
                mix: 0.0,
                denoiser_rate: GENTLY * o.rate,
            }],
        };
        let budget = o.steps * o.batch as u64 * self.average(Target::Linear).cost();
        let share = budget / rounds.len() as u64;
        let trained = |accelerator: Accelerator| {
            let made = match accelerator {
                Accelerator::Redi { pairs, steps } => (pairs * steps) as u64,
                _ => 0,
            };
            let a_step = o.batch as u64 * accelerator.cost();
            let optimization = Optimization {
                steps: (share.saturating_sub(made) / a_step).max(1),
                rate: GENTLY * o.rate,
                ..o
            };
            (accelerator, optimization)
        };
        rounds.into_iter().map(trained).collect()
    }

    /// The setting of one round of a method from the run in `from`.
    pub fn accelerated(
        &self,
        (chain, seed): (Chain, u64),
        (method, optimization): (Accelerator, Optimization),
        from: &FilePath,
    ) -> Setting {
        Setting {
            optimization: Optimization {
                seed,
                ..optimization
            },
            carried: method.carried().unwrap_or(0),
            loss: Loss::Bound,
            acceleration: Some(Acceleration {
                from: from.to_path_buf(),
                method,
            }),
            ..self.base(chain, seed)
        }
    }

    /// The plan itself if it can be carried out.
    pub fn checked(self) -> Result<Self, RunError> {
        let refuse = |what: &str| Err(RunError::Refused(what.to_string()));
        if self.chains.is_empty() || self.seeds.is_empty() {
            return refuse("an experiment needs a chain and a seed");
        }
        if self.steps.is_empty() || self.steps.contains(&0) {
            return refuse("numbers of steps must be at least 1");
        }
        if self.samples < 2 {
            return refuse("a point needs at least 2 samples");
        }
        let temperatures = self.temperatures.iter().chain(&self.many_temperatures);
        if self.temperatures.is_empty() || self.many_temperatures.is_empty() {
            return refuse("an experiment needs a temperature");
        }
        if temperatures.into_iter().any(|t| *t <= 0.0) {
            return refuse("temperatures must be above 0");
        }
        if self.gains.is_empty() {
            return refuse("a correction needs a gain");
        }
        // What is left after a coupling is made has to be enough to learn from it.
        let (o, made) = (self.accelerated, (PAIRS * PAIR_STEPS) as u64);
        let needed =
            (made + made / 2).div_ceil(o.batch.max(1) as u64 * self.average(Target::Linear).cost());
        let rectifies = self.methods.contains(&Method::Rival(method::Method::Redi));
        if rectifies && o.steps < needed {
            return Err(RunError::Refused(format!(
                "redi: the pairs alone take {made} network evaluations; with batches of {} give at least \
                 {needed} acceleration steps",
                o.batch
            )));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every method costs what the average generator costs, to a step of its own.
    #[test]
    fn budgets_are_equal() {
        let plan = Plan::tiny();
        let o = plan.accelerated;
        let cost = |method: Method| -> u64 {
            let each = plan
                .rounds(method, Chain::Uniform)
                .into_iter()
                .map(|(what, o)| {
                    let made = match what {
                        Accelerator::Redi { pairs, steps } => (pairs * steps) as u64,
                        _ => 0,
                    };
                    made + o.steps * o.batch as u64 * what.cost()
                });
            each.sum()
        };
        let given = o.steps * o.batch as u64 * 6;
        for method in Method::all() {
            let spent = cost(method);
            let a_step = plan.rounds(method, Chain::Uniform)[0].0.cost();
            let least = given - 3 * o.batch as u64 * a_step;
            assert!((least..=given).contains(&spent), "{method:?}: {spent}");
        }
    }

    /// Pairs that leave nothing to train with are refused before any work, with the steps that would do.
    #[test]
    fn a_coupling_leaves_a_budget() {
        let plan = |steps| Plan {
            methods: vec![Method::Rival(method::Method::Redi)],
            accelerated: Optimization {
                steps,
                batch: 16,
                ..Plan::tiny().accelerated
            },
            ..Plan::tiny()
        };
        let refused = plan(511).checked().unwrap_err().to_string();
        assert!(
            refused.contains("at least 512 acceleration steps"),
            "{refused}"
        );
        assert!(plan(512).checked().is_ok());
    }
}
