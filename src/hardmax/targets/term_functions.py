r"""Functions of terms, and what they really compare.

A function of sequences of any length is an outer function of terms, :math:`F(X) = F_0(m_1(X), \dots,
m_n(X))`; a term is the best value over tuples of positions, or reads fixed positions
(:mod:`hardmax.targets.terms`). Its active set :math:`I_F(X) = \{t : \partial F / \partial x(t) \ne 0\}` (P2
equation (4)) is then the union of the winning tuples, so it is found by bookkeeping rather than by
derivatives.

Syntax overestimates what is compared. A maximum over pairs that always sits on the diagonal compares single
tokens; two terms with the same winner retrieve it once. What remains are the roles. Each rule is a theorem
about one form of term, with the reason in words:

- positive semidefinite symmetric A, maximum with repetition allowed: by Cauchy and Schwarz
  :math:`x^\top A y \le \max(x^\top A x, y^\top A y)`, so one token wins;
- the longest sum of r tokens, with repetition allowed, is r times the longest token;
- tokens that are nonnegative numbers: products with a negative factor, and the shortest sum, take the least
  token;
- numbers of both signs times a negative factor: the winners are among the largest and the least token;
- terms that differ by a positive factor, or by a transposition, have the same winners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.bounds.large_integers import positive
from hardmax.errors import InvalidInputError
from hardmax.targets.expressions import one_at
from hardmax.targets.terms import FixedTerm, Term, repeats
from hardmax.targets.tokens import (
    Bilinear,
    Coordinate,
    InputDomain,
    LinearForm,
    SquaredSum,
    TokenFunction,
    as_domain,
    as_sequences,
    check_arity,
    one_or_many,
    returned,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TermFunction:
    r"""The values, winners, active sets and roles of :math:`F_0(m_1(X), \dots, m_n(X))`; its parameters are
    those of :class:`hardmax.targets.Target`."""

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
                    "function of one token as Term(function)."
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
        self._check_functions()

    def _check_functions(self) -> None:
        """Refuse functions that cannot be evaluated or ignore a token, and terms of a sum that cancel."""
        seen: dict[Any, int] = {}
        for i, term in enumerate(self.terms):
            function = term.function
            if function is None:
                continue
            if isinstance(term, FixedTerm):
                function = _of_single_tokens(function)
            points = [self.domain.sample(j, (64, self.d_token)) for j in range(term.arity)]
            check_arity(function, term.arity, self.d_token, points, f"the function of term {i}")
            if self.outer is None and isinstance(term, Term):
                _check_cancelling(term, i, points, seen)

    # Values
    # ------------------------------------------------------------------------------------------------

    @one_or_many
    def __call__(self, sequences: ArrayLike) -> Floats:
        """F of each sequence: (B, T, d) gives (B,), one sequence (T, d) its value."""
        return self._combined(self.term_values(sequences))

    @one_or_many
    def term_values(self, sequences: ArrayLike) -> Floats:
        """The values of the terms: (B, T, d) gives (B, n)."""
        X = self._checked(sequences)
        return self._term_values(X, self._winners(X))

    @one_or_many
    def winners(self, sequences: ArrayLike) -> tuple[Integers, ...]:
        """The winning tuple of each term, (B, r_i) positions from 0; of a fixed term its positions."""
        return self._winners(self._checked(sequences))

    @one_or_many
    def active_set(self, sequences: ArrayLike) -> Bools:
        r"""The positions on which F depends at each sequence, :math:`I_F(X)`: (B, T, d) gives bool (B, T)."""
        X = self._checked(sequences)
        winners = self._winners(X)
        active = np.zeros(X.shape[:2], dtype=bool)
        counts = self._sensitive(self._term_values(X, winners))
        for i, tuples in enumerate(winners):
            rows = np.flatnonzero(counts[:, i])
            active[rows[:, None], tuples[rows]] = True
        return active

    def sample(self, n: int, n_tokens: int, rng: int | np.random.Generator = 0) -> Floats:
        """``n`` random sequences of the domain: (n, n_tokens, d)."""
        shape = positive("n", n, least=0), positive("n_tokens", n_tokens), self.d_token
        return self.domain.sample(rng, shape)

    @property
    def min_tokens(self) -> int:
        """The shortest sequence on which every term is defined."""
        return max(term.min_tokens for term in self.terms)

    def _checked(self, sequences: ArrayLike) -> Floats:
        return as_sequences(sequences, self.d_token)

    def _winners(self, X: Floats) -> tuple[Integers, ...]:
        return tuple(term.winners(X) for term in self.terms)

    def _term_values(self, X: Floats, winners: tuple[Integers, ...]) -> Floats:
        return np.stack([term.values(X, w) for term, w in zip(self.terms, winners, strict=True)], axis=1)

    def _combined(self, values: Floats) -> Floats:
        result = values.sum(axis=1) if self.outer is None else self.outer(values)
        return returned(result, values.shape[:1], f"outer, on term values of shape {values.shape},", nan=True)

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
        return f"<{type(self).__name__}: {name}; d = {self.d_token} in {self.domain}>"

    # What it retrieves
    # ------------------------------------------------------------------------------------------------

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        """What it really compares: its terms after degenerate and duplicate ones have been recognised."""
        found: list[Role] = []
        for i, term in enumerate(self.terms):
            if isinstance(term, Term):
                for role in _simplified(term, i, self.domain, self.d_token):
                    if not any(_same_winners(role.term, other.term, self.d_token) for other in found):
                        found.append(role)
        return tuple(found)

    @cached_property
    def fixed_positions(self) -> tuple[int, ...]:
        """All positions that fixed terms read, ascending."""
        found = {p for term in self.terms if isinstance(term, FixedTerm) for p in term.positions}
        return tuple(sorted(found))

    @property
    def most_active(self) -> int:
        """No active set is larger: the tokens of all roles, and the fixed positions."""
        return sum(role.arity for role in self.roles) + len(self.fixed_positions)


def _of_single_tokens(function: Callable[[Floats], Any]) -> TokenFunction:
    """A function of tokens (B, p, d) as one of p arrays (B, d)."""
    return lambda *tokens: function(np.stack(tokens, axis=1))


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


# Roles
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Role:
    """One thing that a target retrieves: a tuple of ``term.arity`` tokens that wins ``term``.

    Attributes
    ----------
    term : Term
        Compares tuples; the term of the target itself, or a simpler one with the same winners.
    source : int
        The number of the target's term that it came from.
    reason : str
        Why it is simpler than that term; empty when it is not.
    split : bool
        Whether it is one of several that together replace a term.
    """

    term: Term
    source: int
    reason: str = ""
    split: bool = False

    @property
    def arity(self) -> int:
        """How many tokens it retrieves."""
        return self.term.arity

    @property
    def takes_any_tuple(self) -> bool:
        """Whether every set of positions of this size can be its winner, as far as their order decides."""
        return self.term.tuples in ("all", "distinct") or self.term.symmetric


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A function of r tokens with the same token put in r times."""

    function: TokenFunction
    arity: int

    def __call__(self, token: Floats) -> Floats:
        """The value where one token stands in every place."""
        return np.asarray(self.function(*([token] * self.arity)))


