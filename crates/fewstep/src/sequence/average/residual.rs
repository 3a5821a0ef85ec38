//! How far a prediction is from the identity it should satisfy.
//!
//! On the mixture path the residual at a coordinate is `R = p~ + shift - p_{1|t}`, zero at the fixed
//! point. Jumps make it noisy, and the noise of one draw is larger than what is looked for; but
//! two independent draws have independent noise, so that the mean of their product
//! `sum_z R(z) R'(z)` is the square of the residual without it.

use fewstep_ctmc::{Path, Process};
use fewstep_nn::{Logits, Network, Real, Rows, Want, softmax};

use super::{Draws, Passes, draw, jump, places};
use crate::sequence::Examples;

/// The mean square of the residual a coordinate, unbiased, so that it may be below zero; nothing on
/// the uniform-state process, or if no coordinate can move.
pub fn residual<T: Real, N: Network<T>>(
    (network, frozen): (&N, &N),
    examples: &Examples,
    path: &Path,
    address: (u64, u64),
    passes: &mut Passes<N::Pass>,
) -> Option<f64> {
    let Examples { length, moving, .. } = *examples;
    let rows: Vec<usize> = examples
        .active(path)
        .into_iter()
        .filter(|row| *row < moving * length)
        .collect();
    if rows.is_empty() || *path.process() == Process::UniformState {
        return None;
    }
    let want = Want {
        moving,
        ..Want::default()
    };
    network.evaluate(examples.first(moving), want, &mut passes.main);
    let about = (path, examples, &rows[..]);
    let draws = Draws {
        count: 2,
        whole: true,
        address,
    };
    let jumps = draw(frozen, about, draws, &mut passes.frozen);
    jump(network, (examples, &rows), &jumps, &mut passes.jumped);
    let (places, masked) = (places(&rows, length), path.mask().is_some());
    let posterior = frozen.visit(&passes.frozen, Rows::plain(&rows), |_, logits| {
        softmax::in_place(logits.value);
        logits.value.to_vec()
    });
    let shown = Rows {
        rows: &rows,
        tangent: true,
        others: passes.jumped.iter().take(2).collect(),
    };
    let squares = network.visit(&passes.main, shown, |at, logits| {
        let Logits {
            value,
            tangent,
            others,
        } = logits;
        let pair = &examples.pairs[rows[at] / length];
        let factor = (pair.t - pair.r) * pair.mu / pair.lambda;
        softmax::in_place(value);
        let mean = softmax::mean(value, tangent);
        let (place, count) = places[at];
        let mut residuals = Vec::new();
        for (set, other) in jumps.iter().zip(others) {
            softmax::in_place(other);
            let own = masked && set[place].row == rows[at];
            let share = if own { 0.0 } else { count as f64 };
            let each = |z: usize| {
                let (p, q) = (value[z].widen(), other[z].widen());
                let known = posterior[at][z].widen();
                let moved = p * (tangent[z].widen() - mean);
                let still = if masked { 0.0 } else { p - known };
                p + factor * (moved + pair.lambda * (share * (q - p) + still)) - known
            };
            residuals.push((0..value.len()).map(each).collect::<Vec<f64>>());
        }
        let products = residuals[0].iter().zip(&residuals[1]);
        products.map(|(a, b)| a * b).sum::<f64>()
    });
    Some(squares.iter().sum::<f64>() / squares.len() as f64)
}
