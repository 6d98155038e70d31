r"""What a target really compares: its terms after degenerate ones have been recognised.

Syntax overestimates. A maximum over pairs that always sits on the diagonal compares single tokens; two
terms with the same winner retrieve it once. Each rule here is a theorem about one form of term, with the
reason in words:

- positive semidefinite symmetric A, maximum with repetition allowed: by Cauchy and Schwarz
  :math:`x^\top A y \le \max(x^\top A x, y^\top A y)`, so one token wins;
- the longest sum of r tokens, with repetition allowed, is r times the longest token;
- tokens that are nonnegative numbers: products with a negative factor, and the shortest sum, take the least
  token;
- numbers of both signs times a negative factor: the winners are among the largest and the least token;
- terms that differ by a positive factor, or by a transposition, have the same winners.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.targets.functions import Bilinear, Coordinate, LinearForm, SquaredSum, TokenFunction
from hardmax.targets.target import Target
from hardmax.targets.terms import FixedTerm, Term
from hardmax.targets.token_domains import InputDomain
from hardmax.targets.tuples import repeats

__all__ = ["Role", "fixed_positions", "roles_of", "spans_zero"]

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A function of r tokens with the same token put in r times."""

    function: TokenFunction
    arity: int

    def __call__(self, token: Floats) -> Floats:
        value: Floats = self.function(*([token] * self.arity))
        return value


def fixed_positions(target: Target) -> tuple[int, ...]:
    """All positions that fixed terms read, ascending."""
    found = {p for term in target.terms if isinstance(term, FixedTerm) for p in term.positions}
    return tuple(sorted(found))


def roles_of(target: Target) -> tuple[Role, ...]:
    """The roles of a target, each once."""
    found: list[Role] = []
    for i, term in enumerate(target.terms):
        if isinstance(term, Term):
            for role in _simplified(term, i, target.domain, target.d_token):
                if not any(_same_winners(role.term, other.term, target.d_token) for other in found):
                    found.append(role)
    return tuple(found)


def spans_zero(form: Bilinear | SquaredSum, domain: InputDomain) -> bool:
    """Whether zero lies inside the cube to which the form maps its tokens."""
    if domain.kind == "gaussian":
        return form.scale != 0.0
    ends = sorted((form.scale * domain.low + form.offset, form.scale * domain.high + form.offset))
    return ends[0] < 0.0 < ends[1]


def _nonnegative(form: Bilinear | SquaredSum, domain: InputDomain) -> bool:
    if domain.kind == "gaussian":
        return False
    return min(form.scale * domain.low, form.scale * domain.high) + form.offset >= 0.0


def _simplified(term: Term, source: int, domain: InputDomain, d_token: int) -> list[Role]:
    form = term.function
    if term.arity == 1 or not repeats(term.tuples) or not isinstance(form, (Bilinear, SquaredSum)):
        return [Role(term, source)]

    def diagonal(reason: str) -> list[Role]:
        return [Role(Term(Diagonal(form, term.arity), 1, term.extremum), source, reason)]

    if isinstance(form, SquaredSum):
        if term.extremum == "max":
            return diagonal("the longest sum is that of the longest token with itself")
        if d_token == 1 and _nonnegative(form, domain):
            return diagonal("the shortest sum of nonnegative numbers is that of the least with itself")
        return [Role(term, source)]
    kind = form.definiteness()
    if kind == ("positive" if term.extremum == "max" else "negative"):
        return diagonal("the form is semidefinite, so one token with itself wins")
    if d_token == 1:
        if _nonnegative(form, domain):
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
        row: Floats = np.eye(d_token)[function.index]
        return row
    return np.array(function.weights) if isinstance(function, LinearForm) else None


def _proportional(a: Floats, b: Floats) -> bool:
    """Whether b is a positive multiple of a, up to rounding."""
    if a.shape != b.shape or not a.any() or not b.any():
        return False
    return bool(np.allclose(a / np.linalg.norm(a), b / np.linalg.norm(b), rtol=0.0, atol=1e-13))
