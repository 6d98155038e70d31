"""The exact answer of the library to what the explorer shows.

The page counts in floats while a key moves. When it is released, the count is confirmed: in integers in the
page itself, and by these functions where a server runs. The two share no code.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from hardmax.errors import IncompleteError
from hardmax.explorer.states import State, checked_state
from hardmax.flow.architectures import Architecture
from hardmax.flow.information_sets import information_sets
from hardmax.flow.plans import KeyScore, MaxPosition, Plan
from hardmax.geometry.diagrams.order_k import winning_sets
from hardmax.geometry.diagrams.power_diagrams import attention_diagram, power_diagram
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import Block, FeedForward
from hardmax.networks.network import Network
from hardmax.regions.api import count_cells

_SECONDS = 20.0
_CELLS = 20_000


def answer(state: object) -> dict[str, Any]:
    """How many cells a state has, exactly, and what belongs to the count.

    Parameters
    ----------
    state : dict
        As the page holds it (:mod:`hardmax.explorer.states`).

    Returns
    -------
    dict
        ``count``, and per mode: ``empty`` (keys that never win), ``regions``, or the sets of an information
        flow.

    Raises
    ------
    IncompleteError
        When the count takes too long.

    Examples
    --------
    >>> keys = [[2, 0, 0], [-1, 2, 0], [-1, -2, 0], [0.2, 0.1, 0]]
    >>> answer({"mode": "head", "scores": "attention", "rule": "hardmax", "temperature": 0, "half": 3,
    ...         "keys": keys})
    {'count': 3, 'empty': [3]}
    """
    checked = checked_state(state)
    return _ANSWERS[checked["mode"]](checked)


def _head(state: State) -> dict[str, Any]:
    keys = np.array(state["keys"], dtype=np.float64)
    plane, weights = keys[:, :2], keys[:, 2]
    kind, rule = state["scores"], state["rule"]
    if kind == "voronoi":
        weights = np.zeros(len(keys))
    diagram_of = attention_diagram if kind == "attention" else power_diagram
    diagram = diagram_of(plane, weights)
    found: dict[str, Any] = {"empty": np.flatnonzero(~diagram.nonempty).tolist()}
    if rule == "hardmax":
        count = len(np.unique(diagram.tie_group[diagram.nonempty]))
    elif rule == "top-2":
        count = len(winning_sets(diagram.scores, 2).sets) if len(keys) > 1 else 0
    else:
        scores = diagram.scores
        block = Attention(
            scores.slopes[None],
            scores.offsets[None] if kind == "attention" else np.array([_offsets(state)], dtype=object),
            np.zeros((1, len(keys), 1)),
            rule="sparsemax",
            temperature=state["temperature"],
            skip=False,
        )
        count = _counted(Network((block,)), WholeSpace(2))
    return {"count": count, **found}


def _offsets(state: State) -> list[Any]:
    """The constants of the scores of a power diagram, without rounding."""
    weigh = state["scores"] == "power"
    return [
        (Fraction(w if weigh else 0) - Fraction(x) ** 2 - Fraction(y) ** 2) / 2 for x, y, w in state["keys"]
    ]


def _heads(state: State) -> dict[str, Any]:
    heads = [np.array(keys, dtype=np.float64) for keys in state["heads"]]
    found = minkowski_vertices([keys[:, :2] for keys in heads], [keys[:, 2] for keys in heads])
    return {"count": found.count}


def network_of(state: State) -> Network:
    """The network of a depth state, as far as it is shown."""
    blocks: list[Block] = []
    for block in state["blocks"][: state["shown"]]:
        if block["kind"] == "relu":
            weights = (np.array(block[name], dtype=float) for name in ("w_in", "b_in", "w_out", "b_out"))
            blocks.append(FeedForward(*weights, skip=block["skip"]))
        else:
            blocks.append(Attention(block["scores"], block["biases"], block["outputs"], skip=block["skip"]))
    return Network(tuple(blocks))


def _depth(state: State) -> dict[str, Any]:
    if not state["shown"]:
        return {"count": 1}
    return {"count": _counted(network_of(state), Box.cube(2, -state["half"], state["half"]))}


def _counted(network: Network, domain: Box | WholeSpace) -> int:
    found = count_cells(network, domain, max_cells=_CELLS, time_limit=_SECONDS)
    if not found.complete:
        raise IncompleteError(
            f"the count was stopped after {_SECONDS:g} seconds or {_CELLS:,} cells; take fewer keys or "
            "layers."
        )
    return int(found.n_cells)


def _flow(state: State) -> dict[str, Any]:
    tokens = np.array(state["tokens"], dtype=np.float64)
    forms = [np.array(form, dtype=np.float64) for form in state["forms"]]
    first = [_read(form) for form, on in zip(forms, state["first"], strict=True) if on]
    last = [_read_pair(form) for form, on in zip(forms, state["last"], strict=True) if on]
    if not last:
        return {"count": 0, "known": []}
    # without a head the first layer hands every token on as it is
    layers = [{"tokens": first}, {"cls": last}] if first else [{"cls": last}]
    heads = [len(reads) for layer in layers for reads in layer.values()]
    shape = Architecture(len(tokens), 2, heads, 2 * prod(heads))  # any width that the heads divide
    known = np.flatnonzero(information_sets(shape, Plan(layers), tokens).sets()[0]).tolist()
    return {"count": len(known), "known": known}


def _read(form: np.ndarray[Any, Any]) -> MaxPosition:
    """Read the token of the largest x_s' M x_t; each token is in the first slot of its own."""
    return MaxPosition(lambda q, k: np.einsum("bsd,de,bte->bst", q[:, :, 0], form, k[:, :, 0]))


def _read_pair(form: np.ndarray[Any, Any]) -> MaxPosition:
    """Read the token that holds the pair of the largest x_s' M x_t."""
    return MaxPosition(KeyScore(lambda k: np.einsum("btid,de,btje->btij", k, form, k).max((-1, -2))))


_ANSWERS = {"head": _head, "heads": _heads, "depth": _depth, "flow": _flow}
