//! `fewstep sample`: sequences from a run.

use std::time::Instant;

use clap::Args as ClapArgs;
use fewstep::sequence::sampler::Decoding;
use serde_json::json;

use crate::{Failure, generation::Generation, parse, pictures::Files};

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
    #[command(flatten)]
    files: Files,
}

/// Prints sequences.
pub fn sample(args: &SampleArgs) -> Result<(), Failure> {
    let model = args.generation.open()?;
    if args.files.place.is_some() && model.corpus.format().is_none() {
        return Err(Failure::Usage(
            "this run is of text; leave out --pictures".into(),
        ));
    }
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
    if let Some(format) = model.corpus.format() {
        args.files.write(&format, &model.corpus.pixels(&x))?;
    }
    for sequence in x.chunks_exact(model.length) {
        if args.files.place.is_some() && !args.json {
            break;
        }
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
