r"""Montufar et al. 2014 and Serra et al. 2018: how many linear regions ReLU networks can have.

*Folding.* A layer with p units per coordinate folds [0, 1] p times onto itself, so what the later layers cut
out of the cube appears in :math:`p^{n_0}` copies. The last layer has the hyperplanes

.. math:: \sum_{k=0}^{d} (-1)^k \binom{d}{k} x_k t^{d-k} = 0, \qquad x_0 = 1,

one for each of :math:`n_L` numbers t in (0, 1): any d of them meet in one point, whose coordinates are scaled
elementary symmetric functions of the t's and lie in (0, 1).

*Where the units are all off* the network is constant, and copies that touch there are one linear region. With
as many units in the last layer as there are inputs this cannot be avoided, and the bound of 2014 is then one
on cells, not on regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import comb, prod
from typing import Any

import numpy as np

from hardmax.bounds import mlp_bounds
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.networks.blocks import FeedForward
from hardmax.networks.network import Network
from hardmax.papers.ledger import Certificate, Effort, Finding, Verdict, claim, earned, holding
from hardmax.regions.api import count_cells, count_regions

# The lower bound by folding
# ----------------------------------------------------------------------------------------------------


def folded_copies(widths: Sequence[int]) -> int:
    """The lower bound of Montufar et al. for widths with the input first.

    >>> folded_copies([1, 6, 2]), folded_copies([2, 4, 3])
    (18, 28)
    """
    d, *hidden, last = widths
    copies: int = prod((n // d) ** d for n in hidden)
    return copies * sum(comb(last, j) for j in range(d + 1))


def folding_layer(d: int, pieces: int) -> FeedForward:
    """Every coordinate folded so many times: p x, then -p x + 2, and so on, from 0 to 1 and back."""
    w_in: list[list[int]] = [[0] * d for _ in range(d * pieces)]
    w_out: list[list[int]] = [[0] * (d * pieces) for _ in range(d)]
    biases = [0] * (d * pieces)
    for k in range(d):
        for m in range(pieces):
            unit = k * pieces + m
            w_in[unit][k], biases[unit] = pieces, -m
            w_out[k][unit] = 1 if m == 0 else 2 * (-1) ** m
    return FeedForward(w_in, biases, w_out, [0] * d)


def folding_network(widths: Sequence[int]) -> Network:
    """A network of the given widths, input first, that has the cells of the lower bound in the unit cube;
    units that are not needed are left out.

    >>> network = folding_network([1, 3, 2])
    >>> count_regions(network, Box([0], [1])).n_regions
    9
    """
    d, *hidden, last = widths
    ts = [Fraction(2 * i + 1, 2 * last + 1) for i in range(last)]
    signs = [(-1) ** (last - 1 - i) for i in range(last)]  # with these, not all units are off if last > d
    rows: list[list[Any]] = [
        [sign * (-1) ** k * comb(d, k) * t ** (d - k) for k in range(d + 1)]
        for t, sign in zip(ts, signs, strict=True)
    ]
    out = [[(i + 2) ** 2 + 1 for i in range(last)]]
    cut = FeedForward([row[1:] for row in rows], [row[0] for row in rows], out, [0])
    return Network((*(folding_layer(d, n // d) for n in hidden), cut))


def most_pieces_of_one_unit(n: int) -> int:
    """The most linear pieces of max(g, 0) on the line, for g with n kinks.

    With b kinks below zero there are at most 2 b + 2 crossings, at most one per piece of g, and n - b kinks
    remain.

    >>> [most_pieces_of_one_unit(n) for n in (4, 5, 6, 7)]
    [8, 10, 11, 13]
    """
    return 1 + max(n - b + min(n + 1, 2 * b + 2) for b in range(n + 1))


@claim("classical.montufar.lower", "Montufar et al. 2014, rectifier networks", Verdict.UNSTATED).states(
    "ReLU networks with n_0 inputs and L hidden layers of widths n_i >= n_0 can have at least prod_{i<L} "
    "floor(n_i / n_0)^n_0 times sum_{j <= n_0} C(n_L, j) linear regions.",
    unstated="n_L > n_0, if regions are maximal connected sets with one affine map. Cells (sets with one "
    "pattern of units that are on) reach the bound for n_L = n_0 too.",
    hypotheses="n_i >= n_0 in every layer, as the theorem is quoted; its text was not at hand",
    computation="cells and regions of the folding network in the unit cube for eight lists of widths with "
    "n_L > n_0, and cells for three with n_L = n_0; for widths 1, 6, 1 an upper bound on the linear pieces, "
    "and a network that attains it",
    correction="For n_L = n_0 = 1 and n_1 = 6 the most is 11 linear regions, not 12: kinks of the "
    "first layer below the threshold of the single last unit are lost.",
    proof="classical.md#folding",
)
def _lower(effort: Effort) -> Finding:
    wide: list[tuple[int, ...]] = [(1, 2, 2), (1, 3, 2), (1, 6, 2), (1, 2, 2, 3)]
    wide += [(2, 2, 3), (2, 4, 3), (2, 5, 4), (3, 3, 4)]
    narrow: list[tuple[int, ...]] = [(1, 3, 1), (1, 6, 1), (2, 4, 2)]
    regions = {sizes: _in_cube(sizes)[1] for sizes in wide}
    cells = {sizes: _in_cube(sizes)[0] for sizes in narrow}
    reached = all(n == folded_copies(sizes) for sizes, n in {**regions, **cells}.items())
    on_line: list[tuple[int, ...]] = [(1, 6, 2), (1, 2, 2, 3)]
    most, claimed = most_pieces_of_one_unit(6), folded_copies((1, 6, 1))
    one_unit = Network((laps(6), FeedForward([[2]], [-1], [[1]], [0])))
    best = count_regions(one_unit, WholeSpace(1)).n_regions
    largest = max(
        count_regions(_random_line(i), WholeSpace(1)).n_regions
        for i in range(200 if effort is Effort.QUICK else 5000)
    )
    return earned(
        Verdict.UNSTATED,
        reached and largest <= best == most < claimed,
        f"regions in the cube, as stated: {_listed(regions)}; cells with n_L = n_0, as stated: "
        f"{_listed(cells)}; widths 1, 6, 1 have at most {most} regions on the line, not {claimed} "
        f"({best} are attained; random networks have at most {largest})",
        {"most": most, "claimed": claimed, "random": largest},
        Certificate(
            "folding_line",
            {"narrow": 6, "widths": [sizes[1:] for sizes in on_line]},
            {"most": most, "claimed": claimed, "regions": [folded_copies(sizes) for sizes in on_line]},
        ),
    )


def _in_cube(widths: Sequence[int]) -> tuple[int, int]:
    network, cube = folding_network(widths), Box.cube(widths[0], 0, 1)
    return int(count_cells(network, cube)), count_regions(network, cube).n_regions


def _listed(found: dict[tuple[int, ...], int]) -> str:
    return ", ".join(f"{n} for {'-'.join(map(str, sizes))}" for sizes, n in found.items())


def _random_line(i: int) -> Network:
    """Six units, then one, on the line."""
    rng = np.random.default_rng([2014, i])
    layers = [(rng.standard_normal((b, a)), rng.standard_normal(b)) for a, b in ((1, 6), (6, 1), (1, 1))]
    return Network.mlp(layers)


# The upper bound with ranks
# ----------------------------------------------------------------------------------------------------


def serra_sum(widths: Sequence[int]) -> int:
    """The sum of Serra et al. over all j, term by term.

    >>> serra_sum([2, 3, 3])
    40
    """
    d, *hidden = widths
    total = 0
    for chosen in product(*(range(min(d, n) + 1) for n in hidden)):
        room = d
        for n, j in zip(hidden, chosen, strict=True):
            if j > min(room, n):
                break
            room = min(room, n - j)
        else:
            total += prod(comb(n, j) for n, j in zip(hidden, chosen, strict=True))
    return total


@claim("classical.serra.upper", "Serra et al. 2018, upper bound", Verdict.PROVED).states(
    "A ReLU network with n_0 inputs and hidden widths n_1, ..., n_L has at most as many linear regions as "
    "the sum of prod_l C(n_l, j_l) over all j with 0 <= j_l <= min(n_0, n_1 - j_1, ..., n_{l-1} - j_{l-1}, "
    "n_l).",
    hypotheses="none beyond the widths; it bounds the cells, so also the regions",
    computation="the sum term by term against the recursion of hardmax.bounds.mlp_bounds for 120 lists of "
    "widths, and cells of random networks, all of them below it; one hidden layer attains it",
    proof="classical.md#counting-with-ranks",
)
def _upper(effort: Effort) -> Finding:
    lists = [(d, *hidden) for d in (1, 2, 3) for hidden in product((1, 2, 3, 4), repeat=2)]
    lists += [(2, *hidden) for hidden in product((1, 2, 3, 4), repeat=3)] + [(3, n) for n in range(1, 9)]
    same = [serra_sum(widths) == mlp_bounds(widths)["rank_aware"].value for widths in lists]
    shares = [
        (int(count_cells(_random_network(widths, i), WholeSpace(widths[0]))), serra_sum(widths))
        for i, widths in enumerate([(1, 3, 3), (2, 3), (2, 3, 3), (2, 4, 2), (2, 2, 2, 2), (3, 2, 3)] * 5)
    ]
    attained = sum(found == most for found, most in shares)
    return holding(
        all(same) and all(found <= most for found, most in shares) and attained > 0,
        f"{len(same)} lists of widths: both ways of adding agree; {serra_sum((2, 3, 3))} for 2-3-3; "
        f"{len(shares)} random networks stay below, {attained} of them attain it (one hidden layer)",
        {"lists": len(same), "networks": len(shares), "attained": attained},
    )


def _random_network(widths: Sequence[int], i: int) -> Network:
    rng = np.random.default_rng([2018, i])
    pairs = pairwise([*widths, 1])
    return Network.mlp([(rng.standard_normal((b, a)), rng.standard_normal(b)) for a, b in pairs])


def laps(n: int) -> FeedForward:
    """n >= 3 units with n + 1 pieces on [0, 1], each from 0 to 1 or back, none of them constant.

    >>> network = Network((laps(3),))
    >>> [str(network.exact_value([Fraction(i, 7)])[0]) for i in range(8)]
    ['0', '1', '1/2', '0', '1/2', '1', '1/2', '0']
    """
    sizes = [Fraction(2) if m == (0 if n % 2 else 2) else Fraction(1) for m in range(n + 1)]
    whole = sum(1 / size for size in sizes)
    ends = Fraction(0)
    w_in: list[Any] = []
    b_in: list[Any] = []
    w_out: list[Any] = []
    for m in range(1, n + 1):
        ends += 1 / sizes[m - 1] / whole
        facing = 1 if m <= 2 else -1
        w_in.append([facing])
        b_in.append(-facing * ends)
        w_out.append((-1) ** m * (sizes[m - 1] + sizes[m]) * whole)
    value = sum(w * max(b, 0) for w, b in zip(w_out, b_in, strict=True))
    return FeedForward(w_in, b_in, [w_out], [-value])


def lap_network(widths: Sequence[int]) -> Network:
    """A network on the line with hidden widths of at least 3 that has prod (n_l + 1) linear regions."""
    *first, last = widths
    places = [Fraction(i + 1, last + 1) for i in range(last)]
    facing = [-1, *[1] * (last - 1)]
    biases: list[Any] = [-f * t for f, t in zip(facing, places, strict=True)]
    cut = FeedForward([[f] for f in facing], biases, [[i + 2 for i in range(last)]], [0])
    return Network((*map(laps, first), cut))


@claim("classical.serra.line", "Serra et al. 2018, inputs of dimension one", Verdict.PROVED).states(
    "For one input and hidden widths n_l >= 3 the largest number of linear regions is the product of the "
    "n_l + 1: upper and lower bound agree.",
    hypotheses="n_0 = 1 and n_l >= 3; the abstract says that the bounds are exact for dimension one, the "
    "condition on the widths is ours",
    computation="the sum of classical.serra.upper for 1 and widths from 3 to 6, and networks with as many "
    "regions, counted exactly on the whole line",
    proof="classical.md#laps-on-the-line",
)
def _line(effort: Effort) -> Finding:
    lists = [(3,), (3, 3), (3, 4), (5, 4), (6, 3), (3, 3, 3), (4, 3, 5)]
    found = [count_regions(lap_network(widths), WholeSpace(1)).n_regions for widths in lists]
    stated = [prod(n + 1 for n in widths) for widths in lists]
    upper = [serra_sum((1, *widths)) for widths in lists]
    return holding(
        found == stated == upper,
        ", ".join(f"{'-'.join(map(str, w))}: {n}" for w, n in zip(lists, found, strict=True))
        + "; bound and network agree each time",
        {"regions": found},
        Certificate("laps", {"widths": lists[1:3] + lists[5:6]}, {"regions": stated[1:3] + stated[5:6]}),
    )
