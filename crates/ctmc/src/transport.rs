//! The projected transport term `Pi^d[Q_t U]`: by matrix product, in closed form, and the
//! single-draw estimators.
//!
//! Tables: `posterior` and `prediction` (`p~_{t,r}`) are `[N, D, S]`, rates are `[N, D, S']`.

use crate::{Matrix, SingleSite, Space, projection::project};

/// `Pi^d[Q M]` by the dense product, `[N, D, S']`: the definition.
pub fn by_product(q: &SingleSite, m: &Matrix) -> Vec<f64> {
    project(&q.dense().product(m), q.space())
}

/// `sum_{x'} Q(x, x') Pi^d[M](x', z)` (eq. closure, eq. transport-general) from the projected
/// table `[N, D, S']` of any matrix with zero row sums.
pub fn by_closure(q: &SingleSite, projected: &[f64]) -> Vec<f64> {
    let columns = q.space().coords() * q.space().symbols();
    let mut out = vec![0.0; projected.len()];
    q.apply(projected, columns, &mut out);
    out
}

/// `C^d(x, z) = sum_e (E_{s ~ p^e_{1|t}(.|x)} p~(z | x^{e->s}) - p~(z | x))` (eq. C-term),
/// `[N, D, S]`.
pub fn c_term(states: &Space, posterior: &[f64], prediction: &[f64]) -> Vec<f64> {
    c_sum(states, posterior, prediction, |_, _, _| true)
}

/// `C_cross` (eq. C-masked): the jumps of the masked coordinates other than `d` only.
pub fn c_cross(states: &Space, mask: usize, posterior: &[f64], prediction: &[f64]) -> Vec<f64> {
    c_sum(states, posterior, prediction, |x, e, d| {
        e != d && states.symbol(x, e) == mask
    })
}

fn c_sum(
    states: &Space,
    posterior: &[f64],
    prediction: &[f64],
    counts: impl Fn(usize, usize, usize) -> bool,
) -> Vec<f64> {
    let coords = states.coords();
    let symbols = posterior.len() / states.len() / coords;
    let row = coords * symbols;
    let mut out = vec![0.0; prediction.len()];
    for x in 0..states.len() {
        for e in 0..coords {
            for s in 0..symbols {
                let weight = posterior[(x * coords + e) * symbols + s];
                let y = states.with(x, e, s);
                if weight == 0.0 || y == x {
                    continue;
                }
                for d in (0..coords).filter(|&d| counts(x, e, d)) {
                    for z in d * symbols..(d + 1) * symbols {
                        out[x * row + z] +=
                            weight * (prediction[y * row + z] - prediction[x * row + z]);
                    }
                }
            }
        }
    }
    out
}

/// One jump's estimate of eq. C-term (eq. C-estimator): `D (p~(.|x^{e->s}) - p~(.|x))`, with `e`
/// uniform and `s ~ p^e_{1|t}(.|x)`. `here` and `there` are `[D, S]`; added into `out`.
pub fn draw_c(coords: usize, here: &[f64], there: &[f64], share: f64, out: &mut [f64]) {
    let scale = share * coords as f64;
    for ((o, a), b) in out.iter_mut().zip(here).zip(there) {
        *o += scale * (b - a);
    }
}

/// One jump's estimate of `C_cross` (eq. C-estimator-masked): `|M(x)| 1[e != d] (...)`, with `e`
/// uniform over the `masked` masked coordinates. Added into `out`, `[D, S]`.
pub fn draw_c_cross(
    masked: usize,
    e: usize,
    coords: usize,
    here: &[f64],
    there: &[f64],
    share: f64,
    out: &mut [f64],
) {
    let symbols = here.len() / coords;
    let scale = share * masked as f64;
    for (i, ((o, a), b)) in out.iter_mut().zip(here).zip(there).enumerate() {
        if i / symbols != e {
            *o += scale * (b - a);
        }
    }
}

/// One jump's estimate of the transport term in general form (after eq. transport-general):
/// `D Lambda^e (u^d(x^{e->s}, z) - u^d(x, z))`, with `e` uniform and `s ~ q^e / Lambda^e`.
pub fn draw_general(coords: usize, outflow: f64, here: &[f64], there: &[f64]) -> Vec<f64> {
    let scale = coords as f64 * outflow;
    here.iter()
        .zip(there)
        .map(|(a, b)| scale * (b - a))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chain, Path, Process, Schedule, Source, Target};

    #[test]
    fn closure_equals_the_product() {
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Masked), 2).unwrap();
        let law = Target::PAPER.law(&Space::new(2, 3).unwrap(), 0).unwrap();
        let chain = Chain::new(path, 3, law).unwrap();
        let q = chain.generator_at(0.4);
        let u = crate::propagator::average_generator(&chain, 0.4, 0.9).unwrap();
        let product = by_product(&q, &u);
        let closed = by_closure(&q, &project(&u, chain.states()));
        for (a, b) in product.iter().zip(closed) {
            assert!((a - b).abs() < 1e-12);
        }
    }
}
