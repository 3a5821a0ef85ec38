#!/usr/bin/env python3
"""Peer: one training step of DAG on the masked path (Algorithm 1), in PyTorch on the CPU.

    torch_dag.py byte|bpe [--compile] [--lean | --plain] [--threads 2] [--steps N]

Written as a careful PyTorch user writes it: a DiT that sees t and r - t, a frozen one for
p(1|t), torch.func.jvp for d/dt, one pass on a perturbed state, the loss, backward, clipping to
norm 1 and AdamW. What is done for speed:

* one jvp gives both the probabilities the loss is differentiated through and their derivative
  in t, which is then detached: the network is not run on the same state twice. This keeps the
  graph of the derivative for a moment, which costs memory; `--lean` runs the jvp without a graph
  and then the network once more;
* fused attention wherever it can be used; the jvp pass multiplies the matrices out, because the
  fused kernel has no forward-mode rule;
* the head of the frozen network runs at the one perturbed position only, and the other heads at
  masked positions only, as no other position has a loss;
* the fused AdamW.

`--plain` is Algorithm 1 line by line, as most would write it first: the network runs once for the
derivative and once more for the loss, heads run at every position, AdamW is the default one.

With `--compile` all passes but the jvp go through torch.compile. The jvp does not: PyTorch 2.15
ends in an internal error when it compiles a jvp that is differentiated, or one of changing size.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from harness import CONDITIONING, DAG, FEATURES, measure, named, options, report


def sinusoid(x):
    """x [B] to cosines and sines [B, FEATURES]."""
    half = FEATURES // 2
    angle = x[:, None] * torch.exp(-math.log(10000) * torch.arange(half) / half)
    return torch.cat([angle.cos(), angle.sin()], -1)


def rotary_tables(length, head):
    """Cosines and sines [length, head / 2] of the rotary embedding."""
    frequency = 10000 ** -(torch.arange(head // 2) / (head // 2))
    angle = torch.arange(length)[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """Turn each pair of channels (j, j + half) by the angle of its position."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def attend(q, k, v):
    """Attention by matrix products, which forward mode can go through."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    return scores.softmax(-1) @ v


class Block(nn.Module):
    """A transformer block, shifted, scaled and gated by the conditioning vector."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.modulation = nn.Linear(CONDITIONING, 6 * width)

    def forward(self, x, c, rotary, attention):
        """Channels [B, L, C] to channels."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c)[:, None].chunk(6, -1)
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x) * (1 + scale1) + shift1)
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = attention(rotate(q, *rotary), rotate(k, *rotary), v)
        x = x + gate1 * self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        hidden = self.up(self.norm2(x) * (1 + scale2) + shift2)
        return x + gate2 * self.down(F.gelu(hidden, approximate="tanh"))


class DiT(nn.Module):
    """A DiT that sees t and r - t."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes.width
        self.embedding = nn.Embedding(sizes.vocabulary, width)
        self.time = self.time_map()
        self.step = self.time_map()
        self.blocks = nn.ModuleList(Block(width, sizes.heads) for _ in range(sizes.blocks))
        self.norm = nn.LayerNorm(width, bias=False)
        self.modulation = nn.Linear(CONDITIONING, 2 * width)
        self.output = nn.Linear(width, sizes.vocabulary)
        never = torch.zeros(sizes.vocabulary)
        never[sizes.mask] = -1e9
        self.register_buffer("never", never)
        cos, sin = rotary_tables(sizes.length, width // sizes.heads)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    @staticmethod
    def time_map():
        """Sinusoid to conditioning vector."""
        return nn.Sequential(
            nn.Linear(FEATURES, CONDITIONING), nn.SiLU(), nn.Linear(CONDITIONING, CONDITIONING)
        )

    def trunk(self, x, t, r, attention=F.scaled_dot_product_attention):
        """All but the head: symbols [B, L] to channels [B, L, C]."""
        c = F.silu(self.time(sinusoid(t)) + self.step(sinusoid(r - t)))
        h = self.embedding(x)
        for block in self.blocks:
            h = block(h, c, (self.cos, self.sin), attention)
        shift, scale = self.modulation(c)[:, None].chunk(2, -1)
        return self.norm(h) * (1 + scale) + shift

    def head(self, h):
        """Logits; the bias keeps the mask from being predicted."""
        return F.linear(h, self.output.weight, self.output.bias + self.never)

    def log_probability(self, x, t, r, rows, symbols, attention=F.scaled_dot_product_attention):
        """Log-probability of `symbols` [N] at the flat positions `rows` [N]."""
        h = self.trunk(x, t, r, attention).flatten(0, 1)
        logits = self.head(h.index_select(0, rows))
        return logits.log_softmax(-1).gather(-1, symbols[:, None]).squeeze(-1)

    def logits_at(self, x, t, position):
        """Logits [B, V] at one position of each sequence, for a step of no length."""
        h = self.trunk(x, t, t)
        return self.head(h[torch.arange(len(h)), position])


class Trainer:
    """A network, the frozen network it learns from, the optimizer, and the step."""

    def __init__(self, sizes, args):
        self.sizes, self.plain, self.lean = sizes, args.plain, args.lean or args.plain
        self.net = DiT(sizes)
        self.frozen = DiT(sizes).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 3e-4, fused=not self.plain)
        self.log_probability = self.net.log_probability
        self.frozen_logits = self.frozen.logits_at
        if args.compile:
            self.log_probability = torch.compile(self.log_probability)
            self.frozen_logits = torch.compile(self.frozen_logits)

    def draw(self):
        """A batch: data, times t <= r (a quarter with r = t), and which symbols are masked."""
        s = self.sizes
        data = torch.randint(0, s.mask, (s.batch, s.length))
        t = 0.9 * torch.rand(s.batch)
        r = torch.where(torch.rand(s.batch) < 0.25, t, t + (1 - t) * torch.rand(s.batch))
        masked = torch.rand(s.batch, s.length) > t[:, None]
        return data, t, r, masked

    @torch.no_grad()
    def perturb(self, x, t, masked):
        """One masked position of each sequence, filled as the frozen network would."""
        position = torch.multinomial(masked + 1e-9, 1)
        logits = self.frozen_logits(x, t, position.squeeze(1))
        symbol = torch.multinomial(logits.softmax(-1), 1)
        return position, x.scatter(1, position, symbol)

    def with_slope(self, x, t, r, rows, symbols):
        """Log-probabilities and their derivative in t at fixed r."""

        def function(time):
            return self.net.log_probability(x, time, r, rows, symbols, attend)

        if not self.lean:
            log_p, slope = torch.func.jvp(function, (t,), (torch.ones_like(t),))
            return log_p, slope.detach()
        with torch.no_grad():
            _, slope = torch.func.jvp(function, (t,), (torch.ones_like(t),))
        return self.log_probability(x, t, r, rows, symbols), slope

    def loss(self):
        """The loss of one batch."""
        sizes = self.sizes
        data, t, r, masked = self.draw()
        x = torch.where(masked, sizes.mask, data)
        wanted = torch.ones_like(masked) if self.plain else masked
        rows = wanted.flatten().nonzero().squeeze(1)
        sequence, symbols = rows // sizes.length, data.flatten()[rows]
        rate = 1 / (1 - t)

        position, perturbed = self.perturb(x, t, masked)
        with torch.no_grad():
            there = self.log_probability(perturbed, t, r, rows, symbols).exp()
        log_p, slope = self.with_slope(x, t, r, rows, symbols)
        here = log_p.detach().exp()

        elsewhere = rows % sizes.length != position.squeeze(1)[sequence]
        jump = masked.sum(1)[sequence] * elsewhere * (there - here)
        correction = (t - r)[sequence] * (slope * here + rate[sequence] * jump)
        q = (log_p.exp() + correction).clamp_min(1e-4)
        weight = rate[sequence] * masked.flatten()[rows]
        return -(weight * q.log()).sum() / data.numel()

    def step(self):
        """One training step; returns the loss."""
        loss = self.loss()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def arguments():
    """The command line."""
    parser = options(__doc__, steps=8, warmup=3)
    parser.add_argument("model", choices=sorted(DAG))
    parser.add_argument("--plain", action="store_true")
    return parser.parse_args()


def main():
    """Time the step and print the line."""
    args = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    trainer = Trainer(DAG[args.model], args)
    seconds = measure(trainer.step, args.steps, args.warmup)
    report(named(args), f"dag-{args.model}", seconds, torch.__version__, threads=args.threads)


if __name__ == "__main__":
    main()
