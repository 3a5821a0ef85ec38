//! The fused layers against the plain reference and against central differences: values,
//! gradients and derivatives in `t`, in both precisions, over sizes that fill no panel; then the
//! whole network. How far apart they are is printed with `--nocapture`.
#![cfg(feature = "burn")]
#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::fmt::Debug;

use burn::tensor::{Device, Element, FloatDType, Tensor};
use fewstep_nn::dit::{Config, Dit, Layout, Pass, Step, TimeInput};
use fewstep_nn::kernel::{View, matmul};
use fewstep_nn::layers::{attention, gate::Gate, gelu, norm, rotary};
use fewstep_nn::reference::{self as plain, Gelu, chunks, from_slice, to_vec};
use fewstep_nn::{self as nn, Adaptation, Batch, Gradient, Learner, Network, Real, Rows, Want};

trait Scalar: Real + Element {}
impl Scalar for f32 {}
impl Scalar for f64 {}

/// Inputs of a layer, their derivatives in `t`, and the gradient in its output.
type Point<T> = [Vec<Vec<T>>; 3];
/// Fused and plain: the value, the tangent, and the gradient in each input.
type Pairs<T> = Vec<[Vec<T>; 2]>;
/// A layer at a shape.
type Layer<S, T> = fn(S, &Point<T>) -> Pairs<T>;

/// `n` numbers below `size` that look random.
fn noise(seed: usize, size: f64, n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 7919 + seed * 104_729 + 1) as f64 * 12.9898).sin() * 43_758.545_3)
        .map(|v| size * (2.0 * (v - v.floor()) - 1.0))
        .collect()
}

fn of<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::of(v)).collect()
}

fn tensor<T: Scalar, const D: usize>(values: &[T], shape: [usize; D]) -> Tensor<D> {
    from_slice(values, shape, &Device::flex())
}

fn pair<T: Scalar, const D: usize>(fused: Vec<T>, plain: &Tensor<D>) -> [Vec<T>; 2] {
    [fused, to_vec(plain)]
}

/// The largest difference, relative to the largest entry or to one.
fn compare<T: Real>(found: &[T], expected: &[T], tolerance: f64, what: &str) -> f64 {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1f64, |m, v| m.max(v.widen().abs()));
    let pairs = found.iter().zip(expected).enumerate();
    pairs.fold(0.0, |worst, (i, (a, b))| {
        let apart = (a.widen() - b.widen()).abs() / size;
        assert!(apart <= tolerance, "{what}[{i}]: {a:?} not {b:?}");
        worst.max(apart)
    })
}

fn compare_all<T: Scalar>(pairs: &Pairs<T>, tolerance: f64, what: &str) -> f64 {
    let parts = ["value", "tangent", "gradient 0", "gradient 1", "gradient 2"];
    let apart = pairs.iter().zip(parts).map(|([fused, plain], part)| {
        let what = format!("{what} {:?} {part}", T::dtype());
        compare(fused, plain, tolerance, &what)
    });
    apart.fold(0.0, f64::max)
}

/// A layer at all its shapes. `sizes` has the entries of the inputs, then of the output, and how
/// many inputs, the first ones, move with `t`; `size` bounds the inputs.
fn check<S: Copy + Debug>(
    (layer, wide, narrow): (&str, Layer<S, f64>, Layer<S, f32>),
    sizes: fn(S) -> (Vec<usize>, usize),
    size: f64,
    shapes: &[S],
) {
    for &shape in shapes {
        let (mut sizes, moving) = sizes(shape);
        let gy = vec![noise(90, 1.0, sizes.pop().unwrap())];
        let inputs = [(1, size), (50, 1.0), (70, 1.0)];
        let [x, mut dx, along]: Point<f64> = inputs.map(|(seed, size)| {
            let arrays = sizes.iter().enumerate();
            arrays.map(|(i, &n)| noise(seed + i, size, n)).collect()
        });
        dx[moving..].iter_mut().for_each(|d| d.fill(0.0));
        let (name, point) = (format!("{layer} {shape:?}"), [x, dx, gy]);
        let pairs = wide(shape, &point);
        let a = compare_all(&pairs, 1e-10, &name);
        let rounded = point.each_ref().map(|v| v.iter().map(|v| of(v)).collect());
        let b = compare_all(&narrow(shape, &rounded), 2e-5, &name);

        // The fused rules alone: the tangent, and all gradients in one direction.
        let slope = |direction: &Vec<Vec<f64>>| -> Vec<f64> {
            let [up, down] = [1e-5, -1e-5].map(|h| {
                let mut at = point.clone();
                for (x, d) in at[0].iter_mut().zip(direction) {
                    x.iter_mut().zip(d).for_each(|(x, d)| *x += h * d);
                }
                wide(shape, &at)[0][0].clone()
            });
            up.iter().zip(&down).map(|(a, b)| (a - b) / 2e-5).collect()
        };
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let what = format!("{name} difference");
        let tangent = compare(&pairs[1][0], &slope(&point[1]), 1e-7, &what);
        let gradients = along.iter().zip(&pairs[2..]);
        let found = gradients.map(|(d, [g, _])| dot(d, g)).sum();
        let expected = dot(&slope(&along), &point[2][0]);
        let c = tangent.max(compare(&[found], &[expected], 1e-7, &what));
        println!("{name}: f64 {a:.1e}, f32 {b:.1e}, differences {c:.1e}");
    }
}

