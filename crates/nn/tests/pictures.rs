//! The layers of pictures against sums written out, and their backward rules against central
//! differences in f64.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep_nn::{
    Real,
    layers::{
        conv::{Conv, arranged},
        group_norm::GroupNorm,
        picture::{Pictures, Window},
        resample::{Pool, bilinear, double, double_backward, pool},
    },
};

fn numbers<T: Real>(n: usize, seed: f64) -> Vec<T> {
    (0..n)
        .map(|i| T::of((i as f64 * 1.731 + seed).sin() + 0.3 * (i as f64 * 0.37).cos()))
        .collect()
}

fn close<T: Real>(got: &[T], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let distance = (g.widen() - w).abs();
        assert!(
            distance <= tolerance * (1.0 + w.abs()),
            "{what}[{i}]: {g:?} not {w}"
        );
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The derivative of `f` in every entry of `at`.
fn differences(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut at = at.to_vec();
    (0..at.len())
        .map(|i| {
            let (here, h) = (at[i], 1e-5);
            at[i] = here + h;
            let above = f(&at);
            at[i] = here - h;
            let below = f(&at);
            at[i] = here;
            (above - below) / (2.0 * h)
        })
        .collect()
}

/// VQGAN's: a border below and on the right only.
const DOWN: Window = Window {
    size: [3, 3],
    stride: 2,
    before: [0, 0],
    after: [1, 1],
};
const WINDOWS: [Window; 7] = [
    Window::same(1, 1),
    Window::same(3, 3),
    Window::same(1, 7),
    Window::same(5, 1),
    Window::inside(3, 2),
    Window::inside(2, 1),
    DOWN,
];

fn plain(
    window: Window,
    pictures: Pictures,
    outputs: usize,
    (x, weight, bias): (&[f64], &[f64], &[f64]),
) -> Vec<f64> {
    let (out, inputs) = (window.out(pictures, outputs), pictures.channels);
    let [height, width] = window.size;
    let mut y = Vec::new();
    for b in 0..out.count {
        for i in 0..out.height {
            for j in 0..out.width {
                for o in 0..outputs {
                    let mut sum = bias[o];
                    for u in 0..height {
                        for v in 0..width {
                            let row = (window.stride * i + u).checked_sub(window.before[0]);
                            let col = (window.stride * j + v).checked_sub(window.before[1]);
                            let (Some(row), Some(col)) = (row, col) else {
                                continue;
                            };
                            if row >= pictures.height || col >= pictures.width {
                                continue;
                            }
                            for c in 0..inputs {
                                let at =
                                    ((b * pictures.height + row) * pictures.width + col) * inputs;
                                sum +=
                                    x[at + c] * weight[((o * height + u) * width + v) * inputs + c];
                            }
                        }
                    }
                    y.push(sum);
                }
            }
        }
    }
    y
}

fn sizes(count: usize, height: usize, width: usize, channels: usize) -> Pictures {
    Pictures {
        count,
        height,
        width,
        channels,
    }
}

#[test]
fn convolutions_are_their_sums() {
    // The second has several bands, the third fewer lines than its window.
    for (pictures, outputs) in [
        (sizes(2, 7, 9, 3), 5),
        (sizes(1, 70, 41, 2), 3),
        (sizes(3, 3, 8, 4), 17),
    ] {
        for window in WINDOWS {
            let depth = window.area() * pictures.channels;
            let out = window.out(pictures, outputs);
            let (x, weight) = (numbers(pictures.size(), 0.1), numbers(outputs * depth, 2.0));
            let bias: Vec<f64> = numbers(outputs, 1.0);
            let want = plain(window, pictures, outputs, (&x, &weight, &bias));
            let what = format!("{pictures:?} {window:?}");
            let conv = Conv {
                window,
                weight: &weight[..],
                bias: &bias[..],
                inputs: pictures.channels,
                outputs,
            };
            let mut y = vec![f64::NAN; out.size()];
            conv.forward(pictures, &x, &mut y, false);
            close(&y, &want, 1e-12, &what);
            conv.forward(pictures, &x, &mut y, true);
            let twice: Vec<f64> = want.iter().map(|w| 2.0 * w).collect();
            close(&y, &twice, 1e-12, &what);
            let narrow = |v: &[f64]| v.iter().map(|&v| v as f32).collect::<Vec<f32>>();
            let (x, weight, bias) = (narrow(&x), narrow(&weight), narrow(&bias));
            let conv = Conv {
                window,
                weight: &weight[..],
                bias: &bias[..],
                inputs: pictures.channels,
                outputs,
            };
            let mut y = vec![f32::NAN; out.size()];
            conv.forward(pictures, &x, &mut y, false);
            close(&y, &want, 2e-6, &what);
        }
    }
}

/// Windows of 3 x 3 over many channels go another way: the same sums, with odd sides, with and
/// without a border, with and without a bias, on any number of threads.
#[test]
fn windows_of_three_in_fewer_multiplications() {
    for (pictures, outputs) in [(sizes(2, 17, 11, 8), 24), (sizes(1, 16, 16, 16), 72)] {
        for (window, biased) in [(Window::same(3, 3), true), (Window::inside(3, 1), false)] {
            let out = window.out(pictures, outputs);
            let x: Vec<f64> = numbers(pictures.size(), 0.1);
            let weight: Vec<f64> = numbers(outputs * 9 * pictures.channels, 2.0);
            let bias: Vec<f64> = numbers(outputs, 1.0);
            let none = vec![0.0; outputs];
            let seen = if biased { &bias } else { &none };
            let want = plain(window, pictures, outputs, (&x, &weight, seen));
            let conv = Conv {
                window,
                weight: &weight[..],
                bias: if biased { &bias[..] } else { &[] },
                inputs: pictures.channels,
                outputs,
            };
            let mut y = vec![f64::NAN; out.size()];
            conv.forward(pictures, &x, &mut y, false);
            close(&y, &want, 1e-12, "in f64");
            conv.forward(pictures, &x, &mut y, true);
            let twice: Vec<f64> = want.iter().map(|w| 2.0 * w).collect();
            close(&y, &twice, 1e-12, "added");
            let narrow = |v: &[f64]| v.iter().map(|&v| v as f32).collect::<Vec<f32>>();
            let (x, weight, bias) = (narrow(&x), narrow(&weight), narrow(conv.bias));
            let conv = Conv {
                window,
                weight: &weight[..],
                bias: &bias[..],
                inputs: pictures.channels,
                outputs,
            };
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let mut y = vec![f32::NAN; out.size()];
                pool.build()
                    .unwrap()
                    .install(|| conv.forward(pictures, &x, &mut y, false));
                y
            };
            close(&run(1), &want, 1e-5, "in f32");
            assert_eq!(run(1), run(3));
        }
    }
}

