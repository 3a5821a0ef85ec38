//! Training a tokenizer on pictures: a minute of work that makes sequences a patch's area shorter.
//!
//! Its directory holds `tokenization.json` (what was asked for), `state.safetensors` (the training state),
//! then `model.safetensors` and `config.json` (a [`Coder`]), the codes of the data in the shards of
//! [`data`](crate::data), and at the very end `reconstruction.json`. The built-in pictures, which are drawn
//! when they are asked for, are coded then.

use std::{
    path::{Path as FilePath, PathBuf},
    time::{Duration, Instant},
};

use fewstep_ctmc::random::{Key, Purpose};
use fewstep_nn::{
    optim::{FILE, Schedule, Settings, TrainState, Trainable},
    vq::{Config, Vq, perplexity},
};
use serde::{Deserialize, Serialize};

use super::{Coder, Format};
use crate::{
    data::{Dataset, prepare_codes},
    lab::Monitor,
    sequence::{Corpus, Data, RunError, Use, json},
};

const ASKED: &str = "tokenization.json";
const FOUND: &str = "reconstruction.json";
/// Pictures of the validation.
const VALIDATION: usize = 2048;
/// Between two saved states.
const SAVING: Duration = Duration::from_secs(20);
/// Steps until the rate is reached.
const WARMUP: u64 = 50;

/// What a tokenizer is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tokenization {
    /// Pixels of a patch's side.
    pub patch: usize,
    /// Codes.
    pub codes: usize,
    /// Channels between the layers.
    pub hidden: usize,
    /// Channels of a code's vector.
    pub embedding: usize,
    /// Training steps.
    pub steps: u64,
    /// Pictures of a step.
    pub batch: usize,
    /// The highest learning rate; it falls by a cosine.
    pub rate: f64,
    /// Of weights, pictures and revived codes.
    pub seed: u64,
}

impl Tokenization {
    /// What suits pictures of a format, unless something else is known of them: small pictures in small
    /// patches, of a side that divides theirs. Larger ones would be learned sooner, but what few codes say
    /// wrongly no others mend: of the built-in pictures in four codes the exact denoiser draws 95 % right in 8
    /// steps, in sixteen all.
    pub fn of(format: Format) -> Self {
        let (sides, codes): (&[usize], usize) = match format {
            Format { width, height, .. } if width.max(height) <= 16 => (&[3, 2], 128),
            _ => (&[4, 2, 3], 256),
        };
        let divides = |side: &&usize| {
            format.width.is_multiple_of(**side) && format.height.is_multiple_of(**side)
        };
        Self {
            patch: sides.iter().find(divides).copied().unwrap_or(1),
            codes,
            hidden: 128,
            embedding: 16,
            steps: 1500,
            batch: 64,
            rate: 2e-3,
            seed: 0,
        }
    }

    /// The sizes of its network, or why there can be none.
    pub fn sizes(&self, format: Format) -> Result<Config, RunError> {
        if self.steps == 0 || self.batch == 0 || self.rate.is_nan() || self.rate <= 0.0 {
            return Err(RunError::Refused(
                "a training needs steps, pictures and a rate above 0".into(),
            ));
        }
        let sizes = Config {
            digits: 0,
            levels: 0,
            hidden: self.hidden,
            embedding: self.embedding,
            codes: self.codes,
        };
        Ok(Coder::sizes(format, self.patch, sizes)?)
    }
}

/// What a tokenizer loses of pictures that it was not trained on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reconstruction {
    /// `-ln law` of a pixel's digit, the mean, in nats.
    pub nll: f64,
    /// The share of pixels that come back.
    pub pixels: f64,
    /// The share of pictures of which every pixel does.
    pub pictures: f64,
    /// `exp` of the entropy of codes.
    pub perplexity: f64,
    /// Codes that occur.
    pub used: usize,
    /// Codes.
    pub codes: usize,
    /// Seconds of the last stretch of training.
    pub seconds: f64,
}

impl Reconstruction {
    /// For people.
    pub fn words(&self) -> String {
        format!(
            "{:.2} % of pixels and {:.2} % of pictures come back, {:.4} nats a digit; {} of {} codes occur, \
             perplexity {:.1}",
            100.0 * self.pixels,
            100.0 * self.pictures,
            self.nll,
            self.used,
            self.codes,
            self.perplexity
        )
    }
}

/// What stays the same in a training.
struct Training<'a> {
    dir: &'a FilePath,
    asked: &'a Tokenization,
    corpus: Corpus,
    coder: Coder,
    monitor: &'a dyn Monitor,
}

