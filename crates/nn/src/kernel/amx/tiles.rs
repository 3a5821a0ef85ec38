//! Eight tiles, and the product of two panels in them.

// The instructions have no safe names yet.
#![allow(unsafe_code)]

use std::arch::{asm, x86_64::*};

use super::{Amx, SIDE, STRETCH, TILE, panel_len};

/// A thread that may use tiles, of 16 lines of 64 bytes each, until it is dropped.
#[derive(Debug)]
pub struct Tiles(());

#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    lines: [u8; 16],
}

/// Loads a tile whose lines are so many bytes apart.
macro_rules! load {
    ($tile:literal, $from:expr, $apart:expr) => {
        asm!(
            concat!("tileloadd tmm", $tile, ", [{from} + {apart}]"),
            from = in(reg) $from,
            apart = in(reg) { let apart: usize = $apart; apart },
            options(nostack, readonly, preserves_flags)
        )
    };
}

/// Stores one.
macro_rules! store {
    ($tile:literal, $to:expr, $apart:expr) => {
        asm!(
            concat!("tilestored [{to} + {apart}], tmm", $tile),
            to = in(reg) $to,
            apart = in(reg) { let apart: usize = $apart; apart },
            options(nostack, preserves_flags)
        )
    };
}

/// Adds to a tile the product of two.
macro_rules! add {
    ($sum:literal, $left:literal, $right:literal) => {
        asm!(
            concat!("tdpbf16ps tmm", $sum, ", tmm", $left, ", tmm", $right),
            options(nostack, nomem, preserves_flags)
        )
    };
}

impl Tiles {
    /// Sets them up.
    pub fn new(_: Amx) -> Self {
        let mut shapes = Shapes {
            palette: 1,
            start: 0,
            reserved: [0; 14],
            bytes: [0; 16],
            lines: [0; 16],
        };
        shapes.bytes[..8].fill(64);
        shapes.lines[..8].fill(16);
        // SAFETY: `Amx` exists only where the instruction does; the shapes are of the first palette.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack, readonly)) };
        Self(())
    }

    /// `c [32, 32] (+)= a b` of `stretches` stretches, with rows of `c` at a distance of `stride` numbers; or its
    /// first 16 rows, if not `BOTH` halves.
    ///
    /// # Safety
    /// `a` and `b` have so many stretches, and the rows of `c` are the caller's alone.
    unsafe fn multiply<const BOTH: bool>(
        &self,
        stretches: usize,
        (a, b): (*const u8, *const u8),
        (c, stride): (*mut f32, usize),
        accumulate: bool,
    ) {
        let row = |i: usize| c.wrapping_add(i * stride);
        // SAFETY: as the caller promises. Tile registers are nobody else's; prefetches reach past the end, and
        // read nothing.
        unsafe {
            for i in 0..if BOTH { SIDE } else { SIDE / 2 } {
                // The sums are stored at the end; their lines arrive from afar meanwhile.
                _mm_prefetch::<_MM_HINT_ET0>(row(i).cast());
                _mm_prefetch::<_MM_HINT_ET0>(row(i).wrapping_add(16).cast());
            }
            if accumulate {
                load!(0, row(0), 4 * stride);
                load!(1, row(0).wrapping_add(16), 4 * stride);
                if BOTH {
                    load!(2, row(16), 4 * stride);
                    load!(3, row(16).wrapping_add(16), 4 * stride);
                }
            } else {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    options(nostack, nomem, preserves_flags)
                );
            }
            for i in 0..stretches {
                let [a, b] = [a, b].map(|panel| panel.wrapping_add(i * STRETCH));
                let tile = |of: *const u8, part: usize, half: usize| {
                    of.wrapping_add((2 * part + half) * TILE)
                };
                let left = |part: usize| {
                    load!(4, tile(a, part, 0), 64);
                    add!(0, 4, 6);
                    add!(1, 4, 7);
                    if BOTH {
                        load!(5, tile(a, part, 1), 64);
                        add!(2, 5, 6);
                        add!(3, 5, 7);
                    }
                };
                let right = |part: usize| {
                    // Panels that threads share come from the last cache: those of the next stretch, meanwhile.
                    for line in (0..2 * TILE).step_by(64) {
                        let next = tile(b, part, 0).wrapping_add(STRETCH + line);
                        _mm_prefetch::<_MM_HINT_T0>(next.cast());
                    }
                    load!(6, tile(b, part, 0), 64);
                    add!(0, 4, 6);
                    if BOTH {
                        add!(2, 5, 6);
                    }
                    load!(7, tile(b, part, 1), 64);
                    add!(1, 4, 7);
                    if BOTH {
                        add!(3, 5, 7);
                    }
                };
                // Between two products of parts one side changes.
                load!(4, tile(a, 0, 0), 64);
                if BOTH {
                    load!(5, tile(a, 0, 1), 64);
                }
                right(2);
                right(1);
                left(1);
                right(0);
                left(2);
                left(0);
            }
            store!(0, row(0), 4 * stride);
            store!(1, row(0).wrapping_add(16), 4 * stride);
            if BOTH {
                store!(2, row(16), 4 * stride);
                store!(3, row(16).wrapping_add(16), 4 * stride);
            }
        }
    }

    /// As [`multiply`](Self::multiply), for a part of a tile.
    ///
    /// # Safety
    /// As there, for the `rows x cols` entries of `c` alone.
    pub unsafe fn tile(
        &self,
        (rows, cols, k): (usize, usize, usize),
        (left, right): (&[f32], &[f32]),
        (c, stride): (*mut f32, usize),
        accumulate: bool,
    ) {
        assert!(k > 0 && left.len().min(right.len()) >= panel_len(k));
        let (stretches, panels) = (
            k.div_ceil(SIDE),
            (left.as_ptr().cast(), right.as_ptr().cast()),
        );
        // SAFETY: as the caller promises, of panels that are long enough.
        let multiply = |c| unsafe {
            match rows > SIDE / 2 {
                true => self.multiply::<true>(stretches, panels, c, accumulate),
                false => self.multiply::<false>(stretches, panels, c, accumulate),
            }
        };
        if cols == SIDE && rows.is_multiple_of(SIDE / 2) {
            multiply((c, stride));
            return;
        }
        let mut whole = [0f32; SIDE * SIDE];
        let (lines, _) = whole.as_chunks_mut::<SIDE>();
        // SAFETY: as above; the array has a whole tile, of which the caller's entries are copied.
        unsafe {
            let c = |i: usize| c.add(i * stride);
            if accumulate {
                for (i, line) in lines.iter_mut().enumerate().take(rows) {
                    c(i).copy_to_nonoverlapping(line.as_mut_ptr(), cols);
                }
            }
            multiply((lines.as_mut_ptr().cast(), SIDE));
            for (i, line) in lines.iter().enumerate().take(rows) {
                c(i).copy_from_nonoverlapping(line.as_ptr(), cols);
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: it was set up; what is in the tiles is stored.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
