"""Layers of attention as plain arrays, for tests that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardmax.models.reading.sources import CapturedLayer, QueryMap, TextReading


def causal(n: int) -> np.ndarray:
    return np.tril(np.ones((n, n), dtype=bool))


def random_layer(
    rng: int | np.random.Generator,
    *,
    n: int = 8,
    heads: int = 2,
    groups: int | None = None,
    d_model: int = 5,
    d_head: int = 3,
    d_value: int = 4,
    present: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    integers: bool = False,
    scale: float | None = None,
    index: int = 0,
) -> CapturedLayer:
    """Gaussian, or small integers, in which copies and ties are common."""
    rng = np.random.default_rng(rng)

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-1, 2, shape).astype(float) if integers else rng.standard_normal(shape)

    groups = heads if groups is None else groups
    x, W, b = draw(n, d_model), draw(heads, d_head, d_model), draw(heads, d_head)
    same = QueryMap(W, b)
    return CapturedLayer(
        index=index,
        inputs=x,
        queries=np.einsum("hij,tj->hti", W, x) + b[:, None],
        keys=draw(groups, n, d_head),
        values=draw(groups, n, d_value),
        present=np.ones((n, n), dtype=bool) if present is None else present,
        scale=d_head**-0.5 if scale is None else scale,
        bias=bias,
        output_weights=draw(heads, d_model, d_value),
        query_map=lambda t: same,
    )


class Layers:
    """A source that hands over given layers."""

    name, family = "arrays", "made up"

    def __init__(self, layers: Sequence[CapturedLayer], tokens: Sequence[str] | None = None) -> None:
        self.layers = list(layers)
        self.n_layers = len(self.layers)
        self.heads = tuple(layer.heads for layer in self.layers)
        n = self.layers[0].n_queries
        self.tokens = tuple(tokens or [f"t{i}" for i in range(n)])
        self.asked: Any = None

    def read(self, text: str | None, visit: Any, *, layers: tuple[int, ...] | None = None) -> TextReading:
        self.asked = (text, layers)
        for i, layer in enumerate(self.layers):
            if layers is None or i in layers:
                visit(layer)
        keys = self.tokens[: self.layers[0].n_keys]
        return TextReading(self.tokens, keys, 1e-7, 2e-7, None, 0.25)
