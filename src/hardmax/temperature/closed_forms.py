r"""The formulas of P1 Theorem VI.1 and their corrections, as real numbers rather than floats.

All of them depend on :math:`\varepsilon = e^{-r}` with :math:`r = \delta / \tau` rational. At :math:`r = 0`
they are rational, except the value :math:`\tau\log N`; elsewhere they are transcendental (Lindemann and
Weierstrass), so that every comparison below is decided by balls that are small enough, and every rounding
too.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint

from hardmax.temperature.rounding import Real, ball, is_positive, rational

__all__ = ["FORMS", "NAMES", "QUANTITIES", "closed_forms", "of_epsilon", "vacuous", "worst_rivals"]

QUANTITIES = ("value", "gradient", "hessian", "lipschitz", "affine_error")
FORMS = ("", "_sharp", "_paper")
NAMES = tuple(f"{quantity}{form}" for quantity in QUANTITIES for form in FORMS)


def closed_forms(n: int, ratio: Fraction, tau: Fraction) -> dict[str, Real]:
    """The fifteen bounds for at least two keys: five quantities, each as a true bound, sharp, and as printed.

    >>> forms = closed_forms(2, Fraction(0), Fraction(1))
    >>> forms["hessian_sharp"].fraction, forms["hessian_paper"].fraction
    (Fraction(1, 2), Fraction(1, 1))
    """
    m, k = n - 1, worst_rivals(n - 1, ratio)
    forms = {f"value{form}": _value(m, ratio, tau) for form in FORMS}
    forms["gradient"] = _capped(ratio, 2 * m, Fraction(2), Fraction(1))
    forms["gradient_sharp"] = of_epsilon(ratio, lambda e: 2 * m / (1 + m * e))
    forms["gradient_paper"] = of_epsilon(ratio, lambda e: 2 * m + 0 * e)
    for quantity, share in (("hessian", 1), ("lipschitz", 1), ("affine_error", 2)):
        scale = 1 / (share * tau)
        forms[quantity] = _capped(ratio, n, Fraction(1, 2), scale)
        forms[f"{quantity}_sharp"] = of_epsilon(ratio, lambda e: (k + 1) / (1 + k * e) ** 2, scale)
        forms[f"{quantity}_paper"] = of_epsilon(ratio, lambda e: m + 0 * e, scale)
    return forms


def of_epsilon(
    ratio: Fraction, slope: Callable[[Any], Any], scale: Fraction = Fraction(1), *, order: int = 1
) -> Real:
    r"""The number :math:`c\,\varepsilon^{k} g(\varepsilon)`, k = 0 or 1 being the order and g not near zero.

    >>> of_epsilon(Fraction(0), lambda e: 1 / (1 + e)).fraction
    Fraction(1, 2)
    """
    if ratio == 0:
        return rational(Fraction(slope(Fraction(1))) * scale)
    return Real(
        None,
        lambda: ball(scale) * slope(_epsilon(ratio)) * (_epsilon(ratio) if order else 1),
        lambda: ball(scale).log() + slope(_epsilon(ratio)).log() - order * ball(ratio),
    )


def _value(m: int, ratio: Fraction, tau: Fraction) -> Real:
    r"""The number :math:`\tau\log(1 + m\varepsilon)`."""

    def log() -> flint.arb:
        x = m * _epsilon(ratio)
        if x < ball(
            Fraction(1, 2 ** (4 * flint.ctx.prec))
        ):  # x - x^2/2 <= log(1 + x) <= x, and x may underflow
            share = (1 - x.upper()).union(flint.arb(1))
            return ball(tau).log() + ball(m).log() - ball(ratio) + share.log()
        return ball(tau).log() + x.log1p().log()

    return Real(None, lambda: ball(tau) * (m * _epsilon(ratio)).log1p(), log)


def _capped(ratio: Fraction, slope: int, cap: Fraction, scale: Fraction) -> Real:
    r"""The number :math:`c \min(a\varepsilon, b)`."""
    if at_least(ratio, cap / slope):
        return rational(cap * scale)
    return of_epsilon(ratio, lambda e: slope + 0 * e, scale)


def _epsilon(ratio: Fraction) -> flint.arb:
    return (-ball(ratio)).exp()


def at_least(ratio: Fraction, level: Fraction) -> bool:
    r"""Whether :math:`\varepsilon \ge` a positive level; they are equal only when both are 1.

    >>> at_least(Fraction(1), Fraction(1, 3)), at_least(Fraction(2), Fraction(1, 3))
    (True, False)
    """
    if ratio == 0:
        return level <= 1
    return level < 1 and is_positive(lambda: -ball(ratio) - ball(level).log())


def worst_rivals(m: int, ratio: Fraction) -> int:
    r"""The k from 1 to m at which :math:`(k+1)\varepsilon/(1+k\varepsilon)^2` is largest.

    The term of k + 1 beats that of k exactly if :math:`(k^2+3k+1)\varepsilon^2 + 2\varepsilon < 1`. So the
    terms rise and then fall, and halving finds where.

    >>> worst_rivals(511, Fraction(16)), worst_rivals(511, Fraction(1, 4)), worst_rivals(511, Fraction(2))
    (511, 1, 5)
    """
    low, high = 1, m
    while low < high:
        middle = (low + high) // 2
        if _rises(middle, ratio):
            low = middle + 1
        else:
            high = middle
    return low


def _rises(k: int, ratio: Fraction) -> bool:
    if ratio == 0:
        return False  # the terms are 1 / (k + 1)

    def difference() -> flint.arb:
        e = _epsilon(ratio)
        return 1 - 2 * e - (k * k + 3 * k + 1) * e * e

    return is_positive(difference)


def vacuous(n: int, ratio: Fraction) -> tuple[str, ...]:
    """Which of the true bounds say no more than holds without them (see :class:`StabilityBounds`).

    >>> vacuous(512, Fraction(1, 4)), vacuous(512, Fraction(16))
    (('value', 'gradient', 'hessian', 'lipschitz', 'affine_error'), ())
    """

    def excess() -> flint.arb:  # log(1 + m e) >= r means 1 + m e >= 1 / e
        e = _epsilon(ratio)
        return (n - 1) * e * e + e - 1

    empty = ["value"] if ratio == 0 or is_positive(excess) else []
    if at_least(ratio, Fraction(1, n - 1)):
        empty.append("gradient")
    if at_least(ratio, Fraction(1, 2 * n)):
        empty += ["hessian", "lipschitz", "affine_error"]
    return tuple(empty)
