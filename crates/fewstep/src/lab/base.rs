//! Trains the base denoiser with eq. training-posterior.

use fewstep_ctmc::{
    Chain, Schedule,
    random::{Key, Purpose, Rng, categorical, uniform},
};
use fewstep_nn::{
    AdamW, Conditioned, Conditioning, Pass,
    optim::{self, Settings},
};
use rayon::prelude::*;

use super::{
    Config, LabError, Metric, Monitor,
    batch::{LAST_TIME, Rows, predict},
};
use crate::objective::{Objective, Pair, Row, loss};

/// Steps between two lines of metrics.
pub const REPORT_EVERY: u64 = 100;

/// The fractional part of the golden ratio: multiples of it cover `[0, 1)` evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The network's shape for a chain: coordinates, state symbols, data symbols.
pub fn shape(chain: &Chain) -> (usize, usize, usize) {
    (
        chain.states().coords(),
        chain.states().symbols(),
        chain.path().symbols(),
    )
}

/// The trained denoiser `p_{1|t}`; a half-trained one if stopped.
pub fn train(
    config: &Config,
    chain: &Chain,
    seed: u64,
    monitor: &dyn Monitor,
) -> Result<Conditioned<f32>, LabError> {
    let o = config.options();
    let mut net = Conditioned::new(
        Conditioning::Instant,
        shape(chain),
        &vec![o.width; o.depth],
        seed,
    );
    let mut adam = AdamW::new(net.parameters().len(), Settings::ADAM);
    let mut pass = Pass::default();
    let rates = optim::Schedule::cosine(o.base_rate, 100, o.base_steps);
    let mut mean = 0.0;
    let stage = format!("seed {seed}, base");
    monitor.begin(&stage, o.base_steps);
    for step in 0..o.base_steps {
        if monitor.stopped() {
            break;
        }
        let (rows, weights) = draw_rows(config, chain, seed, step);
        net.evaluate(rows.batch(), false, &mut pass);
        let (value, gradient) = posterior_loss(chain, &rows, &weights, &pass.logits);
        if !value.is_finite() {
            let stage = "base".into();
            return Err(LabError::Diverged { stage, seed, step });
        }
        let gradient = net.backward(&gradient, &mut pass);
        let rate = rates.rate(step);
        adam.update(net.parameters_mut(), gradient, rate);
        mean += value / REPORT_EVERY as f64;
        if (step + 1) % REPORT_EVERY == 0 {
            monitor.metric(&Metric {
                stage: "base".into(),
                seed,
                step: step + 1,
                rate,
                loss: mean,
                identity_residual: None,
                more: None,
            });
            mean = 0.0;
        }
        monitor.advance(&stage, step + 1);
    }
    monitor.end(&stage);
    Ok(net)
}

/// A time and the weight of its rows, from a number uniform on `[0, 1)`.
///
/// The loss weighs a row by `lambda_t`, which grows without bound towards data; with `t` uniform,
/// few rows would have most of the weight and Adam would crawl on the others. So times are drawn
/// with `1 - kappa_t = (1 - v)^4` and a row carries `dt/dv`: the same expectation, with
/// `lambda_t dt/dv = 4/(1 - v)`, which stays below 23. On the Potts model this reaches in a third
/// of the steps what uniform times reach.
fn draw_time(schedule: Schedule, uniform: f64) -> (f64, f64) {
    let v = uniform * (1.0 - schedule.survival(LAST_TIME).powf(0.25));
    let t = schedule.inverse(1.0 - (1.0 - v).powi(4));
    (t, 4.0 / ((1.0 - v) * schedule.lambda(t)))
}

/// The rows of a step and their weights: times spread evenly by the golden ratio, within the step
/// and over the steps, and `x_t ~ p_t`.
fn draw_rows(config: &Config, chain: &Chain, seed: u64, step: u64) -> (Rows, Vec<f64>) {
    let count = config.options().base_rows as u64;
    let key = Key::new(seed, Purpose::Data);
    let (mut rows, mut weights) = (Rows::default(), Vec::new());
    for i in 0..count {
        // Half a step off zero: some schedules have lambda_0 = 0, where a time has no weight.
        let spread = (((step * count + i) as f64 + 0.5) * GOLDEN).fract();
        let (t, weight) = draw_time(chain.path().schedule(), spread);
        let x = draw_state(chain, t, &mut key.at(step, i));
        rows.push(chain, x, t, t);
        weights.push(weight / count as f64);
    }
    (rows, weights)
}

/// `x_1 ~ p_1`, then `x_t ~ p_{t|1}`.
pub fn draw_state(chain: &Chain, t: f64, rng: &mut impl Rng) -> usize {
    let (states, path) = (chain.states(), chain.path());
    let noise = path.schedule().survival(t);
    let mut x = chain.state_of(categorical(rng, chain.target()));
    for d in 0..states.coords() {
        if uniform(rng) < noise {
            let source: Vec<f64> = (0..states.symbols()).map(|s| path.source(d, s)).collect();
            x = states.with(x, d, categorical(rng, &source));
        }
    }
    x
}

/// Eq. training-posterior over the rows, with the expectation over `x_1` given `x_t` taken
/// exactly, and the gradient in the logits.
fn posterior_loss(chain: &Chain, rows: &Rows, weights: &[f64], logits: &[f64]) -> (f64, Vec<f64>) {
    let schedule = chain.path().schedule();
    let prediction = predict(chain, rows.states(), logits, 1.0);
    let coords = chain.states().coords();
    let width = coords * chain.path().symbols();
    let mut gradient = vec![0.0; logits.len()];
    let total = gradient
        .par_chunks_exact_mut(width)
        .enumerate()
        .map(|(i, gradient)| {
            let t = rows.batch().t[i];
            let row = Row {
                pair: Pair::new(schedule, t, t),
                x: rows.x(i, coords),
                carry_over: chain.path().mask().is_some(),
                prediction: &prediction[i * width..(i + 1) * width],
                tangent: &[],
                posterior: &[],
                gamma: &[],
                label: &chain.posterior_at(schedule.level(t), rows.states()[i]),
            };
            loss(Objective::Posterior, &row, weights[i], gradient)
        })
        .collect::<Vec<_>>()
        .iter()
        .sum();
    (total, gradient)
}
