//! The pairs of a rectification on disk: `coupling.json` says what they are, `pairs-N.bin` holds
//! them, a thousand or so each, as little-endian `u32`: where each sequence began, then what became
//! of each.
//!
//! A pair depends on its number and the seed alone, so files that are missing are made and those
//! that are there are read: a generation that was killed goes on, and ends with the same bytes.

use std::{fs, path::Path as FilePath};

use fewstep_ctmc::{Grid, Path};
use fewstep_nn::{Learner, dit::Dit};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Denoiser, RunError, json};
use crate::{lab::Monitor, method::redi::Coupling};

/// Pairs in a file.
const FILE_PAIRS: usize = 1024;
/// Sequences that are generated together.
const BATCH: usize = 64;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Pairs.
    pub count: usize,
    /// Positions of a sequence.
    pub length: usize,
    /// Symbols of the latent behind it.
    pub carried: usize,
    /// Labels before the latent: 0 or 1.
    #[serde(default)]
    pub given: usize,
    /// Sampling steps.
    pub steps: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// What the files hold.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    wanted: Wanted,
    /// The SHA-256 of the parameters that made them.
    network: String,
}

impl Wanted {
    fn empty(&self) -> Coupling {
        Coupling::empty(self.length, self.given + self.carried)
    }
}

/// The pairs in `dir`, of which those that are missing are generated, with `labels` in turn if labels are
/// wanted; nothing if stopped.
pub fn make(
    dir: &FilePath,
    (wanted, labels): (Wanted, &[usize]),
    (network, path): (&Denoiser<Dit<f32>>, &Path),
    monitor: &dyn Monitor,
) -> Result<Option<Coupling>, RunError> {
    let manifest = Manifest {
        wanted,
        network: fingerprint(network.parameters()),
    };
    let file = dir.join("coupling.json");
    if file.exists() {
        if json::read::<Manifest>(&file)? != manifest {
            return Err(RunError::Refused(format!(
                "the pairs in {} were made by another network or with other options; remove them \
                 or choose another directory",
                dir.display()
            )));
        }
    } else {
        fs::create_dir_all(dir).map_err(RunError::write(dir))?;
        json::write(&file, &manifest)?;
    }
    let grid = Grid::uniform(wanted.steps)?;
    let mut all = wanted.empty();
    let stage = "pairs";
    monitor.begin(stage, wanted.count as u64);
    for first in (0..wanted.count).step_by(FILE_PAIRS) {
        let numbers = first..(first + FILE_PAIRS).min(wanted.count);
        let file = dir.join(format!("pairs-{}.bin", first / FILE_PAIRS));
        let part = if file.exists() {
            read(&file, (numbers.len(), &wanted), (path, labels))?
        } else {
            if monitor.stopped() {
                monitor.end(stage);
                return Ok(None);
            }
            let done = |done: usize| monitor.advance(stage, (first + done) as u64);
            let how = (numbers, BATCH);
            let sizes = (wanted.length, wanted.carried, labels);
            let part = Coupling::generate(network, (path, &grid), sizes, how, wanted.seed, done);
            write(&file, &part)?;
            (part.x0, part.x1)
        };
        all.x0.extend(part.0);
        all.x1.extend(part.1);
    }
    monitor.end(stage);
    Ok(Some(all))
}

/// The pairs in `dir`, all of them, with some of `labels` if they have any.
pub fn load(dir: &FilePath, (path, labels): (&Path, &[usize])) -> Result<Coupling, RunError> {
    let file = dir.join("coupling.json");
    let wanted = json::read::<Manifest>(&file)?.wanted;
    let (count, mut all) = (wanted.count, wanted.empty());
    for first in (0..count).step_by(FILE_PAIRS) {
        let here = FILE_PAIRS.min(count - first);
        let file = dir.join(format!("pairs-{}.bin", first / FILE_PAIRS));
        let (x0, x1) = read(&file, (here, &wanted), (path, labels))?;
        all.x0.extend(x0);
        all.x1.extend(x1);
    }
    Ok(all)
}

fn fingerprint(parameters: &[f32]) -> String {
    let mut hash = Sha256::new();
    for chunk in parameters.chunks(1 << 14) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|p| p.to_le_bytes()).collect();
        hash.update(&bytes);
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(file: &FilePath, part: &Coupling) -> Result<(), RunError> {
    fewstep_nn::replace(file, |out| {
        for &symbol in part.x0.iter().chain(&part.x1) {
            let symbol = u32::try_from(symbol).map_err(std::io::Error::other)?;
            out.write_all(&symbol.to_le_bytes())?;
        }
        Ok(())
    })
    .map_err(RunError::write(file))
}

/// Both ends of the pairs in a file that must hold `count` of them.
fn read(
    file: &FilePath,
    (count, wanted): (usize, &Wanted),
    (path, labels): (&Path, &[usize]),
) -> Result<(Vec<usize>, Vec<usize>), RunError> {
    let whole = wanted.empty().length;
    let size = count * whole;
    let damaged = |reason: &str| RunError::Setting {
        file: file.to_path_buf(),
        reason: format!("{reason}; remove it and it is made again"),
    };
    let bytes = fs::read(file).map_err(RunError::read(file))?;
    if bytes.len() != 2 * size * size_of::<u32>() {
        return Err(damaged("it has another length"));
    }
    let (numbers, _) = bytes.as_chunks();
    let all: Vec<usize> = numbers
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes) as usize)
        .collect();
    let (x0, x1) = all.split_at(size);
    let known = |x: &[usize], symbols: usize| {
        x.chunks(whole).all(|x| {
            let (own, behind) = x.split_at(wanted.length);
            let (label, latent) = behind.split_at(wanted.given);
            own.iter().all(|s| *s < symbols)
                && label.iter().all(|s| labels.contains(s))
                && latent.iter().all(|s| *s < path.symbols())
        })
    };
    if !known(x0, path.state_symbols()) || !known(x1, path.symbols()) {
        return Err(damaged("it holds a symbol that the network does not know"));
    }
    Ok((x0.to_vec(), x1.to_vec()))
}
