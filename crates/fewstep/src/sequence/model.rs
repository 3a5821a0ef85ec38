//! A run that can be used: its network, the path it walks and the data it speaks of.

use std::path::Path as FilePath;

use fewstep_ctmc::{Grid, Path};
use fewstep_nn::{
    checkpoint::{self, Options},
    dit::{Dit, Step},
};

use super::{
    Chain, Corpus, Denoiser, RunError, Setting,
    sampler::{Decoding, Latent, State, watched},
};

use crate::method::redi::{self, Correlation};

/// Sequences that are generated together.
const BATCH: usize = 64;

/// What a run needs to generate.
pub struct Model {
    /// The network.
    pub denoiser: Denoiser<Dit<f32>>,
    /// Its path.
    pub path: Path,
    /// The data it was trained on.
    pub corpus: Corpus,
    /// Positions of a sequence.
    pub length: usize,
    /// What stands behind it.
    pub latent: Latent,
    /// The labels that sequences are given in turn; none if the data have no classes.
    pub labels: Vec<usize>,
}

impl Model {
    /// Opens the run or checkpoint in `from`.
    pub fn open(from: &FilePath) -> Result<Self, RunError> {
        let setting = Setting::of(from)?;
        let corpus = Corpus::open(&setting.data)?;
        let (network, path) = load(from, setting.chain, &corpus)?;
        Ok(Self {
            denoiser: Denoiser::new(network, setting.prediction, &path),
            path,
            labels: corpus.class_labels(),
            corpus,
            length: setting.sizes.length,
            latent: Latent {
                carried: setting.carried,
                // A latent that was part of where a pair began is part of where a sequence begins.
                stays: setting.paired()?,
            },
        })
    }

    /// Whether the network can be told the end of a step.
    pub fn corrected(&self) -> bool {
        self.denoiser.network.config().step != Step::None
    }

    /// `count` sequences, one after the other, and the evaluations of the network that one batch
    /// took. `gain` multiplies the correction.
    pub fn generate(
        &mut self,
        grid: &Grid,
        (how, gain): (Decoding, f64),
        (count, seed): (usize, u64),
    ) -> (Vec<usize>, usize) {
        self.denoiser.network.gain = gain;
        self.watched(grid, how, (count, seed), |_, _| {})
    }

    /// As [`Model::generate`] with the gain as it is, calling `seen` with each batch as it begins
    /// (0 steps done) and after each of its steps.
    pub fn watched(
        &self,
        grid: &Grid,
        how: Decoding,
        (count, seed): (usize, u64),
        seen: impl FnMut(usize, &State),
    ) -> (Vec<usize>, usize) {
        let how = self.decoding(how);
        let sizes = (count, self.length, BATCH);
        let how = (&how, &self.labels[..]);
        watched(&self.denoiser, &self.path, grid, how, sizes, seed, seen)
    }
}

impl Model {
    /// The conditional total correlation of its sampler, estimated from `walks` walks of each of
    /// `sources` sources, with the gain as it is.
    pub fn correlation(
        &self,
        grid: &Grid,
        how: Decoding,
        of: (usize, usize),
        seed: u64,
    ) -> Correlation {
        let how = self.decoding(how);
        let what = (&self.path, grid, &how);
        let length = (self.length, &self.labels[..]);
        redi::plug_in(&self.denoiser, what, length, of, seed)
    }

    /// How its network is sampled.
    fn decoding(&self, how: Decoding) -> Decoding {
        Decoding {
            // Without its correction it is the denoiser, which is told of no step.
            steps: self.corrected() && self.denoiser.network.gain != 0.0,
            latent: self.latent,
            ..how
        }
    }
}

/// The network of a run or checkpoint and its path on a chain. It may know symbols that the data
/// do not have, as DUO's padding, but not the other way.
pub(super) fn load(
    from: &FilePath,
    chain: Chain,
    corpus: &Corpus,
) -> Result<(Dit<f32>, Path), RunError> {
    let loaded = checkpoint::load::<f32>(from, &Options::default())?;
    let path = chain.path_of(&loaded.config, corpus.labels())?;
    if path.symbols() < corpus.symbols() {
        return Err(RunError::Refused(format!(
            "{} is a network over {} symbols, the data have {}; prepare them with its tokenizer",
            from.display(),
            path.symbols(),
            corpus.symbols(),
        )));
    }
    let network = Dit::from_parameters(loaded.config, loaded.parameters)?;
    Ok((network, path))
}