#[test]
fn convolutions_know_their_way_back() {
    let (pictures, outputs) = (sizes(2, 5, 4, 2), 3);
    for window in WINDOWS {
        if window.out(pictures, outputs).size() == 0 {
            continue;
        }
        let depth = window.area() * pictures.channels;
        let out = window.out(pictures, outputs);
        let (x, weight) = (numbers(pictures.size(), 0.1), numbers(outputs * depth, 2.0));
        let bias: Vec<f64> = numbers(outputs, 1.0);
        let gy: Vec<f64> = numbers(out.size(), 3.0);
        let conv = Conv {
            window,
            weight: &weight[..],
            bias: &bias[..],
            inputs: pictures.channels,
            outputs,
        };
        let value = |x: &[f64], weight: &[f64], bias: &[f64]| {
            dot(&plain(window, pictures, outputs, (x, weight, bias)), &gy)
        };
        let mut gx = vec![f64::NAN; x.len()];
        conv.backward_input(pictures, &gy, &mut gx);
        close(
            &gx,
            &differences(&x, |x| value(x, &weight, &bias)),
            1e-8,
            "gx",
        );
        let (mut gw, mut gb) = (vec![1.0; weight.len()], vec![1.0; outputs]);
        conv.backward_weight(pictures, (&x, &gy), &mut gw, Some(&mut gb));
        for (got, want) in [
            (&gw, differences(&weight, |w| value(&x, w, &bias))),
            (&gb, differences(&bias, |b| value(&x, &weight, b))),
        ] {
            let added: Vec<f64> = want.iter().map(|w| w + 1.0).collect();
            close(got, &added, 1e-8, &format!("{window:?}"));
        }
    }
}

#[test]
fn weights_of_pytorch_are_rearranged() {
    let shape = [2, 3, 2, 4];
    let mut weight: Vec<f64> = (0..48).map(f64::from).collect();
    arranged(&mut weight, shape);
    for (i, w) in weight.iter().enumerate() {
        let (c, v, u, o) = (i % 3, i / 3 % 4, i / 12 % 2, i / 24);
        assert_eq!(*w as usize, ((o * 3 + c) * 2 + u) * 4 + v);
    }
}

fn plain_norm(pictures: Pictures, norm: &GroupNorm<f64>, x: &[f64]) -> Vec<f64> {
    let (c, wide) = (pictures.channels, pictures.channels / norm.groups);
    let mut y = vec![0.0; x.len()];
    for b in 0..pictures.count {
        let at = |i: usize| b * pictures.one() + i;
        for group in 0..norm.groups {
            let mine: Vec<usize> = (0..pictures.one())
                .filter(|i| i % c / wide == group)
                .collect();
            let n = mine.len() as f64;
            let mean = mine.iter().map(|&i| x[at(i)]).sum::<f64>() / n;
            let variance = mine.iter().map(|&i| (x[at(i)] - mean).powi(2)).sum::<f64>() / n;
            for i in mine {
                let hat = (x[at(i)] - mean) / (variance + norm.eps).sqrt();
                let h = norm.weight[i % c] * hat + norm.bias[i % c];
                y[at(i)] = if norm.swish {
                    h / (1.0 + (-h).exp())
                } else {
                    h
                };
            }
        }
    }
    y
}

