//! The network: a DiT in MaskGIT's frame.

use std::{ops::Range, path::Path};

use fewstep_ctmc::random::{Key, Purpose, uniform};

use super::{Config, Stored, config::published};
use crate::{
    Adaptation, Batch, Error, Gradient, Learner, Logits, Network, Real, Rows, Want,
    checkpoint::{self, Blueprint, Options},
    dit::{Dit, Layout, Pass, Step},
};

/// Deviation of the first weights, as the published network begins.
const DEVIATION: f64 = 0.02;

/// A MaskGIT and its parameters.
#[derive(Clone, Debug)]
pub struct MaskGit<T> {
    config: Config,
    net: Dit<T>,
}

impl<T: Real> MaskGit<T> {
    /// A network with random weights, whose time and step change nothing yet.
    pub fn new(config: Config, seed: u64) -> Result<Self, Error> {
        let config = config.checked()?;
        let layout = config.layout();
        let mut parameters = vec![T::of(0.0); layout.len()];
        let key = Key::new(seed, Purpose::Init);
        for (i, tensor) in layout.tensors.iter().enumerate() {
            let name = &tensor.name[..];
            let out = &mut parameters[tensor.range.clone()];
            let norms = ["norm.weight", "layer.0.weight", "layer.4.weight"];
            if norms.iter().any(|norm| name.ends_with(norm)) {
                out.fill(T::of(1.0));
            } else if name.ends_with(".modulation") {
                // A scale of nothing, and an open gate.
                let half = out.len() / 2;
                out[half..].fill(T::of(1.0));
            } else if tensor.shape.len() > 1 && name != "bias" && !starts_at_zero(name) {
                let mut rng = key.at(2, i as u64);
                let bound = DEVIATION * 3f64.sqrt();
                out.fill_with(|| T::of(bound * (2.0 * uniform(&mut rng) - 1.0)));
            }
        }
        Ok(Self::assemble(config, layout, parameters))
    }

    fn assemble(config: Config, layout: Layout, parameters: Vec<T>) -> Self {
        Self {
            net: Dit::assemble(config.inner(), layout, parameters),
            config,
        }
    }

    /// A network with the parameters of the published one, in the order of [`Blueprint::tensors`].
    pub fn from_published(config: Config, parameters: &[T]) -> Result<Self, Error> {
        let mut net = Self::new(config, 0)?;
        let tensors = net.config.tensors();
        let total = tensors.last().map_or(0, |tensor| tensor.range.end);
        if parameters.len() != total {
            return Err(Error::Config(format!(
                "{} parameters for a MaskGIT of {total}",
                parameters.len()
            )));
        }
        let slots: Vec<Range<usize>> = net
            .net
            .layout()
            .tensors
            .iter()
            .filter(|tensor| published(&tensor.name))
            .map(|tensor| tensor.range.clone())
            .collect();
        for (slot, tensor) in slots.into_iter().zip(tensors) {
            net.net.parameters_mut()[slot].copy_from_slice(&parameters[tensor.range]);
        }
        Ok(net)
    }

    /// The network of a published `.pth` or of a `.safetensors` file with its names, with a way to see
    /// a step that changes nothing yet; or of a file of [`save`](Self::save), which has its own.
    pub fn load(
        path: impl AsRef<Path>,
        step: Step,
        options: &Options,
    ) -> Result<Self, checkpoint::Error> {
        let path = path.as_ref();
        let held = checkpoint::load_network::<Stored, T>(path, options)?;
        let Stored(config) = held.config;
        if config.step != Step::None {
            let layout = config.layout();
            return Ok(Self::assemble(config, layout, held.parameters));
        }
        let config = Config { step, ..config };
        Self::from_published(config, &held.parameters)
            .map_err(|error| checkpoint::Error::config(path, error.to_string()))
    }

    /// Writes a `.safetensors` file under the published names, with what sees steps, if there is such,
    /// under ours beside them.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), checkpoint::Error> {
        let parameters = self.net.parameters();
        if self.config.step != Step::None {
            return checkpoint::save_network(path, &self.layout().tensors, parameters);
        }
        let held = self.layout().tensors.iter();
        let held = held.filter(|tensor| published(&tensor.name));
        let held: Vec<T> = held
            .flat_map(|tensor| parameters[tensor.range.clone()].iter().copied())
            .collect();
        checkpoint::save_network(path, &self.config.tensors(), &held)
    }

    /// Its sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its parameters lie.
    pub fn layout(&self) -> &Layout {
        self.net.layout()
    }

    /// The factor on the correction.
    pub fn gain(&mut self) -> &mut f64 {
        &mut self.net.gain
    }
}

/// What makes a step change nothing at the start.
fn starts_at_zero(name: &str) -> bool {
    let ends = ["modulation.weight", "correction.mlp.2", "adaLN_modulation"];
    ends.iter().any(|end| name.contains(end))
}

impl<T: Real> Network<T> for MaskGit<T> {
    type Pass = Pass<T>;

    /// Codes and the mask.
    fn symbols(&self) -> usize {
        self.net.symbols()
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        self.net.evaluate(batch, want, pass);
    }

    fn visit<R: Send>(
        &self,
        pass: &Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        self.net.visit(pass, rows, consumer)
    }
}

impl<T: Real> Learner<T> for MaskGit<T> {
    fn parameters(&self) -> &[T] {
        self.net.parameters()
    }

    fn parameters_mut(&mut self) -> &mut [T] {
        self.net.parameters_mut()
    }

    fn trainable(&self, adaptation: Adaptation) -> Range<usize> {
        self.net.trainable(adaptation)
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        self.net.descend(pass, rows, consumer, gradient)
    }

    fn backward(&self, pass: &mut Pass<T>, gradient: &mut Gradient<T>) {
        self.net.backward(pass, gradient);
    }
}
