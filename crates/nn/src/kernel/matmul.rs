//! Matrix products: in f32 on x86 by our own kernels, otherwise by the `gemm` crate.
//!
//! Ours divides the columns of the result among the threads. Each packs a few columns of the right
//! operand, a block of `k` at a time, and uses them while they are in its cache. Left rows are read
//! where they are; a transposed left operand is packed before. Every entry is summed over the same
//! blocks of `k` in the same order, whoever computes it and with how many others: it does not
//! depend, bit for bit, on the number of threads, nor on how many rows a batch has. The crate keeps
//! the first promise and not the second.

// Tasks write columns of one result, which no safe slice can say.
#![allow(unsafe_code)]

use std::cell::Cell;

use rayon::prelude::*;

use super::{Lines, Micro, Task, View, pack};
use crate::Real;

/// Length of a block of `k`: with [`GROUP`], what is packed at a time stays in a core's second cache.
const DEPTH: usize = 768;
/// Columns of the right operand that a task packs and goes over.
const GROUP: usize = 128;
/// Rows below which a result is not divided further.
const LOW: usize = 128;
/// Rows of a transposed left operand that are packed at a time.
const TALL: usize = 4096;
/// Panels of it that a thread packs together.
const SIDE_BY_SIDE: usize = 16;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with [`matmul`] and all layers on this thread alone if `alone`: for callers that have a
/// task for every thread. The results are the same.
pub fn alone<R>(alone: bool, f: impl FnOnce() -> R) -> R {
    let before = ALONE.replace(alone);
    let result = f();
    ALONE.set(before);
    result
}

/// The least number of pieces of a parallel loop that stay on one thread (`with_min_len`): all of
/// them, if it works [`alone`].
pub fn least() -> usize {
    if ALONE.get() { usize::MAX } else { 1 }
}

/// `c [m, n] = a [m, k] b [k, n]` over all threads, added to `c` if `accumulate`.
pub fn matmul<'a, T: Real>(a: View<T>, b: impl Into<Right<'a, T>>, c: &mut [T], accumulate: bool) {
    product(a, b.into(), c, accumulate, !ALONE.get());
}

/// As [`matmul`], on this thread alone: for callers that split the work themselves.
pub fn matmul_here<T: Real>(a: View<T>, b: View<T>, c: &mut [T], accumulate: bool) {
    product(a, b.into(), c, accumulate, false);
}

/// The right operand of a product: a matrix, and its panels if several products share them.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a, T> {
    view: View<'a, T>,
    /// Block by block of `k`, panel by panel.
    panels: Option<&'a [T]>,
}

impl<'a, T: Real> From<View<'a, T>> for Right<'a, T> {
    fn from(view: View<'a, T>) -> Self {
        Self { view, panels: None }
    }
}

impl<'a, T: Real> Right<'a, T> {
    /// Packs `view` into `buffer` for several products, which find it there by
    /// [`packed`](Self::packed). Where a library multiplies, nothing is packed.
    pub fn pack(view: View<T>, buffer: &mut Vec<T>) {
        T::dispatch(Pack { view, buffer });
    }

    /// The matrix that [`pack`](Self::pack) packed into `buffer`.
    pub fn packed(view: View<'a, T>, buffer: &'a [T]) -> Self {
        T::dispatch(Packed { view, buffer })
    }

    /// Length of the inner size.
    pub fn rows(&self) -> usize {
        self.view.rows()
    }

    /// The rows of one block of `k`.
    fn block<M: Micro<T>>(&self, first: usize, here: usize) -> Self {
        let n = self.view.cols();
        let width = n.next_multiple_of(M::COLS);
        Self {
            view: self.view.part((first, 0), (here, n)),
            panels: self.panels.map(|all| &all[first * width..][..here * width]),
        }
    }
}

struct Pack<'a, T> {
    view: View<'a, T>,
    buffer: &'a mut Vec<T>,
}

impl<T: Real> Task<T> for Pack<'_, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        let Self { view, buffer } = self;
        let (n, k) = (view.cols(), view.rows());
        if !M::TUNED || n * k == 0 {
            return;
        }
        if let Some(large) = micro.large() {
            let panels = aligned(buffer, large.packed_len(k, n));
            large.pack(view, panels, !ALONE.get());
            return;
        }
        let (depth, width) = (depth_of(k), n.next_multiple_of(M::COLS));
        let panels = aligned(buffer, k * width);
        for first in (0..k).step_by(depth) {
            let here = depth.min(k - first);
            let block = view.part((first, 0), (here, n));
            let panels = &mut panels[first * width..][..here * width];
            each(panels, M::COLS * here, !ALONE.get(), |j, panel| {
                pack::rhs_panel(micro, block, j, panel);
            });
        }
    }
}

struct Packed<'a, T> {
    view: View<'a, T>,
    buffer: &'a [T],
}

impl<'a, T: Real> Task<T> for Packed<'a, T> {
    type Output = Right<'a, T>;

