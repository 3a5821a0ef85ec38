//! `fewstep potts`: the experiment of appendix sim-exact, and its variations.

use std::path::PathBuf;

use clap::ValueEnum;
use fewstep::{
    lab::{self, Config, Options, SourceKind, Training},
    report,
};
use fewstep_ctmc::{Schedule, Target};

use crate::{
    Failure,
    parse::{self, RecipeChoice},
    progress::Progress,
    run_dir::RunDir,
};

/// Train a denoiser and its corrections on an enumerable target, compute the exact total
/// variation of the K-step sampler, and write a report.
#[derive(clap::Args)]
pub struct Args {
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
    /// Corrections to train, as OBJECTIVE:TRANSPORT; objectives linear, p, q, u; transport 'exact'
    /// or a number of draws
    #[arg(long, value_delimiter = ',', value_parser = parse::training,
          default_value = "linear:1,linear:exact,p:exact")]
    train: Vec<Training>,
    /// The one sampler setting for all K: CORRECTION,GAIN,TEMPERATURE, or none; the gain may be a
    /// rule in K
    #[arg(long, value_parser = parse::recipe, default_value = "linear:1,2.25+7/K,0.95")]
    recipe: RecipeChoice,
    /// Gains on the first correction to report beside 1
    #[arg(long, value_delimiter = ',', value_parser = parse::number, default_value = "2,3", allow_negative_numbers = true)]
    gains: Vec<f64>,
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
    /// Training steps of each correction
    #[arg(long, default_value_t = 3_000)]
    correction_steps: u64,
    /// Peak learning rate of the corrections
    #[arg(long, default_value_t = 2e-3, value_parser = parse::number, allow_negative_numbers = true)]
    correction_rate: f64,
    /// Rows of a correction step with exact transport; with draws, which cost less, more
    #[arg(long, default_value_t = 48)]
    correction_rows: usize,
    /// Share of these rows with r = t
    #[arg(long, default_value_t = 0.25, value_parser = parse::number, allow_negative_numbers = true)]
    boundary: f64,
    /// Width of the hidden layers
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Number of hidden layers
    #[arg(long, default_value_t = 4)]
    depth: usize,
    /// Directory for report.html, tv.svg, report.json, metrics.jsonl and manifest.json
    #[arg(long, default_value = "runs/potts")]
    out: PathBuf,
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
    Uniform,
    Masked,
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
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
            },
            seeds: (self.seed..end).collect(),
            steps: self.steps.clone(),
            grid: self.grid.clone(),
            width: self.width,
            depth: self.depth,
            base_steps: self.base_steps,
            base_rate: self.base_rate,
            base_rows: self.base_rows,
            correction_steps: self.correction_steps,
            correction_rate: self.correction_rate,
            correction_rows: self.correction_rows,
            boundary: self.boundary,
            trainings: self.train.clone(),
            gains: self.gains.clone(),
            temperatures: self.temperatures.clone(),
            recipe: self.recipe.0,
        })
    }
}

/// Runs the experiment.
pub fn run(args: &Args) -> Result<(), Failure> {
    let config = Config::new(args.options()?).map_err(|e| Failure::Usage(e.to_string()))?;
    let run = RunDir::create(&args.out, &config)?;
    let progress = Progress::new(Some(run.metrics()?))?;
    let report = lab::run(&config, &progress).map_err(|e| Failure::Failed(e.to_string()))?;
    progress.finish()?;
    report::write(&report, &args.out).map_err(|e| Failure::Failed(e.to_string()))?;
    run.finish(report.partial)?;
    print!("{}", report::table(&report));
    println!("\n{}", args.out.join("report.html").display());
    if report.partial {
        eprintln!("fewstep: interrupted; the report holds what was finished and says so");
        return Err(Failure::Interrupted);
    }
    Ok(())
}
