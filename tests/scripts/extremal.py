"""Count the networks with the most cells again, replay the refutations, and write docs/results/extremal.md.

    python tests/scripts/extremal.py [--seconds 5]

The search over random networks (``--seconds`` per orientation of the three lines) attacks the upper end of
Theorem 11; a network above the proven maximum is an error. Everything else is the same in every run.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations, product
from pathlib import Path

import mlp_search
import numpy as np
from scipy.optimize import linprog

import hardmax as hm
from hardmax.bounds import mlp_bounds, zaslavsky
from hardmax.flow.theorems.canonical_rankings import (
    CanonicalRules,
    ColouredInput,
    cyclic_rankings,
    refuted,
)
from hardmax.networks.extremal import centred_attention, line_transformer, most_cells_mlp

ROOT = Path(__file__).parents[2]
PLANE, LINE = hm.WholeSpace(2), hm.WholeSpace(1)
MOST = {(1, 1, 1): 31, (1, 1, -1): 34, (1, -1, -1): 34, (-1, -1, -1): 31}  # proven, for n = 3


def searched(seconds):
    for number, way in enumerate(mlp_search.WAYS):
        _, (weights, biases), tried = mlp_search.search(way, seconds, np.random.default_rng([1, number]))
        signs = np.array(way)
        first = (mlp_search.LINES[:, :2] * signs[:, None], mlp_search.LINES[:, 2] * signs)
        network = hm.Network.mlp([first, (weights, biases), (np.eye(3), np.zeros(3))])
        exact = int(hm.count_cells(network, PLANE))
        if exact > MOST[way]:
            raise SystemExit(f"{way}: {exact} cells, more than the proven maximum")
        yield f"| {' '.join('+' if s > 0 else '-' for s in way)} | {tried:,} | {exact} | {MOST[way]} |"


def relu():
    for n in range(1, 9):
        network, most = most_cells_mlp(n), mlp_bounds([2, 3, n])["three_lines"].value
        cells, regions = int(hm.count_cells(network, PLANE)), hm.count_regions(network, PLANE).n_regions
        if cells != most:
            raise SystemExit(f"n = {n}: {cells} cells, not {most}")
        yield f"| {n} | {most} | {cells} | {regions} | {mlp_bounds([2, 3, n])['rank_aware'].value} |"


def attention():
    for heads, depth in ((3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (5, 1), (5, 2)):
        network, most = centred_attention(heads, depth), zaslavsky(heads, 2) ** depth
        cells, regions = int(hm.count_cells(network, PLANE)), hm.count_regions(network, PLANE).n_regions
        if cells != most:
            raise SystemExit(f"{heads} heads, depth {depth}: {cells} cells, not {most}")
        yield f"| {heads} | {depth} | {most} | {cells} | {regions} |"


def has_centred_values(lines, offsets):
    """Whether some values of heads of two keys give every cell a centre: a linear program in floating point.

    The unknowns are the sum of the points of the first keys, the step of each head and the least margin.
    """
    heads, cells = len(lines), set()
    for pair in combinations(range(heads), 2):  # in general position every cell has a corner
        corner = np.linalg.solve(lines[[*pair]], -offsets[[*pair]])
        on = (lines @ corner + offsets > 0).astype(int)
        for sides in product((0, 1), repeat=2):
            on[[*pair]] = sides
            cells.add(tuple(on.tolist()))
    if len(cells) != zaslavsky(heads, 2):
        raise SystemExit(f"{heads} lines: {len(cells)} cells, not {zaslavsky(heads, 2)}")
    rows, right = [], []
    for cell in cells:
        for on, normal, offset in zip(cell, lines, offsets, strict=True):
            sign = 2 * on - 1
            rows.append([*(-sign * np.outer([1, *cell], normal)).ravel(), 1])
            right.append(sign * offset)
    cost = np.zeros(2 * heads + 3)
    cost[-1] = -1
    bounds = [(None, None)] * (2 * heads + 2) + [(None, 1)]
    return linprog(cost, A_ub=rows, b_ub=right, bounds=bounds).x[-1] > 1e-7


def arrangements(number=200):
    rng = np.random.default_rng(0)
    for heads in (3, 4, 5, 6):
        found = 0
        for _ in range(number):
            angles, offsets = rng.uniform(0, 2 * np.pi, heads), rng.standard_normal(heads)
            found += has_centred_values(np.stack([np.cos(angles), np.sin(angles)], axis=1), offsets)
        yield f"| {heads} | {number} | {found} |"


def line():
    for sizes in ((2, 1, 1, 3), (3, 2, 1, 2), (2, 2, 2, 2), (2, 3, 3, 2), (4, 2, 3, 2), (2, 2, 1, 4)):
        n_tokens, heads, d_ff, depth = sizes
        network = line_transformer(*sizes)
        most = ((heads * (n_tokens - 1) + 1) * (d_ff + 1)) ** depth
        cells = int(hm.count_cells(network, LINE))
        if cells != most:
            raise SystemExit(f"{sizes}: {cells} cells, not {most}")
        yield f"| {n_tokens} | {heads} | {d_ff} | {depth} | {most:,} | {cells:,} |"


def refutations():
    for case in json.loads(Path(__file__).with_name("pair_refutations.json").read_text()):
        rules = CanonicalRules(case["n_terms"], case["heads"])
        for p, q, colours in case["inputs"]:
            coloured = ColouredInput((p, q), tuple(map(int, colours)))
            if coloured.n_tokens != case["n_tokens"] or (p, q) == (0, case["n_tokens"] - 1):
                raise SystemExit(
                    f"{case['n_terms']} terms: an input of another size, or its first and last letter"
                )
            rules.demand(coloured)
        steps = [tuple(map(int, step.split())) for step in case["steps"]]
        if not refuted(rules.clauses, steps):
            raise SystemExit(f"{case['n_terms']} terms: the refutation does not check")
        yield (
            f"| {case['n_terms']} | {case['heads']} | {case['n_tokens']} | {len(case['inputs'])} | "
            f"{len(rules.clauses):,} | {len(steps)} | checks |"
        )


def circles():
    for heads in (1, 2):
        rankings = cyclic_rankings(9, heads)
        for n_tokens in range(2, 8):
            missed, pairs = 0, 0
            for letters in combinations(range(9), n_tokens):
                held = [
                    {u, *(next(s for s in ranking.tolist() if s in letters) for ranking in rankings[u])}
                    for u in letters
                ]
                for pair in combinations(letters, 2):
                    pairs += 1
                    missed += not any(set(pair) <= each for each in held)
            yield f"| {heads} | {n_tokens} | {pairs:,} | {missed:,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    tables = {
        "ReLU widths (2, 3, n): the network of the proof": (
            "| n | maximum | cells counted | regions counted | bound with ranks |", relu()),
        "ReLU widths (2, 3, 3): random search per orientation of the lines": (
            "| lines | networks tried | most cells found | proven bound |", searched(options.seconds)),
        "Attention in the plane, two keys per head": (
            "| heads | layers | maximum | cells counted | regions counted |", attention()),
        "Random lines of heads with two keys: those with values that centre every cell": (
            "| heads | arrangements | centred |", arrangements()),
        "Transformers on the line": (
            "| N | H | units | blocks | maximum | cells counted |", line()),
        "Too few heads: refutations": (
            "| D | heads | T | inputs | clauses | steps | replay |", refutations()),
        "Few tokens: rankings by a circle of nine letters": (
            "| heads | T | pairs in all inputs | not held |", circles()),
    }  # fmt: skip
    lines = ["# Extremal networks and the fewest heads: what was run", ""]
    lines += [
        "Written by `make extremal` (`tests/scripts/extremal.py`); the [theorems](../theorems-extremal.md).",
        "",
    ]
    for title, (header, rows) in tables.items():
        print(title, flush=True)
        lines += [f"## {title}", "", header, "|" + "---|" * (header.count("|") - 1), *rows, ""]
    (ROOT / "docs" / "results" / "extremal.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
