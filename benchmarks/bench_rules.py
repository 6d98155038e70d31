"""Heads that choose sets against hardmax heads with the same keys: processor time per cell, cells kept.

python benchmarks/bench_rules.py            # all; the last lines take a minute
python benchmarks/bench_rules.py --quick    # without N = 1000
"""

from __future__ import annotations

import sys
from functools import partial

from timing import Comparison, print_table, side_by_side

import numpy as np  # isort: skip (the thread counts come first)

import hardmax as hm

MOST = 5.0  # with two layers docs/attention-rules.md says where it is missed
RULES = [
    ("top-k", {"k": 2}),
    ("top-k", {"k": 5}),
    *(("sparsemax", {"temperature": tau}) for tau in (1e-6, 0.01, 0.1, 1.0, 10.0)),
]
# keys, dimension, layers, heads, rules; two layers in space at 1e-6 take a minute in rationals
SHAPES = [
    (50, 2, 1, 1, RULES),
    (200, 2, 1, 1, RULES),
    (50, 3, 1, 1, RULES),
    (200, 3, 1, 1, RULES[:4]),
    (30, 2, 2, 2, RULES),
    (12, 3, 2, 2, RULES[:2] + RULES[3:6]),
]
LARGE = [(1000, 2, 1, 1, RULES[:2] + RULES[3:4])]


def network(n: int, d: int, layers: int, heads: int) -> hm.Network:
    """Heads with the scores of a power diagram; the layers behind the first see what it puts out."""
    rng = np.random.default_rng(0)
    blocks = []
    for _ in range(layers):
        keys = rng.normal(size=(heads, n, d))
        blocks.append(hm.Attention(keys, -np.square(keys).sum(axis=2) / 2, keys, skip=layers > 1))
    return hm.Network(blocks)


def compared(n: int, d: int, layers: int, heads: int, rules: list) -> list[Comparison]:
    hard, box = network(n, d, layers, heads), hm.Box.cube(d, -3, 3)
    plain = hm.enumerate_regions(hard, box).n_cells
    lines = []
    for name, options in rules:
        soft = hard.with_rule(name, **options)
        hm.enumerate_regions(network(5, d, layers, heads).with_rule(name, **options), box)  # compiles
        found = hm.enumerate_regions(soft, box)
        large = found.n_cells > 5000
        spent, reference = side_by_side(
            partial(hm.enumerate_regions, soft, box), partial(hm.enumerate_regions, hard, box),
            repeats=1 if large else 3, rounds=1 if large else 3,
        )  # fmt: skip
        rule = f"top-{options['k']}" if name == "top-k" else f"sparsemax {options['temperature']:g}"
        heading = f"{rule}, N={n}, d={d}, {layers} x {heads} heads"
        note = f"{found.n_cells} cells, {plain} of hardmax; times are per cell"
        lines.append(
            Comparison(
                heading, spent / found.n_cells, reference / plain, MOST, at_most=True, note=note,
                known_miss=layers > 1,
            )
        )  # fmt: skip
    return lines


def run(shapes: list = SHAPES) -> list[Comparison]:
    return [line for shape in shapes for line in compared(*shape)]


if __name__ == "__main__":
    comparisons = run(SHAPES if "--quick" in sys.argv else SHAPES + LARGE)
    print_table(comparisons)
    sys.exit(1 if any(line.fails for line in comparisons) else 0)
