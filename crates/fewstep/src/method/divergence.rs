//! How far a prediction is from a target law, and the gradient in its logits.

use fewstep_nn::{Batch, Gradient, Learner, Logits, Real, Rows, Want, softmax};
use serde::{Deserialize, Serialize};

/// What is made small, for a student's law `p` and a teacher's `q` of one coordinate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Divergence {
    /// `KL(p || q)`, SDTT's default: the student keeps to what the teacher is sure of. With random
    /// targets its minimum is their geometric mean, which is sharper than their mean.
    #[default]
    BackwardKl,
    /// `KL(q || p)`: the minimum is the mean of the targets.
    ForwardKl,
    /// `sum (ln p - ln q)^2 / S`.
    Mse,
    /// `1/2 sum |p - q|`. (SDTT's code takes the difference of logarithms under this name.)
    Tv,
}

impl Divergence {
    /// The divergence of `softmax(logits)` from the law with the logarithms `target`, over the
    /// target's symbols; `weight` times its gradient is left in the logits.
    pub fn descend<T: Real>(self, weight: f64, target: &[T], logits: &mut [T]) -> f64 {
        let symbols = target.len();
        logits[symbols..].fill(T::of(0.0));
        let logits = &mut logits[..symbols];
        let lse = softmax::log_sum_exp(logits);
        let log_p: Vec<f64> = logits.iter().map(|l| l.widen() - lse).collect();
        let log_q = |z: usize| target[z].widen();
        // The value, and its slope p d/dp in each logarithm of p.
        let (mut value, mut slopes) = (0.0, vec![0.0; symbols]);
        for z in 0..symbols {
            let (p, q) = (log_p[z].exp(), log_q(z).exp());
            let apart = log_p[z] - log_q(z);
            let (part, slope) = match self {
                Self::BackwardKl if p > 0.0 => (p * apart, p * (apart + 1.0)),
                Self::ForwardKl if q > 0.0 => (-q * apart, -q),
                Self::BackwardKl | Self::ForwardKl => (0.0, 0.0),
                Self::Mse => {
                    let n = symbols as f64;
                    (apart * apart / n, 2.0 * apart / n)
                }
                Self::Tv => (0.5 * (p - q).abs(), 0.5 * p * (p - q).signum()),
            };
            value += part;
            slopes[z] = slope;
        }
        let sum: f64 = slopes.iter().sum();
        for z in 0..symbols {
            logits[z] = T::of(weight * (slopes[z] - log_p[z].exp() * sum));
        }
        value
    }
}

/// Entries of the targets that are held at a time: of a large vocabulary, those of few rows.
const BLOCK: usize = 1 << 24;

/// Rows in blocks whose targets over `symbols` are held together: whole sequences of `length`, as many
/// as fit, and at least one.
pub fn blocks(rows: &[usize], length: usize, symbols: usize) -> Vec<&[usize]> {
    let together = (BLOCK / (length * symbols)).max(1);
    let same = |a: &usize, b: &usize| a / length / together == b / length / together;
    rows.chunk_by(same).collect()
}

/// The mean divergence of a student's rows from targets, which are asked for block by block, and its
/// gradient.
pub fn distil<T: Real, N: Learner<T>>(
    (student, pass): (&N, &mut N::Pass),
    batch: Batch,
    blocks: &[&[usize]],
    mut targets: impl FnMut(&[usize]) -> Vec<Vec<T>>,
    divergence: Divergence,
    gradient: &mut Gradient<T>,
) -> f64 {
    let want = Want {
        back: Some(gradient.adaptation),
        ..Want::default()
    };
    student.evaluate(batch, want, pass);
    let count: usize = blocks.iter().map(|rows| rows.len()).sum();
    let share = 1.0 / count.max(1) as f64;
    let mut total = 0.0;
    for rows in blocks {
        let targets = targets(rows);
        let consumer =
            |at: usize, logits: Logits<T>| divergence.descend(share, &targets[at], logits.value);
        let losses = student.descend(pass, Rows::plain(rows), consumer, gradient);
        total += losses.iter().sum::<f64>();
    }
    student.backward(pass, gradient);
    share * total
}

/// The logarithms of the probabilities over the first `symbols`.
pub fn log_probabilities<T: Real>(symbols: usize, logits: &[T]) -> Vec<T> {
    let logits = &logits[..symbols];
    let lse = T::of(softmax::log_sum_exp(logits));
    logits.iter().map(|l| *l - lse).collect()
}

/// The law over the first `symbols`, in f64.
pub fn law<T: Real>(symbols: usize, logits: &[T]) -> Vec<f64> {
    let logits: Vec<f64> = logits[..symbols].iter().map(|l| l.widen()).collect();
    softmax::forward(&logits, symbols, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Divergence; 4] = [
        Divergence::BackwardKl,
        Divergence::ForwardKl,
        Divergence::Mse,
        Divergence::Tv,
    ];

    #[test]
    fn values_are_those_of_the_definitions() {
        let (p, q) = ([0.2f64, 0.5, 0.3], [0.6f64, 0.1, 0.3]);
        let target: Vec<f64> = q.iter().map(|q| q.ln()).collect();
        let of = |kind: Divergence| {
            let mut logits: Vec<f64> = p.iter().map(|p| p.ln() + 0.7).collect();
            kind.descend(1.0, &target, &mut logits)
        };
        let backward = 0.2 * (1.0f64 / 3.0).ln() + 0.5 * 5f64.ln();
        let forward = 0.6 * 3f64.ln() + 0.1 * 0.2f64.ln();
        let mse = (3f64.ln().powi(2) + 5f64.ln().powi(2)) / 3.0;
        for (kind, expected) in ALL.into_iter().zip([backward, forward, mse, 0.4]) {
            assert!((of(kind) - expected).abs() < 1e-14, "{kind:?}");
        }
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        let logits = [0.3, -1.2, 0.9, 0.1];
        let target = log_probabilities(4, &[1.0, 0.2, -0.4, 0.5]);
        for kind in ALL {
            let mut gradient = logits;
            kind.descend(1.7, &target, &mut gradient);
            for z in 0..4 {
                let at = |h: f64| {
                    let mut moved = logits;
                    moved[z] += h;
                    1.7 * kind.descend(1.0, &target, &mut moved)
                };
                let numeric = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((numeric - gradient[z]).abs() < 1e-8, "{kind:?} in {z}");
            }
        }
    }

    /// A mask behind the data symbols is neither predicted nor pulled at.
    #[test]
    fn a_mask_has_no_gradient() {
        let target = log_probabilities(2, &[0.1f32, 0.4, -1e30]);
        let mut logits = [0.5f32, -0.5, -1e30];
        assert!(
            Divergence::BackwardKl
                .descend(1.0, &target, &mut logits)
                .is_finite()
        );
        assert_eq!(logits[2], 0.0);
        assert!((logits[0] + logits[1]).abs() < 1e-7);
    }
}
