"""P1 Proposition V.1 to Theorem V.5, Example V.3, appendix D, figures 4 and 7: what heads and blocks cut.

Counts come from exact enumeration; the certificates list a query for every cell, so that anybody can see
that it is there. That there are no more follows from the Euler characteristic (``docs/minkowski.md``).
Figure 4 says that three heads of N = 6 keys in space go from 6 to 216 vertices: 216 is the number of sums
N^H, at most 92 of them are vertices. Example V.3 compares one head with eight at the same number of
parameters.

Figure 7 draws the partition of a block as the common refinement of the attention cells and one arrangement of
folds. The ReLU layer sees x + v_j, so each attention cell has the arrangement shifted by its own value: the
block of figure 7 has eight cells, one more than any refinement of a wall and two folds can have. The product
bound is true: cells of attention times cells of the arrangement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.bounds import head_budget, vertex_maximum, zaslavsky
from hardmax.bounds.large_integers import log10_of, readable
from hardmax.errors import InvalidInputError
from hardmax.geometry.diagrams.power_diagrams import attention_diagram
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.many_heads import expected_vertices, vertices_from_subsets
from hardmax.geometry.minkowski import MinkowskiVertices, minkowski_vertices, mixed_counts, parabolic_heads
from hardmax.networks.attention import Attention
from hardmax.networks.blocks import FeedForward
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, failing, holding
from hardmax.papers.recipes import Comparison, Option, Outcome, Settings, measured, recipe, stated, tabulated
from hardmax.papers.tropical.sec7_counts import random_transformers
from hardmax.regions.api import count_cells, enumerate_regions


@claim("tropical.single_head_le_n", "Proposition V.1", Verdict.PROVED).states(
    "The Newton polytope of one head has at most N vertices.",
    hypotheses="linear scores; with linear scores on the line at most 2",
    computation="cells of Gaussian keys and of the same keys on the unit sphere, three draws for each N = "
    "1, 2, 5, 20 and d = 1, 2, 3, 5",
    proof="proofs.md#several-heads-are-a-minkowski-sum",
)
def _single_head_le_n(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    n_heads, most, on_sphere, on_line = 0, 0.0, True, 0
    for d in (1, 2, 3, 5):
        for n in (1, 2, 5, 20):
            for _ in range(3 if effort is Effort.QUICK else 30):
                keys = rng.standard_normal((n, d))
                cells = int(attention_diagram(keys).nonempty.sum())
                most = max(most, cells / n)
                sphere = keys / np.linalg.norm(keys, axis=1, keepdims=True)
                if d >= 2:
                    on_sphere &= bool(attention_diagram(sphere).nonempty.all())
                else:
                    on_line = max(on_line, cells)
                n_heads += 1
    return holding(
        most <= 1 and on_sphere and on_line <= 2,
        f"{n_heads} random heads: at most {most:g} times N cells; keys on a sphere have all N: "
        f"{on_sphere}; on the line at most {on_line}",
        {"heads": n_heads, "largest_share": most},
    )


@claim("tropical.mink_product_regime", "Theorem V.2, H <= d", Verdict.PROVED).states(
    "Few heads cut at most N^H cells, and N^H is reached.",
    hypotheses="H <= d-1 for linear scores, H <= d for affine ones",
    computation="exact enumeration of heads with the scores 2 p (u_h . x) - p^2 for N numbers p, the "
    "directions u_h independent; linear: -p^2 is the factor of the last coordinate. N = 2, 3, 4, every H in "
    "d <= 3 (affine) or d <= 4 (linear)",
    correction="For H = d linear heads the maximum is N^d - (N-1)^d + 1, of exponent d-1.",
    proof="proofs.md#few-heads-reach-every-combination",
)
def _mink_product_regime(effort: Effort) -> Finding:
    top = 4 if effort is Effort.QUICK else 6
    linear = [(n, h, d) for d in (2, 3, 4) for h in range(1, d) for n in (2, 3, top)]
    affine = [(n, h, d) for d in (1, 2, 3) for h in range(1, d + 1) for n in (2, 3, top)]
    attained = all(_parabolic(n, h, d, False).count == n**h for n, h, d in linear)
    attained &= all(_parabolic(n, h, d, True).count == n**h for n, h, d in affine)
    beyond = _parabolic(6, 3, 3, False).count
    return holding(
        attained and beyond < 6**3,
        f"{len(linear)} settings with linear scores and H <= d-1 and {len(affine)} with affine ones and H "
        f"<= d reach N^H exactly; H = d with linear scores does not: {beyond} of 216 at N = 6, d = 3",
        {"settings": len(linear) + len(affine)},
        _heads_certificate([_parabolic(3, 2, 3, False), _parabolic(3, 2, 2, True)], [9, 9]),
    )


@claim("tropical.mink_max_linear", "Theorem V.2, exact", Verdict.PROVED).states(
    "H heads of N keys with linear scores cut at most sum_{j<d} C(H,j)(N-1)^j + C(H-1,d-1) "
    "cells, and this is attained.",
    own=True,
    hypotheses="N >= 2",
    computation="parabolic heads attain it, random heads stay below, d up to 4",
    proof="theorems.md#theorem-3",
)
def _mink_max_linear(effort: Effort) -> Finding:
    settings = [(5, 4, 2), (4, 4, 3), (3, 5, 3), (3, 4, 4)]
    return _maximum(settings, biased=False, effort=effort)


@claim("tropical.mink_max_affine", "Theorem V.2, exact", Verdict.PROVED).states(
    "H heads of N keys with affine scores cut at most sum_{j<=d} C(H,j)(N-1)^j cells, and this is attained.",
    own=True,
    hypotheses="N >= 2",
    computation="parabolic heads attain it, random heads stay below, d up to 3",
    proof="theorems.md#theorem-3",
)
def _mink_max_affine(effort: Effort) -> Finding:
    settings = [(5, 4, 1), (4, 4, 2), (3, 5, 2), (3, 4, 3)]
    return _maximum(settings, biased=True, effort=effort)


def _maximum(settings: Sequence[tuple[int, int, int]], *, biased: bool, effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    found = [_parabolic(n, h, d, biased) for n, h, d in settings]
    most = [vertex_maximum(n, h, d, biased=biased) for n, h, d in settings]
    attained = [each.count for each in found] == most
    tried, above = 0, 0
    for (n, h, d), maximum in zip(settings, most, strict=True):
        for _ in range(10 if effort is Effort.QUICK else 200):
            keys = rng.standard_normal((h, n, d))
            biases = rng.standard_normal((h, n)) if biased else None
            above += minkowski_vertices(keys, biases).count > maximum
            tried += 1
    counts = ", ".join(
        f"{each.count} of {maximum} at (N,H,d) = {setting}"
        for setting, each, maximum in zip(settings, found, most, strict=True)
    )
    return holding(
        attained and above == 0,
        f"parabolic heads have {counts}; exceeded by {above} of {tried} random families",
        {"settings": list(settings), "maxima": most, "random_families": tried},
        _heads_certificate(found, most),
    )


@claim("tropical.euler_identity", "Theorem V.2, exact", Verdict.PROVED).states(
    "In r(S) = sum of m(T) over T in S, m(T) = 0 for affine scores and |T| > d, and "
    "(-1)^(d+|T|) for linear scores and |T| >= d.",
    own=True,
    hypotheses="general position",
    computation="cells of every subfamily of random heads",
    proof="theorems.md#theorem-3",
)
def _euler_identity(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    checked, agree = 0, True
    for d, heads, biased in ((1, 3, True), (2, 4, True), (2, 4, False), (3, 4, False)):
        for _ in range(2 if effort is Effort.QUICK else 20):
            keys = rng.standard_normal((heads, 4, d))
            biases = rng.standard_normal((heads, 4)) if biased else None
            for subset, term in _moebius(keys, biases).items():
                size = len(subset)
                if biased and size > d:
                    agree &= term == 0
                    checked += 1
                elif not biased and size >= d:
                    agree &= term == (-1) ** (d + size)
                    checked += 1
    return holding(
        agree,
        f"{checked} subfamilies T of random heads: m(T) = 0 for affine scores and |T| > d, (-1)^(d+|T|) for "
        f"linear scores and |T| >= d: {agree}",
        {"subfamilies": checked},
    )


@claim("tropical.gaussian_heads", "Theorem V.2, at random keys", Verdict.PROVED).states(
    "H heads of N keys with independent standard Gaussian entries and linear scores have on average twice "
    "the sum of the coefficients of z^(d-1), z^(d-3), ... of W(z)^H cells, a polynomial in H of degree d - "
    "1.",
    own=True,
    hypotheses="W(z) = sum_k (k+1) C(N,k+1) b_k g_k z^k with the inner and outer angles b_k, g_k of faces of "
    "a regular simplex with N corners; the theorem of Affentranger and Schneider (1992) is cited",
    computation="means over enumerated random families, within four standard errors; cells of one family "
    "from its subfamilies of d - 1 heads",
    proof="theorems.md#theorem-8",
)
def _gaussian_heads(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    samples = 40 if effort is Effort.QUICK else 1000
    rows, right = [], True
    for n, heads, d in ((6, 1, 2), (5, 3, 3), (4, 3, 4)):
        counts = [minkowski_vertices(rng.standard_normal((heads, n, d))).count for _ in range(samples)]
        mean, error = float(np.mean(counts)), float(np.std(counts, ddof=1) / np.sqrt(samples))
        formula = expected_vertices(n, heads, d)
        right &= abs(mean - formula) <= 4 * error
        rows.append((n, heads, d, mean, formula))
    keys = rng.standard_normal((6, 4, 3))
    right &= vertices_from_subsets(keys).value == minkowski_vertices(keys).count
    text = "; ".join(f"{mean:.2f} and {formula:.2f} at {(n, h, d)}" for n, h, d, mean, formula in rows)
    return holding(
        right,
        f"mean of {samples} families, and formula, at (N,H,d): {text}; six heads in space from their pairs",
        {"samples": samples, "formulas": [row[4] for row in rows]},
    )


def _moebius(keys: NDArray[Any], biases: NDArray[Any] | None) -> dict[tuple[int, ...], int]:
    """m(T) for every set T of heads, from the numbers of cells r(S) = sum of m(T) over T in S."""
    counts: dict[tuple[int, ...], int] = {(): 1}
    for size in range(1, len(keys) + 1):
        for subset in combinations(range(len(keys)), size):
            chosen = list(subset)
            found = minkowski_vertices(keys[chosen], None if biases is None else biases[chosen])
            counts[subset] = found.count
    return mixed_counts(counts)


@claim("tropical.saturated_floor_d_half", "Theorem V.2, H > d", Verdict.FAILS).states(
    "Many heads cut O((NH)^floor(d/2)) cells.",
    hypotheses="linear scores, H > d, heads in general position (their Cayley embedding is simplicial, that "
    "is: every facet that meets all heads is a simplex)",
    computation="exact enumeration of perturbed parabolic heads with d = 3, H = 4 and growing N; general "
    "position by determinants",
    correction="The exponent of N is min(H, d-1) for linear scores and min(H, d) for affine ones.",
    proof="proofs.md#many-heads-grow-with-degree-d-minus-1",
)
def _saturated_floor_d_half(effort: Effort) -> Finding:
    sizes = [4, 8, 16] if effort is Effort.QUICK else [4, 8, 16, 32]
    found = [minkowski_vertices(_perturbed(n, 4)) for n in sizes]
    ratios = [each.count / (4 * n) for each, n in zip(found, sizes, strict=True)]
    larger = [vertex_maximum(n, 4, 3) for n in (64, 256)]
    counts = ", ".join(str(each.count) for each in found)
    shown = len([n for n in sizes if n <= 16])  # queries of more cells would make a long file
    return failing(
        all(b > 1.8 * a for a, b in pairwise(ratios))
        and [each.count for each in found] == [vertex_maximum(n, 4, 3) for n in sizes],
        f"d = 3, H = 4, N = {', '.join(map(str, sizes))}, perturbed keys, whose general position the "
        f"certificate shows for N = 4: "
        f"{counts} cells, enumerated; divided by NH: {', '.join(f'{r:.2f}' for r in ratios)}, doubling with "
        f"N; at N = 64, 256 the maximum is {larger[0]}, {larger[1]}",
        {"n_tokens": sizes, "cells": [each.count for each in found], "over_nh": ratios},
        _heads_certificate(found[:shown], [each.count for each in found[:shown]]),
    )


def _perturbed(n: int, heads: int) -> NDArray[np.int64]:
    """Parabolic heads in space, moved a little into general position; a small move destroys no cell."""
    sets = np.array(parabolic_heads(n, heads, 3)[0], dtype=np.int64)
    return 10**4 * sets + np.random.default_rng(n).integers(-9, 10, sets.shape)


@claim("tropical.gs_quoted_ineq", "Appendix D", Verdict.PROVED).states(
    "A Minkowski sum of H polytopes with N vertices has at most sum_{k<d} C(H-1,k) N^(k+1) vertices.",
    hypotheses="d >= 2, N >= 2; as for tropical.mink_max_linear",
    computation="comparison with the exact maximum, in integers",
    correction="True but loose; the exact maximum is known.",
    proof="proofs.md#the-quoted-inequality-is-true-but-loose",
)
def _gs_quoted_ineq(effort: Effort) -> Finding:
    checked, holds = 0, True
    for d in range(2, 9):
        for heads in range(1, 13):
            for n in range(2, 12 if effort is Effort.QUICK else 100):
                quoted = sum(comb(heads - 1, k) * n ** (k + 1) for k in range(d))
                holds &= vertex_maximum(n, heads, d) <= quoted
                checked += 1
    loose = sum(comb(2, k) * 6 ** (k + 1) for k in range(3))
    return holding(
        holds and loose == 294,
        f"{checked} settings: the exact maximum is below; loose: at N = 6, H = d = 3 it says {loose}, the "
        f"maximum is {vertex_maximum(6, 3, 3)}",
        {"settings": checked, "quoted_at_fig4": loose},
    )


@claim("tropical.fig4_216", "Figure 4", Verdict.FAILS).states(
    "Three heads of six keys in space give a Minkowski sum with 216 vertices.",
    hypotheses="linear scores, N = 6, H = 3, d = 3",
    computation="the maximum, and integer keys that attain it, enumerated",
    correction="At most 92; 216 = 6^3 is the number of sums, all of them vertices with affine scores in "
    "space or linear scores in four dimensions.",
    proof="theorems.md#theorem-3",
)
def _fig4_216(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    trials = 20 if effort is Effort.QUICK else 500
    gaussian = [minkowski_vertices(rng.standard_normal((3, 6, 3))).count for _ in range(trials)]
    return _all_sums_are_vertices(6, 3, gaussian)


def _all_sums_are_vertices(n: int, heads: int, gaussian: Sequence[int]) -> Finding:
    """Whether a sum of heads of n keys in space can have n^heads vertices: the maximum, which integer keys
    attain, and the numbers of vertices of Gaussian keys."""
    found = _parabolic(n, heads, 3, False)
    sets = parabolic_heads(n, heads, 3)[0]
    steps = [minkowski_vertices(sets[:h]).count for h in range(1, heads + 1)]
    most, affine = vertex_maximum(n, heads, 3), _parabolic(n, heads, 3, True).count
    return earned(
        Verdict.FAILS if most < n**heads else Verdict.PROVED,
        most == found.count and found.verify().ok and max(gaussian) <= most,
        f"no more than {most} vertices are possible, and integer keys attain them "
        f"({', '.join(map(str, steps))} for {_listed(heads)}); Gaussian heads have "
        f"{np.mean(gaussian):.0f} on average; affine scores reach {affine}",
        {"maximum": most, "attained": steps, "gaussian_mean": float(np.mean(gaussian)), "affine": affine},
        _heads_certificate([found], [found.count]),
    )


def _listed(heads: int) -> str:
    """``one, two, three heads``."""
    return f"{', '.join(_WORDS.get(h, str(h)) for h in range(1, heads + 1))} head{'s' * (heads > 1)}"


_WORDS = {1: "one", 2: "two", 3: "three", 4: "four"}


@claim("tropical.pow_512_8", "Example V.3", Verdict.MISPRINT).states(
    "Eight heads of 512 tokens reach 512^8, which is about 1.1e21.",
    hypotheses="none",
    computation="the integer",
    correction="512^8 = 2^72 = 4.722e21; nothing is built on the number.",
)
def _pow_512_8(effort: Effort) -> Finding:
    value = 512**8
    return earned(
        Verdict.MISPRINT,
        not 10 * value < 11 * _PRINTED_POWER,  # further off than rounding to two digits allows
        f"512^8 = 2^72 = {value} = {value / 1e21:.3f}e21; printed 1.1e21, short by a factor of "
        f"{value / _PRINTED_POWER:.1f}",
        {"value": value, "printed": _PRINTED_POWER},
        Certificate("power", {"base": 512, "exponent": 8}, {"value": value}),
    )


_PRINTED_POWER = 11 * 10**20  # of Example V.3, for 512^8


@claim("tropical.cor_v4", "Corollary V.4", Verdict.PROVED).states(
    "For d_model much larger than H, attention has O(N^H) cells, and one head O(N), whatever d_model is.",
    hypotheses="linear scores, H <= d - 1",
    computation="cells of one and of two heads in four dimensions for growing N, exactly",
    correction="Exactly N^H is the maximum; heads of width d_k = 1 reach 2^H only.",
    proof="proofs.md#few-heads-reach-every-combination",
)
def _cor_v4(effort: Effort) -> Finding:
    sizes = (2, 4, 8)
    found = {n: _parabolic(n, 2, 4, False) for n in sizes}
    single = {n: _parabolic(n, 1, 4, False).count for n in sizes}
    return holding(
        all(found[n].count == n**2 == vertex_maximum(n, 2, 4) and single[n] <= n for n in sizes),
        f"d = 4, N = {', '.join(map(str, sizes))}: one head has {', '.join(str(single[n]) for n in sizes)} "
        f"cells, two have {', '.join(str(found[n].count) for n in sizes)}, N^2",
        {"two_heads": [found[n].count for n in sizes]},
        _heads_certificate([found[2], found[4]], [[2, 4], [4, 16]]),
    )


@claim("tropical.app_e_span", "Appendix E, remark on the span", Verdict.PROVED).states(
    "If the keys span d' < d dimensions, the bound on the cells holds with d' in place of d.",
    hypotheses="d' the dimension that the differences of keys of all heads span together",
    computation="cells of heads in a plane of space, exactly, beside the maximum in the plane",
    correction="It is the span of all heads together that counts: heads of rank one in different directions "
    "span as many dimensions as there are directions.",
    proof="proofs.md#keys-in-a-subspace",
)
def _app_e_span(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    checked, agree = 0, True
    for _ in range(5 if effort is Effort.QUICK else 40):
        flat = rng.integers(-9, 10, (3, 5, 2))
        lifted = flat @ rng.integers(-3, 4, (2, 3)) + rng.integers(-9, 10, (3, 1, 3))
        count = minkowski_vertices(list(lifted)).count
        agree &= count <= vertex_maximum(5, 3, 2)
        checked += 1
    best = minkowski_vertices(list(parabolic_heads(5, 3, 2)[0] @ np.array([[1, 0, 2], [0, 1, -1]]))).count
    return holding(
        agree and checked > 0 and best == vertex_maximum(5, 3, 2),
        f"{checked} families of three heads of five keys in a plane of space: never more than the "
        f"{vertex_maximum(5, 3, 2)} cells possible in the plane, which parabolic keys reach in space too",
        {"families": checked, "best": best},
    )


@claim("tropical.app_e_constant", "Appendix E", Verdict.MISPRINT).states(
    "The heads cut at most C_d N^min(H, d) cells, with a constant that depends on d.",
    hypotheses="linear scores",
    computation="the maximum in the plane for growing H",
    correction="C_{d,H}: the leading constant is C(H, d-1) for linear scores. The paper holds H fixed "
    "(Assumption E.1), so nothing else changes.",
    proof="theorems.md#theorem-3",
)
def _app_e_constant(effort: Effort) -> Finding:
    heads = [2, 20, 200]
    most = [vertex_maximum(10, h, 2) for h in heads]
    return earned(
        Verdict.MISPRINT,
        all(m == 10 * h for m, h in zip(most, heads, strict=True)),
        f"N = 10, d = 2, H = {', '.join(map(str, heads))}: at most {', '.join(map(str, most))} cells, NH: "
        "over N^min(H, d) this is at least H/10, which no constant of d bounds",
        {"maximum": most},
        Certificate("cell_bound", {"n_tokens": 10, "heads": heads}, {"maximum": most}),
    )


@claim("tropical.rem_v6", "Remark V.6", Verdict.PROVED).states(
    "Comparing all pairs of keys counts orders of the scores that routing does not see; one "
    "head has at most N cells.",
    hypotheses="linear scores",
    computation="orders and routing cells of four keys in space",
    proof="proofs.md#several-heads-are-a-minkowski-sum",
)
def _rem_v6(effort: Effort) -> Finding:
    keys = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -2, -3]])
    pairs = [keys[list(pair)] for pair in combinations(range(4), 2)]
    orders, routing = minkowski_vertices(pairs), minkowski_vertices([keys])
    return holding(
        orders.count == 24 and routing.count == 4,
        f"four keys in space: {orders.count} orders of the scores, {routing.count} routing cells",
        {"orders": orders.count, "cells": routing.count},
        _heads_certificate([orders, routing], [24, 4]),
    )


def _parabolic(n: int, heads: int, d: int, biased: bool) -> MinkowskiVertices:
    """The cells of the construction that attains the maximum."""
    sets, biases = parabolic_heads(n, heads, d, biased=biased)
    return minkowski_vertices(sets, biases)


def _heads_certificate(
    families: Sequence[MinkowskiVertices], counts: Sequence[int | list[int]]
) -> Certificate:
    """A query for every cell; ``counts`` are the cells of each family."""
    data = []
    for found in families:
        heads = []
        for h, keys in enumerate(found.point_sets):
            biases = np.zeros(len(keys.floats)) if found.biases is None else found.biases[h].floats
            rows = np.column_stack([keys.floats, biases])  # whole numbers, in every family here
            heads.append(rows.astype(np.int64).tolist())
        points = [found.exact_witnesses.get(i, tuple(w)) for i, w in enumerate(found.witnesses.tolist())]
        data.append({"heads": heads, "points": points})
    return Certificate("heads", {"families": data}, {"cells": list(counts)})


_D = 3  # the dimension in which figure 4 draws


@recipe(
    "tropical.fig4",
    "Newton polytopes of one, two and three heads: 92 vertices, not 216",
    Option("n_tokens", 6, "keys per head (the paper: 6)", least=2),
    Option("heads", 3, "heads in the last picture (the paper: 3)", least=1),
    Option("draws", 20, "Gaussian draws whose vertices are counted", medium=200, paper=1000, least=1),
)
def _run_figure_4(settings: Settings) -> Outcome:
    from hardmax.plotting.polytopes import compare_sums

    n_tokens, heads = settings["n_tokens"], settings["heads"]
    shape = (heads, n_tokens, _D)
    sums = _sums(parabolic_heads(n_tokens, heads, _D)[0])
    counts = [one.count for one in sums]
    draws = [settings.rng("gaussian", i).standard_normal(shape) for i in range(settings["draws"])]
    random = np.array([[one.count for one in _sums(keys)] for keys in draws])
    best = [vertex_maximum(n_tokens, h, _D) for h in range(1, heads + 1)]
    table: dict[str, Any] = {
        "heads": list(range(1, heads + 1)),
        "candidates": [n_tokens**h for h in range(1, heads + 1)],
        "maximum": best,
        "drawn": counts,
        "gaussian_mean": random.mean(axis=0),
        "gaussian_least": random.min(axis=0),
        "gaussian_most": random.max(axis=0),
    }
    last = sums[-1]
    vertices: dict[str, Any] = {"choice": last.choices, "vertex": last.vertices, "witness": last.witnesses}
    titles = ["one head", *(f"{_WORDS.get(h, h)} heads" for h in range(2, heads + 1))]
    figures = {
        "fig4": compare_sums(sums, titles=titles, proportions="round"),
        "fig4_gaussian": compare_sums(_sums(settings.rng("drawn").standard_normal(shape)), titles=titles),
    }
    return Outcome(
        figures=figures,
        tables={"counts": table, "vertices": vertices},
        comparisons=(
            stated(
                f"most vertices of a sum, N = {n_tokens}, H = {heads}, d = 3",
                "216" if (n_tokens, heads) == (6, 3) else f"{n_tokens**heads} (N^H)",
                "tropical.fig4_216",
            ).judged(str(best[-1]), _all_sums_are_vertices(n_tokens, heads, random[:, -1].tolist())),
            stated("vertices of one head", f"at most {n_tokens}", "tropical.single_head_le_n").compared(
                str(counts[0]), counts[0] <= n_tokens
            ),
            measured(
                f"vertices with Gaussian keys, {len(random)} draws",
                "not stated",
                f"mean {random[:, -1].mean():.1f}, {random[:, -1].min()} to {random[:, -1].max()}",
            ),
        ),
        notes=(
            "fig4 draws integer keys on a parabola, which attain the maximum, in an affine image with the "
            "same faces; fig4_gaussian draws Gaussian keys.",
            f"{n_tokens**heads} is the number of candidate sums, one key of each head. It is attained in "
            f"dimension {heads + 1}, or in dimension {heads} by scores with biases.",
        ),
    )


def _sums(keys: Any) -> list[MinkowskiVertices]:
    """The sums of the first 1, 2, ... heads."""
    return [minkowski_vertices(list(keys[: h + 1])) for h in range(len(keys))]


# Example V.3
# ----------------------------------------------------------------------------------------------------


@recipe(
    "tropical.exV3",
    "One head against eight at the same number of parameters",
    Option("n_tokens", 512, "sequence length (the paper: 512)", least=1),
    Option("d_model", 512, "dimension (the paper: 512)", least=1),
    Option("heads", 8, "heads compared with one (the paper: 8)", least=1),
    Option("score_bias", False, "whether queries carry a bias; the paper defines attention without"),
    Option("counted_tokens", 5, "sequence length of the small comparison that is counted", least=1),
)
def _run_example_v3(settings: Settings) -> Outcome:
    from hardmax.plotting.growth import draw_budget

    n, d, heads = settings["n_tokens"], settings["d_model"], settings["heads"]
    if d % heads:
        raise InvalidInputError(f"heads must divide d_model ({d}), but was {heads}.")
    biased = settings["score_bias"]
    every = head_budget(n, d, biased=biased)
    pair = head_budget(n, d, heads=[1, heads], biased=biased)
    small = _small_budget(settings)
    printed: tuple[Comparison, ...] = ()
    if (n, d, heads) == (512, 512, 8):
        power = _pow_512_8.check(Effort.QUICK)
        printed = (stated("512^8", "1.1e21", "tropical.pow_512_8").judged(readable(n, heads), power),)
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
            stated(
                "parameters of one attention layer, 4 d^2", "about 1.05e6" if d == 512 else "4 d^2"
            ).compared(
                ", ".join(map(str, sorted(set(pair.n_parameters)))),
                set(pair.n_parameters) == {4 * d * d},
                exactly=True,
            ),
            stated("vertices with one head", f"at most {n}", "tropical.single_head_le_n").compared(
                str(pair.vertices[0]), pair.vertices[0] <= n, exactly=True
            ),
            *printed,
            stated(
                f"vertices with {heads} heads, N^H", readable(n, heads), "tropical.mink_product_regime"
            ).compared(readable(pair.vertices[1]), pair.vertices[1] == n**heads, exactly=True),
            stated("the best cut of this budget", "more heads, more cells").compared(
                f"H = {every.heads[best]}, width {every.d_head[best]}: {readable(every.vertices[best])}; "
                f"width {every.d_head[-1]}: {readable(every.vertices[-1])}",
                every.vertices[-1] == every.vertices[best],
                exactly=True,
            ),
            stated(
                "the same comparison small, counted exactly",
                "N^H while the width is at least 2",
                "tropical.mink_product_regime",
            ).compared(
                ", ".join(
                    f"H={H}: {c} of {m}"
                    for H, c, m in zip(small["heads"], small["counted"], small["maximum"], strict=True)
                ),
                small["counted"] == small["maximum"],
            ),
        ),
        notes=(
            "At width 1 a head tells two keys apart. Each head has coordinates of its own and keys on a "
            "parabola in them; that needs a width of 2.",
        ),
    )


def _small_budget(settings: Settings) -> dict[str, list[int]]:
    """Four coordinates cut into one, two and four heads, each in its own block of coordinates."""
    n, d = settings["counted_tokens"], 4
    rows, p = [], np.arange(n)
    for heads in (1, 2, 4):
        width = d // heads
        keys = np.zeros((heads, n, d), dtype=np.int64)
        for h in range(heads):
            keys[h, :, h * width] = p
            if width > 1:
                keys[h, :, h * width + 1] = -p * p
        rows.append((heads, width, vertex_maximum(n, heads, d, d_head=width), minkowski_vertices(keys).count))
    return tabulated("heads d_head maximum counted", rows)


@claim("tropical.block_is_refinement", "Appendix E (proof of Theorem V.5), figure 7", Verdict.FAILS).states(
    "The partition of a block is the common refinement of those of its attention and its ReLU layer.",
    hypotheses="one dimension, two keys, one unit",
    computation="cells of the block, exactly",
    correction="The folds are shifted differently in every attention cell; the product of the two numbers "
    "still bounds the cells.",
    proof="proofs.md#what-a-block-cuts-at-most",
)
def _block_is_refinement(effort: Effort) -> Finding:
    fold = FeedForward([[1]], [-1], [[1]], [0])
    moved, unmoved = (
        Network((Attention([[[-1], [1]]], None, [values]), fold)) for values in ([[3], [0]], [[0], [0]])
    )
    cells = [int(count_cells(network, Box([-4], [4]))) for network in (moved, unmoved)]
    return failing(
        cells == [4, 3],
        f"a wall at 0 with values 3 and 0, then a fold at 1: {cells[0]} cells; the refinement of both "
        f"partitions, which the same block without values has, {cells[1]}",
        {"cells": cells[0], "refinement": cells[1]},
        Certificate(
            "network_line",
            {"network": moved, "interval": [-4, 4]},
            {"block": cells[0], "refinement": cells[1]},
        ),
    )


@claim("tropical.block_product_bound", "Theorem V.5", Verdict.PROVED).states(
    "A block has at most (cells of its heads) R(d_ff, d) cells, so depth L has at most (V R)^L.",
    hypotheses="V the largest number of cells of the heads, linear or affine as the scores are",
    computation="cells of random blocks (two heads of four keys, four units) in the whole plane, exactly",
    proof="proofs.md#what-a-block-cuts-at-most",
)
def _block_product_bound(effort: Effort) -> Finding:
    worst, checked = 0.0, 0
    for skip in (False, True):
        for network in random_transformers(effort, ffn_skip=skip):
            heads = int(count_cells(network.truncate(1), WholeSpace(2)))
            most = heads * zaslavsky(4, 2)
            assured = vertex_maximum(4, 2, 2, biased=True) * zaslavsky(4, 2)
            worst = max(worst, int(count_cells(network, WholeSpace(2))) / min(most, assured))
            checked += 1
    return holding(
        worst <= 1,
        f"{checked} random blocks: at most {worst:.2f} of (cells of the heads) R(d_ff, d)",
        {"blocks": checked, "largest_ratio": worst},
    )


@recipe(
    "tropical.fig7",
    "One block: the folds of the ReLU layer are shifted in each attention cell",
    Option("n_tokens", 2, "keys (the paper: 2)", least=1),
    Option("d_ff", 2, "ReLU units (the paper: 2)", least=1),
    Option(
        "weights",
        "integers",
        "the block drawn: small integers (for 2 keys and 2 units) or random; not stated",
        choices=("integers", "random"),
    ),
    Option("score_bias", False, "whether random scores have biases"),
    Option("random_n_tokens", 4, "keys of the random blocks that are counted", least=1),
    Option("random_d_ff", 6, "ReLU units of the random blocks that are counted", least=1),
    Option("box", 4.0, "the pictures show [-box, box]^2; not stated", positive=True),
    Option("draws", 60, "random blocks that are counted", medium=500, paper=2000, least=1),
)
def _run_figure_7(settings: Settings) -> Outcome:
    from hardmax.plotting.blocks import compare_block

    attention, feed_forward = _drawn(settings)
    box = Box.cube(2, -settings["box"], settings["box"])
    names = ["attention", "ReLU layer", "common refinement", "block"]
    counts = _counts(attention, feed_forward)
    drawn = dict(zip(names, counts, strict=True))
    size = settings["random_n_tokens"], settings["random_d_ff"]
    random = np.array([_counts(*_random(settings, i, *size)) for i in range(settings["draws"])])
    more = int((random[:, 3] > random[:, 2]).sum())
    fewer = int((random[:, 3] < random[:, 2]).sum())
    within = int((random[:, 3] <= random[:, 0] * random[:, 1]).sum())
    found = [enumerate_regions(network, box, n_jobs=1) for network in _networks(attention, feed_forward)]
    three_lines = (settings["n_tokens"], settings["d_ff"]) == (2, 2)
    return Outcome(
        figures={"fig7": compare_block(found, feed_forward, box)},
        tables={
            "drawn": {"partition": names, "cells_of_the_plane": counts},
            "random": tabulated(
                "draw attention relu_layer common_refinement block",
                [(i, *counts) for i, counts in enumerate(random.tolist())],
            ),
            "weights": _weights(attention, feed_forward),
        },
        comparisons=(
            stated(
                "cells of the drawn block in the whole plane = common refinement",
                f"{drawn['common refinement']}{' (three lines: never more than 7)' if three_lines else ''}",
                "tropical.block_is_refinement",
            ).refuted(str(drawn["block"]), drawn["block"] != drawn["common refinement"]),
            stated(
                f"random blocks (N = {size[0]}, d_ff = {size[1]}, {len(random)} draws) = common refinement",
                "always",
                "tropical.block_is_refinement",
            ).refuted(
                f"equally many in {len(random) - more - fewer}, more in {more}, fewer in {fewer}",
                more + fewer > 0,
            ),
            stated(
                "product bound: cells of the block <= cells of attention x cells of the ReLU layer",
                "yes (Theorem V.5)",
                "tropical.block_product_bound",
            ).compared(
                f"{within} of {len(random)} draws; drawn: {drawn['block']} <= "
                f"{drawn['attention']} x {drawn['ReLU layer']}",
                within == len(random) and drawn["block"] <= drawn["attention"] * drawn["ReLU layer"],
            ),
        ),
        notes=(
            "The FFN arrangement is the same up to a translation in every attention cell, so its number of "
            "cells bounds the pieces of each; that is all the product bound needs.",
        ),
    )


def _drawn(settings: Settings) -> tuple[Attention, FeedForward]:
    """The block of the picture: by default integers, whose folds cross on both sides of the wall."""
    if settings["weights"] == "random" or (settings["n_tokens"], settings["d_ff"]) != (2, 2):
        return _random(settings, settings["draws"], settings["n_tokens"], settings["d_ff"])
    attention = Attention([[[2, 1], [-2, -1]]], None, [[[-2, 0], [3, 2]]])
    feed_forward = FeedForward([[1, -1], [1, 2]], [0, -3], [[1, 0], [0, 1]], [0, 0])
    return attention, feed_forward


def _random(settings: Settings, i: int, n_tokens: int, d_ff: int) -> tuple[Attention, FeedForward]:
    rng = settings.rng("blocks", i)
    scores, values = rng.standard_normal((2, 1, n_tokens, 2))
    biases = rng.standard_normal((1, n_tokens)) if settings["score_bias"] else None
    w_in, b_in = rng.standard_normal((d_ff, 2)), rng.standard_normal(d_ff)
    w_out, b_out = rng.standard_normal((2, d_ff)), rng.standard_normal(2)
    return Attention(scores, biases, values), FeedForward(w_in, b_in, w_out, b_out)


def _networks(attention: Attention, feed_forward: FeedForward) -> list[Network]:
    """Attention, the ReLU layer, the two at the same input (their common refinement), and the block."""
    scores: Any = attention.scores
    biases: Any = attention.biases
    still = Attention(scores, biases, np.zeros(attention.outputs.shape))
    parts: list[Any] = [[attention], [feed_forward], [still, feed_forward], [attention, feed_forward]]
    return [Network(blocks) for blocks in parts]


def _counts(attention: Attention, feed_forward: FeedForward) -> list[int]:
    networks = _networks(attention, feed_forward)
    return [count_cells(network, WholeSpace(2), n_jobs=1).n_cells for network in networks]


def _weights(attention: Attention, feed_forward: FeedForward) -> dict[str, list[Any]]:
    w_in: Any = feed_forward.w_in
    named: list[tuple[str, Any, Any]] = [
        ("key", attention.scores.floats[0], attention.biases.floats[0]),
        ("value", attention.outputs.floats[0], np.zeros(len(attention.outputs.floats[0]))),
        ("unit", w_in.floats, feed_forward.b_in.floats),
    ]
    rows = [
        (f"{name} {i}", *map(float, vector), float(bias))
        for name, vectors, biases in named
        for i, (vector, bias) in enumerate(zip(vectors, biases, strict=True))
    ]
    return tabulated("vector x1 x2 bias", rows)
