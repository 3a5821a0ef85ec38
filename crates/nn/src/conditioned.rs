//! A network on sequences, conditioned on a time or on a step: `(x, t, r) -> logits [R, D, S]`.
//!
//! Two of them make the method's model, `logits = base(x, t) + correction(x, t, r)`. The
//! correction is `(r - t)` times its network's output: it is zero at `r = t`, so the boundary
//! `U_{t,t} = Q_t` holds by construction, and it shrinks with the step as the true correction
//! does, so its noise does not grow when steps are many.
//!
//! Rows are evaluated in chunks of a fixed size over the threads. Each chunk has its own tape and
//! gradient, added up in order: the result does not depend on the thread count.

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    Adaptation, Batch, Gradient, Learner, Logits, Mlp, Network, Real, Rows, Want, features,
    mlp::Tape,
};

/// Rows per chunk. Small enough for a chunk's activations to stay in a core's own cache.
const CHUNK: usize = 64;

/// What a network is told of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditioning {
    /// `t` alone: a denoiser.
    Instant,
    /// `t`, `r` and `r - t`: a correction, scaled by `r - t`.
    Interval,
    /// `t` and the distance of `r`, whichever side of `t` it lies on: two laws at `t`
    /// ([`Opposed`](crate::Opposed)).
    Distance,
}

/// The network.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditioned<T> {
    conditioning: Conditioning,
    coords: usize,
    state_symbols: usize,
    mlp: Mlp<T>,
}

/// The result of an evaluation, and what a backward pass needs of it.
#[derive(Clone, Debug, Default)]
pub struct Pass<T> {
    /// Logits `[R, D, S]`.
    pub logits: Vec<f64>,
    /// `d logits / dt` at fixed `r`, `[R, D, S]`, if asked for.
    pub tangent: Vec<f64>,
    chunks: Vec<Chunk<T>>,
    /// In the logits of the rows descended from.
    glogits: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
struct Chunk<T> {
    tape: Tape<T>,
    input: Vec<T>,
    direction: Vec<T>,
    gradient_out: Vec<T>,
    gradient: Vec<T>,
    /// `r - t` of each row, or one.
    scale: Vec<f64>,
}

impl<T: Real> Conditioned<T> {
    /// A network of `hidden` layers for `coords` coordinates. A correction starts at zero.
    pub fn new(
        conditioning: Conditioning,
        (coords, state_symbols, symbols): (usize, usize, usize),
        hidden: &[usize],
        seed: u64,
    ) -> Self {
        let (scalars, zero, stream) = match conditioning {
            Conditioning::Instant => (2, false, 0),
            Conditioning::Interval => (4, true, 1),
            Conditioning::Distance => (3, false, 3),
        };
        let mut sizes = vec![coords * state_symbols + scalars * features::WIDTH];
        sizes.extend_from_slice(hidden);
        sizes.push(coords * symbols);
        Self {
            conditioning,
            coords,
            state_symbols,
            mlp: Mlp::new(&sizes, zero, seed, stream),
        }
    }

    /// The same network with an output layer of zeros: it starts as the constant 0.
    pub fn silent(mut self) -> Self {
        let [.., inputs, outputs] = *self.mlp.sizes() else {
            return self;
        };
        let parameters = self.mlp.parameters_mut();
        let first = parameters.len() - (inputs + 1) * outputs;
        parameters[first..].fill(T::of(0.0));
        self
    }

