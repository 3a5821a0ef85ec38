#!/usr/bin/env python3
"""Peer: the decoder of taming-transformers' VQGAN (f16, 1024 codes), in PyTorch on the CPU.

    torch_vqgan.py [--compile] [--lean]

One step decodes one picture of 256 x 256 pixels from 16 x 16 codes, under no_grad. With --lean, weights
and states are channels last, which oneDNN can take as they are.
"""


import torch
import torch.nn.functional as F
from torch import nn

from harness import measure, named, options, report

WIDTHS, BLOCKS, LATENT, EMBEDDING, CODES = [128, 128, 256, 256, 512], 3, 256, 256, 1024


def norm(channels):
    """Over 32 groups."""
    return nn.GroupNorm(32, channels, eps=1e-6)


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = norm(inputs), norm(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        """The sum of both."""
        h = self.conv1(F.silu(self.norm1(x), inplace=True))
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(h), inplace=True))


class Attention(nn.Module):
    """One head over all pixels, by PyTorch's fused kernel."""

    def __init__(self, channels):
        super().__init__()
        self.norm = norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        """Added to what comes in."""
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        return x + self.out(mixed.transpose(1, 2).reshape(b, c, h, w))


class Double(nn.Module):
    """Twice the size by nearest neighbours, and a convolution."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        """Both."""
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


def decoder():
    """From embedded codes to a picture."""
    width = WIDTHS[-1]
    layers = [nn.Conv2d(EMBEDDING, LATENT, 1), nn.Conv2d(LATENT, width, 3, padding=1)]
    layers += [Residual(width, width), Attention(width), Residual(width, width)]
    for level in reversed(range(len(WIDTHS))):
        for _ in range(BLOCKS):
            layers.append(Residual(width, WIDTHS[level]))
            width = WIDTHS[level]
            if level == len(WIDTHS) - 1:
                layers.append(Attention(width))
        if level > 0:
            layers.append(Double(width))
    layers += [norm(width), nn.SiLU(inplace=True), nn.Conv2d(width, 3, 3, padding=1)]
    return nn.Sequential(*layers)


def main():
    """Time it and print the line."""
    args = options(__doc__).parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    net = decoder().eval().requires_grad_(False)
    book = torch.randn(CODES, EMBEDDING)
    layout = torch.channels_last if args.lean else torch.contiguous_format
    net = net.to(memory_format=layout)
    if args.compile:
        net.compile()
    codes = torch.randint(0, CODES, (16 * 16,))

    def step():
        with torch.no_grad():
            x = book[codes].reshape(1, 16, 16, EMBEDDING).permute(0, 3, 1, 2)
            net(x.contiguous(memory_format=layout))

    seconds = measure(step, args.steps, args.warmup)
    report(named(args), "vqgan-decode", seconds, torch.__version__, threads=args.threads)


if __name__ == "__main__":
    main()
