"""P1 figure 2: two ReLU layers of three units in the plane, and how many cells they can have.

The caption gives 7 x 7 = 49 as a maximum. A cell of the first layer on which k units are on has an image of
dimension min(k, 2), which three planes cut into at most 1, 4 or 7 pieces; at most three patterns of one unit
and four of two or more occur beside "all off", so there are never more than 40 cells. The network drawn here
has 34, the most that searching has found.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.domains import Box, WholeSpace
from hardmax.networks.network import Network
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.regions.enumeration import count_cells, enumerate_regions

__all__ = ["RECIPES"]

UNITS = 3
# W1 (3, 2), b1 (3), W2 (3, 3), b2 (3): 34 cells of the plane, all of them large enough to be seen
_MOST_CELLS = (2, 0, -2, -6, 6, 9, -4, 12, -14, 24, -2, -1, -20, 4, 1, -6, 2, 2, 8, -14, -14)
_LARGEST_WEIGHT = 12  # when climbing


def _cook_figure_2(settings: Settings) -> Outcome:
    from hardmax.plotting.folding import draw_folding

    weights = np.array(_MOST_CELLS)
    if settings["weights"] == "random":
        weights = settings.rng("weights").integers(-_LARGEST_WEIGHT, _LARGEST_WEIGHT + 1, len(weights))
    network = _network(weights)
    count = count_cells(network, WholeSpace(2), n_jobs=1)
    found = enumerate_regions(network, WholeSpace(2), n_jobs=1)
    best, climbed = _climb(settings)
    most = max(count.n_cells, best)
    random = np.array([_cells(_network(_gaussian(settings, i))) for i in range(settings["draws"])])
    return Outcome(
        figures={"fig2": draw_folding(network, _box(settings, found))},
        tables={
            "cells": {"after_layer": [1, 2], "cells": list(count.cells_by_depth[:2]), "paper": [7, 49]},
            "weights": _weight_table(weights),
            "gaussian": {"draw": list(range(len(random))), "cells": random},
        },
        comparisons=(
            Comparison("cells after layer 1", "7", str(count.cells_by_depth[0]), "holds"),
            Comparison(
                "most cells after layer 2",
                "49",
                f"between {most} (found) and {rank_aware_bound()} (bound)",
                "fails as a maximum: 49 bounds the number and is never attained",
            ),
            Comparison(
                "cells of the network drawn",
                "49",
                f"{count.n_cells} cells, {found.n_regions} regions",
                "fails" if count.n_cells < 49 else "holds",
            ),
            Comparison(
                f"cells with Gaussian weights, {len(random)} draws",
                "not stated",
                f"mean {random.mean():.1f}, {random.min()} to {random.max()}",
                "measurement only",
            ),
        ),
        notes=(
            f"Hill climbing over integer weights, {climbed} networks counted here: at most {best} cells."
            if climbed
            else "The weights were found by hill climbing; --set climb=5000 repeats it.",
        ),
    )


def rank_aware_bound(units: int = UNITS) -> int:
    """The most cells of two layers of three units in the plane, counting the rank of each piece's image.

    >>> rank_aware_bound()
    40
    """
    pieces = [sum(comb(units, j) for j in range(min(k, 2) + 1)) for k in range(units + 1)]
    # patterns with k units on, of which the plane shows seven of eight: leaving out "all off" costs least
    patterns = [comb(units, k) for k in range(units + 1)]
    shown = sorted((pieces[k] for k in range(units + 1) for _ in range(patterns[k])), reverse=True)
    return sum(shown[: 1 + units + comb(units, 2)])


def _network(weights: NDArray[Any]) -> Network:
    w = np.asarray(weights)
    layers = [(w[:6].reshape(3, 2), w[6:9]), (w[9:18].reshape(3, 3), w[18:21]), ([[1, 2, 4]], [0])]
    return Network.mlp(layers)


def _gaussian(settings: Settings, i: int) -> NDArray[np.float64]:
    return settings.rng("gaussian", i).standard_normal(len(_MOST_CELLS))


def _cells(network: Network) -> int:
    return count_cells(network, WholeSpace(2), n_jobs=1).n_cells


def _climb(settings: Settings) -> tuple[int, int]:
    """Change a few integer weights at a time, keep what has no fewer cells, start anew when nothing helps."""
    rng = settings.rng("climb")
    best, counted, patience = 0, 0, 250
    while counted < settings["climb"]:
        weights = rng.integers(-9, 10, len(_MOST_CELLS))
        cells, idle = 0, 0
        while idle < patience and counted < settings["climb"]:
            changed = weights.copy()
            places = rng.choice(len(weights), rng.integers(1, 4), replace=False)
            changed[places] += rng.integers(-4, 5, len(places))
            changed = np.clip(changed, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
            now, counted = _cells(_network(changed)), counted + 1
            idle = 0 if now > cells else idle + 1
            if now >= cells:
                weights, cells = changed, now
        best = max(best, cells)
    return best, counted


def _box(settings: Settings, found: Any) -> Box:
    """A square around all vertices, or the one that was asked for."""
    if settings["box"] > 0.0:
        return Box.cube(2, -settings["box"], settings["box"])
    low, high = found.vertices.min(axis=0), found.vertices.max(axis=0)
    centre, half = (low + high) / 2, 0.58 * float((high - low).max())
    return Box((centre - half).tolist(), (centre + half).tolist())


def _weight_table(weights: NDArray[Any]) -> dict[str, list[Any]]:
    w = [int(value) for value in weights]
    rows = [(1, i, w[2 * i : 2 * i + 2] + [0], w[6 + i]) for i in range(UNITS)]
    rows += [(2, i, w[9 + 3 * i : 12 + 3 * i], w[18 + i]) for i in range(UNITS)]
    return {
        "layer": [row[0] for row in rows],
        "unit": [row[1] for row in rows],
        **{f"w{k}": [row[2][k] for row in rows] for k in range(3)},
        "bias": [row[3] for row in rows],
    }


RECIPES = (
    Recipe(
        "tropical.fig2",
        "Two ReLU layers of three units: 7 cells, then at most 40, not 49",
        (
            Option(
                "weights",
                "most",
                "the network drawn: the one with most cells that is known, or random integers; not stated",
                choices=("most", "random"),
            ),
            Option(
                "box", 0.0, "the pictures show [-box, box]^2; 0 for a square around all vertices", least=0
            ),
            Option("draws", 50, "Gaussian networks that are counted", medium=500, paper=2000, least=1),
            Option(
                "climb",
                0,
                "networks counted while climbing to more cells",
                medium=2000,
                paper=50_000,
                least=0,
            ),
        ),
        _cook_figure_2,
    ),
)
