"""Roots of rational quadratics: their order, signs and enclosures, against long decimals."""

from __future__ import annotations

from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import pairwise

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.exact.quadratic_numbers import sign_with_root, upward_root
from hardmax.exact.rationals import fraction

getcontext().prec = 120

small = st.integers(-6, 6)
quadratics = st.tuples(small, small, small)


def polynomial(coefficients):
    return tuple(flint.fmpq(c) for c in coefficients)


def decimal(number):
    a, d = fraction(number.a), fraction(number.radicand)
    root = (Decimal(d.numerator) / Decimal(d.denominator)).sqrt()
    return Decimal(a.numerator) / Decimal(a.denominator) + number.side * root


@given(quadratics, quadratics)
def test_order_is_that_of_long_decimals(p, q):
    x, y = upward_root(polynomial(p)), upward_root(polynomial(q))
    if x is None or y is None:
        return
    difference = decimal(x) - decimal(y)
    expected = 0 if abs(difference) < Decimal("1e-100") else (1 if difference > 0 else -1)
    assert x.compare(y) == expected == -y.compare(x)
    assert (x == y) == (expected == 0)
    assert (x < y) == (expected < 0)
    assert (hash(x) == hash(y)) or expected != 0


@given(quadratics)
def test_the_upward_root_is_where_the_sign_changes_from_minus_to_plus(p):
    c0, c1, c2 = map(Fraction, p)
    root = upward_root(polynomial(p))

    def value(s):
        return c0 + s * (c1 + s * c2)

    if root is None:
        turn = -c1 / (2 * c2) if c2 else Fraction(0)
        steps = [turn + Fraction(i, 7) for i in range(-200, 201)]
        signs = [value(s) > 0 for s in steps if value(s)]
        assert not any(not a and b for a, b in pairwise(signs))
        return
    below, above = root.enclosure()
    assert root.sign_of(polynomial(p)) == 0
    assert value(Fraction(below) - Fraction(1, 10**6)) < 0 < value(Fraction(above) + Fraction(1, 10**6))
    assert root.sign_after(polynomial(p)) == 1
    assert Fraction(below) <= root <= Fraction(above)
    assert float(root) in (below, above)


@given(quadratics, quadratics)
def test_signs_just_above(p, q):
    root = upward_root(polynomial(p))
    if root is None:
        return
    c0, c1, c2 = map(Fraction, q)
    s = Fraction(root.enclosure()[1]) + Fraction(1, 10**9)
    value = c0 + s * (c1 + s * c2)
    assert root.sign_after(polynomial(q)) == (value > 0) - (value < 0)


def test_numbers_that_look_different_and_are_equal():
    """sqrt(8) / 4 and sqrt(1/2); a perfect square is rational."""
    x = upward_root((flint.fmpq(-1, 2), flint.fmpq(0), flint.fmpq(1)))
    y = upward_root((flint.fmpq(-4), flint.fmpq(0), flint.fmpq(8)))
    assert x == y
    assert upward_root((flint.fmpq(-9, 4), flint.fmpq(0), flint.fmpq(1))) == Fraction(3, 2)
    assert upward_root((flint.fmpq(-9, 4), flint.fmpq(0), flint.fmpq(1))).is_rational


def test_order_far_below_the_resolution_of_floats():
    tiny = flint.fmpq(1, 10**60)
    x = upward_root((flint.fmpq(-2), flint.fmpq(0), flint.fmpq(1)))
    y = upward_root((flint.fmpq(-2) - tiny, flint.fmpq(0), flint.fmpq(1)))
    assert x < y
    assert float(x) == float(y) == 2**0.5
    assert str(x) == "sqrt(2)"


@pytest.mark.parametrize(
    ("a", "b", "n", "expected"), [(1, -1, 1, 0), (3, -2, 2, 1), (-3, 2, 2, -1), (0, 1, 0, 0)]
)
def test_sign_with_a_root(a, b, n, expected):
    assert sign_with_root(flint.fmpq(a), flint.fmpq(b), flint.fmpq(n)) == expected
