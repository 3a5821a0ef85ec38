#!/usr/bin/env python3
"""Writes the golden files of the DiT: two tiny checkpoints and what they compute.

    pip install torch numpy safetensors
    python make_dit.py                  # from this directory, or any other

The network is the diffusion transformer of MDLM and DUO with their tensor names, written here
once more in plain PyTorch, apart from our own code, so that the two can be compared. All golden
numbers are computed in float64 from weights that were rounded to float32. DUO's published
`models/dit.py` (dropout off, float32, CPU) loads both files, every name matched, and gives these
logits within 5e-6, which is float32 rounding.

Files, beside this program:

* `dit-mdlm/{config.json,model.safetensors}`: not conditioned on time, `sigma = 0` always.
* `dit-duo/{config.json,model.safetensors}`: conditioned on `sigma = -ln(1e-3 + (1 - 1e-3) t)`,
  with `t` 0 at noise and 1 at data.
* `dit-golden.json`, for each model:
  * `ids` [B, L], and `t` [B];
  * `logits` [B, L, V]: what comes out of the head, with nothing done about the mask;
  * `dlogits_dt` [B, L, V]: the derivative, each sequence in its own `t`, ids held fixed;
  * `loss`: sum over flat row-major index i of `logits[i] * cos(0.37 i)`;
  * `gradients`: for each parameter, of that loss: `sum`, `sum_of_squares`, and the `first` three
    entries.

Nested lists are flattened, row-major.
"""

import json
import math
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
EPS = 1e-3  # What is left of the data at pure noise.
FEATURES = 256  # Of the sinusoid that feeds sigma_map.
BASE = 10000.0  # Of both the sinusoid and the rotary embedding.
PREFIX = "backbone."

SIZES = {
    "hidden_dim": 16,
    "cond_dim": 12,
    "n_blocks": 3,
    "n_heads": 2,
    "model_length": 10,
    "vocab_size": 17,
    "dropout": 0.1,
}
MODELS = {
    "dit-mdlm": {**SIZES, "time_conditioning": False, "model_type": "mdlm"},
    "dit-duo": {**SIZES, "time_conditioning": True, "model_type": "duo"},
}


# Weights.


def shapes(config):
    """Name (without prefix) and shape of every parameter, in the order the peers register them."""
    c, e, v = config["hidden_dim"], config["cond_dim"], config["vocab_size"]
    table = {
        "vocab_embed.embedding": (v, c),
        "sigma_map.mlp.0.weight": (e, FEATURES),
        "sigma_map.mlp.0.bias": (e,),
        "sigma_map.mlp.2.weight": (e, e),
        "sigma_map.mlp.2.bias": (e,),
    }
    for i in range(config["n_blocks"]):
        block = {
            "norm1.weight": (c,),
            "attn_qkv.weight": (3 * c, c),
            "attn_out.weight": (c, c),
            "norm2.weight": (c,),
            "mlp.0.weight": (4 * c, c),
            "mlp.0.bias": (4 * c,),
            "mlp.2.weight": (c, 4 * c),
            "mlp.2.bias": (c,),
            "adaLN_modulation.weight": (6 * c, e),
            "adaLN_modulation.bias": (6 * c,),
        }
        table.update({f"blocks.{i}.{name}": shape for name, shape in block.items()})
    table["output_layer.norm_final.weight"] = (c,)
    table["output_layer.linear.weight"] = (v, c)
    table["output_layer.linear.bias"] = (v,)
    table["output_layer.adaLN_modulation.weight"] = (2 * c, e)
    table["output_layer.adaLN_modulation.bias"] = (2 * c,)
    return table


def draw(name, shape, rng):
    """A tensor large enough to matter to the logits and not so large that others do not."""
    normal = rng.standard_normal(shape)
    if "norm" in name:
        value = 1.0 + 0.3 * normal
    elif name == "vocab_embed.embedding":
        value = normal
    elif name == "sigma_map.mlp.0.weight":
        value = 1.5 * normal / math.sqrt(FEATURES / 2)  # The sinusoid has norm sqrt(128).
    elif name.endswith("bias"):
        value = 0.4 * normal
    else:
        value = 1.3 * normal / math.sqrt(shape[1])
    return value.astype(np.float32)


def inverse_frequencies(config):
    """`inv_freq` of the rotary embedding, one for each pair of channels of a head."""
    head = config["hidden_dim"] // config["n_heads"]
    return BASE ** -(np.arange(0, head, 2, dtype=np.float64) / head)


# The network. `w` maps a name to a tensor; every function keeps the dtype it is given.


def linear(w, name, x, bias=True):
    """A linear layer with weight [out, in]."""
    y = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if bias else y


def layer_norm(x, weight):
    """Zero mean and unit variance over the channels, then a weight and no bias."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5) * weight


def silu(x):
    """x times the logistic function of x."""
    return x / (1 + torch.exp(-x))


def gelu(x):
    """The tanh form of GELU."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def modulate(x, shift, scale):
    """adaLN: shift and scale [B, C] act on every position of x [B, L, C]."""
    return x * (1 + scale[:, None]) + shift[:, None]


def conditioning(w, sigma):
    """sigma [B] to the vector [B, cond_dim] that modulates every block."""
    half = FEATURES // 2
    j = torch.arange(half, dtype=sigma.dtype)
    angle = sigma[:, None] * torch.exp(-math.log(BASE) * j / half)
    features = torch.cat([torch.cos(angle), torch.sin(angle)], -1)
    hidden = silu(linear(w, "sigma_map.mlp.0", features))
    return silu(linear(w, "sigma_map.mlp.2", hidden))


