"""Claims of the tropical paper about its experiments (P1 section VII-C, figure 6).

A slope that depends on choices which the paper does not state is a measurement, and is reported as one. What
figure 6(b) says about the reason for its slopes is a statement, and has an exact counterexample.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hardmax as hm
from hardmax.claims.certificates import Certificate
from hardmax.claims.ledger import Claim, Effort, Finding, Verdict, failing, holding
from hardmax.regions.growth import Growth, HeadChoices, NetworkChoices, cell_growth, vertex_growth

__all__ = ["CLAIMS"]

_PRINTED = 0.13
_HEADS, _KEYS, _D = 3, 7, 4  # the largest sum of figure 6(b)


def _stream(i: int) -> np.random.Generator:
    return np.random.default_rng([6, i])


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
    told = "; ".join(
        f"{label}: {growth.slope:.2f} (networks {growth.slope_mean:.2f} ± {growth.slope_error:.2f}, spread "
        f"{growth.slope_spread:.2f})"
        for label, growth in slopes.items()
    )
    # a number that unstated choices move by more than itself says nothing about what it is meant to show
    spans = max(growth.slope for growth in slopes.values()) - min(growth.slope for growth in slopes.values())
    return Finding(
        Verdict.MEASUREMENT if spans > _PRINTED else Verdict.UNDECIDED,
        f"exact cells, {draws} networks each; {told}",
        {label: {"slope": growth.slope, "slopes": growth.slopes} for label, growth in slopes.items()},
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
    told = "; ".join(
        f"d_k={rank}: {', '.join(f'{round(growth.slope, 3) + 0.0:.3f}' for growth in found)}"
        for rank, found in slopes.items()
    )
    return holding(
        rising[4] and single == draws and not rising[1],
        f"slopes for H = 1, 2, 3 over {draws} draws, {told}; at d_k=4 they rise in {single} of {draws} draws",
        {f"d_k={rank}": [growth.slope for growth in found] for rank, found in slopes.items()},
        numerically=True,
    )


def _rises(slopes: list[float]) -> bool:
    return all(b > a + 1e-9 for a, b in pairwise(slopes))


def _fig6b_interior_explanation(effort: Effort) -> Finding:
    keys = _extreme_heads()
    found = hm.minkowski_vertices(list(keys))
    data, extreme = _sum_record(keys, found)
    certificate = Certificate(
        "sum_of_heads",
        data,
        {"extreme_keys": extreme, "sums": _KEYS**_HEADS, "vertices": found.count},
    )
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
        certificate,
    )


def _extreme_heads() -> NDArray[np.int64]:
    """The first draw of rounded Gaussian keys whose heads have no interior key."""
    rng = np.random.default_rng(0)
    while True:
        keys = np.rint(8 * rng.standard_normal((_HEADS, _KEYS, _D))).astype(np.int64)
        if all(hm.attention_diagram(head).nonempty.all() for head in keys):
            return keys


def _sum_record(keys: NDArray[np.int64], found: hm.MinkowskiVertices) -> tuple[dict[str, Any], list[int]]:
    """A query for every vertex of the sum, and a convex combination of other sums for every other sum."""
    choices = list(product(range(_KEYS), repeat=_HEADS))
    sums = np.array([sum(keys[h, j] for h, j in enumerate(choice)) for choice in choices])
    diagram = hm.attention_diagram(sums)
    winners = {
        tuple(choice): [Fraction(x) for x in found.exact_witnesses.get(i, found.witnesses[i].tolist())]
        for i, choice in enumerate(found.choices.tolist())
    }
    losers = []
    for i, choice in enumerate(choices):
        if choice not in winners:
            emptiness = diagram.emptiness(i)
            support = [list(choices[k]) for k in emptiness.support.tolist()]
            losers.append([list(choice), support, list(emptiness.weights)])
    record = {
        "heads": keys,
        "winners": [[list(choice), point] for choice, point in winners.items()],
        "losers": losers,
    }
    return record, [len({choice[h] for choice in winners}) for h in range(_HEADS)]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        paper="tropical",
        name="fig6a_slope_013",
        place="Figure 6(a), section VII-C",
        statement="For random networks with one layer in the plane, the number of linear regions grows with "
        "N with a slope of about 0.13 on logarithmic axes.",
        hypotheses="H = 1, box [-4, 4]^2, Gaussian weights, no score bias, ReLU biases of spread 1/2, no "
        "skip around the ReLU layer, N = 2 to 5, networks of different N share weights unless stated",
        computation="exact cells of random networks; slope of the mean counts, spread over networks",
        check=_fig6a_slope_013,
        expected=Verdict.MEASUREMENT,
        correction="The slope moves with the width, the rank and the pairing, none of which is stated, and "
        "single networks spread by about 0.4; 0.13 is one value among many.",
    ),
    Claim(
        paper="tropical",
        name="fig6b_slopes_increase",
        place="Figure 6(b), section VII-C",
        statement="The number of vertices of the sum of H random heads grows with N, and the faster the more "
        "heads there are.",
        hypotheses="d = 4, H = 1, 2, 3, N = 2 to 7, Gaussian keys and query maps of rank d_k = 4",
        computation="exact vertices of sums whose scores are kept as products",
        check=_fig6b_slopes_increase,
        expected=Verdict.HOLDS_NUMERICALLY,
        correction="The rank decides: heads of rank one are segments, their sums have 2^H vertices and all "
        "slopes are 0.",
    ),
    Claim(
        paper="tropical",
        name="fig6b_interior_explanation",
        place="Figure 6(b), section VII-C",
        statement="The number of vertices stays below N^H for H = 3 because keys in the interior of a head's "
        "hull do not count.",
        hypotheses="d = 4, H = 3, N = 7",
        computation="a family without interior keys whose sum still has fewer vertices; for each sum a query "
        "in which it wins or a convex combination of other sums",
        check=_fig6b_interior_explanation,
        expected=Verdict.FAILS,
        correction="At these sizes nearly every key is extreme; it is the sums of extreme keys that are not.",
    ),
)
