"""Beyond P2: what InfoFlow predicts and what training finds in one picture, and how routing forms.

``infoflow.thresholds`` puts the predicted cost exponent and the thresholds of
:func:`~hardmax.flow.costs.estimate.estimate_cost` beside measured NMSE for the number of heads, the depth and
the length of sequences, with the smallest architecture of :func:`~hardmax.flow.costs.advise.advise` named
beside them, and says how often the arg-max routing of the trained models brings CLS all that the target
depends on. ``infoflow.dynamics`` follows one training: cells, margins in units of temperature, and the share
of hard queries, which P1 names as an open question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardmax.flow.architectures import Architecture
from hardmax.flow.costs.advise import Suggestion, advise
from hardmax.flow.costs.estimate import CostEstimate, estimate_cost
from hardmax.papers.infoflow.table11 import pairwise_target, width_of
from hardmax.papers.recipes import NOT_RUN, Comparison, Option, Outcome, Recipe, Settings, measured
from hardmax.papers.training_reports import (
    deviation_notes,
    runs_table,
    spread,
    stuck_note,
    summary_table,
)
from hardmax.papers.training_runs import Group, shape_for, sweep, training_options, trainings

__all__ = ["RECIPES"]

_Models = dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]  # x -> T, heads, widths


def _models(settings: Settings) -> dict[str, _Models]:
    """What varies in each of the three panels; names of panels are what stands on their x axes."""
    D, T = settings["maxima"], settings["tokens"]
    wide = width_of(D, D)
    return {
        "heads per layer": {h: (T, (h, h), (width_of(D, h),) * 2) for h in settings["heads"]},
        "layers": {L: (T, (D,) * L, (wide,) * L) for L in settings["depths"]},
        "T": {t: (t, (D, D), (wide, wide)) for t in settings["lengths"]},
    }


def _run_thresholds(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import Measured, MeasuredPanel, draw_measured

    D, d = settings["maxima"], settings["d"]
    target = pairwise_target(D, d, settings["draw"])
    models = _models(settings)
    sweeps = {}
    for varied, listed in models.items():
        for x, (T, heads, widths) in listed.items():
            shape = shape_for(settings, T, d, heads, widths, 16 * D)
            sweeps[f"{varied} = {x}"] = sweep(settings, f"{varied} = {x}", target, shape)
    groups = trainings(settings, sweeps)
    costs = {
        f"{varied} = {x}": estimate_cost(
            _target(target), Architecture(T, d, heads, widths), rng=settings.seed
        )
        for varied, listed in models.items()
        for x, (T, heads, widths) in listed.items()
    }
    advice = {
        T: advise(_target(target), T, n_suggestions=1, rng=settings.seed).suggestions[0]
        for T in dict.fromkeys(T for listed in models.values() for T, _, _ in listed.values())
    }
    panels = []
    for varied, listed in models.items():
        xs = list(listed)
        found = Measured("trained", xs, [groups[f"{varied} = {x}"].values for x in xs])
        threshold = _threshold(varied, [costs[f"{varied} = {x}"] for x in xs])
        inside = threshold is not None and min(xs) <= threshold <= max(xs)
        panels.append(
            MeasuredPanel(
                f"{_titles(settings)[varied]}\n{_advised(advice, [T for T, _, _ in listed.values()])}",
                varied,
                (found,),
                threshold=threshold if inside else None,
                threshold_label=f"predicted: {threshold}",
                exponents=tuple((float(x), float(costs[f"{varied} = {x}"].upper)) for x in xs),
            )
        )
    sets = _sets_table(settings, groups)
    return Outcome(
        {"thresholds": draw_measured(panels)},
        {
            "predictions": _prediction_table(models, costs, groups),
            "advice": _advice_table(advice),
            "information_sets": sets,
            "summary": summary_table(groups),
            "runs": runs_table(groups),
        },
        (*_threshold_rows(models, costs, groups, sets), *_advice_rows(advice, models, groups)),
        (
            *deviation_notes(settings),
            stuck_note(groups),
            "The exponent is that of the cheapest plan that was found: max-position retrieval where there "
            "are "
            "heads enough, reading everything otherwise. It says nothing of training; constants are unknown.",
            "Information sets follow the arg-max of every head; where few queries are hard they say little.",
        ),
    )


def _advised(advice: dict[int, Suggestion], lengths: Sequence[int]) -> str:
    """The advice at the longest of the lengths, as it stands above a panel."""
    first = advice[max(lengths)]
    return f"advised: heads {_listed(first.heads)} at T = {max(lengths)}"


def _listed(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _advice_table(advice: dict[int, Suggestion]) -> dict[str, list[Any]]:
    first = advice.values()
    return {
        "T": list(advice),
        "heads": [_listed(each.heads) for each in first],
        "widths": [_listed(each.widths) for each in first],
        "reads": [each.rules for each in first],
        "exponent": [float(each.exponent) for each in first],
        "parameters": [each.parameters for each in first],
        "share": [each.share for each in first],
    }


def _advice_rows(
    advice: dict[int, Suggestion], models: dict[str, _Models], groups: dict[str, Group]
) -> list[Comparison]:
    """Whether the heads that are advised are, among those that were trained at that length, the best ones."""
    rows = []
    for T, first in advice.items():
        medians = {
            heads: groups[f"{varied} = {x}"].median
            for varied, listed in models.items()
            for x, (length, heads, _) in listed.items()
            if length == T
        }
        run = {heads: value for heads, value in medians.items() if value is not None}
        words = f"advised: heads {_listed(first.heads)}, {first.rules}, exponent {float(first.exponent):.3g}"
        found = NOT_RUN
        if run:
            best = min(run, key=lambda heads: run[heads])
            found = f"least median NMSE of {len(run)} trained: {run[best]:.2e} with heads {_listed(best)}"
            if first.heads not in run:
                found += "; the advised heads were not among them"
            elif best != first.heads:
                found += f"; {run[first.heads]:.2e} with the advised ones"
        rows.append(measured(f"smallest architecture, T = {T}", words, found))
    return rows


def _titles(settings: Settings) -> dict[str, str]:
    D, T = settings["maxima"], settings["tokens"]
    return {
        "heads per layer": f"D = {D}, two layers, T = {T}",
        "layers": f"D = {D}, {D} heads per layer, T = {T}",
        "T": f"D = {D}, two layers of {D} heads",
    }


def _target(description: Any) -> Any:
    from hardmax.training.data import outputs_of

    return outputs_of(description)[0]


def _threshold(varied: str, costs: Sequence[CostEstimate]) -> int | None:
    name = {"heads per layer": "heads", "layers": "depth", "T": "tokens"}[varied]
    return costs[-1].thresholds[name]


def _prediction_table(
    models: dict[str, _Models], costs: dict[str, CostEstimate], groups: dict[str, Group]
) -> dict[str, list[Any]]:
    names = ("varied", "x", "rules", "lower", "upper", "set_size", "median_nmse")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for varied, listed in models.items():
        for x in listed:
            cost = costs[f"{varied} = {x}"]
            row = (varied, x, cost.rules, float(cost.lower), float(cost.upper), cost.set_size)
            median = groups[f"{varied} = {x}"].median
            for name, value in zip(names, (*row, NOT_RUN if median is None else median), strict=True):
                table[name].append(value)
    return table


def _sets_table(settings: Settings, groups: dict[str, Group]) -> dict[str, list[Any]]:
    """How often the sets of the best seed contain the active set, and how hard its heads are."""
    from hardmax.training.learned_routing import measured_hardness, routed_flow

    names = ("model", "nmse", "share_learned", "mean_set", "share_hard_tokens", "share_hard_cls", "chance")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for name, group in groups.items():
        best = group.best
        row: list[Any] = [name, *(NOT_RUN,) * (len(names) - 1)]
        if best is not None:
            result = best[1]
            target = _target(result.job.target)
            X = target.sample(settings["inputs"], result.shape.n_tokens, settings.rng("sets"))
            flow = routed_flow(result.shape, result.best_parameters, X)
            start = routed_flow(result.shape, result.checkpoint_parameters[0], X)
            hardness = measured_hardness(result.shape, result.best_parameters, X[:200])
            shares = {
                who: [each.share_hard for each in hardness if each.who == who and each.layer == layer]
                for who, layer in (("tokens", 1), ("CLS", result.shape.depth))
            }
            row = [
                name,
                float(result.best),
                flow.learns(target).share,
                float(flow.sizes.cls[:, -1].mean()),
                float(np.mean(shares["tokens"])) if shares["tokens"] else None,
                float(np.mean(shares["CLS"])),
                start.learns(target).share,
            ]
        for key, value in zip(names, row, strict=True):
            table[key].append(value)
    return table


def _threshold_rows(
    models: dict[str, _Models],
    costs: dict[str, CostEstimate],
    groups: dict[str, Group],
    sets: dict[str, list[Any]],
) -> tuple[Comparison, ...]:
    rows = []
    for varied, listed in models.items():
        for x in listed:
            name = f"{varied} = {x}"
            cost, group = costs[name], groups[name]
            held = sets["share_learned"][sets["model"].index(name)]
            words = spread(group.values)
            if held != NOT_RUN:
                words += f"; sets hold the active set on {held:.1%} of inputs"
            rows.append(
                measured(f"NMSE, {name}", f"predicted: {cost.rules}, exponent {float(cost.upper):.3g}", words)
            )
    few_or_enough: tuple[list[float], list[float]] = ([], [])
    for h in models["heads per layer"]:
        median = groups[f"heads per layer = {h}"].median
        if median is not None:
            few_or_enough[costs[f"heads per layer = {h}"].rules == "max-position"].append(median)
    few, enough = few_or_enough
    if few and enough:
        gap = min(few) / max(enough)
        rows.append(
            measured("least NMSE with too few heads over largest with enough", "larger than 1", f"{gap:.3g}")
        )
    return tuple(rows)


# How routing forms
# ----------------------------------------------------------------------------------------------------------


def _run_dynamics(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import draw_training_geometry
    from hardmax.training.learned_routing import follow_training

    D, d, T = settings["maxima"], settings["d"], settings["tokens"]
    heads = (D, D)
    shape = shape_for(settings, T, d, heads, [width_of(D, h) for h in heads], 16 * D)
    description = pairwise_target(D, d, settings["draw"])
    groups = trainings(settings, {"model": sweep(settings, f"D={D} ({D},{D})", description, shape)})
    best = groups["model"].best
    tables: dict[str, Any] = {"summary": summary_table(groups), "runs": runs_table(groups)}
    notes = (*deviation_notes(settings, "The papers print nothing of this."), stuck_note(groups))
    if best is None:
        return Outcome({}, tables, (measured("routing during training", "open", NOT_RUN),), notes)
    result = best[1]
    target = _target(description)
    X = target.sample(settings["inputs"], T, settings.rng("inputs"))
    found = follow_training(
        shape,
        list(zip(result.checkpoint_samples.tolist(), result.checkpoint_parameters, strict=True)),
        target,
        X,
        scale=(float(result.mean[0]), float(result.scale[0])),
        n_sequences=settings["sequences"],
        tolerance=settings["tolerance"],
        radius=settings["radius"],
    )
    tables["geometry"] = found.columns()

    def moved(values: Any, spec: str) -> str:
        return f"{format(float(values[0]), spec)} to {format(float(values[-1]), spec)}"

    rows = [
        measured("NMSE, first to last checkpoint", "open", moved(found.nmse, ".2e")),
        measured("information sets hold the active set", "open", moved(found.learns, ".1%")),
        measured(
            f"cells of the first layer in a plane, exactly, mean of {settings['sequences']} sequences",
            "open",
            moved(found.cells.mean(axis=1), ".1f"),
        ),
        *(
            measured(
                f"{name}: share of hard queries; margin / temperature",
                "open",
                f"{moved(found.share_hard[:, i], '.1%')}; {moved(found.margin[:, i], '.3g')}",
            )
            for i, name in enumerate(found.heads)
        ),
    ]
    return Outcome({"dynamics": draw_training_geometry(found)}, tables, tuple(rows), notes)


_TRAINING = training_options(
    (4_000_000, 6_000_000, 18_000_000),
    rates=((1e-2,), (3e-3, 1e-2), (1e-3, 1e-2)),
    seeds=(1, 3, 8),
)
_COMMON = (
    Option("maxima", 2, "D of target (6)", paper=3, least=1),
    Option("tokens", 15, "sequence length T", paper=64, least=2),
    Option("d", 4, "dimension of a token", least=2),
    Option("draw", 0, "which draw of the matrices A_i", least=0),
)

RECIPES = (
    Recipe(
        "infoflow.thresholds",
        "Predicted cost and measured error: heads, depth and length",
        (
            *_COMMON,
            Option("heads", (1, 2, 3), "heads per layer", paper=(1, 2, 3, 4, 5), least=1),
            Option("depths", (1, 2), "numbers of layers", medium=(1, 2, 3), least=1),
            Option(
                "lengths", (5, 15), "sequence lengths", medium=(5, 10, 15, 31), paper=(8, 16, 32, 64), least=2
            ),
            Option("inputs", 1000, "inputs whose information sets are followed", least=1),
            *_TRAINING,
        ),
        _run_thresholds,
    ),
    Recipe(
        "infoflow.dynamics",
        "How routing hardens during training",
        (
            *_COMMON,
            Option("inputs", 500, "inputs on which heads are measured", least=2),
            Option("sequences", 4, "sequences whose cells are counted", medium=16, least=1),
            Option(
                "radius", 2.0, "half side of the square of tokens in which cells are counted", positive=True
            ),
            Option("tolerance", 0.01, "total variation distance up to which a query is hard", positive=True),
            *_TRAINING,
        ),
        _run_dynamics,
    ),
)
