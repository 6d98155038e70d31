"""Balls hold what they enclose: against rationals, and against python-flint at a higher precision."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.exact.balls import ArbBalls, Constant, FloatBalls, _exponential
from hardmax.exact.rationals import as_exact
from hardmax.exact.smooth_functions import _FUNCTIONS, ORDERS, smooth_function

numbers = st.floats(-1e6, 1e6, allow_subnormal=True)
radii = st.sampled_from([0.0, 1e-300, 1e-12, 0.5, 3.0])


def inside(balls: FloatBalls, i: int, value: Fraction) -> bool:
    return abs(Fraction(float(balls.mid[i])) - value) <= Fraction(float(balls.rad[i]))


@settings(max_examples=200, deadline=None)
@given(numbers, radii, numbers, radii, st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1]))
def test_sums_and_products_hold_their_values(a, ra, b, rb, s, t):
    x, y = FloatBalls(np.array([a]), np.array([ra])), FloatBalls(np.array([b]), np.array([rb]))
    u, v = Fraction(a) + s * Fraction(ra), Fraction(b) + t * Fraction(rb)
    assert inside(x + y, 0, u + v)
    assert inside(x - y, 0, u - v)
    assert inside(x * y, 0, u * v)
    if abs(b) > max(rb, 1e-290):
        with np.errstate(all="ignore"):
            found = y.reciprocal()
        assert not np.isfinite(found.rad[0]) or inside(found, 0, 1 / v)
    if v >= 0:
        assert inside(y.at_least(0.0), 0, v)


def test_matrices_hold_their_values():
    rng = np.random.default_rng(0)
    w = np.array([[Fraction(int(n), 7) for n in row] for row in rng.integers(-50, 50, (3, 4))], dtype=object)
    x, r = rng.normal(size=(5, 4)), 0.01 * rng.random((5, 4))
    y = FloatBalls(x, r).affine(Constant(as_exact(w, "w", ndim=2)), None)
    for i in range(5):
        for sign in (-1, 1):
            point = [Fraction(a) + sign * Fraction(b) for a, b in zip(x[i], r[i], strict=True)]
            for k in range(3):
                value = sum(p * q for p, q in zip(w[k], point, strict=True))
                assert abs(Fraction(float(y.mid[i, k])) - value) <= Fraction(float(y.rad[i, k]))


def test_zero_stays_zero():
    dead = FloatBalls.exactly(np.zeros((1, 2))).affine(Constant(as_exact([[1.0, 3.0]], "w", ndim=2)), None)
    assert dead.zero().all()


def test_exponential_is_within_its_bound():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-700, 700, 3000), rng.normal(size=3000), np.arange(-200, 200) * np.log(2) / 2]
    )
    values = _exponential(x)
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 120
        ratio = [
            abs(flint.arb(v) / flint.arb(t).exp() - 1)
            for t, v in zip(x.tolist(), values.tolist(), strict=True)
        ]
        assert max(float(r.abs_upper()) for r in ratio) < 8 * 2.0**-53
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize("mid", [-800.0, -30.0, 0.0, 2.0, 650.0])
@pytest.mark.parametrize("rad", [0.0, 1e-9, 0.3, 20.0])
def test_exponential_of_balls(mid, rad):
    found = FloatBalls(np.array([mid]), np.array([rad])).exp()
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 200
        for t in (-1.0, -0.25, 0.5, 1.0):
            value = flint.arb(mid) + flint.arb(t) * flint.arb(rad)
            assert abs(flint.arb(float(found.mid[0])) - value.exp()) <= flint.arb(float(found.rad[0]))
    finally:
        flint.ctx.prec = before


def test_what_overflows_is_not_proven():
    with np.errstate(all="ignore"):
        big = FloatBalls.exactly([1e200]) * FloatBalls.exactly([1e200])
        assert not big.negative().any()
        assert not FloatBalls.exactly([900.0]).exp().negative().any()
        around = FloatBalls(np.array([1.0]), np.array([2.0]))
        assert not (around.reciprocal().positive() | around.rsqrt().positive()).any()


def test_both_kinds_multiply_series_alike():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 4, 3))
    floats = FloatBalls.exactly(a).convolved(FloatBalls.exactly(b))
    arbs = ArbBalls.exactly(a).convolved(ArbBalls.exactly(b))
    for i in np.ndindex(4, 3):
        assert abs(arbs.arb[i] - float(floats.mid[i])) <= float(floats.rad[i])
    direct = np.array([sum(a[i] * b[m - i] for i in range(m + 1)) for m in range(4)])
    assert np.allclose(floats.mid, direct)


@pytest.mark.parametrize("name", list(_FUNCTIONS))
def test_tabulated_functions_are_within_their_bounds(name):
    function = smooth_function(name)
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=300) * 3, rng.uniform(-60, 60, 100), [0.0, 9.0, -9.0, 44.0]])
    values, errors = function(x, ORDERS)
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 200
        for i, t in enumerate(x.tolist()):
            exact = function.arb(flint.arb(t), ORDERS)
            for k in range(ORDERS + 1):
                assert abs(exact[k] - float(values[k, i])) <= flint.arb(float(errors[k, i])), (t, k)
                assert exact[k].abs_lower() <= max(float(function.bounds[k]), abs(t) + 1)
    finally:
        flint.ctx.prec = before
    assert np.isinf(function(np.array([np.nan, np.inf]), 1)[1]).all()