def rotate(x, inv_freq):
    """Rotary embedding of x [B, heads, L, d]: channel j is paired with channel j + d/2."""
    length, half = x.shape[2], x.shape[3] // 2
    angle = torch.arange(length, dtype=x.dtype)[:, None] * inv_freq
    cos, sin = torch.cos(angle), torch.sin(angle)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(w, name, x, heads, inv_freq):
    """Every position looks at every position."""
    batch, length, width = x.shape
    head = width // heads
    qkv = linear(w, f"{name}.attn_qkv", x, bias=False)
    qkv = qkv.reshape(batch, length, 3, heads, head)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    q, k = rotate(q, inv_freq), rotate(k, inv_freq)
    weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(head), -1)
    mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
    return linear(w, f"{name}.attn_out", mixed, bias=False)


def block(w, name, x, c, heads, inv_freq):
    """Attention, then a two-layer perceptron, each shifted, scaled and gated by c."""
    modulation = linear(w, f"{name}.adaLN_modulation", c)
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, -1)
    y = modulate(layer_norm(x, w[f"{name}.norm1.weight"]), shift1, scale1)
    x = x + gate1[:, None] * attention(w, name, y, heads, inv_freq)
    y = modulate(layer_norm(x, w[f"{name}.norm2.weight"]), shift2, scale2)
    y = linear(w, f"{name}.mlp.2", gelu(linear(w, f"{name}.mlp.0", y)))
    return x + gate2[:, None] * y


def forward(config, w, ids, t):
    """ids [B, L] and t [B] to logits [B, L, V]."""
    if config["time_conditioning"]:
        sigma = -torch.log(EPS + (1 - EPS) * t)
    else:
        sigma = torch.zeros_like(t)
    c = conditioning(w, sigma)
    # Computed anew and not read from the file, so that float64 is float64 throughout.
    inv_freq = torch.tensor(inverse_frequencies(config), dtype=t.dtype)
    x = w["vocab_embed.embedding"][ids]
    for i in range(config["n_blocks"]):
        x = block(w, f"blocks.{i}", x, c, config["n_heads"], inv_freq)
    shift, scale = linear(w, "output_layer.adaLN_modulation", c).chunk(2, -1)
    x = modulate(layer_norm(x, w["output_layer.norm_final.weight"]), shift, scale)
    return linear(w, "output_layer.linear", x)


# The golden numbers.


def time_derivative(config, w, ids, t):
    """d logits / dt in forward mode, checked against a central difference."""
    _, derivative = torch.func.jvp(
        lambda time: forward(config, w, ids, time), (t,), (torch.ones_like(t),)
    )
    h = 1e-6
    difference = forward(config, w, ids, t + h) - forward(config, w, ids, t - h)
    assert torch.allclose(difference / (2 * h), derivative, rtol=1e-5, atol=1e-6)
    return derivative


def gradients(config, w, ids, t):
    """The loss, and its gradient in every parameter reduced to a few numbers."""
    w = {name: value.clone().requires_grad_() for name, value in w.items()}
    logits = forward(config, w, ids, t).flatten()
    index = torch.arange(logits.numel(), dtype=logits.dtype)
    loss = (logits * torch.cos(0.37 * index)).sum()
    loss.backward()
    reduced = {
        PREFIX + name: {
            "sum": value.grad.sum().item(),
            "sum_of_squares": value.grad.square().sum().item(),
            "first": value.grad.flatten()[:3].tolist(),
        }
        for name, value in w.items()
    }
    return loss.item(), reduced


def check_that_all_matters(config, w, ids, t, logits):
    """No tensor, set to zero (a norm: to one), may leave the logits where they were."""
    for name, value in w.items():
        plain = torch.ones_like(value) if "norm" in name else torch.zeros_like(value)
        other = forward(config, {**w, name: plain}, ids, t)
        change = (other - logits).abs().max().item()
        assert change > 0.05, f"{name} changes the logits by only {change}"


def golden(config, weights, ids, t):
    """Everything `dit-golden.json` says about one model."""
    w = {name: torch.tensor(value, dtype=torch.float64) for name, value in weights.items()}
    logits = forward(config, w, ids, t)
    check_that_all_matters(config, w, ids, t, logits)
    single = {name: torch.tensor(value) for name, value in weights.items()}
    error = (forward(config, single, ids, t.float()) - logits).abs().max().item()
    print(f"{config['model_type']}: largest logit {logits.abs().max().item():.3f},", end=" ")
    print(f"float32 differs by at most {error:.2e}")
    loss, reduced = gradients(config, w, ids, t)
    return {
        "shape": list(logits.shape),
        "ids": ids.flatten().tolist(),
        "t": t.tolist(),
        "logits": logits.flatten().tolist(),
        "dlogits_dt": time_derivative(config, w, ids, t).flatten().tolist(),
        "loss": loss,
        "gradients": reduced,
    }


def write_checkpoint(folder, config, weights):
    """`config.json` and `model.safetensors` as they are published."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {PREFIX + name: value for name, value in weights.items()}
    tensors[PREFIX + "rotary_emb.inv_freq"] = inverse_frequencies(config).astype(np.float32)
    file = folder / "model.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(0o644)


def main():
    """Draw both models and write all files."""
    rng = np.random.default_rng(20240607)
    report = {}
    for name, config in MODELS.items():
        weights = {key: draw(key, shape, rng) for key, shape in shapes(config).items()}
        ids = torch.tensor(rng.integers(0, config["vocab_size"], (2, 7)))
        if config["model_type"] == "mdlm":  # Some masks for sure.
            ids[0, 1] = ids[1, 0] = ids[1, 4] = config["vocab_size"] - 1
        t = torch.tensor([0.3, 0.85], dtype=torch.float64)
        write_checkpoint(HERE / name, config, weights)
        report[name] = golden(config, weights, ids, t)
    text = json.dumps(report, indent=1)
    (HERE / "dit-golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
