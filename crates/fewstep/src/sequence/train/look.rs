//! What is measured of a run on its way and at its end.

use fewstep_ctmc::Grid;
use fewstep_nn::{Learner, Network, Real, dit::Step};
use serde_json::json;

use super::{
    super::{
        Acceleration, Accelerator, Corpus, Examples, Oracle, RunError, Use,
        average::{self, Passes},
        base,
        evaluate::quality,
        sampler::{Decoding, Latent, watched},
        times,
    },
    Outcome, Trainer,
};
use crate::image::{PIXELS, SHAPES};

/// Sequences and times of a validation.
const VALIDATION: usize = 256;
/// Coordinates that the identity's residual is measured on.
const RESIDUAL: usize = 4096;
/// Sequences that are looked at while training, and the steps they are drawn in.
const LOOK_SAMPLES: usize = 16;
const LOOK_STEPS: usize = 8;

impl Trainer {
    /// What there is at the end, or when stopped.
    pub(super) fn outcome(mut self, stopped: bool) -> Result<Outcome, RunError> {
        let bound = self.averaged(Self::validation)?;
        let path = self.path.clone();
        let exact = match &self.corpus {
            Corpus::Language(language) => {
                let law = language.clone();
                Some(self.validate(&Oracle { law, path }, 0)?)
            }
            Corpus::Figures(figures, _) => {
                let law = (**figures).clone();
                Some(self.validate(&Oracle { law, path }, 0)?)
            }
            _ => None,
        };
        let steps = self.setting.optimization.steps;
        if !stopped && !self.metrics.measured(steps)? {
            let line = json!({"step": steps, "validation_bound": bound, "exact_bound": exact});
            self.metrics.add(line)?;
        }
        Ok(Outcome {
            steps: self.state.step(),
            stopped,
            bound,
            exact,
            seconds: self.metrics.seconds()?,
        })
    }

    /// What `look` sees with the averaged weights in the network.
    fn averaged<R>(&mut self, look: impl FnOnce(&Self) -> R) -> R {
        let parameters = self.network.parameters_mut();
        parameters.copy_from_slice(&self.state.averaged());
        let seen = look(self);
        self.follow();
        seen
    }

    fn validation(&self) -> Result<f64, RunError> {
        self.validate(&self.network, self.setting.carried)
    }

    /// Measures how the run is doing, and writes down a few samples.
    pub(super) fn look(&mut self, step: u64) -> Result<(), RunError> {
        let (bound, residual, samples) = self.averaged(|run| {
            let bound = run.validation()?;
            let how = Decoding {
                steps: run.network.network.config().step != Step::None,
                latent: Latent {
                    carried: run.setting.carried,
                    stays: run.coupling.is_some(),
                },
                ..Decoding::default()
            };
            let labels = run.corpus.class_labels();
            let (samples, _) = watched(
                &run.network,
                &run.path,
                &Grid::uniform(LOOK_STEPS)?,
                (&how, &labels),
                (LOOK_SAMPLES, run.setting.sizes.length, LOOK_SAMPLES),
                run.setting.optimization.seed,
                |_, _| {},
            );
            Ok::<_, RunError>((bound, run.residual()?, samples))
        })?;
        let length = self.setting.sizes.length;
        let mut line = json!({"step": step, "validation_bound": bound});
        if let Some(residual) = residual {
            line["identity_residual"] = json!(residual);
        }
        if let Some(language) = self.corpus.language() {
            let found = quality(language, &samples, length);
            line["sample_nll"] = json!(found.nll);
            line["sample_entropy"] = json!(found.entropy);
        }
        if let Corpus::Figures(figures, _) = &self.corpus {
            let classes = (0..SHAPES.len()).cycle();
            let pixels = self.corpus.pixels(&samples);
            let found = figures.quality(pixels.chunks_exact(PIXELS).zip(classes));
            line["sample_accuracy"] = json!(found.accuracy);
        }
        line["sample"] = json!(self.corpus.show(&samples[..length]));
        self.metrics.add(line)
    }

    /// The mean square of the identity's residual on validation sequences, of an acceleration.
    fn residual(&self) -> Result<Option<f64>, RunError> {
        let average = match &self.setting.acceleration {
            Some(Acceleration {
                method: Accelerator::Dag(average),
                ..
            }) => average,
            _ => return Ok(None),
        };
        let length = self.setting.sizes.length;
        let count = RESIDUAL.div_ceil(length);
        let x1 = self.corpus.sequences(Use::Validation, count, length)?;
        let address = (u64::MAX, 0);
        let pairs = times::pairs(&self.path, &average.pairs, 0.0, count, address);
        let examples = self.examples(&x1, &pairs, address);
        let frozen = self.frozen.as_ref().unwrap_or(&self.network);
        Ok(average::residual(
            (&self.network, frozen),
            &examples,
            &self.path,
            address,
            &mut Passes::default(),
        ))
    }

    /// The bound at rest on sequences that are the same every time, with `carried` symbols behind
    /// them.
    fn validate<T: Real, N: Network<T>>(
        &self,
        network: &N,
        carried: usize,
    ) -> Result<f64, RunError> {
        let length = self.setting.sizes.length;
        let batch = 32;
        let given = self.corpus.given();
        let x1 = self.corpus.sequences(Use::Validation, VALIDATION, length)?;
        let (pairs, weights) = times::instants(&self.path, VALIDATION, (u64::MAX, 0));
        let mut pass = N::Pass::default();
        let parts = x1
            .chunks(batch * (length + given))
            .zip(pairs.chunks(batch).zip(weights.chunks(batch)));
        let bounds: Vec<f64> = parts
            .enumerate()
            .map(|(i, (x1, (pairs, weights)))| {
                let address = (u64::MAX, i as u64);
                let examples = Examples::corrupt(&self.path, x1, pairs, address)
                    .giving(given)
                    .weighing(weights.to_vec())
                    .carrying((&self.path, carried), address);
                base::bound_of(network, &self.path, &examples, &mut pass)
            })
            .collect();
        Ok(bounds.iter().sum::<f64>() / bounds.len() as f64)
    }
}
