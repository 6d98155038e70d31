r"""The states of a transformer on one piece of a segment, as maps :math:`s \mapsto A + sB` of rationals.

Nothing is computed before it is asked for: the state of a token depends on the tokens that its heads read, so
one score of a deep layer needs few of all states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.quadratic_numbers import Polynomial
from hardmax.exact.rationals import ExactArray
from hardmax.networks.affine_maps import exact_affine
from hardmax.networks.blocks import FeedForward
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer

Winners = Sequence[NDArray[np.int32] | None]  # for each block (tokens, groups), for units 1 = on
Ties = Mapping[tuple[int, int, int], tuple[int, ...]]  # block, token, head: the keys that share


class ExactStates:
    """States and scores of one piece, made on demand.

    Parameters
    ----------
    transformer : Transformer
    start, step : ExactArray
        The segment is start + s step.
    winners, ties
        The routing of the piece.
    """

    def __init__(
        self, transformer: Transformer, start: ExactArray, step: ExactArray, winners: Winners, ties: Ties
    ) -> None:
        self._blocks: tuple[Any, ...] = transformer.blocks
        self._start, self._step = start, step
        self._winners, self._ties = winners, ties
        self.state: Any = cache(self._state)
        self._query: Any = cache(lambda i, h, t: self._blocks[i].query(h, self.state(i, t)))
        self._key: Any = cache(lambda i, h, t: self._blocks[i].key(h, self.state(i, t)))
        self._value: Any = cache(lambda i, h, t: self._blocks[i].value(h, self.state(i, t)))

    def _state(self, i: int, t: int) -> flint.fmpq_mat:
        """The state of token t in front of block i: columns B and A."""
        if i == 0:
            d = self._start.shape[1]
            pairs = [(self._step.rational((t, j)), self._start.rational((t, j))) for j in range(d)]
            return flint.fmpq_mat(d, 2, [value for pair in pairs for value in pair])
        before, block = self.state(i - 1, t), self._blocks[i - 1]
        if isinstance(block, SelfAttention):
            read = [
                [self._value(i - 1, h, s) for s in self._keys_read(i - 1, t, h)] for h in range(block.heads)
            ]
            return block.exact_output(before, read)
        if isinstance(block, Positions):
            return block.added(t, before)
        winners = self._winners[i - 1]
        choice = None if winners is None else winners[t]
        composed: flint.fmpq_mat = block.compose_exactly(
            before, choice if block.heads or choice is None else choice == 1
        )
        return composed

    def _keys_read(self, i: int, t: int, h: int) -> tuple[int, ...]:
        winners = self._winners[i]
        assert winners is not None
        return self._ties.get((i, t, h)) or (int(winners[t, h]),)

    def score(self, i: int, t: int, g: int, key: int) -> Polynomial:
        """The score of a key of a group of block i at token t, as a quadratic in s."""
        block: Any = self._blocks[i]
        if isinstance(block, SelfAttention):
            q, k = self._query(i, g, t), self._key(i, g, key)
            product = q.transpose() * k  # [[BB, BA], [AB, AA]]
            shift = block.shift(g, t, key)
            return product[1, 1] + shift, product[0, 1] + product[1, 0], product[0, 0]
        zero = flint.fmpq(0)
        if isinstance(block, FeedForward):
            if key == 0:
                return zero, zero, zero
            if block.w_in is None:
                state = self.state(i, t)
                return state[g, 1] + block.b_in.rational(g), state[g, 0], zero
            weights, offset = block.w_in.take(slice(g, g + 1)), block.b_in.take(slice(g, g + 1))
        else:
            at = (slice(g, g + 1), key)
            weights, offset = block.scores.take(at), block.biases.take(at)
        row = exact_affine(weights, offset, self.state(i, t))
        return row[0, 1], row[0, 0], zero


def difference(p: Polynomial, q: Polynomial) -> Polynomial:
    """One quadratic minus another."""
    return p[0] - q[0], p[1] - q[1], p[2] - q[2]
