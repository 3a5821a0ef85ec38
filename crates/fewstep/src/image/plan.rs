//! What an experiment on pictures consists of: the trainings of [`text::Plan`], on other data, and ways
//! to sample that know of classes.

use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

use super::{Format, PIXELS, Tokenization};
use crate::{
    sequence::{
        Accelerator, Chain, Corpus, Data, Loss, Optimization, Optimizer, Prediction, RunError,
        Setting, Sizes,
    },
    text,
};

/// How the pictures of a point are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Steps.
    pub k: usize,
    /// The temperature.
    pub temperature: f64,
    /// The gain on the correction.
    pub gain: f64,
    /// `w` of classifier-free guidance.
    pub guidance: f64,
}

/// The trainings and the points of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The pictures.
    pub data: Data,
    /// The tokenizer that is trained on them first; without one, their symbols are what they are.
    pub tokenizer: Option<Tokenization>,
    /// The trainings, and the steps, temperatures, gains and number of the samples; its language is not
    /// used.
    pub trainings: text::Plan,
    /// Scales of guidance beside none.
    pub guidance: Vec<f64>,
}

impl Plan {
    /// An experiment of minutes on two cores, on the built-in pictures.
    pub fn tiny() -> Self {
        let text = text::Plan::tiny();
        Self {
            data: Data::Figures,
            tokenizer: Some(Tokenization::of(Format::FIGURES)),
            trainings: text::Plan {
                sizes: Sizes {
                    length: PIXELS,
                    width: 96,
                    blocks: 3,
                    heads: 3,
                },
                base: Optimization {
                    steps: 6000,
                    // With 32 the bound was .252 nats a code after 12,000 steps; with 96 it is .232.
                    batch: 96,
                    rate: 4e-3,
                    optimizer: Optimizer::Muon,
                    ..text.base
                },
                accelerated: Optimization {
                    steps: 1400,
                    batch: 96,
                    ..text.accelerated
                },
                grids: vec![1, 2, 4, 8, 16],
                steps: vec![1, 2, 4, 8, 16],
                temperatures: vec![1.0, 0.8],
                gains: vec![1.0, 2.0, 4.0],
                samples: 1000,
                ..text
            },
            guidance: vec![1.0],
        }
    }

    /// The setting of a chain's denoiser.
    pub fn base(&self, chain: Chain, seed: u64) -> Setting {
        Setting {
            data: self.data.clone(),
            // With the own state multiplied in, bounds are lower and pictures worse (docs/architecture.md).
            prediction: Prediction::Posterior,
            // What the cross-entropy would do for pictures was not measured.
            loss: Loss::Bound,
            ..self.trainings.base(chain, seed)
        }
    }

    /// The setting of one round of a method from the run in `from`.
    pub fn accelerated(
        &self,
        of: (Chain, u64),
        what: (Accelerator, Optimization),
        from: &FilePath,
    ) -> Setting {
        Setting {
            data: self.data.clone(),
            prediction: Prediction::Posterior,
            ..self.trainings.accelerated(of, what, from)
        }
    }

    /// The ways a method is sampled in, those of one number of steps together. Each varies one thing.
    pub fn ways(&self, method: &str) -> Vec<Way> {
        let corrected = matches!(method, "linear" | "paper");
        let plan = &self.trainings;
        let mut ways = Vec::new();
        for &k in &plan.steps {
            let plain = Way {
                k,
                temperature: 1.0,
                gain: 1.0,
                guidance: 0.0,
            };
            let mut here = vec![plain];
            if method != "exact" {
                let temperatures = plan.temperatures.iter();
                here.extend(temperatures.map(|&temperature| Way {
                    temperature,
                    ..plain
                }));
                here.extend(
                    self.guidance
                        .iter()
                        .map(|&guidance| Way { guidance, ..plain }),
                );
            }
            if corrected {
                here.extend(plan.gains.iter().map(|&gain| Way { gain, ..plain }));
            }
            for way in here {
                if !ways.contains(&way) {
                    ways.push(way);
                }
            }
        }
        ways
    }

    /// The same on the codes in `dir`, which its tokenizer made.
    pub fn on_codes(self, dir: &FilePath) -> Self {
        Self {
            data: Data::Shards(dir.to_path_buf()),
            tokenizer: None,
            ..self
        }
    }

    /// The plan itself if it can be carried out, with the length of its pictures.
    pub fn checked(mut self) -> Result<Self, RunError> {
        self.trainings = self.trainings.checked()?;
        if self.guidance.iter().any(|w| !w.is_finite()) {
            return Err(RunError::Refused("guidance must be a number".into()));
        }
        let corpus = Corpus::open(&self.data)?;
        let (Some(format), Some(length)) = (corpus.format(), corpus.length()) else {
            return Err(RunError::Refused(
                "the data are no pictures; prepare a folder of pictures with `fewstep data`".into(),
            ));
        };
        self.trainings.sizes.length = match &self.tokenizer {
            Some(asked) => {
                asked.sizes(format)?;
                length / asked.patch.pow(2)
            }
            None => length,
        };
        Ok(self)
    }
}
