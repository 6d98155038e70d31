r"""Questions about one cone in integers: the last word of the search engine.

A cone is a list of integer rows :math:`g_l`, meant as :math:`g_l \cdot y > 0`, with the row of :math:`x_0`
among them where that matters. Everything is reduced to strict feasibility
(:func:`~hardmax.geometry.feasibility.rational_programs.separate`): a solution, or rows with a positive
combination that vanishes. In the second case all of these rows are zero wherever none of them is negative, so
what is left to look at is the subspace where they vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd
from typing import Any

import flint
import numpy as np

from hardmax.geometry.feasibility.rational_programs import Separation, separate

__all__ = ["IntegerRow", "facet_numbers", "inner_point", "is_bounded", "reduced", "share_facet", "times"]

IntegerRow = tuple[int, ...]


def times(row: Sequence[int], point: Sequence[Any]) -> Any:
    """The value of a row at a point.

    >>> times((1, 2), [flint.fmpq(1, 2), flint.fmpq(1, 4)])
    1
    """
    return sum((a * b for a, b in zip(row, point, strict=True)), flint.fmpz(0))


def reduced(row: IntegerRow) -> IntegerRow:
    """A row without common divisor.

    >>> reduced((4, -6, 0))
    (2, -3, 0)
    """
    divisor = gcd(*row)
    return row if divisor <= 1 else tuple(v // divisor for v in row)


def inner_point(rows: Sequence[IntegerRow]) -> list[flint.fmpq] | None:
    """A point where every row is positive; ``None`` if there is none.

    >>> inner_point([(1, 0), (-1, 1)]) is None, inner_point([(1, 0), (-1, 0)]) is None
    (False, True)
    """
    if not rows:
        return []
    found = _separated(rows)
    return None if found.witness is None else list(found.witness)


def _separated(rows: Sequence[IntegerRow]) -> Separation:
    """Floats look first, at rows that are rounded once; they mostly leave one exact solve to be done."""
    floats = np.zeros((len(rows), len(rows[0])))
    for i, row in enumerate(rows):
        bits = max(abs(v) for v in row).bit_length()
        floats[i] = [v / (1 << bits) if bits < 1000 else float(Fraction(v, 1 << bits)) for v in row]
    error = np.abs(floats).sum(axis=1) * 2.0**-52
    return separate(floats, row_error=error, exact_row=lambda i: [flint.fmpq(v) for v in rows[i]])


def facet_numbers(rows: Sequence[IntegerRow], asked: Sequence[int]) -> set[int]:
    """Which of the rows asked for are facets of the cone, of equal rows only the first.

    >>> facet_numbers([(1, 0), (0, 1), (1, 1), (0, 2)], [0, 1, 2, 3])
    {0, 1}
    """
    place: dict[IntegerRow, int] = {}
    for i, row in enumerate(rows):
        place.setdefault(reduced(row), i)
    different = list(place)
    found = set()
    for s, row in enumerate(different):
        if place[row] in asked:
            turned = [*different[:s], tuple(-v for v in row), *different[s + 1 :]]
            if inner_point(turned) is not None:
                found.add(place[row])
    return found


def is_bounded(rows: Sequence[IntegerRow], d: int) -> bool:
    """Whether no direction but zero has nonnegative slope in every row (slopes first, the constant last).

    >>> is_bounded([(1, 0, 0), (0, 1, 0), (-1, -1, 1)], 2), is_bounded([(1, 0, 0), (-1, 0, 1)], 2)
    (True, False)
    """
    slopes = [row[:d] for row in rows if any(row[:d])]
    while d > 0:
        if not slopes:
            return False
        found = _separated(slopes)
        if found.witness is not None:
            return False
        # a direction that grows nowhere along these rows: go on in the subspace where they vanish
        d, slopes = _where_vanishing([slopes[i] for i in found.support], slopes)
    return True


def share_facet(hyperplane: IntegerRow, rows: Sequence[IntegerRow]) -> bool:
    """Whether the rows that do not vanish on a hyperplane are all positive somewhere on it.

    >>> share_facet((1, 0, 0), [(1, 0, 0), (0, 1, 0), (0, -1, 2), (-1, 0, 0), (0, 1, -1), (0, 0, 1)])
    True
    >>> share_facet((1, 0, 0), [(0, -1, 1), (0, 1, -1), (0, 0, 1)])
    False
    """
    _, inside = _where_vanishing([hyperplane], rows)
    return inner_point(inside) is not None


def _where_vanishing(zero: Sequence[IntegerRow], rows: Sequence[IntegerRow]) -> tuple[int, list[IntegerRow]]:
    """Rows as functions on the space where some vanish, those that vanish there left out; its dimension."""
    space, dimension = flint.fmpz_mat([list(row) for row in zero]).nullspace()
    if dimension == 0:
        return 0, []
    wide = space.nrows()
    basis = flint.fmpz_mat([[space[i, j] for j in range(dimension)] for i in range(wide)])
    different = list(dict.fromkeys(rows))
    moved = (flint.fmpz_mat([list(row) for row in different]) * basis).tolist() if different else []
    return dimension, [tuple(int(v) for v in row) for row in moved if any(row)]
