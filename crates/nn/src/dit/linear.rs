//! `y = x W^T + b` with `W [out, in]`, as the DiT uses it: weights and gradients are ranges of a
//! flat vector.

use std::ops::Range;

use super::Affine;
use crate::{
    Real,
    kernel::{Right, View, matmul},
    layers::gate::add_column_sums,
};

/// `y [n, m] = x [n, k] right`.
pub fn times<T: Real>(right: Right<T>, x: &[T], y: &mut [T]) {
    let inner = right.rows();
    matmul(View::new(x, x.len() / inner, inner), right, y, false);
}

/// `y [n, out] = x [n, in] W^T`.
pub fn forward<T: Real>(weight: &[T], inner: usize, x: &[T], y: &mut [T]) {
    let outer = weight.len() / inner;
    matmul(
        View::new(x, x.len() / inner, inner),
        View::new(weight, outer, inner).t(),
        y,
        false,
    );
}

/// `gx [n, in] = gy [n, out] W`, added if `accumulate`.
pub fn back_input<T: Real>(weight: &[T], inner: usize, gy: &[T], gx: &mut [T], accumulate: bool) {
    let outer = weight.len() / inner;
    matmul(
        View::new(gy, gy.len() / outer, outer),
        View::new(weight, outer, inner),
        gx,
        accumulate,
    );
}

/// `gW [out, in] = gy^T x`, added if `accumulate`.
pub fn back_weight<T: Real>(inner: usize, x: &[T], gy: &[T], gw: &mut [T], accumulate: bool) {
    let (n, outer) = (x.len() / inner, gw.len() / inner);
    matmul(
        View::new(gy, n, outer).t(),
        View::new(x, n, inner),
        gw,
        accumulate,
    );
}

/// `x W^T + b` for a few rows, as a new array. A layer without a weight has its bias alone.
pub fn affine<T: Real>(parameters: &[T], layer: &Affine, inner: usize, x: &[T]) -> Vec<T> {
    let bias = &parameters[layer.bias.clone()];
    let mut y = affine_tangent(parameters, layer, inner, x);
    add_to_rows(&mut y, bias);
    y
}

/// Adds `bias [C]` to every row of `y [n, C]`.
pub fn add_to_rows<T: Real>(y: &mut [T], bias: &[T]) {
    for row in y.chunks_exact_mut(bias.len()) {
        row.iter_mut().zip(bias).for_each(|(y, b)| *y += *b);
    }
}

/// `dx W^T` for a few rows: the tangent of [`affine`].
pub fn affine_tangent<T: Real>(parameters: &[T], layer: &Affine, inner: usize, dx: &[T]) -> Vec<T> {
    let mut dy = vec![T::of(0.0); dx.len() / inner * layer.bias.len()];
    if !layer.weight.is_empty() {
        forward(&parameters[layer.weight.clone()], inner, dx, &mut dy);
    }
    dy
}

/// The gradient vector by tensors: of all parameters, or of those from `base` on.
pub struct Slots<'a, T> {
    /// Entries from parameter `base` on.
    pub data: &'a mut [T],
    /// The first parameter it has.
    pub base: usize,
    /// Whether products add to what is there; vectors are cleared beforehand and always add.
    pub accumulate: bool,
}

impl<T: Real> Slots<'_, T> {
    /// The part of a tensor.
    pub fn at(&mut self, range: &Range<usize>) -> &mut [T] {
        &mut self.data[range.start - self.base..range.end - self.base]
    }

    /// Parts that do not overlap, of ranges in ascending order.
    pub fn split(&mut self, ranges: impl Iterator<Item = Range<usize>>) -> Vec<&mut [T]> {
        let (mut rest, mut from) = (&mut *self.data, self.base);
        let split = ranges.map(|range| {
            let (part, after) =
                std::mem::take(&mut rest)[range.start - from..].split_at_mut(range.len());
            (rest, from) = (after, range.end);
            part
        });
        split.collect()
    }

    /// `gW = gy^T x`.
    pub fn weight(&mut self, range: &Range<usize>, inner: usize, x: &[T], gy: &[T]) {
        let accumulate = self.accumulate;
        back_weight(inner, x, gy, self.at(range), accumulate);
    }

    /// The gradients of weight and bias, and that of the input if it is wanted.
    pub fn affine(
        &mut self,
        parameters: &[T],
        layer: &Affine,
        (inner, x): (usize, &[T]),
        gy: &[T],
        gx: Option<&mut Vec<T>>,
    ) {
        add_column_sums(gy, self.at(&layer.bias));
        if !layer.weight.is_empty() {
            self.weight(&layer.weight, inner, x, gy);
        }
        if let Some(gx) = gx {
            gx.resize(x.len(), T::of(0.0));
            if layer.weight.is_empty() {
                return;
            }
            back_input(&parameters[layer.weight.clone()], inner, gy, gx, true);
        }
    }
}
