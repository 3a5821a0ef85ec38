//! DUO's curriculum: the gradient of a network that reads combinations of symbols, and where they
//! become symbols.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep::{
    objective::Pair,
    sequence::{
        Denoiser, Loss, Prediction, base,
        curriculum::{self, Softened},
    },
};
use fewstep_ctmc::{Path, Process, Schedule, Source};
use fewstep_nn::{
    Adaptation, Gradient, Learner,
    dit::{Config, Dit, Positions, Sight, Step, TimeInput},
};

const SYMBOLS: usize = 7;
const LENGTH: usize = 5;

fn paths() -> [Path; 2] {
    [
        (Schedule::LogLinear { eps: 1e-3 }, Process::UniformState),
        (Schedule::Linear, Process::Mixture(Source::Uniform)),
    ]
    .map(|(schedule, process)| Path::new(schedule, process, SYMBOLS).unwrap())
}

fn network(path: &Path) -> Denoiser<Dit<f64>> {
    let config = Config {
        vocabulary: SYMBOLS,
        length: LENGTH,
        width: 8,
        blocks: 2,
        heads: 2,
        conditioning: 6,
        mask: None,
        time: TimeInput::Time,
        step: Step::None,
        sight: Sight::Whole,
        positions: Positions::Line,
    };
    let mut network = Dit::new(config, 1).unwrap();
    for (i, p) in network.parameters_mut().iter_mut().enumerate() {
        *p += 0.2 * (i as f64 * 1.7).sin();
    }
    Denoiser::new(network, Prediction::Others, path)
}

fn seen(path: &Path, tau: f64, others: usize) -> Softened {
    let x1: Vec<usize> = (0..4 * LENGTH).map(|i| i * 5 % SYMBOLS).collect();
    let pairs = [0.1, 0.4, 0.6, 0.9].map(|t| Pair::new(path.schedule(), t, t));
    let clock = curriculum::clock(SYMBOLS);
    curriculum::soften((path, &clock), (&x1, 0), &pairs, (tau, others), (2, 7))
}

/// The loss, and its gradient.
fn loss(network: &Denoiser<Dit<f64>>, path: &Path, seen: &Softened, soft: bool) -> (f64, Vec<f64>) {
    let mut data = vec![0.0; network.parameters().len()];
    let mut into = Gradient {
        data: &mut data,
        adaptation: Adaptation::Full,
        accumulate: false,
    };
    let pass = &mut Default::default();
    let value = match soft {
        true => base::soft_step(network, path, (seen, Loss::Bound), pass, &mut into),
        false => base::step(
            network,
            path,
            (&seen.examples, Loss::Bound),
            pass,
            &mut into,
        ),
    };
    (value, data)
}

#[test]
fn gradients_are_central_differences() {
    for path in paths() {
        let (network, seen) = (network(&path), seen(&path, 0.3, 3));
        let (_, gradient) = loss(&network, &path, &seen, true);
        let mut moved = network.clone();
        // All of the embedding, which comes first, and some of the rest.
        let embedding = 0..SYMBOLS * 8;
        let rest = (SYMBOLS * 8..gradient.len()).step_by(37);
        let (mut most, h) = (0.0f64, 1e-5);
        for i in embedding.chain(rest) {
            let mut at = |h: f64| {
                moved.parameters_mut()[i] = network.parameters()[i] + h;
                let value = loss(&moved, &path, &seen, true).0;
                moved.parameters_mut()[i] = network.parameters()[i];
                value
            };
            let numeric = (at(h) - at(-h)) / (2.0 * h);
            let off = (numeric - gradient[i]).abs();
            assert!(
                off < 1e-7 * (1.0 + numeric.abs()),
                "{i}: {numeric}, {}",
                gradient[i]
            );
            most = most.max(numeric.abs());
        }
        assert!(most > 1e-3, "there is a gradient");
    }
}

/// With a vanishing `tau` the loss and its gradient are the plain ones, at any number of symbols; with
/// one that does not vanish they are not.
#[test]
fn without_temperature_the_loss_is_the_plain_one() {
    for path in paths() {
        let network = network(&path);
        for (tau, others) in [(1e-9, 2), (1e-9, SYMBOLS - 1), (0.3, SYMBOLS - 1)] {
            let seen = seen(&path, tau, others);
            let (soft, soft_gradient) = loss(&network, &path, &seen, true);
            let (plain, gradient) = loss(&network, &path, &seen, false);
            let off = gradient
                .iter()
                .zip(&soft_gradient)
                .map(|(a, b)| (a - b).abs());
            let off = off.fold((soft - plain).abs(), f64::max);
            assert_eq!(off < 1e-12, tau < 0.1, "{tau}: {soft}, {plain}, {off}");
        }
    }
}
