//! The network with its weights: pictures to features and logits.

use std::path::Path;

use rayon::prelude::*;

use super::{
    Config,
    plan::{Filter, Plan, Step},
};
use crate::{
    Error, Real,
    checkpoint::{self, Options},
    kernel::{View, matmul},
    layers::{
        conv::{self, Conv},
        picture::{Pictures, Window},
        resample::{self, Pool, bilinear},
    },
};

/// Of every norm.
const EPS: f64 = 1e-3;
/// The side pictures are brought to.
const SIDE: usize = 299;
/// Pictures that go through together.
const TOGETHER: usize = 8;

/// The network, with each norm multiplied into the convolution before it.
#[derive(Clone, Debug)]
pub struct Inception<T> {
    config: Config,
    plan: Plan,
    parameters: Vec<T>,
}

/// What the network says of pictures.
#[derive(Clone, Debug, Default)]
pub struct Judged<T> {
    /// `[B, 2048]`.
    pub features: Vec<T>,
    /// `[B, 1008]` without bias, if the network has a head.
    pub logits: Option<Vec<T>>,
}

impl<T: Real> Inception<T> {
    /// A network of given parameters, in the order of its tensors.
    pub fn from_parameters(config: Config, mut parameters: Vec<T>) -> Result<Self, Error> {
        let plan = config.checked()?.plan();
        let total = plan.tensors.last().map_or(0, |tensor| tensor.range.end);
        if parameters.len() != total {
            return Err(Error::Config(format!(
                "{} parameters for an Inception of {total}",
                parameters.len()
            )));
        }
        fold(&plan.steps, &mut parameters);
        Ok(Self {
            config,
            plan,
            parameters,
        })
    }

    /// The network of a file with the names of the published archive.
    pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Self, checkpoint::Error> {
        let path = path.as_ref();
        let held = checkpoint::load_network::<Config, T>(path, options)?;
        Self::from_parameters(held.config, held.parameters)
            .map_err(|error| checkpoint::Error::config(path, error.to_string()))
    }

    /// Its sizes.
    pub fn config(&self) -> Config {
        self.config
    }

    /// What it says of pictures `[B, H, W, C]` of bytes, with 3 channels or 1, of any size.
    pub fn judge(&self, pictures: Pictures, pixels: &[u8]) -> Result<Judged<T>, Error> {
        let sides = 1..=1 << 14;
        let colours = [1, 3].contains(&pictures.channels);
        let sized = sides.contains(&pictures.height) && sides.contains(&pictures.width);
        if !colours || !sized || pixels.len() != pictures.size() {
            return Err(Error::Config(format!(
                "{} bytes of pictures of {} x {} with {} channels; there are 1 or 3 channels and at \
                 most 16384 pixels a side",
                pixels.len(),
                pictures.width,
                pictures.height,
                pictures.channels
            )));
        }
        let mut judged = Judged::default();
        for some in pixels.chunks(TOGETHER * pictures.one()) {
            let here = Pictures {
                count: some.len() / pictures.one(),
                channels: 3,
                ..pictures
            };
            let copies = 3 / pictures.channels;
            let bytes = some.iter();
            let bytes = bytes.flat_map(|&byte| std::iter::repeat_n(f64::from(byte), copies));
            let x: Vec<T> = bytes.map(T::of).collect();
            let mut x = bilinear(here, &x, (SIDE, SIDE));
            let (middle, share) = (T::of(128.0), T::of(1.0 / 128.0));
            x.par_iter_mut().for_each(|v| *v = (*v - middle) * share);
            let here = Pictures {
                height: SIDE,
                width: SIDE,
                ..here
            };
            judged.features.extend(self.features(here, x));
        }
        judged.logits = self.plan.head.clone().map(|head| {
            let (rows, width) = (pictures.count, self.plan.features);
            let head = &self.parameters[head];
            let classes = head.len() / width;
            let mut logits = vec![T::of(0.0); rows * classes];
            let features = View::new(&judged.features, rows, width);
            matmul(
                features,
                View::new(head, classes, width).t(),
                &mut logits,
                false,
            );
            logits
        });
        Ok(judged)
    }

