r"""Newton polytopes, and the lifted points that really decide which terms win (P1 Definition III.5).

:math:`\mathrm{Newt}(p)` is the convex hull of the exponents. Tropical products become Minkowski sums,
:math:`\mathrm{Newt}(p \otimes q) = \mathrm{Newt}(p) + \mathrm{Newt}(q)`, which is how heads add up in P1.

P1 calls a polynomial completely characterised by its Newton polytope. It is not: a term wins on an open set
exactly when its lifted point :math:`(\alpha_j, c_j)` is an upper vertex of the hull of all lifted points
(:func:`upper_vertices`). Every vertex of the Newton polytope carries such a term; for equal coefficients
there are no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError
from hardmax.exact.arithmetic import exact_outer_sum, fractions_of
from hardmax.exact.rationals import ExactArray
from hardmax.geometry.scores import Scores

__all__ = ["NewtonPolytope", "upper_vertices"]


def upper_vertices(scores: Scores) -> NDArray[np.int64]:
    """The keys that win on an open set, in any dimension: the lowest index of each group of identical scores.

    >>> upper_vertices(Scores.of_keys([[0], [1], [2], [2]], [0, -5, 0, 0]))
    array([0, 2])
    """
    from hardmax.geometry.diagrams.power_diagrams import (
        attention_diagram,  # evaluating a polynomial needs no solver
    )

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
    >>> from hardmax.tropical.polynomials import TropicalPolynomial
    >>> p, q = TropicalPolynomial([[0, 0], [1, 0]], [0, 3]), TropicalPolynomial([[0, 0], [0, 1]])
    >>> (p * q).newton_polytope() == p.newton_polytope() + q.newton_polytope()
    True
    """

    terms: NDArray[np.int64]
    exact: ExactArray

    @classmethod
    def of_points(cls, points: ExactArray) -> NewtonPolytope:
        """The convex hull of the rows of an exact matrix."""
        exponents: Any = points
        terms = upper_vertices(Scores.of_keys(exponents, name="exponents"))
        return cls(terms, points.take(terms))

    @property
    def vertices(self) -> NDArray[np.float64]:
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
