r"""What a token of a real model can know if its heads fetch only what they look at (P2 section 5).

P2 tracks information by arg-max positions: after layer l token t holds

.. math:: I(t, l) = I(t, l - 1) \cup \bigcup_h \bigcup_{s \in R_h(t)} I(s, l - 1), \qquad I(t, 0) = \{t\},

with :math:`R_h(t)` the keys that head h reads for t. In P2 that is the winner alone. Real heads spread their
weight, so two declared relaxations stand beside it:

* ``argmax``: the winning key, all of them where scores agree exactly;
* ``top-3``: the keys that fewer than three others beat;
* ``mass 0.9``: from the largest probability down, the keys that are needed to hold 0.9 of it;
* ``readable``: every key that the mask lets through: what no routing can exceed.

A null key (a learned score that belongs to no token) may be among those that a rule counts, but nothing is
fetched from it. Feed-forward layers and norms act on one token at a time and move nothing; the residual
stream keeps what a token has. Sets say what *could* arrive under a rule. What does arrive is measured in
:mod:`hardmax.models.influence.interventions`.

Attention rollout is a common guess at the same thing, to compare with. Attention of a layer, averaged over
its heads and mixed with the residual stream by halves, is taken for a random walk, and the walk is followed
through the layers:

.. math:: R_l = \bigl(\tfrac12 I + \tfrac12 \bar P_l\bigr) R_{l-1}, \qquad R_0 = I,
          \qquad \bar P_l = \tfrac1H \sum_h P_{lh}.

It knows neither values nor norms nor feed-forward layers (Abnar and Zuidema, 2020). Row t of :math:`R_l` sums
to one and ranks the input positions for token t.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow import bitsets
from hardmax.flow.bitsets import Words
from hardmax.limits import Clock
from hardmax.models.reading.loading import read
from hardmax.models.reading.sources import CapturedLayer, TextReading, softmax
from hardmax.progress import watched
from hardmax.results import Result, pictures

Floats = NDArray[np.float64]

_RULE = re.compile(r"(?:(argmax)|(readable)|top[- ]?(\d+)|mass[- ]?(\d*\.?\d+(?:e-?\d+)?))")


@dataclass(frozen=True)
class RoutingRule:
    """Which keys a head reads for a query.

    Attributes
    ----------
    top : int or None
        A key is read when fewer than this many keys have a larger score.
    mass : float or None
        A key is read when the keys with larger scores hold less than this probability together.

    Without either, every key that the mask lets through is read. Keys whose scores agree are read together or
    not at all.
    """

    top: int | None = None
    mass: float | None = None

    @classmethod
    def of(cls, text: str | RoutingRule) -> RoutingRule:
        """The rule that a text names: ``argmax``, ``top-K``, ``mass M`` or ``readable``.

        Examples
        --------
        >>> RoutingRule.of("top-3"), str(RoutingRule.of("mass 0.9"))
        (RoutingRule(top=3, mass=None), 'mass 0.9')
        """
        if isinstance(text, RoutingRule):
            return text
        found = _RULE.fullmatch(str(text).strip())
        if found is None:
            raise InvalidInputError(
                f"rule must be argmax, top-K, mass M or readable, but was {text!r}; try 'top-3'."
            )
        top = 1 if found[1] else int(found[3]) if found[3] else None
        mass = float(found[4]) if found[4] else None
        if top == 0:
            raise InvalidInputError("rule top-K must have K at least 1, but K was 0.")
        if mass is not None and not 0.0 < mass < 1.0:
            raise InvalidInputError(f"rule mass M must have M above 0 and below 1, but M was {mass:g}.")
        return cls(top, mass)

    def __str__(self) -> str:
        if self.mass is not None:
            return f"mass {self.mass:g}"
        return "readable" if self.top is None else "argmax" if self.top == 1 else f"top-{self.top}"


@dataclass(frozen=True, eq=False)
class RankedKeys:
    """The keys of one head in the falling order of their scores, query by query (:func:`ranked_keys`)."""

    order: NDArray[np.int64]  # (Q, N): keys, the largest score first
    first: NDArray[np.int64]  # (Q, N): how many keys have a strictly larger score
    may: NDArray[np.bool_]  # (Q, N): whether the mask lets the key through
    probabilities: Floats  # (Q, N): falling

    def read(self, rule: RoutingRule) -> NDArray[np.bool_]:
        """Which places of the order are read: always the first ones."""
        if rule.mass is not None:
            return self.may & (_mass_before(self.probabilities, self.first) < rule.mass)
        return self.may if rule.top is None else self.may & (self.first < rule.top)

    @property
    def n_ties(self) -> int:
        """Queries whose largest score is shared by several keys."""
        return int(np.count_nonzero(self.may[:, 1:2] & (self.first[:, 1:2] == 0)))


def ranked_keys(layer: CapturedLayer, head: int) -> RankedKeys:
    """The keys of a head, ranked for every query; keys whose scores agree share a place.

    Examples
    --------
    >>> eye = np.eye(3)[None]
    >>> layer = CapturedLayer(0, eye[0], eye, eye, eye, np.ones((3, 3), dtype=bool), 1.0)
    >>> ranked = ranked_keys(layer, 0)
    >>> ranked.order[1].tolist(), ranked.first[1].tolist()
    ([1, 0, 2], [0, 1, 1])
    >>> ranked.read(RoutingRule.of("top-2"))[1].tolist()
    [True, True, True]
    """
    scores = layer.scores(head, capped=False)
    rows = np.arange(len(scores))[:, None]
    order = np.argsort(-scores, axis=1, kind="stable")
    falling = scores[rows, order]
    # the place of a key counts only keys with strictly larger scores, so that equal keys share one
    first = np.zeros(scores.shape, dtype=np.int64)
    first[:, 1:] = np.where(falling[:, 1:] < falling[:, :-1], np.arange(1, scores.shape[1]), 0)
    first = np.maximum.accumulate(first, axis=1)
    may = falling > -np.inf
    return RankedKeys(order, first, may, softmax(np.where(may, layer.capped(falling), -np.inf)))


def fetched_keys(
    layer: CapturedLayer, rules: Sequence[RoutingRule]
) -> tuple[list[NDArray[np.bool_]], NDArray[np.int64]]:
    """Which keys the heads of a layer read together, per rule (Q, N), and how many winners tie, per head."""
    shape = layer.present.shape
    reads = [np.zeros(shape, dtype=bool) for _ in rules]
    ties = np.zeros(layer.heads, dtype=np.int64)
    rows = np.arange(shape[0])[:, None]
    for head in range(layer.heads):
        ranked = ranked_keys(layer, head)
        ties[head] = ranked.n_ties
        for rule, keys in zip(rules, reads, strict=True):
            at = np.zeros(shape, dtype=bool)
            at[rows, ranked.order] = ranked.read(rule)
            keys |= at
    for keys in reads:
        keys[:, shape[1] - layer.null_keys :] = False  # null keys hand over nothing
    return reads, ties


def _mass_before(falling: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """The probability that strictly larger scores hold, at every place of the falling order."""
    total = np.zeros((len(falling), falling.shape[1] + 1))
    np.cumsum(falling, axis=1, out=total[:, 1:])
    return np.take_along_axis(total, first, axis=1)


def _check_order(layer: CapturedLayer, place: int) -> None:
    if layer.index != place:
        raise InvalidInputError(
            f"layers must pass in order from layer 0 on, but layer {layer.index} came at place {place}; "
            "information sets and rollout need every layer."
        )


class FlowRecorder:
    """Unites information sets under several rules at once as layers pass; :meth:`flows` makes the results."""

    layers: tuple[int, ...] | None = None  # information sets need every layer

    def __init__(self, rules: Sequence[str | RoutingRule] = ("argmax",)) -> None:
        self.rules = tuple(RoutingRule.of(rule) for rule in rules)
        if not self.rules:
            raise InvalidInputError("rules must name at least one rule, but was empty; try ['argmax'].")
        self._known: list[list[NDArray[np.bool_]]] = [[] for _ in self.rules]
        self._read: list[list[NDArray[np.bool_]]] = [[] for _ in self.rules]
        self._ties: list[int] = []
        self._heads: list[int] = []

    def __call__(self, layer: CapturedLayer) -> None:
        """Unite what the tokens read in this layer."""
        _check_order(layer, len(self._heads))
        reads, ties = fetched_keys(layer, self.rules)
        for known, read_here, keys in zip(self._known, self._read, reads, strict=True):
            if not known:
                known.append(np.eye(layer.n_queries, layer.n_keys, dtype=bool))
            before = known[-1]
            if before.shape != keys.shape:
                raise DimensionMismatchError(
                    f"every layer must have {before.shape[0]} queries and {before.shape[1]} keys as layer 0 "
                    f"does, but layer {layer.index} has {keys.shape[0]} and {keys.shape[1]}."
                )
            # counts of paths stay below 2**24, so float32 products of zeros and ones are exact
            fetched = keys.astype(np.float32) @ before[: keys.shape[1]].astype(np.float32) > 0.5
            known.append(before | fetched)
            read_here.append(keys)
        self._ties.append(int(ties.sum()))
        self._heads.append(layer.heads)

    def flows(self, reading: TextReading) -> tuple[TokenFlow, ...]:
        """One result per rule, in their order."""
        return tuple(
            TokenFlow(
                tokens=tuple(reading.tokens),
                key_tokens=tuple(reading.key_tokens),
                rule=str(rule),
                heads=tuple(self._heads),
                words=bitsets.packed(np.stack(known)),
                reads=bitsets.packed(np.stack(read_here)),
                ties=np.array(self._ties, dtype=np.int64),
            )
            for rule, known, read_here in zip(self.rules, self._known, self._read, strict=True)
        )


@dataclass(frozen=True, eq=False, repr=False)
class TokenFlow(Result):
    """The information sets of every token of a text, after every layer of a model.

    Positions count from 0. A query that is no key (a classification token that is never read) starts with an
    empty set.

    Attributes
    ----------
    tokens, key_tokens : tuple of str
        Names of the Q queries and of the N input positions.
    rule : str
        ``"argmax"``, ``"top-3"``, ``"mass 0.9"``, ``"readable"``.
    heads : tuple of int
        Heads per layer.
    words : uint64 array (L + 1, Q, N/64 rounded up)
        The sets after 0, 1, ..., L layers: position s is bit s mod 64 of word s div 64.
    reads : uint64 array (L, Q, N/64 rounded up)
        The keys that each token reads in each layer, all heads together, as bits.
    ties : int array (L,)
        Queries of a layer, over all heads, whose largest score is shared by several keys.

    Examples
    --------
    Two layers of one head; every token looks at the one before it:

    >>> import numpy as np
    >>> from hardmax.models.reading.sources import CapturedLayer, TextReading
    >>> recorder = FlowRecorder(["argmax"])
    >>> eye = np.eye(4)[None]
    >>> for index in range(2):
    ...     recorder(CapturedLayer(index, eye[0], 9 * np.roll(eye, 1, axis=2), np.roll(eye, 2, axis=2), eye,
    ...                            np.ones((4, 4), dtype=bool), 1.0))
    >>> flow, = recorder.flows(TextReading(tuple("abcd"), tuple("abcd"), 0.0, 0.0, None, 0.0))
    >>> flow
    <TokenFlow: 4 tokens, 2 layers, argmax: a token knows 1, 2, 3 of 4 (median after each layer)>
    >>> flow.known_by(3)
    (1, 2, 3)
    >>> flow.first_layer(3)
    array([-1,  2,  1,  0])
    """

    kind: ClassVar[str] = "TokenFlow"
    _shapes: ClassVar[dict[str, str]] = {
        "tokens": "Q",
        "key_tokens": "N",
        "heads": "L",
        "words": "L+1 Q words",
        "keys_read": "L",
        "ties": "L",
    }

    tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    rule: str
    heads: tuple[int, ...]
    words: Words
    reads: Words
    ties: NDArray[np.int64]

    @property
    def n_layers(self) -> int:
        """The number of layers L."""
        return len(self.words) - 1

    @property
    def keys_read(self) -> NDArray[np.float64]:
        """How many keys a token reads per layer, all heads together, on average (L,)."""
        return np.asarray(bitsets.count(self.reads).mean(axis=1))

    @property
    def routes(self) -> NDArray[np.bool_]:
        """Whether token t reads position s in a layer, by any head (L, Q, N)."""
        return bitsets.unpacked(self.reads, len(self.key_tokens))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The size of every set (L + 1, Q)."""
        return bitsets.count(self.words).astype(np.int64)

    @property
    def sets(self) -> NDArray[np.bool_]:
        """The sets as booleans (L + 1, Q, N)."""
        return bitsets.unpacked(self.words, len(self.key_tokens))

    @property
    def growth(self) -> dict[str, NDArray[Any]]:
        """Sizes after 0, 1, ..., L layers over all tokens: least, quartiles, largest, and the most there can
        be.

        ``at_most`` is the product of 1 + (keys a head reads) over heads and layers for ``argmax`` and
        ``top-K`` where no scores agree, and N for the other rules.
        """
        n, top, bounds = len(self.key_tokens), RoutingRule.of(self.rule).top, [1]
        for heads in self.heads:
            bounds.append(n if top is None else min(n, bounds[-1] * (1 + top * heads)))
        sizes = self.sizes
        names = ("least", "lower_quartile", "median", "upper_quartile", "largest")
        quantiles = np.quantile(sizes, [0.0, 0.25, 0.5, 0.75, 1.0], axis=1)
        return {
            "layer": np.arange(len(sizes)),
            **dict(zip(names, quantiles, strict=True)),
            "at_most": np.array(bounds, dtype=np.int64),
        }

    def known_by(self, position: int, *, layer: int | None = None) -> tuple[int, ...]:
        """The input positions that the token at ``position`` may know, after ``layer`` layers (all)."""
        after = self.n_layers if layer is None else layer
        if not -len(self.tokens) <= position < len(self.tokens):
            raise InvalidInputError(
                f"position must be from 0 to {len(self.tokens) - 1}, or negative, but was {position}."
            )
        if not 0 <= after <= self.n_layers:
            raise InvalidInputError(f"layer must be from 0 to {self.n_layers}, but was {layer}.")
        return tuple(int(s) for s in np.flatnonzero(self.sets[after, position]))

    def first_layer(self, position: int) -> NDArray[np.int64]:
        """After how many layers each input position enters the set of a token; -1 for never."""
        self.known_by(position)  # the check
        column = self.sets[:, position]
        return np.where(column[-1], column.argmax(axis=0), -1).astype(np.int64)

    def on_the_way(self, position: int = -1) -> NDArray[np.bool_]:
        """From which tokens, after each layer, something can reach a token at the end (L + 1, Q).

        Every token keeps what it has, so a token that is read once stays on the way in all earlier layers.
        """
        self.known_by(position)  # the check
        live = np.zeros((self.n_layers + 1, len(self.tokens)), dtype=bool)
        live[-1, position] = True
        routes, n_keys = self.routes, len(self.key_tokens)
        for layer in range(self.n_layers, 0, -1):
            live[layer - 1] = live[layer]
            live[layer - 1, :n_keys] |= routes[layer - 1][live[layer]].any(axis=0)
        return live

    def plot(self, *, position: int = -1, ax: Any = None, box: Any = None) -> Any:
        """Draw who reads whom, layer by layer, and what can reach one token (needs the extra ``plot``).

        Parameters
        ----------
        position : int
            The token at the end; the last by default.
        ax : matplotlib Axes, optional
        box
            Must be left out: routes are drawn whole.

        Returns
        -------
        matplotlib Axes
        """
        if box is not None:
            raise InvalidInputError("box belongs to pictures of the plane; routes are drawn whole.")
        return pictures("atlases").draw_routes(self, position=position, ax=ax)

    def _summary(self) -> str:
        medians = ", ".join(f"{size:g}" for size in self.growth["median"])
        return (
            f"{len(self.tokens)} tokens, {self.n_layers} layers, {self.rule}: a token knows {medians} of "
            f"{len(self.key_tokens)} (median after each layer)"
        )

    def _table(self) -> dict[str, Any]:
        n_layers, n = self.words.shape[:2]
        return {
            "layer": np.repeat(np.arange(n_layers), n),
            "position": np.tile(np.arange(n), n_layers),
            "token": list(self.tokens) * n_layers,
            "size": self.sizes.ravel(),
        }


