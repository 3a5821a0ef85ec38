//! What a run was asked for, as it stands in its `run.json`: enough to do it again and to go on
//! from it.

use std::path::{Path as FilePath, PathBuf};

use fewstep_ctmc::{Path, Process, Schedule, Source, language::Concentration};
use fewstep_nn::{
    checkpoint,
    dit::{Config, Positions, Sight, Step, TimeInput},
};
use serde::{Deserialize, Serialize};

use super::{Acceleration, Accelerator, Curriculum, Prediction, RunError, base::Loss, json};

/// The chain that carries noise to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// The mixture path from a mask.
    Masked,
    /// The mixture path from masks among uniform noise, which has randomness for a coupling to hold.
    StochasticMask,
    /// The mixture path from uniform noise.
    Uniform,
    /// The uniform-state process of DUO.
    UniformState,
}

impl Chain {
    /// The name in options, tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Masked => "masked",
            Self::StochasticMask => "stochastic-mask",
            Self::Uniform => "uniform",
            Self::UniformState => "uniform-state",
        }
    }

    /// What a denoiser is trained on unless told: where it was measured to be far the faster way
    /// (`docs/text.md`) the cross-entropy, else the bound, as the public checkpoints.
    pub fn loss(self) -> Loss {
        match self {
            Self::Uniform => Loss::CrossEntropy,
            _ => Loss::Bound,
        }
    }

    /// The path over `symbols` data symbols. The uniform-state bound has no limit at pure noise, so
    /// that process keeps a thousandth of signal there, as DUO does.
    pub fn path(self, symbols: usize) -> Result<Path, RunError> {
        let schedule = match self {
            Self::Masked | Self::StochasticMask | Self::Uniform => Schedule::Linear,
            Self::UniformState => Schedule::LogLinear { eps: 1e-3 },
        };
        Ok(Path::new(schedule, self.process(), symbols)?)
    }

    fn process(self) -> Process {
        match self {
            Self::Masked => Process::Mixture(Source::Masked),
            Self::StochasticMask => Process::Mixture(Source::STOCHASTIC_MASK),
            Self::Uniform => Process::Mixture(Source::Uniform),
            Self::UniformState => Process::UniformState,
        }
    }

    /// The path that a network walks: over its own symbols, at the noise levels that its time input
    /// stands for. A network that is told `sigma` was trained on the log-linear schedule, whatever
    /// chain it is put on afterwards. So many of its symbols are `labels`, which stand behind the data's
    /// and a mask's.
    pub fn path_of(self, config: &Config, labels: usize) -> Result<Path, RunError> {
        let masked = matches!(self, Self::Masked | Self::StochasticMask);
        if config.mask.is_some() != masked {
            return Err(RunError::Refused(format!(
                "the chain {} is {} a mask, the network is {} one",
                self.name(),
                if masked { "with" } else { "without" },
                if masked { "without" } else { "with" },
            )));
        }
        let beside = match labels {
            0 => usize::from(masked),
            labels => labels + 1,
        };
        let Some(symbols) = config.vocabulary.checked_sub(beside) else {
            return Err(RunError::Refused(format!(
                "the network has {} symbols, the data have {labels} labels alone",
                config.vocabulary
            )));
        };
        match config.time {
            TimeInput::Sigma { eps } => {
                let schedule = Schedule::LogLinear { eps };
                Ok(Path::new(schedule, self.process(), symbols)?)
            }
            _ => self.path(symbols),
        }
    }
}

/// Where sequences come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// The built-in language.
    Language {
        /// Symbols.
        symbols: usize,
        /// Hidden states.
        states: usize,
        /// Which one.
        seed: u64,
        /// How varied the next state is given a state.
        #[serde(default = "transition", skip_serializing_if = "is_transition")]
        transition: f64,
        /// How varied the symbol is given a state.
        #[serde(default = "emission", skip_serializing_if = "is_emission")]
        emission: f64,
    },
    /// The built-in pictures.
    Figures,
    /// A directory of token shards, of text or of pictures.
    Shards(PathBuf),
    /// None: a checkpoint that came without, whose symbols are shown by the named tokenizer, or as
    /// numbers.
    Nothing {
        /// Symbols.
        symbols: usize,
        /// The tokenizer.
        tokenizer: Option<String>,
    },
}

fn transition() -> f64 {
    Concentration::default().transition
}

fn emission() -> f64 {
    Concentration::default().emission
}

fn is_transition(value: &f64) -> bool {
    *value == transition()
}

