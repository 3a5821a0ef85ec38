//! Judges against numpy: tiny models in Hugging Face's layout with the surprises that
//! `golden/make_judge.py` computed in f64, the same Llama once more as a GGUF file, their
//! tokenizers, and files that are damaged or not what they seem.

#![cfg(feature = "judge")]
#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    collections::HashMap,
    fs,
    io::Cursor,
    path::{Path, PathBuf},
};

use candle_core::{
    DType, Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value as Meta},
    },
    safetensors,
};
use fewstep::{
    data::Tokenizer,
    judge::{Judge, Protocol},
};
use serde_json::{Value, json};
use tempfile::TempDir;

const CLOSE: f64 = 2e-4;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn json_of(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// A copy of a golden judge that a test may change.
fn copy(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden().join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

/// Changes a copy's `config.json`.
fn configure(dir: &Path, change: impl FnOnce(&mut Value)) {
    let file = dir.join("config.json");
    let mut config = json_of(&file);
    change(&mut config);
    fs::write(file, config.to_string()).unwrap();
}

fn weights(dir: &Path) -> HashMap<String, Tensor> {
    safetensors::load(dir.join("model.safetensors"), &Device::Cpu).unwrap()
}

fn save(tensors: &HashMap<String, Tensor>, file: PathBuf) {
    safetensors::save(tensors, file).unwrap();
}

/// The sequences of a golden model and what numpy says of them.
fn wanted(name: &str) -> (Vec<Vec<u32>>, Vec<Vec<f64>>) {
    let all = json_of(&golden().join("judge-golden.json"));
    let ids = serde_json::from_value(all[name]["ids"].clone()).unwrap();
    let nll = serde_json::from_value(all[name]["nll"].clone()).unwrap();
    (ids, nll)
}

/// The judge of `path` finds the sequences of a golden model as surprising as numpy does.
fn agrees(path: &Path, name: &str) {
    let (ids, nll) = wanted(name);
    let mut judge = Judge::open(path).unwrap();
    // A second time: nothing is left of the first.
    for _ in 0..2 {
        let found = judge.surprise(&ids, |_, _| Ok(())).unwrap();
        same(&found, &nll);
    }
    // Nor does a sequence see its neighbours.
    let alone: Vec<Vec<f64>> = ids
        .iter()
        .flat_map(|x| {
            judge
                .surprise(std::slice::from_ref(x), |_, _| Ok(()))
                .unwrap()
        })
        .collect();
    same(&alone, &nll);
}

fn same(found: &[Vec<f64>], wanted: &[Vec<f64>]) {
    assert_eq!(found.len(), wanted.len());
    for (one, other) in found.iter().zip(wanted) {
        assert_eq!(one.len(), other.len());
        for (a, b) in one.iter().zip(other) {
            assert!((a - b).abs() < CLOSE, "{a} is not {b}");
        }
    }
}

/// Refused with one line that says `why` and where.
fn refused(path: &Path, why: &str) {
    let error = Judge::open(path).err().unwrap().to_string();
    assert!(error.contains(why), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    let place = path.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(place), "{error}");
}

#[test]
fn gpt2_is_numpys() {
    agrees(&golden().join("judge-gpt2"), "gpt2");
}

#[test]
fn llama_is_numpys() {
    agrees(&golden().join("judge-llama"), "llama");
}

#[test]
fn names_of_gpt2_may_lack_their_prefix() {
    let dir = copy("judge-gpt2");
    let bare = weights(dir.path())
        .into_iter()
        .map(|(name, tensor)| (name.replace("transformer.", ""), tensor))
        .collect();
    save(&bare, dir.path().join("model.safetensors"));
    agrees(dir.path(), "gpt2");
    // A head of its own: the same one, under its name.
    let mut untied = bare;
    untied.insert("lm_head.weight".into(), untied["wte.weight"].clone());
    save(&untied, dir.path().join("model.safetensors"));
    configure(dir.path(), |config| {
        config["tie_word_embeddings"] = json!(false)
    });
    agrees(dir.path(), "gpt2");
}

#[test]
fn frequencies_of_llama_3_are_scaled() {
    let dir = copy("judge-llama");
    let scaled = json_of(&golden().join("judge-golden.json"))["llama-scaled"]["config"].clone();
    configure(dir.path(), |config| *config = scaled);
    agrees(dir.path(), "llama-scaled");
    // Where newer files keep them.
    configure(dir.path(), |config| {
        let mut rope = config["rope_scaling"].take();
        rope["rope_theta"] = config["rope_theta"].take();
        config["rope_parameters"] = rope;
        let all = config.as_object_mut().unwrap();
        all.retain(|_, value| !value.is_null());
    });
    agrees(dir.path(), "llama-scaled");
    configure(dir.path(), |config| {
        config["rope_parameters"]["rope_type"] = json!("yarn")
    });
    let error = Judge::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("scaled as yarn"), "{error}");
}

#[test]
fn weights_may_be_in_several_files() {
    let dir = copy("judge-llama");
    let (mut map, mut parts) = (json!({}), [HashMap::new(), HashMap::new()]);
    let mut tensors: Vec<_> = weights(dir.path()).into_iter().collect();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    for (i, (name, tensor)) in tensors.into_iter().enumerate() {
        map[&name] = json!(format!("part-{}.safetensors", i % 2));
        parts[i % 2].insert(name, tensor);
    }
    for (i, part) in parts.iter().enumerate() {
        save(part, dir.path().join(format!("part-{i}.safetensors")));
    }
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let index = dir.path().join("model.safetensors.index.json");
    fs::write(&index, json!({ "weight_map": map }).to_string()).unwrap();
    agrees(dir.path(), "llama");
    map["more"] = json!("../part-0.safetensors");
    fs::write(&index, json!({ "weight_map": map }).to_string()).unwrap();
    let error = Judge::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("no file beside it"), "{error}");
}

