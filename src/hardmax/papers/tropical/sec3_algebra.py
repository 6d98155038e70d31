"""P1 section III: tropical polynomials, log-lifting, what blocks are closed under; tables I and II.

Table I is :data:`NOTATION`, also the page ``docs/notation.md``: every symbol of the paper, what it means, and
what it is called in code. A name of code is written ``hm.region_bounds(n_tokens)`` for a parameter,
``hm.geometry.PowerDiagram.locate`` for an attribute; :func:`resolve` finds it or says that it is not there,
so that the table cannot go stale. Table II maps operations of networks to tropical algebra and to polyhedra.
Every row is computed on random integers, where equality means equality.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.errors import InvalidInputError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import FeedForward
from hardmax.networks.network import Network
from hardmax.papers.ledger import (
    Certificate,
    Effort,
    Finding,
    Verdict,
    claim,
    earned,
    failing,
    holding,
    network_record,
)
from hardmax.papers.recipes import Option, Outcome, Settings, compared, measured, recipe, tabulated
from hardmax.regions.api import count_cells, count_regions, enumerate_regions
from hardmax.tropical.layers import log_lifted_head, relu_layer
from hardmax.tropical.polynomials import TropicalPolynomial, common_refinement
from hardmax.tropical.semirings import oplus, otimes, tropical_matmul, tropical_sum

HALF: Any = Fraction(1, 2)


@claim("tropical.def_iii1", "Definition III.1", Verdict.UNSTATED).states(
    "A linear region of a network is a maximal connected open set on which it is affine.",
    unstated="Affine almost everywhere: values on walls, where keys tie and are averaged, are set aside.",
    hypotheses="a continuous piecewise linear network; the definition is used for tropical transformers, "
    "which have jumps",
    computation="a block with one affine map on both sides of a wall and another value on the wall",
    correction="Read literally, this block has two regions, which a set of measure zero separates; almost "
    "everywhere it has one. Regions may be non-convex, and there are never more than cells.",
    proof="proofs.md#definitions-of-section-iii",
)
def _def_iii1(effort: Effort) -> Finding:
    outputs = [[[0, 0], [2, 0]], [[0, 2], [0, 0]]]  # left of 0 y = (0, 2), right of it (2, 0), at 0 (1, 1)
    layer = FeedForward([[1, 0], [0, 1]], [-1, -1], [[1, 1]], [0])
    network = Network((Attention([[[-1], [1]]] * 2, None, outputs, skip=False), layer))
    regions = count_regions(network, Box([-4], [4]))
    values = [float(network([x])[0]) for x in (-1.0, 1.0, 0.0)]
    return earned(
        Verdict.UNSTATED,
        regions.n_regions == 1 and values[0] == values[1] != values[2],
        "two heads with keys -1, 1 that read y = (0, 2) left of 0, (2, 0) right of it and (1, 1) at 0, then "
        f"max(0, y_1 - 1) + max(0, y_2 - 1): {values[0]:g} on both sides of 0 and {values[2]:g} at 0; "
        f"{regions.n_cells} cells, {regions.n_regions} region almost everywhere",
        {"values": values, "regions": regions.n_regions},
        Certificate(
            "wall_value",
            {
                "outputs": [[[0], [2]], [[2], [0]]],
                "layer": network_record(Network((layer,)))[0],
            },
            {"beside": 1, "on the wall": 0},
        ),
    )


@claim("tropical.def_iii4", "Definition III.4", Verdict.PROVED).states(
    "Maximum and sum make R with minus infinity a semiring, with neutral elements minus infinity and 0; "
    "matrix products are formed with them.",
    hypotheses="none",
    computation="the laws at random integers and minus infinity; matrix products against a triple loop",
    proof="proofs.md#definitions-of-section-iii",
)
def _def_iii4(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    n = 500 if effort is Effort.QUICK else 50_000
    a, b, c = np.where(rng.random((3, n)) < 0.1, -np.inf, rng.integers(-99, 100, (3, n)).astype(float))
    laws = [
        oplus(a, b) == oplus(b, a),
        oplus(oplus(a, b), c) == oplus(a, oplus(b, c)),
        otimes(otimes(a, b), c) == otimes(a, otimes(b, c)),
        otimes(a, oplus(b, c)) == oplus(otimes(a, b), otimes(a, c)),
        oplus(a, -np.inf) == a,
        otimes(a, 0.0) == a,
    ]
    x, y = rng.integers(-9, 10, (2, 4, 4)).astype(float)
    slow = [[max(x[i, k] + y[k, j] for k in range(4)) for j in range(4)] for i in range(4)]
    agree = all(bool(np.all(law)) for law in laws) and bool((tropical_matmul(x, y) == np.array(slow)).all())
    return holding(
        agree,
        f"{len(laws)} laws at {n} triples, minus infinity among them, and a matrix product: {agree}",
        {"triples": n},
    )


@claim("tropical.def_iii6", "Definition III.6", Verdict.PROVED).states(
    "Tropical rational functions are differences of convex piecewise linear functions, and need not be "
    "convex.",
    hypotheses="none",
    computation="quotients of random integer polynomials at points and midpoints, exactly",
    proof="proofs.md#definitions-of-section-iii",
)
def _def_iii6(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    tried = 60 if effort is Effort.QUICK else 1000
    agree, bent, convex = True, 0, True
    for _ in range(tried):
        p, q, x, y = _polynomial(rng), _polynomial(rng), _point(rng), _point(rng)
        middle = (x + y) / 2
        agree &= all((p / q).exact_value(z)[0] == p.exact_value(z) - q.exact_value(z) for z in (x, y, middle))
        convex &= 2 * p.exact_value(middle) <= p.exact_value(x) + p.exact_value(y)
        values = [(p / q).exact_value(z)[0] for z in (x, middle, y)]
        bent += 2 * values[1] > values[0] + values[2]
    return holding(
        agree and convex and bent > 0,
        f"{tried} quotients: the difference of two convex functions each time: {agree and convex}; above a "
        f"chord on {bent} segments",
        {"tried": tried, "not_convex": bent},
    )


@claim("tropical.def_iii8", "Definition III.8", Verdict.PROVED).states(
    "The common refinement of two fans, all intersections of their cones, is a fan.",
    hypotheses="fans of linear scores",
    computation="cells of the refinement of two polynomials with four integer exponents in the plane, five "
    "draws, counted against the cells of their product; the cells of both are cones",
    correction="For polynomials with coefficients the same holds of polyhedral complexes; only intersections "
    "with interior are counted.",
    proof="proofs.md#definitions-of-section-iii",
)
def _def_iii8(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    checked, agree = 0, True
    for _ in range(5 if effort is Effort.QUICK else 50):
        one, two = (TropicalPolynomial(rng.integers(-9, 10, (4, 2))) for _ in range(2))
        both = common_refinement(one, two)
        agree &= both.n_cells == (one * two).cells().n_cells and one.cells().is_fan and two.cells().is_fan
        checked += both.n_cells
    return holding(
        agree and checked > 0,
        f"{checked} cells of refinements, as many as the product of the polynomials has: {agree}",
        {"cells": checked},
    )


@claim("tropical.def_iii9", "Definition III.9", Verdict.PROVED).states(
    "tau log(exp(a/tau) + exp(b/tau)) tends to max(a, b) as tau tends to 0.",
    hypotheses="none",
    computation="the distance from the maximum over tau log 2 at random numbers",
    correction="With a rate: the distance is between 0 and tau log 2, for N terms tau log N.",
    proof="proofs.md#definitions-of-section-iii",
)
def _def_iii9(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 2000 if effort is Effort.QUICK else 100_000))
    ratios = [
        (oplus(a, b, temperature=t) - np.maximum(a, b)) / (t * np.log(2)) for t in (1.0, 0.1, 0.01, 1e-4)
    ]
    low, high = min(float(r.min()) for r in ratios), max(float(r.max()) for r in ratios)
    return holding(
        low >= 0.0 and high <= 1 + 1e-9,
        f"{len(a)} pairs, tau from 1 to 0.0001: between 0 and {high:.3f} times tau log 2",
        {"largest_ratio": high},
    )


@claim("tropical.rational_map", "Section III-D, after Remark III.12", Verdict.PROVED).states(
    "In the log domain, single-head attention tends to a structured tropical rational map: all channels "
    "share one denominator.",
    hypotheses="log-lifted values v = exp(w / tau), as Definition III.10 introduces them",
    computation="tau log z of random heads with five integer keys and values from -9 to 9, two query "
    "dimensions and three channels, against the rational map",
    correction="Without log-lifting the limit is 0 in the log domain (tropical.rem_iii11a).",
    proof="temperature.md#log-lifted-values",
)
def _rational_map(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    temperatures, tried = (10.0, 1.0, 0.1, 1e-3), 20 if effort is Effort.QUICK else 500
    worst = dict.fromkeys(temperatures, 0.0)
    for tau, _ in product(temperatures, range(tried)):
        keys, lifted = rng.integers(-9, 10, (5, 2)), rng.integers(-9, 10, (5, 3))
        head = log_lifted_head(keys, lifted)
        q = _point(rng)
        scores = keys @ q.astype(np.float64)
        tropical = np.array([float(x) for x in head.exact_value(q)])
        soft = [
            float(tropical_sum(scores + lifted[:, c], temperature=tau))
            - float(tropical_sum(scores, temperature=tau))
            for c in range(3)
        ]
        worst[tau] = max(worst[tau], float(np.abs(np.array(soft) - tropical).max()) / (tau * np.log(5)))
    shares = ", ".join(f"{ratio:.3f} ({tau:g})" for tau, ratio in worst.items())
    return holding(
        max(worst.values()) <= 1 + 1e-6,
        f"{tried} heads at each temperature: distance from the rational map over tau log N at most {shares}, "
        "the temperature in brackets",
        {"largest_ratio": max(worst.values())},
    )


@claim("tropical.newton_characterises", "Definition III.5", Verdict.UNSTATED).states(
    "The Newton polytope determines the linear regions of a tropical polynomial completely.",
    unstated="All coefficients are equal, as in attention without log-lifting; the paragraph after the "
    "definition itself says: the Newton polytope and the coefficients.",
    hypotheses="a polynomial max(c_j + <a_j, x>) with real coefficients c_j",
    computation="regions of max(0, 5+x, 2x) and of max(0, -5+x, 2x): one Newton polytope for both; regions "
    "and vertices for equal coefficients",
    correction="Regions are the upper vertices of the lifted points (exponent, coefficient).",
    proof="tropical-polynomials.md#the-newton-polytope-alone-does-not-determine-the-regions",
)
def _newton_characterises(effort: Effort) -> Finding:
    coefficients = ([0, 5, 0], [0, -5, 0], [0, 0, 0])
    high, low, equal = (TropicalPolynomial([[0], [1], [2]], each) for each in coefficients)
    counts = [p.cells().n_cells for p in (high, low, equal)]
    same = high.newton_polytope() == low.newton_polytope()
    vertices = len(equal.newton_polytope().exact_vertices())
    scores = [[[exponent, c] for exponent, c in enumerate(each)] for each in coefficients]
    middle = {1: [HALF, 0, HALF]}
    return earned(
        Verdict.UNSTATED,
        same and counts[0] != counts[1] and counts[2] == vertices,
        f"max(0, 5+x, 2x) has {counts[0]} regions, max(0, -5+x, 2x) has {counts[1]}; "
        f"same Newton polytope: {same}; with equal coefficients {counts[2]} regions, {vertices} vertices",
        {"regions": counts, "same_newton_polytope": same},
        Certificate(
            "diagrams",
            {
                "diagrams": [
                    {"scores": scores[0], "winners": {0: [-6], 1: [0], 2: [6]}, "losers": {}},
                    {"scores": scores[1], "winners": {0: [-1], 2: [1]}, "losers": middle},
                    {"scores": scores[2], "winners": {0: [-1], 2: [1]}, "losers": middle},
                ]
            },
            {"winning": [[0, 1, 2], [0, 2], [0, 2]]},
        ),
    )


@claim("tropical.def_iii7", "Definition III.7", Verdict.FAILS).states(
    "The sets on which the terms of a tropical polynomial with coefficients win are cones and form a fan.",
    hypotheses="one variable, three terms with different coefficients",
    computation="the cells of max(0, -1+x, -3+2x)",
    correction="They are polyhedra and form a polyhedral complex; cones if all coefficients are equal.",
    proof="tropical-polynomials.md#cells-are-cones-only-for-equal-coefficients",
)
def _def_iii7(effort: Effort) -> Finding:
    p = TropicalPolynomial([[0], [1], [2]], [0, -1, -3])
    cells = p.cells()
    equal = TropicalPolynomial([[0], [1], [2]]).cells()
    return failing(
        cells.n_cells == 3 and not cells.is_fan and equal.is_fan,
        "max(0, -1+x, -3+2x): the term -1+x wins on the bounded interval [1, 2], which is no cone; "
        f"a fan: {cells.is_fan}, with equal coefficients: {equal.is_fan}",
        {"is_fan": cells.is_fan, "is_fan_for_equal_coefficients": equal.is_fan},
        Certificate(
            "routing",
            {"scores": [[0, 0], [1, -1], [2, -3]], "points": [[0], [Fraction(3, 2)], [3]]},
            {"winners": [[0], [1], [2]]},
        ),
    )


@claim("tropical.rem_iii11a", "Remark III.11", Verdict.PROVED).states(
    "With a fixed matrix of positive values, tau log z tends to 0: in the log domain the values are lost.",
    hypotheses="values positive and independent of tau",
    computation="tau log z at random scores and values, against its bound tau max|log v|",
    proof="proofs.md#fixed-values-vanish-in-the-log-domain",
)
def _rem_iii11a(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    worst, smallest = 0.0, []
    for _ in range(200 if effort is Effort.QUICK else 5000):
        scores, logs = rng.standard_normal(6), rng.standard_normal(6)
        for temperature in (1.0, 0.1, 0.01):
            weights = np.exp((scores - scores.max()) / temperature)
            value = temperature * abs(np.log(weights @ np.exp(logs) / weights.sum()))
            worst = max(worst, value / (temperature * np.abs(logs).max()))
            if temperature == 0.01:
                smallest.append(value)
    return holding(
        worst <= 1 + 1e-12,
        f"|tau log z| is at most {worst:.3f} of its bound tau max|log v|; at tau = 0.01 at most "
        f"{max(smallest):.4f}",
        {"worst_ratio": worst, "largest_at_0.01": max(smallest)},
    )


@claim("tropical.loglift_same_walls", "Remark III.11", Verdict.FAILS).states(
    "Log-lifting keeps the routing walls: the partition does not depend on the values.",
    hypotheses="one query dimension, two keys",
    computation="walls of the log-lifted head with keys -1, 1 and log-values 0, 2, and its routing walls",
    correction="The walls of the numerators depend on the values; the routing partition is that of the "
    "denominator alone. They agree for all keys only if the log-values of a channel are equal.",
    proof="tropical-polynomials.md#log-lifting-does-not-preserve-the-walls",
)
def _loglift_same_walls(effort: Effort) -> Finding:
    head = log_lifted_head([[-1], [1]], [0, 2])
    walls = _walls(head)
    routing = _walls(head.denominator)
    points: list[Any] = [[-2], [-1], [-HALF]]
    return failing(
        walls != routing and [head.exact_value(q)[0] for q in points] == [0, 0, 1],
        f"keys -1, 1 with log-values 0, 2: walls at {walls}, routing walls at {routing}; at -1/2 key 0 wins, "
        "whose log-value is 0, and the head gives 1",
        {"walls": walls, "routing_walls": routing},
        Certificate(
            "log_lift",
            {"keys": [[-1], [1]], "log_values": [0, 2], "points": points},
            {"values": [0, 0, 1], "winners": [[0], [0], [0]]},
        ),
    )


@claim("tropical.rem_iii12", "Remark III.12", Verdict.UNSTATED).states(
    "The linear regions of the log-lifted head are the cells of the common refinement of the "
    "fans of numerators and denominator.",
    unstated="Different keys have different log-values, in at least one channel.",
    hypotheses="different keys; log-values as in Definition III.10",
    computation="cells of the refinement and linear regions of the map for equal log-values, and for random "
    "heads on the line with one channel, four integer keys and log-values that differ",
    correction="If log-values agree, cells may share their affine map: the cells then bound the number of "
    "linear regions from above.",
    proof="tropical-polynomials.md#log-lifting-does-not-preserve-the-walls",
)
def _rem_iii12(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    constant = _refined([-1, 1], [3, 3])
    apart = [
        _refined(*(rng.choice(np.arange(-9, 10), 4, replace=False).tolist() for _ in range(2)))
        for _ in range(40 if effort is Effort.QUICK else 400)
    ]
    keys, values = [-1, 0, 2], [1, 3, 0]
    shown = _refined(keys, values)
    return earned(
        Verdict.UNSTATED,
        constant == (2, 1) and all(cells == regions for cells, regions in [*apart, shown]),
        f"keys -1, 1 with equal log-values: {constant[0]} cells in the refinement, {constant[1]} linear "
        f"region (the map is constant); {len(apart)} heads with different log-values: "
        f"{sum(c for c, _ in apart)} cells, {sum(r for _, r in apart)} regions, as many each time",
        {"constant": list(constant), "apart": [list(each) for each in apart]},
        Certificate(
            "refinement_line",
            {"keys": keys, "equal": [3, 3, 3], "apart": values},
            {"equal": list(_refined(keys, [3, 3, 3])), "apart": list(shown)},
        ),
    )


def _refined(keys: list[int], log_values: list[int]) -> tuple[int, int]:
    """Cells of the refinement of a log-lifted head on the line, and linear regions: places at which the
    slope changes, looked for between all crossings of two scores."""
    head = log_lifted_head([[k] for k in keys], log_values)
    crossings = {
        Fraction(b - d, c - a)
        for given in (log_values, [0] * len(keys))
        for (a, b), (c, d) in combinations(zip(keys, given, strict=True), 2)
    }
    ends = sorted(crossings)
    between: list[Any] = [ends[0] - 1, *((s + t) / 2 for s, t in pairwise(ends)), ends[-1] + 1]
    slopes = [head.affine_at([t])[0].item() for t in between]
    return head.common_refinement().n_cells, 1 + sum(a != b for a, b in pairwise(slopes))


@claim("tropical.def_iii13", "Definition III.13", Verdict.PROVED).states(
    "The routing partition of several heads is the common refinement of their fans, which is "
    "the normal fan of the Minkowski sum of their Newton polytopes.",
    hypotheses="linear scores; routing cells with interior",
    computation="refinement, Minkowski sum and Newton polytope of the product for random integer keys",
    correction="With affine scores the polytopes are lifted and only upper vertices count; values and the "
    "output matrix can make cells indistinguishable in the output.",
    proof="proofs.md#several-heads-are-a-minkowski-sum",
)
def _def_iii13(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    checked, agree = 0, True
    for d in (2, 3):
        for _ in range(5 if effort is Effort.QUICK else 40):
            keys = rng.integers(-9, 10, (3, 5, d))
            heads = [TropicalPolynomial(k) for k in keys]
            cells = common_refinement(*heads).n_cells
            product = heads[0] * heads[1] * heads[2]
            sums = heads[0].newton_polytope() + heads[1].newton_polytope() + heads[2].newton_polytope()
            agree &= cells == minkowski_vertices(list(keys)).count
            agree &= product.newton_polytope() == sums and len(sums.exact_vertices()) == cells
            checked += 1
    return holding(
        agree,
        f"{checked} triples of heads with integer keys: cells of the common refinement = vertices of the "
        f"Minkowski sum = vertices of the Newton polytope of the product: {agree}",
        {"instances": checked},
    )


@claim("tropical.ffn_is_trop_poly", "Section III-E", Verdict.FAILS).states(
    "A ReLU layer acts as a tropical polynomial.",
    hypotheses="output weights of both signs",
    computation="the paper's own sawtooth (Lemma F.2, one tooth) at 0, 1/2 and 1",
    correction="It is a tropical rational map, a difference of two convex functions; a polynomial if no "
    "output weight is negative.",
    proof="tropical-polynomials.md#a-feed-forward-layer-is-rational-not-polynomial",
)
def _ffn_is_trop_poly(effort: Effort) -> Finding:
    tooth = relu_layer([[1], [1]], [0, -HALF], [[2, -4]])
    points: list[Any] = [[0], [HALF], [1]]
    values = [tooth.exact_value(q)[0] for q in points]
    layer = FeedForward([[1], [1]], [0, -HALF], [[2, -4]], [0])
    return failing(
        values[1] > (values[0] + values[2]) / 2,
        f"the sawtooth of Lemma F.2 at 0, 1/2, 1 is {', '.join(map(str, values))}: above its chord, so not "
        "convex, while every tropical polynomial is convex",
        {"values": values},
        Certificate("relu_layer", {"network": Network((layer,)), "points": points}, {"values": [0, 1, 0]}),
    )


@claim("tropical.cpwl_closure", "Section III-E", Verdict.FAILS).states(
    "Transformer blocks at zero temperature keep functions continuous and piecewise linear.",
    hypotheses="one dimension, one head with two keys",
    computation="the affine maps of x + attention on both sides of its wall",
    correction="Piecewise affine maps on finite polyhedral partitions, with jumps allowed, are closed under "
    "transformer blocks.",
)
def _cpwl_closure(effort: Effort) -> Finding:
    network = Network((Attention([[[-1], [1]]], None, [[[-1], [1]]]),))
    regions = enumerate_regions(network, Box([-4], [4]))
    left, right = (float(value) for value in regions.offset[:, 0])
    return failing(
        regions.n_cells == 2 and left != right,
        f"keys and values -1, 1 with a residual: x{left:+g} left of 0, x{right:+g} right of it, "
        f"a jump by {right - left:g}",
        {"jump": right - left},
        Certificate(
            "network_line",
            {"network": network, "interval": [-4, 4]},
            {"cells": 2, "regions": 2, "jumps": 1},
        ),
    )


@claim("tropical.piecewise_affine_closure", "Section III-E, corrected", Verdict.PROVED).states(
    "Maps that are affine on the cells of a finite polyhedral partition are closed under "
    "residuals, zero-temperature attention with fixed keys, ReLU layers and composition.",
    own=True,
    hypotheses="keys and values fixed; jumps allowed",
    computation="every cell of random transformers: one affine map, which agrees with the network",
    proof="proofs.md#what-blocks-are-closed-under",
)
def _piecewise_affine_closure(effort: Effort) -> Finding:
    checked, passed = 0, True
    for seed in range(2 if effort is Effort.QUICK else 12):
        for skip in (False, True):
            network = Network.random(2, n_tokens=4, heads=2, depth=2, d_ff=4, rng=seed, ffn_skip=skip)
            cells = enumerate_regions(network, Box.cube(2, -4, 4))
            passed &= cells.complete and cells.verify(n_points=2000).ok
            checked += cells.n_cells
    return holding(
        passed,
        f"{checked} cells of random two-layer transformers, each a polygon with one affine map that agrees "
        f"with the network: {passed}",
        {"cells": checked},
    )


def _walls(thing: Any) -> list[float]:
    """The walls of something with one variable."""
    walls = thing.hypersurface()
    return sorted({float(walls.vertices(i)[0, 0]) for i in range(walls.n_walls)})


@dataclass(frozen=True)
class _Row:
    """What a check found: how many of how many cases agree, and whether the row is true of all."""

    agreeing: int
    cases: int
    measured: str
    holds: bool


@recipe("tropical.table1", "The symbols of the paper and their names in code")
def _run_table_1(settings: Settings) -> Outcome:
    names = [name for row in NOTATION for name in row.code]
    for name in names:
        resolve(name)
    return Outcome(
        figures={},
        tables={
            "notation": tabulated(
                "group symbol meaning code remark",
                [(row.group, row.symbol, row.meaning, "; ".join(row.code), row.remark) for row in NOTATION],
            )
        },
        comparisons=(
            measured(
                "symbols with a name in code",
                f"{len(NOTATION)} rows",
                f"{sum(bool(row.code) for row in NOTATION)} rows, {len(set(names))} names, all found",
            ),
        ),
        notes=(
            "The same table is the page docs/notation.md. The refinement operator has no name: it is inside "
            "the engines.",
        ),
    )


@recipe(
    "tropical.table2",
    "The dictionary of operations, each row a check",
    Option("draws", 60, "random cases per row", medium=500, paper=5000, least=1),
)
def _run_table_2(settings: Settings) -> Outcome:
    found = [(concept, statement, check(settings)) for concept, statement, check in _ROWS]
    comparisons = tuple(
        compared(f"{concept}: {statement}", "yes", row.measured, row.holds, claim=_CLAIM.get(concept, ""))
        for concept, statement, row in found
    )
    rows = [
        (concept, statement, row.agreeing, row.cases, row.measured, comparison.verdict)
        for (concept, statement, row), comparison in zip(found, comparisons, strict=True)
    ]
    return Outcome(
        figures={},
        tables={"checks": tabulated("concept claim agreeing cases measured verdict", rows)},
        comparisons=comparisons,
        notes=(
            "Residual: the translation differs between cells, so the map may jump. Heads: the routing is "
            "refined; the output map may merge cells.",
        ),
    )


# The rows of table II
# ----------------------------------------------------------------------------------------------------


def _addition(settings: Settings) -> _Row:
    """Soft maximum to maximum at rate tau log 2; Newton polytope of a sum is the hull of the union."""
    rng, cases = settings.rng("addition"), settings["draws"]
    a, b = rng.normal(size=(2, cases))
    worst = 0.0
    for temperature in (1.0, 0.1, 0.01):
        gap = (oplus(a, b, temperature=temperature) - np.maximum(a, b)) / (temperature * np.log(2.0))
        worst = max(worst, float(gap.max()) if gap.min() >= 0.0 else np.inf)
    hulls = 0
    for _ in range(cases):
        p, q = _polynomial(rng), _polynomial(rng)
        hull = np.maximum(_support(p.exponents), _support(q.exponents))
        hulls += np.array_equal(_support((p + q).newton_polytope().vertices), hull)
    fits = worst <= 1.0 + 1e-9 and bool((oplus(a, b) == np.maximum(a, b)).all())
    words = f"gap at most {worst:.3f} tau log 2; hull of the union in {hulls} of {cases}"
    return _Row(hulls, cases, words, hulls == cases and fits)


def _multiplication(settings: Settings) -> _Row:
    """A product of polynomials is the sum of functions, and the Minkowski sum of polytopes."""
    rng, cases = settings.rng("multiplication"), settings["draws"]
    agreeing = 0
    for _ in range(cases):
        p, q = _polynomial(rng), _polynomial(rng)
        x = _point(rng)
        product = p * q
        values = product.exact_value(x) == otimes(float(p.exact_value(x)), float(q.exact_value(x)))
        total = _support(p.exponents) + _support(q.exponents)
        agreeing += values and np.array_equal(_support(product.newton_polytope().vertices), total)
    words = f"values and Minkowski sum in {agreeing} of {cases}"
    return _Row(agreeing, cases, words, agreeing == cases)


def _division(settings: Settings) -> _Row:
    """A quotient is the difference of two convex functions."""
    rng, cases = settings.rng("division"), settings["draws"]
    agreeing = bent = 0
    for _ in range(cases):
        p, q = _polynomial(rng), _polynomial(rng)
        x, y = _point(rng), _point(rng)
        middle = (x + y) / 2
        quotient = p / q
        agreeing += all(
            quotient.exact_value(z)[0] == p.exact_value(z) - q.exact_value(z) for z in (x, y, middle)
        )
        bent += 2 * quotient.exact_value(middle)[0] > quotient.exact_value(x)[0] + quotient.exact_value(y)[0]
    words = f"p - q in {agreeing} of {cases}; not convex on {bent} of {cases} segments"
    return _Row(agreeing, cases, words, agreeing == cases)


def _residual(settings: Settings) -> _Row:
    """x + layer(x): a translation on each cell for attention; x shifts all exponents by one."""
    rng, cases = settings.rng("residual"), settings["draws"]
    translations = shifts = 0
    for _ in range(cases):
        keys, values = rng.integers(-9, 10, (2, 1, 5, 2))
        linear, offset = Network((Attention(keys, None, values),)).affine_at(rng.normal(size=2))
        translations += bool((linear == np.eye(2)).all()) and offset.tolist() in values[0].tolist()
        p = _polynomial(rng)
        shifted = TropicalPolynomial([[1, 0]], [0]) * p
        moved = _support(p.exponents) + _DIRECTIONS[:, 0]
        shifts += np.array_equal(_support(shifted.newton_polytope().vertices), moved)
    words = f"translation by a value in {translations} of {cases}; polytope shifted in {shifts} of {cases}"
    return _Row(min(translations, shifts), cases, words, translations == shifts == cases)


def _denominator(settings: Settings) -> _Row:
    """tau log of the softmax denominator tends to a tropical polynomial, which is convex."""
    rng, cases = settings.rng("denominator"), settings["draws"]
    n, worst, convex = 6, 0.0, 0
    for _ in range(cases):
        keys = rng.integers(-9, 10, (n, 2))
        p = TropicalPolynomial(keys, [0] * n)
        x, y = _point(rng), _point(rng)
        scores = keys @ x.astype(np.float64)
        for temperature in (1.0, 0.1):
            gap = float(tropical_sum(scores, temperature=temperature)) - float(p.exact_value(x))
            worst = max(worst, gap / (temperature * np.log(n)))
        middle = (x + y) / 2
        convex += 2 * p.exact_value(middle) <= p.exact_value(x) + p.exact_value(y)
    words = f"gap at most {worst:.3f} tau log N; convex on {convex} of {cases} segments"
    return _Row(convex, cases, words, convex == cases and worst <= 1.0 + 1e-9)


def _concatenation(settings: Settings) -> _Row:
    """Routing cells of several heads: the common refinement, counted by vertices of the Minkowski sum."""
    rng, cases = settings.rng("heads"), min(settings["draws"], 60)
    agreeing = merged = 0
    for _ in range(cases):
        keys, values = rng.integers(-9, 10, (2, 2, 4, 2))
        polynomials = [TropicalPolynomial(head, [0] * len(head)) for head in keys]
        refinement = common_refinement(*polynomials).n_cells
        vertices = minkowski_vertices(keys).count
        network = Network((Attention(keys, None, values, skip=False),))
        cells = count_cells(network, WholeSpace(2), n_jobs=1).n_cells
        agreeing += refinement == vertices == cells
        flat = Network((Attention(keys, None, values * np.array([[[0, 0]], [[1, 1]]]), skip=False),))
        merged += count_regions(flat, WholeSpace(2), n_jobs=1).n_regions < cells
    return _Row(
        agreeing,
        cases,
        f"refinement = vertices = cells in {agreeing} of {cases}; fewer regions than cells in {merged} of "
        f"{cases} when W_O drops a head",
        agreeing == cases,
    )


def _polynomial(rng: np.random.Generator) -> TropicalPolynomial:
    """Five terms in two variables, small integers."""
    return TropicalPolynomial(rng.integers(-4, 5, (5, 2)), rng.integers(-9, 10, 5))


def _point(rng: np.random.Generator) -> NDArray[np.object_]:
    """A point in eighths, which floats hold exactly too."""
    return np.array([Fraction(int(numerator), 8) for numerator in rng.integers(-80, 81, 2)], dtype=object)


def _support(points: NDArray[Any]) -> NDArray[np.float64]:
    """The support function of the hull of points: two polytopes are equal when it is.

    Whole numbers, and more directions than polytopes of this size have edges.
    """
    return np.asarray((_DIRECTIONS @ np.asarray(points, dtype=np.float64).T).max(axis=1))


_DIRECTIONS = np.array([(x, y) for x in range(-9, 10) for y in range(-9, 10)], dtype=np.float64)

_ROWS: tuple[tuple[str, str, Callable[[Settings], _Row]], ...] = (
    ("addition", "log-sum-exp becomes max; hull of both polytopes", _addition),
    ("multiplication", "addition becomes tropical product; Minkowski sum", _multiplication),
    ("division", "subtraction becomes tropical division; difference of convex functions", _division),
    ("residual", "x + layer(x) is a tropical product; translation and shift of degrees", _residual),
    ("attention denominator", "softmax denominator becomes a tropical polynomial; convex", _denominator),
    ("MHSA concatenation", "tropical product of heads; common refinement of fans", _concatenation),
)

_CLAIM = {"MHSA concatenation": "tropical.def_iii13"}


@dataclass(frozen=True)
class Symbol:
    """A symbol of the paper; ``code`` may hold several names, and none where there is no counterpart."""

    group: str
    symbol: str
    meaning: str
    code: tuple[str, ...] = ()
    remark: str = ""


def _symbols(page: str) -> Iterator[Symbol]:
    """The rows of table I: groups at the margin, symbols below, lines that go on further in."""
    group = ""
    for line in page.replace("\n        ", " ").strip().splitlines():
        if line.startswith(" "):
            symbol, meaning, code, remark = (*line.strip().split(" | "), "")[:4]
            yield Symbol(group, symbol, meaning, tuple(filter(None, code.split("; "))), remark)
        else:
            group = line


NOTATION = tuple(
    _symbols(r"""
