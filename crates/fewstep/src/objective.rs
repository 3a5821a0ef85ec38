//! What training regresses: the paper's objectives and the linear target, row by row.
//!
//! A row is one state `x_t` at one pair `(t, r)`. Given the network's prediction `p~_{t,r}`, its
//! derivative in `t`, the frozen posterior `p_{1|t}` and the transport part `Gamma`, an
//! [`Objective`] is a number and its gradient in the logits. Everything under the paper's
//! stop-gradient is an input here, so the gradient is plain calculus and is tested as such.
//!
//! Tables are `[D, S]` in f64. A coordinate whose symbol is not in `0..S` is masked. On the
//! masked path an unmasked coordinate carries over and takes no part ([`Row::active`]).
//!
//! # Why the linear target is the default
//!
//! The paper takes the logarithm of the shifted probability `q^`. With the single-draw estimator
//! the noise sits inside that logarithm: `E[1/q^] != 1/E[q^]`, the fixed point moves, and `q^`
//! can be negative. The cross-entropy against the signed target `T` has the gradient `p~ - T`
//! in the logits, linear in the noise and so unbiased with one draw.

use fewstep_ctmc::Schedule;

/// The smallest shifted probability or rate (relative to `lambda`) whose logarithm is taken.
/// Below it the paper's objectives have no gradient.
pub const FLOOR: f64 = 1e-6;

/// What is regressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The posterior itself (eq. training-posterior): trains the base denoiser.
    Posterior,
    /// `U^theta` onto its own stop-gradient target (eq. u-loss), negative targets cut to zero
    /// since the Bregman divergence is not defined there.
    U,
    /// The reparameterised rate onto the conditional rate (eq. v-loss with eq. Q-reparam).
    Q,
    /// The shifted probability onto the data (eq. loss-general, on the masked path eq.
    /// loss-masked).
    P,
    /// `p~` onto the signed linear target `T = p_{1|t} - (q^ - p~)`, by cross-entropy over all
    /// symbols.
    Linear,
}

impl Objective {
    /// The name in options, tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Posterior => "posterior",
            Self::U => "u",
            Self::Q => "q",
            Self::P => "p",
            Self::Linear => "linear",
        }
    }
}

/// How the transport part of `Gamma` is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The sum over all jumps (eq. C-term).
    Exact,
    /// The mean of this many single jumps (eq. C-estimator, eq. C-estimator-masked).
    Draws(u32),
}

/// The scalars of a pair `(t, r)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Where the step starts.
    pub t: f64,
    /// Where it ends, `r >= t`.
    pub r: f64,
    /// `lambda_t`.
    pub lambda: f64,
    /// `mu_{t,r}`.
    pub mu: f64,
    /// `d_t mu_{t,r}`.
    pub mu_dot: f64,
}

impl Pair {
    /// The scalars of `(t, r)`, `t < 1`.
    pub fn new(schedule: Schedule, t: f64, r: f64) -> Self {
        Self {
            t,
            r,
            lambda: schedule.lambda(t),
            mu: schedule.mu(t, r),
            mu_dot: schedule.mu_dot(t, r),
        }
    }
}

/// One state at one pair, tables `[D, S]`.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The pair.
    pub pair: Pair,
    /// The symbols of `x_t`, `[D]`.
    pub x: &'a [usize],
    /// Whether unmasked coordinates carry over (the masked path).
    pub carry_over: bool,
    /// `p~_{t,r}(z^d | x_t)`.
    pub prediction: &'a [f64],
    /// `d_t p~_{t,r}(z^d | x_t)` at fixed `r`.
    pub tangent: &'a [f64],
    /// `p_{1|t}(z^d | x_t)` of the frozen denoiser.
    pub posterior: &'a [f64],
    /// `Gamma` (eq. Gamma): `C + p~ - p_{1|t}`, on the masked path `C_cross`.
    pub gamma: &'a [f64],
    /// The law of `x_1^d` that the data term averages over: a one-hot `x_1`, or the exact
    /// posterior where the expectation over `x_1` given `x_t` is taken by enumeration.
    pub label: &'a [f64],
}

