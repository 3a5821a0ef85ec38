//! The losses of [`objective`](crate::objective) against the Bregman sums they come from (Section
//! Training Objective, appendices training objective and dag-objective-proof).
//!
//! The product leaves out what does not depend on `p~`. Where the left-out part is constant, two
//! unrelated predictions must have the same difference in both forms; where it is a function of a
//! stop-gradient target, it is added back. Steps are shortened until every shifted probability is
//! far above the product's floor, below which its losses are no longer the paper's.

use super::instance::Instance;
use super::model::Model;
use super::numeric::{bregman, derivative, residual, worse};
use super::{Claim, Kind, Residual};
use crate::objective::{FLOOR, Objective, Row, loss};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "rate loss is the posterior loss",
        label: "eq:training-rate, eq:training-posterior",
        statement: "sum_z D_F(Q(x,z|x_1) || lambda p) = lambda sum_d {-(1-delta) log p(x_1) + \
                    delta - p(x_t)}",
        perturbation: "drops the linear part of D_F",
        kind: Kind::Equal,
        check: training_posterior,
    },
    Claim {
        name: "rate loss is the shifted loss",
        label: "eq:v-loss, eq:loss-general",
        statement: "sum_z D_F(Q(x,z|x_1) || Q^theta) = lambda sum_d {-(1-delta) log q^(x_1) - \
                    q^(x_t)} + const",
        perturbation: "drops the linear part of D_F",
        kind: Kind::Equal,
        check: loss_general,
    },
    Claim {
        name: "rate loss in the rate",
        label: "eq:training-posterior_dmf",
        statement: "sum_z D_F(Q(x,z|x_1) || Q^theta) = sum_d {-(1-delta) lambda log Q^theta(x_1) + \
                    sum_z Q^theta} + const",
        perturbation: "drops the linear part of D_F",
        kind: Kind::Equal,
        check: rate_loss,
    },
    Claim {
        name: "shifted loss on the masked path",
        label: "eq:loss-masked",
        statement: "lambda sum_{d in M} -log(p~ + shift with C_cross) = eq. loss-general over all \
                    d + const",
        perturbation: "drops C_cross",
        kind: Kind::Equal,
        check: loss_masked,
    },
    Claim {
        name: "average generator loss",
        label: "eq:u-loss",
        statement: "value and gradient of sum_z D_F(sg(U^) || mu p~), negative targets cut",
        perturbation: "flips the sign of the correction in U^",
        kind: Kind::Equal,
        check: average_loss,
    },
    Claim {
        name: "gradient under the two stop-gradients",
        label: "eq:Q-reparam, eq:At-tractable",
        statement: "grad of eq. At-tractable's loss = lambda/mu times that of eq. Q-reparam's",
        perturbation: "takes the ratio for one",
        kind: Kind::Equal,
        check: gradient_ratio,
    },
    Claim {
        name: "boundary r = t",
        label: "eq:At-tractable, text below",
        statement: "at r = t, Q^theta = lambda p~ and the loss is eq. training-posterior + const",
        perturbation: "takes r > t",
        kind: Kind::Equal,
        check: boundary,
    },
    Claim {
        name: "population optimum",
        label: "prop:fixed-point, text below",
        statement: "at the exact marginals the gradients of U, Q, P and the linear target vanish",
        perturbation: "takes the posterior for the exact marginals",
        kind: Kind::Equal,
        check: population_optimum,
    },
];

/// The `(x, x_1)` with `p_{t|1}(x | x_1) > 0`, and `x_1` as a one-hot label `[D, S]`.
fn pairs(i: &Instance) -> impl Iterator<Item = (usize, Vec<usize>, Vec<f64>)> + '_ {
    let (path, data, kept) = (i.chain.path(), i.chain.data(), i.chain.path().symbols());
    let noising: Vec<_> = (0..data.coords())
        .map(|d| path.noising(i.level(), d))
        .collect();
    (0..i.states().len() * data.len()).filter_map(move |k| {
        let (x, x1) = (k / data.len(), data.decode(k % data.len()));
        let possible = |d: usize| noising[d][i.symbols(x)[d] * kept + x1[d]] > 0.0;
        if !(0..x1.len()).all(possible) {
            return None;
        }
        let mut label = vec![0.0; x1.len() * kept];
        x1.iter()
            .enumerate()
            .for_each(|(d, s)| label[d * kept + s] = 1.0);
        Some((x, x1, label))
    })
}

/// `sum_d sum_{z != x^d} D_F(Q^d(x, z | x_1) || rate(d, z))`, or without its linear part.
fn bregman_sum(
    i: &Instance,
    x: usize,
    x1: &[usize],
    linear: bool,
    rate: impl Fn(usize) -> f64,
) -> f64 {
    let (path, kept, level) = (i.chain.path(), i.chain.path().symbols(), i.level());
    let mut sum = 0.0;
    for (d, (&here, &target)) in i.symbols(x).iter().zip(x1).enumerate() {
        // No rate leads to the mask: its summand is D_F(0 || 0).
        for z in (0..kept).filter(|&z| z != here) {
            let a = i.lambda() * path.conditional_rate(level, here, z, target);
            let b = rate(d * kept + z);
            sum += bregman(a, b) - if linear { 0.0 } else { b - a };
        }
    }
    sum
}

