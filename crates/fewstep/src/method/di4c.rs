//! Di4C (Hayakawa et al.): a student that is a mixture, `p(x_1 | x_t) = E_lambda prod_d p^d(x_1^d |
//! x_t, lambda)`, so that one step can draw coordinates that depend on each other.
//!
//! The latent `lambda` is a few symbols that stand behind the sequence: positions that are given,
//! uniform, never noisy and never predicted. Any network on sequences can carry it.
//!
//! With `N` latents drawn for a state, `p^lambda_d` the student's laws and `pbar_d` their mean, the
//! losses of a sequence are, in nats a coordinate:
//!
//! - near data (`1 - t < near`), distillation: `mean_lambda sum_d KL(q_d || p^lambda_d)`, `q` the
//!   teacher's prediction;
//! - elsewhere, data: `a(t) corr(x_1) + sum_d KL(q_d || pbar_d)`;
//! - and consistency: `mean_j corr(y_j) + sum_d KL(mean_j p_d(x_s^j, lambda_j) || pbar_d)`, where the
//!   teacher takes `x_t` to `x_s^j` by a small step and `y_j` is drawn from the student there, which
//!   has no gradient;
//!
//! where `corr(y) = -[ln mean_lambda prod_d p^lambda_d(y^d) - sum_d ln pbar_d(y^d)]` rewards nothing
//! but dependence: what each marginal contributes is taken out (the marginals' control variate) and
//! left to the divergences. With one latent it vanishes.

use std::ops::Range;

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{Batch, Gradient, Learner, Logits, Network, Real, Rows, Want, softmax};

use super::{divergence::blocks, sdtt::advance};
use crate::sequence::{Examples, times::LAST};

/// The method's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Latents `N` a state.
    pub latents: usize,
    /// Positions that carry one.
    pub carried: usize,
    /// The teacher's step from `x_t` to `x_s`.
    pub step: f64,
    /// How far from data distillation ends and consistency begins.
    pub near: f64,
    /// The largest weight of the data term.
    pub data: f64,
}

impl Settings {
    /// As for SDTT's models, with the step and the border given.
    pub fn new(latents: usize, carried: usize) -> Self {
        Self {
            latents,
            carried,
            step: 1.0 / 64.0,
            near: 0.02,
            data: 0.1,
        }
    }

    /// `a(t)`: the data say more than the teacher where all is noise.
    fn weight(&self, t: f64) -> f64 {
        self.data / (1.0 + (-20.0 * (0.5 - t)).exp())
    }
}

/// The evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<P, Q> {
    main: P,
    later: P,
    teacher: Q,
}

/// `corr` of one sequence from `l[lambda][d] = ln p^lambda_d(y^d)`, and its slopes in them.
pub fn correlation(l: &[Vec<f64>]) -> (f64, Vec<Vec<f64>>) {
    let n = l.len() as f64;
    let coords = l.first().map_or(0, Vec::len);
    let joint: Vec<f64> = l.iter().map(|row| row.iter().sum()).collect();
    let all = softmax::log_sum_exp(&joint);
    let mut value = -(all - n.ln());
    let mut slopes: Vec<Vec<f64>> = joint
        .iter()
        .map(|j| vec![-(j - all).exp(); coords])
        .collect();
    for d in 0..coords {
        let column: Vec<f64> = l.iter().map(|row| row[d]).collect();
        let one = softmax::log_sum_exp(&column);
        value += one - n.ln();
        for (slope, l) in slopes.iter_mut().zip(&column) {
            slope[d] += (l - one).exp();
        }
    }
    (value, slopes)
}

/// The mean loss a coordinate of sequences at rest without latents, and its gradient. `detached` is
/// the student as it stands. Laws over all symbols are held for a few sequences at a time.
pub fn step<T: Real, N: Learner<T>, M: Network<T>>(
    (student, detached, teacher): (&N, &N, &M),
    examples: &Examples,
    (path, settings): (&Path, &Settings),
    address: (u64, u64),
    passes: &mut Passes<N::Pass, M::Pass>,
    gradient: &mut Gradient<T>,
) -> f64 {
    let rows = examples.active(path);
    let blocks = blocks(&rows, examples.length, path.symbols());
    let what = (path, settings);
    in_blocks(
        (student, detached, teacher),
        (examples, &blocks),
        what,
        address,
        passes,
        gradient,
    )
}

