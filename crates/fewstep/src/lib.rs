//! Few-step discrete diffusion: objectives, samplers, training, exact evaluation and reports.

pub mod bench;
pub mod lab;
pub mod masked;
pub mod objective;
pub mod report;
pub mod verify;
