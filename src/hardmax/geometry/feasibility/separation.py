r"""One system of strict inequalities, decided rigorously: in floats where they prove it, else in rationals.

:func:`separate` answers "is there a y with :math:`g_l \cdot y > 0` for every row?" with a witness or with a
vanishing convex combination, both exact. Rows are taken as the dyadic rationals they are; derived rows come
with a bound on their error and a way to get them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import as_exact, rational
from hardmax.geometry.feasibility import linear_programs as programs
from hardmax.geometry.feasibility.rational_programs import Separation, convex_weights, separate_exactly
from hardmax.geometry.scores import UNIT_ROUNDOFF

__all__ = ["separate"]

_TOLERANCE = 1e-12


def separate(
    rows: ArrayLike,
    *,
    row_error: ArrayLike | None = None,
    exact_row: Callable[[int], Sequence[flint.fmpq]] | None = None,
) -> Separation:
    r"""Decide :math:`g_l \cdot y > 0` for all rows, strictly and for sure.

    Parameters
    ----------
    rows : (m, D) array_like
        At least one row.
    row_error : (m,) array_like, optional
        A bound on the sum of the errors of each row's entries; zero by default.
    exact_row : callable, optional
        ``exact_row(l)`` is row l in rationals; needed when ``row_error`` is not zero.

    Returns
    -------
    Separation
        With a ``witness`` y, or with ``support`` and ``weights`` of a convex combination that is zero.

    Examples
    --------
    >>> separate([[1.0, 0.0], [-1.0, 2.0]]).support
    ()
    >>> separate([[1.0, 0.0], [-2.0, 0.0], [0.0, 1.0]]).weights
    (2/3, 1/3)
    """
    g = as_exact(rows, "rows", ndim=2)
    m, d = g.shape
    if m == 0 or d == 0:
        raise InvalidInputError(
            f"rows must hold at least one row of at least one entry, but has shape {g.shape}."
        )
    error = np.zeros(m) if row_error is None else as_exact(row_error, "row_error", ndim=1).floats
    if len(error) != m:
        raise DimensionMismatchError(f"row_error must hold one number per row ({m}), but holds {len(error)}.")
    if exact_row is None:
        if error.any():
            raise InvalidInputError("exact_row must be given when row_error is not zero.")
        exact_row = g.rational_row
    if g.rounded:
        error = error + np.abs(g.floats).sum(axis=1) * (UNIT_ROUNDOFF * 1.01)
    norms = np.sqrt(np.einsum("ij,ij->i", g.floats, g.floats))
    if bool(((norms > 1e-140) & (norms < 1e140)).all()):
        unit = np.ascontiguousarray(g.floats / norms[:, None])
        bound = (error / norms + 2 * UNIT_ROUNDOFF * np.sqrt(d)) * 1.001
        found, start = _by_floats(unit, bound, exact_row)
        if found is not None:
            return found
    else:  # a row of zeros, or one that leaves the range in which squares are safe
        start = [int(np.argmin(norms))]
    return separate_exactly(exact_row, start, lambda y: _not_positive(g.floats, error, exact_row, y))


def _by_floats(
    unit: NDArray[np.float64], bound: NDArray[np.float64], exact_row: Callable[[int], Sequence[flint.fmpq]]
) -> tuple[Separation | None, list[int]]:
    """The answer that floats can prove, or the rows to start from in rationals."""
    m, d = unit.shape
    work = programs.corral_workspace(d)
    corral, weights = np.zeros(d + 1, dtype=np.int64), np.zeros(d + 1)
    x, values = np.zeros(d), np.zeros(m)
    status, size = programs.min_norm_point_kernel(
        unit, m, corral, 0, x, weights, values, work, 1.0, True, _TOLERANCE, 20 * d + 100
    )
    support = corral[:size].tolist()
    if status == programs.POSITIVE:
        length = float(np.linalg.norm(x)) * 1.001
        if bool((values > (bound + (d + 2) * UNIT_ROUNDOFF) * length).all()):
            return Separation(tuple(rational(v) for v in x.tolist())), support
        support = support or [int(np.argmin(values))]
    elif status == programs.ZERO and programs.certify_zero_kernel(unit, bound, corral, size, weights, work):
        exact = convex_weights([exact_row(i) for i in support])
        if exact is not None:
            return Separation(None, tuple(support), tuple(exact)), support
    return None, support


def _not_positive(
    floats: NDArray[np.float64],
    error: NDArray[np.float64],
    exact_row: Callable[[int], Sequence[flint.fmpq]],
    y: list[flint.fmpz],
) -> list[int]:
    """Rows whose product with y is not positive: proven in floats where that is enough."""
    bits = max(abs(v).bit_length() for v in y)
    approximate = np.array([float(Fraction(int(v), 2**bits)) for v in y])
    with np.errstate(over="ignore", invalid="ignore"):
        values = floats @ approximate
        size = np.abs(floats) @ np.abs(approximate)
        surely = values > size * ((len(y) + 8) * UNIT_ROUNDOFF) + error * 1.01 + 1e-290
    found = []
    for i in np.flatnonzero(~surely).tolist():
        if sum((g * v for g, v in zip(exact_row(i), y, strict=True)), flint.fmpq(0)) <= 0:
            found.append(i)
            if len(found) > len(y):
                break
    return found
