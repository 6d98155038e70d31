"""P1 Theorem V.7 to Corollary V.9, appendix F, figure 1: the sawtooth network, and how regions grow with N.

Figure 1 promises regions "strictly following" Theta(N^{dL}), which has no finite meaning; the network of
Theorem V.7 has exactly (2wN)^{dL}, and every one of them is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from hardmax.bounds import region_bounds, vertex_maximum, zaslavsky
from hardmax.geometry.domains import Box
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import FeedForward
from hardmax.networks.constructions import Variant, genuine_sawtooth, narrow_sawtooth, sawtooth_network
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, failing, holding
from hardmax.papers.recipes import Option, Outcome, Settings, recipe, stated
from hardmax.papers.tropical.sec3_relu_layers import tangents
from hardmax.regions.api import count_cells, count_regions, enumerate_regions
from hardmax.regions.result import RegionSet
from hardmax.regions.segment.trace import trace_segment


@claim("tropical.lemma_f1", "Lemma F.1", Verdict.UNSTATED).states(
    "A head with keys (p, -p^2/2), p = (j - 1/2)/N, cuts the interval [0, 1] into N equal cells.",
    unstated="Queries may carry a constant: a query bias, or a constant coordinate of the token.",
    hypotheses="dot-product attention with d_k = 2, the query is (x, 1)",
    computation="cells of the head on [0, 1], exactly; linear scores beside it",
    correction="A matrix times x cannot give (x, 1), nor can the one row W_Q = e_h of the proof of Theorem "
    "V.7; with linear scores [0, 1] is one cell.",
    proof="proofs.md#theorem-v7",
)
def _lemma_f1(effort: Effort) -> Finding:
    sizes = range(1, 9) if effort is Effort.QUICK else range(1, 65)
    right = True
    for n in sizes:
        trace = trace_segment(_grid_head(n), [0], [1])
        walls = [trace.exact_breakpoint(i) for i in range(len(trace.breakpoints))]
        right &= walls == [Fraction(j, n) for j in range(1, n)]
    keys: Any = [[[Fraction(2 * j + 1, 8)] for j in range(4)]]
    linear = trace_segment(Network((Attention(keys, None, keys),)), [0], [1])
    return earned(
        Verdict.UNSTATED,
        right and len(linear.breakpoints) == 0,
        f"N = {sizes[0]} to {sizes[-1]}: N cells with walls at j/N; four keys with linear scores: "
        f"{len(linear.breakpoints)} walls inside [0, 1]",
        {"sizes": list(sizes)},
        Certificate("grid_heads", {"sizes": [3, 7]}, {"cells": [3, 7]}),
    )


def _grid_head(n: int) -> Network:
    places: list[Any] = [Fraction(2 * j + 1, 2 * n) for j in range(n)]
    head = Attention([[[p] for p in places]], [[-p * p / 2 for p in places]], [[[-p] for p in places]])
    return Network((head,))


def _tooth(w: int) -> Network:
    """The sawtooth of Lemma F.2 with w teeth."""
    biases: list[Any] = [Fraction(-m, 2 * w) for m in range(2 * w)]
    weights = [2 * w, *(4 * w * (-1) ** m for m in range(1, 2 * w))]
    return Network((FeedForward([[1]] * (2 * w), biases, [weights], [0]),))


@claim("tropical.lemma_f2", "Lemma F.2", Verdict.PROVED).states(
    "2w ReLU units make a sawtooth of w teeth: 2w affine bijections onto [0, 1].",
    hypotheses="on [0, 1]",
    computation="pieces, and values at their ends in fractions",
    proof="proofs.md#theorem-v7",
)
def _lemma_f2(effort: Effort) -> Finding:
    sizes = range(1, 7) if effort is Effort.QUICK else range(1, 33)
    right = True
    for w in sizes:
        network = _tooth(w)
        ends: list[Any] = [[Fraction(k, 2 * w)] for k in range(2 * w + 1)]
        values = [network.exact_value(end)[0] for end in ends]
        pieces = count_regions(network, Box([0], [1])).n_regions
        right &= pieces == 2 * w and values == [k % 2 for k in range(2 * w + 1)]
    return holding(
        right,
        f"w = {sizes[0]} to {sizes[-1]}: 2w pieces with 2w units, alternately from 0 to 1 and back",
        {"sizes": list(sizes)},
        Certificate("sawtooth_line", {"sizes": [1, 3]}, {"pieces": [2, 6]}),
    )


def _sizes(effort: Effort) -> list[tuple[int, int, int, int]]:
    """(d, N, w, L) of the sawtooth networks that are enumerated."""
    sizes = [(1, 3, 2, 2), (2, 3, 2, 1), (2, 2, 1, 2), (3, 2, 1, 1)]
    return sizes if effort is Effort.QUICK else [*sizes, (3, 2, 1, 2), (2, 3, 2, 2), (1, 5, 3, 3)]


def _middles(d: int, pieces: int) -> list[Any]:
    """A point inside every piece of the grid, off its middle."""
    line = [Fraction(3 * i + 1, 3 * pieces) for i in range(pieces)]
    return list(product(line, repeat=d))


def n_regions(d: int, n: int, w: int, depth: int, variant: Variant) -> int:
    """The linear regions of a sawtooth network on the unit cube, counted exactly."""
    network = sawtooth_network(d, n, w, depth, variant=variant)
    return count_regions(network, Box.cube(d, 0, 1)).n_regions


def _saw_certificate(d: int, n: int, w: int, depth: int) -> Certificate:
    """The size of a network; replay builds it and counts its cells and affine maps at one point in each."""
    pieces = (2 * w * n) ** (d * depth)
    return Certificate("sawtooth_points", {"size": [d, n, w, depth]}, {"signatures": pieces, "maps": pieces})


def _printed_bound(d: int, n: int, w: int, depth: int) -> int:
    """(N^d w^d)^L with w = floor(d_ff / 2d), as Theorem V.7 prints it."""
    return int((n**d * w**d) ** depth)


@claim("tropical.v7_count", "Theorem V.7, exact", Verdict.PROVED).states(
    "The construction has exactly (2wN)^(dL) linear regions on the unit cube.",
    own=True,
    hypotheses="affine scores, keys and values chosen freely in every layer, w = floor(d_ff / 2d)",
    computation="exact enumeration",
    proof="proofs.md#theorem-v7",
)
def _v7_count(effort: Effort) -> Finding:
    found = {size: n_regions(*size, "plain") for size in _sizes(effort)}
    sizes = [[1, 3, 2, 2], [1, 2, 1, 3]]
    return _counted(found, Certificate("sawtooth_line", {"sizes": sizes}, {"regions": [144, 64]}))


def _counted(
    found: dict[tuple[int, int, int, int], int],
    certificate: Certificate,
    *,
    lost: int = 0,
    besides: bool = True,
    words: str = "",
) -> Finding:
    """The finding that all networks have (2wN)^((d - lost) L) regions."""
    exactly = (c == (2 * w * n) ** ((d - lost) * depth) for (d, n, w, depth), c in found.items())
    return holding(
        besides and all(exactly),
        "; ".join(f"(d,N,w,L) = {size}: {count}" for size, count in found.items()) + words,
        {"regions": {str(size): count for size, count in found.items()}},
        certificate,
    )


@claim("tropical.v7_formula_equality", "Appendix F", Verdict.MISPRINT).states(
    "The count of the construction, (N^d (2w)^d)^L, equals (N^d floor(d_ff/2d)^d)^L.",
    hypotheses="w = floor(d_ff / 2d)",
    computation="exact enumeration at d = 2, N = 3, w = 2, L = 1",
    correction="The sign must be >=; the right side is smaller by 2^(dL), and the theorem is the weaker for "
    "it.",
    proof="proofs.md#theorem-v7",
)
def _v7_formula_equality(effort: Effort) -> Finding:
    size = (2, 3, 2, 1)
    found = n_regions(*size, "plain")
    printed = _printed_bound(*size)
    return earned(
        Verdict.MISPRINT,
        found == 4 * printed,
        f"(d,N,w,L) = {size}: {found} regions, printed {printed}: the step from (2w)^d to floor(d_ff/2d)^d "
        "loses 2^(dL)",
        {"regions": found, "printed": printed},
        Certificate("sawtooth_points", {"size": list(size)}, {"maps": found, "printed": printed}),
    )


@claim("tropical.v7_bound", "Theorem V.7", Verdict.UNSTATED).states(
    "Some transformer with H = d has at least (N^d floor(d_ff/2d)^d)^L linear regions on the unit cube.",
    unstated="Scores are affine (a query bias, or a constant coordinate), and keys and values are chosen "
    "freely in every layer.",
    hypotheses="d_ff >= 2d; section III-D and appendices D and E define scores as Q = X W_Q, without a bias",
    computation="exact enumeration of the construction; the largest possible number of cells with linear "
    "scores at N = 100, d = H = 2, d_ff = 4, L = 1",
    correction="With affine scores (2wN)^(dL) are reached. With linear ones a coordinate must be spent on "
    "the constant 1 (tropical.v7_bias_free_fixed).",
    proof="proofs.md#theorem-v7",
)
def _v7_bound(effort: Effort) -> Finding:
    found = {size: n_regions(*size, "plain") for size in _sizes(effort)}
    claimed = {size: _printed_bound(*size) for size in found}
    most = vertex_maximum(100, 2, 2) * zaslavsky(4, 2)
    return earned(
        Verdict.UNSTATED,
        all(found[size] >= claimed[size] for size in found) and most < 100**2,
        "; ".join(f"(d,N,w,L) = {s}: {found[s]} >= {claimed[s]}" for s in found)
        + f"; with linear scores N = 100, d = H = 2, d_ff = 4, one layer: at most {most} cells, claimed at "
        f"least {100**2}",
        {"settings": len(found), "at_most": most, "claimed": 100**2},
        Certificate(
            "sawtooth_points",
            {"size": [2, 2, 1, 2], "bias_free": [100, 2, 4, 1]},
            {"maps": 256, "stated": 16, "at_most": most, "claimed": 100**2},
        ),
    )


@claim("tropical.v7_bias_free_fixed", "Theorem V.7, corrected", Verdict.PROVED).states(
    "With linear scores the construction has (2wN)^((d-1)L) linear regions on the slice x_d = 1.",
    own=True,
    hypotheses="w = floor(d_ff / 2(d-1)), d >= 2, biases in the ReLU layers",
    computation="exact enumeration on the slice",
    proof="proofs.md#theorem-v7",
)
def _v7_bias_free_fixed(effort: Effort) -> Finding:
    sizes = [(2, 3, 2, 2), (3, 3, 2, 1), (3, 2, 1, 2)]
    found = {}
    for d, n, w, depth in sizes if effort is Effort.QUICK else [*sizes, (3, 3, 1, 2)]:
        network = sawtooth_network(d, n, w, depth, variant="bias_free")
        slice_ = network.restrict([0] * (d - 1) + [1], np.eye(d, dtype=int)[: d - 1])
        found[d, n, w, depth] = count_regions(slice_, Box.cube(d - 1, 0, 1)).n_regions
    counts = {"signatures": 256, "maps": 256}
    return _counted(found, Certificate("sawtooth_points", {"size": [3, 2, 1, 2]}, counts), lost=1)


@claim("tropical.v7_continuous", "Theorem V.7", Verdict.PROVED).states(
    "The map of the construction is continuous on the unit cube, across walls too.",
    own=True,
    hypotheses="values on the walls themselves, where keys tie, set aside",
    computation="the maps of all pieces around every corner, in fractions",
    proof="proofs.md#theorem-v7",
)
def _v7_continuous(effort: Effort) -> Finding:
    corners, agree = 0, True
    sizes = [(1, 3, 2, 2), (2, 3, 1, 1), (3, 2, 1, 1)]
    for d, n, w, depth in sizes if effort is Effort.QUICK else [*sizes, (2, 2, 1, 2), (2, 3, 2, 1)]:
        pieces = (2 * w * n) ** depth
        network = sawtooth_network(d, n, w, depth)
        values: dict[tuple[Fraction, ...], set[tuple[Fraction, ...]]] = {}
        for inside in _middles(d, pieces):
            for corner, value in _at_corners(network, inside, pieces):
                values.setdefault(corner, set()).add(value)
        agree &= all(len(seen) == 1 for seen in values.values())
        corners += len(values)
    return holding(
        agree,
        f"{corners} corners of pieces in one to three dimensions: all maps around a corner agree there: "
        f"{agree}",
        {"corners": corners},
        Certificate("sawtooth_line", {"sizes": [[1, 3, 2, 2], [1, 2, 1, 3]]}, {"cells": [144, 64]}),
    )


def _at_corners(network: Network, inside: Any, pieces: int) -> Iterator[tuple[Any, Any]]:
    """Corners of the piece around a point, and the value there of the piece's affine map, in fractions."""
    step = Fraction(1, 3 * pieces)  # stays inside the piece
    here = network.exact_value(inside)
    slopes = []
    for k in range(len(inside)):
        there: Any = [x + step * (i == k) for i, x in enumerate(inside)]
        slopes.append([(b - a) / step for a, b in zip(here, network.exact_value(there), strict=True)])
    low = [Fraction(int(x * pieces), pieces) for x in inside]
    for ends in product((0, 1), repeat=len(inside)):
        corner = tuple(x + Fraction(end, pieces) for x, end in zip(low, ends, strict=True))
        moved = [c - x for c, x in zip(corner, inside, strict=True)]
        value = tuple(
            a + sum((m * slope[i] for m, slope in zip(moved, slopes, strict=True)), Fraction(0))
            for i, a in enumerate(here)
        )
        yield corner, value


