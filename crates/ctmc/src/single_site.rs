//! Matrices over states that change one coordinate at a time.
//!
//! The generator of a coordinate-wise path is such a matrix (eq. Q-operator-form), and so is the
//! model `U^theta`. It is determined by `D x S'` numbers a row instead of `S'^D`.

use crate::{Matrix, Space};

/// A single-site supported matrix with zero row sums in each coordinate: entry
/// `(x, x^{d -> s})` is `rates[x, d, s]`, and `rates[x, d, x^d]` is minus the sum of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleSite {
    space: Space,
    rates: Vec<f64>,
}

impl SingleSite {
    /// From a table `[N, D, S']`, of which `fill` writes each row `[S']` given `(x, d)`. The
    /// diagonal entry is set here.
    pub fn build(space: &Space, mut fill: impl FnMut(usize, usize, &mut [f64])) -> Self {
        let (coords, symbols) = (space.coords(), space.symbols());
        let mut rates = vec![0.0; space.len() * coords * symbols];
        for (i, row) in rates.chunks_exact_mut(symbols).enumerate() {
            let (x, d) = (i / coords, i % coords);
            fill(x, d, row);
            let stay = space.symbol(x, d);
            row[stay] = 0.0;
            row[stay] = -row.iter().sum::<f64>();
        }
        Self {
            space: space.clone(),
            rates,
        }
    }

    /// The space it acts on.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The table `[N, D, S']`.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// The row `[S']` of coordinate `d` at state `x`.
    pub fn row(&self, x: usize, d: usize) -> &[f64] {
        let symbols = self.space.symbols();
        let start = (x * self.space.coords() + d) * symbols;
        &self.rates[start..start + symbols]
    }

    /// `self * c`.
    pub fn scaled(mut self, c: f64) -> Self {
        self.rates.iter_mut().for_each(|r| *r *= c);
        self
    }

    /// `M f` for column functions `f: [N, C]` (backward equation), added into `out`.
    pub fn apply(&self, f: &[f64], columns: usize, out: &mut [f64]) {
        for (x, target) in out.chunks_exact_mut(columns).enumerate() {
            for d in 0..self.space.coords() {
                for (s, &rate) in self.row(x, d).iter().enumerate() {
                    let y = self.space.with(x, d, s);
                    for (o, v) in target.iter_mut().zip(&f[y * columns..(y + 1) * columns]) {
                        *o += rate * v;
                    }
                }
            }
        }
    }

    /// `p M` for rows `p: [R, N]` (forward equation), added into `out`.
    pub fn apply_left(&self, p: &[f64], out: &mut [f64]) {
        let n = self.space.len();
        for (p, target) in p.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            for (x, &mass) in p.iter().enumerate() {
                for d in 0..self.space.coords() {
                    for (s, &rate) in self.row(x, d).iter().enumerate() {
                        target[self.space.with(x, d, s)] += mass * rate;
                    }
                }
            }
        }
    }

    /// The same matrix, dense.
    pub fn dense(&self) -> Matrix {
        let n = self.space.len();
        let mut m = Matrix::zeros(n, n);
        for x in 0..n {
            for d in 0..self.space.coords() {
                for (s, &rate) in self.row(x, d).iter().enumerate() {
                    m.data_mut()[x * n + self.space.with(x, d, s)] += rate;
                }
            }
        }
        m
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_dense_products_agree() {
        let space = Space::new(3, 2).unwrap();
        let m = SingleSite::build(&space, |x, d, row| {
            for (s, v) in row.iter_mut().enumerate() {
                *v = ((x * 7 + d * 3 + s) % 5) as f64;
            }
        });
        let dense = m.dense();
        assert!((0..9).all(|x| dense.row(x).iter().sum::<f64>().abs() < 1e-12));
        let f = Matrix::from_data(9, 2, (0..18).map(|i| (i as f64).sin()).collect());
        let mut out = vec![0.0; 18];
        m.apply(f.data(), 2, &mut out);
        let expected = dense.product(&f);
        assert!(
            out.iter()
                .zip(expected.data())
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
        let p = Matrix::from_data(1, 9, (0..9).map(|i| (i as f64).cos()).collect());
        let mut out = vec![0.0; 9];
        m.apply_left(p.data(), &mut out);
        let expected = p.product(&dense);
        assert!(
            out.iter()
                .zip(expected.data())
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
    }
}
