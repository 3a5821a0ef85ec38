//! Discrete consistency distillation (DUO): the student's prediction is that of its teacher further
//! on the same trajectory.
//!
//! DUO makes a deterministic discrete trajectory from a Gaussian one: `x_s = argmax(a_s 1_{x_1} +
//! b_s eps)` with one `eps` for all times. Whatever the number of symbols this is a simple thing.
//! Among the symbols that are not `x_1` the largest is always that with the largest `eps`, so a
//! coordinate shows one noise symbol until `a_s/b_s` exceeds a threshold and `x_1` from then on.
//! That is the mixture path with the switch time of each coordinate held fixed
//! ([`Examples::between`]), in law and not only in spirit (test below); the Gaussian says how fast
//! time runs, by the transformation `alpha(gamma)` of [`gaussian`], and nothing else. So no
//! vocabulary of normal numbers has to be drawn.
//!
//! Times are uniform in `gamma`, between the two values at which `alpha` is [`NEAR`] and [`FAR`] (DUO's
//! range for GPT-2's vocabulary); rounds double the distance between the two times.

use fewstep_ctmc::{
    Path, gaussian,
    random::{Key, Purpose, index, uniform},
};
use fewstep_nn::{Gradient, Learner, Network, Real, Rows, Want};

use super::{
    Divergence,
    divergence::{blocks, distil, log_probabilities},
};
use crate::{objective::Pair, sequence::Examples};

/// `alpha` nearest to data and to noise: those of `gamma = -4` and `-1` with 50257 symbols.
pub const NEAR: f64 = 0.998_694;
/// See [`NEAR`].
pub const FAR: f64 = 0.006_186_31;

/// Points of a [`Clock`]'s table; `alpha` is so smooth that straight lines between them are off by
/// less than 1e-6.
const POINTS: usize = 4096;

/// The times of DUO's trajectory, as times of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// `gamma` nearest to data and nearest to noise.
    gammas: (f64, f64),
    /// `alpha` from data to noise, evenly spaced in `gamma`.
    alpha: Vec<f64>,
}

impl Clock {
    /// For a number of symbols, over DUO's range.
    pub fn new(symbols: usize) -> Self {
        Self::between(symbols, (NEAR, FAR))
    }

    /// For a number of symbols, between two values of `alpha`, that nearest to data first.
    pub fn between(symbols: usize, (near, far): (f64, f64)) -> Self {
        let (near, far) = (
            gaussian::gamma(symbols, near),
            gaussian::gamma(symbols, far),
        );
        let at = |i: usize| near + (far - near) * i as f64 / POINTS as f64;
        Self {
            gammas: (near, far),
            alpha: (0..=POINTS)
                .map(|i| gaussian::alpha(symbols, at(i)))
                .collect(),
        }
    }

    /// The time on a path at `noise` in `[0, 1]`, as DUO counts it.
    pub fn time(&self, path: &Path, noise: f64) -> f64 {
        let place = noise.clamp(0.0, 1.0) * POINTS as f64;
        let left = (place as usize).min(POINTS - 1);
        let (a, b) = (self.alpha[left], self.alpha[left + 1]);
        let alpha = a + (b - a) * (place - left as f64);
        path.schedule().inverse(alpha.clamp(0.0, 1.0))
    }

    /// The `gamma` at which a symbol is kept with probability `alpha`, within its range.
    pub fn gamma(&self, alpha: f64) -> f64 {
        let right = self.alpha.partition_point(|a| *a > alpha);
        let right = right.clamp(1, POINTS);
        let (a, b) = (self.alpha[right - 1], self.alpha[right]);
        let part = ((a - alpha) / (a - b)).clamp(0.0, 1.0);
        let (near, far) = self.gammas;
        near + (far - near) * ((right - 1) as f64 + part) / POINTS as f64
    }
}

