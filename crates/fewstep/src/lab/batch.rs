//! Rows to train on, and how tables over them follow from logits.

use fewstep_ctmc::{Chain, Schedule};
use fewstep_nn::{Batch, softmax};

/// The last time at which a network is trained; `lambda_t` is infinite at 1.
pub const LAST_TIME: f64 = 0.999;

/// The time that stands for 0 where `lambda_0 = 0` (cosine, polynomial): there the identity says
/// nothing of `p~`, which follows by continuity.
const FIRST_TIME: f64 = 1e-3;

/// `t`, moved to where a network can be trained.
pub fn trainable_time(schedule: Schedule, t: f64) -> f64 {
    let t = t.min(LAST_TIME);
    if schedule.lambda(t) > 0.0 {
        t
    } else {
        FIRST_TIME
    }
}

/// Rows `(x, t, r)`.
#[derive(Default)]
pub struct Rows {
    states: Vec<usize>,
    symbols: Vec<usize>,
    t: Vec<f64>,
    r: Vec<f64>,
}

impl Rows {
    /// All states at each pair, state by state, pair by pair.
    pub fn all_states(chain: &Chain, pairs: &[(f64, f64)]) -> Self {
        let mut rows = Self::default();
        for &(t, r) in pairs {
            for x in 0..chain.states().len() {
                rows.push(chain, x, t, r);
            }
        }
        rows
    }

    /// Adds a row.
    pub fn push(&mut self, chain: &Chain, x: usize, t: f64, r: f64) {
        self.states.push(x);
        self.symbols.extend(chain.states().decode(x));
        self.t.push(t);
        self.r.push(r);
    }

    /// As a network wants them.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            x: &self.symbols,
            t: &self.t,
            r: &self.r,
        }
    }

    /// The state of each row.
    pub fn states(&self) -> &[usize] {
        &self.states
    }

    /// The symbols of row `i`.
    pub fn x(&self, i: usize, coords: usize) -> &[usize] {
        &self.symbols[i * coords..(i + 1) * coords]
    }
}

/// `softmax(logits / temperature)` of rows at `states`, `[R, D, S]`, with the unmasked coordinates
/// of the masked path carried over.
pub fn predict(chain: &Chain, states: &[usize], logits: &[f64], temperature: f64) -> Vec<f64> {
    let mut p = softmax::forward(logits, chain.path().symbols(), temperature);
    carry_over(chain, states, &mut p, 1.0);
    p
}

/// `d_t` of [`predict`] at temperature one.
pub fn predict_tangent(
    chain: &Chain,
    states: &[usize],
    p: &[f64],
    logits_tangent: &[f64],
) -> Vec<f64> {
    let mut dp = softmax::tangent(p, logits_tangent, chain.path().symbols());
    carry_over(chain, states, &mut dp, 0.0);
    dp
}

/// On the masked path, writes `own` at the symbol an unmasked coordinate shows, zero elsewhere.
fn carry_over(chain: &Chain, rows: &[usize], table: &mut [f64], own: f64) {
    let Some(mask) = chain.path().mask() else {
        return;
    };
    let states = chain.states();
    let (coords, symbols) = (states.coords(), chain.path().symbols());
    for (i, row) in table.chunks_exact_mut(symbols).enumerate() {
        let shown = states.symbol(rows[i / coords], i % coords);
        if shown != mask {
            row.fill(0.0);
            row[shown] = own;
        }
    }
}
