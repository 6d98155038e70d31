"""One file format for everything that is saved, written whole or not at all.

A file is an npz archive (a zip of ``.npy`` members, which ``numpy.load`` opens) with one extra member,
``header.json``: the format's name, a schema number, the kind of thing that was saved, and every value that is
not an array. Exact numbers are kept: a ``Fraction`` becomes the string ``"p/q"``, an infinity or a NaN
becomes a tagged string because JSON has none. Nothing is ever pickled, so opening a file from anywhere cannot
run code.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import FileFormatError, InvalidInputError

SCHEMA = 1
"""Number of the file layout; it grows when an older hardmax could no longer read a file."""

_FORMAT = "hardmax"
HEADER = "header.json"  # only a saved result has a member of this name
_TAG = "@"  # a JSON object with this one key stands for something that JSON does not have
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
_EPOCH = (1980, 1, 1, 0, 0, 0)  # fixed time stamp: the same result gives the same bytes


@dataclass(frozen=True)
class Stored:
    """What a file holds: its kind, the state of the object, and where it came from."""

    kind: str
    state: dict[str, Any]
    provenance: dict[str, Any]


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that appears at ``path`` complete or not at all: temporary file, fsync, rename.

    Parameters
    ----------
    path : path-like
        Where the file shall be. Its folder must exist.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "note.txt") as file:
    ...     _ = file.write(b"done")
    >>> [p.name for p in folder.iterdir()]
    ['note.txt']
    """
    target = Path(path).resolve()  # a link stays a link; the file that it points to is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {target.parent} does not exist.")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "xb") as file:  # not tempfile: that would make the result private to its owner
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut, where the system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def write(path: str | os.PathLike[str], stored: Stored, *, packed: bool = True) -> Path:
    """Write ``stored`` to the npz file ``path``; returns the path. ``packed=False`` saves time, not space."""
    if Path(path).suffix.lower() != ".npz":
        raise InvalidInputError(
            f"a result is saved as an npz file, so path must end in .npz, but was {str(path)!r}."
        )
    with written_whole(path) as file:
        _write_archive(file, stored, packed)
    return Path(path)


def to_bytes(stored: Stored) -> bytes:
    """The bytes of the file that :func:`write` would write."""
    file = io.BytesIO()
    _write_archive(file, stored, packed=True)
    return file.getvalue()


def _write_archive(file: IO[bytes], stored: Stored, packed: bool) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    header = {
        "format": _FORMAT,
        "schema": SCHEMA,
        "kind": stored.kind,
        "provenance": _encode(stored.provenance, "provenance", arrays),
        "state": {name: _encode(value, name, arrays) for name, value in stored.state.items()},
    }
    text = json.dumps(header, indent=1, allow_nan=False).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_member(HEADER), text)
        for name, array in arrays.items():
            info = _member(f"{name}.npy")
            info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _encode(value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """``value`` in JSON; arrays are moved into ``arrays`` under the name of their place."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {
                _TAG: "fractions",
                "shape": list(value.shape),
                "values": [_ratio(v, place) for v in value.flat],
            }
        arrays[place] = value
        return {_TAG: "array", "name": place}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: "float", "value": str(value)}
    if isinstance(value, Fraction):
        return {_TAG: "fraction", "value": _ratio(value, place)}
    if isinstance(value, (list, tuple)):
        return [_encode(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) and key != _TAG for key in value):
        return {key: _encode(item, f"{place}.{key}", arrays) for key, item in value.items()}
    raise TypeError(f"{place} cannot be saved: no file form for {type(value).__name__}.")


def _ratio(value: Any, place: str) -> str:
    if isinstance(value, (int, np.integer, Fraction)):
        return str(value if isinstance(value, Fraction) else int(value))
    raise TypeError(
        f"{place} cannot be saved: an object array may hold fractions only, not {type(value).__name__}."
    )


def read(path: str | os.PathLike[str]) -> Stored:
    """Read a file written by :func:`write`.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    FileFormatError
        When the file is empty, truncated, damaged, of another program, or of a newer hardmax.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot read {path}: it is a folder.")
    if not path.exists():
        raise FileNotFoundError(f"cannot read {path}: there is no such file.")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path} must be a saved hardmax result, but is empty (0 bytes).")
    with open(path, "rb") as file:  # a file that may not be read at all is reported as such, not as damaged
        return _read_file(file, path)


def from_bytes(content: bytes, name: str) -> Stored:
    """What :func:`read` would read from a file with this content; ``name`` stands for it in messages."""
    return _read_file(io.BytesIO(content), Path(name))


def _read_file(file: IO[bytes], path: Path) -> Stored:
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_archive(archive, path)
    except FileFormatError:
        raise
    except ZIP_ERRORS as error:
        file.seek(0)
        state = "is truncated or damaged" if file.read(2) == b"PK" else "is no npz file"
        raise FileFormatError(f"{path} must be a saved hardmax result, but {state}.") from error


def _read_archive(archive: zipfile.ZipFile, path: Path) -> Stored:
    if HEADER not in archive.namelist():
        raise FileFormatError(
            f"{path} is an npz file, but not a saved hardmax result; open plain arrays with numpy.load."
        )
    try:
        header = json.loads(archive.read(HEADER))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{path} must be a saved hardmax result, but its header is not JSON."
        ) from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise FileFormatError(f"{path} is an npz file with a header, but not a saved hardmax result.")
    schema = header.get("schema")
    if not isinstance(schema, int) or schema < 1:
        raise FileFormatError(f"{path} must carry a schema number of 1 or more, but has {schema!r}.")
    if schema > SCHEMA:
        made_by = _version_in(header)
        raise FileFormatError(
            f"{path} was written by a newer hardmax{made_by} (schema {schema}, this version reads up to "
            f"{SCHEMA}); upgrade hardmax to read it."
        )
    try:
        kind, state, provenance = header["kind"], header["state"], header["provenance"]
        if not (isinstance(kind, str) and isinstance(state, dict) and isinstance(provenance, dict)):
            raise TypeError("wrong header entry")

        def array(name: str) -> NDArray[Any]:
            return _read_array(archive, name, path)

        return Stored(kind, _decode(state, array), _decode(provenance, array))
    except (KeyError, TypeError, ValueError, RecursionError, ZeroDivisionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} must be a saved hardmax result, but its header is damaged.") from error


def _version_in(header: dict[str, Any]) -> str:
    provenance = header.get("provenance")
    version = provenance.get("hardmax") if isinstance(provenance, dict) else None
    return f" {version}" if isinstance(version, str) else ""


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    try:
        data = archive.read(f"{name}.npy")  # reading all of it checks its CRC
    except KeyError as error:
        raise FileFormatError(f"{path} is damaged: its array {name!r} is missing.") from error
    try:
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except (ValueError, TypeError, MemoryError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged: its array {name!r} is not a plain array.") from error
    array.setflags(write=False)
    return array


def _decode(value: Any, array: Callable[[str], NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_decode(item, array) for item in value]
    if not isinstance(value, dict):
        return value
    match value.get(_TAG):
        case None:
            return {key: _decode(item, array) for key, item in value.items()}
        case "array":
            return array(value["name"])
        case "float":
            return float(value["value"])
        case "fraction":
            return Fraction(value["value"])
        case "fractions":
            entries = np.empty(len(value["values"]), dtype=object)
            entries[:] = [Fraction(text) for text in value["values"]]
            entries = entries.reshape(value["shape"])
            entries.setflags(write=False)
            return entries
        case other:
            raise ValueError(f"unknown tag {other!r}")
