"""Trees of comparison: they retrieve what they must, and no smaller ones exist where that is claimed."""

from __future__ import annotations

from itertools import permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.targets import largest_family_without_matching, single_token_trees
from test_targets import ALL

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.targets.comparison_trees import ComparisonTree, retrieve, threshold_leaves
from hardmax.targets.target import largest_unmatched


def first(tokens):
    return tokens[:, 0, 0]


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("T", [3, 5, 8, 11])
def test_trees_retrieve_the_active_set(name, T):
    target = ALL[name]
    trees = target.trees(T)
    X = target.sample(150, T, T)
    assert (retrieve(trees, X) >= target.active_set(X)).all()
    found = target.comparisons(T)
    assert sum(tree.n_comparisons for tree in trees) == found.high
    assert max(tree.dimension for tree in trees) <= target.dimension.high
    if not found.assuming:
        assert len(trees) <= target.max_active.high


def test_figure_2():
    target = hm.targets.parse("max(t) x[t] + min(t) x[t]")
    X = [[[0.1], [0.3], [0.4], [0.2]]]
    trees = target.trees(4)
    assert [tree(X).tolist() for tree in trees] == [[[2]], [[0]]]
    assert sum(tree.n_comparisons for tree in trees) == 6
    for tree, middle in zip(trees, ([1, 2], [0, 3]), strict=True):  # the nodes of the figure, one level up
        halves = [ComparisonTree(tree.leaves[i : i + 2], tree.functions) for i in (0, 2)]
        assert [int(half(X)[0, 0]) for half in halves] == middle


@pytest.mark.parametrize(("T", "comparisons"), [(7, 14), (10, 99), (12, 199)])
def test_the_lower_bound_of_appendix_d_is_undercut(T, comparisons):
    """Two single leaves and one tree: fewer than C(T, 3) - 3 comparisons, and nothing is missed."""
    target = hm.targets.triangle_center()
    trees = target.trees(T, single_leaves=2)
    assert sum(tree.n_comparisons for tree in trees) == comparisons == comb(T, 3) - 21 < comb(T, 3) - 3
    X = target.sample(2000, T, 1)
    assert (retrieve(trees, X) >= target.active_set(X)).all()


def test_one_tree_fewer_misses_something():
    """The check can fail: a tree without some of its leaves is caught."""
    target = hm.targets.triangle_center()
    *singles, tree = target.trees(10, single_leaves=2)
    smaller = ComparisonTree(tree.leaves[1:], tree.functions)
    X = target.sample(4000, 10, 1)
    assert not (retrieve([*singles, smaller], X) >= target.active_set(X)).all()


@pytest.mark.parametrize(("T", "D", "high"), [(8, 2, 42), (10, 2, 76)])
def test_unordered_pairs_suffice(T, D, high):
    target = hm.targets.pairwise(np.random.default_rng(5).standard_normal((D, 3, 3)))
    trees = target.trees(T, single_leaves=D)
    assert sum(tree.n_comparisons for tree in trees) == high == D * (comb(T, 2) - comb(2 * D, 2) - 1)
    X = target.sample(2000, T)
    assert (retrieve(trees, X) >= target.active_set(X)).all()


def test_single_leaves_hold_short_sequences():
    for name, T in (("triangle", 9), ("pairs", 12), ("depth", 4), ("retrieval", 3)):
        trees = ALL[name].trees(T)
        assert all(tree.n_comparisons == 0 for tree in trees)
        assert {t for tree in trees for leaf in tree.leaves for t in leaf} == set(range(T))


def test_no_small_trees_retrieve_two_maxima_of_three_tokens():
    """Exhaustively: two trees of single positions need four comparisons at D = 2, T = 3.

    Five types of tokens: z1 and y1 are best and second for the first score, z2 and y2 for the second, and p
    for none.
    """
    scores = np.array([[4, 0], [3, 1], [0, 4], [1, 3], [2, 2]])
    sequences = np.array(list(permutations(range(5), 3)))
    winners = np.stack([scores[sequences, i].argmax(axis=1) for i in (0, 1)], axis=1)
    both = winners[:, 0] != winners[:, 1]
    constant = [np.full((1, len(sequences)), t, dtype=np.int8) for t in range(3)]
    trees = {1: np.concatenate(constant)}
    for n_leaves in (2, 3):
        trees[n_leaves] = single_token_trees(n_leaves, 3, sequences, 5)
    useful = {  # both trees must return winners wherever there are two
        n: rows[((rows == winners[:, 0]) | (rows == winners[:, 1]))[:, both].all(axis=1)]
        for n, rows in trees.items()
    }

    def retrieves(a, b):
        return any(
            (
                ((one == winners[:, 0]) | (b == winners[:, 0]))
                & ((one == winners[:, 1]) | (b == winners[:, 1]))
            )
            .all(axis=1)
            .any()
            for one in a
        )

    assert len(useful[1]) == 0  # so a tree of four leaves beside a single leaf fails as well
    assert not any(
        retrieves(useful[a], useful[b]) for a, b in ((2, 2), (2, 3)) if len(useful[a]) and len(useful[b])
    )
    assert retrieves(useful[3], useful[3])
    assert hm.targets.retrieval(2).comparisons(3).low == 4


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_a_tree_of_single_tokens_finds_the_kth_best(k, T, seed):
    if k > T:
        return
    target = hm.targets.kth_largest(k)
    (tree,) = target.trees(T) if k > 1 or T > 1 else (ComparisonTree([(0,)], first),)
    X = np.random.default_rng(seed).permuted(np.arange(T, dtype=float).reshape(1, T, 1).repeat(20, 0), axis=1)
    assert np.array_equal(tree(X), target.winners(X)[0])
    assert tree.n_leaves == (threshold_leaves(k, T) if k > 1 else T)
    assert threshold_leaves(k, T) == threshold_leaves(T + 1 - k, T)


