"""Claims of the tropical paper about cells and regions of networks (P1 III.2 and III.3, V.5, section VII)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb, e

import numpy as np

import hardmax as hm
from hardmax.claims.certificates import Certificate, network_record
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict, failing, holding

__all__ = ["CLAIMS", "arrangement"]

PLANE = hm.Box.cube(2, -4, 4)
LINE = hm.Box([-4], [4])

# (w_in, b_in) of two layers of three units, found by random search over integers
MANY_CELLS = (
    ([[123, 77], [-48, -17], [135, 297]], [16, -9, -70]),
    ([[19, 17, -67], [-31, -63, 325], [44, 392, -67]], [-52, 138, -379]),
)


# Layers of ReLU units
# ------------------------------------------------------------------------------------------------------------


def arrangement(n: int, d: int) -> int:
    """R(n, d): the largest number of cells of n hyperplanes in dimension d (Zaslavsky)."""
    return sum(comb(n, j) for j in range(d + 1))


def _ex_iii3_49(effort: Effort) -> Finding:
    layers = [hm.FeedForward(w, b, np.eye(3, dtype=int), [0, 0, 0]) for w, b in MANY_CELLS]
    cells = [int(hm.count_cells(hm.Network(tuple(layers[:k])), hm.WholeSpace(2))) for k in (1, 2)]
    by_pattern = [comb(3, k) * arrangement(3, min(k, 2)) for k in range(4)]
    most = sum(by_pattern) - 1  # seven of eight patterns occur; the one that is missed costs at least 1
    return failing(
        cells[0] == 7 and cells[1] <= most < 49,
        f"the first layer has {cells[0]} cells; on one with k units on, the second sees at most min(k, 2) "
        f"dimensions: no more than {most} cells in all; the best network found has {cells[1]}",
        {"first_layer": cells[0], "at_most": most, "found": cells[1]},
        Certificate("two_layers", {"n": 3, "d": 2}, {"at_most": most, "product": 49}),
    )


def _zaslavsky_e_bound(effort: Effort) -> Finding:
    broken = [(n, d) for d in range(1, 13) for n in range(1, d) if arrangement(n, d) > (e * n / d) ** d]
    bound = (e * 2 / 4) ** 4
    return failing(
        (2, 4) in broken,
        f"two hyperplanes in dimension 4: {arrangement(2, 4)} cells > (2e/4)^4 = {bound:.4f}; it fails for "
        f"{len(broken)} of the {sum(range(12))} pairs n < d <= 12",
        {"cells": 4, "bound": bound, "broken": broken},
        Certificate("arrangement", {"n": 2, "d": 4}, {"cells": 4, "more": True}),
    )


def _zaslavsky_e_bound_fixed(effort: Effort) -> Finding:
    top = 40 if effort is Effort.QUICK else 200
    pairs = [(n, d) for d in range(1, 13) for n in range(d, top)]
    worst = max(arrangement(n, d) / (e * n / d) ** d for n, d in pairs)
    return holding(
        worst < 1,
        f"{len(pairs)} pairs n >= d: R(n, d) is at most {worst:.3f} of (e n / d)^d",
        {"pairs": len(pairs), "largest_ratio": worst},
    )


# Cells, regions, and what samples see
# ------------------------------------------------------------------------------------------------------------


def _transformers(effort: Effort, *, ffn_skip: bool) -> Iterator[hm.Network]:
    for seed in range(12 if effort is Effort.QUICK else 100):
        yield hm.Network.random(2, n_tokens=4, heads=2, depth=1, d_ff=4, rng=seed, ffn_skip=ffn_skip)


def _sig_ge_regions(effort: Effort) -> Finding:
    counts = []
    for skip in (False, True):
        for network in _transformers(effort, ffn_skip=skip):
            found = hm.count_regions(network, PLANE)
            counts.append((found.n_cells, found.n_regions))
    return holding(
        all(cells >= regions for cells, regions in counts),
        f"{len(counts)} random transformers in the plane: {sum(c for c, _ in counts)} cells, "
        f"{sum(r for _, r in counts)} regions, never fewer cells than regions",
        {"networks": len(counts)},
    )


def _dead_unit() -> hm.Network:
    """A head whose two cells are told apart by nothing: the ReLU unit behind it is off on both."""
    head = hm.Attention([[[-1], [1]]], None, [[[-1], [1]]])
    return hm.Network(
        (
            head,
            hm.FeedForward([[1]], [-9], [[1]], [0]),
        )
    )


def _sig_eq_regions(effort: Effort) -> Finding:
    more = 0
    networks = list(_transformers(effort, ffn_skip=False))
    for network in networks:
        found = hm.count_regions(network, PLANE)
        more += found.n_cells > found.n_regions
    one = hm.count_regions(_dead_unit(), LINE)
    certificate = Certificate(
        "network_line",
        {"networks": [network_record(_dead_unit())], "interval": [-4, 4]},
        {"networks": [{"cells": 2, "regions": 1, "jumps": 0, "signatures": 0}]},
    )
    return failing(
        one.n_cells > one.n_regions and more > 0,
        f"a wall in front of a ReLU unit that is off on both sides: {one.n_cells} cells, {one.n_regions} "
        f"region; {more} of {len(networks)} random transformers without a skip around the ReLU layer have "
        "more cells than regions",
        {"networks": len(networks), "more_cells": more},
        certificate,
    )


def _sig_eq_regions_skip(effort: Effort) -> Finding:
    networks = list(_transformers(effort, ffn_skip=True))
    found = [hm.count_regions(network, PLANE) for network in networks]
    more = sum(each.n_cells > each.n_regions for each in found)
    return holding(
        all(each.n_cells == each.n_regions for each in found),
        f"{len(networks)} random transformers with a skip around the ReLU layer: {more} have more cells than "
        "regions",
        {"networks": len(networks), "more_cells": more},
        numerically=True,
    )


def _mc_lower_bound_regions(effort: Effort) -> Finding:
    above = 0
    networks = list(_transformers(effort, ffn_skip=False))
    for network in networks:
        seen = hm.estimate_cells(network, PLANE, n_samples=20_000, rng=0).n_signatures
        above += seen > hm.count_regions(network, PLANE).n_regions
    points = [[Fraction(2 * i + 1, 4)] for i in range(-4, 4)]
    certificate = Certificate(
        "network_line",
        {"networks": [network_record(_dead_unit())], "interval": [-4, 4], "points": points},
        {"networks": [{"cells": 2, "regions": 1, "jumps": 0, "signatures": 2}]},
    )
    return failing(
        above > 0,
        "one region, and eight points show two signatures; for "
        f"{above} of {len(networks)} random transformers 20,000 points show more signatures than there are "
        "regions",
        {"networks": len(networks), "more_signatures": above},
        certificate,
    )


def _mc_lower_bound_cells(effort: Effort) -> Finding:
    shares = []
    for skip in (False, True):
        for network in _transformers(effort, ffn_skip=skip):
            seen = hm.estimate_cells(network, PLANE, n_samples=20_000, rng=0).n_signatures
            shares.append(seen / int(hm.count_cells(network, PLANE)))
    return holding(
        max(shares) <= 1,
        f"{len(shares)} random transformers, 20,000 points each: between {min(shares):.2f} and "
        f"{max(shares):g} of the cells are seen",
        {"networks": len(shares), "smallest_share": min(shares), "largest_share": max(shares)},
    )


def _block_is_refinement(effort: Effort) -> Finding:
    fold = hm.FeedForward([[1]], [-1], [[1]], [0])
    moved = hm.Network(
        (
            hm.Attention([[[-1], [1]]], None, [[[3], [0]]]),
            fold,
        )
    )
    unmoved = hm.Network(
        (
            hm.Attention([[[-1], [1]]], None, [[[0], [0]]]),
            fold,
        )
    )
    cells = [int(hm.count_cells(network, LINE)) for network in (moved, unmoved)]
    lines = [{"cells": n, "regions": r, "jumps": j, "signatures": 0} for n, r, j in ((4, 4, 1), (3, 2, 0))]
    certificate = Certificate(
        "network_line",
        {"networks": [network_record(moved), network_record(unmoved)], "interval": [-4, 4]},
        {"networks": lines},
    )
    return failing(
        cells == [4, 3],
        f"a wall at 0 with values 3 and 0, then a fold at 1: {cells[0]} cells; the refinement of both "
        f"partitions, which the same block without values has, {cells[1]}",
        {"cells": cells[0], "refinement": cells[1]},
        certificate,
    )


def _block_product_bound(effort: Effort) -> Finding:
    worst, checked = 0.0, 0
    for skip in (False, True):
        for network in _transformers(effort, ffn_skip=skip):
            heads = int(hm.count_cells(network.truncate(1), hm.WholeSpace(2)))
            most = heads * arrangement(4, 2)
            assured = hm.vertex_maximum(4, 2, 2, biased=True) * arrangement(4, 2)
            worst = max(worst, int(hm.count_cells(network, hm.WholeSpace(2))) / min(most, assured))
            checked += 1
    return holding(
        worst <= 1,
        f"{checked} random blocks: at most {worst:.2f} of (cells of the heads) R(d_ff, d)",
        {"blocks": checked, "largest_ratio": worst},
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="tropical",
        name="ex_iii3_49",
        place="Example III.3, figure 2",
        statement="Two layers of three ReLU units in the plane have a maximum of 49 linear regions.",
        hypotheses="d = 2, three units per layer",
        computation="a bound that knows the rank of every cell's map, and an integer network with 34 cells",
        check=_ex_iii3_49,
        expected=Verdict.FAILS,
        correction="49 is an upper bound that is never reached: at most 40, and 34 are known.",
        proof="proofs.md#two-layers-of-three-units",
    ),
    Claim(
        paper="tropical",
        name="zaslavsky_e_bound",
        place="Appendix E",
        statement="n hyperplanes cut R^d into at most (e n / d)^d cells.",
        hypotheses="none, as stated",
        computation="n = 2, d = 4",
        check=_zaslavsky_e_bound,
        expected=Verdict.FAILS,
        correction="True for n >= d; for n < d there are at most 2^n cells.",
    ),
    Claim(
        paper="tropical",
        name="zaslavsky_e_bound_fixed",
        place="Appendix E, corrected",
        statement="n hyperplanes cut R^d into at most (e n / d)^d cells.",
        hypotheses="n >= d",
        computation="the ratio for all pairs up to a size",
        check=_zaslavsky_e_bound_fixed,
        expected=Verdict.HOLDS,
        proof="proofs.md#hyperplanes-and-the-number-e",
    ),
    Claim(
        paper="tropical",
        name="sig_ge_regions",
        place="Section VII",
        statement="There are at least as many signatures with interior as linear regions.",
        hypotheses="any network",
        computation="cells and regions of random transformers in the plane, exactly",
        check=_sig_ge_regions,
        expected=Verdict.HOLDS,
        proof="proofs.md#signatures-and-regions",
    ),
    Claim(
        paper="tropical",
        name="sig_eq_regions",
        place="Section VII",
        statement="Different signatures are different linear regions.",
        hypotheses="blocks FFN(x + MHSA(x)) without a skip around the ReLU layer, as in appendix F",
        computation="a block with one region and two cells, and random transformers",
        check=_sig_eq_regions,
        expected=Verdict.FAILS,
        correction="Adjacent cells may carry the same affine map; with a second skip connection this was "
        "never seen (tropical.sig_eq_regions_skip).",
    ),
    Claim(
        paper="tropical",
        name="sig_eq_regions_skip",
        place="Section VII",
        statement="Different signatures are different linear regions.",
        hypotheses="blocks y + FFN(y), y = x + MHSA(x), with random weights",
        computation="cells and regions of random transformers in the plane, exactly",
        check=_sig_eq_regions_skip,
        expected=Verdict.HOLDS_NUMERICALLY,
    ),
    Claim(
        paper="tropical",
        name="mc_lower_bound_regions",
        place="Section VII",
        statement="The number of signatures that random points show is a lower bound on the number of linear "
        "regions.",
        hypotheses="blocks FFN(x + MHSA(x)) without a skip around the ReLU layer",
        computation="signatures at points and exact regions",
        check=_mc_lower_bound_regions,
        expected=Verdict.FAILS,
        correction="It is a lower bound on the number of cells.",
    ),
    Claim(
        paper="tropical",
        name="mc_lower_bound_cells",
        place="Section VII, corrected",
        statement="The number of signatures that random points show is a lower bound on the number of cells.",
        hypotheses="points off the walls, which is almost surely so",
        computation="signatures at points and exact cells",
        check=_mc_lower_bound_cells,
        expected=Verdict.HOLDS,
        proof="proofs.md#signatures-and-regions",
    ),
    Claim(
        paper="tropical",
        name="block_is_refinement",
        place="Theorem V.5, figure 7",
        statement="The partition of a block is the common refinement of those of its attention and its ReLU "
        "layer.",
        hypotheses="one dimension, two keys, one unit",
        computation="cells of the block, exactly",
        check=_block_is_refinement,
        expected=Verdict.FAILS,
        correction="The folds are shifted differently in every attention cell; the product of the two "
        "numbers still bounds the cells.",
        proof="proofs.md#what-a-block-cuts-at-most",
    ),
    Claim(
        paper="tropical",
        name="block_product_bound",
        place="Theorem V.5",
        statement="A block has at most (cells of its heads) R(d_ff, d) cells, so depth L has at most (V "
        "R)^L.",
        hypotheses="V the largest number of cells of the heads, linear or affine as the scores are",
        computation="cells of random blocks in the whole plane, exactly",
        check=_block_product_bound,
        expected=Verdict.HOLDS,
        proof="proofs.md#what-a-block-cuts-at-most",
    ),
)
