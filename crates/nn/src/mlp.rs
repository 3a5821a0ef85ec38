//! A multi-layer perceptron with SiLU between its layers: forward, tangent and backward.
//!
//! All parameters are one flat vector, layer by layer, `W [I, O]` then `b [O]`, which is what an
//! optimizer, a checkpoint and a reduction over threads want to see.

use fewstep_ctmc::random::{Key, Purpose, normal};

use crate::{Real, linear, silu};

/// The network's shape and parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlp<T> {
    sizes: Vec<usize>,
    parameters: Vec<T>,
}

/// What a forward pass over a chunk of rows leaves for the tangent and backward passes. Buffers
/// are kept from one pass to the next.
#[derive(Clone, Debug, Default)]
pub struct Tape<T> {
    /// The input of each layer, `[R, I]`, and the network's output last.
    activations: Vec<Vec<T>>,
    /// `silu'` at each hidden layer, `[R, O]`.
    slopes: Vec<Vec<T>>,
    moving: Vec<T>,
    next: Vec<T>,
}

impl<T: Real> Mlp<T> {
    /// A network with these layer sizes, inputs first. Weights are `N(0, 1/I)`; the last layer's
    /// are zero if `zero_output`, so that the network starts as the constant 0.
    pub fn new(sizes: &[usize], zero_output: bool, seed: u64, stream: u64) -> Self {
        assert!(sizes.len() >= 2, "a network has inputs and outputs");
        let key = Key::new(seed, Purpose::Init);
        let mut parameters = Vec::new();
        for (layer, pair) in sizes.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let mut rng = key.at(stream, layer as u64);
            let zero = zero_output && layer + 2 == sizes.len();
            let scale = if zero {
                0.0
            } else {
                (inputs as f64).sqrt().recip()
            };
            parameters.extend((0..inputs * outputs).map(|_| T::of(scale * normal(&mut rng))));
            parameters.extend(std::iter::repeat_n(T::of(0.0), outputs));
        }
        Self {
            sizes: sizes.to_vec(),
            parameters,
        }
    }

    /// The network of given parameters.
    pub fn from_parameters(sizes: &[usize], parameters: Vec<T>) -> Self {
        let count = |pair: &[usize]| (pair[0] + 1) * pair[1];
        let total: usize = sizes.windows(2).map(count).sum();
        assert_eq!(parameters.len(), total, "parameters");
        let sizes = sizes.to_vec();
        Self { sizes, parameters }
    }

    /// Layer sizes, inputs first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// All parameters.
    pub fn parameters(&self) -> &[T] {
        &self.parameters
    }

    /// All parameters, to be updated.
    pub fn parameters_mut(&mut self) -> &mut [T] {
        &mut self.parameters
    }

    /// `W`, `b` and their place in the flat vector, for each layer.
    fn layers(&self) -> Vec<Layer> {
        let mut start = 0;
        self.sizes
            .windows(2)
            .map(|pair| {
                let layer = Layer {
                    start,
                    inputs: pair[0],
                    outputs: pair[1],
                };
                start = layer.end();
                layer
            })
            .collect()
    }

    /// The output `[R, O]` for `input [R, I]`.
    pub fn forward<'a>(&self, input: &[T], tape: &'a mut Tape<T>) -> &'a [T] {
        let last = self.sizes.len() - 2;
        let rows = input.len() / self.sizes[0];
        tape.activations.resize_with(last + 2, Vec::new);
        tape.slopes.resize_with(last, Vec::new);
        tape.activations[0].clear();
        tape.activations[0].extend_from_slice(input);
        for (i, layer) in self.layers().iter().enumerate() {
            let (before, after) = tape.activations.split_at_mut(i + 1);
            let out = &mut after[0];
            out.resize(rows * layer.outputs, T::of(0.0));
            let (w, b) = layer.of(&self.parameters);
            linear::forward(&before[i], w, b, out);
            if i < last {
                tape.slopes[i].resize(out.len(), T::of(0.0));
                silu::forward(out, &mut tape.slopes[i]);
            }
        }
        &tape.activations[last + 1]
    }

    /// The output's derivative `[R, O]` along `direction [R, I]` of the input, after
    /// [`forward`](Self::forward).
    pub fn tangent<'a>(&self, direction: &[T], tape: &'a mut Tape<T>) -> &'a [T] {
        let rows = direction.len() / self.sizes[0];
        tape.moving.clear();
        tape.moving.extend_from_slice(direction);
        for (i, layer) in self.layers().iter().enumerate() {
            tape.next.resize(rows * layer.outputs, T::of(0.0));
            let (w, _) = layer.of(&self.parameters);
            linear::tangent(&tape.moving, w, layer.outputs, &mut tape.next);
            if let Some(slope) = tape.slopes.get(i) {
                silu::chain(slope, &mut tape.next);
            }
            std::mem::swap(&mut tape.moving, &mut tape.next);
        }
        &tape.moving
    }

    /// Writes the gradient of `sum gradient_out * output` in the parameters to `gradient`, after
    /// [`forward`](Self::forward). A tangent pass in between does no harm.
    pub fn backward(&self, gradient_out: &[T], tape: &mut Tape<T>, gradient: &mut [T]) {
        self.back(gradient_out, tape, gradient, false);
    }

    /// The same, and the gradient `[R, I]` in the input.
    pub fn backward_through<'a>(
        &self,
        gradient_out: &[T],
        tape: &'a mut Tape<T>,
        gradient: &mut [T],
    ) -> &'a [T] {
        self.back(gradient_out, tape, gradient, true);
        &tape.moving
    }

    /// The input's gradient is left in `tape.moving` if it is wanted.
    fn back(&self, gradient_out: &[T], tape: &mut Tape<T>, gradient: &mut [T], through: bool) {
        let rows = gradient_out.len() / self.sizes[self.sizes.len() - 1];
        tape.moving.clear();
        tape.moving.extend_from_slice(gradient_out);
        for (i, layer) in self.layers().iter().enumerate().rev() {
            if let Some(slope) = tape.slopes.get(i) {
                silu::chain(slope, &mut tape.moving);
            }
            let (w, _) = layer.of(&self.parameters);
            let (gw, gb) = gradient[layer.start..layer.end()].split_at_mut(w.len());
            tape.next.resize(rows * layer.inputs, T::of(0.0));
            let ga = (i > 0 || through).then_some(&mut tape.next[..]);
            linear::backward(
                &tape.activations[i],
                w,
                &tape.moving,
                layer.outputs,
                (gw, gb),
                ga,
            );
            std::mem::swap(&mut tape.moving, &mut tape.next);
        }
    }
}

