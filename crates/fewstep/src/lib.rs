//! Few-step discrete diffusion: objectives, samplers, training, exact evaluation and reports.

pub mod audit;
pub mod bench;
pub mod compare;
pub mod data;
pub mod image;
pub mod judge;
pub mod lab;
pub mod method;
pub mod metrics;
pub mod objective;
pub mod paint;
pub mod report;
pub mod sequence;
pub mod text;
pub mod verify;
