//! What the paper does not state: where the correction vanishes, and the linear target.
//!
//! The uniform-state process and the mixture path from a point source (a mask, or any symbol that
//! is certain, even one of the data's) reverse a noising that acts on each coordinate alone, so
//! `p(x_r^d | x_t) = E_{x_1 ~ p_{1|t}} q(x_r^d | x_t^d, x_1^d)`: one step from the posterior
//! already has the exact marginals, and there is nothing to correct. The mixture path from any
//! other source is no such reversal.

use fewstep_ctmc::{law, projection::project, propagator, transport};

use super::instance::{Instance, Step};
use super::model::Model;
use super::numeric::{derivative, residual, worse};
use super::transport::reparameterised_rate;
use super::{Claim, Kind, Residual};
use crate::objective::{Objective, Row, loss};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "time reversal",
        label: "ours: masked, uniform-state",
        statement: "P_{t->r}(x,y) = p_r(y) F(y,x)/p_t(x), F the noising of each coordinate alone",
        perturbation: "drops 1/p_t(x)",
        kind: Kind::Equal,
        check: reversal,
    },
    Claim {
        name: "posterior has exact marginals",
        label: "ours: point source, uniform-state",
        statement: "the step from p~ = p_{1|t} has the marginals p^d_{r|t}(.|x), for every r",
        perturbation: "takes the posterior of another state and coordinate",
        kind: Kind::Equal,
        check: posterior_is_exact,
    },
    Claim {
        name: "posterior solves the identity",
        label: "ours: point source, uniform-state",
        statement: "p~ = p_{1|t} solves eq. projected-fp for every r; if masked, C_cross = 0",
        perturbation: "moves p~ at one state",
        kind: Kind::Equal,
        check: posterior_solves,
    },
    Claim {
        name: "posterior lacks exact marginals",
        label: "ours: mixture, other sources",
        statement: "the step from p~ = p_{1|t} does not have the marginals p^d_{r|t}(.|x)",
        perturbation: "takes the exact marginals",
        kind: Kind::Differs,
        check: posterior_is_not_exact,
    },
    Claim {
        name: "fixed point of the linear target",
        label: "ours: linear target",
        statement: "lambda (p~ - T) = V - [Pi^d[Q] - (t-r)(d_t V + Q V)], V = mu p~: zero together",
        perturbation: "flips the sign of the shift",
        kind: Kind::Equal,
        check: linear_fixed_point,
    },
    Claim {
        name: "gradient of the linear target",
        label: "ours: linear target",
        statement: "its gradient in the logits is lambda (p~ - T)",
        perturbation: "takes the posterior for T",
        kind: Kind::Equal,
        check: linear_gradient,
    },
    Claim {
        name: "linear target is unbiased",
        label: "ours: linear target",
        statement: "E_{e,s} of its single-draw gradient is its gradient with the exact C",
        perturbation: "draws s from p~ in place of p_{1|t}",
        kind: Kind::Equal,
        check: linear_unbiased,
    },
    Claim {
        name: "log objective is biased",
        label: "ours, on eq:loss-general",
        statement: "E_{e,s} of the single-draw gradient is not the gradient with the exact C",
        perturbation: "takes the linear target",
        kind: Kind::Differs,
        check: log_biased,
    },
];

/// Whether the chain is the time reversal of a noising of each coordinate alone.
fn reverses(i: &Instance) -> bool {
    !i.is_mixture() || i.has_point_source()
}

fn reversal(i: &Instance, perturbed: bool) -> Residual {
    let Some(closed) = propagator::reversal(&i.chain, i.t, i.r)? else {
        return Ok(None);
    };
    let n = i.states().len();
    let mut closed = closed.into_data();
    if perturbed {
        let p = i.chain.marginal(i.level());
        closed
            .iter_mut()
            .enumerate()
            .for_each(|(k, v)| *v *= p[k / n]);
    }
    Ok(Some(residual(&closed, i.backward()?.data())))
}

fn posterior_is_exact(i: &Instance, perturbed: bool) -> Residual {
    if !reverses(i) {
        return Ok(None);
    }
    let posterior = if perturbed {
        let mut moved = i.posterior.clone();
        moved.reverse();
        moved
    } else {
        i.posterior.clone()
    };
    let rows = law::step_rows(&i.chain, i.t, i.r, &posterior);
    Ok(Some(residual(&rows, &project(i.forward()?, i.states()))))
}

