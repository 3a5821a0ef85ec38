//! Exact finite-step kernels `P_{t->r}` and the average generator (eq. U-def).
//!
//! The Kolmogorov equations are integrated in log-time `u = -log(1 - kappa)`, where the rates of
//! the mixture path are bounded and the data end `r = 1` lies at infinity. What happens beyond
//! `u = 40` has probability below `e^-40 = 4e-18`, so the last interval is exact in f64 too.

use crate::{Chain, Error, Level, Matrix, Process, Source, ode};

/// The log-time taken for the data end.
const DATA_END: f64 = 40.0;

/// Error bound of an integration step.
pub const TOLERANCE: f64 = 1e-13;

/// `P_{t->r}` by the backward equation `d_t P = -Q_t P` (eq. kolmogorov-fwd-bwd), `[N, N]`.
pub fn backward(chain: &Chain, t: f64, r: f64) -> Result<Matrix, Error> {
    let mut p = Matrix::identity(chain.states())?;
    let n = p.rows();
    let columns = pull_back(chain, t, r, p.data_mut().to_vec(), n)?;
    p.data_mut().copy_from_slice(&columns);
    Ok(p)
}

/// `P_{t->r}` by the forward equation `d_r P = P Q_r`, `[N, N]`.
pub fn forward(chain: &Chain, t: f64, r: f64) -> Result<Matrix, Error> {
    let identity = Matrix::identity(chain.states())?;
    let n = identity.rows();
    let (start, end) = log_interval(chain, t, r)?;
    let mut rows = identity.into_data();
    ode::integrate(&mut rows, start, end, TOLERANCE, |u, p, out| {
        chain.generator(Level::at_log_time(u)).apply_left(p, out);
    });
    Ok(Matrix::from_data(n, n, rows))
}

/// The law at `r` of the chain that has law `p` at `t`.
pub fn push_forward(chain: &Chain, t: f64, r: f64, p: &[f64]) -> Result<Vec<f64>, Error> {
    let (start, end) = log_interval(chain, t, r)?;
    let mut p = p.to_vec();
    ode::integrate(&mut p, start, end, TOLERANCE, |u, p, out| {
        chain.generator(Level::at_log_time(u)).apply_left(p, out);
    });
    Ok(p)
}

/// The exact per-coordinate marginals `p^d_{r|t}(z | x)`, `[N, D, S']`, by the backward equation
/// on their `D S'` columns alone: what the projected identity has as its solution
/// (Prop. fixed-point), without any `[N, N]` matrix.
pub fn marginals(chain: &Chain, t: f64, r: f64) -> Result<Vec<f64>, Error> {
    let states = chain.states();
    let (coords, symbols) = (states.coords(), states.symbols());
    let mut indicator = vec![0.0; states.len() * coords * symbols];
    for x in 0..states.len() {
        for d in 0..coords {
            indicator[(x * coords + d) * symbols + states.symbol(x, d)] = 1.0;
        }
    }
    pull_back(chain, t, r, indicator, coords * symbols)
}

/// `P_{t->r} f` for column functions `f: [N, C]`.
fn pull_back(
    chain: &Chain,
    t: f64,
    r: f64,
    mut f: Vec<f64>,
    columns: usize,
) -> Result<Vec<f64>, Error> {
    let (start, end) = log_interval(chain, t, r)?;
    ode::integrate(&mut f, 0.0, end - start, TOLERANCE, |v, f, out| {
        chain
            .generator(Level::at_log_time(end - v))
            .apply(f, columns, out);
    });
    Ok(f)
}

/// `P_{t->r}` in closed form where the chain is the time reversal of a noising that acts on each
/// coordinate alone, that is on the masked path and on the uniform-state process:
/// `P(x, y) = p_r(y) F(y, x) / p_t(x)` with `F` the noising from `r` back to `t`. Rows of states
/// with `p_t(x) = 0` are zero. `None` on the other paths, which are no such reversals.
pub fn reversal(chain: &Chain, t: f64, r: f64) -> Result<Option<Matrix>, Error> {
    let schedule = chain.path().schedule();
    let (from, to) = (schedule.level(t), schedule.level(r));
    let keep = from.kappa / to.kappa;
    let lost = schedule.increment(t, r) / to.kappa;
    let symbols = chain.path().symbols();
    let noise = |y: usize, x: usize| match chain.path().process() {
        Process::UniformState => lost / symbols as f64 + if x == y { keep } else { 0.0 },
        _ if y == symbols => f64::from(u8::from(x == symbols)),
        _ if x == symbols => lost,
        _ => keep * f64::from(u8::from(x == y)),
    };
    if !matches!(
        chain.path().process(),
        Process::UniformState | Process::Mixture(Source::Masked)
    ) {
        return Ok(None);
    }
    let states = chain.states();
    let mut p = Matrix::identity(states)?;
    let (start, end) = (chain.marginal(from), chain.marginal(to));
    let n = states.len();
    for x in 0..n {
        for y in 0..n {
            let back: f64 = (0..states.coords())
                .map(|d| noise(states.symbol(y, d), states.symbol(x, d)))
                .product();
            p.data_mut()[x * n + y] = if start[x] > 0.0 {
                end[y] * back / start[x]
            } else {
                0.0
            };
        }
    }
    Ok(Some(p))
}

