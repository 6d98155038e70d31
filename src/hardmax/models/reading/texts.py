"""Many texts from files: one per line, one per line of JSON, one per file, or named in a JSON object."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.errors import FileFormatError, InvalidInputError
from hardmax.models.reading.sources import named_texts
from hardmax.untrusted import check_plain, parsed_json, plain_text

_MOST_BYTES = 2**28  # of all files together
_MOST_LINES = 2**22  # each takes some hundred bytes of memory


def read_texts(source: str | os.PathLike[str], *, field: str | None = None) -> dict[str, str]:
    """Texts with names, in the order of the file.

    Parameters
    ----------
    source : path or glob
        A pattern with ``*``, ``?`` or ``[`` (``"pages/*.txt"``): one text per file, named by the file. A
        ``.jsonl`` file: one JSON value per line, an object whose ``field`` is the text or a string. A
        ``.json`` file: one object of names and texts. Any other file: one text per line. Empty lines are left
        out; lines count from 1.
    field : str, optional
        Which field of the objects of a JSONL file holds the text; ``"text"`` if not given.

    Returns
    -------
    dict from names to texts

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "lines.txt").write_text("The cat sat.\\n\\nA dog ran.\\n")
    >>> read_texts(folder / "lines.txt")
    {'line 1': 'The cat sat.', 'line 3': 'A dog ran.'}
    >>> _ = (folder / "rows.jsonl").write_text('{"body": "A bird sang."}\\n')
    >>> read_texts(folder / "rows.jsonl", field="body")
    {'line 1': 'A bird sang.'}
    """
    pattern = os.fspath(source)
    path = Path(pattern)
    lines = path.suffix.lower() == ".jsonl"
    if field is not None and not lines:
        raise InvalidInputError(f"field belongs to a .jsonl file, but the texts come from {pattern}.")
    if not path.exists() and glob.has_magic(pattern):
        files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(name)]
        if not files:
            raise FileFormatError(f"{pattern} must be a file, or a pattern of files, but matches none.")
        if sum(file.stat().st_size for file in files) > _MOST_BYTES:
            raise FileFormatError(f"{pattern} must match files of at most {_MOST_BYTES:,} bytes together.")
        texts = {str(file): text_of(file) for file in files}
    elif lines:
        texts = _json_lines(path, "text" if field is None else field)
    elif path.suffix.lower() == ".json":
        texts = _json_object(path)
    else:
        texts = {f"line {i}": line for i, line in enumerate(_lines(path), start=1)}
    texts = {name: text.strip() for name, text in texts.items() if text.strip()}
    if not texts:
        raise FileFormatError(f"{pattern} must hold at least one text, but holds none.")
    return texts


def text_of(file: Path) -> str:
    """What a text file holds."""
    check_plain(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file} must be a text file, but does not exist or is a folder.")
    return plain_text(file, most=_MOST_BYTES)


def _lines(file: Path) -> list[str]:
    """The lines of a text file; other separators, such as U+2028, belong to a text."""
    text = text_of(file)
    if text.count("\n") >= _MOST_LINES:
        raise FileFormatError(f"{file} must have at most {_MOST_LINES:,} lines, but has more.")
    return text.split("\n")


def _json_lines(path: Path, field: str) -> dict[str, str]:
    texts = {}
    for i, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        found = parsed_json(line, f"line {i} of {path}")
        text = found.get(field) if isinstance(found, dict) else found
        if not isinstance(text, str):
            if not isinstance(found, dict):
                has = "is no text"
            elif field in found:
                has = f"holds {text!r:.40} there"
            else:
                has = f"has the fields {', '.join(sorted(found))}"
            raise FileFormatError(f"{path} must have a text in field {field!r}, but line {i} {has}.")
        texts[f"line {i}"] = text
    return texts


def _json_object(path: Path) -> dict[str, str]:
    found = parsed_json(text_of(path), str(path))
    if not isinstance(found, dict) or not found or not all(isinstance(text, str) for text in found.values()):
        raise FileFormatError(f'{path} must be a JSON object of names and texts, as {{"name": "text"}}.')
    return found


def is_corpus(texts: Any) -> bool:
    """Whether these are many texts: a list, a dictionary of names and texts, or an array (B, T, d).

    >>> is_corpus("one text"), is_corpus(["one text"]), is_corpus({"name": "one text"})
    (False, True, True)
    """
    if isinstance(texts, np.ndarray):
        return texts.ndim == 3
    if isinstance(texts, Mapping):
        return bool(texts) and all(isinstance(text, str) for text in texts.values())
    return isinstance(texts, Sequence) and not isinstance(texts, str)


def checked_texts(texts: Any) -> dict[str, Any]:
    """Many texts with names; every one must be a text or a sequence of vectors."""
    named: dict[str, Any] = dict(named_texts(texts))
    for name, text in named.items():
        words = isinstance(text, str)
        if not (text.strip() if words else np.ndim(text) == 2):
            was = "empty" if words else f"a {type(text).__name__}"
            raise InvalidInputError(
                f"texts must be texts with at least one word, or sequences (T, d), but {name} is {was}."
            )
    return named