fn in_blocks<T: Real, N: Learner<T>, M: Network<T>>(
    (student, detached, teacher): (&N, &N, &M),
    (examples, blocks): (&Examples, &[&[usize]]),
    (path, settings): (&Path, &Settings),
    address: (u64, u64),
    passes: &mut Passes<N::Pass, M::Pass>,
    gradient: &mut Gradient<T>,
) -> f64 {
    let (length, symbols) = (examples.length, path.symbols());
    let carrier = Carrier::new(examples, path, settings, address);
    teacher.evaluate(examples.all(), Want::default(), &mut passes.teacher);
    let want = Want {
        back: Some(gradient.adaptation),
        ..Want::default()
    };
    let all = 0..examples.pairs.len();
    let x = carrier.behind(all, |b, _| examples.x[b * length..][..length].to_vec());
    let batch = Batch {
        x: &x,
        t: &carrier.times,
        r: &carrier.times,
    };
    student.evaluate(batch, want, &mut passes.main);
    let mut total = 0.0;
    for rows in blocks {
        let taught = teacher.visit(&passes.teacher, Rows::plain(rows), |_, logits| {
            law(symbols, logits.value).to_vec()
        });
        let later = carrier.later((detached, &mut passes.later), rows, &taught);
        let student = (student, &mut passes.main);
        total += carrier.descend(student, rows, (&taught, &later), gradient);
    }
    student.backward(&mut passes.main, gradient);
    total / examples.coordinates() as f64
}

/// Each sequence with each of its latents, sequence by sequence.
struct Carrier<'a> {
    examples: &'a Examples,
    path: &'a Path,
    settings: &'a Settings,
    address: (u64, u64),
    /// `[B N, carried]`.
    latents: Vec<usize>,
    times: Vec<f64>,
    /// Which sequences are near data.
    near: Vec<bool>,
}

/// What the student says after a step of the teacher, for each coordinate that can move.
struct Later<T> {
    /// The mean of its laws over the latents.
    mean: Vec<Vec<T>>,
    /// A draw for each latent.
    y: Vec<Vec<usize>>,
}

impl<'a> Carrier<'a> {
    fn new(
        examples: &'a Examples,
        path: &'a Path,
        settings: &'a Settings,
        address: (u64, u64),
    ) -> Self {
        let (seed, number) = address;
        let mut rng = Key::new(seed, Purpose::Latent).at(number, 0);
        let pairs = &examples.pairs;
        let repeat = |pair: &crate::objective::Pair| std::iter::repeat_n(pair.t, settings.latents);
        let count = pairs.len() * settings.latents * settings.carried;
        Self {
            latents: (0..count)
                .map(|_| index(&mut rng, path.symbols()))
                .collect(),
            times: pairs.iter().flat_map(repeat).collect(),
            near: pairs
                .iter()
                .map(|pair| 1.0 - pair.t < settings.near)
                .collect(),
            examples,
            path,
            settings,
            address,
        }
    }

    /// `tokens(sequence, latent)` of some sequences, with the latents behind them.
    fn behind(
        &self,
        sequences: Range<usize>,
        tokens: impl Fn(usize, usize) -> Vec<usize>,
    ) -> Vec<usize> {
        let (n, carried) = (self.settings.latents, self.settings.carried);
        (sequences.start * n..sequences.end * n)
            .flat_map(|i| {
                let mut x = tokens(i / n, i % n);
                x.extend_from_slice(&self.latents[i * carried..(i + 1) * carried]);
                x
            })
            .collect()
    }

    /// Where coordinates stand with latent `j`, in a batch that begins with sequence `first`.
    fn places(&self, rows: &[usize], first: usize, j: usize) -> Vec<usize> {
        let length = self.examples.length;
        let whole = length + self.settings.carried;
        let sequence = |row: &usize| (row / length - first) * self.settings.latents + j;
        rows.iter()
            .map(|row| sequence(row) * whole + row % length)
            .collect()
    }

