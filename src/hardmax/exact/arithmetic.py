r"""Sums and multiples of exact arrays that round nothing.

The tropical product of two polynomials adds their exponents and coefficients. A float sum is rounded, and a
rounded exponent moves a wall; so a sum is kept as a float only where it is one, and as ``Fraction``
elsewhere.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray, as_exact


def fractions_of(array: ExactArray) -> NDArray[np.object_]:
    """Every entry as a ``Fraction``.

    >>> fractions_of(as_exact([0.5, 2], "x", ndim=1))
    array([Fraction(1, 2), Fraction(2, 1)], dtype=object)
    """
    if array.fractions is not None:
        return array.fractions
    exact: NDArray[np.object_] = np.array([Fraction(v) for v in array.floats.flat], dtype=object)
    return exact.reshape(array.shape)


def exact_outer_sum(a: ExactArray, b: ExactArray, name: str) -> ExactArray:
    r"""All sums :math:`a_i + b_j` of rows (or entries), ordered by :math:`i` first.

    >>> a, b = as_exact([1.0, 2.0], "a", ndim=1), as_exact([0.5, 2.0**-60], "b", ndim=1)
    >>> exact_outer_sum(a, b, "sum").fractions[1]
    Fraction(1152921504606846977, 1152921504606846976)
    """
    tail = a.shape[1:]
    if a.fractions is None and b.fractions is None:
        x, y = a.floats[:, None], b.floats[None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            total = x + y
            # Knuth's two-sum: the rounding error of x + y is itself a float, so it can be compared with zero
            y_part = total - x
            error = (x - (total - y_part)) + (y - y_part)
        if not error.any():  # NaN, the trace of an overflow, counts as an error too
            return ExactArray(total.reshape(-1, *tail))
    sums = fractions_of(a)[:, None] + fractions_of(b)[None, :]
    return as_exact(sums.reshape(-1, *tail), name, ndim=1 + len(tail))


def exact_multiple(a: ExactArray, factor: Fraction, name: str) -> ExactArray:
    """Every entry times one number.

    >>> exact_multiple(as_exact([3.0, 0.1], "a", ndim=1), Fraction(1, 3), "a").fractions[0]
    Fraction(1, 1)
    """
    return as_exact(fractions_of(a) * factor, name, ndim=len(a.shape))


def exact_stack(arrays: list[ExactArray], axis: int = 0) -> ExactArray:
    """The arrays one below the other, or side by side when ``axis`` is 1.

    >>> exact_stack([as_exact([1], "a", ndim=1), as_exact([Fraction(1, 3)], "b", ndim=1)]).rounded
    True
    """
    floats = np.concatenate([array.floats for array in arrays], axis=axis)
    if all(array.fractions is None for array in arrays):
        return ExactArray(floats)
    fractions: NDArray[Any] = np.concatenate([fractions_of(array) for array in arrays], axis=axis)
    return ExactArray(floats, fractions)