#[test]
fn half_precision_is_read() {
    let dir = copy("judge-gpt2");
    let half: HashMap<String, Tensor> = weights(dir.path())
        .into_iter()
        .map(|(name, tensor)| (name, tensor.to_dtype(DType::F16).unwrap()))
        .collect();
    save(&half, dir.path().join("model.safetensors"));
    let (ids, nll) = wanted("gpt2");
    let mut judge = Judge::open(dir.path()).unwrap();
    let found = judge.surprise(&ids, |_, _| Ok(())).unwrap();
    for (a, b) in found.iter().flatten().zip(nll.iter().flatten()) {
        assert!((a - b).abs() < 0.05, "{a} is not {b}");
    }
}

/// The golden Llama as llama.cpp would write it; `change` may damage it.
fn gguf(change: impl FnOnce(&mut HashMap<String, Meta>, &mut HashMap<String, QTensor>)) -> TempDir {
    let from = golden().join("judge-llama");
    let config = json_of(&from.join("config.json"));
    let size = |key: &str| Meta::U32(config[key].as_u64().unwrap() as u32);
    let number = |key: &str| Meta::F32(config[key].as_f64().unwrap() as f32);
    let tokenizer = json_of(&from.join("tokenizer.json"));
    let mut tokens = vec![String::new(); config["vocab_size"].as_u64().unwrap() as usize];
    for (word, id) in tokenizer["model"]["vocab"].as_object().unwrap() {
        tokens[id.as_u64().unwrap() as usize] = word.clone();
    }
    let mut types = vec![Meta::I32(1); tokens.len()];
    for special in tokenizer["added_tokens"].as_array().unwrap() {
        let id = special["id"].as_u64().unwrap() as usize;
        tokens[id] = special["content"].as_str().unwrap().into();
        types[id] = Meta::I32(3);
    }
    let merges = tokenizer["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|merge| Meta::String(merge.as_str().unwrap().into()));
    let string = |value: &str| Meta::String(value.into());
    let heads = config["num_attention_heads"].as_u64().unwrap() as usize;
    let groups = config["num_key_value_heads"].as_u64().unwrap() as usize;
    let mut metadata: HashMap<String, Meta> = [
        ("general.architecture", string("llama")),
        ("llama.embedding_length", size("hidden_size")),
        ("llama.block_count", size("num_hidden_layers")),
        ("llama.attention.head_count", size("num_attention_heads")),
        ("llama.attention.head_count_kv", size("num_key_value_heads")),
        (
            "llama.attention.layer_norm_rms_epsilon",
            number("rms_norm_eps"),
        ),
        ("llama.rope.freq_base", number("rope_theta")),
        ("llama.rope.dimension_count", Meta::U32(4)),
        ("llama.context_length", size("max_position_embeddings")),
        ("tokenizer.ggml.model", string("gpt2")),
        ("tokenizer.ggml.pre", string("gpt-2")),
        ("tokenizer.ggml.merges", Meta::Array(merges.collect())),
        ("tokenizer.ggml.token_type", Meta::Array(types)),
        ("tokenizer.ggml.bos_token_id", size("bos_token_id")),
        ("tokenizer.ggml.eos_token_id", size("eos_token_id")),
        ("tokenizer.ggml.add_bos_token", Meta::Bool(true)),
        (
            "tokenizer.ggml.tokens",
            Meta::Array(tokens.into_iter().map(Meta::String).collect()),
        ),
    ]
    .map(|(key, value)| (key.into(), value))
    .into();
    let mut tensors = HashMap::new();
    for (name, tensor) in weights(&from) {
        let tensor = match name.as_str() {
            name if name.contains("q_proj") => interleaved(&tensor, heads),
            name if name.contains("k_proj") => interleaved(&tensor, groups),
            _ => tensor,
        };
        let renamed = [
            ("model.layers.", "blk."),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("model.embed_tokens", "token_embd"),
            ("model.norm", "output_norm"),
            ("lm_head", "output"),
        ]
        .iter()
        .fold(name, |name, (ours, theirs)| name.replace(ours, theirs));
        tensors.insert(renamed, QTensor::quantize(&tensor, GgmlDType::F32).unwrap());
    }
    change(&mut metadata, &mut tensors);
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = Cursor::new(Vec::new());
    let mut metadata: Vec<_> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    metadata.sort_by_key(|(key, _)| *key);
    let mut tensors: Vec<_> = tensors.iter().map(|(k, v)| (k.as_str(), v)).collect();
    // The head comes last, where a cut takes it first.
    tensors.sort_by_key(|(name, _)| (*name == "output.weight", name.to_string()));
    gguf_file::write(&mut bytes, &metadata, &tensors).unwrap();
    fs::write(dir.path().join("tiny.gguf"), bytes.into_inner()).unwrap();
    dir
}

/// GGUF turns pairs of neighbours where Hugging Face turns the halves of a head, so rows of queries
/// and keys are stored in another order.
fn interleaved(weight: &Tensor, heads: usize) -> Tensor {
    let (rows, columns) = weight.dims2().unwrap();
    let halves = weight
        .reshape((heads, 2, rows / heads / 2, columns))
        .unwrap();
    let pairs = halves.transpose(1, 2).unwrap().contiguous().unwrap();
    pairs.reshape((rows, columns)).unwrap()
}

#[test]
fn a_gguf_file_is_the_same_llama() {
    let dir = gguf(|_, _| {});
    agrees(&dir.path().join("tiny.gguf"), "llama");
    // An embedding that is the head, too.
    let tied = gguf(|_, tensors| {
        let head = tensors.remove("output.weight").unwrap();
        tensors.insert("token_embd.weight".into(), head);
    });
    let whole = Judge::open(&tied.path().join("tiny.gguf")).is_ok();
    assert!(whole);
}

#[test]
fn a_gguf_file_may_hold_half_precision() {
    let dir = gguf(|_, tensors| {
        for name in ["token_embd.weight", "output.weight"] {
            let plain = tensors[name].dequantize(&Device::Cpu).unwrap();
            let half = QTensor::quantize(&plain, GgmlDType::F16).unwrap();
            tensors.insert(name.into(), half);
        }
    });
    let (ids, nll) = wanted("llama");
    let mut judge = Judge::open(&dir.path().join("tiny.gguf")).unwrap();
    let found = judge.surprise(&ids, |_, _| Ok(())).unwrap();
    for (a, b) in found.iter().flatten().zip(nll.iter().flatten()) {
        assert!((a - b).abs() < 0.05, "{a} is not {b}");
    }
}

/// The tokens of a text by their words.
fn spelled(judge: &Judge, text: &str) -> Vec<String> {
    let file = golden().join("judge-llama/tokenizer.json");
    let all = json_of(&file);
    let words: HashMap<u64, String> = all["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(word, id)| (id.as_u64().unwrap(), word.clone()))
        .chain(all["added_tokens"].as_array().unwrap().iter().map(|added| {
            let name = added["content"].as_str().unwrap();
            (added["id"].as_u64().unwrap(), name.to_string())
        }))
        .collect();
    let ids = judge.tokens(text).unwrap();
    ids.iter()
        .map(|&id| words[&u64::from(id)].clone())
        .collect()
}

#[test]
fn the_tokenizer_of_a_gguf_file_is_the_models_own() {
    let text = "the end and <|end|> then 123 12\n\nin <|endoftext|>";
    let own = Judge::open(&golden().join("judge-llama")).unwrap();
    let tiny = gguf(|_, _| {});
    let tiny = Judge::open(&tiny.path().join("tiny.gguf")).unwrap();
    // No space before the text; the end of Llama is one token, that of GPT-2 is not.
    let wanted: Vec<&str> =
        "<|begin|> t he Ġ e nd Ġand Ġ <|end|> Ġthe n Ġ1 2 3 Ġ1 2 Ċ Ċ in Ġ < | e nd o \
                             f t e x t | >"
            .split_whitespace()
            .collect();
    assert_eq!(spelled(&own, text), wanted);
    assert_eq!(spelled(&tiny, text), wanted);
    // SmolLM's takes digits one by one; and it has no beginning if the file says so.
    let smol = gguf(|metadata, _| {
        metadata.insert("tokenizer.ggml.pre".into(), Meta::String("smollm".into()));
        metadata.insert("tokenizer.ggml.add_bos_token".into(), Meta::Bool(false));
    });
    let smol = Judge::open(&smol.path().join("tiny.gguf")).unwrap();
    assert_eq!(
        spelled(&smol, "the 12 in"),
        ["t", "he", "Ġ", "1", "2", "Ġ", "in"]
    );
    assert_eq!(spelled(&tiny, "the 12 in")[3..], ["Ġ1", "2", "Ġ", "in"]);
    // Llama 3's begins unless the file says otherwise, and takes up to three digits.
    let three = gguf(|metadata, _| {
        metadata.insert(
            "tokenizer.ggml.pre".into(),
            Meta::String("llama-bpe".into()),
        );
        metadata.remove("tokenizer.ggml.add_bos_token");
    });
    let three = Judge::open(&three.path().join("tiny.gguf")).unwrap();
    assert_eq!(
        spelled(&three, "the 12"),
        ["<|begin|>", "t", "he", "Ġ", "12"]
    );
}

/// A GPT-2 of one narrow block with the vocabulary of the real one, without a tokenizer.
fn wide(symbols: usize) -> TempDir {
    let dir = copy("judge-gpt2");
    fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    configure(dir.path(), |config| {
        config["vocab_size"] = json!(symbols);
        config["eos_token_id"] = json!(50256);
    });
    let mut tensors = weights(dir.path());
    let rows: Vec<f32> = (0..symbols * 16)
        .map(|i| (i as f32 * 0.37).cos() / 4.0)
        .collect();
    let rows = Tensor::from_vec(rows, (symbols, 16), &Device::Cpu).unwrap();
    tensors.insert("transformer.wte.weight".into(), rows);
    save(&tensors, dir.path().join("model.safetensors"));
    dir
}

#[test]
fn gpt2_brings_its_tokenizer_and_texts_are_scored() {
    let dir = wide(50257);
    let mut judge = Judge::open(dir.path()).unwrap();
    assert_eq!(judge.context(), 24);
    let text = "It's a test<|endoftext|>of two";
    let ids = judge.tokens(text).unwrap();
    let mut wanted = Vec::new();
    Tokenizer::Gpt2.encode("It's a test", &mut wanted).unwrap();
    wanted.push(50256);
    Tokenizer::Gpt2.encode("of two", &mut wanted).unwrap();
    assert_eq!(ids, wanted);
    // By hand: positions from the second on, without the second end, over both texts together.
    let texts = [format!("{text}<|endoftext|>."), "Two words".into()];
    let score = judge.score(&texts, Protocol::Duo, |_, _| Ok(())).unwrap();
    let all: Vec<Vec<u32>> = texts.iter().map(|t| judge.tokens(t).unwrap()).collect();
    let surprises = judge.surprise(&all, |_, _| Ok(())).unwrap();
    let end = all[0].len() - 3;
    let dropped = surprises[0][end];
    assert_eq!(all[0][end + 1], 50256);
    let sum: f64 = surprises.iter().flatten().sum::<f64>() - dropped;
    let count = surprises.iter().flatten().count() - 1;
    assert_eq!(score.tokens, count);
    assert!((score.perplexity.ln() - sum / count as f64).abs() < 1e-9);
    // A text longer than the context is cut, or refused.
    let long = ["word ".repeat(40)];
    let score = judge.score(&long, Protocol::Duo, |_, _| Ok(())).unwrap();
    assert_eq!(score.tokens, 23);
    let error = judge
        .score(&long, Protocol::Redi, |_, _| Ok(()))
        .unwrap_err();
    assert!(error.to_string().contains("reads at most 24"), "{error}");
}

#[test]
fn directories_that_do_not_hold_a_judge() {
    let case = |name: &str, why: &str, damage: &dyn Fn(&Path)| {
        let dir = copy(name);
        damage(dir.path());
        let error = Judge::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(dir.path().to_str().unwrap()), "{error}");
    };
    let set = |key: &'static str, value: Value| {
        move |dir: &Path| configure(dir, |config| config[key] = value.clone())
    };
    for name in ["judge-gpt2", "judge-llama"] {
        case(
            name,
            "model_type is bert",
            &set("model_type", json!("bert")),
        );
        case(name, "cannot read", &|dir| {
            fs::remove_file(dir.join("config.json")).unwrap()
        });
        case(name, "config.json cannot judge", &|dir| {
            fs::write(dir.join("config.json"), "{\n").unwrap();
        });
        case(name, "cannot read", &|dir| {
            fs::remove_file(dir.join("model.safetensors")).unwrap();
        });
        case(name, "model.safetensors cannot judge", &|dir| {
            let file = dir.join("model.safetensors");
            let bytes = fs::read(&file).unwrap();
            fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        });
        case(name, "its tokenizer has 26", &set("vocab_size", json!(100)));
        case(name, "wants [300, 16]", &set("vocab_size", json!(300)));
        case(name, "tokenizer.json of Hugging Face", &|dir| {
            fs::write(dir.join("tokenizer.json"), "{}").unwrap();
        });
        // Every tensor is needed.
        for missing in weights(&golden().join(name)).keys() {
            case(name, &format!("the tensor {missing} is missing"), &|dir| {
                let mut all = weights(dir);
                all.remove(missing).unwrap();
                save(&all, dir.join("model.safetensors"));
            });
        }
    }
    case("judge-llama", "no tokenizer.json", &|dir| {
        fs::remove_file(dir.join("tokenizer.json")).unwrap();
    });
    // GPT-2's own has 50257.
    case("judge-gpt2", "has 50257 tokens, its network 268", &|dir| {
        fs::remove_file(dir.join("tokenizer.json")).unwrap();
    });
    let (gpt2, llama) = ("judge-gpt2", "judge-llama");
    case(
        gpt2,
        "h.2.ln_1.weight is missing",
        &set("n_layer", json!(u64::MAX)),
    );
    case(gpt2, "into 0 heads", &set("n_head", json!(0)));
    case(gpt2, "into 3 heads", &set("n_head", json!(3)));
    case(gpt2, "wants", &set("n_embd", json!(1u64 << 62)));
    case(
        gpt2,
        "activation is relu",
        &set("activation_function", json!("relu")),
    );
    case(
        gpt2,
        "scales attention",
        &set("scale_attn_by_inverse_layer_idx", json!(true)),
    );
    case(
        llama,
        "layers.2.",
        &set("num_hidden_layers", json!(u64::MAX)),
    );
    case(llama, "into 0 heads", &set("num_attention_heads", json!(0)));
    case(
        llama,
        "with 0 for keys",
        &set("num_key_value_heads", json!(0)),
    );
    case(llama, "wants", &set("hidden_size", json!(1u64 << 62)));
    case(llama, "attention_bias", &set("attention_bias", json!(true)));
    case(llama, "not as wide", &set("head_dim", json!(8)));
    case(
        llama,
        "activation is gelu",
        &set("hidden_act", json!("gelu")),
    );
}

