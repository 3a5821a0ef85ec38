//! Convolutions with a window of 3 x 3 in fewer multiplications: Winograd's `F(2 x 2, 3 x 3)`.
//!
//! Two by two pixels of the result see four by four pixels `d`. With a filter `g` of 3 x 3,
//!
//! ```text
//! y = A^T [ (G g G^T) . (B^T d B) ] A,      . entry by entry, summed over channels
//!
//!       1  0 -1  0          1    0    0          1  1  1  0
//! B^T = 0  1  1  0     G = 1/2  1/2  1/2   A^T = 0  1 -1 -1
//!       0 -1  1  0         1/2 -1/2  1/2
//!       0  1  0 -1          0    0    1
//! ```
//!
//! which is 16 multiplications in place of 36. Each of the 16 places is a product of matrices,
//! `[tiles, I] [I, O]`; what stands around the products are sums of a few numbers, and channels lie
//! side by side. All entries of `A` and `B` are 0, 1 or -1, so the result is as good as the plain
//! sum's to within a small factor of rounding.
//!
//! Filters are transformed and packed once for all tiles, and are not kept: at the sizes where this is
//! used that is a few hundredths of the work. No other array is larger than a band of tiles.

use rayon::prelude::*;

use super::{
    conv::Conv,
    picture::{Pictures, Window},
};
use crate::{
    Real,
    kernel::{Left, Micro, Task, View, aligned, multiply, pack},
    simd,
};

/// Channels that go through a transform at a time.
const LANE: usize = 8;
/// Tiles of a band, at least: what a packed filter is used for while it is near.
const TILES: usize = 64;
/// Pixels of a picture from which transforming the filters is worth it.
const PIXELS: usize = 64;
/// Places of a tile.
const PLACES: usize = 16;

type Lane<T> = [T; LANE];

/// A convolution with a window of 3 x 3 on its way.
struct Winograd<'a, T> {
    conv: Conv<'a, T>,
    pictures: Pictures,
    x: &'a [T],
    y: &'a mut [T],
    add: bool,
}

/// Whether `conv` of such pictures is better done here.
pub(super) fn suits<T: Real>(conv: &Conv<T>, out: Pictures) -> bool {
    let Window { size, stride, .. } = conv.window;
    let whole = conv.inputs.is_multiple_of(LANE) && conv.outputs.is_multiple_of(LANE);
    size == [3, 3] && stride == 1 && whole && out.height * out.width >= PIXELS
}

/// `y`, or `y +=` if `add`.
pub(super) fn forward<T: Real>(conv: Conv<T>, pictures: Pictures, x: &[T], y: &mut [T], add: bool) {
    T::dispatch(Winograd {
        conv,
        pictures,
        x,
        y,
        add,
    });
}

// Loops in place of closures over arrays: those are calls that need not be inlined, and then run
// without the vectors that `simd::run` is for.

/// `LANE` numbers from place `at` on.
#[inline(always)]
fn lane<T: Real>(from: &[T], at: usize) -> Lane<T> {
    let mut out = [T::of(0.0); LANE];
    out.copy_from_slice(&from[at..at + LANE]);
    out
}

#[inline(always)]
fn plus<T: Real>(mut a: Lane<T>, b: Lane<T>) -> Lane<T> {
    for i in 0..LANE {
        a[i] += b[i];
    }
    a
}

#[inline(always)]
fn minus<T: Real>(mut a: Lane<T>, b: Lane<T>) -> Lane<T> {
    for i in 0..LANE {
        a[i] = a[i] - b[i];
    }
    a
}

#[inline(always)]
fn half<T: Real>(mut a: Lane<T>) -> Lane<T> {
    for a in &mut a {
        *a = *a * T::of(0.5);
    }
    a
}

/// `B^T d`.
#[inline(always)]
fn pixels<T: Real>([a, b, c, d]: [Lane<T>; 4]) -> [Lane<T>; 4] {
    [minus(a, c), plus(b, c), minus(c, b), minus(b, d)]
}

/// `G g`.
#[inline(always)]
fn filters<T: Real>([a, b, c]: [Lane<T>; 3]) -> [Lane<T>; 4] {
    let (outer, inner) = (half(plus(a, c)), half(b));
    [a, plus(outer, inner), minus(outer, inner), c]
}

/// `A^T m`.
#[inline(always)]
fn sums<T: Real>([a, b, c, d]: [Lane<T>; 4]) -> [Lane<T>; 2] {
    [plus(plus(a, b), c), minus(minus(b, c), d)]
}

