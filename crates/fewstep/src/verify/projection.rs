//! The per-coordinate projection `Pi^d` and the identity it closes (Section Tractable Training
//! Objective, appendix projection).

use fewstep_ctmc::{Matrix, SingleSite, ode, projection::project, transport};

use super::instance::{Instance, Step};
use super::numeric::{residual, worse};
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "projection commutes with d_t",
        label: "prop:projection (a)",
        statement: "Pi^d is linear and Pi^d[d_t P_{t->r}] = d_t Pi^d[P_{t->r}]",
        perturbation: "projects d_t P onto the next coordinate",
        kind: Kind::Equal,
        check: commutes,
    },
    Claim {
        name: "projection of a single-site matrix",
        label: "prop:projection (b)",
        statement: "Pi^d[M](x,z) = M(x,x^{d->z}); Pi^d[Q] = lambda p_{1|t}, Pi^d[U^theta] = mu p~",
        perturbation: "reads the entry of the next coordinate",
        kind: Kind::Equal,
        check: single_site,
    },
    Claim {
        name: "projection of I and P^e",
        label: "prop:projection (c)",
        statement: "Pi^d[I](x,z) = 0, Pi^d[P^e](x,z) = delta_{ed} p_{1|t}(z^d|x), z != x^d",
        perturbation: "drops delta_{ed}",
        kind: Kind::Equal,
        check: resampler,
    },
    Claim {
        name: "projection of U",
        label: "prop:projection (d)",
        statement: "Pi^d[U](x,z) = p^d_{r|t}(z|x)/(r-t) for z != x^d",
        perturbation: "takes the entry U(x,x^{d->z}) for the sum",
        kind: Kind::Equal,
        check: average,
    },
    Claim {
        name: "projected identity",
        label: "eq:projected-identity, eq:marginal-identity",
        statement: "V = Pi^d[Q] - (t-r)(d_t V + sum_{x'} Q(x,x') V(x',.)) for V = Pi^d[U]",
        perturbation: "drops the transport term",
        kind: Kind::Equal,
        check: identity,
    },
    Claim {
        name: "closure",
        label: "eq:closure",
        statement: "Pi^d[Q M](x,z) = sum_{x'} Q(x,x') Pi^d[M](x',z) for M = U",
        perturbation: "leaves out x' = x",
        kind: Kind::Equal,
        check: closure,
    },
    Claim {
        name: "single-site model is no approximation",
        label: "eq:closure",
        statement: "Pi^d[U^theta] = Pi^d[U] for all d implies Pi^d[Q U^theta] = Pi^d[Q U]",
        perturbation: "gives U^theta the entries U(x,x^{d->z})",
        kind: Kind::Equal,
        check: no_approximation,
    },
    Claim {
        name: "fixed point is unique",
        label: "prop:fixed-point, eq:projected-fp",
        statement: "d_t W = Pi^d[Q] - Q W, W_r = 0 gives W/(t-r) = Pi^d[U], integrated in t",
        perturbation: "flips the sign of Q W",
        kind: Kind::Equal,
        check: unique,
    },
];

/// `d_t P = -Q_t P` in closed form on one side, differences of the `D S'` columns on the other.
fn commutes(i: &Instance, perturbed: bool) -> Residual {
    let p = i.forward()?;
    let dot = i.generator.clone().scaled(-1.0).dense().product(p);
    let of_dot = project(&dot, i.states());
    let mut projected = of_dot.clone();
    if perturbed {
        let width = i.states().symbols();
        for row in projected.chunks_exact_mut(width * i.states().coords()) {
            row.rotate_left(width);
        }
    }
    let combined = project(&p.combine(0.3, -1.7, &dot), i.states());
    let linear: Vec<f64> = project(p, i.states())
        .iter()
        .zip(&of_dot)
        .map(|(a, b)| 0.3 * a - 1.7 * b)
        .collect();
    Ok(Some(worse(
        residual(&projected, &i.exact()?.rows_dot),
        residual(&combined, &linear),
    )))
}

