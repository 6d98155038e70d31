r"""P3, abstract: top-k routing is an elementary symmetric tropical polynomial, and its cells form a fan.

With scores :math:`s_1, \dots, s_N` of N experts, the tropical polynomial

.. math:: e_k(s) = \max_{|S| = k} \sum_{i \in S} s_i

has the vertices of the hypersimplex as exponents, and the set S that wins is the set of the k best experts.
The abstract states no hypotheses. In the space of scores there are :math:`\binom{N}{k}` cells; an input of
dimension d reaches only those that the image of the router meets.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from hardmax.bounds import zaslavsky
from hardmax.geometry.diagrams.order_k_diagrams import OrderKDiagram
from hardmax.geometry.diagrams.power_diagrams import attention_diagram
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, holding
from hardmax.tropical.polynomials import TropicalPolynomial


def hypersimplex(n: int, k: int) -> list[list[int]]:
    """The vertices of the hypersimplex: all vectors with k ones and n - k zeros.

    >>> hypersimplex(3, 2)
    [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    return [[int(i in chosen) for i in range(n)] for chosen in combinations(range(n), k)]


def chosen_sets(keys: Any, biases: Any, k: int) -> int:
    """How many sets of k experts are chosen on an open set of inputs.

    >>> chosen_sets([[-1], [0], [1]], [0, 1, 0], 2)
    2
    """
    diagram = attention_diagram(keys, biases, k=k)
    return diagram.n_cells if isinstance(diagram, OrderKDiagram) else int(diagram.nonempty.sum())


SIZES = [(n, k) for n in (2, 3, 4, 5) for k in range(1, n)]


@claim("moe.top_k_polynomial", "Abstract, top-k routing", Verdict.PROVED).states(
    "Top-k routing is the k-th elementary symmetric tropical polynomial of the scores: its value is the sum "
    "of the k largest scores, and the term that wins is the set of experts that is chosen.",
    hypotheses="1 <= k < N; the set is unique where the k-th and the next score differ",
    computation="the tropical polynomial with the vertices of the hypersimplex as exponents against sorting, "
    "at random rational scores, for all k < N <= 5",
    proof="classical.md#top-k-routing",
)
def _top_k_polynomial(effort: Effort) -> Finding:
    rng = np.random.default_rng(0)
    agree, points = True, 0
    for n, k in SIZES:
        exponents = hypersimplex(n, k)
        polynomial = TropicalPolynomial(exponents, [0] * len(exponents))
        for _ in range(20):
            scores: list[Any] = [Fraction(int(a), int(b)) for a, b in rng.integers(1, 40, size=(n, 2))]
            best = sorted(range(n), key=lambda i: -scores[i])[:k]
            values = [sum(s for s, bit in zip(scores, row, strict=True) if bit) for row in exponents]
            agree &= polynomial.exact_value(scores) == max(values) == sum(scores[i] for i in best)
            if values.count(max(values)) == 1:
                agree &= exponents[values.index(max(values))] == [int(i in best) for i in range(n)]
                points += 1
    return holding(
        agree and points > 100,
        f"{len(SIZES)} pairs (N, k), {20 * len(SIZES)} score vectors, {points} of them with one best set: "
        "value and set agree with sorting",
        {"pairs": len(SIZES), "points": points},
    )


@claim("moe.hypersimplex_fan", "Abstract, normal fan", Verdict.PROVED).states(
    "Top-k routing cuts the space into the normal fan of a hypersimplex, one cone for each of its C(N, k) "
    "vertices.",
    hypotheses="the space is that of the N scores; 1 <= k < N",
    computation="the cells of the order-k diagram of the N unit vectors, enumerated exactly, for all k < N "
    "<= 5; no vertex of a hypersimplex is a convex combination of others",
    proof="classical.md#top-k-routing",
)
def _hypersimplex_fan(effort: Effort) -> Finding:
    counts = {(n, k): chosen_sets(np.eye(n, dtype=int), None, k) for n, k in SIZES}
    alone = [_own_direction(n, k) for n, k in SIZES]
    return holding(
        all(found == comb(n, k) for (n, k), found in counts.items()) and all(alone),
        ", ".join(f"{found} cones for N = {n}, k = {k}" for (n, k), found in counts.items() if n == 5)
        + f"; C(N, k) for all {len(counts)} pairs",
        {"cones": list(counts.values())},
    )


def _own_direction(n: int, k: int) -> bool:
    """Whether every vertex of the hypersimplex wins alone in its own direction."""
    rows = hypersimplex(n, k)
    return all(
        [sum(a * b for a, b in zip(row, other, strict=True)) for other in rows].count(k) == 1 for row in rows
    )


@claim("moe.capacity", "Abstract, binomial coefficient", Verdict.UNSTATED).states(
    "Top-k routing scales the number of regions by the binomial coefficient C(N, k).",
    unstated="Inputs of dimension d >= N - 1, and a router of full rank, so that the scores come in every "
    "order. For fixed d there are at most as many sets as N hyperplanes in R^(d + 1) have cells, of order "
    "N^(d + 1), so fewer than C(N, k) for k > d + 1 and large N. The abstract names no hypothesis; the text "
    "may.",
    hypotheses="N experts with affine scores of an input in R^d; none is stated in the abstract",
    computation="sets of 4 of 8 experts that Gaussian routers (one draw each) choose in dimension 1, 2, 3 "
    "and 7, enumerated exactly, against C(8, 4) and against the cells of 8 hyperplanes in one dimension more",
    correction="A set that is chosen at x is the set of graphs above some height over x, so different sets "
    "belong to different cells of the arrangement of the N graphs.",
    proof="classical.md#top-k-routing",
)
def _capacity(effort: Effort) -> Finding:
    n, k, rng = 8, 4, np.random.default_rng(3)
    found = {d: chosen_sets(rng.standard_normal((n, d)), rng.standard_normal(n), k) for d in (1, 2, 3, n - 1)}
    below = all(found[d] <= zaslavsky(n, d + 1) and found[d] < comb(n, k) for d in (1, 2, 3))
    most = zaslavsky(n, 2)
    return earned(
        Verdict.UNSTATED,
        below and found[n - 1] == comb(n, k) > most,
        f"C({n}, {k}) = {comb(n, k)} sets; Gaussian routers choose "
        + ", ".join(f"{sets} for d = {d}" for d, sets in found.items())
        + f"; no router of one number chooses more than {most}, the cells of {n} lines in the plane",
        {"sets": found, "most on a line": most},
        Certificate(
            "top_k_sets",
            {"d": 1, "k": k, "points": hypersimplex(n, k)},
            {"at most": most, "in score space": comb(n, k)},
        ),
    )
