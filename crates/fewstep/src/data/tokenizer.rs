//! Text to symbols and back.
//!
//! A tokenizer is a value with a [`Description`] that goes into the manifest and gives the same
//! tokenizer again, so that data and what was trained on them need nothing else to be read.

use serde::{Deserialize, Serialize};
use tiktoken_rs::{CoreBPE, r50k_base_singleton};

use super::{Error, Pictures};

/// What the end of a document decodes to.
const END: &str = "<|endoftext|>";

/// The most text that is encoded at once where text may be cut. The pattern of GPT-2 fails on a
/// million spaces in a row, and so much text keeps a thread busy.
pub(super) const PIECE: usize = 1 << 18;

/// A tokenizer.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// The 256 bytes, and 256 for the end of a document.
    Byte,
    /// The characters of one corpus.
    Characters(Characters),
    /// GPT-2's byte pairs, 50257 with the end of a document.
    Gpt2,
    /// Any `tokenizer.json`.
    #[cfg(feature = "tokenizers")]
    HuggingFace(Box<super::hugging_face::HuggingFace>),
    /// No text: pixels or codes, then classes.
    Pictures(Pictures),
}

/// A tokenizer as a manifest holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Description {
    /// [`Tokenizer::Byte`].
    Byte,
    /// [`Tokenizer::Characters`].
    Characters {
        /// The characters in their order.
        table: String,
        /// Whether the symbol after them ends a document.
        eos: bool,
    },
    /// [`Tokenizer::Gpt2`].
    Gpt2,
    /// [`Tokenizer::HuggingFace`].
    HuggingFace {
        /// The whole file.
        json: String,
    },
    /// [`Tokenizer::Pictures`].
    Pictures(Pictures),
}

/// A table of characters: each is its place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Characters {
    sorted: Vec<char>,
    eos: bool,
}

impl Characters {
    /// A table of the given characters, with a symbol for the end of a document or without.
    pub fn new(characters: impl IntoIterator<Item = char>, eos: bool) -> Self {
        let mut sorted: Vec<char> = characters.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted, eos }
    }

    fn end(&self) -> u32 {
        self.sorted.len() as u32
    }
}

impl Tokenizer {
    /// The tokenizer `byte`, `gpt2`, or of a path to a `tokenizer.json`. A table of characters is
    /// made from a corpus only.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name {
            "byte" => Ok(Self::Byte),
            "gpt2" => Ok(Self::Gpt2),
            "char" => Err(Error::Option(
                "a character tokenizer is made from a corpus: prepare data with it first".into(),
            )),
            path if path.ends_with(".json") => {
                let json = std::fs::read_to_string(path).map_err(Error::read(path.as_ref()))?;
                hugging_face(path, json)
            }
            _ => Err(Error::Option(format!(
                "no tokenizer {name:?}; use byte, char, gpt2 or a path to a tokenizer.json"
            ))),
        }
    }

    /// What gives this tokenizer again.
    pub fn description(&self) -> Description {
        match self {
            Self::Byte => Description::Byte,
            Self::Characters(characters) => Description::Characters {
                table: characters.sorted.iter().collect(),
                eos: characters.eos,
            },
            Self::Gpt2 => Description::Gpt2,
            #[cfg(feature = "tokenizers")]
            Self::HuggingFace(tokenizer) => Description::HuggingFace {
                json: tokenizer.json().into(),
            },
            Self::Pictures(pictures) => Description::Pictures(pictures.clone()),
        }
    }

    /// The tokenizer that was described.
    pub fn described(description: &Description) -> Result<Self, Error> {
        match description {
            Description::Byte => Ok(Self::Byte),
            Description::Characters { table, eos } => {
                Ok(Self::Characters(Characters::new(table.chars(), *eos)))
            }
            Description::Gpt2 => Ok(Self::Gpt2),
            Description::HuggingFace { json } => hugging_face("of the manifest", json.clone()),
            Description::Pictures(pictures) => match pictures.format.fault() {
                Some(why) => Err(Error::Tokenizer {
                    name: "pixels".into(),
                    why,
                }),
                None => Ok(Self::Pictures(pictures.clone())),
            },
        }
    }

    /// Appends the symbols of a text. A GPT-2 text with more than a quarter of a megabyte without
    /// a space is cut there, which may change two symbols.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        match self {
            Self::Byte => ids.extend(text.bytes().map(u32::from)),
            Self::Characters(characters) => {
                for c in text.chars() {
                    let place = characters.sorted.binary_search(&c);
                    ids.push(place.map_err(|_| Error::Character(c))? as u32);
                }
            }
            Self::Gpt2 => {
                let mut rest = text;
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(cut(rest, PIECE));
                    ids.extend(gpt2().encode_ordinary(piece));
                    rest = after;
                }
            }
            #[cfg(feature = "tokenizers")]
            Self::HuggingFace(tokenizer) => tokenizer.encode(text, ids)?,
            Self::Pictures(_) => {
                return Err(Error::Option("the data are pictures, not text".into()));
            }
        }
        Ok(())
    }

    /// The text of symbols. What is no UTF-8 and what is no symbol becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        match self {
            Self::Byte => {
                for &id in ids {
                    match u8::try_from(id) {
                        Ok(byte) => bytes.push(byte),
                        Err(_) if id == 256 => bytes.extend(END.bytes()),
                        Err(_) => bytes.extend("\u{fffd}".bytes()),
                    }
                }
            }
            Self::Characters(characters) => {
                let symbol = |&id: &u32| match characters.sorted.get(id as usize) {
                    Some(c) => c.to_string(),
                    None if characters.eos && id == characters.end() => END.into(),
                    None => "\u{fffd}".into(),
                };
                return ids.iter().map(symbol).collect();
            }
            Self::Gpt2 => {
                for &id in ids {
                    match gpt2().decode_bytes(&[id]) {
                        Ok(more) => bytes.extend(more),
                        Err(_) => bytes.extend("\u{fffd}".bytes()),
                    }
                }
            }
            #[cfg(feature = "tokenizers")]
            Self::HuggingFace(tokenizer) => return tokenizer.decode(ids),
            Self::Pictures(_) => {
                let numbers: Vec<String> = ids.iter().map(u32::to_string).collect();
                return numbers.join(" ");
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The number of symbols, a mask not counted.
    pub fn vocabulary(&self) -> usize {
        match self {
            Self::Byte => 257,
            Self::Characters(characters) => characters.sorted.len() + usize::from(characters.eos),
            Self::Gpt2 => 50257,
            #[cfg(feature = "tokenizers")]
            Self::HuggingFace(tokenizer) => tokenizer.vocabulary(),
            Self::Pictures(pictures) => pictures.symbols() + pictures.classes.len(),
        }
    }

    /// The symbol for the end of a document, if there is one.
    pub fn eos(&self) -> Option<u32> {
        match self {
            Self::Byte => Some(256),
            Self::Characters(characters) => characters.eos.then(|| characters.end()),
            Self::Gpt2 => Some(50256),
            #[cfg(feature = "tokenizers")]
            Self::HuggingFace(tokenizer) => tokenizer.eos(),
            Self::Pictures(_) => None,
        }
    }

    /// Whether a text may be encoded in the parts that [`cut`] makes of it.
    pub(super) fn takes_parts(&self) -> bool {
        match self {
            Self::Byte | Self::Characters(_) | Self::Gpt2 => true,
            #[cfg(feature = "tokenizers")]
            Self::HuggingFace(_) => false,
            Self::Pictures(_) => false,
        }
    }
}

