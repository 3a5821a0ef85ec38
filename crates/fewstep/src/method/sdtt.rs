//! Self-distillation through time (Deschenaux and Gulcehre): one prediction of the student for
//! several steps of its teacher.
//!
//! From `x_t` the teacher takes `m` steps of size `h`. A coordinate's target is what the teacher
//! predicted for it when it drew it, or in the last step if it never did; the student, who sees
//! `x_t` alone, is brought to these targets by a [`Divergence`]. Rounds double `h`, the student of
//! one being the teacher of the next.
//!
//! Targets are random: they depend on what the teacher drew. On the masked path their mean is the
//! teacher's own prediction at `x_t` if that is a posterior (the tower property), so that a student
//! trained by the forward divergence would learn nothing; the backward one sharpens it.
//!
//! Where noise is uniform a coordinate may be drawn more than once, and the last time counts. On
//! the uniform-state process no draw can be told from staying: there a coordinate is drawn when its
//! symbol changes.

use fewstep_ctmc::{
    Path, Process,
    random::{Key, Purpose, quantile, uniform},
};
use fewstep_nn::{Batch, Gradient, Learner, Network, Real, Rows, Want};
use serde::{Deserialize, Serialize};

use super::{
    Divergence,
    divergence::{blocks, distil, log_probabilities},
};
use crate::sequence::{Examples, times::LAST};

/// Where the teacher's steps start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// One after the other, as described: `t`, `t + h`, ...
    #[default]
    Even,
    /// As in the released code, in noise `n = 1 - t` that is to end at `n_end`: step `j` of `m`
    /// starts at `n s_j + (1 - n) n_end`, `s` falling from 1 to 0. The steps are then neither
    /// neighbours nor from `t` on.
    Released,
}

/// What the teacher does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// The size `h` of one.
    pub size: f64,
    /// Their number `m`.
    pub count: usize,
    /// Where they start.
    pub spacing: Spacing,
}

impl Steps {
    /// The steps `(t_j, r_j)` from `t`, none beyond data.
    pub fn from(&self, t: f64) -> Vec<(f64, f64)> {
        let m = self.count as f64;
        (0..self.count)
            .map(|j| {
                let start = match self.spacing {
                    Spacing::Even => t + j as f64 * self.size,
                    Spacing::Released => {
                        let noise = 1.0 - t;
                        let end = (noise - m * self.size).max(0.0);
                        let s = match self.count {
                            1 => 1.0,
                            _ => 1.0 - j as f64 / (m - 1.0),
                        };
                        1.0 - (noise * s + (1.0 - noise) * end)
                    }
                };
                // No network is asked at data itself.
                let start = start.min(LAST);
                (start, (start + self.size).min(1.0))
            })
            .collect()
    }
}

/// The targets `[active rows, S]` as logarithms, for sequences at rest.
pub fn targets<T: Real, N: Network<T>>(
    teacher: &N,
    examples: &Examples,
    (path, steps): (&Path, &Steps),
    address: (u64, u64),
    pass: &mut N::Pass,
) -> Vec<Vec<T>> {
    let rows = examples.active(path);
    targets_of(teacher, (examples, &rows), (path, steps), address, pass)
}

/// The targets of some rows, in whose sequences the teacher walks.
fn targets_of<T: Real, N: Network<T>>(
    teacher: &N,
    (examples, rows): (&Examples, &[usize]),
    (path, steps): (&Path, &Steps),
    (seed, number): (u64, u64),
    pass: &mut N::Pass,
) -> Vec<Vec<T>> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Vec::new();
    };
    let length = examples.length;
    let sequences = first / length..last / length + 1;
    let begin = sequences.start * length;
    let key = Key::new(seed, Purpose::Teacher);
    let mut x = examples.x[begin..sequences.end * length].to_vec();
    let mut drawn = vec![false; rows.len()];
    let mut targets = vec![Vec::new(); rows.len()];
    let pairs = examples.pairs[sequences].iter();
    let starts = pairs.map(|pair| steps.from(pair.t));
    let walks: Vec<Vec<(f64, f64)>> = starts.collect();
    for j in 0..steps.count {
        let times: Vec<f64> = walks.iter().map(|walk| walk[j].0).collect();
        let batch = Batch {
            x: &x,
            t: &times,
            r: &times,
        };
        teacher.evaluate(batch, Want::default(), pass);
        // A masked coordinate that has been drawn is known.
        let open: Vec<usize> = (0..rows.len())
            .filter(|&at| path.mask().is_none_or(|mask| x[rows[at] - begin] == mask))
            .collect();
        let places: Vec<usize> = open.iter().map(|&at| rows[at] - begin).collect();
        let moves = teacher.visit(pass, Rows::plain(&places), |at, logits| {
            let (here, row) = (places[at], places[at] + begin);
            let log_p = log_probabilities(path.symbols(), logits.value);
            let mut rng = key.at(number, row as u64 * steps.count as u64 + j as u64);
            let step = walks[here / length][j];
            let p: Vec<f64> = log_p.iter().map(|l: &T| l.widen().exp()).collect();
            let to = advance(path, step, x[here], &p, uniform(&mut rng));
            (log_p, to)
        });
        for (&at, (log_p, to)) in open.iter().zip(moves) {
            if to.is_some() || !drawn[at] {
                targets[at] = log_p;
            }
            if let Some(symbol) = to {
                drawn[at] = true;
                x[rows[at] - begin] = symbol;
            }
        }
    }
    targets
}

