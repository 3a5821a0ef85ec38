#!/usr/bin/env python3
"""Writes inception-golden.json: what a thin Inception with the weights of formula.py computes.

    pip install torch numpy
    python make_inception.py

The network is the Inception of 2015-12-05 of the FID with a sixteenth of its channels, written here
in plain PyTorch, channels first, apart from our own code, with the names of its archive. All numbers
are computed in float64 but the places of the resize, which TensorFlow computes in float32.

For `colour` (two pictures of 20 x 30 x 3 bytes) and `grey` (x 1): `features` [2, 128], `logits` [2, 10].
"""

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from formula import flat, noise, weights

CLASSES = 10


class Network:
    """Runs with weights, or without them to learn their names and shapes in order."""

    def __init__(self, table=None):
        self.table, self.shapes = table, []

    def conv(self, name, x, outputs, size, stride=1, padding=0):
        name, inputs = f"layers.{name}", x.shape[1]
        if self.table is None:
            self.shapes += [(f"{name}.weight", (outputs, inputs, *size))]
            self.shapes += [(f"{name}.{part}", (outputs,)) for part in ["beta", "mean", "var"]]
            weight = torch.zeros(outputs, inputs, *size, dtype=torch.float64)
            return F.conv2d(x, weight, None, stride, padding)
        get = lambda part: self.table[f"{name}.{part}"]
        y = F.conv2d(x, get("weight"), None, stride, padding)
        y = F.batch_norm(y, get("mean"), get("var"), None, get("beta"), False, 0.1, 1e-3)
        return F.relu(y)

    def small(self, m, x, pooled):
        a = self.conv(f"{m}.conv", x, 4, (1, 1))
        b = self.conv(f"{m}.tower.conv", x, 3, (1, 1))
        b = self.conv(f"{m}.tower.conv_1", b, 4, (5, 5), padding=2)
        c = self.conv(f"{m}.tower_1.conv", x, 4, (1, 1))
        c = self.conv(f"{m}.tower_1.conv_1", c, 6, (3, 3), padding=1)
        c = self.conv(f"{m}.tower_1.conv_2", c, 6, (3, 3), padding=1)
        d = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        d = self.conv(f"{m}.tower_2.conv", d, pooled, (1, 1))
        return torch.cat([a, b, c, d], 1)

    def halving(self, m, x):
        a = self.conv(f"{m}.conv", x, 24, (3, 3), stride=2)
        b = self.conv(f"{m}.tower.conv", x, 4, (1, 1))
        b = self.conv(f"{m}.tower.conv_1", b, 6, (3, 3), padding=1)
        b = self.conv(f"{m}.tower.conv_2", b, 6, (3, 3), stride=2)
        return torch.cat([a, b, F.max_pool2d(x, 3, 2)], 1)

    def long(self, m, x, inner):
        a = self.conv(f"{m}.conv", x, 12, (1, 1))
        b = self.conv(f"{m}.tower.conv", x, inner, (1, 1))
        b = self.conv(f"{m}.tower.conv_1", b, inner, (1, 7), padding=(0, 3))
        b = self.conv(f"{m}.tower.conv_2", b, 12, (7, 1), padding=(3, 0))
        c = self.conv(f"{m}.tower_1.conv", x, inner, (1, 1))
        c = self.conv(f"{m}.tower_1.conv_1", c, inner, (7, 1), padding=(3, 0))
        c = self.conv(f"{m}.tower_1.conv_2", c, inner, (1, 7), padding=(0, 3))
        c = self.conv(f"{m}.tower_1.conv_3", c, inner, (7, 1), padding=(3, 0))
        c = self.conv(f"{m}.tower_1.conv_4", c, 12, (1, 7), padding=(0, 3))
        d = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        d = self.conv(f"{m}.tower_2.conv", d, 12, (1, 1))
        return torch.cat([a, b, c, d], 1)

    def halving_long(self, m, x):
        a = self.conv(f"{m}.tower.conv", x, 12, (1, 1))
        a = self.conv(f"{m}.tower.conv_1", a, 20, (3, 3), stride=2)
        b = self.conv(f"{m}.tower_1.conv", x, 12, (1, 1))
        b = self.conv(f"{m}.tower_1.conv_1", b, 12, (1, 7), padding=(0, 3))
        b = self.conv(f"{m}.tower_1.conv_2", b, 12, (7, 1), padding=(3, 0))
        b = self.conv(f"{m}.tower_1.conv_3", b, 12, (3, 3), stride=2)
        return torch.cat([a, b, F.max_pool2d(x, 3, 2)], 1)

    def wide(self, m, x, pool):
        a = self.conv(f"{m}.conv", x, 20, (1, 1))
        b = self.conv(f"{m}.tower_conv", x, 24, (1, 1))
        b1 = self.conv(f"{m}.tower_mixed_conv", b, 24, (1, 3), padding=(0, 1))
        b2 = self.conv(f"{m}.tower_mixed_conv_1", b, 24, (3, 1), padding=(1, 0))
        c = self.conv(f"{m}.tower_1_conv", x, 28, (1, 1))
        c = self.conv(f"{m}.tower_1_conv_1", c, 24, (3, 3), padding=1)
        c1 = self.conv(f"{m}.tower_1_mixed_conv", c, 24, (1, 3), padding=(0, 1))
        c2 = self.conv(f"{m}.tower_1_mixed_conv_1", c, 24, (3, 1), padding=(1, 0))
        d = self.conv(f"{m}.tower_2_conv", pool(x), 12, (1, 1))
        return torch.cat([a, b1, b2, c1, c2, d], 1)

    def features(self, x):
        x = self.conv("conv", x, 2, (3, 3), stride=2)
        x = self.conv("conv_1", x, 2, (3, 3))
        x = self.conv("conv_2", x, 4, (3, 3), padding=1)
        x = F.max_pool2d(x, 3, 2)
        x = self.conv("conv_3", x, 5, (1, 1))
        x = self.conv("conv_4", x, 12, (3, 3))
        x = F.max_pool2d(x, 3, 2)
        x = self.small("mixed", x, 2)
        x = self.small("mixed_1", x, 4)
        x = self.small("mixed_2", x, 4)
        x = self.halving("mixed_3", x)
        for name, inner in [("mixed_4", 8), ("mixed_5", 10), ("mixed_6", 10), ("mixed_7", 12)]:
            x = self.long(name, x, inner)
        x = self.halving_long("mixed_8", x)
        x = self.wide("mixed_9", x, lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))
        x = self.wide("mixed_10", x, lambda x: F.max_pool2d(x, 3, 1, 1))
        return x.mean(dim=(2, 3))


