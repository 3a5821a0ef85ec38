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
//!
//! A network that is told where a step ends gives the average of the first factor over it. On the
//! mixture path the own state moves in a step even if the others do not; that is known in closed form
//! too ([`OwnStep`]), and a correction has to learn only what remains.

use std::ops::Range;

use fewstep_ctmc::{OwnStep, Path, Process, Schedule, own::Told};
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
    /// Whether a coordinate is drawn again within a step, so that its own state moves.
    redrawn: bool,
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
    /// What the own state says, for each sequence.
    own: Vec<Own>,
    /// Symbols that the coordinates could show instead, if they were asked for.
    held: Vec<usize>,
}

/// What the own state of a coordinate says.
#[derive(Clone, Copy, Debug)]
enum Own {
    /// At a time: its logit and the derivative in `t`.
    Rest(f64, f64),
    /// Over a step.
    Step(OwnStep),
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
            redrawn: matches!(path.process(), Process::Mixture(_)),
            symbols: path.state_symbols(),
        }
    }
}

/// A step shorter than this is none.
const EMPTY: f64 = 1e-9;

impl<N> Denoiser<N> {
    /// Keeps what the own states of a batch say.
    fn recall<P>(&self, batch: Batch, pass: &mut Pass<P>) {
        pass.x.clear();
        pass.own.clear();
        pass.held.clear();
        if let Some((schedule, s, symbols)) = self.own {
            pass.x.extend_from_slice(batch.x);
            pass.symbols = symbols;
            let each = batch.t.iter().zip(batch.r).map(|(&t, &r)| {
                if self.redrawn && r - t > EMPTY {
                    return Own::Step(OwnStep::new(schedule, s, t, r));
                }
                let (logit, slope) = own_logit((schedule, s), t);
                Own::Rest(logit, slope)
            });
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

    /// Puts what the own state, of `x`, says into the logits of a row; the answer leads a gradient back.
    fn inform<T: Real>(
        &self,
        (x, row): (&[usize], usize),
        value: &mut [T],
        tangent: &mut [T],
    ) -> Option<Told> {
        let length = self.x.len().checked_div(self.own.len())?;
        let shown = Some(x[row]).filter(|&x| x < self.symbols);
        match (self.own[row / length], shown) {
            (Own::Rest(..), None) => None,
            (Own::Rest(logit, slope), Some(x)) => {
                value[x] += T::of(logit);
                if let Some(d) = tangent.get_mut(x) {
                    *d += T::of(slope);
                }
                None
            }
            (Own::Step(step), shown) => {
                let (mut wide, mut moving) = (widen(value), widen(tangent));
                let told = step.tell(&mut wide, &mut moving, shown);
                narrow(&wide, value);
                narrow(&moving, tangent);
                Some(told)
            }
        }
    }
}

fn widen<T: Real>(row: &[T]) -> Vec<f64> {
    row.iter().map(|v| v.widen()).collect()
}

fn narrow<T: Real>(row: &[f64], out: &mut [T]) {
    for (out, v) in out.iter_mut().zip(row) {
        *out = T::of(*v);
    }
}

/// The consumer of a denoiser's logits from one of a network's. What it leaves of them is a gradient if
/// they are on the way `back`.
fn informed<T: Real, P: Sync, R>(
    (rows, symbols, back): (&[usize], usize, bool),
    (pass, others): (&Pass<P>, &[&Pass<P>]),
    consumer: impl Fn(usize, Logits<T>) -> R + Sync,
) -> impl Fn(usize, Logits<T>) -> R + Sync {
    move |at, logits| {
        let Logits {
            value,
            tangent,
            others: elsewhere,
        } = logits;
        let (value, beyond) = value.split_at_mut(symbols.min(value.len()));
        let (tangent, _) = tangent.split_at_mut(symbols.min(tangent.len()));
        let mut held = Vec::new();
        if !pass.held.is_empty() {
            held.extend_from_slice(value);
            pass.inform((&pass.held, rows[at]), &mut held, &mut []);
        }
        let told = pass.inform((&pass.x, rows[at]), value, tangent);
        let elsewhere = elsewhere.into_iter().zip(others).map(|(row, other)| {
            let predicted = symbols.min(row.len());
            let row = &mut row[..predicted];
            other.inform((&other.x, rows[at]), row, &mut []);
            row
        });
        let held = Some(&mut held[..]).filter(|row| !row.is_empty());
        let predicted = Logits {
            value: &mut *value,
            tangent,
            others: elsewhere.chain(held).collect(),
        };
        let answer = consumer(at, predicted);
        if let Some(told) = told.filter(|_| back) {
            let mut gradient = widen(value);
            told.back(&mut gradient);
            narrow(&gradient, value);
        }
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

    fn hold(&self, pass: &mut Self::Pass, x: &[usize]) -> bool {
        pass.held.clear();
        if self.own.is_some() {
            pass.held.extend_from_slice(x);
        }
        self.own.is_some()
    }

    fn visit<R: Send>(
        &self,
        pass: &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let about = (rows.rows, self.symbols, false);
        let consumer = informed(about, (pass, &rows.others), consumer);
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
        let about = (rows.rows, self.symbols, true);
        let consumer = informed(about, (&*pass, &rows.others), consumer);
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
