"""The checker of certificates can fail, and the library's certificates pass it.

A checker that accepts everything proves nothing, so it is first shown wrong certificates of every kind.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from oracles.certificates import (
    emptiness_problems,
    lift_heads,
    lift_keys,
    lift_sites,
    tuple_problems,
    win_problems,
)

TRIANGLE = lift_keys([[0, 0], [4, 0], [0, 4], [1, 1], [0, 0]])


def test_checker_accepts_a_right_witness_and_refuses_wrong_ones():
    assert win_problems(TRIANGLE, 1, [1.0, 0.0]) == []
    assert win_problems(TRIANGLE, 0, [-1.0, -1.0]) == []  # key 4 is identical to key 0: they win together
    assert win_problems(TRIANGLE, 1, [1.0, 1.0])  # a tie with key 2
    assert win_problems(TRIANGLE, 1, [0.0, 1.0])
    assert win_problems(TRIANGLE, 3, [1.0, 1.0])
    assert win_problems(TRIANGLE, 1, [float("nan"), 0.0])
    assert win_problems(TRIANGLE, 1, [float("inf"), 0.0])
    assert win_problems(TRIANGLE, 1, [1.0])


def test_checker_sees_ties_below_float_resolution():
    head = lift_keys([[0, 0], [Fraction(1, 10**40), -1]])
    assert win_problems(head, 1, [1.0, 0.0]) == []
    assert win_problems(head, 0, [1.0, 0.0])


def test_checker_wants_the_lowest_index_of_identical_keys():
    heads = [TRIANGLE, TRIANGLE]
    assert tuple_problems(heads, [0, 0], [-1.0, -1.0]) == []
    assert tuple_problems(heads, [0, 4], [-1.0, -1.0])
    assert tuple_problems(heads, [0], [-1.0, -1.0])
    assert tuple_problems(heads, [0, 7], [-1.0, -1.0])
    assert tuple_problems(heads, [0, 1], [-1.0, -1.0])


def test_checker_accepts_a_right_emptiness_certificate_and_refuses_wrong_ones():
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    assert emptiness_problems(TRIANGLE, 3, [0, 1, 2], [half, quarter, quarter]) == []
    assert emptiness_problems(TRIANGLE, 3, [0, 1, 2], [half, quarter, half])  # sum
    assert emptiness_problems(TRIANGLE, 3, [0, 1, 2], [quarter, half, quarter])  # another point
    assert emptiness_problems(TRIANGLE, 3, [3], [1])  # itself
    assert emptiness_problems(TRIANGLE, 0, [4], [1])  # its twin
    assert emptiness_problems(TRIANGLE, 3, [0, 1, 9], [half, quarter, quarter])
    assert emptiness_problems(
        TRIANGLE, 3, [0, 4, 1, 2], [quarter, quarter, quarter, quarter]
    )  # more than d + 1
    assert emptiness_problems(TRIANGLE, 3, [0, 0, 1, 2], [quarter, quarter, quarter, quarter])
    assert emptiness_problems(TRIANGLE, 3, [0, 1], [half, quarter, quarter])
    assert emptiness_problems(TRIANGLE, 3, [1, 2, 0], [half, half, Fraction(0)])
    below = lift_keys([[0], [1], [2]], [0, 1, 0])
    assert emptiness_problems(below, 1, [0, 2], [half, half])
    above = lift_keys([[0], [1], [2]], [1, 1, 1])
    assert emptiness_problems(above, 1, [0, 2], [half, half]) == []
    negative = lift_keys([[0], [1], [2], [4]])
    assert emptiness_problems(negative, 1, [0, 2, 3], [Fraction(3, 4), Fraction(-1, 4) + half, Fraction(0)])
    assert emptiness_problems(negative, 3, [0, 2], [Fraction(-1), Fraction(2)])


def test_lifting_of_sites_and_query_maps():
    sites = [[0.5, 1.0], [2.0, -1.0]]
    assert lift_sites(sites, [1, 0]) == [
        (Fraction(1, 2), Fraction(1), Fraction(-1, 8)),
        (Fraction(2), Fraction(-1), Fraction(-5, 2)),
    ]
    keys, matrix, shift = [[1, 2]], [[1, 0, 1], [0, 1, 1]], [3, 4]
    assert lift_keys(keys, [5], (matrix, shift)) == [(1, 2, 3, 16)]
    assert lift_keys(keys, None, (matrix, None)) == [(1, 2, 3, 0)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("d", "heads", "n_tokens"), [(2, 8, 40), (3, 5, 25), (4, 4, 15), (6, 3, 9), (8, 3, 6)]
)
def test_witnesses_of_instances_beyond_brute_force(d, heads, n_tokens, biased):
    rng = np.random.default_rng([d, biased])
    for integer in (False, True):
        shape = (heads, n_tokens, d)
        points = rng.integers(-6, 7, size=shape) if integer else rng.standard_normal(shape)
        biases = (
            (rng.integers(-6, 7, size=shape[:2]) if integer else rng.standard_normal(shape[:2]))
            if biased
            else None
        )
        result = hm.minkowski_vertices(points, biases)
        lifted = lift_heads(points, biases)
        for row in rng.choice(result.count, size=min(result.count, 60), replace=False):
            witness = result.exact_witnesses.get(int(row), result.witnesses[row])
            assert tuple_problems(lifted, result.choices[row].tolist(), witness) == []


def test_witnesses_that_floats_cannot_give_are_given_as_fractions():
    """A cell so thin that no float64 point lies inside it still has its exact witness."""
    eps = Fraction(1, 2**80)
    third = Fraction(1, 3)
    point_sets = [[[0], [1]], [[0], [1]]]
    biases = [[Fraction(0), -third], [Fraction(0), -third - eps]]  # the middle cell is (1/3, 1/3 + 2^-80)
    result = hm.minkowski_vertices(point_sets, biases)
    assert result.count == 3
    lifted = lift_heads(point_sets, biases)
    assert set(result.exact_witnesses) == {
        row for row, choice in enumerate(result.choices.tolist()) if choice == [1, 0]
    }
    for row in range(3):
        witness = result.exact_witnesses.get(row, result.witnesses[row])
        assert tuple_problems(lifted, result.choices[row].tolist(), witness) == []