    /// The same network with `carried` more coordinates behind its own, which it does not predict
    /// yet and sees through small random weights: it says nearly the same, and a little else for each
    /// value that they carry.
    pub fn carrying(&self, carried: usize, seed: u64) -> Self {
        let coords = self.coords + carried;
        let sizes = self.mlp.sizes();
        let (inputs, outputs) = (sizes[0], sizes[sizes.len() - 1]);
        let own = self.coords * self.state_symbols;
        let mut wide = sizes.to_vec();
        wide[0] = inputs + carried * self.state_symbols;
        wide[sizes.len() - 1] = outputs / self.coords * coords;
        let mut mlp = Mlp::new(&wide, true, seed, 2);
        let (from, to) = (self.mlp.parameters(), mlp.parameters_mut());
        // The first layer's rows for the new symbols stay as drawn, between those for the old ones
        // and for time; the last layer's columns for the new coordinates stay zero.
        let (first, last) = (sizes[1], sizes[sizes.len() - 2]);
        to[..own * first].copy_from_slice(&from[..own * first]);
        let shift = carried * self.state_symbols * first;
        let middle = from.len() - (last + 1) * outputs;
        to[shift + own * first..shift + middle].copy_from_slice(&from[own * first..middle]);
        let width = wide[sizes.len() - 1];
        for row in 0..=last {
            let (a, b) = (middle + row * outputs, shift + middle + row * width);
            to[b..b + outputs].copy_from_slice(&from[a..a + outputs]);
        }
        Self {
            conditioning: self.conditioning,
            coords,
            state_symbols: self.state_symbols,
            mlp,
        }
    }

    /// Logits of a row.
    fn width(&self) -> usize {
        self.mlp.sizes()[self.mlp.sizes().len() - 1]
    }

    /// Coordinates.
    pub fn coords(&self) -> usize {
        self.coords
    }

    /// All parameters.
    pub fn parameters(&self) -> &[T] {
        self.mlp.parameters()
    }

    /// All parameters, to be updated.
    pub fn parameters_mut(&mut self) -> &mut [T] {
        self.mlp.parameters_mut()
    }

    /// Evaluates all rows into `pass`, with `d/dt` if `tangent`.
    pub fn evaluate(&self, batch: Batch, tangent: bool, pass: &mut Pass<T>) {
        let rows = batch.t.len();
        assert_eq!(batch.x.len(), rows * self.coords, "symbols of {rows} rows");
        assert_eq!(batch.r.len(), rows, "r of {rows} rows");
        let width = self.width();
        pass.chunks
            .resize_with(rows.div_ceil(CHUNK), Chunk::default);
        pass.logits.resize(rows * width, 0.0);
        pass.tangent
            .resize(if tangent { rows * width } else { 0 }, 0.0);
        let mut tangents: Vec<&mut [f64]> = if tangent {
            pass.tangent.chunks_mut(CHUNK * width).collect()
        } else {
            pass.chunks.iter().map(|_| &mut [][..]).collect()
        };
        pass.chunks
            .par_iter_mut()
            .zip(pass.logits.par_chunks_mut(CHUNK * width))
            .zip(tangents.par_iter_mut())
            .enumerate()
            .for_each(|(i, ((chunk, logits), tangents))| {
                let rows = i * CHUNK..(i * CHUNK + CHUNK).min(rows);
                let part = Batch {
                    x: &batch.x[rows.start * self.coords..rows.end * self.coords],
                    t: &batch.t[rows.clone()],
                    r: &batch.r[rows],
                };
                self.evaluate_chunk(part, chunk, logits, tangents);
            });
    }

    fn evaluate_chunk(
        &self,
        batch: Batch,
        chunk: &mut Chunk<T>,
        logits: &mut [f64],
        tangents: &mut [f64],
    ) {
        let width = logits.len() / batch.t.len();
        let want_tangent = !tangents.is_empty();
        self.encode(batch, chunk, want_tangent);
        let out = self.mlp.forward(&chunk.input, &mut chunk.tape);
        for (l, o) in logits.iter_mut().zip(out) {
            *l = o.widen();
        }
        if want_tangent {
            let moved = self.mlp.tangent(&chunk.direction, &mut chunk.tape);
            for (i, (d, o)) in tangents.iter_mut().zip(moved).enumerate() {
                *d = chunk.scale[i / width] * o.widen();
                // d_t (r - t) f = (r - t) d_t f - f.
                if self.conditioning == Conditioning::Interval {
                    *d -= logits[i];
                }
            }
        }
        for (row, scale) in logits.chunks_exact_mut(width).zip(&chunk.scale) {
            row.iter_mut().for_each(|l| *l *= scale);
        }
    }

