r"""A trained transformer of P2 as blocks that move with the input.

CLS is one more token, the last: its input is a row of zeros, and a block of positions
turns what the encoder makes of zeros into CLS, exactly. It asks, and is never a key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax.errors import InvalidInputError
from hardmax.exact.arithmetic import fractions_of
from hardmax.exact.rationals import as_exact
from hardmax.networks.blocks import Affine, FeedForward
from hardmax.networks.norms import LayerNorm
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.smooth import SmoothFeedForward
from hardmax.networks.transformer import Positions, Transformer
from hardmax.training.layout import TransformerShape
from hardmax.training.states import head_weights, parameter_arrays


def transformer_of(
    shape: TransformerShape, parameters: ArrayLike, mean: Any, scale: Any, *, rule: str = "hardmax"
) -> Transformer:
    """The transformer of a shape and its parameters; a prediction is ``mean + scale *`` the output."""
    if shape.encoder_hidden and shape.activation != "relu":
        raise InvalidInputError(
            f"shape must have a linear encoder or ReLU units, but has an encoder with {shape.activation}: "
            "CLS is made of what the encoder gives for zeros, without rounding."
        )
    arrays = parameter_arrays(shape, parameters)
    n, width = shape.n_tokens, shape.widths[0]
    encoder, bias = (_padded(arrays[f"encoder.{part}"], width) for part in ("weight", "bias"))
    if shape.encoder_hidden:
        first: Any = FeedForward(
            arrays["encoder_hidden.weight"], arrays["encoder_hidden.bias"], encoder, bias
        )
    else:
        first = Affine(encoder, bias)
    blocks: list[Any] = [first, Positions(_places(shape, arrays, first))]
    mask = np.ones((n + 1, n + 1), dtype=np.bool_)
    mask[:, n] = False
    for layer in range(shape.depth):
        heads = head_weights(shape, parameters, layer)
        blocks.append(
            SelfAttention(
                heads.W_Q,
                heads.W_K,
                heads.W_V,
                heads.W_O,
                mask=mask,
                rule=rule,
                temperature=1.0 / heads.beta if rule == "softmax" else None,
            )
        )
        inside, outside = f"layers.{layer}.hidden", f"layers.{layer}.out"
        names = (f"{inside}.weight", f"{inside}.bias", f"{outside}.weight", f"{outside}.bias")
        if shape.layer_norm:
            scaled, shifted = (arrays[f"layers.{layer}.norm.{part}"] for part in ("weight", "bias"))
            blocks.append(LayerNorm(scaled, shifted, epsilon=1e-5))
        weights = [arrays[name] for name in names]
        if shape.activation == "relu":
            blocks.append(FeedForward(*weights))
        else:  # GELU in its tanh form
            smooth = {"gelu": "gelu-tanh", "tanh": "tanh"}[shape.activation]
            blocks.append(SmoothFeedForward(*weights, activation=smooth))
    blocks.append(Affine(np.diag(np.asarray(scale, dtype=np.float64)), np.asarray(mean, dtype=np.float64)))
    return Transformer(tuple(blocks), (n,), {"made_by": "hardmax training"})


def _padded(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with rows of zeros below, where appended positions stand."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]))])


def _places(shape: TransformerShape, arrays: Any, first: Any) -> NDArray[np.object_]:
    """What is added to each token, and what makes CLS of a row of zeros, without rounding."""
    n, width = shape.n_tokens, shape.widths[0]
    added = np.zeros((n + 1, width))
    cls = fractions_of(as_exact(arrays["cls"], "cls", ndim=1)).copy()
    if shape.positions is not None:
        places = np.asarray(arrays["positions"], dtype=np.float64)
        added[:n, width - len(places) :] = places[:, :n].T
        if shape.cls_position:
            own = fractions_of(as_exact(places[:, n], "positions", ndim=1))
            cls[width - len(places) :] += own
    exact = fractions_of(as_exact(added, "positions", ndim=2)).copy()
    exact[n] = cls - Transformer((first,)).exact_value(np.zeros((1, shape.d_token)))[0]
    return exact
