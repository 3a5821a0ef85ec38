//! What an experiment on sequences consists of.

use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

use crate::{
    method::{Divergence, sdtt::Spacing},
    sequence::{
        Acceleration, Accelerator, Average, Chain, Data, Matching, Optimization, Pairs, Prediction,
        RunError, Setting, Sizes, Target,
    },
};

/// From this many steps on, points are only taken at the plain setting and a few temperatures: they
/// cost most and differ least.
pub const FEW: usize = 16;

/// A method on top of a denoiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The average generator with the linear target.
    Linear,
    /// The average generator with the paper's objective.
    Paper,
    /// Self-distillation through time.
    Sdtt,
    /// Discrete consistency distillation.
    Dcd,
    /// Rectification.
    Redi,
    /// Law matching.
    Law,
}

impl Method {
    /// The name in points, tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Paper => "paper",
            Self::Sdtt => "sdtt",
            Self::Dcd => "dcd",
            Self::Redi => "redi",
            Self::Law => "law",
        }
    }

    /// Whether it is a correction on a denoiser that stays as it is.
    pub fn corrects(self) -> bool {
        matches!(self, Self::Linear | Self::Paper)
    }

    /// Whether it can be run on a chain.
    pub fn fits(self, chain: Chain) -> bool {
        chain != Chain::Masked || !matches!(self, Self::Dcd | Self::Redi | Self::Law)
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

/// The trainings and the points of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The chains, each with its denoiser.
    pub chains: Vec<Chain>,
    /// The methods on top of each, where they fit.
    pub methods: Vec<Method>,
    /// Seeds of trainings and draws.
    pub seeds: Vec<u64>,
    /// Symbols, hidden states and number of the language.
    pub language: (usize, usize, u64),
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
    /// Gains on the correction up to [`FEW`] steps; beyond, the first.
    pub gains: Vec<f64>,
    /// Sequences behind each point.
    pub samples: usize,
}

impl Plan {
    /// An experiment of minutes on two cores: over 64 symbols with 16 hidden states and 64
    /// positions, so that a small network comes close to the exact denoiser.
    pub fn tiny() -> Self {
        let base = Optimization {
            steps: 8000,
            batch: 8,
            rate: 1.5e-3,
            warmup: 100,
            ema: 0.999,
            clip: 1.0,
            seed: 0,
        };
        Self {
            chains: vec![Chain::Uniform],
            methods: vec![Method::Linear],
            seeds: vec![0],
            language: (64, 16, 0),
            sizes: Sizes {
                length: 64,
                width: 128,
                blocks: 3,
                heads: 4,
            },
            base,
            accelerated: Optimization {
                steps: 1200,
                batch: 16,
                rate: 1e-3,
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

    /// All chains with both objectives of the average generator.
    pub fn matrix(self) -> Self {
        Self {
            chains: crate::sequence::CHAINS.to_vec(),
            methods: vec![Method::Linear, Method::Paper],
            ..self
        }
    }

    /// The setting of a chain's denoiser.
    pub fn base(&self, chain: Chain, seed: u64) -> Setting {
        let (symbols, states, number) = self.language;
        Setting {
            chain,
            data: Data::Language {
                symbols,
                states,
                seed: number,
            },
            sizes: self.sizes,
            prediction: Prediction::Others,
            optimization: Optimization { seed, ..self.base },
            acceleration: None,
            carried: 0,
        }
    }

    /// The rounds of a method: what each does, and its training. All together cost as many network
    /// evaluations as the average generator's training.
    pub fn rounds(&self, method: Method) -> Vec<(Accelerator, Optimization)> {
        let average = |target| {
            Accelerator::Dag(Average {
                target,
                head_only: true,
                correction: self.correction,
                pairs: Pairs::Grids(self.grids.clone()),
                at_rest: 0.0,
                draws: 1,
            })
        };
        let o = self.accelerated;
        let divergence = Divergence::default();
        let halves = |round: i32| 0.5f64.powi(2 + ROUNDS - round);
        let rounds: Vec<Accelerator> = match method {
            Method::Linear => vec![average(Target::Linear)],
            Method::Paper => vec![average(Target::Shifted)],
            Method::Sdtt => (0..ROUNDS)
                .map(|round| Accelerator::Sdtt {
                    size: halves(round),
                    count: 2,
                    spacing: Spacing::Even,
                    divergence,
                })
                .collect(),
            Method::Dcd => (0..ROUNDS)
                .map(|round| Accelerator::Dcd {
                    // The last is DUO's last, a thirty-second of its time.
                    distance: halves(round) / 4.0,
                    divergence,
                })
                .collect(),
            Method::Redi => vec![Accelerator::Redi {
                pairs: PAIRS,
                steps: PAIR_STEPS,
            }],
            Method::Law => vec![Accelerator::Law(Matching {
                head_only: false,
                correction: self.correction,
                grids: self.grids.clone(),
                conditionals: self.sizes,
                conditionals_rate: o.rate,
                rise: 0.1,
                trust: false,
            })],
        };
        let budget = o.steps * o.batch as u64 * average(Target::Linear).cost();
        let share = budget / rounds.len() as u64;
        let trained = |accelerator: Accelerator| {
            let made = match accelerator {
                Accelerator::Redi { pairs, steps } => (pairs * steps) as u64,
                _ => 0,
            };
            let a_step = o.batch as u64 * accelerator.cost();
            let optimization = Optimization {
                steps: (share.saturating_sub(made) / a_step).max(1),
                rate: o.rate * if method.corrects() { 1.0 } else { GENTLY },
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
            let each = plan.rounds(method).into_iter().map(|(what, o)| {
                let made = match what {
                    Accelerator::Redi { pairs, steps } => (pairs * steps) as u64,
                    _ => 0,
                };
                made + o.steps * o.batch as u64 * what.cost()
            });
            each.sum()
        };
        let given = cost(Method::Linear);
        assert_eq!(given, o.steps * o.batch as u64 * 6);
        for method in [
            Method::Paper,
            Method::Sdtt,
            Method::Dcd,
            Method::Redi,
            Method::Law,
        ] {
            let spent = cost(method);
            let least = given - 3 * o.batch as u64 * 6;
            assert!((least..=given).contains(&spent), "{method:?}: {spent}");
        }
    }
}
