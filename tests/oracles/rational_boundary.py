"""The decision boundary of a network in the plane by brute force, in rationals: slow, plain, and right.

The cells come from the rational enumerator; each is clipped once per class by ``f_c >= f_k`` for all other
classes k, the lowest class having what outputs share. Every edge of every part is compared with every edge of
every part of another class on the same line. Distances to a segment are the smallest value at its ends and at
the places where a norm can bend.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, pairwise
from math import hypot, inf

import numpy as np

import hardmax as hm

from .random_networks import NUMBERS, Instance, instance
from .rational_regions import Cell, Point, _along, _edges, _minus, clip, enumerate_rationally

Place = tuple[Fraction, Fraction]


def classifier(number: int, *, structured: bool = False) -> Instance:
    """A small network with one to four outputs, some of them equal, constant, or parallel to others.

    Of the ``structured`` ones all are integer, ternary, lattice or otherwise full of ties.
    """
    case = instance(number)
    if structured:
        from .structured_networks import structured_instance

        case = structured_instance(number, dimension=2)
    rng = np.random.default_rng([20241, number])
    blocks = list(case.network.blocks)
    if rng.random() < 0.75:
        e, m = case.network.d_out, int(rng.integers(1, 5))
        numbers = NUMBERS["integer" if rng.random() < 0.6 else str(rng.choice(list(NUMBERS)))]
        w, b = numbers(rng, (m, e)), numbers(rng, (m,))
        for row in range(m):
            way = rng.random()
            if way < 0.15:  # a constant output
                w[row] = w[row] * 0
            elif way < 0.3:  # one output twice
                w[row], b[row] = w[0], b[0]
            elif way < 0.4:  # parallel to another
                w[row] = w[-1]
        blocks.append(hm.Affine(w, b))
    return replace(case, network=hm.Network(blocks))


@dataclass(frozen=True)
class Piece:
    """A segment between two parts, given by (cell, class): its ends, and whether outputs jump across it."""

    parts: tuple[tuple[int, int], tuple[int, int]]  # the lower class first
    ends: tuple[Point, Point]  # homogeneous
    jumps: bool

    @property
    def finite_ends(self) -> set[Place]:
        return {(Fraction(x, t), Fraction(y, t)) for x, y, t in self.ends if t}

    @property
    def length(self) -> float:
        if any(t == 0 for _, _, t in self.ends):
            return inf
        (x, y), (u, v) = self.finite_ends
        return hypot(float(x - u), float(y - v))  # nothing cancels after the subtraction


@dataclass(frozen=True)
class RationalBoundary:
    n_cells: int
    parts: list[tuple[int, int, Cell]]
    pieces: list[Piece]
    n_decision_regions: int

    @property
    def cells(self) -> list[Cell]:
        return [part for _, _, part in self.parts]

    @property
    def adjacency(self) -> dict:
        return {piece.parts: "wall" if piece.jumps else "fold" for piece in self.pieces}

    @property
    def n_regions(self) -> int:
        return self.n_decision_regions

    def classes(self, m: int) -> np.ndarray:
        table = np.zeros((self.n_cells, m), dtype=bool)
        for cell, c, _ in self.parts:
            table[cell, c] = True
        return table


def boundary_rationally(network, domain) -> RationalBoundary:
    found = enumerate_rationally(network, domain)
    parts: list[tuple[int, int, Cell]] = []
    for i, cell in enumerate(found.cells):
        rows = list(cell.map.rows)
        if len(rows) == 1:
            rows = [(0, 0, 0), rows[0]]
        for c, row in enumerate(rows):
            if row in rows[:c]:
                continue
            polygons = []
            for polygon in cell.polygons:
                part = polygon
                for other in rows:
                    if other != row:
                        part = part and clip(part, _minus(row, other))
                if part:
                    polygons.append(part)
            if polygons:
                parts.append((i, c, replace(cell, polygons=polygons)))
    segments: dict[tuple[int, int], list] = defaultdict(list)
    touching = set()
    for line, edges in _edges([part for _, _, part in parts]).items():
        place = _along(line)
        for first, second in combinations(edges, 2):
            a, b = sorted((first.cell, second.cell))
            low, high = max(first.low, second.low, key=place), min(first.high, second.high, key=place)
            if a == b or not place(low) < place(high):
                continue
            touching.add((a, b))
            if parts[a][1] != parts[b][1]:
                segments[a, b].append((place(low), low, place(high), high))
    pieces = []
    for (a, b), found_here in segments.items():
        found_here.sort(key=lambda s: s[0])
        for (_, _, end, _), (start, _, _, _) in pairwise(found_here):
            assert end == start, "two convex sets meet in one segment"
        ends = found_here[0][1], found_here[-1][3]
        seen = [end for _, low, _, high in found_here for end in (low, high)]  # of a line also a finite point
        jumps = not all(parts[a][2].map.agrees_at(parts[b][2].map, end) for end in seen)
        a, b = sorted((a, b), key=lambda k: parts[k][1])
        pieces.append(Piece((parts[a][:2], parts[b][:2]), ends, jumps))
    return RationalBoundary(found.n_cells, parts, pieces, _components(parts, touching))


def _components(parts, touching) -> int:
    root = list(range(len(parts)))

    def find(i: int) -> int:
        while root[i] != i:
            i = root[i]
        return i

    for a, b in touching:
        if parts[a][1] == parts[b][1]:
            root[find(a)] = find(b)
    return len({find(i) for i in range(len(parts))})


# Distances ----------------------------------------------------------------------------------------------


def length_of(dx: Fraction, dy: Fraction, norm: str) -> Fraction:
    """A norm; of norm 2 its square."""
    if norm == "2":
        return dx * dx + dy * dy
    return max(abs(dx), abs(dy)) if norm == "inf" else abs(dx) + abs(dy)


def segment_distance(piece: Piece, p: Place, norm: str) -> Fraction:
    """The distance of a point to a segment or ray: the least at the places where the norm can be lowest."""
    (x, y, s), (u, v, t) = piece.ends
    if s == 0 and t == 0:  # a line: it has no end; its row gives a point of it
        raise ValueError("a whole line")
    if s == 0:
        (x, y, s), (u, v, t) = (u, v, t), (x, y, s)
    start = Fraction(x, s), Fraction(y, s)
    run = (Fraction(u, t) - start[0], Fraction(v, t) - start[1]) if t else (Fraction(u), Fraction(v))
    dx, dy = start[0] - p[0], start[1] - p[1]
    places = [Fraction(0)] + ([Fraction(1)] if t else [])
    for a, b in ((dx, run[0]), (dy, run[1]), (dx - dy, run[0] - run[1]), (dx + dy, run[0] + run[1])):
        if b:
            places.append(-a / b)
    places.append(-(dx * run[0] + dy * run[1]) / (run[0] ** 2 + run[1] ** 2))
    inside = [at for at in places if at >= 0 and (t == 0 or at <= 1)]
    return min(length_of(dx + at * run[0], dy + at * run[1], norm) for at in inside)


def edge_distance(domain, p: Place, norm: str) -> Fraction | None:
    """The distance to the rim of a domain A x <= b; of norm 2 its square."""
    from .rational_regions import exact

    found = []
    for (a, b), right in zip(exact(domain.a), exact(domain.b), strict=True):
        room = right - a * p[0] - b * p[1]
        if norm == "2":
            found.append(room * room / (a * a + b * b))
        else:
            found.append(room / (abs(a) + abs(b) if norm == "inf" else max(abs(a), abs(b))))
    return min(found, default=None)


# Judging ------------------------------------------------------------------------------------------------


def any_classifier(number: int) -> Instance:
    """Every third one is structured."""
    return classifier(number, structured=number % 3 == 2)


@dataclass(frozen=True)
class Judgement:
    """What a sweep sums up: pieces count as contacts, those with a jump as walls."""

    expected: RationalBoundary
    problems: list[str]
    n_rational: int = 0


def judge_boundary(case: Instance, arithmetics: tuple[str, ...] = ("certified",)) -> Judgement:
    """Hold the boundary of a classifier against this module."""
    found = [boundary_problems(case, arithmetic) for arithmetic in arithmetics]
    return Judgement(found[0][0], [problem for _, problems in found for problem in problems])


def boundary_problems(case: Instance, arithmetic: str = "certified") -> tuple[RationalBoundary, list[str]]:
    """What differs between the boundary of the library and that of this module."""
    network, domain = case.network, case.domain
    expected = boundary_rationally(network, domain)
    found = hm.decision_boundary(network, domain, arithmetic=arithmetic)
    problems = []
    if not (found.complete and found.exact):
        problems.append("is not complete or not exact")
    numbered = list(zip(found.cell_of_class_cell.tolist(), found.class_of_cell.tolist(), strict=True))
    if numbered != sorted(part[:2] for part in expected.parts):
        return expected, [f"class cells {numbered}, not {[part[:2] for part in expected.parts]}"]
    if found.n_decision_regions != expected.n_decision_regions:
        problems.append(f"{found.n_decision_regions} decision regions, not {expected.n_decision_regions}")
    known = {piece.parts: piece for piece in expected.pieces}
    have = {}
    for piece in found:
        (i, j), (a, b) = piece.cells, piece.classes
        have[(i, a), (j, b)] = piece
    if len(have) != len(found) or have.keys() != known.keys():
        return expected, [*problems, f"pieces {sorted(have)}, not {sorted(known)}"]
    polygons = {part[:2]: part[2].polygons for part in expected.parts}
    for parts, piece in have.items():
        want = known[parts]
        if {tuple(point) for point in piece.exact_vertices} != want.finite_ends:
            problems.append(f"ends {piece.exact_vertices} of {parts}, not {want.finite_ends}")
        if piece.jump != want.jumps:
            problems.append(f"jump {piece.jump} at {parts}")
        if not (piece.size == want.length or abs(piece.size - want.length) <= 1e-9 * want.length):
            problems.append(f"length {piece.size} of {parts}, not {want.length}")
        a, b, right = found.exact_hyperplane(piece.index)
        for side, sign in zip(parts, (1, -1), strict=True):
            corners = [corner for polygon in polygons[side] for corner in polygon]
            if any(sign * (a * x + b * y - right * t) > 0 for x, y, t in corners):
                problems.append(f"the hyperplane of {parts} has the wrong side or place")
    if not np.array_equal(hm.enumerate_regions(network, domain).classes, expected.classes(found.n_classes)):
        problems.append("classes of cells differ")
    return expected, problems + _distance_problems(case, found, expected)


def _distance_problems(case: Instance, found, expected: RationalBoundary) -> list[str]:
    rng = np.random.default_rng([20242, case.number])
    problems = []
    for norm in ("1", "2", "inf"):
        _, _, part = expected.parts[int(rng.integers(len(expected.parts)))]
        p = _inner_point(part, rng)
        if any(all(t == 0 for _, _, t in piece.ends) for piece in expected.pieces):
            return problems  # whole lines: other tests
        lengths = [segment_distance(piece, p, norm) for piece in expected.pieces]
        answer = found.distance(np.array(p, dtype=object), norm)
        if answer.exact != min(lengths, default=None):
            problems.append(
                f"distance {answer.exact} of {p} in norm {norm}, not {min(lengths, default=None)}"
            )
            continue
        if answer.edge != edge_distance(case.domain, p, norm):
            problems.append(f"rim at {answer.edge} of {p} in norm {norm}")
        if answer.exact is None:
            continue
        x, y = answer.exact_nearest
        if length_of(x - p[0], y - p[1], norm) != answer.exact:
            problems.append(f"the nearest point of {p} in norm {norm} is not at its distance")
        want = next(
            piece
            for piece in expected.pieces
            if piece.parts == tuple(zip(found[answer.piece].cells, found[answer.piece].classes, strict=True))
        )
        if segment_distance(want, (x, y), "1") != 0:
            problems.append(f"the nearest point of {p} in norm {norm} is not on its piece")
    return problems


def _inner_point(part: Cell, rng) -> Place:
    """A rational point of a part: weights on the corners of one of its polygons."""
    polygon = part.polygons[0]
    weights = [Fraction(int(w)) for w in rng.integers(1, 9, len(polygon))]
    scale = sum((w for w, (_, _, t) in zip(weights, polygon, strict=True) if t), Fraction(0))
    x = y = Fraction(0)
    for w, (u, v, t) in zip(weights, polygon, strict=True):
        x, y = x + w / scale * Fraction(u, t or 1), y + w / scale * Fraction(v, t or 1)
    return x, y
