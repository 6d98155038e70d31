r"""Normalisation: LayerNorm and RMSNorm as blocks of a network.

.. math:: \mathrm{RMSNorm}(x) = \gamma \odot \frac{x}{\sqrt{|x|^2 / d + \varepsilon}}, \qquad
          \mathrm{LayerNorm}(x) = \gamma \odot \frac{Px}{\sqrt{|Px|^2 / d + \varepsilon}} + \beta, \qquad
          P = I - \tfrac{1}{d} \mathbf{1} \mathbf{1}^\top .

Neither is piecewise affine, so the engines that list cells refuse a network with a norm. Along a segment,
:func:`hardmax.trace_segment` encloses it with proof. One case is polyhedral all the same: scores without bias
behind a norm without shift see :math:`x` only up to a positive factor, and the factor does not change the
winner (:func:`hardmax.regions.enclosures.normed_routing.routing_network`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.rationals import ExactArray, as_exact, vector_of
from hardmax.networks.block import SmoothBlock, Traced, no_routings, no_units
from hardmax.networks.layers import NormLayer

Floats = NDArray[np.float64]


class NormBlock(SmoothBlock):
    """What LayerNorm and RMSNorm share: a scale, an epsilon, and division by a root mean square."""

    scale: ExactArray
    epsilon: ExactArray
    skip: ClassVar[bool] = False
    centred: ClassVar[bool]

    if TYPE_CHECKING:  # a field of LayerNorm, zero for RMSNorm

        @property
        def shift(self) -> ExactArray:
            """What is added at the end."""
            ...

    def _set_norm(self, scale: Any, epsilon: Any) -> int:
        """Check and keep scale and epsilon; returns the dimension."""
        gamma = as_exact(scale, "scale", ndim=1)
        if gamma.shape[0] == 0:
            raise InvalidInputError("scale must hold one number per coordinate, but is empty.")
        eps = epsilon if isinstance(epsilon, ExactArray) else as_exact([epsilon], "epsilon", ndim=1)
        if eps.shape != (1,) or eps.rational(0) < 0:
            raise InvalidInputError(f"epsilon must be a number of at least 0, but was {epsilon}.")
        self._set(scale=gamma, epsilon=eps)
        return gamma.shape[0]

    @property
    def d_in(self) -> int:
        """The dimension of the input."""
        return self.scale.shape[0]

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.d_in

    def trace(self, points: Floats) -> Traced:
        """The output; a norm chooses nothing."""
        size = np.abs(points).max(axis=1, keepdims=True)
        size[size == 0.0] = 1.0
        x = points / size  # squares of numbers up to 1e308 must not overflow
        if self.centred:
            x = x - x.mean(axis=1, keepdims=True)
        epsilon = self.epsilon.floats[0]
        with np.errstate(over="ignore", under="ignore"):
            root = np.sqrt(np.mean(x * x, axis=1, keepdims=True) + epsilon / size / size)
        if not root.all():
            where = "a vector of equal coordinates" if self.centred else "the zero vector"
            raise InvalidInputError(
                f"a {type(self).__name__} with epsilon 0 is not defined at {where}, but x leads there; give "
                "an epsilon above 0 or another x."
            )
        return (
            x / root * self.scale.floats + self.shift.floats,
            no_routings(points),
            no_units(points),
        )

    def layers(self, head: int, unit: int) -> list[Any]:
        """The internal form."""
        return [NormLayer(self.scale, self.shift, self.epsilon, self.centred)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.d_in}, epsilon={self.epsilon.floats[0]:g})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RMSNorm(NormBlock):
    r"""Root mean square normalisation :math:`x \mapsto \gamma \odot x / \sqrt{|x|^2 / d + \varepsilon}`.

    Parameters
    ----------
    scale : (d,) array_like
        :math:`\gamma`.
    epsilon : number, default 1e-6
        At least 0. With 0 the norm is not defined at the origin.

    Examples
    --------
    >>> RMSNorm([1, 1], epsilon=0)([3.0, 4.0]) * np.sqrt(12.5)
    array([3., 4.])
    """

    scale: ExactArray
    epsilon: ExactArray
    name: ClassVar[str] = "RMSNorm"
    centred: ClassVar[bool] = False
    _arrays: ClassVar[dict[str, int]] = {"scale": 1, "epsilon": 1}
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, scale: ArrayLike, *, epsilon: Any = 1e-6) -> None:
        self._set_norm(scale, epsilon)

    @property
    def shift(self) -> ExactArray:
        """What is added at the end."""
        return ExactArray(np.zeros(self.d_in))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LayerNorm(NormBlock):
    r"""Layer normalisation :math:`x \mapsto \gamma \odot Px / \sqrt{|Px|^2 / d + \varepsilon} + \beta`.

    Parameters
    ----------
    scale : (d,) array_like
        :math:`\gamma`.
    shift : (d,) array_like, optional
        :math:`\beta`; zeros when left out.
    epsilon : number, default 1e-5
        At least 0. With 0 the norm is not defined where all coordinates are equal.

    Examples
    --------
    >>> LayerNorm([1, 1], [0, 5], epsilon=0)([3.0, 7.0])
    array([-1.,  6.])
    """

    scale: ExactArray
    shift: ExactArray
    epsilon: ExactArray
    name: ClassVar[str] = "LayerNorm"
    centred: ClassVar[bool] = True
    _arrays: ClassVar[dict[str, int]] = {"scale": 1, "shift": 1, "epsilon": 1}
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, scale: ArrayLike, shift: ArrayLike | None = None, *, epsilon: Any = 1e-5) -> None:
        d = self._set_norm(scale, epsilon)
        self._set(shift=vector_of(shift, "shift", d, "coordinate"))
