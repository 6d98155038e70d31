r"""Every head of a model on many texts: statistics with intervals over texts.

Each text gives every head one number per statistic (:data:`STATISTICS`), over the queries of the text that
have a choice; a head's number for the corpus is the mean over texts, with Student's t interval over texts
(:func:`~hardmax.models.spread.mean_intervals`). Tokens of one text depend on each other, so an interval over
tokens would be too narrow.

Keys that can win and slices are properties of one text and are left out here; :func:`hardmax.head_atlas` of a
single text has them. All numbers are measured in double precision from the captured arrays, except
``share_hard_10``, which is a guarantee. A model is opened once, texts pass one after the other, and per text
only its statistics are kept: eight bytes per head and statistic.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.fields import check_range
from hardmax.limits import Clock, look
from hardmax.models.atlas.head_measures import QueryMeasures, Usage, key_usage, measure_queries
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import CapturedLayer, Source, TextReading, chosen
from hardmax.models.reading.text_runs import Measured, model_question, over_texts
from hardmax.models.reading.texts import checked_texts
from hardmax.models.spread import MeanIntervals, mean_intervals
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result, pictures, timeless, write_csv, write_json

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STATISTICS: dict[str, str] = {
    "margin": "median lead of the winner, in units of temperature",
    "top_probability": "median probability of the winner",
    "tv_to_hardmax": "median total variation distance to hardmax",
    "share_within_10": "share of queries whose distance to hardmax is at most 10 %",
    "share_hard_10": "share of queries whose margin guarantees that",
    "entropy": "median entropy of the probabilities, in bits",
    "keys_that_win": "share of the keys that win some query",
    "win_entropy": "entropy of the wins over the largest possible",
    "sink_share": "share of its readers that the greatest sink wins; 0 without a sink",
    "sink_mass": "mean probability that they give to it; 0 without a sink",
    "has_sink": "1 where a key is a sink, 0 otherwise",
    "wall_distance": "median distance of a query to the wall of its cell, over the norm of the query",
}
"""What is known of a head on one text, in words."""

SHARES = frozenset(STATISTICS) - {"margin", "entropy", "wall_distance"}
"""Statistics that lie between 0 and 1; their intervals are cut there, those of the others at 0."""


def head_statistics(layer: CapturedLayer, found: QueryMeasures, used: Usage) -> list[float]:
    """The statistics of one head on one text, in the order of :data:`STATISTICS`; NaN without a choice."""
    some = found.choice
    if not some.any():
        return [float("nan")] * len(STATISTICS)
    distance, norm = found.total_variation[some], found.norm[some]
    walls = np.divide(found.wall_distance[some], norm, out=np.zeros(len(norm)), where=norm > 0.0)
    return [
        float(np.median(found.margin[some])),
        float(np.median(found.top_probability[some])),
        float(np.median(distance)),
        float(np.mean(distance <= 0.1)),
        float(np.mean(found.total_variation_bound[some] <= 0.1)),
        float(np.median(found.entropy[some])),
        float(np.mean(used.wins[layer.are_read] > 0)),
        used.relative_entropy,
        used.sink_share,
        used.sink_mass,
        float(bool(used.sinks)),
        float(np.median(walls)),
    ]


class StatisticsRecorder:
    """Writes down the statistics of every head as layers pass.

    Parameters
    ----------
    source : Source
    layers, heads, sink_factor
        As in :func:`hardmax.head_atlas`.
    """

    def __init__(
        self,
        source: Source,
        *,
        layers: Iterable[int] | None = None,
        heads: Iterable[int] | None = None,
        sink_factor: float = 4.0,
    ) -> None:
        self.layers = chosen(layers, source.n_layers, "layers")
        self._heads = None if heads is None else chosen(heads, max(source.heads), "heads")
        self._factor = sink_factor
        self.rows = [
            (n, h)
            for n in self.layers
            for h in range(source.heads[n])
            if self._heads is None or h in self._heads
        ]
        self._values: dict[tuple[int, int], list[float]] = {}
        self._sinks: dict[tuple[int, int], int] = {}
        self._queries: dict[tuple[int, int], int] = {}

    def __call__(self, layer: CapturedLayer) -> None:
        """Measure one layer."""
        for h in range(layer.heads):
            place = (layer.index, h)
            if self._heads is None or h in self._heads:
                look()
                found = measure_queries(layer, h)
                used = key_usage(found, layer.readable(h)[0], factor=self._factor)
                self._values[place] = head_statistics(layer, found, used)
                self._sinks[place] = used.sinks[0] if used.sinks else -1
                self._queries[place] = int(found.choice.sum())

    def measured(self, reading: TextReading) -> Measured:
        """What was found on the text that was read, ready for a file."""
        sinks = [self._sinks[place] for place in self.rows]
        return {
            "values": np.array([self._values[place] for place in self.rows]),
            "sinks": [reading.key_tokens[sink] if sink >= 0 else "" for sink in sinks],
            "n_tokens": len(reading.tokens),
            "n_queries": np.array([self._queries[place] for place in self.rows], dtype=np.int64),
            "probability_difference": float(reading.probability_difference),
        }


@dataclass(frozen=True)
class CorpusHead:
    """One head over the texts of a corpus: means with intervals, and its most frequent sink."""

    layer: int
    head: int
    n_texts: int  # texts on which it has a choice
    mean: dict[str, float]  # per statistic, over texts
    low: dict[str, float]  # ends of the interval over texts
    high: dict[str, float]
    sink: str  # the token that is its greatest sink on most texts; empty without one
    sink_texts: int  # on how many


@dataclass(frozen=True, eq=False, repr=False)
class CorpusAtlas(Result):
    """Every head of a model on many texts.

    Attributes
    ----------
    model, family : str
    names : tuple of str
        The texts, in order.
    n_tokens : array of int (texts,)
    layer, head : arrays of int (rows,)
        One row per head, in order of layers, then heads.
    statistics : tuple of str
        Names of the statistics (:data:`hardmax.models.atlas.corpus_atlas.STATISTICS` says what they are).
    values : array (texts, rows, statistics)
        One number per text, head and statistic; NaN where no query of the text has a choice.
    sink_words : tuple of str
        Tokens that are the greatest sink of some head on some text.
    sinks : array of int (texts, rows)
        Which of them; -1 without a sink.
    confidence : float
        Of the intervals over texts.
    probability_difference : float
        The largest difference, over all texts, between probabilities that were rebuilt and the model's own.
    settings : dict
    seconds : float
        How long the texts took, without opening the model; a checkpoint's texts are not measured again.

    Examples
    --------
    >>> import hardmax as hm
    >>> source = hm.models.bundled_source()
    >>> sequences = np.random.default_rng(0).standard_normal((20, 15, 4))
    >>> atlas = hm.head_atlas(source, sequences)
    >>> atlas
    <CorpusAtlas: pairwise-2, 4 heads of 2 layers on 20 texts, 320 tokens; within 10 % of hardmax: ...>
    >>> found = atlas.interval("margin")
    >>> bool((found.low < found.mean).all()), found.n.tolist()
    (True, [20, 20, 20, 20])
    """

    kind: ClassVar[str] = "CorpusAtlas"
    _shapes: ClassVar[dict[str, str]] = {
        "names": "texts",
        "n_tokens": "texts",
        "layer": "rows",
        "head": "rows",
        "statistics": "statistics",
        "values": "texts rows statistics",
        "sinks": "texts rows",
    }

    model: str
    family: str
    names: tuple[str, ...]
    n_tokens: Integers
    layer: Integers
    head: Integers
    statistics: tuple[str, ...]
    values: Floats
    sink_words: tuple[str, ...]
    sinks: Integers
    confidence: float
    probability_difference: float
    settings: dict[str, Any]
    seconds: float

    def __post_init__(self) -> None:
        self._freeze()

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        made = super()._from_state(state)
        check_range("sinks", made.sinks, -1, len(made.sink_words))
        return made

    @property
    def n_texts(self) -> int:
        """The number of texts."""
        return len(self.names)

    def of(self, statistic: str) -> Floats:
        """One statistic: (texts, rows)."""
        if statistic not in self.statistics:
            raise InvalidInputError(
                f"statistic must be one of {', '.join(self.statistics)}, but was {statistic!r}."
            )
        return np.asarray(self.values[:, :, self.statistics.index(statistic)])

    def interval(self, statistic: str) -> MeanIntervals:
        """The mean of a statistic over texts with its t interval, one entry per head."""
        return cut_to_range(mean_intervals(self.of(statistic), confidence=self.confidence), statistic)

    @property
    def heads(self) -> tuple[CorpusHead, ...]:
        """One record per head."""
        found = {name: self.interval(name) for name in self.statistics}
        records = []
        for i in range(len(self.layer)):
            own = self.sinks[self.sinks[:, i] >= 0, i]
            counts = np.bincount(own, minlength=1)
            word = self.sink_words[int(counts.argmax())] if len(own) else ""
            mean, low, high = (
                {name: float(getattr(part, end)[i]) for name, part in found.items()}
                for end in ("mean", "low", "high")
            )
            n = int(np.isfinite(self.values[:, i, 0]).sum())
            place = int(self.layer[i]), int(self.head[i])
            records.append(CorpusHead(*place, n, mean, low, high, word, int(counts.max()) if word else 0))
        return tuple(records)

    def hardest(self, n: int = 5, *, statistic: str = "share_within_10") -> tuple[CorpusHead, ...]:
        """The n heads with the largest mean of a statistic, the largest first."""
        self.of(statistic)
        order = sorted(self.heads, key=lambda one: -np.nan_to_num(one.mean[statistic], nan=-np.inf))
        return tuple(order[:n])

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write :meth:`summary`, without how long it took, as strict JSON, whole or not at all."""
        return write_json(path, timeless(self.summary()))

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table of heads, one line each; what is not a number there is empty."""
        return write_csv(path, self._table())

    def summary(self) -> dict[str, Any]:
        """Everything that is not text by text, in plain values."""
        return {
            "kind": self.kind,
            "model": self.model,
            "family": self.family,
            "n_texts": self.n_texts,
            "n_tokens": int(self.n_tokens.sum()),
            "interval": f"{100 * self.confidence:g} %, Student's t over texts",
            "statistics": {name: STATISTICS.get(name, "") for name in self.statistics},
            "heads": [vars(one) for one in self.heads],
            "probability_difference": self.probability_difference,
            "settings": self.settings,
            "seconds": self.seconds,
            "provenance": self.provenance,
        }

    def plot(self, *, statistic: str = "share_within_10", ax: Any = None, box: Any = None) -> Any:
        """Draw the mean of a statistic over texts with its interval, head by head (needs the extra
        ``plot``)."""
        if box is not None:
            raise InvalidInputError("box belongs to pictures of the plane; an atlas is drawn whole.")
        return pictures("corpora").draw_corpus_atlas(self, statistic=statistic, ax=ax)

    def _summary(self) -> str:
        found = self.interval("share_within_10").mean
        half = int(np.sum(found >= 0.5))
        return (
            f"{self.model}, {many(len(self.layer), 'head')} of {many(len(np.unique(self.layer)), 'layer')} "
            f"on {many(self.n_texts, 'text')}, {int(self.n_tokens.sum())} tokens; within 10 % of hardmax: "
            f"{half} of them on half of the queries or more"
        )

    def _table(self) -> dict[str, Any]:
        records = self.heads
        table: dict[str, Any] = {
            name: [getattr(one, name) for one in records] for name in ("layer", "head", "n_texts")
        }
        for name in self.statistics:
            for end, words in (("mean", name), ("low", f"{name}_low"), ("high", f"{name}_high")):
                table[words] = [getattr(one, end)[name] for one in records]
        return {**table, **{n: [getattr(one, n) for one in records] for n in ("sink", "sink_texts")}}


def cut_to_range(found: MeanIntervals, statistic: str) -> MeanIntervals:
    """The interval cut to where the statistic lies, 0 to 1 for a share, else from 0 on: it covers no less."""
    return found.cut(1.0 if statistic in SHARES else np.inf)


def corpus_atlas(
    model: Any,
    texts: Any,
    *,
    tokenizer: Any = None,
    hub: bool = False,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    sink_factor: float = 4.0,
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: Any = None,
) -> CorpusAtlas:
    """Every head of a model on many texts; :func:`hardmax.head_atlas` calls it for a list of texts.

    Parameters
    ----------
    model, tokenizer, hub, layers, heads, sink_factor, time_limit, progress
        As in :func:`hardmax.head_atlas`; progress is called with the number of texts done and their total.
    texts : sequence of texts, or dict from names to texts
    confidence : float
        Of the intervals over texts.
    checkpoint : path-like, optional
        A folder in which every text that was measured is kept; the same call goes on from there.
    """
    clock = Clock(time_limit, "measure the heads on all texts")
    named = checked_texts(texts)
    mean_intervals(np.zeros((2, 1)), confidence=confidence)  # a wrong confidence is said before any reading
    source = as_source(model, tokenizer=tokenizer, hub=hub)
    started = time.perf_counter()
    first = StatisticsRecorder(source, layers=layers, heads=heads, sink_factor=sink_factor)
    if not first.rows:
        raise InvalidInputError("layers and heads must leave a head to measure, but leave none.")
    settings = {
        "layers": list(first.layers),
        "heads": None if heads is None else sorted({h for _, h in first.rows}),
        "sink_factor": float(sink_factor),
    }

    def measure(text: Any) -> Measured:
        recorder = StatisticsRecorder(source, layers=layers, heads=heads, sink_factor=sink_factor)
        return recorder.measured(read(source, text, [recorder]))

    question = {"what": "head atlas", **model_question(source), **settings, "statistics": list(STATISTICS)}
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} texts"), clock) as report:
        run = over_texts(named, measure, question=question, checkpoint=checkpoint, progress=report)
        found = list(run)
    seconds = time.perf_counter() - started
    return table_of_texts(
        source, first.rows, tuple(named), found, confidence=confidence, settings=settings, seconds=seconds
    )


def table_of_texts(
    source: Source,
    rows: Sequence[tuple[int, int]],
    names: tuple[str, ...],
    found: Sequence[Measured],
    *,
    confidence: float,
    settings: dict[str, Any],
    seconds: float,
) -> CorpusAtlas:
    """What :meth:`StatisticsRecorder.measured` gave for each text, as one result."""
    words: dict[str, int] = {}
    sinks = [[words.setdefault(word, len(words)) if word else -1 for word in one["sinks"]] for one in found]
    return CorpusAtlas(
        model=source.name,
        family=source.family,
        names=names,
        n_tokens=np.array([one["n_tokens"] for one in found], dtype=np.int64),
        layer=np.array([n for n, _ in rows], dtype=np.int64),
        head=np.array([h for _, h in rows], dtype=np.int64),
        statistics=tuple(STATISTICS),
        values=np.stack([one["values"] for one in found]),
        sink_words=tuple(words),
        sinks=np.array(sinks, dtype=np.int64),
        confidence=float(confidence),
        probability_difference=max(float(one["probability_difference"]) for one in found),
        settings=settings,
        seconds=seconds,
    )
