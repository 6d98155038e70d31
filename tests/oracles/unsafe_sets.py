"""Full enumeration as a judge of verdicts: a domain is split into all pieces on which a network is affine.

Pieces are polyhedra that may be open (the Parma Polyhedra Library, exact): ties, walls and folds are pieces
of their own where the network treats them so. Nothing of hardmax takes part but the numbers of its blocks.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import lcm

import numpy as np
from ppl import Linear_Expression, NNC_Polyhedron, Variable

import hardmax as hm
from hardmax.exact.arithmetic import fractions_of

Rows = list  # rows of fractions over the inputs and 1


def pieces(network: hm.Network, domain) -> list[tuple[NNC_Polyhedron, Rows]]:
    """All pieces of a domain with the affine map on each."""
    d = network.d
    whole = NNC_Polyhedron(d, "universe")
    a, b = fractions_of(domain.a), fractions_of(domain.b)
    for row, bound in zip(a.tolist(), b.tolist(), strict=True):
        whole.add_constraint(_expression([*(-v for v in row), bound]) >= 0)
    parts = [(whole, [[Fraction(int(i == j)) for j in range(d + 1)] for i in range(d)])]
    for block in network.blocks:
        parts = [after for part in parts for after in _through(block, *part)]
    return parts


def judge(network, domain, cases) -> bool:
    """Whether some point satisfies one of the cases: conjunctions of (x, y, constant, strict)."""
    for piece, rows in pieces(network, domain):
        for case in cases:
            inside = NNC_Polyhedron(piece)
            for constraint in case:
                inside.add_constraint(_constraint(rows, *constraint))
            if not inside.is_empty():
                return True
    return False


def supremum(network, domain, weights) -> tuple[Fraction, bool]:
    """The supremum of weights . f and whether it is attained."""
    best = None
    for piece, rows in pieces(network, domain):
        if piece.is_empty():
            continue
        row = _combined(rows, weights)
        bottom = lcm(*(v.denominator for v in row))
        found = piece.maximize(_expression(row))
        value = Fraction(int(found["sup_n"]), int(found["sup_d"])) / bottom
        here = (value, bool(found["maximum"]))
        best = here if best is None else max(best, here)
    return best


def _expression(row):
    bottom = lcm(*(v.denominator for v in row))
    total = Linear_Expression(int(row[-1] * bottom))
    for i, value in enumerate(row[:-1]):
        total = total + int(value * bottom) * Variable(i)
    return total


def _combined(rows, weights):
    return [
        sum((w * row[c] for w, row in zip(weights, rows, strict=True)), Fraction(0))
        for c in range(len(rows[0]))
    ]


def _constraint(rows, x, y, constant, strict):
    row = _combined(rows, y)
    row = [u + v for u, v in zip(row, [*x, constant], strict=True)]
    return _expression(row) > 0 if strict else _expression(row) >= 0


def _split(parts, row, cases):
    """Each part cut at the zero set of a row; the cases that are not empty, by name."""
    for piece, known in parts:
        for case in cases:
            half = NNC_Polyhedron(piece)
            e = _expression(row)
            half.add_constraint({">": e > 0, "<": e < 0, "=": e == 0, "<=": e <= 0}[case])
            if not half.is_empty():
                yield half, {**known}, case


def _affine(w, b, rows):
    width = len(rows[0])
    if w is None:
        made = [list(row) for row in rows]
    else:
        made = [
            [
                sum((v * row[c] for v, row in zip(line, rows, strict=True) if v), Fraction(0))
                for c in range(width)
            ]
            for line in fractions_of(w).tolist()
        ]
    for row, offset in zip(made, fractions_of(b).tolist(), strict=True):
        row[-1] += offset
    return made


def _plus(a, b):
    return [[u + v for u, v in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def _through(block, piece, rows):
    if isinstance(block, hm.Affine):
        yield piece, _affine(block.w, block.b, rows)
    elif isinstance(block, hm.FeedForward):
        yield from _relu(block, piece, rows)
    elif isinstance(block, hm.Maxout):
        yield from _maxout(block, piece, rows)
    else:
        yield from _heads(block, piece, rows)


def _relu(block, piece, rows):
    z = _affine(block.w_in, block.b_in, rows)
    slopes = fractions_of(block.slope).tolist()
    parts = [(piece, {})]
    for u, row in enumerate(z):
        parts = [(half, {**known, u: case == ">"}) for half, known, case in _split(parts, row, (">", "<="))]
    for half, on in parts:
        hidden = [[v if on[u] else slopes[u] * v for v in row] for u, row in enumerate(z)]
        out = _affine(block.w_out, block.b_out, hidden)
        yield half, _plus(out, rows) if block.skip else out


def _scores(block, h, rows):
    slopes, offsets = fractions_of(block.scores)[h].tolist(), fractions_of(block.biases)[h].tolist()
    found = {}
    for j in np.flatnonzero(block.mask[h]).tolist():
        row = [
            sum((v * r[c] for v, r in zip(slopes[j], rows, strict=True)), Fraction(0))
            for c in range(len(rows[0]))
        ]
        row[-1] += offsets[j]
        found[j] = row
    return found


def _ordered(parts, h, scores):
    """Parts on which the order of all scores of a head is known."""
    for i, j in combinations(scores, 2):
        row = [u - v for u, v in zip(scores[i], scores[j], strict=True)]
        parts = [
            (half, {**known, (h, i, j): case}) for half, known, case in _split(parts, row, (">", "<", "="))
        ]
    return parts


def _above(known, h, i, j):
    return known[h, i, j] == ">" if i < j else known[h, j, i] == "<"


def _maxout(block, piece, rows):
    groups = [_scores(block, g, rows) for g in range(block.heads)]
    parts = [(piece, {})]
    for g, scores in enumerate(groups):
        parts = _ordered(parts, g, scores)
    for half, known in parts:
        best = []
        for g, scores in enumerate(groups):
            winner = next(j for j in scores if not any(i != j and _above(known, g, i, j) for i in scores))
            best.append(scores[winner])
        out = _affine(block.w_out, block.b_out, best)
        yield half, _plus(out, rows) if block.skip else out


def _heads(block, piece, rows):
    heads = [_scores(block, h, rows) for h in range(block.n_heads)]
    parts = [(piece, {})]
    width, e = len(rows[0]), block.d_out
    for h, scores in enumerate(heads):
        if block.rule == "relu":
            for j, row in scores.items():
                parts = [
                    (half, {**known, (h, j): case == ">"})
                    for half, known, case in _split(parts, row, (">", "<="))
                ]
            continue
        parts = _ordered(parts, h, scores)
        if block.rule == "sparsemax":
            for j in scores:  # weight if the scores above exceed it by less than the temperature together
                cut = []
                for part in parts:
                    row = [Fraction(0)] * (width - 1) + [-_tau(block, h)]
                    for i in scores:
                        if i != j and _above(part[1], h, i, j):
                            row = [r + u - v for r, u, v in zip(row, scores[i], scores[j], strict=True)]
                    cut += [
                        (half, {**known, (h, j): case == "<"})
                        for half, known, case in _split([part], row, ("<", "=", ">"))
                    ]
                parts = cut
    for half, known in parts:
        out = [[Fraction(0)] * width for _ in range(e)]
        for h, scores in enumerate(heads):
            values = fractions_of(block.outputs)[h]
            for j, weight in _weights(block, h, scores, known, width).items():
                for c in range(e):
                    out[c] = [o + values[j, c] * w for o, w in zip(out[c], weight, strict=True)]
        yield half, _plus(out, rows) if block.skip else out


def _tau(block, h):
    taus = fractions_of(block.temperature).tolist() if block.temperature is not None else []
    if not taus:
        return Fraction(int(block.mask[h].sum()))
    return taus[0] if len(taus) == 1 else taus[h]


def _weights(block, h, scores, known, width):
    if block.rule == "relu":
        return {j: [v / _tau(block, h) for v in row] for j, row in scores.items() if known[h, j]}
    if block.rule == "sparsemax":
        support = [j for j in scores if known[h, j]]
        mean = [
            sum(column, Fraction(0)) / len(support)
            for column in zip(*(scores[j] for j in support), strict=True)
        ]
        mean[-1] -= _tau(block, h) / len(support)
        return {j: [(u - m) / _tau(block, h) for u, m in zip(scores[j], mean, strict=True)] for j in support}
    k = block.k or 1
    places = {j: sum(_above(known, h, i, j) for i in scores if i != j) for j in scores}
    weights = {}
    for level in sorted(set(places.values())):
        if level >= k:
            break
        tied = [j for j in scores if places[j] == level]
        room = min(k - level, len(tied))
        if block.ties == "mean":
            share = dict.fromkeys(tied, Fraction(room, len(tied) * k))
        else:
            chosen = sorted(tied, reverse=block.ties == "rightmost")[:room]
            share = dict.fromkeys(chosen, Fraction(1, k))
        for j, w in share.items():
            weights[j] = [Fraction(0)] * (width - 1) + [w]
    return weights
