//! The uniform-state (DUO) process (appendix duo), with `alpha_t = kappa_t` rising from noise to
//! data. What concerns one coordinate is checked on every instance, with its schedule, its pair
//! and the rows of its prediction.

use fewstep_ctmc::{Error, Level, Path, Process, duo, ode};

use super::instance::Instance;
use super::numeric::{limit, residual, worse};
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "bridge is Bayes' rule",
        label: "ap:duo, bridge",
        statement: "q(x_r|x_t,x_1) = q(x_t|x_r) q(x_r|x_1) / q(x_t|x_1), sums to one over x_r",
        perturbation: "drops q(x_t|x_1)",
        kind: Kind::Equal,
        check: bridge,
    },
    Claim {
        name: "conditional rate from the bridge",
        label: "eq:duo-cond-rate",
        statement: "Q_t(x,z|x_1) = lim_{r->t} q(x_r=z|x_t=x,x_1)/(r-t), z != x",
        perturbation: "exchanges x and z",
        kind: Kind::Equal,
        check: conditional_rate,
    },
    Claim {
        name: "marginal rate in closed form",
        label: "ap:duo, text below eq:duo-cond-rate",
        statement: "E_{x_1~p} Q_t(x,z|x_1) = alpha'/(alpha S) [p_z (alpha+c')/c' + \
                    p_x c'/(alpha+c') + 1 - p_z - p_x]",
        perturbation: "leaves x_1 = x_t out of the average",
        kind: Kind::Equal,
        check: marginal_rate,
    },
    Claim {
        name: "average generator in closed form",
        label: "eq:duo-U",
        statement: "the O(S) row is E_{v~p~} q(x_r=z|x_t,x_1=v)/(r-t)",
        perturbation: "leaves v = x_t out of the average",
        kind: Kind::Equal,
        check: average_row,
    },
    Claim {
        name: "average generator tends to the rate",
        label: "eq:duo-U",
        statement: "lim_{r->t} Pi^d[U^theta] = Pi^d[Q_t] for p~ = p_{1|t}",
        perturbation: "stops at a finite r - t",
        kind: Kind::Equal,
        check: tends_to_rate,
    },
    Claim {
        name: "conditional rate generates the path",
        label: "ap:duo, same marginals p_{t|1}",
        statement: "eq. duo-cond-rate carries p_{t|1} of the uniform mixture path to its p_{r|1}",
        perturbation: "halves the rate",
        kind: Kind::Equal,
        check: same_path,
    },
];

/// The rows `(x, p)` of the instance's prediction with each symbol `x` in turn.
fn rows(i: &Instance) -> Vec<(usize, Vec<f64>)> {
    let kept = i.chain.path().symbols();
    let table = i.prediction.at(i.t, i.r);
    let rows = table.chunks_exact(kept).enumerate();
    rows.map(|(k, p)| (k % kept, p.to_vec())).collect()
}

/// All `(x, v, z)` over the symbols of one coordinate.
fn triples(symbols: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let all = 0..symbols * symbols * symbols;
    all.map(move |k| (k / symbols / symbols, k / symbols % symbols, k % symbols))
}

fn path(i: &Instance) -> Result<Path, Error> {
    Path::new(
        i.schedule(),
        Process::UniformState,
        i.chain.path().symbols(),
    )
}

/// The noising from `r` back to `t` is integrated: a coordinate is redrawn uniformly at unit rate
/// in the time `log alpha`.
fn bridge(i: &Instance, perturbed: bool) -> Residual {
    let path = path(i)?;
    let (s, schedule) = (path.symbols(), i.schedule());
    let (from, to) = (schedule.level(i.t), schedule.level(i.r));
    let mut noise: Vec<f64> = (0..s * s)
        .map(|k| f64::from(u8::from(k / s == k % s)))
        .collect();
    let time = (to.kappa / from.kappa).ln();
    ode::integrate(&mut noise, 0.0, time, 1e-14, |_, f, out| {
        for (f, out) in f.chunks_exact(s).zip(out.chunks_exact_mut(s)) {
            let mean = f.iter().sum::<f64>() / s as f64;
            out.iter_mut().zip(f).for_each(|(o, f)| *o = mean - f);
        }
    });
    let (early, late) = (path.noising(from, 0), path.noising(to, 0));
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut sums = vec![0.0; s * s];
    for (x, v, z) in triples(s) {
        let q = duo::bridge(schedule, s, i.t, i.r, x, v, z);
        let norm = if perturbed { 1.0 } else { early[x * s + v] };
        sums[x * s + v] += q;
        left.push(q);
        right.push(noise[z * s + x] * late[z * s + v] / norm);
    }
    Ok(Some(worse(
        residual(&left, &right),
        residual(&sums, &vec![1.0; s * s]),
    )))
}