@claim("tropical.v7_maps_distinct", "Theorem V.7", Verdict.PROVED).states(
    "No two of the regions of the construction carry the same affine map.",
    own=True,
    hypotheses="affine scores",
    computation="the affine maps of all cells",
    proof="proofs.md#theorem-v7",
)
def _v7_maps_distinct(effort: Effort) -> Finding:
    found = {}
    for d, n, w, depth in _sizes(effort)[:4]:
        network, box = sawtooth_network(d, n, w, depth), Box.cube(d, 0, 1)
        cells = enumerate_regions(network, box)
        found[d, n, w, depth] = (cells.n_cells, n_maps(cells))
    return holding(
        all(cells == maps for cells, maps in found.values()),
        "; ".join(f"(d,N,w,L) = {size}: {c} cells, {m} maps" for size, (c, m) in found.items()),
        {"settings": len(found)},
        _saw_certificate(2, 2, 1, 2),
    )


@claim("tropical.v7_with_ffn_skip", "Theorem V.7, as transformers are built", Verdict.PROVED).states(
    "With a second skip connection, y + FFN(y), the same number of units gives the same regions.",
    own=True,
    hypotheses="affine scores; first output weight 2w - 1/N, output bias 1/(2N)",
    computation="exact enumeration",
    proof="proofs.md#theorem-v7",
)
def _v7_with_ffn_skip(effort: Effort) -> Finding:
    found = {size: n_regions(*size, "ffn_skip") for size in _sizes(effort)}
    same = all(
        sawtooth_network(*size, variant="ffn_skip").units_total == sawtooth_network(*size).units_total
        for size in found
    )
    return _counted(found, _saw_certificate(2, 2, 1, 2), besides=same, words="; as many units")


