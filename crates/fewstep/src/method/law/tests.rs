//! Law matching: what a denoiser stands for, against enumeration, and what a held target asks.

use fewstep_ctmc::{Chain, Process, Schedule, Source};

use super::*;

#[test]
fn short_steps_count_by_a_power_of_their_length() {
    let pairs = [(0.0, 0.5), (0.5, 1.0), (0.25, 0.5)];
    let pairs = pairs.map(|(t, r)| Pair::new(Schedule::Linear, t, r));
    assert_eq!(weights(&pairs, 0.0), [1.0; 3]);
    assert_eq!(weights(&pairs, 2.0), [0.5, 0.5, 2.0]);
}

/// The exact posterior of a chain.
struct Posterior<'a>(&'a Chain);

impl Network<f64> for Posterior<'_> {
    type Pass = (Vec<usize>, Vec<f64>);

    fn symbols(&self) -> usize {
        self.0.path().symbols()
    }

    fn evaluate(&self, batch: Batch, _: Want, pass: &mut Self::Pass) {
        *pass = (batch.x.to_vec(), batch.t.to_vec());
    }

    fn visit<R: Send>(
        &self,
        (x, t): &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
    ) -> Vec<R> {
        let (states, symbols) = (self.0.states(), self.symbols());
        let length = states.coords();
        let one = |(at, &row): (usize, &usize)| {
            let sequence = row / length;
            let state = states.encode(&x[sequence * length..][..length]);
            let level = self.0.path().schedule().level(t[sequence]);
            let posterior = self.0.posterior_at(level, state);
            let law = &posterior[row % length * symbols..][..symbols];
            let mut value: Vec<f64> = law.iter().map(|p| p.ln()).collect();
            let logits = Logits {
                value: &mut value,
                tangent: &mut [],
                others: Vec::new(),
            };
            consumer(at, logits)
        };
        rows.rows.iter().enumerate().map(one).collect()
    }
}

/// From an exact denoiser, the conditionals of `p_r` by enumeration; at the end of time as nearly as
/// the last time that it knows is to it.
#[test]
fn a_denoiser_knows_the_law_of_noised_data() {
    let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 3).unwrap();
    let weights = [9.0, 1.0, 2.0, 1.0, 6.0, 0.5, 3.0, 1.0, 5.0];
    let target = weights.iter().map(|w| w / 28.5).collect();
    let chain = Chain::new(path.clone(), 2, target).unwrap();
    let space = chain.states();
    for (r, close) in [(0.1, 1e-12), (0.7, 1e-12), (0.99, 1e-12), (1.0, 5e-3)] {
        let pair = Pair::new(Schedule::Linear, 0.0, r);
        let b = chain.marginal(Schedule::Linear.level(r));
        let y: Vec<usize> = (0..9).flat_map(|y| space.decode(y)).collect();
        let network = Posterior(&chain);
        let here = (&y[..], &[pair; 9][..]);
        let told = others(&network, &path, here, 0, &mut Default::default());
        let found = noised(&path, &told, &[pair; 9]);
        for (row, found) in found.iter().enumerate() {
            let at = |a: usize| b[space.with(row / 2, row % 2, a)];
            let line: f64 = (0..3).map(at).sum();
            for a in 0..3 {
                let off = found[a] - (at(a) / line).ln();
                assert!(off.abs() < close, "r = {r}, row {row}, {a}: {off}");
            }
        }
    }
}

/// What stands for the datum is its law given where its own coordinate began and where the other one
/// ended, by enumeration of the data.
#[test]
fn a_denoiser_stands_for_the_datum() {
    let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 3).unwrap();
    let weights = [9.0, 1.0, 2.0, 1.0, 6.0, 0.5, 3.0, 1.0, 5.0];
    let target: Vec<f64> = weights.iter().map(|w| w / 28.5).collect();
    let chain = Chain::new(path.clone(), 2, target.clone()).unwrap();
    let (t, r) = (0.3, 0.6);
    let noise = |at: f64, from: usize, to: usize| {
        let stay = if from == to { at } else { 0.0 };
        stay + (1.0 - at) / 3.0
    };
    let pair = Pair::new(Schedule::Linear, t, r);
    for (x, y) in (0..9).map(|i| (i / 3, i % 3)) {
        // What stands at the first coordinate of the end does not matter.
        let (end, network) = ([(x + 1) % 3, y], Posterior(&chain));
        let here = (&end[..], &[pair][..]);
        let others = others(&network, &path, here, 0, &mut Default::default());
        let found = told(&path, t, x, &others[0]);
        let joint = |a: usize| -> f64 {
            let one = |b: usize| target[3 * a + b] * noise(r, b, y);
            noise(t, a, x) * (0..3).map(one).sum::<f64>()
        };
        let all: f64 = (0..3).map(joint).sum();
        for a in 0..3 {
            let off = found[a] - joint(a) / all;
            assert!(off.abs() < 1e-12, "{x} {y} {a}: {off}");
        }
    }
}

/// A kernel where it should be stands still; one at the place held is a step behind, of a rare symbol
/// by little, and a constant in the logits is nothing.
#[test]
fn a_target_is_a_bounded_step_from_what_is_held() {
    let held = [2.0, 1.0, -9.0];
    let pull = [0.3, -0.2, 5.0];
    let behind_now = behind(&held, &held, (&pull, 0.5));
    let q = law(3, &held);
    let mean: f64 = pull.iter().zip(&q).map(|(l, q)| l * q).sum();
    let between = behind_now[0] - behind_now[1];
    let trust = |a: usize| q[a] * (1.0 + RARE) / (q[a] + RARE);
    let expected = 0.5 * (trust(0) * (pull[0] - mean) - trust(1) * (pull[1] - mean));
    assert!((between - expected).abs() < 1e-12 && between > 0.2);
    assert!(
        (behind_now[2] - behind_now[0]).abs() < 0.3,
        "{behind_now:?}"
    );
    let there: Vec<f64> = (0..3).map(|a| held[a] - behind_now[a] + 7.0).collect();
    let none = behind(&there, &held, (&pull, 0.5));
    assert!(none.iter().all(|l| l.abs() < 1e-12), "{none:?}");
}
