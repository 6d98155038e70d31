"""The report of many texts: the verdict over all of them, and some of them in full, on one page.

Every text gives every head its statistics (:data:`~hardmax.models.atlas.corpus_atlas.STATISTICS`) and says
where its attention goes; numbers over texts are means with Student's t interval over texts. A page that held
every text in full would have no bound in size, so a stated number is kept: the first, the most typical, the
most unusual, the hardest and the softest. A text is *typical* or *unusual* by how far the median top
probabilities of its heads are from their means over texts (root mean square over heads).

With a checkpoint every text that was measured is a file, and so is every report in full: a run that was
killed loses at most one text, and the page of a run that went on has the same bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DamagedFileError, InvalidInputError
from hardmax.fields import check_range
from hardmax.models.atlas.corpus_atlas import STATISTICS, CorpusAtlas, StatisticsRecorder, table_of_texts
from hardmax.models.influence.routing_flow import RoutingRule, ranked_keys
from hardmax.models.reading.loading import read
from hardmax.models.reading.sources import CapturedLayer
from hardmax.models.reading.text_runs import Measured, model_question, over_texts
from hardmax.models.reading.texts import checked_texts
from hardmax.models.report.corpus_figures import corpus_figures
from hardmax.models.report.corpus_page import corpus_heads_csv, corpus_page, texts_csv
from hardmax.models.report.corpus_verdict import CorpusVerdict, corpus_verdict
from hardmax.models.report.files import in_frame, write_report
from hardmax.models.report.kept_attention import attention_places, ends_of
from hardmax.models.report.model_report import RULES, ModelReport, check_options, text_report
from hardmax.models.report.svg import Figure
from hardmax.models.report.verdict import percent
from hardmax.models.spread import mean_intervals
from hardmax.results import Result, plain, timeless

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FULL_TEXTS = 3
"""How many texts a page keeps in full, if nothing else is said."""

_OPENING = 80  # letters of a text that are shown
_SCHEMA = 1


@dataclass(frozen=True, eq=False, repr=False)
class CorpusReport(Result):
    """What :func:`hardmax.report` found on many texts; :meth:`write` makes the page.

    Attributes
    ----------
    atlas : CorpusAtlas
        Statistics of every head on every text.
    n_queries : array of int (texts, rows)
        Queries with a choice, for every head.
    n_keys : array of int (texts,)
        The most keys that a query may read.
    keys_for_90 : array (texts,)
        How many keys hold 0.9 of the probability of a query: the median over queries and heads.
    goes : array (texts, rows, 5)
        The mean probability that a head gives to the token itself, the first and last token and neighbours
        (:data:`~hardmax.models.report.kept_attention.PLACES`).
    ends : tuple of str
        What the first and the last token that is read are, where they are the same on all texts and in all
        layers; empty otherwise.
    openings : tuple of str
        How each text begins.
    full : array of int (n,)
        Which texts are kept in full.
    why : tuple of str
        Why these.
    texts : tuple of ModelReport
        Their reports.

    Examples
    --------
    >>> import hardmax as hm
    >>> sequences = np.random.default_rng(0).standard_normal((8, 15, 4))
    >>> found = hm.report(None, sequences, full=2)
    >>> print(found.verdict.follows[0])
    Hardmax describes 4 of 4 heads: ...
    >>> found.why[0], len(found.texts)
    ('the first', 2)
    """

    kind: ClassVar[str] = "CorpusReport"
    _nested: ClassVar[dict[str, type]] = {"atlas": CorpusAtlas, "texts": ModelReport}
    _shapes: ClassVar[dict[str, str]] = {
        "n_queries": "n rows",
        "n_keys": "n",
        "keys_for_90": "n",
        "goes": "n rows 5",
        "openings": "n",
        "full": "full",
        "why": "full",
        "texts": "full",
    }

    atlas: CorpusAtlas
    n_queries: Integers
    n_keys: Integers
    keys_for_90: Floats
    goes: Floats
    ends: tuple[str, str]
    openings: tuple[str, ...]
    full: Integers
    why: tuple[str, ...]
    texts: tuple[ModelReport, ...]

    def __post_init__(self) -> None:
        self._freeze()

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        made = super()._from_state(state)
        check_range("full", made.full, 0, len(made.openings))
        if len(made.atlas.names) != len(made.openings):
            raise DamagedFileError("its atlas must have as many texts as it has, but has not.")
        return made

    @property
    def shares(self) -> Floats:
        """The share of the queries of each text, over all heads, that are within 10 % of hardmax."""
        within = np.nansum(self.atlas.of("share_within_10") * self.n_queries, axis=1)
        total = self.n_queries.sum(axis=1)
        return np.asarray(np.divide(within, total, out=np.full(len(total), np.nan), where=total > 0))

    @cached_property
    def verdict(self) -> CorpusVerdict:
        """How well hardmax describes the model on these texts, what follows, and what to look at first."""
        return corpus_verdict(self)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The drawings over all texts, by name."""
        return corpus_figures(self)

    def html(self) -> str:
        """The page as text."""
        return corpus_page(self)

    def _repr_html_(self) -> str:
        return in_frame(self.html())

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python: verdict, statistics of heads, texts, and the reports in full."""
        return {
            "kind": self.kind,
            "schema": _SCHEMA,
            "model": self.atlas.model,
            "verdict": self.verdict.to_dict(),
            "atlas": plain(timeless(self.atlas.summary())),
            "texts": [
                {"name": name, "tokens": int(n), "share_within_10": float(share), "opening": opening}
                for name, n, share, opening in zip(
                    self.atlas.names, self.atlas.n_tokens, self.shares, self.openings, strict=True
                )
            ],
            "full": [
                {"name": self.atlas.names[i], "why": why, "report": text.to_dict()}
                for i, why, text in zip(self.full, self.why, self.texts, strict=True)
            ],
            "provenance": dict(self.provenance),
        }

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the page, its numbers and its drawings into a folder, which is made if it does not exist.

        Returns
        -------
        tuple of Path
            ``report.html``, ``report.json``, ``heads.csv`` (statistics with intervals), ``texts.csv`` and
            ``figures/*.svg``, those of a text in full with its number before the name.
        """
        drawings = {name: figure.standalone() for name, figure in self.figures.items()}
        for i, text in zip(self.full, self.texts, strict=True):
            drawings |= {f"text-{i + 1}-{name}": one.standalone() for name, one in text.figures.items()}
        tables = {"heads.csv": corpus_heads_csv(self), "texts.csv": texts_csv(self)}
        return write_report(folder, self.html(), self.to_dict(), tables, drawings)

    def _summary(self) -> str:
        atlas, share = self.atlas, percent(self.verdict.share.mean)
        return (
            f"{atlas.model}, {len(atlas.layer)} heads on {atlas.n_texts} texts, {len(self.full)} of them in "
            f"full, {share} of the queries near hardmax"
        )

    def _table(self) -> Any:
        return self.atlas._table()


