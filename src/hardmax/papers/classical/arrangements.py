r"""Zaslavsky 1975: how many regions, and how many bounded ones, an arrangement of hyperplanes has.

Whitney's formula gives the characteristic polynomial of an arrangement as a sum over the sets :math:`B` of
hyperplanes that have a point in common,

.. math:: \chi(t) = \sum_{B} (-1)^{|B|}\, t^{d - \operatorname{rank} B},

and Zaslavsky's theorems say that there are :math:`|\chi(-1)|` regions, of which :math:`|\chi(1)|` are bounded
if the normals span the space. Here :math:`\chi` is computed in integers; the regions are enumerated by the
engine for ReLU networks, which knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np

from hardmax.geometry.domains import WholeSpace
from hardmax.networks.blocks import FeedForward
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, holding
from hardmax.regions.api import enumerate_regions
from hardmax.regions.result import RegionSet

Planes = Sequence[Sequence[int]]  # rows (w, b) of hyperplanes w . x + b = 0

LINES: Planes = ((1, 0, 0), (1, 0, -1), (0, 1, 0), (1, 1, -1), (1, -1, 0), (1, 1, -2))
"""Six lines in the plane: two pairs are parallel, and three or four lines meet in some points."""

DEGENERATE: dict[str, Planes] = {
    "parallel and concurrent lines": LINES,
    "a pencil": ((1, 0, 0), (0, 1, 0), (1, 1, 0), (1, -1, 0)),
    "a grid": ((1, 0, 0), (1, 0, -1), (1, 0, -2), (0, 1, 0), (0, 1, -1)),
    "orders of four numbers": tuple(
        tuple(int(k == i) - int(k == j) for k in range(4)) + (0,) for i, j in combinations(range(4), 2)
    ),
    "planes of a cube": tuple((*(int(k == i) for k in range(3)), -c) for i in range(3) for c in (0, 1)),
    "a prism": ((1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, -1), (0, 0, 1, 0), (0, 0, 1, -1)),
}


def rank(rows: Sequence[Sequence[int]]) -> int:
    """The rank of a matrix of integers, by elimination in rationals.

    >>> rank([[1, 2], [2, 4], [0, 1]])
    2
    """
    left, found = [[Fraction(x) for x in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(found, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[found], left[pivot] = left[pivot], left[found]
        for row in left[found + 1 :]:
            factor = row[column] / left[found][column]
            row[:] = [x - factor * y for x, y in zip(row, left[found], strict=True)]
        found += 1
    return found


def characteristic_polynomial(planes: Planes) -> list[int]:
    r"""The coefficients of :math:`\chi(t)`, of :math:`t^0` first, by Whitney's formula.

    >>> characteristic_polynomial([(1, 0, 0), (0, 1, 0), (1, 1, -1)])      # t^2 - 3 t + 3
    [3, -3, 1]
    """
    d = len(planes[0]) - 1
    coefficients = [0] * (d + 1)
    for size in range(len(planes) + 1):
        for chosen in combinations(planes, size):
            of_normals = rank([plane[:-1] for plane in chosen])
            if of_normals == rank(chosen):  # they have a point in common
                coefficients[d - of_normals] += (-1) ** size
    return coefficients


def at(coefficients: Sequence[int], t: int) -> int:
    """The value of a polynomial, for its coefficients from the constant on."""
    return sum(c * t**i for i, c in enumerate(coefficients))


def cells_of(planes: Planes) -> RegionSet:
    """The cells of an arrangement, enumerated."""
    d = len(planes[0]) - 1
    layer = FeedForward(
        [list(plane[:-1]) for plane in planes], [plane[-1] for plane in planes], [[1] * len(planes)], [0]
    )
    return enumerate_regions(Network((layer,)), WholeSpace(d))


def sampled(effort: Effort) -> list[Planes]:
    """Arrangements of small random integers, among which parallel and concurrent ones are frequent."""
    rng = np.random.default_rng(1975)
    found = []
    for d, n in [(1, 4), (2, 5), (2, 6), (3, 5)] * (3 if effort is Effort.QUICK else 20):
        drawn = rng.integers(-2, 3, size=(n, d + 1)).tolist()
        kept: dict[tuple[Fraction, ...], tuple[int, ...]] = {}
        for row in drawn:
            if any(row[:-1]):  # one row per hyperplane: multiples of a row are the same one
                lead = next(x for x in row if x)
                kept.setdefault(tuple(Fraction(x, lead) for x in row), tuple(row))
        found.append(tuple(kept.values()))
    return [planes for planes in found if planes]


@claim("classical.zaslavsky.regions", "Zaslavsky 1975, regions", Verdict.PROVED).states(
    "Finitely many hyperplanes in R^d cut it into (-1)^d chi(-1) regions, where chi is the characteristic "
    "polynomial of the arrangement: the sum of (-1)^|B| t^(d - rank B) over all sets B of hyperplanes with a "
    "point in common, the empty set included.",
    hypotheses="different hyperplanes; parallel and concurrent ones are allowed",
    computation="chi by Whitney's sum in integers, and the regions enumerated by the engine for ReLU layers, "
    "for named degenerate arrangements and for random ones with entries from -2 to 2",
    proof="classical.md#regions-of-an-arrangement",
)
def _regions(effort: Effort) -> Finding:
    named = {name: (cells_of(planes).n_cells, whitney(planes)[0]) for name, planes in DEGENERATE.items()}
    random = [(cells_of(planes).n_cells, whitney(planes)[0]) for planes in sampled(effort)]
    cells = cells_of(LINES)
    return holding(
        all(found == stated for found, stated in [*named.values(), *random]),
        ", ".join(f"{name}: {found}" for name, (found, _) in named.items())
        + f"; {len(random)} random arrangements; chi(-1) agrees with the regions enumerated each time",
        {"named": {name: found for name, (found, _) in named.items()}, "random": len(random)},
        Certificate(
            "line_arrangement",
            {"lines": LINES, "points": [cells.exact_witness(i) for i in range(cells.n_cells)]},
            {"regions": named["parallel and concurrent lines"][1]},
        ),
    )


def whitney(planes: Planes) -> tuple[int, int]:
    """What Zaslavsky's theorems say: regions, and bounded regions if the normals span the space."""
    chi = characteristic_polynomial(planes)
    return abs(at(chi, -1)), abs(at(chi, 1))


