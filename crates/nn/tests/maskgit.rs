//! MaskGIT's derivative in time and its gradients against central differences in f64.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep_nn::{
    Adaptation, Batch, Gradient, Learner, Network, Rows, Want,
    dit::{Pass, Step},
    maskgit::{Config, MaskGit},
};

const STEPS: [Step; 3] = [Step::None, Step::Trunk, Step::Correction { width: 5 }];

fn config(step: Step) -> Config {
    Config {
        codes: 5,
        classes: 3,
        side: 2,
        width: 8,
        blocks: 2,
        heads: 2,
        conditioning: 6,
        step,
        predicts_mask: false,
    }
}

/// A network none of whose parameters is zero.
fn network(step: Step) -> MaskGit<f64> {
    let mut net = MaskGit::new(config(step), 3).unwrap();
    for (i, p) in net.parameters_mut().iter_mut().enumerate() {
        *p += 0.3 * (i as f64 * 1.37).sin();
    }
    *net.gain() = 1.4;
    net
}

/// Two sequences: codes and masks, a class, and none.
fn x() -> Vec<usize> {
    let config = config(Step::None);
    let (mask, class, none) = (config.mask(), config.class(Some(1)), config.class(None));
    vec![0, mask, 3, 2, class, mask, mask, 4, 1, none]
}

const T: [f64; 2] = [0.3, 0.55];
const R: [f64; 2] = [0.7, 0.6];
/// Not of the classes' positions.
const ROWS: [usize; 6] = [0, 1, 3, 5, 6, 8];

fn logits(net: &MaskGit<f64>, t: &[f64], tangent: bool) -> (Vec<f64>, Vec<f64>) {
    let (x, mut pass) = (x(), Pass::default());
    let want = Want {
        moving: if tangent { 2 } else { 0 },
        back: None,
        rows: None,
    };
    net.evaluate(Batch { x: &x, t, r: &R }, want, &mut pass);
    let rows = Rows {
        rows: &ROWS,
        tangent,
        others: Vec::new(),
    };
    let answers = net.visit(&pass, rows, |_, row| {
        (row.value.to_vec(), row.tangent.to_vec())
    });
    let (values, tangents): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
    (values.concat(), tangents.concat())
}

fn weight(i: usize) -> f64 {
    (0.61 * i as f64).cos()
}

/// A weighted sum of all logits but the mask's, which is never predicted.
fn loss(net: &MaskGit<f64>) -> f64 {
    let symbols = net.symbols();
    let values = logits(net, &T, false).0;
    let weighted = values.iter().enumerate();
    let seen = weighted.filter(|(i, _)| i % symbols != 5);
    seen.map(|(i, l)| weight(i) * l).sum()
}

#[test]
fn the_derivative_in_time_is_exact() {
    for step in STEPS {
        let net = network(step);
        assert_eq!(net.symbols(), 6);
        let (_, tangents) = logits(&net, &T, true);
        let h = 1e-6;
        let [above, below] = [h, -h].map(|h| logits(&net, &T.map(|t| t + h), false).0);
        let mut largest = 0f64;
        for (i, d) in tangents.iter().enumerate() {
            let numeric = (above[i] - below[i]) / (2.0 * h);
            assert!(
                (numeric - d).abs() < 1e-7 * (1.0 + d.abs()),
                "{step:?} {i}: {d} not {numeric}"
            );
            largest = largest.max(d.abs());
        }
        assert_eq!(largest > 1e-3, step != Step::None, "{step:?}");
    }
}

#[test]
fn gradients_are_exact() {
    for (step, adaptation) in [
        (Step::None, Adaptation::Full),
        (Step::Trunk, Adaptation::Full),
        (Step::Correction { width: 5 }, Adaptation::Full),
        (Step::Correction { width: 5 }, Adaptation::Head),
    ] {
        let mut net = network(step);
        let range = net.trainable(adaptation);
        assert!(!range.is_empty());
        let mut data = vec![f64::NAN; range.len()];
        let (x, mut pass, symbols) = (x(), Pass::default(), net.symbols());
        for accumulate in [false, true] {
            let want = Want {
                moving: 0,
                back: Some(adaptation),
                rows: None,
            };
            net.evaluate(
                Batch {
                    x: &x,
                    t: &T,
                    r: &R,
                },
                want,
                &mut pass,
            );
            let mut gradient = Gradient {
                data: &mut data,
                adaptation,
                accumulate,
            };
            // In two parts, as the rows of a batch may come.
            for (first, rows) in [(0, &ROWS[..2]), (2, &ROWS[2..])] {
                net.descend(
                    &mut pass,
                    Rows::plain(rows),
                    |row, logits| {
                        for (s, l) in logits.value.iter_mut().enumerate() {
                            *l = weight((first + row) * symbols + s);
                        }
                    },
                    &mut gradient,
                );
            }
            net.backward(&mut pass, &mut gradient);
        }
        let tensors = net.layout().tensors.clone();
        for tensor in tensors {
            if tensor.range.start < range.start {
                continue;
            }
            // Along a direction that no two entries have in common.
            let along = |i: usize| (1.7 * (i - tensor.range.start) as f64 + 0.4).sin();
            let start = net.parameters().to_vec();
            let h = 1e-6;
            let [above, below] = [h, -h].map(|h| {
                for i in tensor.range.clone() {
                    net.parameters_mut()[i] = start[i] + h * along(i);
                }
                loss(&net)
            });
            net.parameters_mut().copy_from_slice(&start);
            let numeric = (above - below) / (2.0 * h);
            let slopes = tensor
                .range
                .clone()
                .map(|i| along(i) * data[i - range.start]);
            // It was added twice.
            let found = slopes.sum::<f64>() / 2.0;
            assert!(
                (numeric - found).abs() < 1e-7 * (1.0 + numeric.abs()),
                "{step:?} {adaptation:?} {}: {found} not {numeric}",
                tensor.name
            );
        }
    }
}

/// What sees steps begins as the network that sees none, to the bit.
#[test]
fn steps_change_nothing_at_the_start() {
    let base = MaskGit::<f64>::new(config(Step::None), 7).unwrap();
    let expected = logits(&base, &T, false).0;
    assert!(expected.iter().any(|l| l.abs() > 1e-6 && l.abs() < 1e6));
    for step in STEPS {
        let published: Vec<f64> = base
            .layout()
            .tensors
            .iter()
            .filter(|tensor| !tensor.name.contains("modulation"))
            .flat_map(|tensor| base.parameters()[tensor.range.clone()].to_vec())
            .collect();
        let net = MaskGit::from_published(config(step), &published).unwrap();
        let (values, tangents) = logits(&net, &T, true);
        assert_eq!(values, expected, "{step:?}");
        assert!(tangents.iter().all(|d| *d == 0.0), "{step:?}");
    }
}

#[test]
fn wrong_numbers_of_parameters_are_refused() {
    assert!(MaskGit::from_published(config(Step::None), &[0.0; 10]).is_err());
    let odd = Config {
        heads: 3,
        ..config(Step::None)
    };
    assert!(MaskGit::<f32>::new(odd, 0).is_err());
}
