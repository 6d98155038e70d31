"""Random and degenerate states of the explorer, and what its JavaScript says about them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

NODE = shutil.which("node")
JUDGE = Path(__file__).parent / "explorer_judge.mjs"

SHAPES = ("gaussian", "lattice", "collinear", "duplicates", "circle", "on the hull", "tiny", "mixed scales")


def layout(rng: np.random.Generator, shape: str, n: int) -> np.ndarray[Any, Any]:
    """Keys (n, 2) of one kind; all but the Gaussian ones are degenerate."""
    if shape == "gaussian":
        return rng.standard_normal((n, 2))
    if shape == "lattice":
        return rng.integers(-2, 3, (n, 2)).astype(float)
    if shape == "collinear":
        return np.outer(rng.integers(-4, 5, n) / 3, rng.standard_normal(2)) + rng.standard_normal(2)
    if shape == "duplicates":
        return rng.standard_normal((max(1, n // 2), 2))[rng.integers(0, max(1, n // 2), n)]
    if shape == "circle":
        angles = 2 * np.pi * rng.integers(0, 12, n) / 12
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if shape == "on the hull":  # midpoints of edges of a square, and its corners
        square = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1], [1, 0], [0, 1], [-1, 0], [0, -1], [0.5, 1]])
        return square[rng.integers(0, len(square), n)] * rng.choice([1.0, 0.1, 3.0])
    if shape == "tiny":
        return 1.0 + rng.integers(-2, 3, (n, 2)) * 2.0**-52
    return rng.standard_normal((n, 2)) * 10.0 ** rng.integers(-6, 4, (n, 1))


def weights(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    """Weights (n,): none, whole numbers that tie, or real ones."""
    kind = rng.integers(0, 3)
    return np.zeros(n) if kind == 0 else rng.integers(-1, 2, n) / 2 if kind == 1 else rng.standard_normal(n)


def draw(rng: np.random.Generator, i: int) -> dict[str, Any]:
    """State number ``i``: modes, rules and shapes in turn."""
    mode = ("head", "head", "head", "head", "heads", "heads", "depth", "depth", "flow")[i % 9]
    return _MAKERS[mode](rng)


def _keys(rng: np.random.Generator, most: int) -> list[list[float]]:
    n = int(rng.integers(1, most + 1))
    keys = layout(rng, SHAPES[rng.integers(len(SHAPES))], n)
    return np.column_stack([keys, weights(rng, n)]).tolist()


def _head(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "mode": "head",
        "scores": str(rng.choice(["attention", "power", "voronoi"])),
        "rule": str(rng.choice(["hardmax", "hardmax", "top-2", "sparsemax"])),
        "temperature": float(rng.choice([0.25, 1.0, 0.3, 2.0])),
        "half": 3.0,
        "keys": _keys(rng, 9),
    }


def _heads(rng: np.random.Generator) -> dict[str, Any]:
    return {"mode": "heads", "half": 3.0, "heads": [_keys(rng, 6) for _ in range(rng.integers(1, 4))]}


def _depth(rng: np.random.Generator) -> dict[str, Any]:
    """Small networks with whole, halved or real weights; the first are full of ties."""
    whole = rng.integers(0, 3)

    def numbers(*shape: int) -> Any:
        if whole == 2:
            return rng.standard_normal(shape).tolist()
        return (rng.integers(-2, 3, shape) / (1 + whole)).tolist()

    blocks: list[dict[str, Any]] = []
    for _ in range(rng.integers(1, 3)):
        heads, n, units = rng.integers(1, 3), rng.integers(1, 5), rng.integers(1, 5)
        attention = {
            "scores": numbers(heads, n, 2),
            "biases": numbers(heads, n),
            "outputs": numbers(heads, n, 2),
        }
        relu = {
            "w_in": numbers(units, 2),
            "b_in": numbers(units),
            "w_out": numbers(2, units),
            "b_out": numbers(2),
        }
        blocks.append({"kind": "attention", **attention, "skip": bool(rng.integers(2))})
        blocks.append({"kind": "relu", **relu, "skip": bool(rng.integers(2))})
    return {"mode": "depth", "half": 2.0, "shown": len(blocks), "blocks": blocks}


def _flow(rng: np.random.Generator) -> dict[str, Any]:
    n, h = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    size = int(rng.choice([2, 100]))  # small numbers tie often
    return {
        "mode": "flow",
        "tokens": rng.integers(-size, size + 1, (n, 2)).tolist(),
        "forms": rng.integers(-2, 3, (h, 2, 2)).tolist(),
        "first": rng.integers(0, 5, h).astype(bool).tolist(),
        "last": rng.integers(0, 5, h).astype(bool).tolist(),
    }


_MAKERS = {"head": _head, "heads": _heads, "depth": _depth, "flow": _flow}


def judged(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the modules of the page count: ``{"live": ..., "exact": ...}`` for every state."""
    assert NODE is not None
    text = "".join(json.dumps(state) + "\n" for state in states)
    done = subprocess.run(
        [NODE, str(JUDGE)], input=text, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