fn is_emission(value: &f64) -> bool {
    *value == emission()
}

/// The sizes of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Positions.
    pub length: usize,
    /// Channels.
    pub width: usize,
    /// Blocks.
    pub blocks: usize,
    /// Attention heads.
    pub heads: usize,
}

impl Sizes {
    /// The network of a path, as a denoiser, for data that know `labels`, 0 if they know none: these
    /// are symbols behind the data's and a mask's, one of which stands behind a sequence. A network that
    /// sees masks need not be told the time.
    pub fn config(&self, path: &Path, labels: usize) -> Config {
        let (symbols, given) = match labels {
            0 => (path.state_symbols(), 0),
            labels => (path.symbols() + 1 + labels, 1),
        };
        Config {
            vocabulary: symbols,
            length: self.length + given,
            width: self.width,
            blocks: self.blocks,
            heads: self.heads,
            conditioning: 128,
            mask: path.mask_symbol(),
            time: match (path.mask(), path.schedule()) {
                (Some(_), _) => TimeInput::Zero,
                (None, Schedule::LogLinear { eps }) => TimeInput::Sigma { eps },
                (None, _) => TimeInput::Time,
            },
            step: Step::None,
            sight: Sight::Whole,
            positions: Positions::Line,
        }
    }
}

impl Sizes {
    /// The network of conditionals of one position: what it is told of a step is where it ends, and how
    /// far back it began.
    pub fn conditionals(&self, path: &Path, labels: usize) -> Config {
        let denoiser = self.config(path, labels);
        Config {
            vocabulary: denoiser.vocabulary + 2,
            mask: None,
            time: TimeInput::Time,
            step: Step::Trunk,
            sight: Sight::Others {
                width: 4 * self.width,
            },
            ..denoiser
        }
    }
}

/// What turns gradients into steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Adam, of everything.
    #[default]
    Adam,
    /// Muon of the matrices that states are multiplied by, Adam of the rest and of second networks.
    Muon,
}

impl Optimizer {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The optimizer's settings and the length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimization {
    /// Steps.
    pub steps: u64,
    /// Sequences a step.
    pub batch: usize,
    /// The highest learning rate.
    pub rate: f64,
    /// Steps until it is reached; afterwards it falls by a cosine.
    pub warmup: u64,
    /// The share of the old average that is kept each step.
    pub ema: f64,
    /// The norm gradients are clipped to.
    pub clip: f64,
    /// Seed of data, noise and initial weights.
    pub seed: u64,
    /// What makes steps of gradients.
    #[serde(default, skip_serializing_if = "Optimizer::is_default")]
    pub optimizer: Optimizer,
}

impl Default for Optimization {
    fn default() -> Self {
        Self {
            steps: 2000,
            batch: 16,
            rate: 1e-3,
            warmup: 100,
            ema: 0.999,
            clip: 1.0,
            seed: 0,
            optimizer: Optimizer::Adam,
        }
    }
}

/// A run: a denoiser, from scratch or from another's weights, or an acceleration of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The chain.
    pub chain: Chain,
    /// The data.
    pub data: Data,
    /// The network.
    pub sizes: Sizes,
    /// What it predicts.
    #[serde(default)]
    pub prediction: Prediction,
    /// The optimizer.
    pub optimization: Optimization,
    /// The run or checkpoint whose weights a denoiser starts with, if not with random ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<PathBuf>,
    /// The curriculum that a denoiser's training begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curriculum: Option<Curriculum>,
    /// What is accelerated, if anything is.
    pub acceleration: Option<Acceleration>,
    /// Symbols of the latent that stands behind a sequence.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub carried: usize,
    /// What a denoiser is trained on.
    #[serde(default, skip_serializing_if = "is_bound")]
    pub loss: Loss,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_bound(loss: &Loss) -> bool {
    *loss == Loss::Bound
}

/// The file in a run's directory.
const FILE: &str = "run.json";

impl Setting {
    /// The setting of the run in `dir`.
    pub fn load(dir: &FilePath) -> Result<Self, RunError> {
        json::read(&dir.join(FILE))
    }

