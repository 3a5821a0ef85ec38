//! The diffusion transformer of MDLM, DUO and SDTT.

mod config;
mod layout;

pub use config::{Config, SIZES, Step, TimeInput};
pub use layout::{Affine, Block, Correction, FEATURES, Layout, Tensor};
