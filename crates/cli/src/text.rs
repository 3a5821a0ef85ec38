//! `fewstep text`: the experiment on sequences, in one command.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use fewstep::{
    sequence::{Chain, Data, RunError},
    text::{self, Method, Plan},
};

use crate::{Failure, methods, parse, progress::Progress, train::ChainName};

/// How much there is to do.
#[derive(Clone, Copy, ValueEnum)]
enum Preset {
    /// Minutes on two cores
    Tiny,
}

/// Train denoisers on the built-in language or on data of your own, accelerate them with as many methods
/// as you like at an equal budget, sample in few steps, measure against the language itself (or one
/// fitted to the data) and write a report.
#[derive(ClapArgs)]
pub struct Args {
    /// Directory for the runs, points.jsonl, report.html and report.json
    #[arg(long, default_value = "runs/text")]
    out: PathBuf,
    /// Sizes and lengths of everything
    #[arg(long, value_enum, default_value = "tiny")]
    preset: Preset,
    /// The whole matrix: every chain with both objectives of the average generator
    #[arg(long, conflicts_with_all = ["chains", "methods"])]
    matrix: bool,
    /// Chains
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    chains: Vec<ChainName>,
    /// Methods on top of each chain's denoiser, all with as many network evaluations
    #[arg(long, value_parser = methods::parser(Method::all().into_iter().map(|m| (m.name(), m.about())), Method::parse),
          value_delimiter = ',', default_value = "linear")]
    methods: Vec<Method>,
    /// Token shards made by `fewstep data`, of few symbols; without them, the built-in language
    #[arg(long, conflicts_with_all = ["symbols", "states", "language", "transition", "emission"])]
    data: Option<PathBuf>,
    /// Seeds of trainings and draws
    #[arg(long, value_delimiter = ',', default_value = "0")]
    seeds: Vec<u64>,
    /// Training steps of a denoiser
    #[arg(long)]
    base_steps: Option<u64>,
    /// Training steps of an acceleration
    #[arg(long)]
    acceleration_steps: Option<u64>,
    /// Numbers of sampling steps K
    #[arg(long, value_delimiter = ',')]
    steps: Option<Vec<usize>>,
    /// Temperatures of the frontier
    #[arg(long, value_delimiter = ',', value_parser = parse::positive)]
    temperatures: Option<Vec<f64>>,
    /// Gains on the correction
    #[arg(long, value_delimiter = ',', value_parser = parse::number)]
    gains: Option<Vec<f64>>,
    /// Sequences behind each point
    #[arg(long)]
    samples: Option<usize>,
    /// Symbols of the language
    #[arg(long)]
    symbols: Option<usize>,
    /// Its hidden states
    #[arg(long)]
    states: Option<usize>,
    /// Which language
    #[arg(long)]
    language: Option<u64>,
    /// How varied its next state is given a state: the sum of a row's Dirichlet parameters
    #[arg(long, value_parser = parse::positive)]
    transition: Option<f64>,
    /// How varied a state's symbol is, likewise
    #[arg(long, value_parser = parse::positive)]
    emission: Option<f64>,
    /// Positions of a sequence
    #[arg(long)]
    length: Option<usize>,
    /// Go on with the experiment in the directory
    #[arg(long)]
    resume: bool,
}

impl Args {
    fn plan(&self) -> Plan {
        let mut plan = match self.preset {
            Preset::Tiny => Plan::tiny(),
        };
        if self.matrix {
            plan = plan.matrix();
        } else {
            plan.chains = self.chains.iter().map(|&c| Chain::from(c)).collect();
            plan.methods.clone_from(&self.methods);
        }
        plan.seeds.clone_from(&self.seeds);
        let set = |to: &mut u64, given: Option<u64>| *to = given.unwrap_or(*to);
        set(&mut plan.base.steps, self.base_steps);
        set(&mut plan.accelerated.steps, self.acceleration_steps);
        if let Some(steps) = &self.steps {
            plan.steps.clone_from(steps);
        }
        if let Some(temperatures) = &self.temperatures {
            plan.temperatures.clone_from(temperatures);
        }
        if let Some(gains) = &self.gains {
            plan.gains.clone_from(gains);
        }
        plan.samples = self.samples.unwrap_or(plan.samples);
        if let Data::Language {
            symbols,
            states,
            seed,
            transition,
            emission,
        } = &mut plan.data
        {
            *seed = self.language.unwrap_or(*seed);
            *transition = self.transition.unwrap_or(*transition);
            *emission = self.emission.unwrap_or(*emission);
            *symbols = self.symbols.unwrap_or(*symbols);
            *states = self.states.unwrap_or(*states);
        }
        if let Some(dir) = &self.data {
            plan.data = Data::Shards(dir.clone());
        }
        plan.sizes.length = self.length.unwrap_or(plan.sizes.length);
        plan
    }
}

/// Runs the experiment and writes its report, also of what there is when it is stopped.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = args
        .plan()
        .checked()
        .map_err(|e| Failure::Usage(e.to_string()))?;
    let progress = Progress::new(None)?;
    let (findings, done) =
        text::run(&args.out, plan, args.resume, &progress).map_err(|e| match e {
            RunError::Refused(why) => Failure::Usage(why),
            other => Failure::Failed(other.to_string()),
        })?;
    text::write(&findings, &args.out).map_err(|e| Failure::Failed(e.to_string()))?;
    print!("{}", text::table(&findings));
    println!("\n{}", args.out.join("report.html").display());
    if done {
        return Ok(());
    }
    eprintln!("fewstep: interrupted; the report is of what there is, go on with --resume");
    Err(Failure::Interrupted)
}
