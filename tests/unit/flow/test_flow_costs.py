"""The cost law and equation (5) against golden values, plain sums and laws."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import DimensionMismatchError, InvalidInputError
from hardmax.flow.costs.cost_law import (
    cost_exponents,
    cost_of,
    maximum_comparisons,
    minimal_set_size,
    model_comparisons,
    position_size,
    size_recursion,
)


def shape(heads, T, d=2, width=None):
    product = int(np.lcm.reduce(np.array(heads)))
    return hm.Architecture(T, d, heads, product if width is None else width)


# Equation (5)
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "T", "beta1", "number"),
    [
        ((1, 1), 4, 2, 38),
        ((1, 1), 8, 2, 102),
        ((1, 1), 16, 2, 326),
        ((1, 1), 64, 2, 4358),
        ((1, 2), 64, 2, 4437),
        ((2, 1), 64, 2, 8792),
        ((2, 2), 64, 2, 8894),
        ((5, 6), 64, 2, 24797),
        ((6, 5), 64, 2, 29672),
        ((6, 6), 64, 2, 30358),
        ((1,), 64, 1, 63),
        ((6,), 64, 1, 383),
        ((5, 5), 64, 1, 21148),
        ((2, 2, 2), 32, 2, 7711),
        ((4, 4), 64, 3, 38454),
    ],
)
def test_the_most_that_max_position_retrieval_reaches(heads, T, beta1, number):
    model = shape(heads, T)
    assert int(model_comparisons(model, beta1)) == number  # by the recursion of sizes
    assert int(maximum_comparisons(model, beta1)) == number  # in closed form
    assert str(maximum_comparisons(model, beta1)) == f"{number} (equation (5), printed)"


def test_the_empty_set_of_appendix_e_counts_minus_one_as_printed():
    sizes = ([2], [0, 2])
    model = shape((1, 1), 4)
    assert int(model_comparisons(model, 2, sizes=sizes)) == 32
    assert int(model_comparisons(model, 2, sizes=sizes, version="clamped")) == 33
    assert int(model_comparisons(model, 2, sizes=sizes, version="repaired", max_active=2)) == 48
    # with the sum written out: four tokens of 2 in one head, CLS with nothing and with 2
    assert 4 * (2**2 - 1 + 3) + (0 - 1 + 3) + (2**2 - 1 + 3) == 32


def test_the_single_global_head_of_section_6_is_refused_as_printed():
    """D(T - D) = 15 comparisons for D = 3 maxima of T = 8, which a head that reads all surely finds."""
    model, everything = shape((1,), 8), ([], [8])
    assert int(model_comparisons(model, 1, sizes=everything)) == 14 < 15
    repaired = model_comparisons(model, 1, sizes=everything, version="repaired", max_active=3)
    assert int(repaired) == 28 >= 3 * 7
    assert (repaired.version, repaired.max_active) == ("repaired", 3)


@pytest.mark.parametrize(
    ("h1", "h2", "T", "exact", "right"),
    [(1, 1, 64, 4358, 4365), (1, 2, 64, 4437, 4385), (2, 2, 64, 8894, 8785), (6, 6, 64, 30358, 29825)],
)
def test_inequality_47_fails_from_three_heads_on(h1, h2, T, exact, right):
    printed = T * (h1 + 1) ** 2 - T + h1 * T * (T - 1) + h1**2 + (h1 + 1) ** 2 * (h2 + 1) ** 2 - 2
    assert printed + 2 * (T - 1) == right
    assert int(maximum_comparisons(shape((h1, h2), T), 2)) == exact
    assert (exact <= right) is (h1 + h2 < 3)
    assert exact <= printed + (h1 + h2) * (T - 1)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 50), st.integers(1, 3))
def test_closed_form_recursion_and_plain_sum_agree(heads, T, beta1):
    model = shape(tuple(heads), T)
    tokens, cls = size_recursion(model)
    total, tok, own = 0, 1, 0
    for l, h in enumerate(heads, start=1):
        own, tok = min(T, own + h * tok), min(T, tok * (1 + h))
        if l < len(heads):
            assert tokens[l - 1] == tok
            for _ in range(T):
                total += tok**beta1 - 1 + sum(T - 1 for _ in range(h))
        assert cls[l - 1] == own
        total += own**beta1 - 1 + sum(T - 1 for _ in range(h))
    assert int(model_comparisons(model, beta1)) == int(maximum_comparisons(model, beta1)) == total
    repaired = maximum_comparisons(model, beta1, version="repaired", max_active=1)
    assert int(repaired) == total  # nothing is empty at the maximum, and D0 = 1 changes nothing


def test_a_flow_is_counted_input_by_input():
    rng = np.random.default_rng(0)
    rules = [hm.MaxPosition(hm.BilinearScore(rng.normal(size=(2, 2)))) for _ in range(2)]
    last = hm.MaxPosition(hm.KeyScore(lambda k: k[:, :, 0, 0]))
    model = hm.Architecture(7, 2, (2, 1), 4)
    flow = hm.information_sets(
        model, hm.Plan([{"tokens": rules}, {"cls": last}]), rng.normal(size=(20, 7, 2))
    )
    count = model_comparisons(flow, 2)
    assert len(count.per_input) == 20
    assert max(count.per_input) == int(count) <= int(maximum_comparisons(model, 2))
    for i in (0, 13):
        sizes = (flow.sizes.tokens[i], flow.sizes.cls[i])
        assert int(model_comparisons(model, 2, sizes=sizes)) == count.per_input[i]


def least_heads(wanted, T, heads_of, beta1=1, **version):
    return next(
        s for s in range(1, 99) if int(maximum_comparisons(heads_of(s, T), beta1, **version)) >= wanted
    )


@pytest.mark.parametrize(
    ("D", "T", "by_paper", "by_equation_5"),
    [
        (2, 4, 2, 2), (3, 8, 3, 2), (4, 8, 3, 3), (6, 16, 4, 4), (6, 31, 5, 5), (6, 32, 6, 5), (6, 36, 6, 6),
        (6, 64, 6, 6),
    ],
)  # fmt: skip
def test_heads_that_counting_asks_of_one_layer_for_retrieval(D, T, by_paper, by_equation_5):
    def one_layer(s, T):
        return shape((s,), T)

    wanted = D * (T - D)
    assert -(-wanted // (T - 1)) == by_paper
    assert least_heads(wanted, T, one_layer) == by_equation_5
    assert -(-D * (T - 1) // (T - 1)) == D  # with the exact number of comparisons


@pytest.mark.parametrize(
    ("D", "T", "heads"), [(3, 4, 2), (3, 5, 3), (4, 8, 3), (4, 10, 4), (6, 25, 5), (6, 26, 6)]
)
def test_heads_by_the_repaired_equation(D, T, heads):
    """D(T-1) comparisons, and s heads reach s(T-1) + D(s-1)."""
    assert least_heads(D * (T - 1), T, lambda s, T: shape((s,), T), version="repaired", max_active=D) == heads


def test_heads_of_one_layer_for_the_depth_separation_target():
    for T, ordered, unordered in [(8, 6, 3), (16, 11, 6), (64, 40, 24)]:
        assert least_heads(T * T - 1, T, lambda s, T: shape((s,), T), 2) == ordered
        assert least_heads(comb(T, 2) - 1, T, lambda s, T: shape((s,), T), 2) == unordered
        assert int(maximum_comparisons(shape((1, 1), T), 2)) >= T * T - 1


# M
# ------------------------------------------------------------------------------------------------------------

TRIANGLE = [
    (16, (2, 2), 2), (16, (4, 4), 1), (32, (2, 2), 5), (32, (4, 4), 3), (64, (2, 2), 8), (64, (4, 4), 8),
    (128, (2, 2), 14), (128, (4, 4), 13), (256, (2, 2), 22), (256, (4, 4), 22), (1024, (2, 2), 56),
    (1024, (4, 4), 56), (4096, (2, 2), 141), (4096, (4, 4), 141), (64, (4,) * 4, 1), (128, (4,) * 4, 8),
    (256, (4,) * 4, 14), (1024, (4,) * 4, 38),
]  # fmt: skip


@pytest.mark.parametrize(("T", "heads", "M"), TRIANGLE)
def test_set_sizes_that_counting_asks_for_the_triangle_target(T, heads, M):
    assert minimal_set_size(comb(T, 3) - 3, shape(heads, T), 3) == M


@pytest.mark.parametrize(("h", "M"), [(1, 8), (2, 8), (4, 7), (8, 4)])
def test_set_sizes_with_the_safe_number_of_comparisons(h, M):
    assert minimal_set_size(comb(61, 3) - 3, shape((h, h), 64), 3) == M


def test_first_length_at_which_counting_says_anything_about_table_12():
    """Exponent max(2M/E - 1, 0) with the paper's own number of comparisons C(T, 3) - 3."""

    def first(h, width):
        return next(
            T
            for T in range(3, 1000)
            if cost_exponents(minimal_set_size(comb(T, 3) - 3, shape((h, h), T), 3), 2, width).law > 0
        )

    assert (first(2, 24), first(4, 24), first(4, 48)) == (111, 118, 303)


