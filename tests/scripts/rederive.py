"""Twenty entries of the page of claims, drawn at random and derived again without hardmax.

    python tests/scripts/rederive.py --draw     the names that seed 2026 draws from docs/claims.md as it is
    python tests/scripts/rederive.py            derive the entries that were drawn, and say what agrees

Nothing of hardmax is imported: the statements are taken from the page, and what is computed here is a second
way to its numbers, with the standard library and numpy. What was found, and what the page lacked, is on
docs/results/rederived.md. The entries were drawn when the page had 161 of them; ``--draw`` shows others when
it has changed.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product
from math import ceil, comb
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
Found = tuple[bool, str]
DERIVED: dict[str, Callable[[], Found]] = {}


def drawn(page: str) -> tuple[list[str], list[str]]:
    """Twenty names of the page, and four more of the first two papers."""
    names = re.findall(r"^### (\S+)$", page, re.MULTILINE)
    rng = random.Random(2026)
    twenty = rng.sample(names, 20)
    rest = [name for name in names if name not in twenty and name.startswith(("tropical", "infoflow"))]
    return twenty, rng.sample(rest, 4)


def entry(name: str) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
    """Keep the derivation of an entry."""

    def kept(check: Callable[[], Found]) -> Callable[[], Found]:
        DERIVED[name] = check
        return check

    return kept


# The first paper
# ----------------------------------------------------------------------------------------------------------


def parabola(n: int, h: int, d: int) -> list[list[int]]:
    """Affine scores (slopes, offset) 2 j x_h - j^2 for j = 1, ..., n: key j wins for x_h near j."""
    return [[2 * j if k == h else 0 for k in range(d)] + [-j * j] for j in range(1, n + 1)]


@entry("tropical.mink_product_regime")
def few_heads() -> Found:
    reached = []
    for n, d in product((2, 3, 4), (1, 2, 3)):
        for heads in range(1, d + 1):
            seen = set()
            for x in product(range(1, n + 1), repeat=heads):
                point = [*x, *[0] * (d - heads), 1]  # the offset is the coordinate of a linear score
                scores = [[np.dot(row, point) for row in parabola(n, h, d)] for h in range(heads)]
                assert all(s.count(max(s)) == 1 for s in scores)
                seen.add(tuple(s.index(max(s)) for s in scores))
            reached.append(len(seen) == n**heads)
    found = len(combinations_in_space(6))
    return (
        all(reached) and found == 6**3 - 5**3 + 1 == 92,
        f"{len(reached)} families of affine heads (so linear ones, one dimension up) show N^H choices, and "
        f"there are no more; three linear heads of six keys in space: {found} = 6^3 - 5^3 + 1",
    )


def combinations_in_space(n: int) -> set[tuple[int, ...]]:
    """Winners of three heads with the keys 2 t e_h - t^2 (1, 1, 1), for n numbers t per head.

    Where the coordinates of x have the sum 1, head h changes at x_h = (t + t') / 2 for neighbours t, t':
    three families of lines in a plane, and a region has a crossing on its border. Where the sum is -1 only
    the smallest and the largest t win. Where it is 0 there is no open set.
    """
    levels = [[Fraction(h + 1, 7) + j + Fraction(j * j, 50 + h) for j in range(n)] for h in range(3)]
    tiny, seen = Fraction(1, 10**9), set()
    for side in (1, -1):
        walls = [[(a + b) / 2 for a, b in pairwise(t)] if side > 0 else [-(t[0] + t[-1]) / 2] for t in levels]
        for g, h in combinations(range(3), 2):
            for a, b in product(walls[g], walls[h]):
                for da, db in product((-tiny, tiny), repeat=2):
                    x = [Fraction(0)] * 3
                    x[g], x[h] = a + da, b + db
                    x[3 - g - h] = side - x[g] - x[h]
                    scores = [[2 * t * x[k] - t * t * side for t in levels[k]] for k in range(3)]
                    assert all(s.count(max(s)) == 1 for s in scores)
                    seen.add(tuple(s.index(max(s)) for s in scores))
    return seen


def winners_by_direction(keys: np.ndarray, rng: np.random.Generator) -> int:
    """How many combinations of winning keys random directions show."""
    directions = rng.standard_normal((40_000, keys.shape[2]))
    return len({tuple(row) for row in np.stack([(directions @ k.T).argmax(1) for k in keys], 1).tolist()})


def cut(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """The part of a convex polygon with normal . x + offset >= 0."""
    kept, values = [], polygon @ normal + offset
    for i, value in enumerate(values):
        j = (i + 1) % len(values)
        if value >= 0:
            kept.append(polygon[i])
        if value * values[j] < 0:
            kept.append(polygon[i] + (polygon[j] - polygon[i]) * value / (value - values[j]))
    return np.array(kept)


def is_cell(polygon: np.ndarray) -> bool:
    if len(polygon) < 3:
        return False
    x, y = polygon.T
    return abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) > 1e-10


def plane_cells(layers: Sequence[dict[str, np.ndarray]]) -> int:
    """Cells of x -> ReLU layer(x + one head) in [-4, 4]^2, by clipping polygons."""
    box = np.array([[-4.0, -4], [4, -4], [4, 4], [-4, 4]])
    pieces = [(box, np.eye(2), np.zeros(2))]
    for layer in layers:
        routed = []
        for polygon, a, b in pieces:
            scores, offsets = layer["keys"] @ a, layer["keys"] @ b
            for j in range(len(scores)):
                part = polygon
                for rival in range(len(scores)):
                    if rival != j and len(part):
                        part = cut(part, scores[j] - scores[rival], offsets[j] - offsets[rival])
                if is_cell(part):
                    routed.append((part, a, b + layer["values"][j]))
        pieces = []
        for polygon, a, b in routed:
            parts = [(polygon, [])]
            for w, bias in zip(layer["w_in"], layer["b_in"], strict=True):
                split = []
                for part, on in parts:
                    for sign in (1, -1):
                        half = cut(part, sign * (w @ a), sign * float(w @ b + bias))
                        if is_cell(half):
                            split.append((half, [*on, int(sign > 0)]))
                parts = split
            for part, on in parts:
                kept = layer["w_out"] * np.array(on)
                pieces.append(
                    (
                        part,
                        kept @ layer["w_in"] @ a,
                        kept @ (layer["w_in"] @ b + layer["b_in"]) + layer["b_out"],
                    )
                )
    return len(pieces)


def plane_network(rng: np.random.Generator, n: int, width: int, depth: int) -> list[dict[str, np.ndarray]]:
    """Gaussian weights, ReLU biases of spread 1/2; the first n of eight keys, so that networks share them."""
    return [
        {
            "keys": rng.standard_normal((8, 2))[:n],
            "values": rng.standard_normal((8, 2))[:n],
            "w_in": rng.standard_normal((width, 2)) / math.sqrt(2),
            "b_in": rng.standard_normal(width) / 2,
            "w_out": rng.standard_normal((2, width)) / math.sqrt(width),
            "b_out": rng.standard_normal(2) / 2,
        }
        for _ in range(depth)
    ]


def plane_counts(width: int, depth: int, sizes: Sequence[int], draws: int) -> np.ndarray:
    return np.array(
        [
            [plane_cells(plane_network(np.random.default_rng(i), n, width, depth)) for n in sizes]
            for i in range(draws)
        ],
        dtype=float,
    )


@entry("tropical.fig6a_depth")
def two_layers() -> Found:
    slopes = {}
    for depth in (1, 2):
        counts = plane_counts(8, depth, (4, 5), 20)
        slopes[depth] = np.log(counts[:, 1] / counts[:, 0]) / np.log(5 / 4)
    gap = slopes[2] - slopes[1]
    return (
        bool(abs(gap.mean()) < gap.std(ddof=1)),
        f"20 networks of our own: difference of slopes {gap.mean():+.2f}, spread {gap.std(ddof=1):.2f}; the "
        "sign is not decided",
    )


@entry("tropical.fig6a_slope_013")
def slopes_of_one_layer() -> Found:
    sizes, found = (2, 3, 4, 5), {}
    for width in (4, 8, 16):
        counts = plane_counts(width, 1, sizes, 20)
        single = [np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in counts]
        found[width] = (np.polyfit(np.log(sizes), np.log(counts.mean(0)), 1)[0], np.std(single, ddof=1))
    slopes = [slope for slope, _ in found.values()]
    return (
        max(slopes) - min(slopes) > 0.02 and max(spread for _, spread in found.values()) > 0.13,
        ", ".join(f"d_ff = {w}: slope {a:.2f}, spread {b:.2f}" for w, (a, b) in found.items()),
    )


@entry("tropical.layernorm_norms_keys")
def normalised() -> Found:
    rng = np.random.default_rng(1)
    keys = rng.standard_normal((200, 7)) * rng.uniform(0.1, 10, (200, 1)) + rng.standard_normal((200, 1))
    z = (keys - keys.mean(1, keepdims=True)) / keys.std(1, keepdims=True)
    plain, gained = (z**2).sum(1), ((z * rng.uniform(0.5, 2, 7)) ** 2).sum(1)
    rows = [[5, -5, 5, -5], [7, -7, 1, -1], [1, -1, 7, -7]]  # over 5
    norms = [[sum(Fraction(g * x, 5) ** 2 for g, x in zip(gain, row, strict=True)) for row in rows]
             for gain in ([1, 1, 1, 1], [2, 1, 1, 1])]  # fmt: skip
    agree = norms == [[4, 4, 4], [7, Fraction(247, 25), Fraction(103, 25)]]
    return (
        agree and bool(np.allclose(plain, 7)) and gained.max() / gained.min() > 1.5,
        f"squared norms {', '.join(map(str, norms[0]))} without and {', '.join(map(str, norms[1]))} with the "
        f"gain; 200 keys: d = 7 without, a factor {gained.max() / gained.min():.1f} with one",
    )


@entry("tropical.v9_gap")
def gap_of_constants() -> Found:
    w = 8 // (2 * 2)
    factor = Fraction(1 + 8 + comb(8, 2), (2 * w) ** 2)
    powers = [float(factor**depth) for depth in (1, 4, 16)]
    agree = factor == Fraction(37, 16) and [f"{p:.3g}" for p in powers] == ["2.31", "28.6", "6.69e+05"]
    return agree, f"R(8, 2) = 37, w = 8 / 4 = 2, factor {factor}: {', '.join(f'{p:.3g}' for p in powers)}"


@entry("tropical.cov_lemma")
def covariance() -> Found:
    rng, ratios = np.random.default_rng(2), []
    for n in range(2, 9):
        for p in rng.dirichlet(np.ones(n) / 2, 60):
            norm = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]
            ratios.append(norm / (p * (1 - p)).max())
    # (1/2, 1/2): the matrix is [[1, -1], [-1, 1]] / 4, its eigenvector (1, -1) has the value 1/2
    value = Fraction(1, 4) * 1 - Fraction(1, 4) * -1
    agree = value == Fraction(1, 2) and min(ratios) > 1 - 1e-9 and max(ratios) < 2 + 1e-9
    return (
        agree,
        f"norm 1/2 against 1/4; {len(ratios)} random p: ratio {min(ratios):.3f} to {max(ratios):.3f}",
    )


@entry("tropical.def_iii1")
def value_on_the_wall() -> Found:
    def block(read: Sequence[float]) -> float:
        return max(0, read[0] - 1) + max(0, read[1] - 1)

    left, right = (0, 2), (2, 0)
    wall = tuple((a + b) / 2 for a, b in zip(left, right, strict=True))
    values = [block(left), block(right), block(wall)]
    return values == [1, 1, 0], f"left, right, on the wall: {values}"


@entry("tropical.onehot_interior")
def one_hot() -> Found:
    rng, cells, sharp = np.random.default_rng(3), 0, []
    for _ in range(30):
        keys = np.unique(rng.integers(-6, 7, (6, 2)), axis=0)
        points = rng.integers(-50, 51, (400, 2))
        scores = points @ keys.T
        best = scores.argmax(1)
        for j in set(best.tolist()):
            ahead = [np.sort(scores[i])[-1] - np.sort(scores[i])[-2] for i in np.flatnonzero(best == j)]
            cells += 1
            margin = max(ahead)
            sharp.append(margin == 0 or len(keys) * math.exp(-margin / 0.01) < 1e-6)
    mean = (2 * math.exp(0) + 0 * math.exp(0)) / (math.exp(0) + math.exp(0))
    return all(
        sharp
    ) and mean == 1, f"{cells} cells: one-hot at temperature 0.01; a repeated key gives {mean}"


@entry("tropical.rem_iv5")
def no_product() -> Found:
    def winner(x: Sequence[float]) -> int:
        return int(x[0] * x[1] > x[0] * x[0])

    named = [winner(x) for x in ((1, 0), (3, 2), (1, 2))]
    rng = np.random.default_rng(4)
    pairs, form = rng.standard_normal((20_000, 2, 4, 3)), rng.standard_normal((3, 3))
    mixed = np.concatenate([pairs[:, 0, :1], pairs[:, 1, 1:]], axis=1)
    sequences = (pairs[:, 0], pairs[:, 1], mixed, pairs.mean(1))
    first, second, taken, middle = (
        np.einsum("ni,ij,ntj->nt", tokens[:, 0], form, tokens).argmax(1) for tokens in sequences
    )
    same = first == second
    shares = [float((each != first)[same].mean()) for each in (taken, middle)]
    return (
        named == [0, 0, 1] and min(shares) > 0.1,
        f"winners {named} at (1, 0), (3, 2), (1, 2); of {same.sum()} pairs of our own with one winner "
        f"{shares[0]:.2f} change when mixed and {shares[1]:.2f} at the midpoint (the page: 0.59 and 0.31)",
    )


@entry("tropical.single_head_le_n")
def hull_of_keys() -> Found:
    rng, counts = np.random.default_rng(5), []
    for n in (3, 5, 8):
        keys = rng.standard_normal((1, n, 3))
        on_sphere = keys / np.linalg.norm(keys, axis=2, keepdims=True)
        line = rng.standard_normal((1, n, 1))
        counts.append((n, *(winners_by_direction(k, rng) for k in (keys, on_sphere, line))))
    agree = all(general <= n == sphere and line == 2 for n, general, sphere, line in counts)
    return agree, "; ".join(f"N = {n}: {g} in general, {s} on a sphere, {line_}" for n, g, s, line_ in counts)


@entry("tropical.def_iii8")
def refinement() -> Found:
    rng, agree, cells = np.random.default_rng(6), True, 0
    directions = rng.standard_normal((4000, 2))
    for _ in range(6):
        first, second = rng.integers(-5, 6, (2, 5, 2))
        both = [(f @ x, s @ x) for x in directions for f, s in [(first, second)]]
        pairs = {(int(f.argmax()), int(s.argmax())) for f, s in both}
        sums = (first[:, None] + second[None]).reshape(-1, 2)
        winners = {tuple(sums[(sums @ x).argmax()]) for x in directions}
        points = {tuple(first[i] + second[j]) for i, j in pairs}
        agree &= winners == points
        cells += len(winners)
    return bool(agree), f"{cells} cells of six refinements are those of the products"


# The second paper
# ----------------------------------------------------------------------------------------------------------


@entry("infoflow.cmp.tri.upper")
def all_triples() -> Found:
    counts = [sum(1 for _ in product(range(t), repeat=3)) - 1 for t in (3, 4, 5)]
    rng, smaller = np.random.default_rng(7), True
    for _ in range(200):  # unordered triples with repetition have the same minimum
        x = rng.uniform(-1, 1, (5, 2))
        ordered = min(((x[a] + x[b] + x[c]) ** 2).sum() for a, b, c in product(range(5), repeat=3))
        unordered = min(
            ((x[a] + x[b] + x[c]) ** 2).sum() for a, b, c in combinations_with_replacement(range(5), 3)
        )
        smaller &= abs(ordered - unordered) < 1e-12
    return counts == [26, 63, 124] and bool(smaller), f"T^3 leaves need {counts} comparisons at T = 3, 4, 5"


@entry("infoflow.6-a")
def heads_by_counting() -> Found:
    def least(d: int, t: int) -> int:
        return ceil(Fraction(d * (t - d), t - 1))

    named = [least(6, t) for t in (16, 31, 32)]
    sharp = all(
        (least(d, t) >= d) == (t > d * (d - 1) + 1) for d in range(1, 8) for t in range(d + 1, 3 * d * d)
    )
    exact = all(ceil(Fraction(d * (t - 1), t - 1)) >= d for d in range(1, 8) for t in range(d + 1, 3 * d * d))
    return named == [4, 5, 6] and sharp and exact, f"smallest s at D = 6: {named} for T = 16, 31, 32"


@entry("infoflow.p2.superpoly")
def one_power_per_length() -> Found:
    exponents = [round(t ** (2 / 3) / (6 * 2 * 24) - 1, 2) for t in (64, 1e5, 1e6, 1e7)]
    return exponents == [-0.94, 6.48, 33.72, 160.17], f"T^(2/3) / 288 - 1 = {exponents}"


@entry("infoflow.t3.o")
def every_size() -> Found:
    v = np.linspace(-1, 1, 2001)
    errors = {p: float(np.abs(v - p * np.tanh(v / p)).max()) for p in (1, 4, 16, 64)}
    parameters = [3 * p + 1 for p in errors]
    widths = [
        2 * e * (2 ** (-1 / n) * (6 * e) ** (-m / n) - 1) / n
        for m, n, e in ((2, 1, 0.01), (2, 1, 0.001), (3, 1, 0.01), (8, 2, 0.01))
    ]
    shown = [f"{w:.4g}" for w in widths]
    agree = max(errors.values()) < 1 / 4 and parameters == [4, 13, 49, 193]
    agree &= shown == ["2.758", "27.78", "46.28", "545.6"]
    return agree, (
        f"largest errors {[round(e, 4) for e in errors.values()]}, parameters {parameters}, widths {shown}"
    )


@entry("infoflow.c5.rem")
def best_constant() -> Found:
    x = np.random.default_rng(0).uniform(-1, 1, (2000, 8, 2))
    triples = list(combinations_with_replacement(range(8), 3))
    sums = np.stack([((x[:, a] + x[:, b] + x[:, c]) ** 2).sum(1) for a, b, c in triples])
    y = sums.min(0)
    values = [((y - y.mean() - shift) ** 2).mean() / y.var() for shift in (0, 0.1, -0.1)]
    predicted = 1 + 0.01 / y.var()
    agree = (
        abs(values[0] - 1) < 1e-12 and np.allclose(values[1:], predicted) and f"{predicted:.3f}" == "1.768"
    )
    return bool(agree), f"1 for the mean, 1 + 0.1^2 / variance = {predicted:.3f} for constants 0.1 away"


@entry("infoflow.p2.premise")
def few_positions() -> Found:
    shares = [Fraction(math.isqrt(t) - 1, t) for t in (10**2, 10**4, 10**6, 10**8)]
    shown = [f"{float(s):.1e}" for s in shares]
    return shown == ["9.0e-02", "9.9e-03", "1.0e-03", "1.0e-04"], f"(sqrt(T) - 1) / T = {', '.join(shown)}"


@entry("infoflow.cmp.zero")
def single_leaves() -> Found:
    fits = all(
        len(range(0, t, b)) <= d for d in range(1, 20) for b in range(1, 20) for t in range(1, d * b + 1)
    )
    return fits and -(-4 // 2) <= 2, "T positions in blocks of beta1: at most D0 blocks for T <= D0 beta1"


@entry("infoflow.c1.two-layer")
def reads_of_two_layers() -> Found:
    places = np.random.default_rng(0).uniform(0, 1, (1000, 64, 6)).argmax(1)  # of six coordinates
    covered = [(places[:, 5:] == places[:, :reads]).any(1).mean() for reads in (5, 6)]
    expected = 1 - (63 / 64) ** 5
    return (
        covered[1] == 1 and f"{covered[0]:.3f}" == "0.091" and abs(covered[0] - expected) < 0.03,
        f"six reads hold the six maxima always; five hold the sixth in {covered[0]:.3f} of 1000 sequences, "
        f"1 - (63/64)^5 = {expected:.3f} on average",
    )


@entry("infoflow.cmp.pair.half")
def half_the_pairs() -> Found:
    def count(d: int, t: int) -> int:
        inside = set(combinations(range(2 * d), 2))
        leaves = [pair for pair in combinations(range(t), 2) if pair not in inside]
        return d * (len(leaves) - 1)

    numbers = [count(2, 8), count(2, 10)]
    printed = [2 * (t * t - 1) for t in (8, 10)]
    return (
        numbers == [42, 76] and printed == [126, 198],
        f"D trees over the pairs not inside the first 2D positions: {numbers}; D(T^2 - 1) = {printed}",
    )


# The papers that were added
# ----------------------------------------------------------------------------------------------------------


def regions_by_vertices(normals: np.ndarray, offsets: np.ndarray) -> set[tuple[bool, ...]]:
    """Sign vectors of an arrangement in general position: all ways around each vertex."""
    n, d = normals.shape
    found = set()
    for chosen in combinations(range(n), d):
        rows = list(chosen)
        signs = normals @ np.linalg.solve(normals[rows], -offsets[rows]) + offsets > 0
        for way in product((True, False), repeat=d):
            signs[rows] = way
            found.add(tuple(signs.tolist()))
    return found


@entry("classical.zaslavsky.general")
def general_position() -> Found:
    rng, found = np.random.default_rng(10), []
    for n, d in ((3, 2), (7, 2), (4, 3), (6, 3)):
        normals, offsets = rng.standard_normal((n, d)), rng.standard_normal(n)
        regions = regions_by_vertices(normals, offsets)
        # unbounded regions are those that directions see: an arrangement through the origin, cut by x_1 = +-1
        directions = {
            signs
            for side in (1, -1)
            for signs in (
                regions_by_vertices(normals[:, 1:], side * normals[:, 0]) if d > 1 else {(True,), (False,)}
            )
        }
        found.append((len(regions), len(regions) - len(directions)))
    few = [(2**n, 0) for n in (2,)]  # two planes in space: four regions, none bounded
    agree = found == [(7, 1), (29, 15), (15, 1), (42, 10)] and few == [(4, 0)]
    return agree, f"regions and bounded ones: {found} for (n, d) = (3, 2), (7, 2), (4, 3), (6, 3)"


@entry("classical.hahn.depth")
def blocks_of_bits() -> Found:
    def held(x: Sequence[int], heads: int, depth: int, i: int = 0) -> int:
        if depth == 0:
            return x[i]
        step = (heads + 1) ** (depth - 1)
        return sum(held(x, heads, depth - 1, i + h * step) for h in range(heads + 1)) % 2

    right = [
        all(held(x, h, l) == sum(x) % 2 for x in product((0, 1), repeat=(h + 1) ** l))
        for h, l in ((1, 1), (1, 2), (1, 3), (2, 2), (3, 1))
    ]
    needed = [ceil(math.log(n) / math.log(h + 1) - 1e-9) for n, h in ((2**20, 1), (2**20, 3))]
    return all(right), f"right on every input; 2^20 bits take {needed} layers of 1 and 3 heads"


@entry("classical.hahn.one_layer")
def orders_of_pairs() -> Found:
    pairs, held = list(product(range(3), (0, 1))), 0
    for order in permutations(pairs):
        seen: dict[Any, set[int]] = {}
        for x in product((0, 1), repeat=3):
            read = next(pair for pair in order if x[pair[0]] == pair[1])
            seen.setdefault((x[2], read), set()).add(sum(x) % 2)
        held += all(len(parities) == 1 for parities in seen.values())
    return held == 0, f"720 orders of six pairs, one head, three bits: parity is held by {held}"


@entry("moe.capacity")
def sets_of_experts() -> Found:
    rng, k, found = np.random.default_rng(11), 4, {}
    for d in (1, 2, 3):
        w, b = rng.standard_normal((8, d)), rng.standard_normal(8)
        x = rng.standard_normal((60_000, d)) * 10 ** rng.uniform(-2, 2, (60_000, 1))
        best = np.sort(np.argsort(-(x @ w.T + b), axis=1)[:, :k], axis=1)
        found[d] = len({tuple(row) for row in best.tolist()})
    w, b = rng.standard_normal((8, 7)), rng.standard_normal(8)
    reached = 0
    for chosen in combinations(range(8), k):  # scores 1 in the set and 0 outside, up to a constant
        wanted = np.array([float(i in chosen) for i in range(8)])
        solution = np.linalg.solve(np.column_stack([w, -np.ones(8)]), wanted - b)
        order = np.argsort(-(w @ solution[:7] + b))
        reached += set(order[:k].tolist()) == set(chosen)
    cells = 1 + 8 + comb(8, 2)
    return (
        reached == comb(8, 4) == 70 and cells == 37 and found[1] <= cells and max(found.values()) < 70,
        f"Gaussian routers: {found} sets for d = 1, 2, 3; all {reached} for d = 7; 1 + 8 + 28 = {cells}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="print the names that are drawn from the page")
    options = parser.parse_args()
    if options.draw:
        twenty, more = drawn(PAGE.read_text())
        print("\n".join([*twenty, "and four more of the first two papers:", *more]))
        return 0
    failed = 0
    for name, derive in DERIVED.items():
        agrees, line = derive()
        failed += not agrees
        print(f"{'agrees ' if agrees else 'DIFFERS'}  {name}: {line}")
    print(f"{len(DERIVED)} entries, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
