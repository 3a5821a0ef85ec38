//! From logits to surprises.

use rayon::prelude::*;

/// `-ln softmax(logits)[target]` of each row with a target, in nats. The sum is made in f64: a
/// vocabulary is long.
pub(super) fn surprises(logits: &[f32], targets: &[Option<u32>]) -> Vec<Option<f64>> {
    let symbols = logits.len() / targets.len().max(1);
    let rows = logits.par_chunks_exact(symbols.max(1)).zip(targets);
    rows.map(|(row, target)| {
        let target = row.get((*target)? as usize)?;
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&v| f64::from((v - top).exp())).sum();
        Some(sum.ln() + f64::from(top) - f64::from(*target))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_softmax_by_hand() {
        // Weights 1, 2, 1 and 1, 1, 2; far from zero, where exp alone would overflow.
        let two = 2f32.ln();
        let logits = [300.0, 300.0 + two, 300.0, -200.0, -200.0, -200.0 + two];
        let found = surprises(&logits, &[Some(1), Some(0)]);
        for (value, wanted) in found.iter().zip([2f64.ln(), 4f64.ln()]) {
            assert!((value.unwrap() - wanted).abs() < 1e-4, "{found:?}");
        }
        let found = surprises(&logits, &[None, Some(2)]);
        assert!(found[0].is_none() && found[1].is_some());
        // What is not a number stays none.
        let found = surprises(&[f32::NAN, 0.0], &[Some(1)]);
        assert!(!found[0].unwrap().is_finite());
    }
}
