r"""Intervals in rationals: what the segment engine asks when floats cannot tell.

A row is two integers :math:`(a, c)`, the affine function :math:`at + c` up to a positive factor; a place is a
``Fraction`` or one of the two infinities. Nothing here is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

__all__ = ["NEGATIVE_END", "POSITIVE_END", "Place", "interval_of", "root_of", "sign_at", "upper_envelope"]

Place = Fraction | float  # a float only for the infinities
NEGATIVE_END, POSITIVE_END = -math.inf, math.inf


def sign_at(row: Sequence[int], place: Place) -> int:
    """The sign of a row at a place: -1, 0 or 1.

    >>> sign_at((2, -1), Fraction(1, 2)), sign_at((-3, 5), POSITIVE_END)
    (0, -1)
    """
    a, c = row[0], row[1]
    if isinstance(place, Fraction):
        value = a * place.numerator + c * place.denominator
    elif a:
        value = a if place > 0 else -a
    else:
        value = c
    return (value > 0) - (value < 0)


def root_of(row: Sequence[int]) -> Fraction:
    """Where a row that is not constant vanishes."""
    return Fraction(-row[1], row[0])


def interval_of(halfspaces: Sequence[Sequence[int]]) -> tuple[Place, int, Place, int] | None:
    """The interval of half-lines :math:`at + c \\ge 0`: its ends and the numbers of the rows that bound it
    (-1 at infinity); ``None`` if it has no interior.

    >>> interval_of([(1, 0), (-2, 3), (-1, 7)])
    (Fraction(0, 1), 0, Fraction(3, 2), 1)
    """
    low: Place = NEGATIVE_END
    high: Place = POSITIVE_END
    low_side = high_side = -1
    for i, row in enumerate(halfspaces):
        if row[0] == 0:
            if row[1] < 0:
                return None
            continue
        place = root_of(row)
        if row[0] > 0 and place > low:
            low, low_side = place, i
        elif row[0] < 0 and place < high:
            high, high_side = place, i
    return (low, low_side, high, high_side) if low < high else None


def upper_envelope(
    rows: dict[int, tuple[int, int]], low: Place, high: Place
) -> list[tuple[list[int], Place]]:
    """The winners among affine functions along an interval: ``(keys that win together, where they begin)``.

    >>> upper_envelope({0: (-1, 0), 1: (0, -1), 2: (1, 0), 3: (1, 0)}, NEGATIVE_END, POSITIVE_END)
    [([0], -inf), ([2, 3], Fraction(0, 1))]
    """
    together: dict[tuple[int, int], list[int]] = {}
    for key, row in rows.items():
        together.setdefault(row, []).append(key)
    lines = list(together)
    if isinstance(low, Fraction):
        p, q = low.numerator, low.denominator
        line = max(lines, key=lambda row: (row[0] * p + row[1] * q, row[0]))
    else:
        line = min(lines, key=lambda row: (row[0], -row[1]))
    found: list[tuple[list[int], Place]] = [(together[line], low)]
    while True:
        steeper = [row for row in lines if row[0] > line[0]]
        if not steeper:
            return found
        meets = [(Fraction(line[1] - row[1], row[0] - line[0]), -row[0], row) for row in steeper]
        place, _, line = min(meets)
        if place >= high:
            return found
        found.append((together[line], place))
