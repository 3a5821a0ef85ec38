//! The whole DiT against central differences in f64: every parameter's gradient and the
//! derivative in `t`, for every way to see time and a step.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep_nn::{
    Adaptation, Batch, Column, Gradient, Learner, Logits, Network, Real, Rows, Want, by_rows,
    dit::{Config, Dit, Pass, Positions, Sight, Step, TimeInput},
};

const LENGTH: usize = 5;

const SQUARE: Positions = Positions::Grid {
    rows: 2,
    columns: 2,
};

fn config(heads: usize, step: Step, time: TimeInput) -> Config {
    Config {
        vocabulary: 7,
        length: 6,
        width: 12,
        blocks: 2,
        heads,
        conditioning: 9,
        mask: None,
        time,
        step,
        sight: Sight::Whole,
        positions: Positions::Line,
    }
}

/// Every weight away from its initial value, zeros included.
fn network(config: Config) -> Dit<f64> {
    let mut net = Dit::<f64>::new(config, 3).unwrap();
    for (i, p) in net.parameters_mut().iter_mut().enumerate() {
        *p += 0.2 * (i as f64 * 1.7).sin();
    }
    net
}

fn cases() -> Vec<Dit<f64>> {
    let mut out = Vec::new();
    for (heads, time) in [
        (2, TimeInput::Time),
        (1, TimeInput::Sigma { eps: 1e-3 }),
        (3, TimeInput::Zero),
    ] {
        for step in [Step::None, Step::Trunk, Step::Correction { width: 8 }] {
            let mut net = network(config(heads, step, time));
            net.gain = 1.3;
            out.push(net);
        }
    }
    // Sequences of the tests are shorter than the grid, or go on behind it.
    for (heads, step) in [(1, Step::Correction { width: 8 }), (3, Step::None)] {
        out.push(network(Config {
            positions: SQUARE,
            ..config(heads, step, TimeInput::Time)
        }));
    }
    out
}

struct Data {
    x: Vec<usize>,
    t: Vec<f64>,
    r: Vec<f64>,
}

impl Data {
    fn new(sequences: usize, length: usize) -> Self {
        Self {
            x: (0..sequences * length).map(|i| i * 5 % 7).collect(),
            t: (0..sequences).map(|i| 0.2 + 0.3 * i as f64).collect(),
            r: (0..sequences).map(|i| 0.6 + 0.35 * i as f64).collect(),
        }
    }

    fn batch(&self) -> Batch<'_> {
        Batch {
            x: &self.x,
            t: &self.t,
            r: &self.r,
        }
    }
}

fn logits(net: &Dit<f64>, data: &Data, moving: usize) -> (Vec<f64>, Vec<f64>) {
    let mut pass = Pass::default();
    let want = Want {
        moving,
        ..Want::default()
    };
    net.evaluate(data.batch(), want, &mut pass);
    let all: Vec<usize> = (0..data.x.len()).collect();
    let values = net.visit(&pass, Rows::plain(&all), |_, row| row.value.to_vec());
    let rows = Rows {
        rows: &all[..all.len() * moving / data.t.len()],
        tangent: true,
        others: Vec::new(),
    };
    let tangents = net.visit(&pass, rows, |_, row| row.tangent.to_vec());
    (values.concat(), tangents.concat())
}

