//! `fewstep maskgit`: pictures by a MaskGIT and a VQGAN, as in the paper's ImageNet run.

use std::{path::PathBuf, time::Instant};

use clap::{Args as ClapArgs, Subcommand};
use fewstep::{
    lab::Monitor,
    paint::{Accelerate, Codes, PaintError, Painter, Way, accelerate, write_random},
    report::atomic,
    sequence::sampler::Decoding,
};

use crate::{Failure, order::OrderArgs, parse, progress::Progress};

/// Pictures by the networks of the paper's ImageNet run, read from their published files.
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Turn pictures into codes to train on
    Encode(EncodeArgs),
    /// Teach a MaskGIT to take large steps (eq. loss-masked)
    Accelerate(AccelerateArgs),
    /// Generate pictures
    Sample(Box<SampleArgs>),
    /// Write networks with random weights, to try a whole run with
    Random(RandomArgs),
}

/// Encode a directory of pictures, a folder for each class, by a VQGAN: a NumPy file with a row for each
/// picture, its codes and its class.
#[derive(ClapArgs)]
struct EncodeArgs {
    /// The pictures
    input: PathBuf,
    /// The VQGAN: last.ckpt, or a .safetensors file
    #[arg(long)]
    vqgan: PathBuf,
    /// The file of the codes
    #[arg(long)]
    out: PathBuf,
    /// Pixels of a side that pictures are cut and brought to
    #[arg(long, default_value_t = 256)]
    pixels: usize,
}

/// Train a MaskGIT on the average generator as the paper does on ImageNet; writes maskgit.safetensors and
/// a state to go on from.
#[derive(ClapArgs)]
struct AccelerateArgs {
    /// The MaskGIT: MaskGIT_ImageNet_256.pth, or a .safetensors file
    #[arg(long)]
    from: PathBuf,
    /// Codes of `fewstep maskgit encode`
    #[arg(long)]
    codes: PathBuf,
    /// Directory of the run
    #[arg(long)]
    out: PathBuf,
    /// Training steps
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Pictures of a step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// Learning rate
    #[arg(long, default_value_t = 1e-4, value_parser = parse::positive)]
    rate: f64,
    /// Steps in which it rises
    #[arg(long, default_value_t = 100)]
    warmup: u64,
    /// How much of the average of the weights is kept in a step
    #[arg(long, default_value_t = 0.999, value_parser = parse::share)]
    ema: f64,
    /// Steps between two states that are kept
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Of all draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Go on with the run in the directory
    #[arg(long)]
    resume: bool,
}

/// Generate pictures of ImageNet's classes in few steps with a MaskGIT, published or accelerated, and
/// decode them by a VQGAN to PNG files.
#[derive(ClapArgs)]
struct SampleArgs {
    /// The MaskGIT: MaskGIT_ImageNet_256.pth, or a .safetensors file
    #[arg(long, required_unless_present = "random", requires = "vqgan")]
    maskgit: Option<PathBuf>,
    /// The VQGAN: last.ckpt, or a .safetensors file
    #[arg(long, required_unless_present = "random", requires = "maskgit")]
    vqgan: Option<PathBuf>,
    /// Random weights of the published sizes instead, to try a machine
    #[arg(long, conflicts_with_all = ["maskgit", "vqgan"])]
    random: bool,
    /// Directory for the pictures, 000000.png and on
    #[arg(long)]
    out: PathBuf,
    /// Pictures
    #[arg(long, short = 'n', default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Classes in turn; without them, all of them
    #[arg(long, value_delimiter = ',')]
    classes: Option<Vec<usize>>,
    /// Steps
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=4096))]
    steps: u16,
    /// Classifier-free guidance w: (1 + w) l(class) - w l(no class)
    #[arg(long, default_value_t = 0.0, value_parser = parse::number)]
    guidance: f64,
    /// Let it rise from 0 in the first step, as MaskGIT does
    #[arg(long)]
    rising: bool,
    /// Logits are divided by it
    #[arg(long, default_value_t = 1.0, value_parser = parse::positive)]
    temperature: f64,
    /// The gain on the correction of an accelerated MaskGIT
    #[arg(long, default_value_t = 1.0, value_parser = parse::number)]
    gain: f64,
    #[command(flatten)]
    order: OrderArgs,
    /// Pictures that are generated together
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Of the draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Write a MaskGIT and a VQGAN of the published sizes with random weights: maskgit.safetensors (0.7 GB) and
/// vqgan.safetensors (0.3 GB), which encode, accelerate, sample and doctor take like published ones.
#[derive(ClapArgs)]
struct RandomArgs {
    /// Directory for the two files
    #[arg(long)]
    out: PathBuf,
    /// Of the weights
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn failure(error: PaintError) -> Failure {
    match error {
        PaintError::File(why) => Failure::Failed(why),
        PaintError::Refused(why) => Failure::Usage(why),
    }
}

/// Runs the part.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.part {
        Part::Encode(args) => encode(args),
        Part::Accelerate(args) => train(args),
        Part::Sample(args) => sample(args),
        Part::Random(args) => {
            for file in write_random(&args.out, args.seed).map_err(failure)? {
                println!("{}", file.display());
            }
            Ok(())
        }
    }
}

