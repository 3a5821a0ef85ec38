//! `fewstep compare`: every method on the same base, measured exactly.

use std::{fs::OpenOptions, path::PathBuf};

use fewstep::{
    compare::{self, Combination, Plan},
    method, report,
    sequence::RunError,
};

use crate::{
    Failure,
    methods::{DivergenceName, SpacingName},
    parse,
    progress::Progress,
    setting::Setting,
};

/// Train a denoiser on an enumerable target, then every method on top of it with the same number of
/// network evaluations, compute the exact law of each few-step sampler, and write one report.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    setting: Setting,
    /// Methods, several after each other as in di4c+redi: dag, law, sdtt, dcd, di4c, redi, dimo (default: each
    /// alone, rounds of redi, and the paper's combinations)
    #[arg(long, value_delimiter = ',', value_parser = Combination::parse)]
    methods: Option<Vec<Combination>>,
    /// Network evaluations of one sequence that each method may spend in training
    #[arg(long, default_value_t = 6_000_000)]
    budget: u64,
    /// Sequences a training step
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// Peak learning rate of the methods
    #[arg(long, default_value_t = 1e-3, value_parser = parse::positive)]
    rate: f64,
    /// Pairs that a round of redi generates
    #[arg(long, default_value_t = 20_000)]
    pairs: usize,
    /// Sampling steps it generates them in
    #[arg(long, default_value_t = 32)]
    coupling_steps: usize,
    /// Rounds of sdtt and dcd; the step doubles in each
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// What sdtt and dcd make small between student and teacher
    #[arg(long, value_enum, default_value_t = DivergenceName::BackwardKl)]
    divergence: DivergenceName,
    /// Where the steps of sdtt's teacher start
    #[arg(long, value_enum, default_value_t = SpacingName::Even)]
    spacing: SpacingName,
    /// Latents a state in di4c's losses
    #[arg(long, default_value_t = 8)]
    latents: usize,
    /// Let law go down the derivative, from data alone, in place of following a held target
    #[arg(long)]
    derivative: bool,
    /// Let steps from t to r count (r - t)^-POWER in what law makes small
    #[arg(long, default_value_t = method::law::POWER, value_parser = parse::number)]
    power: f64,
    /// Directory for the runs, report.html, tv.svg, report.json and metrics.jsonl
    #[arg(long, default_value = "runs/compare")]
    out: PathBuf,
    /// Go on with the comparison in the directory
    #[arg(long)]
    resume: bool,
}

impl Args {
    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = Plan::new(self.setting.options()?);
        if let Some(methods) = &self.methods {
            plan.combinations.clone_from(methods);
        }
        Ok(Plan {
            budget: self.budget,
            batch: self.batch,
            rate: self.rate,
            pairs: self.pairs,
            coupling_steps: self.coupling_steps,
            rounds: self.rounds,
            divergence: self.divergence.into(),
            spacing: self.spacing.into(),
            latents: self.latents,
            derivative: self.derivative,
            power: self.power,
            ..plan
        })
    }
}

/// Runs the comparison and writes its report, also of what there is when it is stopped.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = args.plan()?;
    plan.config().map_err(|e| Failure::Usage(e.to_string()))?;
    let refuse = |e: std::io::Error| {
        let out = args.out.display();
        Failure::Usage(format!(
            "cannot write to {out}: {e}; choose another directory with --out"
        ))
    };
    std::fs::create_dir_all(&args.out).map_err(refuse)?;
    let mut metrics = OpenOptions::new();
    let metrics = metrics.create(true).append(true);
    let metrics = metrics
        .open(args.out.join("metrics.jsonl"))
        .map_err(refuse)?;
    let progress = Progress::new(Some(metrics))?;
    let report = compare::run(&args.out, &plan, args.resume, &progress).map_err(|e| match e {
        RunError::Refused(why) => Failure::Usage(why),
        other => Failure::Failed(other.to_string()),
    })?;
    progress.finish()?;
    report::write(&report, &args.out).map_err(|e| Failure::Failed(e.to_string()))?;
    print!("{}", report::table(&report));
    println!("\n{}", args.out.join("report.html").display());
    if report.partial {
        eprintln!("fewstep: interrupted; the report is of what there is, go on with --resume");
        return Err(Failure::Interrupted);
    }
    Ok(())
}
