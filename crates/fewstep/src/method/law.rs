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
//! of which one `y` is an unbiased estimate for all coordinates and symbols at once. The first
//! conditional comes from a network that cannot see the coordinate it predicts, trained beside the
//! kernel on what that draws. The second comes from one of three places ([`Side`]):
//!
//! - **A denoiser.** `b(a | y^{\d})` is what the other coordinates say of `x_1^d`, noised, and a denoiser
//!   knows that up to the likelihood of `y^d`, which is divided out. Nothing is learned of `b`, so none of
//!   its noise is in the ratio, and what is learned of `f` is `ln f/b` itself, from zero.
//! - **Noised data**, on which the same network is trained: where there is no denoiser to rely on.
//! - **Both**: it is trained on noised data, from what a denoiser says of them, and what the datum is, the
//!   denoiser says too, given the other coordinates at the end of the step and this one at its start. Not so where
//!   a step ends in data: there a posterior is the own state's likelihood, whose logarithm has no bound, and what a
//!   network gets wrong of that would be taken for what the others say.
//!
//! The kernel follows the ratio down, the conditionals follow the kernel; when they follow too late,
//! it overshoots and in the end collapses. These keep them close:
//!
//! - On noised data the conditionals are `common +- difference`, and both sides take the same step from
//!   the same `x_t` by the same random numbers, one to what the kernel predicts, one to the datum:
//!   `y` and `x_r` are the same sequence wherever neither has moved. What they share moves the common
//!   part and not the ratio.
//! - They learn laws, not symbols: that of `y^d` given `x_t`, the kernel's row, and that of `x_r^d` given
//!   `x_t^d` and `x_1^d`, the same row with the datum for a prediction. Neither depends on the other
//!   coordinates, so the expectation is that of draws. The two rows differ by `omega (p~ - delta_{x_1})`
//!   alone, so the noise in the ratio falls with the step as the ratio does.
//! - The kernel's rate is a third of theirs, and rises slowly.
//!
//! A kernel goes down the derivative, or it follows a target ([`Held`]): the average of its weights draws, and
//! its logits are fitted to the average's, moved by a bounded step of mirror descent. However high the rate,
//! it is never further ahead than that step, and the bound can fall to nothing.
//!
//! One kernel serves steps of all lengths `h = r - t`. A product step is wrong by `O(h^2)`, so its divergence
//! and the gradient in a correction `h f` are `O(h^4)`, while what `K` steps get wrong together is `O(h)`: in a
//! plain sum of divergences short steps take what long ones ask for. Counting them `h^-2` would make it a
//! sum of the samplers' squared errors, and the noise of short steps too loud; they count `h^-1`
//! ([`POWER`]), which was best of 0, 1 and 2.

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, quantile, uniform},
};
use fewstep_nn::{
    Adaptation, Batch, Gradient, Learner, Logits, Network, Real, Rows, Want, softmax,
};

use super::divergence::law;
use crate::{
    objective::Pair,
    sequence::{Examples, own_logit, times},
};

/// Steps count `(r - t)^-POWER` in the kernel's gradient.
pub const POWER: f64 = 1.0;
/// The largest logarithm of a ratio that is believed.
const CLIP: f64 = 5.0;
/// A pull so small is none: on the way back it would leave the normal range of f32, where every
/// operation takes a hundred times as long.
const NOTHING: f64 = 1e-12;

/// A symbol less probable than this is moved by less than a target's whole step: of what is rarely drawn
/// little is known.
const RARE: f64 = 0.02;

/// Where the law of noised data is known from.
#[derive(Debug)]
pub enum Side<'a, K> {
    /// A denoiser, evaluated at rest where steps end; where noise is uniform.
    Denoiser(&'a K),
    /// Noised data at the ends of the same steps, on which it is learned.
    Data,
    /// Both: learned on noised data from what a denoiser says of them, with its word for what the data are;
    /// where noise is uniform.
    Both(&'a K),
}

/// What a kernel follows in place of the derivative.
#[derive(Debug)]
pub struct Held<'a, K> {
    /// The kernel that draws, and whose logits are moved.
    pub kernel: &'a K,
    /// The step of mirror descent in the prediction's logits is `min(bound, 1/omega)`.
    pub bound: f64,
}

/// The evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<K, C> {
    kernel: K,
    held: K,
    denoiser: K,
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
    /// The same on noised data, if they are learned.
    pub real: Option<f64>,
}

