//! The judge of `fewstep eval`, with progress: reading is slower than generating.

use std::path::Path;

use fewstep::{
    judge::{Judge, JudgeError, Protocol, Score},
    lab::Monitor,
    sequence::Corpus,
};

use crate::{Failure, progress::Progress};

/// A judge at work.
pub struct Bench {
    judge: Judge,
    progress: Progress,
    /// What is counted.
    pub protocol: Protocol,
}

impl Bench {
    /// Opens the judge of `path`, if there is text for it.
    pub fn open(path: &Path, protocol: Protocol, corpus: &Corpus) -> Result<Self, Failure> {
        let judge = Judge::open(path).map_err(|e| Failure::Usage(e.to_string()))?;
        if corpus.tokenizer().is_none() {
            return Err(Failure::Usage(
                "the run speaks a language without text, which --judge cannot read; use a run that \
                 was trained on text"
                    .into(),
            ));
        }
        Ok(Self {
            judge,
            progress: Progress::new(None)?,
            protocol,
        })
    }

    /// Judges the texts of a row.
    pub fn score(&mut self, name: &str, texts: &[String]) -> Result<Score, Failure> {
        let stage = format!("judge {name}");
        let found = self.judge.score(texts, self.protocol, |done, all| {
            if done == 0 {
                self.progress.begin(&stage, all as u64);
            }
            self.progress.advance(&stage, done as u64);
            match self.progress.stopped() {
                true => Err(JudgeError::Stopped),
                false => Ok(()),
            }
        });
        self.progress.end(&stage);
        found.map_err(|e| match e {
            JudgeError::Stopped => Failure::Interrupted,
            other => Failure::Failed(other.to_string()),
        })
    }
}
