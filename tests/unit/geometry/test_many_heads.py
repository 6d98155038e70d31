"""Cells of many heads from few of them, and their mean number for Gaussian keys."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.geometry.many_heads import angle_sums, expected_vertices, inner_angle, vertices_from_subsets
from hardmax.geometry.minkowski import mixed_counts

FAMILIES = [
    (2, 6, 4, False),
    (3, 5, 5, False),
    (4, 4, 3, False),
    (1, 4, 5, True),
    (2, 5, 4, True),
    (3, 4, 3, True),
]


def drawn(d, heads, n_tokens, biased, seed):
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((heads, n_tokens, d))
    return keys, rng.standard_normal((heads, n_tokens)) if biased else None


@pytest.mark.parametrize(("d", "heads", "n_tokens", "biased"), FAMILIES)
def test_all_subsets_give_the_count(d, heads, n_tokens, biased):
    for seed in range(3):
        keys, biases = drawn(d, heads, n_tokens, biased, seed)
        found = vertices_from_subsets(keys, biases)
        assert found.exact
        assert found.value == hm.minkowski_vertices(keys, biases).count
        assert len(found.mixed) == (d if biased else d - 1) + 1


def test_heads_of_few_dimensions_and_of_different_sizes():
    """Whole numbers, so that products have exactly rank 2: general position is still that of ties."""
    rng = np.random.default_rng(1)
    keys = [rng.integers(-99, 99, (n, 2)) @ rng.integers(-99, 99, (2, 4)) for n in (3, 5, 1, 4, 6, 5)]
    assert vertices_from_subsets(keys).value == hm.minkowski_vertices(keys).count
    assert vertices_from_subsets([[[1, 2]], [[3, 4]]]).value == 1


def test_a_sample_of_subsets_is_unbiased():
    keys, _ = drawn(3, 12, 5, False, 7)
    truth = hm.minkowski_vertices(keys).count
    found = [vertices_from_subsets(keys, n_samples=12, rng=seed) for seed in range(30)]
    values = np.array([each.value for each in found])
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - truth) < 4 * error
    assert error < 0.03 * truth
    stated = np.mean([each.standard_error for each in found])
    assert 0.6 < stated / values.std(ddof=1) < 1.6
    assert not found[0].exact


def test_what_is_not_in_general_position_is_refused():
    keys, _ = drawn(3, 3, 4, False, 0)
    with pytest.raises(InvalidInputError, match="0 and 3 are equal"):
        vertices_from_subsets([*keys, keys[0]])
    with pytest.raises(InvalidInputError, match="general position"):
        vertices_from_subsets(np.random.default_rng(0).integers(-2, 3, (3, 6, 3)))
    with pytest.raises(InvalidInputError, match="n_samples must be given"):
        vertices_from_subsets(np.random.default_rng(0).standard_normal((300, 2, 5)))


@pytest.mark.parametrize("seed", range(4))
def test_mixed_counts_are_bounded_one_by_one(seed):
    """Theorem 3: 0 <= m(T) <= product of N_h - 1; also for linear scores up to d - 1 heads."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        d, heads = int(rng.integers(2, 4)), int(rng.integers(2, 5))
        sizes = rng.integers(2, 6, heads)
        keys = [rng.standard_normal((n, d)) for n in sizes]
        for biases in (None, [rng.standard_normal(n) for n in sizes]):
            counts = {(): 1}
            for j in range(1, heads + 1):
                for part in combinations(range(heads), j):
                    chosen = None if biases is None else [biases[h] for h in part]
                    counts[part] = hm.minkowski_vertices([keys[h] for h in part], chosen).count
            for part, term in mixed_counts(counts).items():
                most = math.prod(int(sizes[h]) - 1 for h in part)
                if biases is None and len(part) >= d:
                    assert term == (-1) ** (d + len(part))
                else:
                    assert 0 <= term <= (0 if len(part) > d else most)


# Gaussian keys
# ----------------------------------------------------------------------------------------------------------


def test_angles_of_simplices():
    assert inner_angle(2) == pytest.approx(1 / 6, abs=1e-14)
    assert inner_angle(3) == pytest.approx((3 * math.acos(1 / 3) - math.pi) / (4 * math.pi), abs=1e-14)
    rng = np.random.default_rng(0)
    for k in (4, 5):  # directions from a corner of the simplex e_0, ..., e_k that lead into it
        directions = rng.standard_normal((400_000, k + 1))
        inside = (directions[:, 1:] > directions.mean(axis=1, keepdims=True)).all(axis=1).mean()
        assert abs(inside - inner_angle(k)) < 4 * math.sqrt(inside / len(directions))
    assert angle_sums(2, 3) == pytest.approx((1, 1, 0), abs=1e-13)
    for n in (2, 5, 40):  # all vertices together: the outer angles of a polytope add up to 1
        assert angle_sums(n, 1)[0] == pytest.approx(1, abs=1e-12)


