"""Does the pairwise target need one head of the first layer per term? A search over all score functions.

P2 (Proposition 1) says that a two-layer transformer of max-position heads needs h_1 >= D heads to learn

    F(X) = sum_i max_{s,t} x(s)' A_i x(t),      i = 1, ..., D,

but its count of comparisons does not show it. Here the statement is put to the test at the level of
information sets. Tokens are letters of a finite alphabet. A score function of a first-layer head is then, for
every letter as query, a *ranking* of the letters as keys, and every ranking is allowed: no continuity, no
rank, no form is assumed. For every set of T different letters and every term, the two letters of the winning
pair must come together in one token,

    q = s_h(p)   or   p = s_h(q)   or   {p, q} = {s_h(u), s_g(u)} for some token u and heads h, g,

for otherwise no score of the second layer ever sees the value of that pair (its query is CLS, which reads
nothing in the first layer). That is necessary for every
design in which the second layer finds the winning pair of each term by comparing pairs (as the design of
Proposition 1 does), with any number of heads in the second layer.

An alphabet that admits no rankings excludes h_1 heads for all inputs near it: winners and losers differ by a
margin, so they stay the same in a neighbourhood of every sequence, a set of positive measure. The search is
exhaustive and in whole numbers: rankings are partial orders that grow, an option that contradicts them is
struck out, the last option of a pair is enforced.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError

Step = tuple[int, int, int]
"""Query letter u and head h (as one number u * heads + h), key s that must win, rivals as bits."""


@dataclass(frozen=True)
class FirstLayerSearch:
    """Whether rankings exist with which ``heads`` first-layer heads see every winning pair.

    ``possible`` is True if ``rankings`` are an example, False if all possibilities were struck out, so there
    are none, and None if the limit on the number of decisions was reached first.
    """

    possible: bool | None
    rankings: NDArray[np.int64] | None  # (V, heads, V - 1): per query letter and head the others, best first
    heads: int  # h_1
    n_tokens: int  # T
    n_letters: int  # V, the size of the alphabet
    n_terms: int  # D
    n_inputs: int  # how many sets of letters were asked about
    decisions: int  # how many times an option had to be tried


def pair_values(matrices: ArrayLike, letters: ArrayLike) -> NDArray[np.float64]:
    """The value of every pair of letters for every term: max(x' A_i y, y' A_i x), an array (D, V, V).

    Examples
    --------
    >>> pair_values([[[0, 1], [0, 0]]], [[1, 0], [0, 2]])[0].tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    forms, tokens = np.asarray(matrices, dtype=np.float64), np.asarray(letters, dtype=np.float64)
    if forms.ndim != 3 or tokens.ndim != 2 or forms.shape[1:] != (tokens.shape[1],) * 2:
        raise DimensionMismatchError(
            f"matrices must have the shape (D, d, d) and letters (V, d), but were {forms.shape} and "
            f"{tokens.shape}."
        )
    values = np.einsum("vi,kij,wj->kvw", tokens, forms, tokens)
    symmetric: NDArray[np.float64] = np.maximum(values, values.swapaxes(1, 2))
    return symmetric


def search_first_layer(
    values: ArrayLike, n_tokens: int, heads: int, *, max_decisions: int = 20_000
) -> FirstLayerSearch:
    """Search for first-layer rankings that bring both ends of every winning pair together.

    Parameters
    ----------
    values : array (D, V, V)
        The value of every pair of letters for every term, symmetric (:func:`pair_values`).
    n_tokens : int
        T: every set of T different letters is an input.
    heads : int
        h_1.
    max_decisions : int
        When to give up.

    Examples
    --------
    One term, one head: every letter ranks the others by the value of the pair.

    >>> values = np.array([[[0, 3, 1], [3, 0, 2], [1, 2, 0]]])
    >>> search_first_layer(values, n_tokens=2, heads=1).possible
    True
    """
    table = _table(values)
    n_terms, n_letters = table.shape[:2]
    T, H = operator.index(n_tokens), operator.index(heads)
    if not 2 <= T <= n_letters:
        raise InvalidInputError(f"n_tokens must be between 2 and {n_letters}, the letters, but was {T}.")
    if H < 1:
        raise InvalidInputError(f"heads must be at least 1, but was {H}.")
    inputs = list(combinations(range(n_letters), T))
    pairs = {(letters, pair) for letters in inputs for pair in _winning_pairs(table, letters)}
    state = _Rankings(n_letters, H, [list(_options(pair, letters, H)) for letters, pair in sorted(pairs)])
    possible = state.solve(max_decisions)
    rankings = state.orders() if possible else None
    return FirstLayerSearch(possible, rankings, H, T, n_letters, n_terms, len(inputs), state.decisions)


def unseen_pairs(values: ArrayLike, rankings: ArrayLike, n_tokens: int) -> list[tuple[Any, Any]]:
    """Inputs and winning pairs that no token holds, by looking at every input: the check of an example.

    Examples
    --------
    >>> values = np.array([[[0, 3, 1], [3, 0, 2], [1, 2, 0]]])
    >>> unseen_pairs(values, [[[1, 2]], [[0, 2]], [[0, 1]]], n_tokens=2)
    []
    >>> unseen_pairs(values, [[[2, 1]], [[2, 0]], [[0, 1]]], n_tokens=3)
    [((0, 1, 2), (0, 1))]
    """
    table, orders = _table(values), np.asarray(rankings)
    missed = []
    for letters in combinations(range(table.shape[1]), n_tokens):
        held = [
            {u, *(next(int(s) for s in ranking if int(s) in letters) for ranking in orders[u])}
            for u in letters
        ]
        missed += [
            (letters, pair)
            for pair in _winning_pairs(table, letters)
            if not any(set(pair) <= h for h in held)
        ]
    return missed


