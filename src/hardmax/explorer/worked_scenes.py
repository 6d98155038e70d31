"""Ten worked scenes: what to look at first, with two sentences and a question each.

Scenes of the papers' figures are made here. Three come from trained weights and are kept as numbers in
``trained_scenes.json``, because making them takes a model or a training run;
``tests/scripts/explorer_scenes.py`` writes that file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from hardmax.explorer.states import State, checked_state
from hardmax.networks.constructions import sawtooth_network
from hardmax.networks.network import Network

Scene = dict[str, Any]

# The shortest key (number 0) is a corner of the hull and keeps its cell; keys 4 and 5 are longer and lose.
_FIGURE_3 = ((0.5, 0), (-3, 2.5), (-3, -2.5), (-4, 0.3), (-2.1, 0.33), (-2.4, -0.55), (2.2, 1.9))
_FIGURE_5 = ((1.1, 0.35), (-0.4, 1.3), (-1.25, -0.3), (0.2, -1.05), (0.35, 0.4))
_FIGURE_4 = (
    ((2, 0.3), (1.2, 1.7), (-0.9, 1.8), (-2, 0.2), (-1, -1.6), (1.1, -1.7)),
    ((1.6, 0.9), (0.3, 1.9), (-1.5, 1.1), (-1.8, -0.7), (-0.2, -1.9), (1.7, -0.8)),
    ((1.9, -0.3), (1.6, 1.2), (-0.2, 1.7), (-1.7, 0.8), (-1.6, -1.1), (0.4, -1.8)),
)
_SATURATION = (
    ((2, 0.4), (-0.6, 1.8), (-1.9, -0.7), (0.5, -1.7)),
    ((1.5, 1.3), (-1.6, 1), (-1, -1.6), (1.4, -1.2)),
    ((0.9, 1.9), (-1.9, 0.3), (-0.4, -1.9), (1.8, -0.5)),
    ((1.8, 0.9), (-1, 1.6), (-1.7, -1.1), (0.9, -1.8)),
    ((0.3, 1.6), (-1.5, -0.2), (0.2, -1.4), (1.6, 0.2)),
)


@cache
def scenes() -> tuple[Scene, ...]:
    """The scenes, in the order of the page.

    Examples
    --------
    >>> [scene["name"] for scene in scenes()][:4]
    ['fig3', 'fig5', 'fig4', 'saturation']
    """
    trained = json.loads((files("hardmax.explorer") / "trained_scenes.json").read_text(encoding="utf-8"))
    return (
        _scene(
            "fig3",
            "Why cells vanish",
            "P1, figure 3",
            "Seven keys share the plane: a query goes to the key with the largest inner product. The paper "
            "says "
            "that short keys lose their cells, but key 0 is the shortest of all and keeps its own, while the "
            "longer keys 4 and 5 never win.",
            "Select a grey key: which others beat it, and how far must you drag it before it wins?",
            _head(_FIGURE_3, 4.5),
        ),
        _scene(
            "fig5",
            "Temperature blurs the walls",
            "P1, figure 5",
            "At temperature zero one key takes all; at a higher one softmax mixes them, and colours blend. "
            "In the "
            "shaded band the margin between the two best scores is too small to promise anything.",
            "How low must the temperature be before the band covers less than half of the square?",
            _head(_FIGURE_5, 4, temperature=0.5),
        ),
        _scene(
            "fig4",
            "Heads add up",
            "P1, figure 4, in the plane",
            "Three heads of six keys have 216 combinations, but a cell of all heads together is a corner "
            "of the "
            "sum of three polygons. In the plane that allows 18 cells, not 216.",
            "These keys reach 18. Drag one key: what do two parallel edges do to the count?",
            {"mode": "heads", "half": 3, "heads": [[[x, y, 0] for x, y in keys] for keys in _FIGURE_4]},
        ),
        _scene(
            "saturation",
            "More heads than dimensions",
            "P1, Theorem V.2",
            "Five heads of four keys could choose in 1,024 ways. With more heads than dimensions the count "
            "saturates: each further head adds its corners and multiplies nothing.",
            "What changes when you press Random biases, and why are there dots inside the sum then?",
            {"mode": "heads", "half": 3, "heads": [[[x, y, 0] for x, y in keys] for keys in _SATURATION]},
        ),
        _scene(
            "fig7",
            "A block is no common refinement",
            "P1, figure 7",
            "A head with two keys jumps at its wall, and two ReLU units fold what it leaves behind. Three "
            "lines "
            "would cut the plane into 7 cells at most, but here are 8: behind the wall the folds lie "
            "elsewhere.",
            "Move the slider from 0 to 2 blocks. Can you drag a key so that one side has only three cells?",
            {
                "mode": "depth",
                "half": 6,
                "shown": 2,
                "blocks": [
                    _attention([[[2, 1], [-2, -1]]], [[0, 0]], [[[-2, 0], [3, 2]]]),
                    _relu([[1, -1], [1, 2]], [0, -3], [[1, 0], [0, 1]], [0, 0]),
                ],
            },
        ),
        _scene(
            "sawtooth",
            "Depth multiplies",
            "P1, Theorem V.7",
            "Each layer folds the square onto itself: two heads lay its four quarters on top of each "
            "other, and "
            "ReLU units fold them again. Every layer multiplies the cells by 16, so two layers have 256.",
            "How many cells will a key save or lose if you move it a little? Try key 0.1.",
            {"mode": "depth", "half": 1, "shown": 4, "blocks": _centred_sawtooth()},
        ),
        trained["classifier"],
        trained["head"],
        trained["minilm"],
        _scene(
            "infoflow",
            "What reaches the read-out?",
            "P2, figure 5",
            "The target is the smallest inner product of two tokens, so it depends on two of the four. In "
            "layer "
            "1 every token fetches the one most opposite to it, and in layer 2 CLS fetches the token that "
            "holds "
            "the best pair.",
            "Switch off the head of layer 1: what is lost? Then add a term and give it no head.",
            {
                "mode": "flow",
                "tokens": [[0, -100], [70, 70], [0, 100], [-20, -90]],
                "forms": [[[-1, 0], [0, -1]]],
                "first": [True],
                "last": [True],
            },
        ),
    )


def _scene(name: str, title: str, source: str, text: str, question: str, state: State) -> Scene:
    return {
        "name": name,
        "title": title,
        "from": source,
        "text": text,
        "question": question,
        "state": checked_state(state),
    }


def _head(keys: Sequence[Sequence[float]], half: float, *, temperature: float = 0) -> State:
    return {
        "mode": "head",
        "scores": "attention",
        "rule": "hardmax",
        "temperature": temperature,
        "half": half,
        "keys": [[x, y, 0] for x, y in keys],
    }


def _attention(scores: Any, biases: Any, outputs: Any, *, skip: bool = True) -> State:
    return {"kind": "attention", "scores": scores, "biases": biases, "outputs": outputs, "skip": skip}


def _relu(w_in: Any, b_in: Any, w_out: Any, b_out: Any) -> State:
    return {"kind": "relu", "w_in": w_in, "b_in": b_in, "w_out": w_out, "b_out": b_out, "skip": False}


def blocks_of(network: Network) -> list[State]:
    """The blocks of a network of hardmax heads and ReLU layers, as a state holds them.

    >>> [block["kind"] for block in blocks_of(sawtooth_network(2, 2, 1, 1))]
    ['attention', 'relu']
    """
    made: list[State] = []
    for block in network.blocks:
        heads = block.name == "attention"
        names = ("scores", "biases", "outputs") if heads else ("w_in", "b_in", "w_out", "b_out")
        arrays = [getattr(block, name).floats.tolist() for name in names]
        made.append(_attention(*arrays, skip=block.skip) if heads else _relu(*arrays))
    return made


def _centred_sawtooth() -> list[State]:
    """Two layers of the sawtooth on [-1, 1]^2 instead of [0, 1]^2: x = 2u - 1, exactly in floats.

    With u = (x + 1)/2, scores a . u + b become (a/2) . x + (b + sum(a)/2), values double, and a ReLU layer
    reads W u + b and writes 2 y - 1.
    """
    blocks = blocks_of(sawtooth_network(2, n_tokens=2, teeth=1, depth=2))
    for block in blocks:
        if block["kind"] == "attention":
            # twice the scores, (a . x + 2b + sum(a)), have the same winners and keys that are easier to see
            block["biases"] = [
                [2 * b + sum(key) for b, key in zip(row, keys, strict=True)]
                for row, keys in zip(block["biases"], block["scores"], strict=True)
            ]
            block["outputs"] = [[[2 * v for v in key] for key in keys] for keys in block["outputs"]]
        else:
            block["b_in"] = [b + sum(row) / 2 for b, row in zip(block["b_in"], block["w_in"], strict=True)]
            block["w_in"] = [[w / 2 for w in row] for row in block["w_in"]]
            block["w_out"] = [[2 * w for w in row] for row in block["w_out"]]
            block["b_out"] = [2 * b - 1 for b in block["b_out"]]
    return blocks
