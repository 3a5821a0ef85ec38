//! The transformer of MaskGIT (PyTorch, v1.0): codes of a picture and a class to logits of codes.
//!
//! A sequence is `side^2` codes, row by row, and one symbol for the class behind them: codes, the mask,
//! classes, and "no class" for guidance share one embedding. The blocks are the DiT's with constant
//! modulation, so that a norm's bias is the shift and every gate is one; around them are what `dit::Frame`
//! says. Time is no input of the published network. [`Step`](crate::dit::Step) adds ours with
//! parameters that leave its predictions as they are at the start.
//!
//! - [`Config`]: sizes, and where each published tensor lies; [`MaskGit`]: the network; [`Stored`]: either in
//!   a file, published or ours.

mod config;
mod model;
mod stored;

pub use config::Config;
pub use model::MaskGit;
pub use stored::Stored;