fn training_posterior(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let model = i.model(&i.prediction, i.t);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut unused = vec![0.0; i.cut(0).len()];
    for (x, x1, label) in pairs(i) {
        let row = i.row(&model, x, &label);
        let rate = |k: usize| i.lambda() * row.prediction[k];
        left.push(bregman_sum(i, x, &x1, !perturbed, rate));
        right.push(loss(Objective::Posterior, &row, 1.0, &mut unused));
    }
    Ok(Some(residual(&left, &right)))
}

/// The rate of eq. At-tractable at entry `k`, `lambda p~ + (t-r) mu [d_t p~ + lambda Gamma]`. A
/// carried coordinate has none.
fn tractable_rate(row: &Row, k: usize) -> f64 {
    let d = k * row.x.len() / row.prediction.len();
    let rate = row.pair.lambda * row.shifted(k);
    if row.active(d) { rate } else { 0.0 }
}

/// The difference of `value` between two mild predictions, over all pairs `(x, x_1)`.
fn contrast(
    i: &Instance,
    models: &(Model, Model),
    value: impl Fn(&Row, usize, &[usize]) -> f64,
) -> Vec<f64> {
    pairs(i)
        .map(|(x, x1, label)| {
            let at = |model| value(&i.row(model, x, &label), x, &x1);
            at(&models.0) - at(&models.1)
        })
        .collect()
}

fn product_loss(objective: Objective) -> impl Fn(&Row, usize, &[usize]) -> f64 {
    move |row, _, _| loss(objective, row, 1.0, &mut vec![0.0; row.prediction.len()])
}

fn against_bregman(i: &Instance, objective: Objective, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let models = i.mild_models(false);
    let whole = contrast(i, &models, |row, x, x1| {
        bregman_sum(i, x, x1, !perturbed, |k| tractable_rate(row, k))
    });
    let product = contrast(i, &models, product_loss(objective));
    Ok(Some(residual(&whole, &product)))
}

fn loss_general(i: &Instance, perturbed: bool) -> Residual {
    against_bregman(i, Objective::P, perturbed)
}

fn rate_loss(i: &Instance, perturbed: bool) -> Residual {
    against_bregman(i, Objective::Q, perturbed)
}

/// The left side is the product's, with `C_cross` for `Gamma`; the right side eq. loss-general as
/// printed, with `Gamma` from `C` over all coordinates, masked or not.
fn loss_masked(i: &Instance, perturbed: bool) -> Residual {
    let Some(mask) = i.mask() else {
        return Ok(None);
    };
    let printed = i.mild_models(false);
    let right = contrast(i, &printed, |row, x, x1| {
        let kept = row.prediction.len() / row.x.len();
        let mut sum = 0.0;
        for (d, (&here, &target)) in i.symbols(x).iter().zip(x1).enumerate() {
            if here != target {
                sum -= row.shifted(d * kept + target).ln();
            }
            if here != mask {
                sum -= row.shifted(d * kept + here);
            }
        }
        row.pair.lambda * sum
    });
    let crossed = |model: &Model| {
        let cross =
            fewstep_ctmc::transport::c_cross(i.states(), mask, &i.posterior, &model.prediction);
        let keep = if perturbed { 0.0 } else { 1.0 };
        Model {
            gamma: cross.iter().map(|c| keep * c).collect(),
            prediction: model.prediction.clone(),
            tangent: model.tangent.clone(),
            pair: model.pair,
        }
    };
    let models = (crossed(&printed.0), crossed(&printed.1));
    let left = contrast(i, &models, product_loss(Objective::P));
    Ok(Some(residual(&left, &right)))
}

/// The gradient in the logits of coordinate-wise softmaxes at `p`, by differences.
fn logit_gradient(p: &[f64], kept: usize, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    (0..p.len())
        .map(|k| {
            let moved = |h: f64| {
                let mut p = p.to_vec();
                let row = &mut p[k / kept * kept..][..kept];
                row[k % kept] *= h.exp();
                let total: f64 = row.iter().sum();
                row.iter_mut().for_each(|v| *v /= total);
                f(&p)
            };
            derivative(0.0, 0.02, |h| Ok(vec![moved(h)])).map_or(f64::NAN, |slope| slope[0])
        })
        .collect()
}

/// The entries `z != x^d` of the coordinates that take part.
fn moving(row: &Row) -> Vec<usize> {
    let kept = row.prediction.len() / row.x.len();
    (0..row.prediction.len())
        .filter(|k| row.active(k / kept) && row.x[k / kept] != k % kept)
        .collect()
}

