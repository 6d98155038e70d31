r"""The head atlas: what P1 says about every head of a real model on one text, measured.

One row per head (:class:`HeadRecord`): margins in units of temperature,
distance to hardmax and what margins guarantee for it, keys that can win and keys that do, sinks, distances to
walls; one exact picture per layer (:class:`~hardmax.models.atlas.layer_cells.LayerSlice`). Layers are
processed one at a time and only these numbers are kept, so memory does not grow with depth.

The numbers are of three kinds: counts of keys and cells are exact for the captured
numbers and certified; margins, probabilities and distances are measured in double precision; guarantees and
reach are bounds. ``docs/atlas.md`` lists them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.limits import Clock, look, seconds_of
from hardmax.models.atlas.corpus_atlas import CorpusAtlas, corpus_atlas
from hardmax.models.atlas.head_measures import QueryMeasures, key_usage, measure_queries
from hardmax.models.atlas.layer_cells import (
    LayerSlice,
    Plane,
    far_tokens_plane,
    layer_slice,
    plane_through,
    principal_plane,
)
from hardmax.models.atlas.reachable_keys import KeysThatCanWin, keys_that_can_win, read_keys
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import (
    CapturedLayer,
    Source,
    TextReading,
    chosen,
    integers,
)
from hardmax.models.reading.texts import is_corpus
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result, timeless, write_csv, write_json

if TYPE_CHECKING:
    from hardmax.geometry.diagrams.power_diagrams import PowerDiagram


Floats = NDArray[np.float64]


Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class HeadRecord:
    """One head on one text. Statistics are over the queries that have a choice; NaN where none has.

    Attributes
    ----------
    layer, head : int
        Counted from 0.
    n_queries, n_keys : int
        Queries with a choice, and keys of the sequence.
    margin_median, margin_low, margin_high : float
        Median, lower and upper decile of the winner's lead, in units of temperature.
    top_probability, tv_to_hardmax, output_distance : float
        Medians: probability of the winner, total variation distance to hardmax, and the distance of the
        outputs of softmax and hardmax over the norm of the former.
    share_hard_1, share_hard_10 : float
        The share of queries whose margin guarantees a distance to hardmax of at most 1 % or 10 %.
    share_measured_1, share_measured_10 : float
        The share whose measured distance is at most that.
    share_vacuous : float
        The share for which the bound says nothing: it allows more than one half.
    keys_can_win, keys_can_win_of : int
        Keys whose cell has interior among the keys that the query at ``position`` may read; decided with a
        proof for every key (:mod:`hardmax.geometry`).
    position : int
        The query whose keys those are; -1 where all queries have the same.
    query_norm, query_norm_median : float
        The largest and the median norm of the queries.
    largest_reach_margin, largest_reach_margin_bound : float
        The largest margin that any key can get at the largest query norm: attained, and never exceeded.
    median_reach_margin : float
        The attained one at the median norm; NaN with biases.
    largest_reach_probability, largest_reach_probability_bound : float
        The largest probability that any key can get at the largest query norm: attained, and never exceeded.
    keys_do_win : int
        Different keys that win some query.
    usage_entropy, usage_entropy_relative : float
        Entropy of the wins in bits, and over the largest possible.
    sink : int
        The greatest sink, -1 without one.
    sink_share, sink_mass : float
        The share of its readers that it wins, and its mean probability for them.
    n_sinks : int
    wall_distance_median, wall_distance_relative : float
        Median distance of a query to the boundary of its cell, and over the norm of the query.
    wall_distance_rounding : float
        How far rounding may have moved any of these distances, proven.
    """

    layer: int
    head: int
    n_queries: int
    n_keys: int
    margin_median: float
    margin_low: float
    margin_high: float
    top_probability: float
    tv_to_hardmax: float
    output_distance: float
    share_hard_1: float
    share_hard_10: float
    share_measured_1: float
    share_measured_10: float
    share_vacuous: float
    keys_can_win: int
    keys_can_win_of: int
    position: int
    query_norm: float
    query_norm_median: float
    largest_reach_margin: float
    largest_reach_margin_bound: float
    median_reach_margin: float
    largest_reach_probability: float
    largest_reach_probability_bound: float
    keys_do_win: int
    usage_entropy: float
    usage_entropy_relative: float
    sink: int
    sink_share: float
    sink_mass: float
    n_sinks: int
    wall_distance_median: float
    wall_distance_relative: float
    wall_distance_rounding: float


@dataclass(frozen=True)
class PositionRecord:
    """Keys that can win at one of the positions that were asked for; fields as in :class:`HeadRecord`."""

    layer: int
    head: int
    position: int
    keys_can_win: int
    keys_can_win_of: int
    largest_reach_margin: float
    largest_reach_margin_bound: float
    largest_reach_probability: float
    largest_reach_probability_bound: float


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
    _nested: ClassVar[dict[str, type]] = {"slices": LayerSlice}

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
        per_query = ("winners", "margins", "top_probabilities", "wall_distances", "can_win")
        return {
            "kind": self.kind,
            **{name: value for name, value in super()._state().items() if name not in per_query},
            "slices": [piece.summary() for piece in self.slices],
            "reading": _facts(self.reading),
            "ratio_to_forward_pass": self.ratio,
            "provenance": self.provenance,
        }

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write :meth:`summary`, without how long it took, as strict JSON, whole or not at all."""
        return write_json(path, timeless(self.summary()))

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table of heads, one line each; what is not a number there is empty."""
        return write_csv(path, self._table())

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "heads": _columns(HeadRecord, self.heads),
            "positions": _columns(PositionRecord, self.positions),
            "reading": _facts(self.reading),
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        tokens, key_tokens = tuple(state["text_tokens"]), tuple(state["key_tokens"])
        parts = {
            "heads": _rows(HeadRecord, state["heads"]),
            "positions": _rows(PositionRecord, state["positions"]),
            "reading": TextReading(tokens=tokens, key_tokens=key_tokens, **state["reading"]),
        }
        return super()._from_state({**state, **parts})

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


@overload
def head_atlas(model: Any, text: str | None = None, **options: Any) -> HeadAtlas: ...


@overload
def head_atlas(
    model: Any, text: Sequence[str] | Mapping[str, str] | Floats, **options: Any
) -> CorpusAtlas: ...


def head_atlas(  # type: ignore[misc]
    model: Any,
    text: str | Sequence[str] | Mapping[str, str] | Floats | None = None,
    *,
    tokenizer: Any = None,
    hub: bool = False,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    positions: Iterable[int] | None = None,
    plane: str | Sequence[int] | None = "tokens",
    slice_limit: float | None = 60.0,
    sink_factor: float = 4.0,
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> HeadAtlas | CorpusAtlas:
    """What every head of a model does on one text, or on many.

    Parameters
    ----------
    model : path, hub id, torch module or Source
        A local folder, a name on the hub (only with ``hub=True``), a module with its ``tokenizer``, or
        anything that shows its layers (:class:`hardmax.models.reading.sources.Source`).
    text : str, or many of them, optional
        What the model reads; a Source may have a text of its own. A list of texts, a dictionary of names and
        texts (:func:`hardmax.models.read_texts` reads them from files) or, for models of
        :mod:`hardmax.training`, an array (B, T, d) of sequences gives a :class:`~hardmax.models.CorpusAtlas`:
        statistics per head with intervals over texts, without slices and keys that can win.
    tokenizer : optional
        For a module.
    hub : bool
        Whether a name may be fetched from the hub; without it nothing leaves the machine.
    layers, heads : iterables of int, optional
        Which, counted from 0; all by default.
    positions : iterable of int, optional
        For masks, biases and rotations that depend on the query: keys that can win and slices are asked for
        at each of these; ``heads`` holds the last of them. By default the last query that reads anything.
    plane : {"tokens", "principal", None} or three tokens
        What spans the slices: the inputs of three tokens, by default some that lie far apart and belong to
        the picture, or principal directions of the layer's inputs; ``None`` leaves slices out.
    slice_limit : float, optional
        Seconds per slice; a slice that needs more says ``complete=False``.
    sink_factor : float
        A sink wins at least this many times its even share (and a quarter of its readers).
    confidence : float
        Of the intervals over texts, where there are many.
    checkpoint : path-like, optional
        For many texts: a folder in which every text that was measured is kept. A run that was killed goes on
        from there with the same call, and loses at most one text.
    time_limit : float, optional
        Seconds after which all of it is given up, looked at between passes of the model, heads and slices.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of layers (for many
        texts: of texts) done and their total.

    Returns
    -------
    HeadAtlas, or CorpusAtlas for many texts

    Examples
    --------
    A layer as plain arrays; a model is read the same way.

    >>> rng = np.random.default_rng(0)
    >>> x, W = rng.standard_normal((6, 4)), rng.standard_normal((2, 3, 4))
    >>> keys = rng.standard_normal((2, 6, 3))
    >>> from hardmax.models.reading.sources import CapturedLayer, QueryMap
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
    <HeadAtlas: one layer, 2 heads of 1 layer on 6 tokens, 9 cells in 1 slice>
    >>> [(record.keys_can_win, record.keys_do_win) for record in atlas.heads]
    [(6, 4), (6, 3)]
    """
    clock = Clock(time_limit, "read the model and measure its heads")
    slice_limit = seconds_of("slice_limit", slice_limit)
    if is_corpus(text):
        if positions is not None or plane not in ("tokens", None):
            raise InvalidInputError(
                "positions and plane must be left out for many texts, which have no slices; give one text."
            )
        return corpus_atlas(
            model,
            text,
            tokenizer=tokenizer,
            hub=hub,
            layers=layers,
            heads=heads,
            sink_factor=sink_factor,
            confidence=confidence,
            checkpoint=checkpoint,
            time_limit=clock.left,
            progress=progress,
        )
    if checkpoint is not None:
        raise InvalidInputError("checkpoint belongs to many texts, but one was given; try [text].")
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} layers"), clock) as report:
        source = as_source(model, tokenizer=tokenizer, hub=hub)
        recorder = AtlasRecorder(
            source,
            layers=layers,
            heads=heads,
            positions=positions,
            plane=plane,
            slice_limit=slice_limit,
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


class AtlasRecorder:
    """Measures every layer that passes: the rows of the atlas, and a slice where one is asked for.

    Parameters
    ----------
    source : Source
    layers, heads, positions, plane, slice_limit, sink_factor, progress
        As in :func:`hardmax.head_atlas`.
    """

    def __init__(
        self,
        source: Source,
        *,
        layers: Iterable[int] | None = None,
        heads: Iterable[int] | None = None,
        positions: Iterable[int] | None = None,
        plane: str | Sequence[int] | None = "tokens",
        slice_limit: float | None = 60.0,
        sink_factor: float = 4.0,
        progress: Progress | None = None,
    ) -> None:
        self.started, self.started_cpu = time.perf_counter(), time.process_time()
        self.model, self.family = source.name, source.family
        self.layers = chosen(layers, source.n_layers, "layers")
        self.heads = None if heads is None else chosen(heads, max(source.heads), "heads")
        if self.heads is not None:
            self.layers = tuple(n for n in self.layers if any(h < source.heads[n] for h in self.heads))
        self.positions = None if positions is None else integers(positions, "positions")
        self.plane = _checked_plane(plane)
        self.slice_limit, self.sink_factor, self.progress = slice_limit, sink_factor, progress
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
            "slice_limit": self.slice_limit,
            "sink_factor": self.sink_factor,
        }

    def __call__(self, layer: CapturedLayer) -> None:
        """Measure one layer."""
        heads = [h for h in range(layer.heads) if self.heads is None or h in self.heads]
        places = [layer.reading_position(t) for t in (self.positions or (None,))]
        diagrams: dict[tuple[int, int], PowerDiagram] = {}
        for h in heads:
            look()
            found = measure_queries(layer, h)
            reached = [self._reached(layer, h, t, found, diagrams) for t in places]
            self.measures.append(found)
            self.can_win.append(reached[-1].can_win)
            self.records.append(head_record(layer, h, found, reached[-1], self.sink_factor))
            self.position_records += [
                PositionRecord(layer.index, h, t, **_reach(one))
                for t, one in zip(places, reached, strict=True)
            ]
        if self.plane is not None and heads:
            self._slice(layer, heads, places)
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
        if layer.bias is not None or layer.relative is not None:
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
        inputs, known = np.nan_to_num(np.asarray(layer.inputs, dtype=np.float64)), layer.have_inputs
        if inputs.shape[1] < 2:
            self.notes.append(f"layer {layer.index} has no slice: its inputs have one dimension.")
            return
        silent = (
            [t for t in self.plane if not known[t : t + 1].all()] if isinstance(self.plane, tuple) else []
        )
        if silent:
            self.notes.append(f"layer {layer.index} has no slice: token {silent[0]} has no input in it.")
            return
        for t in places:
            try:
                spanned: Plane = (
                    plane_through(inputs, self.plane)
                    if isinstance(self.plane, tuple)
                    else far_tokens_plane(layer, t)
                    if self.plane == "tokens"
                    else principal_plane(inputs[known])
                )
            except InvalidInputError as error:
                raise InvalidInputError(f"layer {layer.index}: {error}") from error
            piece = layer_slice(layer, spanned, position=t, heads=heads, time_limit=self.slice_limit)
            self.slices.append(piece)
            if piece.any_position:
                return


# Arguments
# ----------------------------------------------------------------------------------------------------------


def _checked_plane(plane: str | Sequence[int] | None) -> str | tuple[int, ...] | None:
    if plane is None or plane in ("tokens", "principal"):
        return plane
    if isinstance(plane, str):
        raise InvalidInputError(
            f'plane must be "tokens", "principal", three tokens or None, but was {plane!r}.'
        )
    return integers(plane, "plane")


def head_record(
    layer: CapturedLayer, head: int, found: QueryMeasures, reached: KeysThatCanWin, sink_factor: float
) -> HeadRecord:
    """The row of one head, from what its queries do and what its keys can do."""
    usage = key_usage(found, layer.readable(head)[0], factor=sink_factor)
    some = found.choice
    bound, measured = found.total_variation_bound[some], found.total_variation[some]
    norm = found.norm[some]
    walls = found.wall_distance[some]
    relative = np.divide(walls, norm, out=np.zeros(len(walls)), where=norm > 0.0)
    return HeadRecord(
        layer=layer.index,
        head=head,
        n_queries=int(some.sum()),
        n_keys=int(layer.are_read.sum()),
        margin_median=_over(found.margin[some]),
        margin_low=_over(found.margin[some], partial(np.quantile, q=0.1)),
        margin_high=_over(found.margin[some], partial(np.quantile, q=0.9)),
        top_probability=_over(found.top_probability[some]),
        tv_to_hardmax=_over(measured),
        output_distance=_over(found.output_distance[some]),
        share_hard_1=_over(bound <= 0.01, np.mean),
        share_hard_10=_over(bound <= 0.1, np.mean),
        share_measured_1=_over(measured <= 0.01, np.mean),
        share_measured_10=_over(measured <= 0.1, np.mean),
        share_vacuous=_over(bound >= 0.5, np.mean),
        **_reach(reached),
        position=-1 if reached.position is None else reached.position,
        query_norm=reached.query_norm,
        query_norm_median=reached.median_norm,
        median_reach_margin=reached.margin_at_median,
        keys_do_win=int((usage.wins > 0).sum()),
        usage_entropy=usage.entropy if some.any() else float("nan"),
        usage_entropy_relative=usage.relative_entropy if some.any() else float("nan"),
        sink=usage.sinks[0] if usage.sinks else -1,
        sink_share=usage.sink_share,
        sink_mass=usage.sink_mass,
        n_sinks=len(usage.sinks),
        wall_distance_median=_over(walls),
        wall_distance_relative=_over(relative),
        wall_distance_rounding=float(found.wall_rounding[some].max(initial=0.0)),
    )


def _reach(found: KeysThatCanWin) -> dict[str, Any]:
    """What the rows of heads and of positions both say."""
    return {
        "keys_can_win": found.n_can_win,
        "keys_can_win_of": found.n_present,
        "largest_reach_margin": found.margin,
        "largest_reach_margin_bound": found.margin_bound,
        "largest_reach_probability": found.probability,
        "largest_reach_probability_bound": found.probability_bound,
    }


def _over(values: NDArray[Any], statistic: Callable[[Any], Any] = np.median) -> float:
    return float(statistic(values)) if values.size else float("nan")
