"""How wide heads must be: exact ranks, what narrower heads lose, and plans that need it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import InvalidInputError
from hardmax.exact.rationals import exact_rank
from hardmax.flow.costs.score_rank import form_rank, missed_maximum, narrow_form, partner_rank
from hardmax.flow.theorems.narrow_heads import exact_factors, misread_keys
from hardmax.targets import InputDomain


def integer_form(d: int, rank: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    while True:
        A = rng.integers(-3, 4, (d, rank)) @ rng.integers(-3, 4, (rank, d))
        if np.linalg.matrix_rank(A) == rank:
            return A


def fractions(values) -> tuple[Fraction, ...]:
    return tuple(Fraction(int(v)) for v in values)


def inner(u, v) -> Fraction:
    return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))


def by_form(A, y, x) -> Fraction:
    return sum(y[i] * int(A[i, j]) * x[j] for i in range(len(y)) for j in range(len(x)))


# Ranks
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "rank"), [(1, 1), (3, 2), (4, 3), (5, 1), (6, 4)])
def test_a_head_as_wide_as_the_rank_has_the_score_exactly(d, rank):
    A = integer_form(d, rank, 10 * d + rank)
    Q, K = exact_factors(A)
    assert len(Q) == len(K) == rank == exact_rank(A) == form_rank(A)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = fractions(rng.integers(-9, 10, d)), fractions(rng.integers(-9, 10, d))
        produced = inner([inner(row, y) for row in Q], [inner(row, x) for row in K])
        assert produced == by_form(A, y, x)


def _heads(width: int, d: int, seed: int):
    """Key functions of that width: linear, and with squares and products."""
    rng = np.random.default_rng(seed)
    W = rng.integers(-5, 6, (width, d))
    V = rng.integers(-5, 6, (width, d, d))
    yield lambda x: [inner(fractions(row), x) for row in W]
    yield lambda x: [
        inner(fractions(row), x) + sum(int(M[i, j]) * x[i] * x[j] for i in range(d) for j in range(d)) + 7
        for row, M in zip(W, V, strict=True)
    ]


@pytest.mark.parametrize(("d", "rank"), [(2, 2), (3, 2), (4, 4), (5, 3)])
def test_a_narrower_head_chooses_a_wrong_key_whatever_its_query_vector(d, rank):
    A = integer_form(d, rank, d + rank)
    for seed, width in product(range(4), range(1, rank)):
        for keys in _heads(width, d, seed):
            found = misread_keys(A, keys)
            above = [by_form(A, found.query, x) for x in found.above]
            below = [by_form(A, found.query, x) for x in found.below]
            assert min(above) > max(below)  # what the score wants
            for weights in (found.weights_above, found.weights_below):
                assert min(weights) >= 0
                assert sum(weights) == 1
            mixed = [
                [inner(weights, [keys(x)[c] for x in group]) for c in range(width)]
                for weights, group in (
                    (found.weights_above, found.above),
                    (found.weights_below, found.below),
                )
            ]
            assert mixed[0] == mixed[1]  # so no query vector of the head separates the two groups
            q = fractions(np.random.default_rng(seed).integers(-9, 10, width))
            scores = [[inner(q, keys(x)) for x in group] for group in (found.above, found.below)]
            assert min(scores[0]) <= max(scores[1])


def test_a_head_that_is_wide_enough_has_nothing_to_misread():
    with pytest.raises(InvalidInputError, match="fewer numbers than the rank of the score, 2, but gave 2"):
        misread_keys([[1, 0], [0, 1]], lambda x: list(x))


@pytest.mark.parametrize(
    ("text", "d", "rank"),
    [
        ("max(s,t) x[s]' x[t]", 4, 4),
        ("max(s!=t) x[s]' x[t]", 4, 4),
        ("min(s!=t) |x[s] - x[t]|^2", 3, 4),
        ("max(s!=t) (100 x[s][0] - 10 (x[s][1] - x[t][1])^2 + x[t][2])", 3, 2),
        ("max(s,t) (x[s][0] x[t][1] + x[t][0])", 2, 1),
        ("max(s!=t) (x[s][0] x[t][1] + x[s][1])", 2, 2),
        ("max(s!=t) (x[s][0] + x[t][0])^2", 1, 2),
        ("max(s!=t) exp(x[s][0] x[t][0])", 1, None),
    ],
)
def test_the_rank_of_a_polynomial_leaves_out_what_depends_on_the_query(text, d, rank):
    term = hm.targets.parse(text, d=d).terms[0]
    assert partner_rank(term, d) == rank
    if rank is not None:  # the rank of a matrix of integer values, less its first column, over the rationals
        rng = np.random.default_rng(1)
        keys, queries = rng.integers(-4, 5, (40, d)), rng.integers(-4, 5, (40, d))
        x, y = np.broadcast_arrays(keys[None].astype(float), queries[:, None].astype(float))
        values = np.asarray(term.function(x, y))
        assert exact_rank(values - values[:, :1]) == rank


def test_the_rank_of_a_rounded_product_is_that_of_its_factors():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 5))
    assert form_rank(A) == 2 < exact_rank(A)
    bound = narrow_form(A, 2).distance
    assert 0 < bound < 1e-10


# What narrower heads lose
# ----------------------------------------------------------------------------------------------------------


def test_the_best_narrow_form_is_cut_at_the_singular_values():
    A = np.random.default_rng(4).normal(size=(5, 5))
    values = np.linalg.svd(A, compute_uv=False)
    for width in range(5):
        narrow = narrow_form(A, width)
        assert np.linalg.matrix_rank(narrow.matrix) == width
        assert np.linalg.norm(A - narrow.matrix, 2) <= narrow.distance
        assert narrow.distance == pytest.approx(values[width], rel=1e-9)
    assert narrow_form(A, 5).distance == 0.0


@pytest.mark.parametrize("domain", ["cube01", "cube11"])
def test_no_sample_misses_more_than_the_bound(domain):
    A = np.random.default_rng(5).normal(size=(3, 3))
    target = hm.targets.pairwise([A], domain=domain)
    X = target.sample(400, 9, 0)
    for width in (1, 2, 3):
        bound = missed_maximum(target.terms[0], width, InputDomain(domain), 3)
        table = np.einsum("bsi,ij,btj->bst", X, narrow_form(A, width).matrix, X)
        true = np.einsum("bsi,ij,btj->bst", X, A, X)
        partners = table.argmax(axis=1)
        found = np.take_along_axis(true, partners[:, None, :], axis=1)[:, 0].max(axis=1)
        lost = true.max(axis=(1, 2)) - found
        assert (lost >= 0).all()
        assert lost.max() <= bound
        assert (lost.max() > 0) == (width < 3)
    assert (
        missed_maximum(hm.targets.pairwise([A], domain="gaussian").terms[0], 1, InputDomain("gaussian"), 3)
        is None
    )


def test_the_bound_and_a_loss_in_closed_form():
    """diag(1, 1/4) on [-1,1]^2, cut to rank 1: for the query (1, 1) the keys (1, 1) and (1, -1) tie."""
    term = hm.targets.pairwise([[[1, 0], [0, 0.25]]], domain="cube11").terms[0]
    bound = missed_maximum(term, 1, InputDomain("cube11"), 2)
    assert bound == pytest.approx(0.25 * np.sqrt(2) * 2 * np.sqrt(2))
    keys, query = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([1.0, 1.0])
    cut = keys @ narrow_form([[1, 0], [0, 0.25]], 1).matrix @ query
    assert cut[0] == cut[1]
    true = keys @ np.diag([1, 0.25]) @ query
    assert true[0] - true[1] == 0.5  # half of the bound, if the tie goes wrong


def test_the_next_smaller_value_is_found_by_a_score_of_rank_two():
    """4^v - 2 16^v / 4^found over whole numbers v: the largest below ``found`` wins, exactly."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        values = rng.choice(30, size=8, replace=False).tolist()
        for found in values:
            if found > min(values):
                scores = [Fraction(4**v) - Fraction(2 * 16**v, 4**found) for v in values]
                best = values[scores.index(max(scores))]
                assert best == max(v for v in values if v < found)


