//! Training over one flat parameter vector: AdamW and Muon, clipping, rates, averages, and a state on disk
//! from which a run goes on bit for bit.
//!
//! Every operation is split into pieces of a fixed size, worked on by the threads in any order and
//! added up in one, so the thread count never changes a bit. What is frozen ([`Trainable`]) is
//! neither read nor stored a second time.

mod adamw;
mod both;
pub mod clip;
mod ema;
mod file;
mod muon;
mod read;
mod schedule;
mod state;
mod trainable;

pub use adamw::{AdamW, Settings};
pub use clip::NonFiniteNorm;
pub use ema::{Averaging, Ema};
pub use file::{FILE, StateError, Stored};
pub use muon::{MOMENTUM, Matrix, Muon};
pub use schedule::{Decay, Schedule};
pub use state::{NonFinite, Quantity, StepReport, TrainState};
pub use trainable::Trainable;
