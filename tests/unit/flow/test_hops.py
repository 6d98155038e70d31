"""Induction and k-hop recall by plans of one head per layer, on all inputs of a small size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.flow.theorems import hops as module
from hardmax.flow.theorems.hops import hop_plan


def hop(letters: Sequence[int], t: int) -> int | None:
    """By definition: the last s up to t before which stands the letter of t."""
    return max((s for s in range(1, t + 1) if letters[s - 1] == letters[t]), default=None)


def hops(letters: Sequence[int], k: int) -> int | None:
    t: int | None = len(letters) - 1
    for _ in range(k):
        if t is None:
            return None
        t = hop(letters, t)
    return t


@pytest.mark.parametrize(
    ("n_letters", "n_tokens", "k", "depth"),
    [
        (3, 6, 1, 2),
        (3, 7, 2, 3),
        (3, 7, 3, 3),
        (2, 9, 4, 4),
        (2, 9, 5, 4),
        (2, 9, 6, 4),
        (2, 9, 7, 4),
        (2, 9, 8, 5),
    ],
)
def test_hops_are_followed_on_every_input(n_letters, n_tokens, k, depth):
    shape, plan = hop_plan(n_tokens, k)
    assert shape.heads == (1,) * depth
    inputs = list(product(range(n_letters), repeat=n_tokens))
    answers = [hops(letters, k) for letters in inputs]
    asked = [i for i, answer in enumerate(answers) if answer is not None]
    assert len(asked) > 10
    X = np.array([[(letter, t) for t, letter in enumerate(inputs[i])] for i in asked], dtype=float)
    found = hm.information_sets(shape, plan, X).sets(shape.depth)
    assert (found.sum(axis=1) == 1).all()
    assert found.argmax(axis=1).tolist() == [answers[i] for i in asked]


def test_one_layer_less_does_not_follow_all_hops():
    """The plan for 3 hops does not answer 4, and that for 1 not 2: the layers are there for a reason."""
    for k in (1, 3):
        shape, plan = hop_plan(9, k)
        inputs = [letters for letters in product(range(2), repeat=9) if hops(letters, k + 1) is not None]
        X = np.array([[(letter, t) for t, letter in enumerate(letters)] for letters in inputs], dtype=float)
        found = hm.information_sets(shape, plan, X).sets(shape.depth).argmax(axis=1)
        assert found.tolist() != [hops(letters, k + 1) for letters in inputs]


def test_the_definition_row_by_row_is_the_definition_on_arrays():
    letters = np.random.default_rng(0).integers(0, 3, (300, 10))
    for k in (1, 2, 5):
        expected = [hops(row, k) for row in letters.tolist()]
        assert module.hops(letters, k).tolist() == [-1 if place is None else place for place in expected]


def test_the_score_of_rank_three_has_the_winners_of_the_hop():
    """N (2ab - b^2) + 4^s - 2 16^s / 4^(p+1) in rationals, for every text of three letters."""
    T = 5
    N = 2 * 16**T + 1
    for letters in product(range(3), repeat=T):
        for p in range(T):
            wanted = hop(letters, p)
            if wanted is not None:
                a = letters[p]
                scores = [
                    N * (2 * a * letters[s - 1] - letters[s - 1] ** 2)
                    + 4**s
                    - Fraction(2 * 16**s, 4 ** (p + 1))
                    for s in range(1, T)
                ]
                assert 1 + scores.index(max(scores)) == wanted
                if p == T - 1:
                    plain = [N * (2 * a * letters[s - 1] - letters[s - 1] ** 2) + s for s in range(1, T)]
                    assert 1 + plain.index(max(plain)) == wanted
