//! Carries out a [`Plan`]: trains, samples, measures.
//!
//! Its directory holds `plan.json`, one directory a training under `runs`, and `points.jsonl`, one
//! line a point. What is there is not done again, so an experiment that was stopped or killed goes
//! on from where it was.

use std::{
    fs,
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

use fewstep_ctmc::{Grid, Language, Path};
use fewstep_nn::Learner;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Findings, Marginal, Plan, Point, Training,
    controls::{CONTROLS, Control, control},
    plan::FEW,
    points::{Points, Way},
};
use crate::{
    lab::Monitor,
    sequence::{
        Chain, Corpus, Data, Model, Oracle, RunError, Setting, Trainer, Use,
        evaluate::{Quality, quality},
        json,
        marginals::{Simulation, marginals},
        sampler::{Decoding, generate},
    },
};

/// Seconds between two saved states of a training.
const SAVING: Duration = Duration::from_secs(20);
/// Steps between two looks at a training.
const LOOKING: u64 = 500;
/// Sequences that the exact denoiser generates together.
const EXACT_BATCH: usize = 256;
/// The grid whose steps' marginals are held against the exact chain, and how finely that is
/// simulated.
const MARGINAL_STEPS: usize = 8;
const SIMULATION: Simulation = Simulation {
    states: 6,
    trajectories: 1024,
    parts: 24,
};
/// Sequences that the entropy of the language is measured on.
const ENTROPY_SAMPLES: usize = 4000;

/// Carries out what is missing of a plan in `dir`. Returns what was found, and whether the plan came
/// to its end; if it was stopped before, the findings are of what there is.
pub fn run(
    dir: &FilePath,
    plan: Plan,
    resume: bool,
    monitor: &dyn Monitor,
) -> Result<(Findings, bool), RunError> {
    let plan = plan.checked()?;
    let corpus = Corpus::open(&plan.data)?;
    let length = plan.sizes.length;
    // Too little data is found out before anything is written.
    corpus.sequences(Use::Validation, 1, length)?;
    let (language, exact) = corpus.judge(length)?.ok_or_else(|| {
        RunError::Refused(format!(
            "the data have {} symbols, too many to fit a judge to; train runs one by one and read their \
             text with fewstep eval --judge",
            corpus.symbols()
        ))
    })?;
    begin(dir, &plan, resume)?;
    let mut experiment = Experiment {
        language,
        exact,
        corpus,
        dir,
        points: Points::open(dir.join("points.jsonl"))?,
        trainings: Vec::new(),
        marginals: Vec::new(),
        plan,
        monitor,
    };
    experiment.controls()?;
    let mut done = true;
    'all: for seed in experiment.plan.seeds.clone() {
        for chain in experiment.plan.chains.clone() {
            if !experiment.chain(chain, seed)? {
                done = false;
                break 'all;
            }
        }
    }
    Ok((experiment.findings(), done))
}

/// Takes possession of the directory of an experiment.
pub(crate) fn begin<P>(dir: &FilePath, plan: &P, resume: bool) -> Result<(), RunError>
where
    P: Serialize + DeserializeOwned + PartialEq,
{
    begin_as(dir, "plan.json", plan, resume)
}

/// The same, with another file for what was asked for.
pub(crate) fn begin_as<P>(
    dir: &FilePath,
    file: &str,
    plan: &P,
    resume: bool,
) -> Result<(), RunError>
where
    P: Serialize + DeserializeOwned + PartialEq,
{
    let file = dir.join(file);
    if !file.exists() {
        fs::create_dir_all(dir).map_err(RunError::write(dir))?;
        return json::write(&file, plan);
    }
    if !resume {
        return Err(RunError::Refused(format!(
            "{} holds an experiment; continue it with --resume or choose another directory",
            dir.display()
        )));
    }
    if json::read::<P>(&file)? != *plan {
        return Err(RunError::Refused(format!(
            "{} holds another experiment; give the same options, or another directory",
            dir.display()
        )));
    }
    Ok(())
}

/// Trains one round of a method, unless that is done: the directory of the run under `dir` and what came
/// of it, or nothing if it was stopped.
pub(crate) fn trained(
    dir: &FilePath,
    (method, round): (&str, usize),
    setting: Setting,
    monitor: &dyn Monitor,
) -> Result<Option<(PathBuf, Training)>, RunError> {
    let (chain, seed) = (setting.chain, setting.optimization.seed);
    let mut name = format!("{}-{method}-{seed}", chain.name());
    if round > 0 {
        name += &format!("-{}", round + 1);
    }
    let dir = dir.join("runs").join(name);
    let file = dir.join("training.json");
    if !file.exists() {
        let adaptation = match &setting.acceleration {
            None => fewstep_nn::Adaptation::Full,
            Some(acceleration) => acceleration.method.adaptation(),
        };
        let trainer = Trainer::open(&dir, setting, true)?;
        let outcome = trainer.run(monitor, (SAVING, LOOKING))?;
        if outcome.stopped {
            return Ok(None);
        }
        let model = Model::open(&dir)?;
        let training = Training {
            chain: chain.name().into(),
            method: method.into(),
            seed,
            steps: outcome.steps,
            bound: outcome.bound,
            exact_bound: outcome.exact,
            seconds: outcome.seconds,
            parameters: model.denoiser.trainable(adaptation).len(),
        };
        json::write(&file, &training)?;
    }
    let training = json::read(&file)?;
    Ok(Some((dir, training)))
}

