//! One training step of the average generator on the mixture path, masked or uniform, for any
//! network.
//!
//! Algorithm 1 with one jump a sequence, in the fewest passes:
//!
//! 1. the network on `x_t`, with `d/dt` for the sequences whose step is not empty (at `r = t` there
//!    is nothing to correct), kept for the way back: the primal of the derivative is the main pass;
//! 2. the frozen denoiser on those sequences, its head at one coordinate `e` each, for the jump
//!    `s ~ p_{1|t}(. | x_t)` at `e`;
//! 3. the network on `x_t^{e -> s}`;
//! 4. the head once, on the coordinates that can move, with all three rows of logits side by side,
//!    where the loss and its gradient are formed, and the way back.
//!
//! The identity's correction at symbol `z` of coordinate `d` is
//! `shift = (t - r) mu/lambda [d_t p~ + lambda Gamma]`. From one jump, with a uniform source
//! (eq. C-estimator) `Gamma = D (p~(z | x^{e -> s}) - p~(z | x)) + p~ - p_{1|t}`; on the masked path
//! (eq. C-estimator-masked), at masked `d`, `Gamma = |M| 1[e != d] (p~(z | x^{e -> s}) - p~(z | x))`.
//!
//! [`Loss::Shifted`] is eq. loss-general, on the masked path eq. loss-masked: it needs the column of
//! `x_1` and that of `x_t`. [`Loss::Linear`] is the cross-entropy against `p_{1|t} - shift` over all
//! symbols, unbiased under the single draw; being linear in `p_{1|t}`, it takes the data `x_1` in
//! its place, so that the frozen head runs at one coordinate only.

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{Batch, Gradient, Logits, Network, Real, Rows, Want, softmax};

use super::{Examples, base};
use crate::objective::Pair;

/// What is regressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Eq. loss-general; shifted probabilities below the floor have no gradient.
    Shifted {
        /// The smallest probability whose logarithm is taken.
        floor: f64,
    },
    /// The signed linear target.
    Linear,
}

/// The three evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<P> {
    main: P,
    frozen: P,
    jumped: P,
}

impl<P> Passes<P> {
    /// The one on `x_t`.
    pub fn main(&mut self) -> &mut P {
        &mut self.main
    }
}

/// The mean loss a coordinate of one step, and its gradient (added if `gradient.accumulate`).
/// `frozen` gives `p_{1|t}`.
pub fn step<T: Real, N: Network<T>>(
    (network, frozen): (&N, &N),
    examples: &Examples,
    (path, loss): (&Path, Loss),
    (seed, number): (u64, u64),
    passes: &mut Passes<N::Pass>,
    gradient: &mut Gradient<T>,
) -> f64 {
    let Examples { length, moving, .. } = *examples;
    let want = Want {
        moving,
        back: Some(gradient.adaptation),
    };
    network.evaluate(examples.all(), want, &mut passes.main);
    let active = examples.active(path);
    let split = active.partition_point(|&row| row < moving * length);
    let (corrected, plain) = active.split_at(split);
    let scale = 1.0 / examples.x.len() as f64;
    let mut total = 0.0;
    if !corrected.is_empty() {
        let jumps = draw(
            frozen,
            examples,
            corrected,
            (seed, number),
            &mut passes.frozen,
        );
        // p_{1|t} at x_1 and at x_t stands inside the logarithm of eq. loss-general.
        let posterior = if path.mask().is_none() && matches!(loss, Loss::Shifted { .. }) {
            frozen.visit(&passes.frozen, Rows::plain(corrected), |at, logits| {
                softmax::in_place(logits.value);
                let row = corrected[at];
                [examples.x1[row], examples.x[row]].map(|symbol| logits.value[symbol].widen())
            })
        } else {
            Vec::new()
        };
        let mut x = examples.x[..moving * length].to_vec();
        for &(row, symbol) in &jumps {
            x[row] = symbol;
        }
        let batch = Batch {
            x: &x,
            ..examples.first(moving)
        };
        network.evaluate(batch, Want::default(), &mut passes.jumped);
        let counts: Vec<usize> = corrected
            .chunk_by(|a, b| a / length == b / length)
            .flat_map(|rows| rows.iter().map(|_| rows.len()))
            .collect();
        let rows = Rows {
            rows: corrected,
            tangent: true,
            other: Some(&passes.jumped),
        };
        let consumer = |at: usize, logits: Logits<T>| {
            let row = corrected[at];
            // On the masked path the coordinate that jumped has no more to say about itself.
            let jumped = path.mask().is_some_and(|mask| x[row] != mask);
            let coordinate = Coordinate {
                pair: &examples.pairs[row / length],
                jumps: if jumped { 0.0 } else { counts[at] as f64 },
                state: path.mask().is_none().then_some(examples.x[row]),
                x1: examples.x1[row],
                posterior: posterior.get(at).copied().unwrap_or_default(),
                scale,
            };
            match loss {
                Loss::Shifted { floor } => coordinate.shifted(floor, logits),
                Loss::Linear => coordinate.linear(path, logits),
            }
        };
        let losses = network.descend(&mut passes.main, rows, consumer, gradient);
        total += losses.iter().sum::<f64>();
    }
    let consumer = |at: usize, logits: Logits<T>| {
        let row = plain[at];
        let (pair, state) = (&examples.pairs[row / length], examples.x[row]);
        base::bound(path, pair, scale, (state, examples.x1[row]), logits.value)
    };
    let losses = network.descend(&mut passes.main, Rows::plain(plain), consumer, gradient);
    total += losses.iter().sum::<f64>();
    network.backward(&mut passes.main, gradient);
    total
}

