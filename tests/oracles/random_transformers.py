"""Random small transformers: generic ones, and those in which ties and coinciding places are the rule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.networks.blocks import Affine, FeedForward, Maxout
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.transformer import Positions, Transformer

Drawn = tuple[Transformer, Any, Any]


def drawn_transformer(seed: int) -> Drawn:
    """A transformer and the two ends of a segment; odd seeds are degenerate."""
    rng = np.random.default_rng(seed)
    degenerate = seed % 2 == 1
    kind = rng.integers(4) if degenerate else 0

    def numbers(*shape: int) -> Any:
        if not degenerate:
            return rng.standard_normal(shape)
        if kind == 0:
            return rng.integers(-1, 2, shape)
        if kind == 1:
            return rng.integers(-2, 3, shape) / 2
        if kind == 2:
            thirds = rng.integers(-2, 3, shape)
            return np.array([Fraction(int(v), 3) for v in thirds.ravel()], dtype=object).reshape(shape)
        return rng.integers(-3, 4, shape) * (rng.random(shape) < 0.5)

    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    read = sorted({int(t) for t in rng.integers(0, n, 2)}) if rng.random() < 0.3 else None
    blocks: list[Any] = []
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.15:
            blocks.append(Positions(numbers(n, d)))
        blocks.append(_attention(rng, numbers, n, d, degenerate))
        choice = rng.random()
        if choice < 0.5:
            width = int(rng.integers(1, 4))
            skip = bool(rng.random() < 0.5)
            w_in = None if width == d and rng.random() < 0.3 else numbers(width, d)
            slope = numbers(width) if rng.random() < 0.2 else 0
            blocks.append(
                FeedForward(w_in, numbers(width), numbers(d, width), numbers(d), skip=skip, slope=slope)
            )
        elif choice < 0.65:
            groups, pieces = int(rng.integers(1, 3)), int(rng.integers(1, 4))
            blocks.append(Maxout(numbers(groups, pieces, d), numbers(groups, pieces), numbers(d, groups)))
        elif choice < 0.8:
            blocks.append(Affine(numbers(d, d), numbers(d)))
    start, end = numbers(n, d), numbers(n, d)
    how = rng.random()
    if how < 0.25:  # one token moves
        moving = int(rng.integers(n))
        end = np.where(np.arange(n)[:, None] == moving, end, start)
    if degenerate and how > 0.6:  # duplicate tokens
        start[-1], end[-1] = start[0], end[0]
    if np.array_equal(start, end):
        end = start + 1
    return Transformer(blocks, read), start, end


def _attention(rng: Any, numbers: Any, n: int, d: int, degenerate: bool) -> SelfAttention:
    heads = int(rng.integers(1, 3))
    ranks = [int(rng.integers(1, 3)) for _ in range(heads)]
    inner = [int(rng.integers(1, 3)) for _ in range(heads)]
    W_Q, W_K = [numbers(r, d) for r in ranks], [numbers(r, d) for r in ranks]
    W_V, W_O = [numbers(s, d) for s in inner], [numbers(d, s) for s in inner]
    if degenerate and rng.random() < 0.15:
        W_K[0] = W_K[0] * 0  # a head that sees no difference between keys
    options: dict[str, Any] = {}
    for name, sizes in (("b_Q", ranks), ("b_K", ranks), ("b_V", inner)):
        if rng.random() < 0.3:
            options[name] = [numbers(size) for size in sizes]
    if rng.random() < 0.3:
        options["b_O"] = numbers(d)
    if rng.random() < 0.3:
        options["score_bias"] = numbers(heads, n, n) if rng.random() < 0.5 else numbers(n, n)
        options["scale"] = 0.5 if rng.random() < 0.5 else [Fraction(1, 3)] * heads
    mask = rng.random()
    if mask < 0.3:
        options["mask"] = "causal"
    elif mask < 0.5:
        options["mask"] = (rng.random((n, n)) < 0.6) | np.eye(n, dtype=bool)[rng.permutation(n)]
    options["ties"] = ("mean", "leftmost", "rightmost")[int(rng.integers(3))]
    return SelfAttention(W_Q, W_K, W_V, W_O, skip=bool(rng.random() < 0.7), **options)