/// `U_{t,r} = (P_{t->r} - I)/(r - t)` (eq. U-def), and `Q_t` at `r = t`.
pub fn average_generator(chain: &Chain, t: f64, r: f64) -> Result<Matrix, Error> {
    let identity = Matrix::identity(chain.states())?;
    if r == t {
        return Ok(chain.generator_at(t).dense());
    }
    let h = r - t;
    Ok(backward(chain, t, r)?.combine(1.0 / h, -1.0 / h, &identity))
}

/// The log-times of `t` and `r`, the data end cut to where nothing moves any more.
fn log_interval(chain: &Chain, t: f64, r: f64) -> Result<(f64, f64), Error> {
    if !(0.0 <= t && t <= r && r <= 1.0) {
        return Err(Error::range(
            "the interval (t, r)",
            format!("({t}, {r})"),
            "0 <= t <= r <= 1",
        ));
    }
    let schedule = chain.path().schedule();
    let start = schedule.level(t).log_time();
    if matches!(chain.path().process(), Process::UniformState) && start == 0.0 && r > t {
        return Err(Error::range(
            "t of the uniform-state process",
            t,
            "above 0: its rate is infinite at pure noise",
        ));
    }
    let start = start.min(DATA_END);
    Ok((start, schedule.level(r).log_time().min(DATA_END).max(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Path, Schedule, Space, Target};

    fn chain(process: Process) -> Chain {
        let path = Path::new(Schedule::Cosine, process, 3).unwrap();
        let law = Target::PAPER.law(&Space::new(3, 3).unwrap(), 1).unwrap();
        Chain::new(path, 3, law).unwrap()
    }

    #[test]
    fn the_three_ways_to_a_propagator_agree() {
        for process in [
            Process::Mixture(Source::Uniform),
            Process::Mixture(Source::Masked),
            Process::Mixture(Source::STOCHASTIC_MASK),
            Process::UniformState,
        ] {
            let chain = chain(process);
            for (t, r) in [(0.2, 0.6), (0.7, 1.0)] {
                let p = backward(&chain, t, r).unwrap();
                let q = forward(&chain, t, r).unwrap();
                let reachable = chain.marginal(Schedule::Cosine.level(t));
                let exact = reversal(&chain, t, r).unwrap();
                for (i, (a, b)) in p.data().iter().zip(q.data()).enumerate() {
                    assert!((a - b).abs() < 1e-11, "{:?} {t} {r}: {a} {b}", chain.path());
                    if let Some(m) = exact.as_ref().filter(|_| reachable[i / p.cols()] > 0.0) {
                        assert!((a - m.data()[i]).abs() < 1e-11);
                    }
                }
            }
        }
    }

    #[test]
    fn the_last_interval_ends_in_the_target() {
        for process in [
            Process::Mixture(Source::Uniform),
            Process::Mixture(Source::Masked),
            Process::Mixture(Source::STOCHASTIC_MASK),
        ] {
            let chain = chain(process);
            let end = push_forward(&chain, 0.0, 1.0, &chain.source_law()).unwrap();
            for (x1, p) in chain.target().iter().enumerate() {
                assert!((end[chain.state_of(x1)] - p).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn bad_intervals_are_refused() {
        let mixture = chain(Process::Mixture(Source::Uniform));
        for (t, r) in [(0.5, 0.4), (-0.1, 0.5), (0.5, 1.1), (f64::NAN, 1.0)] {
            assert!(backward(&mixture, t, r).is_err());
        }
        assert!(backward(&chain(Process::UniformState), 0.0, 0.5).is_err());
    }
}