def _as_the_ideal(size: tuple[int, int, int, int], variant: Variant) -> tuple[int, list[Any], bool]:
    """Regions of a variant; points, one in each region, and whether its values there are the ideal map's."""
    d, n, w, depth = size
    network, ideal = sawtooth_network(*size, variant=variant), sawtooth_network(*size)
    points = _middles(d, (2 * w * n) ** depth)
    equal = all(network.exact_value(point) == ideal.exact_value(point) for point in points)
    return n_regions(*size, variant), points, equal


def _weights(layer: Any) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in ("w_q", "w_k", "w_v", "w_o", "w_in", "w_out")}


@claim("tropical.v7_genuine_d_plus_3", "Theorem V.7, as transformers are built", Verdict.PROVED).states(
    "Self-attention without biases, in which all tokens pass through the same layers, gives "
    "the same regions with d_model = d + 3.",
    own=True,
    hypotheses="N context tokens and the moving one",
    computation="exact enumeration, and a pass over the whole sequence in fractions",
    proof="proofs.md#theorem-v7",
)
def _v7_genuine_d_plus_3(effort: Effort) -> Finding:
    size = (2, 2, 1, 2)
    d, n, w, depth = size
    pieces = (2 * w * n) ** depth
    found, points, equal = _as_the_ideal(size, "genuine")
    layer, tokens = genuine_sawtooth(d, n, w)
    return holding(
        found == pieces**d and equal and tokens.shape[1] == d + 3,
        f"(d,N,w,L) = {size}: {found} regions, equal to the ideal map at {len(points)} points; tokens of "
        f"width {tokens.shape[1]}, every token updated by the same layers, no bias",
        {"regions": found, "points": len(points), "width": int(tokens.shape[1])},
        Certificate(
            "shared_layer",
            {**_weights(layer), "tokens": tokens, "size": list(size)},
            {"signatures": pieces**d, "width": d + 3},
        ),
    )