    /// One-hot symbols and time features, and their derivative in `t`.
    fn encode(&self, batch: Batch, chunk: &mut Chunk<T>, tangent: bool) {
        chunk.input.clear();
        chunk.direction.clear();
        chunk.scale.clear();
        let one_hot = self.coords * self.state_symbols;
        let (mut values, mut slopes) = (Vec::new(), Vec::new());
        for ((x, &t), &r) in batch.x.chunks_exact(self.coords).zip(batch.t).zip(batch.r) {
            let start = chunk.input.len();
            chunk.input.resize(start + one_hot, T::of(0.0));
            for (d, &s) in x.iter().enumerate() {
                chunk.input[start + d * self.state_symbols + s] = T::of(1.0);
            }
            values.clear();
            slopes.clear();
            let wanted = tangent.then_some(&mut slopes);
            match self.conditioning {
                Conditioning::Instant => {
                    features::extend(&features::instant(t), &mut values, wanted)
                }
                Conditioning::Interval => {
                    features::extend(&features::interval(t, r), &mut values, wanted);
                }
                Conditioning::Distance => {
                    let [time, log] = features::instant(t);
                    let distance = ((r - t).abs(), 0.0);
                    features::extend(&[time, log, distance], &mut values, wanted);
                }
            }
            chunk.input.extend(values.iter().map(|&v| T::of(v)));
            if tangent {
                chunk.direction.resize(start + one_hot, T::of(0.0));
                chunk.direction.extend(slopes.iter().map(|&v| T::of(v)));
            }
            chunk.scale.push(match self.conditioning {
                Conditioning::Instant | Conditioning::Distance => 1.0,
                Conditioning::Interval => r - t,
            });
        }
    }

    /// The gradient of a loss in the parameters, from its gradient `[R, D, S]` in the logits of
    /// the evaluation that `pass` holds.
    pub fn backward<'a>(&self, logits_gradient: &[f64], pass: &'a mut Pass<T>) -> &'a [T] {
        assert_eq!(logits_gradient.len(), pass.logits.len());
        let width = self.width();
        let size = self.parameters().len();
        pass.chunks
            .par_iter_mut()
            .zip(logits_gradient.par_chunks(CHUNK * width))
            .for_each(|(chunk, gradient)| {
                chunk.gradient_out.clear();
                for (row, scale) in gradient.chunks_exact(width).zip(&chunk.scale) {
                    let scaled = row.iter().map(|g| T::of(g * scale));
                    chunk.gradient_out.extend(scaled);
                }
                chunk.gradient.resize(size, T::of(0.0));
                self.mlp
                    .backward(&chunk.gradient_out, &mut chunk.tape, &mut chunk.gradient);
            });
        let Some((first, others)) = pass.chunks.split_first_mut() else {
            return &[];
        };
        for chunk in others {
            for (t, g) in first.gradient.iter_mut().zip(&chunk.gradient) {
                *t += *g;
            }
        }
        &first.gradient
    }
}

impl<T: Real> Network<T> for Conditioned<T> {
    type Pass = Pass<T>;

    fn symbols(&self) -> usize {
        self.width() / self.coords
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        Conditioned::evaluate(self, batch, want.moving > 0, pass);
        pass.glogits.clear();
        pass.glogits.resize(pass.logits.len(), 0.0);
    }

