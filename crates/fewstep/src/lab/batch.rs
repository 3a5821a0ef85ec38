//! Rows to train on: all states at each of a few pairs `(t, r)`, and how tables over them follow
//! from logits.
//!
//! The expectations over `x_t` and over `x_1` given `x_t` are taken by enumeration, as the paper
//! does in this experiment; only the pairs are drawn.

use fewstep_ctmc::Chain;
use fewstep_nn::{Batch, softmax};

/// The last time at which a network is trained; `lambda_t` is infinite at 1.
pub const LAST_TIME: f64 = 0.999;

/// All states at each pair, state by state, pair by pair.
pub struct Rows {
    symbols: Vec<usize>,
    t: Vec<f64>,
    r: Vec<f64>,
}

impl Rows {
    /// The rows of these pairs.
    pub fn new(chain: &Chain, pairs: &[(f64, f64)]) -> Self {
        let states = chain.states();
        let all: Vec<usize> = (0..states.len()).flat_map(|x| states.decode(x)).collect();
        let repeat = |f: fn(&(f64, f64)) -> f64| {
            pairs
                .iter()
                .flat_map(|pair| std::iter::repeat_n(f(pair), states.len()))
                .collect()
        };
        Self {
            symbols: all.repeat(pairs.len()),
            t: repeat(|p| p.0),
            r: repeat(|p| p.1),
        }
    }

    /// As a network wants them.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            x: &self.symbols,
            t: &self.t,
            r: &self.r,
        }
    }

    /// The symbols of row `i`.
    pub fn x(&self, i: usize, coords: usize) -> &[usize] {
        &self.symbols[i * coords..(i + 1) * coords]
    }
}

/// `softmax(logits / temperature)` of all rows of whole state tables `[.., N, D, S]`, with the
/// unmasked coordinates of the masked path carried over.
pub fn predict(chain: &Chain, logits: &[f64], temperature: f64) -> Vec<f64> {
    let mut p = softmax::forward(logits, chain.path().symbols(), temperature);
    carry_over(chain, &mut p, 1.0);
    p
}

/// `d_t` of [`predict`] at temperature one.
pub fn predict_tangent(chain: &Chain, p: &[f64], logits_tangent: &[f64]) -> Vec<f64> {
    let mut dp = softmax::tangent(p, logits_tangent, chain.path().symbols());
    carry_over(chain, &mut dp, 0.0);
    dp
}

/// On the masked path, writes `own` at the symbol an unmasked coordinate shows, zero elsewhere.
fn carry_over(chain: &Chain, table: &mut [f64], own: f64) {
    let Some(mask) = chain.path().mask() else {
        return;
    };
    let states = chain.states();
    let (coords, symbols) = (states.coords(), chain.path().symbols());
    for (i, row) in table.chunks_exact_mut(symbols).enumerate() {
        let shown = states.symbol(i / coords % states.len(), i % coords);
        if shown != mask {
            row.fill(0.0);
            row[shown] = own;
        }
    }
}
