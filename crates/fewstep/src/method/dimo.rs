//! Di[M]O: a one-step generator, by matching what two denoisers say of its own sequences.
//!
//! The generator writes a whole sequence `x^` in one step from where the path begins. It is corrupted
//! to `x_t`, and two denoisers are asked what each coordinate was: the teacher, which knows the data,
//! and a second one that is trained on generated sequences alone. Where they differ, the generator's
//! law does; the gradient that is left in the generator's logits at a coordinate that is open in
//! `x_t` is
//!
//! ```text
//! (1 - b) (p_fake - p_true) + b p_fake (ln p_fake - ln p_true - KL(p_fake || p_true)),
//! ```
//!
//! the token-level form of the reverse and the forward divergence, mixed by `b`. It is no gradient of
//! a loss: it vanishes when both denoisers agree everywhere, which is when the laws do. Each step
//! trains the second denoiser too, on the sequences it has just seen.
//!
//! From masks alone every coordinate is written independently of all others and there is nothing to
//! train but the marginals; the randomness that carries dependence has to be given. The original
//! mixes random codes into the masks; here a latent stands behind the sequence, as in
//! [`di4c`](super::di4c). From uniform noise it is there already.

use fewstep_ctmc::{
    Path,
    random::{Key, Purpose, quantile, uniform},
};
use fewstep_nn::{Adaptation, Gradient, Learner, Logits, Real, Rows, Want};

use super::divergence::law;
use crate::sequence::{Examples, base, sampler::State, times};

/// The method's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Sequences a step.
    pub batch: usize,
    /// Positions, and those that carry a latent.
    pub sizes: (usize, usize),
    /// The share `b` of the second divergence.
    pub mix: f64,
}

/// A pull so small is none: on the way back it would leave the normal range of f32, where every
/// operation takes a hundred times as long.
const NOTHING: f64 = 1e-12;

/// The evaluations of a step; their arrays are used again by the next one.
#[derive(Debug, Default)]
pub struct Passes<P, Q> {
    generator: P,
    fake: Q,
    teacher: Q,
}

/// What the two denoisers make of a coordinate, `[S]`.
pub fn signal(fake: &[f64], teacher: &[f64], mix: f64) -> Vec<f64> {
    let ratio = |z: usize| match fake[z] > 0.0 {
        true => fake[z].ln() - teacher[z].max(f64::MIN_POSITIVE).ln(),
        false => 0.0,
    };
    let apart: f64 = (0..fake.len()).map(|z| fake[z] * ratio(z)).sum();
    (0..fake.len())
        .map(|z| (1.0 - mix) * (fake[z] - teacher[z]) + mix * fake[z] * (ratio(z) - apart))
        .collect()
}

