//! The affine layer `y = a W + b`, `a [R, I]`, `W [I, O]`, `b [O]`, `y [R, O]`.

use crate::{
    Real,
    kernel::{View, matmul_here},
};

/// `y = a W + b`.
pub fn forward<T: Real>(a: &[T], w: &[T], b: &[T], y: &mut [T]) {
    for row in y.chunks_exact_mut(b.len()) {
        row.copy_from_slice(b);
    }
    multiply(a, w, b.len(), y, true);
}

/// `dy = da W`: a constant offset has no derivative.
pub fn tangent<T: Real>(da: &[T], w: &[T], outputs: usize, dy: &mut [T]) {
    multiply(da, w, outputs, dy, false);
}

/// `g_W = a^T g_y`, `g_b = sum_rows g_y`, and `g_a = g_y W^T` unless the input is data.
pub fn backward<T: Real>(
    a: &[T],
    w: &[T],
    gy: &[T],
    outputs: usize,
    (gw, gb): (&mut [T], &mut [T]),
    ga: Option<&mut [T]>,
) {
    let rows = gy.len() / outputs;
    let inputs = w.len() / outputs;
    let gy_rows = View::new(gy, rows, outputs);
    matmul_here(View::new(a, rows, inputs).t(), gy_rows, gw, false);
    gb.fill(T::of(0.0));
    for row in gy.chunks_exact(outputs) {
        for (g, v) in gb.iter_mut().zip(row) {
            *g += *v;
        }
    }
    if let Some(ga) = ga {
        matmul_here(gy_rows, View::new(w, inputs, outputs).t(), ga, false);
    }
}

fn multiply<T: Real>(a: &[T], w: &[T], outputs: usize, y: &mut [T], accumulate: bool) {
    let (rows, inputs) = (y.len() / outputs, w.len() / outputs);
    matmul_here(
        View::new(a, rows, inputs),
        View::new(w, inputs, outputs),
        y,
        accumulate,
    );
}
