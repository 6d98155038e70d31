"""torch's attention modules with a fixed context, written into a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.errors import UnsupportedNetworkError
from hardmax.networks.attention import Attention
from hardmax.networks.reading.graph import Tensor
from hardmax.networks.reading.torch_operations import Refused, layer_norm
from hardmax.networks.reading.torch_weights import array_of


@dataclass(frozen=True)
class AttentionOptions:
    """The context and the rule of attention; see :meth:`~hardmax.networks.attention.Attention.from_torch`."""

    context: Any
    rule: str = "hardmax"
    k: int | None = None
    temperature: Any = None
    ties: str = "mean"
    mask: Any = None

    def attention(self, module: Any, *, skip: bool) -> Attention:
        """The block of an ``nn.MultiheadAttention``."""
        options = {name: getattr(self, name) for name in ("rule", "k", "temperature", "ties", "mask")}
        try:
            return Attention.from_torch(module, self.context, skip=skip, **options)
        except UnsupportedNetworkError as error:
            raise Refused("holding " + ", ".join(error.obstacles)) from None

    def description(self) -> dict[str, Any]:
        """What is saved along."""
        return {"context": [int(n) for n in np.shape(self.context)], "rule": self.rule}


def multihead(module: Any, x: Tensor, options: AttentionOptions) -> Tensor:
    """What ``nn.MultiheadAttention`` gives for a query, with keys and values from the context."""
    return x.graph.block(x, options.attention(module, skip=False))


def encoder_layer(module: Any, x: Tensor, options: AttentionOptions) -> Tensor:
    """A transformer layer for one token, with keys and values from the context."""
    activation = module.activation
    name = getattr(activation, "__name__", type(activation).__name__).lower()
    if module.norm_first:
        raise Refused("with norm_first, where the input must pass beside a LayerNorm")
    if name != "relu":
        raise Refused(f"with activation {name}")
    if module.training and max(part.p for part in (module.dropout, module.dropout1, module.dropout2)) > 0:
        raise Refused("in training mode (call module.eval() first)")
    graph = x.graph
    y = _normed(graph.block(x, options.attention(module.self_attn, skip=True)), module.norm1)
    hidden = graph.relu(_linear(y, module.linear1))
    return _normed(graph.add(y, _linear(hidden, module.linear2)), module.norm2)


def _linear(x: Tensor, part: Any) -> Tensor:
    return x.graph.affine(x, array_of(part.weight), None if part.bias is None else array_of(part.bias))


def _normed(x: Tensor, part: Any) -> Tensor:
    if type(part).__name__ != "LayerNorm":
        raise Refused(f"with a {type(part).__name__}")
    weight, bias = (None if v is None else array_of(v) for v in (part.weight, part.bias))
    return layer_norm(x, part.normalized_shape, weight, bias, part.eps)