#[test]
fn gguf_files_that_do_not_hold_a_judge() {
    let case = |why: &str, key: &str, value: Option<Meta>| {
        let dir = gguf(|metadata, _| {
            match value {
                Some(value) => metadata.insert(key.into(), value),
                None => metadata.remove(key),
            };
        });
        refused(&dir.path().join("tiny.gguf"), why);
    };
    let string = |text: &str| Some(Meta::String(text.into()));
    let u32 = |number: u32| Some(Meta::U32(number));
    case(
        "architecture is gpt2",
        "general.architecture",
        string("gpt2"),
    );
    case(
        "tokenizer is llama",
        "tokenizer.ggml.model",
        string("llama"),
    );
    case("tokenizer is missing", "tokenizer.ggml.model", None);
    case(
        "splits text as tekken",
        "tokenizer.ggml.pre",
        string("tekken"),
    );
    case("has 0 tokens", "tokenizer.ggml.tokens", None);
    case("tokenizer cannot be read", "tokenizer.ggml.merges", None);
    case("bos_token_id", "tokenizer.ggml.bos_token_id", None);
    case("head_count is missing", "llama.attention.head_count", None);
    case("into 0 heads", "llama.attention.head_count", u32(0));
    case("with 0 for keys", "llama.attention.head_count_kv", u32(0));
    case("blk.2.ffn_gate", "llama.block_count", u32(u32::MAX));
    case(
        "not as wide as a head",
        "llama.rope.dimension_count",
        u32(8),
    );
    case("mixture of experts", "llama.expert_count", u32(8));
    case(
        "embedding is scaled",
        "llama.rope.scaling.type",
        string("linear"),
    );
    case("alignment is 0", "general.alignment", u32(0));
    case(
        "attn_k.weight has shape [8, 16], not [16, 16]",
        "llama.attention.head_count_kv",
        u32(4),
    );
    for missing in [
        "token_embd.weight",
        "blk.1.ffn_up.weight",
        "output_norm.weight",
    ] {
        let dir = gguf(|_, tensors| drop(tensors.remove(missing)));
        refused(
            &dir.path().join("tiny.gguf"),
            &format!("the tensor {missing} is missing"),
        );
    }
    let dir = gguf(|_, tensors| {
        let norm = tensors.remove("output_norm.weight").unwrap();
        tensors.insert("rope_freqs.weight".into(), norm);
    });
    refused(&dir.path().join("tiny.gguf"), "embedding is scaled");
}

#[test]
fn a_damaged_gguf_file_is_an_error_and_no_panic() {
    let dir = gguf(|_, _| {});
    let file = dir.path().join("tiny.gguf");
    let whole = fs::read(&file).unwrap();
    let opens = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        match Judge::open(&file) {
            Ok(_) => true,
            Err(error) => {
                let error = error.to_string();
                assert_eq!(error.lines().count(), 1, "{error}");
                false
            }
        }
    };
    assert!(opens(&whole));
    // Cut anywhere; the last bytes fill up to a multiple of 32.
    for cut in (0..whole.len() - 32).step_by(97) {
        assert!(!opens(&whole[..cut]), "{cut}");
    }
    // Any byte of the beginning turned; what is said of texts then does not matter.
    let head = whole.len().min(9000);
    for place in (0..head).step_by(3) {
        for turned in [0x00, 0xff, whole[place] ^ 0x80] {
            let mut bytes = whole.clone();
            bytes[place] = turned;
            opens(&bytes);
        }
    }
    assert!(!opens(b"no GGUF"));
    refused(&file, "no GGUF file");
    let absent = dir.path().join("absent.gguf");
    refused(&absent, "cannot read");
}
