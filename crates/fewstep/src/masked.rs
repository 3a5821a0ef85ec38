//! One training step of the average generator on the masked path, for any network.
//!
//! Algorithm 1 with the low-variance estimator of eq. C-estimator-masked, in the fewest passes:
//!
//! 1. the network on `x_t`, with `d/dt` for the sequences whose step is not empty (at `r = t` there
//!    is nothing to correct), kept for the way back: the primal of the derivative is the main pass;
//! 2. the frozen denoiser on those sequences, its head at one masked coordinate `e` each, for the
//!    jump `s ~ p_{1|t}(. | x_t)` at `e`;
//! 3. the network on `x_t^{e -> s}`;
//! 4. the head once, on masked coordinates only, with all three rows of logits side by side, where
//!    the loss and its gradient are formed, and the way back.
//!
//! The identity's correction at symbol `z` of a masked coordinate `d` is
//! `shift = (t - r) mu/lambda [d_t p~ + lambda |M| 1[e != d] (p~(z | x^{e -> s}) - p~(z | x))]`.
//! [`Loss::Shifted`] is eq. loss-masked, `-log(p~(x_1) + shift(x_1))`, which needs one column;
//! [`Loss::Linear`] is the cross-entropy against `delta_{x_1} - shift` over all symbols, unbiased
//! under the single draw.

use fewstep_ctmc::random::{Key, Purpose, index, quantile, uniform};
use fewstep_nn::{Adaptation, Batch, Gradient, Logits, Network, Real, Rows, Want, softmax};

use crate::objective::Pair;

/// What is regressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Eq. loss-masked; shifted probabilities below the floor have no gradient.
    Shifted {
        /// The smallest probability whose logarithm is taken.
        floor: f64,
    },
    /// The signed linear target.
    Linear,
}

/// Corrupted sequences, those with a step to correct first.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    length: usize,
    x1: Vec<usize>,
    x: Vec<usize>,
    pairs: Vec<Pair>,
    t: Vec<f64>,
    r: Vec<f64>,
    moving: usize,
}

impl Examples {
    /// Masks each coordinate of `x1 [B, L]` with probability `1 - kappa_t`, `kappa_t` given with
    /// each pair. Randomness is addressed by `(seed, step, example)`, whatever the order.
    pub fn corrupt(
        x1: &[usize],
        (pairs, kappas): (&[Pair], &[f64]),
        mask: usize,
        (seed, step): (u64, u64),
    ) -> Self {
        assert!(!pairs.is_empty() && pairs.len() == kappas.len());
        assert!(x1.len().is_multiple_of(pairs.len()), "whole sequences");
        let length = x1.len() / pairs.len();
        let key = Key::new(seed, Purpose::Data);
        let still = |i: &usize| pairs[*i].r <= pairs[*i].t;
        let (at_rest, moving): (Vec<usize>, Vec<usize>) = (0..pairs.len()).partition(still);
        let mut examples = Self {
            length,
            x1: Vec::with_capacity(x1.len()),
            x: Vec::with_capacity(x1.len()),
            pairs: Vec::new(),
            t: Vec::new(),
            r: Vec::new(),
            moving: moving.len(),
        };
        for i in moving.into_iter().chain(at_rest) {
            let mut rng = key.at(step, i as u64);
            for &symbol in &x1[i * length..(i + 1) * length] {
                let masked = uniform(&mut rng) >= kappas[i];
                examples.x1.push(symbol);
                examples.x.push(if masked { mask } else { symbol });
            }
            examples.pairs.push(pairs[i]);
            examples.t.push(pairs[i].t);
            examples.r.push(pairs[i].r);
        }
        examples
    }

    fn first(&self, sequences: usize) -> Batch<'_> {
        Batch {
            x: &self.x[..sequences * self.length],
            t: &self.t[..sequences],
            r: &self.r[..sequences],
        }
    }
}

/// The three evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<P> {
    main: P,
    frozen: P,
    jumped: P,
}

/// The mean loss a coordinate of one step, and its gradient (added if `gradient.accumulate`).
/// Coordinates that show `mask` are masked; `frozen` gives `p_{1|t}`.
pub fn step<T: Real, N: Network<T>>(
    (network, frozen): (&N, &N),
    examples: &Examples,
    (mask, loss): (usize, Loss),
    (seed, number): (u64, u64),
    passes: &mut Passes<N::Pass>,
    gradient: &mut Gradient<T>,
) -> f64 {
    let Examples { length, moving, .. } = *examples;
    let want = Want {
        moving,
        back: Some(gradient.adaptation),
    };
    network.evaluate(examples.first(examples.t.len()), want, &mut passes.main);
    let masked: Vec<usize> = (0..examples.x.len())
        .filter(|&row| examples.x[row] == mask)
        .collect();
    let split = masked.partition_point(|&row| row < moving * length);
    let (corrected, plain) = masked.split_at(split);
    let counts: Vec<usize> = examples
        .x
        .chunks_exact(length)
        .map(|x| x.iter().filter(|&&s| s == mask).count())
        .collect();

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
        let mut x = examples.x[..moving * length].to_vec();
        for &(row, symbol) in &jumps {
            x[row] = symbol;
        }
        let batch = Batch {
            x: &x,
            ..examples.first(moving)
        };
        network.evaluate(batch, Want::default(), &mut passes.jumped);
        let rows = Rows {
            rows: corrected,
            tangent: true,
            other: Some(&passes.jumped),
        };
        let consumer = |at: usize, logits: Logits<T>| {
            let row = corrected[at];
            let i = row / length;
            let weight = if x[row] == mask {
                counts[i] as f64
            } else {
                0.0
            };
            one_row(
                loss,
                &examples.pairs[i],
                (weight, scale),
                examples.x1[row],
                logits,
            )
        };
        let losses = network.descend(&mut passes.main, rows, consumer, gradient);
        total += losses.iter().sum::<f64>();
    }
    let consumer = |at: usize, logits: Logits<T>| {
        let row = plain[at];
        let weight = scale * examples.pairs[row / length].lambda;
        weight * cross_entropy(weight, examples.x1[row], logits.value)
    };
    let losses = network.descend(&mut passes.main, Rows::plain(plain), consumer, gradient);
    total += losses.iter().sum::<f64>();
    network.backward(&mut passes.main, gradient);
    total
}

