//! `fewstep train` and `fewstep accelerate`: a denoiser, and a method that lets it do with fewer
//! steps.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use fewstep::{
    method::Method,
    sequence::{
        Acceleration, Accelerator, Average, Chain, Corpus, Curriculum, Data, Matching,
        Optimization, Optimizer, Outcome, Pairs, Prediction, Setting, Sizes, Target, Trainer,
    },
};
use fewstep_ctmc::language::Concentration;

use crate::{
    Failure,
    methods::{self, DivergenceName, SpacingName},
    parse,
    progress::Progress,
};

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
struct Common {
    /// Directory of the run
    #[arg(long)]
    out: PathBuf,
    /// Training steps
    #[arg(long)]
    steps: Option<u64>,
    /// Sequences a step
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Highest learning rate
    #[arg(long, default_value_t = 2e-3)]
    rate: f64,
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
    fn optimization(&self, steps: u64) -> Optimization {
        Optimization {
            steps: self.steps.unwrap_or(steps),
            batch: self.batch,
            rate: self.rate,
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
    /// On the masked chain: train at MaskGIT's mask ratios, arccos(u)/(pi/2), all masked coordinates alike
    #[arg(long)]
    arccos: bool,
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

/// What is regressed.
#[derive(Clone, Copy, ValueEnum)]
enum TargetName {
    /// The signed linear target, unbiased under one draw
    Linear,
    /// The paper's shifted probability
    Paper,
}

impl From<TargetName> for Target {
    fn from(name: TargetName) -> Self {
        match name {
            TargetName::Linear => Self::Linear,
            TargetName::Paper => Self::Shifted,
        }
    }
}

/// Arguments of `fewstep accelerate`.
#[derive(ClapArgs)]
pub struct AccelerateArgs {
    #[command(flatten)]
    common: Common,
    /// The run of `fewstep train`, or a checkpoint of MDLM, SDTT or DUO, to accelerate
    #[arg(long)]
    from: PathBuf,
    /// Token shards to train on, if not the run's
    #[arg(long)]
    data: Option<PathBuf>,
    /// Positions of a sequence, if not the run's
    #[arg(long)]
    length: Option<usize>,
    /// The chain, if it is not the run's: a uniform-state denoiser serves the uniform chain too
    #[arg(long, value_enum)]
    chain: Option<ChainName>,
    /// What makes fewer steps do; a run is one round, and the next starts from it
    #[arg(long, value_parser = methods::method(), default_value = "dag")]
    method: Method,
    /// dag: what is regressed
    #[arg(long, value_enum, default_value = "linear")]
    objective: TargetName,
    /// dag, law: train all weights and not only the correction
    #[arg(long)]
    full: bool,
    /// dag, law: width of the correction's hidden layer
    #[arg(long, default_value_t = 256)]
    correction: usize,
    /// dag: draw pairs (t, r) inside the steps of uniform grids of these sizes; law: match these steps
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16, 32], conflicts_with = "logit_normal")]
    grids: Vec<usize>,
    /// dag: draw pairs from two logit-normal noise levels, as the paper does for text
    #[arg(long)]
    logit_normal: bool,
    /// dag: draw pairs as the paper does for pictures, from the arccos mask ratio and a logit-normal end
    #[arg(long, conflicts_with_all = ["logit_normal", "grids"])]
    arccos: bool,
    /// dag: share of pairs with r = t
    #[arg(long, default_value_t = 0.0)]
    at_rest: f64,
    /// dag: jumps a sequence that the transport term is averaged over
    #[arg(long, default_value_t = 1)]
    draws: usize,
    /// law: channels, blocks and heads of the network that learns conditionals, if not the run's
    #[arg(long, num_args = 1..=3, value_delimiter = ',', value_name = "WIDTH,BLOCKS,HEADS")]
    conditionals: Option<Vec<usize>>,
    /// law: highest learning rate of the conditionals
    #[arg(long, default_value_t = 1e-3)]
    conditionals_rate: f64,
    /// law: share of the steps in which the kernel's own rate rises, while conditionals are learned
    #[arg(long, default_value_t = 0.1)]
    rise: f64,
    /// law: take the law of noised data from the denoiser, in place of learning it from the data
    #[arg(long)]
    trust: bool,
    /// law: follow a target held by the average of the weights, with the denoiser's word for the data
    #[arg(long, conflicts_with = "trust")]
    follow: bool,
    /// sdtt, di4c: size of the teacher's steps; for sdtt double it each round
    #[arg(long, default_value_t = 1.0 / 64.0)]
    teacher_step: f64,
    /// sdtt: their number
    #[arg(long, default_value_t = 2)]
    teacher_steps: usize,
    /// sdtt: where they start
    #[arg(long, value_enum, default_value = "even")]
    spacing: SpacingName,
    /// sdtt, dcd: what is made small between student and teacher
    #[arg(long, value_enum, default_value = "backward-kl")]
    divergence: DivergenceName,
    /// dcd: how far apart, in DUO's time, student and teacher look; double it each round
    #[arg(long, default_value_t = 1.0 / 64.0)]
    distance: f64,
    /// di4c: latents a state in the losses
    #[arg(long, default_value_t = 8)]
    latents: usize,
    /// di4c, dimo: symbols of a latent; dimo has one on masks alone
    #[arg(long, default_value_t = 1)]
    latent_symbols: usize,
    /// di4c: how far from data distillation ends and consistency begins
    #[arg(long, default_value_t = 0.02)]
    near: f64,
    /// redi: pairs that are generated and trained on
    #[arg(long, default_value_t = 4096)]
    pairs: usize,
    /// redi: sampling steps they are made in
    #[arg(long, default_value_t = 64)]
    pair_steps: usize,
    /// dimo: share of the divergence from the run in the pull, beside that to it
    #[arg(long, default_value_t = 0.0)]
    mix: f64,
    /// dimo: highest learning rate of the denoiser of its own sequences
    #[arg(long, default_value_t = 1e-3)]
    denoiser_rate: f64,
}

