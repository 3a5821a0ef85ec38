//! The denoiser's objectives: the bound on `-log p(x_1)` that belongs to each process.
//!
//! At one state and coordinate, with `p = p_{1|t}(. | x_t)` predicted, in units of `lambda_t dt`:
//!
//! - mixture path (eq. training-posterior): `-1[x_1 != x] log p(x_1) + 1[x_1 = x] - p(x)`; on the
//!   masked path, where `p(x) = 0`, MDLM's cross-entropy at masked coordinates;
//! - uniform-state process (DUO's bound): `sum_{z != x} [q log(q/Q) - q + Q]` with the conditional
//!   rate `q = Q(x, z | x_1)` and the predicted one `Q(x, z)`, both of eq. duo-cond-rate.
//!
//! The mean over `t` uniform on `[0, 1]` bounds the negative log-likelihood and validates. It need not be what trains: the
//! cross-entropy of the datum, `-log p(x_1)` at every coordinate that can move, has its minimum at the same posterior on
//! every chain, whatever the times count. The bounds count a time `lambda_t = 1/(1 - t)`, and where noise is uniform they ask
//! nothing but the probability of staying of a coordinate that shows its datum; with all times and coordinates alike a denoiser
//! of the uniform chain comes as close in half of the steps (`docs/text.md`).

use fewstep_ctmc::{Path, Process, duo};
use fewstep_nn::{
    Adaptation, Column, Gradient, Learner, Logits, Network, Real, Rows, Soften, Want, softmax,
};
use serde::{Deserialize, Serialize};

use super::{Examples, curriculum::Softened, times};
use crate::objective::Pair;

/// What a denoiser is trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The bound that belongs to the chain.
    #[default]
    Bound,
    /// The cross-entropy of the datum, all times alike.
    CrossEntropy,
    /// The same at MaskGIT's mask ratios, on the masked chain.
    Arccos,
}

impl Loss {
    /// The times of a training step, and what each counts.
    pub(super) fn times(
        self,
        path: &Path,
        count: usize,
        address: (u64, u64),
    ) -> (Vec<Pair>, Vec<f64>) {
        match self {
            Self::Bound => times::instants(path, count, address),
            Self::CrossEntropy => (times::even(path, count, address), vec![1.0; count]),
            Self::Arccos => (times::arccos(path, count, address), vec![1.0; count]),
        }
    }

    /// What it counts at a time, beside its weight.
    fn at(self, pair: &Pair) -> f64 {
        match self {
            Self::Bound => pair.lambda,
            Self::CrossEntropy | Self::Arccos => 1.0,
        }
    }
}

/// The mean loss a coordinate, and its gradient.
pub fn step<T: Real, N: Learner<T>>(
    network: &N,
    path: &Path,
    (examples, loss): (&Examples, Loss),
    pass: &mut N::Pass,
    gradient: &mut Gradient<T>,
) -> f64 {
    let evaluate = |want: Want, pass: &mut N::Pass| network.evaluate(examples.all(), want, pass);
    learn((network, evaluate), path, (examples, loss), pass, gradient)
}

/// As [`step`], of a network that reads combinations of symbols in place of those that are shown.
pub fn soft_step<T: Real, N: Soften<T>>(
    network: &N,
    path: &Path,
    (seen, loss): (&Softened, Loss),
    pass: &mut N::Pass,
    gradient: &mut Gradient<T>,
) -> f64 {
    let examples = &seen.examples;
    let evaluate = |want: Want, pass: &mut N::Pass| {
        network.evaluate_soft(examples.all(), seen.soft(), want, pass);
    };
    learn((network, evaluate), path, (examples, loss), pass, gradient)
}