/// A masked coordinate of each sequence that has one, and a symbol for it from the frozen
/// posterior.
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
    let mut rest = corrected;
    while let Some(&first) = rest.first() {
        let i = first / examples.length;
        let (here, after) = rest.split_at(rest.partition_point(|row| row / examples.length == i));
        let mut rng = key.at(number, i as u64);
        chosen.push(here[index(&mut rng, here.len())]);
        levels.push(uniform(&mut rng));
        rest = after;
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

/// `-ln p(x1)`; leaves `weight (p - delta_{x1})` in the logits.
pub(crate) fn cross_entropy<T: Real>(weight: f64, x1: usize, logits: &mut [T]) -> f64 {
    let own = logits[x1].widen();
    let lse = softmax::in_place(logits);
    let weight = T::of(weight);
    logits.iter_mut().for_each(|p| *p = *p * weight);
    logits[x1] = logits[x1] - weight;
    lse - own
}

/// The loss of a masked coordinate and, in its logits, the gradient. `jumps` is `|M| 1[e != d]`.
fn one_row<T: Real>(
    loss: Loss,
    pair: &Pair,
    (jumps, scale): (f64, f64),
    x1: usize,
    logits: Logits<T>,
) -> f64 {
    let Pair {
        t, r, lambda, mu, ..
    } = *pair;
    let Logits {
        value,
        tangent,
        other,
    } = logits;
    let (factor, weight) = ((t - r) * mu / lambda, scale * lambda);
    let logits_before = match loss {
        Loss::Shifted { .. } => Vec::new(),
        Loss::Linear => value.to_vec(),
    };
    let own = value[x1].widen();
    let lse = softmax::in_place(value);
    let mean = softmax::mean(value, tangent);
    let p = value[x1].widen();
    match loss {
        Loss::Shifted { floor } => {
            let moved = p * (tangent[x1].widen() - mean);
            let jumped = (other[x1].widen() - softmax::log_sum_exp(other)).exp();
            let shifted = p + factor * (moved + lambda * jumps * (jumped - p));
            let slope = if shifted > floor {
                T::of(weight * p / shifted)
            } else {
                T::of(0.0)
            };
            value.iter_mut().for_each(|v| *v = *v * slope);
            value[x1] = value[x1] - slope;
            -weight * shifted.max(floor).ln()
        }
        Loss::Linear => {
            softmax::in_place(other);
            let (mean, weight_t) = (T::of(mean), T::of(weight));
            let (along, across) = (T::of(factor), T::of(factor * lambda * jumps));
            for ((v, d), o) in value.iter_mut().zip(tangent.iter_mut()).zip(other.iter()) {
                *d = along * *v * (*d - mean) + across * (*o - *v);
                *v = weight_t * (*v + *d);
            }
            value[x1] = value[x1] - weight_t;
            // -sum T ln p with ln p = l - lse; the shift sums to zero, so lse drops out of it.
            weight * (lse - own + softmax::mean(tangent, &logits_before))
        }
    }
}

/// The base objective of the masked path (MDLM): `lambda_t` times the cross-entropy at masked
/// coordinates, as a mean over all coordinates, and its gradient.
pub fn base<T: Real, N: Network<T>>(
    network: &N,
    examples: &Examples,
    mask: usize,
    pass: &mut N::Pass,
    gradient: &mut Gradient<T>,
) -> f64 {
    let want = Want {
        moving: 0,
        back: Some(Adaptation::Full),
    };
    network.evaluate(examples.first(examples.t.len()), want, pass);
    let masked: Vec<usize> = (0..examples.x.len())
        .filter(|&row| examples.x[row] == mask)
        .collect();
    let scale = 1.0 / examples.x.len() as f64;
    let consumer = |at: usize, logits: Logits<T>| {
        let row = masked[at];
        let weight = scale * examples.pairs[row / examples.length].lambda;
        weight * cross_entropy(weight, examples.x1[row], logits.value)
    };
    let losses = network.descend(pass, Rows::plain(&masked), consumer, gradient);
    network.backward(pass, gradient);
    losses.iter().sum()
}
