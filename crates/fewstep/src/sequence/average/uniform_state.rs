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
        // The slope of the loss in U(z), z != x.
        let mut slopes = vec![0.0; symbols];
        let mut total = 0.0;
        let away = || (0..symbols).filter(|&z| z != self.state);
        match loss {
            Loss::Shifted { floor } => {
                for z in away() {
                    let (q, most) = (rate(z), u[z] + (t - r) * change[z]);
                    total += q * (q / most.max(floor * lambda)).ln() - q + most;
                    slopes[z] = 1.0;
                    if most > floor * lambda {
                        slopes[z] -= q / most;
                    }
                }
            }
            Loss::Linear => {
                let out: f64 = away().map(|z| u[z]).sum();
                let mut target_out = 0.0;
                for z in away() {
                    let target = rate(z) - (t - r) * change[z];
                    let known = u[z].max(f64::MIN_POSITIVE);
                    target_out += target;
                    total -= target * known.ln();
                    slopes[z] = -target / known;
                }
                let h = r - t;
                let stay = (1.0 - h * out).max(f64::MIN_POSITIVE);
                let target_stay = 1.0 - h * target_out;
                total -= target_stay / h * stay.ln();
                for z in away() {
                    slopes[z] += target_stay / stay;
                }
            }
        }
        // From U(z) = a p_z + b p_x + c to the logits.
        let all: f64 = slopes.iter().sum();
        slopes.iter_mut().for_each(|s| *s *= u_form.a);
        slopes[self.state] = u_form.b * all;
        let mean: f64 = p.iter().zip(&slopes).map(|(p, s)| p * s).sum();
        for ((logit, p), s) in value.iter_mut().zip(&p).zip(&slopes) {
            *logit = T::of(self.scale * p * (s - mean));
        }
        self.scale * total
    }
}
