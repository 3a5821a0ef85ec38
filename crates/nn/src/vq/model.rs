//! The tokenizer's network: encoding, decoding, and one step's gradient.

use std::path::Path;

use fewstep_ctmc::random::ChaCha8Rng;
use rayon::prelude::*;

use super::{Codebook, Config, Layout, codebook::nearest, config::AROUND};
use crate::{
    Error, Mlp, Real,
    checkpoint::{self, Options},
    mlp::Tape,
    softmax,
};

/// Pictures that one thread works on together; sums are in the order of these parts.
const PART: usize = 4;
/// `beta`: what keeps vectors near their codes.
const COMMITMENT: f64 = 0.25;

/// The cells of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Rows of cells, `H`.
    pub rows: usize,
    /// Cells of a row, `W`.
    pub columns: usize,
}

impl Cells {
    /// Cells of a picture.
    pub fn count(&self) -> usize {
        self.rows * self.columns
    }

    /// The cell `to` rows and columns from a cell, if it is in the picture; `to` counts the nine around
    /// it in reading order.
    fn around(&self, cell: usize, to: usize) -> Option<usize> {
        let row = (cell / self.columns + to / 3).checked_sub(1)?;
        let column = (cell % self.columns + to % 3).checked_sub(1)?;
        (row < self.rows && column < self.columns).then_some(row * self.columns + column)
    }
}

/// A tokenizer and its parameters.
#[derive(Clone, Debug)]
pub struct Vq<T> {
    config: Config,
    layout: Layout,
    encoder: Mlp<T>,
    decoder: Mlp<T>,
    /// `e [K, E]`.
    vectors: Vec<T>,
}

/// What one step learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// `-ln law(patch)` a digit, the mean.
    pub nll: f64,
    /// `beta |z - e|^2` a channel, the mean.
    pub commitment: f64,
    /// The codes that were chosen, `[N]`.
    pub codes: Vec<usize>,
    /// Codes that came back to life.
    pub revived: usize,
}

/// A part of a batch on its way.
struct Part<T> {
    encoded: Tape<T>,
    z: Vec<T>,
}

impl<T: Real> Vq<T> {
    /// A new network; its codes are dead.
    pub fn new(config: Config, seed: u64) -> Result<Self, Error> {
        let config = config.checked()?;
        let layout = config.layout();
        let vectors = vec![T::of(0.0); layout.vectors.len()];
        Ok(Self {
            encoder: Mlp::new(&config.encoder(), false, seed, 0),
            decoder: Mlp::new(&config.decoder(), false, seed, 1),
            config,
            layout,
            vectors,
        })
    }

    /// The network of given parameters, in the order of [`Layout`].
    pub fn from_parameters(config: Config, parameters: &[T]) -> Result<Self, Error> {
        let config = config.checked()?;
        let layout = config.layout();
        if parameters.len() != layout.len() {
            return Err(Error::Config(format!(
                "{} parameters for a tokenizer of {}",
                parameters.len(),
                layout.len()
            )));
        }
        let part = |range: &std::ops::Range<usize>| parameters[range.clone()].to_vec();
        Ok(Self {
            encoder: Mlp::from_parameters(&config.encoder(), part(&layout.encoder)),
            decoder: Mlp::from_parameters(&config.decoder(), part(&layout.decoder)),
            vectors: part(&layout.vectors),
            config,
            layout,
        })
    }

    /// The network of a `.safetensors` file or of a directory with one; strict.
    pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<Self, checkpoint::Error> {
        let path = path.as_ref();
        let held = checkpoint::load_network::<Config, T>(path, options)?;
        Self::from_parameters(held.config, &held.parameters)
            .map_err(|error| checkpoint::Error::config(path, error.to_string()))
    }

    /// All parameters of a new network, in the order of [`Layout`].
    pub fn parameters(&self) -> Vec<T> {
        let mut all = [self.encoder.parameters(), self.decoder.parameters()].concat();
        all.extend_from_slice(&self.vectors);
        all.resize(self.layout.len(), T::of(0.0));
        all
    }

