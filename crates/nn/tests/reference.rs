//! The rules of every reference layer against central differences in f64, and the whole network
//! against the same formulas in plain loops.
#![cfg(feature = "burn")]
#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use burn::tensor::{Device, FloatDType, Int, Tensor};
use fewstep_nn::dit::{Config, FEATURES, Layout, Positions, Sight, Step, TimeInput};
use fewstep_nn::reference::{
    Dit, Gelu, attention, devices, embedding, from_slice, gate, linear, norm, rotary, silu,
    sinusoid, softmax, to_vec,
};

/// `n` numbers in (-1, 1) that look random.
fn noise(seed: usize, n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 7919 + seed * 104_729 + 1) as f64 * 12.9898).sin() * 43_758.545_3)
        .map(|v| 2.0 * (v - v.floor()) - 1.0)
        .collect()
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Plain,
    /// The last two axes swapped.
    Transposed,
    /// A window of a larger tensor.
    Sliced,
}

const MEMORIES: [Memory; 3] = [Memory::Plain, Memory::Transposed, Memory::Sliced];

impl Memory {
    fn tensor<const D: usize>(self, values: &[f64], shape: [usize; D]) -> Tensor<D> {
        let plain = from_slice(values, shape, &Device::flex());
        match self {
            Self::Transposed if D > 1 => {
                let swapped = plain.swap_dims(D - 2, D - 1);
                let copy: Vec<f64> = to_vec(&swapped);
                from_slice(&copy, swapped.dims(), &Device::flex()).swap_dims(D - 2, D - 1)
            }
            Self::Sliced => {
                let mut window = plain;
                for axis in 0..D {
                    let edge = window.clone().narrow(axis, 0, 1) * 0.0 + 7.0;
                    window = Tensor::cat(vec![edge.clone(), window, edge], axis);
                }
                for axis in 0..D {
                    window = window.narrow(axis, 1, shape[axis]);
                }
                window
            }
            _ => plain,
        }
    }
}

type Array = Vec<f64>;
type Arrays = Vec<Array>;

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1e-2f64, |m, v| m.max(v.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-7 * size, "{what}[{i}]: {a} not {b}");
    }
}

/// `d/dh f(x + h direction)` by a central difference.
fn difference(forward: &dyn Fn(&[Array]) -> Array, inputs: &[Array], direction: &[Array]) -> Array {
    const H: f64 = 1e-5;
    let at = |h: f64| {
        let moved: Arrays = (inputs.iter().zip(direction))
            .map(|(x, d)| x.iter().zip(d).map(|(x, d)| x + h * d).collect())
            .collect();
        forward(&moved)
    };
    let (up, down) = (at(H), at(-H));
    let slope = up.iter().zip(down).map(|(a, b)| (a - b) / (2.0 * H));
    slope.collect()
}

/// Both rules of a layer. Arrays are its inputs; only the first `moving` of them depend on `t`,
/// and only the first `learning` have a gradient.
fn check(
    what: &str,
    sizes: &[usize],
    (moving, learning): (usize, usize),
    forward: &dyn Fn(&[Array]) -> Array,
    backward: &dyn Fn(&[Array], &[f64]) -> Arrays,
    tangent: &dyn Fn(&[Array], &[Array]) -> Array,
) {
    let inputs: Arrays = (sizes.iter().enumerate())
        .map(|(i, &n)| noise(i + 1, n))
        .collect();
    let zeros: Arrays = sizes.iter().map(|&n| vec![0.0; n]).collect();
    let gy = noise(77, forward(&inputs).len());

    let gradient = backward(&inputs, &gy);
    assert_eq!(gradient.len(), learning, "{what}");
    for (i, found) in gradient.iter().enumerate() {
        let expected: Vec<f64> = (0..sizes[i])
            .map(|entry| {
                let mut direction = zeros.clone();
                direction[i][entry] = 1.0;
                let slope = difference(forward, &inputs, &direction);
                slope.iter().zip(&gy).map(|(s, g)| s * g).sum()
            })
            .collect();
        assert_close(found, &expected, &format!("{what}, gradient of input {i}"));
    }

    let mut direction = zeros;
    for (i, d) in direction.iter_mut().enumerate().take(moving) {
        *d = noise(50 + i, d.len());
    }
    let expected = difference(forward, &inputs, &direction);
    let found = tangent(&inputs, &direction);
    assert_close(&found, &expected, &format!("{what}, tangent"));
}

