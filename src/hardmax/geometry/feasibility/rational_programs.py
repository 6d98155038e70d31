r"""One system of strict inequalities, decided rigorously: in floats where they prove it, else in rationals.

:func:`separate` answers "is there a y with :math:`g_l \cdot y > 0` for every row?" with a witness or with a
vanishing convex combination, both exact. Rows are taken as the dyadic rationals they are; derived rows come
with a bound on their error and a way to get them exactly.

Floats (:mod:`hardmax.geometry.feasibility.linear_programs`) settle almost every system. What they leave open
is degenerate or thinner than rounding: a key on a face of the hull of the others, keys in a common subspace,
integer grids. :func:`separate_exactly` makes the same walk, Wolfe's algorithm, without rounding, on integer
multiples of the rows (a positive factor changes neither a witness nor the existence of a certificate). It
starts from the corral where the floats stopped, so it takes a handful of exact solves, and it always ends
with an answer: the squared norm falls strictly from corral to corral, and there are finitely many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import as_exact, dot, pivots, rational
from hardmax.geometry.feasibility import linear_programs as programs
from hardmax.geometry.scores import UNIT_ROUNDOFF

IntegerRow = list[flint.fmpz]


@dataclass(frozen=True)
class Separation:
    r"""The answer to "is there a y with :math:`g_l \cdot y > 0` for every row?".

    Attributes
    ----------
    witness : tuple of flint.fmpq or None
        Such a y, or ``None`` when there is none.
    support : tuple of int
        When there is none: rows with a positive combination that vanishes, affinely independent, so at most D
        + 1.
    weights : tuple of flint.fmpq
        The weights of that combination; they sum to 1.
    """

    witness: tuple[flint.fmpq, ...] | None
    support: tuple[int, ...] = ()
    weights: tuple[flint.fmpq, ...] = ()


def separate_exactly(
    row: Callable[[int], Sequence[flint.fmpq]],
    start: Sequence[int],
    not_positive: Callable[[list[flint.fmpz]], Sequence[int]],
) -> Separation:
    r"""Decide a homogeneous system of strict inequalities in rationals.

    Parameters
    ----------
    row : callable
        ``row(l)`` is row l as rationals.
    start : sequence of int
        Rows to begin with, at least one; the closer to the final corral, the faster.
    not_positive : callable
        ``not_positive(y)`` names rows with :math:`g_l \cdot y \le 0`: some of them if there are any, none
        only if there are none.

    Examples
    --------
    >>> rows = [[flint.fmpq(v) for v in row] for row in [[1, 0], [-1, 1], [-1, -1]]]
    >>> def not_positive(y):
    ...     return [l for l, g in enumerate(rows) if g[0] * y[0] + g[1] * y[1] <= 0]
    >>> answer = separate_exactly(rows.__getitem__, [0], not_positive)
    >>> answer.witness is None, dict(sorted(zip(answer.support, answer.weights)))
    (True, {0: 1/2, 1: 1/4, 2: 1/4})
    """
    walk = _Walk(row)
    walk.enter_all(start)
    while True:
        point = walk.settle()
        if not any(point):
            return walk.certificate()
        entering = not_positive(point)
        if not entering:
            return Separation(tuple(flint.fmpq(value) for value in point))
        walk.enter_all(entering)


def convex_weights(rows: Sequence[Sequence[flint.fmpq]]) -> list[flint.fmpq] | None:
    """Positive weights (sum 1) with which the rows vanish; ``None`` if there are none or they are not unique.

    >>> convex_weights([[flint.fmpq(1)], [flint.fmpq(-2)]])
    [2/3, 1/3]
    """
    integer = [_integers(row) for row in rows]
    weights = _smallest_affine_weights([vector for vector, _ in integer], 0)
    if weights is None or min(weights) <= 0:
        return None
    multiples, _ = _common_multiples(weights)
    for column in zip(*(vector for vector, _ in integer), strict=True):
        if _dot(multiples, column) != 0:  # the affine hull of the rows misses the origin
            return None
    scaled = [weight * factor for weight, (_, factor) in zip(weights, integer, strict=True)]
    total = sum(scaled, flint.fmpq(0))
    return [value / total for value in scaled]


def smallest_point(points: Sequence[Sequence[flint.fmpq]]) -> list[flint.fmpq]:
    """The point of smallest norm in the hull of rational points: Wolfe's walk to its end, without rounding.

    Examples
    --------
    >>> smallest_point([[flint.fmpq(v) for v in point] for point in [[3, 0], [0, 4], [5, 5]]])
    [48/25, 36/25]
    """
    entries, _ = _common_multiples([value for point in points for value in point])
    width = len(points[0])
    weights = _Walk(points.__getitem__).smallest(
        [entries[at : at + width] for at in range(0, len(entries), width)]
    )
    return [
        sum((weight * points[i][c] for i, weight in weights.items()), flint.fmpq(0)) for c in range(width)
    ]


class _Walk:
    """The state of the walk: rows seen so far as integers, the corral, and its convex weights."""

    def __init__(self, row: Callable[[int], Sequence[flint.fmpq]]) -> None:
        self._row = row
        self._vectors: dict[int, IntegerRow] = {}
        self._factors: dict[int, flint.fmpq] = {}
        self._size = 0  # bits that every integer row is brought to, so that none dwarfs the others
        self._corral: list[int] = []
        self._weights: list[flint.fmpq] = []

    def enter_all(self, rows: Sequence[int]) -> None:
        """Take rows into consideration; the first call makes them the corral."""
        for index in rows:
            if index not in self._vectors:
                vector, factor = _integers(self._row(index))
                bits = max((abs(entry).bit_length() for entry in vector), default=0)
                self._size = self._size or bits
                if 0 < bits < self._size:
                    shift = flint.fmpz(1) << (self._size - bits)
                    vector, factor = [entry * shift for entry in vector], factor * shift
                self._vectors[index], self._factors[index] = vector, factor
        if not self._corral:
            self._corral = _independent(self._vectors)
            self._weights = [flint.fmpq(1, len(self._corral))] * len(self._corral)

    def settle(self) -> IntegerRow:
        """The smallest point of the hull of the rows seen, or one on the way that is positive on them."""
        while True:
            self._shrink_to_inside()
            point = self._point()
            if not any(point):
                return point
            # a row that is not positive lies strictly below |x|^2, so adding it keeps the corral affinely
            # independent
            lowest, entering = min((_dot(vector, point), index) for index, vector in self._vectors.items())
            if lowest > 0:
                return point
            self._corral.append(entering)
            self._weights.append(flint.fmpq(0))

    def smallest(self, vectors: Sequence[IntegerRow]) -> dict[int, flint.fmpq]:
        """Convex weights of the smallest point of the hull of vectors, by their numbers."""
        self._vectors = dict(enumerate(vectors))
        self._corral = [min(self._vectors, key=lambda i: _dot(vectors[i], vectors[i]))]
        self._weights = [flint.fmpq(1)]
        while True:
            self._shrink_to_inside()
            point = self._point()
            level = _dot(vectors[self._corral[0]], point)  # the same for all of the corral
            lowest, entering = min((_dot(vector, point), index) for index, vector in self._vectors.items())
            if lowest >= level:
                return dict(zip(self._corral, self._weights, strict=True))
            self._corral.append(entering)
            self._weights.append(flint.fmpq(0))

    def certificate(self) -> Separation:
        scaled = [w * self._factors[i] for i, w in zip(self._corral, self._weights, strict=True)]
        total = sum(scaled, flint.fmpq(0))
        return Separation(None, tuple(self._corral), tuple(value / total for value in scaled))

    def _point(self) -> IntegerRow:
        """A positive integer multiple of the current point."""
        multiples, _ = _common_multiples(self._weights)
        vectors = [self._vectors[i] for i in self._corral]
        point = [_dot(multiples, column) for column in zip(*vectors, strict=True)]
        return _primitive(point)[0]

    def _shrink_to_inside(self) -> None:
        while True:
            target = _smallest_affine_weights([self._vectors[i] for i in self._corral], self._size)
            if target is None:
                raise ArithmeticError("the corral lost its affine independence")
            blocking = [i for i, value in enumerate(target) if value <= 0]
            if not blocking:
                self._weights = target
                return
            step = min(
                self._weights[i] / (self._weights[i] - target[i]) if self._weights[i] else flint.fmpq(0)
                for i in blocking
            )
            moved = [w + step * (t - w) for w, t in zip(self._weights, target, strict=True)]
            kept = [i for i, value in enumerate(moved) if value > 0]
            self._corral = [self._corral[i] for i in kept]
            self._weights = [moved[i] for i in kept]


def _integers(row: Sequence[flint.fmpq]) -> tuple[IntegerRow, flint.fmpq]:
    """A positive integer multiple of a rational row, and the factor."""
    vector, denominator = _common_multiples(row)
    primitive, common = _primitive(vector)
    return primitive, flint.fmpq(denominator, common)


def _primitive(vector: IntegerRow) -> tuple[IntegerRow, int]:
    """The entries over their greatest common divisor, and the divisor; of zeros 1."""
    common = math.gcd(*map(int, vector)) or 1
    return [entry // common for entry in vector] if common > 1 else vector, common


def _common_multiples(values: Sequence[flint.fmpq]) -> tuple[list[flint.fmpz], int]:
    """The values times their common denominator, and that denominator."""
    denominator = math.lcm(*(int(value.q) for value in values))
    return [value.p * (denominator // value.q) for value in values], denominator


def _smallest_affine_weights(vectors: list[IntegerRow], size: int) -> list[flint.fmpq] | None:
    """Weights (sum 1) of the smallest point of the affine hull; ``None`` for dependent vectors."""
    count, d = len(vectors), len(vectors[0])
    lift = flint.fmpz(1) << size
    try:
        if count == d + 1:
            # the affine hull is everything and its smallest point is 0: one square solve with small entries
            columns = flint.fmpz_mat([[lift] * count, *([vector[k] for vector in vectors] for k in range(d))])
            solution = columns.solve(flint.fmpz_mat(count, 1, [lift] + [0] * d))
            return [solution[i, 0] for i in range(count)]
        rows = flint.fmpz_mat(vectors)
        ones = flint.fmpz_mat(count, 1, [1] * count)
        gram = rows * rows.transpose() + ones * ones.transpose() * (lift * lift)
        solution = gram.solve(ones)
    except ZeroDivisionError:
        return None
    total = sum((solution[i, 0] for i in range(count)), flint.fmpq(0))
    return [solution[i, 0] / total for i in range(count)]


def _independent(vectors: dict[int, IntegerRow]) -> list[int]:
    """Keys of a maximal affinely independent subset, the earlier ones first."""
    indices = list(vectors)
    lifted = [[flint.fmpz(1), *vectors[i]] for i in indices]
    reduced, _, rank = flint.fmpz_mat(lifted).transpose().rref()
    return [indices[column] for column in pivots(reduced, rank)]


def _dot(u: Sequence[flint.fmpz], v: Sequence[flint.fmpz]) -> flint.fmpz:
    return sum((a * b for a, b in zip(u, v, strict=True)), flint.fmpz(0))


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
        if dot(exact_row(i), y) <= 0:
            found.append(i)
            if len(found) > len(y):
                break
    return found
