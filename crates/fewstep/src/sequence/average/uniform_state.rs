//! The losses at one coordinate of the uniform-state process.
//!
//! Off the diagonal `U(z) = a p~_z + b p~_x + c` ([`duo::average_slopes`]), and its derivative in `t`
//! has the same form; a jump of another coordinate changes `p~`, one of the coordinate itself also
//! the state that the row belongs to.

use fewstep_ctmc::{
    Path,
    duo::{self, Affine},
};
use fewstep_nn::{Logits, Real, softmax};

use super::Loss;
use crate::objective::Pair;

/// One coordinate of a sequence with a step to correct.
pub struct Coordinate<'a> {
    pub path: &'a Path,
    pub pair: &'a Pair,
    /// `x_t`.
    pub state: usize,
    pub x1: usize,
    /// `D Lambda^e/lambda` over the number of draws, and the new state if the coordinate itself
    /// jumps, for each jump.
    pub jumps: Vec<(f64, Option<usize>)>,
    /// One over the number of coordinates.
    pub scale: f64,
}

/// A row of a generator from the posterior, with zero sum.
fn generator(f: Affine, state: usize, p: &[f64]) -> Vec<f64> {
    let rest = f.b * p[state] + f.c;
    let mut row: Vec<f64> = p.iter().map(|p| f.a * p + rest).collect();
    row[state] = 0.0;
    row[state] = -row.iter().sum::<f64>();
    row
}

impl Coordinate<'_> {
    /// The loss; its gradient is left in the logits.
    pub fn loss<T: Real>(&self, loss: Loss, logits: Logits<T>) -> f64 {
        let Logits {
            value,
            tangent,
            others,
        } = logits;
        let (path, Pair { t, r, lambda, .. }) = (self.path, *self.pair);
        let symbols = path.symbols();
        let (u_form, du_form) = duo::average_slopes(path.schedule(), symbols, t, r);
        softmax::in_place(value);
        let mean = softmax::mean(value, tangent);
        let p: Vec<f64> = value.iter().map(|p| p.widen()).collect();
        let moved: Vec<f64> = p
            .iter()
            .zip(tangent.iter())
            .map(|(p, d)| p * (d.widen() - mean))
            .collect();
        let u = generator(u_form, self.state, &p);
        // d_t U + Q_t U: the forms' own derivative, that of p~, and the jumps.
        let mut change = generator(du_form, self.state, &p);
        let along = generator(Affine { c: 0.0, ..u_form }, self.state, &moved);
        change.iter_mut().zip(&along).for_each(|(c, d)| *c += d);
        for (other, (jumps, own)) in others.into_iter().zip(&self.jumps) {
            softmax::in_place(other);
            let q: Vec<f64> = other.iter().map(|q| q.widen()).collect();
            let there = generator(u_form, own.unwrap_or(self.state), &q);
            for ((c, there), u) in change.iter_mut().zip(&there).zip(&u) {
                *c += lambda * jumps * (there - u);
            }
        }
        let level = path.schedule().level(t);
        let rate =
            |z: usize| lambda * duo::conditional_rate(level, symbols, self.state, z, self.x1);
        let away = || (0..symbols).filter(|&z| z != self.state);
        let (mut total, mut scale) = (0.0, self.scale);
        let slopes = match loss {
            Loss::Shifted { floor } => {
                // In U(z), and from U(z) = a p_z + b p_x + c to the logits.
                let (mut slopes, mut all) = (vec![0.0; symbols], 0.0);
                for z in away() {
                    let (q, most) = (rate(z), u[z] + (t - r) * change[z]);
                    total += q * (q / most.max(floor * lambda)).ln() - q + most;
                    let mut slope = 1.0;
                    if most > floor * lambda {
                        slope -= q / most;
                    }
                    slopes[z] = u_form.a * p[z] * slope;
                    all += slope;
                }
                slopes[self.state] = u_form.b * p[self.state] * all;
                Slopes {
                    of_logits: slopes,
                    of_leaving: 0.0,
                }
            }
            Loss::Linear => {
                let mut target: Vec<f64> = (0..symbols)
                    .map(|z| rate(z) - (t - r) * change[z])
                    .collect();
                target[self.state] = 0.0;
                let (value, slopes) = self.cross_entropy(u_form, &p, &target);
                total = value;
                scale *= weight(self.pair, level.kappa);
                slopes
            }
        };
        slopes.write(self.state, &p, scale, value);
        scale * total
    }

    /// `-sum_z P*(z) ln P(z)/(r - t)`, the kernel `P = delta + (r - t) U` against the one with the
    /// rates `target`, up to a constant.
    ///
    /// A logarithm's slope is the share that each part of its argument has, so that no small
    /// probability is ever divided by. With `q = 1 - p_x`, the parts of `U(z)` are `a p_z`, `-b q`
    /// and `b + c`, those of `P(x)` what is left of 1 without `p_x`, and `p_x`; none is negative.
    fn cross_entropy(&self, form: Affine, p: &[f64], target: &[f64]) -> (f64, Slopes) {
        let (h, x) = (self.pair.r - self.pair.t, self.state);
        let Affine { a, b, c } = form;
        let others = (p.len() - 1) as f64;
        // Not 1 - p_x, which is nothing but rounding where p_x is nearly 1.
        let leaving: f64 = p.iter().sum::<f64>() - p[x];
        let (same, fixed) = ((-b * leaving).max(0.0), (b + c).max(0.0));
        let mut slopes = Slopes {
            of_logits: vec![0.0; p.len()],
            of_leaving: 0.0,
        };
        let mut total = 0.0;
        for z in (0..p.len()).filter(|&z| z != x) {
            let rate = a * p[z] + same + fixed;
            total -= target[z] * rate.max(f64::MIN_POSITIVE).ln();
            slopes.of_logits[z] = -target[z] * share(a * p[z], rate);
            slopes.of_leaving -= target[z] * share(same, rate);
        }
        let known = (1.0 - h * (a + others * c)).max(0.0);
        let own = h * (a - others * b) * p[x];
        let target_stay = (1.0 - h * target.iter().sum::<f64>()) / h;
        total -= target_stay * (known + own).max(f64::MIN_POSITIVE).ln();
        slopes.of_logits[x] = -target_stay * share(own, known + own);
        (total, slopes)
    }
}

