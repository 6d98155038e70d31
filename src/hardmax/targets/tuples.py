"""Over which tuples of positions a maximum runs, and how they are walked through in blocks.

Four kinds, for tuples of r positions out of T:

========== =============================== ==================
kind       tuples                          how many
========== =============================== ==================
all        any positions, in any order     T^r
distinct   no position twice               T! / (T - r)!
unordered  t_1 <= t_2 <= ... <= t_r        C(T + r - 1, r)
subsets    t_1 < t_2 < ... < t_r           C(T, r)
========== =============================== ==================
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, islice, permutations, product
from math import comb, perm

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError

__all__ = ["KINDS", "blocks_of_tuples", "count_tuples", "repeats", "tuples_within"]

KINDS = ("all", "distinct", "unordered", "subsets")


def repeats(kind: str) -> bool:
    """Whether a tuple may hold a position twice."""
    return kind in ("all", "unordered")


def count_tuples(kind: str, n_tokens: int, arity: int) -> int:
    """How many tuples there are."""
    if kind == "all":
        return int(n_tokens**arity)
    if kind == "distinct":
        return perm(n_tokens, arity)
    return comb(n_tokens + arity - 1, arity) if kind == "unordered" else comb(n_tokens, arity)


def tuples_within(kind: str, n_tokens: int, arity: int) -> Iterator[tuple[int, ...]]:
    """The tuples in lexicographic order."""
    if kind not in KINDS:
        raise InvalidInputError(f"tuples must be one of {', '.join(map(repr, KINDS))}, but was {kind!r}.")
    positions = range(n_tokens)
    if kind == "all":
        return product(positions, repeat=arity)
    if kind == "distinct":
        return permutations(positions, arity)
    if kind == "unordered":
        return combinations_with_replacement(positions, arity)
    return combinations(positions, arity)


def blocks_of_tuples(kind: str, n_tokens: int, arity: int, size: int) -> Iterator[NDArray[np.int64]]:
    """The tuples in lexicographic order, ``size`` rows at a time."""
    walk = tuples_within(kind, n_tokens, arity)
    while block := list(islice(walk, size)):
        yield np.array(block, dtype=np.int64).reshape(len(block), arity)
