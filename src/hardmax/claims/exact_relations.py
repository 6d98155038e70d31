"""Certificates made of relations between exact numbers: the most common kind of the InfoFlow paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardmax.claims.certificates import Certificate

__all__ = ["relations"]


def relations(*lines: tuple[Any, str, Any], true: Sequence[bool] | None = None) -> Certificate:
    """A certificate that says of each line ``(left, relation, right)`` whether it is true (all, by default).

    Examples
    --------
    >>> relations((24797, ">=", ["*", 6, ["-", ["^", 64, 2], 1]])).holds
    True
    """
    expected = [True] * len(lines) if true is None else list(true)
    return Certificate("relations", {"relations": [list(line) for line in lines]}, {"true": expected})