/// `x W^T` of `x` and `W`, all operands transposed in memory or not, their lines apart by a gap in
/// which nothing may be read.
fn linear<T: Scalar>([n, i, o, flip, gap]: [usize; 5], [x, dx, gy]: &Point<T>) -> Pairs<T> {
    let all = [(&x[0], [n, i]), (&x[1], [o, i]), (&dx[0], [n, i])];
    let [px, pw, pdx] = all.map(|(values, shape)| tensor(values, shape));
    let pgy = tensor(&gy[0], [n, o]);
    let between = vec![T::of(f64::NAN); gap];
    let laid = [&px, &pw, &pdx, &pgy].map(|matrix| {
        let matrix = matrix.clone().permute([flip as isize, 1 - flip as isize]);
        let (values, [m, n]) = (to_vec::<T, 2>(&matrix), matrix.dims());
        let lines = values.chunks_exact(n);
        let data = lines.flat_map(|line| [line, &between].concat());
        (data.collect::<Vec<T>>(), (m, n))
    });
    let [x, w, dx, gy] = laid.each_ref().map(|(data, shape)| {
        let view = View::strided(data, *shape, shape.1 + gap);
        if flip == 1 { view.t() } else { view }
    });
    let product = |a: View<T>, b: View<T>| {
        let mut c = vec![T::of(f64::NAN); a.rows() * b.cols()];
        matmul(a, b, &mut c, false);
        c
    };
    let (pgx, pgw, _) = plain::linear::backward(&px, &pw, &pgy);
    vec![
        pair(product(x, w.t()), &plain::linear::forward(&px, &pw, None)),
        pair(product(dx, w.t()), &plain::linear::tangent(&pw, &pdx)),
        pair(product(gy, w), &pgx),
        pair(product(gy.t(), x), &pgw),
    ]
}

