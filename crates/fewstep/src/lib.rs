//! Few-step discrete diffusion: objectives, samplers, training, exact evaluation and reports.

pub mod objective;
pub mod report;
