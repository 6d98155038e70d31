r"""Functions of one variable on an interval: Taylor coefficients at its midpoint, the last one all over it.

A jet of order K of :math:`f` on :math:`[m - r, m + r]` is balls :math:`c_k \ni f^{(k)}(m)/k!` for
:math:`k < K` and :math:`c_K \ni f^{(K)}(s)/K!` for every s, so that by Taylor's theorem

.. math:: \frac{f^{(j)}(s)}{j!} \in C_j = \sum_{k=j}^{K} \binom{k}{j} c_k\, (s - m)^{k-j} .

Midpoints of balls pass through a matrix W, radii through :math:`|W|`, which blows them up layer by layer; but
only :math:`c_K` has a radius beyond rounding, and it counts with :math:`r^K`. Products and compositions are
those of power series, done twice: at the midpoint with the :math:`c_k`, and over the interval with the
:math:`C_k`, of which only coefficient K is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.exact.balls import TINY, ArbBalls, Constant, FloatBalls, U
from hardmax.exact.smooth_functions import series_of, smooth_function


class Jet:
    """Arrays of n functions each, on n intervals; ``balls`` has shape (K + 1, n, ...), K = 0 at points.

    ``radius`` holds n floats, rounded up.
    """

    __slots__ = ("balls", "radius")

    def __init__(self, balls: Any, radius: NDArray[Any]) -> None:
        self.balls, self.radius = balls, radius

    @property
    def order(self) -> int:
        """K."""
        return int(self.balls.shape[0]) - 1

    @property
    def c(self) -> Any:
        """The values at the midpoints."""
        return self.balls[0]

    def value(self) -> Any:
        """The values over the intervals."""
        return self.ranges(1)[0]

    def slope(self) -> Any:
        """The derivatives over the intervals."""
        return self.ranges(2)[1]

    def ranges(self, count: int) -> Any:
        """The first coefficients over the intervals."""
        r = self.radius.reshape(-1, *[1] * (len(self.balls.shape) - 2))
        sizes = self.balls.magnitude()
        spread = np.zeros((count, *sizes.shape[1:]))
        power = r
        for step in range(1, self.order + 1):
            for j in range(min(count, self.order + 1 - step)):
                spread[j] += comb(j + step, j) * power * sizes[j + step]
            power = power * r
        spread *= 1.0 + (4 * self.order) * U
        for j in range(min(count, self.order)):  # a product may be too small for a float
            spread[j] += TINY * ((r > 0.0) & (sizes[j + 1 :] > 0.0).any(axis=0))
        return self.balls[:count].widened(spread)

    def rows(self, index: Any) -> Self:
        """Some of the intervals."""
        return type(self)(self.balls[:, index], self.radius[index])

    def arranged(self, arrange: Any) -> Self:
        """The same functions at other places."""
        return type(self)(self.balls.arranged(arrange), self.radius)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.balls + other.balls, self.radius)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.balls - other.balls, self.radius)

    def times(self, factor: Any) -> Self:
        """Multiplied by constant balls."""
        return type(self)(self.balls * factor, self.radius)

    def plus(self, constant: Any) -> Self:
        """With a constant added."""
        first = (self.c + constant).arranged(lambda array: array[None])
        return type(self)(type(first).joined([first, self.balls[1:]]), self.radius)

    def sum(self, axis: int) -> Self:
        """Sums along a negative axis, which is kept with length one."""
        return type(self)(self.balls.sum(axis), self.radius)

    def affine(self, weights: Constant | None, offsets: Constant | None) -> Self:
        """:math:`Wy + b` of vectors along the last axis."""
        moved = self if weights is None else type(self)(self.balls.affine(weights, None), self.radius)
        return moved if offsets is None else moved.plus(type(self.c).constant(offsets))

    # What is not linear
    # ------------------------------------------------------------------------------------------------------

    def __mul__(self, other: Self) -> Self:
        return self._product(other, matrix=False)

    def matmul(self, other: Self) -> Self:
        """Products of matrices along the last two axes."""
        return self._product(other, matrix=True)

    def _product(self, other: Self, *, matrix: bool) -> Self:
        k = self.order
        if k == 0:
            return type(self)(self.balls.convolved(other.balls, matrix=matrix), self.radius)
        low = self.balls[:k].convolved(other.balls[:k], matrix=matrix)
        top = self.ranges(k + 1).last_convolved(other.ranges(k + 1), matrix=matrix)
        return type(self)(type(low).joined([low, top]), self.radius)

    def exp(self) -> Self:
        """The exponential function."""
        y = self._both()
        if isinstance(y, ArbBalls):
            return self._of(y.series(lambda f: f.exp()))
        return self._of(_recursive(y[0].exp(), y, lambda m, i: i, lambda m, total: total.over(m)))

    def reciprocal(self) -> Self:
        """:math:`1/f`."""
        y = self._both()
        if isinstance(y, ArbBalls):
            return self._of(y.series(lambda f: 1 / f))
        first = y[0].reciprocal()
        return self._of(_recursive(first, y, lambda m, i: -1, lambda m, total: total * first))

    def rsqrt(self, floor: float) -> Self:
        r""":math:`f^{-1/2}` of functions that are known to be at least ``floor``."""
        y = self._both()
        if isinstance(y, ArbBalls):
            above = y[:1].at_least(floor)
            return self._of(ArbBalls.joined([above, y[1:]]).series(lambda f: f.rsqrt()))
        first = y[0].at_least(floor).rsqrt()
        square = first * first
        return self._of(
            _recursive(first, y, lambda m, i: i - 2 * m, lambda m, total: (total * square).over(2 * m))
        )

    def activated(self, name: str) -> Self:
        """A smooth activation of every entry."""
        y = self._both()
        if isinstance(y, ArbBalls):
            return self._of(y.series(series_of(name)))
        a = _float_coefficients(name, y[0], self.order)
        if self.order == 0:
            return self._of(a)
        # Horner's scheme in the series without its constant
        rest = type(y).joined([y[:1].masked(np.zeros(1, dtype=np.bool_)), y[1:]])
        total = type(y).joined([a[-1:], rest[1:].masked(np.zeros(1, dtype=np.bool_))])
        for k in range(self.order - 1, -1, -1):
            total = total.convolved(rest)
            total = type(y).joined([total[:1] + a[k : k + 1], total[1:]])
        return self._of(total)

    def _both(self) -> Any:
        """The series at the midpoints and over the intervals, (K + 1, 2, n, ...); at points as they are."""
        if self.order == 0:
            return self.balls
        return type(self.balls).stack([self.balls, self.ranges(self.order + 1)], axis=1)

    def _of(self, both: Any) -> Self:
        """The jet of two series."""
        if self.order == 0:
            return type(self)(both, self.radius)
        return type(self)(type(both).joined([both[: self.order, 0], both[self.order :, 1]]), self.radius)


def _recursive(first: Any, y: Any, factor: Callable[[int, int], int], end: Callable[[int, Any], Any]) -> Any:
    """A series whose term m is a sum over i = 1, ..., m of terms i of y and m - i of its own."""
    found = [first]
    kind = type(first)
    for m in range(1, y.shape[0]):
        factors = np.array([float(factor(m, i)) for i in range(1, m + 1)])
        scaled = y[1 : m + 1] * kind.exactly(factors.reshape(-1, *[1] * (len(y.shape) - 1)))
        total = (scaled * kind.stack(found[::-1])).sum(0)[0]
        found.append(end(m, total))
    return kind.stack(found)


def _float_coefficients(name: str, x: FloatBalls, order: int) -> FloatBalls:
    """The Taylor coefficients of an activation over balls."""
    function = smooth_function(name)
    values, errors = function(x.mid, order + 1)
    shape = (order + 1, *[1] * len(x.shape))
    rise = np.arange(1.0, order + 2).reshape(shape)  # of coefficient k per step: (k + 1) times the next one
    bend = (rise * (rise + 1.0) / 2.0) * function.bounds[2 : order + 3].reshape(shape)
    rad = errors[:-1] + (rise * (np.abs(values[1:]) + errors[1:]) + bend * x.rad) * x.rad
    return FloatBalls(values[:-1], rad * (1.0 + 1e-14))