/// The transposed.
#[inline(always)]
fn turned<T: Real, const N: usize>([a, b, c, d]: [[Lane<T>; N]; 4]) -> [[Lane<T>; 4]; N] {
    let mut out = [[a[0]; 4]; N];
    for i in 0..N {
        out[i] = [a[i], b[i], c[i], d[i]];
    }
    out
}

impl<T: Real> Task<T> for Winograd<'_, T> {
    type Output = ();

    fn run<M: Micro<T>>(self, micro: M) {
        let (conv, pictures) = (self.conv, self.pictures);
        let out = conv.window.out(pictures, conv.outputs);
        let mut buffer = T::take();
        let size = PLACES * pack::rhs_len::<T, M>(conv.inputs, conv.outputs);
        let panels = aligned(&mut buffer, size);
        panels
            .par_chunks_mut(PLACES * M::COLS * conv.inputs)
            .enumerate()
            .for_each(|(i, panel)| conv.transform_filters(micro, i * M::COLS, panel));
        let panels = &*panels;

        // Bands of whole lines of tiles; what becomes of a tile does not depend on its band.
        let (across, down) = (out.width.div_ceil(2), out.height.div_ceil(2));
        let share = (out.count * down).div_ceil(4 * rayon::current_num_threads());
        let lines = TILES.div_ceil(across).min(share).max(1);
        let bands = self.y.chunks_mut(out.one()).enumerate();
        let bands: Vec<_> = bands
            .flat_map(|(b, y)| {
                let bands = y.chunks_mut(2 * lines * out.width * out.channels);
                bands.enumerate().map(move |(i, y)| (b, i * lines, y))
            })
            .collect();
        let bands = bands.into_par_iter().with_max_len(1);
        bands.for_each(|(b, line, y)| {
            let high = y.len() / (out.width * out.channels);
            let band = Band {
                conv: &conv,
                line,
                across,
                tiles: high.div_ceil(2) * across,
            };
            let (mut first, mut second) = (T::take(), T::take());
            let tiles = aligned(&mut first, PLACES * band.tiles * conv.inputs);
            let products = aligned(&mut second, PLACES * band.tiles * conv.outputs);
            band.transform_pixels(pictures, &self.x[b * pictures.one()..], tiles);
            band.multiply(micro, tiles, panels, products);
            band.transform_back(products, out.width, y, self.add);
            T::give(second);
            T::give(first);
        });
        T::give(buffer);
    }
}

impl<T: Real> Conv<'_, T> {
    /// `G g G^T` of the filters from `first` on, as a packed panel for each place.
    fn transform_filters<M: Micro<T>>(&self, micro: M, first: usize, panel: &mut [T]) {
        let (inputs, count) = (self.inputs, M::COLS.min(self.outputs - first));
        let mut buffer = T::take();
        let plane = count * inputs;
        let transformed = aligned(&mut buffer, PLACES * plane);
        let weight = &self.weight[first * 9 * inputs..][..9 * plane];
        simd::run(
            &mut *transformed,
            #[inline(always)]
            |to: &mut [T]| {
                for (o, weight) in weight.chunks_exact(9 * inputs).enumerate() {
                    for c in (0..inputs).step_by(LANE) {
                        let g = |at: usize| lane(weight, at * inputs + c);
                        let a = filters([g(0), g(3), g(6)]);
                        let b = filters([g(1), g(4), g(7)]);
                        let d = filters([g(2), g(5), g(8)]);
                        for u in 0..4 {
                            let row = filters([a[u], b[u], d[u]]);
                            for (v, lane) in row.iter().enumerate() {
                                let at = (4 * u + v) * plane + o * inputs + c;
                                to[at..at + LANE].copy_from_slice(lane);
                            }
                        }
                    }
                }
            },
        );
        for (from, to) in transformed
            .chunks_exact(plane)
            .zip(panel.chunks_exact_mut(M::COLS * inputs))
        {
            pack::rhs_panel(micro, View::new(from, count, inputs).t(), 0, to);
        }
        T::give(buffer);
    }
}

/// Some lines of tiles.
struct Band<'a, T> {
    conv: &'a Conv<'a, T>,
    /// The first line.
    line: usize,
    /// Tiles of a line.
    across: usize,
    /// All tiles.
    tiles: usize,
}

