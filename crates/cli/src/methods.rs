//! The names of methods and their settings, as they are typed.

use clap::ValueEnum;
use fewstep::method::{Divergence, sdtt::Spacing};

/// What makes fewer steps do.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The average generator, a correction on top of the run
    Dag,
    /// Law matching: the law of each step is made right, from uniform noise
    Law,
    /// Self-distillation through time
    Sdtt,
    /// DUO's consistency distillation, from uniform noise
    Dcd,
    /// A mixture student, by a latent behind the sequence
    Di4c,
    /// Rectification on pairs that the run generates, from uniform noise
    Redi,
}

/// What is made small between student and teacher.
#[derive(Clone, Copy, ValueEnum)]
pub enum DivergenceName {
    /// KL(student || teacher)
    BackwardKl,
    /// KL(teacher || student)
    ForwardKl,
    /// Mean squared difference of log probabilities
    Mse,
    /// Total variation
    Tv,
}

impl From<DivergenceName> for Divergence {
    fn from(name: DivergenceName) -> Self {
        match name {
            DivergenceName::BackwardKl => Self::BackwardKl,
            DivergenceName::ForwardKl => Self::ForwardKl,
            DivergenceName::Mse => Self::Mse,
            DivergenceName::Tv => Self::Tv,
        }
    }
}

/// Where the steps of SDTT's teacher start.
#[derive(Clone, Copy, ValueEnum)]
pub enum SpacingName {
    /// One after the other, as SDTT is described
    Even,
    /// As in its released code
    Released,
}

impl From<SpacingName> for Spacing {
    fn from(name: SpacingName) -> Self {
        match name {
            SpacingName::Even => Self::Even,
            SpacingName::Released => Self::Released,
        }
    }
}
