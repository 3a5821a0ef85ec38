//! The few-step sampler (Algorithm 2, eq. sampler-step): every coordinate moves on its own, by the
//! path's kernel with the predicted law of its data symbol.
//!
//! On the mixture path a coordinate either stays or takes a symbol of the prediction. Whether it
//! stays is drawn first, so only coordinates that move go through the vocabulary head. The
//! uniform-state process draws from the exactly averaged bridge (eq. duo-U).
//!
//! A draw is addressed by (seed, sequence, step, coordinate): the same sequence comes out whatever
//! the batch, its order and the number of threads.

use fewstep_ctmc::{
    Grid, Path, Process,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{Batch, Logits, Network, Real, Rows, Want, softmax};

use super::{
    examples::noise,
    order::{Order, Place},
};

/// The kernel of a step, given the predicted law of a coordinate's data symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// The bridge averaged over the prediction: eq. sampler-step on the mixture path, eq. duo-U. With
    /// a network that says what the others say ([`Prediction::Others`](super::Prediction)), as DUO's
    /// do, the latter is DUO's ancestral step.
    #[default]
    Average,
    /// `delta + (r - t) Q_t` with the rate of the start, cut where it would leave the simplex.
    Euler,
}

/// How predictions are turned into draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoding {
    /// Logits are divided by it.
    pub temperature: f64,
    /// Only the likeliest symbols that together reach this probability are drawn; 1 for all. It
    /// breaks the calibration of the kernel.
    pub nucleus: f64,
    /// Whether the network is given the end of the step; a denoiser is not.
    pub steps: bool,
    /// The kernel.
    pub kernel: Kernel,
    /// Whether the last step takes the likeliest symbol instead of a draw.
    pub greedy_tail: bool,
    /// Which masked coordinates a step writes.
    pub order: Order,
    /// The latent behind a sequence.
    pub latent: Latent,
    /// What is made of the difference that a label makes.
    pub guidance: Guidance,
}

/// Classifier-free guidance: the logits are `(1 + w) l(label) - w l(no label)`, for which the network is
/// evaluated twice where `w` is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guidance {
    /// `w`, of the last step if it rises.
    pub scale: f64,
    /// Whether it rises from 0 in the first step by as much in each, as MaskGIT's does.
    pub rises: bool,
    /// The label that says none.
    pub unsaid: usize,
}

impl Guidance {
    /// `w` of a step.
    pub fn at(&self, place: Place) -> f64 {
        match (self.rises, place.steps) {
            (false, _) | (true, ..=1) => self.scale,
            (true, steps) => self.scale * place.step as f64 / (steps - 1) as f64,
        }
    }
}

/// Symbols that stand behind a sequence for a network to read: given, uniform, never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latent {
    /// How many.
    pub carried: usize,
    /// Whether a sequence keeps those it began with; else each step has new ones.
    pub stays: bool,
}

impl Default for Decoding {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            nucleus: 1.0,
            steps: true,
            kernel: Kernel::Average,
            greedy_tail: false,
            order: Order::Chance,
            latent: Latent::default(),
            guidance: Guidance::default(),
        }
    }
}

/// Sequences that are being generated, `[B, L]`, with the numbers they are addressed by.
#[derive(Clone, Debug)]
pub struct State {
    /// Symbols.
    pub x: Vec<usize>,
    /// Coordinates that are given and never move.
    pub fixed: Vec<bool>,
    /// Coordinates at which a prediction has been drawn; the others are as they began.
    pub drawn: Vec<bool>,
    /// How often the network has been evaluated.
    pub evaluations: usize,
    numbers: Vec<u64>,
    /// Positions, those of label and latent included.
    length: usize,
    carried: usize,
    /// Labels behind the sequence, before the latent: 0 or 1.
    given: usize,
}

