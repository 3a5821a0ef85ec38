//! The VQGAN of taming-transformers: pictures to codes of a codebook and back.
//!
//! An encoder of residual blocks halves a picture a few times and ends in vectors, the nearest code
//! takes the place of each, and a decoder makes the picture again. ImageNet's (f16, 1024 codes) turns
//! 256 x 256 pixels into 16 x 16 codes.
//!
//! - [`Config`] and [`Layout`]: sizes, and where each published tensor lies;
//! - `block`: residual blocks and attention over pixels;
//! - [`Vqgan`]: encode, quantise, decode.

mod block;
mod config;
mod layout;
mod model;

pub use config::Config;
pub use layout::Layout;
pub use model::Vqgan;
