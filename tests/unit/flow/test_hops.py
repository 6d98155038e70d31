"""Induction and k-hop recall by plans of one head per layer, on all inputs of a small size."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.flow.theorems.hops import hop_plan


def hop(letters: tuple[int, ...], t: int) -> int | None:
    """By definition: the last s up to t before which stands the letter of t."""
    return max((s for s in range(1, t + 1) if letters[s - 1] == letters[t]), default=None)


def hops(letters: tuple[int, ...], k: int) -> int | None:
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