/// Where a layer lies in the flat parameters.
#[derive(Clone, Copy)]
struct Layer {
    start: usize,
    inputs: usize,
    outputs: usize,
}

impl Layer {
    fn end(self) -> usize {
        self.start + (self.inputs + 1) * self.outputs
    }

    fn of<T>(self, parameters: &[T]) -> (&[T], &[T]) {
        parameters[self.start..self.end()].split_at(self.inputs * self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smooth(n: usize, phase: f64) -> Vec<f64> {
        (0..n).map(|i| (i as f64 * 1.7 + phase).sin()).collect()
    }

    /// Odd sizes, one row, one hidden unit, no hidden layer.
    #[test]
    fn tangent_and_gradient_agree_with_central_differences() {
        for (sizes, rows) in [
            (vec![5, 7, 3, 4], 6),
            (vec![3, 1, 2], 1),
            (vec![4, 3], 5),
            (vec![2, 33, 17, 1], 9),
        ] {
            let mut net = Mlp::<f64>::new(&sizes, false, 3, 0);
            let (inputs, outputs) = (sizes[0], sizes[sizes.len() - 1]);
            let input = smooth(rows * inputs, 0.1);
            let direction = smooth(rows * inputs, 0.7);
            let weight = smooth(rows * outputs, 1.3);
            let mut tape = Tape::default();
            net.forward(&input, &mut tape);
            let tangent = net.tangent(&direction, &mut tape).to_vec();
            let mut gradient = vec![0.0; net.parameters().len()];
            net.backward(&weight, &mut tape, &mut gradient);
            let mut again = gradient.clone();
            let inner = net.backward_through(&weight, &mut tape, &mut again);
            assert_eq!(again, gradient);
            // What is pulled back along the direction is what is pushed forward along it.
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert!((dot(inner, &direction) - dot(&weight, &tangent)).abs() < 1e-10);

            let h = 1e-5;
            let shifted = |sign: f64| -> Vec<f64> {
                input
                    .iter()
                    .zip(&direction)
                    .map(|(x, d)| x + sign * h * d)
                    .collect()
            };
            let up = net.forward(&shifted(1.0), &mut Tape::default()).to_vec();
            let down = net.forward(&shifted(-1.0), &mut Tape::default()).to_vec();
            for i in 0..tangent.len() {
                assert!(((up[i] - down[i]) / (2.0 * h) - tangent[i]).abs() < 1e-8);
            }
            for i in 0..gradient.len() {
                let mut loss = |step: f64| {
                    net.parameters_mut()[i] += step;
                    let y = net.forward(&input, &mut Tape::default()).to_vec();
                    net.parameters_mut()[i] -= step;
                    y.iter().zip(&weight).map(|(y, w)| y * w).sum::<f64>()
                };
                let numeric = (loss(h) - loss(-h)) / (2.0 * h);
                assert!(
                    (numeric - gradient[i]).abs() < 1e-8,
                    "{sizes:?} parameter {i}"
                );
            }
        }
    }

    #[test]
    fn f32_follows_f64() {
        let wide = Mlp::<f64>::new(&[36, 256, 256, 16], false, 1, 0);
        let narrow = Mlp::<f32>::new(&[36, 256, 256, 16], false, 1, 0);
        let input = smooth(20 * 36, 0.2);
        let short: Vec<f32> = input.iter().map(|&v| v as f32).collect();
        let (mut a, mut b) = (Tape::default(), Tape::default());
        let a = wide.forward(&input, &mut a);
        let b = narrow.forward(&short, &mut b);
        for (a, b) in a.iter().zip(b) {
            assert!((a - f64::from(*b)).abs() < 1e-5, "{a} {b}");
        }
    }

    #[test]
    fn a_zero_output_layer_starts_at_zero() {
        let net = Mlp::<f32>::new(&[4, 8, 3], true, 0, 0);
        let out = net.forward(&[0.5; 8], &mut Tape::default()).to_vec();
        assert_eq!(out, [0.0; 6]);
    }
}
