//! Trains corrections on a frozen base, side by side: those with the same transport on the same
//! rows, so that they differ by their objective alone and share the base's forward pass and
//! derivative.

use fewstep_ctmc::{
    Chain,
    random::{Key, Purpose, quantile, uniform},
};
use fewstep_nn::{
    AdamW, Conditioned, Conditioning, Pass,
    optim::{Schedule, Settings},
};

use super::{
    Config, LabError, Metric, Monitor, Training,
    base::{REPORT_EVERY, draw_state, shape},
    batch::{Rows, predict, predict_tangent, trainable_time},
    jumps::Jumps,
};
use crate::objective::{Pair, Row, Transport, loss};

/// Multiples of these cover the unit cube evenly (powers of `1/x`, `x^5 = x + 1`, to
/// eleven digits).
const KRONECKER: [f64; 4] = [
    0.856_674_883_854_502_9,
    0.733_891_856_627_126_1,
    0.628_706_721_037_808_6,
    0.538_597_257_226_120_3,
];

/// A trained correction.
pub struct Correction {
    /// How it was trained.
    pub training: Training,
    /// The network.
    pub net: Conditioned<f32>,
}

/// One correction in training.
struct Student {
    training: Training,
    net: Conditioned<f32>,
    adam: AdamW<f32>,
    pass: Pass<f32>,
    jump_pass: Pass<f32>,
    loss: f64,
    residual: f64,
}

/// The trained corrections of all of the config's trainings; half-trained ones if stopped.
pub fn train(
    config: &Config,
    chain: &Chain,
    base: &Conditioned<f32>,
    seed: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<Correction>, LabError> {
    let o = config.options();
    let mut students: Vec<Student> = o
        .trainings
        .iter()
        .map(|&training| Student::new(config, chain, training, seed))
        .collect();
    let mut groups = Vec::new();
    for &Training { transport, .. } in &o.trainings {
        if !groups.contains(&transport) {
            groups.push(transport);
        }
    }
    let (mut pass, mut jump_pass) = (Pass::default(), Pass::default());
    let rates = Schedule::cosine(o.correction_rate, 100, o.correction_steps);
    let stage = format!("seed {seed}, corrections");
    monitor.begin(&stage, o.correction_steps);
    for step in 0..o.correction_steps {
        if monitor.stopped() {
            break;
        }
        let rate = rates.rate(step);
        for &transport in &groups {
            let rows = draw_rows(config, chain, transport, seed, step);
            base.evaluate(rows.batch(), true, &mut pass);
            let posterior = predict(chain, rows.states(), &pass.logits, 1.0);
            let key = Key::new(seed, Purpose::Jump);
            let jumps = Jumps::new(chain, transport, &rows, &posterior, (&key, step));
            base.evaluate(jumps.rows.batch(), false, &mut jump_pass);
            let frozen = Frozen {
                chain,
                rows: &rows,
                posterior: &posterior,
                labels: &labels(chain, &rows),
                base: &pass,
                jumps: &jumps,
                base_at_jumps: &jump_pass,
            };
            for student in &mut students {
                if student.training.transport == transport {
                    student.update(&frozen, rate);
                    if !student.loss.is_finite() {
                        let stage = student.training.name();
                        return Err(LabError::Diverged { stage, seed, step });
                    }
                }
            }
        }
        if (step + 1) % REPORT_EVERY == 0 {
            for student in &mut students {
                student.report(seed, step + 1, rate, monitor);
            }
        }
        monitor.advance(&stage, step + 1);
    }
    monitor.end(&stage);
    let trained = students.into_iter().map(|s| Correction {
        training: s.training,
        net: s.net,
    });
    Ok(trained.collect())
}

/// The rows of a step: `(t, r)` are steps of the evaluation grids, `t` at their start in half of
/// them and anywhere inside in the others, so that `d_t` is constrained too; `x_t ~ p_t`.
///
/// A step of a grid is drawn with probability proportional to `omega_{t,r}`, its share of all
/// jumps, and a row carries `min(1/lambda_t, 1/mu_{t,r})`: the loss' own weight `lambda_t` is had
/// by drawing and not by weighing, which bounds the gradient near data, and still vanishes where
/// `lambda_t` does. On the linear schedule the two are equal. Rows with `r = t` count but are left
/// out: correction and gradient are zero there by construction.
fn draw_rows(config: &Config, chain: &Chain, transport: Transport, seed: u64, step: u64) -> Rows {
    let o = config.options();
    let count = row_count(config, transport) as u64;
    let mut offset = Key::new(seed, Purpose::Time).at(0, 0);
    let offsets: [f64; 4] = std::array::from_fn(|_| uniform(&mut offset));
    let data = Key::new(seed, Purpose::Data);
    let grids = config.grids();
    let jumps: Vec<Vec<f64>> = grids
        .iter()
        .map(|grid| {
            grid.intervals()
                .map(|(t, r)| o.schedule.omega(t, r))
                .collect()
        })
        .collect();
    let mut rows = Rows::default();
    for i in 0..count {
        let number = (step * count + i) as f64;
        let spread = |axis: usize| (offsets[axis] + number * KRONECKER[axis]).fract();
        let which = (spread(0) * grids.len() as f64) as usize;
        let grid = &grids[which];
        let k = quantile(&jumps[which], spread(1));
        let (start, r) = (grid.points()[k], grid.points()[k + 1]);
        let kind = spread(2);
        let t = if kind < 0.5 + 0.5 * o.boundary {
            start
        } else {
            start + (r - start) * spread(3)
        };
        if kind >= o.boundary {
            let t = trainable_time(o.schedule, t);
            // The base's data are at the addresses of its own steps.
            let x = draw_state(chain, t, &mut data.at(o.base_steps + step, i));
            rows.push(chain, x, t, r);
        }
    }
    rows
}

/// The rows of a step such that every transport spends about the same number of network
/// evaluations: an exact row has `D (S - 1)` jumps, a drawn one as many as there are draws.
fn row_count(config: &Config, transport: Transport) -> usize {
    let o = config.options();
    let all = o.coords * (o.symbols - 1) + 1;
    match transport {
        Transport::Exact => o.correction_rows,
        Transport::Draws(n) => (o.correction_rows * all).div_ceil(n as usize + 1),
    }
}

/// What the students of one transport share in a step.
struct Frozen<'a> {
    chain: &'a Chain,
    rows: &'a Rows,
    /// The base's posterior at the rows, `[R, D, S]`.
    posterior: &'a [f64],
    /// The law of `x_1` given `x_t` at the rows, by enumeration, `[R, D, S]`.
    labels: &'a [f64],
    base: &'a Pass<f32>,
    jumps: &'a Jumps,
    base_at_jumps: &'a Pass<f32>,
}

