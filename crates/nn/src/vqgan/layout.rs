//! Where each tensor of a VQGAN lies in the flat vector, by its published name.

use std::ops::Range;

use super::Config;
use crate::{
    layers::picture::Window,
    layout::{Affine, Builder, Tensor},
};

/// A convolution of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// How its window moves.
    pub window: Window,
    /// Channels in.
    pub inputs: usize,
    /// Channels out.
    pub outputs: usize,
    /// Its weight, published as `[out, in, h, w]`, and bias.
    pub at: Affine,
}

/// A residual block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the tensor names.
pub struct Residual {
    pub norm1: Affine,
    pub conv1: Filter,
    pub norm2: Affine,
    pub conv2: Filter,
    pub shortcut: Option<Filter>,
}

/// Attention over all pixels, one head.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the tensor names.
pub struct Attention {
    pub norm: Affine,
    pub qkv: [Filter; 3],
    pub out: Filter,
}

/// What a network does one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A convolution as it is.
    Conv(Filter),
    /// A residual block.
    Residual(Residual),
    /// Attention.
    Attention(Attention),
    /// Every pixel becomes four.
    Double,
    /// The last norm, with its swish.
    Norm(Affine),
}

/// Both networks and the codebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Pictures to vectors.
    pub encoder: Vec<Stage>,
    /// Codes to pictures.
    pub decoder: Vec<Stage>,
    /// `[codes, embedding]`.
    pub codebook: Range<usize>,
    /// All tensors in order.
    pub tensors: Vec<Tensor>,
}

/// The convolution that halves a picture: a border below and on the right alone.
const HALVE: Window = Window {
    size: [3, 3],
    stride: 2,
    before: [0, 0],
    after: [1, 1],
};
const ONE: Window = Window::same(1, 1);
const THREE: Window = Window::same(3, 3);

fn filter(
    b: &mut Builder,
    name: &str,
    (inputs, outputs): (usize, usize),
    window: Window,
) -> Filter {
    let [height, width] = window.size;
    Filter {
        window,
        inputs,
        outputs,
        at: Affine {
            weight: b.add(format!("{name}.weight"), &[outputs, inputs, height, width]),
            bias: b.add(format!("{name}.bias"), &[outputs]),
        },
    }
}

fn residual(b: &mut Builder, name: &str, (inputs, outputs): (usize, usize)) -> Stage {
    let part = |part: &str| format!("{name}.{part}");
    Stage::Residual(Residual {
        norm1: b.norm(&part("norm1"), inputs),
        conv1: filter(b, &part("conv1"), (inputs, outputs), THREE),
        norm2: b.norm(&part("norm2"), outputs),
        conv2: filter(b, &part("conv2"), (outputs, outputs), THREE),
        shortcut: (inputs != outputs)
            .then(|| filter(b, &part("nin_shortcut"), (inputs, outputs), ONE)),
    })
}

fn attention(b: &mut Builder, name: &str, channels: usize) -> Stage {
    let square = (channels, channels);
    Stage::Attention(Attention {
        norm: b.norm(&format!("{name}.norm"), channels),
        qkv: ["q", "k", "v"].map(|part| filter(b, &format!("{name}.{part}"), square, ONE)),
        out: filter(b, &format!("{name}.proj_out"), square, ONE),
    })
}

fn middle(b: &mut Builder, name: &str, channels: usize) -> [Stage; 3] {
    [
        residual(b, &format!("{name}.mid.block_1"), (channels, channels)),
        attention(b, &format!("{name}.mid.attn_1"), channels),
        residual(b, &format!("{name}.mid.block_2"), (channels, channels)),
    ]
}

/// Blocks of a level, each followed by attention where the level has it.
fn level(
    b: &mut Builder,
    name: &str,
    (mut inputs, outputs): (usize, usize),
    (blocks, attends): (usize, bool),
) -> Vec<Stage> {
    let mut stages = Vec::new();
    for i in 0..blocks {
        stages.push(residual(b, &format!("{name}.block.{i}"), (inputs, outputs)));
        if attends {
            stages.push(attention(b, &format!("{name}.attn.{i}"), outputs));
        }
        inputs = outputs;
    }
    stages
}

