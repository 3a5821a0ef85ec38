//! The kernel of AVX2 with FMA.

use std::arch::x86_64::*;

use super::{Lines, Micro, check, store, transpose_by};

/// A tile of 6 x 16 sums in 12 of 16 registers of 8 numbers.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The kernel, if this machine has the instructions.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
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