Sizes
    $N$ | tokens, which are keys and sites | hm.region_bounds(n_tokens)
    $d_{\mathrm{model}}$ | dimension of a token | hm.region_bounds(d_model)
    $d_k, d_v$ | width of a head | hm.region_bounds(d_head) | 1 leaves two keys that can win
    $d$ | dimension in geometry | hm.vertex_maximum(d); hm.geometry.PowerDiagram.d
    $H$ | heads | hm.region_bounds(heads)
    $d_{\mathrm{ff}}, n$ | ReLU units, hyperplanes | hm.region_bounds(d_ff); hm.bounds.zaslavsky(n)
    $L$ | blocks | hm.region_bounds(depth)
    $\mathcal{T}$ | the network | hm.Network; hm.Network.random
    $\mathcal{N}(\mathcal{T})$ | number of linear regions | hm.count_regions;
        hm.regions.RegionCount.n_regions; hm.regions.CellCount.n_cells | cells are what the bounds count;
        regions are cells glued together
    $V_{\mathrm{single}}, V_{\mathrm{multi}}$ | vertices | hm.vertex_maximum;
        hm.geometry.MinkowskiVertices.count
    $\Theta, \Omega, O$ | growth | hm.bounds.RegionBounds | each bound carries its exponent of N
Inputs and projections
    $X$ | the other tokens | hm.Attention.from_weights(context) | held fixed; only the query varies
    $x, q$ | the query | hm.Network.signature(x)
    $W_Q, W_K, W_V, W_O$ | projections | hm.Attention.from_weights(W_Q) | rows are outputs
    $k_j, v_j$ | keys and values | hm.attention_diagram(keys); hm.Attention.outputs
    $\tilde k_j, a_j = W_Q^\top k_j$ | key pulled back to the input | hm.Attention.scores;
        hm.attention_diagram(query_map)
    $Z(q; \tau)$ | output of a head | hm.Network.__call__(temperature) | 0 is hardmax