/// `(earlier, later)`: two points of the trajectories of `x1`, at times a share `distance` of DUO's
/// time apart. The last `given` coordinates are what they are at all times.
pub fn examples(
    (path, clock): (&Path, &Clock),
    (x1, given): (&[usize], usize),
    count: usize,
    distance: f64,
    (seed, step): (u64, u64),
) -> (Examples, Examples) {
    let length = x1.len() / count;
    let key = Key::new(seed, Purpose::Time);
    let (mut x0, mut early, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..count {
        let mut rng = key.at(step, i as u64);
        let noise = (uniform(&mut rng) + distance).min(1.0);
        let at = |noise: f64| {
            let t = clock.time(path, noise);
            Pair::new(path.schedule(), t, t)
        };
        early.push(at(noise));
        late.push(at(noise - distance));
        x0.extend((given..length).map(|_| index(&mut rng, path.symbols())));
        x0.extend_from_slice(&x1[(i + 1) * length - given..(i + 1) * length]);
    }
    let of = |pairs: &[Pair]| Examples::between(path, (&x0, x1), given, pairs, (seed, step));
    (of(&early), of(&late))
}

/// The mean divergence a coordinate of the student at the earlier points from the teacher at the
/// later ones, and its gradient.
pub fn step<T: Real, N: Learner<T>, M: Network<T>>(
    (student, teacher): (&N, &M),
    (earlier, later): (&Examples, &Examples),
    (path, divergence): (&Path, Divergence),
    (pass, teacher_pass): (&mut N::Pass, &mut M::Pass),
    gradient: &mut Gradient<T>,
) -> f64 {
    let rows = earlier.active(path);
    teacher.evaluate(later.all(), Want::default(), teacher_pass);
    let targets = |rows: &[usize]| {
        teacher.visit(teacher_pass, Rows::plain(rows), |_, logits| {
            log_probabilities(path.symbols(), logits.value)
        })
    };
    let blocks = blocks(&rows, earlier.length, path.symbols());
    let student = (student, pass);
    distil(
        student,
        earlier.all(),
        &blocks,
        targets,
        divergence,
        gradient,
    )
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Process, Schedule, Source, random::normal};

    use super::*;

    #[test]
    fn the_table_keeps_to_the_transformation() {
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 257).unwrap();
        let clock = Clock::new(257);
        let (near, far) = clock.gammas;
        for noise in [0.0, 0.1003, 0.4567, 0.9, 1.0] {
            let exact = gaussian::alpha(257, near + noise * (far - near));
            let found = clock.time(&path, noise);
            assert!((found - exact).abs() < 1e-6, "{noise}: {found}, {exact}");
            let back = gaussian::alpha(257, clock.gamma(exact));
            assert!((back - exact).abs() < 1e-6, "{noise}: {back}, {exact}");
        }
    }

    /// The law of `(x_t, x_s)` is that of the Gaussian trajectory, drawn as DUO draws it: chi-square
    /// of the four cells (data or not, at either time), and noise that is one symbol at both times.
    #[test]
    fn trajectories_are_those_of_the_gaussian() {
        let (symbols, count, data) = (5, 60_000, 2);
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), symbols).unwrap();
        let clock = Clock::new(symbols);
        let (near, far) = clock.gammas;
        let distance = 0.3;
        let x1 = vec![data; count];
        let (early, late) = examples((&path, &clock), (&x1, 0), count, distance, (3, 0));
        let key = Key::new(9, Purpose::Check);
        let mut cells = [[0.0f64; 4]; 2];
        for i in 0..count {
            let mut rng = key.at(0, i as u64);
            let noise = (uniform(&mut rng) + distance).min(1.0);
            let eps: Vec<f64> = (0..symbols).map(|_| normal(&mut rng)).collect();
            let shows = |noise: f64| {
                let gamma = near + noise * (far - near);
                let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
                let (a, b) = (sigmoid(-gamma).sqrt(), sigmoid(gamma).sqrt());
                let at = |z: usize| a * f64::from(u8::from(z == data)) + b * eps[z];
                let better = |best: usize, z: usize| if at(z) > at(best) { z } else { best };
                (0..symbols).fold(0, better)
            };
            for (k, (t, s)) in [
                (early.x[i], late.x[i]),
                (shows(noise), shows(noise - distance)),
            ]
            .into_iter()
            .enumerate()
            {
                cells[k][2 * usize::from(t == data) + usize::from(s == data)] += 1.0;
                assert!(t == data || s == data || t == s, "noise stays itself");
            }
        }
        // Data is never left: the third cell is empty.
        assert_eq!((cells[0][2], cells[1][2]), (0.0, 0.0));
        let chi: f64 = [0, 1, 3]
            .iter()
            .map(|&c| (cells[0][c] - cells[1][c]).powi(2) / (cells[0][c] + cells[1][c]))
            .sum();
        // The 0.9999 quantile of two degrees of freedom.
        assert!(chi < 18.4, "{chi} from {cells:?}");
    }
}