/// One step of both networks: the kernel from the states of `examples`, the conditionals on what it
/// draws there, or the kernel that it follows, held against `side`. Leaves both gradients, the kernel's with
/// steps that count `(r - t)^-power`.
pub fn step<T: Real, K: Learner<T>, C: Learner<T>>(
    (kernel, conditionals): (&K, &C),
    (examples, side): (&Examples, Side<K>),
    (path, power, held): (&Path, f64, Option<Held<K>>),
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
    // A step to what is predicted, and one to the datum, by the same random number.
    let to = |row: usize, p: &[f64]| {
        let pair = &examples.pairs[row / examples.length];
        let mut m = vec![0.0; states];
        path.step_row(pair.t, pair.r, examples.x[row], p, &mut m);
        let symbol = quantile(&m, uniform(&mut key.at(number, row as u64)));
        (symbol, m)
    };
    let draw = |at: usize, logits: Logits<T>| to(rows[at], &law(path.symbols(), logits.value));
    let drawn = match &held {
        Some(held) => {
            let from = held.kernel;
            from.evaluate(examples.all(), Want::default(), &mut passes.held);
            from.visit(&passes.held, Rows::plain(&rows), draw)
        }
        None => kernel.visit(&passes.kernel, Rows::plain(&rows), draw),
    };

    // What was drawn, without latents but with what is given, and where its rows are.
    let (whole, given) = (examples.length, examples.given);
    let length = whole - (examples.carried - given);
    let place = |row: &usize| row / whole * length + row % whole;
    let places: Vec<usize> = rows.iter().map(place).collect();
    let ended = |drawn: &[(usize, Vec<f64>)]| -> Vec<usize> {
        let mut all = examples.x.clone();
        for (row, (symbol, _)) in rows.iter().zip(drawn) {
            all[*row] = *symbol;
        }
        let sequences = all.chunks(whole);
        sequences.flat_map(|y| &y[..length]).copied().collect()
    };
    let y = ended(&drawn);

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
    // What is known of the law of data before anything is learned, [rows of y, states].
    let known = match &side {
        Side::Denoiser(denoiser) | Side::Both(denoiser) => {
            let here = (&y[..], &examples.pairs[..]);
            let others = others(*denoiser, path, here, given, &mut passes.denoiser);
            noised(path, &others, &examples.pairs)
        }
        Side::Data => Vec::new(),
    };
    let add = adding(&known);
    let mut shown = Rows::plain(&places);
    if !matches!(side, Side::Denoiser(_)) {
        conditionals.opposite(at(&y, &mirrored), &passes.made, &mut passes.data);
        shown.others.push(&passes.data);
    }
    let ratios = conditionals.visit(&passes.made, shown, |at, mut logits| {
        add(places[at], logits.value);
        let f: Vec<f64> = logits.value[..states].iter().map(|f| f.widen()).collect();
        let b: Vec<f64> = match logits.others.first_mut() {
            Some(b) => {
                add(places[at], b);
                b[..states].iter().map(|b| b.widen()).collect()
            }
            None => known[places[at]].clone(),
        };
        let apart = softmax::log_sum_exp(&f) - softmax::log_sum_exp(&b);
        let ratio = |(f, b): (&f64, &f64)| (f - b - apart).clamp(-CLIP, CLIP);
        f.iter().zip(&b).map(ratio).collect::<Vec<f64>>()
    });

    let share = 1.0 / examples.coordinates() as f64;
    let weights = weights(&examples.pairs, power);
    let consumer = |at: usize, logits: Logits<T>| {
        let row = rows[at];
        let pair = &examples.pairs[row / whole];
        let p = law(path.symbols(), logits.value);
        let mut pull = vec![0.0; p.len()];
        path.pull_row(pair.t, pair.r, examples.x[row], &ratios[at], &mut pull);
        let slopes = match &held {
            Some(held) => {
                let omega = path.schedule().omega(pair.t, pair.r);
                let step = held.bound.min(omega.recip());
                behind(logits.value, logits.others[0], (&pull, step))
            }
            None => {
                let mean: f64 = pull.iter().zip(&p).map(|(l, p)| l * p).sum();
                pull.iter().zip(&p).map(|(l, p)| p * (l - mean)).collect()
            }
        };
        logits.value.fill(T::of(0.0));
        for (to, slope) in logits.value.iter_mut().zip(&slopes) {
            let g = share * weights[row / whole] * slope;
            *to = T::of(if g.abs() > NOTHING { g } else { 0.0 });
        }
        ratios[at][y[places[at]]]
    };
    let mut shown = Rows::plain(&rows);
    if held.is_some() {
        shown.others.push(&passes.held);
    }
    let ratio: Vec<f64> = kernel.descend(&mut passes.kernel, shown, consumer, kernel_gradient);
    kernel.backward(&mut passes.kernel, kernel_gradient);

    let one = |yes: bool| if yes { 1.0 } else { 0.0 };
    // The law of each row of sequences that were drawn so.
    let laws = |x: &[usize], drawn: &[(usize, Vec<f64>)]| {
        let still = |x: &usize| (0..states).map(|z| one(*x == z)).collect();
        let mut laws: Vec<Vec<f64>> = x.iter().map(still).collect();
        for (place, (_, m)) in places.iter().zip(drawn) {
            laws[*place].clone_from(m);
        }
        laws
    };
    let predicted = predicted(y.len(), length, given);
    let here = (&mut passes.made, &laws(&y, &drawn)[..]);
    let made = fit(conditionals, here, &predicted, &add, conditionals_gradient);
    let mut found = Found {
        ratio: share * ratio.iter().sum::<f64>(),
        made,
        real: None,
    };
    if let Side::Denoiser(_) = side {
        return found;
    }

    let datum = |row: &usize| {
        let p = (0..path.symbols()).map(|v| one(examples.x1[*row] == v));
        to(*row, &p.collect::<Vec<f64>>())
    };
    let mut drawn: Vec<(usize, Vec<f64>)> = rows.iter().map(datum).collect();
    let real = ended(&drawn);
    let known = match &side {
        Side::Both(denoiser) => {
            let here = (&real[..], &examples.pairs[..]);
            let others = others(*denoiser, path, here, given, &mut passes.denoiser);
            // Not to the datum, but to what is known of it where it ended and where this one began; at data,
            // where a denoiser's own state drowns what the others say, to the datum.
            for (at, row) in rows.iter().enumerate() {
                let (pair, x) = (&examples.pairs[row / whole], examples.x[*row]);
                if pair.r > times::LAST {
                    continue;
                }
                let p = told(path, pair.t, x, &others[places[at]]);
                path.step_row(pair.t, pair.r, x, &p, &mut drawn[at].1);
            }
            noised(path, &others, &examples.pairs)
        }
        _ => Vec::new(),
    };
    conditionals.evaluate(at(&real, &mirrored), back, &mut passes.real);
    let accumulate = std::mem::replace(&mut conditionals_gradient.accumulate, true);
    let here = (&mut passes.real, &laws(&real, &drawn)[..]);
    let add = adding(&known);
    let real = fit(conditionals, here, &predicted, &add, conditionals_gradient);
    found.real = Some(real);
    conditionals_gradient.accumulate = accumulate;
    found
}