Temperature
    $\tau$ | temperature | hm.tropical.oplus(temperature); hm.stability_bounds(temperature);
        hm.temperature.standard_temperature | a standard softmax has $\tau = \sqrt{d_k}$ on raw scores, not
        $1/\sqrt{d_k}$
    $s_j, S_l$ | score of a key | hm.check_stability(scores)
    $P^{(\tau)}, P^{(0)}$ | log-sum-exp and maximum | hm.tropical.tropical_sum
    $\tilde v_{j,c}$ | log-lifted value | hm.tropical.log_lifted_head
    $p_j$ | probability of a key | hm.temperature.StabilityReport.top_probability | the largest of them
    $\delta, \mathcal{R}_i^\delta$ | margin | hm.stability_bounds(margin);
        hm.temperature.StabilityReport.margin
    $\nabla^2 P^{(\tau)}$ | Hessian | hm.temperature.StabilityBounds.hessian | $N$ in place of $N - 1$
Tropical geometry
    $\oplus, \otimes$ | maximum and sum | hm.tropical.oplus; hm.tropical.otimes; hm.tropical.tropical_matmul
    $\oslash$ | difference | hm.tropical.TropicalRationalMap | p / q for polynomials
    $\oplus_\tau, \otimes_\tau$ | the same, smoothed | hm.tropical.oplus(temperature)
    $P(x)$ | tropical polynomial | hm.TropicalPolynomial | real exponents
    $\mathrm{Newt}(P)$ | Newton polytope | hm.TropicalPolynomial.newton_polytope | the lifted polytope
        decides cells, not Newt alone
    $\Sigma(P), \sigma_j$ | cells of a polynomial | hm.TropicalPolynomial.cells | cones without coefficients
        only
    $\mathcal{H}(P)$ | walls | hm.TropicalPolynomial.hypersurface; hm.tropical.Hypersurface
    $\Sigma_1 \wedge \Sigma_2$ | common refinement | hm.common_refinement
    $f_h, P_h$ | a head and its polytope | hm.minkowski_vertices(point_sets)
    $\Psi, \mathrm{Newt}(\Psi)$ | sum over heads | hm.minkowski_vertices
    $\mathbf{F}, \Phi$ | rational map, network | hm.tropical.TropicalRationalMap; hm.Network | piecewise
        affine, with jumps
    $\omega, \Omega$ | a linear region | hm.regions.RegionSet.region_of_cell | may be non-convex
