"""Record what TransformerLens and nnsight hand over for tiny random models, for tests without the packages.

    python tests/scripts/record_other_tools.py tests/recorded/other_tools.npz

Needs transformer_lens and nnsight beside torch and transformers. The file holds, for one layer each, the
entries of the cache or the arguments of the traced call, and the attention pattern of the tool itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import nnsight
import tiny_models
import torch
import transformer_lens

ENTRIES = ("q", "k", "v", "rot_q", "rot_k", "pattern")
SHAPE = {
    "n_layers": 2, "d_model": 16, "n_ctx": 12, "d_head": 4, "n_heads": 4, "d_mlp": 16, "d_vocab": 30,
    "act_fn": "relu", "normalization_type": "LN", "seed": 1, "device": "cpu",
}  # fmt: skip


def lens_model(**changes: Any) -> Any:
    """A tiny random model of TransformerLens, with weights large enough for hard attention."""
    model = transformer_lens.TransformerBridge.boot_native({**SHAPE, **changes})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.5 * torch.randn(p.shape, generator=generator))
    return model


def lens_cache(model: Any, n_tokens: int = 7) -> Any:
    """What a model keeps of one sequence."""
    tokens = torch.randint(0, 30, (1, n_tokens), generator=torch.Generator().manual_seed(1))
    return model.run_with_cache(tokens)[1]


def traced(family: str, layer: int = 1, n_tokens: int = 7) -> tuple[Any, Any]:
    """The inputs and the output of the attention interface in a layer of a tiny model, traced by nnsight."""
    torch.manual_seed(0)
    model = tiny_models.tiny_model(family)
    model.set_attn_implementation("eager")
    wrapped = nnsight.NNsight(model)
    ids = torch.randint(5, 30, (1, n_tokens), generator=torch.Generator().manual_seed(1))
    place = {
        "llama": lambda: wrapped.layers[layer].self_attn,
        "gpt2": lambda: wrapped.h[layer].attn,
        "bert": lambda: wrapped.encoder.layer[layer].attention.self,
    }[family]
    with wrapped.trace(input_ids=ids):
        inputs = place().source.attention_interface_1.inputs.save()
        output = place().source.attention_interface_1.output.save()
    return inputs, output


def main(path: Path) -> None:
    """Write the file."""
    kept: dict[str, Any] = {}
    for name, changes in (("causal", {}), ("both", {"attention_dir": "bidirectional"}),
                          ("grouped", {"n_key_value_heads": 2}),
                          ("rotary", {"positional_embedding_type": "rotary", "rotary_dim": 4})):  # fmt: skip
        cache = lens_cache(lens_model(**changes))
        for entry in ENTRIES:
            full = f"blocks.1.attn.hook_{entry}"
            if full in cache.keys():  # noqa: SIM118 (a cache is no dict)
                kept[f"lens/{name}/{full}"] = cache[full].detach().numpy()
    for family in ("llama", "gpt2", "bert"):
        (given, named), output = traced(family)
        for word, tensor in zip(("q", "k", "v", "mask"), given[1:], strict=False):
            if tensor is not None:
                kept[f"nnsight/{family}/{word}"] = tensor.detach().numpy()
        kept[f"nnsight/{family}/scaling"] = np.array(named["scaling"])
        kept[f"nnsight/{family}/pattern"] = output[1].detach().numpy()
    kept["versions"] = np.array([transformer_lens.__version__ if hasattr(transformer_lens, "__version__")
                                 else "4", nnsight.__version__, torch.__version__])  # fmt: skip
    np.savez_compressed(path, **kept)
    print(path, path.stat().st_size, "bytes,", len(kept), "arrays")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
