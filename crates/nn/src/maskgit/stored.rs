//! A MaskGIT as a file holds it: the published tensors, and ours too if it has been taught to see steps.

use super::Config;
use crate::{
    checkpoint::{Blueprint, Shapes},
    dit::Step,
    layout::Tensor,
};

/// The sizes of a MaskGIT in a file. Whether the file is ours is told by [`Config::step`]: the published
/// ones see none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored(pub Config);

impl Blueprint for Stored {
    const NAME: &'static str = Config::NAME;
    const MARK: &'static str = Config::MARK;

    fn own(name: &str) -> Option<&str> {
        Config::own(name)
    }

    fn sizes(shapes: &Shapes) -> Result<Self, String> {
        let config = Config::sizes(shapes)?;
        if !shapes.any("step_map.") {
            return Ok(Self(config));
        }
        let step = if shapes.any("correction.") {
            Step::Correction {
                width: shapes.axis("correction.mlp.0.weight", 0)?,
            }
        } else {
            Step::Trunk
        };
        let config = Config {
            conditioning: shapes.axis("step_map.mlp.0.weight", 0)?,
            step,
            ..config
        };
        let config = config.checked().map_err(|error| error.to_string())?;
        Ok(Self(config))
    }

    fn tensors(&self) -> Vec<Tensor> {
        match self.0.step {
            Step::None => self.0.tensors(),
            _ => self.0.layout().tensors,
        }
    }

    fn describe(&self) -> String {
        let seen = match self.0.step {
            Step::None => "",
            Step::Trunk => ", sees t and r",
            Step::Correction { .. } => ", with a correction for t and r",
        };
        format!("{}{seen}", self.0.describe())
    }
}
