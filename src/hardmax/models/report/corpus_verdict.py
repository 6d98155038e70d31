"""The verdict over many texts: how well hardmax describes a model on texts of this kind.

Its numbers are those of :mod:`hardmax.models.report.verdict`, one per text; what is said is their mean over
texts with the interval that belongs to it. A head counts as described when, on average over texts, at least
half of its queries are within 10 % of hardmax, and *surely* when the interval leaves one half out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.models.atlas.corpus_atlas import cut_to_range
from hardmax.models.report.kept_attention import place_names
from hardmax.models.report.verdict import (
    HALF,
    SHOWN,
    HeadRank,
    HeadRole,
    described_heads,
    description_of,
    head_name,
    listed,
    percent,
    places_of,
    quoted,
    ranks_sentence,
    roles_sentence,
    sentences_of,
)
from hardmax.models.spread import mean_intervals
from hardmax.networks.block import many
from hardmax.results import plain

if TYPE_CHECKING:
    from hardmax.models.report.corpus_report import CorpusReport

Floats = NDArray[np.float64]


class ShareOverTexts(NamedTuple):
    """A share: its mean over texts and the ends of the interval, NaN for a single text."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = percent(self.low), percent(self.high)
        if math.isnan(self.low) or ends[0] == ends[1]:
            return percent(self.mean)
        low, high = (end.removesuffix(" %") for end in ends)
        return f"{percent(self.mean)} ({low} to {high} %)"


class HeadOverTexts(NamedTuple):
    """A head, the share of its queries that are within 10 % of hardmax, and how much that varies."""

    layer: int
    head: int
    share: ShareOverTexts
    deviation: float  # standard deviation over texts; NaN for a single text


class SinkOverTexts(NamedTuple):
    """A token that is the greatest sink of so many heads on at least half of the texts."""

    token: str
    heads: int