    /// Takes parameters over.
    pub fn set(&mut self, parameters: &[T]) {
        let layout = &self.layout;
        let parts = [
            (self.encoder.parameters_mut(), &layout.encoder),
            (self.decoder.parameters_mut(), &layout.decoder),
            (&mut self.vectors[..], &layout.vectors),
        ];
        for (to, range) in parts {
            to.copy_from_slice(&parameters[range.clone()]);
        }
    }

    /// Its sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its parameters lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Codes `[N]` of patches `[N, D]`.
    pub fn encode(&self, digits: &[usize]) -> Vec<usize> {
        let parts = digits.par_chunks(1024 * self.config.digits);
        let z = parts.flat_map_iter(|digits| {
            let mut tape = Tape::default();
            self.encoder
                .forward(&self.written(digits), &mut tape)
                .to_vec()
        });
        nearest(&self.vectors, self.config.embedding, &z.collect::<Vec<T>>())
    }

    /// The likeliest digits `[N, D]` of codes `[N]`, picture by picture. What is no code says nothing
    /// to its neighbours.
    pub fn decode(&self, cells: Cells, codes: &[usize]) -> Vec<usize> {
        let levels = self.config.levels;
        let parts = codes.par_chunks(PART * cells.count());
        let digits = parts.flat_map_iter(|codes| {
            let mut tape = Tape::default();
            let law = self
                .decoder
                .forward(&self.surroundings(cells, codes), &mut tape);
            let likeliest = |row: &[T]| {
                let all = row.iter().enumerate();
                let most =
                    all.max_by(|a, b| a.1.widen().total_cmp(&b.1.widen()).then(b.0.cmp(&a.0)));
                most.map_or(0, |(value, _)| value)
            };
            law.chunks_exact(levels).map(likeliest).collect::<Vec<_>>()
        });
        digits.collect()
    }

    /// The mean of `-ln law` a digit of patches `[N, D]` by the law that codes `[N]` are decoded to.
    pub fn surprise(&self, cells: Cells, codes: &[usize], digits: &[usize]) -> f64 {
        let (d, one) = (self.config.digits, PART * cells.count());
        let parts = codes.par_chunks(one).zip(digits.par_chunks(one * d));
        let sums = parts.map(|(codes, digits)| {
            let input = self.surroundings(cells, codes);
            let mut tape = Tape::default();
            let mut law = self.decoder.forward(&input, &mut tape).to_vec();
            self.cross_entropy(&mut law, digits, 0.0)
        });
        let sums: Vec<f64> = sums.collect();
        sums.iter().sum::<f64>() / digits.len().max(1) as f64
    }

    /// Digits `[N, D]` as ones among zeros, `[N, D L]`.
    fn written(&self, digits: &[usize]) -> Vec<T> {
        let levels = self.config.levels;
        let mut input = vec![T::of(0.0); digits.len() * levels];
        for (at, &digit) in digits.iter().enumerate() {
            input[at * levels + digit] = T::of(1.0);
        }
        input
    }

    /// The vectors of each cell and of those around it, `[N, 9 E]`; outside of a picture, zero.
    fn surroundings(&self, cells: Cells, codes: &[usize]) -> Vec<T> {
        let e = self.config.embedding;
        let mut input = vec![T::of(0.0); codes.len() * AROUND * e];
        let rows = input.chunks_exact_mut(AROUND * e).enumerate();
        for (at, row) in rows {
            let (picture, cell) = (at / cells.count(), at % cells.count());
            for (to, slot) in row.chunks_exact_mut(e).enumerate() {
                let code = cells
                    .around(cell, to)
                    .map(|c| codes[picture * cells.count() + c]);
                if let Some(code) = code.filter(|&code| code < self.config.codes) {
                    slot.copy_from_slice(&self.vectors[code * e..(code + 1) * e]);
                }
            }
        }
        input
    }

    /// Turns logits `[N, D, L]` into their gradient times `weight`; returns the sum of `-ln law`.
    fn cross_entropy(&self, logits: &mut [T], digits: &[usize], weight: f64) -> f64 {
        let levels = self.config.levels;
        let mut sum = 0.0;
        for (row, &digit) in logits.chunks_exact_mut(levels).zip(digits) {
            let own = row[digit].widen();
            sum += softmax::in_place(row) - own;
            row[digit] += T::of(-1.0);
            row.iter_mut().for_each(|g| *g = *g * T::of(weight));
        }
        sum
    }