impl Layout {
    /// The layout of a checked config.
    pub fn new(config: &Config) -> Self {
        let b = &mut Builder::default();
        let (levels, widths) = (config.widths.len(), &config.widths);
        let deepest = widths[levels - 1];

        let edges = (config.channels, config.first);
        let mut encoder = vec![Stage::Conv(filter(b, "encoder.conv_in", edges, THREE))];
        let mut inputs = config.first;
        for (i, (&outputs, &attends)) in widths.iter().zip(&config.attention).enumerate() {
            let name = format!("encoder.down.{i}");
            encoder.extend(level(b, &name, (inputs, outputs), (config.blocks, attends)));
            if i + 1 < levels {
                let name = format!("{name}.downsample.conv");
                encoder.push(Stage::Conv(filter(b, &name, (outputs, outputs), HALVE)));
            }
            inputs = outputs;
        }
        encoder.extend(middle(b, "encoder", deepest));
        encoder.push(Stage::Norm(b.norm("encoder.norm_out", deepest)));
        let edges = (deepest, config.latent);
        encoder.push(Stage::Conv(filter(b, "encoder.conv_out", edges, THREE)));
        let edges = (config.latent, config.embedding);
        encoder.push(Stage::Conv(filter(b, "quant_conv", edges, ONE)));

        let codebook = b.add(
            "quantize.embedding.weight",
            &[config.codes, config.embedding],
        );

        let edges = (config.embedding, config.latent);
        let mut decoder = vec![Stage::Conv(filter(b, "post_quant_conv", edges, ONE))];
        let edges = (config.latent, deepest);
        decoder.push(Stage::Conv(filter(b, "decoder.conv_in", edges, THREE)));
        decoder.extend(middle(b, "decoder", deepest));
        let mut inputs = deepest;
        for (i, (&outputs, &attends)) in widths.iter().zip(&config.attention).enumerate().rev() {
            let name = format!("decoder.up.{i}");
            let blocks = (config.blocks + 1, attends);
            decoder.extend(level(b, &name, (inputs, outputs), blocks));
            if i > 0 {
                decoder.push(Stage::Double);
                let name = format!("{name}.upsample.conv");
                decoder.push(Stage::Conv(filter(b, &name, (outputs, outputs), THREE)));
            }
            inputs = outputs;
        }
        decoder.push(Stage::Norm(b.norm("decoder.norm_out", inputs)));
        let edges = (inputs, config.channels);
        decoder.push(Stage::Conv(filter(b, "decoder.conv_out", edges, THREE)));
        Self {
            encoder,
            decoder,
            codebook,
            tensors: std::mem::take(&mut b.tensors),
        }
    }

    /// Length of the flat vector.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |tensor| tensor.range.end)
    }

    /// Whether there is nothing in it (there always is).
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_network_has_its_published_size() {
        let layout = Layout::new(&Config::imagenet());
        assert_eq!((layout.len(), layout.tensors.len()), (72_141_699, 343));
        let of = |prefix: &str| {
            let mine = layout.tensors.iter().filter(|t| t.name.starts_with(prefix));
            mine.map(|t| t.range.len()).sum::<usize>()
        };
        assert_eq!((of("encoder."), of("decoder.")), (29_298_176, 42_449_795));
        for (name, shape) in [
            (
                "encoder.down.2.block.0.nin_shortcut.weight",
                [256, 128, 1, 1],
            ),
            ("encoder.down.4.attn.1.proj_out.weight", [512, 512, 1, 1]),
            ("encoder.down.3.downsample.conv.weight", [256, 256, 3, 3]),
            ("decoder.up.1.block.0.nin_shortcut.weight", [128, 256, 1, 1]),
            ("decoder.up.1.upsample.conv.weight", [128, 128, 3, 3]),
        ] {
            let tensor = layout.tensors.iter().find(|t| t.name == name);
            assert_eq!(tensor.map(|t| &t.shape[..]), Some(&shape[..]), "{name}");
        }
    }
}
