//! Law matching: a step whose product draws make the right *law* (`docs/law-matching.md`).
//!
//! From `x ~ p_t` a step draws `y` with `K(x, y) = prod_d m^d(y^d | x)`. Over `x` that is a mixture of
//! products, `f = p_t K`, and it is brought to `b = p_r`. The derivative of `KL(f || b)` in the
//! probabilities `m^d(a | x)` is, up to a constant in `a`,
//!
//! ```text
//! L^d(x, a) = E_{y ~ K(x, .)} [ln f(a | y^{\d}) - ln b(a | y^{\d})],
//! ```
//!
//! of which one `y` is an unbiased estimate for all coordinates and symbols at once. The two
//! conditionals come from one network that cannot see the coordinate it predicts, trained beside the
//! kernel on what that draws and on noised data.
//!
//! The kernel follows the ratio down, the conditionals follow the kernel; when they follow too late,
//! it overshoots and in the end collapses. Three things keep them close:
//!
//! - The conditionals are `common +- difference`, and `x_t`, `x_r` lie on the same trajectories: what
//!   the drawn sequence and its noised datum share moves the common part and not the ratio.
//! - They learn laws, not symbols. Given `x`, the law of `y^d` is the kernel's row whatever the
//!   other coordinates are, and given `x_1` that of `x_r^d` is the noise's: the same expectation
//!   without the noise of a draw.
//! - The kernel's rate is a third of theirs, and rises slowly.

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, index, quantile, uniform},
};
use fewstep_nn::{Adaptation, Batch, Gradient, Learner, Logits, Real, Rows, Want, softmax};

use super::divergence::law;
use crate::{
    objective::Pair,
    sequence::{Examples, times},
};

/// The largest logarithm of a ratio that is believed.
const CLIP: f64 = 5.0;
/// A pull so small is none: on the way back it would leave the normal range of f32, where every
/// operation takes a hundred times as long.
const NOTHING: f64 = 1e-12;

/// The evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<K, C> {
    kernel: K,
    made: C,
    data: C,
    real: C,
}

/// What a step found, means over the coordinates in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// `ln f - ln b` at what was drawn: how far the laws are apart, as far as the conditionals know.
    pub ratio: f64,
    /// The cross-entropy of the conditionals on what was drawn.
    pub made: f64,
    /// The same on noised data.
    pub real: f64,
}

/// Where steps start and where they end, on the same trajectories of data `x1 [B, L]`.
pub fn examples(
    path: &Path,
    x1: &[usize],
    pairs: &[Pair],
    (seed, step): (u64, u64),
) -> (Examples, Examples) {
    let mut rng = Key::new(seed, Purpose::Teacher).at(step, 0);
    let x0: Vec<usize> = match path.mask() {
        Some(mask) => vec![mask; x1.len()],
        None => x1.iter().map(|_| index(&mut rng, path.symbols())).collect(),
    };
    let at = |pairs: &[Pair]| Examples::between(path, (&x0, x1), 0, pairs, (seed, step));
    let end = |pair: &Pair| Pair::new(path.schedule(), pair.r, pair.r);
    (at(pairs), at(&pairs.iter().map(end).collect::<Vec<_>>()))
}