impl<T: Real> Band<'_, T> {
    /// `B^T d B`, `[16, tiles, I]`.
    fn transform_pixels(&self, pictures: Pictures, x: &[T], to: &mut [T]) {
        let (inputs, plane) = (self.conv.inputs, self.tiles * self.conv.inputs);
        let [top, left] = self.conv.window.before;
        let outside = vec![T::of(0.0); inputs];
        let pixel = |i: usize, j: usize| {
            let i = i.checked_sub(top).filter(|&i| i < pictures.height);
            let j = j.checked_sub(left).filter(|&j| j < pictures.width);
            match (i, j) {
                (Some(i), Some(j)) => &x[(i * pictures.width + j) * inputs..][..inputs],
                _ => &outside,
            }
        };
        simd::run(
            to,
            #[inline(always)]
            |to: &mut [T]| {
                for tile in 0..self.tiles {
                    let (i, j) = (
                        2 * (self.line + tile / self.across),
                        2 * (tile % self.across),
                    );
                    let mut seen: [&[T]; PLACES] = [&outside; PLACES];
                    for (p, seen) in seen.iter_mut().enumerate() {
                        *seen = pixel(i + p / 4, j + p % 4);
                    }
                    for c in (0..inputs).step_by(LANE) {
                        let d = |p: usize| lane(seen[p], c);
                        let rows = turned([
                            pixels([d(0), d(4), d(8), d(12)]),
                            pixels([d(1), d(5), d(9), d(13)]),
                            pixels([d(2), d(6), d(10), d(14)]),
                            pixels([d(3), d(7), d(11), d(15)]),
                        ]);
                        for (u, row) in rows.into_iter().enumerate() {
                            for (v, lane) in pixels(row).iter().enumerate() {
                                let at = (4 * u + v) * plane + tile * inputs + c;
                                to[at..at + LANE].copy_from_slice(lane);
                            }
                        }
                    }
                }
            },
        );
    }

    /// The 16 products, `[16, tiles, O]`.
    fn multiply<M: Micro<T>>(&self, micro: M, tiles: &[T], panels: &[T], products: &mut [T]) {
        let (inputs, outputs) = (self.conv.inputs, self.conv.outputs);
        let one = M::COLS * inputs;
        for (p, (tiles, products)) in tiles
            .chunks_exact(self.tiles * inputs)
            .zip(products.chunks_exact_mut(self.tiles * outputs))
            .enumerate()
        {
            // One panel at a time: it stays in the first cache, the tiles in the second.
            for (i, panels) in panels.chunks_exact(PLACES * one).enumerate() {
                let first = i * M::COLS;
                let size = (self.tiles, M::COLS.min(outputs - first), inputs);
                let (left, panel) = (Left::rows(tiles, inputs), &panels[p * one..][..one]);
                multiply(
                    micro,
                    size,
                    left,
                    panel,
                    &mut products[first..],
                    outputs,
                    false,
                );
            }
        }
    }

    /// `A^T m A` and the bias, to the pixels of the result.
    fn transform_back(&self, products: &[T], width: usize, y: &mut [T], add: bool) {
        let (outputs, plane) = (self.conv.outputs, self.tiles * self.conv.outputs);
        let none = vec![T::of(0.0); outputs];
        let bias = match self.conv.bias {
            [] => &none[..],
            bias => bias,
        };
        let high = y.len() / (width * outputs);
        simd::run(
            y,
            #[inline(always)]
            |y: &mut [T]| {
                for tile in 0..self.tiles {
                    let (i, j) = (2 * (tile / self.across), 2 * (tile % self.across));
                    for c in (0..outputs).step_by(LANE) {
                        let m = |p: usize| lane(products, p * plane + tile * outputs + c);
                        let rows = turned([
                            sums([m(0), m(4), m(8), m(12)]),
                            sums([m(1), m(5), m(9), m(13)]),
                            sums([m(2), m(6), m(10), m(14)]),
                            sums([m(3), m(7), m(11), m(15)]),
                        ]);
                        for (u, row) in rows.into_iter().enumerate().take(high - i) {
                            for (v, sum) in sums(row).into_iter().enumerate().take(width - j) {
                                let at = ((i + u) * width + j + v) * outputs + c;
                                let mut sum = plus(sum, lane(bias, c));
                                if add {
                                    sum = plus(sum, lane(y, at));
                                }
                                y[at..at + LANE].copy_from_slice(&sum);
                            }
                        }
                    }
                }
            },
        );
    }
}