impl State {
    /// Noise: `count` sequences of `length`, numbered from `first` on.
    pub fn noise(path: &Path, (first, count): (u64, usize), length: usize, seed: u64) -> Self {
        let key = Key::new(seed, Purpose::Sample);
        let numbers: Vec<u64> = (first..first + count as u64).collect();
        let mut x = Vec::with_capacity(count * length);
        for &number in &numbers {
            let mut rng = key.at(number, 0);
            x.extend((0..length).map(|_| noise(path, &mut rng)));
        }
        Self {
            fixed: vec![false; x.len()],
            drawn: vec![false; x.len()],
            evaluations: 0,
            x,
            numbers,
            length,
            carried: 0,
            given: 0,
        }
    }

    /// Noise as [`noise`](Self::noise), with `carried` uniform symbols behind the `length` that are
    /// generated: a latent, given and never moved.
    pub fn carrying(
        path: &Path,
        (first, count): (u64, usize),
        (length, carried): (usize, usize),
        seed: u64,
    ) -> Self {
        let mut state = Self::noise(path, (first, count), length + carried, seed);
        if carried == 0 {
            return state;
        }
        state.carried = carried;
        for row in (0..state.x.len()).filter(|row| row % (length + carried) >= length) {
            state.fixed[row] = true;
        }
        state.draw_latents(path, seed, 0);
        state
    }

    /// The same with a label behind each sequence, given and never moved, in turn by its number; as it is
    /// if there are no labels.
    pub fn labelled(mut self, labels: &[usize]) -> Self {
        if labels.is_empty() {
            return self;
        }
        let (own, whole) = (self.length - self.carried, self.length + 1);
        for (i, &number) in self.numbers.iter().enumerate() {
            let at = i * whole + own;
            self.x.insert(at, labels[number as usize % labels.len()]);
            self.fixed.insert(at, true);
            self.drawn.insert(at, false);
        }
        (self.length, self.given) = (whole, 1);
        self
    }

    /// The states with another label.
    fn relabelled(&self, label: usize) -> Vec<usize> {
        let mut x = self.x.clone();
        for x in x.chunks_exact_mut(self.length) {
            let own = x.len() - self.carried - self.given;
            x[own..own + self.given].fill(label);
        }
        x
    }

    /// Draws the latents of step `number`.
    fn draw_latents(&mut self, path: &Path, seed: u64, number: u64) {
        let key = Key::new(seed, Purpose::Latent);
        let sequences = self.x.chunks_exact_mut(self.length);
        for (x, &sequence) in sequences.zip(&self.numbers) {
            let mut rng = key.at(sequence, number);
            for symbol in &mut x[self.length - self.carried..] {
                *symbol = index(&mut rng, path.symbols());
            }
        }
    }

    /// Positions of a sequence in [`x`](Self::x), those of label and latent included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The sequences, without label and latent.
    pub fn sequences(&self) -> impl Iterator<Item = &[usize]> {
        let own = self.length - self.carried - self.given;
        self.x.chunks_exact(self.length).map(move |x| &x[..own])
    }
}

/// Walks all steps of `grid`, calling `seen` after each with the state, and returns how often the
/// network was evaluated: a step in which nothing moves costs nothing.
pub fn sample<T: Real, N: Network<T>>(
    network: &N,
    path: &Path,
    grid: &Grid,
    decoding: &Decoding,
    state: &mut State,
    seed: u64,
    mut seen: impl FnMut(usize, &State),
) -> usize {
    let mut pass = Default::default();
    let before = state.evaluations;
    for (number, (t, r)) in grid.intervals().enumerate() {
        let place = Place {
            step: number,
            steps: grid.steps(),
        };
        step(
            (network, &mut pass),
            path,
            (t, r),
            (decoding, place),
            state,
            (seed, number as u64 + 1),
        );
        seen(number, state);
    }
    state.evaluations - before
}

/// `count` sequences of `length`, one after the other, in batches of `batch`, and the evaluations
/// of one batch.
pub fn generate<T: Real, N: Network<T>>(
    network: &N,
    path: &Path,
    grid: &Grid,
    decoding: &Decoding,
    (count, length, batch): (usize, usize, usize),
    seed: u64,
) -> (Vec<usize>, usize) {
    let sizes = (count, length, batch);
    watched(network, path, grid, (decoding, &[]), sizes, seed, |_, _| {})
}

