//! Operands in parts: each number as three of bf16, in the order of tiles.

// Masked loads and stores of whole tiles.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{SIDE, STRETCH, TILE};
use crate::kernel::{View, micro::transpose_16};

/// The three parts of sixteen numbers, each with zeros for its lower half.
#[inline]
#[target_feature(enable = "avx512f")]
fn parts(x: __m512) -> [__m512i; 3] {
    let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
    let upper_of = |x: __m512| _mm512_and_si512(_mm512_castps_si512(x), upper);
    let nearest = |x: __m512| {
        let half = _mm512_set1_epi32(0x8000);
        _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper)
    };
    let first = nearest(x);
    let rest = _mm512_sub_ps(x, _mm512_castsi512_ps(first));
    let second = nearest(rest);
    let rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(second));
    // What is left has eight bits, or is not a number and stays so.
    [first, second, upper_of(rest)]
}

/// Upper halves side by side: of `low` in the lower half of every pair.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pairs(low: __m512i, high: __m512i) -> __m512i {
    _mm512_or_si512(_mm512_srli_epi32::<16>(low), high)
}

/// All upper halves of `low`, then those of `high`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn line(low: __m512i, high: __m512i) -> __m512i {
    const ODD: [i16; 32] = {
        let mut odd = [0; 32];
        let mut i = 0;
        while i < 32 {
            odd[i] = 2 * i as i16 + 1;
            i += 1;
        }
        odd
    };
    // SAFETY: 64 bytes.
    let odd = unsafe { _mm512_loadu_si512(ODD.as_ptr().cast()) };
    _mm512_permutex2var_epi16(low, odd, high)
}

/// Turns a tile in place, in units of a pair.
///
/// # Safety
/// A tile from `tile` on, and a machine with AVX-512.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn turn(tile: *mut u8) {
    let tile: *mut f32 = tile.cast();
    let mut lines = [_mm512_setzero_ps(); 16];
    // SAFETY: 16 lines of 16 pairs.
    unsafe {
        for (i, line) in lines.iter_mut().enumerate() {
            *line = _mm512_loadu_ps(tile.add(16 * i));
        }
        for (i, line) in transpose_16(lines).into_iter().enumerate() {
            _mm512_storeu_ps(tile.add(16 * i), line);
        }
    }
}

/// A mask of as many as there are, up to sixteen.
fn first(count: usize) -> __mmask16 {
    ((1u32 << count.min(16)) - 1) as __mmask16
}

/// Where an operand is: entry `(i, l)`, with `l` along the inner size, is `data[i across + l along]`. One of
/// the two is 1.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    data: &'a [f32],
    across: usize,
    along: usize,
}

impl<'a> Operand<'a> {
    fn new(data: &'a [f32], across: isize, along: isize) -> Self {
        let (across, along) = (across as usize, along as usize);
        Self {
            data,
            across,
            along,
        }
    }

    /// Rows of the left operand of a product.
    pub fn left(a: View<'a, f32>) -> Self {
        let (row, col) = a.strides();
        Self::new(a.data(), row, col)
    }

    /// Columns of the right one.
    pub fn right(b: View<'a, f32>) -> Self {
        let (row, col) = b.strides();
        Self::new(b.data(), col, row)
    }

    /// Parts `count <= 32` lines across, from line `from` on, and `k` along from `start`, into the
    /// stretches of a `left` or a right panel; where a tile's lines are not those of memory it is turned.
    ///
    /// # Safety
    /// The entries are inside the data, `panel` has `k.div_ceil(32)` stretches, and the machine has the
    /// instructions of [`Amx`](super::Amx).
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn part(
        self,
        (from, count): (usize, usize),
        (start, k): (usize, usize),
        left: bool,
        panel: *mut u8,
    ) {
        for half in 0..2 {
            let (first, count) = (from + 16 * half, count.saturating_sub(16 * half).min(16));
            for l in (0..k).step_by(SIDE) {
                let here = SIDE.min(k - l);
                let to = panel.wrapping_add(l / SIDE * STRETCH + half * TILE);
                let at = first * self.across + (start + l) * self.along;
                // SAFETY: 16 lines of 32, of which `count` of `here` are there.
                unsafe {
                    match self.along {
                        1 => self.lines(at, (count, here), to),
                        _ => self.columns(at, (count, here), to),
                    }
                    if left != (self.along == 1) {
                        (0..3).for_each(|part| turn(to.add(2 * part * TILE)));
                    }
                }
            }
        }
    }

    /// A tile of each part whose lines are these lines, read along.
    ///
    /// # Safety
    /// As of [`part`](Self::part).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn lines(self, at: usize, (count, k): (usize, usize), to: *mut u8) {
        let masks = [first(k), first(k.saturating_sub(16))];
        for i in 0..16 {
            // SAFETY: what is masked out is not read, and of lines beyond the last all is.
            unsafe {
                let from = self.data.as_ptr().wrapping_add(at + i * self.across);
                let [low, high] = [0, 1].map(|half| {
                    let mask = if i < count { masks[half] } else { 0 };
                    parts(_mm512_maskz_loadu_ps(mask, from.wrapping_add(16 * half)))
                });
                for part in 0..3 {
                    let to = to.add(2 * part * TILE + 64 * i);
                    _mm512_storeu_si512(to.cast(), line(low[part], high[part]));
                }
            }
        }
    }

    /// A tile of each part whose lines are pairs along, of all lines.
    ///
    /// # Safety
    /// As of [`part`](Self::part).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn columns(self, at: usize, (count, k): (usize, usize), to: *mut u8) {
        let mask = first(count);
        for i in 0..16 {
            // SAFETY: as above.
            unsafe {
                let [low, high] = [2 * i, 2 * i + 1].map(|l| {
                    let mask = if l < k { mask } else { 0 };
                    let from = self.data.as_ptr().wrapping_add(at + l * self.along);
                    parts(_mm512_maskz_loadu_ps(mask, from))
                });
                for part in 0..3 {
                    let to = to.add(2 * part * TILE + 64 * i);
                    _mm512_storeu_si512(to.cast(), pairs(low[part], high[part]));
                }
            }
        }
    }
}
