"""What a trained model knows and how hard its heads are, from the result of a finished training.

    python examples/look_into_a_training.py
    hardmax training run docs/results/pairwise-2-64-tokens.json
    python examples/look_into_a_training.py out/pairwise-2-64-tokens/results/*.npz

Without a file it makes a training of its own, of a few seconds and therefore unfinished.

Prints the validation error, which tokens a linear map can still read from the states after attention (P2
appendices C.1 and C.2), how often the model's own routing brings CLS everything that the target depends on,
and how many queries are within one per cent of hardmax.
"""

from __future__ import annotations

import sys

import numpy as np

import hardmax as hm
from hardmax.training.data import examples, outputs_of
from hardmax.training.jobs import Job
from hardmax.training.learned_routing import measured_hardness, routed_flow
from hardmax.training.loop import TrainingResult, train
from hardmax.training.states import recovery


def sequences(result: TrainingResult, n: int, seed: int) -> np.ndarray:
    """Fresh inputs of the target."""
    job = result.job
    return examples(job.target, job.shape.n_tokens, n, seed=seed, stream=7).X


SHORT = {
    "target": {"name": "pairwise", "D": 2, "d": 4, "seed": 0},
    "shape": {
        "n_tokens": 15,
        "d_token": 4,
        "widths": [12, 12],
        "heads": [2, 2],
        "hidden": [32, 32],
        "activation": "gelu",
        "beta": 1.0,
    },
    "settings": {"n_samples": 300_000, "learning_rate": 0.01, "train_size": 10_000},
    "seed": 0,
}


def loaded(path: str) -> TrainingResult:
    """The result of a training, from its file."""
    result = hm.load(path)
    if not isinstance(result, TrainingResult):
        raise SystemExit(f"{path} is a {type(result).__name__}, not the result of a training.")
    return result


def tell(name: str, result: TrainingResult) -> None:
    """Print what one result shows."""
    shape, vector = result.shape, result.best_parameters
    print(f"{name}: best validation NMSE {result.best:.3g}, {result.cpu_seconds:.0f} CPU s")
    fit, test, asked = (sequences(result, n, seed) for n, seed in ((1000, 5), (500, 6), (200, 9)))
    for rank, name in ((1, "largest"), (2, "second largest")):
        ratios = recovery(shape, result.job.initial(), vector, fit, test, rank=rank).ratio
        print(f"  {name} token, error trained over initialised: {', '.join(f'{r:.3f}' for r in ratios)}")
    (target,) = outputs_of(result.job.target)
    print(f"  information sets hold the active set on {routed_flow(shape, vector, asked).learns(target)!r}")
    for row in measured_hardness(shape, vector, asked[:50]):
        print(
            f"  layer {row.layer}, head {row.head}, {row.who}: {row.share_hard:.0%} hard, median margin "
            f"{row.margin:.1f} temperatures"
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        tell("a short training", train(Job.from_json(SHORT)))
    for path in sys.argv[1:]:
        tell(path, loaded(path))
