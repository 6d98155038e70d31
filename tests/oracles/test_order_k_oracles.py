"""Order-k diagrams against PPL, Qhull and exact programs over all subsets, and against counts by other laws.

``tests/scripts/order_k_sweep.py`` does the first part on as many instances as asked for.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

import hardmax as hm
from hardmax.bounds import zaslavsky
from hardmax.geometry.cones.splitting import refine
from hardmax.geometry.diagrams.interiors import decide_interiors
from hardmax.geometry.diagrams.order_k import winning_sets
from hardmax.geometry.scores import Scores
from oracles.certificates import lift_heads, lift_keys, lift_sites
from oracles.instances import FAMILIES, instance
from oracles.judging import HAS_PPL
from oracles.minkowski_bruteforce import ppl_vertices
from oracles.order_k import order_instance, problems_of, simplex_sets, subsets, sums_head


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_winning_sets_are_those_of_brute_force(start):
    for number in range(start, start + 50):
        _, problems = problems_of(order_instance(number), slow=number % 20 == 0)
        assert not problems, (number, problems)


@pytest.mark.parametrize("number", range(0, len(FAMILIES) * 4, 3))
def test_levels_in_five_and_six_dimensions(number):
    case = order_instance(number, dimensions=(5, 6), largest=6)
    _, problems = problems_of(case)
    assert not problems, problems


@pytest.mark.skipif(not HAS_PPL, reason="pplpy is not installed")
@pytest.mark.parametrize("start", range(0, 200, 50))
def test_sums_of_top_k_heads_are_those_of_brute_force(start):
    for number in range(start, start + 50):
        case = instance(number, tuples=40, dimensions=(1, 2, 3, 4))
        heads = lift_heads(case.point_sets, case.biases)
        rng = np.random.default_rng(number)
        orders = [int(rng.integers(1, min(len(head), 4) + 1)) for head in heads]
        sets = [subsets(head, k) for head, k in zip(heads, orders, strict=True)]
        if np.prod([len(s) for s in sets]) > 400:
            continue
        result = hm.minkowski_vertices(case.point_sets, case.biases, k=orders)
        found = ppl_vertices([sums_head(head, s) for head, s in zip(heads, sets, strict=True)])
        expected = {tuple(sets[h][j] for h, j in enumerate(choice)) for choice in found.values()}
        members = [map(tuple, result.winning_keys(h).tolist()) for h in range(len(heads))]
        assert set(zip(*members, strict=True)) == expected, (number, orders)
        assert result.verify().ok


@pytest.mark.parametrize("number", range(0, 104, 3))
def test_order_one_is_the_power_diagram(number):
    case = order_instance(number)
    scores = (Scores.of_sites if case.sites else Scores.of_keys)(case.keys, case.offsets)
    lowest = decide_interiors(scores).nonempty & (scores.tie_group == np.arange(scores.n_keys))
    assert winning_sets(scores, 1).sets.ravel().tolist() == np.flatnonzero(lowest).tolist()


@pytest.mark.parametrize("number", range(0, 208, 5))
def test_neighbours_are_those_of_the_diagram_of_sums(number):
    """The splitting kernel cuts the sums of the winning sets and sees which cells touch."""
    case = order_instance(number, dimensions=(1, 2, 3))
    scores = (Scores.of_sites if case.sites else Scores.of_keys)(case.keys, case.offsets)
    found = winning_sets(scores, case.k, method="walk")
    cells = refine([scores.sums(found.sets)])
    assert cells.choices.ravel().tolist() == list(range(len(found.sets)))
    assert found.adjacency.tolist() == cells.adjacency().tolist()


# Laws of counts
# ----------------------------------------------------------------------------------------------------------


def _generic(n: int, d: int, seed: int, size: int = 10**6) -> np.ndarray:
    """Large random integers: in general position but for a chance that no seed here has met."""
    return np.random.default_rng(seed).integers(-size, size, (n, d))


def _counts(scores: Scores) -> list[int]:
    return [len(winning_sets(scores, k).sets) for k in range(1, scores.n_keys)]


@pytest.mark.parametrize(("n", "d"), [(7, 1), (12, 1), (8, 2), (11, 2), (8, 3), (7, 4)])
@pytest.mark.parametrize("biased", [False, True])
def test_all_orders_together_are_the_cells_of_an_arrangement(n, d, biased):
    keys = _generic(n, d, seed=n)
    scores = Scores.of_keys(keys, _generic(n, 1, seed=1)[:, 0] if biased else None)
    counts = _counts(scores)
    assert sum(counts) + 2 == zaslavsky(n, d + 1, central=not biased)
    if not biased:
        assert counts == counts[::-1]


@pytest.mark.parametrize("seed", range(6))
def test_lees_count_of_order_k_voronoi_cells(seed):
    n = 6 + 2 * seed
    sites = _generic(n, 2, seed)
    small = _counts(Scores.of_keys(sites))  # the i-sets of the sites
    assert sum(small) == n * (n - 1)
    for k, cells in enumerate(_counts(Scores.of_sites(sites)), start=1):
        assert cells == (2 * k - 1) * n - (k * k - 1) - sum(small[: k - 1])


def test_lees_count_fails_where_weights_hide_a_site():
    sites = [[0, 0], [8, 1], [1, 9], [-7, 2], [1, 2]]
    small = len(hm.attention_diagram(sites, k=1).nonempty.nonzero()[0])
    cells = hm.power_diagram(sites, [0, 0, 0, 0, -1000], k=2).n_cells
    assert not hm.power_diagram(sites, [0, 0, 0, 0, -1000]).nonempty[4]
    assert cells != 3 * 5 - 3 - small


def _corners_by_level(lifted: list[tuple[Fraction, ...]], linear: bool) -> list[int]:
    """n_i: corners at which three scores tie below exactly i others, triple by triple in integers."""
    n = len(lifted)
    counts = [0] * n
    for triple in combinations(range(n), 3):
        p, q, r = (lifted[j] for j in triple)
        u, v = ([a - b for a, b in zip(p, other, strict=True)] for other in (q, r))
        y = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
        for sign in (1, -1):
            z = [sign * value for value in y]
            if not linear and z[2] <= 0:
                continue
            level = sum(a * b for a, b in zip(p, z, strict=True))
            others = (
                sum(a * b for a, b in zip(lifted[j], z, strict=True)) for j in range(n) if j not in triple
            )
            counts[sum(value > level for value in others)] += 1
    return counts


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("n", [5, 9, 20])
def test_cells_counted_by_the_corners_of_levels(n, biased):
    """Euler's formula: the number of cells from the levels of all triples of keys, at N = 20 as well."""
    if biased:
        keys, biases = _generic(n, 2, n), _generic(n, 1, n + 1)[:, 0]
        scores, lifted = Scores.of_keys(keys, biases), lift_keys(keys, biases)
        ends = _counts(Scores.of_keys(keys))
    else:
        keys = _generic(n, 3, n)
        scores, lifted, ends = Scores.of_keys(keys), [key[:-1] for key in lift_keys(keys)], [2] * (n - 1)
    corners = _corners_by_level(lifted, not biased)
    for k, cells in enumerate(_counts(scores), start=1):
        met = corners[k - 1] + (corners[k - 2] if k > 1 else 0)
        assert cells == 1 + Fraction(met + ends[k - 1], 2)