    fn visit<R: Send>(
        &self,
        pass: &Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let symbols = Network::symbols(self);
        let row = |table: &[f64], i: usize| -> Vec<T> {
            let row = &table[i * symbols..(i + 1) * symbols];
            row.iter().map(|&l| T::of(l)).collect()
        };
        rows.rows
            .par_iter()
            .enumerate()
            .map(|(at, &i)| {
                let others = rows.others.iter().map(|other| row(&other.logits, i));
                let mut others: Vec<Vec<T>> = others.collect();
                let logits = Logits {
                    value: &mut row(&pass.logits, i),
                    tangent: &mut if rows.tangent {
                        row(&pass.tangent, i)
                    } else {
                        Vec::new()
                    },
                    others: others.iter_mut().map(|row| &mut row[..]).collect(),
                };
                consumer(at, logits)
            })
            .collect()
    }
}

impl<T: Real> Learner<T> for Conditioned<T> {
    fn parameters(&self) -> &[T] {
        self.mlp.parameters()
    }

    fn parameters_mut(&mut self) -> &mut [T] {
        self.mlp.parameters_mut()
    }

    /// Everything either way: base and correction are networks of their own.
    fn trainable(&self, _: Adaptation) -> Range<usize> {
        0..self.mlp.parameters().len()
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        _: &mut Gradient<T>,
    ) -> Vec<R> {
        let (places, symbols) = (rows.rows, Network::symbols(self));
        let answers = self.visit(pass, rows, |at, logits| {
            let Logits {
                value,
                tangent,
                others,
            } = logits;
            let answer = consumer(
                at,
                Logits {
                    value: &mut *value,
                    tangent,
                    others,
                },
            );
            (answer, value.to_vec())
        });
        let mut out = Vec::with_capacity(answers.len());
        for (&row, (answer, gradient)) in places.iter().zip(answers) {
            let to = &mut pass.glogits[row * symbols..(row + 1) * symbols];
            to.iter_mut()
                .zip(gradient)
                .for_each(|(t, g)| *t = g.widen());
            out.push(answer);
        }
        out
    }

    fn backward(&self, pass: &mut Pass<T>, gradient: &mut Gradient<T>) {
        let glogits = std::mem::take(&mut pass.glogits);
        let computed = Conditioned::backward(self, &glogits, pass);
        for (to, g) in gradient.data.iter_mut().zip(computed) {
            *to = if gradient.accumulate { *to + *g } else { *g };
        }
        pass.glogits = glogits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let x = (0..n * 3).map(|i| i * 7 % 4).collect();
        let t: Vec<f64> = (0..n).map(|i| 0.1 + 0.8 * i as f64 / n as f64).collect();
        let r = t.iter().map(|t| t + 0.6 * (1.0 - t)).collect();
        (x, t, r)
    }

    fn randomised(conditioning: Conditioning) -> Conditioned<f64> {
        let mut net = Conditioned::<f64>::new(conditioning, (3, 4, 3), &[9, 5], 2);
        for (i, p) in net.parameters_mut().iter_mut().enumerate() {
            *p += 0.3 * (i as f64).sin();
        }
        net
    }

    #[test]
    fn the_time_derivative_is_exact() {
        for conditioning in [Conditioning::Instant, Conditioning::Interval] {
            let net = randomised(conditioning);
            let (x, t, r) = rows(5);
            let at = |shift: f64| {
                let moved: Vec<f64> = t.iter().map(|t| t + shift).collect();
                let mut pass = Pass::default();
                net.evaluate(
                    Batch {
                        x: &x,
                        t: &moved,
                        r: &r,
                    },
                    true,
                    &mut pass,
                );
                pass
            };
            let (up, down, here) = (at(1e-5), at(-1e-5), at(0.0));
            for i in 0..here.logits.len() {
                let numeric = (up.logits[i] - down.logits[i]) / 2e-5;
                assert!(
                    (numeric - here.tangent[i]).abs() < 1e-7,
                    "{numeric} {}",
                    here.tangent[i]
                );
            }
        }
    }

