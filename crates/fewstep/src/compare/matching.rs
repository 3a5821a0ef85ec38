//! Law matching in a comparison: the correction and the conditionals it follows, side by side.
//!
//! The denoiser is asked what it knows of noised data, and the correction follows a target that is held by the
//! average of its weights. Its bound falls with the rate: errors that the conditionals stand still with would
//! otherwise be added up to the end. A denoiser of other pairs, with a latent, or from masks does not know that
//! law: then both laws are learned from data alone, and the correction goes down the derivative.

use std::path::Path as FilePath;

use fewstep_ctmc::Grid;
use fewstep_nn::{Blind, Conditioned, Conditioning, Corrected, Gradient, Learner, Opposed};
use serde_json::json;

use super::{
    Context,
    link::Student,
    stage::{Course, Stage, Trained},
};
use crate::{
    lab::base::shape,
    method::{Counted, law},
    sequence::{Examples, RunError, times},
};

/// Of a kernel that goes down the derivative: its rate as a share of the conditionals', and the share of the
/// old average of its weights that is kept each step. One that follows a target has the same rate.
const SLOWER: f64 = 0.3;
const AVERAGING: f64 = 0.998;
/// The share of the steps in which the kernel's rate rises.
const RISE: f64 = 0.1;
/// Of a kernel that follows a target: how far that is at the highest rate, the average that holds it, and the
/// share of their rate with which the conditionals end.
const BOUND: f64 = 4.0;
const HOLDING: f64 = 0.985;
const FLOOR: f64 = 0.3;
/// Steps between two looks at the exact total variation.
const LOOK_EVERY: u64 = 1000;

/// What is trained, and what a target is held by.
struct Nets {
    /// The correction of a denoiser.
    kernel: Counted<Corrected<f32>>,
    /// Conditionals of one coordinate.
    conditionals: Blind<Counted<Opposed<f32>>>,
    /// The kernel with the average of its weights, and the share of the bound that is left.
    held: (Counted<Corrected<f32>>, f64),
}

impl Trained for Nets {
    fn parameters(&self) -> Vec<f32> {
        [
            Learner::parameters(&self.kernel),
            Learner::parameters(&self.conditionals),
        ]
        .concat()
    }

    fn set(&mut self, parameters: &[f32]) {
        let (a, b) = parameters.split_at(Learner::parameters(&self.kernel).len());
        self.kernel.parameters_mut().copy_from_slice(a);
        self.conditionals.parameters_mut().copy_from_slice(b);
    }

    fn second(&self) -> usize {
        Learner::parameters(&self.conditionals).len()
    }

    fn hold(&mut self, averaged: &[f32], rate: f64) {
        self.held.0.parameters_mut().copy_from_slice(averaged);
        self.held.1 = rate;
    }
}

impl Context<'_> {
    /// A correction that makes the law of each step right: of the student as it is, or from the
    /// correction that it has.
    pub(super) fn law(
        &self,
        student: Student,
        budget: u64,
        dir: &FilePath,
    ) -> Result<Option<Student>, RunError> {
        let o = self.config.options();
        let (coords, states, symbols) = shape(self.chain);
        let hidden = vec![o.width; o.depth];
        let correction = student.correction.clone().unwrap_or_else(|| {
            let shape = (coords + student.carried, states, symbols);
            Conditioned::new(Conditioning::Interval, shape, &hidden, self.seed)
        });
        let kernel = Corrected {
            correction,
            base: student.base.clone(),
            gain: 1.0,
        };
        let sighted = (coords, states + 1, states);
        let network = Opposed::new(sighted, &hidden, self.seed);
        let path = self.chain.path();
        let knows = path.mask().is_none() && student.carried == 0 && student.coupling.is_none();
        let follow = knows && !self.plan.derivative;
        // Beside a denoiser the network begins with nothing to add.
        let network = match follow {
            true => network.silent(),
            false => network,
        };
        let conditionals = Blind {
            network: Counted::new(network),
            length: coords,
            hidden: states,
        };
        let denoiser = follow.then(|| Counted::new(kernel.clone()));
        let mut nets = Nets {
            held: (Counted::new(kernel.clone()), 0.0),
            kernel: Counted::new(kernel),
            conditionals,
        };
        let size = Learner::parameters(&nets.kernel).len();
        let grids: Vec<usize> = self.config.grids().iter().map(Grid::steps).collect();
        let mut passes = law::Passes::default();
        let (slower, averaging, floor) = match follow {
            true => (1.0, HOLDING, FLOOR),
            false => (SLOWER, AVERAGING, 0.0),
        };
        let course = Course {
            rate: slower * self.plan.rate,
            second: (self.plan.rate, RISE),
            floor,
            averaging: Some(averaging),
            ..self.course("law", budget)
        };
        let made = |correction, spent| Student {
            correction: Some(correction),
            matched: true,
            evaluations: student.evaluations + spent,
            ..student.clone()
        };
        let one = |nets: &Nets, step: u64, gradient: &mut Gradient<f32>| {
            let pairs = times::steps(path, &grids, self.plan.batch, (self.seed, step));
            let address = (self.seed, step);
            let examples = Examples::corrupt(path, &self.data(step), &pairs, address);
            let side = match &denoiser {
                Some(denoiser) => law::Side::Both(denoiser),
                None => law::Side::Data,
            };
            let examples = examples.carrying((path, student.carried), address);
            let (first, second) = gradient.data.split_at_mut(size);
            let into = |data| Gradient {
                data,
                adaptation: gradient.adaptation,
                accumulate: false,
            };
            let (kernel, left) = &nets.held;
            let bound = BOUND * left;
            let held = follow.then_some(law::Held { kernel, bound });
            let found = law::step(
                (&nets.kernel, &nets.conditionals),
                (&examples, side),
                (path, self.plan.power, held),
                (self.seed, step),
                &mut passes,
                (&mut into(first), &mut into(second)),
            );
            let mut said = json!({
                "conditionals_made": found.made,
                "conditionals_real": found.real,
            });
            if (step + 1).is_multiple_of(LOOK_EVERY) {
                let now = match follow {
                    true => kernel,
                    false => &nets.kernel,
                };
                let now = made(now.network.correction.clone(), 0);
                let points = self.exact.measure(&now, self.plan);
                let tv: Vec<(usize, f64)> = points.iter().map(|p| (p.k, p.tv)).collect();
                said["tv"] = json!(tv);
            }
            course.said.replace(Some(said));
            found.ratio
        };
        let stage = Stage::new(dir, self.seed);
        let spent = |nets: &Nets| {
            let known = denoiser.as_ref().map_or(0, Counted::spent);
            let own = nets.kernel.spent() + nets.held.0.spent();
            own + nets.conditionals.network.spent() + known
        };
        let Some(spent) = stage.run(&course, &mut nets, spent, one)? else {
            return Ok(None);
        };
        Ok(Some(made(nets.kernel.network.correction, spent)))
    }
}
