//! The trunk's matrices packed ahead, for evaluations of many small parts.
//!
//! Each part of an evaluation multiplies by every matrix of the trunk. With few rows in a part,
//! packing a matrix anew for each takes a tenth of the time; so it is done once, at the first
//! evaluation after the parameters changed, and kept for the following ones.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Block, Layout, linear::turned};
use crate::{
    Real,
    kernel::{Packed, View},
};

/// Matrices of a block: qkv, out, up, down.
const MATRICES: usize = 4;
/// Rows of a part up to which its matrices are packed ahead: with more, the memory is worth more
/// than the time.
const FEW: usize = 512;

/// Panels of all matrices, for one direction or both.
#[derive(Debug, Default)]
pub struct Ahead<T> {
    forward: OnceLock<Vec<Packed<T>>>,
    backward: OnceLock<Vec<Packed<T>>>,
    /// Memory of former panels.
    spare: Mutex<[Vec<Packed<T>>; 2]>,
}

/// A copy packs for itself.
impl<T> Clone for Ahead<T> {
    fn clone(&self) -> Self {
        Self {
            forward: OnceLock::new(),
            backward: OnceLock::new(),
            spare: Mutex::new([Vec::new(), Vec::new()]),
        }
    }
}

/// Which way through the trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `x W^T`.
    Forward,
    /// `gy W`.
    Backward,
}

impl<T: Real> Ahead<T> {
    /// The panels, in the order of the blocks, for `parts` parts of `rows` rows; nothing if that
    /// would not pay.
    pub fn of(
        &self,
        (layout, parameters): (&Layout, &[T]),
        width: usize,
        (parts, rows): (usize, usize),
        way: Way,
    ) -> &[Packed<T>] {
        if parts < 2 || rows > FEW {
            return &[];
        }
        let cell = match way {
            Way::Forward => &self.forward,
            Way::Backward => &self.backward,
        };
        cell.get_or_init(|| {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            let mut panels = std::mem::take(&mut spare[way as usize]);
            drop(spare);
            panels.resize_with(MATRICES * layout.blocks.len(), Packed::default);
            let matrices = layout.blocks.iter().flat_map(|b| matrices(b, width));
            for (packed, (range, inner)) in panels.iter_mut().zip(matrices) {
                let weight = &parameters[range];
                packed.pack(match way {
                    Way::Forward => turned(weight, inner),
                    Way::Backward => View::new(weight, weight.len() / inner, inner),
                });
            }
            panels
        })
    }

    /// The parameters have changed.
    pub fn forget(&mut self) {
        let spare = self.spare.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (cell, spare) in [&mut self.forward, &mut self.backward]
            .into_iter()
            .zip(spare)
        {
            if let Some(panels) = cell.take() {
                *spare = panels;
            }
        }
    }
}

/// The panels of block `i`.
pub fn of_block<T>(all: &[Packed<T>], i: usize) -> &[Packed<T>] {
    all.get(i * MATRICES..(i + 1) * MATRICES).unwrap_or(&[])
}

/// The matrices of a block and their inner sizes.
fn matrices(b: &Block, width: usize) -> [(std::ops::Range<usize>, usize); MATRICES] {
    [
        (b.qkv.clone(), width),
        (b.out.clone(), width),
        (b.up.weight.clone(), width),
        (b.down.weight.clone(), 4 * width),
    ]
}
