//! What a coordinate's own state does to it over a step, in closed form.
//!
//! On the mixture path with noise that is a symbol like any other, the posterior of a coordinate is
//! what the others say of it, `m`, times the likelihood of its own state:
//! `p_{1|t}(z | x) = m(z) (1 + c_t 1[z = x^d])/(1 + c_t m(x^d))`, `c_t = s kappa_t/(1 - kappa_t)` with noise
//! symbols of probability `1/s`. In a step `t -> r` both factors move. How `m` moves is what the average
//! generator has to learn; the second factor needs no learning. With `m` held, the coordinate keeps its
//! symbol but for being drawn anew from `m`, at the rate `d kappa/(1 + a_x kappa)`, `a_z = s m(z) - 1`:
//!
//! `d P(z)/d kappa = -P(z)/(1 + a_z kappa) + m(z) sum_y P(y)/(1 + a_y kappa)`.
//!
//! So `z` is not drawn anew in the whole step with probability `G_z = e^{-l_z}`,
//! `l_z = ln[(1 + a_z kappa_r)/(1 + a_z kappa_t)]/a_z`, and a symbol that is drawn in its midst has to last for
//! half of it, which `G_z^{1/2}` says:
//!
//! `P_{t->r}(z | x) = G_x delta_x(z) + (1 - G_x) q(z)`, `q(z) = m(z) G_z^{1/2} / sum_y m(y) G_y^{1/2}`.
//!
//! The first part is exact, the second a single step of a method of second order: against the integrated
//! equation it is off by a total variation of `1e-4` at most for steps of an eighth, and by less than
//! `1e-2` for the whole way from noise to data in one (tests). The average posterior `p~ = (P - (1 -
//! omega) delta_x)/omega` is then `(1 - f) delta_x + f q` with `f = (1 - G_x)/omega`, and for an empty step it is
//! the posterior above.
//!
//! The paper is silent on this: its correction starts from the posterior at `t` and has to learn all.

use crate::Schedule;

/// Below this the schedule's survival counts as this much, so that all is finite at `r = 1`.
const SURVIVAL: f64 = 1e-9;

/// A step `t -> r` of positive length, for a coordinate whose noise symbols have the probability `1/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnStep {
    s: f64,
    /// `kappa` and `1 - kappa` at `t` and at `r`.
    from: (f64, f64),
    to: (f64, f64),
    /// `d kappa/dt` at `t`.
    slope: f64,
}

/// What was told of one coordinate, kept for the way back.
#[derive(Clone, Debug)]
pub struct Told {
    own: Option<usize>,
    m: Vec<f64>,
    q: Vec<f64>,
    /// `d(ln m - l/2)/d ln m`.
    stretch: Vec<f64>,
    /// The derivatives of the own symbol's extra logit in `ln q(x)` and, by way of `f`, in `ln m(x)`.
    pull: (f64, f64),
}

/// `l` at a symbol and its derivative in `a`.
struct Leaving {
    l: f64,
    in_a: f64,
}

impl OwnStep {
    /// The step from `t` to `r > t`.
    pub fn new(schedule: Schedule, s: f64, t: f64, r: f64) -> Self {
        let (from, to) = (schedule.level(t), schedule.level(r));
        let survival = to.survival.max(SURVIVAL).min(from.survival);
        Self {
            s,
            from: (from.kappa, from.survival),
            to: (1.0 - survival, survival),
            slope: schedule.kappa_dot(t),
        }
    }

    /// `kappa_r - kappa_t`.
    fn length(&self) -> f64 {
        self.from.1 - self.to.1
    }

    fn omega(&self) -> f64 {
        self.length() / self.from.1
    }

    /// `1 + a kappa_t` at a symbol that the others give `m`.
    fn hit(&self, m: f64) -> f64 {
        self.from.1 + self.s * m * self.from.0
    }

    fn leaving(&self, m: f64) -> Leaving {
        let (a, hit, length) = (self.s * m - 1.0, self.hit(m), self.length());
        if a.abs() < 1e-4 {
            let power = |n: i32| self.to.0.powi(n) - self.from.0.powi(n);
            return Leaving {
                l: length - a * power(2) / 2.0 + a * a * power(3) / 3.0,
                in_a: -power(2) / 2.0 + 2.0 * a * power(3) / 3.0,
            };
        }
        let l = (a * length / hit).ln_1p() / a;
        let end = self.to.1 + self.s * m * self.to.0;
        Leaving {
            l,
            in_a: (length / (end * hit) - l) / a,
        }
    }

    /// `1 - f`, the trust in the own state: what of `omega` it stays by, `(G_x - (1 - omega))/omega`.
    fn trust(&self, m: f64, l: f64) -> f64 {
        let none = (self.from.1 / self.to.1).ln();
        let w = self.s * m;
        // Both logarithms are alike where the others rule the symbol out.
        let above = match w * self.to.0 < 1e-6 * self.to.1 {
            true => w * (self.length() / (self.from.1 * self.to.1) - none),
            false => none - l,
        };
        (1.0 - self.omega()) / self.omega() * above.exp_m1()
    }

