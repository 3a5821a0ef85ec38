//! The uniform-state (DUO) process, appendix "The uniform-state (DUO) process".
//!
//! DUO counts time from data to noise with a falling `alpha`; here `alpha_t = kappa_t` rises and
//! a step goes `t -> r` with `alpha_t <= alpha_r`. With `c' = (1 - alpha_t)/S` and
//! `alpha_{t|r} = alpha_t/alpha_r` the bridge is
//!
//! `q(x_r | x_t, x_1) = [alpha_{t|r} d(x_r, x_t) + (1 - alpha_{t|r})/S] [alpha_r d(x_r, x_1) +
//! (1 - alpha_r)/S] / [alpha_t d(x_t, x_1) + c']`.
//!
//! All `z != x` entries carry the factor `1 - alpha_{t|r} = (kappa_r - kappa_t)/kappa_r`, which
//! the schedule gives without cancellation, so a vanishing step is no special case.

use crate::{Level, Schedule};

/// `q(x_r = z | x_t = x, x_1 = v)`.
pub fn bridge(
    schedule: Schedule,
    symbols: usize,
    t: f64,
    r: f64,
    x: usize,
    v: usize,
    z: usize,
) -> f64 {
    let b = Bridge::new(schedule, symbols, t, r);
    b.from(z, x) * b.to(z, v) / b.norm(x, v)
}

/// The off-diagonal conditional rate in log-time (eq. duo-cond-rate times
/// `dt/du = (1 - alpha)/alpha'`): `(1 - alpha)/(alpha S) (alpha d(z, v) + c')/(alpha d(v, x) + c')`.
pub fn conditional_rate(level: Level, symbols: usize, x: usize, z: usize, v: usize) -> f64 {
    let s = symbols as f64;
    let (alpha, c) = (level.kappa, level.survival / s);
    let hit = |yes: bool| if yes { alpha + c } else { c };
    level.survival / (alpha * s) * hit(z == v) / hit(v == x)
}

/// The marginal rate in log-time from the posterior `p`, off the diagonal, in closed form:
/// `(1 - alpha)/(alpha S) [p_z (alpha + c')/c' + p_x c'/(alpha + c') + (1 - p_z - p_x)]`.
/// The caller sets `out[x]`.
pub fn rate_row(level: Level, x: usize, p: &[f64], out: &mut [f64]) {
    let s = p.len() as f64;
    let (alpha, c) = (level.kappa, level.survival / s);
    for (z, o) in out.iter_mut().enumerate() {
        // The first term's 1/c' cancels the factor (1 - alpha)/S, so that t = 1 is regular.
        let rest = p[x] * c / (alpha + c) + (1.0 - p[z] - p[x]);
        *o = p[z] * (alpha + c) / alpha + level.survival / (alpha * s) * rest;
    }
}

/// How [`rate_row`] depends on the posterior: its entries are `a p_z + b p_x + const`; `(a, b)`.
pub fn rate_slopes(level: Level, symbols: usize) -> (f64, f64) {
    let s = symbols as f64;
    let (alpha, c) = (level.kappa, level.survival / s);
    let rest = level.survival / (alpha * s);
    ((alpha + c) / alpha - rest, rest * (c / (alpha + c) - 1.0))
}

/// One sampler step, `out[z] = E_{v ~ p} q(x_r = z | x_t = x, x_1 = v)` (eq. duo-U times `r - t`,
/// plus the diagonal), in `O(S)`: the bridge's denominator takes only two values.
pub fn step_row(schedule: Schedule, t: f64, r: f64, x: usize, p: &[f64], out: &mut [f64]) {
    let b = Bridge::new(schedule, p.len(), t, r);
    let (same, other) = (b.norm(x, x), b.norm(x, x + 1));
    let mean = p[x] / same + (1.0 - p[x]) / other;
    for (z, o) in out.iter_mut().enumerate() {
        let norm = if z == x { same } else { other };
        *o = b.from(z, x) * (b.alpha_r * p[z] / norm + b.rest_r * mean);
    }
}