#[test]
fn linear_rules() {
    for (n, i, o) in [(1, 1, 1), (5, 3, 7), (4, 6, 2)] {
        for m in MEMORIES {
            let t = |v: &[Array]| (m.tensor(&v[0], [n, i]), m.tensor(&v[1], [o, i]));
            check(
                &format!("linear {n} {i} {o} {m:?}"),
                &[n * i, o * i, o],
                (1, 3),
                &|v| {
                    let (x, w) = t(v);
                    to_vec(&linear::forward(&x, &w, Some(&m.tensor(&v[2], [o]))))
                },
                &|v, gy| {
                    let (x, w) = t(v);
                    let (gx, gw, gb) = linear::backward(&x, &w, &m.tensor(gy, [n, o]));
                    vec![to_vec(&gx), to_vec(&gw), to_vec(&gb)]
                },
                &|v, d| to_vec(&linear::tangent(&t(v).1, &m.tensor(&d[0], [n, i]))),
            );
        }
    }
    let x = from_slice(&[1.0, 2.0], [1, 2], &Device::flex());
    let w = from_slice(&[3.0, 4.0, 5.0, 6.0], [2, 2], &Device::flex());
    let y: Vec<f64> = to_vec(&linear::forward(&x, &w, None));
    assert_eq!(y, [11.0, 17.0]);
}

#[test]
fn embedding_rules() {
    let (v, c) = (5, 3);
    let ids = Tensor::<1, Int>::from_data([4, 0, 4, 2, 4, 0], &Device::flex());
    for m in MEMORIES {
        let table = |a: &[Array]| m.tensor(&a[0], [v, c]);
        check(
            &format!("embedding {m:?}"),
            &[v * c],
            (0, 1),
            &|a| to_vec(&embedding::forward(&table(a), &ids)),
            &|a, gy| {
                let gy = m.tensor(gy, [6, c]);
                vec![to_vec(&embedding::backward(&table(a), &ids, &gy))]
            },
            &|a, _| to_vec(&embedding::tangent(&embedding::forward(&table(a), &ids))),
        );
    }
}

#[test]
fn norm_rules() {
    for (b, l, c) in [(1, 1, 2), (2, 3, 5), (3, 1, 7)] {
        let n = b * l;
        for m in MEMORIES {
            let row = |v: &[f64]| m.tensor(v, [b, c]);
            check(
                &format!("norm {b} {l} {c} {m:?}"),
                &[n * c, b * c, b * c, c],
                (3, 4),
                &|v| {
                    let (x, w) = (m.tensor(&v[0], [n, c]), m.tensor(&v[3], [c]));
                    to_vec(&norm::forward(&x, &w, &row(&v[1]), &row(&v[2])))
                },
                &|v, gy| {
                    let (x, w) = (m.tensor(&v[0], [n, c]), m.tensor(&v[3], [c]));
                    let gy = m.tensor(gy, [n, c]);
                    let (gx, gw, gshift, gscale) = norm::backward(&x, &w, &row(&v[2]), &gy);
                    vec![to_vec(&gx), to_vec(&gshift), to_vec(&gscale), to_vec(&gw)]
                },
                &|v, d| {
                    let (x, w) = (m.tensor(&v[0], [n, c]), m.tensor(&v[3], [c]));
                    let (dx, scale) = (m.tensor(&d[0], [n, c]), row(&v[2]));
                    to_vec(&norm::tangent(
                        &x,
                        &w,
                        &scale,
                        &dx,
                        &row(&d[1]),
                        &row(&d[2]),
                    ))
                },
            );
        }
    }
}