/// A branch without its middle: `x + gate (norm(x; shift, scale) + bias)` of `x`, the modulation,
/// and weight and bias.
fn branch<T: Scalar>([b, l, c]: [usize; 3], [x, dx, gy]: &Point<T>) -> Pairs<T> {
    let (weight, bias) = x[2].split_at(c);
    let norm = norm::Norm {
        weight,
        modulation: &x[1],
        stride: 3 * c,
        at: 0,
        length: l,
        eps: norm::EPS,
    };
    let gate = Gate {
        modulation: &x[1],
        stride: 3 * c,
        at: 2 * c,
        length: l,
        channels: c,
    };
    let [mut h, mut dh, mut gh] = [(); 3].map(|()| vec![T::default(); b * l * c]);
    let mut stats = vec![norm::Stats::default(); b * l];
    let (mut y, mut dy, mut gx) = (x[0].clone(), dx[0].clone(), gy[0].clone());
    norm.forward(&x[0], &mut h, &mut stats);
    norm.tangent((&x[0], &stats), (&dx[0], &dx[1]), &mut dh);
    gate.forward(&mut h, Some(bias), &mut y);
    gate.tangent(&h, (&dh, &dx[1]), &mut dy);
    let (mut gm, mut gw) = (vec![T::of(7.0); 3 * b * c], vec![T::default(); 2 * c]);
    let (gweight, gbias) = gw.split_at_mut(c);
    gate.backward(&h, &gy[0], &mut gh, &mut gm, Some(gbias));
    norm.backward((&x[0], &stats), &gh, &mut gx, &mut gm, gweight);

    let [px, pdx, pgy] = [&x[0], &dx[0], &gy[0]].map(|v| tensor(v, [b * l, c]));
    let [[shift, scale, g], [dshift, dscale, dg]] =
        [x, dx].map(|v| chunks(&tensor(&v[1], [b, 3 * c])));
    let (weight, bias) = (tensor(weight, [c]), tensor(bias, [1, c]));
    let ph = plain::norm::forward(&px, &weight, &shift, &scale) + bias;
    let pdh = plain::norm::tangent(&px, &weight, &scale, &pdx, &dshift, &dscale);
    let (residual, gg, pgh) = plain::gate::backward(&g, &ph, &pgy);
    let (pgx, pgw, gshift, gscale) = plain::norm::backward(&px, &weight, &scale, &pgh);
    let pgb = pgh.sum_dim(0).squeeze_dim(0);
    vec![
        pair(y, &plain::gate::forward(&px, &g, &ph)),
        pair(dy, &plain::gate::tangent(&g, &ph, &pdx, &dg, &pdh)),
        pair(gx, &(residual + pgx)),
        pair(gm, &Tensor::cat(vec![gshift, gscale, gg], 1)),
        pair(gw, &Tensor::cat(vec![pgw, pgb], 0)),
    ]
}

/// Layers whose Jacobian is symmetric.
fn curve<T: Scalar>((which, [n, s]): (&str, [usize; 2]), [x, dx, gy]: &Point<T>) -> Pairs<T> {
    let (mut y, mut both) = (x[0].clone(), [dx[0].clone(), gy[0].clone()]);
    let [px, pdx, pgy] = [&x[0], &dx[0], &gy[0]].map(|v| tensor(v, [n, s]));
    let [pdy, pgx, py];
    match which {
        "silu" => {
            let mut slope = y.clone();
            nn::silu::forward(&mut y, &mut slope);
            both.iter_mut().for_each(|v| nn::silu::chain(&slope, v));
            py = plain::silu::forward(&px);
            pdy = plain::silu::tangent(&px, &pdx);
            pgx = plain::silu::backward(&px, &pgy);
        }
        "softmax" => {
            for row in y.chunks_exact_mut(s) {
                let lse = nn::softmax::log_sum_exp(row);
                assert_eq!(nn::softmax::in_place(row), lse);
            }
            for v in &mut both {
                for (v, p) in v.chunks_exact_mut(s).zip(y.chunks_exact(s)) {
                    let mean = T::of(nn::softmax::mean(p, v));
                    v.iter_mut().zip(p).for_each(|(v, p)| *v = *p * (*v - mean));
                }
            }
            py = plain::softmax::forward(&px);
            pdy = plain::softmax::tangent(&py, &pdx);
            pgx = plain::softmax::backward(&py, &pgy);
        }
        _ => {
            let (form, reference) = match which {
                "gelu, exact" => (gelu::Form::Exact, Gelu::Exact),
                _ => (gelu::Form::Tanh, Gelu::Tanh),
            };
            let (mut u, mut again) = (x[0].clone(), x[0].clone());
            gelu::forward(form, &mut u, &vec![T::of(0.3); s], &mut y);
            gelu::value(form, &u, &mut again);
            assert_eq!(y, again);
            both.iter_mut().for_each(|v| gelu::chain(form, &u, v));
            let pu = px + 0.3;
            py = reference.forward(&pu);
            pdy = reference.tangent(&pu, &pdx);
            pgx = reference.backward(&pu, &pgy);
        }
    }
    let [dy, gx] = both;
    vec![pair(y, &py), pair(dy, &pdy), pair(gx, &pgx)]
}

