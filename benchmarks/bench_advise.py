"""How long `hm.advise` and `hm.estimate_cost` take for the paper's targets at T = 64, and what they say.

    python benchmarks/bench_advise.py

The targets are those of P2: retrieval of six maxima, the sum of six maxima of bilinear forms,
triangle-center, depth separation and the sum of three positions. Kernels are compiled before the clock
starts.
"""

from __future__ import annotations

import time

import numpy as np

import hardmax as hm


def main() -> None:
    """Print one line per target."""
    matrices = np.random.default_rng(0).standard_normal((6, 4, 4))
    targets = [
        hm.targets.retrieval(6),
        hm.targets.pairwise(matrices),
        hm.targets.triangle_center(),
        hm.targets.depth_separation(),
        hm.targets.position_sum([0, 1, 2], d=2),
    ]
    hm.targets.triangle_center()([[[0.0, 0.0]]])  # compiled before the clock starts
    print(f"{'target':36} {'advise':>8} {'estimate':>9}  first suggestion")
    total = 0.0
    for target in targets:
        start = time.perf_counter()
        advice = hm.advise(target, 64)
        middle = time.perf_counter()
        first = advice.suggestions[0]
        hm.estimate_cost(target, hm.Architecture(64, target.d_token, first.heads, first.widths))
        end = time.perf_counter()
        total += middle - start
        words = f"heads {first.heads}, widths {first.widths}, {first.rules}"
        print(f"{target.name:36} {middle - start:7.2f}s {end - middle:8.2f}s  {words}")
    print(f"{'all of them':36} {total:7.2f}s")


if __name__ == "__main__":
    main()
