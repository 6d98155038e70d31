r"""Tropical polynomials, their products and quotients, and their cells (P1 Definitions III.5 to III.8).

.. math:: p(x) = \bigoplus_j c_j \otimes x^{\otimes \alpha_j} = \max_j \,(c_j + \alpha_j \cdot x) .

P1 asks for integer exponents; its own use, :math:`\alpha_j = k_j` a key, needs real ones, so they are real
here. A tropical polynomial is a list of scores: term :math:`j` is the score of a key :math:`\alpha_j` with
bias :math:`c_j`, and the cell of the term is where it wins. The Newton polytope does not determine the cells:
see :mod:`hardmax.tropical.hypersurfaces`.

The tropical sum of two polynomials is the maximum of the functions (the union of the terms), the tropical
product is their sum (all pairs of terms, exponents and coefficients added). Sums are formed exactly, so that
the product has the walls of ``p`` and of ``q`` and no others. Products may also be kept apart
(:class:`TropicalProduct`): :math:`n` factors of two terms have :math:`2^n` terms together, but as a function
they are one sum, and their cells are the common refinement of the factors, which needs no term written out.

The tropical quotient :math:`p_c(x) \oslash q(x) = p_c(x) - q(x)` is no polynomial, but a rational map, with
one denominator for all outputs, which P1 calls *structured*. Rational maps are exactly the continuous
piecewise affine maps, convex or not.

The common refinement of several polynomials has one cell for every tuple of terms that win together on an
open set. P1 speaks of fans and cones throughout. That is right only when the coefficients of each polynomial
are equal (an attention head without biases); in general the cells form a polyhedral complex, bounded cells
included, and :attr:`CommonRefinement.is_fan` says which case it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import exact_multiple, exact_outer_sum, exact_stack, fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.geometry.domains import Box, Domain, Polytope, WholeSpace
from hardmax.geometry.scores import Scores
from hardmax.limits import Clock
from hardmax.progress import Progress, shown
from hardmax.results import Result
from hardmax.tropical.hypersurfaces import (
    Hypersurface,
    NewtonPolytope,
    exact_point,
    hypersurface,
    maximisers,
    points_of,
    polyhedron,
    refined,
    soft_maxima,
    upper_vertices,
)

if TYPE_CHECKING:
    from hardmax.geometry.cones.splitting import Refinement

MAX_TERMS = 2**20
MAX_EXPANDED = 2**16
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

    @property
    def powers(self) -> ExactArray:
        """The power of its one factor."""
        return ExactArray(np.ones(1))

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

    def term(self, j: int) -> list[Fraction]:
        r"""The row :math:`[\alpha_j, c_j]` of one term, exactly.

        >>> TropicalPolynomial([[0], [1]], [0, 5]).term(1)
        [Fraction(1, 1), Fraction(5, 1)]
        """
        return [Fraction(int(value.p), int(value.q)) for value in self.scores.exact_row(j)]

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
    def _function(self) -> frozenset[tuple[Fraction, ...]]:
        return frozenset(tuple(self.term(int(j))) for j in self._essential)

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
        return hypersurface([self.scores], box)


@dataclass(frozen=True, init=False, eq=False)
class TropicalProduct:
    r"""A product :math:`\bigotimes_u f_u^{\otimes c_u}` of powers of polynomials, not multiplied out.

    As a function it is :math:`\sum_u c_u f_u(x)`. The powers are real and at least 0, because a negative
    multiple of a convex function is not convex; factors with power 0 are dropped.

    Parameters
    ----------
    factors : sequence of TropicalPolynomial
        At least one, all in the same number of variables.
    powers : array_like, optional
        :math:`c_u`; all 1 when left out. ``Fraction`` entries are kept exactly.

    Examples
    --------
    Twenty factors: a million terms, twenty-one cells.

    >>> product = TropicalProduct([TropicalPolynomial([[0], [1]], [0, -u]) for u in range(20)])
    >>> product([30.0])
    410.0
    >>> product.simplified().n_terms
    21
    """

    factors: tuple[TropicalPolynomial, ...]
    powers: ExactArray

    def __init__(self, factors: Sequence[TropicalPolynomial], powers: ArrayLike | None = None) -> None:
        polynomials = tuple(factors)
        d = _common_dimension(polynomials, "factors")
        exact = (
            ExactArray(np.ones(len(polynomials))) if powers is None else as_exact(powers, "powers", ndim=1)
        )
        if exact.shape[0] != len(polynomials):
            raise DimensionMismatchError(
                f"powers must hold one number per factor ({len(polynomials)}), but holds {exact.shape[0]}."
            )
        values = fractions_of(exact)
        if any(value < 0 for value in values):
            raise InvalidInputError(
                f"powers must be at least 0, but one is {float(min(values)):g}; divide instead."
            )
        keep = np.flatnonzero(np.array([value > 0 for value in values]))
        if len(keep):
            polynomials, exact = tuple(polynomials[u] for u in keep), exact.take(keep)
        else:  # the empty product is the tropical one, the constant 0
            polynomials, exact = (TropicalPolynomial(np.zeros((1, d))),), ExactArray(np.ones(1))
        object.__setattr__(self, "factors", polynomials)
        object.__setattr__(self, "powers", exact)

    @property
    def d(self) -> int:
        """The number of variables."""
        return self.factors[0].d

    @property
    def n_terms(self) -> int:
        """The number of terms after multiplying out, those that never win included."""
        return prod(factor.n_terms for factor in self.factors)

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> Any:
        r"""Values :math:`\sum_u c_u f_u(x)`, each :math:`f_u` at the given temperature."""
        points, single = points_of(x, self.d)
        table = soft_maxima([factor.scores for factor in self.factors], points, temperature)
        values = table @ self.powers.floats
        return float(values[0]) if single else values

    def exact_value(self, x: ArrayLike) -> Fraction:
        """The value at one point without rounding."""
        pairs = zip(fractions_of(self.powers), self.factors, strict=True)
        return sum((power * factor.exact_value(x) for power, factor in pairs), Fraction(0))

    def expanded(self) -> TropicalPolynomial:
        """The product multiplied out: every combination of terms, as ``p * q`` has them.

        Raises
        ------
        InvalidInputError
            Above 65 536 terms (sixteen units of a ReLU layer); ``simplified()`` has no such limit.

        Examples
        --------
        >>> p, q = TropicalPolynomial([[0], [1]]), TropicalPolynomial([[0], [-1]])
        >>> TropicalProduct([p, q], [2, 1]).expanded()
        TropicalPolynomial(max(0, -x, 2 x, x))
        """
        if self.n_terms > MAX_EXPANDED:
            raise InvalidInputError(
                f"a product is multiplied out up to {MAX_EXPANDED} terms, but this one has {self.n_terms}; "
                "use simplified(), or evaluate the product as it is."
            )
        total = TropicalPolynomial(np.zeros((1, self.d)))
        for factor, power in zip(self.factors, fractions_of(self.powers), strict=True):
            total = total * (factor if power == 1 else factor**power)
        return total

    def simplified(self) -> TropicalPolynomial:
        """The same function with its essential terms only: one per cell, found without multiplying out.

        Examples
        --------
        >>> p, q = TropicalPolynomial([[0], [1]]), TropicalPolynomial([[0], [1]], [0, -1])
        >>> TropicalProduct([p, q]).simplified()
        TropicalPolynomial(max(0, x, -1 + 2 x))
        """
        cells = common_refinement(self)
        powers = fractions_of(self.powers)
        rows = []  # the affine function on each cell
        for choice in cells.terms.tolist():
            terms = [factor.term(j) for factor, j in zip(self.factors, choice, strict=True)]
            rows.append(tuple(powers @ np.array(terms, dtype=object)))
        distinct = np.array(list(dict.fromkeys(rows)), dtype=object)
        return TropicalPolynomial(distinct[:, :-1], distinct[:, -1])

    def __repr__(self) -> str:
        return f"TropicalProduct({len(self.factors)} factors, {self.d} variables)"


Factored = TropicalPolynomial | TropicalProduct


@dataclass(frozen=True, init=False, eq=False)
class TropicalRationalMap:
    r"""The map :math:`F(x) = (p_1(x) - q(x), \dots, p_m(x) - q(x))` with a shared denominator.

    Parameters
    ----------
    numerators : sequence of TropicalPolynomial or TropicalProduct
        :math:`p_1, \dots, p_m`.
    denominator : TropicalPolynomial or TropicalProduct
        :math:`q`.

    Notes
    -----
    Every continuous piecewise linear function is such a quotient. It is affine on each cell of
    :meth:`common_refinement`, but neighbouring cells may carry the same affine function: the number of cells
    is an upper bound on the number of linear regions, not the number itself as P1 Remark III.12 has it.

    Examples
    --------
    >>> absolute = TropicalPolynomial([[1], [-1]])
    >>> hat = TropicalPolynomial([[0]], [1]) / absolute          # 1 - |x|: not convex, hence no polynomial
    >>> hat([[-1.0], [0.0], [1.0]])[:, 0]
    array([0., 1., 0.])
    """

    numerators: tuple[Factored, ...]
    denominator: Factored

    def __init__(self, numerators: Sequence[Factored], denominator: Factored) -> None:
        tops = tuple(numerators)
        _common_dimension((*tops, denominator), "numerators and denominator")
        if not tops:
            raise InvalidInputError("numerators must hold at least one tropical polynomial, but is empty.")
        object.__setattr__(self, "numerators", tops)
        object.__setattr__(self, "denominator", denominator)

    @property
    def d(self) -> int:
        """The number of variables."""
        return self.denominator.d

    @property
    def n_outputs(self) -> int:
        """The number of outputs."""
        return len(self.numerators)

    @cached_property
    def factors(self) -> tuple[TropicalPolynomial, ...]:
        """The distinct polynomials that the numerators and the denominator are made of."""
        everyone = (f for part in (*self.numerators, self.denominator) for f in part.factors)
        return tuple({id(f): f for f in everyone}.values())

    @cached_property
    def _weights(self) -> NDArray[np.object_]:
        """(n_outputs, n_factors): the power of each factor in each output, denominator subtracted."""
        column = {id(factor): u for u, factor in enumerate(self.factors)}

        def row(part: Factored) -> NDArray[np.object_]:
            powers: NDArray[np.object_] = np.full(len(column), Fraction(0), dtype=object)
            for factor, power in zip(part.factors, fractions_of(part.powers), strict=True):
                powers[column[id(factor)]] += power
            return powers

        denominator = row(self.denominator)
        return np.array([row(numerator) - denominator for numerator in self.numerators], dtype=object)

    @cached_property
    def _float_weights(self) -> NDArray[np.float64]:
        return self._weights.astype(np.float64)

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> NDArray[np.float64]:
        """Values, of shape (n, n_outputs) for points of shape (n, d), and (n_outputs,) for one point.

        At a positive temperature every factor is evaluated there; for a log-lifted head this is tau log z.
        """
        points, single = points_of(x, self.d)
        values = soft_maxima([factor.scores for factor in self.factors], points, temperature)
        out: NDArray[np.float64] = values @ self._float_weights.T
        return out[0] if single else out

    def exact_value(self, x: ArrayLike) -> tuple[Fraction, ...]:
        """The outputs at one point without rounding.

        >>> (TropicalPolynomial([[1]]) / TropicalPolynomial([[0], [3]])).exact_value([Fraction(1, 3)])
        (Fraction(-2, 3),)
        """
        values = [factor.exact_value(x) for factor in self.factors]
        return tuple(
            sum((w * v for w, v in zip(row, values, strict=True)), Fraction(0)) for row in self._weights
        )

    def affine_at(self, x: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""The affine map :math:`x \mapsto A x + b` near a point, as ``(A, b)``.

        The entries are exact sums, rounded once. Where terms tie, the lowest index counts; ask at a witness
        for the map of a cell.

        >>> (TropicalPolynomial([[0]]) / TropicalPolynomial([[1], [-1]], [0, 2])).affine_at([5.0])
        (array([[-1.]]), array([0.]))
        """
        rows = [factor.term(int(factor.active_terms(x)[0])) for factor in self.factors]
        exact = np.array(rows, dtype=object)
        total = (self._weights @ exact).astype(np.float64)
        return total[:, :-1], total[:, -1]

    def common_refinement(self, domain: Domain | None = None) -> CommonRefinement:
        """The cells on which all numerators and the denominator are affine (P1 Remark III.12).

        Its polynomials are the factors that have at least two terms.

        >>> hat = TropicalPolynomial([[0]], [1]) / TropicalPolynomial([[1], [-1]])
        >>> hat.common_refinement().n_cells
        2
        """
        return common_refinement(*self._cutting(), domain=domain)

    def hypersurface(self, box: Domain | None = None) -> Hypersurface:
        r"""The walls of all numerators and of the denominator: P1's :math:`\bigcup_c H(p_c) \cup H(q)`.

        The map folds nowhere else; on some of these walls it may not fold at all.

        >>> hat = TropicalPolynomial([[0]], [1]) / TropicalPolynomial([[1], [-1]])
        >>> hat.hypersurface().vertices(0)
        array([[0.]])
        """
        return hypersurface([factor.scores for factor in self._cutting()], box)

    def _cutting(self) -> tuple[TropicalPolynomial, ...]:
        return tuple(factor for factor in self.factors if factor.n_terms > 1) or self.factors[:1]

    def __repr__(self) -> str:
        return (
            f"TropicalRationalMap({self.n_outputs} outputs, {len(self.factors)} factors, {self.d} variables)"
        )


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
    def terms(self) -> NDArray[np.int64]:
        """The tuple of winning terms of each cell."""
        return self.refinement.choices

    @property
    def witnesses(self) -> NDArray[np.float64]:
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

    def generators(self, i: int) -> NDArray[np.float64]:
        r"""Cell ``i`` as rows :math:`[x_0, x]`: vertices :math:`x / x_0`, and rays where :math:`x_0 = 0`.

        The cell is the convex hull of its vertices plus the rays plus :attr:`lines`.

        Examples
        --------
        >>> TropicalPolynomial([[0], [1]], [0, -3]).cells().generators(0)
        array([[ 1.,  3.],
               [ 0., -1.]])
        """
        return polyhedron(self.refinement, self.refinement.generators(i))

    @cached_property
    def lines(self) -> NDArray[np.float64]:
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
            if len({polynomial.term(int(j))[-1] for j in np.unique(self.terms[:, k])}) > 1:
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
            "exponents": [p.scores.source["keys"].state() for p in self.polynomials],
            "coefficients": [p.scores.source["biases"].state() for p in self.polynomials],
            "domain": _stored_domain(self.domain),
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        pairs = zip(state["exponents"], state["coefficients"], strict=True)
        polynomials = tuple(TropicalPolynomial(alpha, c) for alpha, c in pairs)
        domain = _loaded_domain(state["domain"])
        return cls(polynomials, domain, refined([p.scores for p in polynomials], domain))


