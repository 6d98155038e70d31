r"""Queries as affine functions of what a layer receives, position by position.

A query that is captured has come a way: :math:`q = R_t\, n(W_Q x + b_Q)`, with a norm n in some families and
the rotation :math:`R_t` of position t in others. Without a norm this is affine in x, with a matrix that
depends on the position where there is a rotation. A norm :math:`n(y) = g \odot y / r(y) + s` (after centring
y in some families) is not affine: its r(y) is held at the value that the token really had, which is said in
:attr:`QueryMap.frozen`. The map then gives the true query of that token, and for other inputs the query of
the frozen layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.models.reading.captured_layer import Floats, QueryMap
from hardmax.models.reading.families import Family

__all__ = ["QueryWay", "output_weights", "rotated"]


@dataclass(frozen=True, eq=False)
class QueryWay:
    """How a layer makes its queries; the weights stay in the model and are read when they are needed.

    Parameters
    ----------
    module : nn.Module
        The attention module.
    family : Family
    heads, d_head : int
    inputs : array (Q, d_model)
        What the projection received.
    cos, sin : array (Q, r) or None
        The rotation of each position, where there is one.
    """

    module: Any
    family: Family
    heads: int
    d_head: int
    inputs: Floats
    cos: Floats | None = None
    sin: Floats | None = None
    _norms: NDArray[np.float64] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self._norm is not None:
            object.__setattr__(self, "_norms", self._sizes(self._projected()))

    @property
    def frozen(self) -> tuple[str, ...]:
        """What is held fixed to make the map affine."""
        return () if self._norm is None else ("query norm",)

    def queries(self) -> NDArray[np.float64]:
        """The queries (H, Q, d_head) that follow from the inputs."""
        y = self._projected()
        if self._norm is not None:
            gain, shift = self._gain_and_shift()
            y = self._centred(y) / self._norms_of(slice(None))[..., None] * gain[:, None] + shift[:, None]
        if self.cos is not None:
            y = rotated(y, self.cos, self.sin, self.family.rotary)
        return y

    def at(self, position: int) -> QueryMap:
        """The map for one position: its rotation, and its norm held fixed."""
        matrix, offset = self._weights()
        y = np.concatenate([matrix, offset[:, :, None]], axis=2).transpose(0, 2, 1)  # columns, d_head last
        if self._norm is not None:
            gain, shift = self._gain_and_shift()
            y = self._centred(y) / self._norms_of(position)[:, None, None] * gain[:, None]
            y[:, -1] += shift
        if self.cos is not None and self.sin is not None:
            y = rotated(y, self.cos[position], self.sin[position], self.family.rotary)
        depends = self.cos is not None or self._norm is not None
        return QueryMap(
            matrix=np.ascontiguousarray(y[:, :-1].transpose(0, 2, 1)),
            offset=np.ascontiguousarray(y[:, -1]),
            position=position if depends else None,
            frozen=self.frozen,
        )

    @property
    def _norm(self) -> Any:
        return getattr(self.module, self.family.norm, None) if self.family.norm else None

    def _projected(self) -> NDArray[np.float64]:
        matrix, offset = self._weights()
        rows = np.asarray(self.inputs, dtype=np.float64) @ matrix.reshape(-1, matrix.shape[2]).T
        return rows.reshape(len(rows), self.heads, self.d_head).transpose(1, 0, 2) + offset[:, None]

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """W_Q (H, d_head, d_model) and b_Q (H, d_head) in double precision."""
        projection = getattr(self.module, self.family.query)
        width = self.heads * self.d_head
        weight, bias = projection.weight, getattr(projection, "bias", None)
        if self.family.packing == "transposed":
            weight = weight[:, :width].T
            bias = None if bias is None else bias[:width]
        elif self.family.packing == "stacked":
            weight = weight[:width]
            bias = None if bias is None else bias[:width]
        elif self.family.packing == "by head":
            weight = weight.unflatten(0, (self.heads, 3, self.d_head))[:, 0].flatten(0, 1)
            bias = None if bias is None else bias.unflatten(0, (self.heads, 3, self.d_head))[:, 0].flatten()
        matrix = _array(weight).reshape(self.heads, self.d_head, -1)
        offset = (
            np.zeros((self.heads, self.d_head)) if bias is None else _array(bias).reshape(matrix.shape[:2])
        )
        factor = 1.0 if self.family.factor is None else float(getattr(self.module, self.family.factor))
        return matrix * factor, offset * factor

    def _gain_and_shift(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shape = (self.heads, self.d_head)
        gain = _array(self._norm.weight) + (1.0 if self.family.norm_kind == "rms plus one" else 0.0)
        bias = getattr(self._norm, "bias", None)
        shift = np.zeros(1) if bias is None else _array(bias)
        if self.family.norm_over == "all heads":
            gain = gain.reshape(shape)
        return np.broadcast_to(gain, shape), np.broadcast_to(shift, shape)

    def _centred(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return y - y.mean(axis=-1, keepdims=True) if self.family.norm_kind == "centred" else y

    def _sizes(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """The root mean squares (H, Q) by which the norm divides."""
        axes = (0, 2) if self.family.norm_over == "all heads" else (2,)
        squares = (self._centred(y) ** 2).mean(axis=axes)
        return np.broadcast_to(np.sqrt(squares + _epsilon(self._norm)), y.shape[:2])

    def _norms_of(self, position: Any) -> NDArray[np.float64]:
        if self._norms is None:
            return np.ones((self.heads, len(self.inputs)))[:, position]
        return np.asarray(self._norms[:, position])


def rotated(y: Floats, cos: Any, sin: Any, layout: str | None) -> NDArray[np.float64]:
    """Rows turned by the angles of their position; coordinates beyond the angles stay as they are.

    Examples
    --------
    >>> rotated(np.array([1.0, 0.0, 5.0]), np.array([0.0, 0.0]), np.array([1.0, 1.0]), "halves")
    array([0., 1., 5.])
    """
    turned = np.array(y, dtype=np.float64)
    c, s = np.asarray(cos, dtype=np.float64), np.asarray(sin, dtype=np.float64)
    r = c.shape[-1]
    low, high = slice(0, r // 2), slice(r // 2, r)
    even, odd = slice(0, r, 2), slice(1, r, 2)
    first, second = (low, high) if layout == "halves" else (even, odd)
    angle = even if layout == "pairs" else low
    a, b = turned[..., first].copy(), turned[..., second].copy()
    turned[..., first] = a * c[..., angle] - b * s[..., angle]
    turned[..., second] = b * c[..., angle] + a * s[..., angle]
    return turned


def output_weights(projection: Any, family: Family, heads: int) -> Floats:
    """W_O head by head (H, d_model, d_value), from the module that applies it."""
    weight = _array(projection.weight, np.float32)
    matrix = weight.T if family.packing == "transposed" else weight
    by_head = matrix.reshape(len(matrix), heads, -1).transpose(1, 0, 2).view()
    by_head.setflags(write=False)  # for float32 this is the model's own memory
    return by_head


def _array(tensor: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """A tensor of any precision as an array; bfloat16, which numpy does not know, goes through float32."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor if tensor.element_size() >= 4 else tensor.float()).numpy(), dtype=dtype)


def _epsilon(norm: Any) -> float:
    for name in ("variance_epsilon", "eps"):
        if hasattr(norm, name):
            return float(getattr(norm, name))
    return 0.0
