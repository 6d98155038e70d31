r"""Cells in three to six dimensions: vertices, volumes, surfaces, hyperplanes, points inside.

The counterpart of :mod:`hardmax.regions.plane.geometry`, with the same names. Floats come from the rays that
were stored; whatever is exact comes from the names of the facets and the incidence of rays and facets.

A polytope is cut into simplices by pulling vertices: :math:`P` is the union of the cones from its first
vertex over those facets that do not contain it, and each facet is cut in the same way, down to edges. Only
the incidence of vertices and facets is needed, so vertices on many facets are no special case. Floats do
this, compiled. Where the vertices are less certain than the cell is thick, they are computed in rationals and
rounded in a frame in which the cell is round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import nearest_float
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.cones.splitting_kernels import EMPTIES
from hardmax.geometry.domains import Box
from hardmax.regions.cells import AT_INFINITY, Cells, Contacts, Ragged
from hardmax.regions.geometries import Geometry
from hardmax.regions.maps.exact_maps import ExactMaps, Name, Row, exact_ray
from hardmax.regions.maps.float_maps import frozen
from hardmax.regions.space import facet_kernels as kernels

__all__ = [
    "Facets",
    "Scratch",
    "Sizes",
    "SpaceGeometry",
    "exact_area",
    "exact_volume",
    "facets_of",
    "rounded_frame",
    "sizes_of",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_DOUBT = 1e-5  # proven relative error of a volume above which rationals compute it; true errors are far below
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
        chosen = self.cells.vertices[i][finite, :-1]
        return np.asarray(chosen[:, :-1] / chosen[:, -1:])

    @cached_property
    def vertices(self) -> Floats:
        """All finite vertices of all cells; a shared one appears once per cell."""
        lines = np.repeat(self.cells.free != 0, self.cells.vertices.counts)
        chosen = self.cells.rays[(self.facets.far == 0) & ~lines]
        return np.asarray(chosen[:, :-1] / chosen[:, -1:])

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

    def inner_point(self, i: int, rows: list[Row]) -> list[Fraction]:
        """The mean of a cell's vertices, moved along its directions."""
        point = [Fraction(0)] * (self.d + 1)
        for ray in self.exact_rays(i):
            weight = Fraction(1, ray[-1]) if ray[-1] else Fraction(1, max(abs(v) for v in ray))
            point = [p + weight * v for p, v in zip(point, ray, strict=True)]
        return [p / point[-1] for p in point[: self.d]]

    def contacts(self) -> Contacts:
        """Pairs of adjacent cells."""
        from hardmax.regions.space.contacts import touching_cells

        return touching_cells(self)

    def contact_sizes(self, contacts: Contacts) -> Floats:
        """How large the common parts of adjacent cells are."""
        from hardmax.regions.space.contacts import sizes_of_contacts

        return sizes_of_contacts(self, contacts)

    def coverage(self) -> float | None:
        """The share of the domain that the cells fill."""
        size = self.domain_size()
        return None if size is None else math.fsum(self.sizes[0].tolist()) / size

    def domain_size(self) -> float | None:
        """The volume of the domain; ``None`` if it is unbounded."""
        return domain_volume(self.exact, self.d)


def _homogeneous(points: list[Floats]) -> Floats:
    """Vertices as rays without errors."""
    table = np.concatenate(points)
    return np.column_stack([table, np.ones(len(table)), np.zeros(len(table))])


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


@dataclass(frozen=True, eq=False)
class Facets:
    """What the incidence of rays and facets says about cells.

    Attributes
    ----------
    face : int64 (F,)
        -1 for a facet that only touches its cell; else the first facet of the cell with the same rays.
    far : uint8 (R,)
        1 for a ray at infinity.
    bounded : uint8 (n,)
        1 for a bounded cell.
    """

    face: Integers
    far: NDArray[np.uint8]
    bounded: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Sizes:
    """Volumes and surfaces of cells (infinite where unbounded), and of each facet.

    ``doubt`` bounds the error of the coordinates of a cell's vertices.
    """

    volumes: Floats
    surfaces: Floats
    areas: Floats
    doubt: Floats


