//! The matrices of a block: as right operands for either way through it, and, on the way back, the
//! pieces in which their gradients are summed.

use std::ops::Range;

use super::{Block, pipeline::MATRICES};
use crate::{
    Real,
    kernel::{Right, View},
};

/// Which way a block is gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From its input to its output, by `W^T`.
    There,
    /// From the gradient in its output to that in its input, by `W`.
    Back,
}

/// A block's matrices as right operands, for the way it is gone through.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<'a, T> {
    pub(super) qkv: Right<'a, T>,
    pub(super) out: Right<'a, T>,
    pub(super) up: Right<'a, T>,
    pub(super) down: Right<'a, T>,
}

/// The parameters of a block's matrices, and their inner sizes.
fn matrices(block: &Block, channels: usize) -> [(&Range<usize>, usize); MATRICES] {
    [
        (&block.qkv, channels),
        (&block.out, channels),
        (&block.up.weight, channels),
        (&block.down.weight, 4 * channels),
    ]
}

impl<'a, T: Real> Matrices<'a, T> {
    fn view(
        (parameters, block, channels): (&'a [T], &Block, usize),
        way: Way,
        which: usize,
    ) -> View<'a, T> {
        let (range, inner) = matrices(block, channels)[which];
        let view = View::new(&parameters[range.clone()], range.len() / inner, inner);
        match way {
            Way::There => view.t(),
            Way::Back => view,
        }
    }

    /// Packs one of them into `room`, for passes that share it.
    pub fn pack(about: (&[T], &Block, usize), way: Way, which: usize, room: &mut Vec<T>) {
        Right::pack(Matrices::view(about, way, which), room);
    }

    /// Of a block with so many `channels`; as they were packed, if they were.
    pub fn new(
        about: (&'a [T], &Block, usize),
        way: Way,
        packed: Option<[&'a [T]; MATRICES]>,
    ) -> Self {
        let [qkv, out, up, down] = std::array::from_fn(|i| {
            let view = Self::view(about, way, i);
            packed.map_or(view.into(), |all| Right::packed(view, all[i]))
        });
        Self { qkv, out, up, down }
    }
}

/// Rows of a matrix whose gradient one thread sums.
const PIECE: usize = 256;

/// A piece of the gradient of a block's matrices.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(super) matrix: usize,
    pub(super) rows: Range<usize>,
    pub(super) inner: usize,
    /// Its place among the parameters.
    pub range: Range<usize>,
}

impl Piece {
    /// Those of a block, the largest first; whole matrices if they are not to be divided.
    pub fn all(block: &Block, channels: usize, divided: bool) -> Vec<Self> {
        let all = matrices(block, channels);
        let piece = |matrix: usize, first: usize, step: usize| {
            let (range, inner) = all[matrix];
            let rows = first..(first + step).min(range.len() / inner);
            let start = |row: usize| range.start + row * inner;
            Self {
                matrix,
                inner,
                range: start(rows.start)..start(rows.end),
                rows,
            }
        };
        let pieces = [3, 2, 0, 1].into_iter().flat_map(|matrix| {
            let (range, inner) = all[matrix];
            let outer = range.len() / inner;
            let step = if divided { PIECE } else { outer };
            (0..outer)
                .step_by(step)
                .map(move |first| piece(matrix, first, step))
        });
        pieces.collect()
    }
}
