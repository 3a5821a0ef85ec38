//! Trains corrections on a frozen base: all of them on the same pairs, side by side, so that they
//! differ by their objective alone and share the base's forward pass and derivative.

use fewstep_ctmc::{
    Chain,
    random::{Key, Purpose, categorical, index, uniform},
    transport,
};
use fewstep_nn::{Adam, Batch, Conditioned, Conditioning, Pass, adam::cosine_rate};

use super::{
    Config, Metric, Monitor, Training,
    base::{REPORT_EVERY, shape},
    batch::{LAST_TIME, Rows, predict, predict_tangent},
};
use crate::objective::{Pair, Row, Transport, loss};

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
    adam: Adam<f32>,
    pass: Pass<f32>,
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
) -> Vec<Correction> {
    let o = config.options();
    let mut students: Vec<Student> = o
        .trainings
        .iter()
        .map(|&training| {
            let net = Conditioned::new(
                Conditioning::Interval,
                shape(chain),
                &vec![o.width; o.depth],
                seed,
            );
            Student {
                training,
                adam: Adam::new(net.parameters().len()),
                net,
                pass: Pass::default(),
                loss: 0.0,
                residual: 0.0,
            }
        })
        .collect();
    let mut base_pass = Pass::default();
    monitor.begin(&format!("corrections, seed {seed}"), o.correction_steps);
    for step in 0..o.correction_steps {
        if monitor.stopped() {
            break;
        }
        let rate = cosine_rate(o.correction_rate, 100, step, o.correction_steps);
        let pairs = draw_pairs(config, seed, step);
        if !pairs.is_empty() {
            let rows = Rows::all_states(chain, &pairs);
            base.evaluate(rows.batch(), true, &mut base_pass);
            let posterior = predict(chain, rows.states(), &base_pass.logits, 1.0);
            for student in &mut students {
                let jumps = Jumps { seed, step };
                let frozen = Frozen {
                    chain,
                    pairs: &pairs,
                    rows: &rows,
                    posterior: &posterior,
                    base: &base_pass,
                };
                student.update(&frozen, jumps, rate);
            }
        }
        if (step + 1) % REPORT_EVERY == 0 {
            for student in &mut students {
                student.report(seed, step + 1, rate, monitor);
            }
        }
        monitor.advance(step + 1);
    }
    monitor.end();
    students
        .into_iter()
        .map(|s| Correction {
            training: s.training,
            net: s.net,
        })
        .collect()
}

/// The pairs `(t, r)` of a step: steps of the evaluation grids, `t` at their start in half of them
/// and anywhere inside in the others, so that `d_t` is constrained too.
///
/// A step of a grid is drawn with probability proportional to `omega_{t,r}`, its share of all
/// jumps, and its rows carry `1/lambda_t`: the loss' own weight `lambda_t` is had by drawing and
/// not by weighing, which bounds the gradient near data. Pairs with `r = t` count but are left
/// out: correction and gradient are zero there by construction.
fn draw_pairs(config: &Config, seed: u64, step: u64) -> Vec<(f64, f64)> {
    let o = config.options();
    let key = Key::new(seed, Purpose::Time);
    let grids = config.grids();
    (0..o.pairs as u64)
        .filter_map(|i| {
            let mut rng = key.at(step, i);
            let grid = &grids[index(&mut rng, grids.len())];
            let jumps: Vec<f64> = grid
                .intervals()
                .map(|(t, r)| o.schedule.omega(t, r))
                .collect();
            let k = categorical(&mut rng, &jumps);
            let (start, r) = (grid.points()[k], grid.points()[k + 1]);
            let (kind, inside) = (uniform(&mut rng), uniform(&mut rng));
            let t = if kind < 0.5 + 0.5 * o.boundary {
                start
            } else {
                start + (r - start) * inside
            };
            (kind >= o.boundary).then_some((t.min(LAST_TIME), r))
        })
        .collect()
}

/// What all students of a step share.
struct Frozen<'a> {
    chain: &'a Chain,
    pairs: &'a [(f64, f64)],
    rows: &'a Rows,
    /// The base's posterior `[P, N, D, S]`.
    posterior: &'a [f64],
    base: &'a Pass<f32>,
}

