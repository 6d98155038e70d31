"""Terms of a target: the best tuple of positions, or fixed positions (P2 sections 5 and 6).

A :class:`Term` is the maximum or minimum over tuples of a function of their tokens, or its k-th best value
when tuples are single positions; the winning tuple is where its information comes from. A
:class:`FixedTerm` reads positions that do not depend on the input. There are four kinds of tuples of r
positions out of T:

========== =============================== ==================
kind       tuples                          how many
========== =============================== ==================
all        any positions, in any order     T^r
distinct   no position twice               T! / (T - r)!
unordered  t_1 <= t_2 <= ... <= t_r        C(T + r - 1, r)
subsets    t_1 < t_2 < ... < t_r           C(T, r)
========== =============================== ==================

Ties go to the lexicographically first tuple; for functions whose tokens all play the same part the tuple is
given in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, islice, permutations, product
from math import comb, perm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.bounds.large_integers import positive, whole_numbers
from hardmax.errors import InvalidInputError
from hardmax.limits import look
from hardmax.targets.tokens import Bilinear, SquaredSum, TokenFunction, returned

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 20  # numbers that a block of tuples may hold
KINDS: Mapping[str, tuple[Callable[[int, int], int], Callable[[range, int], Iterator[tuple[int, ...]]]]] = {
    "all": (pow, lambda positions, arity: product(positions, repeat=arity)),
    "distinct": (perm, permutations),
    "unordered": (lambda n, arity: comb(n + arity - 1, arity), combinations_with_replacement),
    "subsets": (comb, combinations),
}
"""How many tuples of each kind there are, and what goes through them in lexicographic order."""


def repeats(kind: str) -> bool:
    """Whether a tuple may hold a position twice."""
    return kind in ("all", "unordered")


def count_tuples(kind: str, n_tokens: int, arity: int) -> int:
    """How many tuples there are."""
    return int(KINDS[kind][0](n_tokens, arity))


def blocks_of_tuples(kind: str, n_tokens: int, arity: int, size: int) -> Iterator[Integers]:
    """The tuples in lexicographic order, ``size`` rows at a time."""
    walk = KINDS[kind][1](range(n_tokens), arity)
    while block := list(islice(walk, size)):
        yield np.array(block, dtype=np.int64).reshape(len(block), arity)


@dataclass(frozen=True, eq=False)
class Term:
    r"""The best value of a function over tuples of tokens: :math:`\max_{(t_1, \dots, t_r)} f(x(t_1), \dots,
    x(t_r))`.

    Parameters
    ----------
    function : callable
        Takes r arrays of tokens (..., d), returns an array (...). It is called on blocks of tuples.
    arity : int
        r, the number of tokens.
    extremum : {"max", "min"}
        Which values are good.
    tuples : {"all", "distinct", "unordered", "subsets"}
        Over which tuples: any, without repetition, ascending with repetition, strictly ascending.
    rank : int
        1 for the best value, k for the k-th best; more than 1 only for single tokens.

    Examples
    --------
    >>> import numpy as np
    >>> widest = Term(lambda x, y: ((x - y) ** 2).sum(axis=-1), arity=2, tuples="subsets")
    >>> widest.winners(np.array([[[0.0], [5.0], [2.0], [-1.0]]]))
    array([[1, 3]])
    """

    function: TokenFunction
    arity: int = 1
    extremum: str = "max"
    tuples: str = "all"
    rank: int = 1

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInputError(f"function must be callable, but was {self.function!r}.")
        if self.extremum not in ("max", "min"):
            raise InvalidInputError(f"extremum must be 'max' or 'min', but was {self.extremum!r}.")
        if self.tuples not in KINDS:
            raise InvalidInputError(
                f"tuples must be one of {', '.join(map(repr, KINDS))}, but was {self.tuples!r}."
            )
        object.__setattr__(self, "arity", positive("arity", self.arity))
        object.__setattr__(self, "rank", positive("rank", self.rank))
        if self.rank > 1 and self.arity > 1:
            raise InvalidInputError(f"rank must be 1 for tuples of {self.arity} tokens, but was {self.rank}.")

    @property
    def sign(self) -> float:
        """1 for a maximum, -1 for a minimum: the sign that makes good values large."""
        return 1.0 if self.extremum == "max" else -1.0

    @property
    def min_tokens(self) -> int:
        """The shortest sequence that has such a tuple."""
        if self.rank > 1:
            return self.rank
        return 1 if repeats(self.tuples) else self.arity

    @property
    def symmetric(self) -> bool:
        """Whether all tokens are known to play the same part."""
        return self.arity == 1 or bool(getattr(self.function, "symmetric", False))

    def winners(self, sequences: Floats) -> Integers:
        """The winning tuple of each sequence: (B, T, d) gives (B, r)."""
        length = sequences.shape[1]
        if length < self.min_tokens:
            raise InvalidInputError(
                f"sequences must have at least {self.min_tokens} tokens for this term, but had {length}."
            )
        if self.arity == 1:
            return self._single(sequences)
        if isinstance(self.function, Bilinear):
            return self._pairs(sequences, self.function)
        if isinstance(self.function, SquaredSum) and self.arity == 3 and self.extremum == "min":
            return self._triples(sequences, self.function)
        return self._blockwise(sequences)

    def values(self, sequences: Floats, winners: Integers) -> Floats:
        """The value of each sequence at its winning tuple."""
        rows = np.arange(len(sequences))
        return self._evaluate(*(sequences[rows, winners[:, j]] for j in range(self.arity)))

    # How the best tuple is found

    @property
    def _tried(self) -> str:
        """The kind of tuples that are tried: one of several orders with the same value."""
        ascending = {"all": "unordered", "distinct": "subsets"} if self.symmetric else {}
        return ascending.get(self.tuples, self.tuples)

    def _evaluate(self, *tokens: Floats) -> Floats:
        return returned(self.function(*tokens), tokens[0].shape[:-1], "function")

    def _single(self, sequences: Floats) -> Integers:
        scores = -self.sign * self._evaluate(sequences)
        if self.rank == 1:
            return np.asarray(scores.argmin(axis=1)[:, None])
        order = np.argsort(scores, axis=1, kind="stable")
        return order[:, self.rank - 1, None].astype(np.int64)

    def _pairs(self, sequences: Floats, form: Bilinear) -> Integers:
        n, length, _ = sequences.shape
        out = np.empty((n, 2), dtype=np.int64)
        allowed = np.ones((length, length), dtype=bool)
        if form.symmetric or self.tuples in ("unordered", "subsets"):
            allowed = np.triu(allowed)  # one of two equal tuples, and rounding cannot choose between them
        if not repeats(self.tuples):
            np.fill_diagonal(allowed, False)
        masked = not allowed.all()
        step = max(1, _BLOCK // length**2)
        for start in range(0, n, step):
            look()
            table = form.table(sequences[start : start + step], self.sign)
            if masked:
                np.copyto(table, -np.inf, where=~allowed)
            best = table.reshape(len(table), -1).argmax(axis=1)
            out[start : start + step, 0], out[start : start + step, 1] = np.divmod(best, length)
        return out

    def _triples(self, sequences: Floats, form: SquaredSum) -> Integers:
        from hardmax.targets.tuple_kernels import SEQUENCES, shortest_triples

        n, _, width = sequences.shape
        out = np.zeros((n, 3), dtype=np.int64)
        for start in range(0, n, SEQUENCES):
            look()
            block = form.scale * sequences[start : start + SEQUENCES] + form.offset
            room = np.empty((width + 3, len(block)))
            coordinates = np.ascontiguousarray(block.transpose(2, 1, 0))
            shortest_triples(coordinates, not repeats(self.tuples), room, out[start : start + SEQUENCES])
        return out

    def _blockwise(self, sequences: Floats) -> Integers:
        n, length, width = sequences.shape
        kind = self._tried
        batch = max(1, min(n, _BLOCK // (width * min(count_tuples(kind, length, self.arity), 1 << 14))))
        size = max(1, _BLOCK // (width * batch))
        out = np.full((n, self.arity), -1, dtype=np.int64)
        best = np.full(n, -np.inf)
        for block in blocks_of_tuples(kind, length, self.arity, size):
            for start in range(0, n, batch):
                look()
                part = sequences[start : start + batch]
                scores = self.sign * self._evaluate(*(part[:, block[:, j]] for j in range(self.arity)))
                at = scores.argmax(axis=1)
                value = scores[np.arange(len(part)), at]
                best_here, out_here = best[start : start + batch], out[start : start + batch]
                better = (value > best_here) | (out_here[:, 0] < 0)
                best_here[better], out_here[better] = value[better], block[at[better]]
        return out

    def best_within(self, tokens: Floats) -> Floats:
        """The best value that tuples from a short list of tokens reach, as a score: large is good.

        (B, m, d) gives (B,); minus infinity where the list is too short. This is the function at the inner
        nodes of a comparison tree.
        """
        n, length, _ = tokens.shape
        best = np.full(n, -np.inf)
        if length >= self.min_tokens and self.rank == 1:
            for block in blocks_of_tuples(self._tried, length, self.arity, 4096):
                look()
                scores = self.sign * self._evaluate(*(tokens[:, block[:, j]] for j in range(self.arity)))
                best = np.maximum(best, scores.max(axis=1))
        return best

    def __str__(self) -> str:
        which = "" if self.rank == 1 else f"{self.rank}-th "
        over = "tokens" if self.arity == 1 else f"{self.tuples} tuples of {self.arity} tokens"
        return f"{which}{self.extremum} over {over}"


@dataclass(frozen=True, eq=False)
class FixedTerm:
    """A function of the tokens at fixed positions, by default the sum of all their coordinates.

    Parameters
    ----------
    positions : tuple of int
        Counted from 0, each once.
    function : callable, optional
        Takes the tokens (B, p, d) at the positions, returns (B,).

    Examples
    --------
    >>> import numpy as np
    >>> FixedTerm((0, 2)).values(np.array([[[1.0], [10.0], [2.0]]]), np.array([[0, 2]]))
    array([3.])
    """

    positions: tuple[int, ...]
    function: Callable[[Floats], Any] | None = None

    def __post_init__(self) -> None:
        positions = whole_numbers("positions", self.positions, least=0)
        if not positions:
            raise InvalidInputError("positions must name at least one position, but was empty.")
        if len(set(positions)) != len(positions):
            raise InvalidInputError(f"positions must name each position once, but were {positions}.")
        object.__setattr__(self, "positions", positions)

    @property
    def arity(self) -> int:
        """How many positions."""
        return len(self.positions)

    @property
    def min_tokens(self) -> int:
        """The shortest sequence that has these positions."""
        return max(self.positions) + 1

    def winners(self, sequences: Floats) -> Integers:
        """The positions, once for each sequence."""
        length = sequences.shape[1]
        if length < self.min_tokens:
            raise InvalidInputError(
                f"position {max(self.positions)} is unknown in a sequence of {length} tokens; positions "
                "count from 0."
            )
        return np.tile(np.array(self.positions, dtype=np.int64), (len(sequences), 1))

    def values(self, sequences: Floats, winners: Integers) -> Floats:
        """The value of each sequence."""
        tokens = sequences[:, winners[0]] if len(winners) else sequences[:, list(self.positions)]
        value = tokens.sum(axis=(1, 2)) if self.function is None else self.function(tokens)
        return returned(value, tokens.shape[:1], "function of fixed positions", nan=True)

    def __str__(self) -> str:
        return f"positions {', '.join(map(str, self.positions))}"
