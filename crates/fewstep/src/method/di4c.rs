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

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{Batch, Gradient, Learner, Logits, Network, Real, Rows, Want, softmax};

use super::{divergence::law, sdtt::advance};
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
/// the student as it stands.
pub fn step<T: Real, N: Learner<T>, M: Network<T>>(
    (student, detached, teacher): (&N, &N, &M),
    examples: &Examples,
    (path, settings): (&Path, &Settings),
    (seed, number): (u64, u64),
    passes: &mut Passes<N::Pass, M::Pass>,
    gradient: &mut Gradient<T>,
) -> f64 {
    let (n, symbols) = (settings.latents, path.symbols());
    let rows = examples.active(path);
    let carrier = Carrier::new(examples, path, settings, (seed, number));
    teacher.evaluate(examples.all(), Want::default(), &mut passes.teacher);
    let taught = teacher.visit(&passes.teacher, Rows::plain(&rows), |_, logits| {
        law(symbols, logits.value)
    });
    let later = carrier.later((detached, &mut passes.later), &rows, &taught);

    let want = Want {
        back: Some(gradient.adaptation),
        ..Want::default()
    };
    let x = carrier.behind(|b, _| examples.x[b * examples.length..][..examples.length].to_vec());
    student.evaluate(carrier.batch(&x), want, &mut passes.main);
    // The mixture's marginals, and ln p^lambda at x_1 and at each y_j.
    let mut mean = vec![vec![0.0; symbols]; rows.len()];
    let mut logs = vec![vec![vec![0.0; rows.len()]; n]; n + 1];
    for j in 0..n {
        let places = carrier.places(&rows, j);
        let shown = student.visit(&passes.main, Rows::plain(&places), |at, logits| {
            let log = |y: usize| log_at(symbols, logits.value, y);
            let mut at_y = vec![log(examples.x1[rows[at]])];
            at_y.extend(later.y.iter().map(|y| log(y[at])));
            (at_y, law(symbols, logits.value))
        });
        for (at, (at_y, p)) in shown.into_iter().enumerate() {
            mean[at]
                .iter_mut()
                .zip(p)
                .for_each(|(m, p)| *m += p / n as f64);
            for (of, log) in logs.iter_mut().zip(at_y) {
                of[j][at] = log;
            }
        }
    }
    let share = 1.0 / examples.x.len() as f64;
    let (mut total, mut slopes) = (0.0, vec![vec![Vec::new(); n]; rows.len()]);
    let mut start = 0;
    for here in rows.chunk_by(|a, b| a / examples.length == b / examples.length) {
        let range = start..start + here.len();
        start = range.end;
        let pair = &examples.pairs[here[0] / examples.length];
        let near = carrier.near[here[0] / examples.length];
        for (set, of) in logs.iter().enumerate() {
            let weight = match set {
                _ if near => 0.0,
                0 => settings.weight(pair.t),
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
    for (at, row) in rows.iter().enumerate() {
        if !carrier.near[row / examples.length] {
            let apart = |q: &[f64]| fewstep_ctmc::divergence::kl(q, &mean[at]);
            total += apart(&taught[at]) + apart(&later.mean[at]);
        }
    }

    let places: Vec<usize> = (0..n).flat_map(|j| carrier.places(&rows, j)).collect();
    let consumer = |place: usize, logits: Logits<T>| {
        let (j, at) = (place / rows.len(), place % rows.len());
        let row = rows[at];
        let p = law(symbols, logits.value);
        let mut slope = vec![0.0; symbols];
        let mut distilled = 0.0;
        if carrier.near[row / examples.length] {
            distilled = fewstep_ctmc::divergence::kl(&taught[at], &p) / n as f64;
            for (s, q) in slope.iter_mut().zip(&taught[at]) {
                *s = -q / n as f64;
            }
        } else {
            slope[examples.x1[row]] += slopes[at][j][0];
            for (y, s) in later.y.iter().zip(&slopes[at][j][1..]) {
                slope[y[at]] += s;
            }
            for z in 0..symbols {
                let asked = taught[at][z] + later.mean[at][z];
                slope[z] -= p[z] * asked / (n as f64 * mean[at][z].max(f64::MIN_POSITIVE));
            }
        }
        let sum: f64 = slope.iter().sum();
        logits.value.fill(T::of(0.0));
        for z in 0..symbols {
            logits.value[z] = T::of(share * (slope[z] - p[z] * sum));
        }
        distilled
    };
    let main = &mut passes.main;
    let distilled = student.descend(main, Rows::plain(&places), consumer, gradient);
    student.backward(main, gradient);
    share * (total + distilled.iter().sum::<f64>())
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
struct Later {
    /// The mean of its laws over the latents.
    mean: Vec<Vec<f64>>,
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

    /// `tokens(sequence, latent)` with the latents behind them.
    fn behind(&self, tokens: impl Fn(usize, usize) -> Vec<usize>) -> Vec<usize> {
        let (n, carried) = (self.settings.latents, self.settings.carried);
        (0..self.times.len())
            .flat_map(|i| {
                let mut x = tokens(i / n, i % n);
                x.extend_from_slice(&self.latents[i * carried..(i + 1) * carried]);
                x
            })
            .collect()
    }

    fn batch<'b>(&'b self, x: &'b [usize]) -> Batch<'b> {
        Batch {
            x,
            t: &self.times,
            r: &self.times,
        }
    }

    /// Where coordinates stand in the batch, with latent `j`.
    fn places(&self, rows: &[usize], j: usize) -> Vec<usize> {
        let length = self.examples.length;
        let whole = length + self.settings.carried;
        rows.iter()
            .map(|row| (row / length * self.settings.latents + j) * whole + row % length)
            .collect()
    }

    /// The student after a small step of the teacher, from each state for each latent on its own.
    fn later<T: Real, N: Network<T>>(
        &self,
        (network, pass): (&N, &mut N::Pass),
        rows: &[usize],
        taught: &[Vec<f64>],
    ) -> Later {
        let (examples, path, n) = (self.examples, self.path, self.settings.latents);
        let (seed, number) = self.address;
        let key = Key::new(seed, Purpose::Teacher);
        let mut moved = vec![examples.x.clone(); n];
        let mut levels = vec![Vec::new(); n];
        for (at, &row) in rows.iter().enumerate() {
            let mut rng = key.at(number, row as u64);
            let t = examples.pairs[row / examples.length].t;
            let step = (t, (t + self.settings.step).min(1.0));
            let log_p: Vec<f64> = taught[at].iter().map(|p| p.ln()).collect();
            for (x, levels) in moved.iter_mut().zip(&mut levels) {
                if let Some(to) = advance(path, step, x[row], &log_p, uniform(&mut rng)) {
                    x[row] = to;
                }
                levels.push(uniform(&mut rng));
            }
        }
        let length = examples.length;
        let x = self.behind(|b, j| moved[j][b * length..(b + 1) * length].to_vec());
        let ends = |t: &f64| (t + self.settings.step).min(LAST);
        let times: Vec<f64> = self.times.iter().map(ends).collect();
        let batch = Batch {
            x: &x,
            t: &times,
            r: &times,
        };
        network.evaluate(batch, Want::default(), pass);
        let symbols = path.symbols();
        let mut later = Later {
            mean: vec![vec![0.0; symbols]; rows.len()],
            y: Vec::new(),
        };
        for j in 0..n {
            let places = self.places(rows, j);
            let laws = network.visit(pass, Rows::plain(&places), |at, logits| {
                let now = moved[j][rows[at]];
                let known = path.mask().is_some_and(|mask| now != mask);
                let mut p = law(symbols, logits.value);
                if known {
                    p.fill(0.0);
                    p[now] = 1.0;
                }
                (quantile(&p, levels[j][at]), p)
            });
            let mut y = Vec::with_capacity(rows.len());
            for (mean, (symbol, p)) in later.mean.iter_mut().zip(laws) {
                y.push(symbol);
                mean.iter_mut().zip(p).for_each(|(m, p)| *m += p / n as f64);
            }
            later.y.push(y);
        }
        later
    }
}

/// `ln p(y)`.
fn log_at<T: Real>(symbols: usize, logits: &[T], y: usize) -> f64 {
    logits[y].widen() - softmax::log_sum_exp(&logits[..symbols])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With all latents of a mixture at hand, `corr` averaged over its law is minus its total
    /// correlation, by enumeration; its slopes are those of central differences.
    #[test]
    fn corr_is_the_dependence_of_the_mixture() {
        let space = fewstep_ctmc::Space::new(3, 2).unwrap();
        let table = |seed: usize| -> Vec<f64> {
            let logits: Vec<f64> = (0..6)
                .map(|i| ((seed * 6 + i) as f64 * 2.3).sin())
                .collect();
            softmax::forward(&logits, 3, 1.0)
        };
        let laws: Vec<Vec<f64>> = (0..4).map(table).collect();
        let joint: Vec<f64> = (0..9)
            .map(|y| laws.iter().map(|p| p[y / 3] * p[3 + y % 3]).sum::<f64>() / 4.0)
            .collect();
        let logs = |y: usize| -> Vec<Vec<f64>> {
            let row = |p: &Vec<f64>| vec![p[y / 3].ln(), p[3 + y % 3].ln()];
            laws.iter().map(row).collect()
        };
        let mean: f64 = (0..9).map(|y| joint[y] * correlation(&logs(y)).0).sum();
        let exact = fewstep_ctmc::divergence::total_correlation(&space, &joint);
        assert!(
            (mean + exact).abs() < 1e-14 && exact > 0.01,
            "{mean} {exact}"
        );
        let (_, slopes) = correlation(&logs(5));
        for (j, d) in [(0, 0), (3, 1), (2, 0)] {
            let at = |h: f64| {
                let mut l = logs(5);
                l[j][d] += h;
                correlation(&l).0
            };
            let numeric = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((numeric - slopes[j][d]).abs() < 1e-9);
        }
        assert!(correlation(&logs(5)[..1]).0.abs() < 1e-15, "one latent");
    }
}
