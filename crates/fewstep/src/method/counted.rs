//! Counts what a training costs: budgets are spent in network evaluations, not in steps.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use fewstep_nn::{Adaptation, Batch, Gradient, Learner, Logits, Network, Real, Rows, Want};

/// A network that counts its evaluations of one sequence: a derivative in `t` counts as one more,
/// a way back as two.
#[derive(Debug)]
pub struct Counted<N> {
    /// The network.
    pub network: N,
    spent: AtomicU64,
}

/// An evaluation of a [`Counted`].
#[derive(Debug, Default)]
pub struct Pass<P> {
    inner: P,
    sequences: usize,
}

impl<N> Counted<N> {
    /// A network that has cost nothing yet.
    pub fn new(network: N) -> Self {
        Self {
            network,
            spent: AtomicU64::new(0),
        }
    }

    /// Evaluations so far.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    fn spend(&self, evaluations: usize) {
        self.spent.fetch_add(evaluations as u64, Ordering::Relaxed);
    }
}

fn inner<'a, P>(rows: &Rows<'a, Pass<P>>) -> Rows<'a, P> {
    Rows {
        rows: rows.rows,
        tangent: rows.tangent,
        others: rows.others.iter().map(|pass| &pass.inner).collect(),
    }
}

impl<T: Real, N: Network<T>> Network<T> for Counted<N> {
    type Pass = Pass<N::Pass>;

    fn symbols(&self) -> usize {
        self.network.symbols()
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Self::Pass) {
        pass.sequences = batch.t.len();
        self.spend(pass.sequences + want.moving);
        self.network.evaluate(batch, want, &mut pass.inner);
    }

    /// Where it takes no evaluation, none is counted.
    fn opposite(&self, batch: Batch, pass: &Self::Pass, to: &mut Self::Pass) {
        to.sequences = 0;
        self.network.opposite(batch, &pass.inner, &mut to.inner);
    }

    fn hold(&self, pass: &mut Self::Pass, x: &[usize]) -> bool {
        self.network.hold(&mut pass.inner, x)
    }

    fn visit<R: Send>(
        &self,
        pass: &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        self.network.visit(&pass.inner, inner(&rows), consumer)
    }
}

impl<T: Real, N: Learner<T>> Learner<T> for Counted<N> {
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
        let rows = inner(&rows);
        self.network
            .descend(&mut pass.inner, rows, consumer, gradient)
    }

    fn backward(&self, pass: &mut Self::Pass, gradient: &mut Gradient<T>) {
        self.spend(2 * pass.sequences);
        self.network.backward(&mut pass.inner, gradient);
    }
}
