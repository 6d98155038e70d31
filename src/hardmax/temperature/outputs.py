r"""The output of a head at a temperature against its winner's value (P1 Corollary IV.4 in its true form).

.. math:: \lVert Z(q) - v_i \rVert \le \frac{m\varepsilon}{1 + m\varepsilon} \max_l \lVert v_l - v_i \rVert,
          \qquad m = N - 1, \quad \varepsilon = e^{-\delta/\tau},

where key i leads by at least :math:`\delta > 0`, with equality if all rivals are at the margin and share a
value. The corollary's proof says "uniformly" on the interior of the cell. That is false: :math:`Z` at the
query :math:`\tau q` and temperature :math:`\tau` is :math:`Z` at q and temperature 1, and :math:`\tau q` is
in the cell whenever q is, so the supremum over the cell is the same number at every temperature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import as_exact
from hardmax.temperature.margin_bounds import stability_bounds

__all__ = ["farthest_values", "output_error_bound", "output_errors", "value_table"]

Floats = NDArray[np.float64]


def output_error_bound(values: ArrayLike, margin: float, temperature: float) -> Floats:
    r"""How far the output of a head can be from the value of the key that leads by a margin.

    .. math:: \frac{m\varepsilon}{1 + m\varepsilon} \max_l \lVert v_l - v_i \rVert_2

    Parameters
    ----------
    values : (N, e) array_like
        :math:`v_j`, one row per key.
    margin : float
        :math:`\delta \ge 0`.
    temperature : float
        :math:`\tau > 0`.

    Returns
    -------
    (N,) float64
        The bound for each key i that may lead.

    Examples
    --------
    Keys and values 1 and -1 on the line. A margin makes the error small, but on the whole cell (margin 0) it
    stays 1, half of the distance of the values, at every temperature.

    >>> output_error_bound([[1.0], [-1.0]], margin=2.0, temperature=0.1)
    array([4.12230724e-09, 4.12230724e-09])
    >>> [float(output_error_bound([[1.0], [-1.0]], 0.0, t)[0]) for t in (1.0, 0.1, 1e-3, 1e-6)]
    [1.0, 1.0, 1.0, 1.0]
    """
    table = value_table(values, None)
    share = stability_bounds(len(table), margin, temperature).gradient_sharp / 2
    return np.array([share * float(_distances(table, i).max()) for i in range(len(table))])


def value_table(values: ArrayLike, n_tokens: int | None) -> Floats:
    """One value per key, as floats."""
    table = as_exact(values, "values", ndim=2).floats
    if 0 in table.shape:
        raise InvalidInputError(f"values must hold at least one value, but has shape {table.shape}.")
    if n_tokens is not None and len(table) != n_tokens:
        raise DimensionMismatchError(f"values must have one row per key ({n_tokens}), but has {len(table)}.")
    return table


def output_errors(scores: Floats, routing: NDArray[np.intp], values: Floats, temperature: float) -> Floats:
    """The distance of the output from the winner's value at every row of scores.

    The winner's own term is left out of the sum, so that small errors keep their digits.
    """
    rows = np.arange(len(scores))
    with np.errstate(under="ignore", over="ignore"):
        weights = np.exp((scores - scores[rows, routing][:, None]) / temperature)
    total = weights.sum(axis=1)
    weights[rows, routing] = 0.0
    moved = weights @ values - weights.sum(axis=1)[:, None] * values[routing]
    return np.asarray(np.linalg.norm(moved, axis=1) / total)


def farthest_values(scores: Floats, routing: NDArray[np.intp], values: Floats) -> Floats:
    """The largest distance of a value from the winner's, among the keys that are not masked."""
    farthest = np.zeros(len(scores))
    for winner in np.unique(routing):
        rows = np.flatnonzero(routing == winner)
        farthest[rows] = np.where(np.isneginf(scores[rows]), 0.0, _distances(values, int(winner))).max(axis=1)
    return farthest


def _distances(values: Floats, key: int) -> Floats:
    return np.asarray(np.linalg.norm(values - values[key], axis=1))
