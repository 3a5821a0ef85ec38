//! What everything above this crate knows of a network: `(x, t, r) -> logits [B, L, V]`, with the
//! exact derivative in `t` and a way back.
//!
//! Logits are never held all at once. An evaluation ends in whatever the network can make logits
//! of; they are shown row by row, a row being one coordinate of one sequence, to a consumer that
//! takes from them what it needs and, on the way back, leaves the gradient in their place. So an
//! MLP on four coordinates and a transformer with fifty thousand symbols are used the same way.

use std::ops::Range;

use crate::{Real, softmax};

/// Sequences to evaluate: `x [B, L]`, `t [B]`, `r [B]`.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// State symbols.
    pub x: &'a [usize],
    /// Times.
    pub t: &'a [f64],
    /// Ends of the steps; not read by a network that sees none.
    pub r: &'a [f64],
}

/// A combination of symbols in place of each of a batch's: `k` symbols and weights a coordinate,
/// `[B, L, k]`, the weights of a coordinate summing to one.
#[derive(Clone, Copy, Debug)]
pub struct Soft<'a> {
    /// The symbols that take part.
    pub symbols: &'a [usize],
    /// Their weights.
    pub weights: &'a [f64],
}

/// Which parameters are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// The correction alone: no backward pass through the trunk.
    Head,
    /// Everything.
    Full,
}

/// What an evaluation is for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Want<'a> {
    /// The first sequences whose derivative in `t` is wanted.
    pub moving: usize,
    /// The way back that will be taken, if any.
    pub back: Option<Adaptation>,
    /// The only rows that will be shown, in ascending order, if not all: a network need not finish
    /// the others.
    pub rows: Option<&'a [usize]>,
}

/// The logits of one row: of a point, its derivative in `t`, and of other points, where they were
/// asked for; else empty. All are the consumer's to overwrite.
#[derive(Debug)]
pub struct Logits<'a, T> {
    /// `[V]` at the point. On the way back the gradient is left here.
    pub value: &'a mut [T],
    /// Their derivative in `t`.
    pub tangent: &'a mut [T],
    /// `[V]` at each of the other points.
    pub others: Vec<&'a mut [T]>,
}

/// What a loss reads of one row if it reads one symbol: its probability at a point, the derivative in
/// `t` (zero if it was not asked for), and its probability at other points.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// `ln p~(z)`.
    pub log: f64,
    /// `p~(z)`.
    pub value: f64,
    /// `d_t p~(z)`.
    pub tangent: f64,
    /// `p~(z)` at each of the other points.
    pub others: Vec<f64>,
}

/// Rows to be shown.
#[derive(Debug)]
pub struct Rows<'a, P> {
    /// Coordinates of all sequences, `sequence L + position`.
    pub rows: &'a [usize],
    /// Whether with derivatives; the rows are then of moving sequences.
    pub tangent: bool,
    /// Evaluations whose same rows are shown beside.
    pub others: Vec<&'a P>,
}

impl<'a, P> Rows<'a, P> {
    /// Rows on their own.
    pub fn plain(rows: &'a [usize]) -> Self {
        Self {
            rows,
            tangent: false,
            others: Vec::new(),
        }
    }
}

/// Where gradients are collected.
#[derive(Debug)]
pub struct Gradient<'a, T> {
    /// Of the parameters that the adaptation trains.
    pub data: &'a mut [T],
    /// Which those are.
    pub adaptation: Adaptation,
    /// Whether to add to what is there.
    pub accumulate: bool,
}

/// Something that predicts: a network with parameters in precision `T`, or an oracle.
pub trait Network<T: Real>: Sync {
    /// An evaluation; its arrays are used again by the next one.
    type Pass: Default + Sync;

    /// Symbols `V` of a row of logits.
    fn symbols(&self) -> usize;
    /// Evaluates sequences.
    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Self::Pass);
    /// Of a network of two opposed laws: what the other law says where `pass` has evaluated the one,
    /// `batch` being the same sequences with `r` on the other side. A network that has both from one
    /// evaluation need not evaluate again.
    fn opposite(&self, batch: Batch, _pass: &Self::Pass, to: &mut Self::Pass) {
        self.evaluate(batch, Want::default(), to);
    }
    /// Asks to be shown each row also as if its coordinate showed another symbol, `x [B, L]`, and what is
    /// made of its surroundings stayed; gives whether that is so. The row then comes last of
    /// [`Logits::others`], until the next evaluation or an empty `x`. Only where the own state has a part
    /// of its own in the logits is it another.
    fn hold(&self, _pass: &mut Self::Pass, _x: &[usize]) -> bool {
        false
    }
    /// Shows logits and collects the answers in the order of the rows.
    fn visit<R: Send>(
        &self,
        pass: &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R>;
}

/// A network that can be trained.
pub trait Learner<T: Real>: Network<T> {
    /// All parameters.
    fn parameters(&self) -> &[T];
    /// All parameters, to be updated.
    fn parameters_mut(&mut self) -> &mut [T];
    /// The parameters that an adaptation trains.
    fn trainable(&self, adaptation: Adaptation) -> Range<usize>;
    /// As [`visit`](Network::visit), and takes the logits' gradients that the consumer leaves. Each
    /// row may be descended from once; [`backward`](Self::backward) follows.
    fn descend<R: Send>(
        &self,
        pass: &mut Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R>;
    /// As [`descend`](Self::descend) for a loss that reads one symbol of each row: the consumer
    /// answers and gives the slope `-p dloss/dp` at its symbol, from which the gradient in the
    /// logits is `slope (p - delta)`. A network may know how to do with less than all logits.
    fn descend_column<R: Send>(
        &self,
        pass: &mut Self::Pass,
        rows: Rows<Self::Pass>,
        symbols: &[usize],
        consumer: impl Fn(usize, Column) -> (R, f64) + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        self.descend(pass, rows, by_rows(symbols, consumer), gradient)
    }
    /// Finishes the way back for all rows that were descended from.
    fn backward(&self, pass: &mut Self::Pass, gradient: &mut Gradient<T>);
}

/// The consumer of whole rows from one of single symbols.
pub fn by_rows<T: Real, R>(
    symbols: &[usize],
    consumer: impl Fn(usize, Column) -> (R, f64) + Sync,
) -> impl Fn(usize, Logits<T>) -> R + Sync {
    move |at, logits| {
        let Logits {
            value,
            tangent,
            others,
        } = logits;
        let symbol = symbols[at];
        let logit = value[symbol].widen();
        let log = logit - softmax::in_place(value);
        let tangent = match &*tangent {
            [] => 0.0,
            moved => log.exp() * (moved[symbol].widen() - softmax::mean(value, moved)),
        };
        let others = others
            .iter()
            .map(|other| (other[symbol].widen() - softmax::log_sum_exp(other)).exp());
        let column = Column {
            log,
            value: log.exp(),
            tangent,
            others: others.collect(),
        };
        let (answer, slope) = consumer(at, column);
        let slope = T::of(slope);
        value.iter_mut().for_each(|v| *v = *v * slope);
        value[symbol] = value[symbol] - slope;
        answer
    }
}

/// A network that also reads combinations of symbols, as the same combinations of what it makes of
/// each.
pub trait Soften<T: Real>: Learner<T> {
    /// As [`evaluate`](Network::evaluate), with `soft` read in place of `batch.x`, which stays what the
    /// coordinates show.
    fn evaluate_soft(&self, batch: Batch, soft: Soft, want: Want, pass: &mut Self::Pass);
}
