"""The transformer of the infoflow paper, section 3, in plain numpy and double precision, one head and one
sequence at a time: a second opinion that shares no code with the library."""

from __future__ import annotations

import math

import numpy as np


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def output(shape, arrays: dict[str, np.ndarray], X: np.ndarray) -> np.ndarray:
    """(B, T, d) -> (B, outputs)."""
    return np.stack([_one(shape, arrays, sequence) for sequence in np.asarray(X, dtype=np.float64)])


def loss(shape, arrays: dict[str, np.ndarray], X: np.ndarray, Y: np.ndarray) -> float:
    return float(((output(shape, arrays, X) - Y) ** 2).mean())


def _one(shape, arrays: dict[str, np.ndarray], sequence: np.ndarray) -> np.ndarray:
    act = {"tanh": np.tanh, "gelu": gelu, "relu": lambda x: np.maximum(x, 0)}[shape.activation]

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return arrays[f"{name}.weight"] @ x + arrays[f"{name}.bias"]

    tokens = []
    for t, token in enumerate(sequence):
        x = act(linear("encoder_hidden", token)) if shape.encoder_hidden else token
        x = linear("encoder", x)
        if shape.positions == "additive":
            x = x + arrays["positions"][:, t]
        elif shape.positions == "appended":
            x = np.concatenate([x, arrays["positions"][:, t]])
        tokens.append(x)
    cls = arrays["cls"].copy()
    if shape.cls_position:
        own = arrays["positions"][:, -1]
        cls[len(cls) - len(own) :] += own
    for l in range(shape.depth):
        n = shape.widths[l] // shape.heads[l]
        parts = {p: arrays[f"layers.{l}.{p}"] for p in ("query", "key", "value", "output")}

        def attended(x: np.ndarray, l: int = l, n: int = n, parts: dict = parts, tokens: list = tokens):
            read = []
            for head in range(shape.heads[l]):
                rows = slice(head * n, (head + 1) * n)
                q = parts["query"][rows] @ x
                scores = np.array([shape.beta[l] * (q @ (parts["key"][rows] @ s)) for s in tokens])
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                read.append(sum(p * (parts["value"][rows] @ s) for p, s in zip(weights, tokens, strict=True)))
            y = x + parts["output"] @ np.concatenate(read)
            if shape.layer_norm:
                y = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
                y = y * arrays[f"layers.{l}.norm.weight"] + arrays[f"layers.{l}.norm.bias"]
            return linear(f"layers.{l}.out", act(linear(f"layers.{l}.hidden", y)))

        after = [attended(x) for x in tokens]
        cls = attended(cls)
        tokens = after
    return cls
