r"""How much of what really matters lies inside a token's information set (P2's open validation).

For token t with influences :math:`a_s \ge 0` of the input positions and a set S of k positions,

.. math:: \operatorname{recall}(S) = \sum_{s \in S} a_s \Big/ \sum_{s \in C} a_s

over the candidates C: the positions that the mask lets reach t, *without t itself*. A token always keeps
itself by the residual stream and mostly matters most to itself, so leaving it in would flatter every set.
With it, each recall r becomes :math:`\alpha + (1 - \alpha) r`, where :math:`\alpha` is the token's own
share.

Three sets of the same size stand beside it: a random one, whose expected recall is exactly
:math:`r = k / \lvert C\rvert`; the k positions that attention rollout ranks highest; and the k most
influential ones, which no set of that size beats. Where k is 0 or all of C, every set of the size is the same
and nothing is compared; such tokens are counted apart (``share_compared``). The *gain* puts what is left on
one scale:

.. math:: \frac{\operatorname{recall}(S) - r}{\operatorname{recall}(\text{best}) - r},

0 for a set that is no better than a random one of its size, 1 for the best of that size, negative for worse
than random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, written
from hardmax.models.influence.routing_flow import TokenFlow
from hardmax.models.spread import Spread, spread
from hardmax.networks.block import many
from hardmax.randomness import generator_of
from hardmax.results import Result

Floats = NDArray[np.float64]
_MOST_DRAWS = 10**6


_RANDOM = ("random_expected", "random_mean", "random_low", "random_high")
_RECALLS = ("recall", *_RANDOM, "beaten", "rollout", "best")
COLUMNS = ("size", "candidates", "own_share", *_RECALLS)
"""What is known per token: the size of the set and the number of candidates (both without the token itself),
the token's own share of all influence, the recall of the set, the exact expectation for a random set of the
size, mean and 5 % and 95 % quantiles of seeded draws, the share of draws that the set beats (ties by halves),
the recalls of rollout's set and of the best set."""