    /// Features `[B, F]` of pictures with values in `[-1, 1]`.
    fn features(&self, pictures: Pictures, x: Vec<T>) -> Vec<T> {
        let (out, x) = self.run(&self.plan.steps, pictures, x);
        let whole = Window {
            size: [out.height, out.width],
            ..Window::inside(1, 1)
        };
        let mut features = vec![T::of(0.0); out.count * out.channels];
        resample::pool(Pool::Mean, whole, out, &x, &mut features);
        features
    }

    fn run(&self, steps: &[Step], mut pictures: Pictures, mut x: Vec<T>) -> (Pictures, Vec<T>) {
        for step in steps {
            (pictures, x) = match step {
                Step::Conv(filter) => self.conv(filter, pictures, &x),
                Step::Pool(how, window) => {
                    let out = window.out(pictures, pictures.channels);
                    let mut y = vec![T::of(0.0); out.size()];
                    resample::pool(*how, *window, pictures, &x, &mut y);
                    (out, y)
                }
                Step::Fork(branches) => {
                    let one = |branch: &Vec<Step>| self.run(branch, pictures, x.clone());
                    side_by_side(branches.iter().map(one).collect())
                }
            };
        }
        (pictures, x)
    }

    fn conv(&self, filter: &Filter, pictures: Pictures, x: &[T]) -> (Pictures, Vec<T>) {
        let out = filter.window.out(pictures, filter.outputs);
        let mut y = vec![T::of(0.0); out.size()];
        let conv = Conv {
            window: filter.window,
            weight: &self.parameters[filter.weight.clone()],
            bias: &self.parameters[filter.beta.clone()],
            inputs: filter.inputs,
            outputs: filter.outputs,
        };
        conv.forward(pictures, x, &mut y, false);
        let zero = T::of(0.0);
        y.par_chunks_mut(1 << 14).for_each(|y| {
            y.iter_mut()
                .for_each(|v| *v = if *v > zero { *v } else { zero });
        });
        (out, y)
    }
}

/// Channels of several states side by side.
fn side_by_side<T: Real>(parts: Vec<(Pictures, Vec<T>)>) -> (Pictures, Vec<T>) {
    let channels = parts.iter().map(|(pictures, _)| pictures.channels).sum();
    let out = parts[0].0.with(channels);
    let mut y = vec![T::of(0.0); out.size()];
    y.par_chunks_mut(channels)
        .enumerate()
        .for_each(|(i, mut y)| {
            for (pictures, part) in &parts {
                let (to, rest) = y.split_at_mut(pictures.channels);
                to.copy_from_slice(&part[i * pictures.channels..][..pictures.channels]);
                y = rest;
            }
        });
    (out, y)
}

/// Brings weights into our order and multiplies norms into them: `beta` becomes the bias.
fn fold<T: Real>(steps: &[Step], parameters: &mut [T]) {
    for step in steps {
        match step {
            Step::Pool(..) => {}
            Step::Fork(branches) => branches.iter().for_each(|steps| fold(steps, parameters)),
            Step::Conv(filter) => {
                let [height, width] = filter.window.size;
                let shape = [filter.outputs, filter.inputs, height, width];
                conv::arranged(&mut parameters[filter.weight.clone()], shape);
                let one = filter.weight.len() / filter.outputs;
                for o in 0..filter.outputs {
                    let rstd = 1.0 / (parameters[filter.var.start + o].widen() + EPS).sqrt();
                    let mean = parameters[filter.mean.start + o].widen();
                    let bias = &mut parameters[filter.beta.start + o];
                    *bias = T::of(bias.widen() - mean * rstd);
                    let at = filter.weight.start + o * one;
                    for w in &mut parameters[at..at + one] {
                        *w = T::of(w.widen() * rstd);
                    }
                }
            }
        }
    }
}
