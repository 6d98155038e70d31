"""The weights of attention heads as users give them: matrices and vectors per head, checked and exact."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import ExactArray, as_exact

Matrices = list[ExactArray]


def matrices_of(values: tuple[Any, Any, Any, Any], d_model: int | None) -> tuple[Matrices, ...]:
    """W_Q, W_K, W_V and W_O, one matrix per head; keys and values read ``d_model`` coordinates.

    >>> [len(m) for m in matrices_of(([[[1, 0]]], [[[1, 0]]], [[[0, 1]]], [[[1], [0]]]), 2)]
    [1, 1, 1, 1]
    """
    w_q, w_k, w_v, w_o = (
        per_head(m, name, 2) for m, name in zip(values, ("W_Q", "W_K", "W_V", "W_O"), strict=True)
    )
    heads = len(w_q)
    for name, some in (("W_K", w_k), ("W_V", w_v), ("W_O", w_o)):
        if len(some) != heads:
            raise DimensionMismatchError(
                f"{name} must hold one matrix per head ({heads}), but holds {len(some)}."
            )
    d, e = w_q[0].shape[1], w_o[0].shape[0]
    read, whose = (d, "d_model as in W_Q") if d_model is None else (d_model, "d_model of the context")
    for h in range(heads):
        _check(w_q[h], f"W_Q[{h}]", (w_q[h].shape[0], d), "d as in head 0")
        _check(w_k[h], f"W_K[{h}]", (w_q[h].shape[0], read), f"rank of W_Q, {whose}")
        _check(w_v[h], f"W_V[{h}]", (w_v[h].shape[0], read), whose)
        _check(w_o[h], f"W_O[{h}]", (e, w_v[h].shape[0]), "e as in head 0, rank of W_V")
    return w_q, w_k, w_v, w_o


def per_head(values: Any, name: str, ndim: int) -> list[ExactArray]:
    """One exact array per head."""
    try:
        parts = list(values)
    except TypeError:
        parts = []
    if not parts:
        raise InvalidInputError(f"{name} must hold one array per head, but was {values!r}.")
    return [as_exact(part, f"{name}[{h}]", ndim=ndim) for h, part in enumerate(parts)]


def _check(matrix: ExactArray, name: str, shape: tuple[int, int], why: str) -> None:
    if matrix.shape != shape or 0 in shape:
        raise DimensionMismatchError(f"{name} must have shape {shape} ({why}), but has shape {matrix.shape}.")


def vectors_of(values: Any, name: str, lengths: list[int]) -> Sequence[ExactArray | None]:
    """One vector per head, of given lengths; ``None`` for each where nothing was given."""
    if values is None:
        return [None] * len(lengths)
    vectors = per_head(values, name, 1)
    found = [vector.shape[0] for vector in vectors]
    if found != lengths:
        raise DimensionMismatchError(
            f"{name} must hold vectors of the lengths {lengths}, but holds vectors of the lengths {found}."
        )
    return vectors


def scales_of(scale: Any, heads: int) -> list[Fraction]:
    """One positive scale per head.

    >>> scales_of(0.5, 2)
    [Fraction(1, 2), Fraction(1, 2)]
    """
    try:
        single = np.ndim(scale) == 0
    except ValueError:
        single = False
    values = as_exact([scale] * heads if single else scale, "scale", ndim=1)
    if values.shape[0] != heads:
        raise DimensionMismatchError(
            f"scale must be one number or one per head ({heads}), but holds {values.shape[0]}."
        )
    scales = list(fractions_of(values))
    if min(scales) <= 0:
        raise InvalidInputError(f"scale must be above 0, but holds {float(min(scales)):g}.")
    return scales
