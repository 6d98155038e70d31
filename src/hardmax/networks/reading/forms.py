r"""Affine forms with few nonzero coefficients, without rounding.

A vector of affine forms is :math:`y = Mv + c`: each row of the sparse matrix M names the variables that one
coordinate depends on. Numbers are float64 where all of them are exact, and ``Fraction`` otherwise: a product
or a sum is kept as a float only if it is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedNetworkError
from hardmax.exact.rationals import ExactArray, as_exact, grain

Integers = NDArray[np.int64]
Numbers = NDArray[Any]  # float64, or object with Fraction entries

_SAFE = 2.0**400  # numbers within 1 / _SAFE and _SAFE: products and their errors neither over- nor underflow
_SPLIT = 2.0**27 + 1.0  # Veltkamp: a float as the sum of two with 26 bits


def numbers_of(values: Any, name: str) -> Numbers:
    """An array of any number of axes as float64 if all entries are floats, else as fractions.

    >>> numbers_of([1, Fraction(1, 2)], "x"), numbers_of(Fraction(1, 3), "x")
    (array([1. , 0.5]), array(Fraction(1, 3), dtype=object))
    """
    array = values if isinstance(values, ExactArray) else np.asarray(values)
    exact = as_exact(array, name, ndim=len(array.shape))
    return exact.numbers


def times(a: Numbers, b: Numbers) -> Numbers:
    """The product entry by entry, without rounding.

    >>> times(np.array([3.0, 0.5]), np.array([0.1, 4.0]))[0] == 3 * Fraction(0.1)
    True
    """
    if a.dtype != object and b.dtype != object:
        product = a * b
        if _exact_product(a, b, product):
            return product
    return np.asarray(fractions(a) * fractions(b), dtype=object)


def plus(a: Numbers, b: Numbers) -> Numbers:
    """The sum entry by entry, without rounding.

    >>> plus(np.array([1.0]), np.array([2.0**-60]))
    array([Fraction(1152921504606846977, 1152921504606846976)], dtype=object)
    """
    if a.dtype != object and b.dtype != object:
        with np.errstate(over="ignore", invalid="ignore"):
            total = a + b
            part = total - a  # Knuth: the error of a sum is a float, so it can be compared with zero
            error = (a - (total - part)) + (b - part)
        if not error.any():  # NaN, the trace of an overflow, counts as an error
            return np.asarray(total)
    return np.asarray(fractions(a) + fractions(b), dtype=object)


def fractions(a: Numbers) -> Numbers:
    """Every entry as a ``Fraction``."""
    if a.dtype == object:
        return a
    exact: Numbers = np.empty(a.size, dtype=object)
    exact[:] = [Fraction(value) for value in a.ravel().tolist()]
    return exact.reshape(a.shape)


def _exact_product(a: Numbers, b: Numbers, product: Numbers) -> bool:
    """Whether floats were multiplied without rounding (Dekker)."""
    size = np.abs(product)
    tame = ((size == 0.0) & ((a == 0.0) | (b == 0.0))) | ((size > 1.0 / _SAFE) & (size < _SAFE))
    if not tame.all() or max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)) > _SAFE:
        return False
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return not (((ah * bh - product) + ah * bl + al * bh) + al * bl).any()


def _halves(a: Numbers) -> tuple[Numbers, Numbers]:
    big = _SPLIT * a
    high = big - (big - a)
    return high, a - high


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A matrix by its nonzero entries, in the order of rows, then columns; no entry stands twice."""

    rows: Integers
    columns: Integers
    values: Numbers
    shape: tuple[int, int]

    @classmethod
    def of_entries(cls, rows: Any, columns: Any, values: Numbers, shape: tuple[int, int]) -> SparseMatrix:
        """Entries in any order; those that stand twice are added, and zeros are dropped.

        >>> SparseMatrix.of_entries([1, 1], [0, 0], np.array([2.0, 3.0]), (2, 1)).dense().floats
        array([[0.],
               [5.]])
        """
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        steps = np.diff(rows * shape[1] + columns)
        if (steps <= 0).any():  # otherwise they are in order already, and there may be millions
            order = np.lexsort((columns, rows))
            rows, columns, values = rows[order], columns[order], values[order]
            first = np.flatnonzero(np.diff(rows * shape[1] + columns, prepend=-1))
            values = _sums(values, first) if len(first) < len(rows) else values
            rows, columns = rows[first], columns[first]
        there = np.asarray(values != 0, dtype=np.bool_)
        return cls(rows[there], columns[there], values[there], shape)

    @classmethod
    def of_dense(cls, values: Any, name: str) -> SparseMatrix:
        """The nonzero entries of a matrix."""
        numbers = as_exact(values, name, ndim=2).numbers
        rows, columns = np.nonzero(np.asarray(numbers != 0, dtype=np.bool_))
        return cls(rows, columns, numbers[rows, columns], (numbers.shape[0], numbers.shape[1]))

    @classmethod
    def selection(cls, columns: Any, width: int) -> SparseMatrix:
        """One row for each column that is named.

        >>> SparseMatrix.selection([2, 0], 3).dense().floats
        array([[0., 0., 1.],
               [1., 0., 0.]])
        """
        chosen = np.asarray(columns, dtype=np.int64).ravel()
        return cls(np.arange(len(chosen)), chosen, np.ones(len(chosen)), (len(chosen), width))

    @classmethod
    def zeros(cls, rows: int, columns: int) -> SparseMatrix:
        """No entries at all."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, np.zeros(0), (rows, columns))

    @property
    def count(self) -> int:
        """The number of nonzero entries."""
        return len(self.rows)

    @cached_property
    def starts(self) -> Integers:
        """Where each row begins among the entries, and where the last ends."""
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1)).astype(np.int64)

    @cached_property
    def used(self) -> Integers:
        """The columns that have an entry, ascending."""
        return np.unique(self.columns)

    @property
    def single(self) -> bool:
        """Whether no row has more than one entry."""
        return bool((np.diff(self.starts) <= 1).all())

    @property
    def selects(self) -> bool:
        """Whether every row is one of the columns."""
        return bool((np.diff(self.starts) == 1).all() and (self.values == 1).all())

    @property
    def identity(self) -> bool:
        """Whether it is the identity."""
        n, m = self.shape
        return n == m and self.selects and bool((self.columns == np.arange(n)).all())

    def take(self, rows: Any) -> SparseMatrix:
        """Some rows, in any order and as often as they are named."""
        chosen = np.asarray(rows, dtype=np.int64).ravel()
        begin, length = self.starts[chosen], np.diff(self.starts)[chosen]
        entries = _ranges(begin, length)
        return SparseMatrix(
            np.repeat(np.arange(len(chosen)), length),
            self.columns[entries],
            self.values[entries],
            (len(chosen), self.shape[1]),
        )

    def widened(self, width: int) -> SparseMatrix:
        """The same with more columns, which are zero."""
        return SparseMatrix(self.rows, self.columns, self.values, (self.shape[0], width))

    def placed(self, places: Integers, width: int) -> SparseMatrix:
        """The columns at other places; those at -1 are dropped."""
        columns = places[self.columns]
        kept = columns >= 0
        rows, values = self.rows[kept], self.values[kept]
        return SparseMatrix.of_entries(rows, columns[kept], values, (self.shape[0], width))

    def scaled(self, factors: Numbers) -> SparseMatrix:
        """Row i times factor i."""
        values = times(self.values, factors[self.rows])
        return SparseMatrix.of_entries(self.rows, self.columns, values, self.shape)

    def plus(self, other: SparseMatrix) -> SparseMatrix:
        """The sum."""
        rows = np.concatenate([self.rows, other.rows])
        columns = np.concatenate([self.columns, other.columns])
        return SparseMatrix.of_entries(rows, columns, joined([self.values, other.values]), self.shape)

    def expanded(self, other: SparseMatrix) -> int:
        """The number of products in the matrix product with another."""
        return int(np.diff(other.starts)[self.columns].sum())

    def times(self, other: SparseMatrix) -> SparseMatrix:
        """The matrix product, without rounding.

        >>> a = SparseMatrix.of_dense([[1, 2], [0, 3]], "a")
        >>> a.times(a).dense().floats
        array([[1., 8.],
               [0., 9.]])
        """
        length = np.diff(other.starts)[self.columns]
        entries = _ranges(other.starts[self.columns], length)
        values = times(np.repeat(self.values, length), other.values[entries])
        rows = np.repeat(self.rows, length)
        return SparseMatrix.of_entries(rows, other.columns[entries], values, (self.shape[0], other.shape[1]))

    def dense(self) -> ExactArray:
        """The matrix with its zeros."""
        floats = np.zeros(self.shape)
        floats[self.rows, self.columns] = as_floats(self.values)
        if self.values.dtype != object:
            return ExactArray(floats + 0.0)
        exact = np.full(self.shape, Fraction(0), dtype=object)
        exact[self.rows, self.columns] = self.values
        return ExactArray(floats, exact)


def as_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Exact numbers, each rounded.

    Raises
    ------
    UnsupportedNetworkError
        When one of them is no float: a network has float weights.
    """
    try:
        return values.astype(np.float64)
    except OverflowError:
        raise UnsupportedNetworkError(["weights that are beyond all floats once they are joined"]) from None


