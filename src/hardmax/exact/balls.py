r"""Arrays of balls: every number is known up to a proven radius.

Two kinds with the same operations. :class:`FloatBalls` are two float64 arrays, midpoints and radii; every
operation adds to the radius what its rounding can do, :math:`u = 2^{-53}` per operation and
:math:`n u` per sum of n terms in any order, and rounds the radius up. They are fast because they are
matrix products. :class:`ArbBalls` are arrays of python-flint's ``arb`` at any precision, for the few
questions that floats leave open.

Overflow makes a radius infinite or not a number. A comparison is true only if it is proven, so such a ball is
never positive nor negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.rationals import ExactArray

Floats = NDArray[np.float64]

U = 2.0**-53
TINY = 2.0**-1068  # above every error of an underflow


class Constant:
    """Exact numbers as both kinds of balls use them: floats, their absolute values, and how far they are off.

    >>> Constant(ExactArray(np.array([1.0, -2.0]))).off
    0.0
    """

    def __init__(self, array: ExactArray) -> None:
        self.exact = array
        self.floats = array.floats
        self.size = np.abs(self.floats)
        self.off = U if array.rounded else 0.0  # relative
        self._arbs: dict[int, NDArray[Any]] = {}
        self._matrices: dict[int, flint.arb_mat] = {}

    @property
    def arbs(self) -> NDArray[Any]:
        """The numbers at the precision of the moment."""
        precision = int(flint.ctx.prec)
        if precision not in self._arbs:
            values = np.empty(self.exact.shape, dtype=object)
            for index in np.ndindex(*self.exact.shape):
                values[index] = flint.arb(self.exact.rational(index))
            self._arbs[precision] = values
        return self._arbs[precision]

    @property
    def matrix(self) -> flint.arb_mat:
        """The transpose of a matrix, at the precision of the moment; floats need none."""
        precision = int(flint.ctx.prec) if self.off else 0
        if precision not in self._matrices:
            values: Any = self.arbs.T if self.off else self.floats.T
            rows, columns = values.shape
            self._matrices[precision] = flint.arb_mat(rows, columns, values.reshape(-1).tolist())
        return self._matrices[precision]


class FloatBalls:
    """Midpoints and radii in float64.

    Examples
    --------
    >>> third = FloatBalls.exactly([1.0]) * FloatBalls.exactly([3.0]).reciprocal()
    >>> third.positive(), third.mid, bool(0 < third.rad[0] < 1e-15)
    (array([ True]), array([0.33333333]), True)
    """

    __slots__ = ("mid", "rad")

    def __init__(self, mid: Floats, rad: Floats) -> None:
        self.mid, self.rad = mid, rad

    @classmethod
    def exactly(cls, values: Any) -> Self:
        """Floats that are exact."""
        mid = np.asarray(values, dtype=np.float64)
        return cls(mid, np.zeros_like(mid))

    @classmethod
    def constant(cls, constant: Constant) -> Self:
        """Exact numbers, rounded."""
        return cls(constant.floats, constant.size * constant.off)

    @classmethod
    def stack(cls, parts: Sequence[Self], axis: int = 0) -> Self:
        """Balls along a new axis."""
        return cls(np.stack([p.mid for p in parts], axis), np.stack([p.rad for p in parts], axis))

    @classmethod
    def joined(cls, parts: Sequence[Self], axis: int = 0) -> Self:
        """Balls one behind the other along an axis."""
        return cls(np.concatenate([p.mid for p in parts], axis), np.concatenate([p.rad for p in parts], axis))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.mid.shape

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.mid[index], self.rad[index])

    def arranged(self, arrange: Any) -> Self:
        """The same balls at other places: ``arrange`` moves the entries of an array."""
        return type(self)(arrange(self.mid), arrange(self.rad))

    def __add__(self, other: Self) -> Self:
        mid = self.mid + other.mid
        return type(self)(mid, (self.rad + other.rad + U * np.abs(mid)) * (1.0 + 8 * U))

    def __sub__(self, other: Self) -> Self:
        mid = self.mid - other.mid
        return type(self)(mid, (self.rad + other.rad + U * np.abs(mid)) * (1.0 + 8 * U))

    def __neg__(self) -> Self:
        return type(self)(-self.mid, self.rad)

    def __mul__(self, other: Self) -> Self:
        mid = self.mid * other.mid
        size = np.abs(self.mid)
        rad = (size + self.rad) * other.rad + self.rad * np.abs(other.mid) + U * np.abs(mid)
        return type(self)(mid, rad * (1.0 + 8 * U) + TINY)

    def sum(self, axis: int) -> Self:
        """Sums, along an axis that is kept with length one."""
        n = self.mid.shape[axis]
        mid = self.mid.sum(axis=axis, keepdims=True)
        rad = (self.rad + n * U * np.abs(self.mid)).sum(axis=axis, keepdims=True)
        return type(self)(mid, rad * (1.0 + (2 * n + 8) * U))

    def affine(self, weights: Constant | None, offsets: Constant | None) -> Self:
        """:math:`Wy + b` of vectors along the last axis."""
        mid, rad = self.mid, self.rad
        if weights is not None:
            n = mid.shape[-1]
            share = (n + 4) * U + 2 * weights.off
            some = (np.abs(mid) + rad).any(axis=-1, keepdims=True)
            rad = ((rad + share * np.abs(mid)) @ weights.size.T) * (1.0 + (2 * n + 8) * U + 2 * weights.off)
            mid = mid @ weights.floats.T
            # zero stays zero: a unit without weights, or behind a dead layer, has a sign
            rad = rad + (n * TINY) * (some & weights.size.any(axis=1))
        if offsets is not None:
            mid = mid + offsets.floats
            rad = (rad + U * np.abs(mid) + offsets.off * offsets.size) * (1.0 + 8 * U)
        return type(self)(mid, rad)

    def convolved(self, other: Self, *, matrix: bool = False) -> Self:
        """Products of power series along the first axis, of entries or of matrices along the last two."""
        orders, n = self.mid.shape[0], self.mid.shape[-1] if matrix else 1
        times = np.matmul if matrix else np.multiply
        size, other_size = np.abs(self.mid), np.abs(other.mid)
        slack, other_wide = (n + orders + 4) * U * size, other_size + other.rad
        mid = times(self.mid[0], other.mid)
        rad = times(size[0], other.rad) + times(self.rad[0] + slack[0], other_wide)
        for i in range(1, orders):
            mid[i:] += times(self.mid[i], other.mid[:-i])
            rad[i:] += times(size[i], other.rad[:-i]) + times(self.rad[i] + slack[i], other_wide[:-i])
        return type(self)(mid, rad * (1.0 + (2 * n + 2 * orders + 8) * U) + n * orders * TINY)

    def last_convolved(self, other: Self, *, matrix: bool = False) -> Self:
        """The last coefficient of such a product alone, on a first axis of length one."""
        orders, n = self.mid.shape[0], self.mid.shape[-1] if matrix else 1
        times = np.matmul if matrix else np.multiply
        size, back, back_rad = np.abs(self.mid), other.mid[::-1], other.rad[::-1]
        wide = self.rad + (n + orders + 4) * U * size
        mid = times(self.mid, back).sum(axis=0, keepdims=True)
        rad = (times(size, back_rad) + times(wide, np.abs(back) + back_rad)).sum(axis=0, keepdims=True)
        return type(self)(mid, rad * (1.0 + (2 * n + 2 * orders + 8) * U) + n * orders * TINY)

    def over(self, m: int) -> Self:
        """Divided by a positive integer."""
        mid = self.mid / m
        return type(self)(mid, (self.rad / m + U * np.abs(mid)) * (1.0 + 8 * U) + TINY)

    def radius(self) -> Floats:
        """The radii."""
        return self.rad

    def magnitude(self) -> Floats:
        """Upper bounds on the absolute values."""
        return np.asarray((np.abs(self.mid) + self.rad) * (1.0 + 4 * U))

    def widened(self, by: Floats) -> Self:
        """Balls with larger radii."""
        return type(self)(self.mid, (self.rad + by * (1.0 + 16 * U)) * (1.0 + 4 * U))

    def at_least(self, floor: float) -> Self:
        """Balls of numbers that are known to be at least ``floor``."""
        low = self.mid - self.rad
        cut = low < floor
        if not cut.any():
            return self
        high = self.mid + self.rad
        middle = 0.5 * (floor + high)
        rad = (np.maximum(high - middle, middle - floor)) * (1.0 + 8 * U) + 4 * U * np.abs(high) + TINY
        return type(self)(np.where(cut, middle, self.mid), np.where(cut, rad, self.rad))

    def reciprocal(self) -> Self:
        """:math:`1/x`; infinite radii for balls that hold zero."""
        size = np.abs(self.mid)
        gap = (size - self.rad) * (1.0 - 4 * U)
        mid = 1.0 / self.mid
        rad = self.rad / gap / size * (1.0 + 16 * U) + 2 * U * np.abs(mid) + TINY
        return type(self)(mid, np.where(gap > 0.0, rad, np.inf))

    def rsqrt(self) -> Self:
        r""":math:`x^{-1/2}` of positive balls; infinite radii for others."""
        gap = (self.mid - self.rad) * (1.0 - 4 * U)
        safe = np.where(gap > 0.0, gap, 1.0)
        mid = 1.0 / np.sqrt(np.where(gap > 0.0, self.mid, 1.0))
        rad = (0.5 * self.rad / safe / np.sqrt(safe)) * (1.0 + 16 * U) + 4 * U * mid + TINY
        return type(self)(mid, np.where(gap > 0.0, rad, np.inf))

    def exp(self) -> Self:
        """The exponential function."""
        fine = np.isfinite(self.mid) & np.isfinite(self.rad)
        mid = np.clip(np.where(fine, self.mid, 0.0), _LOW, _HIGH)
        high = np.where(fine, (self.mid + self.rad) + 2 * U * (np.abs(self.mid) + self.rad), np.inf)
        e = _exponential(mid)
        near = self.rad * (1.0 + self.rad)  # at least exp(rad) - 1, for a radius of at most 1
        top = _exponential(np.clip(high, _LOW, _HIGH)) * (1.0 + 16 * U)
        wide = np.where(high <= _HIGH, np.maximum(e, top), np.inf)  # zero lies inside
        usual = (self.rad <= 1.0) & (mid == self.mid)
        error = np.where(usual, e * (near + 9 * U), wide)
        return type(self)(e, error * (1.0 + 16 * U) + TINY)

    def masked(self, present: NDArray[np.bool_]) -> Self:
        """Exactly zero where something is absent."""
        return type(self)(np.where(present, self.mid, 0.0), np.where(present, self.rad, 0.0))

    def positive(self) -> NDArray[np.bool_]:
        """Where it is proven that the number is above zero."""
        return np.asarray(self.mid > self.rad)

    def negative(self) -> NDArray[np.bool_]:
        """Where it is proven that the number is below zero."""
        return np.asarray(-self.mid > self.rad)

    def zero(self) -> NDArray[np.bool_]:
        """Where it is proven that the number is zero."""
        return np.asarray((self.mid == 0.0) & (self.rad == 0.0))


class ArbBalls:
    """Arrays of python-flint's balls, at the precision of ``flint.ctx``; the same operations.

    Examples
    --------
    >>> third = ArbBalls.exactly([1.0]) * ArbBalls.exactly([3.0]).reciprocal()
    >>> bool(third.positive()[0])
    True
    """

    __slots__ = ("arb",)

    def __init__(self, arb: NDArray[Any]) -> None:
        self.arb = arb

    @classmethod
    def exactly(cls, values: Any) -> Self:
        """Floats or rationals, as balls."""
        array = np.asarray(values)
        return cls(_each(lambda v: flint.arb(v) if isinstance(v, flint.fmpq) else flint.arb(float(v)), array))

    @classmethod
    def constant(cls, constant: Constant) -> Self:
        """Exact numbers."""
        return cls(constant.arbs)

    @classmethod
    def stack(cls, parts: Sequence[Self], axis: int = 0) -> Self:
        """Balls along a new axis."""
        return cls(np.stack([p.arb for p in parts], axis))

    @classmethod
    def joined(cls, parts: Sequence[Self], axis: int = 0) -> Self:
        """Balls one behind the other along an axis."""
        return cls(np.concatenate([p.arb for p in parts], axis))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.arb.shape

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.arb[index])

    def arranged(self, arrange: Any) -> Self:
        """The same balls at other places."""
        return type(self)(arrange(self.arb))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.arb + other.arb)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.arb - other.arb)

    def __neg__(self) -> Self:
        return type(self)(-self.arb)

    def __mul__(self, other: Self) -> Self:
        return type(self)(self.arb * other.arb)

    def sum(self, axis: int) -> Self:
        """Sums, along an axis that is kept with length one."""
        return type(self)(self.arb.sum(axis=axis, keepdims=True))

    def affine(self, weights: Constant | None, offsets: Constant | None) -> Self:
        """:math:`Wy + b` of vectors along the last axis."""
        values = self.arb if weights is None else _product(self.arb, weights.matrix)
        return type(self)(values if offsets is None else values + offsets.arbs)

    def convolved(self, other: Self, *, matrix: bool = False) -> Self:
        """Products of power series along the first axis, of entries or of matrices along the last two."""
        if matrix:
            return type(self)(_matrix_series(self.arb, other.arb))
        return type(self)(_of_series(lambda f, g: f * g, self.arb, other.arb))

    def last_convolved(self, other: Self, *, matrix: bool = False) -> Self:
        """The last coefficient of such a product alone, on a first axis of length one."""
        a, b = self.arb, other.arb[::-1]
        if not matrix:
            return type(self)((a * b).sum(axis=0, keepdims=True))
        # a sum of products of matrices is one product of longer ones
        a, b = np.concatenate([*a], axis=-1), np.concatenate([*b], axis=-2)
        return type(self)(_matrix_series(a[None], b[None]))

    def series(self, function: Callable[[flint.arb_series], flint.arb_series]) -> Self:
        """A function of power series along the first axis, entry by entry; NaN where it has none."""
        return type(self)(_of_series(function, self.arb))

    def over(self, m: int) -> Self:
        """Divided by a positive integer."""
        return type(self)(self.arb / m)

    def radius(self) -> Floats:
        """The radii, nearly."""
        return np.array([float(v.rad()) for v in self.arb.reshape(-1).tolist()]).reshape(self.shape)

    def magnitude(self) -> Floats:
        """Upper bounds on the absolute values, as floats."""
        sizes = np.array([float(v.abs_upper()) for v in self.arb.reshape(-1).tolist()]).reshape(self.shape)
        zero = np.array([v.is_zero() for v in self.arb.reshape(-1).tolist()], dtype=np.bool_)
        return np.asarray(np.where(zero.reshape(self.shape), 0.0, sizes * (1.0 + 4 * U) + TINY))

    def widened(self, by: Floats) -> Self:
        """Balls with larger radii."""
        by = np.broadcast_to(by, self.arb.shape)
        return type(self)(self.arb + _each(lambda v: flint.arb(0, v), by))

    def at_least(self, floor: float) -> Self:
        """Balls of numbers that are known to be at least ``floor``."""

        def cut(v: flint.arb) -> flint.arb:
            bound = flint.arb(floor)
            return v if v >= bound else v.max(bound)

        return type(self)(_each(cut, self.arb))

    def reciprocal(self) -> Self:
        """:math:`1/x`."""
        return type(self)(_each(lambda v: 1 / v, self.arb))

    def rsqrt(self) -> Self:
        r""":math:`x^{-1/2}`."""
        return type(self)(_each(lambda v: v.rsqrt(), self.arb))

    def exp(self) -> Self:
        """The exponential function."""
        return type(self)(_each(lambda v: v.exp(), self.arb))

    def masked(self, present: NDArray[np.bool_]) -> Self:
        """Exactly zero where something is absent."""
        zeros: Any = np.full(self.arb.shape, flint.arb(0), dtype=object)
        return type(self)(np.where(np.broadcast_to(present, self.arb.shape), self.arb, zeros))

    def positive(self) -> NDArray[np.bool_]:
        """Where it is proven that the number is above zero."""
        return _each(lambda v: v > 0, self.arb).astype(np.bool_)

    def negative(self) -> NDArray[np.bool_]:
        """Where it is proven that the number is below zero."""
        return _each(lambda v: v < 0, self.arb).astype(np.bool_)

    def zero(self) -> NDArray[np.bool_]:
        """Where it is proven that the number is zero."""
        return _each(lambda v: v.is_zero(), self.arb).astype(np.bool_)


Balls = FloatBalls | ArbBalls

# The exponential function with a proven error
# ----------------------------------------------------------------------------------------------------------

_LOW, _HIGH = -700.0, 700.0
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 bits: its product with |k| < 2^11 is exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SIXTEENTHS = np.array([float(flint.arb(flint.fmpq(j, 16)).exp()) for j in range(-6, 7)])


def _exponential(x: Floats) -> Floats:
    r""":math:`e^x` for :math:`|x| \le 700`, with a relative error of at most 8u.

    :math:`x = k \ln 2 + j/16 + t` with :math:`|t| \le 1/32 + u`. The subtraction of :math:`k` times the high
    half of :math:`\ln 2` is exact, that of the low half is off by at most u/2, and so is t; the table
    :math:`e^{j/16}` by u; eight terms of the series in t by :math:`10^{-20}` and less than 2u; the product
    by u.
    """
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    j = np.rint(r * 16.0)
    t = r - j * 0.0625
    p = np.full_like(t, 1.0 / 40320.0)
    for factor in (5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0):
        p = p * t + 1.0 / factor
    return np.asarray(np.ldexp(p * _SIXTEENTHS[j.astype(np.int64) + 6], k.astype(np.int64)))


def _each(function: Any, array: NDArray[Any]) -> NDArray[Any]:
    """A function of every entry."""
    values = np.empty(array.shape, dtype=object)
    flat, source = values.reshape(-1), array.reshape(-1)
    for i in range(len(flat)):
        flat[i] = function(source[i])
    return values


def _product(values: NDArray[Any], matrix: flint.arb_mat) -> NDArray[Any]:
    """Rows times a matrix, by flint."""
    rows = values.reshape(-1, values.shape[-1])
    found = np.empty(len(rows) * matrix.ncols(), dtype=object)
    found[:] = (flint.arb_mat(*rows.shape, rows.reshape(-1).tolist()) * matrix).entries()
    return found.reshape(*values.shape[:-1], matrix.ncols())


def _of_series(function: Callable[..., flint.arb_series], *arrays: NDArray[Any]) -> NDArray[Any]:
    """A function of power series along the first axis of arrays, entry by entry."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    n = shape[0]
    columns = [np.broadcast_to(array, shape).reshape(n, -1).T.tolist() for array in arrays]
    found = np.full((len(columns[0]), n), flint.arb(0), dtype=object)
    cap = flint.ctx.cap
    flint.ctx.cap = n  # series are cut there
    try:
        for i, rows in enumerate(zip(*columns, strict=True)):
            try:
                coefficients = function(*(flint.arb_series(row, n) for row in rows)).coeffs()
            except (ValueError, ZeroDivisionError):  # a quotient whose divisor may be zero
                coefficients = [flint.arb("nan")] * n
            found[i, : len(coefficients)] = coefficients
    finally:
        flint.ctx.cap = cap
    return found.T.reshape(shape)


def _matrix_series(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Products of series of matrices: each coefficient of the one with all that it meets of the other."""
    n, p, q, r = len(a), a.shape[-2], a.shape[-1], b.shape[-1]
    batch = np.broadcast_shapes(a.shape[1:-2], b.shape[1:-2])
    left = np.broadcast_to(a, (n, *batch, p, q))
    right = np.moveaxis(np.broadcast_to(b, (n, *batch, q, r)), 0, -2)  # (*batch, q, n, r)
    found = np.full((*batch, p, n, r), flint.arb(0), dtype=object)
    for index in np.ndindex(*batch):
        for i in range(n):
            met = right[index][:, : n - i].reshape(q, -1)
            product = _product(left[(i, *index)], flint.arb_mat(*met.shape, met.reshape(-1).tolist()))
            found[index][:, i:] += product.reshape(p, n - i, r)
    return np.moveaxis(found, -2, 0)
