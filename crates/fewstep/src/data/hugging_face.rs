//! Tokenizers of Hugging Face's `tokenizer.json`, behind the feature `tokenizers`.

use tokenizers::Tokenizer;

use super::Error;

/// Names under which a vocabulary may hold the end of a document, the likeliest first.
const ENDS: [&str; 6] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|im_end|>",
    "[SEP]",
];

/// A tokenizer and the file it came from.
#[derive(Clone, Debug)]
pub struct HuggingFace {
    json: String,
    tokenizer: Tokenizer,
}

impl HuggingFace {
    pub(super) fn new(name: &str, json: String) -> Result<Self, Error> {
        let tokenizer = Tokenizer::from_bytes(&json).map_err(|e| Error::Tokenizer {
            name: name.into(),
            why: format!("{e}; it must be a tokenizer.json of Hugging Face"),
        })?;
        Ok(Self { json, tokenizer })
    }

    pub(super) fn json(&self) -> &str {
        &self.json
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        let encoding = self.tokenizer.encode_fast(text, false);
        let encoding = encoding.map_err(|e| Error::Tokenizer {
            name: "tokenizer.json".into(),
            why: e.to_string(),
        })?;
        ids.extend(encoding.get_ids());
        Ok(())
    }

    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, false).unwrap_or_default()
    }

    /// One more than the largest symbol, because a vocabulary may have gaps.
    pub(super) fn vocabulary(&self) -> usize {
        let symbols = self.tokenizer.get_vocab(true).into_values();
        symbols.max().map_or(0, |last| last as usize + 1)
    }

    pub(super) fn eos(&self) -> Option<u32> {
        ENDS.iter().find_map(|end| self.tokenizer.token_to_id(end))
    }
}