    /// Turns the logits of `m` into those of `p~` for a coordinate that shows `own` (nothing if its state
    /// says nothing, as a mask), and their derivative in `t`, if it is there, into that of `p~`'s.
    pub fn tell(&self, logits: &mut [f64], tangent: &mut [f64], own: Option<usize>) -> Told {
        let own = own.filter(|&x| logits[x] > f64::NEG_INFINITY);
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let level = top + logits.iter().map(|v| (v - top).exp()).sum::<f64>().ln();
        let m: Vec<f64> = logits.iter().map(|v| (v - level).exp()).collect();
        let mean: f64 = m.iter().zip(&*tangent).map(|(m, d)| m * d).sum();
        let mut stretch = vec![1.0; m.len()];
        let (mut at_own, mut moving) = (Leaving { l: 0.0, in_a: 0.0 }, 0.0);
        for (z, (&m, v)) in m.iter().zip(logits.iter_mut()).enumerate() {
            let leaving = self.leaving(m);
            let moved = self.s * m * leaving.in_a;
            stretch[z] = 1.0 - moved / 2.0;
            *v -= leaving.l / 2.0;
            if own == Some(z) {
                at_own = leaving;
                moving = tangent.get(z).map_or(0.0, |d| d - mean);
            }
            if let Some(d) = tangent.get_mut(z) {
                *d = stretch[z] * (*d - mean) + self.slope / self.hit(m) / 2.0;
            }
        }
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut q: Vec<f64> = logits.iter().map(|v| (v - top).exp()).collect();
        let total: f64 = q.iter().sum();
        q.iter_mut().for_each(|q| *q /= total);
        let mut pull = (0.0, 0.0);
        if let Some(x) = own.filter(|&x| m[x] > 0.0) {
            let trust = self.trust(m[x], at_own.l);
            let (f, kept) = (1.0 - trust, 1.0 - trust + trust / q[x]);
            let moved = self.s * m[x] * at_own.in_a;
            let stays = (-at_own.l).exp() / self.omega();
            // The extra logit is ln(f q + 1 - f) - ln(f q).
            let in_f = -1.0 / (f * q[x] * kept);
            pull = (-trust / (q[x] * kept), in_f * stays * moved);
            if !tangent.is_empty() {
                let mean: f64 = q.iter().zip(&*tangent).map(|(q, d)| q * d).sum();
                let shrinks = -self.slope * self.to.1 / (self.from.1 * self.from.1);
                let at_rest =
                    in_f * (-stays * self.slope / self.hit(m[x]) - f * shrinks / self.omega());
                tangent[x] += pull.0 * (tangent[x] - mean) + pull.1 * moving + at_rest;
            }
            logits[x] += (kept / f).ln();
        }
        Told {
            own,
            m,
            q,
            stretch,
            pull,
        }
    }
}

