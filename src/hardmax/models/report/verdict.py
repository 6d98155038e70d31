"""The verdict: how well hardmax describes a model on a text, what follows, and what to look at first.

Every sentence is computed from numbers of the atlas, of the attention that was kept and of measured
influence; the numbers stand beside it. A query counts as described when softmax is within 10 % of hardmax for
it in total variation: the winning key holds at least 0.9 of the probability. A head counts as described when
that is so for at least half of its queries.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax.models.report.kept_attention import ends_of, place_names
from hardmax.models.report.svg import CONTROL, number, shortened
from hardmax.networks.block import many
from hardmax.results import plain

if TYPE_CHECKING:
    from hardmax.models.atlas.head_atlas import HeadAtlas, HeadRecord
    from hardmax.models.influence.influence_report import InfluenceReport
    from hardmax.models.report.kept_attention import KeptAttention

HALF = 0.5
"""The share of the queries of a head from which on hardmax describes it."""

SHOWN = 3
"""How many heads are named."""

_GOOD, _PARTIAL = 0.75, 0.25  # shares of queries from which on hardmax is a good or a partial description
_FEWEST = 5  # queries that a head must have for its rank of influence to be looked at
_TELLING = 0.6  # rank of influence from which on a head is named; 0.5 is chance


class LayerShare(NamedTuple):
    """Queries of a layer that are within 10 % of hardmax, and how many there are."""

    layer: int
    within: int
    of: int


class HeadShare(NamedTuple):
    """A head, the share of its queries that are within 10 % of hardmax, and its median top probability."""

    layer: int
    head: int
    within: float
    top_probability: float


class SinkCount(NamedTuple):
    """A key that wins far more than its share, and in how many heads."""

    position: int
    token: str
    heads: int


class HeadRank(NamedTuple):
    """How influential the winning key of a head is: 1 always the most, 0.5 as any other key."""

    layer: int
    head: int
    rank: float
    queries: int


class HeadRole(NamedTuple):
    """A head that gives at least half of its probability to one place beside each token."""

    layer: int
    head: int
    place: str
    share: float


class RecallAt(NamedTuple):
    """Median share of influence inside sets of equal size after some layers."""

    layers: int
    information_set: float
    random: float
    rollout: float


@dataclass(frozen=True)
class Verdict:
    """How well hardmax describes a model on a text.

    Attributes
    ----------
    layers : tuple of LayerShare
    n_heads : int
    described : tuple of HeadShare
        The heads that hardmax describes, the hardest first.
    hardest : tuple of HeadShare
        The first heads by share of described queries, then by top probability.
    keys_for_90, n_keys : float, int
        The median number of keys that hold 0.9 of the probability of a query, NaN where it is not known, and
        the most keys that a query may read.
    goes : dict from str to float
        The share of all attention that goes to the token itself, to the first and last token and to
        neighbours; the rest goes elsewhere. Empty where it is not known.
    roles : tuple of HeadRole
        Heads that give at least half of it to one of these, the clearest first.
    sinks : tuple of SinkCount
        The most frequent first.
    ranks : tuple of HeadRank
        Heads whose winner predicts influence best, the best first; empty where influence was not measured.
    recall : RecallAt or None
        At the last layer after which sets can be compared.

    Examples
    --------
    >>> import hardmax as hm
    >>> verdict = hm.report(rules=["argmax"]).verdict
    >>> verdict.description, verdict.holds
    ('partial', True)
    >>> print(verdict.sentences[0])
    Hardmax, where each head reads only its winning key, is a partial description of this model's ...
    """

    layers: tuple[LayerShare, ...]
    n_heads: int
    described: tuple[HeadShare, ...]
    hardest: tuple[HeadShare, ...]
    keys_for_90: float
    n_keys: int
    goes: dict[str, float]
    roles: tuple[HeadRole, ...]
    sinks: tuple[SinkCount, ...]
    ranks: tuple[HeadRank, ...]
    recall: RecallAt | None

    @property
    def share(self) -> float:
        """The share of all queries of all heads that are within 10 % of hardmax."""
        total = sum(layer.of for layer in self.layers)
        return sum(layer.within for layer in self.layers) / total if total else math.nan

    @property
    def description(self) -> str:
        """``"good"``, ``"partial"`` or ``"poor"``; ``"no"`` where no query has a choice."""
        return description_of(self.share)

    @property
    def holds(self) -> bool:
        """Whether hardmax describes at least half of the heads, so that sections on argmax stand open."""
        return 2 * len(self.described) >= self.n_heads

    @property
    def how_well(self) -> tuple[str, ...]:
        """How well hardmax describes the model here."""
        if self.description == "no":
            return ("No query has two different keys to choose from, so there is nothing to describe.",)
        within, of = (sum(layer[i] for layer in self.layers) for i in (1, 2))
        first = (
            f"Hardmax, where each head reads only its winning key, is a {self.description} description of "
            f"this model's attention on this text: for {within:,} of {of:,} queries ({percent(self.share)}), "
            "over all heads, the winning key holds at least 0.9 of the probability."
        )
        parts = [f"layer {layer}: {percent(n / m)}" for layer, n, m in self.layers if m]
        return sentences_of(self, first, parts)

    @property
    def follows(self) -> tuple[str, ...]:
        """What follows for the rest of the page."""
        if not self.n_heads or self.description == "no":
            return ()
        heads = described_heads(self)
        if self.holds:
            return (f"The report's sections on argmax describe {heads}.",)
        return (
            f"The report's sections on argmax describe {heads}; they are collapsed, because for the "
            "other heads the winning key is only one of many that are read.",
        )

    @property
    def look_first(self) -> tuple[str, ...]:
        """What to look at first."""
        found = []
        if self.hardest:
            parts = [
                f"{head_name(h)} ({percent(h.within)} of its queries, top probability "
                f"{h.top_probability:.2f})"
                for h in self.hardest
            ]
            found.append(f"Hardest heads: {listed(parts)}.")
        found += roles_sentence(self.roles)
        if self.sinks:
            parts = [
                f"{quoted(s.token)} at position {s.position} in {many(s.heads, 'head')}"
                for s in self.sinks[:SHOWN]
            ]
            found.append(
                f"Sinks, keys that win far more than their share, of {many(self.n_heads, 'head')}: "
                f"{listed(parts)}."
            )
        elif self.n_heads:
            found.append("No key is a sink: none wins far more than its share in any head.")
        found += ranks_sentence(self.ranks) if self.ranks else []
        if self.recall is not None:
            at = self.recall
            found.append(
                f"After {many(at.layers, 'layer')} the argmax routes into a token hold "
                f"{percent(at.information_set)} of what influences it, random sets of the same size "
                f"{percent(at.random)}, attention rollout {percent(at.rollout)} (medians)."
            )
        return tuple(found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it in order: how well, what follows, what to look at first."""
        return (*self.how_well, *self.follows, *self.look_first)

    @property
    def why_collapsed(self) -> str:
        """Why a section on argmax is collapsed; empty where it is not."""
        if self.holds:
            return ""
        return (
            "Collapsed, because it is about heads that read their winning key alone, and here these are "
            f"{len(self.described)} of {many(self.n_heads, 'head')}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Numbers and sentences in plain Python."""
        return {
            "description": self.description,
            "holds": self.holds,
            "share_within_10": self.share,
            "layers": [layer._asdict() for layer in self.layers],
            "n_heads": self.n_heads,
            "described": [head._asdict() for head in self.described],
            "hardest": [head._asdict() for head in self.hardest],
            "keys_for_90": self.keys_for_90,
            "n_keys": self.n_keys,
            "goes": dict(self.goes),
            "roles": [plain(role._asdict()) for role in self.roles],
            "sinks": [sink._asdict() for sink in self.sinks],
            "ranks": [plain(rank._asdict()) for rank in self.ranks],
            "recall": None if self.recall is None else plain(self.recall._asdict()),
            "sentences": list(self.sentences),
        }


def verdict_of(
    atlas: HeadAtlas, kept: KeptAttention | None = None, influence: InfluenceReport | None = None
) -> Verdict:
    """The verdict on what was measured."""
    heads = [HeadShare(r.layer, r.head, r.share_measured_10, r.top_probability) for r in atlas.heads]
    known = [head for head in heads if not math.isnan(head.within)]
    order = sorted(known, key=lambda h: (-h.within, -h.top_probability, h.layer, h.head))
    sinks = Counter(r.sink for r in atlas.heads if r.sink >= 0)
    spread = kept.keys_for_90 if kept is not None else np.empty(0)
    goes, roles = _places(kept, atlas) if kept is not None else ({}, ())
    return Verdict(
        layers=tuple(
            LayerShare(
                layer, *(sum(counts) for counts in zip(*map(_counts, atlas.of_layer(layer)), strict=True))
            )
            for layer in atlas.layers
        ),
        n_heads=len(heads),
        described=tuple(head for head in order if head.within >= HALF),
        hardest=tuple(order[:SHOWN]),
        keys_for_90=float(np.median(spread)) if spread.size else math.nan,
        n_keys=int(kept.readable.max()) if kept is not None else len(atlas.key_tokens),
        goes=goes,
        roles=roles,
        sinks=tuple(
            SinkCount(s, atlas.key_tokens[s], n)
            for s, n in sorted(sinks.items(), key=lambda p: (-p[1], p[0]))
        ),
        ranks=() if influence is None else influence_ranks(atlas, influence),
        recall=None if influence is None else _recall(influence),
    )


def _places(kept: KeptAttention, atlas: HeadAtlas) -> tuple[dict[str, float], tuple[HeadRole, ...]]:
    ends = [ends_of(present, kept.null_keys) for present in kept.present]
    names = place_names(*([atlas.key_tokens[at] for at in side] for side in zip(*ends, strict=True)))
    of = [(layer, head) for layer, n in enumerate(kept.heads) for head in range(n)]
    return places_of(kept.goes, of, names)


def places_of(
    goes: NDArray[np.float64], of: Sequence[tuple[int, int]], names: Sequence[str]
) -> tuple[dict[str, float], tuple[HeadRole, ...]]:
    """Where attention goes over all heads, and the heads that mostly go to one place.

    ``goes`` (rows, places) is what each head gives to each place, ``of`` its layer and head.
    """
    roles = [
        HeadRole(of[row][0], of[row][1], names[i], float(goes[row, i]))
        for row, i in np.argwhere(goes >= HALF)
    ]
    shares = dict(zip(names, goes.mean(axis=0).tolist(), strict=True))
    return shares, tuple(sorted(roles, key=lambda r: (-r.share, r.layer, r.head)))


def _counts(record: HeadRecord) -> tuple[int, int]:
    """How many queries of a head are within 10 % of hardmax, and how many there are."""
    if math.isnan(record.share_measured_10):
        return 0, 0
    return round(record.share_measured_10 * record.n_queries), record.n_queries


def influence_ranks(atlas: HeadAtlas, influence: InfluenceReport) -> tuple[HeadRank, ...]:
    """How influential the winners of each head are, by the first measure, the best head first.

    For a head of layer l and a token t that it sends to another key s: the share of the other keys whose
    influence on the state of t after that layer is smaller than that of s (ties by halves), averaged over
    tokens. The token itself is no candidate.
    """
    text = influence.texts[0]
    table, candidates = text.influence[influence.measures[0]], text.flows[-1].sets
    found = []
    for record, winners in zip(atlas.heads, atlas.winners, strict=True):
        layer = record.layer
        ranks = [
            _rank(int(s), t, table[layer, t], candidates[layer + 1, t])
            for t, s in enumerate(winners)
            if 0 <= s != t
        ]
        known = [rank for rank in ranks if not math.isnan(rank)]
        if len(known) >= _FEWEST:
            found.append(HeadRank(layer, record.head, float(np.mean(known)), len(known)))
    return tuple(sorted(found, key=lambda r: (-r.rank, r.layer, r.head)))


def _rank(key: int, token: int, influence: NDArray[np.float64], candidates: NDArray[np.bool_]) -> float:
    others = candidates.copy()
    others[[s for s in (key, token) if s < len(others)]] = False
    rivals = influence[others]
    if not rivals.size or not candidates[key]:
        return math.nan
    return float(((rivals < influence[key]) + 0.5 * (rivals == influence[key])).mean())


def _recall(influence: InfluenceReport) -> RecallAt | None:
    layer = influence.telling_layer()
    if layer is None or influence.rules[0] != "argmax":
        return None
    found = influence.summary(layer=layer)
    return RecallAt(layer, found.recall.median, found.random.median, found.rollout.median)


def percent(share: float) -> str:
    """A share for people: whole percents, and what is not quite nothing or all said so.

    >>> [percent(x) for x in (0.0, 0.004, 0.236, 0.999, 1.0)]
    ['0 %', 'under 1 %', '24 %', 'over 99 %', '100 %']
    """
    if math.isnan(share):
        return "–"
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def description_of(share: float) -> str:
    """What a share of described queries makes of hardmax as a description; ``"no"`` for NaN.

    >>> [description_of(x) for x in (0.8, 0.3, 0.1)]
    ['good', 'partial', 'poor']
    """
    if math.isnan(share):
        return "no"
    return "good" if share >= _GOOD else "partial" if share >= _PARTIAL else "poor"


def sentences_of(verdict: Any, first: str, layers: Sequence[str]) -> tuple[str, ...]:
    """How well hardmax describes a model, from the numbers of a verdict: ``first``, to how many keys and
    where attention goes, and the share of each layer in words."""
    found = [first]
    if not math.isnan(verdict.keys_for_90):
        found.append(
            f"The median query gives 0.9 of its attention to {number(verdict.keys_for_90)} of "
            f"{number(verdict.n_keys)} keys."
        )
    if verdict.goes:
        parts = [f"{percent(share)} to {place}" for place, share in verdict.goes.items()]
        rest = max(0.0, 1.0 - sum(verdict.goes.values()))
        found.append(f"Attention goes {listed([*parts, f'{percent(rest)} elsewhere'])}.")
    if layers[1:]:
        found.append(f"By layer, the share of queries whose winning key holds 0.9 is {listed(layers)}.")
    return tuple(found)


def described_heads(verdict: Any) -> str:
    """How many heads hardmax describes, and the first of them by name, where these are not all."""
    n, named = len(verdict.described), listed([head_name(h) for h in verdict.described[:SHOWN]])
    which = f" ({named}{', …' if n > SHOWN else ''})" if 0 < n < verdict.n_heads else ""
    return f"{n} of {many(verdict.n_heads, 'head')}{which}"


def roles_sentence(roles: Sequence[HeadRole]) -> list[str]:
    """The heads that mostly read one place, in a sentence; none without such heads."""
    parts = [f"{head_name(r)} reads {r.place} ({percent(r.share)})" for r in roles[:SHOWN]]
    parts += [f"{len(roles) - SHOWN} more do so"] if len(roles) > SHOWN else []
    return [f"Heads that mostly read one place: {listed(parts)}."] if parts else []


def ranks_sentence(ranks: Sequence[HeadRank], where: str = "") -> list[str]:
    """The heads whose winning keys influence the token most; ``where`` says over which texts."""
    telling = [r for r in ranks[:SHOWN] if r.rank >= _TELLING]
    if not telling:
        return [f"In no head does the winning key influence the token much more than other keys do{where}."]
    parts = [f"{head_name(r)} ({percent(r.rank)})" for r in telling]
    return [
        f"Routing predicts influence best in {listed(parts)}{where}: so many of the other keys influence the "
        "token less than the winning key does; chance is 50 %."
    ]


def quoted(token: str) -> str:
    """A token in a sentence: in quotes, unless it has brackets of its own.

    >>> quoted("[CLS]"), quoted("the"), quoted(".")
    ('[CLS]', '“the”', '“.”')
    """
    word = shortened(token.translate(CONTROL), 20)
    return word if word.startswith(("[", "<")) and len(word) > 2 else f"“{word}”"


def head_name(named: Any) -> str:
    """What a head is called in a sentence; the page makes a link of it."""
    return f"layer {named.layer} head {named.head}"


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence with commas, and *and* before the last.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
