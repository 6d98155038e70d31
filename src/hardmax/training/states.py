r"""A transformer of P2 section 3 with everything in view: its states, and what a linear map reads from them.

Training needs the output only and is fast because it keeps nothing. Here the same model runs in float64 with
plain numpy, and what happens inside is kept: the states :math:`x_l(t)` before a layer, the raw scores
:math:`(W_{Q,i} x_l(t))^\top W_{K,i} x_l(s)`, the states :math:`x_l'(t)` behind the attention (equation (1)).

The probes of Appendix C.1 and C.2 ask what a state still holds. Head i of the first layer has its own winner
at every token, :math:`s_i(t) = \arg\max_s A_i(x(t), x(s))` with the scores :math:`A_i` of the model itself. A
linear map with bias :math:`g_i` is fitted from the state :math:`x_1'(t)` to the token :math:`x(s_i(t))`, and
measured on other sequences by equation (56),

.. math:: \mathcal E_i = \mathbb E_X \mathbb E_t \frac{|g_i(x_1'(t)) - x(s_i(t))|^2}{|x(s_i(t))|^2} .

The k-th largest token is asked for in the same way. A model is compared with itself at initialisation, whose
heads have winners of their own.

An error of 1 is what the map 0 achieves; the best constant does no worse on average, and a map fitted by
plain least squares can do worse, because (56) weighs small tokens heavily. The expectation of
:math:`1/|x|^2` is infinite for Gaussian tokens of dimension 1 and 2: there (56) is not a number that samples
converge to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.results import Result
from hardmax.training.layout import TransformerShape

Floats = NDArray[np.float64]

_SCORES = 1 << 22  # scores that are held at once: 32 MB
_NORM_EPSILON = 1e-5
Fit = Literal["plain", "weighted"]


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """The matrices of one attention layer, head by head.

    Attributes
    ----------
    W_Q, W_K, W_V : array (h, n, E)
    W_O : array (h, E, n)
        The columns of the output projection that belong to the head.
    beta : float
        The inverse temperature.
    """

    W_Q: Floats
    W_K: Floats
    W_V: Floats
    W_O: Floats
    beta: float


@dataclass(frozen=True, eq=False)
class LayerStates:
    """What happened in one layer on B inputs.

    Attributes
    ----------
    tokens, cls : array (B, T, E) and (B, E)
        The states that enter the layer.
    scores : array (B, h, T, T) or None
        Raw scores of queries t against keys s, without beta; ``None`` in the last layer, where only the
        classification token asks.
    cls_scores : array (B, h, T)
    attended : array (B, T, E) or None
        :math:`x_l'(t)`, the states behind the attention, residual included.
    cls_attended : array (B, E)
    beta : float
    """

    tokens: Floats
    cls: Floats
    scores: Floats | None
    cls_scores: Floats
    attended: Floats | None
    cls_attended: Floats
    beta: float

    @property
    def of_tokens(self) -> tuple[Floats, Floats]:
        """The scores of the tokens and their states behind the attention, which the last layer lacks."""
        if self.scores is None or self.attended is None:
            raise InvalidInputError("layer must not be the last: there only the classification token asks.")
        return self.scores, self.attended

    def weights(self, scores: Floats) -> Floats:
        """The attention weights that belong to scores: softmax of beta times them over the keys."""
        return _softmax(self.beta * scores)


def parameter_arrays(shape: TransformerShape, parameters: ArrayLike) -> Mapping[str, Floats]:
    """The parameters of a flat vector by name, in float64.

    Raises
    ------
    DimensionMismatchError
        When the vector does not have the length that the shape needs.
    NotFiniteError
        When it holds NaN or an infinity, as after a training that diverged.
    """
    arrays = shape.split(np.asarray(parameters, dtype=np.float64).ravel())
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise NotFiniteError("parameters must be finite, but hold NaN or an infinity.")
    return arrays


def head_weights(shape: TransformerShape, parameters: ArrayLike, layer: int) -> HeadWeights:
    """The matrices of one layer (counted from 0), head by head."""
    if not 0 <= layer < shape.depth:
        raise InvalidInputError(f"layer must be between 0 and {shape.depth - 1}, but was {layer}.")
    return _head_weights(shape, parameter_arrays(shape, parameters), layer)


def _head_weights(shape: TransformerShape, arrays: Mapping[str, Floats], layer: int) -> HeadWeights:
    E, h = shape.widths[layer], shape.heads[layer]
    q, k, v = (arrays[f"layers.{layer}.{part}"].reshape(h, E // h, E) for part in ("query", "key", "value"))
    out = arrays[f"layers.{layer}.output"].reshape(E, h, E // h).transpose(1, 0, 2)
    return HeadWeights(q, k, v, out, shape.betas[layer])


def run_states(
    shape: TransformerShape, parameters: ArrayLike, X: ArrayLike
) -> tuple[list[LayerStates], Floats]:
    """Run the model on inputs (B, T, d) and keep everything; the outputs (B, n_outputs) come last.

    All scores of all inputs are in memory at once; :func:`states_in_blocks` goes through many inputs.
    """
    arrays = parameter_arrays(shape, parameters)
    inputs = _inputs(shape, X)
    tokens = _encoded(shape, arrays, inputs)
    cls = np.broadcast_to(_first_cls(shape, arrays), (len(inputs), shape.widths[0]))
    left: list[LayerStates] = []
    for layer in range(shape.depth):
        heads = _head_weights(shape, arrays, layer)
        keys, values = (_by_head(matrix, tokens) for matrix in (heads.W_K, heads.W_V))
        cls_scores, read = _attention(heads, cls[:, None], keys, values)
        cls_attended = _normed(shape, arrays, layer, cls + read[:, 0])
        scores = attended = None
        if layer + 1 < shape.depth:
            scores, read = _attention(heads, tokens, keys, values)
            attended = _normed(shape, arrays, layer, tokens + read)
        left.append(LayerStates(tokens, cls, scores, cls_scores[:, :, 0], attended, cls_attended, heads.beta))
        cls = _feed_forward(shape, arrays, layer, cls_attended)
        if attended is not None:
            tokens = _feed_forward(shape, arrays, layer, attended)
    return left, cls


def _by_head(matrices: Floats, states: Floats) -> Floats:
    return np.asarray(np.einsum("hne,bte->bhtn", matrices, states, optimize=True))


def _attention(heads: HeadWeights, queries: Floats, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The scores of queries (B, S, E), and what they read: (B, h, S, T) and (B, S, E)."""
    scores = _by_head(heads.W_Q, queries) @ keys.swapaxes(2, 3)
    mixed = _softmax(heads.beta * scores) @ values
    return scores, np.asarray(np.einsum("hen,bhtn->bte", heads.W_O, mixed, optimize=True))


