"""P1 figure 3: the Voronoi diagram of some keys beside the power diagram in which attention routes queries.

The caption says that cells vanish because their weights |k|^2 are small. They vanish because the key lies in
the convex hull of the others: a second pair of diagrams shows the key with the smallest weight keeping its
cell while heavier keys lose theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.geometry.diagrams.power_diagrams import PowerDiagram, attention_diagram, power_diagram
from hardmax.geometry.domains import Box
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings

__all__ = ["RECIPES"]

# The lightest key (weight 0.25) is a corner of the hull; keys 4 and 5 (weights 4.52 and 6.05) lie inside.
_LIGHT_CORNER = np.array([[0.5, 0.0], [-3.0, 2.5], [-3.0, -2.5], [-4.0, 0.3], [-2.1, 0.33], [-2.4, -0.55]])


def _cook_figure_3(settings: Settings) -> Outcome:
    keys = settings.rng("keys").standard_normal((settings["n_tokens"], 2)).round(settings["decimals"])
    box = Box.cube(2, -settings["box"], settings["box"])
    pictures = {"fig3": (keys, box), "fig3_light_corner": (_LIGHT_CORNER, Box.cube(2, -4.5, 4.5))}
    diagrams = {name: attention_diagram(points) for name, (points, _) in pictures.items()}
    drawn, example = diagrams["fig3"], diagrams["fig3_light_corner"]
    return Outcome(
        figures={name: _pair(diagrams[name], points, shown) for name, (points, shown) in pictures.items()},
        tables={"keys": _table(drawn), "keys_light_corner": _table(example)},
        comparisons=(
            Comparison(
                "keys that lose their cell from (a) to (b)",
                "two (purple, orange)",
                f"{int((~drawn.nonempty).sum())} of {drawn.n_keys} (the paper does not state its keys)",
                "none vanishes here" if drawn.nonempty.all() else "holds: cells can vanish",
            ),
            _blamed_on_weights(example),
            Comparison(
                "every key without a cell is a convex combination of others",
                "not stated",
                f"{_certified(drawn) + _certified(example)} certificates, checked in rationals",
                "holds",
            ),
            Comparison(
                "cells of (b) may be empty",
                "yes",
                "every closed cell contains the origin, where all scores are 0; only interiors vanish",
                "fails as worded",
            ),
            _lightest_keys(settings),
        ),
        notes=(
            "Both diagrams of a pair show the same keys in the same colours; a hollow star has no cell. All "
            "walls of (b) pass through the origin, because the scores carry no biases.",
        ),
    )


def _pair(attention: PowerDiagram, keys: NDArray[np.float64], box: Box) -> Any:
    from hardmax.plotting.diagrams import compare_diagrams

    voronoi = power_diagram(keys, np.zeros(len(keys)))
    titles = ["(a) Voronoi diagram of the keys", "(b) attention: weights $|k_j|^2$"]
    return compare_diagrams([voronoi, attention], titles=titles, box=box)


def _table(diagram: PowerDiagram) -> dict[str, Any]:
    keys = diagram.sites
    certificates = [None if won else diagram.emptiness(j) for j, won in enumerate(diagram.nonempty)]
    return {
        "key": list(range(len(keys))),
        "k": keys,
        "weight": (keys**2).sum(axis=1),
        "has_cell": diagram.nonempty.tolist(),
        "combination_of": [_combination(one) for one in certificates],
    }


def _combination(certificate: Any) -> str:
    if certificate is None:
        return ""
    pairs = zip(certificate.weights, certificate.support.tolist(), strict=True)
    return " + ".join(f"{float(weight):.6g} k{key}" for weight, key in pairs)


def _certified(diagram: PowerDiagram) -> int:
    """How many keys have no cell; each of them with a convex combination that was checked exactly."""
    lost = np.flatnonzero(~diagram.nonempty).tolist()
    if not all(diagram.emptiness(j).verify() for j in lost):
        raise InvalidInputError("a certificate failed its check.")
    return len(lost)


def _blamed_on_weights(diagram: PowerDiagram) -> Comparison:
    weights = (diagram.sites**2).sum(axis=1)
    lightest = int(weights.argmin())
    heavier = np.flatnonzero(~diagram.nonempty & (weights > weights[lightest])).tolist()
    return Comparison(
        "cells vanish because their weights |k|^2 are relatively small",
        "yes",
        f"key {lightest} has the smallest weight ({weights[lightest]:.2f}) and "
        f"{'a' if diagram.nonempty[lightest] else 'no'} cell; the heavier keys "
        f"{', '.join(map(str, heavier))} have none (fig3_light_corner)",
        "fails" if diagram.nonempty[lightest] and heavier else "not decided by this example",
    )


def _lightest_keys(settings: Settings) -> Comparison:
    draws, kept, any_lost = settings["draws"], 0, 0
    for i in range(draws):
        keys = settings.rng("draws", i).standard_normal((settings["n_tokens"], 2))
        nonempty = attention_diagram(keys).nonempty
        any_lost += not nonempty.all()
        kept += bool(nonempty[(keys**2).sum(axis=1).argmin()]) and not nonempty.all()
    return Comparison(
        f"Gaussian keys, {draws} draws: the lightest key keeps its cell while another loses its own",
        "never, by the caption",
        f"{kept} of the {any_lost} draws in which a cell vanishes",
        "measurement only",
    )


RECIPES = (
    Recipe(
        "tropical.fig3",
        "Voronoi diagram and power diagram of the same keys; why cells vanish",
        (
            Option("n_tokens", 7, "Gaussian keys; not stated", least=1),
            Option("decimals", 2, "digits to which the drawn keys are rounded", least=0),
            Option("box", 3.0, "the pictures show [-box, box]^2; not stated", positive=True),
            Option("draws", 100, "random sets of keys that are asked", medium=1000, paper=1000, least=1),
        ),
        _cook_figure_3,
    ),
)