/// The mean over the coordinates of what the generator is pulled by, `signal . logits`, with its
/// gradient, and the second denoiser's bound on the generated sequences with its own. Sequences are given
/// `labels` in turn, if there are any, which all three networks are told.
pub fn step<T: Real, G: Learner<T>, D: Learner<T>>(
    (generator, fake, teacher): (&G, &D, &D),
    (path, settings, labels): (&Path, &Settings, &[usize]),
    (seed, number): (u64, u64),
    passes: &mut Passes<G::Pass, D::Pass>,
    (generator_gradient, fake_gradient): (&mut Gradient<T>, &mut Gradient<T>),
) -> (f64, f64) {
    let (length, carried) = settings.sizes;
    let first = number * settings.batch as u64;
    let begin = State::carrying(path, (first, settings.batch), settings.sizes, seed);
    let begin = begin.labelled(labels);
    let start = vec![0.0; settings.batch];
    // Positions with label and latent, and with the label alone.
    let (whole, told) = (begin.length(), begin.length() - carried);
    let want = Want {
        back: Some(Adaptation::Full),
        ..Want::default()
    };
    let batch = fewstep_nn::Batch {
        x: &begin.x,
        t: &start,
        r: &start,
    };
    generator.evaluate(batch, want, &mut passes.generator);
    let rows: Vec<usize> = (0..settings.batch)
        .flat_map(|b| b * whole..b * whole + length)
        .collect();
    let key = Key::new(seed, Purpose::Sample);
    let written = generator.visit(&passes.generator, Rows::plain(&rows), |at, logits| {
        let mut rng = key.at(number, rows[at] as u64);
        quantile(&law(path.symbols(), logits.value), uniform(&mut rng))
    });

    let behind = begin.x.chunks(whole).map(|x| &x[length..told]);
    let sequences = written.chunks(length).zip(behind);
    let x1: Vec<usize> = sequences
        .flat_map(|(x, label)| [x, label].concat())
        .collect();
    let (pairs, weights) = times::instants(path, settings.batch, (seed, number));
    let examples = Examples::corrupt(path, &x1, &pairs, (seed, number))
        .giving(told - length)
        .weighing(weights);
    let open = examples.active(path);
    let said = |network: &D, pass: &mut D::Pass| {
        network.evaluate(examples.all(), Want::default(), pass);
        network.visit(pass, Rows::plain(&open), |_, logits| {
            law(path.symbols(), logits.value)
        })
    };
    let taught = said(teacher, &mut passes.teacher);
    let faked = said(fake, &mut passes.fake);

    // Coordinates of x^ that are open in x_t, in the generator's batch.
    let places: Vec<usize> = open
        .iter()
        .map(|row| row / told * whole + row % told)
        .collect();
    let share = 1.0 / examples.coordinates() as f64;
    let consumer = |at: usize, logits: Logits<T>| {
        let pull = signal(&faked[at], &taught[at], settings.mix);
        let z = logits.value.iter().map(|l| l.widen());
        let value: f64 = pull.iter().zip(z).map(|(p, z)| p * z).sum();
        logits.value.fill(T::of(0.0));
        for (g, p) in logits.value.iter_mut().zip(&pull) {
            *g = T::of(if p.abs() > NOTHING { share * p } else { 0.0 });
        }
        share * value
    };
    let pulled = generator.descend(
        &mut passes.generator,
        Rows::plain(&places),
        consumer,
        generator_gradient,
    );
    generator.backward(&mut passes.generator, generator_gradient);
    let bound = base::step(
        fake,
        path,
        (&examples, base::Loss::Bound),
        &mut passes.fake,
        fake_gradient,
    );
    (pulled.iter().sum(), bound)
}

#[cfg(test)]
mod tests {
    use fewstep_nn::softmax;

    use super::*;

    /// No pull where both agree; else away from what is written too often. Both parts leave the sum
    /// of the logits alone.
    #[test]
    fn the_pull_is_away_from_what_is_too_likely() {
        let (fake, teacher) = ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]);
        for mix in [0.0, 0.4, 1.0] {
            let same = signal(&teacher, &teacher, mix);
            assert!(same.iter().all(|p| p.abs() < 1e-16));
            let pull = signal(&fake, &teacher, mix);
            assert!(pull[0] > 0.1 && pull[2] < -0.1, "{mix}: {pull:?}");
            assert!(pull.iter().sum::<f64>().abs() < 1e-15);
        }
        assert!((signal(&fake, &teacher, 0.0)[0] - 0.4).abs() < 1e-15);
        // The other part is the gradient of KL(fake || teacher) in fake's logits.
        let logits = [0.3, -0.2, 0.9];
        let at = |l: &[f64]| fewstep_ctmc::divergence::kl(&softmax::forward(l, 3, 1.0), &teacher);
        let pull = signal(&softmax::forward(&logits, 3, 1.0), &teacher, 1.0);
        for z in 0..3 {
            let moved = |h: f64| {
                let mut l = logits;
                l[z] += h;
                at(&l)
            };
            let numeric = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((numeric - pull[z]).abs() < 1e-9);
        }
    }
}
