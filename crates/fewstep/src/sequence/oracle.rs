//! The exact denoiser of a known language, in the place of a network.
//!
//! It has no error of its own, so what a few-step sampler loses with it is lost by the steps alone.

use fewstep_ctmc::{Language, Path};
use fewstep_nn::{Batch, Logits, Network, Rows, Want};
use rayon::prelude::*;

/// `p_{1|t}` of a language on a path, by forward-backward.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// The law of the data.
    pub language: Language,
    /// The path.
    pub path: Path,
}

impl Network<f64> for Oracle {
    /// `[B, L, S]`.
    type Pass = Vec<f64>;

    fn symbols(&self) -> usize {
        self.path.state_symbols()
    }

    fn evaluate(&self, batch: Batch, _: Want, pass: &mut Vec<f64>) {
        let length = batch.x.len() / batch.t.len();
        let one = length * self.language.symbols();
        pass.clear();
        pass.resize(one * batch.t.len(), 0.0);
        pass.par_chunks_mut(one)
            .zip(batch.x.par_chunks(length))
            .zip(batch.t)
            .for_each(|((p, x), &t)| {
                let level = self.path.schedule().level(t);
                self.language.denoise(&self.path, level, x, p);
            });
    }

    /// Derivatives are not known to it.
    fn visit<R: Send>(
        &self,
        pass: &Vec<f64>,
        rows: Rows<Vec<f64>>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
    ) -> Vec<R> {
        let symbols = self.language.symbols();
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