/// The address of a step's jumps.
#[derive(Clone, Copy)]
struct Jumps {
    seed: u64,
    step: u64,
}

impl Student {
    fn update(&mut self, frozen: &Frozen, jumps: Jumps, rate: f64) {
        let Frozen { chain, .. } = *frozen;
        let batch: Batch = frozen.rows.batch();
        self.net.evaluate(batch, true, &mut self.pass);
        let sum =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let prediction = predict(
            chain,
            frozen.rows.states(),
            &sum(&frozen.base.logits, &self.pass.logits),
            1.0,
        );
        let tangent = predict_tangent(
            chain,
            frozen.rows.states(),
            &prediction,
            &sum(&frozen.base.tangent, &self.pass.tangent),
        );
        let table = prediction.len() / frozen.pairs.len();
        let coords = chain.states().coords();
        let width = coords * chain.path().symbols();
        let mut gradient = vec![0.0; prediction.len()];
        for (i, &(t, r)) in frozen.pairs.iter().enumerate() {
            let tables = i * table..(i + 1) * table;
            let (posterior, p) = (&frozen.posterior[tables.clone()], &prediction[tables]);
            let gamma = gamma(chain, self.training.transport, posterior, p, jumps, i);
            let law = chain.marginal(chain.path().schedule().level(t));
            let pair = Pair::new(chain.path().schedule(), t, r);
            for (x, mass) in law.iter().enumerate() {
                let here = x * width..(x + 1) * width;
                let global = i * table + here.start..i * table + here.end;
                let row = Row {
                    pair,
                    x: frozen.rows.x(x, coords),
                    carry_over: chain.path().mask().is_some(),
                    prediction: &p[here.clone()],
                    tangent: &tangent[global.clone()],
                    posterior: &posterior[here.clone()],
                    gamma: &gamma[here.clone()],
                    label: &posterior[here],
                };
                let weight = mass / (pair.lambda * frozen.pairs.len() as f64);
                let value = loss(self.training.objective, &row, weight, &mut gradient[global]);
                self.loss += value / REPORT_EVERY as f64;
                self.residual += weight * row.identity_residual() / REPORT_EVERY as f64;
            }
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
        });
        self.loss = 0.0;
        self.residual = 0.0;
    }
}

/// `Gamma` (eq. Gamma) over all states, `[N, D, S]`: exactly, or the mean of `n` single jumps per
/// state. The perturbed states are states too, so a jump costs no further network evaluation here.
fn gamma(
    chain: &Chain,
    transport: Transport,
    posterior: &[f64],
    prediction: &[f64],
    jumps: Jumps,
    pair: usize,
) -> Vec<f64> {
    let local = |mut c: Vec<f64>| {
        for ((c, p), q) in c.iter_mut().zip(prediction).zip(posterior) {
            *c += p - q;
        }
        c
    };
    let Transport::Draws(draws) = transport else {
        return local(transport::c_term(chain.states(), posterior, prediction));
    };
    let (states, symbols) = (chain.states(), chain.path().symbols());
    let coords = states.coords();
    let width = coords * symbols;
    let key = Key::new(jumps.seed, Purpose::Jump);
    let share = f64::from(draws).recip();
    let mut c = vec![0.0; prediction.len()];
    for (x, out) in c.chunks_exact_mut(width).enumerate() {
        let mut rng = key.at(jumps.step, (pair * states.len() + x) as u64);
        let table = |y: usize| &prediction[y * width..(y + 1) * width];
        // The coordinates that may jump: on the masked path only masked ones change anything.
        let movable: Vec<usize> = (0..coords)
            .filter(|&d| chain.path().mask().is_none_or(|m| states.symbol(x, d) == m))
            .collect();
        for _ in (0..draws).filter(|_| !movable.is_empty()) {
            let e = movable[index(&mut rng, movable.len())];
            let row = &posterior[x * width + e * symbols..][..symbols];
            let y = states.with(x, e, categorical(&mut rng, row));
            if chain.path().mask().is_none() {
                transport::draw_c(coords, table(x), table(y), share, out);
            } else {
                let masked = movable.len();
                transport::draw_c_cross(masked, e, coords, table(x), table(y), share, out);
            }
        }
    }
    match chain.path().mask() {
        None => local(c),
        Some(_) => c,
    }
}