def token_flow(
    model: Any,
    text: str | None = None,
    *,
    rule: str | RoutingRule = "argmax",
    tokenizer: Any = None,
    hub: bool = False,
    time_limit: float | None = None,
    progress: bool | Callable[[str, float], object] | None = None,
) -> TokenFlow:
    """The information sets that a model's own routing makes on a text.

    Parameters
    ----------
    model : Source, path, hub id or torch module
        Anything that :func:`hardmax.head_atlas` reads.
    text : str or None
        What is read; None where the source has a sequence of its own.
    rule : {"argmax", "top-K", "mass M", "readable"}
        Which keys a head is taken to read.
    tokenizer : optional
        For a torch module.
    hub : bool
        Whether a hub id may be fetched.
    time_limit : float, optional
        Seconds after which it is given up, looked at between passes of the model and layers.
    progress : bool or callable, optional
        ``True`` shows a bar on standard error; a function is called with what is being done, in words, and
        the seconds since it began.

    Returns
    -------
    TokenFlow

    Examples
    --------
    >>> import numpy as np
    >>> from hardmax.models.reading.sources import CapturedLayer, TextReading
    >>> class Copier:                                                # a source of one layer that looks back
    ...     name, family, n_layers, heads = "copier", "example", 1, (1,)
    ...     def read(self, text, visit, *, layers=None):
    ...         eye = np.eye(len(text))
    ...         visit(CapturedLayer(0, eye, 9 * eye[None], np.roll(eye, 1, axis=1)[None], eye[None],
    ...                             np.tri(len(text), dtype=bool), 1.0))
    ...         return TextReading(tuple(text), tuple(text), 0.0, 0.0, None, 0.0)
    >>> token_flow(Copier(), "abc").known_by(2)
    (1, 2)
    """
    recorder = FlowRecorder([rule])
    with watched(progress, Clock(time_limit, "follow information through the model")) as say:
        say("reads the model")
        return recorder.flows(read(model, text, [recorder], tokenizer=tokenizer, hub=hub))[0]


