"""The models and texts that every verb takes: models in several forms, texts with or without names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardmax.errors import InvalidInputError
from hardmax.models.reading.captured_layer import Source

__all__ = ["as_source", "named_texts"]


def as_source(model: Any, *, tokenizer: Any = None, hub: bool = False) -> Source:
    """The model itself where it is a source already, opened otherwise (needs the extra ``models``)."""
    if callable(getattr(model, "read", None)) and hasattr(model, "n_layers"):
        source: Source = model
        return source
    from hardmax.models.reading.loading import open_model

    return open_model(model, tokenizer=tokenizer, hub=hub)


def named_texts(texts: str | Sequence[str] | Mapping[str, str | None] | None) -> dict[str, str | None]:
    """Texts with names, in order, from what a caller may give; None stands for a source's own sequence.

    >>> named_texts(["one", "two"])
    {'text 1': 'one', 'text 2': 'two'}
    """
    named: dict[str, str | None]
    if texts is None or isinstance(texts, str):
        named = {"text": texts}
    elif isinstance(texts, Mapping):
        named = dict(texts)
    else:
        named = {f"text {i}": text for i, text in enumerate(texts, start=1)}
    if not named:
        raise InvalidInputError("texts must hold at least one text, but was empty.")
    return named
