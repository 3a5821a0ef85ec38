//! An adaptive integrator for smooth linear systems: Gragg-Bulirsch-Stoer extrapolation.
//!
//! The modified midpoint rule has an error series in even powers of its step, so a table of
//! 2, 4, 6, ... sub-steps extrapolates to any order with no tableau of coefficients. At the
//! 1e-13 the checks ask for, it needs far fewer evaluations than a Runge-Kutta pair of order 5.

/// Rows of the extrapolation table before a step is given up and halved.
const ROWS: usize = 9;

/// Integrates `dy/du = f(u, y)` from `start` to `end` (`end >= start`) in place. `f` writes the
/// derivative into its last argument, which is zeroed. `tolerance` bounds the error of a step,
/// absolutely for entries below one and relatively above.
pub fn integrate(
    y: &mut Vec<f64>,
    start: f64,
    end: f64,
    tolerance: f64,
    mut f: impl FnMut(f64, &[f64], &mut [f64]),
) {
    let mut u = start;
    let mut step = (end - start).min(0.5);
    while u < end {
        step = step.min(end - u);
        // A remainder too small to advance u is rounding of the end point.
        if u + step <= u {
            break;
        }
        match extrapolate(y, u, step, tolerance, &mut f) {
            Some((next, rows)) => {
                *y = next;
                u += step;
                if rows <= ROWS - 3 {
                    step *= 2.0;
                } else if rows < ROWS - 1 {
                    step *= 1.3;
                }
            }
            None => step /= 2.0,
        }
    }
}

/// One step by extrapolation; the result and the rows it took, or nothing if it did not converge.
fn extrapolate(
    y: &[f64],
    u: f64,
    step: f64,
    tolerance: f64,
    f: &mut impl FnMut(f64, &[f64], &mut [f64]),
) -> Option<(Vec<f64>, usize)> {
    let mut previous: Vec<Vec<f64>> = Vec::new();
    let mut slope = vec![0.0; y.len()];
    f(u, y, &mut slope);
    for row in 0..ROWS {
        let n = 2 * (row + 1);
        let mut current = vec![midpoint(y, &slope, u, step, n, f)];
        for column in 1..=row {
            let ratio = (n as f64 / (2 * (row + 1 - column)) as f64).powi(2);
            let (fine, coarse) = (&current[column - 1], &previous[column - 1]);
            let better = fine
                .iter()
                .zip(coarse)
                .map(|(a, b)| a + (a - b) / (ratio - 1.0))
                .collect();
            current.push(better);
        }
        if row >= 2 {
            let (best, check) = (&current[row], &current[row - 1]);
            let error = best
                .iter()
                .zip(check)
                .map(|(a, b)| (a - b).abs() / a.abs().max(1.0))
                .fold(0.0, f64::max);
            if error <= tolerance {
                return Some((current.pop()?, row + 1));
            }
        }
        previous = current;
    }
    // The shortest steps are accepted as they are: they meet rounding, not truncation.
    (step < 1e-9 * u.abs().max(1.0)).then(|| (previous.swap_remove(ROWS - 1), ROWS))
}

/// The modified midpoint rule with `n` sub-steps and Gragg's smoothing.
fn midpoint(
    y: &[f64],
    slope: &[f64],
    u: f64,
    step: f64,
    n: usize,
    f: &mut impl FnMut(f64, &[f64], &mut [f64]),
) -> Vec<f64> {
    let h = step / n as f64;
    let mut before = y.to_vec();
    let mut here: Vec<f64> = y.iter().zip(slope).map(|(y, s)| y + h * s).collect();
    let mut slope = vec![0.0; y.len()];
    for i in 1..=n {
        slope.fill(0.0);
        f(u + h * i as f64, &here, &mut slope);
        if i == n {
            break;
        }
        for ((b, x), s) in before.iter_mut().zip(&mut here).zip(&slope) {
            let next = *b + 2.0 * h * s;
            *b = *x;
            *x = next;
        }
    }
    before
        .iter()
        .zip(&here)
        .zip(&slope)
        .map(|((b, x), s)| 0.5 * (b + x + h * s))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_with_changing_speed_is_exact() {
        // y'' rotates by the angle u^2: (cos u^2, sin u^2).
        let mut y = vec![1.0, 0.0];
        integrate(&mut y, 0.0, 3.0, 1e-13, |u, y, dy| {
            dy[0] = -2.0 * u * y[1];
            dy[1] = 2.0 * u * y[0];
        });
        assert!((y[0] - 9f64.cos()).abs() < 1e-11, "{y:?}");
        assert!((y[1] - 9f64.sin()).abs() < 1e-11, "{y:?}");
    }

    #[test]
    fn a_long_decay_stays_stable_and_takes_long_steps() {
        let mut y = vec![1.0];
        let mut calls = 0;
        integrate(&mut y, 0.0, 40.0, 1e-13, |u, y, dy| {
            calls += 1;
            dy[0] = -(-u).exp() * y[0];
        });
        assert!(
            (y[0] - (-1.0 + (-40f64).exp()).exp()).abs() < 1e-12,
            "{y:?}"
        );
        assert!(calls < 2500, "{calls} evaluations");
    }

    #[test]
    fn an_empty_interval_changes_nothing() {
        let mut y = vec![2.0];
        integrate(&mut y, 1.0, 1.0, 1e-12, |_, _, dy| dy[0] = 1.0);
        assert_eq!(y, [2.0]);
    }
}
