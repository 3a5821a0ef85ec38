//! Carries out a [`Plan`]: trains, samples, reads back. What is there is not done again, so an
//! experiment that was stopped or killed goes on from where it was.

use std::path::{Path as FilePath, PathBuf};

use fewstep_ctmc::{
    Grid,
    random::{Key, Purpose},
};

use super::{
    Attributes, Figures, Findings, Plan, Point, Reconstruction, SHAPES, Way, reference::Reference,
    tokenize,
};
use crate::{
    lab::Monitor,
    metrics::Eye,
    sequence::{
        Chain, Corpus, Model, Oracle, RunError,
        sampler::{Decoding, Guidance, watched},
    },
    text::{
        Training,
        experiment::{begin, trained},
        points::Points,
    },
};

/// Pictures of each class that a point keeps.
const KEPT: usize = 2;
/// Pictures that the exact denoiser draws together.
const EXACT_BATCH: usize = 64;
/// Steps that a look at all pictures of a point counts like, when it is told how far the work is.
const LOOK: u64 = 16;

/// Carries out what is missing of a plan in `dir`. Returns what was found, and whether the plan came to
/// its end; if it was stopped before, the findings are of what there is.
///
/// If there is an `eye`, every point is measured by what it sees. Points that were drawn without one are
/// drawn again, which gives the same pictures.
pub fn run(
    dir: &FilePath,
    plan: Plan,
    eye: Option<&Eye>,
    resume: bool,
    monitor: &dyn Monitor,
) -> Result<(Findings, bool), RunError> {
    let mut plan = plan.checked()?;
    begin(dir, &plan, resume)?;
    let (mut reconstruction, mut reference, mut done) = (None, None, true);
    if let Some(eye) = eye {
        let against = (&Corpus::open(&plan.data)?, plan.trainings.samples);
        reference = Reference::see(dir, against, eye, monitor)?;
        done = reference.is_some();
    }
    if let (Some(asked), true) = (&plan.tokenizer, done) {
        let codes = dir.join("tokenizer");
        reconstruction = tokenize(&codes, &plan.data, (asked, None), true, monitor)?;
        match reconstruction {
            Some(_) => plan = plan.on_codes(&codes),
            None => done = false,
        }
    }
    let mut experiment = Experiment {
        dir,
        reconstruction,
        reference,
        corpus: Corpus::open(&plan.data)?,
        points: Points::open(dir.join("points.jsonl"))?,
        trainings: Vec::new(),
        plan,
        monitor,
    };
    if !done {
        return Ok((experiment.findings()?, false));
    }
    done = experiment.data()?;
    'all: for seed in experiment.plan.trainings.seeds.clone() {
        if !done {
            break;
        }
        for chain in experiment.plan.trainings.chains.clone() {
            if !experiment.chain(chain, seed)? {
                done = false;
                break 'all;
            }
        }
    }
    Ok((experiment.findings()?, done))
}

/// An experiment in progress.
struct Experiment<'a> {
    dir: &'a FilePath,
    reconstruction: Option<Reconstruction>,
    reference: Option<Reference<'a>>,
    plan: Plan,
    corpus: Corpus,
    points: Points<Point>,
    trainings: Vec<Training>,
    monitor: &'a dyn Monitor,
}

