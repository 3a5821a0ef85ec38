//! The methods that make a denoiser good in few steps, beside the average generator
//! ([`sequence::average`](crate::sequence::average)).
//!
//! Each is one training step, generic over the network as everything in
//! [`sequence`](crate::sequence) is: it is given corrupted sequences, the network that learns and
//! the one it learns from, and leaves the gradient of its loss. Settings, budgets and where the
//! sequences come from are the caller's.
//!
//! | method | what the student learns | from |
//! |---|---|---|
//! | [`sdtt`] | what the teacher would have predicted a few of its steps later | the teacher's own steps |
//! | [`di4c`] | a mixture of product laws, by a latent that a sequence carries | data, and its own later prediction |
//! | [`redi`] | to predict from where its sequences began | pairs that a sampler made |
//! | [`dcd`] | its own prediction later on the same trajectory | data |
//! | [`law`] | to make the right law with each of its steps | its own draws, and noised data |
//! | [`dimo`] | to write in one step what two denoisers cannot tell from data | its own sequences |
//!
//! # What they can repair
//!
//! A step's error is marginal (each coordinate's law is wrong) or dependence (coordinates are drawn
//! independently that are not). SDTT and DCD keep product predictions and have nothing but the
//! marginals and their sharpness to change; ReDi makes the data depend less on each other given
//! where the chain stands; Di4C adds a latent that coordinates share.

mod counted;
pub mod dcd;
pub mod di4c;
pub mod dimo;
mod divergence;
pub mod law;
mod name;
pub mod redi;
pub mod sdtt;

pub use counted::Counted;
pub use divergence::Divergence;
pub use name::Method;
