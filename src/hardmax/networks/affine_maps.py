r"""The affine map of a cell, and values without rounding.

On the cell of a signature every head adds a constant, every unit is on or off and every group of pieces has
its winner, so a network is :math:`x \mapsto Ax + b` there. :func:`affine_map` multiplies that out in floats,
in a fixed order of sums. Keys that tie on the whole cell share their outputs; whether they do is decided in
rationals, in the few cases where floats leave it open. :func:`exact_value` is the forward pass in rationals.
Each block adds its own step: :meth:`~hardmax.networks.block.BaseBlock.compose`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.products import integer_matrix, integer_stack
from hardmax.exact.rationals import ExactArray, fraction

if TYPE_CHECKING:
    from hardmax.networks.block import BaseBlock

Floats = NDArray[np.float64]
ScoreRows = dict[int, tuple[flint.fmpq, ...]]  # the keys that are present and their scores as maps


@dataclass(frozen=True)
class FloatMap:
    """An affine map as a matrix [A | b], and what its entries would be if nothing cancelled."""

    rows: Floats
    size: Floats

    def then(self, weights: ExactArray | None, offsets: ExactArray) -> FloatMap:
        """The map followed by :math:`Wy + b`, without weights by :math:`y + b`."""
        if weights is None:
            rows, size = self.rows + 0.0, self.size.copy()
        else:
            rows, size = _ordered_product(weights.floats, self.rows), np.abs(weights.floats) @ self.size
        rows[:, -1] += offsets.floats
        size[:, -1] += np.abs(offsets.floats)
        return FloatMap(rows, size)

    def plus(self, other: FloatMap) -> FloatMap:
        """The sum of two maps."""
        return FloatMap(self.rows + other.rows, self.size + other.size)


def affine_map(blocks: Sequence[BaseBlock], choices: Sequence[NDArray[Any]]) -> tuple[Floats, Floats]:
    """The map ``(linear, offset)`` of the cell with these routings or bits, one array per block."""
    identity = np.eye(blocks[0].d_in, blocks[0].d_in + 1)
    current = FloatMap(identity, identity)
    for i, (block, choice) in enumerate(zip(blocks, choices, strict=True)):
        current = block.compose(current, choice, partial(_exact_map, blocks, choices[:i]))
    return current.rows[:, :-1].copy(), current.rows[:, -1].copy()


def _ordered_product(a: Floats, b: Floats) -> Floats:
    """The matrix product, summed in the order of the inner index: the same on every machine."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for i in np.flatnonzero(b.any(axis=1)).tolist():
        total += a[:, i, None] * b[i]
    return total


def exact_value(blocks: Sequence[BaseBlock], point: ExactArray) -> tuple[Fraction, ...]:
    """The output at a point at temperature zero, without rounding; keys that tie exactly share."""
    column = flint.fmpq_mat(point.shape[0], 1, [point.rational(i) for i in range(point.shape[0])])
    for block in blocks:
        column = block.compose_exactly(column, None)
    return tuple(fraction(value) for value in column.entries())


def _exact_map(blocks: Sequence[BaseBlock], choices: Sequence[NDArray[Any]]) -> flint.fmpq_mat:
    """The map [A | b] of the first blocks, those with choices, exactly."""
    d = blocks[0].d_in
    current = flint.fmpq_mat(d, d + 1, [int(i == j) for i in range(d) for j in range(d + 1)])
    for block, choice in zip(blocks, choices, strict=False):
        current = block.compose_exactly(current, choice)
    return current


def exact_affine(weights: ExactArray | None, offsets: ExactArray, current: flint.fmpq_mat) -> flint.fmpq_mat:
    """W times the map, with b added to its last column; without weights the map itself."""
    if weights is None:
        product = flint.fmpq_mat(current)
    else:
        numerators, denominator = integer_matrix(weights)
        product = flint.fmpq_mat(numerators) * current * flint.fmpq(1, denominator)  # scales the smaller one
    last = product.ncols() - 1
    for i in range(product.nrows()):
        product[i, last] = product[i, last] + offsets.rational(i)
    return product


def exact_scores(
    scores: ExactArray, biases: ExactArray, mask: NDArray[np.bool_], current: flint.fmpq_mat
) -> list[ScoreRows]:
    """For each head the scores of the keys that are present, as maps of the input."""
    composed = []
    for h, (numerators, denominator) in enumerate(integer_stack(scores)):
        rows = (flint.fmpq_mat(numerators) * flint.fmpq(1, denominator) * current).tolist()
        present = np.flatnonzero(mask[h]).tolist()
        composed.append({j: (*rows[j][:-1], rows[j][-1] + biases.rational((h, j))) for j in present})
    return composed