/// A coordinate of each sequence that has one, and a symbol for it from the frozen posterior. The
/// frozen denoiser is left evaluated on all moving sequences.
fn draw<T: Real, N: Network<T>>(
    frozen: &N,
    examples: &Examples,
    corrected: &[usize],
    (seed, number): (u64, u64),
    pass: &mut N::Pass,
) -> Vec<(usize, usize)> {
    let key = Key::new(seed, Purpose::Jump);
    let mut chosen = Vec::new();
    let mut levels = Vec::new();
    for here in corrected.chunk_by(|a, b| a / examples.length == b / examples.length) {
        let mut rng = key.at(number, (here[0] / examples.length) as u64);
        chosen.push(here[index(&mut rng, here.len())]);
        levels.push(uniform(&mut rng));
    }
    let moving = examples.first(examples.moving);
    let batch = Batch {
        r: moving.t,
        ..moving
    };
    frozen.evaluate(batch, Want::default(), pass);
    frozen.visit(pass, Rows::plain(&chosen), |at, logits| {
        softmax::in_place(logits.value);
        let wide: Vec<f64> = logits.value.iter().map(|p| p.widen()).collect();
        (chosen[at], quantile(&wide, levels[at]))
    })
}

/// One coordinate of a sequence with a step to correct.
struct Coordinate<'a> {
    pair: &'a Pair,
    /// `D`, or `|M| 1[e != d]`.
    jumps: f64,
    /// `x_t`, where it is a symbol that can be predicted.
    state: Option<usize>,
    x1: usize,
    /// `p_{1|t}` at `x_1` and at `x_t`.
    posterior: [f64; 2],
    /// One over the number of coordinates.
    scale: f64,
}

impl Coordinate<'_> {
    /// `(t - r) mu/lambda`.
    fn factor(&self) -> f64 {
        (self.pair.t - self.pair.r) * self.pair.mu / self.pair.lambda
    }

    /// Eq. loss-general: `lambda (-1[x_1 != x] ln q^(x_1) - q^(x))`, where `q^ = p~ + shift`.
    fn shifted<T: Real>(&self, floor: f64, logits: Logits<T>) -> f64 {
        let Logits {
            value,
            tangent,
            other,
        } = logits;
        let (lambda, x1) = (self.pair.lambda, self.x1);
        let weight = self.scale * lambda;
        softmax::in_place(value);
        let mean = softmax::mean(value, tangent);
        let lse = softmax::log_sum_exp(other);
        let shifted = |symbol: usize, posterior: f64| {
            let p = value[symbol].widen();
            let moved = p * (tangent[symbol].widen() - mean);
            let jumped = (other[symbol].widen() - lse).exp();
            let own = if self.state.is_some() {
                p - posterior
            } else {
                0.0
            };
            p + self.factor() * (moved + lambda * (self.jumps * (jumped - p) + own))
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
    fn linear<T: Real>(&self, path: &Path, logits: Logits<T>) -> f64 {
        let Logits {
            value,
            tangent,
            other,
        } = logits;
        let (lambda, x1, factor) = (self.pair.lambda, self.x1, self.factor());
        let own = if self.state.is_some() {
            factor * lambda
        } else {
            0.0
        };
        let share = match self.state {
            Some(_) => path.schedule().survival(self.pair.t),
            None => 1.0,
        };
        let weight = self.scale * lambda * share;
        let before = value.to_vec();
        let at_data = value[x1].widen();
        let lse = softmax::in_place(value);
        softmax::in_place(other);
        let (mean, weight_t) = (T::of(softmax::mean(value, tangent)), T::of(weight));
        let (along, across) = (T::of(factor), T::of(factor * lambda * self.jumps));
        let stay = T::of(own);
        for ((v, d), o) in value.iter_mut().zip(tangent.iter_mut()).zip(other.iter()) {
            *d = along * *v * (*d - mean) + across * (*o - *v) + stay * *v;
            *v = weight_t * (*v + *d);
        }
        tangent[x1] = tangent[x1] - stay;
        value[x1] = value[x1] - weight_t * (T::of(1.0) + stay);
        // -sum T ln p with ln p = l - lse; the shift sums to zero, so lse drops out of it.
        weight * (lse - at_data + softmax::mean(tangent, &before))
    }
}
