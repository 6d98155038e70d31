r"""Router flips: which decisions of heads and experts no arithmetic of low precision can change.

A decision is the set of the k keys (or experts) with the largest scores. It *flips* if the set of the
computed scores differs from that of the exact ones. Where the computed scores of two keys tie, an
implementation may take either: that counts as a flip that may happen, and so does an exact tie.

Let :math:`s_{(1)} \ge s_{(2)} \ge \dots` be the exact scores and S the winners. The margin
:math:`s_{(k)} - s_{(k+1)}` is what stands between the decision and its nearest wall. Let
:math:`[l_j, h_j]` enclose everything that the arithmetic can compute for score j
(:mod:`hardmax.models.atlas.score_errors`). The decision cannot flip if the *lead* that is left at least,
:math:`\min_{i \in S} l_i - \max_{j \notin S} h_j`, is above zero. Nothing is estimated: `cannot flip` is
proven for every order of summation, `may flip` says that there is no such proof.

The *bound* says the same in terms of errors. With :math:`e_j = \max(s_j - l_j, h_j - s_j)`, the error of
score j at most, it is the margin minus :math:`\min_{i \in S} (s_i - e_i) - \max_{j \notin S} (s_j + e_j)`:
the error of the two scores that decide, or of others where theirs are so much larger that they come first. A
margin above the bound is a proof. The lead proves a little more, because enclosures also know in which
direction a given number is rounded.

The distance to the nearest wall in the space of inputs is
:math:`\min_{i \in S, j \notin S} (s_i - s_j) / \lvert a_i - a_j\rvert` with the gradients :math:`a_j` of the
scores: rows of the weights of a router, :math:`\sigma k_j` for a captured head (the space of queries),
:math:`\sigma W_Q^T k_j` with the keys held fixed for :class:`ProjectedAttention`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, written
from hardmax.exact.formats import FORMATS, format_of
from hardmax.exact.rationals import fraction
from hardmax.limits import Clock, look
from hardmax.models.atlas.head_measures import key_distances
from hardmax.models.atlas.score_errors import (
    Arithmetic,
    ProjectedAttention,
    Scores,
    finite,
    of_captured,
    of_logits,
    of_projected,
    of_router,
)
from hardmax.models.reading.loading import as_source, read
from hardmax.models.reading.sources import CapturedLayer, chosen
from hardmax.progress import shown
from hardmax.results import Result
from hardmax.temperature.arguments import check_rows, score_table

Floats = NDArray[np.float64]
Progress = Callable[[int, int], object]

_UNIT = 2.0**-53
_DECISION = ("winners", "margin", "rounding", "bound", "lead", "cannot_flip", "distance", "distance_rounding")


@dataclass(frozen=True, eq=False)
class RouterLayer:
    """A router over experts as plain arrays: the scores are ``inputs @ weights.T + bias``.

    Parameters
    ----------
    inputs : (n, d) array
        What the router receives; (B, T, d) will do.
    weights : (E, d) array
        One row per expert.
    bias : (E,) array, optional
    index : int
        The layer, counted from 0.

    Examples
    --------
    >>> RouterLayer([[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], index=3).weights.shape
    (2, 2)
    """

    inputs: Floats
    weights: Floats
    bias: Floats | None = None
    index: int = 0

    def __post_init__(self) -> None:
        x = _plain(self.inputs)
        x, w = finite(x.reshape(-1, x.shape[-1]) if x.ndim == 3 else x, "inputs", 2), _plain(self.weights)
        w = finite(w, "weights", 2)
        if w.shape[1] != x.shape[1]:
            raise DimensionMismatchError(
                f"weights must have one column per coordinate of the inputs ({x.shape[1]}), but have shape "
                f"{w.shape}."
            )
        b = None if self.bias is None else finite(_plain(self.bias), "bias", 1)
        if b is not None and len(b) != len(w):
            raise DimensionMismatchError(
                f"bias must hold {len(w)} numbers, one per expert, but holds {len(b)}."
            )
        for name, value in (("inputs", x), ("weights", w), ("bias", b)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False, repr=False)
class RouterFlips(Result):
    """Decisions, each with the proof that it cannot flip or without one; made by :func:`router_flips`.

    Attributes
    ----------
    model : str
        What was read.
    dtype, accumulate, score_dtype : str
        The formats of inputs, of sums and of scores.
    k : int
        How many keys win.
    layer, head, position : (n,) int32
        Where each decision is taken. Queries that may read at most k keys have none and are left out.
    winners : (n, k) int32
        The winning keys, the best first; among tied ones the lowest index.
    margin : (n,) float64
        The lead of the last winner over the first loser.
    rounding : (n,) float64
        How far rounding in float64 can have moved the margin. Where that would leave the winners open they
        are found in rationals; such a decision may flip.
    bound : (n,) float64
        The error of the margin at most; infinite where the arithmetic may overflow.
    lead : (n,) float64
        The lead that is left of the margin at least; minus infinity where the arithmetic may overflow.
    cannot_flip : (n,) bool
        Whether it is proven that the decision stays: the lead is above zero, and no exact tie decides.
    distance, distance_rounding : (n,) float64
        To the nearest wall, in the space of inputs, and how far rounding can have moved it. Infinite where
        there is no wall, NaN where logits are all that is known.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.models.router_flips([[1.0, 0.999, -3.0], [0.25, 4.0, 4.5]], dtype="bfloat16")
    >>> found.cannot_flip, found.winners[:, 0]
    (array([False,  True]), array([0, 2], dtype=int32))
    >>> found.margin, found.bound, found.lead
    (array([0.001, 0.5  ]), array([0.001, 0.   ]), array([0. , 0.5]))
    """

    kind: ClassVar[str] = "RouterFlips"
    _shapes: ClassVar[dict[str, str]] = {
        "layer": "n",
        "head": "n",
        "position": "n",
        "winners": "n k",
        "margin": "n",
        "rounding": "n",
        "bound": "n",
        "lead": "n",
        "cannot_flip": "n",
        "distance": "n",
        "distance_rounding": "n",
    }

    model: str
    dtype: str
    accumulate: str
    score_dtype: str
    k: int
    layer: NDArray[np.int32]
    head: NDArray[np.int32]
    position: NDArray[np.int32]
    winners: NDArray[np.int32]
    margin: Floats
    rounding: Floats
    bound: Floats
    lead: Floats
    cannot_flip: NDArray[np.bool_]
    distance: Floats
    distance_rounding: Floats

    @property
    def n_decisions(self) -> int:
        """The number of decisions."""
        return len(self.margin)

    @property
    def share(self) -> float:
        """The share of decisions that cannot flip; NaN without any."""
        return float(self.cannot_flip.mean()) if self.n_decisions else float("nan")

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers with decisions."""
        return tuple(np.unique(self.layer).tolist())

    @property
    def layer_shares(self) -> Floats:
        """The share of decisions that cannot flip, layer by layer."""
        return np.array([self.cannot_flip[self.layer == number].mean() for number in self.layers])

    def _summary(self) -> str:
        n = "1 decision" if self.n_decisions == 1 else f"{self.n_decisions:,} decisions"
        top = "" if self.k == 1 else f" of the best {self.k}"
        return f"{n}{top} in {self.dtype}, {int(self.cannot_flip.sum()):,} of them cannot flip"

    def _table(self) -> dict[str, Any]:
        """One row per layer and head."""
        pairs, row = np.unique(np.stack([self.layer, self.head]), axis=1, return_inverse=True)
        row = row.ravel()
        groups = [np.flatnonzero(row == i) for i in range(pairs.shape[1])]
        return {
            "layer": pairs[0],
            "head": pairs[1],
            "decisions": [len(group) for group in groups],
            "cannot_flip": [int(self.cannot_flip[group].sum()) for group in groups],
            "share": [float(self.cannot_flip[group].mean()) for group in groups],
            "margin": [float(np.median(self.margin[group])) for group in groups],
            "bound": [float(np.median(self.bound[group])) for group in groups],
            "distance": [float(np.median(self.distance[group])) for group in groups],
        }


def router_flips(
    layer: Any,
    text: str | None = None,
    *,
    dtype: Any = "bfloat16",
    k: int = 1,
    accumulate: Any = "float32",
    score_dtype: Any = None,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    tokenizer: Any = None,
    hub: bool = False,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> RouterFlips:
    """Which argmax and top-k decisions of heads and routers no arithmetic of a low precision can change.

    Parameters
    ----------
    layer : array, RouterLayer, ProjectedAttention, CapturedLayer, a list of them, or a model
        Router logits (n, E) that are rounded to the format of scores, minus infinity for an absent expert;
        the inputs and weights of a router; attention from the inputs of a layer on, or from captured queries
        and keys on; or anything that :func:`hardmax.head_atlas` reads, with a ``text``.
    text : str, optional
        What a model reads.
    dtype : str or dtype
        ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"float8_e4m3"`` or ``"float8_e5m2"``: to what inputs
        and weights are rounded.
    k : int
        How many keys win.
    accumulate : str or dtype
        In which format products are summed; at least as precise as ``dtype``.
    score_dtype : str or dtype, optional
        In which format scores are kept: by default that of ``dtype``, and ``"bfloat16"`` for the formats of
        eight bits. ``"float32"`` for a router or a fused kernel that never rounds its scores.
    layers, heads : iterables of int, optional
        Which layers of a model, and which heads; all by default.
    tokenizer, hub, time_limit, progress
        As in :func:`hardmax.head_atlas`.

    Returns
    -------
    RouterFlips

    Notes
    -----
    The inputs of the layer are taken as given: what low precision does to the layers before is not part of
    the question. Matrix products that are computed in other ways (Strassen's, or with inputs cut to fewer
    bits, as TF32 does with float32) are not covered.

    Examples
    --------
    A router over eight experts, the best two of which are taken.

    >>> import hardmax as hm
    >>> rng = np.random.default_rng(0)
    >>> router = hm.models.RouterLayer(rng.standard_normal((1000, 64)), rng.standard_normal((8, 64)))
    >>> for dtype in ("float32", "float16", "bfloat16", "float8_e4m3"):
    ...     print(hm.models.router_flips(router, dtype=dtype, k=2))
    <RouterFlips: 1,000 decisions of the best 2 in float32, 1,000 of them cannot flip>
    <RouterFlips: 1,000 decisions of the best 2 in float16, 1,000 of them cannot flip>
    <RouterFlips: 1,000 decisions of the best 2 in bfloat16, 992 of them cannot flip>
    <RouterFlips: 1,000 decisions of the best 2 in float8_e4m3, 954 of them cannot flip>

    All heads of the bundled model.

    >>> hm.models.router_flips(hm.models.bundled_source(), dtype="bfloat16").layer_shares
    array([1., 1.])
    """
    clock = Clock(time_limit, "decide about all heads and routers")
    question = _Question(arithmetic_of(dtype, accumulate, score_dtype), _number(k), heads)
    given = _as_layers(layer)
    if given is not None and (text is not None or layers is not None):
        raise InvalidInputError("text and layers belong to a model, and must be left out for arrays.")
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} layers"), clock) as report:
        question.progress = report
        if given is not None:
            question.n_layers = len(given)
            for one in given:
                question(one)
            return question.result("arrays")
        source = as_source(layer, tokenizer=tokenizer, hub=hub)
        question.layers = chosen(layers, source.n_layers, "layers")
        question.n_layers = len(question.layers)
        question.heads = None if heads is None else chosen(heads, max(source.heads), "heads")
        read(source, text, [question])
        return question.result(source.name)


def arithmetic_of(dtype: Any, accumulate: Any = "float32", score_dtype: Any = None) -> Arithmetic:
    """The formats that were asked for.

    >>> arithmetic_of("e4m3").scores.name
    'bfloat16'
    """
    inputs, sums = format_of(dtype), format_of(accumulate, "accumulate")
    if sums.precision < inputs.precision:
        raise InvalidInputError(
            f"accumulate must be at least as precise as dtype, {inputs.name}, but was {sums.name}."
        )
    kept = FORMATS["bfloat16"] if inputs.precision < 8 else inputs
    return Arithmetic(inputs, sums, kept if score_dtype is None else format_of(score_dtype, "score_dtype"))


class _Question:
    """A recorder: decides about every layer that passes."""

    def __init__(self, arithmetic: Arithmetic, k: int, heads: Iterable[int] | None) -> None:
        self.arithmetic, self.k = arithmetic, k
        self.heads = None if heads is None else tuple(heads)
        self.layers: tuple[int, ...] | None = None
        self.progress: Progress | None = None
        self.n_done = self.n_layers = 0
        self.found: list[dict[str, NDArray[Any]]] = []

    def __call__(self, layer: Any) -> None:
        """Decide about one layer."""
        index = getattr(layer, "index", 0)
        for part in self._parts(layer):
            look()
            decided = decide(part, self.k)
            at = decided.pop("decision")
            for name, value in (("layer", index), ("head", part.head), ("position", part.first + at)):
                decided[name] = np.broadcast_to(np.asarray(value, dtype=np.int32), at.shape)
            self.found.append(decided)
        self.n_done += 1
        if self.progress is not None:
            self.progress(self.n_done, self.n_layers)

    def _parts(self, layer: Any) -> Iterator[Scores]:
        n_keys = _n_keys(layer)
        if self.k >= n_keys:
            raise InvalidInputError(
                f"k must be below the number of keys, {n_keys}, but was {written(self.k)}."
            )
        if isinstance(layer, CapturedLayer):
            return of_captured(layer, self._chosen(layer.heads), self.arithmetic)
        if isinstance(layer, ProjectedAttention):
            return of_projected(layer, self._chosen(len(layer.W_Q)), self.arithmetic)
        if isinstance(layer, RouterLayer):
            return of_router(layer.inputs, layer.weights, layer.bias, self.arithmetic)
        return of_logits(layer, self.arithmetic)

    def _chosen(self, n: int) -> Sequence[int]:
        """The heads of a layer; one of a model may have fewer than others."""
        if self.layers is None:
            return chosen(self.heads, n, "heads")
        return [h for h in range(n) if self.heads is None or h in self.heads]

    def result(self, model: str) -> RouterFlips:
        """What was decided."""
        names = (*_DECISION, "layer", "head", "position")
        columns = {name: np.concatenate([part[name] for part in self.found]) for name in names}
        formats = self.arithmetic
        return RouterFlips(
            model=model,
            dtype=formats.inputs.name,
            accumulate=formats.accumulate.name,
            score_dtype=formats.scores.name,
            k=self.k,
            **columns,
        )


def decide(part: Scores, k: int) -> dict[str, NDArray[Any]]:
    """Winners, margins and proofs of one part; ``decision`` says which rows have a choice."""
    choice = np.flatnonzero(part.present.sum(axis=1) > k)
    present = part.present[choice]
    s, rho = part.exact[choice], np.where(present, part.rounding[choice], 0.0)
    low, high = (np.where(present, end[choice], 0.0) for end in part.computed)
    finite_scores = (np.isfinite(low) & np.isfinite(high) & (np.isfinite(s) | ~present)).all(axis=1)
    order = np.argsort(-s, axis=1, kind="stable")[:, : k + 1]
    won = np.zeros(s.shape, dtype=bool)
    np.put_along_axis(won, order[:, :k], True, axis=1)
    lost = present & ~won
    with np.errstate(invalid="ignore", over="ignore"):
        ends = np.take_along_axis(s, order[:, k - 1 :], axis=1)
        margin = ends[:, 0] - ends[:, 1]
        proven = _least(s - rho, won) > _most(s + rho, lost)
        lead = np.where(finite_scores, _least(low, won) - _most(high, lost), -np.inf)  # its sign is exact
        kept = proven & (lead > 0.0)
        error = np.maximum(np.maximum(s - low, high - s), 0.0) + rho
        bound = margin - (_least(s - error, won) - _most(s + error, lost))
        bound = np.where(finite_scores, np.where(kept, bound, np.maximum(bound, margin)), np.inf)
        rounding = 2.0 * rho.max(axis=1, initial=0.0) + 2.0 * _UNIT * margin
    unknown = np.flatnonzero(~proven & finite_scores)
    if part.rationals is not None and len(unknown):
        exact = part.rationals(choice[unknown])
        for row, i in enumerate(unknown.tolist()):
            scores = {j: exact[row, j] for j in np.flatnonzero(present[i]).tolist()}
            best = sorted(scores, key=lambda j: (-scores[j], j))[: k + 1]
            order[i], lost[i] = best, present[i]
            lost[i, best[:k]] = False
            ahead = scores[best[k - 1]] - scores[best[k]]
            margin[i], rounding[i] = (float(fraction(value)) for value in (ahead, ahead / 2**52))
            lead[i] = low[i, best[:k]].min() - high[i, lost[i]].max()
            kept[i] = ahead > 0 and lead[i] > 0.0
            bound[i] = bound[i] if kept[i] else max(bound[i], margin[i])
    distance, moved = _walls(part, s, rho, order[:, :k], lost)
    return {
        "decision": choice,
        "winners": order[:, :k].astype(np.int32),
        "margin": margin,
        "rounding": rounding,
        "bound": bound,
        "lead": lead,
        "cannot_flip": kept,
        "distance": distance,
        "distance_rounding": moved,
    }


def _least(values: Floats, which: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.where(which, values, np.inf).min(axis=1))


def _most(values: Floats, which: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.where(which, values, -np.inf).max(axis=1))


def _walls(
    part: Scores, s: Floats, rho: Floats, winners: NDArray[np.int64], lost: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Distances to the nearest wall, and what rounding can have done to them.

    The lead of i over j is wrong by the sum of both roundings, the length of a difference of normals by
    their errors and a relative d / 2 + 4 units.
    """
    n = len(s)
    if part.normals is None or part.normal_errors is None:
        nothing = np.full(n, np.nan)
        return nothing, nothing
    nearest, low, high = (np.full(n, np.inf) for _ in range(3))
    relative = (part.normals.shape[1] + 8) * _UNIT
    each = np.arange(n)
    for i in winners.T:
        asked, row = np.unique(i, return_inverse=True)
        between = key_distances(part.normals, asked)
        error = part.normal_errors[asked][:, None] + part.normal_errors + relative * between
        far, off = between[row.ravel()], error[row.ravel()]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            lead, wrong = s[each, i][:, None] - s, rho[each, i][:, None] + rho
            wrong = wrong + 2.0 * _UNIT * np.abs(lead)
            wall = lost & (far > 0.0)
            nearest = np.minimum(nearest, _least(lead / far, wall))
            least = np.where(far > off, np.maximum(lead - wrong, 0.0) / (far + off), 0.0)
            most = np.where(far > off, (lead + wrong) / (far - off), np.inf)
            low, high = np.minimum(low, _least(least, wall)), np.minimum(high, _least(most, wall))
    nearest = np.maximum(nearest, 0.0)
    with np.errstate(invalid="ignore"):
        moved = np.maximum(nearest - low, high - nearest) * (1.0 + 16 * _UNIT)
    return nearest, np.where(np.isfinite(nearest), moved, 0.0)


# Arguments
# ----------------------------------------------------------------------------------------------------------


def _as_layers(layer: Any) -> list[Any] | None:
    """The layers that were given as arrays; None for a model."""
    kinds = (CapturedLayer, ProjectedAttention, RouterLayer)
    if isinstance(layer, kinds):
        return [layer]
    if isinstance(layer, (list, tuple)):
        if layer and all(isinstance(one, kinds) for one in layer):
            return list(layer)
        return [_logits(layer)]
    if isinstance(layer, np.ndarray) or (hasattr(layer, "shape") and hasattr(layer, "__array__")):
        return [_logits(layer)]
    return None


def _plain(values: Any) -> NDArray[Any]:
    """An array of numpy; a tensor of torch in half precision has no other way there than float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values)


def _logits(values: Any) -> Floats:
    array = _plain(values)
    table = score_table(array.reshape(-1, array.shape[-1]) if array.ndim == 3 else array)
    if table.ndim != 2:
        raise DimensionMismatchError(f"logits must have shape (n, E) or (B, T, E), but have {array.shape}.")
    logits = np.asarray(table, dtype=np.float64)
    check_rows(logits, 0)
    return logits


def _n_keys(layer: Any) -> int:
    if isinstance(layer, CapturedLayer):
        return layer.n_keys
    if isinstance(layer, ProjectedAttention):
        return len(layer.inputs)
    return len(layer.weights) if isinstance(layer, RouterLayer) else int(layer.shape[1])


def _number(k: Any) -> int:
    try:
        value = operator.index(k)
    except TypeError:
        value = 0
    if value < 1:
        raise InvalidInputError(f"k must be a whole number of at least 1, but was {k!r}.")
    return value