Diagrams and arrangements
    $c_j, S, \hat S$ | sites | hm.power_diagram(sites)
    $w_j$ | weight of a site | hm.power_diagram(weights) | $\|k_j\|^2 + 2 b_j$ for a biased key
    $d_{\mathrm{pow}}$ | power distance | hm.geometry.PowerDiagram.locate | the nearest site wins
    $\mathcal{V}(K)$ | power diagram of the keys | hm.attention_diagram; hm.geometry.PowerDiagram
    $C_j, \mathrm{int}(C_j)$ | a cell, and whether it has interior | hm.geometry.PowerDiagram.nonempty
    $R(n, d)$ | cells of an arrangement | hm.bounds.zaslavsky | a maximum, attained in general position
    $f_0(P)$ | number of vertices | hm.geometry.MinkowskiVertices.count
    $A_\Omega, b_\Omega$ | the affine map of a cell | hm.regions.RegionSet.linear;
        hm.regions.RegionSet.offset
Proofs
    $\mathcal{P}_{\mathrm{MHSA}}, \mathcal{P}_{\mathrm{FFN}}$ | partitions of a block |
        hm.enumerate_regions; hm.Network.truncate | the second is shifted in each cell of the first
    $\mathcal{M}_{\mathrm{MHSA}}, \mathcal{M}_{\mathrm{FFN}}, C_d$ | their sizes | hm.vertex_maximum;
        hm.bounds.zaslavsky | exact, so no constant is needed
    $\mathcal{S}_l, \mathcal{R}_l, N_l$ | cells after l blocks | hm.regions.CellCount.cells_by_depth
    $\mathrm{Refine}(\Omega)$ | what a block makes of a cell |  | inside the engines
    $p_j = (j - 1/2)/N$ | sites of the parabola | hm.networks.sawtooth_network(n_tokens);
        hm.geometry.parabolic_heads
    $w, s(x)$ | teeth, sawtooth | hm.networks.sawtooth_network(teeth) | w teeth are 2w pieces
    $\Omega_0, J(x)$ | the unit cube, the Jacobian | hm.Box.cube; hm.Network.affine_at
    $\sigma_i, \beta$ | fold sign; bound on the Hessian | hm.temperature.StabilityBounds.lipschitz