def states_in_blocks(
    shape: TransformerShape, parameters: ArrayLike, X: ArrayLike
) -> Iterator[tuple[slice, list[LayerStates]]]:
    """The states of many inputs, block by block: which inputs, and what happened to them."""
    inputs = _inputs(shape, X)
    per_input = max(shape.heads) * (shape.n_tokens + 1) * shape.n_tokens
    step = max(1, _SCORES // per_input)
    for start in range(0, len(inputs), step):
        block = slice(start, min(start + step, len(inputs)))
        yield block, run_states(shape, parameters, inputs[block])[0]


def _inputs(shape: TransformerShape, X: ArrayLike) -> Floats:
    inputs = np.asarray(X, dtype=np.float64)
    if inputs.ndim != 3 or inputs.shape[1:] != (shape.n_tokens, shape.d_token):
        raise DimensionMismatchError(
            f"X must have the shape (B, {shape.n_tokens}, {shape.d_token}), but had {inputs.shape}."
        )
    return inputs


def _encoded(shape: TransformerShape, arrays: Mapping[str, Floats], X: Floats) -> Floats:
    if shape.encoder_hidden:
        X = _activated(shape.activation, _linear(arrays, "encoder_hidden", X))
    tokens = _linear(arrays, "encoder", X)
    if shape.positions is None:
        return tokens
    places = arrays["positions"][:, : shape.n_tokens].T
    if shape.positions == "additive":
        return tokens + places
    return np.concatenate([tokens, np.broadcast_to(places, (len(X), *places.shape))], axis=2)


def _first_cls(shape: TransformerShape, arrays: Mapping[str, Floats]) -> Floats:
    cls = arrays["cls"].copy()
    if shape.cls_position:
        place = arrays["positions"][:, shape.n_tokens]
        cls[-len(place) :] += place  # appended positions stand behind the embedded token
    return cls


def _normed(shape: TransformerShape, arrays: Mapping[str, Floats], layer: int, x: Floats) -> Floats:
    if not shape.layer_norm:
        return x
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _NORM_EPSILON)
    return np.asarray(scaled * arrays[f"layers.{layer}.norm.weight"] + arrays[f"layers.{layer}.norm.bias"])


