"""P1 section IV: one head and its power diagram; figure 3.

The caption of figure 3 says that cells vanish because their weights |k|^2 are small. They vanish because the
key lies in the convex hull of the others: a second pair of diagrams shows the key with the smallest weight
keeping its cell while heavier keys lose theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.geometry.diagrams.power_diagrams import PowerDiagram, attention_diagram, power_diagram
from hardmax.geometry.domains import Box
from hardmax.networks.attention import Attention
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, holding
from hardmax.papers.recipes import Comparison, Option, Outcome, Settings, measured, recipe, stated

Integers = NDArray[np.int64]


@claim("tropical.def_iv2", "Definition IV.2", Verdict.PROVED).states(
    "A cell of a power diagram can be empty if other weights dominate; the cells of a Voronoi diagram "
    "(Definition IV.1) are never empty.",
    hypotheses="distinct sites",
    computation="cells of random sites with equal weights, and of three sites on a line with one light "
    "weight",
    proof="proofs.md#cells-of-voronoi-and-power-diagrams",
)
def _def_iv2(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    full = True
    for _ in range(20 if effort is Effort.QUICK else 200):
        sites = np.unique(rng.integers(-9, 10, (6, 2)), axis=0)
        full &= bool(power_diagram(sites, np.zeros(len(sites))).nonempty.all())
    points = np.array([[0], [1], [2]])
    heavy = [int(power_diagram(points, [0, w, 0]).nonempty.sum()) for w in (0, -2)]
    return holding(
        full and heavy == [3, 2],
        f"equal weights: every site has a cell: {full}; sites 0, 1, 2 with weights 0, 0, 0 have {heavy[0]} "
        f"cells, with 0, -2, 0 only {heavy[1]}",
        {"cells": heavy},
    )


@claim("tropical.power_voronoi", "Theorem IV.3", Verdict.PROVED).states(
    "The queries that go to key j are the power cell of the site k_j with weight |k_j|^2.",
    hypotheses="linear scores; any keys, ties included",
    computation="largest scores and least powers at integer queries, in integers",
    proof="power-diagrams.md#the-same-thing-twice",
)
def _power_voronoi(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    n_points = n_ties = 0
    agree = True
    for d, radius in ((2, 8), (3, 4)):
        points = _grid(d, radius)
        for _ in range(20 if effort is Effort.QUICK else 400):
            keys = rng.integers(-4, 5, (6, d))
            best, least = _largest(points @ keys.T), _least_power(points, keys, (keys**2).sum(axis=1))
            agree &= bool((best == least).all())
            agree &= bool((attention_diagram(keys).locate(points) == best.argmax(axis=1)).all())
            n_points += len(points)
            n_ties += int((best.sum(axis=1) > 1).sum())
    return holding(
        agree,
        f"{n_points} integer queries, {n_ties} of them on walls: the keys of largest score are the sites of "
        f"least power, ties included: {agree}",
        {"queries": n_points, "ties": n_ties},
    )


@claim("tropical.onehot_interior", "Theorem IV.3, Corollary IV.4", Verdict.PROVED).states(
    "Inside the cell of key j attention tends to the one-hot vector of j.",
    hypotheses="distinct keys, as the elements of a set of keys are",
    computation="winners at a point inside each cell, in fractions, for ten draws of at most eight keys with "
    "entries from -5 to 5 in each of d = 1, 2, 3; two identical keys beside it",
    correction="Nothing to correct. For a list with a repeated key it would fail: the two share the weight.",
    proof="proofs.md#inside-a-cell-one-key-wins-alone",
)
def _onehot_interior(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    n_cells, unique = 0, True
    for d in (1, 2, 3):
        for _ in range(10 if effort is Effort.QUICK else 100):
            keys = np.unique(rng.integers(-5, 6, (8, d)), axis=0)
            diagram = attention_diagram(keys)
            for j in np.flatnonzero(diagram.nonempty).tolist():
                scores = [_dot(key, diagram.witnesses[j]) for key in keys]
                unique &= scores.count(max(scores)) == 1 and scores.index(max(scores)) == j
                n_cells += 1
    shared = float(
        Network((Attention([[[1, 0], [1, 0], [-1, 0]]], None, [[[2], [0], [0]]], skip=False),))([2.0, 1.0])[0]
    )
    return holding(
        unique and n_cells > 0,
        f"{n_cells} cells of distinct integer keys: at the witness of each its key wins alone: {unique}; "
        f"a repeated key with values 2 and 0 gives {shared:g}, their mean",
        {"cells": n_cells},
    )


@claim("tropical.cell_nonempty_iff_vertex", "Theorem IV.3", Verdict.PROVED).states(
    "The cell of a key has interior exactly if the key is a vertex of the hull of all keys.",
    own=True,
    hypotheses="linear scores, distinct keys",
    computation="a winning query or exact convex weights for every key of random integer heads",
    correction="The paper says that cells are possibly empty; they always hold the origin, and may lack "
    "interior.",
    proof="power-diagrams.md#a-proof-for-every-key",
)
def _cell_nonempty_iff_vertex(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    full = empty = 0
    proven = True
    certificate = None
    for d in (2, 3, 4):
        for _ in range(4 if effort is Effort.QUICK else 50):
            keys = np.unique(rng.integers(-6, 7, (12, d)), axis=0)
            record, shown = _proven_diagram(keys)
            proven &= shown
            full += len(record["winners"])
            empty += len(record["losers"])
            certificate = certificate or _diagrams(record)[1]
    return holding(
        proven,
        f"{full + empty} distinct integer keys: {full} win on an open set and have a query in which they are "
        f"extreme, {empty} lie in the hull of the others with exact weights",
        {"with_interior": full, "in_the_hull_of_others": empty},
        certificate,
    )


@claim("tropical.cells_are_cones", "Theorem IV.3", Verdict.PROVED).states(
    "The cells of linear scores are cones with apex 0.",
    own=True,
    hypotheses="linear scores",
    computation="winners at integer queries and at their multiples",
    proof="proofs.md#cells-of-linear-scores-are-cones",
)
def _cells_are_cones(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    n_queries, agree = 0, True
    for d in (1, 2, 3):
        points = _grid(d, 3)
        for _ in range(20 if effort is Effort.QUICK else 200):
            keys = rng.integers(-5, 6, (7, d))
            agree &= all(
                bool((_largest(t * points @ keys.T) == _largest(points @ keys.T)).all()) for t in (2, 3, 50)
            )
            n_queries += 3 * len(points)
    return holding(
        agree,
        f"{n_queries} scaled integer queries go to the same keys as before, ties included: {agree}",
        {"queries": n_queries},
    )


@claim("tropical.contains_origin", "Theorem IV.3, Definition IV.2", Verdict.PROVED).states(
    "Every cell of linear scores contains the origin, so none is empty.",
    own=True,
    hypotheses="linear scores; closed cells",
    computation="scores at the origin",
    proof="proofs.md#cells-of-linear-scores-are-cones",
)
def _contains_origin(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    return _origin_in_every_cell([rng.integers(-9, 10, (n, d)) for n in range(1, 9) for d in (1, 2, 5)])


def _origin_in_every_cell(heads: Sequence[NDArray[Any]]) -> Finding:
    agree = all(bool(_largest(np.zeros((1, k.shape[1]), dtype=k.dtype) @ k.T).all()) for k in heads)
    return holding(
        agree,
        f"{len(heads)} sets of keys: at the origin every score is 0, so it lies in every closed cell: "
        f"{agree}",
        {"heads": len(heads)},
    )


@claim("tropical.cells_bounded", "Corollary IV.4", Verdict.MISPRINT).states(
    "The cells on which softmax collapses to arg max are bounded.",
    hypotheses="linear scores, as the paper defines attention",
    computation="a ray in a cell of three keys",
    correction="Every cell with interior is an unbounded cone. The proof does not use the word.",
    proof="proofs.md#cells-of-linear-scores-are-cones",
)
def _cells_bounded(effort: Effort) -> Finding:
    keys = [[1, 0], [-1, 2], [-1, -2]]
    rays = attention_diagram(keys)
    reached = rays.locate([[1.0, 0.0], [1e6, 0.0], [1e300, 0.0]]).tolist()
    return earned(
        Verdict.MISPRINT,
        reached == [0, 0, 0],
        "keys (1,0), (-1,2), (-1,-2): the cell of the first holds the whole ray from the origin through "
        "(1,0)",
        {"winners_along_the_ray": reached},
        Certificate(
            "recession",
            {"scores": keys, "point": [1, 0], "direction": [1, 0]},
            {"winner": 0, "unbounded": True},
        ),
    )


@claim("tropical.equal_norm_voronoi", "Remark IV.6", Verdict.PROVED).states(
    "Keys of equal norm give the Voronoi diagram.",
    hypotheses="linear scores",
    computation="best and nearest keys at integer queries, keys of squared norm 65 and 41",
    proof="power-diagrams.md#the-same-thing-twice",
)
def _equal_norm_voronoi(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    n_points, agree, full = 0, True, True
    for d, radius, norm in ((2, 8, 65), (3, 4, 41)):
        sphere = _grid(d, 8)
        sphere = sphere[(sphere**2).sum(axis=1) == norm]
        points = _grid(d, radius)
        for _ in range(20 if effort is Effort.QUICK else 200):
            keys = sphere[rng.choice(len(sphere), 6, replace=False)]
            zeros = np.zeros(len(keys), dtype=np.int64)
            agree &= bool((_largest(points @ keys.T) == _least_power(points, keys, zeros)).all())
            full &= bool(attention_diagram(keys).nonempty.all())
            n_points += len(points)
    return holding(
        agree and full,
        f"{n_points} integer queries, keys of equal norm: the best key is the nearest, ties included: "
        f"{agree}; every key has a cell: {full}",
        {"queries": n_points},
    )


@claim("tropical.layernorm_norms_keys", "Remark IV.6", Verdict.UNSTATED).states(
    "LayerNorm or l2 normalisation of the keys makes all of them equally long.",
    unstated="The normalisation acts on the keys themselves, without a gain and a bias of its own.",
    hypotheses="keys that are not constant",
    computation="three keys with mean 0 and mean square 1, exactly, with a gain of (2, 1, 1, 1) and without; "
    "LayerNorm of 200 Gaussian keys, with a gain between 1/2 and 2",
    correction="In implementations LayerNorm acts on tokens, before the key matrix, and has gain and bias; "
    "then the keys keep different lengths.",
    proof="power-diagrams.md#the-same-thing-twice",
)
def _layernorm_norms_keys(effort: Effort) -> Finding:
    a, b = Fraction(7, 5), Fraction(1, 5)
    keys: list[Any] = [[1, -1, 1, -1], [a, -a, b, -b], [b, -b, a, -a]]  # mean 0 and mean square 1 already
    gain = [2, 1, 1, 1]
    norms = [sum(x * x for x in key) for key in keys]
    with_gain = [sum((g * x) ** 2 for g, x in zip(gain, key, strict=True)) for key in keys]
    rng = np.random.default_rng(0)
    random = rng.standard_normal((200, 7))
    lengths = [float((_layer_norm(key) ** 2).sum()) for key in random]
    weights = rng.uniform(0.5, 2.0, 7)
    gained = [float(((_layer_norm(key) * weights) ** 2).sum()) for key in random]
    spread = max(gained) / min(gained)
    return earned(
        Verdict.UNSTATED,
        len(set(norms)) == 1 and max(abs(x - 7) for x in lengths) < 1e-9 and spread > 1.1,
        "(1, -1, 1, -1), (7, -7, 1, -1)/5 and (1, -1, 7, -7)/5 have squared norms "
        f"{', '.join(map(str, norms))}, with the gain "
        f"{', '.join(map(str, with_gain))}; {len(lengths)} random keys of dimension 7 have 7 "
        f"after LayerNorm, and squared norms that differ by a factor {spread:.1f} with a gain",
        {"squared_norms": norms, "spread_with_gain": spread},
        Certificate(
            "normalised_keys",
            {"keys": keys, "gain": gain},
            {"squared_norms": norms, "with_gain": with_gain},
        ),
    )


@claim("tropical.fig3_caption", "Figure 3", Verdict.PROVED).states(
    "Cells that disappear belong to keys of relatively small weight |k|^2.",
    hypotheses="linear scores, distinct keys; relatively small: smaller than the weight of another key",
    computation="weights of keys with and without a cell, in two exact diagrams and in random ones",
    correction="The converse is false: a cell has no interior exactly if its key lies in the hull of the "
    "others, so that the lightest key may keep its cell while a heavier one loses its own.",
    proof="proofs.md#keys-without-a-cell-are-short",
)
def _fig3_caption(effort: Effort) -> Finding:
    small_wins = np.array([[1, 0], [-50, 10], [-50, -10]])
    large_loses = np.array([[90, 10], [90, -10], [89, 0], [0, 1]])
    records, shown = zip(*map(_proven_diagram, (small_wins, large_loses)), strict=True)
    winning, certificate = _diagrams(*records)
    rng = np.random.default_rng(0)
    lost, lighter = 0, True
    for _ in range(100 if effort is Effort.QUICK else 2000):
        keys = rng.standard_normal((7, 2))
        weights, kept = (keys**2).sum(axis=1), attention_diagram(keys).nonempty
        lost += int((~kept).sum())
        lighter &= bool((weights[~kept] < weights.max()).all())
    return holding(
        all(shown) and winning == [[0, 1, 2], [0, 1, 3]] and lost > 0 and lighter,
        f"{lost} random keys without a cell, each lighter than another key: {lighter}; but weights 1, 2600, "
        "2600: every key has a cell; weights 8200, 8200, 7921, 1: the third key has none, the last has",
        {"winning": winning, "without_cell": lost},
        certificate,
    )


@claim("tropical.rem_iv5", "Remark IV.5", Verdict.PROVED).states(
    "In the space of all tokens, where keys move with the input, the partition is not a product of regions "
    "of the single tokens.",
    hypotheses="self-attention, no fixed context",
    computation="two sequences with one winner, and the sequence that takes a token from each: two tokens of "
    "one number with scores x_0 x_j; 2000 pairs of sequences of four Gaussian tokens in dimension 3 with one "
    "Gaussian form, token 0 from the first sequence and the others from the second",
    correction="Nor are its cells convex: walls are quadrics there. All that is counted is for a fixed "
    "context, as the remark says.",
    proof="proofs.md#the-partition-of-whole-sequences",
)
def _rem_iv5(effort: Effort) -> Finding:
    first, second = [[1], [0]], [[3], [2]]
    rng = np.random.default_rng(0)
    tried = 2000 if effort is Effort.QUICK else 20000
    pairs = rng.standard_normal((tried, 2, 4, 3))
    form = rng.standard_normal((3, 3))
    mixed = np.concatenate([pairs[:, 0, :1], pairs[:, 1, 1:]], axis=1)
    winners = [_attended(tokens, form) for tokens in (pairs[:, 0], pairs[:, 1], mixed, pairs.mean(axis=1))]
    same = winners[0] == winners[1]
    products, convex = (int((same & (each != winners[0])).sum()) for each in winners[2:])
    return holding(
        products > 0 and convex > 0,
        "two tokens in one dimension: token 0 attends to itself at (1, 0) and at (3, 2), but to token 1 at "
        f"(1, 2); among {int(same.sum())} random pairs with the same winner the mixed sequence has another "
        f"{products} times, the midpoint {convex} times",
        {"pairs": int(same.sum()), "mixed": products, "midpoint": convex},
        Certificate(
            "self_attention", {"form": [[1]], "first": first, "second": second}, {"winners": [0, 0, 1]}
        ),
    )


def _grid(d: int, radius: int) -> Integers:
    return np.array(list(product(range(-radius, radius + 1), repeat=d)), dtype=np.int64)


def _largest(scores: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(scores == scores.max(axis=1, keepdims=True))


def _least_power(points: Integers, sites: Integers, weights: Integers) -> NDArray[np.bool_]:
    power = ((points[:, None, :] - sites[None]) ** 2).sum(axis=2) - weights
    return np.asarray(power == power.min(axis=1, keepdims=True))


def _layer_norm(token: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = token - token.mean()
    return np.asarray(centred / np.sqrt((centred**2).mean()))


def _attended(tokens: NDArray[np.float64], form: NDArray[np.float64]) -> NDArray[np.int64]:
    """The token to which the first token of each sequence attends."""
    return np.asarray(np.einsum("bd,de,bne->bn", tokens[:, 0], form, tokens).argmax(axis=1))


def _dot(key: Integers, point: NDArray[np.float64]) -> Fraction:
    return sum((int(a) * Fraction(float(b)) for a, b in zip(key, point, strict=True)), Fraction(0))


def _proven_diagram(keys: NDArray[Any]) -> tuple[dict[str, Any], bool]:
    """The data of a certificate for which keys have cells, and whether the library's own check passes."""
    diagram = attention_diagram(keys)
    winners: dict[int, list[Any]] = {}
    losers: dict[int, list[Fraction]] = {}
    passed = True
    for j in range(len(keys)):
        if diagram.nonempty[j]:
            winners[j] = list(diagram.exact_witnesses.get(j, diagram.witnesses[j].tolist()))
        else:
            certificate = diagram.empty_certificate(j)
            passed &= certificate.verify()
            weights = [Fraction(0)] * len(keys)
            for i, weight in zip(certificate.support.tolist(), certificate.weights, strict=True):
                weights[i] = weight
            losers[j] = weights
    rows = [[*key, 0] for key in keys.tolist()]
    return {"scores": rows, "winners": winners, "losers": losers}, passed