@claim("classical.zaslavsky.bounded", "Zaslavsky 1975, bounded regions", Verdict.PROVED).states(
    "Of the regions of an arrangement, (-1)^d chi(1) are bounded.",
    hypotheses="the normals of the hyperplanes span R^d; otherwise no region is bounded",
    computation="as for classical.zaslavsky.regions, on those arrangements whose normals span the space",
    proof="classical.md#regions-of-an-arrangement",
)
def _bounded(effort: Effort) -> Finding:

    def spans(planes: Planes) -> bool:
        return rank([plane[:-1] for plane in planes]) == len(planes[0]) - 1

    def both(planes: Planes) -> tuple[int, int]:
        return int(cells_of(planes).bounded.sum()), whitney(planes)[1]

    pairs = {name: both(planes) for name, planes in DEGENERATE.items() if spans(planes)}
    random = [both(planes) for planes in sampled(effort) if spans(planes)]
    named = {name: found for name, (found, _) in pairs.items()}
    return holding(
        all(found == stated for found, stated in [*pairs.values(), *random]) and any(named.values()),
        ", ".join(f"{name}: {found}" for name, found in named.items())
        + f"; {len(random)} random arrangements; |chi(1)| agrees with the bounded regions each time",
        {"named": named, "random": len(random)},
        Certificate(
            "line_arrangement", {"lines": LINES}, {"bounded": named["parallel and concurrent lines"]}
        ),
    )


@claim("classical.zaslavsky.general", "Zaslavsky 1975, general position", Verdict.PROVED).states(
    "n hyperplanes in general position in R^d have the sum of C(n, j) over j <= d as number of regions, and "
    "C(n - 1, d) of them are bounded.",
    hypotheses="any k <= d of the hyperplanes meet in dimension d - k, and no d + 1 have a common point",
    computation="regions and bounded regions of Gaussian arrangements, enumerated, for nine pairs (n, d), "
    "some with n <= d",
    proof="classical.md#regions-of-an-arrangement",
)
def _general(effort: Effort) -> Finding:
    rng = np.random.default_rng(75)
    found = []
    for n, d in ((1, 1), (5, 1), (1, 2), (2, 2), (3, 2), (7, 2), (2, 3), (4, 3), (6, 3)):
        layer = FeedForward(rng.standard_normal((n, d)), rng.standard_normal(n), np.ones((1, n)), [0])
        cells = enumerate_regions(Network((layer,)), WholeSpace(d))
        stated = (sum(comb(n, j) for j in range(d + 1)), comb(n - 1, d))
        found.append((n, d, (cells.n_cells, int(cells.bounded.sum())), stated))
    lines = [[-2 * t, 1, t * t] for t in range(6)]
    regions, bounded = whitney(lines)
    return holding(
        all(computed == stated for _, _, computed, stated in found),
        "regions and bounded regions: "
        + ", ".join(f"{a} and {b} for n = {n}, d = {d}" for n, d, (a, b), _ in found[4:]),
        {"cases": [(n, d, *computed) for n, d, computed, _ in found]},
        Certificate("line_arrangement", {"lines": lines}, {"regions": regions, "bounded": bounded}),
    )