/// The transpose of [`step_row`], `out[v] = sum_z weights[z] q(x_r = z | x_t = x, x_1 = v)`.
pub fn pull_row(schedule: Schedule, t: f64, r: f64, x: usize, weights: &[f64], out: &mut [f64]) {
    let b = Bridge::new(schedule, weights.len(), t, r);
    let from = |z: usize| weights[z] * b.from(z, x);
    let rest = b.rest_r * (0..weights.len()).map(from).sum::<f64>();
    for (v, o) in out.iter_mut().enumerate() {
        *o = (b.alpha_r * from(v) + rest) / b.norm(x, v);
    }
}

/// The average generator's row `out[z] = Pi^d[U_{t,r}](x, z)` (eq. duo-U), with zero sum, and the
/// marginal rate in `t` at `r = t`.
pub fn average_generator_row(
    schedule: Schedule,
    t: f64,
    r: f64,
    x: usize,
    p: &[f64],
    out: &mut [f64],
) {
    if r == t {
        rate_row(schedule.level(t), x, p, out);
        let lambda = schedule.lambda(t);
        out.iter_mut().for_each(|o| *o *= lambda);
    } else {
        step_row(schedule, t, r, x, p, out);
        out.iter_mut().for_each(|o| *o /= r - t);
    }
    out[x] = 0.0;
    out[x] = -out.iter().sum::<f64>();
}

/// A row that is affine in a posterior: `a p_z + b p_x + c` at `z != x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// In the posterior of `z`.
    pub a: f64,
    /// In the posterior of the state.
    pub b: f64,
    /// On its own.
    pub c: f64,
}

/// [`average_generator_row`] off the diagonal as a function of `p~`, `t < r`, and its derivative in
/// `t` at fixed `r` and `p~`. With `rho = c'/(alpha_t + c')`, eq. duo-U is
/// `mu_{t,r} [p_z + (1 - alpha_r)/(alpha_r S) (1 - p_x + rho p_x)]`.
pub fn average_slopes(schedule: Schedule, symbols: usize, t: f64, r: f64) -> (Affine, Affine) {
    let s = symbols as f64;
    let (from, to) = (schedule.level(t), schedule.level(r));
    let (mu, mu_dot) = (schedule.mu(t, r), schedule.mu_dot(t, r));
    let share = to.survival / (to.kappa * s);
    let (rest, same) = (from.survival / s, from.kappa + from.survival / s);
    let rho = rest / same;
    // The numerator falls by alpha'/S, the denominator grows by alpha' (1 - 1/S).
    let rho_dot = -schedule.kappa_dot(t) * (same / s + rest * (1.0 - 1.0 / s)) / (same * same);
    let value = Affine {
        a: mu,
        b: mu * share * (rho - 1.0),
        c: mu * share,
    };
    let slope = Affine {
        a: mu_dot,
        b: share * (mu_dot * (rho - 1.0) + mu * rho_dot),
        c: mu_dot * share,
    };
    (value, slope)
}

/// The numbers of a bridge that do not depend on the symbols.
struct Bridge {
    alpha_t: f64,
    rest_t: f64,
    alpha_r: f64,
    rest_r: f64,
    /// `alpha_{t|r}` and `(1 - alpha_{t|r})/S`.
    keep: f64,
    move_: f64,
}

impl Bridge {
    fn new(schedule: Schedule, symbols: usize, t: f64, r: f64) -> Self {
        let s = symbols as f64;
        let (from, to) = (schedule.level(t), schedule.level(r));
        Self {
            alpha_t: from.kappa,
            rest_t: from.survival / s,
            alpha_r: to.kappa,
            rest_r: to.survival / s,
            keep: from.kappa / to.kappa,
            move_: schedule.increment(t, r) / to.kappa / s,
        }
    }

    fn from(&self, z: usize, x: usize) -> f64 {
        self.move_ + if z == x { self.keep } else { 0.0 }
    }

    fn to(&self, z: usize, v: usize) -> f64 {
        self.rest_r + if z == v { self.alpha_r } else { 0.0 }
    }

