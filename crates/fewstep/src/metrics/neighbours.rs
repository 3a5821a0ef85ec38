//! Precision, recall, density and coverage: who lies in whose neighbourhood.
//!
//! The radius around a picture is the distance to its third neighbour among its own kind. A generated
//! picture within that of a real one is precise; a real one within that of a generated one is recalled;
//! density counts the real neighbourhoods that a generated picture lies in; coverage the real ones in which
//! a generated picture lies. Distances are Euclidean, within means strictly nearer.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{CHUNKS, MetricError, NEIGHBOUR};

/// The four shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Neighbourhood {
    /// Of generated pictures near a real one.
    pub precision: f64,
    /// Of real pictures near a generated one.
    pub recall: f64,
    /// Real neighbourhoods a generated picture, over the neighbour's number.
    pub density: f64,
    /// Of real pictures with a generated one near.
    pub coverage: f64,
}

/// Of real and generated features, `[N, D]` and `[M, D]`.
pub fn prdc(real: &[f64], made: &[f64], dimensions: usize) -> Result<Neighbourhood, MetricError> {
    let radii = radii(real, dimensions)?;
    let made_radii = self::radii(made, dimensions)?;
    let (n, m) = (radii.len() as f64, made_radii.len() as f64);
    // Of each generated one: real neighbourhoods it lies in.
    let inside: Vec<usize> = made
        .par_chunks_exact(dimensions)
        .map(|y| {
            let near = real.chunks_exact(dimensions).zip(&radii);
            near.filter(|(x, radius)| square(x, y) < **radius).count()
        })
        .collect();
    let seen: Vec<(bool, bool)> = real
        .par_chunks_exact(dimensions)
        .zip(&radii)
        .map(|(x, &radius)| {
            let near = || {
                made.chunks_exact(dimensions)
                    .map(|y| square(x, y))
                    .zip(&made_radii)
            };
            let recalled = near().any(|(d, other)| d < *other);
            let covered = near().any(|(d, _)| d < radius);
            (recalled, covered)
        })
        .collect();
    let share = |yes: usize, of: f64| yes as f64 / of;
    Ok(Neighbourhood {
        precision: share(inside.iter().filter(|c| **c > 0).count(), m),
        recall: share(seen.iter().filter(|(recalled, _)| *recalled).count(), n),
        density: share(inside.iter().sum(), m * NEIGHBOUR as f64),
        coverage: share(seen.iter().filter(|(_, covered)| *covered).count(), n),
    })
}

/// The mean of [`prdc`] over five chunks of both, in the order in which they stand.
pub fn chunked(
    real: &[f64],
    made: &[f64],
    dimensions: usize,
) -> Result<Neighbourhood, MetricError> {
    let chunk = |all: &[f64], which: usize| {
        let count = all.len() / dimensions.max(1);
        let [start, end] = [which, which + 1].map(|c| c * count / CHUNKS * dimensions);
        all[start..end].to_vec()
    };
    let mut mean = Neighbourhood::default();
    for which in 0..CHUNKS {
        let found = prdc(&chunk(real, which), &chunk(made, which), dimensions)?;
        let share = 1.0 / CHUNKS as f64;
        mean.precision += share * found.precision;
        mean.recall += share * found.recall;
        mean.density += share * found.density;
        mean.coverage += share * found.coverage;
    }
    Ok(mean)
}

/// The square of each one's distance to its third neighbour.
fn radii(features: &[f64], dimensions: usize) -> Result<Vec<f64>, MetricError> {
    let there = features.len() / dimensions.max(1);
    if there <= NEIGHBOUR {
        return Err(MetricError::TooFew {
            what: "neighbourhoods",
            there,
            least: NEIGHBOUR + 1,
        });
    }
    if features.iter().any(|f| !f.is_finite()) {
        return Err(MetricError::NotFinite("a feature"));
    }
    let radius = |x: &[f64]| {
        // The nearest is the picture itself.
        let mut nearest = [f64::INFINITY; NEIGHBOUR + 1];
        for y in features.chunks_exact(dimensions) {
            let mut d = square(x, y);
            for place in &mut nearest {
                if d < *place {
                    std::mem::swap(&mut d, place);
                }
            }
        }
        nearest[NEIGHBOUR]
    };
    Ok(features.par_chunks_exact(dimensions).map(radius).collect())
}

fn square(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum()
}
