//! Judges in GGUF files, as llama.cpp writes them: weights, mostly quantised, and the tokenizer.
//!
//! Candle reads the format, but believes what a file claims and leaves out what it does not know;
//! both are checked here first, so that a file is refused rather than judged by wrongly.
//!
//! Its tokenizer of a GGUF file puts a space before a text and knows few of the names that llama.cpp
//! gives to the ways of splitting it. The names known here have the splits of their models' own
//! `tokenizer.json`; others are refused.

use std::{
    fs::File,
    io::{BufReader, Read, Seek},
    path::Path,
};

use candle_core::{
    Device,
    quantized::{
        gguf_file::{Content, Value},
        tokenizer::TokenizerFromGguf,
    },
};
use candle_transformers::models::quantized_llama::{MAX_SEQ_LEN, ModelWeights};
use tokenizers::{
    Tokenizer as Pipeline,
    pre_tokenizers::{byte_level::ByteLevel, digits::Digits, sequence::Sequence},
};

use super::{
    Judge, JudgeError,
    llama::{Quantised, Sizes},
    tokens::Piped,
};

/// How the metadata are looked for the alignment, at most.
const HEAD: u64 = 1 << 24;

const PRE: &str = "tokenizer.ggml.pre";

/// The judge in a file.
pub(super) fn open(file: &Path) -> Result<Judge, JudgeError> {
    let wrong = |why: String| JudgeError::file(file, why);
    let opened = File::open(file).map_err(JudgeError::read(file))?;
    let size = opened.metadata().map_err(JudgeError::read(file))?.len();
    let mut reader = BufReader::new(opened);
    let mut head = Vec::new();
    let looked = reader.by_ref().take(HEAD).read_to_end(&mut head);
    looked.map_err(JudgeError::read(file))?;
    if !head.starts_with(b"GGUF") {
        return Err(wrong(
            "it is no GGUF file; give a .gguf file or a directory with config.json".into(),
        ));
    }
    if unaligned(&head) {
        return Err(wrong("its alignment is 0; it is damaged".into()));
    }
    drop(head);
    reader.rewind().map_err(JudgeError::read(file))?;
    let damaged = |e: candle_core::Error| wrong(format!("it is cut off or damaged: {e}"));
    let mut content = Content::read(&mut reader).map_err(damaged)?;
    let symbols = check(&content, size).map_err(wrong)?;
    let words = words(&mut content, symbols).map_err(wrong)?;
    let eos = number(&content, "tokenizer.ggml.eos_token_id").map(|id| id as u32);
    let context = number(&content, "llama.context_length").unwrap_or(MAX_SEQ_LEN);
    let network = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu).map_err(damaged)?;
    let reader = Box::new(Quantised { network, symbols });
    // Candle's tables end at its own longest sequence.
    let context = context.min(MAX_SEQ_LEN);
    Ok(Judge::new(reader, Box::new(words), eos, context))
}

/// Whether the alignment is given as 0, by which candle divides.
fn unaligned(head: &[u8]) -> bool {
    const KEY: &[u8] = b"general.alignment";
    let mut places = head.windows(KEY.len()).enumerate();
    places.any(|(i, key)| {
        // The kind of the value in four bytes, then the value in one, two or four.
        let value = head.get(i + KEY.len()..).unwrap_or_default();
        let bytes = match value.first() {
            Some(0 | 1) => 1,
            Some(2 | 3) => 2,
            _ => 4,
        };
        let value = value.get(4..4 + bytes);
        key == KEY && value.is_some_and(|value| value.iter().all(|&byte| byte == 0))
    })
}

fn number(content: &Content, key: &str) -> Option<usize> {
    let value = content.metadata.get(key)?;
    let value = match value {
        Value::I32(v) => u64::try_from(*v).ok()?,
        other => other.to_u64().ok()?,
    };
    usize::try_from(value).ok()
}

fn text<'a>(content: &'a Content, key: &str) -> Option<&'a str> {
    content.metadata.get(key)?.to_string().ok().map(|s| &s[..])
}

