//! Law matching, enumerated, of a whole sampler: all `K` steps at once against the law at the end.
//!
//! [`Matching`](crate::matching::Matching) brings each step to its own `p_r`. A sampler need not pass
//! through these: what counts is `f = p_0 K_1 ... K_K` against the data `b`, which leaves more freedom
//! and has a lower optimum. The steps are a hidden Markov chain of which the end is seen, so
//!
//! - **EM** is Baum's: with `w_K = b/f` and `w_{k-1}(x) = sum_y K_k(x, y) w_k(y)`, each step's best
//!   product for `x` has the marginals of `K_k(x, y) w_k(y)`. `KL(b || f)` never rises.
//! - **Mirror descent** has `v_K = ln f/b`, pulled back in the same way, and multiplies `m_k^d(a | x)`
//!   by `exp(-eta E[v_k | y^d = a])`; small steps lower `KL(f || b)`.

use crate::{
    Space,
    divergence::kl,
    law::push,
    matching::{normalize, sums},
};

/// A sampler: where it starts and the law it is to reach, over the states of a space.
#[derive(Clone, Copy, Debug)]
pub struct Joint<'a> {
    /// The states.
    pub space: &'a Space,
    /// `p_0`.
    pub from: &'a [f64],
    /// The law of the data.
    pub to: &'a [f64],
}

