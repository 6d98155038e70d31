"""One file format for everything that is saved, written whole or not at all.

A file is an npz archive (a zip of ``.npy`` members, which ``numpy.load`` opens) with two extra members. The
first, ``header.json``, holds the format's name, a schema number, the kind of thing that was saved, and every
value that is not an array. The last, ``sha256``, is a digest of all others. Exact numbers are kept: a
``Fraction`` becomes the string ``"p/q"``, an infinity or a NaN becomes a tagged string because JSON has none.
Nothing is ever pickled, so opening a file from anywhere cannot run code.

The checksums of zip tell a damaged file. The digest tells one that was changed and packed again: its
checksums fit, its digest does not. Files of schema 1, written by earlier versions, have no digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DamagedFileError, FileFormatError, InvalidInputError
from hardmax.untrusted import (
    LONGEST_TEXT,
    Archive,
    check_plain,
    opened_archive,
    parsed_json,
    parsed_npy,
    ratio_of,
    ratio_text,
)

SCHEMA = 2
"""Number of the file layout; it grows when an older hardmax could no longer read a file."""

_FORMAT = "hardmax"
HEADER = "header.json"  # only a saved result has a member of this name
DIGEST, SEAL = "sha256", "seal"
_WITHOUT_DIGEST = 1  # the schema of files that have none
_TAG = "@"  # a JSON object with this one key stands for something that JSON does not have
_LARGE = 10**1000  # Python reads and writes integers of a few thousand digits, and not all JSON readers do
_INFINITE = {str(value): value for value in (math.inf, -math.inf, math.nan)}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # fixed time stamp: the same result gives the same bytes


@dataclass(frozen=True)
class Stored:
    """What a file holds: its kind, the state of the object, and where it came from.

    ``digest`` is that of the file, which fitted, or empty for a file of schema 1; ``seal`` is the signature
    of the digest by the one who wrote it, or empty. Both are read, not written.
    """

    kind: str
    state: dict[str, Any]
    provenance: dict[str, Any]
    digest: str = ""
    seal: str = ""


def target_of(path: str | os.PathLike[str]) -> Path:
    """Where a path leads, through links; Python's own sentence about links in a circle is a RuntimeError."""
    try:
        return Path(path).resolve()
    except RuntimeError as error:
        raise FileFormatError(f"cannot write {path}: it is a link that leads back to itself.") from error


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
    target = target_of(path)  # a link stays a link; the file that it points to is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {target.parent} does not exist.")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder.")
    check_plain(target)  # a rename would put the file in the place of a device
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


def write(
    path: str | os.PathLike[str],
    stored: Stored,
    *,
    packed: bool = True,
    sign: Callable[[str], str] | None = None,
) -> Path:
    """Write ``stored`` to the npz file ``path``; returns the path.

    ``packed=False`` saves time, not space. ``sign`` makes the seal of a digest, which is written beside it.
    """
    if Path(path).suffix.lower() != ".npz":
        raise InvalidInputError(
            f"a result is saved as an npz file, so path must end in .npz, but was {str(path)!r}."
        )
    with written_whole(path) as file:
        _write_archive(file, stored, packed, sign)
    return Path(path)


def to_bytes(stored: Stored) -> bytes:
    """The bytes of the file that :func:`write` would write."""
    file = io.BytesIO()
    _write_archive(file, stored, packed=True)
    return file.getvalue()


def _write_archive(
    file: IO[bytes], stored: Stored, packed: bool, sign: Callable[[str], str] | None = None
) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    header = {
        "format": _FORMAT,
        "schema": SCHEMA,
        "kind": stored.kind,
        "provenance": _encode(stored.provenance, "provenance", arrays),
        "state": {name: _encode(value, name, arrays) for name, value in stored.state.items()},
    }
    text = json.dumps(header, indent=1, allow_nan=False).encode()
    if len(text) > LONGEST_TEXT:
        raise InvalidInputError(
            f"what is not an array must take at most {LONGEST_TEXT:,} bytes in a file, but takes "
            f"{len(text):,}; give numbers as floats where exact fractions are not needed."
        )
    digest = _Digest()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_member(HEADER), text)
        digest.add(HEADER, text)
        for name, array in arrays.items():
            info = _member(f"{name}.npy")
            info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(digest.watching(member), array, allow_pickle=False)
            digest.end(info.filename)
        archive.writestr(_member(DIGEST), digest.text)
        if sign is not None:
            archive.writestr(_member(SEAL), sign(digest.text))


