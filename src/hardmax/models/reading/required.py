"""Optional packages, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hardmax.errors import MissingExtraError

__all__ = ["required"]


def required(name: str) -> Any:
    """The module ``name``, or the advice to install the extra ``models``.

    Examples
    --------
    >>> required("json").dumps([])
    '[]'
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"reading a Hugging Face model needs {name.split('.')[0]}, which is not installed; "
            "try: pip install 'hardmax[models]'."
        ) from error
