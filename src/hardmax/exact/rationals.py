r"""Exact numbers: input arrays are checked and their exact values kept.

*Exact* means: of the numbers as given. A float64 is a dyadic rational, so an array of floats is
its own exact form. ``fractions.Fraction`` entries (and integers beyond :math:`2^{53}`) have no exact float;
they are kept as a companion beside the correctly rounded floats, and every certified decision that the floats
cannot make falls back on the companion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError

_EXACT_INTEGER = 2**53


def rational(value: float | int | Fraction) -> flint.fmpq:
    """The exact flint rational of a finite float, an integer or a ``Fraction``.

    >>> rational(0.75), rational(3)
    (3/4, 3)
    """
    if isinstance(value, Fraction):
        return flint.fmpq(value.numerator, value.denominator)
    if isinstance(value, (int, np.integer)):
        return flint.fmpq(int(value))
    return flint.fmpq(*float(value).as_integer_ratio())


def fraction(value: flint.fmpq) -> Fraction:
    """A flint rational as a ``Fraction``.

    >>> fraction(flint.fmpq(3, 4))
    Fraction(3, 4)
    """
    return Fraction(int(value.p), int(value.q))


def pivots(reduced: flint.fmpq_mat | flint.fmpz_mat, rank: int) -> list[int]:
    """The first column that is not zero in each of the first rows of a reduced matrix.

    >>> pivots(*flint.fmpq_mat([[0, 1], [0, 2]]).rref())
    [1]
    """
    return [next(c for c in range(reduced.ncols()) if reduced[i, c] != 0) for i in range(rank)]


def exact_rank(matrix: Any) -> int:
    """The rank of a matrix of finite floats, integers or fractions, without rounding.

    >>> exact_rank([[1.0, 2.0], [2.0, 4.0]]), exact_rank([[0.1, 1], [0.3, 3]])
    (1, 2)
    """
    rows = [[rational(value) for value in row] for row in matrix]
    return int(flint.fmpq_mat(rows).rank()) if rows and rows[0] else 0


def is_positive_definite(matrix: flint.fmpq_mat) -> bool:
    """Whether a symmetric rational matrix is positive definite: elimination meets positive pivots only.

    >>> [is_positive_definite(flint.fmpq_mat([[a, 1], [1, a]])) for a in (2, 1)]
    [True, False]
    """
    rows = [[matrix[i, j] for j in range(matrix.ncols())] for i in range(matrix.nrows())]
    for k, pivot_row in enumerate(rows):
        if pivot_row[k] <= 0:
            return False
        for row in rows[k + 1 :]:
            factor = row[k] / pivot_row[k]
            row[k:] = [a - factor * b for a, b in zip(row[k:], pivot_row[k:], strict=True)]
    return True


def dot(u: Sequence[flint.fmpq], v: Sequence[Any]) -> flint.fmpq:
    """The exact product of two vectors of rationals, of which the second may hold integers.

    >>> dot([flint.fmpq(1, 2), flint.fmpq(1, 3)], [flint.fmpq(2), flint.fmpq(3)])
    2
    """
    return sum((a * b for a, b in zip(u, v, strict=True)), flint.fmpq(0))


def power_of_two(exponent: int) -> flint.fmpq:
    """Two to an integer power, as a rational.

    >>> power_of_two(-2)
    1/4
    """
    return flint.fmpq(2**exponent) if exponent >= 0 else flint.fmpq(1, 2**-exponent)


def nearest_float(value: Fraction) -> float:
    """The float next to a rational; an infinity beyond the range.

    >>> nearest_float(Fraction(1, 4)), nearest_float(Fraction(-(10**400)))
    (0.25, -inf)
    """
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def grain(floats: NDArray[np.float64]) -> int:
    """The largest e such that every entry is an integer multiple of 2^e.

    >>> grain(np.array([0.75, 6.0]))
    -2
    """
    nonzero = floats[floats != 0.0]
    if not len(nonzero):
        return 0
    mantissa, exponent = np.frexp(nonzero)
    digits = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    trailing = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    return int((exponent - 53 + trailing).min())


@dataclass(frozen=True, eq=False)
class ExactArray:
    """A float64 array and, where the floats are rounded, the exact numbers behind them.

    Attributes
    ----------
    floats : ndarray of float64, read-only
        The correctly rounded values.
    fractions : ndarray of object or None
        The exact values as ``Fraction``; ``None`` when every float is exact already.

    Examples
    --------
    >>> from fractions import Fraction
    >>> third = as_exact([[Fraction(1, 3), 0.5]], "x", ndim=2)
    >>> third.rounded, third.rational((0, 0))
    (True, 1/3)
    """

    floats: NDArray[np.float64]
    fractions: NDArray[np.object_] | None = None

    def __post_init__(self) -> None:
        self.floats.setflags(write=False)
        if self.fractions is not None:
            self.fractions.setflags(write=False)

    @property
    def rounded(self) -> bool:
        """Whether the floats only approximate the numbers as given."""
        return self.fractions is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.floats.shape

    @property
    def numbers(self) -> NDArray[Any]:
        """The floats where they are exact, else the fractions."""
        return self.floats if self.fractions is None else self.fractions

    def state(self) -> Any:
        """What a file holds: the floats where they are exact, else lists of fractions."""
        return self.floats if self.fractions is None else self.fractions.tolist()

    def rational(self, index: Any) -> flint.fmpq:
        """The exact entry at ``index``."""
        return rational(self.numbers[index])

    def rational_row(self, i: int) -> list[flint.fmpq]:
        """Row ``i`` of a matrix, or entry ``i`` of a vector as a list of length one, exactly."""
        row = self.numbers[i]  # np.ravel is slow on short rows
        return [rational(value) for value in (row.tolist() if isinstance(row, np.ndarray) else [row])]

    def all_zero(self) -> bool:
        """Whether every exact entry is zero (a tiny fraction that rounds to 0.0 is not)."""
        return not self.numbers.any()

    def take(self, rows: Any) -> ExactArray:
        """The array restricted to some rows."""
        return self.rearranged(lambda array: array[rows])

    def rearranged(self, arrange: Callable[[NDArray[Any]], NDArray[Any]]) -> ExactArray:
        """The same numbers in another order or shape."""
        return ExactArray(arrange(self.floats), None if self.fractions is None else arrange(self.fractions))

    @property
    def transposed(self) -> ExactArray:
        """The matrix with rows and columns exchanged."""
        return self.rearranged(lambda array: np.ascontiguousarray(array.T))


def as_exact(values: Any, name: str, *, ndim: int) -> ExactArray:
    """Validate an array argument and keep its exact numbers.

    Parameters
    ----------
    values : array_like
        Anything with ``__array__`` (a torch tensor too), nested sequences, floats, integers, ``Fraction``.
    name : str
        The argument's name, for the error sentence.
    ndim : int
        The number of axes it must have.

    Raises
    ------
    InvalidInputError, NotFiniteError, DimensionMismatchError
        When the values are ragged, not real numbers, not finite, or of another number of axes.
    """
    if type(values) is ExactArray and len(values.shape) == ndim and np.isfinite(values.floats).all():
        return values  # its numbers were looked at when it was made
    if isinstance(values, ExactArray):
        array = values.numbers
    else:
        try:
            array = np.asarray(values)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                f"{name} must be a rectangular array of numbers, but its rows differ in shape."
            ) from error
    if array.ndim != ndim:
        axes = {1: "a vector", 2: "a matrix (one row per point)", 3: "a stack of matrices"}.get(
            ndim, f"{ndim}-dimensional"
        )
        raise DimensionMismatchError(f"{name} must be {axes}, but has shape {array.shape}.")
    if array.dtype == np.float64 or array.dtype in (np.float32, np.float16):
        floats = np.array(array, dtype=np.float64)
        if not np.isfinite(floats).all():
            raise NotFiniteError(f"{name} must be finite, but holds {_first_bad(floats)}.")
        return ExactArray(floats + 0.0)  # -0.0 becomes 0.0: they are the same number
    if array.dtype.kind in "iu" and (array.size == 0 or _fits(array)):
        return ExactArray(array.astype(np.float64))
    return _from_objects(array, name)


def vector_of(values: Any, name: str, length: int, per: str) -> ExactArray:
    """A vector of a given length; zeros when left out.

    >>> vector_of(None, "b", 2, "output").floats
    array([0., 0.])
    """
    vector = ExactArray(np.zeros(length)) if values is None else as_exact(values, name, ndim=1)
    if vector.shape[0] != length:
        raise DimensionMismatchError(
            f"{name} must hold one number per {per} ({length}), but holds {vector.shape[0]}."
        )
    return vector


def _fits(integers: NDArray[Any]) -> bool:
    return int(integers.max()) <= _EXACT_INTEGER and int(integers.min()) >= -_EXACT_INTEGER


def _first_bad(floats: NDArray[np.float64]) -> str:
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(floats))[0])
    return f"{floats[index]} at index {index if len(index) > 1 else index[0]}"


def _from_objects(array: NDArray[Any], name: str) -> ExactArray:
    fractions = np.empty(array.shape, dtype=object)
    floats = np.empty(array.shape, dtype=np.float64)
    exact = True
    for index in np.ndindex(array.shape):
        fraction = _as_fraction(array[index], name, index)
        try:
            nearest = float(fraction)
        except OverflowError:
            raise NotFiniteError(
                f"{name} must fit into float64, but holds about 1e{_log10(fraction)} at index {index}."
            ) from None
        fractions[index], floats[index] = fraction, nearest
        exact = exact and nearest.as_integer_ratio() == (fraction.numerator, fraction.denominator)
    return ExactArray(floats, None if exact else fractions)


def _as_fraction(value: Any, name: str, index: tuple[int, ...]) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, (bool, np.bool_, str, bytes, complex, np.complexfloating)) or value is None:
        raise InvalidInputError(
            f"{name} must hold real numbers, but has {type(value).__name__} {value!r} at index {index}."
        )
    try:
        if isinstance(value, (int, np.integer)):
            return Fraction(int(value))
        if isinstance(value, flint.fmpq):
            return fraction(value)
        return Fraction(*value.as_integer_ratio())
    except (OverflowError, ValueError):
        raise NotFiniteError(f"{name} must be finite, but holds {value} at index {index}.") from None
    except (AttributeError, TypeError):
        raise InvalidInputError(
            f"{name} must hold real numbers, but has {type(value).__name__} {value!r} at index {index}; "
            "if its rows differ in length, pad or split them."
        ) from None


def _log10(fraction: Fraction) -> int:
    return math.floor(math.log10(abs(fraction.numerator) // fraction.denominator))