/// As [`generate`], with labels in turn if there are any, calling `seen` with each batch as it begins
/// (0 steps done) and after each of its steps.
pub fn watched<T: Real, N: Network<T>>(
    network: &N,
    path: &Path,
    grid: &Grid,
    (decoding, labels): (&Decoding, &[usize]),
    (count, length, batch): (usize, usize, usize),
    seed: u64,
    mut seen: impl FnMut(usize, &State),
) -> (Vec<usize>, usize) {
    let (mut all, mut evaluations) = (Vec::with_capacity(count * length), 0);
    for first in (0..count).step_by(batch) {
        let here = batch.min(count - first);
        let sizes = (length, decoding.latent.carried);
        let mut state = State::carrying(path, (first as u64, here), sizes, seed).labelled(labels);
        seen(0, &state);
        let used = sample(
            network,
            path,
            grid,
            decoding,
            &mut state,
            seed,
            |number, state| seen(number + 1, state),
        );
        evaluations = evaluations.max(used);
        all.extend(state.sequences().flatten());
    }
    (all, evaluations)
}

/// One step `t -> r` of all sequences.
fn step<T: Real, N: Network<T>>(
    (network, pass): (&N, &mut N::Pass),
    path: &Path,
    (t, r): (f64, f64),
    (decoding, place): (&Decoding, Place),
    state: &mut State,
    (seed, number): (u64, u64),
) {
    let key = Key::new(seed, Purpose::Sample);
    let addressed = |first: usize| -> Vec<f64> {
        let one = |&sequence: &u64| {
            let mut rng = key.at(sequence, number);
            let all = (0..first + state.length).map(|_| uniform(&mut rng));
            all.skip(first).collect::<Vec<f64>>()
        };
        state.numbers.iter().flat_map(one).collect()
    };
    let levels = addressed(0);
    let ranked = decoding.order != Order::Chance && path.mask_symbol().is_some();
    let chances = if ranked {
        addressed(state.length)
    } else {
        Vec::new()
    };
    let keep = match decoding.kernel {
        Kernel::Euler => (1.0 - (r - t) * path.schedule().lambda(t)).max(0.0),
        _ => path.schedule().survival(r) / path.schedule().survival(t),
    };
    let last = r >= 1.0 && decoding.greedy_tail;
    let mixture = matches!(path.process(), Process::Mixture(_));
    let moves = |row: &usize| {
        let stays = !ranked && mixture && levels[*row] < keep;
        // An order writes each coordinate once, whatever it showed before.
        let done =
            (ranked && state.drawn[*row]) || path.mask().is_some_and(|mask| state.x[*row] != mask);
        !(state.fixed[*row] || stays || done)
    };
    let rows: Vec<usize> = (0..state.x.len()).filter(moves).collect();
    if rows.is_empty() {
        return;
    }
    if state.carried > 0 && !decoding.latent.stays {
        state.draw_latents(path, seed, number);
    }
    // With guidance the sequences without their label go through the network beside those with it:
    // matrices are read once for both.
    let w = decoding.guidance.at(place);
    let (mut x, mut asked) = (state.x.clone(), rows.clone());
    let guided = w != 0.0 && state.given > 0;
    if guided {
        asked.extend(rows.iter().map(|row| state.x.len() + row));
        x.extend(state.relabelled(decoding.guidance.unsaid));
    }
    let count = x.len() / state.length;
    let (ts, rs) = (
        vec![t; count],
        vec![if decoding.steps { r } else { t }; count],
    );
    let batch = Batch {
        x: &x,
        t: &ts,
        r: &rs,
    };
    let want = Want {
        rows: Some(&asked),
        ..Want::default()
    };
    network.evaluate(batch, want, pass);
    state.evaluations += 1 + usize::from(guided);
    let unsaid = match guided {
        true => {
            let rows = Rows::plain(&asked[rows.len()..]);
            network.visit(pass, rows, |_, logits| logits.value.to_vec())
        }
        false => Vec::new(),
    };
    let predicted = |at: usize, logits: Logits<T>| {
        if let Some(other) = unsaid.get(at) {
            let (with, without) = (T::of(1.0 + w), T::of(w));
            for (l, other) in logits.value.iter_mut().zip(other) {
                *l = with * *l - without * *other;
            }
        }
        predicted(path.symbols(), decoding, logits.value)
    };
    let shown = Rows::plain(&rows);
    if ranked {
        let drawn = network.visit(pass, shown, |at, logits| {
            let row = rows[at];
            let p = predicted(at, logits);
            let symbol = match last {
                true => likeliest(&p),
                false => quantile(&p, levels[row]),
            };
            let gumbel = -(-chances[row].max(f64::MIN_POSITIVE).ln()).ln();
            (symbol, decoding.order.rank(place, &p, symbol, gumbel))
        });
        write_ranked(&rows, drawn, (decoding.order, place), state);
        return;
    }
    let symbols = network.visit(pass, shown, |at, logits| {
        let row = rows[at];
        let p = predicted(at, logits);
        if last {
            likeliest(&p)
        } else if mixture {
            // The level is uniform beyond `keep` once it is known to be there.
            quantile(&p, (levels[row] - keep) / (1.0 - keep))
        } else {
            let mut law = vec![0.0; p.len()];
            let x = state.x[row];
            match decoding.kernel {
                Kernel::Average => path.step_row(t, r, x, &p, &mut law),
                Kernel::Euler => euler_row(path, (t, r), x, &p, &mut law),
            }
            quantile(&law, levels[row])
        }
    });
    for (row, symbol) in rows.into_iter().zip(symbols) {
        state.x[row] = symbol;
        state.drawn[row] = true;
    }
}

