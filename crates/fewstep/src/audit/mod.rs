//! Whether categorical draws follow the law they are said to follow.
//!
//! A sampler that draws by the Gumbel trick in f32 cuts off the tail of every law: the largest
//! uniform it can have is `1 - 2^-24`, so a symbol of probability `p` beside a likely one gets only
//! `a / (e^a - 1)` of its share, `a = 2^-24 / p`: half of it at 5e-8, a sixtieth at 1e-8, nothing
//! below. Over a vocabulary of 50257 much of a law can lie there. The samples are then cooler than
//! the model, which looks like a better perplexity and is none.
//!
//! [`own`] tests this program's draw on known laws, with an f32 Gumbel sampler beside it that must
//! be found out. [`dump`] tests what another program has drawn. Both fill a [`Tally`]:
//!
//! - *chi-square*: every symbol's count against its expectation, rare symbols pooled to cells of at
//!   least five expected;
//! - *bands*: the counts of all symbols of nearly the same probability, over all laws together, so
//!   that one draw a law is enough;
//! - *tails*: the counts of the rarest symbols that together have at most a given probability.

mod draw;
mod dump;
mod gamma;
mod tally;

pub use draw::{Check, Method, PEAKED, counts, own};
pub use dump::{DumpError, dump};
pub use gamma::{chi_square_above, lower, poisson, upper};
pub use tally::{ChiSquare, LEVEL, Outcome, Tail, Tally};