/// Trains a tokenizer on the pictures of `data` in `dir` and codes them, or goes on to if `resume`; nothing
/// if it was stopped. With `from`, that tokenizer codes them as it is.
pub fn tokenize(
    dir: &FilePath,
    data: &Data,
    (asked, from): (&Tokenization, Option<&FilePath>),
    resume: bool,
    monitor: &dyn Monitor,
) -> Result<Option<Reconstruction>, RunError> {
    let corpus = Corpus::open(data)?;
    let Some(format) = corpus.format().filter(|_| corpus.coder().is_none()) else {
        return Err(RunError::Refused(
            "a tokenizer is made from pictures in pixels; prepare some with `fewstep data --pixels`".into(),
        ));
    };
    let key = (data.clone(), asked.clone(), from.map(PathBuf::from));
    let coder = match from {
        Some(from) => Coder::open(from)?,
        None => {
            let sizes = asked.sizes(format)?;
            Coder::new(format, asked.patch, Vq::new(sizes, asked.seed)?)?
        }
    };
    if coder.format() != format {
        return Err(RunError::Refused(format!(
            "the tokenizer is for pictures of {} x {} pixels of {} symbols, the data have {} x {} of {}; \
             train one on them",
            coder.format().width,
            coder.format().height,
            coder.format().symbols(),
            format.width,
            format.height,
            format.symbols()
        )));
    }
    crate::text::experiment::begin_as(dir, ASKED, &key, resume)?;
    let found = dir.join(FOUND);
    if found.exists() {
        return Ok(Some(json::read(&found)?));
    }
    let mut training = Training {
        dir,
        asked,
        corpus,
        coder,
        monitor,
    };
    let begun = Instant::now();
    match from {
        Some(from) => {
            for name in ["model.safetensors", "config.json"] {
                let to = dir.join(name);
                std::fs::copy(from.join(name), &to).map_err(RunError::write(&to))?;
            }
        }
        None => match training.run()? {
            Some(parameters) => training.coder.save(dir, &parameters)?,
            None => return Ok(None),
        },
    }
    let seconds = begun.elapsed().as_secs_f64();
    let result = Reconstruction {
        seconds,
        ..training.validate()?
    };
    if let Data::Shards(source) = data {
        let dataset = Dataset::open(source)?;
        let part = |part: &crate::data::Part| part.documents;
        let all = part(&dataset.manifest().train) + part(&dataset.manifest().validation);
        monitor.begin("codes", all);
        let done = |pictures| monitor.advance("codes", pictures);
        prepare_codes(&dataset, &training.coder, dir, done)?;
        monitor.end("codes");
    }
    json::write(&found, &result)?;
    Ok(Some(result))
}

impl Training<'_> {
    /// Pictures `[count, length]` in pixels.
    fn pictures(&self, what: Use, count: usize) -> Result<Vec<usize>, RunError> {
        let length = self.coder.format().length();
        let all = self.corpus.sequences(what, count, length)?;
        let rows = all.chunks_exact(length + self.corpus.given());
        Ok(rows.flat_map(|row| &row[..length]).copied().collect())
    }

    /// Trains; the parameters, or nothing if it was stopped.
    fn run(&mut self) -> Result<Option<Vec<f32>>, RunError> {
        let (asked, cells) = (self.asked, self.coder.cells());
        let layout = self.coder.network.layout().clone();
        let mut state = match self.dir.join(FILE).exists() {
            true => TrainState::load(self.dir)?,
            false => {
                let moved = 0..layout.decoder.end;
                let trainable = Trainable::new(layout.len(), std::slice::from_ref(&moved))?;
                let parameters = self.coder.network.parameters();
                TrainState::new(asked.seed, parameters, trainable, Settings::ADAM, None)
            }
        };
        if state.parameters().len() != layout.len() {
            return Err(RunError::Refused(format!(
                "the training state in {} is of another tokenizer",
                self.dir.display()
            )));
        }
        let schedule = Schedule::cosine(asked.rate, WARMUP, asked.steps);
        let key = Key::new(asked.seed, Purpose::Latent);
        let mut gradient = vec![0.0; layout.len()];
        let mut saved = Instant::now();
        self.monitor.begin("tokenizer", asked.steps);
        while state.step() < asked.steps {
            if self.monitor.stopped() {
                state.save(self.dir)?;
                return Ok(None);
            }
            let step = state.step();
            let pictures = self.pictures(Use::Training(asked.seed, step), asked.batch)?;
            let digits = self.coder.digits(&pictures);
            let mut rng = key.at(step, 0);
            let learned = self.coder.network.learn(
                (cells, &digits),
                state.parameters_mut(),
                &mut gradient,
                &mut rng,
            );
            let loss = learned.nll + learned.commitment;
            state.apply(&gradient, loss, &schedule, Some(1.0))?;
            self.monitor.advance("tokenizer", state.step());
            if saved.elapsed() > SAVING {
                state.save(self.dir)?;
                saved = Instant::now();
            }
        }
        self.monitor.end("tokenizer");
        state.save(self.dir)?;
        self.coder.network.set(state.parameters());
        Ok(Some(state.parameters().to_vec()))
    }

    /// What comes back of validation pictures.
    fn validate(&self) -> Result<Reconstruction, RunError> {
        let coder = &self.coder;
        let pictures = self.pictures(Use::Validation, VALIDATION)?;
        let codes = coder.encode(&pictures);
        let again = coder.decode(&codes);
        let pairs = pictures.iter().zip(&again);
        let right = pairs.filter(|(a, b)| a == b).count();
        let length = coder.format().length();
        let whole = pictures
            .chunks_exact(length)
            .zip(again.chunks_exact(length));
        let mut counts = vec![0; coder.codes()];
        codes.iter().for_each(|&code| counts[code] += 1);
        let digits = coder.digits(&pictures);
        Ok(Reconstruction {
            nll: coder.network.surprise(coder.cells(), &codes, &digits),
            pixels: right as f64 / pictures.len() as f64,
            pictures: whole.filter(|(a, b)| a == b).count() as f64 / VALIDATION as f64,
            perplexity: perplexity(&counts),
            used: counts.iter().filter(|n| **n > 0).count(),
            codes: coder.codes(),
            seconds: 0.0,
        })
    }
}
