r"""A model along its training: when heads become hard, how margins, information sets and cells grow.

Every checkpoint reads the same texts. Per head and text there are the statistics of a corpus
(:data:`~hardmax.models.atlas.corpus_atlas.STATISTICS`), with t intervals over texts; per layer the sizes of
the information sets under arg-max routing (P2), and for the first texts the exact number of cells that all
heads of the layer cut together on the plane of the principal directions of its inputs (P1).

A head counts as hard at a checkpoint where the mean over texts of its share of queries within 10 % of hardmax
is at least ``hard``. Events are the checkpoints at which that begins or ends; an event is *sure* when the
interval over texts leaves the threshold out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, written
from hardmax.limits import Clock, seconds_of
from hardmax.models.atlas.corpus_atlas import STATISTICS, StatisticsRecorder, cut_to_range
from hardmax.models.atlas.layer_cells import layer_slice, principal_plane
from hardmax.models.bundled import BundledSource
from hardmax.models.influence.routing_flow import FlowRecorder
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import CapturedLayer
from hardmax.models.reading.text_runs import Measured, digest_of, model_question, over_texts
from hardmax.models.reading.texts import checked_texts
from hardmax.models.spread import MeanIntervals, mean_intervals
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result
from hardmax.training.data import nmse, outputs_of
from hardmax.training.learned_routing import routed_flow
from hardmax.training.loop import TrainingResult
from hardmax.training.trained_models import TrainedModel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SEQUENCES = 32  # that are drawn for a training of ours when no texts are given
_STEP = re.compile(r"(\d+)\D*$")


@dataclass(frozen=True)
class TrainingEvent:
    """A head becomes hard, or soft again."""

    step: int
    layer: int
    head: int
    what: str  # "hard" or "soft"
    share: float  # of queries within 10 % of hardmax, mean over texts
    sure: bool  # whether the interval over texts leaves the threshold out


@dataclass(frozen=True, eq=False, repr=False)
class AlongTraining(Result):
    """A model along its training.

    Attributes
    ----------
    steps : array of int (C,)
        How far the training was at each checkpoint: samples seen, steps, or 0, 1, 2, ...
    checkpoints : tuple of str
        Their names.
    names : tuple of str
        The texts.
    layer, head : arrays of int (rows,)
    statistics : tuple of str
    values : array (C, texts, rows, statistics)
    set_sizes : array (C, texts, L + 1)
        The mean share of the input positions that a token can know after 0, 1, ..., L layers (arg-max).
    read_out_sizes : array (C, texts, L + 1)
        The same for the last token alone.
    cells : array of int (C, cell texts, L)
        Exact cells of all heads of a layer on the principal plane of its inputs, around the tokens; -1 where
        there is no slice or the time was up.
    error : array (C,)
        Mean squared error over variance on the sequences, for trainings of :mod:`hardmax.training`; NaN
        otherwise.
    learns : array (C,)
        The share of the sequences on which the last token's set holds all that the target depends on; NaN
        where there is no target.
    hard : float
        From which mean share of queries on a head counts as hard.
    confidence : float
    seconds : float

    Examples
    --------
    >>> import hardmax as hm
    >>> shape = hm.training.TransformerShape(5, 1, widths=(4, 4), heads=(1, 1), hidden=(8, 8), beta=1.0)
    >>> settings = hm.training.TrainingSettings(
    ...     6400, batch=64, learning_rate=1e-2, train_size=1000, checkpoints=(0, 3200, 6400))
    >>> result = hm.training.train(hm.training.Job("max(t) x[t][0]", shape, settings))
    >>> found = hm.along_training(result)
    >>> found.steps.tolist(), found.values.shape
    ([0, 3200, 6400], (3, 32, 2, 12))
    >>> bool(found.error[-1] < found.error[0])
    True
    """

    kind: ClassVar[str] = "AlongTraining"

    steps: Integers
    checkpoints: tuple[str, ...]
    names: tuple[str, ...]
    layer: Integers
    head: Integers
    statistics: tuple[str, ...]
    values: Floats
    set_sizes: Floats
    read_out_sizes: Floats
    cells: Integers
    error: Floats
    learns: Floats
    hard: float
    confidence: float
    seconds: float

    def __post_init__(self) -> None:
        self._freeze()

    @property
    def heads(self) -> tuple[str, ...]:
        """How the rows are called: ``"layer 0, head 1"``."""
        return tuple(f"layer {n}, head {h}" for n, h in zip(self.layer, self.head, strict=True))

    def interval(self, statistic: str) -> MeanIntervals:
        """The mean over texts with its t interval at every checkpoint: (C, rows)."""
        if statistic not in self.statistics:
            raise InvalidInputError(
                f"statistic must be one of {', '.join(self.statistics)}, but was {statistic!r}."
            )
        values = self.values[..., self.statistics.index(statistic)].swapaxes(0, 1)
        return cut_to_range(mean_intervals(values, confidence=self.confidence), statistic)

    @property
    def events(self) -> tuple[TrainingEvent, ...]:
        """When heads become hard or soft again, in order of steps; hard at the first checkpoint counts."""
        found = self.interval("share_within_10")
        is_hard = np.nan_to_num(found.mean) >= self.hard
        events = []
        for c, row in np.ndindex(is_hard.shape):
            before = bool(is_hard[c - 1, row]) if c else False
            if is_hard[c, row] == before:
                continue
            low, high = found.low[c, row], found.high[c, row]
            sure = bool(low >= self.hard if is_hard[c, row] else high < self.hard)
            what, share = "hard" if is_hard[c, row] else "soft", float(found.mean[c, row])
            place = int(self.layer[row]), int(self.head[row])
            events.append(TrainingEvent(int(self.steps[c]), *place, what, share, sure))
        return tuple(events)

    def became_hard(self) -> dict[tuple[int, int], int | None]:
        """For every head the step from which on it stayed hard to the end; None where it is not hard then."""
        is_hard = np.nan_to_num(self.interval("share_within_10").mean) >= self.hard
        stays = np.logical_and.accumulate(is_hard[::-1], axis=0)[::-1]
        return {
            (int(self.layer[i]), int(self.head[i])): int(self.steps[stays[:, i].argmax()])
            if stays[:, i].any()
            else None
            for i in range(len(self.layer))
        }

    def _summary(self) -> str:
        stayed = [step for step in self.became_hard().values() if step is not None]
        error = (
            f", error {self.error[0]:.2g} to {self.error[-1]:.2g}" if np.isfinite(self.error).all() else ""
        )
        return (
            f"{many(len(self.steps), 'checkpoint')}, {many(len(self.layer), 'head')} on "
            f"{many(len(self.names), 'text')}, {len(stayed)} hard at the end{error}"
        )

    def _table(self) -> dict[str, Any]:
        """One row per checkpoint and head."""
        c, row = (place.ravel() for place in np.indices((len(self.steps), len(self.layer))))
        table: dict[str, Any] = {"step": self.steps[c], "layer": self.layer[row], "head": self.head[row]}
        for name in self.statistics:
            found = self.interval(name)
            for words, part in ((name, found.mean), (f"{name}_low", found.low), (f"{name}_high", found.high)):
                table[words] = part[c, row]
        counts = np.where(self.cells >= 0, self.cells, np.nan).astype(np.float64)
        known = self.set_sizes.mean(axis=1)
        cells = (
            counts.mean(axis=1) if counts.shape[1] else np.full((len(self.steps), known.shape[1] - 1), np.nan)
        )
        table["known_after_layer"] = known[c, self.layer[row] + 1]
        table["cells_of_layer"] = cells[c, self.layer[row]]
        return {**table, "error": self.error[c], "learns": self.learns[c]}


class _CellCounts:
    """Counts the cells of each layer on the principal plane of its inputs."""

    layers: tuple[int, ...] | None = None

    def __init__(self, n_layers: int, slice_limit: float | None) -> None:
        self.found = np.full(n_layers, -1, dtype=np.int64)
        self._slice_limit = slice_limit

    def __call__(self, layer: CapturedLayer) -> None:
        inputs = np.asarray(layer.inputs, dtype=np.float64)[layer.have_inputs]
        if layer.query_map is None or inputs.shape[1] < 2:
            return
        piece = layer_slice(
            layer, principal_plane(inputs), position=layer.reading_position(), time_limit=self._slice_limit
        )
        self.found[layer.index] = piece.n_cells if piece.complete else -1


def along_training(
    checkpoints: Any,
    texts: Sequence[str] | Floats | None = None,
    *,
    steps: Sequence[int] | None = None,
    tokenizer: Any = None,
    hub: bool = False,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    hard: float = 0.5,
    n_cells: int = 2,
    slice_limit: float | None = 60.0,
    confidence: float = 0.95,
    rng: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: Any = None,
) -> AlongTraining:
    """When heads become hard, and how margins, information sets and cells grow, along a training.

    Parameters
    ----------
    checkpoints : TrainingResult, or sequence of models
        A training of :mod:`hardmax.training` whose settings asked for ``checkpoints``; or folders of Hugging
        Face checkpoints, modules or sources, in order. One is open at a time.
    texts : sequence of texts, or array (B, T, d)
        Read by every checkpoint. For a training of ours: sequences; 32 fresh ones if not given.
    steps : sequence of int, optional
        How far the training was at each; if not given, the last number in a folder's name
        (``checkpoint-500``) where all have one of their own, else 0, 1, 2, ...
    tokenizer, hub, layers, heads
        As in :func:`hardmax.head_atlas`; the tokenizer of a folder is its own if none is given.
    hard : float
        A head counts as hard where the mean share of its queries within 10 % of hardmax is at least this.
    n_cells : int
        On how many texts, the first ones, the exact cells of each layer are counted; 0 for none.
    slice_limit : float, optional
        Seconds per count, which is of a slice as in :func:`hardmax.head_atlas`; one that needs more is left
        out.
    confidence : float
        Of the intervals over texts.
    rng : int
        For the sequences that are drawn.
    checkpoint : path-like, optional
        A folder in which every text of every checkpoint that was measured is kept; the same call goes on from
        there.
    time_limit : float, optional
        Seconds after which all of it is given up, looked at between passes of the model, heads and counts.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of texts done, over all
        checkpoints, and their total.

    Returns
    -------
    AlongTraining
        ``events`` say when heads become hard, ``plot()`` draws the curves.

    Examples
    --------
    The bundled model stands for two checkpoints of one training:

    >>> import hardmax as hm
    >>> source = hm.models.bundled_source()
    >>> sequences = np.random.default_rng(0).standard_normal((10, 15, 4))
    >>> found = hm.along_training([source, source], sequences, steps=[100, 200], n_cells=1)
    >>> found
    <AlongTraining: 2 checkpoints, 4 heads on 10 texts, 4 hard at the end>
    >>> {(event.step, event.what) for event in found.events}
    {(100, 'hard')}
    """
    clock = Clock(time_limit, "read all checkpoints")
    slice_limit = seconds_of("slice_limit", slice_limit)
    if not 0.0 < hard <= 1.0:
        raise InvalidInputError(f"hard must be above 0 and at most 1, but was {written(hard)}.")
    trained = checkpoints if isinstance(checkpoints, TrainingResult) else None
    models, found_steps = _listed(checkpoints, steps)
    if texts is None:
        if trained is None:
            raise InvalidInputError("texts must be given for checkpoints of a model that reads words.")
        texts = _target(trained).sample(_SEQUENCES, trained.shape.n_tokens, rng=rng)
    named = checked_texts(texts)
    if trained is not None and any(isinstance(text, str) for text in named.values()):
        raise InvalidInputError("texts must be an array (B, T, d) for a training of ours, but are words.")
    started = time.perf_counter()
    options: Any = {"layers": layers, "heads": heads}
    counted = {digest_of(text) for text in list(named.values())[: max(0, n_cells)]}
    parts: dict[str, list[Any]] = {name: [] for name in ("values", "sets", "read_out", "cells")}
    labels: list[str] = []
    rows: list[tuple[int, int]] = []
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        folder.mkdir(exist_ok=True)
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} texts"), clock) as report:
        for c, model in enumerate(models):
            source = _source(model, c, named, tokenizer, hub)
            labels.append(source.name)
            mine = StatisticsRecorder(source, **options).rows
            if rows and mine != rows:
                raise InvalidInputError(
                    f"checkpoints must have the same layers and heads, but {labels[-1]} has others than "
                    f"{labels[0]}."
                )
            rows = mine

            def measure(text: Any, source: Any = source) -> Measured:
                recorder, flow = StatisticsRecorder(source, **options), FlowRecorder(["argmax"])
                cells = _CellCounts(source.n_layers, slice_limit)
                reading = read(
                    source, text, [recorder, flow, *([cells] if digest_of(text) in counted else [])]
                )
                (routed,) = flow.flows(reading)
                sizes = routed.sets.sum(axis=2) / len(routed.key_tokens)  # (L + 1, Q)
                measured = recorder.measured(reading)
                return {
                    "values": measured["values"],
                    "sets": sizes.mean(axis=1),
                    "read_out": sizes[:, -1],
                    "cells": cells.found,
                }

            def told(done: int, total: int, c: int = c) -> None:
                if report is not None:
                    report(c * total + done, len(models) * total)

            question = {
                "what": "along training",
                **model_question(source),
                "rows": [list(place) for place in rows],
                "cells_on": sorted(counted),
            }
            kept = None if folder is None else folder / f"{c:05d}"
            run = over_texts(named, measure, question=question, checkpoint=kept, progress=told)
            per_text = list(run)
            for name, column in parts.items():
                column.append(np.stack([one[name] for one in per_text]))
    whole = {name: np.stack(column) for name, column in parts.items()}
    error, learns = _task(trained, np.stack(list(named.values()))) if trained is not None else (None, None)
    absent = np.full(len(models), np.nan)
    return AlongTraining(
        steps=np.array(found_steps, dtype=np.int64),
        checkpoints=tuple(labels),
        names=tuple(named),
        layer=np.array([n for n, _ in rows], dtype=np.int64),
        head=np.array([h for _, h in rows], dtype=np.int64),
        statistics=tuple(STATISTICS),
        values=whole["values"],
        set_sizes=whole["sets"],
        read_out_sizes=whole["read_out"],
        cells=whole["cells"][:, : max(0, n_cells)],
        error=absent if error is None else error,
        learns=absent if learns is None else learns,
        hard=float(hard),
        confidence=float(confidence),
        seconds=time.perf_counter() - started,
    )


def steps_of(checkpoints: Sequence[Any]) -> list[int] | None:
    """The last number in the name of each folder; None where one has none, or two have the same.

    >>> steps_of(["run/checkpoint-90", "run/checkpoint-100"]), steps_of(["run2/base", "run2/tuned"])
    ([90, 100], None)
    >>> steps_of(["model2-base", "model2-tuned"])
    """
    names = [Path(one).name for one in checkpoints if isinstance(one, (str, os.PathLike))]
    found = [int(number[1]) for number in map(_STEP.search, names) if number is not None]
    return found if len(set(found)) == len(checkpoints) else None


def _listed(checkpoints: Any, steps: Sequence[int] | None) -> tuple[list[Any], list[int]]:
    """The checkpoints in a list, and how far the training was at each."""
    if isinstance(checkpoints, TrainingResult):
        # two marks inside one batch are the same checkpoint
        samples, which = np.unique(checkpoints.checkpoint_samples, return_index=True)
        models: list[Any] = [
            TrainedModel(
                checkpoints.shape, checkpoints.checkpoint_parameters[i], checkpoints.mean, checkpoints.scale
            )
            for i in which
        ]
        found = samples.tolist()
        empty = (
            "must hold checkpoints, but its settings asked for none; try TrainingSettings(checkpoints=...)"
        )
    else:
        if isinstance(checkpoints, (str, os.PathLike)):
            raise InvalidInputError(
                f"checkpoints must be a list of models, but was one path, {str(checkpoints)!r}; try "
                "sorted(folder.glob('checkpoint-*'))."
            )
        models = list(checkpoints)
        found = steps_of(models) or list(range(len(models)))
        empty = "must hold at least one model, but was empty"
    if not models:
        raise InvalidInputError(f"checkpoints {empty}.")
    if steps is not None:
        found = [int(step) for step in steps]
        if len(found) != len(models):
            raise InvalidInputError(
                f"steps must be one per checkpoint, {len(models)}, but there are {len(found)}."
            )
    if sorted(set(found)) != found:
        raise InvalidInputError(f"checkpoints must be in the order of their steps, but these are {found}.")
    return models, found


def _source(model: Any, index: int, texts: dict[str, Any], tokenizer: Any, hub: bool) -> Any:
    if isinstance(model, TrainedModel):
        sequence = np.asarray(next(iter(texts.values())), dtype=np.float64)
        return BundledSource(f"checkpoint {index}", model, sequence)
    return as_source(model, tokenizer=tokenizer, hub=hub)


def _target(result: TrainingResult) -> Any:
    (target,) = outputs_of(result.job.target)
    return target


def _task(result: TrainingResult, X: Floats) -> tuple[Floats, Floats | None]:
    """The error at every checkpoint, and how often the last token's set holds what the target needs."""
    outputs = outputs_of(result.job.target)
    wanted = np.stack([np.asarray(target(X)) for target in outputs], axis=1)
    models = _listed(result, None)[0]
    error = np.array([nmse(model(X), wanted) for model in models])
    if len(outputs) != 1 or result.shape.positions is not None:
        return error, None
    learns = [routed_flow(result.shape, model.vector, X).learns(outputs[0]).share for model in models]
    return error, np.array(learns)
