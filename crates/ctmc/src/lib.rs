//! The mathematics of few-step discrete diffusion, in f64 on plain slices.
//!
//! A continuous-time Markov chain on `S^D` carries noise (`t = 0`) to data (`t = 1`). This crate
//! holds what can be said about it exactly: the noise schedules and paths, and, where the states
//! can be enumerated, the posterior, the generator, the propagators, the average generator
//! `U_{t,r} = (P_{t->r} - I)/(r - t)`, its per-coordinate projection, and the law of any K-step
//! product sampler. It knows nothing of tensors, files or training.
//!
//! # Conventions
//!
//! Time runs from noise to data and a step goes `t -> r` with `t <= r`. The DUO papers count the
//! other way; their formulas are converted once, in [`duo`]. Doc comments name the paper's
//! equation labels, so that each formula can be found.
//!
//! # Shapes
//!
//! `S` data symbols, `S'` state symbols (`S + 1` on the masked path, whose last symbol is the
//! mask; `S` otherwise), `D` coordinates, `N = S'^D` states. A per-coordinate table is
//! `[N, D, S]` or `[N, D, S']`, row-major, and a matrix over states is `[N, N]`, row-major.

pub mod chain;
pub mod divergence;
pub mod duo;
mod error;
pub mod gaussian;
pub mod grid;
pub mod joint;
pub mod language;
pub mod law;
pub mod matching;
pub mod matrix;
pub mod ode;
pub mod own;
pub mod path;
pub mod projection;
pub mod propagator;
pub mod random;
pub mod schedule;
pub mod single_site;
pub mod space;
pub mod target;
pub mod transport;

pub use chain::Chain;
pub use error::Error;
pub use grid::Grid;
pub use language::Language;
pub use matrix::Matrix;
pub use own::OwnStep;
pub use path::{Path, Process, Source};
pub use schedule::{Level, Schedule};
pub use single_site::SingleSite;
pub use space::Space;
pub use target::Target;
