r"""Networks: blocks one after the other, as a map that can be evaluated, cut to a slice, and saved.

A network is a piecewise-affine map :math:`f = f_L \circ \dots \circ f_1` from :math:`\mathbb{R}^d` to
:math:`\mathbb{R}^e` (P1 Definition III.1 at temperature zero). Inside a cell, the inputs of one
:class:`~hardmax.networks.signatures.Signature`, it is affine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.algebra.rationals import as_exact
from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.networks.blocks import Affine, Attention, Block, FeedForward
from hardmax.networks.signatures import Signature, pack_bits
from hardmax.results import Result

__all__ = ["Network"]

Floats = NDArray[np.float64]

_BLOCK = 2**19  # numbers per array while many points are evaluated: they stay in the cache


@dataclass(frozen=True, eq=False, repr=False)
class Network(Result):
    """Blocks one after the other.

    Parameters
    ----------
    blocks : sequence of Attention, FeedForward, Affine
        Each must take what the one before it gives.

    Examples
    --------
    >>> import hardmax as hm
    >>> head = hm.Attention([[[-1], [1]]], None, [[[-1], [1]]])
    >>> net = hm.Network([head, hm.FeedForward([[1]], [0], [[1]], [0])])
    >>> net
    <Network: 1 -> 1, 2 blocks, 1 head, 1 unit>
    >>> net([[-0.5], [0.5]])[:, 0]
    array([0. , 1.5])
    """

    kind: ClassVar[str] = "Network"

    blocks: tuple[Block, ...]
    description: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blocks = tuple(self.blocks)
        if not blocks:
            raise InvalidInputError("blocks must hold at least one block, but is empty.")
        for i, block in enumerate(blocks):
            if not isinstance(block, Attention | FeedForward | Affine):
                raise InvalidInputError(
                    f"blocks must hold Attention, FeedForward and Affine, but block {i} is "
                    f"{type(block).__name__}."
                )
        for i, (before, after) in enumerate(zip(blocks, blocks[1:], strict=False)):
            if before.d_out != after.d_in:
                raise DimensionMismatchError(
                    f"block {i + 1} must take what block {i} gives, but block {i}, {before!r}, gives "
                    f"{before.d_out} coordinates and block {i + 1}, {after!r}, takes {after.d_in}."
                )
        object.__setattr__(self, "blocks", blocks)

    @property
    def d(self) -> int:
        """The dimension of the input."""
        return self.blocks[0].d_in

    @property
    def d_out(self) -> int:
        """The dimension of the output."""
        return self.blocks[-1].d_out

    @property
    def heads_total(self) -> int:
        """The number of heads of all blocks."""
        return sum(block.heads for block in self.blocks)

    @property
    def units_total(self) -> int:
        """The number of ReLU units of all blocks."""
        return sum(block.width for block in self.blocks)

    # Values
    # ------------------------------------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, temperature: float = 0.0) -> Floats:
        r"""The output at one point (d,) or many (n, d)."""
        if not (temperature >= 0.0 and math.isfinite(temperature)):
            raise InvalidInputError(
                f"temperature must be a finite number of at least 0, but was {temperature}."
            )
        points, single = self._points(x)
        values = np.empty((len(points), self.d_out))
        for rows, y in self._parts(points):
            for block in self.blocks:
                y = block.forward(y, temperature)
            if not np.isfinite(y).all():
                raise NotFiniteError(
                    "f(x) must stay within float64, but overflows at some x; rescale the input."
                )
            values[rows] = y
        return values[0] if single else values

    def signature(self, x: ArrayLike) -> Signature:
        """The signatures at one point (d,) or many (n, d)."""
        points, _ = self._points(x)
        routings = np.empty((len(points), self.heads_total), dtype=np.int32)
        bits = np.empty((len(points), -(-self.units_total // 64)), dtype=np.uint64)
        for rows, y in self._parts(points):
            relu = np.empty((len(y), self.units_total), dtype=np.bool_)
            head, unit = 0, 0
            for block in self.blocks:
                if isinstance(block, Attention):
                    routings[rows, head : head + block.heads] = block.routings(y)
                    head += block.heads
                elif isinstance(block, FeedForward):
                    relu[:, unit : unit + block.width] = block.preactivations(y) > 0.0
                    unit += block.width
                y = block.forward(y)
            bits[rows] = pack_bits(relu)
        return Signature(routings, bits, self.units_total)

    def _points(self, x: ArrayLike) -> tuple[NDArray[Any], bool]:
        try:
            points = np.asarray(x)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                "x must be a rectangular array of numbers, but its rows differ."
            ) from error
        single = points.ndim == 1
        if points.ndim not in (1, 2) or points.shape[-1] != self.d:
            raise DimensionMismatchError(
                f"x must have {self.d} coordinates per point, but has shape {points.shape}."
            )
        return np.atleast_2d(points), single

    def _parts(self, points: NDArray[Any]) -> Iterator[tuple[slice, Floats]]:
        """The points as floats, so many at a time that no array of the forward pass is large."""
        widest = max(
            max(
                block.d_in,
                block.d_out,
                block.width,
                block.heads * (block.n_tokens if isinstance(block, Attention) else 0),
            )
            for block in self.blocks
        )
        step = max(1, _BLOCK // widest)
        for start in range(0, len(points), step):
            rows = slice(start, start + step)
            yield rows, as_exact(points[rows], "x", ndim=2).floats

    # Ways to make one
    # ------------------------------------------------------------------------------------------------------

    @classmethod
    def mlp(cls, layers: Sequence[tuple[ArrayLike, ArrayLike | None]]) -> Self:
        """A multilayer perceptron from ``[(W, b), ...]`` with W of shape (out, in), ReLU between the layers."""
        pairs = list(layers)
        if not pairs:
            raise InvalidInputError("layers must hold at least one pair (W, b), but is empty.")
        if len(pairs) == 1:
            return cls((Affine(*pairs[0]),))
        first = FeedForward(pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1])
        return cls((first, *(FeedForward(None, None, w, b) for w, b in pairs[2:])))

    @classmethod
    def random_mlp(cls, widths: Sequence[int], rng: int | np.random.Generator) -> Self:
        """A random multilayer perceptron with Gaussian weights."""
        generator = np.random.default_rng(rng)
        layers = []
        for fan_in, fan_out in zip(widths, widths[1:], strict=False):
            w = generator.standard_normal((fan_out, fan_in)) / np.sqrt(fan_in)
            layers.append((w, 0.5 * generator.standard_normal(fan_out)))
        return cls.mlp(layers)

    @classmethod
    def random(
        cls,
        d: int,
        n_tokens: int,
        heads: int,
        depth: int,
        d_ff: int,
        rng: int | np.random.Generator,
    ) -> Self:
        """A random transformer with Gaussian weights."""
        generator = np.random.default_rng(rng)
        blocks: list[Block] = []
        for _ in range(depth):
            scores = generator.standard_normal((heads, n_tokens, d))
            biases = generator.standard_normal((heads, n_tokens))
            outputs = generator.standard_normal((heads, n_tokens, d))
            blocks.append(Attention(scores, biases, outputs))
            w_in = generator.standard_normal((d_ff, d)) / np.sqrt(d)
            b_in = 0.5 * generator.standard_normal(d_ff)
            w_out = generator.standard_normal((d, d_ff)) / np.sqrt(d_ff)
            blocks.append(FeedForward(w_in, b_in, w_out, 0.5 * generator.standard_normal(d)))
        return cls(tuple(blocks))

    # What every result has
    # ------------------------------------------------------------------------------------------------------

    def _summary(self) -> str:
        heads = f", {self.heads_total} head{'s' * (self.heads_total != 1)}" if self.heads_total else ""
        units = f", {self.units_total} unit{'s' * (self.units_total != 1)}" if self.units_total else ""
        count = f"{len(self.blocks)} block{'s' * (len(self.blocks) != 1)}"
        return f"{self.d} -> {self.d_out}, {count}{heads}{units}"
