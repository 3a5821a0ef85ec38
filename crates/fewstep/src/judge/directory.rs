//! Judges in Hugging Face's layout: `config.json`, weights in one or several safetensors files,
//! `tokenizer.json`.
//!
//! Candle panics on a Llama with a missing tensor and divides by sizes that may be zero, so all that
//! a file claims is checked before candle sees it.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor, safetensors};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Judge, JudgeError, Reader, Words,
    gpt2::{self, Gpt2},
    llama,
    tokens::{END, Gpt2Words, Piped},
};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TOKENIZER: &str = "tokenizer.json";

/// The judge in a directory.
pub(super) fn open(dir: &Path) -> Result<Judge, JudgeError> {
    let config = json(&dir.join(CONFIG))?;
    let family = config["model_type"].as_str().unwrap_or("missing");
    let (words, piped_symbols, end): (Box<dyn Words>, _, _) = match words(dir, family)? {
        Some(piped) => {
            let (symbols, end) = (piped.vocabulary(), piped.token(END));
            (Box::new(piped), symbols, end)
        }
        None => (Box::new(Gpt2Words), 50257, Some(50256)),
    };
    let (reader, context): (Box<dyn Reader>, usize) = match family {
        "gpt2" => {
            let config: gpt2::Config = typed(dir, &config)?;
            if let Some(why) = config.unlike() {
                return Err(JudgeError::file(&dir.join(CONFIG), why));
            }
            fits(dir, piped_symbols, config.vocab_size)?;
            let reader = Gpt2::take(&config, &mut Tensors::open(dir)?)?;
            (Box::new(reader), config.n_positions)
        }
        "llama" => {
            let config =
                llama::config(&config).map_err(|why| JudgeError::file(&dir.join(CONFIG), why))?;
            fits(dir, piped_symbols, config.vocab_size)?;
            let context = config.max_position_embeddings;
            let reader = llama::Plain::take(config, Tensors::open(dir)?)?;
            (Box::new(reader), context)
        }
        other => {
            return Err(JudgeError::file(
                &dir.join(CONFIG),
                format!("model_type is {other}; a judge is gpt2 or llama"),
            ));
        }
    };
    // Several ends are of chats; the first is the document's.
    let said = match &config["eos_token_id"] {
        Value::Array(all) => all.first().and_then(Value::as_u64),
        one => one.as_u64(),
    };
    let eos = said.and_then(|id| u32::try_from(id).ok()).or(end);
    Ok(Judge::new(reader, words, eos, context))
}

/// The tokenizer of the directory; none where the one in the binary takes its place.
fn words(dir: &Path, family: &str) -> Result<Option<Piped>, JudgeError> {
    let file = dir.join(TOKENIZER);
    match (file.exists(), family) {
        (true, _) => Ok(Some(Piped::open(&file)?)),
        (false, "gpt2") => Ok(None),
        (false, _) => Err(JudgeError::file(
            dir,
            format!("there is no {TOKENIZER} beside its weights; download it from the same place"),
        )),
    }
}

fn fits(dir: &Path, tokens: usize, vocabulary: usize) -> Result<(), JudgeError> {
    if tokens <= vocabulary {
        return Ok(());
    }
    Err(JudgeError::file(
        dir,
        format!(
            "its tokenizer has {tokens} tokens, its network {vocabulary}; they do not belong \
             together"
        ),
    ))
}

fn json(file: &Path) -> Result<Value, JudgeError> {
    let text = fs::read_to_string(file).map_err(JudgeError::read(file))?;
    serde_json::from_str(&text).map_err(|e| JudgeError::file(file, e))
}

fn typed<T: DeserializeOwned>(dir: &Path, config: &Value) -> Result<T, JudgeError> {
    T::deserialize(config).map_err(|e| JudgeError::file(&dir.join(CONFIG), e))
}

/// The tensors of a directory by name.
pub(super) struct Tensors {
    file: PathBuf,
    all: HashMap<String, Tensor>,
}

impl Tensors {
    /// Reads one file or those that the index names.
    pub(super) fn open(dir: &Path) -> Result<Self, JudgeError> {
        let mut file = dir.join(WEIGHTS);
        let mut parts = BTreeSet::from([WEIGHTS.to_string()]);
        if !file.exists() && dir.join(INDEX).exists() {
            file = dir.join(INDEX);
            let index = json(&file)?;
            let map = index["weight_map"].as_object();
            let map = map.ok_or_else(|| JudgeError::file(&file, "it has no weight_map"))?;
            parts = map
                .values()
                .filter_map(|name| name.as_str().map(Into::into))
                .collect();
        }
        let mut all = HashMap::new();
        for part in &parts {
            // A name and no path: an index must not lead out of its directory.
            if Path::new(part).file_name() != Some(part.as_ref()) {
                return Err(JudgeError::file(
                    &file,
                    format!("{part:?} is no file beside it"),
                ));
            }
            let part = dir.join(part);
            let bytes = fs::read(&part).map_err(JudgeError::read(&part))?;
            let found = safetensors::load_buffer(&bytes, &Device::Cpu);
            all.extend(found.map_err(|e| JudgeError::file(&part, e))?);
        }
        Ok(Self { file, all })
    }

    /// Whether there is a tensor of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// Takes a tensor out, in f32.
    pub(super) fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, JudgeError> {
        let wrong = |why: String| JudgeError::file(&self.file, why);
        let Some(tensor) = self.all.remove(name) else {
            return Err(wrong(format!("the tensor {name} is missing")));
        };
        if tensor.dims() != shape {
            return Err(wrong(format!(
                "the tensor {name} has shape {:?}, config.json wants {shape:?}",
                tensor.dims()
            )));
        }
        let tensor = tensor.to_dtype(DType::F32);
        tensor.map_err(|e| wrong(format!("the tensor {name} cannot be read as f32: {e}")))
    }
}