class _TextRecorder(StatisticsRecorder):
    """Statistics of every head, and where its attention goes."""

    def __init__(self, source: Any, **options: Any) -> None:
        super().__init__(source, **options)
        self._rule = RoutingRule.of("mass 0.9")
        self._goes: dict[tuple[int, int], Floats] = {}
        self._spread: list[Integers] = []
        self._ends: list[tuple[int, int]] = []
        self._n_keys = 0

    def __call__(self, layer: CapturedLayer) -> None:
        """Measure one layer."""
        super().__call__(layer)
        self._ends.append(ends_of(layer.present, layer.null_keys))
        self._n_keys = max(self._n_keys, int(layer.present.sum(axis=1).max()))
        for h in range(layer.heads):
            if (layer.index, h) in self._values:
                ranked = ranked_keys(layer, h)
                choice = ranked.may.sum(axis=1) > 1
                self._spread.append(ranked.read(self._rule).sum(axis=1)[choice])
                self._goes[layer.index, h] = attention_places(layer, h)

    def measured(self, reading: Any) -> Measured:
        """What was found on the text that was read, ready for a file."""
        spread = np.concatenate(self._spread) if self._spread else np.empty(0)
        return {
            **super().measured(reading),
            "goes": np.array([self._goes[place] for place in self.rows]),
            "keys_for_90": float(np.median(spread)) if spread.size else float("nan"),
            "n_keys": self._n_keys,
            "ends": [[reading.key_tokens[at] for at in side] for side in zip(*self._ends, strict=True)],
        }


