//! Two laws at one time in one network: what they have in common, plus or minus what they differ by.
//!
//! A network gives `[common, difference]` for each coordinate, and the laws are
//!
//! ```text
//! common + side(t, r) difference,    side = 3 for r before t, -3 for r behind it.
//! ```
//!
//! The network itself is told the distance of `r` alone, so both laws come out of one evaluation, and
//! what is learned where the two agree moves the common part and leaves the difference.

use std::ops::Range;

use crate::{
    Adaptation, Batch, Conditioned, Conditioning, Gradient, Learner, Logits, Network, Pass, Real,
    Rows, Want,
};

/// What the difference of two opposed laws is multiplied by: its sign is the side of `r`. It does not
/// shrink with the distance, although the difference does: a factor that did would make small differences
/// slow to learn, and who follows them would be told too late.
pub fn side(t: f64, r: f64) -> f64 {
    3.0 * (t - r).signum()
}

/// The network of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Opposed<T> {
    network: Conditioned<T>,
}

/// An evaluation of an [`Opposed`].
#[derive(Clone, Debug, Default)]
pub struct Evaluated<T> {
    both: Pass<T>,
    /// Of each sequence.
    sides: Vec<f64>,
}

impl<T: Real> Opposed<T> {
    /// A network of `hidden` layers, as [`Conditioned::new`].
    pub fn new(
        (coords, state_symbols, symbols): (usize, usize, usize),
        hidden: &[usize],
        seed: u64,
    ) -> Self {
        let shape = (coords, state_symbols, 2 * symbols);
        Self {
            network: Conditioned::new(Conditioning::Distance, shape, hidden, seed),
        }
    }

    /// The same network with an output layer of zeros: it starts as the constant 0.
    pub fn silent(self) -> Self {
        Self {
            network: self.network.silent(),
        }
    }

    /// A consumer of `[common, difference]` from one of the laws of `sides`, those of `others` beside it.
    /// Leaves the gradient in both parts.
    fn joined<'a, R>(
        &'a self,
        rows: &'a [usize],
        (sides, others): (&'a [f64], Vec<&'a [f64]>),
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> impl Fn(usize, Logits<T>) -> R + Sync {
        let join = |both: &[T], side: f64| -> Vec<T> {
            let (common, difference) = both.split_at(both.len() / 2);
            let lines = common.iter().zip(difference);
            let one = |(c, d): (&T, &T)| T::of(c.widen() + side * d.widen());
            lines.map(one).collect()
        };
        move |at, logits| {
            let sequence = rows[at] / self.network.coords();
            let side = sides[sequence];
            let mut value = join(logits.value, side);
            let beside = logits.others.iter().zip(&others);
            let mut beside: Vec<Vec<T>> = beside.map(|(b, s)| join(b, s[sequence])).collect();
            let laws = Logits {
                value: &mut value,
                tangent: &mut [],
                others: beside.iter_mut().map(|row| &mut row[..]).collect(),
            };
            let answer = consumer(at, laws);
            let (common, difference) = logits.value.split_at_mut(value.len());
            common.copy_from_slice(&value);
            let lines = difference.iter_mut().zip(&value);
            lines.for_each(|(d, g)| *d = T::of(side * g.widen()));
            answer
        }
    }
}

fn inner<'a, T>(rows: &Rows<'a, Evaluated<T>>) -> (Rows<'a, Pass<T>>, Vec<&'a [f64]>) {
    let sides = rows.others.iter().map(|other| &other.sides[..]).collect();
    let rows = Rows {
        rows: rows.rows,
        tangent: rows.tangent,
        others: rows.others.iter().map(|other| &other.both).collect(),
    };
    (rows, sides)
}

impl<T: Real> Network<T> for Opposed<T> {
    type Pass = Evaluated<T>;

    fn symbols(&self) -> usize {
        Network::symbols(&self.network) / 2
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Evaluated<T>) {
        assert_eq!(want.moving, 0, "conditionals have no derivative in t");
        Network::evaluate(&self.network, batch, want, &mut pass.both);
        let steps = batch.t.iter().zip(batch.r);
        pass.sides.clear();
        pass.sides.extend(steps.map(|(t, r)| side(*t, *r)));
    }

    fn opposite(&self, _: Batch, pass: &Evaluated<T>, to: &mut Evaluated<T>) {
        to.both.logits.clone_from(&pass.both.logits);
        to.sides.clear();
        to.sides.extend(pass.sides.iter().map(|side| -side));
    }

    fn visit<R: Send>(
        &self,
        pass: &Evaluated<T>,
        rows: Rows<Evaluated<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let (rows, others) = inner(&rows);
        let joined = self.joined(rows.rows, (&pass.sides, others), consumer);
        self.network.visit(&pass.both, rows, joined)
    }
}

