"""Whole numbers that are too long to print: their logarithm, and how a person reads them.

Python refuses to turn an integer of more than 4300 digits into decimal text, and nobody would read it. Bounds
are therefore kept as base and power, compared as integers, and shown by their leading digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from math import floor
from operator import index
from typing import Any

from hardmax.errors import InvalidInputError

_PRECISION = 60
_LEADING_BITS = 180  # more than the precision above can tell apart
_IN_FULL = 10**15
LARGEST_DIMENSION = 10**5


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


def dimension(name: str, value: Any) -> int:
    """``value`` as a dimension whose bounds can be computed: they have some digits for each unit of it."""
    number = positive(name, value)
    if number > LARGEST_DIMENSION:
        raise InvalidInputError(
            f"{name} must be at most {LARGEST_DIMENSION:,}, beyond which bounds have too many digits, but "
            f"was {number}."
        )
    return number


def positive(name: str, value: Any, *, least: int = 1) -> int:
    """``value`` as an integer of at least ``least``, or the sentence that says what it was."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InvalidInputError(f"{name} must be an integer of at least {least}, but was {value!r}.")
    return number


def whole_numbers(name: str, values: Any, *, length: int | None = None, least: int = 1) -> tuple[int, ...]:
    """A sequence of integers of at least ``least``; one number stands for ``length`` equal ones."""
    if length is not None and not isinstance(values, Sequence) and not hasattr(values, "__len__"):
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
