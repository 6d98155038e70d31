r"""Sizes in space: the volumes of cells and the areas of their facets.

A polytope is cut into simplices by pulling vertices: :math:`P` is the union of the cones from its first
vertex over those facets that do not contain it, and each facet is cut in the same way, down to edges. Only
the incidence of vertices and facets is needed, so vertices on many facets are no special case. Floats do
this, compiled: vertices that are off by :math:`\delta` change a volume by about :math:`\delta` times the
surface. Where that is not proven to be below :data:`VOLUME_ERROR` of the volume, vertices are computed in
rationals and rounded in a frame in which the cell is round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.exact.rationals import nearest_float
from hardmax.regions.cells import Cells
from hardmax.regions.maps.float_maps import frozen
from hardmax.regions.space import facet_kernels as kernels

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Point = list[Fraction]
VOLUME_ERROR = 1e-6  # relative; where floats cannot prove as much, rationals compute the vertices


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


def room_for(cells: Cells, *, pairs: bool = False) -> kernels.Room:
    """Room for the kernels to work in: for cells of at most so many rays and facets."""
    d = cells.d
    rays = int(cells.vertices.counts.max(initial=1))
    facets = int(cells.facets.counts.max(initial=1))
    if pairs:  # a common part may have more vertices than either facet
        rays, facets = 64 + 8 * rays, 2 * facets
    sets = np.zeros((d + 4, facets + 1, -(-rays // 64)), dtype=np.uint64)
    numbers = np.zeros((3, d + 2), dtype=np.int64)
    points, basis = np.zeros((rays, d)), np.zeros((d + 2, d))
    parts = (*sets[:2], points, sets[2:], *numbers, basis, np.zeros(d + 2), np.zeros(2))
    return kernels.Room._make(parts)


def shape_of(cells: Cells) -> kernels.Shape:
    """Cells as the kernels take them."""
    columns = (
        cells.vertices.offsets, cells.vertices.content, cells.facets.offsets, cells.facets.content,
        cells.masks.content, cells.free, cells.bits, cells.routings, cells.tied,
    )  # fmt: skip
    return kernels.Shape(*(frozen(column) for column in columns))


def facets_of(cells: Cells) -> Facets:
    """True facets, rays at infinity, bounded cells."""
    face = np.full(len(cells.owner), -1, dtype=np.int64)
    far = np.zeros(len(cells.rays), dtype=np.uint8)
    bounded = np.zeros(cells.n, dtype=np.uint8)
    kernels.classify(shape_of(cells), room_for(cells).sets, face, far, bounded)
    bounded[cells.free != 0] = 0
    return Facets(frozen(face), frozen(far), frozen(bounded))


def sizes_of(cells: Cells, facets: Facets) -> Sizes:
    """Volumes, surfaces and sizes of facets in floats."""
    volumes, surfaces, doubt = np.zeros(cells.n), np.zeros(cells.n), np.zeros(cells.n)
    areas = np.zeros(len(cells.owner))
    try:
        kernels.measure(
            shape_of(cells), facets.face, facets.far, facets.bounded, room_for(cells), volumes, surfaces,
            doubt, areas,
        )  # fmt: skip
    except ZeroDivisionError as error:
        raise CertificateError("a cell has no volume; the list of cells is damaged.") from error
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
    try:
        return math.ldexp(math.sqrt(nearest_float(scaled)), -shift)
    except OverflowError:
        return math.inf
