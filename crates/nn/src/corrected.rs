//! A frozen denoiser and its correction as one network: `logits = base(x, t) + gain correction(x, t,
//! r)`. What is trained is the correction.

use std::ops::Range;

use crate::{
    Adaptation, Batch, Conditioned, Gradient, Learner, Logits, Network, Pass, Real, Rows, Want,
};

/// The two networks.
#[derive(Clone, Debug, PartialEq)]
pub struct Corrected<T> {
    /// The denoiser, which is not told the end of a step.
    pub base: Conditioned<T>,
    /// What is added to it.
    pub correction: Conditioned<T>,
    /// How often; training has it at 1.
    pub gain: f64,
}

/// An evaluation of a [`Corrected`]: the sums stand in the correction's place.
#[derive(Clone, Debug, Default)]
pub struct Both<T> {
    base: Pass<T>,
    sum: Pass<T>,
}

fn inner<'a, T>(rows: &Rows<'a, Both<T>>) -> Rows<'a, Pass<T>> {
    Rows {
        rows: rows.rows,
        tangent: rows.tangent,
        others: rows.others.iter().map(|both| &both.sum).collect(),
    }
}

impl<T: Real> Network<T> for Corrected<T> {
    type Pass = Both<T>;

    fn symbols(&self) -> usize {
        Network::symbols(&self.base)
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Both<T>) {
        Network::evaluate(&self.base, batch, want, &mut pass.base);
        Network::evaluate(&self.correction, batch, want, &mut pass.sum);
        let add = |to: &mut [f64], base: &[f64]| {
            for (to, base) in to.iter_mut().zip(base) {
                *to = self.gain * *to + base;
            }
        };
        add(&mut pass.sum.logits, &pass.base.logits);
        add(&mut pass.sum.tangent, &pass.base.tangent);
    }

    fn visit<R: Send>(
        &self,
        pass: &Both<T>,
        rows: Rows<Both<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        self.correction.visit(&pass.sum, inner(&rows), consumer)
    }
}

impl<T: Real> Learner<T> for Corrected<T> {
    fn parameters(&self) -> &[T] {
        self.correction.parameters()
    }

    fn parameters_mut(&mut self) -> &mut [T] {
        self.correction.parameters_mut()
    }

    fn trainable(&self, _: Adaptation) -> Range<usize> {
        0..self.correction.parameters().len()
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Both<T>,
        rows: Rows<Both<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        let rows = inner(&rows);
        self.correction
            .descend(&mut pass.sum, rows, consumer, gradient)
    }

    fn backward(&self, pass: &mut Both<T>, gradient: &mut Gradient<T>) {
        assert_eq!(self.gain, 1.0, "trained at gain 1");
        Learner::backward(&self.correction, &mut pass.sum, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conditioning;

    /// The sum, its derivative in `t`, and at another gain.
    #[test]
    fn logits_are_the_sum_of_both() {
        let new = |conditioning, seed| {
            let mut net = Conditioned::<f64>::new(conditioning, (2, 3, 3), &[5], seed);
            let wave = |i: usize| 0.4 * (i as f64 * 1.3).sin();
            let parameters = net.parameters_mut().iter_mut().enumerate();
            parameters.for_each(|(i, p)| *p += wave(i));
            net
        };
        let mut net = Corrected {
            base: new(Conditioning::Instant, 1),
            correction: new(Conditioning::Interval, 2),
            gain: 1.0,
        };
        let batch = Batch {
            x: &[0, 2, 1, 1],
            t: &[0.2, 0.5],
            r: &[0.7, 0.9],
        };
        let want = Want {
            moving: 2,
            ..Want::default()
        };
        let (mut base, mut correction) = (Pass::default(), Pass::default());
        net.base.evaluate(batch, true, &mut base);
        net.correction.evaluate(batch, true, &mut correction);
        for gain in [1.0, 2.5] {
            net.gain = gain;
            let mut both = Both::default();
            Network::evaluate(&net, batch, want, &mut both);
            let rows = Rows {
                rows: &[3, 1],
                tangent: true,
                others: Vec::new(),
            };
            let seen = net.visit(&both, rows, |_, logits| {
                (logits.value.to_vec(), logits.tangent.to_vec())
            });
            for (row, (value, tangent)) in [3, 1].iter().zip(seen) {
                for z in 0..3 {
                    let at = row * 3 + z;
                    let sum = base.logits[at] + gain * correction.logits[at];
                    assert!((value[z] - sum).abs() < 1e-14);
                    let sum = base.tangent[at] + gain * correction.tangent[at];
                    assert!((tangent[z] - sum).abs() < 1e-14);
                }
            }
        }
    }
}
