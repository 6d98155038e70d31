r"""A real attention layer with its context held fixed, as products of its weights (P1 section III-C).

With the context :math:`C` (one token per row) the scores of a head are, for :math:`A = [C \mid 1 \mid
\beta / \sigma]`,

.. math:: \sigma\, A
          \begin{bmatrix} W_K^\top & 0 \\ b_K^\top & 0 \\ 0 & 1 \end{bmatrix}
          \begin{bmatrix} W_Q & b_Q \\ 0 & 1 \end{bmatrix}
          \begin{bmatrix} x \\ 1 \end{bmatrix} ,

and its outputs are a product of the same shape. Multiplying floats would round; so the factors are kept, and
only zeros and ones are added to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact

__all__ = ["FactoredAttention", "factored_attention"]


@dataclass(frozen=True, eq=False)
class FactoredAttention:
    """Scores, biases and outputs of a layer, multiplied out only when somebody needs them exactly."""

    scores: ExactProduct
    biases: ExactArray
    outputs: ExactProduct

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.scores.shape[0]

    @property
    def n_tokens(self) -> int:
        """The number of tokens in the context."""
        return self.scores.shape[1]


def factored_attention(
    context: Any,
    matrices: tuple[Any, Any, Any, Any],
    vectors: tuple[Any, Any, Any],
    b_O: Any,
    score_bias: Any,
    scale: Any,
) -> FactoredAttention:
    """The factors of :meth:`hardmax.networks.blocks.Attention.from_weights`, checked and put together."""
    c = as_exact(context, "context", ndim=2)
    if 0 in c.shape:
        raise InvalidInputError(
            f"context must hold at least one token of one dimension, but has shape {c.shape}."
        )
    n_tokens, d_model = c.shape
    w_q, w_k, w_v, w_o = (
        _per_head(m, name, 2) for m, name in zip(matrices, ("W_Q", "W_K", "W_V", "W_O"), strict=True)
    )
    heads = len(w_q)
    for name, some in (("W_K", w_k), ("W_V", w_v), ("W_O", w_o)):
        if len(some) != heads:
            raise DimensionMismatchError(
                f"{name} must hold one matrix per head ({heads}), but holds {len(some)}."
            )
    d, e = w_q[0].shape[1], w_o[0].shape[0]
    for h in range(heads):
        _check(w_q[h], f"W_Q[{h}]", (w_q[h].shape[0], d), "d as in head 0")
        _check(w_k[h], f"W_K[{h}]", (w_q[h].shape[0], d_model), "rank of W_Q, d_model of the context")
        _check(w_v[h], f"W_V[{h}]", (w_v[h].shape[0], d_model), "d_model of the context")
        _check(w_o[h], f"W_O[{h}]", (e, w_v[h].shape[0]), "e as in head 0, rank of W_V")
    b_q, b_k, b_v = (
        _vectors(v, name, [m.shape[0] for m in some])
        for v, name, some in zip(vectors, ("b_Q", "b_K", "b_V"), (w_q, w_k, w_v), strict=True)
    )
    scales = _scales(scale, heads)
    shifts = _score_biases(score_bias, heads, n_tokens)
    offset = None if b_O is None else _vectors([b_O], "b_O", [e])[0]

    ones = ExactArray(np.ones((n_tokens, 1)))
    tokens = _beside(c, ones)
    scores, biases, outputs = [], [], []
    biased = any(b is not None for b in b_q) or shifts is not None
    for h in range(heads):
        keys = _above(_turned(w_k[h]), _row(b_k[h], w_k[h].shape[0]))
        scores.append((tokens, keys, w_q[h]))
        if biased:
            column = _turned(_row(b_q[h], w_q[h].shape[0]))
            if shifts is None:
                biases.append((tokens, keys, column))
            else:
                shift = as_exact(fractions_of(shifts)[h] / scales[h], "score_bias over scale", ndim=1)
                shifted = _beside(tokens, _turned(_row(shift, n_tokens)))
                biases.append((shifted, _with_corner(keys), _above(column, ExactArray(np.ones((1, 1))))))
        values = _above(_turned(w_v[h]), _row(b_v[h], w_v[h].shape[0]))
        readout = _turned(w_o[h])
        if h == 0 and offset is not None:  # every winner of head 0 brings b_O along, so it is added once
            values = _beside(values, ExactArray(np.eye(d_model + 1)[:, -1:]))
            readout = _above(readout, _row(offset, e))
        outputs.append((tokens, values, readout))
    return FactoredAttention(
        ExactProduct(scores, scales),
        ExactProduct(biases, scales, column=True) if biased else ExactArray(np.zeros((heads, n_tokens))),
        ExactProduct(outputs),
    )


def _per_head(values: Any, name: str, ndim: int) -> list[ExactArray]:
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


def _vectors(values: Any, name: str, lengths: list[int]) -> Sequence[ExactArray | None]:
    if values is None:
        return [None] * len(lengths)
    vectors = _per_head(values, name, 1)
    found = [vector.shape[0] for vector in vectors]
    if found != lengths:
        raise DimensionMismatchError(
            f"{name} must hold vectors of the lengths {lengths}, but holds vectors of the lengths {found}."
        )
    return vectors


def _scales(scale: Any, heads: int) -> list[Fraction]:
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


def _score_biases(values: Any, heads: int, n_tokens: int) -> ExactArray | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim == 1:
        array = np.broadcast_to(array, (heads, *array.shape))
    shifts = as_exact(array, "score_bias", ndim=2)
    if shifts.shape != (heads, n_tokens):
        raise DimensionMismatchError(
            f"score_bias must hold one number per token ({n_tokens}), or one per head and token "
            f"({heads}, {n_tokens}), but has shape {np.asarray(values).shape}."
        )
    return shifts


# Matrices put together; nothing is computed
# ----------------------------------------------------------------------------------------------------------


def _joined(a: ExactArray, b: ExactArray, axis: int) -> ExactArray:
    floats = np.concatenate([a.floats, b.floats], axis=axis)
    if a.fractions is None and b.fractions is None:
        return ExactArray(floats)
    return ExactArray(floats, np.concatenate([fractions_of(a), fractions_of(b)], axis=axis))


def _beside(a: ExactArray, b: ExactArray) -> ExactArray:
    return _joined(a, b, 1)


def _above(a: ExactArray, b: ExactArray) -> ExactArray:
    return _joined(a, b, 0)


def _turned(a: ExactArray) -> ExactArray:
    return ExactArray(
        np.ascontiguousarray(a.floats.T), None if a.fractions is None else np.ascontiguousarray(a.fractions.T)
    )


def _row(vector: ExactArray | None, length: int) -> ExactArray:
    if vector is None:
        return ExactArray(np.zeros((1, length)))
    return ExactArray(vector.floats[None], None if vector.fractions is None else vector.fractions[None])


def _with_corner(a: ExactArray) -> ExactArray:
    """The matrix with one more row and column, which hold a one where they meet."""
    rows, columns = a.shape
    wider = _beside(a, ExactArray(np.zeros((rows, 1))))
    return _above(wider, ExactArray(np.eye(columns + 1)[-1:]))
