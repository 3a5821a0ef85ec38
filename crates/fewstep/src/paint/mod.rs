//! Pictures by a MaskGIT and a VQGAN, the networks of the paper's ImageNet run: pictures to codes
//! ([`Codes`]), a MaskGIT taught to take large steps ([`accelerate`]), codes by the few-step sampler and pixels
//! from codes ([`Painter`]).
//!
//! The chain is the masked mixture path with `kappa_t = t`, so that time is the share of codes that are there, and
//! a grid is even in MaskGIT's mask ratio, `t_k = 1 - (2/pi) arccos(k/K)`. The class stands behind the codes as a
//! label, and guidance compares it with "no class".

mod codes;
mod train;

pub use codes::Codes;
pub use train::{Accelerate, accelerate};

use std::{
    io::Cursor,
    path::{Path as FilePath, PathBuf},
};

use fewstep_ctmc::{
    Grid, Path, Process, Schedule, Source,
    random::{Key, Purpose, uniform},
};
use fewstep_nn::{
    checkpoint::{self, Options},
    dit::Step,
    maskgit::{self, MaskGit},
    vqgan::{self, Vqgan},
};
use image::{ImageFormat, RgbImage};
use thiserror::Error;

use crate::sequence::sampler::{Decoding, Guidance, watched};

/// Why there is no picture.
#[derive(Debug, Error)]
pub enum PaintError {
    /// A file that cannot be loaded or written.
    #[error("{0}")]
    File(String),
    /// What makes no sense together.
    #[error("{0}")]
    Refused(String),
}

/// The chain of a MaskGIT's codes.
fn path(config: &maskgit::Config) -> Result<Path, PaintError> {
    let process = Process::Mixture(Source::Masked);
    Path::new(Schedule::Linear, process, config.codes)
        .map_err(|e| PaintError::Refused(e.to_string()))
}

fn wrong(error: fewstep_nn::Error) -> PaintError {
    PaintError::Refused(error.to_string())
}

/// A MaskGIT and the weights of a VQGAN, of the published sizes and random.
fn random(seed: u64) -> Result<(MaskGit<f32>, vqgan::Config, Vec<f32>), PaintError> {
    let config = maskgit::Config::imagenet(256).map_err(wrong)?;
    let net = MaskGit::new(config, seed).map_err(wrong)?;
    let config = vqgan::Config::imagenet();
    let mut rng = Key::new(seed, Purpose::Init).at(0, 0);
    let weight = |_| (0.1 * (uniform(&mut rng) - 0.5)) as f32;
    let parameters = (0..vqgan::Layout::new(&config).len()).map(weight).collect();
    Ok((net, config, parameters))
}

/// Writes networks of the published sizes under the published names, with random weights, to try a whole
/// run with: `maskgit.safetensors` and `vqgan.safetensors`.
pub fn write_random(dir: &FilePath, seed: u64) -> Result<[PathBuf; 2], PaintError> {
    let (net, config, parameters) = random(seed)?;
    std::fs::create_dir_all(dir)
        .map_err(|e| PaintError::File(format!("cannot make {}: {e}", dir.display())))?;
    let files = ["maskgit", "vqgan"].map(|name| dir.join(format!("{name}.safetensors")));
    let file = |e: checkpoint::Error| PaintError::File(e.to_string());
    net.save(&files[0]).map_err(file)?;
    let tensors = vqgan::Layout::new(&config).tensors;
    checkpoint::save_network(&files[1], &tensors, &parameters).map_err(file)?;
    Ok(files)
}

/// How codes are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Steps.
    pub steps: usize,
    /// Temperature and order; its guidance is set from [`guidance`](Self::guidance).
    pub decoding: Decoding,
    /// `w` of classifier-free guidance.
    pub guidance: f64,
    /// Whether it rises from 0, as MaskGIT's does.
    pub rises: bool,
}

/// A MaskGIT and the VQGAN whose codes it writes.
pub struct Painter {
    net: MaskGit<f32>,
    vqgan: Vqgan<f32>,
}

