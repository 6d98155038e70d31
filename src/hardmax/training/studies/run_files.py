"""The file of a finished run: its result, with a record and a checksum.

It is the npz file of the result, as :func:`hardmax.load` and ``numpy.load`` read it. The comment of the zip
archive holds a record in JSON (the key of the job, times, single values) and the SHA-256 of everything else,
so a file proves by itself that it is complete and to which job it belongs.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardmax import storage
from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.results import restored

__all__ = ["RunRecord", "read_record", "read_result", "run_file"]

_LONGEST = 65_535  # bytes in the comment of a zip archive
_DAMAGE = (*storage.ZIP_ERRORS, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class RunRecord:
    """What is known about a finished run besides its result.

    Attributes
    ----------
    key : str
        Of the job.
    values : dict
        The single values of the result, in strict JSON.
    seconds, cpu_seconds : float
    attempts : int
        How often the job was started.
    version : str
        The hardmax that ran it.
    finished : float
        When, in seconds since 1970.
    """

    key: str
    values: dict[str, Any]
    seconds: float
    cpu_seconds: float
    attempts: int
    version: str
    finished: float


def run_file(content: bytes, record: RunRecord) -> bytes:
    """The npz file ``content`` with a record and a checksum as its comment.

    Raises
    ------
    InvalidInputError
        When the single values are too long for the comment.
    """
    if content[-2:] != b"\0\0":  # a comment of its own
        content = storage.to_bytes(storage.from_bytes(content, "the result"))
    text = json.dumps(asdict(record), sort_keys=True, allow_nan=False)
    comment = json.dumps({"record": text, "sha256": _checksum(content, text)}).encode()
    if len(comment) > _LONGEST:
        raise InvalidInputError(
            f"the single values of a result must fit into {_LONGEST} bytes, but took {len(comment)}."
        )
    return content[:-2] + len(comment).to_bytes(2, "little") + comment


def read_record(path: Path) -> RunRecord | None:
    """The record of a run file, or ``None`` where there is none that can be read; the rest is not checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _record(archive.comment, path)
    except _DAMAGE:
        return None


def read_result(path: Path) -> Any:
    """The result in a run file, after its checksum and its key were checked.

    Raises
    ------
    FileFormatError
        When the file is not the one that was written for the job in its name.
    """
    return restored(storage.from_bytes(checked_content(path), str(path)), str(path))


def checked_content(path: Path) -> bytes:
    """The npz file without its record, after a check of both; see :func:`read_result`."""
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            comment = archive.comment
        _record(comment, path)
        ending = len(comment).to_bytes(2, "little") + comment
        content = data[: -len(ending)] + b"\0\0"
        stated = json.loads(comment)
        sound = data.endswith(ending) and stated["sha256"] == _checksum(content, stated["record"])
    except _DAMAGE:
        sound = False
    if not sound:
        raise FileFormatError(f"{path} is not the file that was written")
    return content


def _record(comment: bytes, path: Path) -> RunRecord:
    record = RunRecord(**json.loads(json.loads(comment)["record"]))
    if record.key != path.stem:
        raise ValueError("the file of another job")
    return record


def _checksum(content: bytes, text: str) -> str:
    return hashlib.sha256(content + text.encode()).hexdigest()