@claim("tropical.v7_genuine_d_plus_1", "Theorem V.7, as transformers are built", Verdict.PROVED).states(
    "Self-attention without biases, in which all tokens pass through the same layers, has (2wN)^(dL) linear "
    "regions with d_model = d + 1.",
    own=True,
    hypotheses="N context tokens, one with value 0, and the moving one; d heads of width 2, d (2w + 1) + 2 "
    "units",
    computation="exact enumeration, and a pass over the whole sequence in fractions",
    proof="theorems.md#theorem-7",
)
def _v7_genuine_d_plus_1(effort: Effort) -> Finding:
    size = (2, 2, 1, 2)
    d, n, w, depth = size
    pieces = (2 * w * n) ** depth
    found, points, equal = _as_the_ideal(size, "narrow")
    layer, tokens = narrow_sawtooth(d, n, w)
    still = bool((layer(tokens)[:-1] == tokens[:-1]).all())
    return holding(
        found == pieces**d and equal and still and tokens.shape == (n + 2, d + 1),
        f"(d,N,w,L) = {size}: {found} regions, equal to the ideal map at {len(points)} points; tokens of "
        f"width {tokens.shape[1]}, every token updated by the same layers, no bias",
        {"regions": found, "points": len(points), "width": int(tokens.shape[1])},
        Certificate(
            "shared_layer",
            {**_weights(layer), "tokens": tokens, "size": list(size)},
            {"signatures": pieces**d, "width": d + 1},
        ),
    )