def test_the_next_smaller_value_needs_rank_two():
    """One number per key orders keys in one way or the other; 'below 3' and 'below 2' ask for two others."""
    values = (1, 2, 3)
    wanted = {3: 2, 2: 1, 4: 3}
    rng = np.random.default_rng(7)
    for _ in range(500):
        keys, queries = rng.normal(size=3), {f: rng.normal() for f in wanted}
        assert any(values[int((q * keys).argmax())] != wanted[f] for f, q in queries.items())


# Plans and advice
# ----------------------------------------------------------------------------------------------------------


def test_a_plan_goes_to_heads_that_are_wide_enough():
    target = hm.targets.pairwise([integer_form(4, 3, 1)], domain="cube11")
    wide = hm.estimate_cost(target, hm.Architecture(12, 4, (1, 1), (3, 8)), n_samples=64)
    assert (wide.rules, wide.narrow, wide.thresholds["head_width"]) == ("max-position", (), 3)
    assert wide.ranks[0]["rank"] == wide.ranks[0]["head_width"] == 3
    narrow = hm.estimate_cost(target, hm.Architecture(12, 4, (1, 1), (2, 8)), n_samples=64)
    assert narrow.rules == "global"
    assert "rank 3 and a head of layer 1 width 2" in narrow.verdict
    assert narrow.upper == narrow.global_exponent > 0
    (row,) = narrow.narrow
    assert (row.term, row.layer, row.rank, row.head_width) == (1, 1, 3, 2)
    assert 0 < row.missed < np.inf
    assert 0 < row.share < 1
    assert narrow.ranks[0]["enough"] is False


