r"""Cells in three to six dimensions: vertices, volumes, hyperplanes, points inside.

The counterpart of :mod:`hardmax.regions.plane.geometry`, with the same names. Floats come from the rays that
were stored; whatever is exact comes from the names of the facets and the incidence of rays and facets.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.geometry.domains import Box
from hardmax.regions.cells import AT_INFINITY
from hardmax.regions.maps.boundary_rows import Name, Row, exact_ray, inner_row, strictly_inside
from hardmax.regions.maps.exact_maps import ExactMaps
from hardmax.regions.space.sizes import Facets, Sizes, exact_volume, facets_of, rounded_frame, sizes_of
from hardmax.regions.space.space_cells import SpaceCells

if TYPE_CHECKING:
    from hardmax.regions.maps.adjacency import Contacts

__all__ = ["SpaceGeometry"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_DOUBT = 1e-5  # proven relative error of a volume above which rationals compute it; true errors are far below


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
        with np.errstate(invalid="ignore", over="ignore"):
            thin = self.bounded & ~(sizes.doubt * sizes.surfaces < _DOUBT * sizes.volumes)
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
        part = _part(cells, chosen)
        alike = facets_of(part)
        volumes = sizes_of(replace(part, rays=_homogeneous(rounded)), alike).volumes
        again = sizes_of(replace(part, rays=_homogeneous(plain)), alike)
        sizes.surfaces[chosen] = again.surfaces
        for k, i in enumerate(chosen.tolist()):
            sizes.volumes[i] = nearest_float(Fraction(float(volumes[k])) * factors[k])
            here = slice(int(cells.facet_start[i]), int(cells.facet_start[i + 1]))
            there = slice(int(part.facet_start[k]), int(part.facet_start[k + 1]))
            sizes.areas[here] = np.where(face[here] >= 0, again.areas[there], 0.0)

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
        from hardmax.regions.space.contacts import touching_cells

        return touching_cells(self)

    def contact_sizes(self, contacts: Contacts) -> Floats:
        """How large the common parts of adjacent cells are."""
        from hardmax.regions.space.contacts import sizes_of_contacts

        return sizes_of_contacts(self, contacts)

    def domain_size(self) -> float | None:
        """The volume of the domain; ``None`` if it is unbounded."""
        return domain_volume(self.exact, self.d)


def _homogeneous(points: list[Floats]) -> Floats:
    table = np.concatenate(points)
    return np.concatenate([table, np.ones((len(table), 1))], axis=1)


def _part(cells: SpaceCells, chosen: Integers) -> SpaceCells:
    """Some of the cells."""
    n_rays, n_facets = np.diff(cells.ray_start)[chosen], np.diff(cells.facet_start)[chosen]
    rays = np.concatenate([np.arange(cells.ray_start[i], cells.ray_start[i + 1]) for i in chosen])
    facets = np.concatenate([np.arange(cells.facet_start[i], cells.facet_start[i + 1]) for i in chosen])
    by_cell = ("bits", "routings", "tied", "free", "witnesses", "margins")
    return replace(
        cells,
        **{name: getattr(cells, name)[chosen] for name in by_cell},
        **{name: getattr(cells, name)[rays] for name in ("rays", "mask")},
        **{name: getattr(cells, name)[facets] for name in ("owner", "wall")},
        ray_error=np.zeros(len(rays)),
        ray_start=np.concatenate([[0], np.cumsum(n_rays)]).astype(np.int64),
        facet_start=np.concatenate([[0], np.cumsum(n_facets)]).astype(np.int64),
    )


def domain_volume(exact: ExactMaps, d: int) -> float | None:
    """The exact volume of a domain, rounded; ``None`` if it is unbounded."""
    domain = exact.domain
    if isinstance(domain, Box):
        sides = [domain.high.rational(c) - domain.low.rational(c) for c in range(d)]
        volume = Fraction(1)
        for side in sides:
            volume *= Fraction(int(side.p), int(side.q))
        return nearest_float(volume)
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