impl Experiment<'_> {
    /// Draws from the law itself, whose distance is the noise of finitely many; whether it came to its end.
    fn data(&mut self) -> Result<bool, RunError> {
        let Corpus::Figures(figures, _) = &self.corpus else {
            return Ok(true);
        };
        let figures = figures.clone();
        let way = Way {
            k: 0,
            temperature: 1.0,
            gain: 1.0,
            guidance: 0.0,
        };
        for seed in self.plan.trainings.seeds.clone() {
            if self.has(("", "data"), seed, way) {
                continue;
            }
            let key = Key::new(seed, Purpose::Corpus);
            let one = |i: usize| {
                let mut rng = key.at(u64::MAX, i as u64);
                let mut draws = std::iter::repeat_with(|| figures.sample(&mut rng));
                let mine = |n: &usize| Attributes::numbered(*n).shape == i % SHAPES.len();
                figures.picture(draws.find(mine).unwrap_or(0))
            };
            let count = self.plan.trainings.samples;
            let x: Vec<usize> = (0..count).flat_map(one).copied().collect();
            let monitor = self.monitor;
            let on = |_, _| !monitor.stopped();
            if !self.put(("", "data"), seed, way, (x, 0), on)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A chain with one seed; whether it came to its end.
    fn chain(&mut self, chain: Chain, seed: u64) -> Result<bool, RunError> {
        if let Corpus::Figures(figures, _) = &self.corpus {
            let law = Figures::clone(figures);
            if !self.exact(law, chain, seed)? {
                return Ok(false);
            }
        }
        let setting = self.plan.base(chain, seed);
        let Some(base) = self.train(("base", 0), setting)? else {
            return Ok(false);
        };
        if !self.sample(chain, "base", seed, &base)? {
            return Ok(false);
        }
        for method in self.plan.trainings.methods.clone() {
            if !method.fits(chain) {
                continue;
            }
            let mut run = base.clone();
            let rounds = self.plan.trainings.rounds(method, chain);
            for (round, what) in rounds.into_iter().enumerate() {
                let setting = self.plan.accelerated((chain, seed), what, &run);
                let Some(next) = self.train((method.name(), round), setting)? else {
                    return Ok(false);
                };
                run = next;
            }
            if !self.sample(chain, method.name(), seed, &run)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn train(
        &mut self,
        of: (&str, usize),
        setting: crate::sequence::Setting,
    ) -> Result<Option<PathBuf>, RunError> {
        let done = trained(self.dir, of, setting, self.monitor)?;
        Ok(done.map(|(dir, training)| {
            self.trainings.push(training);
            dir
        }))
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
        let count = self.plan.trainings.samples;
        let unsaid = self.unsaid();
        self.points_of((chain.name(), method), seed, |way, grid| {
            let how = Decoding {
                temperature: way.temperature,
                guidance: Guidance {
                    scale: way.guidance,
                    rises: false,
                    unsaid,
                },
                ..Decoding::default()
            };
            model.generate(grid, (how, way.gain), (count, seed))
        })
    }

    /// Draws with the exact denoiser; whether it came to its end.
    fn exact(&mut self, law: Figures, chain: Chain, seed: u64) -> Result<bool, RunError> {
        let path = chain.path(self.corpus.symbols())?;
        let oracle = Oracle {
            law,
            path: path.clone(),
        };
        let plan = &self.plan.trainings;
        let sizes = (plan.samples, plan.sizes.length, EXACT_BATCH);
        let labels = self.corpus.class_labels();
        self.points_of((chain.name(), "exact"), seed, |_, grid| {
            let how = (&Decoding::default(), &labels[..]);
            watched(&oracle, &path, grid, how, sizes, seed, |_, _| {})
        })
    }

    /// The label that says no class.
    fn unsaid(&self) -> usize {
        self.corpus.label(self.corpus.classes().len())
    }

    fn points_of(
        &mut self,
        of: (&str, &str),
        seed: u64,
        mut draw: impl FnMut(Way, &Grid) -> (Vec<usize>, usize),
    ) -> Result<bool, RunError> {
        let missing = |way: &Way| !self.has(of, seed, *way);
        let ways = self.plan.ways(of.1).into_iter().filter(missing);
        let ways: Vec<Way> = ways.collect();
        if ways.is_empty() {
            return Ok(true);
        }
        let stage = format!("{} {} pictures", of.0, of.1);
        let look = if self.reference.is_some() { LOOK } else { 0 };
        let cost = |way: &Way| (way.k * if way.guidance == 0.0 { 1 } else { 2 }) as u64;
        let total: u64 = ways.iter().map(|way| cost(way) + look).sum();
        let (monitor, mut done) = (self.monitor, 0);
        monitor.begin(&stage, total);
        for way in ways {
            if monitor.stopped() {
                break;
            }
            let (x, nfe) = draw(way, &Grid::uniform(way.k)?);
            let drawn = (self.corpus.pixels(&x), nfe);
            done += cost(&way);
            let watch = |seen: u64, all: u64| {
                monitor.advance(&stage, done + look * seen / all.max(1));
                !monitor.stopped()
            };
            if !self.put(of, seed, way, drawn, watch)? {
                break;
            }
            done += look;
            monitor.advance(&stage, done);
        }
        monitor.end(&stage);
        Ok(done == total)
    }

    /// Whether a point is there with all that is asked of it.
    fn has(&self, of: (&str, &str), seed: u64, way: Way) -> bool {
        let whole = |p: &Point| self.reference.is_none() || p.measured.is_some();
        let mut points = self.points.all.iter();
        points.any(|p| p.is(of, seed, way) && whole(p))
    }

    /// Measures pictures and keeps their point; whether `watch(seen, all)` let it come to its end.
    fn put(
        &mut self,
        of: (&str, &str),
        seed: u64,
        way: Way,
        (mut pixels, nfe): (Vec<usize>, usize),
        watch: impl FnMut(u64, u64) -> bool,
    ) -> Result<bool, RunError> {
        let length = self.corpus.format().map_or(1, |format| format.length());
        let classes = self.corpus.classes().len().max(1);
        let quality = match &self.corpus {
            Corpus::Figures(figures, _) => {
                let pictures = pixels.chunks_exact(length).zip((0..classes).cycle());
                Some(figures.quality(pictures))
            }
            _ => None,
        };
        let measured = match &self.reference {
            Some(reference) => match reference.measure(&pixels, watch)? {
                Some(measured) => Some(measured),
                None => return Ok(false),
            },
            None => None,
        };
        pixels.truncate(KEPT * classes * length);
        let point = Point {
            chain: of.0.into(),
            method: of.1.into(),
            seed,
            nfe,
            way,
            quality,
            measured,
            pictures: pixels,
        };
        self.points.put(point, |p| p.is(of, seed, way))?;
        Ok(true)
    }

    fn findings(self) -> Result<Findings, RunError> {
        let plan = &self.plan.trainings;
        let format = self.corpus.format();
        let missing = || RunError::Refused("the data are no pictures".into());
        Ok(Findings {
            version: env!("CARGO_PKG_VERSION").into(),
            setting: format!(
                "transformer of {} blocks, {} channels; denoisers of {} steps of {} pictures, \
                 accelerations of {} steps",
                plan.sizes.blocks,
                plan.sizes.width,
                plan.base.steps,
                plan.base.batch,
                plan.accelerated.steps,
            ),
            format: format.ok_or_else(missing)?,
            classes: self.corpus.classes(),
            samples: plan.samples,
            reconstruction: self.reconstruction,
            trainings: self.trainings,
            points: self.points.all,
        })
    }
}
