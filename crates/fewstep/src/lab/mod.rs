//! The exact lab: train a denoiser and its correction on a law we know, then compute the law of
//! the few-step sampler exactly (appendix sim-exact).
//!
//! ```text
//! config -> chain -> base -> correction -> evaluate -> report
//!                      (enumerated)          (exact)
//! ```
//!
//! Nothing reported is estimated from samples: the sampler's law is propagated over all states.

pub(crate) mod base;
pub(crate) mod batch;
mod config;
mod correction;
mod evaluate;
pub(crate) mod exact;
mod experiment;
mod jumps;
mod monitor;
mod paper;

pub use config::{Config, ConfigError, GainRule, Options, Recipe, SourceKind, Training};
pub(crate) use experiment::paper_rows;
pub use experiment::{LabError, run};
pub use monitor::{Metric, Monitor, Silent};
