//! Sampling grids `0 = tau_0 < ... < tau_K = 1`.

use crate::Error;

/// A checked grid of `K` steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    points: Vec<f64>,
}

impl Grid {
    /// `tau_k = k / K`.
    pub fn uniform(steps: usize) -> Result<Self, Error> {
        if steps == 0 {
            return Err(Error::range("the number of steps", steps, "at least 1"));
        }
        Self::new((0..=steps).map(|k| k as f64 / steps as f64).collect())
    }

    /// A grid with these points, which must increase strictly from 0 to 1.
    pub fn new(points: Vec<f64>) -> Result<Self, Error> {
        let fail = |detail: String| Err(Error::Grid { detail });
        if points.len() < 2 {
            return fail(format!("it has {} point(s)", points.len()));
        }
        if let Some(k) =
            (1..points.len()).find(|&k| points[k].is_nan() || points[k] <= points[k - 1])
        {
            return fail(format!(
                "point {} is {} after {}",
                k,
                points[k],
                points[k - 1]
            ));
        }
        match (points[0], points[points.len() - 1]) {
            (0.0, 1.0) => Ok(Self { points }),
            (first, last) => fail(format!("it runs from {first} to {last}")),
        }
    }

    /// Number of steps `K`.
    pub fn steps(&self) -> usize {
        self.points.len() - 1
    }

    /// The points `tau_0 .. tau_K`.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// The steps `(t, r)` in order.
    pub fn intervals(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.windows(2).map(|w| (w[0], w[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_grids_are_the_quotients() {
        let grid = Grid::uniform(3).unwrap();
        assert_eq!(grid.points(), [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
        assert_eq!(grid.intervals().nth(1), Some((1.0 / 3.0, 2.0 / 3.0)));
    }

    #[test]
    fn bad_grids_are_refused() {
        for points in [
            vec![],
            vec![0.0],
            vec![0.0, 0.5, 0.5, 1.0],
            vec![0.0, 0.7, 0.3, 1.0],
            vec![0.1, 1.0],
            vec![0.0, 0.9],
            vec![0.0, f64::NAN, 1.0],
        ] {
            assert!(Grid::new(points.clone()).is_err(), "{points:?}");
        }
        assert!(Grid::uniform(0).is_err());
    }
}
