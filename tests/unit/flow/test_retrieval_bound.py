"""Theorem 2 of the InfoFlow paper: exponents, explicit width bounds, colliding pairs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.colliding_pairs import (
    closest_choices,
    retrieval_exponents,
    retrieval_pair,
    retrieval_width_bound,
)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ((16, 2, 2), (3.3333, 3.6667, 4.0)),
        ((64, 2, 6), (7.7143, 7.8571, 8.0)),
        ((64, 32, 6), (3.4286, 3.5714, 3.7143)),
    ],
)
def test_the_three_exponents(case, expected):
    found = retrieval_exponents(*case)
    assert [round(float(e), 4) for e in (found.informal, found.formal, found.proof)] == list(expected)


@given(st.integers(2, 200), st.integers(1, 30), st.data())
def test_the_exponents_are_in_order(n_tokens, n, data):
    found = retrieval_exponents(n_tokens, data.draw(st.integers(2, n_tokens)), n)
    assert found.proof - found.formal == found.formal - found.informal == Fraction(1, n + 1)


@pytest.mark.parametrize(
    ("case", "width"),
    [
        ((16, 2, 2, 1e-4), 96.55),
        ((64, 2, 6, 1e-4), 25.62),
        ((64, 2, 6, 1e-5), 6.042e9),
        ((64, 32, 6, 1e-5), 2.111e4),
    ],
)
def test_width_bounds(case, width):
    assert retrieval_width_bound(*case) == pytest.approx(width, rel=3e-4)


def test_the_bound_in_exact_arithmetic():
    n_tokens, k, n, epsilon = 16, 2, 2, Fraction(1, 10_000)
    m = n_tokens - k + 1
    grid = math.floor(1 / (16 * m * epsilon))
    exact = Fraction(k - 1) * epsilon / (4 * n * m) * grid ** (m // (n + 1))
    assert m % (n + 1) == 0
    assert retrieval_width_bound(n_tokens, k, n, epsilon) == pytest.approx(float(exact), rel=1e-12)


def test_the_bound_says_nothing_where_it_does_not_apply():
    assert retrieval_width_bound(16, 2, 2, 0.5) == 0.0
    assert retrieval_width_bound(4, 4, 8, 1 / 100) == 0.0  # the minimum


@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
@settings(max_examples=10, deadline=None)
def test_pairs_collide(seed, k):
    rng = np.random.default_rng(seed)
    a, b, slope = rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3), rng.uniform(0, 6)

    def f1(x):
        return (0.5 + np.tanh(x[:, None] * a + b) / 2).mean(axis=1)[:, None]

    def rho(x):
        return slope * x

    epsilon = 1 / (80 * (7 - k + 1))
    pair = retrieval_pair(f1, rho, n_tokens=7, k=k, epsilon=epsilon)
    outputs, targets = [], []
    for sequence in (pair.first[:, 0], pair.second[:, 0]):
        assert sequence.shape == (7,)
        assert sequence.min() >= 0
        assert sequence.max() <= 1
        weights = np.exp(rho(sequence))
        outputs.append(float(weights @ f1(sequence)[:, 0] / weights.sum()))
        targets.append(sorted(sequence, reverse=True)[k - 1])
    assert abs(targets[0] - targets[1]) >= 4 * epsilon - 1e-12
    assert abs(outputs[0] - outputs[1]) == pytest.approx(pair.attention_gap, abs=1e-15)
    assert pair.attention_gap <= pair.guaranteed_gap
    assert pair.required_width > 10


def test_the_closest_pair_is_found_among_all():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(4, 3, 2))
    choices = list(itertools.product(range(3), repeat=4))
    sums = {choice: sum(parts[j, q] for j, q in enumerate(choice)) for choice in choices}
    best = min(np.abs(sums[a] - sums[b]).max() for a, b in itertools.combinations(choices, 2))
    (first, second), *_ = closest_choices(parts, np.ones(2), best=3)
    assert np.abs(sums[tuple(first)] - sums[tuple(second)]).max() == pytest.approx(best)


def test_identical_sums_are_found():
    parts = np.zeros((3, 2, 1))
    first, second = closest_choices(parts, np.ones(1))[0]
    assert (first != second).any()


def test_bad_arguments():
    def f1(x):
        return x[:, None]

    with pytest.raises(InvalidInputError, match="k must be a whole number of at least 2"):
        retrieval_exponents(8, 1, 2)
    with pytest.raises(InvalidInputError, match="k must be at most n_tokens"):
        retrieval_exponents(8, 9, 2)
    with pytest.raises(InvalidInputError, match="epsilon"):
        retrieval_width_bound(8, 2, 2, 0.0)
    with pytest.raises(InvalidInputError, match="epsilon"):
        retrieval_width_bound(8, 2, 2, Fraction(-1, 2))
    with pytest.raises(InvalidInputError, match="below"):
        retrieval_pair(f1, lambda x: x, n_tokens=7, k=2, epsilon=0.1)
    with pytest.raises(InvalidInputError, match="non-decreasing"):
        retrieval_pair(f1, lambda x: -x, n_tokens=7, k=2, epsilon=0.002)
    with pytest.raises(NotFiniteError, match="finite"):
        retrieval_pair(f1, lambda x: x * np.nan, n_tokens=7, k=2, epsilon=0.002)
    with pytest.raises(DimensionMismatchError, match="shapes"):
        retrieval_pair(lambda x: x, lambda x: x, n_tokens=7, k=2, epsilon=0.002)
    with pytest.raises(InvalidInputError, match="2 grid points"):
        closest_choices(np.zeros((3, 1, 1)), np.ones(1))
