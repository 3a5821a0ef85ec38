//! Predictions `p~_{t,r}` of an instance, and what the product's objectives see of them.

use fewstep_ctmc::{
    Chain, Error,
    random::{Key, Purpose, normal},
    transport,
};

use super::instance::Instance;
use crate::objective::{Pair, Row};

/// The smallest `q^ / p~` in a check that takes the logarithm of `q^`, which is then far above the
/// [`FLOOR`](crate::objective::FLOOR) where the product's losses leave the paper's formulas.
const MILD: f64 = 0.25;

/// A random positive `p~_{t,r}(z^d | x)`, smooth in `t` and `r`: the softmax of
/// `a + b sin(2t + f) + c cos(2r - t + f)` with its own `a, b, c, f` for every entry. On the
/// masked path an unmasked coordinate carries over.
pub struct Prediction {
    symbols: usize,
    coefficients: Vec<[f64; 4]>,
    carried: Vec<Option<usize>>,
}

impl Prediction {
    /// Prediction number `example` of an instance.
    pub fn draw(chain: &Chain, seed: u64, index: u64, example: u64) -> Self {
        let mut rng = Key::new(seed, Purpose::Check).at(index, example);
        let (states, symbols) = (chain.states(), chain.path().symbols());
        let rows = states.len() * states.coords();
        let coefficients = (0..rows * symbols)
            .map(|_| [0.7, 0.4, 0.4, 2.0].map(|scale| scale * normal(&mut rng)))
            .collect();
        let carried = (0..rows)
            .map(|i| states.symbol(i / states.coords(), i % states.coords()))
            .map(|s| chain.path().mask().filter(|&mask| s != mask).map(|_| s))
            .collect();
        Self {
            symbols,
            coefficients,
            carried,
        }
    }

    /// `p~_{t,r}`, `[N, D, S]`.
    pub fn at(&self, t: f64, r: f64) -> Vec<f64> {
        let mut out = Vec::with_capacity(self.coefficients.len());
        for (row, carried) in self.rows() {
            match carried {
                Some(s) => out.extend((0..row.len()).map(|z| f64::from(u8::from(z == *s)))),
                None => {
                    let weights = row.iter().map(|&[a, b, c, f]| {
                        (a + b * (2.0 * t + f).sin() + c * (2.0 * r - t + f).cos()).exp()
                    });
                    let total: f64 = weights.clone().sum();
                    out.extend(weights.map(|w| w / total));
                }
            }
        }
        out
    }

    /// `d_t p~_{t,r}` at fixed `r`, `[N, D, S]`.
    pub fn tangent(&self, t: f64, r: f64) -> Vec<f64> {
        let mut out = self.at(t, r);
        for ((row, carried), p) in self.rows().zip(out.chunks_exact_mut(self.symbols)) {
            let slope = |[_, b, c, f]: [f64; 4]| {
                2.0 * b * (2.0 * t + f).cos() + c * (2.0 * r - t + f).sin()
            };
            let mean: f64 = row.iter().zip(&*p).map(|(k, p)| p * slope(*k)).sum();
            for (p, k) in p.iter_mut().zip(row) {
                *p *= if carried.is_some() {
                    0.0
                } else {
                    slope(*k) - mean
                };
            }
        }
        out
    }

    fn rows(&self) -> impl Iterator<Item = (&[[f64; 4]], &Option<usize>)> {
        self.coefficients
            .chunks_exact(self.symbols)
            .zip(&self.carried)
    }
}

/// What an objective sees of a prediction at one pair, tables `[N, D, S]`.
pub struct Model {
    pub pair: Pair,
    pub prediction: Vec<f64>,
    pub tangent: Vec<f64>,
    pub gamma: Vec<f64>,
}

impl Instance {
    /// What the objectives see of `prediction` at `(t, r)`, with the exact `C` and
    /// `Gamma = C + p~ - p_{1|t}` (eq. Gamma).
    pub fn model(&self, prediction: &Prediction, r: f64) -> Model {
        self.model_of(prediction.at(self.t, r), prediction.tangent(self.t, r), r)
    }

    /// The same of given tables.
    pub fn model_of(&self, prediction: Vec<f64>, tangent: Vec<f64>, r: f64) -> Model {
        let c = transport::c_term(self.states(), &self.posterior, &prediction);
        Model {
            pair: Pair::new(self.schedule(), self.t, r),
            gamma: self.gamma(&c, &prediction),
            prediction,
            tangent,
        }
    }

