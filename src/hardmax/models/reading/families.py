"""Families of transformers: where a query comes from, and which models are not understood.

transformers hands queries, keys, values, masks and scales of every family to one attention interface
(:mod:`hardmax.models.reading.capture`), so a family only says what stands before it and after it: the
projection :math:`W_Q, b_Q`, a norm of queries, a rotation, and :math:`W_O`. What it says is checked on every
reading: the queries that follow from it must be those that were captured
(:mod:`hardmax.models.reading.fidelity`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

from hardmax.errors import UnsupportedModelError

__all__ = ["FAMILIES", "Family", "attention_modules", "family_of", "longest_text", "obstacles"]


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
