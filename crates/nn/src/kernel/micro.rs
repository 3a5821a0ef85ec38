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

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Lines, Micro, check, store, transpose_plain};

    /// A tile of 6 x 64 sums in 24 of 32 registers of 16 numbers.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx512(());

    impl Avx512 {
        /// The kernel, if this machine has the instructions.
        pub fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx512f")).then_some(Self(()))
        }
    }

    /// A tile of `VECTORS` registers a row, of whose last the entries of `mask` count.
    ///
    /// # Safety
    /// The lengths of [`check`], and a machine with AVX-512.
    #[target_feature(enable = "avx512f")]
    unsafe fn tile_512<const ROWS: usize, const VECTORS: usize>(
        k: usize,
        (mut a, row, step): (*const f32, usize, usize),
        mut b: *const f32,
        (c, stride, mask): (*mut f32, usize, __mmask16),
        accumulate: bool,
    ) {
        let mask = |j: usize| if j + 1 == VECTORS { mask } else { !0 };
        // SAFETY: `a` moves over k entries of each row and `b` over k rows of 64; `c` is read and
        // written inside its rows and the mask. Prefetches reach past the end, and read nothing.
        unsafe {
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    // The sums are added to `c` at the end; it arrives from afar meanwhile.
                    _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(i * stride + 16 * j).cast());
                }
            }
            let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
            for _ in 0..k {
                let mut right = [_mm512_setzero_ps(); VECTORS];
                for (j, right) in right.iter_mut().enumerate() {
                    _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(8 * 64 + 16 * j).cast());
                    *right = _mm512_loadu_ps(b.add(16 * j));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = _mm512_set1_ps(*a.add(i * row));
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = _mm512_fmadd_ps(a, right, *sum);
                    }
                }
                a = a.wrapping_add(step);
                b = b.wrapping_add(64);
            }
            for (i, sums) in sums.iter().enumerate() {
                for (j, &sum) in sums.iter().enumerate() {
                    let c = c.add(i * stride + 16 * j);
                    let sum = if accumulate {
                        _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask(j), c))
                    } else {
                        sum
                    };
                    _mm512_mask_storeu_ps(c, mask(j), sum);
                }
            }
        }
    }

    /// Transposes in squares of `SIDE`: `block(rows, count, out, keep)` turns the `SIDE` columns of
    /// `count` rows from `rows` on, at distance `stride`, into `SIDE` lines of `keep` numbers from
    /// `out` on, at distance `WIDTH`; both lie inside the slices.
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

    /// Turns 16 rows of 16 numbers into columns, in registers.
    #[target_feature(enable = "avx512f")]
    fn transpose_16(r: [__m512; 16]) -> [__m512; 16] {
        let mut t = r;
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        let mut u = t;
        for i in 0..4 {
            let pair = |a: __m512, b: __m512| (_mm512_castps_pd(a), _mm512_castps_pd(b));
            for j in 0..2 {
                let (x, y) = pair(t[4 * i + j], t[4 * i + 2 + j]);
                u[4 * i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
                u[4 * i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
            }
        }
        // u[4 i + j] holds, in its four quarters, column 4 q + j of rows 4 i .. 4 i + 4.
        let mut out = r;
        for j in 0..4 {
            let low = _mm512_shuffle_f32x4::<0x88>(u[j], u[4 + j]);
            let high = _mm512_shuffle_f32x4::<0xdd>(u[j], u[4 + j]);
            let low2 = _mm512_shuffle_f32x4::<0x88>(u[8 + j], u[12 + j]);
            let high2 = _mm512_shuffle_f32x4::<0xdd>(u[8 + j], u[12 + j]);
            out[j] = _mm512_shuffle_f32x4::<0x88>(low, low2);
            out[4 + j] = _mm512_shuffle_f32x4::<0x88>(high, high2);
            out[8 + j] = _mm512_shuffle_f32x4::<0xdd>(low, low2);
            out[12 + j] = _mm512_shuffle_f32x4::<0xdd>(high, high2);
        }
        out
    }

    /// # Safety
    /// `rows` holds `count` rows of 16 at distance `stride`; each of the 16 stores of `keep`
    /// numbers at distance `width` from `out` is inside it. A machine with AVX-512.
    #[target_feature(enable = "avx512f")]
    unsafe fn transpose_block_16(
        rows: *const f32,
        stride: usize,
        count: usize,
        out: *mut f32,
        (width, keep): (usize, usize),
    ) {
        let mut r = [_mm512_setzero_ps(); 16];
        let mask = ((1u32 << keep) - 1) as __mmask16;
        // SAFETY: as the caller promises.
        unsafe {
            for (i, r) in r.iter_mut().enumerate().take(count) {
                *r = _mm512_loadu_ps(rows.add(i * stride));
            }
            for (j, column) in transpose_16(r).into_iter().enumerate() {
                _mm512_mask_storeu_ps(out.add(j * width), mask, column);
            }
        }
    }

    impl Micro<f32> for Avx512 {
        const ROWS: usize = 6;
        const COLS: usize = 64;
        const TUNED: bool = true;

        #[inline]
        unsafe fn tile(
            self,
            (rows, cols, k): (usize, usize, usize),
            a: Lines<f32>,
            b: &[f32],
            c: *mut f32,
            stride: usize,
            accumulate: bool,
        ) {
            check((rows, cols, k), (6, 64), a, b);
            let mask = !0 >> ((16 - cols % 16) % 16);
            let a = (a.data.as_ptr(), a.row, a.step);
            let (b, c) = (b.as_ptr(), (c, stride, mask));
            macro_rules! by_size {
                ($($rows:literal)*) => {
                    match (rows, cols.div_ceil(16)) {
                        // SAFETY: checked above; `self` exists only where AVX-512 does.
                        $(
                            ($rows, 1) => unsafe { tile_512::<$rows, 1>(k, a, b, c, accumulate) },
                            ($rows, 2) => unsafe { tile_512::<$rows, 2>(k, a, b, c, accumulate) },
                            ($rows, 3) => unsafe { tile_512::<$rows, 3>(k, a, b, c, accumulate) },
                            ($rows, 4) => unsafe { tile_512::<$rows, 4>(k, a, b, c, accumulate) },
                        )*
                        _ => unreachable!("a tile has 1 to 6 rows and 1 to 64 columns"),
                    }
                };
            }
            by_size!(1 2 3 4 5 6);
        }

        fn transpose<const WIDTH: usize>(
            self,
            rows: &[f32],
            stride: usize,
            size: (usize, usize),
            out: &mut [f32],
        ) {
            transpose_by::<16, WIDTH>(rows, stride, size, out, |rows, count, out, keep| {
                // SAFETY: as `transpose_by` promises; `self` exists only where AVX-512 does.
                unsafe { transpose_block_16(rows, stride, count, out, (WIDTH, keep)) };
            });
        }
    }

    /// A tile of 6 x 16 sums in 12 of 16 registers of 8 numbers.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx2(());

    impl Avx2 {
        /// The kernel, if this machine has the instructions.
        pub fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"))
                .then_some(Self(()))
        }
    }

    /// # Safety
    /// The lengths of [`check`], and a machine with AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile_256<const ROWS: usize>(
        k: usize,
        (mut a, row, step): (*const f32, usize, usize),
        mut b: *const f32,
        (c, stride): (*mut f32, usize),
        accumulate: bool,
    ) {
        // SAFETY: `a` moves over k entries of each row, `b` over k rows of 16; rows of `c` hold 16.
        // Prefetches reach past the end, and read nothing.
        unsafe {
            for i in 0..ROWS {
                _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(i * stride).cast());
            }
            let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
            let mut add = |a: *const f32, b: *const f32| {
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(16 * 16).cast());
                let (b0, b1) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8)));
                for (i, sum) in sums.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(*a.add(i * row));
                    sum[0] = _mm256_fmadd_ps(a, b0, sum[0]);
                    sum[1] = _mm256_fmadd_ps(a, b1, sum[1]);
                }
            };
            // Four at a time: the loop itself would else cost a tenth of a short one.
            for _ in 0..k / 4 {
                for u in 0..4 {
                    add(a.wrapping_add(u * step), b.wrapping_add(16 * u));
                }
                a = a.wrapping_add(4 * step);
                b = b.wrapping_add(4 * 16);
            }
            for _ in 0..k % 4 {
                add(a, b);
                a = a.wrapping_add(step);
                b = b.wrapping_add(16);
            }
            for (i, sum) in sums.iter().enumerate() {
                let c = c.add(i * stride);
                let (mut c0, mut c1) = (sum[0], sum[1]);
                if accumulate {
                    c0 = _mm256_add_ps(c0, _mm256_loadu_ps(c));
                    c1 = _mm256_add_ps(c1, _mm256_loadu_ps(c.add(8)));
                }
                _mm256_storeu_ps(c, c0);
                _mm256_storeu_ps(c.add(8), c1);
            }
        }
    }

    /// Turns 8 rows of 8 numbers into columns, in registers.
    #[target_feature(enable = "avx2")]
    fn transpose_8(r: [__m256; 8]) -> [__m256; 8] {
        let mut t = r;
        for i in 0..4 {
            t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        let mut u = t;
        for i in 0..2 {
            for j in 0..2 {
                let (x, y) = (t[4 * i + j], t[4 * i + 2 + j]);
                u[4 * i + 2 * j] = _mm256_shuffle_ps::<0x44>(x, y);
                u[4 * i + 2 * j + 1] = _mm256_shuffle_ps::<0xee>(x, y);
            }
        }
        // u[4 i + j] holds, in its two halves, column 4 q + j of rows 4 i .. 4 i + 4.
        let mut out = r;
        for j in 0..4 {
            out[j] = _mm256_permute2f128_ps::<0x20>(u[j], u[4 + j]);
            out[4 + j] = _mm256_permute2f128_ps::<0x31>(u[j], u[4 + j]);
        }
        out
    }

    /// # Safety
    /// `rows` holds `count` rows of 8 at distance `stride`; each of the 8 stores of `keep` numbers
    /// at distance `width` from `out` is inside it. A machine with AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn transpose_block_8(
        rows: *const f32,
        stride: usize,
        count: usize,
        out: *mut f32,
        (width, keep): (usize, usize),
    ) {
        let mut r = [_mm256_setzero_ps(); 8];
        // SAFETY: as the caller promises.
        unsafe {
            for (i, r) in r.iter_mut().enumerate().take(count) {
                *r = _mm256_loadu_ps(rows.add(i * stride));
            }
            let columns = transpose_8(r).into_iter().enumerate();
            if keep == 8 {
                for (j, column) in columns {
                    _mm256_storeu_ps(out.add(j * width), column);
                }
                return;
            }
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(keep as i32), lanes);
            for (j, column) in columns {
                _mm256_maskstore_ps(out.add(j * width), mask, column);
            }
        }
    }

    impl Micro<f32> for Avx2 {
        const ROWS: usize = 6;
        const COLS: usize = 16;
        const TUNED: bool = true;

        #[inline]
        unsafe fn tile(
            self,
            (rows, cols, k): (usize, usize, usize),
            a: Lines<f32>,
            b: &[f32],
            c: *mut f32,
            stride: usize,
            accumulate: bool,
        ) {
            check((rows, cols, k), (6, 16), a, b);
            if cols < 16 {
                // A row of the tile is wider than what is left of `c`.
                let mut sums = [0.0; 6 * 16];
                // SAFETY: the sums have six rows of 16; `c` is as the caller promises.
                unsafe {
                    self.tile((rows, 16, k), a, b, sums.as_mut_ptr(), 16, false);
                    store(&sums, (rows, cols, 16), c, stride, accumulate);
                }
                return;
            }
            let a = (a.data.as_ptr(), a.row, a.step);
            let (b, c) = (b.as_ptr(), (c, stride));
            macro_rules! by_rows {
                ($($n:literal)*) => {
                    match rows {
                        // SAFETY: checked above; `self` exists only where AVX2 and FMA do.
                        $($n => unsafe { tile_256::<$n>(k, a, b, c, accumulate) },)*
                        _ => unreachable!("a tile has 1 to 6 rows"),
                    }
                };
            }
            by_rows!(1 2 3 4 5 6);
        }

        fn transpose<const WIDTH: usize>(
            self,
            rows: &[f32],
            stride: usize,
            size: (usize, usize),
            out: &mut [f32],
        ) {
            transpose_by::<8, WIDTH>(rows, stride, size, out, |rows, count, out, keep| {
                // SAFETY: as `transpose_by` promises; `self` exists only where AVX2 does.
                unsafe { transpose_block_8(rows, stride, count, out, (WIDTH, keep)) };
            });
        }
    }
}
