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
        let Pair { t, r, lambda, mu, .. } = self.pair;
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
        let Pair { t, r, lambda, mu, mu_dot } = self.pair;
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
        if count == 0 { 0.0 } else { sum / f64::from(count) }
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
        let p = &row.prediction[entries.clone()];
        // d loss / d p~ of this coordinate's entries, made a gradient in the logits below.
        let mut slope = vec![0.0; s];
        for i in entries.clone() {
            let (value, derivative) = if Some(i) == stay {
                at_current_symbol(objective, row, i)
            } else {
                at_other_symbol(objective, row, i)
            };
            total += value;
            slope[i - d * s] = derivative;
        }
        let mean: f64 = p.iter().zip(&slope).map(|(p, g)| p * g).sum();
        for (i, (p, g)) in entries.zip(p.iter().zip(&slope)) {
            gradient[i] += weight * p * (g - mean);
        }
    }
    weight * total
}

/// The summand of a symbol `z != x_t^d`, and its derivative in `p~(z)`.
fn at_other_symbol(objective: Objective, row: &Row, i: usize) -> (f64, f64) {
    let Pair { lambda, mu, .. } = row.pair;
    let (p, label) = (row.prediction[i], row.label[i]);
    match objective {
        Objective::Posterior => minus_log(lambda * label, p, 1.0),
        Objective::P => minus_log(lambda * label, row.shifted(i), 1.0),
        // D_F(a || b) = -a log b + b + const.
        Objective::Q => {
            let rate = mu * p + row.rate_correction(i);
            let (value, slope) = minus_log(lambda * label, rate / lambda, mu / lambda);
            (value + rate, slope + mu)
        }
        Objective::U => {
            let target = (lambda * row.posterior[i] - row.rate_correction(i)).max(0.0);
            let rate = mu * p;
            let (value, slope) = minus_log(target, rate / lambda, mu / lambda);
            (value + rate, slope + mu)
        }
        Objective::Linear => minus_log(lambda * row.linear_target(i), p, 1.0),
    }
}

/// The summand of `z = x_t^d`, and its derivative in `p~(z)`.
fn at_current_symbol(objective: Objective, row: &Row, i: usize) -> (f64, f64) {
    let lambda = row.pair.lambda;
    match objective {
        Objective::Posterior => (
            lambda * (row.label[i] - row.prediction[i]),
            -lambda,
        ),
        Objective::P => (-lambda * row.shifted(i), -lambda),
        Objective::Q | Objective::U => (0.0, 0.0),
        Objective::Linear => minus_log(lambda * row.linear_target(i), row.prediction[i], 1.0),
    }
}

/// `-a log b`, and its derivative in what `b` has the slope `inner` in. Below [`FLOOR`] the
/// logarithm is that of the floor and the derivative zero.
fn minus_log(a: f64, b: f64, inner: f64) -> (f64, f64) {
    if a == 0.0 {
        (0.0, 0.0)
    } else if b < FLOOR {
        (-a * FLOOR.ln(), 0.0)
    } else {
        (-a * b.ln(), -a * inner / b)
    }
}