def test_heads_that_make_single_tokens_enough():
    for T, heads in [(16, 3), (32, 5), (64, 11), (128, 21), (256, 43)]:
        wanted = comb(T, 3) - 3
        assert next(h for h in range(1, 99) if minimal_set_size(wanted, shape((h, h), T), 3) == 1) == heads


@given(
    st.integers(0, 10**7),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 30),
    st.integers(1, 3),
    st.sampled_from([("printed", None), ("repaired", 2)]),
)
def test_the_minimal_set_size_is_minimal(wanted, heads, T, beta1, version):
    model = shape(tuple(heads), T)
    name, D0 = version
    M = minimal_set_size(wanted, model, beta1, version=name, max_active=D0)
    L = len(heads)

    def count(m):
        inside = (T * (L - 1) + L) * (m**beta1 - 1) * (D0 or 1)
        return inside + (T - 1) * (T * sum(heads[:-1]) + sum(heads))

    assert count(M) >= wanted
    assert M == 1 or count(M - 1) < wanted
    if M <= T and name == "printed":
        sizes = ([M] * (L - 1), [M] * L)
        assert int(model_comparisons(model, beta1, sizes=sizes)) == count(M)


# The cost law
# ------------------------------------------------------------------------------------------------------------


def test_five_forms_of_the_law():
    forms = cost_exponents(64, 4, 36).versions
    assert forms == {
        "law": Fraction(55, 9),
        "upper": Fraction(64, 9),
        "appendix_b": Fraction(16, 9),
        "section_4": Fraction(16, 9),
        "section_6": Fraction(64, 9),
    }
    assert cost_exponents(2, 4, 36, n_tokens=64).section_6 == Fraction(64, 9)
    assert cost_exponents(2, 4, 36).law == 0


