"""The numbers of torch's tensors and attention modules, by duck typing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, UnsupportedNetworkError


def array_of(tensor: Any) -> NDArray[Any]:
    """The numbers of a tensor; numpy knows no bfloat16, and as doubles all floats of torch are exact.

    >>> array_of([[1, 2]])
    array([[1, 2]])
    """
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    kept = tensor.detach().cpu()
    return np.asarray(kept.double() if kept.is_floating_point() else kept)


def head_matrices(module: Any) -> dict[str, Any]:
    """The matrices and vectors of the heads of ``nn.MultiheadAttention``, by the names of
    :meth:`~hardmax.networks.attention.Attention.from_weights`.
    """
    if type(module).__name__ != "MultiheadAttention":
        raise InvalidInputError(
            f"module must be an nn.MultiheadAttention, but is a {type(module).__name__}; for a layer that "
            "holds one, try Network.from_torch(module, context=...)."
        )
    obstacles = []
    if module.bias_k is not None or module.bias_v is not None:
        obstacles.append("MultiheadAttention with add_bias_kv")
    if module.add_zero_attn:
        obstacles.append("MultiheadAttention with add_zero_attn")
    if module.training and module.dropout > 0:
        obstacles.append("MultiheadAttention with dropout in training mode (call module.eval() first)")
    if module.kdim != module.vdim:
        obstacles.append("MultiheadAttention whose keys and values are read from different spaces")
    if obstacles:
        raise UnsupportedNetworkError(obstacles)
    heads = module.num_heads
    if module.in_proj_weight is not None:
        w_q, w_k, w_v = np.split(array_of(module.in_proj_weight), 3)
    else:
        w_q, w_k, w_v = (array_of(getattr(module, f"{name}_proj_weight")) for name in "qkv")
    matrices: dict[str, Any] = {
        "W_Q": np.split(w_q, heads),
        "W_K": np.split(w_k, heads),
        "W_V": np.split(w_v, heads),
        "W_O": np.split(array_of(module.out_proj.weight), heads, axis=1),
    }
    if module.in_proj_bias is not None:
        names = ("b_Q", "b_K", "b_V")
        biases = np.split(array_of(module.in_proj_bias), 3)
        matrices |= {name: np.split(b, heads) for name, b in zip(names, biases, strict=True)}
    if module.out_proj.bias is not None:
        matrices["b_O"] = array_of(module.out_proj.bias)
    return matrices
