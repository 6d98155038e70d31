"""Train the two bundled ReLU models again: P2's pairwise target (6), D = 2, at 15 and at 64 tokens.

    python examples/train_relu_models.py FOLDER [15] [64]

They have the shape and the settings of the bundled GELU model, no norms, and ReLU, so that they are piecewise
affine at temperature zero. The same seeds give the same numbers on the same kind of machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hardmax.training.jobs import Job, TrainingSettings
from hardmax.training.layout import TransformerShape
from hardmax.training.loop import train
from hardmax.training.trained_models import TrainedModel

NAMES = {15: "pairwise-2-relu", 64: "pairwise-2-relu-64"}
SAMPLES = {15: 16_000_000, 64: 16_000_000}


def job(n_tokens: int) -> Job:
    """The training run of a length."""
    shape = TransformerShape(
        n_tokens, 4, widths=(12, 12), heads=(2, 2), hidden=(32, 32), beta=1.0, activation="relu"
    )
    target = {"name": "pairwise", "D": 2, "d": 4, "seed": 0}
    return Job(target, shape, TrainingSettings(SAMPLES[n_tokens], learning_rate=1e-2), seed=1)


def main(folder: str, lengths: list[int]) -> None:
    """Train and write the models."""
    for n_tokens in lengths:
        result = train(job(n_tokens), progress=True)
        path = TrainedModel.of(result).save(Path(folder) / f"{NAMES[n_tokens]}.safetensors")
        print(f"{path}: validation NMSE {result.best:.3g}")


if __name__ == "__main__":
    main(sys.argv[1], [int(n) for n in sys.argv[2:]] or list(NAMES))
