"""A transformer along a segment, the plain way: fractions, all pairs of keys, layer after layer.

Shares no line with the engine. A place is a polynomial with rational coefficients and an interval that holds
one root of it; places are ordered by halving these intervals, and are equal if a common divisor of both
polynomials has a root in both intervals. No square root is taken. Between two neighbouring places winners are
read off at a rational point.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.exact.arithmetic import fractions_of
from hardmax.networks.blocks import Affine, FeedForward, Maxout
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer

Poly = tuple[Fraction, ...]  # lowest power first


def value(p: Poly, s: Fraction) -> Fraction:
    total = Fraction(0)
    for c in reversed(p):
        total = total * s + c
    return total


def trimmed(p: Any) -> Poly:
    p = list(p)
    while p and p[-1] == 0:
        p.pop()
    return tuple(p)


def remainder(p: Poly, q: Poly) -> Poly:
    rest = list(p)
    while len(rest) >= len(q):
        factor = rest[-1] / q[-1]
        for i, c in enumerate(q):
            rest[len(rest) - len(q) + i] -= factor * c
        rest.pop()
    return trimmed(rest)


def common_divisor(p: Poly, q: Poly) -> Poly:
    while q:
        p, q = q, remainder(p, q)
    return p


def derivative(p: Poly) -> Poly:
    return trimmed(i * c for i, c in enumerate(p) if i)


@dataclass
class Root:
    """The only root of a polynomial without double roots in [low, high]."""

    p: Poly
    low: Fraction
    high: Fraction

    def halve(self) -> None:
        if self.low == self.high:
            return
        middle = (self.low + self.high) / 2
        at_low, at_middle = value(self.p, self.low), value(self.p, middle)
        if at_low == 0:
            self.high = self.low
        elif at_middle == 0:
            self.low = self.high = middle
        elif (at_low > 0) == (at_middle > 0):
            self.low = middle
        else:
            self.high = middle


def roots(p: Poly, low: Fraction, high: Fraction) -> list[Root]:
    """The roots in [low, high] of a polynomial of degree at most two, each in an interval of its own."""
    p = trimmed(p)
    if len(p) < 2:
        return []
    double = common_divisor(p, derivative(p))
    if len(double) > 1:  # a square: its root is that of its derivative
        p = derivative(p)
    if len(p) == 2:
        root = -p[0] / p[1]
        return [Root(p, root, root)] if low <= root <= high else []
    turn = -p[1] / (2 * p[2])
    found = []
    for a, b in ((low, min(turn, high)), (max(turn, low), high)):
        if a <= b and value(p, a) * value(p, b) <= 0:
            found.append(Root(p, a, b))
    return found


def compare(x: Root, y: Root) -> int:
    if x is y:
        return 0
    shared = common_divisor(x.p, y.p)
    while True:
        if x.high < y.low:
            return -1
        if y.high < x.low:
            return 1
        low, high = max(x.low, y.low), min(x.high, y.high)
        if len(shared) > 1 and roots(shared, low, high):
            return 0
        x.halve()
        y.halve()


def ordered(places: list[Root]) -> list[Root]:
    """Distinct places in order."""
    distinct: list[Root] = []
    for place in sorted(places, key=cmp_to_key(compare)):
        if not distinct or compare(distinct[-1], place):
            distinct.append(place)
    return distinct


def between(x: Root, y: Root) -> Fraction:
    """A rational number strictly between two places."""
    while not x.high < y.low:
        x.halve()
        y.halve()
    return (x.high + y.low) / 2


# States are lists of polynomials of degree one, one list per token
# ----------------------------------------------------------------------------------------------------------


def add(p: Poly, q: Poly) -> Poly:
    n = max(len(p), len(q))
    p, q = (*p, *[Fraction(0)] * (n - len(p))), (*q, *[Fraction(0)] * (n - len(q)))
    return tuple(a + b for a, b in zip(p, q, strict=True))


def times(c: Fraction, p: Poly) -> Poly:
    return tuple(c * a for a in p)


def product(p: Poly, q: Poly) -> Poly:
    total = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            total[i + j] += a * b
    return tuple(total)


def affine(w: Any, b: Any, x: list[Poly]) -> list[Poly]:
    rows = np.eye(len(x), dtype=int).tolist() if w is None else fractions_of(w).tolist()
    offsets = [Fraction(0)] * len(rows) if b is None else fractions_of(b).tolist()
    out = []
    for row, offset in zip(rows, offsets, strict=True):
        total: Poly = (offset, Fraction(0))
        for c, p in zip(row, x, strict=True):
            total = add(total, times(Fraction(c), p))
        out.append(total)
    return out


def dot(x: list[Poly], y: list[Poly]) -> Poly:
    total: Poly = (Fraction(0),)
    for p, q in zip(x, y, strict=True):
        total = add(total, product(p, q))
    return total


def row_scores(block: Any, states: list[list[Poly]], tokens: tuple[int, ...]) -> dict[Any, dict[int, Poly]]:
    """For each (token, group) the keys and their scores."""
    found: dict[Any, dict[int, Poly]] = {}
    zero: Poly = (Fraction(0),)
    for t in tokens:
        if isinstance(block, SelfAttention):
            seen = block.present(len(states))
            for h in range(block.heads):
                query = affine(block.W_Q[h], block.b_Q[h], states[t])
                row = {}
                for s in range(len(states)):
                    if seen[t, s]:
                        score = dot(query, affine(block.W_K[h], block.b_K[h], states[s]))
                        score = times(block.scale[h], score)
                        if block.score_bias is not None:
                            score = add(score, (fractions_of(block.score_bias)[h, t, s],))
                        row[s] = score
                found[t, h] = row
        elif isinstance(block, FeedForward):
            for u, z in enumerate(affine(block.w_in, block.b_in, states[t])):
                found[t, u] = {0: zero, 1: z}
        elif isinstance(block, Maxout):
            scores, biases = fractions_of(block.scores), fractions_of(block.biases)
            for g in range(block.heads):
                found[t, g] = {}
                for k in np.flatnonzero(block.mask[g]).tolist():
                    total: Poly = (biases[g, k], Fraction(0))
                    for c, p in zip(scores[g, k], states[t], strict=True):
                        total = add(total, times(c, p))
                    found[t, g][k] = total
    return found


def outputs(
    block: Any, states: list[list[Poly]], tokens: tuple[int, ...], winners: dict[Any, list[int]], scores: Any
) -> list[list[Poly]]:
    new: list[list[Poly]] = [[] for _ in states]
    for t in tokens:
        x = states[t]
        if isinstance(block, SelfAttention):
            total = [(Fraction(0), Fraction(0))] * block.d_out
            for h in range(block.heads):
                tied = winners[t, h]
                read = {"mean": tied, "leftmost": tied[:1], "rightmost": tied[-1:]}[block.ties]
                for s in read:
                    v = affine(block.W_O[h], None, affine(block.W_V[h], block.b_V[h], states[s]))
                    total = [add(a, times(Fraction(1, len(read)), b)) for a, b in zip(total, v, strict=True)]
            if block.b_O is not None:
                total = [add(a, (c,)) for a, c in zip(total, fractions_of(block.b_O), strict=True)]
        elif isinstance(block, Positions):
            total = [(c,) for c in fractions_of(block.values)[t]]
        elif isinstance(block, Affine):
            total = affine(block.w, block.b, x)
        elif isinstance(block, FeedForward):
            z = affine(block.w_in, block.b_in, x)
            slopes = fractions_of(block.slope)
            z = [p if 0 not in winners[t, u] else times(slopes[u], p) for u, p in enumerate(z)]
            total = affine(block.w_out, block.b_out, z)
        else:
            best = [scores[t, g][winners[t, g][0]] for g in range(block.heads)]
            total = affine(block.w_out, block.b_out, best)
        new[t] = [add(a, b) for a, b in zip(total, x, strict=True)] if block.skip else total
    return new


@dataclass
class Piece:
    begin: Root
    end: Root
    states: list[list[Poly]]
    signature: list[dict[Any, int]]  # for each block the winner of each (token, group)
    middle: Fraction


def named(block: Any, tied: list[int]) -> int:
    """The winner that stands in a signature."""
    return tied[-1] if isinstance(block, SelfAttention) and block.ties == "rightmost" else tied[0]


def oracle_pieces(transformer: Transformer, start: Any, end: Any) -> list[Piece]:
    """The pieces of a transformer along a segment of sequences, in order."""
    x0, x1 = (fractions_of(transformer.sequence(x, "x")) for x in (start, end))
    first = [[(a, b - a) for a, b in zip(u, v, strict=True)] for u, v in zip(x0, x1, strict=True)]
    zero, one = Fraction(0), Fraction(1)
    pieces = [Piece(Root((zero, one), zero, zero), Root((-one, one), one, one), first, [], Fraction(1, 2))]
    for block, tokens in zip(transformer.blocks, transformer.computed(len(x0)), strict=True):
        pieces = [part for piece in pieces for part in _cut(block, tokens, piece)]
    merged = [pieces[0]]
    for piece in pieces[1:]:
        if piece.signature == merged[-1].signature:
            merged[-1].end = piece.end
        else:
            merged.append(piece)
    return merged


def _cut(block: Any, tokens: tuple[int, ...], piece: Piece) -> list[Piece]:
    scores = row_scores(block, piece.states, tokens)
    places = []
    for row in scores.values():
        keys = sorted(row)
        for i, j in enumerate(keys):
            for k in keys[:i]:
                places += roots(add(row[j], times(Fraction(-1), row[k])), Fraction(0), Fraction(1))
    inside = [p for p in ordered(places) if compare(piece.begin, p) < 0 and compare(p, piece.end) < 0]
    ends = [piece.begin, *inside, piece.end]
    parts: list[Piece] = []
    for begin, end in pairwise(ends):
        s = between(begin, end)
        winners = {}
        for at, row in scores.items():
            values = {k: value(p, s) for k, p in row.items()}
            best = max(values.values())
            winners[at] = [k for k in sorted(values) if values[k] == best]
        signature = {at: named(block, tied) for at, tied in winners.items()}
        if parts and parts[-1].signature[-1] == signature:
            parts[-1].end = end
            continue
        states = outputs(block, piece.states, tokens, winners, scores)
        parts.append(Piece(begin, end, states, [*piece.signature, signature], s))
    return parts
