//! Text and pictures as training data: tokenizers, the passes that prepare them, and memory-mapped blocks.
//!
//! [`prepare()`] reads every source twice. The first pass checks that all of it is text, counts
//! documents and hashes files, so that what is wrong is found before anything is written; the
//! second writes symbols to shards. A [`Dataset`] is the directory it leaves: shards of little-endian
//! integers and a [`Manifest`] that says where they came from and how to read them.

mod dataset;
mod error;
#[cfg(feature = "tokenizers")]
mod hugging_face;
mod json;
mod manifest;
#[cfg(feature = "parquet")]
mod parquet;
mod pictures;
mod prepare;
mod scan;
mod shard;
mod source;
mod stream;
mod tokenizer;

pub use dataset::Dataset;
pub use error::Error;
pub use manifest::{Documents, Manifest, Packing, Part, Settings, Shard, Source, Split};
pub use pictures::{PictureOptions, Pictures, gaps, prepare_codes, prepare_pictures};
pub(crate) use pictures::{each_picture, fit};
pub use prepare::{Options, Prepared, Watch, prepare};
pub(crate) use scan::hex;
pub use tokenizer::{Characters, Description, Tokenizer};