/// The loss of a network that is evaluated on the way.
fn learn<T: Real, N: Learner<T>>(
    (network, evaluate): (&N, impl FnOnce(Want<'_>, &mut N::Pass)),
    path: &Path,
    (examples, loss): (&Examples, Loss),
    pass: &mut N::Pass,
    gradient: &mut Gradient<T>,
) -> f64 {
    let rows = examples.active(path);
    let want = Want {
        back: Some(Adaptation::Full),
        rows: Some(&rows),
        ..Want::default()
    };
    evaluate(want, pass);
    let scale = 1.0 / examples.coordinates() as f64;
    let weight = |of: usize| scale * examples.weights[of];
    let rows = (examples, &rows[..], loss);
    let total = descend(network, path, rows, weight, pass, gradient);
    network.backward(pass, gradient);
    total
}

/// Goes down from active rows with the loss at each, times `weight` of its sequence; their sum.
pub fn descend<T: Real, N: Learner<T>>(
    network: &N,
    path: &Path,
    (examples, rows, loss): (&Examples, &[usize], Loss),
    weight: impl Fn(usize) -> f64 + Sync,
    pass: &mut N::Pass,
    gradient: &mut Gradient<T>,
) -> f64 {
    let shown = Rows::plain(rows);
    let losses = if path.mask().is_some() {
        // Only masked rows are active, and their bound reads one symbol.
        let symbols: Vec<usize> = rows.iter().map(|&row| examples.x1[row]).collect();
        let consumer = |at: usize, column: Column| {
            let of = rows[at] / examples.length;
            let weight = weight(of) * loss.at(&examples.pairs[of]);
            (-weight * column.log, weight)
        };
        network.descend_column(pass, shown, &symbols, consumer, gradient)
    } else {
        let consumer = |at: usize, logits: Logits<T>| {
            let row = rows[at];
            let of = row / examples.length;
            let (x, x1) = (examples.x[row], examples.x1[row]);
            match loss {
                Loss::Bound => {
                    let pair = &examples.pairs[of];
                    bound(path, pair, weight(of), (x, x1), logits.value)
                }
                _ => {
                    let weight = weight(of) * loss.at(&examples.pairs[of]);
                    weight * cross_entropy(weight, x1, logits.value)
                }
            }
        };
        network.descend(pass, shown, consumer, gradient)
    };
    losses.iter().sum()
}

/// The mean bound a coordinate alone.
pub fn bound_of<T: Real, N: Network<T>>(
    network: &N,
    path: &Path,
    examples: &Examples,
    pass: &mut N::Pass,
) -> f64 {
    let rows = examples.active(path);
    let want = Want {
        rows: Some(&rows),
        ..Want::default()
    };
    network.evaluate(examples.all(), want, pass);
    let losses = network.visit(pass, Rows::plain(&rows), |at, logits| {
        let row = rows[at];
        let of = row / examples.length;
        let (x, x1) = (examples.x[row], examples.x1[row]);
        let weight = examples.weights[of];
        bound(path, &examples.pairs[of], weight, (x, x1), logits.value)
    });
    losses.iter().sum::<f64>() / examples.coordinates() as f64
}

/// The bound at one coordinate in state `x` with data `x1`, times `scale lambda_t`; its gradient is
/// left in the logits.
pub fn bound<T: Real>(
    path: &Path,
    pair: &Pair,
    scale: f64,
    (x, x1): (usize, usize),
    logits: &mut [T],
) -> f64 {
    let weight = scale * pair.lambda;
    match path.process() {
        Process::Mixture(_) if path.mask_symbol() == Some(x) => {
            weight * cross_entropy(weight, x1, logits)
        }
        Process::Mixture(_) => weight * switch(weight, (x, x1), logits),
        Process::UniformState => {
            let level = path.schedule().level(pair.t);
            let rate = |z: usize| duo::conditional_rate(level, path.symbols(), x, z, x1);
            softmax::in_place(logits);
            let p: Vec<f64> = logits.iter().map(|p| p.widen()).collect();
            let mut predicted = vec![0.0; p.len()];
            duo::rate_row(level, x, &p, &mut predicted);
            // Q(x, z) = a p_z + b p_x + c for z != x: the slope in p collects b over all z.
            let (a, b) = duo::rate_slopes(level, path.symbols());
            let (mut value, mut slopes, mut own) = (0.0, vec![0.0; p.len()], 0.0);
            for z in (0..p.len()).filter(|&z| z != x) {
                let (q, most) = (rate(z), predicted[z].max(f64::MIN_POSITIVE));
                value += q * (q / most).ln() - q + most;
                let slope = 1.0 - q / most;
                slopes[z] = a * slope;
                own += b * slope;
            }
            slopes[x] = own;
            let mean: f64 = p.iter().zip(&slopes).map(|(p, s)| p * s).sum();
            for ((logit, p), s) in logits.iter_mut().zip(&p).zip(&slopes) {
                *logit = T::of(weight * p * (s - mean));
            }
            weight * value
        }
    }
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

/// `-1[x1 != x] ln p(x1) + 1[x1 = x] - p(x)`; leaves `weight` times its gradient in the logits.
fn switch<T: Real>(weight: f64, (x, x1): (usize, usize), logits: &mut [T]) -> f64 {
    let own = logits[x1].widen();
    let lse = softmax::in_place(logits);
    let stay = logits[x].widen();
    let moves = if x1 == x { 0.0 } else { 1.0 };
    // Slopes p d/dp: -moves at x1, -p(x) at x; the gradient is slope - p sum(slopes).
    let sum = T::of(weight * (moves + stay));
    logits.iter_mut().for_each(|p| *p = *p * sum);
    logits[x] = logits[x] - T::of(weight * stay);
    logits[x1] = logits[x1] - T::of(weight * moves);
    moves * (lse - own) + (1.0 - moves) - stay
}
