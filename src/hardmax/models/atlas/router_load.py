r"""The load of experts: who a router sends tokens to, how clearly, and which choices rounding cannot change.

A router of a mixture of experts gives token x the logits :math:`W x`; the k experts with the largest logits
compute. Over the tokens of a text

* the *share* of an expert is the share of tokens that it gets; shares of a layer sum to k, and are k / E each
  where the load is even;
* its *mass* is the mean of the softmax of all logits at it; masses sum to 1;
* the *margin* of a decision is the lead of the last winner over the first loser, and it *cannot flip* where
  :func:`hardmax.models.router_flips` proves so for a low precision.

Numbers over texts are means with Student's t interval over texts, as in a corpus atlas. Routers are found by
what they are: modules with a matrix of weights and ``top_k``, as all families of transformers have them. What
follows from their inputs and weights is compared with what the router itself computes and chooses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import FidelityError, InvalidInputError
from hardmax.limits import Clock
from hardmax.models.atlas.router_flips import RouterLayer, router_flips
from hardmax.models.reading.captured import array
from hardmax.models.reading.loading import OpenModel, open_model
from hardmax.models.reading.sources import required, softmax
from hardmax.models.reading.text_runs import Measured, model_question, over_texts
from hardmax.models.reading.texts import checked_texts
from hardmax.models.spread import MeanIntervals, mean_intervals
from hardmax.networks.block import many
from hardmax.progress import shown
from hardmax.results import Result, pictures

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LIMIT = 1e-4  # differences of logits, over the largest, that are not rounding


@dataclass(frozen=True, eq=False, repr=False)
class RouterLoad(Result):
    """The load of every expert of a model, over texts.

    Attributes
    ----------
    model, family : str
    names : tuple of str
        The texts, in order.
    n_tokens : array of int (texts,)
    layer : array of int (R,)
        The layer of each router, counted from 0.
    k : array of int (R,)
        How many experts each token gets.
    share : array (texts, R, E)
        The share of tokens that an expert gets.
    mass : array (texts, R, E)
        The mean probability of an expert.
    margin : array (texts, R)
        The median lead of the last winner over the first loser.
    cannot_flip : array (texts, R)
        The share of decisions that no arithmetic in ``dtype`` can change.
    dtype : str
    confidence : float
        Of the intervals over texts.
    seconds : float

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.models.router_load("./mixtral", ["One text.", "Another."])        # doctest: +SKIP
    >>> found.interval("share").mean.shape                                           # doctest: +SKIP
    (32, 8)
    """

    kind: ClassVar[str] = "RouterLoad"
    _shapes: ClassVar[dict[str, str]] = {
        "names": "texts",
        "n_tokens": "texts",
        "layer": "R",
        "k": "R",
        "share": "texts R E",
        "mass": "texts R E",
        "margin": "texts R",
        "cannot_flip": "texts R",
    }

    model: str
    family: str
    names: tuple[str, ...]
    n_tokens: Integers
    layer: Integers
    k: Integers
    share: Floats
    mass: Floats
    margin: Floats
    cannot_flip: Floats
    dtype: str
    confidence: float
    seconds: float

    def __post_init__(self) -> None:
        self._freeze()

    @property
    def n_experts(self) -> int:
        """The number of experts of a layer."""
        return int(self.share.shape[2])

    def interval(self, what: str) -> MeanIntervals:
        """Means over texts with t intervals, cut at 0 and 1 for shares: ``share`` and ``mass`` (R, E),
        ``margin`` and ``cannot_flip`` (R,)."""
        if what not in ("share", "mass", "margin", "cannot_flip"):
            raise InvalidInputError(f"what must be share, mass, margin or cannot_flip, but was {what!r}.")
        found = mean_intervals(getattr(self, what), confidence=self.confidence)
        return found.cut(np.inf if what == "margin" else 1.0)

    @property
    def relative_load(self) -> Floats:
        """The mean share of each expert over its even share k / E: (R, E); 1 everywhere for an even load."""
        return np.asarray(self.interval("share").mean / (self.k[:, None] / self.n_experts))

    @property
    def idle(self) -> tuple[tuple[int, int], ...]:
        """Experts (layer, expert) that no token of any text was sent to."""
        places = np.argwhere((self.share == 0).all(axis=0))
        return tuple((int(self.layer[r]), int(e)) for r, e in places)

    def plot(self, *, ax: Any = None, box: Any = None) -> Any:
        """Draw the load of every expert over its even share, with intervals (needs the extra ``plot``)."""
        if box is not None:
            raise InvalidInputError("box belongs to pictures of the plane; a load is drawn whole.")
        return pictures("corpora").draw_router_load(self, ax=ax)

    def _summary(self) -> str:
        load = self.relative_load
        most = np.unravel_index(int(load.argmax()), load.shape)
        idle = f", {many(len(self.idle), 'expert')} without a token" if self.idle else ""
        return (
            f"{self.model}, {many(len(self.layer), 'router')} of {self.n_experts} experts on "
            f"{many(len(self.names), 'text')}; largest load {load[most]:.2g} times the even one (layer "
            f"{self.layer[most[0]]}, expert {most[1]}){idle}"
        )

    def _table(self) -> dict[str, Any]:
        """One row per router and expert."""
        r, e = (place.ravel() for place in np.indices(self.share.shape[1:]))
        table: dict[str, Any] = {"layer": self.layer[r], "expert": e, "k": self.k[r]}
        for name in ("share", "mass"):
            found = self.interval(name)
            for words, part in ((name, found.mean), (f"{name}_low", found.low), (f"{name}_high", found.high)):
                table[words] = part[r, e]
        table["relative_load"] = self.relative_load[r, e]
        for name in ("margin", "cannot_flip"):
            table[name] = self.interval(name).mean[r]
        return table


def router_load(
    model: Any,
    texts: Any,
    *,
    dtype: str = "bfloat16",
    tokenizer: Any = None,
    hub: bool = False,
    confidence: float = 0.95,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: Any = None,
) -> RouterLoad:
    """How the routers of a mixture of experts spread tokens over experts, on one text or on many.

    Parameters
    ----------
    model : path, hub id or torch module
        A Hugging Face model of a family with experts (mixtral, qwen2_moe, qwen3_moe, olmoe, phimoe,
        granitemoe, gpt_oss).
    texts : str, or many of them
        As in :func:`hardmax.head_atlas`.
    dtype : str
        For which precision decisions are proven not to flip (:func:`hardmax.models.router_flips`).
    tokenizer, hub, confidence, checkpoint, time_limit, progress
        As in :func:`hardmax.head_atlas` for many texts.

    Returns
    -------
    RouterLoad

    Raises
    ------
    InvalidInputError
        When the model has no routers.
    FidelityError
        When a router chooses otherwise than its inputs and weights say.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.models.router_load("./mixtral", hm.models.read_texts("lines.txt"))   # doctest: +SKIP
    >>> found.plot().figure.savefig("load.svg")                                         # doctest: +SKIP
    """
    clock = Clock(time_limit, "read the routers on all texts")
    named = checked_texts(texts)
    mean_intervals(np.zeros((2, 1)), confidence=confidence)  # a wrong confidence is said before any reading
    opened = open_model(model, tokenizer=tokenizer, hub=hub)
    modules = routers_of(opened)
    started = time.perf_counter()

    def measure(text: Any) -> Measured:
        rows = [_measured(layer, k, dtype) for layer, k in router_layers(opened, text)]
        found: Measured = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        return {**found, "n_tokens": int(opened.encode(text)["input_ids"].shape[1])}

    question = {"what": "router load", **model_question(opened), "dtype": dtype}
    with shown(progress, lambda done, total: (done / total, f"{done} of {total} texts"), clock) as report:
        run = over_texts(named, measure, question=question, checkpoint=checkpoint, progress=report)
        found = list(run)
    return RouterLoad(
        model=opened.name,
        family=opened.family,
        names=tuple(named),
        n_tokens=np.array([one["n_tokens"] for one in found], dtype=np.int64),
        layer=np.array([layer for layer, _ in modules], dtype=np.int64),
        k=np.array([int(module.top_k) for _, module in modules], dtype=np.int64),
        share=np.stack([one["share"] for one in found]),
        mass=np.stack([one["mass"] for one in found]),
        margin=np.stack([one["margin"] for one in found]),
        cannot_flip=np.stack([one["cannot_flip"] for one in found]),
        dtype=str(dtype),
        confidence=float(confidence),
        seconds=time.perf_counter() - started,
    )


def routers_of(opened: OpenModel) -> list[tuple[int, Any]]:
    """The routers of a model, each with the number of its layer."""
    found = []
    for name, module in opened.module.base_model.named_modules():
        weight = getattr(module, "weight", None)
        numbers = [int(part) for part in name.split(".") if part.isdigit()]
        if weight is not None and getattr(weight, "ndim", 0) == 2 and hasattr(module, "top_k") and numbers:
            found.append((numbers[0], module))
    if not found:
        raise InvalidInputError(
            f"model must have routers over experts, but {opened.name} ({opened.family}) has none; for heads "
            "try hardmax.head_atlas and hardmax.models.router_flips."
        )
    sizes = {len(module.weight) for _, module in found}
    if len(sizes) > 1:
        raise InvalidInputError(
            f"model must have as many experts in every layer, but {opened.name} has {sorted(sizes)}."
        )
    return found


def router_layers(opened: OpenModel, text: str) -> list[tuple[RouterLayer, int]]:
    """Every router with what it receives on a text, and its k; compared with what it computes itself."""
    torch = required("torch")
    modules = routers_of(opened)
    seen: dict[Any, tuple[Any, Any]] = {}
    with torch.no_grad(), _watching([module for _, module in modules], seen):
        opened.run(**opened.encode(text))
    layers = []
    for index, module in modules:
        x, (logits, chosen) = seen[module]
        bias = getattr(module, "bias", None)
        layer = RouterLayer(x, array(module.weight), None if bias is None else array(bias), index=index)
        _compare(layer, int(module.top_k), array(logits), array(chosen), opened.name)
        layers.append((layer, int(module.top_k)))
    return layers


@contextmanager
def _watching(modules: list[Any], seen: dict[Any, tuple[Any, Any]]) -> Iterator[None]:
    """Note what each router receives, its logits and its choice, while a text passes."""

    def note(module: Any, args: tuple[Any, ...], output: Any) -> None:
        if not (isinstance(output, tuple) and len(output) == 3):
            raise InvalidInputError(
                f"a router must return logits, weights and choices, but {type(module).__name__} does not."
            )
        seen[module] = array(args[0].detach().float().reshape(-1, args[0].shape[-1])), (output[0], output[2])

    handles = [module.register_forward_hook(note) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _scores(layer: RouterLayer) -> Floats:
    scores = layer.inputs @ layer.weights.T
    return np.asarray(scores if layer.bias is None else scores + layer.bias)


def _compare(layer: RouterLayer, k: int, logits: NDArray[Any], chosen: NDArray[Any], name: str) -> None:
    """Inputs times weights must be the logits of the router, and the largest of them its choice."""
    scores = _scores(layer)
    off = float(np.abs(scores - logits.reshape(scores.shape)).max()) / max(1.0, float(np.abs(scores).max()))
    ranked = np.sort(scores, axis=1)[:, ::-1]
    lead = ranked[:, k - 1] - ranked[:, min(k, scores.shape[1] - 1)]
    clear = lead > 2 * _LIMIT * max(1.0, float(np.abs(scores).max()))
    ours = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :k], axis=1)
    same = (ours == np.sort(chosen.reshape(len(scores), -1), axis=1)).all(axis=1)
    if off > _LIMIT or not same[clear].all():
        raise FidelityError(
            f"the router of layer {layer.index} of {name} must choose the largest of inputs times weights, "
            f"but its logits are {off:.2g} away and {int((~same & clear).sum())} choices differ."
        )


def _measured(layer: RouterLayer, k: int, dtype: str) -> dict[str, Any]:
    """Share, mass, margin and flips of one router on one text."""
    scores = _scores(layer)
    n, experts = scores.shape
    if k >= experts:
        raise InvalidInputError(f"k must be below the number of experts, {experts}, but is {k}.")
    flips = router_flips(layer, dtype=dtype, k=k)
    return {
        "share": np.bincount(flips.winners.ravel(), minlength=experts) / n,
        "mass": softmax(scores).mean(axis=0),
        "margin": float(np.median(flips.margin)),
        "cannot_flip": flips.share,
    }
