r"""The transformer of P2 section 3 with given weights, equations (1) and (2), and its feed-forward blocks.

Queries come from the tokens and from the CLS token, keys and values from the T tokens only; every attention
layer has a residual connection, the feed-forward blocks have none:

.. math::

    x_l'(t) = x_l(t) + W_{O} \sum_{s=1}^{T} \sigma_\beta\bigl[(W_{Q} x_l(t))^\top W_{K} x_l(s)\bigr]\, W_{V}
    x_l(s), \qquad x_{l+1}(t) = F_l(x_l'(t)), \qquad y = \hat F(c_L'),

the same for the CLS token :math:`c_l`, and heads beside each other. The inverse temperature :math:`\beta`
is kept apart from the weights: P2's bound of 1 is on the weights, and its construction needs :math:`\beta
\sim \log(T)/\varepsilon`. A block is

.. math:: y = W_{out} \sigma(W_{in} x + b_{in}) + b_{out}, \qquad \sigma = \tanh \text{ or } 1_{\{z \ge 0\}} .

The parameters of P2 are the entries of all arrays, zeros included (the *dense* count); its weight bound is on
their absolute values. A block may end in units that pass their input on unchanged: no tanh network has them,
the Heaviside form of a code does, and :func:`hardmax.flow.theorems.codes.analog_code` replaces them by flat
tanh units. ``to_torch`` makes torch modules with the weights as parameters, to be inspected, fine-tuned or
run elsewhere; torch is imported there and not before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import DimensionMismatchError, InvalidInputError, MissingExtraError, NotFiniteError

Floats = NDArray[np.float64]
Activation = Literal["tanh", "heaviside"]

_BLOCK = 4_000_000  # hidden values that are held at once


@dataclass(frozen=True, eq=False)
class TwoLayer:
    r"""A two-layer block: :math:`x \mapsto W_{out}\,\sigma(W_{in} x + b_{in}) + b_{out}`.

    Parameters
    ----------
    w_in, b_in : array of shape (width, inputs), (width,)
    w_out, b_out : array of shape (outputs, width), (outputs,)
    activation : {"tanh", "heaviside"}
        The Heaviside function is 1 at zero, as in P2.
    n_linear : int
        How many of the last units hand their input on unchanged.

    Examples
    --------
    >>> net = TwoLayer([[1.0], [2.0]], [0.0, -1.0], [[1.0, 1.0]], [0.0], activation="heaviside")
    >>> net([[-1.0], [0.0], [0.5]]).ravel()
    array([0., 1., 2.])
    >>> net.width, net.n_parameters, net.largest_weight
    (2, 7, 2.0)
    """

    w_in: Floats
    b_in: Floats
    w_out: Floats
    b_out: Floats
    activation: Activation = "tanh"
    n_linear: int = 0

    def __post_init__(self) -> None:
        for name, axes in (("w_in", 2), ("b_in", 1), ("w_out", 2), ("b_out", 1)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, axes))
        if self.activation not in ("tanh", "heaviside"):
            raise InvalidInputError(f"activation must be tanh or heaviside, but was {self.activation!r}.")
        width = len(self.b_in)
        if len(self.w_in) != width or self.w_out.shape != (len(self.b_out), width):
            shapes = ", ".join(str(array.shape) for array in self.arrays)
            raise DimensionMismatchError(
                f"w_in, b_in, w_out and b_out must have one width, but their shapes are {shapes}."
            )
        if not 0 <= self.n_linear <= width:
            raise InvalidInputError(f"n_linear must lie between 0 and {width}, but was {self.n_linear!r}.")

    @property
    def width(self) -> int:
        """The number of hidden units."""
        return len(self.b_in)

    @property
    def d_in(self) -> int:
        """The number of inputs."""
        return int(self.w_in.shape[1])

    @property
    def d_out(self) -> int:
        """The number of outputs."""
        return len(self.b_out)

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """The weights and biases."""
        return self.w_in, self.b_in, self.w_out, self.b_out

    @property
    def n_parameters(self) -> int:
        """Entries of the four arrays, zeros included."""
        return sum(array.size for array in self.arrays)

    @property
    def largest_weight(self) -> float:
        """The largest absolute value of a weight or bias."""
        return _largest(self.arrays)

    def lipschitz(self) -> float:
        r"""A Lipschitz constant in the maximum norms, :math:`\lVert\, |W_{out}|\,|W_{in}|\, \rVert_\infty`.

        For weights of at most B it is at most :math:`p B^2 n` (tanh blocks only).
        """
        if self.activation != "tanh":
            raise InvalidInputError(
                f"activation must be tanh for a Lipschitz constant, but was {self.activation}."
            )
        return float((np.abs(self.w_out) @ np.abs(self.w_in)).sum(axis=1).max(initial=0.0))

    def __call__(self, x: ArrayLike) -> Floats:
        """Values at points: (..., inputs) -> (..., outputs)."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] != self.d_in:
            raise DimensionMismatchError(
                f"x must have {self.d_in} entries along its last axis, but has shape {points.shape}."
            )
        if not np.isfinite(points).all():
            raise NotFiniteError("x must be finite, but holds NaN or an infinity.")
        rows = points.reshape(-1, self.d_in)
        values = np.empty((len(rows), self.d_out))
        step = max(1, _BLOCK // max(1, self.width))
        for start in range(0, len(rows), step):
            hidden = rows[start : start + step] @ self.w_in.T + self.b_in
            bent = hidden[:, : self.width - self.n_linear]
            if self.activation == "tanh":
                np.tanh(bent, out=bent)
            else:
                bent[...] = bent >= 0.0
            values[start : start + step] = hidden @ self.w_out.T + self.b_out
        return values.reshape(*points.shape[:-1], self.d_out)

    def to_torch(self) -> Any:
        """The block as a ``torch.nn.Module`` in double precision (needs the extra ``training``)."""
        torch, net = _torch(), self

        class TwoLayerModule(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                _add_parameters(self, net, "w_in", "b_in", "w_out", "b_out")

            def forward(self, x: Any) -> Any:
                hidden = x @ self.w_in.T + self.b_in
                n_bent = net.width - net.n_linear
                bent = hidden[..., :n_bent]
                bent = torch.tanh(bent) if net.activation == "tanh" else (bent >= 0).to(hidden.dtype)
                return torch.cat([bent, hidden[..., n_bent:]], dim=-1) @ self.w_out.T + self.b_out

        return TwoLayerModule()


def frozen_array(value: ArrayLike, name: str, axes: int) -> Floats:
    """``value`` as a read-only array of finite floats with so many axes.

    >>> frozen_array([1, 2], "b_in", 1)
    array([1., 2.])
    """
    array = np.array(value, dtype=np.float64)
    if array.ndim != axes:
        raise DimensionMismatchError(f"{name} must have {axes} axes, but has shape {array.shape}.")
    if not np.isfinite(array).all():
        raise NotFiniteError(f"{name} must be finite, but holds NaN or an infinity.")
    array.setflags(write=False)
    return array


def positive_number(value: Any, name: str, *, below: float = math.inf) -> float:
    """``value`` as a float, positive, finite and less than ``below``.

    >>> positive_number(0, "epsilon")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: epsilon must be a positive finite number, but was 0.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (0.0 < number < math.inf and number < below):
        limit = f" below {below:g}" if below < math.inf else ""
        raise InvalidInputError(f"{name} must be a positive finite number{limit}, but was {value!r}.")
    return number


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
            shapes = ", ".join(str(array.shape) for array in self.arrays)
            raise DimensionMismatchError(
                f"w_q, w_k and w_v must be (heads, n, E) and w_o (E, heads n), but the shapes are {shapes}."
            )

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """The weights."""
        return self.w_q, self.w_k, self.w_v, self.w_o

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

    def to_torch(self) -> Any:
        """The layer as a ``torch.nn.Module`` of (queries, tokens, beta) (needs the extra ``training``)."""
        torch, layer = _torch(), self

        class AttentionModule(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                _add_parameters(self, layer, "w_q", "w_k", "w_v", "w_o")

            def forward(self, queries: Any, tokens: Any, beta: float) -> Any:
                q = torch.einsum("hne,bse->bhsn", self.w_q, queries)
                k = torch.einsum("hne,bte->bhtn", self.w_k, tokens)
                v = torch.einsum("hne,bte->bhtn", self.w_v, tokens)
                mixed = torch.softmax(beta * (q @ k.transpose(2, 3)), dim=3) @ v
                return queries + mixed.permute(0, 2, 1, 3).flatten(2) @ self.w_o.T

        return AttentionModule()


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
        bias = self.embedding_bias.size if self.embedding_bias.any() else 0
        return sum(array.size for array in self.arrays) + bias

    @property
    def largest_weight(self) -> float:
        """The largest absolute value of a weight; beta is kept apart."""
        return _largest((self.embedding_bias, *self.arrays))

    @property
    def arrays(self) -> tuple[Floats, ...]:
        """All weights but the embedding bias."""
        parts: list[SoftmaxLayer | TwoLayer] = [*self.layers, *self.blocks, self.output]
        return (self.embedding, self.cls, *(array for part in parts for array in part.arrays))

    def with_beta(self, beta: float) -> SoftmaxTransformer:
        """The same weights at another inverse temperature."""
        return replace(self, beta=beta)

    def states(self, tokens: ArrayLike) -> list[tuple[Floats, Floats]]:
        """What each attention layer leaves behind: tokens (B, T, E) and CLS (B, E), layer by layer."""
        x = self._checked(tokens)
        state = np.zeros((*x.shape[:2], self.layers[0].width))
        state[:, :, : len(self.embedding)] = x @ self.embedding.T + self.embedding_bias
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
        torch, net = _torch(), self

        class TransformerModule(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                _add_parameters(self, net, "embedding", "embedding_bias", "cls")
                self.layers = torch.nn.ModuleList([layer.to_torch() for layer in net.layers])
                self.blocks = torch.nn.ModuleList([block.to_torch() for block in net.blocks])
                self.output, self.beta = net.output.to_torch(), net.beta

            def forward(self, tokens: Any) -> Any:
                x = tokens @ self.embedding.T + self.embedding_bias
                x = torch.nn.functional.pad(x, (0, len(self.cls) - x.shape[2]))
                cls = self.cls.expand(len(x), 1, -1)
                for number, layer in enumerate(self.layers):
                    x, cls = layer(x, x, self.beta), layer(cls, x, self.beta)
                    if number < len(self.blocks):
                        x, cls = self.blocks[number](x), self.blocks[number](cls)
                values = self.output(cls[:, 0])
                return values[:, 0] if values.shape[1] == 1 else values

        return TransformerModule()


def _largest(arrays: Iterable[Floats]) -> float:
    return max(float(np.abs(array).max(initial=0.0)) for array in arrays)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            "to_torch needs torch, which is not installed; try: pip install torch."
        ) from error
    return torch


def _add_parameters(module: Any, weights: Any, *names: str) -> None:
    """Arrays of ``weights`` as parameters of a torch module, under the same names."""
    torch = _torch()
    for name in names:
        array = torch.tensor(np.array(getattr(weights, name)), dtype=torch.float64)
        setattr(module, name, torch.nn.Parameter(array))
