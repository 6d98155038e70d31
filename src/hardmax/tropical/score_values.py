r"""Values of scores: in floats at many points, exactly at one.

:func:`soft_maxima` is :math:`\bigoplus_j (a_j \cdot x + b_j)` at a temperature, for several families at once.
:func:`maximisers` finds the keys that attain the maximum at a point: floats with a proven bound exclude
almost all of them, rationals decide among the rest, so a tie is a tie and not a rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, NotFiniteError
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.geometry.scores import UNIT_ROUNDOFF, Scores
from hardmax.tropical.semirings import tropical_sum

__all__ = ["exact_point", "maximisers", "points_of", "soft_maxima"]

_BLOCK = 2**21  # scores held in memory at once while many points are evaluated


def points_of(x: ArrayLike, d: int) -> tuple[NDArray[np.float64], bool]:
    """Points as rows, and whether there was only one, given as a vector.

    >>> points_of([1, 2], 2)
    (array([[1., 2.]]), True)
    """
    try:
        single = np.asarray(x).ndim == 1
    except ValueError:  # ragged: the sentence comes from as_exact
        single = False
    points = as_exact(x, "x", ndim=1 if single else 2).floats
    if points.shape[-1] != d:
        raise DimensionMismatchError(f"x must have {d} coordinates per point, but has shape {points.shape}.")
    return np.atleast_2d(points), single


def exact_point(x: ArrayLike, d: int) -> ExactArray:
    """One point with its exact coordinates.

    >>> exact_point([0.5], 1).rational(0)
    1/2
    """
    point = as_exact(x, "x", ndim=1)
    if point.shape[0] != d:
        raise DimensionMismatchError(f"x must have {d} coordinates, but has {point.shape[0]}.")
    return point


def soft_maxima(
    families: Sequence[Scores], points: NDArray[np.float64], temperature: float
) -> NDArray[np.float64]:
    r"""The (n, F) table of :math:`\bigoplus_j s_j(x)` for each point and family.

    >>> soft_maxima([Scores.of_keys([[1], [-1]]), Scores.of_keys([[2]])], np.array([[-3.0]]), 0.0)
    array([[ 3., -6.]])
    """
    values = np.empty((len(points), len(families)))
    sizes = np.array([family.n_keys for family in families])
    for size in np.unique(sizes).tolist():  # families of one size make one matrix product
        members = np.flatnonzero(sizes == size)
        some = [families[f] for f in members.tolist()]
        # term by term, so that the maximum runs over long rows
        slopes = np.stack([family.slopes for family in some], axis=1).reshape(-1, points.shape[1])
        offsets = np.stack([family.offsets for family in some], axis=1).reshape(-1)
        step = max(1, _BLOCK // len(offsets))
        for start in range(0, len(points), step):
            block = points[start : start + step]
            with np.errstate(over="ignore", invalid="ignore"):
                scores = block @ slopes.T + offsets
            if not np.isfinite(scores).all():
                raise NotFiniteError(
                    "p(x) must stay within float64, but a term overflows; rescale the input."
                )
            table = scores.reshape(len(block), size, len(some))
            values[start : start + step, members] = tropical_sum(table, 1, temperature)
    return values


def maximisers(scores: Scores, point: ExactArray) -> tuple[NDArray[np.int64], flint.fmpq]:
    """The keys that attain the maximum at a point, and the maximum, both exact.

    >>> maximisers(Scores.of_keys([[1], [-1], [0]]), exact_point([0.0], 1))
    (array([0, 1, 2]), 0)
    """
    candidates = _candidates(scores, point)
    values = [_exact_score(scores.exact_row(int(j)), point) for j in candidates]
    best = max(values)
    return candidates[[value == best for value in values]], best


def _candidates(scores: Scores, point: ExactArray) -> NDArray[np.int64]:
    """Keys that the float scores cannot exclude from the maximum."""
    x = point.floats
    with np.errstate(over="ignore", invalid="ignore"):
        values = scores.slopes @ x + scores.offsets
        size = np.abs(scores.slopes) @ np.abs(x) + np.abs(scores.offsets)
        # d + 1 products and sums, one rounding of x, and the rounding of the rows themselves
        error = size * (UNIT_ROUNDOFF * 1.01 * (scores.d + 4)) + 1e-300
        error += scores.row_error * max(1.0, float(np.abs(x).max())) * 1.01
        if point.rounded:  # a coordinate that rounds to a subnormal number loses more than its last bit
            error += np.abs(scores.slopes).sum(axis=1) * 1e-300
        possible = values + error >= (values - error).max()
    return np.flatnonzero(possible) if np.isfinite(error).all() else np.arange(scores.n_keys)


def _exact_score(row: list[flint.fmpq], point: ExactArray) -> flint.fmpq:
    return sum((a * point.rational(i) for i, a in enumerate(row[:-1])), row[-1])
