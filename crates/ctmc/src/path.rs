//! Probability paths between noise and data, coordinate by coordinate.
//!
//! A [`Path`] says how one coordinate is noised given its data symbol (`p_{t|1}`), at what rate
//! it moves (`Q_t^d(x, z | x_1)`), and what one step of a sampler does with it given a predicted
//! distribution of the data symbol. The sequence-level objects follow from these rows.
//!
//! Rates are in log-time `u = -log(1 - kappa_t)`, where they depend on the noise [`Level`] alone
//! and not on the schedule: `Q_t = lambda_t * (the rate here)`.

use crate::{Error, Level, Schedule, duo};

/// The noise distribution `p_0` of the mixture path.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Uniform over the data symbols.
    Uniform,
    /// All mass on a mask symbol, numbered `S`, that is no data symbol.
    Masked,
    /// The mask with probability `masked`, else a uniform data symbol: ReDi's source for networks that
    /// know masks. Sequences begin apart, and a data symbol need not be data.
    StochasticMask {
        /// The share of masks.
        masked: f64,
    },
    /// An own distribution over the data symbols for each coordinate, `[D][S]`.
    Custom(Vec<Vec<f64>>),
}

impl Source {
    /// With the share of masks that ReDi's image models have.
    pub const STOCHASTIC_MASK: Self = Self::StochasticMask { masked: 0.3 };
}

/// Which Markov chain carries noise to data.
#[derive(Clone, Debug, PartialEq)]
pub enum Process {
    /// The mixture path (eq. mixture path): noise is drawn once, each coordinate switches once.
    Mixture(Source),
    /// The uniform-state process of DUO: the time reversal of uniform re-randomisation.
    UniformState,
}

/// A process over `S` data symbols with its schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    schedule: Schedule,
    process: Process,
    symbols: usize,
}

impl Path {
    /// A path over `symbols` data symbols.
    pub fn new(schedule: Schedule, process: Process, symbols: usize) -> Result<Self, Error> {
        let schedule = schedule.check()?;
        if symbols < 2 {
            return Err(Error::range("the number of symbols", symbols, "at least 2"));
        }
        if let Process::Mixture(Source::Custom(rows)) = &process {
            for row in rows {
                check_distribution("a coordinate's source", row, symbols)?;
            }
        }
        if let Process::Mixture(Source::StochasticMask { masked }) = process
            && !(masked > 0.0 && masked < 1.0)
        {
            return Err(Error::range(
                "the share of masks",
                masked,
                "above 0 and below 1",
            ));
        }
        Ok(Self {
            schedule,
            process,
            symbols,
        })
    }

    /// The schedule.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Data symbols `S`.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// State symbols `S'`: one more than `S` where there is a mask.
    pub fn state_symbols(&self) -> usize {
        self.symbols + usize::from(self.mask_symbol().is_some())
    }

    /// The mask symbol, if all noise is masks: what shows another symbol is then known.
    pub fn mask(&self) -> Option<usize> {
        matches!(self.process, Process::Mixture(Source::Masked)).then_some(self.symbols)
    }

    /// The mask symbol, if there is one, be it the only noise or not.
    pub fn mask_symbol(&self) -> Option<usize> {
        let stochastic = matches!(
            self.process,
            Process::Mixture(Source::StochasticMask { .. })
        );
        self.mask().or(stochastic.then_some(self.symbols))
    }

    /// Coordinates that a custom source fixes, if it does.
    pub fn fixed_coords(&self) -> Option<usize> {
        match &self.process {
            Process::Mixture(Source::Custom(rows)) => Some(rows.len()),
            _ => None,
        }
    }

    /// `p_0^d(s)` for a state symbol `s`.
    pub fn source(&self, d: usize, s: usize) -> f64 {
        match &self.process {
            Process::UniformState | Process::Mixture(Source::Uniform) => 1.0 / self.symbols as f64,
            Process::Mixture(Source::Masked) => f64::from(u8::from(s == self.symbols)),
            Process::Mixture(Source::StochasticMask { masked }) if s == self.symbols => *masked,
            Process::Mixture(Source::StochasticMask { masked }) => {
                (1.0 - masked) / self.symbols as f64
            }
            Process::Mixture(Source::Custom(rows)) => rows[d][s],
        }
    }

