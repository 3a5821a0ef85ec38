//! `fewstep sample` and `fewstep eval`: sequences from a run, and numbers about them.

use std::{path::PathBuf, time::Instant};

use clap::Args as ClapArgs;
use fewstep::sequence::{
    Model,
    evaluate::{Quality, quality},
    sampler::Decoding,
};
use fewstep_ctmc::Grid;
use serde_json::json;

use crate::{Failure, parse};

/// Arguments of `fewstep sample`.
#[derive(ClapArgs)]
pub struct SampleArgs {
    /// The run to sample from
    #[arg(long)]
    from: PathBuf,
    /// Steps K of a uniform grid
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Sequences
    #[arg(long, short = 'n', default_value_t = 4)]
    count: usize,
    /// Divides the logits
    #[arg(long, default_value_t = 1.0, value_parser = parse::positive)]
    temperature: f64,
    /// Multiplies the correction; 0 is the denoiser alone
    #[arg(long, default_value_t = 1.0, value_parser = parse::number)]
    gain: f64,
    /// Keep only the likeliest symbols that reach this probability together
    #[arg(long, default_value_t = 1.0, value_parser = parse::share)]
    nucleus: f64,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One line of JSON a sequence
    #[arg(long)]
    json: bool,
}

/// Arguments of `fewstep eval`.
#[derive(ClapArgs)]
pub struct EvalArgs {
    /// The run to evaluate
    #[arg(long)]
    from: PathBuf,
    /// Numbers of steps
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 128],
          value_parser = clap::value_parser!(u32).range(1..))]
    steps: Vec<u32>,
    /// Temperatures
    #[arg(long, value_delimiter = ',', default_values_t = [1.0], value_parser = parse::positive)]
    temperatures: Vec<f64>,
    /// Gains on the correction
    #[arg(long, value_delimiter = ',', default_values_t = [1.0], value_parser = parse::number)]
    gains: Vec<f64>,
    /// Sequences of each setting
    #[arg(long, default_value_t = 256)]
    samples: usize,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One line of JSON a setting
    #[arg(long)]
    json: bool,
}

/// Sequences, evaluations of the network, seconds.
fn generate(
    model: &mut Model,
    steps: u32,
    how: (Decoding, f64),
    of: (usize, u64),
) -> Result<(Vec<usize>, usize, f64), Failure> {
    let start = Instant::now();
    let grid = Grid::uniform(steps as usize).map_err(|e| Failure::Usage(e.to_string()))?;
    let (x, evaluations) = model.generate(&grid, how, of);
    Ok((x, evaluations, start.elapsed().as_secs_f64()))
}

fn open(from: &std::path::Path) -> Result<Model, Failure> {
    Model::open(from).map_err(|e| Failure::Usage(e.to_string()))
}

/// Prints sequences.
pub fn sample(args: &SampleArgs) -> Result<(), Failure> {
    let mut model = open(&args.from)?;
    if args.nucleus < 1.0 {
        eprintln!(
            "fewstep: --nucleus cuts the predicted law; the kernel of a step is then no longer \
             calibrated"
        );
    }
    if args.gain != 1.0 && !model.corrected() {
        eprintln!("fewstep: this run has no correction; --gain changes nothing");
    }
    let how = Decoding {
        temperature: args.temperature,
        nucleus: args.nucleus,
        ..Decoding::default()
    };
    let (x, evaluations, seconds) = generate(
        &mut model,
        args.steps,
        (how, args.gain),
        (args.count, args.seed),
    )?;
    for sequence in x.chunks_exact(model.length) {
        if args.json {
            let text = model.corpus.show(sequence);
            println!("{}", json!({ "symbols": sequence, "text": text }));
        } else {
            println!("{}\n", model.corpus.show(sequence));
        }
    }
    eprintln!(
        "{} sequences of {} symbols, {evaluations} network evaluations each, {seconds:.1} s",
        args.count, model.length
    );
    Ok(())
}

/// Prints a table of numbers.
pub fn eval(args: &EvalArgs) -> Result<(), Failure> {
    let mut model = open(&args.from)?;
    if args.samples < 2 {
        return Err(Failure::Usage("--samples must be at least 2".into()));
    }
    let Some(language) = model.corpus.language().cloned() else {
        return Err(Failure::Usage(
            "this run's data have no known law to be judged by".into(),
        ));
    };
    let (own, error) = language.entropy(model.length, 2000, args.seed);
    if !args.json {
        println!("the language itself: {own:.4} +- {error:.4} nats a symbol\n");
        println!(
            "   K   NFE  temperature   gain       NLL             entropy  bigram TV  distinct"
        );
    }
    for &steps in &args.steps {
        for &gain in &args.gains {
            for &temperature in &args.temperatures {
                let how = Decoding {
                    temperature,
                    ..Decoding::default()
                };
                let of = (args.samples, args.seed);
                let (x, evaluations, seconds) = generate(&mut model, steps, (how, gain), of)?;
                let q = quality(&language, &x, model.length);
                if args.json {
                    println!(
                        "{}",
                        json!({
                            "k": steps, "nfe": evaluations, "temperature": temperature,
                            "gain": gain, "seconds": seconds, "language_nll": own, "quality": q,
                        })
                    );
                } else {
                    print(steps, evaluations, temperature, gain, &q);
                }
            }
        }
    }
    Ok(())
}

fn print(steps: u32, evaluations: usize, temperature: f64, gain: f64, q: &Quality) {
    println!(
        "{steps:4}  {evaluations:4}  {temperature:11.2}  {gain:5.2}  {:8.4} +- {:.4}  {:7.4}  {:9.4}  {:8.4}",
        q.nll, q.nll_error, q.entropy, q.bigram, q.distinct
    );
}