    fn run<M: Micro<T>>(self, micro: M) -> Right<'a, T> {
        let Self { view, buffer } = self;
        let size = match micro.large() {
            Some(large) => large.packed_len(view.rows(), view.cols()),
            None => view.rows() * view.cols().next_multiple_of(M::COLS),
        };
        let panels = (M::TUNED && size > 0).then(|| &buffer[start_of(buffer)..][..size]);
        Right { view, panels }
    }
}

/// Length of the blocks of `k`, all about the same.
fn depth_of(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH))
}

fn product<T: Real>(a: View<T>, b: Right<T>, c: &mut [T], accumulate: bool, threads: bool) {
    let (m, n, k) = (a.rows(), b.view.cols(), a.cols());
    assert_eq!(k, b.rows(), "inner sizes of a product");
    assert_eq!(c.len(), m * n, "a result of {m} x {n}");
    if k == 0 && !accumulate {
        c.fill(T::of(0.0));
    }
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    T::dispatch(Product {
        a,
        b,
        c,
        accumulate,
        threads,
    });
}

/// `c (+)= a b`, of sizes above zero.
pub(super) struct Product<'a, T> {
    pub(super) a: View<'a, T>,
    pub(super) b: Right<'a, T>,
    pub(super) c: &'a mut [T],
    pub(super) accumulate: bool,
    pub(super) threads: bool,
}

impl<T: Real> Task<T> for Product<'_, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        if let Some(large) = micro.large() {
            let operands = (self.a, self.b.view, self.b.panels);
            large.multiply(operands, self.c, self.accumulate, self.threads);
        } else if M::TUNED {
            self.packed(micro);
        } else {
            self.library();
        }
    }
}

impl<T: Real> Product<'_, T> {
    fn packed<M: Micro<T>>(self, micro: M) {
        let (m, n, k) = (self.a.rows(), self.b.view.cols(), self.a.cols());
        let depth = depth_of(k);
        let c = Shared::new(self.c);
        if let Some(left) = Left::in_place(self.a) {
            // SAFETY: `c` has m rows of n and is borrowed exclusively.
            unsafe {
                columns(
                    micro,
                    (left, m),
                    self.b,
                    depth,
                    c,
                    (self.accumulate, self.threads),
                )
            };
            return;
        }
        let tall = TALL.min(m).next_multiple_of(M::ROWS);
        let mut buffer = T::take();
        let packed = aligned(&mut buffer, tall * depth);
        for first in (0..k).step_by(depth) {
            let here = depth.min(k - first);
            let b = self.b.block::<M>(first, here);
            for top in (0..m).step_by(tall) {
                let rows = tall.min(m - top);
                let a = self.a.part((top, first), (rows, here));
                let packed = &mut packed[..pack::lhs_len::<T, M>(rows, here)];
                let side = SIDE_BY_SIDE * M::ROWS;
                each(packed, side * here, self.threads, |i, panels| {
                    let count = side.min(rows - i * side);
                    pack::lhs(micro, a.part((i * side, 0), (count, here)), panels);
                });
                let left = Left::packed::<M>(packed, here);
                let how = (self.accumulate || first > 0, self.threads);
                // SAFETY: these rows of `c`, which is borrowed exclusively.
                unsafe { columns(micro, (left, rows), b, here, c.at(top * n), how) };
            }
        }
        T::give(buffer);
    }

    fn library(self) {
        let (a_row, a_col) = self.a.strides();
        let b = self.b.view;
        let (b_row, b_col) = b.strides();
        let n = b.cols();
        // SAFETY: a view's constructors check that all its entries lie inside its data, `c` has the
        // length that was asserted and is borrowed exclusively.
        unsafe {
            gemm::gemm(
                self.a.rows(),
                n,
                self.a.cols(),
                self.c.as_mut_ptr(),
                1,
                n as isize,
                self.accumulate,
                self.a.data().as_ptr(),
                a_col,
                a_row,
                b.data().as_ptr(),
                b_col,
                b_row,
                T::of(1.0),
                T::of(1.0),
                false,
                false,
                false,
                if self.threads {
                    gemm::Parallelism::Rayon(0)
                } else {
                    gemm::Parallelism::None
                },
            );
        }
    }
}

/// Calls `f` with every piece of `data` and its number, over all threads or in order.
pub(super) fn each<T: Real>(
    data: &mut [T],
    piece: usize,
    threads: bool,
    f: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    if threads {
        let pieces = data.par_chunks_mut(piece).enumerate();
        pieces.for_each(|(i, piece)| f(i, piece));
    } else {
        let pieces = data.chunks_mut(piece).enumerate();
        pieces.for_each(|(i, piece)| f(i, piece));
    }
}

/// A left operand as the kernel reads it: entry `(i, l)` of the rows from a multiple `r` of `ROWS`
/// on is `data[r along + i row + l step]`.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a, T> {
    lines: Lines<'a, T>,
    along: usize,
}

impl<'a, T: Real> Left<'a, T> {
    /// Rows of `width`, one after the other, read where they are.
    pub fn rows(data: &'a [T], width: usize) -> Self {
        let (row, step) = (width, 1);
        Self {
            lines: Lines { data, row, step },
            along: width,
        }
    }

    /// The rows of `a`, if they can be read where they are.
    fn in_place(a: View<'a, T>) -> Option<Self> {
        (a.strides().1 == 1).then(|| Self::rows(a.data(), a.strides().0 as usize))
    }