def test_a_wide_later_layer_serves_where_the_first_is_narrow():
    target = hm.targets.pairwise([integer_form(4, 3, 1)], domain="cube11")
    late = hm.estimate_cost(target, hm.Architecture(12, 4, (1, 1, 1), (2, 8, 8)), n_samples=64)
    assert (late.rules, late.share) == ("max-position", 1.0)


def test_the_second_best_needs_a_head_of_width_two():
    target = hm.targets.kth_largest(2)
    assert hm.estimate_cost(target, hm.Architecture(9, 1, (1, 1), (1, 2))).rules == "max-position"
    narrow = hm.estimate_cost(target, hm.Architecture(9, 1, (1, 1), 1))
    assert narrow.rules == "global"
    assert [(row.layer, row.rank, row.missed) for row in narrow.narrow] == [(2, 2, None)]


def test_suggestions_say_what_a_narrower_head_loses():
    target = hm.targets.pairwise([np.diag([3.0, -2.0, 1.0])], domain="cube11")
    first = hm.advise(target, 12, n_samples=256).suggestions[0]
    assert (first.heads, first.ranks, first.missed) == ((1, 1), (3, 1), 0.0)
    assert all(w // h >= r for w, h, r in zip(first.widths, first.heads, first.ranks, strict=True))
    (less,) = first.narrower
    assert (less.layer, less.head_width) == (1, 2)
    assert less.missed == pytest.approx(1.0 * np.sqrt(3) * 2 * np.sqrt(3))
    assert 0 < less.share < 1


def test_a_head_may_be_narrower_where_a_loss_is_allowed():
    target = hm.targets.pairwise([np.diag([3.0, -2.0, 0.001])], domain="cube11")
    exact = hm.advise(target, 12, n_samples=64, max_exponent=1).suggestions[0]
    loose = hm.advise(target, 12, n_samples=64, max_exponent=1, max_missed=0.01).suggestions[0]
    assert (exact.ranks[0], loose.ranks[0]) == (3, 2)
    assert exact.missed == 0.0 < loose.missed <= 0.01
    assert loose.missed == pytest.approx(0.006)
    with pytest.raises(InvalidInputError, match="max_missed must be a number, 0 or more"):
        hm.advise(target, 12, max_missed=-1)


def test_the_error_of_narrow_heads_is_that_of_a_plain_loop():
    A, B = np.diag([3.0, -2.0, 1.0]), np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 1.0], [0.0, -1.0, 1.0]])
    target = hm.targets.pairwise([A, B])
    shape = hm.Architecture(8, 3, (2, 2), (4, 12))
    estimate = hm.estimate_cost(target, shape, n_samples=40, rng=0, thresholds=False)
    X = target.sample(40, 8, np.random.default_rng(0))
    lost = []
    for x in X:
        total = 0.0
        for M in (A, B):
            left, values, right = np.linalg.svd(M)
            cut = (left[:, :2] * values[:2]) @ right[:2]
            pairs = [max(range(8), key=lambda s, t=t: x[s] @ cut @ x[t]) for t in range(8)]
            best = max(x[s] @ M @ x[t] for s in range(8) for t in range(8))
            total += best - max(x[s] @ M @ x[t] for t, s in enumerate(pairs))
        lost.append(total)
    assert [row.term for row in estimate.narrow] == [1, 2]
    assert estimate.narrow[0].error == pytest.approx(np.mean(np.square(lost)) / np.var(target(X)))
    assert f"the NMSE is {estimate.narrow[0].error:.2g}" in estimate.verdict


def test_pairs_of_different_tokens_ask_for_a_mask_where_a_token_would_choose_itself():
    words = " ".join(hm.advise("min(s!=t) |x[s] - x[t]|^2", 10, n_samples=32).needs)
    assert "100% of the sampled tokens would be their own best partner" in words
    assert "mask" not in " ".join(hm.advise("min(s,t) x[s]' x[t]", 10, n_samples=32).needs)
    shape = hm.Architecture(10, 1, (1, 1), 4)
    closest = hm.estimate_cost("min(s!=t) |x[s] - x[t]|^2", shape, n_samples=32, thresholds=False)
    assert any("by a mask" in line for line in closest.assumptions)
