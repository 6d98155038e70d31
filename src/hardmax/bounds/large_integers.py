"""Whole numbers that are too long to print: their logarithm, and how a person reads them.

Python refuses to turn an integer of more than 4300 digits into decimal text, and nobody would read it. Bounds
are therefore kept as base and power, compared as integers, and shown by their leading digits. What would take
minutes to compute is refused before it is begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from math import e, floor, log10
from operator import index
from typing import Any

from hardmax.errors import InvalidInputError, written

_PRECISION = 60
_LEADING_BITS = 180  # more than the precision above can tell apart
_IN_FULL = 10**15
LARGEST_DIMENSION = 10**5
LARGEST_POWER = 10**40  # beyond, the precision above would not give four leading digits
MOST_HEADS = 10**6
MOST_DIGITS = 10**7  # of one number
_MOST_WORK = 2e10  # digits that a sum of many numbers adds up: seconds


def log10_of(base: int, power: int = 1) -> float:
    """The decimal logarithm of ``base ** power``, without computing the power.

    >>> round(log10_of(512, 8), 4), log10_of(10, 10**6)
    (21.6742, 1000000.0)
    """
    return float(_log10(base, power))


def readable(base: int, power: float = 1) -> str:
    """``base ** power`` in full up to 15 digits, by its four leading digits and a power of ten beyond.

    With a power that is no integer the number is none either and is rounded to four digits.

    >>> readable(92), readable(512, 8), readable(99999999, 5), readable(2, 10**6), readable(10, 0.5)
    ('92', '4.722e21', '1.000e40', '9.901e301029', '3.162')
    """
    if isinstance(power, int) and power * base.bit_length() < 64 and base**power < _IN_FULL:
        return str(base**power)
    with localcontext() as context:
        context.prec = _PRECISION
        logarithm = _log10(base, power)
        exponent = floor(logarithm)
        leading = int((10 ** (logarithm - exponent) * 1000).to_integral_value())
    if leading == 10_000:
        leading, exponent = 1000, exponent + 1
    if -3 < exponent < 15:
        return f"{leading * 10.0 ** (exponent - 3):.4g}"
    return f"{leading // 1000}.{leading % 1000:03d}e{exponent}"


def _log10(base: int, power: float) -> Decimal:
    with localcontext() as context:
        context.prec = _PRECISION
        shift = max(0, base.bit_length() - _LEADING_BITS)
        return (Decimal(base >> shift).log10() + shift * Decimal(2).log10()) * Decimal(power)


def check_digits(digits: float, steps: int = 1) -> None:
    """Refuse what takes so many ``steps`` with numbers of so many ``digits`` that nobody would wait for it.

    >>> check_digits(1e6), check_digits(1e4, 10**5)
    (None, None)
    >>> check_digits(1e9)
    Traceback (most recent call last):
    ...
    hardmax.errors.InvalidInputError: sizes must be smaller, because this bound has numbers of about 1e+09
    digits; try a smaller dimension, or fewer keys, heads, units or blocks.
    """
    if digits > MOST_DIGITS or min(steps, 10**300) * digits > _MOST_WORK:
        many = f"takes {written(steps)} steps with" if digits <= MOST_DIGITS else "has"
        raise InvalidInputError(
            f"sizes must be smaller, because this bound {many} numbers of about {digits:.3g} digits; try a "
            "smaller dimension, or fewer keys, heads, units or blocks."
        )


def binomial_digits(n: int, j: int) -> float:
    """No fewer decimal digits than binom(n, j) has, without computing it.

    >>> round(binomial_digits(10, 5), 2), binomial_digits(10**40, 0), binomial_digits(3, 7)
    (3.01, 0.0, 0.0)
    """
    j = min(j, n - j)
    if j <= 0:
        return 0.0
    # binom(n, j) <= 2^n, and <= (e n / j)^j; beyond the range of floats the exact value does not matter
    most = 10**300
    return min(log10(2) * min(n, most), min(j, most) * (log10(e) + log10(n) - log10(j)))


def dimension(name: str, value: Any) -> int:
    """``value`` as a dimension whose bounds can be computed: they have some digits for each unit of it."""
    number = positive(name, value)
    if number > LARGEST_DIMENSION:
        raise InvalidInputError(
            f"{name} must be at most {LARGEST_DIMENSION:,}, beyond which bounds have too many digits, but "
            f"was {written(number)}."
        )
    return number


def positive(name: str, value: Any, *, least: int = 1) -> int:
    """``value`` as an integer of at least ``least``, or the sentence that says what it was."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InvalidInputError(f"{name} must be an integer of at least {least}, but was {written(value)}.")
    return number


def whole_numbers(name: str, values: Any, *, length: int | None = None, least: int = 1) -> tuple[int, ...]:
    """A sequence of integers of at least ``least``; one number stands for ``length`` equal ones."""
    if length is not None and not isinstance(values, Sequence) and not hasattr(values, "__len__"):
        if length > MOST_HEADS:
            raise InvalidInputError(f"heads must be at most {MOST_HEADS:,}, but was {written(length)}.")
        return (positive(name, values, least=least),) * length
    try:
        numbers = tuple(positive(name, value, least=least) for value in values)
    except TypeError:
        raise InvalidInputError(f"{name} must be a sequence of integers, but was {values!r}.") from None
    if length is not None and len(numbers) != length:
        raise InvalidInputError(
            f"{name} must be one integer, or one for each of the {length} heads, but holds {len(numbers)}."
        )
    return numbers