#[test]
fn rotary_rules() {
    for shape in [[1, 1, 1, 2], [2, 3, 5, 4], [1, 2, 3, 6]] {
        let n = shape.iter().product();
        for m in MEMORIES {
            check(
                &format!("rotary {shape:?} {m:?}"),
                &[n],
                (1, 1),
                &|v| to_vec(&rotary::forward(&m.tensor(&v[0], shape))),
                &|_, gy| vec![to_vec(&rotary::backward(&m.tensor(gy, shape)))],
                &|_, d| to_vec(&rotary::tangent(&m.tensor(&d[0], shape))),
            );
        }
    }
    // Channel 1 of 4 is paired with channel 3, and turns by l / 100.
    let x = from_slice(
        &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 3.0],
        [1, 1, 2, 4],
        &Device::flex(),
    );
    let y: Vec<f64> = to_vec(&rotary::forward(&x));
    let (sin, cos) = 0.01f64.sin_cos();
    let second = [0.0, 2.0 * cos - 3.0 * sin, 0.0, 2.0 * sin + 3.0 * cos];
    assert_close(&y[4..], &second, "turned by hand");
}

#[test]
fn attention_rules() {
    for (b, h, l, d) in [(1, 1, 1, 2), (2, 3, 5, 4), (2, 1, 3, 2)] {
        let (shape, n) = ([b, h, l, d], b * h * l * d);
        for m in MEMORIES {
            let t = |v: &[Array]| [0, 1, 2].map(|i| m.tensor(&v[i], shape));
            check(
                &format!("attention {shape:?} {m:?}"),
                &[n; 3],
                (3, 3),
                &|v| {
                    let [q, k, v] = t(v);
                    to_vec(&attention::forward(&q, &k, &v))
                },
                &|v, go| {
                    let [q, k, v] = t(v);
                    let go = m.tensor(go, shape);
                    let (gq, gk, gv) = attention::backward(&q, &k, &v, &go);
                    vec![to_vec(&gq), to_vec(&gk), to_vec(&gv)]
                },
                &|v, d| {
                    let ([q, k, v], [dq, dk, dv]) = (t(v), t(d));
                    to_vec(&attention::tangent([&q, &k, &v], [&dq, &dk, &dv]))
                },
            );
        }
        let qkv: Tensor<2> = from_slice(&noise(3, 3 * n), [b * l, 3 * h * d], &Device::flex());
        let [q, k, v] = attention::split_heads(&qkv, b, h);
        let joined: Vec<f64> = to_vec(&attention::join_heads([&q, &k, &v]));
        assert_eq!(joined, noise(3, 3 * n));
    }
}

#[test]
fn elementwise_rules() {
    let shape = [3, 5];
    for m in MEMORIES {
        let t = |v: &[f64]| m.tensor(v, shape) * 3.0;
        for gelu in [Gelu::Tanh, Gelu::Exact] {
            check(
                &format!("{gelu:?} {m:?}"),
                &[15],
                (1, 1),
                &|v| to_vec(&gelu.forward(&m.tensor(&v[0], shape))),
                &|v, gy| {
                    vec![to_vec(
                        &gelu.backward(&m.tensor(&v[0], shape), &m.tensor(gy, shape)),
                    )]
                },
                &|v, d| to_vec(&gelu.tangent(&m.tensor(&v[0], shape), &m.tensor(&d[0], shape))),
            );
        }
        check(
            &format!("silu {m:?}"),
            &[15],
            (1, 1),
            &|v| to_vec(&silu::forward(&m.tensor(&v[0], shape))),
            &|v, gy| {
                vec![to_vec(&silu::backward(
                    &m.tensor(&v[0], shape),
                    &m.tensor(gy, shape),
                ))]
            },
            &|v, d| {
                to_vec(&silu::tangent(
                    &m.tensor(&v[0], shape),
                    &m.tensor(&d[0], shape),
                ))
            },
        );
        check(
            &format!("softmax {m:?}"),
            &[15],
            (1, 1),
            &|v| to_vec(&softmax::forward(&t(&v[0]))),
            &|v, gy| {
                let p = softmax::forward(&t(&v[0]));
                vec![to_vec(&(softmax::backward(&p, &m.tensor(gy, shape)) * 3.0))]
            },
            &|v, d| {
                let p = softmax::forward(&t(&v[0]));
                to_vec(&softmax::tangent(&p, &t(&d[0])))
            },
        );
    }
}

