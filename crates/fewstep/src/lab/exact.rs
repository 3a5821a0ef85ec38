//! What the sampler would do with perfect knowledge: the oracles of the report.

use std::collections::HashMap;

use fewstep_ctmc::{Chain, Error, Grid, Matrix, projection::project, propagator};
use rayon::prelude::*;

/// Bytes that dense propagators may take; beyond it only marginals are computed.
const DENSE_BYTES: usize = 400 << 20;

/// The exact step `t -> r`.
pub struct Step {
    /// Where it starts.
    pub t: f64,
    /// Where it ends.
    pub r: f64,
    /// Exact marginals `p^d_{r|t}(z | x)`, `[N, D, S']`.
    pub marginals: Vec<f64>,
    /// `P_{t->r}`, if the space is small enough.
    pub propagator: Option<Matrix>,
}

/// The exact steps of each grid.
pub type Steps = Vec<Vec<Step>>;

/// The exact steps of all grids.
///
/// Where `[N, N]` matrices fit, the chain is integrated once between neighbouring points of all
/// grids together, and longer steps are products of these; else the backward equation is solved
/// for the marginals of each step.
pub fn steps(chain: &Chain, grids: &[Grid]) -> Result<Steps, Error> {
    let mut points: Vec<f64> = grids.iter().flat_map(|g| g.points()).copied().collect();
    points.sort_by(f64::total_cmp);
    points.dedup();
    let n = chain.states().len();
    if points.len() * n * n * size_of::<f64>() > DENSE_BYTES {
        return marginals_only(chain, grids);
    }
    let pieces: Vec<Matrix> = points
        .par_windows(2)
        .map(|w| propagator::backward(chain, w[0], w[1]))
        .collect::<Result<_, _>>()?;
    let place: HashMap<u64, usize> = points
        .iter()
        .enumerate()
        .map(|(i, p)| (p.to_bits(), i))
        .collect();
    each(grids, |t, r| {
        let pieces = &pieces[place[&t.to_bits()]..place[&r.to_bits()]];
        let whole = pieces[1..]
            .iter()
            .fold(pieces[0].clone(), |p, next| p.product(next));
        Ok(Step {
            t,
            r,
            marginals: project(&whole, chain.states()),
            propagator: Some(whole),
        })
    })
}

fn marginals_only(chain: &Chain, grids: &[Grid]) -> Result<Steps, Error> {
    each(grids, |t, r| {
        Ok(Step {
            t,
            r,
            marginals: propagator::marginals(chain, t, r)?,
            propagator: None,
        })
    })
}

/// `make(t, r)` for each step of each grid.
fn each(
    grids: &[Grid],
    make: impl Fn(f64, f64) -> Result<Step, Error> + Sync,
) -> Result<Steps, Error> {
    let steps = |grid: &Grid| {
        let intervals: Vec<_> = grid.intervals().collect();
        intervals.into_par_iter().map(|(t, r)| make(t, r)).collect()
    };
    grids.iter().map(steps).collect()
}
