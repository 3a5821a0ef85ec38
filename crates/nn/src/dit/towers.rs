//! Two towers: what the positions before and behind one say of it, without what stands there.
//!
//! The trunk, causal, runs on every sequence as it stands and on its reverse, each shifted by one
//! position behind a symbol to begin with. So its features at position `d` know `x^{<d}` in the first
//! run, `a`, and `x^{>d}` in the second, `z`, and
//!
//! ```text
//! [u, v] = W2 gelu(W1 [a, z] + b1) + b2,    features = a + z + u + side(t, r) v
//! ```
//!
//! know all but `x^d`: the conditionals of all coordinates come out of one pass.
//!
//! They are of two laws at the time `t`, told apart by the side on which `r` lies: what the two have in
//! common, plus or minus what they differ by. All else depends on the distance of `r` alone. So
//! what is learned from sequences that the two laws share cancels in the difference.

use super::{
    Affine,
    linear::{Slots, back_input, forward},
    model::Dit,
    run::Pass,
    trunk::sized,
};
use crate::{
    Batch, Real, Want,
    layers::{
        gate::add_column_sums,
        gelu::{self, Form},
    },
};

/// What an evaluation keeps of them.
#[derive(Clone, Debug, Default)]
pub struct Towers<T> {
    /// `[a, z]` of every position.
    both: Vec<T>,
    hidden: Vec<T>,
    active: Vec<T>,
    joined: Vec<T>,
}

/// The [`side`](crate::opposed::side) of a sequence from its step `r - t`.
fn side<T: Real>(steps: &[f64], sequence: usize) -> T {
    T::of(crate::opposed::side(0.0, steps[sequence]))
}

/// Each sequence along, then each against; the last two of `symbols` are what they begin with.
fn arrange(x: &[usize], length: usize, symbols: usize) -> Vec<usize> {
    let mut out = Vec::with_capacity(2 * x.len());
    for sequence in x.chunks(length) {
        out.push(symbols - 2);
        out.extend(&sequence[..length - 1]);
    }
    for sequence in x.chunks(length) {
        out.push(symbols - 1);
        out.extend(sequence[1..].iter().rev());
    }
    out
}

impl<T: Real> Dit<T> {
    pub(super) fn run_towers(
        &self,
        [up, down]: &[Affine; 2],
        batch: Batch,
        want: Want,
        pass: &mut Pass<T>,
    ) {
        assert_eq!(want.moving, 0, "conditionals have no derivative in t");
        let (count, c) = (batch.t.len(), self.config.width);
        let length = batch.x.len() / count;
        let twice = Batch {
            x: &arrange(batch.x, length, self.config.vocabulary),
            t: &batch.t.repeat(2),
            r: &batch.r.repeat(2),
        };
        // A row needs one position of each tower, and not the same one.
        let want = Want { rows: None, ..want };
        self.run_trunk((twice, None), want, pass);

        let (p, rows) = (&self.parameters[..], count * length);
        let Towers {
            both,
            hidden,
            active,
            joined,
        } = &mut pass.towers;
        let both = sized(both, 2 * rows * c);
        let (along, against) = pass.features.split_at(rows * c);
        for (row, both) in both.chunks_exact_mut(2 * c).enumerate() {
            let (a, z) = both.split_at_mut(c);
            let behind = mirror(row, length);
            a.copy_from_slice(&along[row * c..(row + 1) * c]);
            z.copy_from_slice(&against[behind * c..(behind + 1) * c]);
        }
        let width = up.bias.len();
        let (hidden, active) = (sized(hidden, rows * width), sized(active, rows * width));
        forward(&p[up.weight.clone()], 2 * c, both, hidden);
        gelu::forward(Form::Tanh, hidden, &p[up.bias.clone()], active);
        let joined = sized(joined, 2 * rows * c);
        forward(&p[down.weight.clone()], width, active, joined);
        let (features, towers) = (&mut pass.features, &pass.towers);
        self.combine(down, (towers, &pass.steps), 1.0, features);
    }