impl<T: Real> Learner<T> for Opposed<T> {
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
        pass: &mut Evaluated<T>,
        rows: Rows<Evaluated<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        let (rows, others) = inner(&rows);
        let joined = self.joined(rows.rows, (&pass.sides, others), consumer);
        self.network.descend(&mut pass.both, rows, joined, gradient)
    }

    fn backward(&self, pass: &mut Evaluated<T>, gradient: &mut Gradient<T>) {
        Learner::backward(&self.network, &mut pass.both, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: [usize; 6] = [0, 2, 1, 3, 3, 0];
    const ROWS: [usize; 6] = [0, 1, 2, 3, 4, 5];

    fn network() -> Opposed<f64> {
        let mut net = Opposed::new((3, 4, 3), &[9, 5], 2);
        let waves = net.parameters_mut().iter_mut().enumerate();
        waves.for_each(|(i, p)| *p += 0.3 * (i as f64).sin());
        net
    }

    fn batch(r: &[f64]) -> Batch<'_> {
        Batch {
            x: &X,
            t: &[0.7, 0.4],
            r,
        }
    }

    fn logits(net: &Opposed<f64>, pass: &Evaluated<f64>) -> Vec<Vec<f64>> {
        let rows = Rows::plain(&ROWS);
        net.visit(pass, rows, |_, l: Logits<f64>| l.value.to_vec())
    }

    /// What the other law says is the same from one evaluation as from its own, alone and beside; halfway
    /// between them is the common part, which the side does not move.
    #[test]
    fn one_evaluation_gives_both_laws() {
        let net = network();
        let (mut here, mut there, mut other) = Default::default();
        let want = Want::default();
        net.evaluate(batch(&[0.2, 0.9]), want, &mut here);
        net.evaluate(batch(&[1.2, -0.1]), want, &mut there);
        net.opposite(batch(&[1.2, -0.1]), &here, &mut other);
        let (here_rows, there_rows) = (logits(&net, &here), logits(&net, &there));
        assert_ne!(here_rows, there_rows);
        for (one, own) in logits(&net, &other).iter().zip(&there_rows) {
            assert!(one.iter().zip(own).all(|(a, b)| (a - b).abs() < 1e-12));
        }
        let rows = Rows {
            rows: &ROWS,
            tangent: false,
            others: vec![&other],
        };
        let beside = net.visit(&here, rows, |_, l| (l.value.to_vec(), l.others[0].to_vec()));
        for (row, (value, other)) in beside.iter().enumerate() {
            assert_eq!(*value, here_rows[row]);
            for z in 0..3 {
                assert!((other[z] - there_rows[row][z]).abs() < 1e-12);
                let common = (value[z] + other[z]) / 2.0;
                assert!((common - here.both.logits[row * 6 + z]).abs() < 1e-12);
            }
        }
    }

    /// Sequences on both sides, against central differences in every parameter.
    #[test]
    fn the_gradient_is_that_of_central_differences() {
        let mut net = network();
        let weight = |row: usize, z: usize| (row as f64 * 1.3 + z as f64 * 0.8).cos();
        let run = |net: &Opposed<f64>| -> Evaluated<f64> {
            let mut pass = Evaluated::default();
            net.evaluate(batch(&[0.2, 0.9]), Want::default(), &mut pass);
            pass
        };
        let mut data = vec![0.0; net.parameters().len()];
        let mut gradient = Gradient {
            data: &mut data,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        let mut pass = run(&net);
        let consumer = |at: usize, logits: Logits<f64>| {
            let value = logits.value.iter_mut().enumerate();
            value.for_each(|(z, l)| *l = weight(at, z));
        };
        net.descend(&mut pass, Rows::plain(&ROWS), consumer, &mut gradient);
        net.backward(&mut pass, &mut gradient);
        for i in 0..data.len() {
            let mut value = |h: f64| -> f64 {
                net.parameters_mut()[i] += h;
                let rows = logits(&net, &run(&net));
                net.parameters_mut()[i] -= h;
                let one = |row: usize, z: usize| rows[row][z] * weight(row, z);
                (0..18).map(|at| one(at / 3, at % 3)).sum()
            };
            let numeric = (value(1e-5) - value(-1e-5)) / 2e-5;
            assert!(
                (numeric - data[i]).abs() < 1e-7 * (1.0 + numeric.abs()),
                "{i}: {numeric} {}",
                data[i]
            );
        }
        assert!(data.iter().any(|g| g.abs() > 0.1));
    }
}
