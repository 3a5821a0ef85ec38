//! Matrix products: large ones by the `gemm` crate over all threads, small ones on packed panels.
//!
//! In a large product every entry of the result is summed over the same blocks of `k` in the same
//! order whoever computes it, so it does not depend on the number of threads, bit for bit; a test
//! holds the crate to that.

use std::cell::Cell;

use super::{Micro, View};
use crate::Real;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with [`matmul`] on this thread alone if `alone`: for callers that have a task for every
/// thread. The results are the same.
pub fn alone<R>(alone: bool, f: impl FnOnce() -> R) -> R {
    let before = ALONE.replace(alone);
    let result = f();
    ALONE.set(before);
    result
}

/// `c [m, n] = a [m, k] b [k, n]` over all threads, added to `c` if `accumulate`.
pub fn matmul<T: Real>(a: View<T>, b: View<T>, c: &mut [T], accumulate: bool) {
    let parallelism = if ALONE.get() {
        gemm::Parallelism::None
    } else {
        gemm::Parallelism::Rayon(0)
    };
    product(a, b, c, accumulate, parallelism);
}

/// As [`matmul`], on this thread alone: for callers that split the work themselves.
pub fn matmul_here<T: Real>(a: View<T>, b: View<T>, c: &mut [T], accumulate: bool) {
    product(a, b, c, accumulate, gemm::Parallelism::None);
}

fn product<T: Real>(
    a: View<T>,
    b: View<T>,
    c: &mut [T],
    accumulate: bool,
    parallelism: gemm::Parallelism,
) {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    assert_eq!(k, b.rows(), "inner sizes of a product");
    assert_eq!(c.len(), m * n, "a result of {m} x {n}");
    if k == 0 && !accumulate {
        c.fill(T::of(0.0));
    }
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let (a_row, a_col) = a.strides();
    let (b_row, b_col) = b.strides();
    // SAFETY: a view's constructors check that all its entries lie inside its data, `c` has the
    // length asserted above and is borrowed exclusively.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            accumulate,
            a.data().as_ptr(),
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
            parallelism,
        );
    }
}

/// `c [m, n] (+)= a b` on packed operands, on this thread. `a` has `m.div_ceil(ROWS)` panels, `b`
/// `n.div_ceil(COLS)`.
pub fn multiply<T: Real, M: Micro<T>>(
    micro: M,
    (m, n, k): (usize, usize, usize),
    a: &[T],
    b: &[T],
    c: &mut [T],
    stride: usize,
    accumulate: bool,
) {
    for (i, a) in a.chunks_exact(M::ROWS * k).enumerate() {
        let row = i * M::ROWS;
        let rows = M::ROWS.min(m - row);
        for (j, b) in b.chunks_exact(M::COLS * k).enumerate() {
            let column = j * M::COLS;
            let width = M::COLS.min(n - column);
            let c = &mut c[row * stride + column..];
            if width == M::COLS {
                micro.tile((rows, k), a, b, c, stride, accumulate);
            } else {
                // The tile is wider than what is left of the rows.
                let mut tile = [T::of(0.0); 14 * 32];
                micro.tile((rows, k), a, b, &mut tile, M::COLS, false);
                for (i, tile) in tile.chunks_exact(M::COLS).enumerate().take(rows) {
                    for (c, &v) in c[i * stride..][..width].iter_mut().zip(tile) {
                        *c = if accumulate { *c + v } else { v };
                    }
                }
            }
        }
    }
}

/// The first `size` entries of `buffer` that start at a cache line, so that no load of a panel
/// crosses one.
pub fn aligned<T: Real>(buffer: &mut Vec<T>, size: usize) -> &mut [T] {
    const LINE: usize = 64;
    if buffer.len() < size + LINE {
        // Not `resize`: what was in it is not worth a copy.
        *buffer = vec![T::of(0.0); size + LINE];
    }
    let start = buffer.as_ptr().align_offset(LINE).min(LINE);
    &mut buffer[start..start + size]
}

/// A buffer that a thread keeps between products.
pub type Buffer<T> = Cell<Vec<T>>;
