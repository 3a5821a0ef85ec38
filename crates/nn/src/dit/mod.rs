//! The diffusion transformer of MDLM, DUO and SDTT, with its exact derivative in `t`.
//!
//! An embedding, blocks of attention and MLP that are modulated by the time (adaLN-zero, rotary
//! positions), a last norm, and a vocabulary head. The trunk ends in *features* `[N, C]`; logits
//! exist only in blocks of rows inside the head, because `[N, V]` is the largest array of all and
//! no consumer needs all of it at once.
//!
//! - [`Config`] and [`Layout`]: sizes, and where each published tensor lies in the flat vector;
//! - `time`: the conditioning vector from `t` and `r`;
//! - `trunk`: the blocks, forward, tangent and backward; `pipeline`: who takes what through them when;
//! - `head`: features to logits and back, in blocks of rows;
//! - `correction`: what a step adds to the features;
//! - `frame`: what MaskGIT has around the same blocks;
//! - `towers`: conditionals of one position given all others;
//! - `model`: [`Dit`], the whole; `run`: its evaluation and way back; `network`: what the rest of the
//!   program sees of it.

mod columns;
mod config;
mod correction;
mod frame;
mod head;
mod layout;
mod linear;
mod matrices;
mod model;
mod network;
mod pipeline;
mod run;
mod time;
mod towers;
mod trunk;

pub use crate::layout::{Affine, Tensor};
pub use config::{Config, Positions, SIZES, Sight, Step, TimeInput};
pub use frame::{Edge, Frame};
pub(crate) use layout::map;
pub use layout::{Block, Correction, FEATURES, Layout};
pub use model::Dit;
pub use run::Pass;
