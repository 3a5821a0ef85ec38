//! Where each tensor lies in the flat parameter vector, by the names of MDLM, DUO and SDTT.
//!
//! All parameters are one vector, so that the optimizer, the average of the weights, clipping and
//! saving are loops over a slice. The order is the order in which the peers register them, which
//! is also the order of the nameless list of averaged weights in their checkpoints. What we add
//! comes last.

use std::ops::Range;

use super::{Config, Frame, Sight, Step};
use crate::{
    layout::{Affine, Builder, Tensor},
    optim::Matrix,
};

/// Features of a sinusoid fed to a time map.
pub const FEATURES: usize = 256;

/// One transformer block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the tensor names.
pub struct Block {
    pub norm1: Range<usize>,
    pub qkv: Range<usize>,
    pub qkv_bias: Option<Range<usize>>,
    pub out: Range<usize>,
    pub out_bias: Option<Range<usize>>,
    pub norm2: Range<usize>,
    pub up: Affine,
    pub down: Affine,
    pub modulation: Affine,
}

/// The head that adds the correction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the tensor names.
pub struct Correction {
    pub norm: Range<usize>,
    pub modulation: Affine,
    pub up: Affine,
    pub down: Affine,
}

impl Correction {
    /// Of a network with `c` channels and a conditioning of `e`.
    pub(crate) fn new(b: &mut Builder, (c, e, width): (usize, usize, usize)) -> Self {
        Self {
            norm: b.add("correction.norm.weight", &[c]),
            modulation: b.affine("correction.adaLN_modulation", 2 * c, e),
            up: b.affine("correction.mlp.0", width, c),
            down: b.affine("correction.mlp.2", c, width),
        }
    }
}

/// Ranges of every tensor, by use and by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the tensor names.
pub struct Layout {
    pub embedding: Range<usize>,
    pub sigma: [Affine; 2],
    pub blocks: Vec<Block>,
    pub norm: Range<usize>,
    pub head: Affine,
    pub modulation: Affine,
    /// The vectors of a picture's cells.
    pub positions: Option<Range<usize>>,
    pub step: Option<[Affine; 2]>,
    pub correction: Option<Correction>,
    /// The MLP that joins two towers.
    pub join: Option<[Affine; 2]>,
    /// What is around the blocks of a MaskGIT.
    pub frame: Option<Frame>,
    /// All of them in order.
    pub tensors: Vec<Tensor>,
}

/// The two layers of a map from a number to the conditioning vector.
pub(crate) fn map(b: &mut Builder, name: &str, conditioning: usize) -> [Affine; 2] {
    [
        b.affine(&format!("{name}.mlp.0"), conditioning, FEATURES),
        b.affine(&format!("{name}.mlp.2"), conditioning, conditioning),
    ]
}

impl Layout {
    /// The layout of a checked config.
    pub fn new(config: &Config) -> Self {
        let (c, e) = (config.width, config.conditioning);
        let mut b = Builder::default();
        let embedding = b.add("vocab_embed.embedding", &[config.vocabulary, c]);
        let sigma = map(&mut b, "sigma_map", e);
        let blocks = (0..config.blocks)
            .map(|i| {
                let name = |part: &str| format!("blocks.{i}.{part}");
                Block {
                    norm1: b.add(name("norm1.weight"), &[c]),
                    qkv: b.add(name("attn_qkv.weight"), &[3 * c, c]),
                    qkv_bias: None,
                    out: b.add(name("attn_out.weight"), &[c, c]),
                    out_bias: None,
                    norm2: b.add(name("norm2.weight"), &[c]),
                    up: b.affine(&name("mlp.0"), 4 * c, c),
                    down: b.affine(&name("mlp.2"), c, 4 * c),
                    modulation: b.affine(&name("adaLN_modulation"), 6 * c, e),
                }
            })
            .collect();
        let norm = b.add("output_layer.norm_final.weight", &[c]);
        let head = b.affine("output_layer.linear", config.vocabulary, c);
        let modulation = b.affine("output_layer.adaLN_modulation", 2 * c, e);
        let cells = config.positions.cells().filter(|&cells| cells > 0);
        let positions = cells.map(|cells| b.add("position_embed.weight", &[cells, c]));
        let step = (config.step != Step::None).then(|| map(&mut b, "step_map", e));
        let correction = match config.step {
            Step::Correction { width } => Some(Correction::new(&mut b, (c, e, width))),
            _ => None,
        };
        let join = match config.sight {
            Sight::Whole => None,
            Sight::Others { width } => Some([
                b.affine("join.mlp.0", width, 2 * c),
                b.affine("join.mlp.2", 2 * c, width),
            ]),
        };
        Self {
            embedding,
            sigma,
            blocks,
            norm,
            head,
            modulation,
            positions,
            step,
            correction,
            join,
            frame: None,
            tensors: b.tensors,
        }
    }

