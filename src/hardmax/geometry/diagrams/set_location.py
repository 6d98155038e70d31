"""Which k keys win at each of many points, with a proof that rounding did not choose them.

The set is certain when the k-th score differs from every other one, identical scores apart, by more than
twice the error of a score: then it is known which keys are above it and which below. Points that rounding
leaves open are settled as in :mod:`hardmax.geometry.diagrams.location`, on a lattice where floats are exact
or in rationals; exact ties go to the lower index.
"""

from __future__ import annotations

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.errors import NotFiniteError
from hardmax.exact.rationals import ExactArray, dot, rational
from hardmax.geometry.diagrams.location import BLOCK, SAFE, Locator
from hardmax.geometry.diagrams.tie_groups import TieGroups
from hardmax.geometry.scores import Scores

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def locate_sets(scores: Scores, k: int, points: ExactArray | Floats) -> Integers:
    """The k best keys at each point (rows), in increasing order.

    Examples
    --------
    >>> keys = Scores.of_keys([[1, 0], [0, 1], [0, 1]])
    >>> locate_sets(keys, 2, np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0]]))
    array([[0, 1],
           [1, 2],
           [0, 1]])
    """
    locator, ties = Locator(scores), TieGroups.of(scores)
    floats = points.floats if isinstance(points, ExactArray) else points
    out = np.empty((len(floats), k), dtype=np.int64)
    step = max(16, BLOCK // scores.n_keys)
    for start in range(0, len(floats), step):
        block = floats[start : start + step]
        if not np.isfinite(block).all():
            raise NotFiniteError("points must be finite, but hold NaN or an infinity.")
        with np.errstate(over="ignore", invalid="ignore"):  # such points are left open
            values = block @ locator.transposed + locator.offsets
        best = np.empty((len(block), min(k, ties.n)), dtype=np.int64)
        pivot, still_open = np.empty(len(block), dtype=np.int64), np.empty(len(block), dtype=np.bool_)
        noise = locator.slope_noise, locator.offset_noise
        _best(values, block, *noise, ties.sizes, k, best, pivot, still_open)
        above = np.zeros((len(block), ties.n), dtype=np.bool_)
        taken = np.arange(best.shape[1]) < pivot[:, None]
        above[np.nonzero(taken)[0], best[taken]] = True
        out[start : start + step] = ties.sets(above, best[np.arange(len(block)), pivot], k)
        which = np.flatnonzero(still_open)
        if not len(which):
            continue
        rounded = isinstance(points, ExactArray) and points.rounded
        if not rounded and locator._floats_are_exact(block[which]):
            by_key = values[which][:, ties.group]
            out[start + which] = np.sort(np.argsort(-by_key, axis=1, kind="stable")[:, :k], axis=1)
            continue
        for i in which.tolist():
            if isinstance(points, ExactArray):
                x = points.rational_row(start + i)
            else:
                x = [rational(v) for v in block[i].tolist()]
            with np.errstate(over="ignore", invalid="ignore"):  # then all are compared
                slack = 4 * (noise[0] * float(np.abs(block[i]).sum()) + noise[1])
            out[start + i] = _settled(scores, k, values[i][ties.group], slack, [*x, flint.fmpq(1)])
    return out


def _settled(scores: Scores, k: int, values: Floats, noise: float, x: list[flint.fmpq]) -> list[int]:
    """The k best keys at one point: those near the k-th float score are compared in rationals."""
    near = np.arange(len(values))
    sure: list[int] = []
    if noise < SAFE:
        level = np.sort(values)[len(values) - k]
        surely_above = values > level + noise
        sure = np.flatnonzero(surely_above).tolist()
        near = np.flatnonzero(~surely_above & (values >= level - noise))
    exact = {j: dot(scores.exact_row(j), x) for j in near.tolist()}
    ranking = sorted(exact, key=lambda j: (-exact[j], j))
    return sorted(sure + ranking[: k - len(sure)])


@kernel
def _best(scores, points, slope_noise, offset_noise, sizes, k, best, pivot, still_open):  # type: ignore[no-untyped-def]
    """The best groups of each row in order, and which of them holds the k-th key."""
    room = best.shape[1]
    for i in range(scores.shape[0]):
        row = scores[i]
        filled = 0
        for j in range(row.shape[0]):
            value = row[j]
            if filled == room and not value > row[best[i, room - 1]]:
                continue
            place = filled if filled < room else room - 1
            while place > 0 and value > row[best[i, place - 1]]:
                best[i, place] = best[i, place - 1]
                place -= 1
            best[i, place] = j
            filled = min(filled + 1, room)
        held, p = sizes[best[i, 0]], 0
        while held < k:
            p += 1
            held += sizes[best[i, p]]
        pivot[i] = p
        size = 0.0
        for c in range(points.shape[1]):
            size += abs(points[i, c])
        noise = 2.0 * (slope_noise * size * (1.0 + 1e-9) + offset_noise)
        level, near = row[best[i, p]], 0
        for j in range(row.shape[0]):
            near += 1 if not abs(row[j] - level) > noise else 0
        still_open[i] = not (near == 1 and noise < SAFE)
