//! Di4C: blocks against the whole, and the dependence of a mixture.

use fewstep_ctmc::{Process, Schedule, Source};
use fewstep_nn::{Adaptation, Conditioned, Conditioning};

use super::*;
use crate::objective::Pair;

/// Sequences a few at a time have the loss and the gradient of all together.
#[test]
fn blocks_do_not_change_the_step() {
    for source in [Source::Uniform, Source::Masked] {
        let path = Path::new(Schedule::Linear, Process::Mixture(source), 3).unwrap();
        let settings = Settings::new(2, 1);
        let symbols = path.state_symbols();
        let network = |length: usize, seed: u64| {
            let shape = (length, symbols, 3);
            Conditioned::<f64>::new(Conditioning::Instant, shape, &[8], seed)
        };
        let (student, teacher) = (network(3, 1), network(2, 2));
        let pairs = [0.1, 0.5, 0.99, 0.3].map(|t| Pair::new(Schedule::Linear, t, t));
        let examples = Examples::corrupt(&path, &[0, 1, 2, 0, 1, 2, 0, 2], &pairs, (1, 0));
        let rows = examples.active(&path);
        let run = |blocks: &[&[usize]]| {
            let mut gradient = vec![0.0; student.parameters().len()];
            let mut slots = Gradient {
                data: &mut gradient,
                adaptation: Adaptation::Full,
                accumulate: false,
            };
            let networks = (&student, &student, &teacher);
            let passes = &mut Passes::default();
            let (blocks, what) = ((&examples, blocks), (&path, &settings));
            let loss = in_blocks(networks, blocks, what, (5, 2), passes, &mut slots);
            (loss, gradient)
        };
        let parts = blocks(&rows, 2, 1 << 30);
        assert!(parts.len() > 1);
        let (whole, apart) = (run(&[&rows]), run(&parts));
        assert!((whole.0 - apart.0).abs() < 1e-14 && whole.0.abs() > 1e-3);
        for (a, b) in whole.1.iter().zip(&apart.1) {
            assert!((a - b).abs() < 1e-14);
        }
        assert!(whole.1.iter().any(|g| g.abs() > 1e-4));
    }
}

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