def stacked(matrices: Sequence[SparseMatrix]) -> SparseMatrix:
    """Matrices one below the other; narrow ones are widened."""
    starts = np.cumsum([0, *(matrix.shape[0] for matrix in matrices)])
    rows = [matrix.rows + start for matrix, start in zip(matrices, starts, strict=False)]
    width = max(matrix.shape[1] for matrix in matrices)
    return SparseMatrix(
        np.concatenate(rows),
        np.concatenate([matrix.columns for matrix in matrices]),
        joined([matrix.values for matrix in matrices]),
        (int(starts[-1]), width),
    )


def joined(parts: Sequence[Numbers]) -> Numbers:
    """Arrays one after the other, as fractions if one of them is."""
    if any(part.dtype == object for part in parts):
        parts = [fractions(part) for part in parts]
    return np.concatenate(parts)


def _ranges(begin: Integers, length: Integers) -> Integers:
    """The numbers begin[i], ..., begin[i] + length[i] - 1, one range after the other."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(begin - (ends - length), length), dtype=np.int64)


def _sums(values: Numbers, first: Integers) -> Numbers:
    """Sums of runs of values, which begin at ``first``; nothing is rounded."""
    if values.dtype != object:
        size = np.abs(values).sum()
        # multiples of one power of two whose sums have at most 53 bits
        if size < 2.0**1000 and size <= np.ldexp(1.0, min(53 + grain(values), 1000)):
            return np.asarray(np.add.reduceat(values, first))
    return np.asarray(np.add.reduceat(fractions(values), first), dtype=object)


@dataclass(frozen=True, eq=False)
class Forms:
    """A vector of affine forms of variables: ``matrix`` times the variables, plus ``offsets``."""

    matrix: SparseMatrix
    offsets: Numbers

    @classmethod
    def constants(cls, values: Numbers) -> Forms:
        """Numbers, which depend on nothing."""
        return cls(SparseMatrix.zeros(values.size, 0), values.ravel())

    @classmethod
    def variables(cls, start: int, stop: int) -> Forms:
        """The variables from one number to another."""
        return cls(SparseMatrix.selection(np.arange(start, stop), stop), np.zeros(stop - start))

    @property
    def size(self) -> int:
        """The number of forms."""
        return self.matrix.shape[0]

    @property
    def constant(self) -> bool:
        """Whether no form depends on a variable."""
        return self.matrix.count == 0

    def take(self, index: Any) -> Forms:
        """Some of the forms, in any order."""
        chosen = np.asarray(index, dtype=np.int64).ravel()
        return Forms(self.matrix.take(chosen), self.offsets[chosen])

    def scaled(self, factors: Numbers) -> Forms:
        """Form i times factor i."""
        return Forms(self.matrix.scaled(factors), times(self.offsets, factors))

    def plus(self, other: Forms) -> Forms:
        """The sum, form by form."""
        width = max(self.matrix.shape[1], other.matrix.shape[1])
        total = self.matrix.widened(width).plus(other.matrix.widened(width))
        return Forms(total, plus(self.offsets, other.offsets))

    def shifted(self, offsets: Numbers) -> Forms:
        """The forms plus constants."""
        return Forms(self.matrix, plus(self.offsets, offsets))

    def mapped(self, weights: SparseMatrix, offsets: Numbers) -> Forms:
        """Weights times the forms, plus offsets."""
        there = np.flatnonzero(np.asarray(self.offsets != 0, dtype=np.bool_))
        constants = SparseMatrix(there, np.zeros_like(there), self.offsets[there], (self.size, 1))
        moved = weights.times(constants)
        column = np.zeros(weights.shape[0], dtype=moved.values.dtype)
        if column.dtype == object:
            column[:] = Fraction(0)
        column[moved.rows] = moved.values
        return Forms(weights.times(self.matrix), plus(column, offsets))


def stacked_forms(parts: Sequence[Forms]) -> Forms:
    """Vectors of forms one after the other."""
    return Forms(stacked([part.matrix for part in parts]), joined([part.offsets for part in parts]))