fn conditional_rate(i: &Instance, perturbed: bool) -> Residual {
    let s = i.chain.path().symbols();
    let moves = || triples(s).filter(|&(x, _, z)| x != z);
    let numeric = limit(1, i.reach(), |h| {
        let r = i.t + h;
        let row =
            moves().map(|(x, v, z)| duo::bridge(i.schedule(), s, i.t, r, x, v, z) / (r - i.t));
        Ok(row.collect())
    })?;
    let closed: Vec<f64> = moves()
        .map(|(x, v, z)| {
            let (x, z) = if perturbed { (z, x) } else { (x, z) };
            i.lambda() * duo::conditional_rate(i.level(), s, x, z, v)
        })
        .collect();
    Ok(Some(residual(&numeric, &closed)))
}

fn marginal_rate(i: &Instance, perturbed: bool) -> Residual {
    let (mut closed, mut plain) = (Vec::new(), Vec::new());
    for (x, p) in rows(i) {
        let mut row = vec![0.0; p.len()];
        duo::rate_row(i.level(), x, &p, &mut row);
        for z in (0..p.len()).filter(|&z| z != x) {
            let mean: f64 = (0..p.len())
                .filter(|&v| !(perturbed && v == x))
                .map(|v| p[v] * duo::conditional_rate(i.level(), p.len(), x, z, v))
                .sum();
            closed.push(i.lambda() * row[z]);
            plain.push(i.lambda() * mean);
        }
    }
    Ok(Some(residual(&closed, &plain)))
}

fn average_row(i: &Instance, perturbed: bool) -> Residual {
    let (mut closed, mut plain) = (Vec::new(), Vec::new());
    for (x, p) in rows(i) {
        let mut row = vec![0.0; p.len()];
        duo::average_generator_row(i.schedule(), i.t, i.r, x, &p, &mut row);
        for z in (0..p.len()).filter(|&z| z != x) {
            let mean: f64 = (0..p.len())
                .filter(|&v| !(perturbed && v == x))
                .map(|v| p[v] * duo::bridge(i.schedule(), p.len(), i.t, i.r, x, v, z))
                .sum();
            closed.push(row[z]);
            plain.push(mean / (i.r - i.t));
        }
    }
    Ok(Some(residual(&closed, &plain)))
}

fn tends_to_rate(i: &Instance, perturbed: bool) -> Residual {
    if i.is_mixture() {
        return Ok(None);
    }
    let kept = i.chain.path().symbols();
    let at = |h: f64| {
        let mut out = Vec::new();
        for (k, p) in i.posterior.chunks_exact(kept).enumerate() {
            let here = i.symbols(k / i.states().coords())[k % i.states().coords()];
            let mut row = vec![0.0; kept];
            duo::average_generator_row(i.schedule(), i.t, i.t + h, here, p, &mut row);
            out.extend(row);
        }
        Ok(out)
    };
    let h = i.reach();
    let u = if perturbed { at(h)? } else { limit(1, h, at)? };
    Ok(Some(residual(&u, i.generator.rates())))
}

/// Integrated in log-time up to `r` or, at the data end, to where nothing is left to carry.
fn same_path(i: &Instance, perturbed: bool) -> Residual {
    let path = path(i)?;
    let s = path.symbols();
    let (from, to) = (i.level(), i.schedule().level(i.r));
    // noising is [x, x_1]; rows of a conditional law run over x.
    let by_data = |m: Vec<f64>| -> Vec<f64> { (0..s * s).map(|k| m[k % s * s + k / s]).collect() };
    let mut law = by_data(path.noising(from, 0));
    let end = to.log_time().min(40.0);
    let pace = if perturbed { 0.5 } else { 1.0 };
    ode::integrate(&mut law, from.log_time(), end, 1e-14, |u, p, out| {
        let level = Level::at_log_time(u);
        for x1 in 0..s {
            for z in 0..s {
                for x in 0..s {
                    let rate = path.conditional_rate(level, z, x, x1);
                    out[x1 * s + x] += pace * p[x1 * s + z] * rate;
                }
            }
        }
    });
    Ok(Some(residual(&law, &by_data(path.noising(to, 0)))))
}
