//! The exact law of every sampler of one seed, and how far it is from the target.

use fewstep_ctmc::{
    Chain, Grid,
    divergence::{StepError, step_error, total_variation},
    law,
};
use fewstep_nn::{Conditioned, Pass};

use super::{
    batch::{Rows, predict},
    exact::{Step, Steps},
};

/// A sampler's kernel rows `[N, D, S']` for each step of a grid.
pub type Kernel = Vec<Vec<f64>>;

/// The distance of a sampler's law from the target, and the split of its steps' error.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Total variation between the law of the sampler and the target.
    pub tv: f64,
    /// The errors of the single steps, each from the exact `p_t`, summed.
    pub split: Option<StepError>,
}

/// Scores a sampler on one grid; with its split if `split` and the exact kernels are at hand.
pub fn score(chain: &Chain, exact: &[Step], kernel: &Kernel, split: bool) -> Score {
    let mut p = chain.source_law();
    let mut errors = split.then(StepError::default);
    for (step, rows) in exact.iter().zip(kernel) {
        if let Some(sum) = errors.as_mut() {
            match &step.propagator {
                Some(propagator) => {
                    let law = chain.marginal(chain.path().schedule().level(step.t));
                    let error = step_error(chain.states(), &law, propagator, rows);
                    sum.marginal += error.marginal;
                    sum.dependence += error.dependence;
                }
                None => errors = None,
            }
        }
        p = law::push(chain.states(), &p, rows);
    }
    Score {
        tv: total_variation(&law::on_data(chain, &p), chain.target()),
        split: errors,
    }
}

/// The sampler with the exact posterior: the base denoiser without a network's error.
pub fn exact_posterior(chain: &Chain, grid: &Grid) -> Kernel {
    grid.intervals()
        .map(|(t, r)| {
            let posterior = chain.posterior(chain.path().schedule().level(t));
            law::step_rows(chain, t, r, &posterior)
        })
        .collect()
}

/// The sampler with exact marginals: the fixed point of the projected identity.
pub fn exact_marginals(exact: &[Step]) -> Kernel {
    exact.iter().map(|step| step.marginals.clone()).collect()
}

/// The logits of a network at every state for each step of each grid, so that gains and
/// temperatures cost no further evaluation.
pub struct Logits(Vec<Vec<Vec<f64>>>);

impl Logits {
    /// Evaluates `net` at all steps.
    pub fn of(chain: &Chain, exact: &Steps, net: &Conditioned<f32>) -> Self {
        let mut pass = Pass::default();
        Self(
            exact
                .iter()
                .map(|grid| {
                    grid.iter()
                        .map(|step| {
                            let rows = Rows::all_states(chain, &[(step.t, step.r)]);
                            net.evaluate(rows.batch(), false, &mut pass);
                            pass.logits.clone()
                        })
                        .collect()
                })
                .collect(),
        )
    }
}

/// The learned sampler of grid number `grid`: `p~ = softmax((base + gain correction)/temperature)`.
pub fn learned(
    chain: &Chain,
    exact: &Steps,
    grid: usize,
    base: &Logits,
    correction: Option<&Logits>,
    (gain, temperature): (f64, f64),
) -> Kernel {
    let states: Vec<usize> = (0..chain.states().len()).collect();
    exact[grid]
        .iter()
        .enumerate()
        .map(|(k, step)| {
            let mut logits = base.0[grid][k].clone();
            if let Some(Logits(correction)) = correction {
                for (l, c) in logits.iter_mut().zip(&correction[grid][k]) {
                    *l += gain * c;
                }
            }
            law::step_rows(
                chain,
                step.t,
                step.r,
                &predict(chain, &states, &logits, temperature),
            )
        })
        .collect()
}
