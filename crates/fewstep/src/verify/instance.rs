//! Random instances: a chain, a pair `(t, r)`, and what is exactly known of them.
//!
//! The number of an instance decides its schedule, process, target and kind of step, so that a
//! hundred instances meet every combination of the first three and three hundred all four. The
//! rest (sizes, parameters, times, predictions) is drawn by address.

use std::cell::OnceCell;

use fewstep_ctmc::{
    Chain, Error, Level, Matrix, Path, Process, Schedule, SingleSite, Source, Space, Target, duo,
    propagator,
    random::{Key, Purpose, uniform},
};

use super::model::Prediction;
use super::numeric::derivative;

/// `(S, D)` with at most 81 states, `S'` being `S` or, on the masked path, `S + 1`.
const SIZES: [(usize, usize); 8] = [
    (2, 2),
    (2, 3),
    (2, 4),
    (3, 2),
    (3, 3),
    (3, 4),
    (4, 2),
    (4, 3),
];
const MASKED_SIZES: [(usize, usize); 6] = [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)];

/// What kind of step `(t, r)` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `r` between `t` and 1.
    Inner,
    /// `r = 1`.
    Last,
    /// `r` so close to `t` that a coordinate jumps with probability `1e-4` to `1e-3`.
    Short,
}

/// A chain at a pair `(t, r)` with two unrelated predictions. Tables are `[N, D, S]`, kernels
/// and rates `[N, D, S']`.
pub struct Instance {
    pub chain: Chain,
    pub t: f64,
    pub r: f64,
    pub step: Step,
    pub prediction: Prediction,
    pub other: Prediction,
    /// `p_{1|t}`.
    pub posterior: Vec<f64>,
    /// `Q_t`.
    pub generator: SingleSite,
    symbols: Vec<Vec<usize>>,
    backward: OnceCell<Matrix>,
    forward: OnceCell<Matrix>,
    forward_dot: OnceCell<Vec<f64>>,
    exact: OnceCell<Exact>,
}

/// The exact per-coordinate marginals and their derivatives in `t` at fixed `r`.
pub struct Exact {
    /// `p^d_{r|t}(z | x)`, `[N, D, S']`.
    pub rows: Vec<f64>,
    /// `d_t p^d_{r|t}(z | x)`.
    pub rows_dot: Vec<f64>,
    /// `Pi^d[U_{t,r}]`, `[N, D, S']`, the diagonal by zero row sums.
    pub rates: Vec<f64>,
    /// `d_t Pi^d[U_{t,r}]`.
    pub rates_dot: Vec<f64>,
}

impl Instance {
    /// Instance number `index` of a seed.
    pub fn draw(seed: u64, index: u64) -> Result<Self, Error> {
        let mut rng = Key::new(seed, Purpose::Check).at(index, 0);
        let mut within = |low: f64, high: f64| low + (high - low) * uniform(&mut rng);
        let schedule = match index % 5 {
            0 => Schedule::Linear,
            1 => Schedule::Cosine,
            2 => Schedule::Polynomial(within(0.7, 3.5)),
            3 => Schedule::LogLinear { eps: 1e-3 },
            _ => Schedule::Arccos,
        };
        let kind = index / 5 % 5;
        let sizes: &[_] = if kind == 1 { &MASKED_SIZES } else { &SIZES };
        let (symbols, coords) = sizes[within(0.0, sizes.len() as f64) as usize];
        let process = match kind {
            0 => Process::Mixture(Source::Uniform),
            1 => Process::Mixture(Source::Masked),
            2 | 3 => {
                let zeros = kind == 3;
                let row = |within: &mut dyn FnMut(f64, f64) -> f64| {
                    let mut row: Vec<f64> = (0..symbols).map(|_| within(0.05, 1.0)).collect();
                    if zeros {
                        row[within(0.0, symbols as f64) as usize] = 0.0;
                    }
                    let total: f64 = row.iter().sum();
                    row.iter().map(|p| p / total).collect()
                };
                Process::Mixture(Source::Custom(
                    (0..coords).map(|_| row(&mut within)).collect(),
                ))
            }
            _ => Process::UniformState,
        };
        let target = match index % 4 {
            0 => Target::Potts {
                beta: within(0.5, 1.5),
                noise: 0.3,
            },
            1 => Target::Markov {
                concentration: within(0.3, 2.0),
            },
            2 => Target::RandomEnergy {
                sigma: within(0.5, 1.5),
            },
            _ => Target::Repelling {
                beta: within(0.5, 1.5),
            },
        };
        let law = target.law(&Space::new(symbols, coords)?, seed.wrapping_add(index))?;
        let t = within(0.02, 0.95);
        let (step, r) = match index % 3 {
            0 => (Step::Inner, t + within(0.05, 0.95) * (1.0 - t)),
            1 => (Step::Last, 1.0),
            _ => {
                let omega = 10f64.powf(within(-4.0, -3.0));
                let level = schedule.level(t);
                let r = schedule.inverse(level.kappa + omega * level.survival);
                (Step::Short, r)
            }
        };
        let chain = Chain::new(Path::new(schedule, process, symbols)?, coords, law)?;
        Ok(Self::new(chain, t, r, step, seed, index))
    }

