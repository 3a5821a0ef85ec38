//! One training step of the average generator, for any network and each process.
//!
//! Algorithm 1 with a few jumps a sequence, in the fewest passes:
//!
//! 1. the network on `x_t`, with `d/dt` for the sequences whose step is not empty (at `r = t` there
//!    is nothing to correct), kept for the way back: the primal of the derivative is the main pass;
//! 2. for the paper's losses and on the uniform-state process, the frozen denoiser on those sequences, its
//!    head at the coordinates `e` that jump, for the jumps `s ~ nu^e`: on the mixture path
//!    `s ~ p_{1|t}(. | x_t)`;
//! 3. the network on each `x_t^{e -> s}`;
//! 4. the head once, on the coordinates that can move, with all rows of logits side by side, where
//!    the loss and its gradient are formed, and the way back.
//!
//! # Mixture path
//!
//! The identity's correction at symbol `z` of coordinate `d` is
//! `shift = (t - r) mu/lambda [d_t p~ + lambda Gamma]`. From one jump, with a uniform source
//! (eq. C-estimator) `Gamma = D (p~(z | x^{e -> s}) - p~(z | x)) + p~ - p_{1|t}`; on the masked path
//! (eq. C-estimator-masked), at masked `d`, `Gamma = |M| 1[e != d] (p~(z | x^{e -> s}) - p~(z | x))`.
//!
//! [`Loss::Shifted`] is eq. loss-general, on the masked path eq. loss-masked: it needs the column of
//! `x_1` and that of `x_t`. [`Loss::Linear`] is the cross-entropy against `p_{1|t} - shift` over all
//! symbols, unbiased under the single draw; being linear in each `p_{1|t}`, it takes the data `x_1` in
//! their place, `x_1^d` for the posterior and `s = x_1^e` for the jump: no frozen denoiser is asked, and
//! none's errors are learned.
//!
//! # Uniform-state process
//!
//! `U` is eq. duo-U and the transport term comes from eq. transport-general: one draw gives
//! `D Lambda^e (u^d(x^{e -> s}, z) - u^d(x, z))`. [`Loss::Shifted`] is the Bregman divergence of eq.
//! v-loss over all symbols, [`Loss::Linear`] the cross-entropy of the step's kernel
//! `P = delta + (r - t) U` against `delta + (r - t) [Q_t(. | x_1) - (t - r) (d_t U + Q_t U)]`.

mod mixture;
mod residual;
mod uniform_state;

pub use residual::residual;

use fewstep_ctmc::{
    Path, Process, duo,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{Batch, Column, Gradient, Learner, Logits, Network, Real, Rows, Want, softmax};

use super::{Examples, base};

/// What is regressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// The paper's: eq. loss-general, eq. loss-masked or eq. v-loss; shifted probabilities, or rates
    /// relative to `lambda`, below the floor have no gradient.
    Shifted {
        /// The smallest one whose logarithm is taken.
        floor: f64,
    },
    /// The signed linear target.
    Linear,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    /// The loss.
    pub loss: Loss,
    /// Jumps a sequence, averaged.
    pub draws: usize,
}

/// The evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<P> {
    main: P,
    frozen: P,
    jumped: Vec<P>,
}

impl<P> Passes<P> {
    /// The one on `x_t`, and that of the network it learns from.
    pub fn both(&mut self) -> (&mut P, &mut P) {
        (&mut self.main, &mut self.frozen)
    }
}

/// A coordinate that jumps.
#[derive(Clone, Copy, Debug)]
struct Jump {
    row: usize,
    symbol: usize,
    /// `Lambda^e/lambda`.
    outflow: f64,
}

impl Jump {
    /// At the rate of the mixture path.
    fn to(row: usize, symbol: usize) -> Self {
        let outflow = 1.0;
        Self {
            row,
            symbol,
            outflow,
        }
    }
}

