//! The layers of the DiT on slices, each with its forward, backward and tangent side by side.
//!
//! These are the fast versions: several operations in one pass over memory, all threads, the
//! widest vectors of the machine. The plain version of each, in tensor operations that read like
//! the formulas, is in `reference`; `tests/conformance.rs` compares the two.
//!
//! # Shapes
//!
//! `B` sequences of `L` positions, `N = B L` rows, `C` channels, `H` heads of `d` channels, `M`
//! numbers of modulation a sequence.

pub mod attention;
pub mod gate;
pub mod gelu;
pub mod norm;
pub mod rotary;
