"""The reading loop: a text goes through a model once, and every recorder sees its layers as they pass.

The head atlas, information sets, rollout, the assumptions of P1 and the effect of frozen norms are recorders.
Each names the layers that it needs; nothing of a layer is kept but what a recorder writes down. A recorder of
one's own is any callable with an attribute ``layers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hardmax.models.reading.captured_layer import CapturedLayer, TextReading
from hardmax.models.reading.sources import as_source

__all__ = ["Recorder", "read"]


class Recorder(Protocol):
    """What is written down about layers as they pass, first to last."""

    @property
    def layers(self) -> tuple[int, ...] | None:
        """The layers that it is shown, counted from 0; None for all."""
        ...

    def __call__(self, layer: CapturedLayer) -> None:
        """Record one layer."""
        ...


def read(
    model: Any,
    text: str | None,
    recorders: Sequence[Recorder],
    *,
    tokenizer: Any = None,
    hub: bool = False,
) -> TextReading:
    """Send a text through a model once and show each layer to the recorders that need it, in their order.

    Parameters
    ----------
    model : Source, path, hub id or torch module
    text : str or None
        None where the source has a sequence of its own.
    recorders : sequence of Recorder
    tokenizer, hub
        As in :func:`hardmax.head_atlas`.

    Returns
    -------
    TextReading
        Names of the tokens, and how far what was shown is from what the model computes itself.

    Examples
    --------
    >>> from hardmax.models.bundled import bundled_source
    >>> from hardmax.models.influence.rollout import RolloutRecorder
    >>> from hardmax.models.influence.routing_flow import FlowRecorder
    >>> rollout, flow = RolloutRecorder(), FlowRecorder(["argmax"])
    >>> reading = read(bundled_source(), None, [rollout, flow])
    >>> rollout.rollout(len(reading.key_tokens)).shape, flow.flows(reading)[0].sets.shape
    ((2, 16, 15), (3, 16, 15))
    """
    needed = [recorder.layers for recorder in recorders]

    def show(layer: CapturedLayer) -> None:
        for recorder, layers in zip(recorders, needed, strict=True):
            if layers is None or layer.index in layers:
                recorder(layer)

    together = sorted({index for layers in needed for index in layers or ()})
    source = as_source(model, tokenizer=tokenizer, hub=hub)
    return source.read(text, show, layers=None if None in needed else tuple(together))
