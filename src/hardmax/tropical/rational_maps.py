r"""Tropical rational maps: differences of tropical polynomials (P1 Definition III.6).

.. math:: F_c(x) = p_c(x) \oslash q(x) = p_c(x) - q(x)

with one denominator for all outputs, which P1 calls *structured*. They are exactly the continuous piecewise
affine maps, convex or not.

Numerators and denominator may be products that are not multiplied out (:class:`TropicalProduct`): :math:`n`
factors of two terms have :math:`2^n` terms together, but as a function they are one sum, and their cells are
the common refinement of the factors, which needs no term written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.geometry.domains import Domain
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.refinements import CommonRefinement, Hypersurface, common_refinement, hypersurface
from hardmax.tropical.score_values import points_of, soft_maxima

__all__ = ["TropicalProduct", "TropicalRationalMap"]

MAX_EXPANDED = 2**16


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
        rows = [self._affine(choice) for choice in cells.terms.tolist()]
        distinct = np.array(list(dict.fromkeys(map(tuple, rows))), dtype=object)
        return TropicalPolynomial(distinct[:, :-1], distinct[:, -1])

    def _affine(self, choice: Sequence[int]) -> list[Fraction]:
        """The row :math:`[a, b]` of the affine function on the cell with the given terms."""
        row = [Fraction(0)] * (self.d + 1)
        for factor, power, j in zip(self.factors, fractions_of(self.powers), choice, strict=True):
            row = [
                r + power * Fraction(int(v.p), int(v.q))
                for r, v in zip(row, factor.scores.exact_row(j), strict=True)
            ]
        return row

    def __repr__(self) -> str:
        return f"TropicalProduct({len(self.factors)} factors, {self.d} variables)"


Numerator = TropicalPolynomial | TropicalProduct


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

    numerators: tuple[Numerator, ...]
    denominator: Numerator

    def __init__(self, numerators: Sequence[Numerator], denominator: Numerator) -> None:
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

        def row(part: Numerator) -> NDArray[np.object_]:
            powers: NDArray[np.object_] = np.full(len(column), Fraction(0), dtype=object)
            for factor, power in _powers(part):
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
        choice = [int(factor.active_terms(x)[0]) for factor in self.factors]
        rows = [f.scores.exact_row(j) for f, j in zip(self.factors, choice, strict=True)]
        exact = np.array([[Fraction(int(v.p), int(v.q)) for v in row] for row in rows], dtype=object)
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
        return hypersurface(self._cutting(), box)

    def _cutting(self) -> tuple[TropicalPolynomial, ...]:
        return tuple(factor for factor in self.factors if factor.n_terms > 1) or self.factors[:1]

    def __repr__(self) -> str:
        return (
            f"TropicalRationalMap({self.n_outputs} outputs, {len(self.factors)} factors, {self.d} variables)"
        )


def _powers(part: Numerator) -> Iterable[tuple[TropicalPolynomial, Fraction]]:
    if isinstance(part, TropicalPolynomial):
        return [(part, Fraction(1))]
    return zip(part.factors, fractions_of(part.powers), strict=True)


def _common_dimension(parts: Sequence[Numerator], name: str) -> int:
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
