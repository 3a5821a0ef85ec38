//! Features of pictures, in files or in memory, by an Inception network, and all that is measured on them.
//!
//! Seeing is the long part. What was seen is kept in a directory under a name that is a hash of every
//! picture and of the network's weights, and found again there.

use std::path::{Path, PathBuf};

use fewstep_nn::{checkpoint::Options, inception::Inception, layers::picture::Pictures};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    CHUNKS, Kept, MetricError, NEIGHBOUR, Neighbourhood, Statistics, chunked, frechet,
    inception_score,
};
use crate::data::{each_picture, hex};

/// Pictures that the network is shown at a time.
const TOGETHER: usize = 16;

/// What a network sees in pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// `D`.
    pub dimensions: usize,
    /// `[N, D]`.
    pub values: Vec<f64>,
    /// Classes and logits `[N, C]`, if the network has a head.
    pub logits: Option<(usize, Vec<f64>)>,
}

/// A network that looks at pictures, and the hash of its file.
pub struct Eye {
    network: Inception<f32>,
    hash: String,
}

impl Eye {
    /// The Inception in a file.
    pub fn open(weights: &Path) -> Result<Self, MetricError> {
        let wrong = MetricError::Pictures;
        let network = Inception::load(weights, &Options::default());
        let network = network.map_err(|e| wrong(e.to_string()))?;
        let mut hash = Sha256::new();
        let read = std::fs::File::open(weights).and_then(|mut f| std::io::copy(&mut f, &mut hash));
        read.map_err(|e| wrong(format!("{}: {e}", weights.display())))?;
        let hash = hex(hash);
        Ok(Self { network, hash })
    }

