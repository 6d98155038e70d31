"""What blocks accept at their door: heads of different sizes, masks, vectors that may be left out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact

__all__ = [
    "biases_of",
    "checked_temperature",
    "heads_of",
    "many",
    "mask_of",
    "points_of",
    "sizes",
    "vector_of",
]

Floats = NDArray[np.float64]


def heads_of(values: Any, name: str, *, ndim: int) -> tuple[ExactArray, list[int]]:
    """An array over heads and keys, and the number of keys of each head; a list of heads is padded.

    >>> stack, lengths = heads_of([[[1.0], [2.0]], [[3.0]]], "scores", ndim=3)
    >>> stack.shape, lengths
    ((2, 2, 1), [2, 1])
    """
    if isinstance(values, ExactArray) and len(values.shape) == ndim:
        return values, [values.shape[1]] * values.shape[0]
    if not isinstance(values, (list, tuple)):
        array = as_exact(values, name, ndim=ndim)
        return array, [array.shape[1]] * array.shape[0]
    parts = [as_exact(part, f"{name}[{h}]", ndim=ndim - 1) for h, part in enumerate(values)]
    lengths = [part.shape[0] for part in parts]
    tails = {part.shape[1:] for part in parts}
    if len(tails) > 1:
        raise DimensionMismatchError(
            f"{name} must have the same last dimension in every head, but has "
            f"{', '.join(str(part.shape[-1]) for part in parts)}."
        )
    tail = next(iter(tails)) if tails else (0,) * (ndim - 2)
    shape = (len(parts), max(lengths, default=0), *tail)
    floats = np.zeros(shape)
    for h, part in enumerate(parts):
        floats[h, : lengths[h]] = part.floats
    if not any(part.rounded for part in parts):
        return ExactArray(floats), lengths
    exact = fractions_of(ExactArray(np.zeros(shape))).copy()
    for h, part in enumerate(parts):
        exact[h, : lengths[h]] = fractions_of(part)
    return ExactArray(floats, exact), lengths


def biases_of(values: Any) -> tuple[ExactArray, list[int]]:
    """Biases over heads and keys; minus infinity is answered with the argument that was meant."""
    try:
        return heads_of(values, "biases", ndim=2)
    except NotFiniteError as error:
        raise NotFiniteError(f"{str(error)[:-1]}; leave out a key that must never win by mask.") from None


def mask_of(values: Any, lengths: list[int], n_tokens: int) -> NDArray[np.bool_]:
    """Which keys are present, read-only; padding is absent, and one row of values may serve all heads.

    >>> mask_of([True, False], [2, 1], 2)
    array([[ True, False],
           [ True, False]])
    """
    present = np.arange(n_tokens) < np.array(lengths)[:, None]
    if values is not None:
        for h, row in enumerate(_mask_rows(values, lengths, n_tokens)):
            present[h, : len(row)] &= row
    if not present.any(axis=1).all():
        h = int(np.flatnonzero(~present.any(axis=1))[0])
        raise InvalidInputError(f"mask must leave every head at least one key, but head {h} has none.")
    present.setflags(write=False)
    return present


def _mask_rows(values: Any, lengths: list[int], n_tokens: int) -> list[NDArray[np.bool_]]:
    try:
        rows = [np.asarray(row) for row in values]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"mask must hold one row of True and False per head, but was {values!r}."
        ) from error
    if rows and all(row.ndim == 0 for row in rows):
        rows = [np.array(rows)] * len(lengths)
    wrong = next((row.dtype for row in rows if row.dtype != np.bool_), None)
    if wrong is not None:
        raise InvalidInputError(
            f"mask must hold True (key present) and False (key absent), but has entries of type {wrong}."
        )
    shapes = [row.shape for row in rows]
    if shapes not in ([(n,) for n in lengths], [(n_tokens,)] * len(lengths)):
        raise DimensionMismatchError(
            f"mask must hold one entry per head and key, {sizes(lengths)}, but has rows of shapes "
            f"{', '.join(map(str, shapes)) or 'none at all'}."
        )
    return rows


def vector_of(values: ArrayLike | None, name: str, length: int, per: str) -> ExactArray:
    """A vector of a given length; zeros when left out.

    >>> vector_of(None, "b", 2, "output").floats
    array([0., 0.])
    """
    vector = ExactArray(np.zeros(length)) if values is None else as_exact(values, name, ndim=1)
    if vector.shape[0] != length:
        raise DimensionMismatchError(
            f"{name} must hold one number per {per} ({length}), but holds {vector.shape[0]}."
        )
    return vector


def points_of(x: ArrayLike, d: int) -> tuple[NDArray[Any], bool]:
    """Points as rows, not converted yet, and whether there was only one, given as a vector.

    >>> points_of([1, 2], 2)
    (array([[1, 2]]), True)
    """
    try:
        points = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise InvalidInputError("x must be a rectangular array of numbers, but its rows differ.") from error
    if points.ndim not in (1, 2) or points.shape[-1] != d:
        raise DimensionMismatchError(
            f"x must have {d} coordinates per point, shape ({d},) or (n, {d}), but has shape {points.shape}."
        )
    return np.atleast_2d(points), points.ndim == 1


def checked_temperature(temperature: float) -> float:
    """A temperature that makes sense.

    >>> checked_temperature(1)
    1.0
    """
    value = float(temperature)
    if not (value >= 0.0 and math.isfinite(value)):
        raise InvalidInputError(f"temperature must be a finite number of at least 0, but was {temperature}.")
    return value


def sizes(lengths: list[int]) -> str:
    """The heads and their keys in words.

    >>> sizes([3, 3]), sizes([3, 1])
    ('2 heads of 3 keys', 'heads of 3, 1 keys')
    """
    if len(set(lengths)) == 1:
        return f"{many(len(lengths), 'head')} of {many(lengths[0], 'key')}"
    return f"heads of {', '.join(str(n) for n in lengths)} keys"


def many(n: int, thing: str) -> str:
    """A number of things.

    >>> many(1, "head"), many(2, "head")
    ('1 head', '2 heads')
    """
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
