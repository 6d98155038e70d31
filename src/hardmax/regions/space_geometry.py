r"""Cells in three to six dimensions: vertices, volumes, hyperplanes, points inside.

The counterpart of :mod:`hardmax.regions.plane_geometry`, with the same names. Floats come from the rays that
were stored; whatever is exact comes from the names of the facets and the incidence of rays and facets.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.algebra.rationals import nearest_float
from hardmax.regions.boundary_rows import Name, Row, exact_ray, inner_row, strictly_inside
from hardmax.regions.cells import AT_INFINITY
from hardmax.regions.exact_maps import ExactMaps
from hardmax.regions.space_cells import SpaceCells
from hardmax.regions.space_sizes import Facets, Sizes, exact_size, facets_of, sizes_of

if TYPE_CHECKING:
    from hardmax.regions.adjacency import Contacts

__all__ = ["SpaceGeometry"]

Floats = NDArray[np.float64]

_DOUBT = (
    1e-3  # bound on the relative error of a volume above which rationals compute it; errors are far below
)


class SpaceGeometry:
    """What can be asked about the shape of cells in space."""

    def __init__(self, cells: SpaceCells, exact: ExactMaps) -> None:
        self.cells, self.exact, self.d = cells, exact, cells.d

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
        volumes, surfaces, areas = sizes.volumes, sizes.surfaces, sizes.areas
        with np.errstate(invalid="ignore", over="ignore"):
            thin = self.bounded & ~(sizes.doubt * surfaces < _DOUBT * volumes)
        for i in np.flatnonzero(thin).tolist():
            volumes[i], surfaces[i] = self._exact_size(i, areas)
        return sizes

    @property
    def sizes(self) -> tuple[Floats, Floats]:
        """Volumes and surfaces, infinite where a cell is unbounded."""
        return self.measured.volumes, self.measured.surfaces

    def _exact_size(self, i: int, areas: Floats) -> tuple[float, float]:
        """Volume and surface of a bounded cell from its exact vertices; corrects the sizes of its facets."""
        cells, base = self.cells, int(self.cells.facet_start[i])
        points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in self.exact_rays(i)]
        distinct = [f for f in self._true_facets(i) if self.facets.face[f] == f]
        sets = []
        for f in distinct:
            s, rays = f - base, range(int(cells.ray_start[i]), int(cells.ray_start[i + 1]))
            sets.append(
                sum(1 << k for k, r in enumerate(rays) if int(cells.mask[r, s // 64]) >> (s % 64) & 1)
            )
        volume, found = exact_size(points, sets, self.d)
        size = dict(zip(distinct, found, strict=True))
        for f in self._true_facets(i):
            areas[f] = size[int(self.facets.face[f])]
        return volume, sum(found)

    # vertices

    def cell_vertices(self, i: int) -> Floats:
        """The finite vertices of a cell; none for a cell that contains a line."""
        rays = slice(int(self.cells.ray_start[i]), int(self.cells.ray_start[i + 1]))
        finite = np.flatnonzero(self.facets.far[rays] == 0) if not self.cells.free[i] else np.zeros(0, int)
        chosen = self.cells.rays[rays][finite]
        return np.asarray(chosen[:, :-1] / chosen[:, -1:])

    @cached_property
    def vertices(self) -> Floats:
        """All finite vertices of all cells; a shared one appears once per cell."""
        lines = np.repeat(self.cells.free != 0, np.diff(self.cells.ray_start))
        chosen = self.cells.rays[(self.facets.far == 0) & ~lines]
        return np.asarray(chosen[:, :-1] / chosen[:, -1:])

    # exact

    def _true_facets(self, i: int) -> list[int]:
        facets = range(int(self.cells.facet_start[i]), int(self.cells.facet_start[i + 1]))
        return [f for f in facets if self.facets.face[f] >= 0]

    def boundary(self, i: int) -> list[Name]:
        """The names of a cell's true facets; infinity is none."""
        names = [(int(self.cells.owner[f]), int(self.cells.wall[f])) for f in self._true_facets(i)]
        return [name for name in names if name[0] != AT_INFINITY]

    def row(self, i: int, f: int) -> Row:
        """The exact row of facet f of cell i, nonnegative on the cell."""
        name = int(self.cells.owner[f]), int(self.cells.wall[f])
        return inner_row(self.exact, name, self.cells.bits[i], self.cells.routings[i])

    def rows(self, i: int) -> list[Row]:
        """The exact rows of a cell's true facets, nonnegative on the cell; infinity left out."""
        bits, routings = self.cells.bits[i], self.cells.routings[i]
        return [inner_row(self.exact, name, bits, routings) for name in self.boundary(i)]

    def exact_rays(self, i: int) -> list[list[int]]:
        """The exact rays of a cell as primitive integer vectors, in the order in which they are stored."""
        cells, base = self.cells, int(self.cells.facet_start[i])
        rows = [self.row(i, f) for f in range(base, int(cells.facet_start[i + 1]))]
        found = []
        for r in range(int(cells.ray_start[i]), int(cells.ray_start[i + 1])):
            on = [row for s, row in enumerate(rows) if int(cells.mask[r, s // 64]) >> (s % 64) & 1]
            off = [row for s, row in enumerate(rows) if not int(cells.mask[r, s // 64]) >> (s % 64) & 1]
            ray = exact_ray(on or [(0,) * (self.d + 1)], int(cells.free[i]))
            inside = sum(a * v for a, v in zip(off[0], ray, strict=True)) > 0 if off else ray[-1] > 0
            found.append(ray if inside else [-v for v in ray])
        return found

    def exact_witness(self, i: int) -> list[Fraction]:
        """A point strictly inside a cell: the float witness if it is, else the mean of vertices, moved along
        directions."""
        rows = self.rows(i)
        witness = [Fraction(float(v)) for v in self.cells.witnesses[i]] if self._finite(i) else None
        if witness is not None and strictly_inside(rows, witness):
            return witness
        point = [Fraction(0)] * (self.d + 1)
        for ray in self.exact_rays(i):
            weight = Fraction(1, ray[-1]) if ray[-1] else Fraction(1, max(abs(v) for v in ray))
            point = [p + weight * v for p, v in zip(point, ray, strict=True)]
        return [p / point[-1] for p in point[: self.d]]

    def _finite(self, i: int) -> bool:
        return bool(np.isfinite(self.cells.witnesses[i]).all())

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""
        from hardmax.regions.space_contacts import touching_cells

        return touching_cells(self)

    def domain_size(self) -> float | None:
        """The volume of the domain; ``None`` if it is unbounded."""
        return domain_volume(self.exact, self.d)


def domain_volume(exact: ExactMaps, d: int) -> float | None:
    """The exact volume of a domain, rounded; ``None`` if it is unbounded."""
    from hardmax.geometry.rational_splitting import RationalCone
    from hardmax.geometry.splitting_kernels import EMPTIES

    cone = RationalCone(d + 1)
    rows = [(0,) * d + (1,), *(exact.domain_line(i) for i in range(exact.domain.b.shape[0]))]
    for row in rows:
        if cone.cut(list(row), (0, 0)) == EMPTIES:
            return 0.0
    if cone.lines or any(ray[-1] == 0 for ray in cone.rays):
        return None
    points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in cone.rays]
    sets = {
        sum(1 << k for k, mask in enumerate(cone.masks) if mask >> s & 1) for s in range(len(cone.facets))
    }
    faces = [a for a in sets if a and not any(a != b and a & ~b == 0 for b in sets)]
    return nearest_float(Fraction(exact_size(points, faces, d)[0]))
