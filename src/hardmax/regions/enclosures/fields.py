"""The two arithmetics of an enclosure: float64 for many intervals at once, python-flint for one at a time.

A place on the segment is a float or a ``Fraction``, exact in either case; what is computed at it is a ball.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.balls import TINY, ArbBalls, FloatBalls, U
from hardmax.exact.rationals import rational
from hardmax.regions.enclosures.jets import Jet

Places = NDArray[Any]


@dataclass(frozen=True)
class FloatField:
    """Places are floats.

    Attributes
    ----------
    width : float
        How short a bracket should be.
    least : float
        Intervals below this length are not halved any more.
    """

    width: float
    least: float = 2.0**-46
    order: int = 4
    precision: ClassVar[int] = 53

    @contextmanager
    def active(self) -> Iterator[None]:
        """Overflow is no error: what overflows is not proven."""
        with np.errstate(all="ignore"):
            yield

    def places(self, values: Any) -> Places:
        """An array of places."""
        return np.array([float(v) for v in values])

    def variable(self, a: Places, b: Places, order: int) -> Jet:
        """The variable s itself as a jet on intervals [a, b], or at the points a."""
        m = self.middle(a, b)
        r = np.maximum(m - a, b - m) * (1.0 + 4 * U) + TINY * (a < b)
        values = np.zeros((order + 1, len(m), 1))
        values[0, :, 0] = m
        values[1:2] = 1.0
        return Jet(FloatBalls.exactly(values), r)

    def middle(self, a: Places, b: Places, share: float = 0.5) -> Places:
        """Places between a and b."""
        return np.asarray(np.clip(a + (b - a) * share, a, b))

    def newton(self, m: Places, value: FloatBalls, slope: FloatBalls) -> tuple[Places, Places]:
        """Where the root of an increasing function can be that has this value at m."""
        q = value * slope.reciprocal()
        off = q.rad + 4 * U * (np.abs(m) + np.abs(q.mid)) + TINY
        low, high = (m - q.mid) - off, (m - q.mid) + off
        fine = np.isfinite(low) & np.isfinite(high)
        return np.where(fine, low, -np.inf), np.where(fine, high, np.inf)

    batch: ClassVar[int] = 1 << 30

    def value(self, functions: Jet, middle: Places, x: Places) -> Any:
        """Functions at places of their intervals, from their jets."""
        return _horner(functions.balls, FloatBalls.exactly(x) - FloatBalls.exactly(middle))

    def slope(self, functions: Jet, middle: Places, a: Places, b: Places) -> Any:
        """The derivatives of functions on [a, b] inside their intervals, from their jets."""
        m = self.middle(a, b)
        away = FloatBalls(m, np.maximum(m - a, b - m) * (1.0 + 4 * U) + TINY) - FloatBalls.exactly(middle)
        return _horner(_derivative(functions.balls), away)


@dataclass(frozen=True)
class ArbField:
    """Places are fractions, numbers are balls of ``precision`` bits, ``batch`` intervals at once."""

    precision: int
    width: Fraction
    least: Fraction
    order: int = 5
    batch: int = 16

    @contextmanager
    def active(self) -> Iterator[None]:
        """At the precision of this field."""
        before = flint.ctx.prec
        flint.ctx.prec = self.precision
        try:
            yield
        finally:
            flint.ctx.prec = before

    def places(self, values: Any) -> Places:
        """An array of places."""
        array = np.empty(len(values), dtype=object)
        array[:] = [Fraction(v) for v in values]
        return array

    def variable(self, a: Places, b: Places, order: int) -> Jet:
        """The variable s itself as a jet."""
        m = self.middle(a, b)
        values = np.empty((order + 1, len(a), 1), dtype=object)
        radius = np.zeros(len(a))
        for i in range(len(a)):
            series = [flint.arb(rational(m[i])), flint.arb(1), *[flint.arb(0)] * order]
            values[:, i, 0] = series[: order + 1]
            if a[i] < b[i]:
                radius[i] = np.nextafter(float(max(m[i] - a[i], b[i] - m[i])), np.inf)
        return Jet(ArbBalls(values), radius)

    def middle(self, a: Places, b: Places, share: float = 0.5) -> Places:
        """Places between a and b, with few digits."""
        exact = a + (b - a) * Fraction(share)
        out = np.empty(len(a), dtype=object)
        for i, (low, high, place) in enumerate(zip(a, b, exact, strict=True)):
            if low == high:
                out[i] = low
                continue
            digits = 1 << (
                max(0, (high - low).denominator.bit_length() - (high - low).numerator.bit_length()) + 8
            )
            out[i] = min(max(Fraction(round(place * digits), digits), low), high)
        return out

    def newton(self, m: Places, value: ArbBalls, slope: ArbBalls) -> tuple[Places, Places]:
        """Where the root of an increasing function can be that has this value at m."""
        low, high = np.empty(len(m), dtype=object), np.empty(len(m), dtype=object)
        for i, q in enumerate((value * slope.reciprocal()).arb):
            if q.is_finite():
                low[i], high[i] = m[i] - _fraction(q.upper()), m[i] - _fraction(q.lower())
            else:
                low[i], high[i] = Fraction(-1), Fraction(2)
        return low, high

    def value(self, functions: Jet, middle: Places, x: Places) -> Any:
        """Functions at places of their intervals, from their jets."""
        return _horner(_sharp(functions.balls), _arbs(x - middle))

    def slope(self, functions: Jet, middle: Places, a: Places, b: Places) -> Any:
        """The derivatives of functions on [a, b] inside their intervals, from their jets."""
        ends = _arbs(a - middle).arb, _arbs(b - middle).arb
        away = np.empty(len(a), dtype=object)
        away[:] = [p.union(q) for p, q in zip(*ends, strict=True)]
        return _horner(_derivative(_sharp(functions.balls)), ArbBalls(away))


def _horner(series: Any, x: Any) -> Any:
    """The values of power series, along the first axis, at balls."""
    total = series[-1]
    for k in range(series.shape[0] - 2, -1, -1):
        total = total * x + series[k]
    return total


def _derivative(series: Any) -> Any:
    factors = np.arange(1.0, series.shape[0])[:, None]
    return series[1:] * type(series).exactly(factors)


def _sharp(balls: FloatBalls | ArbBalls) -> ArbBalls:
    """Balls of floats as those of python-flint."""
    if isinstance(balls, ArbBalls):
        return balls
    return ArbBalls.exactly(balls.mid).widened(balls.rad)


def _arbs(places: Places) -> ArbBalls:
    values = np.empty(len(places), dtype=object)
    values[:] = [flint.arb(rational(Fraction(place))) for place in places]
    return ArbBalls(values)


Field = FloatField | ArbField


def outward(low: Any, high: Any) -> tuple[Places, Places]:
    """Exact places as floats, rounded away from each other.

    >>> outward([Fraction(1, 3)], [Fraction(1, 2)])
    (array([0.33333333]), array([0.5]))
    """
    floats = np.array([[float(v) for v in low], [float(v) for v in high]])
    down = [Fraction(x) > v for x, v in zip(floats[0], low, strict=True)]
    up = [Fraction(x) < v for x, v in zip(floats[1], high, strict=True)]
    low_floats = np.where(down, np.nextafter(floats[0], -np.inf), floats[0])
    return low_floats, np.where(up, np.nextafter(floats[1], np.inf), floats[1])


def _fraction(x: flint.arb) -> Fraction:
    mantissa, exponent = x.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
