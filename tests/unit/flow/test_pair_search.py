"""The search over all first-layer rankings: against brute force, linear programming and its own examples."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.pair_search import pair_values, search_first_layer, unseen_pairs


def random_table(n_terms: int, n_letters: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(n_terms, n_letters, n_letters))
    values[:, range(n_letters), range(n_letters)] = values.min() - 1
    return np.maximum(values, values.swapaxes(1, 2))


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 3))
@settings(max_examples=25, deadline=None)
def test_every_ranking_is_tried_on_four_letters(seed, n_terms, n_tokens):
    """Four letters, one head: 6^4 ways to rank."""
    values = random_table(n_terms, 4, seed)
    orders = [list(permutations(s for s in range(4) if s != u)) for u in range(4)]
    possible = any(
        not unseen_pairs(values, [[order] for order in choice], n_tokens) for choice in product(*orders)
    )
    found = search_first_layer(values, n_tokens, 1)
    assert found.possible is possible
    if possible:
        assert unseen_pairs(values, found.rankings, n_tokens) == []


def by_integer_programming(values: np.ndarray, n_tokens: int) -> bool:
    """One head, as a 0/1 program with one order variable for every query and pair of keys."""
    n = values.shape[1]
    columns = {
        (u, a, b): i
        for i, (u, a, b) in enumerate(
            (u, a, b) for u in range(n) for a, b in combinations(range(n), 2) if u not in (a, b)
        )
    }
    rows, low, high = [], [], []

    def before(u, a, b):
        """The row of "a stands before b for u": coefficient, column, constant."""
        return (1, columns[u, a, b], 0) if a < b else (-1, columns[u, b, a], 1)

    for u in range(n):
        for a, b, c in combinations([s for s in range(n) if s != u], 3):
            rows.append({columns[u, a, b]: 1, columns[u, b, c]: 1, columns[u, a, c]: -1})
            low.append(0)
            high.append(1)
    size = len(columns)
    for letters in combinations(range(n), n_tokens):
        for table in values[:, letters][:, :, letters]:
            i, j = np.unravel_index(table.argmax(), table.shape)
            p, q = letters[i], letters[j]
            ways = []
            for u, s in ((p, q), (q, p)):
                size += 1
                ways.append(size - 1)
                for rival in letters:
                    if rival not in (u, s):
                        sign, column, constant = before(u, s, rival)
                        rows.append({size - 1: 1, column: -sign})  # way <= before
                        low.append(-np.inf)
                        high.append(constant)
            rows.append(dict.fromkeys(ways, 1))
            low.append(1)
            high.append(np.inf)
    matrix = np.zeros((len(rows), size))
    for number, row in enumerate(rows):
        for column, value in row.items():
            matrix[number, column] = value
    kinds = np.zeros(size)
    kinds[: len(columns)] = 1
    done = milp(
        np.zeros(size),
        constraints=LinearConstraint(matrix, low, high),
        integrality=kinds,
        bounds=Bounds(0, 1),
    )
    assert done.status in (0, 2)
    return done.status == 0


@pytest.mark.parametrize(
    ("n_letters", "n_tokens", "seed"), [(8, 4, 0), (9, 4, 1), (10, 4, 2), (11, 4, 3), (11, 4, 5)]
)
def test_integer_programming_says_the_same(n_letters, n_tokens, seed):
    values = random_table(2, n_letters, seed)
    assert search_first_layer(values, n_tokens, 1).possible is by_integer_programming(values, n_tokens)


def test_one_head_is_not_enough_for_two_terms():
    values = random_table(2, 12, 0)
    for n_tokens in (4, 5):
        found = search_first_layer(values, n_tokens, 1)
        assert found.possible is False
        assert found.rankings is None
    assert search_first_layer(values[:1], 5, 1).possible  # for each term alone it is
    assert search_first_layer(values[1:], 5, 1).possible


def test_one_head_per_term_is_enough():
    values = random_table(2, 9, 0)
    others = [[s for s in range(9) if s != u] for u in range(9)]
    rankings = [[sorted(others[u], key=lambda s: -values[i, u, s]) for i in range(2)] for u in range(9)]
    assert unseen_pairs(values, rankings, 4) == []
    found = search_first_layer(values, 4, 2)
    assert found.possible
    assert unseen_pairs(values, found.rankings, 4) == []


def test_forms_in_three_dimensions_exclude_one_head():
    rng = np.random.default_rng([0, 2, 18])
    letters = rng.normal(size=(18, 3))
    letters /= np.linalg.norm(letters, axis=1)[:, None]
    values = pair_values(rng.normal(size=(2, 3, 3)), letters)
    answers = [search_first_layer(values, n_tokens, 1).possible for n_tokens in (4, 5)]
    assert False in answers


def test_giving_up_is_said():
    assert search_first_layer(random_table(2, 10, 0), 5, 1, max_decisions=0).possible is None


@pytest.mark.parametrize(
    ("values", "n_tokens", "heads", "error"),
    [
        (np.zeros((2, 3)), 2, 1, DimensionMismatchError),
        (np.full((1, 3, 3), np.nan), 2, 1, NotFiniteError),
        ([[[0, 1], [2, 0]]], 2, 1, InvalidInputError),
        (np.zeros((1, 3, 3)), 4, 1, InvalidInputError),
        (np.zeros((1, 3, 3)), 1, 1, InvalidInputError),
        (np.zeros((1, 3, 3)), 2, 0, InvalidInputError),
    ],
)
def test_bad_input_is_named(values, n_tokens, heads, error):
    with pytest.raises(error):
        search_first_layer(values, n_tokens, heads)
    with pytest.raises(DimensionMismatchError):
        pair_values(np.zeros((2, 2)), np.zeros((3, 2)))
