"""Hold enumerated regions against those of the rational enumerator, number by number."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from math import isfinite, lcm
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.errors import NotFiniteError

from .random_networks import Instance
from .rational_regions import (
    Cell,
    Point,
    RationalRegions,
    Row,
    enumerate_rationally,
    line_through,
    reduced,
    value,
)

CLOSE = 1e-9  # how far a float that is only shown may be off, relatively
AREA = 1e-7  # the same for an area


@cache
def has(module: str) -> bool:
    """Whether a module of ``hardmax.regions`` is there."""
    return find_spec(f"hardmax.regions.{module}") is not None


@dataclass(frozen=True)
class Judgement:
    """What the rational enumerator found for an instance, and what is wrong with the engine's answer."""

    expected: RationalRegions
    n_rational: int
    problems: list[str]


def judge(
    case: Instance, arithmetics: tuple[str, ...] = ("certified",), *, counting: bool = True
) -> Judgement:
    """Hold cells, maps, contacts and regions of an instance against the rational enumerator, and the count of
    the engine that keeps nothing against them."""
    expected = enumerate_rationally(case.network, case.domain)
    outlines = [Outline.of(cell) for cell in expected.cells]
    problems, n_rational = [], 0
    for arithmetic in arithmetics:
        try:
            found = hm.enumerate_regions(case.network, case.domain, arithmetic=arithmetic)
            listed = cell_problems(found, expected, outlines)
            if not listed:
                listed = contact_problems(found, expected)
            if counting:
                count = hm.count_cells(case.network, case.domain, arithmetic=arithmetic)
                listed = listed or count_problems(count, found)
                if arithmetic == "certified":
                    n_rational = count.n_rational
        except Exception as error:  # whatever it is, it is the engine's
            listed = [f"{type(error).__name__}: {error}"]
        problems += [f"[{arithmetic}] {problem}" for problem in listed]
    return Judgement(expected, n_rational, problems)


def signatures_of(found: hm.regions.RegionSet) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    bits = found.relu_bits.astype(int).tolist()
    return [(tuple(r), tuple(b)) for r, b in zip(found.routings.tolist(), bits, strict=True)]


def cell_problems(
    found: hm.regions.RegionSet, expected: RationalRegions, outlines: list[Outline] | None = None
) -> list[str]:
    """Signatures, polygons, witnesses, areas and maps; ``outlines`` are those of the expected cells."""
    signatures = signatures_of(found)
    if signatures != expected.signatures:
        have, want = set(signatures), set(expected.signatures)
        return [
            f"{len(signatures)} cells, not {len(want)}; missing {sorted(want - have)[:4]}, invented "
            f"{sorted(have - want)[:4]}{', in another order' if have == want else ''}"
        ]
    problems = []
    if not (found.complete and found.exact):
        problems.append("says that it is not complete or not exact")
    problems += _coverage_problems(found.coverage, expected)
    shapes = [Outline.of(cell) for cell in expected.cells] if outlines is None else outlines
    for i, (cell, outline) in enumerate(zip(expected.cells, shapes, strict=True)):
        listed = _polygon_problems(found, i, cell, outline) + map_problems(found, i, cell)
        problems += [f"cell {i} {cell.signature}: {text}" for text in listed]
    return problems


def _coverage_problems(coverage: float | None, expected: RationalRegions) -> list[str]:
    if expected.area is None:
        return [] if coverage is None else [f"coverage of an unbounded domain is {coverage}"]
    if coverage is None and not Fraction(10) ** -300 < expected.area < Fraction(10) ** 300:
        return []  # the area of the domain is no float
    return [] if coverage is not None and abs(coverage - 1) <= CLOSE else [f"coverage is {coverage}, not 1"]


def sides(cell: Cell) -> set[Row]:
    """The lines of a convex cell's edges, positive inside; those between its own pieces are none of them."""
    vertices = {vertex for polygon in cell.polygons for vertex in polygon}
    if len(cell.polygons) == 1:
        vertices.clear()  # one convex piece: every edge is a side
    lines = set()
    for polygon in cell.polygons:
        for i, q in enumerate(polygon):
            p = polygon[i - 1]
            if p[2] or q[2]:
                line = line_through(p, q)
                if all(value(line, vertex) >= 0 for vertex in vertices):
                    lines.add(line)
    return lines


