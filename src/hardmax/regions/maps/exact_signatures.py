r"""Signatures at rational points, without rounding: at the point itself, or just beyond it.

*Just beyond* a point :math:`p` in direction :math:`v` means at :math:`p + \varepsilon v` for all small
:math:`\varepsilon > 0`: every quantity is carried as a value and a slope, and compared by value first.
"""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np

from hardmax.exact.rationals import ExactArray, dot, rational
from hardmax.networks.blocks import Affine, Attention, FeedForward, Maxout
from hardmax.networks.network import Network

__all__ = ["exact_signature", "signature_beyond"]

Vector = list[flint.fmpq]


def exact_signature(network: Network, point: list[Fraction]) -> tuple[list[int], list[bool], bool]:
    """Routings and bits at a rational point, and whether a unit is zero or keys are level there.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> exact_signature(net, [Fraction(1, 3), Fraction(1, 3)])
    ([], [True, False], True)
    """
    return signature_beyond(network, point, [Fraction(0)] * len(point))


def signature_beyond(
    network: Network, point: list[Fraction], direction: list[Fraction]
) -> tuple[list[int], list[bool], bool]:
    """Routings and bits just beyond a rational point, and whether something stays level in that direction.

    Examples
    --------
    >>> import hardmax as hm
    >>> net = hm.Network.mlp([([[1, 1], [1, -1]], [0, 0]), ([[1, 1]], [0])])
    >>> signature_beyond(net, [Fraction(1, 3), Fraction(1, 3)], [Fraction(0), Fraction(-1)])
    ([], [True, True], False)
    """
    zero = flint.fmpq(0)
    y, v = [rational(value) for value in point], [rational(value) for value in direction]
    routings: list[int] = []
    bits: list[bool] = []
    level = False
    for block in network.blocks:
        if isinstance(block, Affine):
            y, v = _product(block.w, y, block.b), _product(block.w, v, None)
        elif isinstance(block, FeedForward):
            if block.w_in is None:
                z, u = [value + block.b_in.rational(i) for i, value in enumerate(y)], v
            else:
                z, u = _product(block.w_in, y, block.b_in), _product(block.w_in, v, None)
            on = [(a, b) > (zero, zero) for a, b in zip(z, u, strict=True)]
            bits += on
            level |= any(a == 0 == b for a, b in zip(z, u, strict=True))
            slopes = [flint.fmpq(1) if lit else block.slope.rational(i) for i, lit in enumerate(on)]
            out = _product(block.w_out, [a * s for a, s in zip(z, slopes, strict=True)], block.b_out)
            run = _product(block.w_out, [b * s for b, s in zip(u, slopes, strict=True)], None)
            y = [a + b for a, b in zip(y, out, strict=True)] if block.skip else out
            v = [a + b for a, b in zip(v, run, strict=True)] if block.skip else run
        else:
            winners = [_winners(block, h, y, v) for h in range(block.heads)]
            routings += [tied[0] for _, tied in winners]
            level |= any(len(tied) > 1 for _, tied in winners)
            if isinstance(block, Maxout):
                out, run = [best[0] for best, _ in winners], [best[1] for best, _ in winners]
                if block.w_out is None:
                    out = [value + block.b_out.rational(i) for i, value in enumerate(out)]
                else:
                    out, run = _product(block.w_out, out, block.b_out), _product(block.w_out, run, None)
                y = [a + b for a, b in zip(y, out, strict=True)] if block.skip else out
                v = [a + b for a, b in zip(v, run, strict=True)] if block.skip else run
                continue
            moved = [zero] * block.d_out
            for h, (_, tied) in enumerate(winners):
                for k in range(block.d_out):
                    total = sum((block.outputs.rational((h, j, k)) for j in tied), zero)
                    moved[k] += total / len(tied)
            y = [a + b for a, b in zip(y, moved, strict=True)] if block.skip else moved
            v = v if block.skip else [zero] * block.d_out
    return routings, bits, level


def _winners(
    block: Attention | Maxout, h: int, y: Vector, v: Vector
) -> tuple[tuple[flint.fmpq, flint.fmpq], list[int]]:
    """The largest score of a head, as value and slope, and the keys that have it."""
    scores = {}
    for j in np.flatnonzero(block.mask[h]).tolist():
        row = [block.scores.rational((h, j, k)) for k in range(block.d_in)]
        scores[j] = (dot(row, y) + block.biases.rational((h, j)), dot(row, v))
    best = max(scores.values())
    return best, [j for j, score in scores.items() if score == best]


def _product(matrix: ExactArray, y: Vector, offsets: ExactArray | None) -> Vector:
    rows = [dot(matrix.rational_row(i), y) for i in range(matrix.shape[0])]
    return rows if offsets is None else [a + offsets.rational(i) for i, a in enumerate(rows)]
