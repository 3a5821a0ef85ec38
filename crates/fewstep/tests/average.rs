//! The fused training step against the row-by-row objectives, which `verify` checks: same draws,
//! all logits at once, in f64; for a transformer and for a perceptron, with a masked and with a
//! uniform source.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep::{
    objective::{self, Objective, Pair, Row},
    sequence::{
        Denoiser, Examples, Prediction,
        average::{self, Loss, Method, Passes},
        base,
    },
};
use fewstep_ctmc::{
    Language, OwnStep, Path, Process, Schedule, Source, duo,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{
    AdamW, Adaptation, Batch, Conditioned, Conditioning, Gradient, Learner, Network, Rows, Want,
    dit::{Config, Dit, Positions, Sight, Step, TimeInput},
    optim::Settings,
    softmax,
};

const LENGTH: usize = 5;
/// Data symbols; the mask is the next one.
const SYMBOLS: usize = 6;
const SEED: u64 = 7;

fn shaken<N: Learner<f64>>(mut network: N, phase: f64) -> N {
    for (i, p) in network.parameters_mut().iter_mut().enumerate() {
        *p += 0.2 * (i as f64 * 1.7 + phase).sin();
    }
    network
}

fn path(source: Source) -> Path {
    Path::new(Schedule::Linear, Process::Mixture(source), SYMBOLS).unwrap()
}

fn dit(path: &Path, step: Step, phase: f64) -> Dit<f64> {
    let config = Config {
        vocabulary: path.state_symbols(),
        length: LENGTH,
        width: 8,
        blocks: 2,
        heads: 2,
        conditioning: 6,
        mask: path.mask_symbol(),
        time: TimeInput::Time,
        step,
        sight: Sight::Whole,
        positions: Positions::Line,
    };
    shaken(Dit::new(config, 1).unwrap(), phase)
}

fn perceptron(path: &Path, phase: f64) -> Conditioned<f64> {
    let sizes = (LENGTH, path.state_symbols(), SYMBOLS);
    shaken(
        Conditioned::new(Conditioning::Interval, sizes, &[16, 16], 1),
        phase,
    )
}

fn data() -> (Vec<usize>, Vec<Pair>) {
    let x1 = (0..4 * LENGTH).map(|i| i * 5 % SYMBOLS).collect();
    let pair = |t: f64, r: f64| Pair::new(Schedule::Linear, t, r);
    // The second is at rest, and is moved behind the others.
    let pairs = vec![
        pair(0.2, 0.5),
        pair(0.4, 0.4),
        pair(0.1, 0.9),
        pair(0.6, 0.7),
    ];
    (x1, pairs)
}

/// Probabilities `[rows, SYMBOLS]` of a batch, and their derivatives if asked for.
fn table<N: Network<f64>>(network: &N, batch: Batch, tangent: bool) -> (Vec<f64>, Vec<f64>) {
    let mut pass = N::Pass::default();
    let want = Want {
        moving: if tangent { batch.t.len() } else { 0 },
        ..Want::default()
    };
    network.evaluate(batch, want, &mut pass);
    let all: Vec<usize> = (0..batch.x.len()).collect();
    let rows = Rows {
        rows: &all,
        tangent,
        others: Vec::new(),
    };
    let shown = network.visit(&pass, rows, |_, logits| {
        let p = softmax::forward(&logits.value[..SYMBOLS], SYMBOLS, 1.0);
        let d = if tangent {
            softmax::tangent(&p, &logits.tangent[..SYMBOLS], SYMBOLS)
        } else {
            Vec::new()
        };
        (p, d)
    });
    let (p, d): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
    (p.concat(), d.concat())
}

/// Probabilities with other symbols shown and the network's word held, if they are others.
type Held<'a> = &'a dyn Fn(Batch, &[usize]) -> Option<Vec<f64>>;

fn agrees<N: Learner<f64>>(
    path: &Path,
    (network, frozen): (&N, &N),
    adaptation: Adaptation,
    held: Held,
) {
    let (x1, pairs) = data();
    for number in 0..6 {
        let examples = Examples::corrupt(path, &x1, &pairs, (SEED, number));
        let draws = 1 + number as usize % 3;
        for (loss, plain) in [
            (
                Loss::Shifted {
                    floor: objective::FLOOR,
                },
                Objective::P,
            ),
            (Loss::Linear, Objective::Linear),
        ] {
            let mut gradient = vec![0.0; network.trainable(adaptation).len()];
            let mut slots = Gradient {
                data: &mut gradient,
                adaptation,
                accumulate: false,
            };
            let value = average::step(
                (network, frozen),
                &examples,
                (path, Method { loss, draws }),
                (SEED, number),
                &mut Passes::default(),
                &mut slots,
            );
            let (want, want_gradient) = by_rows(
                path,
                (network, frozen),
                (plain, adaptation),
                &examples,
                (number, draws),
                held,
            );
            assert!(
                (value - want).abs() < 1e-10 * (1.0 + want.abs()),
                "{plain:?}: {value} is not {want}"
            );
            for (i, (g, w)) in gradient.iter().zip(&want_gradient).enumerate() {
                assert!(
                    (g - w).abs() < 1e-9 * (1.0 + w.abs()),
                    "{plain:?}: entry {i} is {g}, not {w}"
                );
            }
        }
    }
}

/// The same loss from whole tables and the row objective.
fn by_rows<N: Learner<f64>>(
    path: &Path,
    (network, frozen): (&N, &N),
    (objective, adaptation): (Objective, Adaptation),
    examples: &Examples,
    (number, draws): (u64, usize),
    held: impl Fn(Batch, &[usize]) -> Option<Vec<f64>>,
) -> (f64, Vec<f64>) {
    let jump_key = Key::new(SEED, Purpose::Jump);
    let masked = path.mask().is_some();
    let (mut total, mut gradient) = (0.0, vec![0.0; network.trainable(adaptation).len()]);
    for (place, &pair) in examples.pairs.iter().enumerate() {
        let at = place * LENGTH..(place + 1) * LENGTH;
        let (x, target) = (&examples.x[at.clone()], &examples.x1[at]);
        let movable = |d: &usize| !masked || x[*d] == SYMBOLS;
        let hidden: Vec<usize> = (0..LENGTH).filter(movable).collect();
        if hidden.is_empty() {
            continue;
        }
        let (t, r) = ([pair.t], [pair.r]);
        let batch = Batch { x, t: &t, r: &r };
        let (p, dp) = table(network, batch, true);
        let mut label = vec![0.0; p.len()];
        for (d, &s) in target.iter().enumerate() {
            label[d * SYMBOLS + s] = 1.0;
        }
        let held = held(batch, target).unwrap_or_else(|| p.clone());
        let mut gamma = vec![0.0; p.len()];
        let (mut objective, mut scale) = (objective, 1.0 / examples.x.len() as f64);
        if pair.r > pair.t {
            let mut rng = jump_key.at(number, place as u64);
            let (posterior, _) = table(frozen, Batch { r: &t, ..batch }, false);
            for _ in 0..draws {
                let e = hidden[index(&mut rng, hidden.len())];
                let level = uniform(&mut rng);
                let s = match objective {
                    Objective::Linear => target[e],
                    _ => quantile(&posterior[e * SYMBOLS..(e + 1) * SYMBOLS], level),
                };
                let mut jumped = x.to_vec();
                jumped[e] = s;
                let after = Batch {
                    x: &jumped,
                    ..batch
                };
                let (q, _) = table(network, after, false);
                for k in (0..p.len()).filter(|k| !masked || k / SYMBOLS != e) {
                    let own = objective == Objective::Linear && k / SYMBOLS == e;
                    let from = if own { held[k] } else { p[k] };
                    gamma[k] += hidden.len() as f64 * (q[k] - from) / draws as f64;
                }
            }
            for k in 0..p.len() {
                if objective == Objective::Linear {
                    gamma[k] += held[k] - p[k];
                }
                gamma[k] += match (masked, objective) {
                    (true, _) => 0.0,
                    (false, Objective::Linear) => p[k] - label[k],
                    (false, _) => p[k] - posterior[k],
                };
            }
            if objective == Objective::Linear && !masked {
                scale *= 1.0 - pair.t;
            }
        } else {
            objective = Objective::Posterior;
        }
        let row = Row {
            pair,
            x,
            carry_over: masked,
            prediction: &p,
            tangent: &dp,
            posterior: &label,
            gamma: &gamma,
            label: &label,
        };
        let mut glogits = vec![0.0; p.len()];
        total += objective::loss(objective, &row, scale, &mut glogits);
        let mut pass = N::Pass::default();
        let want = Want {
            back: Some(adaptation),
            ..Want::default()
        };
        network.evaluate(batch, want, &mut pass);
        let mut slots = Gradient {
            data: &mut gradient,
            adaptation,
            accumulate: place > 0,
        };
        network.descend(
            &mut pass,
            Rows::plain(&hidden),
            |at, logits| {
                logits.value.fill(0.0);
                let from = hidden[at] * SYMBOLS;
                logits.value[..SYMBOLS].copy_from_slice(&glogits[from..from + SYMBOLS]);
            },
            &mut slots,
        );
        network.backward(&mut pass, &mut slots);
    }
    (total, gradient)
}

#[test]
fn a_step_of_the_transformer_is_the_row_objective() {
    let correction = Step::Correction { width: 6 };
    let sources = [Source::Masked, Source::STOCHASTIC_MASK, Source::Uniform];
    for path in sources.map(path) {
        for (step, adaptation) in [
            (Step::Trunk, Adaptation::Full),
            (correction, Adaptation::Full),
            (correction, Adaptation::Head),
        ] {
            let (network, frozen) = (dit(&path, step, 0.0), dit(&path, step, 0.4));
            agrees(&path, (&network, &frozen), adaptation, &|_, _| None);
            let plain = network.clone();
            let held = |batch: Batch, shown: &[usize]| {
                let noise = path.mask().is_none().then(|| path.source(0, 0).recip())?;
                let (m, _) = table(&plain, batch, false);
                let each = m.chunks(SYMBOLS).zip(shown).flat_map(|(m, &x)| {
                    let mut logits: Vec<f64> = m.iter().map(|m| m.ln()).collect();
                    if batch.r[0] > batch.t[0] {
                        let step = OwnStep::new(Schedule::Linear, noise, batch.t[0], batch.r[0]);
                        step.tell(&mut logits, &mut [], Some(x));
                    }
                    softmax::forward(&logits, SYMBOLS, 1.0)
                });
                Some(each.collect())
            };
            let meant = |network| Denoiser::new(network, Prediction::Others, &path);
            agrees(&path, (&meant(network), &meant(frozen)), adaptation, &held);
        }
    }
}

/// Over all data behind a state and all coordinates to jump, the linear target's gradient is that of the
/// identity with its transport term summed out, whatever the network; also where the own state is taken out
/// of the jump.
#[test]
fn the_linear_target_is_unbiased() {
    let path = path(Source::Uniform);
    let language = Language::default_with(SYMBOLS, 3, 4).unwrap();
    let network = dit(&path, Step::Correction { width: 6 }, 0.3);
    let (x, pair) = ([2, 4], Pair::new(Schedule::Linear, 0.3, 0.6));
    let mut law = vec![0.0; 2 * SYMBOLS];
    language.denoise(&path, path.schedule().level(pair.t), &x, &mut law);
    for prediction in [Prediction::Posterior, Prediction::Others] {
        let network = Denoiser::new(network.clone(), prediction, &path);
        let (t, r) = ([pair.t], [pair.r]);
        let batch = Batch {
            x: &x,
            t: &t,
            r: &r,
        };
        let (p, dp) = table(&network, batch, true);
        let mut gamma: Vec<f64> = p.iter().zip(&law).map(|(p, q)| p - q).collect();
        for (k, law) in law.iter().enumerate() {
            let mut jumped = x;
            jumped[k / SYMBOLS] = k % SYMBOLS;
            let (q, _) = table(
                &network,
                Batch {
                    x: &jumped,
                    ..batch
                },
                false,
            );
            let each = gamma.iter_mut().zip(q.iter().zip(&p));
            each.for_each(|(gamma, (q, p))| *gamma += law * (q - p));
        }
        let factor = (pair.t - pair.r) * pair.mu / pair.lambda;
        let weight = pair.lambda * (1.0 - pair.t) / 2.0;
        let wanted: Vec<f64> = (0..p.len())
            .map(|k| weight * (p[k] + factor * (dp[k] + pair.lambda * gamma[k]) - law[k]))
            .collect();
        let mut pass = Default::default();
        let want = Want {
            back: Some(Adaptation::Full),
            ..Want::default()
        };
        network.evaluate(batch, want, &mut pass);
        let mut exact = vec![0.0; network.parameters().len()];
        let mut slots = Gradient {
            data: &mut exact,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        let give = |at: usize, logits: fewstep_nn::Logits<f64>| {
            logits
                .value
                .copy_from_slice(&wanted[at * SYMBOLS..(at + 1) * SYMBOLS]);
        };
        network.descend(&mut pass, Rows::plain(&[0, 1]), give, &mut slots);
        network.backward(&mut pass, &mut slots);

        let key = Key::new(SEED, Purpose::Jump);
        let numbers = [0, 1].map(|e| {
            let jumps = |n: &u64| index(&mut key.at(*n, 0), 2) == e;
            (0..).find(jumps).unwrap()
        });
        let mut mean = vec![0.0; exact.len()];
        let mut total = 0.0;
        let level = path.schedule().level(pair.t);
        for x1 in (0..SYMBOLS * SYMBOLS).map(|i| [i / SYMBOLS, i % SYMBOLS]) {
            let likely = |d: usize| path.likelihood_at(level, d, x[d], x1[d]);
            let joint = language.log_likelihood(&x1).exp() * likely(0) * likely(1);
            total += joint;
            for number in numbers {
                let mut examples = Examples::corrupt(&path, &x1, &[pair], (SEED, number));
                examples.x.copy_from_slice(&x);
                let mut gradient = vec![0.0; exact.len()];
                let mut slots = Gradient {
                    data: &mut gradient,
                    adaptation: Adaptation::Full,
                    accumulate: false,
                };
                let method = Method {
                    loss: Loss::Linear,
                    draws: 1,
                };
                let networks = (&network, &network);
                let what = (&path, method);
                let passes = &mut Passes::default();
                average::step(
                    networks,
                    &examples,
                    what,
                    (SEED, number),
                    passes,
                    &mut slots,
                );
                let each = mean.iter_mut().zip(&gradient);
                each.for_each(|(mean, g)| *mean += joint / 2.0 * g);
            }
        }
        for (mean, exact) in mean.iter().zip(&exact) {
            let mean = mean / total;
            assert!(
                (mean - exact).abs() < 1e-12,
                "{prediction:?}: {mean}, {exact}"
            );
        }
    }
}

#[test]
fn a_step_of_the_perceptron_is_the_row_objective() {
    let sources = [Source::Masked, Source::STOCHASTIC_MASK, Source::Uniform];
    for path in sources.map(path) {
        let (network, frozen) = (perceptron(&path, 0.0), perceptron(&path, 0.4));
        agrees(&path, (&network, &frozen), Adaptation::Full, &|_, _| None);
    }
}

/// On the uniform-state process: the average generator's row and its derivative in `t` by central
/// differences, the jumps by eq. transport-general, the losses by their definitions, and their
/// gradients in the logits by central differences with everything under the stop-gradient held.
#[test]
fn a_step_on_the_uniform_state_process_is_its_definition() {
    let path = Path::new(Schedule::Linear, Process::UniformState, SYMBOLS).unwrap();
    let step = Step::Correction { width: 6 };
    let meant = |phase| {
        let network = dit(&path, step, phase);
        Denoiser::new(network, Prediction::Others, &path)
    };
    let (network, frozen) = (meant(0.0), meant(0.4));
    let (x1, pairs) = data();
    let floor = 1e-3;
    for (number, draws) in [(0, 1), (1, 2), (2, 1)] {
        let examples = Examples::corrupt(&path, &x1, &pairs, (SEED, number));
        for loss in [Loss::Linear, Loss::Shifted { floor }] {
            let mut gradient = vec![0.0; network.parameters().len()];
            let mut slots = Gradient {
                data: &mut gradient,
                adaptation: Adaptation::Full,
                accumulate: false,
            };
            let value = average::step(
                (&network, &frozen),
                &examples,
                (&path, Method { loss, draws }),
                (SEED, number),
                &mut Passes::default(),
                &mut slots,
            );
            let of = (&path, &network, &frozen);
            let (want, want_gradient) = uniform_state_by_rows(of, &examples, loss, number, draws);
            assert!(
                (value - want).abs() < 1e-6 * (1.0 + want.abs()),
                "{loss:?}: {value} is not {want}"
            );
            for (i, (g, w)) in gradient.iter().zip(&want_gradient).enumerate() {
                assert!(
                    (g - w).abs() < 1e-5 * (1.0 + w.abs()),
                    "{loss:?}: entry {i} is {g}, not {w}"
                );
            }
        }
    }
}

/// The row of the average generator at one coordinate.
fn duo_row(pair: &Pair, t: f64, x: usize, p: &[f64]) -> Vec<f64> {
    let mut row = vec![0.0; SYMBOLS];
    duo::average_generator_row(Schedule::Linear, t, pair.r, x, p, &mut row);
    row
}

fn uniform_state_by_rows<N: Learner<f64>>(
    (path, network, frozen): (&Path, &N, &N),
    examples: &Examples,
    loss: Loss,
    number: u64,
    draws: usize,
) -> (f64, Vec<f64>) {
    let (mut total, mut gradient) = (0.0, vec![0.0; network.parameters().len()]);
    let scale = 1.0 / examples.x.len() as f64;
    for (place, pair) in examples.pairs.iter().enumerate() {
        let at = place * LENGTH..(place + 1) * LENGTH;
        let (x, target) = (&examples.x[at.clone()], &examples.x1[at]);
        let of = |network: &N, x: &[usize], t: f64, r: f64| {
            table(
                network,
                Batch {
                    x,
                    t: &[t],
                    r: &[r],
                },
                false,
            )
            .0
        };
        let here = of(network, x, pair.t, pair.r);
        let law = |p: &[f64], d: usize| p[d * SYMBOLS..(d + 1) * SYMBOLS].to_vec();
        let moving = pair.r > pair.t;
        let level = Schedule::Linear.level(pair.t);
        let mut changes = vec![vec![0.0; SYMBOLS]; LENGTH];
        if moving {
            let h = 1e-5;
            let (late, early) = (
                of(network, x, pair.t + h, pair.r),
                of(network, x, pair.t - h, pair.r),
            );
            let mut rng = Key::new(SEED, Purpose::Jump).at(number, place as u64);
            let posterior = of(frozen, x, pair.t, pair.t);
            for d in 0..LENGTH {
                let late = duo_row(pair, pair.t + h, x[d], &law(&late, d));
                let early = duo_row(pair, pair.t - h, x[d], &law(&early, d));
                for z in 0..SYMBOLS {
                    changes[d][z] += (late[z] - early[z]) / (2.0 * h);
                }
            }
            for _ in 0..draws {
                let e = index(&mut rng, LENGTH);
                let mut rates = vec![0.0; SYMBOLS];
                duo::rate_row(level, x[e], &law(&posterior, e), &mut rates);
                rates[x[e]] = 0.0;
                let outflow = pair.lambda * rates.iter().sum::<f64>();
                let mut jumped = x.to_vec();
                jumped[e] = quantile(&rates, uniform(&mut rng));
                let after = of(network, &jumped, pair.t, pair.r);
                for d in 0..LENGTH {
                    let there = duo_row(pair, pair.t, jumped[d], &law(&after, d));
                    let here = duo_row(pair, pair.t, x[d], &law(&here, d));
                    let share = LENGTH as f64 * outflow / draws as f64;
                    for z in 0..SYMBOLS {
                        changes[d][z] += share * (there[z] - here[z]);
                    }
                }
            }
        }
        // The loss at a coordinate as a function of its logits.
        let loss_of = |d: usize, logits: &[f64]| -> f64 {
            if !moving {
                let state = (x[d], target[d]);
                return base::bound(path, pair, scale, state, &mut logits.to_vec());
            }
            let u = duo_row(pair, pair.t, x[d], &softmax::forward(logits, SYMBOLS, 1.0));
            let h = pair.r - pair.t;
            let mut sum = 0.0;
            let (mut stay, mut target_stay) = (1.0, 1.0);
            for z in (0..SYMBOLS).filter(|&z| z != x[d]) {
                let rate = pair.lambda * duo::conditional_rate(level, SYMBOLS, x[d], z, target[d]);
                match loss {
                    Loss::Linear => {
                        let target = rate + h * changes[d][z];
                        sum -= target * u[z].ln();
                        stay -= h * u[z];
                        target_stay -= h * target;
                    }
                    Loss::Shifted { floor } => {
                        let held = duo_row(pair, pair.t, x[d], &law(&here, d))[z];
                        // Below the floor the logarithm is constant.
                        let reached = held - h * changes[d][z];
                        let most = u[z] - h * changes[d][z];
                        let inside = if reached > floor * pair.lambda {
                            most
                        } else {
                            floor * pair.lambda
                        };
                        sum += rate * (rate / inside).ln() - rate + most;
                    }
                }
            }
            if matches!(loss, Loss::Linear) {
                sum -= target_stay / h * stay.ln();
                sum *= h / (1.0 + h * pair.lambda / level.kappa);
            }
            scale * sum
        };
        let batch = Batch {
            x,
            t: &[pair.t],
            r: &[pair.r],
        };
        let mut pass = N::Pass::default();
        let want = Want {
            back: Some(Adaptation::Full),
            ..Want::default()
        };
        network.evaluate(batch, want, &mut pass);
        let mut slots = Gradient {
            data: &mut gradient,
            adaptation: Adaptation::Full,
            accumulate: place > 0,
        };
        let all: Vec<usize> = (0..LENGTH).collect();
        let losses = network.descend(
            &mut pass,
            Rows::plain(&all),
            |d, logits| {
                let before = logits.value.to_vec();
                for z in 0..SYMBOLS {
                    let moved = |h: f64| {
                        let mut logits = before.clone();
                        logits[z] += h;
                        loss_of(d, &logits)
                    };
                    logits.value[z] = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                }
                loss_of(d, &before)
            },
            &mut slots,
        );
        network.backward(&mut pass, &mut slots);
        total += losses.iter().sum::<f64>();
    }
    (total, gradient)
}

/// The gradient of each process's bound against central differences, and its value against the
/// definition.
#[test]
fn bounds_have_their_gradients() {
    let processes = [
        (Process::Mixture(Source::Masked), SYMBOLS),
        (Process::Mixture(Source::Uniform), 2),
        (Process::Mixture(Source::Uniform), 4),
        (Process::UniformState, 2),
        (Process::UniformState, 4),
    ];
    for (process, x) in processes {
        let path = Path::new(Schedule::Linear, process, SYMBOLS).unwrap();
        let pair = Pair::new(Schedule::Linear, 0.3, 0.3);
        let logits: Vec<f64> = (0..SYMBOLS).map(|i| (i as f64 * 1.3).sin()).collect();
        let value = |logits: &[f64]| {
            let mut row = logits.to_vec();
            base::bound(&path, &pair, 0.7, (x, 4), &mut row)
        };
        let mut gradient = logits.clone();
        base::bound(&path, &pair, 0.7, (x, 4), &mut gradient);
        for i in 0..SYMBOLS {
            let moved = |h: f64| {
                let mut logits = logits.clone();
                logits[i] += h;
                value(&logits)
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (gradient[i] - numeric).abs() < 1e-7 * (1.0 + numeric.abs()),
                "{path:?}, state {x}, entry {i}: {} is not {numeric}",
                gradient[i]
            );
        }
        // A Bregman divergence of rates: zero if the prediction is the data, positive otherwise.
        let mut certain = vec![-40.0; SYMBOLS];
        certain[4] = 40.0;
        assert!(value(&certain).abs() < 1e-9, "{path:?}");
        assert!(value(&logits) > 0.01, "{path:?}");
    }
}

/// Steps of the base objective on one repeated symbol learn it.
#[test]
fn the_base_learns_a_symbol() {
    let path = path(Source::Masked);
    let mut network = dit(&path, Step::None, 0.0);
    let x1 = vec![3; LENGTH];
    let pairs = vec![Pair::new(Schedule::Linear, 0.3, 0.3)];
    let mut gradient = vec![0.0; network.parameters().len()];
    let mut optimizer = AdamW::new(gradient.len(), Settings::ADAM);
    let mut pass = Default::default();
    let mut losses = Vec::new();
    for number in 0..200 {
        let examples = Examples::corrupt(&path, &x1, &pairs, (SEED, number));
        let mut slots = Gradient {
            data: &mut gradient,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        losses.push(base::step(
            &network,
            &path,
            (&examples, base::Loss::Bound),
            &mut pass,
            &mut slots,
        ));
        optimizer.update(network.parameters_mut(), &gradient, 0.02);
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&losses[..5]), mean(&losses[180..]));
    assert!(last < 0.02 && last < 0.1 * first, "from {first} to {last}");
}