def _table(values: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3 or table.shape[1] != table.shape[2]:
        raise DimensionMismatchError(f"values must have the shape (D, V, V), but was {table.shape}.")
    if not np.isfinite(table).all():
        raise NotFiniteError("values must be finite, but holds NaN or an infinity.")
    if not np.array_equal(table, table.swapaxes(1, 2)):
        raise InvalidInputError("values must be symmetric in the letters; try pair_values.")
    return table


def _winning_pairs(table: NDArray[np.float64], letters: tuple[int, ...]) -> set[tuple[int, int]]:
    """The best pair of every term; a letter paired with itself is one token and always seen."""
    pairs = set()
    for values in table[:, letters][:, :, letters]:
        i, j = np.unravel_index(int(values.argmax()), values.shape)
        if i != j:
            a, b = sorted((letters[i], letters[j]))
            pairs.add((a, b))
    return pairs


def _options(pair: tuple[int, int], letters: tuple[int, ...], heads: int) -> Iterator[tuple[Step, ...]]:
    """The ways in which one token comes to hold both letters of a pair."""
    everyone = sum(1 << s for s in letters)

    def step(u: int, h: int, s: int) -> Step:
        return u * heads + h, s, everyone & ~(1 << u) & ~(1 << s)

    p, q = pair
    for h in range(heads):
        yield (step(p, h, q),)
        yield (step(q, h, p),)
    for u in letters:
        if u not in pair:
            for h, g in permutations(range(heads), 2):
                yield step(u, h, p), step(u, g, q)


class _Rankings:
    """Partial orders, one per letter and head, that grow until every pair has an option."""

    def __init__(self, n_letters: int, heads: int, pairs: list[list[tuple[Step, ...]]]) -> None:
        self.n, self.heads, self.pairs = n_letters, heads, pairs
        # below[o][s], above[o][s]: the letters known to follow and to precede s in order o; both closed
        self.below = [[0] * n_letters for _ in range(n_letters * heads)]
        self.above = [[0] * n_letters for _ in range(n_letters * heads)]
        self.touching: list[list[int]] = [[] for _ in self.below]
        for number, options in enumerate(pairs):
            for order in {step[0] for option in options for step in option}:
                self.touching[order].append(number)
        self.trouble = [1] * len(pairs)  # how often a pair was left without options: ask it early
        self.decisions = 0

    def solve(self, max_decisions: int) -> bool | None:
        """Depth-first: enforce what is forced, then try the options of the most troublesome pair."""
        if not self._enforce(set(range(len(self.pairs)))):
            return False
        waiting = [(self.below, self.above, self._next_options())]
        while waiting:
            below, above, options = waiting[-1]
            if options is None:
                self.below, self.above = below, above
                return True
            if not options:
                waiting.pop()
                continue
            if self.decisions >= max_decisions:
                return None
            self.decisions += 1
            self.below, self.above = [list(order) for order in below], [list(order) for order in above]
            if self._enforce(self._take(options.pop())):
                waiting.append((self.below, self.above, self._next_options()))
        return False

    def orders(self) -> NDArray[np.int64]:
        """Total orders that extend the partial ones: a letter that precedes more stands earlier."""
        lines = []
        for number, below in enumerate(self.below):
            others = [s for s in range(self.n) if s != number // self.heads]
            lines.append(sorted(others, key=lambda s: -below[s].bit_count()))
        return np.array(lines, dtype=np.int64).reshape(self.n, self.heads, self.n - 1)

    def _alive(self, option: tuple[Step, ...]) -> bool:
        return not any(rivals & self.above[order][s] for order, s, rivals in option)

    def _done(self, option: tuple[Step, ...]) -> bool:
        return all(not rivals & ~self.below[order][s] for order, s, rivals in option)

    def _take(self, option: tuple[Step, ...]) -> set[int]:
        """Let the keys of an option win; the pairs that this may concern."""
        for order, s, rivals in option:
            below, above = self.below[order], self.above[order]
            lower, upper = rivals, above[s] | 1 << s
            for rival in range(self.n):
                if rivals >> rival & 1:
                    lower |= below[rival]
            for letter in range(self.n):
                if upper >> letter & 1:
                    below[letter] |= lower
                if lower >> letter & 1:
                    above[letter] |= upper
        return {number for order, _, _ in option for number in self.touching[order]}

    def _enforce(self, numbers: set[int]) -> bool:
        """Strike out options until nothing changes; False if some pair has none left."""
        while numbers:
            number = numbers.pop()
            alive = [option for option in self.pairs[number] if self._alive(option)]
            if not alive:
                self.trouble[number] += 1
                return False
            if len(alive) == 1 and not self._done(alive[0]):
                numbers |= self._take(alive[0])
        return True

    def _next_options(self) -> list[tuple[Step, ...]] | None:
        """The open options of the pair with the fewest per trouble it made, or None if no pair is open."""
        best: list[tuple[Step, ...]] | None = None
        least = float("inf")
        for options, trouble in zip(self.pairs, self.trouble, strict=True):
            if any(map(self._done, options)):
                continue
            alive = [option for option in options if self._alive(option)]
            if len(alive) / trouble < least:
                best, least = alive, len(alive) / trouble
        return best
