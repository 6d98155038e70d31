"""Cells and regions of a network in the plane by brute force, in integers: slow, plain, and right.

Nothing here is shared with the library: the blocks are read number by number, and every decision is the sign
of an integer. A cell is carried as convex polygons through the blocks:

* a head clips a polygon by ``s_j >= s_i`` for every other key i, once for each key j, and keeps what has
  area; keys whose scores are the same function on the cell are one key (lowest index, mean of the outputs);
* a ReLU unit clips it by ``z >= 0`` and by ``z <= 0``; a unit that is zero on the whole cell is off;
* a group of a maxout block clips it like a head, and its winning score goes on.

A polygon is a list of homogeneous integer vertices ``(X, Y, T)``, counterclockwise: the point (X/T, Y/T), or
for T = 0 the direction (X, Y) of a ray. Clipping is the same for both, so the whole plane needs no other
rule: it starts as four quadrants, and a cell is the union of its at most four pieces. A map is a list of rows
``(a, b, c)`` of integers over one positive denominator: row . (x, y, 1).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, cmp_to_key
from itertools import combinations
from math import gcd, hypot, inf, lcm

import numpy as np

Point = tuple[int, int, int]
Row = tuple[int, int, int]
Polygon = list[Point]

# ----------------------------------------------------------------------------------------------
# Numbers
# ----------------------------------------------------------------------------------------------


def exact(array) -> np.ndarray:
    """The numbers of an ``ExactArray`` as an object array of ``Fraction``."""
    source = array.fractions if array.fractions is not None else array.floats
    values = np.empty(source.shape, dtype=object)
    for index in np.ndindex(source.shape):
        values[index] = Fraction(source[index])
    return values


def integers(values: np.ndarray) -> tuple[list, int]:
    """Nested lists of integers, and the positive denominator that fractions have in common."""
    denominator = lcm(*(v.denominator for v in values.flat)) if values.size else 1
    numerators = np.empty(values.shape, dtype=object)
    for index, value in np.ndenumerate(values):
        numerators[index] = value.numerator * (denominator // value.denominator)
    return numerators.tolist(), denominator


def reduced(vector: tuple[int, ...]) -> tuple[int, ...]:
    """The same vector up to a positive factor, without common divisor."""
    divisor = gcd(*vector)
    return vector if divisor <= 1 else tuple(v // divisor for v in vector)


# ----------------------------------------------------------------------------------------------
# Maps
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """The affine map (x, y) -> rows . (x, y, 1) / denominator, in lowest terms: equal maps are equal."""

    rows: tuple[Row, ...]
    denominator: int

    @classmethod
    def of(cls, rows, denominator: int) -> Map:
        divisor = gcd(denominator, *(v for row in rows for v in row))
        return cls(tuple(tuple(v // divisor for v in row) for row in rows), denominator // divisor)

    def then(self, weights, offsets) -> Map:
        """Weights . self + offsets, both given as (integers, denominator)."""
        (w, w_den), (b, b_den) = weights, offsets
        rows = []
        for w_row, offset in zip(w, b, strict=True):
            row = [0, 0, 0]
            for weight, hidden in zip(w_row, self.rows, strict=True):
                for k in range(3):
                    row[k] += weight * hidden[k]
            row = [v * b_den for v in row]
            row[2] += offset * w_den * self.denominator
            rows.append(row)
        return Map.of(rows, self.denominator * w_den * b_den)

    def __add__(self, other: Map) -> Map:
        p, q = self.denominator, other.denominator
        rows = [
            [a * q + b * p for a, b in zip(u, v, strict=True)]
            for u, v in zip(self.rows, other.rows, strict=True)
        ]
        return Map.of(rows, p * q)

    @classmethod
    def constant(cls, values: list[Fraction]) -> Map:
        denominator = lcm(*(v.denominator for v in values))
        return cls.of([(0, 0, int(v * denominator)) for v in values], denominator)

    @property
    def linear(self) -> list[list[Fraction]]:
        return [[Fraction(v, self.denominator) for v in row[:2]] for row in self.rows]

    @property
    def offset(self) -> list[Fraction]:
        return [Fraction(row[2], self.denominator) for row in self.rows]

    def __call__(self, x: Fraction, y: Fraction) -> list[Fraction]:
        return [(a * x + b * y + c) / self.denominator for a, b, c in self.rows]

    def agrees_at(self, other: Map, point: Point) -> bool:
        """Whether both maps have the same value at a point, or grow alike in a direction (T = 0)."""
        return all(
            value(u, point) * other.denominator == value(v, point) * self.denominator
            for u, v in zip(self.rows, other.rows, strict=True)
        )


# ----------------------------------------------------------------------------------------------
# Polygons
# ----------------------------------------------------------------------------------------------


def value(row: Row, point: Point) -> int:
    return row[0] * point[0] + row[1] * point[1] + row[2] * point[2]


def _minus(u: Row, v: Row) -> Row:
    return u[0] - v[0], u[1] - v[1], u[2] - v[2]


def clip(polygon: Polygon, row: Row) -> Polygon | None:
    """The part of a polygon where ``row . (x, y, 1) >= 0``; None if it has no area."""
    values = [value(row, vertex) for vertex in polygon]
    if min(values) >= 0:
        return polygon if max(values) > 0 else None
    if max(values) <= 0:
        return None
    kept = []
    for i, here in enumerate(values):
        before = values[i - 1]
        if (before < 0 < here) or (here < 0 < before):  # the edge crosses the line between its ends
            p, q = (polygon[i - 1], polygon[i]) if before > 0 else (polygon[i], polygon[i - 1])
            up, down = (before, -here) if before > 0 else (here, -before)
            kept.append(reduced(tuple(down * a + up * b for a, b in zip(p, q, strict=True))))
        if here >= 0:
            kept.append(polygon[i])
    return kept


def area(polygon: Polygon) -> Fraction | None:
    """The exact area; None for an unbounded polygon."""
    if any(t == 0 for _, _, t in polygon):
        return None
    (x, y, s), twice = polygon[-1], Fraction(0)
    for u, v, t in polygon:
        twice += Fraction(x * v - u * y, s * t)
        x, y, s = u, v, t
    return twice / 2


def line_through(p: Point, q: Point) -> Row:
    """The line of an edge from p to q: ``row . (x, y, 1) >= 0`` on its left."""
    return reduced((p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]))


QUADRANTS = [
    [(0, 0, 1), (1, 0, 0), (0, 1, 0)],
    [(0, 0, 1), (0, 1, 0), (-1, 0, 0)],
    [(0, 0, 1), (-1, 0, 0), (0, -1, 0)],
    [(0, 0, 1), (0, -1, 0), (1, 0, 0)],
]


def pieces_of(domain) -> list[Polygon]:
    """A domain A x <= b as convex polygons: one if it is bounded, else its parts in the quadrants."""
    sides = []
    for (a, b), right in zip(exact(domain.a), exact(domain.b), strict=True):
        scale = lcm(a.denominator, b.denominator, right.denominator)
        sides.append((int(-a * scale), int(-b * scale), int(right * scale)))
    pieces = []
    for quadrant in QUADRANTS:
        polygon: Polygon | None = quadrant
        for side in sides:
            polygon = polygon and clip(polygon, side)
        if polygon:
            pieces.append(polygon)
    if not pieces:
        raise ValueError("the domain has no interior")
    if any(t == 0 for piece in pieces for _, _, t in piece):
        return pieces
    return [_hull({vertex for piece in pieces for vertex in piece})]


def _hull(points: set[Point]) -> Polygon:
    """The vertices of the convex hull of finite points, counterclockwise: lower chain, then upper chain."""
    places = {p: (Fraction(p[0], p[2]), Fraction(p[1], p[2])) for p in points}

    def turn(o: Point, p: Point, q: Point) -> int:  # > 0 if q lies left of the line from o to p
        return value(line_through(o, p), q)

    def chain(ordered: list[Point]) -> list[Point]:
        kept: list[Point] = []
        for point in ordered:
            while len(kept) >= 2 and turn(kept[-2], kept[-1], point) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    ordered = sorted(points, key=places.__getitem__)
    return chain(ordered) + chain(ordered[::-1])


# ----------------------------------------------------------------------------------------------
# Cells
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One signature: ``routings`` of all heads, ``bits`` (0 or 1) of all units, the pieces, the map.

    ``path`` is the signature block by block, which gives the order of the cells.
    """

    routings: tuple[int, ...]
    bits: tuple[int, ...]
    path: tuple[tuple[str, tuple[int, ...]], ...]
    polygons: list[Polygon]
    map: Map

    @property
    def signature(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.routings, self.bits

    @property
    def bounded(self) -> bool:
        return all(t > 0 for polygon in self.polygons for _, _, t in polygon)

    @cached_property
    def area(self) -> Fraction | None:
        return sum((area(polygon) for polygon in self.polygons), Fraction(0)) if self.bounded else None

    def contains(self, x: Fraction, y: Fraction) -> bool:
        """Whether the closed cell contains a point."""
        return any(
            all(
                sum(c * v for c, v in zip(line_through(polygon[i - 1], polygon[i]), (x, y, 1), strict=True))
                >= 0
                for i in range(len(polygon))
            )
            for polygon in self.polygons
        )


def _split(polygons: list[Polygon], half_planes: dict) -> dict:
    """For every option that wins somewhere, the parts of the polygons inside all its half-planes."""
    found = {}
    for option, rows in half_planes.items():
        kept = []
        for polygon in polygons:
            part: Polygon | None = polygon
            for row in rows:
                part = part and clip(part, row)
            if part:
                kept.append(part)
        if kept:
            found[option] = kept
    return found


def _through_attention(cells: list[Cell], block) -> list[Cell]:
    """Every cell, cut by the heads one after the other, with the sum of the winners' outputs."""
    outputs = exact(block.outputs)
    keys_of = _present(block)
    scores = [
        (integers(exact(block.scores)[head][keys]), integers(exact(block.biases)[head][keys]))
        for head, keys in enumerate(keys_of)
    ]
    children = []
    for cell in cells:
        parts: list[tuple] = [((), cell.polygons, [Fraction(0)] * outputs.shape[2])]
        for head, keys in enumerate(keys_of):
            tied = defaultdict(list)  # the keys of each score function; the first has the lowest index
            for j, score in zip(keys, cell.map.then(*scores[head]).rows, strict=True):
                tied[score].append(j)
            half_planes = {
                score: [
                    tuple(u - v for u, v in zip(score, rival, strict=True))
                    for rival in tied
                    if rival != score
                ]
                for score in tied
            }
            found = []
            for winners, polygons, total in parts:
                for score, pieces in _split(polygons, half_planes).items():
                    together = tied[score]
                    mean = outputs[head][together].sum(axis=0) / len(together)
                    found.append(((*winners, together[0]), pieces, total + mean))
            parts = found
        for winners, polygons, total in parts:
            constant = Map.constant(list(total))
            children.append(
                replace(
                    cell,
                    routings=cell.routings + winners,
                    path=(*cell.path, ("wall", winners)),
                    polygons=polygons,
                    map=cell.map + constant if block.skip else constant,
                )
            )
    return children


def _through_maxout(cells: list[Cell], block) -> list[Cell]:
    """Every cell, cut by the groups one after the other, with the winning scores as hidden vector."""
    keys_of = _present(block)
    scores = [
        (integers(exact(block.scores)[group][keys]), integers(exact(block.biases)[group][keys]))
        for group, keys in enumerate(keys_of)
    ]
    groups = len(keys_of)
    identity = [[int(i == j) for j in range(groups)] for i in range(groups)], 1
    w_out = identity if block.w_out is None else integers(exact(block.w_out))
    b_out = integers(exact(block.b_out))
    children = []
    for cell in cells:
        parts: list[tuple] = [((), cell.polygons, [])]
        for group, keys in enumerate(keys_of):
            composed = cell.map.then(*scores[group])
            first: dict[Row, int] = {}
            for j, score in zip(keys, composed.rows, strict=True):
                first.setdefault(score, j)
            half_planes = {
                score: [_minus(score, rival) for rival in first if rival != score] for score in first
            }
            parts = [
                ((*winners, first[score]), pieces, [*rows, (score, composed.denominator)])
                for winners, polygons, rows in parts
                for score, pieces in _split(polygons, half_planes).items()
            ]
        for winners, polygons, rows in parts:
            common = lcm(*(denominator for _, denominator in rows))
            maxima = Map.of([tuple(v * (common // q) for v in row) for row, q in rows], common)
            output = maxima.then(w_out, b_out)
            children.append(
                replace(
                    cell,
                    routings=cell.routings + winners,
                    path=(*cell.path, ("fold", winners)),
                    polygons=polygons,
                    map=cell.map + output if block.skip else output,
                )
            )
    return children


def _present(block) -> list[list[int]]:
    """The keys of every head that are not masked."""
    heads, n_tokens = block.scores.shape[:2]
    mask = np.ones((heads, n_tokens), dtype=bool) if block.mask is None else np.asarray(block.mask)
    return [[j for j in range(n_tokens) if mask[head, j]] for head in range(heads)]


def _through_feed_forward(cells: list[Cell], block) -> list[Cell]:
    """Every cell, cut by the units one after the other."""
    width = block.b_in.shape[0]
    identity = [[int(i == j) for j in range(width)] for i in range(width)], 1
    w_in = identity if block.w_in is None else integers(exact(block.w_in))
    b_in, w_out, b_out = (integers(exact(array)) for array in (block.b_in, block.w_out, block.b_out))
    slopes, unit = integers(exact(block.slope))
    children = []
    for cell in cells:
        units = cell.map.then(w_in, b_in)
        parts: list[tuple] = [((), cell.polygons)]
        for z in units.rows:
            found = []
            for bits, polygons in parts:
                if any(z):
                    sides = _split(polygons, {0: [_minus((0, 0, 0), z)], 1: [z]})
                    found += [((*bits, bit), pieces) for bit, pieces in sides.items()]
                else:  # zero on the whole cell: off
                    found.append(((*bits, 0), polygons))
            parts = found
        for bits, polygons in parts:
            rows = [
                tuple(v * (unit if on else slope) for v in row)
                for row, on, slope in zip(units.rows, bits, slopes, strict=True)
            ]
            output = Map.of(rows, units.denominator * unit).then(w_out, b_out)
            children.append(
                replace(
                    cell,
                    bits=cell.bits + bits,
                    path=(*cell.path, ("fold", bits)),
                    polygons=polygons,
                    map=cell.map + output if block.skip else output,
                )
            )
    return children


def _through_experts(cells: list[Cell], block) -> list[Cell]:
    """Every cell, cut by all sets of k experts, then by the units of those that run.

    Where the scores of two experts are the same function, the one with the lower index is better.
    """
    router = integers(exact(block.router)), integers(exact(block.router_bias))
    n, k = block.n_experts, block.k
    children = []
    for cell in cells:
        scores = cell.map.then(*router).rows
        half_planes = {}
        for runs in combinations(range(n), k):
            rivals = [(e, f) for e in runs for f in range(n) if f not in runs]
            if all(scores[e] != scores[f] or e < f for e, f in rivals):
                half_planes[runs] = [
                    _minus(scores[e], scores[f]) for e, f in rivals if scores[e] != scores[f]
                ]
        for runs, polygons in _split(cell.polygons, half_planes).items():
            wall = (*cell.path, ("wall", tuple(int(e not in runs) for e in range(n))))
            parts = [(replace(cell, bits=(), path=wall, polygons=polygons), (), [])]
            for e, expert in enumerate(block.experts):
                if e not in runs:
                    off = (0,) * expert.width
                    parts = [(part, (*bits, *off), maps) for part, bits, maps in parts]
                    continue
                found = []
                for part, bits, maps in parts:
                    for child in _through_feed_forward([replace(part, bits=(), map=cell.map)], expert):
                        found.append((child, (*bits, *child.bits), [*maps, child.map]))
                parts = found
            for part, bits, maps in parts:
                total = maps[0]
                for one in maps[1:]:
                    total = total + one
                total = Map.of(total.rows, total.denominator * k)
                chosen = tuple(int(e in runs) for e in range(n))
                children.append(
                    replace(
                        part,
                        bits=(*cell.bits, *chosen, *bits),
                        map=cell.map + total if block.skip else total,
                    )
                )
    return children


def _through_affine(cells: list[Cell], block) -> list[Cell]:
    w, b = integers(exact(block.w)), integers(exact(block.b))
    return [replace(cell, map=cell.map.then(w, b)) for cell in cells]


THROUGH = {
    "Attention": _through_attention,
    "FeedForward": _through_feed_forward,
    "Maxout": _through_maxout,
    "MixtureOfExperts": _through_experts,
    "Affine": _through_affine,
}


# ----------------------------------------------------------------------------------------------
# Adjacency and regions
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contact:
    """Two cells (by index) whose closures meet in a segment, its ends, what it is, whether the map jumps, how
    long it is.

    ``kind`` is "wall" or "fold": the block where the two signatures part. Up to there both cells have the
    same map, so the segment lies on a line drawn in that block.
    """

    cells: tuple[int, int]
    ends: tuple[Point, Point]
    kind: str
    jumps: bool
    length: float


@dataclass(frozen=True)
class _Edge:
    """An edge of a cell on a line: from ``low`` to ``high`` along it, the cell on its left or right."""

    cell: int
    left: bool
    low: Point
    high: Point


def _along(line: Row):
    """Sorting key of points of a line by their place on it, the two points at infinity included."""

    def compare(p: Point, q: Point) -> int:
        u, v = (line[1] * r[0] - line[0] * r[1] for r in (p, q))  # left of (b, -a) lies a x + b y + c > 0
        if p[2] and q[2]:
            difference = u * q[2] - v * p[2]
        else:
            difference = (0 if p[2] else (u > 0) - (u < 0)) - (0 if q[2] else (v > 0) - (v < 0))
        return (difference > 0) - (difference < 0)

    return cmp_to_key(compare)


def _edges(cells: list[Cell]) -> dict[Row, list[_Edge]]:
    """The edges of all cells, by their line. Edges at infinity are left out."""
    lines = defaultdict(list)
    for index, cell in enumerate(cells):
        for polygon in cell.polygons:
            for i, q in enumerate(polygon):
                p = polygon[i - 1]
                if p[2] == 0 and q[2] == 0:
                    continue
                line = line_through(p, q)
                left = line > _minus((0, 0, 0), line)  # the orientation chosen for this line
                edge = _Edge(index, left, p, q) if left else _Edge(index, left, q, p)
                lines[line if left else _minus((0, 0, 0), line)].append(edge)
    return lines


def _contacts(cells: list[Cell]) -> list[Contact]:
    longest: dict[tuple[int, int], list[tuple[Point, Point]]] = defaultdict(list)
    for line, edges in _edges(cells).items():
        place = _along(line)
        for first, second in combinations(edges, 2):
            if first.cell == second.cell:
                continue  # two pieces of one cell
            low, high = max(first.low, second.low, key=place), min(first.high, second.high, key=place)
            if place(low) < place(high):
                if first.left == second.left:
                    raise AssertionError(f"cells {first.cell} and {second.cell} overlap")
                pair = tuple(sorted((first.cell, second.cell)))
                longest[pair].append((low, high))
    contacts = []
    for (i, j), segments in sorted(longest.items()):
        a, b = cells[i], cells[j]
        kind = next(kind for (kind, u), (_, v) in zip(a.path, b.path, strict=True) if u != v)
        jumps = not all(a.map.agrees_at(b.map, end) for segment in segments for end in segment)
        contacts.append(Contact((i, j), segments[0], kind, jumps, sum(map(_length, segments))))
    return contacts


def _length(segment: tuple[Point, Point]) -> float:
    """The length of a segment: nothing cancels after the subtraction, and the root is taken in range."""
    (x, y, s), (u, v, t) = segment
    if s == 0 or t == 0:
        return inf
    steps = [abs(Fraction(x, s) - Fraction(u, t)), abs(Fraction(y, s) - Fraction(v, t))]
    longest = max(steps)
    try:
        return float(longest) * hypot(*(float(step / longest) for step in steps))
    except OverflowError:
        return inf


@dataclass(frozen=True)
class RationalRegions:
    """The answer: cells in the order of their signatures, block by block; contacts; regions."""

    cells: list[Cell]
    pieces: list[Polygon]

    @property
    def n_cells(self) -> int:
        return len(self.cells)

    @cached_property
    def signatures(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [cell.signature for cell in self.cells]

    @property
    def bounded(self) -> bool:
        return all(t > 0 for piece in self.pieces for _, _, t in piece)

    @cached_property
    def area(self) -> Fraction | None:
        """The area of the domain."""
        return sum((area(piece) for piece in self.pieces), Fraction(0)) if self.bounded else None

    @cached_property
    def contacts(self) -> list[Contact]:
        return _contacts(self.cells)

    @cached_property
    def adjacency(self) -> dict[tuple[int, int], str]:
        """The pairs (i < j) of adjacent cells with "wall" or "fold"."""
        return {contact.cells: contact.kind for contact in self.contacts}

    @cached_property
    def region_of_cell(self) -> list[int]:
        """The region of every cell, numbered in the order in which the regions first appear."""
        representative = list(range(self.n_cells))

        def find(i: int) -> int:
            while representative[i] != i:
                i = representative[i]
            return i

        for i, j in self.adjacency:
            if self.cells[i].map == self.cells[j].map:
                a, b = sorted((find(i), find(j)))
                representative[b] = a
        numbers: dict[int, int] = {}
        return [numbers.setdefault(find(i), len(numbers)) for i in range(self.n_cells)]

    @property
    def n_regions(self) -> int:
        return max(self.region_of_cell) + 1


def enumerate_rationally(network, domain) -> RationalRegions:
    """All cells of a network with two inputs on a domain of the plane."""
    if network.d != 2 or domain.d != 2:
        raise ValueError("this enumerator knows only the plane")
    pieces = pieces_of(domain)
    cells = [Cell((), (), (), pieces, Map(((1, 0, 0), (0, 1, 0)), 1))]
    for block in network.blocks:
        cells = THROUGH[type(block).__name__](cells, block)
    cells.sort(key=lambda cell: [choice for _, choice in cell.path])
    if len({cell.signature for cell in cells}) != len(cells):
        raise AssertionError("a signature was listed twice")
    return RationalRegions(cells, pieces)


# ----------------------------------------------------------------------------------------------
# One point
# ----------------------------------------------------------------------------------------------


def exact_forward(network, point) -> tuple[tuple[int, ...], tuple[int, ...], list[Fraction]]:
    """Routings, bits and output at one point in ``Fraction``: lowest index and mean of the tied keys."""
    hidden = np.array([Fraction(v) for v in point], dtype=object)
    routings: list[int] = []
    bits: list[int] = []
    for block in network.blocks:
        kind = type(block).__name__
        if kind == "Attention":
            scores, biases, outputs = exact(block.scores), exact(block.biases), exact(block.outputs)
            total = hidden if block.skip else np.array([Fraction(0)] * outputs.shape[2], dtype=object)
            for head, keys in enumerate(_present(block)):
                s = scores[head][keys] @ hidden + biases[head][keys]
                tied = [j for j, score in zip(keys, s, strict=True) if score == max(s)]
                routings.append(tied[0])
                total = total + outputs[head][tied].sum(axis=0) / len(tied)
            hidden = total
        elif kind == "FeedForward":
            z = (hidden if block.w_in is None else exact(block.w_in) @ hidden) + exact(block.b_in)
            bits += [int(v > 0) for v in z]
            seen = [v if v > 0 else slope * v for v, slope in zip(z, exact(block.slope), strict=True)]
            output = exact(block.w_out) @ np.array(seen, dtype=object)
            hidden = (hidden if block.skip else 0) + output + exact(block.b_out)
        elif kind == "Maxout":
            scores, biases, maxima = exact(block.scores), exact(block.biases), []
            for group, keys in enumerate(_present(block)):
                s = (scores[group][keys] @ hidden + biases[group][keys]).tolist()
                routings.append(keys[s.index(max(s))])
                maxima.append(max(s))
            output = np.array(maxima, dtype=object)
            output = output if block.w_out is None else exact(block.w_out) @ output
            hidden = (hidden if block.skip else 0) + output + exact(block.b_out)
        elif kind == "MixtureOfExperts":
            s = (exact(block.router) @ hidden + exact(block.router_bias)).tolist()
            runs = sorted(range(len(s)), key=lambda e: (-s[e], e))[: block.k]
            bits += [int(e in runs) for e in range(len(s))]
            total = np.array([Fraction(0)] * block.d_out, dtype=object)
            for e, expert in enumerate(block.experts):
                z = (hidden if expert.w_in is None else exact(expert.w_in) @ hidden) + exact(expert.b_in)
                bits += [int(e in runs and v > 0) for v in z]
                if e in runs:
                    total = total + exact(expert.w_out) @ np.maximum(z, 0) + exact(expert.b_out)
            hidden = (hidden if block.skip else 0) + total / block.k
        else:
            hidden = exact(block.w) @ hidden + exact(block.b)
    return tuple(routings), tuple(bits), list(hidden)
