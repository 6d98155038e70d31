r"""Tropical polynomials: maxima of affine functions, with real exponents (P1 Definitions III.5 and III.7).

.. math:: p(x) = \bigoplus_j c_j \otimes x^{\otimes \alpha_j} = \max_j \,(c_j + \alpha_j \cdot x) .

P1 asks for integer exponents; its own use, :math:`\alpha_j = k_j` a key, needs real ones, so they are real
here. A tropical polynomial is a list of scores: term :math:`j` is the score of a key :math:`\alpha_j` with
bias :math:`c_j`, and the cell of the term is where it wins.

The tropical sum of two polynomials is the maximum of the functions (the union of the terms), the tropical
product is their sum (all pairs of terms, exponents and coefficients added), the tropical quotient is their
difference and no polynomial (:mod:`hardmax.tropical.rational_maps`). Sums are formed exactly, so that the
product has the walls of ``p`` and of ``q`` and no others.

What P1 says of the Newton polytope has to be corrected. It is the convex hull of the exponents alone, and
therefore does not determine the cells: :math:`\max(0, 5+x, 2x)` has three and :math:`\max(0, -5+x, 2x)` has
two. The cells belong to the upper vertices of the lifted points :math:`(\alpha_j, c_j)`
(:meth:`TropicalPolynomial.essential_terms`). Every vertex of the Newton polytope is among them; for equal
coefficients there are no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import exact_multiple, exact_outer_sum, exact_stack, fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.geometry.domains import Domain
from hardmax.geometry.scores import Scores
from hardmax.tropical.newton_polytopes import NewtonPolytope, upper_vertices
from hardmax.tropical.score_values import exact_point, maximisers, points_of, soft_maxima

if TYPE_CHECKING:
    from hardmax.tropical.rational_maps import TropicalRationalMap
    from hardmax.tropical.refinements import CommonRefinement, Hypersurface

__all__ = ["TropicalPolynomial"]

MAX_TERMS = 2**20
_SHORT = 8  # terms up to which a polynomial prints as a formula


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TropicalPolynomial:
    r"""The function :math:`p(x) = \max_j (c_j + \alpha_j \cdot x)` on :math:`\mathbb{R}^d`.

    Parameters
    ----------
    exponents : (m, d) array_like
        :math:`\alpha_j`, any real numbers; ``Fraction`` entries are kept exactly.
    coefficients : (m,) array_like, optional
        :math:`c_j`; all zero when left out. A term with coefficient ``-inf`` (the tropical zero) is dropped,
        and the terms after it move up.

    Attributes
    ----------
    exponents : (m, d) float64
    coefficients : (m,) float64
    scores : Scores
        The same numbers as the geometry reads them, with exact rows.
    d, n_terms : int

    Raises
    ------
    InvalidInputError
        If no term is left: the constant :math:`-\infty` has no cells.
    DimensionMismatchError, NotFiniteError
        If the shapes do not fit together, or an entry is NaN or infinite.

    Notes
    -----
    ``p == q`` asks whether they are the same *function*: whether their essential terms are the same set,
    compared in rationals. Every law of the tropical semiring holds in this sense.

    Examples
    --------
    >>> p = TropicalPolynomial([[0], [1], [2]], [0, 5, 0])
    >>> p
    TropicalPolynomial(max(0, 5 + x, 2 x))
    >>> p([[-10.0], [0.0], [10.0]])
    array([ 0.,  5., 20.])
    >>> q = TropicalPolynomial([[0], [1]])
    >>> p * (p + q) == p * p + p * q
    True
    """

    scores: Scores
    _alpha: ExactArray
    _c: ExactArray

    def __init__(self, exponents: ArrayLike, coefficients: ArrayLike | None = None) -> None:
        alpha = as_exact(exponents, "exponents", ndim=2)
        if 0 in alpha.shape:
            raise InvalidInputError(
                f"exponents must hold at least one term and one variable, but has shape {alpha.shape}."
            )
        c, present = _coefficients(coefficients, alpha.shape[0])
        if not present.all():
            alpha = alpha.take(np.flatnonzero(present))
        self._set(alpha, c)

    def _set(self, alpha: ExactArray, c: ExactArray) -> None:
        exponents: Any = alpha
        coefficients: Any = c
        object.__setattr__(self, "scores", Scores.of_keys(exponents, coefficients, name="exponents"))
        object.__setattr__(self, "_alpha", alpha)
        object.__setattr__(self, "_c", c)

    @classmethod
    def of_exact(cls, alpha: ExactArray, c: ExactArray) -> TropicalPolynomial:
        """A polynomial from arrays that have been checked already."""
        polynomial = cls.__new__(cls)
        polynomial._set(alpha, c)
        return polynomial

    @property
    def exponents(self) -> NDArray[np.float64]:
        """The exponents, one row per term."""
        return self._alpha.floats

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The coefficients, one per term."""
        return self._c.floats

    @property
    def d(self) -> int:
        """The number of variables."""
        return self._alpha.shape[1]

    @property
    def n_terms(self) -> int:
        """The number of terms, those that never win included."""
        return self._alpha.shape[0]

    @property
    def factors(self) -> tuple[TropicalPolynomial, ...]:
        """The polynomial itself: what a product of polynomials has several of."""
        return (self,)

    # Values
    # --------------------------------------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> Any:
        r"""Values :math:`\bigoplus_j (c_j + \alpha_j \cdot x)`, with :math:`\oplus_\tau` at a temperature.

        Parameters
        ----------
        x : (n, d) or (d,) array_like
            Many points, or one.
        temperature : float, default 0.0
            :math:`\tau \ge 0`. The value exceeds the one at zero by at most :math:`\tau \log m`.

        Returns
        -------
        (n,) ndarray, or a float for one point

        Examples
        --------
        >>> p = TropicalPolynomial([[1, 0], [0, 1]])
        >>> p([3, 7]), round(p([3, 7], temperature=1.0), 4)
        (7.0, 7.0181)
        """
        points, single = points_of(x, self.d)
        values = soft_maxima([self.scores], points, temperature)[:, 0]
        return float(values[0]) if single else values

    def exact_value(self, x: ArrayLike) -> Fraction:
        """The value at one point without rounding.

        >>> TropicalPolynomial([[1], [-1]]).exact_value([Fraction(-1, 3)])
        Fraction(1, 3)
        """
        best = maximisers(self.scores, exact_point(x, self.d))[1]
        return Fraction(int(best.p), int(best.q))

    def active_terms(self, x: ArrayLike) -> NDArray[np.int64]:
        """The terms that attain the maximum at one point, decided exactly: several on a wall.

        >>> TropicalPolynomial([[0], [1], [2]]).active_terms([0.0])
        array([0, 1, 2])
        """
        return maximisers(self.scores, exact_point(x, self.d))[0]

    # Algebra
    # --------------------------------------------------------------------------------------------------------

    def __add__(self, other: TropicalPolynomial) -> TropicalPolynomial:
        """Tropical sum: the maximum of both functions, the union of the terms."""
        if not isinstance(other, TropicalPolynomial):
            return NotImplemented
        self._same_space(other)
        return self.of_exact(exact_stack([self._alpha, other._alpha]), exact_stack([self._c, other._c]))

    def __mul__(self, other: TropicalPolynomial) -> TropicalPolynomial:
        r"""Tropical product: the sum of both functions; all pairs of terms, those of the first term first."""
        if not isinstance(other, TropicalPolynomial):
            return NotImplemented
        self._same_space(other)
        if self.n_terms * other.n_terms > MAX_TERMS:
            raise InvalidInputError(
                f"a product must have at most {MAX_TERMS} terms, but has {self.n_terms} x {other.n_terms}; "
                "simplify the factors, or keep them apart in a TropicalProduct."
            )
        alpha = exact_outer_sum(self._alpha, other._alpha, "exponents")
        return self.of_exact(alpha, exact_outer_sum(self._c, other._c, "coefficients"))

    def __pow__(self, power: float | Fraction) -> TropicalPolynomial:
        """Tropical power: the function times a real number that is at least 0; its cells are the same."""
        exact = as_exact([power], "power", ndim=1)
        factor = Fraction(fractions_of(exact)[0])
        if factor < 0:
            raise InvalidInputError(f"power must be at least 0, but was {exact.floats[0]:g}; divide instead.")
        if factor == 0:  # all terms become the same constant
            return self.of_exact(ExactArray(np.zeros((1, self.d))), ExactArray(np.zeros(1)))
        alpha = exact_multiple(self._alpha, factor, "exponents")
        return self.of_exact(alpha, exact_multiple(self._c, factor, "coefficients"))

    def __truediv__(self, other: TropicalPolynomial) -> TropicalRationalMap:
        """Tropical quotient: the difference of both functions, a rational map with one output."""
        from hardmax.tropical.rational_maps import TropicalRationalMap

        return TropicalRationalMap([self], other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TropicalPolynomial):
            return NotImplemented
        return self.d == other.d and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        if self.n_terms <= _SHORT and self.d <= 3:
            return f"TropicalPolynomial(max({', '.join(self._formula(j) for j in range(self.n_terms))}))"
        return f"TropicalPolynomial({self.n_terms} terms, {self.d} variables)"

    def _same_space(self, other: TropicalPolynomial) -> None:
        if self.d != other.d:
            raise DimensionMismatchError(
                f"both polynomials must have as many variables, but they have {self.d} and {other.d}."
            )

    def _formula(self, j: int) -> str:
        names = ["x"] if self.d == 1 else [f"x{i + 1}" for i in range(self.d)]
        parts = [f"{self.coefficients[j]:g}"] if self.coefficients[j] else []
        for a, name in zip(self.exponents[j], names, strict=True):
            if a:
                parts.append(name if a == 1 else f"-{name}" if a == -1 else f"{a:g} {name}")
        return " + ".join(parts).replace("+ -", "- ") or "0"

    # Geometry
    # --------------------------------------------------------------------------------------------------------

    def essential_terms(self) -> NDArray[np.int64]:
        r"""The terms that win on an open set, in any dimension; of identical terms the lowest index.

        Term :math:`j` is essential exactly when :math:`(\alpha_j, c_j)` is an upper vertex of the convex hull
        of all lifted points. The others can be left out without changing the function.

        Examples
        --------
        The term x is essential in the first polynomial and never wins in the second.

        >>> TropicalPolynomial([[0], [1], [2]], [0, 5, 0]).essential_terms()
        array([0, 1, 2])
        >>> TropicalPolynomial([[0], [1], [2]], [0, -5, 0]).essential_terms()
        array([0, 2])
        """
        return self._essential

    @cached_property
    def _essential(self) -> NDArray[np.int64]:
        return upper_vertices(self.scores)

    @cached_property
    def _function(self) -> frozenset[tuple[tuple[int, int], ...]]:
        rows = (self.scores.exact_row(int(j)) for j in self._essential)
        return frozenset(tuple((int(value.p), int(value.q)) for value in row) for row in rows)

    def simplified(self) -> TropicalPolynomial:
        """The same function with its essential terms only.

        >>> TropicalPolynomial([[0], [1], [2], [2]], [0, -5, 0, 0]).simplified()
        TropicalPolynomial(max(0, 2 x))
        """
        return self.of_exact(self._alpha.take(self._essential), self._c.take(self._essential))

    def newton_polytope(self) -> NewtonPolytope:
        """The convex hull of the exponents: its vertices, in any dimension, decided exactly.

        >>> TropicalPolynomial([[0, 0], [1, 0], [2, 0], [0, 2]], [0, 9, 0, 0]).newton_polytope().vertices
        array([[0., 0.],
               [2., 0.],
               [0., 2.]])
        """
        return NewtonPolytope.of_points(self._alpha)

    def cells(self, box: Domain | None = None) -> CommonRefinement:
        r"""The cells with interior: cell j is where term j is at least every other term.

        Parameters
        ----------
        box : Box, Polytope or WholeSpace, optional
            Where cells are looked for; the whole space by default.

        Examples
        --------
        >>> cells = TropicalPolynomial([[0], [1], [2]], [0, 5, 0]).cells()
        >>> cells.n_cells, sorted(cells.terms[:, 0].tolist())
        (3, [0, 1, 2])
        """
        from hardmax.tropical.refinements import common_refinement

        return common_refinement(self, domain=box)

    def hypersurface(self, box: Domain | None = None) -> Hypersurface:
        r"""The walls: the points of the box where two essential terms win together (Definition III.7).

        Each wall is a piece of dimension :math:`d-1` on which one pair of essential terms ties: a point for
        :math:`d = 1`, a segment for :math:`d = 2`, a polygon for :math:`d = 3`.

        Examples
        --------
        >>> from hardmax.geometry.domains import Box
        >>> walls = TropicalPolynomial([[0], [1], [2]], [0, 5, 0]).hypersurface(Box([-9], [9]))
        >>> sorted((walls.terms[i].tolist(), float(walls.vertices(i)[0, 0])) for i in range(walls.n_walls))
        [([0, 1], -5.0), ([1, 2], 5.0)]
        """
        from hardmax.tropical.refinements import hypersurface

        return hypersurface([self], box)


def _coefficients(values: ArrayLike | None, n_terms: int) -> tuple[ExactArray, NDArray[np.bool_]]:
    """The coefficients that are not -inf, and which ones these are."""
    if values is None:
        return ExactArray(np.zeros(n_terms)), np.ones(n_terms, dtype=np.bool_)
    try:
        array = np.asarray(values if not isinstance(values, ExactArray) else fractions_of(values))
    except (ValueError, TypeError) as error:
        raise InvalidInputError("coefficients must be a vector of numbers, but is ragged.") from error
    if array.ndim != 1 or len(array) != n_terms:
        raise DimensionMismatchError(
            f"coefficients must hold one number per term ({n_terms}), but has shape {array.shape}."
        )
    present: NDArray[np.bool_] = np.array(
        [not (isinstance(v, float) and v == -np.inf) for v in array.tolist()]
    )
    if not present.any():
        raise InvalidInputError(
            "coefficients must leave at least one term, but all are -inf; the constant -inf has no cells."
        )
    return as_exact(array[present], "coefficients", ndim=1), present
