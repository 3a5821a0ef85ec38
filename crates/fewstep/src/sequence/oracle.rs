//! The exact denoiser of data whose law is known, in the place of a network.
//!
//! It has no error of its own, so what a few-step sampler loses with it is lost by the steps alone.

use fewstep_ctmc::{Language, Level, Path};
use fewstep_nn::{Batch, Logits, Network, Rows, Want};
use rayon::prelude::*;

/// A law of sequences whose posterior can be computed.
pub trait Exact: Sync {
    /// Data symbols.
    fn symbols(&self) -> usize;
    /// `p_{1|t}^d(. | x)` for every coordinate of a state `x [L]`, to `p [L, S]`.
    fn denoise(&self, path: &Path, level: Level, x: &[usize], p: &mut [f64]);
}

impl Exact for Language {
    fn symbols(&self) -> usize {
        self.symbols()
    }

    fn denoise(&self, path: &Path, level: Level, x: &[usize], p: &mut [f64]) {
        self.denoise(path, level, x, p);
    }
}

/// `p_{1|t}` of a law on a path.
#[derive(Clone, Debug)]
pub struct Oracle<E = Language> {
    /// The law of the data.
    pub law: E,
    /// The path.
    pub path: Path,
}

impl<E: Exact> Network<f64> for Oracle<E> {
    /// `[B, L, S]`.
    type Pass = Vec<f64>;

    fn symbols(&self) -> usize {
        self.path.state_symbols()
    }

    fn evaluate(&self, batch: Batch, _: Want, pass: &mut Vec<f64>) {
        let length = batch.x.len() / batch.t.len();
        let one = length * self.law.symbols();
        pass.clear();
        pass.resize(one * batch.t.len(), 0.0);
        pass.par_chunks_mut(one)
            .zip(batch.x.par_chunks(length))
            .zip(batch.t)
            .for_each(|((p, x), &t)| {
                let level = self.path.schedule().level(t);
                self.law.denoise(&self.path, level, x, p);
            });
    }

    /// Derivatives are not known to it.
    fn visit<R: Send>(
        &self,
        pass: &Vec<f64>,
        rows: Rows<Vec<f64>>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
    ) -> Vec<R> {
        let symbols = self.law.symbols();
        let logits_of = |pass: &[f64], row: usize| -> Vec<f64> {
            let p = &pass[row * symbols..(row + 1) * symbols];
            let known = p.iter().map(|p| p.max(f64::MIN_POSITIVE).ln());
            // The mask is never predicted.
            known
                .chain(std::iter::repeat(-1e9))
                .take(self.symbols())
                .collect()
        };
        let show = |(at, &row): (usize, &usize)| {
            let others = rows.others.iter().map(|other| logits_of(other, row));
            let mut others: Vec<Vec<f64>> = others.collect();
            let logits = Logits {
                value: &mut logits_of(pass, row),
                tangent: &mut [],
                others: others.iter_mut().map(|row| &mut row[..]).collect(),
            };
            consumer(at, logits)
        };
        rows.rows.par_iter().enumerate().map(show).collect()
    }
}
