"""Numbers on the command line: plain decimal digits, so that no typing error becomes another number.

Python also reads ``1_000`` and digits of other scripts; such a text is more often a slip than a number.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import click

from hardmax.cli.inputs import Number, exact_number
from hardmax.errors import InvalidInputError

_DIGITS = re.compile(r"[+-]?[0-9]{1,4000}")


def is_whole(text: str) -> bool:
    """Whether a text is a whole number in decimal digits.

    >>> [is_whole(text) for text in ("12", "-3", "1_000", "1.0", "", "٣")]
    [True, True, False, False, False, False]
    """
    return _DIGITS.fullmatch(text) is not None


class _InDigits(click.ParamType):
    """What both kinds of whole numbers share."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not is_whole(value):
            self.fail(f"{value!r} is not a whole number in decimal digits.", param, ctx)
        return super().convert(value, param, ctx)


class _Whole(_InDigits, click.types.IntParamType):
    """A whole number."""


class WholeRange(_InDigits, click.IntRange):
    """A whole number within bounds."""


class _Real(click.types.FloatParamType):
    """A decimal number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            self.fail(f"{value!r} is not a number in decimal digits.", param, ctx)
        return super().convert(value, param, ctx)


class _Number(click.ParamType):
    """A number or a fraction."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Number:
        try:
            return value if isinstance(value, (float, Fraction)) else exact_number(str(value))
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


WHOLE = _Whole()
REAL = _Real()
NUMBER = _Number()
TIME_LIMIT = click.option("--time-limit", type=REAL, metavar="S", help="Give up after this many seconds.")
