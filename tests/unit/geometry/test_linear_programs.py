"""Gordan's alternative in floats and in rationals: a witness or a certificate, never both, and it checks."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.rationals import rational
from hardmax.geometry.feasibility import linear_programs as programs
from hardmax.geometry.feasibility.rational_programs import convex_weights, separate, separate_exactly


def fraction(value) -> Fraction:
    return Fraction(int(value.p), int(value.q)) if isinstance(value, flint.fmpq) else Fraction(value)


def problems(rows, answer) -> list[str]:
    """What is wrong with an answer, in fractions; nothing else of the library is used."""
    exact = [[fraction(v) for v in row] for row in rows]
    if answer.witness is not None:
        y = [fraction(v) for v in answer.witness]
        return [
            f"row {i}" for i, row in enumerate(exact) if sum(a * b for a, b in zip(row, y, strict=True)) <= 0
        ]
    weights = [fraction(w) for w in answer.weights]
    combined = [
        sum(w * exact[i][k] for w, i in zip(weights, answer.support, strict=True))
        for k in range(len(exact[0]))
    ]
    wrong = []
    if any(combined):
        wrong.append("the combination is not zero")
    if sum(weights) != 1 or any(w <= 0 for w in weights):
        wrong.append("the weights are not convex")
    if len(set(answer.support)) != len(answer.support) or len(weights) > len(exact[0]) + 1:
        wrong.append("the support is too large")
    return wrong


def solve(rows, *, stop=True, tol=1e-12, corral=(), guess=None):
    """The kernel on a cold or warm start: status, corral, weights, point, values."""
    m, d = rows.shape
    indices, weights = np.zeros(d + 1, dtype=np.int64), np.zeros(d + 1)
    indices[: len(corral)] = corral
    x = np.zeros(d) if guess is None else np.array(guess, dtype=float)
    values = np.zeros(m)
    status, size = programs.min_norm_point_kernel(
        rows, m, indices, len(corral), x, weights, values, programs.corral_workspace(d), 0.0, stop, tol, 1000
    )
    return status, indices[:size], weights[:size], x, values


small = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=1, max_size=10)
)
tiny = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-9, -1e-9, 2.0**-60, 1 + 2.0**-52, -(1 + 2.0**-52), 1e8, -3.5])
delicate = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.lists(tiny, min_size=d, max_size=d), min_size=1, max_size=7)
)


@settings(max_examples=300)
@given(small)
def test_integer_systems(rows):
    assert problems(rows, separate(rows)) == []


@settings(max_examples=300)
@given(delicate)
def test_systems_within_rounding_of_degenerate(rows):
    assert problems(rows, separate(rows)) == []


@settings(max_examples=100)
@given(small, st.lists(st.integers(1, 50), min_size=10, max_size=10))
def test_scaling_rows_changes_no_decision(rows, factors):
    scaled = [[Fraction(v, f) for v in row] for row, f in zip(rows, factors, strict=False)]
    answer = separate(scaled)
    assert problems(scaled, answer) == []
    assert (answer.witness is None) == (separate(rows).witness is None)


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_random_systems_of_all_sizes(shift):
    rng = np.random.default_rng(int(10 * shift))
    decided = set()
    for _ in range(60):
        d = int(rng.integers(1, 13))
        rows = rng.standard_normal((int(rng.integers(1, 4 * d + 3)), d))
        rows[:, 0] += shift
        answer = separate(rows)
        assert problems(rows, answer) == []
        decided.add(answer.witness is None)
    assert decided == {True, False}


def test_rational_walk_alone_agrees():
    rng = np.random.default_rng(5)
    for _ in range(60):
        d = int(rng.integers(1, 5))
        rows = rng.integers(-2, 3, size=(int(rng.integers(1, 9)), d)).tolist()
        exact = [[flint.fmpq(v) for v in row] for row in rows]

        def not_positive(y, exact=exact):
            return [i for i, g in enumerate(exact) if sum(a * b for a, b in zip(g, y, strict=True)) <= 0]

        answer = separate_exactly(exact.__getitem__, [0], not_positive)
        assert problems(rows, answer) == []
        assert (answer.witness is None) == (separate(rows).witness is None)


def test_derived_rows_are_decided_on_their_exact_values():
    """Rows known up to 1e-3 only: the exact ones, not the floats, have the last word."""
    rough = [[1.0, 1e-4], [-1.0, 1e-4]]
    for exact in ([[1, Fraction(1, 10**6)], [-1, 0]], [[1, 0], [-1, 0]]):
        answer = separate(
            rough, row_error=[1e-3, 1e-3], exact_row=lambda i, e=exact: [rational(v) for v in e[i]]
        )
        assert problems(exact, answer) == []
    with pytest.raises(InvalidInputError, match="exact_row"):
        separate(rough, row_error=[1e-3, 1e-3])


def test_zero_rows_huge_rows_and_bad_rows():
    assert separate([[0.0, 0.0], [1.0, 2.0]]).support == (0,)
    rows = [[1e300, 1e-300], [-1e300, 1e-300], [0.0, 5e-324]]
    assert problems(rows, separate(rows)) == []
    rows = [[1e300, 0.0], [-1e-300, 0.0]]
    assert problems(rows, separate(rows)) == []
    with pytest.raises(NotFiniteError):
        separate([[np.nan]])
    with pytest.raises(InvalidInputError):
        separate(np.empty((0, 3)))
    with pytest.raises(DimensionMismatchError):
        separate([[1.0]], row_error=[0.0, 0.0])


def test_convex_weights_of_dependent_or_missing_rows():
    q = flint.fmpq
    assert convex_weights([[q(1), q(2)], [q(-3), q(-6)]]) == [q(3, 4), q(1, 4)]
    assert convex_weights([[q(1)], [q(2)]]) is None  # the origin is no convex combination
    assert convex_weights([[q(1), q(0)], [q(1), q(1)]]) is None  # the line through them misses the origin
    assert convex_weights([[q(1)], [q(-1)], [q(0)]]) is None  # dependent


# ----------------------------------------------------------------------------------------------------------
# The kernel
# ----------------------------------------------------------------------------------------------------------


def test_smallest_point_of_a_hull():
    rng = np.random.default_rng(0)
    for d, m in [(1, 1), (1, 5), (2, 7), (3, 4), (5, 30), (11, 50), (40, 25), (64, 300)]:
        rows = rng.standard_normal((m, d))
        rows[:, 0] += 2.5
        status, corral, weights, x, values = solve(rows, stop=False)
        assert status in (programs.OPTIMAL, programs.ZERO)
        assert (weights > 0).all()
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(weights @ rows[corral], x, atol=1e-10)
        np.testing.assert_allclose(values, rows @ x, atol=1e-10)
        assert values.min() >= x @ x - 1e-10 * np.abs(rows).max()  # no row comes closer to the origin


def test_stopping_early_gives_a_witness():
    rng = np.random.default_rng(1)
    for d in (2, 4, 8, 64):
        rows = rng.standard_normal((3 * d, d))
        rows[:, 0] = np.abs(rows[:, 0]) + 0.1
        status, _, _, x, values = solve(rows)
        assert status == programs.POSITIVE
        assert (rows @ x > 0).all()
        assert (values > 0).all()


def test_a_guess_is_tried_first():
    rows = np.array([[1.0, 0.5], [1.0, -0.5]])
    status, corral, _, x, _ = solve(rows, guess=[3.0, 0.1])
    assert status == programs.POSITIVE
    assert len(corral) == 0
    assert x.tolist() == [3.0, 0.1]


def test_warm_start_from_any_corral():
    """Also from a useless, a repeated or an affinely dependent one."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((40, 5)) + [2.0, 0, 0, 0, 0]
    _, corral, _, x, _ = solve(rows, stop=False)
    for start in (corral, corral[::-1], [0], [0, 0, 0], [1, 2, 3, 4, 5, 6], [7, 7, 8]):
        _, _, _, again, _ = solve(rows, stop=False, corral=start)
        np.testing.assert_allclose(again, x, atol=1e-9)


