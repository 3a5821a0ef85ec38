//! `fewstep image`: the experiment on pictures, in one command.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use fewstep::{
    image::{self, Plan},
    metrics::Eye,
    sequence::{Chain, Corpus, Data, RunError},
    text::Method,
};

use crate::{Failure, methods, parse, progress::Progress, tokenizer::Sizes, train::ChainName};

/// Symbols of pictures.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Tokens {
    /// Codes of patches, by a tokenizer that is trained first
    Codes,
    /// Pixels
    Pixels,
}

/// Train a tokenizer and class-conditional denoisers on the built-in pictures, or on others, accelerate them,
/// sample in few steps, read the pictures back and write a report.
#[derive(ClapArgs)]
pub struct Args {
    /// Directory for the runs, points.jsonl, pictures, report.html and report.json
    #[arg(long, default_value = "runs/image")]
    out: PathBuf,
    /// Pictures prepared by `fewstep data`, or their codes by `fewstep tokenizer`; without them, the built-in
    /// ones
    #[arg(long)]
    data: Option<PathBuf>,
    /// What pictures are made of; data that are codes stay what they are
    #[arg(long, value_enum, default_value = "codes")]
    tokens: Tokens,
    #[command(flatten)]
    tokenizer: Sizes,
    /// Chains
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform")]
    chains: Vec<ChainName>,
    /// Methods on top of each chain's denoiser, all with as many network evaluations
    #[arg(long, value_parser = methods::parser(Method::all().into_iter().map(|m| (m.name(), m.about())), Method::parse),
          value_delimiter = ',', default_value = "linear")]
    methods: Vec<Method>,
    /// Seeds of trainings and draws
    #[arg(long, value_delimiter = ',', default_value = "0")]
    seeds: Vec<u64>,
    /// Channels
    #[arg(long)]
    width: Option<usize>,
    /// Transformer blocks
    #[arg(long)]
    blocks: Option<usize>,
    /// Attention heads
    #[arg(long)]
    heads: Option<usize>,
    /// Training steps of a denoiser
    #[arg(long)]
    base_steps: Option<u64>,
    /// Training steps of an acceleration
    #[arg(long)]
    acceleration_steps: Option<u64>,
    /// Pictures of a training step
    #[arg(long)]
    batch: Option<usize>,
    /// Numbers of sampling steps K
    #[arg(long, value_delimiter = ',')]
    steps: Option<Vec<usize>>,
    /// Temperatures
    #[arg(long, value_delimiter = ',', value_parser = parse::positive)]
    temperatures: Option<Vec<f64>>,
    /// Gains on the correction
    #[arg(long, value_delimiter = ',', value_parser = parse::number)]
    gains: Option<Vec<f64>>,
    /// Scales of classifier-free guidance
    #[arg(long, value_delimiter = ',', value_parser = parse::number)]
    guidance: Option<Vec<f64>>,
    /// Pictures behind each point
    #[arg(long)]
    samples: Option<usize>,
    /// Weights of the FID's Inception network: FID, Inception Score, precision, recall, density and coverage of
    /// every point, against validation pictures
    #[arg(long, value_name = "WEIGHTS")]
    inception: Option<PathBuf>,
    /// Go on with the experiment in the directory
    #[arg(long)]
    resume: bool,
}

impl Args {
    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = Plan::tiny();
        if let Some(dir) = &self.data {
            plan.data = Data::Shards(dir.clone());
        }
        let corpus = Corpus::open(&plan.data).map_err(|e| Failure::Usage(e.to_string()))?;
        let codes = self.tokens == Tokens::Codes && corpus.coder().is_none();
        let format = corpus.format().filter(|_| codes);
        plan.tokenizer = format.map(|format| self.tokenizer.of(format));
        let t = &mut plan.trainings;
        t.chains = self.chains.iter().map(|&c| Chain::from(c)).collect();
        t.methods.clone_from(&self.methods);
        t.seeds.clone_from(&self.seeds);
        let set = |to: &mut usize, given: Option<usize>| *to = given.unwrap_or(*to);
        set(&mut t.sizes.width, self.width);
        set(&mut t.sizes.blocks, self.blocks);
        set(&mut t.sizes.heads, self.heads);
        set(&mut t.base.batch, self.batch);
        set(&mut t.accelerated.batch, self.batch);
        set(&mut t.samples, self.samples);
        t.base.steps = self.base_steps.unwrap_or(t.base.steps);
        t.accelerated.steps = self.acceleration_steps.unwrap_or(t.accelerated.steps);
        for (to, given) in [
            (&mut t.temperatures, &self.temperatures),
            (&mut t.gains, &self.gains),
            (&mut plan.guidance, &self.guidance),
        ] {
            if let Some(given) = given {
                to.clone_from(given);
            }
        }
        if let Some(steps) = &self.steps {
            t.steps.clone_from(steps);
        }
        Ok(plan)
    }
}

/// Runs the experiment and writes its report, also of what there is when it is stopped.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = args
        .plan()?
        .checked()
        .map_err(|e| Failure::Usage(e.to_string()))?;
    let eye = args.inception.as_deref().map(Eye::open).transpose();
    let eye = eye.map_err(|e| Failure::Failed(e.to_string()))?;
    let progress = Progress::new(None)?;
    let found = image::run(&args.out, plan, eye.as_ref(), args.resume, &progress);
    let (findings, done) = found.map_err(|e| match e {
        RunError::Refused(why) => Failure::Usage(why),
        other => Failure::Failed(other.to_string()),
    })?;
    image::write(&findings, &args.out).map_err(|e| Failure::Failed(e.to_string()))?;
    print!("{}", image::table(&findings));
    println!("\n{}", args.out.join("report.html").display());
    if done {
        return Ok(());
    }
    eprintln!("fewstep: interrupted; the report is of what there is, go on with --resume");
    Err(Failure::Interrupted)
}
