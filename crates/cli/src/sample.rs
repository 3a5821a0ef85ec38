//! `fewstep sample`: sequences from a run.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args as ClapArgs;
use fewstep::{
    image::{self, Format},
    report::atomic,
    sequence::sampler::Decoding,
};
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
    /// Write pictures here: a sheet of all of them if it ends in .png, else a directory of one file each
    #[arg(long, value_name = "PLACE")]
    pictures: Option<PathBuf>,
    /// Pictures in a row of a sheet
    #[arg(long, default_value_t = 8, requires = "pictures", value_parser = clap::value_parser!(u16).range(1..))]
    columns: u16,
    /// Width of a pixel in the file
    #[arg(long, default_value_t = 4, requires = "pictures", value_parser = clap::value_parser!(u16).range(1..=64))]
    zoom: u16,
}

impl SampleArgs {
    /// Writes pictures `x`.
    fn write(&self, format: &Format, x: &[usize], place: &Path) -> Result<(), Failure> {
        let failed = Failure::Failed;
        let put = |pictures: &[usize], columns: usize, file: &Path| {
            let png = image::sheet(format, pictures, columns, self.zoom.into());
            let png = png.map_err(|e| failed(e.to_string()))?;
            atomic(file, &png).map_err(|e| failed(e.to_string()))
        };
        if place.extension().is_some_and(|ending| ending == "png") {
            return put(x, self.columns.into(), place);
        }
        std::fs::create_dir_all(place)
            .map_err(|e| failed(format!("cannot write {}: {e}", place.display())))?;
        for (number, picture) in x.chunks_exact(format.length()).enumerate() {
            put(picture, 1, &place.join(format!("{number:06}.png")))?;
        }
        Ok(())
    }
}

/// Prints sequences.
pub fn sample(args: &SampleArgs) -> Result<(), Failure> {
    let model = args.generation.open()?;
    if args.pictures.is_some() && model.corpus.format().is_none() {
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
    if let (Some(place), Some(format)) = (&args.pictures, model.corpus.format()) {
        args.write(&format, &x, place)?;
        println!("{}", place.display());
    }
    for sequence in x.chunks_exact(model.length) {
        if args.pictures.is_some() && !args.json {
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
