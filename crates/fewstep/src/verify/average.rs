//! The average generator `U_{t,r} = (P_{t->r} - I)/(r - t)` (Section Average Generator, appendix
//! proof-prop1).

use fewstep_ctmc::{Matrix, propagator};

use super::instance::Instance;
use super::kolmogorov::generator_defect;
use super::numeric::{limit, residual, worse};
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "average generator identity",
        label: "prop:agi, eq:meanflow_identity",
        statement: "U = Q_t - (t-r)(d_t U + Q_t U)",
        perturbation: "drops Q_t U",
        kind: Kind::Equal,
        check: identity,
    },
    Claim {
        name: "U is a generator",
        label: "prop:U-properties (a)",
        statement: "U(x,z) >= 0 for z != x and sum_z U(x,z) = 0",
        perturbation: "keeps P/(r-t) in place of (P-I)/(r-t)",
        kind: Kind::Equal,
        check: is_generator,
    },
    Claim {
        name: "one Euler step is exact",
        label: "prop:U-properties (b)",
        statement: "delta_x (I+(r-t)U) = p_{r|t}(.|x) for every x, hence p_t (I+(r-t)U) = p_r",
        perturbation: "takes half the step",
        kind: Kind::Equal,
        check: euler_step,
    },
    Claim {
        name: "U tends to Q",
        label: "prop:U-properties (c)",
        statement: "lim_{r->t} U_{t,r} = Q_t",
        perturbation: "stops at a finite r - t",
        kind: Kind::Equal,
        check: tends_to_rate,
    },
    Claim {
        name: "operator form",
        label: "eq:Q-operator-form",
        statement: "Q_t = lambda sum_e (P^e_t - I), U^theta = mu sum_d (P~^d - I)",
        perturbation: "drops -I",
        kind: Kind::Equal,
        check: operator_form,
    },
];

/// `U` by the backward equation, `d_t U` by differences of forward solutions.
fn identity(i: &Instance, perturbed: bool) -> Residual {
    let u = i.average_generator()?;
    let (_, u_dot) = i.forward_dot()?;
    let q = i.generator.dense();
    let transport = q.product(&u);
    let weight = if perturbed { 0.0 } else { 1.0 };
    let right: Vec<f64> = (0..u_dot.len())
        .map(|k| q.data()[k] - (i.t - i.r) * (u_dot[k] + weight * transport.data()[k]))
        .collect();
    Ok(Some(residual(u.data(), &right)))
}

fn is_generator(i: &Instance, perturbed: bool) -> Residual {
    let u = if perturbed {
        let p = i.backward()?;
        p.combine(1.0 / (i.r - i.t), 0.0, p)
    } else {
        i.average_generator()?
    };
    Ok(Some(generator_defect(&u)))
}

/// Against the forward solution row by row, and in law against `p_t` and `p_r`, which know
/// nothing of the generator.
fn euler_step(i: &Instance, perturbed: bool) -> Residual {
    let h = (i.r - i.t) * if perturbed { 0.5 } else { 1.0 };
    let identity = Matrix::identity(i.states())?;
    let step = identity.combine(1.0, h, &i.average_generator()?);
    let law = |t: f64| i.chain.marginal(i.schedule().level(t));
    let start = law(i.t);
    let end = Matrix::from_data(1, start.len(), start).product(&step);
    Ok(Some(worse(
        residual(step.data(), i.forward()?.data()),
        residual(end.data(), &law(i.r)),
    )))
}

fn tends_to_rate(i: &Instance, perturbed: bool) -> Residual {
    let at = |h: f64| propagator::average_generator(&i.chain, i.t, i.t + h).map(Matrix::into_data);
    let h = 0.5 * i.reach();
    let u = if perturbed { at(h)? } else { limit(1, h, at)? };
    Ok(Some(residual(&u, i.generator.dense().data())))
}

fn operator_form(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let identity = Matrix::identity(i.states())?;
    let drop = if perturbed { 0.0 } else { 1.0 };
    let sum = |table: &[f64], scale: f64| {
        let n = i.states().len();
        (0..i.states().coords()).fold(Matrix::zeros(n, n), |sum, e| {
            let jump = i.resampler(e, table).combine(1.0, -drop, &identity);
            sum.combine(1.0, scale, &jump)
        })
    };
    let p = i.prediction.at(i.t, i.r);
    let mu = i.schedule().mu(i.t, i.r);
    Ok(Some(worse(
        residual(
            sum(&i.posterior, i.lambda()).data(),
            i.generator.dense().data(),
        ),
        residual(sum(&p, mu).data(), i.model_generator(&p).dense().data()),
    )))
}
