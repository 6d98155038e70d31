"""Constructions as torch modules, weights as parameters: to be inspected, fine-tuned or run elsewhere.

torch is imported when a module is asked for and not before; nothing else in this package knows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.errors import MissingExtraError

if TYPE_CHECKING:
    from hardmax.flow.theorems.codes import Code
    from hardmax.flow.theorems.softmax_transformers import SoftmaxLayer, SoftmaxTransformer
    from hardmax.flow.theorems.two_layer import TwoLayer

__all__ = ["code_module", "transformer_module", "two_layer_module"]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            "to_torch needs torch, which is not installed; try: pip install 'hardmax[training]'."
        ) from error
    return torch


def _parameter(array: Any) -> Any:
    torch = _torch()
    return torch.nn.Parameter(torch.tensor(np.array(array), dtype=torch.float64))


def two_layer_module(net: TwoLayer) -> Any:
    """A :class:`~hardmax.flow.theorems.two_layer.TwoLayer` as a torch module with its four arrays as
    parameters."""
    torch = _torch()

    class TwoLayerModule(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w_in, self.b_in = _parameter(net.w_in), _parameter(net.b_in)
            self.w_out, self.b_out = _parameter(net.w_out), _parameter(net.b_out)
            self.activation, self.n_linear = net.activation, net.n_linear

        def forward(self, x: Any) -> Any:
            hidden = x @ self.w_in.T + self.b_in
            n_bent = hidden.shape[-1] - self.n_linear
            bent = hidden[..., :n_bent]
            bent = torch.tanh(bent) if self.activation == "tanh" else (bent >= 0).to(hidden.dtype)
            return torch.cat([bent, hidden[..., n_bent:]], dim=-1) @ self.w_out.T + self.b_out

    return TwoLayerModule()


def _layer_module(layer: SoftmaxLayer) -> Any:
    torch = _torch()

    class AttentionModule(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w_q, self.w_k = _parameter(layer.w_q), _parameter(layer.w_k)
            self.w_v, self.w_o = _parameter(layer.w_v), _parameter(layer.w_o)

        def forward(self, queries: Any, tokens: Any, beta: float) -> Any:
            q = torch.einsum("hne,bse->bhsn", self.w_q, queries)
            k = torch.einsum("hne,bte->bhtn", self.w_k, tokens)
            v = torch.einsum("hne,bte->bhtn", self.w_v, tokens)
            mixed = torch.softmax(beta * (q @ k.transpose(2, 3)), dim=3) @ v
            return queries + mixed.permute(0, 2, 1, 3).flatten(2) @ self.w_o.T

    return AttentionModule()


def transformer_module(net: SoftmaxTransformer) -> Any:
    """A :class:`~hardmax.flow.theorems.softmax_transformers.SoftmaxTransformer` as a torch module."""
    torch = _torch()

    class TransformerModule(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.embedding_bias = _parameter(net.embedding), _parameter(net.embedding_bias)
            self.cls, self.beta = _parameter(net.cls), net.beta
            self.layers = torch.nn.ModuleList([_layer_module(layer) for layer in net.layers])
            self.blocks = torch.nn.ModuleList([two_layer_module(block) for block in net.blocks])
            self.output = two_layer_module(net.output)

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


def code_module(code: Code) -> Any:
    """A :class:`~hardmax.flow.theorems.codes.Code` as a torch ``Sequential``: the encoder, then the
    decoder."""
    torch = _torch()
    return torch.nn.Sequential(two_layer_module(code.encoder), two_layer_module(code.decoder))