@dataclass(frozen=True)
class CorpusVerdict:
    """How well hardmax describes a model on many texts.

    Attributes
    ----------
    n_texts, n_heads : int
    confidence : float
    share : ShareOverTexts
        Queries of a text, over all heads, that are within 10 % of hardmax.
    extremes : tuple of (str, float)
        The text with the smallest share and the one with the largest.
    layers : tuple of (int, ShareOverTexts)
    described : tuple of HeadOverTexts
        Heads that hardmax describes, the hardest first.
    n_sure, n_open : int
        Those of them whose interval leaves one half out; heads whose interval holds it.
    hardest, varying : tuple of HeadOverTexts
        The first heads by share, and those whose share differs most from text to text.
    keys_for_90, n_keys : float
        Means over texts: keys that hold 0.9 of the probability of the median query, and keys.
    goes : dict from str to float
        Where attention goes, mean over heads and texts.
    roles : tuple of HeadRole
        Heads that give at least half of it to one place, on average over texts.
    sinks : tuple of SinkOverTexts
    ranks : tuple of HeadRank
        Heads whose winner predicts influence best, the best first: means over the texts in full, because
        influence is measured on these alone; empty where it was not. The texts in full are chosen and not
        drawn, so these numbers have no interval.
    n_ranked : int
        On how many texts influence was measured.

    Examples
    --------
    >>> import hardmax as hm
    >>> sequences = np.random.default_rng(0).standard_normal((8, 15, 4))
    >>> verdict = hm.report(None, sequences, full=1).verdict
    >>> verdict.description, verdict.holds
    ('partial', True)
    """

    n_texts: int
    n_heads: int
    confidence: float
    share: ShareOverTexts
    extremes: tuple[tuple[str, float], ...]
    layers: tuple[tuple[int, ShareOverTexts], ...]
    described: tuple[HeadOverTexts, ...]
    n_sure: int
    n_open: int
    hardest: tuple[HeadOverTexts, ...]
    varying: tuple[HeadOverTexts, ...]
    keys_for_90: float
    n_keys: float
    goes: dict[str, float]
    roles: tuple[HeadRole, ...]
    sinks: tuple[SinkOverTexts, ...]
    ranks: tuple[HeadRank, ...]
    n_ranked: int

    @property
    def description(self) -> str:
        """``"good"``, ``"partial"`` or ``"poor"``; ``"no"`` where no query has a choice."""
        return description_of(self.share.mean)

    @property
    def holds(self) -> bool:
        """Whether hardmax describes at least half of the heads."""
        return 2 * len(self.described) >= self.n_heads

    @property
    def how_well(self) -> tuple[str, ...]:
        """How well hardmax describes the model on these texts."""
        if self.description == "no":
            return ("No query has two different keys to choose from, so there is nothing to describe.",)
        first = (
            f"Hardmax, where each head reads only its winning key, is a {self.description} description of "
            f"this model's attention on these {many(self.n_texts, 'text')}: for {self.share} of the queries "
            "of a text, over all heads, the winning key holds at least 0.9 of the probability."
        )
        if self.n_texts > 1:
            (low, least), (high, most) = self.extremes
            means = (
                f"Numbers are means over texts; in brackets stand {100 * self.confidence:g} % intervals over "
                f"texts. The share is smallest on {low} ({percent(least)}) and largest on {high} "
                f"({percent(most)})."
            )
        parts = [f"layer {layer}: {share}" for layer, share in self.layers if not math.isnan(share.mean)]
        found = sentences_of(self, first, parts)
        return found if self.n_texts == 1 else (first, means, *found[1:])

    @property
    def follows(self) -> tuple[str, ...]:
        """What follows."""
        if not self.n_heads or self.description == "no":
            return ()
        n, more = len(self.described), []
        if self.n_texts > 1 and n > 1:
            more.append(f"for {self.n_sure} of them the interval leaves one half out")
        elif self.n_texts > 1 and self.n_sure:
            more.append("its interval leaves one half out")
        if self.n_open:
            more.append(f"{many(self.n_open, 'head')} may fall on either side of one half")
        whose = "its" if n == 1 else "their"
        what = (
            f"at least half of {whose} queries are near it" if n else "none has half of its queries near it"
        )
        found = "; ".join([f"{what}, on average over texts", *more])
        return (f"Hardmax describes {described_heads(self)}: {found}.",)

    @property
    def look_first(self) -> tuple[str, ...]:
        """What to look at first."""
        found = []
        if self.hardest:
            parts = [f"{head_name(one)} with {one.share}" for one in self.hardest]
            found.append(f"Hardest heads, by the share of their queries: {listed(parts)}.")
        if self.varying:
            parts = [f"{head_name(one)} by {100 * one.deviation:.0f} points" for one in self.varying]
            found.append(
                f"Heads whose share differs most from text to text (standard deviation): {listed(parts)}."
            )
        found += roles_sentence(self.roles)
        if self.sinks:
            parts = [f"{quoted(s.token)} in {many(s.heads, 'head')}" for s in self.sinks[:SHOWN]]
            found.append(
                f"Sinks, keys that win far more than their share on at least half of the texts, of "
                f"{many(self.n_heads, 'head')}: {listed(parts)}."
            )
        elif self.n_heads:
            found.append("No token is a sink of a head on half of the texts.")
        if self.ranks:
            which = many(self.n_ranked, "text")
            found += ranks_sentence(self.ranks, f", mean over the {which} whose influence was measured")
        return tuple(found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it in order: how well, what follows, what to look at first."""
        return (*self.how_well, *self.follows, *self.look_first)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and sentences in plain Python."""

        def heads(records: Sequence[HeadOverTexts]) -> list[dict[str, Any]]:
            return [{**one._asdict(), "share": one.share._asdict()} for one in records]

        numbers: dict[str, Any] = plain(
            {
                "description": self.description,
                "holds": self.holds,
                "n_texts": self.n_texts,
                "n_heads": self.n_heads,
                "confidence": self.confidence,
                "share_within_10": self.share._asdict(),
                "extremes": [{"text": name, "share": share} for name, share in self.extremes],
                "layers": [{"layer": n, **share._asdict()} for n, share in self.layers],
                "described": heads(self.described),
                "n_sure": self.n_sure,
                "n_open": self.n_open,
                "hardest": heads(self.hardest),
                "varying": heads(self.varying),
                "keys_for_90": self.keys_for_90,
                "n_keys": self.n_keys,
                "goes": dict(self.goes),
                "roles": [role._asdict() for role in self.roles],
                "sinks": [sink._asdict() for sink in self.sinks],
                "ranks": [rank._asdict() for rank in self.ranks],
                "n_ranked": self.n_ranked,
                "sentences": list(self.sentences),
            }
        )
        return numbers


def corpus_verdict(report: CorpusReport) -> CorpusVerdict:
    """The verdict on what was measured."""
    atlas = report.atlas
    within = np.nan_to_num(atlas.of("share_within_10")) * report.n_queries
    heads = _heads(report)
    order = sorted(heads, key=lambda h: (-h.share.mean, h.layer, h.head))
    described = tuple(h for h in order if h.share.mean >= HALF)
    unsure = [h for h in heads if h.share.low < HALF <= h.share.high]
    shares = report.shares
    low, high = (
        int(f(np.where(np.isnan(shares), worst, shares))) for f, worst in ((np.argmin, 2), (np.argmax, -1))
    )
    varying = sorted((h for h in heads if h.deviation > 0), key=lambda h: (-h.deviation, h.layer, h.head))
    of = list(zip(atlas.layer.tolist(), atlas.head.tolist(), strict=True))
    goes, roles = places_of(report.goes.mean(axis=0), of, place_names(*([word] for word in report.ends)))
    spread = report.keys_for_90[np.isfinite(report.keys_for_90)]
    ranked = [one.verdict.ranks for one in report.texts if one.influence is not None]
    return CorpusVerdict(
        n_texts=atlas.n_texts,
        n_heads=len(heads),
        confidence=atlas.confidence,
        share=_interval(shares[:, None], atlas.confidence)[0],
        extremes=tuple((atlas.names[i], float(shares[i])) for i in (low, high)),
        layers=tuple(
            (layer, _interval(_share(within[:, rows], report.n_queries[:, rows]), atlas.confidence)[0])
            for layer in np.unique(atlas.layer).tolist()
            for rows in (atlas.layer == layer,)
        ),
        described=described,
        n_sure=sum(h.share.low >= HALF for h in described),
        n_open=len(unsure),
        hardest=tuple(order[:SHOWN]),
        varying=tuple(varying[:SHOWN]),
        keys_for_90=float(spread.mean()) if spread.size else math.nan,
        n_keys=float(report.n_keys.mean()),
        goes=goes,
        roles=roles,
        sinks=_sinks(report),
        ranks=_ranks(ranked),
        n_ranked=len(ranked),
    )


def _share(within: Floats, total: NDArray[np.int64]) -> Floats:
    """The share of queries of each text: (texts, 1)."""
    n = total.sum(axis=1)
    shares = np.divide(within.sum(axis=1), n, out=np.full(len(n), np.nan), where=n > 0)
    return np.asarray(shares)[:, None]


def _interval(values: Floats, confidence: float) -> list[ShareOverTexts]:
    found = cut_to_range(mean_intervals(values, confidence=confidence), "share_within_10")
    return [ShareOverTexts(*map(float, ends)) for ends in zip(found.mean, found.low, found.high, strict=True)]


def _heads(report: CorpusReport) -> list[HeadOverTexts]:
    """Every head that has a choice on some text."""
    atlas = report.atlas
    found = atlas.interval("share_within_10")
    rows = zip(atlas.layer, atlas.head, found.mean, found.low, found.high, found.deviation, strict=True)
    return [
        HeadOverTexts(int(n), int(h), ShareOverTexts(float(mean), float(low), float(high)), float(deviation))
        for n, h, mean, low, high, deviation in rows
        if np.isfinite(mean)
    ]


def _sinks(report: CorpusReport) -> tuple[SinkOverTexts, ...]:
    atlas = report.atlas
    counts = Counter(one.sink for one in atlas.heads if one.sink and 2 * one.sink_texts >= atlas.n_texts)
    return tuple(SinkOverTexts(word, n) for word, n in sorted(counts.items(), key=lambda p: (-p[1], p[0])))


def _ranks(texts: Sequence[Sequence[HeadRank]]) -> tuple[HeadRank, ...]:
    """The mean rank of every head that has one on all of these texts, the best head first."""
    by_head: dict[tuple[int, int], list[HeadRank]] = {}
    for ranks in texts:
        for one in ranks:
            by_head.setdefault((one.layer, one.head), []).append(one)
    found = [
        HeadRank(layer, head, float(np.mean([r.rank for r in ranks])), sum(r.queries for r in ranks))
        for (layer, head), ranks in by_head.items()
        if len(ranks) == len(texts)
    ]
    return tuple(sorted(found, key=lambda r: (-r.rank, r.layer, r.head)))
