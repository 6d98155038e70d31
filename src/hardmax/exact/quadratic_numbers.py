r"""Roots of rational quadratics, and their order without rounding.

Where two quadratics with rational coefficients meet stands a number :math:`x = a + \sigma \sqrt{D}` with
rational :math:`a`, :math:`D > 0` and :math:`\sigma \in \{-1, 0, 1\}`. Two of them are compared by squaring:
the sign of :math:`a + \sigma \sqrt{D}` is that of :math:`a` or of :math:`\sigma` where these agree, and else
follows from :math:`a^2 - D`. A difference of two such numbers holds two roots; squaring once leaves one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering

import flint

from hardmax.exact.rationals import fraction, rational

Polynomial = tuple[flint.fmpq, flint.fmpq, flint.fmpq]  # c0 + c1 s + c2 s^2

_ZERO = flint.fmpq(0)


def sign(value: flint.fmpq) -> int:
    """-1, 0 or 1.

    >>> sign(flint.fmpq(-1, 3))
    -1
    """
    return (value > 0) - (value < 0)


def sign_with_root(a: flint.fmpq, b: flint.fmpq, n: flint.fmpq) -> int:
    r"""The sign of :math:`a + b \sqrt{n}` for :math:`n \ge 0`.

    >>> sign_with_root(flint.fmpq(-3), flint.fmpq(2), flint.fmpq(2))    # 2 sqrt(2) < 3
    -1
    """
    of_a, of_b = sign(a), sign(b) if n != 0 else 0
    if of_a * of_b >= 0:
        return of_a or of_b
    return of_a * sign(a * a - b * b * n)


@total_ordering
@dataclass(frozen=True, eq=False)
class QuadraticNumber:
    r"""The number :math:`a + \sigma \sqrt{D}`.

    Attributes
    ----------
    a : flint.fmpq
    side : int
        :math:`\sigma`: -1, 0 or 1; zero for a rational number.
    radicand : flint.fmpq
        :math:`D`, zero for a rational number and else no square.

    Examples
    --------
    >>> root = upward_root((flint.fmpq(-2), flint.fmpq(0), flint.fmpq(1)))
    >>> root, float(root), root > Fraction(7, 5)
    (sqrt(2), 1.4142135623730951, True)
    """

    a: flint.fmpq
    side: int = 0
    radicand: flint.fmpq = _ZERO

    @classmethod
    def of(cls, value: float | int | Fraction) -> QuadraticNumber:
        """A rational number.

        >>> QuadraticNumber.of(0.75)
        3/4
        """
        return cls(rational(value))

    @property
    def is_rational(self) -> bool:
        """Whether the number is rational."""
        return self.side == 0

    def compare(self, other: QuadraticNumber) -> int:
        """The sign of this number minus another."""
        d = self.a - other.a
        if other.side == 0:
            return sign_with_root(d, flint.fmpq(self.side), self.radicand)
        if self.side == 0:
            return sign_with_root(d, flint.fmpq(-other.side), other.radicand)
        # the sign of d + y with y = side sqrt(D) - side' sqrt(D')
        of_d = sign(d)
        if self.side != other.side:
            of_y = self.side
        else:
            of_y = self.side * sign(self.radicand - other.radicand)
        if of_d * of_y >= 0:
            return of_d or of_y
        total = self.radicand + other.radicand - d * d
        twice = flint.fmpq(-2 * self.side * other.side)
        return of_y * sign_with_root(total, twice, self.radicand * other.radicand)  # of y^2 - d^2

    def sign_of(self, polynomial: Polynomial) -> int:
        """The sign of a quadratic at this number."""
        c0, c1, c2 = polynomial
        constant = c0 + self.a * (c1 + self.a * c2) + c2 * self.radicand
        return sign_with_root(constant, self.side * (c1 + 2 * self.a * c2), self.radicand)

    def sign_after(self, polynomial: Polynomial) -> int:
        """The sign of a quadratic just above this number; zero only if it is the zero polynomial.

        >>> QuadraticNumber.of(1).sign_after((flint.fmpq(1), flint.fmpq(-2), flint.fmpq(1)))    # (s - 1)^2
        1
        """
        _, c1, c2 = polynomial
        return self.sign_of(polynomial) or self.sign_of((c1, 2 * c2, _ZERO)) or sign(c2)

    def enclosure(self) -> tuple[float, float]:
        """The floats next to the number, one not above and one not below it.

        >>> QuadraticNumber.of(0.5).enclosure(), QuadraticNumber.of(Fraction(1, 10**400)).enclosure()
        ((0.5, 0.5), (0.0, 5e-324))
        """
        bits = 64
        while True:
            low, high = self._between(bits)
            below, above = _float_below(low), -_float_below(-high)
            if below == above or math.nextafter(below, math.inf) >= above:
                return below, above
            bits *= 2

    def _between(self, bits: int) -> tuple[Fraction, Fraction]:
        a, d = fraction(self.a), fraction(self.radicand)
        if self.side == 0:
            return a, a
        p, q = d.numerator * d.denominator, d.denominator  # sqrt(d) = sqrt(p) / q
        scale = 1 << max(0, bits - p.bit_length() // 2)
        root = math.isqrt(p * scale * scale)
        low, high = Fraction(root, q * scale), Fraction(root + 1, q * scale)
        return (a + low, a + high) if self.side > 0 else (a - high, a - low)

    def __float__(self) -> float:
        below, above = self.enclosure()
        if below == above:
            return below
        middle = QuadraticNumber((rational(below) + rational(above)) / 2)
        return below if self.compare(middle) <= 0 else above

    def __eq__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.compare(number) == 0

    def __lt__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.compare(number) < 0

    def __hash__(self) -> int:
        return hash(float(self))

    def __repr__(self) -> str:
        if self.side == 0:
            return str(self.a)
        root = f"sqrt({self.radicand})"
        if self.a == 0:
            return root if self.side > 0 else f"-{root}"
        return f"{self.a} {'+' if self.side > 0 else '-'} {root}"


def _number(value: object) -> QuadraticNumber | None:
    if isinstance(value, QuadraticNumber):
        return value
    return QuadraticNumber.of(value) if isinstance(value, (int, float, Fraction)) else None


def _float_below(value: Fraction) -> float:
    """The largest float that is not above a rational."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def upward_root(polynomial: Polynomial) -> QuadraticNumber | None:
    """Where a quadratic changes from negative to positive: it does so once at most.

    >>> zero, one = flint.fmpq(0), flint.fmpq(1)
    >>> upward_root((one, zero, -one)), upward_root((zero, zero, one))    # 1 - s^2 and s^2
    (-1, None)
    """
    c0, c1, c2 = polynomial
    if c2 == 0:
        return QuadraticNumber(-c0 / c1) if c1 > 0 else None
    a = -c1 / (2 * c2)
    d = a * a - c0 / c2
    if d <= 0:
        return None
    # of a convex one it is the larger root, of a concave one the smaller: the slope 2 c2 (s - a) is positive
    p, q = int(d.p), int(d.q)
    root_p, root_q = math.isqrt(p), math.isqrt(q)
    if root_p * root_p == p and root_q * root_q == q:
        return QuadraticNumber(a + sign(c2) * flint.fmpq(root_p, root_q))
    return QuadraticNumber(a, sign(c2), d)