/// An experiment in progress.
struct Experiment<'a> {
    dir: &'a FilePath,
    plan: Plan,
    corpus: Corpus,
    /// What samples are judged by.
    language: Language,
    /// Whether that is the law of the data, and not one fitted to them.
    exact: bool,
    points: Points<Point>,
    trainings: Vec<Training>,
    marginals: Vec<Marginal>,
    monitor: &'a dyn Monitor,
}

impl Experiment<'_> {
    /// What does not come from a chain.
    fn controls(&mut self) -> Result<(), RunError> {
        let way = Way {
            k: 0,
            temperature: 1.0,
            gain: 1.0,
        };
        for of in CONTROLS {
            for seed in self.plan.seeds.clone() {
                if !self.has(("", of.name()), seed, way) {
                    let sizes = (self.plan.samples, self.plan.sizes.length);
                    let x = match of {
                        Control::Data if !self.exact => {
                            self.corpus.sequences(Use::Validation, sizes.0, sizes.1)?
                        }
                        of => control(&self.language, of, sizes, seed),
                    };
                    self.add(("", of.name()), seed, way, &x, 0)?;
                }
            }
        }
        Ok(())
    }

    /// A chain with one seed; whether it came to its end.
    fn chain(&mut self, chain: Chain, seed: u64) -> Result<bool, RunError> {
        let setting = self.plan.base(chain, seed);
        let Some(base) = self.train(("base", 0), setting)? else {
            return Ok(false);
        };
        if !self.with_exact_denoiser(chain, seed)? || !self.sample(chain, "base", seed, &base)? {
            return Ok(false);
        }
        for method in self.plan.methods.clone() {
            if !method.fits(chain) {
                continue;
            }
            let mut run = base.clone();
            for (round, what) in self.plan.rounds(method, chain).into_iter().enumerate() {
                let setting = self.plan.accelerated((chain, seed), what, &run);
                let Some(next) = self.train((method.name(), round), setting)? else {
                    return Ok(false);
                };
                run = next;
            }
            if method.corrects() {
                self.hold(chain, method.name(), seed, &run)?;
            }
            if !self.sample(chain, method.name(), seed, &run)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Trains what is not trained yet; the directory of the run unless it was stopped.
    fn train(
        &mut self,
        (method, round): (&str, usize),
        setting: Setting,
    ) -> Result<Option<PathBuf>, RunError> {
        let of = (method, round);
        let Some((dir, training)) = trained(self.dir, of, setting, self.monitor)? else {
            return Ok(None);
        };
        self.trainings.push(training);
        Ok(Some(dir))
    }

    /// Holds learned marginals against the exact chain's, on the mixture path.
    fn hold(
        &mut self,
        chain: Chain,
        method: &str,
        seed: u64,
        run: &FilePath,
    ) -> Result<(), RunError> {
        if chain == Chain::UniformState || !self.exact {
            return Ok(());
        }
        let file = run.join("marginals.json");
        // What is not there, or was written before all of it was measured, is measured.
        let found = match json::read(&file) {
            Ok(found) => found,
            Err(_) => {
                let model = Model::open(run)?;
                let sizes = (MARGINAL_STEPS, model.length);
                let law = (&self.language, &model.path);
                let found = marginals(&model.denoiser, law, sizes, SIMULATION, seed);
                json::write(&file, &found)?;
                found
            }
        };
        self.marginals.push(Marginal {
            chain: chain.name().into(),
            method: method.into(),
            seed,
            k: MARGINAL_STEPS,
            found,
        });
        Ok(())
    }

    /// The ways a method is sampled in. Gains other than the first are for chains whose exact
    /// correction is not zero: on the others they would multiply what is left of a training's noise.
    fn ways(&self, chain: Chain, method: &str) -> Vec<Way> {
        let plan = &self.plan;
        let mut ways = Vec::new();
        for &k in &plan.steps {
            let few = k <= FEW;
            let temperatures = match (method, few) {
                ("exact", _) => &[1.0][..],
                (_, true) => &plan.temperatures,
                ("base", false) => &plan.many_temperatures,
                (_, false) => &plan.many_temperatures[..1],
            };
            let corrected = matches!(method, "linear" | "paper");
            let real = matches!(chain, Chain::Uniform | Chain::StochasticMask);
            let gains = match (corrected, few && real) {
                (false, _) => &[1.0][..],
                (_, true) => &plan.gains,
                (_, false) => &plan.gains[..1],
            };
            for &gain in gains {
                ways.extend(temperatures.iter().map(|&temperature| Way {
                    k,
                    temperature,
                    gain,
                }));
            }
        }
        ways
    }

    /// Draws with a trained network; whether it came to its end.
    fn sample(
        &mut self,
        chain: Chain,
        method: &str,
        seed: u64,
        run: &FilePath,
    ) -> Result<bool, RunError> {
        let mut model = Model::open(run)?;
        let count = self.plan.samples;
        self.points_of(chain, method, seed, |way, grid| {
            let how = Decoding {
                temperature: way.temperature,
                ..Decoding::default()
            };
            model.generate(grid, (how, way.gain), (count, seed))
        })
    }

    /// Draws with the exact denoiser, where there is one; whether it came to its end.
    fn with_exact_denoiser(&mut self, chain: Chain, seed: u64) -> Result<bool, RunError> {
        if !self.exact {
            return Ok(true);
        }
        let path: Path = chain.path(self.language.symbols())?;
        let oracle = Oracle {
            law: self.language.clone(),
            path: path.clone(),
        };
        let sizes = (self.plan.samples, self.plan.sizes.length, EXACT_BATCH);
        self.points_of(chain, "exact", seed, |_, grid| {
            let how = Decoding::default();
            generate(&oracle, &path, grid, &how, sizes, seed)
        })
    }

    /// Whether the point of a chain and method with a seed, drawn this way, is there.
    fn has(&self, (chain, method): (&str, &str), seed: u64, way: Way) -> bool {
        self.points.all.iter().any(|p| {
            (p.chain.as_str(), p.method.as_str(), p.seed) == (chain, method, seed)
                && (p.k, p.temperature, p.gain) == (way.k, way.temperature, way.gain)
        })
    }

    fn points_of(
        &mut self,
        chain: Chain,
        method: &str,
        seed: u64,
        mut draw: impl FnMut(Way, &Grid) -> (Vec<usize>, usize),
    ) -> Result<bool, RunError> {
        let of = (chain.name(), method);
        let missing = |way: &Way| !self.has(of, seed, *way);
        let ways: Vec<Way> = self
            .ways(chain, method)
            .into_iter()
            .filter(missing)
            .collect();
        if ways.is_empty() {
            return Ok(true);
        }
        let stage = format!("{} {method} samples", chain.name());
        // A point costs as much as its steps.
        let total: usize = ways.iter().map(|way| way.k).sum();
        self.monitor.begin(&stage, total as u64);
        let mut done = 0;
        for way in ways {
            if self.monitor.stopped() {
                break;
            }
            let (x, nfe) = draw(way, &Grid::uniform(way.k)?);
            self.add(of, seed, way, &x, nfe)?;
            done += way.k;
            self.monitor.advance(&stage, done as u64);
        }
        self.monitor.end(&stage);
        Ok(done == total)
    }

    fn add(
        &mut self,
        (chain, method): (&str, &str),
        seed: u64,
        way: Way,
        x: &[usize],
        nfe: usize,
    ) -> Result<(), RunError> {
        let length = self.plan.sizes.length;
        let quality: Quality = quality(&self.language, x, length);
        self.points.add(Point {
            chain: chain.into(),
            method: method.into(),
            seed,
            k: way.k,
            nfe,
            temperature: way.temperature,
            gain: way.gain,
            quality,
            sample: self.corpus.show(&x[..length]),
        })
    }

    fn findings(self) -> Findings {
        let Plan { sizes, samples, .. } = self.plan;
        let optimization = self.plan.base;
        let data = match &self.plan.data {
            Data::Language {
                symbols,
                states,
                seed,
                transition,
                emission,
            } => format!(
                "built-in language {seed} over {symbols} symbols with {states} hidden states \
                 (transition {transition}, emission {emission})"
            ),
            Data::Shards(dir) => format!("the data in {}", dir.display()),
            Data::Figures => "the built-in pictures".into(),
            Data::Nothing { .. } => "no data".into(),
        };
        let real = self.points.all.iter().find(|p| p.method == "data");
        Findings {
            version: env!("CARGO_PKG_VERSION").into(),
            setting: format!(
                "{data}, sequences of {}; transformer of {} blocks, {} channels; denoisers of {} steps \
                 of {} sequences, accelerations of {} steps",
                sizes.length,
                sizes.blocks,
                sizes.width,
                optimization.steps,
                optimization.batch,
                self.plan.accelerated.steps,
            ),
            sizes: (self.corpus.symbols(), sizes.length, samples),
            fitted: !self.exact,
            entropy: match (self.exact, real) {
                (true, _) => self.language.entropy(sizes.length, ENTROPY_SAMPLES, 0),
                (false, Some(real)) => (real.quality.nll, real.quality.nll_error),
                (false, None) => (0.0, 0.0),
            },
            trainings: self.trainings,
            points: self.points.all,
            marginals: self.marginals,
        }
    }
}