    fn new(chain: Chain, t: f64, r: f64, step: Step, seed: u64, index: u64) -> Self {
        let posterior = chain.posterior(chain.path().schedule().level(t));
        Self {
            prediction: Prediction::draw(&chain, seed, index, 1),
            other: Prediction::draw(&chain, seed, index, 2),
            generator: chain.generator_at(t),
            symbols: (0..chain.states().len())
                .map(|x| chain.states().decode(x))
                .collect(),
            posterior,
            chain,
            t,
            r,
            step,
            backward: OnceCell::new(),
            forward: OnceCell::new(),
            forward_dot: OnceCell::new(),
            exact: OnceCell::new(),
        }
    }

    pub fn schedule(&self) -> Schedule {
        self.chain.path().schedule()
    }

    pub fn level(&self) -> Level {
        self.schedule().level(self.t)
    }

    pub fn lambda(&self) -> f64 {
        self.schedule().lambda(self.t)
    }

    pub fn states(&self) -> &Space {
        self.chain.states()
    }

    pub fn mask(&self) -> Option<usize> {
        self.chain.path().mask()
    }

    /// Whether the source gives every coordinate one certain symbol, be it a mask or not.
    pub fn has_point_source(&self) -> bool {
        let certain =
            |d| (0..self.states().symbols()).any(|s| self.chain.path().source(d, s) == 1.0);
        (0..self.states().coords()).all(certain)
    }

    pub fn is_mixture(&self) -> bool {
        matches!(self.chain.path().process(), Process::Mixture(_))
    }

    /// A first step for differences at `t`: a tenth of the way to the nearer end.
    pub fn reach(&self) -> f64 {
        0.1 * self.t.min(1.0 - self.t)
    }

    /// The same for functions of `(t, r)` that are only had for `t < r`.
    pub fn reach_below_r(&self) -> f64 {
        self.reach().min(0.9 * (self.r - self.t))
    }

    /// `P_{t->r}` by the backward equation.
    pub fn backward(&self) -> Result<&Matrix, Error> {
        cached(&self.backward, || {
            propagator::backward(&self.chain, self.t, self.r)
        })
    }

    /// `P_{t->r}` by the forward equation.
    pub fn forward(&self) -> Result<&Matrix, Error> {
        cached(&self.forward, || {
            propagator::forward(&self.chain, self.t, self.r)
        })
    }

    /// Where differences in `t` end and [`split_derivative`](Self::split_derivative) hands over.
    fn middle(&self) -> f64 {
        (self.t + 1.1 * self.reach_below_r()).min(self.r)
    }

    /// `d_t` of `f(t) = g(P_{t->m} rest, t)` with `m` close to `t`: what lies beyond `m` is
    /// propagated once, in `rest`, so that its error does not enter the differences.
    fn split_derivative(
        &self,
        rest: &Matrix,
        propagate: fn(&Chain, f64, f64) -> Result<Matrix, Error>,
        then: impl Fn(Vec<f64>, f64) -> Vec<f64>,
    ) -> Result<Vec<f64>, Error> {
        let middle = self.middle();
        derivative(self.t, self.reach_below_r(), |t| {
            let start = propagate(&self.chain, t, middle)?;
            Ok(then(start.product(rest).into_data(), t))
        })
    }

    /// A table and after it `(table - stay)/(r - t)`.
    fn with_average(&self, mut table: Vec<f64>, stay: &[f64], t: f64) -> Vec<f64> {
        for (k, stay) in stay.iter().enumerate() {
            table.push((table[k] - stay) / (self.r - t));
        }
        table
    }

    /// `(d_t P_{t->r}, d_t U_{t,r})` by differences of forward solutions, each `[N, N]`.
    pub fn forward_dot(&self) -> Result<(&[f64], &[f64]), Error> {
        let both = cached(&self.forward_dot, || {
            let identity = Matrix::identity(self.states())?;
            let rest = propagator::backward(&self.chain, self.middle(), self.r)?;
            self.split_derivative(&rest, propagator::forward, |p, t| {
                self.with_average(p, identity.data(), t)
            })
        })?;
        Ok(both.split_at(both.len() / 2))
    }

    /// `U_{t,r}` by the backward equation.
    pub fn average_generator(&self) -> Result<Matrix, Error> {
        let h = self.r - self.t;
        let identity = Matrix::identity(self.states())?;
        Ok(self.backward()?.combine(1.0 / h, -1.0 / h, &identity))
    }

    /// The exact marginals, by the backward equation of their `D S'` columns.
    pub fn exact(&self) -> Result<&Exact, Error> {
        cached(&self.exact, || {
            let stay = self.indicator();
            let (n, size) = (self.states().len(), stay.len());
            let columns = |t| propagator::marginals(&self.chain, t, self.r);
            let mut rows = self.with_average(columns(self.t)?, &stay, self.t);
            let rest = Matrix::from_data(n, size / n, columns(self.middle())?);
            let mut rows_dot = self.split_derivative(&rest, propagator::backward, |rows, t| {
                self.with_average(rows, &stay, t)
            })?;
            Ok(Exact {
                rates: rows.split_off(size),
                rates_dot: rows_dot.split_off(size),
                rows,
                rows_dot,
            })
        })
    }