    /// The matrices that states are multiplied by, in blocks and in what we add, for
    /// [`Muon`](crate::optim::Muon): queries, keys and values are three. Embedding, head and
    /// everything that a time goes through are none of them.
    pub fn matrices(&self) -> Vec<Matrix> {
        let at = |start: usize, rows: usize, cols: usize| Matrix { start, rows, cols };
        let of = |layer: &Affine| {
            let rows = layer.bias.len();
            at(layer.weight.start, rows, layer.weight.len() / rows)
        };
        let block = |block: &Block| {
            let c = block.norm1.len();
            let third = |i: usize| at(block.qkv.start + i * c * c, c, c);
            let out = at(block.out.start, c, c);
            [
                third(0),
                third(1),
                third(2),
                out,
                of(&block.up),
                of(&block.down),
            ]
        };
        let mut matrices: Vec<Matrix> = self.blocks.iter().flat_map(block).collect();
        let correction = self.correction.iter().flat_map(|c| [&c.up, &c.down]);
        matrices.extend(correction.chain(self.join.iter().flatten()).map(of));
        matrices.sort_by_key(|matrix| matrix.start);
        matrices
    }

    /// Length of the flat vector.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |tensor| tensor.range.end)
    }

    /// Whether there is nothing in it (there always is).
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The number of parameters of a config, unless it overflows; computed without a layout, so
    /// that sizes read from a file can be refused before anything is allocated for them.
    pub fn parameters(config: &Config) -> Option<usize> {
        let (c, e, v) = (config.width, config.conditioning, config.vocabulary);
        let affine = |out: usize, inner: usize| out.checked_mul(inner.checked_add(1)?);
        let map = affine(e, FEATURES)?.checked_add(affine(e, e)?)?;
        let square = c.checked_mul(c)?;
        let block = square
            .checked_mul(12)?
            .checked_add(c.checked_mul(7)?)?
            .checked_add(affine(c.checked_mul(6)?, e)?)?;
        let head = affine(v, c)?
            .checked_add(affine(c.checked_mul(2)?, e)?)?
            .checked_add(c)?;
        let extra = match config.step {
            Step::None => 0,
            Step::Trunk => map,
            Step::Correction { width } => map
                .checked_add(c)?
                .checked_add(affine(c.checked_mul(2)?, e)?)?
                .checked_add(affine(width, c)?)?
                .checked_add(affine(c, width)?)?,
        };
        let join = match config.sight {
            Sight::Whole => 0,
            Sight::Others { width } => {
                affine(width, c.checked_mul(2)?)?.checked_add(affine(c.checked_mul(2)?, width)?)?
            }
        };
        v.checked_add(config.positions.cells()?)?
            .checked_mul(c)?
            .checked_add(join)?
            .checked_add(map)?
            .checked_add(block.checked_mul(config.blocks)?)?
            .checked_add(head)?
            .checked_add(extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dit::Positions;

    /// What Muon trains, found by the tensors' names.
    fn matrices_by_name(layout: &Layout) -> Vec<Matrix> {
        let of = |tensor: &Tensor| {
            let name = &tensor.name[..];
            let inside = ["blocks.", "correction.", "join."];
            let &[rows, cols] = &tensor.shape[..] else {
                return Vec::new();
            };
            if name.contains("adaLN") || !inside.iter().any(|part| name.starts_with(part)) {
                return Vec::new();
            }
            let parts = if name.contains("qkv") { 3 } else { 1 };
            let rows = rows / parts;
            let start = |i: usize| tensor.range.start + i * rows * cols;
            let part = |i| Matrix {
                start: start(i),
                rows,
                cols,
            };
            (0..parts).map(part).collect()
        };
        layout.tensors.iter().flat_map(of).collect()
    }

    #[test]
    fn names_shapes_and_totals_agree() {
        for step in [Step::None, Step::Trunk, Step::Correction { width: 40 }] {
            let sight = match step {
                Step::Trunk => Sight::Others { width: 30 },
                _ => Sight::Whole,
            };
            let positions = match step {
                Step::Correction { .. } => Positions::Grid {
                    rows: 5,
                    columns: 7,
                },
                _ => Positions::Line,
            };
            let config = Config {
                step,
                sight,
                positions,
                ..Config::named("tiny", 300).unwrap()
            };
            let layout = Layout::new(&config);
            assert_eq!(Some(layout.len()), Layout::parameters(&config));
            let mut end = 0;
            for tensor in &layout.tensors {
                assert_eq!(tensor.range.start, end);
                end += tensor.shape.iter().product::<usize>();
                assert_eq!(tensor.range.end, end);
            }
            assert_eq!(matrices_by_name(&layout), layout.matrices());
        }
        let small = Layout::new(&Config::named("small", 50_258).unwrap());
        assert_eq!(small.tensors.len(), 130);
        assert_eq!(small.tensors[7].name, "blocks.0.attn_out.weight");
        assert_eq!(
            small.tensors[129].name,
            "output_layer.adaLN_modulation.bias"
        );
    }
}
