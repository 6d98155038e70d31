r"""Families of transformers: how each makes its queries, and which models are not understood.

transformers hands queries, keys, values, masks and scales of most families to one attention interface
(:mod:`hardmax.models.reading.capture`), so a family only says what stands before it and after it: the
projection :math:`W_Q, b_Q`, a norm of queries, a rotation, and :math:`W_O`. A family that computes attention
itself (``outside``) says its scale and the name of the bias that it adds as well; queries, keys, values and
masks are taken from the products around its softmax (:mod:`hardmax.models.reading.watching`). What a family
says is checked on every reading: queries, scores and outputs that follow from it must be the model's own.

A query is :math:`q = R_t\, n(W_Q x + b_Q)`, with a norm n in some families and the rotation :math:`R_t` of
position t in others. Without a norm this is affine in x, with a matrix that depends on the position where
there is a rotation. A norm :math:`n(y) = g \odot y / r(y) + s` (after centring y in some families) is not
affine: its r(y) is held at the value that the token really had, which :attr:`QueryMap.frozen` says. The map
then gives the true query of that token, and for other inputs the query of the frozen layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import UnsupportedModelError
from hardmax.models.reading.sources import Floats, QueryMap


@dataclass(frozen=True)
class Family:
    """Where the parts of an attention module are: names of its attributes, and how to read them.

    ``packing`` says what the attribute of W_Q holds: queries alone; queries, then keys, then values; the
    three of the first head, then of the next; of the first quarter of all heads, then of the next; the
    queries of the heads that share a key, that key, its value, then the next such group; or stacked as
    columns (inputs times matrix). ``rotary`` says
    which coordinates are turned together: i and i + r/2, or 2i and 2i + 1, with the angle of pair i at 2i or
    at i in the model's table. ``norm_kind``: root mean square with a gain, with a gain of one plus the
    weight, or centred with a gain and a shift.
    """

    query: str  # W_Q and b_Q
    packing: Literal["alone", "stacked", "by head", "by quarter", "by group", "transposed"] = "alone"
    query_bias: str | None = None  # b_Q, where it is a parameter of its own
    output: str = "o_proj"  # W_O; ``..output.dense`` is one of the module that holds the attention module
    rotary: Literal["halves", "pairs", "pairs from halves"] | None = None
    angles_once: bool = False  # does the table of angles hold each once, not twice?
    rotary_if: str | None = None  # says whether this layer turns its queries at all
    norm: str | None = None  # the norm of queries, where a layer has one
    norm_kind: Literal["rms", "rms plus one", "centred"] = "rms"
    norm_over: Literal["head", "all heads"] = "head"  # over which coordinates it is taken
    factor: Callable[[Any], float] | None = None  # of a module: queries are multiplied by it beforehand
    after_padding: bool = False  # are positions counted from the padding token's number, which costs as many?
    images: bool = False  # does the model read images instead of text?
    sinks: bool = False  # has every head a learned score that belongs to no key?
    cross: bool = False  # is there a decoder that reads an encoder?
    outside: bool = False  # does the module compute attention without the interface? Then also:
    scale: Callable[[Any], float] | None = None  # of a module; the inverse root of d_head without one
    bias: str | None = None  # the argument of the module that is added to scaled scores
    bias_factor: Callable[[Any], float] | None = None  # of a module: by which it is multiplied
    sines: str | None = None  # the module's own table of sines, then cosines, where the model gives none
    relative: Callable[[Any], float] | None = None  # of a module: what products with relative positions take


_BERT = Family(query="query", output="..output.dense")
_LLAMA = Family(query="q_proj", rotary="halves")
_NEOX = Family(query="query_key_value", packing="by head", output="dense", rotary="halves")
_CLIP = Family(query="q_proj", output="out_proj")
_BART = Family(query="q_proj", output="out_proj", cross=True)
_T5 = Family(query="q", output="o", cross=True)
_ALIBI = Family(query="query_key_value", packing="by head", output="dense", outside=True, bias="alibi")
_GPTJ = Family(
    query="q_proj",
    output="out_proj",
    rotary="pairs from halves",
    angles_once=True,
    outside=True,
    sines="embed_positions",
)


def _one(module: Any) -> float:
    return 1.0


def _inverse_root(module: Any) -> float:
    return float(module.head_dim**-0.5)


def _root(module: Any) -> float:
    """What DeBERTa divides its scores by: the root of d_head times the number of kinds of scores."""
    kinds = 1 + len(module.pos_att_type)
    return float((module.attention_head_size * kinds) ** -0.5)


# Names of model types, as their config.json has them, that share one description
_FAMILIES = {
    # encoders
    "bert bert-generation electra ernie splinter": _BERT,
    "megatron-bert rembert": replace(_BERT, outside=True),
    "camembert data2vec-text roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl": replace(
        _BERT, after_padding=True
    ),
    "albert": Family(query="query", output="dense"),
    "distilbert": Family(query="q_lin", output="out_lin"),
    "flaubert xlm": Family(query="q_lin", output="out_lin", factor=_inverse_root, outside=True, scale=_one),
    "modernbert": Family(query="Wqkv", packing="stacked", output="Wo", rotary="halves"),
    "eurobert gte nomic_bert": _LLAMA,
    "clip_text_model": _CLIP,
    # encoders with relative positions
    "mpnet": Family(query="q", output="o", outside=True, bias="position_bias", after_padding=True),
    "deberta": Family(
        query="in_proj",
        packing="by head",
        query_bias="q_bias",
        output="..output.dense",
        factor=_root,
        outside=True,
        scale=_one,
        relative=_one,
    ),
    "deberta-v2": Family(
        query="query_proj", output="..output.dense", outside=True, scale=_one, relative=_root
    ),
    # an encoder and a decoder that reads it
    "mt5 t5 umt5": _T5,
    "bart blenderbot blenderbot-small m2m_100 marian mbart pegasus plbart": _BART,
    # decoders with a bias that grows with the distance (ALiBi)
    "bloom": _ALIBI,
    "mpt": Family(
        query="Wqkv",
        packing="stacked",
        output="out_proj",
        outside=True,
        bias="position_bias",
        scale=attrgetter("softmax_scale"),
    ),
    "falcon": replace(_ALIBI, packing="by group", rotary="halves", bias_factor=attrgetter("inv_norm_factor")),
    # decoders with a table of positions
    "gpt2": Family(query="c_attn", packing="transposed", output="c_proj"),
    "gpt_bigcode": Family(query="c_attn", packing="by group", output="c_proj"),
    "ctrl": Family(query="Wq", output="dense"),
    "opt": Family(query="q_proj", output="out_proj", factor=attrgetter("scaling")),
    "gpt_neo": Family(query="q_proj", output="out_proj", outside=True, scale=_one),
    "biogpt": Family(query="q_proj", output="out_proj"),
    # decoders with rotations
    "gpt_neox": _NEOX,
    "gptj": _GPTJ,
    "codegen": replace(_GPTJ, query="qkv_proj", packing="by quarter"),
    "arcee gemma gemma2 granite granitemoe llama ministral mistral mixtral nemotron olmo phimoe": _LLAMA,
    "gpt_oss": replace(_LLAMA, angles_once=True, sinks=True),
    "qwen2 qwen2_moe seed_oss stablelm starcoder2": _LLAMA,
    "smollm3": replace(_LLAMA, rotary_if="use_rope"),
    "ernie4_5 glm glm4 helium": replace(_LLAMA, rotary="pairs from halves"),
    "cohere": replace(_LLAMA, rotary="pairs", norm="q_norm", norm_kind="centred"),
    "cohere2": replace(_LLAMA, rotary="pairs", rotary_if="sliding_window"),
    "phi": replace(_LLAMA, output="dense", norm="q_layernorm", norm_kind="centred"),
    "persimmon": replace(_NEOX, norm="q_layernorm", norm_kind="centred"),
    "modernbert-decoder": Family(query="q_proj", output="Wo", rotary="halves"),
    "phi3": Family(query="qkv_proj", packing="stacked", rotary="halves"),
    "apertus qwen3 qwen3_moe": replace(_LLAMA, norm="q_norm"),
    "exaone4": replace(_LLAMA, norm="q_norm", rotary_if="is_sliding"),
    "olmo2 olmo3 olmoe": replace(_LLAMA, norm="q_norm", norm_over="all heads"),
    "gemma3_text": replace(_LLAMA, norm="q_norm", norm_kind="rms plus one"),
    # images
    "deit dinov2 dinov2_with_registers ijepa vit vit_msn": Family(query="q_proj", images=True),
    "clip_vision_model siglip_vision_model": replace(_CLIP, images=True),
}

FAMILIES: dict[str, Family] = {name: found for names, found in _FAMILIES.items() for name in names.split()}
"""Every family that is read, by the name of the model type."""

# What stops a model whose family is not read, in words that a user can check in its config.json
_REASONS = {
    "openai-gpt": "masks keys by a score of -10,000, which is a score like any other",
    "longformer": "reads windows and global tokens by two different projections",
    "big_bird": "reads random blocks of keys",
    "reformer": "reads hashed buckets of keys",
    "xlnet": "adds relative positions to its scores",
    "mamba mamba2": "has state-space layers instead of attention",
    "rwkv": "has recurrent layers instead of attention",
    "recurrent_gemma": "has recurrent layers beside attention",
    "bamba jamba zamba": "has state-space layers beside attention",
    "diffllama": "takes the difference of two softmax functions",
}
_REFUSED = {name: reason for names, reason in _REASONS.items() for name in names.split()}
_CROSS = ("EncDecAttention", "encoder_attn")  # modules of a decoder that read the encoder
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
        found.append(f"its family {kind!r} {_REFUSED.get(kind, 'is not among those that are read')}")
    elif any(model.modules()) and not any(attention_modules(model, FAMILIES[kind])):
        found.append(
            f"no module of it has the attribute {FAMILIES[kind].query!r} that its family should have"
        )
    found.extend(_of_config(config, FAMILIES.get(kind)))
    return list(dict.fromkeys(found))


def _of_config(config: Any, family: Family | None) -> Iterator[str]:
    crossed = getattr(config, "is_encoder_decoder", False) and not (family and family.cross)
    if crossed or getattr(config, "add_cross_attention", False):
        yield "it has cross-attention, whose keys come from another sequence"
    if family and family.cross and getattr(config, "is_decoder", False) and not config.is_encoder_decoder:
        yield "it is the decoder alone of a model with an encoder; open the whole model"
    if getattr(config, "position_embedding_type", None) in ("relative_key", "relative_key_query"):
        yield f"its scores depend on relative positions ({config.position_embedding_type})"
    if getattr(config, "alibi", False) and not (family and family.bias):
        yield "it adds ALiBi slopes to its scores"
    if getattr(getattr(config, "attn_config", None), "clip_qkv", None):
        yield f"it clips its queries (clip_qkv = {config.attn_config.clip_qkv}), which is not affine"
    if getattr(config, "talking_head", False):
        yield "it mixes the scores of different heads (talking_head)"
    if getattr(config, "slow_but_exact", False) and getattr(config, "pretraining_tp", 1) > 1:
        yield "it applies W_O piece by piece (slow_but_exact)"
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
    """The modules that compute attention, in the order of the model, each with the one of W_O."""
    for holder in model.modules():
        for module in holder.children():
            if getattr(getattr(module, family.query, None), "weight", None) is not None:
                start = holder if family.output.startswith("..") else module
                yield module, attrgetter(family.output.removeprefix(".."))(start)


def layer_kinds(model: Any, family: Family) -> tuple[str, ...]:
    """For an encoder and a decoder that reads it, what each layer is: ``"encoder"``, ``"decoder"`` (which
    reads itself) or ``"cross"`` (which reads the encoder); empty for other models."""
    if not (family.cross and getattr(model.config, "is_encoder_decoder", False)):
        return ()
    names = {module: name.split(".") for name, module in model.named_modules()}
    paths = [names[module] for module, _ in attention_modules(model, family)]
    return tuple(
        "encoder" if "decoder" not in path else "cross" if path[-1] in _CROSS else "decoder" for path in paths
    )


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
    """How a layer makes its queries; the weights stay in the model and are read when they are needed."""

    module: Any  # the attention module
    family: Family
    heads: int
    d_head: int
    inputs: Floats  # (Q, d_model): what the projection received
    cos: Floats | None = None  # (Q, r): the rotation of each position, where there is one
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
        shape = (self.heads, self.d_head)

        def of_queries(rows: Any) -> NDArray[np.float64]:
            """Those rows of the projection, or entries of its bias, that make queries."""
            packing = self.family.packing
            if packing in ("by head", "by quarter"):
                parts = self.heads if packing == "by head" else 4
                rows = rows.unflatten(0, (parts, 3, -1))[:, 0].flatten(0, 1)
            elif packing == "by group":
                groups = (len(rows) // self.d_head - self.heads) // 2
                rows = rows.unflatten(0, (groups, -1, self.d_head))[:, :-2].flatten(0, 2)
            return _array(rows[: self.heads * self.d_head])

        weight, bias = projection.weight, getattr(projection, "bias", None)
        matrix = of_queries(weight.T if self.family.packing == "transposed" else weight)
        offset = np.zeros(shape) if bias is None else of_queries(bias).reshape(shape)
        if self.family.query_bias is not None:
            offset = offset + _array(getattr(self.module, self.family.query_bias)).reshape(shape)
        factor = 1.0 if self.family.factor is None else float(self.family.factor(self.module))
        return matrix.reshape(*shape, -1) * factor, offset * factor

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
        return np.broadcast_to(np.sqrt(squares + norm_epsilon(self._norm)), y.shape[:2])

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


def norm_epsilon(norm: Any) -> float:
    """What a norm of transformers adds to the variance."""
    return float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0)) or 0.0)