# Bounds
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 520, 7))
def test_no_diagram_has_more_cells_than_the_bound(number):
    case = order_instance(number)
    scores = (Scores.of_sites if case.sites else Scores.of_keys)(case.keys, case.offsets)
    n, d = case.keys.shape
    plain = case.sites and case.offsets is None
    cells = len(winning_sets(scores, case.k).sets)
    for bound in hm.bounds.order_k_bounds(n, d, case.k, biased=not scores.linear, voronoi=plain):
        assert bound.side.value == "lower" or cells <= bound.value, bound.name


@pytest.mark.parametrize(("n", "d"), [(9, 1), (14, 2), (30, 2), (10, 3), (8, 4)])
@pytest.mark.parametrize("biased", [False, True])
def test_bounds_of_larger_random_keys(n, d, biased):
    scores = Scores.of_keys(_generic(n, d, 3), _generic(n, 1, 4)[:, 0] if biased else None)
    for k, cells in enumerate(_counts(scores), start=1):
        assert cells <= hm.bounds.order_k_upper(n, d, k, biased=biased)


def _arms(sizes: tuple[int, ...]) -> np.ndarray:
    """Sites on three slightly bent arms, each four times as far out as the last: few small sets."""
    sites = []
    for arm, size in enumerate(sizes):
        for i in range(size):
            radius = 4.0 ** (i + 1)
            angle = 2 * np.pi * arm / 3 + 0.3 / radius
            sites.append([radius * np.cos(angle), radius * np.sin(angle)])
    return np.array(sites)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 3, 4), (3, 4, 4), (4, 4, 4)])
