#!/usr/bin/env python3
"""Writes vqgan-golden.json: what a tiny VQGAN with the weights of formula.py computes.

    pip install torch numpy
    python make_vqgan.py

The network is that of taming-transformers with its tensor names, written here once more in plain
PyTorch, channels first, apart from our own code. All numbers are computed in float64.

* `picture` [1, 3, 16, 8]: in [-1, 1];
* `vectors` [1, 6, 8, 4]: of the encoder and quant_conv;
* `codes` [8, 4];
* `pixels` [1, 3, 16, 8]: the decoder's of these codes.

Nested lists are flattened, row-major, with the channels moved behind the pixels.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from formula import flat, noise, weights

WIDTHS, ATTENTION, BLOCKS, FIRST = [32, 64], [False, True], 1, 32
LATENT, EMBEDDING, CODES = 8, 6, 11


def residual(name, inputs, outputs):
    """Tensors of a residual block."""
    yield f"{name}.norm1.weight", (inputs,)
    yield f"{name}.norm1.bias", (inputs,)
    yield f"{name}.conv1.weight", (outputs, inputs, 3, 3)
    yield f"{name}.conv1.bias", (outputs,)
    yield f"{name}.norm2.weight", (outputs,)
    yield f"{name}.norm2.bias", (outputs,)
    yield f"{name}.conv2.weight", (outputs, outputs, 3, 3)
    yield f"{name}.conv2.bias", (outputs,)
    if inputs != outputs:
        yield f"{name}.nin_shortcut.weight", (outputs, inputs, 1, 1)
        yield f"{name}.nin_shortcut.bias", (outputs,)


def attention(name, c):
    """Tensors of attention."""
    yield f"{name}.norm.weight", (c,)
    yield f"{name}.norm.bias", (c,)
    for part in ["q", "k", "v", "proj_out"]:
        yield f"{name}.{part}.weight", (c, c, 1, 1)
        yield f"{name}.{part}.bias", (c,)


def conv(name, inputs, outputs, side):
    """Tensors of a convolution."""
    yield f"{name}.weight", (outputs, inputs, side, side)
    yield f"{name}.bias", (outputs,)


def middle(name, c):
    """Tensors between the halves."""
    yield from residual(f"{name}.mid.block_1", c, c)
    yield from attention(f"{name}.mid.attn_1", c)
    yield from residual(f"{name}.mid.block_2", c, c)


def last(name, inputs, outputs):
    """Tensors of the last norm and convolution."""
    yield f"{name}.norm_out.weight", (inputs,)
    yield f"{name}.norm_out.bias", (inputs,)
    yield from conv(f"{name}.conv_out", inputs, outputs, 3)


def shapes():
    """All tensors in the order of our vector."""
    yield from conv("encoder.conv_in", 3, FIRST, 3)
    inputs = FIRST
    for i, outputs in enumerate(WIDTHS):
        for j in range(BLOCKS):
            yield from residual(f"encoder.down.{i}.block.{j}", inputs, outputs)
            if ATTENTION[i]:
                yield from attention(f"encoder.down.{i}.attn.{j}", outputs)
            inputs = outputs
        if i + 1 < len(WIDTHS):
            yield from conv(f"encoder.down.{i}.downsample.conv", outputs, outputs, 3)
    yield from middle("encoder", inputs)
    yield from last("encoder", inputs, LATENT)
    yield from conv("quant_conv", LATENT, EMBEDDING, 1)
    yield "quantize.embedding.weight", (CODES, EMBEDDING)
    yield from conv("post_quant_conv", EMBEDDING, LATENT, 1)
    yield from conv("decoder.conv_in", LATENT, inputs, 3)
    yield from middle("decoder", inputs)
    for i in reversed(range(len(WIDTHS))):
        for j in range(BLOCKS + 1):
            yield from residual(f"decoder.up.{i}.block.{j}", inputs, WIDTHS[i])
            if ATTENTION[i]:
                yield from attention(f"decoder.up.{i}.attn.{j}", WIDTHS[i])
            inputs = WIDTHS[i]
        if i > 0:
            yield from conv(f"decoder.up.{i}.upsample.conv", inputs, inputs, 3)
    yield from last("decoder", inputs, 3)


class Network:
    """Its pieces by name."""

    def __init__(self):
        self.p = weights(shapes())

    def conv(self, name, x, **how):
        return F.conv2d(x, self.p[f"{name}.weight"], self.p[f"{name}.bias"], **how)

    def norm(self, name, x):
        return F.group_norm(x, 32, self.p[f"{name}.weight"], self.p[f"{name}.bias"], eps=1e-6)

    def residual(self, name, x):
        h = self.conv(f"{name}.conv1", F.silu(self.norm(f"{name}.norm1", x)), padding=1)
        h = self.conv(f"{name}.conv2", F.silu(self.norm(f"{name}.norm2", h)), padding=1)
        if f"{name}.nin_shortcut.weight" in self.p:
            x = self.conv(f"{name}.nin_shortcut", x)
        return x + h

    def attention(self, name, x):
        b, c, h, w = x.shape
        normed = self.norm(f"{name}.norm", x)
        q, k, v = (self.conv(f"{name}.{part}", normed).reshape(b, c, h * w) for part in "qkv")
        weight = torch.softmax(torch.einsum("bci,bcj->bij", q, k) / math.sqrt(c), dim=2)
        out = torch.einsum("bij,bcj->bci", weight, v).reshape(b, c, h, w)
        return x + self.conv(f"{name}.proj_out", out)

    def middle(self, name, x):
        x = self.residual(f"{name}.mid.block_1", x)
        x = self.attention(f"{name}.mid.attn_1", x)
        return self.residual(f"{name}.mid.block_2", x)

    def last(self, name, x):
        return self.conv(f"{name}.conv_out", F.silu(self.norm(f"{name}.norm_out", x)), padding=1)

    def encode(self, x):
        x = self.conv("encoder.conv_in", x, padding=1)
        for i, attends in enumerate(ATTENTION):
            for j in range(BLOCKS):
                x = self.residual(f"encoder.down.{i}.block.{j}", x)
                if attends:
                    x = self.attention(f"encoder.down.{i}.attn.{j}", x)
            if i + 1 < len(WIDTHS):
                padded = F.pad(x, (0, 1, 0, 1))
                x = self.conv(f"encoder.down.{i}.downsample.conv", padded, stride=2)
        return self.conv("quant_conv", self.last("encoder", self.middle("encoder", x)))

    def decode(self, x):
        x = self.conv("decoder.conv_in", self.conv("post_quant_conv", x), padding=1)
        x = self.middle("decoder", x)
        for i in reversed(range(len(WIDTHS))):
            for j in range(BLOCKS + 1):
                x = self.residual(f"decoder.up.{i}.block.{j}", x)
                if ATTENTION[i]:
                    x = self.attention(f"decoder.up.{i}.attn.{j}", x)
            if i > 0:
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
                x = self.conv(f"decoder.up.{i}.upsample.conv", x, padding=1)
        return self.last("decoder", x)


def main():
    net = Network()
    picture = torch.tensor(2 * noise(3 * 16 * 8, 999)).reshape(1, 3, 16, 8)
    vectors = net.encode(picture)
    book = net.p["quantize.embedding.weight"]
    rows = vectors.permute(0, 2, 3, 1).reshape(-1, EMBEDDING)
    distances = torch.cdist(rows, book)
    nearest = distances.sort(dim=1).values
    margin = (nearest[:, 1] - nearest[:, 0]).min().item()
    codes = distances.argmin(dim=1)
    print("codes in use", len(codes.unique()), "smallest margin", margin)
    pixels = net.decode(book[codes].reshape(1, 8, 4, EMBEDDING).permute(0, 3, 1, 2))
    print("pixels", pixels.std().item(), "vectors", vectors.std().item())
    last = lambda x: flat(x.permute(0, 2, 3, 1))
    golden = {"picture": last(picture), "vectors": last(vectors),
              "codes": codes.tolist(), "pixels": last(pixels)}
    golden = {key: [round(v, 9) for v in value] for key, value in golden.items()}
    Path(__file__).with_name("vqgan-golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
