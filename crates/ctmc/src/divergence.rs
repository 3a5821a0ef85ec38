//! Distances between laws, and the two parts of a product step's error.

use crate::{Matrix, Space};

/// `1/2 sum |p - q|`; mass missing from either counts too.
pub fn total_variation(p: &[f64], q: &[f64]) -> f64 {
    let missing = (p.iter().sum::<f64>() - q.iter().sum::<f64>()).abs();
    0.5 * (p.iter().zip(q).map(|(a, b)| (a - b).abs()).sum::<f64>() + missing)
}

/// `KL(p || q)` in nats; infinite where `q` misses what `p` has.
pub fn kl(p: &[f64], q: &[f64]) -> f64 {
    p.iter()
        .zip(q)
        .filter(|(a, _)| **a > 0.0)
        .map(|(a, b)| a * (a / b).ln())
        .sum::<f64>()
        .max(0.0)
}

/// `KL(p || prod_d p^d)` in nats: the dependence between the coordinates of a joint law over
/// the states of `space`.
pub fn total_correlation(space: &Space, p: &[f64]) -> f64 {
    let symbols = space.symbols();
    let mut marginals = vec![0.0; space.coords() * symbols];
    for (y, &v) in p.iter().enumerate() {
        for d in 0..space.coords() {
            marginals[d * symbols + space.symbol(y, d)] += v;
        }
    }
    let (mut product, mut scratch) = (Vec::new(), Vec::new());
    crate::law::expand(1.0, &marginals, symbols, &mut product, &mut scratch);
    kl(p, &product)
}

/// The error of one product step against the exact kernel, averaged over the states.
///
/// `KL(P(x, .) || prod_d m^d(.|x)) = sum_d KL(P^d(.|x) || m^d(.|x)) + TC(P(x, .))` exactly: the
/// first part is what better marginals can repair, the second what no product kernel can.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepError {
    /// Nats from wrong per-coordinate marginals.
    pub marginal: f64,
    /// Nats from updating dependent coordinates independently.
    pub dependence: f64,
}

/// Splits the error of the step with kernel rows `rows` (`[N, D, S']`) from states of law `p`,
/// against the exact kernel `exact`.
pub fn step_error(space: &Space, p: &[f64], exact: &Matrix, rows: &[f64]) -> StepError {
    let width = space.coords() * space.symbols();
    let marginals = crate::projection::project(exact, space);
    let mut error = StepError::default();
    for (x, &mass) in p.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
        for d in 0..space.coords() {
            let row = x * width + d * space.symbols();
            let row = row..row + space.symbols();
            error.marginal += mass * kl(&marginals[row.clone()], &rows[row]);
        }
        error.dependence += mass * total_correlation(space, exact.row(x));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::expand;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(total_variation(&[0.5, 0.5], &[1.0, 0.0]), 0.5);
        assert_eq!(total_variation(&[0.5, 0.0], &[0.5, 0.5]), 0.5);
        assert!((kl(&[0.5, 0.5], &[0.25, 0.75]) - 0.5 * (4.0f64 / 3.0).ln()).abs() < 1e-15);
        assert!(kl(&[1.0, 0.0], &[0.0, 1.0]).is_infinite());
        let space = Space::new(2, 2).unwrap();
        // Two equal coins: one bit of dependence.
        let tc = total_correlation(&space, &[0.5, 0.0, 0.0, 0.5]);
        assert!((tc - 2f64.ln()).abs() < 1e-15);
    }

    proptest! {
        /// The split adds up to the KL divergence of the joint kernels.
        #[test]
        fn the_parts_sum_to_the_whole(
            joint in prop::collection::vec(0.01..1.0f64, 9),
            rows in prop::collection::vec(0.01..1.0f64, 6),
        ) {
            let space = Space::new(3, 2).unwrap();
            let total: f64 = joint.iter().sum();
            let joint: Vec<f64> = joint.iter().map(|v| v / total).collect();
            let mut rows = rows;
            for row in rows.chunks_exact_mut(3) {
                let total: f64 = row.iter().sum();
                row.iter_mut().for_each(|v| *v /= total);
            }
            let (mut product, mut scratch) = (Vec::new(), Vec::new());
            expand(1.0, &rows, 3, &mut product, &mut scratch);
            let whole = kl(&joint, &product);
            let exact = Matrix::from_data(9, 9, joint.repeat(9));
            let p = vec![1.0 / 9.0; 9];
            let split = step_error(&space, &p, &exact, &rows.repeat(9));
            prop_assert!((split.marginal + split.dependence - whole).abs() < 1e-12);
            prop_assert!((split.dependence - total_correlation(&space, &joint)).abs() < 1e-12);
        }
    }
}
