//! `fewstep train`: a denoiser; and what it has in common with `fewstep accelerate`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use fewstep::sequence::{
    Chain, Corpus, Curriculum, Data, Loss, Optimization, Optimizer, Outcome, Prediction, Setting,
    Sizes, Trainer,
};
use fewstep_ctmc::language::Concentration;

use crate::{Failure, parse, progress::Progress};

/// The highest learning rate of what starts from nothing.
pub const RATE: f64 = 2e-3;

/// The chain that carries noise to data.
#[derive(Clone, Copy, ValueEnum)]
pub enum ChainName {
    /// From a mask (MDLM, LLaDA)
    Masked,
    /// From masks among uniform noise (ReDi's image models), so that pairs can be trained on
    StochasticMask,
    /// From uniform noise, each symbol switching once
    Uniform,
    /// From uniform noise, the time reversal of re-randomisation (DUO)
    UniformState,
}

impl From<ChainName> for Chain {
    fn from(name: ChainName) -> Self {
        match name {
            ChainName::Masked => Self::Masked,
            ChainName::StochasticMask => Self::StochasticMask,
            ChainName::Uniform => Self::Uniform,
            ChainName::UniformState => Self::UniformState,
        }
    }
}

/// What makes steps of gradients.
#[derive(Clone, Copy, ValueEnum)]
enum OptimizerName {
    /// Adam, as the public checkpoints were trained
    Adam,
    /// Muon for the matrices inside the network, Adam for the rest: fewer steps from scratch
    Muon,
}

impl From<OptimizerName> for Optimizer {
    fn from(name: OptimizerName) -> Self {
        match name {
            OptimizerName::Adam => Self::Adam,
            OptimizerName::Muon => Self::Muon,
        }
    }
}

/// What both commands have in common.
#[derive(ClapArgs)]
pub struct Common {
    /// Directory of the run
    #[arg(long)]
    out: PathBuf,
    /// Training steps
    #[arg(long)]
    steps: Option<u64>,
    /// Sequences a step
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Highest learning rate (2e-3 unless told; 3e-4 where a method trains all weights of a run)
    #[arg(long)]
    rate: Option<f64>,
    /// Steps until it is reached; afterwards it falls by a cosine
    #[arg(long, default_value_t = 100)]
    warmup: u64,
    /// Share of the old average of the weights that is kept each step
    #[arg(long, default_value_t = 0.999)]
    ema: f64,
    /// Norm that gradients are clipped to
    #[arg(long, default_value_t = 1.0)]
    clip: f64,
    /// What makes steps of gradients
    #[arg(long, value_enum, default_value = "adam")]
    optimizer: OptimizerName,
    /// Seed of data, noise and weights
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Go on with the run in the directory
    #[arg(long)]
    resume: bool,
    /// Seconds between two saved states; what was done since is lost when the program is killed
    #[arg(long, default_value_t = 30)]
    save_seconds: u64,
    /// Steps between two measurements of the bound, the identity's residual and a few samples
    #[arg(long, default_value_t = 500)]
    look_every: u64,
}

impl Common {
    /// The optimization, of so many steps and at such a rate unless told.
    pub fn optimization(&self, steps: u64, rate: f64) -> Optimization {
        Optimization {
            steps: self.steps.unwrap_or(steps),
            batch: self.batch,
            rate: self.rate.unwrap_or(rate),
            warmup: self.warmup,
            ema: self.ema,
            clip: self.clip,
            seed: self.seed,
            optimizer: self.optimizer.into(),
        }
    }
}

/// Arguments of `fewstep train`.
#[derive(ClapArgs)]
pub struct TrainArgs {
    #[command(flatten)]
    common: Common,
    /// The chain that carries noise to data
    #[arg(long, value_enum, default_value = "masked")]
    chain: ChainName,
    /// The run or checkpoint to start from: its weights, its sizes and, unless --data is given, its data.
    /// A masked denoiser so learns masks among noise (ReDi's first round on images)
    #[arg(long, conflicts_with_all = ["symbols", "states", "language", "transition", "emission", "length", "width", "blocks", "heads", "prediction"])]
    from: Option<PathBuf>,
    /// Token shards made by `fewstep data`, of text or of pictures, or a directory of `fewstep tokenizer`;
    /// without them, the built-in language
    #[arg(long)]
    data: Option<PathBuf>,
    /// The built-in pictures instead of the built-in language
    #[arg(long, conflicts_with = "data")]
    figures: bool,
    /// Symbols of the built-in language
    #[arg(long, default_value_t = 64, conflicts_with = "data")]
    symbols: usize,
    /// Hidden states of the built-in language
    #[arg(long, default_value_t = 64, conflicts_with = "data")]
    states: usize,
    /// Which built-in language
    #[arg(long, default_value_t = 0, conflicts_with = "data")]
    language: u64,
    /// How varied its next state is given a state: the sum of a row's Dirichlet parameters
    #[arg(long, default_value_t = Concentration::default().transition, value_parser = parse::positive, conflicts_with = "data")]
    transition: f64,
    /// How varied a state's symbol is, likewise
    #[arg(long, default_value_t = Concentration::default().emission, value_parser = parse::positive, conflicts_with = "data")]
    emission: f64,
    /// What the denoiser is trained on (cross-entropy on the uniform chain, else the bound, unless told)
    #[arg(long, value_enum)]
    loss: Option<LossName>,
    /// DUO's curriculum, on chains from uniform noise: in this share of the steps the network reads
    /// combinations of symbols in place of one
    #[arg(long, value_name = "SHARE")]
    curriculum: Option<f64>,
    /// Temperature of the combinations in the first and the last step of --curriculum
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], default_values_t = [0.03, 0.001], requires = "curriculum")]
    tau: Vec<f64>,
    /// Symbols beside the data's that a combination has
    #[arg(long, default_value_t = 16, requires = "curriculum")]
    soft_symbols: usize,
    /// What the network predicts of a coordinate, where noise is uniform
    #[arg(long, value_enum, default_value = "others")]
    prediction: PredictionName,
    /// Positions of a sequence (64 unless told); of pictures it is known
    #[arg(long)]
    length: Option<usize>,
    /// Channels
    #[arg(long, default_value_t = 128)]
    width: usize,
    /// Transformer blocks
    #[arg(long, default_value_t = 4)]
    blocks: usize,
    /// Attention heads
    #[arg(long, default_value_t = 4)]
    heads: usize,
}

