//! The projected transport term in closed form, and the rate and the shifted probability it gives
//! (Section Tractable Training Objective, appendices projection, masked and duo).

use fewstep_ctmc::{Error, transport};

use super::instance::Instance;
use super::numeric::{derivative, residual, worse};
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "tractable transport term",
        label: "prop:tractable-QU, eq:commutator, eq:C-term",
        statement: "Pi^d[Q U^theta](x,z) = lambda mu [C(x,z) - p_{1|t}(z|x)], z != x^d",
        perturbation: "drops -p_{1|t}",
        kind: Kind::Equal,
        check: tractable,
    },
    Claim {
        name: "tractable rate",
        label: "eq:Q-reparam, eq:At-tractable, eq:Gamma",
        statement: "mu p~ + (t-r)(d_t(mu p~) + Pi^d[Q U^theta]) = lambda p~ + (t-r) mu [d_t p~ + \
                    lambda Gamma]",
        perturbation: "leaves p~ out of Gamma",
        kind: Kind::Equal,
        check: tractable_rate,
    },
    Claim {
        name: "shifted probability is the rate",
        label: "eq:data-posterior",
        statement: "lambda q^(z) = mu p~ + (t-r)(d_t mu p~ + mu d_t p~ + lambda mu (Gamma - p~))",
        perturbation: "drops d_t mu p~",
        kind: Kind::Equal,
        check: shifted_is_rate,
    },
    Claim {
        name: "C on the masked path",
        label: "eq:C-masked",
        statement: "C = (p_{1|t} - p~) + C_cross, hence Gamma = C_cross",
        perturbation: "drops p_{1|t} - p~",
        kind: Kind::Equal,
        check: masked,
    },
    Claim {
        name: "tractable rate on the masked path",
        label: "eq:At-masked",
        statement: "mu p~ + (t-r)(d_t(mu p~) + Pi^d[Q U^theta]) = lambda p~ + (t-r) mu [d_t p~ + \
                    lambda C_cross]",
        perturbation: "takes C for C_cross",
        kind: Kind::Equal,
        check: masked_rate,
    },
    Claim {
        name: "general transport term",
        label: "eq:transport-general",
        statement: "Pi^d[Q U] = sum_e sum_s q^e u^d(x^{e->s}) = sum_e Lambda^e (E_nu u^d - u^d)",
        perturbation: "drops -u^d(x)",
        kind: Kind::Equal,
        check: general,
    },
];

/// `Pi^d[Q_t U^theta]` by the dense product, off the diagonal.
fn transport_by_product(i: &Instance, prediction: &[f64]) -> Vec<f64> {
    let u = i.model_generator(prediction).dense();
    i.off_diagonal(transport::by_product(&i.generator, &u))
}

fn tractable(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let p = i.prediction.at(i.t, i.r);
    let mut c = transport::c_term(i.states(), &i.posterior, &p);
    if !perturbed {
        c.iter_mut().zip(&i.posterior).for_each(|(c, q)| *c -= q);
    }
    let closed = i.lift(&c, i.lambda() * i.schedule().mu(i.t, i.r));
    Ok(Some(residual(&transport_by_product(i, &p), &closed)))
}

/// Eq. Q-reparam with the transport term by matrix product and `d_t (mu p~)` by differences,
/// `[N, D, S']` off the diagonal.
pub(super) fn reparameterised_rate(i: &Instance) -> Result<Vec<f64>, Error> {
    let scaled = |t: f64| i.lift(&i.prediction.at(t, i.r), i.schedule().mu(t, i.r));
    let dot = derivative(i.t, i.reach_below_r(), |t| Ok(scaled(t)))?;
    let transport = transport_by_product(i, &i.prediction.at(i.t, i.r));
    let rate = scaled(i.t).into_iter().zip(dot).zip(transport);
    Ok(rate
        .map(|((u, dot), transport)| u + (i.t - i.r) * (dot + transport))
        .collect())
}

/// The product's `q^`, `[N, D, S]`, with the exact `Gamma` or another.
fn shifted(i: &Instance, gamma: Option<Vec<f64>>) -> Vec<f64> {
    let mut model = i.model(&i.prediction, i.r);
    if let Some(gamma) = gamma {
        model.gamma = gamma;
    }
    let mut out = Vec::new();
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        out.extend((0..row.prediction.len()).map(|k| row.shifted(k)));
    }
    out
}