#[test]
fn elementwise_values() {
    let x = from_slice(&[-8.0, -1.0, 0.0, 1.0, 8.0], [5], &Device::flex());
    let close = |found: Tensor<1>, expected: [f64; 5]| {
        for (a, b) in to_vec::<f64, 1>(&found).iter().zip(expected) {
            assert!((a - b).abs() < 1e-14, "{a} not {b}");
        }
    };
    let one = 0.841_344_746_068_542_9;
    close(
        Gelu::Exact.forward(&x),
        [-4.884_981_308_350_689e-15, one - 1.0, 0.0, one, 8.0],
    );
    let one = 0.841_191_990_608_276_8;
    close(Gelu::Tanh.forward(&x), [0.0, one - 1.0, 0.0, one, 8.0]);
    let (one, eight) = (0.731_058_578_630_004_9, 8.0 / (1.0 + (-8f64).exp()));
    close(silu::forward(&x), [eight - 8.0, one - 1.0, 0.0, one, eight]);
    let far = from_slice(&[-1e4, 1e4], [2], &Device::flex());
    assert_eq!(to_vec::<f64, 1>(&silu::forward(&far)), [0.0, 1e4]);
    assert_eq!(to_vec::<f64, 1>(&softmax::forward(&far)), [0.0, 1.0]);
}

#[test]
fn sinusoid_rules() {
    for features in [2, 6, FEATURES] {
        for m in MEMORIES {
            check(
                &format!("sinusoid {features} {m:?}"),
                &[3],
                (1, 0),
                &|v| to_vec(&sinusoid::forward(&m.tensor(&v[0], [3]), features)),
                &|_, _| vec![],
                &|v, d| {
                    let (s, ds) = (m.tensor(&v[0], [3]), m.tensor(&d[0], [3]));
                    to_vec(&sinusoid::tangent(&s, &ds, features))
                },
            );
        }
    }
    let s = from_slice(&[3.0], [1], &Device::flex());
    let y: Vec<f64> = to_vec(&sinusoid::forward(&s, 4));
    let expected = [3f64.cos(), 0.03f64.cos(), 3f64.sin(), 0.03f64.sin()];
    assert_close(&y, &expected, "features");
}

#[test]
fn gate_rules() {
    for (b, l, c) in [(1, 1, 1), (2, 3, 5), (3, 1, 2)] {
        let n = b * l;
        for m in MEMORIES {
            let t = |v: &[Array]| {
                let (x, h) = (m.tensor(&v[0], [n, c]), m.tensor(&v[2], [n, c]));
                (x, m.tensor(&v[1], [b, c]), h)
            };
            check(
                &format!("gate {b} {l} {c} {m:?}"),
                &[n * c, b * c, n * c],
                (3, 3),
                &|v| {
                    let (x, g, h) = t(v);
                    to_vec(&gate::forward(&x, &g, &h))
                },
                &|v, gy| {
                    let (_, g, h) = t(v);
                    let (gx, gg, gh) = gate::backward(&g, &h, &m.tensor(gy, [n, c]));
                    vec![to_vec(&gx), to_vec(&gg), to_vec(&gh)]
                },
                &|v, d| {
                    let ((_, g, h), (dx, dg, dh)) = (t(v), t(d));
                    to_vec(&gate::tangent(&g, &h, &dx, &dg, &dh))
                },
            );
        }
    }
}

const STEPS: [Step; 3] = [Step::None, Step::Trunk, Step::Correction { width: 5 }];
const TIMES: [TimeInput; 3] = [
    TimeInput::Zero,
    TimeInput::Time,
    TimeInput::Sigma { eps: 1e-3 },
];
/// The last pair has `r = t`.
const T: [f64; 3] = [0.3, 0.8, 0.55];
const R: [f64; 3] = [0.7, 1.0, 0.55];

