//! The exact law of a student's sampler.
//!
//! With a latent, a step's kernel is a mixture of products over its values. A mixture student draws
//! a new one each step; one that was trained on a coupling began with its latent and keeps it.

use fewstep_ctmc::{
    Chain, Error, Grid, Matrix,
    divergence::{step_error, total_variation},
    joint::Joint,
    law,
    matching::Matching,
};
use fewstep_nn::{Batch, Conditioned, Pass};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Plan, link::Student};
use crate::{
    lab::{
        GainRule, batch,
        exact::{self, Step, Steps},
    },
    method::redi::conditional_total_correlation,
};

/// Most states from each of which a walk is followed: it takes `N^3` products a step.
const WALKED_STATES: usize = 1024;

/// Rounds of EM by which a step's law is matched, and after it that of all steps together.
const MATCHING_ROUNDS: usize = 20;

/// One sampler, measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Steps.
    pub k: usize,
    /// The factor on the correction.
    pub gain: f64,
    /// The temperature.
    pub temperature: f64,
    /// Total variation between its law and the target.
    pub tv: f64,
    /// The marginal and the dependence part of its steps' error, in nats, of a product sampler.
    pub split: Option<(f64, f64)>,
}

/// What a seed's samplers are measured against.
pub struct Exact<'a> {
    chain: &'a Chain,
    grids: &'a [Grid],
    steps: Steps,
}

/// How a student is sampled.
#[derive(Clone, Copy)]
struct How {
    gain: f64,
    temperature: f64,
}

impl<'a> Exact<'a> {
    /// Of a chain on some grids.
    pub fn new(chain: &'a Chain, grids: &'a [Grid]) -> Result<Self, Error> {
        Ok(Self {
            chain,
            grids,
            steps: exact::steps(chain, grids)?,
        })
    }

    /// What needs no network, by name: the exact posterior, exact marginals, and products whose law was
    /// matched, from the marginals, step by step, and then all steps together.
    pub fn oracles(&self) -> Vec<(&'static str, Vec<Measured>)> {
        let mut all = vec![
            (
                "exact-posterior",
                self.oracle(|steps| steps.iter().map(|step| self.posterior(step)).collect()),
            ),
            (
                "exact-marginals",
                self.oracle(|steps| steps.iter().map(|step| step.marginals.clone()).collect()),
            ),
        ];
        if self.chain.states().len() <= WALKED_STATES {
            let matched = |steps: &[Step]| steps.iter().map(|step| self.matched(step)).collect();
            all.push(("exact-matching", self.oracle(matched)));
            let joint = |steps: &[Step]| self.joint(matched(steps));
            all.push(("exact-joint", self.oracle(joint)));
        }
        all
    }

    fn oracle(&self, rows: impl Fn(&[Step]) -> Vec<Vec<f64>>) -> Vec<Measured> {
        let space = self.chain.states();
        self.steps
            .iter()
            .enumerate()
            .map(|(g, steps)| {
                let kernels: Vec<Vec<Vec<f64>>> =
                    rows(steps).into_iter().map(|rows| vec![rows]).collect();
                let push = |p: Vec<f64>, step: &Vec<Vec<f64>>| law::push(space, &p, &step[0]);
                let end = kernels.iter().fold(self.chain.source_law(), push);
                Measured {
                    k: steps.len(),
                    gain: 1.0,
                    temperature: 1.0,
                    tv: total_variation(&law::on_data(self.chain, &end), self.chain.target()),
                    split: self.split(g, &kernels),
                }
            })
            .collect()
    }

    fn posterior(&self, step: &Step) -> Vec<f64> {
        let level = self.chain.path().schedule().level(step.t);
        law::step_rows(self.chain, step.t, step.r, &self.chain.posterior(level))
    }

    fn matched(&self, step: &Step) -> Vec<f64> {
        let at = |t: f64| self.chain.marginal(self.chain.path().schedule().level(t));
        let (from, to) = (at(step.t), at(step.r));
        let matching = Matching {
            space: self.chain.states(),
            from: &from,
            to: &to,
        };
        let begin = step.marginals.clone();
        (0..MATCHING_ROUNDS).fold(begin, |rows, _| matching.em(&rows))
    }

