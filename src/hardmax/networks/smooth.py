r"""Smooth feed-forward layers: GELU, SiLU and tanh instead of a ReLU.

.. math:: \mathrm{gelu}(z) = z\,\Phi(z), \qquad
          \mathrm{gelu\text{-}tanh}(z) = \tfrac{z}{2}\bigl(1 + \tanh(\sqrt{2/\pi}\,(z + 0.044715\,z^3))\bigr),
          \qquad \mathrm{silu}(z) = \frac{z}{1 + e^{-z}} .

Their units have no on and off, so they add nothing to a signature.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.exact.rationals import ExactArray, as_exact, vector_of
from hardmax.networks.block import SmoothBlock, Traced, many, no_routings, no_units
from hardmax.networks.layers import SmoothLayer

Floats = NDArray[np.float64]


def _gelu_tanh(z: Floats) -> Floats:
    return np.asarray(z * special.expit(2.0 * math.sqrt(2.0 / math.pi) * (z + 0.044715 * z**3)))


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "gelu": lambda z: z * special.ndtr(z),
    "gelu-tanh": _gelu_tanh,
    "silu": lambda z: z * special.expit(z),
    "tanh": np.tanh,
}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class SmoothFeedForward(SmoothBlock):
    r"""A feed-forward layer with a smooth activation.

    .. math:: x \mapsto [x +]\; W_{out}\, \varphi(W_{in} x + b_{in}) + b_{out} .

    Parameters
    ----------
    w_in : (n, d) array_like
    b_in : (n,) array_like or None
        ``None`` for zeros.
    w_out : (e, n) array_like
    b_out : (e,) array_like or None
        ``None`` for zeros.
    activation : {"gelu", "gelu-tanh", "silu", "tanh"}
        :math:`\varphi`; ``"gelu"`` is the exact one, with the normal distribution function.
    skip : bool, default False
        Whether the input is added (then :math:`e = d`).

    Examples
    --------
    >>> SmoothFeedForward([[1]], None, [[2]], activation="silu")([[-1.0], [1.0]])[:, 0].round(4)
    array([-0.5379,  1.4621])
    """

    w_in: ExactArray
    b_in: ExactArray
    w_out: ExactArray
    b_out: ExactArray
    activation: str
    skip: bool
    _arrays: ClassVar[dict[str, int]] = {"w_in": 2, "b_in": 1, "w_out": 2, "b_out": 1}
    _options: ClassVar[tuple[str, ...]] = ("activation", "skip")

    def __init__(
        self,
        w_in: ArrayLike,
        b_in: ArrayLike | None,
        w_out: ArrayLike,
        b_out: ArrayLike | None = None,
        *,
        activation: str = "gelu",
        skip: bool = False,
    ) -> None:
        first, second = as_exact(w_in, "w_in", ndim=2), as_exact(w_out, "w_out", ndim=2)
        if 0 in first.shape:
            raise InvalidInputError(
                f"w_in must hold at least one unit with one input, but has shape {first.shape}."
            )
        if second.shape[1] != first.shape[0] or second.shape[0] == 0:
            raise DimensionMismatchError(
                f"w_out must have one column per unit ({first.shape[0]}) and at least one row, but has shape "
                f"{second.shape}."
            )
        if activation not in ACTIVATIONS:
            raise InvalidInputError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, but was {activation!r}; FeedForward is "
                "the layer with a ReLU."
            )
        if skip and second.shape[0] != first.shape[1]:
            raise DimensionMismatchError(
                f"a skip connection needs as many outputs as inputs, but has {second.shape[0]} and "
                f"{first.shape[1]}; say skip=False or change w_out."
            )
        self._set(
            w_in=first,
            b_in=vector_of(b_in, "b_in", first.shape[0], "unit"),
            w_out=second,
            b_out=vector_of(b_out, "b_out", second.shape[0], "output"),
            activation=activation,
            skip=bool(skip),
        )

    @property
    def name(self) -> str:
        """What the block is, in words."""
        return f"{self.activation} layer"

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.w_in.shape[1]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.w_out.shape[0]

    @property
    def largest(self) -> int:
        """The most numbers that the forward pass holds per point."""
        return max(super().largest, self.w_in.shape[0])

    def trace(self, points: Floats) -> Traced:
        """The output; smooth units choose nothing."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            z = ACTIVATIONS[self.activation](points @ self.w_in.floats.T + self.b_in.floats)
            y = z @ self.w_out.floats.T + self.b_out.floats
            if self.skip:
                y += points
        return y, no_routings(points), no_units(points)

    def layers(self, head: int, unit: int) -> list[Any]:
        """The internal form."""
        return [SmoothLayer(self.w_in, self.b_in, self.w_out, self.b_out, self.skip, self.activation)]

    def __repr__(self) -> str:
        size = f"{many(self.w_in.shape[0], 'unit')}, {self.d_in} -> {self.d_out}"
        return f"SmoothFeedForward({size}, {self.activation}{', skip' if self.skip else ''})"