def test_a_long_sequence_is_no_deep_recursion():
    (tree,) = hm.targets.kth_largest(2).trees(4000)
    X = np.random.default_rng(0).permuted(np.arange(4000.0).reshape(1, 4000, 1), axis=1)
    assert X[0, int(tree(X)[0, 0]), 0] == 3998.0


def test_thresholds_grow_more_slowly_than_squares():
    for k in (2, 3, 4):
        assert threshold_leaves(k, 4096) < 4096**2 / 8
    assert threshold_leaves(2, 64) == 64 * 6


@pytest.mark.parametrize(("n", "r", "s"), [(4, 2, 1), (5, 2, 1), (6, 2, 1), (6, 2, 2), (6, 3, 1)])
def test_families_without_disjoint_members(n, r, s):
    bound = largest_unmatched(n, r, s)
    largest = largest_family_without_matching(n, r, s)
    assert largest <= bound
    if r == 2:
        assert largest == bound  # Erdős and Gallai


def test_families_that_are_known_fit_under_the_bound():
    """The r-subsets that meet s positions, and those of r(s + 1) - 1 positions, hold no s + 1 disjoint ones;
    Frankl's theorem says that the first family is the largest from some n on."""
    for r in (2, 3, 4):
        for s in (1, 2, 3):
            for n in range(r, 40):
                meeting = comb(n, r) - comb(n - s, r) if n > s else comb(n, r)
                inside = comb(min(n, r * (s + 1) - 1), r)
                assert max(meeting, inside) <= largest_unmatched(n, r, s) <= comb(n, r)
                if r > 2 and n >= (2 * s + 1) * r - s:
                    assert largest_unmatched(n, r, s) == meeting


def test_bad_trees_are_refused():
    leaves = [(0,), (1,), (2,)]
    for make, problem in (
        (lambda: ComparisonTree([], first), "at least one tuple"),
        (lambda: ComparisonTree([()], first), "with a position in it"),
        (lambda: ComparisonTree([(-1,)], first), "count from 0"),
        (lambda: ComparisonTree(leaves, first, [[0, 1, 0]]), "2 rows for 3 leaves"),
        (lambda: ComparisonTree(leaves, first, [[0, 1, 0], [0, 3, 0]]), "child once"),
        (lambda: ComparisonTree(leaves, first, [[0, 3, 0], [1, 2, 0]]), "after their children"),
        (lambda: ComparisonTree(leaves, first, [[0, 1, 0], [3, 2, 1]]), "one of 1 functions"),
        (lambda: hm.targets.position_sum([0, 1]).trees(1), "at least 2"),
        (lambda: hm.targets.triangle_center().trees(400), "would have 10586780 leaves"),
        (lambda: hm.targets.retrieval(2).trees(5, single_leaves=-1), "0 or more"),
    ):
        with pytest.raises(InvalidInputError, match=problem):
            make()
    tree = ComparisonTree(leaves, first)
    with pytest.raises(DimensionMismatchError, match="T at least 3"):
        tree(np.zeros((1, 2, 1)))
    with pytest.raises(NotFiniteError, match="NaN"):
        tree(np.full((1, 3, 1), np.nan))
    with pytest.raises(NotFiniteError, match="f_in"):
        ComparisonTree(leaves, lambda tokens: first(tokens) * np.nan)(np.zeros((1, 3, 1)))
    with pytest.raises(DimensionMismatchError, match="f_in must return"):
        ComparisonTree(leaves, lambda tokens: tokens)(np.zeros((1, 3, 1)))


def test_ties_go_to_the_left_whatever_the_shape():
    X = np.zeros((2, 4, 1))
    leaves = [(2,), (0,), (1, 3), (3,)]
    shapes = (None, [[0, 1, 0], [2, 3, 0], [4, 5, 0]], [[0, 1, 0], [4, 2, 0], [5, 3, 0]])
    for nodes in shapes:
        assert ComparisonTree(leaves, first, nodes)(X).tolist() == [[2, -1], [2, -1]]
    X[:, 1] = 1.0
    for nodes in shapes:
        assert ComparisonTree(leaves, first, nodes)(X).tolist() == [[1, 3], [1, 3]]
