r"""Exact arrays as pairs of floats: an unevaluated sum :math:`h + l` that carries about 106 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray

Floats = NDArray[np.float64]


def pair_of(array: ExactArray) -> tuple[Floats, Floats]:
    """An exact array as pairs of floats, correct to 106 bits.

    >>> from hardmax.exact.rationals import as_exact
    >>> from fractions import Fraction
    >>> high, low = pair_of(as_exact([Fraction(1, 3)], "x", ndim=1))
    >>> abs(Fraction(high[0]) + Fraction(low[0]) - Fraction(1, 3)) < Fraction(1, 2**106)
    True
    """
    high = np.array(array.floats)
    low = np.zeros_like(high)
    if array.fractions is not None:
        rests = []
        for value, nearest in zip(array.fractions.ravel().tolist(), high.ravel().tolist(), strict=True):
            (p, q), (a, b) = value.as_integer_ratio(), nearest.as_integer_ratio()
            rests.append((p * b - a * q) / (q * b))  # a quotient of integers is rounded once
        low.ravel()[:] = rests
    return high, low


def sum_of_pairs(ah: Floats, al: Floats, bh: Floats, bl: Floats) -> tuple[Floats, Floats]:
    """Entrywise sums of pairs."""
    s = ah + bh
    t = s - ah
    e = (ah - (s - t)) + (bh - t) + (al + bl)
    high = s + e
    return high, e - (high - s)