/// What a coordinate is drawn to in a step, if it is drawn.
pub(super) fn advance(
    path: &Path,
    (t, r): (f64, f64),
    x: usize,
    p: &[f64],
    level: f64,
) -> Option<usize> {
    if matches!(path.process(), Process::Mixture(_)) {
        let survival = path.schedule().survival(t).max(f64::MIN_POSITIVE);
        let keep = path.schedule().survival(r) / survival;
        return (level >= keep).then(|| quantile(p, (level - keep) / (1.0 - keep)));
    }
    let mut law = vec![0.0; p.len()];
    path.step_row(t, r, x, p, &mut law);
    let to = quantile(&law, level);
    (to != x).then_some(to)
}

/// The mean divergence over the coordinates that can move, and its gradient.
pub fn step<T: Real, N: Learner<T>, M: Network<T>>(
    (student, teacher): (&N, &M),
    examples: &Examples,
    (path, steps, divergence): (&Path, &Steps, Divergence),
    address: (u64, u64),
    (pass, teacher_pass): (&mut N::Pass, &mut M::Pass),
    gradient: &mut Gradient<T>,
) -> f64 {
    let rows = examples.active(path);
    let targets = |rows: &[usize]| {
        let here = (examples, rows);
        targets_of(teacher, here, (path, steps), address, teacher_pass)
    };
    let blocks = blocks(&rows, examples.length, path.symbols());
    let student = (student, pass);
    distil(
        student,
        examples.all(),
        &blocks,
        targets,
        divergence,
        gradient,
    )
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::{Schedule, Source};
    use fewstep_nn::{Conditioned, Conditioning};

    use super::*;
    use crate::objective::Pair;

    /// A teacher that walks a few sequences at a time gives them the targets of one that walks all.
    #[test]
    fn targets_do_not_depend_on_their_block() {
        for source in [Source::Uniform, Source::Masked] {
            let path = Path::new(Schedule::Linear, Process::Mixture(source), 3).unwrap();
            let shape = (2, path.state_symbols(), 3);
            let teacher = Conditioned::<f64>::new(Conditioning::Instant, shape, &[8], 1);
            let pairs = [0.1, 0.5, 0.3].map(|t| Pair::new(Schedule::Linear, t, t));
            let examples = Examples::corrupt(&path, &[0, 1, 2, 0, 1, 2], &pairs, (1, 0));
            let steps = Steps {
                size: 0.3,
                count: 2,
                spacing: Spacing::Even,
            };
            let rows = examples.active(&path);
            let what = (&path, &steps);
            let pass = &mut Default::default();
            let mut of =
                |rows: &[usize]| targets_of(&teacher, (&examples, rows), what, (5, 2), pass);
            let parts = blocks(&rows, 2, 1 << 30);
            assert!(parts.len() > 1);
            let apart: Vec<Vec<f64>> = parts.iter().flat_map(|rows| of(rows)).collect();
            assert_eq!(of(&rows), apart);
        }
    }

    #[test]
    fn the_spacing_of_the_released_code() {
        let steps = |spacing| Steps {
            size: 0.01,
            count: 2,
            spacing,
        };
        // In noise: 0.6 and 0.59 as described, 0.832 and 0.232 as released.
        let even = steps(Spacing::Even).from(0.4);
        assert!((even[0].0 - 0.4).abs() < 1e-12 && (even[1].0 - 0.41).abs() < 1e-12);
        let released = steps(Spacing::Released).from(0.4);
        assert!((released[0].0 - (1.0 - 0.832)).abs() < 1e-12);
        assert!((released[1].0 - (1.0 - 0.232)).abs() < 1e-12);
        for (t, r) in steps(Spacing::Even).from(0.995) {
            assert!(t <= r && r <= 1.0);
        }
    }
}