/// As values; how the stop-gradient splits them is the claim on gradients.
fn tractable_rate(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let p = i.prediction.at(i.t, i.r);
    let c = transport::c_term(i.states(), &i.posterior, &p);
    let gamma = perturbed.then(|| c.iter().zip(&i.posterior).map(|(c, q)| c - q).collect());
    let closed = i.lift(&shifted(i, gamma), i.lambda());
    Ok(Some(residual(&reparameterised_rate(i)?, &closed)))
}

/// The two forms in which the product computes it: as `q^` and as the rate of the `Q` objective.
fn shifted_is_rate(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let model = i.model(&i.prediction, i.r);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for x in 0..i.states().len() {
        let mut row = i.row(&model, x, &i.posterior[i.cut(x)]);
        if perturbed {
            row.pair.mu_dot = 0.0;
        }
        for k in 0..row.prediction.len() {
            left.push(row.pair.lambda * row.shifted(k));
            right.push(row.pair.mu * row.prediction[k] + row.rate_correction(k));
        }
    }
    Ok(Some(residual(&left, &right)))
}

fn masked(i: &Instance, perturbed: bool) -> Residual {
    let Some(mask) = i.mask() else {
        return Ok(None);
    };
    let p = i.prediction.at(i.t, i.r);
    let c = transport::c_term(i.states(), &i.posterior, &p);
    let cross = transport::c_cross(i.states(), mask, &i.posterior, &p);
    let own = i.posterior.iter().zip(&p).map(|(q, p)| q - p);
    let sum: Vec<f64> = own
        .zip(&cross)
        .map(|(own, cross)| cross + if perturbed { 0.0 } else { own })
        .collect();
    Ok(Some(worse(
        residual(&c, &sum),
        residual(&i.gamma(&c, &p), &cross),
    )))
}

fn masked_rate(i: &Instance, perturbed: bool) -> Residual {
    let Some(mask) = i.mask() else {
        return Ok(None);
    };
    let p = i.prediction.at(i.t, i.r);
    let gamma = if perturbed {
        transport::c_term(i.states(), &i.posterior, &p)
    } else {
        transport::c_cross(i.states(), mask, &i.posterior, &p)
    };
    let closed = i.lift(&shifted(i, Some(gamma)), i.lambda());
    Ok(Some(residual(&reparameterised_rate(i)?, &closed)))
}

/// `(e, s, Lambda^e, nu^e(s))` of every jump that can leave `x`.
pub(super) fn outflows(i: &Instance, x: usize) -> Vec<(usize, usize, f64, f64)> {
    let mut out = Vec::new();
    for e in 0..i.states().coords() {
        let (row, here) = (i.generator.row(x, e), i.symbols(x)[e]);
        let rates = || row.iter().enumerate().filter(|&(s, _)| s != here);
        let total: f64 = rates().map(|(_, q)| q).sum();
        out.extend(
            rates()
                .filter(|(_, q)| **q > 0.0)
                .map(|(s, q)| (e, s, total, q / total)),
        );
    }
    out
}

/// Both forms against the dense product, with the diagonal, on every process.
fn general(i: &Instance, perturbed: bool) -> Residual {
    let u = i.model_generator(&i.prediction.at(i.t, i.r));
    let product = transport::by_product(&i.generator, &u.dense());
    let sum = transport::by_closure(&i.generator, u.rates());
    let row = product.len() / i.states().len();
    let keep = if perturbed { 0.0 } else { 1.0 };
    let mut jumps = vec![0.0; product.len()];
    for x in 0..i.states().len() {
        for (e, s, outflow, nu) in outflows(i, x) {
            let y = i.states().with(x, e, s);
            for k in 0..row {
                let gap = u.rates()[y * row + k] - keep * u.rates()[x * row + k];
                jumps[x * row + k] += outflow * nu * gap;
            }
        }
    }
    Ok(Some(worse(
        residual(&product, &sum),
        residual(&product, &jumps),
    )))
}
