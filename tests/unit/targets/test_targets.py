"""Targets against plain loops, derivatives and the numbers of the InfoFlow paper."""

from __future__ import annotations

import time
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.targets import best_tuple

import hardmax as hm
from hardmax.errors import (
    DimensionMismatchError,
    GrowingActiveSetError,
    InvalidInputError,
    NotFiniteError,
)
from hardmax.targets import (
    FixedTerm,
    InputDomain,
    Interval,
    Term,
    measure_active,
    switch_support,
    winning_supports,
)
from hardmax.targets.sampling import active_by_differences
from hardmax.targets.tokens import Bilinear, SquaredSum, as_matrix

RNG = np.random.default_rng(7)
GENERIC = RNG.standard_normal((3, 2, 2))


def targets():
    """One of each kind, with the dimension at which it is interesting."""
    return {
        "retrieval": hm.targets.retrieval(3),
        "pairs": hm.targets.pairwise(GENERIC),
        "one pair": hm.targets.pairwise(GENERIC[:1], domain="cube11"),
        "multiples of the identity": hm.targets.pairwise([np.eye(2), 2 * np.eye(2)]),
        "numbers, positive factor": hm.targets.pairwise([[[1.0]]], domain="cube11"),
        "numbers, negative factor": hm.targets.pairwise([[[-1.0]]], domain="cube11"),
        "triangle": hm.targets.triangle_center(),
        "triangle of numbers": hm.targets.triangle_center(1),
        "triangle in [0,1]": hm.targets.triangle_center(1, domain="cube01"),
        "triangle in [0,1]^2": hm.targets.triangle_center(2, domain="cube01"),
        "depth": hm.targets.depth_separation(),
        "depth in [0,1]": hm.targets.depth_separation(domain="cube01"),
        "second": hm.targets.kth_largest(2),
        "third": hm.targets.kth_largest(3),
        "positions": hm.targets.position_sum([0, 2]),
        "diameter": hm.targets.parse("max(s<t) |x[s] - x[t]|^2", d=2),
        "two kinds": hm.targets.parse(
            "max(s,t) x[s]' A x[t] + min(t) x[t][0] + x[1][1]", matrices={"A": GENERIC[0]}
        ),
        "a product": hm.targets.parse("exp(max(t) x[t][0]) * min(t) x[t][1]"),
    }


ALL = targets()


