//! What generated pictures are measured against: pictures of the validation, as an Inception network sees
//! them.

use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

use super::Format;
use crate::{
    lab::Monitor,
    metrics::{Eye, Features, Kept, Measured, Statistics, measure},
    sequence::{Corpus, RunError, json},
};

/// Which network looks, in the experiment's directory: numbers by another one are not put beside its own.
#[derive(PartialEq, Serialize, Deserialize)]
struct Inception {
    sha256: String,
}

/// A network that looks, and what it saw in the validation.
pub struct Reference<'a> {
    eye: &'a Eye,
    format: Format,
    features: Kept,
    /// What is to be kept in mind of all that is measured against it.
    note: Option<String>,
}

impl<'a> Reference<'a> {
    /// What `eye` sees in at most `count` validation pictures of the data; kept in `dir` and found there again.
    /// Nothing if it was stopped.
    pub fn see(
        dir: &FilePath,
        (corpus, count): (&Corpus, usize),
        eye: &'a Eye,
        monitor: &dyn Monitor,
    ) -> Result<Option<Self>, RunError> {
        let refused = |why: String| Err(RunError::Refused(why));
        let Some(format) = corpus.format() else {
            return refused("the data are no pictures".into());
        };
        let mine = Inception {
            sha256: eye.hash().into(),
        };
        let file = dir.join("inception.json");
        if !file.exists() {
            json::write(&file, &mine)?;
        } else if json::read::<Inception>(&file)? != mine {
            return refused(format!(
                "the points in {} were measured by another Inception; give its weights, or another directory",
                dir.display()
            ));
        }
        let pictures = bytes(&format, &corpus.validation_pictures(count)?);
        let stage = "seeing validation";
        let mut begun = false;
        let size = (format.height, format.width);
        let seen = Features::once(dir, &pictures, size, eye, |done, all| {
            if !begun {
                monitor.begin(stage, all);
                begun = true;
            }
            monitor.advance(stage, done);
            !monitor.stopped()
        })?;
        if begun {
            monitor.end(stage);
        }
        let Some(seen) = seen else {
            return Ok(None);
        };
        // What nothing can be measured against is found out now and not after the trainings.
        Statistics::of(&seen.values, seen.dimensions)?;
        let decoded = corpus.coder().is_some() && !matches!(corpus, Corpus::Figures(..));
        let note = "the data are codes alone: the reference is what their tokenizer makes of them";
        Ok(Some(Self {
            eye,
            format,
            features: Kept::Features(seen),
            note: decoded.then(|| note.into()),
        }))
    }

    /// Measures generated pictures in pixels; nothing if `watch(done, all)` said to stop.
    pub fn measure(
        &self,
        pixels: &[usize],
        watch: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<Measured>, RunError> {
        let size = (self.format.height, self.format.width);
        let Some(seen) = Features::of(&bytes(&self.format, pixels), size, self.eye, watch)? else {
            return Ok(None);
        };
        let mut found = measure(&seen, &self.features)?;
        found.notes.extend(self.note.clone());
        Ok(Some(found))
    }
}

/// Pictures in red, green and blue.
fn bytes(format: &Format, pixels: &[usize]) -> Vec<u8> {
    pixels.iter().flat_map(|&p| format.colour(p)).collect()
}