#[test]
fn group_norms_forth_and_back() {
    let pictures = sizes(2, 3, 5, 6);
    let (weight, bias) = (numbers::<f64>(6, 0.4), numbers::<f64>(6, 4.0));
    let (x, gy) = (
        numbers::<f64>(pictures.size(), 0.1),
        numbers::<f64>(pictures.size(), 2.0),
    );
    for (groups, swish) in [(2, true), (3, false), (6, true)] {
        let norm = GroupNorm {
            weight: &weight[..],
            bias: &bias[..],
            groups,
            eps: 1e-6,
            swish,
        };
        let mut y = vec![f64::NAN; x.len()];
        let scales = norm.forward(pictures, &x, &mut y);
        close(&y, &plain_norm(pictures, &norm, &x), 1e-12, "y");
        let mut gx = vec![f64::NAN; x.len()];
        let (mut gw, mut gb) = (vec![0.0; 6], vec![0.0; 6]);
        norm.backward(pictures, (&x, &scales), &gy, &mut gx, (&mut gw, &mut gb));
        let value = |x: &[f64]| dot(&plain_norm(pictures, &norm, x), &gy);
        close(&gx, &differences(&x, value), 1e-7, "gx");
        let of = |weight: &[f64], bias: &[f64]| {
            let norm = GroupNorm {
                weight,
                bias,
                ..norm
            };
            dot(&plain_norm(pictures, &norm, &x), &gy)
        };
        close(&gw, &differences(&weight, |w| of(w, &bias)), 1e-7, "gw");
        close(&gb, &differences(&bias, |b| of(&weight, b)), 1e-7, "gb");
    }
}

/// A mean a thousand times the deviation, and more pixels than a chunk has.
#[test]
fn large_means_do_not_show_in_f32() {
    let pictures = sizes(1, 20, 30, 4);
    let x: Vec<f32> = numbers::<f64>(pictures.size(), 0.1)
        .iter()
        .map(|v| (v + 1000.0) as f32)
        .collect();
    let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
    let (one, zero) = ([1.0f32; 4], [0.0f32; 4]);
    let narrow = GroupNorm {
        weight: &one[..],
        bias: &zero[..],
        groups: 2,
        eps: 1e-6,
        swish: false,
    };
    let exact = GroupNorm {
        weight: &[1.0; 4][..],
        bias: &[0.0; 4][..],
        groups: 2,
        eps: 1e-6,
        swish: false,
    };
    let mut y = vec![f32::NAN; x.len()];
    narrow.forward(pictures, &x, &mut y);
    close(&y, &plain_norm(pictures, &exact, &wide), 3e-4, "y");
}

#[test]
fn doubling_and_its_way_back() {
    let pictures = sizes(2, 2, 3, 2);
    let (x, gy) = (numbers::<f64>(24, 0.1), numbers::<f64>(96, 2.0));
    let forward = |x: &[f64]| {
        let mut y = vec![f64::NAN; 96];
        double(pictures, x, &mut y);
        y
    };
    let y = forward(&x);
    for (i, y) in y.iter().enumerate() {
        let (c, j, line, b) = (i % 2, i / 2 % 6, i / 12 % 4, i / 48);
        assert_eq!(*y, x[((b * 2 + line / 2) * 3 + j / 2) * 2 + c]);
    }
    let mut gx = vec![f64::NAN; 24];
    double_backward(pictures, &gy, &mut gx);
    close(&gx, &differences(&x, |x| dot(&forward(x), &gy)), 1e-8, "gx");
}

#[test]
fn pools_and_resizes_by_hand() {
    let pictures = sizes(1, 3, 3, 1);
    let x: Vec<f64> = (1..=9).map(f64::from).collect();
    let mut y = vec![f64::NAN; 9];
    pool(Pool::Mean, Window::same(3, 3), pictures, &x, &mut y);
    close(
        &y,
        &[3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0],
        1e-15,
        "mean",
    );
    pool(Pool::Largest, Window::same(3, 3), pictures, &x, &mut y);
    close(
        &y,
        &[5.0, 6.0, 6.0, 8.0, 9.0, 9.0, 8.0, 9.0, 9.0],
        1e-15,
        "largest",
    );
    let mut one = [f64::NAN];
    pool(Pool::Mean, Window::inside(3, 1), pictures, &x, &mut one);
    assert_eq!(one, [5.0]);
    // Places 0, 0.75, 1.5, 2.25 of three: the last clamps to the edge.
    let wider = bilinear(pictures, &x, (1, 4));
    close(&wider, &[1.0, 1.75, 2.5, 3.0], 1e-7, "bilinear");
    let taller = bilinear(pictures, &x, (6, 1));
    close(&taller, &[1.0, 2.5, 4.0, 5.5, 7.0, 7.0], 1e-7, "bilinear");
}
