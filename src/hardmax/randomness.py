"""Random numbers: the generator that an option ``rng`` stands for, and how many may be made at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax.errors import InvalidInputError, written

MOST_NUMBERS = 2**28
"""Numbers that are drawn at once: two gigabytes."""

MOST_EXACT = 2**22
"""Exact numbers that are made at once: each is an object of Python."""


def generator_of(rng: Any) -> np.random.Generator:
    """The generator that a seed stands for; a generator is returned as it is.

    Examples
    --------
    >>> generator_of(-1)
    Traceback (most recent call last):
    ...
    hardmax.errors.InvalidInputError: rng must be a whole number of at least 0 or a numpy Generator, but was
    -1.
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"rng must be a whole number of at least 0 or a numpy Generator, but was {written(rng)}."
        ) from None


def check_room(what: str, *sizes: int, most: int = MOST_NUMBERS) -> None:
    """Refuse to make more numbers than the memory of a common machine holds.

    Examples
    --------
    >>> check_room("samples", 10**6, 10**4, 2)
    Traceback (most recent call last):
    ...
    hardmax.errors.InvalidInputError: samples must hold at most 268,435,456 numbers, but 1000000 x 10000 x 2
    were asked for; ask for fewer or smaller ones.
    """
    if math.prod(sizes) > most:
        raise InvalidInputError(
            f"{what} must hold at most {most:,} numbers, but {' x '.join(map(written, sizes))} were asked "
            "for; ask for fewer or smaller ones."
        )
