//! The sizes of a VQGAN, as they stand in its config or are read off its tensors.

use super::Layout;
use crate::{
    Error,
    checkpoint::{Blueprint, Shapes},
    layout::Tensor,
};

/// Groups of every norm.
pub(super) const GROUPS: usize = 32;

/// What a VQGAN is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of a picture.
    pub channels: usize,
    /// Channels of every level, from the finest: `ch ch_mult`.
    pub widths: Vec<usize>,
    /// Whether a level has attention after its residual blocks.
    pub attention: Vec<bool>,
    /// Residual blocks a level in the encoder; the decoder has one more.
    pub blocks: usize,
    /// Channels of the encoder's first convolution: `ch`.
    pub first: usize,
    /// Channels between encoder and codebook: `z_channels`.
    pub latent: usize,
    /// Numbers of a code: `embed_dim`.
    pub embedding: usize,
    /// Codes: `n_embed`.
    pub codes: usize,
}

impl Config {
    /// ImageNet's, f16 with 1024 codes.
    pub fn imagenet() -> Self {
        Self {
            channels: 3,
            widths: vec![128, 128, 256, 256, 512],
            attention: vec![false, false, false, false, true],
            blocks: 2,
            first: 128,
            latent: 256,
            embedding: 256,
            codes: 1024,
        }
    }

    /// The config itself if a network can have these sizes.
    pub fn checked(self) -> Result<Self, Error> {
        const MOST: usize = 1 << 14;
        let refuse = |what: String| Err(Error::Config(what));
        let levels = self.widths.len();
        if !(1..=12).contains(&levels) || self.attention.len() != levels {
            return refuse(format!("{levels} levels of a VQGAN are not in 1..=12"));
        }
        let all = self.widths.iter().chain([&self.first]);
        for &width in all {
            if !(GROUPS..=MOST).contains(&width) || !width.is_multiple_of(GROUPS) {
                return refuse(format!(
                    "{width} channels do not divide into {GROUPS} groups of at most {MOST}"
                ));
            }
        }
        for (name, value, most) in [
            ("channels", self.channels, 64),
            ("blocks", self.blocks, 64),
            ("latent channels", self.latent, MOST),
            ("numbers of a code", self.embedding, MOST),
            ("codes", self.codes, 1 << 20),
        ] {
            if !(1..=most).contains(&value) {
                return refuse(format!("{name} {value} is not in 1..={most}"));
            }
        }
        Ok(self)
    }

    /// Pixels, along a side, that become one code.
    pub fn factor(&self) -> usize {
        1 << (self.widths.len() - 1)
    }
}

impl Blueprint for Config {
    const NAME: &'static str = "VQGAN";
    const MARK: &'static str = "quantize.embedding.weight";

    /// All but the loss that it was trained with.
    fn own(name: &str) -> Option<&str> {
        (!name.starts_with("loss.")).then_some(name)
    }

    fn sizes(shapes: &Shapes) -> Result<Self, String> {
        let levels = shapes.count("encoder.down.");
        let level = |i: usize| format!("encoder.down.{i}.block.0.conv1.weight");
        let widths = (0..levels).map(|i| shapes.axis(&level(i), 0));
        let config = Self {
            channels: shapes.axis("encoder.conv_in.weight", 1)?,
            widths: widths.collect::<Result<_, _>>()?,
            attention: (0..levels)
                .map(|i| shapes.any(&format!("encoder.down.{i}.attn.")))
                .collect(),
            blocks: shapes.count("encoder.down.0.block."),
            first: shapes.axis("encoder.conv_in.weight", 0)?,
            latent: shapes.axis("post_quant_conv.weight", 0)?,
            embedding: shapes.axis(Self::MARK, 1)?,
            codes: shapes.axis(Self::MARK, 0)?,
        };
        config.checked().map_err(|error| error.to_string())
    }

    fn tensors(&self) -> Vec<Tensor> {
        Layout::new(self).tensors
    }

    fn describe(&self) -> String {
        let widths: Vec<String> = self.widths.iter().map(usize::to_string).collect();
        format!(
            "{} codes of {}, f{}, levels of {} channels, {} blocks each, {} channels a picture",
            self.codes,
            self.embedding,
            self.factor(),
            widths.join(" "),
            self.blocks,
            self.channels
        )
    }
}
