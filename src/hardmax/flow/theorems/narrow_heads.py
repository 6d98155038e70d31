r"""A head of width r carries a bilinear score of rank r, a narrower head does not: both with certificates.

**Enough.** A matrix of rank r is a product :math:`B = Q^\top K` of matrices with r rows, in rationals by
elimination, so :math:`y^\top B x = (Qy) \cdot (Kx)` (:func:`exact_factors`).

**Not enough.** Take r + 1 keys whose images :math:`B x_j` are affinely independent. A head of width n < r
gives them vectors :math:`k_j \in \mathbb{R}^n`, by whatever function. These r + 1 vectors are affinely
dependent, so by Radon's theorem they fall into two groups with a common point :math:`\sum \lambda_i k_i =
\sum \mu_j k_j`. A query y exists for which the score of every key of the first group exceeds that of every
key of the second. Were the head to agree, :math:`q \cdot k_i > q \cdot k_j` for all pairs, then
:math:`q \cdot \sum \lambda_i k_i > q \cdot \sum \mu_j k_j`, but both are equal. So whatever its query vector
is, the head prefers the wrong one of some pair of keys, or ties (:func:`misread_keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
from numpy.typing import ArrayLike

from hardmax.errors import InvalidInputError
from hardmax.exact.rationals import fraction, pivots, rational

Vector = tuple[Fraction, ...]


def exact_factors(matrix: ArrayLike) -> tuple[tuple[Vector, ...], tuple[Vector, ...]]:
    """Q and K with as many rows as the rank r and y' B x = (Q y) . (K x), in rationals.

    Examples
    --------
    >>> Q, K = exact_factors([[1, 2], [2, 4]])
    >>> len(Q), [[str(v) for v in row] for row in (*Q, *K)]
    (1, [['1', '2'], ['1', '2']])
    """
    B = _rational_matrix(matrix)
    reduced, rank = B.rref()
    columns = pivots(reduced, rank)
    Q = tuple(tuple(fraction(B[i, c]) for i in range(B.nrows())) for c in columns)
    K = tuple(tuple(fraction(reduced[row, j]) for j in range(B.ncols())) for row in range(rank))
    return Q, K


@dataclass(frozen=True)
class Misreading:
    """A query and two groups of keys: every key of ``above`` has the larger score, and no head has it so.

    ``weights_above`` and ``weights_below`` are nonnegative and sum to 1, and the two mixtures of the head's
    own key vectors are equal.
    """

    query: Vector
    above: tuple[Vector, ...]
    below: tuple[Vector, ...]
    weights_above: Vector
    weights_below: Vector


def misread_keys(matrix: ArrayLike, head_keys: Callable[[Vector], Sequence[Any]]) -> Misreading:
    """Where a head that is narrower than the rank of the score y' B x must choose a wrong key.

    Parameters
    ----------
    matrix : array (d, d)
        B.
    head_keys : callable
        The key vector of a token, exact numbers, any function; shorter than the rank of B.

    Examples
    --------
    One number per key cannot follow the products of two coordinates:

    >>> found = misread_keys([[1, 0], [0, 1]], lambda x: [x[0] + 2 * x[1]])
    >>> [str(v) for v in found.query], len(found.above), len(found.below)
    (['-1', '1'], 2, 1)
    """
    B = _rational_matrix(matrix)
    reduced, rank = B.rref()
    columns = pivots(reduced, rank)
    keys = [(Fraction(0),) * B.ncols()]
    keys += [tuple(Fraction(int(j == c)) for j in range(B.ncols())) for c in columns]
    vectors = [[Fraction(v) for v in head_keys(key)] for key in keys]
    if len(vectors[0]) >= rank:
        raise InvalidInputError(
            f"head_keys must give fewer numbers than the rank of the score, {rank}, but gave "
            f"{len(vectors[0])}."
        )
    weights = _dependence(vectors)
    first = [i for i, weight in enumerate(weights) if weight > 0]
    second = [i for i in range(len(keys)) if i not in first]
    total = sum((weights[i] for i in first), Fraction(0))
    wanted = [Fraction(1 if i in first else -1) for i in range(1, len(keys))]  # key 0 is zero, and between
    return Misreading(
        _query(B, columns, wanted),
        tuple(keys[i] for i in first),
        tuple(keys[i] for i in second),
        tuple(weights[i] / total for i in first),
        tuple(-weights[i] / total for i in second),
    )


def _dependence(vectors: list[list[Fraction]]) -> list[Fraction]:
    """Weights, not all zero, with sum 0 and weighted sum of the vectors 0."""
    rows = [[Fraction(1)] * len(vectors), *map(list, zip(*vectors, strict=True))]
    reduced, rank = flint.fmpq_mat([[rational(v) for v in row] for row in rows]).rref()
    bound = pivots(reduced, rank)
    free = next(c for c in range(len(vectors)) if c not in bound)
    weights = [Fraction(0)] * len(vectors)
    weights[free] = Fraction(1)
    for row, column in enumerate(bound):
        weights[column] = -fraction(reduced[row, free])
    return weights


def _query(B: flint.fmpq_mat, columns: list[int], wanted: list[Fraction]) -> Vector:
    """y with y' B e_c as wanted in the given independent columns."""
    rows = [[B[i, c] for i in range(B.nrows())] for c in columns]
    system = flint.fmpq_mat([[*row, rational(value)] for row, value in zip(rows, wanted, strict=True)])
    reduced, rank = system.rref()
    y = [Fraction(0)] * B.nrows()
    for row, column in enumerate(pivots(reduced, rank)):
        y[column] = fraction(reduced[row, B.nrows()])
    return tuple(y)


def _rational_matrix(matrix: Any) -> flint.fmpq_mat:
    return flint.fmpq_mat([[rational(value) for value in row] for row in matrix])
