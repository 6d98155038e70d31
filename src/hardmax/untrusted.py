"""Bytes from elsewhere: JSON, npy and zip, read as data with their sizes known before memory is taken.

A file may have been cut off, damaged or written by somebody who wants to do harm. Nothing here evaluates or
unpickles. Every length that a file states is compared with what is there before anything of that length is
made, and whatever a parser of another package raises becomes one sentence that names the file and the member;
the original exception is its cause.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DamagedFileError, FileFormatError, HardmaxError

# What zipfile raises on damage: OSError for a wild offset, RuntimeError for a bit that says "encrypted".
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
LONGEST_TEXT = 2**28  # bytes of a JSON text
MOST_VALUES = 2**23  # values of a JSON text: each takes about a hundred bytes of memory
MOST_UNPACKED = 2**29  # bytes that the members of a small archive may unpack to together
MOST_RATIO = 64  # beyond that, how many times the size of the archive
MOST_MEMBERS = 100_000
_DIGITS = 4000  # of integers in decimal; Python itself refuses to read more than 4300
_NPY = b"\x93NUMPY"
_LONGEST_NPY_HEADER = 2**16
_NPY_HEADER = re.compile(
    r"\{\s*'descr'\s*:\s*(?P<descr>'[^']*'|\[.*\])\s*,\s*'fortran_order'\s*:\s*(?P<fortran>True|False)\s*,"
    r"\s*'shape'\s*:\s*\((?P<shape>[0-9L,\s]*)\)\s*,?\s*\}\s*",
    re.DOTALL,
)
_PLAIN = re.compile(r"[<>|=]?(b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|[US][0-9]{1,6})")
_RATIO = re.compile(r"(-?)(0x[0-9a-f]+|[0-9]+)(?:/(0x[0-9a-f]+|[0-9]+))?")


def check_plain(path: Path) -> None:
    """Refuse pipes and devices, which may never end.

    Examples
    --------
    >>> check_plain(Path("/dev/null"))
    Traceback (most recent call last):
    ...
    hardmax.errors.FileFormatError: /dev/null must be a file, but is a pipe or a device.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileFormatError(f"{path} must be a file, but is a pipe or a device.")


def plain_bytes(path: Path, most: int = LONGEST_TEXT) -> bytes:
    """What a file holds, unless it is a pipe, a device, or longer than ``most`` bytes.

    Raises
    ------
    FileFormatError
        Before anything is waited for, and before memory is taken.

    Examples
    --------
    >>> plain_bytes(Path("/dev/zero"))
    Traceback (most recent call last):
    ...
    hardmax.errors.FileFormatError: /dev/zero must be a file, but is a pipe or a device.
    """
    check_plain(path)
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            content = file.read(most + 1) if size <= most else b""  # some hold more than their size says
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
        raise
    except (OSError, ValueError) as error:  # links in a circle, names that no file can have
        raise FileFormatError(
            f"{path} cannot be read ({getattr(error, 'strerror', None) or error})."
        ) from error
    if max(size, len(content)) > most:
        raise FileFormatError(f"{path} must have at most {most:,} bytes, but has more.")
    return content


def plain_text(path: Path, most: int = LONGEST_TEXT) -> str:
    """The text of a file in UTF-8, with or without a mark at its beginning; lines end in a newline.

    Raises
    ------
    FileFormatError
        As by :func:`plain_bytes`, and for bytes that are no text.
    """
    try:
        with io.TextIOWrapper(io.BytesIO(plain_bytes(path, most)), encoding="utf-8-sig") as text:
            return text.read()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} must be a text file in UTF-8, but is not.") from error


# JSON
# ----------------------------------------------------------------------------------------------------------


