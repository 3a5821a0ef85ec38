//! The per-coordinate projection `Pi^d` (eq. projection).

use crate::{Matrix, Space};

/// `Pi^d[M](x, z) = sum_{y: y^d = z} M(x, y)` for every `x`, `d` and `z`, `[N, D, S']`. The entry
/// `z = x^d` is the extension by zero row sums that the paper makes after eq. closure.
pub fn project(m: &Matrix, space: &Space) -> Vec<f64> {
    let (coords, symbols) = (space.coords(), space.symbols());
    let mut out = vec![0.0; m.rows() * coords * symbols];
    for (x, table) in out.chunks_exact_mut(coords * symbols).enumerate() {
        for (y, &v) in m.row(x).iter().enumerate() {
            for (d, row) in table.chunks_exact_mut(symbols).enumerate() {
                row[space.symbol(y, d)] += v;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SingleSite;

    #[test]
    fn a_single_site_matrix_projects_onto_its_own_rows() {
        let space = Space::new(3, 2).unwrap();
        let m = SingleSite::build(&space, |x, d, row| {
            for (s, v) in row.iter_mut().enumerate() {
                *v = (x + 2 * d + s) as f64;
            }
        });
        let projected = project(&m.dense(), &space);
        for (a, b) in projected.iter().zip(m.rates()) {
            assert!((a - b).abs() < 1e-12);
        }
    }
}