/// What a denoiser is trained on.
#[derive(Clone, Copy, ValueEnum)]
enum LossName {
    /// The bound on -log p(x_1) that belongs to the chain: MDLM's on masks, DUO's on the uniform-state chain
    Bound,
    /// The cross-entropy of the datum at every coordinate that can move, all times alike
    CrossEntropy,
    /// On masks: the same at MaskGIT's mask ratios, arccos(u)/(pi/2)
    Arccos,
}

impl From<LossName> for Loss {
    fn from(name: LossName) -> Self {
        match name {
            LossName::Bound => Self::Bound,
            LossName::CrossEntropy => Self::CrossEntropy,
            LossName::Arccos => Self::Arccos,
        }
    }
}

/// What the network predicts.
#[derive(Clone, Copy, ValueEnum)]
enum PredictionName {
    /// The posterior of its data symbol
    Posterior,
    /// What the other coordinates say, as DUO; the likelihood of its own state is multiplied in
    Others,
}

impl From<PredictionName> for Prediction {
    fn from(name: PredictionName) -> Self {
        match name {
            PredictionName::Posterior => Self::Posterior,
            PredictionName::Others => Self::Others,
        }
    }
}

/// Trains a denoiser.
pub fn train(args: &TrainArgs) -> Result<(), Failure> {
    let before = match &args.from {
        Some(from) => Some(Setting::of(from).map_err(|e| Failure::Usage(e.to_string()))?),
        None => None,
    };
    let data = match &args.data {
        Some(dir) => Data::Shards(dir.clone()),
        None if args.figures => Data::Figures,
        None => Data::Language {
            symbols: args.symbols,
            states: args.states,
            seed: args.language,
            transition: args.transition,
            emission: args.emission,
        },
    };
    let corpus = Corpus::open(&data).map_err(|e| Failure::Usage(e.to_string()))?;
    let length = args.length.or(corpus.length()).unwrap_or(64);
    let chain = Chain::from(args.chain);
    let mut setting = Setting {
        chain,
        data,
        sizes: Sizes {
            length,
            width: args.width,
            blocks: args.blocks,
            heads: args.heads,
        },
        prediction: args.prediction.into(),
        optimization: args.common.optimization(2000, RATE),
        start: args.from.clone(),
        curriculum: args.curriculum.map(|share| Curriculum {
            share,
            tau: (args.tau[0], args.tau[1]),
            symbols: args.soft_symbols,
        }),
        acceleration: None,
        carried: 0,
        loss: args.loss.map_or(chain.loss(), Loss::from),
    };
    if let Some(before) = before {
        setting.data = before.data;
        setting.sizes = before.sizes;
        // What is said of a masked position is what the others say.
        let masked = before.chain == Chain::Masked;
        setting.prediction = match masked {
            true => Prediction::Others,
            false => before.prediction,
        };
    }
    if let Some(dir) = &args.data {
        setting.data = Data::Shards(dir.clone());
    }
    run(&args.common, setting)
}

/// Trains what a setting asks for.
pub fn run(common: &Common, setting: Setting) -> Result<(), Failure> {
    let trainer = Trainer::open(&common.out, setting, common.resume)
        .map_err(|e| Failure::Usage(e.to_string()))?;
    let progress = Progress::new(None)?;
    let outcome = trainer.run(
        &progress,
        (Duration::from_secs(common.save_seconds), common.look_every),
    );
    let Outcome {
        steps,
        stopped,
        bound,
        exact,
        ..
    } = outcome.map_err(|e| Failure::Failed(e.to_string()))?;
    let exact = exact.map_or_else(String::new, |e| format!(", the exact one's {e:.4}"));
    println!(
        "{} after {steps} steps: the denoiser's bound is {bound:.4} nats a symbol on validation \
         sequences{exact}",
        common.out.display()
    );
    if stopped {
        eprintln!("fewstep: interrupted; go on with --resume");
        return Err(Failure::Interrupted);
    }
    Ok(())
}
