//! One method of a combination: what it trains, on which sequences, from which teacher.

use std::{cell::RefCell, path::Path as FilePath};

use fewstep_ctmc::{
    Grid,
    random::{Key, Purpose, categorical},
};
use fewstep_nn::{Conditioned, Conditioning, Corrected, Gradient, Network};

use super::{
    Context, Method, Plan,
    stage::{Course, Stage},
};
use crate::{
    lab::base::shape,
    method::{Counted, dcd, di4c, dimo, redi::Coupling, sdtt},
    sequence::{
        Examples, Pairs, RunError,
        average::{self, Loss},
        base, times,
    },
};

/// Sequences that a coupling generates together.
const COUPLING_BATCH: usize = 1024;

/// A network whose evaluations are counted, and what one leaves.
type Net = Counted<Conditioned<f32>>;
type NetPass = <Net as Network<f32>>::Pass;

/// The loss of a step in a round, of a student and its teacher, and its gradient.
type Distillation<'a> =
    dyn Fn(u32, (&Net, &Net), u64, (&mut NetPass, &mut NetPass), &mut Gradient<f32>) -> f64 + 'a;

/// What a combination has made so far.
#[derive(Clone, Debug)]
pub struct Student {
    /// The denoiser.
    pub base: Conditioned<f32>,
    /// The correction on it.
    pub correction: Option<Conditioned<f32>>,
    /// Whether it matches laws; a gain is for one that averages.
    pub matched: bool,
    /// Positions that carry a latent.
    pub carried: usize,
    /// The pairs it was trained on last; a latent is then part of where a sequence began, and stays.
    pub coupling: Option<Coupling>,
    /// Network evaluations it took.
    pub evaluations: u64,
}

impl Student {
    /// A denoiser as it is.
    pub fn new(base: Conditioned<f32>) -> Self {
        Self {
            base,
            correction: None,
            matched: false,
            carried: 0,
            coupling: None,
            evaluations: 0,
        }
    }
}

