//! Long sequences: what the lab does by enumeration, done with draws and a transformer.
//!
//! A [`Path`](fewstep_ctmc::Path) corrupts data ([`Examples`]), a denoiser is trained on it
//! ([`base`]), the average generator on top of that ([`average`]), and a [`sampler`] walks a grid
//! with either. These are generic over the network; a [`Setting`] puts them together with data and
//! a DiT, and a [`Trainer`] runs it.

mod acceleration;
pub mod average;
pub mod base;
mod corpus;
mod coupling;
pub mod curriculum;
mod denoiser;
mod error;
pub mod evaluate;
mod examples;
pub(crate) mod json;
pub mod marginals;
mod metrics;
mod model;
mod oracle;
pub mod order;
pub mod sampler;
mod setting;
mod tensorboard;
pub(crate) mod times;
pub mod trace;
mod train;

pub use acceleration::{Acceleration, Accelerator, Average, Matching, Pairs, Target};
pub use base::Loss;
pub use corpus::{Corpus, Use};
pub use curriculum::Curriculum;
pub(crate) use denoiser::own_logit;
pub use denoiser::{Denoiser, Prediction};
pub use error::RunError;
pub use examples::Examples;
pub use model::Model;
pub use oracle::{Exact, Oracle};
pub use setting::{Chain, Data, Optimization, Optimizer, Setting, Sizes};
pub use train::{Outcome, Trainer};
