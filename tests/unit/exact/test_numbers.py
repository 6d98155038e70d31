"""Exact numbers, scores and domains at the door."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hardmax import Box, Polytope, WholeSpace
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.rationals import as_exact, rational
from hardmax.geometry.scores import Scores


def test_floats_are_their_own_exact_form():
    array = as_exact([[0.1, 2.0]], "x", ndim=2)
    assert not array.rounded
    assert array.rational((0, 0)) == rational(Fraction(0.1))


def test_fractions_and_large_integers_keep_a_companion():
    assert as_exact([Fraction(1, 3)], "x", ndim=1).rational(0) == rational(Fraction(1, 3))
    big = as_exact([2**53 + 1], "x", ndim=1)
    assert big.rounded
    assert int(big.rational(0).p) == 2**53 + 1
    assert not as_exact([Fraction(1, 4)], "x", ndim=1).rounded


def test_tensors_enter_through_their_array_protocol():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.array([[1.0, 2.0]], dtype=np.float32)

    assert as_exact(Tensor(), "x", ndim=2).floats.dtype == np.float64


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([[1.0, np.nan]], NotFiniteError),
        ([[np.inf, 0.0]], NotFiniteError),
        ([[1.0], [1.0, 2.0]], InvalidInputError),
        ([["a", "b"]], InvalidInputError),
        ([[None, 1.0]], InvalidInputError),
        ([[True, False]], InvalidInputError),
        ([[1j, 0]], InvalidInputError),
        ([1.0, 2.0], DimensionMismatchError),
        ([[10**400, 1]], NotFiniteError),
    ],
)
def test_what_is_not_a_matrix_of_real_numbers_is_refused_in_one_sentence(values, error):
    with pytest.raises(error) as caught:
        as_exact(values, "keys", ndim=2)
    assert str(caught.value).startswith("keys must")
    assert "\n" not in str(caught.value)


def test_power_diagram_scores_are_exact():
    sites = np.array([[0.1, 0.2], [0.3, -0.7]])
    scores = Scores.of_sites(sites, [0.5, 0.25])
    for j, (site, weight) in enumerate(zip(sites, (0.5, 0.25), strict=True)):
        exact = (Fraction(weight) - sum(Fraction(v) ** 2 for v in site)) / 2
        row = scores.exact_row(j)
        assert Fraction(int(row[-1].p), int(row[-1].q)) == exact
        assert abs(Fraction(scores.offsets[j]) - exact) <= Fraction(scores.row_error[j])


def test_query_map_keeps_its_factors():
    rng = np.random.default_rng(0)
    keys, w, b = rng.standard_normal((5, 3)), rng.standard_normal((3, 2)), rng.standard_normal(3)
    scores = Scores.of_keys(keys, None, (w, b))
    for j in range(5):
        row = [Fraction(int(v.p), int(v.q)) for v in scores.exact_row(j)]
        exact = [
            sum(Fraction(k) * Fraction(v) for k, v in zip(keys[j], column, strict=True))
            for column in [*w.T, b]
        ]
        assert row == exact
        floats = [*scores.slopes[j], scores.offsets[j]]
        off = sum(abs(Fraction(f) - e) for f, e in zip(floats, exact, strict=True))
        assert off <= Fraction(scores.row_error[j])


def test_ties_are_found_exactly():
    third = Fraction(1, 3)
    scores = Scores.of_keys([[third, 0], [1 / 3, 0], [third, 0], [2, 2], [2, 2]])
    assert scores.tie_group.tolist() == [0, 1, 0, 3, 3]
    # keys that differ, but not in a direction that the query map sees
    mapped = Scores.of_keys([[1.0, 5.0], [1.0, 7.0], [0.1, 0.0]], None, ([[0.1, 0.3], [0.0, 0.0]], None))
    assert mapped.tie_group.tolist() == [0, 0, 2]


def test_domains_know_their_points():
    assert Box.cube(2, -1, 1).contains([[0, 0], [1, 1], [1.1, 0]]).tolist() == [True, True, False]
    assert Polytope([[1, 1]], [1]).contains([[0, 0], [1, 1]]).tolist() == [True, False]
    assert WholeSpace(3).contains([[1, 2, 3]]).tolist() == [True]
    with pytest.raises(DimensionMismatchError):
        Box.cube(2, -1, 1).contains([[0, 0, 0]])
    with pytest.raises(DimensionMismatchError):
        Box([0], [1, 2])
    with pytest.raises(DimensionMismatchError):
        Polytope([[1, 0]], [1, 2])
    with pytest.raises(InvalidInputError):
        WholeSpace(0)
