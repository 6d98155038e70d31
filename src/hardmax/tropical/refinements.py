r"""Cells and walls of tropical polynomials (P1 Definitions III.7 and III.8).

The cells of a polynomial are where one term wins; the common refinement of several polynomials has one cell
for every tuple of terms that win together on an open set. It is the partition of the tropical product
:math:`p \otimes q \otimes \dots`, because the product's winning term is the tuple.

P1 speaks of fans and cones throughout. That is right only when the coefficients of each polynomial are equal
(an attention head without biases); in general the cells form a polyhedral complex, bounded cells included,
and :attr:`CommonRefinement.is_fan` says which case it is. Only full-dimensional intersections are cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.geometry.cones.splitting import Refinement, refine
from hardmax.geometry.domains import Box, Domain, Polytope, WholeSpace
from hardmax.geometry.scores import Scores
from hardmax.results import Result
from hardmax.tropical.polynomials import TropicalPolynomial

__all__ = ["CommonRefinement", "Hypersurface", "common_refinement", "hypersurface"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Factored(Protocol):
    """A polynomial, or a product of polynomials: something that is cut by the walls of its factors."""

    @property
    def factors(self) -> tuple[TropicalPolynomial, ...]:
        """The polynomials whose walls it has."""


@dataclass(frozen=True, eq=False, repr=False)
class CommonRefinement(Result):
    r"""The full-dimensional cells on which a tuple of terms, one per polynomial, wins.

    Made by :func:`common_refinement`, by ``polynomial.cells(box)`` and by
    ``rational_map.common_refinement(box)``.

    Attributes
    ----------
    polynomials : tuple of TropicalPolynomial
    domain : Box, Polytope or WholeSpace
    terms : (n_cells, n_polynomials) int64
        The winning terms, the lowest index among identical terms. Rows are distinct and in lexicographic
        order.
    witnesses : (n_cells, d) float64
        An interior point of each cell.
    is_fan : bool
        Whether every cell is a cone with apex 0.

    Examples
    --------
    >>> p = TropicalPolynomial([[0], [1]])
    >>> q = TropicalPolynomial([[0], [1]], [0, -1])
    >>> cells = common_refinement(p, q)
    >>> cells.terms.tolist()
    [[0, 0], [1, 0], [1, 1]]
    >>> cells.is_fan, p.cells().is_fan
    (False, True)
    """

    kind: ClassVar[str] = "CommonRefinement"
    polynomials: tuple[TropicalPolynomial, ...]
    domain: Domain
    refinement: Refinement

    @property
    def terms(self) -> Integers:
        """The tuple of winning terms of each cell."""
        return self.refinement.choices

    @property
    def witnesses(self) -> Floats:
        """An interior point of each cell."""
        return self.refinement.witnesses

    @property
    def exact_witnesses(self) -> dict[int, tuple[Fraction, ...]]:
        """Rational interior points of the cells that are too thin for a float witness; usually none."""
        return self.refinement.exact_witnesses

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return self.refinement.n_cells

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return self.refinement.d

    def generators(self, i: int) -> Floats:
        r"""Cell ``i`` as rows :math:`[x_0, x]`: vertices :math:`x / x_0`, and rays where :math:`x_0 = 0`.

        The cell is the convex hull of its vertices plus the rays plus :attr:`lines`.

        Examples
        --------
        >>> TropicalPolynomial([[0], [1]], [0, -3]).cells().generators(0)
        array([[ 1.,  3.],
               [ 0., -1.]])
        """
        return _polyhedron(self.refinement, self.refinement.generators(i))

    @cached_property
    def lines(self) -> Floats:
        """A basis of the directions in which every cell is a line, one per row; usually none."""
        return self.refinement.lines()

    def facets(self, i: int) -> list[tuple[int, int]]:
        """Across each facet of cell ``i``: ``(polynomial, term)``, or ``(-1, row of the domain)``."""
        return self.refinement.facets(i)

    @cached_property
    def is_fan(self) -> bool:
        """Whether every cell is a cone with apex 0: the terms that win have equal coefficients."""
        if not self.domain.b.all_zero():
            return False
        for k, polynomial in enumerate(self.polynomials):
            rows = (polynomial.scores.exact_row(int(j)) for j in np.unique(self.terms[:, k]))
            if len({(int(row[-1].p), int(row[-1].q)) for row in rows}) > 1:
                return False
        return True

    def _summary(self) -> str:
        shape = "cones" if self.is_fan else "cells"
        return f"{self.n_cells} {shape} of {len(self.polynomials)} polynomials in {self.d}-d"

    def _table(self) -> Mapping[str, Any]:
        return {"term": self.terms, "witness": self.witnesses}

    def _state(self) -> dict[str, Any]:
        # the cells follow from the polynomials and the domain; a file holds no copy that could disagree
        return {
            "exponents": [_stored(p.scores.source["keys"]) for p in self.polynomials],
            "coefficients": [_stored(p.scores.source["biases"]) for p in self.polynomials],
            "domain": _stored_domain(self.domain),
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        pairs = zip(state["exponents"], state["coefficients"], strict=True)
        polynomials = tuple(TropicalPolynomial(alpha, c) for alpha, c in pairs)
        domain = _loaded_domain(state["domain"])
        return cls(polynomials, domain, refine([_family(p) for p in polynomials], domain))


def common_refinement(*polynomials: Factored, domain: Domain | None = None) -> CommonRefinement:
    r"""The full-dimensional pieces of :math:`\Sigma(p) \wedge \Sigma(q) \wedge \dots` (P1 Definition III.8).

    A piece is the intersection of one cell of each polynomial that has interior. It is a cone only when the
    coefficients of each polynomial are equal: see :attr:`CommonRefinement.is_fan`.

    Parameters
    ----------
    *polynomials : TropicalPolynomial or TropicalProduct
        At least one, all in the same number of variables. A product counts as its factors.
    domain : Box, Polytope or WholeSpace, optional
        Where cells are looked for; the whole space by default.

    Returns
    -------
    CommonRefinement

    Notes
    -----
    The number of cells equals the number of essential terms of the tropical product, which needs no product:
    the work follows the cells that exist. Meant for up to about five variables.

    Examples
    --------
    Two heads with three keys each: nine pairs of terms, six of them with interior.

    >>> first = TropicalPolynomial([[1, 0], [-1, 1], [-1, -1]])
    >>> second = TropicalPolynomial([[-1, 0], [1, 1], [1, -1]])
    >>> cells = common_refinement(first, second)
    >>> cells
    <CommonRefinement: 6 cones of 2 polynomials in 2-d>
    >>> len((first * second).essential_terms())
    6
    """
    factors = tuple(factor for polynomial in polynomials for factor in polynomial.factors)
    if not factors:
        raise InvalidInputError("polynomials must hold at least one tropical polynomial, but there is none.")
    refinement = refine([_family(p) for p in factors], domain)
    return CommonRefinement(factors, refinement.domain, refinement)


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

    >>> walls = TropicalPolynomial([[0, 0], [1, 0], [0, 1]]).hypersurface(Box.cube(2, -1, 1))
    >>> walls.terms.tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> sorted(walls.segments[2].tolist())
    [[0.0, 0.0], [1.0, 1.0]]
    """

    kind: ClassVar[str] = "Hypersurface"
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
    def segments(self) -> NDArray[np.float64]:
        """The walls of a polynomial in two variables as an (n_walls, 2, 2) array of end points."""
        if self.d != 2:
            raise InvalidInputError(f"segments need two variables, but there are {self.d}; use vertices(i).")
        if not (self.homogeneous[:, 0] > 0).all():
            raise InvalidInputError("segments need bounded walls, but some run to infinity; pass a box.")
        return np.array([self.vertices(i) for i in range(self.n_walls)]).reshape(-1, 2, 2)

    def _summary(self) -> str:
        return f"{self.n_walls} walls in {self.d}-d"

    def _table(self) -> Mapping[str, Any]:
        return {"polynomial": self.owner, "term": self.terms}

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("terms", "owner", "start", "homogeneous")}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(**state)