    /// `p^d_{t|1}(x | x_1) = (1 - kappa) p_0^d(x) + kappa delta_{x_1}(x)`, as a matrix `[S', S]`.
    pub fn noising(&self, level: Level, d: usize) -> Vec<f64> {
        self.rows(|x, x1| {
            level.survival * self.source(d, x) + if x == x1 { level.kappa } else { 0.0 }
        })
    }

    /// [`noising`](Self::noising) with each row divided by the factor its entries share, which
    /// leaves the posterior as it is and keeps it defined at `t = 0` and `t = 1`, where whole
    /// rows of `p_{t|1}` vanish: a symbol the source cannot give must be data, and a mask says
    /// nothing of the data. `[S', S]`.
    pub fn likelihood(&self, level: Level, d: usize) -> Vec<f64> {
        self.rows(|x, x1| self.likelihood_at(level, d, x, x1))
    }

    /// One entry of [`likelihood`](Self::likelihood).
    pub fn likelihood_at(&self, level: Level, d: usize, x: usize, x1: usize) -> f64 {
        match (self.source(d, x), x < self.symbols) {
            (_, false) => 1.0,
            (0.0, true) => f64::from(u8::from(x == x1)),
            (p0, true) => level.survival * p0 + if x == x1 { level.kappa } else { 0.0 },
        }
    }

    fn rows(&self, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        (0..self.state_symbols())
            .flat_map(|x| (0..self.symbols).map(move |x1| (x, x1)))
            .map(|(x, x1)| entry(x, x1))
            .collect()
    }

    /// The conditional rate `Q^d(x, z | x_1)` in log-time, the diagonal included.
    ///
    /// Mixture: `delta_{x_1}(z) - delta_x(z)` (eq. mixture path). Uniform-state: eq. duo-cond-rate.
    pub fn conditional_rate(&self, level: Level, x: usize, z: usize, x1: usize) -> f64 {
        match self.process {
            Process::Mixture(_) => f64::from(u8::from(z == x1)) - f64::from(u8::from(z == x)),
            Process::UniformState if z != x => duo::conditional_rate(level, self.symbols, x, z, x1),
            Process::UniformState => -(0..self.symbols)
                .filter(|&s| s != x)
                .map(|s| duo::conditional_rate(level, self.symbols, x, s, x1))
                .sum::<f64>(),
        }
    }

    /// The marginal rate of one coordinate in log-time (eq. analytic_rate): `out[z] = Q^d(x, z)`
    /// from the posterior `p[x_1^d]` (`[S]`), with zero sum. `out` is `[S']`.
    pub fn rate_row(&self, level: Level, x: usize, p: &[f64], out: &mut [f64]) {
        match self.process {
            Process::Mixture(_) => {
                out.fill(0.0);
                out[..p.len()].copy_from_slice(p);
                out[x] = 0.0;
            }
            Process::UniformState => duo::rate_row(level, x, p, out),
        }
        out[x] = 0.0;
        out[x] = -out.iter().sum::<f64>();
    }

    /// One sampler step of one coordinate, `t -> r`, from the predicted distribution `p` of the
    /// data symbol (`[S]`): `out[z]` is the probability of `x_r^d = z` given `x_t^d = x`.
    ///
    /// Mixture: `(1 - omega) delta_x + omega p` (eq. sampler-step with eq. U-param).
    /// Uniform-state: the bridge averaged over `p` (eq. duo-U).
    pub fn step_row(&self, t: f64, r: f64, x: usize, p: &[f64], out: &mut [f64]) {
        match self.process {
            Process::Mixture(_) => {
                let omega = self.schedule.omega(t, r);
                out.fill(0.0);
                for (o, p) in out.iter_mut().zip(p) {
                    *o = omega * p;
                }
                out[x] += self.schedule.survival(r) / self.schedule.survival(t);
            }
            Process::UniformState => duo::step_row(self.schedule, t, r, x, p, out),
        }
    }

