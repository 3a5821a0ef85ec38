//! The fused training step on the masked path against the row-by-row objectives, which `verify`
//! checks: same draws, all logits at once, in f64; for a transformer and for a perceptron.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep::{
    masked::{self, Examples, Loss, Passes},
    objective::{self, Objective, Pair, Row},
};
use fewstep_ctmc::{
    Schedule,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{
    AdamW, Adaptation, Batch, Conditioned, Conditioning, Gradient, Network, Rows, Want,
    dit::{Config, Dit, Step, TimeInput},
    optim::Settings,
    softmax,
};

const LENGTH: usize = 5;
/// Data symbols; the mask is the next one.
const SYMBOLS: usize = 6;
const SEED: u64 = 7;

fn shaken<N: Network<f64>>(mut network: N, phase: f64) -> N {
    for (i, p) in network.parameters_mut().iter_mut().enumerate() {
        *p += 0.2 * (i as f64 * 1.7 + phase).sin();
    }
    network
}

fn dit(step: Step, phase: f64) -> Dit<f64> {
    let config = Config {
        vocabulary: SYMBOLS + 1,
        length: LENGTH,
        width: 8,
        blocks: 2,
        heads: 2,
        conditioning: 6,
        mask: Some(SYMBOLS),
        time: TimeInput::Time,
        step,
    };
    shaken(Dit::new(config, 1).unwrap(), phase)
}

fn perceptron(phase: f64) -> Conditioned<f64> {
    let sizes = (LENGTH, SYMBOLS + 1, SYMBOLS);
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
        back: None,
    };
    network.evaluate(batch, want, &mut pass);
    let all: Vec<usize> = (0..batch.x.len()).collect();
    let rows = Rows {
        rows: &all,
        tangent,
        other: None,
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

fn agrees<N: Network<f64>>(network: &N, frozen: &N, adaptation: Adaptation) {
    let (x1, pairs) = data();
    let kappas: Vec<f64> = pairs.iter().map(|pair| pair.t).collect();
    for number in 0..6 {
        let examples = Examples::corrupt(&x1, (&pairs, &kappas), SYMBOLS, (SEED, number));
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
            let value = masked::step(
                (network, frozen),
                &examples,
                (SYMBOLS, loss),
                (SEED, number),
                &mut Passes::default(),
                &mut slots,
            );
            let (want, want_gradient) = by_rows((network, frozen), plain, adaptation, number);
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
fn by_rows<N: Network<f64>>(
    (network, frozen): (&N, &N),
    objective: Objective,
    adaptation: Adaptation,
    number: u64,
) -> (f64, Vec<f64>) {
    let (x1, pairs) = data();
    let order = [0, 2, 3, 1];
    let (data_key, jump_key) = (Key::new(SEED, Purpose::Data), Key::new(SEED, Purpose::Jump));
    let scale = 1.0 / x1.len() as f64;
    let (mut total, mut gradient) = (0.0, vec![0.0; network.trainable(adaptation).len()]);
    for (place, &i) in order.iter().enumerate() {
        let pair = pairs[i];
        let mut rng = data_key.at(number, i as u64);
        let mut keep = || uniform(&mut rng) < pair.t;
        let target = &x1[i * LENGTH..(i + 1) * LENGTH];
        let x: Vec<usize> = target
            .iter()
            .map(|&s| if keep() { s } else { SYMBOLS })
            .collect();
        let hidden: Vec<usize> = (0..LENGTH).filter(|&d| x[d] == SYMBOLS).collect();
        if hidden.is_empty() {
            continue;
        }
        let (t, r) = ([pair.t], [pair.r]);
        let batch = Batch {
            x: &x,
            t: &t,
            r: &r,
        };
        let (p, dp) = table(network, batch, true);
        let mut gamma = vec![0.0; p.len()];
        if pair.r > pair.t {
            let mut rng = jump_key.at(number, place as u64);
            let e = hidden[index(&mut rng, hidden.len())];
            let (posterior, _) = table(frozen, Batch { r: &t, ..batch }, false);
            let level = uniform(&mut rng);
            let s = quantile(&posterior[e * SYMBOLS..(e + 1) * SYMBOLS], level);
            let mut jumped = x.clone();
            jumped[e] = s;
            let (q, _) = table(
                network,
                Batch {
                    x: &jumped,
                    ..batch
                },
                false,
            );
            for k in (0..p.len()).filter(|k| k / SYMBOLS != e) {
                gamma[k] = hidden.len() as f64 * (q[k] - p[k]);
            }
        }
        let mut label = vec![0.0; p.len()];
        for (d, &s) in target.iter().enumerate() {
            label[d * SYMBOLS + s] = 1.0;
        }
        let row = Row {
            pair,
            x: &x,
            carry_over: true,
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
            moving: 0,
            back: Some(adaptation),
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
    for (step, adaptation) in [
        (Step::Trunk, Adaptation::Full),
        (correction, Adaptation::Full),
        (correction, Adaptation::Head),
    ] {
        agrees(&dit(step, 0.0), &dit(step, 0.4), adaptation);
    }
}

#[test]
fn a_step_of_the_perceptron_is_the_row_objective() {
    agrees(&perceptron(0.0), &perceptron(0.4), Adaptation::Full);
}

/// Steps of the base objective on one repeated symbol learn it.
#[test]
fn the_base_learns_a_symbol() {
    let mut network = dit(Step::None, 0.0);
    let x1 = vec![3; LENGTH];
    let pairs = vec![Pair::new(Schedule::Linear, 0.3, 0.3)];
    let mut gradient = vec![0.0; network.parameters().len()];
    let mut optimizer = AdamW::new(gradient.len(), Settings::ADAM);
    let mut pass = Default::default();
    let mut losses = Vec::new();
    for number in 0..200 {
        let examples = Examples::corrupt(&x1, (&pairs, &[0.3]), SYMBOLS, (SEED, number));
        let mut slots = Gradient {
            data: &mut gradient,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        losses.push(masked::base(
            &network, &examples, SYMBOLS, &mut pass, &mut slots,
        ));
        optimizer.update(network.parameters_mut(), &gradient, 0.02);
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&losses[..5]), mean(&losses[180..]));
    assert!(last < 0.02 && last < 0.1 * first, "from {first} to {last}");
}
