//! Pictures to codes and back: the network of [`vq`](fewstep_nn::vq) with the format of its pictures.
//!
//! A directory with `model.safetensors` and `config.json` is one. A picture is cut into square patches, row
//! by row; pixels are written in digits, of which a colour has three.

use std::path::Path as FilePath;

use fewstep_nn::{
    checkpoint::{self, Options},
    vq::{Cells, Config, Vq},
};
use serde::{Deserialize, Serialize};

use super::Format;
use crate::{
    data::Error,
    sequence::{RunError, json},
};

/// What a `config.json` is known by.
const KIND: &str = "fewstep-tokenizer";

/// What a directory says of its network beside the weights.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    model_type: String,
    format: Format,
    patch: usize,
}

/// A tokenizer of pictures of one format.
#[derive(Clone, Debug)]
pub struct Coder {
    format: Format,
    patch: usize,
    /// The network.
    pub network: Vq<f32>,
}

impl Coder {
    /// The sizes of a network for patches of `patch` pixels a side, or why there is none.
    pub fn sizes(format: Format, patch: usize, sizes: Config) -> Result<Config, Error> {
        let whole = |side: usize| patch > 0 && side.is_multiple_of(patch);
        if !whole(format.width) || !whole(format.height) {
            return Err(Error::Option(format!(
                "pictures of {} x {} pixels do not divide into patches of {patch} x {patch}; use another \
                 --patch",
                format.width, format.height
            )));
        }
        let (digits, levels) = format.digits();
        let config = Config {
            digits: patch.saturating_mul(patch).saturating_mul(digits),
            levels,
            ..sizes
        };
        config.checked().map_err(|e| Error::Option(e.to_string()))
    }

    /// A network for pictures of a format; it must have the sizes of [`sizes`](Self::sizes).
    pub fn new(format: Format, patch: usize, network: Vq<f32>) -> Result<Self, Error> {
        let config = *network.config();
        if Self::sizes(format, patch, config)? != config {
            return Err(Error::Option(format!(
                "a tokenizer of patches of {} digits of {} values is not for these pictures",
                config.digits, config.levels
            )));
        }
        Ok(Self {
            format,
            patch,
            network,
        })
    }

    /// The tokenizer in a directory.
    pub fn open(dir: &FilePath) -> Result<Self, Error> {
        let refuse = |why: String| Error::Tokenizer {
            name: dir.display().to_string(),
            why: why.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let file = dir.join("config.json");
        let text = std::fs::read(&file).map_err(Error::read(&file))?;
        let told: Told = serde_json::from_slice(&text).map_err(|e| {
            refuse(format!(
                "config.json is not that of a tokenizer of pictures: {e}"
            ))
        })?;
        if told.model_type != KIND {
            return Err(refuse(format!(
                "{:?} is no tokenizer of pictures",
                told.model_type
            )));
        }
        if let Some(fault) = told.format.fault() {
            return Err(refuse(fault));
        }
        let network = Vq::load(dir, &Options::default()).map_err(|e| refuse(e.to_string()))?;
        Self::new(told.format, told.patch, network).map_err(|e| refuse(e.to_string()))
    }

    /// The tokenizer of a directory that codes the built-in pictures, which need no shards.
    pub fn of_figures(dir: &FilePath) -> Result<Option<Self>, Error> {
        if dir.join("manifest.json").exists() || !dir.join("config.json").exists() {
            return Ok(None);
        }
        let coder = Self::open(dir)?;
        if coder.format != Format::FIGURES {
            return Err(Error::Option(format!(
                "{} holds a tokenizer without the codes of its pictures; go on with `fewstep tokenizer \
                 --resume`",
                dir.display()
            )));
        }
        Ok(Some(coder))
    }

    /// Writes the directory of a network with these `parameters`.
    pub fn save(&self, dir: &FilePath, parameters: &[f32]) -> Result<(), RunError> {
        let file = dir.join("model.safetensors");
        checkpoint::save_network(&file, &self.network.layout().tensors, parameters)?;
        let told = Told {
            model_type: KIND.into(),
            format: self.format,
            patch: self.patch,
        };
        json::write(&dir.join("config.json"), &told)
    }

    /// The pictures it codes.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Pixels of a patch's side.
    pub fn patch(&self) -> usize {
        self.patch
    }

    /// Codes.
    pub fn codes(&self) -> usize {
        self.network.config().codes
    }

    /// The cells of a picture.
    pub fn cells(&self) -> Cells {
        Cells {
            rows: self.format.height / self.patch,
            columns: self.format.width / self.patch,
        }
    }

    /// Places of the pixels of all cells, `[cells, patch, patch]`.
    fn places(&self) -> Vec<usize> {
        let (cells, p) = (self.cells(), self.patch);
        let cell = |cell: usize| {
            let (top, left) = (cell / cells.columns * p, cell % cells.columns * p);
            (0..p * p).map(move |i| (top + i / p) * self.format.width + left + i % p)
        };
        (0..cells.count()).flat_map(cell).collect()
    }

    /// Pixels `[N, length]` as digits of patches, `[N, cells, D]`.
    pub fn digits(&self, pixels: &[usize]) -> Vec<usize> {
        let places = self.places();
        let (count, base) = self.format.digits();
        let mut digits = Vec::with_capacity(pixels.len() * count);
        for picture in pixels.chunks_exact(self.format.length()) {
            for &place in &places {
                let symbol = picture[place];
                let digit = |i: usize| symbol / base.pow((count - 1 - i) as u32) % base;
                digits.extend((0..count).map(digit));
            }
        }
        digits
    }

    /// Codes `[N, cells]` of pictures `[N, length]`.
    pub fn encode(&self, pixels: &[usize]) -> Vec<usize> {
        self.network.encode(&self.digits(pixels))
    }

    /// Pictures `[N, length]` of codes `[N, cells]`. Where there is no code but a mask, pixels are no
    /// pixel's symbol.
    pub fn decode(&self, codes: &[usize]) -> Vec<usize> {
        let (cells, places) = (self.cells(), self.places());
        let (count, base) = self.format.digits();
        let digits = self.network.decode(cells, codes);
        let symbols = digits.chunks_exact(count);
        let symbols: Vec<usize> = symbols
            .map(|digits| digits.iter().fold(0, |high, digit| high * base + digit))
            .collect();
        let mut pixels = vec![0; symbols.len()];
        let pictures = pixels.chunks_exact_mut(self.format.length());
        for (picture, symbols) in pictures.zip(symbols.chunks_exact(places.len())) {
            for (&place, &symbol) in places.iter().zip(symbols) {
                picture[place] = symbol;
            }
        }
        let one = self.patch * self.patch;
        for (at, _) in codes
            .iter()
            .enumerate()
            .filter(|(_, c)| **c >= self.codes())
        {
            let (picture, cell) = (at / cells.count(), at % cells.count());
            for &place in &places[cell * one..(cell + 1) * one] {
                pixels[picture * self.format.length() + place] = self.format.symbols();
            }
        }
        pixels
    }

    /// The codes of a picture with gaps: none where a pixel of a patch is not known.
    pub fn encode_known(&self, pixels: &[Option<usize>]) -> Vec<Option<usize>> {
        let all: Vec<usize> = pixels.iter().map(|pixel| pixel.unwrap_or(0)).collect();
        let places = self.places();
        let patches = places.chunks_exact(self.patch * self.patch);
        let known = patches.map(|places| places.iter().all(|&place| pixels[place].is_some()));
        let codes = self.encode(&all).into_iter().zip(known);
        codes.map(|(code, known)| known.then_some(code)).collect()
    }
}
