"""Blocks as plain values for a file, and back.

Exact numbers survive: an array whose floats are exact is saved as floats, any other as fractions, and the
product of weights as its factors, each of them once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hardmax.exact.products import ExactProduct
from hardmax.exact.rationals import ExactArray, as_exact
from hardmax.networks.blocks import Affine, Attention, Block, FeedForward, Maxout

__all__ = ["block_of", "state_of"]

_ARRAYS: dict[str, dict[str, int]] = {  # the arrays of each block and their numbers of axes
    "Attention": {"scores": 3, "biases": 2, "outputs": 3},
    "FeedForward": {"w_in": 2, "b_in": 1, "w_out": 2, "b_out": 1},
    "Maxout": {"scores": 3, "biases": 2, "w_out": 2, "b_out": 1},
    "Affine": {"w": 2, "b": 1},
}


def state_of(block: Block) -> dict[str, Any]:
    """What must survive a file.

    >>> state_of(Affine([[2.0]]))
    {'block': 'Affine', 'w': array([[2.]]), 'b': array([0.])}
    """
    kind = type(block).__name__
    state: dict[str, Any] = {"block": kind}
    factors: dict[int, tuple[int, ExactArray]] = {}
    for name in _ARRAYS[kind]:
        array: ExactArray | None = getattr(block, name)
        if isinstance(array, ExactProduct):
            chains = [
                [factors.setdefault(id(factor), (len(factors), factor))[0] for factor in chain]
                for chain in array.chains
            ]
            state[name] = {"chains": chains, "scales": list(array.scales), "column": array.column}
        else:
            state[name] = _values(array)
    if factors:
        state["factors"] = [_values(factor) for _, factor in factors.values()]
    if isinstance(block, (Attention, Maxout)):
        state["mask"] = block.mask
    if isinstance(block, FeedForward) and block.leaky:
        state["slope"] = _values(block.slope)
    if not isinstance(block, Affine):
        state["skip"] = block.skip
    return state


def block_of(state: Mapping[str, Any]) -> Block:
    """The block of a state; whatever does not fit together raises ``ValueError``, ``KeyError`` or the like.

    >>> block_of(state_of(Affine([[2.0]], [1.0])))([3.0])
    array([7.])
    """
    kind = state["block"]
    factors = [as_exact(values, "factor", ndim=2) for values in state.get("factors", [])]
    arrays: dict[str, Any] = {}
    for name, ndim in _ARRAYS[kind].items():
        values = state[name]
        if isinstance(values, Mapping):
            chains = [[factors[i] for i in chain] for chain in values["chains"]]
            arrays[name] = ExactProduct(chains, values["scales"], column=values["column"])
        else:
            arrays[name] = None if values is None else as_exact(values, name, ndim=ndim)
    if kind == "Affine":
        return Affine(**arrays)
    if kind == "FeedForward":
        slope = as_exact(state["slope"], "slope", ndim=1) if "slope" in state else 0
        return FeedForward(**arrays, skip=_flag(state["skip"]), slope=slope)  # type: ignore[arg-type]
    mask = np.asarray(state["mask"])
    if kind == "Maxout":
        return Maxout(**arrays, mask=mask, skip=_flag(state["skip"]))
    return Attention(**arrays, mask=mask, skip=_flag(state["skip"]))


def _values(array: ExactArray | None) -> Any:
    if array is None:
        return None
    return array.floats if array.fractions is None else array.fractions


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"skip must be True or False, not {value!r}")
    return value
