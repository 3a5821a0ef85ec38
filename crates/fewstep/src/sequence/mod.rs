//! Long sequences: what the lab does by enumeration, done with draws and a transformer.
//!
//! A [`Path`](fewstep_ctmc::Path) corrupts data ([`Examples`]), a denoiser is trained on it
//! ([`base`]), the average generator on top of that ([`average`]), and a [`sampler`] walks a grid
//! with either. These are generic over the network; a [`Setting`] puts them together with data and
//! a DiT, and a [`Trainer`] runs it.

pub mod average;
pub mod base;
mod corpus;
mod denoiser;
mod error;
pub mod evaluate;
mod examples;
pub(crate) mod json;
pub mod marginals;
mod metrics;
mod model;
mod oracle;
pub mod sampler;
mod setting;
mod tensorboard;
mod times;
pub mod trace;
mod train;

pub use corpus::{Corpus, Use};
pub use denoiser::{Denoiser, Prediction};
pub use error::RunError;
pub use examples::Examples;
pub use model::Model;
pub use oracle::Oracle;
pub use setting::{Acceleration, CHAINS, Chain, Data, Optimization, Pairs, Setting, Sizes, Target};
pub use train::{Outcome, Trainer};
