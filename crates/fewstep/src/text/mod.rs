//! The experiment on sequences: denoisers and their accelerations, sampled in few steps and measured
//! against the law of the data, and the report of it.
//!
//! [`Findings`] are plain data and round-trip through JSON; every view is a function of them.

mod compare;
mod controls;
mod curve;
pub(crate) mod experiment;
mod frontier;
mod html;
pub(crate) mod plan;
pub(crate) mod points;
#[cfg(test)]
mod sample;
mod svg;
mod terminal;
mod write;

use serde::{Deserialize, Serialize};

pub use controls::{CONTROLS, Control, control};
pub use experiment::run;
pub use frontier::{Matched, best, frontier, matched};
pub use html::html;
pub use plan::{Method, Plan};
pub use svg::{frontier_charts, quality_chart};
pub use terminal::table;
pub use write::write;

use crate::sequence::{evaluate::Quality, marginals::Marginals};

/// Sequences of one way of sampling, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// `masked`, `uniform` or `uniform-state`; empty for the controls.
    pub chain: String,
    /// `base`, `linear`, `paper`, `exact` (the exact denoiser), or a control: `data`, `unigram`,
    /// `bigram`.
    pub method: String,
    /// The seed of the training and of the draws.
    pub seed: u64,
    /// Steps; 0 for the controls.
    pub k: usize,
    /// Evaluations of the network that a sequence took.
    pub nfe: usize,
    /// Divided the logits.
    pub temperature: f64,
    /// Multiplied the correction.
    pub gain: f64,
    /// What was measured.
    pub quality: Quality,
    /// The first sequence, as a person reads it.
    pub sample: String,
}

/// One training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// As in [`Point::chain`].
    pub chain: String,
    /// `base`, `linear` or `paper`.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Optimizer steps.
    pub steps: u64,
    /// The denoiser's bound on validation sequences, in nats a symbol.
    pub bound: f64,
    /// The exact denoiser's on the same ones.
    pub exact_bound: Option<f64>,
    /// Seconds it took, over all interruptions.
    pub seconds: f64,
    /// Parameters that were trained.
    pub parameters: usize,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The program's version.
    pub version: String,
    /// What was asked for, in one line.
    pub setting: String,
    /// Symbols, positions of a sequence, and sequences behind each point.
    pub sizes: (usize, usize, usize),
    /// Whether samples are judged by a language that was fitted to the data, whose law is not known.
    #[serde(default)]
    pub fitted: bool,
    /// The entropy of the language a symbol, in nats, and its standard error; where it was fitted, what it
    /// says of the data's own sequences.
    pub entropy: (f64, f64),
    /// The trainings.
    pub trainings: Vec<Training>,
    /// The points.
    pub points: Vec<Point>,
    /// Learned marginals against exact ones.
    #[serde(default)]
    pub marginals: Vec<Marginal>,
}

/// How far the marginals of a step are from those of the exact chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marginal {
    /// As in [`Point::chain`].
    pub chain: String,
    /// `linear` or `paper`.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Steps of the grid.
    pub k: usize,
    /// What was found.
    pub found: Marginals,
}
