//! What `fewstep sample` and `fewstep fill` have in common: the run, the grid and the draws.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use fewstep::sequence::{Model, sampler::Decoding};
use fewstep_ctmc::Grid;

use crate::{Failure, parse};

/// Arguments of every command that generates.
#[derive(ClapArgs)]
pub struct Generation {
    /// The run to generate from
    #[arg(long)]
    from: PathBuf,
    /// Steps K of a uniform grid
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Points of any other grid, increasing from 0 to 1, as in 0,0.3,0.7,1
    #[arg(long, conflicts_with = "steps", allow_hyphen_values = true, value_parser = parse::grid)]
    grid: Option<Grid>,
    /// Divides the logits
    #[arg(long, default_value_t = 1.0, value_parser = parse::positive)]
    temperature: f64,
    /// Multiplies the correction; 0 is the denoiser alone
    #[arg(long, default_value_t = 1.0, value_parser = parse::number)]
    pub gain: f64,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl Generation {
    /// The run's model, with the gain set.
    pub fn open(&self) -> Result<Model, Failure> {
        let mut model = Model::open(&self.from).map_err(|e| Failure::Usage(e.to_string()))?;
        if self.gain != 1.0 && !model.corrected() {
            eprintln!("fewstep: this run has no correction; --gain changes nothing");
        }
        model.denoiser.network.gain = self.gain;
        Ok(model)
    }

    /// The grid to walk.
    pub fn grid(&self) -> Result<Grid, Failure> {
        match &self.grid {
            Some(grid) => Ok(grid.clone()),
            None => Grid::uniform(self.steps as usize).map_err(|e| Failure::Usage(e.to_string())),
        }
    }

    /// How predictions of `model` are turned into draws.
    pub fn decoding(&self, model: &Model) -> Decoding {
        Decoding {
            temperature: self.temperature,
            steps: model.corrected(),
            ..Decoding::default()
        }
    }
}
