//! What the experiment is, in two steps: [`Options`] as typed, [`Config`] as checked. Nothing past
//! the check sees an invalid value.

use fewstep_ctmc::{Chain, Error, Grid, Path, Process, Schedule, Source, Space, Target};
use serde_json::json;

use crate::objective::{Objective, Transport};

/// Most states of an experiment: the exact law takes `N^2` products a sampler step, and the
/// kernels of all steps are held at once.
pub const MAX_STATES: usize = 4096;

/// The noise the path starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Uniform symbols.
    Uniform,
    /// All masked.
    Masked,
    /// Masks among uniform symbols.
    StochasticMask,
}

/// One correction to train: what is regressed, and how the transport term is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    /// What is regressed.
    pub objective: Objective,
    /// How the transport term is had.
    pub transport: Transport,
}

/// The sampler setting that is used for all numbers of steps: which correction, the gain on it
/// and the temperature. It never looks at the target law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// The correction.
    pub training: Training,
    /// The gain.
    pub gain: GainRule,
    /// The temperature.
    pub temperature: f64,
}

/// A gain that depends on the number of steps alone: `constant + inverse / K`. Longer steps leave
/// more dependence error, which a larger gain offsets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainRule {
    /// The gain of many steps.
    pub constant: f64,
    /// What a single step adds.
    pub inverse: f64,
}

impl GainRule {
    /// The gain at `steps` steps.
    pub fn at(self, steps: usize) -> f64 {
        self.constant + self.inverse / steps as f64
    }
}

impl std::fmt::Display for GainRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.inverse {
            0.0 => write!(f, "{}", self.constant),
            inverse => write!(f, "{}+{inverse}/K", self.constant),
        }
    }
}

/// The experiment as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The family of target laws; each seed has its own member.
    pub target: Target,
    /// Data symbols `S`.
    pub symbols: usize,
    /// Coordinates `D`.
    pub coords: usize,
    /// The noise schedule.
    pub schedule: Schedule,
    /// The noise.
    pub source: SourceKind,
    /// Seeds of target, initialisation and training; the reported value is their mean.
    pub seeds: Vec<u64>,
    /// Numbers of steps `K`, each on the uniform grid.
    pub steps: Vec<usize>,
    /// One grid to use instead of the uniform ones.
    pub grid: Option<Vec<f64>>,
    /// Width of the hidden layers.
    pub width: usize,
    /// Number of hidden layers.
    pub depth: usize,
    /// Training steps of the base denoiser.
    pub base_steps: u64,
    /// Its peak learning rate.
    pub base_rate: f64,
    /// Rows of a base step.
    pub base_rows: usize,
    /// Training steps of each correction.
    pub correction_steps: u64,
    /// Its peak learning rate.
    pub correction_rate: f64,
    /// Rows of a correction step with exact transport; with draws, which cost less, more.
    pub correction_rows: usize,
    /// Share of these rows with `r = t`.
    pub boundary: f64,
    /// The corrections to train.
    pub trainings: Vec<Training>,
    /// Gains at which the first correction is sampled, beside 1.
    pub gains: Vec<f64>,
    /// Temperatures at which the base is sampled, beside 1.
    pub temperatures: Vec<f64>,
    /// The one setting for all `K`.
    pub recipe: Option<Recipe>,
}

impl Default for Options {
    /// The paper's protocol, with the linear target beside its objective.
    fn default() -> Self {
        let training = |objective, transport| Training {
            objective,
            transport,
        };
        let linear = training(Objective::Linear, Transport::Draws(1));
        Self {
            target: Target::PAPER,
            symbols: 4,
            coords: 4,
            schedule: Schedule::Linear,
            source: SourceKind::Uniform,
            seeds: vec![0, 1, 2],
            steps: vec![2, 3, 4, 6, 8, 12, 16, 24, 32],
            grid: None,
            width: 256,
            depth: 4,
            base_steps: 12_000,
            base_rate: 2e-3,
            base_rows: 128,
            correction_steps: 3_000,
            correction_rate: 2e-3,
            correction_rows: 48,
            boundary: 0.25,
            trainings: vec![
                linear,
                training(Objective::Linear, Transport::Exact),
                training(Objective::P, Transport::Exact),
            ],
            gains: vec![2.0, 3.0],
            temperatures: vec![0.9, 0.8],
            recipe: Some(Recipe {
                training: linear,
                gain: GainRule {
                    constant: 2.25,
                    inverse: 7.0,
                },
                temperature: 0.95,
            }),
        }
    }
}