fn encode(args: &EncodeArgs) -> Result<(), Failure> {
    let progress = Progress::new(None)?;
    progress.begin("encoding", 0);
    let codes = Codes::encode(&args.input, &args.vqgan, args.pixels, |done| {
        progress.advance("encoding", done);
    })
    .map_err(failure)?;
    progress.end("encoding");
    codes.write(&args.out).map_err(failure)?;
    println!("{}: {} pictures", args.out.display(), codes.count());
    Ok(())
}

fn train(args: &AccelerateArgs) -> Result<(), Failure> {
    let progress = Progress::new(None)?;
    let run = Accelerate {
        from: args.from.clone(),
        codes: args.codes.clone(),
        out: args.out.clone(),
        steps: args.steps,
        batch: args.batch as usize,
        rate: args.rate,
        warmup: args.warmup,
        decay: args.ema,
        save_every: args.save_every,
        seed: args.seed,
        resume: args.resume,
    };
    let mut last = 0.0;
    let done = accelerate(&run, &progress, |_, loss| last = loss).map_err(failure)?;
    let Some(file) = done else {
        eprintln!("fewstep: interrupted; go on with --resume");
        return Err(Failure::Interrupted);
    };
    println!("{}", file.display());
    eprintln!("{} steps, loss of the last {last:.4}", args.steps);
    Ok(())
}

fn sample(args: &SampleArgs) -> Result<(), Failure> {
    let painter = match (&args.maskgit, &args.vqgan) {
        (Some(net), Some(vqgan)) => Painter::load(net, vqgan),
        _ => Painter::random(args.seed),
    };
    let mut painter = painter.map_err(failure)?;
    *painter.gain() = args.gain;
    let all: Vec<usize> = (0..painter.classes()).collect();
    let classes = args.classes.as_ref().unwrap_or(&all);
    if classes.is_empty() {
        return Err(Failure::Usage("give at least one class".into()));
    }
    let way = Way {
        steps: args.steps.into(),
        decoding: Decoding {
            temperature: args.temperature,
            order: args.order.order(),
            ..Decoding::default()
        },
        guidance: args.guidance,
        rises: args.rising,
    };
    let cannot =
        |e: std::io::Error| Failure::Failed(format!("cannot write {}: {e}", args.out.display()));
    let progress = Progress::new(None)?;
    let start = Instant::now();
    let count = args.count as usize;
    progress.begin("codes", count as u64);
    let (codes, evaluations) = painter
        .codes(
            classes,
            &way,
            (count, args.batch.into()),
            args.seed,
            |done| {
                progress.advance("codes", done as u64);
            },
        )
        .map_err(failure)?;
    progress.end("codes");
    std::fs::create_dir_all(&args.out).map_err(cannot)?;
    progress.begin("pictures", count as u64);
    for (number, codes) in codes.chunks_exact(codes.len() / count).enumerate() {
        if progress.stopped() {
            eprintln!("fewstep: interrupted; {number} of {count} pictures are written");
            return Err(Failure::Interrupted);
        }
        let png = painter.png(codes).map_err(failure)?;
        atomic(&args.out.join(format!("{number:06}.png")), &png)
            .map_err(|e| Failure::Failed(e.to_string()))?;
        progress.advance("pictures", number as u64 + 1);
    }
    progress.end("pictures");
    println!("{}", args.out.display());
    eprintln!(
        "{count} pictures, {evaluations} network evaluations each, {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