def test_zero_is_proven_or_left_open():
    """The proof holds for every error small enough, and is refused for large ones and flat supports."""
    rng = np.random.default_rng(3)
    for d in (1, 2, 5, 11, 64):
        rows = rng.standard_normal((3 * d + 3, d))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        status, corral, weights, _, _ = solve(rows)
        if status != programs.ZERO:
            continue
        work = programs.corral_workspace(d)
        padded = np.zeros(d + 1)
        padded[: len(weights)] = weights

        def proved(error, rows=rows, corral=corral, padded=padded, work=work):
            bound = np.full(len(rows), error)
            return programs.certify_zero_kernel(rows, bound, corral, len(corral), padded, work)

        assert len(corral) == d + 1
        assert proved(0.0)
        assert proved(1e-15)
        assert not proved(0.9)
    flat = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert not programs.certify_zero_kernel(
        flat, np.zeros(2), np.array([0, 1, 0]), 2, np.array([0.5, 0.5, 0.0]), programs.corral_workspace(2)
    )


def test_a_wrong_proof_is_refused():
    """Positive weights that do not vanish on the rows, and a simplex that misses the origin by a hair."""
    work = programs.corral_workspace(2)
    corner = np.array([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    every = np.arange(3)
    assert programs.certify_zero_kernel(corner, np.zeros(3), every, 3, np.array([0.5, 0.25, 0.25]), work)
    assert not programs.certify_zero_kernel(corner, np.zeros(3), every, 3, np.array([0.9, 0.05, 0.05]), work)
    missed = corner + np.array([1.0 + 1e-15, 0.0])
    assert not programs.certify_zero_kernel(missed, np.zeros(3), every, 3, np.array([1e-16, 0.5, 0.5]), work)