def test_three_arms_reach_the_largest_number_of_voronoi_cells(sizes):
    n = sum(sizes)
    reached = 0
    for k in range(1, n // 2 + 1):
        bounds = hm.bounds.order_k_bounds(n, 2, k, voronoi=True)
        if k - 1 <= n // 3:
            cells = len(winning_sets(Scores.of_sites(_arms(sizes)), k).sets)
            assert (cells, bounds.upper.side.value) == (bounds.upper.value, "maximum")
            reached += 1
    assert reached > 0


@pytest.mark.parametrize("n", [4, 7, 10])
def test_constructions_reach_their_lower_bounds(n):
    convex = [[j, j * j] for j in range(n)]
    line = [[j * j + j] for j in range(n)]
    for k in range(1, n):
        voronoi = len(winning_sets(Scores.of_sites(convex), k).sets)
        assert voronoi == k * (n - k) + 1 == hm.bounds.order_k_bounds(n, 2, k, biased=True).lower.value
        assert len(winning_sets(Scores.of_keys(convex), k).sets) == n
        assert hm.bounds.order_k_bounds(n, 2, k).lower.value == n
        on_line = len(winning_sets(Scores.of_sites(line), k).sets)
        assert on_line == n - k + 1 == hm.bounds.order_k_upper(n, 1, k, voronoi=True)
        assert hm.bounds.order_k_bounds(n, 1, k, biased=True).lower.value == max(k, n - k) + 1
        if 2 * k > n:
            assert voronoi == hm.bounds.order_k_upper(n, 2, k, voronoi=True)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_simplices_have_all_subsets(d):
    corners = np.vstack([np.zeros(d, dtype=int), np.eye(d, dtype=int)])
    for k in range(1, d + 2):
        assert len(winning_sets(Scores.of_keys(corners), k).sets) == comb(d + 1, k)
        assert hm.bounds.order_k_bounds(d + 1, d, k).upper.side.value == "maximum"


@pytest.mark.parametrize(
    ("keys", "k"),
    [
        ([[0, 6], [-6, -4], [6, -4], [0, 1]], 2),  # a triangle with a point inside: all six pairs
        (
            [[0, 60], [-52, -30], [52, -30], [3, 20], [-19, -7], [16, -13]],
            3,
        ),  # two triangles: twelve of twenty
    ],
)
def test_small_sets_of_the_plane_can_be_reached(keys, k):
    n = len(keys)
    assert len(simplex_sets(lift_keys(keys), k)) == len(winning_sets(Scores.of_keys(keys), k).sets)
    assert len(winning_sets(Scores.of_keys(keys), k).sets) == hm.bounds.order_k_upper(n, 2, k)


def test_oracles_agree_on_sites():
    sites = [[0, 0], [4, 0], [0, 4], [4, 4], [2, 2], [2, 2]]
    found = winning_sets(Scores.of_sites(sites), 3).sets.tolist()
    assert {tuple(row) for row in found} == simplex_sets(lift_sites(sites), 3)
