//! The whole diffusion transformer, `(x, t, r) -> logits`.
//!
//! ```text
//! e_t = sigma_map(time(t))                 e_r = step_map(r - t)
//! c   = silu(e_t)                          conditions the blocks and the final layer
//!       silu(e_t + e_r)                    the same with Step::Trunk
//! c2  = silu(e_t + e_r)                    conditions the head of Step::Correction
//! h   = block_n(.. block_1(E[x], c) .., c)
//! y   = norm(h; shift, scale of c)
//!       + correction(h, c2)                with Step::Correction
//! logits = y W^T + b
//! ```
//!
//! `x [N]` symbols, `t, r [B]`, `c, c2 [B, E]`, `h, y [N, C]`, logits `[N, V]`, raw: the mask is not
//! taken out. There is no dropout.

use burn::tensor::{Device, Element, FloatDType, Int, Tensor, TensorData};

use super::{Gradient, Parameters, block, chunks, correction, embedding, norm, silu, time_map};
use crate::dit::{Config, Layout, Step};
use crate::{Error, Real};

/// A network: its sizes and its parameters, on a device and in a precision.
#[derive(Clone, Debug)]
pub struct Dit {
    /// The sizes.
    pub config: Config,
    /// The parameters by their layout.
    pub parameters: Parameters,
    /// Multiplies the correction; 1 as trained.
    pub gain: f64,
    /// Where the parameters are.
    pub device: Device,
    /// Their precision.
    pub dtype: FloatDType,
}

/// The logits and what the forward pass keeps for [`Dit::backward`] and [`Dit::tangent`].
#[derive(Clone, Debug)]
pub struct Pass {
    /// `[N, V]`.
    pub logits: Tensor<2>,
    /// What each block kept.
    pub blocks: Vec<block::Kept>,
    /// `h`.
    pub hidden: Tensor<2>,
    /// `y`.
    pub output: Tensor<2>,
    ids: Tensor<1, Int>,
    embedded: Tensor<2>,
    /// The derivative of `time(t)`.
    dtime: Tensor<1>,
    sigma: time_map::Kept,
    step: Option<time_map::Kept>,
    /// What `c` is the SiLU of.
    sum: Tensor<2>,
    c: Tensor<2>,
    scale: Tensor<2>,
    correction: Option<Corrected>,
}

/// What the correction head adds to a pass.
#[derive(Clone, Debug)]
struct Corrected {
    /// What `c2` is the SiLU of.
    sum: Tensor<2>,
    kept: correction::Kept,
}

