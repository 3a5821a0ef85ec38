//! How far a set of pictures is from another, on features of them: FID, Inception Score, precision,
//! recall, density and coverage.
//!
//! Everything is in f64 on plain arrays `[N, D]`. Features come from an Inception network that looks at
//! pictures ([`Features::see`], [`Features::of`]) or from an `.npz` file, which may have a reference's statistics alone. The
//! protocol is that of ReDi: covariances over `n - 1`, three neighbours, five chunks.

mod features;
mod neighbours;
mod npz;
mod spectrum;

use fewstep_nn::kernel::{View, matmul};
use thiserror::Error;

pub use features::{Eye, Features, Measured, measure};
pub use neighbours::{Neighbourhood, chunked, prdc};
pub use npz::Kept;
pub use spectrum::eigenvalues;

/// Chunks that Inception Score and neighbourhoods are averaged over.
pub const CHUNKS: usize = 5;
/// The neighbour whose distance is the radius around a picture.
pub const NEIGHBOUR: usize = 3;

/// Why a metric could not be had.
#[derive(Debug, Error, PartialEq)]
pub enum MetricError {
    /// Too few pictures for what is asked.
    #[error("{there} pictures are too few for {what}; it needs at least {least}")]
    TooFew {
        /// What was to be computed.
        what: &'static str,
        /// Pictures there are.
        there: usize,
        /// Pictures it needs.
        least: usize,
    },
    /// Features or statistics of different sizes.
    #[error("features of {0} and of {1} dimensions cannot be compared")]
    Dimensions(usize, usize),
    /// Numbers that are not finite.
    #[error("{0} is not finite; the features are damaged")]
    NotFinite(&'static str),
    /// Pictures that cannot be read, or that the network does not take.
    #[error("{0}")]
    Pictures(String),
    /// A file of statistics that cannot be read.
    #[error("{file}: {why}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The mean and the covariance of features.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// `[D]`.
    pub mean: Vec<f64>,
    /// `[D, D]`.
    pub covariance: Vec<f64>,
}

impl Statistics {
    /// Of features `[N, D]`, the covariance over `N - 1`.
    pub fn of(features: &[f64], dimensions: usize) -> Result<Self, MetricError> {
        let there = features.len() / dimensions.max(1);
        if there < 2 {
            return Err(MetricError::TooFew {
                what: "a covariance",
                there,
                least: 2,
            });
        }
        if features.iter().any(|f| !f.is_finite()) {
            return Err(MetricError::NotFinite("a feature"));
        }
        let mut mean = vec![0.0; dimensions];
        for row in features.chunks_exact(dimensions) {
            mean.iter_mut()
                .zip(row)
                .for_each(|(m, f)| *m += f / there as f64);
        }
        let centred: Vec<f64> = features
            .chunks_exact(dimensions)
            .flat_map(|row| row.iter().zip(&mean).map(|(f, m)| f - m))
            .collect();
        let rows = View::new(&centred, there, dimensions);
        let mut covariance = vec![0.0; dimensions * dimensions];
        matmul(rows.t(), rows, &mut covariance, false);
        covariance.iter_mut().for_each(|c| *c /= (there - 1) as f64);
        Ok(Self { mean, covariance })
    }

    /// Dimensions.
    pub fn dimensions(&self) -> usize {
        self.mean.len()
    }
}

/// The Frechet distance of two Gaussians, `|m_1 - m_2|^2 + tr(S_1 + S_2 - 2 (S_1 S_2)^{1/2})`.
///
/// With `S_1 = L L^T` the eigenvalues of `S_1 S_2` are those of the symmetric `L^T S_2 L`, so no square root
/// of a matrix that is not symmetric is taken and singular covariances need no jitter.
pub fn frechet(a: &Statistics, b: &Statistics) -> Result<f64, MetricError> {
    let d = a.dimensions();
    if d != b.dimensions() {
        return Err(MetricError::Dimensions(d, b.dimensions()));
    }
    let all = [a, b]
        .into_iter()
        .flat_map(|s| s.mean.iter().chain(&s.covariance));
    if all.into_iter().any(|v| !v.is_finite()) {
        return Err(MetricError::NotFinite("a mean or a covariance"));
    }
    let apart: f64 = a
        .mean
        .iter()
        .zip(&b.mean)
        .map(|(a, b)| (a - b).powi(2))
        .sum();
    let trace = |s: &Statistics| -> f64 { (0..d).map(|i| s.covariance[i * d + i]).sum() };
    let (factor, rank) = spectrum::factor(&a.covariance, d);
    let factor = View::new(&factor, d, rank);
    // S_2 L, then L^T of that.
    let (mut right, mut inner) = (vec![0.0; d * rank], vec![0.0; rank * rank]);
    if rank > 0 {
        matmul(View::new(&b.covariance, d, d), factor, &mut right, false);
        matmul(factor.t(), View::new(&right, d, rank), &mut inner, false);
    }
    let roots = eigenvalues(&mut inner, rank)
        .into_iter()
        .map(|l| l.max(0.0).sqrt());
    Ok(apart + trace(a) + trace(b) - 2.0 * roots.sum::<f64>())
}

/// The Inception Score of class probabilities `[N, C]`: `exp E KL(p(y|x) || p(y))`, its mean and standard
/// deviation over five chunks in the order in which they stand.
pub fn inception_score(probabilities: &[f64], classes: usize) -> Result<(f64, f64), MetricError> {
    let there = probabilities.len() / classes.max(1);
    if there < CHUNKS {
        return Err(MetricError::TooFew {
            what: "an Inception Score",
            there,
            least: CHUNKS,
        });
    }
    if probabilities.iter().any(|p| !p.is_finite()) {
        return Err(MetricError::NotFinite("a probability"));
    }
    let scores = (0..CHUNKS).map(|chunk| {
        let bounds = [chunk, chunk + 1].map(|c| c * there / CHUNKS * classes);
        let rows = probabilities[bounds[0]..bounds[1]].chunks_exact(classes);
        let n = rows.len() as f64;
        let mut mean = vec![0.0; classes];
        for row in rows.clone() {
            mean.iter_mut().zip(row).for_each(|(m, p)| *m += p / n);
        }
        let divergence = |row: &[f64]| -> f64 {
            let pairs = row.iter().zip(&mean).filter(|(p, _)| **p > 0.0);
            pairs.map(|(p, m)| p * (p / m).ln()).sum()
        };
        (rows.map(divergence).sum::<f64>() / n).exp()
    });
    let scores: Vec<f64> = scores.collect();
    let mean = scores.iter().sum::<f64>() / CHUNKS as f64;
    let square = scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / CHUNKS as f64;
    Ok((mean, square.sqrt()))
}