def parsed_json(text: bytes | str, where: str) -> Any:
    """The value of a JSON text from elsewhere; NaN and infinities, which JSON does not have, are refused.

    Raises
    ------
    DamagedFileError
        Naming ``where`` the text stands and what is wrong with it.

    Examples
    --------
    >>> parsed_json('{"n": [1, 2]}', "header")
    {'n': [1, 2]}
    >>> parsed_json("[" * 100_000, "header")
    Traceback (most recent call last):
    ...
    hardmax.errors.DamagedFileError: header must be JSON, but is nested too deeply.
    """
    if len(text) > LONGEST_TEXT:
        raise DamagedFileError(f"{where} must have at most {LONGEST_TEXT:,} bytes, but has {len(text):,}.")
    marks = text.encode(errors="replace") if isinstance(text, str) else text
    if sum(marks.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise DamagedFileError(f"{where} must hold at most {MOST_VALUES:,} values, but holds more.")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise DamagedFileError(f"{where} must be JSON, but is nested too deeply.") from error
    except (ValueError, MemoryError) as error:  # also an integer with more digits than Python reads
        raise DamagedFileError(f"{where} must be JSON, but is not: {error}.") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def ratio_text(value: Any) -> str:
    """An exact number as text: ``p/q`` or ``p``, in hexadecimal where decimal digits would be too many.

    Examples
    --------
    >>> ratio_text(Fraction(-1, 3)), ratio_text(7), len(ratio_text(1 << 40_000))
    ('-1/3', '7', 10003)
    """
    number = Fraction(value)
    p, q = number.numerator, number.denominator
    text = str if max(abs(p), q).bit_length() < 3 * _DIGITS else hex
    return text(p) if q == 1 else f"{text(p)}/{text(q)}"


def ratio_of(text: Any) -> Fraction:
    """The number that :func:`ratio_text` wrote; no exponents, which could stand for numbers of any size.

    Raises
    ------
    ValueError
        When the text is something else.
    """
    match = _RATIO.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"an exact number such as 1/3 is needed, but there is {text!r}")
    sign, p, q = match.groups()
    denominator = 1 if q is None else int(q, 16 if q.startswith("0x") else 10)
    if denominator == 0:
        raise ValueError(f"an exact number such as 1/3 is needed, but there is {text!r}")
    return Fraction(int(f"{sign}{p}", 16 if p.startswith("0x") else 10), denominator)


# npy
# ----------------------------------------------------------------------------------------------------------


