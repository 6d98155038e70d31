"""P1 figure 6: how counts grow with the number of keys, (a) cells of random networks, (b) vertices of sums.

Panel (a) repeats the paper's Monte Carlo and counts exactly beside it. The reported slope of 0.13 is within
reach of many settings and far from many others: a second picture sweeps the choices that the paper does not
state. Panel (b) is exact; there the decisive unstated choice is the rank d_k of the heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.regions.growth import (
    CellGrowth,
    Growth,
    HeadChoices,
    NetworkChoices,
    cell_growth,
    vertex_growth,
)

__all__ = ["RECIPES"]

PAPER_SLOPE = 0.13  # of figure 6(a) at L = 1

_PARTS = {"a": ("a",), "b": ("b",), "both": ("a", "b")}


def _cook_figure_6(settings: Settings) -> Outcome:
    from hardmax.plotting.style import new_figure

    parts = _PARTS[settings["part"]]
    figure, choices = new_figure(5.2 * len(parts), 5.6), new_figure(5.6 * len(parts), 5.4)
    for picture in (figure, choices):
        layout: Any = picture.get_layout_engine()
        layout.set(w_pad=0.12)  # the labels of one panel keep their distance from the other
    outcome = Outcome({"fig6": figure, "fig6_choices": choices}, {}, ())
    for i, part in enumerate(parts):
        panels = [picture.add_subplot(1, len(parts), i + 1) for picture in (figure, choices)]
        outcome = _joined(outcome, (_part_a if part == "a" else _part_b)(settings, panels))
    return outcome


def _joined(first: Outcome, second: Outcome) -> Outcome:
    return Outcome(
        {**first.figures, **second.figures},
        {**first.tables, **second.tables},
        first.comparisons + second.comparisons,
        first.notes + second.notes,
    )


# Figure 6(a)
# ----------------------------------------------------------------------------------------------------------


def _part_a(settings: Settings, panels: Any) -> Outcome:
    from hardmax.plotting.growth import Curve, draw_growth, draw_slopes
    from hardmax.plotting.style import LINES

    choices = _network_choices(settings)
    n_tokens, depths = settings["lengths"], settings["depths"]
    found = cell_growth(
        choices,
        n_tokens=n_tokens,
        depths=depths,
        draws=settings["seeds"],
        stream=lambda i: settings.rng("networks", i),
        n_samples=settings["samples"],
        with_regions=True,
    )
    swept = {label: _swept(settings, other) for label, other in _variants(settings, choices).items()}
    curves = []
    for i, (depth, growth) in enumerate(found.items()):
        colour = LINES[i % len(LINES)]
        curves.append(Curve(growth.cells, f"$L={depth}$, cells, exact", colour))
        if growth.signatures is not None:
            curves.append(
                Curve(growth.signatures, f"$L={depth}$, Monte Carlo", colour, True, 1.025, fitted=False)
            )
    first = found[depths[0]].cells
    told = first.mean[0] * (np.array(n_tokens) / n_tokens[0]) ** PAPER_SLOPE
    title = f"(a) cells in $[-{choices.box:g}, {choices.box:g}]^2$, {settings['seeds']} networks"
    draw_growth(curves, ax=panels[0], title=title, ylabel="cells", references={"slope 0.13": told})
    draw_slopes(
        {label: [growth[depth].cells for depth in depths] for label, growth in swept.items()},
        labels=[f"$L={depth}$" for depth in depths],
        ax=panels[1],
        title=f"(a) exact slopes, {settings['sweep_seeds']} networks per row",
        reference=PAPER_SLOPE,
        reference_label="paper, $L=1$: 0.13",
    )
    return Outcome(
        {},
        {"cells": _cell_table(found), "slopes_a": _slope_table(found), "choices_a": _sweep_table(swept)},
        _compared_a(settings, found, swept),
        (
            "Figure 6(a): random points need a box; the paper samples uniformly in the plane, which does not "
            f"exist. Counts are those of [-{choices.box:g}, {choices.box:g}]^2, {choices.pairing} over N.",
        ),
    )


def _network_choices(settings: Settings) -> NetworkChoices:
    return NetworkChoices(
        heads=settings["heads"],
        d_ff=settings["d_ff"],
        d_k=settings["d_k"],
        box=settings["box"],
        score_bias=settings["score_bias"],
        ffn_bias=settings["ffn_bias"],
        attention_skip=settings["attention_skip"],
        ffn_skip=settings["ffn_skip"],
        pairing=settings["pairing"],
    )


def _variants(settings: Settings, chosen: NetworkChoices) -> Mapping[str, NetworkChoices]:
    """The chosen setting, and others that differ from it in one choice."""
    other = partial(replace, chosen)
    listed: list[tuple[str, NetworkChoices]] = [
        ("as plotted", chosen),
        *((f"$d_{{ff}}={width}$", other(d_ff=width)) for width in settings["sweep_d_ff"]),
        (f"$H={chosen.heads + 1}$", other(heads=chosen.heads + 1)),
        ("$d_k=1$", other(d_k=1)),
        (
            "unbiased scores" if chosen.score_bias else "biased scores",
            other(score_bias=not chosen.score_bias),
        ),
        ("no ReLU bias" if chosen.ffn_bias else "ReLU bias", other(ffn_bias=0.0 if chosen.ffn_bias else 0.5)),
        ("no FFN skip" if chosen.ffn_skip else "FFN skip", other(ffn_skip=not chosen.ffn_skip)),
        (f"box {chosen.box / 4:g}", other(box=chosen.box / 4)),
        (
            "unpaired" if chosen.pairing == "paired" else "paired",
            other(pairing="unpaired" if chosen.pairing == "paired" else "paired"),
        ),
    ]
    first = {choices: label for label, choices in reversed(listed)}
    return {label: choices for label, choices in listed if first[choices] == label}


def _swept(settings: Settings, choices: NetworkChoices) -> dict[int, CellGrowth]:
    return cell_growth(
        choices,
        n_tokens=settings["lengths"],
        depths=settings["depths"],
        draws=settings["sweep_seeds"],
        stream=lambda i: settings.rng("networks", i),
    )


def _cell_table(found: Mapping[int, CellGrowth]) -> dict[str, list[Any]]:
    """One row per network."""
    table: dict[str, list[Any]] = {
        name: [] for name in ("depth", "seed", "n_tokens", "cells", "regions", "signatures")
    }
    for depth, growth in found.items():
        for i in range(len(growth.cells.counts)):
            for k, n in enumerate(growth.cells.n_tokens):
                table["depth"].append(depth)
                table["seed"].append(i)
                table["n_tokens"].append(n)
                for name in ("cells", "regions", "signatures"):
                    counted: Growth | None = getattr(growth, name)
                    table[name].append(None if counted is None else int(counted.counts[i, k]))
    return table


def _slope_table(found: Mapping[int, CellGrowth]) -> dict[str, list[Any]]:
    rows = [
        (f"L={depth}, {name}", growth)
        for depth, counts in found.items()
        for name, growth in (
            ("cells", counts.cells),
            ("regions", counts.regions),
            ("signatures", counts.signatures),
        )
        if growth is not None
    ]
    return _slopes(rows)


def _sweep_table(swept: Mapping[str, Mapping[int, CellGrowth]]) -> dict[str, list[Any]]:
    return _slopes(
        [
            (f"{_plain(label)}, L={depth}", counts.cells)
            for label, growth in swept.items()
            for depth, counts in growth.items()
        ]
    )


def _slopes(rows: list[tuple[str, Growth]]) -> dict[str, list[Any]]:
    return {
        "counted": [label for label, _ in rows],
        "slope_of_means": [growth.slope for _, growth in rows],
        "mean_of_slopes": [growth.slope_mean for _, growth in rows],
        "standard_error": [growth.slope_error for _, growth in rows],
        "spread_over_seeds": [growth.slope_spread for _, growth in rows],
        "last_slope": [growth.last_slope for _, growth in rows],
    }


def _plain(label: str) -> str:
    return label.replace("$", "").replace("_{ff}", "_ff")


def _compared_a(
    settings: Settings, found: Mapping[int, CellGrowth], swept: Mapping[str, Mapping[int, CellGrowth]]
) -> tuple[Comparison, ...]:
    shallow, deep = min(found), max(found)
    rows = []
    for name, growth in (("exact cells", found[shallow].cells), ("Monte Carlo", found[shallow].signatures)):
        if growth is not None:
            rows.append(
                Comparison(
                    f"figure 6(a): slope at L = {shallow}, {name}",
                    "about 0.13" if shallow == 1 else "not stated",
                    _with_spread(growth),
                    "measurement only: it depends on choices that the paper does not state",
                )
            )
    slopes = [growth[shallow].cells.slope for growth in swept.values()]
    rows.append(
        Comparison(
            f"figure 6(a): slopes at L = {shallow} over {len(slopes)} choices",
            "about 0.13" if shallow == 1 else "not stated",
            f"{min(slopes):.2f} to {max(slopes):.2f}",
            "measurement only",
        )
    )
    if deep > shallow and len(settings["lengths"]) > 1:
        rows.append(_deeper_grows_faster(found[shallow].cells, found[deep].cells, shallow, deep))
    sampled = [growth for growth in found.values() if growth.signatures is not None]
    if sampled:
        n_networks = sum(growth.cells.counts.size for growth in sampled)
        above = sum(growth.above_regions for growth in sampled)
        rows.append(
            Comparison(
                "figure 6(a): signatures of random points are a lower bound on linear regions",
                "yes",
                f"more signatures than regions in {above} of {n_networks} networks",
                "fails" if above else "holds on these networks; in general it bounds cells only",
            )
        )
        rows.append(
            Comparison(
                f"figure 6(a): cells that {settings['samples']:,} points miss",
                "not stated",
                f"{100 * max(growth.missed for growth in sampled):.2f} % at the worst depth",
                "measurement only",
            )
        )
    return tuple(rows)


def _with_spread(growth: Growth) -> str:
    return (
        f"{growth.slope:.3f} (single networks {growth.slope_mean:.3f} ± {growth.slope_error:.3f}, "
        f"spread {growth.slope_spread:.2f})"
    )


def _deeper_grows_faster(shallow: Growth, deep: Growth, low: int, high: int) -> Comparison:
    """Whether the deeper networks' slope between the last two N is larger, seed by seed."""
    pair = slice(-2, None)
    both = [Growth(growth.n_tokens[pair], growth.counts[:, pair]) for growth in (shallow, deep)]
    difference = both[1].slopes - both[0].slopes
    error = float(difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else np.inf
    mean = float(difference.mean())
    return Comparison(
        f"figure 6(a): slope between the last two N: L = {high} minus L = {low}",
        "positive",
        f"{mean:+.2f} ± {error:.2f}",
        "measurement only: "
        + (
            "positive here"
            if mean > 2 * error
            else "negative here"
            if mean < -2 * error
            else "not distinguishable from 0"
        ),
    )


# Figure 6(b)
# ----------------------------------------------------------------------------------------------------------


def _part_b(settings: Settings, panels: Any) -> Outcome:
    from hardmax.plotting.growth import Curve, draw_growth, draw_slopes
    from hardmax.plotting.style import LINES

    heads, n_tokens = settings["vertex_heads"], settings["vertex_lengths"]
    ranks = tuple(dict.fromkeys((settings["head_rank"], *settings["sweep_d_k"])))
    found = {
        rank: vertex_growth(
            HeadChoices(d=settings["d"], d_k=rank, tokens=settings["tokens"]),
            n_tokens=n_tokens,
            heads=heads,
            draws=settings["vertex_seeds"],
            stream=lambda i, rank=rank: settings.rng("heads", rank, i),  # type: ignore[misc]
        )
        for rank in ranks
    }
    shown = found[ranks[0]]
    draw_growth(
        [Curve(growth, f"$H={h + 1}$", LINES[h % len(LINES)]) for h, growth in enumerate(shown)],
        ax=panels[0],
        title=f"(b) vertices, $d={settings['d']}$, $d_k={ranks[0]}$, {settings['vertex_seeds']} draws",
        ylabel="vertices of the sum of $H$ heads",
        references={f"$N^{{{heads}}}$": [float(n) ** heads for n in n_tokens]},
    )
    draw_slopes(
        {f"$d_k={rank}$": growths for rank, growths in found.items()},
        labels=[f"$H={h + 1}$" for h in range(heads)],
        ax=panels[1],
        title="(b) exact slopes",
    )
    return Outcome(
        {},
        {"vertices": _vertex_table(found), "slopes_b": _vertex_slopes(found)},
        _compared_b(settings, shown, found),
        (
            "Figure 6(b): scores of rank d_k are kept as products of their factors; multiplied out in floats "
            "they would have full rank, and heads of rank one more than two vertices.",
        ),
    )


def _vertex_table(found: Mapping[int, list[Growth]]) -> dict[str, list[Any]]:
    """One row per rank, number of heads and N."""
    table: dict[str, list[Any]] = {
        name: [] for name in ("d_k", "heads", "n_tokens", "mean", "spread", "least", "most", "candidates")
    }
    for rank, growths in found.items():
        for h, growth in enumerate(growths):
            for k, n in enumerate(growth.n_tokens):
                row = (
                    rank,
                    h + 1,
                    n,
                    float(growth.mean[k]),
                    float(growth.spread[k]),
                    int(growth.counts[:, k].min()),
                    int(growth.counts[:, k].max()),
                    n ** (h + 1),
                )
                for name, value in zip(table, row, strict=True):
                    table[name].append(value)
    return table


def _vertex_slopes(found: Mapping[int, list[Growth]]) -> dict[str, list[Any]]:
    return _slopes(
        [
            (f"d_k={rank}, H={h + 1}", growth)
            for rank, growths in found.items()
            for h, growth in enumerate(growths)
        ]
    )


def _compared_b(
    settings: Settings, shown: list[Growth], found: Mapping[int, list[Growth]]
) -> tuple[Comparison, ...]:
    slopes = [growth.slope for growth in shown]
    rises = all(a < b for a, b in pairwise(slopes))
    last = shown[-1]
    single, n = shown[0], last.n_tokens[-1]
    share = float(last.mean[-1]) / n ** len(shown)
    rows = [
        Comparison(
            f"figure 6(b): slopes for H = 1 to {len(shown)} increase, d_k = {settings['head_rank']}",
            "yes",
            ", ".join(f"{slope:.3f}" for slope in slopes),
            "holds" if rises else "fails",
        )
    ]
    rows += [
        Comparison(
            f"figure 6(b): the same at d_k = {rank}",
            "d_k is not stated",
            ", ".join(
                f"{abs(growth.slope) if abs(growth.slope) < 5e-4 else growth.slope:.3f}" for growth in growths
            ),
            "measurement only: d_k decides",
        )
        for rank, growths in found.items()
        if rank != settings["head_rank"]
    ]
    rows.append(
        Comparison(
            "figure 6(b): counts stay below N^H because interior keys do not reach the hull",
            "yes",
            f"{single.mean[-1]:.2f} of {n} keys of a head are vertices, but only {100 * share:.0f} % of the "
            f"{n ** len(shown)} sums",
            "fails: the keys are extreme, their sums are not"
            if single.mean[-1] / n > share ** (1 / len(shown)) and single.mean[-1] > 0.9 * n
            else "not decided by these numbers",
        )
    )
    return tuple(rows)


RECIPES = (
    Recipe(
        "tropical.fig6",
        "Growth with N: cells of random networks (a), vertices of sums of heads (b)",
        (
            Option("part", "both", "which panels", choices=("a", "b", "both")),
            Option("lengths", (2, 3, 4, 5), "(a) numbers of keys N (the paper: 2 to 5)", least=1),
            Option("depths", (1, 2), "(a) depths L (the paper: 1, 2)", least=1),
            Option("seeds", 20, "(a) networks per N; not stated", medium=40, paper=80, least=1),
            Option(
                "samples",
                100_000,
                "(a) random points per network, 0 for none (the paper: 2,000,000)",
                medium=500_000,
                paper=2_000_000,
                least=0,
            ),
            Option("box", 4.0, "(a) points are drawn in [-box, box]^2; not stated", positive=True),
            Option("heads", 1, "(a) heads H; not stated", least=1),
            Option("d_ff", 8, "(a) width of the ReLU layer; not stated", least=1),
            Option("d_k", 0, "(a) rank of the scores, 0 for Gaussian scores; not stated", least=0),
            Option("score_bias", False, "(a) whether scores have biases (the paper's formulas: no)"),
            Option("ffn_bias", 0.5, "(a) standard deviation of the ReLU biases; not stated", least=0),
            Option("attention_skip", True, "(a) x + MHSA(x) (the paper's block)"),
            Option("ffn_skip", False, "(a) y + FFN(y) (not in the paper's block)"),
            Option(
                "pairing",
                "paired",
                "(a) whether networks of different N share weights; not stated",
                choices=("paired", "unpaired"),
            ),
            Option("sweep_d_ff", (4, 16), "(a) other widths, exactly", medium=(4, 16, 32), least=1),
            Option("sweep_seeds", 10, "(a) networks per other choice", medium=40, paper=80, least=1),
            Option("d", 4, "(b) dimension of the input (the paper: 4)", least=1),
            Option("vertex_heads", 3, "(b) up to so many heads (the paper: 3)", least=1),
            Option("vertex_lengths", (2, 3, 4, 5, 6, 7), "(b) numbers of keys (the paper: 2 to 7)", least=1),
            Option("vertex_seeds", 6, "(b) draws; not stated", medium=40, paper=200, least=1),
            Option("head_rank", 4, "(b) d_k of the plotted heads; not stated", least=1),
            Option("sweep_d_k", (1, 2), "(b) other d_k, exactly", medium=(1, 2, 3), least=1),
            Option(
                "tokens",
                "independent",
                "(b) Gaussian keys per head, or projections of tokens that all heads share; not stated",
                choices=("independent", "shared"),
            ),
        ),
        _cook_figure_6,
    ),
)
