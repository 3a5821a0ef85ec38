//! Law matching, enumerated: the product kernel of a step whose *law* is right.
//!
//! A product step `K(x, y) = prod_d m^d(y^d | x)` from `x ~ p_t` is a mixture over `x` of product laws,
//! `f = p_t K`, and can carry any dependence that `x` carries. The average generator makes each
//! `m^d(. | x)` the exact conditional marginal; here the law `f` itself is brought to `b = p_r`, which
//! no marginal alone does.
//!
//! - **EM.** `f` is a mixture with fixed weights `p_t(x)` and components `K(x, .)`. With the
//!   responsibilities `p_t(x) K(x, y)/f(y)` under `b`, the best product component has the marginals of
//!   `K(x, y) b(y)/f(y)`: [`Matching::em`]. `KL(b || f)` never rises.
//! - **Mirror descent.** The derivative of `KL(f || b)` in the logits of `m^d(. | x)` is
//!   `p_t(x) m^d(a | x) (L^d(x, a) - sum_c m^d(c | x) L^d(x, c))` with
//!   `L^d(x, a) = E_{y ~ K(x, .)} [ln f(a | y^{\d}) - ln b(a | y^{\d})]`: [`Matching::gradient`]. Only
//!   conditionals of one coordinate occur. In general the derivative has `ln f(y)/b(y)` at `y^d = a`;
//!   `ln f(y) = ln f(y^{\d}) + ln f(y^d | y^{\d})`, and the first part, in whose law `y^d` has no say
//!   given `x`, is the same for all `a` and drops out. A step along the simplex multiplies `m` by
//!   `exp(-eta L)`: [`Matching::mirror`].
//!
//! Both keep a kernel that does not depend on `x` as it is, up to its marginals: a law that starts
//! from one point (masks) or a base at `t = 0` (which looks at nothing) is a mixture of one.

use rayon::prelude::*;

use crate::{
    Space,
    divergence::kl,
    law::{expand, push},
};

/// One step: where it starts, `p_t`, and the law it is to reach, `p_r`, over the states of a space.
#[derive(Clone, Copy, Debug)]
pub struct Matching<'a> {
    /// The states.
    pub space: &'a Space,
    /// `p_t`.
    pub from: &'a [f64],
    /// `p_r`.
    pub to: &'a [f64],
}

impl Matching<'_> {
    /// `f = p_t K` for kernel rows `[N, D, S]`.
    pub fn law(&self, rows: &[f64]) -> Vec<f64> {
        push(self.space, self.from, rows)
    }

    /// `KL(p_r || p_t K)`, which EM lowers.
    pub fn forward(&self, rows: &[f64]) -> f64 {
        kl(self.to, &self.law(rows))
    }

    /// `KL(p_t K || p_r)`, which mirror descent lowers.
    pub fn backward(&self, rows: &[f64]) -> f64 {
        kl(&self.law(rows), self.to)
    }

    /// The rows after one step of EM. Rows of states that cannot be started from stay.
    pub fn em(&self, rows: &[f64]) -> Vec<f64> {
        let f = self.law(rows);
        let ratio: Vec<f64> = self
            .to
            .iter()
            .zip(&f)
            .map(|(b, f)| if *f > 0.0 { b / f } else { 0.0 })
            .collect();
        let mut out = sums(self.space, rows, &ratio);
        normalize(rows, self.space.symbols(), &mut out);
        out
    }

    /// The derivative of `KL(p_t K || p_r)` in the logits of the rows, `[N, D, S]`.
    pub fn gradient(&self, rows: &[f64]) -> Vec<f64> {
        let ratios = self.ratios(rows);
        each(self.space, rows, |x, row, product, out| {
            self.mean_ratios(&ratios, product, out);
            let symbols = self.space.symbols();
            for (l, m) in out.chunks_mut(symbols).zip(row.chunks(symbols)) {
                let mean: f64 = l.iter().zip(m).map(|(l, m)| l * m).sum();
                for (l, m) in l.iter_mut().zip(m) {
                    *l = self.from[x] * m * (*l - mean);
                }
            }
        })
    }

    /// The rows times `exp(-eta L)`, normalised.
    pub fn mirror(&self, rows: &[f64], eta: f64) -> Vec<f64> {
        let ratios = self.ratios(rows);
        each(self.space, rows, |_, row, product, out| {
            self.mean_ratios(&ratios, product, out);
            for (l, m) in out.iter_mut().zip(row) {
                *l = m * (-eta * *l).exp();
            }
            normalize(row, self.space.symbols(), out);
        })
    }

    /// `ln f(a | y^{\d}) - ln b(a | y^{\d})` for each state `y`, coordinate and symbol, `[N, D, S]`.
    fn ratios(&self, rows: &[f64]) -> Vec<f64> {
        let (f, symbols) = (self.law(rows), self.space.symbols());
        let mut out = Vec::with_capacity(self.space.len() * self.space.coords() * symbols);
        for y in 0..self.space.len() {
            for d in 0..self.space.coords() {
                let of = |law: &[f64]| -> Vec<f64> {
                    let line: Vec<f64> = (0..symbols)
                        .map(|a| law[self.space.with(y, d, a)].max(f64::MIN_POSITIVE))
                        .collect();
                    let total: f64 = line.iter().sum();
                    line.iter().map(|p| (p / total).ln()).collect()
                };
                let (f, b) = (of(&f), of(self.to));
                out.extend(f.iter().zip(&b).map(|(f, b)| f - b));
            }
        }
        out
    }

    /// `L^d(x, a)` from the kernel `K(x, .)`.
    fn mean_ratios(&self, ratios: &[f64], product: &[f64], out: &mut [f64]) {
        let width = out.len();
        for (mass, ratios) in product.iter().zip(ratios.chunks_exact(width)) {
            for (o, r) in out.iter_mut().zip(ratios) {
                *o += mass * r;
            }
        }
    }
}