impl Dit {
    /// A network of these sizes with the parameters of a flat vector, see [`Layout`].
    pub fn from_parameters<T: Real + Element>(
        config: Config,
        flat: &[T],
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Self, Error> {
        let config = config.checked()?;
        let layout = Layout::new(&config);
        if layout.len() != flat.len() {
            return Err(Error::Config(format!(
                "a network of these sizes has {} parameters, not {}",
                layout.len(),
                flat.len()
            )));
        }
        Ok(Self {
            config,
            parameters: Parameters::new(layout, flat, device, dtype),
            gain: 1.0,
            device: device.clone(),
            dtype,
        })
    }

    /// The logits of `x [N]` at `t, r [B]`, with all that is needed for the derivatives.
    ///
    /// # Panics
    ///
    /// If `x` does not divide into as many sequences as there are times, or holds a symbol
    /// outside the vocabulary.
    pub fn forward(&self, x: &[usize], t: &[f64], r: &[f64]) -> Pass {
        let sequences = t.len();
        assert!(sequences > 0 && r.len() == sequences && x.len().is_multiple_of(sequences));
        assert!(!x.is_empty() && x.iter().all(|&id| id < self.config.vocabulary));
        let p = &self.parameters;
        let layout = &p.layout;

        let (time, dtime): (Vec<_>, Vec<_>) = t.iter().map(|&t| self.config.time.value(t)).unzip();
        let gap: Vec<f64> = t.iter().zip(r).map(|(t, r)| r - t).collect();
        let gap = self.numbers(gap);
        let (e_t, sigma) = time_map::forward(p, &layout.sigma, &self.numbers(time));
        let (e_r, step) = match &layout.step {
            Some(map) => {
                let (e_r, kept) = time_map::forward(p, map, &gap);
                (Some(e_r), Some(kept))
            }
            None => (None, None),
        };
        let both = e_r.map_or_else(|| e_t.clone(), |e_r| e_t.clone() + e_r);
        let sum = match self.config.step {
            Step::Trunk => both.clone(),
            Step::None | Step::Correction { .. } => e_t,
        };
        let c = silu::forward(&sum);

        let ids = x.iter().map(|&id| id as i64).collect();
        let ids = Tensor::from_data(TensorData::new(ids, [x.len()]), &self.device);
        let embedded = embedding::forward(&p.matrix(&layout.embedding), &ids);
        let mut hidden = embedded.clone();
        let mut blocks = Vec::with_capacity(layout.blocks.len());
        for part in &layout.blocks {
            let (y, kept) = block::forward(p, part, self.config.heads, &hidden, &c);
            hidden = y;
            blocks.push(kept);
        }

        let [shift, scale] = chunks(&p.forward(&layout.modulation, &c));
        let mut output = norm::forward(&hidden, &p.vector(&layout.norm), &shift, &scale);
        let correction = layout.correction.as_ref().map(|head| {
            let gap = gap.unsqueeze_dim(1) * self.gain;
            let c2 = silu::forward(&both);
            let (y, kept) = correction::forward(p, head, &hidden, &c2, &gap);
            output = output.clone() + y;
            Corrected { sum: both, kept }
        });
        Pass {
            logits: p.forward(&layout.head, &output),
            blocks,
            hidden,
            output,
            ids,
            embedded,
            dtime: self.numbers(dtime),
            sigma,
            step,
            sum,
            c,
            scale,
            correction,
        }
    }

    /// The gradient in every parameter, flat, from `glogits = d loss / d logits [N, V]`.
    pub fn backward<T: Real + Element>(&self, pass: &Pass, glogits: &Tensor<2>) -> Vec<T> {
        let p = &self.parameters;
        let layout = &p.layout;
        let mut gradient = Gradient::zeros(p);

        let goutput = p.backward(&layout.head, &pass.output, glogits, &mut gradient);
        let weight = p.vector(&layout.norm);
        let (mut ghidden, gw, gshift, gscale) =
            norm::backward(&pass.hidden, &weight, &pass.scale, &goutput);
        gradient.add(&layout.norm, gw);
        let gmodulation = Tensor::cat(vec![gshift, gscale], 1);
        let mut gc = p.backward(&layout.modulation, &pass.c, &gmodulation, &mut gradient);

        // What arrives at e_t + e_r from the correction head.
        let mut gboth = pass.sum.zeros_like();
        if let (Some(head), Some(correction)) = (&layout.correction, &pass.correction) {
            let (gh, gc2) =
                correction::backward(p, head, &correction.kept, &goutput, &mut gradient);
            ghidden = ghidden + gh;
            gboth = silu::backward(&correction.sum, &gc2);
        }

        for (part, kept) in layout.blocks.iter().zip(&pass.blocks).rev() {
            let (gx, more) = block::backward(p, part, kept, &ghidden, &mut gradient);
            ghidden = gx;
            gc = gc + more;
        }
        let table = p.matrix(&layout.embedding);
        let gtable = embedding::backward(&table, &pass.ids, &ghidden);
        gradient.add(&layout.embedding, gtable);

        let gsum = silu::backward(&pass.sum, &gc);
        let ge_t = gsum.clone() + gboth.clone();
        time_map::backward(p, &layout.sigma, &pass.sigma, &ge_t, &mut gradient);
        if let (Some(map), Some(kept)) = (&layout.step, &pass.step) {
            let ge_r = match self.config.step {
                Step::Trunk => gsum,
                Step::None | Step::Correction { .. } => gboth,
            };
            time_map::backward(p, map, kept, &ge_r, &mut gradient);
        }
        gradient.to_vec()
    }

    /// `d logits / dt` at fixed `r`: `dtime` as the config has it, and `d(r - t) = -1`.
    pub fn tangent(&self, pass: &Pass) -> Tensor<2> {
        let p = &self.parameters;
        let layout = &p.layout;

        let dgap = pass.dtime.ones_like().neg();
        let de_t = time_map::tangent(p, &layout.sigma, &pass.sigma, &pass.dtime);
        let dboth = match (&layout.step, &pass.step) {
            (Some(map), Some(kept)) => de_t.clone() + time_map::tangent(p, map, kept, &dgap),
            _ => de_t.clone(),
        };
        let dsum = match self.config.step {
            Step::Trunk => &dboth,
            Step::None | Step::Correction { .. } => &de_t,
        };
        let dc = silu::tangent(&pass.sum, dsum);

        let mut dhidden = embedding::tangent(&pass.embedded);
        for (part, kept) in layout.blocks.iter().zip(&pass.blocks) {
            dhidden = block::tangent(p, part, kept, &dhidden, &dc);
        }

        let [dshift, dscale] = chunks(&p.tangent(&layout.modulation, &dc));
        let weight = p.vector(&layout.norm);
        let mut doutput = norm::tangent(
            &pass.hidden,
            &weight,
            &pass.scale,
            &dhidden,
            &dshift,
            &dscale,
        );
        if let (Some(head), Some(correction)) = (&layout.correction, &pass.correction) {
            let dgap = dgap.unsqueeze_dim(1) * self.gain;
            let dc2 = silu::tangent(&correction.sum, &dboth);
            let dy = correction::tangent(p, head, &correction.kept, &dhidden, &dc2, &dgap);
            doutput = doutput + dy;
        }
        p.tangent(&layout.head, &doutput)
    }

    /// The logits and `d logits / dt` at fixed `r`.
    pub fn dual(&self, x: &[usize], t: &[f64], r: &[f64]) -> (Tensor<2>, Tensor<2>) {
        let pass = self.forward(x, t, r);
        let dlogits = self.tangent(&pass);
        (pass.logits, dlogits)
    }

    /// One number per sequence.
    fn numbers(&self, values: Vec<f64>) -> Tensor<1> {
        let n = values.len();
        Tensor::from_data(
            TensorData::new(values, [n]),
            (&self.device, self.dtype.into()),
        )
    }
}
