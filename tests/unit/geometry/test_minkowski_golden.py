"""Counts that are known: golden Gaussian instances, figure 4, exact maxima, Euler and Weibel identities."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from oracles.certificates import lift_heads, tuple_problems
from oracles.judging import missing_and_extra, reference, result_problems
from oracles.minkowski_bruteforce import qhull_count

import hardmax as hm
from hardmax import errors

GAUSSIAN = {  # (d, H, N): vertices
    (4, 3, 7): 107,
    (4, 3, 20): 335,
    (4, 4, 30): 935,
    (3, 4, 20): 168,
    (3, 8, 50): 969,
    (5, 3, 12): 429,
    (6, 4, 10): 2176,
    (2, 16, 200): 153,
    (4, 8, 50): 10608,
    (5, 5, 20): 5388,
    (6, 6, 12): 22742,
    (8, 4, 12): 7679,
}


def gaussian(d, heads, n_tokens):
    return np.random.default_rng(0).standard_normal((heads, n_tokens, d))


def spot_check(result, point_sets, biases=None, rows=40):
    """Rationals on a sample of the witnesses; the whole list is covered by the count."""
    heads = lift_heads(point_sets, biases)
    assert len(np.unique(result.choices, axis=0)) == result.count
    for row in np.random.default_rng(0).choice(result.count, size=min(rows, result.count), replace=False):
        witness = result.exact_witnesses.get(int(row), result.witnesses[row])
        assert tuple_problems(heads, result.choices[row].tolist(), witness) == []


@pytest.mark.parametrize(("d", "heads", "n_tokens"), GAUSSIAN)
def test_golden_gaussian_counts(d, heads, n_tokens):
    points = gaussian(d, heads, n_tokens)
    result = hm.minkowski_vertices(points)
    assert result.count == GAUSSIAN[d, heads, n_tokens]
    spot_check(result, points)


# ----------------------------------------------------------------------------------------------
# Figure 4 of the tropical paper
# ----------------------------------------------------------------------------------------------


def figure_4_heads():
    """Integer keys (p u1, p u2, -p^2): six per head, in R^3."""
    directions, shifts = [(1, 0), (-1, 2), (-1, -3)], [0, 5, 11]
    heads = []
    for (first, second), shift in zip(directions, shifts, strict=True):
        positions = [7 * j + shift for j in range(-2, 4)]
        heads.append([[p * first, p * second, -p * p] for p in positions])
    return heads


@pytest.mark.parametrize(("heads", "count"), [(1, 6), (2, 36), (3, 92)])
def test_figure_4_integer_witness(heads, count):
    point_sets = figure_4_heads()[:heads]
    result = hm.minkowski_vertices(point_sets)
    lifted = lift_heads(point_sets)
    assert result.count == count == hm.vertex_maximum(6, heads, 3, biased=False)
    assert qhull_count(lifted) == count
    assert result_problems(result, lifted) == []
    expected = reference(lifted)
    if expected is not None:
        assert missing_and_extra(result, expected) == (set(), set())
    assert result.verify().ok


@pytest.mark.parametrize(("d", "biased"), [(3, True), (4, False)])
def test_all_216_sums_where_that_is_possible(d, biased):
    """Three heads of six keys have 216 sums: all are vertices with affine scores in R^3, linear in R^4."""
    assert hm.vertex_maximum(6, 3, d, biased=biased) == 216
    assert hm.vertex_maximum(6, 3, 3, biased=False) == 92
    point_sets, biases = hm.geometry.parabolic_heads(6, 3, d, biased=biased)
    result = hm.minkowski_vertices(point_sets, biases)
    assert result.count == 216
    assert result_problems(result, lift_heads(point_sets, biases)) == []


# ----------------------------------------------------------------------------------------------
# The exact maxima
# ----------------------------------------------------------------------------------------------


def maximum(n_tokens, heads, d, biased):
    """Affine: sum_{j<=d} C(H,j) (N-1)^j; linear: sum_{j<d} C(H,j) (N-1)^j + C(H-1,d-1)."""
    if n_tokens == 1:
        return 1
    if biased:
        return sum(comb(heads, j) * (n_tokens - 1) ** j for j in range(d + 1))
    return sum(comb(heads, j) * (n_tokens - 1) ** j for j in range(d)) + comb(heads - 1, d - 1)


SIZES = [(n, h, d) for d in range(1, 11) for h in range(1, 9) for n in (1, 2, 3, 4, 6, 9)]


@pytest.mark.parametrize("biased", [False, True])
def test_vertex_maximum(biased):
    for n_tokens, heads, d in SIZES:
        value = hm.vertex_maximum(n_tokens, heads, d, biased=biased)
        assert value == maximum(n_tokens, heads, d, biased)
        assert isinstance(value, int)
        assert value <= n_tokens**heads
        if heads <= d - (not biased):
            assert value == n_tokens**heads


def test_vertex_maximum_at_sizes_of_real_models():
    """Integers, not floats: twelve heads of a thousand tokens in 64 dimensions."""
    assert hm.vertex_maximum(1000, 12, 64, biased=False) == 1000**12
    assert hm.vertex_maximum(512, 8, 64, biased=True) == 512**8 == 2**72
    assert hm.vertex_maximum(10**6, 100, 3, biased=True) == maximum(10**6, 100, 3, True)


def test_weibels_form_of_the_linear_maximum():
    for n_tokens, heads, d in SIZES:
        if n_tokens == 1 or d < 2:
            continue
        m = n_tokens - 1
        weibel = n_tokens * sum(comb(heads - 1, k) * m**k for k in range(d - 1)) + comb(heads - 1, d - 1) * (
            m ** (d - 1) + 1
        )
        assert hm.vertex_maximum(n_tokens, heads, d, biased=False) == weibel


ATTAINED = [
    (n, h, d, biased)
    for biased in (False, True)
    for d in range(1, 7)
    for h in range(1, 7)
    for n in (1, 2, 3, 4, 6)
    if maximum(n, h, d, biased) <= (1500 if d <= 4 else 300)
]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("d", range(1, 7))
def test_parabolic_heads_attain_the_maximum(d, biased):
    for n_tokens, heads, dimension, with_biases in ATTAINED:
        if (dimension, with_biases) != (d, biased):
            continue
        point_sets, biases = hm.geometry.parabolic_heads(n_tokens, heads, d, biased=biased)
        assert (biases is None) is not biased
        assert len(point_sets) == heads
        assert all(np.asarray(points).shape == (n_tokens, d) for points in point_sets)
        assert all(
            float(v).is_integer() for points in point_sets for key in np.asarray(points).tolist() for v in key
        )
        result = hm.minkowski_vertices(point_sets, biases)
        assert result.count == hm.vertex_maximum(n_tokens, heads, d, biased=biased), (
            n_tokens,
            heads,
            d,
            biased,
        )
        spot_check(result, point_sets, biases, rows=8)


@pytest.mark.parametrize("biased", [False, True])
def test_parabolic_heads_by_brute_force(biased):
    """Where all sums can be listed, the construction itself is judged by an oracle, not by our own count."""
    for n_tokens, heads, d in [
        (2, 3, 2),
        (3, 2, 2),
        (3, 3, 2),
        (4, 3, 3),
        (3, 4, 3),
        (2, 5, 3),
        (3, 3, 4),
        (2, 4, 5),
    ]:
        point_sets, biases = hm.geometry.parabolic_heads(n_tokens, heads, d, biased=biased)
        expected = reference(lift_heads(point_sets, biases))
        if expected is not None:
            assert len(expected) == maximum(n_tokens, heads, d, biased)


def test_nothing_exceeds_the_maximum():
    rng = np.random.default_rng(5)
    for _ in range(60):
        d, heads, n_tokens = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(1, 7))
        biased = bool(rng.integers(0, 2))
        points = rng.standard_normal((heads, n_tokens, d))
        biases = rng.standard_normal((heads, n_tokens)) if biased else None
        count = hm.minkowski_vertices(points, biases).count
        assert count <= hm.vertex_maximum(n_tokens, heads, d, biased=biased)


@pytest.mark.parametrize("arguments", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-3, 1, 1), (2.5, 1, 1)])
def test_sizes_below_one_are_refused(arguments):
    with pytest.raises(errors.InvalidInputError):
        hm.vertex_maximum(*arguments, biased=True)
    with pytest.raises(errors.InvalidInputError):
        hm.geometry.parabolic_heads(*arguments)


# ----------------------------------------------------------------------------------------------
# Identities between the counts of sub-families
# ----------------------------------------------------------------------------------------------


def counts_of_subfamilies(points, biases):
    """r(S) for every set S of heads; no heads at all leave space in one piece."""
    heads = len(points)
    counts = {(): 1}
    for size in range(1, heads + 1):
        for family in combinations(range(heads), size):
            chosen = list(family)
            counts[family] = hm.minkowski_vertices(
                points[chosen], None if biases is None else biases[chosen]
            ).count
    return counts


def moebius(counts, family):
    """m(T) = sum over S in T of (-1)^(|T|-|S|) r(S)."""
    return sum(
        (-1) ** (len(family) - size) * counts[part]
        for size in range(len(family) + 1)
        for part in combinations(family, size)
    )


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("d", "heads", "n_tokens"), [(1, 4, 6), (2, 5, 9), (3, 5, 8), (4, 6, 5), (5, 6, 3), (6, 7, 3)]
)
def test_euler_identity(d, heads, n_tokens, biased):
    """In general position m(T) = 0 for |T| > d (affine), m(T) = (-1)^(d+|T|) for |T| >= d (linear)."""
    rng = np.random.default_rng(d)
    points = rng.standard_normal((heads, n_tokens, d))
    biases = rng.standard_normal((heads, n_tokens)) if biased else None
    counts = counts_of_subfamilies(points, biases)
    checked = 0
    for family in counts:
        size = len(family)
        if biased and size > d:
            assert moebius(counts, family) == 0
            checked += 1
        elif not biased and size >= d:
            assert moebius(counts, family) == (-1) ** (d + size)
            checked += 1
        elif size <= 2 and 0 < size < d:
            assert 0 <= moebius(counts, family) <= (n_tokens - 1) ** size
    assert checked > 0


@pytest.mark.parametrize(
    ("d", "heads", "n_tokens"), [(2, 5, 12), (3, 5, 10), (3, 6, 7), (4, 5, 8), (5, 6, 3)]
)
def test_weibel_identity(d, heads, n_tokens):
    """The count of H >= d heads in general position follows from the sums of at most d - 1 of them."""
    points = np.random.default_rng(100 + d).standard_normal((heads, n_tokens, d))
    alpha = 2 if d % 2 else 0
    expected = alpha
    for size in range(1, d):
        part = sum(
            hm.minkowski_vertices(points[list(S)]).count - alpha for S in combinations(range(heads), size)
        )
        expected += (-1) ** (d - 1 - size) * comb(heads - 1 - size, d - 1 - size) * part
    assert hm.minkowski_vertices(points).count == expected


def test_weibel_identity_for_the_golden_instances():
    for (d, heads, n_tokens), total in GAUSSIAN.items():
        if heads < d or total > 1000:
            continue
        points = gaussian(d, heads, n_tokens)
        alpha = 2 if d % 2 else 0
        expected = alpha
        for size in range(1, d):
            part = sum(
                hm.minkowski_vertices(points[list(S)]).count - alpha for S in combinations(range(heads), size)
            )
            expected += (-1) ** (d - 1 - size) * comb(heads - 1 - size, d - 1 - size) * part
        assert expected == total


def test_self_verification_of_golden_instances():
    for sizes in [(4, 3, 7), (3, 4, 20), (2, 16, 200), (5, 3, 12)]:
        assert hm.minkowski_vertices(gaussian(*sizes)).verify().ok


def test_exact_fractions_keep_what_floats_lose():
    """Three collinear keys in thirds: the middle one never wins, although its float copy does."""
    third = Fraction(1, 3)
    keys = [[Fraction(0), Fraction(0)], [third, 2 * third], [2 * third, 4 * third]]
    assert hm.minkowski_vertices([keys]).count == 2
    tenths = [[Fraction(n, 10), Fraction(3 * n, 10)] for n in range(8)]
    assert hm.minkowski_vertices([tenths, tenths]).count == 2
    floats = [[float(a), float(b)] for a, b in tenths]
    assert hm.minkowski_vertices([floats]).count == len(reference(lift_heads([floats])))