    /// One step on pictures of patches `digits [N, D]`: the gradient in encoder and decoder is written to
    /// the front of `gradient`, the codebook in `parameters` follows. `rng` says where dead codes go.
    ///
    /// The loss is `nll + commitment`, with codes and the choice among them held fixed, and the encoder's
    /// vector in the place of its code's where the decoder's gradient comes back.
    pub fn learn(
        &mut self,
        (cells, digits): (Cells, &[usize]),
        parameters: &mut [T],
        gradient: &mut [T],
        rng: &mut ChaCha8Rng,
    ) -> Learned {
        self.set(parameters);
        let (d, e) = (self.config.digits, self.config.embedding);
        let one = PART * cells.count();
        let encode = |digits: &[usize]| {
            let mut encoded = Tape::default();
            let z = self.encoder.forward(&self.written(digits), &mut encoded);
            let z = z.to_vec();
            Part { encoded, z }
        };
        let mut parts: Vec<Part<T>> = digits.par_chunks(one * d).map(encode).collect();
        let z: Vec<T> = parts.iter().flat_map(|part| &part.z).copied().collect();
        let mut book = codebook(&self.layout, parameters);
        let revived = book.revive(&z, rng);
        self.vectors.copy_from_slice(book.vectors);
        let codes = nearest(&self.vectors, e, &z);
        let share = 1.0 / digits.len().max(1) as f64;
        let pull = COMMITMENT / z.len().max(1) as f64;
        let back = |((part, digits), codes): ((&mut Part<T>, &[usize]), &[usize])| {
            let mut own = vec![T::of(0.0); self.layout.decoder.end];
            let (to_encoder, to_decoder) = own.split_at_mut(self.layout.encoder.end);
            let mut tape = Tape::default();
            let input = self.surroundings(cells, codes);
            let mut law = self.decoder.forward(&input, &mut tape).to_vec();
            let nll = self.cross_entropy(&mut law, digits, share);
            let around = self.decoder.backward_through(&law, &mut tape, to_decoder);
            let mut gz = vec![T::of(0.0); part.z.len()];
            for (at, row) in around.chunks_exact(AROUND * e).enumerate() {
                let (first, cell) = (at - at % cells.count(), at % cells.count());
                for (to, slot) in row.chunks_exact(e).enumerate() {
                    if let Some(cell) = cells.around(cell, to) {
                        let gz = &mut gz[(first + cell) * e..(first + cell + 1) * e];
                        gz.iter_mut().zip(slot).for_each(|(g, s)| *g += *s);
                    }
                }
            }
            let mut apart = 0.0;
            for (at, &code) in codes.iter().enumerate() {
                for i in 0..e {
                    let gap = part.z[at * e + i] - self.vectors[code * e + i];
                    gz[at * e + i] += T::of(2.0 * pull) * gap;
                    apart += gap.widen().powi(2);
                }
            }
            self.encoder.backward(&gz, &mut part.encoded, to_encoder);
            (own, nll, apart)
        };
        let work = parts.par_iter_mut().zip(digits.par_chunks(one * d));
        let work = work.zip(codes.par_chunks(one)).map(back);
        let done: Vec<(Vec<T>, f64, f64)> = work.collect();
        gradient.fill(T::of(0.0));
        let (mut nll, mut apart) = (0.0, 0.0);
        for (own, here, away) in done {
            gradient.iter_mut().zip(own).for_each(|(g, o)| *g += o);
            (nll, apart) = (nll + here, apart + away);
        }
        codebook(&self.layout, parameters).follow(&z, &codes);
        Learned {
            nll: nll * share,
            commitment: apart * pull,
            codes,
            revived,
        }
    }
}

/// The codebook in the parameters.
fn codebook<'a, T>(layout: &Layout, parameters: &'a mut [T]) -> Codebook<'a, T> {
    let (vectors, rest) = parameters[layout.vectors.start..].split_at_mut(layout.vectors.len());
    let (counts, rest) = rest.split_at_mut(layout.counts.len());
    Codebook {
        vectors,
        counts,
        sums: &mut rest[..layout.sums.len()],
    }
}
