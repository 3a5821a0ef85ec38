//! Networks: layers whose forward, backward and derivative in `t` stand side by side.
//!
//! The method needs the exact `d/dt` of a network at fixed `r`, under a stop-gradient. No Rust
//! engine has forward mode, so each layer carries its own tangent rule; it runs after the
//! forward pass, on what that pass kept, without a tape of its own.
//!
//! # Shapes
//!
//! `R` rows in a chunk, `I`/`O` inputs and outputs of a layer, `D` coordinates, `S` data symbols,
//! `S'` state symbols. All arrays are row-major. A network is `(x, t, r) -> logits [R, D, S]`.
//!
//! # Precision
//!
//! Everything is generic over [`Real`]: f32 to train, f64 to test the rules against central
//! differences.

mod blind;
pub mod checkpoint;
pub mod conditioned;
mod corrected;
pub mod dit;
mod error;
pub mod features;
pub mod inception;
pub mod kernel;
pub mod layers;
pub mod layout;
pub mod linear;
pub mod maskgit;
pub mod mlp;
mod network;
pub mod opposed;
pub mod optim;
mod real;
#[cfg(feature = "burn")]
pub mod reference;
mod replace;
pub mod silu;
mod simd;
pub mod softmax;
pub mod vq;
pub mod vqgan;

pub use blind::Blind;
pub use conditioned::{Conditioned, Conditioning, Pass};
pub use corrected::Corrected;
pub use error::Error;
pub use mlp::Mlp;
pub use network::{
    Adaptation, Batch, Column, Gradient, Learner, Logits, Network, Rows, Soft, Soften, Want,
    by_rows,
};
pub use opposed::Opposed;
pub use optim::{AdamW, TrainState};
pub use real::Real;
pub use replace::replace;