    /// `delta_{x^d}(z)`, `[N, D, S']`.
    pub fn indicator(&self) -> Vec<f64> {
        let width = self.states().symbols();
        let rows = self.symbols.iter().flatten();
        rows.flat_map(|&s| (0..width).map(move |z| f64::from(u8::from(z == s))))
            .collect()
    }

    /// A table `[N, D, S']` with `z = x^d` set to zero: the entries the paper's projections have.
    pub fn off_diagonal(&self, mut table: Vec<f64>) -> Vec<f64> {
        let width = self.states().symbols();
        for (row, &s) in table
            .chunks_exact_mut(width)
            .zip(self.symbols.iter().flatten())
        {
            row[s] = 0.0;
        }
        table
    }

    /// A table `[N, D, S]` times `scale` as `[N, D, S']`, without its diagonal.
    pub fn lift(&self, table: &[f64], scale: f64) -> Vec<f64> {
        let (width, kept) = (self.states().symbols(), self.chain.path().symbols());
        let mut out = vec![0.0; table.len() / kept * width];
        for (to, from) in out.chunks_exact_mut(width).zip(table.chunks_exact(kept)) {
            to.iter_mut().zip(from).for_each(|(o, v)| *o = scale * v);
        }
        self.off_diagonal(out)
    }

    /// The entries `M(x, x^{d->z})` of a matrix, `[N, D, S']`, without the diagonal.
    pub fn single_site_entries(&self, m: &Matrix) -> Vec<f64> {
        let states = self.states();
        let mut out = Vec::new();
        for x in 0..states.len() {
            for d in 0..states.coords() {
                out.extend((0..states.symbols()).map(|z| m.at(x, states.with(x, d, z))));
            }
        }
        self.off_diagonal(out)
    }

    /// The single-site model `U^theta_{t,r}` of a prediction `[N, D, S]`: eq. U-param on the
    /// mixture path, eq. duo-U on the uniform-state process.
    pub fn model_generator(&self, prediction: &[f64]) -> SingleSite {
        let (schedule, kept) = (self.schedule(), self.chain.path().symbols());
        let mu = schedule.mu(self.t, self.r);
        SingleSite::build(self.states(), |x, d, row| {
            let p = &prediction[(x * self.states().coords() + d) * kept..][..kept];
            if self.is_mixture() {
                row.iter_mut().zip(p).for_each(|(o, p)| *o = mu * p);
            } else {
                let symbol = self.symbols[x][d];
                duo::average_generator_row(schedule, self.t, self.r, symbol, p, row);
            }
        })
    }

    /// The dense matrix that resamples coordinate `e` from a table `[N, D, S]`: `P^e_t` of the
    /// posterior, `P~^{e,theta}_{t,r}` of a prediction.
    pub fn resampler(&self, e: usize, table: &[f64]) -> Matrix {
        let (states, kept) = (self.states(), self.chain.path().symbols());
        let n = states.len();
        let mut m = Matrix::zeros(n, n);
        for x in 0..n {
            for s in 0..kept {
                m.data_mut()[x * n + states.with(x, e, s)] +=
                    table[(x * states.coords() + e) * kept + s];
            }
        }
        m
    }

    /// Where state `x` has its `[D, S]` in a table `[N, D, S]`.
    pub fn cut(&self, x: usize) -> std::ops::Range<usize> {
        let row = self.states().coords() * self.chain.path().symbols();
        x * row..(x + 1) * row
    }

    /// The symbols of state `x`.
    pub fn symbols(&self, x: usize) -> &[usize] {
        &self.symbols[x]
    }
}

/// The value of a cell, made on first use.
fn cached<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = make()?;
    Ok(cell.get_or_init(|| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_instances_meet_every_combination() {
        let mut seen = std::collections::HashSet::new();
        for index in 0..100 {
            let i = Instance::draw(3, index).expect("an instance");
            assert!(i.states().len() <= 81, "{} states", i.states().len());
            assert!(0.02 <= i.t && i.t <= 0.95 && i.t < i.r && i.r <= 1.0);
            assert_eq!(i.step == Step::Last, i.r == 1.0);
            seen.insert((index % 5, index / 5 % 5, index % 4));
        }
        assert_eq!(seen.len(), 100);
    }

    #[test]
    fn an_instance_depends_on_its_address_alone() {
        let (a, b) = (
            Instance::draw(5, 7).expect("an instance"),
            Instance::draw(5, 7).expect("an instance"),
        );
        assert_eq!((a.t, a.r, &a.posterior), (b.t, b.r, &b.posterior));
        assert_ne!(a.t, Instance::draw(6, 7).expect("an instance").t);
    }
}
