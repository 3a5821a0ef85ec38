//! What the logits of a network mean.
//!
//! The posterior of a coordinate is what the other coordinates say about it times the likelihood of
//! its own state, `p_{1|t}^d(y | x) ~ p(y | x^{\d}) p_{t|1}(x^d | y)`. Where noise is a symbol like
//! any other, the second factor is known in closed form and near data it is nearly everything: it
//! is `1 + S kappa_t/(1 - kappa_t)` times larger at `y = x^d` than elsewhere. A network that gives the
//! posterior has to learn that number to a relative `1 - kappa_t` at every time, since the bound
//! weighs its errors by `1/(1 - kappa_t)`; one that gives the first factor ([`Prediction::Others`])
//! starts with it.
//!
//! DUO's checkpoints give the first factor too, though its papers call it the denoised data. Their
//! bound compares the ratios `(alpha m_z + c')/(alpha m_x + c')` of a prediction `m`, with
//! `c' = (1 - alpha)/S`, to `p_t(x^{d -> z})/p_t(x)`, and that is this very ratio of
//! `m(y) = p(y | x^{\d})`. The same `m` makes DUO's ancestral step the exactly averaged bridge of eq.
//! duo-U; taken for the posterior, it does not (test in `ctmc/src/duo.rs`).

use std::ops::Range;

use fewstep_ctmc::{Path, Schedule};
use fewstep_nn::{
    Adaptation, Batch, Column, Gradient, Learner, Logits, Network, Real, Rows, Soft, Soften, Want,
    by_rows,
};
use serde::{Deserialize, Serialize};

/// What a network predicts of a coordinate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prediction {
    /// The posterior of its data symbol; with masks there is no difference.
    #[default]
    Posterior,
    /// What the other coordinates say about it, as DUO does; its own state is multiplied in.
    Others,
}

/// A network whose logits are those of the posterior, whatever it predicts.
#[derive(Clone, Debug)]
pub struct Denoiser<N> {
    /// The network.
    pub network: N,
    /// Where the own state is multiplied in: the schedule, one over the probability of a noise symbol,
    /// and the data symbols, beyond which a state says nothing.
    own: Option<(Schedule, f64, usize)>,
    /// State symbols. What a network knows beyond them, as classes, it never predicts.
    symbols: usize,
}

/// An evaluation of a [`Denoiser`].
#[derive(Clone, Debug, Default)]
pub struct Pass<P> {
    inner: P,
    x: Vec<usize>,
    /// Data symbols: a mask says nothing of itself.
    symbols: usize,
    /// The logit of the own state and its derivative in `t`, for each sequence.
    own: Vec<(f64, f64)>,
}

impl<N> Denoiser<N> {
    /// A network on a path. A masked coordinate says nothing about itself, and one that is not
    /// masked is known, so the two predictions differ only where noise is uniform.
    pub fn new(network: N, prediction: Prediction, path: &Path) -> Self {
        let uniform = path.mask().is_none() && path.fixed_coords().is_none();
        let own = (prediction == Prediction::Others && uniform)
            .then(|| (path.schedule(), path.source(0, 0).recip(), path.symbols()));
        Self {
            network,
            own,
            symbols: path.state_symbols(),
        }
    }
}

impl<N> Denoiser<N> {
    /// Keeps what the own states of a batch say.
    fn recall<P>(&self, batch: Batch, pass: &mut Pass<P>) {
        pass.x.clear();
        pass.own.clear();
        if let Some((schedule, s, symbols)) = self.own {
            pass.x.extend_from_slice(batch.x);
            pass.symbols = symbols;
            let each = batch.t.iter().map(|&t| own_logit((schedule, s), t));
            pass.own.extend(each);
        }
    }
}

impl<T: Real, N: Soften<T>> Soften<T> for Denoiser<N> {
    fn evaluate_soft(&self, batch: Batch, soft: Soft, want: Want, pass: &mut Self::Pass) {
        self.recall(batch, pass);
        let inner = &mut pass.inner;
        self.network.evaluate_soft(batch, soft, want, inner);
    }
}

/// The logit of the own state, `ln(1 + s kappa_t/(1 - kappa_t))` and its derivative in `t`, where a noise
/// symbol has the probability `1/s`.
pub fn own_logit((schedule, s): (Schedule, f64), t: f64) -> (f64, f64) {
    let level = schedule.level(t);
    let survival = level.survival.max(f64::MIN_POSITIVE);
    let hit = level.survival + s * level.kappa;
    let slope = schedule.kappa_dot(t) * ((s - 1.0) / hit + survival.recip());
    ((hit / survival).ln(), slope)
}

