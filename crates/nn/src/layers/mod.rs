//! The layers of the DiT and of networks of pictures on slices, each with its forward, backward and
//! tangent side by side.
//!
//! These are the fast versions: several operations in one pass over memory, all threads, the
//! widest vectors of the machine. The plain version of each, in tensor operations that read like
//! the formulas, is in `reference`; `tests/conformance.rs` compares the two.
//!
//! # Shapes
//!
//! `B` sequences of `L` positions, `N = B L` rows, `C` channels, `H` heads of `d` channels, `M`
//! numbers of modulation a sequence. Pictures are `[B, H, W, C]`, see [`picture`]; their layers have no
//! tangent, since no network of pictures sees time.

pub mod attention;
pub mod conv;
pub mod gate;
pub mod gelu;
pub mod group_norm;
pub mod norm;
pub mod picture;
pub mod resample;
pub mod rotary;
mod winograd;
