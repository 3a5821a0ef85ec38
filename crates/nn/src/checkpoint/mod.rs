//! Checkpoints: the published ones of MDLM, DUO and SDTT, of networks of pictures, and our own.
//!
//! Two formats are read: the directory of Hugging Face (`config.json` and `model.safetensors`) and
//! the file of a training run (`torch.save`, with the averaged weights beside the raw ones). One
//! is written, the first. Files come from strangers: sizes are checked against the file before
//! anything is allocated, pickles are data and never run, and a load is everything or an error
//! that lists all that is wrong.
//!
//! [`load`] and [`save`] move weights of the DiT, [`load_network`] those of other networks, [`config`] and [`inspect`] say what a file is and whether it would load,
//! [`resolve`] finds it.

mod dtype;
mod error;
mod facts;
mod fit;
mod header;
mod hub;
mod inspect;
mod load;
mod network;
mod pickle;
mod reader;
mod save;
mod stored;
mod survey;
mod torch;

pub use dtype::Dtype;
pub use error::{Error, NonFinite, Problem};
pub use facts::Family;
pub use hub::resolve;
pub use inspect::{AverageReport, Damage, NetworkReport, Report, SizesReport, inspect};
pub use load::{Loaded, Options, Weights, config, load};
pub use network::{Blueprint, Held, Shapes, load_network};
pub use save::{save, save_network};