def _feed_forward(shape: TransformerShape, arrays: Mapping[str, Floats], layer: int, x: Floats) -> Floats:
    active = _activated(shape.activation, _linear(arrays, f"layers.{layer}.hidden", x))
    return _linear(arrays, f"layers.{layer}.out", active)


def _linear(arrays: Mapping[str, Floats], name: str, x: Floats) -> Floats:
    return np.asarray(x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"])


def _activated(kind: str, z: Floats) -> Floats:
    if kind == "tanh":
        return np.tanh(z)
    if kind == "relu":
        return np.maximum(z, 0.0)
    return np.asarray(0.5 * z * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (z + 0.044715 * z**3))))


def _softmax(scores: Any) -> Floats:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False, repr=False)
class Recovery(Result):
    """How well the token of some rank is recovered, before and after training.

    Attributes
    ----------
    rank : int
        1 for the winner, 2 for the second largest.
    initialised, trained : array (h,)
        The error (56) of each head of the first layer.
    n_fit, n_test : int
        Sequences on which maps were fitted and measured.
    fit : {"plain", "weighted"}
        Least squares, or with the weights of (56).

    Examples
    --------
    >>> Recovery(1, np.array([0.4, 0.5]), np.array([0.1, 0.2]), 1000, 500, "plain").ratio
    array([0.25, 0.4 ])
    """

    kind: ClassVar[str] = "Recovery"
    _shapes: ClassVar[dict[str, str]] = {
        "initialised": "h",
        "trained": "h",
    }

    rank: int
    initialised: Floats
    trained: Floats
    n_fit: int
    n_test: int
    fit: Fit

    @property
    def ratio(self) -> Floats:
        """Trained over initialised, head by head."""
        return self.trained / self.initialised

    def _summary(self) -> str:
        names = {1: "largest", 2: "second largest", 3: "third largest"}
        which = names.get(self.rank, f"{self.rank}-th largest")
        ratios = ", ".join(f"{value:.3g}" for value in self.ratio)
        return f"{which} token, trained / initialised {ratios}"

    def _table(self) -> dict[str, Any]:
        return {
            "head": list(range(1, len(self.trained) + 1)),
            "initialised": self.initialised,
            "trained": self.trained,
            "ratio": self.ratio,
        }


def recovery(
    shape: TransformerShape,
    initialised: ArrayLike,
    trained: ArrayLike,
    X_fit: ArrayLike,
    X_test: ArrayLike,
    *,
    rank: int = 1,
    fit: Fit = "plain",
) -> Recovery:
    """The errors (56) of a model before and after training.

    Parameters
    ----------
    shape : TransformerShape
        At least two layers: in the last one only the classification token asks.
    initialised, trained : array
        The two vectors of parameters.
    X_fit, X_test : array (B, T, d)
        Sequences on which maps are fitted, and others on which they are measured.
    rank : int
        1 for the token with the largest score, 2 for the second largest.
    fit : {"plain", "weighted"}
        The paper says "by regression"; plain least squares is that. "weighted" minimises (56) itself.
    """
    before, after = (
        recovery_errors(shape, vector, X_fit, X_test, rank=rank, fit=fit) for vector in (initialised, trained)
    )
    return Recovery(rank, before, after, len(np.asarray(X_fit)), len(np.asarray(X_test)), fit)