def hypersurface(polynomials: Iterable[TropicalPolynomial], domain: Domain | None = None) -> Hypersurface:
    """The walls of each polynomial inside a domain, one list for all of them.

    Examples
    --------
    >>> p, q = TropicalPolynomial([[0], [1]]), TropicalPolynomial([[0], [1]], [0, -1])
    >>> walls = hypersurface([p, q])
    >>> [walls.vertices(i).tolist() for i in range(walls.n_walls)]
    [[[0.0]], [[1.0]]]
    """
    terms: list[tuple[int, int]] = []
    owner: list[int] = []
    pieces: list[Floats] = []
    d = None
    for k, polynomial in enumerate(polynomials):
        cells = refine([_family(polynomial)], domain)
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
                found[key] = _around(_polyhedron(cells, generators[rows]))
        yield from (((own, key), found[key]) for key in sorted(found))


def _around(rows: Floats) -> Floats:
    """The vertices of a polygon in space in their order around it."""
    if rows.shape[1] != 4 or len(rows) < 4 or not (rows[:, 0] > 0).all():
        return rows
    points = rows[:, 1:] / rows[:, :1]
    centred = points - points.mean(axis=0)
    _, _, frame = np.linalg.svd(centred)
    return rows[np.argsort(np.arctan2(centred @ frame[1], centred @ frame[0]), kind="stable")]


def _polyhedron(cells: Refinement, rows: Floats) -> Floats:
    """Rows of the kernel with vertices as [1, x] and rays of largest entry 1."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scaled = rows / np.where(rows[:, :1] > 0, rows[:, :1], np.abs(rows).max(axis=1, keepdims=True))
    # vertices that are too far for float64 stay homogeneous; adding 0.0 turns -0.0 into 0.0
    rows = np.where(np.isfinite(scaled).all(axis=1, keepdims=True), scaled, rows) + 0.0
    # the kernel keeps a cone by its rays alone; as a polyhedron it also has the vertex 0
    return np.concatenate([[[1.0] + [0.0] * cells.d], rows]) if cells.is_fan else rows


def _family(polynomial: TropicalPolynomial) -> Scores:
    """Scores with the same winners; equal coefficients are left out, because then the cells are cones."""
    c = polynomial.scores.source["biases"]
    if (c.floats == c.floats[0]).all() and (c.fractions is None or (c.fractions == c.fractions[0]).all()):
        return Scores.of_keys(polynomial.scores.source["keys"])
    return polynomial.scores


def _stored(array: Any) -> Any:
    return array.floats if array.fractions is None else array.fractions.tolist()


def _stored_domain(domain: Domain) -> dict[str, Any]:
    match domain:
        case Box():
            return {"low": _stored(domain.low), "high": _stored(domain.high)}
        case Polytope():
            return {"A": _stored(domain.a), "b": _stored(domain.b)}
    return {"d": domain.d}


def _loaded_domain(state: dict[str, Any]) -> Domain:
    if "low" in state:
        return Box(state["low"], state["high"])
    return WholeSpace(state["d"]) if "d" in state else Polytope(state["A"], state["b"])
