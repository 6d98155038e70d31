r"""What a list of scores is as a tropical polynomial: its values, its Newton polytope, its walls.

Values (:func:`soft_maxima`) are :math:`\bigoplus_j (a_j \cdot x + b_j)` at a temperature. :func:`maximisers`
finds the keys that attain the maximum at a point: floats with a proven bound exclude almost all of them,
rationals decide among the rest, so a tie is a tie and not a rounding.

:math:`\mathrm{Newt}(p)` is the convex hull of the exponents (P1 Definition III.5). Tropical products become
Minkowski sums, :math:`\mathrm{Newt}(p \otimes q) = \mathrm{Newt}(p) + \mathrm{Newt}(q)`, which is how heads
add up in P1. P1 calls a polynomial completely characterised by its Newton polytope. It is not:
:math:`\max(0, 5+x, 2x)` has three cells and :math:`\max(0, -5+x, 2x)` has two. A term wins on an open set
exactly when its lifted point :math:`(\alpha_j, c_j)` is an upper vertex of the hull of all lifted points
(:func:`upper_vertices`). Every vertex of the Newton polytope carries such a term; for equal coefficients
there are no others.

The hypersurface (Definition III.7) is where two of these terms tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.arithmetic import exact_outer_sum, fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.fields import check_offsets
from hardmax.geometry.domains import Domain
from hardmax.geometry.scores import UNIT_ROUNDOFF, Scores
from hardmax.limits import look
from hardmax.results import Result
from hardmax.tropical.semirings import tropical_sum

if TYPE_CHECKING:
    from hardmax.geometry.cones.splitting import Refinement

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 2**21  # scores held in memory at once while many points are evaluated


# Values
# ----------------------------------------------------------------------------------------------------------


def points_of(x: ArrayLike, d: int) -> tuple[Floats, bool]:
    """Points as rows, and whether there was only one, given as a vector.

    >>> points_of([1, 2], 2)
    (array([[1., 2.]]), True)
    """
    try:
        single = np.asarray(x).ndim == 1
    except ValueError:  # ragged: the sentence comes from as_exact
        single = False
    points = as_exact(x, "x", ndim=1 if single else 2).floats
    if points.shape[-1] != d:
        raise DimensionMismatchError(f"x must have {d} coordinates per point, but has shape {points.shape}.")
    return np.atleast_2d(points), single


def exact_point(x: ArrayLike, d: int) -> ExactArray:
    """One point with its exact coordinates.

    >>> exact_point([0.5], 1).rational(0)
    1/2
    """
    point = as_exact(x, "x", ndim=1)
    if point.shape[0] != d:
        raise DimensionMismatchError(f"x must have {d} coordinates, but has {point.shape[0]}.")
    return point


def soft_maxima(families: Sequence[Scores], points: Floats, temperature: float) -> Floats:
    r"""The (n, F) table of :math:`\bigoplus_j s_j(x)` for each point and family.

    >>> soft_maxima([Scores.of_keys([[1], [-1]]), Scores.of_keys([[2]])], np.array([[-3.0]]), 0.0)
    array([[ 3., -6.]])
    """
    values = np.empty((len(points), len(families)))
    sizes = np.array([family.n_keys for family in families])
    for size in np.unique(sizes).tolist():  # families of one size make one matrix product
        members = np.flatnonzero(sizes == size)
        some = [families[f] for f in members.tolist()]
        # term by term, so that the maximum runs over long rows
        slopes = np.stack([family.slopes for family in some], axis=1).reshape(-1, points.shape[1])
        offsets = np.stack([family.offsets for family in some], axis=1).reshape(-1)
        step = max(1, _BLOCK // len(offsets))
        for start in range(0, len(points), step):
            block = points[start : start + step]
            with np.errstate(over="ignore", invalid="ignore"):
                scores = block @ slopes.T + offsets
            if not np.isfinite(scores).all():
                raise NotFiniteError(
                    "p(x) must stay within float64, but a term overflows; rescale the input."
                )
            table = scores.reshape(len(block), size, len(some))
            values[start : start + step, members] = tropical_sum(table, 1, temperature)
    return values


def maximisers(scores: Scores, point: ExactArray) -> tuple[Integers, flint.fmpq]:
    """The keys that attain the maximum at a point, and the maximum, both exact.

    >>> maximisers(Scores.of_keys([[1], [-1], [0]]), exact_point([0.0], 1))
    (array([0, 1, 2]), 0)
    """
    look()
    candidates = _candidates(scores, point)
    x = [point.rational(i) for i in range(scores.d)]
    rows = [scores.exact_row(int(j)) for j in candidates]
    values = [sum((a * v for a, v in zip(row, x, strict=False)), row[-1]) for row in rows]
    best = max(values)
    return candidates[[value == best for value in values]], best


def _candidates(scores: Scores, point: ExactArray) -> Integers:
    """Keys that the float scores cannot exclude from the maximum."""
    x = point.floats
    with np.errstate(over="ignore", invalid="ignore"):
        values = scores.slopes @ x + scores.offsets
        size = np.abs(scores.slopes) @ np.abs(x) + np.abs(scores.offsets)
        # d + 1 products and sums, one rounding of x, and the rounding of the rows themselves
        error = size * (UNIT_ROUNDOFF * 1.01 * (scores.d + 4)) + 1e-300
        error += scores.row_error * max(1.0, float(np.abs(x).max())) * 1.01
        if point.rounded:  # a coordinate that rounds to a subnormal number loses more than its last bit
            error += np.abs(scores.slopes).sum(axis=1) * 1e-300
        possible = values + error >= (values - error).max()
    return np.flatnonzero(possible) if np.isfinite(error).all() else np.arange(scores.n_keys)


# Vertices
# ----------------------------------------------------------------------------------------------------------


def upper_vertices(scores: Scores) -> Integers:
    """The keys that win on an open set, in any dimension: the lowest index of each group of identical scores.

    >>> upper_vertices(Scores.of_keys([[0], [1], [2], [2]], [0, -5, 0, 0]))
    array([0, 2])
    """
    # imported here, because evaluating a polynomial needs no solver
    from hardmax.geometry.diagrams.power_diagrams import attention_diagram

    nonempty = attention_diagram(scores.source["keys"], scores.source["biases"]).nonempty
    winners = np.flatnonzero(nonempty & (scores.tie_group == np.arange(scores.n_keys)))
    winners.setflags(write=False)
    return winners


@dataclass(frozen=True, eq=False)
class NewtonPolytope:
    r"""The convex hull of the exponents of a tropical polynomial, by its vertices.

    ``a + b`` is the Minkowski sum and ``a == b`` compares the exact vertex sets, so that
    :math:`\mathrm{Newt}(pq) = \mathrm{Newt}(p) + \mathrm{Newt}(q)` can be written down and checked.

    Attributes
    ----------
    terms : (k,) int64
        Index of a term at each vertex (the lowest, where terms share an exponent). After a Minkowski sum: 0,
        1, ...
    vertices : (k, d) float64

    Examples
    --------
    >>> import hardmax as hm
    >>> p, q = hm.TropicalPolynomial([[0, 0], [1, 0]], [0, 3]), hm.TropicalPolynomial([[0, 0], [0, 1]])
    >>> (p * q).newton_polytope() == p.newton_polytope() + q.newton_polytope()
    True
    """

    terms: Integers
    exact: ExactArray

    @classmethod
    def of_points(cls, points: ExactArray) -> NewtonPolytope:
        """The convex hull of the rows of an exact matrix."""
        exponents: Any = points
        terms = upper_vertices(Scores.of_keys(exponents, name="exponents"))
        return cls(terms, points.take(terms))

    @property
    def vertices(self) -> Floats:
        """The vertices, in the order of the terms."""
        return self.exact.floats

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return self.exact.shape[1]

    def exact_vertices(self) -> list[tuple[Fraction, ...]]:
        """The vertices in rationals, sorted."""
        return sorted(tuple(row) for row in fractions_of(self.exact))

    def __add__(self, other: NewtonPolytope) -> NewtonPolytope:
        if not isinstance(other, NewtonPolytope):
            return NotImplemented
        if self.d != other.d:
            raise DimensionMismatchError(
                f"both polytopes must live in one space, not in {self.d}-d and {other.d}-d."
            )
        polytope = self.of_points(exact_outer_sum(self.exact, other.exact, "exponents"))
        return NewtonPolytope(np.arange(len(polytope.terms)), polytope.exact)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NewtonPolytope):
            return NotImplemented
        return self.exact_vertices() == other.exact_vertices()

    def __hash__(self) -> int:
        return hash(tuple(self.exact_vertices()))

    def __repr__(self) -> str:
        return f"NewtonPolytope({len(self.terms)} vertices in {self.d}-d)"


# Walls
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Hypersurface(Result):
    r"""The walls of tropical polynomials: pieces of dimension :math:`d-1` on which two essential terms tie.

    Made by ``polynomial.hypersurface(box)``; for a rational map, the union of the hypersurfaces of its
    numerators and its denominator (P1 Definition III.7), each with its own pair of terms.

    Attributes
    ----------
    terms : (n_walls, 2) int64
        The pair of terms that tie, the smaller index first.
    owner : (n_walls,) int64
        Which polynomial the wall belongs to (all 0 for a single polynomial).

    Examples
    --------
    The tropical line :math:`\max(0, x_1, x_2)`: three segments that meet at the origin.

    >>> import hardmax as hm
    >>> line = hm.TropicalPolynomial([[0, 0], [1, 0], [0, 1]])
    >>> walls = line.hypersurface(hm.Box.cube(2, -1, 1))
    >>> walls.terms.tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> sorted(walls.segments[2].tolist())
    [[0.0, 0.0], [1.0, 1.0]]
    """

    kind: ClassVar[str] = "Hypersurface"
    _shapes: ClassVar[dict[str, str]] = {
        "terms": "walls 2",
        "owner": "walls",
        "start": "walls+1",
        "homogeneous": "rows columns",
    }
    terms: Integers
    owner: Integers
    start: Integers
    homogeneous: Floats

    @property
    def n_walls(self) -> int:
        """The number of walls."""
        return len(self.terms)

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return int(self.homogeneous.shape[1]) - 1

    def generators(self, i: int) -> Floats:
        r"""Wall ``i`` as rows :math:`[x_0, x]`: vertices :math:`x / x_0`, and rays where :math:`x_0 = 0`."""
        return self.homogeneous[self.start[i] : self.start[i + 1]]

    def vertices(self, i: int) -> Floats:
        """The finite vertices of wall ``i``, one per row; in 3-d in their order around the polygon."""
        rows = self.generators(i)
        rows = rows[rows[:, 0] > 0]
        return np.asarray(rows[:, 1:] / rows[:, :1])

    @cached_property
    def segments(self) -> Floats:
        """The walls of a polynomial in two variables as an (n_walls, 2, 2) array of end points."""
        if self.d != 2:
            raise InvalidInputError(f"segments need two variables, but there are {self.d}; use vertices(i).")
        if not (self.homogeneous[:, 0] > 0).all():
            raise InvalidInputError("segments need bounded walls, but some run to infinity; pass a box.")
        return np.array([self.vertices(i) for i in range(self.n_walls)]).reshape(-1, 2, 2)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        found = super()._from_state(state)
        check_offsets("start", found.start, len(found.homogeneous))
        return found

    def _summary(self) -> str:
        return f"{self.n_walls} walls in {self.d}-d"

    def _table(self) -> Mapping[str, Any]:
        return {"polynomial": self.owner, "term": self.terms}


def hypersurface(families: Iterable[Scores], domain: Domain | None = None) -> Hypersurface:
    """The walls of each list of scores inside a domain, one list for all of them.

    Examples
    --------
    >>> walls = hypersurface([Scores.of_keys([[0], [1]]), Scores.of_keys([[0], [1]], [0, -1])])
    >>> [walls.vertices(i).tolist() for i in range(walls.n_walls)]
    [[[0.0]], [[1.0]]]
    """
    terms: list[tuple[int, int]] = []
    owner: list[int] = []
    pieces: list[Floats] = []
    d = None
    for k, scores in enumerate(families):
        cells = refined([scores], domain)
        d = cells.d
        # a direction in which the polynomial does not change is a ray both ways
        lines = np.concatenate([cells.lines(), -cells.lines()])
        rays = np.column_stack([np.zeros(len(lines)), lines])
        for pair, rows in _walls(cells):
            terms.append(pair)
            owner.append(k)
            pieces.append(np.concatenate([rows, rays]))
    if d is None:
        raise InvalidInputError("polynomials must hold at least one tropical polynomial, but there is none.")
    return Hypersurface(
        np.array(terms, dtype=np.int64).reshape(-1, 2),
        np.array(owner, dtype=np.int64),
        np.cumsum([0, *(len(piece) for piece in pieces)]),
        np.concatenate([np.empty((0, d + 1)), *pieces]),
    )


def refined(
    families: Sequence[Scores], domain: Domain | None, look: Callable[[float, int], object] | None = None
) -> Refinement:
    """The cells of lists of scores; equal offsets are left out, because then the cells are cones.

    >>> refined([Scores.of_keys([[0], [1]], [3, 3])], None).is_fan
    True
    """
    # imported here, because evaluating a polynomial needs no kernel
    from hardmax.geometry.cones.splitting import refine

    return refine([_without_equal_offsets(scores) for scores in families], domain, look=look)


def _without_equal_offsets(scores: Scores) -> Scores:
    c = scores.source["biases"]
    if (c.floats == c.floats[0]).all() and (c.fractions is None or (c.fractions == c.fractions[0]).all()):
        return Scores.of_keys(scores.source["keys"])
    return scores


def polyhedron(cells: Refinement, rows: Floats) -> Floats:
    """Rows of the kernel with vertices as [1, x] and rays of largest entry 1."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scaled = rows / np.where(rows[:, :1] > 0, rows[:, :1], np.abs(rows).max(axis=1, keepdims=True))
    # vertices that are too far for float64 stay homogeneous; adding 0.0 turns -0.0 into 0.0
    rows = np.where(np.isfinite(scaled).all(axis=1, keepdims=True), scaled, rows) + 0.0
    # the kernel keeps a cone by its rays alone; as a polyhedron it also has the vertex 0
    return np.concatenate([[[1.0] + [0.0] * cells.d], rows]) if cells.is_fan else rows


def _walls(cells: Refinement) -> Iterable[tuple[tuple[int, int], Floats]]:
    """Each pair of terms whose cells share a facet, with the facet's generators, in order of the pairs."""
    winners = set(cells.choices[:, 0].tolist())
    for i in range(cells.n_cells):
        own = int(cells.choices[i, 0])
        generators = cells.generators(i)
        found = {}
        for (head, key), rows in cells.facets_with_generators(i):
            # a facet lists every term that ties on it; of these exactly one wins on the other side
            if head == 0 and key > own and key in winners:
                found[key] = _around(polyhedron(cells, generators[rows]))
        yield from (((own, key), found[key]) for key in sorted(found))


def _around(rows: Floats) -> Floats:
    """The vertices of a polygon in space in their order around it."""
    if rows.shape[1] != 4 or len(rows) < 4 or not (rows[:, 0] > 0).all():
        return rows
    points = rows[:, 1:] / rows[:, :1]
    points = points / max(np.abs(points).max(), 5e-324)  # an order does not depend on the scale
    centred = points - points.mean(axis=0)
    _, _, frame = np.linalg.svd(centred)
    return rows[np.argsort(np.arctan2(centred @ frame[1], centred @ frame[0]), kind="stable")]