/// Every part of it at once: the identity itself for `V` from the sampler's rows, on the mixture
/// path `q^`, and with masks `C_cross`, of which the tower property leaves nothing.
fn posterior_solves(i: &Instance, perturbed: bool) -> Residual {
    if !reverses(i) {
        return Ok(None);
    }
    let posterior = |t: f64| {
        let mut table = i.chain.posterior(i.schedule().level(t));
        if perturbed {
            // The last state shows every coordinate's last symbol: all masks, where there are any.
            table[i.cut(i.states().len() - 1)].rotate_left(1);
        }
        table
    };
    let stay = i.indicator();
    let average = |t: f64| -> Vec<f64> {
        let rows = law::step_rows(&i.chain, t, i.r, &posterior(t));
        let moved = rows.iter().zip(&stay).map(|(p, stay)| p - stay);
        moved.map(|v| v / (i.r - t)).collect()
    };
    let v = average(i.t);
    let dot = derivative(i.t, i.reach_below_r(), |t| Ok(average(t)))?;
    let transported = transport::by_closure(&i.generator, &v);
    let right: Vec<f64> = (0..v.len())
        .map(|k| i.generator.rates()[k] - (i.t - i.r) * (dot[k] + transported[k]))
        .collect();
    let mut worst = residual(&v, &right);
    if i.is_mixture() {
        let tangent = derivative(i.t, i.reach(), |t| Ok(posterior(t)))?;
        let model = i.model_of(posterior(i.t), tangent, i.r);
        for x in 0..i.states().len() {
            let row = i.row(&model, x, &i.posterior[i.cut(x)]);
            worst = worse(worst, row.identity_residual());
        }
        if let Some(mask) = i.mask() {
            let cross = transport::c_cross(i.states(), mask, &i.posterior, &model.prediction);
            let zero = vec![0.0; cross.len()];
            worst = worse(worst, residual(&cross, &zero));
            worst = worse(worst, residual(&model.tangent, &zero));
        }
    }
    Ok(Some(worst))
}

/// Not for short steps, where the two agree to the order of the step squared.
fn posterior_is_not_exact(i: &Instance, perturbed: bool) -> Residual {
    if reverses(i) || i.step == Step::Short {
        return Ok(None);
    }
    let prediction = if perturbed {
        i.exact_prediction()?.0
    } else {
        i.posterior.clone()
    };
    let rows = law::step_rows(&i.chain, i.t, i.r, &prediction);
    Ok(Some(residual(&rows, &project(i.forward()?, i.states()))))
}

/// Off the diagonal the two sides are independent; on it both are minus the sum of the others.
fn linear_fixed_point(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let model = i.model(&i.prediction, i.r);
    let mut gap = Vec::new();
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        gap.extend((0..row.prediction.len()).map(|k| {
            let flipped = if perturbed { 2.0 * row.shift(k) } else { 0.0 };
            row.prediction[k] - (row.linear_target(k) + flipped)
        }));
    }
    let rate = reparameterised_rate(i)?;
    let target = i.off_diagonal(i.generator.rates().to_vec());
    let identity: Vec<f64> = rate.iter().zip(target).map(|(q, p)| q - p).collect();
    Ok(Some(residual(&i.lift(&gap, i.lambda()), &identity)))
}

fn linear_gradient(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let model = i.model(&i.prediction, i.r);
    let kept = i.chain.path().symbols();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        let mut out = vec![0.0; row.prediction.len()];
        loss(Objective::Linear, &row, 1.0, &mut out);
        left.extend(out);
        right.extend((0..row.prediction.len()).map(|k| {
            let target = if perturbed {
                row.posterior[k]
            } else {
                row.linear_target(k)
            };
            let taking_part = f64::from(u8::from(row.active(k / kept)));
            taking_part * i.lambda() * (row.prediction[k] - target)
        }));
    }
    Ok(Some(residual(&left, &right)))
}

/// The single-draw gradient averaged over all jumps, and the gradient with the exact `C`.
fn draw_bias(i: &Instance, objective: Objective, model: &Model, from_prediction: bool) -> f64 {
    let (coords, kept) = (i.states().coords(), i.chain.path().symbols());
    let (mut mean, mut exact) = (Vec::new(), Vec::new());
    for x in 0..i.states().len() {
        let row = i.row(model, x, &i.posterior[i.cut(x)]);
        let mut average = vec![0.0; row.prediction.len()];
        for (e, s, weight) in i.jumps(x) {
            let weight = if from_prediction {
                row.prediction[e * kept + s] / coords as f64
            } else {
                weight
            };
            let gamma = i.drawn_gamma(model, x, e, s);
            let drawn = Row {
                gamma: &gamma,
                ..row
            };
            loss(objective, &drawn, weight, &mut average);
        }
        mean.extend(average);
        let mut whole = vec![0.0; row.prediction.len()];
        loss(objective, &row, 1.0, &mut whole);
        exact.extend(whole);
    }
    residual(&mean, &exact)
}

fn linear_unbiased(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let model = i.model(&i.prediction, i.r);
    Ok(Some(draw_bias(i, Objective::Linear, &model, perturbed)))
}

/// At steps so short that no draw meets the product's floor: the bias is the logarithm's alone.
fn log_biased(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() || i.step == Step::Short {
        return Ok(None);
    }
    let (model, _) = i.mild_models(true);
    let objective = if perturbed {
        Objective::Linear
    } else {
        Objective::P
    };
    Ok(Some(draw_bias(i, objective, &model, false)))
}
