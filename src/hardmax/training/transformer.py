r"""The transformer of P2 section 3 as a readable torch module, and its plain training loop (needs the extra
``training``).

.. math::

    x_l'(t) = x_l(t) + W_{O,l} \operatorname{Concat}_i \sum_{s=1}^{T} \sigma_{\beta_l}\bigl[(W_{Q,i,l}\,
    x_l(t))^\top W_{K,i,l}\, x_l(s)\bigr] W_{V,i,l}\, x_l(s), \qquad x_{l+1}(t) = F_l(x_l'(t)),

the same for CLS, which attends but is never a key, and :math:`y = \hat F(c_L')`. Head i is rows :math:`i n_l`
to :math:`(i+1) n_l` of the query, key and value matrices. Names and shapes of the parameters are those of
:class:`~hardmax.training.layout.TransformerShape`, so a module and a vector are two views of one model.
:class:`TorchSteps` is the reference for the fused step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import DimensionMismatchError, MissingExtraError
from hardmax.training.layout import TransformerShape

try:
    import torch
    from torch import nn
except ImportError as error:
    raise MissingExtraError(
        "hardmax.training.transformer needs torch, which is not installed; try: "
        "pip install torch safetensors (or train with path='fused')."
    ) from error

Floats = NDArray[np.float32]


class AttentionLayer(nn.Module):
    """Equation (1): multi-head attention over the tokens, with a residual connection."""

    def __init__(self, width: int, heads: int, beta: float, *, layer_norm: bool = False) -> None:
        super().__init__()
        self.heads, self.beta = heads, beta
        for name in ("query", "key", "value", "output"):
            self.register_parameter(name, nn.Parameter(torch.zeros(width, width)))
        self.norm = nn.LayerNorm(width) if layer_norm else nn.Identity()

    def weights(self, queries: Any, tokens: Any) -> Any:
        """The attention weights: (B, S, E), (B, T, E) -> (B, h, S, T)."""
        q, k = self._by_head(queries, self.query), self._by_head(tokens, self.key)
        return torch.softmax(self.beta * (q @ k.transpose(2, 3)), dim=3)

    def _by_head(self, states: Any, matrix: Any) -> Any:
        return (states @ matrix.T).unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, queries: Any, tokens: Any) -> Any:
        """The states of the queries after attention: (B, S, E), (B, T, E) -> (B, S, E)."""
        mixed = self.weights(queries, tokens) @ self._by_head(tokens, self.value)
        return self.norm(queries + mixed.transpose(1, 2).flatten(2) @ self.output.T)


class Transformer(nn.Module):
    """The transformer of a shape; without a vector of parameters all are zero until :meth:`load_vector`."""

    def __init__(self, shape: TransformerShape, vector: NDArray[Any] | None = None) -> None:
        super().__init__()
        self.shape = shape
        first = shape.widths[0]
        self.encoder_hidden = nn.Linear(shape.d_token, shape.encoder_hidden) if shape.encoder_hidden else None
        self.encoder = nn.Linear(shape.encoder_hidden or shape.d_token, shape.d_embedded)
        self.cls = nn.Parameter(torch.zeros(first))
        positions = (shape.d_position or 0, shape.n_tokens + shape.cls_position)
        self.positions = nn.Parameter(torch.zeros(positions)) if shape.positions else None
        layers = []
        for number, (width, heads, hidden) in enumerate(
            zip(shape.widths, shape.heads, shape.hidden, strict=True)
        ):
            above = shape.widths[number + 1] if number + 1 < shape.depth else shape.n_outputs
            layer = AttentionLayer(width, heads, shape.betas[number], layer_norm=shape.layer_norm)
            layer.hidden, layer.out = nn.Linear(width, hidden), nn.Linear(hidden, above)
            layers.append(layer)
        self.layers = nn.ModuleList(layers)
        if vector is not None:
            self.load_vector(vector)

    def activation(self, x: Any) -> Any:
        """tanh, ReLU, or GELU in its tanh form."""
        if self.shape.activation == "gelu":
            return nn.functional.gelu(x, approximate="tanh")
        return torch.tanh(x) if self.shape.activation == "tanh" else torch.relu(x)

    def embedded(self, X: Any) -> tuple[Any, Any]:
        """Tokens (B, T, E) and CLS (B, 1, E) before the first layer."""
        x = X if self.encoder_hidden is None else self.activation(self.encoder_hidden(X))
        x = self.encoder(x)
        cls = self.cls
        if self.positions is not None:
            T = self.shape.n_tokens
            here = self.positions[:, :T].T
            appended = self.shape.positions == "appended"
            x = torch.cat([x, here.expand(len(X), -1, -1)], dim=2) if appended else x + here
            if self.shape.cls_position:
                own = self.positions[:, T]
                cls = cls + nn.functional.pad(own, (len(cls) - len(own), 0))
        return x, cls.expand(len(X), 1, -1)

    def states(self, X: Any) -> list[tuple[Any, Any]]:
        """What each attention layer leaves behind: tokens (B, T, E) and CLS (B, 1, E), layer by layer."""
        x, cls = self.embedded(X)
        left = []
        for number, layer in enumerate(self.layers):
            after = layer(x, x), layer(cls, x)
            left.append(after)
            if number + 1 < len(self.layers):
                x, cls = (layer.out(self.activation(layer.hidden(state))) for state in after)
        return left

    def forward(self, X: Any) -> Any:
        """(B, T, d) -> (B, outputs); the last layer is computed for CLS only."""
        x, cls = self.embedded(X)
        for number, layer in enumerate(self.layers):
            last = number + 1 == len(self.layers)
            both = layer(cls if last else torch.cat([x, cls], dim=1), x)
            both = layer.out(self.activation(layer.hidden(both)))
            x, cls = both[:, : self.shape.n_tokens], both[:, -1:]
        return cls[:, 0]

    # A module and a vector are two views of one model
    # ------------------------------------------------------------------------------

    def vector(self, *, gradient: bool = False) -> NDArray[np.float32]:
        """All parameters, or their gradients, in the order of the shape."""
        named = dict(self.named_parameters())
        arrays = {name: value.grad if gradient else value for name, value in named.items()}
        return self.shape.join({name: value.detach().cpu().numpy() for name, value in arrays.items()})

    def load_vector(self, vector: NDArray[Any]) -> None:
        """Take over the parameters of a vector."""
        arrays = self.shape.split(np.array(vector))
        if set(arrays) != {name for name, _ in self.named_parameters()}:
            raise DimensionMismatchError("the module and its shape must name the same parameters.")
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(arrays[name])))


class TorchSteps:
    """AdamW steps of a :class:`~hardmax.training.transformer.Transformer` on the mean squared error."""

    def __init__(
        self,
        shape: TransformerShape,
        vector: Floats,
        *,
        batch: int = 128,
        weight_decay: float = 1e-2,
        clip: float = 1.0,
    ) -> None:
        self.model = Transformer(shape, vector)
        self._batch, self._clip = batch, clip
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1.0, weight_decay=weight_decay)

    @property
    def parameters(self) -> Floats:
        """A copy of the vector."""
        return self.model.vector()

    def run(self, X: Floats, Y: Floats, order: NDArray[np.int64], rates: NDArray[np.float64]) -> float:
        """One step for each rate, on consecutive batches of ``order``; the mean loss."""
        losses = []
        for number, rate in enumerate(rates):
            rows = order[number * self._batch : (number + 1) * self._batch]
            for group in self._optimizer.param_groups:
                group["lr"] = float(rate)
            self._optimizer.zero_grad()
            loss = ((self.model(torch.from_numpy(X[rows])) - torch.from_numpy(Y[rows])) ** 2).mean()
            loss.backward()
            if self._clip > 0:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip)
            self._optimizer.step()
            losses.append(float(loss.detach()))
        return float(np.mean(losses))

    def predict(self, X: Floats) -> Floats:
        """(B, T, d) -> (B, outputs)."""
        with torch.no_grad():
            parts = torch.from_numpy(np.array(X)).split(1024)
            return np.concatenate([self.model(part).numpy() for part in parts])
