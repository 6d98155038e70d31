r"""One head's scores: the affine functions :math:`s_j(x) = a_j \cdot x + b_j`, one per key.

The head routes an input to the key with the largest score, so everything the geometry needs of a head is this
list of affine functions: the keys of P1 Theorem IV.3 (:math:`a_j = k_j`), keys seen through a query map
(:math:`a_j = W_Q^\top k_j`, Remark IV.5), or the sites of a power diagram (:math:`a_j = c_j`, :math:`b_j =
(w_j - |c_j|^2)/2`).

The last two are derived quantities. Rounding them would move the walls, so a :class:`Scores` keeps the
numbers as given; its floats carry a proven bound on their error and :meth:`Scores.exact_row`
gives any row in rationals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.rationals import ExactArray, as_exact, dot, grain, vector_of

UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, eq=False)
class Scores:
    r"""Affine scores :math:`s_j(x) = a_j \cdot x + b_j` of one head.

    Attributes
    ----------
    slopes : (N, d) float64
    offsets : (N,) float64
    row_error : (N,) float64
        A proven bound on :math:`\sum_i |\tilde a_{ji} - a_{ji}| + |\tilde b_j - b_j|`: zero where the floats
        are exact.
    exact_row : callable
        ``exact_row(j)`` is the list :math:`[a_{j1}, \dots, a_{jd}, b_j]` of flint rationals.
    linear : bool
        Whether every offset is exactly zero, so that cells are cones.

    Examples
    --------
    >>> scores = Scores.of_sites([[0.0, 0.0], [2.0, 0.0]], [0.0, 0.0])
    >>> scores.exact_row(1)
    [2, 0, -2]
    """

    slopes: NDArray[np.float64]
    offsets: NDArray[np.float64]
    row_error: NDArray[np.float64]
    exact_row: Callable[[int], list[flint.fmpq]]
    linear: bool
    source: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("slopes", "offsets", "row_error"):
            array = getattr(self, name)
            if not np.isfinite(array).all():
                raise NotFiniteError(
                    "the scores must stay within float64, but a derived slope or offset overflows; "
                    "rescale the input."
                )
            array.setflags(write=False)

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return len(self.slopes)

    @property
    def d(self) -> int:
        """The dimension of the input."""
        return int(self.slopes.shape[1])

    @property
    def rounded(self) -> bool:
        """Whether some float row only approximates the exact one."""
        return bool(self.row_error.any())

    @classmethod
    def of_keys(
        cls,
        keys: ArrayLike,
        biases: ArrayLike | None = None,
        query_map: tuple[ArrayLike, ArrayLike | None] | None = None,
        *,
        name: str = "keys",
    ) -> Scores:
        r"""Attention scores :math:`k_j \cdot (W_Q x + b_Q) + b_j`, where ``query_map = (W_Q, b_Q)``."""
        k = _rows_of(keys, name, "key")
        b = vector_of(biases, "biases", k.shape[0], "key")
        if query_map is None:
            return cls._direct(k, b)
        w = as_exact(query_map[0], "W_Q", ndim=2)
        if w.shape[0] != k.shape[1]:
            raise DimensionMismatchError(
                f"W_Q must have one row per key coordinate ({k.shape[1]}), but has shape {w.shape}."
            )
        return cls._mapped(k, b, w, vector_of(query_map[1], "b_Q", w.shape[0], "row of W_Q"))

    @classmethod
    def _direct(cls, slopes: ExactArray, offsets: ExactArray) -> Scores:
        error = np.zeros(slopes.shape[0])
        if slopes.rounded:
            error = error + _rounding(slopes.floats)
        if offsets.rounded:
            error = error + _rounding(offsets.floats[:, None])

        def exact_row(j: int) -> list[flint.fmpq]:
            return [*slopes.rational_row(j), *offsets.rational_row(j)]

        source = {"keys": slopes, "biases": offsets}
        return cls(slopes.floats, offsets.floats, error, exact_row, offsets.all_zero(), source)

    @classmethod
    def _mapped(cls, keys: ExactArray, biases: ExactArray, w: ExactArray, c: ExactArray) -> Scores:
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = keys.floats @ w.floats
            offsets = keys.floats @ c.floats + biases.floats
            size = np.abs(keys.floats) @ (np.abs(w.floats).sum(axis=1) + np.abs(c.floats)) + np.abs(
                biases.floats
            )
        # every product and sum of d_head + 1 terms, and one rounding of each input that was not a float
        error = size * (UNIT_ROUNDOFF * 1.01 * (keys.shape[1] + 6)) + 1e-300
        factors = (keys, biases, w, c)
        if not any(f.rounded for f in factors) and _is_exact(
            [(keys.floats, w.floats, keys.shape[1]), (keys.floats, c.floats, keys.shape[1])], biases.floats
        ):
            error = np.zeros_like(error)
        columns = [w.transposed.rational_row(m) for m in range(w.shape[1])]
        shift = [c.rational(i) for i in range(c.shape[0])]

        def exact_row(j: int) -> list[flint.fmpq]:
            key = keys.rational_row(j)
            return [*(dot(key, column) for column in columns), dot(key, shift) + biases.rational(j)]

        source = {"keys": keys, "biases": biases, "w_q": w, "b_q": c}
        return cls(slopes, offsets, error, exact_row, c.all_zero() and biases.all_zero(), source)

    @classmethod
    def of_sites(cls, sites: ArrayLike, weights: ArrayLike | None = None) -> Scores:
        r"""Scores whose argmax partition is the power diagram of ``sites`` and ``weights``.

        .. math:: |x - c_j|^2 - w_j = |x|^2 - 2\,\bigl(c_j \cdot x + \tfrac12 (w_j - |c_j|^2)\bigr).
        """
        c = _rows_of(sites, "sites", "point")
        w = vector_of(weights, "weights", c.shape[0], "site")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", c.floats, c.floats)
            offsets = 0.5 * (w.floats - squares)
            error = (np.abs(w.floats) + squares) * (UNIT_ROUNDOFF * 1.01 * (c.shape[1] + 6)) + 1e-300
        if c.rounded:
            error = error + _rounding(c.floats)
        elif not w.rounded and _is_exact([(c.floats, c.floats, c.shape[1])], w.floats):
            error = np.zeros_like(error)

        def exact_row(j: int) -> list[flint.fmpq]:
            site = c.rational_row(j)
            return [*site, (w.rational(j) - dot(site, site)) / 2]

        # whether all offsets vanish is decided on the exact numbers, but only where the floats leave it open
        linear = bool((np.abs(offsets) <= error).all()) and all(
            exact_row(j)[-1] == 0 for j in range(c.shape[0])
        )
        return cls(c.floats, offsets, error, exact_row, linear, {"sites": c, "weights": w})

    def sums(self, sets: NDArray[np.int64]) -> Scores:
        r"""The scores of sets of keys, one per row of ``sets``: the sum of the scores of its members.

        Examples
        --------
        >>> pairs = Scores.of_keys([[1, 0], [0, 1], [2, 2]]).sums(np.array([[0, 1], [1, 2]]))
        >>> pairs.slopes.tolist(), pairs.exact_row(1)
        ([[1.0, 1.0], [2.0, 3.0]], [2, 3, 0])
        """
        k = sets.shape[1]
        rows = np.column_stack([self.slopes, self.offsets])
        with np.errstate(over="ignore", invalid="ignore"):
            totals = rows[sets].sum(axis=1)
            error = self.row_error[sets].sum(axis=1) * 1.01
            if not _is_exact([(np.abs(rows).max(initial=0.0, keepdims=True), np.ones((1, 1)), k)], rows):
                size = np.abs(rows).sum(axis=1)[sets].sum(axis=1)
                error = error + size * (UNIT_ROUNDOFF * 1.01 * k) + 1e-300

        def exact_row(i: int) -> list[flint.fmpq]:
            members = [self.exact_row(j) for j in sets[i].tolist()]
            return [sum(column, flint.fmpq(0)) for column in zip(*members, strict=True)]

        slopes, offsets = np.ascontiguousarray(totals[:, :-1]), np.ascontiguousarray(totals[:, -1])
        return Scores(slopes, offsets, error, exact_row, self.linear, self._maps())

    def reversed(self) -> Scores:
        """The negated scores in reverse order: their k best keys are the k worst ones of these.

        Identical scores are ordered by index, so the order is turned round as well.
        """
        last, exact_row = self.n_keys - 1, self.exact_row
        return Scores(
            -self.slopes[::-1], -self.offsets[::-1], self.row_error[::-1].copy(),
            lambda j: [-value for value in exact_row(last - j)], self.linear, self._maps(),
        )  # fmt: skip

    def _maps(self) -> dict[str, Any]:
        return {name: self.source[name] for name in ("w_q", "b_q") if name in self.source}

    @cached_property
    def tie_group(self) -> NDArray[np.int64]:
        """For each key the lowest index of a key with exactly the same score; such keys win together."""
        group = np.arange(self.n_keys)
        rows = np.column_stack([self.slopes, self.offsets])
        # equal rows have equal projections; only keys whose projections agree within their error are compared
        # exactly
        direction = 1.0 + np.modf(np.arange(1, self.d + 2) * 0.6180339887498949)[0]
        shift = -int(np.frexp(np.abs(rows).max())[1])
        scaled = np.ldexp(rows, shift)  # nothing overflows; what underflows is compared exactly
        projection = scaled @ direction
        slack = (
            np.abs(scaled) @ direction * (UNIT_ROUNDOFF * 2 * (self.d + 3))
            + 2 * np.ldexp(self.row_error, shift)
            + 1e-300
        )
        order = np.argsort(projection, kind="stable")
        low, high = (projection - slack)[order], (projection + slack)[order]
        starts = np.flatnonzero(np.concatenate([[True], low[1:] > np.maximum.accumulate(high)[:-1]]))
        ends = np.append(starts[1:], self.n_keys)
        exact = not self.rounded
        for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
            first: dict[Any, int] = {}
            for j in sorted(order[start:end].tolist()):
                label = rows[j].tobytes() if exact else tuple((q.p, q.q) for q in self.exact_row(j))
                group[j] = first.setdefault(label, j)
        group.setflags(write=False)
        return group


def _rows_of(values: ArrayLike, name: str, row: str) -> ExactArray:
    matrix = as_exact(values, name, ndim=2)
    if 0 in matrix.shape:
        raise InvalidInputError(
            f"{name} must hold at least one {row} of at least one coordinate, but has shape {matrix.shape}."
        )
    return matrix


def _rounding(floats: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # then the error is infinite
        return np.asarray(np.abs(floats).sum(axis=1) * (UNIT_ROUNDOFF * 1.01) + 1e-300)


def _is_exact(
    products: list[tuple[NDArray[np.float64], NDArray[np.float64], int]], added: NDArray[np.float64]
) -> bool:
    """Whether sums of products (left, right, number of terms) and one more term, halved, are never rounded.

    True when everything is an integer multiple of one power of two and stays below 2^53 of it.
    """
    unit, size = grain(added), float(np.abs(added).max(initial=0.0))
    for left, right, terms in products:
        unit = min(unit, grain(left) + grain(right))
        size += terms * float(np.abs(left).max(initial=0.0)) * float(np.abs(right).max(initial=0.0))
    return bool(np.isfinite(size)) and math.frexp(size)[1] - (unit - 1) <= 52
