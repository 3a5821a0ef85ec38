//! The chain of a path and a target, by enumeration: `p_t`, the posterior and the generator.

use crate::{Error, Level, Path, SingleSite, Space, law::expand, path::check_distribution};

/// A process on `S'^D` whose data law `p_1` is known.
#[derive(Clone, Debug)]
pub struct Chain {
    path: Path,
    data: Space,
    states: Space,
    target: Vec<f64>,
}

impl Chain {
    /// The chain that ends in `target`, a positive law over the `S^D` data sequences.
    pub fn new(path: Path, coords: usize, target: Vec<f64>) -> Result<Self, Error> {
        let data = Space::new(path.symbols(), coords)?;
        let states = Space::new(path.state_symbols(), coords)?;
        check_distribution("the target law", &target, data.len())?;
        if let Some(x) = target.iter().position(|&p| p == 0.0) {
            return Err(Error::Distribution {
                what: "the target law",
                detail: format!("state {x} has probability 0; every state must be possible"),
            });
        }
        if path.fixed_coords().is_some_and(|n| n != coords) {
            return Err(Error::range(
                "the number of coordinates of the custom source",
                path.fixed_coords().unwrap_or(0),
                "the number of coordinates of the target",
            ));
        }
        Ok(Self {
            path,
            data,
            states,
            target,
        })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The data sequences, `S^D`.
    pub fn data(&self) -> &Space {
        &self.data
    }

    /// The states, `S'^D`.
    pub fn states(&self) -> &Space {
        &self.states
    }

    /// The data law `p_1` over `S^D`.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// The state that shows the data sequence `x1`.
    pub fn state_of(&self, x1: usize) -> usize {
        self.states.encode(&self.data.decode(x1))
    }

    /// `p_0` over the states.
    pub fn source_law(&self) -> Vec<f64> {
        (0..self.states.len())
            .map(|x| {
                (0..self.states.coords())
                    .map(|d| self.path.source(d, self.states.symbol(x, d)))
                    .product()
            })
            .collect()
    }

    /// `p_t(x) = sum_{x_1} p_1(x_1) p_{t|1}(x | x_1)`, `[N]`.
    pub fn marginal(&self, level: Level) -> Vec<f64> {
        let mut table = self.target.clone();
        for d in 0..self.data.coords() {
            table = self.contract(&table, d, &self.path.noising(level, d));
        }
        table
    }

    /// The posterior `p^d_{1|t}(s | x)` of every coordinate and state, `[N, D, S]`.
    ///
    /// With all coordinates but `d` noised, the table holds `p(x^{\d}, x_1^d)`; the likelihood of
    /// `x^d` finishes it. `O(N S D^2)` instead of the `O(N^2 D)` of summing over all `x_1`.
    pub fn posterior(&self, level: Level) -> Vec<f64> {
        let (coords, symbols) = (self.data.coords(), self.data.symbols());
        let likelihoods: Vec<_> = (0..coords)
            .map(|d| self.path.likelihood(level, d))
            .collect();
        let mut out = vec![0.0; self.states.len() * coords * symbols];
        for d in 0..coords {
            let mut table = self.target.clone();
            for e in 0..d {
                table = self.contract(&table, e, &likelihoods[e]);
            }
            // Right of d the strides are still those of the data space: go from the end.
            for e in (d + 1..coords).rev() {
                table = contract(
                    &table,
                    symbols,
                    self.states.symbols().pow((coords - 1 - e) as u32),
                    &likelihoods[e],
                );
            }
            let after = self.states.stride(d);
            for x in 0..self.states.len() {
                let before = x / (after * self.states.symbols());
                let here = before * symbols * after + x % after;
                let own = &likelihoods[d][self.states.symbol(x, d) * symbols..][..symbols];
                let row = &mut out[(x * coords + d) * symbols..][..symbols];
                for s in 0..symbols {
                    row[s] = own[s] * table[here + s * after];
                }
                let total: f64 = row.iter().sum();
                row.iter_mut().for_each(|p| *p /= total);
            }
        }
        out
    }

    /// The posterior at one state, `[D, S]`, in `O(N D)` by the sum over all `x_1`.
    pub fn posterior_at(&self, level: Level, x: usize) -> Vec<f64> {
        let (coords, symbols) = (self.data.coords(), self.data.symbols());
        let mut likelihood = Vec::with_capacity(coords * symbols);
        for d in 0..coords {
            let symbol = self.states.symbol(x, d);
            likelihood.extend((0..symbols).map(|s| self.path.likelihood_at(level, d, symbol, s)));
        }
        let (mut weights, mut scratch) = (Vec::new(), Vec::new());
        expand(1.0, &likelihood, symbols, &mut weights, &mut scratch);
        for (w, q) in weights.iter_mut().zip(&self.target) {
            *w *= q;
        }
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; coords * symbols];
        for (d, row) in out.chunks_exact_mut(symbols).enumerate() {
            let after = self.data.stride(d);
            for (i, block) in weights.chunks_exact(after).enumerate() {
                row[i % symbols] += block.iter().sum::<f64>() / total;
            }
        }
        out
    }

