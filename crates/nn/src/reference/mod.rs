//! The plain reference: every layer of the DiT in burn's tensor operations, formula by formula.
//!
//! Nothing here is fast on purpose. Each layer is a few free functions that a reader can hold
//! against the formula above them; the fused kernels are tested against these, and a GPU runs
//! them as they are. Each layer has three:
//!
//! - `forward`: the value `y = f(x)`;
//! - `backward`: from `gy = d loss / dy` to `gx = d loss / dx`, a product with the transposed
//!   Jacobian, written by hand;
//! - `tangent`: from `dx = dx/dt` to `dy = dy/dt`, a product with the Jacobian itself.
//!
//! The two products are transposes of each other: `sum(gy * dy) = sum(gx * dx)` for any `gy` and
//! `dx`. What a rule needs of the forward pass it takes as arguments or computes again, so that no
//! layer keeps a state.
//!
//! # Names
//!
//! `x` is a value, `dx` its derivative in `t` at fixed `r`, `gx` the loss's derivative in it.
//!
//! # Shapes
//!
//! | letter | is |
//! |---|---|
//! | `B` | sequences of a batch |
//! | `L` | positions of a sequence |
//! | `N = B L` | rows; the rows of a sequence follow each other |
//! | `C` | channels |
//! | `H` | heads |
//! | `d = C / H` | channels of a head, even |
//! | `E` | channels of the conditioning vector |
//! | `V` | symbols |
//!
//! Activations are `[N, C]`, inside attention `[B, H, L, d]`. What depends on the time alone has
//! one row per sequence, `[B, C]`, and is [`spread`] over its positions.
//!
//! # Devices and precision
//!
//! A tensor knows its device and its float type; a layer works in those of its arguments.
//! [`devices`] lists what this build can use. Constants are computed in f64 and rounded once.

pub mod attention;
pub mod block;
pub mod correction;
pub mod dit;
pub mod embedding;
pub mod gate;
pub mod gelu;
pub mod linear;
pub mod norm;
pub mod parameters;
pub mod rotary;
pub mod silu;
pub mod sinusoid;
pub mod softmax;
mod tensor;
pub mod time_map;

pub use dit::{Dit, Pass};
pub use gelu::Gelu;
pub use parameters::{Gradient, Parameters};
pub use tensor::{chunks, collect, devices, from_slice, spread, to_vec};
