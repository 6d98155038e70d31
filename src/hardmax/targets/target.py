r"""Targets: functions of sequences of any length that depend on a bounded number of tokens (P2 section 5).

A target is an outer function of terms, :math:`F(X) = F_0(m_1(X), \dots, m_n(X))`; a term is the best value
over tuples of positions, or reads fixed positions (:mod:`hardmax.targets.terms`). Its active set
:math:`I_F(X) = \{t : \partial F / \partial x(t) \ne 0\}` (equation (4)) is then the union of the winning
tuples, so it is found by bookkeeping rather than by derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.targets.functions import check_arity
from hardmax.targets.intervals import Interval
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.token_domains import InputDomain, as_domain

if TYPE_CHECKING:
    from hardmax.targets.comparison_trees import ComparisonTree
    from hardmax.targets.roles import Role

__all__ = ["Target"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Target:
    r"""A function :math:`F(X) = F_0(m_1(X), \dots, m_n(X))` of sequences of tokens.

    Parameters
    ----------
    terms : sequence of Term and FixedTerm
        :math:`m_1, \dots, m_n`, at least one.
    outer : callable, optional
        :math:`F_0`, from (B, n) to (B,); the sum when left out.
    d_token : int
        The dimension d of a token.
    domain : {"cube01", "cube11", "gaussian"} or InputDomain
        Where tokens lie.
    name : str
        A short description.

    Notes
    -----
    Functions of tokens are taken to be differentiable almost everywhere, with a gradient that does not vanish
    on open sets with respect to any of their tokens; a function that ignores a token is refused. An outer
    function may ignore a term at some inputs (a maximum of terms does): its derivatives are then taken by
    differences.

    Examples
    --------
    The distance between the two tokens that lie furthest apart:

    >>> import hardmax as hm
    >>> from hardmax.targets import Term
    >>> def distance(x, y):
    ...     return ((x - y) ** 2).sum(axis=-1) ** 0.5
    >>> diameter = hm.Target([Term(distance, 2, tuples="subsets")], d_token=2, domain="cube11")
    >>> X = [[[0, 0], [1, 1], [0.5, -1], [-1, 0]]]
    >>> diameter(X).round(3), diameter.winners(X)
    (array([2.236]), (array([[1, 3]]),))
    >>> diameter.active_set(X)
    array([[False,  True, False,  True]])
    >>> diameter.max_active, diameter.dimension
    (<Interval: 2>, <Interval: 2>)
    """

    terms: tuple[Term | FixedTerm, ...]
    outer: Callable[[Floats], Any] | None
    d_token: int
    domain: InputDomain
    name: str

    def __init__(
        self,
        terms: Sequence[Term | FixedTerm],
        outer: Callable[[Floats], Any] | None = None,
        d_token: int = 1,
        domain: InputDomain | str = "cube01",
        name: str = "",
    ) -> None:
        terms = tuple(terms) if isinstance(terms, Sequence) else (terms,)
        if not terms:
            raise InvalidInputError("terms must hold at least one term, but was empty (D = 0).")
        for term in terms:
            if not isinstance(term, (Term, FixedTerm)):
                raise InvalidInputError(
                    f"terms must be Term or FixedTerm objects, but one was a {type(term).__name__}; wrap a "
                    "function "
                    "of one token as Term(function)."
                )
        if outer is not None and not callable(outer):
            raise InvalidInputError(f"outer must be callable, but was {outer!r}.")
        values = {
            "terms": terms,
            "outer": outer,
            "d_token": positive("d_token", d_token),
            "domain": as_domain(domain),
            "name": name,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)
        seen: dict[Any, int] = {}
        for i, term in enumerate(terms):
            if isinstance(term, Term):
                points = [self.domain.sample(j, (64, self.d_token)) for j in range(term.arity)]
                check_arity(term.function, term.arity, self.d_token, points, f"the function of term {i}")
                if outer is None:
                    _check_cancelling(term, i, points, seen)
            elif term.function is not None:
                points = [self.domain.sample(j, (64, self.d_token)) for j in range(term.arity)]
                check_arity(
                    _Listed(term.function), term.arity, self.d_token, points, f"the function of term {i}"
                )

    # Values
    # ------------------------------------------------------------------------------------------------

    def __call__(self, sequences: ArrayLike) -> Floats:
        """F of each sequence: (B, T, d) gives (B,)."""
        X = self._checked(sequences)
        return self._combined(self._term_values(X, self._winners(X)))

    def term_values(self, sequences: ArrayLike) -> Floats:
        """The values of the terms: (B, T, d) gives (B, n)."""
        X = self._checked(sequences)
        return self._term_values(X, self._winners(X))

    def winners(self, sequences: ArrayLike) -> tuple[Integers, ...]:
        """The winning tuple of each term, (B, r_i) positions from 0; of a fixed term its positions."""
        return self._winners(self._checked(sequences))

    def active_set(self, sequences: ArrayLike) -> Bools:
        r"""The positions on which F depends at each sequence, :math:`I_F(X)`: (B, T, d) gives bool (B, T)."""
        X = self._checked(sequences)
        winners = self._winners(X)
        active = np.zeros(X.shape[:2], dtype=bool)
        counts = self._sensitive(self._term_values(X, winners))
        rows = np.arange(len(X))
        for i, tuples in enumerate(winners):
            for j in range(tuples.shape[1]):
                active[rows[counts[:, i]], tuples[counts[:, i], j]] = True
        return active

    def sample(self, n: int, n_tokens: int, rng: int | np.random.Generator = 0) -> Floats:
        """``n`` random sequences of the domain: (n, n_tokens, d)."""
        shape = positive("n", n, least=0), positive("n_tokens", n_tokens), self.d_token
        return self.domain.sample(rng, shape)

    @property
    def min_tokens(self) -> int:
        """The shortest sequence on which every term is defined."""
        return max(term.min_tokens for term in self.terms)

    # What P2 asks of it
    # ------------------------------------------------------------------------------------

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        """What it really compares: its terms after degenerate and duplicate ones have been recognised."""
        from hardmax.targets.roles import roles_of

        return roles_of(self)

    @cached_property
    def ties(self) -> tuple[str, ...]:
        """For each role, why any number of disjoint tuples can tie for it; empty where that is not known."""
        from hardmax.targets.requirements import tie_reason

        return tuple(tie_reason(self, role) for role in self.roles)

    @cached_property
    def max_active(self) -> Interval:
        """:math:`D_0`, the largest size of an active set over all lengths, almost everywhere."""
        from hardmax.targets.requirements import max_active

        return max_active(self)

    @cached_property
    def dimension(self) -> Interval:
        r"""The dimension of comparison :math:`\beta_1`: the length of the tuples that must be compared."""
        from hardmax.targets.requirements import dimension

        return dimension(self)

    @cached_property
    def order(self) -> Interval:
        r"""The order of comparison :math:`\beta'`: as what power of T the trees must grow."""
        from hardmax.targets.requirements import order

        return order(self)

    def comparisons(self, n_tokens: int) -> Interval:
        """The number of comparisons N for sequences of ``n_tokens`` tokens (Definition 2)."""
        from hardmax.targets.requirements import comparisons

        return comparisons(self, self._length(n_tokens))

    def trees(self, n_tokens: int) -> tuple[ComparisonTree, ...]:
        """Trees of comparison that retrieve the active set of every sequence of ``n_tokens`` tokens."""
        from hardmax.targets.comparison_trees import comparison_trees

        return comparison_trees(self, self._length(n_tokens))

    # Helpers
    # -----------------------------------------------------------------------------------------------

    def _length(self, n_tokens: int) -> int:
        return positive("n_tokens of this target", n_tokens, least=self.min_tokens)

    def _checked(self, sequences: ArrayLike) -> Floats:
        X = np.asarray(sequences, dtype=np.float64)
        if X.ndim != 3 or X.shape[2] != self.d_token or X.shape[1] == 0:
            raise DimensionMismatchError(
                f"sequences must have shape (B, T, {self.d_token}) with T at least 1, but had shape "
                f"{X.shape}."
            )
        if not np.all(np.isfinite(X)):
            raise NotFiniteError("sequences must hold real numbers, but hold NaN or an infinity.")
        return X

    def _winners(self, X: Floats) -> tuple[Integers, ...]:
        return tuple(term.winners(X) for term in self.terms)

    def _term_values(self, X: Floats, winners: tuple[Integers, ...]) -> Floats:
        return np.stack([term.values(X, w) for term, w in zip(self.terms, winners, strict=True)], axis=1)

    def _combined(self, values: Floats) -> Floats:
        if self.outer is None:
            total: Floats = values.sum(axis=1)
            return total
        result = np.asarray(self.outer(values), dtype=np.float64)
        if result.shape != values.shape[:1]:
            raise DimensionMismatchError(
                f"outer must map term values of shape {values.shape} to shape {values.shape[:1]}, but "
                "returned "
                f"{result.shape}."
            )
        return result

    def _sensitive(self, values: Floats) -> Bools:
        """Which terms the outer function depends on at each row of term values."""
        if self.outer is None:
            return np.ones(values.shape, dtype=bool)
        here = self._combined(values)
        sensitive = np.zeros(values.shape, dtype=bool)
        for i in range(values.shape[1]):
            step = 1e-7 * (1.0 + np.abs(values[:, i]))
            for sign in (1.0, -1.0):
                moved = values.copy()
                moved[:, i] += sign * step
                change = np.abs(self._combined(moved) - here)
                sensitive[:, i] |= change > 1e-12 * (1.0 + np.abs(here))
        return sensitive

    def __repr__(self) -> str:
        name = self.name or " and ".join(str(term) for term in self.terms[:3]) + (
            f" and {len(self.terms) - 3} more" if len(self.terms) > 3 else ""
        )
        return f"<Target: {name}; d = {self.d_token} in {self.domain}>"


def _check_cancelling(term: Term, number: int, points: list[Floats], seen: dict[Any, int]) -> None:
    """Refuse the maximum of f beside the minimum of -f: their sum is 0, and depends on no token."""
    values = np.asarray(term.function(*points), dtype=np.float64)
    shape = (term.arity, term.tuples, term.rank)
    other = seen.get((*shape, -term.sign, (0.0 - values).tobytes()))
    if other is not None:
        raise InvalidInputError(
            f"terms must not cancel, but term {other} and term {number} add up to 0; leave both out."
        )
    seen[(*shape, term.sign, (0.0 + values).tobytes())] = number


@dataclass(frozen=True, eq=False)
class _Listed:
    """A function of tokens (B, p, d) as one of p arrays (B, d)."""

    function: Callable[[Floats], Any]

    def __call__(self, *tokens: Floats) -> Any:
        return self.function(np.stack(tokens, axis=1))