#[test]
fn the_derivative_in_t_is_exact() {
    for net in cases() {
        for length in [1, LENGTH] {
            let data = Data::new(2, length);
            let (_, tangent) = logits(&net, &data, 2);
            let shifted = |h: f64| {
                let mut moved = Data::new(2, length);
                moved.t.iter_mut().for_each(|t| *t += h);
                logits(&net, &moved, 0).0
            };
            let (up, down) = (shifted(1e-5), shifted(-1e-5));
            for (i, d) in tangent.iter().enumerate() {
                let numeric = (up[i] - down[i]) / 2e-5;
                assert!(
                    (numeric - d).abs() < 1e-7 * (1.0 + numeric.abs()),
                    "{:?}: {numeric} {d}",
                    net.config()
                );
            }
            // The tangent of the first sequence alone is the same, but for the order of sums, which
            // a product may choose by its size.
            let (_, first) = logits(&net, &data, 1);
            for (alone, together) in first.iter().zip(&tangent) {
                assert!((alone - together).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn gradients_are_exact() {
    for mut net in cases() {
        for adaptation in [Adaptation::Full, Adaptation::Head] {
            let data = Data::new(2, LENGTH);
            let range = net.trainable(adaptation);
            let rows = [0, 2, 3, 7, 9];
            let weight = |row: usize, symbol: usize| ((row * 7 + symbol) as f64 * 0.37).cos();
            let mut pass = Pass::default();
            let want = Want {
                back: Some(adaptation),
                ..Want::default()
            };
            net.evaluate(data.batch(), want, &mut pass);
            let mut gradient = vec![f64::NAN; range.len()];
            for accumulate in [false, true] {
                let mut gradient = Gradient {
                    data: &mut gradient,
                    adaptation,
                    accumulate,
                };
                // In two parts, as a loss with two kinds of rows does it.
                for part in [0..2, 2..5] {
                    let first = part.start;
                    net.descend(
                        &mut pass,
                        Rows::plain(&rows[part]),
                        |row, logits| {
                            for (symbol, l) in logits.value.iter_mut().enumerate() {
                                *l = 0.5 * weight(first + row, symbol);
                            }
                        },
                        &mut gradient,
                    );
                }
                net.backward(&mut pass, &mut gradient);
            }
            let loss = |net: &Dit<f64>| -> f64 {
                let (logits, _) = logits(net, &data, 0);
                rows.iter()
                    .enumerate()
                    .flat_map(|(i, row)| (0..7).map(move |s| (i, *row, s)))
                    .map(|(i, row, s)| logits[row * 7 + s] * weight(i, s))
                    .sum()
            };
            for (i, at) in range.clone().enumerate().step_by(13) {
                let original = net.parameters()[at];
                let mut moved = |h: f64| {
                    net.parameters_mut()[at] = original + h;
                    let value = loss(&net);
                    net.parameters_mut()[at] = original;
                    value
                };
                let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let tensors = &net.layout().tensors;
                assert!(
                    (numeric - gradient[i]).abs() < 1e-6 * (1.0 + numeric.abs()),
                    "{}: {numeric} {} {:?}",
                    tensors.iter().find(|t| t.range.contains(&at)).unwrap().name,
                    gradient[i],
                    net.config()
                );
            }
        }
    }
}

/// A network adapted to see steps predicts what it did, for every step, bit for bit.
#[test]
fn adaptation_starts_at_the_base() {
    let base = network(config(2, Step::None, TimeInput::Time));
    let data = Data::new(2, LENGTH);
    let (before, _) = logits(&base, &data, 0);
    for step in [Step::Trunk, Step::Correction { width: 8 }] {
        let adapted = base.clone().adapted(step, 5).unwrap();
        assert_eq!(logits(&adapted, &data, 0).0, before);
    }
}

/// Angles see distances alone: a picture of one symbol looks the same from everywhere. The cells' vectors
/// tell its places apart, but not those behind the grid.
#[test]
fn cells_of_a_plain_picture_differ_by_their_vectors() {
    let mut net = network(Config {
        positions: SQUARE,
        ..config(1, Step::None, TimeInput::Time)
    });
    let seen = |net: &Dit<f64>| {
        let (t, r) = (vec![0.4], vec![0.4]);
        let x = vec![1; 6];
        logits(net, &Data { x, t, r }, 0).0
    };
    let gap = |all: &[f64], a: usize, b: usize| {
        let row = |i: usize| &all[i * 7..(i + 1) * 7];
        let each = row(a).iter().zip(row(b)).map(|(a, b)| (a - b).abs());
        each.fold(0.0, f64::max)
    };
    let with = seen(&net);
    let vectors = net.layout().positions.clone().unwrap();
    assert_eq!(vectors.len(), 4 * 12);
    net.parameters_mut()[vectors].fill(0.0);
    let without = seen(&net);
    for (a, b) in [(0, 1), (0, 2), (1, 2), (3, 4)] {
        assert!(gap(&with, a, b) > 1e-4, "{a} and {b}");
        assert!(gap(&without, a, b) < 1e-12, "{a} and {b}");
    }
}

/// More sequences than threads and fewer, long enough to be taken apart.
#[test]
fn threads_do_not_change_a_bit() {
    let config = Config {
        length: 70,
        ..config(2, Step::Correction { width: 8 }, TimeInput::Time)
    };
    let mut net = Dit::<f32>::new(config, 3).unwrap();
    for (i, p) in net.parameters_mut().iter_mut().enumerate() {
        *p += 0.2 * (i as f32 * 1.7).sin();
    }
    let data = Data::new(3, 70);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new();
        let pool = pool.num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut pass = Pass::default();
            let want = Want {
                moving: 2,
                back: Some(Adaptation::Full),
                ..Want::default()
            };
            net.evaluate(data.batch(), want, &mut pass);
            let mut gradient = vec![0.0; net.parameters().len()];
            let mut slots = Gradient {
                data: &mut gradient,
                adaptation: Adaptation::Full,
                accumulate: false,
            };
            let rows: Vec<usize> = (0..140).collect();
            let rows = Rows {
                rows: &rows,
                tangent: true,
                others: Vec::new(),
            };
            let tangents = net.descend(
                &mut pass,
                rows,
                |row, logits| {
                    logits.value.fill(row as f32 - 70.0);
                    logits.tangent.to_vec()
                },
                &mut slots,
            );
            net.backward(&mut pass, &mut slots);
            // What nothing comes back through is divided among the threads otherwise.
            let all: Vec<usize> = (0..210).collect();
            let values = |want: Want| {
                let mut pass = Pass::default();
                net.evaluate(data.batch(), want, &mut pass);
                net.visit(&pass, Rows::plain(&all), |_, logits| logits.value.to_vec())
            };
            let there = values(Want::default());
            assert_eq!(there, values(want), "{threads} threads, there and back");
            (tangents, gradient, there)
        })
    };
    let alone = run(1);
    for threads in [2, 3, 5] {
        assert_eq!(alone, run(threads), "{threads} threads");
    }
}

/// A batch that goes through the trunk in several parts has the logits of its sequences and the sum
/// of their gradients, in f64 and with the kernels of f32.
#[test]
fn a_batch_is_its_sequences() {
    // One sequence is larger than a part.
    let (length, width) = (300, 128);
    let config = Config {
        length,
        width,
        blocks: 1,
        ..config(2, Step::Correction { width: 8 }, TimeInput::Time)
    };
    let wide = network(config.clone());
    let narrow: Vec<f32> = wide.parameters().iter().map(|p| *p as f32).collect();
    let narrow = Dit::from_parameters(config, narrow).unwrap();
    let data = Data::new(3, length);
    parts_agree(&wide, &data, 1e-11);
    parts_agree(&narrow, &data, 1e-3);
}

fn parts_agree<T: Real>(net: &Dit<T>, data: &Data, tolerance: f64) {
    let length = data.x.len() / data.t.len();
    let run = |batch: Batch, gradient: &mut [T], accumulate: bool| {
        let mut pass = Pass::default();
        let want = Want {
            back: Some(Adaptation::Full),
            ..Want::default()
        };
        net.evaluate(batch, want, &mut pass);
        let rows: Vec<usize> = (0..batch.x.len()).collect();
        let mut into = Gradient {
            data: gradient,
            adaptation: Adaptation::Full,
            accumulate,
        };
        let weigh = |at: usize, row: Logits<T>| {
            let seen = row.value[0].widen();
            let weight = |i: usize| ((at % length) as f64 + 1.7 * i as f64).sin();
            let each = row.value.iter_mut().enumerate();
            each.for_each(|(i, value)| *value = T::of(weight(i)));
            seen
        };
        let seen = net.descend(&mut pass, Rows::plain(&rows), weigh, &mut into);
        net.backward(&mut pass, &mut into);
        seen
    };
    let zeros = || vec![T::of(0.0); net.parameters().len()];
    let (mut together, mut apart) = (zeros(), zeros());
    let all = run(data.batch(), &mut together, false);
    for i in 0..data.t.len() {
        let one = Batch {
            x: &data.x[i * length..(i + 1) * length],
            t: &data.t[i..=i],
            r: &data.r[i..=i],
        };
        let seen = run(one, &mut apart, i > 0);
        for (a, b) in all[i * length..].iter().zip(&seen) {
            assert!(
                (a - b).abs() < tolerance * (1.0 + b.abs()),
                "{a} is not {b}"
            );
        }
    }
    let norm = |values: &[T]| values.iter().map(|v| v.widen().powi(2)).sum::<f64>().sqrt();
    let apart_norm = norm(&apart);
    let gap: Vec<T> = together.iter().zip(&apart).map(|(a, b)| *a - *b).collect();
    assert!(
        apart_norm > 1.0 && norm(&gap) < tolerance * apart_norm,
        "{}",
        norm(&gap)
    );
}

/// A loss that reads one symbol of a row goes down the same from stripes of symbols as from rows, with
/// derivatives, other points and a mask; also with numbers of another order of magnitude.
#[test]
fn columns_are_those_of_rows() {
    for (vocabulary, scale) in [(7, 1.0), (4200, 1.0), (2049, 30.0)] {
        let mut net = network(Config {
            vocabulary,
            mask: Some(vocabulary - 1),
            ..config(2, Step::Correction { width: 8 }, TimeInput::Time)
        });
        let at = net.layout().head.weight.clone();
        net.parameters_mut()[at]
            .iter_mut()
            .for_each(|w| *w *= scale);
        let (data, other) = (Data::new(2, LENGTH), Data::new(3, LENGTH));
        let rows: Vec<usize> = vec![0, 2, 3, 6, 7, 9];
        let symbols: Vec<usize> = rows
            .iter()
            .map(|row| row * 911 % (vocabulary - 1))
            .collect();
        let run = |columns: bool| {
            let (mut pass, mut beside) = (Pass::default(), Pass::default());
            let want = Want {
                moving: 2,
                back: Some(Adaptation::Full),
                rows: Some(&rows),
            };
            net.evaluate(data.batch(), want, &mut pass);
            let moved = Batch {
                x: &other.x[LENGTH..],
                ..data.batch()
            };
            net.evaluate(moved, Want::default(), &mut beside);
            let mut gradient = vec![f64::NAN; net.parameters().len()];
            let mut into = Gradient {
                data: &mut gradient,
                adaptation: Adaptation::Full,
                accumulate: false,
            };
            let shown = Rows {
                rows: &rows,
                tangent: true,
                others: vec![&beside],
            };
            let see = |at: usize, column: Column| (column, 0.3 + at as f64);
            let seen = match columns {
                true => net.descend_column(&mut pass, shown, &symbols, see, &mut into),
                false => net.descend(&mut pass, shown, by_rows(&symbols, see), &mut into),
            };
            net.backward(&mut pass, &mut into);
            (seen, gradient)
        };
        let ((rows, expected), (columns, found)) = (run(false), run(true));
        let near = |a: f64, b: f64, scale: f64| assert!((a - b).abs() < 1e-11 * scale, "{a}, {b}");
        for (a, b) in rows.iter().zip(&columns) {
            near(a.log, b.log, 1.0 + a.log.abs());
            near(a.value, b.value, 1.0);
            near(a.tangent, b.tangent, 1.0);
            near(a.others[0], b.others[0], 1.0);
        }
        let largest = expected.iter().map(|g| g.abs()).fold(0.0, f64::max);
        assert!(rows.iter().any(|column| column.tangent.abs() > 1e-6));
        let pairs = expected.iter().zip(&found);
        pairs.for_each(|(a, b)| near(*a, *b, largest));
    }
}

/// An evaluation for some rows has their logits, derivatives and gradients, whether its sequences go
/// through the trunk one by one or together, and with a sequence of which no row is wanted.
#[test]
fn some_rows_are_those_of_all() {
    for (length, width, step) in [
        (300, 128, Step::Trunk),
        (300, 128, Step::Correction { width: 8 }),
        (6, 12, Step::Trunk),
    ] {
        let net = network(Config {
            length,
            width,
            ..config(2, step, TimeInput::Time)
        });
        let data = Data::new(3, length);
        let rows: Vec<usize> = (0..2 * length).filter(|row| row * row % 7 < 3).collect();
        let run = |want: Option<&[usize]>| {
            let mut pass = Pass::default();
            let want = Want {
                moving: 1,
                back: Some(Adaptation::Full),
                rows: want,
            };
            net.evaluate(data.batch(), want, &mut pass);
            let mut gradient = vec![f64::NAN; net.parameters().len()];
            let mut into = Gradient {
                data: &mut gradient,
                adaptation: Adaptation::Full,
                accumulate: false,
            };
            let (first, rest) = rows.split_at(rows.partition_point(|row| *row < length));
            let see = |_: usize, row: Logits<f64>| {
                let seen = [row.value.to_vec(), row.tangent.to_vec()].concat();
                row.value.iter_mut().for_each(|v| *v = v.sin());
                seen
            };
            let moving = Rows {
                tangent: true,
                ..Rows::plain(first)
            };
            let mut seen = net.descend(&mut pass, moving, see, &mut into);
            seen.extend(net.descend(&mut pass, Rows::plain(rest), see, &mut into));
            net.backward(&mut pass, &mut into);
            (seen.concat(), gradient)
        };
        let (all, some) = (run(None), run(Some(&rows)));
        for (a, b) in [(&all.0, &some.0), (&all.1, &some.1)] {
            assert_eq!(a.len(), b.len());
            let scale = a.iter().map(|a| a.abs()).fold(0.0, f64::max);
            let gap = a.iter().zip(b).map(|(a, b)| (a - b).abs());
            assert!(scale > 0.1 && gap.fold(0.0, f64::max) < 1e-12 * scale);
        }
    }
}
