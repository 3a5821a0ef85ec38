//! The enumerable setting that `potts` and `compare` share: target, path, seeds, grids and base.

use clap::ValueEnum;
use fewstep::lab::{Options, SourceKind};
use fewstep_ctmc::{Schedule, Target};

use crate::{Failure, parse};

/// What is enumerated, and the denoiser that is trained on it.
#[derive(clap::Args)]
pub struct Setting {
    /// Family of target laws
    #[arg(long, value_enum, default_value_t = TargetKind::Potts)]
    target: TargetKind,
    /// Coupling of potts (default 1.5) or repelling (default 1)
    #[arg(long, value_parser = parse::number, allow_negative_numbers = true)]
    beta: Option<f64>,
    /// Perturbation of potts (default 0.3), sigma of random-energy (2), Dirichlet concentration of
    /// markov (0.3)
    #[arg(long, value_parser = parse::number, allow_negative_numbers = true)]
    spread: Option<f64>,
    /// Symbols per coordinate
    #[arg(long, short = 'S', default_value_t = 4)]
    symbols: usize,
    /// Coordinates
    #[arg(long, short = 'D', default_value_t = 4)]
    coords: usize,
    /// Noise schedule: linear, cosine, poly:N, log-linear[:EPS] or arccos
    #[arg(long, value_parser = parse::schedule, default_value = "linear")]
    schedule: Schedule,
    /// Noise the path starts from
    #[arg(long, value_enum, default_value_t = Source::Uniform)]
    source: Source,
    /// Number of seeds; each has its own target, initialisation and training
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Numbers of sampling steps K, each on a uniform grid
    #[arg(long, value_delimiter = ',', default_value = "2,3,4,6,8,12,16,24,32")]
    steps: Vec<usize>,
    /// One grid instead, as in 0,0.2,0.6,1
    #[arg(long, value_delimiter = ',', value_parser = parse::number, conflicts_with = "steps", allow_negative_numbers = true)]
    grid: Option<Vec<f64>>,
    /// Temperatures of the base to report beside 1
    #[arg(long, value_delimiter = ',', value_parser = parse::number, default_value = "0.9,0.8", allow_negative_numbers = true)]
    temperatures: Vec<f64>,
    /// Training steps of the base denoiser
    #[arg(long, default_value_t = 12_000)]
    base_steps: u64,
    /// Peak learning rate of the base
    #[arg(long, default_value_t = 2e-3, value_parser = parse::number, allow_negative_numbers = true)]
    base_rate: f64,
    /// Rows of a base step
    #[arg(long, default_value_t = 128)]
    base_rows: usize,
    /// Width of the hidden layers
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Number of hidden layers
    #[arg(long, default_value_t = 4)]
    depth: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum TargetKind {
    Potts,
    Markov,
    RandomEnergy,
    Repelling,
}

#[derive(Clone, Copy, ValueEnum)]
enum Source {
    /// Uniform symbols
    Uniform,
    /// All masked
    Masked,
    /// Masks among uniform symbols, as in ReDi's image models
    StochasticMask,
}

impl Setting {
    /// The options of the lab that follow, the rest as by default.
    pub fn options(&self) -> Result<Options, Failure> {
        let spread = |default: f64| self.spread.unwrap_or(default);
        let beta = |default: f64| self.beta.unwrap_or(default);
        let target = match self.target {
            TargetKind::Potts => Target::Potts {
                beta: beta(1.5),
                noise: spread(0.3),
            },
            TargetKind::Markov => Target::Markov {
                concentration: spread(0.3),
            },
            TargetKind::RandomEnergy => Target::RandomEnergy { sigma: spread(2.0) },
            TargetKind::Repelling => Target::Repelling { beta: beta(1.0) },
        };
        let unused = match self.target {
            TargetKind::Markov | TargetKind::RandomEnergy => self.beta.map(|_| "--beta"),
            TargetKind::Repelling => self.spread.map(|_| "--spread"),
            TargetKind::Potts => None,
        };
        if let Some(option) = unused {
            return Err(Failure::Usage(format!(
                "{option} has no meaning for this target; leave it out"
            )));
        }
        let end = self.seed.checked_add(self.seeds).ok_or_else(|| {
            Failure::Usage("--seed is too large; there is no seed after it".into())
        })?;
        Ok(Options {
            target,
            symbols: self.symbols,
            coords: self.coords,
            schedule: self.schedule,
            source: match self.source {
                Source::Uniform => SourceKind::Uniform,
                Source::Masked => SourceKind::Masked,
                Source::StochasticMask => SourceKind::StochasticMask,
            },
            seeds: (self.seed..end).collect(),
            steps: self.steps.clone(),
            grid: self.grid.clone(),
            width: self.width,
            depth: self.depth,
            base_steps: self.base_steps,
            base_rate: self.base_rate,
            base_rows: self.base_rows,
            temperatures: self.temperatures.clone(),
            ..Options::default()
        })
    }
}
