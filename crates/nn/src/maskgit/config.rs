//! The sizes of a MaskGIT and the layout of its parameters.

use crate::{
    Error,
    checkpoint::{Blueprint, Shapes},
    dit::{self, Block, Correction, Edge, Frame, Layout, Sight, Step, TimeInput},
    layout::{Affine, Builder, Tensor},
};

/// Channels of a head in the published networks; no tensor tells.
const HEAD: usize = 48;
/// Classes of ImageNet; the tensors only tell codes and classes together.
const CLASSES: usize = 1000;

/// What a MaskGIT is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Codes of the tokenizer.
    pub codes: usize,
    /// Classes, without "no class".
    pub classes: usize,
    /// Codes along a side of a picture.
    pub side: usize,
    /// Channels.
    pub width: usize,
    /// Transformer blocks.
    pub blocks: usize,
    /// Attention heads.
    pub heads: usize,
    /// Channels of the conditioning vector, if it sees a step.
    pub conditioning: usize,
    /// How it sees a step.
    pub step: Step,
    /// Whether it may predict the mask, as the published sampler lets it.
    pub predicts_mask: bool,
}

impl Config {
    /// ImageNet's, for 256 or 512 pixels a side and the VQGAN with 1024 codes.
    pub fn imagenet(pixels: usize) -> Result<Self, Error> {
        if ![256, 512].contains(&pixels) {
            let what = format!("no MaskGIT for {pixels} pixels; there are 256 and 512");
            return Err(Error::Config(what));
        }
        Ok(Self {
            codes: 1024,
            classes: CLASSES,
            side: pixels / 16,
            width: 768,
            blocks: 24,
            heads: 16,
            conditioning: 128,
            step: Step::None,
            predicts_mask: false,
        })
    }

    /// The config itself if a network can have these sizes.
    pub fn checked(self) -> Result<Self, Error> {
        for (name, value, most) in [
            ("codes", self.codes, 1 << 20),
            ("classes", self.classes, 1 << 20),
            ("side", self.side, 1 << 10),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::Config(format!(
                    "{name} {value} is not in 1..={most}"
                )));
            }
        }
        self.inner().checked()?;
        Ok(self)
    }

    /// The symbol of a masked code.
    pub fn mask(&self) -> usize {
        self.codes
    }

    /// The symbol of a class, or of none.
    pub fn class(&self, class: Option<usize>) -> usize {
        self.codes + 1 + class.unwrap_or(self.classes)
    }

    /// Symbols in all: codes, mask, classes, no class.
    pub fn vocabulary(&self) -> usize {
        self.codes + self.classes + 2
    }

    /// Symbols of a sequence: codes and the class.
    pub fn length(&self) -> usize {
        self.side * self.side + 1
    }

    /// The same as a DiT.
    pub(super) fn inner(&self) -> dit::Config {
        dit::Config {
            vocabulary: self.vocabulary(),
            length: self.length(),
            width: self.width,
            blocks: self.blocks,
            heads: self.heads,
            conditioning: self.conditioning,
            mask: (!self.predicts_mask).then_some(self.mask()),
            time: TimeInput::Time,
            step: self.step,
            sight: Sight::Whole,
            positions: dit::Positions::Line,
        }
    }

    pub(super) fn layout(&self) -> Layout {
        let (c, e) = (self.width, self.conditioning);
        let (vocabulary, length) = (self.vocabulary(), self.length());
        let mut b = Builder::default();
        let none = || Affine {
            weight: 0..0,
            bias: 0..0,
        };
        let embedding = b.add("tok_emb.weight", &[vocabulary, c]);
        let positions = b.add("pos_emb", &[1, length, c]);
        let first = edge(&mut b, "first_layer", c);
        let entry = b.affine("first_layer.6", c, c);
        let blocks = (0..self.blocks).map(|i| self.block(&mut b, i)).collect();
        let last = edge(&mut b, "last_layer", c);
        let biases = b.add("bias", &[length, vocabulary]);
        let sees = self.step != Step::None;
        let sigma = if sees {
            dit::map(&mut b, "time_map", e)
        } else {
            [none(), none()]
        };
        let step = sees.then(|| dit::map(&mut b, "step_map", e));
        let correction = match self.step {
            Step::Correction { width } => Some(Correction::new(&mut b, (c, e, width))),
            _ => None,
        };
        let symbols = self.codes + 1;
        Layout {
            head: Affine {
                weight: embedding.start..embedding.start + symbols * c,
                bias: biases.clone(),
            },
            embedding,
            sigma,
            blocks,
            norm: 0..0,
            modulation: none(),
            positions: None,
            step,
            correction,
            join: None,
            frame: Some(Frame {
                positions,
                first,
                entry,
                last,
                biases,
                symbols,
            }),
            tensors: b.tensors,
        }
    }

    fn block(&self, b: &mut Builder, i: usize) -> Block {
        let (c, name) = (self.width, format!("transformer.layers.{i}"));
        let part = |part: &str| format!("{name}.{part}");
        let norm1 = b.add(part("0.norm.weight"), &[c]);
        // One row of shift, scale and gate for each branch; a shift is a norm's bias.
        let start = b.add(part("0.norm.bias"), &[c]).start;
        b.add(part("0.modulation"), &[2 * c]);
        b.add(part("1.norm.bias"), &[c]);
        let end = b.add(part("1.modulation"), &[2 * c]).end;
        Block {
            norm1,
            qkv: b.add(part("0.fn.mha.in_proj_weight"), &[3 * c, c]),
            qkv_bias: Some(b.add(part("0.fn.mha.in_proj_bias"), &[3 * c])),
            out: b.add(part("0.fn.mha.out_proj.weight"), &[c, c]),
            out_bias: Some(b.add(part("0.fn.mha.out_proj.bias"), &[c])),
            norm2: b.add(part("1.norm.weight"), &[c]),
            up: b.affine(&part("1.fn.net.0"), 4 * c, c),
            down: b.affine(&part("1.fn.net.3"), c, 4 * c),
            modulation: Affine {
                weight: match self.step {
                    Step::Trunk => b.add(part("modulation.weight"), &[6 * c, self.conditioning]),
                    _ => 0..0,
                },
                bias: start..end,
            },
        }
    }
}

