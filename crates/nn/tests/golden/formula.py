"""Weights that both sides compute: no file has to hold them.

Entry i of tensor k is u = hash(i, k) in [-1/2, 1/2): a norm's weight or variance is 1 + u / 2, any
other vector u / 2, an embedding 2 u, and any other tensor u sqrt(12 / fan) with the size of its
inputs, or u sqrt(24 / fan) where ReLU follows (Inception's `layers.`), all rounded to float32.
`tests/golden_pictures.rs` has the same few lines.
"""

import math

import numpy as np
import torch


def noise(n, k):
    """n numbers in [-1/2, 1/2), the same everywhere."""
    i = np.arange(n, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    h = (i * np.uint64(2654435761) + np.uint64((k + 1) * 40503) * np.uint64(65537)) & low
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & low
    h ^= h >> np.uint64(13)
    return h.astype(np.float64) / 2.0**32 - 0.5


def weights(shapes, dtype=torch.float64):
    """Name to tensor, for (name, shape) pairs in order."""
    table = {}
    for k, (name, shape) in enumerate(shapes):
        u = noise(math.prod(shape), k)
        if name.endswith("var") or ("norm" in name and name.endswith("weight")):
            u = 1.0 + u / 2
        elif len(shape) == 1:
            u = u / 2
        elif "embed" in name or "emb" in name:
            u = 2 * u
        else:
            u = u * math.sqrt((24 if name.startswith("layers.") else 12) / math.prod(shape[1:]))
        rounded = u.astype(np.float32).astype(np.float64)
        table[name] = torch.tensor(rounded, dtype=dtype).reshape(shape)
    return table


def flat(tensor):
    """Its numbers, row-major."""
    return [float(v) for v in tensor.detach().reshape(-1)]
