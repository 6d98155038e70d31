"""P1 section VII: signatures, linear regions, and what random points see of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hardmax.geometry.domains import Box
from hardmax.networks.blocks import Attention, FeedForward
from hardmax.networks.network import Network
from hardmax.papers.certificates import Certificate, network_record
from hardmax.papers.findings import Claim, Effort, Finding, Verdict, failing, holding
from hardmax.regions.api import count_cells, count_regions
from hardmax.regions.sampling.estimate import estimate_cells

__all__ = ["CLAIMS", "random_transformers"]

PLANE = Box.cube(2, -4, 4)


LINE = Box([-4], [4])


# Cells, regions, and what samples see
# ------------------------------------------------------------------------------------------------------------


def random_transformers(effort: Effort, *, ffn_skip: bool) -> Iterator[Network]:
    """Transformers of one layer in the plane: four keys, two heads, four ReLU units."""
    for seed in range(12 if effort is Effort.QUICK else 100):
        yield Network.random(2, n_tokens=4, heads=2, depth=1, d_ff=4, rng=seed, ffn_skip=ffn_skip)


def _sig_ge_regions(effort: Effort) -> Finding:
    counts = []
    for skip in (False, True):
        for network in random_transformers(effort, ffn_skip=skip):
            found = count_regions(network, PLANE)
            counts.append((found.n_cells, found.n_regions))
    return holding(
        all(cells >= regions for cells, regions in counts),
        f"{len(counts)} random transformers in the plane: {sum(c for c, _ in counts)} cells, "
        f"{sum(r for _, r in counts)} regions, never fewer cells than regions",
        {"networks": len(counts)},
    )


def _dead_unit() -> Network:
    """A head with two cells that nothing distinguishes: the ReLU unit behind it is off on both."""
    head = Attention([[[-1], [1]]], None, [[[-1], [1]]])
    return Network(
        (
            head,
            FeedForward([[1]], [-9], [[1]], [0]),
        )
    )


def _sig_eq_regions(effort: Effort) -> Finding:
    more = 0
    networks = list(random_transformers(effort, ffn_skip=False))
    for network in networks:
        found = count_regions(network, PLANE)
        more += found.n_cells > found.n_regions
    one = count_regions(_dead_unit(), LINE)
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
    networks = list(random_transformers(effort, ffn_skip=True))
    found = [count_regions(network, PLANE) for network in networks]
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
    networks = list(random_transformers(effort, ffn_skip=False))
    for network in networks:
        seen = estimate_cells(network, PLANE, n_samples=20_000, rng=0).n_signatures
        above += seen > count_regions(network, PLANE).n_regions
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
        for network in random_transformers(effort, ffn_skip=skip):
            seen = estimate_cells(network, PLANE, n_samples=20_000, rng=0).n_signatures
            shares.append(seen / int(count_cells(network, PLANE)))
    return holding(
        max(shares) <= 1,
        f"{len(shares)} random transformers, 20,000 points each: between {min(shares):.2f} and "
        f"{max(shares):g} of the cells are seen",
        {"networks": len(shares), "smallest_share": min(shares), "largest_share": max(shares)},
    )


CLAIMS: tuple[Claim, ...] = (
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
)