@dataclass(frozen=True, eq=False)
class TextInfluence:
    """What was measured on one text."""

    _nested: ClassVar[dict[str, type]] = {"flows": TokenFlow}

    name: str
    flows: tuple[TokenFlow, ...]  # one per rule
    influence: dict[str, Floats]  # per measure (L, Q, N): of input s on token t after layers 1, ..., L
    baselines: dict[str, str]  # what tokens were replaced by, in words
    rollout: Floats  # (L, Q, N)
    gradient_probes: int  # directions of which the gradient is known; 0: not measured
    d: int  # of how many
    gradient_error: float  # the median relative standard error of its norms; 0 where it is exact

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the text."""
        return self.flows[0].tokens


MEDIANS = ("size", "recall", "random", "rollout", "best", "gain", "rollout_gain", "advantage", "own_share")
"""What a corpus keeps of each text: medians over its compared tokens (fields of :class:`RecallSummary`)."""


@dataclass(frozen=True, eq=False)
class _Compared:
    """Tokens whose sets say something, and their numbers."""

    n_tokens: int
    share_compared: float
    share_full: float
    text: NDArray[np.int64]  # which text each comes from
    values: dict[str, Floats]


@dataclass(frozen=True)
class RecallSummary:
    """Recall after one layer under one rule by one measure, over all tokens of all texts.

    Spreads are over the tokens whose set is neither empty nor full.
    """

    layer: int  # after how many layers
    rule: str
    measure: str
    n_tokens: int
    share_compared: float  # the share of tokens whose set is neither empty nor full
    share_full: float  # the share whose set holds every candidate
    size: Spread  # members of the set over candidates, without the token itself
    recall: Spread  # of the information set
    random: Spread  # the exact expectation for random sets
    random_drawn: Spread  # means of the seeded draws, to compare with it
    beaten: Spread  # the share of drawn random sets that the information set beats
    rollout: Spread  # of rollout's set
    best: Spread  # of the best set
    gain: Spread  # 0 as random, 1 as the best set of the size
    rollout_gain: Spread
    advantage: Spread  # recall of the set minus that of rollout's
    own_share: Spread
    recall_with_own: Spread  # the same recalls with the token itself in every set
    random_with_own: Spread
    rollout_with_own: Spread
    best_with_own: Spread


@dataclass(frozen=True, eq=False, repr=False)
class InfluenceReport(Result):
    """Recall of influence by the information sets of a model, against other sets of the same size.

    Attributes
    ----------
    model : str
    rules, measures : tuple of str
        ``"ablation mean"``, ``"ablation mask"``, ``"gradient"``, for instance.
    texts : tuple of TextInfluence
    columns : dict of arrays (rows,)
        One row per text, layer (counted after how many), rule, measure and token: see
        :data:`hardmax.models.influence.influence_report.COLUMNS`.
    n_draws, n_bootstrap, seed : int

    Examples
    --------
    Three tokens that look at the one before them, and influences that were measured elsewhere:

    >>> from hardmax.models.reading.sources import CapturedLayer, TextReading
    >>> from hardmax.models.influence.routing_flow import FlowRecorder
    >>> recorder, eye = FlowRecorder(["argmax", "readable"]), np.eye(3)
    >>> recorder(CapturedLayer(0, eye, 9 * eye[None], np.roll(eye, 1, axis=1)[None], eye[None],
    ...                        np.ones((3, 3), dtype=bool), 1.0))
    >>> flows = recorder.flows(TextReading(tuple("abc"), tuple("abc"), 0.0, 0.0, None, 0.0))
    >>> influence = np.array([[[5.0, 1.0, 3.0], [3.0, 5.0, 1.0], [1.0, 3.0, 5.0]]])
    >>> text = TextInfluence("abc", flows, {"ablation mean": influence}, {}, np.ones((1, 3, 3)), 0, 8, 0.0)
    >>> report = report_of("toy", [text])
    >>> report
    <InfluenceReport: toy, 1 text, 3 tokens, argmax by ablation mean: recall 0.75, at random 0.5, ...>
    >>> report.summary(rule="argmax").gain.median
    1.0
    """

    kind: ClassVar[str] = "InfluenceReport"
    _nested: ClassVar[dict[str, type]] = {"texts": TextInfluence}

    model: str
    rules: tuple[str, ...]
    measures: tuple[str, ...]
    texts: tuple[TextInfluence, ...]
    columns: dict[str, NDArray[Any]]
    n_draws: int
    n_bootstrap: int
    seed: int

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        return len(self.texts[0].rollout)

    @property
    def gradient_exact(self) -> bool | None:
        """Whether gradients are exact on every text; None where there are none."""
        probes = [(text.gradient_probes, text.d) for text in self.texts]
        return None if not any(m for m, _ in probes) else all(m == d for m, d in probes)

    def summary(
        self, *, layer: int | None = None, rule: str | None = None, measure: str | None = None
    ) -> RecallSummary:
        """Medians, quartiles and bootstrap intervals; the last layer, first rule and first measure if not
        said otherwise."""
        after = self.n_layers if layer is None else int(layer)
        if not 1 <= after <= self.n_layers:
            raise InvalidInputError(f"layer must be from 1 to {self.n_layers}, but was {layer}.")
        i, j = _index("rule", rule, self.rules), _index("measure", measure, self.measures)
        found = self._compared(after, i, j)
        return RecallSummary(
            layer=after,
            rule=self.rules[i],
            measure=self.measures[j],
            n_tokens=found.n_tokens,
            share_compared=found.share_compared,
            share_full=found.share_full,
            **{
                name: spread(column, found.text, n_bootstrap=self.n_bootstrap, rng=self.seed)
                for name, column in found.values.items()
            },
        )

    def medians(self) -> Floats:
        """Medians of :data:`MEDIANS` over compared tokens, the share compared last: (L, R, M, columns)."""
        shape = (self.n_layers, len(self.rules), len(self.measures))
        found = np.full((*shape, len(MEDIANS) + 1), np.nan)
        for layer, i, j in np.ndindex(shape):
            one = self._compared(layer + 1, i, j)
            for k, name in enumerate(MEDIANS):
                known = one.values[name][np.isfinite(one.values[name])]
                found[layer, i, j, k] = np.median(known) if len(known) else np.nan
            found[layer, i, j, -1] = one.share_compared
        return found

    def _compared(self, after: int, i: int, j: int) -> _Compared:
        """The tokens whose sets are neither empty nor full after a layer, under a rule, by a measure."""
        rows = (
            (self.columns["layer"] == after)
            & (self.columns["rule"] == i)
            & (self.columns["measure"] == j)
            & (self.columns["candidates"] > 0)
        )
        every = {name: column[rows] for name, column in self.columns.items()}
        size, candidates = every["size"], every["candidates"]
        compared = (size > 0) & (size < candidates) & np.isfinite(every["recall"])
        of = {name: column[compared] for name, column in every.items()}
        own, expected = of["own_share"], of["random_expected"]
        room = of["best"] - expected
        recalls = {"recall": of["recall"], "random": expected, "rollout": of["rollout"], "best": of["best"]}
        with np.errstate(divide="ignore", invalid="ignore"):
            gain, rollout_gain = (
                np.where(room > 1e-12, (recalls[name] - expected) / room, np.nan)
                for name in ("recall", "rollout")
            )
        values = {
            **recalls,
            **{f"{name}_with_own": own + (1 - own) * recall for name, recall in recalls.items()},
            "size": of["size"] / of["candidates"],
            "random_drawn": of["random_mean"],
            "beaten": of["beaten"],
            "gain": gain,
            "rollout_gain": rollout_gain,
            "advantage": of["recall"] - of["rollout"],
            "own_share": own,
        }
        return _Compared(
            n_tokens=len(size),
            share_compared=float(compared.mean()) if len(size) else float("nan"),
            share_full=float((size == candidates).mean()) if len(size) else float("nan"),
            text=of["text"],
            values=values,
        )

    def summaries(self) -> tuple[RecallSummary, ...]:
        """All of them: layer by layer, rule by rule, measure by measure."""
        return tuple(
            self.summary(layer=layer, rule=rule, measure=measure)
            for layer in range(1, self.n_layers + 1)
            for rule in self.rules
            for measure in self.measures
        )

    def telling_layer(self, *, rule: str | None = None, measure: str | None = None) -> int | None:
        """The last layer after which the sets of at least half of the tokens are neither empty nor full, so
        that recall says something; None where there is none."""
        for layer in range(self.n_layers, 0, -1):
            if self.summary(layer=layer, rule=rule, measure=measure).share_compared >= 0.5:
                return layer
        return None

    def to_dict(self) -> dict[str, Any]:
        """The summaries and the settings in plain Python; :meth:`save` keeps the matrices too."""
        return {
            "kind": self.kind,
            "model": self.model,
            "rules": list(self.rules),
            "measures": list(self.measures),
            "baselines": dict(self.texts[0].baselines),
            "texts": [
                {
                    "name": text.name,
                    "n_tokens": len(text.tokens),
                    "gradient_probes": text.gradient_probes,
                    "gradient_exact": text.gradient_probes == text.d,
                    "gradient_relative_error": text.gradient_error,
                    "sizes": {flow.rule: flow.growth["median"].tolist() for flow in text.flows},
                }
                for text in self.texts
            ],
            "recall": [asdict(summary) for summary in self.summaries()],
            "n_draws": self.n_draws,
            "n_bootstrap": self.n_bootstrap,
            "seed": self.seed,
            "provenance": self.provenance,
        }

    def _summary(self) -> str:
        first = self.summary()
        return (
            f"{self.model}, {many(len(self.texts), 'text')}, {first.n_tokens} tokens, {first.rule} by "
            f"{first.measure}: recall {first.recall.median:.3g}, at random {first.random.median:.3g}, "
            f"rollout {first.rollout.median:.3g}, best {first.best.median:.3g}"
        )

    def _table(self) -> dict[str, Any]:
        names = {"rule": self.rules, "measure": self.measures, "text": [text.name for text in self.texts]}
        return {
            name: [names[name][i] for i in column] if name in names else column
            for name, column in self.columns.items()
        }


def _index(what: str, name: str | None, known: tuple[str, ...]) -> int:
    """Where a name stands among those that are known; the first for None."""
    if name is not None and name not in known:
        raise InvalidInputError(f"{what} must be one of {', '.join(known)}, but was {name!r}.")
    return 0 if name is None else known.index(name)


def report_of(
    model: str,
    texts: Sequence[TextInfluence],
    *,
    n_draws: int = 200,
    n_bootstrap: int = 1000,
    rng: int = 0,
) -> InfluenceReport:
    """Compare sets and influences that were measured already; a text's last flow holds its candidates."""
    measures = tuple(texts[0].influence)
    rules = tuple(flow.rule for flow in texts[0].flows[:-1])
    names = ("text", "layer", "rule", "measure", "position", *COLUMNS)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for i, text in enumerate(texts):
        sets = np.stack([flow.sets for flow in text.flows])  # (R + 1, L + 1, Q, N)
        generator = np.random.default_rng([rng, i])
        for layer in range(1, sets.shape[1]):
            influence = np.stack([text.influence[measure][layer - 1] for measure in measures])
            found = recall_columns(
                influence,
                sets[:-1, layer],
                sets[-1, layer],
                text.rollout[layer - 1],
                n_draws=n_draws,
                rng=generator,
            )
            rule, measure, position = (place.ravel() for place in np.indices(found["recall"].shape))
            places = {"text": np.full_like(rule, i), "layer": np.full_like(rule, layer)}
            places.update(rule=rule, measure=measure, position=position)
            for name in names:
                parts[name].append(places[name] if name in places else found[name].ravel())
    return InfluenceReport(
        model=model,
        rules=rules,
        measures=measures,
        texts=tuple(texts),
        columns={name: np.concatenate(part) for name, part in parts.items()},
        n_draws=n_draws,
        n_bootstrap=n_bootstrap,
        seed=rng,
    )


