r"""The affine map of a cell, and values without rounding.

On the cell of a signature every head adds a constant, every unit is on or off and every group of pieces has
its winner, so a network is
:math:`x \mapsto Ax + b` there. :func:`affine_map` multiplies that out in floats, in a fixed order of sums.
Keys that tie on the whole cell share their outputs; whether they do is decided in rationals, in the few cases
where floats leave it open. :func:`exact_value` is the forward pass in rationals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.products import integer_matrix, integer_stack
from hardmax.exact.rationals import ExactArray, rational
from hardmax.networks.attention import DistinctKeys
from hardmax.networks.blocks import Affine, Attention, Block, FeedForward, Maxout

__all__ = ["affine_map", "exact_value"]

Floats = NDArray[np.float64]
Choice = NDArray[Any] | None  # routings of the heads of a block, bits of its units, or nothing

# Far above the rounding errors of a composed row, relative to the sum of absolute values that it is made of:
# rows that differ by more are different, rows that differ by less are compared in rationals.
_NEARLY = 1e-9


# In floats
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Map:
    """An affine map as a matrix [A | b], and what its entries would be if nothing cancelled."""

    rows: Floats
    size: Floats

    def then(self, weights: ExactArray, offsets: ExactArray) -> _Map:
        rows = _ordered_product(weights.floats, self.rows)
        size = np.abs(weights.floats) @ self.size
        rows[:, -1] += offsets.floats
        size[:, -1] += np.abs(offsets.floats)
        return _Map(rows, size)

    def plus(self, other: _Map) -> _Map:
        return _Map(self.rows + other.rows, self.size + other.size)


def affine_map(blocks: Sequence[Block], choices: Sequence[Choice]) -> tuple[Floats, Floats]:
    """The map ``(linear, offset)`` of the cell with these routings and bits, one entry per block."""
    d = blocks[0].d_in
    identity = np.eye(d, d + 1)
    current = _Map(identity, identity)
    for i, (block, choice) in enumerate(zip(blocks, choices, strict=True)):
        if isinstance(block, Affine):
            current = current.then(block.w, block.b)
        elif isinstance(block, FeedForward):
            seen = current.then(block.w_in or _identity(block.width), block.b_in)
            factor = np.where(np.asarray(choice), 1.0, block.slope.floats)[:, None]
            added = _Map(seen.rows * factor, seen.size * np.abs(factor)).then(block.w_out, block.b_out)
            current = current.plus(added) if block.skip else added
        elif isinstance(block, Maxout):
            seen = current.then(*_winning(block, np.asarray(choice)))
            added = seen.then(block.w_out or _identity(block.heads), block.b_out)
            current = current.plus(added) if block.skip else added
        else:
            winners = np.asarray(choice)
            constant = np.zeros((block.d_out, d + 1))
            for h, key in enumerate(winners.tolist()):
                constant[:, -1] += _output(block, h, key, current, blocks[:i], choices[:i])
            added = _Map(constant, np.abs(constant))
            current = current.plus(added) if block.skip else added
    return current.rows[:, :-1].copy(), current.rows[:, -1].copy()


def _winning(block: Maxout, winners: NDArray[Any]) -> tuple[ExactArray, ExactArray]:
    """Slopes and constants of the winning pieces."""
    chosen = (np.arange(block.heads), winners)
    return _entries(block.scores, chosen), _entries(block.biases, chosen)


def _entries(array: ExactArray, index: Any) -> ExactArray:
    return ExactArray(array.floats[index], None if array.fractions is None else array.fractions[index])


def _ordered_product(a: Floats, b: Floats) -> Floats:
    """The matrix product, summed in the order of the inner index: the same on every machine."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for i in np.flatnonzero(b.any(axis=1)).tolist():
        total += a[:, i, None] * b[i]
    return total


def _identity(n: int) -> ExactArray:
    return ExactArray(np.eye(n))


def _output(
    block: Attention, h: int, key: int, current: _Map, blocks: Sequence[Block], choices: Sequence[Choice]
) -> Floats:
    """What head ``h`` adds on the cell where ``key`` wins: the mean over the keys that tie with it there."""
    keys: DistinctKeys = block.keys
    width = keys.offsets.shape[1]
    winner = int(np.flatnonzero((keys.first[h] == key) & (keys.counts[h] > 0))[0])
    slopes = keys.slopes[:, h * width : (h + 1) * width].T
    rows, size = slopes @ current.rows, np.abs(slopes) @ current.size
    rows[:, -1] += keys.offsets[h]
    size[:, -1] += np.abs(keys.offsets[h])
    with np.errstate(invalid="ignore"):  # padding has offset minus infinity
        near = (np.abs(rows - rows[winner]) <= _NEARLY * (size + size[winner])).all(axis=1)
    near &= keys.counts[h] > 0
    if np.count_nonzero(near) > 1:
        original = keys.first[h, np.flatnonzero(near)].tolist()
        tied = set(_tied_on_cell(block, h, key, original, blocks, choices))
        near[near] = [candidate in tied for candidate in original]
    weights = keys.counts[h, near]
    outputs = keys.outputs[h, near]
    if len(weights) == 1:
        return np.asarray(outputs[0])
    return np.asarray((weights[:, None] * outputs).cumsum(axis=0)[-1] / weights.sum())


# In rationals
# ----------------------------------------------------------------------------------------------------------