impl Told {
    /// Turns a gradient in the logits of `p~` into that in those of `m`.
    pub fn back(&self, gradient: &mut [f64]) {
        let own = self.own.map_or(0.0, |x| gradient[x]);
        let (in_q, in_f) = (own * self.pull.0, own * self.pull.1);
        let mut sum = 0.0;
        for (z, g) in gradient.iter_mut().enumerate() {
            let mine = if self.own == Some(z) { in_q } else { 0.0 };
            *g = self.stretch[z] * (*g + mine - in_q * self.q[z]);
            if self.own == Some(z) {
                *g += in_f;
            }
            sum += *g;
        }
        for (g, m) in gradient.iter_mut().zip(&self.m) {
            *g -= m * sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Chain, Path, Process, Source, propagator};

    fn told(step: &OwnStep, logits: &[f64], own: Option<usize>) -> Vec<f64> {
        let mut logits = logits.to_vec();
        step.tell(&mut logits, &mut [], own);
        let level = logits.iter().map(|v| v.exp()).sum::<f64>().ln();
        logits.iter().map(|v| (v - level).exp()).collect()
    }

    /// The chain of one coordinate, which the others never move: its propagator.
    fn exact(source: Source, m: &[f64], (t, r): (f64, f64), x: usize) -> Vec<f64> {
        let path = Path::new(Schedule::Cosine, Process::Mixture(source), m.len()).unwrap();
        let chain = Chain::new(path.clone(), 1, m.to_vec()).unwrap();
        let symbols = path.state_symbols();
        let all = propagator::marginals(&chain, t, r).unwrap();
        let omega = path.schedule().omega(t, r);
        let law = all[x * symbols..(x + 1) * symbols].iter().enumerate();
        law.map(|(z, p)| (p - if z == x { 1.0 - omega } else { 0.0 }) / omega)
            .take(m.len())
            .collect()
    }

    #[test]
    fn it_is_the_chain_of_one_coordinate() {
        let m = [0.6, 0.25, 0.1, 0.0495, 0.0005];
        let cases = [
            ((0.0, 0.125), 2e-4),
            ((0.5, 0.625), 2e-4),
            ((0.875, 1.0 - 1e-6), 2e-3),
            ((0.0, 0.5), 5e-3),
            ((0.0, 1.0 - 1e-6), 1e-2),
        ];
        for source in [Source::Uniform, Source::STOCHASTIC_MASK] {
            let path = Path::new(Schedule::Cosine, Process::Mixture(source.clone()), 5).unwrap();
            for ((t, r), bound) in cases {
                let step = OwnStep::new(Schedule::Cosine, path.source(0, 0).recip(), t, r);
                let rest = OwnStep::new(Schedule::Cosine, path.source(0, 0).recip(), t, t + 1e-7);
                for x in 0..path.state_symbols() {
                    let own = Some(x).filter(|&x| x < 5);
                    let logits = m.map(f64::ln);
                    let wanted = exact(source.clone(), &m, (t, r), x);
                    let off = |p: &[f64]| {
                        p.iter()
                            .zip(&wanted)
                            .map(|(p, q)| (p - q).abs())
                            .sum::<f64>()
                            / 2.0
                    };
                    let found = off(&told(&step, &logits, own));
                    let before = off(&told(&rest, &logits, own));
                    assert!(found < bound, "{source:?} {t} {r} from {x}: {found}");
                    assert!(found < before, "{found} against {before} at rest");
                }
            }
        }
    }

    /// An empty step gives the posterior.
    #[test]
    fn a_short_step_is_the_posterior() {
        let (m, t) = ([0.7, 0.2, 0.1 - 1e-12, 1e-12], 0.4);
        let step = OwnStep::new(Schedule::Linear, 4.0, t, t + 1e-9);
        for x in 0..4 {
            let c = 4.0 * t / (1.0 - t);
            let found = told(&step, &m.map(f64::ln), Some(x));
            for (z, found) in found.into_iter().enumerate() {
                let likely = if z == x { 1.0 + c } else { 1.0 };
                let wanted = m[z] * likely / (1.0 + c * m[x]);
                assert!((found / wanted - 1.0).abs() < 1e-6, "{found} {wanted}");
            }
        }
    }

    proptest! {
        /// The derivative in `t` and the way back are those of the law, by central differences.
        #[test]
        fn it_is_differentiated(
            logits in prop::collection::vec(-6.0..3.0f64, 5),
            moving in prop::collection::vec(-1.0..1.0f64, 5),
            weights in prop::collection::vec(-1.0..1.0f64, 5),
            t in 0.02..0.9f64,
            share in 0.05..1.0f64,
            own in 0..6usize,
        ) {
            let (own, r) = (Some(own).filter(|&x| x < 5), t + share * (1.0 - t));
            let at = |shift: f64, logits: &[f64]| {
                told(&OwnStep::new(Schedule::Linear, 5.0, t + shift, r), logits, own)
            };
            let step = OwnStep::new(Schedule::Linear, 5.0, t, r);
            let (mut value, mut tangent) = (logits.clone(), moving.clone());
            let kept = step.tell(&mut value, &mut tangent, own);
            let p = at(0.0, &logits);
            let mean: f64 = p.iter().zip(&tangent).map(|(p, d)| p * d).sum();
            let h = 1e-5;
            let along = |h: f64| {
                let moved: Vec<f64> = logits.iter().zip(&moving).map(|(l, d)| l + h * d).collect();
                at(h, &moved)
            };
            for ((p, d), (up, down)) in p.iter().zip(&tangent).zip(along(h).iter().zip(along(-h))) {
                let (found, numeric) = (p * (d - mean), (up - down) / (2.0 * h));
                prop_assert!((found - numeric).abs() < 1e-6 * (1.0 + numeric.abs()), "{found} {numeric}");
            }
            // The loss is linear in the law; its gradient in the logits of `p~`:
            let loss = |p: &[f64]| p.iter().zip(&weights).map(|(p, w)| p * w).sum::<f64>();
            let level = loss(&p);
            let mut gradient: Vec<f64> = p.iter().zip(&weights).map(|(p, w)| p * (w - level)).collect();
            kept.back(&mut gradient);
            for (z, found) in gradient.iter().enumerate() {
                let shifted = |h: f64| {
                    let mut logits = logits.clone();
                    logits[z] += h;
                    loss(&at(0.0, &logits))
                };
                let numeric = (shifted(h) - shifted(-h)) / (2.0 * h);
                prop_assert!((found - numeric).abs() < 1e-7, "{found} {numeric} at {z}");
            }
        }

        /// It is a law, whatever the others say.
        #[test]
        fn it_is_a_law(
            logits in prop::collection::vec(-700.0..0.0f64, 3..40),
            t in 0.0..0.999f64,
            share in 1e-9..1.0f64,
        ) {
            let step = OwnStep::new(Schedule::Linear, logits.len() as f64, t, t + share * (1.0 - t));
            for x in 0..logits.len() {
                let (mut value, mut tangent) = (logits.clone(), vec![0.0; logits.len()]);
                let kept = step.tell(&mut value, &mut tangent, Some(x));
                let mut gradient = vec![1.0; logits.len()];
                kept.back(&mut gradient);
                for v in value.iter().chain(&tangent).chain(&gradient) {
                    prop_assert!(v.is_finite(), "{value:?} {tangent:?} {gradient:?}");
                }
            }
        }
    }
}
