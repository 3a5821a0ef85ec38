//! What the networks are made of: a state `[B, H, W, C]` that goes through stages.

use super::{
    config::GROUPS,
    layout::{Attention, Filter, Residual, Stage},
};
use crate::{
    Real,
    layers::{
        attention::{self, Shape},
        conv::Conv,
        group_norm::GroupNorm,
        picture::Pictures,
        resample,
    },
    layout::Affine,
};

/// Of every norm.
const EPS: f64 = 1e-6;

/// A state on its way, and arrays that are used again.
pub struct State<'a, T> {
    parameters: &'a [T],
    /// Its sizes.
    pub pictures: Pictures,
    /// `[B, H, W, C]`.
    pub x: Vec<T>,
    normed: Vec<T>,
    hidden: Vec<T>,
}

/// An array of `n` numbers, whatever they are.
fn sized<T: Real>(array: &mut Vec<T>, n: usize) -> &mut [T] {
    array.resize(n, T::of(0.0));
    array
}

impl<'a, T: Real> State<'a, T> {
    /// The state `x` of a network with these parameters.
    pub fn new(parameters: &'a [T], pictures: Pictures, x: Vec<T>) -> Self {
        assert_eq!(x.len(), pictures.size());
        Self {
            parameters,
            pictures,
            x,
            normed: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Takes it through stages.
    pub fn run(mut self, stages: &[Stage]) -> Self {
        for stage in stages {
            match stage {
                Stage::Conv(filter) => self.replace(filter),
                Stage::Residual(block) => self.residual(block),
                Stage::Attention(block) => self.attention(block),
                Stage::Norm(norm) => {
                    self.norm(norm, true);
                    std::mem::swap(&mut self.x, &mut self.normed);
                }
                Stage::Double => {
                    let y = sized(&mut self.hidden, 4 * self.x.len());
                    resample::double(self.pictures, &self.x, y);
                    std::mem::swap(&mut self.x, &mut self.hidden);
                    self.pictures.height *= 2;
                    self.pictures.width *= 2;
                }
            }
        }
        self
    }

    fn conv(&self, filter: &Filter) -> Conv<'a, T> {
        Conv {
            window: filter.window,
            weight: &self.parameters[filter.at.weight.clone()],
            bias: &self.parameters[filter.at.bias.clone()],
            inputs: filter.inputs,
            outputs: filter.outputs,
        }
    }

    /// `x` becomes a convolution of `x`.
    fn replace(&mut self, filter: &Filter) {
        let conv = self.conv(filter);
        let out = filter.window.out(self.pictures, filter.outputs);
        let y = sized(&mut self.hidden, out.size());
        conv.forward(self.pictures, &self.x, y, false);
        std::mem::swap(&mut self.x, &mut self.hidden);
        self.pictures = out;
    }

    fn norm_of(&self, at: &Affine, swish: bool) -> GroupNorm<'a, T> {
        GroupNorm {
            weight: &self.parameters[at.weight.clone()],
            bias: &self.parameters[at.bias.clone()],
            groups: GROUPS,
            eps: EPS,
            swish,
        }
    }

    /// `normed` becomes a norm of `x`.
    fn norm(&mut self, at: &Affine, swish: bool) {
        let norm = self.norm_of(at, swish);
        let y = sized(&mut self.normed, self.x.len());
        norm.forward(self.pictures, &self.x, y);
    }

    /// `x = shortcut(x) + conv2(swish norm2 conv1(swish norm1 x))`.
    fn residual(&mut self, block: &Residual) {
        let inner = self.pictures.with(block.conv1.outputs);
        self.norm(&block.norm1, true);
        let (first, second) = (self.conv(&block.conv1), self.conv(&block.conv2));
        let hidden = sized(&mut self.hidden, inner.size());
        first.forward(self.pictures, &self.normed, hidden, false);
        let norm = self.norm_of(&block.norm2, true);
        let normed = sized(&mut self.normed, inner.size());
        norm.forward(inner, &self.hidden, normed);
        if let Some(shortcut) = &block.shortcut {
            self.replace(shortcut);
        }
        second.forward(inner, &self.normed, &mut self.x, true);
    }

    /// `x += proj_out(softmax(q k^T / sqrt C) v)` over the pixels of a picture.
    fn attention(&mut self, block: &Attention) {
        self.norm(&block.norm, false);
        let n = self.x.len();
        let parts = block.qkv.each_ref().map(|filter| {
            let mut part = vec![T::of(0.0); n];
            let conv = self.conv(filter);
            conv.forward(self.pictures, &self.normed, &mut part, false);
            part
        });
        let length = self.pictures.height * self.pictures.width;
        let shape = Shape {
            heads: self.pictures.count,
            length,
            queries: length,
            width: self.pictures.channels,
            causal: false,
        };
        let mut sums = vec![T::of(0.0); self.pictures.pixels()];
        let [q, k, v] = &parts;
        attention::forward(shape, [q, k, v], &mut self.normed, &mut sums);
        let out = self.conv(&block.out);
        out.forward(self.pictures, &self.normed, &mut self.x, true);
    }
}
