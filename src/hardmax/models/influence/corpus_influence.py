"""How much of the influence on a token lies inside its information set, over many texts.

Of each text only the medians over its tokens are kept, per layer, rule and measure
(:data:`~hardmax.models.influence.influence_report.MEDIANS`); the numbers of the corpus are means of these
over texts with Student's t interval over texts.
Tokens whose set is empty or full say nothing and are left out, as in a report of one text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.models.influence.influence_report import MEDIANS, TextInfluence, report_of
from hardmax.models.reading.text_runs import Measured, model_question, over_texts
from hardmax.models.reading.texts import checked_texts
from hardmax.models.spread import MeanIntervals, mean_intervals
from hardmax.networks.block import many
from hardmax.results import Result, pictures

Floats = NDArray[np.float64]

_GAINS = {"gain", "rollout_gain", "advantage"}  # may be negative; the other columns are shares


@dataclass(frozen=True, eq=False, repr=False)
class CorpusInfluence(Result):
    """Recall of influence by information sets over many texts.

    Attributes
    ----------
    model : str
    names : tuple of str
        The texts, in order.
    n_tokens : array of int (texts,)
    rules, measures : tuple of str
    columns : tuple of str
        ``size``, ``recall``, ``random``, ``rollout``, ``best``, ``gain``, ``rollout_gain``, ``advantage``,
        ``own_share`` (medians over the compared tokens of a text, as in
        :class:`~hardmax.models.influence.influence_report.RecallSummary`) and ``share_compared``.
    values : array (texts, L, rules, measures, columns)
        NaN where no token of a text can be compared.
    confidence : float
        Of the intervals over texts.
    settings : dict
    seconds : float

    Examples
    --------
    >>> import hardmax as hm
    >>> sequences = np.random.default_rng(0).standard_normal((8, 15, 4))
    >>> found = hm.measure_influence(hm.models.bundled_source(), sequences, rules=["argmax"], n_draws=20)
    >>> found
    <CorpusInfluence: pairwise-2, 8 texts, after layer 1, argmax by ablation mean: recall ... at random ...>
    >>> found.interval("gain").mean.shape            # layers, rules, measures
    (2, 1, 1)
    """

    kind: ClassVar[str] = "CorpusInfluence"

    model: str
    names: tuple[str, ...]
    n_tokens: NDArray[np.int64]
    rules: tuple[str, ...]
    measures: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats
    confidence: float
    settings: dict[str, Any]
    seconds: float

    def __post_init__(self) -> None:
        self._freeze()

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        return int(self.values.shape[1])

    def interval(self, column: str) -> MeanIntervals:
        """Means over texts with t intervals, those of shares cut at 0 and 1: (L, rules, measures) each."""
        if column not in self.columns:
            raise InvalidInputError(f"column must be one of {', '.join(self.columns)}, but was {column!r}.")
        found = mean_intervals(self.values[..., self.columns.index(column)], confidence=self.confidence)
        return found if column in _GAINS else found.cut(1.0)

    @property
    def telling_layer(self) -> int:
        """The layer, counted from 1, after which most tokens have a set that is neither empty nor full."""
        shares = self.interval("share_compared").mean[:, 0, 0]
        return int(np.argmax(np.nan_to_num(shares, nan=-1.0))) + 1

    def plot(self, *, measure: str | None = None, ax: Any = None, box: Any = None) -> Any:
        """Draw the gain of sets and of rollout after every layer, with intervals (needs the extra
        ``plot``)."""
        if box is not None:
            raise InvalidInputError("box belongs to pictures of the plane; influence is drawn whole.")
        if measure is not None and measure not in self.measures:
            raise InvalidInputError(
                f"measure must be one of {', '.join(self.measures)}, but was {measure!r}."
            )
        return pictures("corpora").draw_corpus_influence(self, measure=measure, ax=ax)

    def _summary(self) -> str:
        layer = self.telling_layer
        recall, random, best = (
            self.interval(name).mean[layer - 1, 0, 0] for name in ("recall", "random", "best")
        )
        return (
            f"{self.model}, {many(len(self.names), 'text')}, after layer {layer}, {self.rules[0]} by "
            f"{self.measures[0]}: recall {recall:.3g}, at random {random:.3g}, best {best:.3g}"
        )

    def _table(self) -> dict[str, Any]:
        layer, rule, measure = (place.ravel() for place in np.indices(self.values.shape[1:4]))
        table: dict[str, Any] = {
            "after_layer": layer + 1,
            "rule": [self.rules[i] for i in rule],
            "measure": [self.measures[j] for j in measure],
        }
        for name in self.columns:
            found = self.interval(name)
            for words, part in ((name, found.mean), (f"{name}_low", found.low), (f"{name}_high", found.high)):
                table[words] = part.ravel()
        return {**table, "n_texts": self.interval("recall").n.ravel()}


def corpus_influence(
    source: Any,
    texts: Any,
    influence: Callable[[Any], TextInfluence],
    *,
    settings: dict[str, Any],
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> CorpusInfluence:
    """Influence over many texts; :func:`hardmax.measure_influence` calls it for a list of texts.

    Parameters
    ----------
    source : Source
    texts : sequence of texts
    influence : callable
        What is measured on one text.
    settings : dict
        What was asked, in plain values.
    confidence, checkpoint, progress
        As in :func:`hardmax.measure_influence`.
    """
    started = time.perf_counter()
    named = checked_texts(texts)
    mean_intervals(np.zeros((2, 1)), confidence=confidence)

    def measure(text: Any) -> Measured:
        found = influence(text)
        rng = int(settings["rng"])
        report = report_of(source.name, [found], n_draws=int(settings["n_draws"]), n_bootstrap=1, rng=rng)
        return {
            "values": report.medians(),
            "rules": list(report.rules),
            "measures": list(report.measures),
            "n_tokens": len(found.tokens),
        }

    question = {"what": "influence", **model_question(source), **settings}
    parts, n_tokens, names = [], [], None
    for found in over_texts(named, measure, question=question, checkpoint=checkpoint, progress=progress):
        parts.append(found["values"])
        n_tokens.append(found["n_tokens"])
        names = tuple(found["rules"]), tuple(found["measures"])
    assert names is not None  # for the type checker: there is at least one text
    return CorpusInfluence(
        model=source.name,
        names=tuple(named),
        n_tokens=np.array(n_tokens, dtype=np.int64),
        rules=names[0],
        measures=names[1],
        columns=(*MEDIANS, "share_compared"),
        values=np.stack(parts),
        confidence=float(confidence),
        settings=dict(settings),
        seconds=time.perf_counter() - started,
    )
