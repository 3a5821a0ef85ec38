//! Candle's Llamas as readers: the plain one in f32 and the quantised one of GGUF files.
//!
//! Both give the logits of the last position only, so sequences are read one position at a time,
//! several side by side, with candle's cache of keys and values. Shorter ones are filled up at the
//! end, where nothing that counts looks.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    llama::{Cache, Config, Llama, LlamaConfig},
    quantized_llama::ModelWeights,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JudgeError, Reader, Seen, directory::Tensors, surprise::surprises};

/// Sequences read side by side: reading the weights once for all of them is what makes it fast.
const BATCH: usize = 16;

/// Longer contexts are cut to this: candle makes tables of the whole, and samples are shorter.
const LONGEST: usize = 1 << 15;

/// Reads `config.json`, or says what about it is not candle's Llama. Newer files keep the rotary
/// embedding's numbers in `rope_parameters`.
pub(super) fn config(value: &Value) -> Result<Config, String> {
    let mut value = value.clone();
    let rope = match &value["rope_parameters"] {
        Value::Null => value["rope_scaling"].clone(),
        newer => newer.clone(),
    };
    if let Some(theta) = rope["rope_theta"].as_f64() {
        value["rope_theta"] = json!(theta);
    }
    let kind = rope["rope_type"].as_str().or(rope["type"].as_str());
    value["rope_scaling"] = match kind {
        _ if !rope.is_object() => Value::Null,
        None | Some("default") => Value::Null,
        Some("llama3") => rope,
        Some(other) => {
            return Err(format!(
                "its rotary embedding is scaled as {other}; only llama3 is supported"
            ));
        }
    };
    for bias in ["attention_bias", "mlp_bias"] {
        if value[bias].as_bool() == Some(true) {
            return Err(format!("it has {bias}, which is not supported"));
        }
    }
    let act = value["hidden_act"].as_str().unwrap_or("silu");
    if act != "silu" {
        return Err(format!("its activation is {act}; a Llama's is silu"));
    }
    let head_size = value["head_dim"].as_u64();
    let typed = LlamaConfig::deserialize(&value).map_err(|e| e.to_string())?;
    let mut config = typed.into_config(false);
    let sizes = Sizes {
        width: config.hidden_size,
        heads: config.num_attention_heads,
        groups: config.num_key_value_heads,
    };
    let size = sizes.head()?;
    if head_size.is_some_and(|claimed| claimed != size as u64) {
        return Err("its heads together are not as wide as the network; not supported".into());
    }
    config.max_position_embeddings = config.max_position_embeddings.min(LONGEST);
    Ok(config)
}

/// Sizes of attention, as a file claims them.
pub(super) struct Sizes {
    /// Of the network.
    pub(super) width: usize,
    /// Heads.
    pub(super) heads: usize,
    /// Heads of keys and values, shared by several of the others.
    pub(super) groups: usize,
}

impl Sizes {
    /// The size of a head, if there can be one.
    pub(super) fn head(&self) -> Result<usize, String> {
        let Self {
            width,
            heads,
            groups,
        } = *self;
        let whole = |a: usize, b: usize| a > 0 && b > 0 && a.is_multiple_of(b);
        if whole(width, heads) && whole(heads, groups) && (width / heads).is_multiple_of(2) {
            return Ok(width / heads);
        }
        Err(format!(
            "it divides a width of {width} into {heads} heads with {groups} for keys and values"
        ))
    }
}

/// The Llama of Hugging Face's layout, in f32.
pub(super) struct Plain {
    network: Llama,
    /// Empty; each batch begins with a copy.
    fresh: Cache,
    symbols: usize,
}

