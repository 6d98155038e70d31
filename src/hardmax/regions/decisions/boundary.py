r"""The decision boundary of a classifier: the exact set where the winning class changes.

The network is continued by a head whose keys are the classes (:mod:`hardmax.regions.decisions.classes`), so
its cells come out cut by class, and the boundary is read off their adjacency: two class cells with different
classes that meet in dimension :math:`d - 1` contribute the facet in which they meet. No geometry of its own.

Why facets are all of it: let :math:`x` be an inner point of the domain at which the closures of two classes
meet. The class cells around :math:`x` form a fan, and any two of its cells are joined by a chain of adjacent
ones that all contain :math:`x`, because what is left of a ball without parts of dimension :math:`d - 2` is
connected. The class changes somewhere along the chain, so :math:`x` lies on a facet between two classes. Two
classes that touch only in a point (four classes around a corner) have no piece in common, and that point
belongs to pieces of others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hardmax.errors import CertificateError, InvalidInputError
from hardmax.exact.rationals import nearest_float
from hardmax.geometry.cones.rational_splitting import RationalCone
from hardmax.geometry.domains import Domain
from hardmax.networks.network import Network
from hardmax.networks.reading.sources import NetworkLike, as_network
from hardmax.regions.api import Progress, enumerate_regions
from hardmax.regions.cells import Contacts
from hardmax.regions.decisions.classes import cell_numbers, n_classes, with_classes
from hardmax.regions.decisions.distance import DecisionDistance, nearest_piece
from hardmax.regions.maps.exact_maps import Row, common_cone, rays_in_space, scaled_rows
from hardmax.regions.result import RegionSet
from hardmax.results import Result, pictures

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Point = list[Fraction]

_REMEMBERED = 1 << 16  # pieces whose vertices are kept


class Part(NamedTuple):
    """One piece without rounding: the hull of points, and directions in which it is unbounded."""

    points: list[Point]
    directions: list[list[int]]
    cone: RationalCone  # in the basis of its hyperplane


@dataclass(frozen=True, eq=False, repr=False)
class BoundaryPiece:
    """One piece of a decision boundary: ``boundary[i]``.

    Examples
    --------
    >>> import hardmax as hm
    >>> larger = hm.Network.mlp([([[1.0, 0.0], [0.0, 1.0]], None)])        # which coordinate is larger?
    >>> piece = hm.decision_boundary(larger, hm.Box.cube(2, 0, 1))[0]
    >>> piece
    <BoundaryPiece 0 of 1: classes 0 and 1, size 1.41421>
    >>> piece.vertices.tolist(), piece.cells, piece.jump
    ([[1.0, 1.0], [0.0, 0.0]], (0, 0), False)
    """

    boundary: DecisionBoundary
    index: int

    @property
    def classes(self) -> tuple[int, int]:
        """The classes on its two sides, the lower first."""
        a, b = self.boundary.classes[self.index].tolist()
        return a, b

    @property
    def cells(self) -> tuple[int, int]:
        """The cells of the network on its two sides; twice the same if it lies inside one."""
        a, b = self.boundary.cells[self.index].tolist()
        return a, b

    @property
    def jump(self) -> bool:
        """Whether the outputs jump across it."""
        return bool(self.boundary.jumps[self.index])

    @property
    def size(self) -> float:
        """Its length in the plane, its area in space, 1 for a point of the line."""
        return self.boundary._size_of(self.index)

    @property
    def vertices(self) -> Floats:
        """Its vertices, correctly rounded."""
        return self.boundary.vertices(self.index)

    @property
    def exact_vertices(self) -> list[Point]:
        """Its vertices as fractions."""
        return self.boundary.exact_vertices(self.index)

    def __repr__(self) -> str:
        a, b = self.classes
        return (
            f"<BoundaryPiece {self.index} of {len(self.boundary)}: classes {a} and {b}, size {self.size:g}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class DecisionBoundary(Result):
    r"""Where the winning class of a network changes: ``hm.decision_boundary(network, domain)``.

    The class of an input is the lowest index of the largest output; of a network with one output it is 1
    where the output is positive, else 0. An *open set* has a class if one class wins on it: outputs that tie
    on all of it count for the lowest. The boundary consists of the points of the domain every neighbourhood
    of which meets open sets of two classes. It is a union of convex pieces of dimension :math:`d - 1`:
    points of the line, segments of the plane, polygons in space. A piece is the whole set in which two class
    cells meet (cells of the network, cut by class), so

    - a boundary that coincides with a wall or a fold of the network is listed once;
    - at a wall across which the outputs jump, the parts of the wall whose two sides have different classes
      are pieces, marked in ``jumps``; everywhere else the two classes' outputs are equal on the piece;
    - two outputs that are equal on a whole cell make no boundary inside it (the lower one has the cell), but
      its rim is boundary where the higher one wins beyond it;
    - points at which another class wins than all around (a tie at a corner, the value on a wall itself) are
      no boundary, and neither is the domain's own rim.

    Attributes
    ----------
    network, domain
        What was asked.
    classes : ndarray of int64, (n_pieces, 2)
        The classes on the two sides of each piece, the lower first.
    cells : ndarray of int64, (n_pieces, 2)
        The cells of the network on these two sides, numbered as in ``hm.enumerate_regions(network, domain)``:
        twice the same number for a piece inside a cell.
    jumps : ndarray of bool
        Whether the outputs jump across the piece.
    sizes : ndarray of float64
        Lengths in the plane, areas in space, 1 for each point of the line; infinite where unbounded, NaN in
        seven and more dimensions. In up to three dimensions they come from the exact vertices.
    total_size : float
        Their sum.
    class_cells : RegionSet
        The cells of the network, cut by class. Its maps are the network's.
    class_of_cell : ndarray of int64
        The class of each of these.
    n_decision_regions : int
        Maximal connected sets of one class; two parts of a class that touch in less than dimension
        :math:`d - 1` are two.
    complete, exact : bool
        Whether every cell was found; whether every decision was proven. Which pieces there are and their
        classes follow from signs that are; coordinates and sizes are floats, and ``exact_vertices(i)`` and
        ``exact_hyperplane(i)`` are fractions.

    Examples
    --------
    The diamond :math:`|x| + |y| = 1`, built from four ReLU units; its length is :math:`4\sqrt{2}`.

    >>> import hardmax as hm
    >>> units = [[1, 0], [-1, 0], [0, 1], [0, -1]]
    >>> diamond = hm.Network.mlp([(units, None), ([[-1, -1, -1, -1]], [1])])
    >>> boundary = hm.decision_boundary(diamond, hm.Box.cube(2, -2, 2))
    >>> boundary
    <DecisionBoundary: 4 pieces in the plane, length 5.65685, 2 decision regions, complete, exact>
    >>> boundary[0].classes, boundary.exact_vertices(0)
    ((0, 1), [[Fraction(0, 1), Fraction(-1, 1)], [Fraction(-1, 1), Fraction(0, 1)]])
    >>> boundary.distance([0.25, 0]).exact          # the square of the distance: (3/4)^2 / 2
    Fraction(9, 32)
    """

    kind: ClassVar[str] = "DecisionBoundary"
    _nested: ClassVar[dict[str, type]] = {"class_cells": RegionSet}

    class_cells: RegionSet

    # what was asked

    @cached_property
    def network(self) -> Network:
        """The network as it was given."""
        longer = self.class_cells.network
        return Network(longer.blocks[:-1], longer.description)

    @property
    def domain(self) -> Domain:
        """Where the boundary was looked for."""
        return self.class_cells.domain

    @property
    def d(self) -> int:
        """The dimension of the domain."""
        return self.class_cells.d

    @property
    def complete(self) -> bool:
        """Whether every cell was found."""
        return self.class_cells.complete

    @property
    def exact(self) -> bool:
        """Whether every decision was proven."""
        return self.class_cells.exact

    @property
    def n_classes(self) -> int:
        """The number of classes, those that win nowhere included."""
        return n_classes(self.network)

    # class cells

    @cached_property
    def class_of_cell(self) -> Integers:
        """The class of every class cell."""
        return self.class_cells.routings[:, -1].astype(np.int64)

    @cached_property
    def cell_of_class_cell(self) -> Integers:
        """The number of the network's cell in which every class cell lies."""
        return cell_numbers(self.class_cells)

    @cached_property
    def class_sizes(self) -> Any:
        """The volume (area, length) of each class, (n_classes,); ``None`` in seven and more dimensions."""
        volumes = self.class_cells.volumes
        return None if volumes is None else np.bincount(self.class_of_cell, volumes, self.n_classes)

    @cached_property
    def decision_region_of_cell(self) -> Integers:
        """The decision region of every class cell: numbers of connected sets of one class."""
        pairs, classes, n = self.class_cells.adjacency, self.class_of_cell, self.class_cells.n_cells
        i, j = pairs[classes[pairs[:, 0]] == classes[pairs[:, 1]]].T
        _, region = connected_components(coo_array((np.ones(len(i)), (i, j)), shape=(n, n)), directed=False)
        return np.asarray(region, dtype=np.int64)

    @property
    def n_decision_regions(self) -> int:
        """The number of maximal connected sets of one class."""
        return int(self.decision_region_of_cell.max(initial=-1)) + 1

    def classify(self, points: ArrayLike) -> Integers:
        """The class of each point (one per row), in float arithmetic."""
        signature = self.class_cells.plain.signature(np.atleast_2d(np.asarray(points, dtype=np.float64)))
        return signature.routings[:, -1].astype(np.int64)

    # pieces

    @property
    def _contacts(self) -> Contacts:
        return self.class_cells._contacts

    @cached_property
    def _numbers(self) -> Integers:
        """The contacts of class cells that are pieces."""
        i, j = self.class_of_cell[self._contacts.pairs].T
        return np.flatnonzero(i != j)

    @cached_property
    def _turned(self) -> NDArray[np.bool_]:
        """Where the first class cell of a contact has the higher class."""
        i, j = self.class_of_cell[self._contacts.pairs[self._numbers]].T
        return np.asarray(i > j)

    def _sides(self, of_class_cell: Integers) -> Integers:
        """What class cells have on the two sides of each piece, that of the lower class first."""
        both = of_class_cell[self._contacts.pairs[self._numbers]]
        both[self._turned] = both[self._turned, ::-1]
        both.setflags(write=False)
        return both

    @property
    def n_pieces(self) -> int:
        """The number of pieces."""
        return len(self._numbers)

    def __len__(self) -> int:
        return self.n_pieces

    def __getitem__(self, i: int) -> BoundaryPiece:
        if not -len(self) <= i < len(self):
            raise IndexError(f"i must be in range({len(self)}), but was {i}.")
        return BoundaryPiece(self, i % len(self))

    def __iter__(self) -> Iterator[BoundaryPiece]:
        return (BoundaryPiece(self, i) for i in range(len(self)))

    @cached_property
    def classes(self) -> Integers:
        """The classes on the two sides of each piece, the lower first."""
        return self._sides(self.class_of_cell)

    @cached_property
    def cells(self) -> Integers:
        """The cells of the network on the two sides of each piece."""
        return self._sides(self.cell_of_class_cell)

    @cached_property
    def jumps(self) -> NDArray[np.bool_]:
        """Whether the outputs jump across each piece: decided in rationals, where there is any doubt."""
        jumps = np.zeros(len(self), dtype=np.bool_)
        layers = self.class_cells._exact_maps.layers
        if any(layer.jumps for layer in layers[:-1]):  # the last one adds nothing
            for k in np.flatnonzero(self.cells[:, 0] != self.cells[:, 1]).tolist():
                jumps[k] = self._jumps(k)
        jumps.setflags(write=False)
        return jumps

    def _jumps(self, k: int) -> bool:
        """Whether the maps of the two cells differ somewhere on the hyperplane of a piece."""
        cells, exact = self.class_cells.cells, self.class_cells._exact_maps
        i, j = self._contacts.pairs[self._numbers[k]].tolist()
        (here, p), (there, q) = (exact.output(cells.bits[c], cells.routings[c]) for c in (i, j))
        row = self._row(k)
        at = next(c for c, value in enumerate(row) if value)
        for difference in (here * q - there * p).tolist():  # all multiples of the row, if nothing jumps
            if any(difference[c] * row[at] != difference[at] * row[c] for c in range(len(row))):
                return True
        return False

    @cached_property
    def sizes(self) -> Floats:
        """The (d - 1)-dimensional size of each piece: in up to three dimensions from its exact vertices."""
        if self.d > 3:
            sizes = np.asarray(self.class_cells.adjacency_length)[self._numbers]
        else:
            sizes = np.array([_size(self._part(k), self.d) for k in range(len(self))])
        sizes.setflags(write=False)
        return sizes

    def _size_of(self, k: int) -> float:
        """The size of one piece, without those of the others in up to three dimensions."""
        if self.d > 3 or "sizes" in self.__dict__:
            return float(self.sizes[k])
        return float(_size(self._part(k), self.d))

    @property
    def total_size(self) -> float:
        """The sum of the sizes of all pieces; infinite beyond float64."""
        try:
            return math.fsum(self.sizes.tolist())
        except OverflowError:
            return math.inf

    # without rounding

    def _row(self, k: int) -> Row:
        """The hyperplane of a piece, nonnegative on the side of the lower class."""
        row = self.class_cells._geometry.contact_row(self._contacts, int(self._numbers[k]))
        return tuple(-v for v in row) if self._turned[k] else row

    def _rows(self, k: int) -> list[Row]:
        """Rows that bound a piece in its hyperplane."""
        return self.class_cells._geometry.contact_rows(self._contacts, int(self._numbers[k]))

    @cached_property
    def _part(self) -> Callable[[int], Part]:
        return lru_cache(_REMEMBERED)(self._part_of)

    def _part_of(self, k: int) -> Part:
        row = self._row(k)
        cone = common_cone(self._rows(k), [], row, self.d)
        if cone is None:
            raise CertificateError(f"piece {k} is thinner than its dimension; the list of cells is damaged.")
        rays = rays_in_space(cone, row)
        points = [[Fraction(v, ray[-1]) for v in ray[:-1]] for ray in rays if ray[-1]]
        directions = [ray[:-1] for ray in rays if not ray[-1]]
        if self.d == 2:  # the lower class on the left
            points.sort(key=lambda point: point[0] * row[1] - point[1] * row[0])
        if self.d == 3 and not directions:
            points = _around([points[v] for v in _cycle(cone.masks)], row)
        return Part(points, directions, cone)

    def exact_vertices(self, i: int) -> list[Point]:
        """The vertices of piece ``i`` as fractions.

        Two ends in the plane, the lower class on the left of the way from the first to the second; a polygon
        in space, counterclockwise as seen from the side of the lower class. Ends at infinity are left out.
        """
        part = self._part(self._index(i))
        return [] if part.cone.lines else part.points

    def vertices(self, i: int) -> Floats:
        """The vertices of piece ``i``, correctly rounded; see :meth:`exact_vertices`."""
        points = [[nearest_float(v) for v in point] for point in self.exact_vertices(i)]
        return np.array(points).reshape(-1, self.d)

    def exact_hyperplane(self, i: int) -> Point:
        r"""The hyperplane of piece ``i``: :math:`(a, b)`, :math:`a \cdot x \le b` for the lower class."""
        return scaled_rows([self._row(self._index(i))], self.d)[0]

    def _index(self, i: int) -> int:
        if not -len(self) <= i < len(self):
            raise InvalidInputError(f"i must be in range({len(self)}), but was {i}.")
        return i % len(self)

    @cached_property
    def _boxes(self) -> tuple[Floats, Floats]:
        """Boxes around the pieces, rounded outward; infinite where a piece is unbounded."""
        low, high = np.empty((len(self), self.d)), np.empty((len(self), self.d))
        for k in range(len(self)):
            part = self._part(k)
            points = np.array([[nearest_float(v) for v in point] for point in part.points])
            low[k], high[k] = points.min(axis=0), points.max(axis=0)
            for direction in part.directions:
                low[k, [v < 0 for v in direction]] = -np.inf
                high[k, [v > 0 for v in direction]] = np.inf
        return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)

    def distance(self, point: ArrayLike, norm: float | str = 2) -> DecisionDistance:
        r"""How far a point is from the boundary, exactly.

        Parameters
        ----------
        point : (d,) array_like
            A point of the domain; floats count as the rational numbers that they are.
        norm : {2, 1, inf}
            How far is measured; infinity may be written "inf" or as a float.

        Returns
        -------
        DecisionDistance
            The distance (of norm 2 its square) and the nearest point as fractions. Outside of the domain
            nothing is known: where the domain's rim is nearer than the boundary, ``certain`` is false, and
            what holds everywhere is ``lower_bound``.

        Examples
        --------
        >>> import hardmax as hm
        >>> classifier = hm.Network.mlp([([[1.0, 0.0], [0.0, 1.0]], None)])    # the larger coordinate
        >>> boundary = hm.decision_boundary(classifier, hm.Box.cube(2, -4, 4))
        >>> boundary.distance([2, 1], norm="inf")
        <DecisionDistance: 0.5 from class 0 to class 1, norm inf, exact>
        >>> boundary.distance([3, 1])                      # sqrt(2), but the box ends at distance 1
        <DecisionDistance: at least 1, norm 2: the domain ends there, 1.41421 from class 0 to class 1 inside>
        """
        return nearest_piece(self, point, norm)

    def plot(self, *, ax: Any = None, box: Any = None, points: Any = None, labels: Any = None) -> Any:
        """Draw the boundary over areas coloured by class (needs the extra ``plot``).

        Parameters
        ----------
        ax, box
            As for every result.
        points : (n, d) array_like, optional
            Data to draw.
        labels : (n,) array_like of int, optional
            Their classes, by which they are coloured.
        """
        return pictures("regions").draw_boundary(self, ax=ax, box=box, points=points, labels=labels)

    # what every result has

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(RegionSet._from_state(state["class_cells"]))

    def _summary(self) -> str:
        if not self.complete:  # which cells touch takes longer than what was limited
            n = self.class_cells.n_cells
            found = f"{n:,} class cell{'' if n == 1 else 's'} in {self.d}-space"
            return f"{found}, INCOMPLETE, {'exact' if self.exact else 'not certified'}"
        words = {1: ("point", "on the line"), 2: ("piece", "in the plane")}
        word, place = words.get(self.d, ("piece", f"in {self.d}-space"))
        size = ""
        if self.d in (2, 3):
            size = f"{'length' if self.d == 2 else 'area'} {self.total_size:.6g}, "
        n, regions = len(self), self.n_decision_regions
        return (
            f"{n} {word}{'' if n == 1 else 's'} {place}, {size}{regions} decision region"
            f"{'' if regions == 1 else 's'}, complete, "
            f"{'exact' if self.exact else 'not certified'}"
        )

    def _table(self) -> dict[str, Any]:
        return {"class": self.classes, "cell": self.cells, "jump": self.jumps, "size": self.sizes}