class RolloutRecorder:
    """Follows the walk as layers pass.

    Parameters
    ----------
    residual : float
        How much of a token stays with itself per layer; a half by custom.
    max_tokens : int, optional
        Texts with more tokens are not followed, because every layer takes the square of that in memory.

    Attributes
    ----------
    walks : list of array (Q, Q)
        :math:`R_0, R_1, ...`; columns of queries that are never read belong to themselves alone.

    Examples
    --------
    >>> recorder = RolloutRecorder()
    >>> zeros, ones = np.zeros((1, 2, 1)), np.ones((2, 2), dtype=bool)
    >>> for index in range(2):
    ...     recorder(CapturedLayer(index, zeros[0], zeros, zeros, zeros, ones, 1.0))
    >>> recorder.walks[-1]
    array([[0.625, 0.375],
           [0.375, 0.625]])
    """

    layers: tuple[int, ...] | None = None  # a walk needs every layer

    def __init__(self, *, residual: float = 0.5, max_tokens: int | None = None) -> None:
        if not 0.0 <= residual <= 1.0:
            raise InvalidInputError(f"residual must be from 0 to 1, but was {residual}.")
        self.residual, self.max_tokens = residual, max_tokens
        self.walks: list[Floats] = []

    def __call__(self, layer: CapturedLayer) -> None:
        """Take the step of this layer."""
        n, n_keys = layer.n_queries, layer.n_keys
        if self.max_tokens is not None and n > self.max_tokens:
            return
        if not self.walks:
            self.walks.append(np.eye(n))
        _check_order(layer, len(self.walks) - 1)
        if self.walks[-1].shape[0] != n or n_keys > n:
            raise DimensionMismatchError(
                f"every layer must have {self.walks[-1].shape[0]} queries and no more keys, but layer "
                f"{layer.index} has {n} and {n_keys}."
            )
        step = np.zeros((n, n))
        for head in range(layer.heads):
            step[:, :n_keys] += layer.probabilities(head) / layer.heads
        stays = step.sum(axis=1) < 0.5  # a query that may read nothing keeps what it has
        step[stays] = np.eye(n)[stays]
        mixed = self.residual * np.eye(n) + (1.0 - self.residual) * step
        self.walks.append(mixed @ self.walks[-1])

    def rollout(self, n_keys: int) -> Floats:
        """The weights of the input positions after layers 1, ..., L: (L, Q, N)."""
        return np.stack(self.walks[1:])[:, :, :n_keys]
