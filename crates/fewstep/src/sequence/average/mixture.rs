//! The losses at one coordinate on the mixture path.

use fewstep_ctmc::Path;
use fewstep_nn::{Column, Logits, Real, softmax};

use crate::objective::Pair;

/// One coordinate of a sequence with a step to correct.
pub struct Coordinate<'a> {
    pub pair: &'a Pair,
    /// `D`, or `|M| 1[e != d]`, over the number of draws, for each jump.
    pub jumps: Vec<f64>,
    /// Whether this coordinate is the one that jumps, for each jump.
    pub mine: Vec<bool>,
    /// Whether the row with `x_1` for the own state, all else held, comes after those of the jumps.
    pub held: bool,
    /// Whether all coordinates take part, and not those alone that are masked.
    pub all: bool,
    /// `x_t`, where it is a symbol that can be predicted.
    pub state: Option<usize>,
    pub x1: usize,
    /// `p_{1|t}` at `x_1` and at `x_t`.
    pub posterior: [f64; 2],
    /// One over the number of coordinates.
    pub scale: f64,
}

impl Coordinate<'_> {
    /// `(t - r) mu/lambda`.
    fn factor(&self) -> f64 {
        (self.pair.t - self.pair.r) * self.pair.mu / self.pair.lambda
    }

    /// `q^ = p~ + shift` at a symbol, with `own` for the term `p~ - p_{1|t}` of `Gamma`.
    fn moved(&self, column: &Column, own: f64) -> f64 {
        let moves = column.others.iter().zip(&self.jumps);
        let jumped: f64 = moves.map(|(p, jumps)| jumps * (p - column.value)).sum();
        column.value + self.factor() * (column.tangent + self.pair.lambda * (jumped + own))
    }

    /// Eq. loss-masked, `-lambda ln q^(x_1)`, and its slope `-p d/dp`.
    pub fn masked(&self, floor: f64, column: &Column) -> (f64, f64) {
        let (weight, q) = (self.scale * self.pair.lambda, self.moved(column, 0.0));
        let slope = if q > floor { column.value / q } else { 0.0 };
        (-weight * q.max(floor).ln(), weight * slope)
    }

    /// Eq. loss-general: `lambda (-1[x_1 != x] ln q^(x_1) - q^(x))`, where `q^ = p~ + shift`.
    pub fn shifted<T: Real>(&self, floor: f64, logits: Logits<T>) -> f64 {
        let Logits {
            value,
            tangent,
            others,
        } = logits;
        let (lambda, x1) = (self.pair.lambda, self.x1);
        let weight = self.scale * lambda;
        softmax::in_place(value);
        let mean = softmax::mean(value, tangent);
        let levels: Vec<f64> = others.iter().map(|o| softmax::log_sum_exp(o)).collect();
        let shifted = |symbol: usize, posterior: f64| {
            let p = value[symbol].widen();
            let moves = others.iter().zip(&levels);
            let column = Column {
                log: p.ln(),
                value: p,
                tangent: p * (tangent[symbol].widen() - mean),
                others: moves
                    .map(|(other, lse)| (other[symbol].widen() - lse).exp())
                    .collect(),
            };
            self.moved(&column, p - posterior)
        };
        let at_data = shifted(x1, self.posterior[0]);
        let (mut loss, mut slope, mut stay) = (0.0, 0.0, 0.0);
        if self.state != Some(x1) {
            loss -= weight * at_data.max(floor).ln();
            if at_data > floor {
                slope = weight * value[x1].widen() / at_data;
            }
        }
        if let Some(x) = self.state {
            loss -= weight * shifted(x, self.posterior[1]);
            stay = weight * value[x].widen();
        }
        // Slopes p d/dp are -slope at x_1 and -stay at x; the gradient is slope - p sum(slopes).
        let sum = T::of(slope + stay);
        value.iter_mut().for_each(|v| *v = *v * sum);
        value[x1] = value[x1] - T::of(slope);
        if let Some(x) = self.state {
            value[x] = value[x] - T::of(stay);
        }
        loss
    }

    /// The cross-entropy against `delta_{x_1} - shift`, with `delta_{x_1}` for `p_{1|t}` in the
    /// shift too. A masked coordinate weighs `lambda_t`, of which there are `1 - kappa_t`; where
    /// all take part, each weighs that product.
    ///
    /// One jump in `D` is the coordinate's own; it changes the most and weighs `D`, and is most of the
    /// estimator's noise. Where the own state has a part of its own, `p~(. | x) = F(m(x), x^d)`, that part
    /// is taken out of the draw: `F(m(x), x_1^d) - F(m(x), x^d)` always, with weight one, and
    /// `F(m(x'), x_1^d) - F(m(x), x_1^d)` for `x' = x^{d -> x_1^d}` where it is this coordinate that jumps.
    pub fn linear<T: Real>(&self, path: &Path, logits: Logits<T>) -> f64 {
        let Logits {
            value,
            tangent,
            mut others,
        } = logits;
        let (lambda, x1, factor) = (self.pair.lambda, self.x1, self.factor());
        let (own, share) = match self.all {
            true => (factor * lambda, path.schedule().survival(self.pair.t)),
            false => (0.0, 1.0),
        };
        let weight = self.scale * lambda * share;
        let before = value.to_vec();
        let at_data = value[x1].widen();
        let lse = softmax::in_place(value);
        others.iter_mut().for_each(|other| {
            softmax::in_place(other);
        });
        let (mean, weight_t) = (T::of(softmax::mean(value, tangent)), T::of(weight));
        let held = match self.held {
            true => others.pop(),
            false => None,
        };
        let (along, stay) = (T::of(factor), T::of(own));
        for (v, d) in value.iter().zip(tangent.iter_mut()) {
            *d = along * *v * (*d - mean) + stay * *v;
        }
        let mut add = |weight: f64, to: &[T], from: &[T]| {
            let across = T::of(factor * lambda * weight);
            for (d, (to, from)) in tangent.iter_mut().zip(to.iter().zip(from)) {
                *d += across * (*to - *from);
            }
        };
        for ((other, jumps), mine) in others.iter().zip(&self.jumps).zip(&self.mine) {
            let from = held.as_deref().filter(|_| *mine).unwrap_or(value);
            add(*jumps, other, from);
        }
        if let Some(held) = &held {
            add(1.0, held, value);
        }
        for (v, d) in value.iter_mut().zip(tangent.iter()) {
            *v = weight_t * (*v + *d);
        }
        tangent[x1] = tangent[x1] - stay;
        value[x1] = value[x1] - weight_t * (T::of(1.0) + stay);
        // -sum T ln p with ln p = l - lse; the shift sums to zero, so lse drops out of it.
        weight * (lse - at_data + softmax::mean(tangent, &before))
    }
}
