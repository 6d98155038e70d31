"""Vertices of Minkowski sums against incremental Qhull.

The reference is what one would write with scipy: add the heads one at a time, take the hull of the sums,
keep its vertices. Ours is warm (compiled) and includes the certified witnesses.
"""

from __future__ import annotations

from timing import Comparison, print_table, side_by_side

import numpy as np  # isort: skip (the thread counts come first)
from scipy.spatial import ConvexHull  # isort: skip

import hardmax as hm

CASES = [  # d, H, N, target, repetitions of the reference
    (4, 4, 30, 6.0, 5),
    (6, 4, 10, 300.0, 1),
]


def incremental_qhull(heads: np.ndarray) -> int:
    total = heads[0][ConvexHull(heads[0]).vertices] if len(heads[0]) > heads.shape[2] + 1 else heads[0]
    for head in heads[1:]:
        sums = (total[:, None] + head[None]).reshape(-1, heads.shape[2])
        total = sums[ConvexHull(sums).vertices]
    return len(total)


def run() -> list[Comparison]:
    comparisons = []
    for d, heads, n_tokens, target, rounds in CASES:
        points = np.random.default_rng(0).standard_normal((heads, n_tokens, d))
        count = hm.minkowski_vertices(points).count  # also compiles
        reference_count = incremental_qhull(points)
        if count != reference_count:
            raise SystemExit(f"({d},{heads},{n_tokens}): {count} vertices here, {reference_count} from Qhull")
        ours, reference = side_by_side(
            lambda points=points: hm.minkowski_vertices(points),
            lambda points=points: incremental_qhull(points),
            repeats=10,
            rounds=rounds,
        )
        name = f"minkowski d={d} H={heads} N={n_tokens}"
        comparisons.append(Comparison(name, ours, reference, target, note=f"{count} vertices, both"))
    return comparisons


if __name__ == "__main__":
    print_table(run())
