//! `fewstep accelerate`: a method that lets a denoiser do with fewer steps.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use fewstep::{
    method::Method,
    sequence::{
        Acceleration, Accelerator, Average, Chain, Corpus, Data, Loss, Matching, Pairs, Setting,
        Sizes, Target,
    },
};
use fewstep_nn::Adaptation;

use crate::{
    Failure,
    methods::{self, DivergenceName, SpacingName},
    train::{ChainName, Common, RATE, run},
};

/// The highest learning rate of methods that train all weights of a run: at the rate of what starts from nothing it
/// forgets more than it learns.
const GENTLE_RATE: f64 = 3e-4;

/// Which weights an acceleration trains.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum AdaptName {
    /// The correction's own; the denoiser stays as it is
    Head,
    /// All
    Full,
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
    /// What makes fewer steps do; a run is one round, and the next starts from it. Unless told, what was
    /// measured to be best: law for text, dag for pictures and on the stochastic-mask chain
    #[arg(long, value_parser = methods::method())]
    method: Option<Method>,
    /// dag: what is regressed
    #[arg(long, value_enum, default_value = "linear")]
    objective: TargetName,
    /// dag, law: what is trained (the head for dag, all for law, unless told)
    #[arg(long, value_enum)]
    adapt: Option<AdaptName>,
    /// dag, law: width of the correction's hidden layer
    #[arg(long, default_value_t = 256)]
    correction: usize,
    /// dag: draw pairs (t, r) inside the steps of uniform grids of these sizes (2,4,8,16,32 unless told); law: match
    /// these steps (4, which serves 8 and 16 too)
    #[arg(long, value_delimiter = ',', conflicts_with = "logit_normal")]
    grids: Option<Vec<usize>>,
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
    /// di4c, dimo, law: symbols of a latent (1, for law 8, unless told); dimo and law have one on masks alone
    #[arg(long)]
    latent_symbols: Option<usize>,
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
    fn method(&self, method: Method, chain: Chain, from: &Setting) -> Result<Accelerator, Failure> {
        let sizes = from.sizes;
        if self.adapt.is_some() && !matches!(method, Method::Dag | Method::Law) {
            return Err(Failure::Usage(
                "--adapt belongs to --method dag and law; leave it out".into(),
            ));
        }
        let grids = |unless_told: &[usize]| self.grids.clone().unwrap_or(unless_told.to_vec());
        let head_only = |unless_told| self.adapt.unwrap_or(unless_told) == AdaptName::Head;
        let carried = self.latent_symbols.unwrap_or(match method {
            Method::Law => Matching::CARRIED,
            _ => 1,
        });
        let only_law = [(self.trust, "--trust"), (self.follow, "--follow")];
        let given = only_law.iter().find(|(given, _)| *given);
        if let (Some((_, option)), true) = (given, method != Method::Law) {
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
        if let (Some((_, option)), true) = (given, method != Method::Dag) {
            return Err(Failure::Usage(format!(
                "{option} belongs to --method dag; leave it out"
            )));
        }
        let divergence = self.divergence.into();
        Ok(match method {
            Method::Dag => Accelerator::Dag(Average {
                target: self.objective.into(),
                head_only: head_only(AdaptName::Head),
                correction: self.correction,
                pairs: if self.arccos {
                    Pairs::Arccos
                } else if self.logit_normal {
                    Pairs::LogitNormal {
                        start: (0.0, 1.5),
                        end: (-1.0, 1.5),
                    }
                } else {
                    Pairs::Grids(grids(&[2, 4, 8, 16, 32]))
                },
                at_rest: self.at_rest,
                draws: self.draws,
            }),
            Method::Law => Accelerator::Law(Matching {
                head_only: head_only(AdaptName::Full),
                correction: self.correction,
                // One grid is matched more closely than several at once (docs/law-matching.md, The recipe).
                grids: grids(&[4]),
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
                carried: match (chain, from.carried) {
                    (Chain::Masked, 0) => carried,
                    _ => 0,
                },
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
                carried,
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
                    Chain::Masked => carried,
                    _ => 0,
                },
                mix: self.mix,
                denoiser_rate: self.denoiser_rate,
            },
        })
    }
}

/// Trains a method on top of a denoiser.
pub fn accelerate(args: &AccelerateArgs) -> Result<(), Failure> {
    let from = Setting::of(&args.from).map_err(|e| Failure::Usage(e.to_string()))?;
    let chain = args.chain.map_or(from.chain, Chain::from);
    let data = args.data.clone().map_or(from.data.clone(), Data::Shards);
    let method = match args.method {
        Some(method) => method,
        None => {
            let corpus = Corpus::open(&data).map_err(|e| Failure::Usage(e.to_string()))?;
            Accelerator::best(chain, corpus.format().is_some())
        }
    };
    let method = args.method(method, chain, &from)?;
    let setting = Setting {
        loss: Loss::Bound,
        carried: method.carried().unwrap_or(from.carried),
        chain,
        data,
        sizes: Sizes {
            length: args.length.unwrap_or(from.sizes.length),
            ..from.sizes
        },
        prediction: from.prediction,
        optimization: args.common.optimization(
            1000,
            match method.adaptation() {
                Adaptation::Full => GENTLE_RATE,
                _ => RATE,
            },
        ),
        start: None,
        curriculum: None,
        acceleration: Some(Acceleration {
            from: args.from.clone(),
            method,
        }),
    };
    run(&args.common, setting)
}