def image(form: Bilinear | SquaredSum, domain: InputDomain) -> tuple[float, float]:
    """The ends of the interval to which the form maps each coordinate of its tokens."""
    low, high = sorted((form.scale * domain.low + form.offset, form.scale * domain.high + form.offset))
    return low, high


def _simplified(term: Term, source: int, domain: InputDomain, d_token: int) -> list[Role]:
    form = term.function
    if term.arity == 1 or not repeats(term.tuples) or not isinstance(form, (Bilinear, SquaredSum)):
        return [Role(term, source)]

    def diagonal(reason: str) -> list[Role]:
        return [Role(Term(Diagonal(form, term.arity), 1, term.extremum), source, reason)]

    if isinstance(form, SquaredSum):
        if term.extremum == "max":
            return diagonal("the longest sum is that of the longest token with itself")
        if d_token == 1 and image(form, domain)[0] >= 0.0:
            return diagonal("the shortest sum of nonnegative numbers is that of the least with itself")
        return [Role(term, source)]
    kind = form.definiteness()
    if kind == ("positive" if term.extremum == "max" else "negative"):
        return diagonal("the form is semidefinite, so one token with itself wins")
    if d_token == 1:
        if image(form, domain)[0] >= 0.0:
            return diagonal("the best product of nonnegative numbers is that of the least with itself")
        reason = "the best product of numbers of both signs is that of the largest and the least"
        return [
            Role(Term(Coordinate(0), 1, extremum), source, reason, split=True) for extremum in ("max", "min")
        ]
    return [Role(term, source)]


def _same_winners(one: Term, other: Term, d_token: int) -> bool:
    """Whether two terms are known to have the same winning positions at every input."""
    if (one.arity, one.rank) != (other.arity, other.rank):
        return False
    if one.arity > 1 and one.tuples != other.tuples:
        return False
    first, second = one.function, other.function
    if isinstance(first, Diagonal) and isinstance(second, Diagonal):
        first, second = first.function, second.function
    if isinstance(first, Bilinear) and isinstance(second, Bilinear):
        if (first.scale, first.offset) != (second.scale, second.offset):
            return False
        a, b = one.sign * first.matrix, other.sign * second.matrix
        swaps = one.tuples in ("all", "distinct")
        return _proportional(a, b) or (swaps and _proportional(a, b.T))
    weights = [_weights(f, d_token) for f in (first, second)]
    if weights[0] is not None and weights[1] is not None:
        return _proportional(one.sign * weights[0], other.sign * weights[1])
    return first is second and one.sign == other.sign


def _weights(function: TokenFunction, d_token: int) -> Floats | None:
    if isinstance(function, Coordinate):
        return one_at(function.index, d_token)
    return np.array(function.weights) if isinstance(function, LinearForm) else None


def _proportional(a: Floats, b: Floats) -> bool:
    """Whether b is a positive multiple of a, up to rounding."""
    if a.shape != b.shape or not a.any() or not b.any():
        return False
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # nothing overflows
    return bool(np.allclose(a / np.linalg.norm(a), b / np.linalg.norm(b), rtol=0.0, atol=1e-13))
