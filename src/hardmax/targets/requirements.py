r"""What a target asks for: how many tokens, and the dimension, order and number of its comparisons (P2
section 5.3).

Upper ends come from the roles of the target (:mod:`hardmax.targets.roles`) and from trees that run
(:mod:`hardmax.targets.comparison_trees`). Lower ends come from sampled inputs, at which an active set of some
size is plain to see, and from theorems whose hypotheses are checked; docs/targets.md proves them. Three
theorems matter:

- *no tree* is needed for :math:`T \le D_0 \beta_1`: that many single leaves hold every position;
- *retrieval*: D maxima over single tokens need :math:`D (T - 1)` comparisons as soon as T > D (the paper's
  :math:`D (T - D)` is not sharp);
- *ties*: if any number of disjoint r-tuples can tie for the best value, trees of tuples shorter than r
  fail, and the r-subsets that are not leaves hold no more than s disjoint ones.
"""

from __future__ import annotations

from math import ceil, comb

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import CertificateError
from hardmax.targets.functions import Bilinear, SquaredSum
from hardmax.targets.intervals import Interval
from hardmax.targets.roles import Role, fixed_positions, spans_zero
from hardmax.targets.sampling import largest_active_set, retrieval_witness, switch_support
from hardmax.targets.target import Target

__all__ = [
    "comparisons",
    "dimension",
    "largest_unmatched",
    "max_active",
    "order",
    "threshold_leaves",
    "tie_reason",
    "tree_sizes",
]

Floats = NDArray[np.float64]

_OUTER = "the outer function depends on every term where tuples tie"
_SWITCH = "a wall that depends on K tokens needs a comparison of K/2 of them"


def max_active(target: Target) -> Interval:
    """:math:`D_0`: from the roles above, from samples below."""
    roles, fixed = target.roles, fixed_positions(target)
    high = sum(role.arity for role in roles) + len(fixed)
    reasons = [f"at most {high}: {_parts(roles, fixed)}"]
    reasons += sorted({role.reason for role in roles if role.reason})
    if not roles and target.outer is None:
        return Interval(high, high, (f"exactly {high}: {_parts(roles, fixed)}",))
    low, length = largest_active_set(target, high)
    reasons.append(f"at least {low}: seen at a random sequence of {length} tokens")
    return Interval(min(low, high), high, tuple(reasons))


def dimension(target: Target) -> Interval:
    r""":math:`\beta_1`: tuples no longer than the longest role suffice; ties of disjoint tuples need them."""
    roles = target.roles
    high = max((2 if role.term.rank > 1 else role.arity for role in roles), default=1)
    reasons = [f"at most {high}: {_longest(roles, high)}"]
    if high == 1:
        return Interval(1, 1, ("exactly 1: single tokens are compared",))
    low, assuming = 1, []
    for role, why in zip(roles, target.ties, strict=True):
        if why and role.arity > low:
            low = role.arity
            reasons.append(f"at least {low}: {why}")
            assuming = [_OUTER] if target.outer is not None else []
    if low < high and any(role.arity > 1 for role in roles):
        seen = switch_support(target)
        if seen.dimension > low:
            low = min(seen.dimension, high)
            reasons.append(f"at least {low}: {seen}")
            assuming = [_SWITCH] if seen.proven < low else []
    return Interval(low, high, tuple(reasons), tuple(assuming))


def order(target: Target) -> Interval:
    r""":math:`\beta'`: between 1 and the dimension; the dimension where almost all tuples must be leaves."""
    beta = target.dimension
    if beta.high == 1:
        return Interval(1, 1, ("exactly 1: it is at most the dimension",))
    reasons = [f"at most {beta.high}: it is at most the dimension"]
    low = 1
    if beta.low == beta.high:
        for role, why in zip(target.roles, target.ties, strict=True):
            if role.arity == beta.high and why and _no_shortcut(target, role):
                low = role.arity
                reasons.append(f"at least {low}: of all {low}-subsets only O(T^{low - 1}) need not be leaves")
                break
    return Interval(low, beta.high, tuple(reasons), beta.assuming if low > 1 else ())


