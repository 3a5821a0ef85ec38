"""What all peers share: the sizes of the works, the options, the timing, and the line of JSON."""

import argparse
import json
import resource
import statistics
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """A DiT and the batch one training step takes. The mask is the last symbol."""

    vocabulary: int
    width: int
    blocks: int
    heads: int
    length: int
    batch: int

    @property
    def mask(self):
        """The symbol that is never data."""
        return self.vocabulary - 1


CONDITIONING = 128  # Channels of the vector that modulates the blocks.
FEATURES = 256  # Of the sinusoids of t and r - t.

DAG = {
    "byte": Sizes(vocabulary=257, width=256, blocks=6, heads=8, length=256, batch=16),
    "bpe": Sizes(vocabulary=50258, width=256, blocks=4, heads=4, length=128, batch=4),
}


def options(text, steps=5, warmup=1):
    """A parser of what every PyTorch peer can be told; `text` says what it is."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--lean", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--warmup", type=int, default=warmup)
    return parser


def named(args):
    """The name of a PyTorch peer with these options."""
    kind = "compiled" if args.compile else "eager"
    ways = [way for way in ["lean", "plain"] if getattr(args, way, False)]
    return "-".join(["pytorch", kind, *ways])


def measure(step, steps, warmup):
    """Seconds of each of `steps` calls, after `warmup` calls that are not counted."""
    for _ in range(warmup):
        step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def peak_bytes():
    """The most memory this process had in RAM so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def report(peer, work, seconds, version, **more):
    """Print the result as one line of JSON."""
    line = {
        "peer": peer,
        "work": work,
        "seconds": statistics.median(seconds),
        "best": min(seconds),
        "peak_bytes": peak_bytes(),
        "steps": len(seconds),
        "version": version,
        **more,
    }
    print(json.dumps(line), flush=True)
