//! The `fewstep` command: arguments in, checked config, progress, exit code.
//!
//! Exit codes: 0 done, 1 failed (a check did not hold, a file could not be written), 2 bad usage,
//! 130 interrupted with a partial result written.

mod accelerate;
mod audit;
mod bench;
mod compare;
mod data;
mod doctor;
mod eval;
mod fill;
mod generation;
mod image;
mod judge;
mod maskgit;
mod methods;
mod metrics;
mod order;
mod parse;
mod pictures;
mod potts;
mod progress;
mod run_dir;
mod sample;
mod setting;
mod text;
mod tokenizer;
mod train;
mod verify;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand, error::ErrorKind};

/// Few-step generation with discrete diffusion models: exact checks, training and honest numbers.
///
/// Time runs from noise (t = 0) to data (t = 1); a step goes t -> r with t <= r.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    /// Worker threads (default: all cores); results do not depend on it
    #[arg(long, global = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check every claim of the paper numerically
    Verify(verify::Args),
    /// Train on an enumerable target and compute the exact law of the few-step sampler
    Potts(Box<potts::Args>),
    /// Train every method on the same base with the same budget and measure them exactly
    Compare(Box<compare::Args>),
    /// Train, accelerate, sample and measure on the built-in language, in one command
    Text(Box<text::Args>),
    /// The same on pictures: from nothing to a page of them
    Image(Box<image::Args>),
    /// Train a denoiser
    Train(Box<train::TrainArgs>),
    /// Train a method on top of a denoiser, to need fewer steps
    Accelerate(Box<accelerate::AccelerateArgs>),
    /// Generate sequences
    Sample(sample::SampleArgs),
    /// Write what is missing in a text
    Fill(fill::Args),
    /// Measure generated sequences: likelihood and variety
    Eval(eval::Args),
    /// Encode, accelerate and sample with a MaskGIT and a VQGAN, as on ImageNet
    Maskgit(maskgit::Args),
    /// Measure pictures: FID, Inception Score, precision, recall, density and coverage
    Metrics(metrics::Args),
    /// Turn text into symbols to train on
    Data(Box<data::Args>),
    /// Train a tokenizer on pictures, which makes codes of their patches
    Tokenizer(tokenizer::Args),
    /// Test whether draws follow their laws: ours, or another program's
    Audit(audit::Args),
    /// Time the engine: products, passes, training and sampling steps
    Bench(bench::Args),
    /// Say what a checkpoint is and whether it can be loaded
    Doctor(doctor::Args),
}

/// Why a command did not do its job.
pub enum Failure {
    /// What was asked makes no sense: exit 2.
    Usage(String),
    /// It was tried and did not work: exit 1.
    Failed(String),
    /// Interrupted, partial results written: exit 130.
    Interrupted,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    if let Some(threads) = cli.threads {
        // Fails only if the pool exists already, which it cannot here.
        let _ = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.into())
            .build_global();
    }
    let result = match cli.command {
        Command::Verify(args) => verify::run(&args),
        Command::Potts(args) => potts::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Text(args) => text::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Train(args) => train::train(&args),
        Command::Accelerate(args) => accelerate::accelerate(&args),
        Command::Sample(args) => sample::sample(&args),
        Command::Fill(args) => fill::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Maskgit(args) => maskgit::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Tokenizer(args) => tokenizer::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            eprintln!("fewstep: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            eprintln!("fewstep: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Interrupted) => ExitCode::from(130),
    }
}

/// Help and version as they are; a wrong argument in one line.
fn refuse(error: &clap::Error) -> ExitCode {
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !error.use_stderr() {
        // A closed pipe is no reason to fail.
        let _ = error.print();
    } else {
        let text = error.to_string();
        let what = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = what.split_whitespace().collect();
        let line = words.join(" ");
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        eprintln!("fewstep: {line}; see --help");
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
