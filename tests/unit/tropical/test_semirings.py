"""Max-plus arithmetic: the semiring axioms, the limit with its rate, and both matrix kernels."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax import errors
from hardmax.tropical import semirings
from hardmax.tropical.semirings import oplus, otimes, tropical_matmul, tropical_sum

ZERO, ONE = -np.inf, 0.0
numbers = st.one_of(st.just(ZERO), st.floats(-1e6, 1e6), st.integers(-5, 5).map(float))
# sums of these integers are exact floats, so that the laws hold without rounding
exact_numbers = st.one_of(st.just(ZERO), st.integers(-(2**40), 2**40).map(float))
temperatures = st.one_of(st.just(0.0), st.floats(1e-12, 1e6), st.sampled_from([5e-324, 1e-300, 1e300]))
laws = settings(deadline=None, max_examples=150)


def close(a, b, scale=1.0):
    return a == b or abs(a - b) <= 1e-12 * (1.0 + abs(scale) + abs(a))


@laws
@given(exact_numbers, exact_numbers, exact_numbers)
def test_semiring_axioms_hold_exactly_at_temperature_zero(a, b, c):
    assert oplus(a, b) == oplus(b, a)
    assert oplus(oplus(a, b), c) == oplus(a, oplus(b, c))
    assert otimes(otimes(a, b), c) == otimes(a, otimes(b, c))
    assert otimes(a, b) == otimes(b, a)
    assert otimes(a, oplus(b, c)) == oplus(otimes(a, b), otimes(a, c))
    assert oplus(a, ZERO) == a
    assert otimes(a, ONE) == a
    assert otimes(a, ZERO) == ZERO
    assert oplus(a, a) == a


@laws
@given(numbers, numbers, numbers, st.floats(1e-9, 1e6))
def test_semiring_axioms_hold_up_to_rounding_at_any_temperature(a, b, c, tau):
    assert oplus(a, b, tau) == oplus(b, a, tau)
    scale = tau + max((abs(v) for v in (a, b, c) if v > ZERO), default=0.0)
    assert close(oplus(oplus(a, b, tau), c, tau), oplus(a, oplus(b, c, tau), tau), scale)
    assert close(otimes(a, oplus(b, c, tau)), oplus(otimes(a, b), otimes(a, c), tau), scale)
    assert oplus(a, ZERO, tau) == a
    assert oplus(a, a, tau) == pytest.approx(a + tau * np.log(2), rel=1e-12) if a > ZERO else ZERO


@laws
@given(st.lists(numbers, min_size=1, max_size=40), temperatures)
def test_the_sum_exceeds_the_maximum_by_at_most_tau_log_n(values, tau):
    largest, total = max(values), tropical_sum(values, temperature=tau)
    n = sum(v > ZERO for v in values)
    assert total >= largest
    if n:
        assert total <= largest + tau * np.log(n) * (1 + 1e-13) + 4 * np.spacing(abs(largest))
    else:
        assert total == ZERO


@pytest.mark.parametrize("tau", [1e-300, 1e-6, 0.125, 1.0, 8.0, 1e6, 1e300])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_the_rate_tau_log_n_is_attained_by_equal_terms(tau, n):
    assert tropical_sum(np.zeros(n), temperature=tau) == pytest.approx(tau * np.log(n), rel=1e-12)


def test_the_limit_is_monotone_in_the_temperature():
    values = np.random.default_rng(0).standard_normal(50)
    totals = [tropical_sum(values, temperature=t) for t in np.geomspace(1e-8, 1e3, 60)]
    assert np.all(np.diff([values.max(), *totals]) >= 0)


def test_small_corrections_survive_the_maximum():
    # log(1 + e^-40) is far below the rounding of 1 + e^-40
    assert oplus(0.0, -40.0, 1.0) == pytest.approx(np.exp(-40.0), rel=1e-12)
    assert tropical_sum([-40.0, 0.0, -41.0], temperature=1.0) == pytest.approx(
        np.exp(-40.0) + np.exp(-41.0), rel=1e-12
    )


def test_extreme_temperatures_give_the_limit_and_no_warning():
    with np.errstate(all="raise"):
        assert oplus(1.0, 1.0 + 1e-15, 5e-324) == 1.0 + 1e-15
        assert oplus(-1e308, 1e308, 1e-300) == 1e308
        assert oplus(3.0, -3.0, 1e300) == pytest.approx(1e300 * np.log(2))
        assert oplus(ZERO, ZERO, 1e-5) == ZERO
        assert oplus(ZERO, ZERO, 1e300) == ZERO


def test_arrays_broadcast_and_scalars_stay_scalars():
    table = oplus([[0.0], [1.0]], [0.5, ZERO, 2.0])
    assert table.shape == (2, 3)
    assert table.tolist() == [[0.5, 0.0, 2.0], [1.0, 1.0, 2.0]]
    assert isinstance(oplus(1, 2), float)
    assert isinstance(otimes(Fraction(1, 2), 2), float)
    assert otimes([1, 2], [[1], [2]]).tolist() == [[2.0, 3.0], [3.0, 4.0]]


def test_empty_sums_are_the_zero():
    assert tropical_sum([]) == ZERO
    assert tropical_sum(np.empty((0, 3)), axis=0).tolist() == [ZERO] * 3
    assert tropical_matmul(np.empty((2, 0)), np.empty((0, 3)), 1.0).tolist() == [[ZERO] * 3] * 2
    assert tropical_matmul(np.empty((0, 2)), np.empty((2, 3))).shape == (0, 3)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_sum_along_an_axis(axis, tau):
    values = np.random.default_rng(1).standard_normal((3, 4, 5))
    values[0, :, 0] = ZERO
    expected = np.apply_along_axis(lambda v: tropical_sum(v, temperature=tau), axis, values)
    np.testing.assert_allclose(tropical_sum(values, axis, tau), expected, rtol=1e-13)


def scalar_product(a, b, tau):
    return np.array(
        [
            [
                tropical_sum([x + y for x, y in zip(row, column, strict=True)], temperature=tau)
                for column in b.T
            ]
            for row in a
        ]
    )


@laws
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1), temperatures)
def test_matrix_products_agree_with_scalar_arithmetic(n, k, m, seed, tau):
    rng = np.random.default_rng(seed)
    a = np.where(rng.random((n, k)) < 0.2, ZERO, rng.integers(-8, 9, (n, k)).astype(float))
    b = np.where(rng.random((k, m)) < 0.2, ZERO, rng.integers(-8, 9, (k, m)).astype(float))
    np.testing.assert_allclose(tropical_matmul(a, b, tau), scalar_product(a, b, tau), rtol=1e-12)


@pytest.mark.parametrize("tau", [0.0, 1e-300, 0.7, 1e200])
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 130, 600), (3, 700, 2), (513, 2, 515)])
def test_the_compiled_kernel_agrees_with_numpy(tau, shape, monkeypatch):
    rng = np.random.default_rng(2)
    n, k, m = shape
    a, b = rng.standard_normal((n, k)) * 10, rng.standard_normal((k, m)) * 10
    a[rng.random((n, k)) < 0.1] = ZERO
    a[0] = ZERO
    b[:, -1] = ZERO
    monkeypatch.setattr(semirings, "_SMALL_PRODUCT", 0)
    compiled = tropical_matmul(a, b, tau)
    monkeypatch.setattr(semirings, "_SMALL_PRODUCT", 10**9)
    vectorised = tropical_matmul(a, b, tau)
    if tau == 0.0:
        assert np.array_equal(compiled, vectorised)
    np.testing.assert_allclose(compiled, vectorised, rtol=1e-11, atol=1e-12)


@laws
@given(st.integers(0, 2**32 - 1))
def test_matrices_form_a_semiring(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(-9, 10, (3, 3)).astype(float) for _ in range(3))
    one = np.where(np.eye(3) > 0, ONE, ZERO)
    assert np.array_equal(
        tropical_matmul(tropical_matmul(a, b), c), tropical_matmul(a, tropical_matmul(b, c))
    )
    assert np.array_equal(
        tropical_matmul(a, oplus(b, c)), oplus(tropical_matmul(a, b), tropical_matmul(a, c))
    )
    assert np.array_equal(tropical_matmul(a, one), a)
    assert np.array_equal(tropical_matmul(one, a), a)


def test_vectors_follow_numpy_matmul():
    a = np.arange(6.0).reshape(2, 3)
    assert tropical_matmul(a, [0.0, 0.0, 0.0]).tolist() == [2.0, 5.0]
    assert tropical_matmul([0.0, 0.0], a).tolist() == [3.0, 4.0, 5.0]
    inner = tropical_matmul([1.0, 2.0], [3.0, 1.0])
    assert isinstance(inner, float)
    assert inner == 4.0


@pytest.mark.parametrize("bad", [-1.0, -1e-300, np.nan, np.inf, "hot", None, [1.0, 2.0]])
def test_wrong_temperatures_are_refused(bad):
    for call in (
        lambda: oplus(1.0, 2.0, bad),
        lambda: tropical_sum([1.0], temperature=bad),
        lambda: tropical_matmul([[1.0]], [[1.0]], bad),
    ):
        with pytest.raises(errors.InvalidInputError, match="temperature must be"):
            call()


@pytest.mark.parametrize("bad", [np.nan, np.inf, [0.0, np.nan], [[np.inf]]])
def test_nan_and_plus_infinity_are_refused(bad):
    with pytest.raises(errors.NotFiniteError, match="a must hold real numbers or -inf"):
        oplus(bad, 1.0)
    with pytest.raises(errors.NotFiniteError, match="b must hold"):
        otimes(1.0, bad)
    with pytest.raises(errors.NotFiniteError):
        tropical_matmul(np.atleast_2d(bad), np.zeros((np.atleast_2d(bad).shape[1], 1)))


@pytest.mark.parametrize("bad", ["x", True, 1j, None, [[1.0], [1.0, 2.0]], [Fraction(1), "y"]])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(errors.InvalidInputError, match="a must"):
        oplus(bad, 1.0)


def test_overflow_is_an_error_and_not_a_zero():
    for call in (
        lambda: otimes(1e308, 1e308),
        lambda: otimes(-1e308, -1e308),  # would read as -inf, the zero
        lambda: oplus(1.7e308, 1.7e308, 1e308),
        lambda: tropical_sum([1.7e308] * 3, temperature=1e308),
        lambda: tropical_matmul([[-1e308]], [[-1e308]]),
        lambda: tropical_matmul([[1e308, 0.0]], [[1e308], [0.0]], 1.0),
        lambda: oplus(10**400, 1.0),
    ):
        with pytest.raises(errors.NotFiniteError, match="float64"):
            call()
    # a sum that is too small for float64 does not matter where a larger one wins
    assert tropical_matmul([[-1e308, 0.0]], [[-1e308], [2.0]]) == [[2.0]]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(errors.DimensionMismatchError, match="columns"):
        tropical_matmul(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(errors.DimensionMismatchError, match="vector or a matrix"):
        tropical_matmul(1.0, [[1.0]])
    with pytest.raises(errors.DimensionMismatchError, match="vector or a matrix"):
        tropical_matmul(np.zeros((2, 2, 2)), np.zeros((2, 2)))
    with pytest.raises(errors.DimensionMismatchError, match="broadcast"):
        oplus([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(errors.InvalidInputError, match="axis"):
        tropical_sum([1.0], axis=1)


def test_small_work_does_not_load_the_compiler():
    code = (
        "import sys, hardmax as hm; hm.tropical.oplus(1, 2, 0.5); hm.tropical.tropical_matmul([[1]], [[2]]);"
        "print('numba' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )
