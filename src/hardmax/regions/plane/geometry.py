r"""Cells in the plane: polygons, areas, lines, points inside.

The counterpart of :mod:`hardmax.regions.space.geometry`, with the same names. A network on the line is a
network on a strip of height 1 (:func:`planar`): its cells are rectangles, of
which the lower side counts.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray, nearest_float
from hardmax.geometry.domains import Box, Domain, Polytope
from hardmax.networks.layers import AffineLayer, Layer
from hardmax.regions.cells import AT_INFINITY, Contacts
from hardmax.regions.geometries import Geometry
from hardmax.regions.plane.rational_polygons import corners_of, domain_polygon

__all__ = ["PlaneGeometry", "planar"]

Floats = NDArray[np.float64]

_DOUBT = 1e-6  # relative error of an area above which it is computed in rationals
_AT_INFINITY = [(0, 1, 0, 1), (-1, 0, 0, 1), (0, -1, 0, 1), (1, 0, 0, 1)]  # sides of the square [-M, M]^2


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
        return points if box is None else _clipped(points, box)

    # exact

    def symbolic_rows(self, i: int) -> list[Any]:
        """Rows (a, b, c, m) of all edges: positive inside with constant c + M m, M beyond every number."""
        return [
            _AT_INFINITY[name[1]] if name[0] == AT_INFINITY else (*self.row(i, name), 0)
            for name in self.cells.names(i)
        ]

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside a cell: the mean of its corners, those at infinity far out."""
        lines = self.symbolic_rows(i)
        corners = corners_of(lines)
        reach = 1
        while True:
            points = [(c[0] + reach * c[3], c[1] + reach * c[4], c[2] * len(corners)) for c in corners]
            x = sum((Fraction(point[0], point[2]) for point in points), Fraction(0))
            y = sum((Fraction(point[1], point[2]) for point in points), Fraction(0))
            if all(line[3] or line[0] * x + line[1] * y + line[2] > 0 for line in lines):
                return [x, y][: self.d]
            reach *= 2

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""
        from hardmax.regions.maps.adjacency import adjacent_cells

        return adjacent_cells(self.cells, self.exact.layers, self.exact)

    def domain_size(self) -> float | None:
        """The exact area of the domain, rounded; ``None`` if it is unbounded."""
        polygon = domain_polygon([self.exact.domain_line(i) for i in range(self.exact.domain.b.shape[0])])
        if polygon is None or any(line[3] for line in polygon[0]):
            return None
        points = [(Fraction(x, w), Fraction(y, w)) for x, y, w, _, _ in corners_of(polygon[0])]
        turned = zip(points, points[1:] + points[:1], strict=True)
        return float(sum((x * v - y * u for (x, y), (u, v) in turned), Fraction(0)) / 2)


def _clipped(points: Floats, box: Box) -> Floats:
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
