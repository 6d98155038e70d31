r"""Cells in the plane: polygons in floats and in exact integers, areas, lines, points inside.

The counterpart of :mod:`hardmax.regions.space.geometry`, with the same names. A network on the line is a
network on a strip of height 1 (:func:`planar`): its cells are rectangles, of which the lower side counts.

An exact line is four integers :math:`(a, b, c, m)`, the affine function :math:`ax + by + c + mM` with
:math:`M` beyond every number; only the four sides of the plane's symbolic box have :math:`m \ne 0`. A corner
is the cross product of two lines, :math:`(X + M D_x,\, Y + M D_y,\, W)` with :math:`W > 0`. Signs are
compared in the power of :math:`M` first. Nothing about them is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.exact.rationals import ExactArray, nearest_float
from hardmax.geometry.domains import Box, Domain, Polytope
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.regions.cells import AT_INFINITY, Contacts
from hardmax.regions.geometries import Geometry
from hardmax.regions.maps.adjacency import adjacent_cells, lengths_of_contacts

Floats = NDArray[np.float64]

_DOUBT = 1e-6  # relative error of an area above which it is computed in rationals
Line = tuple[int, int, int, int]
Corner = tuple[int, int, int, int, int]  # X, Y, W, Dx, Dy
Polygon = tuple[list[Line], list[Corner], list[int]]  # with a label for every side
_FARTHEST = 1 << 18  # bits of the distance at which an unbounded cell is looked for
FAR_SIDES: list[Line] = [(0, 1, 0, 1), (-1, 0, 0, 1), (0, -1, 0, 1), (1, 0, 0, 1)]  # of the square [-M, M]^2


def planar(layers: tuple[Layer, ...], domain: Domain) -> tuple[tuple[Layer, ...], Domain]:
    """The same question in the plane: a line becomes a strip of height 1."""
    if domain.d != 1:
        return layers, domain
    forget = AffineLayer(ExactArray(np.array([[1.0, 0.0]])), ExactArray(np.zeros(1)))
    sides = [[0.0, 1.0], [0.0, -1.0]]
    a, b = domain.a, domain.b
    rows: list[list[Any]] = [[a.rational((i, 0)), 0] for i in range(a.shape[0])]
    ends = [b.rational(i) for i in range(b.shape[0])]
    strip = Polytope(
        np.array(rows + sides, dtype=object),
        np.array([*ends, 1, 0], dtype=object),
    )
    return (forget, *layers), strip


class PlaneGeometry(Geometry):
    """What can be asked about the shape of cells in the plane, or on the line (``d = 1``)."""

    @property
    def dimension(self) -> int:
        """A strip is two-dimensional too."""
        return 2

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        if not self.cells.unbounded or self.cells.n == 0:
            return np.ones(self.cells.n, dtype=np.bool_)
        return ~np.logical_or.reduceat(self.cells.owner == AT_INFINITY, self.cells.facets.offsets[:-1])

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """Areas and perimeters, infinite where a cell is unbounded."""
        cells, start = self.cells, self.cells.facets.offsets[:-1]
        if cells.n == 0:
            return np.zeros(0), np.zeros(0)
        after = np.arange(1, len(cells.vx) + 1)
        after[cells.facets.offsets[1:] - 1] = start
        cell_of = cells.facets.cell_of
        with np.errstate(invalid="ignore", over="ignore"):
            # relative to a point of the cell, so that a small cell far out keeps its digits
            x, y = cells.vx - cells.witnesses[cell_of, 0], cells.vy - cells.witnesses[cell_of, 1]
            area = 0.5 * np.add.reduceat(x * y[after] - y * x[after], start)
            around = np.add.reduceat(np.hypot(x[after] - x, y[after] - y), start)
            # where the vertices are less certain than the cell is thick, rationals say how big it is
            doubt = np.maximum.reduceat(cells.vr, start) * around
            thin = self.bounded & ~(doubt < _DOUBT * area)
        for i in np.flatnonzero(thin):
            area[i], around[i] = self._exact_size(int(i))
        area[~self.bounded] = np.inf
        around[~self.bounded] = np.inf
        return area, around

    def _exact_size(self, i: int) -> tuple[float, float]:
        """Area and perimeter of a bounded cell from its exact corners, rounded at the end."""
        corners = corners_of([(a, b, c, 0) for a, b, c in self.rows(i)])
        points = [(Fraction(x, w), Fraction(y, w)) for x, y, w, _, _ in corners]
        area, around = Fraction(0), 0.0
        for (x, y), (u, v) in zip(points, points[1:] + points[:1], strict=True):
            area += (x * v - y * u) / 2
            around += math.hypot(nearest_float(u - x), nearest_float(v - y))
        return nearest_float(area), around

    # vertices

    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of a cell, counterclockwise (the two ends, on the line)."""
        points = self.polygon(i, None)
        if self.d == 1:  # the strip's two lower corners
            return np.sort(points[points[:, 1] < 0.5, :1], axis=0)
        return points

    @cached_property
    def vertices(self) -> Floats:
        """All finite vertices of all cells; a shared one appears once per cell."""
        return np.asarray(self.cells.vertices.content[~self._far, : self.d])

    @cached_property
    def _far(self) -> NDArray[np.bool_]:
        """Which vertices lie at infinity: those next to a side at infinity."""
        far = self.cells.owner == AT_INFINITY
        before = np.arange(-1, len(far) - 1)
        before[self.cells.facets.offsets[:-1]] = self.cells.facets.offsets[1:] - 1
        return np.asarray(far | far[before])

    def polygon(self, i: int, box: Box | None) -> Floats:
        """The corners of a cell, counterclockwise; cut off at a box, if there is one."""
        cells = self.cells
        vertices = cells.vertices[i]
        points = vertices[:, :2].copy()
        if cells.unbounded:
            far = vertices[:, 3:]
            if box is None:
                at_infinity = self._far[cells.facets.offsets[i] : cells.facets.offsets[i + 1]]
                return np.asarray(points[~at_infinity])
            low, high = box.low.floats, box.high.floats
            size = float(np.abs(np.concatenate([low, high])).max()) + float(np.abs(points).max()) + 1.0
            scale = np.abs(far[far != 0.0])
            points = points + far * (1e3 * size / (scale.min() if len(scale) else 1.0))
        return points if box is None else _cut_to_box(points, box)

    # exact

    def symbolic_rows(self, i: int) -> list[Any]:
        """Rows (a, b, c, m) of all edges: positive inside with constant c + M m, M beyond every number."""
        return [
            FAR_SIDES[name[1]] if name[0] == AT_INFINITY else (*self.row(i, name), 0)
            for name in self.cells.names(i)
        ]

    def exact_vertices(self, i: int) -> list[list[Fraction]]:
        """The finite vertices of a cell without rounding, counterclockwise (the two ends, on the line)."""
        finite = [c for c in corners_of(self.symbolic_rows(i)) if not (c[3] or c[4])]
        points = [[Fraction(x, w), Fraction(y, w)] for x, y, w, _, _ in finite]
        return points if self.d == 2 else sorted([x] for x, y in points if y == 0)

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside a cell: the mean of its corners, those at infinity far out."""
        lines = self.symbolic_rows(i)
        corners = corners_of(lines)
        reach = 1
        while reach.bit_length() < _FARTHEST:
            points = [(c[0] + reach * c[3], c[1] + reach * c[4], c[2] * len(corners)) for c in corners]
            x = sum((Fraction(point[0], point[2]) for point in points), Fraction(0))
            y = sum((Fraction(point[1], point[2]) for point in points), Fraction(0))
            if all(line[3] or line[0] * x + line[1] * y + line[2] > 0 for line in lines):
                return [x, y][: self.d]
            if not any(c[3] or c[4] for c in corners):
                break
            reach *= 2 if reach.bit_length() < 64 else reach
        raise CertificateError(f"cell {i} has no interior point; the list of cells is damaged.")

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""
        return adjacent_cells(self.cells, self.exact.layers, self.exact)

    def contact_sizes(self, contacts: Contacts) -> Floats:
        """How long the common parts of adjacent cells are."""
        return lengths_of_contacts(self.cells, self.exact.layers, self.exact, contacts)

    def domain_size(self) -> float | None:
        """The exact area of the domain, rounded; ``None`` if it is unbounded."""
        polygon = domain_polygon([self.exact.domain_line(i) for i in range(self.exact.domain.b.shape[0])])
        if polygon is None or any(line[3] for line in polygon[0]):
            return None
        points = [(Fraction(x, w), Fraction(y, w)) for x, y, w, _, _ in corners_of(polygon[0])]
        turned = zip(points, points[1:] + points[:1], strict=True)
        return float(sum((x * v - y * u for (x, y), (u, v) in turned), Fraction(0)) / 2)


def _cut_to_box(points: Floats, box: Box) -> Floats:
    """A convex polygon cut to a box."""
    for axis in range(2):
        for sign, bound in ((1.0, float(box.high.floats[axis])), (-1.0, -float(box.low.floats[axis]))):
            if not len(points):
                return points
            slack = bound - sign * points[:, axis]
            kept: list[Floats] = []
            for v in range(len(points)):
                u = (v + 1) % len(points)
                if slack[v] >= 0.0:
                    kept.append(points[v])
                if (slack[v] > 0.0) != (slack[u] > 0.0) and slack[v] != 0.0 and slack[u] != 0.0:
                    t = slack[v] / (slack[v] - slack[u])
                    kept.append(points[v] + t * (points[u] - points[v]))
            points = np.array(kept).reshape(-1, 2)
    return points


def meet(p: Line, q: Line) -> Corner:
    """Where two lines that are not parallel cross."""
    a1, b1, c1, m1 = p
    a2, b2, c2, m2 = q
    w = a1 * b2 - a2 * b1
    corner = (b1 * c2 - b2 * c1, c1 * a2 - c2 * a1, w, b1 * m2 - b2 * m1, m1 * a2 - m2 * a1)
    return corner if w > 0 else (-corner[0], -corner[1], -w, -corner[3], -corner[4])


def corners_of(lines: Sequence[Line]) -> list[Corner]:
    """The corners of a polygon: corner v is where lines v - 1 and v meet."""
    return [meet(lines[v - 1], lines[v]) for v in range(len(lines))]


def sign_at(line: Sequence[int], corner: Corner) -> int:
    """The sign of an ordinary line at a corner: -1, 0 or 1.

    >>> sign_at((1, 1, -3, 0), meet((1, 0, -1, 0), (0, 1, -2, 0)))     # x + y - 3 at (1, 2)
    0
    """
    a, b, c = line[0], line[1], line[2]
    x, y, w, dx, dy = corner
    value = a * dx + b * dy if dx or dy else 0
    if value == 0:
        value = a * x + b * y + c * w
    return (value > 0) - (value < 0)


def clip(
    lines: list[Line], corners: list[Corner], labels: list[int], cut: Line, label: int
) -> Polygon | None:
    """The part of a polygon where ``cut >= 0``; ``None`` if it has no interior."""
    signs = [sign_at(cut, corner) for corner in corners]
    if -1 not in signs:
        return lines, corners, labels
    if 1 not in signs:
        return None
    k = len(lines)
    start = next(v for v in range(k) if signs[v] == 1 and signs[v - 1] != 1)
    run = [start]
    while signs[(run[-1] + 1) % k] == 1:
        run.append((run[-1] + 1) % k)
    before, after = (start - 1) % k, (run[-1] + 1) % k
    entry = corners[before] if signs[before] == 0 else meet(lines[before], cut)
    leave = corners[after] if signs[after] == 0 else meet(lines[run[-1]], cut)
    return (
        [lines[before], *(lines[v] for v in run), cut],
        [entry, *(corners[v] for v in run), leave],
        [labels[before], *(labels[v] for v in run), label],
    )


def domain_polygon(halfspaces: Sequence[Sequence[int]]) -> tuple[list[Line], list[int]] | None:
    """The polygon of half-spaces :math:`ax + by + c \\ge 0` and the number of each side, -1 to -4 at
    infinity.

    ``None`` if it has no interior. Sides that touch it in a point only are left out.
    """
    lines, labels = list(FAR_SIDES), [-1, -2, -3, -4]
    corners = corners_of(lines)
    for i, (a, b, c) in enumerate(halfspaces):
        if a == 0 and b == 0:
            if c < 0:
                return None
            continue
        clipped = clip(lines, corners, labels, (a, b, c, 0), i)
        if clipped is None:
            return None
        lines, corners, labels = clipped
    return lines, labels


def envelope(
    lines: list[Line], corners: list[Corner], rows: Sequence[Sequence[int]]
) -> list[tuple[int, list[int], list[int]]]:
    """The cells of the upper envelope of affine functions on a polygon, in order of their keys.

    Each is ``(key, tied, edges)``: the lowest key that wins there, all keys with that very score, and the
    edges counterclockwise, v >= 0 for side v of the polygon and -1 - i for the wall to key i.
    """
    tied: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        tied.setdefault(tuple(row), []).append(i)
    keys = [group[0] for group in tied.values()]
    sides = list(range(len(lines)))
    waiting = _leaders(corners, rows, keys)
    seen = set(waiting)
    found = []
    while waiting:
        j = waiting.pop()
        a, b, c = rows[j][:3]
        walls: dict[int, Line] = {
            i: (a - rows[i][0], b - rows[i][1], c - rows[i][2], 0) for i in keys if i != j
        }
        part = _clipped((lines, corners, sides), walls)
        if part is None:
            continue
        found.append((j, tied[tuple(rows[j])], part[2]))
        for i, wall in walls.items():
            # level at two corners: another key whose wall is the same line, perhaps the one beyond it
            if i not in seen and sum(sign_at(wall, corner) == 0 for corner in part[1]) >= 2:
                seen.add(i)
                waiting.append(i)
    return sorted(found)


def _clipped(polygon: Polygon, walls: dict[int, Line]) -> Polygon | None:
    """The part of a polygon on the positive side of every wall."""
    for i, wall in walls.items():
        part = clip(*polygon, wall, -1 - i)
        if part is None:
            return None
        polygon = part
    return polygon


def _leaders(corners: list[Corner], rows: Sequence[Sequence[int]], keys: list[int]) -> list[int]:
    """Every key that nothing beats at some corner; one of them has a cell."""
    leaders = []
    for corner in corners:
        best = [keys[0]]
        for i in keys[1:]:
            sign = sign_at([u - v for u, v in zip(rows[i], rows[best[0]], strict=True)], corner)
            if sign > 0:
                best = [i]
            elif sign == 0:
                best.append(i)
        leaders += best
    return list(dict.fromkeys(leaders))