fn average_loss(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let (model, _) = i.mild_models(false);
    let kept = i.chain.path().symbols();
    let mut sides = [const { Vec::new() }; 4];
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        let (lambda, mu) = (row.pair.lambda, row.pair.mu);
        let sign = if perturbed { -1.0 } else { 1.0 };
        let target = |k: usize| lambda * row.posterior[k] - sign * row.rate_correction(k);
        let entries = moving(&row);
        let value = |p: &[f64]| -> f64 {
            let terms = entries.iter().map(|&k| (target(k).max(0.0), mu * p[k]));
            terms.map(|(a, b)| bregman(a, b)).sum()
        };
        let mut gradient = vec![0.0; row.prediction.len()];
        let product = loss(Objective::U, &row, 1.0, &mut gradient);
        // What the product leaves out is a function of the stop-gradient target alone.
        let held: f64 = entries
            .iter()
            .map(|&k| target(k))
            .filter(|a| *a > 0.0)
            .map(|a| a * (a / lambda).ln() - a)
            .sum();
        sides[0].push(value(row.prediction));
        sides[1].push(product + held);
        sides[2].extend(logit_gradient(row.prediction, kept, value));
        sides[3].extend(gradient);
    }
    let [value, product, numeric, gradient] = sides;
    Ok(Some(worse(
        residual(&value, &product),
        residual(&numeric, &gradient),
    )))
}

/// The gradient of eq. Q-reparam's loss by differences with the correction held, against the
/// product's, and that against the product's gradient of eq. At-tractable's loss.
fn gradient_ratio(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let (model, _) = i.mild_models(false);
    let kept = i.chain.path().symbols();
    let ratio = if perturbed {
        1.0
    } else {
        model.pair.lambda / model.pair.mu
    };
    let mut sides = [const { Vec::new() }; 3];
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        let entries = moving(&row);
        let value = |p: &[f64]| -> f64 {
            let rate = |k: usize| row.pair.mu * p[k] + row.rate_correction(k);
            let cond = |k: usize| row.pair.lambda * row.label[k];
            entries.iter().map(|&k| bregman(cond(k), rate(k))).sum()
        };
        sides[0].extend(logit_gradient(row.prediction, kept, value));
        for (side, objective) in sides[1..].iter_mut().zip([Objective::Q, Objective::P]) {
            let mut gradient = vec![0.0; row.prediction.len()];
            loss(objective, &row, 1.0, &mut gradient);
            side.extend(gradient);
        }
    }
    let [numeric, of_q, of_p] = sides;
    let scaled: Vec<f64> = of_q.iter().map(|g| ratio * g).collect();
    Ok(Some(worse(
        residual(&numeric, &of_q),
        residual(&scaled, &of_p),
    )))
}

/// Tangent and transport are kept: it is the factor `t - r` that removes them.
fn boundary(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let r = if perturbed {
        i.mild_models(false).0.pair.r
    } else {
        i.t
    };
    let models = (i.model(&i.prediction, r), i.model(&i.other, r));
    let shifted = contrast(i, &models, product_loss(Objective::P));
    let plain = contrast(i, &models, product_loss(Objective::Posterior));
    let mut worst = residual(&shifted, &plain);
    for x in 0..i.states().len() {
        let row = i.row(&models.0, x, &i.posterior[i.cut(x)]);
        let rates: Vec<f64> = (0..row.prediction.len())
            .map(|k| row.pair.mu * row.prediction[k] + row.rate_correction(k))
            .collect();
        let expected: Vec<f64> = row.prediction.iter().map(|p| i.lambda() * p).collect();
        worst = worse(worst, residual(&rates, &expected));
    }
    Ok(Some(worst))
}

/// Labels are the posterior: the expectation over `x_1` given `x_t`. States with a probability
/// so small that the product's floor cuts its logarithm are left out.
fn population_optimum(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let (prediction, tangent) = if perturbed {
        let posterior = |t: f64| Ok(i.chain.posterior(i.schedule().level(t)));
        (posterior(i.t)?, derivative(i.t, i.reach(), posterior)?)
    } else {
        i.exact_prediction()?
    };
    let model = i.model_of(prediction, tangent, i.r);
    let scale = model.pair.mu / model.pair.lambda;
    let mut gradients = Vec::new();
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        let cut = |p: f64| 1e-12 < p && p < 100.0 * FLOOR;
        let entries = 0..row.prediction.len();
        if entries
            .clone()
            .any(|k| cut(row.posterior[k]) || cut(scale * row.prediction[k]))
        {
            continue;
        }
        for objective in [Objective::U, Objective::Q, Objective::P, Objective::Linear] {
            let mut gradient = vec![0.0; row.prediction.len()];
            // Relative to lambda where that is above one: the residual sees only zeros.
            loss(objective, &row, 1.0 / i.lambda().max(1.0), &mut gradient);
            gradients.extend(gradient);
        }
    }
    let zero = vec![0.0; gradients.len()];
    Ok((!zero.is_empty()).then(|| residual(&gradients, &zero)))
}
