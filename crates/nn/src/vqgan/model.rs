//! The whole: pictures to codes, codes to pictures.

use std::path::Path;

use rayon::prelude::*;

use super::{
    Config, Layout,
    block::State,
    layout::{Filter, Stage},
};
use crate::{
    Error, Real,
    checkpoint::{self, Options},
    kernel::{View, matmul},
    layers::{conv, picture::Pictures},
};

/// A VQGAN and its parameters.
#[derive(Clone, Debug)]
pub struct Vqgan<T> {
    config: Config,
    layout: Layout,
    /// Convolutions are arranged for [`conv`].
    parameters: Vec<T>,
}

impl<T: Real> Vqgan<T> {
    /// A network of given parameters, in the order of [`Layout`] and in their published shapes.
    pub fn from_parameters(config: Config, mut parameters: Vec<T>) -> Result<Self, Error> {
        let config = config.checked()?;
        let layout = Layout::new(&config);
        if parameters.len() != layout.len() {
            return Err(Error::Config(format!(
                "{} parameters for a VQGAN of {}",
                parameters.len(),
                layout.len()
            )));
        }
        for tensor in &layout.tensors {
            if let [outputs, inputs, height, width] = tensor.shape[..] {
                let weight = &mut parameters[tensor.range.clone()];
                conv::arranged(weight, [outputs, inputs, height, width]);
            }
        }
        Ok(Self {
            config,
            layout,
            parameters,
        })
    }

    /// The network of a Lightning `.ckpt`, a `.pth` or a `.safetensors` file. What it was trained with
    /// (`loss.*`) may be there and is not read; anything else that does not fit is an error.
    pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Self, checkpoint::Error> {
        let path = path.as_ref();
        let held = checkpoint::load_network::<Config, T>(path, options)?;
        Self::from_parameters(held.config, held.parameters)
            .map_err(|error| checkpoint::Error::config(path, error.to_string()))
    }

    /// Its sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Codes `[B, H / f, W / f]` of pictures `[B, H, W, C]` with values in `[-1, 1]`.
    pub fn encode(&self, pictures: Pictures, x: &[T]) -> Result<Vec<usize>, Error> {
        Ok(self.nearest(&self.vectors(pictures, x)?))
    }

    /// What the encoder makes of pictures, `[B, H / f, W / f, E]`, before it is quantised.
    pub fn vectors(&self, pictures: Pictures, x: &[T]) -> Result<Vec<T>, Error> {
        let factor = self.config.factor();
        let whole = [pictures.height, pictures.width]
            .iter()
            .all(|side| *side > 0 && side.is_multiple_of(factor));
        if !whole || pictures.channels != self.config.channels || x.len() != pictures.size() {
            return Err(Error::Config(format!(
                "pictures of {} x {} with {} channels for a VQGAN of {} channels that takes \
                 multiples of {factor} pixels",
                pictures.width, pictures.height, pictures.channels, self.config.channels
            )));
        }
        let state = State::new(&self.parameters, pictures, x.to_vec());
        Ok(state.run(&self.layout.encoder).x)
    }

    /// The code nearest to each vector `[n, E]`, by squared distance; of equals the first.
    pub fn nearest(&self, vectors: &[T]) -> Vec<usize> {
        /// Vectors whose distances are held at a time.
        const ROWS: usize = 1024;
        let (e, codes) = (self.config.embedding, self.config.codes);
        let book = &self.parameters[self.layout.codebook.clone()];
        let square = |row: &[T]| row.iter().map(|v| v.widen() * v.widen()).sum::<f64>();
        let squares: Vec<f64> = book.chunks_exact(e).map(square).collect();
        let mut products = Vec::new();
        let mut nearest = Vec::with_capacity(vectors.len() / e);
        for rows in vectors.chunks(ROWS * e) {
            let count = rows.len() / e;
            products.resize(count * codes, T::of(0.0));
            let book = View::new(book, codes, e);
            matmul(View::new(rows, count, e), book.t(), &mut products, false);
            // |z|^2 is the same for all codes.
            nearest.par_extend(products.par_chunks_exact(codes).map(|row| {
                let distance = |(i, p): (usize, &T)| (squares[i] - 2.0 * p.widen(), i);
                let all = row.iter().enumerate().map(distance);
                let least = all.min_by(|a, b| a.0.total_cmp(&b.0));
                least.map_or(0, |(_, code)| code)
            }));
        }
        nearest
    }

    /// Floating-point operations of the products of a [`decode`](Self::decode).
    pub fn operations(&self, (count, height, width): (usize, usize, usize)) -> f64 {
        let (mut pixels, mut total) = ((height * width) as f64, 0.0);
        let filter = |f: &Filter| 2.0 * (f.window.area() * f.inputs * f.outputs) as f64;
        for stage in &self.layout.decoder {
            total += match stage {
                Stage::Conv(conv) => pixels * filter(conv),
                Stage::Residual(block) => {
                    let all = [
                        Some(&block.conv1),
                        Some(&block.conv2),
                        block.shortcut.as_ref(),
                    ];
                    pixels * all.into_iter().flatten().map(filter).sum::<f64>()
                }
                Stage::Attention(block) => {
                    let square = filter(&block.out);
                    pixels * (4.0 * square + 4.0 * pixels * block.out.inputs as f64)
                }
                Stage::Double => {
                    pixels *= 4.0;
                    0.0
                }
                Stage::Norm(_) => 0.0,
            };
        }
        count as f64 * total
    }

    /// Pictures `[B, f h, f w, C]` of codes `[B, h, w]`; values are near `[-1, 1]` and not clamped.
    pub fn decode(
        &self,
        (count, height, width): (usize, usize, usize),
        codes: &[usize],
    ) -> Result<Vec<T>, Error> {
        let e = self.config.embedding;
        if codes.len() != count * height * width {
            return Err(Error::Config(format!(
                "{} codes for {count} pictures of {width} x {height} codes",
                codes.len()
            )));
        }
        if let Some(code) = codes.iter().find(|&&code| code >= self.config.codes) {
            return Err(Error::Config(format!(
                "code {code} is not in a codebook of {}",
                self.config.codes
            )));
        }
        let book = &self.parameters[self.layout.codebook.clone()];
        let vector = |&code: &usize| &book[code * e..(code + 1) * e];
        let x = codes.iter().flat_map(vector).copied().collect();
        let pictures = Pictures {
            count,
            height,
            width,
            channels: e,
        };
        let state = State::new(&self.parameters, pictures, x);
        Ok(state.run(&self.layout.decoder).x)
    }
}
