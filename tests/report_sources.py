"""Models for tests of the report: plain arrays with tokens of any kind, read without torch."""

from __future__ import annotations

import dataclasses

import numpy as np

import hardmax as hm
from hardmax.models.reading.sources import CapturedLayer, QueryMap, TextReading

HOSTILE = (
    '</script><b>"&',
    "<img src=x onerror=\"document.title='broken'\">",
    "<!--",
    "]]>",
    "'onload='x",
    "&lt;b&gt;",
    "",
    " ",
    "\x00\x1b[31m\r\n",
    "\u2028\u2029",
    "\u202egnp.exe",
    "=1+1",
    'a,"b"',
    "</title></style></svg>",
    "x" * 300,
    "日本語",
)
"""Tokens as nobody wishes them."""


class ArraySource:
    """Random layers with given tokens; the first query of a causal model has no choice."""

    family = "arrays"

    def __init__(self, tokens, *, name="arrays", layers=2, heads=3, causal=False, spread=2.0, seed=0) -> None:
        self.tokens, self.name, self.causal = tuple(tokens), name, causal
        self.n_layers, self.heads = layers, (heads,) * layers
        self.spread, self.seed = spread, seed

    def layer(self, index: int) -> CapturedLayer:
        n, d, heads = len(self.tokens), 4, self.heads[0]
        rng = np.random.default_rng([*np.atleast_1d(self.seed), index])
        x, weights = rng.standard_normal((n, 6)), rng.standard_normal((heads, d, 6))
        keys = self.spread * rng.standard_normal((heads, n, d))
        present = np.tri(n, dtype=bool) if self.causal else np.ones((n, n), dtype=bool)
        return CapturedLayer(
            index,
            x,
            np.einsum("hij,tj->hti", weights, x),
            keys,
            keys,
            present,
            0.5,
            query_map=lambda t: QueryMap(weights, np.zeros((heads, d))),
        )

    def read(self, text, visit, *, layers=None) -> TextReading:
        for index in range(self.n_layers) if layers is None else layers:
            visit(self.layer(index))
        return TextReading(self.tokens, self.tokens, 1e-7, 2e-7, None, 0.01)


class WordSource(ArraySource):
    """Random layers drawn anew for every text, whose words are the tokens; counts what it reads."""

    def __init__(self, **options) -> None:
        super().__init__((), **options)
        self.n_read = 0

    def of(self, text: str) -> ArraySource:
        """What a text is read with."""
        seed = [*text.encode(), len(text)]
        causal, spread = self.causal, 0.5 + 0.5 * (len(text) % 7)
        return ArraySource(
            ("[CLS]", *text.split()),
            layers=self.n_layers,
            heads=self.heads[0],
            causal=causal,
            spread=spread,
            seed=seed,
        )

    def read(self, text, visit, *, layers=None) -> TextReading:
        self.n_read += 1
        return self.of(text).read(text, visit, layers=layers)


def large_report(*, layers=12, heads=12, n_tokens=128):
    """A report as large as that of a model of many layers: one is measured, and stands for all of them."""
    tokens = [f"word{i}" for i in range(n_tokens)]
    source = ArraySource(tokens, layers=layers, heads=heads, spread=1.0)
    found = hm.report(source, "text", layers=[0])
    one = found.atlas
    many = range(layers)
    rows = ("winners", "margins", "top_probabilities", "wall_distances", "can_win")
    atlas = dataclasses.replace(
        one,
        heads=tuple(dataclasses.replace(r, layer=layer) for layer in many for r in one.heads),
        slices=tuple(dataclasses.replace(piece, layer=layer) for layer in many for piece in one.slices),
        **{name: np.tile(getattr(one, name), (layers, 1)) for name in rows},
    )
    return dataclasses.replace(found, atlas=atlas)
