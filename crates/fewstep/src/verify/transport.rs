//! The parameterisation `U^theta = mu p~`, its projected transport term in closed form, the
//! shifted probability and the single-draw estimators (Section Tractable Training Objective,
//! appendices projection and masked). Expectations over draws are exact: every `(e, s)` is visited.

use fewstep_ctmc::{Error, law, ode, transport};

use super::instance::{Instance, Step};
use super::numeric::{derivative, limit, residual, worse};
use super::{Claim, Kind, Residual};
use crate::objective::Row;

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
        name: "shifted probability sums to one",
        label: "eq:data-posterior",
        statement: "sum_z q^(z|x) = 1, with the exact C and with every single draw",
        perturbation: "leaves p_{1|t} out of Gamma",
        kind: Kind::Equal,
        check: sums_to_one,
    },
    Claim {
        name: "single draw of C is unbiased",
        label: "eq:C-estimator",
        statement: "E_{e,s} D (p~(.|x^{e->s}) - p~(.|x)) = C",
        perturbation: "draws s from p~ in place of p_{1|t}",
        kind: Kind::Equal,
        check: unbiased,
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
        name: "single draw of C_cross is unbiased",
        label: "eq:C-estimator-masked",
        statement: "E_{e in M(x),s} |M| 1[e != d] (p~(.|x^{e->s}) - p~(.|x)) = C_cross",
        perturbation: "drops 1[e != d]",
        kind: Kind::Equal,
        check: masked_unbiased,
    },
    Claim {
        name: "general transport term",
        label: "eq:transport-general",
        statement: "Pi^d[Q U] = sum_e sum_s q^e u^d(x^{e->s}) = sum_e Lambda^e (E_nu u^d - u^d)",
        perturbation: "drops -u^d(x)",
        kind: Kind::Equal,
        check: general,
    },
    Claim {
        name: "general single draw is unbiased",
        label: "eq:transport-general, text below",
        statement: "E_{e, s ~ nu^e} D Lambda^e (u^d(x^{e->s},z) - u^d(x,z)) = Pi^d[Q U]",
        perturbation: "drops Lambda^e",
        kind: Kind::Equal,
        check: general_unbiased,
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

fn sums_to_one(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let model = i.model(&i.prediction, i.r);
    let kept = i.chain.path().symbols();
    let mut sums = Vec::new();
    let mut add = |row: Row| {
        for d in 0..row.x.len() {
            let mut gamma = row.gamma.to_vec();
            if perturbed {
                gamma
                    .iter_mut()
                    .zip(row.posterior)
                    .for_each(|(g, q)| *g += q);
            }
            let row = Row {
                gamma: &gamma,
                ..row
            };
            sums.push(
                (d * kept..(d + 1) * kept)
                    .map(|k| row.shifted(k))
                    .sum::<f64>(),
            );
        }
    };
    for x in 0..i.states().len() {
        let row = i.row(&model, x, &i.posterior[i.cut(x)]);
        add(row);
        for (e, s, _) in i.jumps(x) {
            let gamma = i.drawn_gamma(&model, x, e, s);
            add(Row {
                gamma: &gamma,
                ..row
            });
        }
    }
    Ok(Some(residual(&sums, &vec![1.0; sums.len()])))
}

fn unbiased(i: &Instance, perturbed: bool) -> Residual {
    let p = i.prediction.at(i.t, i.r);
    let (coords, kept) = (i.states().coords(), i.chain.path().symbols());
    let mut mean = vec![0.0; p.len()];
    for x in 0..i.states().len() {
        for e in 0..coords {
            for s in 0..kept {
                let law = if perturbed { &p } else { &i.posterior };
                let share = law[i.cut(x)][e * kept + s] / coords as f64;
                let there = &p[i.cut(i.states().with(x, e, s))];
                transport::draw_c(coords, &p[i.cut(x)], there, share, &mut mean[i.cut(x)]);
            }
        }
    }
    let c = transport::c_term(i.states(), &i.posterior, &p);
    Ok(Some(residual(&mean, &c)))
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

fn masked_unbiased(i: &Instance, perturbed: bool) -> Residual {
    let Some(mask) = i.mask() else {
        return Ok(None);
    };
    let p = i.prediction.at(i.t, i.r);
    let (coords, kept) = (i.states().coords(), i.chain.path().symbols());
    let mut mean = vec![0.0; p.len()];
    for x in 0..i.states().len() {
        let masked: Vec<usize> = (0..coords).filter(|&e| i.symbols(x)[e] == mask).collect();
        let m = masked.len();
        for e in masked {
            for s in 0..kept {
                let share = i.posterior[i.cut(x)][e * kept + s] / m as f64;
                let (here, there) = (&p[i.cut(x)], &p[i.cut(i.states().with(x, e, s))]);
                let out = &mut mean[i.cut(x)];
                if perturbed {
                    transport::draw_c(m, here, there, share, out);
                } else {
                    transport::draw_c_cross(m, e, coords, here, there, share, out);
                }
            }
        }
    }
    let cross = transport::c_cross(i.states(), mask, &i.posterior, &p);
    Ok(Some(residual(&mean, &cross)))
}

/// `(e, s, Lambda^e, nu^e(s))` of every jump that can leave `x`.
fn outflows(i: &Instance, x: usize) -> Vec<(usize, usize, f64, f64)> {
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
    let mut jumps = vec![0.0; product.len()];
    for x in 0..i.states().len() {
        for (e, s, outflow, nu) in outflows(i, x) {
            let y = i.states().with(x, e, s);
            for k in 0..row {
                let here = if perturbed {
                    0.0
                } else {
                    u.rates()[x * row + k]
                };
                jumps[x * row + k] += outflow * nu * (u.rates()[y * row + k] - here);
            }
        }
    }
    Ok(Some(worse(
        residual(&product, &sum),
        residual(&product, &jumps),
    )))
}

fn general_unbiased(i: &Instance, perturbed: bool) -> Residual {
    let u = i.model_generator(&i.prediction.at(i.t, i.r));
    let coords = i.states().coords();
    let row = coords * i.states().symbols();
    let mut mean = vec![0.0; u.rates().len()];
    for x in 0..i.states().len() {
        for (e, s, outflow, nu) in outflows(i, x) {
            let y = i.states().with(x, e, s);
            let at = |x: usize| &u.rates()[x * row..(x + 1) * row];
            let outflow = if perturbed { 1.0 } else { outflow };
            let draw = transport::draw_general(coords, outflow, at(x), at(y));
            for (o, v) in mean[x * row..].iter_mut().zip(draw) {
                *o += nu / coords as f64 * v;
            }
        }
    }
    let product = transport::by_product(&i.generator, &u.dense());
    Ok(Some(residual(&product, &mean)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The total variance over `(e, s)` of an estimate `[D, S]`.
    fn variance(draws: &[(f64, Vec<f64>)]) -> f64 {
        let entries = 0..draws[0].1.len();
        let moment =
            |k: usize, power: i32| -> f64 { draws.iter().map(|(w, v)| w * v[k].powi(power)).sum() };
        entries.map(|k| moment(k, 2) - moment(k, 1).powi(2)).sum()
    }

    /// The draws of eq. C-estimator and eq. C-estimator-masked at the state of all masks.
    fn draws(
        coords: usize,
        posterior: &[f64],
        here: &[f64],
        there: impl Fn(usize, usize) -> Vec<f64>,
    ) -> [Vec<(f64, Vec<f64>)>; 2] {
        let kept = posterior.len() / coords;
        let mut out = [Vec::new(), Vec::new()];
        for e in 0..coords {
            for s in 0..kept {
                let weight = posterior[e * kept + s] / coords as f64;
                let there = there(e, s);
                let mut c = [vec![0.0; here.len()], vec![0.0; here.len()]];
                transport::draw_c(coords, here, &there, 1.0, &mut c[0]);
                transport::draw_c_cross(coords, e, coords, here, &there, 1.0, &mut c[1]);
                let [plain, cross] = c;
                out[0].push((weight, plain));
                out[1].push((weight, cross));
            }
        }
        out
    }

    /// The masked estimator is said to have the lower variance. It has on every random instance...
    #[test]
    fn the_masked_estimator_usually_varies_less() {
        let mut seen = 0;
        for i in (0..100).map(|k| Instance::draw(2, k).unwrap()) {
            if i.mask().is_some() {
                let p = i.prediction.at(i.t, i.r);
                let x = i.states().len() - 1;
                let there = |e, s| p[i.cut(i.states().with(x, e, s))].to_vec();
                let coords = i.states().coords();
                let [plain, cross] = draws(coords, &i.posterior[i.cut(x)], &p[i.cut(x)], there)
                    .map(|d| variance(&d));
                assert!(cross < plain, "{cross} against {plain}");
                seen += 1;
            }
        }
        assert!(seen >= 15);
    }

    /// ... but not always: where the data is certain and any jump tells the network so, eq.
    /// C-estimator does not vary at all, and the estimator that leaves out `e = d` does.
    #[test]
    fn the_masked_estimator_can_vary_more() {
        let certain = [1.0, 0.0, 1.0, 0.0];
        let [plain, cross] =
            draws(2, &certain, &[0.5; 4], |_, _| certain.to_vec()).map(|d| variance(&d));
        assert_eq!(plain, 0.0);
        assert!((cross - 1.0).abs() < 1e-15, "{cross}");
    }
}
