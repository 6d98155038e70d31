r"""Families of transformers: how each makes its queries, and which models are not understood.

transformers hands queries, keys, values, masks and scales of every family to one attention interface
(:mod:`hardmax.models.reading.capture`), so a family only says what stands before it and after it: the
projection :math:`W_Q, b_Q`, a norm of queries, a rotation, and :math:`W_O`. What it says is checked on every
reading: the queries that follow from it must be those that were captured.

A query is :math:`q = R_t\, n(W_Q x + b_Q)`, with a norm n in some families and the rotation :math:`R_t` of
position t in others. Without a norm this is affine in x, with a matrix that depends on the position where
there is a rotation. A norm :math:`n(y) = g \odot y / r(y) + s` (after centring y in some families) is not
affine: its r(y) is held at the value that the token really had, which :attr:`QueryMap.frozen` says. The map
then gives the true query of that token, and for other inputs the query of the frozen layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedModelError
from hardmax.models.reading.sources import Floats, QueryMap

__all__ = [
    "FAMILIES",
    "Family",
    "QueryWay",
    "attention_modules",
    "family_of",
    "longest_text",
    "obstacles",
    "output_weights",
    "rotated",
]


@dataclass(frozen=True)
class Family:
    """Where the parts of an attention module are.

    Attributes
    ----------
    query : str
        The attribute with W_Q and b_Q.
    packing : {"alone", "stacked", "by head", "transposed"}
        What that attribute holds: queries alone; queries, then keys, then values; the three of the first
        head, then of the next; or stacked as columns (inputs times matrix).
    output : str
        The attribute with W_O; ``..output.dense`` is one of the module that holds the attention module.
    rotary : {None, "halves", "pairs", "pairs from halves"}
        Which coordinates are turned together: i and i + r/2, or 2i and 2i + 1, with the angle of pair i at 2i
        or at i in the model's table.
    rotary_if : str or None
        The attribute that says whether this layer turns its queries at all.
    norm : str or None
        The attribute with the norm of queries, where a layer has one.
    norm_kind : {"rms", "rms plus one", "centred"}
        Root mean square with a gain, with a gain of one plus the weight, or centred with a gain and a shift.
    norm_over : {"head", "all heads"}
        Over which coordinates it is taken.
    factor : str or None
        The attribute by which queries are multiplied before attention receives them.
    after_padding : bool
        Whether positions are counted from the number of the padding token, which costs that many of them.
    images : bool
        Whether the model reads images instead of text.
    """

    query: str
    packing: Literal["alone", "stacked", "by head", "transposed"] = "alone"
    output: str = "o_proj"
    rotary: Literal["halves", "pairs", "pairs from halves"] | None = None
    rotary_if: str | None = None
    norm: str | None = None
    norm_kind: Literal["rms", "rms plus one", "centred"] = "rms"
    norm_over: Literal["head", "all heads"] = "head"
    factor: str | None = None
    after_padding: bool = False
    images: bool = False


_BERT = Family(query="query", output="..output.dense")
_ROBERTA = replace(_BERT, after_padding=True)
_LLAMA = Family(query="q_proj", rotary="halves")
_NEOX = Family(query="query_key_value", packing="by head", output="dense", rotary="halves")
_CLIP = Family(query="q_proj", output="out_proj")
_VIT = Family(query="q_proj", images=True)

FAMILIES: dict[str, Family] = {
    # encoders
    "bert": _BERT,
    "electra": _BERT,
    "ernie": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "roberta-prelayernorm": _ROBERTA,
    "data2vec-text": _ROBERTA,
    "xlm-roberta-xl": _ROBERTA,
    "bert-generation": _BERT,
    "albert": Family(query="query", output="dense"),
    "distilbert": Family(query="q_lin", output="out_lin"),
    "modernbert": Family(query="Wqkv", packing="stacked", output="Wo", rotary="halves"),
    "eurobert": _LLAMA,
    "nomic_bert": _LLAMA,
    "gte": _LLAMA,
    "clip_text_model": _CLIP,
    # decoders with a table of positions
    "gpt2": Family(query="c_attn", packing="transposed", output="c_proj"),
    "opt": Family(query="q_proj", output="out_proj", factor="scaling"),
    "biogpt": Family(query="q_proj", output="out_proj"),
    # decoders with rotations
    "gpt_neox": _NEOX,
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "ministral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen2_moe": _LLAMA,
    "gemma": _LLAMA,
    "gemma2": _LLAMA,
    "granite": _LLAMA,
    "starcoder2": _LLAMA,
    "stablelm": _LLAMA,
    "nemotron": _LLAMA,
    "arcee": _LLAMA,
    "phimoe": _LLAMA,
    "granitemoe": _LLAMA,
    "seed_oss": _LLAMA,
    "olmo": _LLAMA,
    "smollm3": replace(_LLAMA, rotary_if="use_rope"),
    "helium": replace(_LLAMA, rotary="pairs from halves"),
    "glm": replace(_LLAMA, rotary="pairs from halves"),
    "glm4": replace(_LLAMA, rotary="pairs from halves"),
    "ernie4_5": replace(_LLAMA, rotary="pairs from halves"),
    "cohere": replace(_LLAMA, rotary="pairs", norm="q_norm", norm_kind="centred"),
    "cohere2": replace(_LLAMA, rotary="pairs", rotary_if="sliding_window"),
    "phi": replace(_LLAMA, output="dense", norm="q_layernorm", norm_kind="centred"),
    "persimmon": replace(_NEOX, norm="q_layernorm", norm_kind="centred"),
    "modernbert-decoder": Family(query="q_proj", output="Wo", rotary="halves"),
    "phi3": Family(query="qkv_proj", packing="stacked", rotary="halves"),
    "qwen3": replace(_LLAMA, norm="q_norm"),
    "qwen3_moe": replace(_LLAMA, norm="q_norm"),
    "apertus": replace(_LLAMA, norm="q_norm"),
    "exaone4": replace(_LLAMA, norm="q_norm", rotary_if="is_sliding"),
    "olmo2": replace(_LLAMA, norm="q_norm", norm_over="all heads"),
    "olmo3": replace(_LLAMA, norm="q_norm", norm_over="all heads"),
    "olmoe": replace(_LLAMA, norm="q_norm", norm_over="all heads"),
    "gemma3_text": replace(_LLAMA, norm="q_norm", norm_kind="rms plus one"),
    # images
    "vit": _VIT,
    "deit": _VIT,
    "ijepa": _VIT,
    "vit_msn": _VIT,
    "dinov2": _VIT,
    "dinov2_with_registers": _VIT,
    "clip_vision_model": replace(_CLIP, images=True),
    "siglip_vision_model": replace(_CLIP, images=True),
}

# What stops a model whose family we do not read, in words that a user can check in its config.json.
_REFUSED = {
    "bloom": "adds ALiBi slopes to its scores outside transformers' attention interface",
    "mpt": "adds ALiBi slopes to its scores outside transformers' attention interface",
    "falcon": "computes attention outside transformers' attention interface",
    "gptj": "computes attention outside transformers' attention interface",
    "gpt_neo": "computes attention outside transformers' attention interface",
    "codegen": "computes attention outside transformers' attention interface",
    "deberta": "adds disentangled relative positions to its scores",
    "deberta-v2": "adds disentangled relative positions to its scores",
    "mpnet": "adds a learned bias of relative positions to its scores",
    "t5": "adds a learned bias of relative positions to its scores",
    "mt5": "adds a learned bias of relative positions to its scores",
    "longformer": "reads windows and global tokens by two different projections",
    "big_bird": "reads random blocks of keys",
    "reformer": "reads hashed buckets of keys",
    "xlnet": "adds relative positions to its scores",
    "mamba": "has state-space layers instead of attention",
    "mamba2": "has state-space layers instead of attention",
    "rwkv": "has recurrent layers instead of attention",
    "recurrent_gemma": "has recurrent layers beside attention",
    "jamba": "has state-space layers beside attention",
    "bamba": "has state-space layers beside attention",
    "zamba": "has state-space layers beside attention",
    "gpt_oss": "is not among those that are read",
    "diffllama": "takes the difference of two softmax functions",
}

_LAYERS_WITHOUT_ATTENTION = {"mamba", "mamba2", "conv", "recurrent", "linear_attention", "ssm"}


def family_of(model: Any) -> Family:
    """The family of a model, once nothing stands in the way.

    Raises
    ------
    UnsupportedModelError
        With everything that is not understood.
    """
    found = obstacles(model)
    if found:
        raise UnsupportedModelError(_name(model), found, sorted(FAMILIES))
    return FAMILIES[model.config.model_type]


def obstacles(model: Any) -> list[str]:
    """Everything about a model that is not understood, in words; empty for one that can be read."""
    config = model.config
    kind = getattr(config, "model_type", "")
    found = []
    if kind not in FAMILIES:
        reason = _REFUSED.get(kind)
        found.append(f"its family {kind!r} " + (reason if reason else "is not among those that are read"))
    elif any(True for _ in model.modules()) and not list(attention_modules(model, FAMILIES[kind])):
        found.append(
            f"no module of it has the attribute {FAMILIES[kind].query!r} that its family should have"
        )
    found.extend(_of_config(config))
    if any(getattr(module, "sinks", None) is not None for module in model.modules()):
        found.append("it has attention sinks: a score per head that no key owns")
    return list(dict.fromkeys(found))


def _of_config(config: Any) -> Iterator[str]:
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False):
        yield "it has cross-attention, whose keys come from another sequence"
    if getattr(config, "attn_logit_softcapping", None) is not None:
        yield f"its scores pass through a softcap (attn_logit_softcapping = {config.attn_logit_softcapping})"
    if getattr(config, "position_embedding_type", None) in ("relative_key", "relative_key_query"):
        yield f"its scores depend on relative positions ({config.position_embedding_type})"
    if getattr(config, "alibi", False):
        yield "it adds ALiBi slopes to its scores"
    if getattr(config, "reorder_and_upcast_attn", False):
        yield "it computes eager attention by a path of its own (reorder_and_upcast_attn)"
    if getattr(config, "quantization_config", None) is not None:
        yield "its weights are quantised; load it without quantisation"
    kinds = set(getattr(config, "layer_types", None) or ()) & _LAYERS_WITHOUT_ATTENTION
    if kinds:
        yield f"it has layers without attention ({', '.join(sorted(kinds))})"
    if getattr(config, "model_type", "") == "stablelm" and getattr(config, "qk_layernorm", False):
        yield "its queries pass through one norm per head (qk_layernorm)"


def attention_modules(model: Any, family: Family) -> Iterator[tuple[Any, Any]]:
    """The modules that call the attention interface, in the order of the model, each with the one of W_O."""
    for holder in model.modules():
        for module in holder.children():
            if getattr(getattr(module, family.query, None), "weight", None) is not None:
                start = holder if family.output.startswith("..") else module
                yield module, attrgetter(family.output.removeprefix(".."))(start)


def longest_text(model: Any, family: Family) -> int | None:
    """The largest number of tokens that the model takes, or None where it says nothing."""
    length = getattr(model.config, "max_position_embeddings", None)
    if length is None or family.images:
        return None
    return int(length) - (int(model.config.pad_token_id or 0) + 1 if family.after_padding else 0)


def _name(model: Any) -> str:
    return str(getattr(model.config, "name_or_path", "") or type(model).__name__)


@dataclass(frozen=True, eq=False)
class QueryWay:
    """How a layer makes its queries; the weights stay in the model and are read when they are needed.

    Parameters
    ----------
    module : nn.Module
        The attention module.
    family : Family
    heads, d_head : int
    inputs : array (Q, d_model)
        What the projection received.
    cos, sin : array (Q, r) or None
        The rotation of each position, where there is one.
    """

    module: Any
    family: Family
    heads: int
    d_head: int
    inputs: Floats
    cos: Floats | None = None
    sin: Floats | None = None
    _norms: NDArray[np.float64] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self._norm is not None:
            object.__setattr__(self, "_norms", self._sizes(self._projected()))

    @property
    def frozen(self) -> tuple[str, ...]:
        """What is held fixed to make the map affine."""
        return () if self._norm is None else ("query norm",)

    def queries(self) -> NDArray[np.float64]:
        """The queries (H, Q, d_head) that follow from the inputs."""
        y = self._projected()
        if self._norm is not None:
            gain, shift = self._gain_and_shift()
            y = self._centred(y) / self._norms_of(slice(None))[..., None] * gain[:, None] + shift[:, None]
        if self.cos is not None:
            y = rotated(y, self.cos, self.sin, self.family.rotary)
        return y

    def at(self, position: int) -> QueryMap:
        """The map for one position: its rotation, and its norm held fixed."""
        matrix, offset = self._weights()
        y = np.concatenate([matrix, offset[:, :, None]], axis=2).transpose(0, 2, 1)  # columns, d_head last
        if self._norm is not None:
            gain, shift = self._gain_and_shift()
            y = self._centred(y) / self._norms_of(position)[:, None, None] * gain[:, None]
            y[:, -1] += shift
        if self.cos is not None and self.sin is not None:
            y = rotated(y, self.cos[position], self.sin[position], self.family.rotary)
        depends = self.cos is not None or self._norm is not None
        return QueryMap(
            matrix=np.ascontiguousarray(y[:, :-1].transpose(0, 2, 1)),
            offset=np.ascontiguousarray(y[:, -1]),
            position=position if depends else None,
            frozen=self.frozen,
        )

    @property
    def _norm(self) -> Any:
        return getattr(self.module, self.family.norm, None) if self.family.norm else None

    def _projected(self) -> NDArray[np.float64]:
        matrix, offset = self._weights()
        rows = np.asarray(self.inputs, dtype=np.float64) @ matrix.reshape(-1, matrix.shape[2]).T
        return rows.reshape(len(rows), self.heads, self.d_head).transpose(1, 0, 2) + offset[:, None]

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """W_Q (H, d_head, d_model) and b_Q (H, d_head) in double precision."""
        projection = getattr(self.module, self.family.query)
        width = self.heads * self.d_head
        weight, bias = projection.weight, getattr(projection, "bias", None)
        if self.family.packing == "transposed":
            weight = weight[:, :width].T
            bias = None if bias is None else bias[:width]
        elif self.family.packing == "stacked":
            weight = weight[:width]
            bias = None if bias is None else bias[:width]
        elif self.family.packing == "by head":
            weight = weight.unflatten(0, (self.heads, 3, self.d_head))[:, 0].flatten(0, 1)
            bias = None if bias is None else bias.unflatten(0, (self.heads, 3, self.d_head))[:, 0].flatten()
        matrix = _array(weight).reshape(self.heads, self.d_head, -1)
        offset = (
            np.zeros((self.heads, self.d_head)) if bias is None else _array(bias).reshape(matrix.shape[:2])
        )
        factor = 1.0 if self.family.factor is None else float(getattr(self.module, self.family.factor))
        return matrix * factor, offset * factor

    def _gain_and_shift(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shape = (self.heads, self.d_head)
        gain = _array(self._norm.weight) + (1.0 if self.family.norm_kind == "rms plus one" else 0.0)
        bias = getattr(self._norm, "bias", None)
        shift = np.zeros(1) if bias is None else _array(bias)
        if self.family.norm_over == "all heads":
            gain = gain.reshape(shape)
        return np.broadcast_to(gain, shape), np.broadcast_to(shift, shape)

    def _centred(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return y - y.mean(axis=-1, keepdims=True) if self.family.norm_kind == "centred" else y

    def _sizes(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """The root mean squares (H, Q) by which the norm divides."""
        axes = (0, 2) if self.family.norm_over == "all heads" else (2,)
        squares = (self._centred(y) ** 2).mean(axis=axes)
        return np.broadcast_to(np.sqrt(squares + _epsilon(self._norm)), y.shape[:2])

    def _norms_of(self, position: Any) -> NDArray[np.float64]:
        if self._norms is None:
            return np.ones((self.heads, len(self.inputs)))[:, position]
        return np.asarray(self._norms[:, position])


def rotated(y: Floats, cos: Any, sin: Any, layout: str | None) -> NDArray[np.float64]:
    """Rows turned by the angles of their position; coordinates beyond the angles stay as they are.

    Examples
    --------
    >>> rotated(np.array([1.0, 0.0, 5.0]), np.array([0.0, 0.0]), np.array([1.0, 1.0]), "halves")
    array([0., 1., 5.])
    """
    turned = np.array(y, dtype=np.float64)
    c, s = np.asarray(cos, dtype=np.float64), np.asarray(sin, dtype=np.float64)
    r = c.shape[-1]
    low, high = slice(0, r // 2), slice(r // 2, r)
    even, odd = slice(0, r, 2), slice(1, r, 2)
    first, second = (low, high) if layout == "halves" else (even, odd)
    angle = even if layout == "pairs" else low
    a, b = turned[..., first].copy(), turned[..., second].copy()
    turned[..., first] = a * c[..., angle] - b * s[..., angle]
    turned[..., second] = b * c[..., angle] + a * s[..., angle]
    return turned


def output_weights(projection: Any, family: Family, heads: int) -> Floats:
    """W_O head by head (H, d_model, d_value), from the module that applies it."""
    weight = _array(projection.weight, np.float32)
    matrix = weight.T if family.packing == "transposed" else weight
    by_head = matrix.reshape(len(matrix), heads, -1).transpose(1, 0, 2).view()
    by_head.setflags(write=False)  # for float32 this is the model's own memory
    return by_head


def _array(tensor: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """A tensor of any precision as an array; bfloat16, which numpy does not know, goes through float32."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor if tensor.element_size() >= 4 else tensor.float()).numpy(), dtype=dtype)


def _epsilon(norm: Any) -> float:
    for name in ("variance_epsilon", "eps"):
        if hasattr(norm, name):
            return float(getattr(norm, name))
    return 0.0