""")
)
"""Table I: symbol, meaning, names in code, remark."""


def resolve(code: str) -> Any:
    """The object that a name of the table stands for.

    Examples
    --------
    >>> resolve("hm.vertex_maximum(heads)").__name__
    'vertex_maximum'
    >>> resolve("hm.vertex_maximum(layers)")
    Traceback (most recent call last):
    hardmax.errors.InvalidInputError: the table names hm.vertex_maximum(layers), which does not exist.
    """
    parts = re.fullmatch(r"hm((?:\.\w+)+)(?:\((\w+)\))?", code)
    found: Any = import_module("hardmax") if parts else None
    for name in parts[1].split(".")[1:] if parts else ():
        fields = getattr(found, "__dataclass_fields__", {})
        found = fields.get(name) if name in fields else getattr(found, name, None)
    if found is not None and parts and parts[2] and parts[2] not in inspect.signature(found).parameters:
        found = None
    if found is None:
        raise InvalidInputError(f"the table names {code}, which does not exist.")
    return found


def notation_page() -> str:
    """The page ``docs/notation.md``."""
    lines = [
        "# Notation",
        "",
        "The symbols of the tropical paper (its table I) and what they are called here; `hm.f(x)` is the",
        "parameter `x` of `hm.f`. `hardmax reproduce tropical.table1` writes the same table and checks that",
        "every name exists; this page is written by `python docs/write.py notation`.",
    ]
    group = ""
    for row in NOTATION:
        if row.group != group:
            group = row.group
            lines += ["", f"## {group}", "", "| symbol | meaning | in code | remark |", "|---|---|---|---|"]
        code = ", ".join(f"`{name}`" for name in row.code)
        lines.append(f"| {row.symbol} | {row.meaning} | {code} | {row.remark} |")
    return "\n".join(lines) + "\n"
