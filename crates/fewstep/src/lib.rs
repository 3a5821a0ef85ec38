//! Few-step discrete diffusion: objectives, samplers, training, exact evaluation and reports.

pub mod lab;
pub mod objective;
pub mod report;
pub mod verify;
