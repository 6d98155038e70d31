"""What the explorer shows, as plain numbers: the states that links, scenes and questions to the server hold.

A state comes from a link or from another page, so nothing about it is believed: every field is checked, and
sizes are bounded so that no state costs more than a few seconds. ``web/state.js`` checks the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hardmax.errors import InvalidInputError

State = dict[str, Any]

MODES = ("head", "heads", "depth", "flow")
SCORES = ("attention", "power", "voronoi")
RULES = ("hardmax", "top-2", "sparsemax")
MOST_KEYS = 200
_LARGEST = 1e6


def checked_state(state: object) -> State:
    """The state with exactly the fields of its mode, or an error that names the first wrong one.

    Raises
    ------
    InvalidInputError
        When a field is missing, of another type, not finite or too large.

    Examples
    --------
    >>> checked_state({"mode": "flow", "tokens": [[1, 2]], "forms": [[[1, 0], [0, 1]]], "first": [True],
    ...                "last": [False]})["tokens"]
    [[1, 2]]
    """
    if not isinstance(state, Mapping) or state.get("mode") not in MODES:
        raise InvalidInputError(f'a state must be an object whose "mode" is one of {", ".join(MODES)}.')
    return {"mode": state["mode"], **_FIELDS[state["mode"]](state)}


def _head(state: Mapping[str, Any]) -> State:
    rule, kind = _one_of(state, "rule", RULES), _one_of(state, "scores", SCORES)
    temperature = _number(state.get("temperature"), "temperature")
    if temperature < 0 or (rule == "sparsemax" and temperature == 0):
        raise InvalidInputError(f"temperature must be positive, but was {temperature}.")
    keys = _rows(state.get("keys"), "keys", 3, 1, MOST_KEYS)
    points = _rows(state.get("points", []), "points", 2, 0, MOST_KEYS)
    return {
        "scores": kind,
        "rule": rule,
        "temperature": temperature,
        "half": _half(state),
        "keys": keys,
        "points": points,
    }


def _heads(state: Mapping[str, Any]) -> State:
    heads = _list(state.get("heads"), "heads", 1, 6)
    return {"half": _half(state), "heads": [_rows(keys, "keys", 3, 1, 60) for keys in heads]}


def _depth(state: Mapping[str, Any]) -> State:
    blocks: list[State] = []
    width = 2
    for block in _list(state.get("blocks"), "blocks", 1, 8):
        if not isinstance(block, Mapping):
            raise InvalidInputError("blocks must be objects.")
        made = (_relu if block.get("kind") == "relu" else _attention)(block, width)
        if made["kind"] == "relu":
            width = len(made["w_out"])
        blocks.append(made)
    shown = state.get("shown", len(blocks))
    if not isinstance(shown, int) or isinstance(shown, bool) or not 0 <= shown <= len(blocks):
        raise InvalidInputError(f"shown must be a whole number from 0 to {len(blocks)}.")
    return {"half": _half(state), "shown": shown, "blocks": blocks}


def _relu(block: Mapping[str, Any], width: int) -> State:
    w_in = _rows(block.get("w_in"), "w_in", width, 1, 32)
    b_in = _numbers(block.get("b_in"), "b_in", len(w_in), len(w_in))
    w_out = _rows(block.get("w_out"), "w_out", len(w_in), 1, 32)
    skip = _skip(block, len(w_out) == width)
    b_out = _numbers(block.get("b_out"), "b_out", len(w_out), len(w_out))
    return {"kind": "relu", "w_in": w_in, "b_in": b_in, "w_out": w_out, "b_out": b_out, "skip": skip}


def _attention(block: Mapping[str, Any], width: int) -> State:
    if block.get("kind") != "attention":
        raise InvalidInputError('the kind of a block must be "attention" or "relu".')
    scores = [_rows(rows, "scores", width, 1, 32) for rows in _list(block.get("scores"), "scores", 1, 4)]
    sizes = [len(rows) for rows in scores]
    biases = _list(block.get("biases"), "biases", len(sizes), len(sizes))
    outputs = _list(block.get("outputs"), "outputs", len(sizes), len(sizes))
    return {
        "kind": "attention",
        "scores": scores,
        "biases": [_numbers(row, "biases", n, n) for row, n in zip(biases, sizes, strict=True)],
        "outputs": [_rows(rows, "outputs", width, n, n) for rows, n in zip(outputs, sizes, strict=True)],
        "skip": _skip(block, True),
    }


def _flow(state: Mapping[str, Any]) -> State:
    tokens = _rows(state.get("tokens"), "tokens", 2, 1, 24)
    forms = [_rows(rows, "forms", 2, 2, 2) for rows in _list(state.get("forms"), "forms", 1, 6)]
    whole = [x for row in (*tokens, *(row for form in forms for row in form)) for x in row]
    if any(x != int(x) or abs(x) > 10_000 for x in whole):
        raise InvalidInputError("tokens and forms must hold whole numbers up to 10,000 (hundredths).")
    switches = {name: _list(state.get(name), name, len(forms), len(forms)) for name in ("first", "last")}
    if any(not isinstance(x, bool) for row in switches.values() for x in row):
        raise InvalidInputError("first and last must hold true or false, one per form.")
    return {"tokens": tokens, "forms": forms, **switches}


_FIELDS: dict[str, Callable[[Mapping[str, Any]], State]] = {
    "head": _head,
    "heads": _heads,
    "depth": _depth,
    "flow": _flow,
}


def _one_of(state: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    value = state.get(name)
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}.")
    return str(value)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInputError(f"{name} must hold finite numbers.")
    if isinstance(value, float) and not math.isfinite(value):  # asked of an integer, this may overflow
        raise InvalidInputError(f"{name} must hold finite numbers.")
    if abs(value) > _LARGEST:
        raise InvalidInputError(f"{name} must hold numbers up to {_LARGEST:g}.")
    return value


def _half(state: Mapping[str, Any]) -> float:
    half = _number(state.get("half"), "half")
    if not half > 0:
        raise InvalidInputError("half, the half side of the square that is shown, must be positive.")
    return half


def _skip(block: Mapping[str, Any], possible: bool) -> bool:
    skip = block.get("skip")
    if not isinstance(skip, bool) or (skip and not possible):
        raise InvalidInputError("skip must be true or false, and true only where the width stays the same.")
    return skip


def _list(value: object, name: str, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise InvalidInputError(f"{name} must be a list of {least} to {most} items.")
    return value


def _numbers(value: object, name: str, least: int, most: int) -> list[float]:
    return [_number(x, name) for x in _list(value, name, least, most)]


def _rows(value: object, name: str, columns: int, least: int, most: int) -> list[list[float]]:
    return [_numbers(row, name, columns, columns) for row in _list(value, name, least, most)]
