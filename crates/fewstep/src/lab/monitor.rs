//! How the experiment tells what it is doing, and how it is told to stop.

use serde::Serialize;

/// A line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// `base` or the name of a correction.
    pub stage: String,
    /// The seed.
    pub seed: u64,
    /// Training steps done.
    pub step: u64,
    /// Learning rate.
    pub rate: f64,
    /// The loss, mean since the last line.
    pub loss: f64,
    /// Mean `|q^ - p_{1|t}|` over entries: the residual of the projected identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_residual: Option<f64>,
    /// What else the method has to say.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub more: Option<serde_json::Value>,
}

/// Watches an experiment.
pub trait Monitor: Sync {
    /// A stage of `total` units begins.
    fn begin(&self, stage: &str, total: u64);
    /// `done` of its units are done. Stages of different seeds run side by side.
    fn advance(&self, stage: &str, done: u64);
    /// The stage has ended.
    fn end(&self, stage: &str);
    /// A measurement of training.
    fn metric(&self, metric: &Metric);
    /// Whether to stop here and report what there is.
    fn stopped(&self) -> bool;
}

/// Watches nothing and never stops.
pub struct Silent;

impl Monitor for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: &str, _: u64) {}
    fn end(&self, _: &str) {}
    fn metric(&self, _: &Metric) {}
    fn stopped(&self) -> bool {
        false
    }
}
