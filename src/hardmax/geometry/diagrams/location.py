r"""Which key wins at each of many points: a matrix product, and a proof that rounding did not choose the
winner.

Scores of a block of points are one matrix product. The winner of a point is certain when every other score
lies below the largest by more than twice a proven bound on the error of a score; that test runs while the
block is in cache, so certainty costs little more than an arg-max. The rare points left open (on a wall, or
within rounding of one) are settled on a lattice where the floats turn out to be exact, and in rationals
otherwise. Exact ties go to the lowest index.

Thousands of sites in low dimension are put into a search tree instead, with the same certainty.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.compiling import kernel
from hardmax.errors import NotFiniteError
from hardmax.exact.rationals import ExactArray, dot, rational
from hardmax.exact.rationals import grain as grain_of
from hardmax.geometry.scores import UNIT_ROUNDOFF, Scores

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK = 1 << 18  # scores per block: two megabytes, so that they are read back from cache
_TREE_ABOVE = 2000  # with more sites, in low dimension, a search tree is faster than the matrix product
SAFE = 1e280  # error bounds beyond this belong to scores that may overflow
_CHECK_ROWS = 20_000  # derived rows are compared with their exact values up to this many keys


class Locator:
    """Point location for one head's scores.

    Parameters
    ----------
    scores : Scores
    among : (n,) int64, optional
        The keys that are held against each other, one per tie group; all of them by default.

    Examples
    --------
    >>> locator = Locator(Scores.of_keys([[1, 0], [0, 1], [0, 1]]))
    >>> locator.locate(np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0]]))
    array([0, 1, 0])
    """

    def __init__(self, scores: Scores, among: Integers | None = None) -> None:
        self.scores = scores
        self.index = np.unique(scores.tie_group) if among is None else among
        slopes, offsets = scores.slopes[self.index], scores.offsets[self.index]
        error = scores.row_error[self.index]
        centre = slopes.mean(axis=0) if self._far_from_origin(slopes) else np.zeros(scores.d)
        if centre.any():
            slopes = slopes - centre
            error = error + np.abs(slopes).sum(axis=1) * (UNIT_ROUNDOFF * 1.01)
        self.transposed = np.ascontiguousarray(slopes.T)
        self.offsets = offsets
        self.centred = bool(centre.any())
        # |computed - exact| <= slope_noise * sum |x_i| + offset_noise for every key
        largest = np.abs(slopes).max(axis=1)
        unit = UNIT_ROUNDOFF * 1.01 * (scores.d + 12)
        with np.errstate(over="ignore"):
            self.slope_noise = float((largest * unit + error).max())
            self.offset_noise = float((np.abs(offsets) * (UNIT_ROUNDOFF * 4) + error).max()) + 1e-300

    @staticmethod
    def _far_from_origin(slopes: Floats) -> bool:
        """Whether the keys share an offset that would drown their differences in rounding."""
        with np.errstate(over="ignore"):
            centre = slopes.mean(axis=0)
            spread = np.abs(slopes - centre).max(initial=0.0)
            far = np.abs(centre).max(initial=0.0) > 16 * spread  # not if the spread overflows
        return bool(np.isfinite(centre).all() and far)

    def locate(self, points: ExactArray | Floats, *, certified: bool = True) -> Integers:
        """The winning key at each point (rows), the lowest index among ties."""
        floats = points.floats if isinstance(points, ExactArray) else points
        winner, still_open = self.likely_winner(floats)
        if certified and still_open.any():
            self._settle(points, floats, np.flatnonzero(still_open), winner)
        return self.index[winner]

    def likely_winner(
        self, floats: Floats, *, by_tree: bool | None = None
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """The place in ``index`` of the best float score at each point, and where rounding leaves it open."""
        by_tree = self.prefers_tree if by_tree is None else by_tree
        n = len(self.index)
        winner = np.zeros(len(floats), dtype=np.int64)
        still_open = np.zeros(len(floats), dtype=np.bool_)
        step = max(16, BLOCK // n)
        table = np.empty((min(step, len(floats)), n))
        for start in range(0, len(floats), step):
            block = floats[start : start + step]
            if not np.isfinite(block).all():
                raise NotFiniteError("points must be finite, but hold NaN or an infinity.")
            if by_tree:
                winner[start : start + step], still_open[start : start + step] = self._ask_tree(block)
                continue
            with np.errstate(over="ignore", invalid="ignore"):  # such points are left open
                scores = np.matmul(block, self.transposed, out=table[: len(block)])
                if not self.scores.linear:
                    scores += self.offsets
            best = scores.argmax(axis=1)
            winner[start : start + step] = best
            _near_ties(
                scores, best, block, self.slope_noise, self.offset_noise, still_open[start : start + step]
            )
        return winner, still_open

    def _settle(self, points: ExactArray | Floats, floats: Floats, which: Integers, winner: Integers) -> None:
        """Decide the points that rounding left open."""
        if isinstance(points, ExactArray) and points.rounded:
            for i in which.tolist():
                winner[i] = self._best(floats[i], points.rational_row(i))
            return
        if self._floats_are_exact(floats[which]):  # then the first largest float is the first largest score
            winner[which] = self.likely_winner(floats[which], by_tree=False)[0]
            return
        distinct, position = np.unique(floats[which], axis=0, return_inverse=True)
        chosen = [self._best(x, [rational(v) for v in x.tolist()]) for x in distinct]
        winner[which] = np.array(chosen)[position.ravel()]

    def _best(self, x: Floats, point: list[flint.fmpq]) -> int:
        """The first of the largest scores at a point, in rationals."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = x @ self.transposed + self.offsets
            noise = 2 * (self.slope_noise * float(np.abs(x).sum()) * (1 + 1e-9) + self.offset_noise)
        if not noise < SAFE:
            values[:] = 0.0  # overflow: every key is a candidate
        best, highest = -1, None
        for j in np.flatnonzero(~(values < values.max() - noise)).tolist():
            row = self.scores.exact_row(int(self.index[j]))
            value = dot(row, [*point, flint.fmpq(1)])
            if highest is None or value > highest:
                best, highest = j, value
        return best

    @property
    def prefers_tree(self) -> bool:
        """Whether a search tree beats the matrix product: many sites of like weight in low dimension."""
        low = "sites" in self.scores.source and self.scores.d <= 3 and len(self.index) > _TREE_ABOVE
        return low and float(np.abs(self.scores.slopes).max()) < 1e100 and np.abs(self.offsets).max() < 1e200

    def _ask_tree(self, floats: Floats) -> tuple[Integers, NDArray[np.bool_]]:
        r"""The least power is the least distance in one dimension more.

        .. math:: |x - c_j|^2 - w_j = |(x, 0) - (c_j, h_j)|^2 - W, \quad h_j^2 = W - w_j, \ W = \max_j w_j
        """
        tree, noise = self._tree
        distance, nearest = tree.query(np.column_stack([floats, np.zeros(len(floats))]), k=2)
        squares = distance**2
        size = 1.0 + np.abs(floats).sum(axis=1)
        slack = 2.0 * (squares[:, 1] * (64 * UNIT_ROUNDOFF) + noise * size)
        return nearest[:, 0].astype(np.int64), ~(squares[:, 1] - squares[:, 0] > slack)

    @cached_property
    def _tree(self) -> tuple[Any, float]:
        """The lifted sites, and a bound on the error of their powers at x, in units of 1 + |x|."""
        from scipy.spatial import cKDTree

        slopes, offsets = self.scores.slopes[self.index], self.scores.offsets[self.index]
        squares = np.einsum("ij,ij->i", slopes, slopes)
        weights = squares + 2.0 * offsets
        heights = np.sqrt(weights.max() - weights)
        error = 64 * UNIT_ROUNDOFF * (squares + 2.0 * np.abs(offsets)).max()
        error += 4.0 * float(self.scores.row_error[self.index].max()) + 1e-290
        return cKDTree(np.column_stack([slopes, heights])), float(error)

    def _floats_are_exact(self, points: Floats) -> bool:
        """Whether all sums in these scores are exact: integers below 2^53 after a common scaling."""
        if self.centred or not self._rows_are_exact:
            return False
        slopes, offsets = self.scores.slopes[self.index], self.scores.offsets[self.index]
        grain = grain_of(slopes) + grain_of(points)
        if offsets.any():
            grain = min(grain, grain_of(offsets))
        with np.errstate(over="ignore", divide="ignore"):
            # logarithms, because the product itself may underflow
            products = np.log2(np.abs(slopes).sum(axis=1).max()) + np.log2(np.abs(points).max(initial=0.0))
            largest = max(products, np.log2(np.abs(offsets).max())) + 1.0
        return bool(largest == -np.inf or (grain > -1000 and largest < grain + 52))

    @cached_property
    def _rows_are_exact(self) -> bool:
        scores = self.scores
        doubtful = self.index[scores.row_error[self.index] > 0.0]
        if len(doubtful) > _CHECK_ROWS:
            return False
        floats = np.column_stack([scores.slopes, scores.offsets])
        return all(
            scores.exact_row(j) == [rational(v) for v in floats[j].tolist()] for j in doubtful.tolist()
        )


@kernel(reorder=True)
def _near_ties(scores, best, points, slope_noise, offset_noise, still_open):  # type: ignore[no-untyped-def]
    """Mark the rows in which another score lies within twice the error bound of the best."""
    for i in range(scores.shape[0]):
        size = 0.0
        for k in range(points.shape[1]):
            size += abs(points[i, k])
        row = scores[i]
        noise = 2.0 * (slope_noise * size * (1.0 + 1e-9) + offset_noise)
        level = row[best[i]] - noise
        near = 0.0  # a float, because such a count is vectorised
        for j in range(row.shape[0]):
            near += 1.0 if row[j] >= level else 0.0
        still_open[i] = not (near == 1.0 and noise < SAFE)
