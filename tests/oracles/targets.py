"""Targets by plain loops, and all small trees of comparison on a handful of token types."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np

OVER = {
    "all": lambda T, r: product(range(T), repeat=r),
    "distinct": lambda T, r: permutations(range(T), r),
    "unordered": lambda T, r: (I for I in product(range(T), repeat=r) if list(I) == sorted(I)),
    "subsets": lambda T, r: combinations(range(T), r),
}


def best_tuple(function, sequence, arity, extremum="max", kind="all"):
    """The first best tuple of one sequence and its value, one call of the function per tuple."""
    sign = 1 if extremum == "max" else -1
    scored = [(sign * float(function(*sequence[list(I)])), I) for I in OVER[kind](len(sequence), arity)]
    value = max(score for score, _ in scored)
    return sign * value, next(I for score, I in scored if score == value)


def single_token_trees(n_leaves, n_positions, sequences, n_types):
    """What every tree of single positions with ``n_leaves`` (2 or 3) leaves returns on sequences of types.

    An inner node prefers types in the order of a permutation. Rows are trees without repetition of outcomes.
    """
    ranks = np.array(list(permutations(range(n_types))))
    rows = np.arange(len(sequences))

    def compare(left, right, rank):
        better = rank[sequences[rows, left]] > rank[sequences[rows, right]]
        return np.where(better, left, right)

    outcomes = set()
    for leaves in product(range(n_positions), repeat=n_leaves):
        if leaves[0] >= leaves[1]:  # a node may be turned over, and equal leaves are one
            continue
        start = [np.full(len(sequences), leaf) for leaf in leaves]
        for inner in ranks:
            below = compare(start[0], start[1], inner).astype(np.int8)
            if n_leaves == 2:
                outcomes.add(below.tobytes())
                continue
            left, right = ranks[:, sequences[rows, below]], ranks[:, sequences[rows, start[2]]]
            tops = np.where(left > right, below, np.int8(leaves[2]))
            outcomes.update(row.tobytes() for row in np.unique(tops, axis=0))
    return np.array([np.frombuffer(row, dtype=np.int8) for row in outcomes])


def largest_family_without_matching(n, r, s):
    """The largest family of r-subsets of n points without s + 1 disjoint ones, by branch and bound."""
    subsets = [frozenset(I) for I in combinations(range(n), r)]

    def matching(family):
        if not family:
            return 0
        first, rest = family[0], family[1:]
        return max(matching(rest), 1 + matching([one for one in rest if not one & first]))

    best = 0

    def grow(family, at):
        nonlocal best
        best = max(best, len(family))
        if len(family) + len(subsets) - at <= best or at == len(subsets):
            return
        if matching([*family, subsets[at]]) <= s:
            grow([*family, subsets[at]], at + 1)
        grow(family, at + 1)

    grow([], 0)
    return best
