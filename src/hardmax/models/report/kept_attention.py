r"""What the page keeps of a model's attention: enough to draw who reads whom, rounded and bounded in size.

Of every query of every head the page holds

* its K strongest keys in the exact order of their scores, each with the square root of its probability in
  one byte: :math:`\lvert \sqrt p - b / 255 \rvert \le 1/510`;
* how many keys each rule reads, counted before anything is rounded, so that argmax, top-k and mass are those
  of :mod:`hardmax.models.influence.routing_flow`;
* its scores against C keys, minus their mean, in one byte, so that the page can draw the head's power diagram
  on the plane through any three queries. Along :math:`q_a + \alpha (q_b - q_a) + \beta (q_c - q_a)` scores
  are the same affine combination of the three rows; nothing else about queries and keys is needed.

K and C are all keys for short texts and fewer for long ones: :data:`KEPT_BYTES` and :data:`SCORE_BYTES` bound
what is kept, whatever the model.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.models.influence.routing_flow import RankedKeys, RoutingRule, ranked_keys
from hardmax.models.reading.sources import CapturedLayer, Source
from hardmax.models.report.svg import CONTROL, shortened

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

PLACES = ("the token itself", "the first token", "the last token", "the token before", "the token after")
"""Where attention may go; a key that is several of these counts for the first."""

STOPS = ("argmax", "top-2", "top-3", "top-5", "top-8", "mass 0.5", "mass 0.7", "mass 0.9")
"""Where the slider of the page stops."""

KEPT_BYTES = 300_000
"""Room for the strongest keys and their probabilities."""

SCORE_BYTES = 225_000
"""Room for scores."""

MOST_ROWS = 37_500
"""Queries times heads, over all layers, beyond which nothing is kept."""

_MARGIN_STEP = 0.1  # temperatures


@dataclass(frozen=True, eq=False)
class KeptAttention:
    """Attention of a model on a text, rounded for the page.

    Heads are numbered through the layers: R in all.

    Attributes
    ----------
    heads : tuple of int
        Heads per layer.
    n_keys : int
    order : int array (R, Q, K)
        The strongest keys of each query, in the order of their scores.
    roots : uint8 array (R, Q, K)
        Square roots of their probabilities, times 255; zero where a key may not be read.
    counts : int array (S, R, Q)
        How many keys each rule of :data:`STOPS` reads; more than K are not kept.
    columns : int array (R, C)
        The keys whose scores are kept: those that win, then those with most probability.
    scores : uint8 array (R, Q, C)
        Scores in temperatures, minus the mean of the row: ``low + step * scores``. Rounding keeps the winner
        of every query first.
    low, step : arrays (R,)
    goes : array (R, 5)
        The mean probability that a head gives to each of :data:`PLACES`, not rounded.
    present : bool array (L, Q, N)
        Which keys a query may read.
    null_keys : int
        How many keys, the last ones, are no tokens.

    Examples
    --------
    >>> from hardmax.models.bundled import bundled_source
    >>> from hardmax.models.reading.loading import read
    >>> source = bundled_source()
    >>> recorder = AttentionRecorder(source)
    >>> _ = read(source, None, [recorder])
    >>> recorder.kept().order.shape
    (4, 16, 15)
    """

    _shapes: ClassVar[dict[str, str]] = {
        "heads": "layers",
        "order": "rows queries kept",
        "roots": "rows queries kept",
        "counts": "rules rows queries",
        "columns": "rows columns",
        "scores": "rows queries columns",
        "low": "rows",
        "step": "rows",
        "goes": "rows 5",
        "present": "layers queries keys",
    }

    heads: tuple[int, ...]
    n_keys: int
    order: NDArray[np.int64]
    roots: Bytes
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]
    scores: Bytes
    low: Floats
    step: Floats
    goes: Floats
    present: NDArray[np.bool_]
    null_keys: int = 0

    @property
    def readable(self) -> NDArray[np.int64]:
        """How many keys a query may read (L, Q)."""
        return np.asarray(self.present.sum(axis=2), dtype=np.int64)

    @property
    def n_kept(self) -> int:
        """The number K of keys that are kept per query."""
        return int(self.order.shape[2])

    @property
    def probabilities(self) -> Floats:
        """The probabilities of the kept keys, as rounded (R, Q, K)."""
        return np.asarray((self.roots / 255.0) ** 2)

    def rows_of(self, layer: int) -> range:
        """The numbers of the heads of a layer."""
        start = sum(self.heads[:layer])
        return range(start, start + self.heads[layer])

    @property
    def keys_for_90(self) -> Floats:
        """How many keys hold 0.9 of the probability of a query, over all that have a choice."""
        some = np.repeat(self.readable > 1, self.heads, axis=0)
        return np.asarray(self.counts[STOPS.index("mass 0.9")][some], dtype=np.float64)

    def cut_short(self, stop: str) -> float:
        """The share of queries for which a rule reads more keys than are kept."""
        return float((self.counts[STOPS.index(stop)] > self.n_kept).mean())

    def for_page(self, margins: Floats) -> dict[str, Any]:
        """What the script of the page reads; ``margins`` (R, Q) are NaN where they are not known."""
        wide = self.n_keys > 255
        tops = [(i, int(RoutingRule.of(stop).top or 0)) for i, stop in enumerate(STOPS) if "mass" not in stop]
        layer_of = np.repeat(np.arange(len(self.heads)), self.heads)
        usual = {i: np.minimum(k, self.readable[layer_of]) for i, k in tops}
        odd = [
            [i, int(r), int(q), int(min(self.counts[i, r, q], self.n_kept))]
            for i in usual
            for r, q in np.argwhere(self.counts[i] != usual[i])  # keys whose scores agree
        ]
        masks = self.present[:1] if (self.present == self.present[0]).all() else self.present
        masses = np.minimum(self.counts[len(tops) :], self.n_kept)
        lead = np.where(np.isnan(margins), 255.0, np.clip(np.round(margins / _MARGIN_STEP), 0, 254))
        return {
            "heads": list(self.heads),
            "nKeys": self.n_keys,
            "nullKeys": self.null_keys,
            "nQueries": int(self.order.shape[1]),
            "kept": self.n_kept,
            "wide": wide,
            "order": _base64(self.order.astype("<u2" if wide else np.uint8)),
            "roots": _base64(self.roots),
            "tops": [k for _, k in tops],
            "stops": list(STOPS),
            "masses": _base64(masses.astype("<u2" if wide else np.uint8)),
            "odd": odd,
            "readable": self.readable.tolist(),
            "present": None if self.present.all() else _base64(np.packbits(masks, bitorder="little")),
            "masks": len(masks),
            "columns": self.columns.tolist(),
            "scores": _base64(self.scores),
            "low": [float(f"{v:.6g}") for v in self.low],
            "step": [float(f"{v:.6g}") for v in self.step],
            "margins": _base64(lead.astype(np.uint8)),
            "marginStep": _MARGIN_STEP,
            "cut": [round(self.cut_short(stop), 4) for stop in STOPS],
        }


def _base64(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


class AttentionRecorder:
    """Keeps the attention of every layer that passes; nothing for a model and text that are too large."""

    layers: tuple[int, ...] | None = None  # routes go through every layer

    def __init__(self, source: Source) -> None:
        self._rows = int(sum(source.heads))
        self._rules = [RoutingRule.of(stop) for stop in STOPS]
        self._heads: list[int] = []
        self._parts: dict[str, list[Any]] = {}
        self._present: list[NDArray[np.bool_]] = []
        self._n_keys = self._null_keys = 0
        self.n_rows = 0

    def __call__(self, layer: CapturedLayer) -> None:
        """Keep one layer."""
        self._n_keys, self.n_rows = layer.n_keys, self._rows * layer.n_queries
        self._null_keys = layer.null_keys
        if self.n_rows > MOST_ROWS:
            return
        per_key = 3 if layer.n_keys > 255 else 2
        n_kept = min(layer.n_keys, max(4, KEPT_BYTES // (per_key * self.n_rows)))
        n_columns = min(layer.n_keys, max(4, SCORE_BYTES // self.n_rows))
        for head in range(layer.heads):
            ranked = ranked_keys(layer, head)
            order = ranked.order[:, :n_kept]
            columns = _columns(ranked, layer.n_keys)[:n_columns]
            codes, low, step = _rounded_scores(layer, head, columns)
            found = {
                "order": order,
                "roots": np.round(255.0 * np.sqrt(ranked.probabilities[:, :n_kept])).astype(np.uint8),
                "counts": np.stack([ranked.read(rule).sum(axis=1) for rule in self._rules]),
                "columns": columns,
                "scores": codes,
                "low": low,
                "step": step,
                "goes": attention_places(layer, head),
            }
            for name, value in found.items():
                self._parts.setdefault(name, []).append(value)
        self._heads.append(layer.heads)
        self._present.append(np.asarray(layer.present, dtype=np.bool_))

    def kept(self) -> KeptAttention | None:
        """What was kept, or None where the model and text are too large."""
        if not self._heads:
            return None
        stacked = {name: np.stack(parts) for name, parts in self._parts.items()}
        stacked["counts"] = np.ascontiguousarray(stacked["counts"].swapaxes(0, 1))
        return KeptAttention(
            heads=tuple(self._heads),
            n_keys=self._n_keys,
            present=np.stack(self._present),
            null_keys=self._null_keys,
            **stacked,
        )


def ends_of(present: NDArray[np.bool_], null_keys: int = 0) -> tuple[int, int]:
    """The first and the last token that some query may read: those of an encoder in cross-attention, no
    padding and no null key.

    >>> ends_of(np.array([[False, True, True, True]]), null_keys=1)
    (1, 2)
    """
    read = np.flatnonzero(present[:, : present.shape[1] - null_keys].any(axis=0))
    return (int(read[0]), int(read[-1])) if read.size else (0, -1)


def attention_places(layer: CapturedLayer, head: int) -> Floats:
    """The mean probability that the queries of a head give to each of :data:`PLACES`; null keys are none.

    >>> x = np.log([[[5, 5, 1e-9], [2, 3, 5], [1e-9, 10, 1e-9]]])
    >>> layer = CapturedLayer.from_arrays(x, np.eye(3)[None], scale=1.0)
    >>> attention_places(layer, 0).round(2)
    array([0.27, 0.07, 0.17, 0.33, 0.17])
    """
    probabilities = layer.probabilities(head)
    reads = probabilities.sum(axis=1) > 0.5
    query, key = np.indices(probabilities.shape)
    first, last = ends_of(layer.present, layer.null_keys)
    places = [key == query, key == first, key == last, key == query - 1, key == query + 1]
    left, found = (first <= key) & (key <= last), []
    for place in places:
        found.append((probabilities * (place & left))[reads].sum() / max(1, reads.sum()))
        left &= ~place
    return np.array(found)


def place_names(first: Iterable[str], last: Iterable[str]) -> list[str]:
    """How :data:`PLACES` are called, with the first and the last token where they are always the same.

    >>> place_names(["[CLS]", "[CLS]"], [".", "[SEP]"])[1:3]
    ['the first token ([CLS])', 'the last token']
    """
    found = list(PLACES)
    for i, words in ((1, set(first)), (2, set(last))):
        word = words.pop() if len(words) == 1 else ""
        if word:
            found[i] += f" ({shortened(word.translate(CONTROL), 12)})"
    return found


def _columns(ranked: RankedKeys, n_keys: int) -> NDArray[np.int64]:
    """The keys of a head: those that win most first, then those with most probability."""
    reads = ranked.may[:, 0]
    wins = np.bincount(ranked.order[reads, 0], minlength=n_keys)
    mass = np.zeros(n_keys)
    np.add.at(mass, ranked.order, ranked.probabilities)
    return np.lexsort((np.arange(n_keys), -mass, -wins))


def _rounded_scores(
    layer: CapturedLayer, head: int, columns: NDArray[np.int64]
) -> tuple[Bytes, np.float64, np.float64]:
    """Scores against some keys, minus their mean, in one byte each; masks are left to the page.

    Rounding may not change who wins: the winner of a query keeps a larger code than every other key that the
    query may read, unless scores agree.
    """
    table = layer.affine_scores(head)[:, columns]
    table = np.where(np.isneginf(table), 0.0, table)
    may = layer.readable(head)[0][:, columns]
    table = table - table.mean(axis=1, keepdims=True)
    low, high = float(table.min()), float(table.max())
    step = max((high - low) / 254.0, 1e-12)
    codes = np.round((table - low) / step).astype(np.int64)
    rows = np.arange(len(codes))
    masked = np.where(may, table, -np.inf)
    winner = masked.argmax(axis=1)
    rivals = may & (table < masked[rows, winner][:, None])
    best = np.where(rivals, codes, -1).max(axis=1)
    codes[rows, winner] = np.where(
        may[rows, winner], np.maximum(codes[rows, winner], best + 1), codes[rows, winner]
    )
    codes = np.minimum(codes, 255)
    codes = np.where(
        rivals & (codes >= codes[rows, winner][:, None]), codes[rows, winner][:, None] - 1, codes
    )
    return codes.astype(np.uint8), np.float64(low), np.float64(step)


def margins_of(kept: KeptAttention, records: Sequence[Any], margins: Floats) -> Floats:
    """The margins of an atlas in the numbering of heads here (R, Q); NaN for heads that it left out."""
    table = np.full(kept.order.shape[:2], np.nan)
    for record, row in zip(records, margins, strict=True):
        table[kept.rows_of(record.layer)[record.head]] = row
    return table
