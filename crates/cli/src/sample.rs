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

use crate::{Failure, generation::Generation, parse};

/// Arguments of `fewstep sample`.
#[derive(ClapArgs)]
pub struct SampleArgs {
    #[command(flatten)]
    generation: Generation,
    /// Sequences
    #[arg(long, short = 'n', default_value_t = 4)]
    count: usize,
    /// Keep only the likeliest symbols that reach this probability together
    #[arg(long, default_value_t = 1.0, value_parser = parse::share)]
    nucleus: f64,
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
    /// Points of any other grid, increasing from 0 to 1, as in 0,0.3,0.7,1
    #[arg(long, conflicts_with = "steps", allow_hyphen_values = true, value_parser = parse::grid)]
    grid: Option<Grid>,
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

/// Prints sequences.
pub fn sample(args: &SampleArgs) -> Result<(), Failure> {
    let model = args.generation.open()?;
    if args.nucleus < 1.0 {
        eprintln!(
            "fewstep: --nucleus cuts the predicted law; the kernel of a step is then no longer \
             calibrated"
        );
    }
    let grid = args.generation.grid()?;
    let how = Decoding {
        nucleus: args.nucleus,
        ..args.generation.decoding(&model)
    };
    let start = Instant::now();
    let of = (args.count, args.generation.seed);
    let mut onlooker = args.generation.onlooker(&model, &grid)?;
    let (x, evaluations) = model.watched(&grid, how, of, |done, state| onlooker.see(done, state));
    let seconds = start.elapsed().as_secs_f64();
    onlooker.finish()?;
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
    let mut model = Model::open(&args.from).map_err(|e| Failure::Usage(e.to_string()))?;
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
    let grids: Result<Vec<Grid>, _> = match &args.grid {
        Some(grid) => Ok(vec![grid.clone()]),
        None => args
            .steps
            .iter()
            .map(|&k| Grid::uniform(k as usize))
            .collect(),
    };
    for grid in grids.map_err(|e| Failure::Usage(e.to_string()))? {
        for &gain in &args.gains {
            for &temperature in &args.temperatures {
                let how = Decoding {
                    temperature,
                    ..Decoding::default()
                };
                let of = (args.samples, args.seed);
                let start = Instant::now();
                let (x, evaluations) = model.generate(&grid, (how, gain), of);
                let seconds = start.elapsed().as_secs_f64();
                let q = quality(&language, &x, model.length);
                if args.json {
                    println!(
                        "{}",
                        json!({
                            "k": grid.steps(), "grid": args.grid.as_ref().map(Grid::points),
                            "nfe": evaluations, "temperature": temperature,
                            "gain": gain, "seconds": seconds, "language_nll": own, "quality": q,
                        })
                    );
                } else {
                    print(grid.steps(), evaluations, temperature, gain, &q);
                }
            }
        }
    }
    Ok(())
}

fn print(steps: usize, evaluations: usize, temperature: f64, gain: f64, q: &Quality) {
    println!(
        "{steps:4}  {evaluations:4}  {temperature:11.2}  {gain:5.2}  {:8.4} +- {:.4}  {:7.4}  {:9.4}  {:8.4}",
        q.nll, q.nll_error, q.entropy, q.bigram, q.distinct
    );
}
