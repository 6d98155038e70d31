r"""How often what P1 assumes is true of a trained model on real texts.

P1 counts cells and bounds errors under assumptions that a trained head may or may not meet:

* **one winner**: no two keys share the largest score of a query;
* **hardness**: the margin is large against the temperature, so that the corrected bound of Theorem VI.1
  (:mod:`hardmax.temperature`) guarantees softmax within 1 % or 10 % of hardmax in total variation; how many
  queries really are that close stands beside it;
* **every key can win**: each key is a vertex of the hull of all keys, decided with a proof
  (:func:`hardmax.attention_diagram`); the bounds count one cell per key;
* **general position**, as far as it can be decided cheaply: no key is a copy of another, and the keys span as
  much as they can, an affine space of dimension min(N - 1, d_head);
* **N against d_head**: with N at most d_head + 1 keys that span, every key is a vertex whatever the training
  did, so that "every key can win" says nothing about the model; beyond it, it does.

That norms are frozen is measured in :mod:`hardmax.models.atlas.frozen_norms`. That keys stay where they are
while the query moves, and that units are ReLU, are not assumptions one can measure: the first is how the
space is conditioned, the second is a matter of the architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.geometry.diagrams.power_diagrams import attention_diagram
from hardmax.limits import Clock, look
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import CapturedLayer, named_texts
from hardmax.models.spread import Spread, spread
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result
from hardmax.temperature.observed_scores import check_stability


class AssumptionRecorder:
    """Keeps what the assumptions need as layers pass.

    Parameters
    ----------
    reachable : bool
        Whether to decide which keys can win.
    """

    layers: tuple[int, ...] | None = None

    def __init__(self, *, reachable: bool = True) -> None:
        self.reachable = reachable
        self.text = 0
        self.queries: dict[str, list[NDArray[Any]]] = {}
        self.heads: dict[str, list[float]] = {}

    def __call__(self, layer: CapturedLayer) -> None:
        """Measure every head of a layer."""
        asking = layer.present.any(axis=1)
        for head in range(layer.heads):
            look()
            found = check_stability(layer.scores(head)[asking], 1.0)
            keys = layer.keys_of(head)[layer.are_read]
            place = {"text": self.text, "layer": layer.index, "head": head}
            choice = found.n_keys > 1
            columns = {
                "margin": found.margin[choice],
                "distance": found.total_variation[choice],
                "guaranteed": found.total_variation_bound[choice],
                **{name: np.full(int(choice.sum()), value) for name, value in place.items()},
            }
            for name, column in columns.items():
                self.queries.setdefault(name, []).append(column)
            for name, value in {**place, **self._of_keys(layer, keys)}.items():
                self.heads.setdefault(name, []).append(value)

    def _of_keys(self, layer: CapturedLayer, keys: NDArray[np.float64]) -> dict[str, float]:
        n, d = keys.shape
        distinct = np.unique(keys, axis=0)
        spanned = int(np.linalg.matrix_rank(distinct - distinct.mean(axis=0))) if n > 1 else 0
        can_win = np.nan
        if self.reachable and layer.bias is None:
            can_win = float(attention_diagram(keys).nonempty.sum())
        return {
            "n_keys": n,
            "d_head": d,
            "copies": n - len(distinct),
            "spans": float(spanned == min(n - 1, d)),
            "can_win": can_win,
        }


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionReport(Result):
    """Margins of all queries and facts about the keys of all heads, on some texts.

    Attributes
    ----------
    model : str
    texts : tuple of str
        Their names.
    queries : dict of arrays
        One row per query that has a choice: ``text``, ``layer``, ``head`` (from 0), ``margin`` in units of
        temperature, ``distance`` to hardmax in total variation, and what the margin guarantees for it.
    heads : dict of arrays
        One row per text, layer and head: ``n_keys``, ``d_head``, ``copies`` of other keys, ``spans`` (1 where
        the keys span what they can), ``can_win`` (keys whose cell has interior, proven; NaN where not asked).
        With a mask this is about all keys of the text together.
    seed : int

    Examples
    --------
    >>> recorder = AssumptionRecorder()
    >>> eye = np.eye(3)
    >>> recorder(CapturedLayer(0, eye, 8 * eye[None], eye[None], eye[None], np.ones((3, 3), dtype=bool), 1.0))
    >>> report = assumption_report("toy", ("a text",), recorder)
    >>> report
    <AssumptionReport: toy, 1 text, 1 head, median margin 8 temperatures, 100% of queries within 1% of ...>
    >>> report.heads["can_win"]
    array([3.])
    """

    kind: ClassVar[str] = "AssumptionReport"

    model: str
    texts: tuple[str, ...]
    queries: dict[str, NDArray[Any]]
    heads: dict[str, NDArray[Any]]
    seed: int = 0

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        return int(self.heads["layer"].max()) + 1

    def margins(self, layer: int | None = None) -> Spread:
        """Margins in units of temperature, over the queries of a layer, or of all."""
        rows = _rows(self.queries, layer)
        return spread(self.queries["margin"][rows], self.queries["text"][rows], rng=self.seed)

    def share_hard(self, tolerance: float, *, layer: int | None = None, guaranteed: bool = False) -> Spread:
        """The share of queries within ``tolerance`` of hardmax, or for which the bound guarantees it.

        One value per text: median, quartiles and interval are over texts.
        """
        rows = _rows(self.queries, layer)
        return _per_text(self._close(tolerance, guaranteed)[rows], self.queries["text"][rows], self.seed)

    def _close(self, tolerance: float, guaranteed: bool) -> NDArray[np.bool_]:
        return np.asarray(self.queries["guaranteed" if guaranteed else "distance"] <= tolerance)

    def share_tied(self) -> float:
        """The share of queries whose largest score is shared."""
        return float((self.queries["margin"] == 0.0).mean())

    def share_hard_heads(
        self, tolerance: float, *, of_queries: float = 0.5, layer: int | None = None, guaranteed: bool = False
    ) -> Spread:
        """The share of heads of which at least ``of_queries`` of the queries of a text are within
        ``tolerance`` of hardmax; over texts."""
        rows = _rows(self.queries, layer)
        close = self._close(tolerance, guaranteed)[rows]
        place = np.stack([self.queries[name][rows] for name in ("text", "layer", "head")])
        heads, inverse, counts = np.unique(place, axis=1, return_inverse=True, return_counts=True)
        shares = np.bincount(inverse.ravel(), weights=close) / counts
        return _per_text(shares >= of_queries, heads[0], self.seed)

    def share_all_win(self) -> Spread:
        """The share of heads all of whose keys can win; over texts."""
        return _per_text(self.heads["can_win"] == self.heads["n_keys"], self.heads["text"], self.seed)

    def _summary(self) -> str:
        n = len(set(zip(self.heads["layer"], self.heads["head"], strict=True)))
        hard = float(self._close(0.01, False).mean())
        return (
            f"{self.model}, {many(len(self.texts), 'text')}, {many(n, 'head')}, median margin "
            f"{np.median(self.queries['margin']):.3g} temperatures, {hard:.0%} of queries within 1% of "
            "hardmax"
        )

    def _table(self) -> dict[str, Any]:
        return self.heads


def _rows(columns: dict[str, NDArray[Any]], layer: int | None) -> NDArray[np.bool_]:
    if layer is None:
        return np.ones(len(columns["layer"]), dtype=bool)
    rows = np.asarray(columns["layer"] == layer)
    if not rows.any():
        raise InvalidInputError(f"layer must be one that was measured, but was {layer}.")
    return rows


def _per_text(flags: NDArray[np.bool_], texts: NDArray[Any], seed: int) -> Spread:
    names = np.unique(texts)
    shares = np.array([flags[texts == name].mean() for name in names])
    return spread(shares, names, rng=seed)


def assumption_report(
    model: str, texts: tuple[str, ...], recorder: AssumptionRecorder, *, rng: int = 0
) -> AssumptionReport:
    """What a recorder kept, as a result."""
    return AssumptionReport(
        model=model,
        texts=texts,
        queries={name: np.concatenate(parts) for name, parts in recorder.queries.items()},
        heads={name: np.array(column) for name, column in recorder.heads.items()},
        seed=rng,
    )


def check_assumptions(
    model: Any,
    texts: str | Sequence[str] | Mapping[str, str | None] | None = None,
    *,
    reachable: bool = True,
    tokenizer: Any = None,
    hub: bool = False,
    rng: int = 0,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
) -> AssumptionReport:
    """How often the assumptions of P1 hold in a model, on one text or several.

    Parameters
    ----------
    model : Source, path, hub id or torch module
    texts : str, sequence of str, or dict from names to texts
        None for a source that has a sequence of its own.
    reachable : bool
        Whether to decide which keys can win.
    tokenizer, hub
        As in :func:`hardmax.head_atlas`.
    rng : int
        Of the bootstrap.
    time_limit : float, optional
        Seconds after which it is given up, looked at between passes of the model, heads and keys.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with the number of texts read and their
        total.

    Returns
    -------
    AssumptionReport

    Examples
    --------
    >>> from hardmax.models.bundled import bundled_source
    >>> check_assumptions(bundled_source())
    <AssumptionReport: pairwise-2, 1 text, 4 heads, median margin ... temperatures, ... within 1% of hardmax>
    """
    clock = Clock(time_limit, "check all texts")
    named = named_texts(texts)
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} texts"), clock) as report:
        source = as_source(model, tokenizer=tokenizer, hub=hub)
        recorder = AssumptionRecorder(reachable=reachable)
        for i, text in enumerate(named.values()):
            recorder.text = i
            read(source, text, [recorder])
            if report is not None:
                report(i + 1, len(named))
    return assumption_report(source.name, tuple(named), recorder, rng=rng)