impl Student {
    fn new(config: &Config, chain: &Chain, training: Training, seed: u64) -> Self {
        let o = config.options();
        let hidden = vec![o.width; o.depth];
        let net = Conditioned::new(Conditioning::Interval, shape(chain), &hidden, seed);
        Self {
            training,
            adam: AdamW::new(net.parameters().len(), Settings::ADAM),
            net,
            pass: Pass::default(),
            jump_pass: Pass::default(),
            loss: 0.0,
            residual: 0.0,
        }
    }

    fn update(&mut self, frozen: &Frozen, rate: f64) {
        let Frozen {
            chain, rows, jumps, ..
        } = *frozen;
        if rows.states().is_empty() {
            return;
        }
        self.net.evaluate(rows.batch(), true, &mut self.pass);
        self.net
            .evaluate(jumps.rows.batch(), false, &mut self.jump_pass);
        let logits = sum(&frozen.base.logits, &self.pass.logits);
        let tangent = sum(&frozen.base.tangent, &self.pass.tangent);
        let prediction = predict(chain, rows.states(), &logits, 1.0);
        let tangent = predict_tangent(chain, rows.states(), &prediction, &tangent);
        let there = sum(&frozen.base_at_jumps.logits, &self.jump_pass.logits);
        let there = predict(chain, jumps.rows.states(), &there, 1.0);
        let gamma = jumps.gamma(chain, rows, frozen.posterior, &prediction, &there);

        let schedule = chain.path().schedule();
        let coords = chain.states().coords();
        let width = coords * chain.path().symbols();
        let mut gradient = vec![0.0; prediction.len()];
        for (i, gradient) in gradient.chunks_exact_mut(width).enumerate() {
            let (t, r) = (rows.batch().t[i], rows.batch().r[i]);
            let table = i * width..(i + 1) * width;
            let row = Row {
                pair: Pair::new(schedule, t, r),
                x: rows.x(i, coords),
                carry_over: chain.path().mask().is_some(),
                prediction: &prediction[table.clone()],
                tangent: &tangent[table.clone()],
                posterior: &frozen.posterior[table.clone()],
                gamma: &gamma[table.clone()],
                label: &frozen.labels[table],
            };
            let share = (rows.states().len() as f64).recip();
            let weight = share * row.pair.mu.max(row.pair.lambda).recip();
            let value = loss(self.training.objective, &row, weight, gradient);
            self.loss += value / REPORT_EVERY as f64;
            self.residual += share * row.identity_residual() / REPORT_EVERY as f64;
        }
        let gradient = self.net.backward(&gradient, &mut self.pass);
        self.adam.update(self.net.parameters_mut(), gradient, rate);
    }

    fn report(&mut self, seed: u64, step: u64, rate: f64, monitor: &dyn Monitor) {
        monitor.metric(&Metric {
            stage: self.training.name(),
            seed,
            step,
            rate,
            loss: self.loss,
            identity_residual: Some(self.residual),
            more: None,
        });
        self.loss = 0.0;
        self.residual = 0.0;
    }
}

/// The exact posterior at every row, `[R, D, S]`.
fn labels(chain: &Chain, rows: &Rows) -> Vec<f64> {
    let schedule = chain.path().schedule();
    let times = rows.batch().t;
    let rows = rows.states().iter().zip(times);
    rows.flat_map(|(&x, &t)| chain.posterior_at(schedule.level(t), x))
        .collect()
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}