def test_small_polytopes_keep_all_vertices():
    for d in range(1, 9):
        for n in range(2, d + 2):
            assert expected_vertices(n, 1, d) == pytest.approx(n, abs=1e-10)
        for heads in range(1, 6):  # two keys: a hyperplane through the origin
            assert expected_vertices(2, heads, d) == pytest.approx(
                hm.bounds.zaslavsky(heads, d, central=True)
            )
    assert expected_vertices([3, 4], 2, 6) == pytest.approx(12)
    assert expected_vertices(1, 3, 2) == 1


def test_gaussian_polygons_and_polytopes():
    """The plane: Renyi and Sulanke's integral, by another rule of quadrature; space: from its triangles."""
    from scipy.integrate import quad

    def faces(n, d):
        def density(h):
            return (
                math.sqrt(d / (2 * math.pi))
                * math.exp(-d * h * h / 2)
                * (math.erfc(-h / math.sqrt(2)) / 2) ** (n - d)
            )

        return 2 * math.comb(n, d) * quad(density, -10, 12, epsabs=1e-14)[0]

    for n in (3, 10, 200):
        assert expected_vertices(n, 1, 2) == pytest.approx(faces(n, 2), rel=1e-9)
        assert expected_vertices(n, 7, 2) == pytest.approx(7 * faces(n, 2), rel=1e-9)
    for n in (4, 10, 200):
        assert expected_vertices(n, 1, 3) == pytest.approx(2 + faces(n, 3) / 2, rel=1e-9)
    polygon = faces(10, 2)  # pairs of edges with a common normal: half of the square
    excess = expected_vertices(10, 2, 3) - 2 * expected_vertices(10, 1, 3) + 1
    assert excess == pytest.approx(polygon**2 / 2 - 1, rel=1e-9)


@pytest.mark.parametrize(("n_tokens", "heads", "d"), [(6, 3, 3), (5, 3, 4), (12, 2, 3), (9, 4, 2)])
def test_the_mean_of_enumerated_families(n_tokens, heads, d):
    rng = np.random.default_rng(d)
    counts = [hm.minkowski_vertices(rng.standard_normal((heads, n_tokens, d))).count for _ in range(150)]
    error = np.std(counts, ddof=1) / math.sqrt(len(counts))
    assert abs(np.mean(counts) - expected_vertices(n_tokens, heads, d)) < 4 * error
    assert error < 0.02 * np.mean(counts)


def test_a_polynomial_in_the_number_of_heads():
    for d in (2, 3, 5):
        values = [expected_vertices(20, h, d) for h in range(1, d + 4)]
        differences = np.diff(values, n=d)
        assert np.abs(differences).max() < 1e-9 * values[-1]
        assert np.diff(values, n=d - 1)[0] == pytest.approx(2 * angle_sums(20, 2)[1] ** (d - 1), rel=1e-9)


# The lemmas of Theorem 3, one by one
# ----------------------------------------------------------------------------------------------------------


def counts_of(keys, biases, half_space=None):
    """r(U) for all sets U of heads; with a half-space (a head of two keys) only cells on its first side."""
    found = {}
    for j in range(len(keys) + 1):
        for part in combinations(range(len(keys)), j):
            sets, values = [keys[h] for h in part], [biases[h] for h in part]
            if half_space is None:
                found[part] = hm.minkowski_vertices(sets, values).count if part else 1
            else:
                both = hm.minkowski_vertices([half_space[0], *sets], [half_space[1], *values])
                found[part] = int((both.choices[:, 0] == 0).sum())
    return found


@pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1), (2, 2), (3, 3)])
def test_a_hyperplane_and_its_sides(d, seed):
    """Lemma B: m on the hyperplane <= m on one side <= m on both."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        keys, biases = rng.standard_normal((3, 4, d)), rng.standard_normal((3, 4))
        normal, level = rng.standard_normal(d), rng.standard_normal()
        sides = [
            counts_of(keys, biases, (sign * np.array([normal, -normal]), sign * np.array([level, -level])))
            for sign in (1, -1)
        ]
        whole = counts_of(keys, biases)
        cut = {part: sides[0][part] + sides[1][part] - whole[part] for part in whole}
        both, one, other, on = (mixed_counts(counts) for counts in (whole, *sides, cut))
        for part in both:
            assert 0 <= on[part] <= min(one[part], other[part])
            assert max(one[part], other[part]) <= both[part]


@pytest.mark.parametrize("seed", range(5))
def test_cells_by_the_ties_at_their_nearest_point(seed):
    """Lemma A in the plane: candidates are a point, its feet on walls, and corners of two walls."""
    rng = np.random.default_rng(seed)
    keys, biases, a = rng.standard_normal((3, 3, 2)), rng.standard_normal((3, 3)), rng.standard_normal(2)
    walls = [
        (keys[h, i] - keys[h, j], biases[h, j] - biases[h, i])
        for h in range(3)
        for i, j in combinations(range(3), 2)
    ]
    candidates = [a, *(a + n * (c - n @ a) / (n @ n) for n, c in walls)]
    candidates += [np.linalg.solve([n, k], [c, e]) for (n, c), (k, e) in combinations(walls, 2)]
    seen = dict.fromkeys(mixed_counts(counts_of(keys, biases)), 0)
    for choice in hm.minkowski_vertices(keys, biases).choices:
        best, ties = math.inf, ()
        for x in candidates:
            scores = np.einsum("hnd,d->hn", keys, x) + biases
            lead = scores[range(3), choice][:, None] - scores
            if lead.min() > -1e-9 and np.linalg.norm(x - a) < best:
                near = (np.abs(lead) < 1e-9).sum(axis=1) > 1
                best, ties = np.linalg.norm(x - a), tuple(np.flatnonzero(near).tolist())
        seen[ties] += 1
    assert seen == mixed_counts(counts_of(keys, biases))


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (3, 1), (4, 2)])
def test_rays_of_few_heads(d, seed):
    """Lemma E: rays where d - 1 heads tie, counted from pairs of keys, at most prod (N_h - 1) + 1 = m + 1."""
    rng = np.random.default_rng(seed)
    n = 4 if d < 4 else 3
    keys = rng.standard_normal((d - 1, n, d))
    rays = 0
    for pairs in np.ndindex(*[n * (n - 1) // 2] * (d - 1)):
        chosen = [list(combinations(range(n), 2))[p] for p in pairs]
        rows = np.array([keys[h, i] - keys[h, j] for h, (i, j) in enumerate(chosen)])
        ray = np.linalg.svd(rows)[2][-1]
        for x in (ray, -ray):
            scores = keys @ x
            rays += all(scores[h, i] > np.delete(scores[h], (i, j)).max() for h, (i, j) in enumerate(chosen))
    counts = {(): 1}
    for j in range(1, d):
        for part in combinations(range(d - 1), j):
            counts[part] = hm.minkowski_vertices(keys[list(part)]).count
    assert rays == mixed_counts(counts)[tuple(range(d - 1))] + 1
    biased = mixed_counts(counts_of(keys, rng.standard_normal((d - 1, n))))[tuple(range(d - 1))]
    assert rays - 1 <= biased <= (n - 1) ** (d - 1)  # the graph that biases make of the rays is connected


@pytest.mark.parametrize(
    ("d", "sizes"), [(2, (2, 4, 3)), (3, (2, 4, 3, 3)), (3, (5, 3, 4)), (4, (2, 3, 3, 2))]
)
def test_cells_within_a_cone_of_the_first_head(d, sizes):
    """The linear upper bound: m on a slice is at most the product, and d - 1 heads have product + 1 rays."""
    rng = np.random.default_rng(d)
    keys = [rng.standard_normal((n, d)) for n in sizes]
    others = range(1, len(sizes))
    choices = {
        part: hm.minkowski_vertices([keys[0], *(keys[h] for h in part)]).choices[:, 0]
        for j in range(len(sizes))
        for part in combinations(others, j)
    }
    together = dict.fromkeys(choices, 0)
    for key in range(sizes[0]):
        counts = {part: int((first == key).sum()) for part, first in choices.items()}
        for part, term in mixed_counts(counts).items() if counts[()] else ():
            assert 0 <= term <= (0 if len(part) > d - 1 else math.prod(sizes[h] - 1 for h in part))
            together[part] += term
    for part, rays in together.items():
        if len(part) == d - 1:
            assert 2 <= rays <= math.prod(sizes[h] - 1 for h in part) + 1
