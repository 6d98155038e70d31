r"""Products of exact matrices that round nothing.

The score of a key is a product of weights, :math:`W_Q^\top (W_K c_j + b_K)`. Rounding a score
moves its walls: keys that a projection of rank two maps to a plane no longer lie on it. So the factors are
kept. :class:`ExactProduct` looks like any exact array; its entries are computed in integers on first access,
and until then :attr:`ExactProduct.approximation`
serves the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, reduce
from itertools import pairwise
from math import lcm, prod
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, NotFiniteError
from hardmax.exact.rationals import ExactArray, grain


def integer_matrix(matrix: ExactArray) -> tuple[flint.fmpz_mat, int]:
    """Integers and a common positive denominator: the matrix is the one over the other.

    >>> from hardmax.exact.rationals import as_exact
    >>> integer_matrix(as_exact([[0.5, 3.0], [Fraction(1, 3), 0]], "m", ndim=2))
    ([3, 18]
    [2,  0], 6)
    """
    rows, columns = matrix.shape
    if matrix.fractions is not None:
        values = matrix.fractions.ravel().tolist()
        denominator = lcm(*(value.denominator for value in values))
        integers = [value.numerator * (denominator // value.denominator) for value in values]
        return flint.fmpz_mat(rows, columns, integers), denominator
    exponent = min(0, grain(matrix.floats))
    mantissa, power = np.frexp(matrix.floats)
    if (power - exponent).max(initial=0) <= 53:
        integers = np.ldexp(matrix.floats, -exponent).astype(np.int64).ravel().tolist()
    else:
        digits = np.ldexp(mantissa, 53).astype(np.int64).ravel().tolist()
        shifts = (power - 53 - exponent).ravel().tolist()
        # the last bits of a float that is shifted down are zero, because it is a multiple of 2^exponent
        integers = [m << s if s >= 0 else m >> -s for m, s in zip(digits, shifts, strict=True)]
    return flint.fmpz_mat(rows, columns, integers), 2**-exponent


class ExactProduct(ExactArray):
    r"""A stack of matrices :math:`c_h M_{h1} M_{h2} \cdots`, one per head, given by its factors.

    Parameters
    ----------
    chains : sequence of sequences of ExactArray
        The factors of each matrix of the stack; the products have one shape (N, m).
    scales : sequence of Fraction, optional
        :math:`c_h`; ones when left out.
    column : bool, default False
        Whether m is 1 and the last axis is dropped.

    Attributes
    ----------
    approximation : ndarray of float64
        The products in float arithmetic, at hand at once. Equal rows of the first factor give equal rows.
    floats, fractions
        As for every exact array: correctly rounded and exact entries, multiplied out on first use.

    Examples
    --------
    >>> from hardmax.exact.rationals import as_exact
    >>> row, column = as_exact([[0.1, 0.1]], "row", ndim=2), as_exact([[0.1], [-0.1]], "column", ndim=2)
    >>> product = ExactProduct([[row, column]])
    >>> product.shape, product.rational((0, 0, 0)), product.rounded
    ((1, 1, 1), 0, False)
    """

    chains: tuple[tuple[ExactArray, ...], ...]
    scales: tuple[Fraction, ...]
    column: bool
    approximation: NDArray[np.float64]

    def __init__(
        self,
        chains: Sequence[Sequence[ExactArray]],
        scales: Sequence[Fraction] | None = None,
        *,
        column: bool = False,
    ) -> None:
        kept = tuple(tuple(chain) for chain in chains)
        for chain in kept:
            for a, b in pairwise(chain):
                if a.shape[1] != b.shape[0]:
                    raise DimensionMismatchError(
                        f"factors must fit together, but have shapes {a.shape} and {b.shape}."
                    )
        shapes = {(chain[0].shape[0], chain[-1].shape[1]) for chain in kept}
        if len(shapes) != 1 or (column and next(iter(shapes))[1] != 1):
            raise DimensionMismatchError(f"products must have one shape, but have {sorted(shapes)}.")
        object.__setattr__(self, "chains", kept)
        object.__setattr__(self, "scales", tuple(scales) if scales else (Fraction(1),) * len(kept))
        object.__setattr__(self, "column", column)
        with np.errstate(over="ignore", invalid="ignore"):
            table = self._multiplied()
        if not np.isfinite(table).all():
            raise NotFiniteError("the products of the weights must fit into float64, but overflow.")
        table = table[:, :, 0] if column else table
        table.setflags(write=False)
        object.__setattr__(self, "approximation", table)

    def _multiplied(self) -> NDArray[np.float64]:
        """The products in floats; equal rows of a first factor give equal rows."""
        known: dict[int, tuple[NDArray[np.float64], NDArray[np.intp]]] = {}
        table = np.empty((len(self.chains), self.chains[0][0].shape[0], self.chains[0][-1].shape[1]))
        for h, (chain, scale) in enumerate(zip(self.chains, self.scales, strict=True)):
            first = chain[0]
            if id(first) not in known:  # heads share their context
                # matrix products may round equal rows differently, so each is multiplied once
                distinct, inverse = np.unique(first.floats, axis=0, return_inverse=True)
                known[id(first)] = (distinct, inverse.ravel())
            distinct, inverse = known[id(first)]
            product = reduce(np.matmul, (factor.floats for factor in chain[1:]), distinct)
            table[h] = (float(scale) * product)[inverse]
        return table

    @cached_property
    def _factors(self) -> dict[int, tuple[flint.fmpz_mat, int]]:
        return {}

    def integers(self, h: int) -> tuple[flint.fmpz_mat, int]:
        """Numerators and common denominator of one matrix of the stack, multiplied out on first use."""
        if h not in self._products:
            parts = []
            for factor in self.chains[h]:
                if id(factor) not in self._factors:
                    self._factors[id(factor)] = integer_matrix(factor)
                parts.append(self._factors[id(factor)])
            numerators = reduce(lambda a, b: a * b, (numerators for numerators, _ in parts))
            denominator = prod(denominator for _, denominator in parts)
            scale = self.scales[h]
            self._products[h] = (numerators * scale.numerator, denominator * scale.denominator)
        return self._products[h]

    @cached_property
    def _products(self) -> dict[int, tuple[flint.fmpz_mat, int]]:
        return {}

    def _stack(self) -> list[tuple[flint.fmpz_mat, int]]:
        return [self.integers(h) for h in range(len(self.chains))]

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The correctly rounded entries."""
        table = np.empty((len(self.chains), *self._matrix_shape))
        for h, (numerators, denominator) in enumerate(self._stack()):
            # true division of Python's integers is correctly rounded
            table[h].flat = [int(value) / denominator for value in numerators.entries()]
        table = (table[:, :, 0] if self.column else table) + 0.0
        table.setflags(write=False)
        return table

    @cached_property
    def fractions(self) -> NDArray[np.object_] | None:
        """The exact entries, or ``None`` when every float is one."""
        if not self.rounded:
            return None
        table = np.empty((len(self.chains), *self._matrix_shape), dtype=object)
        for h, (numerators, denominator) in enumerate(self._stack()):
            table[h].flat = [Fraction(int(value), denominator) for value in numerators.entries()]
        table = table[:, :, 0] if self.column else table
        table.setflags(write=False)
        return table

    @cached_property
    def rounded(self) -> bool:
        """Whether the floats only approximate the products."""
        stack = self.floats.reshape(len(self.chains), -1)
        for values, (numerators, denominator) in zip(stack, self._stack(), strict=True):
            for value, numerator in zip(values.tolist(), numerators.entries(), strict=True):
                a, b = value.as_integer_ratio()
                if a * denominator != int(numerator) * b:
                    return True
        return False

    @property
    def _matrix_shape(self) -> tuple[int, int]:
        return self.chains[0][0].shape[0], self.chains[0][-1].shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the stack."""
        return self.approximation.shape

    def rational(self, index: Any) -> flint.fmpq:
        """The exact entry at ``index``."""
        h, i, j = (*index, 0) if self.column else index
        numerators, denominator = self.integers(h)
        return flint.fmpq(numerators[i, j], denominator)

    def all_zero(self) -> bool:
        """Whether every exact entry is zero."""
        return not any(any(numerators.entries()) for numerators, _ in self._stack())


def integer_stack(stack: ExactArray) -> list[tuple[flint.fmpz_mat, int]]:
    """:func:`integer_matrix` of each matrix of a stack.

    >>> from hardmax.exact.rationals import as_exact
    >>> integer_stack(as_exact([[[0.5]], [[4.0]]], "stack", ndim=3))
    [([1], 2), ([4], 1)]
    """
    if isinstance(stack, ExactProduct):
        return [stack.integers(h) for h in range(stack.shape[0])]
    exact = [None] * stack.shape[0] if stack.fractions is None else stack.fractions
    return [integer_matrix(ExactArray(a, b)) for a, b in zip(stack.floats, exact, strict=True)]
