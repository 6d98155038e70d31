r"""Smooth activations with proven errors: GELU, its tanh form, SiLU and tanh, with their derivatives.

A function is tabulated as Taylor polynomials of degree 12 at the multiples of 1/32, whose coefficients
python-flint computes in balls. A value is the polynomial of the nearest node at a distance of at most 1/64.
Its error is bounded node by node: the rounding of the coefficients and of Horner's scheme, and the remainder,
from the next coefficient over the whole neighbourhood of the node. Beyond the table a function is its limit,
0, 1 or x, up to a constant: there the difference and its derivatives are smaller the larger
:math:`|x|` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import flint
import numpy as np
from numpy.typing import NDArray

from hardmax.exact.balls import U

Floats = NDArray[np.float64]
Series = Callable[[flint.arb_series], flint.arb_series]

ORDERS = 8
"""Taylor coefficients are tabulated up to this order."""

_DEGREE = 12
_NODES = 32  # per unit
_REACH = 1.0 / 64.0


def _gelu(x: flint.arb_series) -> flint.arb_series:
    return x * (1 + (x / flint.arb(2).sqrt()).erf()) / 2


def _logistic(x: flint.arb_series) -> flint.arb_series:
    return 1 / (1 + (-x).exp())


def _gelu_tanh(x: flint.arb_series) -> flint.arb_series:
    inner = (2 / flint.arb.pi()).sqrt() * (x + flint.arb(flint.fmpq(44715, 1000000)) * x * x * x)
    return x * _logistic(2 * inner)


def _silu(x: flint.arb_series) -> flint.arb_series:
    return x * _logistic(x)


def _tanh(x: flint.arb_series) -> flint.arb_series:
    return 2 * _logistic(2 * x) - 1


# the function, how far its table goes, whether it tends to 0 and x or to -1 and 1
_FUNCTIONS: dict[str, tuple[Series, int, bool]] = {
    "gelu": (_gelu, 9, True),
    "gelu-tanh": (_gelu_tanh, 9, True),
    "silu": (_silu, 44, True),
    "tanh": (_tanh, 22, False),
}


def series_of(name: str) -> Series:
    """A function of power series with balls as coefficients.

    >>> series_of("silu")(flint.arb_series([0, 1], 2))
    0.500000000000000*x + O(x^2)
    """
    return _FUNCTIONS[name][0]


@dataclass(frozen=True, eq=False)
class SmoothFunction:
    """A tabulated function.

    Attributes
    ----------
    coefficients : (n_nodes, degree + 1) float64
    errors : (ORDERS + 1, n_nodes) float64
        Bounds on the errors of the Taylor coefficients near each node.
    bounds : (ORDERS + 3,) float64
        Bounds on the Taylor coefficients anywhere.
    tail : (ORDERS + 1,) float64
        Bounds on how far they are from their limits beyond the table.

    Examples
    --------
    >>> values, errors = smooth_function("silu")(np.array([0.0, 100.0]), 2)
    >>> values[:, 1], bool((errors < 1e-14).all())
    (array([100.,   1.,   0.]), True)
    """

    name: str
    coefficients: Floats
    errors: Floats
    bounds: Floats
    tail: Floats

    def __call__(self, x: Floats, order: int) -> tuple[Floats, Floats]:
        """Taylor coefficients 0 to ``order`` at floats, along a first axis, and bounds on their errors."""
        _, reach, grows = _FUNCTIONS[self.name]
        inside = np.abs(x) <= reach
        near = np.where(inside, x, 0.0)  # also for NaN
        node = np.rint(near * _NODES)
        t = near - node / _NODES
        index = node.astype(np.int64) + reach * _NODES
        a = np.moveaxis(self.coefficients[index], -1, 0)
        values = np.zeros((order + 1, *x.shape))
        for k in range(_DEGREE, -1, -1):  # Horner's scheme for the value and all derivatives
            for j in range(min(order, _DEGREE - k), 0, -1):
                values[j] = values[j] * t + values[j - 1]
            values[0] = values[0] * t + a[k]
        errors = self.errors[: order + 1, index]
        if not inside.all():
            above = x > 0.0
            limits = np.zeros_like(values)
            limits[0] = np.where(above, x, 0.0) if grows else np.sign(x)
            if order and grows:
                limits[1] = above
            values = np.where(inside, values, limits)
            tails = self.tail[: order + 1].reshape(-1, *[1] * x.ndim)
            errors = np.where(inside, errors, np.where(np.isfinite(x), tails, np.inf))
        return values, errors

    def arb(self, x: flint.arb, order: int) -> list[flint.arb]:
        """Taylor coefficients over a ball."""
        return _coefficients(_FUNCTIONS[self.name][0], x, order + 1)


@cache
def smooth_function(name: str) -> SmoothFunction:
    """The table of a function; made once."""
    function, reach, grows = _FUNCTIONS[name]
    steps = range(-reach * _NODES, reach * _NODES + 1)
    coefficients = np.empty((len(steps), _DEGREE + 1))
    errors = np.empty((ORDERS + 1, len(steps)))
    bounds = np.zeros(ORDERS + 3)
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 128
        for i, step in enumerate(steps):
            middle = flint.arb(flint.fmpq(step, _NODES))
            at = _coefficients(function, middle, _DEGREE + 1)
            around = _coefficients(function, middle + flint.arb(0, _REACH), _DEGREE + 2)
            coefficients[i] = [float(a) for a in at]
            sizes, next_size = [abs(float(a)) for a in at], _above(around[-1])
            errors[:, i] = [_error(sizes, next_size, k) for k in range(ORDERS + 1)]
            bounds = np.maximum(bounds, [_size(sizes, next_size, k) for k in range(ORDERS + 3)])
        tail = np.zeros(ORDERS + 1)
        for sign in (-1, 1):
            a = _coefficients(function, flint.arb(sign * reach), ORDERS + 1)
            limits = [reach * (sign > 0), int(sign > 0)] if grows else [sign, 0]
            limits += [0] * (ORDERS - 1)
            tail = np.maximum(tail, [_above(value - limit) for value, limit in zip(a, limits, strict=True)])
    finally:
        flint.ctx.prec = before
    return SmoothFunction(name, coefficients, errors, bounds * 1.0001, tail * 1.0001)


def _coefficients(function: Series, x: flint.arb, n: int) -> list[flint.arb]:
    cap = flint.ctx.cap
    try:
        flint.ctx.cap = n  # series are cut there
        found = function(flint.arb_series([x, 1], n)).coeffs()
    finally:
        flint.ctx.cap = cap
    return [*found, *[flint.arb(0)] * (n - len(found))]


def _above(x: flint.arb) -> float:
    return float(x.abs_upper()) * (1.0 + 4 * U)


def _size(sizes: list[float], next_size: float, k: int) -> float:
    """A bound on Taylor coefficient k near a node."""
    all_sizes = [*sizes, next_size]
    return sum(math.comb(j, k) * all_sizes[j] * _REACH ** (j - k) for j in range(k, len(all_sizes)))


def _error(sizes: list[float], next_size: float, k: int) -> float:
    """The error of Taylor coefficient k of a polynomial near its node: rounding, then the remainder."""
    n = len(sizes) - 1
    rounding = sum(math.comb(j, k) * sizes[j] * _REACH ** (j - k) * (2 * j + 6) * U for j in range(k, n + 1))
    remainder = math.comb(n + 1, k) * next_size * _REACH ** (n + 1 - k)
    return (rounding + remainder) * 1.01 + 1e-300
