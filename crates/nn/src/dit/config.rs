//! What a DiT is made of: its sizes, what it is told of time, and how it sees a step.

use crate::Error;

/// What of `t` the network is given, as the family of its checkpoint wants it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeInput {
    /// Always zero: MDLM and SDTT, whose masked states show the time themselves.
    Zero,
    /// `t` itself, 0 at noise and 1 at data.
    Time,
    /// `sigma = -ln alpha` with `alpha = eps + (1 - eps) t`: DUO's log-linear schedule, in our
    /// direction of time.
    Sigma {
        /// What is left of the data at pure noise; DUO and MDLM have 1e-3.
        eps: f64,
    },
}

impl TimeInput {
    /// The number fed to the sinusoid, and its derivative in `t`.
    pub fn value(self, t: f64) -> (f64, f64) {
        match self {
            Self::Zero => (0.0, 0.0),
            Self::Time => (t, 1.0),
            Self::Sigma { eps } => {
                let alpha = eps + (1.0 - eps) * t;
                (-alpha.ln(), -(1.0 - eps) / alpha)
            }
        }
    }
}

/// How the network sees the end `r` of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not at all: a denoiser.
    None,
    /// The whole network is conditioned on `r - t` beside `t`, as in the paper. The new map ends
    /// in zeros, so that it starts as the denoiser it came from.
    Trunk,
    /// The trunk stays a denoiser and a small head adds `(r - t) W delta(x, t, r)` to its logits:
    /// base and correction come out of one pass, and a gain on the correction is free. The head
    /// ends in zeros, so that the correction is exactly zero at the start.
    Correction {
        /// Width of the head's hidden layer.
        width: usize,
    },
}

/// How the network tells positions apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Positions {
    /// By rotary angles along a line, as text has it: only distances are seen.
    #[default]
    Line,
    /// As cells of a picture, row by row: half of a head's rotary angles are of the row, half of the
    /// column, so that what is above is as near as what is beside; and every cell has a vector that is
    /// added to its symbol's, so that corners and middle differ where all symbols are noise. What stands
    /// behind the cells has rows of its own, and no vector.
    Grid {
        /// Rows.
        rows: usize,
        /// Cells of a row.
        columns: usize,
    },
}

impl Positions {
    /// The cells that have a vector; `None` if they are too many to count.
    pub fn cells(self) -> Option<usize> {
        match self {
            Self::Line => Some(0),
            Self::Grid { rows, columns } => rows.checked_mul(columns),
        }
    }
}

/// What a prediction is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// The whole sequence: a denoiser.
    #[default]
    Whole,
    /// All positions but the predicted one: conditionals of one coordinate. The trunk runs twice,
    /// along the sequence and against it, each time blind to what is ahead, and an MLP joins what the
    /// two know of a position. The last two symbols are what the two begin with. Of `r` it is told the
    /// distance from `t`, and on which side it lies by the sign of a part of its own.
    Others {
        /// Width of the MLP's hidden layer.
        width: usize,
    },
}

/// The sizes of a DiT, in the shapes of MDLM, DUO and SDTT.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Symbols of the embedding and of the head, the mask included.
    pub vocabulary: usize,
    /// Longest sequence.
    pub length: usize,
    /// Channels `C`.
    pub width: usize,
    /// Transformer blocks.
    pub blocks: usize,
    /// Attention heads.
    pub heads: usize,
    /// Channels of the conditioning vector.
    pub conditioning: usize,
    /// The symbol the network never predicts, if there is one.
    pub mask: Option<usize>,
    /// What the network is given of `t`.
    pub time: TimeInput,
    /// How it sees a step.
    pub step: Step,
    /// What it predicts from.
    pub sight: Sight,
    /// How it tells positions apart.
    pub positions: Positions,
}

/// Names of the published sizes, for [`Config::named`].
pub const SIZES: [&str; 4] = ["tiny", "small", "medium", "large"];

impl Config {
    /// One of the published sizes, for sequences of 1024, as a plain denoiser.
    pub fn named(size: &str, vocabulary: usize) -> Result<Self, Error> {
        let (width, blocks, heads) = match size {
            "tiny" => (256, 8, 8),
            "small" => (768, 12, 12),
            "medium" => (1024, 24, 16),
            "large" => (1536, 24, 16),
            _ => {
                return Err(Error::Config(format!(
                    "no size {size:?}; the sizes are {}",
                    SIZES.join(", ")
                )));
            }
        };
        Self {
            vocabulary,
            length: 1024,
            width,
            blocks,
            heads,
            conditioning: 128,
            mask: None,
            time: TimeInput::Zero,
            step: Step::None,
            sight: Sight::Whole,
            positions: Positions::Line,
        }
        .checked()
    }

