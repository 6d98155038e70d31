r"""Real numbers as the nearest floats, whatever their size.

A quantity is a function that computes an enclosing ball at the current working precision (Arb). The precision
is doubled until both ends of the ball round to the same double: that is the correctly rounded value, zero and
infinity included. It ends because what comes this way is transcendental and so never halfway between two
doubles; rational numbers are kept as fractions, which round correctly by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import flint

from hardmax.errors import CertificateError

__all__ = ["Real", "ball", "is_positive", "rational", "rounded", "rounded_fraction"]

_FIRST_BITS = 96
_LAST_BITS = 1 << 14


@dataclass(frozen=True)
class Real:
    """A positive number: a fraction where it is rational, else balls around it and around its logarithm.

    The logarithm has a ball of its own because the number may lie beyond every float, and beyond Arb too.

    >>> third = rational(Fraction(1, 3))
    >>> float(third), third.log10
    (0.3333333333333333, -0.47712125471966244)
    """

    fraction: Fraction | None
    enclosure: Callable[[], flint.arb]
    log: Callable[[], flint.arb]

    def __float__(self) -> float:
        return rounded(self.enclosure) if self.fraction is None else rounded_fraction(self.fraction)

    @property
    def log10(self) -> float:
        """The decimal logarithm, correctly rounded."""
        if self.fraction == 1:
            return 0.0
        return rounded(lambda: self.log() / flint.arb.const_log10())


def rational(value: Fraction) -> Real:
    """A positive rational number."""
    return Real(value, lambda: ball(value), lambda: ball(value).log())


def rounded(quantity: Callable[[], flint.arb]) -> float:
    """The double nearest to a quantity that is not itself halfway between two doubles.

    >>> rounded(lambda: flint.arb(-16).exp())
    1.1253517471925912e-07
    >>> rounded(lambda: flint.arb(-(10**9)).exp())          # below the smallest double
    0.0
    """
    bits = _FIRST_BITS
    while bits <= _LAST_BITS:
        with flint.ctx.workprec(bits):
            enclosure = quantity()
            if enclosure.is_finite():
                low, high = _nearest(enclosure.lower()), _nearest(enclosure.upper())
                if low == high:
                    return low
        bits *= 2
    raise CertificateError(f"a number could not be rounded with {_LAST_BITS} bits; please report this.")


def is_positive(quantity: Callable[[], flint.arb]) -> bool:
    """Whether a quantity that is not zero is above zero, decided rigorously.

    >>> is_positive(lambda: flint.arb(2).log() - ball(Fraction(7, 10)))
    False
    """
    bits = _FIRST_BITS
    while bits <= _LAST_BITS:
        with flint.ctx.workprec(bits):
            enclosure = quantity()
            if enclosure > 0 or enclosure < 0:
                return bool(enclosure > 0)
        bits *= 2
    raise CertificateError(f"a sign could not be decided with {_LAST_BITS} bits; please report this.")


def ball(value: int | Fraction) -> flint.arb:
    """The ball of a rational number at the current working precision."""
    number = Fraction(value)
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def _nearest(point: flint.arb) -> float:
    """The double nearest to the exact midpoint of a ball."""
    mantissa, exponent = (int(part) for part in point.mid().man_exp())
    size = mantissa.bit_length() + exponent  # 2**(size - 1) <= |point| < 2**size
    if mantissa == 0 or size < -1075:  # below half of the smallest double
        return 0.0
    if size > 1024:
        return math.inf if mantissa > 0 else -math.inf
    return rounded_fraction(Fraction(mantissa) * Fraction(2) ** exponent)


def rounded_fraction(value: Fraction) -> float:
    """The double nearest to a rational number; infinity beyond the largest.

    >>> rounded_fraction(Fraction(1, 3)), rounded_fraction(Fraction(10) ** 400)
    (0.3333333333333333, inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