/// Why options are refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A value this crate checks.
    #[error("{0}")]
    Invalid(String),
    /// A value the mathematics checks.
    #[error(transparent)]
    Mathematics(#[from] Error),
}

/// The experiment, checked.
#[derive(Clone, Debug)]
pub struct Config {
    options: Options,
    path: Path,
    grids: Vec<Grid>,
}

impl Config {
    /// Checks every option.
    pub fn new(options: Options) -> Result<Self, ConfigError> {
        let invalid = |what: String| Err(ConfigError::Invalid(what));
        options.target.check()?;
        let process = Process::Mixture(match options.source {
            SourceKind::Uniform => Source::Uniform,
            SourceKind::Masked => Source::Masked,
            SourceKind::StochasticMask => Source::STOCHASTIC_MASK,
        });
        let path = Path::new(options.schedule, process, options.symbols)?;
        let states = Space::new(path.state_symbols(), options.coords)?;
        if states.len() > MAX_STATES {
            return Err(Error::TooManyStates {
                symbols: states.symbols(),
                coords: states.coords(),
                limit: MAX_STATES,
            }
            .into());
        }
        let grids = match &options.grid {
            Some(points) => vec![Grid::new(points.clone())?],
            None => options
                .steps
                .iter()
                .map(|&k| Grid::uniform(k))
                .collect::<Result<_, _>>()?,
        };
        if grids.is_empty() || grids.iter().any(|g| g.steps() > 1024) {
            return invalid("give between 1 and 1024 steps, as in --steps 2,4,8".into());
        }
        if grids.windows(2).any(|w| w[0].steps() >= w[1].steps()) {
            return invalid("the numbers of steps must increase, as in --steps 2,4,8".into());
        }
        if options.seeds.is_empty() {
            return invalid("give at least one seed".into());
        }
        let positive = [
            ("the width", options.width, 8192),
            ("the number of hidden layers", options.depth, 32),
            ("the rows of a base step", options.base_rows, 1 << 20),
            (
                "the rows of a correction step",
                options.correction_rows,
                1 << 20,
            ),
        ];
        for (what, value, most) in positive {
            if !(1..=most).contains(&value) {
                return invalid(format!(
                    "{what} is {value}; it must be between 1 and {most}"
                ));
            }
        }
        let ranges = [
            (
                "the learning rate of the base",
                vec![options.base_rate],
                0.0,
                1.0,
            ),
            (
                "the learning rate of the correction",
                vec![options.correction_rate],
                0.0,
                1.0,
            ),
            ("a gain", options.gains.clone(), 0.0, 100.0),
            ("a temperature", options.temperatures.clone(), 0.01, 100.0),
        ];
        for (what, values, least, most) in ranges {
            if let Some(v) = values.iter().find(|v| !(least..=most).contains(*v)) {
                return invalid(format!(
                    "{what} is {v}; it must be between {least} and {most}"
                ));
            }
        }
        for (what, values) in [
            ("gain", &options.gains),
            ("temperature", &options.temperatures),
        ] {
            let reported = |i: usize| values[i] == 1.0 || values[..i].contains(&values[i]);
            if let Some(i) = (0..values.len()).find(|&i| reported(i)) {
                return invalid(format!(
                    "the {what} {} is asked for twice; 1 is always reported",
                    values[i]
                ));
            }
        }
        if !(0.0..1.0).contains(&options.boundary) {
            return invalid(format!(
                "the share of rows with r = t is {}; it must be at least 0 and below 1",
                options.boundary
            ));
        }
        if options.base_steps == 0 || options.base_steps > 10_000_000 {
            return invalid(format!(
                "the base has {} training steps; it must have 1 to 10000000",
                options.base_steps
            ));
        }
        if options.correction_steps > 10_000_000 {
            return invalid("a correction can have at most 10000000 training steps".into());
        }
        for (i, t) in options.trainings.iter().enumerate() {
            if t.objective == Objective::Posterior {
                return invalid("'posterior' trains the base, not a correction".into());
            }
            if matches!(t.transport, Transport::Draws(n) if !(1..=4096).contains(&n)) {
                return invalid("the number of draws must be between 1 and 4096".into());
            }
            if options.trainings[..i].contains(t) {
                return invalid(format!("{} is asked for twice", t.name()));
            }
        }
        if let Some(r) = options.recipe {
            if !options.trainings.contains(&r.training) {
                return invalid(format!(
                    "the recipe samples {}, which is not trained; add it or change the recipe",
                    r.training.name()
                ));
            }
            let gains = grids.iter().map(|g| r.gain.at(g.steps()));
            if let Some(gain) = gains.into_iter().find(|g| !(0.0..=100.0).contains(g)) {
                return invalid(format!(
                    "the recipe's gain {} is {gain} at some K; it must be between 0 and 100",
                    r.gain
                ));
            }
            if !(0.01..=100.0).contains(&r.temperature) {
                return invalid(format!(
                    "the recipe's temperature is {}; it must be between 0.01 and 100",
                    r.temperature
                ));
            }
        }
        Ok(Self {
            options,
            path,
            grids,
        })
    }

