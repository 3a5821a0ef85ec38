//! Muon: momentum made orthogonal, for the matrices inside a network.
//!
//! Adam scales every entry on its own; a matrix then moves mostly along the few directions that all
//! gradients share. Muon moves it equally far along every direction: of the momentum `U S V^T` it
//! takes `U V^T` (Jordan 2024). In a step, with the gradient `g [rows, cols]` (already times the clip
//! factor) and the rate `lr`:
//!
//! ```text
//! m <- beta m + (1 - beta) g
//! u = beta m + (1 - beta) g                               Nesterov's look ahead
//! p <- p - lr 0.2 sqrt(max(rows, cols)) orthogonal(u)
//! ```
//!
//! The last factor gives the update a root mean square of about `0.2 lr` (Liu et al. 2025), Adam's, so that
//! one learning rate serves both: vectors, embeddings and heads stay [`AdamW`](super::AdamW)'s.

use std::ops::Range;

use rayon::prelude::*;

use super::Trainable;
use crate::{
    Error, Real,
    kernel::{View, matmul_here},
};

/// How much of the momentum is kept in a step.
pub const MOMENTUM: f64 = 0.95;
/// The root mean square of an update, in units of the rate.
const SIZE: f64 = 0.2;
/// Iterations of [`orthogonal`].
const ITERATIONS: usize = 5;
/// The odd polynomial `a s + b s^3 + c s^5` of an iteration: it takes small `s` up fast and keeps large
/// ones in 0.7..1.2, which is near enough to 1.
const QUINTIC: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// A matrix in the flat vector of parameters, by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Its first entry.
    pub start: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Matrix {
    /// Where its entries lie.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.rows * self.cols
    }

    /// The same, unless no memory is so large.
    pub(super) fn checked_range(&self) -> Option<Range<usize>> {
        let end = self.start.checked_add(self.rows.checked_mul(self.cols)?)?;
        Some(self.start..end)
    }
}

/// The optimizer's state over matrices of a flat parameter vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Muon<T> {
    pub(super) beta: f64,
    pub(super) matrices: Vec<Matrix>,
    /// What the matrices are of the vector.
    pub(super) trainable: Trainable,
    /// The momentum, packed.
    pub(super) momentum: Vec<T>,
}

impl<T: Real> Muon<T> {
    /// A fresh state for some matrices of `parameters` parameters, in ascending order and apart.
    pub fn new(parameters: usize, matrices: Vec<Matrix>, beta: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&beta) {
            let message = format!("the momentum is {beta}; it must be in [0, 1)");
            return Err(Error::Config(message));
        }
        let ranges: Option<Vec<_>> = matrices.iter().map(Matrix::checked_range).collect();
        let ranges = ranges.ok_or_else(|| Error::Config("a matrix is beyond memory".into()))?;
        let trainable = Trainable::new(parameters, &ranges)?;
        let momentum = vec![T::of(0.0); trainable.count()];
        Ok(Self {
            beta,
            matrices,
            trainable,
            momentum,
        })
    }

    /// The matrices.
    pub fn matrices(&self) -> &[Matrix] {
        &self.matrices
    }

    /// One update of all parameters' vector with learning rate `rate` and `scale` times the gradient.
    pub fn update_scaled(&mut self, parameters: &mut [T], gradient: &[T], rate: f64, scale: f64) {
        let (mut rest, mut position) = (parameters, 0);
        let mut momenta = &mut self.momentum[..];
        let mut work = Vec::with_capacity(self.matrices.len());
        for &matrix in &self.matrices {
            let range = matrix.range();
            let (head, tail) = rest.split_at_mut(range.end - position);
            let (momentum, behind) = momenta.split_at_mut(range.len());
            work.push((matrix, &mut head[range.start - position..], momentum));
            (rest, momenta, position) = (tail, behind, range.end);
        }
        let (keep, new) = (T::of(self.beta), T::of((1.0 - self.beta) * scale));
        work.into_par_iter().for_each(|(matrix, p, m)| {
            let gradient = &gradient[matrix.range()];
            let ahead = m.iter_mut().zip(gradient).map(|(m, g)| {
                *m = keep * *m + new * *g;
                keep * *m + new * *g
            });
            let ahead: Vec<T> = ahead.collect();
            let sizes = (matrix.rows, matrix.cols);
            let factor = T::of(rate * SIZE * (sizes.0.max(sizes.1) as f64).sqrt());
            let direction = orthogonal(&ahead, sizes);
            p.iter_mut()
                .zip(direction)
                .for_each(|(p, d)| *p = *p - factor * d);
        });
    }
}

