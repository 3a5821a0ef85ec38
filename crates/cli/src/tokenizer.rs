//! `fewstep tokenizer`: codes for the patches of pictures.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use fewstep::{
    image::{Format, Tokenization, tokenize},
    sequence::{Corpus, Data, RunError},
};

use crate::{Failure, parse, progress::Progress};

/// Sizes of a tokenizer and its training; what is not given suits the pictures.
#[derive(ClapArgs)]
pub struct Sizes {
    /// Tokenizer: pixels of a patch's side (3 or 2 for pictures to 16 pixels a side, else 4, 2 or 3)
    #[arg(long)]
    patch: Option<usize>,
    /// Tokenizer: codes (128 for pictures to 16 pixels a side, else 256)
    #[arg(long)]
    codes: Option<usize>,
    /// Tokenizer: training steps
    #[arg(long)]
    tokenizer_steps: Option<u64>,
}

impl Sizes {
    /// For pictures of a format.
    pub fn of(&self, format: Format) -> Tokenization {
        let usual = Tokenization::of(format);
        Tokenization {
            patch: self.patch.unwrap_or(usual.patch),
            codes: self.codes.unwrap_or(usual.codes),
            steps: self.tokenizer_steps.unwrap_or(usual.steps),
            ..usual
        }
    }
}

/// Train a small tokenizer on pictures and write their codes, which everything else takes as --data: sequences
/// a patch's area shorter, shown as pixels again.
#[derive(ClapArgs)]
pub struct Args {
    /// Pictures prepared by `fewstep data --pixels`; without them, the built-in ones
    #[arg(long)]
    data: Option<PathBuf>,
    /// Directory for the tokenizer and the codes
    #[arg(long)]
    out: PathBuf,
    /// Use the tokenizer of this directory as it is
    #[arg(long, conflicts_with_all = ["patch", "codes", "tokenizer_steps", "batch", "rate", "seed"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    sizes: Sizes,
    /// Pictures of a step
    #[arg(long)]
    batch: Option<usize>,
    /// Highest learning rate
    #[arg(long, value_parser = parse::positive)]
    rate: Option<f64>,
    /// Seed of weights and draws
    #[arg(long)]
    seed: Option<u64>,
    /// Go on with the training in the directory
    #[arg(long)]
    resume: bool,
}

/// Trains, codes the data and says what comes back of them.
pub fn run(args: &Args) -> Result<(), Failure> {
    let refused = |e: RunError| Failure::Usage(e.to_string());
    let data = args.data.clone().map_or(Data::Figures, Data::Shards);
    let format = Corpus::open(&data).map_err(refused)?.format();
    let asked = args.sizes.of(format.unwrap_or(Format::FIGURES));
    let asked = Tokenization {
        batch: args.batch.unwrap_or(asked.batch),
        rate: args.rate.unwrap_or(asked.rate),
        seed: args.seed.unwrap_or(asked.seed),
        ..asked
    };
    let progress = Progress::new(None)?;
    let how = (&asked, args.from.as_deref());
    let found = tokenize(&args.out, &data, how, args.resume, &progress).map_err(|e| match e {
        RunError::Refused(_) | RunError::Data(_) => refused(e),
        other => Failure::Failed(other.to_string()),
    })?;
    let Some(found) = found else {
        eprintln!("fewstep: interrupted; go on with --resume");
        return Err(Failure::Interrupted);
    };
    println!("{}: {}", args.out.display(), found.words());
    Ok(())
}
