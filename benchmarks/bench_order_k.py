"""Order-k diagrams against hardmax on the same keys: processor time per cell, neighbours included.

python benchmarks/bench_order_k.py
"""

from __future__ import annotations

import sys
from functools import partial

from timing import Comparison, print_table, side_by_side

import numpy as np  # isort: skip (the thread counts come first)

import hardmax as hm

SIZES = [(200, 2, 2), (200, 2, 3), (400, 2, 5), (200, 3, 2), (200, 3, 3), (100, 4, 2)]


def cells(sites: np.ndarray, k: int) -> int:
    diagram = hm.power_diagram(sites, k=k)
    diagram.adjacency()
    return int(diagram.nonempty.sum()) if k == 1 else diagram.n_cells


def compared(n: int, d: int, k: int) -> Comparison:
    sites = np.random.default_rng(0).standard_normal((n, d))
    own, plain = cells(sites, k), cells(sites, 1)  # also compiles
    spent, reference = side_by_side(partial(cells, sites, k), partial(cells, sites, 1), repeats=3, rounds=5)
    note = f"{own} cells of order {k}, {plain} of order 1; times are per cell"
    return Comparison(
        f"order {k}, N={n}, d={d}", spent / own, reference / plain, 5.0, at_most=True, note=note
    )


def run() -> list[Comparison]:
    return [compared(*size) for size in SIZES]


if __name__ == "__main__":
    comparisons = run()
    print_table(comparisons)
    sys.exit(0 if all(line.ok for line in comparisons) else 1)
