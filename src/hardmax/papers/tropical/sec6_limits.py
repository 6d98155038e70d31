"""P1 Corollary IV.4, section VI and figure 5: the limit of temperature zero, and what depth does to it.

Figure 5 shows a head in the plane at four temperatures; its cells are the same at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.diagrams.power_diagrams import attention_diagram
from hardmax.geometry.domains import Box
from hardmax.networks.attention import Attention
from hardmax.networks.constructions import rounding_temperature, sawtooth_network
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, failing, holding, within
from hardmax.papers.recipes import Comparison, Option, Outcome, Settings, measured, recipe, stated
from hardmax.papers.tropical.sec6_bounds import MARGIN, SLACK
from hardmax.temperature.bands import margin_needed, transition_band
from hardmax.temperature.cell_survival import surviving_cells
from hardmax.temperature.observed_scores import check_stability
from hardmax.tropical.semirings import tropical_sum


@claim("tropical.uniform_limit", "Corollary IV.4, Appendix C", Verdict.FAILS).states(
    "On the interior of a cell the output tends to the winner's value uniformly.",
    hypotheses="linear scores, distinct keys",
    computation="keys and values 1 and -1 at a query that shrinks with the temperature",
    correction="Only where the margin is bounded below: |Z - v_i| <= (m e / (1 + m e)) max |v_l - v_i|.",
    proof="temperature.md#the-output",
)
def _uniform_limit(effort: Effort) -> Finding:
    head = Network((Attention([[[1], [-1]]], None, [[[1], [-1]]], skip=False),))
    errors = {t: float(1 - head([[t * 1e-4]], t)[0, 0]) for t in (1.0, 0.1, 1e-3, 1e-6)}
    return failing(
        min(errors.values()) > 0.9998,
        "keys and values 1, -1: at the query 1e-4 temperature, inside the cell of key 1, the error is "
        + ", ".join(f"{error:.4f} ({t:g})" for t, error in errors.items())
        + " at the temperatures in brackets; the supremum over the cell is 1 at every one of them",
        {"errors": {str(t): error for t, error in errors.items()}},
        Certificate(
            "soft_output",
            {"weights": [1, Fraction(1000, 1001)], "values": [1, -1]},
            {"distance": Fraction(2000, 2001)},
        ),
    )


@claim("tropical.uniform_limit_fixed", "Corollary IV.4, corrected", Verdict.PROVED).states(
    "Where key i leads by the margin, |Z - v_i| <= (m e / (1 + m e)) max |v_l - v_i|.",
    own=True,
    hypotheses=MARGIN,
    computation="random scores and values, and the extreme ones",
    proof="temperature.md#the-output",
)
def _uniform_limit_fixed(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    largest, rows = 0.0, 0
    for temperature in (0.01, 0.2, 1.0, 8.0):
        for n in (2, 3, 9):
            scores = temperature * rng.standard_normal((100 if effort is Effort.QUICK else 5000, n)) * 4
            report: Any = check_stability(scores, temperature, values=rng.standard_normal((n, 3)))
            largest = max(largest, float((report.output_error / report.output_error_bound).max()))
            rows += len(scores)
    extreme: Any = check_stability([[2.0, 0.0, 0.0]], 0.5, values=[[0.0], [1.0], [1.0]])
    attained = float(extreme.output_error[0] / extreme.output_error_bound[0])
    return holding(
        0.0 < largest <= SLACK and abs(attained - 1) < 1e-12,
        f"error over (m e / (1 + m e)) max |v_l - v_i| at {rows} queries: at most {largest:.6f}; "
        f"{attained:.12f} where all rivals are at the margin and share a value",
        {"largest_ratio": largest, "ratio_at_extreme": attained},
    )


@claim("tropical.ties_average", "Corollary IV.4", Verdict.PROVED).states(
    "On a wall the limit of the output is the mean of the values of the tied keys.",
    own=True,
    hypotheses="fixed values",
    computation="random heads with exact ties at temperature 0.001",
    proof="temperature.md#ties",
)
def _ties_average(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    gap = 0.0
    for _ in range(50 if effort is Effort.QUICK else 1000):
        n, tied = int(rng.integers(3, 9)), int(rng.integers(2, 4))
        keys = rng.integers(-4, 5, (n, 2)).astype(float)
        keys[:, 1] = np.minimum(keys[:, 1], 4)
        keys[:tied, 1] = 5.0  # all of these win at q = (0, 1), by 1 at least
        keys[:tied, 0] = np.arange(tied)
        values = rng.standard_normal((n, 2))
        head = Network((Attention([keys], None, [values], skip=False),))
        soft = head([[0.0, 1.0]], 1e-3)
        gap = max(gap, float(np.abs(soft - values[:tied].mean(axis=0)).max()))
    limit = 1e-12
    return holding(
        gap < limit,
        "on walls of random heads at temperature 0.001 the difference of the output from the mean of the "
        f"tied values is {within(gap, limit)}",
        {"largest_gap": gap},
    )


@claim("tropical.loglift_limit", "Definition III.10", Verdict.PROVED).states(
    "With log-lifted values, temperature log z tends to the difference of two tropical polynomials.",
    hypotheses="fixed lifted values",
    computation="distance from the limit over temperature log N at random heads",
    correction="With a rate: the distance is at most temperature log N.",
    proof="temperature.md#log-lifted-values",
)
def _loglift_limit(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    largest = 0.0
    rows = 500 if effort is Effort.QUICK else 50_000
    for temperature in (0.01, 0.3, 2.0):
        for n in (2, 5, 20):
            s, v = rng.standard_normal((2, rows, n)) * rng.exponential(temperature, (2, rows, 1))
            lifted = tropical_sum(s + v, axis=1, temperature=temperature)
            plain = tropical_sum(s, axis=1, temperature=temperature)
            limit = (s + v).max(axis=1) - s.max(axis=1)
            largest = max(largest, float(np.abs(lifted - plain - limit).max() / (temperature * math.log(n))))
    return holding(
        largest <= 1 + 1e-9,
        f"distance from the limit over temperature log N at {9 * rows} random heads: at most {largest:.3f}",
        {"largest_ratio": largest, "instances": 9 * rows},
    )


@claim("tropical.finite_tau_depth", "Remark VI.3, abstract", Verdict.FAILS).states(
    "The cells of a deep network persist at finite temperature.",
    hypotheses="depth 3, temperature 1/8 as in Example VI.2",
    computation="soft and hard signatures in every cell of a sawtooth network with three layers; intervals "
    "in the certificate",
    correction="Routings of the first layer persist at every temperature; deeper ones need margins that are "
    "large against it.",
    proof="temperature.md#what-is-left-of-a-deep-network",
)
def _finite_tau_depth(effort: Effort) -> Finding:
    net = sawtooth_network(d=1, n_tokens=4, teeth=1, depth=3)
    middles = np.arange(1, 1024, 2)[:, None] / 1024  # one point in each of the 512 cells
    survivals = [surviving_cells(net, middles, t) for t in (1 / 8, 1e-2, 1e-3, 1e-4, 1e-5)]
    step = 64 if effort is Effort.QUICK else 8
    cells = list(range(0, 512, step))
    return failing(
        survivals[0].n_cells == 512 and survivals[0].n_surviving == 0,
        "the network of Theorem V.7, d=1, N=4, w=1, L=3, at the middle of each of its 512 cells: signatures "
        "kept "
        + ", ".join(f"{s.n_surviving} ({s.temperature:g})" for s in survivals)
        + f" at the temperatures in brackets; at 1/8 only {survivals[0].n_soft} different signatures occur",
        {
            "temperatures": [s.temperature for s in survivals],
            "surviving": [s.n_surviving for s in survivals],
            "soft_signatures": [s.n_soft for s in survivals],
        },
        Certificate(
            "soft_signatures",
            {"cells": cells},
            {"cells": len(cells), "kept": 0},
        ),
    )


@claim("tropical.survival_at_every_depth", "Remark VI.3, at every depth", Verdict.PROVED).states(
    "At a fixed temperature, (2N(w-1)+2)^(dL) cells of a network with L equal layers keep their signature "
    "and their value: no bound on surviving cells is free of the depth.",
    own=True,
    hypotheses="temperature at most 1 / (2 w N^2 log(4 (N-1)^2)), scores of attention between -1/2 and 1; "
    "two ReLU layers behind each attention",
    computation="hard and soft signatures at the middle of every piece, for growing depth",
    proof="theorems.md#theorem-10",
)
def _survival_at_every_depth(effort: Effort) -> Finding:
    n, w = 2, 2
    temperature = rounding_temperature(n, w)
    pieces, safe = 2 * w * n, 2 * n * (w - 1) + 2
    depths = range(1, 4 if effort is Effort.QUICK else 6)
    kept, plain = [], []
    for depth in depths:
        middles = (2 * np.arange(pieces**depth)[:, None] + 1) / (2 * pieces**depth)
        rounded = surviving_cells(sawtooth_network(1, n, w, depth, variant="rounded"), middles, temperature)
        exact = rounded.kept & (rounded.output_error < 1e-9)
        kept.append(int(exact.sum()))
        plain.append(surviving_cells(sawtooth_network(1, n, w, depth), middles, temperature).n_surviving)
    return holding(
        all(count >= safe**depth for count, depth in zip(kept, depths, strict=True)),
        f"d=1, N={n}, w={w}, temperature {temperature:.4f}: {', '.join(map(str, kept))} cells keep signature "
        f"and value at depth {depths[0]} to {depths[-1]}, at least {safe}^L; without rounding "
        f"{', '.join(map(str, plain))}",
        {"kept": kept, "without_rounding": plain, "temperature": temperature},
    )


@claim("tropical.rem_vi3", "Remark VI.3", Verdict.PROVED).states(
    "Outside transition bands of width O(temperature) around the walls, one head is within a tolerance "
    "of one-hot.",
    hypotheses="one head, fixed keys and tolerance; argmax cells are the same at every temperature",
    computation="random queries inside and outside the bands",
    correction="The width is 2 temperature log((N-1)(1-t)/t) / |k_i - k_j| for a tolerance t: it grows with "
    "log N.",
    proof="temperature.md#how-wide-a-wall-is",
)
def _rem_vi3(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    outside = soft = 0
    inside = True
    for _ in range(10 if effort is Effort.QUICK else 200):
        n = int(rng.integers(2, 12))
        keys = rng.standard_normal((n, 2))
        band = transition_band(keys, 0.1, tolerance=0.01)
        scores = rng.uniform(-4, 4, (500, 2)) @ keys.T
        report = check_stability(scores, 0.1, tolerance=0.01)
        gaps = scores.max(axis=1)[:, None] - scores
        with np.errstate(invalid="ignore"):
            near = gaps / band.distance[report.routing] < band.width[report.routing] / 2
        near[np.arange(len(scores)), report.routing] = False
        inside &= bool((near.any(axis=1) | report.hard).all())
        soft += int((~report.hard).sum())
        outside += int((~near.any(axis=1)).sum())
    width = 2 * margin_needed(512, 1.0, tolerance=0.01)
    return holding(
        inside,
        f"{soft} soft queries all lie in the bands, {outside} queries outside them are hard; for 512 keys "
        f"and 1% a band is {width:.1f} temperatures over |k_i - k_j| wide",
        {"soft": soft, "outside": outside, "width_512": width},
    )


@claim("tropical.fig5_hidden_regions", "Figure 5, section VII-B", Verdict.NUMERICAL).states(
    "As the temperature falls from 1 to 0.001 the coloured output becomes piecewise constant with straight "
    "boundaries, and colours that were blended away emerge.",
    hypotheses="five keys in the plane, queries in [-4, 4]^2, values that differ; a colour is there where "
    "the "
    "output is within 0.05 of its value",
    computation="the share of queries whose output is one of the values, and how many values are seen, at "
    "the "
    "four temperatures of the figure",
    correction="The cells of the most probable key are the same at every temperature, because softmax keeps "
    "the order of the scores: it is the colours that emerge, as the caption says, not the walls.",
    proof="temperature.md#what-is-left-of-a-deep-network",
)
def _fig5_hidden_regions(effort: Effort) -> Finding:
    keys = np.array([[2, 0], [0, 2], [-2, 1], [-1, -2], [0.5, -0.5]]) / 2
    axis = np.linspace(-4, 4, 81) + 1e-3
    queries = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return _hidden_regions(keys, queries, (1.0, 0.5, 0.1, 0.001))


def _hidden_regions(keys: NDArray[Any], queries: Floats, temperatures: Sequence[float]) -> Finding:
    """How much of the output is one of the values, the unit vectors, at each temperature."""
    scores, winners = queries @ keys.T, int(attention_diagram(keys).nonempty.sum())
    shares, seen, cells = [], [], set()
    for temperature in temperatures:
        p = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
        p /= p.sum(axis=1, keepdims=True)
        shown = p.max(axis=1) > 0.95
        shares.append(float(shown.mean()))
        seen.append(len(np.unique(p.argmax(axis=1)[shown])))
        cells.add(p.argmax(axis=1).tobytes())
    rising = all(b > a for a, b in pairwise(shares)) and all(b >= a for a, b in pairwise(seen))
    return holding(
        rising and shares[-1] > 0.9 and seen[-1] == winners and len(cells) == 1,
        f"{len(keys)} keys on a grid of {len(queries)} queries, temperatures "
        f"{', '.join(f'{t:g}' for t in temperatures)}: the output is one of the values on "
        f"{', '.join(f'{100 * share:.1f} %' for share in shares)} of it and shows "
        f"{', '.join(map(str, seen))} values; the most probable key is the same at every temperature: "
        f"{len(cells) == 1}",
        {"shares": shares, "values": seen},
        by=Verdict.NUMERICAL,
    )


Floats = NDArray[np.float64]


@recipe(
    "tropical.fig5",
    "One head at four temperatures, with the exact walls on top",
    Option("n_tokens", 5, "Gaussian keys (the paper: 5)", least=2),
    Option("box", 4.0, "half side of the square of queries (the paper: 4)", least=0.001),
    Option("temperatures", (1.0, 0.5, 0.1, 0.001), "temperatures (the paper: these)", least=1e-9),
    Option("grid", 201, "queries along a side (not stated)", medium=401, paper=801, least=2),
    Option("draws", 200, "draws of keys whose cells are counted", medium=2000, paper=20_000, least=1),
)
def _run_figure_5(settings: Settings) -> Outcome:
    from hardmax.plotting.temperatures import draw_temperatures

    n, half, temperatures = settings["n_tokens"], settings["box"], settings["temperatures"]
    keys = settings.rng("keys").standard_normal((n, 2))
    diagram = attention_diagram(keys)
    box = Box.cube(2, -half, half)
    axis = -half + 2 * half * (np.arange(settings["grid"]) + 0.5) / settings["grid"]
    queries = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    scores = queries @ keys.T
    reports = [check_stability(scores, t) for t in temperatures]
    seen = [_most_probable(scores, t) for t in temperatures]
    counts = [len(np.unique(cells)) for cells in seen]
    walls = diagram.locate(queries)
    clear = queries[(scores == scores.max(axis=1, keepdims=True)).sum(axis=1) == 1]  # not on a wall
    inside = diagram.witnesses[diagram.nonempty]  # so that no cell is too thin to be seen
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
        tables={"temperatures": table, "keys": drawn_keys},
        comparisons=(
            stated(
                "colours hidden at temperature 1 emerge at 0.001", "yes", "tropical.fig5_hidden_regions"
            ).judged(
                f"{', '.join(map(str, counts))} cells of the most probable key at temperatures "
                f"{', '.join(f'{t:g}' for t in temperatures)}",
                _hidden_regions(keys, np.concatenate([clear, inside]), temperatures),
            ),
            stated(
                "cells of the limit are those of the power diagram", "yes", "tropical.power_voronoi"
            ).compared(
                f"the most probable key is the winner of the exact diagram at all {len(queries)} queries, "
                f"at every temperature: {agree}",
                agree,
            ),
            measured("share of queries with top probability above 99%", "not stated", shares),
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
    return measured(f"cells of {n} Gaussian keys, {draws} draws", "not stated", ", ".join(shares))
