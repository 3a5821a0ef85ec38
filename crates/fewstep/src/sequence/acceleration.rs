//! What makes a denoiser do with fewer steps: the settings of each method.

use std::path::PathBuf;

use fewstep_nn::Adaptation;
use serde::{Deserialize, Serialize};

use super::{Chain, Sizes};
use crate::method::{Divergence, Method, sdtt::Spacing};

/// What is regressed in an acceleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The signed linear target.
    Linear,
    /// The paper's shifted probability.
    Shifted,
}

/// Where pairs `(t, r)` come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairs {
    /// The larger and the smaller of two logit-normal draws of noise, `(mean, deviation)` each, as
    /// in the paper's appendix on OpenWebText.
    LogitNormal {
        /// Of the noise at the start.
        start: (f64, f64),
        /// Of the noise at the end.
        end: (f64, f64),
    },
    /// The noise at the start `arccos(u)/(pi/2)`, at the end logit-normal of mean -3 and deviation 2 and no
    /// more than at the start, as in the paper's appendix on ImageNet.
    Arccos,
    /// A step of a uniform grid of one of these sizes, with `t` uniform inside it.
    Grids(Vec<usize>),
}

/// How the average generator is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// What is regressed.
    pub target: Target,
    /// Whether only the correction is trained.
    pub head_only: bool,
    /// Width of the correction's hidden layer.
    pub correction: usize,
    /// The pairs.
    pub pairs: Pairs,
    /// The share of pairs with `r = t`.
    pub at_rest: f64,
    /// Jumps a sequence in the transport term.
    pub draws: usize,
}

/// How the laws of steps are matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matching {
    /// Whether only the correction is trained.
    pub head_only: bool,
    /// Width of the correction's hidden layer, if the run has none yet.
    pub correction: usize,
    /// Uniform grids whose steps are matched.
    pub grids: Vec<usize>,
    /// The network of the conditionals; its length is the sequences'.
    pub conditionals: Sizes,
    /// Its highest learning rate.
    pub conditionals_rate: f64,
    /// The share of the steps in which the kernel's own rate rises.
    pub rise: f64,
    /// Whether the law of noised data is taken from the denoiser, and not learned too.
    #[serde(default)]
    pub trust: bool,
    /// Whether the kernel follows a target that is held by the average of its weights.
    #[serde(default)]
    pub follow: bool,
    /// Symbols of the latent that it puts behind a sequence, if the run has none: from masks alone there is
    /// no other randomness for the first step to carry dependence with.
    #[serde(default)]
    pub carried: usize,
}

impl Matching {
    /// Symbols of a latent that were enough on masks (`docs/law-matching.md`, *On a language*).
    pub const CARRIED: usize = 8;
}

/// What makes fewer steps do. A run is one round; the next one starts from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// The average generator.
    Dag(Average),
    /// Law matching.
    Law(Matching),
    /// Self-distillation through time.
    Sdtt {
        /// Size of the teacher's steps.
        size: f64,
        /// Their number.
        count: usize,
        /// Where they start.
        spacing: Spacing,
        /// What is made small.
        divergence: Divergence,
    },
    /// Discrete consistency distillation.
    Dcd {
        /// How far apart, in DUO's time, student and teacher look.
        distance: f64,
        /// What is made small.
        divergence: Divergence,
    },
    /// A student that is a mixture, by a latent behind the sequence.
    Di4c {
        /// Latents a state in the losses.
        latents: usize,
        /// Symbols of a latent.
        carried: usize,
        /// The teacher's step.
        step: f64,
        /// How far from data distillation ends and consistency begins.
        near: f64,
    },
    /// Rectification on pairs that are generated first.
    Redi {
        /// Pairs.
        pairs: usize,
        /// Sampling steps they are made in.
        steps: usize,
    },
    /// A generator of one step, pulled where the run and a denoiser of its own sequences differ.
    Dimo {
        /// Symbols of the latent.
        carried: usize,
        /// The share of the second divergence in the pull.
        mix: f64,
        /// The highest learning rate of the denoiser of its own sequences.
        denoiser_rate: f64,
    },
}

impl Accelerator {
    /// The method that was measured to be best on a chain (`docs/law-matching.md`, *The recipe*): law matching,
    /// but not on pictures, of which it loses kinds, nor where it cannot be run.
    pub fn best(chain: Chain, pictures: bool) -> Method {
        if pictures || chain == Chain::StochasticMask {
            Method::Dag
        } else {
            Method::Law
        }
    }

    /// Which method it is.
    pub fn method(&self) -> Method {
        match self {
            Self::Dag(_) => Method::Dag,
            Self::Law(_) => Method::Law,
            Self::Sdtt { .. } => Method::Sdtt,
            Self::Dcd { .. } => Method::Dcd,
            Self::Di4c { .. } => Method::Di4c,
            Self::Redi { .. } => Method::Redi,
            Self::Dimo { .. } => Method::Dimo,
        }
    }

