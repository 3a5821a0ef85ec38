//! `fewstep verify`: every claim of the paper, checked numerically.

use std::io::IsTerminal;

use fewstep::verify;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::Failure;

/// Check every claim of the paper on random instances over all schedules, sources and targets;
/// exit 1 if any fails.
#[derive(clap::Args)]
pub struct Args {
    /// Random instances; 100 meet every combination of schedule, process and target
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    instances: u32,
    /// Seed of the instances
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Break every formula on purpose (a term dropped, a sign flipped), to see each check fail
    #[arg(long)]
    perturbed: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the checks.
pub fn run(args: &Args) -> Result<(), Failure> {
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("verify {bar:40} {pos}/{len}  {eta} left") {
        bar.set_style(style);
    }
    let options = verify::Options {
        seed: args.seed,
        instances: args.instances as usize,
        perturbed: args.perturbed,
    };
    let outcomes = verify::run(options, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let passed = verify::passed(&outcomes);
    if args.json {
        println!("{:#}", json!({ "passed": passed, "claims": outcomes }));
    } else {
        print!("{}", verify::table(&outcomes));
    }
    if passed {
        Ok(())
    } else {
        let failed = outcomes.iter().filter(|o| !o.passed).count();
        Err(Failure::Failed(format!(
            "{failed} of {} claims fail",
            outcomes.len()
        )))
    }
}
