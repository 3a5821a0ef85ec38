//! What is compared.

use fewstep_ctmc::Grid;
use serde_json::json;

use crate::{
    lab::{Config, ConfigError, Options, SourceKind},
    method::{Divergence, Method, law, sdtt::Spacing},
    sequence::RunError,
};

/// Methods one after the other, each from what the one before it made; none is the base itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination(pub Vec<Method>);

impl Combination {
    /// As in `di4c+redi`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let one = |name: &str| Method::parse(name.trim());
        let methods: Vec<Method> = text.split('+').map(one).collect::<Result<_, _>>()?;
        let combination = Self(methods);
        combination.check()?;
        Ok(combination)
    }

    /// The names, joined; `base` for none.
    pub fn name(&self) -> String {
        if self.0.is_empty() {
            return "base".into();
        }
        let names: Vec<&str> = self.0.iter().map(|m| m.name()).collect();
        names.join("+")
    }

    fn check(&self) -> Result<(), String> {
        let name = self.name();
        let last = self.0.len().saturating_sub(1);
        let corrects = |m: &Method| matches!(m, Method::Dag | Method::Law);
        let first = self.0.iter().position(corrects).unwrap_or(last);
        if self.0.len() > first + 1 && self.0[first..] != [Method::Dag, Method::Law] {
            return Err(format!(
                "{name}: dag and law make a correction that the others do not know; they come last, \
                 and law after dag"
            ));
        }
        if self.0.contains(&Method::Dimo) && self.0.len() > 1 {
            return Err(format!(
                "{name}: dimo makes a generator of one step out of the base; it stands alone"
            ));
        }
        if self.0.iter().filter(|m| **m == Method::Di4c).count() > 1 {
            return Err(format!("{name}: a sequence carries one latent; di4c once"));
        }
        let carries = self.0.iter().position(|m| *m == Method::Di4c);
        let plain = |m: &Method| matches!(m, Method::Sdtt | Method::Dcd);
        if carries.is_some_and(|at| self.0[at..].iter().any(plain)) {
            return Err(format!(
                "{name}: sdtt and dcd make a product law of what they start from, and the latent \
                 would be lost; put them before di4c"
            ));
        }
        let coupled = self.0.iter().position(|m| *m == Method::Redi);
        let follows = |m: &Method| matches!(m, Method::Redi | Method::Dag);
        if coupled.is_some_and(|at| !self.0[at..].iter().all(follows)) {
            return Err(format!(
                "{name}: what redi has made belongs to its pairs, and only redi and dag train on \
                 them; put the others before"
            ));
        }
        Ok(())
    }
}

/// The comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The target, the path, the seeds, the grids and the base.
    pub lab: Options,
    /// The methods, beside the base.
    pub combinations: Vec<Combination>,
    /// Network evaluations that each may spend in training, after the base.
    pub budget: u64,
    /// Sequences a training step.
    pub batch: usize,
    /// The peak learning rate.
    pub rate: f64,
    /// Pairs that a round of rectification generates, and the steps it does so in.
    pub pairs: usize,
    /// See [`pairs`](Self::pairs).
    pub coupling_steps: usize,
    /// Rounds of SDTT and DCD, in each of which the step doubles.
    pub rounds: u32,
    /// What SDTT makes small.
    pub divergence: Divergence,
    /// Where SDTT's teacher starts its steps.
    pub spacing: Spacing,
    /// Latents a state in Di4C's losses.
    pub latents: usize,
    /// Whether law matching goes down the derivative, from data alone, also where it could follow a held
    /// target with the denoiser's word for the data.
    pub derivative: bool,
    /// Steps count `(r - t)^-power` in what law matching makes small.
    pub power: f64,
}

impl Plan {
    /// All methods alone and the paper's combinations, on a target.
    pub fn new(lab: Options) -> Self {
        use Method::{Dag, Dcd, Di4c, Law, Redi, Sdtt};
        let all = [
            vec![Dag],
            vec![Sdtt],
            vec![Dcd],
            vec![Di4c],
            vec![Redi],
            vec![Redi, Redi],
            vec![Redi, Redi, Redi],
            vec![Di4c, Redi],
            vec![Redi, Dag],
            vec![Di4c, Redi, Dag],
            vec![Law],
            vec![Dag, Law],
        ];
        let uniform = lab.source == SourceKind::Uniform;
        let fits =
            |methods: &Vec<Method>| uniform || !(methods.contains(&Dcd) || methods.contains(&Law));
        Self {
            lab,
            combinations: all.into_iter().filter(fits).map(Combination).collect(),
            budget: 6_000_000,
            batch: 256,
            rate: 1e-3,
            pairs: 20_000,
            coupling_steps: 32,
            rounds: 5,
            divergence: Divergence::default(),
            spacing: Spacing::default(),
            latents: 8,
            derivative: false,
            power: law::POWER,
        }
    }