/// The mean loss a coordinate of one step, and its gradient (added if `gradient.accumulate`).
/// `frozen` gives `p_{1|t}` where it is asked.
pub fn step<T: Real, N: Learner<T>>(
    (network, frozen): (&N, &N),
    examples: &Examples,
    (path, method): (&Path, Method),
    (seed, number): (u64, u64),
    passes: &mut Passes<N::Pass>,
    gradient: &mut Gradient<T>,
) -> f64 {
    let Examples { length, moving, .. } = *examples;
    let active = examples.active(path);
    let want = Want {
        moving,
        back: Some(gradient.adaptation),
        rows: Some(&active),
    };
    network.evaluate(examples.all(), want, &mut passes.main);
    let split = active.partition_point(|&row| row < moving * length);
    let (corrected, plain) = active.split_at(split);
    let scale = 1.0 / examples.coordinates() as f64;
    let mut total = 0.0;
    if !corrected.is_empty() {
        let about = (path, examples, corrected);
        // p_{1|t} at x_1 and at x_t stands inside the logarithm of eq. loss-general.
        let uniform = matches!(path.process(), Process::Mixture(_)) && path.mask().is_none();
        let inside = uniform && matches!(method.loss, Loss::Shifted { .. });
        let draws = Draws {
            count: method.draws,
            whole: inside,
            address: (seed, number),
        };
        let process = path.process();
        let to_data = method.loss == Loss::Linear && *process != Process::UniformState;
        let jumps = match to_data {
            true => choose(corrected, length, &draws)
                .iter()
                .map(|set| set.iter().map(|&(row, _)| Jump::to(row, examples.x1[row])))
                .map(Iterator::collect)
                .collect(),
            false => draw(frozen, about, draws, &mut passes.frozen),
        };
        let held = to_data && network.hold(&mut passes.main, &examples.x1);
        let posterior = if inside {
            frozen.visit(&passes.frozen, Rows::plain(corrected), |at, logits| {
                softmax::in_place(logits.value);
                let row = corrected[at];
                // A mask is never predicted, whether a network has a logit for it or not.
                let at = |symbol: usize| logits.value.get(symbol).map_or(0.0, |p| p.widen());
                [examples.x1[row], examples.x[row]].map(at)
            })
        } else {
            Vec::new()
        };
        jump(network, (examples, corrected), &jumps, &mut passes.jumped);
        let rows = Rows {
            rows: corrected,
            tangent: true,
            others: passes.jumped.iter().take(method.draws).collect(),
        };
        let places = places(corrected, length);
        let masked = path.mask().is_some();
        let coordinate = |at: usize| {
            let row = corrected[at];
            let (place, count) = places[at];
            let share = count as f64 / method.draws as f64;
            let mine: Vec<bool> = jumps.iter().map(|set| set[place].row == row).collect();
            mixture::Coordinate {
                pair: &examples.pairs[row / length],
                // On the masked path the coordinate that jumped has no more to say about itself.
                jumps: mine
                    .iter()
                    .map(|mine| if masked && *mine { 0.0 } else { share })
                    .collect(),
                mine,
                held,
                all: !masked,
                state: Some(examples.x[row]).filter(|&x| x < path.symbols()),
                x1: examples.x1[row],
                posterior: posterior.get(at).copied().unwrap_or_default(),
                scale,
            }
        };
        let consumer = |at: usize, logits: Logits<T>| {
            let row = corrected[at];
            let pair = &examples.pairs[row / length];
            let (place, count) = places[at];
            let mine = jumps.iter().map(|set| set[place]);
            let share = count as f64 / method.draws as f64;
            if matches!(path.process(), Process::UniformState) {
                let coordinate = uniform_state::Coordinate {
                    path,
                    pair,
                    state: examples.x[row],
                    x1: examples.x1[row],
                    jumps: mine
                        .map(|jump| {
                            let own = (jump.row == row).then_some(jump.symbol);
                            (share * jump.outflow, own)
                        })
                        .collect(),
                    scale,
                };
                return coordinate.loss(method.loss, logits);
            }
            match method.loss {
                Loss::Shifted { floor } => coordinate(at).shifted(floor, logits),
                Loss::Linear => coordinate(at).linear(path, logits),
            }
        };
        let losses = match method.loss {
            // Eq. loss-masked reads one symbol.
            Loss::Shifted { floor } if masked => {
                let symbols: Vec<usize> = corrected.iter().map(|&row| examples.x1[row]).collect();
                let consumer = |at: usize, column: Column| coordinate(at).masked(floor, &column);
                network.descend_column(&mut passes.main, rows, &symbols, consumer, gradient)
            }
            _ => network.descend(&mut passes.main, rows, consumer, gradient),
        };
        total += losses.iter().sum::<f64>();
        // Rows at rest need no other state.
        network.hold(&mut passes.main, &[]);
    }
    let about = (examples, plain, base::Loss::Bound);
    total += base::descend(network, path, about, |_| scale, &mut passes.main, gradient);
    network.backward(&mut passes.main, gradient);
    total
}

