"""Tiny random models of every family, and a tokenizer for them.

Weights have standard deviation 0.5, so attention is far from uniform and a wrong score cannot hide. Nothing
is downloaded: configurations are written here and numbers are drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog bird sat ran flew on over under mat log river and but then "
    "who what saw knew little old red blue . , ? !"
)
VOCABULARY = _WORDS.split()
TEXT = "the little cat sat on the old mat , but a red bird flew over the river and the dog saw who ran ."

_SHARED: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
_GROUPED = {"num_key_value_heads": 2}
_HEAD = {"head_dim": 12}  # not hidden_size / heads: families that allow it must be read right
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_IMAGES = {"image_size": 12, "patch_size": 4, "num_channels": 3}

_DISENTANGLED = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
_XLM = {"emb_dim": 32, "n_heads": 4, "pad_index": 0}
_T5 = {
    "d_model": 32, "d_kv": 12, "d_ff": 48, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
}  # fmt: skip
_BART = {
    "d_model": 32, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
}  # fmt: skip

SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {},
    "electra": {"embedding_size": 16},
    "ernie": {},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "camembert": {"pad_token_id": 1},
    "roberta-prelayernorm": {"pad_token_id": 1},
    "data2vec-text": {"pad_token_id": 1},
    "xlm-roberta-xl": {"pad_token_id": 1},
    "bert-generation": {},
    "eurobert": _GROUPED,
    "nomic_bert": {},
    "gte": {},
    "clip_text_model": {},
    "albert": {"embedding_size": 16},
    "distilbert": {},
    "modernbert": {
        "local_attention": 8,
        "global_attn_every_n_layers": 2,
        "cls_token_id": 2,
        "sep_token_id": 3,
    },
    "splinter": {},
    "megatron-bert": {},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "flaubert": _XLM,
    "xlm": _XLM,
    "gpt_bigcode": {},
    "ctrl": {"n_embd": 32, "dff": 48, "n_positions": 64},
    "mpnet": {"pad_token_id": 1},
    "deberta": {**_DISENTANGLED, "max_relative_positions": 8},
    "deberta-v2": {**_DISENTANGLED, "position_buckets": 6, "norm_rel_ebd": "layer_norm"},
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "bart": _BART,
    "blenderbot": _BART,
    "blenderbot-small": _BART,
    "m2m_100": _BART,
    "marian": {**_BART, "decoder_start_token_id": 2},
    "mbart": _BART,
    "pegasus": _BART,
    "plbart": _BART,
    "bloom": {},
    "mpt": {"max_seq_len": 64},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "gpt_neo": {"window_size": 5},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "gpt_oss": {
        **_GROUPED,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "head_dim": 12,
        "sliding_window": 5,
    },
    "gpt2": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "biogpt": {},
    "gpt_neox": {"rotary_pct": 0.5},
    "llama": {**_GROUPED, **_HEAD},
    "mistral": {**_GROUPED, "sliding_window": 5},
    "mixtral": {**_GROUPED, "num_local_experts": 4, "sliding_window": 6},
    "ministral": {**_GROUPED, **_HEAD, "sliding_window": 5},
    "qwen2": {**_GROUPED, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    "qwen2_moe": {**_GROUPED, **_EXPERTS, "shared_expert_intermediate_size": 24},
    "gemma": {**_GROUPED, **_HEAD},
    "gemma2": {**_GROUPED, **_HEAD, "sliding_window": 5, "attn_logit_softcapping": 3.0},
    "granite": {**_GROUPED, "attention_multiplier": 0.21},
    "starcoder2": {**_GROUPED},
    "stablelm": {**_GROUPED, "partial_rotary_factor": 0.5},
    "nemotron": {**_GROUPED, "partial_rotary_factor": 0.5},
    "arcee": {**_GROUPED},
    "phimoe": {**_GROUPED, "num_local_experts": 4},
    "granitemoe": {**_GROUPED, "num_local_experts": 4, "attention_multiplier": 0.2},
    "seed_oss": {**_GROUPED, **_HEAD},
    "olmo": {**_GROUPED},
    "smollm3": {**_GROUPED, "no_rope_layer_interval": 2},
    "helium": {**_GROUPED, "head_dim": 8},
    "glm": {**_GROUPED, "head_dim": 8, "partial_rotary_factor": 0.5},
    "glm4": {**_GROUPED, "head_dim": 8, "partial_rotary_factor": 0.5},
    "ernie4_5": {**_GROUPED},
    "persimmon": {},
    "modernbert-decoder": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "apertus": {**_GROUPED},
    "exaone4": {**_GROUPED, "sliding_window": 5, "sliding_window_pattern": 2},
    "cohere": {**_GROUPED, "use_qk_norm": True},
    "cohere2": {**_GROUPED, "sliding_window": 5, "head_dim": 8},
    "phi": {**_GROUPED, "qk_layernorm": True, "partial_rotary_factor": 0.5},
    "phi3": {**_GROUPED, "sliding_window": 7},
    "qwen3": {**_GROUPED, **_HEAD},
    "qwen3_moe": {**_GROUPED, **_EXPERTS, **_HEAD},
    "olmo2": {**_GROUPED},
    "olmo3": {**_GROUPED, "sliding_window": 5},
    "olmoe": {**_GROUPED, "num_experts": 4, "num_experts_per_tok": 2},
    "gemma3_text": {**_GROUPED, **_HEAD, "sliding_window": 5, "query_pre_attn_scalar": 12},
    "vit": _IMAGES,
    "deit": _IMAGES,
    "ijepa": _IMAGES,
    "vit_msn": _IMAGES,
    "dinov2": {**_IMAGES, "mlp_ratio": 2},
    "dinov2_with_registers": {**_IMAGES, "mlp_ratio": 2},
    "clip_vision_model": _IMAGES,
    "siglip_vision_model": _IMAGES,
}


def config(family: str, **changes: Any) -> Any:
    from transformers import AutoConfig

    images = "image_size" in SETTINGS.get(family, {})
    shared = {k: v for k, v in _SHARED.items() if not (images and ("token" in k or "vocab" in k))}
    if images:
        shared.pop("max_position_embeddings")
    settings = {**shared, **SETTINGS.get(family, {}), **changes}
    n = settings["num_hidden_layers"]
    if "encoder_ffn_dim" in settings:
        settings.update(encoder_layers=n, decoder_layers=n - 1)
    elif "d_kv" in settings:
        settings.update(num_layers=n, num_decoder_layers=n - 1)
    elif family == "gpt_neo":
        settings.update(num_layers=n, attention_types=[[["local"], 1], [["global"], n - 1]])
    return AutoConfig.for_model(family, **settings)


def tiny_model(
    family: str, *, seed: int = 0, dtype: str = "float32", head: bool = False, **changes: Any
) -> Any:
    """A random model in evaluation mode; with ``head`` one for masked or causal language modelling."""
    import torch
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

    kind = AutoModel
    if head:
        kind = AutoModelForMaskedLM if family in ("bert", "roberta", "distilbert") else AutoModelForCausalLM
    generator = torch.Generator().manual_seed(seed)
    model = kind.from_config(config(family, **changes))
    with torch.no_grad():
        for name, p in model.named_parameters():
            draw = torch.randn(p.shape, generator=generator)
            if "q_norm" in name or "k_norm" in name or "q_layernorm" in name or "k_layernorm" in name:
                p.copy_(2.0 + 0.5 * draw)  # normed queries and keys are short, so attention would be flat
            else:
                p.copy_(1.0 + 0.25 * draw if p.ndim == 1 and bool((p == 1).all()) else 0.5 * draw)
    return model.to(getattr(torch, dtype)).eval()


def tiny_tokenizer(family: str = "bert") -> Any:
    """Words and spaces; [CLS] and [SEP] around a text."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(VOCABULARY)}
    if "roberta" in family or family in ("camembert", "data2vec-text", "mpnet"):  # padding is number 1 there
        words["[PAD]"], words["[UNK]"] = 1, 0
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words["[CLS]"]), ("[SEP]", words["[SEP]"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def tiny_folder(folder: Path, family: str, *, tokenizer: bool = True, **options: Any) -> Path:
    """A model and its tokenizer as files."""
    tiny_model(family, **options).save_pretrained(folder)
    if tokenizer:
        tiny_tokenizer(family).save_pretrained(folder)
    return folder
