"""P1 Example III.3, figure 2 and appendix E: how many cells layers of ReLU units have.

The caption of figure 2 gives 7 x 7 = 49 as a maximum. A cell of the first layer on which k units are on has
an image of dimension min(k, 2), which three planes cut into at most 1, 4 or 7 pieces; at most three patterns
of one unit and four of two or more occur, so there are never more than 40 cells
(:func:`hardmax.bounds.mlp_bounds`). The network drawn has 34, in integers, and more is not possible
(docs/theorems-extremal.md, Theorem 11).
"""

from __future__ import annotations

from itertools import pairwise
from math import comb, e
from typing import Any

import numpy as np

from hardmax.bounds import mlp_bounds, zaslavsky
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.networks.blocks import FeedForward
from hardmax.networks.constructions import best_found_layers, best_found_mlp
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, failing, holding
from hardmax.papers.recipes import Option, Outcome, Settings, compared, measured, recipe, stated, tabulated
from hardmax.regions.api import count_cells, count_regions, enumerate_regions
from hardmax.regions.result import RegionSet

# (w_in, b_in) of two layers of three units, found by random search over integers
MANY_CELLS = (
    ([[123, 77], [-48, -17], [135, 297]], [16, -9, -70]),
    ([[19, 17, -67], [-31, -63, 325], [44, 392, -67]], [-52, 138, -379]),
)


@claim("tropical.ex_iii3_49", "Example III.3, figure 2", Verdict.FAILS).states(
    "Two layers of three ReLU units in the plane have a maximum of 49 linear regions.",
    hypotheses="d = 2, three units per layer",
    computation="a bound that knows the rank of every cell's map, and an integer network with 34 cells, "
    "whose regions are counted",
    correction="49 is an upper bound that is never reached: ranks alone allow at most 40 cells, so at most "
    "40 regions, and the maximum of both is 34 (theorems-extremal.md): a network with 34 cells, all of them "
    "regions, is stored (the one that is drawn has 34 cells and 29 regions).",
    proof="proofs.md#two-layers-of-three-units",
)
def _ex_iii3_49(effort: Effort) -> Finding:
    layers = [FeedForward(w, b, np.eye(3, dtype=int), [0, 0, 0]) for w, b in MANY_CELLS]
    cells = [int(count_cells(Network(tuple(layers[:k])), WholeSpace(2))) for k in (1, 2)]
    regions = count_regions(Network(tuple(layers)), WholeSpace(2)).n_regions
    by_pattern = [comb(3, k) * zaslavsky(3, min(k, 2)) for k in range(4)]
    most = sum(by_pattern) - 1  # seven of eight patterns occur; the one that is missed costs at least 1
    return failing(
        cells[0] == 7 and regions <= cells[1] <= most < 49,
        f"the first layer has {cells[0]} cells; on one with k units on, the second sees at most min(k, 2) "
        f"dimensions: no more than {most} cells in all, so no more regions; the best network found has "
        f"{cells[1]} cells and {regions} regions",
        {"first_layer": cells[0], "at_most": most, "found": cells[1], "regions": regions},
        Certificate("two_layers", {"n": 3, "d": 2}, {"at_most": most, "product": 49}),
    )