/// For each row the number of its sequence among those that have rows, and how many it has.
fn places(rows: &[usize], length: usize) -> Vec<(usize, usize)> {
    let groups = rows.chunk_by(|a, b| a / length == b / length).enumerate();
    groups
        .flat_map(|(place, rows)| rows.iter().map(move |_| (place, rows.len())))
        .collect()
}

/// Evaluates the network after each set of jumps.
fn jump<T: Real, N: Network<T>>(
    network: &N,
    (examples, rows): (&Examples, &[usize]),
    jumps: &[Vec<Jump>],
    passes: &mut Vec<N::Pass>,
) {
    passes.resize_with(jumps.len().max(passes.len()), N::Pass::default);
    for (set, pass) in jumps.iter().zip(passes) {
        let mut x = examples.x[..examples.moving * examples.length].to_vec();
        for jump in set {
            x[jump.row] = jump.symbol;
        }
        let batch = Batch {
            x: &x,
            ..examples.first(examples.moving)
        };
        let want = Want {
            rows: Some(rows),
            ..Want::default()
        };
        network.evaluate(batch, want, pass);
    }
}

/// Jumps to be drawn.
struct Draws {
    /// Sets of one for each sequence that can move.
    count: usize,
    /// Whether the frozen denoiser will be shown at all coordinates, not only those that jump.
    whole: bool,
    /// Seed and step.
    address: (u64, u64),
}

/// Sets of one coordinate of each sequence that can move, each with the level of its jump's symbol.
fn choose(corrected: &[usize], length: usize, draws: &Draws) -> Vec<Vec<(usize, f64)>> {
    let (seed, number) = draws.address;
    let key = Key::new(seed, Purpose::Jump);
    let mut streams: Vec<_> = corrected
        .chunk_by(|a, b| a / length == b / length)
        .map(|here| (here, key.at(number, (here[0] / length) as u64)))
        .collect();
    let one = |(here, rng): &mut (&[usize], _)| (here[index(rng, here.len())], uniform(rng));
    (0..draws.count)
        .map(|_| streams.iter_mut().map(one).collect())
        .collect()
}

/// Sets of one jump for each sequence that can move, from the frozen posterior, which is left
/// evaluated on all moving sequences.
fn draw<T: Real, N: Network<T>>(
    frozen: &N,
    (path, examples, corrected): (&Path, &Examples, &[usize]),
    draws: Draws,
    pass: &mut N::Pass,
) -> Vec<Vec<Jump>> {
    let moving = examples.first(examples.moving);
    let batch = Batch {
        r: moving.t,
        ..moving
    };
    let places = choose(corrected, examples.length, &draws);
    let mut rows: Vec<usize> = match draws.whole {
        true => corrected.to_vec(),
        false => places.iter().flatten().map(|(row, _)| *row).collect(),
    };
    rows.sort_unstable();
    rows.dedup();
    let want = Want {
        rows: Some(&rows),
        ..Want::default()
    };
    frozen.evaluate(batch, want, pass);
    let mut sets = Vec::new();
    for set in places {
        let (chosen, levels): (Vec<usize>, Vec<f64>) = set.into_iter().unzip();
        sets.push(frozen.visit(pass, Rows::plain(&chosen), |at, logits| {
            softmax::in_place(logits.value);
            let mut law: Vec<f64> = logits.value.iter().map(|p| p.widen()).collect();
            let row = chosen[at];
            let mut jump = Jump::to(row, 0);
            if matches!(path.process(), Process::UniformState) {
                let level = path
                    .schedule()
                    .level(examples.pairs[row / examples.length].t);
                let p = law.clone();
                duo::rate_row(level, examples.x[row], &p, &mut law);
                law[examples.x[row]] = 0.0;
                jump.outflow = law.iter().sum();
            }
            jump.symbol = quantile(&law, levels[at]);
            jump
        }));
    }
    sets
}