fn edge(b: &mut Builder, name: &str, c: usize) -> Edge {
    Edge {
        before: b.norm(&format!("{name}.0"), c),
        linear: b.affine(&format!("{name}.2"), c, c),
        after: b.norm(&format!("{name}.4"), c),
    }
}

/// Whether the published network has a tensor of this name.
pub(super) fn published(name: &str) -> bool {
    let ours = ["modulation", "time_map.", "step_map.", "correction."];
    !ours.iter().any(|part| name.contains(part))
}

impl Blueprint for Config {
    const NAME: &'static str = "MaskGIT";
    const MARK: &'static str = "tok_emb.weight";

    /// Without the wrappers of training on several devices.
    fn own(name: &str) -> Option<&str> {
        let name = name.strip_prefix("module.").unwrap_or(name);
        Some(name.strip_prefix("_orig_mod.").unwrap_or(name))
    }

    fn sizes(shapes: &Shapes) -> Result<Self, String> {
        let vocabulary = shapes.axis(Self::MARK, 0)?;
        let width = shapes.axis(Self::MARK, 1)?;
        let length = shapes.axis("pos_emb", 1)?;
        let side = (length - 1).isqrt();
        if side * side + 1 != length {
            return Err(format!(
                "{length} positions are no square of codes and a class"
            ));
        }
        if vocabulary < CLASSES + 3 {
            return Err(format!(
                "{vocabulary} symbols are no codes and {CLASSES} classes"
            ));
        }
        if !width.is_multiple_of(HEAD) {
            return Err(format!(
                "width {width} does not divide into heads of {HEAD} channels"
            ));
        }
        let config = Self {
            codes: vocabulary - CLASSES - 2,
            classes: CLASSES,
            side,
            width,
            blocks: shapes.count("transformer.layers."),
            heads: width / HEAD,
            conditioning: 128,
            step: Step::None,
            predicts_mask: false,
        };
        config.checked().map_err(|error| error.to_string())
    }

    fn tensors(&self) -> Vec<Tensor> {
        let mut b = Builder::default();
        for tensor in self.layout().tensors {
            if published(&tensor.name) {
                b.add(tensor.name, &tensor.shape);
            }
        }
        b.tensors
    }

    fn describe(&self) -> String {
        format!(
            "{0} x {0} codes of {1}, {2} classes, width {3}, {4} blocks, {5} heads",
            self.side, self.codes, self.classes, self.width, self.blocks, self.heads
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_network_has_its_published_size() {
        let total = |pixels: usize| {
            let tensors = Config::imagenet(pixels).unwrap().tensors();
            tensors.iter().map(|t| t.range.len()).sum::<usize>()
        };
        assert_eq!(total(256), 174_160_874);
        assert_eq!(total(512) - total(256), 768 * (768 + 2026));
        assert!(Config::imagenet(128).is_err());
    }
}