fn config(heads: usize, step: Step, time: TimeInput) -> Config {
    Config {
        vocabulary: 7,
        length: 5,
        width: 4 * heads,
        blocks: 2,
        heads,
        conditioning: 3,
        mask: Some(6),
        time,
        step,
        sight: Sight::Whole,
        positions: Positions::Line,
    }
}

/// Every tensor random, also those that start as zeros, at a size that keeps activations near 1.
fn parameters(config: &Config) -> Vec<f64> {
    let layout = Layout::new(config);
    let mut flat = noise(9, layout.len());
    for tensor in &layout.tensors {
        let inner = *tensor.shape.last().unwrap() as f64;
        let size = if tensor.shape.len() == 2 {
            (3.0 / inner).sqrt()
        } else {
            0.5
        };
        for value in &mut flat[tensor.range.clone()] {
            *value *= size;
        }
    }
    flat
}

fn dit(config: &Config, flat: &[f64]) -> Dit {
    Dit::from_parameters(config.clone(), flat, &Device::flex(), FloatDType::F64).unwrap()
}

/// `B = 3` sequences of `length` symbols.
fn symbols(length: usize) -> Vec<usize> {
    (0..3 * length).map(|i| (i * i + 2 * i) % 7).collect()
}

#[test]
fn whole_network_derivatives() {
    for step in STEPS {
        for time in TIMES {
            for (heads, length) in [(2, 4), (1, 1)] {
                derivatives(&config(heads, step, time), length);
            }
        }
    }
}

fn derivatives(config: &Config, length: usize) {
    const H: f64 = 1e-5;
    let what = format!("{:?} {:?} length {length}", config.step, config.time);
    let flat = parameters(config);
    let x = symbols(length);
    let gain = 1.3;
    let logits = |flat: &[f64], shift: f64| -> Vec<f64> {
        let net = Dit {
            gain,
            ..dit(config, flat)
        };
        to_vec(&net.forward(&x, &T.map(|t| t + shift), &R).logits)
    };

    let net = Dit {
        gain,
        ..dit(config, &flat)
    };
    let (value, tangent) = net.dual(&x, &T, &R);
    let expected: Vec<f64> = (logits(&flat, H).iter().zip(logits(&flat, -H)))
        .map(|(a, b)| (a - b) / (2.0 * H))
        .collect();
    assert_close(&to_vec::<f64, 2>(&tangent), &expected, &what);
    assert_eq!(to_vec::<f64, 2>(&value), logits(&flat, 0.0));

    let g = noise(5, x.len() * config.vocabulary);
    let pass = net.forward(&x, &T, &R);
    let gradient: Vec<f64> = net.backward(&pass, &from_slice(&g, value.dims(), &Device::flex()));
    assert_eq!(gradient.len(), flat.len());
    let loss = |flat: &[f64]| -> f64 {
        let y = logits(flat, 0.0);
        y.iter().zip(&g).map(|(y, g)| y * g).sum()
    };
    for tensor in &Layout::new(config).tensors {
        let range = tensor.range.clone();
        let picks = [range.start, range.start + range.len() / 3, range.end - 1];
        let expected = picks.map(|i| {
            let moved = |h: f64| {
                let mut flat = flat.clone();
                flat[i] += h;
                loss(&flat)
            };
            (moved(H) - moved(-H)) / (2.0 * H)
        });
        let what = format!("{what}: {}", tensor.name);
        assert_close(&picks.map(|i| gradient[i]), &expected, &what);
    }
}

#[test]
fn correction_starts_at_zero() {
    for time in TIMES {
        let base = config(2, Step::None, time);
        let corrected = config(2, Step::Correction { width: 5 }, time);
        let mut flat = parameters(&corrected);
        let layout = Layout::new(&corrected);
        let down = &layout.correction.as_ref().unwrap().down;
        flat[down.weight.clone()].fill(0.0);
        flat[down.bias.clone()].fill(0.0);
        let x = symbols(4);
        let both = [
            dit(&base, &flat[..Layout::new(&base).len()]).dual(&x, &T, &R),
            dit(&corrected, &flat).dual(&x, &T, &R),
        ];
        let [(a, da), (b, db)] = both.map(|(y, dy)| (to_vec::<f64, 2>(&y), to_vec::<f64, 2>(&dy)));
        assert_eq!(a, b);
        assert_eq!(da, db);
    }
}

#[test]
fn correction_vanishes_at_the_boundary() {
    let config = config(2, Step::Correction { width: 5 }, TimeInput::Time);
    let base = Config {
        step: Step::None,
        sight: Sight::Whole,
        positions: Positions::Line,
        ..config.clone()
    };
    let flat = parameters(&config);
    let x = symbols(4);
    let a = dit(&base, &flat[..Layout::new(&base).len()]).forward(&x, &T, &R);
    let b = dit(&config, &flat).forward(&x, &T, &T);
    assert_eq!(to_vec::<f64, 2>(&a.logits), to_vec::<f64, 2>(&b.logits));
    let mut net = dit(&config, &flat);
    let moved = to_vec::<f64, 2>(&net.forward(&x, &T, &R).logits);
    assert_ne!(to_vec::<f64, 2>(&a.logits), moved);
    net.gain = 0.0;
    let c = net.forward(&x, &T, &R);
    assert_eq!(to_vec::<f64, 2>(&a.logits), to_vec::<f64, 2>(&c.logits));
}

/// The network once more for one sequence, in loops over plain vectors.
fn by_loops(config: &Config, flat: &[f64], x: &[usize], t: f64, r: f64) -> Vec<f64> {
    let layout = Layout::new(config);
    let tensor = |name: &str| {
        let tensor = layout.tensors.iter().find(|tensor| tensor.name == name);
        tensor.map(|tensor| &flat[tensor.range.clone()])
    };
    let linear = |name: &str, x: &[f64]| -> Vec<f64> {
        let weight = tensor(&format!("{name}.weight")).unwrap();
        let mut y: Vec<f64> = (weight.chunks(x.len()))
            .map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum())
            .collect();
        if let Some(bias) = tensor(&format!("{name}.bias")) {
            y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
        y
    };
    let silu = |x: Vec<f64>| -> Vec<f64> { x.iter().map(|x| x / (1.0 + (-x).exp())).collect() };
    let gelu = |x: Vec<f64>| -> Vec<f64> {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let one = |x: &f64| 0.5 * x * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh());
        x.iter().map(one).collect()
    };
    let map = |name: &str, s: f64| {
        let angle = |j: usize| s * 10_000f64.powf(-(j as f64) / 128.0);
        let cos = (0..128).map(|j| angle(j).cos());
        let f: Vec<f64> = cos.chain((0..128).map(|j| angle(j).sin())).collect();
        linear(
            &format!("{name}.mlp.2"),
            &silu(linear(&format!("{name}.mlp.0"), &f)),
        )
    };
    let norm = |name: &str, x: &[f64], shift: &[f64], scale: &[f64]| -> Vec<f64> {
        let w = tensor(name).unwrap();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        (0..x.len())
            .map(|i| (x[i] - mean) / (variance + 1e-5).sqrt() * w[i] * (1.0 + scale[i]) + shift[i])
            .collect()
    };
    let time = match config.time {
        TimeInput::Zero => 0.0,
        TimeInput::Time => t,
        TimeInput::Sigma { eps } => -(eps + (1.0 - eps) * t).ln(),
    };
    let e_t = map("sigma_map", time);
    let both = |e_t: &[f64]| -> Vec<f64> {
        let e_r = map("step_map", r - t);
        e_t.iter().zip(e_r).map(|(a, b)| a + b).collect()
    };
    let c = silu(if config.step == Step::Trunk {
        both(&e_t)
    } else {
        e_t.clone()
    });

    let (width, d) = (config.width, config.head_width());
    let table = tensor("vocab_embed.embedding").unwrap();
    let mut h: Vec<Vec<f64>> = (x.iter())
        .map(|&id| table[id * width..][..width].to_vec())
        .collect();
    for i in 0..config.blocks {
        let name = |part: &str| format!("blocks.{i}.{part}");
        let m = linear(&name("adaLN_modulation"), &c);
        let m: Vec<&[f64]> = m.chunks(width).collect();
        let qkv: Vec<Vec<f64>> = (h.iter())
            .map(|x| {
                linear(
                    &name("attn_qkv"),
                    &norm(&name("norm1.weight"), x, m[0], m[1]),
                )
            })
            .collect();
        // Channel j of head `head` of the query (part 0) or key (part 1) at position l, turned.
        let turned = |l: usize, part: usize, head: usize, j: usize| {
            let at = |j: usize| qkv[l][part * width + head * d + j];
            let angle = l as f64 * 10_000f64.powf(-2.0 * (j % (d / 2)) as f64 / d as f64);
            if j < d / 2 {
                at(j) * angle.cos() - at(j + d / 2) * angle.sin()
            } else {
                at(j) * angle.cos() + at(j - d / 2) * angle.sin()
            }
        };
        for l in 0..h.len() {
            let mut o = vec![0.0; width];
            for head in 0..config.heads {
                let fit = |k: usize| {
                    let dot = (0..d).map(|j| turned(l, 0, head, j) * turned(k, 1, head, j));
                    (dot.sum::<f64>() / (d as f64).sqrt()).exp()
                };
                let fits: Vec<f64> = (0..qkv.len()).map(fit).collect();
                let total: f64 = fits.iter().sum();
                for j in 0..d {
                    let value = |k: usize| fits[k] / total * qkv[k][2 * width + head * d + j];
                    o[head * d + j] = (0..qkv.len()).map(value).sum();
                }
            }
            let o = linear(&name("attn_out"), &o);
            for j in 0..width {
                h[l][j] += m[2][j] * o[j];
            }
        }
        for x in &mut h {
            let z = norm(&name("norm2.weight"), x, m[3], m[4]);
            let y = linear(&name("mlp.2"), &gelu(linear(&name("mlp.0"), &z)));
            for j in 0..width {
                x[j] += m[5][j] * y[j];
            }
        }
    }

    let m = linear("output_layer.adaLN_modulation", &c);
    let logits = h.iter().flat_map(|h| {
        let mut y = norm(
            "output_layer.norm_final.weight",
            h,
            &m[..width],
            &m[width..],
        );
        if let Step::Correction { .. } = config.step {
            let m = linear("correction.adaLN_modulation", &silu(both(&e_t)));
            let z = norm("correction.norm.weight", h, &m[..width], &m[width..]);
            let delta = linear("correction.mlp.2", &gelu(linear("correction.mlp.0", &z)));
            y.iter_mut().zip(delta).for_each(|(y, v)| *y += (r - t) * v);
        }
        linear("output_layer.linear", &y)
    });
    logits.collect()
}