    /// The SHA-256 of its file.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

impl Features {
    /// What `eye` sees in pictures `[n, height, width, 3]`. `watch(done, all)` is called on the way and says
    /// whether to go on; nothing if it was stopped.
    pub fn of(
        pictures: &[u8],
        (height, width): (usize, usize),
        eye: &Eye,
        mut watch: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<Self>, MetricError> {
        let one = 3 * height * width;
        let all = (pictures.len() / one.max(1)) as u64;
        let mut seen = Self::default();
        for together in pictures.chunks(TOGETHER * one.max(1)) {
            if !watch(seen.count() as u64, all) {
                return Ok(None);
            }
            seen.add(eye, together, (height, width))?;
        }
        watch(all, all);
        Ok(Some(seen))
    }

    /// The same, kept in `directory` and not seen again.
    pub fn once(
        directory: &Path,
        pictures: &[u8],
        size: (usize, usize),
        eye: &Eye,
        watch: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<Self>, MetricError> {
        let mut hash = Sha256::new();
        hash.update(&eye.hash);
        hash.update(format!("{size:?}"));
        hash.update(pictures);
        let file = kept(directory, hash);
        if let Some(found) = Self::found(&file)? {
            return Ok(Some(found));
        }
        let seen = Self::of(pictures, size, eye, watch)?;
        if let Some(seen) = &seen {
            seen.write(&file)?;
        }
        Ok(seen)
    }

    /// Those in a file, if there is one.
    fn found(file: &Path) -> Result<Option<Self>, MetricError> {
        if !file.exists() {
            return Ok(None);
        }
        match Kept::read(file)? {
            Kept::Features(features) => Ok(Some(features)),
            Kept::Statistics(_) => Err(MetricError::File {
                file: file.display().to_string(),
                why: "no features; remove it".into(),
            }),
        }
    }

    /// What `eye` sees in the pictures of a directory: of PNG and JPEG files, IDX files or CIFAR's, each
    /// picture in its own size, in the order of names. `watch(done, all)` is called on the way.
    ///
    /// Kept in the directory and not seen again; that it could not be kept there is told by the second value.
    pub fn see(
        directory: &Path,
        eye: &Eye,
        mut watch: impl FnMut(u64, u64),
    ) -> Result<(Self, Option<MetricError>), MetricError> {
        let fault = |e: crate::data::Error| MetricError::Pictures(e.to_string());
        let mut hash = Sha256::new();
        hash.update(&eye.hash);
        let mut all = 0;
        for source in each_picture(directory, |_, _| Ok(())).map_err(fault)? {
            hash.update(&source.sha256);
            all += source.documents;
        }
        let file = kept(directory, hash);
        if let Some(found) = Self::found(&file)? {
            return Ok((found, None));
        }
        let mut seen = Self::default();
        let (mut waiting, mut size, mut done) = (Vec::new(), (0, 0), 0);
        let mut failed = None;
        let mut look = |waiting: &mut Vec<u8>, size: (usize, usize)| {
            if let Err(e) = seen.add(eye, waiting, size) {
                failed.get_or_insert(e);
            }
            waiting.clear();
        };
        watch(0, all);
        each_picture(directory, |picture, _| {
            let (width, height) = picture.dimensions();
            let here = (height as usize, width as usize);
            if here != size || waiting.len() >= TOGETHER * 3 * here.0 * here.1 {
                look(&mut waiting, size);
                watch(done, all);
                size = here;
            }
            waiting.extend_from_slice(picture.as_raw());
            done += 1;
            Ok(())
        })
        .map_err(fault)?;
        look(&mut waiting, size);
        watch(done, all);
        match failed {
            Some(e) => Err(e),
            None => {
                let kept = seen.write(&file).err();
                Ok((seen, kept))
            }
        }
    }

    /// Looks at pictures `[n, height, width, 3]`.
    fn add(
        &mut self,
        eye: &Eye,
        bytes: &[u8],
        (height, width): (usize, usize),
    ) -> Result<(), MetricError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let pictures = Pictures {
            count: bytes.len() / (3 * height * width),
            height,
            width,
            channels: 3,
        };
        let judged = eye.network.judge(pictures, bytes);
        let judged = judged.map_err(|e| MetricError::Pictures(e.to_string()))?;
        self.dimensions = judged.features.len() / pictures.count;
        self.values
            .extend(judged.features.iter().map(|&f| f64::from(f)));
        if let Some(new) = judged.logits {
            let (classes, logits) = self.logits.get_or_insert_default();
            *classes = new.len() / pictures.count;
            logits.extend(new.iter().map(|&l| f64::from(l)));
        }
        Ok(())
    }

    /// Pictures.
    pub fn count(&self) -> usize {
        self.values.len() / self.dimensions.max(1)
    }

    /// The classes' probabilities, if there are logits.
    fn probabilities(&self) -> Option<(usize, Vec<f64>)> {
        let (classes, logits) = self.logits.as_ref()?;
        let mut out = logits.clone();
        for row in out.chunks_exact_mut(*classes) {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter_mut().for_each(|l| *l = (*l - most).exp());
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
        }
        Some((*classes, out))
    }
}

/// Where features are kept, by the hash of what they are of.
fn kept(directory: &Path, hash: Sha256) -> PathBuf {
    directory.join(format!("features-{}.npz", &hex(hash)[..16]))
}

/// All metrics of some pictures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The Frechet distance to the reference.
    pub fid: f64,
    /// Mean and deviation of the Inception Score, where there are logits.
    pub score: Option<(f64, f64)>,
    /// Neighbourhoods, where the reference has features.
    pub neighbours: Option<Neighbourhood>,
    /// What could not be had, and what is to be kept in mind.
    pub notes: Vec<String>,
}

/// Measures pictures against a reference.
pub fn measure(samples: &Features, reference: &Kept) -> Result<Measured, MetricError> {
    let theirs = match reference {
        Kept::Features(features) => &Statistics::of(&features.values, features.dimensions)?,
        Kept::Statistics(statistics) => statistics,
    };
    let ours = Statistics::of(&samples.values, samples.dimensions)?;
    let fid = frechet(&ours, theirs)?;
    let (count, dimensions) = (samples.count(), samples.dimensions);
    let mut notes = Vec::new();
    if count <= dimensions {
        notes.push(format!(
            "{count} pictures for {dimensions} dimensions: their covariance is singular and the FID too large; \
             50,000 are usual"
        ));
    }
    let score = match samples.probabilities() {
        None => {
            notes.push("no Inception Score: the network has no head".into());
            None
        }
        Some(_) if count < CHUNKS => {
            notes.push(format!("no Inception Score: it needs {CHUNKS} pictures"));
            None
        }
        Some((classes, probabilities)) => Some(inception_score(&probabilities, classes)?),
    };
    let least = CHUNKS * (NEIGHBOUR + 1);
    let neighbours = match reference {
        Kept::Statistics(_) => {
            let why = "the reference has statistics alone, no features";
            notes.push(format!("no precision, recall, density and coverage: {why}"));
            None
        }
        Kept::Features(features) if features.count().min(count) < least => {
            let why = format!("they need {least} pictures on both sides");
            notes.push(format!("no precision, recall, density and coverage: {why}"));
            None
        }
        Kept::Features(features) => Some(chunked(&features.values, &samples.values, dimensions)?),
    };
    Ok(Measured {
        fid,
        score,
        neighbours,
        notes,
    })
}
