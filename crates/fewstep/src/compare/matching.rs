//! Law matching in a comparison: the correction and the conditionals it follows, side by side.

use std::path::Path as FilePath;

use fewstep_ctmc::Grid;
use fewstep_nn::{Blind, Conditioned, Conditioning, Corrected, Gradient, Learner, Opposed};
use serde_json::json;

use super::{
    Context,
    link::Student,
    stage::{Course, Stage},
};
use crate::{
    lab::base::shape,
    method::{Counted, law},
    sequence::{Examples, RunError, times},
};

/// The kernel's rate as a share of the conditionals', and the share of the steps in which it rises.
const SLOWER: f64 = 0.3;
const RISE: f64 = 0.1;
/// The share of the old average of its weights that is kept each step.
const AVERAGING: f64 = 0.998;
/// Steps between two looks at the exact total variation.
const LOOK_EVERY: u64 = 1000;

/// The correction of a denoiser, and conditionals of one coordinate.
type Nets = (Counted<Corrected<f32>>, Blind<Counted<Opposed<f32>>>);

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
        // With a denoiser beside it the network has only the ratio to learn, from zero.
        let network = match self.plan.trust {
            true => network.silent(),
            false => network,
        };
        let conditionals = Blind {
            network: Counted::new(network),
            length: coords,
            hidden: states,
        };
        let mut nets: Nets = (Counted::new(kernel), conditionals);
        let size = nets.0.parameters().len();
        let grids: Vec<usize> = self.config.grids().iter().map(Grid::steps).collect();
        let path = self.chain.path();
        let mut passes = law::Passes::default();
        let denoiser = (self.plan.trust).then(|| Counted::new(nets.0.network.clone()));
        let course = Course {
            rate: SLOWER * self.plan.rate,
            second: (self.plan.rate, RISE),
            averaging: Some(AVERAGING),
            ..self.course("law", budget)
        };
        let made = |correction, spent| Student {
            correction: Some(correction),
            matched: true,
            evaluations: student.evaluations + spent,
            ..student.clone()
        };
        let one = |(kernel, conditionals): &Nets, step: u64, gradient: &mut Gradient<f32>| {
            let pairs = times::steps(path, &grids, self.plan.batch, (self.seed, step));
            let address = (self.seed, step);
            let examples = Examples::corrupt(path, &self.data(step), &pairs, address);
            let side = match &denoiser {
                Some(denoiser) => law::Side::Denoiser(denoiser),
                None => law::Side::Data,
            };
            let examples = examples.carrying((path, student.carried), address);
            let (first, second) = gradient.data.split_at_mut(size);
            let into = |data| Gradient {
                data,
                adaptation: gradient.adaptation,
                accumulate: false,
            };
            let found = law::step(
                (kernel, conditionals),
                (&examples, side),
                (path, self.plan.power),
                (self.seed, step),
                &mut passes,
                (&mut into(first), &mut into(second)),
            );
            let mut said = json!({
                "conditionals_made": found.made,
                "conditionals_real": found.real,
            });
            if (step + 1).is_multiple_of(LOOK_EVERY) {
                let now = made(kernel.network.correction.clone(), 0);
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
            nets.0.spent() + nets.1.network.spent() + known
        };
        let Some(spent) = stage.run(&course, &mut nets, spent, one)? else {
            return Ok(None);
        };
        Ok(Some(made(nets.0.network.correction, spent)))
    }
}
