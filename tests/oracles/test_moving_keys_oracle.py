"""Transformers along segments against the plain way."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.rationals import rational
from hardmax.networks.blocks import FeedForward
from oracles.moving_keys import Piece, oracle_pieces, value
from oracles.random_transformers import drawn_transformer

_MANY = int(os.environ.get("HARDMAX_TRANSFORMERS", "200"))  # 1,000 take about a minute
_PART = 50


def assert_same(seed: int) -> int:
    transformer, start, end = drawn_transformer(seed)
    trace = hm.trace_segment(transformer, start, end)
    pieces = oracle_pieces(transformer, start, end)
    assert trace.complete, seed
    assert trace.n_pieces == len(pieces), (seed, trace.n_pieces, len(pieces))
    for i, piece in enumerate(pieces):
        assert_same_piece(seed, trace, i, piece)
    return len(pieces)


def assert_same_piece(seed: int, trace: Any, i: int, piece: Piece) -> None:
    transformer = trace.transformer
    head = unit = 0
    for block, signature in zip(transformer.blocks, piece.signature, strict=True):
        for (t, g), key in signature.items():
            if isinstance(block, FeedForward):
                assert trace.relu[i, unit + g, t] == (key == 1), (seed, i)
            else:
                assert trace.routings[i, head + g, t] == key, (seed, i)
        head, unit = head + block.heads, unit + block.width
    if i:
        place, exact = piece.begin, trace.exact_breakpoint(i - 1)
        polynomial = [rational(c) for c in (*place.p, 0, 0)[:3]]
        assert exact.sign_of(tuple(polynomial)) == 0, (seed, i)
        assert place.low <= exact <= place.high, (seed, i)
        assert abs(trace.breakpoints[i - 1] - float(exact)) <= trace.errors[i - 1], (seed, i)
    offset, slope = trace.exact_affine(i)
    read = range(len(piece.states)) if transformer.read is None else transformer.read
    floats = trace.affine(i)
    for j, t in enumerate(read):
        for k, p in enumerate(piece.states[t]):
            p = (*p, 0)[:2]
            assert (offset[j, k], slope[j, k]) == p, (seed, i)
            assert np.allclose([floats[0][j, k], floats[1][j, k]], [float(c) for c in p], atol=1e-9)
    s = piece.middle
    if len(piece.states) < 4:
        x0, x1 = (np.array(a, dtype=object) for a in (trace.start.numbers, trace.end.numbers))
        exact_x = [[Fraction(a) + s * (Fraction(b) - Fraction(a)) for a, b in zip(u, v, strict=True)]
                   for u, v in zip(x0, x1, strict=True)]  # fmt: skip
        at = transformer.exact_value(exact_x)
        for j, t in enumerate(read):
            assert [value(p, s) for p in piece.states[t]] == list(at[j]), (seed, i)


@pytest.mark.parametrize("first", range(0, _MANY, _PART))
def test_pieces_are_those_of_the_plain_way(first: int) -> None:
    pieces = [assert_same(seed) for seed in range(first, first + _PART)]
    assert max(pieces) > 5