    /// The options, all valid.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sampling grids.
    pub fn grids(&self) -> &[Grid] {
        &self.grids
    }

    /// The chain of one seed.
    pub fn chain(&self, seed: u64) -> Result<Chain, Error> {
        let data = Space::new(self.options.symbols, self.options.coords)?;
        let law = self.options.target.law(&data, seed)?;
        Chain::new(self.path.clone(), self.options.coords, law)
    }

    /// Whether this is the setting of the paper's table.
    pub fn is_paper_setting(&self) -> bool {
        let o = &self.options;
        o.target == Target::PAPER
            && (o.symbols, o.coords) == (4, 4)
            && o.schedule == Schedule::Linear
            && o.source == SourceKind::Uniform
            && o.grid.is_none()
    }

    /// What the experiment is about, in a line.
    pub fn title(&self) -> String {
        let o = &self.options;
        let target = match o.target {
            Target::Potts { beta, .. } => format!("a Potts law, beta {beta}"),
            Target::Markov { .. } => "a Markov chain".into(),
            Target::RandomEnergy { sigma } => format!("random energies, sigma {sigma}"),
            Target::Repelling { beta } => format!("repelling pairs, beta {beta}"),
        };
        format!(
            "Few-step sampling of {target}, {} symbols, {} coordinates",
            o.symbols, o.coords
        )
    }

    /// All options, for the report.
    pub fn to_json(&self) -> serde_json::Value {
        let o = &self.options;
        json!({
            "target": format!("{:?}", o.target),
            "symbols": o.symbols,
            "coordinates": o.coords,
            "schedule": format!("{:?}", o.schedule),
            "source": format!("{:?}", o.source).to_lowercase(),
            "seeds": o.seeds,
            "steps": self.grids.iter().map(Grid::steps).collect::<Vec<_>>(),
            "grid": o.grid.as_ref().map_or_else(|| json!("uniform"), |g| json!(g)),
            "hidden layers": o.depth,
            "width": o.width,
            "base steps": o.base_steps,
            "base learning rate": o.base_rate,
            "rows of a base step": o.base_rows,
            "correction steps": o.correction_steps,
            "correction learning rate": o.correction_rate,
            "rows of a correction step": o.correction_rows,
            "share of rows at r = t": o.boundary,
            "corrections": o.trainings.iter().map(Training::name).collect::<Vec<_>>(),
            "recipe": o.recipe.map(|r| format!(
                "{}, gain {}, temperature {}", r.training.name(), r.gain, r.temperature)),
        })
    }
}

impl Training {
    /// As in `linear:exact` or `p:1`.
    pub fn name(&self) -> String {
        match self.transport {
            Transport::Exact => format!("{}:exact", self.objective.name()),
            Transport::Draws(n) => format!("{}:{n}", self.objective.name()),
        }
    }
}
