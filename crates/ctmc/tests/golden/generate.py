"""Writes potts.txt: a Potts law drawn by numpy and the exact few-step errors on it, computed with
numpy and scipy's DOP853 alone. Run with numpy and scipy installed: python3 generate.py

Lines: the 256 probabilities; then, per K, "K tv_exact_posterior tv_exact_marginals" for the mixture
path with uniform source, linear schedule, uniform grid.
"""
import itertools

import numpy as np
from scipy.integrate import solve_ivp

S = D = 4
X = np.array(list(itertools.product(range(S), repeat=D)))
N = len(X)
HITS = X[:, None, :] == X[None, :, :]
ONE_HOT = np.eye(S)[X]


def potts(beta, noise):
    energy = noise * np.random.default_rng(0).standard_normal(N)
    for i, j in itertools.combinations(range(D), 2):
        energy += beta * (X[:, i] == X[:, j])
    law = np.exp(energy - energy.max())
    return law / law.sum()


def posterior(law, kappa):
    joint = np.prod((1 - kappa) / S + kappa * HITS, axis=2) * law
    return np.einsum("xy,yds->xds", joint / joint.sum(1, keepdims=True), ONE_HOT)


def neighbour(e, s):
    moved = X.copy()
    moved[:, e] = s
    return moved @ S ** np.arange(D - 1, -1, -1)


NEIGHBOURS = [[neighbour(e, s) for s in range(S)] for e in range(D)]


def exact_marginals(law, t, r):
    """The backward equation from r to t in u = -log(1 - kappa)."""
    start, end = -np.log1p(-t), 36.0 if r == 1 else -np.log1p(-r)

    def slope(v, f):
        f = f.reshape(N, D * S)
        p = posterior(law, -np.expm1(v - end))
        out = -D * f
        for e in range(D):
            for s in range(S):
                out = out + p[:, e, s, None] * f[NEIGHBOURS[e][s]]
        return out.ravel()

    solution = solve_ivp(slope, (0, end - start), ONE_HOT.ravel(), method="DOP853", rtol=1e-10, atol=1e-12)
    return solution.y[:, -1].reshape(N, D, S)


def total_variation(law, kernels):
    p = np.full(N, 1 / N)
    for rows in kernels:
        kernel = np.prod([rows[:, d, :][:, X[:, d]] for d in range(D)], axis=0)
        p = p @ kernel
    return 0.5 * np.abs(p - law).sum()


law = potts(1.5, 0.3)
with open("potts.txt", "w") as out:
    for p in law:
        out.write(f"{p:.17g}\n")
    for K in (1, 2, 3, 4, 8, 16):
        grid = [k / K for k in range(K + 1)]
        steps = list(zip(grid, grid[1:]))
        base = [(1 - (r - t) / (1 - t)) * ONE_HOT + (r - t) / (1 - t) * posterior(law, t) for t, r in steps]
        exact = [exact_marginals(law, t, r) for t, r in steps]
        out.write(f"{K} {total_variation(law, base):.17g} {total_variation(law, exact):.17g}\n")
