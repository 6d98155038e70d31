"""P1 section VII and figure 6: signatures, regions, what random points see, and how counts grow with N.

A slope that depends on choices which the paper does not state is a measurement, and is reported as one:
panel (a) of figure 6 repeats the paper's Monte Carlo and counts cells exactly beside it, and a second picture
sweeps the choices. Panel (b), the vertices of sums, is exact; there the unstated choice that decides is the
rank d_k of the heads. What the paper says about the reason for the slopes of (b) is a statement, and has an
exact counterexample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.diagrams.power_diagrams import attention_diagram
from hardmax.geometry.domains import Box
from hardmax.geometry.minkowski import MinkowskiVertices, minkowski_vertices
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import FeedForward
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, failing, holding
from hardmax.papers.recipes import Comparison, Option, Outcome, Settings, measured, recipe, stated, tabulated
from hardmax.regions.api import count_cells, count_regions
from hardmax.regions.growth import CellGrowth, Growth, HeadChoices, NetworkChoices, cell_growth, vertex_growth
from hardmax.regions.sampling.estimate import estimate_cells

PLANE = Box.cube(2, -4, 4)


def random_transformers(effort: Effort, *, ffn_skip: bool) -> Iterator[Network]:
    """Transformers of one layer in the plane: four keys, two heads, four ReLU units."""
    for seed in range(12 if effort is Effort.QUICK else 100):
        yield Network.random(2, n_tokens=4, heads=2, depth=1, d_ff=4, rng=seed, ffn_skip=ffn_skip)


def _counted(effort: Effort, *, ffn_skip: bool) -> list[tuple[int, int]]:
    """The cells and the linear regions of each of them, exactly."""
    found = (count_regions(network, PLANE) for network in random_transformers(effort, ffn_skip=ffn_skip))
    return [(each.n_cells, each.n_regions) for each in found]


@claim("tropical.sig_ge_regions", "Section VII", Verdict.PROVED).states(
    "There are at least as many signatures with interior as linear regions.",
    own=True,
    hypotheses="any network",
    computation="cells and regions of random transformers in the plane, exactly",
    proof="proofs.md#signatures-and-regions",
)
def _sig_ge_regions(effort: Effort) -> Finding:
    counts = [*_counted(effort, ffn_skip=False), *_counted(effort, ffn_skip=True)]
    return holding(
        all(cells >= regions for cells, regions in counts),
        f"{len(counts)} random transformers in the plane: {sum(c for c, _ in counts)} cells, "
        f"{sum(r for _, r in counts)} regions, never fewer cells than regions",
        {"networks": len(counts)},
    )


def _dead_unit() -> Network:
    """A head with two cells that nothing distinguishes: the ReLU unit behind it is off on both."""
    head = Attention([[[-1], [1]]], None, [[[-1], [1]]])
    return Network((head, FeedForward([[1]], [-9], [[1]], [0])))


@claim("tropical.sig_eq_regions_skip", "Section VII", Verdict.CHECKED).states(
    "Different signatures are different linear regions.",
    own=True,
    hypotheses="blocks y + FFN(y), y = x + MHSA(x), with random weights",
    computation="cells and regions of random transformers in the plane, exactly",
)
def _sig_eq_regions_skip(effort: Effort) -> Finding:
    counts = _counted(effort, ffn_skip=True)
    more = sum(cells > regions for cells, regions in counts)
    return holding(
        all(cells == regions for cells, regions in counts),
        f"{len(counts)} random transformers with a skip around the ReLU layer: {more} have more cells than "
        "regions",
        {"networks": len(counts), "more_cells": more},
        by=Verdict.CHECKED,
    )


@claim("tropical.mc_lower_bound_regions", "Section VII", Verdict.FAILS).states(
    "The number of signatures that random points show is a lower bound on the number of linear regions.",
    hypotheses="blocks FFN(x + MHSA(x)) without a skip around the ReLU layer",
    computation="signatures at points and exact regions of a block whose cells nothing tells apart, and of "
    "random blocks",
    correction="It is a lower bound on the number of cells; adjacent cells may carry the same affine map. "
    "With a second skip connection this was never seen (tropical.sig_eq_regions_skip).",
)
def _mc_lower_bound_regions(effort: Effort) -> Finding:
    above = 0
    networks = list(random_transformers(effort, ffn_skip=False))
    for network in networks:
        seen = estimate_cells(network, PLANE, n_samples=20_000, rng=0).n_signatures
        above += seen > count_regions(network, PLANE).n_regions
    points = [[Fraction(2 * i + 1, 4)] for i in range(-4, 4)]
    return failing(
        above > 0,
        f"one region, and eight points show two signatures; for {above} of {len(networks)} random "
        "transformers 20,000 points show more signatures than there are regions",
        {"networks": len(networks), "more_signatures": above},
        Certificate(
            "network_line",
            {"network": _dead_unit(), "interval": [-4, 4], "points": points},
            {"signatures": 2, "regions": 1},
        ),
    )


@claim("tropical.mc_lower_bound_cells", "Section VII, corrected", Verdict.PROVED).states(
    "The number of signatures that random points show is a lower bound on the number of cells.",
    own=True,
    hypotheses="points off the walls, which is almost surely so",
    computation="signatures at points and exact cells",
    proof="proofs.md#signatures-and-regions",
)
def _mc_lower_bound_cells(effort: Effort) -> Finding:
    shares = []
    for skip in (False, True):
        for network in random_transformers(effort, ffn_skip=skip):
            seen = estimate_cells(network, PLANE, n_samples=20_000, rng=0).n_signatures
            shares.append(seen / int(count_cells(network, PLANE)))
    return holding(
        max(shares) <= 1,
        f"{len(shares)} random transformers, 20,000 points each: between {min(shares):.2f} and "
        f"{max(shares):g} of the cells are seen",
        {"networks": len(shares), "smallest_share": min(shares), "largest_share": max(shares)},
    )


_PRINTED = 0.13  # the slope of figure 6(a) at L = 1
_HEADS, _KEYS, _D = 3, 7, 4  # the largest sum of figure 6(b)


def _stream(i: int) -> np.random.Generator:
    return np.random.default_rng([6, i])


@claim("tropical.fig6a_slope_013", "Figure 6(a), section VII-C", Verdict.MEASUREMENT).states(
    "For random networks with one layer in the plane, the number of linear regions grows with "
    "N with a slope of about 0.13 on logarithmic axes.",
    hypotheses="H = 1, box [-4, 4]^2; scores and values standard normal, no score bias; ReLU weights normal "
    "with variance 1 over the number of inputs of their layer, biases of spread 1/2; a skip around attention "
    "and none around the ReLU layer; N = 2 to 5, networks of different N share weights unless stated",
    computation="exact cells of random networks; slope of the mean counts, spread over networks",
    correction="The slope moves with the width, the rank and the pairing, none of which is stated, and "
    "single networks spread by about 0.4; 0.13 is one value among many.",
)
def _fig6a_slope_013(effort: Effort) -> Finding:
    draws = 8 if effort is Effort.QUICK else 80
    plain = NetworkChoices()
    choices = {
        "d_ff=4": replace(plain, d_ff=4),
        "d_ff=8": plain,
        "d_ff=16": replace(plain, d_ff=16),
        "d_ff=8, unpaired": replace(plain, pairing="unpaired"),
        "d_ff=8, d_k=1": replace(plain, d_k=1),
    }
    slopes: dict[str, Growth] = {}
    for label, chosen in choices.items():
        found = cell_growth(chosen, n_tokens=(2, 3, 4, 5), depths=(1,), draws=draws, stream=_stream)
        slopes[label] = found[1].cells
    words = "; ".join(
        f"{label}: {growth.slope:.2f} (networks {growth.slope_mean:.2f} ± {growth.slope_error:.2f}, spread "
        f"{growth.slope_spread:.2f})"
        for label, growth in slopes.items()
    )
    # a number that unstated choices move by more than itself says nothing about what it is meant to show
    spans = max(growth.slope for growth in slopes.values()) - min(growth.slope for growth in slopes.values())
    return earned(
        Verdict.MEASUREMENT,
        spans > _PRINTED,
        f"exact cells, {draws} networks each; {words}",
        {label: {"slope": growth.slope, "slopes": growth.slopes} for label, growth in slopes.items()},
    )


@claim("tropical.fig6a_depth", "Figure 6(a), section VII-C", Verdict.MEASUREMENT).states(
    "Models with two layers overcome the saturation of shallow ones for N >= 4, with higher growth "
    "exponents.",
    hypotheses="H = 1, d_ff = 8, box [-4, 4]^2, the other choices as for tropical.fig6a_slope_013",
    computation="exact cells of random networks: the slope between N = 4 and N = 5 at depth 2 minus that "
    "at depth 1, network by network",
    correction="The difference is smaller than its spread over networks; the choices that decide it are not "
    "stated.",
)
def _fig6a_depth(effort: Effort) -> Finding:
    draws = 8 if effort is Effort.QUICK else 80
    found = cell_growth(NetworkChoices(), n_tokens=(4, 5), depths=(1, 2), draws=draws, stream=_stream)
    difference = found[2].cells.slopes - found[1].cells.slopes
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    return earned(
        Verdict.MEASUREMENT,
        bool(np.isfinite(mean)) and abs(mean) < spread,
        f"{draws} networks, d_ff = 8: {mean:+.2f} ± {spread / np.sqrt(draws):.2f}, spread {spread:.2f}",
        {"mean": mean, "spread": spread},
    )


@claim("tropical.exact_plane", "Section VII-A", Verdict.CHECKED).states(
    "At d = 2 the networks of figure 6(a) can be counted exactly, so that no sampling is needed there.",
    own=True,
    hypotheses="d = 2, L <= 2, N <= 5; the paper restricts itself to d = 2 because counting is #P-hard, "
    "which concerns dimensions that grow",
    computation="exact cells and regions of random networks with two layers and five keys",
)
def _exact_plane(effort: Effort) -> Finding:
    counted = []
    for seed in range(2 if effort is Effort.QUICK else 20):
        network = Network.random(2, n_tokens=5, heads=1, depth=2, d_ff=8, rng=seed)
        found = count_regions(network, PLANE)
        counted.append((found.n_cells, found.n_regions, found.complete and found.exact))
    return holding(
        all(exact for *_, exact in counted) and bool(counted),
        "; ".join(f"{cells} cells, {regions} regions" for cells, regions, _ in counted) + ", counted exactly",
        {"networks": len(counted)},
        by=Verdict.CHECKED,
    )


@claim("tropical.fig6b_slopes_increase", "Figure 6(b), section VII-C", Verdict.CHECKED).states(
    "The number of vertices of the sum of H random heads grows with N, and the faster the more "
    "heads there are.",
    hypotheses="d = 4, H = 1, 2, 3, N = 2 to 7, Gaussian keys and query maps of rank d_k = 4",
    computation="exact vertices of sums whose scores are kept as products",
    correction="The rank decides: heads of rank one are segments, their sums have 2^H vertices and all "
    "slopes are 0.",
)
def _fig6b_slopes_increase(effort: Effort) -> Finding:
    draws = 8 if effort is Effort.QUICK else 60
    others = {1: 2} if effort is Effort.QUICK else {3: 20, 2: 20, 1: 20}
    slopes = {
        rank: vertex_growth(
            HeadChoices(d=_D, d_k=rank),
            n_tokens=tuple(range(2, _KEYS + 1)),
            heads=_HEADS,
            draws=n,
            stream=_stream,
        )
        for rank, n in {4: draws, **others}.items()
    }
    rising = {rank: _rises([growth.slope for growth in found]) for rank, found in slopes.items()}
    single = sum(_rises(row) for row in np.array([growth.slopes for growth in slopes[4]]).T.tolist())
    words = "; ".join(
        f"d_k={rank}: {', '.join(f'{round(growth.slope, 3) + 0.0:.3f}' for growth in found)}"
        for rank, found in slopes.items()
    )
    return holding(
        rising[4] and single == draws and not rising[1],
        f"slopes for H = 1, 2, 3 over {draws} draws, {words}; at d_k=4 they rise in {single} of {draws} "
        "draws",
        {f"d_k={rank}": [growth.slope for growth in found] for rank, found in slopes.items()},
        by=Verdict.CHECKED,
    )


def _rises(slopes: list[float]) -> bool:
    return all(b > a + 1e-9 for a, b in pairwise(slopes))


@claim("tropical.fig6b_interior_explanation", "Figure 6(b), section VII-C", Verdict.FAILS).states(
    "The number of vertices stays below N^H for H = 3 because keys in the interior of a head's "
    "hull do not count.",
    hypotheses="d = 4, H = 3, N = 7",
    computation="a family without interior keys whose sum still has fewer vertices; for each sum a query in "
    "which it wins or a convex combination of other sums",
    correction="At these sizes nearly every key is extreme; it is the sums of extreme keys that are not.",
)
def _fig6b_interior_explanation(effort: Effort) -> Finding:
    keys = _extreme_heads()
    found = minkowski_vertices(list(keys))
    data, extreme = _sum_record(keys, found)
    draws = 4 if effort is Effort.QUICK else 60
    gaussian = vertex_growth(
        HeadChoices(d=_D, d_k=_D), n_tokens=(_KEYS - 1, _KEYS), heads=_HEADS, draws=draws, stream=_stream
    )
    share = float(gaussian[-1].mean[-1]) / _KEYS**_HEADS
    return failing(
        extreme == [_KEYS] * _HEADS and found.count < _KEYS**_HEADS,
        f"three heads of {_KEYS} integer keys, none interior: {found.count} of {_KEYS**_HEADS} sums are "
        f"vertices; {draws} Gaussian draws: {float(gaussian[0].mean[-1]):.2f} of {_KEYS} keys are extreme, "
        f"{100 * share:.0f} % of the sums",
        {"vertices": found.count, "extreme_keys": extreme, "gaussian_share_of_sums": share},
        Certificate(
            "sum_of_heads", data, {"extreme_keys": extreme, "sums": _KEYS**_HEADS, "vertices": found.count}
        ),
    )


def _extreme_heads() -> NDArray[np.int64]:
    """The first draw of rounded Gaussian keys whose heads have no interior key."""
    rng = np.random.default_rng(0)
    while True:
        keys = np.rint(8 * rng.standard_normal((_HEADS, _KEYS, _D))).astype(np.int64)
        if all(attention_diagram(head).nonempty.all() for head in keys):
            return keys


def _sum_record(keys: NDArray[np.int64], found: MinkowskiVertices) -> tuple[dict[str, Any], list[int]]:
    """A query for every vertex of the sum, and a convex combination of other sums for every other sum."""
    choices = list(product(range(_KEYS), repeat=_HEADS))
    sums = np.array([sum(keys[h, j] for h, j in enumerate(choice)) for choice in choices])
    diagram = attention_diagram(sums)
    winners = {
        tuple(choice): [Fraction(x) for x in found.exact_witnesses.get(i, found.witnesses[i].tolist())]
        for i, choice in enumerate(found.choices.tolist())
    }
    losers = []
    for i, choice in enumerate(choices):
        if choice not in winners:
            emptiness = diagram.empty_certificate(i)
            support = [list(choices[k]) for k in emptiness.support.tolist()]
            losers.append([list(choice), support, list(emptiness.weights)])
    record = {
        "heads": keys,
        "winners": [[list(choice), point] for choice, point in winners.items()],
        "losers": losers,
    }
    return record, [len({choice[h] for choice in winners}) for h in range(_HEADS)]


@recipe(
    "tropical.fig6",
    "Growth with N: cells of random networks (a), vertices of sums of heads (b)",
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
)
def _run_figure_6(settings: Settings) -> Outcome:
    from hardmax.plotting.style import new_figure

    parts = "ab" if settings["part"] == "both" else settings["part"]
    figure, choices = new_figure(5.2 * len(parts), 5.6), new_figure(5.6 * len(parts), 5.4)
    for picture in (figure, choices):
        layout: Any = picture.get_layout_engine()
        layout.set(w_pad=0.12)  # the labels of one panel keep their distance from the other
    made = []
    for i, part in enumerate(parts):
        panels = [picture.add_subplot(1, len(parts), i + 1) for picture in (figure, choices)]
        made.append((_part_a if part == "a" else _part_b)(settings, panels))
    return Outcome(
        {"fig6": figure, "fig6_choices": choices},
        {name: table for each in made for name, table in each.tables.items()},
        tuple(row for each in made for row in each.comparisons),
        tuple(note for each in made for note in each.notes),
    )


# Figure 6(a)
# ----------------------------------------------------------------------------------------------------------


def _part_a(settings: Settings, panels: Any) -> Outcome:
    from hardmax.plotting.growth import Curve, draw_growth, draw_slopes
    from hardmax.plotting.style import LINES

    choices = NetworkChoices(**{each.name: settings[each.name] for each in fields(NetworkChoices)})
    n_tokens, depths = settings["lengths"], settings["depths"]
    grown = partial(
        cell_growth, n_tokens=n_tokens, depths=depths, stream=lambda i: settings.rng("networks", i)
    )
    found = grown(choices, draws=settings["seeds"], n_samples=settings["samples"], with_regions=True)
    swept = {
        label: grown(other, draws=settings["sweep_seeds"])
        for label, other in _variants(settings, choices).items()
    }
    curves = []
    for i, (depth, growth) in enumerate(found.items()):
        colour = LINES[i % len(LINES)]
        curves.append(Curve(growth.cells, f"$L={depth}$, cells, exact", colour))
        if growth.signatures is not None:
            curves.append(
                Curve(growth.signatures, f"$L={depth}$, Monte Carlo", colour, True, 1.025, fitted=False)
            )
    first = found[depths[0]].cells
    promised = first.mean[0] * (np.array(n_tokens) / n_tokens[0]) ** _PRINTED
    title = f"(a) cells in $[-{choices.box:g}, {choices.box:g}]^2$, {settings['seeds']} networks"
    draw_growth(curves, ax=panels[0], title=title, ylabel="cells", references={"slope 0.13": promised})
    draw_slopes(
        {label: [growth[depth].cells for depth in depths] for label, growth in swept.items()},
        labels=[f"$L={depth}$" for depth in depths],
        ax=panels[1],
        title=f"(a) exact slopes, {settings['sweep_seeds']} networks per row",
        reference=_PRINTED,
        reference_label="paper, $L=1$: 0.13",
    )
    return Outcome(
        {},
        {
            "cells": _cell_table(found),
            "slopes_a": _slopes(
                (f"L={depth}, {name}", counted)
                for depth, growth in found.items()
                for name, counted in _kinds(growth)
            ),
            "choices_a": _slopes(
                (f"{_plain(label)}, L={depth}", counts.cells)
                for label, growth in swept.items()
                for depth, counts in growth.items()
            ),
        },
        _compared_a(settings, found, swept),
        (
            "Figure 6(a): random points need a box; the paper samples uniformly in the plane, which does not "
            f"exist. Counts are those of [-{choices.box:g}, {choices.box:g}]^2, {choices.pairing} over N.",
        ),
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


def _cell_table(found: Mapping[int, CellGrowth]) -> dict[str, list[Any]]:
    """One row per network."""
    return tabulated(
        "depth seed n_tokens cells regions signatures",
        (
            (
                depth,
                i,
                n,
                *(None if counted is None else int(counted.counts[i, k]) for _, counted in _kinds(growth)),
            )
            for depth, growth in found.items()
            for i in range(len(growth.cells.counts))
            for k, n in enumerate(growth.cells.n_tokens)
        ),
    )


def _kinds(growth: CellGrowth) -> tuple[tuple[str, Growth | None], ...]:
    return ("cells", growth.cells), ("regions", growth.regions), ("signatures", growth.signatures)


def _slopes(rows: Iterable[tuple[str, Growth | None]]) -> dict[str, list[Any]]:
    return tabulated(
        "counted slope_of_means mean_of_slopes standard_error spread_over_seeds last_slope",
        (
            (label, each.slope, each.slope_mean, each.slope_error, each.slope_spread, each.last_slope)
            for label, each in rows
            if each is not None
        ),
    )


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
                measured(
                    f"figure 6(a): slope at L = {shallow}, {name}",
                    "about 0.13" if shallow == 1 else "not stated",
                    _with_spread(growth),
                    claim="tropical.fig6a_slope_013",
                )
            )
    slopes = [growth[shallow].cells.slope for growth in swept.values()]
    rows.append(
        measured(
            f"figure 6(a): slopes at L = {shallow} over {len(slopes)} choices",
            "about 0.13" if shallow == 1 else "not stated",
            f"{min(slopes):.2f} to {max(slopes):.2f}",
            claim="tropical.fig6a_slope_013",
        )
    )
    if deep > shallow and len(settings["lengths"]) > 1:
        rows.append(_deeper_grows_faster(found[shallow].cells, found[deep].cells, shallow, deep))
    sampled = [growth for growth in found.values() if growth.signatures is not None]
    if sampled:
        n_networks = sum(growth.cells.counts.size for growth in sampled)
        above = sum(growth.above_regions for growth in sampled)
        rows.append(
            stated(
                "figure 6(a): signatures of random points are a lower bound on linear regions",
                "yes",
                "tropical.mc_lower_bound_regions",
            ).compared(f"more signatures than regions in {above} of {n_networks} networks", above == 0)
        )
        rows.append(
            measured(
                f"figure 6(a): cells that {settings['samples']:,} points miss",
                "not stated",
                f"{100 * max(growth.missed for growth in sampled):.2f} % at the worst depth",
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
    return measured(
        f"figure 6(a): slope between the last two N: L = {high} minus L = {low}",
        "positive",
        f"{mean:+.2f} ± {error:.2f}",
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
        {
            "vertices": _vertex_table(found),
            "slopes_b": _slopes(
                (f"d_k={rank}, H={h}", growth)
                for rank, growths in found.items()
                for h, growth in enumerate(growths, start=1)
            ),
        },
        _compared_b(settings, shown, found),
        (
            "Figure 6(b): scores of rank d_k are kept as products of their factors; multiplied out in floats "
            "they would have full rank, and heads of rank one more than two vertices.",
        ),
    )


def _vertex_table(found: Mapping[int, list[Growth]]) -> dict[str, list[Any]]:
    """One row per rank, number of heads and N."""
    rows = []
    for rank, growths in found.items():
        for h, growth in enumerate(growths, start=1):
            for k, n in enumerate(growth.n_tokens):
                counts = growth.counts[:, k]
                spread = float(growth.mean[k]), float(growth.spread[k]), int(counts.min()), int(counts.max())
                rows.append((rank, h, n, *spread, n**h))
    return tabulated("d_k heads n_tokens mean spread least most candidates", rows)


def _compared_b(
    settings: Settings, shown: list[Growth], found: Mapping[int, list[Growth]]
) -> tuple[Comparison, ...]:
    slopes = [growth.slope for growth in shown]
    last = shown[-1]
    single, n = shown[0], last.n_tokens[-1]
    share = float(last.mean[-1]) / n ** len(shown)
    rows = [
        stated(
            f"figure 6(b): slopes for H = 1 to {len(shown)} increase, d_k = {settings['head_rank']}",
            "yes",
            "tropical.fig6b_slopes_increase",
        ).compared(", ".join(f"{slope:.3f}" for slope in slopes), _rises(slopes))
    ]
    rows += [
        measured(
            f"figure 6(b): the same at d_k = {rank}",
            "d_k is not stated",
            ", ".join(
                f"{abs(growth.slope) if abs(growth.slope) < 5e-4 else growth.slope:.3f}" for growth in growths
            ),
            claim="tropical.fig6b_slopes_increase",
        )
        for rank, growths in found.items()
        if rank != settings["head_rank"]
    ]
    rows.append(
        stated(
            "figure 6(b): counts stay below N^H because interior keys do not reach the hull",
            "yes",
            "tropical.fig6b_interior_explanation",
        ).refuted(
            f"{single.mean[-1]:.2f} of {n} keys of a head are vertices, but only {100 * share:.0f} % of the "
            f"{n ** len(shown)} sums",
            bool(single.mean[-1] / n > share ** (1 / len(shown)) and single.mean[-1] > 0.9 * n),
        )
    )
    return tuple(rows)
