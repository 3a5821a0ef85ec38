//! The innermost loops of a matrix product, one per instruction set, chosen at run time.
//!
//! A tile of up to `ROWS x COLS` sums stays in registers while the product runs along `k` over two
//! packed panels (see [`super::pack`]). On operands in the nearest cache the AVX-512 loop runs at
//! nine tenths of the machine's peak, and panels can be kept and shared, which attention lives on.
//! [`Portable`] is the plain version: it serves f64 and machines without the instructions, and the
//! others are tested against it.

// The one module with raw loads and stores; what makes each of them sound stands beside it.
#![allow(unsafe_code)]

use crate::Real;

/// The kernel of one instruction set.
pub trait Micro<T: Real>: Copy + Send + Sync {
    /// Rows of a left panel.
    const ROWS: usize;
    /// Columns of a right panel.
    const COLS: usize;

    /// `c [rows, COLS] (+)= a b` for `size = (rows, k)`, with `a [k, ROWS]` of which the first `rows` columns count,
    /// `b [k, COLS]`, and rows of `c` at distance `stride`.
    fn tile(
        self,
        size: (usize, usize),
        a: &[T],
        b: &[T],
        c: &mut [T],
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

fn check<T>(
    (rows, k): (usize, usize),
    (most, cols): (usize, usize),
    a: &[T],
    b: &[T],
    c: &[T],
    stride: usize,
) {
    assert!(0 < rows && rows <= most && a.len() >= k * most && b.len() >= k * cols);
    assert!(c.len() >= (rows - 1) * stride + cols);
}

/// Plain Rust on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl<T: Real> Micro<T> for Portable {
    const ROWS: usize = 4;
    const COLS: usize = 16;

    #[inline(always)]
    fn tile(
        self,
        (rows, k): (usize, usize),
        a: &[T],
        b: &[T],
        c: &mut [T],
        stride: usize,
        accumulate: bool,
    ) {
        check((rows, k), (4, 16), a, b, c, stride);
        let mut sums = [[T::of(0.0); 16]; 4];
        for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(16)).take(k) {
            for (sums, &a) in sums.iter_mut().zip(a) {
                for (s, &b) in sums.iter_mut().zip(b) {
                    *s += a * b;
                }
            }
        }
        for (i, sums) in sums.iter().enumerate().take(rows) {
            for (c, &s) in c[i * stride..][..16].iter_mut().zip(sums) {
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

    use super::{Micro, check, transpose_plain};

    /// A tile of 14 x 32 sums in 28 of 32 registers of 16 numbers.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx512(());

    impl Avx512 {
        /// The kernel, if this machine has the instructions.
        pub fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx512f")).then_some(Self(()))
        }
    }

    /// # Safety
    /// The lengths of [`check`], and a machine with AVX-512.
    #[target_feature(enable = "avx512f")]
    unsafe fn tile_512<const ROWS: usize>(
        k: usize,
        mut a: *const f32,
        mut b: *const f32,
        c: *mut f32,
        stride: usize,
        accumulate: bool,
    ) {
        // SAFETY: `a` moves over k rows of 14 and `b` over k rows of 32; rows of `c` hold 32.
        unsafe {
            // The sums are added to `c` at the end; it arrives from afar meanwhile.
            for i in 0..ROWS {
                _mm_prefetch::<_MM_HINT_T0>(c.add(i * stride).cast());
                _mm_prefetch::<_MM_HINT_T0>(c.add(i * stride + 16).cast());
            }
            let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
            for _ in 0..k {
                // Eight turns ahead; past the end a prefetch reads nothing.
                _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(8 * 14).cast());
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(8 * 32).cast());
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(8 * 32 + 16).cast());
                let (b0, b1) = (_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16)));
                for (i, sum) in sums.iter_mut().enumerate() {
                    let a = _mm512_set1_ps(*a.add(i));
                    sum[0] = _mm512_fmadd_ps(a, b0, sum[0]);
                    sum[1] = _mm512_fmadd_ps(a, b1, sum[1]);
                }
                a = a.add(14);
                b = b.add(32);
            }
            for (i, sum) in sums.iter().enumerate() {
                let c = c.add(i * stride);
                let (mut c0, mut c1) = (sum[0], sum[1]);
                if accumulate {
                    c0 = _mm512_add_ps(c0, _mm512_loadu_ps(c));
                    c1 = _mm512_add_ps(c1, _mm512_loadu_ps(c.add(16)));
                }
                _mm512_storeu_ps(c, c0);
                _mm512_storeu_ps(c.add(16), c1);
            }
        }
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
    unsafe fn transpose_block(
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
        const ROWS: usize = 14;
        const COLS: usize = 32;

        #[inline]
        fn tile(
            self,
            (rows, k): (usize, usize),
            a: &[f32],
            b: &[f32],
            c: &mut [f32],
            stride: usize,
            accumulate: bool,
        ) {
            check((rows, k), (14, 32), a, b, c, stride);
            let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
            macro_rules! by_rows {
                ($($n:literal)*) => {
                    match rows {
                        // SAFETY: checked above; `self` exists only where AVX-512 does.
                        $($n => unsafe { tile_512::<$n>(k, a, b, c, stride, accumulate) },)*
                        _ => unreachable!("a tile has 1 to 14 rows"),
                    }
                };
            }
            by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        }

        fn transpose<const WIDTH: usize>(
            self,
            rows: &[f32],
            stride: usize,
            (count, k): (usize, usize),
            out: &mut [f32],
        ) {
            assert!(count <= WIDTH && out.len() >= k * WIDTH);
            assert!(count == 0 || k == 0 || rows.len() >= (count - 1) * stride + k);
            let whole = k / 16 * 16;
            for j in (0..whole).step_by(16) {
                for i in (0..WIDTH).step_by(16) {
                    let here = count.saturating_sub(i).min(16);
                    let keep = (WIDTH - i).min(16);
                    let from = if here == 0 { 0 } else { i * stride + j };
                    // SAFETY: row i + here - 1 < count, columns j .. j + 16 <= k: inside `rows`.
                    // Stores end at (j + 15) WIDTH + i + keep <= k WIDTH: inside `out`.
                    unsafe {
                        transpose_block(
                            rows.as_ptr().add(from),
                            stride,
                            here,
                            out.as_mut_ptr().add(j * WIDTH + i),
                            (WIDTH, keep),
                        );
                    }
                }
            }
            transpose_plain::<f32, WIDTH>(rows, stride, (count, whole..k), out);
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
        mut a: *const f32,
        mut b: *const f32,
        c: *mut f32,
        stride: usize,
        accumulate: bool,
    ) {
        // SAFETY: `a` moves over k rows of 6 and `b` over k rows of 16; rows of `c` hold 16.
        unsafe {
            let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
            for _ in 0..k {
                let (b0, b1) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8)));
                for (i, sum) in sums.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(*a.add(i));
                    sum[0] = _mm256_fmadd_ps(a, b0, sum[0]);
                    sum[1] = _mm256_fmadd_ps(a, b1, sum[1]);
                }
                a = a.add(6);
                b = b.add(16);
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

    impl Micro<f32> for Avx2 {
        const ROWS: usize = 6;
        const COLS: usize = 16;

        #[inline]
        fn tile(
            self,
            (rows, k): (usize, usize),
            a: &[f32],
            b: &[f32],
            c: &mut [f32],
            stride: usize,
            accumulate: bool,
        ) {
            check((rows, k), (6, 16), a, b, c, stride);
            let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
            macro_rules! by_rows {
                ($($n:literal)*) => {
                    match rows {
                        // SAFETY: checked above; `self` exists only where AVX2 and FMA do.
                        $($n => unsafe { tile_256::<$n>(k, a, b, c, stride, accumulate) },)*
                        _ => unreachable!("a tile has 1 to 6 rows"),
                    }
                };
            }
            by_rows!(1 2 3 4 5 6);
        }
    }
}
