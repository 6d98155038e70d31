"""``hardmax compare`` and ``hardmax along-training``: two models, and one along its training."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hardmax as hm
from hardmax.cli.inputs import read_result
from hardmax.cli.models import TextsDone, layers_and_heads, many_texts, number_list, texts_of
from hardmax.cli.numbers import REAL, TIME_LIMIT, WholeRange
from hardmax.cli.outputs import (
    check_targets,
    output_options,
    print_json,
    print_table,
    save_and_draw,
)
from hardmax.errors import InvalidInputError
from hardmax.networks.block import many

if TYPE_CHECKING:
    from hardmax.models.comparisons.along_training import AlongTraining
    from hardmax.models.comparisons.compare import ModelComparison

_HUB = click.option("--hub", is_flag=True, help="Models may be names on the hub; without this, none is.")


@click.command()
@click.argument("a")
@click.argument("b")
@many_texts
@layers_and_heads
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    help="What is compared; several are allowed. If not given: margin, top_probability, entropy, "
    "win_entropy, sink_mass.",
)
@click.option(
    "--alpha",
    type=REAL,
    default=0.05,
    show_default=True,
    help="The largest probability that any head is named wrongly.",
)
@click.option(
    "--time-limit",
    type=REAL,
    metavar="S",
    help="Give up after this many seconds; texts measured so far stay in --checkpoint.",
)
@_HUB
@output_options
def compare(
    a: str,
    b: str,
    texts: str | None,
    field: str | None,
    checkpoint: Path | None,
    layers: str | None,
    heads: str | None,
    statistics: tuple[str, ...],
    alpha: float,
    time_limit: float | None,
    hub: bool,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Which heads differ between two models, or two checkpoints of one.

    A and B are folders with Hugging Face models (safetensors) that have the same layers and heads, or names
    with --hub; both need the extra models. A head is named when its difference exceeds the spread over texts
    (paired t tests, Holm's correction over all heads and statistics). Direct differences are those of the
    heads of B on the inputs of A; total ones those of two models that read for themselves.

    \b
    Examples:
      hardmax compare checkpoint-100 checkpoint-900 --texts lines.txt
      hardmax compare ./base ./tuned --texts rows.jsonl --field text --plot heads.svg --out comparison.npz
    """
    from hardmax.models.comparisons.compare import TESTED

    check_targets(out, plot)
    found = hm.compare(
        a,
        b,
        _needed(texts, field),
        hub=hub,
        layers=number_list(layers, "--layers"),
        heads=number_list(heads, "--heads"),
        statistics=statistics or TESTED,
        alpha=alpha,
        checkpoint=checkpoint,
        time_limit=time_limit,
        progress=TextsDone() if sys.stderr.isatty() else None,
    )
    save_and_draw(found, out, plot)
    if as_json:
        kinds = ("direct", "total")
        differing = {kind: [vars(one) for one in found.named(kind)] for kind in kinds}
        print_json({"a": found.a, "b": found.b, "n_texts": found.n_texts, "alpha": found.alpha, **differing})
        return
    _print_comparison(found)


def _needed(texts: str | None, field: str | None) -> dict[str, str]:
    found = texts_of(texts, field)
    if found is None:
        raise InvalidInputError("--texts must be given: the spread over texts is what counts.")
    return found


def _print_comparison(found: ModelComparison) -> None:
    for kind, words in (("direct", "with the inputs of A"), ("total", "each with its own inputs")):
        if kind == "direct" and not found.has_direct:
            continue
        rows = [
            [
                str(one.layer),
                str(one.head),
                one.statistic,
                f"{one.a:.3g}",
                f"{one.b:.3g}",
                f"{one.difference:.3g} ({one.low:.3g}..{one.high:.3g})",
                f"{one.p:.2g}",
            ]
            for one in found.named(kind)
        ]
        heads = found.heads_named(kind)
        notes = [f"{len(heads)} of {len(found.layer)} heads differ."]
        if kind == "total":
            notes += [
                f"A is {found.a}, B is {found.b}; in brackets 95 % intervals over {found.n_texts} texts.",
                f"p: paired t test, corrected by Holm over {found.values_a[0].size} heads and statistics; "
                f"named up to {found.alpha:g}.",
                *found.notes,
            ]
        columns = ["layer", "head", "statistic", "A", "B", "B - A", "p"]
        print_table(f"Differences {kind}: {words}", columns, rows, notes)