/// What the steps count, with mean one: `(r - t)^-power`.
fn weights(pairs: &[Pair], power: f64) -> Vec<f64> {
    let one = |pair: &Pair| (pair.r - pair.t).powf(-power);
    let mut weights: Vec<f64> = pairs.iter().map(one).collect();
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    weights.iter_mut().for_each(|w| *w /= mean);
    weights
}

/// The rows of sequences of `length`, without those of the last `given` positions.
fn predicted(rows: usize, length: usize, given: usize) -> Vec<usize> {
    let own = |row: &usize| row % length < length - given;
    (0..rows).filter(own).collect()
}

/// How far logits are from those held, `others`, moved against the centred pull by `step`, up to a constant; a
/// rare symbol is moved by `p/(p + RARE)` of it.
fn behind<T: Real>(value: &[T], held: &[T], (pull, step): (&[f64], f64)) -> Vec<f64> {
    let q = law(pull.len(), held);
    let mean: f64 = pull.iter().zip(&q).map(|(l, q)| l * q).sum();
    let one = |a: usize| {
        let trust = q[a] * (1.0 + RARE) / (q[a] + RARE);
        value[a].widen() - held[a].widen() + step * trust * (pull[a] - mean)
    };
    let apart: Vec<f64> = (0..pull.len()).map(one).collect();
    let mean = apart.iter().sum::<f64>() / apart.len() as f64;
    apart.into_iter().map(|l| l - mean).collect()
}