def comparisons(target: Target, n_tokens: int) -> Interval:
    """N for sequences of ``n_tokens`` tokens."""
    roles, fixed = target.roles, fixed_positions(target)
    if not roles:
        return Interval(0, 0, ("exactly 0: the positions are fixed, single leaves hold them",))
    size, beta = target.max_active, target.dimension
    if n_tokens <= size.low * beta.low:
        why = f"exactly 0: {size.low} single leaves of {beta.low} positions hold all {n_tokens}"
        return Interval(0, 0, (why,))
    leaves, needed = tree_sizes(target, n_tokens)
    high = sum(leaves) - len(leaves)
    reasons = [f"at most {high}: trees that run"]
    assuming = []
    if needed > size.low:
        assuming.append(f"active sets of {needed} tokens occur, so that as many trees are allowed")
    if beta.low < beta.high and any(role.arity > 1 for role in roles):
        assuming.append(f"the dimension of comparison is {beta.high}, so that such tuples are allowed")
    low, why = 0, "no comparison may be needed"
    for bound, reason in (
        _covering(target, n_tokens, roles),
        _retrieving(target, n_tokens, roles, fixed),
        _matching(target, n_tokens, roles),
    ):
        if bound > low:
            low, why = bound, reason
    if low and target.outer is not None:
        assuming.append(_OUTER)
    if low > 0 and why.startswith("all but") and beta.assuming:
        assuming += [a for a in beta.assuming if a not in assuming]
    reasons.append(f"at least {low}: {why}")
    if low > high and not assuming:
        raise CertificateError(
            f"{high} comparisons suffice and {low} are needed for {target!r}; please report this."
        )
    return Interval(min(low, high), high, tuple(reasons), tuple(assuming))


def tree_sizes(target: Target, n_tokens: int) -> tuple[list[int], int]:
    """How many leaves the trees have that compare tuples, and how many trees there are in all.

    Trees that D_0 allows beyond one for each role are single leaves; tuples inside what they cover need not
    be leaves again.
    """
    roles, fixed = target.roles, fixed_positions(target)
    beta = target.dimension.high
    singles = max(target.max_active.low - len(roles), ceil(len(fixed) / beta))
    covered = min(n_tokens, singles * beta)
    leaves = []
    for role in roles:
        if role.term.rank > 1:
            leaves.append(threshold_leaves(role.term.rank, n_tokens))
        elif role.arity == 1:
            leaves.append(max(1, ceil((n_tokens - covered) / beta)))
        else:
            r = min(role.arity, n_tokens)
            leaves.append(max(1, comb(n_tokens, r) - comb(covered, r)))
    return leaves, len(roles) + singles


def threshold_leaves(k: int, n: int) -> int:
    """Leaves of the tree that finds the k-th best of n single tokens.

    The better half of the work is done by halves: the k-th best of A and B is the best over i of the worse
    of the i-th best of A and the (k-i)-th best of B; dually for ranks beyond the middle. For fixed k this
    grows as T log(T)^(k-1), so pairs are never worth it.

    Examples
    --------
    >>> threshold_leaves(1, 8), threshold_leaves(2, 8), threshold_leaves(8, 8)
    (8, 24, 8)
    """
    table: dict[tuple[int, int], int] = {}

    def leaves(k: int, n: int) -> int:
        k = min(k, n + 1 - k)
        if k == 1:
            return n
        if (k, n) not in table:
            left = n // 2
            right = n - left
            table[k, n] = sum(
                (leaves(i, left) if i else 0) + (leaves(k - i, right) if k - i else 0)
                for i in range(max(0, k - right), min(k, left) + 1)
            )
        return table[k, n]

    return leaves(k, n)


def largest_unmatched(n: int, r: int, s: int) -> int:
    r"""An upper bound on the number of r-subsets of n positions without s + 1 disjoint ones.

    For pairs the theorem of Erdős and Gallai, which is sharp. Otherwise Frankl's theorem
    :math:`\binom{n}{r} - \binom{n - s}{r}` from :math:`n \ge (2s + 1) r - s` on, and before that the
    average over partitions: a random partition into :math:`\lfloor n / r \rfloor` disjoint r-subsets holds
    s of the family at most.

    Examples
    --------
    >>> largest_unmatched(10, 2, 2), largest_unmatched(64, 3, 3)
    (17, 5674)
    """
    if n < r * (s + 1):
        return comb(n, r)
    if r == 2:
        return max(comb(2 * s + 1, 2), comb(s, 2) + s * (n - s))
    if n >= (2 * s + 1) * r - s:
        return comb(n, r) - comb(n - s, r)
    return s * comb(n, r) // (n // r)


