r"""The hyperplanes that bound a cell, as exact integer rows.

A facet is stored by name: a side of the domain, infinity, a unit, or a pair of keys of a head. Its row
:math:`(a, b)` says :math:`a \cdot x + b \ge 0` on the cell, in homogeneous coordinates :math:`a \cdot x + b
x_0 \ge 0`. The name and the cell's signature determine it: nothing about the geometry is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.networks.layers import FoldLayer, WallLayer
from hardmax.regions.cells import AT_INFINITY, DOMAIN_SIDE, decode_wall
from hardmax.regions.maps.exact_maps import ExactMaps

__all__ = [
    "Name",
    "Row",
    "exact_ray",
    "hyperplane_basis",
    "inner_row",
    "interior_point",
    "scaled_rows",
    "strictly_inside",
]

Row = tuple[int, ...]
Name = tuple[int, int]  # owner and wall


def inner_row(
    exact: ExactMaps, name: Name, bits_row: NDArray[np.uint64], routings_row: NDArray[np.int32]
) -> Row:
    """The row of a facet of the cell with this signature, nonnegative on the cell.

    Examples
    --------
    >>> from hardmax.geometry.domains import Box
    >>> exact = ExactMaps((), Box.cube(3, -1, 2))
    >>> none = np.zeros(1, dtype=np.uint64), np.zeros(0, dtype=np.int32)
    >>> inner_row(exact, (DOMAIN_SIDE, 0), *none), inner_row(exact, (AT_INFINITY, 0), *none)
    ((-1, 0, 0, 2), (0, 0, 0, 1))
    """
    owner, wall = name
    if owner == AT_INFINITY:
        return (0,) * exact.d + (1,)
    if owner == DOMAIN_SIDE:
        return exact.domain_line(wall)
    layer, group, a, b = decode_wall(wall)
    row = exact.line(layer, group, a, b, bits_row, routings_row)
    block = exact.layers[layer]
    if isinstance(block, FoldLayer):
        unit = block.first_unit + group
        positive = bool(int(bits_row[unit // 64]) >> (unit % 64) & 1)
    elif isinstance(block, WallLayer):
        winner = int(routings_row[block.first_head + group])
        positive = int(block.key[b]) == winner
        if not positive and int(block.key[a]) != winner:  # a key that is level with the winner on the cell
            positive = b in exact.tied_keys(layer, group, bits_row, routings_row)
    else:
        positive = True
    return row if positive else tuple(-v for v in row)


def exact_ray(rows: list[Row], free: int = 0) -> list[int]:
    """The line in which hyperplanes and the coordinate planes of ``free`` intersect, up to its sign.

    >>> exact_ray([(1, 0, -2), (0, 2, -1)])
    [4, 1, 2]
    """
    d = len(rows[0])
    table = [list(row) for row in rows]
    table += [[int(k == c) for k in range(d)] for c in range(d) if free >> c & 1]
    kernel, _ = flint.fmpz_mat(table).nullspace()
    ray = [int(kernel[c, 0]) for c in range(d)]
    divisor = int(np.gcd.reduce(np.array(ray, dtype=object)))
    divisor = -divisor if ray[-1] < 0 else divisor
    return [v // divisor for v in ray]


def scaled_rows(rows: Iterable[Row], d: int) -> list[list[Fraction]]:
    r"""Rows :math:`(a, b)` with :math:`a \cdot x \le b` and max |a| = 1, each once, none constant."""
    found: list[list[Fraction]] = []
    for row in rows:
        size = max((abs(v) for v in row[:d]), default=0)
        if size:
            scaled = [Fraction(-v, size) for v in row[:d]] + [Fraction(row[-1], size)]
            if scaled not in found:
                found.append(scaled)
    return found


def strictly_inside(rows: Iterable[Row], point: list[Fraction]) -> bool:
    """Whether a point satisfies every inequality strictly.

    >>> strictly_inside([(1, 0, 0), (-1, 1, 2)], [Fraction(1), Fraction(-1)])
    False
    """
    return all(sum((a * x for a, x in zip(row, point, strict=False)), Fraction(row[-1])) > 0 for row in rows)


def interior_point(rows: list[Row], d: int) -> list[Fraction] | None:
    """A point strictly inside an intersection of half-spaces; ``None`` if it has no interior.

    >>> interior_point([(1, 0, 0), (0, 1, 0), (-1, -1, 1)], 2)
    [Fraction(1, 3), Fraction(1, 3)]
    """
    cone = RationalCone(d + 1)
    for row in [(0,) * d + (1,), *rows]:
        if cone.cut(list(row), (0, 0)) == EMPTIES:
            return None
    point = [Fraction(0)] * (d + 1)
    for ray in cone.rays:  # vertices weigh the same, whatever the scale of their coordinates
        weight = Fraction(1, ray[-1]) if ray[-1] else Fraction(1, max(abs(v) for v in ray))
        point = [p + weight * v for p, v in zip(point, ray, strict=True)]
    return [p / point[-1] for p in point[:d]]


def hyperplane_basis(row: Row) -> list[list[int]]:
    """Integer vectors that span the hyperplane where a row vanishes.

    >>> [[sum(a * b for a, b in zip((1, 2, 3), v)) for v in hyperplane_basis((1, 2, 3))]]
    [[0, 0]]
    """
    kernel, rank = flint.fmpz_mat([list(row)]).nullspace()
    return [[int(kernel[i, j]) for i in range(len(row))] for j in range(rank)]
