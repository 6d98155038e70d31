"""P2 against training: Theorems 1 and 2, predicted thresholds, and how routing forms.

Theorem 1: one layer is expensive for the least inner product of two tokens, two layers are not; trained
models of both depths stand beside the two-layer transformer of the proof, by parameters and error. Theorem
2: attention fetches the largest value and no other; one layer learns the k-th largest for k = 1, ..., 4.

``infoflow.thresholds`` puts the predicted cost exponent and the thresholds of
:func:`~hardmax.flow.costs.estimate.estimate_cost` beside measured NMSE for the number of heads, the depth and
the length of sequences, with the smallest architecture of :func:`~hardmax.flow.costs.advise.advise` named
beside them, and says how often the arg-max routing of the trained models brings CLS all that the target
depends on. ``infoflow.dynamics`` follows one training: cells, margins in units of temperature, and the share
of hard queries, which P1 names as an open question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardmax.flow.architectures import Architecture
from hardmax.flow.costs.advise import Suggestion, advise
from hardmax.flow.costs.estimate import CostEstimate, estimate_cost
from hardmax.flow.theorems.colliding_pairs import retrieval_exponents, separation_exponents
from hardmax.flow.theorems.depth_separation import separation_inputs, separation_transformer
from hardmax.papers import training_runs as runs
from hardmax.papers.infoflow.sec6_pairwise import pairwise_target, width_of
from hardmax.papers.recipes import (
    NOT_RUN,
    Comparison,
    Option,
    Outcome,
    Settings,
    measured,
    recipe,
    stated,
    tabulated,
)
from hardmax.targets import builtin

# Theorem 1
# ----------------------------------------------------------------------------------------------------------


@recipe(
    "infoflow.trained-vs-constructed",
    "Theorem 1: trained models of one and two layers beside the constructed one",
    Option("tokens", 15, "sequence length T", paper=32, least=3),
    Option("width", 6, "E, one head: the width of the construction", least=1),
    Option("hidden", (16, 64), "hidden widths", medium=(16, 64, 256), least=1),
    Option("epsilons", (0.4, 0.2, 0.1, 0.05), "accuracies of the construction", positive=True),
    Option("inputs", 500, "sequences per family of test inputs", least=1),
    *runs.training_options((1_000_000, 6_000_000, 18_000_000), seeds=(1, 3, 8)),
)
def _run_depth(settings: Settings) -> Outcome:
    from hardmax.plotting.rates import Curve, Panel, draw_rates

    T = settings["tokens"]
    target = {"name": "depth_separation", "d": 3, "domain": "cube11"}
    sweeps = {}
    for depth in (1, 2):
        for w in settings["hidden"]:
            name = f"{_layers(depth)}, w={w}"
            shape = runs.shape_for(settings, T, 3, (1,) * depth, (settings["width"],) * depth, w)
            sweeps[name] = runs.sweep(settings, name, target, shape)
    groups = runs.trainings(settings, sweeps)
    inputs = separation_inputs(T, settings["inputs"], beta=100.0, rng=settings.rng("inputs"))
    truth = builtin.depth_separation(3)
    values = {name: truth(X) for name, X in inputs.items()}
    variance = float(truth(truth.sample(4000, T, settings.rng("variance"))).var())

    def errors_of(predict: Callable[[Any], Any]) -> tuple[float, float]:
        """The root mean square on uniform tokens, and the largest error of all families."""
        errors = {name: np.abs(predict(X) - values[name]) for name, X in inputs.items()}
        return float(np.sqrt((errors["uniform"] ** 2).mean())), max(float(e.max()) for e in errors.values())

    models: list[tuple[Any, ...]] = []  # name, epsilon, parameters and both errors
    built = []
    for epsilon in settings["epsilons"]:
        made = separation_transformer(epsilon, T, square="richardson").transformer
        built.append((made.n_parameters, *errors_of(made)))
        models.append(("constructed", epsilon, *built[-1]))
    trained: dict[int, list[tuple[int, float, float]]] = {1: [], 2: []}
    for name, group in groups.items():
        if group.best is None:
            models.append((name, None, sweeps[name][0].job.shape.n_parameters, NOT_RUN, NOT_RUN))
            continue
        result = group.best[1]
        found = errors_of(lambda X, result=result: result.predict(X)[:, 0])  # type: ignore[misc]
        trained[result.shape.depth].append((result.shape.n_parameters, *found))
        models.append((name, None, result.shape.n_parameters, *found))

    def panel(title: str, y: str, column: int) -> Panel:
        curves = [Curve("constructed (Theorem 1)", *_columns(built, column))]
        for depth, label in ((1, "one layer, trained"), (2, "two layers, trained")):
            if trained[depth]:
                curves.append(Curve(label, *_columns(trained[depth], column)))
        return Panel(title, "parameters", y, tuple(curves))

    panels = [
        panel(f"uniform tokens, T = {T}", "root mean square error", 1),
        panel("worst of all families, near ties included", "largest error", 2),
    ]
    figure = draw_rates(panels)
    for axes in figure.axes:
        axes.legend(frameon=False, fontsize=8.5, loc="lower left")  # away from the lines of one layer
    k = separation_exponents(T, 1, settings["width"]).formal
    rows = [
        (name, epsilon, n, NOT_RUN if rms == NOT_RUN else rms**2 / variance, rms, largest)
        for name, epsilon, n, rms, largest in models
    ]
    return runs.reported(
        settings,
        groups,
        {"trained_vs_constructed": figure},
        _depth_rows(groups, settings["hidden"], built, trained, k),
        tables={"models": tabulated("model epsilon parameters nmse rms_uniform largest", rows)},
        deviations=["The paper trains nothing for Theorem 1."],
        notes=(
            "Training minimises the mean square on uniform tokens and knows nothing of near ties; the "
            "construction bounds the error everywhere. A bound on parameters at error epsilon is no "
            "statement about training.",
        ),
    )


def _layers(depth: int) -> str:
    return f"{depth} layer{'s' if depth > 1 else ''}"


def _columns(found: list[tuple[int, float, float]], column: int) -> tuple[list[float], list[float]]:
    ordered = sorted(found)
    return [float(row[0]) for row in ordered], [float(row[column]) for row in ordered]


def _depth_rows(
    groups: dict[str, runs.Group],
    hidden: tuple[int, ...],
    built: list[Any],
    trained: dict[int, list[Any]],
    k: Any,
) -> tuple[Comparison, ...]:
    rows = [
        stated("one layer: exponent of the lower bound, H = 1", "positive for long sequences").compared(
            f"{float(k):.3f}" + (", which says nothing" if k <= 0 else ""), None
        )
    ]
    for w in hidden:
        one, two = groups[f"1 layer, w={w}"], groups[f"2 layers, w={w}"]
        ratio = None if one.median is None or two.median is None else one.median / two.median
        rows += [
            measured(f"NMSE, one layer, w = {w}", "not trained", runs.spread(one.values)),
            measured(f"NMSE, two layers, w = {w}", "not trained", runs.spread(two.values)),
            measured(f"one layer over two layers, w = {w}", "larger than 1", runs.formatted(ratio, ".3g")),
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


@recipe(
    "infoflow.kth-largest",
    "Theorem 2: learning the k-th largest number",
    Option("ks", (1, 2, 3, 4), "which largest", least=1),
    Option("tokens", 15, "sequence length T", paper=64, least=4),
    Option("depths", (1, 2), "numbers of layers", least=1),
    Option("width", 4, "E = n, one head", least=1),
    Option("hidden", 32, "hidden width", least=1),
    *runs.training_options((600_000, 4_000_000, 18_000_000), seeds=(1, 3, 8)),
)
def _run_largest(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import Measured, MeasuredPanel, draw_measured

    T, n, ks = settings["tokens"], settings["width"], settings["ks"]
    sweeps = {}
    for depth in settings["depths"]:
        shape = runs.shape_for(settings, T, 1, (1,) * depth, (n,) * depth, settings["hidden"])
        for k in ks:
            name = f"k={k}, {_layers(depth)}"
            sweeps[name] = runs.sweep(settings, name, {"name": "kth_largest", "k": k}, shape)
    groups = runs.trainings(settings, sweeps)
    exponents = {k: float(retrieval_exponents(T, k, n).proof) if k > 1 else 0.0 for k in ks}
    series = tuple(
        Measured(_layers(depth), ks, [groups[f"k={k}, {_layers(depth)}"].values for k in ks])
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
        rows.append(measured(f"NMSE, {name}", says, runs.spread(group.values)))
    medians = [groups[f"k={k}, 1 layer"].median for k in ks if 1 in settings["depths"]]
    first, *others = [median for median in medians if median is not None] or [0.0]
    if others and None not in medians:
        words = f"one layer: least NMSE for k > {ks[0]} over that for k = {ks[0]}"
        rows.append(measured(words, "larger than 1", f"{min(others) / first:.3g}"))
    return runs.reported(
        settings,
        groups,
        {"kth_largest": draw_measured([panel])},
        rows,
        tables={"exponents": {"k": list(ks), "exponent": [exponents[k] for k in ks]}},
        deviations=["The paper trains nothing for Theorem 2."],
        notes=(
            "Theorem 2 bounds the parameters that an error epsilon everywhere needs, with monotone scores "
            "and bounded weights; an NMSE on uniform tokens is another quantity. The exponent of k = 1 is "
            "put at 0.",
        ),
    )


_Models = dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]  # x -> T, heads, widths
_TRAINING = runs.training_options(seeds=(1, 3, 8))

_COMMON = (
    Option("maxima", 2, "D of target (6)", paper=3, least=1),
    Option("tokens", 15, "sequence length T", paper=64, least=2),
    Option("d", 4, "dimension of a token", least=2),
    Option("draw", 0, "which draw of the matrices A_i", least=0),
)


def _models(settings: Settings) -> dict[str, _Models]:
    """What varies in each of the three panels; names of panels are what stands on their x axes."""
    D, T = settings["maxima"], settings["tokens"]
    wide = width_of(D, D)
    return {
        "heads per layer": {h: (T, (h, h), (width_of(D, h),) * 2) for h in settings["heads"]},
        "layers": {L: (T, (D,) * L, (wide,) * L) for L in settings["depths"]},
        "T": {t: (t, (D, D), (wide, wide)) for t in settings["lengths"]},
    }


@recipe(
    "infoflow.thresholds",
    "Predicted cost and measured error: heads, depth and length",
    *_COMMON,
    Option("heads", (1, 2, 3), "heads per layer", paper=(1, 2, 3, 4, 5), least=1),
    Option("depths", (1, 2), "numbers of layers", medium=(1, 2, 3), least=1),
    Option("lengths", (5, 15), "sequence lengths", medium=(5, 10, 15, 31), paper=(8, 16, 32, 64), least=2),
    Option("inputs", 1000, "inputs whose information sets are followed", least=1),
    *_TRAINING,
)
def _run_thresholds(settings: Settings) -> Outcome:
    from hardmax.plotting.trainings import Measured, MeasuredPanel, draw_measured

    D, d = settings["maxima"], settings["d"]
    target = pairwise_target(D, d, settings["draw"])
    models = _models(settings)
    sweeps, costs = {}, {}
    for varied, listed in models.items():
        for x, (T, heads, widths) in listed.items():
            name, shape = f"{varied} = {x}", runs.shape_for(settings, T, d, heads, widths, 16 * D)
            sweeps[name] = runs.sweep(settings, name, target, shape)
            built = Architecture(T, d, heads, widths)
            costs[name] = estimate_cost(_target(target), built, rng=settings.seed)
    groups = runs.trainings(settings, sweeps)
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
    return runs.reported(
        settings,
        groups,
        {"thresholds": draw_measured(panels)},
        (*_threshold_rows(models, costs, groups, sets), *_advice_rows(advice, models, groups)),
        tables={
            "predictions": _prediction_table(models, costs, groups),
            "advice": _advice_table(advice),
            "information_sets": sets,
        },
        notes=(
            "The exponent is that of the cheapest plan that was found: max-position retrieval where there "
            "are heads enough, reading everything otherwise. It says nothing of training; constants are "
            "unknown.",
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
    return tabulated(
        "T heads widths reads exponent parameters share",
        (
            (T, _listed(a.heads), _listed(a.widths), a.rules, float(a.exponent), a.parameters, a.share)
            for T, a in advice.items()
        ),
    )


def _advice_rows(
    advice: dict[int, Suggestion], models: dict[str, _Models], groups: dict[str, runs.Group]
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
    models: dict[str, _Models], costs: dict[str, CostEstimate], groups: dict[str, runs.Group]
) -> dict[str, list[Any]]:
    rows = []
    for varied, listed in models.items():
        for x in listed:
            cost, median = costs[f"{varied} = {x}"], groups[f"{varied} = {x}"].median
            row = (varied, x, cost.rules, float(cost.lower), float(cost.upper), cost.set_size)
            rows.append((*row, NOT_RUN if median is None else median))
    return tabulated("varied x rules lower upper set_size median_nmse", rows)


def _sets_table(settings: Settings, groups: dict[str, runs.Group]) -> dict[str, list[Any]]:
    """How often the sets of the best seed contain the active set, and how hard its heads are."""
    from hardmax.training.learned_routing import measured_hardness, routed_flow

    rows = []
    for name, group in groups.items():
        row: list[Any] = [name, *(NOT_RUN,) * 6]
        if group.best is not None:
            result = group.best[1]
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
        rows.append(row)
    return tabulated("model nmse share_learned mean_set share_hard_tokens share_hard_cls chance", rows)


def _threshold_rows(
    models: dict[str, _Models],
    costs: dict[str, CostEstimate],
    groups: dict[str, runs.Group],
    sets: dict[str, list[Any]],
) -> tuple[Comparison, ...]:
    rows = []
    for varied, listed in models.items():
        for x in listed:
            name = f"{varied} = {x}"
            cost, group = costs[name], groups[name]
            held = sets["share_learned"][sets["model"].index(name)]
            words = runs.spread(group.values)
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


@recipe(
    "infoflow.dynamics",
    "How routing hardens during training",
    *_COMMON,
    Option("inputs", 100, "inputs on which heads are measured", least=2),
    Option("sequences", 4, "sequences whose cells are counted", medium=16, least=1),
    *_TRAINING,
)
def _run_dynamics(settings: Settings) -> Outcome:
    from hardmax.models.comparisons.along_training import along_training
    from hardmax.plotting.corpora import draw_along_training

    D, d, T = settings["maxima"], settings["d"], settings["tokens"]
    heads = (D, D)
    shape = runs.shape_for(settings, T, d, heads, [width_of(D, h) for h in heads], 16 * D)
    description = pairwise_target(D, d, settings["draw"])
    groups = runs.trainings(settings, {"model": runs.sweep(settings, f"D={D} ({D},{D})", description, shape)})
    best = groups["model"].best
    deviations = ["The papers print nothing of this."]
    if best is None:
        nothing = [measured("routing during training", "open", NOT_RUN)]
        return runs.reported(settings, groups, {}, nothing, deviations=deviations)
    result = best[1]
    target = _target(description)
    X = target.sample(settings["inputs"], T, settings.rng("inputs"))
    found = along_training(result, X, n_cells=settings["sequences"])
    share, margin = (found.interval(name).mean for name in ("share_within_10", "margin"))

    def moved(values: Any, spec: str) -> str:
        return f"{format(float(values[0]), spec)} to {format(float(values[-1]), spec)}"

    rows = [
        measured("NMSE, first to last checkpoint", "open", moved(found.error, ".2e")),
        measured("information sets hold the active set", "open", moved(found.learns, ".1%")),
        measured(
            f"cells of the first layer in a plane, exactly, mean of {settings['sequences']} sequences",
            "open",
            moved(found.cells[:, :, 0].mean(axis=1), ".1f"),
        ),
        *(
            measured(
                f"{name}: share of queries within 10 % of hardmax; margin / temperature",
                "open",
                f"{moved(share[:, i], '.1%')}; {moved(margin[:, i], '.3g')}",
            )
            for i, name in enumerate(found.heads)
        ),
    ]
    figures = {"dynamics": draw_along_training(found)}
    tables = {"geometry": found._table()}
    return runs.reported(settings, groups, figures, rows, tables=tables, deviations=deviations)