#[test]
fn whole_network_equals_plain_loops() {
    for step in STEPS {
        for time in TIMES {
            let config = config(3, step, time);
            let flat = parameters(&config);
            let x = symbols(5);
            let found: Vec<f64> = to_vec(&dit(&config, &flat).forward(&x, &T, &R).logits);
            let expected: Vec<f64> = (0..3)
                .flat_map(|b| by_loops(&config, &flat, &x[b * 5..][..5], T[b], R[b]))
                .collect();
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-12, "{step:?} {time:?}: {a} not {b}");
            }

            let single: Vec<f32> = flat.iter().map(|&v| v as f32).collect();
            let device = Device::flex();
            let net = Dit::from_parameters(config, &single, &device, FloatDType::F32).unwrap();
            let rounded: Vec<f32> = to_vec(&net.forward(&x, &T, &R).logits);
            for (a, b) in rounded.iter().zip(&expected) {
                assert!((f64::from(*a) - b).abs() < 1e-4, "f32: {a} not {b}");
            }
        }
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let config = config(2, Step::None, TimeInput::Zero);
    let error = Dit::from_parameters(config, &[0f32; 3], &Device::flex(), FloatDType::F32);
    assert!(error.unwrap_err().to_string().contains("parameters, not 3"));
}

#[test]
fn the_cpu_is_a_device() {
    let devices = devices();
    assert_eq!(devices[0], ("cpu".to_owned(), Device::flex()));
}