/// One step of both networks: the kernel from the states of `examples`, the conditionals on what it
/// draws there and on `real`, noised data at the ends of the same steps. Leaves both gradients.
pub fn step<T: Real, K: Learner<T>, C: Learner<T>>(
    (kernel, conditionals): (&K, &C),
    (examples, real): (&Examples, &Examples),
    path: &Path,
    (seed, number): (u64, u64),
    passes: &mut Passes<K::Pass, C::Pass>,
    (kernel_gradient, conditionals_gradient): (&mut Gradient<T>, &mut Gradient<T>),
) -> Found {
    let want = Want {
        back: Some(kernel_gradient.adaptation),
        ..Want::default()
    };
    kernel.evaluate(examples.all(), want, &mut passes.kernel);
    let rows = examples.active(path);
    let key = Key::new(seed, Purpose::Sample);
    let states = path.state_symbols();
    let drawn = kernel.visit(&passes.kernel, Rows::plain(&rows), |at, logits| {
        let row = rows[at];
        let pair = &examples.pairs[row / examples.length];
        let mut m = vec![0.0; states];
        let p = law(path.symbols(), logits.value);
        path.step_row(pair.t, pair.r, examples.x[row], &p, &mut m);
        let symbol = quantile(&m, uniform(&mut key.at(number, row as u64)));
        (symbol, m)
    });

    // What was drawn, without latents, and where its rows are.
    let (whole, length) = (examples.length, examples.length - examples.carried);
    let mut y = examples.x.clone();
    for (row, (symbol, _)) in rows.iter().zip(&drawn) {
        y[*row] = *symbol;
    }
    let y: Vec<usize> = y
        .chunks(whole)
        .flat_map(|y| &y[..length])
        .copied()
        .collect();
    let place = |row: &usize| row / whole * length + row % whole;
    let places: Vec<usize> = rows.iter().map(place).collect();

    let steps = examples
        .pairs
        .iter()
        .map(|pair| (pair.t, pair.r.min(times::LAST)));
    let (starts, ends): (Vec<f64>, Vec<f64>) = steps.unzip();
    // The law of data stands on the other side.
    let mirrored: Vec<f64> = starts.iter().zip(&ends).map(|(t, r)| 2.0 * r - t).collect();
    let back = Want {
        back: Some(Adaptation::Full),
        ..Want::default()
    };
    let at = |x, r| Batch { x, t: &ends, r };
    conditionals.evaluate(at(&y, &starts), back, &mut passes.made);
    conditionals.evaluate(at(&y, &mirrored), Want::default(), &mut passes.data);
    let shown = Rows {
        rows: &places,
        tangent: false,
        others: vec![&passes.data],
    };
    let ratios = conditionals.visit(&passes.made, shown, |_, logits| {
        let (f, b) = (&logits.value[..states], &logits.others[0][..states]);
        let apart = softmax::log_sum_exp(f) - softmax::log_sum_exp(b);
        let ratio = |(f, b): (&T, &T)| (f.widen() - b.widen() - apart).clamp(-CLIP, CLIP);
        f.iter().zip(b).map(ratio).collect::<Vec<f64>>()
    });

    let share = 1.0 / examples.coordinates() as f64;
    let consumer = |at: usize, logits: Logits<T>| {
        let row = rows[at];
        let pair = &examples.pairs[row / whole];
        let p = law(path.symbols(), logits.value);
        let mut pull = vec![0.0; p.len()];
        path.pull_row(pair.t, pair.r, examples.x[row], &ratios[at], &mut pull);
        let mean: f64 = pull.iter().zip(&p).map(|(l, p)| l * p).sum();
        logits.value.fill(T::of(0.0));
        for ((to, l), p) in logits.value.iter_mut().zip(&pull).zip(&p) {
            let g = share * p * (l - mean);
            *to = T::of(if g.abs() > NOTHING { g } else { 0.0 });
        }
        ratios[at][y[places[at]]]
    };
    let plain = Rows::plain(&rows);
    let ratio: Vec<f64> = kernel.descend(&mut passes.kernel, plain, consumer, kernel_gradient);
    kernel.backward(&mut passes.kernel, kernel_gradient);

    let mut moved = vec![None; y.len()];
    for (place, (_, m)) in places.iter().zip(&drawn) {
        moved[*place] = Some(m);
    }
    let one = |yes: bool| if yes { 1.0 } else { 0.0 };
    let to = |row: usize, z: usize| moved[row].map_or(one(y[row] == z), |m| m[z]);
    let here = (&mut passes.made, y.len());
    let made = fit(conditionals, (states, &to), here, conditionals_gradient);

    conditionals.evaluate(at(&real.x, &mirrored), back, &mut passes.real);
    let kappa = |pair: &Pair| path.schedule().kappa(pair.t);
    let kappas: Vec<f64> = real.pairs.iter().map(kappa).collect();
    let noise = |z: usize| match path.mask() {
        Some(mask) => one(z == mask),
        None => 1.0 / path.symbols() as f64,
    };
    let to = |row: usize, z: usize| {
        let kappa = kappas[row / length];
        kappa * one(real.x1[row] == z) + (1.0 - kappa) * noise(z)
    };
    let accumulate = std::mem::replace(&mut conditionals_gradient.accumulate, true);
    let here = (&mut passes.real, real.x.len());
    let real = fit(conditionals, (states, &to), here, conditionals_gradient);
    conditionals_gradient.accumulate = accumulate;
    Found {
        ratio: share * ratio.iter().sum::<f64>(),
        made,
        real,
    }
}

/// The mean cross-entropy of conditionals with the laws `to(row, symbol)`, and its gradient.
fn fit<T: Real, C: Learner<T>>(
    conditionals: &C,
    (states, to): (usize, &(impl Fn(usize, usize) -> f64 + Sync)),
    (pass, count): (&mut C::Pass, usize),
    gradient: &mut Gradient<T>,
) -> f64 {
    let rows: Vec<usize> = (0..count).collect();
    let share = 1.0 / count as f64;
    let consumer = |row: usize, logits: Logits<T>| {
        let value = logits.value;
        value[states..].fill(T::of(0.0));
        let value = &mut value[..states];
        let lse = softmax::log_sum_exp(value);
        let mut loss = 0.0;
        for (z, l) in value.iter_mut().enumerate() {
            let (log_p, q) = (l.widen() - lse, to(row, z));
            loss -= q * log_p;
            let g = log_p.exp() - q;
            *l = T::of(if g.abs() > NOTHING { share * g } else { 0.0 });
        }
        loss
    };
    let losses = conditionals.descend(pass, Rows::plain(&rows), consumer, gradient);
    conditionals.backward(pass, gradient);
    share * losses.iter().sum::<f64>()
}
