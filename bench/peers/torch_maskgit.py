#!/usr/bin/env python3
"""Peer: a picture's codes by MaskGIT (174 M parameters, 16 x 16 codes), in PyTorch on the CPU.

    torch_maskgit.py [--compile] [--lean]

One step draws 256 codes from masks in four steps with guidance, under no_grad: class and no class go through
the network as a batch of two. The number that a step writes is left to chance, on the arccos mask ratio.
With --lean, logits are made and codes drawn only where a code is written; as most write it, everywhere.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from harness import measure, named, options, report

CODES, CLASSES, SIDE, WIDTH, BLOCKS, HEADS, STEPS, GUIDANCE = 1024, 1000, 16, 768, 24, 16, 4, 1.0


class Block(nn.Module):
    """Attention and an MLP, each behind its norm."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        """Both added to what comes in."""
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def edge():
    """What stands before and after the blocks."""
    return [nn.LayerNorm(WIDTH, 1e-12), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH, 1e-12)]


class MaskGit(nn.Module):
    """Codes and a class to states, and states to logits of codes."""

    def __init__(self):
        super().__init__()
        symbols, length = CODES + CLASSES + 2, SIDE * SIDE + 1
        self.embedding = nn.Parameter(torch.randn(symbols, WIDTH) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, length, WIDTH) * 0.02)
        self.biases = nn.Parameter(torch.zeros(length, symbols))
        self.first = nn.Sequential(*edge(), nn.Linear(WIDTH, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.last = nn.Sequential(*edge())

    def forward(self, x):
        """States of all positions."""
        x = F.embedding(x, self.embedding) + self.positions
        return self.last(self.blocks(self.first(x)))

    def logits(self, state, where):
        """Of codes at some positions."""
        return state @ self.embedding[:CODES].T + self.biases[where, :CODES]


def masked(t):
    """The share of codes that are masked at t."""
    return math.acos(t) * 2 / math.pi


def main():
    """Time it and print the line."""
    args = options(__doc__).parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    net = MaskGit().eval().requires_grad_(False)
    if args.compile:
        net.compile()
    everywhere = torch.arange(SIDE * SIDE)
    labels = torch.tensor([[CODES + 1 + 7], [CODES + 1 + CLASSES]])

    def step():
        with torch.no_grad():
            x = torch.full((SIDE * SIDE,), CODES)
            for number in range(STEPS):
                stays = masked((number + 1) / STEPS) / masked(number / STEPS)
                moves = (x == CODES) & (torch.rand(SIDE * SIDE) >= stays)
                where = moves.nonzero()[:, 0] if args.lean else everywhere
                state = net(torch.cat([x.expand(2, -1), labels], 1))
                said, unsaid = net.logits(state[:, where], where)
                law = torch.softmax((1 + GUIDANCE) * said - GUIDANCE * unsaid, -1)
                if len(where):
                    drawn = torch.multinomial(law, 1)[:, 0]
                    x[where] = drawn if args.lean else torch.where(moves, drawn, x)

    seconds = measure(step, args.steps, args.warmup)
    report(named(args), "maskgit-sample", seconds, torch.__version__, threads=args.threads)


if __name__ == "__main__":
    main()
