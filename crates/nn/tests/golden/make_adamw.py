"""Writes adamw.json beside this file: a short training with PyTorch's own AdamW, clip_grad_norm_ and
LambdaLR, and an average of the weights by torch_ema's rule. Needs torch alone:

    python make_adamw.py
"""

import json
import math
import pathlib

import torch

SIZE, STEPS, WARMUP = 37, 20, 5
PEAK, FLOOR, DECAY, MAX_NORM = 1e-2, 1e-3, 0.9, 1.0
KEPT = [1, 2, 5, 11, 20]  # Steps after which the parameters are written.


def start(i):
    return ((i * 31) % 17 - 8) / 16


def gradient(step, i):
    """Exact in f64: the test computes the same. Every fourth is too small to be clipped."""
    small = 1 / 128 if step % 4 == 3 else 1.0
    return ((i * 7919 + step * 104729) % 1009 - 504) / 252 * small


def factor(step):
    ramp = min(1.0, (step + 1) / WARMUP)
    low = FLOOR / PEAK
    return ramp * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * step / STEPS)))


def run(dtype):
    w = torch.nn.Parameter(torch.tensor([start(i) for i in range(SIZE)], dtype=dtype))
    optimizer = torch.optim.AdamW([w], lr=PEAK, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    shadow = w.detach().clone()
    norms, rates, kept = [], [], []
    for step in range(STEPS):
        w.grad = torch.tensor([gradient(step, i) for i in range(SIZE)], dtype=dtype)
        norms.append(float(torch.nn.utils.clip_grad_norm_([w], MAX_NORM)))
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
        n = step + 1
        decay = min(DECAY, (1 + n) / (10 + n))
        shadow.sub_((1 - decay) * (shadow - w.detach()))
        if n in KEPT:
            kept.append({"steps": n, "parameters": w.tolist(), "average": shadow.tolist()})
    return {"norms": norms, "rates": rates, "kept": kept}


result = {
    "torch": torch.__version__,
    "size": SIZE,
    "steps": STEPS,
    "warmup": WARMUP,
    "peak": PEAK,
    "floor": FLOOR,
    "decay": DECAY,
    "max_norm": MAX_NORM,
    "f64": run(torch.float64),
    "f32": run(torch.float32),
}
path = pathlib.Path(__file__).with_name("adamw.json")
path.write_text(json.dumps(result, indent=1) + "\n")
