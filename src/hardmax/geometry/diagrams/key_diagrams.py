r"""What the diagrams of one head share: its scores, and the faces of its cells in low dimension.

Faces are read off the cells that the splitting kernel cuts: walls are where two cells meet in dimension d -
1, vertices where the walls end. A vertex that several cells share is listed once.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import (
    DimensionMismatchError,
    InvalidInputError,
    NotFiniteError,
    UnsupportedDimensionError,
)
from hardmax.exact.rationals import ExactArray, as_exact, fraction, nearest_float
from hardmax.geometry.cones.splitting import Refinement, refine
from hardmax.geometry.domains import Box
from hardmax.geometry.scores import Scores
from hardmax.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LOW_DIMENSION = 4  # faces of cells are listed up to here


@dataclass(frozen=True, eq=False, repr=False)
class KeyDiagram(Result):
    """A partition of space by the scores of one head; every score is kept exactly."""

    scores: Scores

    @property
    def slopes(self) -> Floats:
        """The slopes :math:`a_j`."""
        return self.scores.slopes

    @property
    def offsets(self) -> Floats:
        """The offsets :math:`b_j`."""
        return self.scores.offsets

    @property
    def n_keys(self) -> int:
        """The number of keys N."""
        return self.scores.n_keys

    @property
    def d(self) -> int:
        """The dimension of the space that is cut."""
        return self.scores.d

    @property
    def biased(self) -> bool:
        """Whether some offset is not exactly zero."""
        return not self.scores.linear

    @property
    def tie_group(self) -> Integers:
        """For each key the lowest index of a key with exactly the same score."""
        return self.scores.tie_group

    @property
    def sites(self) -> Floats:
        """The sites :math:`c_j = a_j` of the diagram as a power diagram."""
        return self.scores.slopes

    @property
    def weights(self) -> Floats:
        r"""The weights :math:`w_j = |a_j|^2 + 2 b_j`, rounded; the slopes and offsets are the exact data."""
        if "weights" in self.scores.source:
            floats: Floats = self.scores.source["weights"].floats
            return floats
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(np.einsum("ij,ij->i", self.slopes, self.slopes) + 2.0 * self.offsets)
        if not np.isfinite(found).all():
            raise NotFiniteError(
                "weights would be beyond float64, because keys or biases are; slopes and offsets are exact."
            )
        return found

    # Faces, in low dimension
    # ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _cell_scores(self) -> Scores:
        """One score per cell: the argmax partition of these is the diagram."""

    @cached_property
    def _cells(self) -> Refinement:
        if self.d > LOW_DIMENSION:
            raise UnsupportedDimensionError(
                f"walls and vertices are listed up to dimension {LOW_DIMENSION}, but this diagram has "
                f"dimension {self.d}; witnesses and locate work in any dimension."
            )
        return refine([self._cell_scores])

    def adjacency(self) -> Integers:
        """Pairs of cells that meet in dimension d - 1, as rows in order: numbers of keys, which stand for
        their tie group, or of rows of ``sets``.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0.0], [1.0], [3.0]]).adjacency().tolist()
        [[0, 1], [1, 2]]
        """
        return self._cells.adjacency()

    def facets(self) -> list[Facet]:
        """The walls between adjacent cells, one per row of :meth:`adjacency`.

        Examples
        --------
        >>> import hardmax as hm
        >>> [wall] = hm.power_diagram([[0.0, 0.0], [2.0, 0.0]]).facets()
        >>> wall.keys, wall.bounded
        ((0, 1), False)
        """
        return walls_of(self._cells)

    def vertices(self) -> Floats:
        """The vertices of the cells, each once, one per row in lexicographic order.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]).vertices().tolist()
        [[1.0, 1.0]]
        """
        return vertices_of(self._cells, self._cell_scores)[0]

    def polygons(self, box: Box) -> list[Floats]:
        """The cells of a diagram in the plane, clipped to a box: corners counter-clockwise, one list per key
        or per row of ``sets``.

        A cell without area in the box, and every member of a tie group but the first, has none.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0.0, 0.0], [2.0, 0.0]]).polygons(hm.Box([-1, -1], [3, 1]))[1].tolist()
        [[1.0, -1.0], [3.0, -1.0], [3.0, 1.0], [1.0, 1.0]]
        """
        if self.d != 2:
            raise UnsupportedDimensionError(
                f"polygons are cells of the plane, but this diagram has dimension {self.d}."
            )
        if not isinstance(box, Box):
            raise InvalidInputError(
                f"box must be a Box, but was {type(box).__name__}; try hm.Box.cube(2, -3, 3)."
            )
        if box.d != 2:
            raise DimensionMismatchError(f"box must have dimension 2, but has {box.d}.")
        cells = refine([self._cell_scores], box)
        out = [np.empty((0, 2)) for _ in range(self._cell_scores.n_keys)]
        for i in range(cells.n_cells):
            out[int(cells.choices[i, 0])] = counter_clockwise(cells.vertices(i))
        for corners in out:
            corners.setflags(write=False)
        return out

    # As a result
    # ------------------------------------------------------------------------------------------------------

    def _points(self, points: ArrayLike) -> ExactArray | Floats:
        """Points to locate, as plain floats where they are that, else with their exact values."""
        plain = isinstance(points, np.ndarray) and points.dtype == np.float64 and points.ndim == 2
        x: ExactArray | Floats = points if plain else as_exact(points, "points", ndim=2)  # type: ignore[assignment]
        if x.shape[1] != self.d:
            raise DimensionMismatchError(f"points must have {self.d} columns, but have {x.shape[1]}.")
        return x

    def _source(self) -> dict[str, Any]:
        """The numbers that the scores are made of, for a file."""
        return {name: array.numbers for name, array in self.scores.source.items()}


def scores_of_source(source: dict[str, Any]) -> Scores:
    """The scores of a saved diagram."""
    if "sites" in source:
        return Scores.of_sites(source["sites"], source["weights"])
    query_map = (source["w_q"], source["b_q"]) if "w_q" in source else None
    return Scores.of_keys(source["keys"], source["biases"], query_map)


@dataclass(frozen=True, eq=False)
class Facet:
    """The wall between two cells: the convex hull of ``points`` plus the cone of ``rays``.

    Attributes
    ----------
    keys : (int, int)
        The two keys that tie on it, the lower index first.
    points : (m, d) float64
    rays : (r, d) float64
        Directions in which the wall is unbounded; a line appears as two opposite rays.
    """

    keys: tuple[int, int]
    points: Floats
    rays: Floats

    def __post_init__(self) -> None:
        self.points.setflags(write=False)
        self.rays.setflags(write=False)

    @property
    def bounded(self) -> bool:
        """Whether the wall is a polytope."""
        return len(self.rays) == 0


def walls_of(cells: Refinement) -> list[Facet]:
    """The walls between the cells of one head, in the order of their pairs of keys."""
    d = cells.d
    winner = cells.choices[:, 0]
    winners = set(winner.tolist())
    lines = cells.lines()
    walls: dict[tuple[int, int], Facet] = {}
    for i in range(cells.n_cells):
        generators = cells.generators(i)
        for (_, other), on in cells.facets_with_generators(i):
            j = int(winner[i])
            if other in winners and j < other and (j, other) not in walls:
                g = generators[on]
                if cells.is_fan:
                    points, rays = np.zeros((1, d)), g[:, 1:]
                else:
                    finite = g[:, 0] > 0
                    with np.errstate(over="ignore", divide="ignore"):
                        points, rays = g[finite, 1:] / g[finite, :1], g[~finite, 1:]
                walls[(j, other)] = Facet((j, other), points, np.concatenate([rays, lines, -lines]))
    return [walls[pair] for pair in sorted(walls)]


def counter_clockwise(corners: Floats) -> Floats:
    """The corners of a convex polygon in counter-clockwise order."""
    scaled = corners / max(float(np.abs(corners).max()), 1.0)  # nothing overflows
    centred = scaled - scaled.mean(axis=0)
    order = np.argsort(np.arctan2(centred[:, 1], centred[:, 0]), kind="stable")
    return np.ascontiguousarray(corners[order])


def vertices_of(cells: Refinement, scores: Scores) -> tuple[Floats, list[Integers]]:
    """The vertices of all cells, each once, and for each generator of each cell the vertex that it is: -1 for
    a ray.

    A vertex is named by the keys that tie there. In general position every cell around it sees the same d + 1
    keys; otherwise different cells see different ones, and the points are compared as rationals.
    """
    d = scores.d
    if len(cells.lines()) or cells.is_fan:
        apex = np.zeros((0 if len(cells.lines()) else 1, d))
        return apex, [np.full(len(cells.generators(i)), -1) for i in range(cells.n_cells)]
    found: dict[frozenset[int], Floats] = {}
    names: list[list[frozenset[int] | None]] = []
    for i in range(cells.n_cells):
        generators = cells.generators(i)
        tied: list[set[int]] = [{int(cells.choices[i, 0])} for _ in generators]
        for (_, other), on in cells.facets_with_generators(i):
            for g in on.tolist():
                tied[g].add(other)
        names.append(
            [frozenset(keys) if g[0] > 0.0 else None for g, keys in zip(generators, tied, strict=True)]
        )
        for g, name in zip(generators, names[-1], strict=True):
            if name is not None:
                with np.errstate(over="ignore"):  # a vertex beyond float64 is at infinity
                    found.setdefault(name, g[1:] / g[0])
    points = list(found.values())
    place = {name: i for i, name in enumerate(found)}
    if cells.degenerate:
        exact = {name: _exact_vertex(scores, sorted(name)) for name in found}
        distinct = {point: i for i, point in enumerate(dict.fromkeys(exact.values()))}
        place = {name: distinct[point] for name, point in exact.items()}
        points = [np.array([nearest_float(v) for v in point]) for point in distinct]
    array = np.array(points).reshape(-1, d)
    order = np.lexsort(array.T[::-1])
    rank = np.argsort(order)
    numbers = [np.array([-1 if n is None else rank[place[n]] for n in row], dtype=np.int64) for row in names]
    return np.ascontiguousarray(array[order]), numbers


def _exact_vertex(scores: Scores, keys: list[int]) -> tuple[Fraction, ...]:
    """The point where all these keys tie."""
    first, *others = (scores.exact_row(j) for j in keys)
    system = flint.fmpq_mat([[a - b for a, b in zip(first, row, strict=True)] for row in others])
    reduced, _ = system.rref()
    return tuple(fraction(-reduced[i, scores.d]) for i in range(scores.d))