    /// The setting of the run or checkpoint in `from`. A checkpoint without `run.json` is taken for
    /// what its network is: masked, or a uniform-state one of DUO's family, whose bound makes it say
    /// what the other coordinates say.
    pub fn of(from: &FilePath) -> Result<Self, RunError> {
        if from.join(FILE).exists() {
            return Self::load(from);
        }
        let config = checkpoint::config(from, &checkpoint::Options::default())?;
        let masked = config.mask.is_some();
        let symbols = config.vocabulary - usize::from(masked);
        let gpt2 = [50257, 50258].contains(&symbols);
        Ok(Self {
            chain: if masked {
                Chain::Masked
            } else {
                Chain::UniformState
            },
            data: Data::Nothing {
                symbols,
                tokenizer: gpt2.then(|| "gpt2".to_string()),
            },
            sizes: Sizes {
                length: config.length,
                width: config.width,
                blocks: config.blocks,
                heads: config.heads,
            },
            prediction: if masked {
                Prediction::Posterior
            } else {
                Prediction::Others
            },
            optimization: Optimization::default(),
            start: None,
            curriculum: None,
            acceleration: None,
            carried: 0,
            loss: Loss::Bound,
        })
    }

    /// Whether it was trained on pairs of its own, or corrects a run that was.
    pub fn paired(&self) -> Result<bool, RunError> {
        match &self.acceleration {
            Some(Acceleration {
                method: Accelerator::Redi { .. },
                ..
            }) => Ok(true),
            Some(Acceleration {
                from,
                method: Accelerator::Dag(_),
            }) if from.join(FILE).exists() => Self::load(from)?.paired(),
            _ => Ok(false),
        }
    }

    /// Writes it.
    pub fn save(&self, dir: &FilePath) -> Result<(), RunError> {
        std::fs::create_dir_all(dir).map_err(RunError::write(dir))?;
        json::write(&dir.join(FILE), self)
    }

    /// The setting itself if it can be run.
    pub fn checked(self) -> Result<Self, RunError> {
        let refuse = |what: &str| Err(RunError::Refused(what.to_string()));
        let Optimization {
            steps,
            batch,
            rate,
            ema,
            clip,
            ..
        } = self.optimization;
        if steps == 0 || batch == 0 {
            return refuse("the number of steps and the batch must be at least 1");
        }
        if !(rate > 0.0 && rate.is_finite() && clip > 0.0) {
            return refuse("the learning rate and the clipping norm must be above 0");
        }
        if !(0.0..1.0).contains(&ema) {
            return refuse("the average's decay must be at least 0 and below 1");
        }
        if self.loss == Loss::Arccos && self.chain != Chain::Masked {
            return refuse("the arccos mask ratio belongs to a denoiser of the masked chain");
        }
        if self.loss != Loss::Bound && self.acceleration.is_some() {
            return refuse("a loss belongs to a denoiser, not to an acceleration");
        }
        if let Some(fault) = self
            .acceleration
            .as_ref()
            .and_then(|acceleration| acceleration.method.fault(self.chain, self.carried))
        {
            return refuse(fault);
        }
        if let Some(fault) = self.curriculum.and_then(|c| c.fault(self.chain)) {
            return refuse(fault);
        }
        if let Some(start) = &self.start {
            let before = Self::of(start)?;
            if before.carried > 0 || before.acceleration.is_some() {
                return Err(RunError::Refused(format!(
                    "{} is an acceleration; a denoiser starts from a denoiser",
                    start.display()
                )));
            }
        }
        if let Some(Acceleration { from, method }) = &self.acceleration {
            let run = Self::of(from)?;
            let noisy = |chain| chain == Chain::StochasticMask;
            if noisy(self.chain) != noisy(run.chain) {
                return Err(RunError::Refused(format!(
                    "{} is a denoiser of the chain {}, which says nothing on {}; train it there first, \
                     with fewstep train --chain {} --from",
                    from.display(),
                    run.chain.name(),
                    self.chain.name(),
                    self.chain.name(),
                )));
            }
            let before = run.carried;
            let (name, carries) = (method.name(), before > 0);
            let after = match method {
                _ if !carries => method.carried().unwrap_or(0),
                Accelerator::Di4c { .. }
                | Accelerator::Sdtt { .. }
                | Accelerator::Dcd { .. }
                | Accelerator::Dimo { .. } => {
                    return Err(RunError::Refused(format!(
                        "{} carries a latent, which {name} does not know; use it before di4c",
                        from.display()
                    )));
                }
                _ => before,
            };
            if self.carried != after {
                return Err(RunError::Refused(format!(
                    "a run of {name} from {} carries {after} symbols of a latent, not {}",
                    from.display(),
                    self.carried
                )));
            }
        }
        Ok(self)
    }
}
