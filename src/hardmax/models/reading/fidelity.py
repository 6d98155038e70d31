r"""How far what was read is from what the model computes itself.

For every layer and head, in double precision from the captured arrays,

.. math:: s_{ts} = \sigma\, q_t \cdot k_s + B_{ts}, \qquad p_t = \operatorname{softmax}(s_t), \qquad
          o_t = \sum_s p_{ts} v_s,

against the scores that enter the softmax of the model's own eager attention, the probabilities that leave it
and what W_O receives, in a forward pass of its own and in float32. Queries that follow from
:class:`~hardmax.models.reading.query_maps.QueryWay` are compared with those that were captured. A query that
may read no key at all (padding before a causal text) has no probabilities and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.errors import FidelityError
from hardmax.models.reading.capture import Captured, Watched
from hardmax.models.reading.captured_layer import softmax

__all__ = ["LIMIT", "Differences", "differences", "native_difference", "within_limit"]

LIMIT = 1e-4
"""Differences above this are not rounding; the model is refused."""

_ROWS = 64


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
    received = _by_head(watched.received, layer.heads)
    scores = probabilities = outputs = largest = 0.0
    for h in range(layer.heads):
        values = np.asarray(layer.values[layer.group(h)], dtype=np.float64)
        for rows in _blocks(layer.n_queries):
            present = layer.present[rows]
            alive = present.any(axis=1)
            found, own = layer.scores(h, rows), _double(watched.scores[0, h, rows])
            p, own_p = softmax(found), _double(watched.probabilities[0, h, rows])
            for array in (found, own):
                np.copyto(array, 0.0, where=~present)
            scores, largest = max(scores, _largest(found - own)), max(largest, _largest(own))
            if not alive.all():
                p, own_p, mixed = p[alive], own_p[alive], received[h, rows][alive]
            else:
                mixed = received[h, rows]
            probabilities = max(probabilities, _largest(p - own_p))
            outputs = max(outputs, _largest(p @ values - mixed))
    return Differences(
        scores=_relative(scores, largest),
        probabilities=probabilities,
        queries=_relative(_largest(captured.way.queries() - layer.queries), _largest(layer.queries)),
        outputs=_relative(outputs, _largest(received)),
    )


def native_difference(captured: Captured, watched: Watched) -> float:
    """The largest difference of probabilities to a pass in the precision of the weights."""
    layer = captured.layer
    worst = 0.0
    for h in range(layer.heads):
        for rows in _blocks(layer.n_queries):
            alive = layer.present[rows].any(axis=1)
            own = _double(watched.probabilities[0, h, rows])
            worst = max(worst, _largest((layer.probabilities(h, rows) - own)[alive]))
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


def _blocks(n: int) -> Iterator[slice]:
    """Queries in blocks whose scores fit into a processor's cache."""
    return (slice(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS))


def _double(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy()


def _by_head(received: Any, heads: int) -> Any:
    """What W_O receives, (H, Q, d_value)."""
    array = _double(received)
    array = array[0] if array.ndim == 3 else array
    return array.reshape(len(array), heads, -1).transpose(1, 0, 2)


def _largest(array: Any) -> float:
    """The largest absolute value; infinite where something is not a number."""
    if array.size == 0:
        return 0.0
    worst = float(max(array.max(), -array.min()))  # without a copy of the array
    return float("inf") if np.isnan(worst) else worst


def _relative(difference: float, scale: float) -> float:
    return difference / scale if scale > 0 else difference
