//! What is asked of a layer at a few rows, or at once with something else, is what it says at all of them,
//! or one after the other.
#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep_nn::{
    Real,
    layers::{
        attention::{self, Shape},
        gelu,
    },
};

fn noise<T: Real>(seed: usize, n: usize) -> Vec<T> {
    (0..n)
        .map(|i| T::of(((i * 7919 + seed * 104_729 + 1) as f64 * 12.9898).sin()))
        .collect()
}

fn close<T: Real>(found: &[T], expected: &[T], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let apart = (a.widen() - b.widen()).abs();
        assert!(apart <= tolerance, "{what}[{i}]: {a:?} not {b:?}");
    }
}

/// Attention about some positions: values, tangents and all gradients, which those of all positions have when
/// nothing comes back to the others.
fn few_queries<T: Real>(tolerance: f64) {
    let (heads, length, width) = (3, 71, 16);
    let asked: Vec<usize> = (0..length).filter(|i| i % 3 == 1 || *i > 66).collect();
    let all = Shape {
        heads,
        length,
        queries: length,
        width,
        causal: false,
    };
    let few = Shape {
        queries: asked.len(),
        ..all
    };
    let n = heads * length * width;
    let [q, k, v, dq, dk, dv, go] = std::array::from_fn(|seed| noise::<T>(seed, n));
    // Numbers `each` to a position of every head.
    let at = |of: &[T], each: usize| -> Vec<T> {
        let heads = of.chunks(length * each);
        let rows = heads.flat_map(|head| asked.iter().map(move |i| &head[i * each..][..each]));
        rows.flatten().copied().collect()
    };
    let zero = |n: usize| vec![T::of(0.0); n];
    let m = heads * asked.len() * width;
    let (mut o, mut lse) = (zero(n), zero(n / width));
    attention::forward(all, [&q, &k, &v], &mut o, &mut lse);
    let (some_q, some_dq) = (at(&q, width), at(&dq, width));
    let (mut some_o, mut some_lse) = (zero(m), zero(m / width));
    attention::forward(few, [&some_q, &k, &v], &mut some_o, &mut some_lse);
    close(&some_o, &at(&o, width), tolerance, "values");
    close(&some_lse, &at(&lse, 1), tolerance, "sums");

    let (mut moved, mut some_moved) = (zero(n), zero(m));
    attention::tangent(all, [&q, &k, &v], [&dq, &dk, &dv], (&o, &lse), &mut moved);
    let (primal, tangent) = ([&some_q[..], &k, &v], [&some_dq[..], &dk, &dv]);
    attention::tangent(few, primal, tangent, (&some_o, &some_lse), &mut some_moved);
    close(&some_moved, &at(&moved, width), tolerance, "tangents");

    // Nothing comes back to the positions that were not asked about.
    let mut masked = go.clone();
    for (i, g) in masked.iter_mut().enumerate() {
        if !asked.contains(&(i / width % length)) {
            *g = T::of(0.0);
        }
    }
    let [mut gq, mut gk, mut gv] = [(); 3].map(|()| zero(n));
    let gradient = [&mut gq[..], &mut gk, &mut gv];
    attention::backward(all, [&q, &k, &v], (&o, &lse), &masked, gradient);
    let (mut some_gq, [mut some_gk, mut some_gv]) = (zero(m), [(); 2].map(|()| zero(n)));
    let gradient = [&mut some_gq[..], &mut some_gk, &mut some_gv];
    let go = at(&go, width);
    attention::backward(few, primal, (&some_o, &some_lse), &go, gradient);
    close(&some_gq, &at(&gq, width), tolerance, "gradient of queries");
    close(&some_gk, &gk, tolerance, "gradient of keys");
    close(&some_gv, &gv, tolerance, "gradient of values");
    let size = |g: &[T]| g.iter().map(|g| g.widen().abs()).sum::<f64>();
    assert!([&gq, &gk, &gv].iter().all(|g| size(g) > 1.0));
}

#[test]
fn attention_about_some_positions() {
    few_queries::<f64>(1e-13);
    few_queries::<f32>(2e-6);
}

/// GELU and its slope at once are the two one after the other, bit for bit.
#[test]
fn gelu_with_its_slope() {
    let (rows, width) = (301, 37);
    for form in [gelu::Form::Tanh, gelu::Form::Exact] {
        let (u, bias) = (noise::<f32>(1, rows * width), noise::<f32>(2, width));
        let v = noise::<f32>(3, rows * width);
        let (mut first, mut out, mut slope) = (u.clone(), vec![0.0; u.len()], v.clone());
        gelu::forward(form, &mut first, &bias, &mut out);
        gelu::chain(form, &first, &mut slope);
        let (mut second, mut out_at_once, mut slope_at_once) = (u, vec![0.0; out.len()], v);
        gelu::forward_chain(
            form,
            &mut second,
            &bias,
            &mut out_at_once,
            &mut slope_at_once,
        );
        assert_eq!((first, out, slope), (second, out_at_once, slope_at_once));
    }
}
