//! The vocabulary head: features `[n, C]` to logits `[n, V]` in blocks of rows, and back.
//!
//! A block is as long as keeps its logits near [`BLOCK`] entries; the consumer sees one row at a
//! time, on any thread, and what it leaves in the row is the gradient if there is a way back. Row
//! sets that belong together (the point, its derivative in `t`, perturbed points) are shown
//! together, so that losses over all symbols need no array of all symbols.

use std::{ops::Range, sync::Mutex};

use rayon::prelude::*;

use super::linear::{back_input, back_weight, forward};
use crate::{Logits, Real, layers::gate::add_column_sums};

/// Logits held at a time, of all row sets together.
const BLOCK: usize = 1 << 24;
/// Which of the sets holds derivatives, which have no bias.
const TANGENT: usize = 1;
/// The logit of a symbol that is never predicted.
pub const NEVER: f64 = -1e9;

/// The matrix `[V, C]` and the bias `[V]`, or several of which each row has one.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a, T> {
    /// `[V, C]`.
    pub weight: &'a [T],
    /// `[V]`, or rows that begin with it.
    pub bias: &'a [T],
    /// `V`.
    pub symbols: usize,
    /// Length of a row of biases.
    pub stride: usize,
    /// Which of them each row of logits has; if there is only one, nothing.
    pub places: &'a [usize],
    /// The symbol that is never predicted.
    pub mask: Option<usize>,
    /// Where its blocks come from.
    pub pool: &'a Pool<T>,
}

/// Where the gradients of the head go.
pub struct HeadGradient<'a, T> {
    /// In the features, `[n, C]`; overwritten.
    pub features: &'a mut [T],
    /// In the weight and the bias, unless they are frozen; the bias is added to.
    pub parameters: Option<(&'a mut [T], &'a mut [T])>,
    /// Whether the weight is added to.
    pub accumulate: bool,
}

impl<T: Real> Head<'_, T> {
    /// Where the bias of a row begins.
    fn place(&self, row: usize) -> usize {
        self.places.get(row).map_or(0, |place| place * self.stride)
    }

    /// Shows every row's logits to `consumer` and collects its answers in order. The first set of
    /// features is the point itself; see [`Logits`] for the others. With a gradient, the point's
    /// logits, as the consumer left them, are taken for the gradient in them.
    pub fn visit<R: Send>(
        &self,
        sets: &[Vec<T>],
        channels: usize,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        mut gradient: Option<HeadGradient<T>>,
    ) -> Vec<R> {
        let symbols = self.symbols;
        let count = sets[0].len() / channels;
        let held = sets.iter().filter(|set| !set.is_empty()).count().max(1);
        let rows = (BLOCK / (symbols * held)).clamp(16, 4096).min(count.max(1));
        let mut block = self.pool.take(held * rows * symbols);
        let mut answers = Vec::with_capacity(count);
        for first in (0..count).step_by(rows) {
            let here = rows.min(count - first);
            let at = first * channels..(first + here) * channels;
            let block = &mut block[..held * here * symbols];
            self.logits(sets, at.clone(), channels, block);
            let (value, rest) = block.split_at_mut(here * symbols);
            let split = if sets[TANGENT].is_empty() {
                0
            } else {
                here * symbols
            };
            let (tangent, others) = rest.split_at_mut(split);
            let mut beside: Vec<Vec<&mut [T]>> = (0..here).map(|_| Vec::new()).collect();
            for (i, row) in others.chunks_exact_mut(symbols).enumerate() {
                beside[i % here].push(row);
            }
            answers.par_extend(
                value
                    .par_chunks_mut(symbols)
                    .zip(each_row(tangent, symbols, here))
                    .zip(beside)
                    .enumerate()
                    .map(|(i, ((value, tangent), others))| {
                        let logits = Logits {
                            value,
                            tangent,
                            others,
                        };
                        consumer(first + i, logits)
                    }),
            );
            let Some(gradient) = &mut gradient else {
                continue;
            };
            if let Some(mask) = self.mask {
                for row in value.chunks_exact_mut(symbols) {
                    row[mask] = T::of(0.0);
                }
            }
            let gfeatures = &mut gradient.features[at.clone()];
            back_input(self.weight, channels, value, gfeatures, false);
            if let Some((gweight, gbias)) = &mut gradient.parameters {
                let accumulate = gradient.accumulate || first > 0;
                back_weight(channels, &sets[0][at], value, gweight, accumulate);
                if self.places.is_empty() {
                    add_column_sums(value, gbias);
                } else {
                    for (i, row) in value.chunks_exact(symbols).enumerate() {
                        let gbias = &mut gbias[self.place(first + i)..];
                        gbias.iter_mut().zip(row).for_each(|(b, g)| *b += *g);
                    }
                }
            }
        }
        self.pool.give(block);
        answers
    }

    /// The logits of all sets that there are, one after the other, by one product.
    fn logits(&self, sets: &[Vec<T>], at: Range<usize>, channels: usize, block: &mut [T]) {
        let (symbols, first) = (self.symbols, at.start / channels);
        let present = sets.iter().enumerate().filter(|(_, set)| !set.is_empty());
        let present: Vec<(usize, &[T])> = present.map(|(i, set)| (i, &set[at.clone()])).collect();
        match &present[..] {
            [(_, only)] => forward(self.weight, channels, only, block),
            several => {
                let together = several.iter().flat_map(|(_, set)| set.iter().copied());
                forward(self.weight, channels, &together.collect::<Vec<T>>(), block);
            }
        }
        let rows = at.len() / channels;
        block
            .par_chunks_mut(symbols)
            .enumerate()
            .for_each(|(i, row)| {
                let value = present[i / rows].0 != TANGENT;
                if value {
                    let bias = &self.bias[self.place(first + i % rows)..];
                    row.iter_mut().zip(bias).for_each(|(l, b)| *l += *b);
                }
                if let Some(mask) = self.mask {
                    row[mask] = T::of(if value { NEVER } else { 0.0 });
                }
            });
    }
}

/// Large arrays that were used and can be used again. A fresh one costs more than what is done
/// with it: the system hands it out page by page, each cleared at its first touch.
#[derive(Debug, Default)]
pub struct Pool<T>(Mutex<Vec<Vec<T>>>);

impl<T: Real> Pool<T> {
    /// `n` entries, whatever they are.
    pub fn take(&self, n: usize) -> Vec<T> {
        // A poisoned pool holds nothing worth keeping.
        let kept = self.0.lock().map_or_else(|_| None, |mut kept| kept.pop());
        let mut array = kept.unwrap_or_default();
        if array.len() < n {
            drop(std::mem::take(&mut array));
            array = vec![T::of(0.0); n];
        }
        array
    }

    /// Takes an array back.
    pub fn give(&self, array: Vec<T>) {
        if let Ok(mut kept) = self.0.lock() {
            kept.push(array);
        }
    }
}

impl<T> Clone for Pool<T> {
    /// Nothing is worth copying.
    fn clone(&self) -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

/// The rows of a block, or as many empty ones.
fn each_row<T: Real>(
    block: &mut [T],
    symbols: usize,
    rows: usize,
) -> impl IndexedParallelIterator<Item = &mut [T]> {
    let width = if block.is_empty() { 0 } else { symbols };
    let mut rest = block;
    let rows: Vec<&mut [T]> = (0..rows)
        .map(|_| {
            let (row, after) = std::mem::take(&mut rest).split_at_mut(width);
            rest = after;
            row
        })
        .collect();
    rows.into_par_iter()
}