# Theorems whose hypotheses are checked here
# ------------------------------------------------------------------------------------------


def tie_reason(target: Target, role: Role) -> str:
    """Why any number of disjoint tuples can tie for this role, strictly ahead of all others; empty if
    unknown."""
    form = role.term.function
    if role.arity < 2 or not (role.term.tuples in ("all", "distinct") or role.term.symmetric):
        return ""
    if isinstance(form, SquaredSum) and role.term.extremum == "min":
        if spans_zero(form, target.domain):
            return f"any number of disjoint {role.arity}-tuples with sums of one small length can tie"
        if target.d_token >= 2 and _wins_apart(target, role):
            return f"moved across their sum, any number of disjoint {role.arity}-tuples can tie"
    if isinstance(form, Bilinear) and form.rank() >= 2 and _wins_apart(target, role):
        return "near two tokens that win together, any number of disjoint pairs can tie"
    return ""


def _wins_apart(target: Target, role: Role) -> bool:
    """Whether a sequence is found at which the winning tuple has no token twice and other tokens lose."""
    alone = Target((role.term,), None, target.d_token, target.domain)
    return largest_active_set(alone, role.arity)[0] == role.arity


def _no_shortcut(target: Target, role: Role) -> bool:
    """Whether comparing two other tuples of the same 2r tokens cannot replace comparing two tied ones."""
    form = role.term.function
    return isinstance(form, Bilinear) or (isinstance(form, SquaredSum) and target.d_token >= 2)


def _covering(target: Target, n_tokens: int, roles: tuple[Role, ...]) -> tuple[int, str]:
    """Every position can be active, so it must be in a leaf."""
    if not all(role.term.tuples in ("all", "distinct") or role.term.symmetric for role in roles):
        return 0, ""
    beta, trees = target.dimension.high, target.max_active.high
    return ceil(n_tokens / beta) - trees, f"every position must be in a leaf of {beta} at most"


def _retrieving(
    target: Target, n_tokens: int, roles: tuple[Role, ...], fixed: tuple[int, ...]
) -> tuple[int, str]:
    """The theorem on D-retrieval."""
    count = len(roles)
    plain = all(role.arity == 1 and role.term.rank == 1 and not role.split for role in roles)
    if not plain or fixed or n_tokens <= count or not retrieval_witness(target):
        return 0, ""
    return count * (n_tokens - 1), f"each of {count} trees needs every position"


def _matching(target: Target, n_tokens: int, roles: tuple[Role, ...]) -> tuple[int, str]:
    """r-subsets that are not leaves contain no more than s disjoint ones."""
    size, beta = target.max_active, target.dimension
    r = beta.high
    needed = (
        why and role.arity == r and _no_shortcut(target, role)
        for role, why in zip(roles, target.ties, strict=True)
    )
    if r < 2 or beta.low < beta.high or not any(needed):
        return 0, ""
    # Tokens of the other roles take slots of their own where all of them were seen to be different; the tied
    # copies change no maximum, but they do change which value is the k-th best.
    apart = (
        size.low == size.high and not fixed_positions(target) and all(role.term.rank == 1 for role in roles)
    )
    others = size.low - r if apart else 0
    tied = (size.high * r - others) // r + 1
    if n_tokens < tied * r + others:
        return 0, ""
    spare = largest_unmatched(n_tokens, r, tied - 1)
    low = comb(n_tokens, r) - spare - size.high
    return low, f"all but {spare} of the {comb(n_tokens, r)} {r}-subsets must be leaves of {size.high} trees"


def _parts(roles: tuple[Role, ...], fixed: tuple[int, ...]) -> str:
    parts = []
    if roles:
        parts.append("winning tuples of " + " + ".join(str(role.arity) for role in roles) + " tokens")
    if fixed:
        parts.append(f"{len(fixed)} fixed positions")
    return " and ".join(parts)


def _longest(roles: tuple[Role, ...], high: int) -> str:
    if any(role.term.rank > 1 for role in roles) and all(role.arity < high for role in roles):
        return "trees of T log(T)^(k-1) single tokens find the k-th best, fewer than T^2"
    return f"tuples of {high} tokens are compared"
