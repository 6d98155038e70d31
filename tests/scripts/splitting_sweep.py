"""Certified floats against rationals on many small, awkward heads; run by hand.

    python tests/scripts/splitting_sweep.py SECONDS [--seed N]

Keys are small integers, moved by one unit in the last place, scaled column by column or as a whole, spread
over many binary orders, or blurred by 1e-15. Prints every mismatch and a summary; exits with 1 if there was
one.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from hardmax import Box
from hardmax.geometry.cones import splitting
from hardmax.geometry.scores import Scores

SPOILERS = ("ulp", "tenths", "columns", "blur", "scale", "orders", "none")


def spoiled(rng: np.random.Generator, keys: np.ndarray, how: str) -> np.ndarray:
    if how == "ulp":
        moved = np.nextafter(keys, rng.choice([-9, 9], keys.shape))
        return np.where(rng.random(keys.shape) < 0.3, moved, keys)
    if how == "tenths":
        return keys * 0.1
    if how == "columns":
        return keys * rng.choice([1e-9, 1.0, 1e9], (1, keys.shape[1]))
    if how == "blur":
        return keys + rng.choice([0, 1e-15, 1e-12], keys.shape) * rng.standard_normal(keys.shape)
    if how == "scale":
        return keys * rng.choice([1e-200, 1e-3, 1e200])
    if how == "orders":
        return np.ldexp(keys, rng.integers(-40, 40, keys.shape))
    return keys


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    splitting._COMPARE_ALL = {}
    tried = mismatches = rational = 0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        d, heads = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        how, biased = str(rng.choice(SPOILERS)), bool(rng.random() < 0.4)
        families = []
        for _ in range(heads):
            n = int(rng.integers(1, 30 if heads == 1 else 7))
            keys = spoiled(rng, rng.integers(-2, 3, (n, d)).astype(float), how)
            families.append(Scores.of_keys(keys, rng.integers(-2, 3, n) if biased else None))
        domain = Box.cube(d, -1, 2) if rng.random() < 0.2 else None
        splitting._COMPARE_ALL_BEYOND = int(rng.choice([4, 10**6]))  # with and without candidate lists
        certified = splitting.refine(families, domain)
        splitting._COMPARE_ALL_BEYOND = 10**6
        exact = splitting.refine(families, domain, arithmetic="exact")
        tried += 1
        rational += certified.n_decided_exactly > 0
        if certified.choices.tolist() != exact.choices.tolist():
            mismatches += 1
            print(f"mismatch ({how}):", [(f.slopes.tolist(), f.offsets.tolist()) for f in families])
    print(f"{tried} inputs, {rational} of them needed rationals, {mismatches} mismatches")
    return int(mismatches > 0)


if __name__ == "__main__":
    sys.exit(main())
