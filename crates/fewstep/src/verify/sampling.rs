//! The sampler's step (appendix sampling): a product of per-coordinate Euler steps.

use fewstep_ctmc::{Error, Matrix, divergence, law, projection::project};

use super::instance::{Instance, Step};
use super::numeric::{limit, residual, worse};
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "sampler step",
        label: "eq:sampler-step, alg:dag-sampling",
        statement: "K(x,y) = prod_d [delta_{x^d}(y^d) + (r-t) Pi^d[U^theta](x,y^d)], rows sum to 1",
        perturbation: "takes the full Euler step I + (r-t) U^theta",
        kind: Kind::Equal,
        check: sampler_step,
    },
    Claim {
        name: "exact marginals of a step",
        label: "ap:sampling (i)",
        statement: "Pi^d[U^theta] = Pi^d[U] makes the d-th factor p^d_{r|t}(.|x), any step size",
        perturbation: "takes the posterior for the exact marginals",
        kind: Kind::Equal,
        check: exact_marginals,
    },
    Claim {
        name: "what remains is dependence",
        label: "ap:sampling (i)",
        statement: "KL(P(x,.) || K(x,.)) = sum_d KL(P^d || K^d) + TC(P(x,.)), first part 0 if exact",
        perturbation: "drops the total correlation",
        kind: Kind::Equal,
        check: remaining_error,
    },
    Claim {
        name: "mismatch of the instantaneous scale",
        label: "ap:sampling (ii)",
        statement: "(omega - (r-t) lambda)/(r-t)^2 -> kappa''/(2 (1-kappa)), 0 for affine kappa",
        perturbation: "drops the 1/2",
        kind: Kind::Equal,
        check: scale_mismatch,
    },
];

/// The dense product kernel of rows `[N, D, S']`.
fn product_kernel(i: &Instance, rows: &[f64]) -> Matrix {
    let (states, n) = (i.states(), i.states().len());
    let width = states.coords() * states.symbols();
    let entry = |x: usize, y: usize| -> f64 {
        (0..states.coords())
            .map(|d| rows[x * width + d * states.symbols() + states.symbol(y, d)])
            .product()
    };
    let entries = (0..n * n).map(|k| entry(k / n, k % n));
    Matrix::from_data(n, n, entries.collect())
}

/// The law that the exact sampler law pushes every state to, `[N, N]`.
fn pushed(i: &Instance, rows: &[f64]) -> Vec<f64> {
    let n = i.states().len();
    (0..n)
        .flat_map(|x| {
            let mut p = vec![0.0; n];
            p[x] = 1.0;
            law::push(i.states(), &p, rows)
        })
        .collect()
}

/// The rows the sampler draws from and the kernel that the exact law uses, against the Euler step
/// of the projected model.
fn sampler_step(i: &Instance, perturbed: bool) -> Residual {
    let p = i.prediction.at(i.t, i.r);
    let rows = law::step_rows(&i.chain, i.t, i.r, &p);
    let u = i.model_generator(&p).dense();
    let projected = project(&u, i.states());
    let euler: Vec<f64> = projected
        .iter()
        .zip(i.indicator())
        .map(|(v, stay)| stay + (i.r - i.t) * v)
        .collect();
    let kernel = if perturbed {
        Matrix::identity(i.states())?.combine(1.0, i.r - i.t, &u)
    } else {
        product_kernel(i, &euler)
    };
    let negative = rows.iter().map(|v| -v).fold(0.0, worse);
    let sums: Vec<f64> = rows
        .chunks_exact(i.states().symbols())
        .map(|row| row.iter().sum())
        .collect();
    Ok(Some(
        [
            negative,
            residual(&sums, &vec![1.0; sums.len()]),
            residual(&rows, &euler),
            residual(&pushed(i, &rows), kernel.data()),
        ]
        .into_iter()
        .fold(0.0, worse),
    ))
}

/// The prediction comes from the projected equation, the marginals from the full kernel.
fn exact_marginals(i: &Instance, perturbed: bool) -> Residual {
    if !i.is_mixture() {
        return Ok(None);
    }
    let prediction = if perturbed {
        i.posterior.clone()
    } else {
        i.exact_prediction()?.0
    };
    let rows = law::step_rows(&i.chain, i.t, i.r, &prediction);
    let n = i.states().len();
    let step = Matrix::from_data(n, n, pushed(i, &rows));
    Ok(Some(residual(
        &project(&step, i.states()),
        &project(i.forward()?, i.states()),
    )))
}

/// Averaged over `p_t`. `r < 1`: at the data end the kernels miss states that the integrated
/// `P_{t->r}` still has with `1e-18`, and the divergence is infinite.
fn remaining_error(i: &Instance, perturbed: bool) -> Residual {
    if i.step == Step::Last {
        return Ok(None);
    }
    let exact = i.backward()?;
    let p = i.chain.marginal(i.level());
    let sides = |rows: &[f64]| -> Result<(f64, divergence::StepError), Error> {
        let kernel = product_kernel(i, rows);
        let whole = (0..p.len())
            .map(|x| p[x] * divergence::kl(exact.row(x), kernel.row(x)))
            .sum();
        let split = divergence::step_error(i.states(), &p, exact, rows);
        Ok((whole, split))
    };
    let keep = if perturbed { 0.0 } else { 1.0 };
    let of_model = law::step_rows(&i.chain, i.t, i.r, &i.prediction.at(i.t, i.r));
    let (whole, split) = sides(&of_model)?;
    let (rest, alone) = sides(&i.exact()?.rows)?;
    Ok(Some(residual(
        &[whole, rest, alone.marginal],
        &[
            split.marginal + keep * split.dependence,
            keep * alone.dependence,
            0.0,
        ],
    )))
}

fn scale_mismatch(i: &Instance, perturbed: bool) -> Residual {
    let schedule = i.schedule();
    let quotient = limit(1, i.reach(), |h| {
        let r = i.t + h;
        let h = r - i.t;
        let gap = schedule.omega(i.t, r) - h * i.lambda();
        Ok(vec![gap / (h * h)])
    })?;
    let half = if perturbed { 1.0 } else { 0.5 };
    let curvature = half * schedule.kappa_ddot(i.t) / schedule.survival(i.t);
    Ok(Some(residual(&quotient, &[curvature])))
}
