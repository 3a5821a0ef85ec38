//! Large f32 products on machines with AMX, whose tiles multiply bf16 and add in f32, sixteen times as
//! fast as vectors multiply f32.
//!
//! No precision is given up. A number of 24 bits is the exact sum of three of 8, `a = a1 + a2 + a3`, each
//! the bf16 nearest to what is left, and of the nine products of two such sums six are formed:
//!
//! ```text
//! a b ~ a1 b3 + a2 b2 + a3 b1 + a1 b2 + a2 b1 + a1 b1
//! ```
//!
//! Those left out are below `2^-25 |a b|`, less than half a unit in the last place; the sums are as long and
//! in as narrow a format as in any f32 product. (Beyond 3.39e38 the first part is infinite and the product
//! not a number; parts below 1e-38 count as zero.) Six products of sixteenfold speed leave 2.7 times that of
//! vectors, of which loads and the parting of the operands take some.
//!
//! # Order in memory
//!
//! A tile has 16 lines of 64 bytes. Of a left operand a line is a row's 32 numbers along `k`; of a right
//! operand it is 16 columns' pairs of neighbours along `k`. Each is the other's transpose in units of a pair,
//! so an operand is read along its memory into the one or the other and turned in registers where it must
//! be. A *stretch* is 32 rows (or columns) and 32 of `k`: six tiles, two for each part. A panel is the
//! stretches of one block of `k`, one after the other.

// Asking for tiles is a system call; tasks write columns of one result.
#![allow(unsafe_code)]

mod parts;
mod tiles;

use std::{
    arch::{asm, x86_64::__cpuid_count},
    sync::OnceLock,
};

use rayon::prelude::*;

use self::{parts::Operand, tiles::Tiles};
use super::{
    Large, Lines, Micro, View,
    matmul::{Shared, aligned, each},
    micro::Avx512,
};
use crate::Real;

/// Rows, columns and length of a stretch.
const SIDE: usize = 32;
/// Bytes of a tile.
const TILE: usize = 1024;
/// Bytes of a stretch.
const STRETCH: usize = 6 * TILE;
/// Longest block of `k`: a panel of it fills a part of the second cache.
const DEPTH: usize = 512;
/// Bytes of the right operand's panels that a task goes over while they are near.
const NEAR: usize = 1 << 20;
/// Bytes of a left operand's panels that are kept for all groups of columns; of a taller one they are made anew.
const KEPT: usize = 3 << 18;
/// Rows below which a result is not divided further.
const LOW: usize = 128;

/// The kernel of AVX-512, and tiles for large products.
#[derive(Clone, Copy, Debug)]
pub struct Amx(Avx512);

impl Amx {
    /// The kernel, if this machine has the instructions and the system lets this process use them.
    pub fn detect() -> Option<Self> {
        static ALLOWED: OnceLock<bool> = OnceLock::new();
        let vectors = Avx512::detect()?;
        let allowed = *ALLOWED.get_or_init(|| {
            is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512bf16")
                && has_tiles()
                && permitted()
        });
        allowed.then_some(Self(vectors))
    }
}

/// Whether the processor has tiles, and multiplies bf16 in them.
fn has_tiles() -> bool {
    const BF16: u32 = 1 << 22;
    const TILES: u32 = 1 << 24;
    // A processor with AVX-512 has this leaf.
    let features = __cpuid_count(7, 0).edx;
    features & BF16 != 0 && features & TILES != 0
}

/// Asks the system for the room that tiles take in each thread's state. Only Linux has to be asked, and
/// others are not tried.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
        const TILE_DATA: i64 = 18;
        let result: i64;
        // SAFETY: a system call that reads and writes no memory of ours.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => result,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Length of the blocks of `k`, all about the same and of whole stretches.
fn depth_of(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH)).next_multiple_of(SIDE)
}

/// Columns that a task goes over, with a block of `k` of so many.
fn group_of(n: usize, depth: usize) -> usize {
    let most = NEAR / (STRETCH / SIDE * depth) * SIDE;
    n.div_ceil(n.div_ceil(most)).next_multiple_of(SIDE)
}

/// Numbers that a panel takes.
fn panel_len(k: usize) -> usize {
    k.div_ceil(SIDE) * STRETCH / size_of::<f32>()
}

impl Amx {
    /// Numbers that the panels of a right operand `[k, n]` take.
    fn right_len(k: usize, n: usize) -> usize {
        n.div_ceil(SIDE) * panel_len(k)
    }

    /// Parts some columns of one block of a right operand into its panels.
    fn panels(self, b: View<f32>, panels: &mut [f32]) {
        let (k, n) = (b.rows(), b.cols());
        let all = panels.chunks_exact_mut(panel_len(k)).enumerate();
        for (j, panel) in all.take(n.div_ceil(SIDE)) {
            let columns = (j * SIDE, SIDE.min(n - j * SIDE));
            let to = panel.as_mut_ptr().cast();
            // SAFETY: inside the view, a panel's length, and a machine with tiles.
            unsafe { Operand::right(b).part(columns, (0, k), false, to) };
        }
    }
}