    fn joint(&self, kernels: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let from = self.chain.source_law();
        let to = self.chain.marginal(self.chain.path().schedule().level(1.0));
        let joint = Joint {
            space: self.chain.states(),
            from: &from,
            to: &to,
        };
        (0..MATCHING_ROUNDS).fold(kernels, |kernels, _| joint.em(&kernels))
    }

    /// A student at each number of steps: as trained; a denoiser at each temperature; a correction
    /// by the recipe too.
    pub fn measure(&self, student: &Student, plan: &Plan) -> Vec<Measured> {
        let mut points = Vec::new();
        for (g, grid) in self.grids.iter().enumerate() {
            let plain = How {
                gain: 1.0,
                temperature: 1.0,
            };
            let mut hows = vec![plain];
            let untrained = student.correction.is_none() && student.evaluations == 0;
            if untrained {
                let cooler = |&temperature: &f64| How {
                    temperature,
                    ..plain
                };
                hows.extend(plan.lab.temperatures.iter().map(cooler));
            }
            let gained = student.correction.is_some() && !student.matched;
            if let (true, Some(recipe)) = (gained, plan.lab.recipe) {
                hows.push(How {
                    gain: GainRule::at(recipe.gain, grid.steps()),
                    temperature: recipe.temperature,
                });
            }
            for how in hows {
                let kernels = self.kernels(student, grid, how);
                let tv = total_variation(&self.law(student, &kernels), self.chain.target());
                points.push(Measured {
                    k: grid.steps(),
                    gain: how.gain,
                    temperature: how.temperature,
                    tv,
                    split: (student.carried == 0 && how.temperature == 1.0)
                        .then(|| self.split(g, &kernels))
                        .flatten(),
                });
            }
        }
        points
    }

    /// `E_{x_0} TC(x_1 | x_0)` in nats on the grid with the most steps; of a latent that stays, given
    /// that too. Nothing where there are too many states to walk from each.
    pub fn conditional_correlation(&self, student: &Student) -> Option<f64> {
        let grid = self.grids.iter().max_by_key(|g| g.steps())?;
        if self.chain.states().len() > WALKED_STATES {
            return None;
        }
        let how = How {
            gain: 1.0,
            temperature: 1.0,
        };
        let kernels = self.kernels(student, grid, how);
        let states = self.chain.states();
        let p0 = self.chain.source_law();
        let starts: Vec<usize> = (0..p0.len()).filter(|&x| p0[x] > 0.0).collect();
        let weights: Vec<f64> = starts.iter().map(|&x| p0[x]).collect();
        // Of latents that stay, one walk each; of those that are drawn, one walk over their mean.
        let latents = kernels.first().map_or(1, Vec::len);
        let walks = if student.stays() { latents } else { 1 };
        let total: f64 = (0..walks)
            .into_par_iter()
            .map(|walk| {
                let mut p: Option<Matrix> = None;
                for step in &kernels {
                    let rows = if student.stays() {
                        &step[walk..=walk]
                    } else {
                        &step[..]
                    };
                    let kernel = dense(self.chain, rows);
                    p = Some(match p {
                        Some(p) => p.product(&kernel),
                        None => {
                            let rows = starts.iter().flat_map(|&x| kernel.row(x)).copied();
                            Matrix::from_data(starts.len(), states.len(), rows.collect())
                        }
                    });
                }
                p.map_or(0.0, |p| {
                    conditional_total_correlation(states, &weights, |x| p.row(x))
                })
            })
            .sum();
        Some(total / walks as f64)
    }

    /// Kernel rows `[N, D, S']` for each step of a grid and each latent.
    fn kernels(&self, student: &Student, grid: &Grid, how: How) -> Vec<Vec<Vec<f64>>> {
        grid.intervals()
            .map(|(t, r)| {
                (0..student.latents(self.chain))
                    .map(|latent| {
                        let logits = self.logits(student, latent, (t, r), how.gain);
                        let states: Vec<usize> = (0..self.chain.states().len()).collect();
                        let p = batch::predict(self.chain, &states, &logits, how.temperature);
                        law::step_rows(self.chain, t, r, &p)
                    })
                    .collect()
            })
            .collect()
    }

