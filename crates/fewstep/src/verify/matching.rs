//! Law matching (`docs/law-matching.md`): what a product step can do to the law, and the derivative
//! that one-coordinate conditionals give.

use fewstep_ctmc::{law, matching::Matching, projection::project};

use super::instance::{Instance, Step};
use super::numeric::residual;
use super::{Claim, Kind, Residual};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "marginals do not make the law",
        label: "ours: law matching",
        statement: "the product step with the exact marginals p^d_{r|t} does not take p_t to p_r",
        perturbation: "takes the exact kernel, which is no product",
        kind: Kind::Differs,
        check: marginals_are_not_enough,
    },
    Claim {
        name: "conditionals give the gradient",
        label: "ours: law matching",
        statement: "d KL(p_t K || p_r)/d l^d(a|x) = p_t m^d (L - E L), L of one-coordinate conditionals",
        perturbation: "drops the mean over symbols",
        kind: Kind::Equal,
        check: conditionals_give_the_gradient,
    },
    Claim {
        name: "EM never raises the divergence",
        label: "ours: law matching",
        statement: "KL(p_r || p_t K) does not rise when m^d becomes the marginal of K p_r/(p_t K)",
        perturbation: "weighs by p_t K/p_r",
        kind: Kind::Equal,
        check: em_never_rises,
    },
    Claim {
        name: "what looks at nothing stays so",
        label: "ours: law matching",
        statement: "from a kernel that does not depend on x, EM goes to the marginals of p_r, and stays",
        perturbation: "starts from a kernel that depends on x",
        kind: Kind::Equal,
        check: blind_kernels_stay,
    },
    Claim {
        name: "weights are pulled back",
        label: "ours: law matching",
        statement: "sum_z w_z m(z) = sum_v (pull w)_v p~(v) for the step's row m from p~",
        perturbation: "pulls back along a step half as long",
        kind: Kind::Equal,
        check: weights_are_pulled_back,
    },
];

/// The rows of a step from some prediction, `p_t` and `p_r`.
fn step(i: &Instance) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let prediction = i.model(&i.prediction, i.r).prediction;
    let rows = law::step_rows(&i.chain, i.t, i.r, &prediction);
    let at = |t: f64| i.chain.marginal(i.schedule().level(t));
    (rows, at(i.t), at(i.r))
}

/// Not for short steps, where two coordinates hardly move together.
fn marginals_are_not_enough(i: &Instance, perturbed: bool) -> Residual {
    if i.step == Step::Short {
        return Ok(None);
    }
    let (_, from, to) = step(i);
    let exact = i.forward()?;
    let law = if perturbed {
        let states = 0..i.states().len();
        let into = |y: usize| states.clone().map(|x| from[x] * exact.at(x, y)).sum();
        (0..i.states().len()).map(into).collect()
    } else {
        law::push(i.states(), &from, &project(exact, i.states()))
    };
    Ok(Some(residual(&law, &to)))
}

/// Against the derivative with the ratio of whole states in it.
fn conditionals_give_the_gradient(i: &Instance, perturbed: bool) -> Residual {
    let (rows, from, to) = step(i);
    let (space, symbols) = (i.states(), i.states().symbols());
    let matching = Matching {
        space,
        from: &from,
        to: &to,
    };
    let f = matching.law(&rows);
    let ratio = |y: usize| if f[y] > 0.0 { (f[y] / to[y]).ln() } else { 0.0 };
    let width = space.coords() * symbols;
    let mut whole = Vec::with_capacity(rows.len());
    let (mut product, mut scratch) = (Vec::new(), Vec::new());
    for (row, from) in rows.chunks(width).zip(&from) {
        law::expand(*from, row, symbols, &mut product, &mut scratch);
        let mut part = vec![0.0; width];
        let mut mean = 0.0;
        for (y, mass) in product.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
            mean += mass * ratio(y);
            for d in 0..space.coords() {
                part[d * symbols + space.symbol(y, d)] += mass * ratio(y);
            }
        }
        let mean = if perturbed { 0.0 } else { mean };
        whole.extend(part.iter().zip(row).map(|(part, m)| part - m * mean));
    }
    Ok(Some(residual(&matching.gradient(&rows), &whole)))
}

fn em_never_rises(i: &Instance, perturbed: bool) -> Residual {
    let (rows, from, to) = step(i);
    let matching = Matching {
        space: i.states(),
        from: &from,
        to: &to,
    };
    let after = if perturbed {
        let f = matching.law(&rows);
        let ratio = |(f, b): (&f64, &f64)| if *b > 0.0 { f * f / b } else { 0.0 };
        let to: Vec<f64> = f.iter().zip(&to).map(ratio).collect();
        Matching {
            to: &to,
            ..matching
        }
        .em(&rows)
    } else {
        matching.em(&rows)
    };
    let rise = matching.forward(&after) - matching.forward(&rows);
    Ok(Some(rise.max(0.0)))
}

fn blind_kernels_stay(i: &Instance, perturbed: bool) -> Residual {
    let (rows, from, to) = step(i);
    let (space, symbols) = (i.states(), i.states().symbols());
    let width = space.coords() * symbols;
    // Every state's row is the mean of all, which reaches whatever any of them does.
    let n = space.len() as f64;
    let mut mean = vec![0.0; width];
    for row in rows.chunks(width) {
        mean.iter_mut().zip(row).for_each(|(m, p)| *m += p / n);
    }
    let begin = if perturbed {
        rows
    } else {
        mean.repeat(space.len())
    };
    let matching = Matching {
        space,
        from: &from,
        to: &to,
    };
    let after = matching.em(&matching.em(&begin));
    let mut marginals = vec![0.0; width];
    for (y, p) in to.iter().enumerate() {
        for d in 0..space.coords() {
            marginals[d * symbols + space.symbol(y, d)] += p;
        }
    }
    Ok(Some(residual(&after, &marginals.repeat(space.len()))))
}

fn weights_are_pulled_back(i: &Instance, perturbed: bool) -> Residual {
    let path = i.chain.path();
    let prediction = i.model(&i.prediction, i.r).prediction;
    let kept = path.symbols();
    let weights: Vec<f64> = (0..path.state_symbols())
        .map(|z| (1.0 + z as f64).sin())
        .collect();
    let r = if perturbed { 0.5 * (i.t + i.r) } else { i.r };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for x in 0..i.states().len() {
        let laws = prediction[i.cut(x)].chunks(kept);
        for (p, &symbol) in laws.zip(i.symbols(x)) {
            let (mut row, mut pulled) = (vec![0.0; path.state_symbols()], vec![0.0; kept]);
            path.step_row(i.t, i.r, symbol, p, &mut row);
            path.pull_row(i.t, r, symbol, &weights, &mut pulled);
            left.push(row.iter().zip(&weights).map(|(m, w)| m * w).sum::<f64>());
            right.push(p.iter().zip(&pulled).map(|(p, w)| p * w).sum::<f64>());
        }
    }
    Ok(Some(residual(&left, &right)))
}