impl Row<'_> {
    fn symbols(&self) -> usize {
        self.prediction.len() / self.x.len()
    }

    /// Whether coordinate `d` takes part.
    pub fn active(&self, d: usize) -> bool {
        !self.carry_over || self.x[d] >= self.symbols()
    }

    /// `(t - r) mu/lambda [d_t p~ + lambda Gamma]` at entry `i` of `[D, S]`: what eq.
    /// data-posterior adds to `p~`.
    pub fn shift(&self, i: usize) -> f64 {
        let Pair {
            t, r, lambda, mu, ..
        } = self.pair;
        (t - r) * mu / lambda * (self.tangent[i] + lambda * self.gamma[i])
    }

    /// The shifted probability `q^` (eq. data-posterior) at entry `i`.
    pub fn shifted(&self, i: usize) -> f64 {
        self.prediction[i] + self.shift(i)
    }

    /// The signed linear target `T` at entry `i`; its fixed point `p~ = T` is `q^ = p_{1|t}`.
    pub fn linear_target(&self, i: usize) -> f64 {
        self.posterior[i] - self.shift(i)
    }

    /// `(t - r)(d_t (mu p~) + Pi^d[Q U^theta])` at entry `i`: the stop-gradient part of eq.
    /// Q-reparam, with the transport term of eq. commutator, `lambda mu (C - p_{1|t}) =
    /// lambda mu (Gamma - p~)`.
    pub fn rate_correction(&self, i: usize) -> f64 {
        let Pair {
            t,
            r,
            lambda,
            mu,
            mu_dot,
        } = self.pair;
        let transport = lambda * mu * (self.gamma[i] - self.prediction[i]);
        (t - r) * (mu_dot * self.prediction[i] + mu * self.tangent[i] + transport)
    }

    /// The mean over the active entries of `|q^ - p_{1|t}|`: how far the prediction is from
    /// solving the projected identity.
    pub fn identity_residual(&self) -> f64 {
        let s = self.symbols();
        let (mut sum, mut count) = (0.0, 0);
        for i in (0..self.prediction.len()).filter(|i| self.active(i / s)) {
            sum += (self.shifted(i) - self.posterior[i]).abs();
            count += 1;
        }
        if count == 0 {
            0.0
        } else {
            sum / f64::from(count)
        }
    }
}

/// The loss of a row and its gradient in the logits, which is added into `gradient` (`[D, S]`)
/// times `weight`. The loss omits what does not depend on `p~`.
pub fn loss(objective: Objective, row: &Row, weight: f64, gradient: &mut [f64]) -> f64 {
    let s = row.symbols();
    let mut total = 0.0;
    for d in (0..row.x.len()).filter(|&d| row.active(d)) {
        let entries = d * s..(d + 1) * s;
        let stay = (row.x[d] < s).then(|| d * s + row.x[d]);
        let mut sum = 0.0;
        for i in entries.clone() {
            let term = if Some(i) == stay {
                at_current_symbol(objective, row, i)
            } else {
                at_other_symbol(objective, row, i)
            };
            total += term.value;
            sum += term.slope;
            gradient[i] += weight * term.slope;
        }
        for i in entries {
            gradient[i] -= weight * row.prediction[i] * sum;
        }
    }
    weight * total
}

/// A summand of a loss and `p~ d/dp~` of it. Softmax turns slopes into the gradient in the
/// logits, `slope(z) - p~(z) sum slope`.
struct Term {
    value: f64,
    slope: f64,
}

/// The summand of a symbol `z != x_t^d`.
fn at_other_symbol(objective: Objective, row: &Row, i: usize) -> Term {
    let Pair { lambda, mu, .. } = row.pair;
    let (p, label) = (row.prediction[i], lambda * row.label[i]);
    match objective {
        Objective::Posterior => cross_entropy(label, p),
        Objective::P => minus_log(label, row.shifted(i), p),
        Objective::Q => bregman(label, mu * p + row.rate_correction(i), mu * p, lambda),
        Objective::U => {
            let target = lambda * row.posterior[i] - row.rate_correction(i);
            bregman(target.max(0.0), mu * p, mu * p, lambda)
        }
        Objective::Linear => cross_entropy(lambda * row.linear_target(i), p),
    }
}

/// The summand of `z = x_t^d`.
fn at_current_symbol(objective: Objective, row: &Row, i: usize) -> Term {
    let lambda = row.pair.lambda;
    let p = row.prediction[i];
    let (value, slope) = match objective {
        Objective::Posterior => (lambda * (row.label[i] - p), -lambda * p),
        Objective::P => (-lambda * row.shifted(i), -lambda * p),
        Objective::Q | Objective::U => (0.0, 0.0),
        Objective::Linear => return cross_entropy(lambda * row.linear_target(i), p),
    };
    Term { value, slope }
}

/// `-a log p~`. The slope is `-a` however small `p~` is.
fn cross_entropy(a: f64, p: f64) -> Term {
    Term {
        value: -a * p.max(f64::MIN_POSITIVE).ln(),
        slope: -a,
    }
}

/// `-a log b` where `b` has the slope `p` in `p~`, floored.
fn minus_log(a: f64, b: f64, p: f64) -> Term {
    Term {
        value: -a * b.max(FLOOR).ln(),
        slope: if b < FLOOR { 0.0 } else { -a * p / b },
    }
}

