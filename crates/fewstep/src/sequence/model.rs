//! A run that can be used: its network, the path it walks and the data it speaks of.

use std::path::Path as FilePath;

use fewstep_ctmc::{Grid, Path};
use fewstep_nn::{
    checkpoint::{self, Options},
    dit::{Dit, Step},
};

use super::{
    Corpus, Denoiser, RunError, Setting,
    sampler::{Decoding, State, watched},
};

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
}

impl Model {
    /// Opens the run in `from`.
    pub fn open(from: &FilePath) -> Result<Self, RunError> {
        let setting = Setting::load(from)?;
        let corpus = Corpus::open(&setting.data)?;
        let path = setting.chain.path(corpus.symbols())?;
        let network = load(from, &path)?;
        Ok(Self {
            denoiser: Denoiser::new(network, setting.prediction, &path),
            path,
            corpus,
            length: setting.sizes.length,
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
        let how = Decoding {
            steps: self.corrected(),
            ..how
        };
        let sizes = (count, self.length, BATCH);
        watched(&self.denoiser, &self.path, grid, &how, sizes, seed, seen)
    }
}

/// The network of a run or checkpoint, which must fit the path.
pub(super) fn load(from: &FilePath, path: &Path) -> Result<Dit<f32>, RunError> {
    let loaded = checkpoint::load::<f32>(from, &Options::default())?;
    let (config, wanted) = (&loaded.config, (path.state_symbols(), path.mask()));
    if (config.vocabulary, config.mask) != wanted {
        return Err(RunError::Refused(format!(
            "{} is a network over {} symbols{}, the data have {}{}",
            from.display(),
            config.vocabulary,
            describe(config.mask),
            wanted.0,
            describe(wanted.1),
        )));
    }
    Ok(Dit::from_parameters(loaded.config, loaded.parameters)?)
}

fn describe(mask: Option<usize>) -> &'static str {
    if mask.is_some() {
        " with a mask"
    } else {
        " without a mask"
    }
}
