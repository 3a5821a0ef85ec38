#!/usr/bin/env python3
"""Peer: one training step of DAG on the masked path (Algorithm 1), in JAX on the CPU.

    jax_dag.py byte|bpe [--steps N]

The same step as torch_dag.py, all of it in one function under jit: a DiT that sees t and r - t, a
frozen one for p(1|t), jax.jvp for d/dt, one pass on a perturbed state, the loss, its gradient,
clipping to norm 1 and AdamW. One jvp gives both the probabilities the loss is differentiated
through and their derivative in t, under stop_gradient. The head of the frozen network runs at the
perturbed position only; all other heads run at every position, because jit needs fixed shapes.
Weights and moments are donated, so that they are updated in place. XLA takes all cores it may use
(set its affinity, for example by `taskset`, to give it fewer).
"""

import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np

from harness import CONDITIONING, DAG, FEATURES, measure, report

tree_map = jax.tree_util.tree_map


# Weights: nested dictionaries and lists of arrays.


def dense(rng, inputs, outputs, bias=True):
    """A linear layer."""
    layer = {"w": jnp.asarray(rng.normal(0, 0.02, (inputs, outputs)), jnp.float32)}
    if bias:
        layer["b"] = jnp.zeros(outputs)
    return layer


def time_map(rng):
    """Sinusoid to conditioning vector."""
    return [dense(rng, FEATURES, CONDITIONING), dense(rng, CONDITIONING, CONDITIONING)]


def block_weights(rng, width):
    """One transformer block."""
    return {
        "norm1": jnp.ones(width),
        "qkv": dense(rng, width, 3 * width, bias=False),
        "out": dense(rng, width, width, bias=False),
        "norm2": jnp.ones(width),
        "up": dense(rng, width, 4 * width),
        "down": dense(rng, 4 * width, width),
        "modulation": dense(rng, CONDITIONING, 6 * width),
    }


def dit_weights(rng, sizes):
    """The whole network."""
    width = sizes.width
    return {
        "embedding": jnp.asarray(rng.normal(0, 0.02, (sizes.vocabulary, width)), jnp.float32),
        "time": time_map(rng),
        "step": time_map(rng),
        "blocks": [block_weights(rng, width) for _ in range(sizes.blocks)],
        "norm": jnp.ones(width),
        "modulation": dense(rng, CONDITIONING, 2 * width),
        "head": dense(rng, width, sizes.vocabulary),
    }


# The network.


def apply(layer, x):
    """A linear layer."""
    y = x @ layer["w"]
    return y + layer["b"] if "b" in layer else y


