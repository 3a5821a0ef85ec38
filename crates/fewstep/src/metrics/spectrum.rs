//! Two decompositions of symmetric matrices, in f64: a factor of a semidefinite one, and eigenvalues.
//!
//! A linear-algebra crate would be larger than all else that this program is built of; what a Frechet
//! distance needs is a Cholesky factor and eigenvalues without their vectors.

use rayon::prelude::*;

/// `L [D, R]` with `S = L L^T` for a semidefinite `S [D, D]`: Cholesky's factor with pivots, which ends
/// where what is left is rounding. Returns it and its rank `R`.
pub fn factor(s: &[f64], d: usize) -> (Vec<f64>, usize) {
    // Column by column: `columns[r][i]` is `L[i, r]`.
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut left: Vec<f64> = (0..d).map(|i| s[i * d + i]).collect();
    let largest = left.iter().copied().fold(0.0, f64::max);
    let least = largest * d as f64 * f64::EPSILON;
    while columns.len() < d {
        let better = |best: usize, i: usize| if left[i] > left[best] { i } else { best };
        let pivot = (0..d).fold(0, better);
        if left[pivot] <= least {
            break;
        }
        let root = left[pivot].sqrt();
        let column: Vec<f64> = (0..d)
            .into_par_iter()
            .with_min_len(64)
            .map(|i| {
                let known: f64 = columns.iter().map(|c| c[i] * c[pivot]).sum();
                (s[i * d + pivot] - known) / root
            })
            .collect();
        left.iter_mut().zip(&column).for_each(|(l, c)| *l -= c * c);
        left[pivot] = 0.0;
        columns.push(column);
    }
    let rank = columns.len();
    let entries = (0..d).flat_map(|i| columns.iter().map(move |column| column[i]));
    (entries.collect(), rank)
}

/// The eigenvalues of a symmetric `a [n, n]`, in no order: Householder reflections to a tridiagonal matrix,
/// then implicit QL. Overwrites `a`.
pub fn eigenvalues(a: &mut [f64], n: usize) -> Vec<f64> {
    let (mut diagonal, mut off) = tridiagonal(a, n);
    ql(&mut diagonal, &mut off);
    diagonal
}

/// The diagonal `[n]` and what stands beside it `[n]`, the last of which is 0.
fn tridiagonal(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut off = vec![0.0; n];
    for k in 0..n.saturating_sub(2) {
        // The reflection that leaves one entry of column k below the diagonal.
        let mut v: Vec<f64> = (k + 1..n).map(|i| a[i * n + k]).collect();
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let alpha = if v[0] > 0.0 { -norm } else { norm };
        off[k] = alpha;
        v[0] -= alpha;
        let square: f64 = v.iter().map(|x| x * x).sum();
        if square == 0.0 {
            continue;
        }
        let beta = 2.0 / square;
        let m = v.len();
        let below = &a[(k + 1) * n..];
        let mut p: Vec<f64> = below
            .par_chunks_exact(n)
            .with_min_len(64)
            .map(|row| {
                let row = &row[k + 1..];
                beta * row.iter().zip(&v).map(|(a, v)| a * v).sum::<f64>()
            })
            .collect();
        let along = beta / 2.0 * p.iter().zip(&v).map(|(p, v)| p * v).sum::<f64>();
        p.iter_mut().zip(&v).for_each(|(p, v)| *p -= along * v);
        // A - v p^T - p v^T.
        a[(k + 1) * n..]
            .par_chunks_exact_mut(n)
            .with_min_len(64)
            .enumerate()
            .for_each(|(i, row)| {
                let (vi, pi) = (v[i], p[i]);
                for (a, j) in row[k + 1..].iter_mut().zip(0..m) {
                    *a -= vi * p[j] + pi * v[j];
                }
            });
    }
    if n > 1 {
        off[n - 2] = a[(n - 1) * n + n - 2];
    }
    ((0..n).map(|i| a[i * n + i]).collect(), off)
}

/// Implicit QL with Wilkinson's shifts: the eigenvalues end on the diagonal.
fn ql(d: &mut [f64], e: &mut [f64]) {
    let n = d.len();
    for l in 0..n {
        // Each takes a few rounds; a bound keeps what is not a number from going on forever.
        for _ in 0..64 {
            let small = |m: usize| {
                let scale = d[m].abs() + d[m + 1].abs();
                e[m].abs() <= f64::EPSILON * scale
            };
            let m = (l..n - 1).find(|&m| small(m)).unwrap_or(n - 1);
            if m == l {
                break;
            }
            let mut g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let r = g.hypot(1.0);
            g = d[m] - d[l] + e[l] / (g + if g >= 0.0 { r } else { -r });
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut cut = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    cut = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                let r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
            }
            if !cut {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::random::{Key, Purpose, normal};

    use super::*;

    /// Sums of eigenvalues and of their squares are traces, and a matrix with known ones has them.
    #[test]
    fn eigenvalues_are_those_of_the_matrix() {
        // The path's Laplacian: 2 - 2 cos(pi k/(n + 1)).
        let n = 12;
        let entry = |i: usize, j: usize| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        };
        let mut a: Vec<f64> = (0..n * n).map(|i| entry(i / n, i % n)).collect();
        let mut found = eigenvalues(&mut a, n);
        found.sort_by(f64::total_cmp);
        for (k, l) in found.iter().enumerate() {
            let exact = 2.0 - 2.0 * (std::f64::consts::PI * (k + 1) as f64 / 13.0).cos();
            assert!((l - exact).abs() < 1e-13, "{l} {exact}");
        }
        let mut rng = Key::new(1, Purpose::Check).at(0, 0);
        for n in [1, 2, 3, 7, 40] {
            let half: Vec<f64> = (0..n * n).map(|_| normal(&mut rng)).collect();
            let a: Vec<f64> = (0..n * n)
                .map(|i| half[i] + half[i % n * n + i / n])
                .collect();
            let found = eigenvalues(&mut a.clone(), n);
            let trace: f64 = (0..n).map(|i| a[i * n + i]).sum();
            let square: f64 = a.iter().map(|a| a * a).sum();
            assert!((found.iter().sum::<f64>() - trace).abs() < 1e-10);
            assert!((found.iter().map(|l| l * l).sum::<f64>() - square).abs() < 1e-9);
        }
        assert_eq!(eigenvalues(&mut [0.0; 9], 3), [0.0; 3]);
        assert!(eigenvalues(&mut [], 0).is_empty());
    }

    #[test]
    fn a_factor_gives_its_matrix_again() {
        let mut rng = Key::new(2, Purpose::Check).at(0, 0);
        for (d, rank) in [(5, 5), (9, 4), (6, 1)] {
            let l: Vec<f64> = (0..d * rank).map(|_| normal(&mut rng)).collect();
            let square = |l: &[f64], r: usize| -> Vec<f64> {
                let dot = |i: usize, j: usize| (0..r).map(|k| l[i * r + k] * l[j * r + k]).sum();
                (0..d * d).map(|i| dot(i / d, i % d)).collect()
            };
            let s = square(&l, rank);
            let (found, r) = factor(&s, d);
            assert_eq!(r, rank);
            for (a, b) in square(&found, r).iter().zip(&s) {
                assert!((a - b).abs() < 1e-12);
            }
        }
        assert_eq!(factor(&[0.0; 4], 2).1, 0);
    }
}
