r"""Smooth activations with proven errors: GELU, its tanh form, SiLU and tanh, with two derivatives.

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


@dataclass(frozen=True, eq=False)
class SmoothFunction:
    """A tabulated function.

    Attributes
    ----------
    coefficients : (n_nodes, degree + 1) float64
    errors : (3, n_nodes) float64
        Bounds on the errors of value, first and second derivative near each node.
    second, third : float
        Bounds on the second and third derivative anywhere.
    tail : (3,) float64
        Bounds on how far value and derivatives are from their limits beyond the table.

    Examples
    --------
    >>> values, errors = smooth_function("silu")(np.array([0.0, 100.0]))
    >>> values[:, 1], bool((errors < 1e-14).all())
    (array([100.,   1.,   0.]), True)
    """

    name: str
    coefficients: Floats
    errors: Floats
    second: float
    third: float
    tail: Floats

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """Value, first and second derivative at floats (3, ...), and bounds on their errors."""
        _, reach, grows = _FUNCTIONS[self.name]
        inside = np.abs(x) <= reach
        near = np.where(inside, x, 0.0)  # also for NaN
        node = np.rint(near * _NODES)
        t = near - node / _NODES
        index = node.astype(np.int64) + reach * _NODES
        a = self.coefficients[index]
        value = a[..., _DEGREE]
        first = np.zeros_like(t)
        half = np.zeros_like(t)
        for k in range(_DEGREE - 1, -1, -1):
            half = half * t + first
            first = first * t + value
            value = value * t + a[..., k]
        values, errors = np.stack([value, first, 2.0 * half]), self.errors[:, index]
        if not inside.all():
            above = x > 0.0
            limits = [np.where(above, x, 0.0), 1.0 * above] if grows else [np.sign(x), np.zeros_like(x)]
            values = np.where(inside, values, np.stack([*limits, np.zeros_like(x)]))
            tails = self.tail.reshape(3, *[1] * x.ndim)
            errors = np.where(inside, errors, np.where(np.isfinite(x), tails, np.inf))
        return values, errors

    def arb(self, x: flint.arb) -> tuple[flint.arb, flint.arb, flint.arb]:
        """Value, first and second derivative over a ball."""
        a, b, c = _coefficients(_FUNCTIONS[self.name][0], x, 3)
        return a, b, 2 * c


@cache
def smooth_function(name: str) -> SmoothFunction:
    """The table of a function; made once."""
    function, reach, grows = _FUNCTIONS[name]
    steps = range(-reach * _NODES, reach * _NODES + 1)
    coefficients = np.empty((len(steps), _DEGREE + 1))
    errors = np.empty((3, len(steps)))
    derivatives = np.zeros(4)
    before = flint.ctx.prec, flint.ctx.cap
    try:
        flint.ctx.prec, flint.ctx.cap = 128, _DEGREE + 2  # series are cut at the cap
        for i, step in enumerate(steps):
            middle = flint.arb(flint.fmpq(step, _NODES))
            at = _coefficients(function, middle, _DEGREE + 1)
            around = _coefficients(function, middle + flint.arb(0, _REACH), _DEGREE + 2)
            coefficients[i] = [float(a) for a in at]
            for k in range(3):
                errors[k, i] = _error([abs(float(a)) for a in at], float(around[-1].abs_upper()), k)
            for k in (2, 3):
                derivatives[k] = max(derivatives[k], math.factorial(k) * _above(around[k]))
        tail = np.zeros(3)
        for sign in (-1, 1):
            a = _coefficients(function, flint.arb(sign * reach), 3)
            limits = [flint.arb(reach if sign > 0 else 0), int(sign > 0), 0] if grows else [sign, 0, 0]
            for k, limit in enumerate(limits):
                tail[k] = max(tail[k], math.factorial(k) * _above(a[k] - limit))
    finally:
        flint.ctx.prec, flint.ctx.cap = before
    return SmoothFunction(
        name, coefficients, errors, float(derivatives[2]), float(derivatives[3]), tail * 1.0001
    )


def _coefficients(function: Series, x: flint.arb, n: int) -> list[flint.arb]:
    found = function(flint.arb_series([x, 1], n)).coeffs()
    if flint.ctx.cap < n:
        raise ValueError(f"flint.ctx.cap must be at least {n} for these series, but is {flint.ctx.cap}")
    return [*found, *[flint.arb(0)] * (n - len(found))]


def _above(x: flint.arb) -> float:
    return float(x.abs_upper()) * (1.0 + 4 * U)


def _error(sizes: list[float], next_size: float, k: int) -> float:
    """The error of derivative k of a polynomial near its node: rounding, then the remainder."""
    n = len(sizes) - 1
    rounding = 0.0
    for j in range(k, n + 1):
        falling = math.perm(j, k)
        rounding += falling * sizes[j] * _REACH ** (j - k) * (2 * j + 6) * U
    remainder = math.perm(n + 1, k) * next_size * _REACH ** (n + 1 - k)
    return (rounding + remainder) * 1.01 + 1e-300
