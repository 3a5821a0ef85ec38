//! The network and its parameters.

use fewstep_ctmc::random::{Key, Purpose, uniform};

use super::{Config, Layout, Positions, Step, head::Pool};
use crate::{Real, layers::rotary::Angles};

/// The network and its parameters.
#[derive(Clone, Debug)]
pub struct Dit<T> {
    pub(super) config: Config,
    pub(super) layout: Layout,
    pub(super) parameters: Vec<T>,
    pub(super) angles: Angles<T>,
    pub(super) pool: Pool<T>,
    /// Factor on the correction.
    pub gain: f64,
}

impl<T: Real> Dit<T> {
    /// A network with PyTorch's initial weights; modulations, head and everything that sees a step
    /// end in zeros.
    pub fn new(config: Config, seed: u64) -> Result<Self, crate::Error> {
        let config = config.checked()?;
        let layout = Layout::new(&config);
        let mut parameters = vec![T::of(0.0); layout.len()];
        let key = Key::new(seed, Purpose::Init);
        for (i, tensor) in layout.tensors.iter().enumerate() {
            let name = &tensor.name[..];
            let out = &mut parameters[tensor.range.clone()];
            if name.contains("norm") {
                out.fill(T::of(1.0));
                continue;
            }
            let zero = [
                "adaLN_modulation",
                "output_layer",
                "step_map.mlp.2",
                "correction.mlp.2",
            ];
            if zero.iter().any(|part| name.contains(part)) {
                continue;
            }
            // A bias follows its weight and has the same bound.
            let fan = if tensor.shape.len() == 2 {
                tensor.shape[1]
            } else {
                layout.tensors[i - 1].shape[1]
            };
            let bound = (fan as f64).sqrt().recip();
            let mut rng = key.at(2, i as u64);
            out.fill_with(|| T::of(bound * (2.0 * uniform(&mut rng) - 1.0)));
        }
        Ok(Self::assemble(config, layout, parameters))
    }

    /// A network of given parameters, in the order of [`Layout`].
    pub fn from_parameters(config: Config, parameters: Vec<T>) -> Result<Self, crate::Error> {
        let config = config.checked()?;
        let layout = Layout::new(&config);
        if parameters.len() != layout.len() {
            return Err(crate::Error::Config(format!(
                "{} parameters for a network of {}",
                parameters.len(),
                layout.len()
            )));
        }
        Ok(Self::assemble(config, layout, parameters))
    }

    /// Of parts that belong together.
    pub(crate) fn assemble(config: Config, layout: Layout, parameters: Vec<T>) -> Self {
        Self {
            angles: match (&layout.frame, config.positions) {
                (Some(_), _) => Angles::still(config.length, config.head_width()),
                (None, Positions::Line) => Angles::new(config.length, config.head_width()),
                (None, Positions::Grid { columns, .. }) => {
                    Angles::grid(config.length, config.head_width(), columns)
                }
            },
            config,
            layout,
            parameters,
            pool: Pool::default(),
            gain: 1.0,
        }
    }

    /// The same network with another way to see a step, whose new parts are initialised to leave
    /// its predictions as they are.
    pub fn adapted(self, step: Step, seed: u64) -> Result<Self, crate::Error> {
        let config = Config {
            step,
            ..self.config.clone()
        };
        let mut adapted = Self::new(config, seed)?;
        for tensor in &adapted.layout.tensors {
            let same = |other: &&super::Tensor| other.name == tensor.name;
            if let Some(old) = self.layout.tensors.iter().find(same)
                && old.shape == tensor.shape
            {
                adapted.parameters[tensor.range.clone()]
                    .copy_from_slice(&self.parameters[old.range.clone()]);
            }
        }
        Ok(adapted)
    }

    /// Its sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its tensors lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