def _cycle(masks: list[int]) -> list[int]:
    """The corners of a polygon in order, from the sets of sides on which each lies."""
    sides: dict[int, list[int]] = {}
    for v, mask in enumerate(masks):
        for s in range(mask.bit_length()):
            if mask >> s & 1:
                sides.setdefault(s, []).append(v)
    near: dict[int, set[int]] = {v: set() for v in range(len(masks))}
    for corners in sides.values():
        if len(corners) == 2:
            near[corners[0]].add(corners[1])
            near[corners[1]].add(corners[0])
    order = [0]
    while len(order) < len(masks):
        order.append(next(v for v in sorted(near[order[-1]]) if v not in order))
    return order


def _around(points: list[Point], row: Row) -> list[Point]:
    """Corners of a polygon in space counterclockwise, as seen from where a row is positive."""
    normal = _twice_area(points[:3])
    return points if sum(a * c for a, c in zip(row, normal, strict=False)) > 0 else points[:1] + points[:0:-1]


def _twice_area(points: list[Point]) -> Point:
    """The normal of a polygon in space that is twice as long as its area is large."""
    steps = [[b - a for a, b in zip(points[0], point, strict=True)] for point in points[1:]]
    total = [Fraction(0)] * 3
    for u, v in pairwise(steps):
        cross = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
        total = [a + b for a, b in zip(total, cross, strict=True)]
    return total