def recall_columns(
    influence: Floats,
    sets: NDArray[np.bool_],
    candidates: NDArray[np.bool_],
    ranking: Floats,
    *,
    n_draws: int = 200,
    rng: int | np.random.Generator = 0,
) -> dict[str, Floats]:
    """Recalls of all tokens of a text, one entry per token and column.

    Parameters
    ----------
    influence : array (M, Q, N)
        One matrix per measure; not negative.
    sets : array of bool (R, Q, N)
        One family of sets per rule.
    candidates : array of bool (Q, N)
        What can matter; the token itself is taken out here.
    ranking : array (Q, N)
        What rollout says.
    n_draws : int
        Random sets per token and size.
    rng : int or Generator

    Returns
    -------
    dict of arrays (R, M, Q)
        The columns of :data:`COLUMNS`. Recalls are NaN where no candidate has any influence.

    Examples
    --------
    >>> influence = np.array([[[5.0, 3.0, 1.0, 0.0]]])
    >>> inside = np.array([[[True, True, False, False]]])
    >>> rollout = np.array([[0.1, 0.2, 0.3, 0.4]])
    >>> found = recall_columns(influence, inside, np.ones((1, 4), dtype=bool), rollout)
    >>> [float(found[name][0, 0, 0]) for name in ("size", "candidates", "recall", "rollout", "best")]
    [1.0, 3.0, 0.75, 0.0, 0.75]
    >>> float(found["random_expected"][0, 0, 0]) == 1 / 3
    True
    """
    if not 1 <= n_draws <= _MOST_DRAWS:
        raise InvalidInputError(f"n_draws must be from 1 to {_MOST_DRAWS:,}, but was {written(n_draws)}.")
    generator = generator_of(rng)
    n_measures, n_queries, n_keys = influence.shape
    shape = (len(sets), n_measures, n_queries)
    found = {name: np.full(shape, np.nan) for name in COLUMNS}
    for t in range(n_queries):
        others = candidates[t].copy()
        if t < n_keys:
            others[t] = False
        places = np.flatnonzero(others)
        weights = influence[:, t, places]
        total = weights.sum(axis=1)
        own = influence[:, t, t] if t < n_keys else np.zeros(n_measures)
        draws = np.argsort(generator.random((n_draws, len(places))), axis=1)
        by_rollout = np.argsort(-ranking[t, places], kind="stable")
        inside = sets[:, t, places]
        for j in range(n_measures):
            everything = own[j] + total[j]
            found["own_share"][:, j, t] = own[j] / everything if everything > 0 else np.nan
            found["candidates"][:, j, t] = len(places)
            found["size"][:, j, t] = inside.sum(axis=1)
            if not total[j] > 0:
                continue
            shares = weights[j] / total[j]
            random = _filling(shares[draws])  # (draws, k): recall of the first k of each random order
            rolled, best = _filling(shares[by_rollout]), _filling(np.sort(shares)[::-1])
            for i, members in enumerate(inside):
                k = int(members.sum())
                recall, of_draws = float(shares[members].sum()), random[:, k]
                low, high = np.quantile(of_draws, [0.05, 0.95])
                # equal sets may differ by the order of their sums
                same = np.abs(of_draws - recall) <= 1e-12
                beaten = np.mean(np.where(same, 0.5, of_draws < recall))
                row = (recall, k / len(places), of_draws.mean(), low, high, beaten, rolled[k], best[k])
                for name, value in zip(_RECALLS, row, strict=True):
                    found[name][i, j, t] = value
    return found


def _filling(shares: Floats) -> Floats:
    """The recall of the first 0, 1, 2, ... of an order."""
    filled = np.zeros((*shares.shape[:-1], shares.shape[-1] + 1))
    np.cumsum(shares, axis=-1, out=filled[..., 1:])
    return filled