    /// Logits `[N, D, S]` at every state.
    fn logits(&self, student: &Student, latent: usize, (t, r): (f64, f64), gain: f64) -> Vec<f64> {
        let (states, symbols) = (self.chain.states(), self.chain.path().symbols());
        let carried: Vec<usize> = (0..student.carried as u32)
            .map(|i| latent / symbols.pow(i) % symbols)
            .collect();
        let x: Vec<usize> = (0..states.len())
            .flat_map(|x| [states.decode(x), carried.clone()].concat())
            .collect();
        let (times, ends) = (vec![t; states.len()], vec![r; states.len()]);
        let whole = Batch {
            x: &x,
            t: &times,
            r: &ends,
        };
        let run = |net: &Conditioned<f32>| {
            let mut pass = Pass::default();
            net.evaluate(whole, false, &mut pass);
            let width = net.coords() * symbols;
            let own = states.coords() * symbols;
            let rows = pass.logits.chunks(width).flat_map(|row| &row[..own]);
            rows.copied().collect::<Vec<f64>>()
        };
        let mut logits = run(&student.base);
        if let Some(correction) = &student.correction {
            let more = run(correction);
            logits
                .iter_mut()
                .zip(more)
                .for_each(|(l, c)| *l += gain * c);
        }
        logits
    }

    /// The law over the data after all steps.
    fn law(&self, student: &Student, kernels: &[Vec<Vec<f64>>]) -> Vec<f64> {
        let space = self.chain.states();
        let mean = |laws: Vec<Vec<f64>>| {
            let n = laws.len() as f64;
            let mut sum = vec![0.0; space.len()];
            for law in laws {
                sum.iter_mut().zip(law).for_each(|(s, p)| *s += p / n);
            }
            sum
        };
        let end = if student.stays() {
            let walk = |latent: usize| {
                let begin = self.chain.source_law();
                let push = |p: Vec<f64>, step: &Vec<Vec<f64>>| law::push(space, &p, &step[latent]);
                kernels.iter().fold(begin, push)
            };
            mean((0..student.latents(self.chain)).map(walk).collect())
        } else {
            kernels.iter().fold(self.chain.source_law(), |p, step| {
                mean(step.iter().map(|rows| law::push(space, &p, rows)).collect())
            })
        };
        law::on_data(self.chain, &end)
    }

    /// The two parts of the steps' error, where the exact kernels are at hand.
    fn split(&self, grid: usize, kernels: &[Vec<Vec<f64>>]) -> Option<(f64, f64)> {
        let mut sum = (0.0, 0.0);
        for (step, rows) in self.steps[grid].iter().zip(kernels) {
            let level = self.chain.path().schedule().level(step.t);
            let p = self.chain.marginal(level);
            let error = step_error(self.chain.states(), &p, step.propagator.as_ref()?, &rows[0]);
            sum = (sum.0 + error.marginal, sum.1 + error.dependence);
        }
        // Infinite where a kernel misses what the exact one has, if only by rounding.
        (sum.0.is_finite() && sum.1.is_finite()).then_some(sum)
    }
}

impl Student {
    /// Values of the latent.
    fn latents(&self, chain: &Chain) -> usize {
        chain.path().symbols().pow(self.carried as u32)
    }

    /// Whether a sequence keeps its latent.
    fn stays(&self) -> bool {
        self.carried > 0 && self.coupling.is_some()
    }
}

/// The mean of product kernels over all states, `[N, N]`.
fn dense(chain: &Chain, latents: &[Vec<f64>]) -> Matrix {
    let states = chain.states();
    let n = states.len();
    let width = states.coords() * states.symbols();
    let mut out = Matrix::zeros(n, n);
    let (mut product, mut scratch) = (Vec::new(), Vec::new());
    for rows in latents {
        for (x, row) in rows.chunks(width).enumerate() {
            let mass = 1.0 / latents.len() as f64;
            law::expand(mass, row, states.symbols(), &mut product, &mut scratch);
            let to = &mut out.data_mut()[x * n..(x + 1) * n];
            to.iter_mut().zip(&product).for_each(|(o, p)| *o += p);
        }
    }
    out
}
