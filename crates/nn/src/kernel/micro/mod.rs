//! The innermost loops of a matrix product, one per instruction set, chosen at run time.
//!
//! A tile of up to `ROWS x COLS` sums stays in registers while the product runs along `k` over some
//! rows on the left, wherever they lie, and a packed panel on the right (see [`super::pack`]). A
//! wide tile of few rows loads least for its sums: 6 x 64 runs at the machine's peak on operands in
//! the second cache, 14 x 32 at nine tenths of it. [`Portable`] is the plain version: it serves f64
//! and machines without the instructions, and the others are tested against it.
//!
//! Every sum runs over `k` in order, whatever the size of the tile, so an entry of a product does
//! not depend on the other rows and columns that are computed with it.

// The one module with raw loads and stores; what makes each of them sound stands beside it.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
pub(super) use avx512::transpose_16;
#[cfg(target_arch = "x86_64")]
pub use {avx2::Avx2, avx512::Avx512};

use super::View;
use crate::Real;

/// Some rows of a left operand: entry `(i, l)` is `data[i row + l step]`.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a, T> {
    /// From the first entry on.
    pub data: &'a [T],
    /// Distance between rows.
    pub row: usize,
    /// Distance along `k`.
    pub step: usize,
}

/// The kernel of one instruction set.
pub trait Micro<T: Real>: Copy + Send + Sync {
    /// Rows of a left panel.
    const ROWS: usize;
    /// Columns of a right panel.
    const COLS: usize;
    /// Whether large products are better done by it than by a library.
    const TUNED: bool;

    /// `c [rows, cols] (+)= a b` for `size = (rows, cols, k)`, at most `ROWS x COLS`, with
    /// `b [k, COLS]` of which the first `cols` columns count, and rows of `c` at distance `stride`.
    ///
    /// # Safety
    /// The `rows x cols` entries of `c` are the caller's to write, and nobody else touches them.
    unsafe fn tile(
        self,
        size: (usize, usize, usize),
        a: Lines<T>,
        b: &[T],
        c: *mut T,
        stride: usize,
        accumulate: bool,
    );

    /// `out[j * out_stride + i] = rows[i * stride + j]` for `i < count`, `j < k`, and zeros for
    /// `count <= i < WIDTH`, where `WIDTH` is the width of a panel and `out_stride = WIDTH`.
    fn transpose<const WIDTH: usize>(
        self,
        rows: &[T],
        stride: usize,
        (count, k): (usize, usize),
        out: &mut [T],
    ) {
        transpose_plain::<T, WIDTH>(rows, stride, (count, 0..k), out);
    }

    /// What large products are left to, if the machine has more than this kernel.
    fn large(&self) -> Option<&dyn Large<T>> {
        None
    }
}

/// Large products by other means than tiles of a [`Micro`].
pub trait Large<T>: Sync {
    /// Numbers that a packed right operand `[k, n]` takes.
    fn packed_len(&self, k: usize, n: usize) -> usize;

    /// Packs a right operand.
    fn pack(&self, b: View<T>, panels: &mut [T], threads: bool);

    /// `c (+)= a b`, of sizes above zero, with `b` packed before or not.
    fn multiply(
        &self,
        operands: (View<T>, View<T>, Option<&[T]>),
        c: &mut [T],
        accumulate: bool,
        threads: bool,
    );
}

fn transpose_plain<T: Real, const WIDTH: usize>(
    rows: &[T],
    stride: usize,
    (count, range): (usize, std::ops::Range<usize>),
    out: &mut [T],
) {
    for j in range {
        let out = &mut out[j * WIDTH..][..WIDTH];
        for (i, o) in out.iter_mut().enumerate() {
            *o = if i < count {
                rows[i * stride + j]
            } else {
                T::of(0.0)
            };
        }
    }
}

/// Panics unless a tile is of a size that exists and lies inside its operands.
fn check<T>(
    (rows, cols, k): (usize, usize, usize),
    (most, widest): (usize, usize),
    a: Lines<T>,
    b: &[T],
) {
    assert!(0 < rows && rows <= most && 0 < cols && cols <= widest && 0 < k);
    assert!(a.data.len() > (rows - 1) * a.row + (k - 1) * a.step);
    assert!(b.len() >= k * widest);
}

/// Plain Rust on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl<T: Real> Micro<T> for Portable {
    const ROWS: usize = 4;
    const COLS: usize = 16;
    const TUNED: bool = false;

    #[inline(always)]
    unsafe fn tile(
        self,
        (rows, cols, k): (usize, usize, usize),
        a: Lines<T>,
        b: &[T],
        c: *mut T,
        stride: usize,
        accumulate: bool,
    ) {
        check((rows, cols, k), (4, 16), a, b);
        let mut sums = [[T::of(0.0); 16]; 4];
        for (l, b) in b.chunks_exact(16).take(k).enumerate() {
            for (i, sums) in sums.iter_mut().enumerate().take(rows) {
                let a = a.data[i * a.row + l * a.step];
                for (s, &b) in sums.iter_mut().zip(b) {
                    *s += a * b;
                }
            }
        }
        // SAFETY: as the caller promises.
        unsafe { store(sums.as_flattened(), (rows, cols, 16), c, stride, accumulate) };
    }
}

/// Moves the first `rows x cols` sums of a tile of `width` columns to `c`.
///
/// # Safety
/// As of [`Micro::tile`].
unsafe fn store<T: Real>(
    sums: &[T],
    (rows, cols, width): (usize, usize, usize),
    c: *mut T,
    stride: usize,
    accumulate: bool,
) {
    for (i, sums) in sums.chunks_exact(width).enumerate().take(rows) {
        for (j, &s) in sums.iter().enumerate().take(cols) {
            // SAFETY: an entry of the tile.
            unsafe {
                let c = c.add(i * stride + j);
                *c = if accumulate { *c + s } else { s };
            }
        }
    }
}

/// Transposes in squares of `SIDE`: `block(rows, count, out, keep)` turns the `SIDE` columns of
/// `count` rows from `rows` on, at distance `stride`, into `SIDE` lines of `keep` numbers from
/// `out` on, at distance `WIDTH`; both lie inside the slices.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose_by<const SIDE: usize, const WIDTH: usize>(
    rows: &[f32],
    stride: usize,
    (count, k): (usize, usize),
    out: &mut [f32],
    block: impl Fn(*const f32, usize, *mut f32, usize),
) {
    assert!(count <= WIDTH && out.len() >= k * WIDTH);
    assert!(count == 0 || k == 0 || rows.len() >= (count - 1) * stride + k);
    let whole = k / SIDE * SIDE;
    for j in (0..whole).step_by(SIDE) {
        for i in (0..WIDTH).step_by(SIDE) {
            // Row i + here - 1 < count, columns j .. j + SIDE <= k: inside `rows`. Lines end at
            // (j + SIDE - 1) WIDTH + i + keep <= k WIDTH: inside `out`.
            let here = count.saturating_sub(i).min(SIDE);
            let keep = (WIDTH - i).min(SIDE);
            let from = if here == 0 { 0 } else { i * stride + j };
            let rows = rows[from..].as_ptr();
            block(rows, here, out[j * WIDTH + i..].as_mut_ptr(), keep);
        }
    }
    transpose_plain::<f32, WIDTH>(rows, stride, (count, whole..k), out);
}
