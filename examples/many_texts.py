"""A real model on many texts, and against itself with one head changed: the pictures of two pages.

    python examples/many_texts.py MODEL [OUT]

MODEL is a folder of a BERT model such as all-MiniLM-L6-v2 (needs the extra models). The texts are sentences
of this project's own pages. Prints the hardest heads with intervals over texts, and the heads that a
comparison names when W_Q of head 5 in layer 2 is multiplied by four.
"""

from __future__ import annotations

import copy
import re
import sys
from dataclasses import replace
from pathlib import Path

import torch

import hardmax as hm
from hardmax.models.reading.loading import open_model

PAGES = Path(__file__).resolve().parents[1] / "docs"
LAYER, HEAD = 2, 5


def sentences(n: int) -> list[str]:
    """The first n sentences of 8 to 40 words on the pages, without code and tables."""
    found = []
    for page in sorted(PAGES.glob("*.md")):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        lines = [line for line in prose.splitlines() if re.match(r"[A-Z*]", line)]
        plain = re.sub(r"[`*$\\]|\(\S+\)", "", " ".join(lines))
        found += [part for part in re.split(r"(?<=[.:]) ", plain) if 8 <= len(part.split()) <= 40]
    return found[:n]


def scaled(model: object, layer: int, head: int, factor: float) -> object:
    """The model with W_Q and b_Q of one head multiplied."""
    changed = copy.deepcopy(model)
    query = changed.encoder.layer[layer].attention.self.query
    size = query.out_features // changed.config.num_attention_heads
    with torch.no_grad():
        for part in (query.weight, query.bias):
            part[head * size : (head + 1) * size] *= factor
    return changed


def main(folder: str, out: Path | None = None) -> None:
    """Measure, print, draw."""
    model = open_model(folder)
    texts = sentences(120)
    atlas = hm.head_atlas(model, texts, progress=sys.stderr.isatty())
    print(atlas, f"{atlas.seconds:.1f} s")
    for one in atlas.hardest(5):
        mean, low, high = (part["share_within_10"] for part in (one.mean, one.low, one.high))
        sink = f", sink {one.sink} on {one.sink_texts} texts" if one.sink else ""
        print(f"layer {one.layer}, head {one.head}: {mean:.0%} ({low:.0%}..{high:.0%}){sink}")
    other = open_model(scaled(model.module, LAYER, HEAD, 4.0), tokenizer=model.tokenizer)
    changed = replace(other, name="one head changed")
    for name, other, n in (("itself", model, 10), ("one head changed", changed, 30)):
        found = hm.compare(model, other, texts[:n], progress=sys.stderr.isatty())
        total = found.heads_named("total")
        print(f"against {name}, {n} texts: direct {found.named_heads}, total {len(total)} heads")
        print(f"  by layer {[sum(n == layer for n, _ in total) for layer in range(model.n_layers)]}")
    if out is not None:
        out.mkdir(exist_ok=True)
        atlas.plot().figure.savefig(out / "many-texts.png", dpi=110)
        found.plot(statistic="margin").figure.savefig(out / "compare.png", dpi=110)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("give the folder of a BERT model, such as all-MiniLM-L6-v2.")
    main(sys.argv[1], *(Path(given) for given in sys.argv[2:3]))