impl Context<'_> {
    /// What `method` makes of a student with `budget` evaluations, unless stopped.
    pub(super) fn link(
        &self,
        method: Method,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        match method {
            Method::Dag => self.dag(student, budget, dir),
            Method::Sdtt => self.sdtt(student, budget, dir),
            Method::Di4c => self.di4c(student, budget, dir),
            Method::Redi => self.redi(student, budget, dir),
            Method::Dcd => self.dcd(student, budget, dir),
            Method::Law => self.law(student, budget, dir),
            Method::Dimo => self.dimo(student, budget, dir),
        }
    }

    pub(super) fn course(&self, what: &str, budget: u64) -> Course<'_> {
        Course {
            name: format!("seed {}, {what}", self.seed),
            budget,
            rate: self.plan.rate,
            second: (self.plan.rate, 0.0),
            floor: 0.0,
            averaging: None,
            said: RefCell::new(None),
            monitor: self.monitor,
        }
    }

    /// Data `[B, D]` of a step.
    pub(super) fn data(&self, step: u64) -> Vec<usize> {
        let key = Key::new(self.seed, Purpose::Corpus);
        (0..self.plan.batch as u64)
            .flat_map(|i| {
                let x1 = categorical(&mut key.at(step, i), self.chain.target());
                self.chain.data().decode(x1)
            })
            .collect()
    }

    fn dag(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let o = self.config.options();
        let (coords, states, symbols) = shape(self.chain);
        let net = Corrected {
            correction: Conditioned::new(
                Conditioning::Interval,
                (coords + student.carried, states, symbols),
                &vec![o.width; o.depth],
                self.seed,
            ),
            base: student.base.clone(),
            gain: 1.0,
        };
        let grids = self.config.grids().iter().map(Grid::steps).collect();
        let pairs = Pairs::Grids(grids);
        let path = self.chain.path();
        let method = average::Method {
            loss: Loss::Linear,
            draws: 1,
        };
        let mut net = Counted::new(net);
        let mut passes = average::Passes::default();
        let one = |net: &Counted<Corrected<f32>>, step: u64, gradient: &mut Gradient<f32>| {
            let address = (self.seed, step);
            // At rest the correction is zero by construction, so there is nothing to train.
            let pairs = times::pairs(path, &pairs, 0.0, self.plan.batch, address);
            let examples = match &student.coupling {
                Some(coupling) => coupling.drawn(path, &pairs, address),
                None => Examples::corrupt(path, &self.data(step), &pairs, address)
                    .carrying((path, student.carried), address),
            };
            let nets = (net, net);
            average::step(
                nets,
                &examples,
                (path, method),
                address,
                &mut passes,
                gradient,
            )
        };
        let course = self.course("dag", budget);
        let stage = Stage::new(dir, self.seed);
        let Some(spent) = stage.run(&course, &mut net, Counted::spent, one)? else {
            return Ok(None);
        };
        Ok(Some(Student {
            correction: Some(net.network.correction.clone()),
            evaluations: student.evaluations + spent,
            ..student
        }))
    }

    fn sdtt(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let path = self.chain.path();
        let Plan {
            rounds,
            divergence,
            spacing,
            batch,
            ..
        } = *self.plan;
        self.rounds(
            student,
            (Method::Sdtt, budget),
            dir,
            &|round, nets, step, passes, gradient| {
                // The last student is meant to do in one step what two of half the time do.
                let steps = sdtt::Steps {
                    size: 0.5f64.powi((rounds - round) as i32 + 1),
                    count: 2,
                    spacing,
                };
                let address = (self.seed, step);
                let pairs = times::even(path, batch, address);
                let examples = Examples::corrupt(path, &self.data(step), &pairs, address);
                let what = (path, &steps, divergence);
                sdtt::step(nets, &examples, what, address, passes, gradient)
            },
        )
    }

    fn dcd(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let path = self.chain.path();
        let clock = dcd::Clock::new(path.symbols());
        let Plan {
            rounds,
            divergence,
            batch,
            ..
        } = *self.plan;
        self.rounds(
            student,
            (Method::Dcd, budget),
            dir,
            &|round, nets, step, passes, gradient| {
                // The last is DUO's last, a thirty-second of its time.
                let distance = 0.5f64.powi((rounds - round) as i32 + 4);
                let (x1, address) = (self.data(step), (self.seed, step));
                let (early, late) =
                    dcd::examples((path, &clock), (&x1, 0), batch, distance, address);
                dcd::step(nets, (&early, &late), (path, divergence), passes, gradient)
            },
        )
    }

    /// Rounds in which the student of one is the teacher of the next.
    fn rounds(
        &self,
        mut student: Student,
        (method, budget): (Method, u64),
        dir: &FilePath,
        step: &Distillation,
    ) -> Result<Option<Student>, RunError> {
        for round in 0..self.plan.rounds {
            let teacher = Counted::new(student.base.clone());
            let mut net = Counted::new(student.base.clone());
            let (mut pass, mut teacher_pass) = Default::default();
            let one = |net: &Net, number: u64, gradient: &mut Gradient<f32>| {
                let passes = (&mut pass, &mut teacher_pass);
                step(round, (net, &teacher), number, passes, gradient)
            };
            let name = format!("{} round {}", method.name(), round + 1);
            let course = self.course(&name, budget / u64::from(self.plan.rounds));
            let stage = Stage::new(&dir.join(round.to_string()), self.seed);
            let spent = |net: &Net| net.spent() + teacher.spent();
            let Some(spent) = stage.run(&course, &mut net, spent, one)? else {
                return Ok(None);
            };
            student.evaluations += spent;
            student.base = net.network;
        }
        Ok(Some(student))
    }

    fn di4c(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let path = self.chain.path();
        let settings = di4c::Settings {
            near: 0.05,
            ..di4c::Settings::new(self.plan.latents, Plan::CARRIED)
        };
        let teacher = Counted::new(student.base.clone());
        let mut net = Counted::new(student.base.carrying(Plan::CARRIED, self.seed));
        let mut passes = di4c::Passes::default();
        let one = |net: &Net, step: u64, gradient: &mut Gradient<f32>| {
            let address = (self.seed, step);
            let pairs = times::near_and_far(path, settings.near, self.plan.batch, address);
            let examples = Examples::corrupt(path, &self.data(step), &pairs, address);
            di4c::step(
                (net, net, &teacher),
                &examples,
                (path, &settings),
                address,
                &mut passes,
                gradient,
            )
        };
        let course = self.course("di4c", budget);
        let stage = Stage::new(dir, self.seed);
        let spent = |net: &Counted<_>| net.spent() + teacher.spent();
        let Some(spent) = stage.run(&course, &mut net, spent, one)? else {
            return Ok(None);
        };
        Ok(Some(Student {
            carried: Plan::CARRIED,
            evaluations: student.evaluations + spent,
            base: net.network,
            ..student
        }))
    }

    fn dimo(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let path = self.chain.path();
        // From masks alone no coordinate could know of another.
        let carried = match path.mask() {
            Some(_) => Plan::CARRIED,
            None => 0,
        };
        let generator = match carried {
            0 => student.base.clone(),
            _ => student.base.carrying(carried, self.seed),
        };
        let settings = dimo::Settings {
            batch: self.plan.batch,
            sizes: (self.chain.data().coords(), carried),
            mix: 0.0,
        };
        let teacher = Counted::new(student.base.clone());
        let mut nets = (Counted::new(generator), Counted::new(student.base.clone()));
        let size = nets.0.network.parameters().len();
        let mut passes = dimo::Passes::default();
        let one = |(generator, fake): &(Net, Net), step: u64, gradient: &mut Gradient<f32>| {
            let (first, second) = gradient.data.split_at_mut(size);
            let into = |data| Gradient {
                data,
                adaptation: gradient.adaptation,
                accumulate: false,
            };
            let (pull, bound) = dimo::step(
                (generator, fake, &teacher),
                (path, &settings, &[]),
                (self.seed, step),
                &mut passes,
                (&mut into(first), &mut into(second)),
            );
            pull + bound
        };
        let course = self.course("dimo", budget);
        let stage = Stage::new(dir, self.seed);
        let spent = |nets: &(Net, Net)| nets.0.spent() + nets.1.spent() + teacher.spent();
        let Some(spent) = stage.run(&course, &mut nets, spent, one)? else {
            return Ok(None);
        };
        Ok(Some(Student {
            base: nets.0.network,
            carried,
            evaluations: student.evaluations + spent,
            ..student
        }))
    }

    fn redi(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let path = self.chain.path();
        let teacher = Counted::new(student.base.clone());
        let stage_name = format!("seed {}, pairs", self.seed);
        let pairs = self.plan.pairs;
        self.monitor.begin(&stage_name, pairs as u64);
        let coupling = Coupling::generate(
            &teacher,
            (path, &Grid::uniform(self.plan.coupling_steps)?),
            (self.chain.data().coords(), student.carried, &[]),
            (0..pairs, COUPLING_BATCH),
            self.seed,
            |done| self.monitor.advance(&stage_name, done as u64),
        );
        self.monitor.end(&stage_name);
        let made = teacher.spent();
        let budget = budget.saturating_sub(made);
        let mut net = Counted::new(student.base.clone());
        let mut pass = Default::default();
        let one = |net: &Net, step: u64, gradient: &mut Gradient<f32>| {
            let address = (self.seed, step);
            let (pairs, weights) = times::instants(path, self.plan.batch, address);
            let examples = coupling.drawn(path, &pairs, address).weighing(weights);
            base::step(
                net,
                path,
                (&examples, base::Loss::Bound),
                &mut pass,
                gradient,
            )
        };
        let course = self.course("redi", budget);
        let stage = Stage::new(dir, self.seed);
        let Some(spent) = stage.run(&course, &mut net, Counted::spent, one)? else {
            return Ok(None);
        };
        Ok(Some(Student {
            evaluations: student.evaluations + made + spent,
            base: net.network,
            coupling: Some(coupling),
            ..student
        }))
    }
}
