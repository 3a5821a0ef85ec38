//! Dense row-major matrices, as much as the enumerated chains need.

use crate::Error;

/// A `[rows, cols]` matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Matrix {
    /// Most states for which an `[N, N]` matrix is built: half a gigabyte.
    pub const MAX_STATES: usize = 8192;

    /// Zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self {
            rows,
            cols,
            data: vec![0.0; rows * cols],
        }
    }

    /// A matrix with these entries, row by row.
    pub fn from_data(rows: usize, cols: usize, data: Vec<f64>) -> Self {
        assert_eq!(
            data.len(),
            rows * cols,
            "entries of a {rows} x {cols} matrix"
        );
        Self { rows, cols, data }
    }

    /// The identity over the states of a space, if that fits.
    pub fn identity(space: &crate::Space) -> Result<Self, Error> {
        let n = space.len();
        if n > Self::MAX_STATES {
            return Err(Error::TooManyStates {
                symbols: space.symbols(),
                coords: space.coords(),
                limit: Self::MAX_STATES,
            });
        }
        let mut m = Self::zeros(n, n);
        for i in 0..n {
            m.data[i * n + i] = 1.0;
        }
        Ok(m)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All entries, row by row.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// All entries, row by row.
    pub fn data_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// The entries, row by row.
    pub fn into_data(self) -> Vec<f64> {
        self.data
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Entry `(i, j)`.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.cols + j]
    }

    /// `self * other`, skipping the zeros of `self`.
    pub fn product(&self, other: &Self) -> Self {
        assert_eq!(self.cols, other.rows, "inner sizes of a matrix product");
        let mut out = Self::zeros(self.rows, other.cols);
        for (i, target) in out.data.chunks_exact_mut(other.cols).enumerate() {
            for (k, &a) in self.row(i).iter().enumerate() {
                if a != 0.0 {
                    for (o, b) in target.iter_mut().zip(other.row(k)) {
                        *o += a * b;
                    }
                }
            }
        }
        out
    }

    /// `a * self + b * other`.
    pub fn combine(&self, a: f64, b: f64, other: &Self) -> Self {
        assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        let entries = self.data.iter().zip(&other.data);
        Self::from_data(
            self.rows,
            self.cols,
            entries.map(|(x, y)| a * x + b * y).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_of_small_matrices() {
        let a = Matrix::from_data(2, 3, vec![1.0, 2.0, 0.0, -1.0, 0.5, 3.0]);
        let b = Matrix::from_data(3, 2, vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(a.product(&b).data(), [5.0, 14.0, 9.0, 16.5]);
        assert_eq!(a.combine(2.0, -1.0, &a), a);
    }

    #[test]
    fn too_large_an_identity_is_refused() {
        let space = crate::Space::new(2, 14).unwrap();
        assert!(Matrix::identity(&space).is_err());
    }
}
