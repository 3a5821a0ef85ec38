//! Residuals, and the two limits the checks need: Richardson extrapolation and nothing else.

use fewstep_ctmc::Error;

/// Powers of the step that extrapolation removes. With a first step of a tenth of the distance to
/// the nearest singularity the truncation left is below `1e-11`, and the smallest step is large
/// enough that rounding stays below `1e-9`.
const ORDER: usize = 8;

/// `max |a - b| / max(1, max |a|, max |b|)`: absolute for quantities of order one, relative for
/// rates, which reach some hundreds where `t` is near an end. Tables of different lengths and
/// NaN give NaN, which no bar passes.
pub fn residual(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::NAN;
    }
    let scale = a.iter().chain(b).map(|v| v.abs()).fold(1.0, worse);
    let gap = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, worse);
    gap / scale
}

/// The larger of two residuals, NaN if either is.
pub fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

/// `lim_{h -> 0} f(h)` for an `f` with a power series in `h^power`, from
/// `f(h), f(h/2), f(h/4), ...`.
pub fn limit(
    power: usize,
    h: f64,
    mut f: impl FnMut(f64) -> Result<Vec<f64>, Error>,
) -> Result<Vec<f64>, Error> {
    let mut column: Vec<Vec<f64>> = (0..ORDER / power)
        .map(|k| f(h / f64::from(1u32 << k)))
        .collect::<Result<_, _>>()?;
    let mut ratio = 1.0;
    while column.len() > 1 {
        ratio *= f64::from(1u32 << power);
        column = column
            .windows(2)
            .map(|pair| {
                let (coarse, fine) = (&pair[0], &pair[1]);
                let gain = fine
                    .iter()
                    .zip(coarse)
                    .map(|(a, b)| (a - b) / (ratio - 1.0));
                fine.iter().zip(gain).map(|(a, g)| a + g).collect()
            })
            .collect();
    }
    Ok(column.swap_remove(0))
}

/// `df/dt` at `t` from central differences of steps up to `h`.
pub fn derivative(
    t: f64,
    h: f64,
    mut f: impl FnMut(f64) -> Result<Vec<f64>, Error>,
) -> Result<Vec<f64>, Error> {
    limit(2, h, |h| {
        // The step as it is after rounding of t + h and t - h.
        let (up, down) = (t + h, t - h);
        let (above, below) = (f(up)?, f(down)?);
        let differences = above.iter().zip(below);
        Ok(differences.map(|(a, b)| (a - b) / (up - down)).collect())
    })
}

/// `D_F(a || b) = a log(a/b) - a + b` for `F(x) = x log x`; `b` at `a = 0`.
pub fn bregman(a: f64, b: f64) -> f64 {
    if a == 0.0 {
        b
    } else {
        a * (a / b).ln() - a + b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_in_a_residual() {
        assert_eq!(residual(&[1.0, 4.0], &[1.0, 2.0]), 0.5);
        assert_eq!(residual(&[0.1], &[0.2]), 0.1);
        assert!(residual(&[f64::NAN, 1.0], &[1.0, 1.0]).is_nan());
        assert!(residual(&[f64::INFINITY], &[f64::INFINITY]).is_nan());
        assert!(residual(&[1.0], &[1.0, 2.0]).is_nan());
        assert!(worse(f64::NAN, 1.0).is_nan() && worse(1.0, f64::NAN).is_nan());
    }

    #[test]
    fn extrapolation_is_exact_to_many_digits() {
        let slope = derivative(0.7, 0.1, |t| Ok(vec![t.exp(), t.powf(3.5)])).expect("no failure");
        assert!((slope[0] - 0.7f64.exp()).abs() < 1e-12);
        assert!((slope[1] - 3.5 * 0.7f64.powf(2.5)).abs() < 1e-11);
        let one = limit(1, 0.1, |h| Ok(vec![h.exp_m1() / h])).expect("no failure");
        assert!((one[0] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn bregman_vanishes_only_on_the_diagonal() {
        assert_eq!(bregman(0.3, 0.3), 0.0);
        assert_eq!(bregman(0.0, 0.4), 0.4);
        assert!(bregman(0.3, 0.2) > 0.0 && bregman(0.2, 0.3) > 0.0);
    }
}
