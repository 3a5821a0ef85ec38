//! The Inception network of 2015-12-05 by which pictures are judged (FID, Inception Score).
//!
//! It is the classifier that the FID was defined by, not one of the same name in a library: its
//! last but one pool takes the largest, means leave out what lies outside, and pictures come to 299 x 299
//! by the resize of TensorFlow 1. Features are the 2048 numbers of the last pool; where the weights have
//! a head (`output.weight`), there are 1008 logits too, without a bias, as the Inception Score wants.
//!
//! - `plan`: the network as a tree of steps, by [`Config`];
//! - `model`: [`Inception`], the same with weights.

mod model;
mod plan;

pub use model::{Inception, Judged};
pub use plan::Config;
