//! The vocabulary head where a loss reads one symbol of a row: `p~(z)`, `d_t p~(z)` and the same
//! symbol's probability at perturbed points, and back.
//!
//! With `A = sum_v p(v) W_v`, which the way back needs in any case, the derivative
//! `d_t p(z) = p(z) (W_z - A) . h'` comes without a derivative of all logits, and of the perturbed
//! points only `ln sum exp` is taken. Symbols are gone over in stripes, so that logits are used while
//! they are near; the point's own are kept, stripe by stripe, as `exp(logit - top)` with the stripe's
//! `top`, so that each is exponentiated once.

use rayon::prelude::*;

use super::{
    head::{Head, HeadGradient, NEVER},
    linear::{back_input, back_weight, forward},
};
use crate::{Column, Real, simd, softmax};

/// Symbols of a stripe.
const STRIPE: usize = 2048;
/// Probabilities kept at a time.
const BLOCK: usize = 1 << 24;

/// Rows of a block, of the point and of others, and what their stripes have in common.
struct Sums<T> {
    /// The logit of the row's symbol.
    logit: Vec<T>,
    /// `ln sum exp`.
    level: Vec<f64>,
    /// The largest logit of each stripe.
    tops: Vec<Vec<T>>,
}

impl<T: Real> Head<'_, T> {
    /// Shows each row the probabilities of its symbol and takes `(answer, slope)`, where the gradient
    /// in the row's logits is `slope (p - delta_z)`. Sets of features are those of
    /// [`visit`](Self::visit).
    pub fn columns<R: Send>(
        &self,
        sets: &[Vec<T>],
        channels: usize,
        symbols: &[usize],
        consumer: impl Fn(usize, Column) -> (R, f64) + Sync,
        mut gradient: HeadGradient<T>,
    ) -> Vec<R> {
        let (count, vocabulary) = (symbols.len(), self.bias.len());
        let rows = (BLOCK / vocabulary).clamp(16, 4096).min(count.max(1));
        let mut block = self.pool.take(rows * vocabulary);
        let mut answers = Vec::with_capacity(count);
        for first in (0..count).step_by(rows) {
            let here = rows.min(count - first);
            let at = first * channels..(first + here) * channels;
            let symbols = &symbols[first..first + here];
            let values = [&sets[0]].into_iter().chain(&sets[2..]);
            let points: Vec<T> = values.flat_map(|set| set[at.clone()].to_vec()).collect();
            let block = &mut block[..here * vocabulary];
            let sums = self.exponentials(&points, channels, symbols, block);

            let mut mean = vec![T::of(0.0); here * channels];
            self.normalise(&sums, channels, block, &mut mean);
            let shown: Vec<(R, f64)> = (0..here)
                .into_par_iter()
                .map(|i| {
                    let line = i * channels..(i + 1) * channels;
                    let log = |j: usize| sums.logit[j].widen() - sums.level[j];
                    let value = log(i).exp();
                    let tangent = match &sets[1][..] {
                        [] => 0.0,
                        moved => {
                            let moved = &moved[at.clone()][line.clone()];
                            let along = softmax::mean(self.row(channels, symbols[i]), moved);
                            value * (along - softmax::mean(&mean[line], moved))
                        }
                    };
                    let others = (1..sums.logit.len() / here).map(|j| log(j * here + i).exp());
                    let column = Column {
                        log: log(i),
                        value,
                        tangent,
                        others: others.collect(),
                    };
                    consumer(first + i, column)
                })
                .collect();
            let slopes: Vec<T> = shown.iter().map(|(_, slope)| T::of(*slope)).collect();
            answers.extend(shown.into_iter().map(|(answer, _)| answer));

            let gfeatures = gradient.features[at.clone()].chunks_exact_mut(channels);
            for (i, (to, mean)) in gfeatures.zip(mean.chunks_exact(channels)).enumerate() {
                let own = self.row(channels, symbols[i]);
                for ((to, mean), own) in to.iter_mut().zip(mean).zip(own) {
                    *to = slopes[i] * (*mean - *own);
                }
            }
            if let Some((gweight, gbias)) = &mut gradient.parameters {
                let accumulate = gradient.accumulate || first > 0;
                let into = (&mut **gweight, &mut **gbias, accumulate);
                let weighed = (&sets[0][at], &slopes[..]);
                back_parameters(weighed, channels, symbols, block, into);
            }
        }
        self.pool.give(block);
        answers
    }

    fn row(&self, channels: usize, symbol: usize) -> &[T] {
        &self.weight[symbol * channels..(symbol + 1) * channels]
    }

    /// Fills `block` with the first rows' `exp(logit - top)`, one stripe after the other.
    fn exponentials(
        &self,
        points: &[T],
        channels: usize,
        symbols: &[usize],
        block: &mut [T],
    ) -> Sums<T> {
        let (all, here) = (points.len() / channels, symbols.len());
        let mut scratch = vec![T::of(0.0); all * STRIPE.min(self.bias.len())];
        let mut sums = Sums {
            logit: vec![T::of(0.0); all],
            level: Vec::new(),
            tops: Vec::new(),
        };
        let mut totals: Vec<Vec<f64>> = Vec::new();
        for (s, block) in block.chunks_mut(here * STRIPE).enumerate() {
            let (start, width) = (s * STRIPE, block.len() / here);
            let weight = &self.weight[start * channels..(start + width) * channels];
            let logits = &mut scratch[..all * width];
            forward(weight, channels, points, logits);
            let bias = &self.bias[start..start + width];
            let mask = self.mask.and_then(|mask| mask.checked_sub(start));
            let mask = mask.filter(|mask| *mask < width);
            let mut kept: Vec<&mut [T]> = block.chunks_exact_mut(width).collect();
            kept.resize_with(all, Default::default);
            let seen: Vec<(T, f64, T)> = logits
                .par_chunks_exact_mut(width)
                .zip(kept)
                .enumerate()
                .map(|(i, (row, kept))| {
                    row.iter_mut().zip(bias).for_each(|(l, b)| *l += *b);
                    if let Some(mask) = mask {
                        row[mask] = T::of(NEVER);
                    }
                    let own = symbols[i % here].checked_sub(start);
                    let own = own.and_then(|own| row.get(own)).copied();
                    let (top, total) = softmax::exponentials(row);
                    if !kept.is_empty() {
                        kept.copy_from_slice(row);
                    }
                    (top, total, own.unwrap_or_default())
                })
                .collect();
            for (i, (_, _, own)) in seen.iter().enumerate() {
                if symbols[i % here] / STRIPE == s {
                    sums.logit[i] = *own;
                }
            }
            sums.tops.push(seen.iter().map(|(top, ..)| *top).collect());
            totals.push(seen.iter().map(|(_, total, _)| *total).collect());
        }
        sums.level = (0..all)
            .map(|i| {
                let parts = sums.tops.iter().zip(&totals);
                let logs: Vec<f64> = parts
                    .map(|(top, total)| top[i].widen() + total[i].ln())
                    .collect();
                softmax::log_sum_exp(&logs)
            })
            .collect();
        sums
    }

    /// Makes probabilities of the exponentials, and their mean row of the weight.
    fn normalise(&self, sums: &Sums<T>, channels: usize, block: &mut [T], mean: &mut [T]) {
        let here = mean.len() / channels;
        for (s, block) in block.chunks_mut(here * STRIPE).enumerate() {
            let (start, width) = (s * STRIPE, block.len() / here);
            let rows = block.par_chunks_exact_mut(width).enumerate();
            rows.for_each(|(i, row)| {
                let scale = T::of((sums.tops[s][i].widen() - sums.level[i]).exp());
                softmax::scale(row, scale);
            });
            let weight = &self.weight[start * channels..(start + width) * channels];
            back_input(weight, channels, block, mean, s > 0);
        }
    }
}

