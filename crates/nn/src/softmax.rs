//! Softmax over the last axis, in f64 whatever the network's precision: `D x S` numbers a row are
//! few here, and the objectives divide by them.

/// `p = softmax(logits / temperature)` over rows of `symbols` entries.
pub fn forward(logits: &[f64], symbols: usize, temperature: f64) -> Vec<f64> {
    let mut p = Vec::with_capacity(logits.len());
    for row in logits.chunks_exact(symbols) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let start = p.len();
        p.extend(row.iter().map(|l| ((l - top) / temperature).exp()));
        let total: f64 = p[start..].iter().sum();
        p[start..].iter_mut().for_each(|v| *v /= total);
    }
    p
}

/// `dp = p (dl - sum p dl)` (temperature one).
pub fn tangent(p: &[f64], logits_tangent: &[f64], symbols: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(p.len());
    for (p, dl) in p
        .chunks_exact(symbols)
        .zip(logits_tangent.chunks_exact(symbols))
    {
        let mean: f64 = p.iter().zip(dl).map(|(p, d)| p * d).sum();
        out.extend(p.iter().zip(dl).map(|(p, d)| p * (d - mean)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sum_to_one_and_tangents_to_zero() {
        let logits = [800.0, 799.0, -5.0, 0.0, 0.5, 1.0];
        let direction = [1.0, -2.0, 0.3, 0.7, 0.1, -1.0];
        let p = forward(&logits, 3, 1.0);
        let dp = tangent(&p, &direction, 3);
        for (p, dp) in p.chunks_exact(3).zip(dp.chunks_exact(3)) {
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-15);
            assert!(dp.iter().sum::<f64>().abs() < 1e-15);
        }
        let moved = |h: f64| {
            let l: Vec<f64> = logits
                .iter()
                .zip(direction)
                .map(|(l, d)| l + h * d)
                .collect();
            forward(&l, 3, 1.0)
        };
        for (i, (a, b)) in moved(1e-6).iter().zip(moved(-1e-6)).enumerate() {
            assert!(((a - b) / 2e-6 - dp[i]).abs() < 1e-8);
        }
    }

    #[test]
    fn temperature_is_a_power() {
        let p = forward(&[0.1, 0.7], 2, 1.0);
        let cold = forward(&[0.1, 0.7], 2, 0.5);
        assert!((cold[0] / cold[1] - (p[0] / p[1]).powi(2)).abs() < 1e-14);
    }
}