    /// The method's name.
    pub fn name(&self) -> &'static str {
        self.method().name()
    }

    /// Symbols of the latent that it puts behind a sequence, if it is one that does.
    pub fn carried(&self) -> Option<usize> {
        match self {
            Self::Di4c { carried, .. } | Self::Dimo { carried, .. } => Some(*carried),
            Self::Law(matching) if matching.carried > 0 => Some(matching.carried),
            _ => None,
        }
    }

    /// Which parameters are trained.
    pub fn adaptation(&self) -> Adaptation {
        match self {
            Self::Dag(average) if average.head_only => Adaptation::Head,
            Self::Law(matching) if matching.head_only => Adaptation::Head,
            _ => Adaptation::Full,
        }
    }

    /// Network evaluations of a sequence in a training step, as [`Counted`](crate::method::Counted)
    /// counts them: a derivative is one more, a way back two.
    pub fn cost(&self) -> u64 {
        let back = 3;
        match self {
            // The derivative, the frozen denoiser, and the network after each jump. The linear target does
            // without the second on the mixture path; it is counted, so that no other method has less.
            Self::Dag(average) => back + 2 + average.draws as u64,
            // The denoiser, and the conditionals, in two directions, on what was drawn.
            Self::Law(matching) if matching.trust => back + 1 + 2 * back,
            // The kernel that is followed, and the denoiser at both ends, beside all of the next.
            Self::Law(matching) if matching.follow => back + 1 + 2 + 2 * 2 * back,
            // The conditionals on what was drawn and on data.
            Self::Law(_) => back + 2 * 2 * back,
            Self::Sdtt { count, .. } => back + *count as u64,
            Self::Dcd { .. } => back + 1,
            // The student at x_t and later for each latent, and the teacher.
            Self::Di4c { latents, .. } => (back + 1) * *latents as u64 + 1,
            Self::Redi { .. } => back,
            // The generator, the teacher, and the second denoiser, which is asked and then trained.
            Self::Dimo { .. } => back + 1 + (1 + back),
        }
    }

    /// Why it cannot be run on a chain with so many symbols of a latent, if it cannot.
    pub(super) fn fault(&self, chain: Chain, carries: usize) -> Option<&'static str> {
        match self {
            Self::Dag(average) if average.draws == 0 => {
                Some("the transport term needs at least 1 draw")
            }
            Self::Dag(average) if !(0.0..1.0).contains(&average.at_rest) => {
                Some("the share of pairs at rest must be at least 0 and below 1")
            }
            Self::Dag(average) => match &average.pairs {
                Pairs::Grids(grids) if grids.is_empty() || grids.contains(&0) => {
                    Some("grids of pairs need at least 1 step")
                }
                _ => None,
            },
            Self::Law(_) if chain == Chain::StochasticMask => {
                Some("law needs masks alone or uniform noise alone, not both")
            }
            Self::Law(_) if chain == Chain::Masked && carries == 0 => Some(
                "law needs a latent on masks: all sequences begin alike, so the first step would draw every \
                 position independently whatever it learns",
            ),
            Self::Law(matching)
                if chain == Chain::Masked && (matching.trust || matching.follow) =>
            {
                Some(
                    "on masks law learns from the data alone: a denoiser does not say what the others tell \
                     of a position that is known",
                )
            }
            Self::Law(matching) if matching.grids.is_empty() || matching.grids.contains(&0) => {
                Some("grids need at least 1 step")
            }
            Self::Law(matching)
                if !(matching.conditionals_rate > 0.0
                    && matching.conditionals_rate.is_finite()
                    && (0.0..1.0).contains(&matching.rise)) =>
            {
                Some("the conditionals' learning rate must be above 0, the rise in [0, 1)")
            }
            Self::Sdtt { count: 0, .. } => Some("the teacher needs at least 1 step"),
            Self::Sdtt { size, .. } if !(*size > 0.0 && *size <= 1.0) => {
                Some("the teacher's step must be above 0 and at most 1")
            }
            Self::Dcd { .. } if matches!(chain, Chain::Masked | Chain::StochasticMask) => Some(
                "dcd needs a chain from uniform noise: its trajectories begin in noise symbols",
            ),
            Self::Dcd { distance, .. } if !(*distance > 0.0 && *distance <= 1.0) => {
                Some("the distance must be above 0 and at most 1")
            }
            Self::Di4c {
                latents, carried, ..
            } if *latents < 2 || *carried == 0 => {
                Some("a mixture needs at least 2 latents of at least 1 symbol")
            }
            Self::Di4c { step, near, .. }
                if !(*step > 0.0 && *step < 1.0 && (0.0..1.0).contains(near)) =>
            {
                Some("the teacher's step must be above 0 and below 1, and so the border near data")
            }
            Self::Redi { .. } if chain == Chain::Masked => Some(
                "redi needs a chain with noise: with masks all sequences begin alike, and a coupling \
                 says nothing of where they began; train the denoiser on masks among noise first, with \
                 fewstep train --chain stochastic-mask --from RUN",
            ),
            Self::Redi { pairs, steps } if *pairs == 0 || *steps == 0 => {
                Some("a coupling needs at least 1 pair and 1 step")
            }
            Self::Dimo { carried: 0, .. } if chain == Chain::Masked => Some(
                "dimo needs a latent on masks: all sequences begin alike, and in one step no position \
                 could know of another",
            ),
            Self::Dimo {
                mix, denoiser_rate, ..
            } if !((0.0..=1.0).contains(mix)
                && *denoiser_rate > 0.0
                && denoiser_rate.is_finite()) =>
            {
                Some("the share of the second divergence must be in [0, 1], the rate above 0")
            }
            _ => None,
        }
    }
}

/// An acceleration of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acceleration {
    /// The run or checkpoint it starts from.
    pub from: PathBuf,
    /// What it does.
    pub method: Accelerator,
}
