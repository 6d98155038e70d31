"""The recorder of the head atlas: what is measured in each layer as it passes."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.models.atlas.head_measures import QueryMeasures, measure_queries, reading_position
from hardmax.models.atlas.head_records import HeadRecord, PositionRecord, head_record, position_record
from hardmax.models.atlas.layer_cells import LayerSlice, Plane, layer_slice, plane_through, principal_plane
from hardmax.models.atlas.reachable_keys import KeysThatCanWin, keys_that_can_win, read_keys
from hardmax.models.reading.captured_layer import CapturedLayer, Source

if TYPE_CHECKING:
    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram

__all__ = ["AtlasRecorder", "Progress"]

Progress = Callable[[int, int], object]


class AtlasRecorder:
    """Measures every layer that passes: the rows of the atlas, and a slice where one is asked for.

    Parameters
    ----------
    source : Source
    layers, heads, positions, plane, time_limit, sink_factor, progress
        As in :func:`hardmax.head_atlas`.
    """

    def __init__(
        self,
        source: Source,
        *,
        layers: Iterable[int] | None = None,
        heads: Iterable[int] | None = None,
        positions: Iterable[int] | None = None,
        plane: str | Sequence[int] | None = "principal",
        time_limit: float | None = 60.0,
        sink_factor: float = 4.0,
        progress: Progress | None = None,
    ) -> None:
        self.started, self.started_cpu = time.perf_counter(), time.process_time()
        self.model, self.family = source.name, source.family
        self.layers = _chosen(layers, source.n_layers, "layers")
        self.heads = None if heads is None else _chosen(heads, max(source.heads), "heads")
        if self.heads is not None:
            self.layers = tuple(n for n in self.layers if any(h < source.heads[n] for h in self.heads))
        self.positions = None if positions is None else _integers(positions, "positions")
        self.plane = _checked_plane(plane)
        self.time_limit, self.sink_factor, self.progress = time_limit, sink_factor, progress
        self.records: list[HeadRecord] = []
        self.position_records: list[PositionRecord] = []
        self.slices: list[LayerSlice] = []
        self.notes: list[str] = []
        self.measures: list[QueryMeasures] = []
        self.can_win: list[NDArray[np.bool_]] = []
        self.n_done = 0

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked for, in plain values."""
        return {
            "layers": list(self.layers),
            "heads": None if self.heads is None else list(self.heads),
            "positions": None if self.positions is None else list(self.positions),
            "plane": list(self.plane) if isinstance(self.plane, tuple) else self.plane,
            "time_limit": self.time_limit,
            "sink_factor": self.sink_factor,
        }

    def __call__(self, layer: CapturedLayer) -> None:
        """Measure one layer."""
        chosen = [h for h in range(layer.heads) if self.heads is None or h in self.heads]
        places = [reading_position(layer, t) for t in (self.positions or (None,))]
        diagrams: dict[tuple[int, int], PowerDiagram] = {}
        for h in chosen:
            found = measure_queries(layer, h)
            reached = [self._reached(layer, h, t, found, diagrams) for t in places]
            self.measures.append(found)
            self.can_win.append(reached[-1].can_win)
            self.records.append(head_record(layer, h, found, reached[-1], self.sink_factor))
            self.position_records += [
                position_record(layer.index, h, t, one) for t, one in zip(places, reached, strict=True)
            ]
        if self.plane is not None and chosen:
            self._slice(layer, chosen, places)
        self.n_done += 1
        if self.progress is not None:
            self.progress(self.n_done, len(self.layers))

    def _reached(
        self,
        layer: CapturedLayer,
        head: int,
        position: int,
        found: QueryMeasures,
        diagrams: dict[tuple[int, int], PowerDiagram],
    ) -> KeysThatCanWin:
        read = read_keys(layer, head, position)
        scale, name = float(layer.scale), (layer.group(head), position)
        if layer.bias is not None:
            return keys_that_can_win(read, scale, found.norm[found.choice])
        if name not in diagrams:
            diagrams[name] = read.diagram()
        return keys_that_can_win(read, scale, found.norm[found.choice], diagrams[name])

    def _slice(self, layer: CapturedLayer, heads: list[int], places: list[int]) -> None:
        """One slice per position, or one for all of them where they do not differ."""
        if layer.query_map is None:
            self.notes.append(
                f"layer {layer.index} has no slice: the model does not say how its queries depend on inputs."
            )
            return
        inputs = np.asarray(layer.inputs, dtype=np.float64)
        if inputs.shape[1] < 2:
            self.notes.append(f"layer {layer.index} has no slice: its inputs have one dimension.")
            return
        try:
            spanned: Plane = (
                plane_through(inputs, self.plane)
                if isinstance(self.plane, tuple)
                else principal_plane(inputs)
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"layer {layer.index}: {error}") from error
        for t in places:
            piece = layer_slice(layer, spanned, position=t, heads=heads, time_limit=self.time_limit)
            self.slices.append(piece)
            if piece.any_position:
                return


# Arguments
# ----------------------------------------------------------------------------------------------------------


def _integers(values: Iterable[int], name: str) -> tuple[int, ...]:
    try:
        numbers = tuple(operator.index(value) for value in values)
    except TypeError:  # 0.5 is no layer
        numbers = ()
    if not numbers:
        raise InvalidInputError(f"{name} must be a list of numbers counted from 0, but was {values!r}.")
    return numbers


def _chosen(values: Iterable[int] | None, n: int, name: str) -> tuple[int, ...]:
    if values is None:
        return tuple(range(n))
    numbers = tuple(sorted(set(_integers(values, name))))
    wrong = [number for number in numbers if not 0 <= number < n]
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise InvalidInputError(f"{name} must be between 0 and {n - 1}, but held {wrong[0]}{others}.")
    return numbers


def _checked_plane(plane: str | Sequence[int] | None) -> str | tuple[int, ...] | None:
    if plane is None or plane == "principal":
        return plane
    if isinstance(plane, str):
        raise InvalidInputError(f'plane must be "principal", three tokens or None, but was {plane!r}.')
    return _integers(plane, "plane")