@claim("tropical.zaslavsky", "Definition III.2", Verdict.PROVED).states(
    "n hyperplanes in general position cut R^d into R(n, d) = sum_{j<=d} C(n, j) regions, about n^d / d! for "
    "n much larger than d.",
    hypotheses="general position; without it there are fewer",
    computation="sign vectors of tangents of a parabola, of random and of parallel hyperplanes, exactly",
    correction="It is a theorem, and R(n, d) is the maximum over all arrangements.",
    proof="proofs.md#hyperplanes-in-general-position",
)
def _zaslavsky(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    exact, below = [], True
    for d, n in ((1, 5), (2, 6), (3, 5)):
        found = _arrangement(rng.standard_normal((n, d)), rng.standard_normal(n))
        exact.append((n, d, found.n_cells, zaslavsky(n, d)))
        parallel = _arrangement(np.tile(rng.standard_normal(d), (n, 1)), rng.standard_normal(n))
        below &= parallel.n_cells == n + 1 <= zaslavsky(n, d)
    lines, cells = tangents(7)
    shares = [zaslavsky(n, 2) / (n**2 / 2) for n in (10, 100, 1000)]
    return holding(
        all(cells_ == most for _, _, cells_, most in exact) and below and shares[-1] < 1.01,
        ", ".join(f"{c} cells at (n, d) = ({n}, {d})" for n, d, c, _ in exact)
        + f", as stated; parallel ones have n + 1; R(n, 2) over n^2/2 is {shares[0]:.2f}, {shares[1]:.3f}, "
        f"{shares[2]:.4f} at n = 10, 100, 1000",
        {"cells": [each[2] for each in exact], "shares": shares},
        Certificate(
            "sign_vectors",
            {"hyperplanes": lines, "points": [cells.exact_witness(i) for i in range(cells.n_cells)]},
            {"cells": zaslavsky(7, 2), "maximum": zaslavsky(7, 2)},
        ),
    )


def _arrangement(normals: Any, offsets: Any) -> RegionSet:
    """The cells of an arrangement of hyperplanes."""
    layer = FeedForward(normals, offsets, np.ones((1, len(normals)), dtype=int), [0])
    return enumerate_regions(Network((layer,)), WholeSpace(len(normals[0])))


def tangents(n: int) -> tuple[list[list[int]], RegionSet]:
    """n tangents of a parabola, lines in general position, and their cells."""
    lines = [[-2 * t, 1, t * t] for t in range(n)]
    return lines, _arrangement([line[:2] for line in lines], [line[2] for line in lines])


@claim("tropical.zaslavsky_e_bound", "Appendix E", Verdict.UNSTATED).states(
    "n hyperplanes cut R^d into at most (e n / d)^d cells.",
    unstated="n >= d, that is d_ff >= d_model.",
    hypotheses="none, as stated",
    computation="the ratio for all pairs n >= d up to a size, and the pairs n < d up to 12",
    correction="For n < d there are at most 2^n cells, which may be more.",
    proof="proofs.md#hyperplanes-and-the-number-e",
)
def _zaslavsky_e_bound(effort: Effort) -> Finding:
    top = 40 if effort is Effort.QUICK else 200
    broken = [(n, d) for d in range(1, 13) for n in range(1, d) if zaslavsky(n, d) > (e * n / d) ** d]
    pairs = [(n, d) for d in range(1, 13) for n in range(d, top + 1)]
    worst = max(zaslavsky(n, d) / (e * n / d) ** d for n, d in pairs)
    bound = (e * 2 / 4) ** 4
    checked = [(n, d) for d in range(1, 13) for n in range(d, 41)]
    return earned(
        Verdict.UNSTATED,
        (2, 4) in broken and worst <= 1,
        f"{len(pairs)} pairs n >= d: R(n, d) is at most {worst:.3f} of (e n / d)^d; two hyperplanes in "
        f"dimension 4: {zaslavsky(2, 4)} cells > (2e/4)^4 = {bound:.4f}; it fails for {len(broken)} of the "
        f"{sum(range(12))} pairs n < d <= 12",
        {"pairs": len(pairs), "largest_ratio": worst, "broken": broken},
        Certificate("arrangement", {"n": 2, "d": 4, "largest": 40}, {"cells": 4, "pairs": len(checked)}),
    )


_WIDTHS = (2, 3, 3)


# As many cells as the best network known (hardmax.networks.constructions), all of them large
# enough to be seen.
_LARGE_CELLS: tuple[Any, ...] = (
    ([[2, 0], [-2, -6], [6, 9]], [-4, 12, -14]),
    ([[24, -2, -1], [-20, 4, 1], [-6, 2, 2]], [8, -14, -14]),
)

_OUTPUT = (np.eye(3), np.zeros(3))


@recipe(
    "tropical.fig2",
    "Two ReLU layers of three units: 7 cells, then at most 40, not 49",
    Option(
        "weights",
        "best",
        "the network drawn: the one with most cells that is known, or a Gaussian one; not stated",
        choices=("best", "gaussian"),
    ),
    Option("box", 0.0, "the pictures show [-box, box]^2; 0 for a square around all vertices", least=0),
    Option("draws", 50, "Gaussian networks that are counted", medium=500, paper=2000, least=1),
)
def _run_figure_2(settings: Settings) -> Outcome:
    from hardmax.plotting.blocks import draw_folding

    network = _drawn(settings)
    cells = enumerate_regions(network, WholeSpace(2), n_jobs=1)
    after = count_cells(network, WholeSpace(2), n_jobs=1).cells_by_depth[:2]
    random = np.array([_cells(_gaussian(settings, i)) for i in range(settings["draws"])])
    bounds = {bound.name: int(bound.value) for bound in mlp_bounds(_WIDTHS)}
    best = max(bounds["best_found"], *random.tolist(), *after)
    printed = bounds["product"]
    return Outcome(
        figures={"fig2": draw_folding(network, _box(settings, cells))},
        tables={
            "cells": {"after_layer": [1, 2], "cells": list(after), "paper": [7, printed]},
            "weights": _weight_table(network),
            "gaussian": {"draw": list(range(len(random))), "cells": random.tolist()},
        },
        comparisons=(
            compared("cells after layer 1", "7", str(after[0]), after[0] == 7, exactly=True),
            stated("most cells after layer 2", str(printed), "tropical.ex_iii3_49").judged(
                f"between {best} (found) and {bounds['rank_aware']} (bound)", _ex_iii3_49.check(Effort.QUICK)
            ),
            measured(
                "cells of the network drawn",
                str(printed),
                f"{cells.n_cells} cells, {cells.n_regions} regions",
            ),
            measured(
                f"cells with Gaussian weights, {len(random)} draws",
                "not stated",
                f"mean {random.mean():.1f}, {random.min()} to {random.max()}",
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


def _box(settings: Settings, cells: RegionSet) -> Box:
    """A square around all vertices, or the one that was asked for."""
    if settings["box"] > 0.0:
        return Box.cube(2, -settings["box"], settings["box"])
    low, high = cells.vertices.min(axis=0), cells.vertices.max(axis=0)
    centre, half = (low + high) / 2, 0.58 * float((high - low).max())
    return Box((centre - half).tolist(), (centre + half).tolist())


def _weight_table(network: Network) -> dict[str, list[Any]]:
    """The weights of both layers; a perceptron keeps those of the second as the output of the first."""
    first: Any = network.blocks[0]
    pairs = ((first.w_in.floats, first.b_in.floats), (first.w_out.floats, first.b_out.floats))
    return tabulated(
        "layer unit w0 w1 w2 bias",
        [
            (layer, i, *(weights.tolist() + [None])[:3], float(bias))
            for layer, (w, b) in enumerate(pairs, start=1)
            for i, (weights, bias) in enumerate(zip(w, b, strict=True))
        ],
    )


# Example III.3
# ----------------------------------------------------------------------------------------------------


@recipe(
    "tropical.exIII3",
    "Two ReLU layers of three units in the plane: 49 is no maximum",
    Option("draws", 200, "random networks that are counted", medium=2000, paper=20000, least=1),
)
def _run_example_iii3(settings: Settings) -> Outcome:
    from hardmax.plotting.regions import compare_depths

    widths = [2, 3, 3]
    bounds = mlp_bounds(widths)
    network, plane = best_found_mlp(widths), WholeSpace(2)
    count = count_cells(network, plane, n_jobs=1)
    regions = count_regions(network, plane, n_jobs=1)
    random = [_random_mlp_cells(settings, i) for i in range(settings["draws"])]
    values, times = np.unique(random, return_counts=True)
    return Outcome(
        figures={
            "exIII3": compare_depths(
                network, plane, blocks=[1, 2], box=Box([-0.35, -0.35], [1.5, 1.5]), colour="region"
            )
        },
        tables={
            "bounds": tabulated(
                "bound side cells formula", [(b.name, str(b.side), b.value, b.formula) for b in bounds]
            ),
            "random_networks": {"cells": values.tolist(), "networks": times.tolist()},
            "weights": tabulated(
                "layer weights bias",
                [
                    (number, " ".join(map(str, row)), bias)
                    for number, layer in enumerate(best_found_layers(widths), 1)
                    for row, bias in zip(*layer, strict=True)
                ],
            ),
        },
        comparisons=(
            stated("cells of layer 1", "7").compared(
                str(count.cells_by_depth[0]),
                count.cells_by_depth[0] == mlp_bounds(widths[:2]).upper.value == 7,
                exactly=True,
            ),
            stated(
                "most cells of both layers", "49, called the theoretical maximum", "tropical.ex_iii3_49"
            ).judged(
                f"at most {bounds['rank_aware'].value}; {count.n_cells} found",
                _ex_iii3_49.check(Effort.QUICK),
            ),
            measured(
                "linear regions of the best network found (identity output)", "49", str(regions.n_regions)
            ),
            measured(
                f"random Gaussian networks, {len(random)} draws",
                "not stated",
                f"mean {np.mean(random):.1f}, at most {max(random)}",
            ),
        ),
        notes=(
            "Cells on which the same map goes on are one region. The maximum is 34 (Theorem 11). "
            "The search (tests/scripts/mlp_search.py) tried twenty million networks, all four ways of "
            "orienting three lines.",
        ),
    )


def _random_mlp_cells(settings: Settings, i: int) -> int:
    rng = settings.rng("networks", i)
    widths = [2, 3, 3, 1]
    layers = [(rng.standard_normal((n, m)), rng.standard_normal(n)) for m, n in pairwise(widths)]
    return _cells(Network.mlp(layers))