    /// The `p~_{t,r}` whose step has the exact marginals, and its derivative in `t`:
    /// `Pi^d[U_{t,r}] / mu_{t,r}` off the diagonal, `[N, D, S]`. Mixture path.
    pub fn exact_prediction(&self) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let exact = self.exact()?;
        let Pair { mu, mu_dot, .. } = Pair::new(self.schedule(), self.t, self.r);
        let (width, kept) = (self.states().symbols(), self.chain.path().symbols());
        let indicator = self.indicator();
        let (mut value, mut tangent) = (Vec::new(), Vec::new());
        for (i, stay) in indicator.iter().enumerate() {
            if i % width < kept {
                let p = exact.rates[i] / mu;
                value.push(stay + p);
                tangent.push(exact.rates_dot[i] / mu - p * mu_dot / mu);
            }
        }
        Ok((value, tangent))
    }

    /// `C + p~ - p_{1|t}`.
    pub fn gamma(&self, c: &[f64], prediction: &[f64]) -> Vec<f64> {
        let tables = c.iter().zip(prediction).zip(&self.posterior);
        tables.map(|((c, p), q)| c + p - q).collect()
    }

    /// The product's row of state `x`: [`objective`](crate::objective) computes from it whatever
    /// loss or shifted probability a claim is about.
    pub fn row<'a>(&'a self, model: &'a Model, x: usize, label: &'a [f64]) -> Row<'a> {
        let cut = self.cut(x);
        Row {
            pair: model.pair,
            x: self.symbols(x),
            carry_over: self.mask().is_some(),
            prediction: &model.prediction[cut.clone()],
            tangent: &model.tangent[cut.clone()],
            posterior: &self.posterior[cut.clone()],
            gamma: &model.gamma[cut],
            label,
        }
    }

    /// One jump's `Gamma` (eq. C-estimator in eq. Gamma) at state `x`, `[D, S]`.
    pub fn drawn_gamma(&self, model: &Model, x: usize, e: usize, s: usize) -> Vec<f64> {
        let (here, there) = (self.cut(x), self.cut(self.states().with(x, e, s)));
        let (here, there) = (&model.prediction[here], &model.prediction[there]);
        let mut c = vec![0.0; here.len()];
        transport::draw_c(self.states().coords(), here, there, 1.0, &mut c);
        let own = here.iter().zip(&self.posterior[self.cut(x)]);
        c.iter().zip(own).map(|(c, (p, q))| c + p - q).collect()
    }

    /// The jumps `(e, s, probability)` of eq. C-estimator from state `x`.
    pub fn jumps(&self, x: usize) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let (coords, kept) = (self.states().coords(), self.chain.path().symbols());
        let row = &self.posterior[self.cut(x)];
        let all = row.iter().enumerate();
        all.filter(|(_, p)| **p > 0.0)
            .map(move |(i, p)| (i / kept, i % kept, p / coords as f64))
    }

    /// Both predictions at the longest step `t -> t + (r - t)/2^k` at which no shifted
    /// probability, nor with `draws` that of any single jump, falls below [`MILD`] of `p~`.
    pub fn mild_models(&self, draws: bool) -> (Model, Model) {
        let mut r = self.r;
        loop {
            let models = [&self.prediction, &self.other].map(|p| self.model(p, r));
            if r == self.t || models.iter().all(|m| self.is_mild(m, draws)) {
                return models.into();
            }
            r = self.t + (r - self.t) / 2.0;
        }
    }

    fn is_mild(&self, model: &Model, draws: bool) -> bool {
        let kept = self.chain.path().symbols();
        let above = |row: Row| {
            (0..row.prediction.len())
                .filter(|i| row.active(i / kept))
                .all(|i| row.shifted(i) > MILD * row.prediction[i])
        };
        (0..self.states().len()).all(|x| {
            let row = self.row(model, x, &self.posterior[self.cut(x)]);
            above(row)
                && (!draws
                    || self.jumps(x).all(|(e, s, _)| {
                        let gamma = self.drawn_gamma(model, x, e, s);
                        above(Row {
                            gamma: &gamma,
                            ..row
                        })
                    }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::numeric::{derivative, residual};

    #[test]
    fn predictions_are_distributions_with_their_own_derivative() {
        for index in 0..25 {
            let i = Instance::draw(1, index).expect("an instance");
            let p = i.prediction.at(i.t, i.r);
            let kept = i.chain.path().symbols();
            assert!(
                p.chunks_exact(kept)
                    .all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-14)
            );
            let numeric =
                derivative(i.t, 0.05, |t| Ok(i.prediction.at(t, i.r))).expect("no failure");
            assert!(residual(&i.prediction.tangent(i.t, i.r), &numeric) < 1e-11);
        }
    }
}
