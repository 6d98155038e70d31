r"""How far what was read is from what the model computes itself.

For every layer and head, in double precision from the captured arrays,

.. math:: s_{ts} = \sigma\, q_t \cdot k_s + B_{ts}, \qquad p_t = \operatorname{softmax}(s_t), \qquad
          o_t = \sum_s p_{ts} v_s,

against the scores that enter the softmax of the model's own eager attention, the probabilities that leave it
and what W_O receives, in a forward pass of its own and in float32. Queries that follow from
:class:`~hardmax.models.query_maps.QueryWay` are compared with those that were captured. A query that may read
no key at all (padding before a causal text) has no probabilities and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.errors import FidelityError
from hardmax.models.capture import Captured, Watched

__all__ = ["LIMIT", "Differences", "differences", "native_difference", "within_limit"]

LIMIT = 1e-4
"""Differences above this are not rounding; the model is refused."""


@dataclass(frozen=True)
class Differences:
    """Largest differences, relative to the largest entry but for probabilities."""

    scores: float = 0.0
    probabilities: float = 0.0
    queries: float = 0.0
    outputs: float = 0.0

    def with_largest(self, other: Differences) -> Differences:
        """Entry by entry the larger of two; NaN is larger than any number."""
        return Differences(
            *(
                float(np.fmax(np.inf if np.isnan(a) else a, np.inf if np.isnan(b) else b))
                for a, b in zip(self.values(), other.values(), strict=True)
            )
        )

    def values(self) -> tuple[float, float, float, float]:
        """Scores, probabilities, queries, outputs."""
        return self.scores, self.probabilities, self.queries, self.outputs


def differences(captured: Captured, watched: Watched) -> Differences:
    """Compare one layer with what the model computed in it.

    Raises
    ------
    FidelityError
        When the model's softmax runs over something else than the keys that were captured.
    """
    layer = captured.layer
    shape = (layer.heads, layer.n_queries, layer.n_keys)
    seen = None if watched.scores is None else tuple(watched.scores.shape[1:])
    if seen != shape:
        raise FidelityError(
            f"layer {layer.index} must have one score per head, query and key, {shape}, but the model's own "
            f"softmax runs over {'nothing' if seen is None else seen}; it cannot be read."
        )
    alive = layer.present.any(axis=1)
    received = _by_head(watched.received, layer.heads)
    worst = {"scores": 0.0, "probabilities": 0.0, "outputs": 0.0}
    largest = {"scores": 0.0, "outputs": float(np.abs(received).max(initial=0.0))}
    for h in range(layer.heads):
        own = watched.scores[0, h].detach().cpu().double().numpy()
        scores = layer.scores(h)
        own_present = own[layer.present]
        worst["scores"] = max(worst["scores"], _largest(scores[layer.present] - own_present))
        largest["scores"] = max(largest["scores"], _largest(own_present))
        p = layer.probabilities(h)
        own = watched.probabilities[0, h].detach().cpu().double().numpy()
        worst["probabilities"] = max(worst["probabilities"], _largest((p - own)[alive]))
        output = p @ np.asarray(layer.values[layer.group(h)], dtype=np.float64)
        worst["outputs"] = max(worst["outputs"], _largest((output - received[h])[alive]))
    way = captured.way.queries()
    return Differences(
        scores=_relative(worst["scores"], largest["scores"]),
        probabilities=worst["probabilities"],
        queries=_relative(_largest(way - layer.queries), _largest(layer.queries)),
        outputs=_relative(worst["outputs"], largest["outputs"]),
    )


def native_difference(captured: Captured, watched: Watched) -> float:
    """The largest difference of probabilities to a pass in the precision of the weights."""
    layer = captured.layer
    alive = layer.present.any(axis=1)
    worst = 0.0
    for h in range(layer.heads):
        own = watched.probabilities[0, h].detach().cpu().double().numpy()
        worst = max(worst, _largest((layer.probabilities(h) - own)[alive]))
    return worst


def within_limit(found: Differences, *, model: str, limit: float = LIMIT) -> None:
    """Refuse a model that was not read faithfully.

    Raises
    ------
    FidelityError
        When a difference is above ``limit``.

    Examples
    --------
    >>> within_limit(Differences(scores=1e-7), model="a model")
    >>> within_limit(Differences(scores=0.3), model="a model")
    Traceback (most recent call last):
    ...
    hardmax.errors.FidelityError: what was read from a model must agree with its own eager attention up to \
0.0001, but scores differ by 0.3; it is not understood and cannot be read.
    """
    names = ("scores", "probabilities", "queries", "outputs")
    beyond = [
        f"{name} differ by {value:.3g}"
        for name, value in zip(names, found.values(), strict=True)
        if not value <= limit
    ]
    if beyond:
        raise FidelityError(
            f"what was read from {model} must agree with its own eager attention up to {limit:g}, but "
            f"{', '.join(beyond)}; it is not understood and cannot be read."
        )


def _by_head(received: Any, heads: int) -> Any:
    """What W_O receives, (H, Q, d_value)."""
    array = received.detach().cpu().double().numpy()
    array = array[0] if array.ndim == 3 else array
    return array.reshape(len(array), heads, -1).transpose(1, 0, 2)


def _largest(array: Any) -> float:
    """The largest absolute value; infinite where something is not a number."""
    worst = float(np.abs(array).max(initial=0.0))
    return float("inf") if np.isnan(worst) else worst


def _relative(difference: float, scale: float) -> float:
    return difference / scale if scale > 0 else difference