def corpus_report(
    source: Any,
    texts: Any,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rules: Sequence[str] = RULES,
    read_out: int | None = None,
    influence: bool | None = None,
    full: int | Sequence[str] = FULL_TEXTS,
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> CorpusReport:
    """The report of many texts; :func:`hardmax.report` calls it for a list of texts, and has the options."""
    named = checked_texts(texts)
    names = tuple(named)
    wanted = _wanted(full, names)
    mean_intervals(np.zeros((2, 1)), confidence=confidence)  # a wrong confidence is said before any reading
    check_options(source, named[names[0]], rules=rules, influence=influence)
    options: dict[str, Any] = {"layers": layers, "heads": heads}
    rows = StatisticsRecorder(source, **options).rows
    if not rows:
        raise InvalidInputError("layers and heads must leave a head to measure, but leave none.")
    question = {
        "what": "report",
        **model_question(source),
        "rows": [list(place) for place in rows],
        "statistics": list(STATISTICS),
    }
    folder = None if checkpoint is None else Path(checkpoint)

    def measure(text: Any) -> Measured:
        recorder = _TextRecorder(source, **options)
        return recorder.measured(read(source, text, [recorder]))

    def told(stage: str) -> Callable[[int, int], object] | None:
        return None if progress is None else lambda done, total: progress(stage, done, total)

    started = time.perf_counter()
    run = over_texts(named, measure, question=question, checkpoint=folder, progress=told("texts"))
    found = list(run)
    seconds = time.perf_counter() - started
    settings = {
        "layers": sorted({n for n, _ in rows}),
        "heads": None if heads is None else sorted({h for _, h in rows}),
    }
    atlas = table_of_texts(
        source, rows, names, found, confidence=confidence, settings=settings, seconds=seconds
    )
    chosen, why = _chosen(atlas, np.array([one["n_queries"] for one in found]), wanted)
    how: dict[str, Any] = {"rules": list(rules), "read_out": read_out, "influence": influence}

    def in_full(text: Any) -> Measured:
        one = text_report(source, text, **options, **how)
        return {"report": one._state()}

    again = over_texts(
        {names[i]: named[names[i]] for i in chosen},
        in_full,
        question={**question, "what": "report in full", **how},
        checkpoint=None if folder is None else folder / "full",
        progress=told("texts in full"),
    )
    reports = tuple(ModelReport._from_state(one["report"]) for one in again)
    ends = [{word for one in found for word in one["ends"][side]} for side in (0, 1)]
    return CorpusReport(
        atlas=atlas,
        n_queries=np.array([one["n_queries"] for one in found], dtype=np.int64),
        n_keys=np.array([one["n_keys"] for one in found], dtype=np.int64),
        keys_for_90=np.array([one["keys_for_90"] for one in found]),
        goes=np.stack([one["goes"] for one in found]),
        ends=tuple(one.pop() if len(one) == 1 else "" for one in ends),  # type: ignore[arg-type]
        openings=tuple(_opening(text) for text in named.values()),
        full=np.array(chosen, dtype=np.int64),
        why=why,
        texts=reports,
    )


def _opening(text: Any) -> str:
    if not isinstance(text, str):
        return f"a sequence of {len(text)} vectors"
    words = " ".join(text.split())
    return words if len(words) <= _OPENING else words[: _OPENING - 1] + "…"


def _wanted(full: int | Sequence[str], names: tuple[str, ...]) -> int | tuple[int, ...]:
    """How many texts are kept in full, or which."""
    if isinstance(full, (int, np.integer)) and not isinstance(full, bool) and full >= 1:
        return min(int(full), len(names))
    if not isinstance(full, (str, int, float)):
        missing = [name for name in full if name not in names]
        if len(full) and not missing:
            return tuple(dict.fromkeys(names.index(name) for name in full))
        if missing:
            raise InvalidInputError(
                f"full must name texts, but none is called {missing[0]!r}; they are {names[0]!r} and so on."
            )
    raise InvalidInputError(f"full must be a number of at least 1, or names of texts, but was {full!r}.")


def _chosen(
    atlas: CorpusAtlas, n_queries: Integers, wanted: int | tuple[int, ...]
) -> tuple[list[int], tuple[str, ...]]:
    """Which texts are kept in full, and why."""
    if isinstance(wanted, tuple):
        return list(wanted), ("chosen",) * len(wanted)
    top, share = atlas.of("top_probability"), atlas.of("share_within_10")
    off = np.sqrt(np.nanmean((top - _mean(top, 0)) ** 2, axis=1))
    hard = np.nansum(share * n_queries, axis=1) / np.maximum(n_queries.sum(axis=1), 1)
    known = np.isfinite(off)
    off = np.where(known, off, 0.0 if not known.any() else np.inf)
    far = np.where(known, off, -1.0)
    ranked = [
        (0, "the first"),
        (int(off.argmin()), "the most typical"),
        (int(far.argmax()), "the most unusual"),
        (int(hard.argmax()), "the hardest"),
        (int(hard.argmin()), "the softest"),
        *((i, "the next in order") for i in range(atlas.n_texts)),
    ]
    reasons: dict[int, list[str]] = {}
    for i, reason in ranked:
        if i in reasons:
            reasons[i] += [reason] if reason != "the next in order" else []
        elif len(reasons) < wanted:
            reasons[i] = [reason]
    return list(reasons), tuple(" and ".join(words) for words in reasons.values())


def _mean(values: Floats, axis: int) -> Floats:
    """The mean without what is NaN; NaN where there is nothing else."""
    known = np.isfinite(values)
    total, n = np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0))
