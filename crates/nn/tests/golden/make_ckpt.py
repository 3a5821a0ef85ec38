"""Writes tiny.ckpt: a training checkpoint as torch and Lightning write them, of a tiny DiT.

    python make_ckpt.py

Tensor k of the network has the values ((7 i + 13 k) mod 101 - 50) / 64, the averaged weights half
of that; the test computes them again. The settings are objects of classes that only exist here,
as they would be on a machine without the libraries that wrote a real file. Written with torch
2.15.
"""

import sys
import types
from collections import OrderedDict
from pathlib import Path

import torch

VOCABULARY, WIDTH, BLOCKS, HEADS, CONDITIONING = 11, 8, 2, 2, 16


def shapes():
    c, e, v = WIDTH, CONDITIONING, VOCABULARY
    yield "vocab_embed.embedding", (v, c)
    yield "sigma_map.mlp.0.weight", (e, 256)
    yield "sigma_map.mlp.0.bias", (e,)
    yield "sigma_map.mlp.2.weight", (e, e)
    yield "sigma_map.mlp.2.bias", (e,)
    for i in range(BLOCKS):
        yield f"blocks.{i}.norm1.weight", (c,)
        yield f"blocks.{i}.attn_qkv.weight", (3 * c, c)
        yield f"blocks.{i}.attn_out.weight", (c, c)
        yield f"blocks.{i}.norm2.weight", (c,)
        yield f"blocks.{i}.mlp.0.weight", (4 * c, c)
        yield f"blocks.{i}.mlp.0.bias", (4 * c,)
        yield f"blocks.{i}.mlp.2.weight", (c, 4 * c)
        yield f"blocks.{i}.mlp.2.bias", (c,)
        yield f"blocks.{i}.adaLN_modulation.weight", (6 * c, e)
        yield f"blocks.{i}.adaLN_modulation.bias", (6 * c,)
    yield "output_layer.norm_final.weight", (c,)
    yield "output_layer.linear.weight", (v, c)
    yield "output_layer.linear.bias", (v,)
    yield "output_layer.adaLN_modulation.weight", (2 * c, e)
    yield "output_layer.adaLN_modulation.bias", (2 * c,)


def values(k, shape, denominator):
    i = torch.arange(torch.Size(shape).numel())
    return (((7 * i + 13 * k) % 101 - 50) / denominator).to(torch.float32).reshape(shape)


class DictConfig:
    def __init__(self, content):
        self.__dict__.update(_parent=None, _content=content)
        for child in content.values():
            child.__dict__["_parent"] = self


class AnyNode:
    def __init__(self, value):
        self.__dict__.update(_parent=None, _val=value)


def config(value):
    if isinstance(value, dict):
        return DictConfig({key: config(inner) for key, inner in value.items()})
    return AnyNode(value)


def main():
    module = types.ModuleType("not_installed_here")
    sys.modules[module.__name__] = module
    for cls in (DictConfig, AnyNode):
        cls.__module__ = module.__name__
        setattr(module, cls.__name__, cls)

    state = OrderedDict()
    average = []
    for k, (name, shape) in enumerate(shapes()):
        tensor = values(k, shape, 64)
        if name == "blocks.1.attn_out.weight":
            tensor = tensor.t().contiguous().t()  # The same values with the strides of a transpose.
        if name == "blocks.0.norm2.weight":
            tensor = torch.cat([torch.zeros(3), tensor, torch.zeros(2)])[3:-2]  # A view.
        state["backbone." + name] = tensor
        average.append(torch.nn.Parameter(values(k, shape, 128), requires_grad=False))
        if name == "sigma_map.mlp.2.bias":
            state["backbone.rotary_emb.inv_freq"] = 1.0 / 10000 ** (torch.arange(0, 4, 2) / 4.0)
    state._metadata = OrderedDict([("", {"version": 1})])

    settings = config({
        "algo": {"name": "mdlm", "time_conditioning": False},
        "model": {"hidden_size": WIDTH, "cond_dim": CONDITIONING, "length": 32,
                  "n_blocks": BLOCKS, "n_heads": HEADS, "dropout": 0.1},
        "data": {"path": "${root}/data"},
    })
    first = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.AdamW([first])
    first.grad = torch.ones(4)
    optimizer.step()
    checkpoint = {
        "epoch": 3,
        "global_step": 1000,
        "pytorch-lightning_version": "2.2.1",
        "state_dict": state,
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 4}}}},
        "callbacks": {},
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": {"config": settings, "tokenizer": config({"vocab": 50257})},
        "ema": {"decay": 0.9999, "num_updates": 1000, "shadow_params": average},
        "sampler": {"random_state": {"epoch": 3, "counter": None}},
    }
    torch.save(checkpoint, Path(__file__).with_name("tiny.ckpt"))


if __name__ == "__main__":
    main()
