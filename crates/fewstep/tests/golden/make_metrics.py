"""Golden numbers of crates/fewstep/tests/metrics.rs: python make_metrics.py metrics.json, with NumPy and SciPy."""
import json, sys
import numpy as np
from scipy import linalg

def frechet(a, b):
    m1, m2 = a.mean(0), b.mean(0)
    s1, s2 = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = linalg.sqrtm(s1 @ s2)
    return float(((m1 - m2) ** 2).sum() + np.trace(s1 + s2 - 2 * np.real(root)))

def prdc(real, fake, k=3):
    d = lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))
    radius = lambda x: np.sort(d(x, x), axis=1)[:, k]
    rr, rf, rx = radius(real), radius(fake), d(real, fake)
    inside = rx < rr[:, None]
    return dict(precision=float(inside.any(0).mean()), recall=float((rx < rf[None]).any(1).mean()),
                density=float(inside.sum(0).mean() / k), coverage=float((rx.min(1) < rr).mean()))

def score(p, chunks=5):
    values = []
    for c in range(chunks):
        part = p[c * len(p) // chunks:(c + 1) * len(p) // chunks]
        kl = (part * (np.log(part) - np.log(part.mean(0)))).sum(1)
        values.append(np.exp(kl.mean()))
    return [float(np.mean(values)), float(np.std(values))]

rng = np.random.default_rng(7)
mix = rng.normal(size=(6, 6))
real = rng.normal(size=(40, 6)) @ mix
fake = rng.normal(size=(35, 6)) @ (mix + 0.3 * rng.normal(size=(6, 6))) + 0.4
real, fake = real.round(6), fake.round(6)
logits = rng.normal(size=(23, 4)) * 2
p = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).round(9)
parts = [prdc(real[c * 8:(c + 1) * 8], fake[c * 7:(c + 1) * 7]) for c in range(5)]
out = dict(
    real=real.tolist(), fake=fake.tolist(), probabilities=p.tolist(),
    frechet=frechet(real, fake), prdc=prdc(real, fake),
    chunked={k: float(np.mean([x[k] for x in parts])) for k in parts[0]},
    inception_score=score(p),
    covariance=np.cov(real, rowvar=False).tolist(),
)
json.dump(out, open(sys.argv[1], "w"))
print(out["frechet"], out["prdc"], out["chunked"], out["inception_score"])