    /// Panels of `ROWS` rows.
    pub fn packed<M: Micro<T>>(data: &'a [T], k: usize) -> Self {
        let (row, step) = (1, M::ROWS);
        Self {
            lines: Lines { data, row, step },
            along: k,
        }
    }

    /// From row `r` and from `l` along `k` on.
    fn at(&self, r: usize, l: usize) -> Lines<'a, T> {
        Lines {
            data: &self.lines.data[r * self.along + l * self.lines.step..],
            ..self.lines
        }
    }
}

/// The start of a result that is divided among tasks.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) *mut T);

// SAFETY: every task writes its own rows and columns; see `columns`.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// All of a result.
    pub(super) fn new(c: &mut [T]) -> Self {
        Self(c.as_mut_ptr())
    }

    /// From the entry at distance `i` on.
    pub(super) fn at(self, i: usize) -> Self {
        Self(self.0.wrapping_add(i))
    }
}

/// `c [m, n] (+)= left b`: every task packs a group of columns, unless they are, and runs over rows
/// while the group is near.
///
/// # Safety
/// The `m x n` entries of `c` are the caller's to write, and nobody else touches them.
unsafe fn columns<T: Real, M: Micro<T>>(
    micro: M,
    (left, m): (Left<T>, usize),
    b: Right<T>,
    depth: usize,
    c: Shared<T>,
    (accumulate, threads): (bool, bool),
) {
    let (n, k) = (b.view.cols(), b.rows());
    let groups = n.div_ceil(GROUP);
    // With more threads than groups, rows are divided too, and each part packs for itself.
    let wanted = if threads {
        3 * rayon::current_num_threads()
    } else {
        1
    };
    let parts = wanted.div_ceil(groups).min(m / LOW).max(1);
    let height = m.div_ceil(parts).next_multiple_of(M::ROWS);
    let task = |i: usize| {
        let (column, top) = (i % groups * GROUP, i / groups * height);
        let width = GROUP.min(n - column);
        let mut buffer = T::take();
        for first in (0..k).step_by(depth) {
            let here = depth.min(k - first);
            let size = pack::rhs_len::<T, M>(here, width);
            let panels = match b.block::<M>(first, here).panels {
                Some(all) => &all[column * here..][..size],
                None => {
                    let panels = aligned(&mut buffer, size);
                    let part = b.view.part((first, column), (here, width));
                    pack::rhs(micro, part, panels);
                    &*panels
                }
            };
            let accumulate = accumulate || first > 0;
            for row in (top..m.min(top + height)).step_by(M::ROWS) {
                let lines = left.at(row, first);
                for (j, panel) in panels.chunks_exact(M::COLS * here).enumerate() {
                    let cols = M::COLS.min(width - j * M::COLS);
                    let size = (M::ROWS.min(m - row), cols, here);
                    let c = c.at(row * n + column + j * M::COLS).0;
                    // SAFETY: a group and a part that no other task has.
                    unsafe { micro.tile(size, lines, panel, c, n, accumulate) };
                }
            }
        }
        T::give(buffer);
    };
    let tasks = groups * m.div_ceil(height);
    if threads {
        (0..tasks).into_par_iter().with_max_len(1).for_each(task);
    } else {
        (0..tasks).for_each(task);
    }
}

/// `c [m, n] (+)= left b` on this thread, with `n.div_ceil(COLS)` packed panels of `b`.
pub fn multiply<T: Real, M: Micro<T>>(
    micro: M,
    (m, n, k): (usize, usize, usize),
    left: Left<T>,
    b: &[T],
    c: &mut [T],
    stride: usize,
    accumulate: bool,
) {
    assert!(m * n == 0 || c.len() >= (m - 1) * stride + n);
    for row in (0..m).step_by(M::ROWS) {
        let lines = left.at(row, 0);
        for (j, b) in b.chunks_exact(M::COLS * k).enumerate() {
            let column = j * M::COLS;
            let size = (M::ROWS.min(m - row), M::COLS.min(n - column), k);
            let c = c[row * stride + column..].as_mut_ptr();
            // SAFETY: inside the `m x n` entries of `c`.
            unsafe { micro.tile(size, lines, b, c, stride, accumulate) };
        }
    }
}

/// The first `size` entries of `buffer` that start at a cache line, so that no load of a panel
/// crosses one.
pub fn aligned<T: Real>(buffer: &mut Vec<T>, size: usize) -> &mut [T] {
    if buffer.len() < size + LINE {
        // Not `resize`: what was in it is not worth a copy.
        *buffer = vec![T::of(0.0); size + LINE];
    }
    let start = start_of(buffer);
    &mut buffer[start..start + size]
}

/// The first entry of `buffer` that starts at a cache line.
fn start_of<T>(buffer: &[T]) -> usize {
    buffer.as_ptr().align_offset(LINE).min(LINE)
}

/// Bytes of a cache line, and at least its entries.
const LINE: usize = 64;

/// Buffers that a thread keeps between products.
pub type Buffers<T> = Cell<Vec<Vec<T>>>;