class Scratch:
    """Room for the kernels to work in: for cells of at most so many rays and facets."""

    def __init__(self, cells: Cells, *, pairs: bool = False) -> None:
        d = cells.d
        rays = int(cells.vertices.counts.max(initial=1))
        facets = int(cells.facets.counts.max(initial=1))
        if pairs:  # a common part may have more vertices than either facet
            rays, facets = 64 + 8 * rays, 2 * facets
        words = -(-rays // 64)
        self.most_rays = rays
        self.sets = np.zeros((facets + 1, words), dtype=np.uint64)
        self.distinct = np.zeros((facets + 1, words), dtype=np.uint64)
        self.points = np.zeros((rays, d))
        self.triangulation = (
            np.zeros((d + 2, facets + 1, words), dtype=np.uint64),
            np.zeros(d + 2, dtype=np.int64),
            np.zeros(d + 2, dtype=np.int64),
            np.zeros(d + 2, dtype=np.int64),
            np.zeros((d + 2, d)),
            np.zeros(d + 2),
            np.zeros(2),
        )


def facets_of(cells: Cells) -> Facets:
    """True facets, rays at infinity, bounded cells."""
    face = np.full(len(cells.owner), -1, dtype=np.int64)
    far = np.zeros(len(cells.rays), dtype=np.uint8)
    bounded = np.zeros(cells.n, dtype=np.uint8)
    kernels.classify(
        frozen(cells.vertices.offsets),
        frozen(cells.facets.offsets),
        frozen(cells.owner),
        frozen(cells.masks.content),
        Scratch(cells).sets,
        face,
        far,
        bounded,
    )
    bounded[cells.free != 0] = 0
    return Facets(frozen(face), frozen(far), frozen(bounded))


def sizes_of(cells: Cells, facets: Facets) -> Sizes:
    """Volumes, surfaces and sizes of facets in floats."""
    volumes, surfaces, doubt = np.zeros(cells.n), np.zeros(cells.n), np.zeros(cells.n)
    areas = np.zeros(len(cells.owner))
    scratch = Scratch(cells)
    kernels.measure(
        np.int64(cells.d),
        frozen(cells.vertices.offsets),
        frozen(cells.rays),
        frozen(cells.ray_error),
        frozen(cells.facets.offsets),
        frozen(cells.masks.content),
        facets.face,
        facets.far,
        facets.bounded,
        scratch.sets,
        scratch.points,
        scratch.distinct,
        *scratch.triangulation,
        volumes,
        surfaces,
        doubt,
        areas,
    )
    lines = np.repeat(cells.free != 0, cells.facets.counts)
    areas[lines & (facets.face >= 0)] = np.inf
    return Sizes(volumes, surfaces, areas, doubt)


def rounded_frame(points: list[Point]) -> tuple[Floats, Fraction]:
    """A polytope in coordinates in which it is about as thick as long, in floats; by what volumes shrank.

    The frame is spanned by vertices: elimination with full pivoting chooses d edges from the first vertex
    that are as independent as possible. In their coordinates no vertex is far out, however thin the cell is.

    Examples
    --------
    >>> thin = [[Fraction(x), Fraction(y, 10**30)] for x, y in ((0, 0), (1, 0), (0, 1), (1, 1))]
    >>> corners, factor = rounded_frame(thin)
    >>> float(np.abs(corners).max()), factor == Fraction(1, 10**30)
    (1.0, True)
    """
    d = len(points[0])
    edges = [[a - b for a, b in zip(point, points[0], strict=True)] for point in points]
    rest = [list(edge) for edge in edges]
    chosen: list[int] = []
    for _ in range(d):
        scale = [max((abs(row[c]) for row in rest), default=Fraction(0)) or Fraction(1) for c in range(d)]
        size, k, c = max((abs(row[c]) / scale[c], k, c) for k, row in enumerate(rest) for c in range(d))
        if not size:
            return np.zeros((len(points), d)), Fraction(0)
        chosen.append(k)
        pivot = list(rest[k])
        for row in rest:
            factor = row[c] / pivot[c]
            if factor:
                row[:] = [u - factor * v for u, v in zip(row, pivot, strict=True)]
    frame = flint.fmpq_mat([[_rational(v) for v in edges[k]] for k in chosen])
    within = flint.fmpq_mat([[_rational(v) for v in edge] for edge in edges]) * frame.inv()
    det = frame.det()
    table = [[nearest_float(Fraction(int(v.p), int(v.q))) for v in row] for row in within.tolist()]
    return np.array(table), abs(Fraction(int(det.p), int(det.q)))


def exact_volume(points: list[Point], faces: list[int], d: int) -> Fraction:
    """The volume of a polytope.

    Parameters
    ----------
    points : list of list of Fraction
        Its vertices.
    faces : list of int
        For each facet the set of its vertices, as bits.

    Examples
    --------
    >>> corners = [[Fraction(v) for v in (x, y, z)] for x in (0, 1) for y in (0, 1) for z in (0, 2)]
    >>> ends = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 2)]
    >>> sides = [sum(1 << k for k, p in enumerate(corners) if p[c] == v) for c, v in ends]
    >>> exact_volume(corners, sides, 3)
    Fraction(2, 1)
    """
    total = Fraction(0)
    for face in faces:
        if not face & 1:  # the cones from vertex 0
            for simplex in _simplices(face, d - 1, faces):
                base = points[0]
                total += abs(
                    _determinant([[a - b for a, b in zip(points[v], base, strict=True)] for v in simplex])
                )
    return total / math.factorial(d)


def exact_area(points: list[Point], faces: list[int], d: int) -> float:
    """The (d - 1)-dimensional size of a polytope in a hyperplane; ``faces`` are its own facets."""
    whole = (1 << len(points)) - 1
    total = 0.0
    for simplex in _simplices(whole, d - 1, faces):
        base = points[simplex[0]]
        total += _size([[a - b for a, b in zip(points[v], base, strict=True)] for v in simplex[1:]])
    return total


def _simplices(face: int, k: int, faces: list[int]) -> list[list[int]]:
    """A triangulation of a face of dimension k by pulling its first vertex."""
    first = (face & -face).bit_length() - 1
    if k == 1:
        return [[first, face.bit_length() - 1]]
    parts = {face & other for other in faces} - {face, 0}
    largest = [p for p in parts if not any(p != q and p & ~q == 0 for q in parts)]
    return [
        [first, *simplex]
        for part in sorted(largest)
        if not part >> first & 1
        for simplex in _simplices(part, k - 1, faces)
    ]


def _determinant(rows: list[Point]) -> Fraction:
    value = flint.fmpq_mat([[_rational(v) for v in row] for row in rows]).det()
    return Fraction(int(value.p), int(value.q))


def _rational(value: Fraction) -> flint.fmpq:
    return flint.fmpq(value.numerator, value.denominator)


def _size(edges: list[Point]) -> float:
    """The volume of a simplex with these edges at one corner: the root of a Gram determinant."""
    gram = [[sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0)) for v in edges] for u in edges]
    square = _determinant(gram) / math.factorial(len(edges)) ** 2
    # root of a fraction that may be far below the smallest float: scale it by an even power of two first
    shift = (square.denominator.bit_length() - square.numerator.bit_length()) // 2 if square else 0
    scaled = square * Fraction(4) ** shift
    return math.ldexp(math.sqrt(nearest_float(scaled)), -shift)
