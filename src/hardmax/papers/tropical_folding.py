"""P1 figure 2: two ReLU layers of three units in the plane, and how many cells they can have.

The caption gives 7 x 7 = 49 as a maximum. A cell of the first layer on which k units are on has an image of
dimension min(k, 2), which three planes cut into at most 1, 4 or 7 pieces; at most three patterns of one unit
and four of two or more occur, so there are never more than 40 cells (:func:`hardmax.mlp_bounds`). The network
drawn here has 34, the most that searching has found, in integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.bounds.perceptrons import mlp_bounds
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.networks.network import Network
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.regions.api import count_cells, enumerate_regions
from hardmax.regions.result import RegionSet

__all__ = ["RECIPES"]

_WIDTHS = (2, 3, 3)
# As many cells as the best network known (hardmax.networks.constructions.best_found), all of them large
# enough to be seen.
_LARGE_CELLS: tuple[Any, ...] = (
    ([[2, 0], [-2, -6], [6, 9]], [-4, 12, -14]),
    ([[24, -2, -1], [-20, 4, 1], [-6, 2, 2]], [8, -14, -14]),
)
_OUTPUT = (np.eye(3), np.zeros(3))


def _cook_figure_2(settings: Settings) -> Outcome:
    from hardmax.plotting.folding import draw_folding

    network = _drawn(settings)
    found = enumerate_regions(network, WholeSpace(2), n_jobs=1)
    after = count_cells(network, WholeSpace(2), n_jobs=1).cells_by_depth[:2]
    random = np.array([_cells(_gaussian(settings, i)) for i in range(settings["draws"])])
    bounds = {bound.name: int(bound.value) for bound in mlp_bounds(_WIDTHS)}
    best = max(bounds["best_found"], *random.tolist(), *after)
    printed = bounds["product"]
    return Outcome(
        figures={"fig2": draw_folding(network, _box(settings, found))},
        tables={
            "cells": {"after_layer": [1, 2], "cells": list(after), "paper": [7, printed]},
            "weights": _weight_table(network),
            "gaussian": {"draw": list(range(len(random))), "cells": random.tolist()},
        },
        comparisons=(
            Comparison("cells after layer 1", "7", str(after[0]), "holds" if after[0] == 7 else "fewer here"),
            Comparison(
                "most cells after layer 2",
                str(printed),
                f"between {best} (found) and {bounds['rank_aware']} (bound)",
                f"fails as a maximum: {printed} bounds the number and is never attained"
                if bounds["rank_aware"] < printed
                else "holds",
            ),
            Comparison(
                "cells of the network drawn",
                str(printed),
                f"{found.n_cells} cells, {found.n_regions} regions",
                "fails" if found.n_cells < printed else "holds",
            ),
            Comparison(
                f"cells with Gaussian weights, {len(random)} draws",
                "not stated",
                f"mean {random.mean():.1f}, {random.min()} to {random.max()}",
                "measurement only",
            ),
        ),
        notes=(
            "Orange and green in the first panel have one unit on: their images are edges of the folded "
            "sheet, which planes cut into 4 pieces at most, not 7."
            if settings["weights"] == "best"
            else "The network is random; --set weights=best draws the one with most cells.",
        ),
    )


def _drawn(settings: Settings) -> Network:
    if settings["weights"] == "best":
        return Network.mlp([*_LARGE_CELLS, _OUTPUT])
    return _gaussian(settings, settings["draws"])


def _gaussian(settings: Settings, i: int) -> Network:
    rng = settings.rng("gaussian", i)
    layers: list[Any] = [(rng.standard_normal((3, n)), rng.standard_normal(3)) for n in (2, 3)]
    return Network.mlp([*layers, _OUTPUT])


def _cells(network: Network) -> int:
    return count_cells(network, WholeSpace(2), n_jobs=1).n_cells


def _box(settings: Settings, found: RegionSet) -> Box:
    """A square around all vertices, or the one that was asked for."""
    if settings["box"] > 0.0:
        return Box.cube(2, -settings["box"], settings["box"])
    low, high = found.vertices.min(axis=0), found.vertices.max(axis=0)
    centre, half = (low + high) / 2, 0.58 * float((high - low).max())
    return Box((centre - half).tolist(), (centre + half).tolist())


def _weight_table(network: Network) -> dict[str, list[Any]]:
    """The weights of both layers; a perceptron keeps those of the second as the output of the first."""
    first: Any = network.blocks[0]
    pairs = ((first.w_in.floats, first.b_in.floats), (first.w_out.floats, first.b_out.floats))
    rows = [
        (layer, i, weights.tolist(), float(b[i]))
        for layer, (w, b) in enumerate(pairs, start=1)
        for i, weights in enumerate(w)
    ]
    return {
        "layer": [row[0] for row in rows],
        "unit": [row[1] for row in rows],
        **{f"w{k}": [row[2][k] if k < len(row[2]) else None for row in rows] for k in range(3)},
        "bias": [row[3] for row in rows],
    }


RECIPES = (
    Recipe(
        "tropical.fig2",
        "Two ReLU layers of three units: 7 cells, then at most 40, not 49",
        (
            Option(
                "weights",
                "best",
                "the network drawn: the one with most cells that is known, or a Gaussian one; not stated",
                choices=("best", "gaussian"),
            ),
            Option(
                "box", 0.0, "the pictures show [-box, box]^2; 0 for a square around all vertices", least=0
            ),
            Option("draws", 50, "Gaussian networks that are counted", medium=500, paper=2000, least=1),
        ),
        _cook_figure_2,
    ),
)