impl AccelerateArgs {
    fn method(&self, chain: Chain, sizes: Sizes) -> Result<Accelerator, Failure> {
        if self.full && !matches!(self.method, Method::Dag | Method::Law) {
            return Err(Failure::Usage(
                "--full belongs to --method dag and law; leave it out".into(),
            ));
        }
        let only_law = [(self.trust, "--trust"), (self.follow, "--follow")];
        let given = only_law.iter().find(|(given, _)| *given);
        if let (Some((_, option)), true) = (given, self.method != Method::Law) {
            return Err(Failure::Usage(format!(
                "{option} belongs to --method law; leave it out"
            )));
        }
        let only_dag = [
            (self.logit_normal, "--logit-normal"),
            (self.arccos, "--arccos"),
            (self.at_rest != 0.0, "--at-rest"),
            (self.draws != 1, "--draws"),
        ];
        let given = only_dag.iter().find(|(given, _)| *given);
        if let (Some((_, option)), true) = (given, self.method != Method::Dag) {
            return Err(Failure::Usage(format!(
                "{option} belongs to --method dag; leave it out"
            )));
        }
        let divergence = self.divergence.into();
        Ok(match self.method {
            Method::Dag => Accelerator::Dag(Average {
                target: self.objective.into(),
                head_only: !self.full,
                correction: self.correction,
                pairs: if self.arccos {
                    Pairs::Arccos
                } else if self.logit_normal {
                    Pairs::LogitNormal {
                        start: (0.0, 1.5),
                        end: (-1.0, 1.5),
                    }
                } else {
                    Pairs::Grids(self.grids.clone())
                },
                at_rest: self.at_rest,
                draws: self.draws,
            }),
            Method::Law => Accelerator::Law(Matching {
                head_only: !self.full,
                correction: self.correction,
                grids: self.grids.clone(),
                conditionals: match self.conditionals.as_deref() {
                    Some(&[width, blocks, heads]) => Sizes {
                        width,
                        blocks,
                        heads,
                        ..sizes
                    },
                    None => sizes,
                    Some(_) => {
                        return Err(Failure::Usage(
                            "--conditionals takes three numbers, as in 128,3,4".into(),
                        ));
                    }
                },
                conditionals_rate: self.conditionals_rate,
                rise: self.rise,
                trust: self.trust,
                follow: self.follow,
            }),
            Method::Sdtt => Accelerator::Sdtt {
                size: self.teacher_step,
                count: self.teacher_steps,
                spacing: self.spacing.into(),
                divergence,
            },
            Method::Dcd => Accelerator::Dcd {
                distance: self.distance,
                divergence,
            },
            Method::Di4c => Accelerator::Di4c {
                latents: self.latents,
                carried: self.latent_symbols,
                step: self.teacher_step,
                near: self.near,
            },
            Method::Redi => Accelerator::Redi {
                pairs: self.pairs,
                steps: self.pair_steps,
            },
            Method::Dimo => Accelerator::Dimo {
                // From noise there is randomness enough.
                carried: match chain {
                    Chain::Masked => self.latent_symbols,
                    _ => 0,
                },
                mix: self.mix,
                denoiser_rate: self.denoiser_rate,
            },
        })
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
    let mut setting = Setting {
        chain: args.chain.into(),
        data,
        sizes: Sizes {
            length,
            width: args.width,
            blocks: args.blocks,
            heads: args.heads,
        },
        prediction: args.prediction.into(),
        optimization: args.common.optimization(2000),
        start: args.from.clone(),
        curriculum: args.curriculum.map(|share| Curriculum {
            share,
            tau: (args.tau[0], args.tau[1]),
            symbols: args.soft_symbols,
        }),
        acceleration: None,
        carried: 0,
        arccos: args.arccos,
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

/// Trains a method on top of a denoiser.
pub fn accelerate(args: &AccelerateArgs) -> Result<(), Failure> {
    let from = Setting::of(&args.from).map_err(|e| Failure::Usage(e.to_string()))?;
    let chain = args.chain.map_or(from.chain, Chain::from);
    let method = args.method(chain, from.sizes)?;
    let setting = Setting {
        arccos: false,
        carried: method.carried().unwrap_or(from.carried),
        chain,
        data: args.data.clone().map_or(from.data, Data::Shards),
        sizes: Sizes {
            length: args.length.unwrap_or(from.sizes.length),
            ..from.sizes
        },
        prediction: from.prediction,
        optimization: args.common.optimization(1000),
        start: None,
        curriculum: None,
        acceleration: Some(Acceleration {
            from: args.from.clone(),
            method,
        }),
    };
    run(&args.common, setting)
}

fn run(common: &Common, setting: Setting) -> Result<(), Failure> {
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
