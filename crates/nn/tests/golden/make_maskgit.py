#!/usr/bin/env python3
"""Writes maskgit-golden.json: what a tiny MaskGIT with the weights of formula.py computes.

    pip install torch numpy
    python make_maskgit.py

The network is the transformer of Maskgit-pytorch (branch v1.0) with its tensor names, written here in
plain PyTorch apart from our own code; attention is torch.nn.functional.multi_head_attention_forward,
which the original calls too. All numbers are computed in float64.

* `ids` [2, 10]: nine codes or masks and a class, or none;
* `logits` [2, 9, 12]: of every code and the mask, at the codes' positions.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from formula import flat, weights

CODES, CLASSES, SIDE, WIDTH, BLOCKS, HEADS = 11, 1000, 3, 96, 2, 2
VOCABULARY, LENGTH = CODES + CLASSES + 2, SIDE * SIDE + 1


def shapes():
    """All tensors in the order of our vector."""
    c = WIDTH
    yield "tok_emb.weight", (VOCABULARY, c)
    yield "pos_emb", (1, LENGTH, c)
    yield from edge("first_layer")
    yield "first_layer.6.weight", (c, c)
    yield "first_layer.6.bias", (c,)
    for i in range(BLOCKS):
        name = f"transformer.layers.{i}"
        yield f"{name}.0.norm.weight", (c,)
        yield f"{name}.0.norm.bias", (c,)
        yield f"{name}.1.norm.bias", (c,)
        yield f"{name}.0.fn.mha.in_proj_weight", (3 * c, c)
        yield f"{name}.0.fn.mha.in_proj_bias", (3 * c,)
        yield f"{name}.0.fn.mha.out_proj.weight", (c, c)
        yield f"{name}.0.fn.mha.out_proj.bias", (c,)
        yield f"{name}.1.norm.weight", (c,)
        yield f"{name}.1.fn.net.0.weight", (4 * c, c)
        yield f"{name}.1.fn.net.0.bias", (4 * c,)
        yield f"{name}.1.fn.net.3.weight", (c, 4 * c)
        yield f"{name}.1.fn.net.3.bias", (c,)
    yield from edge("last_layer")
    yield "bias", (LENGTH, VOCABULARY)


def edge(name):
    """A norm, a linear layer, a norm."""
    for part, shape in [("0", (WIDTH,)), ("2", (WIDTH, WIDTH)), ("4", (WIDTH,))]:
        yield f"{name}.{part}.weight", shape
        yield f"{name}.{part}.bias", (WIDTH,)


class Network:
    """Its pieces by name."""

    def __init__(self):
        self.p = weights(shapes())

    def norm(self, name, x, eps=1e-5):
        return F.layer_norm(x, (WIDTH,), self.p[f"{name}.weight"], self.p[f"{name}.bias"], eps)

    def linear(self, name, x):
        return F.linear(x, self.p[f"{name}.weight"], self.p[f"{name}.bias"])

    def edge(self, name, x):
        x = F.gelu(self.linear(f"{name}.2", self.norm(f"{name}.0", x, 1e-12)))
        return self.norm(f"{name}.4", x, 1e-12)

    def attention(self, name, x):
        x = x.transpose(0, 1)
        p = self.p
        out, _ = F.multi_head_attention_forward(
            x, x, x, WIDTH, HEADS, p[f"{name}.in_proj_weight"], p[f"{name}.in_proj_bias"],
            None, None, False, 0.0, p[f"{name}.out_proj.weight"], p[f"{name}.out_proj.bias"],
            training=False, need_weights=False)
        return out.transpose(0, 1)

    def logits(self, ids):
        x = self.p["tok_emb.weight"][ids] + self.p["pos_emb"]
        x = self.linear("first_layer.6", self.edge("first_layer", x))
        for i in range(BLOCKS):
            name = f"transformer.layers.{i}"
            x = x + self.attention(f"{name}.0.fn.mha", self.norm(f"{name}.0.norm", x))
            h = F.gelu(self.linear(f"{name}.1.fn.net.0", self.norm(f"{name}.1.norm", x)))
            x = x + self.linear(f"{name}.1.fn.net.3", h)
        x = self.edge("last_layer", x)
        every = x @ self.p["tok_emb.weight"].t() + self.p["bias"]
        return every[:, : LENGTH - 1, : CODES + 1]


def main():
    ids = [[0, 11, 3, 11, 10, 7, 11, 2, 5, CODES + 1 + 17],
           [11, 11, 11, 4, 11, 11, 9, 11, 1, VOCABULARY - 1]]
    logits = Network().logits(torch.tensor(ids))
    print("logits", logits.mean().item(), logits.std().item())
    golden = {"ids": sum(ids, []), "logits": [round(v, 9) for v in flat(logits)]}
    Path(__file__).with_name("maskgit-golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
