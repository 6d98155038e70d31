"""P2 Theorems 1 and 2 against training: what is found by descent beside what is built, and what is forbidden.

Theorem 1: one layer is expensive for the least inner product of two tokens, two layers are not; trained
models of both depths stand beside the two-layer transformer of the proof, by parameters and error. Theorem
2: attention fetches the largest value and no other; one layer learns the k-th largest for k = 1, ..., 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.flow.theorems.colliding_pairs import retrieval_exponents, separation_exponents
from hardmax.flow.theorems.depth_separation import separation_inputs, separation_transformer
from hardmax.papers.recipes import NOT_RUN, Comparison, Option, Outcome, Recipe, Settings, compared, measured
from hardmax.papers.training_reports import (
    deviation_notes,
    formatted,
    runs_table,
    spread,
    stuck_note,
    summary_table,
)
from hardmax.papers.training_runs import Group, shape_for, sweep, training_options, trainings
from hardmax.targets import builtin

__all__ = ["RECIPES"]


# Theorem 1
# ----------------------------------------------------------------------------------------------------------


def _run_depth(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    T = settings["tokens"]
    target = {"name": "depth_separation", "d": 3, "domain": "cube11"}
    sweeps = {}
    for depth in (1, 2):
        for w in settings["hidden"]:
            name = f"{depth} layer{'s' if depth > 1 else ''}, w={w}"
            shape = shape_for(settings, T, 3, (1,) * depth, (settings["width"],) * depth, w)
            sweeps[name] = sweep(settings, name, target, shape)
    groups = trainings(settings, sweeps)
    inputs = separation_inputs(T, settings["inputs"], beta=100.0, rng=settings.rng("inputs"))
    truth = builtin.depth_separation(3)
    values = {name: truth(X) for name, X in inputs.items()}
    variance = float(truth(truth.sample(4000, T, settings.rng("variance"))).var())
    rows: dict[str, list[Any]] = {
        name: [] for name in ("model", "epsilon", "parameters", "nmse", "rms_uniform", "largest")
    }
    built = []
    for epsilon in settings["epsilons"]:
        made = separation_transformer(epsilon, T, square="richardson")
        errors = {name: np.abs(made.transformer(X) - values[name]) for name, X in inputs.items()}
        built.append((made.transformer.n_parameters, _rms(errors["uniform"]), _largest(errors)))
        _add(rows, "constructed", epsilon, built[-1], variance)
    trained: dict[int, list[tuple[int, float, float]]] = {1: [], 2: []}
    for name, group in groups.items():
        best = group.best
        if best is None:
            _add(rows, name, None, (sweeps[name][0].job.shape.n_parameters, NOT_RUN, NOT_RUN), variance)
            continue
        result = best[1]
        errors = {key: np.abs(result.predict(X)[:, 0] - values[key]) for key, X in inputs.items()}
        depth = len(result.shape.heads)
        trained[depth].append((result.shape.n_parameters, _rms(errors["uniform"]), _largest(errors)))
        _add(rows, name, None, trained[depth][-1], variance)

    def panel(title: str, y: str, column: int) -> Panel:
        curves = [Curve("constructed (Theorem 1)", *_columns(built, column))]
        for depth, label in ((1, "one layer, trained"), (2, "two layers, trained")):
            if trained[depth]:
                curves.append(Curve(label, *_columns(trained[depth], column)))
        return Panel(title, "parameters", y, tuple(curves))

    figure = draw_rates(
        [
            panel(f"uniform tokens, T = {T}", "root mean square error", 1),
            panel("worst of all families, near ties included", "largest error", 2),
        ]
    )
    for axes in figure.axes:
        axes.legend(frameon=False, fontsize=8.5, loc="lower left")  # away from the lines of one layer
    k = separation_exponents(T, 1, settings["width"]).formal
    return Outcome(
        {"trained_vs_constructed": figure},
        {"models": rows, "summary": summary_table(groups), "runs": runs_table(groups)},
        _depth_rows(groups, settings["hidden"], built, trained, k),
        (
            *deviation_notes(settings, "The paper trains nothing for Theorem 1."),
            stuck_note(groups),
            "Training minimises the mean square on uniform tokens and knows nothing of near ties; the "
            "construction "
            "bounds the error everywhere. A bound on parameters at error epsilon is no statement about "
            "training.",
        ),
    )


def _add(
    rows: dict[str, list[Any]], name: str, epsilon: Any, found: tuple[Any, ...], variance: float
) -> None:
    parameters, rms, largest = found
    nmse = NOT_RUN if rms == NOT_RUN else rms**2 / variance
    for key, value in zip(rows, (name, epsilon, parameters, nmse, rms, largest), strict=True):
        rows[key].append(value)


def _rms(errors: Any) -> float:
    return float(np.sqrt((errors**2).mean()))


def _largest(errors: dict[str, Any]) -> float:
    return max(float(found.max()) for found in errors.values())


def _columns(found: list[tuple[int, float, float]], column: int) -> tuple[list[float], list[float]]:
    ordered = sorted(found)
    return [float(row[0]) for row in ordered], [float(row[column]) for row in ordered]


def _depth_rows(
    groups: dict[str, Group], hidden: tuple[int, ...], built: list[Any], trained: dict[int, list[Any]], k: Any
) -> tuple[Comparison, ...]:
    rows = [
        compared(
            "one layer: exponent of the lower bound, H = 1",
            "positive for long sequences",
            f"{float(k):.3f}" + (", which says nothing" if k <= 0 else ""),
            None,
        )
    ]
    for w in hidden:
        one, two = groups[f"1 layer, w={w}"], groups[f"2 layers, w={w}"]
        ratio = None if one.median is None or two.median is None else one.median / two.median
        rows += [
            measured(f"NMSE, one layer, w = {w}", "not trained", spread(one.values)),
            measured(f"NMSE, two layers, w = {w}", "not trained", spread(two.values)),
            measured(f"one layer over two layers, w = {w}", "larger than 1", formatted(ratio, ".3g")),
        ]
    if trained[2]:
        parameters, rms, largest = min(trained[2], key=lambda row: row[1])
        near = min(built, key=lambda row: abs(np.log(row[0] / parameters)))
        rows.append(
            measured(
                f"constructed with {near[0]:,} parameters beside trained with {parameters:,}",
                "not compared",
                f"rms {near[1]:.2e} and {rms:.2e}, largest {near[2]:.2e} and {largest:.2e}",
            )
        )
    return tuple(rows)


# Theorem 2
# ----------------------------------------------------------------------------------------------------------


def _run_largest(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import Measured, MeasuredPanel, draw_measured

    T, n, ks = settings["tokens"], settings["width"], settings["ks"]
    sweeps = {}
    for depth in settings["depths"]:
        shape = shape_for(settings, T, 1, (1,) * depth, (n,) * depth, settings["hidden"])
        for k in ks:
            name = f"k={k}, {depth} layer{'s' if depth > 1 else ''}"
            sweeps[name] = sweep(settings, name, {"name": "kth_largest", "k": k}, shape)
    groups = trainings(settings, sweeps)
    exponents = {k: float(retrieval_exponents(T, k, n).proof) if k > 1 else 0.0 for k in ks}
    series = tuple(
        Measured(
            f"{depth} layer{'s' if depth > 1 else ''}",
            ks,
            [groups[f"k={k}, {depth} layer{'s' if depth > 1 else ''}"].values for k in ks],
        )
        for depth in settings["depths"]
    )
    panel = MeasuredPanel(
        f"the k-th largest of {T} numbers, one head, n = {n}",
        "k",
        series,
        exponents=tuple((float(k), exponents[k]) for k in ks),
    )
    rows = []
    for name, group in groups.items():
        k = int(name.split(",")[0][2:])
        says = "cheap: the largest" if k == 1 else f"at least epsilon^-{exponents[k]:.3g} parameters"
        if k > 1 and not name.endswith("1 layer"):
            says = "no bound for more layers"
        rows.append(measured(f"NMSE, {name}", says, spread(group.values)))
    first = groups.get(f"k={ks[0]}, 1 layer")
    others = [groups[f"k={k}, 1 layer"].median for k in ks[1:] if f"k={k}, 1 layer" in groups]
    if first is not None and first.median is not None and all(m is not None for m in others) and others:
        least = min(m for m in others if m is not None)
        rows.append(
            measured(
                f"one layer: least NMSE for k > {ks[0]} over that for k = {ks[0]}",
                "larger than 1",
                f"{least / first.median:.3g}",
            )
        )
    table = {"k": list(ks), "exponent": [exponents[k] for k in ks]}
    return Outcome(
        {"kth_largest": draw_measured([panel])},
        {"exponents": table, "summary": summary_table(groups), "runs": runs_table(groups)},
        tuple(rows),
        (
            *deviation_notes(settings, "The paper trains nothing for Theorem 2."),
            stuck_note(groups),
            "Theorem 2 bounds the parameters that an error epsilon everywhere needs, with monotone scores "
            "and "
            "bounded weights; an NMSE on uniform tokens is another quantity. The exponent of k = 1 is put "
            "at 0.",
        ),
    )


RECIPES = (
    Recipe(
        "infoflow.trained-vs-constructed",
        "Theorem 1: trained models of one and two layers beside the constructed one",
        (
            Option("tokens", 15, "sequence length T", paper=32, least=3),
            Option("width", 6, "E, one head: the width of the construction", least=1),
            Option("hidden", (16, 64), "hidden widths", medium=(16, 64, 256), least=1),
            Option("epsilons", (0.4, 0.2, 0.1, 0.05), "accuracies of the construction", positive=True),
            Option("inputs", 500, "sequences per family of test inputs", least=1),
            *training_options(
                (1_000_000, 6_000_000, 18_000_000),
                rates=((1e-2,), (3e-3, 1e-2), (1e-3, 1e-2)),
                seeds=(1, 3, 8),
            ),
        ),
        _run_depth,
    ),
    Recipe(
        "infoflow.kth-largest",
        "Theorem 2: learning the k-th largest number",
        (
            Option("ks", (1, 2, 3, 4), "which largest", least=1),
            Option("tokens", 15, "sequence length T", paper=64, least=4),
            Option("depths", (1, 2), "numbers of layers", least=1),
            Option("width", 4, "E = n, one head", least=1),
            Option("hidden", 32, "hidden width", least=1),
            *training_options(
                (600_000, 4_000_000, 18_000_000),
                rates=((1e-2,), (3e-3, 1e-2), (1e-3, 1e-2)),
                seeds=(1, 3, 8),
            ),
        ),
        _run_largest,
    ),
)
