r"""Functions of one variable on an interval: value and slope at its midpoint, second derivative all over it.

A jet of :math:`f` on :math:`[m - r, m + r]` is three balls :math:`c \ni f(m)`, :math:`g \ni f'(m)` and
:math:`h \ni f''(s)` for every s. So

.. math:: f(s) \in c + g\,(s - m) + \tfrac12 h\,(s - m)^2, \qquad f'(s) \in g + h\,(s - m) .

Midpoints pass through a matrix W, radii through :math:`|W|`; since only h has a radius that grows with r, the
value is known up to :math:`O(r^3)`, however deep the network. Products and compositions follow the rules of
calculus, in balls.
"""

from __future__ import annotations

from typing import Any, Self

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.balls import ArbBalls, Constant, FloatBalls
from hardmax.exact.smooth_functions import smooth_function


class Jet:
    """Arrays of n functions each, on n intervals; ``balls`` has shape (3, n, ...), or (1, n, ...) at points.

    ``radius`` has shape (n,): floats, or python-flint's numbers beside :class:`ArbBalls`.
    """

    __slots__ = ("balls", "radius")

    def __init__(self, balls: Any, radius: NDArray[Any]) -> None:
        self.balls, self.radius = balls, radius

    @property
    def c(self) -> Any:
        """The values at the midpoints."""
        return self.balls[0]

    @property
    def pointwise(self) -> bool:
        """Whether there are values only."""
        return bool(self.balls.shape[0] == 1)

    def _radius(self) -> NDArray[Any]:
        return self.radius.reshape(-1, *[1] * (len(self.balls.shape) - 2))

    def value(self) -> Any:
        """The values over the intervals."""
        if self.pointwise:
            return self.c
        r = self._radius()
        return self.c.widened(r * (self.balls[1].magnitude() + r * self.balls[2].magnitude() / 2))

    def slope(self) -> Any:
        """The derivatives over the intervals."""
        return self.balls[1].widened(self._radius() * self.balls[2].magnitude())

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

    def __neg__(self) -> Self:
        return type(self)(-self.balls, self.radius)

    def times(self, factor: Any) -> Self:
        """Multiplied by constant balls."""
        return type(self)(self.balls * factor, self.radius)

    def plus(self, constant: Any) -> Self:
        """With a constant added."""
        return self._of([self.c + constant, *(self.balls[k] for k in range(1, self.balls.shape[0]))])

    def sum(self, axis: int) -> Self:
        """Sums along a negative axis, which is kept with length one."""
        return type(self)(self.balls.sum(axis), self.radius)

    def affine(self, weights: Constant | None, offsets: Constant | None) -> Self:
        """:math:`Wy + b` of vectors along the last axis."""
        balls = self.balls if weights is None else self.balls.affine(weights, None)
        moved = type(self)(balls, self.radius)
        if offsets is None:
            return moved
        rest = [balls[k] for k in range(1, balls.shape[0])]
        return moved._of([balls[0].affine(None, offsets), *rest])

    def __mul__(self, other: Self) -> Self:
        return self._product(other, lambda a, b: a * b)

    def matmul(self, other: Self) -> Self:
        """Products of matrices along the last two axes."""
        return self._product(other, lambda a, b: a.matmul(b))

    def _product(self, other: Self, times: Any) -> Self:
        if self.pointwise:
            return self._of([times(self.c, other.c)])
        slope = times(self.balls[1], other.c) + times(self.c, other.balls[1])
        a, b = self.value(), other.value()
        bend = times(self.balls[2], b) + times(self.slope(), other.slope()).doubled()
        return self._of([times(self.c, other.c), slope, bend + times(a, other.balls[2])])

    def _composed(self, at: tuple[Any, Any], over: tuple[Any, Any]) -> Self:
        """A function of the jet: its value and slope at the midpoints, slope and bend over the intervals."""
        if self.pointwise:
            return self._of([at[0]])
        slope = self.slope()
        bend = over[1] * (slope * slope) + over[0] * self.balls[2]
        return self._of([at[0], at[1] * self.balls[1], bend])

    def exp(self) -> Self:
        """The exponential function."""
        e = self.c.exp()
        wide = e if self.pointwise else self.value().exp()
        return self._composed((e, e), (wide, wide))

    def reciprocal(self) -> Self:
        """:math:`1/f`."""
        p = self.c.reciprocal()
        if self.pointwise:
            return self._of([p])
        wide = self.value().reciprocal()
        square = wide * wide
        return self._composed((p, -(p * p)), (-square, (square * wide).doubled()))

    def rsqrt(self, floor: float) -> Self:
        r""":math:`f^{-1/2}` of functions that are known to be at least ``floor``."""
        p = self.c.at_least(floor).rsqrt()
        if self.pointwise:
            return self._of([p])
        exactly = type(p).exactly
        wide = self.value().at_least(floor).rsqrt()
        square = wide * wide
        over = square * wide * exactly([-0.5]), square * square * wide * exactly([0.75])
        return self._composed((p, p * p * p * exactly([-0.5])), over)

    def activated(self, name: str) -> Self:
        """A smooth activation of every entry."""
        function = smooth_function(name)
        if isinstance(self.c, ArbBalls):
            at = _arb_values(function, self.c)
            over = at if self.pointwise else _arb_values(function, self.value())
            return self._composed((at[0], at[1]), (over[1], over[2]))
        values, errors = function(self.c.mid)
        rad = self.c.rad
        near = errors[0] + (np.abs(values[1]) + errors[1] + function.second * rad) * rad
        value = FloatBalls(values[0], near * (1.0 + 1e-14))
        if self.pointwise:
            return self._of([value])

        def slope(rad: NDArray[Any]) -> FloatBalls:
            off = errors[1] + (np.abs(values[2]) + errors[2] + function.third * rad) * rad
            return FloatBalls(values[1], off * (1.0 + 1e-14))

        wide = self.value().rad
        bend = FloatBalls(values[2], (errors[2] + function.third * wide) * (1.0 + 1e-14))
        return self._composed((value, slope(rad)), (slope(wide), bend))

    def _of(self, parts: list[Any]) -> Self:
        return type(self)(type(parts[0]).stack(parts), self.radius)


def _arb_values(function: Any, balls: ArbBalls) -> tuple[ArbBalls, ArbBalls, ArbBalls]:
    flat = [function.arb(v) if v.is_finite() else (flint.arb("nan"),) * 3 for v in balls.arb.reshape(-1)]
    arrays = np.empty((3, len(flat)), dtype=object)
    for i, values in enumerate(flat):
        arrays[:, i] = values
    a, b, c = (ArbBalls(part.reshape(balls.shape)) for part in arrays)
    return a, b, c
