//! The kernel of AVX-512.

use std::arch::x86_64::*;

use super::{Lines, Micro, check, transpose_by};

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

/// Turns 16 rows of 16 numbers into columns, in registers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernel) fn transpose_16(r: [__m512; 16]) -> [__m512; 16] {
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
