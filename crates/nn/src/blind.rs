//! Conditionals of one coordinate given all others, from a network that would see it: each coordinate
//! is hidden in a copy of the sequence of its own.
//!
//! For a network that mixes everything with everything, such as the MLP, there is no other way: `D`
//! copies for all `D` conditionals. (A transformer can do it in one pass: [`Sight`](crate::dit::Sight).)

use std::ops::Range;

use crate::{Adaptation, Batch, Gradient, Learner, Logits, Network, Real, Rows, Want};

/// A network whose logits of a coordinate do not depend on what stands there. It is shown one state
/// symbol more than there are, the last, in the place of the coordinate.
#[derive(Clone, Debug)]
pub struct Blind<N> {
    /// The network.
    pub network: N,
    /// Positions `L`.
    pub length: usize,
    /// The symbol that hides.
    pub hidden: usize,
}

impl<N> Blind<N> {
    /// Where a row is among the rows of the copies.
    fn places(&self, rows: &[usize]) -> Vec<usize> {
        let place = |row: &usize| row * self.length + row % self.length;
        rows.iter().map(place).collect()
    }

    /// The sequences of a batch, each as often as it has coordinates, and the times of the copies.
    fn copies(&self, batch: Batch) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let mut x = Vec::with_capacity(batch.x.len() * self.length);
        for sequence in batch.x.chunks(self.length) {
            for d in 0..self.length {
                x.extend_from_slice(sequence);
                let last = x.len() - self.length + d;
                x[last] = self.hidden;
            }
        }
        let each = |times: &[f64]| -> Vec<f64> {
            let copies = times
                .iter()
                .flat_map(|t| std::iter::repeat_n(*t, self.length));
            copies.collect()
        };
        (x, each(batch.t), each(batch.r))
    }
}

impl<T: Real, N: Network<T>> Network<T> for Blind<N> {
    type Pass = N::Pass;

    fn symbols(&self) -> usize {
        self.network.symbols()
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Self::Pass) {
        assert_eq!(want.moving, 0, "conditionals have no derivative in t");
        let (x, t, r) = self.copies(batch);
        let copies = Batch {
            x: &x,
            t: &t,
            r: &r,
        };
        // Rows of the copies are others.
        let want = Want { rows: None, ..want };
        self.network.evaluate(copies, want, pass);
    }

    fn opposite(&self, batch: Batch, pass: &Self::Pass, to: &mut Self::Pass) {
        let (x, t, r) = self.copies(batch);
        let copies = Batch {
            x: &x,
            t: &t,
            r: &r,
        };
        self.network.opposite(copies, pass, to);
    }

    fn visit<R: Send>(
        &self,
        pass: &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let places = self.places(rows.rows);
        let rows = Rows {
            rows: &places,
            ..rows
        };
        self.network.visit(pass, rows, consumer)
    }
}

impl<T: Real, N: Learner<T>> Learner<T> for Blind<N> {
    fn parameters(&self) -> &[T] {
        self.network.parameters()
    }

    fn parameters_mut(&mut self) -> &mut [T] {
        self.network.parameters_mut()
    }

    fn trainable(&self, adaptation: Adaptation) -> Range<usize> {
        self.network.trainable(adaptation)
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        let places = self.places(rows.rows);
        let rows = Rows {
            rows: &places,
            ..rows
        };
        self.network.descend(pass, rows, consumer, gradient)
    }

    fn backward(&self, pass: &mut Self::Pass, gradient: &mut Gradient<T>) {
        self.network.backward(pass, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Opposed;

    /// A row depends on the others and not on itself.
    #[test]
    fn a_coordinate_is_not_seen_where_it_is_predicted() {
        let network = Opposed::<f64>::new((3, 5, 4), &[9], 1);
        let blind = Blind {
            network,
            length: 3,
            hidden: 4,
        };
        let rows: Vec<usize> = (0..6).collect();
        let logits = |x: &[usize]| {
            let batch = Batch {
                x,
                t: &[0.4, 0.9],
                r: &[0.4, 0.3],
            };
            let mut pass = Default::default();
            Network::<f64>::evaluate(&blind, batch, Want::default(), &mut pass);
            blind.visit(&pass, Rows::plain(&rows), |_, l: Logits<f64>| {
                l.value.to_vec()
            })
        };
        let before = logits(&[0, 1, 2, 3, 3, 0]);
        let after = logits(&[0, 3, 2, 3, 3, 0]);
        for row in rows.iter().copied() {
            let same = row == 1 || row > 2;
            assert_eq!(before[row] == after[row], same, "row {row}");
        }
    }
}