def recovery_errors(
    shape: TransformerShape,
    parameters: ArrayLike,
    X_fit: ArrayLike,
    X_test: ArrayLike,
    *,
    rank: int = 1,
    fit: Fit = "plain",
) -> Floats:
    """The error (56) of every head of the first layer of one model."""
    if shape.depth < 2:
        raise InvalidInputError(
            "shape must have two layers or more: in the last one the tokens have no states behind the "
            "attention."
        )
    if not 1 <= rank <= shape.n_tokens:
        raise InvalidInputError(f"rank must be between 1 and {shape.n_tokens}, but was {rank}.")
    if fit not in ("plain", "weighted"):
        raise InvalidInputError(f'fit must be "plain" or "weighted", but was {fit!r}.')
    states, wanted = _regression(shape, parameters, X_fit, rank)
    if len(states) < 2 * states.shape[1]:
        raise InvalidInputError(
            f"X_fit must hold at least {2 * states.shape[1]} tokens for maps of {states.shape[1]} "
            f"coefficients, but held {len(states)}."
        )
    maps = _fitted(states, wanted, fit)
    states, wanted = _regression(shape, parameters, X_test, rank)
    missed = [((states @ maps[i] - wanted[:, i]) ** 2).sum(axis=1) for i in range(len(maps))]
    return np.array([(part / (wanted[:, i] ** 2).sum(axis=1)).mean() for i, part in enumerate(missed)])


def _regression(
    shape: TransformerShape, parameters: ArrayLike, X: ArrayLike, rank: int
) -> tuple[Floats, Floats]:
    """States behind the first attention with a column of ones, (B T, E + 1), and what to read from them,
    (B T, h, d)."""
    inputs = np.asarray(X, dtype=np.float64)
    states, wanted = [], []
    for block, layers in states_in_blocks(shape, parameters, inputs):
        scores, attended = layers[0].of_tokens
        sources = token_of_rank(scores, rank)  # (B, h, T)
        rows = np.arange(len(scores))[:, None, None]
        found = inputs[block][rows, sources]  # (B, h, T, d)
        states.append(attended.reshape(-1, attended.shape[2]))
        wanted.append(found.transpose(0, 2, 1, 3).reshape(-1, found.shape[1], found.shape[3]))
    stacked = np.concatenate(states)
    return np.column_stack([stacked, np.ones(len(stacked))]), np.concatenate(wanted)


def token_of_rank(scores: Floats, rank: int) -> NDArray[np.intp]:
    """The key of the rank-th largest score in every row, ties by position.

    >>> token_of_rank(np.array([[0.5, 2.0, 1.0]]), 1), token_of_rank(np.array([[0.5, 2.0, 1.0]]), 2)
    (array([1]), array([2]))
    """
    if rank == 1:
        return np.asarray(scores.argmax(axis=-1))
    return np.asarray(np.argsort(-scores, axis=-1, kind="stable")[..., rank - 1])


def _fitted(states: Floats, wanted: Floats, fit: Fit) -> Floats:
    """One map per head, (h, E + 1, d)."""
    n, h, d = wanted.shape
    if fit == "plain":  # the states are the same for all heads
        maps = np.linalg.lstsq(states, wanted.reshape(n, h * d), rcond=None)[0]
        return np.asarray(maps.reshape(-1, h, d).swapaxes(0, 1))
    found = []
    for i in range(h):
        scale = 1.0 / np.linalg.norm(wanted[:, i], axis=1, keepdims=True)
        found.append(np.linalg.lstsq(states * scale, wanted[:, i] * scale, rcond=None)[0])
    return np.array(found)