fn single_site(i: &Instance, perturbed: bool) -> Residual {
    let p = i.prediction.at(i.t, i.r);
    let mu = i.schedule().mu(i.t, i.r);
    let states = i.states();
    let mut worst = 0.0;
    for (m, table, scale) in [
        (&i.generator, &i.posterior, i.lambda()),
        (&i.model_generator(&p), &p, mu),
    ] {
        let dense = m.dense();
        let projected = i.off_diagonal(project(&dense, states));
        let mut entries = i.single_site_entries(&dense);
        if perturbed {
            for row in entries.chunks_exact_mut(states.symbols() * states.coords()) {
                row.rotate_left(states.symbols());
            }
        }
        worst = worse(worst, residual(&projected, &entries));
        if i.is_mixture() {
            worst = worse(worst, residual(&projected, &i.lift(table, scale)));
        }
    }
    Ok(Some(worst))
}

fn resampler(i: &Instance, perturbed: bool) -> Residual {
    let states = i.states();
    let identity = i.off_diagonal(project(&Matrix::identity(states)?, states));
    let mut worst = residual(&identity, &vec![0.0; identity.len()]);
    let row = states.coords() * states.symbols();
    for e in 0..states.coords() {
        let projected = i.off_diagonal(project(&i.resampler(e, &i.posterior), states));
        let mut expected = i.lift(&i.posterior, 1.0);
        for (k, v) in expected.iter_mut().enumerate() {
            if k % row / states.symbols() != e && !perturbed {
                *v = 0.0;
            }
        }
        worst = worse(worst, residual(&projected, &expected));
    }
    Ok(Some(worst))
}

fn average(i: &Instance, perturbed: bool) -> Residual {
    let h = i.r - i.t;
    let kernel = i.forward()?;
    let entries = if perturbed {
        i.single_site_entries(kernel)
    } else {
        i.off_diagonal(project(kernel, i.states()))
    };
    let left: Vec<f64> = entries.iter().map(|v| v / h).collect();
    let right = i.off_diagonal(i.exact()?.rates.clone());
    Ok(Some(residual(&left, &right)))
}

/// With the diagonal, which the extension by zero row sums after eq. closure adds.
fn identity(i: &Instance, perturbed: bool) -> Residual {
    let exact = i.exact()?;
    let transport = transport::by_closure(&i.generator, &exact.rates);
    let weight = if perturbed { 0.0 } else { 1.0 };
    let right: Vec<f64> = (0..transport.len())
        .map(|k| {
            let material = exact.rates_dot[k] + weight * transport[k];
            i.generator.rates()[k] - (i.t - i.r) * material
        })
        .collect();
    Ok(Some(residual(&exact.rates, &right)))
}

fn closure(i: &Instance, perturbed: bool) -> Residual {
    let u = i.average_generator()?;
    let projected = project(&u, i.states());
    let mut closed = transport::by_closure(&i.generator, &projected);
    if perturbed {
        let dense = i.generator.dense();
        let row = closed.len() / dense.rows();
        for (k, v) in closed.iter_mut().enumerate() {
            *v -= dense.at(k / row, k / row) * projected[k];
        }
    }
    let product = transport::by_product(&i.generator, &u);
    Ok(Some(residual(&product, &closed)))
}

fn no_approximation(i: &Instance, perturbed: bool) -> Residual {
    let u = i.average_generator()?;
    let rows = if perturbed {
        i.single_site_entries(&u)
    } else {
        project(&u, i.states())
    };
    let (coords, width) = (i.states().coords(), i.states().symbols());
    let model = SingleSite::build(i.states(), |x, d, row| {
        row.copy_from_slice(&rows[(x * coords + d) * width..][..width]);
    });
    Ok(Some(residual(
        &transport::by_product(&i.generator, &model.dense()),
        &transport::by_product(&i.generator, &u),
    )))
}

/// The linear system of the proof, in `t` and not in the log-time of
/// [`propagator::marginals`](fewstep_ctmc::propagator::marginals). `r < 1`: the proposition
/// assumes a continuous `Q` on `[t, r]`.
fn unique(i: &Instance, perturbed: bool) -> Residual {
    if i.step == Step::Last {
        return Ok(None);
    }
    let sign = if perturbed { -1.0 } else { 1.0 };
    let row = i.states().coords() * i.states().symbols();
    let mut w = vec![0.0; i.states().len() * row];
    ode::integrate(&mut w, 0.0, i.r - i.t, 1e-13, |back, w, out| {
        let q = i.chain.generator_at(i.r - back);
        q.apply(w, row, out);
        for (o, rate) in out.iter_mut().zip(q.rates()) {
            *o = sign * *o - rate;
        }
    });
    let v: Vec<f64> = w.iter().map(|w| w / (i.t - i.r)).collect();
    Ok(Some(residual(&v, &i.exact()?.rates)))
}
