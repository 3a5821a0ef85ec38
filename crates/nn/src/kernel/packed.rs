//! A right operand packed once for many products.
//!
//! A product packs its right operand as it goes, which costs about as much as the product with
//! twenty rows. Where the same weights meet many small left operands, one after the other, they are
//! packed ahead. The panels are those that the product would make, so results are the same bits.

use super::{Micro, Task, View, matmul, pack};
use crate::Real;

/// The panels of a right operand; none where a library multiplies, which has its own way.
#[derive(Clone, Debug, Default)]
pub struct Packed<T> {
    buffer: Vec<T>,
    /// Where the panels are in the buffer, at the start of a cache line.
    start: usize,
    len: usize,
}

impl<T: Real> Packed<T> {
    /// Packs `b`, in the memory of what was packed before.
    pub fn pack(&mut self, b: View<T>) {
        T::dispatch(Pack { b, into: self });
    }

    /// The panels, if there are any.
    pub(super) fn panels(&self) -> Option<&[T]> {
        (self.len > 0).then(|| &self.buffer[self.start..self.start + self.len])
    }
}

struct Pack<'a, T> {
    b: View<'a, T>,
    into: &'a mut Packed<T>,
}

impl<T: Real> Task<T> for Pack<'_, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        let Pack { b, into } = self;
        (into.start, into.len) = (0, 0);
        let (k, n) = (b.rows(), b.cols());
        if !M::TUNED || k * n == 0 {
            return;
        }
        let len = pack::rhs_len::<T, M>(k, n);
        let before = {
            let panels = matmul::aligned(&mut into.buffer, len);
            let depth = matmul::depth_of(k);
            for (group, panels) in panels.chunks_mut(matmul::GROUP * k).enumerate() {
                let column = group * matmul::GROUP;
                let width = matmul::GROUP.min(n - column);
                for first in (0..k).step_by(depth) {
                    let here = depth.min(k - first);
                    let at = matmul::place::<T, M>(width, first, here);
                    let part = b.part((first, column), (here, width));
                    pack::rhs(micro, part, &mut panels[at]);
                }
            }
            panels.as_ptr()
        };
        into.start = (before as usize - into.buffer.as_ptr() as usize) / size_of::<T>();
        into.len = len;
    }
}