    /// The marginal generator in log-time (eq. analytic_rate); `Q_t = lambda_t` times this.
    pub fn generator(&self, level: Level) -> SingleSite {
        self.generator_from(level, &self.posterior(level))
    }

    /// [`generator`](Self::generator) from any table of posteriors `[N, D, S]`.
    pub fn generator_from(&self, level: Level, posterior: &[f64]) -> SingleSite {
        let (coords, symbols) = (self.data.coords(), self.data.symbols());
        SingleSite::build(&self.states, |x, d, row| {
            let p = &posterior[(x * coords + d) * symbols..][..symbols];
            self.path.rate_row(level, self.states.symbol(x, d), p, row);
        })
    }

    /// `Q_t`.
    pub fn generator_at(&self, t: f64) -> SingleSite {
        let schedule = self.path.schedule();
        self.generator(schedule.level(t)).scaled(schedule.lambda(t))
    }

    /// Replaces axis `d` (data symbols) by state symbols, axes before `d` being done already.
    fn contract(&self, table: &[f64], d: usize, matrix: &[f64]) -> Vec<f64> {
        contract(table, self.data.symbols(), self.data.stride(d), matrix)
    }
}

/// `out[b, x, a] = sum_s matrix[x, s] table[b, s, a]` for a matrix `[S', S]`.
fn contract(table: &[f64], symbols: usize, after: usize, matrix: &[f64]) -> Vec<f64> {
    let out_symbols = matrix.len() / symbols;
    let mut out = vec![0.0; table.len() / symbols * out_symbols];
    for (from, to) in table
        .chunks_exact(symbols * after)
        .zip(out.chunks_exact_mut(out_symbols * after))
    {
        for (x, to) in to.chunks_exact_mut(after).enumerate() {
            for (s, from) in from.chunks_exact(after).enumerate() {
                let a = matrix[x * symbols + s];
                if a != 0.0 {
                    for (o, v) in to.iter_mut().zip(from) {
                        *o += a * v;
                    }
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Process, Schedule, Source, Target};

    fn chains() -> Vec<Chain> {
        let custom = vec![
            vec![0.2, 0.0, 0.8],
            vec![0.5, 0.3, 0.2],
            vec![0.1, 0.1, 0.8],
        ];
        [
            Process::Mixture(Source::Uniform),
            Process::Mixture(Source::Masked),
            Process::Mixture(Source::STOCHASTIC_MASK),
            Process::Mixture(Source::Custom(custom)),
            Process::UniformState,
        ]
        .into_iter()
        .map(|process| {
            let path = Path::new(Schedule::Linear, process, 3).unwrap();
            let law = Target::RandomEnergy { sigma: 1.0 }
                .law(&Space::new(3, 3).unwrap(), 4)
                .unwrap();
            Chain::new(path, 3, law).unwrap()
        })
        .collect()
    }

    /// Both tables against the plain sum over all data sequences.
    #[test]
    fn tables_equal_their_definition() {
        for chain in chains() {
            let level = chain.path().schedule().level(0.37);
            let noising: Vec<_> = (0..3).map(|d| chain.path().noising(level, d)).collect();
            let (marginal, posterior) = (chain.marginal(level), chain.posterior(level));
            for x in 0..chain.states().len() {
                for (a, b) in chain.posterior_at(level, x).iter().zip(&posterior[x * 9..]) {
                    assert!((a - b).abs() < 1e-14);
                }
                let mut total = 0.0;
                let mut by_symbol = [[0.0; 3]; 3];
                for x1 in 0..27 {
                    let weight = chain.target()[x1]
                        * (0..3)
                            .map(|d| {
                                noising[d]
                                    [chain.states().symbol(x, d) * 3 + chain.data().symbol(x1, d)]
                            })
                            .product::<f64>();
                    total += weight;
                    for d in 0..3 {
                        by_symbol[d][chain.data().symbol(x1, d)] += weight;
                    }
                }
                assert!((marginal[x] - total).abs() < 1e-15);
                for d in 0..3 {
                    for s in 0..3 {
                        let p = posterior[(x * 3 + d) * 3 + s];
                        assert!((p - by_symbol[d][s] / total).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn the_ends_are_regular() {
        for chain in chains() {
            for t in [0.0, 1.0] {
                let posterior = chain.posterior(Schedule::Linear.level(t));
                assert!(
                    posterior.iter().all(|p| p.is_finite()),
                    "{:?} at {t}",
                    chain.path()
                );
            }
            let start = chain.marginal(Schedule::Linear.level(0.0));
            for (a, b) in start.iter().zip(chain.source_law()) {
                assert!((a - b).abs() < 1e-15);
            }
            let end = chain.marginal(Schedule::Linear.level(1.0));
            for (x1, p) in chain.target().iter().enumerate() {
                assert!((end[chain.state_of(x1)] - p).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn impossible_targets_are_refused() {
        let path = Path::new(Schedule::Linear, Process::UniformState, 2).unwrap();
        assert!(Chain::new(path.clone(), 1, vec![0.5, 0.6]).is_err());
        assert!(Chain::new(path.clone(), 1, vec![1.0, 0.0]).is_err());
        assert!(Chain::new(path, 2, vec![0.5, 0.5]).is_err());
    }
}
