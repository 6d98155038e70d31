"""The sizes of a transformer that P2 section 3 fixes before anything is trained.

A layer l = 1..L has h_l heads and the width E_l = h_l n_l, where n_l is the width of one head. T tokens of d
numbers each enter, and beside them the classification token (CLS), which reads the tokens but is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.bounds.large_integers import positive
from hardmax.errors import DimensionMismatchError, InvalidInputError


@dataclass(frozen=True)
class Architecture:
    """T tokens of d numbers, and per layer h_l heads in a width E_l (P2 section 3).

    Parameters
    ----------
    n_tokens : int
        T, the length of the sequence without the classification token.
    d_token : int
        d, the numbers per token.
    heads : sequence of int
        h_1, ..., h_L; their number is the depth.
    widths : int or sequence of int
        E_1, ..., E_L, or one width for all layers. h_l must divide E_l.

    Examples
    --------
    >>> import hardmax as hm
    >>> shape = hm.Architecture(n_tokens=64, d_token=4, heads=(6, 6), widths=36)
    >>> shape.depth, shape.widths, shape.head_width(1)
    (2, (36, 36), 6)
    >>> shape
    Architecture(n_tokens=64, d_token=4, heads=(6, 6), widths=(36, 36))
    """

    n_tokens: int
    d_token: int
    heads: tuple[int, ...]
    widths: tuple[int, ...]

    def __init__(
        self, n_tokens: int, d_token: int, heads: int | Sequence[int], widths: int | Sequence[int]
    ) -> None:
        counts = _positive_numbers(heads, "heads")
        sizes = _positive_numbers(widths, "widths")
        if not counts:
            raise InvalidInputError("heads must name at least one layer, but was empty.")
        if np.ndim(widths) == 0:
            sizes *= len(counts)
        if len(sizes) != len(counts):
            raise DimensionMismatchError(
                f"widths must have one entry per layer or be one number, but heads names {len(counts)} "
                f"layers and widths {len(sizes)}."
            )
        for layer, (h, width) in enumerate(zip(counts, sizes, strict=True), start=1):
            if width % h:
                raise InvalidInputError(
                    f"heads must divide the width, but layer {layer} has {h} heads in width {width}; "
                    f"try width {(width // h + 1) * h}."
                )
        object.__setattr__(self, "n_tokens", positive("n_tokens", n_tokens))
        object.__setattr__(self, "d_token", positive("d_token", d_token))
        object.__setattr__(self, "heads", counts)
        object.__setattr__(self, "widths", sizes)

    @property
    def depth(self) -> int:
        """L, the number of attention layers."""
        return len(self.heads)

    def head_width(self, layer: int) -> int:
        """n_l = E_l / h_l, the width of one head in layer 1, ..., L."""
        if not 1 <= layer <= self.depth:
            raise InvalidInputError(f"layer must be between 1 and {self.depth}, but was {layer}.")
        return self.widths[layer - 1] // self.heads[layer - 1]


def _positive_numbers(values: Any, name: str) -> tuple[int, ...]:
    entries = np.atleast_1d(np.asarray(values, dtype=object))
    return tuple(positive(name, entry) for entry in entries)