impl Painter {
    /// The networks of two files: published, or a MaskGIT of ours.
    pub fn load(net: &FilePath, vqgan: &FilePath) -> Result<Self, PaintError> {
        let file = |e: checkpoint::Error| PaintError::File(e.to_string());
        let options = Options::default();
        let net = MaskGit::load(net, Step::None, &options).map_err(file)?;
        Self::of(net, Vqgan::load(vqgan, &options).map_err(file)?)
    }

    /// Networks of the published sizes with random weights, to try a machine.
    pub fn random(seed: u64) -> Result<Self, PaintError> {
        let (net, config, parameters) = random(seed)?;
        Self::of(
            net,
            Vqgan::from_parameters(config, parameters).map_err(wrong)?,
        )
    }

    fn of(net: MaskGit<f32>, vqgan: Vqgan<f32>) -> Result<Self, PaintError> {
        let (written, known) = (net.config().codes, vqgan.config().codes);
        if written != known || vqgan.config().channels != 3 {
            return Err(PaintError::Refused(format!(
                "a MaskGIT of {written} codes and a VQGAN of {known} with {} channels do not belong together",
                vqgan.config().channels
            )));
        }
        Ok(Self { net, vqgan })
    }

    /// Classes.
    pub fn classes(&self) -> usize {
        self.net.config().classes
    }

    /// Whether the MaskGIT has been taught to see the end of a step.
    pub fn sees_steps(&self) -> bool {
        self.net.config().step != Step::None
    }

    /// The factor on its correction.
    pub fn gain(&mut self) -> &mut f64 {
        self.net.gain()
    }

    /// Codes of `count` pictures of the classes in turn, `batch` at a time, and the network's evaluations of a
    /// batch.
    pub fn codes(
        &self,
        classes: &[usize],
        way: &Way,
        (count, batch): (usize, usize),
        seed: u64,
        mut watch: impl FnMut(usize),
    ) -> Result<(Vec<usize>, usize), PaintError> {
        let wrong = |e: fewstep_ctmc::Error| PaintError::Refused(e.to_string());
        let config = self.net.config();
        if let Some(class) = classes.iter().find(|&&class| class >= config.classes) {
            return Err(PaintError::Refused(format!(
                "no class {class}; there are {}, from 0 on",
                config.classes
            )));
        }
        let path = path(config)?;
        let even = (0..=way.steps).map(|k| k as f64 / way.steps.max(1) as f64);
        let grid = Grid::new(even.map(|t| Schedule::Arccos.kappa(t)).collect()).map_err(wrong)?;
        let labels: Vec<usize> = classes.iter().map(|&c| config.class(Some(c))).collect();
        let decoding = Decoding {
            steps: self.sees_steps(),
            guidance: Guidance {
                scale: way.guidance,
                rises: way.rises,
                unsaid: config.class(None),
            },
            ..way.decoding
        };
        let length = config.length() - 1;
        let mut done = 0;
        Ok(watched(
            &self.net,
            &path,
            &grid,
            (&decoding, &labels),
            (count, length, batch),
            seed,
            |steps, state| {
                if steps == way.steps {
                    done += state.sequences().count();
                    watch(done);
                }
            },
        ))
    }

    /// The picture of `side x side` codes as a PNG file: pixels are clamped to `[-1, 1]`.
    pub fn png(&self, codes: &[usize]) -> Result<Vec<u8>, PaintError> {
        let side = self.net.config().side;
        let pixels = self.vqgan.decode((1, side, side), codes);
        let pixels = pixels.map_err(|e| PaintError::Refused(e.to_string()))?;
        let byte = |v: &f32| ((v.clamp(-1.0, 1.0) + 1.0) * 127.5).round() as u8;
        let bytes: Vec<u8> = pixels.iter().map(byte).collect();
        let wide = (side * self.vqgan.config().factor()) as u32;
        let mut png = Cursor::new(Vec::new());
        RgbImage::from_raw(wide, wide, bytes)
            .ok_or_else(|| PaintError::Refused("a picture that is not square".into()))?
            .write_to(&mut png, ImageFormat::Png)
            .map_err(|e| PaintError::File(e.to_string()))?;
        Ok(png.into_inner())
    }
}