def _diagrams(*records: dict[str, Any]) -> tuple[list[list[int]], Certificate]:
    """Which keys of each diagram win, and the certificate of it."""
    winning = [sorted(map(int, record["winners"])) for record in records]
    return winning, Certificate("diagrams", {"diagrams": records}, {"winning": winning})


# The lightest key (weight 0.25) is a corner of the hull; keys 4 and 5 (weights 4.52 and 6.05) lie inside.
_LIGHT_CORNER = np.array([[0.5, 0.0], [-3.0, 2.5], [-3.0, -2.5], [-4.0, 0.3], [-2.1, 0.33], [-2.4, -0.55]])


@recipe(
    "tropical.fig3",
    "Voronoi diagram and power diagram of the same keys; why cells vanish",
    Option("n_tokens", 7, "Gaussian keys; not stated", least=1),
    Option("decimals", 2, "digits to which the drawn keys are rounded", least=0),
    Option("box", 3.0, "the pictures show [-box, box]^2; not stated", positive=True),
    Option("draws", 100, "random sets of keys that are asked", medium=1000, paper=1000, least=1),
)
def _run_figure_3(settings: Settings) -> Outcome:
    keys = settings.rng("keys").standard_normal((settings["n_tokens"], 2)).round(settings["decimals"])
    box = Box.cube(2, -settings["box"], settings["box"])
    pictures = {"fig3": (keys, box), "fig3_light_corner": (_LIGHT_CORNER, Box.cube(2, -4.5, 4.5))}
    diagrams = {name: attention_diagram(points) for name, (points, _) in pictures.items()}
    drawn, example = diagrams["fig3"], diagrams["fig3_light_corner"]
    lost = [np.flatnonzero(~one.nonempty).tolist() for one in (drawn, example)]
    return Outcome(
        figures={name: _pair(diagrams[name], points, shown) for name, (points, shown) in pictures.items()},
        tables={"keys": _table(drawn), "keys_light_corner": _table(example)},
        comparisons=(
            measured(
                "keys that lose their cell from (a) to (b)",
                "two (purple, orange)",
                f"{int((~drawn.nonempty).sum())} of {drawn.n_keys} (the paper does not state its keys)",
            ),
            _blamed_on_weights(example),
            stated(
                "every key without a cell is a convex combination of others",
                "not stated",
                "tropical.cell_nonempty_iff_vertex",
            ).compared(
                f"{sum(map(len, lost))} certificates, checked in rationals",
                all(
                    one.empty_certificate(j).verify()
                    for one, keys in zip((drawn, example), lost, strict=True)
                    for j in keys
                ),
                exactly=True,
            ),
            stated(
                "every closed cell of (b) contains the origin, where all scores are 0",
                "cells are called possibly empty",
                "tropical.contains_origin",
            ).judged("only interiors vanish", _origin_in_every_cell([keys for keys, _ in pictures.values()])),
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
    certificates = [None if won else diagram.empty_certificate(j) for j, won in enumerate(diagram.nonempty)]
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


def _blamed_on_weights(diagram: PowerDiagram) -> Comparison:
    weights = (diagram.sites**2).sum(axis=1)
    lightest = int(weights.argmin())
    heavier = np.flatnonzero(~diagram.nonempty & (weights > weights[lightest])).tolist()
    computed = (
        f"key {lightest} has the smallest weight ({weights[lightest]:.2f}) and "
        f"{'a' if diagram.nonempty[lightest] else 'no'} cell; the heavier keys "
        f"{', '.join(map(str, heavier))} have none (fig3_light_corner)"
    )
    return measured(
        "the key of smallest weight, and heavier keys without a cell",
        "not stated",
        computed,
        claim="tropical.fig3_caption",
    )


def _lightest_keys(settings: Settings) -> Comparison:
    draws, kept, any_lost = settings["draws"], 0, 0
    for i in range(draws):
        keys = settings.rng("draws", i).standard_normal((settings["n_tokens"], 2))
        nonempty = attention_diagram(keys).nonempty
        any_lost += not nonempty.all()
        kept += bool(nonempty[(keys**2).sum(axis=1).argmin()]) and not nonempty.all()
    return measured(
        f"Gaussian keys, {draws} draws: the lightest key keeps its cell while another loses its own",
        "not stated",
        f"{kept} of the {any_lost} draws in which a cell vanishes",
        claim="tropical.fig3_caption",
    )
