r"""The transformer of P2 section 3 with given weights: equations (1) and (2), nothing trained.

Queries come from the tokens and from the CLS token, keys and values from the T tokens only; every attention
layer has a residual connection, the feed-forward blocks have none:

.. math::

    x_l'(t) = x_l(t) + W_{O} \sum_{s=1}^{T} \sigma_\beta\bigl[(W_{Q} x_l(t))^\top W_{K} x_l(s)\bigr]\, W_{V}
    x_l(s), \qquad x_{l+1}(t) = F_l(x_l'(t)), \qquad y = \hat F(c_L'),

the same for the CLS token :math:`c_l`, and heads beside each other. The inverse temperature :math:`\beta`
is kept apart from the weights: P2's bound of 1 is on the weights, and its construction needs :math:`\beta
\sim \log(T)/\varepsilon`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, NotFiniteError
from hardmax.flow.theorems.two_layer import TwoLayer, frozen_array, positive_number

__all__ = ["SoftmaxLayer", "SoftmaxTransformer"]

Floats = NDArray[np.float64]

_SCORES = 4_000_000  # scores that are held at once


@dataclass(frozen=True, eq=False)
class SoftmaxLayer:
    """The weights of one attention layer.

    Parameters
    ----------
    w_q, w_k, w_v : array of shape (heads, n, E)
    w_o : array of shape (E, heads * n)

    Examples
    --------
    >>> layer = SoftmaxLayer(np.eye(2)[None], np.eye(2)[None], np.eye(2)[None], np.eye(2))
    >>> layer.heads, layer.width
    (1, 2)
    """

    w_q: Floats
    w_k: Floats
    w_v: Floats
    w_o: Floats

    def __post_init__(self) -> None:
        for name, axes in (("w_q", 3), ("w_k", 3), ("w_v", 3), ("w_o", 2)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, axes))
        heads, n, width = self.w_v.shape
        if not self.w_q.shape == self.w_k.shape == self.w_v.shape or self.w_o.shape != (width, heads * n):
            shapes = ", ".join(f"{name} {getattr(self, name).shape}" for name in ("w_q", "w_k", "w_v", "w_o"))
            raise DimensionMismatchError(
                f"the matrices must be (heads, n, E) three times and (E, heads n), but are {shapes}."
            )

    @property
    def heads(self) -> int:
        """The number of heads."""
        return int(self.w_v.shape[0])

    @property
    def width(self) -> int:
        """The total embedding dimension E."""
        return int(self.w_v.shape[2])

    def attended(self, queries: Floats, tokens: Floats, beta: float) -> Floats:
        """What the heads add to each query: (B, S, E), (B, T, E) -> (B, S, E)."""
        parts = []
        for w_q, w_k, w_v in zip(self.w_q, self.w_k, self.w_v, strict=True):
            scores = beta * ((queries @ w_q.T) @ np.swapaxes(tokens @ w_k.T, 1, 2))
            weights = np.exp(scores - scores.max(axis=2, keepdims=True))
            weights /= weights.sum(axis=2, keepdims=True)
            parts.append(weights @ (tokens @ w_v.T))
        return np.asarray(np.concatenate(parts, axis=2) @ self.w_o.T)


@dataclass(frozen=True, eq=False)
class SoftmaxTransformer:
    r"""A transformer of P2 section 3: embedding, attention layers, blocks between them, output block.

    Parameters
    ----------
    embedding, embedding_bias : array of shape (e, d), (e,)
        :math:`P_\phi(x) = (W x + b, 0)`, e at most E; the other coordinates start at zero.
    cls : array of shape (E,)
        The CLS token.
    layers : tuple of SoftmaxLayer
    blocks : tuple of TwoLayer
        One between any two layers.
    output : TwoLayer
        The output block.
    beta : float
        The inverse temperature of every softmax.

    Examples
    --------
    One layer that averages its tokens, read out by a single tanh unit.

    >>> one = np.ones((1, 1))
    >>> layer = SoftmaxLayer(one[None], one[None], one[None], one)
    >>> net = SoftmaxTransformer(one, [0.0], [0.0], (layer,), (), TwoLayer(one, [0.0], one, [0.0]), 1.0)
    >>> bool(np.isclose(net([[[0.2], [0.2]]])[0], np.tanh(0.2)))
    True
    """

    embedding: Floats
    embedding_bias: Floats
    cls: Floats
    layers: tuple[SoftmaxLayer, ...]
    blocks: tuple[TwoLayer, ...]
    output: TwoLayer
    beta: float

    def __post_init__(self) -> None:
        for name, axes in (("embedding", 2), ("embedding_bias", 1), ("cls", 1)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, axes))
        object.__setattr__(self, "beta", positive_number(self.beta, "beta"))
        if not self.layers or len(self.blocks) != len(self.layers) - 1:
            raise InvalidInputError(
                "blocks must be one fewer than layers, of which there is at least one, but there are "
                f"{len(self.blocks)} and {len(self.layers)}."
            )
        widths = [layer.width for layer in self.layers]
        into = [block.d_in for block in (*self.blocks, self.output)]
        out_of = [len(self.cls), *(block.d_out for block in self.blocks)]
        if widths != into or widths != out_of or len(self.embedding) > widths[0]:
            raise DimensionMismatchError(
                f"layers of widths {widths} must be fed by widths {out_of} and read by widths {into}."
            )
        if len(self.embedding_bias) != len(self.embedding):
            raise DimensionMismatchError(
                f"embedding_bias must have {len(self.embedding)} entries, but has {len(self.embedding_bias)}."
            )

    @property
    def d_token(self) -> int:
        """The dimension of the tokens."""
        return int(self.embedding.shape[1])

    @property
    def n_parameters(self) -> int:
        """All weights, zeros included: embedding, CLS token, attention matrices and blocks; beta is not one.

        An embedding bias that is zero throughout is left out.
        """
        attention = sum(
            layer.w_q.size + layer.w_k.size + layer.w_v.size + layer.w_o.size for layer in self.layers
        )
        feed_forward = sum(block.n_parameters for block in (*self.blocks, self.output))
        bias = self.embedding_bias.size if self.embedding_bias.any() else 0
        return self.embedding.size + bias + self.cls.size + attention + feed_forward

    @property
    def largest_weight(self) -> float:
        """The largest absolute value of a weight; beta is kept apart."""
        arrays = [self.embedding, self.embedding_bias, self.cls]
        arrays += [part for layer in self.layers for part in (layer.w_q, layer.w_k, layer.w_v, layer.w_o)]
        blocks = [block.largest_weight for block in (*self.blocks, self.output)]
        return max([float(np.abs(array).max(initial=0.0)) for array in arrays] + blocks)

    def with_beta(self, beta: float) -> SoftmaxTransformer:
        """The same weights at another inverse temperature."""
        return SoftmaxTransformer(
            self.embedding, self.embedding_bias, self.cls, self.layers, self.blocks, self.output, beta
        )

    def embedded(self, tokens: ArrayLike) -> Floats:
        """The embedded tokens: (B, T, d) -> (B, T, E)."""
        x = self._checked(tokens)
        state = np.zeros((*x.shape[:2], self.layers[0].width))
        state[:, :, : len(self.embedding)] = x @ self.embedding.T + self.embedding_bias
        return state

    def states(self, tokens: ArrayLike) -> list[tuple[Floats, Floats]]:
        """What each attention layer leaves behind: tokens (B, T, E) and CLS (B, E), layer by layer."""
        state = self.embedded(tokens)
        cls = np.broadcast_to(self.cls, (len(state), 1, len(self.cls)))
        left = []
        for number, layer in enumerate(self.layers):
            after = state + layer.attended(state, state, self.beta)
            cls = cls + layer.attended(cls, state, self.beta)
            left.append((after, cls[:, 0]))
            if number < len(self.blocks):
                state, cls = self.blocks[number](after), self.blocks[number](cls)
        return left

    def __call__(self, tokens: ArrayLike) -> Floats:
        """The output of the CLS token: (B, T, d) -> (B,) for a block with one output, (B, outputs) else."""
        x = self._checked(tokens)
        values = np.empty((len(x), self.output.d_out))
        step = max(1, _SCORES // x.shape[1] ** 2)
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            values[part] = self.output(self.states(x[part])[-1][1])
        return values[:, 0] if self.output.d_out == 1 else values

    def _checked(self, tokens: ArrayLike) -> Floats:
        x = np.asarray(tokens, dtype=np.float64)
        if x.ndim != 3 or x.shape[2] != self.d_token or x.shape[1] == 0:
            raise DimensionMismatchError(
                f"tokens must have shape (batch, T, {self.d_token}) with T at least 1, but have {x.shape}."
            )
        if not np.isfinite(x).all():
            raise NotFiniteError("tokens must be finite, but hold NaN or an infinity.")
        return x

    def to_torch(self) -> Any:
        """The transformer as a ``torch.nn.Module`` in double precision (needs the extra ``training``)."""
        from hardmax.flow.theorems.torch_export import transformer_module

        return transformer_module(self)