    /// The transpose of [`step_row`](Self::step_row): what a weight on each state symbol, `[S']`, is as
    /// one on each data symbol. For every law `p`, `sum_z weights[z] step[z] = sum_v out[v] p[v]`.
    pub fn pull_row(&self, t: f64, r: f64, x: usize, weights: &[f64], out: &mut [f64]) {
        match self.process {
            Process::Mixture(_) => {
                let omega = self.schedule.omega(t, r);
                let stay = weights[x] * self.schedule.survival(r) / self.schedule.survival(t);
                for (o, w) in out.iter_mut().zip(weights) {
                    *o = omega * w + stay;
                }
            }
            Process::UniformState => duo::pull_row(self.schedule, t, r, x, weights, out),
        }
    }
}

/// Checks that `row` is a distribution over `len` symbols.
pub(crate) fn check_distribution(what: &'static str, row: &[f64], len: usize) -> Result<(), Error> {
    let fail = |detail: String| Err(Error::Distribution { what, detail });
    if row.len() != len {
        return fail(format!("it has {} entries for {len} symbols", row.len()));
    }
    if let Some(p) = row.iter().find(|p| !(p.is_finite() && **p >= 0.0)) {
        return fail(format!("it has the entry {p}"));
    }
    let sum: f64 = row.iter().sum();
    if (sum - 1.0).abs() > 1e-9 {
        return fail(format!("it sums to {sum}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths() -> Vec<Path> {
        let custom = Source::Custom(vec![vec![0.2, 0.0, 0.8], vec![0.5, 0.3, 0.2]]);
        [
            Process::Mixture(Source::Uniform),
            Process::Mixture(Source::Masked),
            Process::Mixture(Source::STOCHASTIC_MASK),
            Process::Mixture(custom),
            Process::UniformState,
        ]
        .map(|p| Path::new(Schedule::Cosine, p, 3).unwrap())
        .to_vec()
    }

    proptest! {
        #[test]
        fn rows_are_distributions(t in 0.0..0.99f64, w in 0.0..=1.0f64, a in 0.01..1.0f64, b in 0.01..1.0f64) {
            let r = t + w * (1.0 - t);
            let total = 1.0 + a + b;
            let p = [1.0 / total, a / total, b / total];
            for path in paths() {
                let n = path.state_symbols();
                let mut row = vec![0.0; n];
                for x in 0..n {
                    path.step_row(t, r, x, &p, &mut row);
                    prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{path:?} {row:?}");
                    prop_assert!(row.iter().all(|&v| v >= 0.0));
                    if t > 0.0 {
                        path.rate_row(path.schedule().level(t), x, &p, &mut row);
                        prop_assert!(row.iter().sum::<f64>().abs() < 1e-9 * (1.0 + row[x].abs()));
                        prop_assert!((0..n).all(|z| z == x || row[z] >= 0.0));
                    }
                }
                for d in 0..2 {
                    let m = path.noising(path.schedule().level(t), d);
                    for x1 in 0..3 {
                        let sum: f64 = (0..n).map(|x| m[x * 3 + x1]).sum();
                        prop_assert!((sum - 1.0).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn a_mask_carries_over_and_a_data_symbol_stays() {
        let path = &paths()[1];
        let mut row = [0.0; 4];
        path.step_row(0.5, 1.0, 3, &[0.2, 0.3, 0.5], &mut row);
        assert_eq!(row, [0.2, 0.3, 0.5, 0.0]);
        path.step_row(0.2, 0.7, 1, &[0.0, 1.0, 0.0], &mut row);
        assert!((row[1] - 1.0).abs() < 1e-15);
    }

    #[test]
    fn bad_sources_are_refused() {
        for row in [
            vec![0.5, 0.5],
            vec![0.5, 0.6, 0.0],
            vec![-0.1, 0.6, 0.5],
            vec![f64::NAN, 0.5, 0.5],
        ] {
            let process = Process::Mixture(Source::Custom(vec![row]));
            assert!(Path::new(Schedule::Linear, process, 3).is_err());
        }
        assert!(Path::new(Schedule::Linear, Process::UniformState, 1).is_err());
        for masked in [0.0, 1.0, -0.1, f64::NAN] {
            let process = Process::Mixture(Source::StochasticMask { masked });
            assert!(Path::new(Schedule::Linear, process, 3).is_err());
        }
    }
}
