r"""Cells in three to six dimensions: vertices, volumes, surfaces, hyperplanes, points inside.

The counterpart of :mod:`hardmax.regions.plane.geometry`, with the same names. Floats come from the rays that
were stored; whatever is exact comes from the names of the facets and the incidence of rays and facets.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.geometry.domains import Box
from hardmax.regions.cells import AT_INFINITY, Contacts, Ragged
from hardmax.regions.geometries import Geometry
from hardmax.regions.maps.exact_maps import ExactMaps, Name, Row, exact_ray
from hardmax.regions.space.contacts import sizes_of_contacts, touching_cells
from hardmax.regions.space.sizes import (
    VOLUME_ERROR,
    Facets,
    Sizes,
    exact_volume,
    facets_of,
    rounded_frame,
    sizes_of,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Point = list[Fraction]


class SpaceGeometry(Geometry):
    """What can be asked about the shape of cells in space."""

    @cached_property
    def facets(self) -> Facets:
        """True facets, rays at infinity, bounded cells."""
        return facets_of(self.cells)

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Which cells are bounded."""
        return np.asarray(self.facets.bounded != 0)

    @cached_property
    def measured(self) -> Sizes:
        """Sizes of cells and facets, in floats where these are good enough."""
        sizes = sizes_of(self.cells, self.facets)
        with np.errstate(invalid="ignore", over="ignore"):
            thin = self.bounded & ~(sizes.doubt * sizes.surfaces < VOLUME_ERROR * sizes.volumes)
        self._measure_again(np.flatnonzero(thin), sizes)
        return sizes

    @property
    def sizes(self) -> tuple[Floats, Floats]:
        """Volumes and surfaces, infinite where a cell is unbounded."""
        return self.measured.volumes, self.measured.surfaces

    def _measure_again(self, chosen: Integers, sizes: Sizes) -> None:
        """Correct the sizes of cells whose vertices floats know too badly, from exact vertices."""
        if not len(chosen):
            return
        cells, face = self.cells, self.facets.face
        rounded, factors, plain = [], [], []
        for i in chosen.tolist():
            points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in self.exact_rays(i)]
            frame, factor = rounded_frame(points)
            rounded.append(frame)
            factors.append(factor)
            shifted = [[a - b for a, b in zip(point, points[0], strict=True)] for point in points]
            plain.append(np.array([[nearest_float(v) for v in point] for point in shifted]))
        part = cells.select(chosen)
        alike = facets_of(part)
        volumes, again = (
            sizes_of(replace(part, vertices=Ragged(part.vertices.offsets, _homogeneous(points))), alike)
            for points in (rounded, plain)
        )
        sizes.surfaces[chosen] = again.surfaces
        for k, i in enumerate(chosen.tolist()):
            sizes.volumes[i] = nearest_float(Fraction(float(volumes.volumes[k])) * factors[k])
            here = slice(cells.facets.offsets[i], cells.facets.offsets[i + 1])
            there = slice(part.facets.offsets[k], part.facets.offsets[k + 1])
            sizes.areas[here] = np.where(face[here] >= 0, again.areas[there], 0.0)

    # vertices

    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of a cell; none for a cell that contains a line."""
        far = self.facets.far[self.cells.vertices.offsets[i] : self.cells.vertices.offsets[i + 1]]
        finite = np.flatnonzero(far == 0) if not self.cells.free[i] else np.zeros(0, int)
        return _points(self.cells.vertices[i][finite, :-1])

    @cached_property
    def vertices(self) -> Floats:
        """All finite vertices of all cells; a shared one appears once per cell."""
        lines = np.repeat(self.cells.free != 0, self.cells.vertices.counts)
        return _points(self.cells.rays[(self.facets.far == 0) & ~lines])

    # exact

    def boundary(self, i: int) -> list[Name]:
        """The names of a cell's true facets; infinity is none."""
        face = self.facets.face[self.cells.facets.offsets[i] : self.cells.facets.offsets[i + 1]]
        names = zip(self.cells.names(i), face.tolist(), strict=True)
        return [name for name, first in names if first >= 0 and name[0] != AT_INFINITY]

    def facet_row(self, i: int, f: int) -> Row:
        """The exact row of facet f of cell i, nonnegative on the cell."""
        return self.row(i, (int(self.cells.owner[f]), int(self.cells.wall[f])))

    def exact_rays(self, i: int) -> list[list[int]]:
        """The exact rays of a cell as primitive integer vectors, in the order in which they are stored."""
        rows = [self.row(i, name) for name in self.cells.names(i)]
        found = []
        for mask in self.cells.masks[i]:
            on = [row for s, row in enumerate(rows) if int(mask[s // 64]) >> (s % 64) & 1]
            off = [row for s, row in enumerate(rows) if not int(mask[s // 64]) >> (s % 64) & 1]
            ray = exact_ray(on or [(0,) * (self.d + 1)], int(self.cells.free[i]))
            inside = sum(a * v for a, v in zip(off[0], ray, strict=True)) > 0 if off else ray[-1] > 0
            found.append(ray if inside else [-v for v in ray])
        return found

    def exact_vertices(self, i: int) -> list[Point]:
        """The finite vertices of a cell without rounding; none for a cell that contains a line."""
        rays = [] if self.cells.free[i] else self.exact_rays(i)
        return [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in rays if ray[-1]]

    def inner_point(self, i: int, rows: list[Row]) -> list[Fraction]:
        """The mean of a cell's vertices, moved along its directions."""
        return mean_point(self.exact_rays(i))

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""
        return touching_cells(self)

    def contact_sizes(self, contacts: Contacts) -> Floats:
        """How large the common parts of adjacent cells are."""
        return sizes_of_contacts(self, contacts)

    def coverage(self) -> float | None:
        """The share of the domain that the cells fill."""
        size = self.domain_size()
        return None if size is None else math.fsum(self.sizes[0].tolist()) / size

    def domain_size(self) -> float | None:
        """The volume of the domain; ``None`` if it is unbounded."""
        return domain_volume(self.exact, self.d)


def mean_point(rays: list[list[int]]) -> Point:
    """The mean of vertices, moved along the directions among them."""
    point = [Fraction(0)] * len(rays[0])
    for ray in rays:
        weight = Fraction(1, ray[-1]) if ray[-1] else Fraction(1, max(abs(v) for v in ray))
        point = [p + weight * v for p, v in zip(point, ray, strict=True)]
    return [p / point[-1] for p in point[:-1]]


def _homogeneous(points: list[Floats]) -> Floats:
    """Vertices as rays without errors."""
    table = np.concatenate(points)
    return np.column_stack([table, np.ones(len(table)), np.zeros(len(table))])


def domain_volume(exact: ExactMaps, d: int) -> float | None:
    """The exact volume of a domain, rounded; ``None`` if it is unbounded."""
    domain = exact.domain
    if isinstance(domain, Box):
        sides = [domain.high.rational(c) - domain.low.rational(c) for c in range(d)]
        exact_sides = (Fraction(int(side.p), int(side.q)) for side in sides)
        return nearest_float(math.prod(exact_sides, start=Fraction(1)))
    cone = RationalCone(d + 1)
    rows = [(0,) * d + (1,), *(exact.domain_line(i) for i in range(domain.b.shape[0]))]
    for row in rows:
        if cone.cut(list(row), (0, 0)) == EMPTIES:
            return 0.0
    if cone.lines or any(ray[-1] == 0 for ray in cone.rays):
        return None
    points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in cone.rays]
    if d == 1:
        return nearest_float(abs(points[0][0] - points[1][0]))
    sets = {
        sum(1 << k for k, mask in enumerate(cone.masks) if mask >> s & 1) for s in range(len(cone.facets))
    }
    faces = [a for a in sets if a and not any(a != b and a & ~b == 0 for b in sets)]
    return nearest_float(exact_volume(points, faces, d))


def _points(rays: Floats) -> Floats:
    """The points that homogeneous rows stand for, infinite beyond float64."""
    with np.errstate(over="ignore"):
        return np.asarray(rays[:, :-1] / rays[:, -1:])
