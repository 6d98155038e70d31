"""Information sets at T = 256, four layers of eight heads, against the plain loop that the tests keep.

The loop goes through one input, token, head and key at a time, with Python numbers; both must find the same
winners and the same sets. Times are per input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from timing import Comparison, print_table, seconds, spell

import numpy as np  # isort: skip (the thread counts come first)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from oracles.flow_loop import information_loop, plain_bilinear

import hardmax as hm

N_TOKENS, D_TOKEN, HEADS, DEPTH = 256, 4, 8, 4
N_INPUTS = 16


class PlainBilinear(hm.BilinearScore):
    """A bilinear score that also carries its matrix in Python numbers, for the loop."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__(matrix)
        self.rows = matrix.tolist()


def deep_plan(rng: np.random.Generator) -> tuple[hm.Architecture, hm.Plan]:
    """Heads that compare the token itself, or what an earlier head found, in small whole numbers (so that
    both ways of adding them up agree to the last bit)."""
    layers = []
    for layer in range(DEPTH):
        slot = 0 if layer == 0 else int(rng.integers(1 + HEADS))
        rules = [
            hm.MaxPosition(
                PlainBilinear(rng.integers(-9, 10, size=(D_TOKEN, D_TOKEN)).astype(float)),
                query_slots=(0,),
                key_slots=(slot,),
            )
            for _ in range(HEADS)
        ]
        reader = hm.Positions([0])  # CLS gets a first token, then its heads have a query too
        layers.append({"tokens": rules, "cls": [reader]} if layer == 0 else {"tokens": rules, "cls": rules})
    del layers[-1]["tokens"]
    return hm.Architecture(N_TOKENS, D_TOKEN, (HEADS,) * DEPTH, 8 * HEADS), hm.Plan(layers)


def run() -> list[Comparison]:
    rng = np.random.default_rng(0)
    architecture, plan = deep_plan(rng)
    X = rng.integers(-99, 100, size=(N_INPUTS, N_TOKENS, D_TOKEN)).astype(float)
    flow = hm.information_sets(architecture, plan, X, keep="all")
    found = []
    reference = seconds(
        lambda: found.append(information_loop(architecture, plan, X[0].tolist(), plain_bilinear))
    )
    for layer in range(1, DEPTH + 1):
        for t, held in found[0].sets[layer].items():
            if set(np.flatnonzero(flow.sets(layer, t)[0]).tolist()) != held:
                raise SystemExit(f"the sets of token {t} after layer {layer} differ")
    ours = min(seconds(lambda: hm.information_sets(architecture, plan, X)) for _ in range(3)) / N_INPUTS
    kept = min(seconds(lambda: hm.information_sets(architecture, plan, X, keep="all")) for _ in range(3))
    note = (
        f"T = {N_TOKENS}, {DEPTH} layers of {HEADS} heads, per input, {N_INPUTS} inputs at once; with all "
        f"routings kept {spell(kept / N_INPUTS)}; CLS ends with {int(flow.sizes.cls[0, -1])} tokens"
    )
    return [Comparison("information sets over a plain loop", ours, reference, 50.0, note=note)]


if __name__ == "__main__":
    print_table(run())
