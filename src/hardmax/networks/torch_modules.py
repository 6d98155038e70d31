"""A torch ``Sequential`` read by duck typing: torch is never imported.

What counts is the name of a module's class and its ``weight`` and ``bias``. Linear maps and ReLUs are read,
modules that do nothing in evaluation are passed over, and everything else is refused by name, all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.networks.blocks import Affine, Block, FeedForward

__all__ = ["blocks_of_module"]

_SILENT = ("Identity", "Flatten", "Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout")

_Linear = tuple[NDArray[Any], NDArray[Any] | None]


def blocks_of_module(module: Any) -> tuple[Block, ...]:
    """The blocks of a torch module; see :meth:`hardmax.networks.network.Network.from_torch`."""
    steps: list[_Linear | None] = []  # a linear map, or None for a ReLU
    refused = []
    for path, part in _flat(module, ""):
        kind = type(part).__name__
        if kind == "Linear":
            steps.append(_linear(part, path))
        elif kind == "ReLU":
            steps.append(None)
        elif kind not in _SILENT:
            refused.append(f"{kind} at {path}")
        elif "Dropout" in kind and getattr(part, "training", False) and getattr(part, "p", 0.0) > 0:
            refused.append(f"{kind} at {path} in training mode (call module.eval() first)")
    if refused:
        raise InvalidInputError(
            "module must be made of Linear, ReLU and modules that do nothing in evaluation, but holds "
            f"{', '.join(refused)}."
        )
    _check_fit([step for step in steps if step is not None])
    return tuple(_blocks(steps))


def _flat(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The parts of nested Sequentials in order, with the names that torch prints."""
    if type(module).__name__ != "Sequential":
        yield path or "the top", module
        return
    children = getattr(module, "named_children", None)
    named = children() if children is not None else ((str(i), part) for i, part in enumerate(module))
    for name, part in named:
        yield from _flat(part, f"{path}.{name}" if path else name)


def _linear(part: Any, path: str) -> _Linear:
    weight = _array(getattr(part, "weight", None))
    if weight is None or weight.ndim != 2:
        raise InvalidInputError(f"the Linear at {path} must have a weight matrix, but has none.")
    return weight, _array(getattr(part, "bias", None))


def _array(tensor: Any) -> NDArray[Any] | None:
    if tensor is None:
        return None
    for step in ("detach", "cpu", "double"):  # numpy knows no bfloat16; as doubles all torch floats are exact
        tensor = getattr(tensor, step)() if hasattr(tensor, step) else tensor
    return np.asarray(tensor)


def _check_fit(linear: list[_Linear]) -> None:
    if not linear:
        raise InvalidInputError("module must hold at least one Linear, but has none; its width is unknown.")
    for i, ((before, _), (after, _)) in enumerate(pairwise(linear)):
        if before.shape[0] != after.shape[1]:
            raise DimensionMismatchError(
                f"Linear number {i + 1} must take what number {i} gives ({before.shape[0]}), but takes "
                f"{after.shape[1]}."
            )


def _blocks(steps: list[_Linear | None]) -> Iterator[Block]:
    """Blocks: Linear, ReLU, Linear make one; a ReLU after a block reads its output directly."""
    first = next(step for step in steps if step is not None)
    width = first[0].shape[1]
    i = 0
    while i < len(steps):
        step = steps[i]
        before = None
        if step is not None:
            if i + 1 == len(steps) or steps[i + 1] is not None:
                yield Affine(*step)
                width = step[0].shape[0]
                i += 1
                continue
            before = step
            width = step[0].shape[0]
            i += 1
        after = steps[i + 1] if i + 1 < len(steps) else None
        w_in, b_in = (None, None) if before is None else before
        if after is None:  # a ReLU at the end, or another one behind it
            yield FeedForward(w_in, b_in, np.eye(width), None)
            i += 1
        else:
            yield FeedForward(w_in, b_in, *after)
            width = after[0].shape[0]
            i += 2