@pytest.mark.parametrize(
    ("T", "width", "exponents"),
    [
        (64, 24, (0, 0)), (128, 24, ("1/6", "1/12")), (256, 24, ("5/6",) * 2), (512, 24, ("23/12",) * 2),
        (1024, 24, ("11/3",) * 2), (4096, 24, ("43/4",) * 2), (256, 48, (0, 0)), (512, 48, ("11/24",) * 2),
        (1024, 48, ("4/3",) * 2), (4096, 48, ("39/8",) * 2),
    ],
)  # fmt: skip
def test_cost_exponents_of_the_triangle_target(T, width, exponents):
    for h, exponent in zip((2, 4), exponents, strict=True):
        M = minimal_set_size(comb(T, 3) - 3, shape((h, h), T), 3)
        assert cost_exponents(M, 2, width).law == Fraction(exponent)


def test_a_sum_of_three_positions():
    """x1 + x2 + x3 with rule 3: exponent 3d/E - 1; (5) gives 11 for ten tokens."""
    for width, exponent in [(2, 2), (4, Fraction(1, 2)), (6, 0)]:
        model = hm.Architecture(10, 2, (1,), width)
        flow = hm.information_sets(model, hm.Plan([{"cls": hm.Positions([0, 1, 2])}]), np.zeros((1, 10, 2)))
        assert cost_of(flow).exponent == exponent
        assert int(model_comparisons(flow, 1)) == 11


@pytest.mark.parametrize("D", [2, 4, 6])
def test_pruning_decides_the_cost_of_proposition_1(D):
    """E = 6D, d = 4: exponent 1/3 for every D with 2D tokens kept, (D^2 + 2D) 4/E - 1 without pruning."""
    assert cost_exponents(2 * D, 4, 6 * D).law == Fraction(1, 3)
    assert cost_exponents(D * D + 2 * D, 4, 6 * D).law == Fraction(4 * (D + 2), 6) - 1
    if D == 6:
        assert float(cost_exponents(48, 4, 36).law) == pytest.approx(4.3333, abs=1e-4)


