"""P1 figure 1 and examples III.3 and V.3: how many regions there can be, counted instead of estimated.

Figure 1 promises regions "strictly following" Theta(N^{dL}), which has no finite meaning; the network of
Theorem V.7 has exactly (2wN)^{dL}. Example III.3 multiplies two layers of 7 cells to a maximum of 49 that no
network reaches. Example V.3 compares one head with eight at the same number of parameters; its power of 512
is off by a factor of four.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.bounds import head_budget, mlp_bounds, region_bounds, vertex_maximum
from hardmax.bounds.large_integers import log10_of, readable
from hardmax.errors import InvalidInputError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.networks.blocks import FeedForward
from hardmax.networks.constructions.best_found import best_found_layers, best_found_mlp
from hardmax.networks.constructions.sawtooth import sawtooth_network
from hardmax.networks.network import Network
from hardmax.papers.recipes import Comparison, Option, Outcome, Recipe, Settings
from hardmax.regions.api import count_cells, count_regions, enumerate_regions

__all__ = ["RECIPES"]

_D = 2  # figure 1 and Example III.3 draw in the plane
_LARGEST_PANEL = 6000  # cells; larger panels show a corner


# Figure 1
# ----------------------------------------------------------------------------------------------------


def _cook_figure_1(settings: Settings) -> Outcome:
    from hardmax.plotting.counts import draw_explosion

    n, teeth, depths = settings["n_tokens"], settings["teeth"], range(1, settings["depth"] + 1)
    square = Box.cube(_D, 0, 1)
    networks = [_with_moved_fold(sawtooth_network(_D, n, teeth, depth)) for depth in depths]
    counts = [count_regions(network, square, n_jobs=1) for network in networks]
    cells, regions = [count.n_cells for count in counts], [count.n_regions for count in counts]
    unchanged = {
        depth: count_cells(sawtooth_network(_D, n, teeth, depth), square, n_jobs=1).n_cells
        for depth in depths
        if depth <= settings["unchanged_depth"]
    }
    promised = [n ** (_D * depth) for depth in depths]
    bounds = [
        region_bounds(n_tokens=n, heads=_D, d_model=_D, d_ff=2 * teeth * _D, depth=depth) for depth in depths
    ]
    exact = all(count.complete and count.exact for count in counts)
    boxes = [_corner(2 * teeth * n, depth) for depth in depths]
    found = [enumerate_regions(network, box, n_jobs=1) for network, box in zip(networks, boxes, strict=True)]
    titles = [
        f"$L = {depth}$: {count:,} regions"
        + ("" if part.n_cells == count else f"\n(a corner, {part.n_cells:,} of them)")
        for depth, count, part in zip(depths, cells, found, strict=True)
    ]
    return Outcome(
        figures={
            "fig1": draw_explosion(
                found,
                titles,
                boxes,
                {
                    "no network has more": [bound.upper.value for bound in bounds],
                    "this network, exactly": regions,
                    "$N^{dL}$": promised,
                },
            )
        },
        tables={
            "counts": {
                "depth": list(depths),
                "N^(dL)": promised,
                "paper_lower_bound": [bound["constructive"].printed[0].value for bound in bounds],
                "cells": cells,
                "regions": regions,
                "(2wN)^(dL)": [bound.lower.value for bound in bounds],
                "upper_bound": [bound.upper.value for bound in bounds],
                "cells_with_fold_on_the_border": [unchanged.get(depth) for depth in depths],
            }
        },
        comparisons=(
            *(
                Comparison(
                    f"regions at depth {depth}, d = 2, N = {n}, w = {teeth}",
                    f"Theta(N^(dL)); N^(dL) = {power}",
                    f"{count} (counted {'exactly' if exact else 'with floats'})",
                    f"{Fraction(count, power)} times N^(dL)",
                )
                for depth, power, count in zip(depths, promised, regions, strict=True)
            ),
            Comparison(
                "the count of Theorem V.7, (N^d w^d)^L",
                ", ".join(str(bound["constructive"].printed[0].value) for bound in bounds),
                ", ".join(map(str, regions)),
                "fails as an equality: a factor 2^(dL) is lost; holds as a lower bound"
                if all(count == bound.lower.value for count, bound in zip(regions, bounds, strict=True))
                else "the count is not (2wN)^(dL)",
            ),
        ),
        notes=(
            "The figure itself is not available; the network drawn is the one of Theorem V.7, which needs "
            "scores with biases.",
            "One ReLU unit per coordinate is linear on the square, with its fold on the border. Moving that "
            "fold away changes nothing on the square and spares the exact arithmetic; "
            f"depths up to {settings['unchanged_depth']} were also counted without moving it.",
        ),
    )


def _corner(pieces: int, depth: int) -> Box:
    """The square, or a corner of it that is cut along the grid and has few enough cells to be seen."""
    zoom = 0
    while zoom < depth - 1 and pieces ** (_D * (depth - zoom)) > _LARGEST_PANEL:
        zoom += 1
    return Box.cube(_D, 0, Fraction(1, pieces**zoom))


def _with_moved_fold(network: Network) -> Network:
    """The same map on the unit square, with the folds of units that are linear there moved away from it.

    The first unit of each coordinate is relu(z) with z = N y + 1/2 in [0, 1]; it becomes relu(z + 1) - 1.
    """
    blocks: list[Any] = []
    for block in network.blocks:
        if isinstance(block, FeedForward):
            w_out, b_in = _exact(block.w_out), _exact(block.b_in)
            b_out = _exact(block.b_out)
            linear = [unit for unit in range(len(b_in)) if b_in[unit] == Fraction(1, 2)]
            b_in[linear] += 1
            b_out = b_out - w_out[:, linear].sum(axis=1)
            block = FeedForward(_exact(block.w_in), b_in, w_out, b_out, skip=block.skip)
        blocks.append(block)
    return Network(tuple(blocks))


def _exact(array: Any) -> Any:
    """The entries of an exact array as fractions."""
    return np.vectorize(Fraction, otypes=[object])(
        array.floats if array.fractions is None else array.fractions
    )


# Example III.3
# ----------------------------------------------------------------------------------------------------


def _cook_example_iii3(settings: Settings) -> Outcome:
    from hardmax.plotting.regions import compare_depths

    widths = [_D, 3, 3]
    bounds = mlp_bounds(widths)
    network, plane = best_found_mlp(widths), WholeSpace(_D)
    count = count_cells(network, plane, n_jobs=1)
    regions = count_regions(network, plane, n_jobs=1)
    random = [_random_mlp_cells(settings, i) for i in range(settings["draws"])]
    values, times = np.unique(random, return_counts=True)
    layers = best_found_layers(widths)
    return Outcome(
        figures={
            "exIII3": compare_depths(
                network, plane, blocks=[1, 2], box=Box([-0.35, -0.35], [1.5, 1.5]), colour="region"
            )
        },
        tables={
            "bounds": {
                "bound": [bound.name for bound in bounds],
                "side": [str(bound.side) for bound in bounds],
                "cells": [bound.value for bound in bounds],
                "formula": [bound.formula for bound in bounds],
            },
            "random_networks": {"cells": values.tolist(), "networks": times.tolist()},
            "weights": {
                "layer": [number for number, (_, biases) in enumerate(layers, 1) for _ in biases],
                "weights": [" ".join(map(str, row)) for weights, _ in layers for row in weights],
                "bias": [bias for _, biases in layers for bias in biases],
            },
        },
        comparisons=(
            Comparison(
                "cells of layer 1",
                "7",
                str(count.cells_by_depth[0]),
                "holds, as a maximum"
                if count.cells_by_depth[0] == mlp_bounds(widths[:2]).upper.value == 7
                else "fails",
            ),
            Comparison(
                "most cells of both layers",
                "49, called the theoretical maximum",
                f"at most {bounds['rank_aware'].value}; {count.n_cells} found",
                "fails: a cell with k units on has an image of dimension at most k"
                if bounds["rank_aware"].value < bounds["product"].value
                else "holds",
            ),
            Comparison(
                "linear regions of the best network found (identity output)",
                "49",
                str(regions.n_regions),
                "cells on which the same map goes on are one region",
            ),
            Comparison(
                f"random Gaussian networks, {len(random)} draws",
                "not stated",
                f"mean {np.mean(random):.1f}, at most {max(random)}",
                "measurement only",
            ),
        ),
        notes=(
            "The true maximum lies between 34 and 40. The search (tests/scripts/mlp_search.py) tried twenty "
            "million networks, all four ways of orienting three lines.",
        ),
    )


def _random_mlp_cells(settings: Settings, i: int) -> int:
    rng = settings.rng("networks", i)
    widths = [_D, 3, 3, 1]
    layers = [(rng.standard_normal((n, m)), rng.standard_normal(n)) for m, n in pairwise(widths)]
    return int(count_cells(Network.mlp(layers), WholeSpace(_D), n_jobs=1))


# Example V.3
# ----------------------------------------------------------------------------------------------------


def _cook_example_v3(settings: Settings) -> Outcome:
    from hardmax.plotting.counts import draw_budget

    n, d, heads = settings["n_tokens"], settings["d_model"], settings["heads"]
    if d % heads:
        raise InvalidInputError(f"heads must divide d_model ({d}), but was {heads}.")
    biased = settings["score_bias"]
    every = head_budget(n, d, biased=biased)
    pair = head_budget(n, d, heads=[1, heads], biased=biased)
    small = _small_budget(settings)
    as_printed = (n, d, heads) == (512, 512, 8)
    best = every.best
    figure: Any = draw_budget(every).figure
    return Outcome(
        figures={"exV3": figure},
        tables={
            "budget": {
                "heads": list(every.heads),
                "d_head": list(every.d_head),
                "parameters": list(every.n_parameters),
                "most_cells": [readable(value) for value in every.vertices],
                "log10": [log10_of(value) for value in every.vertices],
                "N^H": [readable(n, H) for H in every.heads],
            },
            "counted": small,
        },
        comparisons=(
            Comparison(
                "parameters of one attention layer, 4 d^2",
                "about 1.05e6" if d == 512 else "4 d^2",
                ", ".join(map(str, sorted(set(pair.n_parameters)))),
                "holds" if set(pair.n_parameters) == {4 * d * d} else "fails",
            ),
            Comparison(
                "vertices with one head",
                f"at most {n}",
                str(pair.vertices[0]),
                "attained" if pair.vertices[0] == n else "holds, not attained",
            ),
            Comparison(
                f"vertices with {heads} heads, N^H",
                "1.1e21" if as_printed else "N^H",
                f"{readable(pair.vertices[1])} (N^H = {readable(n, heads)})",
                _judge_power(pair.vertices[1], n**heads, 1.1e21 if as_printed else None),
            ),
            Comparison(
                "the best cut of this budget",
                "more heads, more cells",
                f"H = {every.heads[best]}, width {every.d_head[best]}: {readable(every.vertices[best])}",
                "fails at width 1, where a head tells two keys apart"
                if every.vertices[-1] < every.vertices[best]
                else "holds",
            ),
            Comparison(
                "the same comparison small, counted exactly",
                "N^H while the width is at least 2",
                ", ".join(
                    f"H={H}: {c} of {m}"
                    for H, c, m in zip(small["heads"], small["counted"], small["maximum"], strict=True)
                ),
                "attained" if small["counted"] == small["maximum"] else "not attained",
            ),
        ),
        notes=(
            "Each head has coordinates of its own and keys on a parabola in them; that needs a width of 2.",
        ),
    )


def _judge_power(most: int, power: int, printed: float | None) -> str:
    attained = "attained" if most == power else f"the maximum is {readable(most)}"
    if printed is None or abs(power / printed - 1.0) < 0.05:  # the paper prints two digits
        return attained if most == power else f"fails: {attained}"
    return f"fails: {power / printed:.2f} times the printed number; the power itself is {attained}"


def _small_budget(settings: Settings) -> dict[str, list[int]]:
    """Four coordinates cut into one, two and four heads, each in its own block of coordinates."""
    n, d = settings["counted_tokens"], 4
    table: dict[str, list[int]] = {"heads": [], "d_head": [], "maximum": [], "counted": []}
    p = np.arange(n)
    for heads in (1, 2, 4):
        width = d // heads
        keys = np.zeros((heads, n, d), dtype=np.int64)
        for h in range(heads):
            keys[h, :, h * width] = p
            if width > 1:
                keys[h, :, h * width + 1] = -p * p
        table["heads"].append(heads)
        table["d_head"].append(width)
        table["maximum"].append(vertex_maximum(n, heads, d, d_head=width))
        table["counted"].append(minkowski_vertices(keys).count)
    return table


RECIPES = (
    Recipe(
        "tropical.fig1",
        "Regions of a transformer of depth 1, 2, 3: the network of Theorem V.7, counted exactly",
        (
            Option("n_tokens", 4, "keys per head (the paper: 4)", least=1),
            Option("teeth", 1, "teeth of the sawtooth, w; not stated", least=1),
            Option("depth", 3, "the deepest network (the paper: 3)", least=1),
            Option(
                "unchanged_depth",
                1,
                "up to this depth also count the network with folds on the border of the square (slow)",
                medium=2,
                paper=3,
                least=0,
            ),
        ),
        _cook_figure_1,
    ),
    Recipe(
        "tropical.exIII3",
        "Two ReLU layers of three units in the plane: 49 is no maximum",
        (Option("draws", 200, "random networks that are counted", medium=2000, paper=20000, least=1),),
        _cook_example_iii3,
    ),
    Recipe(
        "tropical.exV3",
        "One head against eight at the same number of parameters",
        (
            Option("n_tokens", 512, "sequence length (the paper: 512)", least=1),
            Option("d_model", 512, "dimension (the paper: 512)", least=1),
            Option("heads", 8, "heads compared with one (the paper: 8)", least=1),
            Option("score_bias", False, "whether queries carry a bias; the paper defines attention without"),
            Option("counted_tokens", 5, "sequence length of the small comparison that is counted", least=1),
        ),
        _cook_example_v3,
    ),
)