/// Rows `[B L, 3 C]` taken apart into turned heads, their attention, and the heads side by side.
fn attend<T: Scalar>([b, h, l, d]: [usize; 4], [x, dx, gy]: &Point<T>) -> Pairs<T> {
    let (n, angles) = (b * h * l * d, rotary::Angles::new(l + 3, d));
    let shape = attention::Shape {
        heads: b * h,
        length: l,
        queries: l,
        width: d,
        causal: false,
    };
    let [q, dq] = [x, dx].map(|v| {
        let mut parts = [(); 3].map(|()| vec![T::default(); n]);
        let [q, k, v_] = &mut parts;
        rotary::split(&angles, (l, h), &v[0], [q, k, v_]);
        parts
    });
    let [q, dq] = [&q, &dq].map(|parts| parts.each_ref().map(|part| &part[..]));
    let [mut o, mut go, mut y, mut dy] = [(); 4].map(|()| vec![T::default(); n]);
    let (mut lse, mut gx) = (vec![T::default(); b * h * l], vec![T::default(); 3 * n]);
    attention::forward(shape, q, &mut o, &mut lse);
    rotary::merge((l, h, d), &o, &mut y);
    attention::tangent(shape, q, dq, (&o, &lse), &mut go);
    rotary::merge((l, h, d), &go, &mut dy);
    rotary::divide((l, h, d), &gy[0], &mut go);
    let [mut gq, mut gk, mut gv] = [(); 3].map(|()| vec![T::of(7.0); n]);
    attention::backward(shape, q, (&o, &lse), &go, [&mut gq, &mut gk, &mut gv]);
    rotary::join(&angles, (l, h), [&gq, &gk, &gv], &mut gx);

    use plain::attention::{backward, forward, from_heads, join_heads, tangent, to_heads};
    let [[q, k, v], [dq, dk, dv]] = [x, dx].map(|rows| {
        let rows = tensor(&rows[0], [b * l, 3 * h * d]);
        let [q, k, v] = plain::attention::split_heads(&rows, b, h);
        [plain::rotary::forward(&q), plain::rotary::forward(&k), v]
    });
    let go = to_heads(&tensor(&gy[0], [b * l, h * d]), b, h);
    let (gq, gk, gv) = backward(&q, &k, &v, &go);
    let (gq, gk) = (plain::rotary::backward(&gq), plain::rotary::backward(&gk));
    vec![
        pair(y, &from_heads(&forward(&q, &k, &v))),
        pair(dy, &from_heads(&tangent([&q, &k, &v], [&dq, &dk, &dv]))),
        pair(gx, &join_heads([&gq, &gk, &gv])),
    ]
}

#[test]
fn products() {
    let sizes = |[n, i, o, ..]: [usize; 5]| (vec![n * i, o * i, n * o], 1);
    for [n, i] in [[1, 1], [5, 3], [31, 65], [3, 3100], [33, 17]] {
        for [flip, gap] in [[0, 0], [1, 0], [0, 5], [1, 3]] {
            let shapes = [1, 7, 32, 65].map(|o| [n, i, o, flip, gap]);
            check(("linear", linear, linear), sizes, 1.0, &shapes);
        }
    }
}

#[test]
fn branches() {
    let sizes = |[b, l, c]: [usize; 3]| (vec![b * l * c, 3 * b * c, 2 * c, b * l * c], 2);
    for l in [1, 5, 31, 33, 65] {
        let shapes = [[1, l, 5], [3, l, 7], [2, l, 16], [1, l, 33]];
        check(("branch", branch, branch), sizes, 1.0, &shapes);
    }
}

#[test]
fn curves() {
    let sizes = |(_, [n, s]): (_, [usize; 2])| (vec![n * s; 2], 1);
    for which in ["silu", "softmax", "gelu, tanh", "gelu, exact"] {
        let shapes = [[1, 1], [3, 2], [5, 31], [2, 33], [65, 700]].map(|shape| (which, shape));
        check(("curve", curve, curve), sizes, 5.0, &shapes);
    }
}

#[test]
fn attention_of_turned_heads() {
    let sizes = |[b, h, l, d]: [usize; 4]| (vec![3 * b * h * l * d, b * h * l * d], 1);
    for l in [1, 5, 31, 32, 33, 65] {
        let shapes = [[1, 1, l, 2], [2, 3, l, 6], [1, 2, l, 32], [1, 1, l, 64]];
        check(("attention", attend, attend), sizes, 1.0, &shapes);
        check(("attention, sharp", attend, attend), sizes, 3.0, &shapes);
    }
}