    /// `a + z + u + side v` of every position, on the side of the steps or against it.
    fn combine(
        &self,
        down: &Affine,
        (towers, steps): (&Towers<T>, &[f64]),
        sign: f64,
        features: &mut Vec<T>,
    ) {
        let c = self.config.width;
        let (bias, bias_apart) = self.parameters[down.bias.clone()].split_at(c);
        let rows = towers.both.len() / (2 * c);
        let length = rows / (steps.len() / 2);
        let features = sized(features, rows * c);
        let lines = features.chunks_exact_mut(c);
        for (row, (f, both)) in lines.zip(towers.both.chunks_exact(2 * c)).enumerate() {
            let (a, z) = both.split_at(c);
            let (u, v) = towers.joined[row * 2 * c..][..2 * c].split_at(c);
            let side = T::of(sign) * side::<T>(steps, row / length);
            for i in 0..c {
                f[i] = a[i] + z[i] + u[i] + bias[i] + side * (v[i] + bias_apart[i]);
            }
        }
    }

    /// The features of the other law, from an evaluation of the one.
    pub(super) fn oppose_towers(&self, [_, down]: &[Affine; 2], pass: &Pass<T>, to: &mut Pass<T>) {
        to.sizes = pass.sizes;
        to.rows = None;
        self.combine(down, (&pass.towers, &pass.steps), -1.0, &mut to.features);
    }

    pub(super) fn back_towers(
        &self,
        [up, down]: &[Affine; 2],
        pass: &mut Pass<T>,
        gfeatures: &[T],
        gradient: &mut Slots<T>,
    ) {
        let (p, c, length) = (&self.parameters[..], self.config.width, pass.sizes.length);
        let kept = &pass.towers;
        let width = up.bias.len();
        let mut gjoined = vec![T::of(0.0); 2 * gfeatures.len()];
        let lines = gjoined
            .chunks_exact_mut(2 * c)
            .zip(gfeatures.chunks_exact(c));
        for (row, (gjoined, g)) in lines.enumerate() {
            let (u, v) = gjoined.split_at_mut(c);
            let side: T = side(&pass.steps, row / length);
            u.copy_from_slice(g);
            v.iter_mut().zip(g).for_each(|(v, g)| *v = side * *g);
        }
        gradient.weight(&down.weight, width, &kept.active, &gjoined);
        add_column_sums(&gjoined, gradient.at(&down.bias));
        let mut ghidden = vec![T::of(0.0); kept.hidden.len()];
        back_input(
            &p[down.weight.clone()],
            width,
            &gjoined,
            &mut ghidden,
            false,
        );
        gelu::chain(Form::Tanh, &kept.hidden, &mut ghidden);
        gradient.weight(&up.weight, 2 * c, &kept.both, &ghidden);
        add_column_sums(&ghidden, gradient.at(&up.bias));
        let mut gboth = vec![T::of(0.0); kept.both.len()];
        back_input(&p[up.weight.clone()], 2 * c, &ghidden, &mut gboth, false);
        let mut gtowers = vec![T::of(0.0); 2 * gfeatures.len()];
        let (along, against) = gtowers.split_at_mut(gfeatures.len());
        let lines = gboth.chunks_exact(2 * c).zip(gfeatures.chunks_exact(c));
        for (row, (gboth, g)) in lines.enumerate() {
            let behind = mirror(row, length);
            let a = &mut along[row * c..(row + 1) * c];
            let z = &mut against[behind * c..(behind + 1) * c];
            for i in 0..c {
                a[i] = gboth[i] + g[i];
                z[i] = gboth[c + i] + g[i];
            }
        }
        self.back_trunk(pass, &gtowers, true, gradient);
    }
}