def parsed_npy(data: bytes, where: str) -> NDArray[Any]:
    """The array of an npy file from elsewhere, read-only; its header is compared with the bytes that follow.

    Raises
    ------
    DamagedFileError
        When the header is no header of numbers, or claims another size than that of the data.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(6).reshape(2, 3))
    >>> parsed_npy(file.getvalue(), "keys.npy")
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    if not data.startswith(_NPY) or len(data) < 10:
        raise DamagedFileError(f"{where} must be a numpy array, but is something else with that name.")
    wide = data[6] > 1
    begin = 12 if wide else 10
    length = int.from_bytes(data[8:begin], "little")
    if length > min(len(data) - begin, _LONGEST_NPY_HEADER):
        raise DamagedFileError(f"{where} is truncated or damaged: its header does not fit into it.")
    match = _NPY_HEADER.fullmatch(data[begin : begin + length].decode("latin-1"))
    if match is None:
        raise DamagedFileError(f"{where} is truncated or damaged: its header cannot be read.")
    descr = match["descr"].strip("'")
    if "O" in descr:
        raise DamagedFileError(f"{where} must be a plain array of numbers, but holds Python objects.")
    if not _PLAIN.fullmatch(descr):
        raise DamagedFileError(f"{where} must be a plain array of numbers, but its type is {descr!r}.")
    sizes = [size.strip().rstrip("L") for size in match["shape"].split(",") if size.strip()]
    if len(sizes) > 32 or any(not size.isdecimal() or len(size) > 18 for size in sizes):
        raise DamagedFileError(f"{where} is truncated or damaged: its shape cannot be read.")
    shape = tuple(map(int, sizes))
    try:
        dtype = np.dtype(descr)
    except TypeError as error:
        raise DamagedFileError(
            f"{where} must be a plain array of numbers, but its type is {descr!r}."
        ) from error
    stated, there = math.prod(shape) * dtype.itemsize, len(data) - begin - length
    if stated != there:
        raise DamagedFileError(
            f"{where} is truncated or damaged: a plain array of shape {shape} needs {stated:,} bytes, but "
            f"{there:,} follow its header."
        )
    array = np.frombuffer(data, dtype=dtype, offset=begin + length) if stated else np.empty(0, dtype=dtype)
    array = array.reshape(shape, order="F" if match["fortran"] == "True" else "C")
    if not array.flags.aligned:
        array = array.copy(order="K")
    array.setflags(write=False)
    return array


# zip
# ----------------------------------------------------------------------------------------------------------


class Archive:
    """The members of a zip file, each of which is read once, whole, and no further than it claims to be long.

    Raises
    ------
    DamagedFileError
        When members stand twice, are packed in a way that is never used here, or would unpack to more than
        ``MOST_UNPACKED`` bytes and more than ``MOST_RATIO`` times the size of the file.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int, where: str) -> None:
        self._archive, self._where = archive, where
        entries = archive.infolist()
        self.names = [entry.filename for entry in entries]
        self._entries = dict(zip(self.names, entries, strict=True))
        if len(entries) > MOST_MEMBERS or len(self._entries) < len(entries):
            raise DamagedFileError(f"{where} is damaged: it holds too many members, or one of them twice.")
        for entry in entries:
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
                raise DamagedFileError(
                    f"{where} is damaged: its member {entry.filename!r} must be stored or deflated."
                )
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > max(MOST_UNPACKED, MOST_RATIO * size):
            raise DamagedFileError(
                f"{where} must not unpack to more than {MOST_UNPACKED:,} bytes or {MOST_RATIO} times its "
                f"size, but its members claim {unpacked:,} bytes."
            )

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str) -> bytes:
        """The bytes of a member, after their checksum."""
        entry = self._entries.get(name)
        if entry is None:
            raise DamagedFileError(f"{self._where} is damaged: its member {name!r} is missing.")
        try:
            with self._archive.open(entry) as member:
                data = member.read(entry.file_size)  # the checksum is compared at the end
                more = member.read(1)
        except (*ZIP_ERRORS, NotImplementedError, MemoryError) as error:
            raise DamagedFileError(
                f"{self._where} is truncated or damaged: its member {name!r} cannot be read."
            ) from error
        if len(data) != entry.file_size or more:
            raise DamagedFileError(
                f"{self._where} is truncated or damaged: its member {name!r} is not as long as it says."
            )
        return data


@contextmanager
def opened_archive(file: IO[bytes], where: str, what: str) -> Iterator[Archive]:
    """The zip file in a file; ``what`` it must be is for the sentence about a file that is none.

    Raises
    ------
    FileFormatError
        When it is no zip file, or a damaged one.
    """
    size = file.seek(0, 2)
    file.seek(0)
    begins = file.read(2)
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
    except (*ZIP_ERRORS, NotImplementedError, MemoryError) as error:
        if begins == b"PK":
            raise DamagedFileError(f"{where} must be {what}, but is truncated or damaged.") from error
        raise FileFormatError(f"{where} must be {what}, but is no npz file.") from error
    with archive:
        yield Archive(archive, size, where)


@contextmanager
def said_plainly(sentence: str) -> Iterator[None]:
    """Turn whatever a reader of another package raises into one sentence of ours, with the cause kept.

    Examples
    --------
    >>> with said_plainly("model.bin must be a model, but cannot be read"):
    ...     [][1]
    Traceback (most recent call last):
    ...
    hardmax.errors.DamagedFileError: model.bin must be a model, but cannot be read (list index out of range).
    """
    try:
        yield
    except (HardmaxError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DamagedFileError(f"{sentence} ({first_line(error)}).") from error


def is_panic(error: BaseException) -> bool:
    """Whether compiled Rust gave up, which it says with an exception of no common kind."""
    return type(error).__name__ == "PanicException"


def first_line(error: BaseException) -> str:
    """The beginning of a foreign message, as a part of a sentence of ours."""
    text = str(error).strip().splitlines()
    return text[0].split(". ")[0].rstrip(".:") if text else type(error).__name__
