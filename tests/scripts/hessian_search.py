"""Attack the least upper bound on the Hessian of a log-sum-exp by search, up to 512 keys.

    python tests/scripts/hessian_search.py [--seconds 60]

The claim (docs/theorems.md, Theorem 1): over all weights 1, t_1 .. t_m with 0 <= t_j <= e, the largest norm
of the covariance of the normalised weights is max_k (k+1) e / (1 + k e)^2. Three attacks, none of which knows
the formula: random weights of several shapes, ascent with projected gradients from random starts, and the
one-parameter family of the proof's last step on a fine grid. The ascent follows numpy's dense eigenvectors.
What it finds is judged by the secular equation: numpy's eigenvalues are exact to about 1e-16, which is not
enough where the norm itself is 1e-9. The two are compared on a sample of 512 keys.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from hardmax.temperature.observed_scores import leading_eigenvalue

KEYS = (2, 3, 4, 5, 6, 8, 13, 32, 64, 128, 256, 512)
EPSILONS = (1e-9, 1e-4, 1e-2, 0.05, 0.1, 0.2, 1 / 3, 0.5, 0.7, 0.9, 0.99, 1.0)


def claimed(m: int, e: float) -> float:
    return max((k + 1) * e / (1 + k * e) ** 2 for k in range(1, m + 1))


def dense(t: np.ndarray) -> tuple[float, np.ndarray]:
    """The largest eigenvalue for weights 1, t and its eigenvector."""
    p = np.concatenate([[1.0], t])
    p /= p.sum()
    values, vectors = np.linalg.eigh(np.diag(p) - np.outer(p, p))
    return float(values[-1]), vectors[:, -1]


def secular(weights: np.ndarray) -> np.ndarray:
    """The same for many rows of rivals' weights at once."""
    with np.errstate(divide="ignore"):
        scores = np.concatenate([np.zeros((len(weights), 1)), np.log(weights)], axis=1)
    return leading_eigenvalue(scores, 1.0).norm


def random_attack(rng: np.random.Generator, m: int, e: float, rows: int) -> float:
    u = rng.random((rows, m))
    shapes = [
        e * u,
        e * u ** rng.uniform(0.02, 1, (rows, 1)),
        e * (u < rng.random((rows, 1))),
        e * np.where(u < rng.random((rows, 1)), 1.0, rng.random((rows, 1))),
        e * np.exp(-rng.exponential(3, (rows, 1)) * np.sort(u, axis=1)),
    ]
    return max(float(secular(t).max()) for t in shapes)


def ascent(rng: np.random.Generator, m: int, e: float, steps: int) -> float:
    """Projected ascent: the derivative of a simple eigenvalue is that of the variance of its vector."""
    t = e * rng.random(m)
    size = 0.5
    for _ in range(steps):
        value, u = dense(t)
        total = 1.0 + t.sum()
        p = np.concatenate([[1.0], t]) / total
        mean = p @ u
        gradient = ((u[1:] - mean) ** 2 - value) / total
        if not np.abs(gradient).max() > 0:
            break
        trial = np.clip(t + size * e * gradient / np.abs(gradient).max(), 0.0, e)
        found = dense(trial)[0]
        if found > value:
            t, size = trial, min(1.0, 1.5 * size)
        else:
            size /= 2
            if size < 1e-12:
                break
    return float(secular(t[None])[0])


def family(m: int, e: float) -> float:
    """k rivals at e and one at s in [0, e]: the family in which the proof looks for an interior maximum."""
    best = 0.0
    for k in sorted({*range(min(m, 12)), *np.geomspace(1, m - 1, 12).astype(int)} if m > 1 else {0}):
        s = e * np.linspace(0.0, 1.0, 401)
        weights = np.concatenate([np.full((401, k), e), s[:, None]], axis=1)
        best = max(best, float(secular(weights).max()))
    return best


def attack(m: int, e: float, rng: np.random.Generator, *, rows: int, starts: int) -> dict[str, float]:
    """The largest norm found by each attack, over the claimed supremum."""
    bound = claimed(m, e)
    found = {"random": random_attack(rng, m, e, rows) / bound, "family": family(m, e) / bound}
    if m < 64:
        found["ascent"] = max(ascent(rng, m, e, 300) for _ in range(starts)) / bound
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    stop = time.monotonic() + parser.parse_args().seconds
    rng = np.random.default_rng(0)
    worst: dict[int, float] = dict.fromkeys(KEYS, 0.0)
    rounds = 0
    while time.monotonic() < stop:
        for n in KEYS:
            for e in EPSILONS:
                found = attack(n - 1, e, rng, rows=max(4, 4096 // n), starts=2)
                worst[n] = max(worst[n], *found.values())
                if time.monotonic() > stop and rounds:
                    break
        rounds += 1
    sample = e * rng.random((8, 511))
    gap = max(abs(dense(t)[0] - float(secular(t[None])[0])) for t in sample)
    print(f"{rounds} rounds; largest norm found over the claimed supremum:")
    for n, ratio in worst.items():
        print(f"  N = {n:3d}: {ratio:.15f}")
    print(f"dense against secular at N = 512: {gap:.1e}")
    if max(worst.values()) > 1 + 1e-12 or not math.isfinite(gap):
        raise SystemExit("the claim is refuted")


if __name__ == "__main__":
    main()
