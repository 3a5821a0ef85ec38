//! A small tokenizer of pictures that is trained on a CPU in a minute: patches to codes and back.
//!
//! A patch is `D` digits of `L` values, as pixels of grey levels, of colours or of colours' channels
//! are. A perceptron takes the digits of one patch to a vector, the nearest vector of the codebook is its
//! code, and another perceptron takes the codebook's vectors of a patch and of the eight around it to
//! the law of its digits:
//!
//! ```text
//! z = encoder(patch)        k = argmin_k |z - e_k|^2        law = decoder(e_k around it)
//! loss = -ln law(patch) + beta |z - sg(e_k)|^2
//! ```
//!
//! The gradient goes straight through the choice of `k`. Codes have no gradient; they follow the
//! vectors that chose them ([`Codebook`]).
//!
//! Encoding sees one patch alone: a picture with gaps has codes where no patch is cut, and equal
//! patches have equal codes. Decoding sees the neighbours, since a code for every edge of every
//! stroke would be wasted on what the neighbours say.
//!
//! # Shapes
//!
//! `B` pictures of `H x W` cells, `N = B H W` patches, `E` channels of a vector, `K` codes.

mod codebook;
mod config;
mod model;

pub use codebook::{Codebook, perplexity};
pub use config::{Config, Layout};
pub use model::{Cells, Learned, Vq};