def resize(x, side=299):
    """TensorFlow 1's bilinear resize: no centring, no antialiasing."""

    def along(n):
        at = np.arange(side, dtype=np.float32) * (np.float32(n) / np.float32(side))
        low = np.minimum(at.astype(np.int64), n - 1)
        share = torch.tensor((at - low.astype(np.float32)).astype(np.float64))
        return torch.tensor(low), torch.tensor(np.minimum(low + 1, n - 1)), share

    top, bottom, down = along(x.shape[2])
    left, right, across = along(x.shape[3])
    rows = x[:, :, top] * (1 - down)[:, None] + x[:, :, bottom] * down[:, None]
    return rows[..., left] * (1 - across) + rows[..., right] * across


def main():
    draft = Network()
    draft.features(torch.zeros(1, 3, 299, 299, dtype=torch.float64))
    table = weights([*draft.shapes, ("output.weight", (CLASSES, 128))])
    golden = {}
    for key, channels in [("colour", 3), ("grey", 1)]:
        bytes_ = np.floor((noise(2 * 20 * 30 * channels, 998) + 0.5) * 256)
        x = torch.tensor(bytes_).reshape(2, 20, 30, channels).permute(0, 3, 1, 2)
        x = (resize(x.expand(-1, 3, -1, -1)) - 128) / 128
        features = Network(table).features(x)
        logits = features @ table["output.weight"].t()
        print(key, features.mean().item(), features.std().item(), logits.std().item())
        golden[key] = {"features": [round(v, 10) for v in flat(features)],
                       "logits": [round(v, 10) for v in flat(logits)]}
    Path(__file__).with_name("inception-golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
