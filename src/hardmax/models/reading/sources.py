r"""What can be read, and how: a source shows its layers, as plain arrays, to recorders.

Head h of a layer gives the query of token t the probabilities

.. math:: p_{ht} = \operatorname{softmax}_s\bigl(\sigma\, q_{ht} \cdot k_{g(h)s} + B_{hts}\bigr)
          \quad\text{over the keys } s \text{ that } t \text{ may read},

and the token receives :math:`W_O^h \sum_s p_{hts} v_{g(h)s}` from it; g(h) is the group of heads that share
keys and values. In the words of P1 this is a head at temperature :math:`1/\sigma` on raw scores. Queries and
keys are those that really meet: after normalisation and rotation, where a model has them.

Three kinds of models need more than this, and nothing else does:

* *relative keys* (DeBERTa): the query of t meets :math:`k_{g(h)s} + r_{h\,\delta(t,s)}`. Scores are still
  affine in the query, with keys of its own for every t (:class:`RelativeKeys`,
  :meth:`CapturedLayer.met_by`);
* a *softcap* c (Gemma 2): :math:`c \tanh(s/c)` enters the softmax instead of s. It is increasing, so winners
  and cells are those of s; probabilities, margins and temperatures are those of what enters the softmax;
* *null keys* (gpt-oss): a learned score that belongs to no token is a key of zeros with a value of zeros and
  the score as its bias. It takes probability, may win, and hands over nothing.

A text goes through a model once (:func:`~hardmax.models.reading.loading.read`): each recorder is called with
the layers it needs, and only what a recorder stores is kept. The head atlas, information sets, rollout, the
assumptions of P1 and the effect of frozen norms are recorders; a recorder of one's own is any callable with
an attribute ``layers``.

Nothing here knows torch: whatever gives these arrays can be measured, a model of any library or none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, MissingExtraError, written
from hardmax.models.reading.captured import checked_layers, of_arrays, of_nnsight, of_transformer_lens

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class QueryMap:
    """Queries as affine functions of the input: head h asks with ``matrix[h] @ x + offset[h]``."""

    matrix: Floats  # (H, d_head, d_model)
    offset: Floats  # (H, d_head)
    position: int | None = None  # for which it holds, where it depends on that (rotations, frozen norms)
    frozen: tuple[str, ...] = ()  # what was held fixed to make it affine ("query norm", for instance)


@dataclass(frozen=True, eq=False)
class RelativeKeys:
    """What is added to keys according to where they stand: head h adds ``keys[h, place[t, s]]`` to key s when
    the query of t meets it."""

    keys: Floats  # (H, R, d_head)
    place: NDArray[np.integer]  # (Q, N)


@dataclass(frozen=True, eq=False)
class CapturedLayer:
    r"""Attention of one layer on one sequence.

    Attributes
    ----------
    index : int
        The layer, counted from 0.
    inputs : array (Q, d_model)
        What the query projection receives (after the norm, where one stands before it); NaN for tokens that
        are none of this layer's queries.
    queries : array (H, Q, d_head)
    keys : array (G, N, d_head)
        One row per key and group; head h reads group ``h // (H // G)``.
    values : array (G, N, d_value)
    present : array of bool (Q, N)
        Which keys each query may read: causal, sliding and padding masks.
    scale : float
        What raw scores are multiplied by; the temperature on raw scores is its inverse.
    bias : array (H, Q, N) or None
        What is added to scaled scores where keys are present.
    output_weights : array (H, d_model, d_value) or None
        W_O, head by head.
    query_map : callable or None
        ``query_map(t)``: how queries at position t depend on the input, or None where that is not known.
    softcap : float or None
        The c of :math:`c \tanh(s / c)`, which enters the softmax instead of s; then there is no bias.
    relative : RelativeKeys or None
        What is added to keys according to where they stand.
    null_keys : int
        How many keys, the last ones, are no tokens.

    Examples
    --------
    A query whose only token scores 0 and whose null key scores 1 reads little:

    >>> zero = np.zeros((1, 2, 3))
    >>> layer = CapturedLayer(0, zero[0, :1], zero[:, :1], zero, zero, np.ones((1, 2), dtype=bool), 1.0,
    ...                       bias=np.array([[[0.0, 1.0]]]), null_keys=1)
    >>> layer.probabilities(0).round(3)
    array([[0.269, 0.731]])

    Two heads that look back, over five tokens:

    >>> rng = np.random.default_rng(0)
    >>> x, q, k = rng.standard_normal((5, 8)), rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 5, 4))
    >>> layer = CapturedLayer(0, x, q, k, k, np.tri(5, dtype=bool), scale=0.5)
    >>> layer.heads, layer.probabilities(1).shape
    (2, (5, 5))
    """

    index: int
    inputs: Floats
    queries: Floats
    keys: Floats
    values: Floats
    present: NDArray[np.bool_]
    scale: float
    bias: Floats | None = None
    output_weights: Floats | None = None
    query_map: Callable[[int], QueryMap] | None = None
    softcap: float | None = None
    relative: RelativeKeys | None = None
    null_keys: int = 0

    @classmethod
    def from_arrays(
        cls, queries: Any, keys: Any, values: Any = None, *, index: int = 0, **options: Any
    ) -> Self:
        """A layer from plain arrays or tensors of one sequence.

        Parameters
        ----------
        queries, keys, values : arrays (H, Q, d), (G, N, d), (G, N, e)
            As they meet: after norms and rotations. Without values the keys stand for them.
        index : int
            The layer, counted from 0.
        **options
            ``inputs`` (Q, d_model), by default the queries side by side; ``present`` (Q, N) or
            ``causal=True``; ``scale``, by default one over the root of d; ``bias`` (H, Q, N); ``softcap``;
            ``relative``, a pair of arrays (:class:`RelativeKeys`); ``sinks`` (H,), a learned score of each
            head that belongs to no token, which becomes a null key; ``output_weights``
            (H, d_model, e); and ``probabilities`` (H, Q, N), the tool's own attention
            pattern: the layer must give it within 0.0001.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> layer = CapturedLayer.from_arrays(*rng.standard_normal((2, 4, 6, 8)), causal=True)
        >>> layer.heads, layer.n_keys, round(layer.scale, 3)
        (4, 6, 0.354)
        """
        return cls._of(index, of_arrays(queries, keys, values, **options))

    @classmethod
    def from_transformer_lens(
        cls, cache: Any, layer: int, *, batch: int = 0, causal: bool | None = None
    ) -> Self:
        """A layer from the cache that ``run_with_cache`` of TransformerLens returns.

        Parameters
        ----------
        cache : ActivationCache
            With the entries hook_q, hook_k, hook_v (hook_rot_q and hook_rot_k where queries are rotated) and
            hook_pattern of the layer, which must agree within 0.0001. Scale, direction and weights are those
            of the cache's model.
        layer : int
        batch : int
            Which sequence, where the cache has several.
        causal : bool, optional
            Whether tokens read only what stands before them, where the model does not say so.

        Notes
        -----
        Queries as affine functions of the inputs (``query_map``, for slices) are known where no rotation and
        no norm stands between them.
        """
        fields = of_transformer_lens(cache, layer, batch=batch, causal=causal)
        affine = fields.pop("query_affine", None)
        maps = None if affine is None else QueryMap(*affine)
        return cls._of(layer, {"query_map": None if maps is None else lambda _: maps, **fields})

    @classmethod
    def from_nnsight(
        cls,
        inputs: Any,
        output: Any = None,
        *,
        index: int = 0,
        batch: int = 0,
        causal: bool | None = None,
        hidden: Any = None,
    ) -> Self:
        """A layer from what a trace of nnsight saved of the call of transformers' attention interface.

        Parameters
        ----------
        inputs : tuple and dict
            The saved ``.inputs`` of ``self_attn.source.attention_interface_1`` (``_0`` before nnsight 0.8):
            queries, keys and values after rotation, the mask, the scale, a softcap, a bias of positions and
            sinks. Other options are refused.
        output : tuple, optional
            Its saved ``.output``. With eager attention it holds the pattern, which the layer must give within
            0.0001.
        index : int
            The layer, counted from 0.
        batch : int
        causal : bool, optional
            Without a mask: whether tokens read only what stands before them. By default what the module says.
        hidden : array (B, Q, d_model), optional
            What the query projection received.
        """
        return cls._of(index, of_nnsight(inputs, output, batch=batch, causal=causal, hidden=hidden))

    @classmethod
    def _of(cls, index: int, fields: dict[str, Any]) -> Self:
        """A layer from fields by name, relative keys among them as a pair of arrays."""
        pair = fields.pop("relative")
        return cls(index=index, relative=None if pair is None else RelativeKeys(*pair), **fields)

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.queries)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.queries.shape[1])

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return int(self.keys.shape[1])

    @property
    def have_inputs(self) -> NDArray[np.bool_]:
        """Which tokens (Q,) have an input here: none of another sequence, and no null key."""
        return np.asarray(~np.isnan(self.inputs).any(axis=1))

    @property
    def are_read(self) -> NDArray[np.bool_]:
        """Which keys (N,) some query may read: none of another sequence, and no padding."""
        return np.asarray(self.present.any(axis=0))

    def group(self, head: int) -> int:
        """Which keys and values a head reads."""
        return head // (self.heads // len(self.keys))

    def keys_of(self, head: int, position: int | None = None) -> NDArray[np.float64]:
        """The keys (N, d_head) that a head reads, in double precision, as the query at ``position`` meets
        them; it may be left out where all queries meet the same."""
        keys = np.asarray(self.keys[self.group(head)], dtype=np.float64)
        if self.relative is None:
            return keys
        if position is None:
            raise InvalidInputError(
                f"layer {self.index} must have the same keys for all queries, but adds relative keys; ask "
                "about one position."
            )
        return np.asarray(keys + self.relative.keys[head][self.relative.place[position]])

    def one_head(self, head: int) -> CapturedLayer:
        """The layer with this head alone."""
        own, group = slice(head, head + 1), slice(self.group(head), self.group(head) + 1)
        weights, relative = self.output_weights, self.relative
        return replace(
            self,
            queries=self.queries[own],
            keys=self.keys[group],
            values=self.values[group],
            bias=self.bias if self.bias is None or len(self.bias) == 1 else self.bias[own],
            output_weights=None if weights is None else weights[own],
            query_map=None,
            relative=None if relative is None else replace(relative, keys=relative.keys[own]),
        )

    def met_by(self, position: int) -> CapturedLayer:
        """The layer as the query at ``position`` meets it: one query, and keys without relative parts."""
        row = slice(position, position + 1)
        return replace(
            self,
            inputs=self.inputs[row],
            queries=self.queries[:, row],
            keys=np.stack([self.keys_of(h, position) for h in range(self.heads)]),
            values=self.values[[self.group(h) for h in range(self.heads)]],
            present=self.present[row],
            bias=None if self.bias is None else self.bias[:, row],
            query_map=None,
            relative=None,
        )

    def among(self, n: int, queries_at: int, keys_at: int) -> CapturedLayer:
        """The layer among n tokens, of which its queries and its keys are some in a row; the others ask
        nothing and are not read.

        So all layers of a model have the same tokens, whoever asks in one and is read in another: an encoder
        and the decoder that reads it, or tokens and a null key.
        """
        if (n, n) == self.present.shape:
            return self
        before, own = self.query_map, range(queries_at, queries_at + self.n_queries)

        def query_map(t: int) -> QueryMap:
            if t not in own or before is None:
                raise InvalidInputError(
                    f"position must be one that asks in layer {self.index}, from {own[0]} to {own[-1]}, but "
                    f"was {t}."
                )
            return before(t - queries_at)

        asks = (queries_at, n - queries_at - self.n_queries)
        read = (keys_at, n - keys_at - self.n_keys)
        none, relative = (0, 0), self.relative
        if relative is not None:
            relative = replace(relative, place=np.pad(relative.place, (asks, read)))
        return replace(
            self,
            inputs=np.pad(self.inputs, (asks, none), constant_values=np.nan),
            queries=np.pad(self.queries, (none, asks, none)),
            keys=np.pad(self.keys, (none, read, none)),
            values=np.pad(self.values, (none, read, none)),
            present=np.pad(self.present, (asks, read)),
            bias=None if self.bias is None else np.pad(self.bias, (none, asks, read)),
            query_map=None if before is None else query_map,
            relative=relative,
        )

    def readable(self, head: int) -> tuple[NDArray[np.bool_], NDArray[np.float64] | None]:
        """Which keys each query of a head may read (Q, N), and the bias of its scores or None.

        A bias of minus infinity masks a key; it is replaced by zero.
        """
        if self.bias is None:
            return self.present, None
        bias = np.asarray(self.bias[head if len(self.bias) > 1 else 0], dtype=np.float64)
        masked = np.isneginf(bias)
        return self.present & ~masked, np.where(masked, 0.0, bias)

    def reading_position(self, position: int | None = None) -> int:
        """A query that may read something: the one that was asked for, or the last."""
        reads = np.asarray(self.present.any(axis=1))
        if position is None:
            if not reads.any():
                raise InvalidInputError(
                    f"layer {self.index} must have a query that may read a key, but masks all."
                )
            return int(np.flatnonzero(reads)[-1])
        if not 0 <= position < self.n_queries or not reads[position]:
            raise InvalidInputError(
                f"positions must be queries from 0 to {self.n_queries - 1} that may read a key, but one was "
                f"{written(position)}."
            )
        return int(position)

    def affine_scores(self, head: int, rows: slice = slice(None)) -> NDArray[np.float64]:
        """Scaled scores (Q, N) of one head against all keys in double precision: what is affine in the query.

        ``rows`` picks queries, for texts whose whole matrix would be large.
        """
        q = np.asarray(self.queries[head, rows], dtype=np.float64)
        scores = q @ np.asarray(self.keys[self.group(head)], dtype=np.float64).T
        if self.relative is not None:
            more = q @ np.asarray(self.relative.keys[head], dtype=np.float64).T
            scores += np.take_along_axis(more, self.relative.place[rows], axis=1)
        scores *= float(self.scale)
        if self.bias is not None:
            scores += self.bias[head if len(self.bias) > 1 else 0, rows]
        return scores

    def capped(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a softcap makes of scores, in the same array."""
        if self.softcap is not None:
            scores /= self.softcap
            np.tanh(scores, out=scores)
            scores *= self.softcap
        return scores

    def scores(self, head: int, rows: slice = slice(None), *, capped: bool = True) -> NDArray[np.float64]:
        """What enters the softmax (Q, N): scaled scores of one head, after a softcap where there is one, -inf
        where a key may not be read.

        ``rows`` picks queries, for texts whose whole matrix would be large. Scores that are not ``capped``
        have the same order without the ties that rounding makes near the cap.
        """
        scores = self.affine_scores(head, rows)
        scores = self.capped(scores) if capped else scores
        np.copyto(scores, -np.inf, where=~self.present[rows])
        return scores

    def probabilities(self, head: int, rows: slice = slice(None)) -> NDArray[np.float64]:
        """Softmax of the scores (Q, N); a query that may read nothing gets zeros."""
        return softmax(self.scores(head, rows))


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row; a row that is -inf throughout becomes zeros.

    Examples
    --------
    >>> softmax(np.array([[0.0, -np.inf], [-np.inf, -np.inf]]))
    array([[1., 0.],
           [0., 0.]])
    """
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=weights, where=total > 0))


Visit = Callable[[CapturedLayer], None]
"""What is done with each layer as it passes; the layer is gone afterwards."""


@dataclass(frozen=True, eq=False)
class TextReading:
    """One sequence that went through a model.

    Attributes
    ----------
    tokens : tuple of str
        How queries are named in tables and pictures.
    key_tokens : tuple of str
        How keys are named: the same, but for models whose last token asks and is never read.
    score_difference, probability_difference : float
        The largest difference between what was rebuilt from the captured arrays and what the model computes
        itself, relative to the largest score for scores.
    native_difference : float or None
        The same for probabilities in the precision of the weights, where that is not float32.
    forward_seconds : float
        CPU time of one forward pass in float32, to compare with.
    query_difference : float or None
        The largest difference between queries that follow from ``query_map`` and those that were captured,
        relative to the largest query; None where maps are not known.
    output_difference : float or None
        The same for what W_O receives: probabilities times values against the model's own.
    precision : str
        The type of the model's weights; everything above but ``native_difference`` is computed with them in
        float32.
    """

    tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    score_difference: float
    probability_difference: float
    native_difference: float | None
    forward_seconds: float
    query_difference: float | None = None
    output_difference: float | None = None
    precision: str = "float32"


class Source(Protocol):
    """Anything that can be read: a Hugging Face model, or the bundled one."""

    @property
    def name(self) -> str:
        """What the model is called."""
        ...

    @property
    def family(self) -> str:
        """Which kind of model it is."""
        ...

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        ...

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        ...

    def read(self, text: Any, visit: Visit, *, layers: tuple[int, ...] | None = None) -> TextReading:
        """Send a text through the model and show each wanted layer to ``visit``, in order."""
        ...


@dataclass(frozen=True, eq=False)
class CapturedSource:
    """Layers that were captured elsewhere, as a source: atlas, report and the others read it like a model.

    Made by :func:`captured_source`. It has one sequence, and reads no text.
    """

    layers: tuple[CapturedLayer, ...]
    tokens: tuple[str, ...]
    name: str = "captured layers"
    family: str = "arrays"

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        return len(self.layers)

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return tuple(layer.heads for layer in self.layers)

    def read(self, text: Any, visit: Visit, *, layers: tuple[int, ...] | None = None) -> TextReading:
        """Show each wanted layer to ``visit``, in order."""
        if text is not None:
            raise InvalidInputError("text must be left out for captured layers, which hold one sequence.")
        for index in range(self.n_layers) if layers is None else layers:
            visit(self.layers[index])
        return TextReading(self.tokens, self.tokens, 0.0, 0.0, None, 0.0)


def captured_source(
    layers: Iterable[CapturedLayer], tokens: Iterable[str] | None = None, *, name: str = "captured layers"
) -> CapturedSource:
    """Captured layers of one sequence, first to last, as something that can be read like a model.

    Examples
    --------
    >>> import hardmax as hm
    >>> rng = np.random.default_rng(0)
    >>> layers = [hm.models.CapturedLayer.from_arrays(*rng.standard_normal((2, 3, 5, 4)), index=i)
    ...           for i in range(2)]
    >>> hm.head_atlas(hm.models.captured_source(layers, "a b c d e".split()))
    <HeadAtlas: captured layers, 6 heads of 2 layers on 5 tokens, 0 cells in 0 slices>
    """
    return CapturedSource(*checked_layers(layers, tokens), name=name)


class Recorder(Protocol):
    """What is written down about layers as they pass, first to last."""

    @property
    def layers(self) -> tuple[int, ...] | None:
        """The layers that it is shown, counted from 0; None for all."""
        ...

    def __call__(self, layer: CapturedLayer) -> None:
        """Record one layer."""
        ...


def named_texts(texts: str | Sequence[str] | Mapping[str, str | None] | None) -> dict[str, Any]:
    """Texts with names, in order, from what a caller may give; None stands for a source's own sequence.

    >>> named_texts(["one", "two"])
    {'text 1': 'one', 'text 2': 'two'}
    """
    named: dict[str, Any]
    if texts is None or isinstance(texts, str):
        named = {"text": texts}
    elif isinstance(texts, Mapping):
        named = dict(texts)
    else:
        named = {f"text {i}": text for i, text in enumerate(texts, start=1)}
    if not named:
        raise InvalidInputError("texts must hold at least one text, but was empty.")
    return named


def integers(values: Iterable[int], name: str) -> tuple[int, ...]:
    """The numbers that were given as ``name``, of which there must be one at least."""
    try:
        numbers = tuple(operator.index(value) for value in values)
    except TypeError:  # 0.5 is no layer
        numbers = ()
    if not numbers:
        raise InvalidInputError(f"{name} must be a list of numbers counted from 0, but was {values!r}.")
    return numbers


def chosen(values: Iterable[int] | None, n: int, name: str) -> tuple[int, ...]:
    """Which of n layers or heads were asked for, in order; all for None.

    >>> chosen([2, 0, 2], 3, "layers")
    (0, 2)
    """
    if values is None:
        return tuple(range(n))
    numbers = tuple(sorted(set(integers(values, name))))
    wrong = [number for number in numbers if not 0 <= number < n]
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise InvalidInputError(
            f"{name} must be between 0 and {n - 1}, but held {written(wrong[0])}{others}."
        )
    return numbers


def required(name: str) -> Any:
    """The module ``name``, or the advice to install the extra ``models``.

    Examples
    --------
    >>> required("json").dumps([])
    '[]'
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"reading a Hugging Face model needs {name.split('.')[0]}, which is not installed; "
            "try: pip install torch transformers safetensors."
        ) from error