/// Puts what is known to the logits of a row, if anything is.
fn adding<T: Real>(known: &[Vec<f64>]) -> impl Fn(usize, &mut [T]) + Sync {
    move |row, logits| {
        let known = known.get(row).map_or(&[][..], |known| known);
        let lines = logits.iter_mut().zip(known);
        lines.for_each(|(l, k)| *l = T::of(l.widen() + k));
    }
}

/// `p(x_1^d = a | y^{\d})` for each coordinate of sequences `y` at the ends of steps, from a denoiser: its
/// posterior without the likelihood of `y^d`. Nothing for the last `given` of a sequence.
fn others<T: Real, K: Network<T>>(
    denoiser: &K,
    path: &Path,
    (y, pairs): (&[usize], &[Pair]),
    given: usize,
    pass: &mut K::Pass,
) -> Vec<Vec<f64>> {
    assert!(
        path.mask().is_none(),
        "with masks a coordinate must be hidden"
    );
    let ends: Vec<f64> = pairs.iter().map(|pair| pair.r.min(times::LAST)).collect();
    let at_rest = Batch {
        x: y,
        t: &ends,
        r: &ends,
    };
    denoiser.evaluate(at_rest, Want::default(), pass);
    let length = y.len() / pairs.len();
    let rows = predicted(y.len(), length, given);
    let known = denoiser.visit(pass, Rows::plain(&rows), |at, logits| {
        let (row, sequence) = (rows[at], rows[at] / length);
        let (own, _) = own_logit((path.schedule(), path.symbols() as f64), ends[sequence]);
        logits.value[y[row]] += T::of(-own);
        law(path.symbols(), logits.value)
    });
    let mut all = vec![Vec::new(); y.len()];
    rows.into_iter()
        .zip(known)
        .for_each(|(row, p)| all[row] = p);
    all
}

/// `ln b(a | y^{\d})`, from what the others say of `x_1^d`: noised to the ends of steps.
fn noised(path: &Path, others: &[Vec<f64>], pairs: &[Pair]) -> Vec<Vec<f64>> {
    let length = others.len() / pairs.len();
    let uniform = 1.0 / path.symbols() as f64;
    let one = |(row, others): (usize, &Vec<f64>)| {
        let kappa = path.schedule().kappa(pairs[row / length].r);
        let b = |p: &f64| (kappa * p + (1.0 - kappa) * uniform).max(f64::MIN_POSITIVE);
        others.iter().map(|p| b(p).ln()).collect()
    };
    others.iter().enumerate().map(one).collect()
}

/// `p(x_1^d | x_t^d = x, y^{\d})` from what the others at the end of a step say of `x_1^d`.
fn told(path: &Path, t: f64, x: usize, others: &[f64]) -> Vec<f64> {
    let (own, _) = own_logit((path.schedule(), path.symbols() as f64), t);
    let likely = |(v, p): (usize, &f64)| if v == x { p * own.exp() } else { *p };
    let mut p: Vec<f64> = others.iter().enumerate().map(likely).collect();
    let all: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= all);
    p
}

/// The mean cross-entropy of conditionals at `rows` with the law `[states]` of each, and its gradient;
/// `add` puts what is known to the logits of a row.
fn fit<T: Real, C: Learner<T>>(
    conditionals: &C,
    (pass, laws): (&mut C::Pass, &[Vec<f64>]),
    rows: &[usize],
    add: &(impl Fn(usize, &mut [T]) + Sync),
    gradient: &mut Gradient<T>,
) -> f64 {
    let share = 1.0 / rows.len() as f64;
    let consumer = |at: usize, logits: Logits<T>| {
        let (row, value) = (rows[at], logits.value);
        add(row, value);
        let law = &laws[row];
        value[law.len()..].fill(T::of(0.0));
        let value = &mut value[..law.len()];
        let lse = softmax::log_sum_exp(value);
        let mut loss = 0.0;
        for (l, q) in value.iter_mut().zip(law) {
            let log_p = l.widen() - lse;
            loss -= q * log_p;
            let g = log_p.exp() - q;
            *l = T::of(if g.abs() > NOTHING { share * g } else { 0.0 });
        }
        loss
    };
    let losses = conditionals.descend(pass, Rows::plain(rows), consumer, gradient);
    conditionals.backward(pass, gradient);
    share * losses.iter().sum::<f64>()
}

#[cfg(test)]
mod tests;
