"""P1 Remark V.8 and Corollary V.9: how regions grow with N, and how close the bounds are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hardmax.bounds import vertex_maximum, zaslavsky
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.networks.blocks import FeedForward
from hardmax.networks.constructions import sawtooth_network
from hardmax.networks.network import Network
from hardmax.papers.certificates import Certificate, network_record
from hardmax.papers.findings import Claim, Effort, Finding, Verdict, failing, holding
from hardmax.papers.tropical.sec5_theorem_v7 import n_maps, n_regions
from hardmax.regions.api import count_cells, enumerate_regions

__all__ = ["CLAIMS"]


def _rem_v8(effort: Effort) -> Finding:
    d, d_ff = 2, 8
    w = d_ff // (2 * d)
    made = int(count_cells(sawtooth_network(d, 1, w, 1), Box.cube(d, 0, 1)))  # one attention cell
    tangents = (
        [[-2 * t, 1] for t in range(d_ff)],
        [t * t for t in range(d_ff)],
    )  # of a parabola: generic lines
    generic = Network((FeedForward(*tangents, np.ones((1, d_ff), dtype=int), [0]),))
    cells = enumerate_regions(generic, WholeSpace(2))
    most = zaslavsky(d_ff, d)
    points = [cells.exact_witness(i) for i in range(cells.n_cells)]
    ratios = [zaslavsky(4 * d, d) / 4**d for d in (2, 3, 4)]
    return failing(
        made == (2 * w) ** d and cells.n_cells == most > made,
        f"eight units in the plane: the construction cuts a cell into {made} pieces, generic units into "
        f"{cells.n_cells}; the ratio for d = 2, 3, 4 and d_ff = 4d: {', '.join(f'{r:.2f}' for r in ratios)}",
        {"construction": made, "generic": cells.n_cells, "ratios": ratios},
        Certificate(
            "network_points",
            {"network": network_record(generic), "points": points},
            {"signatures": most, "maps": n_maps(cells)},
        ),
    )


def _exponent(heads: int, d: int, *, biased: bool) -> float:
    """log2 of V(2N) / V(N) at N = 2^40."""
    n = 2**40
    one, two = (vertex_maximum(k * n, heads, d, biased=biased) for k in (1, 2))
    return float(np.log2(two / one))


def _theta_exponent(effort: Effort) -> Finding:
    slopes = {d: _exponent(d, d, biased=False) for d in (2, 3, 4)}
    n = 10**6
    most = vertex_maximum(n, 2, 2) * zaslavsky(4, 2)
    exponents = ", ".join(f"{slope:.3f}" for slope in slopes.values())
    return failing(
        all(abs(slope - (d - 1)) < 1e-6 for d, slope in slopes.items()) and most < n**2,
        f"linear scores, H = d = 2, 3, 4, one layer: exponents {exponents} instead of 2, 3, 4; at d = 2, "
        f"N = 10^6, d_ff = 4 at most {most} cells, claimed at least {n**2}",
        {"exponents": {str(d): slope for d, slope in slopes.items()}},
        Certificate(
            "cell_bound", {"n_tokens": n, "d": 2, "d_ff": 4, "depth": 1}, {"at_most": most, "claimed": n**2}
        ),
    )


def _theta_exponent_affine(effort: Effort) -> Finding:
    slopes = {(h, d): _exponent(h, d, biased=True) for d in (1, 2, 3) for h in (1, 2, 3, 5)}
    right = all(abs(slope - min(h, d)) < 1e-6 for (h, d), slope in slopes.items())
    counted = [n_regions(1, n, 1, 2, "plain") for n in (2, 4, 8)]
    grown = [b / a for a, b in pairwise(counted)]
    return holding(
        right and grown == [4.0, 4.0],
        f"affine scores: exponent min(H, d) for {len(slopes)} pairs; d = 1, L = 2, N = 2, 4, 8: "
        f"{', '.join(map(str, counted))} regions, N^2 times a constant",
        {"exponents": {str(pair): slope for pair, slope in slopes.items()}, "regions": counted},
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="tropical",
        name="rem_v8",
        place="Remark V.8",
        statement="In the construction the ReLU layer shatters every attention cell as much as it can.",
        hypotheses="d = 2, d_ff = 8",
        computation="pieces of the construction and of eight generic units",
        check=_rem_v8,
        expected=Verdict.FAILS,
        correction="It cuts a cell into (2w)^d pieces; generic units into R(d_ff, d), up to 2.31 times as "
        "many at d = 2 and 9.83 times at d = 4.",
    ),
    Claim(
        paper="tropical",
        name="theta_exponent",
        place="Corollary V.9",
        statement="With H >= d heads the largest number of linear regions grows as N^(dL).",
        hypotheses="linear scores, as section III-D and appendices D and E define attention",
        computation="growth of the largest number of cells, and its value at N = 10^6",
        check=_theta_exponent,
        expected=Verdict.FAILS,
        correction="N^(min(H, d-1) L) with linear scores, N^(min(H, d) L) with affine ones and free keys.",
        proof="proofs.md#growth-in-the-number-of-tokens",
    ),
    Claim(
        paper="tropical",
        name="theta_exponent_affine",
        place="Corollary V.9, corrected",
        statement="With affine scores and keys chosen freely in every layer the largest number of linear "
        "regions grows as N^(min(H, d) L).",
        hypotheses="d, H, d_ff, L fixed, d_ff >= 2d",
        computation="growth of the largest number of cells, and regions of the construction",
        check=_theta_exponent_affine,
        expected=Verdict.HOLDS,
        proof="proofs.md#growth-in-the-number-of-tokens",
    ),
)