def n_maps(cells: RegionSet) -> int:
    """How many different affine maps the cells carry; their entries are whole numbers here."""
    maps = np.concatenate([cells.linear.reshape(cells.n_cells, -1), cells.offset], axis=1)
    return len(np.unique(maps, axis=0))


_D = 2  # figure 1 draws in the plane
_LARGEST_PANEL = 6000  # cells; larger panels show a corner


# Figure 1
# ----------------------------------------------------------------------------------------------------


@recipe(
    "tropical.fig1",
    "Regions of a transformer of depth 1, 2, 3: the network of Theorem V.7, counted exactly",
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
)
def _run_figure_1(settings: Settings) -> Outcome:
    from hardmax.plotting.growth import draw_explosion

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
    printed = [_printed_bound(_D, n, teeth, depth) for depth in depths]
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
                "paper_lower_bound": printed,
                "cells": cells,
                "regions": regions,
                "(2wN)^(dL)": [bound.lower.value for bound in bounds],
                "upper_bound": [bound.upper.value for bound in bounds],
                "cells_with_fold_on_the_border": [unchanged.get(depth) for depth in depths],
            }
        },
        comparisons=(
            *(
                stated(
                    f"regions at depth {depth}, d = 2, N = {n}, w = {teeth}",
                    f"Theta(N^(dL)); N^(dL) = {power}",
                ).compared(
                    f"{count} (counted {'exactly' if exact else 'with floats'}), "
                    f"{Fraction(count, power)} times N^(dL)",
                    None,
                )
                for depth, power, count in zip(depths, promised, regions, strict=True)
            ),
            stated(
                "the count of Theorem V.7, (N^d w^d)^L",
                ", ".join(map(str, printed)),
                "tropical.v7_formula_equality",
            ).compared(", ".join(map(str, regions)), regions == printed, exactly=exact),
            stated("at least (N^d w^d)^L", ", ".join(map(str, printed)), "tropical.v7_bound").compared(
                ", ".join(map(str, regions)),
                all(count >= bound for count, bound in zip(regions, printed, strict=True)),
            ),
            stated("exactly (2wN)^(dL)", "not stated", "tropical.v7_count").compared(
                ", ".join(map(str, regions)), regions == [bound.lower.value for bound in bounds]
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
        given: Any = block
        if given.width:  # a ReLU layer
            w_in, b_in, w_out, b_out = map(_exact, (given.w_in, given.b_in, given.w_out, given.b_out))
            linear = [unit for unit in range(len(b_in)) if b_in[unit] == Fraction(1, 2)]
            b_in[linear] += 1
            given = FeedForward(w_in, b_in, w_out, b_out - w_out[:, linear].sum(axis=1), skip=given.skip)
        blocks.append(given)
    return Network(tuple(blocks))


def _exact(array: Any) -> Any:
    """The entries of an exact array as fractions."""
    return np.vectorize(Fraction, otypes=[object])(
        array.floats if array.fractions is None else array.fractions
    )


@claim("tropical.rem_v8", "Remark V.8", Verdict.FAILS).states(
    "In the construction the ReLU layer shatters every attention cell as much as it can.",
    hypotheses="d = 2, d_ff = 8; as much as it can: into as many pieces as d_ff units can make",
    computation="pieces of the construction and of eight generic units",
    correction="It cuts a cell into (2w)^d pieces; generic units into R(d_ff, d), up to 2.31 times as many "
    "at d = 2 and 9.83 times at d = 4. Of order d_ff^d both are.",
)
def _rem_v8(effort: Effort) -> Finding:
    d, d_ff = 2, 8
    w = d_ff // (2 * d)
    made = int(count_cells(sawtooth_network(d, 1, w, 1), Box.cube(d, 0, 1)))  # one attention cell
    lines, cells = tangents(d_ff)
    most = zaslavsky(d_ff, d)
    ratios = [zaslavsky(4 * d, d) / 4**d for d in (2, 3, 4)]
    return failing(
        made == (2 * w) ** d and cells.n_cells == most > made,
        f"eight units in the plane: the construction cuts a cell into {made} pieces, generic units into "
        f"{cells.n_cells}; the ratio for d = 2, 3, 4 and d_ff = 4d: {', '.join(f'{r:.2f}' for r in ratios)}",
        {"construction": made, "generic": cells.n_cells, "ratios": ratios},
        Certificate(
            "sign_vectors",
            {"hyperplanes": lines, "points": [cells.exact_witness(i) for i in range(cells.n_cells)]},
            {"cells": most, "maximum": most, "construction": made},
        ),
    )


def _exponent(heads: int, d: int, *, biased: bool) -> float:
    """log2 of V(2N) / V(N) at N = 2^40."""
    n = 2**40
    one, two = (vertex_maximum(k * n, heads, d, biased=biased) for k in (1, 2))
    return float(np.log2(two / one))


@claim("tropical.theta_exponent", "Corollary V.9", Verdict.UNSTATED).states(
    "With H >= d heads the largest number of linear regions grows as N^(dL).",
    unstated="Scores are affine (a query bias, or a constant coordinate), and keys and values are chosen "
    "freely in every layer; d_ff >= 2d.",
    hypotheses="d, H, d_ff, L fixed; section III-D and appendices D and E define scores without a bias",
    computation="growth of the largest number of cells with affine and with linear scores, and regions of "
    "the construction",
    correction="N^(min(H, d) L) with affine scores and N^(min(H, d-1) L) with linear ones, free keys in both "
    "cases (tropical.theta_exponent_linear).",
    proof="theorems.md#theorem-2",
)
def _theta_exponent(effort: Effort) -> Finding:
    slopes = {(h, d): _exponent(h, d, biased=True) for d in (1, 2, 3) for h in (1, 2, 3, 5)}
    right = all(abs(slope - min(h, d)) < 1e-6 for (h, d), slope in slopes.items())
    counted = [n_regions(1, n, 1, 2, "plain") for n in (2, 4, 8)]
    grown = [b / a for a, b in pairwise(counted)]
    n = 10**6
    most = vertex_maximum(n, 2, 2) * zaslavsky(4, 2)
    return earned(
        Verdict.UNSTATED,
        right and grown == [4.0, 4.0] and most < n**2,
        f"affine scores: exponent min(H, d) for {len(slopes)} pairs; d = 1, L = 2, N = 2, 4, 8: "
        f"{', '.join(map(str, counted))} regions, N^2 times a constant; linear scores, d = H = 2, N = 10^6, "
        f"d_ff = 4: at most {most} cells, claimed at least {n**2}",
        {"exponents": {str(pair): slope for pair, slope in slopes.items()}, "regions": counted},
        Certificate(
            "growth",
            {"depth": 2, "tokens": [2, 4, 8], "bias_free": [n, 2, 4, 1]},
            {"regions": counted, "at_most": most, "claimed": n**2},
        ),
    )


@claim("tropical.theta_exponent_linear", "Corollary V.9, for linear scores", Verdict.PROVED).states(
    "With linear scores and free keys in every layer the largest number of linear regions grows as "
    "N^(min(H, d-1) L).",
    own=True,
    hypotheses="d >= 2, H, d_ff, L fixed, d_ff >= 2(d - 1), biases in the ReLU layers",
    computation="growth of the largest number of cells, and regions of the construction on a slice",
    proof="theorems.md#theorem-2",
)
def _theta_exponent_linear(effort: Effort) -> Finding:
    slopes = {(h, d): _exponent(h, d, biased=False) for d in (2, 3, 4) for h in (1, 2, 3, 5)}
    right = all(abs(slope - min(h, d - 1)) < 1e-6 for (h, d), slope in slopes.items())
    counted = []
    for n in (2, 4):
        network = sawtooth_network(2, n, 1, 2, variant="bias_free").restrict([0, 1], [[1, 0]])
        counted.append(count_regions(network, Box([0], [1])).n_regions)
    return holding(
        right and counted[1] == 4 * counted[0],
        f"linear scores: exponent min(H, d-1) for {len(slopes)} pairs; d = 2, L = 2, N = 2, 4 on the slice "
        f"x_2 = 1: {counted[0]}, {counted[1]} regions, N^2 times a constant",
        {"exponents": {str(pair): slope for pair, slope in slopes.items()}, "regions": counted},
    )


@claim("tropical.v9_gap", "Corollary V.9", Verdict.UNSTATED).states(
    "The remaining gap between upper and lower bound concerns only dimension-dependent constants.",
    unstated="The constants may depend on d_ff, H and L, which the corollary fixes, and not on d_model "
    "alone.",
    hypotheses="H = d, affine scores",
    computation="upper over lower bound at several N, and for growing depth",
    correction="It is (R(d_ff, d) / (2w)^d)^L, where w = floor(d_ff / (2d)) and R(n, d) is the sum of C(n, "
    "j) over j <= d: it depends on d_ff, and exponentially on L.",
    proof="theorems.md#theorem-2",
)
def _v9_gap(effort: Effort) -> Finding:
    d, d_ff, depths = 2, 8, [1, 4, 16]
    ratio = Fraction(zaslavsky(d_ff, d), (2 * (d_ff // (2 * d))) ** d)
    gaps = [ratio**depth for depth in depths]
    sizes = (2, 16, 1024)
    upper = {n: vertex_maximum(n, d, d, biased=True) * zaslavsky(d_ff, d) for n in sizes}
    lower = {n: (2 * (d_ff // (2 * d)) * n) ** d for n in sizes}
    return earned(
        Verdict.UNSTATED,
        ratio > 1 and gaps[-1] > 10**5 and all(upper[n] == ratio * lower[n] for n in sizes),
        f"d = 2, d_ff = 8: a factor {ratio} per layer at N = {', '.join(map(str, sizes))}, so "
        f"{', '.join(f'{float(gap):.3g}' for gap in gaps)} at depth {', '.join(map(str, depths))}",
        {"per_layer": ratio, "gaps": [float(gap) for gap in gaps]},
        Certificate(
            "gap",
            {"d": d, "d_ff": d_ff, "depths": depths},
            {"per layer": ratio, "gaps": [int(gap) for gap in gaps]},
        ),
    )


@claim("tropical.fig1", "Figure 1", Verdict.VACUOUS).states(
    "The numbers of regions at depth 1, 2, 3 strictly follow Theta(N^(dL)).",
    hypotheses="d = 2, N = 4, L = 1, 2, 3; the weights of the figure are not stated",
    computation="regions of the network of Theorem V.7 at these sizes, exactly",
    correction="A Theta says nothing about three numbers: each is a constant times N^(dL). The network of "
    "the theorem has (2wN)^(dL) regions: 64, 4096, 262144 for w = 1.",
)
def _fig1(effort: Effort) -> Finding:
    depths = (1, 2) if effort is Effort.QUICK else (1, 2, 3)
    found = [count_regions(_with_moved_fold(sawtooth_network(2, 4, 1, depth)), Box.cube(2, 0, 1)).n_regions
             for depth in depths]  # fmt: skip
    counts = [8 ** (2 * depth) for depth in (1, 2, 3)]
    return earned(
        Verdict.VACUOUS,
        found == counts[: len(found)],
        f"d = 2, N = 4, w = 1: {', '.join(map(str, found))} regions at depth "
        f"{', '.join(map(str, depths))}, which is 4^L times N^(2L); any other numbers would be a constant "
        "times N^(2L) too",
        {"regions": found},
        Certificate(
            "sawtooth_points",
            {"size": [2, 4, 1, 1], "counts": counts},
            {"regions": found[0], "constants": [4, 16, 64]},
        ),
    )