fn gpt2() -> &'static CoreBPE {
    r50k_base_singleton()
}

#[cfg(feature = "tokenizers")]
fn hugging_face(name: &str, json: String) -> Result<Tokenizer, Error> {
    let tokenizer = super::hugging_face::HuggingFace::new(name, json)?;
    Ok(Tokenizer::HuggingFace(Box::new(tokenizer)))
}

#[cfg(not(feature = "tokenizers"))]
fn hugging_face(name: &str, _: String) -> Result<Tokenizer, Error> {
    Err(Error::Tokenizer {
        name: name.into(),
        why: "this program was built without it; build it with --features tokenizers".into(),
    })
}

/// Where to cut a text to at most `most` bytes: before the last space after a word, where no
/// symbol of GPT-2 crosses and no look ahead passes, so that the parts have the symbols of the
/// whole. In a text without such a place, before any character.
pub(super) fn cut(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let end = text.floor_char_boundary(most.max(4));
    let mut after = text[end..].chars().next();
    for (i, c) in text[..end].char_indices().rev() {
        if after.is_some_and(char::is_whitespace) && !c.is_whitespace() {
            return i + c.len_utf8();
        }
        after = Some(c);
    }
    end
}

/// The first such place from `least` on, or else the first character there.
pub(super) fn cut_after(text: &str, least: usize) -> usize {
    let start = text.ceil_char_boundary(least);
    let mut before = text[..start].chars().next_back();
    for (i, c) in text[start..].char_indices() {
        if c.is_whitespace() && before.is_some_and(|before| !before.is_whitespace()) {
            return start + i;
        }
        before = Some(c);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_before_the_space_after_a_word() {
        assert_eq!(cut("one two three", 9), 7);
        assert_eq!(cut("one two three", 7), 7);
        assert_eq!(cut("one  two", 5), 3);
        assert_eq!(cut("one", 9), 3);
        // No such place: any character.
        assert_eq!(cut("abcdefghi", 5), 5);
        assert_eq!(cut("ääääää", 5), 4);
        assert_eq!(cut_after("one two three", 4), 7);
        assert_eq!(cut_after("one two three", 8), 8);
        assert_eq!(cut_after("ää b", 1), 4);
    }

    #[test]
    fn long_texts_have_the_symbols_of_the_whole() {
        let text = "It's  a test of\n\n many  words, 123 of them. ".repeat(9000);
        assert!(text.len() > PIECE);
        let mut ids = Vec::new();
        Tokenizer::Gpt2.encode(&text, &mut ids).unwrap();
        assert_eq!(ids, gpt2().encode_ordinary(&text));
    }

    #[test]
    fn text_without_words_does_not_fail() {
        for text in [" ".repeat(1_200_000), "a".repeat(600_000)] {
            let mut ids = Vec::new();
            Tokenizer::Gpt2.encode(&text, &mut ids).unwrap();
            assert_eq!(Tokenizer::Gpt2.decode(&ids), text);
        }
    }
}
