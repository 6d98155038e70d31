"""What every block of a network offers, so that a walk over blocks need not ask for their class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.exact.rationals import as_exact
from hardmax.networks.arguments import checked_temperature, points_of

__all__ = ["BaseBlock", "Traced", "no_routings", "no_units"]

Floats = NDArray[np.float64]
Traced = tuple[Floats, NDArray[np.int32], NDArray[np.bool_]]  # output, routings, which units are on


class BaseBlock(ABC):
    """A piecewise-affine map with heads whose routing it chooses and ReLU units that it switches.

    Attributes
    ----------
    heads : int
        Heads, each with a routing in the signature; 0 for blocks without.
    width : int
        ReLU units, each with a bit in the signature; 0 for blocks without.
    n_tokens : int
        Keys of the largest head; 0 for blocks without heads.
    skip : bool
        Whether the input is added.
    name : str
        What the block is, in words.
    d_in, d_out : int
    """

    if TYPE_CHECKING:  # fields of some blocks, properties or constants of others

        @property
        def heads(self) -> int:
            """Heads."""
            ...

        @property
        def width(self) -> int:
            """ReLU units."""
            ...

        @property
        def n_tokens(self) -> int:
            """Keys of the largest head."""
            ...

        @property
        def skip(self) -> bool:
            """Whether the input is added."""
            ...

        @property
        def name(self) -> str:
            """In words."""
            ...

    @property
    @abstractmethod
    def d_in(self) -> int:
        """The dimension of the input."""

    @property
    @abstractmethod
    def d_out(self) -> int:
        """The dimension of the output."""

    @property
    def cuts(self) -> bool:
        """Whether the block has heads or units; otherwise it is affine and cuts nothing."""
        return self.heads + self.width > 0

    @property
    def largest(self) -> int:
        """The most numbers that the forward pass holds per point."""
        return max(self.d_in, self.d_out, self.width)

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> Floats:
        r"""The output at points; heads are softmax of their scores over :math:`\tau` at a temperature."""
        points, single = points_of(x, self.d_in)
        y = self.forward(as_exact(points, "x", ndim=2).floats, checked_temperature(temperature))
        return y[0] if single else y

    @abstractmethod
    def forward(self, points: Floats, temperature: float = 0.0) -> Floats:
        """The output at the rows of a float64 matrix."""

    @abstractmethod
    def trace(self, points: Floats) -> Traced:
        """The output at temperature zero, the winning keys (n, heads), and which units are on (n, width).

        Among tied keys the lowest index wins; a unit is on when its pre-activation is above zero.
        """

    def with_keys(self, n_tokens: int) -> Self:
        """The same block with the first keys of each head only."""
        return self


def no_routings(points: Floats) -> NDArray[np.int32]:
    """The routings of a block without heads."""
    return np.zeros((len(points), 0), dtype=np.int32)


def no_units(points: Floats) -> NDArray[np.bool_]:
    """The bits of a block without units."""
    return np.zeros((len(points), 0), dtype=np.bool_)