    /// The student after a small step of the teacher, from each state for each latent on its own.
    fn later<T: Real, N: Network<T>>(
        &self,
        (network, pass): (&N, &mut N::Pass),
        rows: &[usize],
        taught: &[Vec<T>],
    ) -> Later<T> {
        let (examples, path, n) = (self.examples, self.path, self.settings.latents);
        let (length, symbols) = (examples.length, path.symbols());
        let (seed, number) = self.address;
        let key = Key::new(seed, Purpose::Teacher);
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Later {
                mean: Vec::new(),
                y: vec![Vec::new(); n],
            };
        };
        let sequences = first / length..last / length + 1;
        let begin = sequences.start * length;
        let mut moved = vec![examples.x[begin..sequences.end * length].to_vec(); n];
        let mut levels = vec![Vec::new(); n];
        for (taught, &row) in taught.iter().zip(rows) {
            let mut rng = key.at(number, row as u64);
            let t = examples.pairs[row / length].t;
            let step = (t, (t + self.settings.step).min(1.0));
            let p: Vec<f64> = taught.iter().map(|p| p.widen()).collect();
            for (x, levels) in moved.iter_mut().zip(&mut levels) {
                let x = &mut x[row - begin];
                if let Some(to) = advance(path, step, *x, &p, uniform(&mut rng)) {
                    *x = to;
                }
                levels.push(uniform(&mut rng));
            }
        }
        let x = self.behind(sequences.clone(), |b, j| {
            moved[j][b * length - begin..][..length].to_vec()
        });
        let ends = |t: &f64| (t + self.settings.step).min(LAST);
        let times = &self.times[sequences.start * n..sequences.end * n];
        let times: Vec<f64> = times.iter().map(ends).collect();
        let batch = Batch {
            x: &x,
            t: &times,
            r: &times,
        };
        network.evaluate(batch, Want::default(), pass);
        let mut later = Later {
            mean: vec![vec![T::of(0.0); symbols]; rows.len()],
            y: Vec::new(),
        };
        for j in 0..n {
            let places = self.places(rows, sequences.start, j);
            let laws = network.visit(pass, Rows::plain(&places), |at, logits| {
                let now = moved[j][rows[at] - begin];
                let p = law(symbols, logits.value);
                if path.mask().is_some_and(|mask| now != mask) {
                    p.fill(T::of(0.0));
                    p[now] = T::of(1.0);
                }
                let wide: Vec<f64> = p.iter().map(|p| p.widen()).collect();
                (quantile(&wide, levels[j][at]), p.to_vec())
            });
            let mut y = Vec::with_capacity(rows.len());
            for (mean, (symbol, p)) in later.mean.iter_mut().zip(laws) {
                y.push(symbol);
                add(mean, &p, n);
            }
            later.y.push(y);
        }
        later
    }

    /// The loss of some sequences' rows, and its gradient; the student is evaluated.
    fn descend<T: Real, N: Learner<T>>(
        &self,
        (student, pass): (&N, &mut N::Pass),
        rows: &[usize],
        (taught, later): (&[Vec<T>], &Later<T>),
        gradient: &mut Gradient<T>,
    ) -> f64 {
        let (examples, n) = (self.examples, self.settings.latents);
        let symbols = self.path.symbols();
        // The mixture's marginals, and ln p^lambda at x_1 and at each y_j.
        let mut mean = vec![vec![T::of(0.0); symbols]; rows.len()];
        let mut logs = vec![vec![vec![0.0; rows.len()]; n]; n + 1];
        for j in 0..n {
            let places = self.places(rows, 0, j);
            let shown = student.visit(pass, Rows::plain(&places), |at, logits| {
                let log = |y: usize| log_at(symbols, logits.value, y);
                let mut at_y = vec![log(examples.x1[rows[at]])];
                at_y.extend(later.y.iter().map(|y| log(y[at])));
                (at_y, law(symbols, logits.value).to_vec())
            });
            for (at, (at_y, p)) in shown.into_iter().enumerate() {
                add(&mut mean[at], &p, n);
                for (of, log) in logs.iter_mut().zip(at_y) {
                    of[j][at] = log;
                }
            }
        }
        let (mut total, slopes) = self.correlations(rows, &logs);
        for (at, row) in rows.iter().enumerate() {
            if !self.near[row / examples.length] {
                total += kl(&taught[at], &mean[at]) + kl(&later.mean[at], &mean[at]);
            }
        }
        let share = 1.0 / examples.coordinates() as f64;
        let places: Vec<usize> = (0..n).flat_map(|j| self.places(rows, 0, j)).collect();
        let consumer = |place: usize, logits: Logits<T>| {
            let (j, at) = (place / rows.len(), place % rows.len());
            let row = rows[at];
            logits.value[symbols..].fill(T::of(0.0));
            let p = law(symbols, logits.value);
            let mut slope = vec![0.0; symbols];
            let mut distilled = 0.0;
            if self.near[row / examples.length] {
                distilled = kl(&taught[at], p) / n as f64;
                for (s, q) in slope.iter_mut().zip(&taught[at]) {
                    *s = -q.widen() / n as f64;
                }
            } else {
                slope[examples.x1[row]] += slopes[at][j][0];
                for (y, s) in later.y.iter().zip(&slopes[at][j][1..]) {
                    slope[y[at]] += s;
                }
                for z in 0..symbols {
                    let asked = (taught[at][z] + later.mean[at][z]).widen();
                    let mean = mean[at][z].widen().max(f64::MIN_POSITIVE);
                    slope[z] -= p[z].widen() * asked / (n as f64 * mean);
                }
            }
            let sum: f64 = slope.iter().sum();
            for (p, slope) in p.iter_mut().zip(slope) {
                *p = T::of(share * (slope - p.widen() * sum));
            }
            distilled
        };
        let distilled = student.descend(pass, Rows::plain(&places), consumer, gradient);
        total + distilled.iter().sum::<f64>()
    }

    /// What the terms `corr` of some sequences' rows sum to, from `logs[set][lambda][row]` at `x_1` and
    /// at each `y_j`, and their slopes `[row][lambda][set]`.
    fn correlations(&self, rows: &[usize], logs: &[Vec<Vec<f64>>]) -> (f64, Vec<Vec<Vec<f64>>>) {
        let (examples, n) = (self.examples, self.settings.latents);
        let (mut total, mut slopes) = (0.0, vec![vec![Vec::new(); n]; rows.len()]);
        let mut start = 0;
        for here in rows.chunk_by(|a, b| a / examples.length == b / examples.length) {
            let range = start..start + here.len();
            start = range.end;
            let pair = &examples.pairs[here[0] / examples.length];
            let near = self.near[here[0] / examples.length];
            for (set, of) in logs.iter().enumerate() {
                let weight = match set {
                    _ if near => 0.0,
                    0 => self.settings.weight(pair.t),
                    _ => 1.0 / n as f64,
                };
                let l: Vec<Vec<f64>> = of.iter().map(|of| of[range.clone()].to_vec()).collect();
                let (value, slope) = correlation(&l);
                total += weight * value;
                for (j, slope) in slope.into_iter().enumerate() {
                    for (at, slope) in range.clone().zip(slope) {
                        slopes[at][j].push(weight * slope);
                    }
                }
            }
        }
        (total, slopes)
    }
}

/// The law over the first `symbols`, in place of their logits.
fn law<T: Real>(symbols: usize, logits: &mut [T]) -> &mut [T] {
    let logits = &mut logits[..symbols];
    softmax::in_place(logits);
    logits
}

/// Adds an `n`th of `p`.
fn add<T: Real>(mean: &mut [T], p: &[T], n: usize) {
    let share = T::of(1.0 / n as f64);
    mean.iter_mut().zip(p).for_each(|(m, p)| *m += share * *p);
}

/// `KL(q || p)`; a symbol whose `p` is too small for the format has hardly any `q` either.
fn kl<T: Real>(q: &[T], p: &[T]) -> f64 {
    let term = |(q, p): (&T, &T)| match q.widen() {
        0.0 => 0.0,
        q => q * (q / p.widen().max(f64::MIN_POSITIVE)).ln(),
    };
    q.iter().zip(p).map(term).sum()
}

/// `ln p(y)`.
fn log_at<T: Real>(symbols: usize, logits: &[T], y: usize) -> f64 {
    logits[y].widen() - softmax::log_sum_exp(&logits[..symbols])
}

#[cfg(test)]
mod tests;