/// Checks that this is a Llama as candle computes it and that all of it is there; its vocabulary.
fn check(content: &Content, size: u64) -> Result<usize, String> {
    let kind = text(content, "general.architecture").unwrap_or("missing");
    if kind != "llama" {
        return Err(format!(
            "its architecture is {kind}; a GGUF judge is a llama"
        ));
    }
    let needed = |key: &str| number(content, key).ok_or(format!("the number {key} is missing"));
    let sizes = Sizes {
        width: needed("llama.embedding_length")?,
        heads: needed("llama.attention.head_count")?,
        groups: needed("llama.attention.head_count_kv")?,
    };
    let head = sizes.head()?;
    if needed("llama.rope.dimension_count")? != head
        || number(content, "llama.attention.key_length").is_some_and(|k| k != head)
    {
        return Err("its rotary embedding is not as wide as a head; not supported".into());
    }
    if number(content, "llama.expert_count").unwrap_or(0) > 1 {
        return Err("it is a mixture of experts; not supported".into());
    }
    let scaled = text(content, "llama.rope.scaling.type").is_some_and(|kind| kind != "none");
    if scaled || content.tensor_infos.contains_key("rope_freqs.weight") {
        return Err(
            "its rotary embedding is scaled, which candle leaves out for GGUF; use the Hugging \
             Face directory of the model"
                .into(),
        );
    }
    if let Some(name) = content.tensor_infos.keys().find(|n| n.ends_with(".bias")) {
        return Err(format!("it has {name}; biases are not supported"));
    }
    for (name, info) in &content.tensor_infos {
        let count = info
            .shape
            .dims()
            .iter()
            .try_fold(1u64, |n, &d| n.checked_mul(d as u64));
        let blocks = count.map(|n| n.div_ceil(info.ggml_dtype.block_size() as u64));
        let bytes = blocks.and_then(|n| n.checked_mul(info.ggml_dtype.type_size() as u64));
        let start = content.tensor_data_offset.checked_add(info.offset);
        let end = start.zip(bytes).and_then(|(at, n)| at.checked_add(n));
        if end.is_none_or(|end| end > size) {
            return Err(format!(
                "it ends before the tensor {name} does; download it again"
            ));
        }
    }
    let dims = |name: &str| {
        let info = content.tensor_infos.get(name);
        let dims = info.map(|info| info.shape.dims().to_vec());
        dims.ok_or(format!("the tensor {name} is missing"))
    };
    let demand = |name: &str, shape: &[usize]| {
        let found = dims(name)?;
        match found == shape {
            true => Ok(()),
            false => Err(format!(
                "the tensor {name} has shape {found:?}, not {shape:?}"
            )),
        }
    };
    let (width, shared) = (sizes.width, head * sizes.groups);
    let symbols = dims("token_embd.weight")?.first().copied().unwrap_or(0);
    demand("token_embd.weight", &[symbols, width])?;
    demand("output_norm.weight", &[width])?;
    if content.tensor_infos.contains_key("output.weight") {
        demand("output.weight", &[symbols, width])?;
    }
    for layer in 0..needed("llama.block_count")? {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let inner = dims(&name("ffn_gate"))?.first().copied().unwrap_or(0);
        demand(&name("attn_q"), &[width, width])?;
        demand(&name("attn_k"), &[shared, width])?;
        demand(&name("attn_v"), &[shared, width])?;
        demand(&name("attn_output"), &[width, width])?;
        demand(&name("ffn_gate"), &[inner, width])?;
        demand(&name("ffn_up"), &[inner, width])?;
        demand(&name("ffn_down"), &[width, inner])?;
        demand(&name("attn_norm"), &[width])?;
        demand(&name("ffn_norm"), &[width])?;
    }
    Ok(symbols)
}

/// The tokenizer inside the file.
fn words(content: &mut Content, symbols: usize) -> Result<Piped, String> {
    let kind = text(content, "tokenizer.ggml.model").unwrap_or("missing");
    if kind != "gpt2" {
        return Err(format!(
            "its tokenizer is {kind}, only byte pairs (gpt2) are read from GGUF; use the Hugging \
             Face directory of the model"
        ));
    }
    let tokens = content.metadata.get("tokenizer.ggml.tokens");
    let tokens = tokens
        .and_then(|tokens| tokens.to_vec().ok())
        .map_or(0, Vec::len);
    if tokens != symbols {
        return Err(format!(
            "its tokenizer has {tokens} tokens, its network {symbols}; they do not belong together"
        ));
    }
    let bytes = || ByteLevel::new(false, true, true);
    let pre = text(content, PRE).unwrap_or("missing").to_string();
    // Candle's name for a way of splitting, and what is put in its place.
    let (name, split) = match pre.as_str() {
        "gpt-2" | "gpt2" => ("gpt-2", Some(vec![bytes().into()])),
        "smollm" => (
            "gpt-2",
            Some(vec![Digits::new(true).into(), bytes().into()]),
        ),
        "llama-bpe" | "llama3" | "llama-v3" => ("llama3", None),
        "qwen2" => ("qwen2", None),
        _ => {
            return Err(format!(
                "its tokenizer splits text as {pre}, which is not known here; use the Hugging Face \
                 directory of the model"
            ));
        }
    };
    let llama3 = name == "llama3";
    // As llama.cpp: of these only Llama 3's has a beginning unless the file says otherwise.
    let begins = content.metadata.get("tokenizer.ggml.add_bos_token");
    let begins = begins.and_then(|v| v.to_bool().ok()).unwrap_or(llama3);
    let bos = number(content, "tokenizer.ggml.bos_token_id").map(|id| id as u32);
    if begins && bos.is_none() {
        return Err("its texts begin with a token that it does not name (bos_token_id)".into());
    }
    let metadata = &mut content.metadata;
    metadata.insert(PRE.into(), Value::String(name.into()));
    if llama3 {
        // A word that is a token needs no merges, which GGUF does not say.
        metadata.insert("tokenizer.ggml.ignore_merges".into(), Value::Bool(true));
    }
    let pipeline = Pipeline::from_gguf(content);
    let mut pipeline = pipeline.map_err(|e| format!("its tokenizer cannot be read: {e}"))?;
    if let Some(split) = split {
        pipeline.with_pre_tokenizer(Some(Sequence::new(split)));
    }
    Ok(Piped::plain(pipeline, bos.filter(|_| begins)))
}