class _Digest:
    """The digest of members in their order: of each its bytes, their number, and its name."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._length = 0

    def watching(self, file: IO[bytes]) -> Any:
        """``file``, with everything that is written to it taken into the digest."""
        return _Watched(file, self._take)

    def _take(self, data: Any) -> None:
        self._hash.update(data)
        self._length += len(data)

    def end(self, name: str) -> None:
        """The member is complete."""
        self._hash.update(f"\n{self._length} {name}\n".encode())
        self._length = 0

    def add(self, name: str, data: bytes) -> None:
        """A whole member."""
        self._take(data)
        self.end(name)

    @property
    def text(self) -> str:
        """What the last member holds."""
        return self._hash.hexdigest()


def digest_of(members: Mapping[str, bytes]) -> str:
    """The digest of a file with these members, in this order."""
    digest = _Digest()
    for name, data in members.items():
        digest.add(name, data)
    return digest.text


class _Watched:
    """A file that tells what is written to it."""

    def __init__(self, file: IO[bytes], tell: Callable[[Any], None]) -> None:
        self._file, self._tell = file, tell

    def write(self, data: Any) -> int:
        """Write and tell."""
        self._tell(data)
        return self._file.write(data)


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
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < _LARGE else {_TAG: "integer", "value": ratio_text(value)}
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
        return ratio_text(value if isinstance(value, Fraction) else int(value))
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
    with opened_archive(file, str(path), "a saved hardmax result") as archive:
        return _read_archive(archive, path)


def _read_archive(archive: Archive, path: Path) -> Stored:
    if HEADER not in archive:
        raise FileFormatError(
            f"{path} is an npz file, but not a saved hardmax result; open plain arrays with numpy.load."
        )
    text = archive.read(HEADER)
    header = parsed_json(text, f"{path} is damaged: its header")
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise FileFormatError(f"{path} is an npz file with a header, but not a saved hardmax result.")
    schema = header.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise FileFormatError(f"{path} must carry a schema number of 1 or more, but has {schema!r}.")
    if schema > SCHEMA:
        made_by = _version_in(header)
        raise FileFormatError(
            f"{path} was written by a newer hardmax{made_by} (schema {schema}, this version reads up to "
            f"{SCHEMA}); upgrade hardmax to read it."
        )
    members = {HEADER: text}

    def array(name: Any) -> NDArray[Any]:
        member = f"{name}.npy"
        if not isinstance(name, str) or member not in archive:
            raise DamagedFileError(f"{path} is damaged: its array {name!r} is missing.")
        if member not in members:
            members[member] = archive.read(member)
        return parsed_npy(members[member], f"{path} is damaged: its array {name!r}")

    try:
        kind, state, provenance = header["kind"], header["state"], header["provenance"]
        if not (isinstance(kind, str) and isinstance(state, dict) and isinstance(provenance, dict)):
            raise TypeError("wrong header entry")
        contents = _decode(state, array), _decode(provenance, array)
        if not all(isinstance(content, dict) for content in contents):
            raise TypeError("wrong header entry")
    except FileFormatError:
        raise
    except (LookupError, TypeError, ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise DamagedFileError(
            f"{path} must be a saved hardmax result, but its header is damaged."
        ) from error
    digest = _checked_digest(archive, members, path, schema)
    seal = archive.read(SEAL).decode("latin-1") if SEAL in archive else ""
    return Stored(kind, *contents, digest, seal)


def _checked_digest(archive: Archive, members: dict[str, bytes], path: Path, schema: int) -> str:
    """The digest, once it fits: otherwise the file was changed after it was written."""
    extra = [name for name in archive.names if name not in members and name not in (DIGEST, SEAL)]
    if extra:
        raise DamagedFileError(f"{path} is damaged: its header does not know its member {extra[0]!r}.")
    if schema == _WITHOUT_DIGEST and DIGEST not in archive:
        return ""
    digest = digest_of({name: members[name] for name in archive.names if name in members})
    if archive.read(DIGEST) != digest.encode():
        raise DamagedFileError(
            f"{path} was changed after it was written: its contents do not fit its digest; take the original."
        )
    return digest


def _version_in(header: dict[str, Any]) -> str:
    provenance = header.get("provenance")
    version = provenance.get("hardmax") if isinstance(provenance, dict) else None
    return f" {version}" if isinstance(version, str) else ""


def _decode(value: Any, array: Callable[[Any], NDArray[Any]]) -> Any:
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
            return _INFINITE[value["value"]]
        case "integer":
            return ratio_of(value["value"]).numerator
        case "fraction":
            return ratio_of(value["value"])
        case "fractions":
            entries = np.empty(len(value["values"]), dtype=object)
            entries[:] = [ratio_of(text) for text in value["values"]]
            entries = entries.reshape(value["shape"])
            entries.setflags(write=False)
            return entries
        case other:
            raise ValueError(f"unknown tag {other!r}")
