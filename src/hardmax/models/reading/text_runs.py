"""One measurement after the other over many texts: progress, and a folder from which a run goes on.

With a folder every text that was measured is one file in it, written whole or not at all
(:mod:`hardmax.storage`), and named by a digest of the text. A run that was killed at any moment begins again
where it was and loses at most the text that it was at. ``question.json`` says what was asked of which model,
and another question is refused. Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardmax import storage
from hardmax.errors import DamagedFileError, FidelityError, FileFormatError, InvalidInputError
from hardmax.models.reading.threads import one_thread
from hardmax.results import plain
from hardmax.storage import Stored, written_whole
from hardmax.untrusted import parsed_json, plain_bytes

_KIND = "TextMeasures"
_QUESTION = "question.json"

Measured = dict[str, Any]
"""What is known of one text: arrays, numbers, words and lists of them."""


def over_texts(
    texts: Mapping[str, Any],
    measure: Callable[[Any], Measured],
    *,
    question: Mapping[str, Any],
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Measured]:
    """Measure text after text; what a folder has already is read from it.

    Parameters
    ----------
    texts : mapping from names to texts
    measure : callable
        Called with one text; what it returns must have a file form (:mod:`hardmax.storage`).
    question : mapping
        What is asked of which model, in plain values.
    checkpoint : path-like, optional
        The folder; made where it does not exist.
    progress : callable, optional
        Called with the number of texts done and their total.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> first = list(over_texts({"a": "one", "b": "three"}, lambda t: {"n": len(t)}, question={}))
    >>> [found["n"] for found in first]
    [3, 5]
    """
    store = None if checkpoint is None else _Folder(Path(checkpoint), question)
    with one_thread():
        for done, (name, text) in enumerate(texts.items(), start=1):
            found = None if store is None else store.known(text)
            if found is None:
                try:
                    found = measure(text)
                except (InvalidInputError, FidelityError) as error:
                    raise error.about(name) from error
                if store is not None:
                    store.keep(text, found)
            yield found
            if progress is not None:
                progress(done, len(texts))


def digest_of(text: Any) -> str:
    """A name for a text: the SHA-256 of its letters, or of the numbers of a sequence of vectors."""
    if text is None:
        data = b"none"
    elif isinstance(text, str):
        data = b"text " + text.encode("utf-8", "surrogatepass")
    else:
        array = np.ascontiguousarray(text, dtype="<f8")
        data = f"array {array.shape} ".encode() + array.tobytes()
    return hashlib.sha256(data).hexdigest()


def model_question(source: Any) -> dict[str, Any]:
    """Which model: its name, its heads, and a digest of its weights where it has them."""
    own = getattr(source, "digest", None)
    return {
        "model": source.name,
        "family": source.family,
        "heads": list(source.heads),
        "weights": own() if callable(own) else None,
    }


class _Folder:
    """What was measured already, one file per text."""

    def __init__(self, folder: Path, question: Mapping[str, Any]) -> None:
        self.folder = folder
        asked = json.loads(json.dumps(plain(dict(question)), sort_keys=True))
        if folder.exists() and not folder.is_dir():
            raise InvalidInputError(f"checkpoint must be a folder, but {folder} is a file.")
        if not folder.parent.is_dir():
            raise FileNotFoundError(f"cannot write {folder}: the folder {folder.parent} does not exist.")
        folder.mkdir(exist_ok=True)
        place = folder / _QUESTION
        if not place.exists():
            strange = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
            if strange:
                raise InvalidInputError(
                    f"checkpoint must be a new or empty folder, or one of such a run, but {folder} holds "
                    f"{strange[0]}; try another name."
                )
            with written_whole(place) as file:
                file.write((json.dumps(asked, indent=1) + "\n").encode())
            return
        before = parsed_json(plain_bytes(place), str(place))
        if not isinstance(before, dict):
            raise DamagedFileError(f"{place} must be a JSON object, but is not.")
        names = sorted({name for name in {**asked, **before} if asked.get(name) != before.get(name)})
        if names:
            raise InvalidInputError(
                f"checkpoint must belong to the same question, but {folder} was made with another "
                f"{', '.join(names)}; try another folder."
            )

    def _path(self, text: Any) -> Path:
        return self.folder / f"{digest_of(text)[:40]}.npz"

    def known(self, text: Any) -> Measured | None:
        path = self._path(text)
        if not path.exists():
            return None
        try:
            stored = storage.read(path)
        except FileFormatError:  # damaged: measured again
            return None
        return stored.state if stored.kind == _KIND else None

    def keep(self, text: Any, found: Measured) -> None:
        storage.write(self._path(text), Stored(_KIND, dict(found), {}), packed=False)