/// `gW = sum_rows slope (p - delta_z) h^T`, and the same without `h` for the bias, which is added to.
fn back_parameters<T: Real>(
    (features, slopes): (&[T], &[T]),
    channels: usize,
    symbols: &[usize],
    block: &[T],
    (gweight, gbias, accumulate): (&mut [T], &mut [T], bool),
) {
    let here = symbols.len();
    let lines = features.chunks_exact(channels).zip(slopes);
    let weighed: Vec<T> = lines
        .flat_map(|(line, slope)| line.iter().map(|f| *f * *slope))
        .collect();
    let stripes = block.chunks(here * STRIPE);
    for (block, gweight) in stripes.zip(gweight.chunks_mut(STRIPE * channels)) {
        back_weight(channels, &weighed, block, gweight, accumulate);
    }
    let stripes = block.par_chunks(here * STRIPE);
    stripes
        .zip(gbias.par_chunks_mut(STRIPE))
        .for_each(|(block, gbias)| {
            simd::run(
                gbias,
                #[inline(always)]
                |gbias: &mut [T]| {
                    for (row, slope) in block.chunks_exact(gbias.len()).zip(slopes) {
                        let each = gbias.iter_mut().zip(row);
                        each.for_each(|(g, p)| *g += *slope * *p);
                    }
                },
            );
        });
    for (i, (&symbol, line)) in symbols
        .iter()
        .zip(weighed.chunks_exact(channels))
        .enumerate()
    {
        gbias[symbol] = gbias[symbol] - slopes[i];
        let to = &mut gweight[symbol * channels..(symbol + 1) * channels];
        to.iter_mut().zip(line).for_each(|(t, l)| *t = *t - *l);
    }
}