def exact_value(blocks: Sequence[Block], point: ExactArray) -> tuple[Fraction, ...]:
    """The output at a point at temperature zero, without rounding; keys that tie exactly share."""
    column = flint.fmpq_mat(point.shape[0], 1, [point.rational(i) for i in range(point.shape[0])])
    for block in blocks:
        if isinstance(block, FeedForward):
            z = _seen(block, column)
            on = [z[u, 0] > 0 for u in range(block.width)]
            column = _folded(block, column, z, on)
        elif isinstance(block, Attention):
            column = _routed(block, column, [_best(s) for s in _composed_scores(block, column)])
        elif isinstance(block, Maxout):
            best = [_best(s)[0] for s in _composed_scores(block, column)]
            winners = [int(np.flatnonzero(block.mask[g])[j]) for g, j in enumerate(best)]
            column = _largest(block, column, np.array(winners))
        else:
            column = _affine(block.w, block.b, column)
    return tuple(Fraction(int(value.p), int(value.q)) for value in column.entries())


def _best(scores: flint.fmpq_mat) -> list[int]:
    values = scores.entries()
    best = max(values)
    return [j for j, value in enumerate(values) if value == best]


def _tied_on_cell(
    block: Attention,
    h: int,
    key: int,
    candidates: list[int],
    blocks: Sequence[Block],
    choices: Sequence[Choice],
) -> list[int]:
    """The candidates whose scores equal that of ``key`` on the whole cell."""
    current = _exact_map(blocks, choices, block.d_in)
    scores = _composed_scores(block, current)[h]
    place = {int(j): i for i, j in enumerate(np.flatnonzero(block.mask[h]))}
    columns = range(scores.ncols())
    return [j for j in candidates if all(scores[place[j], c] == scores[place[key], c] for c in columns)]


def _exact_map(blocks: Sequence[Block], choices: Sequence[Choice], d: int) -> flint.fmpq_mat:
    """The map [A | b] of the cell with these routings and bits, exactly."""
    d = blocks[0].d_in if blocks else d
    current = flint.fmpq_mat(d, d + 1, [int(i == j) for i in range(d) for j in range(d + 1)])
    for block, choice in zip(blocks, choices, strict=True):
        if isinstance(block, FeedForward):
            current = _folded(block, current, _seen(block, current), np.asarray(choice).tolist())
        elif isinstance(block, Attention):
            winners = np.asarray(choice).tolist()
            groups = []
            for h, scores in enumerate(_composed_scores(block, current)):
                key = int(np.count_nonzero(block.mask[h, : winners[h]]))
                row = [scores[key, c] for c in range(scores.ncols())]
                groups.append(
                    [
                        j
                        for j in range(scores.nrows())
                        if all(scores[j, c] == value for c, value in enumerate(row))
                    ]
                )
            current = _routed(block, current, groups)
        elif isinstance(block, Maxout):
            current = _largest(block, current, np.asarray(choice))
        else:
            current = _affine(block.w, block.b, current)
    return current


def _matrix(array: ExactArray) -> flint.fmpq_mat:
    numerators, denominator = integer_matrix(array)
    return flint.fmpq_mat(numerators) * flint.fmpq(1, denominator)


def _affine(weights: ExactArray | None, offsets: ExactArray, current: flint.fmpq_mat) -> flint.fmpq_mat:
    """W times the map, with b added to its last column."""
    product = flint.fmpq_mat(current) if weights is None else _matrix(weights) * current
    last = product.ncols() - 1
    for i in range(product.nrows()):
        product[i, last] = product[i, last] + offsets.rational(i)
    return product


def _seen(block: FeedForward, current: flint.fmpq_mat) -> flint.fmpq_mat:
    return _affine(block.w_in, block.b_in, current)


def _folded(
    block: FeedForward, current: flint.fmpq_mat, z: flint.fmpq_mat, on: Sequence[bool]
) -> flint.fmpq_mat:
    for u in range(z.nrows()):
        if not on[u]:
            slope = block.slope.rational(u)
            for c in range(z.ncols()):
                z[u, c] = slope * z[u, c]
    added = _affine(block.w_out, block.b_out, z)
    return current + added if block.skip else added


def _largest(block: Maxout, current: flint.fmpq_mat, winners: NDArray[Any]) -> flint.fmpq_mat:
    """The map after the block where these pieces win."""
    added = _affine(block.w_out, block.b_out, _affine(*_winning(block, winners), current))
    return current + added if block.skip else added


def _composed_scores(block: Attention | Maxout, current: flint.fmpq_mat) -> list[flint.fmpq_mat]:
    """For each head the scores of the keys that are present, as maps of the input."""
    composed = []
    last = current.ncols() - 1
    for h, (numerators, denominator) in enumerate(integer_stack(block.scores)):
        scores = flint.fmpq_mat(numerators) * flint.fmpq(1, denominator) * current
        present = np.flatnonzero(block.mask[h]).tolist()
        kept = flint.fmpq_mat(len(present), last + 1)
        for i, j in enumerate(present):
            for c in range(last + 1):
                kept[i, c] = scores[j, c]
            kept[i, last] = kept[i, last] + block.biases.rational((h, j))
        composed.append(kept)
    return composed


def _routed(block: Attention, current: flint.fmpq_mat, groups: list[list[int]]) -> flint.fmpq_mat:
    """The map after the block when in each head a group of keys (counted among those present) wins."""
    after = flint.fmpq_mat(current) if block.skip else flint.fmpq_mat(block.d_out, current.ncols())
    last = current.ncols() - 1
    for h, group in enumerate(groups):
        present = np.flatnonzero(block.mask[h])
        for i in range(block.d_out):
            total = sum((block.outputs.rational((h, int(present[j]), i)) for j in group), rational(0))
            after[i, last] = after[i, last] + total / len(group)
    return after
