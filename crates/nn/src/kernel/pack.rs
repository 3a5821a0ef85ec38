//! Panels: the order in which the innermost loop wants to read its operands.
//!
//! A left operand `[m, k]` becomes panels of `ROWS` rows, each stored as `[k, ROWS]`; a right
//! operand `[k, n]` becomes panels of `COLS` columns, each stored as `[k, COLS]`. The last panel is
//! filled up with zeros. Packing is a copy or a transposition, whichever way the operand lies.

use crate::{Real, kernel::Micro};

/// A matrix in memory: entry `(i, j)` is `data[i row_stride + j col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a, T: Real> View<'a, T> {
    /// A row-major matrix without gaps.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "a matrix of {rows} x {cols}");
        Self::strided(data, (rows, cols), cols)
    }

    /// A row-major matrix whose rows are `stride` apart.
    pub fn strided(data: &'a [T], (rows, cols): (usize, usize), stride: usize) -> Self {
        assert!(rows * cols == 0 || data.len() >= (rows - 1) * stride + cols);
        Self {
            data,
            rows,
            cols,
            row_stride: stride,
            col_stride: 1,
        }
    }

    /// The transposed matrix.
    pub fn t(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The entries, from the first on.
    pub(super) fn data(&self) -> &'a [T] {
        self.data
    }

    /// Distances between rows and between columns.
    pub(super) fn strides(&self) -> (isize, isize) {
        (self.row_stride as isize, self.col_stride as isize)
    }

    /// The part of `rows x cols` entries from entry `(row, col)` on.
    pub fn part(&self, (row, col): (usize, usize), (rows, cols): (usize, usize)) -> Self {
        assert!(row + rows <= self.rows && col + cols <= self.cols);
        let start = row * self.row_stride + col * self.col_stride;
        Self {
            data: if rows * cols == 0 {
                &[]
            } else {
                &self.data[start..]
            },
            rows,
            cols,
            ..*self
        }
    }
}

/// Length of a left operand's panels.
pub fn lhs_len<T: Real, M: Micro<T>>(m: usize, k: usize) -> usize {
    m.div_ceil(M::ROWS) * M::ROWS * k
}

/// Length of a right operand's panels.
pub fn rhs_len<T: Real, M: Micro<T>>(k: usize, n: usize) -> usize {
    n.div_ceil(M::COLS) * M::COLS * k
}

/// Rows of memory that a left operand given by its columns is packed from at a time.
const LINES: usize = 16;

/// Packs `a [m, k]` as a left operand. Given by its columns, it goes a few rows of memory at a time
/// through all panels: a panel takes only a part of every cache line it reads, and all rows of a
/// wide matrix would not stay in the cache until its neighbour wants the rest.
pub fn lhs<T: Real, M: Micro<T>>(micro: M, a: View<T>, out: &mut [T]) {
    let (m, k) = (a.rows, a.cols);
    let step = if a.col_stride == 1 { k } else { LINES };
    for first in (0..k).step_by(step.max(1)) {
        let here = step.min(k - first);
        let panels = out[..lhs_len::<T, M>(m, k)].chunks_exact_mut(M::ROWS * k);
        for (i, panel) in panels.enumerate() {
            let count = M::ROWS.min(m - i * M::ROWS);
            let part = a.part((i * M::ROWS, first), (count, here));
            let panel = &mut panel[first * M::ROWS..][..here * M::ROWS];
            panel_of(micro, part, M::ROWS, panel);
        }
    }
}

/// Packs `b [k, n]` as a right operand.
pub fn rhs<T: Real, M: Micro<T>>(micro: M, b: View<T>, out: &mut [T]) {
    for (j, panel) in out[..rhs_len::<T, M>(b.rows, b.cols)]
        .chunks_exact_mut((M::COLS * b.rows).max(1))
        .enumerate()
    {
        rhs_panel(micro, b, j, panel);
    }
}

/// Packs panel `j` of the right operand `b [k, n]`.
pub fn rhs_panel<T: Real, M: Micro<T>>(micro: M, b: View<T>, j: usize, panel: &mut [T]) {
    let first = j * M::COLS;
    let count = M::COLS.min(b.cols - first);
    let part = b.part((0, first), (b.rows, count));
    panel_of(micro, part.t(), M::COLS, panel);
}

/// One panel `[k, width]` of the lines of `a [count, k]`.
fn panel_of<T: Real, M: Micro<T>>(micro: M, a: View<T>, width: usize, panel: &mut [T]) {
    match width {
        4 => panel_as::<T, M, 4>(micro, a, panel),
        6 => panel_as::<T, M, 6>(micro, a, panel),
        16 => panel_as::<T, M, 16>(micro, a, panel),
        64 => panel_as::<T, M, 64>(micro, a, panel),
        _ => unreachable!("no kernel has panels of {width}"),
    }
}

fn panel_as<T: Real, M: Micro<T>, const WIDTH: usize>(micro: M, a: View<T>, panel: &mut [T]) {
    let (count, k) = (a.rows, a.cols);
    if a.col_stride == 1 {
        micro.transpose::<WIDTH>(a.data, a.row_stride, (count, k), panel);
        return;
    }
    let (lines, _) = panel.as_chunks_mut::<WIDTH>();
    if a.row_stride == 1 {
        // A copy of known length is a few moves; of unknown length, a call. What it takes too much is no part of
        // the panel.
        for (j, out) in lines.iter_mut().enumerate() {
            let line = &a.data[j * a.col_stride..];
            match line.first_chunk() {
                Some(line) => *out = *line,
                None => out[..count].copy_from_slice(&line[..count]),
            }
            out[count..].fill(T::of(0.0));
        }
        return;
    }
    for (j, out) in lines.iter_mut().enumerate() {
        let line = &a.data[j * a.col_stride..];
        for (i, o) in out.iter_mut().enumerate() {
            *o = if i < count {
                line[i * a.row_stride]
            } else {
                T::of(0.0)
            };
        }
    }
}
