//! The tokenizers of judges: GPT-2's in the binary, or one of Hugging Face's library.

use std::path::Path;

use tokenizers::Tokenizer as Pipeline;

use super::{JudgeError, Words};
use crate::data::Tokenizer;

/// What the end of a document is called in GPT-2's text.
pub(super) const END: &str = "<|endoftext|>";

/// GPT-2's byte pairs, of the binary.
pub(super) struct Gpt2Words;

impl Words for Gpt2Words {
    /// As Hugging Face's tokenizer, which takes the name of the end for the end.
    fn tokens(&self, text: &str) -> Result<Vec<u32>, JudgeError> {
        let mut ids = Vec::new();
        for (i, part) in text.split(END).enumerate() {
            if i > 0 {
                ids.extend(Tokenizer::Gpt2.eos());
            }
            let encoded = Tokenizer::Gpt2.encode(part, &mut ids);
            encoded.map_err(|e| JudgeError::Refused(e.to_string()))?;
        }
        Ok(ids)
    }
}

/// A pipeline of Hugging Face's library.
pub(super) struct Piped {
    pipeline: Box<Pipeline>,
    /// Whether the pipeline itself puts tokens before and after a text.
    template: bool,
    /// What is put before a text beside that.
    bos: Option<u32>,
}

impl Piped {
    /// The tokenizer in a file, with the tokens it puts around a text. What is set there about
    /// cutting and filling up is for training and does not belong here.
    pub(super) fn open(file: &Path) -> Result<Self, JudgeError> {
        let json = std::fs::read(file).map_err(JudgeError::read(file))?;
        let wrong = |e| JudgeError::file(file, format!("no tokenizer.json of Hugging Face: {e}"));
        let mut pipeline = Pipeline::from_bytes(&json).map_err(wrong)?;
        pipeline.with_truncation(None).map_err(wrong)?;
        pipeline.with_padding(None);
        Ok(Self {
            pipeline: Box::new(pipeline),
            template: true,
            bos: None,
        })
    }

    /// A pipeline that puts nothing around a text, and a token before it.
    pub(super) fn plain(pipeline: Pipeline, bos: Option<u32>) -> Self {
        Self {
            pipeline: Box::new(pipeline),
            template: false,
            bos,
        }
    }

    /// One more than the largest token, because a vocabulary may have gaps.
    pub(super) fn vocabulary(&self) -> usize {
        let ids = self.pipeline.get_vocab(true).into_values();
        ids.max().map_or(0, |last| last as usize + 1)
    }

    /// The token of a name.
    pub(super) fn token(&self, name: &str) -> Option<u32> {
        self.pipeline.token_to_id(name)
    }
}

impl Words for Piped {
    fn tokens(&self, text: &str) -> Result<Vec<u32>, JudgeError> {
        let encoded = self.pipeline.encode_fast(text, self.template);
        let encoded = encoded
            .map_err(|e| JudgeError::Refused(format!("the judge's tokenizer failed: {e}")))?;
        let mut ids: Vec<u32> = self.bos.into_iter().collect();
        ids.extend(encoded.get_ids());
        Ok(ids)
    }
}
