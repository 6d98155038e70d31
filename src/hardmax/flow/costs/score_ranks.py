"""The head width that the scores of a plan need, beside the width that the architecture gives them.

A head scores by inner products of vectors of length n_l, and adding a function of the query changes no
winner; so it can produce a score A(x, y) exactly only if A(x, y) - r(x) has rank at most n_l for some r. P2
names this as a limitation: its cost law does not ask for the rank. It is reported here, and no cost is made
of it. A score may also be replaced by another one with the same winners, of lower rank; whether one exists is
not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.flow.head_scores import score_name
from hardmax.flow.information_flow import InformationFlow
from hardmax.flow.plans import MaxPosition, is_forgotten
from hardmax.flow.propagation import Propagation
from hardmax.flow.routing import find_winners, states_of
from hardmax.flow.slots import Group
from hardmax.results import Result

__all__ = ["ScoreRanks", "score_ranks"]

_POOL = 96  # queries and keys of which a score matrix is made
_RELATIVE = 1e-9  # singular values below this share of the greatest count as zero


@dataclass(frozen=True, eq=False, repr=False)
class ScoreRanks(Result):
    """Per head: the rank of its score and the width n_l of the head.

    Attributes
    ----------
    rows : tuple of dict
        ``layer``, ``token`` (a class), ``head`` (from 1), ``score``, ``rank``, ``how`` ("declared" by the
        score, or "measured": the rank of a matrix of sampled scores, up to a relative 1e-9 of its singular
        values, a lower bound), ``head_width``, and ``enough``, which is ``None`` where the rank is unknown.
    """

    kind: ClassVar[str] = "ScoreRanks"

    rows: tuple[dict[str, Any], ...]

    @property
    def enough(self) -> bool | None:
        """Whether every head is wide enough for its score; ``None`` if no head is too narrow but not all
        ranks are known."""
        verdicts = [row["enough"] for row in self.rows]
        return False if False in verdicts else None if None in verdicts else True

    def _state(self) -> dict[str, Any]:
        return {"rows": [dict(row) for row in self.rows]}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(tuple(state["rows"]))

    def _summary(self) -> str:
        narrow = sum(row["enough"] is False for row in self.rows)
        heads = "1 score" if len(self.rows) == 1 else f"{len(self.rows)} scores"
        unknown = sum(row["enough"] is None for row in self.rows)
        rest = f", {unknown} unknown" if unknown else ""
        return f"{heads}, {narrow} of larger rank than their head is wide{rest}"

    def _table(self) -> Mapping[str, Any]:
        names = ("layer", "token", "head", "score", "rank", "how", "head_width", "enough")
        return {name: [row[name] for row in self.rows] for name in names}


def score_ranks(flow: InformationFlow, *, n_inputs: int = 32) -> ScoreRanks:
    """The rank of every score of a plan against the width of its head.

    Parameters
    ----------
    flow : InformationFlow
        Scores that do not declare a rank are evaluated between the queries and keys of its first inputs.
    n_inputs : int
        How many inputs.

    Examples
    --------
    >>> import hardmax as hm
    >>> import numpy as np
    >>> distance = hm.MaxPosition(lambda q, k: -((q - k.swapaxes(1, 2)) ** 2).sum(-1))
    >>> plan = hm.Plan([{"tokens": [distance]}, {}])
    >>> X = np.random.default_rng(0).normal(size=(8, 16, 2))
    >>> ranks = score_ranks(hm.information_sets(hm.Architecture(16, 2, (1, 1), 2), plan, X))
    >>> ranks.rows[0]["rank"], ranks.rows[0]["head_width"]
    (3, 2)
    >>> ranks
    <ScoreRanks: 1 score, 1 of larger rank than their head is wide>
    """
    if n_inputs < 1:
        raise InvalidInputError(f"n_inputs must be at least 1, but was {n_inputs}.")
    shape, layout = flow.architecture, flow._layout()
    X = flow.X[:n_inputs]
    spread = Propagation(layout, len(X))
    rows: list[dict[str, Any]] = []
    for layer in range(1, shape.depth + 1):
        groups = [*(layout.tokens[layer - 1] if layer < shape.depth else ()), layout.cls[layer - 1]]
        for group in groups:
            for head, rule in enumerate(group.rules):
                if isinstance(rule, MaxPosition):
                    rank, how = rule.rank, "declared"
                    if rank is None and not is_forgotten(rule):
                        rank, how = _measured(spread, layer, group, rule, X), "measured"
                    width = shape.head_width(layer)
                    rows.append(
                        {
                            "layer": layer,
                            "token": _class_name(group, shape.n_tokens),
                            "head": head + 1,
                            "score": score_name(rule.score),
                            "rank": rank,
                            "how": "unknown" if rank is None else how,
                            "head_width": width,
                            "enough": None if rank is None else rank <= width,
                        }
                    )
        if layer < shape.depth:
            find_winners(spread, layer, X, flow.plan.ties)
    return ScoreRanks(tuple(rows))


def _measured(
    spread: Propagation, layer: int, group: Group, rule: MaxPosition, X: NDArray[np.float64]
) -> int | None:
    """The rank of a matrix of scores, less what depends on the query only."""
    queries, keys = states_of(spread, layer, group, rule, X)
    pools = []
    for states in (queries, keys):
        pool = states.reshape(1, states.shape[0] * states.shape[1], *states.shape[2:])
        if not states.shape[2]:  # an empty token is one query, however often it occurs
            pool = pool[:, :1]
        chosen = np.linspace(0, pool.shape[1] - 1, min(_POOL, pool.shape[1])).round().astype(int)
        pools.append(pool[:, np.unique(chosen)])
    scores = np.asarray(rule.score(pools[0], pools[1]), dtype=np.float64)
    if scores.shape != (1, pools[0].shape[1], pools[1].shape[1]) or not np.isfinite(scores).all():
        return None
    centred = scores[0] - scores[0].mean(axis=1, keepdims=True)
    values = np.linalg.svd(centred, compute_uv=False)
    return int((values > _RELATIVE * max(values[0], np.abs(scores).max())).sum())


def _class_name(group: Group, n_tokens: int) -> str:
    if group.rows[0] == n_tokens:
        return "CLS"
    if group.everyone:
        return "tokens"
    names = [f"x{t + 1}" for t in group.rows.tolist()]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:4])}, ... ({len(names)} tokens)"
