r"""A leaky ReLU layer as a plain one between two affine maps, exactly.

With :math:`\alpha \ne 0`,

.. math:: \max(0, z) + \alpha \min(0, z)
          = \alpha \left( z + \tfrac{1 - \alpha}{\alpha} \max(0, z) \right),

a plain layer with a skip connection, scaled. The plain layer sees the same pre-activations, so bits and folds
are the same; whoever knows plain layers needs no other rule. Numbers that are no floats are kept as
fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.blocks import Affine, Block, FeedForward

__all__ = ["plain_blocks"]


def plain_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The same map without leaky units: every leaky layer becomes at most three plain blocks.

    Examples
    --------
    >>> leaky = FeedForward([[2.0]], [1.0], [[3.0]], slope=0.25)
    >>> plain = plain_blocks([leaky])
    >>> plain
    (Affine(1 -> 1), FeedForward(1 unit, 1 -> 1, skip), Affine(1 -> 1))
    >>> from hardmax.networks.network import Network
    >>> points = [[-2.0], [0.0], [2.0]]
    >>> Network(plain)(points)[:, 0], leaky(points)[:, 0]
    (array([-2.25,  3.  , 15.  ]), array([-2.25,  3.  , 15.  ]))
    """
    return tuple(plain for block in blocks for plain in _plain(block))


def _plain(block: Block) -> Iterator[Block]:
    if not isinstance(block, FeedForward) or not block.leaky:
        yield block
        return
    slopes = fractions_of(block.slope).tolist()
    n, d, e = block.width, block.d_in, block.d_out
    kept = d if block.skip else 0
    # the hidden vector: the input if it is added, the pre-activations, a place for each unit of slope zero
    zero = np.array([slope == 0 for slope in slopes])
    size = kept + n + int(zero.sum())
    places = kept + np.arange(n)
    ends = np.where(zero, kept + n - 1 + np.cumsum(zero), places)
    kept_part = (np.diag_indices(kept), ExactArray(np.ones(kept)))
    simple = size == n
    if not (simple and block.w_in is None and block.b_in.all_zero()):
        w_in = ExactArray(np.eye(d)) if block.w_in is None else block.w_in
        w = _assembled((size, d), kept_part, (np.ix_(places, np.arange(d)), w_in))
        yield Affine(w, _assembled((size,), ((places,), block.b_in)))
    factors = [Fraction(1) if slope == 0 else (1 - slope) / slope for slope in slopes]
    steeper = as_exact(np.array(factors, dtype=object), "(1 - slope) / slope", ndim=1)
    selected = _assembled((n, size), ((np.arange(n), places), ExactArray(np.ones(n))))
    added = _assembled((size, n), ((ends, np.arange(n)), steeper))
    yield FeedForward(None if simple else selected, None, added, None, skip=True)
    w_out = _scaled(block.w_out, [Fraction(1) if slope == 0 else slope for slope in slopes])
    b_out: Any = block.b_out
    yield Affine(_assembled((e, size), kept_part, (np.ix_(np.arange(e), ends), w_out)), b_out)


def _assembled(shape: tuple[int, ...], *parts: tuple[Any, ExactArray]) -> Any:
    """An exact array that is zero but for its parts, each an index and what stands there."""
    floats = np.zeros(shape)
    for index, part in parts:
        floats[index] = part.floats
    if not any(part.rounded for _, part in parts):
        return ExactArray(floats)
    fractions = np.full(shape, Fraction(0), dtype=object)
    for index, part in parts:
        fractions[index] = fractions_of(part)
    return ExactArray(floats, fractions)


def _scaled(matrix: ExactArray, factors: list[Fraction]) -> ExactArray:
    """Columns times factors."""
    if not matrix.rounded and all(_is_power_of_two(abs(factor)) for factor in factors):
        floats = np.array([float(factor) for factor in factors])
        products = matrix.floats * floats
        if (products / floats == matrix.floats).all():  # nothing was lost at the ends of the range
            return ExactArray(products)
    return as_exact(fractions_of(matrix) * np.array(factors, dtype=object), "w_out times slope", ndim=2)


def _is_power_of_two(value: Fraction) -> bool:
    p, q = value.numerator, value.denominator
    return p & (p - 1) == 0 and q & (q - 1) == 0 and max(p, q) < 2**500
