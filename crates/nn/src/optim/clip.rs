//! The global norm of a gradient, and the factor that clips it.
//!
//! The squares are added up in f64, in sixteen lanes within a piece and then piece by piece: one
//! order, whatever the thread count and the width of the machine's vectors.

use rayon::prelude::*;

use super::Trainable;
use crate::Real;

/// Sums kept side by side within a piece.
const LANES: usize = 16;

/// A gradient whose norm is not a number to divide by.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the gradient's norm is {norm}{}", position(.first))]
pub struct NonFiniteNorm {
    /// The norm: infinite or not a number.
    pub norm: f64,
    /// The place of the first entry that is not finite; none if their squares alone overflow.
    pub first: Option<usize>,
}

fn position(first: &Option<usize>) -> String {
    let at = |i| format!(", first at parameter {i}");
    first.map(at).unwrap_or_default()
}

/// The Euclidean norm of the trained part of a gradient.
pub fn norm<T: Real>(gradient: &[T], trainable: &Trainable) -> Result<f64, NonFiniteNorm> {
    let pieces = trainable.pieces(gradient);
    let sums: Vec<f64> = pieces.into_par_iter().map(square_sum).collect();
    let norm = sums.iter().sum::<f64>().sqrt();
    if norm.is_finite() {
        return Ok(norm);
    }
    let mut entries = trainable.ranges().iter().cloned().flatten();
    let first = entries.find(|&i| !gradient[i].widen().is_finite());
    Err(NonFiniteNorm { norm, first })
}

/// What a gradient of norm `norm` is multiplied by so that its norm is at most `max`: PyTorch's
/// `clip_grad_norm_`, `min(1, max / (norm + 1e-6))`.
pub fn clip_factor(norm: f64, max: f64) -> f64 {
    (max / (norm + 1e-6)).min(1.0)
}

fn square_sum<T: Real>(piece: &[T]) -> f64 {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; LANES];
            let (blocks, rest) = piece.as_chunks::<LANES>();
            for block in blocks {
                for i in 0..LANES {
                    lanes[i] += block[i].widen() * block[i].widen();
                }
            }
            for (lane, g) in lanes.iter_mut().zip(rest) {
                *lane += g.widen() * g.widen();
            }
            lanes.iter().sum()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_norm_is_that_of_the_trained_part() {
        let size = 100_000;
        let g: Vec<f32> = (0..size).map(|i| (i as f32 * 0.37).sin()).collect();
        let some = Trainable::new(size, &[5..6, 10..70_003]).unwrap();
        for trainable in [Trainable::all(size), some] {
            let squares = trainable.pack(&g).into_iter().map(|g| g.widen().powi(2));
            let plain = squares.sum::<f64>().sqrt();
            let norm = norm(&g, &trainable).unwrap();
            assert!((norm - plain).abs() < 1e-11 * plain, "{norm} {plain}");
        }
    }

    #[test]
    fn the_first_bad_entry_is_found_unless_it_is_frozen() {
        let mut g = vec![1.0f32; 50_000];
        g[40_000] = f32::NAN;
        g[40_001] = f32::INFINITY;
        let error = norm(&g, &Trainable::all(50_000)).unwrap_err();
        assert!(error.norm.is_nan());
        assert_eq!(error.first, Some(40_000));
        assert_eq!(
            error.to_string(),
            "the gradient's norm is NaN, first at parameter 40000"
        );
        let some = Trainable::new(50_000, &[0..100, 45_000..50_000]).unwrap();
        assert_eq!(norm(&g, &some), Ok(5100f64.sqrt()));
        let overflow = norm(&[1e200f64], &Trainable::all(1)).unwrap_err();
        assert_eq!(overflow.to_string(), "the gradient's norm is inf");
    }

    #[test]
    fn small_gradients_are_not_scaled() {
        assert_eq!(clip_factor(0.5, 1.0), 1.0);
        assert_eq!(clip_factor(0.0, 1.0), 1.0);
        assert_eq!(clip_factor(4.0, 1.0), 1.0 / 4.000001);
    }
}
