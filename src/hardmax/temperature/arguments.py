"""What the functions about temperature accept: temperatures, margins, tolerances, scores with masks."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError, written


def positive_temperature(temperature: float | Fraction) -> Fraction:
    """A temperature above zero, exactly.

    >>> positive_temperature(0.125)
    Fraction(1, 8)
    """
    value = _number("temperature", temperature)
    if value is None or not 0 < value <= sys.float_info.max:
        raise InvalidInputError(
            f"temperature must be a finite number above 0, "
            f"but was {written(temperature)}; at temperature 0 attention "
            "is hardmax itself."
        )
    return value


def checked_margin(margin: float | Fraction) -> Fraction | None:
    """A margin exactly; ``None`` stands for infinity, where there is no rival.

    >>> checked_margin(0.5), checked_margin(float("inf"))
    (Fraction(1, 2), None)
    """
    value = _number("margin", margin)
    if value is None and margin == math.inf:
        return None
    if value is None or value < 0:
        raise InvalidInputError(
            f"margin must be a number of at least 0, the lead of the largest score, "
            f"but was {written(margin)}."
        )
    return value


def checked_tolerance(tolerance: float) -> float:
    """A tolerance strictly between 0 and 1."""
    value = _number("tolerance", tolerance)
    if value is None or not 0 < value < 1:
        raise InvalidInputError(f"tolerance must lie between 0 and 1, but was {written(tolerance)}.")
    return float(value)


def _number(name: str, value: Any) -> Fraction | None:
    """A finite number as a fraction; ``None`` if it is not finite."""
    if isinstance(value, (bool, str)):
        raise InvalidInputError(f"{name} must be a number, but was {value!r}.")
    try:
        return Fraction(value) if isinstance(value, (int, Fraction)) else Fraction(float(value))
    except (ValueError, OverflowError):
        return None
    except TypeError:
        raise InvalidInputError(f"{name} must be a number, but was {value!r}.") from None


def score_table(scores: ArrayLike) -> NDArray[Any]:
    """Scores with one query per row, not yet converted to float64: that is done part by part.

    >>> score_table([1.0, 2.0]).shape
    (1, 2)
    """
    try:
        table = np.asarray(scores)
    except ValueError as error:
        raise DimensionMismatchError("scores must have equally many keys in every row.") from error
    if table.dtype == object:
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError("scores must hold real numbers, but hold something else.") from error
    if table.dtype.kind not in "fiu":
        raise InvalidInputError(f"scores must hold real numbers, but hold {table.dtype.name} values.")
    if table.ndim == 0 or table.size == 0:
        raise InvalidInputError(
            f"scores must hold at least one query and one key, but has shape {table.shape}."
        )
    return table[None] if table.ndim == 1 else table


def check_rows(scores: NDArray[np.float64], first: int) -> None:
    """Refuse rows with NaN, plus infinity, or nothing but masked keys; ``first`` is the number of row 0."""
    wrong = np.isnan(scores) | (scores == np.inf)
    if wrong.any():
        row, key = (int(i) for i in np.argwhere(wrong)[0])
        raise NotFiniteError(
            f"scores must be finite, or -inf for a masked key, but query {first + row} has "
            f"{scores[row, key]} at key {key}."
        )
    masked = np.isneginf(scores).all(axis=1)
    if masked.any():
        raise InvalidInputError(
            f"scores must leave every query a key, but all keys of query {first + int(masked.argmax())} are "
            "masked (-inf)."
        )
