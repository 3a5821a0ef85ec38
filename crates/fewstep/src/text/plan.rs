//! What an experiment on sequences consists of.

use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

use crate::sequence::{
    Acceleration, Chain, Data, Optimization, Pairs, Prediction, RunError, Setting, Sizes, Target,
};

/// From this many steps on, points are only taken at the plain setting and a few temperatures: they
/// cost most and differ least.
pub const FEW: usize = 16;

/// The trainings and the points of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The chains, each with its denoiser.
    pub chains: Vec<Chain>,
    /// What the accelerations of each regress.
    pub targets: Vec<Target>,
    /// Seeds of trainings and draws.
    pub seeds: Vec<u64>,
    /// Symbols, hidden states and number of the language.
    pub language: (usize, usize, u64),
    /// The network.
    pub sizes: Sizes,
    /// The denoiser's training; the seed is replaced by each of the seeds.
    pub base: Optimization,
    /// The acceleration's training.
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
            targets: vec![Target::Linear],
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

    /// All chains with both targets.
    pub fn matrix(self) -> Self {
        Self {
            chains: crate::sequence::CHAINS.to_vec(),
            targets: vec![Target::Linear, Target::Shifted],
            ..self
        }
    }

    /// The setting of a chain's denoiser, or of its acceleration from the run in `from`.
    pub fn setting(
        &self,
        chain: Chain,
        seed: u64,
        acceleration: Option<(Target, &FilePath)>,
    ) -> Setting {
        let (symbols, states, number) = self.language;
        let optimization = match acceleration {
            None => self.base,
            Some(_) => self.accelerated,
        };
        Setting {
            chain,
            data: Data::Language {
                symbols,
                states,
                seed: number,
            },
            sizes: self.sizes,
            prediction: Prediction::Others,
            optimization: Optimization {
                seed,
                ..optimization
            },
            acceleration: acceleration.map(|(target, from)| Acceleration {
                from: from.to_path_buf(),
                target,
                head_only: true,
                correction: self.correction,
                pairs: Pairs::Grids(self.grids.clone()),
                at_rest: 0.0,
                draws: 1,
            }),
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

/// The name of a target in points, tables and files.
pub fn target_name(target: Target) -> &'static str {
    match target {
        Target::Linear => "linear",
        Target::Shifted => "paper",
    }
}