/// Writes what ranks highest in each sequence.
fn write_ranked(
    rows: &[usize],
    drawn: Vec<(usize, f64)>,
    (order, place): (Order, Place),
    state: &mut State,
) {
    let mut start = 0;
    for here in rows.chunk_by(|a, b| a / state.length == b / state.length) {
        let mine = &drawn[start..start + here.len()];
        start += here.len();
        let sequence = here[0] / state.length * state.length;
        let written = &state.drawn[sequence..sequence + state.length];
        let all = here.len() + written.iter().filter(|drawn| **drawn).count();
        let ranks: Vec<f64> = mine.iter().map(|(_, rank)| *rank).collect();
        let chosen = order.chosen(place, &ranks, all);
        for ((&row, (symbol, _)), chosen) in here.iter().zip(mine).zip(chosen) {
            if chosen {
                state.x[row] = *symbol;
                state.drawn[row] = true;
            }
        }
    }
}

/// A step of `delta + (r - t) Q_t`, scaled down to the simplex if it leaves it.
fn euler_row(path: &Path, (t, r): (f64, f64), x: usize, p: &[f64], law: &mut [f64]) {
    path.rate_row(path.schedule().level(t), x, p, law);
    let pace = (r - t) * path.schedule().lambda(t);
    law[x] = 0.0;
    let out: f64 = pace * law.iter().sum::<f64>();
    let scale = pace / out.max(1.0);
    law.iter_mut().for_each(|q| *q *= scale);
    law[x] = (1.0 - out).max(0.0);
}

/// The first of the likeliest symbols.
fn likeliest(p: &[f64]) -> usize {
    let better = |best: usize, z: usize| if p[z] > p[best] { z } else { best };
    (0..p.len()).fold(0, better)
}

/// The law of a data symbol from its logits, in f64.
fn predicted<T: Real>(symbols: usize, decoding: &Decoding, logits: &mut [T]) -> Vec<f64> {
    if decoding.temperature != 1.0 {
        let scale = T::of(decoding.temperature.recip());
        logits.iter_mut().for_each(|l| *l = *l * scale);
    }
    softmax::in_place(logits);
    let mut p: Vec<f64> = logits[..symbols].iter().map(|p| p.widen()).collect();
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= total);
    if decoding.nucleus < 1.0 {
        let mut order: Vec<usize> = (0..symbols).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
        let mut sum = 0.0;
        for symbol in order {
            if sum >= decoding.nucleus {
                p[symbol] = 0.0;
            }
            sum += p[symbol];
        }
        let kept: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= kept);
    }
    p
}