def test_the_cost_of_a_flow_is_charged_per_token_and_layer():
    rng = np.random.default_rng(0)
    rules = [hm.MaxPosition(hm.BilinearScore(rng.normal(size=(3, 3)))) for _ in range(2)]
    plan = hm.Plan([{"tokens": rules, 0: [hm.GlobalRead()]}, {"cls": [hm.Positions([0, 1])]}])
    model = hm.Architecture(5, 3, (2, 1), (4, 3))
    flow = hm.information_sets(model, plan, rng.normal(size=(30, 5, 3)))
    table = cost_of(flow)
    assert [(row["layer"], row["token"]) for row in table.rows] == [(1, t) for t in range(6)] + [(2, 5)]
    by_hand = {}
    for row in table.rows:
        sizes = (
            flow.sizes.cls[:, row["layer"] - 1]
            if row["token"] == 5
            else flow.sizes.tokens[:, 0, row["token"]]
        )
        size, width = int(sizes.max()), (4, 3)[row["layer"] - 1]
        law = max(Fraction(size * 3, width) - 1, Fraction(0))
        assert (row["size"], row["law"], row["upper"]) == (size, law, Fraction(size * 3, width))
        by_hand[law] = by_hand.get(law, 0) + 1
    assert table.terms == by_hand
    assert table.exponent == max(by_hand)
    # rule 3 is charged |I'| max |I| = 2 * 5 by the paper, though only 5 tokens can be there
    assert table.rows[-1]["printed"] == Fraction(position_size(2, 5) * 3, 3) - 1 == 9
    assert table.rows[-1]["law"] == 4
    epsilon = 0.1
    plain = sum(n * epsilon ** -float(p) for p, n in by_hand.items())
    assert table.log10_total(epsilon) == pytest.approx(log10(plain))
    smooth = cost_of(flow, smoothness=Fraction(21, 2))
    assert smooth.exponent == Fraction(21, 2) == smooth.upper
    bound = cost_of(flow, charge="bound")
    assert [row["size"] for row in bound.rows] == [5, 3, 3, 3, 3, 0, 5]
    assert all(seen["size"] <= most["size"] for seen, most in zip(table.rows, bound.rows, strict=True))
    assert smooth.terms == {Fraction(21, 2): 7, **table.terms}
    assert cost_of(flow, version="upper").exponent == table.upper == 5
    assert smooth.log10_total(1e-300) == pytest.approx(300 * 10.5 + log10(7))


def test_tables_survive_a_file(tmp_path):
    flow = hm.information_sets(
        hm.Architecture(3, 1, (1,), 2), hm.Plan([{"cls": hm.GlobalRead()}]), np.zeros((1, 3, 1))
    )
    table = cost_of(flow, smoothness=Fraction(1, 3))
    again = hm.load(table.save(tmp_path / "cost.npz"))
    assert (again.rows, again.terms) == (table.rows, table.terms)
    assert table.to_dict()["rows"][0]["law"] == "1/2"


# What is refused
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda m: model_comparisons(m, 0), InvalidInputError, "beta1 must be an integer of at least 1"),
        (lambda m: model_comparisons(m, 1.5), InvalidInputError, "beta1 must be an integer"),
        (lambda m: model_comparisons(m, 1, version="best"), InvalidInputError, '"printed", "clamped"'),
        (lambda m: model_comparisons(m, 1, version="repaired"), InvalidInputError, "needs max_active"),
        (lambda m: model_comparisons(m, 1, sizes=([1, 2], [1, 1])), DimensionMismatchError, "sizes must be"),
        (lambda m: model_comparisons(m, 1, sizes=([1], [1, 9])), InvalidInputError, "between 0 and 4"),
        (lambda m: model_comparisons(m, 1, sizes=([1], [1, 0.5])), InvalidInputError, "whole numbers"),
        (lambda m: minimal_set_size(1.5, m, 1), InvalidInputError, "n_comparisons must be an integer"),
        (lambda m: cost_exponents(-1, 1, 1), InvalidInputError, "size must be an integer of at least 0"),
        (lambda m: cost_exponents(1, 1, 0), InvalidInputError, "width must be an integer of at least 1"),
        (lambda m: cost_exponents(1.5, 1, 1), InvalidInputError, "size must be an integer"),
    ],
)
def test_numbers_that_count_nothing(ask, error, message):
    with pytest.raises(error, match=message):
        ask(hm.Architecture(4, 1, (1, 1), 1))


def test_costs_that_mean_nothing():
    flow = hm.information_sets(hm.Architecture(4, 1, (1,), 1), hm.Plan([{}]), np.zeros((1, 4, 1)))
    with pytest.raises(InvalidInputError, match="version must be"):
        cost_of(flow, version="appendix_b")
    with pytest.raises(InvalidInputError, match="charge must be"):
        cost_of(flow, charge="mean")
    for smoothness in (-1, float("nan"), float("inf"), "smooth"):
        with pytest.raises(InvalidInputError, match="smoothness must be a number, 0 or more"):
            cost_of(flow, smoothness=smoothness)
    with pytest.raises(InvalidInputError, match="epsilon must lie between 0 and 1"):
        cost_of(flow).log10_total(1.0)
    with pytest.raises(InvalidInputError, match="a flow has its own"):
        model_comparisons(flow, 1, sizes=([], [1]))
