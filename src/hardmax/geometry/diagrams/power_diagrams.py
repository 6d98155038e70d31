r"""Power diagrams: how zero-temperature attention cuts the space of queries (P1 section IV).

The power diagram of sites :math:`c_j` with weights :math:`w_j` gives each point to the site of least power
:math:`|x - c_j|^2 - w_j`. Dropping :math:`|x|^2`, that is the largest affine score :math:`a_j \cdot x + b_j`
with :math:`a_j = c_j` and :math:`b_j = (w_j - |c_j|^2)/2`. Hence Theorem IV.3: keys :math:`k_j` without
biases are the power diagram with sites :math:`k_j` and weights :math:`|k_j|^2`; with biases, weights
:math:`|k_j|^2 + 2 b_j`, so every power diagram is one of attention. Keys of equal norm give the Voronoi
diagram (Remark IV.6).

Slopes and offsets are the primary data here, because rounding :math:`|k_j|^2` would move the walls. Unbiased
cells are cones through the origin and never empty as sets; the question is whether they have *interior*, that
is whether key j is a vertex of the hull of all keys. The caption of P1 figure 3 blames small weights for
vanishing cells; that is not the criterion (see ``docs/power-diagrams.md``).

Faces are listed in low dimension, read off the cells that the splitting kernel cuts: walls are where two
cells meet in dimension d - 1, vertices where the walls end. A vertex that several cells share is listed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import (
    BiasedDiagramError,
    DimensionMismatchError,
    InvalidInputError,
    UnsupportedDimensionError,
)
from hardmax.exact.rationals import ExactArray, as_exact, fraction, nearest_float
from hardmax.geometry.cones.splitting import Refinement, refine
from hardmax.geometry.diagrams.interiors import (
    EmptinessCertificate,
    Interiors,
    decide_interiors,
    find_support,
)
from hardmax.geometry.diagrams.location import Locator
from hardmax.geometry.diagrams.max_margins import MaxMargin, max_margins
from hardmax.geometry.domains import Box
from hardmax.geometry.scores import Scores
from hardmax.results import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LOW_DIMENSION = 4  # faces of cells are listed up to here
_MANY_SCORES = 1 << 28  # beyond this many pairs of point and key, finding the winning keys first pays off


@dataclass(frozen=True, eq=False, repr=False)
class PowerDiagram(Result):
    r"""The cells of the keys of one head: :math:`C_j = \{x : a_j \cdot x + b_j \ge a_l \cdot x + b_l \
    \forall l\}`.

    Made by :func:`power_diagram` and :func:`attention_diagram`. Everything is computed when first asked for,
    and kept.

    Attributes
    ----------
    slopes : (N, d) float64
        :math:`a_j`: the keys, or the keys seen through the query map.
    offsets : (N,) float64
        :math:`b_j`.
    n_keys, d : int
    biased : bool
        Whether some offset is not exactly zero.
    nonempty : (N,) bool
        Whether the cell has interior; true for every member of a tie group that wins together.
    witnesses : (N, d) float64
        A point inside each cell (a direction when unbiased), NaN for cells without interior.
    exact_witnesses : dict
        Key -> rational point, for the cells so thin that no float64 witness was found inside.

    Examples
    --------
    >>> import hardmax as hm
    >>> diagram = hm.attention_diagram([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0], [0.2, 0.1]])
    >>> diagram.nonempty
    array([ True,  True,  True, False])
    >>> diagram
    <PowerDiagram: 4 keys in 2-d, unbiased, 3 cells with interior>
    >>> diagram.locate([[1.0, 0.0], [-1.0, 1.0]])
    array([0, 1])
    """

    kind: ClassVar[str] = "PowerDiagram"

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
        return np.asarray(np.einsum("ij,ij->i", self.slopes, self.slopes) + 2.0 * self.offsets)

    # Which cells have interior
    # ------------------------------------------------------------------------------------------------------

    @cached_property
    def _interiors(self) -> Interiors:
        found = decide_interiors(self.scores)
        found.nonempty.setflags(write=False)
        found.witnesses.setflags(write=False)
        return found

    @property
    def nonempty(self) -> NDArray[np.bool_]:
        """Which cells have interior; certified for every key."""
        return self._interiors.nonempty

    @property
    def witnesses(self) -> Floats:
        """A point inside each cell with interior, NaN elsewhere."""
        return self._interiors.witnesses

    @property
    def exact_witnesses(self) -> dict[int, tuple[Fraction, ...]]:
        """Rational witnesses of the cells that hold none of the float ones."""
        return self._interiors.exact_witnesses

    def empty_certificate(self, j: int) -> EmptinessCertificate:
        r"""Why the cell of key ``j`` has no interior: a convex combination of at most d + 1 other keys.

        Parameters
        ----------
        j : int
            A key with ``nonempty[j]`` false.

        Raises
        ------
        InvalidInputError
            When the cell has interior, or there is no such key.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0], [1], [2]], [4, 0, 4]).empty_certificate(1).weights
        (Fraction(1, 2), Fraction(1, 2))
        """
        if not -self.n_keys <= j < self.n_keys:
            raise InvalidInputError(f"j must be a key from 0 to {self.n_keys - 1}, but was {j}.")
        key = int(j) % self.n_keys
        if self.nonempty[key]:
            raise InvalidInputError(
                f"j must be a key whose cell has no interior, but key {key} wins on an open set, "
                f"for example at witnesses[{key}]."
            )
        kept = self._certificates
        if key not in kept:
            found = self._interiors.support(key) or find_support(self.scores, key, self.nonempty)
            kept[key] = EmptinessCertificate(key, self.scores, found)
        return kept[key]

    @cached_property
    def _certificates(self) -> dict[int, EmptinessCertificate]:
        return {}

    # Where points are
    # ------------------------------------------------------------------------------------------------------

    def locate(self, points: ArrayLike, *, certified: bool = True) -> Integers:
        """The key whose cell holds each point, the lowest index among exact ties.

        Parameters
        ----------
        points : (M, d) array_like
            Millions are fine: scores are computed block by block.
        certified : bool
            Whether points within rounding of a wall are decided exactly; otherwise the larger float score
            wins there.

        Returns
        -------
        (M,) int64

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.power_diagram([[0.0, 0.0], [2.0, 0.0]]).locate([[0.5, 7.0], [1.0, 0.0], [1.5, 0.0]])
        array([0, 0, 1])
        """
        plain = isinstance(points, np.ndarray) and points.dtype == np.float64 and points.ndim == 2
        x: ExactArray | Floats = points if plain else as_exact(points, "points", ndim=2)  # type: ignore[assignment]
        if x.shape[1] != self.d:
            raise DimensionMismatchError(f"points must have {self.d} columns, but have {x.shape[1]}.")
        many = self.n_keys > 1000 and x.shape[0] * self.n_keys > _MANY_SCORES
        if many and self.d <= 3 and not self._locator.prefers_tree:
            return self._locate_among_winners(x, certified)
        return self._locator.locate(x, certified=certified)

    def _locate_among_winners(self, x: ExactArray | Floats, certified: bool) -> Integers:
        """Hold points against the keys with interior only, and against all keys where two of these may tie.

        Away from the walls the best key has interior: a key without it lies below a combination of at least
        two others, so that it can tie with the best only where these tie.
        """
        floats = x.floats if isinstance(x, ExactArray) else x
        winner, still_open = self._winner_locator.likely_winner(floats)
        keys = self._winner_locator.index[winner]
        if certified and still_open.any():
            rows = np.flatnonzero(still_open)
            keys[rows] = self._locator.locate(x.take(rows) if isinstance(x, ExactArray) else x[rows])
        return keys

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self.scores)

    @cached_property
    def _winner_locator(self) -> Locator:
        return Locator(self.scores, np.unique(self.tie_group[self.nonempty]))

    # Faces, in low dimension
    # ------------------------------------------------------------------------------------------------------

    @cached_property
    def _cells(self) -> Refinement:
        if self.d > _LOW_DIMENSION:
            raise UnsupportedDimensionError(
                f"walls and vertices are listed up to dimension {_LOW_DIMENSION}, but this diagram has "
                f"dimension {self.d}; nonempty, empty_certificate, locate and max_margin work in any "
                "dimension."
            )
        return refine([self.scores])

    def adjacency(self) -> Integers:
        """Pairs of keys whose cells meet in dimension d - 1, as rows in order; keys stand for their tie
        group.

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
        return vertices_of(self._cells, self.scores)

    def polygons(self, box: Box) -> list[Floats]:
        """The cells of a diagram in the plane, clipped to a box: for each key the corners counter-clockwise.

        A key without area in the box, and every member of a tie group but the first, has none.

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
        cells = refine([self.scores], box)
        out = [np.empty((0, 2)) for _ in range(self.n_keys)]
        for i in range(cells.n_cells):
            out[int(cells.choices[i, 0])] = counter_clockwise(cells.vertices(i))
        for corners in out:
            corners.setflags(write=False)
        return out

    # How clearly a key can win
    # ------------------------------------------------------------------------------------------------------

    def max_margin(self) -> MaxMargin:
        r"""The largest margin that a query of norm at most 1 can give each key (unbiased diagrams only).

        .. math:: \operatorname{margin}_j = \max_{|q| \le 1} \min_{l \ne j} (a_j - a_l) \cdot q
           = \operatorname{dist}(a_j, \operatorname{conv}\{a_l : l \ne j\})

        With a query map, q is the input of the map.

        Raises
        ------
        BiasedDiagramError
            With biases the margin is not homogeneous in the query, and the largest one may be attained inside
            the ball.

        Examples
        --------
        >>> import hardmax as hm
        >>> diagram = hm.attention_diagram([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
        >>> diagram.max_margin().values.round(6)
        array([1.414214, 3.162278, 3.162278, 0.      ])
        """
        if self.biased:
            raise BiasedDiagramError(
                "max_margin needs unbiased keys, but some offset of this diagram is not zero; "
                "drop the biases, or use attention_diagram(keys) for the keys alone."
            )
        return self._reach

    @cached_property
    def _reach(self) -> MaxMargin:
        return max_margins(self.scores, self.nonempty, self.witnesses)

    # As a result
    # ------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        found = self._interiors
        return {
            "source": {name: array.numbers for name, array in self.scores.source.items()},
            **vars(found),
            "exact_witnesses": {str(j): list(point) for j, point in found.exact_witnesses.items()},
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        state = dict(state)
        source = state.pop("source")
        if "sites" in source:
            scores = Scores.of_sites(source["sites"], source["weights"])
        else:
            query_map = (source["w_q"], source["b_q"]) if "w_q" in source else None
            scores = Scores.of_keys(source["keys"], source["biases"], query_map)
        exact = {int(j): tuple(point) for j, point in state["exact_witnesses"].items()}
        found = Interiors(**{**state, "exact_witnesses": exact})
        shapes = (found.nonempty.shape, found.witnesses.shape, found.support_start.shape)
        if shapes != ((scores.n_keys,), scores.slopes.shape, (scores.n_keys + 1,)):
            raise ValueError("the answer does not belong to the keys")
        diagram = cls(scores)
        diagram.__dict__["_interiors"] = found
        return diagram

    def _summary(self) -> str:
        text = f"{self.n_keys} keys in {self.d}-d, {'biased' if self.biased else 'unbiased'}"
        if "_interiors" in self.__dict__:  # a repr starts no computation
            text += f", {int(self.nonempty.sum())} cells with interior"
        return text

    def _table(self) -> dict[str, NDArray[Any]]:
        return {"nonempty": self.nonempty, "tie_group": self.tie_group, "witness": self.witnesses}


def power_diagram(sites: ArrayLike, weights: ArrayLike | None = None) -> PowerDiagram:
    r"""The power diagram of sites and weights: cells of least :math:`|x - c_j|^2 - w_j`.

    Parameters
    ----------
    sites : (N, d) array_like
        Any dimension; floats are taken as the dyadic rationals they are, ``Fraction`` entries are kept
        exactly.
    weights : (N,) array_like, optional
        Zero by default, which gives the Voronoi diagram.

    Examples
    --------
    A site of small weight inside the hull of the others loses its cell; Voronoi cells are never lost.

    >>> import hardmax as hm
    >>> sites = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
    >>> hm.power_diagram(sites).nonempty
    array([ True,  True,  True,  True,  True])
    >>> hm.power_diagram(sites, [0, 0, 0, 0, -2]).nonempty
    array([ True,  True,  True,  True, False])
    """
    return PowerDiagram(Scores.of_sites(sites, weights))


def attention_diagram(
    keys: ArrayLike,
    biases: ArrayLike | None = None,
    *,
    query_map: tuple[ArrayLike, ArrayLike | None] | None = None,
) -> PowerDiagram:
    r"""How a head at temperature zero routes: cells of the largest score :math:`k_j \cdot (W_Q x + b_Q) +
    b_j`.

    Parameters
    ----------
    keys : (N, d_head) array_like
    biases : (N,) array_like, optional
        Score biases :math:`b_j`; zero by default.
    query_map : (W_Q, b_Q), optional
        ``W_Q`` (d_head, d) and ``b_Q`` (d_head,) or ``None``: the diagram in the space of inputs (Remark
        IV.5). The factors are kept, so that a rank-deficient ``W_Q`` is rank-deficient exactly.

    Examples
    --------
    The smallest key can have a cell with interior, and the criterion is the hull (P1 figure 3 says
    otherwise):

    >>> import hardmax as hm
    >>> hm.attention_diagram([[0.1, 0.0], [-5.0, 1.0], [-5.0, -1.0]]).nonempty
    array([ True,  True,  True])
    """
    return PowerDiagram(Scores.of_keys(keys, biases, query_map))


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
                    with np.errstate(over="ignore"):
                        points, rays = g[finite, 1:] / g[finite, :1], g[~finite, 1:]
                walls[(j, other)] = Facet((j, other), points, np.concatenate([rays, lines, -lines]))
    return [walls[pair] for pair in sorted(walls)]


def counter_clockwise(corners: Floats) -> Floats:
    """The corners of a convex polygon in counter-clockwise order."""
    centred = corners - corners.mean(axis=0)
    order = np.argsort(np.arctan2(centred[:, 1], centred[:, 0]), kind="stable")
    return np.ascontiguousarray(corners[order])


def vertices_of(cells: Refinement, scores: Scores) -> Floats:
    """The vertices of all cells, each once.

    A vertex is named by the keys that tie there. In general position every cell around it sees the same d + 1
    keys; otherwise different cells see different ones, and the points are compared as rationals.
    """
    d = scores.d
    if len(cells.lines()):
        return np.empty((0, d))
    if cells.is_fan:
        return np.zeros((1, d))
    found: dict[frozenset[int], Floats] = {}
    for i in range(cells.n_cells):
        generators = cells.generators(i)
        tied: list[set[int]] = [{int(cells.choices[i, 0])} for _ in generators]
        for (_, other), on in cells.facets_with_generators(i):
            for g in on.tolist():
                tied[g].add(other)
        for g, keys in zip(generators, tied, strict=True):
            if g[0] > 0.0:
                with np.errstate(over="ignore"):  # a vertex beyond float64 is at infinity
                    found.setdefault(frozenset(keys), g[1:] / g[0])
    points = list(found.values())
    if cells.degenerate:
        exact = {_exact_vertex(scores, sorted(keys)) for keys in found}
        points = [np.array([nearest_float(v) for v in point]) for point in exact]
    array = np.array(points).reshape(-1, d)
    return np.ascontiguousarray(array[np.lexsort(array.T[::-1])])


def _exact_vertex(scores: Scores, keys: list[int]) -> tuple[Fraction, ...]:
    """The point where all these keys tie."""
    first, *others = (scores.exact_row(j) for j in keys)
    system = flint.fmpq_mat([[a - b for a, b in zip(first, row, strict=True)] for row in others])
    reduced, _ = system.rref()
    return tuple(fraction(-reduced[i, scores.d]) for i in range(scores.d))