impl<P> Pass<P> {
    /// The network's own evaluation.
    pub fn inner(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Adds the own states to the logits of a row.
    fn add<T: Real>(&self, row: usize, value: &mut [T], tangent: &mut [T]) {
        let Some(length) = self.x.len().checked_div(self.own.len()) else {
            return;
        };
        let (symbol, (logit, slope)) = (self.x[row], self.own[row / length]);
        if symbol >= self.symbols {
            return;
        }
        value[symbol] += T::of(logit);
        if !tangent.is_empty() {
            tangent[symbol] += T::of(slope);
        }
    }
}

/// The consumer of a denoiser's logits from one of a network's.
fn informed<T: Real, P: Sync, R>(
    (rows, symbols): (&[usize], usize),
    (pass, others): (&Pass<P>, &[&Pass<P>]),
    consumer: impl Fn(usize, Logits<T>) -> R + Sync,
) -> impl Fn(usize, Logits<T>) -> R + Sync {
    move |at, logits| {
        let mut logits = logits;
        pass.add(rows[at], logits.value, logits.tangent);
        for (other, row) in others.iter().zip(&mut logits.others) {
            other.add(rows[at], row, &mut []);
        }
        let (value, beyond) = logits.value.split_at_mut(symbols.min(logits.value.len()));
        let tangent = symbols.min(logits.tangent.len());
        let predicted = Logits {
            value,
            tangent: &mut logits.tangent[..tangent],
            others: logits
                .others
                .into_iter()
                .map(|row| {
                    let predicted = symbols.min(row.len());
                    &mut row[..predicted]
                })
                .collect(),
        };
        let answer = consumer(at, predicted);
        beyond.fill(T::of(0.0));
        answer
    }
}

/// The rows as the network knows them.
fn inner<'a, P>(rows: &Rows<'a, Pass<P>>) -> Rows<'a, P> {
    Rows {
        rows: rows.rows,
        tangent: rows.tangent,
        others: rows.others.iter().map(|pass| &pass.inner).collect(),
    }
}

impl<T: Real, N: Network<T>> Network<T> for Denoiser<N> {
    type Pass = Pass<N::Pass>;

    fn symbols(&self) -> usize {
        self.network.symbols().min(self.symbols)
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Self::Pass) {
        self.recall(batch, pass);
        self.network.evaluate(batch, want, &mut pass.inner);
    }

    fn visit<R: Send>(
        &self,
        pass: &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let consumer = informed((rows.rows, self.symbols), (pass, &rows.others), consumer);
        self.network.visit(&pass.inner, inner(&rows), consumer)
    }
}

impl<T: Real, N: Learner<T>> Learner<T> for Denoiser<N> {
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
        let mut evaluated = std::mem::take(&mut pass.inner);
        let consumer = informed((rows.rows, self.symbols), (&*pass, &rows.others), consumer);
        let answers = self
            .network
            .descend(&mut evaluated, inner(&rows), consumer, gradient);
        pass.inner = evaluated;
        answers
    }

    fn descend_column<R: Send>(
        &self,
        pass: &mut Self::Pass,
        rows: Rows<Self::Pass>,
        symbols: &[usize],
        consumer: impl Fn(usize, Column) -> (R, f64) + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        if self.own.is_some() || self.network.symbols() > self.symbols {
            return self.descend(pass, rows, by_rows(symbols, consumer), gradient);
        }
        let shown = inner(&rows);
        self.network
            .descend_column(&mut pass.inner, shown, symbols, consumer, gradient)
    }

    fn backward(&self, pass: &mut Self::Pass, gradient: &mut Gradient<T>) {
        self.network.backward(&mut pass.inner, gradient);
    }
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Process, Source};

    use super::*;

    /// The logit is the log ratio of the likelihoods, its slope their derivative.
    #[test]
    fn the_own_state_is_multiplied_in() {
        let sources = [Source::Uniform, Source::STOCHASTIC_MASK];
        let cases = [Schedule::Linear, Schedule::Cosine].map(|s| sources.clone().map(|p| (s, p)));
        for (schedule, source) in cases.into_iter().flatten() {
            let path = Path::new(schedule, Process::Mixture(source), 5).unwrap();
            for t in [0.0, 0.3, 0.9, 0.999] {
                let ratio = |t: f64| {
                    let level = schedule.level(t);
                    let at = |x1: usize| path.likelihood_at(level, 0, 2, x1);
                    (at(2) / at(3)).ln()
                };
                let (logit, slope) = own_logit((schedule, path.source(0, 2).recip()), t);
                assert!((logit - ratio(t)).abs() < 1e-9, "{schedule:?} at {t}");
                let h = 1e-6;
                let numeric = if t == 0.0 {
                    (4.0 * ratio(h) - ratio(2.0 * h)) / (2.0 * h)
                } else {
                    (ratio(t + h) - ratio(t - h)) / (2.0 * h)
                };
                let off = (slope - numeric).abs();
                assert!(
                    off < 1e-4 * (1.0 + slope),
                    "{schedule:?} at {t}: {slope}, {numeric}"
                );
            }
        }
    }
}
