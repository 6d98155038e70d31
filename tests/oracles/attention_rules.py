"""Cells of small networks with any rule of attention by brute force, in integers: slow, plain, and right.

Nothing here is shared with the library: the arrays of the blocks are read number by number, and every
decision is the sign of an integer. A cell is a polytope of full dimension in a box, with an affine map. A
block cuts it once for every conceivable state and keeps the parts with an inside:

* hardmax: one key, above all others;
* top-k: each set of k keys, every member above every other key;
* sparsemax: each set S of keys as support, with the threshold t = (sum of its scores - tau) / |S|: members
  are above t, the others are not;
* ReLU attention and ReLU units: each pattern of signs, unit by unit; a score that is zero on the cell is off.

Keys whose scores are the same function on a cell tie there: of all sets that win together the one with the
lowest keys (the highest for "rightmost") is listed. With ties="mean" keys that are level share their places.

A polytope is its vertices, homogeneous integers (x, t) with t > 0, each with the numbers of the half-spaces
on whose boundary it lies. Two vertices span an edge if no third one lies on all boundaries that they have in
common. So clipping is the same in every dimension.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import gcd, lcm

import numpy as np

from .rational_regions import exact, reduced

Row = tuple[int, ...]  # an affine function up to a positive factor: slopes and a constant
Function = tuple[Fraction, ...]  # an affine function: slopes and a constant
Vertex = tuple[tuple[int, ...], frozenset[int]]

# ----------------------------------------------------------------------------------------------
# Polytopes
# ----------------------------------------------------------------------------------------------


def value(row: Row, point: tuple[int, ...]) -> int:
    return sum(a * x for a, x in zip(row, point, strict=True))


@dataclass(frozen=True)
class Piece:
    """A bounded polytope: vertices, and the half-spaces row . (x, 1) >= 0 that it is the intersection of."""

    vertices: tuple[Vertex, ...]
    rows: tuple[Row, ...]

    @classmethod
    def box(cls, low: list[Fraction], high: list[Fraction]) -> Piece:
        d, rows = len(low), []
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            for sign, end in ((1, -a), (-1, b)):
                rows.append(integer_row((*(sign * (c == i) for c in range(d)), end)))
        vertices = []
        for ends in product((0, 1), repeat=d):
            point = [(low, high)[end][i] for i, end in enumerate(ends)]
            vertices.append((homogeneous(point), frozenset(2 * i + end for i, end in enumerate(ends))))
        return cls(tuple(vertices), tuple(rows))

    def clipped(self, row: Row) -> Piece:
        """The part where a function is not negative; it may be flat or empty."""
        values = [value(row, point) for point, _ in self.vertices]
        number = len(self.rows)
        if min(values, default=0) > 0:
            return self
        kept = [
            (point, on | {number} if height == 0 else on)
            for (point, on), height in zip(self.vertices, values, strict=True)
            if height >= 0
        ]
        above = [i for i, height in enumerate(values) if height > 0]
        below = [i for i, height in enumerate(values) if height < 0]
        for i, j in product(above, below):
            (p, on_p), (q, on_q) = self.vertices[i], self.vertices[j]
            common = on_p & on_q
            if any(common <= on for n, (_, on) in enumerate(self.vertices) if n not in (i, j)):
                continue
            a, b = values[i], -values[j]
            kept.append((reduced(tuple(b * x + a * y for x, y in zip(p, q, strict=True))), common | {number}))
        return Piece(tuple(kept), (*self.rows, row))

    def inside(self, row: Row) -> Piece | None:
        """The part of a full-dimensional piece where a function is positive; None if there is none."""
        if all(value(row, point) <= 0 for point, _ in self.vertices):
            return None
        return self.clipped(row)

    @property
    def dimension(self) -> int:
        """The dimension of the affine hull of the vertices; -1 if there are none."""
        return rank([list(point) for point, _ in self.vertices]) - 1


def homogeneous(point: list[Fraction]) -> tuple[int, ...]:
    t = lcm(*(Fraction(x).denominator for x in point))
    return reduced((*(int(x * t) for x in point), t))


def integer_row(function: tuple) -> Row:
    """The function times a positive number, in integers."""
    scale = lcm(*(Fraction(a).denominator for a in function))
    numbers = [int(a * scale) for a in function]
    divisor = gcd(*numbers) or 1
    return tuple(a // divisor for a in numbers)


def rank(rows: list[list[int]]) -> int:
    """The rank of a matrix of integers, by elimination without fractions."""
    rows, found = [row for row in rows if any(row)], 0
    while rows:
        pivot = rows.pop()
        column = next(c for c, a in enumerate(pivot) if a)
        found += 1
        rows = [
            [pivot[column] * a - row[column] * b for a, b in zip(row, pivot, strict=True)] for row in rows
        ]
        rows = [row for row in rows if any(row)]
    return found


# ----------------------------------------------------------------------------------------------
# Blocks
# ----------------------------------------------------------------------------------------------

State = tuple  # of a head: the keys that have weight; of a block of units: one bit each


@dataclass(frozen=True)
class RuleCell:
    """A cell: one state per head or block of units, block by block; where it is; its map."""

    states: tuple[tuple[State, ...], ...]
    piece: Piece
    map: tuple[Function, ...]


def composed(weights, function_rows, constant) -> Function:
    """A linear combination of functions, plus a constant."""
    total = [Fraction(0)] * len(function_rows[0])
    for weight, row in zip(weights, function_rows, strict=True):
        if weight:
            total = [a + weight * b for a, b in zip(total, row, strict=True)]
    total[-1] += constant
    return tuple(total)


def _minus(u: Function, v: Function) -> Function:
    return tuple(a - b for a, b in zip(u, v, strict=True))


def _cut(piece: Piece, functions) -> Piece | None:
    """The part of a piece with an inside on which functions are positive; zero functions are no condition."""
    for function in functions:
        if not any(function):
            continue
        found = piece.inside(integer_row(function))
        if found is None:
            return None
        piece = found
    return piece


def _units(piece: Piece, functions: list[Function]):
    """Signs of functions on the parts of a piece."""
    parts = [((), piece)]
    for function in functions:
        after = []
        for bits, part in parts:
            on = _cut(part, [function]) if any(function) else None
            off = _cut(part, [tuple(-a for a in function)])
            after += [((*bits, 1), on)] if on is not None else []
            after += [((*bits, 0), off)] if off is not None else []
        parts = after
    return parts


@dataclass(frozen=True)
class Head:
    """A head as it was given: the keys that are present, and the rule."""

    rule: str
    ties: str
    k: int
    tau: Fraction | None
    keys: list[int]
    slopes: list
    biases: list
    outputs: list

    def parts(self, piece: Piece, scores: dict[int, Function]):
        """Each state with its part of a piece and its weights, functions by keys."""
        rule = {"hardmax": self._top, "top-k": self._top, "sparsemax": self._sparsemax, "relu": self._relu}
        yield from rule[self.rule](piece, scores)

    def _top(self, piece, scores):
        groups = defaultdict(list)
        for j in self.keys:
            groups[scores[j]].append(j)
        for chosen in combinations(self.keys, self.k):
            shares, standing = {}, True
            for group in groups.values():
                won = [j for j in group if j in chosen]
                best = group[::-1] if self.ties == "rightmost" else group
                standing = standing and set(won) == set(best[: len(won)])
                for j in group if self.ties == "mean" else won:
                    shares[j] = Fraction(len(won), self.k * len(group if self.ties == "mean" else won))
            if not standing:
                continue
            others = [j for j in self.keys if j not in chosen]
            part = _cut(piece, [_minus(scores[i], scores[j]) for i, j in product(chosen, others)])
            if part is not None:
                zeros = (Fraction(0),) * (len(scores[self.keys[0]]) - 1)
                yield chosen, part, {j: (*zeros, share) for j, share in shares.items() if share}

    def _sparsemax(self, piece, scores):
        for size in range(1, len(self.keys) + 1):
            for chosen in combinations(self.keys, size):
                mean = composed([Fraction(1, size)] * size, [scores[j] for j in chosen], -self.tau / size)
                above = [_minus(scores[j], mean) for j in chosen]
                if not all(any(function) for function in above):
                    continue  # a key at the threshold has no weight
                below = [_minus(mean, scores[j]) for j in self.keys if j not in chosen]
                part = _cut(piece, [*above, *below])
                if part is not None:
                    weights = [tuple(a / self.tau for a in function) for function in above]
                    yield chosen, part, dict(zip(chosen, weights, strict=True))

    def _relu(self, piece, scores):
        for bits, part in _units(piece, [scores[j] for j in self.keys]):
            chosen = tuple(j for j, bit in zip(self.keys, bits, strict=True) if bit)
            yield chosen, part, {j: tuple(a / self.tau for a in scores[j]) for j in chosen}


def heads_of(block) -> list[Head]:
    """The heads of an attention block, from the arrays and options that it was given."""
    mask = np.asarray(block.mask)
    slopes, biases, outputs = (exact(a).tolist() for a in (block.scores, block.biases, block.outputs))
    taus = None if block.temperature is None else exact(block.temperature).tolist()
    heads = []
    for h in range(len(slopes)):
        keys = np.flatnonzero(mask[h]).tolist()
        tau = None if taus is None else taus[h % len(taus)]
        if block.rule == "relu" and tau is None:
            tau = Fraction(len(keys))
        heads.append(Head(block.rule, block.ties, block.k or 1, tau, keys, slopes[h], biases[h], outputs[h]))
    return heads


def _through_attention(cell: RuleCell, block):
    d_out = len(exact(block.outputs)[0, 0])
    zero = (Fraction(0),) * len(cell.map[0])
    parts = [((), cell.piece, cell.map if block.skip else (zero,) * d_out)]
    for head in heads_of(block):
        scores = {j: composed(head.slopes[j], cell.map, head.biases[j]) for j in head.keys}
        after = []
        for states, piece, total in parts:
            for chosen, part, weights in head.parts(piece, scores):
                added = [
                    composed([head.outputs[j][i] for j in weights], list(weights.values()), 0)
                    if weights
                    else zero
                    for i in range(d_out)
                ]
                new = tuple(
                    tuple(a + b for a, b in zip(u, v, strict=True)) for u, v in zip(total, added, strict=True)
                )
                after.append(((*states, chosen), part, new))
        parts = after
    return parts


def _through_units(cell: RuleCell, block):
    w_in, b_in, w_out, b_out = (exact(a).tolist() for a in (block.w_in, block.b_in, block.w_out, block.b_out))
    hidden = [composed(row, cell.map, constant) for row, constant in zip(w_in, b_in, strict=True)]
    zero = (Fraction(0),) * len(cell.map[0])
    for bits, piece in _units(cell.piece, hidden):
        on = [function if bit else zero for bit, function in zip(bits, hidden, strict=True)]
        total = [composed(row, on, constant) for row, constant in zip(w_out, b_out, strict=True)]
        if block.skip:
            total = [
                tuple(a + b for a, b in zip(u, v, strict=True)) for u, v in zip(total, cell.map, strict=True)
            ]
        yield (bits,), piece, tuple(total)


THROUGH = {"Attention": _through_attention, "FeedForward": _through_units}

# ----------------------------------------------------------------------------------------------
# Networks
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RuleCells:
    """All cells of a network in a box."""

    cells: list[RuleCell]

    @property
    def n_cells(self) -> int:
        return len(self.cells)

    @property
    def by_states(self) -> dict:
        return {cell.states: cell for cell in self.cells}

    def neighbours(self) -> list[tuple[int, int]]:
        """Pairs of cells with the same map that touch in dimension d - 1."""
        alike, found = defaultdict(list), []
        for i, cell in enumerate(self.cells):
            alike[cell.map].append(i)
        for numbers in alike.values():
            for i, j in combinations(numbers, 2):
                common, other = self.cells[i].piece, self.cells[j].piece
                for row in other.rows:
                    common = common.clipped(row)
                if common.dimension == len(other.rows[0]) - 2:
                    found.append((i, j))
        return found

    @property
    def n_regions(self) -> int:
        """The number of maximal connected unions of cells with one map."""
        region = list(range(self.n_cells))
        for i, j in self.neighbours():
            a, b = region[i], region[j]
            region = [a if r == b else r for r in region]
        return len(set(region))


def cells_by_rules(network, low, high) -> RuleCells:
    """All cells of a network of attention and ReLU blocks in a box."""
    low, high = [Fraction(x) for x in low], [Fraction(x) for x in high]
    d = len(low)
    identity = tuple(tuple(Fraction(int(i == j)) for j in range(d + 1)) for i in range(d))
    cells = [RuleCell((), Piece.box(low, high), identity)]
    for block in network.blocks:
        through = THROUGH[type(block).__name__]
        cells = [
            replace(cell, states=(*cell.states, states), piece=piece, map=total)
            for cell in cells
            for states, piece, total in through(cell, block)
        ]
    if len({cell.states for cell in cells}) != len(cells):
        raise AssertionError("a state was listed twice")
    return RuleCells(cells)


def value_by_rules(network, point) -> list[Fraction]:
    """The output at one point, which may lie on walls: scores are constants there, and say who wins."""
    current = [(Fraction(x),) for x in point]
    for block in network.blocks:
        through = THROUGH[type(block).__name__]
        ((_, _, current),) = through(RuleCell((), Point(), tuple(current)), block)
    return [x for (x,) in current]


class Point:
    """A single point: a constant function is positive on it, or not."""

    def inside(self, row: Row) -> Point | None:
        return self if row[0] > 0 else None
