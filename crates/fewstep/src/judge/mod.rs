//! How likely a pretrained language model finds generated text: generative perplexity.
//!
//! A sample is decoded to text with its own tokenizer and read by a [`Judge`] with another one's,
//! from left to right. Published numbers differ in what is counted, so that is a [`Protocol`] with
//! a name. A low perplexity can be bought by repeating oneself; it belongs beside an entropy.
//!
//! What reads is a [`Reader`]. With the feature `judge` there are GPT-2 and Llama, of Hugging
//! Face's directories and GGUF files, on candle; without it [`Judge::open`] says so.

#[cfg(feature = "judge")]
mod directory;
mod error;
#[cfg(feature = "judge")]
mod gguf;
#[cfg(feature = "judge")]
mod gpt2;
#[cfg(feature = "judge")]
mod llama;
mod protocol;
#[cfg(feature = "judge")]
mod surprise;
#[cfg(feature = "judge")]
mod tokens;

use std::{cmp::Reverse, path::Path};

pub use error::JudgeError;
pub use protocol::Protocol;
use serde::Serialize;

/// Called with positions that were just read; an error stops the work.
pub type Seen<'a> = &'a mut dyn FnMut(usize) -> Result<(), JudgeError>;

/// A language model that reads from left to right.
pub trait Reader {
    /// Its tokens.
    fn vocabulary(&self) -> usize;

    /// The sequences that are best read together.
    fn batch(&self) -> usize;

    /// Of each sequence, `-ln p(x_i | x_<i)` at its positions from the second on, in nats. No
    /// sequence is empty, and all tokens are of the vocabulary.
    fn surprise(&mut self, sequences: &[&[u32]], seen: Seen) -> Result<Vec<Vec<f64>>, JudgeError>;
}

/// Text to the tokens of a [`Reader`], with what it puts before a text.
pub trait Words {
    /// The tokens of a text.
    fn tokens(&self, text: &str) -> Result<Vec<u32>, JudgeError>;
}

/// A language model with its tokenizer.
pub struct Judge {
    reader: Box<dyn Reader>,
    words: Box<dyn Words>,
    eos: Option<u32>,
    context: usize,
}

/// What a judge says of a set of texts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// `exp` of the sum of surprises over the tokens that count.
    pub perplexity: f64,
    /// Those tokens.
    pub tokens: usize,
}

impl Judge {
    /// The judge in a `.gguf` file or a Hugging Face directory.
    #[cfg(feature = "judge")]
    pub fn open(path: &Path) -> Result<Self, JudgeError> {
        if path.is_dir() {
            directory::open(path)
        } else {
            gguf::open(path)
        }
    }

    /// The judge in a `.gguf` file or a Hugging Face directory.
    #[cfg(not(feature = "judge"))]
    pub fn open(_: &Path) -> Result<Self, JudgeError> {
        Err(JudgeError::Refused(
            "this program was built without judges; build it with --features judge".into(),
        ))
    }

    /// A judge of parts: `eos` ends a document, and at most `context` tokens can be read.
    pub fn new(
        reader: Box<dyn Reader>,
        words: Box<dyn Words>,
        eos: Option<u32>,
        context: usize,
    ) -> Self {
        Self {
            reader,
            words,
            eos,
            context,
        }
    }

