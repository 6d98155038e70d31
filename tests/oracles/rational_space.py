"""Cells and regions of a network in any dimension by brute force, in integers: slow, plain, and right.

The enumerator of the plane (``rational_regions``) cuts polygons; this one cuts cones. A polyhedron in R^d is
the part of a cone in R^(d+1) where the last coordinate is positive: the integer vector (x_1, ..., x_d, x_0)
stands for the point x / x_0, or for x_0 = 0 for a direction. A cone is kept in both descriptions: the rows
``r . y >= 0`` that cut it out, and the lines and rays that generate it, every ray with the set of rows that
vanish on it (a bit set). One more row is the double description method:

* if the row does not vanish on some line, that line becomes a ray, and all else is moved along it into the
  hyperplane of the row;
* otherwise rays on the wrong side go, and every edge (two rays that no third ray shares all rows with)
  that crosses the hyperplane leaves a ray there.

So unbounded cells, and cells that contain lines, need no other rule. Heads and units are treated as in the
plane: a key wins where it beats every other key; keys with the same score on a cell are one key (lowest
index, mean of the outputs); a unit that is zero on the whole cell is off; the winning score of a maxout group
goes on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import factorial, gcd, lcm, prod

import numpy as np

from .rational_regions import _present, exact, integers, reduced

Vector = tuple[int, ...]  # (x_1, ..., x_d, x_0), or a row that is multiplied with it

# ----------------------------------------------------------------------------------------------
# Maps
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """The affine map x -> rows . (x, 1) / denominator, in lowest terms: equal maps are equal."""

    rows: tuple[Vector, ...]
    denominator: int

    @classmethod
    def of(cls, rows, denominator: int) -> Map:
        divisor = gcd(denominator, *(v for row in rows for v in row))
        return cls(tuple(tuple(v // divisor for v in row) for row in rows), denominator // divisor)

    @classmethod
    def identity(cls, d: int) -> Map:
        return cls(tuple(_unit(d + 1, i) for i in range(d)), 1)

    @classmethod
    def constant(cls, values: list[Fraction], d: int) -> Map:
        denominator = lcm(*(v.denominator for v in values))
        return cls.of([(*[0] * d, int(v * denominator)) for v in values], denominator)

    def then(self, weights, offsets) -> Map:
        """Weights . self + offsets, both given as (integers, denominator)."""
        (w, w_den), (b, b_den) = weights, offsets
        columns = list(zip(*self.rows, strict=True))
        rows = []
        for w_row, offset in zip(w, b, strict=True):
            row = [b_den * sum(u * v for u, v in zip(w_row, column, strict=True)) for column in columns]
            row[-1] += offset * w_den * self.denominator
            rows.append(row)
        return Map.of(rows, self.denominator * w_den * b_den)

    def __add__(self, other: Map) -> Map:
        p, q = self.denominator, other.denominator
        rows = [
            [a * q + b * p for a, b in zip(u, v, strict=True)]
            for u, v in zip(self.rows, other.rows, strict=True)
        ]
        return Map.of(rows, p * q)

    @property
    def linear(self) -> list[list[Fraction]]:
        return [[Fraction(v, self.denominator) for v in row[:-1]] for row in self.rows]

    @property
    def offset(self) -> list[Fraction]:
        return [Fraction(row[-1], self.denominator) for row in self.rows]

    def __call__(self, point) -> list[Fraction]:
        return [value(row, (*point, 1)) / Fraction(self.denominator) for row in self.rows]

    def agrees_on(self, other: Map, hyperplane: Vector) -> bool:
        """Whether both maps are the same where ``hyperplane . (x, 1) = 0``."""
        for u, v in zip(self.rows, other.rows, strict=True):
            difference = [a * other.denominator - b * self.denominator for a, b in zip(u, v, strict=True)]
            if any(difference) and not parallel(tuple(difference), hyperplane):
                return False
        return True


def _unit(n: int, i: int) -> Vector:
    return tuple(int(k == i) for k in range(n))


def value(row, vector):
    return sum(u * v for u, v in zip(row, vector, strict=True))


def minus(row: Vector) -> Vector:
    return tuple(-v for v in row)


def parallel(u: Vector, v: Vector) -> bool:
    """Whether two vectors, not zero, are multiples of each other."""
    u, v = reduced(u), reduced(v)
    return u in (v, minus(v))


# ----------------------------------------------------------------------------------------------
# Cones
# ----------------------------------------------------------------------------------------------


def _combined(p: int, u: Vector, q: int, v: Vector) -> Vector:
    return reduced(tuple(p * a + q * b for a, b in zip(u, v, strict=True)))


@dataclass(frozen=True)
class Cone:
    """A cone with interior: its rows, the lines in it, its rays, and for each ray the bit set of the rows
    that vanish on it."""

    rows: tuple[Vector, ...]
    lines: tuple[Vector, ...]
    rays: tuple[Vector, ...]
    masks: tuple[int, ...]

    @classmethod
    def whole(cls, d: int) -> Cone:
        """The half-space x_0 >= 0: all of R^d."""
        last = _unit(d + 1, d)
        return cls((last,), tuple(_unit(d + 1, i) for i in range(d)), (last,), (0,))

    def meets(self, row: Vector) -> bool:
        """Whether the part where the row is positive is not empty."""
        return any(value(row, ray) > 0 for ray in self.rays) or any(value(row, line) for line in self.lines)

    def clip(self, row: Vector) -> Cone | None:
        """The part where ``row . y >= 0``; None if it has no interior."""
        bit = 1 << len(self.rows)
        rows = (*self.rows, row)
        on_lines = [value(row, line) for line in self.lines]
        crossing = next((i for i, v in enumerate(on_lines) if v), None)
        if crossing is not None:
            along, step = self.lines[crossing], on_lines[crossing]
            if step < 0:
                along, step = minus(along), -step
            lines = tuple(
                _combined(step, line, -value(row, line), along)
                for i, line in enumerate(self.lines)
                if i != crossing
            )
            rays = tuple(_combined(step, ray, -value(row, ray), along) for ray in self.rays)
            masks = tuple(mask | bit for mask in self.masks)
            return Cone(rows, lines, (*rays, reduced(along)), (*masks, bit - 1))
        values = [value(row, ray) for ray in self.rays]
        if not any(v > 0 for v in values):
            return None
        if not any(v < 0 for v in values):
            if not any(v == 0 for v in values):
                return self  # the row touches nothing: it need not be remembered
            return replace(
                self,
                rows=rows,
                masks=tuple(m | bit * (v == 0) for m, v in zip(self.masks, values, strict=True)),
            )
        rays, masks = [], []
        for ray, mask, v in zip(self.rays, self.masks, values, strict=True):
            if v >= 0:
                rays.append(ray)
                masks.append(mask | bit * (v == 0))
        fewest = len(self.rows[0]) - len(self.lines) - 2  # an edge lies on so many rows at least
        for i, p in enumerate(values):
            for j, n in enumerate(values):
                if p > 0 > n:
                    common = self.masks[i] & self.masks[j]
                    if common.bit_count() >= fewest and not any(
                        mask & common == common and k not in (i, j) for k, mask in enumerate(self.masks)
                    ):
                        rays.append(_combined(p, self.rays[j], -n, self.rays[i]))
                        masks.append(common | bit)
        return Cone(rows, self.lines, tuple(rays), tuple(masks))

    @cached_property
    def facets(self) -> dict[int, int]:
        """The rows that are facets, the first of equal ones, each with its rays (a bit set): those whose sets
        are contained in no other."""
        on = [
            sum(1 << i for i, mask in enumerate(self.masks) if mask >> s & 1) for s in range(len(self.rows))
        ]
        return {
            s: rays
            for s, rays in enumerate(on)
            if not any(
                other & rays == rays and (other != rays or t < s) for t, other in enumerate(on) if t != s
            )
        }

    @cached_property
    def halfspaces(self) -> dict[Vector, int]:
        """The reduced rows of the facets that are not at infinity, each with the rays on it (a bit set)."""
        infinity = self.rows[0]
        return {reduced(self.rows[s]): rays for s, rays in self.facets.items() if self.rows[s] != infinity}

    @cached_property
    def interior(self) -> tuple[Fraction, ...]:
        """A point inside: the mean of the vertices, plus one step in every direction to infinity."""
        finite = [ray for ray in self.rays if ray[-1]]
        d = len(self.rows[0]) - 1
        centre = [
            sum((Fraction(ray[c], ray[-1]) for ray in finite), Fraction(0)) / len(finite) for c in range(d)
        ]
        for ray in self.rays:
            if not ray[-1]:
                centre = [c + v for c, v in zip(centre, ray[:-1], strict=True)]
        return tuple(centre)

    @property
    def bounded(self) -> bool:
        return not self.lines and all(ray[-1] for ray in self.rays)

    @cached_property
    def volume(self) -> Fraction | None:
        """The exact volume, by a triangulation that pulls the first vertex of every face; None if
        unbounded."""
        if not self.bounded:
            return None
        facets = list(self.facets.values())
        total = Fraction(0)
        for simplex in _simplices((1 << len(self.rays)) - 1, facets):
            rays = [self.rays[i] for i in simplex]
            total += Fraction(abs(_determinant(rays)), prod(ray[-1] for ray in rays))
        return total / factorial(len(self.rows[0]) - 1)

    def face(self, rays: int) -> Cone:
        """The face generated by some rays, as a cone of its own; it has no interior."""
        keep = [i for i in range(len(self.rays)) if rays >> i & 1]
        return replace(self, rays=tuple(self.rays[i] for i in keep), masks=tuple(self.masks[i] for i in keep))


def _simplices(face: int, facets: list[int]):
    """The simplices of a face (a bit set of vertices), as lists of vertices."""
    first = (face & -face).bit_length() - 1
    if face == 1 << first:
        yield [first]
        return
    smaller = {face & facet for facet in facets} - {face}
    for below in smaller:
        if not below >> first & 1 and not any(below & other == below and other != below for other in smaller):
            for simplex in _simplices(below, facets):
                yield [first, *simplex]


def _determinant(rows) -> int:
    """By fraction-free elimination."""
    m = [list(row) for row in rows]
    sign, before = 1, 1
    for k in range(len(m) - 1):
        pivot = next((i for i in range(k, len(m)) if m[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            m[k], m[pivot], sign = m[pivot], m[k], -sign
        for i in range(k + 1, len(m)):
            for j in range(k + 1, len(m)):
                m[i][j] = (m[i][j] * m[k][k] - m[i][k] * m[k][j]) // before
        before = m[k][k]
    return sign * m[-1][-1]


def cone_of(domain) -> Cone:
    """A domain A x <= b."""
    cone: Cone | None = Cone.whole(domain.d)
    for a, right in zip(exact(domain.a), exact(domain.b), strict=True):
        row = integers(np.array([*(-v for v in a), right], dtype=object))[0]
        cone = cone and cone.clip(reduced(tuple(row)))
    if cone is None:
        raise ValueError("the domain has no interior")
    return cone


# ----------------------------------------------------------------------------------------------
# Cells
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One signature: ``routings`` of all heads, ``bits`` (0 or 1) of all units, the cone, the map.

    ``path`` is the signature block by block, which gives the order of the cells.
    """

    routings: tuple[int, ...]
    bits: tuple[int, ...]
    path: tuple[tuple[str, tuple[int, ...]], ...]
    cone: Cone
    map: Map

    @property
    def signature(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.routings, self.bits

    @property
    def bounded(self) -> bool:
        return self.cone.bounded

    @property
    def witness(self) -> tuple[Fraction, ...]:
        return self.cone.interior

    @property
    def volume(self) -> Fraction | None:
        return self.cone.volume

    @property
    def vertices(self) -> set[tuple[Fraction, ...]]:
        """The finite vertices; none for a cell that contains lines."""
        if self.cone.lines:
            return set()
        return {tuple(Fraction(v, ray[-1]) for v in ray[:-1]) for ray in self.cone.rays if ray[-1]}

    @property
    def halfspaces(self) -> set[Vector]:
        """Reduced integer rows with ``row . (x, 1) >= 0`` on the cell, one for every facet."""
        return set(self.cone.halfspaces)

    def contains(self, point, *, strictly: bool = False) -> bool:
        """Whether the closed cell, or its interior, contains a point."""
        heights = [value(row, (*point, 1)) for row in self.cone.halfspaces]
        return all(v > 0 for v in heights) if strictly else all(v >= 0 for v in heights)


def _inside(cone: Cone | None, rows) -> Cone | None:
    for row in rows:
        cone = cone and cone.clip(row)
    return cone


def _ahead(score: Vector, rival: Vector) -> Vector:
    return reduced(tuple(u - v for u, v in zip(score, rival, strict=True)))


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
        d = len(cell.cone.rows[0]) - 1
        parts: list[tuple] = [((), cell.cone, [Fraction(0)] * outputs.shape[2])]
        for head, keys in enumerate(keys_of):
            tied = defaultdict(list)  # the keys of each score function; the first has the lowest index
            for j, score in zip(keys, cell.map.then(*scores[head]).rows, strict=True):
                tied[score].append(j)
            found = []
            for winners, cone, total in parts:
                for score, together in tied.items():
                    ahead = (_ahead(score, rival) for rival in tied if rival != score)
                    part = _inside(cone, ahead)
                    if part:
                        mean = outputs[head][together].sum(axis=0) / len(together)
                        found.append(((*winners, together[0]), part, total + mean))
            parts = found
        for winners, cone, total in parts:
            constant = Map.constant(list(total), d)
            children.append(
                replace(
                    cell,
                    routings=cell.routings + winners,
                    path=(*cell.path, ("wall", winners)),
                    cone=cone,
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
        parts: list[tuple] = [((), cell.cone, [])]
        for group, keys in enumerate(keys_of):
            composed = cell.map.then(*scores[group])
            first: dict[Vector, int] = {}
            for j, score in zip(keys, composed.rows, strict=True):
                first.setdefault(score, j)
            found = []
            for winners, cone, rows in parts:
                for score, j in first.items():
                    ahead = (
                        reduced(tuple(u - v for u, v in zip(score, rival, strict=True)))
                        for rival in first
                        if rival != score
                    )
                    part = _inside(cone, ahead)
                    if part:
                        found.append(((*winners, j), part, [*rows, (score, composed.denominator)]))
            parts = found
        for winners, cone, rows in parts:
            common = lcm(*(denominator for _, denominator in rows))
            maxima = Map.of([tuple(v * (common // q) for v in row) for row, q in rows], common)
            output = maxima.then(w_out, b_out)
            children.append(
                replace(
                    cell,
                    routings=cell.routings + winners,
                    path=(*cell.path, ("fold", winners)),
                    cone=cone,
                    map=cell.map + output if block.skip else output,
                )
            )
    return children


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
        parts: list[tuple] = [((), cell.cone)]
        for z in units.rows:
            row = reduced(z)
            found = []
            for bits, cone in parts:
                if any(z):
                    sides = cone.clip(minus(row)), cone.clip(row)
                    found += [((*bits, bit), side) for bit, side in enumerate(sides) if side]
                else:  # zero on the whole cell: off
                    found.append(((*bits, 0), cone))
            parts = found
        for bits, cone in parts:
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
                    cone=cone,
                    map=cell.map + output if block.skip else output,
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
    "Affine": _through_affine,
}


# ----------------------------------------------------------------------------------------------
# Adjacency and regions
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contact:
    """Two cells (by index) whose closures meet in dimension d - 1, the hyperplane in which they do, what it
    is, and whether the map jumps.

    ``kind`` is "wall" or "fold": the block where the two signatures part. Up to there both cells have the
    same map, so the hyperplane was drawn in that block.
    """

    cells: tuple[int, int]
    hyperplane: Vector
    kind: str
    jumps: bool


def _touch(a: Cone, b: Cone, row: Vector) -> bool:
    """Whether two cones on the two sides of a hyperplane share a part of it of full dimension.

    The facet of the first is cut by the rows of the second; nothing may be lost but what is cut off.
    """
    facet: Cone | None = a.face(a.halfspaces[row])
    rows = [r for r in b.halfspaces if r != minus(row)]
    if not all(facet.meets(r) for r in rows):
        return False
    for r in rows:
        facet = facet and facet.clip(r)
    return facet is not None


def _contacts(cells: list[Cell]) -> list[Contact]:
    sides: dict[Vector, list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        for row in cell.cone.halfspaces:
            sides[row].append(index)
    contacts = {}
    for row, above in sides.items():
        if row < minus(row):
            continue
        for i in above:
            for j in sides.get(minus(row), []):
                if _touch(cells[i].cone, cells[j].cone, row):
                    a, b = sorted((i, j))
                    if (a, b) in contacts:
                        raise AssertionError(f"cells {a} and {b} touch in two hyperplanes: they overlap")
                    paths = zip(cells[a].path, cells[b].path, strict=True)
                    kind = next(kind for (kind, u), (_, v) in paths if u != v)
                    jumps = not cells[a].map.agrees_on(cells[b].map, row)
                    contacts[a, b] = Contact((a, b), row, kind, jumps)
    return [contacts[pair] for pair in sorted(contacts)]


@dataclass(frozen=True)
class RationalSpace:
    """The answer: cells in the order of their signatures, block by block; contacts; regions."""

    cells: list[Cell]
    cone: Cone

    @property
    def n_cells(self) -> int:
        return len(self.cells)

    @cached_property
    def signatures(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [cell.signature for cell in self.cells]

    @property
    def bounded(self) -> bool:
        """Whether the domain is bounded."""
        return self.cone.bounded

    @property
    def volume(self) -> Fraction | None:
        """The volume of the domain; None if it is unbounded."""
        return self.cone.volume

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


def enumerate_space(network, domain) -> RationalSpace:
    """All cells of a network on a domain of the same dimension."""
    if network.d != domain.d:
        raise ValueError(f"the network has {network.d} inputs, the domain {domain.d} dimensions")
    cone = cone_of(domain)
    cells = [Cell((), (), (), cone, Map.identity(domain.d))]
    for block in network.blocks:
        cells = THROUGH[type(block).__name__](cells, block)
    cells.sort(key=lambda cell: [choice for _, choice in cell.path])
    if len({cell.signature for cell in cells}) != len(cells):
        raise AssertionError("a signature was listed twice")
    return RationalSpace(cells, cone)
