"""Small Minkowski instances of many kinds, generic and degenerate, each reproducible from its number.

``instance(number)`` gives the same heads everywhere. ``tuples`` caps the number of sums, so that brute force
over all of them stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np


@dataclass(frozen=True)
class Instance:
    """Heads to be summed: ``point_sets`` (N_h, d) each, ``biases`` None for linear scores."""

    name: str
    point_sets: list
    biases: list | None
    d: int
    generic: bool

    def __repr__(self) -> str:  # what pytest and hypothesis print on failure: enough to rebuild the instance
        biases = None if self.biases is None else [list(map(str, b)) for b in self.biases]
        return f"Instance({self.name!r}, {[np.asarray(p).tolist() for p in self.point_sets]}, {biases})"


def _sizes(rng: np.random.Generator, d: int, tuples: int) -> list[int]:
    heads = int(rng.integers(1, 5))
    while True:
        sizes = [int(n) for n in rng.integers(1, 9, size=heads)]
        if prod(sizes) <= tuples:
            return sizes


def _gaussian(rng, d, sizes):
    return [rng.standard_normal((n, d)) for n in sizes]


def _grid(rng, d, sizes):
    reach = int(rng.integers(1, 4))
    return [rng.integers(-reach, reach + 1, size=(n, d)).astype(float) for n in sizes]


def _lattice_corner(rng, d, sizes):
    """Subsets of {0,1,2}^d: many coplanar and collinear sums."""
    return [rng.integers(0, 3, size=(n, d)) for n in sizes]


def _collinear(rng, d, sizes):
    """Each head on a line; some heads share a direction."""
    directions = rng.integers(-2, 3, size=(2, d))
    return [
        rng.integers(-3, 4, size=(1, d))
        + rng.integers(-4, 5, size=(n, 1)) * directions[int(rng.integers(0, 2))]
        for n in sizes
    ]


def _flat(rng, d, sizes):
    """All heads parallel to one subspace of lower dimension."""
    rank = int(rng.integers(0, max(1, d)))
    frame = rng.integers(-2, 3, size=(rank, d))
    return [rng.integers(-3, 4, size=(1, d)) + rng.integers(-3, 4, size=(n, rank)) @ frame for n in sizes]


def _duplicates(rng, d, sizes):
    heads = _grid(rng, d, sizes)
    return [head[rng.integers(0, len(head), size=len(head) + int(rng.integers(0, 2)))] for head in heads]


def _single_keys(rng, d, sizes):
    """Heads with one key only add a translation."""
    return [head[: 1 if rng.random() < 0.5 else None] for head in _grid(rng, d, sizes)]


def _identical_heads(rng, d, sizes):
    head = _grid(rng, d, sizes[:1])[0] if rng.random() < 0.5 else _gaussian(rng, d, sizes[:1])[0]
    return [head] * min(len(sizes), 3 if len(head) < 6 else 2)


def _homothets(rng, d, sizes):
    """Translated and scaled copies of one head: the same normal fan again and again."""
    head = _grid(rng, d, sizes[:1])[0]
    copies = min(len(sizes), 3 if len(head) < 6 else 2)
    return [head * float(rng.integers(1, 4)) + rng.integers(-5, 6, size=(1, d)) for _ in range(copies)]


def _reflected(rng, d, sizes):
    """A head and its mirror image: every wall is shared."""
    head = _grid(rng, d, sizes[:1])[0]
    return [head, -head] if len(head) < 8 else [head]


def _fractions(rng, d, sizes):
    heads = []
    for n in sizes:
        numerators = rng.integers(-9, 10, size=(n, d))
        denominators = rng.choice([1, 3, 7], size=(n, d))
        head = np.empty((n, d), dtype=object)
        for index in np.ndindex(n, d):
            head[index] = Fraction(int(numerators[index]), int(denominators[index]))
        heads.append(head)
    return heads


def _nearly_flat(rng, d, sizes):
    """Integer keys moved by a few units in the last place: floats cannot decide, rationals must."""
    heads = _grid(rng, d, sizes)
    return [head + rng.integers(-2, 3, size=head.shape) * 2.0**-50 for head in heads]


def _many_scales(rng, d, sizes):
    return [rng.standard_normal((n, d)) * 10.0 ** rng.integers(-9, 10, size=(n, 1)) for n in sizes]


FAMILIES: dict[str, tuple[Callable, bool]] = {
    "gaussian": (_gaussian, True),
    "integer grid": (_grid, False),
    "lattice corner": (_lattice_corner, False),
    "collinear": (_collinear, False),
    "flat": (_flat, False),
    "duplicates": (_duplicates, False),
    "single keys": (_single_keys, False),
    "identical heads": (_identical_heads, False),
    "homothets": (_homothets, False),
    "reflected": (_reflected, False),
    "fractions": (_fractions, False),
    "nearly flat": (_nearly_flat, False),
    "many scales": (_many_scales, False),
}


def _biases(rng, name, point_sets):
    if name == "gaussian":
        return [rng.standard_normal(len(points)) for points in point_sets]
    if name == "fractions":
        return [
            np.array(
                [Fraction(int(rng.integers(-9, 10)), int(rng.choice([1, 3, 7]))) for _ in points],
                dtype=object,
            )
            for points in point_sets
        ]
    kind = int(rng.integers(0, 3))
    if kind == 0:  # on a paraboloid: Voronoi cells, many of them degenerate for grids
        return [-0.5 * np.einsum("nd,nd->n", np.asarray(p, float), np.asarray(p, float)) for p in point_sets]
    if kind == 1:  # constant: affine in form, linear in substance
        return [np.full(len(points), float(rng.integers(-2, 3))) for points in point_sets]
    return [rng.integers(-2, 3, size=len(points)).astype(float) for points in point_sets]


def instance(number: int, *, tuples: int = 150, dimensions: tuple[int, ...] = (1, 2, 3, 4, 5, 6)) -> Instance:
    """Instance ``number``: the family, the dimension and linear or affine scores all follow from it."""
    rng = np.random.default_rng([20240, number])
    names = list(FAMILIES)
    name = names[number % len(names)]
    d = dimensions[(number // len(names)) % len(dimensions)]
    biased = (number // (len(names) * len(dimensions))) % 2 == 1
    make, generic = FAMILIES[name]
    point_sets = make(rng, d, _sizes(rng, d, tuples))
    biases = _biases(rng, name, point_sets) if biased else None
    return Instance(
        f"{name}, d={d}, {'affine' if biased else 'linear'}, number {number}", point_sets, biases, d, generic
    )


def instances(count: int, start: int = 0, **options) -> Iterator[Instance]:
    return (instance(number, **options) for number in range(start, start + count))
