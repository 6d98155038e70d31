"""How random networks are drawn: the order and the scales are part of the interface, because counts depend on
them.

Conclusions about "random transformers" move with every choice made here (P1 figure 6 states none of them), so
all of them are named, recorded and kept stable.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, written
from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Block, FeedForward
from hardmax.randomness import check_room

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RandomTransformer:
    """The choices of :meth:`hardmax.networks.network.Network.random`."""

    d: int
    n_tokens: int
    heads: int
    depth: int
    d_ff: int
    d_head: int | None
    biased: bool
    attention_skip: bool
    ffn_skip: bool
    score_scale: float
    bias_scale: float
    output_scale: float
    ffn_scale: float
    ffn_bias_scale: float

    def __post_init__(self) -> None:
        for name in ("d", "n_tokens", "heads", "depth"):
            check_size(getattr(self, name), name, 1)
        check_size(self.d_ff, "d_ff", 0)
        if self.d_head is not None:
            check_size(self.d_head, "d_head", 1)
        width = self.d if self.d_head is None else max(self.d, self.d_head)
        check_room("the network", self.depth, self.heads * self.n_tokens + self.d_ff, 2, width)
        for name in ("score_scale", "bias_scale", "output_scale", "ffn_scale", "ffn_bias_scale"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise InvalidInputError(f"{name} must be a finite number of at least 0, but was {value}.")

    def description(self) -> dict[str, Any]:
        """The choices in plain values."""
        return asdict(self)

    def draw(self, rng: np.random.Generator) -> tuple[Block, ...]:
        """The blocks, drawn in the declared order."""
        blocks: list[Block] = []
        for _ in range(self.depth):
            blocks.append(self._attention(rng))
            if self.d_ff:
                blocks.append(self._feed_forward(rng))
        return tuple(blocks)

    def _attention(self, rng: np.random.Generator) -> Attention:
        scores: Any = self._scores(rng)
        keys = (self.heads, self.n_tokens)
        biases = self.bias_scale * rng.standard_normal(keys) if self.biased else None
        outputs = self.output_scale * rng.standard_normal((*keys, self.d))
        return Attention(scores, biases, outputs, skip=self.attention_skip)

    def _scores(self, rng: np.random.Generator) -> Floats | ExactArray:
        if self.d_head is None:
            return self.score_scale * rng.standard_normal((self.heads, self.n_tokens, self.d))
        keys = self.score_scale * rng.standard_normal((self.heads, self.n_tokens, self.d_head))
        maps = rng.standard_normal((self.heads, self.d_head, self.d)) / np.sqrt(self.d_head)
        return ExactProduct([(ExactArray(k), ExactArray(m)) for k, m in zip(keys, maps, strict=True)])

    def _feed_forward(self, rng: np.random.Generator) -> FeedForward:
        w_in = self.ffn_scale * rng.standard_normal((self.d_ff, self.d)) / np.sqrt(self.d)
        b_in = self.ffn_bias_scale * rng.standard_normal(self.d_ff)
        w_out = self.ffn_scale * rng.standard_normal((self.d, self.d_ff)) / np.sqrt(self.d_ff)
        b_out = self.ffn_bias_scale * rng.standard_normal(self.d)
        return FeedForward(w_in, b_in, w_out, b_out, skip=self.ffn_skip)


def mlp_layers(widths: list[int], rng: np.random.Generator) -> list[tuple[Floats, Floats]]:
    """The layers of :meth:`hardmax.networks.network.Network.random_mlp`.

    >>> [w.shape for w, b in mlp_layers([2, 8, 1], np.random.default_rng(0))]
    [(8, 2), (1, 8)]
    """
    if len(widths) < 2:
        raise InvalidInputError(f"widths must hold at least input and output, but was {widths}.")
    for i, width in enumerate(widths):
        check_size(width, f"widths[{i}]", 1)
    check_room("the network", sum(fan_in * fan_out for fan_in, fan_out in pairwise(widths)))
    layers = []
    for fan_in, fan_out in pairwise(widths):
        w = rng.standard_normal((fan_out, fan_in)) / np.sqrt(fan_in)
        layers.append((w, 0.5 * rng.standard_normal(fan_out)))
    return layers


def check_size(value: Any, name: str, least: int) -> None:
    """A whole number of at least ``least``.

    >>> check_size(3, "d", 1)
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidInputError(
            f"{name} must be a whole number of at least {least}, but was {written(value)}."
        )
