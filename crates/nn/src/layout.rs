//! Where named tensors lie in a flat vector of parameters.
//!
//! All parameters of a network are one vector, so that the optimizer, the average of the weights,
//! clipping, loading and saving are loops over a slice. A network adds its tensors in order and keeps
//! the ranges it gets.

use std::ops::Range;

/// A named tensor of the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The published name, without any prefix.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Where it lies.
    pub range: Range<usize>,
}

/// `weight` and `bias` of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// `[out, in]`; of a norm `[channels]`.
    pub weight: Range<usize>,
    /// `[out]`.
    pub bias: Range<usize>,
}

/// A vector that grows by tensors.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    /// Those it has.
    pub tensors: Vec<Tensor>,
    end: usize,
}

impl Builder {
    /// Adds a tensor behind all others.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize]) -> Range<usize> {
        let range = self.end..self.end + shape.iter().product::<usize>();
        self.end = range.end;
        self.tensors.push(Tensor {
            name: name.into(),
            shape: shape.to_vec(),
            range: range.clone(),
        });
        range
    }

    /// Adds `name.weight [out, in]` and `name.bias [out]`.
    pub fn affine(&mut self, name: &str, out: usize, inner: usize) -> Affine {
        Affine {
            weight: self.add(format!("{name}.weight"), &[out, inner]),
            bias: self.add(format!("{name}.bias"), &[out]),
        }
    }

    /// Adds `name.weight [channels]` and `name.bias [channels]`.
    pub fn norm(&mut self, name: &str, channels: usize) -> Affine {
        Affine {
            weight: self.add(format!("{name}.weight"), &[channels]),
            bias: self.add(format!("{name}.bias"), &[channels]),
        }
    }
}