    /// Positions that carry the latent of a mixture student: two, so that there are `S^2` of them.
    pub(super) const CARRIED: usize = 2;

    /// The base and the methods.
    pub(super) fn combinations(&self) -> Vec<Combination> {
        let mut all = vec![Combination(Vec::new())];
        all.extend(self.combinations.iter().cloned());
        all
    }

    /// The lab's experiment, and this plan, checked.
    pub fn config(&self) -> Result<Config, RunError> {
        let refuse = |what: String| Err(RunError::Refused(what));
        for (i, combination) in self.combinations.iter().enumerate() {
            combination.check().map_err(RunError::Refused)?;
            if self.combinations[..i].contains(combination) {
                return refuse(format!("{} is asked for twice", combination.name()));
            }
            let uniform = self.lab.source == SourceKind::Uniform;
            if !uniform && combination.0.contains(&Method::Dcd) {
                return refuse(
                    "dcd needs a uniform source: its trajectories begin in noise symbols".into(),
                );
            }
        }
        for combination in &self.combinations {
            let carried = combination.0.contains(&Method::Di4c);
            let law = combination.0.contains(&Method::Law);
            if self.lab.source == SourceKind::StochasticMask && law {
                return refuse(format!(
                    "{}: law needs masks alone or uniform noise alone, not both",
                    combination.name()
                ));
            }
            if self.lab.source == SourceKind::Masked && law && !carried {
                return refuse(format!(
                    "{}: with masks all sequences begin alike, and the first step draws every \
                     coordinate independently whatever it learns; give it a latent, as in di4c+law",
                    combination.name()
                ));
            }
        }
        if self.batch == 0 || self.pairs == 0 || self.latents < 2 || self.rounds == 0 {
            return refuse("batch, pairs and rounds must be at least 1, latents at least 2".into());
        }
        if !(0.0..=4.0).contains(&self.power) {
            return refuse("steps may count by a power from 0 to 4 of their length".into());
        }
        if self.rounds > 20 {
            return refuse("there can be at most 20 rounds".into());
        }
        Grid::uniform(self.coupling_steps)?;
        // What is left after a coupling is made has to be enough to learn from it.
        let coupling = (self.pairs * self.coupling_steps) as u64;
        for combination in &self.combinations {
            let share = self.budget / combination.0.len().max(1) as u64;
            if combination.0.contains(&Method::Redi) && share < 2 * coupling {
                return refuse(format!(
                    "{}: each part may spend {share} evaluations, and the pairs of redi alone take \
                     {coupling}; raise --budget, or lower --pairs or --coupling-steps",
                    combination.name()
                ));
            }
        }
        Config::new(self.lab.clone()).map_err(|e| match e {
            ConfigError::Invalid(what) => RunError::Refused(what),
            ConfigError::Mathematics(e) => RunError::Process(e),
        })
    }

    /// What makes two results comparable: all but the methods and the seeds.
    pub(super) fn describe(&self) -> serde_json::Value {
        let o = &self.lab;
        json!({
            "target": format!("{:?}", o.target),
            "symbols": o.symbols,
            "coordinates": o.coords,
            "schedule": format!("{:?}", o.schedule),
            "source": format!("{:?}", o.source).to_lowercase(),
            "steps": o.steps,
            "grid": o.grid,
            "width": o.width,
            "hidden layers": o.depth,
            "base steps": o.base_steps,
            "rows of a base step": o.base_rows,
            "base learning rate": o.base_rate,
            "temperatures": o.temperatures,
            "evaluations": self.budget,
            "sequences a step": self.batch,
            "learning rate": self.rate,
            "pairs of a coupling": self.pairs,
            "steps of a coupling": self.coupling_steps,
            "rounds": self.rounds,
            "divergence of sdtt": self.divergence,
            "spacing of sdtt": self.spacing,
            "latents of di4c": self.latents,
            "law goes down the derivative": self.derivative,
            "law counts steps by": self.power,
        })
    }
}