/// What a pair counts in the linear loss, which has the same minimum whatever it is.
///
/// A coordinate that shows noise leaves its state at the rate `lambda/kappa`, which has no bound
/// towards noise, and a jump weighs its rate. Pairs that counted alike would let the few that begin
/// next to noise drown all others: their mean square does not exist.
fn weight(pair: &Pair, kappa: f64) -> f64 {
    let h = pair.r - pair.t;
    h / (1.0 + h * pair.lambda / kappa)
}

/// The share of a part in a sum; of nothing, all.
fn share(part: f64, sum: f64) -> f64 {
    if sum > 0.0 { part / sum } else { 1.0 }
}

/// The slopes of a loss in the logarithms of what it is a function of.
struct Slopes {
    /// In `ln p_z` for each `z`.
    of_logits: Vec<f64>,
    /// In `ln(1 - p_x)`.
    of_leaving: f64,
}

impl Slopes {
    /// Leaves the gradient in the logits: that of `ln p_z` is `delta_z - p`, that of `ln(1 - p_x)`
    /// is `p_x (p/(1 - p_x) - delta_x)` with the own entry of `p` left out.
    fn write<T: Real>(&self, x: usize, p: &[f64], scale: f64, logits: &mut [T]) {
        let sum: f64 = self.of_logits.iter().sum();
        let leaving = p.iter().sum::<f64>() - p[x];
        // Where nothing leaves, all slopes are zero but for rounding.
        let of_leaving = if leaving > 0.0 { self.of_leaving } else { 0.0 };
        for (z, logit) in logits.iter_mut().enumerate() {
            let away = match z == x {
                true => -p[x],
                false => p[x] * p[z] / leaving.max(f64::MIN_POSITIVE),
            };
            let slope = self.of_logits[z] - p[z] * sum + of_leaving * away;
            *logit = T::of(scale * slope);
        }
    }
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Process, Schedule};

    use super::*;

    /// Predictions that leave no room in f32 for what they exclude, over short steps and over the
    /// last one.
    #[test]
    fn certain_predictions_have_finite_gradients() {
        let path = Path::new(Schedule::Linear, Process::UniformState, 4).unwrap();
        for (t, r) in [(0.2, 0.3), (0.5, 1.0), (0.01, 1.0), (0.998, 1.0)] {
            let pair = Pair::new(Schedule::Linear, t, r);
            for logits in [
                [0.0, 90.0, 0.0, 0.0],
                [90.0, 0.0, 0.0, 0.0],
                [-90.0, 0.0, 0.1, 0.2],
                [17.0, 0.0, -17.0, 16.9],
                [-200.0, 200.0, 0.0, 0.0],
            ] {
                let coordinate = Coordinate {
                    path: &path,
                    pair: &pair,
                    state: 0,
                    x1: 2,
                    jumps: vec![(4.0, None)],
                    scale: 0.1,
                };
                let mut value = logits.map(|l| l as f32);
                let mut tangent = [0.5f32, -3.0, 2.0, 0.1];
                let mut other = [0.3f32, 5.0, -5.0, 0.2];
                let given = Logits {
                    value: &mut value,
                    tangent: &mut tangent,
                    others: vec![&mut other],
                };
                let loss = coordinate.loss(Loss::Linear, given);
                assert!(loss.is_finite(), "{loss} at {t}, {r}, {logits:?}");
                // Rates are of the order of 1/t and 1/(1 - t).
                let bound = 1e2 / (t * (1.0 - t));
                for g in value {
                    assert!(g.abs() < bound as f32, "{value:?} at {t}, {r}, {logits:?}");
                }
                assert!(value.iter().sum::<f32>().abs() < 1e-4 * bound as f32);
            }
        }
    }
}
