"""Files that users give: plain numbers, read without ever running or unpickling anything.

``.npy`` is one array, ``.npz`` a set of named arrays or a saved result, ``.csv`` a table of numbers with an
optional line of column names. A csv entry may be a fraction such as ``1/3``; it is kept exact. Whatever is
wrong with a file is said in one sentence that names the file.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax import storage
from hardmax.errors import DimensionMismatchError, FileFormatError, InvalidInputError, NotFiniteError
from hardmax.results import load
from hardmax.untrusted import opened_archive, parsed_npy, plain_bytes, plain_text

Number = float | Fraction

_LONGEST_ARRAY = 2**31  # bytes of an npy file


def read_arrays(path: Path, *, masked: bool = False) -> dict[str, NDArray[Any]]:
    """Every array of a file under its name; the one of a ``.npy`` or ``.csv`` file under the file's name.

    With ``masked``, minus infinity may stand for what is left out.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file, but is a folder.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path} must hold numbers, but is empty (0 bytes).")
    match path.suffix.lower():
        case ".npy":
            arrays = {path.name: parsed_npy(plain_bytes(path, most=_LONGEST_ARRAY), str(path))}
        case ".npz":
            arrays = _read_npz(path)
        case ".csv":
            arrays = {path.name: _read_csv(path)}
        case suffix:
            raise FileFormatError(
                f"{path} must be a .npy, .npz or .csv file, but ends in {suffix or 'nothing'!r}."
            )
    for name, array in arrays.items():
        _check_numbers(array, str(path) if len(arrays) == 1 else f"{path}[{name}]", masked)
    return arrays


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    with open(path, "rb") as file, opened_archive(file, str(path), "an npz file") as archive:
        names = [name for name in archive.names if name.endswith(".npy")]
        arrays = {name[:-4]: parsed_npy(archive.read(name), f"{path}[{name[:-4]}]") for name in names}
    if not arrays:
        raise FileFormatError(f"{path} must hold arrays, but holds none.")
    return arrays


def _read_csv(path: Path) -> NDArray[Any]:
    try:
        text = plain_text(path)
        lines = [
            (i, row) for i, row in enumerate(csv.reader(io.StringIO(text)), 1) if any(e.strip() for e in row)
        ]
    except csv.Error as error:
        raise FileFormatError(f"{path} must be a text file of numbers, but is not text.") from error
    lines = [(i, row) for i, row in lines if not row[0].lstrip().startswith("#")]
    if lines and not any(_is_number(entry) for entry in lines[0][1]):
        lines = lines[1:]  # column names
    if not lines:
        raise FileFormatError(f"{path} must hold numbers, but has no line of them.")
    width = len(lines[0][1])
    rows = []
    for i, row in lines:
        if len(row) != width:
            raise DimensionMismatchError(
                f"{path} must have {width} numbers on every line, but line {i} has {len(row)}."
            )
        for entry in row:
            if not _is_number(entry):
                raise FileFormatError(f"{path} must hold numbers, but line {i} has {entry.strip()[:40]!r}.")
        rows.append([exact_number(entry) for entry in row])
    exact = any(isinstance(entry, Fraction) for row in rows for entry in row)
    return np.array(rows, dtype=object if exact else np.float64)


def exact_number(text: str) -> Number:
    """A number as it was typed: a fraction such as ``1/3`` stays one.

    >>> exact_number("1/3"), exact_number("-4")
    (Fraction(1, 3), -4.0)
    """
    try:
        if "_" in text or not text.isascii():
            raise ValueError(text)
        return Fraction(text.strip()) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidInputError(
            f"a number such as -4, 0.5 or 1/3 is needed, but {text[:40]!r} was given."
        ) from None


def _is_number(entry: str) -> bool:
    try:
        exact_number(entry)
    except InvalidInputError:
        return False
    return True


def _check_numbers(array: NDArray[Any], where: str, masked: bool) -> None:
    if array.dtype.kind not in "fiuO":
        raise InvalidInputError(f"{where} must hold real numbers, but holds {array.dtype.name} values.")
    if array.size == 0:
        raise InvalidInputError(f"{where} must hold numbers, but has shape {array.shape}.")
    if array.dtype.kind == "f" and not (usable := np.isfinite(array) | (masked & np.isneginf(array))).all():
        index = tuple(int(i) for i in np.argwhere(~usable)[0])
        raise NotFiniteError(f"{where} must be finite, but holds {array[index]} at index {list(index)}.")


def read_result(path: Path, *kinds: str) -> Any:
    """The saved result in ``path``, which must be of a kind; ``None`` when the file holds plain arrays."""
    if path.suffix.lower() != ".npz" or not path.is_file() or not zipfile.is_zipfile(path):
        return None
    with open(path, "rb") as file, opened_archive(file, str(path), "an npz file") as archive:
        if storage.HEADER not in archive:
            return None
    result = load(path)
    if result.kind not in kinds:
        raise InvalidInputError(f"{path} must hold a {' or '.join(kinds)}, but holds a {result.kind}.")
    return result


def _read_one(path: Path, *, masked: bool = False) -> NDArray[Any]:
    arrays = read_arrays(path, masked=masked)
    if len(arrays) != 1:
        raise InvalidInputError(f"{path} must hold one array, but holds {len(arrays)}: {', '.join(arrays)}.")
    return next(iter(arrays.values()))


def read_matrix(path: Path, rows: str) -> NDArray[Any]:
    """The one matrix in ``path``; ``rows`` says what its rows are, for the error sentence."""
    array = _read_one(path)
    if array.ndim != 2:
        raise DimensionMismatchError(
            f"{path} must be a matrix with one row per {rows}, but has shape {array.shape}."
        )
    return array


def read_scores(path: Path) -> NDArray[Any]:
    """The one array of scores in ``path``, in which minus infinity masks a key."""
    return _read_one(path, masked=True)


def read_vector(path: Path) -> NDArray[Any]:
    """The one vector in ``path``; a matrix with one row or one column counts as one."""
    return _as_vector(_read_one(path), str(path))


def _as_vector(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise DimensionMismatchError(f"{where} must be one list of numbers, but has shape {array.shape}.")
    return array


def read_heads(paths: Sequence[Path]) -> list[NDArray[Any]]:
    """The heads in some files: one matrix per head, several named matrices, or a stack of shape (H, N, d)."""
    heads: list[NDArray[Any]] = []
    for where, array in _named_arrays(paths):
        if array.ndim not in (2, 3):
            raise DimensionMismatchError(
                f"{where} must be a head (N, d) or a stack (H, N, d), but has shape {array.shape}."
            )
        heads.extend(array if array.ndim == 3 else [array])
    return heads


def read_vectors(paths: Sequence[Path]) -> list[NDArray[Any]]:
    """One vector per head: one file per head, several named vectors, or a matrix of shape (H, N)."""
    arrays = list(_named_arrays(paths))
    if len(arrays) == 1 and arrays[0][1].ndim == 2:
        return list(arrays[0][1])
    return [_as_vector(array, where) for where, array in arrays]


def _named_arrays(paths: Sequence[Path]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of some files, each with the words that say where it comes from."""
    for path in paths:
        arrays = read_arrays(path)
        for name, array in arrays.items():
            yield (str(path) if len(arrays) == 1 else f"{path}[{name}]"), array


@contextmanager
def naming(*paths: Path | None) -> Iterator[None]:
    """Name the files in front of what the mathematics says about their contents."""
    try:
        yield
    except InvalidInputError as error:
        files = ", ".join(str(path) for path in paths if path is not None)
        raise error.about(files) from error
