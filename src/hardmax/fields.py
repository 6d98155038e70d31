"""What a file says about a result, compared with what its class says: types and shapes.

A dataclass states the type of every field in its annotations. A class with arrays also states their shapes,
``_shapes = {"terms": "walls 2", "start": "walls+1"}``: a name stands for the same length wherever it occurs,
a number for itself, ``name+1`` for one more, and ``...`` for any further axes. A tuple has one axis.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from hardmax.errors import DamagedFileError


@cache
def _hints(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except NameError:  # a name that only the type checker imports
        return {}


def check_types(cls: type[Any], values: Mapping[str, Any]) -> None:
    """Refuse values that are not of the types of the fields of ``cls``.

    Raises
    ------
    DamagedFileError
        Naming the field.
    """
    hints: dict[str, Any] = _hints(cls)  # type: ignore[arg-type]
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            shown = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
            raise DamagedFileError(f"its {name} must be {_words(hints[name])}, but is {shown}.")
        if isinstance(value, Mapping):
            lengths = {np.shape(v)[:1] for v in value.values() if isinstance(v, np.ndarray)}
            if len(lengths) > 1 or lengths == {()}:
                raise DamagedFileError(f"the columns of its {name} must be of one length, but are not.")
        if name.startswith("n_") and isinstance(value, int) and value < 0:
            raise DamagedFileError(f"its {name} must not be negative, but is {value}.")


def check_object(value: Any) -> None:
    """Check a dataclass and every dataclass in it as :func:`check_types` and ``_shapes`` say.

    Raises
    ------
    DamagedFileError
        Naming the field.
    """
    if isinstance(value, (tuple, list)):
        for item in value:
            check_object(item)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {name: part for name, part in vars(value).items() if name in _hints(type(value))}
        check_types(type(value), parts)
        check_shapes(parts, getattr(value, "_shapes", {}))
        for part in parts.values():
            check_object(part)


def _fits(value: Any, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in args)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in args)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _fits_dtype(value.dtype, args)
    if origin in (tuple, list, collections.abc.Sequence):
        return isinstance(value, (tuple, list)) and _fit_items(value, args)
    if origin in (dict, collections.abc.Mapping) or hint is dict:
        return isinstance(value, Mapping) and (
            not args or all(_fits(key, args[0]) and _fits(item, args[1]) for key, item in value.items())
        )
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, (bool, np.bool_))
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint in (str, Fraction) or (isinstance(hint, type) and is_dataclass(hint)):
        return isinstance(value, hint)
    return True


def _fit_items(value: tuple[Any, ...] | list[Any], args: tuple[Any, ...]) -> bool:
    if len(args) == 2 and args[1] is Ellipsis:
        args = (args[0],) * len(value)
    elif len(args) == 1:
        args = args * len(value)
    return not args or (
        len(args) == len(value) and all(_fits(item, part) for item, part in zip(value, args, strict=True))
    )


def _fits_dtype(dtype: np.dtype[Any], args: tuple[Any, ...]) -> bool:
    (wanted,) = get_args(args[1]) or (Any,)
    return wanted is Any or dtype == np.dtype(wanted)


def _words(hint: Any) -> str:
    if get_origin(hint) is np.ndarray:
        (wanted,) = get_args(get_args(hint)[1]) or (Any,)
        return "an array" if wanted is Any else f"an array of {np.dtype(wanted)}"
    return getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(hint)


def check_shapes(values: Mapping[str, Any], shapes: Mapping[str, str]) -> dict[str, int]:
    """The lengths that names in ``shapes`` stand for.

    Raises
    ------
    DamagedFileError
        Naming a field whose shape does not fit the others.

    Examples
    --------
    >>> check_shapes({"x": np.zeros((3, 2)), "start": np.arange(4)}, {"x": "n 2", "start": "n+1"})
    {'n': 3}
    >>> check_shapes({"x": np.zeros((3, 2)), "start": np.arange(5)}, {"x": "n 2", "start": "n+1"})
    Traceback (most recent call last):
    ...
    hardmax.errors.DamagedFileError: its start must have the shape (4,), but has the shape (5,).
    """
    known: dict[str, int] = {}
    for name, stated in shapes.items():
        value = values.get(name)
        if value is None:
            continue
        shape = value.shape if isinstance(value, np.ndarray) else (len(value),)
        wanted = stated.split()
        if wanted and wanted[-1] == "...":
            wanted = wanted[:-1]
            shape = shape[: len(wanted)]
        if len(shape) == len(wanted):
            for size, word in zip(shape, wanted, strict=True):
                known.setdefault(word.removesuffix("+1"), size - word.endswith("+1"))
        expected = tuple(
            int(word) if word.isdecimal() else known.get(word.removesuffix("+1"), -1) + word.endswith("+1")
            for word in wanted
        )
        if shape != expected:
            meant = ", ".join("any" if size < 0 else str(size) for size in expected)
            raise DamagedFileError(
                f"its {name} must have the shape ({meant}{',' * (len(expected) == 1)}), but has the shape "
                f"{tuple(shape)}."
            )
    return {name: size for name, size in known.items() if not name.isdecimal()}


def check_range(name: str, array: Any, low: float, high: float) -> None:
    """Refuse an array with an entry below ``low``, not below ``high``, or NaN.

    Raises
    ------
    DamagedFileError
        Naming the array.
    """
    array = np.asarray(array)
    if array.size and not (array.min() >= low and array.max() < high):
        raise DamagedFileError(f"its {name} must be in the range from {low} to below {high}, but is not.")


def check_finite(name: str, array: Any) -> None:
    """Refuse an array with NaN or an infinity.

    Raises
    ------
    DamagedFileError
        Naming the array.
    """
    if not np.isfinite(array).all():
        raise DamagedFileError(f"its {name} must be finite, but holds NaN or an infinity.")


def check_offsets(name: str, offsets: Any, rows: int) -> None:
    """Refuse offsets that do not ascend from 0 to ``rows``.

    Raises
    ------
    DamagedFileError
        Naming the array.
    """
    if (
        not isinstance(offsets, np.ndarray)
        or offsets.dtype != np.int64
        or offsets.ndim != 1
        or not len(offsets)
        or offsets[0] != 0
        or offsets[-1] != rows
        or (offsets[1:] < offsets[:-1]).any()
    ):
        raise DamagedFileError(f"its {name} must be int64 offsets that ascend from 0 to {rows}, but is not.")