    fn norm(&self, x: usize, v: usize) -> f64 {
        self.rest_t + if x == v { self.alpha_t } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The O(S) row against the plain sum over v.
        #[test]
        fn closed_form_is_the_average_bridge(t in 0.0..0.98f64, w in 0.0..=1.0f64, a in 0.0..1.0f64) {
            let r = (t + w * (1.0 - t)).max(1e-6);
            let p = [0.4 * a, 0.6 * a, (1.0 - a) * 0.9, (1.0 - a) * 0.1];
            let mut row = [0.0; 4];
            for x in 0..4 {
                step_row(Schedule::Arccos, t, r, x, &p, &mut row);
                for z in 0..4 {
                    let plain: f64 = (0..4)
                        .map(|v| p[v] * bridge(Schedule::Arccos, 4, t, r, x, v, z))
                        .sum();
                    prop_assert!((row[z] - plain).abs() < 1e-13, "{} against {plain}", row[z]);
                }
            }
        }

        #[test]
        fn marginal_rate_is_the_average_conditional_rate(t in 0.02..0.98f64) {
            let level = Schedule::Linear.level(t);
            let p = [0.1, 0.2, 0.7];
            let mut row = [0.0; 3];
            for x in 0..3 {
                rate_row(level, x, &p, &mut row);
                for z in (0..3).filter(|&z| z != x) {
                    let plain: f64 = (0..3).map(|v| p[v] * conditional_rate(level, 3, x, z, v)).sum();
                    prop_assert!((row[z] - plain).abs() < 1e-12 * (1.0 + plain));
                }
            }
        }
    }

    /// DUO's ancestral step puts its prediction `m` into the bridge, above and below. That is the
    /// averaged bridge if `m` is what the other coordinates say, so that the posterior is `m` times
    /// the likelihood of the state, which is what DUO's bound trains; it is not if `m` is taken for
    /// the posterior itself.
    #[test]
    fn duos_ancestral_step_is_the_average_over_what_the_others_say() {
        let m = [0.3, 0.05, 0.2, 0.15, 0.1, 0.1, 0.1];
        let (at, ar, k, x) = (0.3, 0.5, 7.0, 2);
        let ats = at / ar;
        let ancestral = |z: usize| {
            let here = f64::from(u8::from(z == x));
            let top = at * k * m[z] * here
                + (ats - at) * here
                + (ar - at) * m[z]
                + (1.0 - ats) * (1.0 - ar) / k;
            top / (at * k * m[x] + 1.0 - at)
        };
        let mut posterior = m;
        for (v, p) in posterior.iter_mut().enumerate() {
            *p *= (1.0 - at) / k + if v == x { at } else { 0.0 };
        }
        let total: f64 = posterior.iter().sum();
        posterior.iter_mut().for_each(|p| *p /= total);
        let off = |p: &[f64; 7]| {
            let mut row = [0.0; 7];
            step_row(Schedule::Linear, at, ar, x, p, &mut row);
            (0..7).map(|z| (row[z] - ancestral(z)).abs()).sum::<f64>() / 2.0
        };
        assert!(off(&posterior) < 1e-15, "{}", off(&posterior));
        assert!(off(&m) > 0.05, "{}", off(&m));
    }

    /// The affine form against the row, its derivative against central differences.
    #[test]
    fn the_average_generator_is_affine_in_the_posterior() {
        let p = [0.1, 0.25, 0.65];
        for schedule in [Schedule::Linear, Schedule::LogLinear { eps: 1e-3 }] {
            for (t, r) in [(0.1, 0.3), (0.4, 1.0), (0.95, 0.99)] {
                let row = |t: f64, x: usize| {
                    let mut row = [0.0; 3];
                    average_generator_row(schedule, t, r, x, &p, &mut row);
                    row
                };
                let (value, slope) = average_slopes(schedule, 3, t, r);
                for (x, z) in [(0, 1), (1, 2), (2, 0)] {
                    let of = |f: Affine| f.a * p[z] + f.b * p[x] + f.c;
                    assert!((of(value) - row(t, x)[z]).abs() < 1e-12);
                    let h = 1e-5;
                    let numeric = (row(t + h, x)[z] - row(t - h, x)[z]) / (2.0 * h);
                    assert!((of(slope) - numeric).abs() < 1e-6 * (1.0 + numeric.abs()));
                }
            }
        }
    }

    #[test]
    fn the_last_step_draws_the_prediction() {
        let p = [0.1, 0.2, 0.7];
        let mut row = [0.0; 3];
        step_row(Schedule::Linear, 0.6, 1.0, 1, &p, &mut row);
        for z in 0..3 {
            assert!((row[z] - p[z]).abs() < 1e-15);
        }
    }
}