impl Micro<f32> for Amx {
    const ROWS: usize = Avx512::ROWS;
    const COLS: usize = Avx512::COLS;
    const TUNED: bool = true;

    #[inline]
    unsafe fn tile(
        self,
        size: (usize, usize, usize),
        a: Lines<f32>,
        b: &[f32],
        c: *mut f32,
        stride: usize,
        accumulate: bool,
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.0.tile(size, a, b, c, stride, accumulate) };
    }

    fn transpose<const WIDTH: usize>(
        self,
        rows: &[f32],
        stride: usize,
        size: (usize, usize),
        out: &mut [f32],
    ) {
        self.0.transpose::<WIDTH>(rows, stride, size, out);
    }

    fn large(&self) -> Option<&dyn Large<f32>> {
        Some(self)
    }
}

impl Large<f32> for Amx {
    fn packed_len(&self, k: usize, n: usize) -> usize {
        Self::right_len(k, n)
    }

    fn pack(&self, b: View<f32>, panels: &mut [f32], threads: bool) {
        let (k, n) = (b.rows(), b.cols());
        let depth = depth_of(k);
        let mut rest = panels;
        for first in (0..k).step_by(depth) {
            let here = depth.min(k - first);
            let (block, after) = rest.split_at_mut(Self::right_len(here, n));
            rest = after;
            each(block, panel_len(here), threads, |j, panel| {
                let columns = SIDE.min(n - j * SIDE);
                self.panels(b.part((first, j * SIDE), (here, columns)), panel);
            });
        }
    }

    fn multiply(
        &self,
        (a, b, packed): (View<f32>, View<f32>, Option<&[f32]>),
        c: &mut [f32],
        accumulate: bool,
        threads: bool,
    ) {
        let (m, k, n) = (a.rows(), a.cols(), b.cols());
        let depth = depth_of(k);
        let group = group_of(n, depth);
        // Threads divide columns; with more threads than groups rows too, and each part packs for itself.
        let (wanted, wide) = match threads {
            true => (3 * rayon::current_num_threads(), group),
            false => (1, n),
        };
        let across = n.div_ceil(wide);
        let parts = wanted.div_ceil(across).min(m / LOW).max(1);
        let height = m.div_ceil(parts).next_multiple_of(SIDE);
        let kept = height / SIDE * panel_len(depth) * size_of::<f32>() <= KEPT;
        let c = Shared::new(c);
        let task = |i: usize| {
            let (left_edge, top) = (i % across * wide, i / across * height);
            let (right_edge, bottom) = (n.min(left_edge + wide), m.min(top + height));
            let mut buffers = [f32::take(), f32::take()];
            let [right, left] = &mut buffers;
            let stored = if kept { height / SIDE } else { 1 };
            let left = aligned(left, stored * panel_len(depth));
            let tiles = Tiles::new(*self);
            for first in (0..k).step_by(depth) {
                let here = depth.min(k - first);
                let accumulate = accumulate || first > 0;
                for column in (left_edge..right_edge).step_by(group) {
                    let width = group.min(right_edge - column);
                    let panels = match packed {
                        Some(all) => {
                            let block = first / SIDE * Self::right_len(SIDE, n);
                            &all[block + Self::right_len(here, column)..]
                        }
                        None => {
                            let panels = aligned(right, Self::right_len(depth, group));
                            self.panels(b.part((first, column), (here, width)), panels);
                            &*panels
                        }
                    };
                    for (i, row) in (top..bottom).step_by(SIDE).enumerate() {
                        let rows = SIDE.min(bottom - row);
                        let left = &mut left[i % stored * panel_len(here)..][..panel_len(here)];
                        if !kept || column == left_edge {
                            let to = left.as_mut_ptr().cast();
                            let (rows, along) = ((row, rows), (first, here));
                            // SAFETY: inside the view, a panel's length, and a machine with tiles.
                            unsafe { Operand::left(a).part(rows, along, true, to) };
                        }
                        let all = panels.chunks_exact(panel_len(here));
                        for (j, panel) in all.take(width.div_ceil(SIDE)).enumerate() {
                            let at = (row, column + j * SIDE);
                            let size = (rows, SIDE.min(width - j * SIDE), here);
                            let c = c.at(at.0 * n + at.1).0;
                            // SAFETY: rows and columns that no other task has.
                            unsafe { tiles.tile(size, (left, panel), (c, n), accumulate) };
                        }
                    }
                }
            }
            drop(tiles);
            buffers.into_iter().for_each(f32::give);
        };
        let tasks = across * m.div_ceil(height);
        if threads {
            (0..tasks).into_par_iter().with_max_len(1).for_each(task);
        } else {
            (0..tasks).for_each(task);
        }
    }
}
