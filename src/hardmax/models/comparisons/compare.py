r"""Two models head by head: which differences exceed the spread over texts.

A head of one model and the head at the same place of the other give one number each per text and statistic
(:data:`~hardmax.models.atlas.corpus_atlas.STATISTICS`). Texts are paired, so what counts is the difference
text by text: a t test asks whether its mean is zero, and Holm's correction over all heads and statistics
together keeps the probability that any head is named wrongly at most ``alpha``.

There are two differences, because a head that changes also changes what the layers behind it receive:

* **direct**: the heads of b act on the inputs of a. Attention of every layer of b receives the states that
  attention of the same layer of a received, so only the weights of the head itself differ (W_Q, W_K and
  whatever makes scores of inputs);
* **total**: each model reads the text for itself, so a difference may come from the head or from its inputs.

The heads that a comparison *names* are those with a direct difference. Heads with a total difference alone
do the same with other inputs.

Differences below 1e-4 count as zero: that is how far a reading may be from the model itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.limits import Clock
from hardmax.models.atlas.corpus_atlas import STATISTICS, StatisticsRecorder
from hardmax.models.reading.capture import LIMIT
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import CapturedLayer, Source
from hardmax.models.reading.text_runs import Measured, model_question, over_texts
from hardmax.models.reading.texts import checked_texts
from hardmax.models.spread import MeanIntervals, holm, mean_intervals, paired_p_values
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result, pictures

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TESTED = ("margin", "top_probability", "entropy", "win_entropy", "sink_mass")
"""The statistics that are tested if none are named."""


@dataclass(frozen=True)
class HeadDifference:
    """One statistic of one head that differs between two models by more than the spread over texts."""

    layer: int
    head: int
    statistic: str
    a: float  # the mean over texts of the first model
    b: float  # of the second, on the inputs of the first for a direct difference
    difference: float  # b - a, the mean over texts
    low: float  # its 95 % interval over texts
    high: float
    p: float  # corrected by Holm over all heads and statistics


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(Result):
    """Two models on the same texts, head by head.

    Attributes
    ----------
    a, b : str
        Names of the models.
    names : tuple of str
        The texts.
    layer, head : arrays of int (rows,)
        One row per head.
    statistics : tuple of str
    values_a, values_b : arrays (texts, rows, statistics)
        What each model does when it reads the texts itself.
    values_direct : array (texts, rows, statistics)
        What the heads of b do with the inputs of a; NaN on texts where the two models have other tokens or
        widths.
    alpha : float
        The largest probability that any head is named wrongly, for direct and total differences each.
    notes : tuple of str
    seconds : float

    Examples
    --------
    A model against itself with one head's queries four times as long:

    >>> import hardmax as hm
    >>> source = hm.models.bundled_source()
    >>> vector = source.model.vector.copy()
    >>> source.model.shape.split(vector)["layers.0.query"][:6] *= 4    # the six rows of head 0
    >>> changed = hm.training.TrainedModel(source.model.shape, vector, about=source.model.about)
    >>> X = np.random.default_rng(0).standard_normal((20, 15, 4))
    >>> found = hm.compare(source, hm.models.bundled.BundledSource("changed", changed, X[0]), X)
    >>> found
    <ModelComparison: pairwise-2 and changed, 4 heads on 20 texts: 1 head differs ...>
    >>> found.named_heads
    ((0, 0),)
    """

    kind: ClassVar[str] = "ModelComparison"

    a: str
    b: str
    names: tuple[str, ...]
    layer: Integers
    head: Integers
    statistics: tuple[str, ...]
    values_a: Floats
    values_b: Floats
    values_direct: Floats
    alpha: float
    notes: tuple[str, ...]
    seconds: float

    def __post_init__(self) -> None:
        self._freeze()

    @property
    def n_texts(self) -> int:
        """The number of texts."""
        return len(self.names)

    def differences(self, kind: str = "direct") -> Floats:
        """Differences text by text, b - a: (texts, rows, statistics); zero where they are below 1e-4."""
        if kind not in ("direct", "total"):
            raise InvalidInputError(f"kind must be 'direct' or 'total', but was {kind!r}.")
        found = (self.values_direct if kind == "direct" else self.values_b) - self.values_a
        return np.where(np.abs(found) <= LIMIT, 0.0, found)

    def interval(self, kind: str = "direct") -> MeanIntervals:
        """The mean difference over texts with its 95 % t interval: (rows, statistics)."""
        return mean_intervals(self.differences(kind))

    def p_values(self, kind: str = "direct") -> Floats:
        """p-values of the paired t tests, corrected by Holm over all heads and statistics: (rows, stats)."""
        return holm(paired_p_values(self.differences(kind)))

    def named(self, kind: str = "direct") -> tuple[HeadDifference, ...]:
        """The differences that exceed the spread over texts, head by head; the surest first."""
        p, found = self.p_values(kind), self.interval(kind)
        other = self.values_direct if kind == "direct" else self.values_b
        a, b = (mean_intervals(part).mean for part in (self.values_a, other))
        places = [(float(p[i, j]), i, j) for i, j in zip(*np.nonzero(p <= self.alpha), strict=True)]
        return tuple(
            HeadDifference(
                layer=int(self.layer[i]),
                head=int(self.head[i]),
                statistic=self.statistics[j],
                a=float(a[i, j]),
                b=float(b[i, j]),
                difference=float(found.mean[i, j]),
                low=float(found.low[i, j]),
                high=float(found.high[i, j]),
                p=p_value,
            )
            for p_value, i, j in sorted(places)
        )

    def heads_named(self, kind: str = "direct") -> tuple[tuple[int, int], ...]:
        """(layer, head) of every head with such a difference, in order."""
        return tuple(sorted({(one.layer, one.head) for one in self.named(kind)}))

    @property
    def named_heads(self) -> tuple[tuple[int, int], ...]:
        """(layer, head) of the heads that differ directly; by total differences where inputs cannot be
        shared."""
        return self.heads_named("direct" if self.has_direct else "total")

    @property
    def has_direct(self) -> bool:
        """Whether the heads of b could be given the inputs of a."""
        return bool(np.isfinite(self.values_direct).any())

    def plot(self, *, statistic: str | None = None, ax: Any = None, box: Any = None) -> Any:
        """Draw direct and total differences of a statistic, head by head (needs the extra ``plot``)."""
        if box is not None:
            raise InvalidInputError("box belongs to pictures of the plane; a comparison is drawn whole.")
        if statistic is not None and statistic not in self.statistics:
            raise InvalidInputError(
                f"statistic must be one of {', '.join(self.statistics)}, but was {statistic!r}."
            )
        return pictures("corpora").draw_comparison(self, statistic=statistic, ax=ax)

    def _summary(self) -> str:
        named, total = self.named_heads, self.heads_named("total")
        one = len(named) == 1
        what = f"{many(len(named), 'head')} {'differs' if one else 'differ'}"
        if self.has_direct:
            what += f" with the same inputs, {len(total)} in all"
        return (
            f"{self.a} and {self.b}, {many(len(self.layer), 'head')} on {many(self.n_texts, 'text')}: {what}"
        )

    def _table(self) -> dict[str, Any]:
        row, j = (place.ravel() for place in np.indices((len(self.layer), len(self.statistics))))
        table: dict[str, Any] = {
            "layer": self.layer[row],
            "head": self.head[row],
            "statistic": [self.statistics[k] for k in j],
            "a": mean_intervals(self.values_a).mean.ravel(),
            "b": mean_intervals(self.values_b).mean.ravel(),
        }
        for kind in ("direct", "total"):
            found = self.interval(kind)
            table |= {
                kind: found.mean.ravel(),
                f"{kind}_low": found.low.ravel(),
                f"{kind}_high": found.high.ravel(),
                f"{kind}_p": self.p_values(kind).ravel(),
            }
        return table


class _Inputs:
    """Keeps what attention of each layer receives on one text."""

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        self.found: dict[int, Any] = {}

    def __call__(self, layer: CapturedLayer) -> None:
        self.found[layer.index] = layer.inputs


def compare(
    a: Any,
    b: Any,
    texts: Sequence[str] | Mapping[str, str] | Floats,
    *,
    tokenizer: Any = None,
    hub: bool = False,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    statistics: Sequence[str] = TESTED,
    alpha: float = 0.05,
    sink_factor: float = 4.0,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: Any = None,
) -> ModelComparison:
    """Compare two models head by head, on the same texts.

    Parameters
    ----------
    a, b : path, hub id, torch module or Source
        Two models with the same numbers of layers and heads: two checkpoints of one, for instance.
    texts : sequence of texts, or dict from names to texts
        At least three; for models of :mod:`hardmax.training` an array (B, T, d) of sequences.
    tokenizer : optional
        For modules.
    hub : bool
        Whether names may be fetched from the hub.
    layers, heads : iterables of int, optional
        Which, counted from 0; all by default.
    statistics : sequence of str
        What is tested (:data:`hardmax.models.atlas.corpus_atlas.STATISTICS`). All heads and statistics
        are one family of tests.
    alpha : float
        The largest probability that any head is named wrongly (Holm's correction).
    sink_factor : float
        As in :func:`hardmax.head_atlas`.
    checkpoint : path-like, optional
        A folder in which every text that was measured is kept; the same call goes on from there.
    time_limit : float, optional
        Seconds after which it is given up, looked at between texts: each takes three passes of a model.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of texts done and their
        total.

    Returns
    -------
    ModelComparison
        ``named_heads`` are those whose own weights make a difference: b's heads on a's inputs.

    Examples
    --------
    A model against itself differs nowhere:

    >>> import hardmax as hm
    >>> source = hm.models.bundled_source()
    >>> hm.compare(source, source, np.random.default_rng(0).standard_normal((5, 15, 4))).named_heads
    ()
    """
    named = checked_texts(texts)
    unknown = [name for name in statistics if name not in STATISTICS]
    if unknown or not statistics or isinstance(statistics, str):
        raise InvalidInputError(
            f"statistics must be a list of {', '.join(STATISTICS)}, but was {statistics!r}."
        )
    if len(named) < 3:
        raise InvalidInputError(
            f"texts must be at least three, to know their spread, but {len(named)} was given; add some."
        )
    if not 0.0 < alpha < 1.0:
        raise InvalidInputError(f"alpha must be above 0 and below 1, but was {alpha}.")
    first, second = (as_source(model, tokenizer=tokenizer, hub=hub) for model in (a, b))
    if tuple(first.heads) != tuple(second.heads):
        raise InvalidInputError(
            f"a and b must have the same layers and heads to be compared head by head, but {first.name} has "
            f"{_shape(first.heads)} and {second.name} {_shape(second.heads)}."
        )
    clock = Clock(time_limit, "compare the models on all texts")
    started = time.perf_counter()
    columns = [list(STATISTICS).index(name) for name in statistics]
    options: Any = {"layers": layers, "heads": heads, "sink_factor": sink_factor}
    rows = StatisticsRecorder(first, **options).rows
    layers_read = tuple(sorted({n for n, _ in rows}))

    def values(source: Source, text: Any, inputs: Mapping[int, Any] | None = None) -> tuple[Any, Any]:
        recorder, received = StatisticsRecorder(source, **options), _Inputs(layers_read)
        reading = read(source, text, [recorder, received], inputs=inputs)
        return recorder.measured(reading)["values"][:, columns], received.found

    def measure(text: Any) -> Measured:
        of_a, inputs = values(first, text)
        of_b, own = values(second, text)
        direct = np.full_like(of_a, np.nan)
        same = all(np.shape(inputs[n]) == np.shape(own[n]) for n in layers_read)
        if same and not getattr(second, "kinds", None):
            direct, _ = values(second, text, inputs)
        return {"a": of_a, "b": of_b, "direct": direct}

    question = {
        "what": "comparison",
        "a": model_question(first),
        "b": model_question(second),
        "rows": [list(place) for place in rows],
        "statistics": list(statistics),
        "sink_factor": float(sink_factor),
    }
    found: dict[str, list[Floats]] = {"a": [], "b": [], "direct": []}
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} texts"), clock) as report:
        for one in over_texts(named, measure, question=question, checkpoint=checkpoint, progress=report):
            for name, kept in found.items():
                kept.append(one[name])
    whole = {name: np.stack(kept) for name, kept in found.items()}
    without = int(np.isnan(whole["direct"]).all(axis=(1, 2)).sum())
    notes = (
        [
            f"{many(without, 'text')} without direct differences: the models have other tokens or widths "
            "there, or a decoder whose keys come from an encoder."
        ]
        if without
        else []
    )
    return ModelComparison(
        a=first.name,
        b=second.name,
        names=tuple(named),
        layer=np.array([n for n, _ in rows], dtype=np.int64),
        head=np.array([h for _, h in rows], dtype=np.int64),
        statistics=tuple(statistics),
        values_a=whole["a"],
        values_b=whole["b"],
        values_direct=whole["direct"],
        alpha=float(alpha),
        notes=tuple(notes),
        seconds=time.perf_counter() - started,
    )


def _shape(heads: Sequence[int]) -> str:
    """Layers and heads in words.

    >>> _shape((4, 4)), _shape((4, 2, 2))
    ('2 layers of 4 heads', '3 layers of 4, 2, 2 heads')
    """
    per = f"{heads[0]}" if len(set(heads)) == 1 else ", ".join(map(str, heads))
    return f"{len(heads)} layers of {per} heads"
