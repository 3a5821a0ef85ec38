//! The flat parameter vector as tensors, and the gradient in the same order.
//!
//! [`Layout`] says where each tensor lies; here they are looked up by their range. The three rules
//! of a linear layer are repeated for an [`Affine`], the pair of ranges of one.

use std::ops::Range;

use burn::tensor::{Device, Element, FloatDType, Tensor, TensorData};

use super::{linear, to_vec};
use crate::Real;
use crate::dit::{Affine, Layout};

/// Every tensor of a layout, flat, in its order.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Where each of them lies.
    pub layout: Layout,
    /// Their values.
    pub tensors: Vec<Tensor<1>>,
}

impl Parameters {
    /// Takes them from the flat vector.
    ///
    /// # Panics
    ///
    /// If the vector is shorter than the layout.
    pub fn new<T: Real + Element>(
        layout: Layout,
        flat: &[T],
        device: &Device,
        dtype: FloatDType,
    ) -> Self {
        let tensors = layout
            .tensors
            .iter()
            .map(|tensor| {
                let data =
                    TensorData::new(flat[tensor.range.clone()].to_vec(), [tensor.range.len()]);
                Tensor::from_data(data, (device, dtype.into()))
            })
            .collect();
        Self { layout, tensors }
    }

    /// The tensor of a range, flat.
    pub fn vector(&self, range: &Range<usize>) -> Tensor<1> {
        self.tensors[index(&self.layout, range)].clone()
    }

    /// The tensor of a range, in its two dimensions.
    pub fn matrix(&self, range: &Range<usize>) -> Tensor<2> {
        let shape = &self.layout.tensors[index(&self.layout, range)].shape;
        self.vector(range).reshape([shape[0], shape[1]])
    }

    /// `y = x W^T + b`.
    pub fn forward(&self, affine: &Affine, x: &Tensor<2>) -> Tensor<2> {
        let bias = self.vector(&affine.bias);
        linear::forward(x, &self.matrix(&affine.weight), Some(&bias))
    }

    /// `gx`; the gradients of `W` and `b` go to `gradient`.
    pub fn backward(
        &self,
        affine: &Affine,
        x: &Tensor<2>,
        gy: &Tensor<2>,
        gradient: &mut Gradient,
    ) -> Tensor<2> {
        let (gx, gw, gb) = linear::backward(x, &self.matrix(&affine.weight), gy);
        gradient.add(&affine.weight, gw);
        gradient.add(&affine.bias, gb);
        gx
    }

    /// `dy = dx W^T`.
    pub fn tangent(&self, affine: &Affine, dx: &Tensor<2>) -> Tensor<2> {
        linear::tangent(&self.matrix(&affine.weight), dx)
    }
}

/// The loss's derivative in every parameter.
#[derive(Clone, Debug)]
pub struct Gradient(Parameters);

impl Gradient {
    /// Zero for each parameter.
    pub fn zeros(parameters: &Parameters) -> Self {
        Self(Parameters {
            layout: parameters.layout.clone(),
            tensors: parameters.tensors.iter().map(Tensor::zeros_like).collect(),
        })
    }

    /// Adds to the tensor of a range.
    pub fn add<const D: usize>(&mut self, range: &Range<usize>, value: Tensor<D>) {
        let i = index(&self.0.layout, range);
        self.0.tensors[i].inplace(|sum| sum + value.reshape([range.len()]));
    }

    /// The flat vector.
    pub fn to_vec<T: Real + Element>(&self) -> Vec<T> {
        self.0.tensors.iter().flat_map(to_vec::<T, 1>).collect()
    }
}

/// The place of a range in the list; ranges are in order and not empty.
fn index(layout: &Layout, range: &Range<usize>) -> usize {
    layout
        .tensors
        .partition_point(|tensor| tensor.range.start < range.start)
}
