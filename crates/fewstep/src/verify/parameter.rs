//! The parameterisation `U^theta = mu p~` and the scalars `mu` and `omega` of a schedule (eq.
//! U-param).

use fewstep_ctmc::{law, ode};

use super::instance::{Instance, Step};
use super::numeric::{derivative, limit, residual, worse};
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "one-step kernel of a coordinate",
        label: "eq:U-param",
        statement: "delta_{x^d} + (r-t) U^theta(x,.) = (1-omega) delta_{x^d} + omega p~",
        perturbation: "keeps the instantaneous scale lambda for mu",
        kind: Kind::Equal,
        check: one_step_kernel,
    },
    Claim {
        name: "omega is the jump probability",
        label: "eq:U-param, text below",
        statement: "omega = 1 - S_r with S' = -lambda_s S, S_t = 1",
        perturbation: "takes (r-t) lambda_t for it",
        kind: Kind::Equal,
        check: jump_probability,
    },
    Claim {
        name: "mu tends to lambda",
        label: "eq:U-param, text below",
        statement: "lim_{r->t} mu_{t,r} = lambda_t",
        perturbation: "takes kappa' for lambda",
        kind: Kind::Equal,
        check: mu_limit,
    },
    Claim {
        name: "derivative of mu",
        label: "eq:At-tractable, text above",
        statement: "d_t mu = (mu-lambda)/(r-t) + lambda mu",
        perturbation: "drops lambda mu",
        kind: Kind::Equal,
        check: mu_derivative,
    },
];

/// Against the formula, and against the kernel the sampler draws from.
fn one_step_kernel(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let (schedule, p) = (i.schedule(), i.prediction.at(i.t, i.r));
    let mut u = i.model_generator(&p);
    if perturbed {
        u = u.scaled(i.lambda() / schedule.mu(i.t, i.r));
    }
    let stay = i.indicator();
    let moved = u.rates().iter().zip(&stay);
    let left: Vec<f64> = moved.map(|(v, stay)| stay + (i.r - i.t) * v).collect();
    let (kept, width) = (i.chain.path().symbols(), i.states().symbols());
    let omega = schedule.omega(i.t, i.r);
    let mut right: Vec<f64> = stay.iter().map(|stay| (1.0 - omega) * stay).collect();
    for (row, p) in right.chunks_exact_mut(width).zip(p.chunks_exact(kept)) {
        row.iter_mut().zip(p).for_each(|(o, p)| *o += omega * p);
    }
    let drawn = law::step_rows(&i.chain, i.t, i.r, &p);
    Ok(Some(worse(
        residual(&left, &right),
        residual(&left, &drawn),
    )))
}

/// The probability of no jump on `[t, r]` under the conditional path, by its own equation.
/// `r < 1`: the rate is infinite at the data end.
fn jump_probability(i: &Instance, perturbed: bool) -> Residual {
    if i.step == Step::Last {
        return Ok(None);
    }
    let mut none = vec![1.0];
    ode::integrate(&mut none, i.t, i.r, 1e-14, |t, s, out| {
        out[0] = -i.schedule().lambda(t) * s[0];
    });
    let omega = if perturbed {
        (i.r - i.t) * i.lambda()
    } else {
        i.schedule().omega(i.t, i.r)
    };
    Ok(Some(residual(&[1.0 - none[0]], &[omega])))
}

fn mu_limit(i: &Instance, perturbed: bool) -> Residual {
    let mu = limit(1, i.reach(), |h| Ok(vec![i.schedule().mu(i.t, i.t + h)]))?;
    let lambda = if perturbed {
        i.schedule().kappa_dot(i.t)
    } else {
        i.lambda()
    };
    Ok(Some(residual(&mu, &[lambda])))
}

fn mu_derivative(i: &Instance, perturbed: bool) -> Residual {
    let schedule = i.schedule();
    let (lambda, mu) = (i.lambda(), schedule.mu(i.t, i.r));
    let numeric = derivative(i.t, i.reach_below_r(), |t| Ok(vec![schedule.mu(t, i.r)]))?;
    let product = if perturbed { lambda * mu } else { 0.0 };
    let mut worst = residual(&numeric, &[schedule.mu_dot(i.t, i.r) - product]);
    // The formula as printed cancels for a short step.
    if i.step != Step::Short {
        let printed = (mu - lambda) / (i.r - i.t) + lambda * mu - product;
        worst = worse(worst, residual(&numeric, &[printed]));
    }
    Ok(Some(worst))
}
