r"""How clearly a key can win: the largest margin that a query of norm at most 1 can give it.

For unbiased keys,

.. math:: \operatorname{margin}_j = \max_{|q| \le 1} \min_{l \ne j} (k_j - k_l) \cdot q
   = \operatorname{dist}\bigl(k_j, \operatorname{conv}\{k_l : l \ne j\}\bigr).

The best query points from the nearest point of the hull to the key. A softmax head attends to key j with
probability at least :math:`1 / (1 + (N - 1) e^{-\operatorname{margin}_j |q| / \tau})` at the best query of
norm :math:`|q|`, and no query of that norm gives a larger margin. Any query bounds the distance from below
and any convex combination bounds it from above; both are kept, rounded outwards, so the gap between them
certifies the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.feasibility import linear_programs as programs
from hardmax.geometry.scores import UNIT_ROUNDOFF, Scores
from hardmax.limits import look
from hardmax.results import Result

Floats = NDArray[np.float64]

_TOLERANCE = 1e-13  # duality gap at which the search stops, relative to the spread of the keys
_BLOCK = 1 << 18
_BATCH = 1 << 28  # coordinates that a batch of keys is compared with


@dataclass(frozen=True, eq=False, repr=False)
class MaxMargin(Result):
    """The largest margin of each key, with proven bounds.

    Attributes
    ----------
    values : (N,) float64
        The largest margin of each key: 0 for a key without interior or with an exact copy, infinite for a key
        without rivals.
    lower, upper : (N,) float64
        Proven bounds, rounded outwards: the margin of ``queries`` and the distance to an explicit point of
        the hull.
    queries : (N, d) float64
        The query of norm 1 that gives the margin; NaN where the margin is 0 or infinite.

    Examples
    --------
    >>> import hardmax as hm
    >>> margin = hm.attention_diagram([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]).max_margin()
    >>> float(margin[0])
    2.0
    >>> bool((margin.gap < 1e-12).all())
    True
    """

    kind: ClassVar[str] = "MaxMargin"
    _shapes: ClassVar[dict[str, str]] = {
        "values": "N",
        "lower": "N",
        "upper": "N",
        "queries": "N d",
    }

    values: Floats
    lower: Floats
    upper: Floats
    queries: Floats

    @property
    def gap(self) -> Floats:
        """The duality gap ``upper - lower``: how far the value can be from the truth."""
        finite = np.isfinite(self.values)
        return np.where(finite, np.where(finite, self.upper, 0.0) - np.where(finite, self.lower, 0.0), 0.0)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, j: Any) -> Any:
        return self.values[j]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype)

    def _summary(self) -> str:
        won = int((self.values > 0).sum())
        gap = float(self.gap.max(initial=0.0))
        return f"{len(self.values)} keys, {won} with a positive margin, duality gap at most {gap:.1g}"

    def _table(self) -> dict[str, Floats]:
        return {"max_margin": self.values, "lower": self.lower, "upper": self.upper}


def max_margins(scores: Scores, nonempty: NDArray[np.bool_], guesses: Floats) -> MaxMargin:
    """The largest margin of every key of linear scores; at ``guesses`` the keys with interior win."""
    n, d = scores.slopes.shape
    values = np.zeros(n)
    queries = np.full((n, d), np.nan)
    if n == 1:
        infinite = np.array([np.inf])
        return MaxMargin(infinite, infinite, infinite, queries)
    alone = np.bincount(scores.tie_group, minlength=n)[scores.tie_group] == 1
    keys = np.flatnonzero(nonempty & alone)  # a copy or a point of the hull has margin 0
    index = np.unique(scores.tie_group)
    # a power of two brings the keys to size 1, so that no square leaves the range of float64
    exponent = int(np.frexp(np.abs(scores.slopes).max())[1])
    slopes = np.ldexp(scores.slopes[index], -exponent)
    points = np.ascontiguousarray(slopes - slopes.mean(axis=0))
    lost = np.ldexp(scores.row_error[index], -exponent) * 1.01
    error = np.abs(points).sum(axis=1) * (UNIT_ROUNDOFF * 1.01) + lost + 1e-300
    norms = np.sqrt(np.einsum("ij,ij->i", points, points))
    noise = (norms + 1e-150) * (UNIT_ROUNDOFF * 1.01 * (d + 8)) + error
    rows = np.searchsorted(index, keys)
    starts = np.where(np.isfinite(guesses[keys]).all(axis=1, keepdims=True), guesses[keys], 0.0)
    nearest = np.zeros((len(keys), d))
    away = np.zeros(len(keys))
    step = max(1, min(256, _BATCH // (64 * points.size)))  # few hundred at a time, so that Ctrl-C is heard
    for start in range(0, len(keys), step):
        look()
        part = slice(start, start + step)
        programs.reach_kernel(
            points, error, rows[part], starts[part], 2.0 * float(norms.max()), _TOLERANCE,
            nearest[part], away[part], programs.corral_workspace(d),
        )  # fmt: skip
    # where the distance drowns in rounding, the query at which the key wins is as good as any
    best = np.where(nearest.any(axis=1, keepdims=True), nearest, starts)
    unit = best / np.maximum(np.linalg.norm(best, axis=1, keepdims=True), 1e-300)
    length = np.linalg.norm(nearest, axis=1)
    # the queries are of norm 1 up to rounding, by which the bound is lowered
    margins = np.maximum(proven_margins(points, noise, rows, unit), 0.0) * (1.0 - (d + 16) * UNIT_ROUNDOFF)
    lower, upper = np.zeros(n), np.zeros(n)
    with np.errstate(over="ignore", under="ignore"):
        lower[keys] = np.maximum(np.ldexp(margins, exponent) - 5e-324, 0.0)
        upper[keys] = np.ldexp(away, exponent) + 5e-324
        values[keys] = np.ldexp(np.clip(np.where(length > 0.0, length, away), margins, away), exponent)
    queries[keys] = unit
    return MaxMargin(values, lower, upper, queries)


def proven_margins(points: Floats, noise: Floats, rows: NDArray[np.int64], queries: Floats) -> Floats:
    """A proven lower bound on the margin that each query gives the point of its row; not above 0 if none.

    A product of a point with a query of norm 1 is off by at most its ``noise``.
    """
    out = np.zeros(len(rows))
    transposed = np.ascontiguousarray(points.T)
    step = max(1, _BLOCK // len(points))
    longer = 1.0 + UNIT_ROUNDOFF * 1.01 * (points.shape[1] + 8)  # a computed norm times this is rounded up
    for start in range(0, len(rows), step):
        q, keys = queries[start : start + step], rows[start : start + step]
        each = np.arange(len(q))
        length = np.sqrt(np.einsum("ij,ij->i", q, q)) * longer
        table = q @ transposed
        with np.errstate(over="ignore", invalid="ignore"):
            own = table[each, keys] - noise[keys] * length
            table += np.multiply.outer(length, noise)
            table[each, keys] = -np.inf
            out[start : start + step] = own - table.max(axis=1)
    return out
