//! `fewstep potts`: the experiment of appendix sim-exact, and its variations.

use std::path::PathBuf;

use fewstep::{
    lab::{self, Config, Options, Training},
    report,
};

use crate::{
    Failure,
    parse::{self, RecipeChoice},
    progress::Progress,
    run_dir::RunDir,
    setting::Setting,
};

/// Train a denoiser and its corrections on an enumerable target, compute the exact total
/// variation of the K-step sampler, and write a report.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    setting: Setting,
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
    /// Directory for report.html, tv.svg, report.json, metrics.jsonl and manifest.json
    #[arg(long, default_value = "runs/potts")]
    out: PathBuf,
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            correction_steps: self.correction_steps,
            correction_rate: self.correction_rate,
            correction_rows: self.correction_rows,
            boundary: self.boundary,
            trainings: self.train.clone(),
            gains: self.gains.clone(),
            recipe: self.recipe.0,
            ..self.setting.options()?
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
