"""A model of the InfoFlow paper along its training: when its heads become hard, and how its cells grow.

    python examples/along_training.py                       a short training, about half a minute
    python examples/along_training.py 16000000 out          the one of docs/along-training.md

Trains the sum of two maxima of bilinear forms (D = 2) over 15 tokens, with checkpoints at 0 and at powers of
two of a small number of samples. Prints the curves and writes result.npz, curves.npz and curves.png into a
folder, where one is given.
"""

from __future__ import annotations

import sys
from pathlib import Path

import hardmax as hm

SHAPE = {
    "n_tokens": 15,
    "d_token": 4,
    "widths": [12, 12],
    "heads": [2, 2],
    "hidden": [32, 32],
    "activation": "gelu",
    "beta": 1.0,
}


def job(n_samples: int) -> hm.training.Job:
    """The training, with checkpoints that lie evenly on a logarithmic scale."""
    steps, at = [0], n_samples
    while at >= 8000:
        steps.append(at)
        at //= 2
    return hm.training.Job.from_json(
        {
            "target": {"name": "pairwise", "D": 2, "d": 4, "seed": 0},
            "shape": SHAPE,
            "settings": {
                "n_samples": n_samples,
                "learning_rate": 0.01,
                "train_size": 36_000,
                "checkpoints": sorted(steps),
            },
            "seed": 1,
        }
    )


def main(n_samples: int = 250_000, out: Path | None = None) -> None:
    """Train, follow, print."""
    result = hm.training.train(job(n_samples))
    print(result)
    found = hm.along_training(result, n_cells=4)
    print(found, f"{found.seconds:.1f} s")
    share, margin = found.interval("share_within_10"), found.interval("margin")
    print("samples    error     enough  hard, head by head     margins              cells, layer by layer")
    for c, step in enumerate(found.steps):
        hard = " ".join(f"{value:4.0%}" for value in share.mean[c])
        lead = " ".join(f"{value:5.2f}" for value in margin.mean[c])
        cells = " ".join(f"{value:5.1f}" for value in found.cells[c].mean(axis=0))
        print(f"{step:>9,}  {found.error[c]:.2e}  {found.learns[c]:5.0%}  {hard}  {lead}  {cells}")
    for event in found.events:
        sure = "" if event.sure else ", not sure"
        print(f"{event.step:>9,}  layer {event.layer}, head {event.head} becomes {event.what}{sure}")
    if out is not None:
        out.mkdir(exist_ok=True)
        result.save(out / "result.npz")
        found.save(out / "curves.npz")
        found.plot().figure.savefig(out / "curves.png", dpi=110)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*([int(given[0])] if given else []), *([Path(given[1])] if len(given) > 1 else []))