    /// The published size these sizes are, if any.
    pub fn size(&self) -> Option<&'static str> {
        SIZES.into_iter().find(|size| {
            Self::named(size, 2).is_ok_and(|named| {
                (named.width, named.blocks, named.heads, named.conditioning)
                    == (self.width, self.blocks, self.heads, self.conditioning)
            })
        })
    }

    /// The config itself if a network can have these sizes.
    pub fn checked(self) -> Result<Self, Error> {
        const MOST: usize = 1 << 24;
        let refuse = |what: String| Err(Error::Config(what));
        for (name, value, least) in [
            ("vocabulary", self.vocabulary, 2),
            ("length", self.length, 1),
            ("width", self.width, 2),
            ("blocks", self.blocks, 1),
            ("heads", self.heads, 1),
            ("conditioning", self.conditioning, 1),
        ] {
            if !(least..=MOST).contains(&value) {
                return refuse(format!("{name} {value} is not in {least}..={MOST}"));
            }
        }
        if !self.width.is_multiple_of(2 * self.heads) {
            return refuse(format!(
                "width {} does not divide into {} heads of even size",
                self.width, self.heads
            ));
        }
        if let Some(mask) = self.mask
            && mask >= self.vocabulary
        {
            return refuse(format!(
                "mask {mask} is not in the vocabulary of {}",
                self.vocabulary
            ));
        }
        if let TimeInput::Sigma { eps } = self.time
            && !(eps > 0.0 && eps < 1.0)
        {
            return refuse(format!("eps {eps} of the schedule is not in (0, 1)"));
        }
        if let Step::Correction { width } = self.step
            && !(1..=MOST).contains(&width)
        {
            return refuse(format!("correction width {width} is not in 1..={MOST}"));
        }
        if let Sight::Others { width } = self.sight
            && (!(1..=MOST).contains(&width) || self.vocabulary < 4)
        {
            return refuse(format!(
                "two towers need a joining width in 1..={MOST} and 2 symbols to begin with: width \
                 {width}, vocabulary {}",
                self.vocabulary
            ));
        }
        if let Positions::Grid { rows, columns } = self.positions {
            let cells = self.positions.cells();
            if cells.is_none_or(|cells| cells == 0 || cells > self.length) {
                return refuse(format!(
                    "{rows} rows of {columns} cells are not in a sequence of {}",
                    self.length
                ));
            }
            if self.sight != Sight::Whole {
                return refuse("two towers see a line, not a picture".into());
            }
        }
        let parameters = super::Layout::parameters(&self);
        if parameters.is_none_or(|n| n > isize::MAX as usize / 16) {
            return refuse("the sizes multiply to more than memory can address".into());
        }
        Ok(self)
    }

    /// Channels of one head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dit::Layout;

    #[test]
    fn published_parameter_totals() {
        for (size, total) in [
            ("small", 169_627_218),
            ("medium", 424_477_010),
            ("large", 863_158_098),
        ] {
            let config = Config::named(size, 50_258).unwrap();
            assert_eq!(Layout::parameters(&config), Some(total), "{size}");
            assert_eq!(config.size(), Some(size));
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let good = Config::named("tiny", 257).unwrap();
        for (bad, word) in [
            (
                Config {
                    heads: 3,
                    ..good.clone()
                },
                "heads",
            ),
            (
                Config {
                    blocks: 0,
                    ..good.clone()
                },
                "blocks",
            ),
            (
                Config {
                    mask: Some(257),
                    ..good.clone()
                },
                "mask",
            ),
            (
                Config {
                    width: usize::MAX,
                    ..good.clone()
                },
                "width",
            ),
            (
                Config {
                    vocabulary: 1 << 24,
                    width: 1 << 24,
                    blocks: 1 << 24,
                    ..good.clone()
                },
                "memory",
            ),
            (
                Config {
                    positions: Positions::Grid {
                        rows: 33,
                        columns: 32,
                    },
                    ..good.clone()
                },
                "cells",
            ),
            (
                Config {
                    positions: Positions::Grid {
                        rows: usize::MAX,
                        columns: 3,
                    },
                    ..good.clone()
                },
                "cells",
            ),
            (
                Config {
                    positions: Positions::Grid {
                        rows: 4,
                        columns: 4,
                    },
                    sight: Sight::Others { width: 8 },
                    ..good.clone()
                },
                "towers",
            ),
        ] {
            let error = bad.checked().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert!(Config::named("huge", 10).is_err());
    }

    #[test]
    fn the_time_input_has_its_derivative() {
        for input in [
            TimeInput::Zero,
            TimeInput::Time,
            TimeInput::Sigma { eps: 1e-3 },
        ] {
            let (t, h) = (0.3, 1e-6);
            let numeric = (input.value(t + h).0 - input.value(t - h).0) / (2.0 * h);
            assert!((numeric - input.value(t).1).abs() < 1e-8);
        }
        let (sigma, _) = TimeInput::Sigma { eps: 1e-3 }.value(0.0);
        assert!((sigma + 1e-3f64.ln()).abs() < 1e-12);
    }
}