    /// More rows than a chunk, against central differences in a few parameters.
    #[test]
    fn the_gradient_is_exact_over_chunks() {
        let mut net = randomised(Conditioning::Interval);
        let (x, t, r) = rows(CHUNK + 37);
        let batch = Batch {
            x: &x,
            t: &t,
            r: &r,
        };
        let weight: Vec<f64> = (0..t.len() * 9).map(|i| (i as f64 * 0.3).cos()).collect();
        let mut pass = Pass::default();
        net.evaluate(batch, true, &mut pass);
        let gradient = net.backward(&weight, &mut pass).to_vec();
        for i in (0..gradient.len()).step_by(17) {
            let mut loss = |step: f64| {
                net.parameters_mut()[i] += step;
                let mut pass = Pass::default();
                net.evaluate(batch, false, &mut pass);
                net.parameters_mut()[i] -= step;
                pass.logits
                    .iter()
                    .zip(&weight)
                    .map(|(l, w)| l * w)
                    .sum::<f64>()
            };
            let numeric = (loss(1e-5) - loss(-1e-5)) / 2e-5;
            assert!(
                (numeric - gradient[i]).abs() < 1e-6 * (1.0 + numeric.abs()),
                "{i}"
            );
        }
    }

    #[test]
    fn a_correction_is_zero_at_the_start_and_at_r_equal_t() {
        let (x, t, r) = rows(4);
        let mut pass = Pass::default();
        let fresh = Conditioned::<f32>::new(Conditioning::Interval, (3, 4, 3), &[9, 5], 2);
        fresh.evaluate(
            Batch {
                x: &x,
                t: &t,
                r: &r,
            },
            false,
            &mut pass,
        );
        assert!(pass.logits.iter().all(|&l| l == 0.0));
        let mut pass = Pass::default();
        randomised(Conditioning::Interval).evaluate(
            Batch {
                x: &x,
                t: &t,
                r: &t,
            },
            false,
            &mut pass,
        );
        assert!(pass.logits.iter().all(|&l| l == 0.0));
    }

    /// A network whose new coordinates' weights are taken out again says what it said.
    #[test]
    fn a_carrier_leaves_the_rest_as_it_was() {
        let (x, t, r) = rows(3);
        let run = |net: &Conditioned<f64>, x: &[usize]| {
            let mut pass = Pass::default();
            let batch = Batch { x, t: &t, r: &r };
            net.evaluate(batch, false, &mut pass);
            pass.logits
        };
        let net = randomised(Conditioning::Instant);
        let mut wide = net.carrying(2, 0);
        let carry = |latent: usize| -> Vec<usize> {
            let one = |x: &[usize]| [x, &[latent, 0]].concat();
            x.chunks(3).flat_map(one).collect()
        };
        let (a, b) = (run(&wide, &carry(1)), run(&wide, &carry(2)));
        assert_ne!(a[..9], b[..9], "latents differ");
        // One-hot rows 12..20 of the first layer, nine wide, belong to the two new coordinates.
        wide.parameters_mut()[12 * 9..20 * 9].fill(0.0);
        let old = run(&net, &x);
        for (old, new) in old.chunks(9).zip(run(&wide, &carry(1)).chunks(15)) {
            assert_eq!(old, &new[..9]);
            assert_eq!(new[9..], [0.0; 6]);
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let net = Conditioned::<f32>::new(Conditioning::Instant, (3, 4, 3), &[64, 64], 2);
        let (x, t, r) = rows(3 * CHUNK + 5);
        let weight: Vec<f64> = (0..t.len() * 9).map(|i| (i as f64 * 0.3).cos()).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let mut pass = Pass::default();
                net.evaluate(
                    Batch {
                        x: &x,
                        t: &t,
                        r: &r,
                    },
                    true,
                    &mut pass,
                );
                let gradient = net.backward(&weight, &mut pass).to_vec();
                (pass.logits, pass.tangent, gradient)
            })
        };
        assert_eq!(run(1), run(3));
    }
}