def corners(cell: Cell, lines: set[Row]) -> set[Point]:
    """The vertices of a cell where two of its sides meet."""
    points = {vertex for polygon in cell.polygons for vertex in polygon if vertex[2]}
    return {p for p in points if sum(value(line, p) == 0 for line in lines) >= 2}


@dataclass(frozen=True)
class Outline:
    """The sides of an expected cell, and its vertices with their coordinates as floats."""

    lines: set[Row]
    places: list[tuple[Point, float, float]]

    @classmethod
    def of(cls, cell: Cell) -> Outline:
        lines = sides(cell)
        found = corners(cell, lines)
        return cls(lines, [(p, *(_float(Fraction(v, p[2])) for v in p[:2])) for p in found])


def _line(row: tuple[Fraction, ...]) -> Row:
    """The line of a half-space a x + b y <= c in integers, positive inside."""
    a, b, c = row
    scale = lcm(a.denominator, b.denominator, c.denominator)
    return reduced(
        (
            -a.numerator * (scale // a.denominator),
            -b.numerator * (scale // b.denominator),
            c.numerator * (scale // c.denominator),
        )
    )


def _polygon_problems(found: hm.regions.RegionSet, i: int, cell: Cell, outline: Outline) -> list[str]:
    problems = []
    lines = outline.lines
    listed = {_line(row) for row in found.exact_halfspaces(i)}
    if listed != lines:
        problems.append(f"half-spaces {sorted(listed)}, not {sorted(lines)}")
    if bool(found.bounded[i]) != cell.bounded:
        problems.append(f"bounded is {found.bounded[i]}")
    problems += _vertex_problems(found, i, outline.places)
    problems += _witness_problems(found, i, lines)
    area = float("inf") if cell.area is None else _float(cell.area)
    volume = float(found.volumes[i])
    representable = not 1e307 < area < float("inf")
    if representable and volume != area and not abs(volume - area) <= max(AREA * area, 1e-310):
        problems.append(f"volume {volume}, not {area}")
    return problems


def _vertex_problems(
    found: hm.regions.RegionSet, i: int, exact: list[tuple[Point, float, float]]
) -> list[str]:
    """Every finite vertex lies within its bound of an exact one, and every exact one is near some vertex."""
    cells = found.cells
    finite = [
        e for e in cells.facets.span(i) if not cells.unbounded or (cells.dx[e] == 0 and cells.dy[e] == 0)
    ]
    problems = []
    if len(finite) != len(exact):
        problems.append(f"{len(finite)} vertices, not {len(exact)}")
    for e in finite:
        x, y, r = (float(v[e]) for v in (cells.vx, cells.vy, cells.vr))
        if isfinite(r) and not any(_near(x, y, r, *place) for place in exact):
            problems.append(f"vertex ({x!r}, {y!r}) is not within {r} of a vertex")
    return problems


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _near(x: float, y: float, r: float, point: Point, x_rounded: float, y_rounded: float) -> bool:
    """Whether a point is within r of an exact one, given with its coordinates as floats, in both of them."""
    for have, numerator, rounded in ((x, point[0], x_rounded), (y, point[1], y_rounded)):
        far = abs(have - rounded)
        if far + 3e-16 * abs(rounded) <= r:
            continue
        if far > 2 * r + 1e-15 * abs(rounded):
            return False
        if abs(Fraction(have) - Fraction(numerator, point[2])) > Fraction(r):
            return False
    return True


def _witness_problems(found: hm.regions.RegionSet, i: int, lines: set[Row]) -> list[str]:
    margin = float(found.margins[i])
    if not margin > 0:
        x, y = found.exact_witness(i)
        if all(a * x + b * y + c > 0 for a, b, c in lines):
            return []
        return [f"exact witness {(x, y)} is not inside"]
    if not isfinite(margin):
        return [f"margin {margin}"] if lines else []
    (x, p), (y, q), (m, n) = (v.as_integer_ratio() for v in (*found.witnesses[i].tolist(), margin))
    problems = []
    for a, b, c in lines:
        height = a * x * q + b * y * p + c * p * q  # times p q
        if height <= 0 or (height * n) ** 2 < (m * p * q) ** 2 * (a * a + b * b):
            problems.append(f"witness {found.witnesses[i].tolist()} is not {margin} away from {(a, b, c)}")
    return problems


def map_problems(found: hm.regions.RegionSet, i: int, cell: Any) -> list[str]:
    """The map in fractions is that of the cell; in floats it is near, or refused because it is no float."""
    linear, offset = cell.map.linear, cell.map.offset
    rows = [[Fraction(v) for v in row] for row in linear], [Fraction(v) for v in offset]
    problems = [] if found.exact_map(i) == rows else [f"exact map {found.exact_map(i)}, not {rows}"]
    try:
        have = found.linear[i], found.offset[i]
    except NotFiniteError:
        return problems if _beyond_floats(found) else [*problems, "maps that are floats were refused"]
    exact = [[_float(v) for v in row] for row in linear], [_float(v) for v in offset]
    error = found._maps.error[i]
    for name, is_, want in zip(("linear", "offset"), have, exact, strict=True):
        far = np.abs(is_ - np.asarray(want))
        if isfinite(error) and not (far <= error + 2e-16 * np.abs(want)).all():
            problems.append(f"{name} is {is_.tolist()}, not {np.asarray(want).tolist()} within {error}")
    return problems


def _beyond_floats(found: hm.regions.RegionSet) -> bool:
    """Whether some entry of some map is larger than every float."""
    for i in range(found.n_cells):
        linear, offset = found.exact_map(i)
        if any(not isfinite(_float(v)) for row in (*linear, offset) for v in row):
            return True
    return False


def count_problems(count: hm.regions.CellCount, found: hm.regions.RegionSet) -> list[str]:
    """Counting without keeping tells the same."""
    have = (count.n_cells, count.n_unbounded, count.complete, count.exact)
    want = (found.n_cells, int((~found.bounded).sum()), found.complete, found.exact)
    problems = [] if have == want else [f"count_cells says {have}, not {want}"]
    if count.cells_by_depth and count.cells_by_depth[-1] != count.n_cells:
        problems.append(f"cells by depth {count.cells_by_depth} do not end with {count.n_cells}")
    return problems


def length_problems(found: hm.regions.RegionSet, expected: RationalRegions) -> list[str]:
    """Every length is right up to the relative error that is stated."""
    want = {contact.cells: contact.length for contact in expected.contacts}
    return [
        f"cells {pair} meet in length {length}, not {want[tuple(pair)]}"
        for pair, length in zip(found.adjacency.tolist(), found.adjacency_length.tolist(), strict=True)
        if not (length == want[tuple(pair)] or abs(length - want[tuple(pair)]) <= 1e-6 * want[tuple(pair)])
    ]


def contact_problems(found: hm.regions.RegionSet, expected: RationalRegions) -> list[str]:
    """Adjacent cells, wall or fold, and regions."""
    problems = []
    if has("adjacency"):
        pairs = [tuple(pair) for pair in found.adjacency.tolist()]
        kinds = [("fold", "wall")[kind] for kind in found.adjacency_kind.tolist()]
        if len(set(pairs)) != len(pairs):
            problems.append("a pair of cells is adjacent twice")
        have = dict(zip(pairs, kinds, strict=True))
        if have != expected.adjacency:
            want = expected.adjacency
            problems.append(
                f"adjacent: missing {sorted(want.items() - have.items())[:6]}, invented "
                f"{sorted(have.items() - want.items())[:6]}"
            )
        elif pairs != sorted(pairs):
            problems.append("adjacent pairs are not in order")
        else:
            problems += length_problems(found, expected)
    if has("merging") and found.region_of_cell.tolist() != expected.region_of_cell:
        problems.append(f"regions {found.region_of_cell.tolist()}, not {expected.region_of_cell}")
    return problems
