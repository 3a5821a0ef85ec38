//! The exact law of a K-step product sampler.
//!
//! A step draws every coordinate independently given the current state (eq. sampler-step), so its
//! kernel is a product of the rows of a table `[N, D, S']`; the law after it is the mixture of
//! these products over the current law.

use rayon::prelude::*;

use crate::{Chain, Space};

/// Source states per parallel task: fixed, so that the sums have one order on any thread count.
const CHUNK: usize = 512;

/// The kernel rows `[N, D, S']` of one step `t -> r` from predictions `p~` (`[N, D, S]`).
pub fn step_rows(chain: &Chain, t: f64, r: f64, prediction: &[f64]) -> Vec<f64> {
    let (states, path) = (chain.states(), chain.path());
    let (coords, symbols) = (states.coords(), states.symbols());
    let mut out = vec![0.0; states.len() * coords * symbols];
    for ((i, row), p) in out
        .chunks_exact_mut(symbols)
        .enumerate()
        .zip(prediction.chunks_exact(path.symbols()))
    {
        path.step_row(t, r, states.symbol(i / coords, i % coords), p, row);
    }
    out
}

/// `p K` for the product kernel with these rows, `[N]`.
pub fn push(space: &Space, p: &[f64], rows: &[f64]) -> Vec<f64> {
    let width = space.coords() * space.symbols();
    let parts: Vec<Vec<f64>> = p
        .par_chunks(CHUNK)
        .zip(rows.par_chunks(CHUNK * width))
        .map(|(p, rows)| {
            let mut sum = vec![0.0; space.len()];
            let (mut product, mut scratch) = (Vec::new(), Vec::new());
            for (&mass, row) in p.iter().zip(rows.chunks_exact(width)) {
                if mass > 0.0 {
                    expand(mass, row, space.symbols(), &mut product, &mut scratch);
                    for (o, v) in sum.iter_mut().zip(&product) {
                        *o += v;
                    }
                }
            }
            sum
        })
        .collect();
    let mut out = vec![0.0; space.len()];
    for part in parts {
        for (o, v) in out.iter_mut().zip(part) {
            *o += v;
        }
    }
    out
}

/// `mass * prod_d row[d, y^d]` for all `y`, coordinate by coordinate.
pub fn expand(
    mass: f64,
    row: &[f64],
    symbols: usize,
    product: &mut Vec<f64>,
    scratch: &mut Vec<f64>,
) {
    product.clear();
    product.push(mass);
    for factors in row.chunks_exact(symbols) {
        scratch.clear();
        for &v in product.iter() {
            scratch.extend(factors.iter().map(|f| v * f));
        }
        std::mem::swap(product, scratch);
    }
}

/// The law over the data sequences of a law over states; mass left on masks is dropped.
pub fn on_data(chain: &Chain, p: &[f64]) -> Vec<f64> {
    (0..chain.data().len())
        .map(|x1| p[chain.state_of(x1)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Path, Process, Schedule, Source, Target, divergence::total_variation};

    #[test]
    fn push_is_the_matrix_product() {
        let space = Space::new(3, 2).unwrap();
        let rows: Vec<f64> = (0..9 * 6)
            .map(|i| ((i * 7 % 11) as f64 + 1.0) / 20.0)
            .collect();
        let p: Vec<f64> = (0..9).map(|i| f64::from(i as u8) / 36.0).collect();
        let out = push(&space, &p, &rows);
        for y in 0..9 {
            let plain: f64 = (0..9)
                .map(|x| p[x] * rows[x * 6 + y / 3] * rows[x * 6 + 3 + y % 3])
                .sum();
            assert!((out[y] - plain).abs() < 1e-14);
        }
    }

    /// A target of independent coordinates has no dependence to lose: one step is exact.
    #[test]
    fn one_step_is_exact_for_independent_coordinates() {
        for process in [
            Process::Mixture(Source::Uniform),
            Process::Mixture(Source::Masked),
        ] {
            let path = Path::new(Schedule::Linear, process, 3).unwrap();
            let law: Vec<f64> = (0..9)
                .map(|x| [0.2, 0.3, 0.5][x / 3] * [0.1, 0.1, 0.8][x % 3])
                .collect();
            let chain = Chain::new(path, 2, law.clone()).unwrap();
            let posterior = chain.posterior(Schedule::Linear.level(0.0));
            let rows = step_rows(&chain, 0.0, 1.0, &posterior);
            let end = on_data(&chain, &push(chain.states(), &chain.source_law(), &rows));
            assert!(total_variation(&end, &law) < 1e-14);
        }
    }

    #[test]
    fn many_steps_approach_the_target() {
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 3).unwrap();
        let law = Target::PAPER.law(&Space::new(3, 3).unwrap(), 0).unwrap();
        let chain = Chain::new(path, 3, law).unwrap();
        let error = |steps: usize| {
            let mut p = chain.source_law();
            for (t, r) in crate::Grid::uniform(steps).unwrap().intervals() {
                let posterior = chain.posterior(Schedule::Linear.level(t));
                p = push(chain.states(), &p, &step_rows(&chain, t, r, &posterior));
            }
            total_variation(&on_data(&chain, &p), chain.target())
        };
        let (coarse, fine) = (error(20), error(200));
        assert!(fine < coarse / 7.0 && fine < 0.005, "{coarse} {fine}");
    }
}