def layer_norm(x, weight):
    """Zero mean, unit variance, weight, no bias."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def embed_time(layers, x):
    """A number for each sequence to its part of the conditioning vector."""
    half = FEATURES // 2
    angle = x[:, None] * jnp.exp(-math.log(10000) * jnp.arange(half) / half)
    features = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)
    return apply(layers[1], jax.nn.silu(apply(layers[0], features)))


def rotate(x):
    """Rotary embedding of x [B, heads, L, d], pairs (j, j + d/2)."""
    length, half = x.shape[-2], x.shape[-1] // 2
    angle = jnp.arange(length)[:, None] * 10000 ** -(jnp.arange(half) / half)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(w, x, heads):
    """Every position looks at every position."""
    batch, length, width = x.shape
    qkv = apply(w["qkv"], x).reshape(batch, length, 3, heads, width // heads)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    q, k = rotate(q) * (width // heads) ** -0.5, rotate(k)
    mixed = jax.nn.softmax(q @ k.swapaxes(-1, -2), -1) @ v
    return apply(w["out"], mixed.transpose(0, 2, 1, 3).reshape(batch, length, width))


def block(w, x, c, heads):
    """A transformer block, shifted, scaled and gated by c."""
    shift1, scale1, gate1, shift2, scale2, gate2 = jnp.split(
        apply(w["modulation"], c)[:, None], 6, -1
    )
    x = x + gate1 * attention(w, layer_norm(x, w["norm1"]) * (1 + scale1) + shift1, heads)
    hidden = apply(w["up"], layer_norm(x, w["norm2"]) * (1 + scale2) + shift2)
    return x + gate2 * apply(w["down"], jax.nn.gelu(hidden))


def trunk(w, x, t, r, heads):
    """All but the head: symbols [B, L] to channels [B, L, C]."""
    c = jax.nn.silu(embed_time(w["time"], t) + embed_time(w["step"], r - t))
    h = w["embedding"][x]
    for weights in w["blocks"]:
        h = block(weights, h, c, heads)
    shift, scale = jnp.split(apply(w["modulation"], c)[:, None], 2, -1)
    return layer_norm(h, w["norm"]) * (1 + scale) + shift


def logits(w, h):
    """The head; the mask, which is the last symbol, is never predicted."""
    return apply(w["head"], h).at[..., -1].set(-1e9)


def log_probability(w, x, t, r, symbols, heads):
    """Log-probability of `symbols` [B, L] at their positions."""
    every = jax.nn.log_softmax(logits(w, trunk(w, x, t, r, heads)), -1)
    return jnp.take_along_axis(every, symbols[..., None], -1)[..., 0]


# The training step.


def draw(sizes, keys):
    """A batch: data, times t <= r (a quarter with r = t), and which symbols are masked."""
    shape = (sizes.batch, sizes.length)
    data = jax.random.randint(keys[0], shape, 0, sizes.mask)
    t = 0.9 * jax.random.uniform(keys[1], (sizes.batch,))
    later = t + (1 - t) * jax.random.uniform(keys[2], (sizes.batch,))
    r = jnp.where(jax.random.uniform(keys[3], (sizes.batch,)) < 0.25, t, later)
    masked = jax.random.uniform(keys[4], shape) > t[:, None]
    return data, t, r, masked


def perturb(frozen, x, t, masked, keys, heads):
    """One masked position of each sequence, filled as the frozen network would."""
    rows = jnp.arange(x.shape[0])
    position = jax.random.categorical(keys[0], jnp.where(masked, 0.0, -1e9))
    here = trunk(frozen, x, t, t, heads)[rows, position]
    symbol = jax.random.categorical(keys[1], logits(frozen, here))
    return position, x.at[rows, position].set(symbol)


def loss(w, frozen, key, sizes):
    """The loss of one batch."""
    keys = jax.random.split(key, 7)
    data, t, r, masked = draw(sizes, keys[:5])
    x = jnp.where(masked, sizes.mask, data)
    rate = 1 / (1 - t)[:, None]
    fixed = jax.lax.stop_gradient(w)

    position, perturbed = perturb(frozen, x, t, masked, keys[5:], sizes.heads)
    log_p, slope = jax.jvp(
        lambda time: log_probability(w, x, time, r, data, sizes.heads), (t,), (jnp.ones_like(t),)
    )
    here = jax.lax.stop_gradient(jnp.exp(log_p))
    slope = jax.lax.stop_gradient(slope) * here
    there = jnp.exp(log_probability(fixed, perturbed, t, r, data, sizes.heads))

    elsewhere = jnp.arange(sizes.length) != position[:, None]
    jump = masked.sum(1, keepdims=True) * elsewhere * (there - here)
    correction = (t - r)[:, None] * (slope + rate * jump)
    q = jnp.maximum(jnp.exp(log_p) + correction, 1e-4)
    return -(rate * masked * jnp.log(q)).sum() / data.size


def adamw(w, gradient, first, second, count):
    """Clip to norm 1, then AdamW with rate 3e-4 and weight decay 0.01."""
    norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree_util.tree_leaves(gradient)))
    gradient = tree_map(lambda g: g * jnp.minimum(1, 1 / norm), gradient)
    first = tree_map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)

    def update(p, m, v):
        m, v = m / (1 - 0.9**count), v / (1 - 0.999**count)
        return p - 3e-4 * (m / (jnp.sqrt(v) + 1e-8) + 0.01 * p)

    return tree_map(update, w, first, second), first, second


class Trainer:
    """Weights, the moments of the optimizer, and the compiled step."""

    def __init__(self, sizes):
        rng = np.random.default_rng(0)
        w, self.frozen = dit_weights(rng, sizes), dit_weights(rng, sizes)
        self.state = w, tree_map(jnp.zeros_like, w), tree_map(jnp.zeros_like, w)
        self.count = 0

        def step(state, frozen, key, count):
            w, first, second = state
            value, gradient = jax.value_and_grad(loss)(w, frozen, key, sizes)
            return adamw(w, gradient, first, second, count), value

        self.compiled = jax.jit(step, donate_argnums=0)

    def step(self):
        """One training step; returns the loss, and so waits for it."""
        self.count += 1
        key = jax.random.PRNGKey(self.count)
        self.state, value = self.compiled(self.state, self.frozen, key, float(self.count))
        jax.block_until_ready(self.state)
        return float(value)


def main():
    """Time the step and print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=sorted(DAG))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    trainer = Trainer(DAG[args.model])
    seconds = measure(trainer.step, args.steps, args.warmup)
    report("jax-jit", f"dag-{args.model}", seconds, jax.__version__)


if __name__ == "__main__":
    main()
