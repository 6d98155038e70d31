"""The fused training step against the plain torch loop, samples per second, one thread.

D = 2, four-dimensional tokens, two layers of two heads, E = 12, w = 32, batches of 128: the model of the
infoflow paper's appendix C.4. Both make the same steps from the same vector, forward, backward and AdamW;
a disagreement ends the benchmark.
"""

from __future__ import annotations

from timing import Comparison, print_table, side_by_side

import numpy as np  # isort: skip (the thread counts come first)

from hardmax.training.fused import FusedSteps
from hardmax.training.layout import TransformerShape

BATCH, N, STEPS = 128, 4096, 8
LEAST = {15: 6.0, 64: 4.0}


def measured(n_tokens: int, activation: str) -> Comparison:
    from hardmax.training.transformer import TorchSteps

    shape = TransformerShape(
        n_tokens, 4, widths=(12, 12), heads=(2, 2), hidden=(32, 32), beta=1.0, activation=activation
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, n_tokens, 4)).astype(np.float32)
    Y = rng.standard_normal((N, 1)).astype(np.float32)
    order, rates = rng.integers(0, N, STEPS * BATCH), np.full(STEPS, 1e-3)
    ways = [way(shape, shape.initial(0), batch=BATCH) for way in (FusedSteps, TorchSteps)]
    for way in ways:
        way.run(X, Y, order, rates)
    apart = float(np.abs(ways[0].parameters - ways[1].parameters).max())
    if apart > 1e-5:
        raise SystemExit(f"the parameters after {STEPS} steps differ by {apart}")
    fused, plain = side_by_side(
        *(lambda way=way: way.run(X, Y, order, rates) for way in ways), repeats=4, rounds=3
    )
    rate = STEPS * BATCH / fused
    return Comparison(
        f"training at T = {n_tokens}, {activation}",
        fused,
        plain,
        LEAST[n_tokens],
        note=f"{STEPS} steps of {BATCH} sequences, {rate:,.0f} sequences a second",
    )


def saturated() -> Comparison:
    """Steps of heads that have become hard against steps of fresh ones: tiny weights must cost nothing."""
    shape = TransformerShape(
        64, 4, widths=(12, 12), heads=(2, 2), hidden=(32, 32), beta=1.0, activation="gelu"
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 64, 4)).astype(np.float32)
    Y = rng.standard_normal((N, 1)).astype(np.float32)
    order, rates = rng.integers(0, N, STEPS * BATCH), np.full(STEPS, 1e-12)
    fresh, hard = shape.initial(0), shape.initial(0)
    for part in shape.parameters:
        if part.name.endswith((".query", ".key")):
            hard[part.offset : part.offset + int(np.prod(part.shape))] *= 40
    ways = [FusedSteps(shape, vector, batch=BATCH) for vector in (hard, fresh)]
    slow, quick = side_by_side(
        *(lambda way=way: way.run(X, Y, order, rates) for way in ways), repeats=4, rounds=3
    )
    return Comparison(
        "hard heads against fresh ones, T = 64",
        slow,
        quick,
        0.8,
        note="the reference is the same step on fresh weights",
    )


def run() -> list[Comparison]:
    try:
        import torch
    except ImportError:
        print("training against torch: not run, torch is not installed")
        return [saturated()]
    torch.set_num_threads(1)
    return [*(measured(T, activation) for T in (15, 64) for activation in ("tanh", "gelu")), saturated()]


if __name__ == "__main__":
    print_table(run())