def common_refinement(
    *polynomials: Factored,
    domain: Domain | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
) -> CommonRefinement:
    r"""The full-dimensional pieces of :math:`\Sigma(p) \wedge \Sigma(q) \wedge \dots` (P1 Definition III.8).

    A piece is the intersection of one cell of each polynomial that has interior. It is a cone only when the
    coefficients of each polynomial are equal: see :attr:`CommonRefinement.is_fan`.

    Parameters
    ----------
    *polynomials : TropicalPolynomial or TropicalProduct
        At least one, all in the same number of variables. A product counts as its factors.
    domain : Box, Polytope or WholeSpace, optional
        Where cells are looked for; the whole space by default.
    time_limit : float, optional
        Seconds after which the search is given up.
    progress : bool or callable, optional
        ``True`` shows a bar, a function is called with a :class:`~hardmax.progress.Progress`.

    Returns
    -------
    CommonRefinement

    Raises
    ------
    IncompleteError
        When the time is over: the cells of some polynomials are not among those of all.

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
    _common_dimension(polynomials, "polynomials")
    factors = tuple(factor for polynomial in polynomials for factor in polynomial.factors)
    clock = Clock(time_limit, "find the cells of all polynomials")
    with shown(progress, Progress.line, clock) as report:
        look = None if report is None else _reporting(report, clock)
        refinement = refined([p.scores for p in factors], domain, look)
    return CommonRefinement(factors, refinement.domain, refinement)


def _reporting(report: Callable[..., object], clock: Clock) -> Callable[[float, int], object]:
    return lambda share, n_cells: report(Progress(n_cells, share, clock.seconds))


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


def _common_dimension(parts: Sequence[Factored], name: str) -> int:
    if not parts:
        raise InvalidInputError(f"{name} must hold at least one tropical polynomial, but is empty.")
    for part in parts:
        if not isinstance(part, (TropicalPolynomial, TropicalProduct)):
            raise InvalidInputError(
                f"{name} must be tropical polynomials, but one is a {type(part).__name__}."
            )
        if part.d != parts[0].d:
            raise DimensionMismatchError(
                f"{name} must have as many variables as each other, but have {parts[0].d} and {part.d}."
            )
    return parts[0].d


def _stored_domain(domain: Domain) -> dict[str, Any]:
    match domain:
        case Box():
            return {"low": domain.low.state(), "high": domain.high.state()}
        case Polytope():
            return {"A": domain.a.state(), "b": domain.b.state()}
    return {"d": domain.d}


def _loaded_domain(state: dict[str, Any]) -> Domain:
    if "low" in state:
        return Box(state["low"], state["high"])
    return WholeSpace(state["d"]) if "d" in state else Polytope(state["A"], state["b"])
