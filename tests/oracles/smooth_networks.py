"""Random networks with norms, smooth activations and softmax, and their changes by dense sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax.networks import LayerNorm, RMSNorm, SelfAttention, SmoothFeedForward, Transformer

KINDS: dict[str, dict[str, Any]] = {
    "layer norm, GELU, softmax": {"activation": "gelu", "norm": "layer", "temperature": 1.0},
    "RMS norm, SiLU, softmax": {"activation": "silu", "norm": "rms", "temperature": 0.5},
    "layer norm, tanh GELU, hardmax": {"activation": "gelu-tanh", "norm": "layer", "temperature": None},
    "tanh, softmax": {"activation": "tanh", "norm": None, "temperature": 2.0},
    "RMS norm, ReLU, hardmax": {"activation": None, "norm": "rms", "temperature": None},
}


def smooth_network(seed: int, kind: str, *, d: int = 6, depth: int = 2, width: int = 10) -> hm.Network:
    """A network of blocks: norm, attention with six keys, a smooth layer, a ReLU layer."""
    rng, choice = np.random.default_rng(seed), KINDS[kind]
    blocks: list[Any] = []
    for _ in range(depth):
        blocks += _norm(choice["norm"], d, rng)
        rule = {"rule": "softmax", "temperature": choice["temperature"]} if choice["temperature"] else {}
        scores, outputs = rng.normal(size=(2, 2, 6, d))
        blocks.append(hm.Attention(scores, rng.normal(size=(2, 6)), outputs, **rule))
        blocks += _layers(choice["activation"], d, width, rng)
    return hm.Network(blocks)


def smooth_transformer(seed: int, kind: str, *, d: int = 4, depth: int = 2, width: int = 6) -> Transformer:
    """A transformer in which all tokens move."""
    rng, choice = np.random.default_rng(seed), KINDS[kind]
    blocks: list[Any] = []
    for _ in range(depth):
        blocks += _norm(choice["norm"], d, rng)
        rule = {"rule": "softmax", "temperature": choice["temperature"]} if choice["temperature"] else {}
        maps, out = rng.normal(size=(3, 2, 2, d)), rng.normal(size=(2, d, 2)) / 2
        mask = "causal" if seed % 2 else None
        blocks.append(SelfAttention(*maps, out, b_Q=rng.normal(size=(2, 2)), mask=mask, **rule))
        blocks += _layers(choice["activation"], d, width, rng)
    return Transformer(blocks)


def _norm(name: str | None, d: int, rng: np.random.Generator) -> list[Any]:
    scale, shift = 1 + 0.2 * rng.normal(size=d), 0.3 * rng.normal(size=d)
    return {"layer": [LayerNorm(scale, shift)], "rms": [RMSNorm(scale)], None: []}[name]


def _layers(activation: str | None, d: int, width: int, rng: np.random.Generator) -> list[Any]:
    def weights() -> tuple[Any, ...]:
        w_in, w_out = rng.normal(size=(width, d)) / d**0.5, rng.normal(size=(d, width)) / width**0.5
        return w_in, 0.5 * rng.normal(size=width), w_out, None

    smooth = [SmoothFeedForward(*weights(), activation=activation, skip=True)] if activation else []
    return [*smooth, hm.FeedForward(*weights(), skip=True)]


def signatures(network: Any, points: np.ndarray) -> np.ndarray:
    """What float64 says about many points, one row of numbers each."""
    if isinstance(network, hm.Network):
        seen = network.signature(points)
        return np.concatenate([seen.routings.astype(np.int64), seen.bits.view(np.int64)], axis=1)
    rows, y = [], points
    for block in network.blocks:
        if isinstance(block, SelfAttention):
            rows.append(block.scores(y).argmax(axis=3).reshape(len(y), -1))
            y = block.forward(y)
        else:
            flat = y.reshape(-1, block.d_in)
            if block.width:
                rows.append(block.trace(flat)[2].reshape(len(y), -1))
            y = block.forward(flat).reshape(*y.shape[:2], block.d_out)
    return np.concatenate(rows, axis=1).astype(np.int64)


def sampled(network: Any, start: np.ndarray, end: np.ndarray, n: int, part: int = 20_000) -> np.ndarray:
    """The intervals (a, b) between neighbouring samples in which the signature changes."""
    places = np.linspace(0.0, 1.0, n + 1)
    found, last = [], None
    for first in range(0, n + 1, part):
        s = places[first : first + part]
        points = start + s.reshape(-1, *[1] * start.ndim) * (end - start)
        rows = signatures(network, points)
        if last is not None:
            rows = np.concatenate([last, rows])
            s = places[first - 1 : first + part]
        changed = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1))
        found.append(np.column_stack([s[changed], s[changed + 1]]))
        last = rows[-1:]
    return np.concatenate(found)


def judge(trace: Any, changes: np.ndarray) -> str | None:
    """What is wrong with a trace, given the changes that sampling found; ``None`` if nothing is."""
    low, high = trace.brackets.T
    slack = 1e-13  # samples are rounded, and so are their signatures
    at = np.searchsorted(high, changes[:, 0] - slack)
    held = np.zeros(len(changes), dtype=np.bool_)
    if len(low):
        held = (at < len(low)) & (low[np.minimum(at, len(low) - 1)] <= changes[:, 1] + slack)
    if not np.all(held):
        lost = changes[~held]
        return f"{len(lost)} changes in no bracket, the first at {lost[0].tolist()}"
    if trace.n_unseparated == 0 and trace.complete and len(changes) > len(low):
        return f"{len(changes)} changes in {len(low)} brackets of one change each"
    return None
