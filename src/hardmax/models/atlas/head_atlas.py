r"""The head atlas: what P1 says about every head of a real model on one text, measured.

One row per head (:class:`~hardmax.models.atlas.head_records.HeadRecord`): margins in units of temperature,
distance to hardmax and what margins guarantee for it, keys that can win and keys that do, sinks, distances to
walls; one exact picture per layer (:class:`~hardmax.models.atlas.layer_cells.LayerSlice`). Layers pass one at
a time and nothing of them is kept but these numbers, so memory does not grow with depth.

What kind of number each is, is part of its meaning: counts of keys and cells are exact for the captured
numbers and certified; margins, probabilities and distances are measured in double precision; guarantees and
reach are bounds. ``docs/atlas.md`` lists them.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.models.atlas.atlas_recorder import AtlasRecorder, Progress
from hardmax.models.atlas.head_records import HeadRecord, PositionRecord
from hardmax.models.atlas.layer_cells import LayerSlice
from hardmax.models.reading.captured_layer import TextReading
from hardmax.models.reading.recorders import read
from hardmax.models.reading.sources import as_source
from hardmax.networks.arguments import many
from hardmax.progress import shown
from hardmax.results import Result, strict
from hardmax.storage import written_whole

__all__ = ["HeadAtlas", "atlas_of", "head_atlas"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class HeadAtlas(Result):
    """Every head of a model on one text.

    Attributes
    ----------
    model, family : str
    text_tokens, key_tokens : tuple of str
        How queries and keys are called.
    heads : tuple of HeadRecord
        In order of layers, then heads.
    positions : tuple of PositionRecord
        Keys that can win, for every position that was asked for.
    slices : tuple of LayerSlice
        One exact picture per layer, where the layer says how queries depend on inputs; one per position that
        was asked for, where it depends on it.
    notes : tuple of str
        What was left out, and why.
    reading : TextReading
        What the model said about itself: fidelity and the time of its own forward pass.
    settings : dict
        What was asked for.
    winners : array of int (rows, Q)
        The winning key of every query, -1 where nothing may be read; rows as in ``heads``.
    margins, top_probabilities, wall_distances : arrays (rows, Q)
        Query by query; NaN where there is no choice.
    can_win : array of bool (rows, N)
        Which keys can win, at the position of the record.
    seconds, cpu_seconds : float
        How long all of it took, reading the text included.

    Examples
    --------
    >>> import hardmax as hm
    >>> atlas = hm.head_atlas("./all-MiniLM-L6-v2", "The cat sat on the mat.")   # doctest: +SKIP
    >>> [record.head for record in atlas.of_layer(3) if record.share_hard_10 > 0.5]   # doctest: +SKIP
    >>> atlas.slices[0].plot().figure.savefig("layer-0.svg")   # doctest: +SKIP
    """

    kind: ClassVar[str] = "HeadAtlas"

    model: str
    family: str
    text_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    heads: tuple[HeadRecord, ...]
    positions: tuple[PositionRecord, ...]
    slices: tuple[LayerSlice, ...]
    notes: tuple[str, ...]
    reading: TextReading
    settings: dict[str, Any]
    winners: NDArray[np.int64]
    margins: Floats
    top_probabilities: Floats
    wall_distances: Floats
    can_win: NDArray[np.bool_]
    seconds: float
    cpu_seconds: float

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that were measured."""
        return tuple(sorted({record.layer for record in self.heads}))

    @property
    def ratio(self) -> float:
        """CPU time of the atlas over that of the model's plain forward pass."""
        forward = self.reading.forward_seconds
        return self.cpu_seconds / forward if forward > 0.0 else float("nan")

    def of_layer(self, layer: int) -> tuple[HeadRecord, ...]:
        """The records of one layer."""
        return tuple(record for record in self.heads if record.layer == layer)

    def summary(self) -> dict[str, Any]:
        """Everything that is not query by query or cell by cell, in plain values."""
        return {
            "kind": self.kind,
            "model": self.model,
            "family": self.family,
            "text_tokens": list(self.text_tokens),
            "key_tokens": list(self.key_tokens),
            "heads": [asdict(record) for record in self.heads],
            "positions": [asdict(record) for record in self.positions],
            "slices": [piece.summary() for piece in self.slices],
            "notes": list(self.notes),
            "reading": _facts(self.reading),
            "settings": self.settings,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "ratio_to_forward_pass": self.ratio,
            "provenance": self.provenance,
        }

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write :meth:`summary` as strict JSON, whole or not at all."""
        text = json.dumps(strict(self.summary()), indent=1, allow_nan=False, ensure_ascii=False)
        with written_whole(path) as file:
            file.write((text + "\n").encode())
        return Path(path)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table of heads, one line each; what is not a number there is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [field.name for field in fields(HeadRecord)]
        writer.writerow(names)
        for record in self.heads:
            values = [getattr(record, name) for name in names]
            writer.writerow(["" if isinstance(v, float) and np.isnan(v) else v for v in values])
        with written_whole(path) as file:
            file.write(text.getvalue().encode())
        return Path(path)

    def _state(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "text_tokens": list(self.text_tokens),
            "key_tokens": list(self.key_tokens),
            "heads": _columns(HeadRecord, self.heads),
            "positions": _columns(PositionRecord, self.positions),
            "slices": [piece._state() for piece in self.slices],
            "notes": list(self.notes),
            "reading": _facts(self.reading),
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        tokens, key_tokens = tuple(state["text_tokens"]), tuple(state["key_tokens"])
        return cls(
            **{
                **state,
                "text_tokens": tokens,
                "key_tokens": key_tokens,
                "heads": _rows(HeadRecord, state["heads"]),
                "positions": _rows(PositionRecord, state["positions"]),
                "slices": tuple(LayerSlice._from_state(piece) for piece in state["slices"]),
                "notes": tuple(state["notes"]),
                "reading": TextReading(tokens=tokens, key_tokens=key_tokens, **state["reading"]),
            }
        )

    def _summary(self) -> str:
        layers, cells = len(self.layers), sum(piece.n_cells for piece in self.slices)
        return (
            f"{self.model}, {many(len(self.heads), 'head')} of {many(layers, 'layer')} on "
            f"{many(len(self.text_tokens), 'token')}, {many(cells, 'cell')} in "
            f"{many(len(self.slices), 'slice')}"
        )

    def _table(self) -> dict[str, Any]:
        return _columns(HeadRecord, self.heads)


def _columns(kind: type[Any], rows: Sequence[Any]) -> dict[str, Any]:
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(kind)}


def _rows(kind: type[Any], columns: dict[str, Any]) -> tuple[Any, ...]:
    names = [field.name for field in fields(kind)]
    return tuple(kind(*values) for values in zip(*(columns[name] for name in names), strict=True))


def _facts(reading: TextReading) -> dict[str, Any]:
    """A reading without the tokens, which the atlas has already."""
    return {name: value for name, value in vars(reading).items() if not name.endswith("tokens")}


# Making one
# ----------------------------------------------------------------------------------------------------------


def head_atlas(
    model: Any,
    text: str | None = None,
    *,
    tokenizer: Any = None,
    hub: bool = False,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    positions: Iterable[int] | None = None,
    plane: str | Sequence[int] | None = "principal",
    time_limit: float | None = 60.0,
    sink_factor: float = 4.0,
    progress: bool | Progress | None = None,
) -> HeadAtlas:
    """What every head of a model does on one text.

    Parameters
    ----------
    model : path, hub id, torch module or Source
        A local folder, a name on the hub (only with ``hub=True``), a module with its ``tokenizer``, or
        anything that shows its layers (:class:`hardmax.models.reading.captured_layer.Source`).
    text : str, optional
        What the model reads; a Source may have a text of its own.
    tokenizer : optional
        For a module.
    hub : bool
        Whether a name may be fetched from the hub; without it nothing leaves the machine.
    layers, heads : iterables of int, optional
        Which, counted from 0; all by default.
    positions : iterable of int, optional
        For masks, biases and rotations that depend on the query: keys that can win and slices are asked for
        at each of these; ``heads`` holds the last of them. By default the last query that reads anything.
    plane : {"principal", None} or three tokens
        What spans the slices: principal directions of the layer's inputs, or the inputs of three tokens;
        ``None`` leaves slices out.
    time_limit : float, optional
        Seconds per slice; a slice that needs more says ``complete=False``.
    sink_factor : float
        A sink wins at least this many times its even share (and a quarter of its readers).
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of layers done and their
        total.

    Returns
    -------
    HeadAtlas

    Examples
    --------
    A layer as plain arrays; a model is read the same way.

    >>> rng = np.random.default_rng(0)
    >>> x, W = rng.standard_normal((6, 4)), rng.standard_normal((2, 3, 4))
    >>> keys = rng.standard_normal((2, 6, 3))
    >>> from hardmax.models.reading.captured_layer import CapturedLayer, QueryMap
    >>> layer = CapturedLayer(
    ...     0, x, np.einsum("hij,tj->hti", W, x), keys, keys, np.ones((6, 6), dtype=bool), 3**-0.5,
    ...     query_map=lambda t: QueryMap(W, np.zeros((2, 3))))
    >>> class OneLayer:
    ...     name, family, n_layers, heads = "one layer", "arrays", 1, (2,)
    ...     def read(self, text, visit, *, layers=None):
    ...         visit(layer)
    ...         return TextReading(tuple("abcdef"), tuple("abcdef"), 0.0, 0.0, None, 1.0)
    >>> atlas = head_atlas(OneLayer())
    >>> atlas
    <HeadAtlas: one layer, 2 heads of 1 layer on 6 tokens, 13 cells in 1 slice>
    >>> [(record.keys_can_win, record.keys_do_win) for record in atlas.heads]
    [(6, 4), (6, 3)]
    """
    source = as_source(model, tokenizer=tokenizer, hub=hub)
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} layers")) as report:
        recorder = AtlasRecorder(
            source,
            layers=layers,
            heads=heads,
            positions=positions,
            plane=plane,
            time_limit=time_limit,
            sink_factor=sink_factor,
            progress=report,
        )
        return atlas_of(recorder, read(source, text, [recorder]))


def atlas_of(recorder: AtlasRecorder, reading: TextReading) -> HeadAtlas:
    """What a recorder found, as a result."""
    found = recorder.measures
    return HeadAtlas(
        model=recorder.model,
        family=recorder.family,
        text_tokens=tuple(reading.tokens),
        key_tokens=tuple(reading.key_tokens),
        heads=tuple(recorder.records),
        positions=tuple(recorder.position_records),
        slices=tuple(recorder.slices),
        notes=tuple(recorder.notes),
        reading=reading,
        settings=recorder.settings,
        winners=np.array([one.winner for one in found], dtype=np.int64),
        margins=np.array([one.margin for one in found]),
        top_probabilities=np.array([one.top_probability for one in found]),
        wall_distances=np.array([one.wall_distance for one in found]),
        can_win=np.array(recorder.can_win, dtype=np.bool_),
        seconds=time.perf_counter() - recorder.started,
        cpu_seconds=time.process_time() - recorder.started_cpu,
    )
