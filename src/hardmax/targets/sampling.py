r"""What random inputs show of a target: sizes of active sets, walls, permutations (P2 section 5; lower ends
only).

A size of an active set that is seen at a random input holds on an open set, so it bounds :math:`D_0` from
below. For functions that are not written as terms, active sets are found by differences
(:func:`measure_active`).

A wall, where the winner of a term changes, is found by bisection along a segment between two random inputs;
the number K of tokens on which it depends says something about the dimension of comparison. Comparing tuples
of b tokens involves 2b of them: if K > 2b, no such comparison follows the wall, so the trees must hold all
tokens that are active on either side of it, and with :math:`D_0` trees of b tokens this is impossible when
there are more than :math:`D_0 b`. Where there are not, K > 2b is a hint and no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import GrowingActiveSetError, InvalidInputError, written
from hardmax.limits import Clock, look
from hardmax.progress import watched
from hardmax.randomness import generator_of
from hardmax.targets.term_functions import TermFunction
from hardmax.targets.terms import FixedTerm, Term, count_tuples
from hardmax.targets.tokens import InputDomain, as_domain, returned

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TUPLES = 40_000  # tuples per sequence that sampling is willing to try
_GROWTH = 1.4  # twice the length may not have this many times the active tokens


def largest_active_set(target: TermFunction, enough: int, *, n: int = 256, rng: int = 0) -> tuple[int, int]:
    """The largest active set that random sequences and a short climb find, and the length at which it was
    seen.

    The search ends as soon as ``enough`` positions are active. The climb replaces one token at a time and
    keeps what does not make the active set smaller.
    """
    generator = generator_of(rng)
    arity = sum(term.arity for term in target.terms)
    largest, at = 0, 0
    for wanted in (4 * arity + 8, arity + 2, 2 * arity + 2):
        length = _length(target, wanted)
        X = target.sample(n, length, generator)
        sizes = target.active_set(X).sum(axis=1)
        for _ in range(60):
            if int(sizes.max()) > largest:
                largest, at = int(sizes.max()), length
            if largest >= enough:
                return largest, at
            moved = X.copy()
            moved[np.arange(n), generator.integers(length, size=n)] = target.sample(n, 1, generator)[:, 0]
            after = target.active_set(moved).sum(axis=1)
            kept = after >= sizes
            X[kept], sizes[kept] = moved[kept], after[kept]
    return largest, at


def is_permutation_invariant(
    target: TermFunction,
    *,
    n: int = 64,
    n_tokens: int | None = None,
    rng: int = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> bool:
    """Whether random permutations of random sequences leave F unchanged; if not, positions must be encoded.

    Parameters
    ----------
    target : Target
    n : int
        Sequences.
    n_tokens : int, optional
        Their length; at least six when left out.
    rng : int
        Seed.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Examples
    --------
    >>> import hardmax as hm
    >>> from hardmax.targets import is_permutation_invariant
    >>> is_permutation_invariant(hm.targets.triangle_center())
    True
    >>> is_permutation_invariant(hm.targets.position_sum([0, 1]))
    False
    """
    generator = generator_of(rng)
    length = max(target.min_tokens, 6) if n_tokens is None else n_tokens
    X = target.sample(n, length, generator)
    moved = generator.permuted(X, axis=1) if target.d_token == 1 else X[:, generator.permutation(length)]
    with watched(progress, Clock(time_limit, "evaluate the target")) as say:
        before = target(X)
        say("permuted sequences")
        return bool(np.allclose(before, target(moved), rtol=1e-9, atol=1e-12))


def winning_supports(
    target: TermFunction,
    n_tokens: int,
    *,
    n: int = 2000,
    rng: int = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> tuple[int, ...]:
    """How many different largest sets of positions win each term among random sequences.

    For lengths T = 4, 5, ... the slope of these numbers in a log-log plot suggests the order of comparison:
    the maximum over pairs gives C(T, 2), the triangle-center target C(T, 3).

    Parameters
    ----------
    target : Target
    n_tokens, n : int
        Length and number of the sequences.
    rng : int
        Seed.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Examples
    --------
    >>> import hardmax as hm
    >>> from hardmax.targets import winning_supports
    >>> [winning_supports(hm.targets.triangle_center(), T)[0] for T in (4, 5, 6)]
    [4, 10, 20]
    """
    counts = []
    with watched(progress, Clock(time_limit, "find who wins each term")) as say:
        say("sequences are drawn")
        winners = target.winners(target.sample(n, n_tokens, rng))
    for tuples in winners:
        sets = {frozenset(row) for row in tuples.tolist()}
        widest = max(map(len, sets))
        counts.append(sum(len(one) == widest for one in sets))
    return tuple(counts)


@dataclass(frozen=True)
class SwitchSupport:
    """What walls of a target looked like.

    Attributes
    ----------
    counts : mapping of int to int
        How many walls depended on K tokens, for each K.
    dimension : int
        Half of the largest K, rounded up: a heuristic lower end of the dimension of comparison.
    proven : int
        The lower end that follows from the walls seen, by counting the tokens that trees would have to hold.
    """

    counts: Mapping[int, int]
    dimension: int
    proven: int

    @property
    def largest(self) -> int:
        """The largest K; 0 when no wall was met."""
        return max(self.counts, default=0)

    def __str__(self) -> str:
        total = sum(self.counts.values())
        return f"{self.counts.get(self.largest, 0)} of {total} random walls depend on {self.largest} tokens"


def switch_support(
    target: TermFunction,
    *,
    n: int = 400,
    n_tokens: int | None = None,
    rng: int = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> SwitchSupport:
    """Walk along random segments to the first wall of the target, and count the tokens on which it depends.

    The largest K is a rare event (2 of 60 for the triangle-center target): take several hundred segments.

    Parameters
    ----------
    target : Target
        The target.
    n : int
        Segments.
    n_tokens : int, optional
        The length of the sequences; enough for two disjoint tuples of each term when left out.
    rng : int
        Seed.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Examples
    --------
    >>> import hardmax as hm
    >>> from hardmax.targets import switch_support
    >>> switch_support(hm.targets.retrieval(2)).largest
    2
    >>> switch_support(hm.targets.depth_separation()).dimension
    2
    """
    with watched(progress, Clock(time_limit, "walk to all walls")) as say:
        return _switch_support(target, n, n_tokens, rng, say)


def _switch_support(
    target: TermFunction, n: int, n_tokens: int | None, rng: int, say: Callable[[str], None]
) -> SwitchSupport:
    wanted = 2 * sum(term.arity for term in target.terms) + 2
    length = max(_length(target, wanted) if n_tokens is None else n_tokens, target.min_tokens)
    generator = generator_of(rng)
    start, end = (target.sample(n, length, generator) for _ in range(2))
    low, high = np.zeros(n), np.full(n, 1.0)
    first = target.winners(start)
    for step in np.linspace(0.05, 1.0, 10):  # the first of these at which some winner has changed
        open_ = high == 1.0
        changed = _differ(first, target.winners(_between(start, end, np.full(n, step))))
        low[open_ & ~changed] = step
        high[open_ & changed] = min(step, 1.0 - 1e-12)
    for halvings in range(34):
        say(f"walls are halved in {halvings} of 34 times")
        middle = (low + high) / 2
        changed = _differ(first, target.winners(_between(start, end, middle)))
        high, low = np.where(changed, middle, high), np.where(changed, low, middle)
    met = _differ(first, target.winners(_between(start, end, high)))
    before = _between(start, end, np.maximum(low - 1e-9, 0.0))
    after = _between(start, end, np.minimum(high + 1e-9, 1.0))
    return _count_walls(target, before, after, met)


def _count_walls(
    target: TermFunction, before: Floats, after: Floats, met: NDArray[np.bool_]
) -> SwitchSupport:
    left, right = target.winners(before), target.winners(after)
    moved = np.stack([_differ((a,), (b,)) for a, b in zip(left, right, strict=True)], axis=1)
    first = moved.argmax(axis=1)
    met = met & moved.any(axis=1) & _together(left, right, moved, first)  # not two at once, nor one lost
    held = (target.active_set(before) | target.active_set(after)).sum(axis=1)
    supports = np.zeros(len(before), dtype=np.int64)
    for i, term in enumerate(target.terms):
        rows = np.flatnonzero(met & (first == i))
        if len(rows) and isinstance(term, Term):
            supports[rows] = _wall_support(
                term, (before[rows] + after[rows]) / 2, left[i][rows], right[i][rows]
            )
    trees, proven = target.most_active, 1
    while (met & (supports > 2 * proven) & (held > trees * proven)).any():
        proven += 1
    sizes, counts = np.unique(supports[met], return_counts=True)
    largest = int(sizes.max()) if len(sizes) else 0
    return SwitchSupport(
        dict(zip(sizes.tolist(), counts.tolist(), strict=True)), max(1, -(-largest // 2)), proven
    )


def _together(left: tuple[Integers, ...], right: tuple[Integers, ...], moved: Any, first: Integers) -> Any:
    """Where all terms whose winner changed have the same winners as the first of them."""
    same = np.ones(len(first), dtype=bool)
    for i in range(len(left)):
        for row in np.flatnonzero(moved[:, i] & (first != i)):
            for sides in (left, right):
                same[row] &= set(sides[i][row].tolist()) == set(sides[first[row]][row].tolist())
    return same


def _wall_support(term: Term, walls: Floats, left: Integers, right: Integers) -> Integers:
    """On how many tokens the difference of two winning tuples depends, by differences in each coordinate."""
    step = 1e-5 * (1.0 + np.abs(walls).max())

    def gap(moved: Floats) -> Floats:
        return term.values(moved, left) - term.values(moved, right)

    slopes = _slopes(gap, walls, np.concatenate([left, right], axis=1).T, step)
    return np.asarray((slopes > 1e-4 * slopes.max(axis=1, keepdims=True)).sum(axis=1))


def _slopes(
    function: Callable[[Floats], Floats], sequences: Floats, positions: Iterable[Any], step: float
) -> Floats:
    """The largest central difference of each sequence over the coordinates of its token at each position."""
    n, length, width = sequences.shape
    rows = np.arange(n)
    slopes = np.zeros((n, length))
    for at in positions:
        for c in range(width):
            sides = []
            for sign in (1.0, -1.0):
                moved = sequences.copy()
                moved[rows, at, c] += sign * step
                look()
                sides.append(function(moved))
            slopes[rows, at] = np.maximum(slopes[rows, at], np.abs(sides[0] - sides[1]) / (2 * step))
    return slopes


def retrieval_witness(target: TermFunction, *, n: int = 4096, rng: int = 0) -> bool:
    r"""Whether tokens are found that make the theorem on D-retrieval apply.

    For each of the D scores two tokens :math:`y_i`, :math:`z_i`, and one poor token p: among all
    :math:`y_k` and p the score :math:`f_i` is largest at :math:`y_i`; replacing p by :math:`z_i` takes the
    maximum of :math:`f_i` away from :math:`y_i` and no other one.
    """
    roles = target.roles
    pool = target.domain.sample(rng, (n, target.d_token))
    scores = np.stack(
        [role.term.sign * np.asarray(role.term.function(pool), float) for role in roles], axis=1
    )
    order = np.argsort(-scores, axis=0, kind="stable")
    count = len(roles)
    own = np.arange(count)
    for runner in (1, 4, 16, 64):
        best, good = scores[order[0, own]], scores[order[runner, own]]  # [i, k]: score k of token i
        level = np.diag(good)
        rest = ~np.eye(count, dtype=bool)
        if (
            (np.diag(best) > level).all()
            and (good < level)[rest].all()
            and (best < level)[rest].all()
            and (scores < level).all(axis=1).any()
        ):
            return True
    return False


def _between(start: Floats, end: Floats, at: Floats) -> Floats:
    return np.asarray(start + at[:, None, None] * (end - start))


def _differ(one: tuple[Integers, ...], other: tuple[Integers, ...]) -> NDArray[np.bool_]:
    """At which sequences the winners of some term are other sets of positions."""
    differ = np.zeros(len(one[0]), dtype=bool)
    for a, b in zip(one, other, strict=True):
        differ |= (np.sort(a, axis=1) != np.sort(b, axis=1)).any(axis=1)
    return differ


def _length(target: TermFunction, wanted: int) -> int:
    """A length near ``wanted`` at which no term has more tuples than sampling is willing to try."""
    length = max(wanted, target.min_tokens)
    for term in target.terms:
        if not isinstance(term, FixedTerm):
            while length > target.min_tokens and count_tuples(term.tuples, length, term.arity) > _TUPLES:
                length -= 1
            if count_tuples(term.tuples, length, term.arity) > 100 * _TUPLES:
                raise InvalidInputError(
                    f"arity must allow sampling, but {term.arity} tokens per tuple do not."
                )
    return length


def active_by_differences(
    function: Callable[[Floats], Any], sequences: Floats, *, step: float = 1e-6
) -> NDArray[np.bool_]:
    """Which positions a function of sequences (B, T, d) depends on at each of them: bool (B, T).

    A position counts when its central difference exceeds 1e-6 of the largest one of its sequence.

    Examples
    --------
    >>> import numpy as np
    >>> active_by_differences(lambda X: X.max(axis=(1, 2)), np.array([[[0.1], [0.7], [0.3]]]))
    array([[False,  True, False]])
    """

    def checked(moved: Floats) -> Floats:
        return returned(function(moved), moved.shape[:1], "function")

    slopes = _slopes(checked, sequences, range(sequences.shape[1]), step)
    return np.asarray(slopes > 1e-6 * slopes.max(axis=1, keepdims=True))


def measure_active(
    function: Callable[[Floats], Any],
    *,
    d: int = 1,
    domain: InputDomain | str = "cube01",
    lengths: Sequence[int] = (4, 8, 16, 32, 64),
    n: int = 16,
    rng: int = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> dict[int, int]:
    """The largest active set that random sequences of each length show.

    Parameters
    ----------
    function : callable
        F, from sequences (B, T, d) to (B,), for every T.
    d : int
        The dimension of a token.
    domain : {"cube01", "cube11", "gaussian"}
        Where tokens lie.
    lengths : sequence of int
        Lengths T, ascending.
    n : int
        Sequences of each length.
    rng : int
        Seed.
    time_limit : float, optional
        Seconds after which it is given up.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being computed, in words,
        and the seconds since it began.

    Returns
    -------
    dict of int to int
        The largest size for each length: lower ends of D_0.

    Raises
    ------
    GrowingActiveSetError
        When the size still grows from the last length but one to the last.

    Examples
    --------
    >>> measure_active(lambda X: X[:, :, 0].max(axis=1) + X[:, :, 0].min(axis=1))
    {4: 2, 8: 2, 16: 2, 32: 2, 64: 2}
    >>> measure_active(lambda X: X.mean(axis=(1, 2)))
    Traceback (most recent call last):
    hardmax.errors.GrowingActiveSetError: function must depend on a bounded number of tokens, but depends on
    32 at T = 32 and on 64 at T = 64; only functions that retrieve tokens can be analysed.
    """
    place = as_domain(domain)
    generator = generator_of(rng)
    sizes = {}
    with watched(progress, Clock(time_limit, "measure sequences of all lengths")) as say:
        for length in sorted(lengths):
            say(f"sequences of {written(length)} tokens")
            active = active_by_differences(function, place.sample(generator, (n, length, d)))
            sizes[int(length)] = int(active.sum(axis=1).max())
    if len(sizes) > 1:
        (before, small), (last, large) = list(sizes.items())[-2:]
        if large > _GROWTH * small:
            raise GrowingActiveSetError(
                f"function must depend on a bounded number of tokens, but depends on {small} at T = "
                f"{before} and on {large} at T = {last}; only functions that retrieve tokens can be analysed."
            )
    return sizes
