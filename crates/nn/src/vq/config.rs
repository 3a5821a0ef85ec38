//! Sizes, and where the tensors lie.

use std::ops::Range;

use crate::{
    Error,
    checkpoint::{Blueprint, Shapes},
    layout::{Builder, Tensor},
};

/// The most numbers that a patch may be written out to.
const WIDEST: usize = 1 << 14;
/// The most codes: symbols are stored in two bytes, classes behind them.
const MOST_CODES: usize = 1 << 14;
/// Cells that a decoder sees: the patch and those around it.
pub(super) const AROUND: usize = 9;

/// The sizes of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Digits of a patch, `D`.
    pub digits: usize,
    /// Values of a digit, `L`.
    pub levels: usize,
    /// Channels between the layers.
    pub hidden: usize,
    /// Channels of a code's vector, `E`.
    pub embedding: usize,
    /// Codes, `K`.
    pub codes: usize,
}

/// The tensors in their order, and the parts of the flat vector.
#[derive(Clone, Debug)]
pub struct Layout {
    /// All tensors.
    pub tensors: Vec<Tensor>,
    /// Parameters of the encoder.
    pub encoder: Range<usize>,
    /// Parameters of the decoder.
    pub decoder: Range<usize>,
    /// `e [K, E]`.
    pub vectors: Range<usize>,
    /// How often codes were chosen lately, `[K]`.
    pub counts: Range<usize>,
    /// The sum of the vectors that chose them lately, `[K, E]`.
    pub sums: Range<usize>,
}

impl Layout {
    /// Parameters.
    pub fn len(&self) -> usize {
        self.sums.end
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Config {
    /// The sizes themselves if there can be such a network.
    pub fn checked(self) -> Result<Self, Error> {
        let refuse = |what: String| Err(Error::Config(what));
        let wide = self.digits.saturating_mul(self.levels);
        if self.digits == 0 || self.levels < 2 || wide > WIDEST {
            return refuse(format!(
                "patches of {} digits of {} values; use smaller patches or fewer levels, at most {WIDEST} \
                 in all",
                self.digits, self.levels
            ));
        }
        if !(2..=MOST_CODES).contains(&self.codes) {
            return refuse(format!("{} codes; use 2 to {MOST_CODES}", self.codes));
        }
        let sizes = [self.hidden, self.embedding];
        if sizes.iter().any(|size| !(1..=4096).contains(size)) {
            return refuse(format!(
                "{} hidden channels and vectors of {}; use 1 to 4096",
                self.hidden, self.embedding
            ));
        }
        Ok(self)
    }

    /// Layer sizes of the encoder.
    pub(super) fn encoder(&self) -> [usize; 4] {
        let inputs = self.digits * self.levels;
        [inputs, self.hidden, self.hidden, self.embedding]
    }

    /// Layer sizes of the decoder.
    pub(super) fn decoder(&self) -> [usize; 4] {
        let outputs = self.digits * self.levels;
        [AROUND * self.embedding, self.hidden, self.hidden, outputs]
    }

    /// Where everything lies. Digits and levels, cells and channels are axes of their own, so that
    /// shapes tell all sizes.
    pub fn layout(&self) -> Layout {
        let Self {
            digits,
            levels,
            hidden,
            embedding,
            codes,
        } = *self;
        let mut all = Builder::default();
        let mut layer = |name: &str, shape: &[usize], bias: &[usize]| {
            all.add(format!("{name}.weight"), shape);
            all.add(format!("{name}.bias"), bias).end
        };
        layer("encoder.0", &[digits, levels, hidden], &[hidden]);
        layer("encoder.1", &[hidden, hidden], &[hidden]);
        let encoded = layer("encoder.2", &[hidden, embedding], &[embedding]);
        layer("decoder.0", &[AROUND, embedding, hidden], &[hidden]);
        layer("decoder.1", &[hidden, hidden], &[hidden]);
        let decoded = layer("decoder.2", &[hidden, digits, levels], &[digits, levels]);
        let vectors = all.add("codebook.weight", &[codes, embedding]);
        let counts = all.add("codebook.count", &[codes]);
        let sums = all.add("codebook.sum", &[codes, embedding]);
        Layout {
            tensors: all.tensors,
            encoder: 0..encoded,
            decoder: encoded..decoded,
            vectors,
            counts,
            sums,
        }
    }
}

impl Blueprint for Config {
    const NAME: &'static str = "fewstep's tokenizer of pictures";
    const MARK: &'static str = "codebook.sum";

    fn own(name: &str) -> Option<&str> {
        Some(name)
    }

    fn sizes(shapes: &Shapes) -> Result<Self, String> {
        let config = Self {
            digits: shapes.axis("encoder.0.weight", 0)?,
            levels: shapes.axis("encoder.0.weight", 1)?,
            hidden: shapes.axis("encoder.0.weight", 2)?,
            embedding: shapes.axis("codebook.weight", 1)?,
            codes: shapes.axis("codebook.weight", 0)?,
        };
        config.checked().map_err(|error| error.to_string())
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.layout().tensors
    }

    fn describe(&self) -> String {
        format!(
            "{} codes of {} channels, patches of {} digits of {} values, {} hidden channels",
            self.codes, self.embedding, self.digits, self.levels, self.hidden
        )
    }
}