# Values, winners, active sets
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["all", "distinct", "unordered", "subsets"])
@pytest.mark.parametrize("extremum", ["max", "min"])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_winners_are_those_of_a_plain_loop(kind, extremum, arity):
    X = RNG.standard_normal((4, 5, 2))
    functions = {
        1: [lambda x: (x * x).sum(-1) + x[..., 0]],
        2: [
            Bilinear(as_matrix(GENERIC[0], "A")),
            SquaredSum(2),
            lambda x, y: x[..., 0] * y[..., 1] - y[..., 0],
        ],
        3: [SquaredSum(3), lambda x, y, z: ((x - 2 * y + z) ** 2).sum(-1)],
    }[arity]
    for function in functions:
        term = Term(function, arity, extremum, kind)
        winners = term.winners(X)
        for b in range(len(X)):
            value, winner = best_tuple(function, X[b], arity, extremum, kind)
            assert term.values(X, winners)[b] == pytest.approx(value)
            if term.symmetric:
                assert sorted(winners[b]) == sorted(winner)
            else:
                assert tuple(winners[b]) == winner


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 7), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
def test_the_triangle_kernel_finds_the_first_shortest_triple(d, T, n, distinct, seed):
    """Small whole numbers, so that many triples tie and sums are exact."""
    if distinct and T < 3:
        return
    X = np.random.default_rng(seed).integers(-2, 3, size=(n, T, d)).astype(float)
    winners = hm.targets.triangle_center(d, distinct=distinct).winners(X)[0]
    for b in range(n):
        triples = [I for I in combinations_with_replacement(range(T), 3) if not distinct or len(set(I)) == 3]
        lengths = [float((X[b, list(I)].sum(0) ** 2).sum()) for I in triples]
        assert tuple(winners[b]) == triples[int(np.argmin(lengths))]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["all", "distinct", "unordered", "subsets"]),
    st.sampled_from(["max", "min"]),
    st.integers(2, 6),
    st.integers(0, 10**6),
)
def test_ties_go_to_the_first_tuple(kind, extremum, T, seed):
    """Small whole numbers again: compiled, multiplied and called on blocks, the first of equals wins."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(3, T, 2)).astype(float)
    matrix = rng.integers(-1, 2, size=(2, 2)).astype(float)
    for function in (Bilinear(as_matrix(matrix, "A")), lambda x, y: x[..., 0] - y[..., 1] * x[..., 1]):
        winners = Term(function, 2, extremum, kind).winners(X)
        assert [tuple(w) for w in winners] == [best_tuple(function, x, 2, extremum, kind)[1] for x in X]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["retrieval", "pairs", "triangle", "depth", "third", "diameter"]), st.integers(0, 10**6)
)
def test_permuting_tokens_permutes_the_active_set(name, seed):
    rng = np.random.default_rng(seed)
    X = ALL[name].sample(4, 7, rng)
    order = rng.permutation(7)
    assert np.allclose(ALL[name](X[:, order]), ALL[name](X))
    assert np.array_equal(ALL[name].active_set(X[:, order]), ALL[name].active_set(X)[:, order])


def test_blocks_do_not_change_the_answer(monkeypatch):
    from hardmax.targets import terms

    target = ALL["diameter"]
    X = target.sample(20, 9)
    whole = target.winners(X)[0]
    monkeypatch.setattr(terms, "_BLOCK", 50)
    assert np.array_equal(target.winners(X)[0], whole)
    pairs = ALL["pairs"]
    Y = pairs.sample(20, 9)
    small = pairs.winners(Y)
    monkeypatch.undo()
    assert all(np.array_equal(a, b) for a, b in zip(small, pairs.winners(Y), strict=True))


@pytest.mark.parametrize("name", list(ALL))
def test_active_sets_are_where_the_function_changes(name):
    target = ALL[name]
    X = target.sample(40, 7, 3)
    by_winners = target.active_set(X)
    by_differences = active_by_differences(target, X, step=1e-7)
    assert (by_winners == by_differences).mean() > 0.995  # a difference may step over a wall
    assert (by_winners == by_differences).all(axis=1).mean() > 0.95


@pytest.mark.parametrize("name", ["retrieval", "pairs", "triangle", "depth", "second", "positions"])
def test_active_sets_are_those_of_autodiff(name):
    torch = pytest.importorskip("torch")

    def value(X):
        if name == "retrieval":
            return X.max(dim=1).values.sum(dim=1)
        if name == "pairs":
            scores = torch.einsum("bsi,kij,btj->bkst", X, torch.tensor(GENERIC), X)
            return scores.flatten(2).max(dim=2).values.sum(dim=1)
        if name == "triangle":
            sums = X[:, :, None, None] + X[:, None, :, None] + X[:, None, None, :]
            return (sums**2).sum(-1).flatten(1).min(dim=1).values
        if name == "depth":
            return (2 + 2 * X @ X.transpose(1, 2)).flatten(1).min(dim=1).values
        if name == "second":
            return X[:, :, 0].topk(2, dim=1).values[:, 1]
        return X[:, [0, 2]].sum(dim=(1, 2))

    target = ALL[name]
    X = target.sample(200, 9, 1)
    tokens = torch.tensor(X, requires_grad=True)
    result = value(tokens)
    result.sum().backward()
    assert np.allclose(result.detach().numpy(), target(X))
    slopes = tokens.grad.abs().amax(dim=2).numpy()
    assert np.array_equal(slopes > 1e-9 * slopes.max(axis=1, keepdims=True), target.active_set(X))


def test_the_example_of_appendix_e():
    target = hm.targets.parse("min(s,t) x[s]' x[t]", d=2)
    X = [[[0, -1], [0.7, 0.7], [0, 1], [-0.2, -0.9]]]
    assert target(X)[0] == -1.0
    assert target.active_set(X).tolist() == [[True, False, True, False]]
    assert target.comparisons(4).exact
    assert target.comparisons(4).high == 0


def test_the_example_of_figure_2():
    target = hm.targets.parse("max(t) x[t] + min(t) x[t]", domain="cube01")
    X = [[[0.1], [0.3], [0.4], [0.2]]]
    assert target(X)[0] == pytest.approx(0.5)
    assert [tuple(w[0]) for w in target.winners(X)] == [(2,), (0,)]
    assert target.comparisons(4) == Interval(6, 6, target.comparisons(4).reasons)


@pytest.mark.parametrize(("T", "share"), [(4, 0.25), (16, 0.0625)])
def test_retrieval_of_two_maxima_may_need_one_token(T, share):
    sizes = hm.targets.retrieval(2).active_set(hm.targets.retrieval(2).sample(40_000, T)).sum(axis=1)
    assert (sizes < 2).mean() == pytest.approx(share, abs=0.01)


def test_depth_separation_on_the_unit_cube_is_the_shifted_target():
    X = RNG.random((50, 6, 3))
    shifted = hm.targets.depth_separation(domain="cube01")
    assert np.allclose(shifted(X), hm.targets.depth_separation()(2 * X - 1))
    assert not np.allclose(shifted(X), hm.targets.depth_separation(domain="cube01", shifted=False)(X))


def test_an_outer_function_may_ignore_a_term():
    target = hm.Target(
        [Term(lambda x: x[..., 0]), Term(lambda x: x[..., 1])],
        lambda v: v.max(axis=1),
        d_token=2,
        domain="cube01",
    )
    X = target.sample(300, 5)
    assert (target.active_set(X).sum(axis=1) == 1).all()
    assert target.max_active.low == 1


def test_a_hundred_thousand_sequences_take_seconds():
    """Seconds of the processor for 100,000; a tenth of them here, with room for a busy machine."""
    target = hm.targets.triangle_center()
    X = target.sample(10_000, 64)
    target(X[:1])
    start = time.process_time()
    target(X)
    assert time.process_time() - start < 2.0


# What the paper asks of a target
# -------------------------------------------------------------------------------------------

KNOWN = {  # D_0, dimension, order; None where the interval is open
    "retrieval": (3, 1, 1),
    "pairs": (6, 2, 2),
    "one pair": (2, 2, 2),
    "multiples of the identity": (1, 1, 1),
    "numbers, positive factor": (1, 1, 1),
    "numbers, negative factor": (2, 1, 1),
    "triangle": (3, 3, 3),
    "triangle of numbers": (3, 3, None),
    "triangle in [0,1]": (1, 1, 1),
    "triangle in [0,1]^2": (3, 3, 3),
    "depth": (2, 2, 2),
    "depth in [0,1]": (2, 2, 2),
    "second": (1, None, None),
    "positions": (2, 1, 1),
    "diameter": (2, 2, None),
}


@pytest.mark.parametrize("name", list(KNOWN))
def test_what_is_known_of_the_targets(name):
    target = ALL[name]
    for interval, value in zip((target.max_active, target.dimension, target.order), KNOWN[name], strict=True):
        if value is None:
            assert not interval.exact
        else:
            assert interval.exact, interval.reasons
            assert interval.low == value
        assert interval.reasons


def test_retrieval_needs_every_position_in_every_tree():
    for D in (1, 2, 3, 6):
        target = hm.targets.retrieval(D)
        for T in (D, D + 1, 2 * D + 1, 64):
            exact = target.comparisons(T)
            assert exact.exact
            assert exact.low == (D * (T - 1) if T > D else 0)


def test_numbers_of_comparisons_of_pairs():
    for T, D, high in ((8, 2, None), (10, 2, 76), (64, 6, 6 * (comb(64, 2) - comb(12, 2) - 1))):
        target = hm.targets.pairwise(np.random.default_rng(D).standard_normal((D, 4, 4)))
        assert target.max_active.exact
        found = target.comparisons(T)
        if high is None:  # T = 8 is D_0 times the dimension: nothing is compared
            assert found.exact
            assert found.high == 0
        else:
            assert found.high == high
            assert 0 < found.low < high


@pytest.mark.parametrize("T", [10, 12, 18, 64, 128, 1024])
def test_numbers_of_comparisons_of_the_triangle(T):
    found = ALL["triangle"].comparisons(T)
    assert found.high == comb(T, 3) - 21
    if T >= 18:
        assert found.low == comb(T - 3, 3) - 3
    assert found.low < comb(T, 3) - 3  # the lower bound of appendix D.1 is not ours
    assert ALL["triangle"].comparisons(9).high == 0


def test_three_different_tokens_can_win_in_the_unit_square():
    """So the triangle-center target retrieves three tokens on [0,1]^2 too."""
    tokens = np.array([[6, 3], [8, 0], [2, 8]])  # in tenths: whole numbers decide
    lengths = {
        I: int((tokens[list(I)].sum(0) ** 2).sum()) for I in combinations_with_replacement(range(3), 3)
    }
    assert lengths.pop((0, 1, 2)) == 377 < 388 == min(lengths.values())
    target = hm.targets.triangle_center(2, domain="cube01")
    assert target.active_set([tokens / 10]).all()


def test_any_number_of_disjoint_triples_can_tie_in_the_unit_square():
    """Moved across their sum by steps that add up to zero, in whole numbers."""
    tokens, across = np.array([[6, 3], [8, 0], [2, 8]]) * 10_000, np.array([-11, 16])
    steps = [(0, 0), (1, 5), (-2, 11)]
    copies = [tokens + np.outer((a, b, -a - b), across) for a, b in steps]
    X = np.concatenate(copies)
    lengths = {I: int((X[list(I)].sum(0) ** 2).sum()) for I in combinations_with_replacement(range(9), 3)}
    least = min(lengths.values())
    assert [I for I, length in lengths.items() if length == least] == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_any_number_of_disjoint_pairs_can_tie():
    """Points on a circle and the same points turned by a right angle, in whole numbers."""
    A = np.array([[0, 1], [-1, 0]])
    first = np.array([[65, 0], [63, 16], [60, 25], [56, 33]])
    second = first @ A  # turned: first[j]' A second[k] is the inner product of first[j] and first[k]
    X = np.concatenate([first, second, [[1, 1]]])
    products = X @ A @ X.T
    assert np.argwhere(products == products.max()).tolist() == [[j, j + 4] for j in range(4)]
    assert products.max() == 65**2


def test_walls_depend_on_the_measured_number_of_tokens():
    measured = {
        "retrieval": 1,
        "one pair": 2,
        "multiples of the identity": 1,
        "numbers, positive factor": 1,
        "numbers, negative factor": 1,
        "depth": 2,
        "triangle": 3,
        "triangle in [0,1]": 1,
        "triangle in [0,1]^2": 2,
        "diameter": 2,
    }
    assert {name: switch_support(ALL[name]).dimension for name in measured} == measured


def test_winning_sets_are_counted():
    assert [winning_supports(ALL["depth"], T)[0] for T in (4, 6, 8)] == [6, 15, 28]
    assert [winning_supports(ALL["triangle"], T)[0] for T in (4, 5, 6)] == [4, 10, 20]


def test_permutations_show_whether_positions_matter():
    free = {name: hm.targets.is_permutation_invariant(target) for name, target in ALL.items()}
    assert [name for name, invariant in free.items() if not invariant] == ["positions", "two kinds"]


def test_duplicate_terms_count_once():
    A = GENERIC[0]
    target = hm.targets.pairwise([A, 3.5 * A, A.T])
    assert len(target.roles) == 1
    assert target.max_active.high == 2
    minus = hm.Target(
        [Term(Bilinear(as_matrix(-2 * A, "A")), 2, "min"), Term(Bilinear(as_matrix(A, "A")), 2)], d_token=2
    )
    assert len(minus.roles) == 1


def test_a_hint_is_not_a_proof():
    """Four tokens on a wall prove pairs; six do not prove triples, because three trees of pairs hold six."""
    triple = hm.targets.parse(
        "min(r,s,t) (|x[r] + x[s] + x[t]|^2 + 0 * x[r][0])", d=2
    )  # recognised all the same
    assert isinstance(triple.terms[0].function, SquaredSum)
    other = hm.targets.parse("min(r,s,t) |x[r] + x[s] + 1.5 * x[t]|^2", d=2)
    assert other.dimension.low == 3
    assert not other.dimension.exact
    assert other.dimension.assuming
    assert hm.targets.parse("max(s<t) |x[s] - x[t]|^2", d=2).dimension.exact


def test_terms_that_cancel_are_refused():
    """Their sum is 0 everywhere: no token is active, and an exact number of comparisons would be a lie."""
    with pytest.raises(InvalidInputError, match="term 0 and term 1 add up to 0"):
        hm.targets.parse("max(t) x[t] - max(t) x[t]", d=1)
    with pytest.raises(InvalidInputError, match="add up to 0"):
        hm.targets.parse("max(t) x[t][0] + max(s,t) x[s]' A x[t] - max(s,t) x[s]' A x[t]", d=2, rng=0)
    for text in ("max(t) x[t] - min(t) x[t]", "max(t) x[t] - 2 max(t) x[t]", "max(t) x[t] + min(t) x[t]"):
        hm.targets.parse(text, d=1)


@pytest.mark.parametrize("value", ["two", float("nan"), None, 1.5, -1])
def test_numbers_that_are_none_get_one_sentence(value):
    one = hm.targets.retrieval(1)
    for call in (
        lambda: hm.targets.kth_largest(value),
        lambda: hm.targets.triangle_center(value),
        lambda: hm.targets.depth_separation(value),
        lambda: hm.targets.retrieval(value),
        lambda: hm.targets.position_sum([value]),
        lambda: hm.targets.position_sum(value),
        lambda: Term(max, arity=value),
        lambda: one.comparisons(value),
        lambda: one.trees(value),
        lambda: one.sample(2, value),
    ):
        with pytest.raises(InvalidInputError, match=r"must (be|name|hold)"):
            call()


# Bad input
# ------------------------------------------------------------------------------------------


def test_no_terms_are_refused():
    for make in (
        lambda: hm.targets.retrieval([]),
        lambda: hm.targets.retrieval(0),
        lambda: hm.targets.pairwise([]),
        lambda: hm.Target([]),
        lambda: hm.targets.position_sum([]),
    ):
        with pytest.raises(InvalidInputError, match="at least one"):
            make()


def test_one_token_is_enough_where_positions_may_repeat():
    for name in ("retrieval", "pairs", "triangle", "depth"):
        target = ALL[name]
        X = target.sample(3, 1)
        assert target(X).shape == (3,)
        assert target.active_set(X).all()
        assert target.comparisons(1).high == 0
    with pytest.raises(InvalidInputError, match="at least 2 tokens"):
        ALL["diameter"]([[[0.0, 0.0]]])
    with pytest.raises(InvalidInputError, match=r"of this target must be .* at least 2, but was 1"):
        ALL["second"].comparisons(1)


def test_an_unknown_position_is_named():
    with pytest.raises(InvalidInputError, match="position 2 is unknown in a sequence of 2 tokens"):
        ALL["positions"](np.zeros((1, 2, 1)))
    with pytest.raises(InvalidInputError, match="at least 0, but was -1"):
        hm.targets.position_sum([-1])
    with pytest.raises(InvalidInputError, match="each position once"):
        FixedTerm((1, 1))


def test_a_growing_active_set_is_refused():
    with pytest.raises(GrowingActiveSetError, match="64 at T = 64"):
        measure_active(lambda X: (X**2).sum(axis=(1, 2)))
    with pytest.raises(GrowingActiveSetError, match="column 1 "):
        hm.targets.parse("sum(t) x[t]")
    pairs = ALL["pairs"]
    assert max(measure_active(pairs, d=2, domain="gaussian").values()) <= pairs.max_active.high


def test_wrong_arrays_are_refused():
    target = ALL["pairs"]
    with pytest.raises(DimensionMismatchError, match=r"\(B, T, 2\).*\(T, 2\).*\(6,\)"):
        target(np.zeros(6))
    with pytest.raises(DimensionMismatchError, match=r"\(1, 4, 3\)"):
        target(np.zeros((1, 4, 3)))
    with pytest.raises(DimensionMismatchError, match="T at least 1"):
        target(np.zeros((1, 0, 2)))
    with pytest.raises(NotFiniteError, match="NaN"):
        target(np.full((1, 3, 2), np.nan))
    assert target(np.zeros((0, 3, 2))).shape == (0,)


def test_wrong_functions_are_refused():
    with pytest.raises(DimensionMismatchError, match=r"must return shape \(64,\)"):
        hm.targets.retrieval([lambda x: x])
    with pytest.raises(InvalidInputError, match=r"does not change with token 1"):
        hm.Target([Term(lambda x, y: x[..., 0], 2)])
    with pytest.raises(InvalidInputError, match="raised TypeError"):
        hm.Target([Term(lambda x: x[..., 0], 2)])
    with pytest.raises(InvalidInputError, match="does not change with token 1"):
        hm.Target([FixedTerm((0, 3), lambda tokens: tokens[:, 0, 0])])
    with pytest.raises(NotFiniteError, match="on tokens of its domain"):
        hm.targets.parse("max(t) log(x[t])", domain="cube11")
    with pytest.raises(DimensionMismatchError, match="outer, on term values"):
        hm.Target([Term(lambda x: x[..., 0])], lambda v: v)([[[1.0]]])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: InputDomain("sphere"), "domain must be one of"),
        (lambda: Term(3), "callable"),
        (lambda: Term(abs, 0), "arity"),
        (lambda: Term(abs, 1, "sup"), "extremum"),
        (lambda: Term(abs, 2, "max", "triples"), "tuples"),
        (lambda: Term(abs, 2, rank=2), "rank must be 1"),
        (lambda: hm.targets.kth_largest(0), "k must be"),
        (lambda: hm.targets.pairwise([[[1.0, 2.0]]]), "square"),
        (lambda: hm.targets.pairwise([np.zeros((2, 2))]), "must not be zero"),
        (lambda: hm.targets.pairwise([np.full((2, 2), np.inf)]), "NaN or an infinity"),
        (lambda: hm.targets.retrieval(3, d=2), "at least 3"),
        (lambda: hm.Target([abs]), "Term or FixedTerm"),
        (lambda: hm.Target([Term(abs)], d_token=0), "d_token"),
        (lambda: Interval(2, 1), "at most high"),
        (lambda: hm.targets.retrieval(1).comparisons(0), "at least 1, but was 0"),
        (lambda: hm.targets.retrieval(1).comparisons(2.5), "must be an integer"),
    ],
)
def test_other_bad_input_gets_one_sentence(make, problem):
    with pytest.raises(InvalidInputError, match=problem) as error:
        make()
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_an_interval_speaks_for_itself():
    found = ALL["triangle"].comparisons(64)
    assert str(found) == "35987 to 41643"
    assert 40_000 in found
    assert 42_000 not in found
    assert found.to_dict()["exact"] is False


@pytest.mark.parametrize("name", ["pairs", "triangle", "retrieval"])
def test_one_sequence_gives_the_row_of_a_batch(name):
    target = ALL[name]
    X = target.sample(5, 6, 3)
    for method in (target, target.term_values):  # a product of matrices may be summed in another order
        np.testing.assert_allclose(method(X[2]), method(X)[2], rtol=1e-12)
    for method in (target.active_set, *target.trees(6)):
        np.testing.assert_array_equal(method(X[2]), method(X)[2])
    for one, many in zip(target.winners(X[2]), target.winners(X), strict=True):
        np.testing.assert_array_equal(one, many[2])
