//! Trains the base denoiser with eq. training-posterior.

use fewstep_ctmc::{
    Chain,
    random::{Key, Purpose, uniform},
};
use fewstep_nn::{Adam, Conditioned, Conditioning, Pass, adam::cosine_rate};

use super::{
    Config, Metric, Monitor,
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
pub fn train(config: &Config, chain: &Chain, seed: u64, monitor: &dyn Monitor) -> Conditioned<f32> {
    let o = config.options();
    let mut net = Conditioned::new(
        Conditioning::Instant,
        shape(chain),
        &vec![o.width; o.depth],
        seed,
    );
    let mut adam = Adam::new(net.parameters().len());
    let mut pass = Pass::default();
    let offset = uniform(&mut Key::new(seed, Purpose::Time).at(0, 0));
    let mut mean = 0.0;
    monitor.begin(&format!("base, seed {seed}"), o.base_steps);
    for step in 0..o.base_steps {
        if monitor.stopped() {
            break;
        }
        let t = LAST_TIME * (offset + step as f64 * GOLDEN).fract();
        let rows = Rows::new(chain, &[(t, t)]);
        net.evaluate(rows.batch(), false, &mut pass);
        let (value, gradient) = posterior_loss(chain, t, &rows, &pass.logits);
        let gradient = net.backward(&gradient, &mut pass);
        let rate = cosine_rate(o.base_rate, 100, step, o.base_steps);
        adam.update(net.parameters_mut(), &gradient, rate);
        mean += value / REPORT_EVERY as f64;
        if (step + 1) % REPORT_EVERY == 0 {
            monitor.metric(&Metric {
                stage: "base".into(),
                seed,
                step: step + 1,
                rate,
                loss: mean,
                identity_residual: None,
            });
            mean = 0.0;
        }
        monitor.advance(step + 1);
    }
    monitor.end();
    net
}

/// Eq. training-posterior at one `t`, its expectation over `x_1` and `x_t` by enumeration, and
/// the gradient in the logits.
fn posterior_loss(chain: &Chain, t: f64, rows: &Rows, logits: &[f64]) -> (f64, Vec<f64>) {
    let level = chain.path().schedule().level(t);
    let (law, posterior) = (chain.marginal(level), chain.posterior(level));
    let prediction = predict(chain, logits, 1.0);
    let coords = chain.states().coords();
    let width = coords * chain.path().symbols();
    let pair = Pair::new(chain.path().schedule(), t, t);
    let mut gradient = vec![0.0; logits.len()];
    let mut total = 0.0;
    for (x, gradient) in gradient.chunks_exact_mut(width).enumerate() {
        let table = x * width..(x + 1) * width;
        let row = Row {
            pair,
            x: rows.x(x, coords),
            carry_over: chain.path().mask().is_some(),
            prediction: &prediction[table.clone()],
            tangent: &[],
            posterior: &[],
            gamma: &[],
            label: &posterior[table],
        };
        total += loss(Objective::Posterior, &row, law[x], gradient);
    }
    (total, gradient)
}
