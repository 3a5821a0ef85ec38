#!/usr/bin/env python3
"""Peer: a transformer of the size of MDLM's DiT small, in PyTorch on the CPU.

    torch_dit.py --work forward|train|sample [--length 1024] [--layers 12] [--compile] [--lean]

It is a plain pre-norm transformer, 768 channels, 12 heads, 50258 symbols: no adaLN, no rotary
embedding and no conditioning on time. A real DiT small does all of that on top, so this peer has
less to do than a DiT and is the harder one to beat. Attention is PyTorch's fused kernel.

forward: logits of one sequence, under no_grad.
train: forward, cross-entropy and backward, without the optimizer's step; `forward_seconds` is the
part up to the loss, which keeps what backward needs.
sample: a sequence generated in 16 steps from masks, each position drawn when it is unmasked. As
most write it, logits and draws are made at every position; with --lean, only at those that are
unmasked in the step.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from harness import measure, named, options, report

VOCABULARY, WIDTH, HEADS = 50258, 768, 12
SAMPLE_STEPS = 16


class Block(nn.Module):
    """Attention and a two-layer perceptron, each on a normalised input."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        """Channels [B, L, C] to channels."""
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """Symbols in, logits of symbols out."""

    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def features(self, ids):
        """Symbols [B, L] to what the head sees."""
        return self.norm(self.blocks(self.embedding(ids)))

    def forward(self, ids):
        """Symbols [B, L] to logits [B, L, V]."""
        return self.head(self.features(ids))


def time_forward(net, ids, steps, warmup):
    """Seconds of each forward pass that keeps nothing."""
    net.requires_grad_(False)

    def step():
        with torch.no_grad():
            net(ids)

    return measure(step, steps, warmup), {}


def time_train(net, ids, steps, warmup):
    """Seconds of each forward and backward pass, and of the forward part alone."""
    forward_seconds = []

    def step():
        net.zero_grad()
        start = time.perf_counter()
        loss = F.cross_entropy(net(ids).flatten(0, 1), ids.flatten())
        forward_seconds.append(time.perf_counter() - start)
        loss.backward()

    seconds = measure(step, steps, warmup)
    return seconds, {"forward_seconds": statistics.median(forward_seconds[warmup:])}


def draw(logits):
    """A symbol of each row, the mask never; by exponential clocks, as MDLM does."""
    logits[..., VOCABULARY - 1] = -1e6
    p = logits.softmax(-1)
    return (p / torch.empty_like(p).exponential_()).argmax(-1)


def time_sample(net, length, lean, steps, warmup):
    """Seconds of each generation."""
    net.requires_grad_(False)
    mask = VOCABULARY - 1

    def generation():
        ids = torch.full((1, length), mask)
        for k in range(SAMPLE_STEPS):
            keep = 1 - 1 / (SAMPLE_STEPS - k)
            moves = (ids == mask) & (torch.rand(1, length) >= keep)
            if lean:
                ids[moves] = draw(net.head(net.features(ids)[moves]))
            else:
                ids = torch.where(moves, draw(net(ids)), ids)

    def step():
        with torch.no_grad():
            generation()

    return measure(step, steps, warmup), {}


def arguments():
    """The command line."""
    parser = options(__doc__)
    parser.add_argument("--work", choices=["forward", "train", "sample"], required=True)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    return parser.parse_args()


def main():
    """Time the work that was asked for and print the line."""
    args = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    net = Transformer(args.layers)
    ids = torch.randint(0, VOCABULARY, (1, args.length))
    if args.compile:
        net.compile()
    if args.work == "sample":
        seconds, more = time_sample(net, args.length, args.lean, args.steps, args.warmup)
    else:
        timed = time_forward if args.work == "forward" else time_train
        seconds, more = timed(net, ids, args.steps, args.warmup)
    sizes = {"length": args.length, "layers": args.layers, "threads": args.threads}
    report(named(args), f"dit-small-{args.work}", seconds, torch.__version__, **sizes, **more)


if __name__ == "__main__":
    main()