@click.command("along-training")
@click.argument("checkpoints", nargs=-1, required=True)
@many_texts
@layers_and_heads
@click.option(
    "--hard",
    type=REAL,
    default=0.5,
    show_default=True,
    help="A head is hard where this share of its queries is within 10 % of hardmax.",
)
@click.option(
    "--cells",
    "n_cells",
    type=WholeRange(min=0),
    default=2,
    show_default=True,
    help="On how many texts the exact cells of each layer are counted.",
)
@click.option(
    "--slice-limit", type=REAL, default=60.0, show_default=True, metavar="S", help="Seconds per count."
)
@TIME_LIMIT
@_HUB
@output_options
def along_training(
    checkpoints: tuple[str, ...],
    texts: str | None,
    field: str | None,
    checkpoint: Path | None,
    layers: str | None,
    heads: str | None,
    hard: float,
    n_cells: int,
    slice_limit: float,
    time_limit: float | None,
    hub: bool,
    as_json: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """When heads become hard along a training, and how margins, sets and cells grow.

    CHECKPOINTS are folders with Hugging Face models, in the order of the last numbers in their names, or as
    they are given where one has none or two have the same; or one file with the result of a training of
    ours, which needs no --texts.

    \b
    Examples:
      hardmax along-training run/checkpoint-* --texts lines.txt --plot curves.svg
      hardmax along-training out/pairwise-2/results/1a2b.npz --out curves.npz
    """
    from hardmax.models.comparisons.along_training import steps_of

    check_targets(out, plot)
    steps = steps_of(checkpoints) or range(len(checkpoints))
    models: Any = [
        one for _, one in sorted(zip(steps, checkpoints, strict=True))
    ]  # checkpoint-90 before -100
    if len(checkpoints) == 1 and checkpoints[0].lower().endswith(".npz"):
        models = read_result(Path(checkpoints[0]), "TrainingResult")
        if models is None:
            raise InvalidInputError(f"{checkpoints[0]} must hold the result of a training.")
        if texts is not None:
            raise InvalidInputError("--texts must be left out for a training of ours: it reads vectors.")
        words = None
    else:
        words = list(_needed(texts, field).values())
    found = hm.along_training(
        models,
        words,
        hub=hub,
        layers=number_list(layers, "--layers"),
        heads=number_list(heads, "--heads"),
        hard=hard,
        n_cells=n_cells,
        slice_limit=slice_limit,
        checkpoint=checkpoint,
        time_limit=time_limit,
        progress=TextsDone() if sys.stderr.isatty() else None,
    )
    save_and_draw(found, out, plot)
    if as_json:
        print_json({**found.to_dict(), "events": [vars(event) for event in found.events]})
        return
    _print_course(found)


def _print_course(found: AlongTraining) -> None:
    share, margin = found.interval("share_within_10"), found.interval("margin")
    counts = np.where(found.cells >= 0, found.cells, np.nan).astype(float)

    def number(value: float, form: str = "{:.3g}") -> str:
        return "" if math.isnan(value) else form.format(value)

    ours = bool(np.isfinite(found.error).any())  # a training of ours: its task is known
    rows = [
        [
            f"{step:,}",
            " ".join(f"{100 * value:.0f}" for value in share.mean[c]),
            " ".join(f"{value:.2g}" for value in margin.mean[c]),
            " ".join(f"{100 * value:.0f}" for value in found.set_sizes[c].mean(axis=0)),
            " ".join(number(value, "{:.0f}") for value in counts[c].mean(axis=0)) if counts.size else "",
            *([number(found.error[c], "{:.2e}"), number(100 * found.learns[c], "{:.0f}")] if ours else []),
        ]
        for c, step in enumerate(found.steps)
    ]
    notes = [
        "hard: queries in per cent within 10 % of hardmax, and margin: median lead over temperature; means "
        f"over texts, head by head from {found.heads[0]} to {found.heads[-1]}.",
        "known: positions in per cent that a token can know after 0, 1, ... layers (arg-max).",
        f"cells: exact, on the principal plane of each layer; means over {found.cells.shape[1]} texts.",
        *(
            [
                "error: mean squared error over variance; enough: inputs in per cent on which the last token "
                "can know all that the target depends on."
            ]
            if ours
            else []
        ),
        *(
            f"step {event.step:,}: layer {event.layer}, head {event.head} becomes {event.what}"
            f" ({100 * event.share:.0f} %{'' if event.sure else ', not sure'})"
            for event in found.events
        ),
    ]
    columns = ["step", "hard", "margin", "known", "cells", *(["error", "enough"] if ours else [])]
    title = f"{len(found.steps)} checkpoints on {len(found.names)} texts, {many(len(found.heads), 'head')}"
    print_table(title, columns, rows, notes, most=400)
