#!/usr/bin/env python3
"""Writes the golden files of the judges: two tiny language models and what they say of tokens.

    pip install numpy
    python make_judge.py                # from this directory, or any other

GPT-2 and Llama are written here once more in plain numpy, apart from our own code and from
candle's, with the tensor names and the `config.json` of Hugging Face. All golden numbers are
computed in float64 from weights that were rounded to float32. Attention has grouped queries in
the Llama; norms have weights and biases that are not 1 and 0, so that a missing one shows.

Files, beside this program:

* `judge-gpt2/{config.json,model.safetensors,tokenizer.json}`: names with `transformer.`, tied head.
* `judge-llama/{config.json,model.safetensors,tokenizer.json}`: a head of its own; the tokenizer
  puts `<|begin|>` before a text.
* `judge-golden.json`, for each model `ids`, sequences of unequal lengths, and `nll`, for each
  sequence the `-ln p(x_i | x_<i)` of its positions from the second on, in nats. `llama-scaled` is
  the Llama with its embedding as head and the `config` that stands there: Llama 3's frequencies.

Both tokenizers are byte pairs: 256 bytes, a few merges, then the special tokens.
"""

import json
import math
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
MERGES = ["Ġ t", "h e", "Ġt he", "i n", "Ġ a", "n d", "Ġa nd", "e r", "Ġ 1", "1 2", "a n"]
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 24,
    "vocab_size": 256 + len(MERGES) + 1,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "eos_token_id": 256 + len(MERGES),
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256 + len(MERGES) + 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100.0,
    "max_position_embeddings": 32,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 256 + len(MERGES),
    "eos_token_id": 256 + len(MERGES) + 1,
}
SCALED = {
    **LLAMA,
    "tie_word_embeddings": True,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


# The networks, one sequence at a time.


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def surprise(logits, ids):
    """-ln of the probability of each token after the first."""
    rows = logits[:-1]
    top = rows.max(-1)
    log_sum = top + np.log(np.exp(rows - top[:, None]).sum(-1))
    return log_sum - rows[np.arange(len(ids) - 1), ids[1:]]


def attend(q, k, v):
    """Causal attention of one head, [L, d] each."""
    scores = q @ k.T / math.sqrt(q.shape[-1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    return softmax(scores) @ v


def gpt2(w, c, ids):
    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + c["layer_norm_epsilon"])
        return centred / scale * w[name + ".weight"] + w[name + ".bias"]

    def dense(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def gelu(x):
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    wte = w["transformer.wte.weight"]
    x = wte[ids] + w["transformer.wpe.weight"][: len(ids)]
    for layer in range(c["n_layer"]):
        h = f"transformer.h.{layer}."
        q, k, v = np.split(dense(norm(x, h + "ln_1"), h + "attn.c_attn"), 3, axis=-1)
        heads = [np.split(part, c["n_head"], axis=-1) for part in (q, k, v)]
        mixed = np.concatenate([attend(*head) for head in zip(*heads)], axis=-1)
        x = x + dense(mixed, h + "attn.c_proj")
        x = x + dense(gelu(dense(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ wte.T


def frequencies(c):
    size = c["hidden_size"] // c["num_attention_heads"]
    plain = c["rope_theta"] ** (-np.arange(0, size, 2) / size)
    scaling = c.get("rope_scaling")
    if scaling is None:
        return plain
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (smooth + (1 - smooth) / scaling["factor"])


def llama(w, c, ids):
    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[name + ".weight"]

    def dense(x, name):
        return x @ w[name + ".weight"].T

    angles = np.arange(len(ids))[:, None] * frequencies(c)

    def rotate(x):
        first, second = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    embedding = w["model.embed_tokens.weight"]
    x = embedding[ids]
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        y = norm(x, h + "input_layernorm")
        q = [rotate(part) for part in np.split(dense(y, h + "self_attn.q_proj"), heads, axis=-1)]
        k = [rotate(part) for part in np.split(dense(y, h + "self_attn.k_proj"), groups, axis=-1)]
        v = np.split(dense(y, h + "self_attn.v_proj"), groups, axis=-1)
        share = heads // groups
        mixed = [attend(q[i], k[i // share], v[i // share]) for i in range(heads)]
        x = x + dense(np.concatenate(mixed, axis=-1), h + "self_attn.o_proj")
        y = norm(x, h + "post_attention_layernorm")
        gate = dense(y, h + "mlp.gate_proj")
        x = x + dense(gate / (1 + np.exp(-gate)) * dense(y, h + "mlp.up_proj"), h + "mlp.down_proj")
    head = embedding if c["tie_word_embeddings"] else w["lm_head.weight"]
    return norm(x, "model.norm") @ head.T


# Weights and files.


def gpt2_shapes(c):
    d = c["n_embd"]
    yield "transformer.wte.weight", (c["vocab_size"], d)
    yield "transformer.wpe.weight", (c["n_positions"], d)
    for layer in range(c["n_layer"]):
        h = f"transformer.h.{layer}."
        for name, ins, outs in [
            ("attn.c_attn", d, 3 * d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", d, 4 * d),
            ("mlp.c_proj", 4 * d, d),
        ]:
            yield h + name + ".weight", (ins, outs)
            yield h + name + ".bias", (outs,)
        for name in ["ln_1", "ln_2"]:
            yield h + name + ".weight", (d,)
            yield h + name + ".bias", (d,)
    yield "transformer.ln_f.weight", (d,)
    yield "transformer.ln_f.bias", (d,)


def llama_shapes(c):
    d, inner = c["hidden_size"], c["intermediate_size"]
    shared = d // c["num_attention_heads"] * c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        yield h + "self_attn.q_proj.weight", (d, d)
        yield h + "self_attn.k_proj.weight", (shared, d)
        yield h + "self_attn.v_proj.weight", (shared, d)
        yield h + "self_attn.o_proj.weight", (d, d)
        yield h + "mlp.gate_proj.weight", (inner, d)
        yield h + "mlp.up_proj.weight", (inner, d)
        yield h + "mlp.down_proj.weight", (d, inner)
        yield h + "input_layernorm.weight", (d,)
        yield h + "post_attention_layernorm.weight", (d,)
    yield "model.norm.weight", (d,)
    yield "lm_head.weight", (c["vocab_size"], d)


def draw(shapes, rng):
    weights = {}
    for name, shape in shapes:
        w = 0.35 * rng.standard_normal(shape)
        if len(shape) == 1 and name.endswith("weight"):
            w = 1 + w
        weights[name] = w.astype(np.float32)
    return weights


def write_safetensors(file, weights):
    """The format: the header's length, the header in JSON, the numbers."""
    header, at = {}, 0
    for name, w in weights.items():
        offsets = [at, at + w.nbytes]
        header[name] = {"dtype": "F32", "shape": list(w.shape), "data_offsets": offsets}
        at += w.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(w.astype("<f4").tobytes() for w in weights.values())
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def bytes_as_characters():
    """GPT-2's character for each byte: itself where it can be seen, else one after U+0100."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in seen]
    return [chr(b) for b in seen] + [chr(256 + i) for i in range(len(hidden))]


def tokenizer(special, bos):
    words = bytes_as_characters() + [merge.replace(" ", "") for merge in MERGES]
    added = [
        {
            "id": len(words) + i,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, name in enumerate(special)
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    before = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": bos, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {bos: {"id": bos, "ids": [len(words)], "tokens": [bos]}},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": before if bos else None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: i for i, word in enumerate(words)},
            "merges": MERGES,
        },
    }


def main():
    rng = np.random.default_rng(7)
    golden = {}

    def tell(name, network, weights, config, longest):
        exact = {key: w.astype(np.float64) for key, w in weights.items()}
        lengths = [longest, 5, 2, 13]
        ids = [rng.integers(0, config["vocab_size"], length) for length in lengths]
        nll = [surprise(network(exact, config, x), x).round(9).tolist() for x in ids]
        golden[name] = {"ids": [x.tolist() for x in ids], "nll": nll}

    for name, config, shapes, special, bos in [
        ("judge-gpt2", GPT2, gpt2_shapes, ["<|endoftext|>"], None),
        ("judge-llama", LLAMA, llama_shapes, ["<|begin|>", "<|end|>"], "<|begin|>"),
    ]:
        weights = draw(shapes(config), rng)
        directory = HERE / name
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        words = json.dumps(tokenizer(special, bos), ensure_ascii=False)
        (directory / "tokenizer.json").write_text(words + "\n")
        write_safetensors(directory / "model.safetensors", weights)
        if name == "judge-gpt2":
            tell("gpt2", gpt2, weights, config, config["n_positions"])
        else:
            tell("llama", llama, weights, config, config["max_position_embeddings"])
            tell("llama-scaled", llama, weights, SCALED, SCALED["max_position_embeddings"])
            golden["llama-scaled"]["config"] = SCALED
    (HERE / "judge-golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
