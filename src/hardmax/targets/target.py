r"""Targets, and what P2 asks of them (section 5): how many tokens, and the dimension, order and number of
comparisons.

What P2 asks is rarely known exactly, so each answer is an :class:`Interval` with the reasons for both ends.
Upper ends come from the roles of the target (:mod:`hardmax.targets.term_functions`) and from trees that run
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

from dataclasses import dataclass
from functools import cached_property
from math import ceil, comb
from typing import Any

from hardmax.bounds.large_integers import positive
from hardmax.errors import CertificateError, InvalidInputError
from hardmax.targets.comparison_trees import (
    ComparisonTree,
    role_tree,
    single_leaf_trees,
    threshold_leaves,
    threshold_tree,
)
from hardmax.targets.sampling import largest_active_set, retrieval_witness, switch_support
from hardmax.targets.term_functions import Role, TermFunction, image
from hardmax.targets.tokens import Bilinear, SquaredSum

_OUTER = "the outer function depends on every term where tuples tie"
_SWITCH = "a wall that depends on K tokens needs a comparison of K/2 of them"
_MOST_LEAVES = 1_000_000  # no tree with more of them is built
_MOST_LEAVES_IN_ALL = 2_000_000  # of all trees together: some ten seconds


@dataclass(frozen=True)
class Interval:
    r"""A whole number n with :math:`low \le n \le high`.

    Attributes
    ----------
    low, high : int
        The ends, both included.
    reasons : tuple of str
        Why each end holds; a reason begins with "at least", "at most" or "exactly".
    assuming : tuple of str
        What must be true besides, for instance that an outer function depends on each of its terms. Empty
        when the reasons stand by themselves.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.targets.triangle_center().comparisons(64)
    <Interval: 35987 to 41643>
    >>> hm.targets.pairwise([[[0.0, 1.0], [-1.0, 0.0]]]).dimension.exact
    True
    """

    low: int
    high: int
    reasons: tuple[str, ...] = ()
    assuming: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInputError(
                f"low must be at most high, but the interval was {self.low} to {self.high}."
            )

    @property
    def exact(self) -> bool:
        """Whether both ends meet and nothing is assumed."""
        return self.low == self.high and not self.assuming

    def to_dict(self) -> dict[str, Any]:
        """The interval in plain Python, for JSON."""
        return {
            "low": self.low,
            "high": self.high,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "assuming": list(self.assuming),
        }

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        """``3`` when both ends meet, ``3 to 7`` when they do not."""
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"

    def __repr__(self) -> str:
        return f"<Interval: {self}{', assuming more' if self.assuming else ''}>"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Target(TermFunction):
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

    @cached_property
    def ties(self) -> tuple[str, ...]:
        """For each role, why any number of disjoint tuples can tie for it, strictly ahead of all others;
        empty where that is not known."""
        return tuple(self._tie_reason(role) for role in self.roles)

    @cached_property
    def max_active(self) -> Interval:
        """:math:`D_0`, the largest size of an active set over all lengths, almost everywhere."""
        high, parts = self.most_active, self._parts()
        if not self.roles and self.outer is None:
            return Interval(high, high, (f"exactly {high}: {parts}",))
        low, length = largest_active_set(self, high)
        simpler = sorted({role.reason for role in self.roles if role.reason})
        seen = f"at least {low}: seen at a random sequence of {length} tokens"
        return Interval(min(low, high), high, (f"at most {high}: {parts}", *simpler, seen))

    @cached_property
    def dimension(self) -> Interval:
        r"""The dimension of comparison :math:`\beta_1`: the length of the tuples that must be compared.

        Tuples no longer than the longest role suffice; ties of disjoint tuples need them.
        """
        high = max((2 if role.term.rank > 1 else role.arity for role in self.roles), default=1)
        if high == 1:
            return Interval(1, 1, ("exactly 1: single tokens are compared",))
        why = f"tuples of {high} tokens are compared"
        if all(role.arity < high for role in self.roles):
            why = "trees of T log(T)^(k-1) single tokens find the k-th best, fewer than T^2"
        reasons = [f"at most {high}: {why}"]
        low, assuming = 1, []
        for role, why in zip(self.roles, self.ties, strict=True):
            if why and role.arity > low:
                low = role.arity
                reasons.append(f"at least {low}: {why}")
                assuming = [_OUTER] if self.outer is not None else []
        if low < high and any(role.arity > 1 for role in self.roles):
            seen = switch_support(self)
            if seen.dimension > low:
                low = min(seen.dimension, high)
                reasons.append(f"at least {low}: {seen}")
                assuming = [_SWITCH] if seen.proven < low else []
        return Interval(low, high, tuple(reasons), tuple(assuming))

    @cached_property
    def order(self) -> Interval:
        r"""The order of comparison :math:`\beta'`: as what power of T the trees must grow.

        It lies between 1 and the dimension, and is the dimension where almost all tuples must be leaves.
        """
        beta = self.dimension
        if beta.high == 1:
            return Interval(1, 1, ("exactly 1: it is at most the dimension",))
        most = f"at most {beta.high}: it is at most the dimension"
        if beta.low == beta.high and self._tied_without_shortcut(beta.high):
            why = f"of all {beta.high}-subsets only O(T^{beta.high - 1}) need not be leaves"
            return Interval(beta.high, beta.high, (most, f"at least {beta.high}: {why}"), beta.assuming)
        return Interval(1, beta.high, (most,))

    def comparisons(self, n_tokens: int) -> Interval:
        """The number of comparisons N for sequences of ``n_tokens`` tokens (Definition 2)."""
        n_tokens = self._length(n_tokens)
        if not self.roles:
            return Interval(0, 0, ("exactly 0: the positions are fixed, single leaves hold them",))
        size, beta = self.max_active, self.dimension
        if n_tokens <= size.low * beta.low:
            why = f"exactly 0: {size.low} single leaves of {beta.low} positions hold all {n_tokens}"
            return Interval(0, 0, (why,))
        leaves = self._tree_sizes(n_tokens)
        high = sum(leaves) - len(leaves)
        needed = len(leaves) + self._single_leaves()
        assuming = []
        if needed > size.low:
            assuming.append(f"active sets of {needed} tokens occur, so that as many trees are allowed")
        if beta.low < beta.high and any(role.arity > 1 for role in self.roles):
            assuming.append(f"the dimension of comparison is {beta.high}, so that such tuples are allowed")
        bounds = (self._covering(n_tokens), self._retrieving(n_tokens), self._matching(n_tokens))
        low, why = max(((0, "no comparison may be needed"), *bounds), key=lambda bound: bound[0])
        if low and self.outer is not None:
            assuming.append(_OUTER)
        if low and why.startswith("all but"):
            assuming += [a for a in beta.assuming if a not in assuming]
        if low > high and not assuming:
            raise CertificateError(
                f"{high} comparisons suffice and {low} are needed for {self!r}; please report this."
            )
        reasons = (f"at most {high}: trees that run", f"at least {low}: {why}")
        return Interval(min(low, high), high, reasons, tuple(assuming))

    def trees(self, n_tokens: int, *, single_leaves: int | None = None) -> tuple[ComparisonTree, ...]:
        """Trees of comparison that retrieve the active set of every sequence of ``n_tokens`` tokens.

        Parameters
        ----------
        n_tokens : int
            T.
        single_leaves : int, optional
            How many trees consist of a single leaf, besides one tree for each role; as many as D_0 allows
            when left out, and no tree that compares where these suffice.

        Examples
        --------
        >>> import hardmax as hm
        >>> hm.targets.triangle_center().trees(10)
        (<ComparisonTree: the leaf (0, 1, 2)>, <ComparisonTree: the leaf (3, 4, 5)>,
         <ComparisonTree: 100 leaves of 3, 99 comparisons>)
        """
        n_tokens = self._length(n_tokens)
        fixed, beta = self.fixed_positions, self.dimension
        if n_tokens > _MOST_LEAVES:
            raise InvalidInputError(
                f"n_tokens must be at most {_MOST_LEAVES:,} for trees that are built, but was {n_tokens}; "
                "comparisons(n_tokens) knows the number of comparisons without building them."
            )
        positions = [*fixed, *(t for t in range(n_tokens) if t not in fixed)]
        if single_leaves is None:
            if not self.roles:
                return single_leaf_trees(fixed, beta.low)
            if n_tokens <= self.max_active.low * beta.low:
                return single_leaf_trees(positions, beta.low)
        sizes = self._tree_sizes(n_tokens)
        most = max(sizes, default=0)
        if most > _MOST_LEAVES:
            raise InvalidInputError(
                f"n_tokens must be smaller: a tree would have {most} leaves at T = {n_tokens}; "
                "comparisons(n_tokens) knows their number without building them."
            )
        if sum(sizes) > _MOST_LEAVES_IN_ALL:
            raise InvalidInputError(
                f"n_tokens must be smaller: {len(sizes)} trees would have {sum(sizes):,} leaves at T = "
                f"{n_tokens}; comparisons(n_tokens) knows their number without building them."
            )
        least = ceil(len(fixed) / beta.high)
        if single_leaves is None:
            single_leaves = self._single_leaves()
        elif single_leaves < least:
            raise InvalidInputError(
                f"single_leaves must be {least} or more for this target, but was {single_leaves}."
            )
        held = positions[: single_leaves * beta.high]
        compared = (
            threshold_tree(role.term, n_tokens)
            if role.term.rank > 1
            else role_tree(role.term, beta.high, n_tokens, held)
            for role in self.roles
        )
        return (*single_leaf_trees(held, beta.high), *compared)

    # Sizes of trees
    # ------------------------------------------------------------------------------------------------

    def _length(self, n_tokens: int) -> int:
        return positive("n_tokens of this target", n_tokens, least=self.min_tokens)

    def _single_leaves(self) -> int:
        """Trees that D_0 allows beyond one for each role: single leaves, which hold the fixed positions."""
        least = ceil(len(self.fixed_positions) / self.dimension.high)
        return max(self.max_active.low - len(self.roles), least)

    def _tree_sizes(self, n_tokens: int) -> list[int]:
        """How many leaves the trees have that compare tuples.

        Tuples inside what the single leaves cover need not be leaves again.
        """
        beta = self.dimension.high
        covered = min(n_tokens, self._single_leaves() * beta)
        leaves = []
        for role in self.roles:
            if role.term.rank > 1:
                leaves.append(threshold_leaves(role.term.rank, n_tokens))
            elif role.arity == 1:
                leaves.append(max(1, ceil((n_tokens - covered) / beta)))
            else:
                r = min(role.arity, n_tokens)
                leaves.append(max(1, comb(n_tokens, r) - comb(covered, r)))
        return leaves

    def _parts(self) -> str:
        parts = []
        if self.roles:
            sizes = " + ".join(str(role.arity) for role in self.roles)
            parts.append(f"winning tuples of {sizes} tokens")
        if self.fixed_positions:
            parts.append(f"{len(self.fixed_positions)} fixed positions")
        return " and ".join(parts)

    # Theorems whose hypotheses are checked here
    # ------------------------------------------------------------------------------------------------

    def _tie_reason(self, role: Role) -> str:
        form = role.term.function
        if role.arity < 2 or not role.takes_any_tuple:
            return ""
        if isinstance(form, SquaredSum) and role.term.extremum == "min":
            low, high = image(form, self.domain)
            if low < 0.0 < high:
                return f"any number of disjoint {role.arity}-tuples with sums of one small length can tie"
            if self.d_token >= 2 and self._wins_apart(role):
                return f"moved across their sum, any number of disjoint {role.arity}-tuples can tie"
        if isinstance(form, Bilinear) and form.rank() >= 2 and self._wins_apart(role):
            return "near two tokens that win together, any number of disjoint pairs can tie"
        return ""

    def _wins_apart(self, role: Role) -> bool:
        """Whether a sequence is found at which the winning tuple has no token twice and other tokens lose."""
        alone = TermFunction((role.term,), None, self.d_token, self.domain)
        return largest_active_set(alone, role.arity)[0] == role.arity

    def _tied_without_shortcut(self, r: int) -> bool:
        """Whether r-tuples of a role can tie, and comparing two other tuples of the same 2r tokens cannot
        replace comparing two tied ones."""
        return any(
            why and role.arity == r and (self.d_token >= 2 or isinstance(role.term.function, Bilinear))
            for role, why in zip(self.roles, self.ties, strict=True)
        )

    def _covering(self, n_tokens: int) -> tuple[int, str]:
        """Every position can be active, so it must be in a leaf."""
        if not all(role.takes_any_tuple for role in self.roles):
            return 0, ""
        beta, trees = self.dimension.high, self.max_active.high
        return ceil(n_tokens / beta) - trees, f"every position must be in a leaf of {beta} at most"

    def _retrieving(self, n_tokens: int) -> tuple[int, str]:
        """The theorem on D-retrieval."""
        count = len(self.roles)
        plain = all(role.arity == 1 and role.term.rank == 1 and not role.split for role in self.roles)
        if not plain or self.fixed_positions or n_tokens <= count or not retrieval_witness(self):
            return 0, ""
        return count * (n_tokens - 1), f"each of {count} trees needs every position"

    def _matching(self, n_tokens: int) -> tuple[int, str]:
        """r-subsets that are not leaves contain no more than s disjoint ones."""
        size, beta = self.max_active, self.dimension
        r = beta.high
        if r < 2 or beta.low < beta.high or not self._tied_without_shortcut(r):
            return 0, ""
        # Tokens of the other roles take slots of their own where all of them were seen to be different; the
        # tied copies change no maximum, but they do change which value is the k-th best.
        apart = size.low == size.high and not self.fixed_positions
        apart = apart and all(role.term.rank == 1 for role in self.roles)
        others = size.low - r if apart else 0
        tied = (size.high * r - others) // r + 1
        if n_tokens < tied * r + others:
            return 0, ""
        spare = largest_unmatched(n_tokens, r, tied - 1)
        subsets = comb(n_tokens, r)
        why = f"all but {spare} of the {subsets} {r}-subsets must be leaves of {size.high} trees"
        return subsets - spare - size.high, why


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
