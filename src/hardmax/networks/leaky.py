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
from numpy.typing import NDArray

from hardmax.algebra.exact_arithmetic import fractions_of
from hardmax.algebra.rationals import ExactArray, as_exact
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
    slopes = [Fraction(value) for value in fractions_of(block.slope)]
    n, kept = block.width, block.d_in if block.skip else 0
    # beside the pre-activations: the input, if it is added; a place for each unit whose slope is zero
    places = [kept + i for i in range(n)]
    ends = list(places)
    for i, slope in enumerate(slopes):
        if slope == 0:
            ends[i] = kept + n + slopes[:i].count(Fraction(0))
    size = kept + n + slopes.count(Fraction(0))
    simple = size == n
    if not (simple and block.w_in is None and block.b_in.all_zero()):
        w, b = _zeros(size, block.d_in), _zeros(size)
        w[:kept, :kept] = _identity(kept)
        w[places] = _identity(n) if block.w_in is None else fractions_of(block.w_in)
        b[places] = fractions_of(block.b_in)
        yield Affine(_exact(w), _exact(b))
    seen, added = _zeros(n, size), _zeros(size, n)
    w_out, after = fractions_of(block.w_out), _zeros(block.d_out, size)
    after[:kept, :kept] = _identity(kept)
    for i, slope in enumerate(slopes):
        seen[i, places[i]] = Fraction(1)
        added[ends[i], i] = Fraction(1) if slope == 0 else (1 - slope) / slope
        after[:, ends[i]] = w_out[:, i] if slope == 0 else w_out[:, i] * slope
    yield FeedForward(None if simple else _exact(seen), None, _exact(added), None, skip=True)
    yield Affine(_exact(after), _exact(fractions_of(block.b_out)))


def _zeros(*shape: int) -> NDArray[np.object_]:
    return np.full(shape, Fraction(0), dtype=object)


def _identity(n: int) -> NDArray[np.object_]:
    matrix = _zeros(n, n)
    for i in range(n):
        matrix[i, i] = Fraction(1)
    return matrix


def _exact(values: NDArray[np.object_]) -> Any:
    array: ExactArray = as_exact(values, "weights of a leaky layer", ndim=values.ndim)
    return array