/// The row of the same position in the reversed sequence.
fn mirror(row: usize, length: usize) -> usize {
    row / length * length + length - 1 - row % length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Adaptation, Gradient, Learner, Logits, Network, Rows,
        dit::{Config, Positions, Sight, Step, TimeInput},
    };

    fn network() -> Dit<f64> {
        let config = Config {
            vocabulary: 7,
            length: 6,
            width: 8,
            blocks: 2,
            heads: 2,
            conditioning: 5,
            mask: None,
            time: TimeInput::Time,
            step: Step::Trunk,
            sight: Sight::Others { width: 9 },
            positions: Positions::Line,
        };
        let mut net = Dit::<f64>::new(config, 3).unwrap();
        let waves = net.parameters_mut().iter_mut().enumerate();
        waves.for_each(|(i, p)| *p += 0.2 * (i as f64 * 0.7).sin());
        net
    }

    const X: [usize; 10] = [0, 4, 2, 1, 3, 3, 3, 0, 1, 4];
    const WANT: Want = Want {
        moving: 0,
        back: Some(Adaptation::Full),
        rows: None,
    };

    fn batch(x: &[usize]) -> Batch<'_> {
        Batch {
            x,
            t: &[0.7, 0.9],
            r: &[0.2, 1.1],
        }
    }

    fn logits(net: &Dit<f64>, x: &[usize]) -> Vec<Vec<f64>> {
        let mut pass = Pass::default();
        net.evaluate(batch(x), Want::default(), &mut pass);
        let rows: Vec<usize> = (0..x.len()).collect();
        net.visit(&pass, Rows::plain(&rows), |_, l: Logits<f64>| {
            l.value.to_vec()
        })
    }

    /// A change at one position is seen at every other one of its sequence, and only there.
    #[test]
    fn a_position_is_seen_everywhere_else() {
        let net = network();
        let before = logits(&net, &X);
        for changed in 0..X.len() {
            let mut x = X;
            x[changed] = (x[changed] + 1) % 5;
            for (row, after) in logits(&net, &x).iter().enumerate() {
                let seen = row / 5 == changed / 5 && row != changed;
                let apart: f64 = after
                    .iter()
                    .zip(&before[row])
                    .map(|(a, b)| (a - b).abs())
                    .sum();
                assert_eq!(apart > 1e-6, seen, "{changed} at {row}: {apart}");
                assert!(seen || apart == 0.0);
            }
        }
    }

    /// From one evaluation the other law's logits are those of its own.
    #[test]
    fn one_evaluation_gives_both_laws() {
        let net = network();
        let rows: Vec<usize> = (0..X.len()).collect();
        let (mut here, mut there, mut other) = Default::default();
        let behind = Batch {
            x: &X,
            t: &[0.7, 0.9],
            r: &[1.2, 0.7],
        };
        net.evaluate(batch(&X), WANT, &mut here);
        net.evaluate(behind, Want::default(), &mut there);
        net.opposite(behind, &here, &mut other);
        let beside = Rows {
            rows: &rows,
            tangent: false,
            others: vec![&there, &other],
        };
        let apart = net.visit(&here, beside, |_, l: Logits<f64>| {
            let far =
                |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum() };
            (far(l.others[0], l.others[1]), far(l.others[0], l.value))
        });
        assert!(apart.iter().all(|(same, _)| *same < 1e-12));
        assert!(apart.iter().any(|(_, laws)| *laws > 0.1));
    }

    #[test]
    fn the_gradient_is_that_of_central_differences() {
        let mut net = network();
        let rows: Vec<usize> = (0..X.len()).collect();
        let weight = |row: usize, z: usize| (row as f64 * 1.3 + z as f64 * 0.8).cos();
        let value = |net: &Dit<f64>| -> f64 {
            let rows = logits(net, &X).into_iter().enumerate();
            let one = |(row, l): (usize, Vec<f64>)| {
                l.iter()
                    .zip(0..)
                    .map(|(l, z)| l * weight(row, z))
                    .sum::<f64>()
            };
            rows.map(one).sum()
        };
        let mut data = vec![0.0; net.parameters().len()];
        let mut gradient = Gradient {
            data: &mut data,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        let mut pass = Pass::default();
        net.evaluate(batch(&X), WANT, &mut pass);
        let consumer = |at: usize, logits: Logits<f64>| {
            let value = logits.value.iter_mut().enumerate();
            value.for_each(|(z, l)| *l = weight(at, z));
        };
        net.descend(&mut pass, Rows::plain(&rows), consumer, &mut gradient);
        net.backward(&mut pass, &mut gradient);
        for tensor in net.layout().tensors.clone() {
            for i in [
                tensor.range.start,
                (tensor.range.start + tensor.range.end) / 2,
            ] {
                let mut moved = |h: f64| {
                    net.parameters_mut()[i] += h;
                    let value = value(&net);
                    net.parameters_mut()[i] -= h;
                    value
                };
                let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!(
                    (numeric - data[i]).abs() < 1e-7 * (1.0 + numeric.abs()),
                    "{} {i}: {numeric} {}",
                    tensor.name,
                    data[i]
                );
            }
        }
    }
}
