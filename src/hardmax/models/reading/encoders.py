"""BERT encoders as transformers of blocks, number by number, to be followed along segments.

A BERT layer normalises *behind* its sums: attention with a skip, a norm, GELU units with a skip, a norm.
These are the blocks of :class:`~hardmax.networks.transformer.Transformer`, so nothing is left out or frozen.
Models that normalise in front of attention, and those whose queries are turned by their positions, have no
such form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError, UnsupportedModelError
from hardmax.models.reading.families import norm_epsilon
from hardmax.models.reading.loading import open_model
from hardmax.networks.blocks import FeedForward
from hardmax.networks.norms import LayerNorm
from hardmax.networks.self_attention import SelfAttention
from hardmax.networks.smooth import SmoothFeedForward
from hardmax.networks.transformer import Transformer

Floats = NDArray[np.float64]

_ENCODERS = ("bert",)
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "silu": "silu"}


def encoder_transformer(model: Any, *, depth: int | None = None, hub: bool = False) -> Transformer:
    """A BERT encoder as a :class:`~hardmax.networks.transformer.Transformer`, with softmax, norms and GELU.

    Parameters
    ----------
    model : path-like, nn.Module or OpenModel
        As in :func:`~hardmax.models.reading.loading.open_model`; of the family ``bert``, as MiniLM is.
    depth : int, optional
        Only so many layers from the first one on. With 0 only the norm behind the embeddings is left.
    hub : bool
        Whether the network may be used to bring ``model`` here.

    Returns
    -------
    Transformer
        It takes what :func:`token_embeddings` gives, and puts out the states of all tokens behind the last
        layer. Weights are those of the model, without rounding.

    Raises
    ------
    UnsupportedModelError
        When the model is of another family, or has another activation.

    Examples
    --------
    >>> import hardmax as hm
    >>> minilm = hm.models.encoder_transformer("all-MiniLM-L6-v2", depth=1)          # doctest: +SKIP
    >>> start = hm.models.token_embeddings("all-MiniLM-L6-v2", "The cat sat.")       # doctest: +SKIP
    >>> end = hm.models.token_embeddings("all-MiniLM-L6-v2", "The dog sat.")         # doctest: +SKIP
    >>> hm.trace_segment(minilm, start, end)                                         # doctest: +SKIP
    <CertifiedTrace: 199 pieces, complete, certified>
    """
    opened = open_model(model, hub=hub)
    config, body = opened.module.config, opened.module.base_model
    found = []
    if opened.family not in _ENCODERS:
        found.append(f"its family {opened.family!r} is not made of attention, norms and units in that order")
    elif config.is_decoder or getattr(config, "add_cross_attention", False):
        found.append("it is a decoder")
    elif config.hidden_act not in (*_ACTIVATIONS, "relu"):
        found.append(f"its activation {config.hidden_act!r} is not enclosed")
    if found:
        raise UnsupportedModelError(opened.name, found, list(_ENCODERS))
    n_layers = opened.n_layers
    if depth is not None and not 0 <= depth <= n_layers:
        raise InvalidInputError(
            f"depth must be from 0 to the {n_layers} layers of the model, but was {depth}."
        )
    blocks: list[Any] = [_norm(body.embeddings.LayerNorm)]
    for layer in list(body.encoder.layer)[: n_layers if depth is None else depth]:
        attention, inner, outer = layer.attention, layer.intermediate.dense, layer.output
        blocks += [_attention(attention, opened), _norm(attention.output.LayerNorm)]
        weights = [_array(part) for part in (inner.weight, inner.bias, outer.dense.weight, outer.dense.bias)]
        if config.hidden_act == "relu":
            blocks.append(FeedForward(*weights, skip=True))
        else:
            smooth = _ACTIVATIONS[config.hidden_act]
            blocks.append(SmoothFeedForward(*weights, activation=smooth, skip=True))
        blocks.append(_norm(outer.LayerNorm))
    return Transformer(tuple(blocks), None, {"made_by": "hardmax", "model": opened.name})


def token_embeddings(model: Any, text: str, *, hub: bool = False) -> Floats:
    """What :func:`encoder_transformer` takes for a text: words, positions and segments, summed in float64.

    Parameters
    ----------
    model : path-like, nn.Module or OpenModel
    text : str
    hub : bool

    Returns
    -------
    (T, d) float64

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.models.token_embeddings("all-MiniLM-L6-v2", "The cat sat.").shape         # doctest: +SKIP
    (6, 384)
    """
    opened = open_model(model, hub=hub)
    if opened.family not in _ENCODERS:
        raise UnsupportedModelError(opened.name, ["it is no BERT encoder"], list(_ENCODERS))
    words = opened.encode(text)["input_ids"][0].tolist()
    parts = opened.module.base_model.embeddings
    tables = [_array(table.weight) for table in (parts.position_embeddings, parts.token_type_embeddings)]
    return np.asarray(_array(parts.word_embeddings.weight[words]) + tables[0][: len(words)] + tables[1][0])


def _attention(module: Any, opened: Any) -> SelfAttention:
    own, out = module.self, module.output.dense
    heads = opened.heads[0]
    weights = [_array(part.weight) for part in (own.query, own.key, own.value)]
    biases = [_array(part.bias) for part in (own.query, own.key, own.value)]
    size = weights[0].shape[0] // heads
    W_Q, W_K, W_V = (w.reshape(heads, size, -1) for w in weights)
    b_Q, b_K, b_V = (b.reshape(heads, size) for b in biases)
    W_O = _array(out.weight).reshape(-1, heads, size).transpose(1, 0, 2)
    return SelfAttention(
        W_Q,
        W_K,
        W_V,
        W_O,
        b_Q=b_Q,
        b_K=b_K,
        b_V=b_V,
        b_O=_array(out.bias),
        rule="softmax",
        temperature=float(np.sqrt(size)),
    )


def _norm(module: Any) -> LayerNorm:
    return LayerNorm(_array(module.weight), _array(module.bias), epsilon=norm_epsilon(module))


def _array(tensor: Any) -> Floats:
    return np.asarray(tensor.detach().cpu().double().numpy())