/// Logits, derivatives and all gradients, of everything and of the correction alone.
fn whole<T: Scalar>(config: &Config, [b, l]: [usize; 2], dtype: FloatDType, tolerance: f64) -> f64 {
    let (v, layout, device) = (config.vocabulary, Layout::new(config), Device::flex());
    // Every tensor random, also those that start as zeros, and activations near 1.
    let tensors = layout.tensors.iter().enumerate().flat_map(|(i, tensor)| {
        let inner = *tensor.shape.get(1).unwrap_or(&12) as f64;
        noise(i, (3.0 / inner).sqrt(), tensor.range.len())
    });
    let flat: Vec<T> = tensors.map(T::of).collect();
    let x: Vec<usize> = (0..b * l).map(|i| (i * i + 2 * i) % v).collect();
    // The second step has no length.
    let (t, r) = (&[0.3, 0.8, 0.55][..b], &[0.7, 0.8, 1.0][..b]);
    let glogits = of::<T>(&noise(5, 1.0, b * l * v));

    let mut reference = plain::Dit::from_parameters(config.clone(), &flat, &device, dtype).unwrap();
    reference.gain = 1.3;
    let kept = reference.forward(&x, t, r);
    let dlogits: Vec<T> = to_vec(&reference.tangent(&kept));
    let expected: Vec<T> = reference.backward(&kept, &tensor(&glogits, [b * l, v]));

    let mut net = Dit::from_parameters(config.clone(), flat).unwrap();
    net.gain = 1.3;
    let (all, moving) = ((0..b * l).collect::<Vec<_>>(), b.div_ceil(2));
    let (mut pass, mut worst) = (Pass::default(), 0f64);
    let mut near = |found: &[T], expected: &[T], what: &str| {
        let what = format!("{config:?}, {b} of {l}, {dtype:?}: {what}");
        worst = worst.max(compare(found, expected, tolerance, &what));
    };
    for adaptation in [Adaptation::Full, Adaptation::Head] {
        let back = Some(adaptation);
        net.evaluate(
            Batch { x: &x, t, r },
            Want {
                moving,
                back,
                ..Want::default()
            },
            &mut pass,
        );
        let logits = net.visit(&pass, Rows::plain(&all), |_, row| row.value.to_vec());
        near(&logits.concat(), &to_vec(&kept.logits), "logits");
        let mut rows = Rows::plain(&all[..moving * l]);
        rows.tangent = true;
        let tangents = net.visit(&pass, rows, |_, row| row.tangent.to_vec());
        near(&tangents.concat(), &dlogits[..moving * l * v], "d/dt");

        let first = net.trainable(adaptation).start;
        let mut gradient = Gradient {
            data: &mut vec![T::of(f64::NAN); layout.len() - first],
            adaptation,
            accumulate: false,
        };
        let answer = |i, row: nn::Logits<T>| row.value.copy_from_slice(&glogits[i * v..][..v]);
        net.descend(&mut pass, Rows::plain(&all), answer, &mut gradient);
        net.backward(&mut pass, &mut gradient);
        for at in layout.tensors.iter().filter(|at| at.range.start >= first) {
            let found = &gradient.data[at.range.start - first..at.range.end - first];
            let what = format!("{adaptation:?} {}", at.name);
            near(found, &expected[at.range.clone()], &what);
        }
    }
    worst
}

#[test]
fn the_whole_network() {
    let sigma = TimeInput::Sigma { eps: 1e-3 };
    for [b, heads, l, d] in [[1, 1, 1, 2], [3, 2, 5, 6], [2, 1, 33, 32], [1, 1, 65, 64]] {
        for step in [Step::None, Step::Trunk, Step::Correction { width: 37 }] {
            for time in [TimeInput::Zero, TimeInput::Time, sigma] {
                let config = Config {
                    width: heads * d,
                    blocks: 2,
                    heads,
                    conditioning: 9,
                    time,
                    step,
                    ..Config::named("tiny", 37).unwrap()
                };
                let wide = whole::<f64>(&config, [b, l], FloatDType::F64, 1e-9);
                let narrow = whole::<f32>(&config, [b, l], FloatDType::F32, 2e-4);
                println!("{b} of {l}, {config:?}: f64 {wide:.1e}, f32 {narrow:.1e}");
            }
        }
    }
}
