"""Hold router_flips against torch: no decision that is marked `cannot flip` may flip; run by hand.

    python tests/scripts/router_flips_sweep.py       # above a million decisions per format, some minutes
    python tests/scripts/router_flips_sweep.py --texts 1 --seeds 1 --dtypes bfloat16

Routers of tiny random mixtures of experts and the heads of MiniLM on pages of the documentation. Prints for
each format the share that is marked beside the share that really holds. Exits with 1 if a mark is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import flips_against_torch as against  # noqa: E402
import torch  # noqa: E402

from hardmax.models.reading.loading import open_model  # noqa: E402

FORMATS = ["float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"]
N_TOKENS = 256


def rows(texts: int, seeds: int, dtypes: list[str]) -> Iterator[against.Compared]:
    for family in against.ROUTERS:
        for seed in range(seeds):
            yield from against.compared_routers(family, dtypes, seed=seed, n_texts=64, n_tokens=N_TOKENS)
    folder = against.minilm_folder()
    if folder is None:
        print("MiniLM is not installed and left out", file=sys.stderr)
        return
    opened = open_model(folder)
    model = opened.module.base_model.double()
    words = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    numbers = opened.tokenizer(words, return_tensors="pt", truncation=False, verbose=False)["input_ids"]
    for i in range(texts):
        part = numbers[:, i * N_TOKENS : (i + 1) * N_TOKENS]
        yield from against.compared_heads(model, {"input_ids": part}, dtypes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=16, help="texts of 256 tokens for MiniLM")
    parser.add_argument("--seeds", type=int, default=4, help="random models of each family")
    parser.add_argument("--dtypes", nargs="+", default=FORMATS, choices=FORMATS)
    options = parser.parse_args()
    torch.set_num_threads(1)  # matrices are small: threads would wait for each other
    _, broken = against.table(rows(options.texts, options.seeds, options.dtypes), print)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
