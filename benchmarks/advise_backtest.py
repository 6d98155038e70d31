"""Does the adviser predict what training finds? Forty tasks, predicted first and trained afterwards.

    make backtest
    python benchmarks/advise_backtest.py predict     # writes docs/results/advise-backtest-predictions.json
    python benchmarks/advise_backtest.py train       # resumable, one line of out/backtest/runs.jsonl per run
    python benchmarks/advise_backtest.py report      # writes docs/results/advise-backtest.md and .json

For every task the first suggestion of ``hm.advise`` meets a rival: one head or one layer less, the same
widths cut into heads narrower than the rank of a score, no positions, or (where the adviser says that the
small one is enough) one that has more. The rival has at least as many parameters, positions not counted. Both
are trained at two budgets, the widths that the adviser suggests and twice these, with the same number of
steps and the same seeds; the best validation NMSE over the seeds counts.

What counts as a hit was fixed before any training:

* "the rival fails": the suggestion ends at an NMSE of 0.05 or less, and the rival at 3 times as much or more;
* "the rival does as well": the suggestion ends at 0.05 or less, and neither is 3 times worse than the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.flow.costs.advise import parameter_count
from hardmax.targets.tasks import RECALL
from hardmax.training.data import canonical, outputs_of
from hardmax.training.jobs import Job, TrainingSettings
from hardmax.training.layout import TransformerShape
from hardmax.training.loop import train

RESULTS = Path(__file__).parent.parent / "docs" / "results"
PREDICTIONS = RESULTS / "advise-backtest-predictions.json"
RUNS = Path("out/backtest/runs.jsonl")
SEEDS = (0, 1)
BUDGETS = {"suggested widths": 1, "twice the widths": 2}
SMALL, FACTOR = 0.05, 3.0  # what counts as a hit


@dataclass(frozen=True)
class Task:
    """A target, a length, and what the rival of the suggestion is."""

    name: str
    target: Mapping[str, Any]
    n_tokens: int
    rival: str  # "head of layer 1", "head of layer 2", "layer", "positions", "split N", "more heads", ...
    encoder_hidden: int = 0  # scores with squares need an encoder that is not linear
    positions: bool = field(default=False, kw_only=True)


def _pairs(D: int, d: int, seed: int, domain: str = "gaussian") -> dict[str, Any]:
    return {"name": "pairwise", "D": D, "d": d, "seed": seed, "domain": domain}


def _given(*matrices: Any, domain: str = "gaussian") -> dict[str, Any]:
    return {"name": "pairwise", "matrices": [np.asarray(m).tolist() for m in matrices], "domain": domain}


def _text(text: str, d: int, domain: str = "cube11", **rest: Any) -> dict[str, Any]:
    return {"name": "text", "text": text, "d": d, "domain": domain, **rest}


def _best(D: int, d: int, domain: str) -> dict[str, Any]:
    return {"name": "retrieval", "D": D, "d": d, "domain": domain}


def _kth(k: int, d: int = 1) -> dict[str, Any]:
    return {"name": "kth_largest", "k": k, "d": d}


_RANK_1 = np.outer([1, -2, 1, 2], [2, 1, -1, 1])
_RANK_2 = np.outer([1, 0, 2, -1, 1, 0], [0, 1, -1, 2, 0, 1]) - np.outer(
    [0, 1, 1, 1, -2, 1], [1, 1, 0, -1, 1, 2]
)
_ONE = [[1.0, -2.0, 0.5], [0.0, -1.0, 1.5], [2.0, 1.0, -0.5]]
_TWO = "max(t) (x[t][0] + 2 x[t][1]) + max(t) (x[t][0] - x[t][1])"
_THREE = "max(t) x[t][0] + max(t) (0.5 x[t][0] + x[t][1]) + max(t) (x[t][1] - 2 x[t][0])"
_ASKED = "max(s!=t) (2 x[s][0] - 6 (x[s][1] - x[t][1])^2 + x[t][2])"

TASKS = (
    Task("two largest coordinates", _best(2, 2, "gaussian"), 10, "head of layer 1"),
    Task("three largest coordinates", _best(3, 3, "cube01"), 12, "head of layer 1"),
    Task("four largest coordinates", _best(4, 4, "gaussian"), 16, "head of layer 1"),
    Task("five largest coordinates", _best(5, 5, "cube11"), 8, "head of layer 1"),
    Task("two linear forms", _text(_TWO, 2), 20, "head of layer 1"),
    Task("range", _text("max(t) x[t][0] - min(t) x[t][0]", 1, "gaussian"), 14, "head of layer 1"),
    Task("three linear forms", _text(_THREE, 2), 24, "head of layer 1"),
    Task("one form, d = 2", _pairs(1, 2, 11), 12, "layer"),
    Task("one form, d = 3", _pairs(1, 3, 12, "cube11"), 16, "layer"),
    Task("one form, d = 4", _pairs(1, 4, 13), 10, "layer"),
    Task("largest product of two", _text("max(s!=t) x[s]' x[t]", 3, "gaussian"), 12, "layer"),
    Task("depth separation", {"name": "depth_separation", "d": 3}, 10, "layer"),
    Task("closest pair", _text("min(s!=t) |x[s] - x[t]|^2", 2, "cube01"), 10, "layer", 16),
    Task("asked for by key", _text(_ASKED, 3, "cube01"), 10, "layer", 16),
    Task("associative recall", _text(RECALL, 3, "cube01"), 10, "layer", 16),
    Task("two forms, d = 2, first", _pairs(2, 2, 21), 12, "head of layer 1"),
    Task("two forms, d = 2, second", _pairs(2, 2, 22), 12, "head of layer 2"),
    Task("two forms, d = 3, first", _pairs(2, 3, 23), 15, "head of layer 1"),
    Task("two forms, d = 3, second", _pairs(2, 3, 24, "cube11"), 10, "head of layer 2"),
    Task("two forms, d = 4, first", _pairs(2, 4, 25), 15, "head of layer 1"),
    Task("two forms, d = 4, second", _pairs(2, 4, 26), 12, "head of layer 2"),
    Task("a form and a maximum", _text("max(t) x[t][0] + max(s,t) x[s]' A x[t]", 3, seed=27), 12, "layer"),
    Task("three forms, d = 3", _pairs(3, 3, 28), 12, "head of layer 1"),
    Task("second largest of 8", _kth(2), 8, "layer"),
    Task("second largest of 16", _kth(2), 16, "layer"),
    Task("second largest, d = 2", _kth(2, 2), 12, "layer"),
    Task("third largest of 10", _kth(3), 10, "layer"),
    Task("third largest of 6", _kth(3), 6, "layer"),
    Task(
        "first three positions",
        {"name": "positions", "positions": [0, 1, 2]},
        10,
        "positions",
        positions=True,
    ),
    Task("copy position 3", {"name": "positions", "positions": [3]}, 8, "positions", positions=True),
    Task("positions 1 and 5", {"name": "positions", "positions": [1, 5]}, 16, "positions", positions=True),
    Task(
        "a position and a maximum",
        _text("x[0][0] + max(t) x[t][1]", 2, "gaussian"),
        12,
        "head of layer 1",
        positions=True,
    ),
    Task("rank 3 in heads of width 1", _pairs(1, 3, 31), 15, "heads of width 1"),
    Task("rank 4 in heads of width 1", _pairs(1, 4, 32), 12, "heads of width 1"),
    Task("rank 4 in heads of width 2", _pairs(1, 4, 33), 12, "heads of width 2"),
    Task("rank 6 in heads of width 1", _pairs(1, 6, 34), 15, "heads of width 1"),
    Task("rank 1 in heads of width 1", _given(_RANK_1), 12, "heads of width 1"),
    Task("rank 2 in heads of width 2", _given(_RANK_2), 12, "heads of width 2"),
    Task("semidefinite form", _text("max(s,t) x[s]' x[t]", 3, "gaussian"), 12, "one more layer", 16),
    Task("a form and three times it", _given(_ONE, 3 * np.asarray(_ONE)), 12, "one more head"),
)


# Predictions
# ----------------------------------------------------------------------------------------------------------


def predictions() -> list[dict[str, Any]]:
    """What the adviser says of every task at every budget."""
    return [
        {"task": task.name, "target": dict(task.target), "n_tokens": task.n_tokens, "budget": budget}
        | _prediction(task, times)
        for task in TASKS
        for budget, times in BUDGETS.items()
    ]


def _prediction(task: Task, times: int) -> dict[str, Any]:
    target = outputs_of(task.target)[0]
    first = hm.advise(target, task.n_tokens, n_samples=512).suggestions[0]
    widths = tuple(times * width for width in first.widths)
    own = hm.Architecture(task.n_tokens, target.d_token, first.heads, widths)
    rival, positions = _rival(task, own), task.positions and task.rival != "positions"
    lacks_positions = task.positions and not positions
    found = hm.estimate_cost(target, rival, n_samples=512, thresholds=False)
    fails = lacks_positions or (found.rules == "global" and found.upper > 0)
    why = found.verdict
    if lacks_positions:
        why = f"without positions the error is at least 1 - {len(task.target['positions'])}/{task.n_tokens}"
    return {
        "suggestion": {**_shape(own, task.positions), "ranks": list(first.ranks)},
        "rival": {"is": task.rival, **_shape(rival, positions)},
        "encoder_hidden": task.encoder_hidden,
        "prediction": "the rival fails" if fails else "the rival does as well",
        "why": why,
        "rival_exponent": None if lacks_positions else str(found.upper),
        "n_samples": 1_500_000 if own.depth > 1 else 1_000_000,
    }


def _shape(shape: hm.Architecture, positions: bool) -> dict[str, Any]:
    return {
        "heads": list(shape.heads),
        "widths": list(shape.widths),
        "positions": positions,
        "parameters": parameter_count(shape, positions=positions),
    }


def _rival(task: Task, own: hm.Architecture) -> hm.Architecture:
    """What the suggestion is compared with: at least as many parameters."""
    heads, widths = list(own.heads), list(own.widths)
    match task.rival.split():
        case ["head", "of", "layer", number]:
            heads[int(number) - 1] -= 1
            if heads[int(number) - 1] == 0:
                raise ValueError(f"{task.name}: layer {number} has one head only")
        case ["layer"]:
            del heads[0], widths[0]
        case ["heads", "of", "width", number]:
            heads[0] = widths[0] // int(number)
        case ["one", "more", "layer"]:
            heads, widths = [*heads, heads[-1]], [*widths, widths[-1]]
        case ["one", "more", "head"]:
            heads = [h + 1 for h in heads]
    enough = parameter_count(own)
    step = 0
    while True:
        sizes = [-(-(width + step) // h) * h for width, h in zip(widths, heads, strict=True)]
        shape = hm.Architecture(own.n_tokens, own.d_token, heads, sizes)
        if parameter_count(shape) >= enough:
            return shape
        step += 1


def digest(rows: list[dict[str, Any]]) -> str:
    """SHA-256 of the predictions."""
    return hashlib.sha256(canonical(rows).encode()).hexdigest()


def read_predictions() -> list[dict[str, Any]]:
    """The predictions as they were written, if their digest fits."""
    stored = json.loads(PREDICTIONS.read_text())
    if digest(stored["predictions"]) != stored["sha256"]:
        sys.exit(f"{PREDICTIONS} was changed after it was written: its digest does not fit.")
    rows: list[dict[str, Any]] = stored["predictions"]
    return rows


def predict() -> None:
    """Write the predictions once; training reads this file."""
    if PREDICTIONS.exists():
        sys.exit(f"{PREDICTIONS} exists; predictions are made once, before training.")
    rows = predictions()
    stored = {
        "hit": f"suggestion at most {SMALL}, and the rival at least {FACTOR:g} times as much (fails) or "
        f"neither {FACTOR:g} times worse than the other (does as well)",
        "seeds": list(SEEDS),
        "sha256": digest(rows),
        "predictions": rows,
    }
    PREDICTIONS.write_text(json.dumps(stored, indent=1) + "\n")
    counts = Counter(row["prediction"] for row in rows)
    print(f"{len(rows)} predictions: {dict(counts)}; sha256 {stored['sha256']}")


# Training
# ----------------------------------------------------------------------------------------------------------


def jobs(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, int, Job]]:
    """Every run: the prediction, who trains, the seed and the job."""
    for row in rows:
        for who in ("suggestion", "rival"):
            chosen = row[who]
            d = outputs_of(row["target"])[0].d_token
            shape = TransformerShape(
                row["n_tokens"],
                d,
                widths=tuple(chosen["widths"]),
                heads=tuple(chosen["heads"]),
                hidden=tuple(4 * width for width in chosen["widths"]),
                activation="gelu",
                beta=1.0,
                positions="additive" if chosen["positions"] else None,
                encoder_hidden=row["encoder_hidden"],
            )
            settings = TrainingSettings(row["n_samples"], batch=64, learning_rate=1e-2, validation_size=4_000)
            for seed in SEEDS:
                yield row, who, seed, Job(row["target"], shape, settings, seed=seed)


def read_runs() -> dict[str, dict[str, Any]]:
    """The runs that were made, by the key of their job."""
    if not RUNS.exists():
        return {}
    lines = [json.loads(line) for line in RUNS.read_text().splitlines() if line.endswith("}")]
    return {line["key"]: line for line in lines}


def train_all() -> None:
    """Make the runs that are missing."""
    rows = read_predictions()
    RUNS.parent.mkdir(parents=True, exist_ok=True)
    done = read_runs()
    everything = list(jobs(rows))
    with RUNS.open("a") as file:
        for number, (row, who, seed, job) in enumerate(everything, start=1):
            if job.key in done:
                continue
            result = train(job)
            line = {
                "key": job.key,
                "best": result.best,
                "final": float(result.validation_nmse[-1]),
                "diverged": result.diverged,
                "cpu_seconds": round(result.cpu_seconds, 2),
                "n_parameters": job.shape.n_parameters,
            }
            done[job.key] = line
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(
                f"{number}/{len(everything)} {row['task']}, {row['budget']}, {who} "
                f"{tuple(row[who]['heads'])}, seed {seed}: {result.best:.2e} "
                f"({result.cpu_seconds:.1f} CPU s)",
                flush=True,
            )


# After the fact: why some predictions missed
# ----------------------------------------------------------------------------------------------------------

AFTER = (
    *(("three linear forms", (3,), (12,), seed, None) for seed in (2, 3, 4)),
    ("three linear forms", (4,), (12,), 0, None),
    *(("largest product of two", (1, 1), (16, 16), seed, "additive") for seed in (0, 1)),
    *(("closest pair", (1, 1), (16, 16), seed, "additive") for seed in (0, 1)),
)
"""Runs that were chosen after the others: task, heads, widths, seed, positions."""


def after() -> None:
    """Train them and write what they give; no prediction is judged by them."""
    tasks = {task.name: task for task in TASKS}
    found = []
    for name, heads, widths, seed, positions in AFTER:
        task = tasks[name]
        target = outputs_of(task.target)[0]
        shape = TransformerShape(
            task.n_tokens,
            target.d_token,
            widths=widths,
            heads=heads,
            hidden=tuple(4 * width for width in widths),
            activation="gelu",
            beta=1.0,
            positions=positions,
            encoder_hidden=task.encoder_hidden,
        )
        samples = 1_500_000 if len(heads) > 1 else 1_000_000
        settings = TrainingSettings(samples, batch=64, learning_rate=1e-2, validation_size=4_000)
        best = train(Job(task.target, shape, settings, seed=seed)).best
        row = {"task": name, "heads": heads, "widths": widths, "seed": seed, "positions": positions}
        found.append(row | {"nmse": best})
        print(f"{name} {heads} {widths}, seed {seed}, positions {positions}: {best:.2e}", flush=True)
    (RESULTS / "advise-backtest-after.json").write_text(json.dumps(found, indent=1) + "\n")


# Report
# ----------------------------------------------------------------------------------------------------------


def outcomes() -> list[dict[str, Any]]:
    """Every prediction with what training found; those without all runs are left out."""
    rows, done = read_predictions(), read_runs()
    errors: dict[tuple[str, str, str], list[float]] = {}
    spent: Counter[tuple[str, str]] = Counter()
    for row, who, _, job in jobs(rows):
        if job.key in done:
            errors.setdefault((row["task"], row["budget"], who), []).append(done[job.key]["best"])
            spent[row["task"], row["budget"]] += done[job.key]["cpu_seconds"]
    found = []
    for row in rows:
        own, rival = (errors.get((row["task"], row["budget"], who), []) for who in ("suggestion", "rival"))
        if len(own) == len(rival) == len(SEEDS):
            verdict = _verdict(row["prediction"], min(own), min(rival))
            seconds = round(spent[row["task"], row["budget"]], 1)
            found.append(row | {"nmse": own, "rival_nmse": rival, "verdict": verdict, "cpu_seconds": seconds})
    return found


def _verdict(prediction: str, own: float, rival: float) -> str:
    """ "hit", or why not."""
    if own > SMALL:
        return "miss: the suggestion does not train"
    if prediction == "the rival fails":
        return "hit" if rival >= FACTOR * own else "miss: the rival does as well"
    if rival >= FACTOR * own:
        return "miss: the rival fails"
    return "hit" if own < FACTOR * rival else "miss: the rival is better"


def report() -> None:
    """Write the raw numbers, and the table of the page between its marks."""
    found = outcomes()
    (RESULTS / "advise-backtest.json").write_text(json.dumps(found, indent=1) + "\n")
    lines = [
        "| task | T | suggestion | rival | predicted | NMSE | rival's NMSE | verdict |",
        "|" + "---|" * 8,
    ]
    for row in found:
        twice = ", twice as wide" if row["budget"] != "suggested widths" else ""
        lines.append(
            f"| {row['task']}{twice} | {row['n_tokens']} | {_short(row['suggestion'])} | "
            f"{_short(row['rival'])} | {row['prediction'].removeprefix('the rival ')} | "
            f"{min(row['nmse']):.1e} | {min(row['rival_nmse']):.1e} | {row['verdict']} |"
        )
    page = RESULTS / "advise-backtest.md"
    text = page.read_text()
    begin, end = "<!-- table -->\n", "<!-- end of table -->"
    before, rest = text.split(begin)
    page.write_text(before + begin + "\n".join(["", *lines, ""]) + "\n" + end + rest.split(end)[1])
    for kind in ("budget", "prediction"):
        for value in dict.fromkeys(row[kind] for row in found):
            counts = Counter(row["verdict"] for row in found if row[kind] == value)
            print(f"{value}: {dict(counts)}")
    print(f"{sum(row['cpu_seconds'] for row in found):.0f} CPU s")


def _short(shape: Mapping[str, Any]) -> str:
    return f"heads {_numbers(shape['heads'])}; widths {_numbers(shape['widths'])}"


def _numbers(values: list[int]) -> str:
    return ", ".join(map(str, values))


def main() -> None:
    """Predict, train, report, or look into misses."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=("predict", "train", "report", "after"))
    {"predict": predict, "train": train_all, "report": report, "after": after}[parser.parse_args().step]()


if __name__ == "__main__":
    main()