    /// The most tokens it can read.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The tokens of a text, as it reads them.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>, JudgeError> {
        self.words.tokens(text)
    }

    /// Of each sequence of tokens, `-ln p(x_i | x_<i)` at its positions from the second on, calling
    /// `seen` with the positions done, first none, and all of them. The longest are read first, so that
    /// those of one batch have about the same length.
    pub fn surprise(
        &mut self,
        sequences: &[Vec<u32>],
        mut seen: impl FnMut(usize, usize) -> Result<(), JudgeError>,
    ) -> Result<Vec<Vec<f64>>, JudgeError> {
        let vocabulary = self.reader.vocabulary();
        for x in sequences {
            if let Some(token) = x.iter().find(|&&token| token as usize >= vocabulary) {
                return Err(JudgeError::Refused(format!(
                    "the judge's tokenizer gave token {token}, the judge has {vocabulary}; they do \
                     not belong together"
                )));
            }
            if x.len() > self.context {
                return Err(JudgeError::Refused(format!(
                    "a sample has {} tokens, the judge reads at most {}; use --protocol duo, which \
                     cuts them, or a judge with a longer context",
                    x.len(),
                    self.context
                )));
            }
        }
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.retain(|&i| sequences[i].len() > 1);
        order.sort_by_key(|&i| Reverse(sequences[i].len()));
        let all = order.iter().map(|&i| sequences[i].len() - 1).sum();
        let mut done = 0;
        seen(done, all)?;
        let mut found = vec![Vec::new(); sequences.len()];
        for batch in order.chunks(self.reader.batch().max(1)) {
            let together: Vec<&[u32]> = batch.iter().map(|&i| &sequences[i][..]).collect();
            let surprises = self.reader.surprise(&together, &mut |more| {
                done += more;
                seen(done, all)
            })?;
            for (&i, one) in batch.iter().zip(surprises) {
                if one.iter().any(|v| !v.is_finite()) {
                    return Err(JudgeError::Refused(
                        "the judge gave numbers that are not finite; its weights are damaged"
                            .into(),
                    ));
                }
                found[i] = one;
            }
        }
        Ok(found)
    }

    /// Judges texts by a protocol, calling `seen` with the positions done and all of them.
    pub fn score(
        &mut self,
        texts: &[String],
        protocol: Protocol,
        seen: impl FnMut(usize, usize) -> Result<(), JudgeError>,
    ) -> Result<Score, JudgeError> {
        let mut sequences = Vec::with_capacity(texts.len());
        for text in texts {
            let mut tokens = self.words.tokens(text)?;
            protocol.cut(&mut tokens, self.context);
            sequences.push(tokens);
        }
        let surprises = self.surprise(&sequences, seen)?;
        let (mut sum, mut tokens) = (0.0, 0);
        for (x, one) in sequences.iter().zip(&surprises) {
            for (value, counts) in one.iter().zip(protocol.counted(x, self.eos)) {
                if counts {
                    sum += value;
                    tokens += 1;
                }
            }
        }
        if tokens == 0 {
            return Err(JudgeError::Refused(
                "no sample has a token after the first, so there is nothing to judge".into(),
            ));
        }
        Ok(Score {
            perplexity: f64::exp(sum / tokens as f64),
            tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds token `n` after token `m` surprising by `m + n / 10`, two sequences at a time.
    struct Table;

    impl Reader for Table {
        fn vocabulary(&self) -> usize {
            10
        }

        fn batch(&self) -> usize {
            2
        }

        fn surprise(&mut self, all: &[&[u32]], seen: Seen) -> Result<Vec<Vec<f64>>, JudgeError> {
            assert!(all.len() <= 2);
            let of = |pair: &[u32]| f64::from(pair[0]) + f64::from(pair[1]) / 10.0;
            let each = |x: &&[u32]| {
                seen(x.len() - 1)?;
                Ok(x.windows(2).map(of).collect())
            };
            all.iter().map(each).collect()
        }
    }

    /// Digits are tokens; 9 ends a document.
    struct Digits;

    impl Words for Digits {
        fn tokens(&self, text: &str) -> Result<Vec<u32>, JudgeError> {
            Ok(text.chars().filter_map(|c| c.to_digit(16)).collect())
        }
    }

    fn score(texts: &[&str], protocol: Protocol, context: usize) -> Result<Score, JudgeError> {
        let texts: Vec<String> = texts.iter().map(|&text| text.into()).collect();
        let mut judge = Judge::new(Box::new(Table), Box::new(Digits), Some(9), context);
        judge.score(&texts, protocol, |_, _| Ok(()))
    }

    #[test]
    fn all_tokens_have_the_same_weight() {
        // Means of texts are 1.2, 0.1 and 2.3; of tokens (0.1 + 1.2 + 2.3 + 0.1 + 2.3) / 5.
        let found = score(&["0123", "01", "", "7", "23"], Protocol::Redi, 8).unwrap();
        assert_eq!(found.tokens, 5);
        assert!((found.perplexity.ln() - 6.0 / 5.0).abs() < 1e-12);
    }

    #[test]
    fn protocols_differ_in_what_counts() {
        // 0.1, 1.9 to the first end, 9.2, 2.9 to the second, which only redi counts.
        let texts = ["01929"];
        let duo = score(&texts, Protocol::Duo, 8).unwrap();
        assert_eq!(duo.tokens, 3);
        assert!((duo.perplexity.ln() - 11.2 / 3.0).abs() < 1e-12);
        let redi = score(&texts, Protocol::Redi, 8).unwrap();
        assert_eq!(redi.tokens, 4);
        assert!((redi.perplexity.ln() - 14.1 / 4.0).abs() < 1e-12);
        // Only duo cuts.
        assert_eq!(score(&texts, Protocol::Duo, 3).unwrap().tokens, 2);
        let error = score(&texts, Protocol::Redi, 3).unwrap_err().to_string();
        assert!(
            error.contains("5 tokens, the judge reads at most 3"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        let error = score(&["1", ""], Protocol::Duo, 8).unwrap_err().to_string();
        assert!(error.contains("nothing to judge"), "{error}");
        let error = score(&["1a"], Protocol::Duo, 8).unwrap_err().to_string();
        assert!(error.contains("token 10, the judge has 10"), "{error}");
    }

    #[test]
    fn progress_reaches_the_end_and_can_stop() {
        let mut judge = Judge::new(Box::new(Table), Box::new(Digits), None, 8);
        let texts: Vec<String> = ["12", "1234", "123", "1"].map(Into::into).into();
        let mut steps = Vec::new();
        let watch = |done, all| {
            steps.push((done, all));
            Ok(())
        };
        judge.score(&texts, Protocol::Duo, watch).unwrap();
        assert_eq!(steps, [(0, 6), (3, 6), (5, 6), (6, 6)]);
        let stopped = judge.score(&texts, Protocol::Duo, |_, _| Err(JudgeError::Stopped));
        assert!(matches!(stopped, Err(JudgeError::Stopped)));
    }
}
