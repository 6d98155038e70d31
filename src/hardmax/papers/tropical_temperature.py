"""P1 Example VI.2 and figure 5: what a temperature does to one head.

Example VI.2 takes 1/sqrt(64) for the temperature of a head with 64 dimensions; it is sqrt(64) on raw scores,
and there nothing is left of its bounds. Figure 5 shows a head in the plane at four temperatures; its cells
are the same at all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.diagrams.power_diagrams import attention_diagram
from hardmax.geometry.domains import Box
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.temperature.bands import margin_needed, transition_band
from hardmax.temperature.closed_forms import QUANTITIES
from hardmax.temperature.margin_bounds import StabilityBounds, stability_bounds, standard_temperature
from hardmax.temperature.observed_scores import check_stability

__all__ = ["RECIPES"]

Floats = NDArray[np.float64]


def _cook_example_vi2(settings: Settings) -> Outcome:
    n, margin, d_head = settings["n_tokens"], settings["margin"], settings["d_head"]
    raw = standard_temperature(d_head)
    ways = {"paper": 1 / raw, "raw scores": raw, "scaled scores": 1.0}
    bounds = {way: stability_bounds(n, margin, temperature) for way, temperature in ways.items()}
    printed, real = bounds["paper"], bounds["raw scores"]
    as_in_paper = (n, margin, d_head) == (512, 2.0, 64)
    return Outcome(
        figures={"exVI2": _margin_picture(n, margin, ways)},
        tables={"bounds": _bounds_table(bounds)},
        comparisons=(
            Comparison(
                f"temperature of a standard head, d_k = {d_head}",
                f"1/sqrt({d_head}) = {printed.temperature:g}",
                f"sqrt({d_head}) = {real.temperature:g} on raw scores, 1 on scaled ones",
                "fails: upside down",
            ),
            Comparison(
                "value above the maximum",
                "7.18e-6" if as_in_paper else "not stated",
                f"{printed.value:.4g}",
                "holds, truncated; rounded 7.19e-6" if as_in_paper else "computed",
            ),
            Comparison(
                "L1 distance to one-hot",
                "1.15e-4" if as_in_paper else "not stated",
                f"{printed.gradient_paper:.4g} (sharp {printed.gradient_sharp:.5g})",
                "holds" if as_in_paper else "computed",
            ),
            Comparison(
                "concentration on the winner",
                "99.98%" if as_in_paper else "not stated",
                f"at least {printed.top_probability:.4%}",
                "holds, but loses a factor: total variation is half of L1" if as_in_paper else "computed",
            ),
            Comparison(
                "norm of the Hessian at most",
                "4.6e-4" if as_in_paper else f"{printed.hessian_paper:.5g} (the formula)",
                f"supremum {printed.hessian_sharp:.5g}, formula {printed.hessian_paper:.5g}, corrected "
                f"{printed.hessian:.5g}",
                "fails: more is attained" if printed.hessian_paper < printed.hessian_sharp else "holds here",
            ),
            *(_at_real_temperature(way, bounds[way]) for way in ("raw scores", "scaled scores")),
            Comparison(
                "margin that gives the printed accuracy on raw scores",
                f"{margin:g}",
                f"{margin * raw * raw:g} raw, {margin * raw:g} scaled",
                f"fails: {raw * raw:g} times as much" if raw > 1 else "holds",
            ),
        ),
        notes=(
            "The same ratio of margin to temperature gives the same gradient, the same value over "
            "temperature and the same Hessian times temperature.",
            f"On raw scores a margin of {margin_needed(n, raw):.4g} makes every query of such a head hard "
            "up to 1%.",
        ),
    )


def _bounds_table(bounds: dict[str, StabilityBounds]) -> dict[str, Any]:
    rows = [(way, one, quantity) for way, one in bounds.items() for quantity in QUANTITIES]
    return {
        "reading": [way for way, _, _ in rows],
        "temperature": [one.temperature for _, one, _ in rows],
        "quantity": [quantity for _, _, quantity in rows],
        "corrected": [getattr(one, quantity) for _, one, quantity in rows],
        "sharp": [getattr(one, f"{quantity}_sharp") for _, one, quantity in rows],
        "paper": [getattr(one, f"{quantity}_paper") for _, one, quantity in rows],
        "vacuous": [quantity in one.vacuous for _, one, quantity in rows],
    }


def _at_real_temperature(way: str, bounds: StabilityBounds) -> Comparison:
    empty = len(bounds.vacuous)
    return Comparison(
        f"the same example at temperature {bounds.temperature:g} ({way})",
        "virtually affine",
        f"top probability at least {bounds.top_probability:.2%}, value {bounds.value:.3g}, Hessian formula "
        f"{bounds.hessian_paper:.3g}, supremum {bounds.hessian_sharp:.3g}",
        f"vacuous: {empty} of {len(QUANTITIES)} bounds say nothing" if empty else "holds",
    )


def _margin_picture(n: int, margin: float, ways: dict[str, float]) -> Any:
    from hardmax.plotting.temperatures import draw_guarantees

    margins = np.geomspace(0.05, 500.0, 161).tolist()
    rows = {
        f"{temperature:g} ({way})": [stability_bounds(n, delta, temperature) for delta in margins]
        for way, temperature in sorted(ways.items(), key=lambda way: way[1])
    }
    return draw_guarantees(rows, margin=margin)


def _cook_figure_5(settings: Settings) -> Outcome:
    from hardmax.plotting.temperatures import draw_temperatures

    n, half, temperatures = settings["n_tokens"], settings["box"], settings["temperatures"]
    keys = settings.rng("keys").standard_normal((n, 2))
    diagram = attention_diagram(keys)
    box = Box.cube(2, -half, half)
    axis = -half + 2 * half * (np.arange(settings["grid"]) + 0.5) / settings["grid"]
    queries = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    reports = [check_stability(queries @ keys.T, t) for t in temperatures]
    seen = [_most_probable(queries @ keys.T, t) for t in temperatures]
    counts = [len(np.unique(cells)) for cells in seen]
    walls = diagram.locate(queries)
    agree = all(bool((cells == walls).all()) for cells in seen)
    table: dict[str, Any] = {
        "temperature": list(temperatures),
        "cells_of_the_most_probable_key": counts,
        "exact_cells": [int(diagram.nonempty.sum())] * len(temperatures),
        "share_above_99_percent": [float((report.top_probability > 0.99).mean()) for report in reports],
        "mean_top_probability": [float(report.top_probability.mean()) for report in reports],
        "widest_band_at_1_percent": [_widest(keys, t) for t in temperatures],
    }
    drawn_keys: dict[str, Any] = {"key": list(range(n)), "k": keys, "has_cell": diagram.nonempty}
    shares = ", ".join(f"{share:.3g}" for share in table["share_above_99_percent"])
    return Outcome(
        figures={"fig5": draw_temperatures(diagram, temperatures, box=box, resolution=settings["grid"])},
        tables={
            "temperatures": table,
            "keys": drawn_keys,
        },
        comparisons=(
            Comparison(
                "regions hidden at temperature 1 emerge at 0.001",
                "yes",
                f"{', '.join(map(str, counts))} cells of the most probable key at temperatures "
                f"{', '.join(f'{t:g}' for t in temperatures)}",
                "fails: the same cells, in growing contrast" if len(set(counts)) == 1 else "undecided",
            ),
            Comparison(
                "cells of the limit are those of the power diagram",
                "yes",
                f"the most probable key is the winner of the exact diagram at all {len(queries)} queries, "
                f"at every temperature: {agree}",
                "holds" if agree else "fails",
            ),
            Comparison(
                "share of queries with top probability above 99%", "not stated", shares, "measurement only"
            ),
            _cells_of_gaussian_keys(settings),
        ),
        notes=(
            "The paper states the keys' distribution, the square and the temperatures, not the seed, the "
            "grid or the colours. Values are colours; they blend as softmax weighs them.",
        ),
    )


def _most_probable(scores: Floats, temperature: float) -> NDArray[np.intp]:
    p = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(p.argmax(axis=1))


def _widest(keys: Floats, temperature: float) -> float:
    band = transition_band(keys, temperature)
    return float(band.width[np.triu_indices(len(keys), 1)].max())


def _cells_of_gaussian_keys(settings: Settings) -> Comparison:
    n, draws = settings["n_tokens"], settings["draws"]
    cells = [
        int(attention_diagram(settings.rng("draws", i).standard_normal((n, 2))).nonempty.sum())
        for i in range(draws)
    ]
    shares = [f"{cells.count(k) / draws:.3f} show {k}" for k in sorted(set(cells))]
    return Comparison(
        f"cells of {n} Gaussian keys, {draws} draws",
        "not stated",
        ", ".join(shares),
        "measurement only",
    )


RECIPES = (
    Recipe(
        "tropical.exVI2",
        "Example VI.2 at the temperature it takes, and at the one a head has",
        (
            Option("n_tokens", 512, "keys (the paper: 512)", least=2),
            Option("margin", 2.0, "lead of the largest score (the paper: 2)", least=0.001),
            Option("d_head", 64, "dimension of the head, d_k (the paper: 64)", least=1),
        ),
        _cook_example_vi2,
    ),
    Recipe(
        "tropical.fig5",
        "One head at four temperatures, with the exact walls on top",
        (
            Option("n_tokens", 5, "Gaussian keys (the paper: 5)", least=2),
            Option("box", 4.0, "half side of the square of queries (the paper: 4)", least=0.001),
            Option("temperatures", (1.0, 0.5, 0.1, 0.001), "temperatures (the paper: these)", least=1e-9),
            Option("grid", 201, "queries along a side (not stated)", medium=401, paper=801, least=2),
            Option("draws", 200, "draws of keys whose cells are counted", medium=2000, paper=20_000, least=1),
        ),
        _cook_figure_5,
    ),
)