/// Nearly `U V^T` of `u = U S V^T [rows, cols]`: iterations `X <- a X + (b A + c A^2) X` with
/// `A = X X^T` from `u` over its Frobenius norm, so that every singular value goes through the
/// polynomial. The shorter side is the one whose products are squared. Zero stays zero.
pub fn orthogonal<T: Real>(u: &[T], (rows, cols): (usize, usize)) -> Vec<T> {
    let norm = u.iter().map(|u| u.widen() * u.widen()).sum::<f64>().sqrt();
    let scale = T::of(if norm > 0.0 { norm.recip() } else { 0.0 });
    let mut x: Vec<T> = u.iter().map(|u| *u * scale).collect();
    let short = rows.min(cols);
    let zeros = |n: usize| vec![T::of(0.0); n];
    let (mut a, mut square, mut next) = (zeros(short * short), zeros(short * short), x.clone());
    let [first, third, fifth] = QUINTIC.map(T::of);
    for _ in 0..ITERATIONS {
        let view = View::new(&x, rows, cols);
        match rows <= cols {
            true => matmul_here(view, view.t(), &mut a, false),
            false => matmul_here(view.t(), view, &mut a, false),
        }
        let both = View::new(&a, short, short);
        matmul_here(both, both, &mut square, false);
        for (square, a) in square.iter_mut().zip(&a) {
            *square = third * *a + fifth * *square;
        }
        let polynomial = View::new(&square, short, short);
        next.iter_mut().zip(&x).for_each(|(n, x)| *n = first * *x);
        match rows <= cols {
            true => matmul_here(polynomial, view, &mut next, true),
            false => matmul_here(view, polynomial, &mut next, true),
        }
        std::mem::swap(&mut x, &mut next);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: f64) -> Vec<f64> {
        (0..n).map(|i| (i as f64 * 1.731 + seed).sin()).collect()
    }

    fn product(a: &[f64], b: &[f64], (m, k, n): (usize, usize, usize)) -> Vec<f64> {
        let entry = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        (0..m * n).map(|i| entry(i / n, i % n)).collect()
    }

    /// With orthogonal factors that are known, each singular value goes through the polynomial five
    /// times and the factors stay as they are; what comes out is near one.
    #[test]
    fn singular_values_go_to_one_and_vectors_stay() {
        // Reflections I - 2 v v^T / |v|^2 are orthogonal.
        let reflection = |n: usize, seed: f64| {
            let v = numbers(n, seed);
            let norm: f64 = v.iter().map(|v| v * v).sum();
            let entry =
                |i: usize| f64::from(u8::from(i / n == i % n)) - 2.0 * v[i / n] * v[i % n] / norm;
            (0..n * n).map(entry).collect::<Vec<f64>>()
        };
        for (rows, cols) in [(4, 4), (4, 7), (7, 4)] {
            let (left, right) = (reflection(rows, 0.3), reflection(cols, 1.1));
            let with = |values: [f64; 4]| {
                let mut middle = vec![0.0; rows * cols];
                (0..4).for_each(|i| middle[i * cols + i] = values[i]);
                let half = product(&left, &middle, (rows, rows, cols));
                product(&half, &right, (rows, cols, cols))
            };
            let values = [5.0, 2.0, 1.0, 0.2];
            let norm = values.iter().map(|s| s * s).sum::<f64>().sqrt();
            let mut expected = values.map(|s| s / norm);
            for _ in 0..5 {
                expected = expected.map(|s| 3.4445 * s - 4.7750 * s.powi(3) + 2.0315 * s.powi(5));
            }
            assert!(
                expected.iter().all(|s| (0.65..1.25).contains(s)),
                "{expected:?}"
            );
            let found = orthogonal(&with(values), (rows, cols));
            for (found, expected) in found.iter().zip(with(expected)) {
                assert!((found - expected).abs() < 1e-12, "{rows} x {cols}");
            }
        }
        assert_eq!(orthogonal(&[0.0; 6], (2, 3)), [0.0; 6]);
    }

    /// Two steps by the definition; what is no matrix stays as it is and is not even read.
    #[test]
    fn two_steps_by_the_definition() {
        let matrices = vec![
            Matrix {
                start: 1,
                rows: 2,
                cols: 3,
            },
            Matrix {
                start: 8,
                rows: 3,
                cols: 2,
            },
        ];
        let mut muon = Muon::<f64>::new(15, matrices.clone(), 0.9).unwrap();
        let mut p = numbers(15, 0.0);
        let mut expected = p.clone();
        let mut momentum = [0.0; 15];
        for n in 0..2 {
            let mut g = numbers(15, 1.0 + f64::from(n));
            for matrix in &matrices {
                let ahead: Vec<f64> = matrix
                    .range()
                    .map(|i| {
                        momentum[i] = 0.9 * momentum[i] + 0.1 * 0.5 * g[i];
                        0.9 * momentum[i] + 0.1 * 0.5 * g[i]
                    })
                    .collect();
                let direction = orthogonal(&ahead, (matrix.rows, matrix.cols));
                for (i, d) in matrix.range().zip(direction) {
                    expected[i] -= 0.01 * 0.2 * 3f64.sqrt() * d;
                }
            }
            for i in [0, 7, 14] {
                g[i] = f64::NAN;
            }
            muon.update_scaled(&mut p, &g, 0.01, 0.5);
        }
        for (p, expected) in p.iter().zip(&expected) {
            assert!((p - expected).abs() < 1e-14);
        }
    }

    #[test]
    fn matrices_that_cannot_be_are_refused() {
        let one = |start, rows, cols| {
            let matrices = vec![
                Matrix {
                    start: 0,
                    rows: 2,
                    cols: 2,
                },
                Matrix { start, rows, cols },
            ];
            Muon::<f32>::new(10, matrices, 0.95)
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        assert!(one(4, 2, 3).is_ok());
        assert!(one(3, 2, 3).unwrap_err().contains("3..9"));
        assert!(one(5, 2, 3).unwrap_err().contains("5..11"));
        assert!(one(4, usize::MAX, 2).unwrap_err().contains("beyond"));
        assert!(one(usize::MAX, 2, 2).unwrap_err().contains("beyond"));
        assert!(Muon::<f32>::new(1, Vec::new(), 1.0).is_err());
    }
}