impl Plain {
    /// Takes the network's tensors.
    pub(super) fn take(mut config: Config, mut tensors: Tensors) -> Result<Self, JudgeError> {
        let (width, symbols) = (config.hidden_size, config.vocab_size);
        let inner = config.intermediate_size;
        let shared = width / config.num_attention_heads * config.num_key_value_heads;
        let mut taken = HashMap::new();
        let mut take = |name: String, shape: &[usize]| {
            let tensor = tensors.take(&name, shape)?;
            taken.insert(name, tensor);
            Ok::<_, JudgeError>(())
        };
        take("model.embed_tokens.weight".into(), &[symbols, width])?;
        if !config.tie_word_embeddings {
            take("lm_head.weight".into(), &[symbols, width])?;
        }
        take("model.norm.weight".into(), &[width])?;
        for layer in 0..config.num_hidden_layers {
            let shapes: [(&str, &[usize]); 9] = [
                ("self_attn.q_proj", &[width, width]),
                ("self_attn.k_proj", &[shared, width]),
                ("self_attn.v_proj", &[shared, width]),
                ("self_attn.o_proj", &[width, width]),
                ("mlp.gate_proj", &[inner, width]),
                ("mlp.up_proj", &[inner, width]),
                ("mlp.down_proj", &[width, inner]),
                ("input_layernorm", &[width]),
                ("post_attention_layernorm", &[width]),
            ];
            for (name, shape) in shapes {
                take(format!("model.layers.{layer}.{name}.weight"), shape)?;
            }
        }
        // Candle compares its number of heads with this by mistake, and cuts keys if it is more.
        let groups = config.num_key_value_heads;
        config.max_position_embeddings = config.max_position_embeddings.max(groups);
        let tensors = VarBuilder::from_tensors(taken, DType::F32, &Device::Cpu);
        Ok(Self {
            network: Llama::load(tensors, &config)?,
            fresh: Cache::new(true, DType::F32, &config, &Device::Cpu)?,
            symbols,
        })
    }
}

impl Reader for Plain {
    fn vocabulary(&self) -> usize {
        self.symbols
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn surprise(&mut self, sequences: &[&[u32]], seen: Seen) -> Result<Vec<Vec<f64>>, JudgeError> {
        let mut cache = self.fresh.clone();
        let forward = |x: &Tensor, position| self.network.forward(x, position, &mut cache);
        by_position(sequences, forward, seen)
    }
}

/// The Llama of a GGUF file, in its own format.
pub(super) struct Quantised {
    pub(super) network: ModelWeights,
    pub(super) symbols: usize,
}

impl Reader for Quantised {
    fn vocabulary(&self) -> usize {
        self.symbols
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn surprise(&mut self, sequences: &[&[u32]], seen: Seen) -> Result<Vec<Vec<f64>>, JudgeError> {
        // Position 0 begins anew in any case; this also frees what an error left.
        self.network.clear_kv_cache();
        by_position(
            sequences,
            |x, position| self.network.forward(x, position),
            seen,
        )
    }
}

/// Reads sequences side by side; `forward` takes the tokens `[sequences, 1]` at a position to logits
/// `[sequences, symbols]`.
fn by_position(
    sequences: &[&[u32]],
    mut forward: impl FnMut(&Tensor, usize) -> candle_core::Result<Tensor>,
    seen: Seen,
) -> Result<Vec<Vec<f64>>, JudgeError> {
    let count = sequences.len();
    let longest = sequences.iter().map(|x| x.len()).max().unwrap_or(0);
    let mut found = vec![Vec::new(); count];
    for position in 0..longest.saturating_sub(1) {
        let at = |x: &&[u32]| x.get(position).copied();
        let tokens: Vec<u32> = sequences.iter().map(|x| at(x).unwrap_or(0)).collect();
        let logits = forward(
            &Tensor::from_vec(tokens, (count, 1), &Device::Cpu)?,
            position,
        )?;
        let logits = logits.flatten_all()?.to_vec1::<f32>()?;
        let next = |x: &&[u32]| x.get(position + 1).copied();
        let targets: Vec<Option<u32>> = sequences.iter().map(next).collect();
        for (one, value) in found.iter_mut().zip(surprises(&logits, &targets)) {
            one.extend(value);
        }
        seen(targets.iter().flatten().count())?;
    }
    Ok(found)
}
