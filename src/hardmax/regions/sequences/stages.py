"""The blocks of a transformer as the sweep needs them: states with error bounds, and rows of scores.

A row is a group of keys at a token: a head and the tokens that it may see, a ReLU unit that is off or on, a
group of pieces. A stage recomputes what belongs to the tokens that have changed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray
from hardmax.networks.blocks import Affine, FeedForward, Maxout
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions
from hardmax.regions.sequences.kernels import (
    SAFE,
    UNIT,
    Linear,
    Rows,
    States,
    add_tokens,
    affine_rows,
    map_tokens,
    mask_units,
    read_values,
    score_rows,
    take_pieces,
)

Floats = NDArray[np.float64]
Tokens = NDArray[np.int64]


def empty_states(groups: int, n: int, d: int) -> States:
    """States to be filled."""
    return States(np.zeros((groups, n, 2, d)), np.zeros((groups, n, 2)), np.zeros((groups, n, 2)))


def first_states(start: ExactArray, step: ExactArray) -> States:
    """The segment itself."""
    n, d = start.shape
    states = empty_states(1, n, d)
    for c, part in enumerate((start, step)):
        states.vectors[0, :, c] = part.floats
        with np.errstate(over="ignore"):
            norms = np.abs(part.floats).sum(axis=1)
            norms = np.minimum(norms, np.where(norms > 1e-100, np.linalg.norm(part.floats, axis=1), np.inf))
            states.errors[0, :, c] = UNIT * norms * SAFE + 2.0**-1000 if part.rounded else 0.0
            states.norms[0, :, c] = norms * SAFE + states.errors[0, :, c]
    return states


def linear_of(matrices: Sequence[ExactArray | None], offsets: Sequence[ExactArray | None], d: int) -> Linear:
    """Matrices of several groups, padded to one size, and bounds of their norms; ``None`` is the identity."""
    arrays = [np.eye(d) if m is None else m.floats for m in matrices]
    rows, columns = (max(a.shape[axis] for a in arrays) for axis in (0, 1))
    weights = np.zeros((len(arrays), columns, rows))
    added = np.zeros((len(arrays), rows))
    norms = np.zeros((len(arrays), 3))
    with np.errstate(over="ignore"):
        for g, (m, a, b) in enumerate(zip(matrices, arrays, offsets, strict=True)):
            weights[g, : a.shape[1], : len(a)] = a.T
            norms[g, 0] = _up(np.linalg.norm(a), np.abs(a).sum())
            norms[g, 1] = spectral_bound(a, norms[g, 0])
            if (m is not None and _loses_digits(m)) or (b is not None and _loses_digits(b)):
                norms[g] = np.inf
            if b is not None:
                added[g, : len(a)] = b.floats
                norms[g, 2] = max(norms[g, 2], _up(np.linalg.norm(b.floats), np.abs(b.floats).sum()))
    return Linear(weights, added, norms)


def spectral_bound(a: Floats, frobenius: float) -> float:
    r"""A bound of the 2-norm of a matrix.

    For symmetric :math:`M` is :math:`\|M\|_2^2 = \|M^2\|_2`, a computed square is off by at most
    :math:`\gamma_n \|M\|_F^2`, and the Frobenius norm of a high power is close to its 2-norm. The first
    square is that of the matrix times its transpose.

    >>> 2.0 <= spectral_bound(np.diag([2.0, 1.0, 1.0]), 3.0) < 2.1
    True
    """
    if not 1e-100 < frobenius < 1e100:
        return frobenius
    square = (a if a.shape[0] <= a.shape[1] else a.T) / frobenius
    error = (max(a.shape) + 8) * UNIT * SAFE  # of each square: the norms before are at most 1
    scales = []
    for _ in range(6):
        square = square @ square.T
        square = 0.5 * (square + square.T)
        scales.append(float(np.linalg.norm(square)) * SAFE + 2.0**-900)
        square = square / scales[-1]
    bound = 1.0  # of the last one, which is divided by its Frobenius norm
    for scale in reversed(scales):
        bound = float(np.sqrt(bound * scale + error)) * SAFE
    return min(frobenius, bound * frobenius * SAFE)


def _loses_digits(array: ExactArray) -> bool:
    """Whether some fraction is so small that its float is off by more than a unit in the last place."""
    if array.fractions is None:
        return False
    tiny = np.abs(array.floats) < 2.0**-1000
    return bool(array.fractions[tiny].any())


def _up(norm: Any, total: Any) -> float:
    """A 2-norm rounded up; where squares may vanish, the plain sum."""
    return float(norm if total > 1e-100 else total) * SAFE


def _rows(n: int, groups: int, keys: int) -> Rows:
    return Rows(
        quadratics=np.zeros((n, groups, keys, 3)),
        errors=np.zeros((n, groups, keys)),
        present=np.ones((n, groups, keys), dtype=np.bool_),
        winner=np.zeros((n, groups), dtype=np.int32),
        low=np.full((n, groups), np.inf),
        high=np.full((n, groups), np.inf),
        second=np.full((n, groups), np.inf),
        rival=np.full((n, groups), -1, dtype=np.int32),
        tied=np.zeros((n, groups), dtype=np.bool_),
    )


class Stage:
    """A block, the states in front of it and behind it, and the tokens that it is computed for."""

    rows: Rows | None = None
    moving = False  # whether keys are tokens
    units = False  # whether groups are units, off and on

    def __init__(self, block: Any, source: States, tokens: Tokens) -> None:
        self.block, self.source, self.tokens = block, source, tokens
        self.n = source.vectors.shape[1]
        self.computed = np.zeros(self.n, dtype=np.bool_)
        self.computed[tokens] = True
        self.target = empty_states(1, self.n, block.d_out)
        self.ties: dict[tuple[int, int], tuple[int, ...]] = {}

    def refresh(self, tokens: Tokens, changed: NDArray[np.bool_]) -> None:
        """Scores that depend on the states of some tokens."""

    def output(self, tokens: Tokens) -> None:
        """The states of some tokens behind the block."""

    def _here(self, tokens: Tokens) -> Tokens:
        return tokens if len(self.tokens) == self.n else tokens[self.computed[tokens]]


class AttentionStage(Stage):
    """Keys are tokens, and their scores are quadratics."""

    block: SelfAttention
    rows: Rows
    moving = True

    def __init__(self, block: SelfAttention, source: States, tokens: Tokens) -> None:
        super().__init__(block, source, tokens)
        n, heads, d, e = self.n, block.heads, block.d_in, block.d_out
        self._q, self._k = linear_of(block.W_Q, block.b_Q, d), linear_of(block.W_K, block.b_K, d)
        self._v, self._o = linear_of(block.W_V, block.b_V, d), linear_of(block.W_O, [None] * heads, d)
        rank, inner = self._q.weights.shape[2], self._v.weights.shape[2]
        self._queries, self._keys = empty_states(heads, n, rank), empty_states(heads, n, rank)
        self._inner, self._values = empty_states(heads, n, inner), empty_states(heads, n, e)
        # a copy, because kernels are compiled once for arrays that can be written
        self._shifts = np.zeros((0, 0, 0)) if block.shifts is None else block.shifts.floats.copy()
        self._first = linear_of([ExactArray(np.zeros((e, d)))], [block.b_O], d)
        self.rows = _rows(n, heads, n)
        self.rows.present[:] = block.present(n)[:, None, :]

    def refresh(self, tokens: Tokens, changed: NDArray[np.bool_]) -> None:
        """Queries, keys, values, and the scores in which one of them stands."""
        map_tokens(self.source, self._here(tokens), self._q, self._queries)
        map_tokens(self.source, tokens, self._k, self._keys)
        map_tokens(self.source, tokens, self._v, self._inner)
        map_tokens(self._inner, tokens, self._o, self._values)
        score_rows(self._queries, self._keys, self._shifts, self.tokens, changed, self.rows)

    def output(self, tokens: Tokens) -> None:
        """The token itself, the offset, and what the heads read."""
        target, b_O = self.target, self._first
        target.vectors[0, tokens, 0] = b_O.offsets[0]
        target.vectors[0, tokens, 1] = 0.0
        target.norms[0, tokens, 0], target.norms[0, tokens, 1] = b_O.norms[0, 2], 0.0
        target.errors[0, tokens, 0], target.errors[0, tokens, 1] = UNIT * b_O.norms[0, 2], 0.0
        if self.block.skip:
            add_tokens(target, tokens, self.source)
        shared = [t for t in tokens.tolist() if any((t, h) in self.ties for h in range(self.block.heads))]
        plain = tokens if not shared else np.setdiff1d(tokens, np.array(shared))
        read_values(self._values, plain, self.rows.winner, target)
        for t in shared:
            self._read_shared(t)

    def _read_shared(self, t: int) -> None:
        """Where keys tie for good: the mean of their values."""
        values, target = self._values, self.target
        for h in range(self.block.heads):
            keys = list(self.ties.get((t, h)) or (self.rows.winner[t, h],))
            n = len(keys)
            mean = values.vectors[h, keys].sum(axis=0) / n
            norm, error = values.norms[h, keys].sum(axis=0) / n, values.errors[h, keys].sum(axis=0) / n
            target.vectors[0, t] += mean
            target.norms[0, t] += norm
            target.errors[0, t] = (
                target.errors[0, t] + error + (n + 3) * UNIT * target.norms[0, t] + 2.0**-1000
            ) * SAFE
        target.norms[0, t] = (target.norms[0, t] + target.errors[0, t]) * SAFE


class UnitStage(Stage):
    """A unit has two keys, off with the score zero and on with its pre-activation."""

    block: FeedForward
    rows: Rows
    units = True

    def __init__(self, block: FeedForward, source: States, tokens: Tokens) -> None:
        super().__init__(block, source, tokens)
        self._in = linear_of([block.w_in], [block.b_in], block.d_in)
        self._out = linear_of([block.w_out], [block.b_out], block.width)
        self._pre, self._post = (empty_states(1, self.n, block.width) for _ in range(2))
        self._slopes = block.slope.floats
        self._steepest = max(1.0, float(np.abs(self._slopes).max()))
        self.rows = _rows(self.n, block.width, 2)

    def refresh(self, tokens: Tokens, changed: NDArray[np.bool_]) -> None:
        """Pre-activations."""
        here = self._here(tokens)
        map_tokens(self.source, here, self._in, self._pre)
        affine_rows(self._pre, here, 1, 1, self.rows)

    def output(self, tokens: Tokens) -> None:
        """What the units that are on let through."""
        mask_units(self._pre, tokens, self.rows.winner, self._slopes, self._steepest, self._post)
        map_tokens(self._post, tokens, self._out, self.target)
        if self.block.skip:
            add_tokens(self.target, tokens, self.source)


class PieceStage(Stage):
    """The pieces of a group are its keys, and what it gives is the winning score."""

    block: Maxout
    rows: Rows

    def __init__(self, block: Maxout, source: States, tokens: Tokens) -> None:
        super().__init__(block, source, tokens)
        groups, pieces = block.heads, block.pieces
        scores = block.scores.rearranged(lambda a: a.reshape(groups * pieces, -1))
        biases = block.biases.rearranged(lambda a: a.reshape(-1))
        self._in = linear_of([scores], [biases], block.d_in)
        self._out = linear_of([block.w_out], [block.b_out], groups)
        self._scores, self._best = empty_states(1, self.n, groups * pieces), empty_states(1, self.n, groups)
        self.rows = _rows(self.n, groups, pieces)
        self.rows.present[:] = block.mask

    def refresh(self, tokens: Tokens, changed: NDArray[np.bool_]) -> None:
        """The scores of all pieces."""
        here = self._here(tokens)
        map_tokens(self.source, here, self._in, self._scores)
        affine_rows(self._scores, here, 0, self.block.pieces, self.rows)

    def output(self, tokens: Tokens) -> None:
        """The winning pieces."""
        take_pieces(self._scores, tokens, self.rows.winner, self.block.pieces, self._best)
        map_tokens(self._best, tokens, self._out, self.target)
        if self.block.skip:
            add_tokens(self.target, tokens, self.source)


class AffineStage(Stage):
    """A map that cuts nothing."""

    def __init__(self, block: Affine, source: States, tokens: Tokens) -> None:
        super().__init__(block, source, tokens)
        self._map = linear_of([block.w], [block.b], block.d_in)

    def output(self, tokens: Tokens) -> None:
        """The mapped tokens."""
        map_tokens(self.source, tokens, self._map, self.target)


class PositionStage(Stage):
    """A vector for each position."""

    block: Positions

    def __init__(self, block: Positions, source: States, tokens: Tokens) -> None:
        super().__init__(block, source, tokens)
        self._added = first_states(block.values, ExactArray(np.zeros(block.values.shape)))

    def output(self, tokens: Tokens) -> None:
        """The tokens and their positions."""
        for part, added in zip(self.target, self._added, strict=True):
            part[0, tokens] = added[0, tokens]
        add_tokens(self.target, tokens, self.source)


STAGES: dict[type, type[Stage]] = {
    SelfAttention: AttentionStage,
    Positions: PositionStage,
    FeedForward: UnitStage,
    Maxout: PieceStage,
    Affine: AffineStage,
}