impl Joint<'_> {
    /// The law after all steps, of kernel rows `[N, D, S]` each.
    pub fn law(&self, kernels: &[Vec<f64>]) -> Vec<f64> {
        let begin = self.from.to_vec();
        let step = |p: Vec<f64>, rows: &Vec<f64>| push(self.space, &p, rows);
        kernels.iter().fold(begin, step)
    }

    /// `KL(b || f)`, which EM lowers.
    pub fn forward(&self, kernels: &[Vec<f64>]) -> f64 {
        kl(self.to, &self.law(kernels))
    }

    /// `KL(f || b)`, which mirror descent lowers.
    pub fn backward(&self, kernels: &[Vec<f64>]) -> f64 {
        kl(&self.law(kernels), self.to)
    }

    /// The steps after one step of EM.
    pub fn em(&self, kernels: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let ratio = |(b, f): (&f64, &f64)| if *f > 0.0 { b / f } else { 0.0 };
        let weights = self.to.iter().zip(&self.law(kernels)).map(ratio).collect();
        self.backwards(kernels, weights, |_, sum| sum)
    }

    /// The steps times `exp(-eta E[v | y^d = a])`, normalised.
    pub fn mirror(&self, kernels: &[Vec<f64>], eta: f64) -> Vec<Vec<f64>> {
        let least = f64::MIN_POSITIVE;
        let ratio = |(f, b): (&f64, &f64)| (f.max(least) / b.max(least)).ln();
        let values = self.law(kernels).iter().zip(self.to).map(ratio).collect();
        self.backwards(kernels, values, |m, sum| {
            if m > 0.0 {
                m * (-eta * sum / m).exp()
            } else {
                0.0
            }
        })
    }

    /// `make(m, sum_{y^d = a} K_k(x, y) v_k(y))` for each entry of each step, normalised, last step to
    /// first, with `v_{k-1} = K_k v_k`.
    fn backwards(
        &self,
        kernels: &[Vec<f64>],
        end: Vec<f64>,
        make: impl Fn(f64, f64) -> f64,
    ) -> Vec<Vec<f64>> {
        let symbols = self.space.symbols();
        let mut value = end;
        let mut out: Vec<Vec<f64>> = Vec::with_capacity(kernels.len());
        for rows in kernels.iter().rev() {
            let sums = sums(self.space, rows, &value);
            // Over the symbols of any coordinate these are the whole sum.
            let states = sums.chunks(self.space.coords() * symbols);
            value = states.map(|row| row[..symbols].iter().sum()).collect();
            let mut new: Vec<f64> = rows.iter().zip(&sums).map(|(m, s)| make(*m, *s)).collect();
            normalize(rows, symbols, &mut new);
            out.push(new);
        }
        out.reverse();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Chain, Grid, Path, Process, Schedule, Source, Target, divergence::total_variation,
    };

    fn rows(seed: usize) -> Vec<f64> {
        let weight = |i: usize| 0.1 + ((i * 37 + seed * 101) % 29) as f64 / 29.0;
        let mut out: Vec<f64> = (0..9 * 6).map(weight).collect();
        let copy = out.clone();
        normalize(&copy, 3, &mut out);
        out
    }

    fn law(seed: usize) -> Vec<f64> {
        let weight = |i: usize| 0.2 + ((i * 53 + seed * 17) % 23) as f64 / 23.0;
        let total: f64 = (0..9).map(weight).sum();
        (0..9).map(|i| weight(i) / total).collect()
    }

    /// EM never raises the one divergence, small mirror steps lower the other, and these are along its
    /// derivative by central differences.
    #[test]
    fn both_descend() {
        let space = Space::new(3, 2).unwrap();
        let (from, to) = (law(1), law(2));
        let joint = Joint {
            space: &space,
            from: &from,
            to: &to,
        };
        let begin = vec![rows(1), rows(2), rows(3)];
        let mut kernels = begin.clone();
        for _ in 0..10 {
            let next = joint.em(&kernels);
            let (before, after) = (joint.forward(&kernels), joint.forward(&next));
            assert!(after <= before + 1e-13, "{after} after {before}");
            kernels = next;
        }
        assert!(joint.forward(&kernels) < 0.1 * joint.forward(&begin));

        let eta = 1e-4;
        let moved = joint.mirror(&begin, eta);
        let fall = (joint.backward(&begin) - joint.backward(&moved)) / eta;
        // With d ln m = -eta (g - E g) the fall is the variance of g under m, weighed by the law.
        let (mut known, mut p) = (0.0, from.clone());
        for (rows, new) in begin.iter().zip(&moved) {
            let each = rows.iter().zip(new).enumerate();
            known += each
                .map(|(i, (m, n))| p[i / 6] * m * ((n / m).ln() / eta).powi(2))
                .sum::<f64>();
            p = push(&space, &p, rows);
        }
        assert!(
            known > 1e-3 && (fall / known - 1.0).abs() < 0.01,
            "{fall} {known}"
        );
    }

    /// With one step it is the step's own EM; with more, it starts where matched steps end and goes
    /// below.
    #[test]
    fn a_sampler_does_better_than_its_steps() {
        let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 3).unwrap();
        let target = Target::PAPER.law(&Space::new(3, 3).unwrap(), 0).unwrap();
        let chain = Chain::new(path, 3, target).unwrap();
        let (source, space) = (chain.source_law(), chain.states());
        let joint = Joint {
            space,
            from: &source,
            to: chain.target(),
        };
        let at = |t: f64| chain.marginal(Schedule::Linear.level(t));
        let matched = |steps: usize, rounds: usize| -> Vec<Vec<f64>> {
            let grid = Grid::uniform(steps).unwrap();
            let one = |(t, r): (f64, f64)| {
                let (from, to) = (at(t), at(r));
                let step = crate::matching::Matching {
                    space,
                    from: &from,
                    to: &to,
                };
                let begin = crate::propagator::marginals(&chain, t, r).unwrap();
                (0..rounds).fold(begin, |rows, _| step.em(&rows))
            };
            grid.intervals().map(one).collect()
        };
        let (one, two) = (joint.em(&matched(1, 3)), matched(1, 4));
        for (a, b) in one[0].iter().zip(&two[0]) {
            assert!((a - b).abs() < 1e-12);
        }
        let begin = matched(3, 20);
        let end = (0..20).fold(begin.clone(), |kernels, _| joint.em(&kernels));
        let error = |kernels: &[Vec<f64>]| total_variation(&joint.law(kernels), chain.target());
        assert!(
            error(&end) < 0.5 * error(&begin),
            "{} {}",
            error(&begin),
            error(&end)
        );
    }
}