def _size(part: Part, d: int) -> float:
    """The size of a point, a segment or a polygon, rounded at the end."""
    if part.directions:
        return math.inf
    if d == 1:
        return 1.0
    if d == 2:
        return math.hypot(*(nearest_float(a - b) for a, b in zip(*part.points, strict=True)))
    return 0.5 * math.hypot(*map(nearest_float, _twice_area(part.points)))


def decision_boundary(
    network: NetworkLike,
    domain: Domain,
    *,
    arithmetic: str = "certified",
    max_cells: int | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> DecisionBoundary:
    """The exact set where the winning class of a network changes.

    Parameters
    ----------
    network : Network, torch module, or path of an ONNX file or of a saved network
        Piecewise affine. With several outputs the largest wins; one output decides by its sign.
    domain : Box, Polytope or WholeSpace
        Of the dimension of the network's input.
    arithmetic, max_cells, time_limit, n_jobs, progress, checkpoint
        As in :func:`~hardmax.regions.api.enumerate_regions`; limits count class cells.

    Returns
    -------
    DecisionBoundary
        Segments in the plane, polygons in space, points on the line, each with its two classes.

    See Also
    --------
    hardmax.networks.network.Network.plane_through : the plane of three data points.

    Examples
    --------
    Nearest of three centres: the boundary is that of their Voronoi diagram.

    >>> import hardmax as hm
    >>> centres = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> nearest = hm.Network.mlp([(centres, [-sum(c * c for c in centre) / 2 for centre in centres])])
    >>> boundary = hm.decision_boundary(nearest, hm.Box([-1, -1], [3, 3]))
    >>> boundary.classes
    array([[0, 1],
           [0, 2],
           [1, 2]])
    >>> boundary.sizes.round(6)
    array([2.      , 2.      , 2.828427])
    """
    return DecisionBoundary(
        enumerate_regions(
            with_classes(as_network(network)),
            domain,
            arithmetic=arithmetic,
            max_cells=max_cells,
            time_limit=time_limit,
            n_jobs=n_jobs,
            progress=progress,
            checkpoint=checkpoint,
        )
    )