/// `D_F(a || b)` without its `b`-free part, `-a log b + b`, where `b` has the slope `p` in `p~`.
fn bregman(a: f64, b: f64, p: f64, lambda: f64) -> Term {
    let log = minus_log(a, b / lambda, p / lambda);
    Term {
        value: log.value + b,
        slope: log.slope + p,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn softmax(logits: &[f64]) -> Vec<f64> {
        logits
            .chunks_exact(3)
            .flat_map(|row| {
                let total: f64 = row.iter().map(|v| v.exp()).sum();
                row.iter().map(move |v| v.exp() / total)
            })
            .collect()
    }

    proptest! {
        /// The gradient of every objective against central differences, with everything under
        /// the stop-gradient held fixed.
        #[test]
        fn gradients_are_derivatives(
            logits in prop::collection::vec(-1.0..1.0f64, 6),
            other in prop::collection::vec(-1.0..1.0f64, 6),
            tangent in prop::collection::vec(-0.2..0.2f64, 6),
            gamma in prop::collection::vec(-0.2..0.2f64, 6),
            t in 0.0..0.9f64,
            w in 0.0..=1.0f64,
            masked in any::<bool>(),
        ) {
            let pair = Pair::new(Schedule::Cosine, 0.05 + t, 0.05 + t + w * (0.95 - t));
            let (posterior, fixed) = (softmax(&other), softmax(&logits));
            let x = if masked { [3, 1] } else { [0, 1] };
            let row = |prediction| Row {
                pair, x: &x, carry_over: masked, prediction,
                tangent: &tangent, posterior: &posterior, gamma: &gamma, label: &posterior,
            };
            for objective in [Objective::Posterior, Objective::P, Objective::Linear] {
                let mut gradient = [0.0; 6];
                loss(objective, &row(&fixed), 0.7, &mut gradient);
                for i in 0..6 {
                    let at = |h: f64| {
                        let mut moved = logits.clone();
                        moved[i] += h;
                        let p = softmax(&moved);
                        // The shift of P is under the stop-gradient: it keeps its value at p~.
                        let held = row(&fixed);
                        let mut total = 0.0;
                        for d in (0..2).filter(|&d| held.active(d)) {
                            for j in d * 3..d * 3 + 3 {
                                let stay = x[d] < 3 && j == d * 3 + x[d];
                                let q = p[j] + if objective == Objective::P { held.shift(j) } else { 0.0 };
                                total += pair.lambda * match (objective, stay) {
                                    (Objective::Linear, _) => -held.linear_target(j) * p[j].ln(),
                                    (_, false) => -posterior[j] * q.max(FLOOR).ln(),
                                    (_, true) => -q,
                                };
                            }
                        }
                        0.7 * total
                    };
                    let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
                    // A floored entry has a kink: skip where it is near.
                    let kink = (0..6).any(|j| (row(&fixed).shifted(j) - FLOOR).abs() < 1e-3);
                    if !(objective == Objective::P && kink) {
                        prop_assert!((gradient[i] - numeric).abs() < 1e-5 * (1.0 + numeric.abs()),
                            "{objective:?} {i}: {} against {numeric}", gradient[i]);
                    }
                }
            }
        }

        /// Q and U differ from P and the linear target only by mu/lambda in the gradient; on the
        /// linear schedule, where mu = lambda, Q is P.
        #[test]
        fn on_the_linear_schedule_q_is_p(
            logits in prop::collection::vec(-1.0..1.0f64, 6),
            other in prop::collection::vec(-1.0..1.0f64, 6),
            tangent in prop::collection::vec(-0.05..0.05f64, 6),
            t in 0.0..0.9f64,
        ) {
            let pair = Pair::new(Schedule::Linear, t, 0.95);
            let (posterior, prediction) = (softmax(&other), softmax(&logits));
            let mut tangent = tangent;
            for row in tangent.chunks_exact_mut(3) {
                row[2] = -row[0] - row[1];
            }
            let gamma: Vec<f64> = prediction.iter().zip(&posterior).map(|(a, b)| 0.1 * (a - b)).collect();
            let row = Row {
                pair, x: &[0, 2], carry_over: false, prediction: &prediction,
                tangent: &tangent, posterior: &posterior, gamma: &gamma, label: &posterior,
            };
            prop_assume!((0..6).all(|i| row.shifted(i) > 1e-3 && row.linear_target(i) > 1e-3));
            let gradient = |objective| {
                let mut g = vec![0.0; 6];
                loss(objective, &row, 1.0, &mut g);
                g
            };
            for (a, b) in gradient(Objective::P).iter().zip(gradient(Objective::Q)) {
                prop_assert!((a - b).abs() < 1e-9, "{a} against {b}");
            }
        }
    }

    #[test]
    fn the_linear_gradient_is_prediction_minus_target() {
        let pair = Pair::new(Schedule::Linear, 0.5, 0.75);
        let (prediction, posterior) = ([0.2, 0.3, 0.5], [0.5, 0.25, 0.25]);
        let (tangent, gamma) = ([0.1, -0.3, 0.2], [-0.2, 0.1, 0.1]);
        let row = Row {
            pair,
            x: &[1],
            carry_over: false,
            prediction: &prediction,
            tangent: &tangent,
            posterior: &posterior,
            gamma: &gamma,
            label: &posterior,
        };
        let mut gradient = [0.0; 3];
        loss(Objective::Linear, &row, 1.0, &mut gradient);
        for i in 0..3 {
            let target = posterior[i] + 0.25 * (tangent[i] + 2.0 * gamma[i]);
            assert!((gradient[i] - 2.0 * (prediction[i] - target)).abs() < 1e-12);
        }
    }
}