/// `make(x, row, K(x, .), out)` for each state.
fn each(
    space: &Space,
    rows: &[f64],
    make: impl Fn(usize, &[f64], &[f64], &mut [f64]) + Sync,
) -> Vec<f64> {
    let width = space.coords() * space.symbols();
    let mut out = vec![0.0; rows.len()];
    out.par_chunks_mut(width)
        .zip(rows.par_chunks(width))
        .enumerate()
        .for_each_init(
            || (Vec::new(), Vec::new()),
            |(product, scratch), (x, (out, row))| {
                expand(1.0, row, space.symbols(), product, scratch);
                make(x, row, product, out);
            },
        );
    out
}

/// `sum_{y^d = a} K(x, y) v(y)` for each state, coordinate and symbol, `[N, D, S]`.
pub(crate) fn sums(space: &Space, rows: &[f64], v: &[f64]) -> Vec<f64> {
    let symbols = space.symbols();
    each(space, rows, |_, _, product, out| {
        for (y, (mass, v)) in product.iter().zip(v).enumerate() {
            for d in 0..space.coords() {
                out[d * symbols + space.symbol(y, d)] += mass * v;
            }
        }
    })
}

/// Rows of laws from weights; where there are none, the row as it was.
pub(crate) fn normalize(row: &[f64], symbols: usize, out: &mut [f64]) {
    for (out, row) in out.chunks_mut(symbols).zip(row.chunks(symbols)) {
        let total: f64 = out.iter().sum();
        if total > 0.0 {
            out.iter_mut().for_each(|o| *o /= total);
        } else {
            out.copy_from_slice(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Chain, Grid, Path, Process, Schedule, Source, Target, divergence::total_variation, law,
        propagator,
    };

    fn laws(weights: &[f64], symbols: usize) -> Vec<f64> {
        let mut out = weights.to_vec();
        for row in out.chunks_mut(symbols) {
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|w| *w /= total);
        }
        out
    }

    fn instance() -> impl Strategy<Value = (Space, Vec<f64>, Vec<f64>, Vec<f64>)> {
        let space = Space::new(3, 2).unwrap();
        let law = || prop::collection::vec(0.05..1.0f64, 9).prop_map(|w| laws(&w, 9));
        let rows = prop::collection::vec(0.05..1.0f64, 9 * 6).prop_map(|w| laws(&w, 3));
        (law(), law(), rows).prop_map(move |(from, to, rows)| (space.clone(), from, to, rows))
    }

    proptest! {
        #[test]
        fn em_never_raises_the_divergence((space, from, to, rows) in instance()) {
            let step = Matching { space: &space, from: &from, to: &to };
            let (mut rows, mut last) = (rows, f64::INFINITY);
            for _ in 0..5 {
                let now = step.forward(&rows);
                prop_assert!(now <= last + 1e-12, "{now} after {last}");
                last = now;
                rows = step.em(&rows);
            }
        }

        /// One-coordinate conditionals give the derivative that the whole ratio gives.
        #[test]
        fn conditionals_of_one_coordinate_suffice((space, from, to, rows) in instance()) {
            let step = Matching { space: &space, from: &from, to: &to };
            let gradient = step.gradient(&rows);
            let f = step.law(&rows);
            let whole = |y: usize| (f[y] / to[y]).ln();
            for x in 0..9 {
                let m = &rows[x * 6..(x + 1) * 6];
                let k = |y: usize| m[y / 3] * m[3 + y % 3];
                let mean: f64 = (0..9).map(|y| k(y) * whole(y)).sum();
                for d in 0..2 {
                    for a in 0..3 {
                        let here = (0..9).filter(|&y| space.symbol(y, d) == a);
                        let part: f64 = here.map(|y| k(y) * whole(y)).sum();
                        let known = from[x] * (part - m[d * 3 + a] * mean);
                        let found = gradient[x * 6 + d * 3 + a];
                        prop_assert!((found - known).abs() < 1e-12, "{found} {known}");
                    }
                }
            }
        }

        #[test]
        fn the_gradient_is_that_of_central_differences((space, from, to, rows) in instance()) {
            let step = Matching { space: &space, from: &from, to: &to };
            let gradient = step.gradient(&rows);
            for at in [0, 7, 20, 53] {
                let moved = |h: f64| {
                    let mut weights = rows.clone();
                    weights[at] *= f64::exp(h);
                    step.backward(&laws(&weights, 3))
                };
                let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                prop_assert!((numeric - gradient[at]).abs() < 1e-9, "{at}");
            }
        }

        #[test]
        fn small_mirror_steps_lower_the_divergence((space, from, to, rows) in instance()) {
            let step = Matching { space: &space, from: &from, to: &to };
            let before = step.backward(&rows);
            let after = step.backward(&step.mirror(&rows, 0.05));
            prop_assert!(after < before, "{after} after {before}");
        }
    }

    /// The paper's Potts model with K steps, each matched on its own: the total variation of the
    /// whole sampler before and after `rounds` of EM.
    fn potts(steps: usize, rounds: usize, from_base: bool) -> (f64, f64) {
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 4).unwrap();
        let target = Target::PAPER.law(&Space::new(4, 4).unwrap(), 0).unwrap();
        let chain = Chain::new(path, 4, target).unwrap();
        let grid = Grid::uniform(steps).unwrap();
        let at = |t: f64| chain.marginal(Schedule::Linear.level(t));
        let mut kernels: Vec<Vec<f64>> = grid
            .intervals()
            .map(|(t, r)| match from_base {
                true => {
                    let posterior = chain.posterior(Schedule::Linear.level(t));
                    law::step_rows(&chain, t, r, &posterior)
                }
                false => propagator::marginals(&chain, t, r).unwrap(),
            })
            .collect();
        let error = |kernels: &[Vec<f64>]| {
            let push = |p: Vec<f64>, rows: &Vec<f64>| push(chain.states(), &p, rows);
            let end = kernels.iter().fold(chain.source_law(), push);
            total_variation(&law::on_data(&chain, &end), chain.target())
        };
        let before = error(&kernels);
        for ((t, r), rows) in grid.intervals().zip(&mut kernels) {
            let (from, to) = (at(t), at(r));
            let step = Matching {
                space: chain.states(),
                from: &from,
                to: &to,
            };
            for _ in 0..rounds {
                *rows = step.em(rows);
            }
        }
        (before, error(&kernels))
    }

    /// Twenty rounds take the dependence error away; the numbers of an independent program on
    /// another draw of the same law are .024, .006 and .001.
    #[test]
    fn em_takes_the_dependence_error_away() {
        for (steps, most) in [(2, 0.030), (4, 0.009), (8, 0.002)] {
            let (before, after) = potts(steps, 20, false);
            assert!(
                after < most && before > 10.0 * after,
                "{steps}: {before} to {after}"
            );
        }
    }

    /// From the base a first step of one looks at nothing, and stays where it is.
    #[test]
    fn a_kernel_that_looks_at_nothing_stays() {
        let (before, after) = potts(1, 5, true);
        assert!((before - after).abs() < 1e-9, "{before} {after}");
        let (before, after) = potts(1, 20, false);
        assert!(after < 0.2 * before, "{before} {after}");
    }
}
